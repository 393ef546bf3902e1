#include "problem.h"

constexpr int kTile = 128;      // queries and items per block
constexpr int kDepth = 16;      // components per step
constexpr int kPerThread = 8;   // queries and items per thread
constexpr int kThreads = 256;
constexpr int kPitch = kDepth + 1;

// Copies kDepth components of kTile vectors, `from` being the first component of the first vector.
__device__ void load_tile(float (&tile)[kTile][kPitch], const float* from, int length) {
    constexpr int kChunks = kDepth / 4;
    const int chunk = threadIdx.x % kChunks;
#pragma unroll
    for (int pass = 0; pass < kTile * kChunks / kThreads; ++pass) {
        const int row = threadIdx.x / kChunks + pass * (kThreads / kChunks);
        const float4 part =
            *reinterpret_cast<const float4*>(from + size_t(row) * length + chunk * 4);
        tile[row][chunk * 4] = part.x;
        tile[row][chunk * 4 + 1] = part.y;
        tile[row][chunk * 4 + 2] = part.z;
        tile[row][chunk * 4 + 3] = part.w;
    }
}

__global__ void __launch_bounds__(kThreads, 2)
score(const float* queries, const float* items, float* scores, int item_count, int length) {
    __shared__ float query_tile[kTile][kPitch];
    __shared__ float item_tile[kTile][kPitch];
    const int item = threadIdx.x % 16 * kPerThread;
    const int query = threadIdx.x / 16 * kPerThread;
    const int block_item = blockIdx.x * kTile, block_query = blockIdx.y * kTile;
    queries += size_t(block_query) * length;
    items += size_t(block_item) * length;

    float sum[kPerThread][kPerThread] = {};
    for (int first = 0; first < length; first += kDepth) {
        load_tile(query_tile, queries + first, length);
        load_tile(item_tile, items + first, length);
        __syncthreads();
        for (int k = 0; k < kDepth; ++k) {
            float from_query[kPerThread], from_item[kPerThread];
            for (int i = 0; i < kPerThread; ++i) from_query[i] = query_tile[query + i][k];
            for (int j = 0; j < kPerThread; ++j) from_item[j] = item_tile[item + j][k];
            for (int i = 0; i < kPerThread; ++i) {
                for (int j = 0; j < kPerThread; ++j) sum[i][j] += from_query[i] * from_item[j];
            }
        }
        __syncthreads();
    }

    for (int i = 0; i < kPerThread; ++i) {
        float* line = scores + size_t(block_query + query + i) * item_count + block_item + item;
        for (int j = 0; j < kPerThread; j += 4) {
            *reinterpret_cast<float4*>(line + j) =
                make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]);
        }
    }
}

void launch(const Problem& problem) {
    const dim3 grid(problem.item_count / kTile, problem.query_count / kTile);
    score<<<grid, kThreads>>>(problem.queries, problem.items, problem.scores, problem.item_count,
                              problem.length);
}
