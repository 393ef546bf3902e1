#include "problem.h"

constexpr int kTile = 128;     // rows and columns of c per block
constexpr int kDepth = 16;     // depth of one step
constexpr int kThreads = 256;
constexpr int kWarpRows = 32;  // the part of the tile one warp owns
constexpr int kWarpColumns = 64;
constexpr int kPitch = kTile + 4;

struct Tiles {
    float a[2][kDepth][kPitch];  // [buffer][k][row]
    float b[2][kDepth][kPitch];  // [buffer][k][column]
};

// Eight halves as they come from memory.
__device__ void widen(const uint4& packed, float (&values)[8]) {
    const __half2* pairs = reinterpret_cast<const __half2*>(&packed);
    for (int i = 0; i < 4; ++i) {
        const float2 pair = __half22float2(pairs[i]);
        values[2 * i] = pair.x;
        values[2 * i + 1] = pair.y;
    }
}

__device__ void store_step(Tiles& tiles, int buffer, const uint4& packed_a, const uint4& packed_b) {
    const int row = threadIdx.x / 2, k_of_a = threadIdx.x % 2 * 8;
    const int k_of_b = threadIdx.x / 16, column = threadIdx.x % 16 * 8;
    float values[8];
    widen(packed_a, values);
    for (int i = 0; i < 8; ++i) tiles.a[buffer][k_of_a + i][row] = values[i];
    widen(packed_b, values);
    float4* to = reinterpret_cast<float4*>(&tiles.b[buffer][k_of_b][column]);
    to[0] = make_float4(values[0], values[1], values[2], values[3]);
    to[1] = make_float4(values[4], values[5], values[6], values[7]);
}

// Eight floats of a tile's line: four from `first` and four from `first + gap`.
__device__ void read_parts(const float* line, int first, int gap, float (&values)[8]) {
    const float4 low = *reinterpret_cast<const float4*>(line + first);
    const float4 high = *reinterpret_cast<const float4*>(line + first + gap);
    values[0] = low.x, values[1] = low.y, values[2] = low.z, values[3] = low.w;
    values[4] = high.x, values[5] = high.y, values[6] = high.z, values[7] = high.w;
}

__global__ void __launch_bounds__(kThreads, 2)
product(const __half* a, const __half* b, float* c, int columns, int depth) {
    __shared__ __align__(16) Tiles tiles;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int row = warp / 2 * kWarpRows + lane / 8 * 4;
    const int column = warp % 2 * kWarpColumns + lane % 8 * 4;

    const int block_row = blockIdx.y * kTile, block_column = blockIdx.x * kTile;
    const __half* next_a = a + size_t(block_row + threadIdx.x / 2) * depth + threadIdx.x % 2 * 8;
    const __half* next_b =
        b + size_t(threadIdx.x / 16) * columns + block_column + threadIdx.x % 16 * 8;

    float sum[8][8] = {};
    uint4 packed_a = *reinterpret_cast<const uint4*>(next_a);
    uint4 packed_b = *reinterpret_cast<const uint4*>(next_b);
    store_step(tiles, 0, packed_a, packed_b);
    __syncthreads();

    const int steps = depth / kDepth;
    for (int step = 0; step < steps; ++step) {
        if (step + 1 < steps) {
            next_a += kDepth;
            next_b += size_t(kDepth) * columns;
            packed_a = *reinterpret_cast<const uint4*>(next_a);
            packed_b = *reinterpret_cast<const uint4*>(next_b);
        }
        const int buffer = step % 2;
#pragma unroll
        for (int k = 0; k < kDepth; ++k) {
            float from_a[8], from_b[8];
            read_parts(tiles.a[buffer][k], row, kWarpRows / 2, from_a);
            read_parts(tiles.b[buffer][k], column, kWarpColumns / 2, from_b);
            for (int i = 0; i < 8; ++i) {
                for (int j = 0; j < 8; ++j) sum[i][j] += from_a[i] * from_b[j];
            }
        }
        if (step + 1 < steps) store_step(tiles, 1 - buffer, packed_a, packed_b);
        __syncthreads();
    }

    for (int i = 0; i < 8; ++i) {
        const int at = block_row + row + i / 4 * (kWarpRows / 2) + i % 4;
        float* line = c + size_t(at) * columns + block_column + column;
        for (int j = 0; j < 8; j += 4) {
            *reinterpret_cast<float4*>(line + j / 4 * (kWarpColumns / 2)) =
                make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]);
        }
    }
}

void launch(const Problem& problem) {
    const dim3 grid(problem.columns / kTile, problem.rows / kTile);
    product<<<grid, kThreads>>>(problem.a, problem.b, problem.c, problem.columns, problem.depth);
}
