// Local alignment of many pairs of sequences (Smith-Waterman with affine gaps, score only).
// A sequence has a slot of fixed length, one byte per letter; slots of short sequences are filled up
// with letters that match nothing.
#include "../../harness/book.h"

struct Pairs {
    int count, slot;         // pairs, letters per slot
    const char* query;       // count slots
    const char* target;
    const int* length;       // of both sequences of a pair, where lengths differ
    const int* order;        // pairs from long to short, where lengths differ
    const int* substitution; // kLetters * kLetters, where letters are amino acids
    int* score;
};

//: shared
constexpr int kMatch = 2, kMismatch = -3, kOpen = 5, kExtend = 2, kNone = -10000;
constexpr int kSlot = 128;    // longest sequence that one thread aligns
constexpr int kLetters = 20;  // amino acids

struct Cell {
    int h, e, f;
};

// The cell right of (left, e) and below (up, f).
__device__ inline Cell next_cell(int corner, int left, int up, int e, int f, int similarity) {
    Cell c;
    c.e = max(left - kOpen, e - kExtend);
    c.f = max(up - kOpen, f - kExtend);
    c.h = max(max(corner + similarity, 0), max(c.e, c.f));
    return c;
}

// One row of a strip of the table; `up` and `f` hold the row above, `left` and `e` the column before.
template <int Width>
__device__ inline void strip_row(char letter, const char (&target)[Width], int (&up)[Width], int (&f)[Width],
                                 int corner, int& left, int& e, int& best) {
#pragma unroll
    for (int j = 0; j < Width; ++j) {
        const int similarity = letter == target[j] ? kMatch : kMismatch;
        const Cell c = next_cell(corner, left, up[j], e, f[j], similarity);
        corner = up[j];
        up[j] = left = c.h;
        e = c.e;
        f[j] = c.f;
        best = max(best, c.h);
    }
}

__device__ inline char letter_of(uint32_t word, int k) { return char(word >> 8 * k & 0xFF); }

// One pair: strips of the target, each from the first to the last letter of the query. Letters are
// loaded four at a time.
template <int Width>
__device__ inline int align_strips(const char* query, const char* target, int query_length, int target_length) {
    short2 edge[kSlot];
    for (int i = 0; i < query_length; ++i) edge[i] = make_short2(0, kNone);
    int best = 0;
    for (int start = 0; start < target_length; start += Width) {
        char t[Width];
        int up[Width], f[Width];
#pragma unroll
        for (int j = 0; j < Width; ++j) {
            t[j] = letter_of(*reinterpret_cast<const uint32_t*>(target + start + j / 4 * 4), j % 4);
            up[j] = 0, f[j] = kNone;
        }
        int corner = 0;
        for (int i = 0; i < query_length; i += 4) {
            const uint32_t letters = *reinterpret_cast<const uint32_t*>(query + i);
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                const short2 before = edge[i + k];
                int left = before.x, e = before.y;
                strip_row<Width>(letter_of(letters, k), t, up, f, corner, left, e, best);
                edge[i + k] = make_short2(left, e);
                corner = before.x;
            }
        }
    }
    return best;
}

template <int Width>
__global__ void __launch_bounds__(128) align_words(const char* query, const char* target, int length, int* score, int count) {
    const int pair = blockIdx.x * blockDim.x + threadIdx.x;
    if (pair >= count) return;
    score[pair] = align_strips<Width>(query + size_t(pair) * length, target + size_t(pair) * length, length, length);
}
//: end

//: variant full_row
__global__ void __launch_bounds__(128) align_full_row(const char* query, const char* target, int length, int* score, int count) {
    const int pair = blockIdx.x * blockDim.x + threadIdx.x;
    if (pair >= count) return;
    query += size_t(pair) * length;
    target += size_t(pair) * length;
    int up[kSlot], f[kSlot];
    for (int j = 0; j < length; ++j) up[j] = 0, f[j] = kNone;
    int best = 0;
    for (int i = 0; i < length; ++i) {
        const char letter = query[i];
        int corner = 0, left = 0, e = kNone;
        for (int j = 0; j < length; j += 4) {
            const uint32_t letters = *reinterpret_cast<const uint32_t*>(target + j);
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                const int similarity = letter == letter_of(letters, k) ? kMatch : kMismatch;
                const Cell c = next_cell(corner, left, up[j + k], e, f[j + k], similarity);
                corner = up[j + k];
                up[j + k] = left = c.h;
                e = c.e;
                f[j + k] = c.f;
                best = max(best, c.h);
            }
        }
    }
    score[pair] = best;
}

void full_row(const Pairs& p) {
    align_full_row<<<(p.count + 127) / 128, 128>>>(p.query, p.target, p.slot, p.score, p.count);
}
//: end

//: variant strip
__global__ void __launch_bounds__(128) align_strip(const char* query, const char* target, int length, int* score, int count) {
    const int pair = blockIdx.x * blockDim.x + threadIdx.x;
    if (pair >= count) return;
    query += size_t(pair) * length;
    target += size_t(pair) * length;
    short2 edge[kSlot];
    for (int i = 0; i < length; ++i) edge[i] = make_short2(0, kNone);
    int best = 0;
    for (int start = 0; start < length; start += 16) {
        char t[16];
        int up[16], f[16];
#pragma unroll
        for (int j = 0; j < 16; ++j) t[j] = target[start + j], up[j] = 0, f[j] = kNone;
        int corner = 0;
        for (int i = 0; i < length; ++i) {
            const short2 before = edge[i];
            int left = before.x, e = before.y;
            strip_row<16>(query[i], t, up, f, corner, left, e, best);
            edge[i] = make_short2(left, e);
            corner = before.x;
        }
    }
    score[pair] = best;
}

void strip(const Pairs& p) {
    align_strip<<<(p.count + 127) / 128, 128>>>(p.query, p.target, p.slot, p.score, p.count);
}
//: end

//: variant strip_words
void strip_words(const Pairs& p) {
    constexpr int kWidth = 16;
    align_words<kWidth><<<(p.count + 127) / 128, 128>>>(p.query, p.target, p.slot, p.score, p.count);
}
//: end

//: variant strip_words_32
void strip_words_32(const Pairs& p) {
    constexpr int kWidth = 32;
    align_words<kWidth><<<(p.count + 127) / 128, 128>>>(p.query, p.target, p.slot, p.score, p.count);
}
//: end

//: variant in_order
__global__ void __launch_bounds__(128) align_in_order(const char* query, const char* target, const int* length, int* score, int count) {
    const int pair = blockIdx.x * blockDim.x + threadIdx.x;
    if (pair >= count) return;
    const size_t first = size_t(pair) * kSlot;
    const int letters = (length[pair] + 3) / 4 * 4;
    score[pair] = align_strips<16>(query + first, target + first, letters, letters);
}

void in_order(const Pairs& p) {
    align_in_order<<<(p.count + 127) / 128, 128>>>(p.query, p.target, p.length, p.score, p.count);
}
//: end

//: variant by_length
__global__ void __launch_bounds__(128) align_by_length(const char* query, const char* target, const int* length,
                                const int* order, int* score, int count) {
    const int rank = blockIdx.x * blockDim.x + threadIdx.x;
    if (rank >= count) return;
    const int pair = order[rank];
    const size_t first = size_t(pair) * kSlot;
    const int letters = (length[pair] + 3) / 4 * 4;
    score[pair] = align_strips<16>(query + first, target + first, letters, letters);
}

void by_length(const Pairs& p) {
    align_by_length<<<(p.count + 127) / 128, 128>>>(p.query, p.target, p.length, p.order, p.score, p.count);
}
//: end

//: variant substitution
__global__ void __launch_bounds__(256) align_protein(const char* query, const char* target, int length,
                              const int* substitution, int* score, int count) {
    __shared__ int table[kLetters * kLetters];
    for (int i = threadIdx.x; i < kLetters * kLetters; i += blockDim.x) table[i] = substitution[i];
    __syncthreads();
    const int pair = blockIdx.x * blockDim.x + threadIdx.x;
    if (pair >= count) return;
    query += size_t(pair) * length;
    target += size_t(pair) * length;
    short2 edge[kSlot];
    for (int i = 0; i < length; ++i) edge[i] = make_short2(0, kNone);
    int best = 0;
    for (int start = 0; start < length; start += 16) {
        int at[16], up[16], f[16];
#pragma unroll
        for (int j = 0; j < 16; ++j) {
            const uint32_t letters = *reinterpret_cast<const uint32_t*>(target + start + j / 4 * 4);
            at[j] = letter_of(letters, j % 4), up[j] = 0, f[j] = kNone;
        }
        int corner = 0;
        for (int i = 0; i < length; i += 4) {
            const uint32_t letters = *reinterpret_cast<const uint32_t*>(query + i);
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                const int* row = table + letter_of(letters, k) * kLetters;
                const short2 before = edge[i + k];
                int left = before.x, e = before.y;
#pragma unroll
                for (int j = 0; j < 16; ++j) {
                    const Cell c = next_cell(corner, left, up[j], e, f[j], row[at[j]]);
                    corner = up[j];
                    up[j] = left = c.h, e = c.e, f[j] = c.f;
                    best = max(best, c.h);
                }
                edge[i + k] = make_short2(left, e);
                corner = before.x;
            }
        }
    }
    score[pair] = best;
}

void substitution(const Pairs& p) {
    align_protein<<<(p.count + 255) / 256, 256>>>(p.query, p.target, p.slot, p.substitution, p.score, p.count);
}
//: end

//: variant substitution_by_lane
// Word (entry / 2) * 32 + lane of the table has two neighbouring entries of a row, for this lane.
__global__ void __launch_bounds__(256) align_protein_lanes(const char* query, const char* target, int length,
                                    const int* substitution, int* score, int count) {
    __shared__ short table[kLetters * kLetters * 32];
    for (int i = threadIdx.x; i < kLetters * kLetters * 32; i += blockDim.x) {
        table[i] = short(substitution[i / 64 * 2 + i % 2]);
    }
    __syncthreads();
    const int pair = blockIdx.x * blockDim.x + threadIdx.x;
    if (pair >= count) return;
    query += size_t(pair) * length;
    target += size_t(pair) * length;
    const short* own = table + 2 * (threadIdx.x % 32);
    short2 edge[kSlot];
    for (int i = 0; i < length; ++i) edge[i] = make_short2(0, kNone);
    int best = 0;
    for (int start = 0; start < length; start += 16) {
        int at[16], up[16], f[16];
#pragma unroll
        for (int j = 0; j < 16; ++j) {
            const uint32_t letters = *reinterpret_cast<const uint32_t*>(target + start + j / 4 * 4);
            const int letter = letter_of(letters, j % 4);
            at[j] = letter / 2 * 64 + letter % 2, up[j] = 0, f[j] = kNone;
        }
        int corner = 0;
        for (int i = 0; i < length; i += 4) {
            const uint32_t letters = *reinterpret_cast<const uint32_t*>(query + i);
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                const short* row = own + letter_of(letters, k) * (kLetters * 32);
                const short2 before = edge[i + k];
                int left = before.x, e = before.y;
#pragma unroll
                for (int j = 0; j < 16; ++j) {
                    const Cell c = next_cell(corner, left, up[j], e, f[j], row[at[j]]);
                    corner = up[j];
                    up[j] = left = c.h, e = c.e, f[j] = c.f;
                    best = max(best, c.h);
                }
                edge[i + k] = make_short2(left, e);
                corner = before.x;
            }
        }
    }
    score[pair] = best;
}

void substitution_by_lane(const Pairs& p) {
    align_protein_lanes<<<(p.count + 255) / 256, 256>>>(p.query, p.target, p.slot, p.substitution, p.score, p.count);
}
//: end

//: shared
constexpr int kLong = 1024;  // letters of a long sequence

// One block per pair, a thread for every Rows letters of the query. In step s thread t computes its
// cells of column s - t; the row above comes from the thread before, one step ago.
template <int Rows>
__global__ void __launch_bounds__(kLong / Rows) align_wavefront(const char* query, const char* target, int* score) {
    constexpr int kThreads = kLong / Rows;
    __shared__ int2 passed[2][kThreads + 1];
    __shared__ char letters[kLong];
    __shared__ int bests[32];
    const int t = threadIdx.x;
    query += size_t(blockIdx.x) * kLong;
    target += size_t(blockIdx.x) * kLong;
    char own[Rows];
    int left[Rows], e[Rows];
    for (int r = 0; r < Rows; ++r) own[r] = query[t * Rows + r], left[r] = 0, e[r] = kNone;
    for (int j = t; j < kLong; j += kThreads) letters[j] = target[j];
    passed[0][t + 1] = passed[1][t + 1] = make_int2(0, kNone);
    if (t == 0) passed[0][0] = passed[1][0] = make_int2(0, kNone);
    __syncthreads();
    int corner = 0, best = 0;
    for (int s = 0; s < kLong + kThreads - 1; ++s) {
        const int column = s - t;
        if (column >= 0 && column < kLong) {
            const int2 above = passed[(s + 1) % 2][t];
            const char letter = letters[column];
            int up = above.x, f = above.y, diagonal = corner;
            corner = above.x;
#pragma unroll
            for (int r = 0; r < Rows; ++r) {
                const int similarity = letter == own[r] ? kMatch : kMismatch;
                const Cell c = next_cell(diagonal, left[r], up, e[r], f, similarity);
                diagonal = left[r];
                left[r] = up = c.h;
                e[r] = c.e, f = c.f;
                best = max(best, c.h);
            }
            passed[s % 2][t + 1] = make_int2(up, f);
        }
        __syncthreads();
    }
    best = __reduce_max_sync(0xFFFFFFFFu, best);
    if (t % 32 == 0) bests[t / 32] = best;
    __syncthreads();
    if (t < 32) {
        best = __reduce_max_sync(0xFFFFFFFFu, t < kThreads / 32 ? bests[t] : 0);
        if (t == 0) score[blockIdx.x] = best;
    }
}
//: end

//: variant one_row
void one_row(const Pairs& p) {
    constexpr int kRows = 1;
    align_wavefront<kRows><<<p.count, kLong / kRows>>>(p.query, p.target, p.score);
}
//: end

//: variant two_rows
void two_rows(const Pairs& p) {
    constexpr int kRows = 2;
    align_wavefront<kRows><<<p.count, kLong / kRows>>>(p.query, p.target, p.score);
}
//: end

//: variant four_rows
void four_rows(const Pairs& p) {
    constexpr int kRows = 4;
    align_wavefront<kRows><<<p.count, kLong / kRows>>>(p.query, p.target, p.score);
}
//: end

//: variant eight_rows
void eight_rows(const Pairs& p) {
    constexpr int kRows = 8;
    align_wavefront<kRows><<<p.count, kLong / kRows>>>(p.query, p.target, p.score);
}
//: end

// Plain recurrence, one thread per pair, column by column.
template <int Longest>
__global__ void reference_scores(const char* query, const char* target, const int* length, const int* matrix,
                                 int slot, int count, int* expected) {
    const int pair = blockIdx.x * blockDim.x + threadIdx.x;
    if (pair >= count) return;
    int h[Longest + 1], e[Longest + 1];
    const int n = length ? length[pair] : slot;
    const char *q = query + size_t(pair) * slot, *t = target + size_t(pair) * slot;
    for (int i = 0; i <= n; ++i) h[i] = 0, e[i] = -1000000;
    int best = 0;
    for (int j = 0; j < n; ++j) {
        int before = h[0], f = -1000000;
        for (int i = 1; i <= n; ++i) {
            const int s = matrix ? matrix[q[i - 1] * 20 + t[j]] : q[i - 1] == t[j] ? 2 : -3;
            e[i] = max(h[i] - 5, e[i] - 2);
            f = max(h[i - 1] - 5, f - 2);
            const int value = max(max(0, before + s), max(e[i], f));
            before = h[i];
            h[i] = value;
            best = max(best, value);
        }
    }
    expected[pair] = best;
}

// The target is the query with substitutions and a few letters left out: scores that differ.
Pairs set_up(book::Problem& p, int count, int slot, int letters, bool ragged) {
    Pairs d{count, slot};
    const uint64_t seed = p.seed();
    const size_t total = size_t(count) * slot;
    const auto length_of = [=] __host__ __device__(size_t pair) {
        const double u = book::uniform01(seed, 1, pair);
        return ragged ? 24 + int(104.99 * u * u) : slot;
    };
    d.query = p.input<char>(total, [=] __device__(size_t i) {
        if (int(i % slot) >= length_of(i / slot)) return char(100);
        return char(int(letters * book::uniform01(seed, 2, i)));
    });
    d.target = p.input<char>(total, [=] __device__(size_t i) {
        const int at = int(i % slot), length = length_of(i / slot);
        if (at >= length) return char(101);
        const int skipped = at >= int(length * book::uniform01(seed, 3, i / slot)) ? 1 + int(i / slot % 3) : 0;
        const bool replaced = book::uniform01(seed, 4, i) < 0.4 * book::uniform01(seed, 5, i / slot);
        if (replaced || at + skipped >= length) return char(int(letters * book::uniform01(seed, 6, i)));
        return char(int(letters * book::uniform01(seed, 2, i + skipped)));
    });
    double cells = double(total) * slot, letters_read = 2.0 * total;
    if (ragged) {
        std::vector<int> lengths(count), order(count), starts(slot + 2);
        cells = letters_read = 0;
        for (int i = 0; i < count; ++i) {
            lengths[i] = length_of(i);
            cells += double(lengths[i]) * lengths[i];
            letters_read += 2.0 * lengths[i] + sizeof(int);
            ++starts[slot - lengths[i] + 1];
        }
        for (int i = 1; i < slot + 2; ++i) starts[i] += starts[i - 1];
        for (int i = 0; i < count; ++i) order[starts[slot - lengths[i]]++] = i;
        d.length = p.upload(lengths);
        d.order = p.upload(order);
    }
    if (letters == kLetters) {
        std::vector<int> matrix(kLetters * kLetters);
        for (int a = 0; a < kLetters; ++a) {
            for (int b = 0; b < kLetters; ++b) {
                const int low = std::min(a, b), high = std::max(a, b);
                matrix[a * kLetters + b] = a == b ? 4 + a % 4 : (low * 7 + high * 5) % 6 - 4;
            }
        }
        d.substitution = p.upload(matrix);
    }
    d.score = p.output<int>(count);
    p.needs({.dram_bytes = letters_read + 4.0 * count, .int_op = 7 * cells});
    p.check<int>(d.score, count, {0}, [=](int* expected) {
        if (slot > kSlot) {
            reference_scores<kLong><<<count, 1>>>(d.query, d.target, d.length, d.substitution, slot, count, expected);
        } else {
            reference_scores<kSlot><<<(count + 127) / 128, 128>>>(d.query, d.target, d.length, d.substitution, slot,
                                                                  count, expected);
        }
    });
    return d;
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("reads", [](book::Problem& p) {
        const auto d = set_up(p, 132 * 512, kSlot, 4, false);
        p.variant("full_row", [=] { full_row(d); });
        p.variant("strip", [=] { strip(d); });
        p.variant("strip_words", [=] { strip_words(d); });
        p.variant("strip_words_32", [=] { strip_words_32(d); });
    });
    book.problem("mixed_reads", [](book::Problem& p) {
        const auto d = set_up(p, 132 * 1536, kSlot, 4, true);
        p.variant("in_order", [=] { in_order(d); });
        p.variant("by_length", [=] { by_length(d); });
    });
    book.problem("proteins", [](book::Problem& p) {
        const auto d = set_up(p, 132 * 512, kSlot, kLetters, false);
        p.variant("substitution", [=] { substitution(d); });
        p.variant("substitution_by_lane", [=] { substitution_by_lane(d); });
    });
    book.problem("genes", [](book::Problem& p) {
        const auto d = set_up(p, 132, kLong, 4, false);
        p.variant("one_row", [=] { one_row(d); });
        p.variant("two_rows", [=] { two_rows(d); });
        p.variant("four_rows", [=] { four_rows(d); });
        p.variant("eight_rows", [=] { eight_rows(d); });
    });
    return book.finish();
}
