// Decoding against a quantised key/value cache: scores of one new token's queries against 4- or 8-bit
// keys, and the weighted sum of 8-bit values. Head dimension 128.
#include "../../harness/book.h"

//: shared
constexpr int kDim = 128;
constexpr float kLogit = 0.08838834764831845f;

// 4-bit keys: the low nibble of a byte is the even dimension. key = scale * (nibble - 7.5) + offset.
struct Keys4 {
    int rows, tokens;
    const uint8_t* keys;
    const __half2* grid;
    const float* query;
    float* scores;
};

__device__ inline float quad_total(float value) {
    value += __shfl_xor_sync(0xffffffffu, value, 1);
    value += __shfl_xor_sync(0xffffffffu, value, 2);
    return value;
}
//: end

//: variant warp_token
__global__ void scores4_warp(const uint8_t* __restrict__ keys, const __half2* __restrict__ grid,
                             const float* __restrict__ query, float* scores, int tokens) {
    const int row = blockIdx.y, lane = threadIdx.x & 31;
    const float4 q = reinterpret_cast<const float4*>(query + row * kDim)[lane];
    const float q_sum = q.x + q.y + q.z + q.w;
    for (int i = threadIdx.x >> 5; i < 128; i += 8) {
        const size_t token = size_t(row) * tokens + blockIdx.x * 128 + i;
        const unsigned word = reinterpret_cast<const uint16_t*>(keys + token * (kDim / 2))[lane];
        const float2 g = __half22float2(grid[token]);
        float dot = q.x * (float(word & 15) - 7.5f);
        dot += q.y * (float(word >> 4 & 15) - 7.5f);
        dot += q.z * (float(word >> 8 & 15) - 7.5f);
        dot += q.w * (float(word >> 12) - 7.5f);
        float total = g.x * dot + g.y * q_sum;
        for (int step = 16; step > 0; step /= 2) total += __shfl_xor_sync(0xffffffffu, total, step);
        if (lane == 0) scores[token] = total * kLogit;
    }
}

void warp_token(const Keys4& d) {
    scores4_warp<<<dim3(d.tokens / 128, d.rows), 256>>>(d.keys, d.grid, d.query, d.scores, d.tokens);
}
//: end

//: variant quad_token
__global__ void scores4_quad(const uint8_t* __restrict__ keys, const __half2* __restrict__ grid,
                             const float* __restrict__ query, float* scores, int tokens) {
    const int row = blockIdx.y, part = threadIdx.x & 3;
    float q[32], q_sum = 0;
    for (int d = 0; d < 32; ++d) q_sum += q[d] = query[row * kDim + part * 32 + d];
#pragma unroll 2
    for (int i = threadIdx.x >> 2; i < 1024; i += 64) {
        const size_t token = size_t(row) * tokens + blockIdx.x * 1024 + i;
        const uint4 packed = reinterpret_cast<const uint4*>(keys + token * (kDim / 2))[part];
        const unsigned words[4] = {packed.x, packed.y, packed.z, packed.w};
        const float2 g = __half22float2(grid[token]);
        float dot = 0;
        for (int d = 0; d < 32; ++d) {
            const int nibble = words[d / 8] >> 4 * (d % 8) & 15;
            dot += q[d] * (nibble - 7.5f);
        }
        const float total = quad_total(g.x * dot + g.y * q_sum);
        if (part == 0) scores[token] = total * kLogit;
    }
}

void quad_token(const Keys4& d) {
    scores4_quad<<<dim3(d.tokens / 1024, d.rows), 256>>>(d.keys, d.grid, d.query, d.scores, d.tokens);
}
//: end

//: variant quad_midpoint
__global__ void scores4_quad_midpoint(const uint8_t* __restrict__ keys, const __half2* __restrict__ grid,
                                      const float* __restrict__ query, float* scores, int tokens) {
    const int row = blockIdx.y, part = threadIdx.x & 3;
    float q[32], q_sum = 0;
    for (int d = 0; d < 32; ++d) q_sum += q[d] = query[row * kDim + part * 32 + d];
#pragma unroll 2
    for (int i = threadIdx.x >> 2; i < 1024; i += 64) {
        const size_t token = size_t(row) * tokens + blockIdx.x * 1024 + i;
        const uint4 packed = reinterpret_cast<const uint4*>(keys + token * (kDim / 2))[part];
        const unsigned words[4] = {packed.x, packed.y, packed.z, packed.w};
        const float2 g = __half22float2(grid[token]);
        float dot = 0;
        for (int d = 0; d < 32; ++d) {
            const int nibble = words[d / 8] >> 4 * (d % 8) & 15;
            dot += q[d] * (nibble - 7.5);
        }
        const float total = quad_total(g.x * dot + g.y * q_sum);
        if (part == 0) scores[token] = total * kLogit;
    }
}

void quad_midpoint(const Keys4& d) {
    scores4_quad_midpoint<<<dim3(d.tokens / 1024, d.rows), 256>>>(d.keys, d.grid, d.query, d.scores,
                                                                  d.tokens);
}
//: end

//: variant quad_logit
__global__ void scores4_quad_logit(const uint8_t* __restrict__ keys, const __half2* __restrict__ grid,
                                   const float* __restrict__ query, float* scores, int tokens) {
    const int row = blockIdx.y, part = threadIdx.x & 3;
    float q[32], q_sum = 0;
    for (int d = 0; d < 32; ++d) q_sum += q[d] = query[row * kDim + part * 32 + d];
#pragma unroll 2
    for (int i = threadIdx.x >> 2; i < 1024; i += 64) {
        const size_t token = size_t(row) * tokens + blockIdx.x * 1024 + i;
        const uint4 packed = reinterpret_cast<const uint4*>(keys + token * (kDim / 2))[part];
        const unsigned words[4] = {packed.x, packed.y, packed.z, packed.w};
        const float2 g = __half22float2(grid[token]);
        float dot = 0;
        for (int d = 0; d < 32; ++d) {
            const int nibble = words[d / 8] >> 4 * (d % 8) & 15;
            dot += q[d] * (nibble - 7.5f);
        }
        const float total = quad_total(g.x * dot + g.y * q_sum);
        if (part == 0) scores[token] = total / sqrt(double(kDim));
    }
}

void quad_logit(const Keys4& d) {
    scores4_quad_logit<<<dim3(d.tokens / 1024, d.rows), 256>>>(d.keys, d.grid, d.query, d.scores,
                                                               d.tokens);
}
//: end

//: variant quad_bits
// 2^23 + m has m in its low bits, so or-ing a masked nibble into 2^23 gives a float without a conversion.
// Nibble n of a word stands 4n bits higher: the query has the power of 16 instead of a shift.
__global__ void scores4_quad_bits(const uint8_t* __restrict__ keys, const __half2* __restrict__ grid,
                                  const float* __restrict__ query, float* scores, int tokens) {
    const int row = blockIdx.y, part = threadIdx.x & 3;
    float q[32], q_sum = 0;
    for (int d = 0; d < 32; ++d) {
        const float value = query[row * kDim + part * 32 + d];
        q_sum += value;
        q[d] = value / float(1 << 4 * (d % 8 % 5));
    }
#pragma unroll 2
    for (int i = threadIdx.x >> 2; i < 1024; i += 64) {
        const size_t token = size_t(row) * tokens + blockIdx.x * 1024 + i;
        const uint4 packed = reinterpret_cast<const uint4*>(keys + token * (kDim / 2))[part];
        const unsigned words[4] = {packed.x, packed.y, packed.z, packed.w};
        const float2 g = __half22float2(grid[token]);
        float dot = -7.5f * q_sum;
        for (int d = 0; d < 32; ++d) {
            const unsigned word = d % 8 < 5 ? words[d / 8] : words[d / 8] >> 20;
            const unsigned bits = (word & 15u << 4 * (d % 8 % 5)) | 0x4B000000u;
            dot += q[d] * (__uint_as_float(bits) - 8388608.0f);
        }
        const float total = quad_total(g.x * dot + g.y * q_sum);
        if (part == 0) scores[token] = total * kLogit;
    }
}

void quad_bits(const Keys4& d) {
    scores4_quad_bits<<<dim3(d.tokens / 1024, d.rows), 256>>>(d.keys, d.grid, d.query, d.scores,
                                                              d.tokens);
}
//: end

//: shared
// 8-bit keys and queries, grouped-query attention: kGroup query heads use one key head.
constexpr int kGroup = 8;

struct Keys8 {
    int heads, tokens;  // heads: key heads of all sequences
    const int8_t* keys;
    const float* key_scale;
    const int8_t* query;
    const float* query_scale;
    float* scores;
};

__device__ inline int dot16(uint4 a, uint4 b, int total) {
    total = __dp4a(int(a.x), int(b.x), total);
    total = __dp4a(int(a.y), int(b.y), total);
    total = __dp4a(int(a.z), int(b.z), total);
    return __dp4a(int(a.w), int(b.w), total);
}

__device__ inline int octet_total(int value) {
    for (int step = 4; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
    return value;
}
//: end

//: variant query_heads
__global__ void scores8_heads(const int8_t* __restrict__ keys, const float* __restrict__ key_scale,
                              const int8_t* __restrict__ query, const float* __restrict__ query_scale,
                              float* scores, int tokens) {
    const int head = blockIdx.y, part = threadIdx.x & 7;
    const size_t first = size_t(head / kGroup) * tokens + blockIdx.x * 1024;
    const uint4 q = reinterpret_cast<const uint4*>(query + head * kDim)[part];
    const float scale = query_scale[head] * kLogit;
    float* to = scores + size_t(head) * tokens + blockIdx.x * 1024;
#pragma unroll 4
    for (int i = threadIdx.x >> 3; i < 1024; i += 32) {
        const uint4 k = reinterpret_cast<const uint4*>(keys + (first + i) * kDim)[part];
        const int total = octet_total(dot16(q, k, 0));
        if (part == 0) to[i] = total * scale * key_scale[first + i];
    }
}

void query_heads(const Keys8& d) {
    scores8_heads<<<dim3(d.tokens / 1024, d.heads * kGroup), 256>>>(
        d.keys, d.key_scale, d.query, d.query_scale, d.scores, d.tokens);
}
//: end

//: variant query_groups
__global__ void scores8_groups(const int8_t* __restrict__ keys, const float* __restrict__ key_scale,
                               const int8_t* __restrict__ query, const float* __restrict__ query_scale,
                               float* scores, int tokens) {
    const int head = blockIdx.y * kGroup, part = threadIdx.x & 7;
    const size_t first = size_t(blockIdx.y) * tokens + blockIdx.x * 1024;
    uint4 q[kGroup];
    for (int g = 0; g < kGroup; ++g) {
        q[g] = reinterpret_cast<const uint4*>(query + (head + g) * kDim)[part];
    }
    const float scale = query_scale[head + part] * kLogit;
    float* to = scores + size_t(head + part) * tokens + blockIdx.x * 1024;
#pragma unroll 4
    for (int i = threadIdx.x >> 3; i < 1024; i += 32) {
        const uint4 k = reinterpret_cast<const uint4*>(keys + (first + i) * kDim)[part];
        int mine = 0;
        for (int g = 0; g < kGroup; ++g) {
            const int total = octet_total(dot16(q[g], k, 0));
            mine = part == g ? total : mine;
        }
        to[i] = mine * scale * key_scale[first + i];
    }
}

void query_groups(const Keys8& d) {
    scores8_groups<<<dim3(d.tokens / 1024, d.heads), 256>>>(d.keys, d.key_scale, d.query,
                                                            d.query_scale, d.scores, d.tokens);
}
//: end

//: shared
// 8-bit values: out[head][d] = sum over tokens of weight * scale * value.
struct Values8 {
    int heads, tokens;
    const int8_t* values;
    const float* scale;
    const float* weight;
    float* partial;  // [head][at most 64 splits][kDim]
    float* out;
};

// One warp takes a token at a time, a lane four dimensions of it. Returns the block's sum of
// dimension threadIdx.x in the first kDim threads.
__device__ inline float weighted_sum(const int8_t* __restrict__ values, const float* __restrict__ scale,
                                     const float* __restrict__ weight, size_t first, int count) {
    __shared__ float sums[8][kDim];
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll 4
    for (int i = warp; i < count; i += 8) {
        const size_t token = first + i;
        const char4 v = reinterpret_cast<const char4*>(values + token * kDim)[lane];
        const float w = weight[token] * scale[token];
        sum.x += w * v.x;
        sum.y += w * v.y;
        sum.z += w * v.z;
        sum.w += w * v.w;
    }
    reinterpret_cast<float4*>(sums[warp])[lane] = sum;
    __syncthreads();
    float total = 0;
    if (threadIdx.x < kDim) {
        for (int i = 0; i < 8; ++i) total += sums[i][threadIdx.x];
    }
    return total;
}

__global__ void values8_partial(const int8_t* __restrict__ values, const float* __restrict__ scale,
                                const float* __restrict__ weight, float* partial, int tokens) {
    const int count = tokens / gridDim.x;
    const size_t first = size_t(blockIdx.y) * tokens + size_t(blockIdx.x) * count;
    const float total = weighted_sum(values, scale, weight, first, count);
    if (threadIdx.x < kDim) {
        partial[(blockIdx.y * gridDim.x + blockIdx.x) * kDim + threadIdx.x] = total;
    }
}

__global__ void values8_combine(const float* partial, float* out, int splits) {
    float total = 0;
    for (int i = 0; i < splits; ++i) {
        total += partial[(blockIdx.x * splits + i) * kDim + threadIdx.x];
    }
    out[blockIdx.x * kDim + threadIdx.x] = total;
}

inline void values_in_splits(const Values8& d, int splits) {
    values8_partial<<<dim3(splits, d.heads), 256>>>(d.values, d.scale, d.weight, d.partial, d.tokens);
    values8_combine<<<d.heads, kDim>>>(d.partial, d.out, splits);
}
//: end

//: variant split_1
void split_1(const Values8& d) { values_in_splits(d, 1); }
//: end

//: variant split_16
void split_16(const Values8& d) { values_in_splits(d, 16); }
//: end

//: variant split_32
void split_32(const Values8& d) { values_in_splits(d, 32); }
//: end

//: variant split_32_add
__global__ void values8_add(const int8_t* __restrict__ values, const float* __restrict__ scale,
                            const float* __restrict__ weight, float* out, int tokens) {
    const int count = tokens / gridDim.x;
    const size_t first = size_t(blockIdx.y) * tokens + size_t(blockIdx.x) * count;
    const float total = weighted_sum(values, scale, weight, first, count);
    if (threadIdx.x < kDim) atomicAdd(&out[blockIdx.y * kDim + threadIdx.x], total);
}

void split_32_add(const Values8& d) {
    BOOK_CHECK(cudaMemsetAsync(d.out, 0, sizeof(float) * d.heads * kDim));
    values8_add<<<dim3(32, d.heads), 256>>>(d.values, d.scale, d.weight, d.out, d.tokens);
}
//: end

__global__ void reference_scores4(Keys4 d, float* expected) {
    const size_t count = size_t(d.rows) * d.tokens;
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count;
         i += size_t{gridDim.x} * blockDim.x) {
        const double scale = __half2float(__low2half(d.grid[i]));
        const double offset = __half2float(__high2half(d.grid[i]));
        double total = 0;
        for (int k = 0; k < 128; ++k) {
            const int byte = d.keys[i * 64 + k / 2];
            const int nibble = k % 2 ? byte / 16 : byte % 16;
            total += d.query[i / d.tokens * 128 + k] * (scale * (nibble - 7.5) + offset);
        }
        expected[i] = float(total / sqrt(128.0));
    }
}

__global__ void reference_scores8(Keys8 d, float* expected) {
    const size_t count = size_t(d.heads) * 8 * d.tokens;
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count;
         i += size_t{gridDim.x} * blockDim.x) {
        const size_t head = i / d.tokens, token = head / 8 * d.tokens + i % d.tokens;
        int total = 0;
        for (int k = 0; k < 128; ++k) total += int(d.query[head * 128 + k]) * d.keys[token * 128 + k];
        expected[i] = float(total / sqrt(128.0) * d.query_scale[head] * d.key_scale[token]);
    }
}

__global__ void reference_values8(Values8 d, float* expected) {
    // One block per entry of the result.
    __shared__ double sums[256];
    const int head = blockIdx.x / 128, k = blockIdx.x % 128;
    double total = 0;
    for (int t = threadIdx.x; t < d.tokens; t += 256) {
        const size_t token = size_t(head) * d.tokens + t;
        total += double(d.weight[token]) * d.scale[token] * d.values[token * 128 + k];
    }
    sums[threadIdx.x] = total;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int i = 1; i < 256; ++i) total += sums[i];
        expected[blockIdx.x] = float(total);
    }
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("keys_4bit", [](book::Problem& p) {
        Keys4 d{64, 32768};
        const size_t count = size_t(d.rows) * d.tokens;
        const uint64_t seed = p.seed();
        d.keys = p.input<uint8_t>(count * 64, [=] __device__(size_t i) {
            return uint8_t(book::mixed(i + seed * 0x9E3779B97ull) >> 20);
        });
        d.grid = p.input<__half2>(count, [=] __device__(size_t i) {
            return __floats2half2_rn(float(0.05 + 0.1 * book::uniform01(seed, 101, i)),
                                     float(0.2 * book::uniform01(seed, 102, i) - 0.1));
        });
        d.query = p.uniform<float>(d.rows * 128, -1, 1);
        d.scores = p.output<float>(count);
        p.needs({.dram_bytes = count * (64.0 + 4 + 4) + d.rows * 512.0, .fp32_flop = 256.0 * count});
        p.check<float>(d.scores, count, {1e-3, 1e-3}, [=](float* expected) {
            reference_scores4<<<2112, 256>>>(d, expected);
        });
        p.variant("warp_token", [=] { warp_token(d); });
        p.variant("quad_token", [=] { quad_token(d); });
        p.variant("quad_midpoint", [=] { quad_midpoint(d); });
        p.variant("quad_logit", [=] { quad_logit(d); });
        p.variant("quad_bits", [=] { quad_bits(d); });
    });
    book.problem("keys_8bit_grouped", [](book::Problem& p) {
        Keys8 d{32, 32768};
        const size_t count = size_t(d.heads) * d.tokens;
        const uint64_t seed = p.seed();
        d.keys = p.input<int8_t>(count * 128, [=] __device__(size_t i) {
            return int8_t(book::mixed(i + seed * 0x9E3779B97ull) >> 20);
        });
        d.key_scale = p.uniform<float>(count, 0.005, 0.01);
        d.query = p.input<int8_t>(size_t(d.heads) * 8 * 128, [=] __device__(size_t i) {
            return int8_t(book::mixed(i * 3 + 7 + seed * 0x51ED270Bull) >> 20);
        });
        d.query_scale = p.uniform<float>(d.heads * 8, 0.005, 0.01);
        d.scores = p.output<float>(count * 8);
        // Four 8-bit products are one integer instruction.
        p.needs({.dram_bytes = count * (128.0 + 4 + 32) + d.heads * 8 * 132.0,
                 .int_op = count * 8 * 32.0});
        p.check<float>(d.scores, count * 8, {1e-4, 1e-4}, [=](float* expected) {
            reference_scores8<<<2112, 256>>>(d, expected);
        });
        p.variant("query_heads", [=] { query_heads(d); });
        p.variant("query_groups", [=] { query_groups(d); });
    });
    book.problem("values_8bit", [](book::Problem& p) {
        Values8 d{32, 32768};
        const size_t count = size_t(d.heads) * d.tokens;
        const uint64_t seed = p.seed();
        d.values = p.input<int8_t>(count * 128, [=] __device__(size_t i) {
            return int8_t(book::mixed(i + seed * 0x9E3779B97ull) >> 20);
        });
        d.scale = p.uniform<float>(count, 0.005, 0.01);
        d.weight = p.uniform<float>(count, 0, 1);
        d.partial = p.output<float>(size_t(d.heads) * 64 * 128);
        d.out = p.output<float>(d.heads * 128);
        p.needs({.dram_bytes = count * (128.0 + 8) + d.heads * 512.0, .fp32_flop = 256.0 * count});
        p.check<float>(d.out, d.heads * 128, {1e-3, 1e-2}, [=](float* expected) {
            reference_values8<<<32 * 128, 256>>>(d, expected);
        });
        p.variant("split_1", [=] { split_1(d); });
        p.variant("split_16", [=] { split_16(d); });
        p.variant("split_32", [=] { split_32(d); });
        p.variant("split_32_add", [=] { split_32_add(d); });
    });
    return book.finish();
}
