#include "problem.h"

constexpr int kTile = 32;
constexpr int kRows = 8;

__global__ void flip(const float* in, float* out, int n) {
    __shared__ float tile[kTile][kTile + 1];
    const int x = blockIdx.x * kTile + threadIdx.x;
    const int y = blockIdx.y * kTile + threadIdx.y;
    for (int j = 0; j < kTile; j += kRows) {
        if (x < n && y + j < n) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * n + x];
    }
    __syncthreads();
    const int x_out = blockIdx.y * kTile + threadIdx.x;
    const int y_out = blockIdx.x * kTile + threadIdx.y;
    for (int j = 0; j < kTile; j += kRows) {
        if (x_out < n && y_out + j < n) {
            out[(y_out + j) * n + x_out] = tile[threadIdx.x][threadIdx.y + j];
        }
    }
}

void launch(const Problem& problem) {
    const dim3 block(kTile, kRows);
    const dim3 grid((problem.n + kTile - 1) / kTile, (problem.n + kTile - 1) / kTile);
    flip<<<grid, block>>>(problem.in, problem.out, problem.n);
}
