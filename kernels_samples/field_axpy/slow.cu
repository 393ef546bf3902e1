#include "problem.h"

constexpr int kThreads = 256;

__device__ float advanced(float field, float rate, float rate_before, float step) {
    return field + step * (1.5f * rate - 0.5f * rate_before);
}

__global__ void __launch_bounds__(kThreads) advance(const float4* __restrict__ field,
                                                    const float4* __restrict__ rate,
                                                    const float4* __restrict__ rate_before,
                                                    float4* __restrict__ next, float step,
                                                    int count) {
    const int i = blockIdx.x * kThreads + threadIdx.x;
    if (i >= count) return;
    const float4 u = field[i];
    const float4 f = rate[i];
    const float4 g = rate_before[i];
    next[i] = make_float4(advanced(u.x, f.x, g.x, step), advanced(u.y, f.y, g.y, step),
                          advanced(u.z, f.z, g.z, step), advanced(u.w, f.w, g.w, step));
}

void launch(const Problem& problem) {
    const int vectors = problem.count / 4;
    advance<<<(vectors + kThreads - 1) / kThreads, kThreads>>>(
        reinterpret_cast<const float4*>(problem.field),
        reinterpret_cast<const float4*>(problem.rate),
        reinterpret_cast<const float4*>(problem.rate_before),
        reinterpret_cast<float4*>(problem.next), problem.step, vectors);
}
