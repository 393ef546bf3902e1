// Products with a transposed right-hand side on tensor cores: C = A * B^T, A is m by k, B is n by k.
#include <mma.h>

#include "../../harness/book.h"

template <class T>
struct Data {
    int m, n, k;  // multiples of 128, 128 and 32
    const T *a, *b;
    float* c;
};

//: shared
namespace wmma = nvcuda::wmma;

constexpr int kBlock = 128;  // rows and columns of C per block
constexpr int kDepth = 32;   // columns of A and B per step
constexpr int kStages = 3;

template <class T>
using AFragment = wmma::fragment<wmma::matrix_a, 16, 16, 16, T, wmma::row_major>;

template <class T>
using BFragment = wmma::fragment<wmma::matrix_b, 16, 16, 16, T, wmma::col_major>;

using Accumulator = wmma::fragment<wmma::accumulator, 16, 16, 16, float>;

__device__ inline void copy_async(void* to, const void* from) {
    const unsigned shared = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared), "l"(from));
}

__device__ inline void commit_copies() {
    asm volatile("cp.async.commit_group;");
}

template <int Left>
__device__ inline void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(Left));
}

// The part of C that one warp computes: Rows by Columns fragments.
template <class T, int Rows, int Columns>
struct WarpTile {
    Accumulator sums[Rows][Columns];

    __device__ WarpTile() {
#pragma unroll
        for (int i = 0; i < Rows; ++i) {
#pragma unroll
            for (int j = 0; j < Columns; ++j) wmma::fill_fragment(sums[i][j], 0.0f);
        }
    }

    // a and b point to the warp's first rows; `pitch` elements apart.
    __device__ void add(const T* a, const T* b, int pitch) {
#pragma unroll
        for (int k = 0; k < kDepth; k += 16) {
            AFragment<T> left[Rows];
            BFragment<T> right[Columns];
#pragma unroll
            for (int i = 0; i < Rows; ++i) {
                wmma::load_matrix_sync(left[i], a + i * 16 * pitch + k, pitch);
            }
#pragma unroll
            for (int j = 0; j < Columns; ++j) {
                wmma::load_matrix_sync(right[j], b + j * 16 * pitch + k, pitch);
            }
#pragma unroll
            for (int i = 0; i < Rows; ++i) {
#pragma unroll
                for (int j = 0; j < Columns; ++j) {
                    wmma::mma_sync(sums[i][j], left[i], right[j], sums[i][j]);
                }
            }
        }
    }

    __device__ void store(float* c, int n) {
#pragma unroll
        for (int i = 0; i < Rows; ++i) {
#pragma unroll
            for (int j = 0; j < Columns; ++j) {
                wmma::store_matrix_sync(c + size_t(i) * 16 * n + j * 16, sums[i][j], n,
                                        wmma::mem_row_major);
            }
        }
    }
};

template <int Rows, int Columns>
constexpr int kThreads = 32 * (kBlock / (16 * Rows)) * (kBlock / (16 * Columns));

template <class T, int Rows, int Columns, int Pad>
__global__ void __launch_bounds__(kThreads<Rows, Columns>)
    product_steps(const T* __restrict__ a, const T* __restrict__ b, float* __restrict__ c, int n,
                  int k) {
    constexpr int pitch = kDepth + Pad, warps_across = kBlock / (16 * Columns);
    __shared__ __align__(128) T a_tile[kBlock * pitch];
    __shared__ __align__(128) T b_tile[kBlock * pitch];
    const int row = blockIdx.y * kBlock, column = blockIdx.x * kBlock, warp = threadIdx.x / 32;
    const int warp_row = warp / warps_across * 16 * Rows;
    const int warp_column = warp % warps_across * 16 * Columns;
    WarpTile<T, Rows, Columns> tile;
    for (int start = 0; start < k; start += kDepth) {
        __syncthreads();
        for (int i = threadIdx.x; i < kBlock * 4; i += kThreads<Rows, Columns>) {
            const int r = i / 4, at = i % 4 * 8;
            *reinterpret_cast<uint4*>(a_tile + r * pitch + at) =
                *reinterpret_cast<const uint4*>(a + size_t(row + r) * k + start + at);
            *reinterpret_cast<uint4*>(b_tile + r * pitch + at) =
                *reinterpret_cast<const uint4*>(b + size_t(column + r) * k + start + at);
        }
        __syncthreads();
        tile.add(a_tile + warp_row * pitch, b_tile + warp_column * pitch, pitch);
    }
    tile.store(c + size_t(row + warp_row) * n + column + warp_column, n);
}

template <class T, int Rows, int Columns, int Pad>
__global__ void __launch_bounds__(kThreads<Rows, Columns>)
    product_pipeline(const T* __restrict__ a, const T* __restrict__ b, float* __restrict__ c, int n,
                     int k) {
    constexpr int pitch = kDepth + Pad, warps_across = kBlock / (16 * Columns);
    constexpr int stage = 2 * kBlock * pitch;
    extern __shared__ __align__(128) unsigned char memory[];
    T* tiles = reinterpret_cast<T*>(memory);  // per stage: rows of A, then rows of B
    const int row = blockIdx.y * kBlock, column = blockIdx.x * kBlock, warp = threadIdx.x / 32;
    const int warp_row = warp / warps_across * 16 * Rows;
    const int warp_column = warp % warps_across * 16 * Columns;
    const auto fetch = [&](int step) {
        T* to = tiles + step % kStages * stage;
        for (int i = threadIdx.x; i < kBlock * 4; i += kThreads<Rows, Columns>) {
            const int r = i / 4, at = i % 4 * 8;
            copy_async(to + r * pitch + at, a + size_t(row + r) * k + step * kDepth + at);
            copy_async(to + (kBlock + r) * pitch + at,
                       b + size_t(column + r) * k + step * kDepth + at);
        }
    };
    const int steps = k / kDepth;
    for (int step = 0; step < kStages - 1; ++step) {
        if (step < steps) fetch(step);
        commit_copies();
    }
    WarpTile<T, Rows, Columns> tile;
    for (int step = 0; step < steps; ++step) {
        wait_for_copies<kStages - 2>();
        __syncthreads();
        if (step + kStages - 1 < steps) fetch(step + kStages - 1);
        commit_copies();
        const T* from = tiles + step % kStages * stage;
        tile.add(from + warp_row * pitch, from + (kBlock + warp_column) * pitch, pitch);
    }
    tile.store(c + size_t(row + warp_row) * n + column + warp_column, n);
}

template <class T, int Rows, int Columns, int Pad>
void launch_steps(const Data<T>& d) {
    constexpr int threads = kThreads<Rows, Columns>;
    product_steps<T, Rows, Columns, Pad>
        <<<dim3(d.n / kBlock, d.m / kBlock), threads>>>(d.a, d.b, d.c, d.n, d.k);
}

template <class T, int Rows, int Columns, int Pad>
void launch_pipeline(const Data<T>& d) {
    const int bytes = kStages * 2 * kBlock * (kDepth + Pad) * int(sizeof(T));
    const auto kernel = product_pipeline<T, Rows, Columns, Pad>;
    BOOK_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    constexpr int threads = kThreads<Rows, Columns>;
    kernel<<<dim3(d.n / kBlock, d.m / kBlock), threads, bytes>>>(d.a, d.b, d.c, d.n, d.k);
}
//: end

//: variant fragments
// One fragment of C per warp, eight warps per block side by side.
template <class T>
__global__ void product_fragments(const T* __restrict__ a, const T* __restrict__ b,
                                  float* __restrict__ c, int n, int k) {
    const int row = blockIdx.y * 16, column = (blockIdx.x * 8 + threadIdx.x / 32) * 16;
    WarpTile<T, 1, 1> tile;
    const T* left = a + size_t(row) * k;
    const T* right = b + size_t(column) * k;
    for (int start = 0; start < k; start += kDepth) tile.add(left + start, right + start, k);
    tile.store(c + size_t(row) * n + column, n);
}

template <class T>
void fragments(const Data<T>& d) {
    product_fragments<<<dim3(d.n / 128, d.m / 16), 256>>>(d.a, d.b, d.c, d.n, d.k);
}
//: end

//: variant steps_pitch_32
template <class T>
void steps_pitch_32(const Data<T>& d) {
    launch_steps<T, 4, 2, 0>(d);
}
//: end

//: variant steps_pitch_40
template <class T>
void steps_pitch_40(const Data<T>& d) {
    launch_steps<T, 4, 2, 8>(d);
}
//: end

//: variant pipeline_pitch_32
template <class T>
void pipeline_pitch_32(const Data<T>& d) {
    launch_pipeline<T, 4, 2, 0>(d);
}
//: end

//: variant pipeline_pitch_40
template <class T>
void pipeline_pitch_40(const Data<T>& d) {
    launch_pipeline<T, 4, 2, 8>(d);
}
//: end

//: variant warps_32x32
template <class T>
void warps_32x32(const Data<T>& d) {
    launch_pipeline<T, 2, 2, 8>(d);
}
//: end

//: variant warps_64x64
template <class T>
void warps_64x64(const Data<T>& d) {
    launch_pipeline<T, 4, 4, 8>(d);
}
//: end

//: variant scalar_tile
// 8 by 8 sums per thread, 16 by 16 threads.
__global__ void __launch_bounds__(256)
    product_scalar(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c,
                   int n, int k) {
    constexpr int depth = 16, pitch = kBlock + 4;
    __shared__ __align__(16) float a_tile[depth * pitch];
    __shared__ __align__(16) float b_tile[depth * pitch];
    const int row = blockIdx.y * kBlock, column = blockIdx.x * kBlock;
    const int ty = threadIdx.x / 16 * 4, tx = threadIdx.x % 16 * 4;
    float sums[8][8] = {};
    for (int start = 0; start < k; start += depth) {
        __syncthreads();
        for (int i = threadIdx.x; i < kBlock * 4; i += 256) {
            const int r = i / 4, at = i % 4 * 4;
            const float4 x =
                *reinterpret_cast<const float4*>(a + size_t(row + r) * k + start + at);
            const float4 y =
                *reinterpret_cast<const float4*>(b + size_t(column + r) * k + start + at);
            a_tile[at * pitch + r] = x.x, a_tile[(at + 1) * pitch + r] = x.y;
            a_tile[(at + 2) * pitch + r] = x.z, a_tile[(at + 3) * pitch + r] = x.w;
            b_tile[at * pitch + r] = y.x, b_tile[(at + 1) * pitch + r] = y.y;
            b_tile[(at + 2) * pitch + r] = y.z, b_tile[(at + 3) * pitch + r] = y.w;
        }
        __syncthreads();
#pragma unroll
        for (int kk = 0; kk < depth; ++kk) {
            float x[8], y[8];
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                *reinterpret_cast<float4*>(x + 4 * half) =
                    *reinterpret_cast<const float4*>(a_tile + kk * pitch + ty + 64 * half);
                *reinterpret_cast<float4*>(y + 4 * half) =
                    *reinterpret_cast<const float4*>(b_tile + kk * pitch + tx + 64 * half);
            }
#pragma unroll
            for (int i = 0; i < 8; ++i) {
#pragma unroll
                for (int j = 0; j < 8; ++j) sums[i][j] = fmaf(x[i], y[j], sums[i][j]);
            }
        }
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int r = row + ty + i % 4 + i / 4 * 64, at = column + tx + 64 * half;
            *reinterpret_cast<float4*>(c + size_t(r) * n + at) =
                make_float4(sums[i][4 * half], sums[i][4 * half + 1], sums[i][4 * half + 2],
                            sums[i][4 * half + 3]);
        }
    }
}

void scalar_tile(const Data<float>& d) {
    product_scalar<<<dim3(d.n / kBlock, d.m / kBlock), 256>>>(d.a, d.b, d.c, d.n, d.k);
}
//: end

//: variant tf32_tile
// Warps of 64 by 32, two across four; the inputs are rounded to tf32 as they are loaded.
__global__ void __launch_bounds__(256)
    product_tf32(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c,
                 int n, int k) {
    constexpr int depth = 16, pitch = depth + 4;
    __shared__ __align__(128) float a_tile[kBlock * pitch];
    __shared__ __align__(128) float b_tile[kBlock * pitch];
    const int row = blockIdx.y * kBlock, column = blockIdx.x * kBlock, warp = threadIdx.x / 32;
    const int warp_row = warp / 4 * 64, warp_column = warp % 4 * 32;
    wmma::fragment<wmma::accumulator, 16, 16, 8, float> sums[4][2];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        wmma::fill_fragment(sums[i][0], 0.0f);
        wmma::fill_fragment(sums[i][1], 0.0f);
    }
    const auto rounded = [](float4 v) {
        return make_float4(wmma::__float_to_tf32(v.x), wmma::__float_to_tf32(v.y),
                           wmma::__float_to_tf32(v.z), wmma::__float_to_tf32(v.w));
    };
    for (int start = 0; start < k; start += depth) {
        __syncthreads();
        for (int i = threadIdx.x; i < kBlock * 4; i += 256) {
            const int r = i / 4, at = i % 4 * 4;
            *reinterpret_cast<float4*>(a_tile + r * pitch + at) = rounded(
                *reinterpret_cast<const float4*>(a + size_t(row + r) * k + start + at));
            *reinterpret_cast<float4*>(b_tile + r * pitch + at) = rounded(
                *reinterpret_cast<const float4*>(b + size_t(column + r) * k + start + at));
        }
        __syncthreads();
#pragma unroll
        for (int kk = 0; kk < depth; kk += 8) {
            wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> x[4];
            wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::col_major> y[2];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                wmma::load_matrix_sync(x[i], a_tile + (warp_row + 16 * i) * pitch + kk, pitch);
            }
#pragma unroll
            for (int j = 0; j < 2; ++j) {
                wmma::load_matrix_sync(y[j], b_tile + (warp_column + 16 * j) * pitch + kk, pitch);
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

void tf32_tile(const Data<float>& d) {
    product_tf32<<<dim3(d.n / kBlock, d.m / kBlock), 256>>>(d.a, d.b, d.c, d.n, d.k);
}
//: end

template <class T>
__global__ void reference_product(const T* a, const T* b, float* expected, int m, int n, int k) {
    const int y = blockIdx.y * blockDim.y + threadIdx.y, x = blockIdx.x * blockDim.x + threadIdx.x;
    if (y >= m || x >= n) return;
    double sum = 0;
    for (int i = 0; i < k; ++i) {
        sum += double(float(a[size_t(y) * k + i]) * float(b[size_t(x) * k + i]));
    }
    expected[size_t(y) * n + x] = float(sum);
}

template <class T>
Data<T> set_up(book::Problem& p, int m, int n, int k, double allowed) {
    Data<T> d{m, n, k};
    d.a = p.uniform<T>(size_t(m) * k, -1, 1);
    d.b = p.uniform<T>(size_t(n) * k, -1, 1);
    d.c = p.output<float>(size_t(m) * n);
    p.needs({.dram_bytes = double(sizeof(T)) * (double(m) * k + double(n) * k) + 4.0 * m * n,
             .tensor_flop = 2.0 * m * n * k});
    p.check<float>(d.c, size_t(m) * n, {1e-3, allowed}, [=](float* expected) {
        reference_product<<<dim3((n + 15) / 16, (m + 15) / 16), dim3(16, 16)>>>(d.a, d.b, expected,
                                                                                m, n, k);
    });
    return d;
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("half", [](book::Problem& p) {
        const auto d = set_up<__half>(p, 4096, 4096, 2048, 0.01);
        p.variant("fragments", [=] { fragments(d); });
        p.variant("steps_pitch_32", [=] { steps_pitch_32(d); });
        p.variant("steps_pitch_40", [=] { steps_pitch_40(d); });
        p.variant("pipeline_pitch_32", [=] { pipeline_pitch_32(d); });
        p.variant("pipeline_pitch_40", [=] { pipeline_pitch_40(d); });
    });
    book.problem("bf16_deep", [](book::Problem& p) {
        const auto d = set_up<__nv_bfloat16>(p, 4096, 2048, 6144, 0.02);
        p.variant("steps_pitch_40", [=] { steps_pitch_40(d); });
        p.variant("pipeline_pitch_40", [=] { pipeline_pitch_40(d); });
        p.variant("warps_32x32", [=] { warps_32x32(d); });
        p.variant("warps_64x64", [=] { warps_64x64(d); });
    });
    book.problem("f32", [](book::Problem& p) {
        const auto d = set_up<float>(p, 4096, 2048, 2048, 0.1);
        p.variant("scalar_tile", [=] { scalar_tile(d); });
        p.variant("tf32_tile", [=] { tf32_tile(d); });
    });
    return book.finish();
}
