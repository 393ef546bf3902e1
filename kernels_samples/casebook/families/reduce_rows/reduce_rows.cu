// Reductions along the rows of a matrix: moments, sums, largest magnitudes, partition sums.
#include "../../harness/book.h"

template <class T>
struct Rows {
    int rows, columns;
    const T* in;
    T* out;
};

//: variant row_per_block
// Mean and second and third central moment of each row of 1,024 values.
__device__ float sum_of_block(float value, float* parts) {
    const int t = threadIdx.x;
    parts[t] = value;
    __syncthreads();
    for (int half = 512; half > 0; half /= 2) {
        if (t < half) parts[t] += parts[t + half];
        __syncthreads();
    }
    const float sum = parts[0];
    __syncthreads();
    return sum;
}

__global__ void __launch_bounds__(1024) moments_block(const float* in, float* out) {
    __shared__ float parts[1024];
    const float x = in[blockIdx.x * size_t{1024} + threadIdx.x];
    const float mean = sum_of_block(x, parts) / 1024;
    const float d = x - mean;
    const float second = sum_of_block(d * d, parts) / 1024;
    const float third = sum_of_block(d * d * d, parts) / 1024;
    if (threadIdx.x == 0) {
        out[3 * blockIdx.x] = mean;
        out[3 * blockIdx.x + 1] = second;
        out[3 * blockIdx.x + 2] = third;
    }
}

void row_per_block(const Rows<float>& d) { moments_block<<<d.rows, 1024>>>(d.in, d.out); }
//: end

//: variant row_per_warp
// Mean and second and third central moment of each row of 1,024 values.
__device__ float sum_of_warp(float value) {
    for (int lane = 16; lane > 0; lane /= 2) value += __shfl_xor_sync(0xffffffffu, value, lane);
    return value;
}

__global__ void __launch_bounds__(256) moments_warp(const float4* in, float* out, int rows) {
    const int row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    const float4* own = in + row * size_t{256};
    float4 v[8];
#pragma unroll
    for (int k = 0; k < 8; ++k) v[k] = own[k * 32 + lane];
    float sum = 0;
#pragma unroll
    for (int k = 0; k < 8; ++k) sum += v[k].x + v[k].y + v[k].z + v[k].w;
    const float mean = sum_of_warp(sum) / 1024;
    float squares = 0, cubes = 0;
    auto add = [&](float x) {
        const float d = x - mean;
        squares += d * d;
        cubes += d * d * d;
    };
#pragma unroll
    for (int k = 0; k < 8; ++k) add(v[k].x), add(v[k].y), add(v[k].z), add(v[k].w);
    squares = sum_of_warp(squares);
    cubes = sum_of_warp(cubes);
    if (lane == 0) {
        out[3 * row] = mean;
        out[3 * row + 1] = squares / 1024;
        out[3 * row + 2] = cubes / 1024;
    }
}

void row_per_warp(const Rows<float>& d) {
    moments_warp<<<(d.rows + 7) / 8, 256>>>(reinterpret_cast<const float4*>(d.in), d.out, d.rows);
}
//: end

//: shared
// The sum over a block of kThreads, valid in thread 0.
template <int kThreads>
__device__ float block_total(float value) {
    __shared__ float parts[kThreads / 32];
    for (int lane = 16; lane > 0; lane /= 2) value += __shfl_xor_sync(0xffffffffu, value, lane);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
    __syncthreads();
    value = 0;
    if (threadIdx.x == 0) {
        for (int k = 0; k < kThreads / 32; ++k) value += parts[k];
    }
    return value;
}

// The sum of `quads` float4, a multiple of 4 * kThreads.
template <int kThreads>
__device__ float stretch_total(const float4* in, int quads) {
    float sum = 0;
    for (int i = threadIdx.x; i < quads; i += 4 * kThreads) {
        float4 v[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) v[k] = in[i + k * kThreads];
#pragma unroll
        for (int k = 0; k < 4; ++k) sum += v[k].x + v[k].y + v[k].z + v[k].w;
    }
    return block_total<kThreads>(sum);
}

template <int kThreads>
__global__ void __launch_bounds__(kThreads) sum_rows(const float4* in, float* out, int quads) {
    const float sum = stretch_total<kThreads>(in + blockIdx.x * size_t(quads), quads);
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}
//: end

//: variant whole_rows_256
void whole_rows_256(const Rows<float>& d) {
    sum_rows<256><<<d.rows, 256>>>(reinterpret_cast<const float4*>(d.in), d.out, d.columns / 4);
}
//: end

//: variant whole_rows_1024
void whole_rows_1024(const Rows<float>& d) {
    sum_rows<1024><<<d.rows, 1024>>>(reinterpret_cast<const float4*>(d.in), d.out, d.columns / 4);
}
//: end

//: variant pieces_of_rows
__global__ void __launch_bounds__(256) sum_pieces(const float4* in, float* out, int quads, int piece) {
    const float4* own = in + blockIdx.y * size_t(quads) + blockIdx.x * size_t(piece);
    const float sum = stretch_total<256>(own, piece);
    if (threadIdx.x == 0) atomicAdd(&out[blockIdx.y], sum);
}

void pieces_of_rows(const Rows<float>& d) {
    const int quads = d.columns / 4, piece = 4096;
    sum_pieces<<<dim3(quads / piece, d.rows), 256>>>(reinterpret_cast<const float4*>(d.in), d.out, quads,
                                                     piece);
}
//: end

//: shared
union FourHalves {
    uint2 bits;
    __half2 pair[2];
};

// The largest magnitude of each row of 2,048 halves; a warp does a row, kBatch loads at a time.
template <int kWarps, int kBatch>
__global__ void __launch_bounds__(32 * kWarps) largest(const uint2* in, __half* out) {
    const int row = blockIdx.x * kWarps + threadIdx.x / 32, lane = threadIdx.x % 32;
    const uint2* own = in + row * size_t{512} + lane;
    __half2 most = __float2half2_rn(0.0f);
#pragma unroll 1
    for (int i = 0; i < 16; i += kBatch) {
        FourHalves v[kBatch];
#pragma unroll
        for (int k = 0; k < kBatch; ++k) v[k].bits = own[(i + k) * 32];
#pragma unroll
        for (int k = 0; k < kBatch; ++k) {
            most = __hmax2(most, __hmax2(__habs2(v[k].pair[0]), __habs2(v[k].pair[1])));
        }
    }
    for (int step = 16; step > 0; step /= 2) {
        most = __hmax2(most, __shfl_xor_sync(0xffffffffu, most, step));
    }
    if (lane == 0) out[row] = __hmax(__low2half(most), __high2half(most));
}
//: end

//: variant warp_single
void warp_single(const Rows<__half>& d) {
    constexpr int kWarps = 1, kBatch = 1;
    largest<kWarps, kBatch><<<d.rows / kWarps, 32 * kWarps>>>(reinterpret_cast<const uint2*>(d.in), d.out);
}
//: end

//: variant eight_single
void eight_single(const Rows<__half>& d) {
    constexpr int kWarps = 8, kBatch = 1;
    largest<kWarps, kBatch><<<d.rows / kWarps, 32 * kWarps>>>(reinterpret_cast<const uint2*>(d.in), d.out);
}
//: end

//: variant warp_batch
void warp_batch(const Rows<__half>& d) {
    constexpr int kWarps = 1, kBatch = 8;
    largest<kWarps, kBatch><<<d.rows / kWarps, 32 * kWarps>>>(reinterpret_cast<const uint2*>(d.in), d.out);
}
//: end

//: variant eight_batch
void eight_batch(const Rows<__half>& d) {
    constexpr int kWarps = 8, kBatch = 8;
    largest<kWarps, kBatch><<<d.rows / kWarps, 32 * kWarps>>>(reinterpret_cast<const uint2*>(d.in), d.out);
}
//: end

//: variant eight_wide
// The largest magnitude of each row of 2,048 halves; a warp does a row.
__global__ void __launch_bounds__(256) largest_wide(const uint4* in, __half* out) {
    const int row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
    const uint4* own = in + row * size_t{256} + lane;
    __half2 most = __float2half2_rn(0.0f);
#pragma unroll 1
    for (int i = 0; i < 8; i += 4) {
        uint4 v[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) v[k] = own[(i + k) * 32];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            FourHalves low, high;
            low.bits = {v[k].x, v[k].y};
            high.bits = {v[k].z, v[k].w};
            most = __hmax2(most, __hmax2(__habs2(low.pair[0]), __habs2(low.pair[1])));
            most = __hmax2(most, __hmax2(__habs2(high.pair[0]), __habs2(high.pair[1])));
        }
    }
    for (int step = 16; step > 0; step /= 2) {
        most = __hmax2(most, __shfl_xor_sync(0xffffffffu, most, step));
    }
    if (lane == 0) out[row] = __hmax(__low2half(most), __high2half(most));
}

void eight_wide(const Rows<__half>& d) {
    largest_wide<<<d.rows / 8, 256>>>(reinterpret_cast<const uint4*>(d.in), d.out);
}
//: end

//: shared
constexpr int kTemperatures = 8;

// Partition sums at eight temperatures: out[row][k] = sum over the row of 2^(-energy * (k + 1) / 8).
__global__ void __launch_bounds__(1024, 2)
    partition_sums(const float* in, float* out, int columns, int rows_a_block) {
    __shared__ float parts[32][kTemperatures];
    for (int r = 0; r < rows_a_block; ++r) {
        const int row = blockIdx.x * rows_a_block + r;
        const float* own = in + row * size_t(columns);
        float sum[kTemperatures] = {};
        for (int i = threadIdx.x; i < columns; i += 1024) {
            const float x = own[i] * -0.125f;
#pragma unroll
            for (int k = 0; k < kTemperatures; ++k) sum[k] += exp2f(x * (k + 1));
        }
#pragma unroll
        for (int k = 0; k < kTemperatures; ++k) {
            for (int lane = 16; lane > 0; lane /= 2) {
                sum[k] += __shfl_xor_sync(0xffffffffu, sum[k], lane);
            }
            if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32][k] = sum[k];
        }
        __syncthreads();
        if (threadIdx.x < kTemperatures) {
            float total = 0;
            for (int w = 0; w < 32; ++w) total += parts[w][threadIdx.x];
            out[row * kTemperatures + threadIdx.x] = total;
        }
        __syncthreads();
    }
}
//: end

//: variant eight_rows
void eight_rows(const Rows<float>& d) {
    const int rows_a_block = 8;
    partition_sums<<<d.rows / rows_a_block, 1024>>>(d.in, d.out, d.columns, rows_a_block);
}
//: end

//: variant one_row
void one_row(const Rows<float>& d) {
    const int rows_a_block = 1;
    partition_sums<<<d.rows / rows_a_block, 1024>>>(d.in, d.out, d.columns, rows_a_block);
}
//: end

enum Kind { kMoments, kSums, kLargest, kPartition };

// One block of 256 a row, in double.
__device__ double reference_total(double value) {
    __shared__ double all[256];
    __syncthreads();
    all[threadIdx.x] = value;
    __syncthreads();
    double sum = 0;
    for (int i = 0; i < 256; ++i) sum += all[i];
    return sum;
}
template <class T>
__global__ void reference_rows(const T* in, T* expected, int columns, Kind kind) {
    const T* own = in + blockIdx.x * size_t(columns);
    const int t = threadIdx.x;
    if (kind == kMoments) {
        double sum = 0, squares = 0, cubes = 0;
        for (int i = t; i < columns; i += 256) sum += book::as_double(own[i]);
        const double mean = reference_total(sum) / columns;
        for (int i = t; i < columns; i += 256) {
            const double d = book::as_double(own[i]) - mean;
            squares += d * d;
            cubes += d * d * d;
        }
        squares = reference_total(squares) / columns;
        cubes = reference_total(cubes) / columns;
        if (t == 0) expected[3 * blockIdx.x] = book::from_double<T>(mean);
        if (t == 0) expected[3 * blockIdx.x + 1] = book::from_double<T>(squares);
        if (t == 0) expected[3 * blockIdx.x + 2] = book::from_double<T>(cubes);
    } else if (kind == kPartition) {
        for (int k = 0; k < 8; ++k) {
            double sum = 0;
            for (int i = t; i < columns; i += 256) {
                sum += exp2f(-float(book::as_double(own[i])) * (k + 1) / 8);
            }
            sum = reference_total(sum);
            if (t == 0) expected[8 * blockIdx.x + k] = book::from_double<T>(sum);
        }
    } else if (kind == kSums) {
        double sum = 0;
        for (int i = t; i < columns; i += 256) sum += book::as_double(own[i]);
        sum = reference_total(sum);
        if (t == 0) expected[blockIdx.x] = book::from_double<T>(sum);
    } else {
        double most = 0;
        for (int i = 0; t == 0 && i < columns; ++i) most = fmax(most, fabs(book::as_double(own[i])));
        if (t == 0) expected[blockIdx.x] = book::from_double<T>(most);
    }
}

template <class T>
Rows<T> rows_of(book::Problem& p, int rows, int columns, double low, double high, Kind kind, int results,
                book::Tolerance allowed) {
    Rows<T> d{rows, columns};
    d.in = p.uniform<T>(size_t(rows) * columns, low, high);
    d.out = p.zeroed<T>(size_t(rows) * results);
    p.check<T>(d.out, size_t(rows) * results, allowed, [=](T* expected) {
        reference_rows<T><<<rows, 256>>>(d.in, expected, columns, kind);
    });
    return d;
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("moments_1024", [](book::Problem& p) {
        const auto d = rows_of<float>(p, 40960, 1024, -1, 3, kMoments, 3, {1e-4, 1e-4});
        const double n = double(d.rows) * d.columns;
        p.needs({.dram_bytes = 4 * n + 12.0 * d.rows, .fp32_flop = 7 * n});
        p.variant("row_per_block", [=] { row_per_block(d); });
        p.variant("row_per_warp", [=] { row_per_warp(d); });
    });
    book.problem("rows_24", [](book::Problem& p) {
        const auto d = rows_of<float>(p, 24, 1 << 21, 0, 1, kSums, 1, {1e-4});
        p.needs({.dram_bytes = 4.0 * d.rows * d.columns, .fp32_flop = 1.0 * d.rows * d.columns});
        p.variant("whole_rows_256", [=] { whole_rows_256(d); });
        p.variant("pieces_of_rows", [=] { pieces_of_rows(d); });
    });
    book.problem("rows_112", [](book::Problem& p) {
        const auto d = rows_of<float>(p, 112, 1 << 18, 0, 1, kSums, 1, {1e-4});
        p.needs({.dram_bytes = 4.0 * d.rows * d.columns, .fp32_flop = 1.0 * d.rows * d.columns});
        p.variant("whole_rows_1024", [=] { whole_rows_1024(d); });
        p.variant("pieces_of_rows", [=] { pieces_of_rows(d); });
    });
    book.problem("half_2048", [](book::Problem& p) {
        const auto d = rows_of<__half>(p, 32768, 2048, -4, 4, kLargest, 1, {0});
        p.needs({.dram_bytes = 2.0 * d.rows * d.columns});
        p.variant("warp_single", [=] { warp_single(d); });
        p.variant("eight_single", [=] { eight_single(d); });
        p.variant("warp_batch", [=] { warp_batch(d); });
        p.variant("eight_batch", [=] { eight_batch(d); });
        p.variant("eight_wide", [=] { eight_wide(d); });
    });
    book.problem("energies_2240", [](book::Problem& p) {
        const auto d = rows_of<float>(p, 2240, 16384, 0, 6, kPartition, 8, {1e-4});
        const double n = double(d.rows) * d.columns;
        p.needs({.dram_bytes = 4 * n, .fp32_flop = 16 * n, .special_op = 8 * n});
        p.variant("eight_rows", [=] { eight_rows(d); });
        p.variant("one_row", [=] { one_row(d); });
    });
    return book.finish();
}
