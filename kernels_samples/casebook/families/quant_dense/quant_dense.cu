// Dense layers and similarity scores of 8-bit vectors: int8 in, int32 or float out.
#include <mma.h>

#include "../../harness/book.h"

constexpr int kLength = 256;  // bytes per vector

struct ScanData {
    int rows;
    const int8_t *table, *query;  // table[row][kLength]
    int* scores;
};

constexpr int kQueries = 16;

struct BatchData {
    int rows;
    const int8_t *table, *queries;
    int* scores;  // scores[query][row]
};

struct ProductData {
    int m, n, k;  // multiples of 128, 128 and 64
    const int8_t *a, *b;  // a[m][k], b[n][k]
    int* c;
};

struct LinearData {
    int tokens, outputs, inputs;  // multiples of 64, 64 and 16
    const float* x;               // x[token][input]
    const int8_t* weights;        // weights[output][input]
    const float* scales;          // scales[output]
    float* y;
};

//: shared
namespace wmma = nvcuda::wmma;

__device__ inline int byte_of(int word, int i) {
    return static_cast<int8_t>(word >> (8 * i));
}

__device__ inline int dot_bytes(int4 v, const int (&q)[16]) {
    const int words[4] = {v.x, v.y, v.z, v.w};
    int sum = 0;
#pragma unroll
    for (int i = 0; i < 16; ++i) sum += byte_of(words[i / 4], i % 4) * q[i];
    return sum;
}

__device__ inline int dot_words(int4 v, int4 q) {
    return __dp4a(v.x, q.x, __dp4a(v.y, q.y, __dp4a(v.z, q.z, __dp4a(v.w, q.w, 0))));
}

constexpr int kRowsPerBlock = 128;
//: end

//: variant scan_bytes
// Half a warp per row, 16 bytes per thread; eight rows per half warp.
__global__ void scan_with_bytes(const int4* __restrict__ table, const int4* __restrict__ query,
                                int* __restrict__ scores) {
    const int lane = threadIdx.x % 16;
    const int first = (blockIdx.x * blockDim.x + threadIdx.x) / 16 * 8;
    const int4 q = query[lane];
    const int words[4] = {q.x, q.y, q.z, q.w};
    int bytes[16];
#pragma unroll
    for (int i = 0; i < 16; ++i) bytes[i] = byte_of(words[i / 4], i % 4);
    int4 v[8];
#pragma unroll
    for (int r = 0; r < 8; ++r) v[r] = table[size_t(first + r) * (kLength / 16) + lane];
#pragma unroll
    for (int r = 0; r < 8; ++r) {
        int sum = dot_bytes(v[r], bytes);
        for (int step = 8; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
        if (lane == r) scores[first + r] = sum;
    }
}

void scan_bytes(const ScanData& d) {
    scan_with_bytes<<<d.rows / 128, 256>>>(reinterpret_cast<const int4*>(d.table),
                                           reinterpret_cast<const int4*>(d.query), d.scores);
}
//: end

//: variant scan_words
// Half a warp per row, 16 bytes per thread; eight rows per half warp.
__global__ void scan_with_words(const int4* __restrict__ table, const int4* __restrict__ query,
                                int* __restrict__ scores) {
    const int lane = threadIdx.x % 16;
    const int first = (blockIdx.x * blockDim.x + threadIdx.x) / 16 * 8;
    const int4 q = query[lane];
    int4 v[8];
#pragma unroll
    for (int r = 0; r < 8; ++r) v[r] = table[size_t(first + r) * (kLength / 16) + lane];
#pragma unroll
    for (int r = 0; r < 8; ++r) {
        int sum = dot_words(v[r], q);
        for (int step = 8; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
        if (lane == r) scores[first + r] = sum;
    }
}

void scan_words(const ScanData& d) {
    scan_with_words<<<d.rows / 128, 256>>>(reinterpret_cast<const int4*>(d.table),
                                           reinterpret_cast<const int4*>(d.query), d.scores);
}
//: end

//: variant scan_rows
// One warp per row, 4 bytes per thread at a time.
__global__ void scan_row_by_row(const int* __restrict__ table, const int* __restrict__ query,
                                int* __restrict__ scores) {
    const int lane = threadIdx.x % 32, row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    int sum = 0;
#pragma unroll
    for (int i = lane; i < kLength / 4; i += 32) {
        sum = __dp4a(table[size_t(row) * (kLength / 4) + i], query[i], sum);
    }
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    if (lane == 0) scores[row] = sum;
}

void scan_rows(const ScanData& d) {
    scan_row_by_row<<<d.rows / 8, 256>>>(reinterpret_cast<const int*>(d.table),
                                         reinterpret_cast<const int*>(d.query), d.scores);
}
//: end

//: shared
// Rows of the table and all queries in shared memory; then one row per thread.
struct Stage {
    int4 rows[kRowsPerBlock][kLength / 16 + 1];
    int4 queries[kQueries][kLength / 16];

    __device__ void load(const int4* table, const int4* from) {
        for (int i = threadIdx.x; i < kQueries * kLength / 16; i += kRowsPerBlock) {
            queries[i / 16][i % 16] = from[i];
        }
        const int4* block = table + size_t(blockIdx.x) * kRowsPerBlock * (kLength / 16);
#pragma unroll 8
        for (int i = threadIdx.x; i < kRowsPerBlock * kLength / 16; i += kRowsPerBlock) {
            rows[i / 16][i % 16] = block[i];
        }
        __syncthreads();
    }
};
//: end

//: variant batch_bytes
__global__ void __launch_bounds__(kRowsPerBlock)
    batch_with_bytes(const int4* __restrict__ table, const int4* __restrict__ queries,
                     int* __restrict__ scores, int rows) {
    __shared__ Stage stage;
    stage.load(table, queries);
    int sums[kQueries] = {};
    for (int i = 0; i < kLength / 16; ++i) {
        const int4 v = stage.rows[threadIdx.x][i];
        const int words[4] = {v.x, v.y, v.z, v.w};
        int bytes[16];
#pragma unroll
        for (int b = 0; b < 16; ++b) bytes[b] = byte_of(words[b / 4], b % 4);
#pragma unroll
        for (int q = 0; q < kQueries; ++q) sums[q] += dot_bytes(stage.queries[q][i], bytes);
    }
    const int row = blockIdx.x * kRowsPerBlock + threadIdx.x;
#pragma unroll
    for (int q = 0; q < kQueries; ++q) scores[size_t(q) * rows + row] = sums[q];
}

void batch_bytes(const BatchData& d) {
    batch_with_bytes<<<d.rows / kRowsPerBlock, kRowsPerBlock>>>(
        reinterpret_cast<const int4*>(d.table), reinterpret_cast<const int4*>(d.queries), d.scores,
        d.rows);
}
//: end

//: variant batch_words
__global__ void __launch_bounds__(kRowsPerBlock)
    batch_with_words(const int4* __restrict__ table, const int4* __restrict__ queries,
                     int* __restrict__ scores, int rows) {
    __shared__ Stage stage;
    stage.load(table, queries);
    int sums[kQueries] = {};
    for (int i = 0; i < kLength / 16; ++i) {
        const int4 v = stage.rows[threadIdx.x][i];
#pragma unroll
        for (int q = 0; q < kQueries; ++q) sums[q] += dot_words(v, stage.queries[q][i]);
    }
    const int row = blockIdx.x * kRowsPerBlock + threadIdx.x;
#pragma unroll
    for (int q = 0; q < kQueries; ++q) scores[size_t(q) * rows + row] = sums[q];
}

void batch_words(const BatchData& d) {
    batch_with_words<<<d.rows / kRowsPerBlock, kRowsPerBlock>>>(
        reinterpret_cast<const int4*>(d.table), reinterpret_cast<const int4*>(d.queries), d.scores,
        d.rows);
}
//: end

//: shared
constexpr int kTile = 128;  // rows and columns of C per block

struct MultiplyBytes {
    // 8 by 8 sums of a thread, from one word of each row.
    __device__ static void add(int (&sums)[8][8], const int (&x)[8], const int (&y)[8]) {
#pragma unroll
        for (int b = 0; b < 4; ++b) {
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                const int left = byte_of(x[i], b);
#pragma unroll
                for (int j = 0; j < 8; ++j) sums[i][j] += left * byte_of(y[j], b);
            }
        }
    }
};

struct MultiplyWords {
    __device__ static void add(int (&sums)[8][8], const int (&x)[8], const int (&y)[8]) {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
#pragma unroll
            for (int j = 0; j < 8; ++j) sums[i][j] = __dp4a(x[i], y[j], sums[i][j]);
        }
    }
};

template <class Multiply>
__global__ void __launch_bounds__(256)
    product_on_threads(const int8_t* __restrict__ a, const int8_t* __restrict__ b,
                       int* __restrict__ c, int n, int k) {
    constexpr int depth = 32, pitch = kTile + 4;
    __shared__ __align__(16) int a_tile[depth / 4 * pitch];  // words, one line per column of words
    __shared__ __align__(16) int b_tile[depth / 4 * pitch];
    const int row = blockIdx.y * kTile, column = blockIdx.x * kTile;
    const int ty = threadIdx.x / 16 * 4, tx = threadIdx.x % 16 * 4;
    int sums[8][8] = {};
    for (int start = 0; start < k; start += depth) {
        __syncthreads();
        const int r = threadIdx.x / 2, at = threadIdx.x % 2 * 4;
        const int4 v = *reinterpret_cast<const int4*>(a + size_t(row + r) * k + start + 4 * at);
        const int4 w = *reinterpret_cast<const int4*>(b + size_t(column + r) * k + start + 4 * at);
        a_tile[at * pitch + r] = v.x, a_tile[(at + 1) * pitch + r] = v.y;
        a_tile[(at + 2) * pitch + r] = v.z, a_tile[(at + 3) * pitch + r] = v.w;
        b_tile[at * pitch + r] = w.x, b_tile[(at + 1) * pitch + r] = w.y;
        b_tile[(at + 2) * pitch + r] = w.z, b_tile[(at + 3) * pitch + r] = w.w;
        __syncthreads();
#pragma unroll 2
        for (int i = 0; i < depth / 4; ++i) {
            int x[8], y[8];
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                *reinterpret_cast<int4*>(x + 4 * half) =
                    *reinterpret_cast<const int4*>(a_tile + i * pitch + ty + 64 * half);
                *reinterpret_cast<int4*>(y + 4 * half) =
                    *reinterpret_cast<const int4*>(b_tile + i * pitch + tx + 64 * half);
            }
            Multiply::add(sums, x, y);
        }
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int r = row + ty + i % 4 + i / 4 * 64, at = column + tx + 64 * half;
            *reinterpret_cast<int4*>(c + size_t(r) * n + at) =
                make_int4(sums[i][4 * half], sums[i][4 * half + 1], sums[i][4 * half + 2],
                          sums[i][4 * half + 3]);
        }
    }
}

// Eight warps of 64 by 32 results; `Pitch` bytes from row to row of the staged tiles.
template <int Pitch>
__global__ void __launch_bounds__(256)
    product_on_tensor_cores(const int8_t* __restrict__ a, const int8_t* __restrict__ b,
                            int* __restrict__ c, int n, int k) {
    constexpr int depth = 64;
    __shared__ __align__(128) signed char a_tile[kTile * Pitch];
    __shared__ __align__(128) signed char b_tile[kTile * Pitch];
    const int row = blockIdx.y * kTile, column = blockIdx.x * kTile, warp = threadIdx.x / 32;
    const int warp_row = warp / 4 * 64, warp_column = warp % 4 * 32;
    wmma::fragment<wmma::accumulator, 16, 16, 16, int> sums[4][2];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        wmma::fill_fragment(sums[i][0], 0);
        wmma::fill_fragment(sums[i][1], 0);
    }
    for (int start = 0; start < k; start += depth) {
        __syncthreads();
        for (int i = threadIdx.x; i < kTile * depth / 16; i += 256) {
            const int r = i / 4, at = i % 4 * 16;
            *reinterpret_cast<int4*>(a_tile + r * Pitch + at) =
                *reinterpret_cast<const int4*>(a + size_t(row + r) * k + start + at);
            *reinterpret_cast<int4*>(b_tile + r * Pitch + at) =
                *reinterpret_cast<const int4*>(b + size_t(column + r) * k + start + at);
        }
        __syncthreads();
#pragma unroll
        for (int kk = 0; kk < depth; kk += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, signed char, wmma::row_major> x[4];
            wmma::fragment<wmma::matrix_b, 16, 16, 16, signed char, wmma::col_major> y[2];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                wmma::load_matrix_sync(x[i], a_tile + (warp_row + 16 * i) * Pitch + kk, Pitch);
            }
#pragma unroll
            for (int j = 0; j < 2; ++j) {
                wmma::load_matrix_sync(y[j], b_tile + (warp_column + 16 * j) * Pitch + kk, Pitch);
            }
#pragma unroll
            for (int i = 0; i < 4; ++i) {
#pragma unroll
                for (int j = 0; j < 2; ++j) wmma::mma_sync(sums[i][j], x[i], y[j], sums[i][j]);
            }
        }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 2; ++j) {
            wmma::store_matrix_sync(
                c + size_t(row + warp_row + 16 * i) * n + column + warp_column + 16 * j, sums[i][j],
                n, wmma::mem_row_major);
        }
    }
}
//: end

//: variant product_bytes
void product_bytes(const ProductData& d) {
    product_on_threads<MultiplyBytes>
        <<<dim3(d.n / kTile, d.m / kTile), 256>>>(d.a, d.b, d.c, d.n, d.k);
}
//: end

//: variant product_words
void product_words(const ProductData& d) {
    product_on_threads<MultiplyWords>
        <<<dim3(d.n / kTile, d.m / kTile), 256>>>(d.a, d.b, d.c, d.n, d.k);
}
//: end

//: variant product_wmma_64
void product_wmma_64(const ProductData& d) {
    product_on_tensor_cores<64><<<dim3(d.n / kTile, d.m / kTile), 256>>>(d.a, d.b, d.c, d.n, d.k);
}
//: end

//: variant product_wmma_80
void product_wmma_80(const ProductData& d) {
    product_on_tensor_cores<80><<<dim3(d.n / kTile, d.m / kTile), 256>>>(d.a, d.b, d.c, d.n, d.k);
}
//: end

//: shared
constexpr int kLinear = 64;  // tokens and outputs per block
constexpr int kInputs = 16;  // inputs per step
constexpr int kPitch = kLinear + 4;

__device__ inline void transpose_into(float* tile, int line, int at, float4 v) {
    tile[line * kPitch + at] = v.x, tile[(line + 1) * kPitch + at] = v.y;
    tile[(line + 2) * kPitch + at] = v.z, tile[(line + 3) * kPitch + at] = v.w;
}

__device__ inline void add_outer(float (&sums)[4][4], float4 x, float4 w) {
    const float left[4] = {x.x, x.y, x.z, x.w}, right[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) sums[i][j] = fmaf(left[i], right[j], sums[i][j]);
    }
}

__device__ inline void store_outputs(float* y, int outputs, int token, int output,
                                     const float (&sums)[4][4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        *reinterpret_cast<float4*>(y + size_t(token + i) * outputs + output) =
            make_float4(sums[i][0], sums[i][1], sums[i][2], sums[i][3]);
    }
}
//: end

//: variant linear_bytes
__global__ void __launch_bounds__(256)
    linear_from_bytes(const float* __restrict__ x, const int8_t* __restrict__ weights,
                      const float* __restrict__ scales, float* __restrict__ y, int outputs,
                      int inputs) {
    __shared__ __align__(16) float x_tile[kInputs * kPitch];
    __shared__ __align__(16) int8_t w_tile[kInputs * kPitch];
    const int token = blockIdx.y * kLinear, output = blockIdx.x * kLinear;
    const int ty = threadIdx.x / 16 * 4, tx = threadIdx.x % 16 * 4;
    const int r = threadIdx.x / 4, at = threadIdx.x % 4 * 4;
    const float4 scale = *reinterpret_cast<const float4*>(scales + output + tx);
    float sums[4][4] = {};
    for (int start = 0; start < inputs; start += kInputs) {
        __syncthreads();
        const char4 w =
            *reinterpret_cast<const char4*>(weights + size_t(output + r) * inputs + start + at);
        transpose_into(x_tile, at, r,
                       *reinterpret_cast<const float4*>(x + size_t(token + r) * inputs + start + at));
        w_tile[at * kPitch + r] = w.x, w_tile[(at + 1) * kPitch + r] = w.y;
        w_tile[(at + 2) * kPitch + r] = w.z, w_tile[(at + 3) * kPitch + r] = w.w;
        __syncthreads();
#pragma unroll
        for (int k = 0; k < kInputs; ++k) {
            const char4 q = *reinterpret_cast<const char4*>(w_tile + k * kPitch + tx);
            add_outer(sums, *reinterpret_cast<const float4*>(x_tile + k * kPitch + ty),
                      make_float4(scale.x * q.x, scale.y * q.y, scale.z * q.z, scale.w * q.w));
        }
    }
    store_outputs(y, outputs, token + ty, output + tx, sums);
}

void linear_bytes(const LinearData& d) {
    linear_from_bytes<<<dim3(d.outputs / kLinear, d.tokens / kLinear), 256>>>(
        d.x, d.weights, d.scales, d.y, d.outputs, d.inputs);
}
//: end

//: variant linear_floats
__global__ void __launch_bounds__(256)
    linear_from_floats(const float* __restrict__ x, const int8_t* __restrict__ weights,
                       const float* __restrict__ scales, float* __restrict__ y, int outputs,
                       int inputs) {
    __shared__ __align__(16) float x_tile[kInputs * kPitch];
    __shared__ __align__(16) float w_tile[kInputs * kPitch];
    const int token = blockIdx.y * kLinear, output = blockIdx.x * kLinear;
    const int ty = threadIdx.x / 16 * 4, tx = threadIdx.x % 16 * 4;
    const int r = threadIdx.x / 4, at = threadIdx.x % 4 * 4;
    const float scale = scales[output + r];
    float sums[4][4] = {};
    for (int start = 0; start < inputs; start += kInputs) {
        __syncthreads();
        const char4 w =
            *reinterpret_cast<const char4*>(weights + size_t(output + r) * inputs + start + at);
        transpose_into(x_tile, at, r,
                       *reinterpret_cast<const float4*>(x + size_t(token + r) * inputs + start + at));
        transpose_into(w_tile, at, r, make_float4(scale * w.x, scale * w.y, scale * w.z, scale * w.w));
        __syncthreads();
#pragma unroll
        for (int k = 0; k < kInputs; ++k) {
            add_outer(sums, *reinterpret_cast<const float4*>(x_tile + k * kPitch + ty),
                      *reinterpret_cast<const float4*>(w_tile + k * kPitch + tx));
        }
    }
    store_outputs(y, outputs, token + ty, output + tx, sums);
}

void linear_floats(const LinearData& d) {
    linear_from_floats<<<dim3(d.outputs / kLinear, d.tokens / kLinear), 256>>>(
        d.x, d.weights, d.scales, d.y, d.outputs, d.inputs);
}
//: end

//: variant linear_halves
// Both operands as half, eight warps of 32 by 16; the scales are applied to the sums.
__global__ void __launch_bounds__(256)
    linear_from_halves(const float* __restrict__ x, const int8_t* __restrict__ weights,
                       const float* __restrict__ scales, float* __restrict__ y, int outputs,
                       int inputs) {
    constexpr int pitch = 2 * kInputs + 8;
    __shared__ __align__(128) __half x_tile[kLinear * pitch];
    __shared__ __align__(128) __half w_tile[kLinear * pitch];
    __shared__ __align__(128) float results[kLinear * kPitch];
    const int token = blockIdx.y * kLinear, output = blockIdx.x * kLinear;
    const int warp = threadIdx.x / 32, warp_row = warp / 4 * 32, warp_column = warp % 4 * 16;
    const int r = threadIdx.x / 4, at = threadIdx.x % 4 * 8;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sums[2];
    wmma::fill_fragment(sums[0], 0.0f);
    wmma::fill_fragment(sums[1], 0.0f);
    for (int start = 0; start < inputs; start += 2 * kInputs) {
        __syncthreads();
        const float* from = x + size_t(token + r) * inputs + start + at;
        const float4 low = reinterpret_cast<const float4*>(from)[0];
        const float4 high = reinterpret_cast<const float4*>(from)[1];
        const char4* w =
            reinterpret_cast<const char4*>(weights + size_t(output + r) * inputs + start + at);
        const char4 first = w[0], second = w[1];
        __half2* to = reinterpret_cast<__half2*>(x_tile + r * pitch + at);
        to[0] = __floats2half2_rn(low.x, low.y), to[1] = __floats2half2_rn(low.z, low.w);
        to[2] = __floats2half2_rn(high.x, high.y), to[3] = __floats2half2_rn(high.z, high.w);
        to = reinterpret_cast<__half2*>(w_tile + r * pitch + at);
        to[0] = __floats2half2_rn(first.x, first.y), to[1] = __floats2half2_rn(first.z, first.w);
        to[2] = __floats2half2_rn(second.x, second.y), to[3] = __floats2half2_rn(second.z, second.w);
        __syncthreads();
#pragma unroll
        for (int k = 0; k < 2 * kInputs; k += 16) {
            wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> right;
            wmma::load_matrix_sync(right, w_tile + warp_column * pitch + k, pitch);
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> left;
                wmma::load_matrix_sync(left, x_tile + (warp_row + 16 * i) * pitch + k, pitch);
                wmma::mma_sync(sums[i], left, right, sums[i]);
            }
        }
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        wmma::store_matrix_sync(results + (warp_row + 16 * i) * kPitch + warp_column, sums[i], kPitch,
                                wmma::mem_row_major);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < kLinear * kLinear; i += 256) {
        const int row = i / kLinear, column = i % kLinear;
        y[size_t(token + row) * outputs + output + column] =
            scales[output + column] * results[row * kPitch + column];
    }
}

void linear_halves(const LinearData& d) {
    linear_from_halves<<<dim3(d.outputs / kLinear, d.tokens / kLinear), 256>>>(
        d.x, d.weights, d.scales, d.y, d.outputs, d.inputs);
}
//: end

// expected[y][x] = the product of row y of a and row x of b.
__global__ void reference_product(const int8_t* a, const int8_t* b, int* expected, int m, int n,
                                  int k) {
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < size_t(m) * n;
         i += size_t{gridDim.x} * blockDim.x) {
        const size_t y = i / n, x = i % n;
        int sum = 0;
        for (int j = 0; j < k; ++j) sum += int(a[y * k + j]) * int(b[x * k + j]);
        expected[i] = sum;
    }
}

__global__ void reference_linear(LinearData d, float* expected) {
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < size_t(d.tokens) * d.outputs;
         i += size_t{gridDim.x} * blockDim.x) {
        const size_t token = i / d.outputs, output = i % d.outputs;
        double sum = 0;
        for (int j = 0; j < d.inputs; ++j) {
            sum += double(d.x[token * d.inputs + j] * float(d.weights[output * d.inputs + j]));
        }
        expected[i] = float(sum * d.scales[output]);
    }
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    const auto bytes = [](book::Problem& p, size_t count) {
        const uint64_t seed = p.seed(), stream = count;
        return p.input<int8_t>(count, [=] __device__(size_t i) {
            return int8_t(int(255 * book::uniform01(seed, stream, i)) - 127);
        });
    };
    book.problem("one_query", [=](book::Problem& p) {
        ScanData d{524288};
        d.table = bytes(p, size_t(d.rows) * kLength);
        d.query = bytes(p, kLength);
        d.scores = p.output<int>(d.rows);
        p.needs({.dram_bytes = double(d.rows) * (kLength + 4), .int_op = d.rows * kLength / 4.0});
        p.check<int>(d.scores, d.rows, {0}, [=](int* expected) {
            reference_product<<<1056, 256>>>(d.query, d.table, expected, 1, d.rows, kLength);
        });
        p.variant("scan_bytes", [=] { scan_bytes(d); });
        p.variant("scan_words", [=] { scan_words(d); });
        p.variant("scan_rows", [=] { scan_rows(d); });
    });
    book.problem("sixteen_queries", [=](book::Problem& p) {
        BatchData d{262144};
        d.table = bytes(p, size_t(d.rows) * kLength);
        d.queries = bytes(p, kQueries * kLength);
        d.scores = p.output<int>(size_t(kQueries) * d.rows);
        p.needs({.dram_bytes = double(d.rows) * (kLength + 4 * kQueries),
                 .int_op = d.rows * (kQueries * kLength / 4.0)});
        p.check<int>(d.scores, size_t(kQueries) * d.rows, {0}, [=](int* expected) {
            reference_product<<<1056, 256>>>(d.queries, d.table, expected, kQueries, d.rows, kLength);
        });
        p.variant("batch_bytes", [=] { batch_bytes(d); });
        p.variant("batch_words", [=] { batch_words(d); });
    });
    book.problem("product", [=](book::Problem& p) {
        ProductData d{4096, 2048, 2048};
        d.a = bytes(p, size_t(d.m) * d.k);
        d.b = bytes(p, size_t(d.n) * d.k);
        d.c = p.output<int>(size_t(d.m) * d.n);
        // Tensor cores multiply int8 at twice the rate of half.
        p.needs({.dram_bytes = double(d.m) * d.k + double(d.n) * d.k + 4.0 * d.m * d.n,
                 .tensor_flop = double(d.m) * d.n * d.k});
        p.check<int>(d.c, size_t(d.m) * d.n, {0}, [=](int* expected) {
            reference_product<<<1056, 256>>>(d.a, d.b, expected, d.m, d.n, d.k);
        });
        p.variant("product_bytes", [=] { product_bytes(d); });
        p.variant("product_words", [=] { product_words(d); });
        p.variant("product_wmma_64", [=] { product_wmma_64(d); });
        p.variant("product_wmma_80", [=] { product_wmma_80(d); });
    });
    book.problem("linear", [=](book::Problem& p) {
        LinearData d{512, 4096, 4096};
        const size_t count = size_t(d.tokens) * d.outputs;
        d.x = p.uniform<float>(size_t(d.tokens) * d.inputs, -1, 1);
        d.weights = bytes(p, size_t(d.outputs) * d.inputs);
        d.scales = p.uniform<float>(d.outputs, 0.005, 0.01);
        d.y = p.output<float>(count);
        p.needs({.dram_bytes = 4.0 * d.tokens * d.inputs + double(d.outputs) * d.inputs +
                               4.0 * d.outputs + 4.0 * count,
                 .tensor_flop = 2.0 * count * d.inputs});
        p.check<float>(d.y, count, {1e-3, 0.1}, [=](float* expected) {
            reference_linear<<<1056, 256>>>(d, expected);
        });
        p.variant("linear_bytes", [=] { linear_bytes(d); });
        p.variant("linear_floats", [=] { linear_floats(d); });
        p.variant("linear_halves", [=] { linear_halves(d); });
    });
    return book.finish();
}
