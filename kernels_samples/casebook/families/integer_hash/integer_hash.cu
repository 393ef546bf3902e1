// Checksums and hashes of fixed-size records, one thread a record. Words are stored [word][record].
#include "../../harness/book.h"

#include <utility>

// --- CRC-32 of the first words of a record of 16 words, with the other words folded in

//: shared
constexpr int kRecordWords = 16;
constexpr uint32_t kPolynomial = 0xEDB88320u;

struct Records {
    int count;
    const uint32_t* words;
    uint32_t* sums;
};
//: end

//: variant by_bit
template <int kCovered>
__global__ void crc_by_bit(const uint32_t* __restrict__ words, uint32_t* __restrict__ sums, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    uint32_t record[kRecordWords];
#pragma unroll
    for (int w = 0; w < kRecordWords; ++w) record[w] = words[w * size_t(count) + i];
    uint32_t crc = 0xFFFFFFFFu, folded = 0;
#pragma unroll
    for (int w = 0; w < kCovered; ++w) {
        crc ^= record[w];
        for (int bit = 0; bit < 32; ++bit) crc = (crc >> 1) ^ (kPolynomial & (0u - (crc & 1u)));
    }
#pragma unroll
    for (int w = kCovered; w < kRecordWords; ++w) folded ^= record[w];
    sums[i] = ~crc ^ folded;
}

template <int kCovered>
void by_bit(const Records& r) {
    crc_by_bit<kCovered><<<(r.count + 255) / 256, 256>>>(r.words, r.sums, r.count);
}
//: end

//: variant by_byte
template <int kCovered>
__global__ void crc_by_byte(const uint32_t* __restrict__ words, uint32_t* __restrict__ sums, int count) {
    __shared__ uint32_t table[256];
    uint32_t entry = threadIdx.x;
    for (int bit = 0; bit < 8; ++bit) entry = (entry >> 1) ^ (kPolynomial & (0u - (entry & 1u)));
    table[threadIdx.x] = entry;
    __syncthreads();
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    uint32_t record[kRecordWords];
#pragma unroll
    for (int w = 0; w < kRecordWords; ++w) record[w] = words[w * size_t(count) + i];
    uint32_t crc = 0xFFFFFFFFu, folded = 0;
#pragma unroll
    for (int w = 0; w < kCovered; ++w) {
        crc ^= record[w];
#pragma unroll
        for (int byte = 0; byte < 4; ++byte) crc = (crc >> 8) ^ table[crc & 255u];
    }
#pragma unroll
    for (int w = kCovered; w < kRecordWords; ++w) folded ^= record[w];
    sums[i] = ~crc ^ folded;
}

template <int kCovered>
void by_byte(const Records& r) {
    crc_by_byte<kCovered><<<(r.count + 255) / 256, 256>>>(r.words, r.sums, r.count);
}
//: end

// --- SHA-256 compression of one block of 16 words, from the standard's start

//: shared
__constant__ uint32_t kSha[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

struct Messages {
    int count, rounds;
    const uint32_t* words;  // 16 a message
    uint32_t* digests;      // 8 a message
};

__device__ uint32_t turned(uint32_t x, int by) {
    return __funnelshift_r(x, x, by);
}

struct Digest {
    uint32_t a, b, c, d, e, f, g, h;

    __device__ void round(uint32_t w, uint32_t k) {
        const uint32_t t1 = h + (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) + ((e & f) ^ (~e & g)) + k + w;
        const uint32_t t2 = (turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
        h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
    }
    __device__ void store(uint32_t* digests, size_t count, int i) const {
        digests[i] = a + 0x6a09e667u;
        digests[count + i] = b + 0xbb67ae85u;
        digests[2 * count + i] = c + 0x3c6ef372u;
        digests[3 * count + i] = d + 0xa54ff53au;
        digests[4 * count + i] = e + 0x510e527fu;
        digests[5 * count + i] = f + 0x9b05688cu;
        digests[6 * count + i] = g + 0x1f83d9abu;
        digests[7 * count + i] = h + 0x5be0cd19u;
    }
};

__device__ uint32_t spread(uint32_t w, uint32_t w1, uint32_t w9, uint32_t w14) {
    return w + (turned(w1, 7) ^ turned(w1, 18) ^ (w1 >> 3)) + w9 +
           (turned(w14, 17) ^ turned(w14, 19) ^ (w14 >> 10));
}

__device__ Digest start_digest() {
    return {0x6a09e667u, 0xbb67ae85u, 0x3c6ef372u, 0xa54ff53au,
            0x510e527fu, 0x9b05688cu, 0x1f83d9abu, 0x5be0cd19u};
}

// kMessages a thread side by side, a block apart; the rounds (64 in the standard) in steps of 16.
template <int kMessages, int kBlock>
__device__ void sha_unrolled(const uint32_t* __restrict__ words, uint32_t* __restrict__ digests, int count,
                             int rounds) {
    const int first = blockIdx.x * (kBlock * kMessages) + threadIdx.x;
    uint32_t w[kMessages][16];
    Digest digest[kMessages];
#pragma unroll
    for (int m = 0; m < kMessages; ++m) {
        digest[m] = start_digest();
#pragma unroll
        for (int k = 0; k < 16; ++k) w[m][k] = words[k * size_t(count) + first + m * kBlock];
    }
    for (int step = 0; step < rounds; step += 16) {
#pragma unroll
        for (int k = 0; k < 16; ++k) {
#pragma unroll
            for (int m = 0; m < kMessages; ++m) {
                digest[m].round(w[m][k], kSha[step + k]);
                w[m][k] = spread(w[m][k], w[m][(k + 1) & 15], w[m][(k + 9) & 15], w[m][(k + 14) & 15]);
            }
        }
    }
#pragma unroll
    for (int m = 0; m < kMessages; ++m) digest[m].store(digests, count, first + m * kBlock);
}
//: end

//: variant schedule_first
__global__ void sha_schedule_first(const uint32_t* __restrict__ words, uint32_t* __restrict__ digests,
                                   int count, int rounds) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    uint32_t w[64];
    for (int k = 0; k < 16; ++k) w[k] = words[k * size_t(count) + i];
    for (int r = 16; r < rounds; ++r) w[r] = spread(w[r - 16], w[r - 15], w[r - 7], w[r - 2]);
    Digest digest = start_digest();
    for (int r = 0; r < rounds; ++r) digest.round(w[r], kSha[r]);
    digest.store(digests, count, i);
}

void schedule_first(const Messages& m) {
    sha_schedule_first<<<m.count / 256, 256>>>(m.words, m.digests, m.count, m.rounds);
}
//: end

//: variant steps_of_16
__global__ void sha_steps(const uint32_t* __restrict__ words, uint32_t* __restrict__ digests, int count,
            int rounds) {
    sha_unrolled<1, 256>(words, digests, count, rounds);
}

void steps_of_16(const Messages& m) {
    sha_steps<<<m.count / 256, 256>>>(m.words, m.digests, m.count, m.rounds);
}
//: end

//: variant pairs_full
__global__ void __launch_bounds__(256, 8)
    sha_pairs_full(const uint32_t* __restrict__ words, uint32_t* __restrict__ digests, int count,
            int rounds) {
    sha_unrolled<2, 256>(words, digests, count, rounds);
}

void pairs_full(const Messages& m) {
    sha_pairs_full<<<m.count / 512, 256>>>(m.words, m.digests, m.count, m.rounds);
}
//: end

//: variant pairs
__global__ void __launch_bounds__(256, 4)
    sha_pairs(const uint32_t* __restrict__ words, uint32_t* __restrict__ digests, int count,
            int rounds) {
    sha_unrolled<2, 256>(words, digests, count, rounds);
}

void pairs(const Messages& m) {
    sha_pairs<<<m.count / 512, 256>>>(m.words, m.digests, m.count, m.rounds);
}
//: end

//: variant one_warp
__global__ void sha_one_warp(const uint32_t* __restrict__ words, uint32_t* __restrict__ digests, int count,
            int rounds) {
    sha_unrolled<1, 32>(words, digests, count, rounds);
}

void one_warp(const Messages& m) {
    sha_one_warp<<<m.count / 32, 32>>>(m.words, m.digests, m.count, m.rounds);
}
//: end

// --- records of 8 words, each with the hash that its kind asks for

//: shared
struct Tagged {
    int count;
    const uint32_t* words;
    const uint8_t* kinds;
    uint32_t* hashes;
};

__device__ uint32_t fnv(const uint32_t (&w)[8]) {
    uint32_t h = 2166136261u;
#pragma unroll 1
    for (int pass = 0; pass < 8; ++pass) {
#pragma unroll
        for (int byte = 0; byte < 32; ++byte) h = (h ^ ((w[byte / 4] >> (8 * (byte % 4))) & 255u)) * 16777619u;
    }
    return h;
}

__device__ uint32_t murmur(const uint32_t (&w)[8]) {
    uint32_t h = 0x9747b28cu;
#pragma unroll 1
    for (int pass = 0; pass < 20; ++pass) {
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            uint32_t v = w[k] * 0xcc9e2d51u;
            v = ((v << 15) | (v >> 17)) * 0x1b873593u;
            h ^= v;
            h = ((h << 13) | (h >> 19)) * 5 + 0xe6546b64u;
        }
    }
    return h;
}

__device__ uint32_t checksum(const uint32_t (&w)[8]) {
    uint32_t crc = 0xFFFFFFFFu;
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        crc ^= w[k];
        for (int bit = 0; bit < 32; ++bit) crc = (crc >> 1) ^ (kPolynomial & (0u - (crc & 1u)));
    }
    return ~crc;
}

__device__ uint32_t one_at_a_time(const uint32_t (&w)[8]) {
    uint32_t h = 0;
#pragma unroll 1
    for (int pass = 0; pass < 5; ++pass) {
#pragma unroll
        for (int byte = 0; byte < 32; ++byte) {
            h += (w[byte / 4] >> (8 * (byte % 4))) & 255u;
            h += h << 10;
            h ^= h >> 6;
        }
        h += h << 3;
        h ^= h >> 11;
    }
    return h;
}

__device__ uint32_t hash_of_kind(int kind, const uint32_t* __restrict__ words, int count, int i) {
    uint32_t w[8];
#pragma unroll
    for (int k = 0; k < 8; ++k) w[k] = words[k * size_t(count) + i];
    switch (kind) {
        case 0: return fnv(w);
        case 1: return murmur(w);
        case 2: return checksum(w);
        default: return one_at_a_time(w);
    }
}
//: end

//: variant as_they_come
__global__ void hash_as_they_come(const uint32_t* __restrict__ words, const uint8_t* __restrict__ kinds,
                                  uint32_t* __restrict__ hashes, int count) {
    const int i = blockIdx.x * 512 + threadIdx.x;
    hashes[i] = hash_of_kind(kinds[i], words, count, i);
}

void as_they_come(const Tagged& t) {
    hash_as_they_come<<<t.count / 512, 512>>>(t.words, t.kinds, t.hashes, t.count);
}
//: end

//: variant by_kind
__global__ void hash_by_kind(const uint32_t* __restrict__ words, const uint8_t* __restrict__ kinds,
                             uint32_t* __restrict__ hashes, int count) {
    __shared__ int places[5];
    __shared__ short order[512];
    __shared__ uint8_t kind_at[512];
    const int start = blockIdx.x * 512;
    if (threadIdx.x < 5) places[threadIdx.x] = 0;
    __syncthreads();
    const int kind = kinds[start + threadIdx.x];
    const int rank = atomicAdd(&places[kind + 1], 1);
    __syncthreads();
    int place = rank;
    for (int k = 1; k <= kind; ++k) place += places[k];
    order[place] = static_cast<short>(threadIdx.x);
    kind_at[place] = static_cast<uint8_t>(kind);
    __syncthreads();
    const int i = start + order[threadIdx.x];
    hashes[i] = hash_of_kind(kind_at[threadIdx.x], words, count, i);
}

void by_kind(const Tagged& t) {
    hash_by_kind<<<t.count / 512, 512>>>(t.words, t.kinds, t.hashes, t.count);
}
//: end

// --- a keyed permutation of 32-bit keys in many rounds, two keys a thread

//: shared
constexpr int kRounds = 4096;

__host__ __device__ constexpr uint32_t round_key(uint32_t round) {
    uint32_t k = round * 0x9E3779B1u + 0x7F4A7C15u;
    k = (k ^ (k >> 15)) * 0x85EBCA77u;
    k = (k ^ (k >> 13)) * 0xC2B2AE3Du;
    return k ^ (k >> 16);
}

__device__ __forceinline__ uint2 next_round(uint2 h, uint32_t key) {
    h.x = (h.x ^ key) * 0x2C1B3C6Du;
    h.y = (h.y ^ key) * 0x2C1B3C6Du;
    return {h.x ^ (h.x >> 15), h.y ^ (h.y >> 15)};
}

struct Keys {
    int pairs, blocks, threads;
    const uint2* plain;
    const uint32_t* round_keys;
    uint2* mixed;
};
//: end

//: variant generated
template <int kFirst, int... kRound>
__device__ __forceinline__ void generated_rounds(uint2& h, std::integer_sequence<int, kRound...>) {
    ((h = next_round(h, std::integral_constant<uint32_t, round_key(kFirst + kRound)>::value)), ...);
}

__global__ void mix_generated(const uint2* __restrict__ plain, uint2* __restrict__ mixed, int pairs) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < pairs; i += gridDim.x * blockDim.x) {
        uint2 h = plain[i];
        using Group = std::make_integer_sequence<int, 512>;
        generated_rounds<0>(h, Group{});
        generated_rounds<512>(h, Group{});
        generated_rounds<1024>(h, Group{});
        generated_rounds<1536>(h, Group{});
        generated_rounds<2048>(h, Group{});
        generated_rounds<2560>(h, Group{});
        generated_rounds<3072>(h, Group{});
        generated_rounds<3584>(h, Group{});
        mixed[i] = h;
    }
}

void generated(const Keys& k) {
    mix_generated<<<k.blocks, k.threads>>>(k.plain, k.mixed, k.pairs);
}
//: end

//: variant from_list
__global__ void mix_from_list(const uint2* __restrict__ plain, const uint32_t* __restrict__ round_keys,
                              uint2* __restrict__ mixed, int pairs) {
    __shared__ uint4 near_keys[kRounds / 4];
    for (int r = threadIdx.x; r < kRounds / 4; r += blockDim.x) {
        near_keys[r] = reinterpret_cast<const uint4*>(round_keys)[r];
    }
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < pairs; i += gridDim.x * blockDim.x) {
        uint2 h = plain[i];
#pragma unroll 4
        for (int r = 0; r < kRounds / 4; ++r) {
            const uint4 key = near_keys[r];
            h = next_round(h, key.x);
            h = next_round(h, key.y);
            h = next_round(h, key.z);
            h = next_round(h, key.w);
        }
        mixed[i] = h;
    }
}

void from_list(const Keys& k) {
    mix_from_list<<<k.blocks, k.threads>>>(k.plain, k.round_keys, k.mixed, k.pairs);
}
//: end

// --- references

__global__ void reference_crc(const uint32_t* words, uint32_t* expected, int count, int covered) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        uint32_t crc = ~0u, folded = 0;
        for (int w = 0; w < 16; ++w) {
            uint32_t word = words[size_t(w) * count + i];
            if (w >= covered) {
                folded ^= word;
                continue;
            }
            for (int bit = 0; bit < 32; ++bit, word >>= 1) {
                const bool low = ((crc ^ word) & 1) != 0;
                crc >>= 1;
                if (low) crc ^= 0xEDB88320u;
            }
        }
        expected[i] = ~crc ^ folded;
    }
}

__device__ uint32_t reference_right(uint32_t x, int by) {
    return (x >> by) | (x << (32 - by));
}

__global__ void reference_sha(const uint32_t* words, uint32_t* expected, int count) {
    const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                               0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        uint32_t w[64], s[8];
        for (int k = 0; k < 16; ++k) w[k] = words[size_t(k) * count + i];
        for (int k = 16; k < 64; ++k) {
            const uint32_t s0 =
                reference_right(w[k - 15], 7) ^ reference_right(w[k - 15], 18) ^ (w[k - 15] >> 3);
            const uint32_t s1 =
                reference_right(w[k - 2], 17) ^ reference_right(w[k - 2], 19) ^ (w[k - 2] >> 10);
            w[k] = w[k - 16] + s0 + w[k - 7] + s1;
        }
        for (int j = 0; j < 8; ++j) s[j] = start[j];
        for (int k = 0; k < 64; ++k) {
            const uint32_t e = s[4], a = s[0];
            const uint32_t big1 = reference_right(e, 6) ^ reference_right(e, 11) ^ reference_right(e, 25);
            const uint32_t t1 = s[7] + big1 + ((e & s[5]) ^ (~e & s[6])) + kSha[k] + w[k];
            const uint32_t big0 = reference_right(a, 2) ^ reference_right(a, 13) ^ reference_right(a, 22);
            const uint32_t t2 = big0 + ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
            for (int j = 7; j > 0; --j) s[j] = s[j - 1];
            s[4] += t1;
            s[0] = t1 + t2;
        }
        for (int j = 0; j < 8; ++j) expected[size_t(j) * count + i] = s[j] + start[j];
    }
}

__global__ void reference_kinds(const uint32_t* words, const uint8_t* kinds, uint32_t* expected, int count) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        const int kind = kinds[i];
        const int passes = kind == 0 ? 8 : kind == 1 ? 20 : kind == 2 ? 1 : 5;
        uint32_t h = kind == 0 ? 2166136261u : kind == 1 ? 0x9747b28cu : kind == 2 ? ~0u : 0u;
        for (int pass = 0; pass < passes; ++pass) {
            for (int k = 0; k < 8; ++k) {
                const uint32_t word = words[size_t(k) * count + i];
                if (kind == 1) {
                    uint32_t v = word * 0xcc9e2d51u;
                    v = reference_right(v, 17) * 0x1b873593u;
                    h = reference_right(h ^ v, 19) * 5 + 0xe6546b64u;
                    continue;
                }
                for (int byte = 0; byte < 4; ++byte) {
                    const uint32_t b = (word >> (8 * byte)) & 255u;
                    if (kind == 0) h = (h ^ b) * 16777619u;
                    if (kind == 2) {
                        h ^= b;
                        for (int bit = 0; bit < 8; ++bit) h = h & 1 ? (h >> 1) ^ 0xEDB88320u : h >> 1;
                    }
                    if (kind == 3) {
                        h += b;
                        h += h << 10;
                        h ^= h >> 6;
                    }
                }
            }
            if (kind == 3) {
                h += h << 3;
                h ^= h >> 11;
            }
        }
        expected[i] = kind == 2 ? ~h : h;
    }
}

__global__ void reference_mix(const uint32_t* plain, const uint32_t* round_keys, uint32_t* expected, int count) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        uint32_t h = plain[i];
        for (int r = 0; r < kRounds; ++r) {
            h ^= round_keys[r];
            h *= 0x2C1B3C6Du;
            h ^= h / 32768u;
        }
        expected[i] = h;
    }
}

// --- problems

const uint32_t* random_words(book::Problem& p, size_t count) {
    const uint64_t seed = p.seed();
    return p.input<uint32_t>(count, [=] __device__(size_t i) {
        return uint32_t(book::mixed(i ^ book::mixed(seed + 31)) >> 32);
    });
}

template <int kCovered>
void records_of(book::Book& book, const char* name) {
    book.problem(name, [](book::Problem& p) {
        Records r{2 << 20};
        r.words = random_words(p, size_t(r.count) * kRecordWords);
        r.sums = p.output<uint32_t>(r.count);
        // Four operations a byte with a table of 256 entries.
        p.needs({.dram_bytes = 68.0 * r.count, .int_op = 16.0 * kCovered * r.count});
        p.check<uint32_t>(r.sums, r.count, {0}, [=](uint32_t* expected) {
            reference_crc<<<1056, 256>>>(r.words, expected, r.count, kCovered);
        });
        p.variant("by_bit", [=] { by_bit<kCovered>(r); });
        p.variant("by_byte", [=] { by_byte<kCovered>(r); });
    });
}

void kinds_of(book::Book& book, const char* name, double usual) {
    book.problem(name, [=](book::Problem& p) {
        Tagged t{1 << 20};
        const uint64_t seed = p.seed();
        t.words = random_words(p, size_t(t.count) * 8);
        t.kinds = p.input<uint8_t>(t.count, [=] __device__(size_t i) {
            const double u = book::uniform01(seed, 41, i);
            return uint8_t(u < usual ? 0 : 1 + min(2, int(3 * (u - usual) / (1 - usual))));
        });
        t.hashes = p.output<uint32_t>(t.count);
        // Instructions of each kind: 512, 1120, 1030, 800.
        p.needs({.dram_bytes = 37.0 * t.count,
                 .int_op = t.count * (512 * usual + (1 - usual) * (1120 + 1030 + 800) / 3)});
        p.check<uint32_t>(t.hashes, t.count, {0}, [=](uint32_t* expected) {
            reference_kinds<<<1056, 256>>>(t.words, t.kinds, expected, t.count);
        });
        p.variant("as_they_come", [=] { as_they_come(t); });
        p.variant("by_kind", [=] { by_kind(t); });
    });
}

void keys_of(book::Book& book, const char* name, int blocks, int threads, int passes) {
    book.problem(name, [=](book::Problem& p) {
        Keys k{blocks * threads * passes, blocks, threads};
        const int count = 2 * k.pairs;
        const uint32_t* plain = random_words(p, count);
        k.plain = reinterpret_cast<const uint2*>(plain);
        k.round_keys = p.input<uint32_t>(kRounds, [] __device__(size_t r) { return round_key(uint32_t(r)); });
        uint32_t* mixed = p.output<uint32_t>(count);
        k.mixed = reinterpret_cast<uint2*>(mixed);
        p.needs({.dram_bytes = 8.0 * count, .int_op = 3.0 * kRounds * count});
        p.check<uint32_t>(mixed, count, {0}, [=](uint32_t* expected) {
            reference_mix<<<528, 256>>>(plain, k.round_keys, expected, count);
        });
        p.variant("generated", [=] { generated(k); });
        p.variant("from_list", [=] { from_list(k); });
    });
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    records_of<16>(book, "crc_all");
    records_of<3>(book, "crc_header");
    book.problem("sha", [](book::Problem& p) {
        Messages m{1 << 20, 64};
        m.words = random_words(p, size_t(m.count) * 16);
        m.digests = p.output<uint32_t>(size_t(m.count) * 8);
        p.needs({.dram_bytes = 96.0 * m.count, .int_op = 1500.0 * m.count});
        p.check<uint32_t>(m.digests, size_t(m.count) * 8, {0}, [=](uint32_t* expected) {
            reference_sha<<<1056, 256>>>(m.words, expected, m.count);
        });
        p.variant("schedule_first", [=] { schedule_first(m); });
        p.variant("steps_of_16", [=] { steps_of_16(m); });
        p.variant("pairs_full", [=] { pairs_full(m); });
        p.variant("pairs", [=] { pairs(m); });
        p.variant("one_warp", [=] { one_warp(m); });
    });
    kinds_of(book, "kinds_even", 0.25);
    kinds_of(book, "kinds_rare", 0.97);
    keys_of(book, "keys_14_warps", 132 * 7, 64, 2);
    keys_of(book, "keys_12_warps", 132 * 3, 128, 2);
    keys_of(book, "keys_8_warps", 132, 256, 2);
    return book.finish();
}
