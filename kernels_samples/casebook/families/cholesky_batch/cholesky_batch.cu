// Batches of small Cholesky factorisations A = L L^T, log-determinants from them, and triangular solves.
#include "../../harness/book.h"

//: shared
template <class T>
struct Batch {
    int count, n;
    const T* a;      // count x n x n, row-major; for the solves the factor L, column-major
    const T* right;  // count x n, for the solves
    T* out;          // L (row-major, zero above), or log-determinants, or solutions
};

// One matrix a block of n x n threads, one thread an element.
template <class T, int kN, int kPad>
__global__ __launch_bounds__(kN* kN) void factor_elements(const T* __restrict__ a, T* __restrict__ out) {
    __shared__ T m[kN][kN + kPad];
    const int x = threadIdx.x, y = threadIdx.y;
    const size_t at = size_t(blockIdx.x) * kN * kN + y * kN + x;
    m[y][x] = a[at];
    __syncthreads();
    for (int k = 0; k < kN; ++k) {
        if (x == k && y == k) m[k][k] = sqrt(m[k][k]);
        __syncthreads();
        if (x == k && y > k) m[y][k] /= m[k][k];
        __syncthreads();
        if (x > k && y >= x) m[y][x] -= m[y][k] * m[x][k];
        __syncthreads();
    }
    out[at] = x <= y ? m[y][x] : T(0);
}

// One matrix for kN lanes of a warp, one lane a row; 128 threads a block.
template <class T, int kN, int kPad>
__global__ __launch_bounds__(128) void factor_rows(const T* __restrict__ a, T* __restrict__ out) {
    constexpr int kEach = 32 / kN, kMatrices = 4 * kEach;
    __shared__ T m[kMatrices][kN][kN + kPad];
    const int lane = threadIdx.x % 32, row = lane % kN, slot = threadIdx.x / kN;
    T(&l)[kN][kN + kPad] = m[slot];
    const size_t start = (size_t(blockIdx.x) * kMatrices + slot) * kN * kN;
#pragma unroll 8
    for (int i = 0; i < kN; ++i) l[i][row] = a[start + i * kN + row];
    __syncwarp();
    for (int k = 0; k < kN; ++k) {
        T sum = l[row][k];
        if (row >= k) {
#pragma unroll 4
            for (int j = 0; j < k; ++j) sum -= l[row][j] * l[k][j];
        }
        __syncwarp();
        const T pivot = sqrt(__shfl_sync(~0u, sum, k, kN));
        if (row >= k) l[row][k] = row == k ? pivot : sum / pivot;
        __syncwarp();
    }
#pragma unroll 8
    for (int i = 0; i < kN; ++i) out[start + i * kN + row] = row <= i ? l[i][row] : T(0);
}

// log det A of kItems matrices a block, one after the other; one thread a row.
template <int kN, int kItems>
__global__ __launch_bounds__(kN) void log_determinants(const float* __restrict__ a,
                                                       float* __restrict__ out, int count) {
    extern __shared__ float l[];  // kN x (kN + 1)
    __shared__ float pivot_square;
    constexpr int kStride = kN + 1;
    const int row = threadIdx.x;
    for (int i = 0; i < kItems; ++i) {
        const int item = blockIdx.x * kItems + i;
        if (item >= count) return;
        const float* from = a + size_t(item) * kN * kN;
#pragma unroll 8
        for (int r = 0; r < kN; ++r) l[r * kStride + row] = from[r * kN + row];
        __syncthreads();
        float log_sum = 0;
        for (int k = 0; k < kN; ++k) {
            float sum = l[row * kStride + k];
            if (row >= k) {
#pragma unroll 4
                for (int j = 0; j < k; ++j) sum -= l[row * kStride + j] * l[k * kStride + j];
            }
            if (row == k) pivot_square = sum;
            __syncthreads();
            if (row >= k) l[row * kStride + k] = sum * rsqrtf(pivot_square);
            if (row == 0) log_sum += logf(pivot_square);
            __syncthreads();
        }
        if (row == 0) out[item] = log_sum;
    }
}

template <int kN, int kItems>
void launch_log_determinants(const Batch<float>& d) {
    constexpr int kBytes = kN * (kN + 1) * sizeof(float);
    BOOK_CHECK(cudaFuncSetAttribute(log_determinants<kN, kItems>,
                                    cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
    log_determinants<kN, kItems>
        <<<(d.count + kItems - 1) / kItems, kN, kBytes>>>(d.a, d.out, d.count);
}

constexpr int kSystem = 64;

// The factor of one system, column-major, comes to shared memory with 16-byte loads of 64 threads.
__device__ inline void bring_factor(float (&l)[kSystem * kSystem], const float* from, int t) {
#pragma unroll 8
    for (int i = 0; i < 16; ++i) {
        reinterpret_cast<float4*>(l)[64 * i + t] = reinterpret_cast<const float4*>(from)[64 * i + t];
    }
    __syncthreads();
}

// Forward substitution by one warp, rows lane and lane + 32.
__device__ inline void solve_by_warp(const float (&l)[kSystem * kSystem], const float* right, float* out,
                                     int lane) {
    float low = right[lane], high = right[lane + 32];
    float mine_low = 0, mine_high = 0;
#pragma unroll 8
    for (int k = 0; k < 32; ++k) {
        const float x = __shfl_sync(~0u, low, k) / l[k * kSystem + k];
        if (lane == k) mine_low = x;
        low -= l[k * kSystem + lane] * x;
        high -= l[k * kSystem + lane + 32] * x;
    }
#pragma unroll 8
    for (int k = 32; k < 64; ++k) {
        const float x = __shfl_sync(~0u, high, k - 32) / l[k * kSystem + k];
        if (lane == k - 32) mine_high = x;
        high -= l[k * kSystem + lane + 32] * x;
    }
    out[lane] = mine_low;
    out[lane + 32] = mine_high;
}
//: end

//: variant elements
template <class T, int kN>
void elements(const Batch<T>& d) {
    factor_elements<T, kN, 0><<<d.count, dim3(kN, kN)>>>(d.a, d.out);
}
//: end

//: variant elements_pad1
template <class T, int kN>
void elements_pad1(const Batch<T>& d) {
    factor_elements<T, kN, 1><<<d.count, dim3(kN, kN)>>>(d.a, d.out);
}
//: end

//: variant rows
template <class T, int kN>
void rows(const Batch<T>& d) {
    factor_rows<T, kN, 0><<<d.count / (4 * (32 / kN)), 128>>>(d.a, d.out);
}
//: end

//: variant rows_pad1
template <class T, int kN>
void rows_pad1(const Batch<T>& d) {
    factor_rows<T, kN, 1><<<d.count / (4 * (32 / kN)), 128>>>(d.a, d.out);
}
//: end

//: variant four_a_block
template <int kN>
void four_a_block(const Batch<float>& d) {
    launch_log_determinants<kN, 4>(d);
}
//: end

//: variant two_a_block
template <int kN>
void two_a_block(const Batch<float>& d) {
    launch_log_determinants<kN, 2>(d);
}
//: end

//: variant one_a_block
template <int kN>
void one_a_block(const Batch<float>& d) {
    launch_log_determinants<kN, 1>(d);
}
//: end

//: variant solve_rows
// Forward substitution, one thread a row.
__global__ __launch_bounds__(64) void solve_block(const float* __restrict__ factors,
                                                  const float* __restrict__ right,
                                                  float* __restrict__ out) {
    __shared__ __align__(16) float l[kSystem * kSystem];
    __shared__ float x[kSystem];
    const int t = threadIdx.x;
    const size_t item = blockIdx.x;
    bring_factor(l, factors + item * kSystem * kSystem, t);
    float rest = right[item * kSystem + t];
    for (int k = 0; k < kSystem; ++k) {
        if (t == k) x[k] = rest / l[k * kSystem + k];
        __syncthreads();
        if (t > k) rest -= l[k * kSystem + t] * x[k];
    }
    out[item * kSystem + t] = x[t];
}

void solve_rows(const Batch<float>& d) { solve_block<<<d.count, 64>>>(d.a, d.right, d.out); }
//: end

//: variant solve_warp
// Two warps bring the factor, one of them substitutes.
__global__ __launch_bounds__(64) void solve_one_warp(const float* __restrict__ factors,
                                                     const float* __restrict__ right,
                                                     float* __restrict__ out) {
    __shared__ __align__(16) float l[kSystem * kSystem];
    const size_t item = blockIdx.x;
    bring_factor(l, factors + item * kSystem * kSystem, threadIdx.x);
    if (threadIdx.x < 32) solve_by_warp(l, right + item * kSystem, out + item * kSystem, threadIdx.x);
}

void solve_warp(const Batch<float>& d) { solve_one_warp<<<d.count, 64>>>(d.a, d.right, d.out); }
//: end

//: variant solve_resident
// As many blocks as fit at a time go through all systems.
__global__ __launch_bounds__(64) void solve_in_turn(const float* __restrict__ factors,
                                                    const float* __restrict__ right,
                                                    float* __restrict__ out, int count) {
    __shared__ __align__(16) float l[kSystem * kSystem];
    for (size_t item = blockIdx.x; item < count; item += gridDim.x) {
        bring_factor(l, factors + item * kSystem * kSystem, threadIdx.x);
        if (threadIdx.x < 32) solve_by_warp(l, right + item * kSystem, out + item * kSystem, threadIdx.x);
        __syncthreads();
    }
}

void solve_resident(const Batch<float>& d) {
    int blocks = 0;
    BOOK_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, solve_in_turn, 64, 0));
    solve_in_turn<<<132 * blocks, 64>>>(d.a, d.right, d.out, d.count);
}
//: end

// Symmetric and positive definite (the diagonal exceeds the spectrum of the rest): entry (row, column) depends on the pair without order.
template <class T>
T* symmetric_batch(book::Problem& p, int count, int n) {
    const uint64_t seed = p.seed();
    return p.input<T>(size_t(count) * n * n, [=] __device__(size_t i) {
        const size_t item = i / (n * n);
        const int r = int(i / n % n), c = int(i % n), low = r < c ? r : c, high = r < c ? c : r;
        const double u = book::uniform01(seed, 7, (item * n + high) * n + low);
        return T(r == c ? 2 * sqrt(double(n)) + u : 2 * u - 1);
    });
}

// One block a matrix: right-looking in double, in global scratch memory; n threads.
template <class T>
__global__ void reference_factor(const T* a, double* scratch, T* expected, T* log_expected, int count,
                                 int n) {
    double* m = scratch + size_t(blockIdx.x) * n * n;
    const int row = threadIdx.x;
    for (int item = blockIdx.x; item < count; item += gridDim.x) {
        for (int c = 0; c < n; ++c) m[c * n + row] = double(a[(size_t(item) * n + c) * n + row]);
        __syncthreads();
        double log_sum = 0;
        for (int k = 0; k < n; ++k) {
            const double pivot = sqrt(m[k * n + k]);
            log_sum += 2 * log(pivot);
            __syncthreads();
            if (row == k) m[k * n + k] = pivot;
            if (row > k) m[k * n + row] /= pivot;  // column k is kept as a row of the scratch
            __syncthreads();
            if (row > k) {
                const double mine = m[k * n + row];
                for (int c = k + 1; c <= row; ++c) m[c * n + row] -= mine * m[k * n + c];
            }
            __syncthreads();
        }
        if (expected) {
            for (int c = 0; c < n; ++c)
                expected[(size_t(item) * n + row) * n + c] = c <= row ? T(m[c * n + row]) : T(0);
        }
        if (log_expected && row == 0) log_expected[item] = T(log_sum);
        __syncthreads();
    }
}

static __global__ void reference_solve(const float* l, const float* right, float* expected, int count) {
    const int item = blockIdx.x * blockDim.x + threadIdx.x;
    if (item >= count) return;
    const float* f = l + size_t(item) * kSystem * kSystem;
    double x[kSystem];
    for (int r = 0; r < kSystem; ++r) {
        double sum = right[size_t(item) * kSystem + r];
        for (int c = 0; c < r; ++c) sum -= double(f[c * kSystem + r]) * x[c];
        x[r] = sum / double(f[r * kSystem + r]);
        expected[size_t(item) * kSystem + r] = float(x[r]);
    }
}

template <class T>
void factor_problem(book::Book& book, const char* name, int count, int n, bool log_only,
                    book::Tolerance allowed,
                    std::vector<std::pair<const char*, void (*)(const Batch<T>&)>> variants) {
    book.problem(name, [=](book::Problem& p) {
        Batch<T> d{count, n};
        const size_t entries = size_t(count) * n * n, results = log_only ? count : entries;
        d.a = symmetric_batch<T>(p, count, n);
        d.out = p.output<T>(results);
        const double flop = double(count) * n * n * n / 3;
        // The lower triangle suffices as input; L is written in full.
        p.needs({.dram_bytes = sizeof(T) * (double(count) * n * (n + 1) / 2 + double(results)),
                 .fp32_flop = sizeof(T) == 4 ? flop : 0.0,
                 .fp64_flop = sizeof(T) == 8 ? flop : 0.0});
        p.check<T>(d.out, results, allowed, [=](T* expected) {
            constexpr int kBlocks = 1056;
            double* scratch = nullptr;
            BOOK_CHECK(cudaMalloc(&scratch, sizeof(double) * kBlocks * n * n));
            reference_factor<T><<<kBlocks, n>>>(d.a, scratch, log_only ? nullptr : expected,
                                                log_only ? expected : nullptr, count, n);
            BOOK_CHECK(cudaDeviceSynchronize());
            BOOK_CHECK(cudaFree(scratch));
        });
        for (const auto& [variant, work] : variants) {
            p.variant(variant, [=, w = work] { w(d); });
        }
    });
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    factor_problem<float>(book, "factor_f32_32", 16384, 32, false, {1e-4, 1e-5},
                          {{"elements", elements<float, 32>},
                           {"elements_pad1", elements_pad1<float, 32>},
                           {"rows", rows<float, 32>},
                           {"rows_pad1", rows_pad1<float, 32>}});
    factor_problem<double>(book, "factor_f64_16", 32768, 16, false, {1e-11, 1e-12},
                           {{"elements_pad1", elements_pad1<double, 16>},
                            {"rows_pad1", rows_pad1<double, 16>}});
    factor_problem<float>(book, "logdet_128", 1632, 128, true, {2e-5, 1e-3},
                          {{"four_a_block", four_a_block<128>},
                           {"two_a_block", two_a_block<128>},
                           {"one_a_block", one_a_block<128>}});
    factor_problem<float>(book, "logdet_64", 7072, 64, true, {2e-5, 1e-3},
                          {{"four_a_block", four_a_block<64>}, {"one_a_block", one_a_block<64>}});
    book.problem("solve_64", [](book::Problem& p) {
        Batch<float> d{9000, kSystem};
        const size_t entries = size_t(d.count) * kSystem * kSystem;
        const uint64_t seed = p.seed();
        d.a = p.input<float>(entries, [=] __device__(size_t i) {
            const int r = int(i % kSystem), c = int(i / kSystem % kSystem);
            const double u = book::uniform01(seed, 11, i);
            return float(r < c ? 0.0 : r == c ? 4 + u : 0.25 * (2 * u - 1));
        });
        d.right = p.uniform<float>(size_t(d.count) * kSystem, -1, 1);
        d.out = p.output<float>(size_t(d.count) * kSystem);
        // Of each column what lies below the diagonal is needed, in whole sectors of 8.
        p.needs({.dram_bytes = 4.0 * d.count * (kSystem * (kSystem + 8) / 2 + 2.0 * kSystem),
                 .fp32_flop = double(d.count) * kSystem * kSystem});
        p.check<float>(d.out, size_t(d.count) * kSystem, {1e-4, 1e-5}, [=](float* expected) {
            reference_solve<<<(d.count + 63) / 64, 64>>>(d.a, d.right, expected, d.count);
        });
        p.variant("solve_rows", [=] { solve_rows(d); });
        p.variant("solve_warp", [=] { solve_warp(d); });
        p.variant("solve_resident", [=] { solve_resident(d); });
    });
    return book.finish();
}
