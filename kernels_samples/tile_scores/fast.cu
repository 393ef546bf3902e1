#include "problem.h"

#include <cuda_pipeline.h>
#include <cuda_runtime.h>

constexpr int kThreads = 256;
constexpr int kQueries = 128;    // of a tile
constexpr int kDocuments = 256;  // of a tile
constexpr int kDepth = 16;       // features in shared memory at a time
constexpr int kSide = 16;        // threads along either side of a tile
constexpr int kStride = 4 * kSide;
constexpr int kMyQueries = kQueries / kSide;
constexpr int kMyDocuments = kDocuments / kSide;

struct Slab {
    float queries[kDepth][kQueries];
    float documents[kDepth][kDocuments];
};

// One over the length of each item's vector.
__global__ void item_scales(const float* table, int items, int features, float* scale) {
    __shared__ float part[32][33];
    const int item = blockIdx.x * 32 + threadIdx.x;
    float squares = 0;
#pragma unroll 16
    for (int f = threadIdx.y; f < features; f += 32) {
        const float value = table[size_t{1} * f * items + item];
        squares += value * value;
    }
    part[threadIdx.y][threadIdx.x] = squares;
    __syncthreads();
    if (threadIdx.y == 0) {
        float total = 0;
        for (int y = 0; y < 32; ++y) total += part[y][threadIdx.x];
        scale[item] = rsqrtf(total);
    }
}

// Starts to copy kDepth rows of a table, kWidth items each, into shared memory.
template <int kWidth>
__device__ void fetch(float (*to)[kWidth], const float* from, int items) {
    constexpr int kFours = kWidth / 4;
#pragma unroll
    for (int first = 0; first < kDepth * kFours; first += kThreads) {
        const int f = (first + threadIdx.x) / kFours;
        const int item = (first + threadIdx.x) % kFours * 4;
        __pipeline_memcpy_async(&to[f][item], &from[size_t{1} * f * items + item], sizeof(float4));
    }
}

// N numbers of a row, in fours that are kStride apart.
template <int N>
__device__ void take(float (&mine)[N], const float* row, int first) {
#pragma unroll
    for (int i = 0; i < N; i += 4) {
        const float4 four = *reinterpret_cast<const float4*>(&row[first + i / 4 * kStride]);
        mine[i] = four.x;
        mine[i + 1] = four.y;
        mine[i + 2] = four.z;
        mine[i + 3] = four.w;
    }
}

__device__ void multiply(float (&dots)[kMyQueries][kMyDocuments], const Slab& slab, int first_query,
                         int first_document) {
#pragma unroll 4
    for (int f = 0; f < kDepth; ++f) {
        float query[kMyQueries];
        float document[kMyDocuments];
        take(query, slab.queries[f], first_query);
        take(document, slab.documents[f], first_document);
#pragma unroll
        for (int i = 0; i < kMyQueries; ++i) {
#pragma unroll
            for (int j = 0; j < kMyDocuments; ++j) dots[i][j] += query[i] * document[j];
        }
    }
}

// Adds the share of features [first_step, last_step) * kDepth to the scores of one tile.
__device__ void add_to_tile(const Problem& problem, Slab* slabs, int tile, int first_step,
                            int last_step) {
    const int tiles_across = problem.documents / kDocuments;
    const int first_query = threadIdx.x / kSide * 4;
    const int first_document = threadIdx.x % kSide * 4;
    const int tile_query = tile / tiles_across * kQueries;
    const int tile_document = tile % tiles_across * kDocuments;
    const float* queries = problem.query_table + tile_query;
    const float* documents = problem.document_table + tile_document;
    const auto fetch_slab = [&](int step) {
        const size_t f = size_t{kDepth} * step;
        fetch(slabs[step % 2].queries, queries + f * problem.queries, problem.queries);
        fetch(slabs[step % 2].documents, documents + f * problem.documents, problem.documents);
        __pipeline_commit();
    };

    float dots[kMyQueries][kMyDocuments] = {};
    __syncthreads();  // the tile before may still be read
    fetch_slab(first_step);
    for (int step = first_step; step < last_step; ++step) {
        __pipeline_wait_prior(0);
        __syncthreads();
        if (step + 1 < last_step) fetch_slab(step + 1);
        multiply(dots, slabs[step % 2], first_query, first_document);
    }

#pragma unroll
    for (int i = 0; i < kMyQueries; ++i) {
        const int q = tile_query + first_query + i / 4 * kStride + i % 4;
        const float scale = problem.query_scale[q];
#pragma unroll
        for (int j = 0; j < kMyDocuments; j += 4) {
            const int d = tile_document + first_document + j / 4 * kStride;
            const float4 scales = *reinterpret_cast<const float4*>(&problem.document_scale[d]);
            const float4 four = {dots[i][j] * scale * scales.x, dots[i][j + 1] * scale * scales.y,
                                 dots[i][j + 2] * scale * scales.z,
                                 dots[i][j + 3] * scale * scales.w};
            float* score = &problem.scores[size_t{1} * q * problem.documents + d];
            atomicAdd(reinterpret_cast<float4*>(score), four);
        }
    }
}

// The steps of all tiles, one tile after the other, are dealt out in equal runs to the blocks.
__global__ void __launch_bounds__(kThreads) score_tiles(Problem problem) {
    __shared__ Slab slabs[2];
    const int tiles = problem.queries / kQueries * (problem.documents / kDocuments);
    const int steps = problem.features / kDepth;
    const long long all_steps = 1ll * tiles * steps;
    const int end = static_cast<int>(all_steps * (blockIdx.x + 1) / gridDim.x);
    for (int begin = static_cast<int>(all_steps * blockIdx.x / gridDim.x); begin < end;) {
        const int first_step = begin % steps;
        const int last_step = min(steps, first_step + end - begin);
        add_to_tile(problem, slabs, begin / steps, first_step, last_step);
        begin += last_step - first_step;
    }
}

void launch(const Problem& problem) {
    const dim3 strip(32, 32);
    item_scales<<<problem.queries / 32, strip>>>(problem.query_table, problem.queries,
                                                 problem.features, problem.query_scale);
    item_scales<<<problem.documents / 32, strip>>>(problem.document_table, problem.documents,
                                                   problem.features, problem.document_scale);
    cudaMemsetAsync(problem.scores, 0, sizeof(float) * problem.queries * problem.documents);
    int device = 0;
    int processors = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
    score_tiles<<<processors, kThreads>>>(problem);
}
