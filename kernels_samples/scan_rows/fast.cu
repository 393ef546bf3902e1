#include "problem.h"

#include <cuda_runtime.h>

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kQuads = 4;                     // stretches of 128 columns per warp and turn
constexpr int kTurn = kThreads * kQuads * 4;  // columns
constexpr unsigned kAll = 0xFFFFFFFF;

// A stretch of a path: what it sums up to, and its highest partial sum.
struct Path {
    float sum;
    float peak;
};

__device__ Path no_path() { return {0.0f, -3.0e38f}; }

__device__ Path joined(Path first, Path second) {
    return {first.sum + second.sum, fmaxf(first.peak, first.sum + second.peak)};
}

__device__ Path path_of(float4 steps) {
    const float two = steps.x + steps.y;
    const float three = two + steps.z;
    const float four = three + steps.w;
    return {four, fmaxf(fmaxf(steps.x, two), fmaxf(three, four))};
}

__device__ Path from_lane(Path path, int lane) {
    return {__shfl_sync(kAll, path.sum, lane), __shfl_sync(kAll, path.peak, lane)};
}

// The stretches of lanes 0 .. lane joined.
__device__ Path scan_lanes(Path path, int lane) {
#pragma unroll
    for (int reach = 1; reach < 32; reach *= 2) {
        const Path left{__shfl_up_sync(kAll, path.sum, reach),
                        __shfl_up_sync(kAll, path.peak, reach)};
        if (lane >= reach) path = joined(left, path);
    }
    return path;
}

__device__ float4 drawdown(Path before, float4 steps) {
    const auto next = [&](float step) {
        before.sum += step;
        before.peak = fmaxf(before.peak, before.sum);
        return before.peak - before.sum;
    };
    float4 result;
    result.x = next(steps.x);
    result.y = next(steps.y);
    result.z = next(steps.z);
    result.w = next(steps.w);
    return result;
}

// One block per row; each warp takes kQuads stretches of 128 columns, one after another, per turn.
__global__ void __launch_bounds__(kThreads)
    scan_rows(const float4* __restrict__ in, float4* __restrict__ out, int columns) {
    __shared__ Path totals[2][kWarps];
    const int lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32;
    const int quads = columns / 4;
    const size_t row = blockIdx.x * static_cast<size_t>(quads);
    Path before_turn = no_path();
    for (int start = 0, turn = 0; start < quads; start += kTurn / 4, turn ^= 1) {
        const int first = start + warp * kQuads * 32 + lane;
        float4 steps[kQuads];
#pragma unroll
        for (int q = 0; q < kQuads; ++q) {
            const int quad = first + q * 32;
            steps[q] = quad < quads ? in[row + quad] : make_float4(0, 0, 0, 0);
        }
        Path before[kQuads];  // from the warp's first column to the thread's quad
        Path warp_total = no_path();
#pragma unroll
        for (int q = 0; q < kQuads; ++q) {
            const Path through = scan_lanes(path_of(steps[q]), lane);
            const Path left{__shfl_up_sync(kAll, through.sum, 1),
                            __shfl_up_sync(kAll, through.peak, 1)};
            before[q] = lane > 0 ? joined(warp_total, left) : warp_total;
            warp_total = joined(warp_total, from_lane(through, 31));
        }
        if (lane == 0) totals[turn][warp] = warp_total;
        __syncthreads();
        Path before_warp = no_path();
#pragma unroll
        for (int w = 0; w < kWarps; ++w) {
            if (w == warp) before_warp = before_turn;
            before_turn = joined(before_turn, totals[turn][w]);
        }
#pragma unroll
        for (int q = 0; q < kQuads; ++q) {
            const int quad = first + q * 32;
            if (quad < quads) out[row + quad] = drawdown(joined(before_warp, before[q]), steps[q]);
        }
    }
}

void launch(const Problem& problem) {
    scan_rows<<<problem.rows, kThreads>>>(reinterpret_cast<const float4*>(problem.in),
                                          reinterpret_cast<float4*>(problem.out), problem.columns);
}
