// Matrix times vector, by rows (A x) and by columns (A^T x); A is row-major.
#include "../../harness/book.h"

//: shared
struct Data {
    int rows, columns;
    const float* a;
    const float* x;  // vectors of `columns` entries, one after the other
    const float* r;  // `rows` entries
    float* y;        // vectors of `rows` entries
    float* s;        // `columns` entries, zero at the start
    float* partial;
    const book::Problem* problem;
};

struct DataF64 {
    int rows, columns;
    const double* a;
    const double* x;
    double* y;
};

template <class T>
__device__ inline T warp_sum(T value) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(~0u, value, step);
    return value;
}

// y_v = A x_v for kVectors vectors: one row a warp, kWarps warps a block.
template <int kVectors, int kWarps, int kUnroll>
__global__ __launch_bounds__(32 * kWarps, kWarps == 8 && kUnroll == 1 ? 8 : 1) void rows_times(
    const float* __restrict__ a, const float* __restrict__ x,
                           float* __restrict__ y, int rows, int columns) {
    const int row = blockIdx.x * kWarps + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    const float* line = a + size_t(row) * columns;
    float sum[kVectors] = {};
#pragma unroll kUnroll
    for (int c = 4 * lane; c < columns; c += 128) {
        const float4 u = *reinterpret_cast<const float4*>(line + c);
#pragma unroll
        for (int v = 0; v < kVectors; ++v) {
            const float4 w = *reinterpret_cast<const float4*>(x + v * columns + c);
            sum[v] += u.x * w.x + u.y * w.y + u.z * w.z + u.w * w.w;
        }
    }
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
        sum[v] = warp_sum(sum[v]);
        if (lane == 0) y[size_t(v) * rows + row] = sum[v];
    }
}

// s += A^T r: one column a thread, the rows of slice blockIdx.y.
__global__ void columns_times(const float* __restrict__ a, const float* __restrict__ r,
                              float* __restrict__ s, int rows, int columns) {
    const int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= columns) return;
    const int count = rows / gridDim.y, first = blockIdx.y * count;
    float sum = 0;
#pragma unroll 8
    for (int row = first; row < first + count; ++row) sum += a[size_t(row) * columns + column] * r[row];
    atomicAdd(s + column, sum);
}
//: end

//: variant each_block_32
void each_block_32(const Data& d) {
    for (int v = 0; v < 4; ++v) {
        rows_times<1, 1, 1><<<d.rows, 32>>>(d.a, d.x + size_t(v) * d.columns, d.y + size_t(v) * d.rows,
                                         d.rows, d.columns);
        d.problem->launched(v);
    }
}
//: end

//: variant each_block_256
void each_block_256(const Data& d) {
    for (int v = 0; v < 4; ++v) {
        rows_times<1, 8, 1><<<(d.rows + 7) / 8, 256>>>(d.a, d.x + size_t(v) * d.columns,
                                                    d.y + size_t(v) * d.rows, d.rows, d.columns);
        d.problem->launched(v);
    }
}
//: end

//: variant four_block_32
void four_block_32(const Data& d) {
    rows_times<4, 1, 1><<<d.rows, 32>>>(d.a, d.x, d.y, d.rows, d.columns);
}
//: end

//: variant four_block_256
void four_block_256(const Data& d) {
    rows_times<4, 8, 1><<<(d.rows + 7) / 8, 256>>>(d.a, d.x, d.y, d.rows, d.columns);
}
//: end

//: variant block_32
void block_32(const Data& d) {
    rows_times<1, 1, 4><<<d.rows, 32>>>(d.a, d.x, d.y, d.rows, d.columns);
}
//: end

//: variant block_256
void block_256(const Data& d) {
    rows_times<1, 8, 4><<<(d.rows + 7) / 8, 256>>>(d.a, d.x, d.y, d.rows, d.columns);
}
//: end

//: variant two_kernels
__global__ void columns_times_quads(const float* __restrict__ a, const float* __restrict__ r,
                                    float* __restrict__ s, int rows, int columns) {
    const int column = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    const int count = rows / gridDim.y, first = blockIdx.y * count;
    float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll 8
    for (int row = first; row < first + count; ++row) {
        const float4 u = *reinterpret_cast<const float4*>(a + size_t(row) * columns + column);
        const float w = r[row];
        sum.x += u.x * w;
        sum.y += u.y * w;
        sum.z += u.z * w;
        sum.w += u.w * w;
    }
    atomicAdd(s + column, sum.x);
    atomicAdd(s + column + 1, sum.y);
    atomicAdd(s + column + 2, sum.z);
    atomicAdd(s + column + 3, sum.w);
}

// y = A x and s = A^T r, as a step of BiCG needs them.
void two_kernels(const Data& d) {
    rows_times<1, 8, 4><<<(d.rows + 7) / 8, 256>>>(d.a, d.x, d.y, d.rows, d.columns);
    columns_times_quads<<<dim3(d.columns / 1024, 128), 256>>>(d.a, d.r, d.s, d.rows, d.columns);
}
//: end

//: variant one_kernel
// 2048 columns: a thread has 8 of them, and goes through the rows of its block 8 at a time.
__global__ __launch_bounds__(256) void rows_and_columns(const float* __restrict__ a,
                                                        const float* __restrict__ x,
                                                        const float* __restrict__ r,
                                                        float* __restrict__ y, float* __restrict__ s,
                                                        int rows) {
    constexpr int kColumns = 2048, kRows = 8;
    __shared__ float dots[8][kRows];
    const int t = threadIdx.x, lane = t % 32, warp = t / 32;
    const float4 x0 = *reinterpret_cast<const float4*>(x + 4 * t);
    const float4 x1 = *reinterpret_cast<const float4*>(x + 1024 + 4 * t);
    float sum[8] = {};
    const int count = rows / gridDim.x, first = blockIdx.x * count;
    for (int row = first; row < first + count; row += kRows) {
        float4 u[kRows], v[kRows];
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
            u[i] = *reinterpret_cast<const float4*>(a + size_t(row + i) * kColumns + 4 * t);
            v[i] = *reinterpret_cast<const float4*>(a + size_t(row + i) * kColumns + 1024 + 4 * t);
        }
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
            const float w = r[row + i];
            sum[0] += u[i].x * w, sum[1] += u[i].y * w, sum[2] += u[i].z * w, sum[3] += u[i].w * w;
            sum[4] += v[i].x * w, sum[5] += v[i].y * w, sum[6] += v[i].z * w, sum[7] += v[i].w * w;
            const float dot = warp_sum(u[i].x * x0.x + u[i].y * x0.y + u[i].z * x0.z + u[i].w * x0.w +
                                       v[i].x * x1.x + v[i].y * x1.y + v[i].z * x1.z + v[i].w * x1.w);
            if (lane == 0) dots[warp][i] = dot;
        }
        __syncthreads();
        if (t < kRows) {
            float total = 0;
            for (int other = 0; other < 8; ++other) total += dots[other][t];
            y[row + t] = total;
        }
        __syncthreads();
    }
    __shared__ __align__(16) float total[kColumns];
    *reinterpret_cast<float4*>(total + 4 * t) = make_float4(sum[0], sum[1], sum[2], sum[3]);
    *reinterpret_cast<float4*>(total + 1024 + 4 * t) = make_float4(sum[4], sum[5], sum[6], sum[7]);
    __syncthreads();
    for (int column = t; column < kColumns; column += 256) atomicAdd(s + column, total[column]);
}

// y = A x and s = A^T r, as a step of BiCG needs them.
void one_kernel(const Data& d) {
    rows_and_columns<<<512, 256>>>(d.a, d.x, d.r, d.y, d.s, d.rows);
}
//: end

//: variant column_threads
void column_threads(const Data& d) {
    columns_times<<<dim3((d.columns + 255) / 256, 1), 256>>>(d.a, d.r, d.s, d.rows, d.columns);
}
//: end

//: variant column_slices_16
void column_slices_16(const Data& d) {
    columns_times<<<dim3((d.columns + 255) / 256, 16), 256>>>(d.a, d.r, d.s, d.rows, d.columns);
}
//: end

//: variant column_slices
void column_slices(const Data& d) {
    columns_times<<<dim3((d.columns + 255) / 256, 64), 256>>>(d.a, d.r, d.s, d.rows, d.columns);
}
//: end

//: variant column_slices_stored
__global__ void columns_times_stored(const float* __restrict__ a, const float* __restrict__ r,
                                     float* __restrict__ partial, int rows, int columns) {
    const int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= columns) return;
    const int count = rows / gridDim.y, first = blockIdx.y * count;
    float sum = 0;
#pragma unroll 8
    for (int row = first; row < first + count; ++row) sum += a[size_t(row) * columns + column] * r[row];
    partial[size_t(blockIdx.y) * columns + column] = sum;
}

__global__ void add_slices(const float* __restrict__ partial, float* __restrict__ s, int columns,
                           int slices) {
    const int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= columns) return;
    float sum = 0;
#pragma unroll 16
    for (int i = 0; i < slices; ++i) sum += partial[size_t(i) * columns + column];
    s[column] = sum;
}

void column_slices_stored(const Data& d) {
    columns_times_stored<<<dim3((d.columns + 255) / 256, 64), 256>>>(d.a, d.r, d.partial, d.rows,
                                                                     d.columns);
    add_slices<<<(d.columns + 63) / 64, 64>>>(d.partial, d.s, d.columns, 64);
}
//: end

//: variant doubles
__global__ void rows_times_doubles(const double* __restrict__ a, const double* __restrict__ x,
                                   double* __restrict__ y, int rows, int columns) {
    const int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    const double* line = a + size_t(row) * columns;
    double sum = 0;
#pragma unroll 8
    for (int c = lane; c < columns; c += 32) sum += line[c] * x[c];
    sum = warp_sum(sum);
    if (lane == 0) y[row] = sum;
}

void doubles(const DataF64& d) {
    rows_times_doubles<<<(d.rows + 3) / 4, 128>>>(d.a, d.x, d.y, d.rows, d.columns);
}
//: end

//: variant double_pairs
__global__ void rows_times_pairs(const double* __restrict__ a, const double* __restrict__ x,
                                 double* __restrict__ y, int rows, int columns) {
    const int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    const double* line = a + size_t(row) * columns;
    double sum = 0;
#pragma unroll 4
    for (int c = 2 * lane; c < columns; c += 64) {
        const double2 u = *reinterpret_cast<const double2*>(line + c);
        const double2 w = *reinterpret_cast<const double2*>(x + c);
        sum += u.x * w.x + u.y * w.y;
    }
    sum = warp_sum(sum);
    if (lane == 0) y[row] = sum;
}

void double_pairs(const DataF64& d) {
    rows_times_pairs<<<(d.rows + 3) / 4, 128>>>(d.a, d.x, d.y, d.rows, d.columns);
}
//: end

// One block a row.
template <class T>
__global__ void reference_rows(const T* a, const T* x, T* expected, int columns) {
    __shared__ double parts[128];
    double sum = 0;
    for (int c = threadIdx.x; c < columns; c += 128)
        sum += double(a[size_t(blockIdx.x) * columns + c]) * double(x[c]);
    parts[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int i = 1; i < 128; ++i) sum += parts[i];
        expected[blockIdx.x] = T(sum);
    }
}

// One block a column chunk of 32, 32 threads in y share the rows.
static __global__ void reference_columns(const float* a, const float* r, float* expected, int rows,
                                         int columns) {
    __shared__ double parts[32][33];
    const int column = blockIdx.x * 32 + threadIdx.x;
    double sum = 0;
    for (int row = threadIdx.y; row < rows; row += 32)
        sum += double(a[size_t(row) * columns + column]) * double(r[row]);
    parts[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0) {
        for (int i = 1; i < 32; ++i) sum += parts[i][threadIdx.x];
        expected[column] = float(sum);
    }
}

using Work = void (*)(const Data&);

// `vectors` products by rows (0: none), and the product by columns if `transposed`.
void problem_of(book::Book& book, const char* name, int rows, int columns, int vectors, bool transposed,
                std::vector<std::pair<const char*, Work>> variants) {
    book.problem(name, [=](book::Problem& p) {
        Data d{rows, columns};
        const size_t count = size_t(rows) * columns;
        d.a = p.uniform<float>(count, -1, 1);
        d.x = p.uniform<float>(size_t(columns) * std::max(vectors, 1), -1, 1);
        d.r = p.uniform<float>(rows, -1, 1);
        d.y = p.output<float>(size_t(rows) * std::max(vectors, 1));
        d.s = p.zeroed<float>(columns);
        d.partial = p.output<float>(size_t(64) * columns);
        d.problem = &p;
        const int products = vectors + (transposed ? 1 : 0);
        p.needs({.dram_bytes = 4.0 * (count + double(products) * (rows + columns)),
                 .fp32_flop = 2.0 * products * count});
        if (vectors > 0) {
            p.check<float>(d.y, size_t(rows) * vectors, {1e-4, 1e-3}, [=](float* expected) {
                for (int v = 0; v < vectors; ++v)
                    reference_rows<float><<<rows, 128>>>(d.a, d.x + size_t(v) * columns,
                                                         expected + size_t(v) * rows, columns);
            });
        }
        if (transposed) {
            p.check<float>(d.s, columns, {1e-4, 5e-3}, [=](float* expected) {
                reference_columns<<<columns / 32, dim3(32, 32)>>>(d.a, d.r, expected, rows, columns);
            });
        }
        for (const auto& [variant, work] : variants) {
            p.variant(variant, [=, w = work] { w(d); });
        }
    });
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    problem_of(book, "f32_short_rows", 262144, 128, 4, false,
               {{"each_block_32", each_block_32},
                {"each_block_256", each_block_256},
                {"four_block_32", four_block_32},
                {"four_block_256", four_block_256}});
    problem_of(book, "f32_long_rows", 16384, 2048, 1, false,
               {{"block_32", block_32}, {"block_256", block_256}});
    problem_of(book, "f32_both_ways", 16384, 2048, 1, true,
               {{"two_kernels", two_kernels}, {"one_kernel", one_kernel}});
    problem_of(book, "f32_columns", 8192, 4096, 0, true,
               {{"column_threads", column_threads},
                {"column_slices", column_slices},
                {"column_slices_stored", column_slices_stored}});
    problem_of(book, "f32_columns_2560", 16384, 2560, 0, true,
               {{"column_slices_16", column_slices_16}, {"column_slices", column_slices}});
    book.problem("f64_rows", [](book::Problem& p) {
        const int rows = 8192, columns = 2048;
        DataF64 d{rows, columns};
        d.a = p.uniform<double>(size_t(rows) * columns, -1, 1);
        d.x = p.uniform<double>(columns, -1, 1);
        d.y = p.output<double>(rows);
        p.needs({.dram_bytes = 8.0 * (double(rows) * columns + rows + columns),
                 .fp64_flop = 2.0 * rows * columns});
        p.check<double>(d.y, rows, {1e-11, 1e-10}, [=](double* expected) {
            reference_rows<double><<<rows, 128>>>(d.a, d.x, expected, columns);
        });
        p.variant("doubles", [=] { doubles(d); });
        p.variant("double_pairs", [=] { double_pairs(d); });
    });
    return book.finish();
}
