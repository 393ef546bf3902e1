#include "problem.h"

constexpr int kThreads = 128;
constexpr int kOutputs = 16;  // adjacent outputs of one thread
constexpr int kStep = 4;      // taps applied per turn
constexpr int kBlock = kThreads * kOutputs;
constexpr int kTile = kBlock + kTaps;

// Four words of room after every 32, so that threads 16 words apart read from different banks.
__device__ __forceinline__ constexpr unsigned place(unsigned sample) {
    return sample + sample / 32 * 4;
}

__device__ __forceinline__ void read4(const float* from, float* to) {
    const float4 values = *reinterpret_cast<const float4*>(from);
    to[0] = values.x;
    to[1] = values.y;
    to[2] = values.z;
    to[3] = values.w;
}

__global__ void filter(const float* taps, const float* in, float* out, int count) {
    __shared__ __align__(16) float coefficients[kTaps];
    __shared__ __align__(16) float samples[place(kTile)];
    const int first = blockIdx.x * kBlock;
    for (int k = threadIdx.x; k < kTaps; k += kThreads) coefficients[k] = taps[k];
    for (int s = threadIdx.x; s < kTile; s += kThreads) {
        samples[place(s)] = first + s < count + kTaps - 1 ? in[first + s] : 0.0f;
    }
    __syncthreads();

    const int mine = threadIdx.x * kOutputs;
    float sum[kOutputs] = {};
    float window[kOutputs + kStep];
#pragma unroll
    for (int s = 0; s < kOutputs; s += kStep) read4(samples + place(mine + s), window + s);
#pragma unroll 4
    for (int k = 0; k < kTaps; k += kStep) {
        float tap[kStep];
        read4(coefficients + k, tap);
        read4(samples + place(mine + kOutputs + k), window + kOutputs);
#pragma unroll
        for (int t = 0; t < kStep; ++t) {
#pragma unroll
            for (int o = 0; o < kOutputs; ++o) sum[o] += tap[t] * window[o + t];
        }
#pragma unroll
        for (int o = 0; o < kOutputs; ++o) window[o] = window[o + kStep];
    }

    __syncthreads();
#pragma unroll
    for (int o = 0; o < kOutputs; o += kStep) {
        *reinterpret_cast<float4*>(samples + place(mine + o)) =
            make_float4(sum[o], sum[o + 1], sum[o + 2], sum[o + 3]);
    }
    __syncthreads();
    for (int o = threadIdx.x; o < kBlock; o += kThreads) {
        if (first + o < count) out[first + o] = samples[place(o)];
    }
}

void launch(const Problem& problem) {
    const int blocks = (problem.count + kBlock - 1) / kBlock;
    filter<<<blocks, kThreads>>>(problem.taps, problem.in, problem.out, problem.count);
}
