#include "problem.h"

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads) phase_sum(Problem problem) {
    __shared__ float2 tile[kThreads];  // phase per order, charge
    const int order = blockIdx.x * kThreads + threadIdx.x;
    const float4 u = problem.direction[blockIdx.y];
    float real = 0;
    float imaginary = 0;
    for (int first = 0; first < problem.count; first += kThreads) {
        const int mine = first + threadIdx.x;
        float4 c = make_float4(0, 0, 0, 0);
        if (mine < problem.count) c = problem.charge[mine];
        tile[threadIdx.x] =
            make_float2(problem.step * (u.x * c.x + u.y * c.y + u.z * c.z), c.w);
        __syncthreads();
#pragma unroll 8
        for (int j = 0; j < kThreads; ++j) {
            const float2 entry = tile[j];
            float sine, cosine;
            __sincosf(order * entry.x, &sine, &cosine);
            real += entry.y * cosine;
            imaginary += entry.y * sine;
        }
        __syncthreads();
    }
    const float share = 1.0f / problem.count;
    if (order < problem.orders) {
        problem.intensity[blockIdx.y * problem.orders + order] =
            (real * real + imaginary * imaginary) * share;
    }
}

void launch(const Problem& problem) {
    const dim3 grid((problem.orders + kThreads - 1) / kThreads, problem.directions);
    phase_sum<<<grid, kThreads>>>(problem);
}
