// Batches of complex Fourier transforms: short ones, one a thread, and 1,024 points, one a block.
#include "../../harness/book.h"

//: shared
struct Batch {
    int transforms;
    const float2* in;
    float2* out;
    float2* scratch;
};

__constant__ float2 twiddle_32[16];  // exp(-2 pi i k / 32)

__device__ inline float2 product(float2 a, float2 b) {
    return make_float2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}
__device__ inline float2 sum(float2 a, float2 b) { return make_float2(a.x + b.x, a.y + b.y); }
__device__ inline float2 difference(float2 a, float2 b) {
    return make_float2(a.x - b.x, a.y - b.y);
}

constexpr int kRows = 64;  // transforms, and threads, of a block
constexpr int kPoints = 32;

// The rows of a block, in bit-reversed order. Rows are kRow elements apart in shared memory.
template <int kRow>
__device__ inline void read_rows(const float2* in, float2* rows) {
    for (int i = threadIdx.x; i < kRows * kPoints; i += kRows) {
        const int place = __brev(i % kPoints) >> 27;
        rows[i / kPoints * kRow + place] = in[size_t(blockIdx.x) * kRows * kPoints + i];
    }
    __syncthreads();
}
template <int kRow>
__device__ inline void write_rows(const float2* rows, float2* out) {
    __syncthreads();
    for (int i = threadIdx.x; i < kRows * kPoints; i += kRows) {
        out[size_t(blockIdx.x) * kRows * kPoints + i] = rows[i / kPoints * kRow + i % kPoints];
    }
}

// Works in the row itself.
template <int kRow>
__global__ void fft_in_rows(const float2* in, float2* out, int points) {
    __shared__ float2 rows[kRows * kRow];
    read_rows<kRow>(in, rows);
    float2* mine = rows + threadIdx.x * kRow;
    for (int half = 1, step = points / 2; half < points; half *= 2, step /= 2) {
        for (int b = 0; b < points / 2; ++b) {
            const int k = b & (half - 1);
            const int low = 2 * b - k, high = low + half;
            const float2 a = mine[low];
            const float2 c = product(mine[high], twiddle_32[k * step]);
            mine[low] = sum(a, c);
            mine[high] = difference(a, c);
        }
    }
    write_rows<kRow>(rows, out);
}

// Works on a copy of the row.
template <int kRow>
__global__ void fft_copied_rows(const float2* in, float2* out, int points) {
    __shared__ float2 rows[kRows * kRow];
    read_rows<kRow>(in, rows);
    float2* mine = rows + threadIdx.x * kRow;
    float2 v[kPoints];
    for (int i = 0; i < points; ++i) v[i] = mine[i];
    for (int half = 1, step = points / 2; half < points; half *= 2, step /= 2) {
        for (int b = 0; b < points / 2; ++b) {
            const int k = b & (half - 1);
            const int low = 2 * b - k, high = low + half;
            const float2 a = v[low];
            const float2 c = product(v[high], twiddle_32[k * step]);
            v[low] = sum(a, c);
            v[high] = difference(a, c);
        }
    }
    for (int i = 0; i < points; ++i) mine[i] = v[i];
    write_rows<kRow>(rows, out);
}

// The same for one number of points.
template <int kRow>
__global__ void fft_fixed_rows(const float2* in, float2* out) {
    __shared__ float2 rows[kRows * kRow];
    read_rows<kRow>(in, rows);
    float2* mine = rows + threadIdx.x * kRow;
    float2 v[kPoints];
#pragma unroll
    for (int i = 0; i < kPoints; ++i) v[i] = mine[i];
#pragma unroll
    for (int stage = 0; stage < 5; ++stage) {
        const int half = 1 << stage;
#pragma unroll
        for (int b = 0; b < kPoints / 2; ++b) {
            const int k = b & (half - 1);
            const int low = 2 * b - k, high = low + half;
            const float2 a = v[low];
            const float2 c = product(v[high], twiddle_32[k * (kPoints / 2) / half]);
            v[low] = sum(a, c);
            v[high] = difference(a, c);
        }
    }
#pragma unroll
    for (int i = 0; i < kPoints; ++i) mine[i] = v[i];
    write_rows<kRow>(rows, out);
}
//: end

//: variant rows_32
void rows_32(const Batch& d) {
    constexpr int kRow = 32;
    fft_in_rows<kRow><<<d.transforms / kRows, kRows>>>(d.in, d.out, kPoints);
}
//: end

//: variant rows_34
void rows_34(const Batch& d) {
    constexpr int kRow = 34;  // keeps rows aligned to 16 bytes
    fft_in_rows<kRow><<<d.transforms / kRows, kRows>>>(d.in, d.out, kPoints);
}
//: end

//: variant rows_33
void rows_33(const Batch& d) {
    constexpr int kRow = 33;
    fft_in_rows<kRow><<<d.transforms / kRows, kRows>>>(d.in, d.out, kPoints);
}
//: end

//: variant copied_32
void copied_32(const Batch& d) {
    constexpr int kRow = 32;
    fft_copied_rows<kRow><<<d.transforms / kRows, kRows>>>(d.in, d.out, kPoints);
}
//: end

//: variant copied_33
void copied_33(const Batch& d) {
    constexpr int kRow = 33;
    fft_copied_rows<kRow><<<d.transforms / kRows, kRows>>>(d.in, d.out, kPoints);
}
//: end

//: variant fixed_32
void fixed_32(const Batch& d) {
    constexpr int kRow = 32;
    fft_fixed_rows<kRow><<<d.transforms / kRows, kRows>>>(d.in, d.out);
}
//: end

//: variant fixed_33
void fixed_33(const Batch& d) {
    constexpr int kRow = 33;
    fft_fixed_rows<kRow><<<d.transforms / kRows, kRows>>>(d.in, d.out);
}
//: end

//: shared
constexpr int kLong = 1024;
constexpr float kGain = 0.00037f;  // of the receiver: spectra are in volts
constexpr int kQuarter = kLong / 4;  // threads of a block, one radix-4 butterfly each

__device__ inline int padded(int i) { return i + (i >> 4); }

__device__ inline void butterfly_4(float2 (&v)[4], float2 w) {
    const float2 w2 = product(w, w);
    const float2 a = v[0], b = product(v[1], w), c = product(v[2], w2);
    const float2 d = product(v[3], product(w2, w));
    const float2 even = sum(a, c), odd = difference(a, c);
    const float2 both = sum(b, d), turned = make_float2(b.y - d.y, d.x - b.x);
    v[0] = sum(even, both);
    v[1] = sum(odd, turned);
    v[2] = difference(even, both);
    v[3] = difference(odd, turned);
}

template <int kStride>
__device__ inline void put(const float2 (&v)[4], float2* work) {
    const int j = threadIdx.x;
    const int to = j / kStride * kStride * 4 + j % kStride;
#pragma unroll
    for (int r = 0; r < 4; ++r) work[padded(to + r * kStride)] = v[r];
    __syncthreads();
}
__device__ inline void take(float2 (&v)[4], const float2* work) {
#pragma unroll
    for (int r = 0; r < 4; ++r) v[r] = work[padded(threadIdx.x + r * kQuarter)];
    __syncthreads();
}

// Stockham's five stages; Roots::at<s>(k) is exp(-2 pi i k / (4 s)).
template <class Roots>
__global__ void __launch_bounds__(kQuarter) fft_1024(const float2* in, float2* out, float factor) {
    __shared__ float2 work[kLong + kLong / 16];
    const int j = threadIdx.x;
    const size_t first = size_t(blockIdx.x) * kLong;
    float2 v[4];
#pragma unroll
    for (int r = 0; r < 4; ++r) v[r] = in[first + j + r * kQuarter];
    butterfly_4(v, make_float2(1, 0));
    put<1>(v, work);
    take(v, work);
    butterfly_4(v, Roots::template at<4>(j % 4));
    put<4>(v, work);
    take(v, work);
    butterfly_4(v, Roots::template at<16>(j % 16));
    put<16>(v, work);
    take(v, work);
    butterfly_4(v, Roots::template at<64>(j % 64));
    put<64>(v, work);
    take(v, work);
    butterfly_4(v, Roots::template at<256>(j));
#pragma unroll
    for (int r = 0; r < 4; ++r) {
        out[first + j + r * kQuarter] = make_float2(factor * v[r].x, factor * v[r].y);
    }
}
//: end

//: variant roots_pi
struct RootsPi {
    template <int kStride>
    static __device__ float2 at(int k) {
        double sine, cosine;
        sincospi(-0.5 * k / kStride, &sine, &cosine);
        return make_float2(cosine, sine);
    }
};

void roots_pi(const Batch& d) {
    fft_1024<RootsPi><<<d.transforms, kQuarter>>>(d.in, d.out, kGain);
}
//: end

//: variant roots_pif
struct RootsPif {
    template <int kStride>
    static __device__ float2 at(int k) {
        float sine, cosine;
        sincospif(-0.5f * k / kStride, &sine, &cosine);
        return make_float2(cosine, sine);
    }
};

void roots_pif(const Batch& d) {
    fft_1024<RootsPif><<<d.transforms, kQuarter>>>(d.in, d.out, kGain);
}
//: end

//: variant scaled_pi
struct ScaledRootsPi {
    template <int kStride>
    static __device__ float2 at(int k) {
        double sine, cosine;
        sincospi(-0.5 * k / kStride, &sine, &cosine);
        return make_float2(cosine, sine);
    }
};

__global__ void scale_pi(const float2* in, float2* out, float factor) {
    const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    out[i] = make_float2(factor * in[i].x, factor * in[i].y);
}

void scaled_pi(const Batch& d) {
    fft_1024<ScaledRootsPi><<<d.transforms, kQuarter>>>(d.in, d.scratch, 1.0f);
    scale_pi<<<d.transforms * 4, kLong / 4>>>(d.scratch, d.out, kGain);
}
//: end

//: variant scaled_pif
struct ScaledRootsPif {
    template <int kStride>
    static __device__ float2 at(int k) {
        float sine, cosine;
        sincospif(-0.5f * k / kStride, &sine, &cosine);
        return make_float2(cosine, sine);
    }
};

__global__ void scale_pif(const float2* in, float2* out, float factor) {
    const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    out[i] = make_float2(factor * in[i].x, factor * in[i].y);
}

void scaled_pif(const Batch& d) {
    fft_1024<ScaledRootsPif><<<d.transforms, kQuarter>>>(d.in, d.scratch, 1.0f);
    scale_pif<<<d.transforms * 4, kLong / 4>>>(d.scratch, d.out, kGain);
}
//: end

//: variant wide_pif
struct WideRootsPif {
    template <int kStride>
    static __device__ float2 at(int k) {
        float sine, cosine;
        sincospif(-0.5f * k / kStride, &sine, &cosine);
        return make_float2(cosine, sine);
    }
};

__global__ void scale_wide_pif(const float4* in, float4* out, float factor) {
    const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    const float4 v = in[i];
    out[i] = make_float4(factor * v.x, factor * v.y, factor * v.z, factor * v.w);
}

void wide_pif(const Batch& d) {
    fft_1024<WideRootsPif><<<d.transforms, kQuarter>>>(d.in, d.scratch, 1.0f);
    scale_wide_pif<<<d.transforms * 2, kLong / 4>>>(reinterpret_cast<const float4*>(d.scratch),
                                                    reinterpret_cast<float4*>(d.out), kGain);
}
//: end

//: variant volts_pif
struct VoltsRootsPif {
    template <int kStride>
    static __device__ float2 at(int k) {
        float sine, cosine;
        sincospif(-0.5f * k / kStride, &sine, &cosine);
        return make_float2(cosine, sine);
    }
};

__global__ void to_volts_pif(const float2* in, float2* out) {
    const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    out[i] = make_float2(in[i].x * 0.00037, in[i].y * 0.00037);
}

void volts_pif(const Batch& d) {
    fft_1024<VoltsRootsPif><<<d.transforms, kQuarter>>>(d.in, d.scratch, 1.0f);
    to_volts_pif<<<d.transforms * 4, kLong / 4>>>(d.scratch, d.out);
}
//: end

// By definition, in double.
__global__ void reference_dft(const float2* in, float2* expected, int transforms, int points,
                              float factor) {
    extern __shared__ double2 root[];
    for (int i = threadIdx.x; i < points; i += blockDim.x) {
        double s, c;
        sincospi(-2.0 * i / points, &s, &c);
        root[i] = make_double2(c, s);
    }
    __syncthreads();
    const size_t total = size_t(transforms) * points;
    for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < total;
         i += size_t(gridDim.x) * blockDim.x) {
        const float2* x = in + i / points * points;
        const int frequency = int(i % points);
        double real = 0, imaginary = 0;
        int at = 0;
        for (int n = 0; n < points; ++n) {
            const double2 w = root[at];
            real += x[n].x * w.x - x[n].y * w.y;
            imaginary += x[n].x * w.y + x[n].y * w.x;
            at = (at + frequency) % points;
        }
        expected[i] = make_float2(float(factor * real), float(factor * imaginary));
    }
}

Batch batch_data(book::Problem& p, int transforms, int points, float factor, double tolerance) {
    Batch d{transforms};
    const size_t count = size_t(transforms) * points;
    d.in = reinterpret_cast<const float2*>(p.uniform<float>(2 * count, -1, 1));
    d.out = p.output<float2>(count);
    d.scratch = points == kLong ? p.output<float2>(count) : nullptr;
    p.needs({.dram_bytes = 16.0 * count, .fp32_flop = 5.0 * count * std::log2(double(points))});
    p.check<float>(reinterpret_cast<const float*>(d.out), 2 * count, {1e-4, tolerance},
                   [=](float* expected) {
                       reference_dft<<<1056, 256, points * sizeof(double2)>>>(
                           d.in, reinterpret_cast<float2*>(expected), transforms, points, factor);
                   });
    return d;
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("short_32", [](book::Problem& p) {
        float2 table[16];
        for (int k = 0; k < 16; ++k) {
            const double angle = -2 * 3.14159265358979323846 * k / 32;
            table[k] = make_float2(float(std::cos(angle)), float(std::sin(angle)));
        }
        BOOK_CHECK(cudaMemcpyToSymbol(twiddle_32, table, sizeof table));
        const Batch d = batch_data(p, 393216, kPoints, 1, 1e-4);
        p.variant("rows_32", [=] { rows_32(d); });
        p.variant("rows_34", [=] { rows_34(d); });
        p.variant("rows_33", [=] { rows_33(d); });
        p.variant("copied_32", [=] { copied_32(d); });
        p.variant("copied_33", [=] { copied_33(d); });
        p.variant("fixed_32", [=] { fixed_32(d); });
        p.variant("fixed_33", [=] { fixed_33(d); });
    });
    book.problem("long_1024", [](book::Problem& p) {
        const Batch d = batch_data(p, 10240, kLong, kGain, 3e-6);
        p.variant("roots_pi", [=] { roots_pi(d); });
        p.variant("roots_pif", [=] { roots_pif(d); });
        p.variant("scaled_pi", [=] { scaled_pi(d); });
        p.variant("scaled_pif", [=] { scaled_pif(d); });
        p.variant("wide_pif", [=] { wide_pif(d); });
        p.variant("volts_pif", [=] { volts_pif(d); });
    });
    return book.finish();
}
