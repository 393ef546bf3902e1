// Orthonormal Walsh-Hadamard transforms of rows of 4096 floats, in natural order.
#include "../../harness/book.h"

struct Rows {
    int count;
    const float* in;
    float* out;
};

//: shared
constexpr int kRow = 4096;
constexpr int kThreads = 256;
constexpr float kScale = 1.0f / 64;

// Where entry 256 * high + 16 * middle + low of the row is in shared memory.
struct InOrder {
    static constexpr int kWords = kRow;
    __device__ static int at(int high, int middle, int low) { return 256 * high + 16 * middle + low; }
};

struct Padded {
    static constexpr int kWords = kRow + kRow / 16;
    __device__ static int at(int high, int middle, int low) { return 272 * high + 17 * middle + low; }
};

struct Swizzled {
    static constexpr int kWords = kRow + kRow / 16;
    __device__ static int at(int high, int middle, int low) {
        return 272 * high + 16 * middle + (low ^ middle);
    }
    __device__ static int at(int i) { return at(i / 256, i / 16 % 16, i % 16); }
};

template <int Count>
__device__ inline void butterflies(float (&v)[Count]) {
#pragma unroll
    for (int step = 1; step < Count; step *= 2) {
#pragma unroll
        for (int i = 0; i < Count; ++i) {
            if ((i & step) == 0) {
                const float a = v[i], b = v[i + step];
                v[i] = a + b;
                v[i + step] = a - b;
            }
        }
    }
}

// Which sixteen entries a thread has: those that differ in the high, middle or low digit.
enum class Digit { high, middle, low };

template <class Layout, Digit Own>
__device__ inline int place(int j) {
    const int upper = threadIdx.x / 16, lower = threadIdx.x % 16;
    if (Own == Digit::high) return Layout::at(j, upper, lower);
    if (Own == Digit::middle) return Layout::at(upper, j, lower);
    return Layout::at(upper, lower, j);
}

template <class Layout, Digit Own>
__device__ inline void put(float* row, const float (&v)[16]) {
#pragma unroll
    for (int j = 0; j < 16; ++j) row[place<Layout, Own>(j)] = v[j];
}

template <class Layout, Digit Own>
__device__ inline void take(const float* row, float (&v)[16]) {
#pragma unroll
    for (int j = 0; j < 16; ++j) v[j] = row[place<Layout, Own>(j)];
}

// A block per row; a thread transforms sixteen entries at a time, at strides 256, 16 and 1. Leaves
// sixteen neighbouring entries, from 16 * thread on.
template <class Layout>
__device__ inline void transform_by_16(const float* in, float* row, float (&v)[16]) {
#pragma unroll
    for (int j = 0; j < 16; ++j) v[j] = in[threadIdx.x + 256 * j];
    butterflies(v);
    put<Layout, Digit::high>(row, v);
    __syncthreads();
    take<Layout, Digit::middle>(row, v);
    butterflies(v);
    put<Layout, Digit::middle>(row, v);
    __syncthreads();
    take<Layout, Digit::low>(row, v);
    butterflies(v);
}

template <class Layout>
__global__ void __launch_bounds__(kThreads, 5) walsh_by_16(const float* in, float* out) {
    extern __shared__ float row[];
    const size_t base = size_t(blockIdx.x) * kRow;
    const int t = threadIdx.x;
    float v[16];
    transform_by_16<Layout>(in + base, row, v);
    put<Layout, Digit::low>(row, v);
    __syncthreads();
    take<Layout, Digit::high>(row, v);
#pragma unroll
    for (int j = 0; j < 16; ++j) out[base + t + 256 * j] = kScale * v[j];
}

template <class Layout>
void launch_by_16(const Rows& r, int bytes) {
    const auto kernel = walsh_by_16<Layout>;
    BOOK_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    kernel<<<r.count, kThreads, bytes>>>(r.in, r.out);
}

// A block per row; the row stays in shared memory, and each pass does the steps of Radix.
template <int Radix>
__device__ inline void pass(float* row, int stride) {
    for (int k = 0; k < kRow / Radix / kThreads; ++k) {
        const int q = threadIdx.x + k * kThreads;
        const int first = q / stride * stride * Radix + q % stride;
        float v[Radix];
#pragma unroll
        for (int j = 0; j < Radix; ++j) v[j] = row[Swizzled::at(first + stride * j)];
        butterflies(v);
#pragma unroll
        for (int j = 0; j < Radix; ++j) row[Swizzled::at(first + stride * j)] = v[j];
    }
}

template <int Radix>
__global__ void __launch_bounds__(kThreads) walsh_in_place(const float* in, float* out) {
    __shared__ float row[Swizzled::kWords];
    const size_t base = size_t(blockIdx.x) * kRow;
#pragma unroll
    for (int i = threadIdx.x; i < kRow; i += kThreads) row[Swizzled::at(i)] = in[base + i];
    __syncthreads();
#pragma unroll
    for (int stride = 1; stride < kRow; stride *= Radix) {
        pass<Radix>(row, stride);
        __syncthreads();
    }
#pragma unroll
    for (int i = threadIdx.x; i < kRow; i += kThreads) out[base + i] = kScale * row[Swizzled::at(i)];
}
//: end

//: variant pairs
void pairs(const Rows& r) {
    walsh_in_place<2><<<r.count, kThreads>>>(r.in, r.out);
}
//: end

//: variant fours
void fours(const Rows& r) {
    walsh_in_place<4><<<r.count, kThreads>>>(r.in, r.out);
}
//: end

//: variant by_16_in_order
void by_16_in_order(const Rows& r) {
    launch_by_16<InOrder>(r, InOrder::kWords * sizeof(float));
}
//: end

//: variant by_16_padded
void by_16_padded(const Rows& r) {
    launch_by_16<Padded>(r, Padded::kWords * sizeof(float));
}
//: end

//: variant by_16
void by_16(const Rows& r) {
    launch_by_16<Swizzled>(r, Swizzled::kWords * sizeof(float));
}
//: end

//: variant by_16_room_24k
// One launch configuration for all lengths of rows up to 24,576.
void by_16_room_24k(const Rows& r) {
    launch_by_16<Swizzled>(r, 24576 * sizeof(float));
}
//: end

//: variant by_16_room_12k
// One launch configuration for all lengths of rows up to 12,032.
void by_16_room_12k(const Rows& r) {
    launch_by_16<Swizzled>(r, 12032 * sizeof(float));
}
//: end

//: variant by_16_direct
__global__ void __launch_bounds__(kThreads, 5) walsh_by_16_direct(const float* in, float* out) {
    extern __shared__ float row[];
    const size_t base = size_t(blockIdx.x) * kRow;
    float v[16];
    transform_by_16<Swizzled>(in + base, row, v);
    float* to = out + base + 16 * threadIdx.x;
#pragma unroll
    for (int j = 0; j < 16; ++j) to[j] = kScale * v[j];
}

void by_16_direct(const Rows& r) {
    walsh_by_16_direct<<<r.count, kThreads, Swizzled::kWords * sizeof(float)>>>(r.in, r.out);
}
//: end

// H(4096) is the Kronecker product of H(64) and H(64).
__global__ void reference_walsh(const float* in, float* expected) {
    __shared__ double half_done[4096];
    const size_t base = size_t(blockIdx.x) * 4096;
    for (int i = threadIdx.x; i < 4096; i += blockDim.x) {
        double sum = 0;
        for (int c = 0; c < 64; ++c) {
            const double x = in[base + c * 64 + i % 64];
            sum += __popc(c & (i / 64)) % 2 ? -x : x;
        }
        half_done[i] = sum;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 4096; i += blockDim.x) {
        double sum = 0;
        for (int c = 0; c < 64; ++c) {
            const double x = half_done[i / 64 * 64 + c];
            sum += __popc(c & (i % 64)) % 2 ? -x : x;
        }
        expected[base + i] = float(sum / 64);
    }
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("rows", [](book::Problem& p) {
        Rows r{5280};
        const size_t entries = size_t(r.count) * kRow;
        r.in = p.uniform<float>(entries, -1, 1);
        r.out = p.output<float>(entries);
        p.needs({.dram_bytes = 8.0 * entries, .fp32_flop = 12.0 * entries});
        p.check<float>(r.out, entries, {1e-5, 2e-5}, [=](float* expected) {
            reference_walsh<<<r.count, 256>>>(r.in, expected);
        });
        p.variant("pairs", [=] { pairs(r); });
        p.variant("fours", [=] { fours(r); });
        p.variant("by_16_in_order", [=] { by_16_in_order(r); });
        p.variant("by_16_padded", [=] { by_16_padded(r); });
        p.variant("by_16", [=] { by_16(r); });
        p.variant("by_16_room_24k", [=] { by_16_room_24k(r); });
        p.variant("by_16_room_12k", [=] { by_16_room_12k(r); });
        p.variant("by_16_direct", [=] { by_16_direct(r); });
    });
    return book.finish();
}
