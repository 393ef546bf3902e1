// Rotary position embedding of queries and keys, and the write of keys and values to a paged cache:
// what an inference engine does between the QKV projection and attention.
#include "../../harness/book.h"

//: shared
constexpr float kBase = 10000.0f;

// One row of qkv per token: query heads, key heads, value heads. The cache has one row of heads per slot.
template <class T>
struct Batch {
    int tokens, heads, kv_heads, sequences;
    const T* qkv;
    const int* position;
    const int* slot;
    const float* trig;  // per position: cosines, then sines
    const float* frequency;
    T* query;
    T *key_cache, *value_cache;
};

__device__ inline float to_float(__half v) { return __half2float(v); }

__device__ inline float to_float(__nv_bfloat16 v) { return __bfloat162float(v); }

__device__ inline void put(__half& to, float v) { to = __float2half(v); }

__device__ inline void put(__nv_bfloat16& to, float v) { to = __float2bfloat16(v); }

template <class T>
struct alignas(16) Eight {
    T v[8];
};

// Angles from the table of the model.
template <int Dim>
struct TableAngles {
    const float* row;
    template <class T>
    __device__ TableAngles(const Batch<T>& b, int position) : row(b.trig + size_t(position) * Dim) {}
    __device__ void one(int pair, float& c, float& s) const { c = row[pair], s = row[Dim / 2 + pair]; }
    __device__ void eight(int pair, float* c, float* s) const {
        for (int k = 0; k < 8; k += 4) {
            *reinterpret_cast<float4*>(c + k) = *reinterpret_cast<const float4*>(row + pair + k);
            *reinterpret_cast<float4*>(s + k) = *reinterpret_cast<const float4*>(row + Dim / 2 + pair + k);
        }
    }
};

// One block per token; a thread rotates one pair (d, d + Dim / 2) at a time.
template <class T, int Dim, class Angles>
__global__ void rope_pairs(Batch<T> b) {
    constexpr int kPairs = Dim / 2;
    const int token = blockIdx.x;
    const Angles angles(b, b.position[token]);
    const T* row = b.qkv + size_t(token) * (b.heads + 2 * b.kv_heads) * Dim;
    T* query = b.query + size_t(token) * b.heads * Dim;
    T* key = b.key_cache + size_t(b.slot[token]) * b.kv_heads * Dim;
    T* value = b.value_cache + size_t(b.slot[token]) * b.kv_heads * Dim;
    for (int i = threadIdx.x; i < (b.heads + b.kv_heads) * kPairs; i += blockDim.x) {
        const int head = i / kPairs, pair = i % kPairs;
        const T* from = row + head * Dim;
        T* to = head < b.heads ? query + head * Dim : key + (head - b.heads) * Dim;
        float c, s;
        angles.one(pair, c, s);
        const float x = to_float(from[pair]), y = to_float(from[pair + kPairs]);
        put(to[pair], x * c - y * s);
        put(to[pair + kPairs], y * c + x * s);
    }
    for (int i = threadIdx.x; i < b.kv_heads * Dim; i += blockDim.x) {
        value[i] = row[(b.heads + b.kv_heads) * Dim + i];
    }
}

// Rotates and stores one token; a thread takes eight pairs at a time.
template <class T, int Dim, class Angles>
__device__ void rope_token(const Batch<T>& b, int token) {
    constexpr int kGroups = Dim / 16;
    const Angles angles(b, b.position[token]);
    const auto* row = reinterpret_cast<const Eight<T>*>(b.qkv + size_t(token) * (b.heads + 2 * b.kv_heads) * Dim);
    auto* query = reinterpret_cast<Eight<T>*>(b.query + size_t(token) * b.heads * Dim);
    auto* key = reinterpret_cast<Eight<T>*>(b.key_cache + size_t(b.slot[token]) * b.kv_heads * Dim);
    auto* value = reinterpret_cast<Eight<T>*>(b.value_cache + size_t(b.slot[token]) * b.kv_heads * Dim);
    for (int i = threadIdx.x; i < (b.heads + b.kv_heads) * kGroups; i += blockDim.x) {
        const int head = i / kGroups, group = i % kGroups;
        const Eight<T>* from = row + head * 2 * kGroups;
        Eight<T>* to = head < b.heads ? query + head * 2 * kGroups : key + (head - b.heads) * 2 * kGroups;
        Eight<T> low = from[group], high = from[group + kGroups];
        alignas(16) float c[8], s[8];
        angles.eight(8 * group, c, s);
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            const float x = to_float(low.v[k]), y = to_float(high.v[k]);
            put(low.v[k], x * c[k] - y * s[k]);
            put(high.v[k], y * c[k] + x * s[k]);
        }
        to[group] = low;
        to[group + kGroups] = high;
    }
    for (int i = threadIdx.x; i < b.kv_heads * 2 * kGroups; i += blockDim.x) {
        value[i] = row[(b.heads + b.kv_heads) * 2 * kGroups + i];
    }
}

template <class T, int Dim, class Angles>
__global__ void rope_vectors(Batch<T> b) {
    rope_token<T, Dim, Angles>(b, blockIdx.x);
}
//: end

//: variant flat
// One thread per pair of the whole batch; any shape.
template <class T>
__global__ void rope_flat(Batch<T> b, int64_t dim, int64_t page_size, int64_t page_stride) {
    const int64_t pairs = dim / 2, all_heads = b.heads + 2 * b.kv_heads;
    const int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
    if (i >= b.tokens * all_heads * pairs) return;
    const int64_t pair = i % pairs, head = i / pairs % all_heads, token = i / (pairs * all_heads);
    const T* from = b.qkv + (token * all_heads + head) * dim;
    T* to = b.query + (token * b.heads + head) * dim;
    if (head >= b.heads) {
        const int64_t page = b.slot[token] / page_size, place = b.slot[token] % page_size;
        const int64_t kv_head = head - b.heads < b.kv_heads ? head - b.heads : head - b.heads - b.kv_heads;
        T* cache = head - b.heads < b.kv_heads ? b.key_cache : b.value_cache;
        to = cache + page * page_stride + (place * b.kv_heads + kv_head) * dim;
    }
    if (head >= b.heads + b.kv_heads) {
        to[pair] = from[pair];
        to[pair + pairs] = from[pair + pairs];
        return;
    }
    const float* row = b.trig + b.position[token] * dim;
    const float c = row[pair], s = row[pairs + pair];
    const float x = to_float(from[pair]), y = to_float(from[pair + pairs]);
    put(to[pair], x * c - y * s);
    put(to[pair + pairs], y * c + x * s);
}

template <class T, int Dim>
void flat(const Batch<T>& b) {
    const size_t pairs = size_t(b.tokens) * (b.heads + 2 * b.kv_heads) * Dim / 2;
    rope_flat<<<unsigned((pairs + 255) / 256), 256>>>(b, Dim, 16, 16 * b.kv_heads * Dim);
}
//: end

//: variant pairs_256
template <class T, int Dim>
void pairs_256(const Batch<T>& b) {
    rope_pairs<T, Dim, TableAngles<Dim>><<<b.tokens, 256>>>(b);
}
//: end

//: variant pairs_32
template <class T, int Dim>
void pairs_32(const Batch<T>& b) {
    rope_pairs<T, Dim, TableAngles<Dim>><<<b.tokens, 32>>>(b);
}
//: end

//: variant pairs_computed
// Angles from the definition: position * base^(-2 d / Dim).
template <int Dim>
struct ComputedAngles {
    float position;
    template <class T>
    __device__ ComputedAngles(const Batch<T>&, int position) : position(position) {}
    __device__ void one(int pair, float& c, float& s) const {
        sincosf(position * powf(kBase, -2.0f * pair / Dim), &s, &c);
    }
};

template <class T, int Dim>
void pairs_computed(const Batch<T>& b) {
    rope_pairs<T, Dim, ComputedAngles<Dim>><<<b.tokens, 256>>>(b);
}
//: end

//: variant vectors
template <class T, int Dim>
void vectors(const Batch<T>& b) {
    rope_vectors<T, Dim, TableAngles<Dim>><<<b.tokens, 128>>>(b);
}
//: end

//: variant vectors_frequency
// Angles from the table of inverse frequencies.
template <int Dim>
struct FrequencyAngles {
    const float* frequency;
    float position;
    template <class T>
    __device__ FrequencyAngles(const Batch<T>& b, int position) : frequency(b.frequency), position(position) {}
    __device__ void eight(int pair, float* c, float* s) const {
        for (int k = 0; k < 8; ++k) sincosf(position * frequency[pair + k], s + k, c + k);
    }
};

template <class T, int Dim>
void vectors_frequency(const Batch<T>& b) {
    rope_vectors<T, Dim, FrequencyAngles<Dim>><<<b.tokens, 128>>>(b);
}
//: end

//: variant vectors_intrinsic
// Angles from the definition, by the hardware's exponential, sine and cosine.
template <int Dim>
struct IntrinsicAngles {
    float position;
    template <class T>
    __device__ IntrinsicAngles(const Batch<T>&, int position) : position(position) {}
    __device__ void eight(int pair, float* c, float* s) const {
        constexpr float kLog2Base = 13.2877124f;
        for (int k = 0; k < 8; ++k) {
            __sincosf(position * exp2f((pair + k) * (-2.0f * kLog2Base / Dim)), s + k, c + k);
        }
    }
};

template <class T, int Dim>
void vectors_intrinsic(const Batch<T>& b) {
    rope_vectors<T, Dim, IntrinsicAngles<Dim>><<<b.tokens, 128>>>(b);
}
//: end

//: variant per_sequence
// One block per sequence of the batch, which goes through the new tokens of the sequence.
template <class T, int Dim>
__global__ void rope_sequences(Batch<T> b) {
    const int each = b.tokens / b.sequences;
    for (int k = 0; k < each; ++k) {
        rope_token<T, Dim, TableAngles<Dim>>(b, blockIdx.x * each + k);
    }
}

template <class T, int Dim>
void per_sequence(const Batch<T>& b) {
    rope_sequences<T, Dim><<<b.sequences, 512>>>(b);
}
//: end

// role 0: rotated queries in token order; 1: rotated keys in slot order; 2: values in slot order.
template <class T>
__global__ void reference_rope(Batch<T> b, int dim, int role, T* expected) {
    const int heads = role == 0 ? b.heads : b.kv_heads;
    const int skip = role == 0 ? 0 : role == 1 ? b.heads : b.heads + b.kv_heads;
    const size_t count = size_t(b.tokens) * heads * dim;
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count;
         i += size_t{gridDim.x} * blockDim.x) {
        const int d = int(i % dim), head = int(i / dim % heads), token = int(i / dim / heads);
        const T* from = b.qkv + (size_t(token) * (b.heads + 2 * b.kv_heads) + skip + head) * dim;
        const int pair = d % (dim / 2);
        double result = book::as_double(from[d]);
        if (role != 2) {
            double s, c;
            sincos(b.position[token] * exp2(-2.0 * pair / dim * log2(10000.0)), &s, &c);
            const double low = book::as_double(from[pair]), high = book::as_double(from[pair + dim / 2]);
            result = d < dim / 2 ? low * c - high * s : high * c + low * s;
        }
        const size_t row = role == 0 ? token : b.slot[token];
        expected[(row * heads + head) * dim + d] = book::from_double<T>(result);
    }
}

// Sequences of equal length; their tokens fill pages of 16 slots that lie in no order.
template <class T, int Dim>
Batch<T> set_up(book::Problem& p, int sequences, int length, int heads, int kv_heads, double tolerance) {
    Batch<T> b{sequences * length, heads, kv_heads, sequences};
    const int pages = b.tokens / 16;
    const size_t q_count = size_t(b.tokens) * heads * Dim, kv_count = size_t(b.tokens) * kv_heads * Dim;
    const unsigned shift = unsigned(p.seed());
    b.qkv = p.uniform<T>(q_count + 2 * kv_count, -1, 1);
    b.position = p.input<int>(b.tokens, [=] __device__(size_t i) { return int(i % length); });
    b.slot = p.input<int>(b.tokens, [=] __device__(size_t i) {
        return int((i / 16 * 325 + shift) % pages * 16 + i % 16);
    });
    b.trig = p.input<float>(size_t(length) * Dim, [=] __device__(size_t i) {
        const int d = int(i % Dim);
        const double angle = double(i / Dim) * exp2(-2.0 * (d % (Dim / 2)) / Dim * log2(10000.0));
        return float(d < Dim / 2 ? cos(angle) : sin(angle));
    });
    b.frequency = p.input<float>(Dim / 2, [=] __device__(size_t i) {
        return float(exp2(-2.0 * double(i) / Dim * log2(10000.0)));
    });
    b.query = p.output<T>(q_count);
    b.key_cache = p.output<T>(kv_count);
    b.value_cache = p.output<T>(kv_count);
    p.needs({.dram_bytes = 2.0 * sizeof(T) * (q_count + 2 * kv_count) + 8.0 * b.tokens,
             .fp32_flop = 3.0 * (q_count + kv_count)});
    T* results[] = {b.query, b.key_cache, b.value_cache};
    for (int role = 0; role < 3; ++role) {
        const double allowed = role == 2 ? 0 : tolerance;
        p.check<T>(results[role], role == 0 ? q_count : kv_count, {0, allowed}, [=](T* expected) {
            reference_rope<<<1056, 256>>>(b, Dim, role, expected);
        });
    }
    return b;
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("prefill_half", [](book::Problem& p) {
        const auto b = set_up<__half, 128>(p, 4, 2112, 24, 8, 4e-3);
        p.variant("flat", [=] { flat<__half, 128>(b); });
        p.variant("pairs_256", [=] { pairs_256<__half, 128>(b); });
        p.variant("pairs_32", [=] { pairs_32<__half, 128>(b); });
        p.variant("pairs_computed", [=] { pairs_computed<__half, 128>(b); });
        p.variant("vectors", [=] { vectors<__half, 128>(b); });
        p.variant("vectors_intrinsic", [=] { vectors_intrinsic<__half, 128>(b); });
    });
    book.problem("prefill_bf16", [](book::Problem& p) {
        const auto b = set_up<__nv_bfloat16, 64>(p, 8, 1056, 48, 8, 2e-2);
        p.variant("vectors", [=] { vectors<__nv_bfloat16, 64>(b); });
        p.variant("vectors_frequency", [=] { vectors_frequency<__nv_bfloat16, 64>(b); });
    });
    book.problem("chunks", [](book::Problem& p) {
        const auto b = set_up<__half, 128>(p, 48, 128, 24, 8, 4e-3);
        p.variant("per_sequence", [=] { per_sequence<__half, 128>(b); });
        p.variant("vectors", [=] { vectors<__half, 128>(b); });
    });
    return book.finish();
}
