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

__global__ void row_mean(const half* in, float* mean) {
    const half* row = in + size_t{kColumns} * blockIdx.x;
    float total = 0;
    for (int k = 0; k < kShare; ++k) total += __half2float(row[k * kThreads + threadIdx.x]);
    total = block_sum(total);
    if (threadIdx.x == 0) mean[blockIdx.x] = total / kColumns;
}

__global__ void row_variance(const half* in, const float* mean, float* variance) {
    const half* row = in + size_t{kColumns} * blockIdx.x;
    const float centre = mean[blockIdx.x];
    float total = 0;
    for (int k = 0; k < kShare; ++k) {
        const int c = k * kThreads + threadIdx.x;
        const float offset = __half2float(row[c]) - centre;
        total += offset * offset;
    }
    total = block_sum(total);
    if (threadIdx.x == 0) variance[blockIdx.x] = total / kColumns;
}

__global__ void normalise(const half* __restrict__ in, const float* __restrict__ mean,
                          const float* __restrict__ variance, const half* __restrict__ scale,
                          const half* __restrict__ shift, half* __restrict__ out) {
    const size_t start = size_t{kColumns} * blockIdx.x;
    const float centre = mean[blockIdx.x];
    const float factor = rsqrtf(variance[blockIdx.x] + kEpsilon);
    for (int k = 0; k < kShare; ++k) {
        const int c = k * kThreads + threadIdx.x;
        const float unit = (__half2float(in[start + c]) - centre) * factor;
        out[start + c] = __float2half(unit * __half2float(scale[c]) + __half2float(shift[c]));
    }
}

void launch(const Problem& problem) {
    row_mean<<<problem.rows, kThreads>>>(problem.in, problem.mean);
    row_variance<<<problem.rows, kThreads>>>(problem.in, problem.mean, problem.variance);
    normalise<<<problem.rows, kThreads>>>(problem.in, problem.mean, problem.variance,
                                          problem.scale, problem.shift, problem.out);
}
