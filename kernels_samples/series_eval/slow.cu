#include "problem.h"

constexpr int kThreads = 256;
constexpr int kPoints = 8;  // per thread
constexpr int kUnroll = 8;

__device__ float2 horner_step(float2 sum, float2 z, float2 term) {
    return make_float2(fmaf(sum.x, z.x, fmaf(-sum.y, z.y, term.x)),
                       fmaf(sum.x, z.y, fmaf(sum.y, z.x, term.y)));
}

__global__ void __launch_bounds__(kThreads) evaluate(const __grid_constant__ Expansions expansions,
                                                     const float2* __restrict__ z,
                                                     float2* __restrict__ field, int points) {
    const int first = blockIdx.x * (kThreads * kPoints) + threadIdx.x;
    float2 at[kPoints];
#pragma unroll
    for (int p = 0; p < kPoints; ++p) at[p] = z[first + p * kThreads];

#pragma unroll 1
    for (int s = 0; s < kSeries; ++s) {
        float2 sum[kPoints];
#pragma unroll
        for (int p = 0; p < kPoints; ++p) sum[p] = expansions.terms[s][kDegree];
#pragma unroll kUnroll
        for (int k = kDegree - 1; k >= 0; --k) {
            const float2 term = expansions.terms[s][k];
#pragma unroll
            for (int p = 0; p < kPoints; ++p) sum[p] = horner_step(sum[p], at[p], term);
        }
#pragma unroll
        for (int p = 0; p < kPoints; ++p) field[s * points + first + p * kThreads] = sum[p];
    }
}

void launch(const Problem& problem) {
    evaluate<<<problem.points / (kThreads * kPoints), kThreads>>>(problem.expansions, problem.z,
                                                                 problem.field, problem.points);
}
