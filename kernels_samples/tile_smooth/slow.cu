#include "problem.h"

// A block is TILE_X x TILE_B threads; each thread makes TILE_Y pixels below each other.
#ifndef TILE_X
#define TILE_X 32
#endif
#ifndef TILE_B
#define TILE_B 8
#endif
#ifndef TILE_Y
#define TILE_Y 1
#endif
#ifndef UNROLL
#define UNROLL 9
#endif

constexpr int kThreads = TILE_X * TILE_B;
constexpr int kUnroll = UNROLL;

static_assert(TILE_Y <= kSpare && kSize % TILE_X == 0);

__global__ void __launch_bounds__(kThreads) blur(const __grid_constant__ Spread spread,
                                                 const float* __restrict__ image,
                                                 float* __restrict__ smooth) {
    const int x = blockIdx.x * TILE_X + threadIdx.x;
    const int y = (blockIdx.y * TILE_B + threadIdx.y) * TILE_Y;
    if (y >= kSize) return;
    const float* corner = image + y * kPitch + x;
    float sum[TILE_Y] = {};
#pragma unroll
    for (int row = 0; row < TILE_Y + kTaps - 1; ++row) {
#pragma unroll kUnroll
        for (int dx = 0; dx < kTaps; ++dx) {
            const float pixel = corner[row * kPitch + dx];
#pragma unroll
            for (int t = 0; t < TILE_Y; ++t) {
                const int dy = row - t;
                if (dy >= 0 && dy < kTaps) sum[t] = fmaf(spread.weights[dy][dx], pixel, sum[t]);
            }
        }
    }
#pragma unroll
    for (int t = 0; t < TILE_Y; ++t) {
        if (y + t < kSize) smooth[(y + t) * kSize + x] = sum[t];
    }
}

void launch(const Problem& problem) {
    constexpr int kHigh = TILE_B * TILE_Y;
    const dim3 grid(kSize / TILE_X, (kSize + kHigh - 1) / kHigh);
    blur<<<grid, dim3(TILE_X, TILE_B)>>>(problem.spread, problem.image, problem.smooth);
}
