// out[i] = amount[i] * rate[code[i]]
#pragma once

struct Problem {
    int n;
    int codes;
    const float* amount;
    const int* code;
    const float* rate;  // of each code
    float* out;
    float* scratch;
    int scratch_size;  // in floats
};

void launch(const Problem& problem);
