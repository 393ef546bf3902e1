// Single-precision matrix products, C = A B and C = A B^T, row-major.
#include "../../harness/book.h"

//: shared
struct Product {
    int m, n, k;
    const float* a;  // m x k
    const float* b;  // k x n, or n x k for the products with B^T
    float* c;        // m x n
    float* partial;  // slices x m x n
    int slices;
};

// A block computes a kRows x kColumns tile of C, a thread kMicro x kMicro of it. The next slice of A
// and B is fetched into registers while the current one is used. blockIdx.z is the slice of K.
template <int kRows, int kColumns, int kDepth, int kMicro, int kPad>
__global__ __launch_bounds__(kRows* kColumns / (kMicro * kMicro),
                             512 / (kRows * kColumns / (kMicro * kMicro))) void
gemm_prefetch(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int m,
              int n, int k) {
    constexpr int kThreads = kRows * kColumns / (kMicro * kMicro);
    constexpr int kLoadsA = kRows * kDepth / 4 / kThreads, kLoadsB = kDepth * kColumns / 4 / kThreads;
    constexpr int kGroups = kMicro / 4;
    __shared__ float as[2][kDepth][kRows + kPad];
    __shared__ float bs[2][kDepth][kColumns];
    const int t = threadIdx.x, tx = t % (kColumns / kMicro), ty = t / (kColumns / kMicro);
    const int k_count = k / gridDim.z;
    a += size_t(blockIdx.y) * kRows * k + size_t(blockIdx.z) * k_count;
    b += size_t(blockIdx.z) * k_count * n + blockIdx.x * kColumns;
    c += size_t(blockIdx.z) * m * n + size_t(blockIdx.y) * kRows * n + blockIdx.x * kColumns;

    float4 next_a[kLoadsA], next_b[kLoadsB];
    auto fetch = [&](int at) {
#pragma unroll
        for (int i = 0; i < kLoadsA; ++i) {
            const int e = t + i * kThreads, row = e / (kDepth / 4), quad = e % (kDepth / 4);
            next_a[i] = *reinterpret_cast<const float4*>(a + size_t(row) * k + at + 4 * quad);
        }
#pragma unroll
        for (int i = 0; i < kLoadsB; ++i) {
            const int e = t + i * kThreads, row = e / (kColumns / 4), quad = e % (kColumns / 4);
            next_b[i] = *reinterpret_cast<const float4*>(b + size_t(at + row) * n + 4 * quad);
        }
    };
    auto keep = [&](int buffer) {
#pragma unroll
        for (int i = 0; i < kLoadsA; ++i) {
            const int e = t + i * kThreads, row = e / (kDepth / 4), quad = e % (kDepth / 4);
            as[buffer][4 * quad + 0][row] = next_a[i].x;
            as[buffer][4 * quad + 1][row] = next_a[i].y;
            as[buffer][4 * quad + 2][row] = next_a[i].z;
            as[buffer][4 * quad + 3][row] = next_a[i].w;
        }
#pragma unroll
        for (int i = 0; i < kLoadsB; ++i) {
            const int e = t + i * kThreads, row = e / (kColumns / 4), quad = e % (kColumns / 4);
            *reinterpret_cast<float4*>(&bs[buffer][row][4 * quad]) = next_b[i];
        }
    };

    float sum[kMicro][kMicro] = {};
    fetch(0);
    keep(0);
    __syncthreads();
    int buffer = 0;
    for (int at = 0; at < k_count; at += kDepth) {
        const bool more = at + kDepth < k_count;
        if (more) fetch(at + kDepth);
#pragma unroll
        for (int kk = 0; kk < kDepth; ++kk) {
            float x[kMicro], y[kMicro];
#pragma unroll
            for (int g = 0; g < kGroups; ++g) {
                const float4 u = *reinterpret_cast<const float4*>(
                    &as[buffer][kk][g * (kRows / kGroups) + 4 * ty]);
                const float4 v = *reinterpret_cast<const float4*>(
                    &bs[buffer][kk][g * (kColumns / kGroups) + 4 * tx]);
                x[4 * g] = u.x, x[4 * g + 1] = u.y, x[4 * g + 2] = u.z, x[4 * g + 3] = u.w;
                y[4 * g] = v.x, y[4 * g + 1] = v.y, y[4 * g + 2] = v.z, y[4 * g + 3] = v.w;
            }
#pragma unroll
            for (int i = 0; i < kMicro; ++i)
#pragma unroll
                for (int j = 0; j < kMicro; ++j) sum[i][j] += x[i] * y[j];
        }
        if (more) keep(buffer ^ 1);
        __syncthreads();
        buffer ^= 1;
    }
#pragma unroll
    for (int i = 0; i < kMicro; ++i) {
        const int row = (i / 4) * (kRows / kGroups) + 4 * ty + i % 4;
#pragma unroll
        for (int g = 0; g < kGroups; ++g) {
            *reinterpret_cast<float4*>(c + size_t(row) * n + g * (kColumns / kGroups) + 4 * tx) =
                make_float4(sum[i][4 * g], sum[i][4 * g + 1], sum[i][4 * g + 2], sum[i][4 * g + 3]);
        }
    }
}

// C = A B^T with tiles that keep the order of the input: a[row][k], b[column][k]. One result a thread.
template <int kPad>
__global__ void gemm_nt_single(const float* __restrict__ a, const float* __restrict__ b,
                               float* __restrict__ c, int n, int k) {
    __shared__ float as[32][32], bs[32][32 + kPad];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int row = blockIdx.y * 32 + ty, column = blockIdx.x * 32 + tx;
    float sum = 0;
    for (int at = 0; at < k; at += 32) {
        as[ty][tx] = a[size_t(row) * k + at + tx];
        bs[ty][tx] = b[size_t(blockIdx.x * 32 + ty) * k + at + tx];
        __syncthreads();
#pragma unroll
        for (int kk = 0; kk < 32; ++kk) sum += as[ty][kk] * bs[tx][kk];
        __syncthreads();
    }
    c[size_t(row) * n + column] = sum;
}

// The same with 2 x 2 results a thread: rows ty + 16 i, columns tx + 16 j of the tile.
template <int kPad>
__global__ __launch_bounds__(256) void gemm_nt_micro(const float* __restrict__ a,
                                                     const float* __restrict__ b,
                                                     float* __restrict__ c, int n, int k) {
    __shared__ float as[32][32], bs[32][32 + kPad];
    const int t = threadIdx.x, tx = t % 16, ty = t / 16;
    float sum[2][2] = {};
    for (int at = 0; at < k; at += 32) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int row = t / 32 + 8 * i, kk = t % 32;
            as[row][kk] = a[size_t(blockIdx.y * 32 + row) * k + at + kk];
            bs[row][kk] = b[size_t(blockIdx.x * 32 + row) * k + at + kk];
        }
        __syncthreads();
#pragma unroll
        for (int kk = 0; kk < 32; ++kk) {
            const float x0 = as[ty][kk], x1 = as[ty + 16][kk];
            const float y0 = bs[tx][kk], y1 = bs[tx + 16][kk];
            sum[0][0] += x0 * y0;
            sum[0][1] += x0 * y1;
            sum[1][0] += x1 * y0;
            sum[1][1] += x1 * y1;
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 2; ++j)
            c[size_t(blockIdx.y * 32 + ty + 16 * i) * n + blockIdx.x * 32 + tx + 16 * j] = sum[i][j];
}
//: end

//: variant micro_4x4
void micro_4x4(const Product& p) {
    gemm_prefetch<64, 64, 16, 4, 0><<<dim3(p.n / 64, p.m / 64), 256>>>(p.a, p.b, p.c, p.m, p.n, p.k);
}
//: end

//: variant micro_8x8
void micro_8x8(const Product& p) {
    gemm_prefetch<128, 128, 8, 8, 0><<<dim3(p.n / 128, p.m / 128), 256>>>(p.a, p.b, p.c, p.m, p.n, p.k);
}
//: end

//: variant micro_8x8_pad4
void micro_8x8_pad4(const Product& p) {
    gemm_prefetch<128, 128, 8, 8, 4><<<dim3(p.n / 128, p.m / 128), 256>>>(p.a, p.b, p.c, p.m, p.n, p.k);
}
//: end

//: variant one_buffer
__global__ __launch_bounds__(256, 2) void gemm_one_buffer(const float* __restrict__ a,
                                                          const float* __restrict__ b,
                                                          float* __restrict__ c, int n, int k) {
    __shared__ float as[8][128], bs[8][128];
    const int t = threadIdx.x, tx = t % 16, ty = t / 16;
    a += size_t(blockIdx.y) * 128 * k;
    b += blockIdx.x * 128;
    c += size_t(blockIdx.y) * 128 * n + blockIdx.x * 128;
    float sum[8][8] = {};
    for (int at = 0; at < k; at += 8) {
        const float4 u = *reinterpret_cast<const float4*>(a + size_t(t / 2) * k + at + 4 * (t % 2));
        const float4 v = *reinterpret_cast<const float4*>(b + size_t(at + t / 32) * n + 4 * (t % 32));
        as[4 * (t % 2) + 0][t / 2] = u.x;
        as[4 * (t % 2) + 1][t / 2] = u.y;
        as[4 * (t % 2) + 2][t / 2] = u.z;
        as[4 * (t % 2) + 3][t / 2] = u.w;
        *reinterpret_cast<float4*>(&bs[t / 32][4 * (t % 32)]) = v;
        __syncthreads();
#pragma unroll
        for (int kk = 0; kk < 8; ++kk) {
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

void one_buffer(const Product& p) {
    gemm_one_buffer<<<dim3(p.n / 128, p.m / 128), 256>>>(p.a, p.b, p.c, p.n, p.k);
}
//: end

//: variant tile_256x128
void tile_256x128(const Product& p) {
    gemm_prefetch<256, 128, 16, 8, 0><<<dim3(p.n / 128, p.m / 256), 512>>>(p.a, p.b, p.c, p.m, p.n, p.k);
}
//: end

//: variant tile_128x64
void tile_128x64(const Product& p) {
    gemm_prefetch<128, 64, 8, 8, 0><<<dim3(p.n / 64, p.m / 128), 128>>>(p.a, p.b, p.c, p.m, p.n, p.k);
}
//: end

//: variant split_k
__global__ void add_slices(const float* __restrict__ partial, float* __restrict__ c, int count,
                           int slices) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    float sum = 0;
    for (int s = 0; s < slices; ++s) sum += partial[size_t(s) * count + i];
    c[i] = sum;
}

void split_k(const Product& p) {
    gemm_prefetch<128, 128, 8, 8, 0>
        <<<dim3(p.n / 128, p.m / 128, p.slices), 256>>>(p.a, p.b, p.partial, p.m, p.n, p.k);
    add_slices<<<(p.m * p.n + 255) / 256, 256>>>(p.partial, p.c, p.m * p.n, p.slices);
}
//: end

//: variant nt_single
void nt_single(const Product& p) {
    gemm_nt_single<0><<<dim3(p.n / 32, p.m / 32), dim3(32, 32)>>>(p.a, p.b, p.c, p.n, p.k);
}
//: end

//: variant nt_single_33
void nt_single_33(const Product& p) {
    gemm_nt_single<1><<<dim3(p.n / 32, p.m / 32), dim3(32, 32)>>>(p.a, p.b, p.c, p.n, p.k);
}
//: end

//: variant nt_micro
void nt_micro(const Product& p) {
    gemm_nt_micro<0><<<dim3(p.n / 32, p.m / 32), 256>>>(p.a, p.b, p.c, p.n, p.k);
}
//: end

//: variant nt_micro_33
void nt_micro_33(const Product& p) {
    gemm_nt_micro<1><<<dim3(p.n / 32, p.m / 32), 256>>>(p.a, p.b, p.c, p.n, p.k);
}
//: end

// Sums in double; 4 rows a thread to keep it quick.
__global__ void reference_gemm(const float* a, const float* b, float* expected, int m, int n, int k,
                               bool transposed) {
    const int column = blockIdx.x * 32 + threadIdx.x, row0 = (blockIdx.y * 8 + threadIdx.y) * 4;
    if (column >= n || row0 >= m) return;
    double sum[4] = {};
    for (int kk = 0; kk < k; ++kk) {
        const double y = transposed ? b[size_t(column) * k + kk] : b[size_t(kk) * n + column];
        for (int i = 0; i < 4; ++i) sum[i] += double(a[size_t(row0 + i) * k + kk]) * y;
    }
    for (int i = 0; i < 4; ++i) expected[size_t(row0 + i) * n + column] = float(sum[i]);
}

using Work = void (*)(const Product&);

void problem_of(book::Book& book, const char* name, int m, int n, int k, int slices, bool transposed,
                std::vector<std::pair<const char*, Work>> variants) {
    book.problem(name, [=](book::Problem& p) {
        Product d{m, n, k};
        d.a = p.uniform<float>(size_t(m) * k, -1, 1);
        d.b = p.uniform<float>(size_t(k) * n, -1, 1);
        d.c = p.output<float>(size_t(m) * n);
        d.slices = slices;
        d.partial = slices > 1 ? p.output<float>(size_t(slices) * m * n) : nullptr;
        p.needs({.dram_bytes = 4.0 * (double(m) * k + double(k) * n + double(m) * n),
                 .fp32_flop = 2.0 * m * n * k});
        p.check<float>(d.c, size_t(m) * n, {1e-4, 2e-3}, [=](float* expected) {
            reference_gemm<<<dim3((n + 31) / 32, (m + 31) / 32), dim3(32, 8)>>>(d.a, d.b, expected, m, n,
                                                                                k, transposed);
        });
        for (const auto& [variant, work] : variants) {
            p.variant(variant, [=, w = work] { w(d); });
        }
    });
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    problem_of(book, "square_2048", 2048, 2048, 2048, 1, false,
               {{"micro_4x4", micro_4x4}, {"micro_8x8", micro_8x8}, {"micro_8x8_pad4", micro_8x8_pad4}});
    problem_of(book, "m1408_n1536", 1408, 1536, 2048, 1, false,
               {{"one_buffer", one_buffer}, {"micro_8x8", micro_8x8}});
    problem_of(book, "m1792_n2432", 1792, 2432, 1024, 1, false,
               {{"tile_256x128", tile_256x128}, {"tile_128x64", tile_128x64}});
    problem_of(book, "deep_512", 512, 512, 8192, 16, false,
               {{"micro_8x8", micro_8x8}, {"split_k", split_k}});
    problem_of(book, "nt_1024", 1024, 2048, 512, 1, true,
               {{"nt_single", nt_single},
                {"nt_single_33", nt_single_33},
                {"nt_micro", nt_micro},
                {"nt_micro_33", nt_micro_33}});
    return book.finish();
}
