// out[i] = sum over k of taps[k] * in[i + k]: a finite impulse response filter of a long signal.
#pragma once

constexpr int kTaps = 128;

struct Problem {
    int count;          // outputs; the signal has count + kTaps - 1 samples
    const float* taps;  // kTaps coefficients
    const float* in;
    float* out;
};

void launch(const Problem& problem);
