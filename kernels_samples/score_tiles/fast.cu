#include "problem.h"

constexpr int kTile = 128;    // queries and items per block
constexpr int kDepth = 16;    // components per step
constexpr int kThreads = 128;
constexpr int kChunks = kDepth / 4;
constexpr int kPasses = kTile * kChunks / kThreads;
constexpr int kWarpTile = 64;  // queries and items per warp
constexpr int kQueries = 16;   // per thread: four groups of four, 16 apart
constexpr int kItems = 8;      // per thread: two groups of four, 32 apart

// kDepth components of kTile vectors. Component k of vector v is kept at [k][place(k, v)].
struct Tile {
    float values[kDepth][kTile];
};

__device__ int place(int k, int vector) { return vector ^ (k / 4 * 8); }

// One thread's part of a tile on its way from memory.
struct Parts {
    float4 values[kPasses];
};

__device__ void load_parts(Parts& parts, const float* from, int length) {
    from += size_t(threadIdx.x / kChunks) * length + threadIdx.x % kChunks * 4;
    for (int pass = 0; pass < kPasses; ++pass) {
        parts.values[pass] = *reinterpret_cast<const float4*>(
            from + size_t(pass) * (kThreads / kChunks) * length);
    }
}

__device__ void store_parts(Tile& tile, const Parts& parts) {
    const int k = threadIdx.x % kChunks * 4;
    for (int pass = 0; pass < kPasses; ++pass) {
        const int vector = threadIdx.x / kChunks + pass * (kThreads / kChunks);
        float* column = &tile.values[k][place(k, vector)];
        column[0] = parts.values[pass].x;
        column[kTile] = parts.values[pass].y;
        column[2 * kTile] = parts.values[pass].z;
        column[3 * kTile] = parts.values[pass].w;
    }
}

// Component k of groups of four vectors, the groups kStride apart.
template <int kCount, int kStride>
__device__ void read_groups(float (&values)[kCount], const Tile& tile, int k, int first) {
    for (int i = 0; i < kCount; i += 4) {
        const int at = place(k, first + i / 4 * kStride);
        const float4 four = *reinterpret_cast<const float4*>(&tile.values[k][at]);
        values[i] = four.x, values[i + 1] = four.y, values[i + 2] = four.z, values[i + 3] = four.w;
    }
}

__global__ void __launch_bounds__(kThreads, 2)
score(const float* queries, const float* items, float* scores, int item_count, int length) {
    __shared__ __align__(16) Tile query_tiles[2];
    __shared__ __align__(16) Tile item_tiles[2];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int query = warp / 2 * kWarpTile + lane / 8 * 4;
    const int item = warp % 2 * kWarpTile + lane % 8 * 4;
    const int block_item = blockIdx.x * kTile, block_query = blockIdx.y * kTile;
    queries += size_t(block_query) * length;
    items += size_t(block_item) * length;

    Parts query_parts, item_parts;
    load_parts(query_parts, queries, length);
    load_parts(item_parts, items, length);
    store_parts(query_tiles[0], query_parts);
    store_parts(item_tiles[0], item_parts);
    __syncthreads();

    float sum[kQueries][kItems] = {};
    const int steps = length / kDepth;
    for (int step = 0; step < steps; ++step) {
        const int now = step % 2, next = 1 - now;
        const bool more = step + 1 < steps;
        if (more) {
            load_parts(query_parts, queries + (step + 1) * kDepth, length);
            load_parts(item_parts, items + (step + 1) * kDepth, length);
        }
#pragma unroll 4
        for (int k = 0; k < kDepth; ++k) {
            float from_query[kQueries], from_item[kItems];
            read_groups<kQueries, 16>(from_query, query_tiles[now], k, query);
            read_groups<kItems, 32>(from_item, item_tiles[now], k, item);
            for (int i = 0; i < kQueries; ++i) {
                for (int j = 0; j < kItems; ++j) sum[i][j] += from_query[i] * from_item[j];
            }
        }
        if (more) {
            store_parts(query_tiles[next], query_parts);
            store_parts(item_tiles[next], item_parts);
        }
        __syncthreads();
    }

    for (int i = 0; i < kQueries; ++i) {
        const int row = block_query + query + i / 4 * 16 + i % 4;
        float* line = scores + size_t(row) * item_count + block_item + item;
        for (int j = 0; j < kItems; j += 4) {
            *reinterpret_cast<float4*>(line + j / 4 * 32) =
                make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]);
        }
    }
}

void launch(const Problem& problem) {
    const dim3 grid(problem.item_count / kTile, problem.query_count / kTile);
    score<<<grid, kThreads>>>(problem.queries, problem.items, problem.scores, problem.item_count,
                              problem.length);
}
