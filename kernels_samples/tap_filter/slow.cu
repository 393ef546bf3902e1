#include "problem.h"

constexpr int kThreads = 256;
constexpr int kTile = kThreads + kTaps - 1;

__global__ void filter(const float* taps, const float* in, float* out, int count) {
    __shared__ float coefficients[kTaps];
    __shared__ float samples[kTile];
    const int first = blockIdx.x * kThreads;
    for (int k = threadIdx.x; k < kTaps; k += kThreads) coefficients[k] = taps[k];
    for (int s = threadIdx.x; s < kTile; s += kThreads) {
        if (first + s < count + kTaps - 1) samples[s] = in[first + s];
    }
    __syncthreads();

    float sum = 0;
    for (int k = 0; k < kTaps; ++k) {
        sum += coefficients[k] * samples[threadIdx.x + k];
    }
    const int i = first + threadIdx.x;
    if (i < count) out[i] = sum;
}

void launch(const Problem& problem) {
    const int blocks = (problem.count + kThreads - 1) / kThreads;
    filter<<<blocks, kThreads>>>(problem.taps, problem.in, problem.out, problem.count);
}
