// Columns of bit-packed integers decoded: pages with a width each, 4-bit weights, linked pages, bit planes.
#include "../../harness/book.h"

// --- pages of values with one width and one base each

//: shared
constexpr int kPageValues = 2816;

struct Page {
    int width;
    uint32_t base;
    uint32_t start;  // word where its bits begin
};

struct Column {
    int pages;
    const Page* page;
    const uint32_t* words;
    uint32_t* values;
};

__device__ inline uint32_t bits_at(uint32_t low, uint32_t high, uint32_t bit, int width) {
    return __funnelshift_r(low, high, bit & 31) & ((1u << width) - 1);
}

// One block a page; a thread decodes one value after the other.
template <int kThreads>
__global__ void unpack_pages(const Page* page, const uint32_t* words, uint32_t* values) {
    const Page mine = page[blockIdx.x];
    const uint32_t* from = words + mine.start;
    uint32_t* to = values + size_t(blockIdx.x) * kPageValues;
    for (int v = threadIdx.x; v < kPageValues; v += kThreads) {
        const uint32_t bit = v * mine.width;
        to[v] = mine.base + bits_at(from[bit / 32], from[bit / 32 + 1], bit, mine.width);
    }
}

// One block a page; a thread loads the words of four values before it stores the first.
template <int kThreads>
__global__ void unpack_pages_four(const Page* page, const uint32_t* words, uint32_t* values) {
    const Page mine = page[blockIdx.x];
    const uint32_t* from = words + mine.start;
    uint32_t* to = values + size_t(blockIdx.x) * kPageValues;
    for (int v = threadIdx.x; v < kPageValues; v += 4 * kThreads) {
        uint32_t low[4], high[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            const uint32_t bit = min(v + k * kThreads, kPageValues - 1) * mine.width;
            low[k] = from[bit / 32];
            high[k] = from[bit / 32 + 1];
        }
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            const int at = v + k * kThreads;
            if (at < kPageValues) to[at] = mine.base + bits_at(low[k], high[k], at * mine.width, mine.width);
        }
    }
}
//: end

//: variant warp_a_page
void warp_a_page(const Column& c) {
    unpack_pages<32><<<c.pages, 32>>>(c.page, c.words, c.values);
}
//: end

//: variant warp_a_page_four
void warp_a_page_four(const Column& c) {
    unpack_pages_four<32><<<c.pages, 32>>>(c.page, c.words, c.values);
}
//: end

//: variant block_a_page
void block_a_page(const Column& c) {
    unpack_pages<256><<<c.pages, 256>>>(c.page, c.words, c.values);
}
//: end

//: variant block_a_page_four
void block_a_page_four(const Column& c) {
    unpack_pages_four<256><<<c.pages, 256>>>(c.page, c.words, c.values);
}
//: end

// --- weights of 4 bits with a scale a group, decoded to half precision

//: shared
struct Weights {
    size_t count, group;
    int group_shift;  // the group is a power of two
    const uint8_t* nibbles;
    const __half* scales;
    __half* out;
};

__device__ inline __half scaled(uint32_t nibble, __half scale) {
    return __float2half((float(nibble) - 8.0f) * __half2float(scale));
}
//: end

//: variant each_by_group
__global__ void weights_each_by_group(const uint8_t* __restrict__ nibbles, const __half* __restrict__ scales,
                                      __half* __restrict__ out, size_t count, size_t group) {
    const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const uint32_t both = nibbles[i / 2];
    out[i] = scaled(i % 2 ? both >> 4 : both & 15, scales[i / group]);
}

void each_by_group(const Weights& w) {
    weights_each_by_group<<<unsigned((w.count + 255) / 256), 256>>>(w.nibbles, w.scales, w.out, w.count,
                                                                    w.group);
}
//: end

//: variant each_by_shift
__global__ void weights_each_by_shift(const uint8_t* __restrict__ nibbles, const __half* __restrict__ scales,
                                      __half* __restrict__ out, size_t count, int group_shift) {
    const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const uint32_t both = nibbles[i / 2];
    out[i] = scaled(i % 2 ? both >> 4 : both & 15, scales[i >> group_shift]);
}

void each_by_shift(const Weights& w) {
    weights_each_by_shift<<<unsigned((w.count + 255) / 256), 256>>>(w.nibbles, w.scales, w.out, w.count,
                                                                    w.group_shift);
}
//: end

//: variant eight_by_group
__global__ void weights_eight_by_group(const uint32_t* __restrict__ nibbles, const __half* __restrict__ scales,
                                       uint4* __restrict__ out, size_t count, size_t group) {
    const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= count / 8) return;
    const uint32_t eight = nibbles[i];
    const __half scale = scales[i * 8 / group];
    __align__(16) __half2 pair[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        pair[k] = __halves2half2(scaled((eight >> (8 * k)) & 15, scale), scaled((eight >> (8 * k + 4)) & 15, scale));
    }
    out[i] = *reinterpret_cast<const uint4*>(pair);
}

void eight_by_group(const Weights& w) {
    weights_eight_by_group<<<unsigned((w.count / 8 + 255) / 256), 256>>>(
        reinterpret_cast<const uint32_t*>(w.nibbles), w.scales, reinterpret_cast<uint4*>(w.out), w.count,
        w.group);
}
//: end

//: variant eight_by_shift
__global__ void weights_eight_by_shift(const uint32_t* __restrict__ nibbles, const __half* __restrict__ scales,
                                       uint4* __restrict__ out, size_t count, int group_shift) {
    const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= count / 8) return;
    const uint32_t eight = nibbles[i];
    const __half scale = scales[i * 8 >> group_shift];
    __align__(16) __half2 pair[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        pair[k] = __halves2half2(scaled((eight >> (8 * k)) & 15, scale), scaled((eight >> (8 * k + 4)) & 15, scale));
    }
    out[i] = *reinterpret_cast<const uint4*>(pair);
}

void eight_by_shift(const Weights& w) {
    weights_eight_by_shift<<<unsigned((w.count / 8 + 255) / 256), 256>>>(
        reinterpret_cast<const uint32_t*>(w.nibbles), w.scales, reinterpret_cast<uint4*>(w.out), w.count,
        w.group_shift);
}
//: end

// --- streams of linked pages: the head of a page says which page is next and how wide its values are

//: shared
constexpr int kLinked = 256;      // values of a page
constexpr int kSlotWords = 112;   // words that a page takes: next page, width, bits
constexpr int kSlots = 1 << 16;   // pages of all streams

struct Streams {
    int count, pages;       // streams, pages of each
    const uint32_t* words;
    const uint32_t* first;  // page of each stream
    uint32_t* values;
};

__device__ inline int width_of(uint32_t head) {
    return 6 + int(head & 7);
}
//: end

//: variant page_by_page
__global__ void unpack_page_by_page(const uint32_t* words, const uint32_t* first, uint32_t* values, int pages) {
    const int stream = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    uint32_t* to = values + size_t(stream) * pages * kLinked;
    uint32_t slot = first[stream];
    for (int p = 0; p < pages; ++p) {
        const uint32_t* from = words + size_t(slot) * kSlotWords;
        const uint2 head = *reinterpret_cast<const uint2*>(from);
        const int width = width_of(head.y);
        uint32_t low[8], high[8];
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            const int bit = (k * 32 + lane) * width;
            low[k] = from[2 + bit / 32];
            high[k] = from[3 + bit / 32];
        }
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            const int bit = (k * 32 + lane) * width;
            to[p * kLinked + k * 32 + lane] = bits_at(low[k], high[k], bit, width);
        }
        slot = head.x;
    }
}

void page_by_page(const Streams& s) {
    unpack_page_by_page<<<s.count / 4, 128>>>(s.words, s.first, s.values, s.pages);
}
//: end

//: variant next_head_first
__global__ void unpack_next_head_first(const uint32_t* words, const uint32_t* first, uint32_t* values, int pages) {
    const int stream = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    uint32_t* to = values + size_t(stream) * pages * kLinked;
    uint32_t slot = first[stream];
    uint2 head = *reinterpret_cast<const uint2*>(words + size_t(slot) * kSlotWords);
    for (int p = 0; p < pages; ++p) {
        const uint32_t* from = words + size_t(slot) * kSlotWords;
        slot = head.x;
        const uint2 next = *reinterpret_cast<const uint2*>(words + size_t(slot) * kSlotWords);
        const int width = width_of(head.y);
        uint32_t low[8], high[8];
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            const int bit = (k * 32 + lane) * width;
            low[k] = from[2 + bit / 32];
            high[k] = from[3 + bit / 32];
        }
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            const int bit = (k * 32 + lane) * width;
            to[p * kLinked + k * 32 + lane] = bits_at(low[k], high[k], bit, width);
        }
        head = next;
    }
}

void next_head_first(const Streams& s) {
    unpack_next_head_first<<<s.count / 4, 128>>>(s.words, s.first, s.values, s.pages);
}
//: end

// --- 16 bit planes: bit b of value i is bit i % 32 of word i / 32 of plane b

//: shared
constexpr int kPlanes = 16;

struct Planes {
    int groups;  // of 32 values
    const uint32_t* planes;
    uint16_t* values;
};
//: end

//: variant by_value
__global__ void planes_by_value(const uint32_t* __restrict__ planes, uint16_t* __restrict__ values, int groups) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const int group = i / 32, bit = i % 32;
    uint32_t value = 0;
#pragma unroll
    for (int b = 0; b < kPlanes; ++b) value |= ((planes[b * size_t(groups) + group] >> bit) & 1u) << b;
    values[i] = static_cast<uint16_t>(value);
}

void by_value(const Planes& p) {
    planes_by_value<<<p.groups / 8, 256>>>(p.planes, p.values, p.groups);
}
//: end

//: variant by_group
// Transposes 16 x 16 bits in the low and in the high halves of 16 words at a time.
__device__ void transpose_bits(uint32_t (&row)[kPlanes]) {
    constexpr uint32_t kMask[4] = {0x00FF00FFu, 0x0F0F0F0Fu, 0x33333333u, 0x55555555u};
#pragma unroll
    for (int s = 0; s < 4; ++s) {
        const int step = 8 >> s;
#pragma unroll
        for (int k = 0; k < kPlanes; ++k) {
            if (k & step) continue;
            const uint32_t swap = ((row[k] >> step) ^ row[k + step]) & kMask[s];
            row[k] ^= swap << step;
            row[k + step] ^= swap;
        }
    }
}

__global__ void planes_by_group(const uint32_t* __restrict__ planes, uint16_t* __restrict__ values, int groups) {
    const int group = blockIdx.x * blockDim.x + threadIdx.x;
    uint32_t row[kPlanes];
#pragma unroll
    for (int b = 0; b < kPlanes; ++b) row[b] = planes[b * size_t(groups) + group];
    transpose_bits(row);
    uint4* to = reinterpret_cast<uint4*>(values + size_t(group) * 32);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int k = 0; k < kPlanes; k += 8) {
            uint32_t two[4];
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                two[j] = __byte_perm(row[k + 2 * j], row[k + 2 * j + 1], half ? 0x7632 : 0x5410);
            }
            to[half * 2 + k / 8] = make_uint4(two[0], two[1], two[2], two[3]);
        }
    }
}

void by_group(const Planes& p) {
    planes_by_group<<<p.groups / 128, 128>>>(p.planes, p.values, p.groups);
}
//: end

// --- references: one bit after the other

__global__ void reference_pages(const Page* page, const uint32_t* words, uint32_t* expected, int pages) {
    const size_t count = size_t(pages) * kPageValues;
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count;
         i += size_t{gridDim.x} * blockDim.x) {
        const Page& of = page[i / kPageValues];
        uint32_t value = 0;
        for (int b = 0; b < of.width; ++b) {
            const size_t bit = size_t(of.start) * 32 + (i % kPageValues) * of.width + b;
            value += ((words[bit / 32] >> (bit % 32)) & 1u) << b;
        }
        expected[i] = of.base + value;
    }
}

__global__ void reference_weights(Weights w, __half* expected) {
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < w.count;
         i += size_t{gridDim.x} * blockDim.x) {
        const int nibble = (w.nibbles[i / 2] >> (i % 2 * 4)) % 16;
        expected[i] = __float2half(__half2float(w.scales[i / w.group]) * (nibble - 8));
    }
}

__global__ void reference_streams(Streams s, uint32_t* expected) {
    const int stream = blockIdx.x;  // one thread a value
    uint32_t slot = s.first[stream];
    for (int p = 0; p < s.pages; ++p) {
        const size_t start = size_t(slot) * kSlotWords;
        const int width = 6 + s.words[start + 1] % 8;
        uint32_t value = 0;
        for (int b = 0; b < width; ++b) {
            const size_t bit = (start + 2) * 32 + size_t(threadIdx.x) * width + b;
            value += ((s.words[bit / 32] >> (bit % 32)) & 1u) << b;
        }
        expected[(size_t(stream) * s.pages + p) * kLinked + threadIdx.x] = value;
        slot = s.words[start];
    }
}

__global__ void reference_planes(const uint32_t* planes, uint16_t* expected, int groups) {
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < size_t(groups) * 32;
         i += size_t{gridDim.x} * blockDim.x) {
        uint32_t value = 0;
        for (int b = 15; b >= 0; --b) {
            value = 2 * value + (planes[size_t(b) * groups + i / 32] >> (i % 32)) % 2;
        }
        expected[i] = uint16_t(value);
    }
}

// --- problems

__host__ __device__ inline uint32_t random_word(uint64_t seed, size_t i) {
    return uint32_t(book::mixed(i ^ book::mixed(seed + 57)) >> 32);
}

const uint32_t* random_words(book::Problem& p, size_t count) {
    const uint64_t seed = p.seed();
    return p.input<uint32_t>(count, [=] __device__(size_t i) { return random_word(seed, i); });
}

// Page l of all pages in order lies in slot l * kScatter mod kSlots.
constexpr uint32_t kScatter = 40503;

constexpr uint32_t inverse_of(uint32_t odd) {
    uint32_t x = odd;
    for (int k = 0; k < 5; ++k) x *= 2 - odd * x;
    return x;
}
static_assert((inverse_of(kScatter) * kScatter) % kSlots == 1);

void streams_of(book::Book& book, const char* name, int count) {
    book.problem(name, [=](book::Problem& p) {
        Streams s{count, kSlots / count};
        const uint64_t seed = p.seed();
        const uint32_t pages = s.pages, back = inverse_of(kScatter);
        s.words = p.input<uint32_t>(size_t(kSlots) * kSlotWords, [=] __device__(size_t i) {
            if (i % kSlotWords != 0) return random_word(seed, i);
            const uint32_t page = uint32_t(i / kSlotWords) * back;
            return ((page + 1) * kScatter) % kSlots;
        });
        s.first = p.input<uint32_t>(count, [=] __device__(size_t k) {
            return (uint32_t(k) * pages * kScatter) % kSlots;
        });
        const size_t values = size_t(kSlots) * kLinked;
        s.values = p.output<uint32_t>(values);
        p.needs({.dram_bytes = 4.0 * values + kSlots * (8 + 9.5 * kLinked / 8)});
        p.check<uint32_t>(s.values, values, {0}, [=](uint32_t* expected) {
            reference_streams<<<count, kLinked>>>(s, expected);
        });
        p.variant("page_by_page", [=] { page_by_page(s); });
        p.variant("next_head_first", [=] { next_head_first(s); });
    });
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("pages", [](book::Problem& p) {
        Column c{132 * 64};
        std::vector<Page> pages(c.pages);
        uint32_t words = 0;
        for (int k = 0; k < c.pages; ++k) {
            const int width = 4 + int(book::uniform01(p.seed(), 2, k) * 15);
            pages[k] = {width, uint32_t(book::uniform01(p.seed(), 3, k) * 1e6), words};
            words += (kPageValues * width + 31) / 32;
        }
        c.page = p.upload(pages);
        c.words = random_words(p, words + 1);
        const size_t values = size_t(c.pages) * kPageValues;
        c.values = p.output<uint32_t>(values);
        p.needs({.dram_bytes = 4.0 * words + 4.0 * values + 12.0 * c.pages});
        p.check<uint32_t>(c.values, values, {0}, [=](uint32_t* expected) {
            reference_pages<<<1056, 256>>>(c.page, c.words, expected, c.pages);
        });
        p.variant("warp_a_page", [=] { warp_a_page(c); });
        p.variant("warp_a_page_four", [=] { warp_a_page_four(c); });
        p.variant("block_a_page", [=] { block_a_page(c); });
        p.variant("block_a_page_four", [=] { block_a_page_four(c); });
    });
    book.problem("weights", [](book::Problem& p) {
        Weights w{size_t{48} << 20, 128, 7};
        w.nibbles = reinterpret_cast<const uint8_t*>(random_words(p, w.count / 8));
        w.scales = p.uniform<__half>(w.count / w.group, 0.01, 0.1);
        w.out = p.output<__half>(w.count);
        p.needs({.dram_bytes = 2.5 * w.count + 2.0 * w.count / w.group});
        p.check<__half>(w.out, w.count, {1e-3}, [=](__half* expected) {
            reference_weights<<<1056, 256>>>(w, expected);
        });
        p.variant("each_by_group", [=] { each_by_group(w); });
        p.variant("each_by_shift", [=] { each_by_shift(w); });
        p.variant("eight_by_group", [=] { eight_by_group(w); });
        p.variant("eight_by_shift", [=] { eight_by_shift(w); });
    });
    streams_of(book, "streams_1024", 1024);
    streams_of(book, "streams_2048", 2048);
    book.problem("planes", [](book::Problem& p) {
        Planes q{1 << 20};
        q.planes = random_words(p, size_t(q.groups) * kPlanes);
        q.values = p.output<uint16_t>(size_t(q.groups) * 32);
        // A transpose takes 4 x 8 exchanges of 5 operations for 32 values, and 16 to pack them.
        p.needs({.dram_bytes = 128.0 * q.groups, .int_op = 176.0 * q.groups});
        p.check<uint16_t>(q.values, size_t(q.groups) * 32, {0}, [=](uint16_t* expected) {
            reference_planes<<<1056, 256>>>(q.planes, expected, q.groups);
        });
        p.variant("by_value", [=] { by_value(q); });
        p.variant("by_group", [=] { by_group(q); });
    });
    return book.finish();
}
