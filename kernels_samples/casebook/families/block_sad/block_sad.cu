// Motion search on 8-bit luma: for each block of a frame, the displacement of least sum of absolute
// differences (SAD) in a window of 16 x 16 displacements, and the SAD at rest of whole frames.
#include "../../harness/book.h"

using Pixel = unsigned char;

//: shared
constexpr int kReach = 16;   // displacements -8 .. 7 in x and in y
constexpr int kBorder = 16;  // pixels around the previous frame, so that windows never leave it

struct Search {
    int width, height;       // multiples of the block edge
    const Pixel* frame;      // height rows of width pixels
    const Pixel* previous;   // height + 2 kBorder rows of width + 2 kBorder pixels
    unsigned* best;          // per block: SAD * 256 + index of the displacement
};

template <int Edge>
dim3 blocks_of(const Search& s) {
    return dim3(s.width / Edge, s.height / Edge);
}

__device__ void keep_least(unsigned key, unsigned* least, unsigned* best) {
    key = __reduce_min_sync(0xFFFFFFFFu, key);
    if (threadIdx.x % 32 == 0) atomicMin(least, key);
    __syncthreads();
    if (threadIdx.x == 0) best[blockIdx.y * gridDim.x + blockIdx.x] = *least;
}

struct SumOfFour {
    static __device__ unsigned add(unsigned sad, unsigned a, unsigned b) { return sad + __vsadu4(a, b); }
};

// A thread computes the SADs of `Rows` displacements that differ in y.
template <int Edge, int Rows, class Sum = SumOfFour>
__global__ void search_packed(Search s) {
    constexpr int kWords = Edge / 4, kPitch = kWords + kReach / 4, kTall = Edge + kReach - 1;
    constexpr int kThreads = kReach * kReach / Rows;
    __shared__ __align__(16) unsigned block[Edge * kWords];
    __shared__ unsigned window[kTall * kPitch];
    __shared__ unsigned least;
    const int stride = s.width + 2 * kBorder;
    const Pixel* corner = s.frame + size_t(blockIdx.y) * Edge * s.width + blockIdx.x * Edge;
    const Pixel* around = s.previous + size_t(blockIdx.y * Edge + 8) * stride + blockIdx.x * Edge + 8;
    for (int i = threadIdx.x; i < Edge * kWords; i += kThreads) {
        block[i] = *reinterpret_cast<const unsigned*>(corner + (i / kWords) * s.width + i % kWords * 4);
    }
    for (int i = threadIdx.x; i < kTall * kPitch; i += kThreads) {
        window[i] = *reinterpret_cast<const unsigned*>(around + (i / kPitch) * stride + i % kPitch * 4);
    }
    if (threadIdx.x == 0) least = 0xFFFFFFFFu;
    __syncthreads();

    const int dx = threadIdx.x % kReach, dy = threadIdx.x / kReach * Rows;
    const unsigned* row = window + dy * kPitch + dx / 4;
    const unsigned shift = dx % 4 * 8;
    unsigned sad[Rows] = {};
#pragma unroll
    for (int r = 0; r < Edge + Rows - 1; ++r) {
        unsigned aligned[kWords];
#pragma unroll
        for (int w = 0; w < kWords; ++w) {
            aligned[w] = __funnelshift_r(row[r * kPitch + w], row[r * kPitch + w + 1], shift);
        }
#pragma unroll
        for (int k = 0; k < Rows; ++k) {
            if (r - k < 0 || r - k >= Edge) continue;
#pragma unroll
            for (int w = 0; w < kWords; ++w) {
                sad[k] = Sum::add(sad[k], block[(r - k) * kWords + w], aligned[w]);
            }
        }
    }
    unsigned key = 0xFFFFFFFFu;
#pragma unroll
    for (int k = 0; k < Rows; ++k) key = min(key, sad[k] << 8 | unsigned((dy + k) * kReach + dx));
    keep_least(key, &least, s.best);
}
//: end

//: variant bytes
template <int Edge>
__global__ void search_bytes(Search s) {
    constexpr int kWide = Edge + kReach, kTall = Edge + kReach - 1;
    constexpr int kThreads = kReach * kReach;
    __shared__ Pixel block[Edge * Edge];
    __shared__ Pixel window[kTall * kWide];
    __shared__ unsigned least;
    const int stride = s.width + 2 * kBorder;
    const Pixel* corner = s.frame + size_t(blockIdx.y) * Edge * s.width + blockIdx.x * Edge;
    const Pixel* around = s.previous + size_t(blockIdx.y * Edge + 8) * stride + blockIdx.x * Edge + 8;
    for (int i = threadIdx.x; i < Edge * Edge; i += kThreads) {
        block[i] = corner[(i / Edge) * s.width + i % Edge];
    }
    for (int i = threadIdx.x; i < kTall * kWide; i += kThreads) {
        window[i] = around[(i / kWide) * stride + i % kWide];
    }
    if (threadIdx.x == 0) least = 0xFFFFFFFFu;
    __syncthreads();

    const int dx = threadIdx.x % kReach, dy = threadIdx.x / kReach;
    const Pixel* row = window + dy * kWide + dx;
    unsigned sad = 0;
#pragma unroll
    for (int y = 0; y < Edge; ++y) {
#pragma unroll
        for (int x = 0; x < Edge; ++x) sad += abs(int(block[y * Edge + x]) - int(row[y * kWide + x]));
    }
    keep_least(sad << 8 | threadIdx.x, &least, s.best);
}

template <int Edge>
void bytes(const Search& s) {
    search_bytes<Edge><<<blocks_of<Edge>(s), 256>>>(s);
}
//: end

//: variant words
template <int Edge>
__global__ void search_words(Search s) {
    constexpr int kWords = Edge / 4, kPitch = kWords + kReach / 4, kTall = Edge + kReach - 1;
    constexpr int kThreads = kReach * kReach;
    __shared__ __align__(16) unsigned block[Edge * kWords];
    __shared__ unsigned window[kTall * kPitch];
    __shared__ unsigned least;
    const int stride = s.width + 2 * kBorder;
    const Pixel* corner = s.frame + size_t(blockIdx.y) * Edge * s.width + blockIdx.x * Edge;
    const Pixel* around = s.previous + size_t(blockIdx.y * Edge + 8) * stride + blockIdx.x * Edge + 8;
    for (int i = threadIdx.x; i < Edge * kWords; i += kThreads) {
        block[i] = *reinterpret_cast<const unsigned*>(corner + (i / kWords) * s.width + i % kWords * 4);
    }
    for (int i = threadIdx.x; i < kTall * kPitch; i += kThreads) {
        window[i] = *reinterpret_cast<const unsigned*>(around + (i / kPitch) * stride + i % kPitch * 4);
    }
    if (threadIdx.x == 0) least = 0xFFFFFFFFu;
    __syncthreads();

    const int dx = threadIdx.x % kReach, dy = threadIdx.x / kReach;
    const unsigned* row = window + dy * kPitch + dx / 4;
    const unsigned shift = dx % 4 * 8;
    unsigned sad = 0;
#pragma unroll
    for (int y = 0; y < Edge; ++y) {
#pragma unroll
        for (int w = 0; w < kWords; ++w) {
            const unsigned here = block[y * kWords + w];
            const unsigned there = __funnelshift_r(row[y * kPitch + w], row[y * kPitch + w + 1], shift);
#pragma unroll
            for (int b = 0; b < 32; b += 8) sad += abs(int(here >> b & 255) - int(there >> b & 255));
        }
    }
    keep_least(sad << 8 | threadIdx.x, &least, s.best);
}

template <int Edge>
void words(const Search& s) {
    search_words<Edge><<<blocks_of<Edge>(s), 256>>>(s);
}
//: end

//: variant packed
template <int Edge>
void packed(const Search& s) {
    search_packed<Edge, 1><<<blocks_of<Edge>(s), 256>>>(s);
}
//: end

//: variant pairs
template <int Edge>
void pairs(const Search& s) {
    search_packed<Edge, 2><<<blocks_of<Edge>(s), 128>>>(s);
}
//: end

//: variant fours
template <int Edge>
void fours(const Search& s) {
    search_packed<Edge, 4><<<blocks_of<Edge>(s), 64>>>(s);
}
//: end

//: variant fours_running
struct RunningSum {
    static __device__ unsigned add(unsigned sad, unsigned a, unsigned b) {
        unsigned total;
        asm("vabsdiff4.u32.u32.u32.add %0, %1, %2, %3;" : "=r"(total) : "r"(a), "r"(b), "r"(sad));
        return total;
    }
};

template <int Edge>
void fours_running(const Search& s) {
    search_packed<Edge, 4, RunningSum><<<blocks_of<Edge>(s), 64>>>(s);
}
//: end

//: shared
struct Change {
    int width, height;  // multiples of 4096 and 16
    const Pixel* frame;
    const Pixel* previous;
    unsigned* sad;      // of each 16 x 16 block, at rest
};

inline dim3 strips_of(const Change& c) {
    return dim3(c.width / 4096, c.height / 16);
}
//: end

//: variant unpack
__global__ void change_unpack(Change c) {
    const int column = blockIdx.x * 256 + threadIdx.x;
    const size_t first = size_t(blockIdx.y) * 16 * c.width + column * 16;
    unsigned sad = 0;
#pragma unroll 4
    for (int y = 0; y < 16; ++y) {
        const uint4 now = *reinterpret_cast<const uint4*>(c.frame + first + size_t(y) * c.width);
        const uint4 then = *reinterpret_cast<const uint4*>(c.previous + first + size_t(y) * c.width);
        const unsigned here[4] = {now.x, now.y, now.z, now.w};
        const unsigned there[4] = {then.x, then.y, then.z, then.w};
#pragma unroll
        for (int w = 0; w < 4; ++w) {
#pragma unroll
            for (int b = 0; b < 32; b += 8) {
                sad += abs(int(here[w] >> b & 255) - int(there[w] >> b & 255));
            }
        }
    }
    c.sad[blockIdx.y * (c.width / 16) + column] = sad;
}

void unpack(const Change& c) {
    change_unpack<<<strips_of(c), 256>>>(c);
}
//: end

//: variant four_at_once
__global__ void change_four_at_once(Change c) {
    const int column = blockIdx.x * 256 + threadIdx.x;
    const size_t first = size_t(blockIdx.y) * 16 * c.width + column * 16;
    unsigned sad = 0;
#pragma unroll 4
    for (int y = 0; y < 16; ++y) {
        const uint4 now = *reinterpret_cast<const uint4*>(c.frame + first + size_t(y) * c.width);
        const uint4 then = *reinterpret_cast<const uint4*>(c.previous + first + size_t(y) * c.width);
        const unsigned here[4] = {now.x, now.y, now.z, now.w};
        const unsigned there[4] = {then.x, then.y, then.z, then.w};
#pragma unroll
        for (int w = 0; w < 4; ++w) sad += __vsadu4(here[w], there[w]);
    }
    c.sad[blockIdx.y * (c.width / 16) + column] = sad;
}

void four_at_once(const Change& c) {
    change_four_at_once<<<strips_of(c), 256>>>(c);
}
//: end

__global__ void reference_search(Search s, int edge, unsigned* expected) {
    const int across = s.width / edge, count = across * (s.height / edge);
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const int left = i % across * edge, top = i / across * edge;
    unsigned best = 0xFFFFFFFFu;
    for (int dy = -8; dy < 8; ++dy) {
        for (int dx = -8; dx < 8; ++dx) {
            int sum = 0;
            for (int y = top; y < top + edge; ++y) {
                for (int x = left; x < left + edge; ++x) {
                    const int a = s.frame[size_t(y) * s.width + x];
                    const int b = s.previous[size_t(y + dy + 16) * (s.width + 32) + x + dx + 16];
                    sum += a > b ? a - b : b - a;
                }
            }
            best = min(best, unsigned(sum) * 256 + (dy + 8) * 16 + dx + 8);
        }
    }
    expected[i] = best;
}

__global__ void reference_change(Change c, unsigned* expected) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x, across = c.width / 16;
    if (i >= across * (c.height / 16)) return;
    unsigned sum = 0;
    for (int k = 0; k < 256; ++k) {
        const size_t at = size_t(i / across * 16 + k / 16) * c.width + i % across * 16 + k % 16;
        const int a = c.frame[at], b = c.previous[at];
        sum += a > b ? a - b : b - a;
    }
    expected[i] = sum;
}

Search set_up(book::Problem& p, int width, int height, int edge) {
    Search s{width, height};
    const size_t pixels = size_t(width) * height;
    const size_t bordered = size_t(width + 2 * kBorder) * (height + 2 * kBorder);
    const size_t count = pixels / (edge * edge);
    s.frame = p.uniform<Pixel>(pixels, 0, 256);
    s.previous = p.uniform<Pixel>(bordered, 0, 256);
    s.best = p.output<unsigned>(count);
    // One instruction can take the absolute differences of four pixels and add them.
    p.needs({.dram_bytes = double(pixels + bordered) + 4.0 * count, .int_op = 256.0 * pixels / 4});
    p.check<unsigned>(s.best, count, {0}, [=](unsigned* expected) {
        reference_search<<<unsigned((count + 31) / 32), 32>>>(s, edge, expected);
    });
    return s;
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("uhd_16", [](book::Problem& p) {
        const auto s = set_up(p, 3840, 2160, 16);
        p.variant("bytes", [=] { bytes<16>(s); });
        p.variant("words", [=] { words<16>(s); });
        p.variant("packed", [=] { packed<16>(s); });
        p.variant("pairs", [=] { pairs<16>(s); });
        p.variant("fours", [=] { fours<16>(s); });
        p.variant("fours_running", [=] { fours_running<16>(s); });
    });
    book.problem("uhd_8", [](book::Problem& p) {
        const auto s = set_up(p, 3840, 2160, 8);
        p.variant("bytes", [=] { bytes<8>(s); });
        p.variant("packed", [=] { packed<8>(s); });
        p.variant("pairs", [=] { pairs<8>(s); });
    });
    book.problem("at_rest", [](book::Problem& p) {
        Change c{4096, 16384};
        const size_t pixels = size_t(c.width) * c.height, count = pixels / 256;
        c.frame = p.uniform<Pixel>(pixels, 0, 256);
        c.previous = p.uniform<Pixel>(pixels, 0, 256);
        c.sad = p.output<unsigned>(count);
        p.needs({.dram_bytes = 2.0 * pixels + 4.0 * count, .int_op = pixels / 4.0});
        p.check<unsigned>(c.sad, count, {0}, [=](unsigned* expected) {
            reference_change<<<unsigned((count + 255) / 256), 256>>>(c, expected);
        });
        p.variant("unpack", [=] { unpack(c); });
        p.variant("four_at_once", [=] { four_at_once(c); });
    });
    return book.finish();
}
