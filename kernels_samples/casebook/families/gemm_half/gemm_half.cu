// Products of half and bfloat16 matrices with float sums: C = A B, row-major, C in float.
#include "../../harness/book.h"

#include <cuda_pipeline.h>
#include <mma.h>

//: shared
template <class T>
struct Product {
    int m, n, k;
    const T* a;  // m x k
    const T* b;  // k x n
    float* c;    // m x n
    float* partial;
    int slices;
};

constexpr int kTile = 128;  // rows and columns of C a block computes
constexpr int kDepth = 32;

__device__ inline float to_float(__half value) { return __half2float(value); }
__device__ inline float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }

inline dim3 grid_of(int m, int n, int slices) { return dim3(n / kTile, m / kTile, slices); }

// 8 x 8 results a thread from float tiles; the next slice waits in registers.
template <class T>
__global__ __launch_bounds__(256, 2) void gemm_fma(const T* __restrict__ a, const T* __restrict__ b,
                                                   float* __restrict__ c, int m, int n, int k) {
    __shared__ float as[16][kTile + 4], bs[16][kTile];
    const int t = threadIdx.x, tx = t % 16, ty = t / 16;
    const int k_count = k / gridDim.z;
    a += size_t(blockIdx.y) * kTile * k + size_t(blockIdx.z) * k_count + size_t(t / 2) * k + 8 * (t % 2);
    b += (size_t(blockIdx.z) * k_count + t / 16) * n + blockIdx.x * kTile + 8 * (t % 16);
    c += size_t(blockIdx.z) * m * n + size_t(blockIdx.y) * kTile * n + blockIdx.x * kTile;
    float sum[8][8] = {};
    uint4 next_a = *reinterpret_cast<const uint4*>(a);
    uint4 next_b = *reinterpret_cast<const uint4*>(b);
    for (int at = 0; at < k_count; at += 16) {
        const T* u = reinterpret_cast<const T*>(&next_a);
        const T* v = reinterpret_cast<const T*>(&next_b);
#pragma unroll
        for (int i = 0; i < 8; ++i) as[8 * (t % 2) + i][t / 2] = to_float(u[i]);
#pragma unroll
        for (int i = 0; i < 8; i += 4) {
            *reinterpret_cast<float4*>(&bs[t / 16][8 * (t % 16) + i]) =
                make_float4(to_float(v[i]), to_float(v[i + 1]), to_float(v[i + 2]), to_float(v[i + 3]));
        }
        __syncthreads();
        if (at + 16 < k_count) {
            next_a = *reinterpret_cast<const uint4*>(a + at + 16);
            next_b = *reinterpret_cast<const uint4*>(b + size_t(at + 16) * n);
        }
#pragma unroll
        for (int kk = 0; kk < 16; ++kk) {
            float x[8], y[8];
#pragma unroll
            for (int g = 0; g < 2; ++g) {
                const float4 p = *reinterpret_cast<const float4*>(&as[kk][64 * g + 4 * ty]);
                const float4 q = *reinterpret_cast<const float4*>(&bs[kk][64 * g + 4 * tx]);
                x[4 * g] = p.x, x[4 * g + 1] = p.y, x[4 * g + 2] = p.z, x[4 * g + 3] = p.w;
                y[4 * g] = q.x, y[4 * g + 1] = q.y, y[4 * g + 2] = q.z, y[4 * g + 3] = q.w;
            }
#pragma unroll
            for (int i = 0; i < 8; ++i)
#pragma unroll
                for (int j = 0; j < 8; ++j) sum[i][j] += x[i] * y[j];
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const int row = (i / 4) * 64 + 4 * ty + i % 4;
#pragma unroll
        for (int g = 0; g < 2; ++g) {
            *reinterpret_cast<float4*>(c + size_t(row) * n + 64 * g + 4 * tx) =
                make_float4(sum[i][4 * g], sum[i][4 * g + 1], sum[i][4 * g + 2], sum[i][4 * g + 3]);
        }
    }
}

// What a warp does with a slice in shared memory: 64 x 32 of the tile in 4 x 2 fragments.
template <class T>
struct WarpTile {
    nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> sum[4][2];

    __device__ void clear() {
#pragma unroll
        for (int i = 0; i < 4; ++i)
#pragma unroll
            for (int j = 0; j < 2; ++j) nvcuda::wmma::fill_fragment(sum[i][j], 0.0f);
    }
    template <int kStrideA, int kStrideB>
    __device__ void add(const T (&as)[kTile][kStrideA], const T (&bs)[kDepth][kStrideB], int row,
                        int column) {
        using namespace nvcuda::wmma;
#pragma unroll
        for (int kk = 0; kk < kDepth; kk += 16) {
            fragment<matrix_a, 16, 16, 16, T, row_major> x[4];
            fragment<matrix_b, 16, 16, 16, T, row_major> y[2];
#pragma unroll
            for (int i = 0; i < 4; ++i) load_matrix_sync(x[i], &as[row + 16 * i][kk], kStrideA);
#pragma unroll
            for (int j = 0; j < 2; ++j) load_matrix_sync(y[j], &bs[kk][column + 16 * j], kStrideB);
#pragma unroll
            for (int i = 0; i < 4; ++i)
#pragma unroll
                for (int j = 0; j < 2; ++j) mma_sync(sum[i][j], x[i], y[j], sum[i][j]);
        }
    }
    __device__ void store(float* c, int n) {
#pragma unroll
        for (int i = 0; i < 4; ++i)
#pragma unroll
            for (int j = 0; j < 2; ++j)
                nvcuda::wmma::store_matrix_sync(c + size_t(16 * i) * n + 16 * j, sum[i][j], n,
                                                nvcuda::wmma::mem_row_major);
    }
};

template <class T, int kPad>
__global__ __launch_bounds__(256, 2) void gemm_wmma(const T* __restrict__ a, const T* __restrict__ b,
                                                    float* __restrict__ c, int m, int n, int k) {
    __shared__ __align__(128) T as[kTile][kDepth + kPad];
    __shared__ __align__(128) T bs[kDepth][kTile + kPad];
    const int t = threadIdx.x, warp = t / 32, row = 64 * (warp / 4), column = 32 * (warp % 4);
    const int k_count = k / gridDim.z;
    a += size_t(blockIdx.y) * kTile * k + size_t(blockIdx.z) * k_count;
    b += size_t(blockIdx.z) * k_count * n + blockIdx.x * kTile;
    c += size_t(blockIdx.z) * m * n + size_t(blockIdx.y) * kTile * n + blockIdx.x * kTile;
    WarpTile<T> tile;
    tile.clear();
    for (int at = 0; at < k_count; at += kDepth) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int e = t + 256 * i;
            *reinterpret_cast<uint4*>(&as[e / 4][8 * (e % 4)]) =
                *reinterpret_cast<const uint4*>(a + size_t(e / 4) * k + at + 8 * (e % 4));
            *reinterpret_cast<uint4*>(&bs[e / 16][8 * (e % 16)]) =
                *reinterpret_cast<const uint4*>(b + size_t(at + e / 16) * n + 8 * (e % 16));
        }
        __syncthreads();
        tile.add(as, bs, row, column);
        __syncthreads();
    }
    tile.store(c + size_t(row) * n + column, n);
}

// The same with the next slice on its way into a second buffer.
template <class T, int kPad>
__global__ __launch_bounds__(256, 2) void gemm_wmma_async(const T* __restrict__ a,
                                                          const T* __restrict__ b,
                                                          float* __restrict__ c, int m, int n, int k) {
    __shared__ __align__(128) T as[2][kTile][kDepth + kPad];
    __shared__ __align__(128) T bs[2][kDepth][kTile + kPad];
    const int t = threadIdx.x, warp = t / 32, row = 64 * (warp / 4), column = 32 * (warp % 4);
    const int k_count = k / gridDim.z;
    a += size_t(blockIdx.y) * kTile * k + size_t(blockIdx.z) * k_count;
    b += size_t(blockIdx.z) * k_count * n + blockIdx.x * kTile;
    c += size_t(blockIdx.z) * m * n + size_t(blockIdx.y) * kTile * n + blockIdx.x * kTile;
    auto fetch = [&](int buffer, int at) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int e = t + 256 * i;
            __pipeline_memcpy_async(&as[buffer][e / 4][8 * (e % 4)],
                                    a + size_t(e / 4) * k + at + 8 * (e % 4), 16);
            __pipeline_memcpy_async(&bs[buffer][e / 16][8 * (e % 16)],
                                    b + size_t(at + e / 16) * n + 8 * (e % 16), 16);
        }
        __pipeline_commit();
    };
    WarpTile<T> tile;
    tile.clear();
    fetch(0, 0);
    int buffer = 0;
    for (int at = 0; at < k_count; at += kDepth) {
        __pipeline_wait_prior(0);
        __syncthreads();
        if (at + kDepth < k_count) fetch(buffer ^ 1, at + kDepth);
        tile.add(as[buffer], bs[buffer], row, column);
        buffer ^= 1;
    }
    tile.store(c + size_t(row) * n + column, n);
}

static __global__ void add_slices(const float* __restrict__ partial, float* __restrict__ c, int count,
                                  int slices) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    float sum = 0;
    for (int s = 0; s < slices; ++s) sum += partial[size_t(s) * count + i];
    c[i] = sum;
}
//: end

//: variant fma
template <class T>
void fma(const Product<T>& p) {
    gemm_fma<T><<<grid_of(p.m, p.n, 1), 256>>>(p.a, p.b, p.c, p.m, p.n, p.k);
}
//: end

//: variant wmma
template <class T>
void wmma(const Product<T>& p) {
    gemm_wmma<T, 0><<<grid_of(p.m, p.n, 1), 256>>>(p.a, p.b, p.c, p.m, p.n, p.k);
}
//: end

//: variant wmma_pad8
template <class T>
void wmma_pad8(const Product<T>& p) {
    gemm_wmma<T, 8><<<grid_of(p.m, p.n, 1), 256>>>(p.a, p.b, p.c, p.m, p.n, p.k);
}
//: end

//: variant wmma_async
template <class T>
void wmma_async(const Product<T>& p) {
    gemm_wmma_async<T, 0><<<grid_of(p.m, p.n, 1), 256>>>(p.a, p.b, p.c, p.m, p.n, p.k);
}
//: end

//: variant wmma_async_pad8
template <class T>
void wmma_async_pad8(const Product<T>& p) {
    gemm_wmma_async<T, 8><<<grid_of(p.m, p.n, 1), 256>>>(p.a, p.b, p.c, p.m, p.n, p.k);
}
//: end

//: variant fma_split
template <class T>
void fma_split(const Product<T>& p) {
    gemm_fma<T><<<grid_of(p.m, p.n, p.slices), 256>>>(p.a, p.b, p.partial, p.m, p.n, p.k);
    add_slices<<<(p.m * p.n + 255) / 256, 256>>>(p.partial, p.c, p.m * p.n, p.slices);
}
//: end

//: variant wmma_split
template <class T>
void wmma_split(const Product<T>& p) {
    gemm_wmma_async<T, 8><<<grid_of(p.m, p.n, p.slices), 256>>>(p.a, p.b, p.partial, p.m, p.n, p.k);
    add_slices<<<(p.m * p.n + 255) / 256, 256>>>(p.partial, p.c, p.m * p.n, p.slices);
}
//: end

template <class T>
__global__ void reference_gemm(const T* a, const T* b, float* expected, int m, int n, int k) {
    const int column = blockIdx.x * 32 + threadIdx.x, row0 = (blockIdx.y * 8 + threadIdx.y) * 8;
    if (column >= n || row0 >= m) return;
    double sum[8] = {};
    for (int kk = 0; kk < k; ++kk) {
        const double y = book::as_double(b[size_t(kk) * n + column]);
        for (int i = 0; i < 8; ++i) sum[i] += book::as_double(a[size_t(row0 + i) * k + kk]) * y;
    }
    for (int i = 0; i < 8; ++i) expected[size_t(row0 + i) * n + column] = float(sum[i]);
}

template <class T>
void problem_of(book::Book& book, const char* name, int m, int n, int k, int slices,
                std::vector<std::pair<const char*, void (*)(const Product<T>&)>> variants) {
    book.problem(name, [=](book::Problem& p) {
        Product<T> d{m, n, k};
        d.a = p.uniform<T>(size_t(m) * k, -1, 1);
        d.b = p.uniform<T>(size_t(k) * n, -1, 1);
        d.c = p.output<float>(size_t(m) * n);
        d.slices = slices;
        d.partial = slices > 1 ? p.output<float>(size_t(slices) * m * n) : nullptr;
        p.needs({.dram_bytes = 2.0 * (double(m) * k + double(k) * n) + 4.0 * m * n,
                 .tensor_flop = 2.0 * m * n * k});
        p.check<float>(d.c, size_t(m) * n, {1e-3, 1e-2}, [=](float* expected) {
            reference_gemm<T><<<dim3((n + 31) / 32, (m + 63) / 64), dim3(32, 8)>>>(d.a, d.b, expected, m,
                                                                                   n, k);
        });
        for (const auto& [variant, work] : variants) {
            p.variant(variant, [=, w = work] { w(d); });
        }
    });
}

int main(int argc, char** argv) {
    using Half = __half;
    using Brain = __nv_bfloat16;
    book::Book book(argc, argv);
    problem_of<Half>(book, "f16_4096", 4096, 2048, 1024, 1,
                     {{"fma", fma<Half>},
                      {"wmma", wmma<Half>},
                      {"wmma_pad8", wmma_pad8<Half>},
                      {"wmma_async", wmma_async<Half>},
                      {"wmma_async_pad8", wmma_async_pad8<Half>}});
    problem_of<Brain>(book, "bf16_k32", 8192, 4096, 32, 1,
                      {{"fma", fma<Brain>}, {"wmma", wmma<Brain>}, {"wmma_pad8", wmma_pad8<Brain>}});
    problem_of<Half>(book, "f16_deep_512", 512, 512, 16384, 16,
                     {{"fma", fma<Half>},
                      {"fma_split", fma_split<Half>},
                      {"wmma_async_pad8", wmma_async_pad8<Half>},
                      {"wmma_split", wmma_split<Half>}});
    return book.finish();
}
