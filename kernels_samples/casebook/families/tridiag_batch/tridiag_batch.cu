// Many tridiagonal systems lower[i] x[i-1] + diagonal[i] x[i] + upper[i] x[i+1] = right[i], as in
// the sweeps of an alternating-direction implicit method. lower of the first row and upper of the
// last row of a system are zero.
#include "../../harness/book.h"

//: shared
template <class T>
struct Lines {
    int systems, rows;
    const T *lower, *diagonal, *upper, *right;
    T* x;
    T* ratio;  // scratch of the elimination
};
//: end

// --- each system is contiguous in memory: the sweep along x

//: variant walk
// One thread per system.
__global__ void solve_walk(const float* __restrict__ lower, const float* __restrict__ diagonal,
                           const float* __restrict__ upper, const float* __restrict__ right,
                           float* __restrict__ x, float* __restrict__ ratio, int systems,
                           int rows) {
    const int system = blockIdx.x * blockDim.x + threadIdx.x;
    if (system >= systems) return;
    size_t at = size_t(system) * rows;
    float c = 0, d = 0;
    for (int i = 0; i < rows; ++i, ++at) {
        const float scale = 1.0f / (diagonal[at] - lower[at] * c);
        c = upper[at] * scale;
        d = (right[at] - lower[at] * d) * scale;
        ratio[at] = c;
        x[at] = d;
    }
    for (int i = rows - 2; i >= 0; --i) {
        at = size_t(system) * rows + i;
        d = x[at] - ratio[at] * d;
        x[at] = d;
    }
}

void walk(const Lines<float>& s) {
    solve_walk<<<(s.systems + 127) / 128, 128>>>(s.lower, s.diagonal, s.upper, s.right, s.x,
                                                 s.ratio, s.systems, s.rows);
}
//: end

//: shared
constexpr int kRows = 128;
constexpr int kThreads = 128;

// 32 systems of 128 rows per block: all threads copy, the first warp solves, one system per lane.
template <int Pitch>
__global__ void solve_staged(const float* __restrict__ lower, const float* __restrict__ diagonal,
                             const float* __restrict__ upper, const float* __restrict__ right,
                             float* __restrict__ x) {
    extern __shared__ float tile[];
    float* a = tile;
    float* b = a + kRows * Pitch;
    float* c = b + kRows * Pitch;
    float* d = c + kRows * Pitch;
    const int row = threadIdx.x, lane = threadIdx.x;
    const size_t first = size_t(blockIdx.x) * 32 * kRows;
#pragma unroll 4
    for (int s = 0; s < 32; ++s) {
        const size_t from = first + s * kRows + row;
        a[row * Pitch + s] = lower[from];
        b[row * Pitch + s] = diagonal[from];
        c[row * Pitch + s] = upper[from];
        d[row * Pitch + s] = right[from];
    }
    __syncthreads();
    if (threadIdx.x < 32) {
        float before = 0, value = 0;
#pragma unroll 4
        for (int i = 0; i < kRows; ++i) {
            const int at = i * Pitch + lane;
            const float scale = 1.0f / (b[at] - a[at] * before);
            before = c[at] * scale;
            value = (d[at] - a[at] * value) * scale;
            c[at] = before;
            d[at] = value;
        }
#pragma unroll 4
        for (int i = kRows - 2; i >= 0; --i) {
            const int at = i * Pitch + lane;
            value = d[at] - c[at] * value;
            d[at] = value;
        }
    }
    __syncthreads();
#pragma unroll 4
    for (int s = 0; s < 32; ++s) x[first + s * kRows + row] = d[row * Pitch + s];
}

template <int Pitch>
void launch_staged(const Lines<float>& s) {
    constexpr int kBytes = 4 * kRows * Pitch * sizeof(float);
    static const cudaError_t allowed = cudaFuncSetAttribute(
        solve_staged<Pitch>, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
    BOOK_CHECK(allowed);
    solve_staged<Pitch>
        <<<s.systems / 32, kThreads, kBytes>>>(s.lower, s.diagonal, s.upper, s.right, s.x);
}
//: end

//: variant staged_32
void staged_32(const Lines<float>& s) {
    launch_staged<32>(s);
}
//: end

//: variant staged_33
void staged_33(const Lines<float>& s) {
    launch_staged<33>(s);
}
//: end

//: variant staged_34
void staged_34(const Lines<float>& s) {
    launch_staged<34>(s);
}
//: end

//: variant staged_quarters
// As staged, but lower and diagonal are only there for a quarter of the rows at a time.
__global__ void solve_quarters(const float* __restrict__ lower, const float* __restrict__ diagonal,
                               const float* __restrict__ upper, const float* __restrict__ right,
                               float* __restrict__ x) {
    constexpr int kPitch = 33, kPart = kRows / 4;
    extern __shared__ float tile[];
    float* c = tile;
    float* d = c + kRows * kPitch;
    float* a = d + kRows * kPitch;
    float* b = a + kPart * kPitch;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const size_t first = size_t(blockIdx.x) * 32 * kRows;
    float before = 0, value = 0;
    for (int part = 0; part < kRows; part += kPart) {
#pragma unroll
        for (int s = warp; s < 32; s += kThreads / 32) {
            const size_t from = first + s * kRows + part + lane;
            a[lane * kPitch + s] = lower[from];
            b[lane * kPitch + s] = diagonal[from];
            c[(part + lane) * kPitch + s] = upper[from];
            d[(part + lane) * kPitch + s] = right[from];
        }
        __syncthreads();
        if (warp == 0) {
#pragma unroll 4
            for (int i = 0; i < kPart; ++i) {
                const int here = i * kPitch + lane, at = here + part * kPitch;
                const float scale = 1.0f / (b[here] - a[here] * before);
                before = c[at] * scale;
                value = (d[at] - a[here] * value) * scale;
                c[at] = before;
                d[at] = value;
            }
        }
        __syncthreads();
    }
    if (warp == 0) {
#pragma unroll 4
        for (int i = kRows - 2; i >= 0; --i) {
            const int at = i * kPitch + lane;
            value = d[at] - c[at] * value;
            d[at] = value;
        }
    }
    __syncthreads();
    const int row = threadIdx.x;
#pragma unroll 4
    for (int s = 0; s < 32; ++s) x[first + s * kRows + row] = d[row * kPitch + s];
}

void staged_quarters(const Lines<float>& s) {
    constexpr int kBytes = (2 * kRows + 2 * kRows / 4) * 33 * sizeof(float);
    static const cudaError_t allowed = cudaFuncSetAttribute(
        solve_quarters, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
    BOOK_CHECK(allowed);
    solve_quarters<<<s.systems / 32, kThreads, kBytes>>>(s.lower, s.diagonal, s.upper, s.right,
                                                         s.x);
}
//: end

// --- row i of all systems is contiguous: the sweeps along y and z

//: variant march
// One thread per system.
template <class T>
__global__ void solve_march(const T* lower, const T* diagonal, const T* upper, const T* right, T* x,
                            T* ratio, int systems, int rows) {
    const int system = blockIdx.x * blockDim.x + threadIdx.x;
    if (system >= systems) return;
    T c = 0, d = 0;
    for (int i = 0; i < rows; ++i) {
        const size_t at = size_t(i) * systems + system;
        const T scale = T(1) / (diagonal[at] - lower[at] * c);
        c = upper[at] * scale;
        d = (right[at] - lower[at] * d) * scale;
        ratio[at] = c;
        x[at] = d;
    }
    for (int i = rows - 2; i >= 0; --i) {
        const size_t at = size_t(i) * systems + system;
        d = x[at] - ratio[at] * d;
        x[at] = d;
    }
}

template <class T>
void march(const Lines<T>& s) {
    solve_march<<<(s.systems + 63) / 64, 64>>>(s.lower, s.diagonal, s.upper, s.right, s.x,
                                                  s.ratio, s.systems, s.rows);
}
//: end

//: shared
constexpr int kAhead = 8;

// Eliminates `count` rows (a multiple of 8) at, at + step, ..., eight loaded at a time.
// From the top, `towards` is upper and `behind` is lower; from the bottom it is the reverse.
template <class T>
__device__ void eliminate(const T* __restrict__ behind, const T* __restrict__ diagonal,
                          const T* __restrict__ towards, const T* __restrict__ right,
                          T* __restrict__ x, T* __restrict__ ratio, size_t at, ptrdiff_t step,
                          int count, T& c, T& d) {
    for (int i = 0; i < count; i += kAhead) {
        T p[kAhead], q[kAhead], r[kAhead], s[kAhead];
#pragma unroll
        for (int k = 0; k < kAhead; ++k) {
            const size_t from = at + k * step;
            p[k] = behind[from], q[k] = diagonal[from], r[k] = towards[from], s[k] = right[from];
        }
#pragma unroll
        for (int k = 0; k < kAhead; ++k) {
            const T scale = T(1) / (q[k] - p[k] * c);
            c = r[k] * scale;
            d = (s[k] - p[k] * d) * scale;
            ratio[at + k * step] = c;
            x[at + k * step] = d;
        }
        at += kAhead * step;
    }
}

// Puts the solution into rows at, at + step, ... given `d`, the solution of the row before `at`.
template <class T>
__device__ void substitute(T* x, const T* ratio, size_t at, ptrdiff_t step, int count, T d) {
    for (int i = 0; i < count; i += kAhead) {
        T r[kAhead], s[kAhead];
#pragma unroll
        for (int k = 0; k < kAhead; ++k) r[k] = ratio[at + k * step], s[k] = x[at + k * step];
#pragma unroll
        for (int k = 0; k < kAhead; ++k) {
            d = s[k] - r[k] * d;
            x[at + k * step] = d;
        }
        at += kAhead * step;
    }
}
//: end

//: variant march_ahead
// One thread per system.
template <class T>
__global__ void solve_march_ahead(const T* lower, const T* diagonal, const T* upper, const T* right,
                                 T* x, T* ratio, int systems, int rows) {
    const int system = blockIdx.x * blockDim.x + threadIdx.x;
    if (system >= systems) return;
    T c = 0, d = 0;
    eliminate<T>(lower, diagonal, upper, right, x, ratio, system, systems, rows, c, d);
    substitute<T>(x, ratio, size_t(rows - 1) * systems + system, -ptrdiff_t(systems), rows, T(0));
}

template <class T>
void march_ahead(const Lines<T>& s) {
    solve_march_ahead<<<(s.systems + 63) / 64, 64>>>(s.lower, s.diagonal, s.upper, s.right, s.x,
                                                    s.ratio, s.systems, s.rows);
}
//: end

//: variant twisted_ahead
// Two threads per system: one eliminates from the top, one from the bottom, until they meet.
template <class T>
__global__ void solve_twisted_ahead(const T* lower, const T* diagonal, const T* upper,
                                   const T* right, T* x, T* ratio, int systems, int rows) {
    __shared__ T c_of[2][32], d_of[2][32];
    const int lane = threadIdx.x, end = threadIdx.y, half = rows / 2;
    const int system = blockIdx.x * 32 + lane;
    const size_t middle = size_t(half) * systems + system;
    T c = 0, d = 0;
    if (end == 0) {
        eliminate<T>(lower, diagonal, upper, right, x, ratio, system, systems, half, c, d);
    } else {
        eliminate<T>(upper, diagonal, lower, right, x, ratio, size_t(rows - 1) * systems + system,
                     -ptrdiff_t(systems), half, c, d);
    }
    c_of[end][lane] = c;
    d_of[end][lane] = d;
    __syncthreads();
    // x[half - 1] + c0 x[half] = d0 and x[half] + c1 x[half - 1] = d1
    const T c1 = c_of[1 - end][lane], d1 = d_of[1 - end][lane];
    const T other = (d1 - c1 * d) / (T(1) - c * c1);
    if (end == 0) {
        substitute<T>(x, ratio, middle - systems, -ptrdiff_t(systems), half, other);
    } else {
        substitute<T>(x, ratio, middle, systems, half, other);
    }
}

template <class T>
void twisted_ahead(const Lines<T>& s) {
    solve_twisted_ahead<<<s.systems / 32, dim3(32, 2)>>>(s.lower, s.diagonal, s.upper, s.right, s.x,
                                                        s.ratio, s.systems, s.rows);
}
//: end

// --- short contiguous systems of 16 rows: the levels of a column of air

//: shared
constexpr int kLevels = 16;

// Parallel cyclic reduction in registers: lane `row` of a group of 16 lanes has one row.
__device__ inline float reduce_levels(float a, float b, float c, float d, int row, unsigned lanes) {
#pragma unroll
    for (int span = 1; span < kLevels; span *= 2) {
        const float a_up = __shfl_up_sync(lanes, a, span, kLevels);
        const float b_up = __shfl_up_sync(lanes, b, span, kLevels);
        const float c_up = __shfl_up_sync(lanes, c, span, kLevels);
        const float d_up = __shfl_up_sync(lanes, d, span, kLevels);
        const float a_down = __shfl_down_sync(lanes, a, span, kLevels);
        const float b_down = __shfl_down_sync(lanes, b, span, kLevels);
        const float c_down = __shfl_down_sync(lanes, c, span, kLevels);
        const float d_down = __shfl_down_sync(lanes, d, span, kLevels);
        const float up = row >= span ? a / b_up : 0.0f;
        const float down = row + span < kLevels ? c / b_down : 0.0f;
        b -= up * c_up + down * a_down;
        d -= up * d_up + down * d_down;
        a = -up * a_up;
        c = -down * c_down;
    }
    return d / b;
}
//: end

//: variant column_per_warp
__global__ void solve_column_per_warp(const float* __restrict__ lower,
                                      const float* __restrict__ diagonal,
                                      const float* __restrict__ upper,
                                      const float* __restrict__ right, float* __restrict__ x,
                                      int systems) {
    const int system = blockIdx.x * blockDim.y + threadIdx.y, row = threadIdx.x;
    if (system >= systems || row >= kLevels) return;
    const int at = system * kLevels + row;
    x[at] = reduce_levels(lower[at], diagonal[at], upper[at], right[at], row, 0x0000ffff);
}

void column_per_warp(const Lines<float>& s) {
    solve_column_per_warp<<<(s.systems + 7) / 8, dim3(32, 8)>>>(s.lower, s.diagonal, s.upper,
                                                                s.right, s.x, s.systems);
}
//: end

//: variant columns_per_warp
__global__ void solve_columns_per_warp(const float* __restrict__ lower,
                                       const float* __restrict__ diagonal,
                                       const float* __restrict__ upper,
                                       const float* __restrict__ right, float* __restrict__ x,
                                       int systems) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x, row = at % kLevels;
    if (at >= systems * kLevels) return;
    x[at] = reduce_levels(lower[at], diagonal[at], upper[at], right[at], row, 0xffffffff);
}

void columns_per_warp(const Lines<float>& s) {
    solve_columns_per_warp<<<(s.systems * kLevels + 255) / 256, 256>>>(
        s.lower, s.diagonal, s.upper, s.right, s.x, s.systems);
}
//: end

// One thread per system, in double, with the elimination of each row kept in `work`.
template <class T>
__global__ void reference_solve(Lines<T> s, size_t row_stride, size_t system_stride, double* work,
                                T* expected) {
    const int system = blockIdx.x * blockDim.x + threadIdx.x;
    if (system >= s.systems) return;
    double b = 1, d = 0, c = 0;
    for (int i = 0; i < s.rows; ++i) {
        const size_t at = i * row_stride + system * system_stride;
        const double factor = i > 0 ? s.lower[at] / b : 0.0;
        b = s.diagonal[at] - factor * c;
        d = s.right[at] - factor * d;
        c = s.upper[at];
        work[2 * at] = b;
        work[2 * at + 1] = d;
    }
    double x = 0;
    for (int i = s.rows - 1; i >= 0; --i) {
        const size_t at = i * row_stride + system * system_stride;
        x = (work[2 * at + 1] - (i + 1 < s.rows ? s.upper[at] * x : 0.0)) / work[2 * at];
        expected[at] = T(x);
    }
}

template <class T>
Lines<T> set_up(book::Problem& p, int systems, int rows, bool contiguous) {
    Lines<T> s{.systems = systems, .rows = rows};
    const size_t count = size_t(systems) * rows;
    const uint64_t seed = p.seed();
    s.lower = p.input<T>(count, [=] __device__(size_t i) {
        const int row = int(contiguous ? i % rows : i / systems);
        return row == 0 ? T(0) : T(-0.5 - 0.5 * book::uniform01(seed, 101, i));
    });
    s.upper = p.input<T>(count, [=] __device__(size_t i) {
        const int row = int(contiguous ? i % rows : i / systems);
        return row == rows - 1 ? T(0) : T(-0.5 - 0.5 * book::uniform01(seed, 102, i));
    });
    s.diagonal = p.uniform<T>(count, 2.2, 3.0);
    s.right = p.uniform<T>(count, 0.5, 1.5);
    s.x = p.output<T>(count);
    s.ratio = p.output<T>(count);
    const double flop = 9.0 * count;
    p.needs({.dram_bytes = 5.0 * sizeof(T) * count,
             .fp32_flop = sizeof(T) == 4 ? flop : 0,
             .fp64_flop = sizeof(T) == 8 ? flop : 0});
    p.check<T>(s.x, count, {sizeof(T) == 4 ? 1e-4 : 1e-11}, [=](T* expected) {
        double* work = nullptr;
        BOOK_CHECK(cudaMalloc(&work, 2 * count * sizeof(double)));
        const size_t row_stride = contiguous ? 1 : systems, system_stride = contiguous ? rows : 1;
        reference_solve<<<(systems + 63) / 64, 64>>>(s, row_stride, system_stride, work, expected);
        BOOK_CHECK(cudaDeviceSynchronize());
        BOOK_CHECK(cudaFree(work));
    });
    return s;
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("rows_f32", [](book::Problem& p) {
        const auto s = set_up<float>(p, 63360, kRows, true);
        p.variant("walk", [=] { walk(s); });
        p.variant("staged_32", [=] { staged_32(s); });
        p.variant("staged_33", [=] { staged_33(s); });
        p.variant("staged_34", [=] { staged_34(s); });
        p.variant("staged_quarters", [=] { staged_quarters(s); });
    });
    book.problem("planes_f32", [](book::Problem& p) {
        const auto s = set_up<float>(p, 1 << 16, 128, false);
        p.variant("march", [=] { march(s); });
        p.variant("march_ahead", [=] { march_ahead(s); });
        p.variant("twisted_ahead", [=] { twisted_ahead(s); });
    });
    book.problem("long_f64", [](book::Problem& p) {
        const auto s = set_up<double>(p, 4096, 1024, false);
        p.variant("march_ahead", [=] { march_ahead(s); });
        p.variant("twisted_ahead", [=] { twisted_ahead(s); });
    });
    book.problem("levels_f32", [](book::Problem& p) {
        const auto s = set_up<float>(p, 400000, kLevels, true);
        p.variant("column_per_warp", [=] { column_per_warp(s); });
        p.variant("columns_per_warp", [=] { columns_per_warp(s); });
    });
    return book.finish();
}
