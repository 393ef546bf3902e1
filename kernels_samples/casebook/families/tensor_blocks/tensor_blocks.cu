// Batches of small matrix products on tensor cores, C = scale * (A B) with a scale per column of C.
// All matrices are row-major and densely packed.
#include "../../harness/book.h"

#include <mma.h>

using namespace nvcuda;

struct Batch {
    int count, depth;
    const __half *a, *b;
    const float* scale;
    __half* c;
    float* partial;  // of split products
};

struct FloatBatch {
    int count;
    const float *a, *b, *scale;
    float* c;
};

//: shared
using RowsA = wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major>;
using RowsB = wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major>;
using Sums = wmma::fragment<wmma::accumulator, 16, 16, 16, float>;

__device__ inline float4 scaled(float4 sum, const float* scale) {
    const float4 by = __ldg(reinterpret_cast<const float4*>(scale));
    return make_float4(sum.x * by.x, sum.y * by.y, sum.z * by.z, sum.w * by.w);
}

__device__ inline unsigned rounded(float low, float high) {
    const __half2 pair = __floats2half2_rn(low, high);
    return *reinterpret_cast<const unsigned*>(&pair);
}

// Eight scaled values of a row of C.
__device__ inline uint4 scaled_eight(const float4* sums, const float* scale) {
    const float4 low = scaled(sums[0], scale), high = scaled(sums[1], scale + 4);
    return make_uint4(rounded(low.x, low.y), rounded(low.z, low.w), rounded(high.x, high.y),
                      rounded(high.z, high.w));
}

// Copies Rows x Columns halves to rows of `Pitch` in shared memory, 16 bytes per thread and step.
template <int Rows, int Columns, int Pitch, int Threads>
__device__ inline void stage(const __half* from, int from_pitch, __half* to) {
    constexpr int kPerRow = Columns / 8;
#pragma unroll
    for (int step = 0; step < Rows * kPerRow / Threads; ++step) {
        const int i = step * Threads + threadIdx.x;
        const int row = i / kPerRow, column = i % kPerRow * 8;
        *reinterpret_cast<uint4*>(to + row * Pitch + column) =
            *reinterpret_cast<const uint4*>(from + size_t(row) * from_pitch + column);
    }
}

// Writes a Size x Size tile of sums, scaled and rounded.
template <int Size, int Pitch, int Threads>
__device__ inline void write_scaled(const float* sums, const float* scale, __half* c) {
    constexpr int kPerRow = Size / 8;
#pragma unroll
    for (int step = 0; step < Size * kPerRow / Threads; ++step) {
        const int i = step * Threads + threadIdx.x;
        const int row = i / kPerRow, column = i % kPerRow * 8;
        const float4* from = reinterpret_cast<const float4*>(sums + row * Pitch + column);
        __stcg(reinterpret_cast<uint4*>(c + row * Size + column), scaled_eight(from, scale + column));
    }
}

// 64 x 64 x 64: one product per block of four warps, each of which has 16 rows of C.
template <int Pitch>
__global__ void __launch_bounds__(128) product_64(Batch d) {
    __shared__ alignas(128) unsigned char space[2 * 64 * 72 * sizeof(__half)];
    __half* a = reinterpret_cast<__half*>(space);
    __half* b = a + 64 * Pitch;
    float* c = reinterpret_cast<float*>(space);
    const size_t at = size_t(blockIdx.x) * 64 * 64;
    stage<64, 64, Pitch, 128>(d.a + at, 64, a);
    stage<64, 64, Pitch, 128>(d.b + at, 64, b);
    __syncthreads();
    const int row = threadIdx.x / 32 * 16;
    Sums sums[4];
    for (auto& s : sums) wmma::fill_fragment(s, 0.0f);
#pragma unroll
    for (int k = 0; k < 64; k += 16) {
        RowsA left;
        wmma::load_matrix_sync(left, a + row * Pitch + k, Pitch);
#pragma unroll
        for (int n = 0; n < 4; ++n) {
            RowsB right;
            wmma::load_matrix_sync(right, b + k * Pitch + 16 * n, Pitch);
            wmma::mma_sync(sums[n], left, right, sums[n]);
        }
    }
    __syncthreads();
#pragma unroll
    for (int n = 0; n < 4; ++n) {
        wmma::store_matrix_sync(c + row * 68 + 16 * n, sums[n], 68, wmma::mem_row_major);
    }
    __syncthreads();
    write_scaled<64, 68, 128>(c, d.scale, d.c + at);
}
//: end

//: variant staged_64
void staged_64(const Batch& d) {
    product_64<64><<<d.count, 128>>>(d);
}
//: end

//: variant staged_72
void staged_72(const Batch& d) {
    product_64<72><<<d.count, 128>>>(d);
}
//: end

//: variant from_global
// 64 x 64 x 64: one product per block of four warps, each of which has 16 rows of C.
__global__ void __launch_bounds__(128) product_64_from_global(Batch d) {
    __shared__ alignas(128) float c[64 * 68];
    const size_t at = size_t(blockIdx.x) * 64 * 64;
    const int row = threadIdx.x / 32 * 16;
    Sums sums[4];
    for (auto& s : sums) wmma::fill_fragment(s, 0.0f);
#pragma unroll
    for (int k = 0; k < 64; k += 16) {
        RowsA left;
        wmma::load_matrix_sync(left, d.a + at + row * 64 + k, 64);
#pragma unroll
        for (int n = 0; n < 4; ++n) {
            RowsB right;
            wmma::load_matrix_sync(right, d.b + at + k * 64 + 16 * n, 64);
            wmma::mma_sync(sums[n], left, right, sums[n]);
        }
    }
#pragma unroll
    for (int n = 0; n < 4; ++n) {
        wmma::store_matrix_sync(c + row * 68 + 16 * n, sums[n], 68, wmma::mem_row_major);
    }
    __syncthreads();
    write_scaled<64, 68, 128>(c, d.scale, d.c + at);
}

void from_global(const Batch& d) {
    product_64_from_global<<<d.count, 128>>>(d);
}
//: end

//: variant fma_128
// 128 x 128 x 128: one product per block; a thread has 8 x 8 values of C in registers.
__global__ void __launch_bounds__(256) product_128_fma(Batch d) {
    extern __shared__ __align__(128) unsigned char space[];
    __half* a = reinterpret_cast<__half*>(space);
    __half* b = a + 128 * 136;
    const size_t at = size_t(blockIdx.x) * 128 * 128;
    stage<128, 128, 136, 256>(d.a + at, 128, a);
    stage<128, 128, 136, 256>(d.b + at, 128, b);
    __syncthreads();
    const int row = threadIdx.x / 16 * 8, column = threadIdx.x % 16 * 8;
    float sum[8][8] = {};
#pragma unroll 1
    for (int k = 0; k < 128; k += 2) {
        float2 left[8];
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            left[i] = __half22float2(*reinterpret_cast<const __half2*>(a + (row + i) * 136 + k));
        }
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const uint4 bits = *reinterpret_cast<const uint4*>(b + (k + half) * 136 + column);
            const __half2* pair = reinterpret_cast<const __half2*>(&bits);
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                const float2 right = __half22float2(pair[j]);
#pragma unroll
                for (int i = 0; i < 8; ++i) {
                    const float value = half ? left[i].y : left[i].x;
                    sum[i][2 * j] += value * right.x;
                    sum[i][2 * j + 1] += value * right.y;
                }
            }
        }
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const float4 line[2] = {make_float4(sum[i][0], sum[i][1], sum[i][2], sum[i][3]),
                                make_float4(sum[i][4], sum[i][5], sum[i][6], sum[i][7])};
        uint4* to = reinterpret_cast<uint4*>(d.c + at + (row + i) * 128 + column);
        __stcg(to, scaled_eight(line, d.scale + column));
    }
}

void fma_128(const Batch& d) {
    const int bytes = 2 * 128 * 136 * sizeof(__half);
    BOOK_CHECK(cudaFuncSetAttribute(product_128_fma, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    product_128_fma<<<d.count, 256, bytes>>>(d);
}
//: end

//: shared
// 128 x 128 x 128: one product per block of eight warps, each of which has 32 x 64 values of C.
// The sums are at byte `sums_at` of shared memory.
__global__ void __launch_bounds__(256) product_128(Batch d, int sums_at) {
    extern __shared__ __align__(128) unsigned char space[];
    __half* a = reinterpret_cast<__half*>(space);
    __half* b = a + 128 * 136;
    float* c = reinterpret_cast<float*>(space + sums_at);
    const size_t at = size_t(blockIdx.x) * 128 * 128;
    stage<128, 128, 136, 256>(d.a + at, 128, a);
    stage<128, 128, 136, 256>(d.b + at, 128, b);
    __syncthreads();
    const int warp = threadIdx.x / 32, row = warp / 2 * 32, column = warp % 2 * 64;
    Sums sums[2][4];
    for (auto& line : sums) {
        for (auto& s : line) wmma::fill_fragment(s, 0.0f);
    }
#pragma unroll 2
    for (int k = 0; k < 128; k += 16) {
        RowsA left[2];
        wmma::load_matrix_sync(left[0], a + row * 136 + k, 136);
        wmma::load_matrix_sync(left[1], a + (row + 16) * 136 + k, 136);
#pragma unroll
        for (int n = 0; n < 4; ++n) {
            RowsB right;
            wmma::load_matrix_sync(right, b + k * 136 + column + 16 * n, 136);
            wmma::mma_sync(sums[0][n], left[0], right, sums[0][n]);
            wmma::mma_sync(sums[1][n], left[1], right, sums[1][n]);
        }
    }
    __syncthreads();
#pragma unroll
    for (int m = 0; m < 2; ++m) {
#pragma unroll
        for (int n = 0; n < 4; ++n) {
            float* to = c + (row + 16 * m) * 132 + column + 16 * n;
            wmma::store_matrix_sync(to, sums[m][n], 132, wmma::mem_row_major);
        }
    }
    __syncthreads();
    write_scaled<128, 132, 256>(c, d.scale, d.c + at);
}

constexpr int kInputBytes = 2 * 128 * 136 * sizeof(__half);
constexpr int kSumBytes = 128 * 132 * sizeof(float);

inline void launch_128(const Batch& d, int sums_at, int bytes) {
    BOOK_CHECK(cudaFuncSetAttribute(product_128, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    product_128<<<d.count, 256, bytes>>>(d, sums_at);
}
//: end

//: variant sums_behind
void sums_behind(const Batch& d) {
    launch_128(d, kInputBytes, kInputBytes + kSumBytes);
}
//: end

//: variant sums_over
void sums_over(const Batch& d) {
    launch_128(d, 0, std::max(kInputBytes, kSumBytes));
}
//: end

//: shared
// 128 x 128 x depth: a block sums its share of the depth, 64 at a time.
__global__ void __launch_bounds__(256) product_long(Batch d, int share) {
    __shared__ alignas(128) __half a[128 * 72];
    __shared__ alignas(128) __half b[64 * 136];
    const __half* from_a = d.a + size_t(blockIdx.x) * 128 * d.depth + blockIdx.y * share;
    const __half* from_b = d.b + (size_t(blockIdx.x) * d.depth + blockIdx.y * share) * 128;
    const int warp = threadIdx.x / 32, row = warp / 2 * 32, column = warp % 2 * 64;
    Sums sums[2][4];
    for (auto& line : sums) {
        for (auto& s : line) wmma::fill_fragment(s, 0.0f);
    }
    for (int from = 0; from < share; from += 64) {
        stage<128, 64, 72, 256>(from_a + from, d.depth, a);
        stage<64, 128, 136, 256>(from_b + size_t(from) * 128, 128, b);
        __syncthreads();
#pragma unroll 2
        for (int k = 0; k < 64; k += 16) {
            RowsA left[2];
            wmma::load_matrix_sync(left[0], a + row * 72 + k, 72);
            wmma::load_matrix_sync(left[1], a + (row + 16) * 72 + k, 72);
#pragma unroll
            for (int n = 0; n < 4; ++n) {
                RowsB right;
                wmma::load_matrix_sync(right, b + k * 136 + column + 16 * n, 136);
                wmma::mma_sync(sums[0][n], left[0], right, sums[0][n]);
                wmma::mma_sync(sums[1][n], left[1], right, sums[1][n]);
            }
        }
        __syncthreads();
    }
    float* to = d.partial + (size_t(blockIdx.y) * d.count + blockIdx.x) * 128 * 128;
#pragma unroll
    for (int m = 0; m < 2; ++m) {
#pragma unroll
        for (int n = 0; n < 4; ++n) {
            wmma::store_matrix_sync(to + (row + 16 * m) * 128 + column + 16 * n, sums[m][n], 128,
                                    wmma::mem_row_major);
        }
    }
}

// Adds up the shares of the depth; four values of C per thread.
__global__ void finish_long(Batch d, int splits) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x, quarter = d.count * 128 * 128 / 4;
    float4 sum = make_float4(0, 0, 0, 0);
    for (int s = 0; s < splits; ++s) {
        const float4 part = reinterpret_cast<const float4*>(d.partial)[size_t(s) * quarter + i];
        sum.x += part.x, sum.y += part.y, sum.z += part.z, sum.w += part.w;
    }
    const float4 scale = reinterpret_cast<const float4*>(d.scale)[i % 32];
    const uint2 four = make_uint2(rounded(sum.x * scale.x, sum.y * scale.y), rounded(sum.z * scale.z, sum.w * scale.w));
    __stcg(reinterpret_cast<uint2*>(d.c) + i, four);
}

inline void launch_long(const Batch& d, int splits) {
    product_long<<<dim3(d.count, splits), 256>>>(d, d.depth / splits);
    finish_long<<<d.count * 128 * 128 / 4 / 256, 256>>>(d, splits);
}
//: end

//: variant whole_depth
void whole_depth(const Batch& d) {
    launch_long(d, 1);
}
//: end

//: variant depth_in_8
void depth_in_8(const Batch& d) {
    launch_long(d, 8);
}
//: end

//: shared
// 16 x 16 x 16 in float: one product per warp, eight per block. Rows of 20 in shared memory.
struct WarpTiles {
    float a[16 * 20], b[16 * 20];
};

__device__ inline void stage_16(const float* a, const float* b, WarpTiles& tiles, int lane) {
#pragma unroll
    for (int i = lane; i < 64; i += 32) {
        const int to = i / 4 * 20 + i % 4 * 4;
        *reinterpret_cast<float4*>(tiles.a + to) = reinterpret_cast<const float4*>(a)[i];
        *reinterpret_cast<float4*>(tiles.b + to) = reinterpret_cast<const float4*>(b)[i];
    }
    __syncwarp();
}
//: end

//: variant fma_16
__global__ void __launch_bounds__(256) product_16_fma(FloatBatch d) {
    __shared__ alignas(128) WarpTiles of_warp[8];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const size_t at = (size_t(blockIdx.x) * 8 + warp) * 256;
    WarpTiles& tiles = of_warp[warp];
    stage_16(d.a + at, d.b + at, tiles, lane);
    // A lane has half a row of C.
    const int row = lane / 2, column = lane % 2 * 8;
    float sum[8] = {};
#pragma unroll
    for (int k = 0; k < 16; ++k) {
        const float left = tiles.a[row * 20 + k];
#pragma unroll
        for (int j = 0; j < 8; ++j) sum[j] += left * tiles.b[k * 20 + column + j];
    }
    float4* to = reinterpret_cast<float4*>(d.c + at + row * 16 + column);
    __stcg(to, scaled(make_float4(sum[0], sum[1], sum[2], sum[3]), d.scale + column));
    __stcg(to + 1, scaled(make_float4(sum[4], sum[5], sum[6], sum[7]), d.scale + column + 4));
}

void fma_16(const FloatBatch& d) {
    product_16_fma<<<d.count / 8, 256>>>(d);
}
//: end

//: variant tf32_16
__global__ void __launch_bounds__(256) product_16_tf32(FloatBatch d) {
    __shared__ alignas(128) WarpTiles of_warp[8];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const size_t at = (size_t(blockIdx.x) * 8 + warp) * 256;
    WarpTiles& tiles = of_warp[warp];
    stage_16(d.a + at, d.b + at, tiles, lane);
    wmma::fragment<wmma::accumulator, 16, 16, 8, float> sums;
    wmma::fill_fragment(sums, 0.0f);
#pragma unroll
    for (int k = 0; k < 16; k += 8) {
        wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> left;
        wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::row_major> right;
        wmma::load_matrix_sync(left, tiles.a + k, 20);
        wmma::load_matrix_sync(right, tiles.b + k * 20, 20);
        for (auto& x : left.x) x = wmma::__float_to_tf32(x);
        for (auto& x : right.x) x = wmma::__float_to_tf32(x);
        wmma::mma_sync(sums, left, right, sums);
    }
    __syncwarp();
    wmma::store_matrix_sync(tiles.a, sums, 20, wmma::mem_row_major);
    __syncwarp();
    const int row = lane / 2, column = lane % 2 * 8;
    const float4* sum = reinterpret_cast<const float4*>(tiles.a + row * 20 + column);
    float4* to = reinterpret_cast<float4*>(d.c + at + row * 16 + column);
    __stcg(to, scaled(sum[0], d.scale + column));
    __stcg(to + 1, scaled(sum[1], d.scale + column + 4));
}

void tf32_16(const FloatBatch& d) {
    product_16_tf32<<<d.count / 8, 256>>>(d);
}
//: end

// --- reference: one value of C per thread, in double for short sums and blocks of float for long ones

template <class T>
__global__ void reference_product(const T* a, const T* b, const float* scale, T* expected, int count, int size,
                                  int depth) {
    const size_t values = size_t(count) * size * size;
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < values;
         i += size_t{gridDim.x} * blockDim.x) {
        const int column = int(i % size);
        const size_t line = i / size, product = line / size;
        double sum = 0;
        for (int from = 0; from < depth; from += 16) {
            float part = 0;
            for (int k = from; k < from + 16; ++k) {
                part += float(book::as_double(a[line * depth + k])) *
                        float(book::as_double(b[(product * depth + k) * size + column]));
            }
            sum += part;
        }
        expected[i] = book::from_double<T>(sum * scale[column]);
    }
}

Batch batch(book::Problem& p, int count, int size, int depth) {
    Batch d{count, depth};
    const size_t inputs = size_t(count) * size * depth, values = size_t(count) * size * size;
    d.a = p.uniform<__half>(inputs, -1, 1);
    d.b = p.uniform<__half>(inputs, -1, 1);
    d.scale = p.uniform<float>(size, 0.25, 0.5);
    d.c = p.output<__half>(values);
    p.needs({.dram_bytes = 4.0 * inputs + 2.0 * values, .tensor_flop = 2.0 * values * depth});
    p.check<__half>(d.c, values, {1e-3, 1e-3}, [=](__half* expected) {
        reference_product<<<4224, 256>>>(d.a, d.b, d.scale, expected, count, size, depth);
    });
    return d;
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("half_64", [](book::Problem& p) {
        const auto d = batch(p, 7920, 64, 64);
        p.variant("staged_64", [=] { staged_64(d); });
        p.variant("staged_72", [=] { staged_72(d); });
        p.variant("from_global", [=] { from_global(d); });
    });
    book.problem("half_128", [](book::Problem& p) {
        const auto d = batch(p, 1584, 128, 128);
        p.variant("fma_128", [=] { fma_128(d); });
        p.variant("sums_behind", [=] { sums_behind(d); });
        p.variant("sums_over", [=] { sums_over(d); });
    });
    book.problem("half_deep", [](book::Problem& p) {
        auto d = batch(p, 32, 128, 4096);
        d.partial = p.output<float>(size_t{8} * 32 * 128 * 128);
        p.variant("whole_depth", [=] { whole_depth(d); });
        p.variant("depth_in_8", [=] { depth_in_8(d); });
    });
    book.problem("float_16", [](book::Problem& p) {
        FloatBatch d{65536};
        const size_t values = size_t(d.count) * 256;
        const uint64_t seed = p.seed();
        // Multiples of 1/256, which TF32 holds exactly.
        d.a = p.input<float>(values, [=] __device__(size_t i) {
            return float(floor(512 * book::uniform01(seed, 1, i)) / 256 - 1);
        });
        d.b = p.input<float>(values, [=] __device__(size_t i) {
            return float(floor(512 * book::uniform01(seed, 2, i)) / 256 - 1);
        });
        d.scale = p.uniform<float>(16, 0.25, 0.5);
        d.c = p.output<float>(values);
        const int count = d.count;
        p.needs({.dram_bytes = 12.0 * values, .fp32_flop = 32.0 * values});
        p.check<float>(d.c, values, {1e-5, 1e-5}, [=](float* expected) {
            reference_product<<<4224, 256>>>(d.a, d.b, d.scale, expected, count, 16, 16);
        });
        p.variant("fma_16", [=] { fma_16(d); });
        p.variant("tf32_16", [=] { tf32_16(d); });
    });
    return book.finish();
}
