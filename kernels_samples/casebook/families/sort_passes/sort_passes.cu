// Parts of sorts: segments sorted by a block, short lists sorted by a thread, digit counts of a radix sort.
#include "../../harness/book.h"

struct Segments {
    int segments;
    const float* in;
    float* out;
};
struct Lists {
    int lists, length;
    const float* in;
    float* out;
};
struct Digits {
    unsigned count;
    const unsigned* keys;
    unsigned* counts;  // [8][16], zero at the start
};

//: shared
constexpr int kSegment = 1024;

// The key of the thread `stride` away, by way of shared memory.
struct Exchange {
    __device__ float with(float key, int stride) {
        __shared__ float keys[kSegment];
        keys[threadIdx.x] = key;
        __syncthreads();
        const float other = keys[threadIdx.x ^ stride];
        __syncthreads();
        return other;
    }
};

// The same, with two arrays that take turns.
struct TurnsExchange {
    int turn = 0;

    __device__ float with(float key, int stride) {
        __shared__ float keys[2][kSegment];
        keys[turn][threadIdx.x] = key;
        __syncthreads();
        const float other = keys[turn][threadIdx.x ^ stride];
        turn ^= 1;
        return other;
    }
};

// The same, within a warp where that is possible.
struct WarpExchange {
    Exchange in_block;

    __device__ float with(float key, int stride) {
        if (stride >= 32) return in_block.with(key, stride);
        return __shfl_xor_sync(0xffffffffu, key, stride);
    }
};

// Bitonic sort of 1,024 keys, one a thread.
template <class Way>
__device__ float sorted(Way& way, float key) {
    const int t = threadIdx.x;
    for (int size = 2; size <= kSegment; size *= 2) {
        for (int stride = size / 2; stride > 0; stride /= 2) {
            const float other = way.with(key, stride);
            const bool smaller = ((t & size) == 0) == ((t & stride) == 0);
            key = smaller ? fminf(key, other) : fmaxf(key, other);
        }
    }
    return key;
}

template <class Way>
__global__ void __launch_bounds__(kSegment, 2)
    sort_segments(const float* in, float* out, int segments_a_block) {
    Way way;
    for (int s = 0; s < segments_a_block; ++s) {
        const size_t i = (blockIdx.x * size_t(segments_a_block) + s) * kSegment + threadIdx.x;
        out[i] = sorted(way, in[i]);
    }
}
//: end

//: variant exchange_16
void exchange_16(const Segments& d) {
    const int segments_a_block = 16;
    sort_segments<Exchange><<<d.segments / segments_a_block, kSegment>>>(d.in, d.out, segments_a_block);
}
//: end

//: variant exchange_1
void exchange_1(const Segments& d) {
    const int segments_a_block = 1;
    sort_segments<Exchange><<<d.segments / segments_a_block, kSegment>>>(d.in, d.out, segments_a_block);
}
//: end

//: variant turns_1
void turns_1(const Segments& d) {
    const int segments_a_block = 1;
    sort_segments<TurnsExchange><<<d.segments / segments_a_block, kSegment>>>(d.in, d.out, segments_a_block);
}
//: end

//: variant warps_16
void warps_16(const Segments& d) {
    const int segments_a_block = 16;
    sort_segments<WarpExchange><<<d.segments / segments_a_block, kSegment>>>(d.in, d.out, segments_a_block);
}
//: end

//: variant warps_1
void warps_1(const Segments& d) {
    const int segments_a_block = 1;
    sort_segments<WarpExchange><<<d.segments / segments_a_block, kSegment>>>(d.in, d.out, segments_a_block);
}
//: end

//: variant warps_resident
__global__ void __launch_bounds__(kSegment, 2)
    sort_segments_resident(const float* in, float* out, int segments) {
    WarpExchange way;
    for (int s = blockIdx.x; s < segments; s += gridDim.x) {
        const size_t i = s * size_t{kSegment} + threadIdx.x;
        out[i] = sorted(way, in[i]);
    }
}

void warps_resident(const Segments& d) {
    sort_segments_resident<<<264, kSegment>>>(d.in, d.out, d.segments);
}
//: end

//: shared
constexpr int kLists = 256;  // of a block, one a thread

// Odd-even transposition sort of a short list.
__device__ inline void sort_list(float* list, int length) {
    for (int round = 0; round < length; ++round) {
        for (int i = round % 2; i + 1 < length; i += 2) {
            const float a = list[i], b = list[i + 1];
            if (b < a) {
                list[i] = b;
                list[i + 1] = a;
            }
        }
    }
}

// Each thread brings its own list to shared memory and back.
__global__ void __launch_bounds__(kLists)
    sort_lists_own(const float* in, float* out, int length, int pitch) {
    extern __shared__ float lists[];
    const size_t first = (blockIdx.x * size_t{kLists} + threadIdx.x) * length;
    float* list = lists + threadIdx.x * pitch;
    for (int k = 0; k < length; ++k) list[k] = in[first + k];
    sort_list(list, length);
    for (int k = 0; k < length; ++k) out[first + k] = list[k];
}

// The block brings its lists to shared memory and back, side by side. length * 2^k = 256.
__global__ void __launch_bounds__(kLists)
    sort_lists_together(const float* in, float* out, int length, int pitch) {
    extern __shared__ float lists[];
    const size_t first = blockIdx.x * size_t{kLists} * length;
    const int apart = kLists / length;
    float* place = lists + threadIdx.x / length * pitch + threadIdx.x % length;
    for (int k = 0; k < length; ++k) place[k * apart * pitch] = in[first + k * kLists + threadIdx.x];
    __syncthreads();
    sort_list(lists + threadIdx.x * pitch, length);
    __syncthreads();
    for (int k = 0; k < length; ++k) out[first + k * kLists + threadIdx.x] = place[k * apart * pitch];
}
//: end

//: variant own_16
void own_16(const Lists& d) {
    const int pitch = d.length;
    sort_lists_own<<<d.lists / kLists, kLists, kLists * pitch * sizeof(float)>>>(d.in, d.out, d.length, pitch);
}
//: end

//: variant own_17
void own_17(const Lists& d) {
    const int pitch = d.length + 1;
    sort_lists_own<<<d.lists / kLists, kLists, kLists * pitch * sizeof(float)>>>(d.in, d.out, d.length, pitch);
}
//: end

//: variant together_16
void together_16(const Lists& d) {
    const int pitch = d.length;
    sort_lists_together<<<d.lists / kLists, kLists, kLists * pitch * sizeof(float)>>>(d.in, d.out, d.length,
                                                                                      pitch);
}
//: end

//: variant together_17
void together_17(const Lists& d) {
    const int pitch = d.length + 1;
    sort_lists_together<<<d.lists / kLists, kLists, kLists * pitch * sizeof(float)>>>(d.in, d.out, d.length,
                                                                                      pitch);
}
//: end

//: variant digits_in_result
__global__ void __launch_bounds__(256) count_digits(const unsigned* keys, unsigned* counts, unsigned count) {
    for (unsigned i = blockIdx.x * 1024 + threadIdx.x; i < count; i += gridDim.x * 1024) {
        unsigned key[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) key[k] = keys[i + k * 256];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
#pragma unroll
            for (int p = 0; p < 8; ++p) atomicAdd(&counts[p * 16 + (key[k] >> 4 * p & 15)], 1u);
        }
    }
}

void digits_in_result(const Digits& d) { count_digits<<<132 * 8, 256>>>(d.keys, d.counts, d.count); }
//: end

//: variant digits_in_block
__global__ void __launch_bounds__(256)
    count_digits_block(const unsigned* keys, unsigned* counts, unsigned count) {
    __shared__ unsigned table[128];
    if (threadIdx.x < 128) table[threadIdx.x] = 0;
    __syncthreads();
    for (unsigned i = blockIdx.x * 1024 + threadIdx.x; i < count; i += gridDim.x * 1024) {
        unsigned key[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) key[k] = keys[i + k * 256];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
#pragma unroll
            for (int p = 0; p < 8; ++p) atomicAdd(&table[p * 16 + (key[k] >> 4 * p & 15)], 1u);
        }
    }
    __syncthreads();
    if (threadIdx.x < 128) atomicAdd(&counts[threadIdx.x], table[threadIdx.x]);
}

void digits_in_block(const Digits& d) { count_digits_block<<<132 * 8, 256>>>(d.keys, d.counts, d.count); }
//: end

//: variant digits_by_quads
__global__ void __launch_bounds__(256)
    count_digits_quads(const uint4* keys, unsigned* counts, unsigned quads) {
    __shared__ unsigned table[128];
    if (threadIdx.x < 128) table[threadIdx.x] = 0;
    __syncthreads();
    auto add = [&](unsigned key) {
#pragma unroll
        for (int p = 0; p < 8; ++p) atomicAdd(&table[p * 16 + (key >> 4 * p & 15)], 1u);
    };
    for (unsigned i = blockIdx.x * 256 + threadIdx.x; i < quads; i += gridDim.x * 256) {
        const uint4 v = keys[i];
        add(v.x), add(v.y), add(v.z), add(v.w);
    }
    __syncthreads();
    if (threadIdx.x < 128) atomicAdd(&counts[threadIdx.x], table[threadIdx.x]);
}

void digits_by_quads(const Digits& d) {
    count_digits_quads<<<132 * 8, 256>>>(reinterpret_cast<const uint4*>(d.keys), d.counts, d.count / 4);
}
//: end

// The place of a key is the number of keys of its group that come before it.
__global__ void reference_groups(const float* in, float* expected, size_t count, int length) {
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count;
         i += size_t{gridDim.x} * blockDim.x) {
        const size_t first = i / length * length;
        const float key = in[i];
        int before = 0;
        for (int k = 0; k < length; ++k) {
            const float other = in[first + k];
            before += other < key || (other == key && first + k < i);
        }
        expected[first + before] = key;
    }
}
__global__ void reference_digits(const unsigned* keys, unsigned* expected, unsigned stretch) {
    unsigned sum = 0;
    for (unsigned i = 0; i < stretch; ++i) {
        const unsigned key = keys[size_t(blockIdx.x) * stretch + i];
        sum += (key >> (4 * (threadIdx.x / 16))) % 16 == threadIdx.x % 16;
    }
    atomicAdd(&expected[threadIdx.x], sum);
}

Segments segments_of(book::Problem& p, int segments) {
    Segments d{segments};
    const size_t count = size_t(segments) * 1024;
    d.in = p.uniform<float>(count, -100, 100);
    d.out = p.output<float>(count);
    p.needs({.dram_bytes = 8.0 * count, .int_op = 10.0 * count});
    p.check<float>(d.out, count, {0}, [=](float* expected) {
        reference_groups<<<1056, 256>>>(d.in, expected, count, 1024);
    });
    return d;
}

Digits digits_of(book::Problem& p, unsigned count) {
    Digits d{count};
    d.keys = p.uniform<unsigned>(count, 0, 4294967296.0);
    d.counts = p.zeroed<unsigned>(128);
    p.needs({.dram_bytes = 4.0 * count, .int_op = 16.0 * count});
    p.check<unsigned>(d.counts, 128, {0}, [=](unsigned* expected) {
        reference_digits<<<4096, 128>>>(d.keys, expected, count / 4096);
    });
    return d;
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("segments_4352", [](book::Problem& p) {
        const Segments d = segments_of(p, 4352);
        p.variant("exchange_16", [=] { exchange_16(d); });
        p.variant("exchange_1", [=] { exchange_1(d); });
        p.variant("turns_1", [=] { turns_1(d); });
        p.variant("warps_16", [=] { warps_16(d); });
        p.variant("warps_1", [=] { warps_1(d); });
    });
    book.problem("segments_5290", [](book::Problem& p) {
        const Segments d = segments_of(p, 5290);
        p.variant("warps_1", [=] { warps_1(d); });
        p.variant("warps_resident", [=] { warps_resident(d); });
    });
    book.problem("lists_of_16", [](book::Problem& p) {
        Lists d{512 << 10, 16};
        const size_t count = size_t(d.lists) * d.length;
        d.in = p.uniform<float>(count, 0, 1);
        d.out = p.output<float>(count);
        p.needs({.dram_bytes = 8.0 * count, .int_op = 4.0 * count});
        p.check<float>(d.out, count, {0}, [=](float* expected) {
            reference_groups<<<1056, 256>>>(d.in, expected, count, d.length);
        });
        p.variant("own_16", [=] { own_16(d); });
        p.variant("own_17", [=] { own_17(d); });
        p.variant("together_16", [=] { together_16(d); });
        p.variant("together_17", [=] { together_17(d); });
    });
    book.problem("digits_4m", [](book::Problem& p) {
        const Digits d = digits_of(p, 4u << 20);
        p.variant("digits_in_result", [=] { digits_in_result(d); });
        p.variant("digits_in_block", [=] { digits_in_block(d); });
    });
    book.problem("digits_24m", [](book::Problem& p) {
        const Digits d = digits_of(p, 24u << 20);
        p.variant("digits_in_block", [=] { digits_in_block(d); });
        p.variant("digits_by_quads", [=] { digits_by_quads(d); });
    });
    return book.finish();
}
