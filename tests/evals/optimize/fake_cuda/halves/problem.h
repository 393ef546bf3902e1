// out[i] = gain * in[i] + offset[place[i]], and how many of the in[i] are positive.
#pragma once

struct Problem {
    int n;
    float gain;
    const float* in;
    const int* place;
    const float* offset;
    float* scratch;  // n of them
    float* out;
    int* positive;
};

void launch(const Problem& problem);
