// Sums of the columns of row-major matrices.
#include "../../harness/book.h"

template <class T>
struct Matrix {
    int rows, columns;
    const T* in;
    float* out;   // zero at the start
    int* stop;    // zero: nobody asks to stop
};

//: shared
// A thread adds up its column over the rows of its block's stretch.
template <int kThreads>
__global__ void __launch_bounds__(kThreads)
    add_stretches(const float* in, float* out, int columns, int rows_a_block) {
    const int column = blockIdx.x * kThreads + threadIdx.x;
    const float* own = in + blockIdx.y * size_t(rows_a_block) * columns + column;
    float sum = 0;
#pragma unroll 4
    for (int r = 0; r < rows_a_block; ++r) sum += own[size_t(r) * columns];
    atomicAdd(&out[column], sum);
}
//: end

//: variant stretches_of_256
void stretches_of_256(const Matrix<float>& d) {
    constexpr int kThreads = 256;
    const int rows_a_block = 256;
    add_stretches<kThreads><<<dim3(d.columns / kThreads, d.rows / rows_a_block), kThreads>>>(
        d.in, d.out, d.columns, rows_a_block);
}
//: end

//: variant stretches_of_64
void stretches_of_64(const Matrix<float>& d) {
    constexpr int kThreads = 256;
    const int rows_a_block = 64;
    add_stretches<kThreads><<<dim3(d.columns / kThreads, d.rows / rows_a_block), kThreads>>>(
        d.in, d.out, d.columns, rows_a_block);
}
//: end

//: variant warps_of_64
void warps_of_64(const Matrix<float>& d) {
    constexpr int kThreads = 32;
    const int rows_a_block = 64;
    add_stretches<kThreads><<<dim3(d.columns / kThreads, d.rows / rows_a_block), kThreads>>>(
        d.in, d.out, d.columns, rows_a_block);
}
//: end

//: variant column_per_block
__global__ void __launch_bounds__(256) add_column(const float* in, float* out, int rows, int columns) {
    __shared__ float parts[8];
    const int column = blockIdx.x;
    float sum = 0;
#pragma unroll 4
    for (int r = threadIdx.x; r < rows; r += 256) sum += in[size_t(r) * columns + column];
    for (int lane = 16; lane > 0; lane /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lane);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        sum = 0;
        for (int k = 0; k < 8; ++k) sum += parts[k];
        out[column] = sum;
    }
}

void column_per_block(const Matrix<float>& d) {
    add_column<<<d.columns, 256>>>(d.in, d.out, d.rows, d.columns);
}
//: end

//: variant ask_every_row
__global__ void __launch_bounds__(256)
    add_asking(const float* in, float* out, int columns, int rows_a_block, const volatile int* stop) {
    const int column = blockIdx.x * 256 + threadIdx.x;
    const float* own = in + blockIdx.y * size_t(rows_a_block) * columns + column;
    float sum = 0;
    for (int r = 0; r < rows_a_block; ++r) {
        if (*stop) return;
        sum += own[size_t(r) * columns];
    }
    atomicAdd(&out[column], sum);
}

void ask_every_row(const Matrix<float>& d) {
    const int rows_a_block = 64;
    add_asking<<<dim3(d.columns / 256, d.rows / rows_a_block), 256>>>(d.in, d.out, d.columns,
                                                                      rows_a_block, d.stop);
}
//: end

//: variant ask_once
__global__ void __launch_bounds__(256)
    add_asked(const float* in, float* out, int columns, int rows_a_block, const volatile int* stop) {
    const int column = blockIdx.x * 256 + threadIdx.x;
    const float* own = in + blockIdx.y * size_t(rows_a_block) * columns + column;
    float sum = 0;
    if (*stop) return;
#pragma unroll 4
    for (int r = 0; r < rows_a_block; ++r) {
        sum += own[size_t(r) * columns];
    }
    atomicAdd(&out[column], sum);
}

void ask_once(const Matrix<float>& d) {
    const int rows_a_block = 64;
    add_asked<<<dim3(d.columns / 256, d.rows / rows_a_block), 256>>>(d.in, d.out, d.columns,
                                                                     rows_a_block, d.stop);
}
//: end

//: shared
// A thread adds up one column of halves.
__global__ void __launch_bounds__(256)
    add_halves(const __half* in, float* out, int columns, int rows_a_block) {
    const int column = blockIdx.x * 256 + threadIdx.x;
    const __half* own = in + blockIdx.y * size_t(rows_a_block) * columns + column;
    float sum = 0;
#pragma unroll 4
    for (int r = 0; r < rows_a_block; ++r) sum += __half2float(own[size_t(r) * columns]);
    atomicAdd(&out[column], sum);
}

// A thread adds up four neighbouring columns of halves.
__global__ void __launch_bounds__(256)
    add_quads(const uint2* in, float* out, int quads, int rows_a_block) {
    const int quad = blockIdx.x * 256 + threadIdx.x;
    const uint2* own = in + blockIdx.y * size_t(rows_a_block) * quads + quad;
    float4 sum = {0, 0, 0, 0};
#pragma unroll 4
    for (int r = 0; r < rows_a_block; ++r) {
        uint2 bits = own[size_t(r) * quads];
        const float2 low = __half22float2(*reinterpret_cast<__half2*>(&bits.x));
        const float2 high = __half22float2(*reinterpret_cast<__half2*>(&bits.y));
        sum.x += low.x;
        sum.y += low.y;
        sum.z += high.x;
        sum.w += high.y;
    }
    atomicAdd(reinterpret_cast<float4*>(out) + quad, sum);
}
//: end

//: variant halves_64
void halves_64(const Matrix<__half>& d) {
    const int blocks = 64, across = d.columns / 256, down = blocks / across;
    add_halves<<<dim3(across, down), 256>>>(d.in, d.out, d.columns, d.rows / down);
}
//: end

//: variant halves_1024
void halves_1024(const Matrix<__half>& d) {
    const int blocks = 1024, across = d.columns / 256, down = blocks / across;
    add_halves<<<dim3(across, down), 256>>>(d.in, d.out, d.columns, d.rows / down);
}
//: end

//: variant quads_64
void quads_64(const Matrix<__half>& d) {
    const int blocks = 64, across = d.columns / 1024, down = blocks / across;
    add_quads<<<dim3(across, down), 256>>>(reinterpret_cast<const uint2*>(d.in), d.out, d.columns / 4,
                                           d.rows / down);
}
//: end

//: variant quads_1024
void quads_1024(const Matrix<__half>& d) {
    const int blocks = 1024, across = d.columns / 1024, down = blocks / across;
    add_quads<<<dim3(across, down), 256>>>(reinterpret_cast<const uint2*>(d.in), d.out, d.columns / 4,
                                           d.rows / down);
}
//: end

//: variant after_each_tile
__global__ void __launch_bounds__(256) add_tiles(const float* in, float* out, int tiles) {
    const int column = threadIdx.x;
#pragma unroll 1
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const float* own = in + tile * size_t{4 * 256} + column;
        float sum = 0;
#pragma unroll
        for (int r = 0; r < 4; ++r) sum += own[r * 256];
        atomicAdd(&out[column], sum);
    }
}

void after_each_tile(const Matrix<float>& d) { add_tiles<<<132 * 8, 256>>>(d.in, d.out, d.rows / 4); }
//: end

//: variant after_seven_tiles
__global__ void __launch_bounds__(256) add_some_tiles(const float* in, float* out, int tiles) {
    const int column = threadIdx.x;
    float sum = 0;
    int added = 0;
#pragma unroll 1
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const float* own = in + tile * size_t{4 * 256} + column;
#pragma unroll
        for (int r = 0; r < 4; ++r) sum += own[r * 256];
        if (++added % 7 == 0) {
            atomicAdd(&out[column], sum);
            sum = 0;
        }
    }
    atomicAdd(&out[column], sum);
}

void after_seven_tiles(const Matrix<float>& d) {
    add_some_tiles<<<132 * 8, 256>>>(d.in, d.out, d.rows / 4);
}
//: end

//: variant after_all_tiles
__global__ void __launch_bounds__(256) add_all_tiles(const float* in, float* out, int tiles) {
    const int column = threadIdx.x;
    float sum = 0;
#pragma unroll 1
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const float* own = in + tile * size_t{4 * 256} + column;
#pragma unroll
        for (int r = 0; r < 4; ++r) sum += own[r * 256];
    }
    atomicAdd(&out[column], sum);
}

void after_all_tiles(const Matrix<float>& d) {
    add_all_tiles<<<132 * 8, 256>>>(d.in, d.out, d.rows / 4);
}
//: end

//: shared
// 32 x 32 threads take 32 columns of a stretch of rows; the 32 sums of a column meet in shared memory.
template <int kPitch>
__global__ void __launch_bounds__(1024) add_across(const float* in, float* out, int columns, int stretch) {
    __shared__ float parts[32][kPitch];
    const int x = threadIdx.x, y = threadIdx.y;
    const float* own = in + (blockIdx.y * size_t(stretch) + y) * columns + blockIdx.x * 32 + x;
    float sum = 0;
#pragma unroll 4
    for (int r = 0; r < stretch; r += 32) sum += own[size_t(r) * columns];
    parts[x][y] = sum;
    __syncthreads();
    sum = parts[y][x];
    for (int lane = 16; lane > 0; lane /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lane);
    if (x == 0) atomicAdd(&out[blockIdx.x * 32 + y], sum);
}
//: end

//: variant across_32
void across_32(const Matrix<float>& d) {
    constexpr int kPitch = 32, kStretch = 2048;
    add_across<kPitch><<<dim3(d.columns / 32, d.rows / kStretch), dim3(32, 32)>>>(d.in, d.out, d.columns,
                                                                                  kStretch);
}
//: end

//: variant across_33
void across_33(const Matrix<float>& d) {
    constexpr int kPitch = 33, kStretch = 2048;
    add_across<kPitch><<<dim3(d.columns / 32, d.rows / kStretch), dim3(32, 32)>>>(d.in, d.out, d.columns,
                                                                                  kStretch);
}
//: end

template <class T>
__global__ void reference_add(const T* in, double* sums, int rows, int columns) {
    const int column = blockIdx.x * blockDim.x + threadIdx.x;
    double sum = 0;
    for (int r = blockIdx.y; r < rows; r += gridDim.y) sum += book::as_double(in[size_t(r) * columns + column]);
    atomicAdd(&sums[column], sum);
}
__global__ void reference_round(const double* sums, float* expected) {
    const int column = blockIdx.x * blockDim.x + threadIdx.x;
    expected[column] = float(sums[column]);
}

template <class T>
Matrix<T> matrix_of(book::Problem& p, int rows, int columns) {
    Matrix<T> d{rows, columns};
    d.in = p.uniform<T>(size_t(rows) * columns, 0, 1);
    d.out = p.zeroed<float>(columns);
    d.stop = p.zeroed<int>(1);
    double* sums = p.zeroed<double>(columns);
    p.needs({.dram_bytes = double(sizeof(T)) * rows * columns + 4.0 * columns,
             .fp32_flop = 1.0 * rows * columns});
    p.check<float>(d.out, columns, {1e-4}, [=](float* expected) {
        BOOK_CHECK(cudaMemset(sums, 0, columns * sizeof(double)));
        reference_add<T><<<dim3(columns / 128, 64), 128>>>(d.in, sums, rows, columns);
        reference_round<<<columns / 128, 128>>>(sums, expected);
    });
    return d;
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("f32_4096x8192", [](book::Problem& p) {
        const auto d = matrix_of<float>(p, 4096, 8192);
        p.variant("stretches_of_256", [=] { stretches_of_256(d); });
        p.variant("stretches_of_64", [=] { stretches_of_64(d); });
        p.variant("warps_of_64", [=] { warps_of_64(d); });
        p.variant("column_per_block", [=] { column_per_block(d); });
        p.variant("ask_every_row", [=] { ask_every_row(d); });
        p.variant("ask_once", [=] { ask_once(d); });
    });
    book.problem("f16_16384x4096", [](book::Problem& p) {
        const auto d = matrix_of<__half>(p, 16384, 4096);
        p.variant("halves_64", [=] { halves_64(d); });
        p.variant("halves_1024", [=] { halves_1024(d); });
        p.variant("quads_64", [=] { quads_64(d); });
        p.variant("quads_1024", [=] { quads_1024(d); });
    });
    book.problem("f32_131072x256", [](book::Problem& p) {
        const auto d = matrix_of<float>(p, 131072, 256);
        p.variant("after_each_tile", [=] { after_each_tile(d); });
        p.variant("after_seven_tiles", [=] { after_seven_tiles(d); });
        p.variant("after_all_tiles", [=] { after_all_tiles(d); });
        p.variant("across_32", [=] { across_32(d); });
        p.variant("across_33", [=] { across_33(d); });
    });
    return book.finish();
}
