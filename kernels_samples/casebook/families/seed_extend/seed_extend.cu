// Ungapped extension of seeds between two genomes: from a pair of positions rightwards, one point for
// equal bases and minus two for different ones, until the score has dropped too far below its best.
#include "../../harness/book.h"

struct Genomes {
    int length;           // of both
    const uint8_t* query;   // a base per byte, 0 to 3; followed by padding
    const uint8_t* target;
    int seeds;
    int longest;          // extension
    const int2* seed;     // positions in query and target
    int* score;           // best of each seed
    int* extent;          // bases up to the best score
    int* queue;           // scratch: a counter, and room for every seed
};

//: shared
constexpr int kThreads = 256;
constexpr int kEqual = 1, kDifferent = -2, kDrop = 20;
constexpr int kFirstRound = 64;  // bases

struct Extension {
    int score = 0, best = 0, extent = 0;

    // False when the score has dropped.
    __device__ bool add(bool equal, int at) {
        score += equal ? kEqual : kDifferent;
        if (score > best) {
            best = score;
            extent = at + 1;
        }
        return best - score <= kDrop;
    }
};

__device__ inline int room(const Genomes& g, int2 seed) {
    return min(g.longest, g.length - max(seed.x, seed.y));
}

// Base by base. True if the extension came to its end within `most` bases.
struct Bases {
    __device__ static bool extend(const Genomes& g, int2 seed, int most, Extension& e) {
        const uint8_t* query = g.query + seed.x;
        const uint8_t* target = g.target + seed.y;
        const int end = min(room(g, seed), most);
        for (int i = 0; i < end; ++i) {
            if (!e.add(query[i] == target[i], i)) return true;
        }
        return end < most;
    }
};

// Four bases at a time, from aligned words. True if the extension came to its end within `most` bases.
struct Words {
    __device__ static bool extend(const Genomes& g, int2 seed, int most, Extension& e) {
        const unsigned* query = reinterpret_cast<const unsigned*>(g.query) + seed.x / 4;
        const unsigned* target = reinterpret_cast<const unsigned*>(g.target) + seed.y / 4;
        const int query_shift = seed.x % 4 * 8, target_shift = seed.y % 4 * 8;
        const int end = min(room(g, seed), most);
        unsigned q = *query, t = *target;
        for (int i = 0; i < end; i += 4) {
            const unsigned next_q = *++query, next_t = *++target;
            const unsigned different = __funnelshift_r(q, next_q, query_shift) ^
                                       __funnelshift_r(t, next_t, target_shift);
            q = next_q, t = next_t;
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                if (i + k < end && !e.add((different >> 8 * k & 0xFF) == 0, i + k)) return true;
            }
        }
        return end < most;
    }
};

__device__ inline void report(const Genomes& g, int i, int best, int extent) {
    g.score[i] = best;
    g.extent[i] = extent;
}

template <class Reader>
__global__ void __launch_bounds__(kThreads) extend_seeds(const Genomes g) {
    const int i = blockIdx.x * kThreads + threadIdx.x;
    if (i >= g.seeds) return;
    Extension e;
    Reader::extend(g, g.seed[i], g.longest, e);
    report(g, i, e.best, e.extent);
}

template <class Reader>
__global__ void __launch_bounds__(kThreads) extend_short(const Genomes g) {
    const int i = blockIdx.x * kThreads + threadIdx.x;
    if (i >= g.seeds) return;
    Extension e;
    if (Reader::extend(g, g.seed[i], kFirstRound, e)) {
        report(g, i, e.best, e.extent);
    } else {
        g.queue[1 + atomicAdd(g.queue, 1)] = i;
    }
}

// A warp has one seed, and each lane a base: sums and maxima of the scores by scans.
__device__ inline void extend_by_warp(const Genomes& g, int i) {
    constexpr unsigned kAll = 0xFFFFFFFF;
    const int lane = threadIdx.x % 32;
    const int2 seed = g.seed[i];
    const int end = room(g, seed);
    int carried = 0, best = 0, extent = 0;
    for (int from = 0; from < end; from += 32) {
        const int at = from + lane;
        const bool equal = at < end && g.query[seed.x + at] == g.target[seed.y + at];
        int score = equal ? kEqual : kDifferent;
#pragma unroll
        for (int d = 1; d < 32; d *= 2) {
            const int other = __shfl_up_sync(kAll, score, d);
            if (lane >= d) score += other;
        }
        score += carried;
        int high = max(score, best);
#pragma unroll
        for (int d = 1; d < 32; d *= 2) {
            high = max(high, __shfl_up_sync(kAll, high, d));
        }
        const unsigned dropped = __ballot_sync(kAll, high - score > kDrop);
        const int last = dropped ? __ffs(dropped) - 1 : 31;
        const int reached = __shfl_sync(kAll, high, last);
        const unsigned highest = __ballot_sync(kAll, score == reached && lane <= last);
        if (reached > best) {
            best = reached;
            extent = from + __ffs(highest);
        }
        if (dropped) break;
        carried = __shfl_sync(kAll, score, 31);
    }
    if (lane == 0) report(g, i, best, extent);
}

__global__ void __launch_bounds__(kThreads) extend_long(const Genomes g) {
    const int count = g.queue[0], warps = gridDim.x * (kThreads / 32);
    for (int k = blockIdx.x * (kThreads / 32) + threadIdx.x / 32; k < count; k += warps) {
        extend_by_warp(g, g.queue[1 + k]);
    }
}

template <class Reader>
void launch_all(const Genomes& g) {
    extend_seeds<Reader><<<(g.seeds + kThreads - 1) / kThreads, kThreads>>>(g);
}

template <class Reader>
void launch_rounds(const Genomes& g) {
    BOOK_CHECK(cudaMemsetAsync(g.queue, 0, sizeof(int)));
    extend_short<Reader><<<(g.seeds + kThreads - 1) / kThreads, kThreads>>>(g);
    extend_long<<<132 * 8, kThreads>>>(g);
}
//: end

//: variant bases
void bases(const Genomes& g) {
    launch_all<Bases>(g);
}
//: end

//: variant words
void words(const Genomes& g) {
    launch_all<Words>(g);
}
//: end

//: variant bases_rounds
void bases_rounds(const Genomes& g) {
    launch_rounds<Bases>(g);
}
//: end

//: variant words_rounds
void words_rounds(const Genomes& g) {
    launch_rounds<Words>(g);
}
//: end

//: variant warps
__global__ void __launch_bounds__(kThreads) extend_each(const Genomes g) {
    const int i = blockIdx.x * (kThreads / 32) + threadIdx.x / 32;
    if (i < g.seeds) extend_by_warp(g, i);
}

void warps(const Genomes& g) {
    constexpr int kSeeds = kThreads / 32;
    extend_each<<<(g.seeds + kSeeds - 1) / kSeeds, kThreads>>>(g);
}
//: end

__global__ void reference_extend(Genomes g, int* scores, int* extents) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= g.seeds) return;
    int score = 0, top = 0, where = 0;
    const long long q = g.seed[i].x, t = g.seed[i].y;
    for (int n = 0; n < g.longest && q + n < g.length && t + n < g.length; ++n) {
        if (g.query[q + n] == g.target[t + n]) {
            score += 1;
        } else {
            score -= 2;
        }
        if (score > top) {
            top = score;
            where = n + 1;
        }
        if (top - score > 20) break;
    }
    if (scores) scores[i] = top;
    if (extents) extents[i] = where;
}

// The first half of the target resembles the query, in stretches of `stretch` bases.
Genomes set_up(book::Problem& p, double related, bool scattered, int stretch) {
    constexpr int kLength = 32 << 20, kSeeds = 1 << 20, kHalf = kLength / 2;
    Genomes g{.length = kLength, .seeds = kSeeds, .longest = stretch / 2};
    const uint64_t seed = p.seed();
    const auto base = [=] __host__ __device__(uint64_t stream, size_t at) {
        return int(4 * book::uniform01(seed, stream, at));
    };
    g.query = p.input<uint8_t>(kLength + 64, [=] __device__(size_t at) { return uint8_t(base(101, at)); });
    g.target = p.input<uint8_t>(kLength + 64, [=] __device__(size_t at) {
        const bool like = at < kHalf && at % stretch >= 64 && book::uniform01(seed, 102, at) >= 0.05;
        return uint8_t(like ? base(101, at) : base(103, at));
    });
    g.seed = p.input<int2>(kSeeds, [=] __device__(size_t i) {
        const bool match = scattered ? book::uniform01(seed, 104, i) < related : i >= kSeeds * (1 - related);
        const double x = book::uniform01(seed, 105, i), y = book::uniform01(seed, 106, i);
        if (match) return make_int2(int(x * kHalf), int(x * kHalf));
        return make_int2(int(x * kLength), int(y * kLength));
    });
    g.score = p.output<int>(kSeeds);
    g.extent = p.output<int>(kSeeds);
    g.queue = p.output<int>(1 + kSeeds);
    // A pair of positions, a score and an extent per seed, and at least a sector of each genome.
    p.needs({.dram_bytes = 16.0 * kSeeds + 2.0 * 32 * kSeeds});
    p.check<int>(g.score, kSeeds, {0}, [=](int* expected) {
        reference_extend<<<kSeeds / 256, 256>>>(g, expected, nullptr);
    });
    p.check<int>(g.extent, kSeeds, {0}, [=](int* expected) {
        reference_extend<<<kSeeds / 256, 256>>>(g, nullptr, expected);
    });
    return g;
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("relatives", [](book::Problem& p) {
        const Genomes g = set_up(p, 0.06, true, 2048);
        p.variant("bases", [=] { bases(g); });
        p.variant("words", [=] { words(g); });
        p.variant("bases_rounds", [=] { bases_rounds(g); });
        p.variant("words_rounds", [=] { words_rounds(g); });
    });
    book.problem("distant", [](book::Problem& p) {
        const Genomes g = set_up(p, 0.01, true, 2048);
        p.variant("bases", [=] { bases(g); });
        p.variant("bases_rounds", [=] { bases_rounds(g); });
    });
    book.problem("strangers", [](book::Problem& p) {
        const Genomes g = set_up(p, 0, true, 2048);
        p.variant("bases", [=] { bases(g); });
        p.variant("words", [=] { words(g); });
        p.variant("warps", [=] { warps(g); });
    });
    book.problem("gene", [](book::Problem& p) {
        const Genomes g = set_up(p, 0.005, false, 8192);
        p.variant("words", [=] { words(g); });
        p.variant("words_rounds", [=] { words_rounds(g); });
    });
    return book.finish();
}
