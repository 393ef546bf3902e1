// out = max(x * transposed(weights) + bias, 0), the forward pass of a dense layer in bfloat16:
// x is rows x depth, weights is columns x depth, out is rows x columns, all row-major.
// Rows, columns and depth are multiples of 256.
#pragma once

#include <cuda_bf16.h>

struct Problem {
    int rows, columns, depth;
    const __nv_bfloat16* x;
    const __nv_bfloat16* weights;
    const float* bias;
    __nv_bfloat16* out;
};

void launch(const Problem& problem);
