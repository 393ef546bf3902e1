// The routing of a mixture-of-experts layer: top-k experts of each token from the router's scores, slots of the
// (token, expert) pairs in the experts' segments, rows to their slots, and the weighted sum of a token's rows.
#include "../../harness/book.h"

//: shared
struct __align__(16) Pack8 {
    __half2 v[4];
};

constexpr int kExperts = 128;
constexpr int kTop = 8;

__device__ inline bool ahead(float score, int expert, float other_score, int other_expert) {
    return score > other_score || (score == other_score && expert < other_expert);
}
//: end

struct Scores {
    int tokens;
    const float* scores;  // tokens x kExperts
    int* experts;         // tokens x kTop, best first
    float* weights;       // tokens x kTop, sum 1
};

//: variant block_token
__global__ void top_of_block(const float* scores, int* experts, float* weights) {
    __shared__ float best[kExperts];
    __shared__ int best_at[kExperts];
    __shared__ float chosen[kTop];
    const int token = blockIdx.x, expert = threadIdx.x;
    float mine = scores[size_t(token) * kExperts + expert];
    for (int round = 0; round < kTop; ++round) {
        best[expert] = mine;
        best_at[expert] = expert;
        __syncthreads();
        for (int half = kExperts / 2; half > 0; half /= 2) {
            if (expert < half && ahead(best[expert + half], best_at[expert + half], best[expert],
                                       best_at[expert])) {
                best[expert] = best[expert + half];
                best_at[expert] = best_at[expert + half];
            }
            __syncthreads();
        }
        const int winner = best_at[0];
        if (expert == winner) {
            chosen[round] = mine;
            experts[size_t(token) * kTop + round] = expert;
            mine = -INFINITY;
        }
        __syncthreads();
    }
    if (expert < kTop) {
        float total = 0;
        for (int i = 0; i < kTop; ++i) total += __expf(chosen[i] - chosen[0]);
        weights[size_t(token) * kTop + expert] = __expf(chosen[expert] - chosen[0]) / total;
    }
}

void block_token(const Scores& d) {
    top_of_block<<<d.tokens, kExperts>>>(d.scores, d.experts, d.weights);
}
//: end

//: variant warp_token
__global__ void top_of_warp(const float* scores, int* experts, float* weights, int tokens) {
    const int token = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (token >= tokens) return;
    const float4 four = reinterpret_cast<const float4*>(scores + size_t(token) * kExperts)[lane];
    float mine[4] = {four.x, four.y, four.z, four.w};
    float first = 0, total = 0, weight = 0;
    int expert = 0;
    for (int round = 0; round < kTop; ++round) {
        float best = mine[0];
        int best_at = 4 * lane;
        for (int j = 1; j < 4; ++j) {
            if (mine[j] > best) best = mine[j], best_at = 4 * lane + j;
        }
        for (int step = 16; step > 0; step /= 2) {
            const float other = __shfl_xor_sync(~0u, best, step);
            const int other_at = __shfl_xor_sync(~0u, best_at, step);
            if (ahead(other, other_at, best, best_at)) best = other, best_at = other_at;
        }
        for (int j = 0; j < 4; ++j) {
            if (best_at == 4 * lane + j) mine[j] = -INFINITY;
        }
        if (round == 0) first = best;
        const float power = __expf(best - first);
        total += power;
        if (lane == round) weight = power, expert = best_at;
    }
    if (lane < kTop) {
        experts[size_t(token) * kTop + lane] = expert;
        weights[size_t(token) * kTop + lane] = weight / total;
    }
}

void warp_token(const Scores& d) {
    top_of_warp<<<(d.tokens + 7) / 8, 256>>>(d.scores, d.experts, d.weights, d.tokens);
}
//: end

// One thread per token, by repeated selection.
__global__ void reference_top(Scores d, int* experts, float* weights) {
    const int token = blockIdx.x * blockDim.x + threadIdx.x;
    if (token >= d.tokens) return;
    const float* scores = d.scores + size_t(token) * kExperts;
    unsigned long long taken[2] = {0, 0};
    double total = 0;
    for (int pass = 0; pass < 2; ++pass) {
        taken[0] = taken[1] = 0;
        double top = 0, sum = 0;
        for (int k = 0; k < kTop; ++k) {
            int best = -1;
            for (int e = 0; e < kExperts; ++e) {
                if (taken[e / 64] >> (e % 64) & 1) continue;
                if (best < 0 || scores[e] > scores[best]) best = e;
            }
            taken[best / 64] |= 1ull << (best % 64);
            if (k == 0) top = scores[best];
            const double power = exp(double(scores[best]) - top);
            sum += power;
            if (pass == 1 && experts) experts[size_t(token) * kTop + k] = best;
            if (pass == 1 && weights) weights[size_t(token) * kTop + k] = float(power / total);
        }
        total = sum;
    }
}

struct Route {
    int tokens, width, top, experts, capacity;
    const int* chosen;     // tokens x top: experts
    const float* weights;  // tokens x top
    const float* gains;    // of an expert's input
    const __half* x;       // tokens x width
    int* counts;           // pairs per expert so far
    int* slots;            // tokens x top: where a pair's row is
    __half* held;          // experts x capacity x width
    __half* out;           // tokens x width
};

//: shared
constexpr int kPairs = 1024;

__global__ void dispatch_rows(const __half* x, const int* chosen, const float* gains, const int* slots,
                              __half* held, int pairs, int top, int width) {
    const int packs = width / 8;
    const int index = blockIdx.x * blockDim.x + threadIdx.x;
    const int pair = index / packs, c = index % packs;
    if (pair >= pairs) return;
    const float gain = gains[chosen[pair]];
    Pack8 pack = reinterpret_cast<const Pack8*>(x)[size_t(pair / top) * packs + c];
    for (int j = 0; j < 4; ++j) {
        const float2 v = __half22float2(pack.v[j]);
        pack.v[j] = __floats2half2_rn(v.x * gain, v.y * gain);
    }
    reinterpret_cast<Pack8*>(held)[size_t(slots[pair]) * packs + c] = pack;
}

__global__ void collect_rows(const __half* held, const int* slots, const float* weights, __half* out,
                             int tokens, int top, int width) {
    const int packs = width / 8;
    const int index = blockIdx.x * blockDim.x + threadIdx.x;
    const int token = index / packs, c = index % packs;
    if (token >= tokens) return;
    float2 sums[4] = {};
    for (int k = 0; k < top; ++k) {
        const float weight = weights[token * top + k];
        const Pack8 pack = reinterpret_cast<const Pack8*>(held)[size_t(slots[token * top + k]) * packs + c];
        for (int j = 0; j < 4; ++j) {
            const float2 v = __half22float2(pack.v[j]);
            sums[j].x += weight * v.x, sums[j].y += weight * v.y;
        }
    }
    Pack8 pack;
    for (int j = 0; j < 4; ++j) pack.v[j] = __floats2half2_rn(sums[j].x, sums[j].y);
    reinterpret_cast<Pack8*>(out)[size_t(token) * packs + c] = pack;
}

inline void move_rows(const Route& d) {
    const int packs = d.width / 8, pairs = d.tokens * d.top;
    dispatch_rows<<<(pairs * packs + 255) / 256, 256>>>(d.x, d.chosen, d.gains, d.slots, d.held, pairs,
                                                        d.top, d.width);
    collect_rows<<<(d.tokens * packs + 255) / 256, 256>>>(d.held, d.slots, d.weights, d.out, d.tokens,
                                                          d.top, d.width);
}
//: end

//: variant pair_counters
__global__ void slots_by_pair(const int* chosen, int* counts, int* slots, int pairs, int capacity) {
    const int pair = blockIdx.x * blockDim.x + threadIdx.x;
    if (pair >= pairs) return;
    const int expert = chosen[pair];
    slots[pair] = expert * capacity + atomicAdd(&counts[expert], 1);
}

void pair_counters(const Route& d) {
    const int pairs = d.tokens * d.top;
    BOOK_CHECK(cudaMemsetAsync(d.counts, 0, d.experts * sizeof(int)));
    slots_by_pair<<<(pairs + kPairs - 1) / kPairs, kPairs>>>(d.chosen, d.counts, d.slots, pairs, d.capacity);
    move_rows(d);
}
//: end

//: variant block_counters
__global__ void slots_by_block(const int* chosen, int* counts, int* slots, int pairs, int experts,
                               int capacity) {
    __shared__ int local[64];
    const int pair = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x < experts) local[threadIdx.x] = 0;
    __syncthreads();
    const int expert = pair < pairs ? chosen[pair] : 0;
    const int rank = pair < pairs ? atomicAdd(&local[expert], 1) : 0;
    __syncthreads();
    if (threadIdx.x < experts) local[threadIdx.x] = atomicAdd(&counts[threadIdx.x], local[threadIdx.x]);
    __syncthreads();
    if (pair < pairs) slots[pair] = expert * capacity + local[expert] + rank;
}

void block_counters(const Route& d) {
    const int pairs = d.tokens * d.top;
    BOOK_CHECK(cudaMemsetAsync(d.counts, 0, d.experts * sizeof(int)));
    slots_by_block<<<(pairs + kPairs - 1) / kPairs, kPairs>>>(d.chosen, d.counts, d.slots, pairs, d.experts,
                                                              d.capacity);
    move_rows(d);
}
//: end

//: variant match_counters
__global__ void slots_by_match(const int* chosen, int* counts, int* slots, int pairs, int experts,
                               int capacity) {
    __shared__ int local[64];
    const int pair = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
    if (threadIdx.x < experts) local[threadIdx.x] = 0;
    __syncthreads();
    const int expert = pair < pairs ? chosen[pair] : -1;
    const unsigned same = __match_any_sync(~0u, expert);
    const int leader = __ffs(same) - 1;
    int before = 0;
    if (lane == leader && expert >= 0) before = atomicAdd(&local[expert], __popc(same));
    const int rank = __shfl_sync(~0u, before, leader) + __popc(same & ((1u << lane) - 1));
    __syncthreads();
    if (threadIdx.x < experts) local[threadIdx.x] = atomicAdd(&counts[threadIdx.x], local[threadIdx.x]);
    __syncthreads();
    if (expert >= 0) slots[pair] = expert * capacity + local[expert] + rank;
}

void match_counters(const Route& d) {
    const int pairs = d.tokens * d.top;
    BOOK_CHECK(cudaMemsetAsync(d.counts, 0, d.experts * sizeof(int)));
    slots_by_match<<<(pairs + kPairs - 1) / kPairs, kPairs>>>(d.chosen, d.counts, d.slots, pairs, d.experts,
                                                              d.capacity);
    move_rows(d);
}
//: end

__global__ void reference_route(Route d, __half* expected) {
    const size_t count = size_t(d.tokens) * d.width;
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count;
         i += size_t{gridDim.x} * blockDim.x) {
        const size_t token = i / d.width;
        double sum = 0;
        for (int k = 0; k < d.top; ++k) {
            const float scaled = __half2float(d.x[i]) * d.gains[d.chosen[token * d.top + k]];
            sum += double(d.weights[token * d.top + k]) * double(__half2float(__float2half(scaled)));
        }
        expected[i] = __float2half(float(sum));
    }
}

struct Gather {
    int tokens, width;
    const __half* rows;    // 2 tokens x width
    const int* slots;      // tokens x 2
    const float* weights;  // tokens x 2
    __half* out;           // tokens x width
};

//: variant halves
__global__ void gather_halves(const __half* rows, const int* slots, const float* weights, __half* out,
                              int width) {
    const int token = blockIdx.x;
    const __half* a = rows + size_t(slots[2 * token]) * width;
    const __half* b = rows + size_t(slots[2 * token + 1]) * width;
    const float weight_a = weights[2 * token], weight_b = weights[2 * token + 1];
    for (int c = threadIdx.x; c < width; c += blockDim.x) {
        const float sum = weight_a * __half2float(a[c]) + weight_b * __half2float(b[c]);
        out[size_t(token) * width + c] = __float2half(sum);
    }
}

void halves(const Gather& d) {
    gather_halves<<<d.tokens, 256>>>(d.rows, d.slots, d.weights, d.out, d.width);
}
//: end

//: shared
__device__ inline Pack8 mixed_pack(const Pack8& a, const Pack8& b, float weight_a, float weight_b) {
    Pack8 sum;
    for (int j = 0; j < 4; ++j) {
        const float2 u = __half22float2(a.v[j]), v = __half22float2(b.v[j]);
        sum.v[j] = __floats2half2_rn(weight_a * u.x + weight_b * v.x, weight_a * u.y + weight_b * v.y);
    }
    return sum;
}
//: end

//: variant packs
__global__ void gather_packs(const Pack8* rows, const int* slots, const float* weights, Pack8* out,
                             int packs) {
    const int token = blockIdx.x;
    const Pack8* a = rows + size_t(slots[2 * token]) * packs;
    const Pack8* b = rows + size_t(slots[2 * token + 1]) * packs;
    const float weight_a = weights[2 * token], weight_b = weights[2 * token + 1];
    for (int c = threadIdx.x; c < packs; c += blockDim.x) {
        out[size_t(token) * packs + c] = mixed_pack(a[c], b[c], weight_a, weight_b);
    }
}

void packs(const Gather& d) {
    gather_packs<<<d.tokens, 256>>>(reinterpret_cast<const Pack8*>(d.rows), d.slots, d.weights,
                                    reinterpret_cast<Pack8*>(d.out), d.width / 8);
}
//: end

//: variant packs_of_two
// Two tokens per block: their four rows are loaded before the first is used.
__global__ void gather_two(const Pack8* rows, const int* slots, const float* weights, Pack8* out, int packs) {
    const int token = 2 * blockIdx.x;
    const int4 from = reinterpret_cast<const int4*>(slots)[blockIdx.x];
    const float4 weight = reinterpret_cast<const float4*>(weights)[blockIdx.x];
    for (int c = threadIdx.x; c < packs; c += blockDim.x) {
        const Pack8 a = rows[size_t(from.x) * packs + c], b = rows[size_t(from.y) * packs + c];
        const Pack8 e = rows[size_t(from.z) * packs + c], f = rows[size_t(from.w) * packs + c];
        out[size_t(token) * packs + c] = mixed_pack(a, b, weight.x, weight.y);
        out[size_t(token + 1) * packs + c] = mixed_pack(e, f, weight.z, weight.w);
    }
}

void packs_of_two(const Gather& d) {
    gather_two<<<d.tokens / 2, 256>>>(reinterpret_cast<const Pack8*>(d.rows), d.slots, d.weights,
                                      reinterpret_cast<Pack8*>(d.out), d.width / 8);
}
//: end

__global__ void reference_gather(Gather d, __half* expected) {
    const size_t count = size_t(d.tokens) * d.width;
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count;
         i += size_t{gridDim.x} * blockDim.x) {
        const size_t token = i / d.width, c = i % d.width;
        double sum = 0;
        for (int k = 0; k < 2; ++k) {
            const size_t row = d.slots[2 * token + k];
            sum += double(d.weights[2 * token + k]) * double(__half2float(d.rows[row * d.width + c]));
        }
        expected[i] = __float2half(float(sum));
    }
}

struct Segments {
    int rows, width, experts;
    const int* starts;    // experts + 1: first row of each expert
    const __half* in;     // rows x width
    const __half* shift;  // experts x width
    __half* out;
};

//: shared
__device__ inline Pack8 activated(const Pack8& in, const Pack8& shift) {
    Pack8 out;
    for (int j = 0; j < 4; ++j) {
        const float2 u = __half22float2(in.v[j]), s = __half22float2(shift.v[j]);
        const float x = u.x + s.x, y = u.y + s.y;
        out.v[j] = __floats2half2_rn(__fdividef(x, 1.0f + __expf(-x)), __fdividef(y, 1.0f + __expf(-y)));
    }
    return out;
}
//: end

//: variant by_expert
__global__ void activate_by_expert(const Pack8* in, const Pack8* shift, Pack8* out, const int* starts,
                                   int packs) {
    const int expert = blockIdx.y, c = threadIdx.x, end = starts[expert + 1];
    const Pack8 own_shift = shift[expert * packs + c];
    for (int row = starts[expert] + blockIdx.x; row < end; row += gridDim.x) {
        out[size_t(row) * packs + c] = activated(in[size_t(row) * packs + c], own_shift);
    }
}

void by_expert(const Segments& d) {
    activate_by_expert<<<dim3(33, d.experts), d.width / 8>>>(
        reinterpret_cast<const Pack8*>(d.in), reinterpret_cast<const Pack8*>(d.shift),
        reinterpret_cast<Pack8*>(d.out), d.starts, d.width / 8);
}
//: end

//: variant by_rows
constexpr int kRowsPerBlock = 16;

__global__ void activate_by_rows(const Pack8* in, const Pack8* shift, Pack8* out, const int* starts,
                                 int experts, int rows, int packs) {
    const int c = threadIdx.x, first = blockIdx.x * kRowsPerBlock, end = min(first + kRowsPerBlock, rows);
    int expert = 0;
    for (int step = 32; step > 0; step /= 2) {
        if (expert + step < experts && starts[expert + step] <= first) expert += step;
    }
    for (int row = first; row < end; ++row) {
        while (row >= starts[expert + 1]) ++expert;
        out[size_t(row) * packs + c] = activated(in[size_t(row) * packs + c], shift[expert * packs + c]);
    }
}

void by_rows(const Segments& d) {
    activate_by_rows<<<(d.rows + kRowsPerBlock - 1) / kRowsPerBlock, d.width / 8>>>(
        reinterpret_cast<const Pack8*>(d.in), reinterpret_cast<const Pack8*>(d.shift),
        reinterpret_cast<Pack8*>(d.out), d.starts, d.experts, d.rows, d.width / 8);
}
//: end

__global__ void reference_activation(Segments d, __half* expected) {
    const int row = blockIdx.x;
    int expert = 0;
    while (d.starts[expert + 1] <= row) ++expert;
    for (int c = threadIdx.x; c < d.width; c += blockDim.x) {
        const double v = double(__half2float(d.in[size_t(row) * d.width + c])) +
                         double(__half2float(d.shift[size_t(expert) * d.width + c]));
        expected[size_t(row) * d.width + c] = __float2half(float(v / (1.0 + exp(-v))));
    }
}

Segments segments(book::Problem& p, int rows, const std::vector<double>& shares) {
    Segments d{rows, 1024, int(shares.size())};
    double total = 0, sum = 0;
    for (const double share : shares) total += share;
    std::vector<int> starts{0};
    for (const double share : shares) starts.push_back(int(rows * ((sum += share) / total) + 0.5));
    starts.back() = rows;
    d.starts = p.upload(starts);
    const size_t count = size_t(rows) * d.width;
    d.in = p.uniform<__half>(count, -4, 4);
    d.shift = p.uniform<__half>(size_t(d.experts) * d.width, -1, 1);
    d.out = p.output<__half>(count);
    p.needs({.dram_bytes = 4.0 * count + 2.0 * d.experts * d.width,
             .fp32_flop = 4.0 * count,
             .special_op = 2.0 * count});
    p.check<__half>(d.out, count, {3e-3, 1e-3}, [=](__half* expected) {
        reference_activation<<<rows, 256>>>(d, expected);
    });
    return d;
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("top8", [](book::Problem& p) {
        Scores d{65536};
        d.scores = p.uniform<float>(size_t(d.tokens) * kExperts, -4, 4);
        d.experts = p.output<int>(size_t(d.tokens) * kTop);
        d.weights = p.output<float>(size_t(d.tokens) * kTop);
        const double scores = double(d.tokens) * kExperts, chosen = double(d.tokens) * kTop;
        p.needs({.dram_bytes = 4 * scores + 8 * chosen,
                 .fp32_flop = scores + 2 * chosen,
                 .special_op = chosen});
        p.check<int>(d.experts, size_t(d.tokens) * kTop, {0}, [=](int* expected) {
            reference_top<<<(d.tokens + 127) / 128, 128>>>(d, expected, nullptr);
        });
        p.check<float>(d.weights, size_t(d.tokens) * kTop, {1e-5, 1e-7}, [=](float* expected) {
            reference_top<<<(d.tokens + 127) / 128, 128>>>(d, nullptr, expected);
        });
        p.variant("block_token", [=] { block_token(d); });
        p.variant("warp_token", [=] { warp_token(d); });
    });
    book.problem("slots", [](book::Problem& p) {
        Route d{65536, 128, 4, 64, 7680};
        const size_t pairs = size_t(d.tokens) * d.top, count = size_t(d.tokens) * d.width;
        const uint64_t seed = p.seed();
        // Popular experts have low numbers: the first gets 2.6 % of the pairs, the last 1.1 %.
        d.chosen = p.input<int>(pairs, [=] __device__(size_t i) {
            const double u = book::uniform01(seed, 201, i);
            return int(64 * (0.6 * u + 0.4 * u * u));
        });
        d.weights = p.uniform<float>(pairs, 0, 0.5);
        d.gains = p.uniform<float>(d.experts, 0.5, 2);
        d.x = p.uniform<__half>(count, -1, 1);
        d.counts = p.output<int>(d.experts);
        d.slots = p.output<int>(pairs);
        d.held = p.output<__half>(size_t(d.experts) * d.capacity * d.width);
        d.out = p.output<__half>(count);
        p.needs({.dram_bytes = 4.0 * count + 8.0 * pairs, .fp32_flop = 3.0 * count * d.top, .steps = 3});
        p.check<__half>(d.out, count, {2e-3, 1e-3}, [=](__half* expected) {
            reference_route<<<1056, 256>>>(d, expected);
        });
        p.variant("pair_counters", [=] { pair_counters(d); });
        p.variant("block_counters", [=] { block_counters(d); });
        p.variant("match_counters", [=] { match_counters(d); });
    });
    book.problem("gather2", [](book::Problem& p) {
        Gather d{8192, 2048};
        const size_t count = size_t(d.tokens) * d.width;
        const uint64_t seed = p.seed();
        d.rows = p.uniform<__half>(2 * count, -1, 1);
        // A permutation of the 16,384 rows: an odd factor and an offset.
        d.slots = p.input<int>(2 * size_t(d.tokens), [=] __device__(size_t i) {
            return int((i * 5003 + book::mixed(seed) % 16384) % 16384);
        });
        d.weights = p.uniform<float>(2 * size_t(d.tokens), 0, 1);
        d.out = p.output<__half>(count);
        p.needs({.dram_bytes = 6.0 * count + 16.0 * d.tokens, .fp32_flop = 4.0 * count});
        p.check<__half>(d.out, count, {2e-3, 1e-3}, [=](__half* expected) {
            reference_gather<<<1056, 256>>>(d, expected);
        });
        p.variant("halves", [=] { halves(d); });
        p.variant("packs", [=] { packs(d); });
        p.variant("packs_of_two", [=] { packs_of_two(d); });
    });
    book.problem("favourite", [](book::Problem& p) {
        std::vector<double> shares;
        for (int e = 0; e < 64; ++e) shares.push_back(0.5 + book::uniform01(p.seed(), 301, e));
        shares[5] = 34;
        const auto d = segments(p, 32768, shares);
        p.variant("by_expert", [=] { by_expert(d); });
        p.variant("by_rows", [=] { by_rows(d); });
    });
    book.problem("uneven", [](book::Problem& p) {
        std::vector<double> shares;
        for (int e = 0; e < 64; ++e) {
            const double u = book::uniform01(p.seed(), 302, e);
            shares.push_back(0.3 + u * u);
        }
        const auto d = segments(p, 32768, shares);
        p.variant("by_expert", [=] { by_expert(d); });
        p.variant("by_rows", [=] { by_rows(d); });
    });
    return book.finish();
}
