// out = first * (256 - weight) / 256 + second * weight / 256 for every 8-bit channel, rounded.
#pragma once

struct Problem {
    int bytes;   // of each clip, a multiple of 16
    int weight;  // of the second clip, 0 to 256
    const unsigned char* first;
    const unsigned char* second;
    unsigned char* out;
};

void launch(const Problem& problem);
