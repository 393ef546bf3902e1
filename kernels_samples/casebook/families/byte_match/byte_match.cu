// Scans of text: how often a code occurs in each segment or document.
#include "../../harness/book.h"

//: shared
constexpr int kSegment = 8192;  // bytes that one warp scans
constexpr int kStep = 512;      // bytes that it scans at a time

template <class T>
struct Text {
    int segments;
    T wanted;
    const T* units;
    const int* cancel;
    int* counts;  // of each segment
};

// Eight times the number of units of `word` that equal the wanted one (`pattern` repeats it).
template <class T>
__device__ int eight_matches(uint32_t word, uint32_t pattern) {
    if constexpr (sizeof(T) == 1) return __popc(__vcmpeq4(word, pattern));
    return __popc(__vcmpeq2(word, pattern)) / 2;
}

template <class T>
__device__ int eight_matches(uint4 words, uint32_t pattern) {
    return eight_matches<T>(words.x, pattern) + eight_matches<T>(words.y, pattern) +
           eight_matches<T>(words.z, pattern) + eight_matches<T>(words.w, pattern);
}

template <class T>
uint32_t repeated(T unit) {
    return unit * (sizeof(T) == 1 ? 0x01010101u : 0x00010001u);
}
//: end

//: variant units_polled
template <class T>
__global__ void count_units_polled(const T* __restrict__ text, T wanted, int step, int segment,
                                   const volatile int* cancel, int* __restrict__ counts) {
    const int warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    const T* from = text + size_t(warp) * segment;
    int matches = 0;
    for (int start = 0; start < segment; start += step) {
        if (*cancel != 0) return;
        for (int i = lane; i < step; i += 32) matches += from[start + i] == wanted;
    }
    matches = __reduce_add_sync(0xFFFFFFFFu, matches);
    if (lane == 0) counts[warp] = matches;
}

template <class T>
void units_polled(const Text<T>& t) {
    count_units_polled<<<t.segments / 8, 256>>>(t.units, t.wanted, int(kStep / sizeof(T)),
                                                int(kSegment / sizeof(T)), t.cancel, t.counts);
}
//: end

//: variant units
template <class T>
__global__ void count_units(const T* __restrict__ text, T wanted, int step, int segment,
                            const volatile int* cancel, int* __restrict__ counts) {
    const int warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    const T* from = text + size_t(warp) * segment;
    int matches = 0;
    if (*cancel != 0) return;
    for (int start = 0; start < segment; start += step) {
        for (int i = lane; i < step; i += 32) matches += from[start + i] == wanted;
    }
    matches = __reduce_add_sync(0xFFFFFFFFu, matches);
    if (lane == 0) counts[warp] = matches;
}

template <class T>
void units(const Text<T>& t) {
    count_units<<<t.segments / 8, 256>>>(t.units, t.wanted, int(kStep / sizeof(T)),
                                         int(kSegment / sizeof(T)), t.cancel, t.counts);
}
//: end

//: variant vectors_polled
template <class T>
__global__ void count_vectors_polled(const uint4* __restrict__ text, uint32_t pattern, int segment,
                                     const volatile int* cancel, int* __restrict__ counts) {
    const int warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    const uint4* from = text + size_t(warp) * segment;
    int eight = 0;
    for (int i = lane; i < segment; i += 32) {
        if (*cancel != 0) return;
        eight += eight_matches<T>(from[i], pattern);
    }
    const int matches = __reduce_add_sync(0xFFFFFFFFu, eight / 8);
    if (lane == 0) counts[warp] = matches;
}

template <class T>
void vectors_polled(const Text<T>& t) {
    count_vectors_polled<T><<<t.segments / 8, 256>>>(reinterpret_cast<const uint4*>(t.units),
                                                     repeated(t.wanted), kSegment / 16, t.cancel, t.counts);
}
//: end

//: variant vectors
template <class T>
__global__ void count_vectors(const uint4* __restrict__ text, uint32_t pattern, int segment,
                              const volatile int* cancel, int* __restrict__ counts) {
    const int warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    const uint4* from = text + size_t(warp) * segment;
    int eight = 0;
    if (*cancel != 0) return;
    for (int i = lane; i < segment; i += 32) eight += eight_matches<T>(from[i], pattern);
    const int matches = __reduce_add_sync(0xFFFFFFFFu, eight / 8);
    if (lane == 0) counts[warp] = matches;
}

template <class T>
void vectors(const Text<T>& t) {
    count_vectors<T><<<t.segments / 8, 256>>>(reinterpret_cast<const uint4*>(t.units), repeated(t.wanted),
                                              kSegment / 16, t.cancel, t.counts);
}
//: end

// --- documents of different lengths

//: shared
constexpr int kPiece = 2048;  // in 16 bytes

struct Documents {
    int count, pieces;
    const uint4* text;
    const int* starts;  // in 16 bytes; one more than there are documents
    int* counts;        // zero at first
};

// Adds what the calling block finds in text[from, to).
__device__ void count_range(const uint4* __restrict__ text, int from, int to, int* count) {
    int eight = 0;
    for (int i = from + threadIdx.x; i < to; i += blockDim.x) {
        eight += eight_matches<uint8_t>(text[i], 0x0A0A0A0Au);
    }
    const int matches = __reduce_add_sync(0xFFFFFFFFu, eight / 8);
    if (threadIdx.x % 32 == 0 && matches > 0) atomicAdd(count, matches);
}
//: end

//: variant by_document
__global__ void count_documents(const uint4* __restrict__ text, const int* __restrict__ starts, int* counts) {
    const int document = blockIdx.x;
    count_range(text, starts[document], starts[document + 1], counts + document);
}

void by_document(const Documents& d) {
    count_documents<<<d.count, 256>>>(d.text, d.starts, d.counts);
}
//: end

//: variant by_piece
__global__ void count_pieces(const uint4* __restrict__ text, const int* __restrict__ starts, int documents,
                             int* counts) {
    const int end = starts[documents];
    const int from = blockIdx.x * kPiece, to = min(from + kPiece, end);
    int low = 0, high = documents - 1;  // the last document that starts at `from` or before
    while (low < high) {
        const int middle = (low + high + 1) / 2;
        if (starts[middle] <= from) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    for (int document = low; document < documents && starts[document] < to; ++document) {
        count_range(text, max(from, starts[document]), min(to, starts[document + 1]), counts + document);
    }
}

void by_piece(const Documents& d) {
    count_pieces<<<d.pieces, 256>>>(d.text, d.starts, d.count, d.counts);
}
//: end

// --- two codes counted in text that the program keeps in pinned memory of the host

//: shared
struct Upload {
    int segments;
    const uint4* text;  // where the program keeps it
    uint4* space;       // room for it on the GPU
    int* lines;
    int* fields;
};

__global__ void count_code(const uint4* __restrict__ text, uint32_t pattern, int* __restrict__ counts) {
    const int warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    const uint4* from = text + size_t(warp) * (kSegment / 16);
    int eight = 0;
    for (int i = lane; i < kSegment / 16; i += 32) eight += eight_matches<uint8_t>(from[i], pattern);
    const int matches = __reduce_add_sync(0xFFFFFFFFu, eight / 8);
    if (lane == 0) counts[warp] = matches;
}
//: end

//: variant where_it_lies
void where_it_lies(const Upload& u) {
    count_code<<<u.segments / 8, 256>>>(u.text, 0x0A0A0A0Au, u.lines);
    count_code<<<u.segments / 8, 256>>>(u.text, 0x2C2C2C2Cu, u.fields);
}
//: end

//: variant brought_over
void brought_over(const Upload& u) {
    BOOK_CHECK(cudaMemcpyAsync(u.space, u.text, size_t(u.segments) * kSegment, cudaMemcpyHostToDevice));
    count_code<<<u.segments / 8, 256>>>(u.space, 0x0A0A0A0Au, u.lines);
    count_code<<<u.segments / 8, 256>>>(u.space, 0x2C2C2C2Cu, u.fields);
}
//: end

// --- references

template <class T>
__global__ void reference_segments(const T* text, T wanted, int segment, int* expected) {
    // One block a segment, expected is zero at first.
    for (int i = threadIdx.x; i < segment; i += blockDim.x) {
        if (text[size_t(blockIdx.x) * segment + i] == wanted) atomicAdd(expected + blockIdx.x, 1);
    }
}

__global__ void reference_documents(const uint8_t* text, const int* starts, int documents, int* expected) {
    const size_t bytes = size_t(starts[documents]) * 16;
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < bytes;
         i += size_t{gridDim.x} * blockDim.x) {
        if (text[i] != '\n') continue;
        int document = 0;
        for (int jump = 1 << 20; jump > 0; jump /= 2) {
            if (document + jump < documents && size_t(starts[document + jump]) * 16 <= i) document += jump;
        }
        atomicAdd(expected + document, 1);
    }
}

// --- problems

// Letters, with a line end in every 40 or so.
__host__ __device__ inline uint32_t letter(uint64_t seed, size_t i) {
    const uint32_t r = uint32_t(book::mixed(i ^ book::mixed(seed + 5)) >> 40);
    if (r % 40 == 0) return '\n';
    if (r % 40 < 4) return ',';
    return 'a' + r % 26;
}

template <class T>
Text<T> text_of(book::Problem& p, int segments) {
    Text<T> t{segments, T('\n')};
    const uint64_t seed = p.seed();
    const size_t count = size_t(segments) * (kSegment / sizeof(T));
    t.units = p.input<T>(count, [=] __device__(size_t i) { return T(letter(seed, i)); });
    t.cancel = p.input<int>(1, [] __device__(size_t) { return 0; });
    t.counts = p.output<int>(segments);
    p.needs({.dram_bytes = double(segments) * kSegment + 4.0 * segments});
    p.check<int>(t.counts, segments, {0}, [=](int* expected) {
        reference_segments<T><<<segments, 256>>>(t.units, t.wanted, int(kSegment / sizeof(T)), expected);
    });
    return t;
}

// Lengths between `least` and `most` (in 16 bytes); document `large` has `large_length`.
void documents_of(book::Book& book, const char* name, int count, int least, int most, int large,
                  int large_length) {
    book.problem(name, [=](book::Problem& p) {
        Documents d{count};
        const uint64_t seed = p.seed();
        std::vector<int> starts(count + 1);
        for (int k = 0; k < count; ++k) {
            const int usual = least + int(book::uniform01(seed, 3, k) * (most - least));
            starts[k + 1] = starts[k] + (k == large ? large_length : usual);
        }
        const int total = starts[count];
        const uint8_t* text = p.input<uint8_t>(size_t(total) * 16,
                                               [=] __device__(size_t i) { return uint8_t(letter(seed, i)); });
        d.text = reinterpret_cast<const uint4*>(text);
        d.starts = p.upload(starts);
        d.pieces = (total + kPiece - 1) / kPiece;
        d.counts = p.zeroed<int>(count);
        p.needs({.dram_bytes = 16.0 * total + 8.0 * count});
        p.check<int>(d.counts, count, {0}, [=](int* expected) {
            reference_documents<<<1056, 256>>>(text, d.starts, count, expected);
        });
        p.variant("by_document", [=] { by_document(d); });
        p.variant("by_piece", [=] { by_piece(d); });
    });
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("bytes", [](book::Problem& p) {
        const auto t = text_of<uint8_t>(p, 20480);
        p.variant("units_polled", [=] { units_polled(t); });
        p.variant("units", [=] { units(t); });
        p.variant("vectors_polled", [=] { vectors_polled(t); });
        p.variant("vectors", [=] { vectors(t); });
    });
    book.problem("utf16", [](book::Problem& p) {
        const auto t = text_of<uint16_t>(p, 20480);
        p.variant("units", [=] { units(t); });
        p.variant("vectors", [=] { vectors(t); });
    });
    documents_of(book, "documents_one_large", 2048, 2000, 5600, 1900, 262144);
    documents_of(book, "documents_long_last", 2048, 2000, 5600, 2047, 14336);
    book.problem("in_host_memory", [](book::Problem& p) {
        Upload u{1024};
        const uint64_t seed = p.seed();
        const size_t bytes = size_t(u.segments) * kSegment;
        uint8_t* text = p.host_mapped<uint8_t>(bytes);
        for (size_t i = 0; i < bytes; ++i) text[i] = uint8_t(letter(seed, i));
        u.text = reinterpret_cast<const uint4*>(text);
        u.space = p.output<uint4>(bytes / 16);
        u.lines = p.output<int>(u.segments);
        u.fields = p.output<int>(u.segments);
        p.needs({.dram_bytes = 8.0 * u.segments, .link_bytes = double(bytes)});
        p.check<int>(u.lines, u.segments, {0}, [=](int* expected) {
            reference_segments<uint8_t><<<u.segments, 256>>>(text, '\n', kSegment, expected);
        });
        p.check<int>(u.fields, u.segments, {0}, [=](int* expected) {
            reference_segments<uint8_t><<<u.segments, 256>>>(text, ',', kSegment, expected);
        });
        p.variant("where_it_lies", [=] { where_it_lies(u); });
        p.variant("brought_over", [=] { brought_over(u); });
    });
    return book.finish();
}
