#include "problem.h"

constexpr int kThreads = 256;
constexpr int kShare = kColumns / kThreads;  // columns of a thread

// The sum over the block, known to every thread.
__device__ float block_sum(float value) {
    __shared__ float of_warp[kThreads / 32];
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(~0u, value, step);
    __syncthreads();
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
    __syncthreads();
    float total = 0;
    for (int w = 0; w < kThreads / 32; ++w) total += of_warp[w];
    return total;
}

__global__ void normalise(const half* __restrict__ in, const half* __restrict__ scale,
                          const half* __restrict__ shift, half* __restrict__ out) {
    __shared__ half row[kColumns];
    const size_t start = size_t{kColumns} * blockIdx.x;
    float total = 0;
    for (int k = 0; k < kShare; ++k) {
        const int c = k * kThreads + threadIdx.x;
        row[c] = in[start + c];
        total += __half2float(row[c]);
    }
    const float centre = block_sum(total) / kColumns;
    total = 0;
    for (int k = 0; k < kShare; ++k) {
        const int c = k * kThreads + threadIdx.x;
        const float offset = __half2float(row[c]) - centre;
        total += offset * offset;
    }
    const float factor = rsqrtf(block_sum(total) / kColumns + kEpsilon);
    for (int k = 0; k < kShare; ++k) {
        const int c = k * kThreads + threadIdx.x;
        const float unit = (__half2float(row[c]) - centre) * factor;
        out[start + c] = __float2half(unit * __half2float(scale[c]) + __half2float(shift[c]));
    }
}

void launch(const Problem& problem) {
    normalise<<<problem.rows, kThreads>>>(problem.in, problem.scale, problem.shift, problem.out);
}
