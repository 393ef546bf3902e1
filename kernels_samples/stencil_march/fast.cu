#include "problem.h"

constexpr int kRadius = 4;
constexpr int kBlockX = 32;
constexpr int kBlockY = 16;
constexpr int kTileX = 2 * kBlockX;  // every thread has two neighbours in x
constexpr int kTileY = kBlockY;
constexpr int kSpan = 2 * kRadius + 1;

// One plane of a block's part of the field with its rim.
struct Plane {
    float values[kTileY + 2 * kRadius][kTileX + 2 * kRadius];
};

__device__ float2 load(const float* from) { return *reinterpret_cast<const float2*>(from); }

__device__ void store(float* to, float2 pair) { *reinterpret_cast<float2*>(to) = pair; }

// The pair of the rim that a thread looks after, if it has one.
struct RimPair {
    bool exists = false;
    int row = 0, column = 0;  // in the plane of the tile
    int offset = 0;           // in the plane of the field
    bool beyond_left = false, beyond_right = false;

    __device__ RimPair(Grid grid, int tile_x, int tile_y) {
        const int thread = threadIdx.y * kBlockX + threadIdx.x;
        constexpr int kAboveAndBelow = 2 * kRadius * kBlockX;
        constexpr int kBeside = kRadius * kTileY;
        exists = thread < kAboveAndBelow + kBeside;
        if (thread < kAboveAndBelow) {
            row = thread / kBlockX + (thread / kBlockX < kRadius ? 0 : kTileY);
            column = kRadius + thread % kBlockX * 2;
        } else {
            const int place = thread - kAboveAndBelow;
            row = kRadius + place / kRadius;
            column = place % kRadius * 2 + (place % kRadius < kRadius / 2 ? 0 : kTileX);
        }
        const int x = tile_x + column - kRadius, y = tile_y + row - kRadius;
        beyond_left = x < 0;
        beyond_right = x >= grid.nx;
        offset = min(max(y, 0), grid.ny - 1) * grid.nx + min(max(x, 0), grid.nx - 2);
    }

    __device__ float2 read(const float* plane) const {
        float2 pair = exists ? load(plane + offset) : float2{};
        if (beyond_left) pair.y = pair.x;
        if (beyond_right) pair.x = pair.y;
        return pair;
    }
};

// The sums of the six points at each distance from the thread's two points, weighed.
__device__ float2 laplacian(const Plane& plane, const float2 (&column)[kSpan]) {
    constexpr float weights[] = {-205.0f / 72, 8.0f / 5, -1.0f / 5, 8.0f / 315, -1.0f / 560};
    const int row = threadIdx.y + kRadius, first = threadIdx.x * 2;
    float line[2 * kRadius + 2];  // from x - kRadius to x + 1 + kRadius
#pragma unroll
    for (int i = 0; i < 2 * kRadius + 2; i += 2) {
        const float2 pair = i == kRadius ? column[kRadius] : load(&plane.values[row][first + i]);
        line[i] = pair.x;
        line[i + 1] = pair.y;
    }
    float2 sum{3 * weights[0] * line[kRadius], 3 * weights[0] * line[kRadius + 1]};
#pragma unroll
    for (int r = 1; r <= kRadius; ++r) {
        const float2 above = load(&plane.values[row - r][first + kRadius]);
        const float2 below = load(&plane.values[row + r][first + kRadius]);
        const float2 behind = column[kRadius - r], ahead = column[kRadius + r];
        sum.x += weights[r] * (line[kRadius - r] + line[kRadius + r] + above.x + below.x +
                               behind.x + ahead.x);
        sum.y += weights[r] * (line[kRadius + 1 - r] + line[kRadius + 1 + r] + above.y + below.y +
                               behind.y + ahead.y);
    }
    return sum;
}

__global__ void __launch_bounds__(kBlockX* kBlockY, 2)
advance(const float* __restrict__ current, const float* __restrict__ previous,
        const float* __restrict__ courant, float* __restrict__ next, Grid grid) {
    __shared__ __align__(16) Plane planes[2];
    const int tile_x = blockIdx.x * kTileX, tile_y = blockIdx.y * kTileY;
    const int plane_size = grid.nx * grid.ny;
    const RimPair rim(grid, tile_x, tile_y);
    int here = (tile_y + threadIdx.y) * grid.nx + tile_x + threadIdx.x * 2;

    float2 column[kSpan];  // current from z - kRadius to z + kRadius
#pragma unroll
    for (int i = 0; i < kSpan; ++i) {
        column[i] = load(current + here + min(max(i - kRadius, 0), grid.nz - 1) * plane_size);
    }
    float2 before = load(previous + here), factor = load(courant + here);
    float2 beside = rim.read(current);
    int ahead = here + min(kRadius, grid.nz - 1) * plane_size;
    int plane_start = 0;

#pragma unroll 2
    for (int z = 0; z < grid.nz; ++z) {
        Plane& plane = planes[z % 2];
        store(&plane.values[threadIdx.y + kRadius][threadIdx.x * 2 + kRadius], column[kRadius]);
        if (rim.exists) store(&plane.values[rim.row][rim.column], beside);

        // Loads for the next plane, long before they are needed.
        if (z + kRadius + 1 < grid.nz) ahead += plane_size;
        const int step = z + 1 < grid.nz ? plane_size : 0;
        plane_start += step;
        const float2 next_ahead = load(current + ahead);
        const float2 next_before = load(previous + here + step);
        const float2 next_factor = load(courant + here + step);
        const float2 next_beside = rim.read(current + plane_start);

        __syncthreads();
        const float2 spread = laplacian(plane, column);
        store(next + here, float2{2 * column[kRadius].x - before.x + factor.x * spread.x,
                                  2 * column[kRadius].y - before.y + factor.y * spread.y});

#pragma unroll
        for (int i = 0; i + 1 < kSpan; ++i) column[i] = column[i + 1];
        column[kSpan - 1] = next_ahead;
        before = next_before;
        factor = next_factor;
        beside = next_beside;
        here += step;
    }
}

void launch(const Problem& problem) {
    const Grid& grid = problem.grid;
    const dim3 block(kBlockX, kBlockY);
    const dim3 blocks(grid.nx / kTileX, grid.ny / kTileY);
    advance<<<blocks, block>>>(problem.current, problem.previous, problem.courant, problem.next,
                               grid);
}
