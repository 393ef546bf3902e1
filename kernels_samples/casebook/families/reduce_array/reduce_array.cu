// Reductions of a whole array to one or two numbers: sums, mean and variance, an energy.
#include "../../harness/book.h"

template <class T, class R>
struct Data {
    size_t count;
    const T* in;
    R* out;
    R* scratch;
};
using Floats = Data<float, float>;
using Bytes = Data<int8_t, int>;
using Stats = Data<float, double>;

//: shared
template <class T>
__device__ T warp_sum(T value) {
    for (int offset = 16; offset > 0; offset /= 2) {
        value += __shfl_down_sync(0xffffffffu, value, offset);
    }
    return value;
}

// The sum over the block, valid in thread 0.
template <class T>
__device__ T block_sum(T value) {
    __shared__ T parts[32];
    value = warp_sum(value);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
    __syncthreads();
    if (threadIdx.x < 32) {
        value = threadIdx.x < blockDim.x / 32 ? parts[threadIdx.x] : T(0);
        value = warp_sum(value);
    }
    return value;
}

constexpr int kThreads = 256;
constexpr int kResident = 132 * 8;
//: end

//: variant warp_results
__global__ void sum_warp_results(const float4* in, float* out, size_t quads) {
    const size_t i = blockIdx.x * size_t{kThreads} + threadIdx.x;
    float sum = 0;
    if (i < quads) {
        const float4 v = in[i];
        sum = v.x + v.y + v.z + v.w;
    }
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) atomicAdd(out, sum);
}

void warp_results(const Floats& d) {
    const size_t quads = d.count / 4;
    sum_warp_results<<<(quads + kThreads - 1) / kThreads, kThreads>>>(
        reinterpret_cast<const float4*>(d.in), d.out, quads);
}
//: end

//: variant block_results
__global__ void sum_block_results(const float4* in, float* out, size_t quads) {
    const size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x;
    float sum = 0;
    if (i < quads) {
        const float4 v = in[i];
        sum = v.x + v.y + v.z + v.w;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) atomicAdd(out, sum);
}

void block_results(const Floats& d) {
    const int threads = 256;
    const size_t quads = d.count / 4;
    sum_block_results<<<(quads + threads - 1) / threads, threads>>>(
        reinterpret_cast<const float4*>(d.in), d.out, quads);
}
//: end

//: variant results_of_384
__global__ void sum_results_of_384(const float4* in, float* out, size_t quads) {
    const size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x;
    float sum = 0;
    if (i < quads) {
        const float4 v = in[i];
        sum = v.x + v.y + v.z + v.w;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) atomicAdd(out, sum);
}

void results_of_384(const Floats& d) {
    const int threads = 384;
    const size_t quads = d.count / 4;
    sum_results_of_384<<<(quads + threads - 1) / threads, threads>>>(
        reinterpret_cast<const float4*>(d.in), d.out, quads);
}
//: end

//: variant resident_blocks
__global__ void sum_resident(const float4* in, float* out, size_t quads) {
    float sum = 0;
    for (size_t i = blockIdx.x * size_t{4 * kThreads} + threadIdx.x; i < quads;
         i += gridDim.x * size_t{4 * kThreads}) {
        float4 v[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) v[k] = in[i + k * kThreads];
#pragma unroll
        for (int k = 0; k < 4; ++k) sum += v[k].x + v[k].y + v[k].z + v[k].w;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) atomicAdd(out, sum);
}

void resident_blocks(const Floats& d) {
    sum_resident<<<kResident, kThreads>>>(reinterpret_cast<const float4*>(d.in), d.out, d.count / 4);
}
//: end

//: variant two_kernels
__global__ void sum_to_parts(const float4* in, float* parts, size_t quads) {
    float sum = 0;
    for (size_t i = blockIdx.x * size_t{4 * kThreads} + threadIdx.x; i < quads;
         i += gridDim.x * size_t{4 * kThreads}) {
        float4 v[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) v[k] = in[i + k * kThreads];
#pragma unroll
        for (int k = 0; k < 4; ++k) sum += v[k].x + v[k].y + v[k].z + v[k].w;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) parts[blockIdx.x] = sum;
}

__global__ void sum_of_parts(const float* parts, float* out, int count) {
    float sum = 0;
    for (int i = threadIdx.x; i < count; i += blockDim.x) sum += parts[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0) *out = sum;
}

void two_kernels(const Floats& d) {
    sum_to_parts<<<kResident, kThreads>>>(reinterpret_cast<const float4*>(d.in), d.scratch, d.count / 4);
    sum_of_parts<<<1, 1024>>>(d.scratch, d.out, kResident);
}
//: end

//: variant thread_chunks
__global__ void sum_chunks(const float* in, float* out, size_t count) {
    constexpr int kChunk = 64;
    const size_t first = (blockIdx.x * size_t{kThreads} + threadIdx.x) * kChunk;
    float sum = 0;
    if (first < count) {
#pragma unroll 8
        for (int k = 0; k < kChunk; ++k) sum += in[first + k];
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) atomicAdd(out, sum);
}

void thread_chunks(const Floats& d) {
    sum_chunks<<<d.count / (64 * kThreads), kThreads>>>(d.in, d.out, d.count);
}
//: end

//: shared
__global__ void sum_by_bytes(const int8_t* in, int* out, int count) {
    int sum = 0;
#pragma unroll 4
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        sum += in[i];
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) atomicAdd(out, sum);
}

__global__ void sum_by_words(const int* in, int* out, int words) {
    int sum = 0;
    for (int i = blockIdx.x * 2048 + threadIdx.x; i < words; i += gridDim.x * 2048) {
        const int a = in[i], b = in[i + 1024];
        sum = __dp4a(a, 0x01010101, sum);
        sum = __dp4a(b, 0x01010101, sum);
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) atomicAdd(out, sum);
}

__global__ void sum_by_quads(const int4* in, int* out, int quads) {
    int sum = 0;
    for (int i = blockIdx.x * 4096 + threadIdx.x; i < quads; i += gridDim.x * 4096) {
        int4 v[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) v[k] = in[i + k * 1024];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            sum = __dp4a(v[k].x, 0x01010101, sum);
            sum = __dp4a(v[k].y, 0x01010101, sum);
            sum = __dp4a(v[k].z, 0x01010101, sum);
            sum = __dp4a(v[k].w, 0x01010101, sum);
        }
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) atomicAdd(out, sum);
}
//: end

//: variant bytes_64
void bytes_64(const Bytes& d) {
    const int blocks = 64;
    sum_by_bytes<<<blocks, 1024>>>(d.in, d.out, int(d.count));
}
//: end

//: variant bytes_264
void bytes_264(const Bytes& d) {
    const int blocks = 264;
    sum_by_bytes<<<blocks, 1024>>>(d.in, d.out, int(d.count));
}
//: end

//: variant words_264
void words_264(const Bytes& d) {
    const int blocks = 264;
    sum_by_words<<<blocks, 1024>>>(reinterpret_cast<const int*>(d.in), d.out, int(d.count / 4));
}
//: end

//: variant quads_64
void quads_64(const Bytes& d) {
    const int blocks = 64;
    sum_by_quads<<<blocks, 1024>>>(reinterpret_cast<const int4*>(d.in), d.out, int(d.count / 16));
}
//: end

//: variant quads_264
void quads_264(const Bytes& d) {
    const int blocks = 264;
    sum_by_quads<<<blocks, 1024>>>(reinterpret_cast<const int4*>(d.in), d.out, int(d.count / 16));
}
//: end

//: shared
__global__ void finish_stats(const double* sums, double* out, const float* shift, double count) {
    const double mean = sums[0] / count;
    out[0] = mean + (shift ? double(*shift) : 0.0);
    out[1] = sums[1] / count - (shift ? mean * mean : 0.0);
}
//: end

//: variant mean_then_spread
__global__ void sum_values(const float4* in, double* sums, size_t quads) {
    float sum = 0;
    for (size_t i = blockIdx.x * size_t{2 * kThreads} + threadIdx.x; i < quads;
         i += gridDim.x * size_t{2 * kThreads}) {
        const float4 a = in[i], b = in[i + kThreads];
        sum += a.x + a.y + a.z + a.w + b.x + b.y + b.z + b.w;
    }
    const double total = block_sum(double(sum));
    if (threadIdx.x == 0) atomicAdd(&sums[0], total);
}

__global__ void sum_spread(const float4* in, double* sums, size_t quads, double count) {
    const float mean = float(sums[0] / count);
    auto square = [mean](float x) { return (x - mean) * (x - mean); };
    float sum = 0;
    for (size_t i = blockIdx.x * size_t{2 * kThreads} + threadIdx.x; i < quads;
         i += gridDim.x * size_t{2 * kThreads}) {
        const float4 a = in[i], b = in[i + kThreads];
        sum += square(a.x) + square(a.y) + square(a.z) + square(a.w);
        sum += square(b.x) + square(b.y) + square(b.z) + square(b.w);
    }
    const double total = block_sum(double(sum));
    if (threadIdx.x == 0) atomicAdd(&sums[1], total);
}

void mean_then_spread(const Stats& d) {
    const float4* in = reinterpret_cast<const float4*>(d.in);
    sum_values<<<kResident, kThreads>>>(in, d.scratch, d.count / 4);
    sum_spread<<<kResident, kThreads>>>(in, d.scratch, d.count / 4, double(d.count));
    finish_stats<<<1, 1>>>(d.scratch, d.out, nullptr, double(d.count));
}
//: end

//: variant both_sums
__global__ void sum_both(const float4* in, double* sums, size_t quads) {
    const float shift = *reinterpret_cast<const float*>(in);
    float sum = 0, squares = 0;
    auto add = [&](float x) {
        const float y = x - shift;
        sum += y;
        squares += y * y;
    };
    for (size_t i = blockIdx.x * size_t{2 * kThreads} + threadIdx.x; i < quads;
         i += gridDim.x * size_t{2 * kThreads}) {
        const float4 a = in[i], b = in[i + kThreads];
        add(a.x), add(a.y), add(a.z), add(a.w);
        add(b.x), add(b.y), add(b.z), add(b.w);
    }
    const double total = block_sum(double(sum));
    __syncthreads();
    const double total_squares = block_sum(double(squares));
    if (threadIdx.x == 0) {
        atomicAdd(&sums[0], total);
        atomicAdd(&sums[1], total_squares);
    }
}

void both_sums(const Stats& d) {
    sum_both<<<kResident, kThreads>>>(reinterpret_cast<const float4*>(d.in), d.scratch, d.count / 4);
    finish_stats<<<1, 1>>>(d.scratch, d.out, d.in, double(d.count));
}
//: end

//: variant thread_per_field
__global__ void energy_by_fields(const float* in, float* out, unsigned count) {
    float sum = 0;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        const float x = in[i];
        switch (i % 4) {
            case 0: sum += erff(x); break;
            case 1: sum += log1pf(x * x); break;
            case 2: sum += tanhf(x); break;
            default: sum += cbrtf(x); break;
        }
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) atomicAdd(out, sum);
}

void thread_per_field(const Floats& d) {
    energy_by_fields<<<kResident, kThreads>>>(d.in, d.out, unsigned(d.count));
}
//: end

//: variant thread_per_record
__global__ void energy_by_records(const float4* in, float* out, unsigned records) {
    float sum = 0;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < records; i += gridDim.x * blockDim.x) {
        const float4 v = in[i];
        sum += erff(v.x);
        sum += log1pf(v.y * v.y);
        sum += tanhf(v.z);
        sum += cbrtf(v.w);
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) atomicAdd(out, sum);
}

void thread_per_record(const Floats& d) {
    energy_by_records<<<kResident, kThreads>>>(reinterpret_cast<const float4*>(d.in), d.out,
                                               unsigned(d.count / 4));
}
//: end

//: shared
constexpr float kEccentricity = 0.6f;
constexpr float kFar = 0.94f;
constexpr int kPerThread = 32;

// Near bodies have a series, far ones need Kepler's equation solved.
__device__ inline float solve_kepler(float m) {
    float e = m;
#pragma unroll 1
    for (int k = 0; k < 24; ++k) {
        e -= (e - kEccentricity * __sinf(e) - m) / (1.0f - kEccentricity * __cosf(e));
    }
    return e;
}
//: end

//: variant in_place
__global__ void anomaly_in_place(const float* in, float* out) {
    const float* tile = in + blockIdx.x * size_t{kPerThread * kThreads};
    float sum = 0;
    for (int k = 0; k < kPerThread; ++k) {
        const float m = tile[k * kThreads + threadIdx.x];
        if (m < kFar) {
            sum += m * (1.0f + m);
        } else {
            sum += solve_kepler(m);
        }
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) atomicAdd(out, sum);
}

void in_place(const Floats& d) {
    anomaly_in_place<<<d.count / (kPerThread * kThreads), kThreads>>>(d.in, d.out);
}
//: end

//: variant listed
__global__ void anomaly_listed(const float* in, float* out) {
    __shared__ float far[kPerThread * kThreads];
    __shared__ int listed;
    if (threadIdx.x == 0) listed = 0;
    __syncthreads();
    const float* tile = in + blockIdx.x * size_t{kPerThread * kThreads};
    float sum = 0;
    for (int k = 0; k < kPerThread; ++k) {
        const float m = tile[k * kThreads + threadIdx.x];
        if (m < kFar) {
            sum += m * (1.0f + m);
        } else {
            far[atomicAdd(&listed, 1)] = m;
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < listed; i += kThreads) sum += solve_kepler(far[i]);
    sum = block_sum(sum);
    if (threadIdx.x == 0) atomicAdd(out, sum);
}

void listed(const Floats& d) {
    anomaly_listed<<<d.count / (kPerThread * kThreads), kThreads>>>(d.in, d.out);
}
//: end

enum Kind { kSum, kFields, kAnomaly };

__global__ void reference_partial(const float* in, size_t count, Kind kind, double* total) {
    double sum = 0;
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count;
         i += size_t{gridDim.x} * blockDim.x) {
        const float x = in[i];
        if (kind == kSum) sum += x;
        if (kind == kFields) {
            sum += i % 4 == 0 ? erff(x) : i % 4 == 1 ? log1pf(x * x) : i % 4 == 2 ? tanhf(x) : cbrtf(x);
        }
        if (kind == kAnomaly) {
            if (x < 0.94f) {
                sum += x * (1.0f + x);
            } else {
                float e = x;
                for (int k = 0; k < 24; ++k) e -= (e - 0.6f * sinf(e) - x) / (1.0f - 0.6f * cosf(e));
                sum += e;
            }
        }
    }
    atomicAdd(total, sum);
}
__global__ void reference_finish(const double* total, float* expected) { *expected = float(*total); }
__global__ void reference_bytes(const int8_t* in, size_t count, int* total) {
    int sum = 0;
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count;
         i += size_t{gridDim.x} * blockDim.x) {
        sum += in[i];
    }
    atomicAdd(total, sum);
}
__global__ void reference_stats(const float* in, size_t count, double* sums) {
    double sum = 0, squares = 0;
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count;
         i += size_t{gridDim.x} * blockDim.x) {
        sum += in[i];
        squares += double(in[i]) * in[i];
    }
    atomicAdd(&sums[0], sum);
    atomicAdd(&sums[1], squares);
}
__global__ void reference_stats_finish(double* sums, double count) {
    sums[0] /= count;
    sums[1] = sums[1] / count - sums[0] * sums[0];
}

void floats_of(book::Problem& p, Floats& d, Kind kind, double low, double high, double relative) {
    d.in = p.uniform<float>(d.count, low, high);
    d.out = p.zeroed<float>(1);
    d.scratch = p.output<float>(kResident);
    double* total = p.zeroed<double>(1);
    p.check<float>(d.out, 1, {relative}, [=](float* expected) {
        BOOK_CHECK(cudaMemset(total, 0, sizeof(double)));
        reference_partial<<<1056, 256>>>(d.in, d.count, kind, total);
        reference_finish<<<1, 1>>>(total, expected);
    });
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("f32_64m", [](book::Problem& p) {
        Floats d{size_t{1} << 26};
        floats_of(p, d, kSum, 0, 1, 2e-4);
        p.needs({.dram_bytes = 4.0 * d.count, .fp32_flop = 1.0 * d.count});
        p.variant("warp_results", [=] { warp_results(d); });
        p.variant("block_results", [=] { block_results(d); });
        p.variant("results_of_384", [=] { results_of_384(d); });
        p.variant("resident_blocks", [=] { resident_blocks(d); });
        p.variant("two_kernels", [=] { two_kernels(d); });
        p.variant("thread_chunks", [=] { thread_chunks(d); });
    });
    book.problem("i8_128m", [](book::Problem& p) {
        Bytes d{size_t{1} << 27};
        d.in = p.uniform<int8_t>(d.count, -100, 110);
        d.out = p.zeroed<int>(1);
        p.needs({.dram_bytes = 1.0 * d.count, .int_op = d.count / 4.0});
        p.check<int>(d.out, 1, {0}, [=](int* expected) {
            reference_bytes<<<1056, 256>>>(d.in, d.count, expected);
        });
        p.variant("bytes_64", [=] { bytes_64(d); });
        p.variant("bytes_264", [=] { bytes_264(d); });
        p.variant("words_264", [=] { words_264(d); });
        p.variant("quads_64", [=] { quads_64(d); });
        p.variant("quads_264", [=] { quads_264(d); });
    });
    book.problem("stats_48m", [](book::Problem& p) {
        Stats d{size_t{48} << 20};
        d.in = p.uniform<float>(d.count, 2, 5);
        d.out = p.output<double>(2);
        d.scratch = p.zeroed<double>(2);
        p.needs({.dram_bytes = 4.0 * d.count, .fp32_flop = 4.0 * d.count});
        p.check<double>(d.out, 2, {1e-4}, [=](double* expected) {
            reference_stats<<<1056, 256>>>(d.in, d.count, expected);
            reference_stats_finish<<<1, 1>>>(expected, double(d.count));
        });
        p.variant("mean_then_spread", [=] { mean_then_spread(d); });
        p.variant("both_sums", [=] { both_sums(d); });
    });
    book.problem("records_4m", [](book::Problem& p) {
        Floats d{size_t{1} << 24};
        floats_of(p, d, kFields, -1, 3, 1e-4);
        p.needs({.dram_bytes = 4.0 * d.count, .fp32_flop = 10.0 * d.count, .special_op = 1.0 * d.count});
        p.variant("thread_per_field", [=] { thread_per_field(d); });
        p.variant("thread_per_record", [=] { thread_per_record(d); });
    });
    book.problem("orbits_16m", [](book::Problem& p) {
        Floats d{size_t{1} << 24};
        floats_of(p, d, kAnomaly, 0, 1, 1e-4);
        p.needs({.dram_bytes = 4.0 * d.count, .fp32_flop = 0.06 * 24 * 8 * d.count + 3.0 * d.count,
                 .special_op = 0.06 * 24 * 3 * d.count});
        p.variant("in_place", [=] { in_place(d); });
        p.variant("listed", [=] { listed(d); });
    });
    return book.finish();
}
