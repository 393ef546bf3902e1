// Batches of small dense systems: solution with partial pivoting, and factors A = L U.
#include "../../harness/book.h"

struct Systems {  // element (i, j) of system m: a[(i * 8 + j) * batch + m]
    int batch;
    const float *a, *b;
    float* x;
};

template <class T>
struct Factors {  // each matrix row-major, one after the other; L has a unit diagonal
    int batch;
    const T* a;
    T* lu;
};

//: shared
constexpr int kOrder = 8;
constexpr int kNodes = 16;
constexpr int kElement = 30;
constexpr unsigned kAll = 0xffffffffu;

__device__ __forceinline__ void eliminate_and_solve(const float* a, const float* b, float* x, int batch, int m) {
    float w[kOrder][kOrder], y[kOrder];
#pragma unroll
    for (int i = 0; i < kOrder; ++i) {
#pragma unroll
        for (int j = 0; j < kOrder; ++j) w[i][j] = a[size_t(i * kOrder + j) * batch + m];
        y[i] = b[size_t(i) * batch + m];
    }
#pragma unroll
    for (int k = 0; k < kOrder; ++k) {
        // A row moves up whenever its leading entry is larger than the best so far.
#pragma unroll
        for (int i = k + 1; i < kOrder; ++i) {
            const bool larger = fabsf(w[i][k]) > fabsf(w[k][k]);
#pragma unroll
            for (int j = k; j < kOrder; ++j) {
                const float up = w[i][j], down = w[k][j];
                w[k][j] = larger ? up : down;
                w[i][j] = larger ? down : up;
            }
            const float up = y[i], down = y[k];
            y[k] = larger ? up : down;
            y[i] = larger ? down : up;
        }
        const float inverse = 1.0f / w[k][k];
#pragma unroll
        for (int i = k + 1; i < kOrder; ++i) {
            const float l = w[i][k] * inverse;
#pragma unroll
            for (int j = k + 1; j < kOrder; ++j) w[i][j] -= l * w[k][j];
            y[i] -= l * y[k];
        }
        w[k][k] = inverse;
    }
#pragma unroll
    for (int i = kOrder - 1; i >= 0; --i) {
#pragma unroll
        for (int j = i + 1; j < kOrder; ++j) y[i] -= w[i][j] * y[j];
        y[i] *= w[i][i];
        x[size_t(i) * batch + m] = y[i];
    }
}

// One warp per matrix: lane i owns row i of the copy in shared memory.
template <int Pitch, int Warps>
__global__ void factor_element(const float* a, float* lu, int batch) {
    __shared__ float tiles[Warps][kElement * Pitch];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int m = blockIdx.x * Warps + warp;
    if (m >= batch) return;
    float* t = tiles[warp];
    const float* from = a + size_t(m) * kElement * kElement;
    for (int e = lane; e < kElement * kElement; e += 32) {
        t[e / kElement * Pitch + e % kElement] = from[e];
    }
    __syncwarp();
    float* own = t + min(lane, kElement - 1) * Pitch;
    for (int k = 0; k < kElement - 1; ++k) {
        const float* top = t + k * Pitch;
        if (lane > k && lane < kElement) {
            const float l = own[k] / top[k];
            own[k] = l;
#pragma unroll 4
            for (int j = k + 1; j < kElement; ++j) own[j] -= l * top[j];
        }
        __syncwarp();
    }
    float* to = lu + size_t(m) * kElement * kElement;
    for (int e = lane; e < kElement * kElement; e += 32) {
        to[e] = t[e / kElement * Pitch + e % kElement];
    }
}
//: end

//: variant perm_index
__global__ void solve_perm_index(const float* a, const float* b, float* x, int batch) {
    const int m = blockIdx.x * blockDim.x + threadIdx.x;
    if (m >= batch) return;
    float w[kOrder][kOrder], y[kOrder];
    int row[kOrder];
    for (int i = 0; i < kOrder; ++i) {
        for (int j = 0; j < kOrder; ++j) w[i][j] = a[size_t(i * kOrder + j) * batch + m];
        y[i] = b[size_t(i) * batch + m];
        row[i] = i;
    }
    for (int k = 0; k < kOrder; ++k) {
        int best = k;
        for (int i = k + 1; i < kOrder; ++i) {
            if (fabsf(w[row[i]][k]) > fabsf(w[row[best]][k])) best = i;
        }
        const int top = row[best];
        row[best] = row[k];
        row[k] = top;
        const float inverse = 1.0f / w[top][k];
        for (int i = k + 1; i < kOrder; ++i) {
            const int r = row[i];
            const float l = w[r][k] * inverse;
            for (int j = k + 1; j < kOrder; ++j) w[r][j] -= l * w[top][j];
            y[r] -= l * y[top];
        }
        w[top][k] = inverse;
    }
    float z[kOrder];
    for (int i = kOrder - 1; i >= 0; --i) {
        const int r = row[i];
        float value = y[r];
        for (int j = i + 1; j < kOrder; ++j) value -= w[r][j] * z[j];
        z[i] = value * w[r][i];
        x[size_t(i) * batch + m] = z[i];
    }
}

void perm_index(const Systems& s) {
    solve_perm_index<<<(s.batch + 127) / 128, 128>>>(s.a, s.b, s.x, s.batch);
}
//: end

//: variant swap_rows
__global__ void solve_swap_rows(const float* a, const float* b, float* x, int batch) {
    const int m = blockIdx.x * blockDim.x + threadIdx.x;
    if (m < batch) eliminate_and_solve(a, b, x, batch, m);
}

void swap_rows(const Systems& s) {
    solve_swap_rows<<<(s.batch + 127) / 128, 128>>>(s.a, s.b, s.x, s.batch);
}
//: end

//: variant swap_rows_6
__global__ void __launch_bounds__(128, 6) solve_swap_rows_6(const float* a, const float* b, float* x, int batch) {
    const int m = blockIdx.x * blockDim.x + threadIdx.x;
    if (m < batch) eliminate_and_solve(a, b, x, batch, m);
}

void swap_rows_6(const Systems& s) {
    solve_swap_rows_6<<<(s.batch + 127) / 128, 128>>>(s.a, s.b, s.x, s.batch);
}
//: end

//: variant block_256
// One block per matrix, one thread per element.
__global__ void factor_block(const double* a, double* lu) {
    __shared__ double t[kNodes][kNodes + 1];
    const int i = threadIdx.y, j = threadIdx.x;
    const size_t e = size_t(blockIdx.x) * kNodes * kNodes + i * kNodes + j;
    t[i][j] = a[e];
    __syncthreads();
    for (int k = 0; k < kNodes - 1; ++k) {
        if (j == k && i > k) t[i][k] /= t[k][k];
        __syncthreads();
        if (i > k && j > k) t[i][j] -= t[i][k] * t[k][j];
        __syncthreads();
    }
    lu[e] = t[i][j];
}

void block_256(const Factors<double>& f) {
    factor_block<<<f.batch, dim3(kNodes, kNodes)>>>(f.a, f.lu);
}
//: end

//: variant rows_16
// Sixteen lanes per matrix: each has a row in registers. The batch is even.
__global__ void factor_rows(const double* a, double* lu, int batch) {
    const int m = (blockIdx.x * blockDim.x + threadIdx.x) / kNodes, lane = threadIdx.x % kNodes;
    if (m >= batch) return;
    const double* from = a + size_t(m) * kNodes * kNodes + lane * kNodes;
    double w[kNodes];
#pragma unroll
    for (int j = 0; j < kNodes; ++j) w[j] = from[j];
#pragma unroll
    for (int k = 0; k < kNodes - 1; ++k) {
        const double inverse = 1.0 / __shfl_sync(kAll, w[k], k, kNodes);
        const double l = w[k] * inverse;
        if (lane > k) w[k] = l;
#pragma unroll
        for (int j = k + 1; j < kNodes; ++j) {
            const double top = __shfl_sync(kAll, w[j], k, kNodes);
            if (lane > k) w[j] -= l * top;
        }
    }
    double* to = lu + size_t(m) * kNodes * kNodes + lane * kNodes;
#pragma unroll
    for (int j = 0; j < kNodes; ++j) to[j] = w[j];
}

void rows_16(const Factors<double>& f) {
    factor_rows<<<(f.batch * kNodes + 127) / 128, 128>>>(f.a, f.lu, f.batch);
}
//: end

//: variant rows_pairs
// Sixteen lanes per matrix: each has a row in registers. The batch is even.
__global__ void factor_rows_pairs(const double* a, double* lu, int batch) {
    const int m = (blockIdx.x * blockDim.x + threadIdx.x) / kNodes, lane = threadIdx.x % kNodes;
    if (m >= batch) return;
    const auto* from = reinterpret_cast<const double2*>(a + size_t(m) * kNodes * kNodes + lane * kNodes);
    double w[kNodes];
#pragma unroll
    for (int j = 0; j < kNodes; j += 2) {
        const double2 pair = from[j / 2];
        w[j] = pair.x, w[j + 1] = pair.y;
    }
#pragma unroll
    for (int k = 0; k < kNodes - 1; ++k) {
        const double inverse = 1.0 / __shfl_sync(kAll, w[k], k, kNodes);
        const double l = w[k] * inverse;
        if (lane > k) w[k] = l;
#pragma unroll
        for (int j = k + 1; j < kNodes; ++j) {
            const double top = __shfl_sync(kAll, w[j], k, kNodes);
            if (lane > k) w[j] -= l * top;
        }
    }
    auto* to = reinterpret_cast<double2*>(lu + size_t(m) * kNodes * kNodes + lane * kNodes);
#pragma unroll
    for (int j = 0; j < kNodes; j += 2) to[j / 2] = make_double2(w[j], w[j + 1]);
}

void rows_pairs(const Factors<double>& f) {
    factor_rows_pairs<<<(f.batch * kNodes + 127) / 128, 128>>>(f.a, f.lu, f.batch);
}
//: end

//: variant columns_16
// Sixteen lanes per matrix: each has a column in registers. The batch is even.
__global__ void factor_columns(const double* a, double* lu, int batch) {
    const int m = (blockIdx.x * blockDim.x + threadIdx.x) / kNodes, lane = threadIdx.x % kNodes;
    if (m >= batch) return;
    const double* from = a + size_t(m) * kNodes * kNodes + lane;
    double w[kNodes];
#pragma unroll
    for (int i = 0; i < kNodes; ++i) w[i] = from[i * kNodes];
#pragma unroll
    for (int k = 0; k < kNodes - 1; ++k) {
        const double inverse = 1.0 / __shfl_sync(kAll, w[k], k, kNodes);
#pragma unroll
        for (int i = k + 1; i < kNodes; ++i) {
            const double l = __shfl_sync(kAll, w[i], k, kNodes) * inverse;
            if (lane > k) w[i] -= l * w[k];
            if (lane == k) w[i] = l;
        }
    }
    double* to = lu + size_t(m) * kNodes * kNodes + lane;
#pragma unroll
    for (int i = 0; i < kNodes; ++i) to[i * kNodes] = w[i];
}

void columns_16(const Factors<double>& f) {
    factor_columns<<<(f.batch * kNodes + 127) / 128, 128>>>(f.a, f.lu, f.batch);
}
//: end

//: variant columns_quotient
// Sixteen lanes per matrix: each has a column in registers. The batch is even.
__global__ void factor_columns_quotient(const double* a, double* lu, int batch) {
    const int m = (blockIdx.x * blockDim.x + threadIdx.x) / kNodes, lane = threadIdx.x % kNodes;
    if (m >= batch) return;
    const double* from = a + size_t(m) * kNodes * kNodes + lane;
    double w[kNodes];
#pragma unroll
    for (int i = 0; i < kNodes; ++i) w[i] = from[i * kNodes];
#pragma unroll
    for (int k = 0; k < kNodes - 1; ++k) {
        const double pivot = __shfl_sync(kAll, w[k], k, kNodes);
#pragma unroll
        for (int i = k + 1; i < kNodes; ++i) {
            const double l = __shfl_sync(kAll, w[i], k, kNodes) / pivot;
            if (lane > k) w[i] -= l * w[k];
            if (lane == k) w[i] = l;
        }
    }
    double* to = lu + size_t(m) * kNodes * kNodes + lane;
#pragma unroll
    for (int i = 0; i < kNodes; ++i) to[i * kNodes] = w[i];
}

void columns_quotient(const Factors<double>& f) {
    factor_columns_quotient<<<(f.batch * kNodes + 127) / 128, 128>>>(f.a, f.lu, f.batch);
}
//: end

//: variant pitch_30
void pitch_30(const Factors<float>& f) {
    factor_element<30, 4><<<(f.batch + 3) / 4, 128>>>(f.a, f.lu, f.batch);
}
//: end

//: variant pitch_31
void pitch_31(const Factors<float>& f) {
    factor_element<31, 4><<<(f.batch + 3) / 4, 128>>>(f.a, f.lu, f.batch);
}
//: end

//: variant warp_blocks
void warp_blocks(const Factors<float>& f) {
    factor_element<31, 1><<<f.batch, 32>>>(f.a, f.lu, f.batch);
}
//: end

// Gauss-Jordan in double, with the largest pivot of the column.
__global__ void reference_solve(const float* a, const float* b, float* expected, int batch) {
    for (int m = blockIdx.x * blockDim.x + threadIdx.x; m < batch; m += gridDim.x * blockDim.x) {
        double t[8][9];
        for (int i = 0; i < 8; ++i) {
            for (int j = 0; j < 8; ++j) t[i][j] = a[size_t(i * 8 + j) * batch + m];
            t[i][8] = b[size_t(i) * batch + m];
        }
        for (int k = 0; k < 8; ++k) {
            int p = k;
            for (int i = k + 1; i < 8; ++i) p = fabs(t[i][k]) > fabs(t[p][k]) ? i : p;
            for (int j = 0; j < 9; ++j) {
                const double keep = t[k][j];
                t[k][j] = t[p][j];
                t[p][j] = keep;
            }
            const double d = t[k][k];
            for (int j = 0; j < 9; ++j) t[k][j] /= d;
            for (int i = 0; i < 8; ++i) {
                const double f = t[i][k];
                if (i != k) {
                    for (int j = 0; j < 9; ++j) t[i][j] -= f * t[k][j];
                }
            }
        }
        for (int i = 0; i < 8; ++i) expected[size_t(i) * batch + m] = float(t[i][8]);
    }
}

// Doolittle's sums, one thread per matrix, in double.
template <class T, int N>
__global__ void reference_factor(const T* a, T* expected, int batch) {
    for (int m = blockIdx.x * blockDim.x + threadIdx.x; m < batch; m += gridDim.x * blockDim.x) {
        const T* from = a + size_t(m) * N * N;
        double t[N * N];
        for (int i = 0; i < N; ++i) {
            for (int j = 0; j < N; ++j) {
                double sum = from[i * N + j];
                for (int k = 0; k < min(i, j); ++k) sum -= t[i * N + k] * t[k * N + j];
                t[i * N + j] = j < i ? sum / t[j * N + j] : sum;
            }
        }
        for (int e = 0; e < N * N; ++e) expected[size_t(m) * N * N + e] = T(t[e]);
    }
}

Systems set_up_systems(book::Problem& p, int batch) {
    Systems s{batch};
    const uint64_t seed = p.seed();
    // The large entry of a row is off the diagonal for most systems, so that rows have to move.
    s.a = p.input<float>(size_t(batch) * 64, [=] __device__(size_t e) {
        const int m = int(e % batch), i = int(e / batch) / 8, j = int(e / batch) % 8;
        const int shift = int(8 * book::uniform01(seed, 71, m));
        return float(2 * book::uniform01(seed, 72, e) - 1 + ((i * 3 + shift) % 8 == j ? 8 : 0));
    });
    s.b = p.uniform<float>(size_t(batch) * 8, -1, 1);
    s.x = p.output<float>(size_t(batch) * 8);
    p.needs({.dram_bytes = 4.0 * 80 * batch, .fp32_flop = 456.0 * batch});
    p.check<float>(s.x, size_t(batch) * 8, {1e-4, 1e-5}, [=](float* expected) {
        reference_solve<<<1056, 128>>>(s.a, s.b, expected, batch);
    });
    return s;
}

template <class T, int N>
Factors<T> set_up_factors(book::Problem& p, int batch, double tolerance) {
    Factors<T> f{batch};
    const size_t count = size_t(batch) * N * N;
    const uint64_t seed = p.seed();
    f.a = p.input<T>(count, [=] __device__(size_t e) {
        const int i = int(e % (N * N)) / N, j = int(e % N);
        return T(2 * book::uniform01(seed, 81, e) - 1 + (i == j ? N : 0));
    });
    f.lu = p.output<T>(count);
    const double flop = batch * (N * (N - 1.0) * (2 * N - 1) / 3 + N * (N - 1.0) / 2);
    const bool wide = sizeof(T) == 8;
    p.needs({.dram_bytes = 2.0 * sizeof(T) * count, .fp32_flop = wide ? 0 : flop, .fp64_flop = wide ? flop : 0});
    p.check<T>(f.lu, count, {tolerance, tolerance}, [=](T* expected) {
        reference_factor<T, N><<<1056, 64>>>(f.a, expected, batch);
    });
    return f;
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("pivoted_8", [](book::Problem& p) {
        const auto s = set_up_systems(p, 400'000);
        p.variant("perm_index", [=] { perm_index(s); });
        p.variant("swap_rows", [=] { swap_rows(s); });
        p.variant("swap_rows_6", [=] { swap_rows_6(s); });
    });
    book.problem("f64_16", [](book::Problem& p) {
        const auto f = set_up_factors<double, 16>(p, 36'000, 1e-11);
        p.variant("block_256", [=] { block_256(f); });
        p.variant("rows_16", [=] { rows_16(f); });
        p.variant("rows_pairs", [=] { rows_pairs(f); });
        p.variant("columns_16", [=] { columns_16(f); });
        p.variant("columns_quotient", [=] { columns_quotient(f); });
    });
    book.problem("element_30", [](book::Problem& p) {
        const auto f = set_up_factors<float, 30>(p, 20'000, 2e-5);
        p.variant("pitch_30", [=] { pitch_30(f); });
        p.variant("pitch_31", [=] { pitch_31(f); });
        p.variant("warp_blocks", [=] { warp_blocks(f); });
    });
    return book.finish();
}
