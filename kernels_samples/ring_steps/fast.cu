#include "problem.h"

#include <cuda_runtime.h>

constexpr int kOwn = 64;  // cells that a block brings to the end

// A block takes its own cells and `steps` more on either side: all that can reach its own within
// the run. With each step, one cell on either side is no longer needed.
__global__ void advance(const float* __restrict__ start, const float* __restrict__ growth,
                        float* __restrict__ out, int cells, int steps) {
    extern __shared__ float values[];
    const int width = kOwn + 2 * steps;
    float* now = values;
    float* next = values + width;
    float* rate = values + 2 * width;
    const int first = static_cast<int>(blockIdx.x) * kOwn - steps;
    for (int i = threadIdx.x; i < width; i += blockDim.x) {
        const int place = (first + i) % cells;
        const int cell = place < 0 ? place + cells : place;
        now[i] = start[cell];
        rate[i] = growth[cell];
    }
    __syncthreads();
    for (int step = 1; step <= steps; ++step) {
        for (int i = step + threadIdx.x; i < width - step; i += blockDim.x) {
            const float left = now[i - 1];
            const float right = now[i + 1];
            const float u = now[i];
            next[i] = u + kDiffusion * (left - 2 * u + right) + rate[i] * u * (1 - u);
        }
        __syncthreads();
        float* const done = now;
        now = next;
        next = done;
    }
    const int cell = blockIdx.x * kOwn + threadIdx.x;
    if (threadIdx.x < kOwn && cell < cells) out[cell] = now[steps + threadIdx.x];
}

void launch(const Problem& problem) {
    const int width = kOwn + 2 * problem.steps;
    const int block = width < 1024 ? (width + 31) / 32 * 32 : 1024;
    const int grid = (problem.cells + kOwn - 1) / kOwn;
    const int shared = 3 * width * static_cast<int>(sizeof(float));
    cudaFuncSetAttribute(advance, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
    advance<<<grid, block, shared>>>(problem.start, problem.growth, problem.out, problem.cells,
                                     problem.steps);
}
