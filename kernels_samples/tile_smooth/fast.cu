#include "problem.h"

// A block is TILE_X x TILE_B threads; each thread makes 4 x TILE_Y pixels.
#ifndef TILE_X
#define TILE_X 32
#endif
#ifndef TILE_B
#define TILE_B 4
#endif
#ifndef TILE_Y
#define TILE_Y 4
#endif

constexpr int kThreads = TILE_X * TILE_B;
constexpr int kWide = 4;
constexpr int kSpan = kWide + kTaps - 1;  // pixels of a row under the taps of a thread

static_assert(TILE_Y <= kSpare && kSize % (TILE_X * kWide) == 0);
static_assert(kPitch % 4 == 0 && kSpan % 4 == 0);

__device__ void load_span(const float* from, float (&span)[kSpan]) {
#pragma unroll
    for (int k = 0; k < kSpan; k += 4) {
        const float4 four = *reinterpret_cast<const float4*>(from + k);
        span[k] = four.x;
        span[k + 1] = four.y;
        span[k + 2] = four.z;
        span[k + 3] = four.w;
    }
}

__global__ void __launch_bounds__(kThreads) blur(const __grid_constant__ Spread spread,
                                                 const float* __restrict__ image,
                                                 float* __restrict__ smooth) {
    const int x = (blockIdx.x * TILE_X + threadIdx.x) * kWide;
    const int y = (blockIdx.y * TILE_B + threadIdx.y) * TILE_Y;
    if (y >= kSize) return;
    const float* corner = image + y * kPitch + x;
    float sum[TILE_Y][kWide] = {};
#pragma unroll
    for (int row = 0; row < TILE_Y + kTaps - 1; ++row) {
        float span[kSpan];
        load_span(corner + row * kPitch, span);
#pragma unroll
        for (int t = 0; t < TILE_Y; ++t) {
            const int dy = row - t;
            if (dy < 0 || dy >= kTaps) continue;
#pragma unroll
            for (int dx = 0; dx < kTaps; ++dx) {
#pragma unroll
                for (int k = 0; k < kWide; ++k) {
                    sum[t][k] = fmaf(spread.weights[dy][dx], span[k + dx], sum[t][k]);
                }
            }
        }
    }
#pragma unroll
    for (int t = 0; t < TILE_Y; ++t) {
        if (y + t < kSize) {
            *reinterpret_cast<float4*>(smooth + (y + t) * kSize + x) =
                make_float4(sum[t][0], sum[t][1], sum[t][2], sum[t][3]);
        }
    }
}

void launch(const Problem& problem) {
    constexpr int kAcross = TILE_X * kWide, kHigh = TILE_B * TILE_Y;
    const dim3 grid(kSize / kAcross, (kSize + kHigh - 1) / kHigh);
    blur<<<grid, dim3(TILE_X, TILE_B)>>>(problem.spread, problem.image, problem.smooth);
}
