// Lower bounds in sorted 32-bit keys: for each query the number of keys below it.
#include "../../harness/book.h"

//: shared
struct Search {
    uint32_t keys_count, count;
    const uint32_t* keys;     // sorted
    const uint32_t* queries;
    uint32_t* space;          // room for the keys on the GPU
    uint32_t* found;
};

// kEach searches side by side, all with the same number of steps.
template <int kEach>
__device__ void lower_bounds(const uint32_t* keys, uint32_t keys_count, const uint32_t (&wanted)[kEach],
                             uint32_t (&at)[kEach]) {
#pragma unroll
    for (int e = 0; e < kEach; ++e) at[e] = 0;
    for (uint32_t left = keys_count; left > 1;) {
        const uint32_t half = left / 2;
#pragma unroll
        for (int e = 0; e < kEach; ++e) {
            if (keys[at[e] + half - 1] < wanted[e]) at[e] += half;
        }
        left -= half;
    }
#pragma unroll
    for (int e = 0; e < kEach; ++e) at[e] += keys[at[e]] < wanted[e];
}

// One pass: each thread has kEach queries, a block apart.
template <int kThreads, int kEach>
__global__ void search_once(const uint32_t* __restrict__ keys, uint32_t keys_count,
                            const uint32_t* __restrict__ queries, uint32_t* __restrict__ found,
                            uint32_t count) {
    const uint32_t first = blockIdx.x * (kThreads * kEach) + threadIdx.x;
    uint32_t wanted[kEach], at[kEach];
#pragma unroll
    for (int e = 0; e < kEach; ++e) wanted[e] = queries[min(first + e * kThreads, count - 1)];
    lower_bounds<kEach>(keys, keys_count, wanted, at);
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
        if (first + e * kThreads < count) found[first + e * kThreads] = at[e];
    }
}

template <int kThreads, int kEach>
void one_pass(const Search& s, const uint32_t* keys) {
    constexpr uint32_t kTile = kThreads * kEach;
    search_once<kThreads, kEach><<<(s.count + kTile - 1) / kTile, kThreads>>>(
        keys, s.keys_count, s.queries, s.found, s.count);
}
//: end

//: variant warps
void warps(const Search& s) {
    one_pass<32, 1>(s, s.keys);
}
//: end

//: variant warps_two
void warps_two(const Search& s) {
    one_pass<32, 2>(s, s.keys);
}
//: end

//: variant blocks_704
void blocks_704(const Search& s) {
    one_pass<704, 1>(s, s.keys);
}
//: end

//: variant blocks
void blocks(const Search& s) {
    one_pass<256, 1>(s, s.keys);
}
//: end

//: variant blocks_two
void blocks_two(const Search& s) {
    one_pass<256, 2>(s, s.keys);
}
//: end

//: variant resident
__global__ void search_resident(const uint32_t* __restrict__ keys, uint32_t keys_count,
                                const uint32_t* __restrict__ queries, uint32_t* __restrict__ found,
                                uint32_t count) {
    const uint32_t step = gridDim.x * blockDim.x;
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        uint32_t wanted[1] = {queries[i]}, at[1];
        lower_bounds<1>(keys, keys_count, wanted, at);
        found[i] = at[0];
    }
}

void resident(const Search& s) {
    search_resident<<<132 * 2, 256>>>(s.keys, s.keys_count, s.queries, s.found, s.count);
}
//: end

//: variant resident_four
__global__ void search_resident_four(const uint32_t* __restrict__ keys, uint32_t keys_count,
                                     const uint32_t* __restrict__ queries, uint32_t* __restrict__ found,
                                     uint32_t count) {
    const uint32_t step = gridDim.x * blockDim.x;
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += 4 * step) {
        uint32_t wanted[4], at[4];
#pragma unroll
        for (int e = 0; e < 4; ++e) wanted[e] = queries[min(i + e * step, count - 1)];
        lower_bounds<4>(keys, keys_count, wanted, at);
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            if (i + e * step < count) found[i + e * step] = at[e];
        }
    }
}

void resident_four(const Search& s) {
    search_resident_four<<<132 * 2, 256>>>(s.keys, s.keys_count, s.queries, s.found, s.count);
}
//: end

//: variant in_host_index
void in_host_index(const Search& s) {
    one_pass<128, 1>(s, s.keys);
}
//: end

//: variant in_copied_index
void in_copied_index(const Search& s) {
    BOOK_CHECK(cudaMemcpyAsync(s.space, s.keys, s.keys_count * sizeof(uint32_t), cudaMemcpyHostToDevice));
    one_pass<128, 1>(s, s.space);
}
//: end

__global__ void reference_search(const uint32_t* keys, uint32_t keys_count, const uint32_t* queries,
                                 uint32_t* expected, uint32_t count) {
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        uint32_t low = 0, high = keys_count;
        while (low < high) {
            const uint32_t middle = low + (high - low) / 2;
            if (keys[middle] < queries[i]) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        expected[i] = low;
    }
}

void checked(book::Problem& p, const Search& s) {
    p.check<uint32_t>(s.found, s.count, {0}, [=](uint32_t* expected) {
        reference_search<<<1056, 256>>>(s.keys, s.keys_count, s.queries, expected, s.count);
    });
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    constexpr uint32_t kGap = 200;  // between keys, on average
    // Queries in order, as in a join of two sorted columns.
    book.problem("in_order", [](book::Problem& p) {
        Search s{16u << 20, 8u << 20};
        const uint64_t seed = p.seed();
        s.keys = p.input<uint32_t>(s.keys_count, [=] __device__(size_t i) {
            return uint32_t(i * kGap + uint32_t(book::uniform01(seed, 11, i) * kGap));
        });
        s.queries = p.input<uint32_t>(s.count, [=] __device__(size_t i) {
            return uint32_t(i * (2 * kGap) + uint32_t(book::uniform01(seed, 12, i) * (2 * kGap)));
        });
        s.found = p.output<uint32_t>(s.count);
        p.needs({.dram_bytes = 4.0 * s.keys_count + 8.0 * s.count});
        checked(p, s);
        p.variant("warps", [=] { warps(s); });
        p.variant("warps_two", [=] { warps_two(s); });
        p.variant("blocks_704", [=] { blocks_704(s); });
        p.variant("blocks", [=] { blocks(s); });
        p.variant("blocks_two", [=] { blocks_two(s); });
        p.variant("resident", [=] { resident(s); });
        p.variant("resident_four", [=] { resident_four(s); });
    });
    // Queries in no order.
    book.problem("anywhere", [](book::Problem& p) {
        Search s{16u << 20, 2u << 20};
        const uint64_t seed = p.seed();
        s.keys = p.input<uint32_t>(s.keys_count, [=] __device__(size_t i) {
            return uint32_t(i * kGap + uint32_t(book::uniform01(seed, 11, i) * kGap));
        });
        s.queries = p.input<uint32_t>(s.count, [=] __device__(size_t i) {
            return uint32_t(book::uniform01(seed, 13, i) * (16u << 20) * kGap);
        });
        s.found = p.output<uint32_t>(s.count);
        // 63 % of the 2 million sectors of keys hold the place of some query.
        p.needs({.dram_bytes = 0.63 * 4.0 * s.keys_count + 8.0 * s.count});
        checked(p, s);
        p.variant("warps", [=] { warps(s); });
        p.variant("blocks_704", [=] { blocks_704(s); });
        p.variant("blocks", [=] { blocks(s); });
        p.variant("blocks_two", [=] { blocks_two(s); });
    });
    // The program keeps its index in pinned memory of the host.
    book.problem("host_index", [](book::Problem& p) {
        Search s{2u << 20, 64u << 10};
        const uint64_t seed = p.seed();
        uint32_t* keys = p.host_mapped<uint32_t>(s.keys_count);
        for (uint32_t i = 0; i < s.keys_count; ++i) {
            keys[i] = i * 2000u + uint32_t(book::uniform01(seed, 11, i) * 2000);
        }
        s.keys = keys;
        s.queries = p.input<uint32_t>(s.count, [=] __device__(size_t i) {
            return uint32_t(book::uniform01(seed, 13, i) * (2u << 20) * 2000.0);
        });
        s.space = p.output<uint32_t>(s.keys_count);
        s.found = p.output<uint32_t>(s.count);
        p.needs({.dram_bytes = 8.0 * s.count, .link_bytes = 4.0 * s.keys_count});
        checked(p, s);
        p.variant("in_host_index", [=] { in_host_index(s); });
        p.variant("in_copied_index", [=] { in_copied_index(s); });
    });
    return book.finish();
}
