#include "problem.h"

#include <cuda_runtime.h>

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kChunk = 16384;  // values of a row that a block takes

struct Norms {
    float sum = 0;
    float squares = 0;
    float largest = 0;

    __device__ void add(float value) {
        sum += fabsf(value);
        squares += value * value;
        largest = fmaxf(largest, fabsf(value));
    }
};

__device__ Norms warp_total(Norms norms) {
    for (int offset = 16; offset > 0; offset /= 2) {
        norms.sum += __shfl_xor_sync(~0u, norms.sum, offset);
        norms.squares += __shfl_xor_sync(~0u, norms.squares, offset);
        norms.largest = fmaxf(norms.largest, __shfl_xor_sync(~0u, norms.largest, offset));
    }
    return norms;
}

// The norms of all threads together, in the first thread.
__device__ Norms block_total(Norms norms) {
    __shared__ float sum[kWarps], squares[kWarps], largest[kWarps];
    const int lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32;
    norms = warp_total(norms);
    if (lane == 0) {
        sum[warp] = norms.sum;
        squares[warp] = norms.squares;
        largest[warp] = norms.largest;
    }
    __syncthreads();
    if (warp == 0) {
        Norms part;
        if (lane < kWarps) {
            part.sum = sum[lane];
            part.squares = squares[lane];
            part.largest = largest[lane];
        }
        norms = warp_total(part);
    }
    return norms;
}

__global__ void row_norms(const float* values, int length, float* out) {
    const int row = blockIdx.y;
    const float4* row_values = reinterpret_cast<const float4*>(values + size_t{1} * row * length);
    const int begin = blockIdx.x * (kChunk / 4);
    const int end = min(begin + kChunk / 4, length / 4);
    Norms norms;
#pragma unroll 4
    for (int i = begin + threadIdx.x; i < end; i += kThreads) {
        const float4 four = row_values[i];
        norms.add(four.x);
        norms.add(four.y);
        norms.add(four.z);
        norms.add(four.w);
    }
    norms = block_total(norms);
    if (threadIdx.x == 0) {
        atomicAdd(&out[3 * row + 0], norms.sum);
        atomicAdd(&out[3 * row + 1], norms.squares);
        // Floats that are not negative are in the same order as their bits.
        atomicMax(reinterpret_cast<int*>(&out[3 * row + 2]), __float_as_int(norms.largest));
    }
}

void launch(const Problem& problem) {
    cudaMemsetAsync(problem.norms, 0, 3 * sizeof(float) * problem.rows);
    const dim3 grid((problem.length + kChunk - 1) / kChunk, problem.rows);
    row_norms<<<grid, kThreads>>>(problem.values, problem.length, problem.norms);
}
