#include "problem.h"

constexpr int kThreads = 128;
constexpr int kPack = 8;  // halves in 16 bytes
constexpr int kPacks = kColumns / (kThreads * kPack);

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

__device__ void unpack(uint4 pack, float* values) {
    const half2* pairs = reinterpret_cast<const half2*>(&pack);
    for (int k = 0; k < kPack / 2; ++k) {
        const float2 two = __half22float2(pairs[k]);
        values[2 * k] = two.x;
        values[2 * k + 1] = two.y;
    }
}

__device__ uint4 packed(const float* values) {
    uint4 pack;
    half2* pairs = reinterpret_cast<half2*>(&pack);
    for (int k = 0; k < kPack / 2; ++k) {
        pairs[k] = __floats2half2_rn(values[2 * k], values[2 * k + 1]);
    }
    return pack;
}

__global__ void normalise(const uint4* __restrict__ in, const uint4* __restrict__ scale,
                          const uint4* __restrict__ shift, uint4* __restrict__ out) {
    const size_t start = size_t{kColumns / kPack} * blockIdx.x;
    float values[kPacks][kPack];
    for (int p = 0; p < kPacks; ++p) {
        unpack(__ldcs(&in[start + p * kThreads + threadIdx.x]), values[p]);
    }

    float total = 0;
    for (const auto& pack : values) {
        for (const float value : pack) total += value;
    }
    const float centre = block_sum(total) / kColumns;
    total = 0;
    for (const auto& pack : values) {
        for (const float value : pack) total += (value - centre) * (value - centre);
    }
    const float factor = rsqrtf(block_sum(total) / kColumns + kEpsilon);

    for (int p = 0; p < kPacks; ++p) {
        const int place = p * kThreads + threadIdx.x;
        float factors[kPack];
        float shifts[kPack];
        unpack(__ldg(&scale[place]), factors);
        unpack(__ldg(&shift[place]), shifts);
        for (int k = 0; k < kPack; ++k) {
            values[p][k] = (values[p][k] - centre) * factor * factors[k] + shifts[k];
        }
        out[start + place] = packed(values[p]);
    }
}

void launch(const Problem& problem) {
    normalise<<<problem.rows, kThreads>>>(reinterpret_cast<const uint4*>(problem.in),
                                          reinterpret_cast<const uint4*>(problem.scale),
                                          reinterpret_cast<const uint4*>(problem.shift),
                                          reinterpret_cast<uint4*>(problem.out));
}
