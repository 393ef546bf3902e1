#include "problem.h"

constexpr int kThreads = 64;
constexpr int kOrders = 16;  // orders of one thread, kThreads apart
constexpr float kPerPi = 0.318309886f;

// With t the phase between the orders of a thread, exp(i m p) follows from the two before it:
// e(k + 1) = 2 cos(t) e(k) - e(k - 1). Every thread starts anew after kOrders terms.
__global__ void __launch_bounds__(kThreads) phase_sum(Problem problem) {
    __shared__ float4 tile[kThreads];  // phase per order, charge, cos(t), sin(t)
    const int first_order = blockIdx.x * kThreads * kOrders + threadIdx.x;
    const float4 u = problem.direction[blockIdx.y];
    float real[kOrders] = {};
    float imaginary[kOrders] = {};
    for (int first = 0; first < problem.count; first += kThreads) {
        const int mine = first + threadIdx.x;
        float4 c = make_float4(0, 0, 0, 0);
        if (mine < problem.count) c = problem.charge[mine];
        const float phase = problem.step * (u.x * c.x + u.y * c.y + u.z * c.z);
        float turn_sine, turn_cosine;
        sincospif(kThreads * kPerPi * phase, &turn_sine, &turn_cosine);
        tile[threadIdx.x] = make_float4(phase, c.w, turn_cosine, turn_sine);
        __syncthreads();
#pragma unroll 2
        for (int j = 0; j < kThreads; ++j) {
            const float4 entry = tile[j];
            float sine, cosine;
            __sincosf(first_order * entry.x, &sine, &cosine);
            float x = entry.y * cosine, y = entry.y * sine;
            float next_x = x * entry.z - y * entry.w, next_y = y * entry.z + x * entry.w;
            const float twice = 2 * entry.z;
#pragma unroll
            for (int k = 0; k < kOrders; ++k) {
                real[k] += x;
                imaginary[k] += y;
                const float after_x = twice * next_x - x, after_y = twice * next_y - y;
                x = next_x;
                y = next_y;
                next_x = after_x;
                next_y = after_y;
            }
        }
        __syncthreads();
    }
    const float share = 1.0f / problem.count;
#pragma unroll
    for (int k = 0; k < kOrders; ++k) {
        const int order = first_order + k * kThreads;
        if (order < problem.orders) {
            problem.intensity[blockIdx.y * problem.orders + order] =
                (real[k] * real[k] + imaginary[k] * imaginary[k]) * share;
        }
    }
}

void launch(const Problem& problem) {
    const int per_block = kThreads * kOrders;
    const dim3 grid((problem.orders + per_block - 1) / per_block, problem.directions);
    phase_sum<<<grid, kThreads>>>(problem);
}
