// c = a * b for dense row-major matrices: a is rows x depth and b is depth x columns, both in half
// precision; c is in float. Rows, columns and depth are multiples of 256.
#pragma once

#include <cuda_fp16.h>

struct Problem {
    int rows, columns, depth;
    const __half* a;
    const __half* b;
    float* c;
};

void launch(const Problem& problem);
