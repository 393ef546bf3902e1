#include "problem.h"

#include <cuda_runtime.h>

__global__ void multipliers(float* a, float* b, int n, int k) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row <= k || row >= n) return;
    const float multiplier = a[row * n + k] / a[k * n + k];
    a[row * n + k] = multiplier;
    b[row] -= multiplier * b[k];
}

__global__ void fan_update(float* a, int n, int k) {
    const int row = blockIdx.y * blockDim.y + threadIdx.y;
    const int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (row > k && column > k && row < n && column < n) {
        a[row * n + column] -= a[row * n + k] * a[k * n + column];
    }
}

void launch(const Problem& problem) {
    const int n = problem.n;
    const dim3 block(32, 8);
    const dim3 grid((n + 31) / 32, (n + 7) / 8);
    for (int k = 0; k + 1 < n; ++k) {
        multipliers<<<(n + 255) / 256, 256>>>(problem.a, problem.b, n, k);
        fan_update<<<grid, block>>>(problem.a, n, k);
    }
}
