// out[i] = in[i] * gain[band], kept within +-limit, where band = i % kBands; overload[band] is 1
// when any value of the band had to be cut, else 0.
#pragma once

constexpr int kBands = 8;

struct Problem {
    int n;  // a multiple of kBands
    float limit;
    const float* in;
    const float* gain;
    float* out;
    unsigned* overload;
};

void launch(const Problem& problem);
