// Batches of small dense problems: transition matrices exp(Q), dense solves, matrix-vector products.
#include "../../harness/book.h"

template <class T>
struct Matrices {
    int count;
    const T* rate;
    T* transition;
};

struct Systems {
    int count;
    const float* a;  // column-major, one after the other
    const float* b;
    float* x;
};

//: shared
constexpr int kSquarings = 6;
constexpr int kTerms = 10;

// One product of N x N matrices in shared memory, entry (i, j): scale * (a b) + the identity if asked.
template <class T, int N>
__device__ T product_entry(const T* a, const T* b, int i, int j, T scale, bool plus_identity) {
    T sum = 0;
#pragma unroll
    for (int k = 0; k < N; ++k) sum += a[i * N + k] * b[k * N + j];
    return scale * sum + (plus_identity && i == j ? T(1) : T(0));
}

// exp(Q) by scaling and squaring: a Taylor polynomial in Horner form of Q / 2^s, squared s times.
template <class T, int N>
__device__ T exponential_entry(T q, T* scaled, T* from, T* to, int i, int j) {
    const int own = i * N + j;
    scaled[own] = q / T(1 << kSquarings);
    T value = i == j ? T(1) : T(0);
    from[own] = value;
    __syncthreads();
#pragma unroll
    for (int term = kTerms; term > 0; --term) {
        value = product_entry<T, N>(scaled, from, i, j, T(1) / T(term), true);
        to[own] = value;
        __syncthreads();
        T* swapped = from;
        from = to, to = swapped;
    }
#pragma unroll
    for (int s = 0; s < kSquarings; ++s) {
        value = product_entry<T, N>(from, from, i, j, T(1), false);
        to[own] = value;
        __syncthreads();
        T* swapped = from;
        from = to, to = swapped;
    }
    return value;
}

// Gauss-Jordan elimination; each thread keeps one row in registers. Diagonally dominant: no pivoting.
template <int N>
__device__ float eliminate_row(const float* a, float right, float* pivots, int row) {
    constexpr int kWidth = (N + 4) / 4 * 4;
    float entries[N];
    float inverse = 0;
#pragma unroll
    for (int k = 0; k < N; ++k) entries[k] = a[k * N + row];
#pragma unroll
    for (int k = 0; k < N; ++k) {
        float* pivot = pivots + (k & 1) * kWidth;
        if (row == k) {
            pivot[k] = inverse = 1.0f / entries[k];
#pragma unroll
            for (int j = k + 1; j < N; ++j) pivot[j] = entries[j];
            pivot[N] = right;
        }
        __syncthreads();
        const float factor = row == k ? 0.0f : entries[k] * pivot[k];
#pragma unroll
        for (int j = k + 1; j < N; ++j) entries[j] -= factor * pivot[j];
        right -= factor * pivot[N];
    }
    return right * inverse;
}
//: end

//: variant matrix_per_block
template <class T, int N>
__global__ void exponentials(const T* rate, T* transition) {
    __shared__ __align__(16) T scaled[N * N], from[N * N], to[N * N];
    const int i = threadIdx.y, j = threadIdx.x;
    const size_t at = size_t(blockIdx.x) * N * N + i * N + j;
    transition[at] = exponential_entry<T, N>(rate[at], scaled, from, to, i, j);
}

template <class T, int N>
void matrix_per_block(const Matrices<T>& m) {
    exponentials<T, N><<<m.count, dim3(N, N)>>>(m.rate, m.transition);
}
//: end

//: variant matrices_per_block
template <class T, int N, int Group>
__global__ void exponentials_grouped(const T* rate, T* transition, int count) {
    __shared__ __align__(16) T scaled[Group * N * N], from[Group * N * N], to[Group * N * N];
    const int member = threadIdx.x / (N * N), entry = threadIdx.x % (N * N);
    const int i = entry / N, j = entry % N;
    const int matrix = blockIdx.x * Group + member;
    const size_t at = size_t(matrix) * N * N + entry;
    const T q = matrix < count ? rate[at] : T(0);
    const int first = member * N * N;
    const T value = exponential_entry<T, N>(q, scaled + first, from + first, to + first, i, j);
    if (matrix < count) transition[at] = value;
}

template <class T, int N, int Group>
void matrices_per_block(const Matrices<T>& m) {
    const int blocks = (m.count + Group - 1) / Group;
    exponentials_grouped<T, N, Group><<<blocks, Group * N * N>>>(m.rate, m.transition, m.count);
}
//: end

//: variant system_per_block
template <int N>
__global__ void solve_each(const float* a, const float* b, float* x) {
    __shared__ __align__(16) float pivots[2 * ((N + 4) / 4 * 4)];
    const int row = threadIdx.x;
    const size_t system = blockIdx.x;
    const float right = b[system * N + row];
    x[system * N + row] = eliminate_row<N>(a + system * N * N, right, pivots, row);
}

template <int N>
void system_per_block(const Systems& s) {
    solve_each<N><<<s.count, N>>>(s.a, s.b, s.x);
}
//: end

//: variant systems_per_block
// The number of systems is a multiple of Group.
template <int N, int Group>
__global__ void solve_grouped(const float* a, const float* b, float* x) {
    __shared__ __align__(16) float pivots[Group][2 * ((N + 4) / 4 * 4)];
    const int member = threadIdx.x / N, row = threadIdx.x % N;
    const size_t system = size_t(blockIdx.x) * Group + member;
    const float right = b[system * N + row];
    x[system * N + row] = eliminate_row<N>(a + system * N * N, right, pivots[member], row);
}

template <int N, int Group>
void systems_per_block(const Systems& s) {
    solve_grouped<N, Group><<<s.count / Group, N * Group>>>(s.a, s.b, s.x);
}
//: end

//: variant product_per_block
template <int N>
__global__ void multiply_each(const float* a, const float* b, float* y) {
    const int row = threadIdx.x;
    const size_t system = blockIdx.x;
    const float* column = a + system * N * N + row;
    const float4* vector = reinterpret_cast<const float4*>(b + system * N);
    float sum = 0;
#pragma unroll
    for (int k = 0; k < N; k += 4) {
        const float4 v = vector[k / 4];
        sum += column[k * N] * v.x + column[(k + 1) * N] * v.y + column[(k + 2) * N] * v.z +
               column[(k + 3) * N] * v.w;
    }
    y[system * N + row] = sum;
}

template <int N>
void product_per_block(const Systems& s) {
    multiply_each<N><<<s.count, N>>>(s.a, s.b, s.x);
}
//: end

//: variant products_per_block
// The number of systems is a multiple of Group.
template <int N, int Group>
__global__ void multiply_grouped(const float* a, const float* b, float* y) {
    const int member = threadIdx.x / N, row = threadIdx.x % N;
    const size_t system = size_t(blockIdx.x) * Group + member;
    const float* column = a + system * N * N + row;
    const float4* vector = reinterpret_cast<const float4*>(b + system * N);
    float sum = 0;
#pragma unroll
    for (int k = 0; k < N; k += 4) {
        const float4 v = vector[k / 4];
        sum += column[k * N] * v.x + column[(k + 1) * N] * v.y + column[(k + 2) * N] * v.z +
               column[(k + 3) * N] * v.w;
    }
    y[system * N + row] = sum;
}

template <int N, int Group>
void products_per_block(const Systems& s) {
    multiply_grouped<N, Group><<<s.count / Group, N * Group>>>(s.a, s.b, s.x);
}
//: end

// One thread per matrix, in double: powers added up one by one, then squared.
template <class T, int N>
__global__ void reference_exponential(const T* rate, T* expected, int count) {
    const int m = blockIdx.x * blockDim.x + threadIdx.x;
    if (m >= count) return;
    double q[N][N], sum[N][N], term[N][N], next[N][N];
    for (int i = 0; i < N; ++i) {
        for (int j = 0; j < N; ++j) {
            q[i][j] = double(rate[(size_t(m) * N + i) * N + j]) / 64;
            sum[i][j] = term[i][j] = i == j;
        }
    }
    for (int k = 1; k <= 18 + 6; ++k) {
        for (int i = 0; i < N; ++i) {
            for (int j = 0; j < N; ++j) {
                double dot = 0;
                for (int l = 0; l < N; ++l) dot += k <= 18 ? term[i][l] * q[l][j] / k : sum[i][l] * sum[l][j];
                next[i][j] = dot;
            }
        }
        for (int i = 0; i < N; ++i) {
            for (int j = 0; j < N; ++j) {
                if (k <= 18) {
                    term[i][j] = next[i][j];
                    sum[i][j] += next[i][j];
                } else {
                    sum[i][j] = next[i][j];
                }
            }
        }
    }
    for (int i = 0; i < N; ++i) {
        for (int j = 0; j < N; ++j) expected[(size_t(m) * N + i) * N + j] = T(sum[i][j]);
    }
}

// One thread per system, in double: Jacobi iterations, which converge fast for these matrices.
template <int N>
__global__ void reference_solution(const float* a, const float* b, float* expected, int count) {
    const int s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s >= count) return;
    const float* matrix = a + size_t(s) * N * N;
    double x[N], next[N];
    for (int i = 0; i < N; ++i) x[i] = 0;
    for (int sweep = 0; sweep < 14; ++sweep) {
        for (int i = 0; i < N; ++i) {
            double rest = b[size_t(s) * N + i];
            for (int j = 0; j < N; ++j) rest -= j == i ? 0.0 : double(matrix[j * N + i]) * x[j];
            next[i] = rest / double(matrix[i * N + i]);
        }
        for (int i = 0; i < N; ++i) x[i] = next[i];
    }
    for (int i = 0; i < N; ++i) expected[size_t(s) * N + i] = float(x[i]);
}

template <int N>
__global__ void reference_product(const float* a, const float* b, float* expected, int count) {
    const int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= count * N) return;
    const size_t s = t / N, i = t % N;
    double sum = 0;
    for (int k = 0; k < N; ++k) sum += double(a[(s * N + k) * N + i]) * double(b[s * N + k]);
    expected[t] = float(sum);
}

// Rows of Q add up to zero, entries off the diagonal are at least zero.
template <class T, int N>
Matrices<T> set_up_rates(book::Problem& p, int count, book::Tolerance allowed) {
    const size_t entries = size_t(count) * N * N;
    const uint64_t seed = p.seed();
    Matrices<T> m{count};
    m.rate = p.input<T>(entries, [=] __device__(size_t at) {
        const size_t row = at / N * N, diagonal = row + (at / N) % N;
        double rest = 0;
        for (size_t other = row; other < row + N; ++other) {
            if (other != diagonal) rest += book::uniform01(seed, 77, other);
        }
        return T(at == diagonal ? -rest : book::uniform01(seed, 77, at));
    });
    m.transition = p.output<T>(entries);
    const double flop = double(count) * (kTerms + kSquarings) * 2 * N * N * N;
    p.needs({.dram_bytes = 2.0 * sizeof(T) * entries,
             .fp32_flop = sizeof(T) == 4 ? flop : 0,
             .fp64_flop = sizeof(T) == 8 ? flop : 0});
    p.check<T>(m.transition, entries, allowed, [=](T* expected) {
        reference_exponential<T, N><<<(count + 127) / 128, 128>>>(m.rate, expected, count);
    });
    return m;
}

template <int N>
Systems set_up_systems(book::Problem& p, int count, bool product) {
    const size_t entries = size_t(count) * N * N;
    const uint64_t seed = p.seed();
    Systems s{count};
    s.a = p.input<float>(entries, [=] __device__(size_t at) {
        const size_t inside = at % (N * N);
        const double noise = book::uniform01(seed, 31, at) - 0.5;
        return float(inside % N == inside / N ? N + noise : noise);
    });
    s.b = p.uniform<float>(size_t(count) * N, -1, 1);
    s.x = p.output<float>(size_t(count) * N);
    const double each = product ? 2.0 * N * N : 2.0 * N * N * N / 3;
    p.needs({.dram_bytes = 4.0 * (entries + 2.0 * count * N), .fp32_flop = count * each});
    const bool multiplied = product;
    p.check<float>(s.x, size_t(count) * N, {1e-4, product ? 2e-5 : 1e-6}, [=](float* expected) {
        if (multiplied) {
            reference_product<N><<<(count * N + 255) / 256, 256>>>(s.a, s.b, expected, count);
        } else {
            reference_solution<N><<<(count + 63) / 64, 64>>>(s.a, s.b, expected, count);
        }
    });
    return s;
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("three_states_f64", [](book::Problem& p) {
        const auto m = set_up_rates<double, 3>(p, 400000, {1e-10, 1e-12});
        p.variant("matrix_per_block", [=] { matrix_per_block<double, 3>(m); });
        p.variant("matrices_per_block", [=] { matrices_per_block<double, 3, 32>(m); });
    });
    book.problem("four_states", [](book::Problem& p) {
        const auto m = set_up_rates<float, 4>(p, 500000, {1e-4, 1e-5});
        p.variant("matrix_per_block", [=] { matrix_per_block<float, 4>(m); });
        p.variant("matrices_per_block", [=] { matrices_per_block<float, 4, 8>(m); });
    });
    book.problem("five_states", [](book::Problem& p) {
        const auto m = set_up_rates<float, 5>(p, 300000, {1e-4, 1e-5});
        p.variant("matrix_per_block", [=] { matrix_per_block<float, 5>(m); });
        p.variant("matrices_per_block", [=] { matrices_per_block<float, 5, 16>(m); });
    });
    book.problem("solve_20", [](book::Problem& p) {
        const auto s = set_up_systems<20>(p, 80000, false);
        p.variant("system_per_block", [=] { system_per_block<20>(s); });
        p.variant("systems_per_block", [=] { systems_per_block<20, 8>(s); });
    });
    book.problem("solve_48", [](book::Problem& p) {
        const auto s = set_up_systems<48>(p, 20000, false);
        p.variant("system_per_block", [=] { system_per_block<48>(s); });
        p.variant("systems_per_block", [=] { systems_per_block<48, 2>(s); });
    });
    book.problem("product_48", [](book::Problem& p) {
        const auto s = set_up_systems<48>(p, 20000, true);
        p.variant("product_per_block", [=] { product_per_block<48>(s); });
        p.variant("products_per_block", [=] { products_per_block<48, 2>(s); });
    });
    return book.finish();
}
