// Sample covariance of a sensor array: per frequency bin, C = X X^T / snapshots, X has a row of
// snapshots for each of 128 channels. Products of half values, sums in float.
#include "../../harness/book.h"

template <class T>
struct Recording {
    int bins, snapshots;
    const T* samples;  // [bin][channel][snapshot]
    float* covariance;  // [bin][channel][channel]
    __half* scratch;    // as many as samples
};

//: shared
constexpr int kChannels = 128;
constexpr int kChunk = 64;  // snapshots that are in shared memory at a time
constexpr int kThreads = 256;

__device__ inline unsigned shared_address(const void* pointer) {
    return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

__device__ inline void load_fragment(unsigned (&r)[4], const __half* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(row))
                 : "memory");
}

__device__ inline void multiply_add(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// A warp's part of the covariance: 16 * Down rows, 16 * Across columns.
template <int Down, int Across>
struct Part {
    float sums[Down][2 * Across][4];

    __device__ void clear() {
        for (int i = 0; i < Down; ++i)
            for (int j = 0; j < 2 * Across; ++j)
                for (int k = 0; k < 4; ++k) sums[i][j][k] = 0;
    }

    template <int Stride>
    __device__ void add(const __half* tile, int row, int column) {
        const int lane = threadIdx.x % 32;
        const int a_row = lane % 16, a_column = lane / 16 * 8;
        const int b_row = lane % 8 + lane / 16 * 8, b_column = lane / 8 % 2 * 8;
#pragma unroll
        for (int k = 0; k < kChunk; k += 16) {
            unsigned a[Down][4];
#pragma unroll
            for (int i = 0; i < Down; ++i) {
                load_fragment(a[i], tile + (row + 16 * i + a_row) * Stride + k + a_column);
            }
#pragma unroll
            for (int j = 0; j < Across; ++j) {
                unsigned b[4];
                load_fragment(b, tile + (column + 16 * j + b_row) * Stride + k + b_column);
#pragma unroll
                for (int i = 0; i < Down; ++i) {
                    multiply_add(sums[i][2 * j], a[i], b[0], b[1]);
                    multiply_add(sums[i][2 * j + 1], a[i], b[2], b[3]);
                }
            }
        }
    }

    __device__ void store(float* out, int row, int column, float scale) const {
        const int lane = threadIdx.x % 32;
        for (int i = 0; i < Down; ++i) {
            for (int j = 0; j < 2 * Across; ++j) {
                float* to = out + (row + 16 * i + lane / 4) * kChannels + column + 8 * j + lane % 4 * 2;
                const float* c = sums[i][j];
                *reinterpret_cast<float2*>(to) = make_float2(scale * c[0], scale * c[1]);
                *reinterpret_cast<float2*>(to + 8 * kChannels) = make_float2(scale * c[2], scale * c[3]);
            }
        }
    }
};

template <int Stride>
__device__ inline void copy_chunk(__half* tile, const __half* from, int snapshots) {
#pragma unroll
    for (int i = threadIdx.x; i < kChannels * kChunk / 8; i += kThreads) {
        const int channel = i / (kChunk / 8), at = i % (kChunk / 8) * 8;
        *reinterpret_cast<uint4*>(tile + channel * Stride + at) =
            *reinterpret_cast<const uint4*>(from + size_t(channel) * snapshots + at);
    }
}

template <int Stride>
__device__ inline void start_copy(__half* tile, const __half* from, int snapshots) {
#pragma unroll
    for (int i = threadIdx.x; i < kChannels * kChunk / 8; i += kThreads) {
        const int channel = i / (kChunk / 8), at = i % (kChunk / 8) * 8;
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::
                         "r"(shared_address(tile + channel * Stride + at)),
                     "l"(from + size_t(channel) * snapshots + at)
                     : "memory");
    }
}

__device__ inline void commit_copy() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int Left>
__device__ inline void await_copy() {
    asm volatile("cp.async.wait_group %0;" ::"n"(Left) : "memory");
}

// One block per bin; eight warps, each with 64 x 32 of the covariance.
template <int Stride>
__global__ void __launch_bounds__(kThreads, 2)
    covariance_staged(const __half* samples, float* covariance, int snapshots) {
    __shared__ __align__(16) __half tile[kChannels * Stride];
    const __half* from = samples + size_t(blockIdx.x) * kChannels * snapshots;
    const int warp = threadIdx.x / 32, row = warp / 4 * 64, column = warp % 4 * 32;
    Part<4, 2> part;
    part.clear();
    for (int at = 0; at < snapshots; at += kChunk) {
        copy_chunk<Stride>(tile, from + at, snapshots);
        __syncthreads();
        part.template add<Stride>(tile, row, column);
        __syncthreads();
    }
    part.store(covariance + size_t(blockIdx.x) * kChannels * kChannels, row, column, 1.0f / snapshots);
}

// The blocks of a bin have Columns of the covariance each; chunks are copied ahead.
template <int Stride, int Columns, int Stages, int BlocksPerSm>
__global__ void __launch_bounds__(kThreads, BlocksPerSm)
    covariance_ahead(const __half* samples, float* covariance, int snapshots) {
    extern __shared__ __align__(16) __half tiles[];
    constexpr int kTile = kChannels * Stride;
    constexpr int kDown = Columns / 32;  // 8 / kDown warps one below the other, kDown side by side
    const __half* from = samples + size_t(blockIdx.y) * kChannels * snapshots;
    const int warp = threadIdx.x / 32, row = warp % (8 / kDown) * 16 * kDown;
    const int column = blockIdx.x * Columns + warp / (8 / kDown) * 32;
    static_assert(kDown == 2 || kDown == 4);
    const int chunks = snapshots / kChunk;
    Part<kDown, 2> part;
    part.clear();
    for (int i = 0; i < Stages - 1; ++i) {
        if (i < chunks) start_copy<Stride>(tiles + i * kTile, from + i * kChunk, snapshots);
        commit_copy();
    }
    for (int i = 0; i < chunks; ++i) {
        await_copy<Stages - 2>();
        __syncthreads();
        const int next = i + Stages - 1;
        if (next < chunks) {
            start_copy<Stride>(tiles + next % Stages * kTile, from + next * kChunk, snapshots);
        }
        commit_copy();
        part.template add<Stride>(tiles + i % Stages * kTile, row, column);
    }
    part.store(covariance + size_t(blockIdx.y) * kChannels * kChannels, row, column, 1.0f / snapshots);
}

template <int Stride, int Columns, int BlocksPerSm>
void launch_ahead(const Recording<__half>& r) {
    constexpr int kStages = 3;
    constexpr int kBytes = kStages * kChannels * Stride * int(sizeof(__half));
    const auto kernel = covariance_ahead<Stride, Columns, kStages, BlocksPerSm>;
    BOOK_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
    kernel<<<dim3(kChannels / Columns, r.bins), kThreads, kBytes>>>(r.samples, r.covariance, r.snapshots);
}
//: end

//: variant outer_products
// Each thread sums an 8 x 8 part in registers, from chunks that are turned to lie along channels.
__global__ void __launch_bounds__(kThreads, 2)
    covariance_outer(const __half* samples, float* covariance, int snapshots) {
    constexpr int kDepth = 16, kStride = kChannels + 4;
    __shared__ __align__(16) float tile[kDepth * kStride];
    const __half* from = samples + size_t(blockIdx.x) * kChannels * snapshots;
    const int channel = threadIdx.x / 2, half_row = threadIdx.x % 2 * 8;
    const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    float sums[8][8] = {};
    uint4 ahead = *reinterpret_cast<const uint4*>(from + size_t(channel) * snapshots + half_row);
    for (int at = 0; at < snapshots; at += kDepth) {
        const __half2* pairs = reinterpret_cast<const __half2*>(&ahead);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float2 v = __half22float2(pairs[i]);
            tile[(half_row + 2 * i) * kStride + channel] = v.x;
            tile[(half_row + 2 * i + 1) * kStride + channel] = v.y;
        }
        __syncthreads();
        if (at + kDepth < snapshots) {
            ahead = *reinterpret_cast<const uint4*>(from + size_t(channel) * snapshots + at + kDepth + half_row);
        }
#pragma unroll
        for (int k = 0; k < kDepth; ++k) {
            const float* line = tile + k * kStride;
            float a[8], b[8];
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                *reinterpret_cast<float4*>(a + 4 * h) = *reinterpret_cast<const float4*>(line + 64 * h + 4 * ty);
                *reinterpret_cast<float4*>(b + 4 * h) = *reinterpret_cast<const float4*>(line + 64 * h + 4 * tx);
            }
#pragma unroll
            for (int i = 0; i < 8; ++i)
#pragma unroll
                for (int j = 0; j < 8; ++j) sums[i][j] += a[i] * b[j];
        }
        __syncthreads();
    }
    float* out = covariance + size_t(blockIdx.x) * kChannels * kChannels;
    const float scale = 1.0f / snapshots;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const int row = i / 4 * 64 + 4 * ty + i % 4;
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            *reinterpret_cast<float4*>(out + row * kChannels + 64 * h + 4 * tx) =
                make_float4(scale * sums[i][4 * h], scale * sums[i][4 * h + 1],
                            scale * sums[i][4 * h + 2], scale * sums[i][4 * h + 3]);
        }
    }
}

void outer_products(const Recording<__half>& r) {
    covariance_outer<<<r.bins, kThreads>>>(r.samples, r.covariance, r.snapshots);
}
//: end

//: variant fragments_64
void fragments_64(const Recording<__half>& r) {
    covariance_staged<64><<<r.bins, kThreads>>>(r.samples, r.covariance, r.snapshots);
}
//: end

//: variant fragments_72
void fragments_72(const Recording<__half>& r) {
    covariance_staged<72><<<r.bins, kThreads>>>(r.samples, r.covariance, r.snapshots);
}
//: end

//: variant ahead_80
void ahead_80(const Recording<__half>& r) {
    launch_ahead<80, 128, 2>(r);
}
//: end

//: variant ahead_72
void ahead_72(const Recording<__half>& r) {
    launch_ahead<72, 128, 2>(r);
}
//: end

//: variant ahead_72_half
void ahead_72_half(const Recording<__half>& r) {
    launch_ahead<72, 64, 3>(r);
}
//: end

//: variant halves_first
__global__ void to_halves(const float4* from, uint2* to, size_t quads) {
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < quads;
         i += size_t{gridDim.x} * blockDim.x) {
        const float4 v = from[i];
        const __half2 low = __floats2half2_rn(v.x, v.y), high = __floats2half2_rn(v.z, v.w);
        to[i] = make_uint2(*reinterpret_cast<const unsigned*>(&low), *reinterpret_cast<const unsigned*>(&high));
    }
}

void halves_first(const Recording<float>& r) {
    const size_t quads = size_t(r.bins) * kChannels * r.snapshots / 4;
    to_halves<<<132 * 8, 256>>>(reinterpret_cast<const float4*>(r.samples),
                                reinterpret_cast<uint2*>(r.scratch), quads);
    covariance_staged<72><<<r.bins, kThreads>>>(r.scratch, r.covariance, r.snapshots);
}
//: end

//: variant halves_on_the_way
template <int Stride>
__device__ inline void convert_chunk(__half* tile, const float* from, int snapshots) {
#pragma unroll
    for (int i = threadIdx.x; i < kChannels * kChunk / 4; i += kThreads) {
        const int channel = i / (kChunk / 4), at = i % (kChunk / 4) * 4;
        const float4 v = *reinterpret_cast<const float4*>(from + size_t(channel) * snapshots + at);
        const __half2 low = __floats2half2_rn(v.x, v.y), high = __floats2half2_rn(v.z, v.w);
        *reinterpret_cast<uint2*>(tile + channel * Stride + at) =
            make_uint2(*reinterpret_cast<const unsigned*>(&low), *reinterpret_cast<const unsigned*>(&high));
    }
}

template <int Stride>
__global__ void __launch_bounds__(kThreads, 2)
    covariance_of_floats(const float* samples, float* covariance, int snapshots) {
    __shared__ __align__(16) __half tile[kChannels * Stride];
    const float* from = samples + size_t(blockIdx.x) * kChannels * snapshots;
    const int warp = threadIdx.x / 32, row = warp / 4 * 64, column = warp % 4 * 32;
    Part<4, 2> part;
    part.clear();
    for (int at = 0; at < snapshots; at += kChunk) {
        convert_chunk<Stride>(tile, from + at, snapshots);
        __syncthreads();
        part.template add<Stride>(tile, row, column);
        __syncthreads();
    }
    part.store(covariance + size_t(blockIdx.x) * kChannels * kChannels, row, column, 1.0f / snapshots);
}

void halves_on_the_way(const Recording<float>& r) {
    covariance_of_floats<72><<<r.bins, kThreads>>>(r.samples, r.covariance, r.snapshots);
}
//: end

template <class T>
__global__ void reference_covariance(const T* samples, float* expected, int snapshots) {
    const int bin = blockIdx.x;
    for (int i = threadIdx.x; i < 128 * 128; i += blockDim.x) {
        const T* a = samples + (size_t(bin) * 128 + i / 128) * snapshots;
        const T* b = samples + (size_t(bin) * 128 + i % 128) * snapshots;
        double sum = 0;
        for (int k = 0; k < snapshots; ++k) {
            sum += double(__half2float(__half(a[k]))) * double(__half2float(__half(b[k])));
        }
        expected[size_t(bin) * 128 * 128 + i] = float(sum / snapshots);
    }
}

template <class T>
Recording<T> set_up(book::Problem& p, int bins, int snapshots, bool scratch) {
    Recording<T> r{bins, snapshots};
    const size_t count = size_t(bins) * kChannels * snapshots, results = size_t(bins) * kChannels * kChannels;
    r.samples = p.uniform<T>(count, -1, 1);
    r.covariance = p.output<float>(results);
    r.scratch = scratch ? p.output<__half>(count) : nullptr;
    p.needs({.dram_bytes = double(sizeof(T)) * count + 4.0 * results,
             .tensor_flop = 2.0 * results * snapshots});
    p.check<float>(r.covariance, results, {1e-3, 3e-4}, [=](float* expected) {
        reference_covariance<<<bins, 1024>>>(r.samples, expected, snapshots);
    });
    return r;
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("halves", [](book::Problem& p) {
        const auto r = set_up<__half>(p, 528, 1024, false);
        p.variant("outer_products", [=] { outer_products(r); });
        p.variant("fragments_64", [=] { fragments_64(r); });
        p.variant("fragments_72", [=] { fragments_72(r); });
        p.variant("ahead_80", [=] { ahead_80(r); });
        p.variant("ahead_72", [=] { ahead_72(r); });
        p.variant("ahead_72_half", [=] { ahead_72_half(r); });
    });
    book.problem("floats", [](book::Problem& p) {
        const auto r = set_up<float>(p, 264, 1024, true);
        p.variant("halves_first", [=] { halves_first(r); });
        p.variant("halves_on_the_way", [=] { halves_on_the_way(r); });
    });
    return book.finish();
}
