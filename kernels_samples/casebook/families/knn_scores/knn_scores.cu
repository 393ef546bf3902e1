// Distances of all queries to all references, as the first step of a nearest-neighbour search.
// Points are stored by dimension: queries[k * query_count + q], references[k * reference_count + r].
#include "../../harness/book.h"

//: shared
struct Points {
    int query_count, reference_count, dimensions;  // multiples of 128, 128 and 8
    const float* queries;
    const float* references;
    float* scores;  // scores[q * reference_count + r]
};

struct Manhattan {
    static __device__ float add(float sum, float q, float r) { return sum + fabsf(q - r); }
};

struct Chebyshev {
    static __device__ float add(float sum, float q, float r) { return fmaxf(sum, fabsf(q - r)); }
};

constexpr int kSide = 16;  // threads of a block along queries and along references

template <int Each>
dim3 tiles_of(const Points& p) {
    return dim3(p.reference_count / (kSide * Each), p.query_count / (kSide * Each));
}

// A thread computes Each x Each scores from values that it reads through the cache.
template <class Metric, int Each>
__global__ void scores_direct(Points p) {
    const int q0 = blockIdx.y * kSide * Each + threadIdx.x / kSide;
    const int r0 = blockIdx.x * kSide * Each + threadIdx.x % kSide;
    float sum[Each][Each] = {};
#pragma unroll 4
    for (int k = 0; k < p.dimensions; ++k) {
        const float* query = p.queries + k * p.query_count + q0;
        const float* reference = p.references + k * p.reference_count + r0;
        float q[Each], r[Each];
#pragma unroll
        for (int i = 0; i < Each; ++i) q[i] = query[i * kSide];
#pragma unroll
        for (int j = 0; j < Each; ++j) r[j] = reference[j * kSide];
#pragma unroll
        for (int i = 0; i < Each; ++i) {
#pragma unroll
            for (int j = 0; j < Each; ++j) sum[i][j] = Metric::add(sum[i][j], q[i], r[j]);
        }
    }
#pragma unroll
    for (int i = 0; i < Each; ++i) {
#pragma unroll
        for (int j = 0; j < Each; ++j) {
            p.scores[size_t(q0 + i * kSide) * p.reference_count + r0 + j * kSide] = sum[i][j];
        }
    }
}

// A thread computes Each x Each scores; `Deep` dimensions of the block's points are staged at a time.
template <class Metric, int Each, int Deep>
__global__ void __launch_bounds__(kSide * kSide, Each == 8 ? 2 : 4) scores_tiled(Points p) {
    constexpr int kTile = kSide * Each;
    __shared__ float queries[Deep][kTile];
    __shared__ float references[Deep][kTile];
    const int ty = threadIdx.x / kSide, tx = threadIdx.x % kSide;
    const int q0 = blockIdx.y * kTile, r0 = blockIdx.x * kTile;
    float sum[Each][Each] = {};
    for (int first = 0; first < p.dimensions; first += Deep) {
#pragma unroll
        for (int n = 0; n < Deep * kTile / (kSide * kSide); ++n) {
            const int i = n * kSide * kSide + threadIdx.x, k = i / kTile, at = i % kTile;
            queries[k][at] = p.queries[(first + k) * p.query_count + q0 + at];
            references[k][at] = p.references[(first + k) * p.reference_count + r0 + at];
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < Deep; ++k) {
            float q[Each], r[Each];
#pragma unroll
            for (int i = 0; i < Each; ++i) q[i] = queries[k][ty + i * kSide];
#pragma unroll
            for (int j = 0; j < Each; ++j) r[j] = references[k][tx + j * kSide];
#pragma unroll
            for (int i = 0; i < Each; ++i) {
#pragma unroll
                for (int j = 0; j < Each; ++j) sum[i][j] = Metric::add(sum[i][j], q[i], r[j]);
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < Each; ++i) {
#pragma unroll
        for (int j = 0; j < Each; ++j) {
            p.scores[size_t(q0 + ty + i * kSide) * p.reference_count + r0 + tx + j * kSide] = sum[i][j];
        }
    }
}

// The same with four neighbouring points per load from shared memory and per store.
template <class Metric, int Each, int Deep>
__global__ void __launch_bounds__(kSide * kSide, Each == 8 ? 2 : 4) scores_tiled_by_four(Points p) {
    constexpr int kTile = kSide * Each, kGroups = Each / 4;
    __shared__ __align__(16) float queries[Deep][kTile];
    __shared__ __align__(16) float references[Deep][kTile];
    const int ty = threadIdx.x / kSide, tx = threadIdx.x % kSide;
    const int q0 = blockIdx.y * kTile, r0 = blockIdx.x * kTile;
    float sum[Each][Each] = {};
    for (int first = 0; first < p.dimensions; first += Deep) {
#pragma unroll
        for (int n = 0; n < Deep * kTile / (kSide * kSide); ++n) {
            const int i = n * kSide * kSide + threadIdx.x, k = i / kTile, at = i % kTile;
            queries[k][at] = p.queries[(first + k) * p.query_count + q0 + at];
            references[k][at] = p.references[(first + k) * p.reference_count + r0 + at];
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < Deep; ++k) {
            float q[Each], r[Each];
#pragma unroll
            for (int g = 0; g < kGroups; ++g) {
                const float4 a = *reinterpret_cast<const float4*>(&queries[k][(g * kSide + ty) * 4]);
                const float4 b = *reinterpret_cast<const float4*>(&references[k][(g * kSide + tx) * 4]);
                q[4 * g] = a.x, q[4 * g + 1] = a.y, q[4 * g + 2] = a.z, q[4 * g + 3] = a.w;
                r[4 * g] = b.x, r[4 * g + 1] = b.y, r[4 * g + 2] = b.z, r[4 * g + 3] = b.w;
            }
#pragma unroll
            for (int i = 0; i < Each; ++i) {
#pragma unroll
                for (int j = 0; j < Each; ++j) sum[i][j] = Metric::add(sum[i][j], q[i], r[j]);
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < Each; ++i) {
        const int q = q0 + (i / 4 * kSide + ty) * 4 + i % 4;
#pragma unroll
        for (int g = 0; g < kGroups; ++g) {
            const int r = r0 + (g * kSide + tx) * 4;
            *reinterpret_cast<float4*>(p.scores + size_t(q) * p.reference_count + r) =
                make_float4(sum[i][4 * g], sum[i][4 * g + 1], sum[i][4 * g + 2], sum[i][4 * g + 3]);
        }
    }
}
//: end

//: variant direct
template <class Metric>
void direct(const Points& p) {
    scores_direct<Metric, 1><<<tiles_of<1>(p), kSide * kSide>>>(p);
}
//: end

//: variant direct_4x4
template <class Metric>
void direct_4x4(const Points& p) {
    scores_direct<Metric, 4><<<tiles_of<4>(p), kSide * kSide>>>(p);
}
//: end

//: variant tile_1x1
template <class Metric, int Deep>
void tile_1x1(const Points& p) {
    scores_tiled<Metric, 1, Deep><<<tiles_of<1>(p), kSide * kSide>>>(p);
}
//: end

//: variant tile_2x2
template <class Metric, int Deep>
void tile_2x2(const Points& p) {
    scores_tiled<Metric, 2, Deep><<<tiles_of<2>(p), kSide * kSide>>>(p);
}
//: end

//: variant tile_4x4
template <class Metric, int Deep>
void tile_4x4(const Points& p) {
    scores_tiled<Metric, 4, Deep><<<tiles_of<4>(p), kSide * kSide>>>(p);
}
//: end

//: variant tile_8x8
template <class Metric, int Deep>
void tile_8x8(const Points& p) {
    scores_tiled<Metric, 8, Deep><<<tiles_of<8>(p), kSide * kSide>>>(p);
}
//: end

//: variant by_four_4x4
template <class Metric, int Deep>
void by_four_4x4(const Points& p) {
    scores_tiled_by_four<Metric, 4, Deep><<<tiles_of<4>(p), kSide * kSide>>>(p);
}
//: end

//: variant by_four_8x8
template <class Metric, int Deep>
void by_four_8x8(const Points& p) {
    scores_tiled_by_four<Metric, 8, Deep><<<tiles_of<8>(p), kSide * kSide>>>(p);
}
//: end

__global__ void reference_scores(Points p, bool largest, float* expected) {
    const int r = blockIdx.x * blockDim.x + threadIdx.x, q = blockIdx.y;
    double sum = 0;
    for (int k = 0; k < p.dimensions; ++k) {
        const double a = p.queries[size_t(k) * p.query_count + q];
        const double b = p.references[size_t(k) * p.reference_count + r];
        const double distance = a > b ? a - b : b - a;
        sum = largest ? (distance > sum ? distance : sum) : sum + distance;
    }
    expected[size_t(q) * p.reference_count + r] = float(sum);
}

Points set_up(book::Problem& p, int queries, int references, int dimensions, bool largest) {
    Points d{queries, references, dimensions};
    const size_t scores = size_t(queries) * references;
    d.queries = p.uniform<float>(size_t(queries) * dimensions, -1, 1);
    d.references = p.uniform<float>(size_t(references) * dimensions, -1, 1);
    d.scores = p.output<float>(scores);
    // A subtraction and an addition (or a maximum) for each pair and dimension.
    p.needs({.dram_bytes = 4.0 * ((double(queries) + references) * dimensions + scores),
             .fp32_flop = 2.0 * scores * dimensions});
    p.check<float>(d.scores, scores, {2e-5, 1e-7}, [=](float* expected) {
        reference_scores<<<dim3(references / 256, queries), 256>>>(d, largest, expected);
    });
    return d;
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("sum_128", [](book::Problem& p) {
        const auto d = set_up(p, 1024, 16384, 128, false);
        p.variant("direct", [=] { direct<Manhattan>(d); });
        p.variant("direct_4x4", [=] { direct_4x4<Manhattan>(d); });
        p.variant("tile_1x1", [=] { tile_1x1<Manhattan, 16>(d); });
        p.variant("tile_2x2", [=] { tile_2x2<Manhattan, 16>(d); });
        p.variant("tile_4x4", [=] { tile_4x4<Manhattan, 16>(d); });
        p.variant("tile_8x8", [=] { tile_8x8<Manhattan, 8>(d); });
        p.variant("by_four_4x4", [=] { by_four_4x4<Manhattan, 16>(d); });
        p.variant("by_four_8x8", [=] { by_four_8x8<Manhattan, 8>(d); });
    });
    book.problem("largest_64", [](book::Problem& p) {
        const auto d = set_up(p, 1024, 16384, 64, true);
        p.variant("tile_2x2", [=] { tile_2x2<Chebyshev, 16>(d); });
        p.variant("tile_4x4", [=] { tile_4x4<Chebyshev, 16>(d); });
    });
    book.problem("sum_8", [](book::Problem& p) {
        const auto d = set_up(p, 2048, 16384, 8, false);
        p.variant("tile_4x4", [=] { tile_4x4<Manhattan, 8>(d); });
        p.variant("tile_8x8", [=] { tile_8x8<Manhattan, 8>(d); });
    });
    return book.finish();
}
