#include "problem.h"

constexpr int kWarp = 32;
constexpr int kThreads = 256;
constexpr int kRowsPerBlock = kThreads / kWarp;

__device__ float warp_sum(float value) {
    for (int offset = kWarp / 2; offset > 0; offset /= 2) {
        value += __shfl_xor_sync(~0u, value, offset);
    }
    return value;
}

// One warp a row, its lanes side by side along the entries.
__global__ void apply_matrix(const int* __restrict__ row_start, const int* __restrict__ columns,
                             const float* __restrict__ values, const float* __restrict__ x,
                             float* __restrict__ y, int rows) {
    const int row = blockIdx.x * kRowsPerBlock + threadIdx.x / kWarp;
    const int lane = threadIdx.x % kWarp;
    if (row >= rows) return;
    const int end = row_start[row + 1];
    float sum = 0;
    for (int k = row_start[row] + lane; k < end; k += kWarp) {
        sum += values[k] * x[columns[k]];
    }
    sum = warp_sum(sum);
    if (lane == 0) y[row] = sum;
}

void launch(const Problem& problem) {
    const int blocks = (problem.rows + kRowsPerBlock - 1) / kRowsPerBlock;
    apply_matrix<<<blocks, kThreads>>>(problem.row_start, problem.columns, problem.values,
                                       problem.x, problem.y, problem.rows);
}
