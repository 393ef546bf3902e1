#include "problem.h"

__global__ void flip(const float* in, float* out, int n) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x;
    const int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < n && y < n) {
        out[x * n + y] = in[y * n + x];
    }
}

void launch(const Problem& problem) {
    const dim3 block(32, 8);
    const dim3 grid((problem.n + 31) / 32, (problem.n + 7) / 8);
    flip<<<grid, block>>>(problem.in, problem.out, problem.n);
}
