// Many products of small matrices, C_i = A_i B_i, each stored row-major and one after the other.
#include "../../harness/book.h"

#include <mma.h>

//: shared
template <class T>
struct Batch {
    int count, n, k;  // A_i is n x k, B_i is k x n, C_i is n x n
    const T* a;
    const T* b;
    float* c;
    const book::Problem* problem;
};

// Any n up to kMost that is a multiple of 4: one matrix a block of 64 threads, 4 results a thread and turn.
template <int kMost>
__global__ void multiply_up_to(const float* __restrict__ a, const float* __restrict__ b,
                               float* __restrict__ c, int n) {
    __shared__ float as[kMost][kMost + 4], bs[kMost][kMost + 4];
    const size_t start = size_t(blockIdx.x) * n * n;
    const int quads = n / 4;
    for (int e = threadIdx.x; e < n * quads; e += 64) {
        const int row = e / quads, column = 4 * (e % quads);
        *reinterpret_cast<float4*>(&as[row][column]) =
            *reinterpret_cast<const float4*>(a + start + row * n + column);
        *reinterpret_cast<float4*>(&bs[row][column]) =
            *reinterpret_cast<const float4*>(b + start + row * n + column);
    }
    __syncthreads();
    for (int e = threadIdx.x; e < n * quads; e += 64) {
        const int row = e / quads, column = 4 * (e % quads);
        float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll 4
        for (int k = 0; k < n; ++k) {
            const float x = as[row][k];
            const float4 y = *reinterpret_cast<const float4*>(&bs[k][column]);
            sum.x += x * y.x;
            sum.y += x * y.y;
            sum.z += x * y.z;
            sum.w += x * y.w;
        }
        *reinterpret_cast<float4*>(c + start + row * n + column) = sum;
    }
}

// 32 x 32: 64 threads a matrix, 4 x 4 results a thread.
__global__ __launch_bounds__(64) void multiply32_micro(const float* __restrict__ a,
                                                       const float* __restrict__ b,
                                                       float* __restrict__ c) {
    __shared__ __align__(16) float as[32][32], bs[32][32];
    const size_t start = size_t(blockIdx.x) * 1024;
    const int t = threadIdx.x, tx = t % 8, ty = t / 8;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int row = 8 * i + ty, column = 4 * tx;
        *reinterpret_cast<float4*>(&as[row][column]) =
            *reinterpret_cast<const float4*>(a + start + row * 32 + column);
        *reinterpret_cast<float4*>(&bs[row][column]) =
            *reinterpret_cast<const float4*>(b + start + row * 32 + column);
    }
    __syncthreads();
    float sum[4][4] = {};
#pragma unroll 2
    for (int k = 0; k < 32; k += 4) {
        float x[4][4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float4 v = *reinterpret_cast<const float4*>(&as[4 * ty + i][k]);
            x[i][0] = v.x, x[i][1] = v.y, x[i][2] = v.z, x[i][3] = v.w;
        }
#pragma unroll
        for (int kk = 0; kk < 4; ++kk) {
            const float4 y = *reinterpret_cast<const float4*>(&bs[k + kk][4 * tx]);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                sum[i][0] += x[i][kk] * y.x;
                sum[i][1] += x[i][kk] * y.y;
                sum[i][2] += x[i][kk] * y.z;
                sum[i][3] += x[i][kk] * y.w;
            }
        }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        *reinterpret_cast<float4*>(c + start + (4 * ty + i) * 32 + 4 * tx) =
            make_float4(sum[i][0], sum[i][1], sum[i][2], sum[i][3]);
    }
}

constexpr int kStride = 40;  // of a row of 32 16-bit numbers in shared memory

__device__ inline float to_float(__half value) { return __half2float(value); }
__device__ inline float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }

// A warp brings the slice k0 .. k0 + kSlice - 1 of its two matrices (32 x k and k x 32) to shared memory.
template <int kSlice, class T>
__device__ inline void bring_slice(T (&as)[32][kSlice + 8], T (&bs)[kSlice][kStride], const T* a, const T* b,
                                   int k, int k0, int lane) {
#pragma unroll
    for (int i = 0; i < kSlice / 8; ++i) {
        const int e = 32 * i + lane, row = e / (kSlice / 8), column = 8 * (e % (kSlice / 8));
        *reinterpret_cast<uint4*>(&as[row][column]) =
            *reinterpret_cast<const uint4*>(a + row * k + k0 + column);
        *reinterpret_cast<uint4*>(&bs[e / 4][8 * (e % 4)]) =
            *reinterpret_cast<const uint4*>(b + (k0 + e / 4) * 32 + 8 * (e % 4));
    }
    __syncwarp();
}

// 8 x 8 matrices, one a warp, 2 results a lane.
template <int kWarps>
__global__ void multiply8(const float* __restrict__ a, const float* __restrict__ b,
                          float* __restrict__ c) {
    __shared__ __align__(16) float as[kWarps][64], bs[kWarps][64];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const size_t start = (size_t(blockIdx.x) * kWarps + warp) * 64;
    *reinterpret_cast<float2*>(&as[warp][2 * lane]) = *reinterpret_cast<const float2*>(a + start + 2 * lane);
    *reinterpret_cast<float2*>(&bs[warp][2 * lane]) = *reinterpret_cast<const float2*>(b + start + 2 * lane);
    __syncwarp();
    const int row = lane / 4, column = 2 * (lane % 4);
    float2 sum = make_float2(0, 0);
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        const float x = as[warp][row * 8 + k];
        const float2 y = *reinterpret_cast<const float2*>(&bs[warp][k * 8 + column]);
        sum.x += x * y.x;
        sum.y += x * y.y;
    }
    *reinterpret_cast<float2*>(c + start + 2 * lane) = sum;
}
//: end

//: variant groups_most64
void groups_most64(const Batch<float>& d) {
    constexpr int kGroup = 512;
    for (int first = 0; first < d.count; first += kGroup) {
        const size_t at = size_t(first) * d.n * d.n;
        multiply_up_to<64><<<std::min(kGroup, d.count - first), 64>>>(d.a + at, d.b + at, d.c + at, d.n);
        d.problem->launched(first / kGroup);
    }
}
//: end

//: variant groups_most16
void groups_most16(const Batch<float>& d) {
    constexpr int kGroup = 512;
    for (int first = 0; first < d.count; first += kGroup) {
        const size_t at = size_t(first) * d.n * d.n;
        multiply_up_to<16><<<std::min(kGroup, d.count - first), 64>>>(d.a + at, d.b + at, d.c + at, d.n);
        d.problem->launched(first / kGroup);
    }
}
//: end

//: variant most64
void most64(const Batch<float>& d) {
    multiply_up_to<64><<<d.count, 64>>>(d.a, d.b, d.c, d.n);
}
//: end

//: variant most48
void most48(const Batch<float>& d) {
    multiply_up_to<48><<<d.count, 64>>>(d.a, d.b, d.c, d.n);
}
//: end

//: variant most44
void most44(const Batch<float>& d) {
    multiply_up_to<44><<<d.count, 64>>>(d.a, d.b, d.c, d.n);
}
//: end

//: variant most16
void most16(const Batch<float>& d) {
    multiply_up_to<16><<<d.count, 64>>>(d.a, d.b, d.c, d.n);
}
//: end

//: variant element_thread
__global__ __launch_bounds__(1024) void multiply32_elements(const float* __restrict__ a,
                                                            const float* __restrict__ b,
                                                            float* __restrict__ c) {
    __shared__ __align__(16) float as[32][32], bs[32][32];
    const size_t start = size_t(blockIdx.x) * 1024;
    const int x = threadIdx.x, y = threadIdx.y;
    as[y][x] = a[start + y * 32 + x];
    bs[y][x] = b[start + y * 32 + x];
    __syncthreads();
    float sum = 0;
#pragma unroll
    for (int k = 0; k < 32; ++k) sum += as[y][k] * bs[k][x];
    c[start + y * 32 + x] = sum;
}

void element_thread(const Batch<float>& d) {
    multiply32_elements<<<d.count, dim3(32, 32)>>>(d.a, d.b, d.c);
}
//: end

//: variant micro_4x4
void micro_4x4(const Batch<float>& d) { multiply32_micro<<<d.count, 64>>>(d.a, d.b, d.c); }
//: end

//: variant warp_fma
template <class T, int kSlice>
__global__ __launch_bounds__(128, 5) void multiply_warp_fma(const T* __restrict__ a,
                                                            const T* __restrict__ b,
                                                            float* __restrict__ c, int k) {
    __shared__ __align__(128) T as[4][32][kSlice + 8];
    __shared__ __align__(128) T bs[4][kSlice][kStride];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const size_t item = size_t(blockIdx.x) * 4 + warp;
    a += item * 32 * k;
    b += item * 32 * k;
    c += item * 1024;
    const int row = 4 * (lane / 4), column = 8 * (lane % 4);
    float sum[4][8] = {};
    for (int k0 = 0; k0 < k; k0 += kSlice) {
        bring_slice<kSlice>(as[warp], bs[warp], a, b, k, k0, lane);
#pragma unroll
        for (int kk = 0; kk < kSlice; kk += 8) {
            uint4 packed[4];
#pragma unroll
            for (int i = 0; i < 4; ++i)
                packed[i] = *reinterpret_cast<const uint4*>(&as[warp][row + i][kk]);
#pragma unroll
            for (int s = 0; s < 8; ++s) {
                const uint4 right = *reinterpret_cast<const uint4*>(&bs[warp][kk + s][column]);
                const T* y = reinterpret_cast<const T*>(&right);
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const float x = to_float(reinterpret_cast<const T*>(&packed[i])[s]);
#pragma unroll
                    for (int j = 0; j < 8; ++j) sum[i][j] += x * to_float(y[j]);
                }
            }
        }
        __syncwarp();
    }
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 8; j += 4)
            *reinterpret_cast<float4*>(c + (row + i) * 32 + column + j) =
                make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]);
}

template <class T, int kSlice>
void warp_fma(const Batch<T>& d) {
    multiply_warp_fma<T, kSlice><<<d.count / 4, 128>>>(d.a, d.b, d.c, d.k);
}
//: end

//: variant warp_wmma
template <class T, int kSlice>
__global__ __launch_bounds__(128) void multiply_warp_wmma(const T* __restrict__ a,
                                                          const T* __restrict__ b,
                                                          float* __restrict__ c, int k) {
    using namespace nvcuda::wmma;
    __shared__ __align__(128) T as[4][32][kSlice + 8];
    __shared__ __align__(128) T bs[4][kSlice][kStride];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const size_t item = size_t(blockIdx.x) * 4 + warp;
    a += item * 32 * k;
    b += item * 32 * k;
    c += item * 1024;
    fragment<accumulator, 16, 16, 16, float> sum[2][2];
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 2; ++j) fill_fragment(sum[i][j], 0.0f);
    for (int k0 = 0; k0 < k; k0 += kSlice) {
        bring_slice<kSlice>(as[warp], bs[warp], a, b, k, k0, lane);
#pragma unroll
        for (int kk = 0; kk < kSlice; kk += 16) {
            fragment<matrix_a, 16, 16, 16, T, row_major> x[2];
            fragment<matrix_b, 16, 16, 16, T, row_major> y[2];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                load_matrix_sync(x[i], &as[warp][16 * i][kk], kSlice + 8);
                load_matrix_sync(y[i], &bs[warp][kk][16 * i], kStride);
            }
#pragma unroll
            for (int i = 0; i < 2; ++i)
#pragma unroll
                for (int j = 0; j < 2; ++j) mma_sync(sum[i][j], x[i], y[j], sum[i][j]);
        }
        __syncwarp();
    }
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 2; ++j)
            store_matrix_sync(c + 16 * i * 32 + 16 * j, sum[i][j], 32, mem_row_major);
}

template <class T, int kSlice>
void warp_wmma(const Batch<T>& d) {
    multiply_warp_wmma<T, kSlice><<<d.count / 4, 128>>>(d.a, d.b, d.c, d.k);
}
//: end

//: variant block_32
void block_32(const Batch<float>& d) { multiply8<1><<<d.count, 32>>>(d.a, d.b, d.c); }
//: end

//: variant block_256
void block_256(const Batch<float>& d) { multiply8<8><<<d.count / 8, 256>>>(d.a, d.b, d.c); }
//: end

template <class T>
__global__ void reference_batch(const T* a, const T* b, float* expected, int count, int n, int k) {
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < size_t(count) * n * n;
         i += size_t{gridDim.x} * blockDim.x) {
        const size_t item = i / (n * n);
        const int row = int(i / n % n), column = int(i % n);
        double sum = 0;
        for (int kk = 0; kk < k; ++kk)
            sum += book::as_double(a[item * n * k + row * k + kk]) *
                   book::as_double(b[item * n * k + kk * n + column]);
        expected[i] = float(sum);
    }
}

template <class T>
void problem_of(book::Book& book, const char* name, int count, int n, int k,
                std::vector<std::pair<const char*, void (*)(const Batch<T>&)>> variants) {
    book.problem(name, [=](book::Problem& p) {
        Batch<T> d{count, n, k};
        const size_t in = size_t(count) * n * k, out = size_t(count) * n * n;
        d.a = p.uniform<T>(in, -1, 1);
        d.b = p.uniform<T>(in, -1, 1);
        d.c = p.output<float>(out);
        d.problem = &p;
        const double flop = 2.0 * out * k;
        p.needs({.dram_bytes = 2.0 * sizeof(T) * in + 4.0 * out,
                 .fp32_flop = sizeof(T) == 4 ? flop : 0.0,
                 .tensor_flop = sizeof(T) == 2 ? flop : 0.0});
        p.check<float>(d.c, out, {1e-4, 1e-4}, [=](float* expected) {
            reference_batch<T><<<2112, 256>>>(d.a, d.b, expected, count, n, k);
        });
        for (const auto& [variant, work] : variants) {
            p.variant(variant, [=, w = work] { w(d); });
        }
    });
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    problem_of<float>(book, "f32_16", 65536, 16, 16,
                      {{"groups_most64", groups_most64},
                       {"groups_most16", groups_most16},
                       {"most64", most64},
                       {"most48", most48},
                       {"most44", most44},
                       {"most16", most16}});
    problem_of<float>(book, "f32_32", 16384, 32, 32,
                      {{"element_thread", element_thread},
                       {"micro_4x4", micro_4x4}});
    problem_of<__half>(book, "f16_32_k48", 20480, 32, 48,
                       {{"warp_fma", warp_fma<__half, 48>}, {"warp_wmma", warp_wmma<__half, 48>}});
    problem_of<__nv_bfloat16>(book, "bf16_32_k128", 8192, 32, 128,
                              {{"warp_fma", warp_fma<__nv_bfloat16, 32>},
                               {"warp_wmma", warp_wmma<__nv_bfloat16, 32>}});
    problem_of<float>(book, "f32_8", 262144, 8, 8, {{"block_32", block_32}, {"block_256", block_256}});
    return book.finish();
}
