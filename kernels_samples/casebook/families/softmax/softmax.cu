// Softmax of rows, and the logarithm of the sum of exponentials of capped logits.
#include "../../harness/book.h"

template <class T>
struct Rows {
    int rows, width;
    const T* x;
    T* y;
    float2* moments;  // scratch: maximum and sum of each row
};

struct Logits {
    int rows, width;
    const __half* x;
    float* lse;
};

constexpr float kCap = 30.0f;

//: shared
constexpr unsigned kAll = 0xFFFFFFFFu;
constexpr float kLog2e = 1.44269504f;

struct Largest {
    static constexpr float kNone = -INFINITY;
    __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

struct Plus {
    static constexpr float kNone = 0;
    __device__ float operator()(float a, float b) const { return a + b; }
};

template <class F>
__device__ float over_warp(float value, F combine) {
    for (int step = 16; step > 0; step /= 2) value = combine(value, __shfl_xor_sync(kAll, value, step));
    return value;
}

// Combined over the block, known to all threads.
template <class F>
__device__ float over_block(float value, F combine) {
    __shared__ float of_warp[32];
    value = over_warp(value, combine);
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
    __syncthreads();
    value = threadIdx.x % 32 < blockDim.x / 32 ? of_warp[threadIdx.x % 32] : F::kNone;
    value = over_warp(value, combine);
    __syncthreads();
    return value;
}

union Eight {
    uint4 vector;
    __half2 pairs[4];
};

__device__ float largest_of(const Eight& e) {
    const __half2 m = __hmax2(__hmax2(e.pairs[0], e.pairs[1]), __hmax2(e.pairs[2], e.pairs[3]));
    return fmaxf(__low2float(m), __high2float(m));
}

__device__ float sum_of(const Eight& e, float largest) {
    float total = 0;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const float2 v = __half22float2(e.pairs[k]);
        total += __expf(v.x - largest) + __expf(v.y - largest);
    }
    return total;
}

__device__ uint4 shares_of(Eight& e, float largest, float inverse) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const float2 v = __half22float2(e.pairs[k]);
        e.pairs[k] = __floats2half2_rn(__expf(v.x - largest) * inverse, __expf(v.y - largest) * inverse);
    }
    return e.vector;
}
//: end

// --- long rows of half

//: variant two_kernels
__global__ void __launch_bounds__(256) row_moments(const uint4* x, float2* moments, int groups) {
    const size_t first = size_t(blockIdx.x) * groups;
    float largest = -INFINITY, total = 0;
    for (int i = threadIdx.x; i < groups; i += blockDim.x) {
        Eight e;
        e.vector = x[first + i];
        const float higher = fmaxf(largest, largest_of(e));
        total = total * __expf(largest - higher) + sum_of(e, higher);
        largest = higher;
    }
    const float top = over_block(largest, Largest());
    total = over_block(total * __expf(largest - top), Plus());
    if (threadIdx.x == 0) moments[blockIdx.x] = make_float2(top, total);
}

__global__ void __launch_bounds__(256) write_shares(const uint4* x, const float2* moments, uint4* y,
                                                    int groups) {
    const size_t first = size_t(blockIdx.x) * groups;
    const float2 m = moments[blockIdx.x];
    const float inverse = 1.0f / m.y;
    for (int i = threadIdx.x; i < groups; i += blockDim.x) {
        Eight e;
        e.vector = x[first + i];
        y[first + i] = shares_of(e, m.x, inverse);
    }
}

void two_kernels(const Rows<__half>& d) {
    row_moments<<<d.rows, 256>>>(reinterpret_cast<const uint4*>(d.x), d.moments, d.width / 8);
    write_shares<<<d.rows, 256>>>(reinterpret_cast<const uint4*>(d.x), d.moments,
                                  reinterpret_cast<uint4*>(d.y), d.width / 8);
}
//: end

//: variant float_buffer
// The exponentials wait for their sum in shared memory as float.
__global__ void __launch_bounds__(128) softmax_float_buffer(const uint4* x, uint4* y, int groups) {
    extern __shared__ float4 buffer[];
    const size_t first = size_t(blockIdx.x) * groups;
    float largest = -INFINITY, total = 0;
    for (int i = threadIdx.x; i < groups; i += 128) {
        Eight e;
        e.vector = x[first + i];
        largest = fmaxf(largest, largest_of(e));
        const float2 a = __half22float2(e.pairs[0]), b = __half22float2(e.pairs[1]);
        const float2 c = __half22float2(e.pairs[2]), f = __half22float2(e.pairs[3]);
        buffer[i] = make_float4(a.x, a.y, b.x, b.y);
        buffer[groups + i] = make_float4(c.x, c.y, f.x, f.y);
    }
    largest = over_block(largest, Largest());
    for (int i = threadIdx.x; i < 2 * groups; i += 128) {
        float4 v = buffer[i];
        v.x = __expf(v.x - largest), v.y = __expf(v.y - largest);
        v.z = __expf(v.z - largest), v.w = __expf(v.w - largest);
        total += v.x + v.y + v.z + v.w;
        buffer[i] = v;
    }
    const float inverse = 1.0f / over_block(total, Plus());
    for (int i = threadIdx.x; i < groups; i += 128) {
        const float4 a = buffer[i], b = buffer[groups + i];
        Eight e;
        e.pairs[0] = __floats2half2_rn(a.x * inverse, a.y * inverse);
        e.pairs[1] = __floats2half2_rn(a.z * inverse, a.w * inverse);
        e.pairs[2] = __floats2half2_rn(b.x * inverse, b.y * inverse);
        e.pairs[3] = __floats2half2_rn(b.z * inverse, b.w * inverse);
        y[first + i] = e.vector;
    }
}

void float_buffer(const Rows<__half>& d) {
    const int bytes = d.width * 4;
    BOOK_CHECK(cudaFuncSetAttribute(softmax_float_buffer, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    bytes));
    softmax_float_buffer<<<d.rows, 128, bytes>>>(reinterpret_cast<const uint4*>(d.x),
                                                 reinterpret_cast<uint4*>(d.y), d.width / 8);
}
//: end

//: variant half_buffer
__global__ void __launch_bounds__(128) softmax_half_buffer(const uint4* x, uint4* y, int groups) {
    extern __shared__ uint4 row[];
    const size_t first = size_t(blockIdx.x) * groups;
    float largest = -INFINITY, total = 0;
    for (int i = threadIdx.x; i < groups; i += 128) {
        Eight e;
        e.vector = x[first + i];
        largest = fmaxf(largest, largest_of(e));
        row[i] = e.vector;
    }
    largest = over_block(largest, Largest());
    for (int i = threadIdx.x; i < groups; i += 128) {
        Eight e;
        e.vector = row[i];
        total += sum_of(e, largest);
    }
    const float inverse = 1.0f / over_block(total, Plus());
    for (int i = threadIdx.x; i < groups; i += 128) {
        Eight e;
        e.vector = row[i];
        y[first + i] = shares_of(e, largest, inverse);
    }
}

void half_buffer(const Rows<__half>& d) {
    const int bytes = d.width * 2;
    BOOK_CHECK(cudaFuncSetAttribute(softmax_half_buffer, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    bytes));
    softmax_half_buffer<<<d.rows, 128, bytes>>>(reinterpret_cast<const uint4*>(d.x),
                                                reinterpret_cast<uint4*>(d.y), d.width / 8);
}
//: end

//: variant half_buffer_512
__global__ void __launch_bounds__(512) softmax_half_buffer_512(const uint4* x, uint4* y, int groups) {
    extern __shared__ uint4 row[];
    const size_t first = size_t(blockIdx.x) * groups;
    float largest = -INFINITY, total = 0;
    for (int i = threadIdx.x; i < groups; i += 512) {
        Eight e;
        e.vector = x[first + i];
        largest = fmaxf(largest, largest_of(e));
        row[i] = e.vector;
    }
    largest = over_block(largest, Largest());
    for (int i = threadIdx.x; i < groups; i += 512) {
        Eight e;
        e.vector = row[i];
        total += sum_of(e, largest);
    }
    const float inverse = 1.0f / over_block(total, Plus());
    for (int i = threadIdx.x; i < groups; i += 512) {
        Eight e;
        e.vector = row[i];
        y[first + i] = shares_of(e, largest, inverse);
    }
}

void half_buffer_512(const Rows<__half>& d) {
    const int bytes = d.width * 2;
    BOOK_CHECK(cudaFuncSetAttribute(softmax_half_buffer_512, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    bytes));
    softmax_half_buffer_512<<<d.rows, 512, bytes>>>(reinterpret_cast<const uint4*>(d.x),
                                                    reinterpret_cast<uint4*>(d.y), d.width / 8);
}
//: end

// --- log-sum-exp of capped logits: cap * tanh(x / cap)

//: shared
__device__ void join(float& largest, float& total, float other_largest, float other_total) {
    const float higher = fmaxf(largest, other_largest);
    total = total * __expf(largest - higher) + other_total * __expf(other_largest - higher);
    largest = higher;
}

__device__ void write_lse(float largest, float total, float* lse) {
    const float top = over_block(largest, Largest());
    total = over_block(total * __expf(largest - top), Plus());
    if (threadIdx.x == 0) lse[blockIdx.x] = top + __logf(total);
}
//: end

//: variant element_wise
__device__ float capped(float x) {
    return kCap - __fdividef(2.0f * kCap, 1.0f + __expf(x * (2.0f / kCap)));
}

__global__ void __launch_bounds__(256) lse_element_wise(const uint4* x, float* lse, int groups) {
    const size_t first = size_t(blockIdx.x) * groups;
    float largest = -1e30f, total = 0;
    for (int i = threadIdx.x; i < groups; i += 256) {
        Eight e;
        e.vector = x[first + i];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            const float2 v = __half22float2(e.pairs[k]);
            join(largest, total, capped(v.x), 1.0f);
            join(largest, total, capped(v.y), 1.0f);
        }
    }
    write_lse(largest, total, lse);
}

void element_wise(const Logits& d) {
    lse_element_wise<<<d.rows, 256>>>(reinterpret_cast<const uint4*>(d.x), d.lse, d.width / 8);
}
//: end

//: variant group_wise
__device__ float unit_tanh(float x) {
    float y;
    asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__global__ void __launch_bounds__(256) lse_group_wise(const uint4* x, float* lse, int groups) {
    const size_t first = size_t(blockIdx.x) * groups;
    float largest = -1e30f, total = 0;
    for (int i = threadIdx.x; i < groups; i += 256) {
        Eight e;
        e.vector = x[first + i];
        // The cap is monotonic: the largest of eight is known before any of them is capped.
        const float higher = fmaxf(largest, kCap * unit_tanh(largest_of(e) * (1.0f / kCap)));
        total *= __expf(largest - higher);
        largest = higher;
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            const float2 v = __half22float2(e.pairs[k]);
            total += exp2f(fmaf(kCap * kLog2e, unit_tanh(v.x * (1.0f / kCap)), -higher * kLog2e));
            total += exp2f(fmaf(kCap * kLog2e, unit_tanh(v.y * (1.0f / kCap)), -higher * kLog2e));
        }
    }
    write_lse(largest, total, lse);
}

void group_wise(const Logits& d) {
    lse_group_wise<<<d.rows, 256>>>(reinterpret_cast<const uint4*>(d.x), d.lse, d.width / 8);
}
//: end

// --- rows of 128 halves, one warp a row

//: shared
template <int kThreads>
__global__ void __launch_bounds__(kThreads) softmax_warps(const uint2* x, uint2* y, int rows) {
    const int lane = threadIdx.x % 32;
    const int first = (blockIdx.x * (kThreads / 32) + threadIdx.x / 32) * 8;
    for (int row = first; row < first + 8; ++row) {
        union {
            uint2 vector;
            __half2 pairs[2];
        } e;
        e.vector = x[size_t(row) * 32 + lane];
        const float2 a = __half22float2(e.pairs[0]), b = __half22float2(e.pairs[1]);
        const float largest = over_warp(fmaxf(fmaxf(a.x, a.y), fmaxf(b.x, b.y)), Largest());
        const float4 v = make_float4(__expf(a.x - largest), __expf(a.y - largest),
                                     __expf(b.x - largest), __expf(b.y - largest));
        const float inverse = 1.0f / over_warp(v.x + v.y + v.z + v.w, Plus());
        e.pairs[0] = __floats2half2_rn(v.x * inverse, v.y * inverse);
        e.pairs[1] = __floats2half2_rn(v.z * inverse, v.w * inverse);
        y[size_t(row) * 32 + lane] = e.vector;
    }
}

template <int kThreads>
void launch_warps(const Rows<__half>& d) {
    softmax_warps<kThreads><<<d.rows / 8 / (kThreads / 32), kThreads>>>(
        reinterpret_cast<const uint2*>(d.x), reinterpret_cast<uint2*>(d.y), d.rows);
}
//: end

//: variant warps_alone
void warps_alone(const Rows<__half>& d) {
    launch_warps<32>(d);
}
//: end

//: variant warps_in_eights
void warps_in_eights(const Rows<__half>& d) {
    launch_warps<256>(d);
}
//: end

// --- rows of 2048 halves, persistent blocks of 1024 threads that load one row ahead

//: shared
template <class F>
__device__ float by_halves(float value, F combine) {
    __shared__ float scratch[1024];
    scratch[threadIdx.x] = value;
    __syncthreads();
    for (int half = 512; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            scratch[threadIdx.x] = combine(scratch[threadIdx.x], scratch[threadIdx.x + half]);
        }
        __syncthreads();
    }
    value = scratch[0];
    __syncthreads();
    return value;
}

template <class R>
__device__ void softmax_stream(const __half2* x, __half2* y, int rows, R reduce) {
    int row = blockIdx.x;
    __half2 next = x[size_t(row) * 1024 + threadIdx.x];
    while (row < rows) {
        const float2 v = __half22float2(next);
        const int following = row + gridDim.x;
        if (following < rows) next = x[size_t(following) * 1024 + threadIdx.x];
        const float largest = reduce(fmaxf(v.x, v.y), Largest());
        const float2 power = make_float2(__expf(v.x - largest), __expf(v.y - largest));
        const float inverse = 1.0f / reduce(power.x + power.y, Plus());
        y[size_t(row) * 1024 + threadIdx.x] = __floats2half2_rn(power.x * inverse, power.y * inverse);
        row = following;
    }
}
//: end

//: variant stream_by_halves
__global__ void __launch_bounds__(1024, 2) softmax_by_halves(const __half2* x, __half2* y, int rows) {
    softmax_stream(x, y, rows, [](float value, auto combine) { return by_halves(value, combine); });
}

void stream_by_halves(const Rows<__half>& d) {
    softmax_by_halves<<<264, 1024>>>(reinterpret_cast<const __half2*>(d.x),
                                     reinterpret_cast<__half2*>(d.y), d.rows);
}
//: end

//: variant stream_by_warps
__global__ void __launch_bounds__(1024, 2) softmax_by_warps(const __half2* x, __half2* y, int rows) {
    softmax_stream(x, y, rows, [](float value, auto combine) { return over_block(value, combine); });
}

void stream_by_warps(const Rows<__half>& d) {
    softmax_by_warps<<<264, 1024>>>(reinterpret_cast<const __half2*>(d.x),
                                    reinterpret_cast<__half2*>(d.y), d.rows);
}
//: end

// --- rows of 8192 floats, held by the threads

//: shared
template <int kThreads, int kBlocks>
__global__ void __launch_bounds__(kThreads, kBlocks) softmax_held(const float4* x, float4* y) {
    constexpr int kWidth = 8192, kEach = kWidth / 4 / kThreads;
    const size_t first = size_t(blockIdx.x) * (kWidth / 4) + threadIdx.x;
    float4 v[kEach];
    float largest = -INFINITY, total = 0;
#pragma unroll
    for (int k = 0; k < kEach; ++k) v[k] = x[first + kThreads * k];
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
        largest = fmaxf(largest, fmaxf(fmaxf(v[k].x, v[k].y), fmaxf(v[k].z, v[k].w)));
    }
    largest = over_block(largest, Largest());
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
        v[k] = make_float4(__expf(v[k].x - largest), __expf(v[k].y - largest),
                           __expf(v[k].z - largest), __expf(v[k].w - largest));
        total += v[k].x + v[k].y + v[k].z + v[k].w;
    }
    const float inverse = 1.0f / over_block(total, Plus());
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
        y[first + kThreads * k] =
            make_float4(v[k].x * inverse, v[k].y * inverse, v[k].z * inverse, v[k].w * inverse);
    }
}

template <int kThreads, int kBlocks>
void launch_held(const Rows<float>& d) {
    softmax_held<kThreads, kBlocks><<<d.rows, kThreads>>>(reinterpret_cast<const float4*>(d.x),
                                                          reinterpret_cast<float4*>(d.y));
}
//: end

//: variant any_width
// For rows of up to 64 floats a thread.
__global__ void __launch_bounds__(128) softmax_any_width(const float4* x, float4* y, int quads) {
    const size_t first = size_t(blockIdx.x) * quads;
    float4 v[16];
    float largest = -INFINITY, total = 0;
    int held = 0;
    for (int i = threadIdx.x; i < quads; i += 128) v[held++] = x[first + i];
    for (int k = 0; k < held; ++k) {
        largest = fmaxf(largest, fmaxf(fmaxf(v[k].x, v[k].y), fmaxf(v[k].z, v[k].w)));
    }
    largest = over_block(largest, Largest());
    for (int k = 0; k < held; ++k) {
        v[k] = make_float4(__expf(v[k].x - largest), __expf(v[k].y - largest),
                           __expf(v[k].z - largest), __expf(v[k].w - largest));
        total += v[k].x + v[k].y + v[k].z + v[k].w;
    }
    const float inverse = 1.0f / over_block(total, Plus());
    for (int k = 0; k < held; ++k) {
        y[first + 128 * k + threadIdx.x] =
            make_float4(v[k].x * inverse, v[k].y * inverse, v[k].z * inverse, v[k].w * inverse);
    }
}

void any_width(const Rows<float>& d) {
    softmax_any_width<<<d.rows, 128>>>(reinterpret_cast<const float4*>(d.x),
                                       reinterpret_cast<float4*>(d.y), d.width / 4);
}
//: end

//: variant held_twelve
void held_twelve(const Rows<float>& d) {
    launch_held<128, 12>(d);
}
//: end

//: variant held_four
void held_four(const Rows<float>& d) {
    launch_held<128, 4>(d);
}
//: end

//: variant held_wide
void held_wide(const Rows<float>& d) {
    launch_held<512, 3>(d);
}
//: end

template <class T>
__global__ void reference_softmax(Rows<T> d, T* expected) {
    __shared__ double sum;
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    const size_t row = size_t(blockIdx.x) * d.width;
    // The inputs are below 16: no maximum is needed in double precision.
    double mine = 0;
    for (int i = threadIdx.x; i < d.width; i += blockDim.x) mine += exp(book::as_double(d.x[row + i]));
    atomicAdd(&sum, mine);
    __syncthreads();
    for (int i = threadIdx.x; i < d.width; i += blockDim.x) {
        expected[row + i] = book::from_double<T>(exp(book::as_double(d.x[row + i])) / sum);
    }
}

__global__ void reference_lse(Logits d, float* expected) {
    __shared__ double sum;
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    double mine = 0;
    for (int i = threadIdx.x; i < d.width; i += blockDim.x) {
        const double x = book::as_double(d.x[size_t(blockIdx.x) * d.width + i]);
        mine += exp(double(kCap) * double(tanhf(float(x) / kCap)));
    }
    atomicAdd(&sum, mine);
    __syncthreads();
    if (threadIdx.x == 0) expected[blockIdx.x] = static_cast<float>(log(sum));
}

struct LogitAt {
    uint64_t seed;
    int width;
    __host__ __device__ __half operator()(size_t i) const {
        const double row = static_cast<double>((i / width) % 17);
        return __float2half(static_cast<float>(12 * book::uniform01(seed, 77, i) - 6 + row));
    }
};

template <class T>
Rows<T> make_rows(book::Problem& p, int rows, int width, book::Tolerance allowed) {
    Rows<T> d{rows, width};
    const size_t count = size_t(rows) * width;
    d.x = p.uniform<T>(count, -5, 5);
    d.y = p.output<T>(count);
    d.moments = p.output<float2>(rows);
    p.needs({.dram_bytes = 2.0 * sizeof(T) * count, .special_op = 1.0 * count});
    p.check<T>(d.y, count, allowed, [=](T* expected) {
        reference_softmax<T><<<rows, 256>>>(d, expected);
    });
    return d;
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("f16_32768", [](book::Problem& p) {
        const auto d = make_rows<__half>(p, 1848, 32768, {0.01, 1e-6});
        p.variant("two_kernels", [=] { two_kernels(d); });
        p.variant("float_buffer", [=] { float_buffer(d); });
        p.variant("half_buffer", [=] { half_buffer(d); });
        p.variant("half_buffer_512", [=] { half_buffer_512(d); });
    });
    book.problem("capped_logits", [](book::Problem& p) {
        Logits d{1056, 65536};
        const size_t count = size_t(d.rows) * d.width;
        d.x = p.input<__half>(count, LogitAt{p.seed(), d.width});
        d.lse = p.output<float>(d.rows);
        p.needs({.dram_bytes = 2.0 * count, .special_op = 2.0 * count});
        p.check<float>(d.lse, d.rows, {0.001, 0.03}, [=](float* expected) {
            reference_lse<<<d.rows, 256>>>(d, expected);
        });
        p.variant("element_wise", [=] { element_wise(d); });
        p.variant("group_wise", [=] { group_wise(d); });
    });
    book.problem("f16_128", [](book::Problem& p) {
        const auto d = make_rows<__half>(p, 405504, 128, {0.01, 1e-5});
        p.variant("warps_alone", [=] { warps_alone(d); });
        p.variant("warps_in_eights", [=] { warps_in_eights(d); });
    });
    book.problem("f16_2048", [](book::Problem& p) {
        const auto d = make_rows<__half>(p, 264 * 92, 2048, {0.01, 1e-6});
        p.variant("stream_by_halves", [=] { stream_by_halves(d); });
        p.variant("stream_by_warps", [=] { stream_by_warps(d); });
    });
    book.problem("f32_8192", [](book::Problem& p) {
        const auto d = make_rows<float>(p, 3168, 8192, {1e-4, 1e-9});
        p.variant("any_width", [=] { any_width(d); });
        p.variant("held_twelve", [=] { held_twelve(d); });
        p.variant("held_four", [=] { held_four(d); });
        p.variant("held_wide", [=] { held_wide(d); });
    });
    return book.finish();
}
