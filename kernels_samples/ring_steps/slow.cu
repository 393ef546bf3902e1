#include "problem.h"

#include <cuda_runtime.h>

__global__ void advance(const float* __restrict__ now, const float* __restrict__ growth,
                        float* __restrict__ next, int cells) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= cells) return;
    const float left = now[i > 0 ? i - 1 : cells - 1];
    const float right = now[i + 1 < cells ? i + 1 : 0];
    const float u = now[i];
    next[i] = u + kDiffusion * (left - 2 * u + right) + growth[i] * u * (1 - u);
}

void launch(const Problem& problem) {
    const int block = 256;
    const int grid = (problem.cells + block - 1) / block;
    const float* now = problem.start;
    for (int left = problem.steps; left > 0; --left) {
        float* next = left % 2 ? problem.out : problem.workspace;
        advance<<<grid, block>>>(now, problem.growth, next, problem.cells);
        now = next;
    }
}
