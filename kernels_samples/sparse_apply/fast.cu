#include "problem.h"

#include <cuda_runtime.h>

constexpr int kWarp = 32;
constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;
constexpr int kEntriesPerThread = 8;
constexpr int kEntries = kThreads * kEntriesPerThread;  // of a block

__device__ float warp_sum(float value) {
    for (int offset = kWarp / 2; offset > 0; offset /= 2) {
        value += __shfl_xor_sync(~0u, value, offset);
    }
    return value;
}

// The row that holds entry k: the last one to start at or before it. Found by a whole warp, each
// of whose steps leaves a 32nd of the rows.
__device__ int row_of_entry(const int* __restrict__ row_start, int rows, int k, int lane) {
    int low = 0;
    int high = rows;
    while (high - low > 1) {
        const int step = (high - low + kWarp - 1) / kWarp;
        const int probe = low + lane * step;
        const bool at_or_before = probe < high && row_start[probe] <= k;
        low += (__popc(__ballot_sync(~0u, at_or_before)) - 1) * step;
        high = min(high, low + step);
    }
    return low;
}

// A block takes kEntries entries, wherever its rows begin and end.
__global__ void apply_matrix(const int* __restrict__ row_start, const int* __restrict__ columns,
                             const float* __restrict__ values, const float* __restrict__ x,
                             float* __restrict__ y, int rows, int nonzeros) {
    __shared__ float products[kEntries];
    const int begin = blockIdx.x * kEntries;
    const int end = min(begin + kEntries, nonzeros);
    const int warp = threadIdx.x / kWarp;
    const int lane = threadIdx.x % kWarp;
#pragma unroll
    for (int i = 0; i < kEntriesPerThread; ++i) {
        const int k = begin + i * kThreads + threadIdx.x;
        if (k < end) products[k - begin] = values[k] * x[columns[k]];
    }
    const int first_row = row_of_entry(row_start, rows, begin, lane);
    __syncthreads();
    for (int row = first_row + warp; row < rows; row += kWarps) {
        const int row_begin = row_start[row];
        if (row_begin >= end) break;
        const int from = max(row_begin, begin);
        const int to = min(row_start[row + 1], end);
        float sum = 0;
        for (int k = from + lane; k < to; k += kWarp) sum += products[k - begin];
        sum = warp_sum(sum);
        if (lane == 0 && from < to) atomicAdd(&y[row], sum);
    }
}

void launch(const Problem& problem) {
    cudaMemsetAsync(problem.y, 0, sizeof(float) * problem.rows);
    const int blocks = (problem.nonzeros + kEntries - 1) / kEntries;
    apply_matrix<<<blocks, kThreads>>>(problem.row_start, problem.columns, problem.values,
                                       problem.x, problem.y, problem.rows, problem.nonzeros);
}
