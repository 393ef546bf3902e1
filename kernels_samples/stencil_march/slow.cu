#include <cstdint>

#include "problem.h"

constexpr int kRadius = 4;
constexpr int kBlockX = 32;
constexpr int kBlockY = 16;
constexpr int kBlockZ = 24;  // planes per block

__device__ int64_t index_of(Grid grid, int x, int y, int z) {
    return static_cast<int64_t>(z * grid.ny + y) * grid.nx + x;
}

// The field at a point that may lie beyond the faces of the grid.
__device__ float at(const float* field, Grid grid, int x, int y, int z) {
    x = min(max(x, 0), grid.nx - 1);
    y = min(max(y, 0), grid.ny - 1);
    z = min(max(z, 0), grid.nz - 1);
    return field[index_of(grid, x, y, z)];
}

__device__ float laplacian(const float* field, Grid grid, int x, int y, int z) {
    constexpr float weights[] = {-205.0f / 72, 8.0f / 5, -1.0f / 5, 8.0f / 315, -1.0f / 560};
    float sum = 3 * weights[0] * at(field, grid, x, y, z);
#pragma unroll
    for (int r = 1; r <= kRadius; ++r) {
        sum += weights[r] * (at(field, grid, x - r, y, z) + at(field, grid, x + r, y, z) +
                             at(field, grid, x, y - r, z) + at(field, grid, x, y + r, z) +
                             at(field, grid, x, y, z - r) + at(field, grid, x, y, z + r));
    }
    return sum;
}

__global__ void advance(const float* __restrict__ current, const float* __restrict__ previous,
                        const float* __restrict__ courant, float* __restrict__ next, Grid grid) {
    const int x = blockIdx.x * kBlockX + threadIdx.x;
    const int y = blockIdx.y * kBlockY + threadIdx.y;
    const int end = min(static_cast<int>(blockIdx.z + 1) * kBlockZ, grid.nz);
    for (int z = blockIdx.z * kBlockZ; z < end; ++z) {
        const int64_t here = index_of(grid, x, y, z);
        next[here] = 2 * current[here] - previous[here] +
                     courant[here] * laplacian(current, grid, x, y, z);
    }
}

void launch(const Problem& problem) {
    const Grid& grid = problem.grid;
    const dim3 block(kBlockX, kBlockY);
    const dim3 blocks(grid.nx / kBlockX, grid.ny / kBlockY, (grid.nz + kBlockZ - 1) / kBlockZ);
    advance<<<blocks, block>>>(problem.current, problem.previous, problem.courant, problem.next,
                               grid);
}
