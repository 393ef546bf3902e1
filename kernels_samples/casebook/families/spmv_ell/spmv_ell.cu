// Products with a sparse matrix in ELLPACK form: every row has room for `width` entries;
// what a row leaves empty has column -1 and value 0.
#include "../../harness/book.h"

template <class T>
struct Data {
    int rows, width, sides, sweeps;
    const int* column;      // entry k of row r at [k * rows + r]
    const T* value;
    const int* row_column;  // the same entries at [r * width + k]
    const T* row_value;
    const int2* tagged;     // column and material, as `column`
    const T* host_value;    // value, in memory of the host
    T* device_value;        // room for a copy of it
    const T* x;             // rows x sides
    const T* b;
    T* y;
    T* between;             // 2 x rows
};

//: shared
constexpr int kBlock = 128;

// One thread a row, BATCH entries at a time.
template <class T, int BATCH>
__global__ void __launch_bounds__(kBlock, 4)
    ell_batched(const int* __restrict__ column, const T* __restrict__ value, const T* __restrict__ x,
                T* __restrict__ y, int rows, int width) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    T sum = 0;
    for (int k = 0; k < width; k += BATCH) {
        int c[BATCH];
        T a[BATCH], v[BATCH];
#pragma unroll
        for (int i = 0; i < BATCH; ++i) {
            c[i] = column[size_t(k + i) * rows + row];
            a[i] = value[size_t(k + i) * rows + row];
        }
#pragma unroll
        for (int i = 0; i < BATCH; ++i) v[i] = x[max(c[i], 0)];
#pragma unroll
        for (int i = 0; i < BATCH; ++i) sum += a[i] * v[i];
    }
    y[row] = sum;
}
//: end

//: variant by_rows
template <class T>
__global__ void __launch_bounds__(kBlock, 4)
    ell_by_rows(const int* __restrict__ column, const T* __restrict__ value, const T* __restrict__ x,
                T* __restrict__ y, int rows, int width) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    T sum = 0;
    for (int k = 0; k < width; k += 8) {
        int c[8];
        T a[8], v[8];
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            c[i] = column[size_t(row) * width + k + i];
            a[i] = value[size_t(row) * width + k + i];
        }
#pragma unroll
        for (int i = 0; i < 8; ++i) v[i] = x[max(c[i], 0)];
#pragma unroll
        for (int i = 0; i < 8; ++i) sum += a[i] * v[i];
    }
    y[row] = sum;
}

template <class T>
void by_rows(const Data<T>& d) {
    ell_by_rows<<<(d.rows + kBlock - 1) / kBlock, kBlock>>>(d.row_column, d.row_value, d.x, d.y, d.rows,
                                                            d.width);
}
//: end

//: variant tagged8
template <class T>
__global__ void __launch_bounds__(kBlock, 4)
    ell_tagged(const int2* __restrict__ tagged, const T* __restrict__ value, const T* __restrict__ x,
               T* __restrict__ y, int rows, int width) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    T sum = 0;
    for (int k = 0; k < width; k += 8) {
        int c[8];
        T a[8], v[8];
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            c[i] = tagged[size_t(k + i) * rows + row].x;
            a[i] = value[size_t(k + i) * rows + row];
        }
#pragma unroll
        for (int i = 0; i < 8; ++i) v[i] = x[max(c[i], 0)];
#pragma unroll
        for (int i = 0; i < 8; ++i) sum += a[i] * v[i];
    }
    y[row] = sum;
}

template <class T>
void tagged8(const Data<T>& d) {
    ell_tagged<<<(d.rows + kBlock - 1) / kBlock, kBlock>>>(d.tagged, d.value, d.x, d.y, d.rows, d.width);
}
//: end

//: variant to_sentinel
template <class T>
__global__ void __launch_bounds__(kBlock, 4)
    ell_to_sentinel(const int* __restrict__ column, const T* __restrict__ value,
                    const T* __restrict__ x, T* __restrict__ y, int rows, int width) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    T sum = 0;
    for (int k = 0; k < width; ++k) {
        const int c = column[size_t(k) * rows + row];
        if (c < 0) break;
        sum += value[size_t(k) * rows + row] * x[c];
    }
    y[row] = sum;
}

template <class T>
void to_sentinel(const Data<T>& d) {
    ell_to_sentinel<<<(d.rows + kBlock - 1) / kBlock, kBlock>>>(d.column, d.value, d.x, d.y, d.rows,
                                                                d.width);
}
//: end

//: variant batched8
template <class T>
void batched8(const Data<T>& d) {
    ell_batched<T, 8><<<(d.rows + kBlock - 1) / kBlock, kBlock>>>(d.column, d.value, d.x, d.y, d.rows,
                                                                  d.width);
}
//: end

//: variant batched32
template <class T>
void batched32(const Data<T>& d) {
    ell_batched<T, 32><<<(d.rows + kBlock - 1) / kBlock, kBlock>>>(d.column, d.value, d.x, d.y, d.rows,
                                                                   d.width);
}
//: end

// --- several right-hand sides

//: variant sentinel_each
template <class T>
__global__ void __launch_bounds__(kBlock, 4)
    ell_sentinel_each(const int* __restrict__ column, const T* __restrict__ value,
                      const T* __restrict__ x, T* __restrict__ y, int rows, int width) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    for (int side = 0; side < 4; ++side) {
        T sum = 0;
        for (int k = 0; k < width; ++k) {
            const int c = column[size_t(k) * rows + row];
            if (c < 0) break;
            sum += value[size_t(k) * rows + row] * x[side * size_t(rows) + c];
        }
        y[side * size_t(rows) + row] = sum;
    }
}

template <class T>
void sentinel_each(const Data<T>& d) {
    ell_sentinel_each<<<(d.rows + kBlock - 1) / kBlock, kBlock>>>(d.column, d.value, d.x, d.y, d.rows,
                                                                  d.width);
}
//: end

//: variant sentinel_together
template <class T>
__global__ void __launch_bounds__(kBlock, 4)
    ell_sentinel_together(const int* __restrict__ column, const T* __restrict__ value,
                          const T* __restrict__ x, T* __restrict__ y, int rows, int width) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    T sum[4] = {};
    for (int k = 0; k < width; ++k) {
        const int c = column[size_t(k) * rows + row];
        if (c < 0) break;
        const T a = value[size_t(k) * rows + row];
#pragma unroll
        for (int side = 0; side < 4; ++side) sum[side] += a * x[side * size_t(rows) + c];
    }
#pragma unroll
    for (int side = 0; side < 4; ++side) y[side * size_t(rows) + row] = sum[side];
}

template <class T>
void sentinel_together(const Data<T>& d) {
    ell_sentinel_together<<<(d.rows + kBlock - 1) / kBlock, kBlock>>>(d.column, d.value, d.x, d.y,
                                                                      d.rows, d.width);
}
//: end

//: variant batched_each
template <class T>
__global__ void __launch_bounds__(kBlock, 4)
    ell_batched_each(const int* __restrict__ column, const T* __restrict__ value,
                     const T* __restrict__ x, T* __restrict__ y, int rows, int width) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    for (int side = 0; side < 4; ++side) {
        T sum = 0;
        for (int k = 0; k < width; k += 8) {
            int c[8];
            T a[8], v[8];
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                c[i] = column[size_t(k + i) * rows + row];
                a[i] = value[size_t(k + i) * rows + row];
            }
#pragma unroll
            for (int i = 0; i < 8; ++i) v[i] = x[side * size_t(rows) + max(c[i], 0)];
#pragma unroll
            for (int i = 0; i < 8; ++i) sum += a[i] * v[i];
        }
        y[side * size_t(rows) + row] = sum;
    }
}

template <class T>
void batched_each(const Data<T>& d) {
    ell_batched_each<<<(d.rows + kBlock - 1) / kBlock, kBlock>>>(d.column, d.value, d.x, d.y, d.rows,
                                                                 d.width);
}
//: end

//: variant batched_together
template <class T>
__global__ void __launch_bounds__(kBlock, 4)
    ell_batched_together(const int* __restrict__ column, const T* __restrict__ value,
                         const T* __restrict__ x, T* __restrict__ y, int rows, int width) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    T sum[4] = {};
    for (int k = 0; k < width; k += 8) {
        int c[8];
        T a[8], v[4][8];
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            c[i] = column[size_t(k + i) * rows + row];
            a[i] = value[size_t(k + i) * rows + row];
        }
#pragma unroll
        for (int side = 0; side < 4; ++side) {
#pragma unroll
            for (int i = 0; i < 8; ++i) v[side][i] = x[side * size_t(rows) + max(c[i], 0)];
        }
#pragma unroll
        for (int i = 0; i < 8; ++i) {
#pragma unroll
            for (int side = 0; side < 4; ++side) sum[side] += a[i] * v[side][i];
        }
    }
#pragma unroll
    for (int side = 0; side < 4; ++side) y[side * size_t(rows) + row] = sum[side];
}

template <class T>
void batched_together(const Data<T>& d) {
    ell_batched_together<<<(d.rows + kBlock - 1) / kBlock, kBlock>>>(d.column, d.value, d.x, d.y,
                                                                     d.rows, d.width);
}
//: end

// --- a matrix whose values the host owns: y = A A A x

//: variant mapped
template <class T>
void mapped(const Data<T>& d) {
    const int grid = (d.rows + kBlock - 1) / kBlock;
    T* const other = d.between + d.rows;
    ell_batched<T, 8><<<grid, kBlock>>>(d.column, d.host_value, d.x, d.between, d.rows, d.width);
    ell_batched<T, 8><<<grid, kBlock>>>(d.column, d.host_value, d.between, other, d.rows, d.width);
    ell_batched<T, 8><<<grid, kBlock>>>(d.column, d.host_value, other, d.y, d.rows, d.width);
}
//: end

//: variant copied
template <class T>
void copied(const Data<T>& d) {
    const int grid = (d.rows + kBlock - 1) / kBlock;
    T* const other = d.between + d.rows;
    BOOK_CHECK(cudaMemcpyAsync(d.device_value, d.host_value, sizeof(T) * d.rows * d.width,
                               cudaMemcpyHostToDevice));
    ell_batched<T, 8><<<grid, kBlock>>>(d.column, d.device_value, d.x, d.between, d.rows, d.width);
    ell_batched<T, 8><<<grid, kBlock>>>(d.column, d.device_value, d.between, other, d.rows, d.width);
    ell_batched<T, 8><<<grid, kBlock>>>(d.column, d.device_value, other, d.y, d.rows, d.width);
}
//: end

// --- sweeps of an iteration x = b + A x over a small matrix

//: variant kernel_a_sweep
template <class T>
__global__ void ell_sweep(const int* __restrict__ column, const T* __restrict__ value,
                          const T* __restrict__ b, const T* __restrict__ x, T* __restrict__ y, int rows,
                          int width) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    T sum = b[row];
    for (int k = 0; k < width; ++k) {
        const int c = column[k * rows + row];
        if (c >= 0) sum += value[k * rows + row] * x[c];
    }
    y[row] = sum;
}

template <class T>
void kernel_a_sweep(const Data<T>& d, const book::Problem* problem) {
    const T* x = d.x;
    for (int sweep = 0; sweep < d.sweeps; ++sweep) {
        T* const y = sweep + 1 == d.sweeps ? d.y : d.between + (sweep % 2) * d.rows;
        ell_sweep<<<(d.rows + kBlock - 1) / kBlock, kBlock>>>(d.column, d.value, d.b, x, y, d.rows,
                                                              d.width);
        problem->launched(sweep);
        x = y;
    }
}
//: end

//: variant block_of_sweeps
constexpr int kMostRows = 2048, kSweepWidth = 7;

template <class T>
__global__ void __launch_bounds__(1024)
    ell_all_sweeps(const int* __restrict__ column, const T* __restrict__ value,
                   const T* __restrict__ b, const T* __restrict__ x, T* __restrict__ y, int rows,
                   int sweeps) {
    __shared__ T current[2][kMostRows];
    int c[2][kSweepWidth];
    T a[2][kSweepWidth], right[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int row = threadIdx.x + i * 1024;
        right[i] = b[row];
        current[0][row] = x[row];
#pragma unroll
        for (int k = 0; k < kSweepWidth; ++k) {
            const int at = column[k * rows + row];
            c[i][k] = at < 0 ? 0 : at;
            a[i][k] = at < 0 ? T(0) : value[k * rows + row];
        }
    }
    __syncthreads();
    for (int sweep = 0; sweep < sweeps; ++sweep) {
        const T* const from = current[sweep % 2];
        T* const to = current[1 - sweep % 2];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            T sum = right[i];
#pragma unroll
            for (int k = 0; k < kSweepWidth; ++k) sum += a[i][k] * from[c[i][k]];
            to[threadIdx.x + i * 1024] = sum;
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        y[threadIdx.x + i * 1024] = current[sweeps % 2][threadIdx.x + i * 1024];
    }
}

// For exactly 2048 rows of 7 entries.
template <class T>
void block_of_sweeps(const Data<T>& d) {
    ell_all_sweeps<<<1, 1024>>>(d.column, d.value, d.b, d.x, d.y, d.rows, d.sweeps);
}
//: end

template <class T>
__global__ void reference_product(const int* column, const T* value, const double* x, const T* b,
                                  double* y, int rows, int width) {
    for (int row = blockIdx.x * blockDim.x + threadIdx.x; row < rows; row += gridDim.x * blockDim.x) {
        double sum = b ? double(b[row]) : 0.0;
        for (int k = 0; k < width; ++k) {
            const int c = column[size_t(k) * rows + row];
            if (c >= 0) sum += double(value[size_t(k) * rows + row]) * x[c];
        }
        y[row] = sum;
    }
}

template <class To, class From>
__global__ void reference_convert(const From* in, To* out, int count) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        out[i] = To(in[i]);
    }
}

// Applies the matrix `times` times to each of the right-hand sides.
template <class T>
void reference_apply(const Data<T>& d, int times, T* expected) {
    double* work = nullptr;
    BOOK_CHECK(cudaMalloc(&work, 2 * sizeof(double) * d.rows));
    for (int side = 0; side < d.sides; ++side) {
        const size_t at = side * size_t(d.rows);
        reference_convert<<<264, 256>>>(d.x + at, work, d.rows);
        for (int i = 0; i < times; ++i) {
            reference_product<<<264, 256>>>(d.column, d.value, work + (i % 2) * size_t(d.rows), d.b,
                                            work + (1 - i % 2) * size_t(d.rows), d.rows, d.width);
        }
        reference_convert<<<264, 256>>>(work + (times % 2) * size_t(d.rows), expected + at, d.rows);
    }
    BOOK_CHECK(cudaDeviceSynchronize());
    BOOK_CHECK(cudaFree(work));
}

// Entry k of sixteen neighbouring rows is at sixteen neighbouring columns; one row in twenty is one short.
struct Pattern {
    uint64_t seed;
    int rows, width, reach;
    __host__ __device__ int column(int row, int k) const {
        if (k == width - 1 && book::uniform01(seed, 71, row) < 0.05) return -1;
        const double u = book::uniform01(seed, 72 + k, row / 16) - 0.5;
        const int c = row + int(u * reach);
        return c < 0 ? c + rows : c >= rows ? c - rows : c;
    }
    __host__ __device__ double value(int row, int k) const {
        return column(row, k) < 0 ? 0.0 : book::uniform01(seed, 500 + k, row);
    }
};

enum Kind { kPlain, kTagged, kSides, kHost, kSweeps };

template <class T>
void problem_of(book::Book& book, const char* name, Kind kind, int rows, int width, int reach) {
    book.problem(name, [=](book::Problem& p) {
        Data<T> d{};
        d.rows = rows;
        d.width = width;
        d.sides = kind == kSides ? 4 : 1;
        d.sweeps = 100;
        const size_t room = size_t(rows) * width;
        const Pattern pattern{p.seed(), rows, width, reach};
        // Row sums below one where the matrix is applied again and again.
        const double scale = kind == kHost ? 1.9 / width : kind == kSweeps ? 1.0 / width : 1.0;
        d.column = p.input<int>(room, [=] __device__(size_t i) {
            return pattern.column(int(i % rows), int(i / rows));
        });
        d.value = p.input<T>(room, [=] __device__(size_t i) {
            return T(scale * pattern.value(int(i % rows), int(i / rows)));
        });
        if (kind == kPlain && sizeof(T) == 8) {
            d.row_column = p.input<int>(room, [=] __device__(size_t i) {
                return pattern.column(int(i / width), int(i % width));
            });
            d.row_value = p.input<T>(room, [=] __device__(size_t i) {
                return T(scale * pattern.value(int(i / width), int(i % width)));
            });
        }
        if (kind == kTagged) {
            d.tagged = p.input<int2>(room, [=] __device__(size_t i) {
                return int2{pattern.column(int(i % rows), int(i / rows)), int(i % 5)};
            });
        }
        if (kind == kHost) {
            T* host = p.host_mapped<T>(room);
            BOOK_CHECK(cudaMemcpy(host, d.value, sizeof(T) * room, cudaMemcpyDeviceToHost));
            d.host_value = host;
            d.device_value = p.output<T>(room);
        }
        if (kind == kSweeps) d.b = p.uniform<T>(rows, 0.5, 1);
        d.x = p.uniform<T>(size_t(rows) * d.sides, 0.1, 1);
        d.y = p.output<T>(size_t(rows) * d.sides);
        d.between = p.output<T>(2 * size_t(rows));
        const double entries = double(room) - 0.05 * rows;
        const double matrix = (4.0 + (kind == kHost ? 0.0 : sizeof(T))) * entries;
        const double flop = 2.0 * entries * d.sides * (kind == kHost ? 3 : kind == kSweeps ? 100 : 1);
        p.needs({.dram_bytes = matrix + 2.0 * sizeof(T) * rows * d.sides,
                 .fp32_flop = sizeof(T) == 4 ? flop : 0.0,
                 .fp64_flop = sizeof(T) == 8 ? flop : 0.0,
                 .link_bytes = kind == kHost ? sizeof(T) * entries : 0.0,
                 .steps = 1});
        const int times = kind == kHost ? 3 : kind == kSweeps ? 100 : 1;
        p.check<T>(d.y, size_t(rows) * d.sides, {sizeof(T) == 8 ? 1e-10 : 2e-4},
                   [=](T* expected) { reference_apply(d, times, expected); });
        auto* problem = &p;
        if (kind == kPlain && sizeof(T) == 8) {
            p.variant("by_rows", [=] { by_rows(d); });
            p.variant("batched8", [=] { batched8(d); });
        } else if (kind == kPlain) {
            p.variant("to_sentinel", [=] { to_sentinel(d); });
            p.variant("batched8", [=] { batched8(d); });
            p.variant("batched32", [=] { batched32(d); });
        } else if (kind == kTagged) {
            p.variant("tagged8", [=] { tagged8(d); });
            p.variant("batched8", [=] { batched8(d); });
        } else if (kind == kSides) {
            p.variant("sentinel_each", [=] { sentinel_each(d); });
            p.variant("sentinel_together", [=] { sentinel_together(d); });
            p.variant("batched_each", [=] { batched_each(d); });
            p.variant("batched_together", [=] { batched_together(d); });
        } else if (kind == kHost) {
            p.variant("mapped", [=] { mapped(d); });
            p.variant("copied", [=] { copied(d); });
        } else {
            p.variant("kernel_a_sweep", [=] { kernel_a_sweep(d, problem); });
            p.variant("block_of_sweeps", [=] { block_of_sweeps(d); });
        }
    });
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    problem_of<double>(book, "f64_w24", kPlain, 458752, 24, 8192);
    problem_of<double>(book, "f64_materials", kTagged, 458752, 24, 8192);
    problem_of<float>(book, "f32_w32", kPlain, 720896, 32, 8192);
    problem_of<float>(book, "few_long_rows", kSides, 65536, 256, 8192);
    problem_of<float>(book, "host_values", kHost, 327680, 32, 8192);
    problem_of<float>(book, "small", kSweeps, 2048, 7, 256);
    return book.finish();
}
