// Sampling of the next token of a language model: from the logits of each sequence over the whole
// vocabulary to one token and its log-probability. Temperature, repetition penalty, top-k.
#include "../../harness/book.h"

// Sampling by the Gumbel maximum over the whole vocabulary.
struct Draws {
    int rows, vocabulary;  // a multiple of 4
    const float* logits;
    const unsigned* seen;  // one bit per token: in the sequence so far
    int words;             // of `seen` per row
    float inverse_temperature, penalty;
    unsigned key;
    int* tokens;
};

// Top-k: the k best tokens in order, their probabilities, and the one drawn.
struct Best {
    int rows, vocabulary;
    const float* logits;
    float inverse_temperature;
    const float* dice;  // one uniform number per row
    int* kept;          // k per row
    float* shares;      // k per row
    int* tokens;
};

// Greedy choice with its log-probability, from half-precision logits.
struct Greedy {
    int rows, vocabulary;  // a multiple of 8
    const __half* logits;
    float inverse_temperature;
    float4* parts;  // scratch: kChunks per row
    int* tokens;
    float* log_shares;
};

//: shared
constexpr int kTop = 20;
constexpr int kChunks = 8;

// The larger score wins; of equal ones the lower token.
struct Candidate {
    float score;
    int token;
};

__device__ Candidate better(Candidate a, Candidate b) {
    return b.score > a.score || (b.score == a.score && b.token < a.token) ? b : a;
}

__device__ Candidate warp_best(Candidate own) {
    for (int step = 16; step > 0; step /= 2) {
        own = better(own, {__shfl_xor_sync(~0u, own.score, step), __shfl_xor_sync(~0u, own.token, step)});
    }
    return own;
}

// All threads get the block's best. `buffer` has one entry per warp.
__device__ Candidate block_best(Candidate own, Candidate* buffer) {
    own = warp_best(own);
    __syncthreads();
    if (threadIdx.x % 32 == 0) buffer[threadIdx.x / 32] = own;
    __syncthreads();
    const int warps = blockDim.x / 32, lane = threadIdx.x % 32;
    return warp_best(buffer[lane < warps ? lane : 0]);
}

// Philox 4x32-10: four random words for a counter.
__device__ uint4 philox(unsigned counter, unsigned row, unsigned key) {
    uint4 c = make_uint4(counter, row, 0, 0);
    unsigned k0 = key, k1 = 0x5EEDu;
#pragma unroll
    for (int round = 0; round < 10; ++round) {
        const unsigned long long a = 0xD2511F53ull * c.x, b = 0xCD9E8D57ull * c.z;
        c = make_uint4(unsigned(b >> 32) ^ c.y ^ k0, unsigned(b), unsigned(a >> 32) ^ c.w ^ k1, unsigned(a));
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return c;
}

__device__ float unit(unsigned bits) {
    return float(bits >> 8) * 0x1.0p-24f;
}

__device__ float penalised(float logit, bool seen, float penalty) {
    if (!seen) return logit;
    return logit > 0 ? logit / penalty : logit * penalty;
}

// Softmax of the kept candidates, and the draw: by one thread, k is small.
__device__ void draw_kept(const Best& s, int row, const Candidate* kept) {
    float weights[kTop], total = 0;
#pragma unroll
    for (int k = 0; k < kTop; ++k) {
        weights[k] = expf((kept[k].score - kept[0].score) * s.inverse_temperature);
        total += weights[k];
    }
    float left = s.dice[row] * total;
    int token = kept[kTop - 1].token;
    bool found = false;
#pragma unroll
    for (int k = 0; k < kTop; ++k) {
        s.kept[row * kTop + k] = kept[k].token;
        s.shares[row * kTop + k] = weights[k] / total;
        left -= weights[k];
        if (!found && left < 0) {
            token = kept[k].token;
            found = true;
        }
    }
    s.tokens[row] = token;
}

// Maximum, its token, and the sum of exponentials relative to the maximum.
struct Running {
    float top, sum;
    int token;
};

__device__ void take(Running& r, float score, int token) {
    if (score > r.top) {
        r.sum = r.sum * __expf(r.top - score) + 1;
        r.top = score;
        r.token = token;
    } else {
        r.sum += __expf(score - r.top);
    }
}

__device__ Running merged(Running a, Running b) {
    const bool first = a.top > b.top || (a.top == b.top && a.token < b.token);
    const Running high = first ? a : b, low = first ? b : a;
    return {high.top, high.sum + low.sum * __expf(low.top - high.top), high.token};
}

// Thread 0 gets the block's result.
__device__ Running block_merged(Running own) {
    __shared__ Running buffer[32];
    for (int step = 16; step > 0; step /= 2) {
        own = merged(own, {__shfl_xor_sync(~0u, own.top, step), __shfl_xor_sync(~0u, own.sum, step),
                           __shfl_xor_sync(~0u, own.token, step)});
    }
    if (threadIdx.x % 32 == 0) buffer[threadIdx.x / 32] = own;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int warp = 1; warp < int(blockDim.x / 32); ++warp) own = merged(own, buffer[warp]);
    }
    return own;
}

// Eight logits of one 16-byte load; the sum is rescaled at most once.
__device__ void take_eight(Running& r, const uint4& bits, float scale, int token) {
    const __half2* pairs = reinterpret_cast<const __half2*>(&bits);
    float scores[8];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const float2 pair = __half22float2(pairs[k]);
        scores[2 * k] = pair.x * scale;
        scores[2 * k + 1] = pair.y * scale;
    }
    float top = scores[0];
#pragma unroll
    for (int k = 1; k < 8; ++k) top = fmaxf(top, scores[k]);
    if (top > r.top) {
        r.sum *= __expf(r.top - top);
        r.top = top;
#pragma unroll
        for (int k = 7; k >= 0; --k) {
            if (scores[k] == top) r.token = token + k;
        }
    }
#pragma unroll
    for (int k = 0; k < 8; ++k) r.sum += __expf(scores[k] - r.top);
}
//: end

//: variant noise_guarded
__global__ void __launch_bounds__(512) draw_noise_guarded(Draws s) {
    __shared__ Candidate buffer[32];
    const int row = blockIdx.x;
    const float* logits = s.logits + size_t(row) * s.vocabulary;
    const unsigned* seen = s.seen + size_t(row) * s.words;
    Candidate best{-INFINITY, 0};
    for (int token = threadIdx.x; token < s.vocabulary; token += blockDim.x) {
        const uint4 words = philox(token / 4, row, s.key);
        const unsigned word = token % 4 < 2 ? (token % 4 ? words.y : words.x) : (token % 4 == 2 ? words.z : words.w);
        const float noise = -log(-log(unit(word) + 1e-20) + 1e-20);
        const float logit = penalised(logits[token], seen[token / 32] >> token % 32 & 1, s.penalty);
        best = better(best, {logit * s.inverse_temperature + noise, token});
    }
    best = block_best(best, buffer);
    if (threadIdx.x == 0) s.tokens[row] = best.token;
}

void noise_guarded(const Draws& s) {
    draw_noise_guarded<<<s.rows, 512>>>(s);
}
//: end

//: variant noise_each
__global__ void __launch_bounds__(512) draw_noise_each(Draws s) {
    __shared__ Candidate buffer[32];
    const int row = blockIdx.x;
    const float* logits = s.logits + size_t(row) * s.vocabulary;
    const unsigned* seen = s.seen + size_t(row) * s.words;
    Candidate best{-INFINITY, 0};
    for (int token = threadIdx.x; token < s.vocabulary; token += blockDim.x) {
        const uint4 words = philox(token / 4, row, s.key);
        const unsigned word = token % 4 < 2 ? (token % 4 ? words.y : words.x) : (token % 4 == 2 ? words.z : words.w);
        const float noise = -logf(-logf(unit(word) + 1e-20f) + 1e-20f);
        const float logit = penalised(logits[token], seen[token / 32] >> token % 32 & 1, s.penalty);
        best = better(best, {logit * s.inverse_temperature + noise, token});
    }
    best = block_best(best, buffer);
    if (threadIdx.x == 0) s.tokens[row] = best.token;
}

void noise_each(const Draws& s) {
    draw_noise_each<<<s.rows, 512>>>(s);
}
//: end

//: variant noise_fours
__global__ void __launch_bounds__(512) draw_noise_fours(Draws s) {
    __shared__ Candidate buffer[32];
    const int row = blockIdx.x;
    const float* logits = s.logits + size_t(row) * s.vocabulary;
    const unsigned* seen = s.seen + size_t(row) * s.words;
    Candidate best{-INFINITY, 0};
    for (int token = 4 * threadIdx.x; token < s.vocabulary; token += 4 * blockDim.x) {
        const uint4 words = philox(token / 4, row, s.key);
        const float4 four = *reinterpret_cast<const float4*>(logits + token);
        const unsigned bits = seen[token / 32] >> token % 32;
        const auto offer = [&](int k, unsigned word, float value) {
            const float noise = -logf(-logf(unit(word) + 1e-20f) + 1e-20f);
            const float logit = penalised(value, bits >> k & 1, s.penalty);
            best = better(best, {logit * s.inverse_temperature + noise, token + k});
        };
        offer(0, words.x, four.x);
        offer(1, words.y, four.y);
        offer(2, words.z, four.z);
        offer(3, words.w, four.w);
    }
    best = block_best(best, buffer);
    if (threadIdx.x == 0) s.tokens[row] = best.token;
}

void noise_fours(const Draws& s) {
    draw_noise_fours<<<s.rows, 512>>>(s);
}
//: end

//: variant best_by_rounds
// Round after round: the best of those that come after the one before.
__global__ void __launch_bounds__(1024) keep_by_rounds(Best s) {
    __shared__ Candidate buffer[32], kept[kTop];
    const int row = blockIdx.x;
    const float* logits = s.logits + size_t(row) * s.vocabulary;
    Candidate last{INFINITY, -1};
    for (int k = 0; k < kTop; ++k) {
        Candidate best{-INFINITY, s.vocabulary};
        for (int token = threadIdx.x; token < s.vocabulary; token += blockDim.x) {
            const Candidate own{logits[token], token};
            const bool after = own.score < last.score || (own.score == last.score && token > last.token);
            if (after) best = better(best, own);
        }
        last = block_best(best, buffer);
        if (threadIdx.x == 0) kept[k] = last;
    }
    if (threadIdx.x == 0) draw_kept(s, row, kept);
}

void best_by_rounds(const Best& s) {
    keep_by_rounds<<<s.rows, 1024>>>(s);
}
//: end

//: variant best_by_lanes
// Each thread remembers its best. After a round only the tokens of the thread that lost its best
// are looked at again, by the lanes of its warp together.
__global__ void __launch_bounds__(1024) keep_by_lanes(Best s) {
    __shared__ Candidate buffer[32], kept[kTop];
    const int row = blockIdx.x, lane = threadIdx.x % 32;
    const float* logits = s.logits + size_t(row) * s.vocabulary;
    Candidate own{-INFINITY, s.vocabulary};
    for (int token = threadIdx.x; token < s.vocabulary; token += blockDim.x) {
        own = better(own, {logits[token], token});
    }
    for (int k = 0; k < kTop; ++k) {
        const Candidate last = block_best(own, buffer);
        if (threadIdx.x == 0) kept[k] = last;
        const int owner = last.token % blockDim.x;
        if (owner / 32 != threadIdx.x / 32) continue;
        Candidate best{-INFINITY, s.vocabulary};
        for (int token = owner + lane * blockDim.x; token < s.vocabulary; token += 32 * blockDim.x) {
            const Candidate next{logits[token], token};
            const bool after = next.score < last.score || (next.score == last.score && token > last.token);
            if (after) best = better(best, next);
        }
        best = warp_best(best);
        if (threadIdx.x == owner) own = best;
    }
    if (threadIdx.x == 0) draw_kept(s, row, kept);
}

void best_by_lanes(const Best& s) {
    keep_by_lanes<<<s.rows, 1024>>>(s);
}
//: end

//: variant greedy_rows
__global__ void __launch_bounds__(1024, 2) choose_rows(Greedy s) {
    const int row = blockIdx.x;
    const __half* logits = s.logits + size_t(row) * s.vocabulary;
    Running own{-1e30f, 0, s.vocabulary};
    for (int token = threadIdx.x; token < s.vocabulary; token += blockDim.x) {
        take(own, __half2float(logits[token]) * s.inverse_temperature, token);
    }
    own = block_merged(own);
    if (threadIdx.x == 0) {
        s.tokens[row] = own.token;
        s.log_shares[row] = -logf(own.sum);
    }
}

void greedy_rows(const Greedy& s) {
    choose_rows<<<s.rows, 1024>>>(s);
}
//: end

//: variant greedy_eights
__global__ void __launch_bounds__(1024, 2) choose_eights(Greedy s) {
    const int row = blockIdx.x;
    const uint4* logits = reinterpret_cast<const uint4*>(s.logits + size_t(row) * s.vocabulary);
    Running own{-1e30f, 0, s.vocabulary};
    for (int i = threadIdx.x; i < s.vocabulary / 8; i += blockDim.x) {
        take_eight(own, logits[i], s.inverse_temperature, 8 * i);
    }
    own = block_merged(own);
    if (threadIdx.x == 0) {
        s.tokens[row] = own.token;
        s.log_shares[row] = -logf(own.sum);
    }
}

void greedy_eights(const Greedy& s) {
    choose_eights<<<s.rows, 1024>>>(s);
}
//: end

//: variant greedy_chunks
// A block per chunk of a row; a second kernel puts the chunks together.
__global__ void __launch_bounds__(256) choose_chunks(Greedy s) {
    const int row = blockIdx.y;
    const uint4* logits = reinterpret_cast<const uint4*>(s.logits + size_t(row) * s.vocabulary);
    const int vectors = s.vocabulary / 8, size = (vectors + kChunks - 1) / kChunks;
    const int end = min(int(blockIdx.x + 1) * size, vectors);
    Running own{-1e30f, 0, s.vocabulary};
    for (int i = blockIdx.x * size + threadIdx.x; i < end; i += blockDim.x) {
        take_eight(own, logits[i], s.inverse_temperature, 8 * i);
    }
    own = block_merged(own);
    if (threadIdx.x == 0) {
        s.parts[row * kChunks + blockIdx.x] = make_float4(own.top, own.sum, __int_as_float(own.token), 0);
    }
}

__global__ void join_chunks(Greedy s) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= s.rows) return;
    Running all{-1e30f, 0, s.vocabulary};
    for (int k = 0; k < kChunks; ++k) {
        const float4 part = s.parts[row * kChunks + k];
        all = merged(all, {part.x, part.y, __float_as_int(part.z)});
    }
    s.tokens[row] = all.token;
    s.log_shares[row] = -logf(all.sum);
}

void greedy_chunks(const Greedy& s) {
    choose_chunks<<<dim3(kChunks, s.rows), 256>>>(s);
    join_chunks<<<(s.rows + 63) / 64, 64>>>(s);
}
//: end

// Keeps the larger score, and of equal ones the lower token; over one row by a single block.
__device__ void reference_argmax(double* scores, int* tokens, double score, int token, int* result) {
    scores[threadIdx.x] = score;
    tokens[threadIdx.x] = token;
    __syncthreads();
    if (threadIdx.x == 0) {
        int at = 0;
        for (int i = 1; i < int(blockDim.x); ++i) {
            if (scores[i] > scores[at] || (scores[i] == scores[at] && tokens[i] < tokens[at])) at = i;
        }
        *result = tokens[at];
    }
    __syncthreads();
}

__global__ void reference_draw(Draws s, int* expected) {
    __shared__ double scores[256];
    __shared__ int tokens[256];
    const int row = blockIdx.x;
    double best = -1e300;
    int chosen = 0;
    for (int token = threadIdx.x; token < s.vocabulary; token += 256) {
        uint32_t x[4] = {uint32_t(token / 4), uint32_t(row), 0, 0}, k[2] = {s.key, 0x5EEDu};
        for (int round = 0; round < 10; ++round) {
            const uint32_t high0 = __umulhi(0xD2511F53u, x[0]), low0 = 0xD2511F53u * x[0];
            const uint32_t high1 = __umulhi(0xCD9E8D57u, x[2]), low1 = 0xCD9E8D57u * x[2];
            const uint32_t y[4] = {high1 ^ x[1] ^ k[0], low1, high0 ^ x[3] ^ k[1], low0};
            for (int i = 0; i < 4; ++i) x[i] = y[i];
            k[0] += 0x9E3779B9u, k[1] += 0xBB67AE85u;
        }
        const double u = double(x[token % 4] >> 8) / 16777216.0;
        double logit = s.logits[size_t(row) * s.vocabulary + token];
        const unsigned word = s.seen[size_t(row) * s.words + token / 32];
        if (word & (1u << (token % 32))) logit = logit > 0 ? logit / s.penalty : logit * s.penalty;
        const double score = logit * s.inverse_temperature - log(-log(u + 1e-20) + 1e-20);
        if (score > best) best = score, chosen = token;
    }
    reference_argmax(scores, tokens, best, chosen, expected + row);
}

// The k best by counting: the token of rank r has r tokens before it. Only tokens above a floor
// that at least k reach are ranked.
__global__ void reference_best(Best s, int* kept, float* shares, int* tokens) {
    __shared__ int many, found[2048], order[kTop];
    __shared__ float floor_score;
    const int row = blockIdx.x;
    const float* logits = s.logits + size_t(row) * s.vocabulary;
    float low = -100, high = 100;  // bisection: the count above `low` stays at k or more
    for (int round = 0; round < 24; ++round) {
        const float middle = 0.5f * (low + high);
        if (threadIdx.x == 0) many = 0;
        __syncthreads();
        int own = 0;
        for (int token = threadIdx.x; token < s.vocabulary; token += blockDim.x) own += logits[token] >= middle;
        atomicAdd(&many, own);
        __syncthreads();
        const int now = many;
        __syncthreads();
        if (now >= kTop) {
            low = middle;
            if (now <= 1024) break;
        } else {
            high = middle;
        }
    }
    if (threadIdx.x == 0) many = 0, floor_score = low;
    __syncthreads();
    for (int token = threadIdx.x; token < s.vocabulary; token += blockDim.x) {
        if (logits[token] >= floor_score) {
            const int at = atomicAdd(&many, 1);
            if (at < 2048) found[at] = token;
        }
    }
    __syncthreads();
    const int count = min(many, 2048);
    for (int i = threadIdx.x; i < count; i += blockDim.x) {
        int rank = 0;
        for (int j = 0; j < count; ++j) {
            const float a = logits[found[j]], b = logits[found[i]];
            rank += a > b || (a == b && found[j] < found[i]);
        }
        if (rank < kTop) order[rank] = found[i];
    }
    __syncthreads();
    if (threadIdx.x > 0) return;
    double total = 0;
    for (int token : order) total += exp((double(logits[token]) - logits[order[0]]) * s.inverse_temperature);
    double reached = 0;
    int drawn = -1;
    for (int k = 0; k < kTop; ++k) {
        const double share = exp((double(logits[order[k]]) - logits[order[0]]) * s.inverse_temperature) / total;
        reached += share;
        if (drawn < 0 && double(s.dice[row]) < reached) drawn = order[k];
        if (kept) kept[row * kTop + k] = order[k];
        if (shares) shares[row * kTop + k] = float(share);
    }
    if (tokens) tokens[row] = drawn < 0 ? order[kTop - 1] : drawn;
}

__global__ void reference_greedy(Greedy s, int* tokens, float* log_shares) {
    __shared__ double scores[256];
    __shared__ int chosen[256];
    __shared__ int top;
    const int row = blockIdx.x;
    const __half* logits = s.logits + size_t(row) * s.vocabulary;
    double best = -1e300;
    int own = 0;
    for (int token = threadIdx.x; token < s.vocabulary; token += 256) {
        const double logit = book::as_double(logits[token]);
        if (logit > best) best = logit, own = token;
    }
    reference_argmax(scores, chosen, best, own, &top);
    if (tokens && threadIdx.x == 0) tokens[row] = top;
    if (!log_shares) return;
    double sum = 0;
    for (int token = threadIdx.x; token < s.vocabulary; token += 256) {
        sum += exp((book::as_double(logits[token]) - book::as_double(logits[top])) * s.inverse_temperature);
    }
    scores[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        double total = 0;
        for (double part : scores) total += part;
        log_shares[row] = float(-log(total));
    }
}

Draws set_up_draws(book::Problem& p, int rows, int vocabulary) {
    Draws s{rows, vocabulary};
    const uint64_t seed = p.seed();
    const size_t count = size_t(rows) * vocabulary;
    s.logits = p.uniform<float>(count, -12, 6);
    s.words = (vocabulary + 31) / 32;
    s.seen = p.input<unsigned>(size_t(rows) * s.words, [=] __device__(size_t i) {
        return book::uniform01(seed, 81, i) < 0.1 ? 1u << int(32 * book::uniform01(seed, 82, i)) : 0u;
    });
    s.inverse_temperature = 1 / 0.8f;
    s.penalty = 1.2f;
    s.key = unsigned(seed * 7919 + 13);
    s.tokens = p.output<int>(rows);
    // Two logarithms per token, and a random word for it: a quarter of ten rounds of six operations
    p.needs({.dram_bytes = 4.0 * count + 4.0 * rows * s.words + 4.0 * rows, .fp32_flop = 4.0 * count,
             .int_op = 15.0 * count, .special_op = 2.0 * count});
    p.check<int>(s.tokens, rows, {0}, [=](int* expected) { reference_draw<<<rows, 256>>>(s, expected); });
    return s;
}

Best set_up_best(book::Problem& p, int rows, int vocabulary) {
    Best s{rows, vocabulary};
    const uint64_t seed = p.seed();
    const size_t count = size_t(rows) * vocabulary;
    s.logits = p.input<float>(count, [=] __device__(size_t i) {
        const double a = book::uniform01(seed, 83, i), b = book::uniform01(seed, 84, i);
        return float(3 * sqrt(-2 * log(a + 1e-12)) * cos(6.283185307 * b));
    });
    s.inverse_temperature = 1 / 0.7f;
    s.dice = p.uniform<float>(rows, 0, 1);
    s.kept = p.output<int>(size_t(rows) * kTop);
    s.shares = p.output<float>(size_t(rows) * kTop);
    s.tokens = p.output<int>(rows);
    p.needs({.dram_bytes = 4.0 * count + 8.0 * rows * kTop + 8.0 * rows});
    p.check<int>(s.kept, size_t(rows) * kTop, {0}, [=](int* expected) {
        reference_best<<<rows, 512>>>(s, expected, nullptr, nullptr);
    });
    p.check<float>(s.shares, size_t(rows) * kTop, {1e-4, 1e-6}, [=](float* expected) {
        reference_best<<<rows, 512>>>(s, nullptr, expected, nullptr);
    });
    p.check<int>(s.tokens, rows, {0}, [=](int* expected) {
        reference_best<<<rows, 512>>>(s, nullptr, nullptr, expected);
    });
    return s;
}

Greedy set_up_greedy(book::Problem& p, int rows, int vocabulary) {
    Greedy s{rows, vocabulary};
    const size_t count = size_t(rows) * vocabulary;
    s.logits = p.uniform<__half>(count, -14, 14);
    s.inverse_temperature = 0.5f;
    s.parts = p.output<float4>(size_t(rows) * kChunks);
    s.tokens = p.output<int>(rows);
    s.log_shares = p.output<float>(rows);
    p.needs({.dram_bytes = 2.0 * count + 8.0 * rows, .fp32_flop = 3.0 * count, .special_op = 1.0 * count});
    p.check<int>(s.tokens, rows, {0}, [=](int* expected) {
        reference_greedy<<<rows, 256>>>(s, expected, nullptr);
    });
    p.check<float>(s.log_shares, rows, {1e-4, 1e-4}, [=](float* expected) {
        reference_greedy<<<rows, 256>>>(s, nullptr, expected);
    });
    return s;
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("sampled", [](book::Problem& p) {
        const auto s = set_up_draws(p, 264, 64000);
        p.variant("noise_guarded", [=] { noise_guarded(s); });
        p.variant("noise_each", [=] { noise_each(s); });
        p.variant("noise_fours", [=] { noise_fours(s); });
    });
    book.problem("top_k", [](book::Problem& p) {
        const auto s = set_up_best(p, 132, 128256);
        p.variant("best_by_rounds", [=] { best_by_rounds(s); });
        p.variant("best_by_lanes", [=] { best_by_lanes(s); });
    });
    book.problem("full_batch", [](book::Problem& p) {
        const auto s = set_up_greedy(p, 480, 128256);
        p.variant("greedy_rows", [=] { greedy_rows(s); });
        p.variant("greedy_eights", [=] { greedy_eights(s); });
        p.variant("greedy_chunks", [=] { greedy_chunks(s); });
    });
    book.problem("odd_batch", [](book::Problem& p) {
        const auto s = set_up_greedy(p, 288, 256000);
        p.variant("greedy_eights", [=] { greedy_eights(s); });
        p.variant("greedy_chunks", [=] { greedy_chunks(s); });
    });
    book.problem("few_users", [](book::Problem& p) {
        const auto s = set_up_greedy(p, 20, 256000);
        p.variant("greedy_eights", [=] { greedy_eights(s); });
        p.variant("greedy_chunks", [=] { greedy_chunks(s); });
    });
    return book.finish();
}
