// Attention: o = softmax(q k^T / sqrt(d)) v by head, for prefill (many queries) and decode (one query).
#include "../../harness/book.h"

template <class T>
struct Prefill {
    int heads, length;
    const T* q;
    const T* k;
    const T* v;
    T* o;
    float* partial;   // scratch of split keys: unscaled outputs
    float2* moments;  // scratch of split keys: maximum and sum
};

struct Decode {
    int heads, longest;
    const __half* q;
    const __half* k;
    const __half* v;
    const int* offset;  // of each head in keys; heads + 1 entries
    float* o;
    float* partial;
    float2* moments;
};

//: shared
constexpr unsigned kAll = 0xFFFFFFFFu;

__device__ float2 two_floats(const __half* at) { return __half22float2(*reinterpret_cast<const __half2*>(at)); }
__device__ float2 two_floats(const __nv_bfloat16* at) {
    return __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(at));
}
__device__ float2 two_floats(const float* at) { return *reinterpret_cast<const float2*>(at); }
__device__ void put(__half* at, float value) { *at = __float2half(value); }
__device__ void put(__nv_bfloat16* at, float value) { *at = __float2bfloat16(value); }
__device__ void put(float* at, float value) { *at = value; }
//: end

// --- prefill on the FMA pipe: 64 queries a block, tiles of 64 keys, 4 x 4 scores a thread

//: shared
template <int kDim>
constexpr int tile_bytes() {
    return 4 * (3 * 64 * (kDim + 4) + 64 * 68);
}

template <class T, int kDim>
__device__ void load_tile(const T* from, float* tile, float factor) {
    for (int i = threadIdx.x; i < 64 * kDim / 2; i += 256) {
        const int row = i / (kDim / 2), column = 2 * (i % (kDim / 2));
        const float2 pair = two_floats(from + row * kDim + column);
        tile[row * (kDim + 4) + column] = pair.x * factor;
        tile[row * (kDim + 4) + column + 1] = pair.y * factor;
    }
}

// Block (tile of queries, head, part of the keys). With one part it writes the output itself.
template <class T, int kDim>
__global__ void __launch_bounds__(256) attend_tiles(const T* q, const T* k, const T* v, T* o,
                                                    float* partial, float2* moments, int length,
                                                    int tiles_a_part) {
    extern __shared__ float memory[];
    constexpr int kRow = kDim + 4, kParts = kDim / 64;
    float* qs = memory;
    float* ks = qs + 64 * kRow;
    float* vs = ks + 64 * kRow;
    float* ps = vs + 64 * kRow;
    const int ty = threadIdx.x / 16, tx = threadIdx.x % 16;
    const size_t head = size_t(blockIdx.y) * length;
    load_tile<T, kDim>(q + (head + blockIdx.x * 64) * kDim, qs, rsqrtf(float(kDim)));
    float largest[4], total[4], out[4][4 * kParts];
    for (int i = 0; i < 4; ++i) {
        largest[i] = -1e30f;
        total[i] = 0;
        for (int c = 0; c < 4 * kParts; ++c) out[i][c] = 0;
    }
    const int first_tile = blockIdx.z * tiles_a_part;
    const int last_tile = min(first_tile + tiles_a_part, length / 64);
    for (int tile = first_tile; tile < last_tile; ++tile) {
        __syncthreads();
        load_tile<T, kDim>(k + (head + tile * 64) * kDim, ks, 1.0f);
        load_tile<T, kDim>(v + (head + tile * 64) * kDim, vs, 1.0f);
        __syncthreads();
        float score[4][4] = {};
#pragma unroll 4
        for (int d = 0; d < kDim; d += 4) {
            float4 a[4], b[4];
            for (int i = 0; i < 4; ++i) a[i] = *reinterpret_cast<float4*>(qs + (4 * ty + i) * kRow + d);
            for (int j = 0; j < 4; ++j) b[j] = *reinterpret_cast<float4*>(ks + (tx + 16 * j) * kRow + d);
            for (int i = 0; i < 4; ++i) {
                for (int j = 0; j < 4; ++j) {
                    score[i][j] += a[i].x * b[j].x + a[i].y * b[j].y + a[i].z * b[j].z + a[i].w * b[j].w;
                }
            }
        }
        for (int i = 0; i < 4; ++i) {
            float top = fmaxf(fmaxf(score[i][0], score[i][1]), fmaxf(score[i][2], score[i][3]));
            for (int step = 8; step > 0; step /= 2) top = fmaxf(top, __shfl_xor_sync(kAll, top, step));
            top = fmaxf(top, largest[i]);
            const float factor = __expf(largest[i] - top);
            largest[i] = top;
            float sum = 0;
            for (int j = 0; j < 4; ++j) {
                const float power = __expf(score[i][j] - top);
                sum += power;
                ps[(4 * ty + i) * 68 + tx + 16 * j] = power;
            }
            for (int step = 8; step > 0; step /= 2) sum += __shfl_xor_sync(kAll, sum, step);
            total[i] = total[i] * factor + sum;
            for (int c = 0; c < 4 * kParts; ++c) out[i][c] *= factor;
        }
        __syncwarp();  // the four rows of ps that a thread reads were written by its own warp
#pragma unroll 4
        for (int key = 0; key < 64; key += 4) {
            float4 p[4];
            for (int i = 0; i < 4; ++i) p[i] = *reinterpret_cast<float4*>(ps + (4 * ty + i) * 68 + key);
            for (int u = 0; u < 4; ++u) {
                for (int c = 0; c < kParts; ++c) {
                    const float4 b = *reinterpret_cast<float4*>(vs + (key + u) * kRow + 64 * c + 4 * tx);
                    for (int i = 0; i < 4; ++i) {
                        const float weight = u == 0 ? p[i].x : u == 1 ? p[i].y : u == 2 ? p[i].z : p[i].w;
                        out[i][4 * c] += weight * b.x;
                        out[i][4 * c + 1] += weight * b.y;
                        out[i][4 * c + 2] += weight * b.z;
                        out[i][4 * c + 3] += weight * b.w;
                    }
                }
            }
        }
    }
    for (int i = 0; i < 4; ++i) {
        const size_t row = head + blockIdx.x * 64 + 4 * ty + i;
        if (gridDim.z == 1) {
            for (int c = 0; c < 4 * kParts; ++c) {
                put(o + row * kDim + 64 * (c / 4) + 4 * tx + c % 4, out[i][c] / total[i]);
            }
        } else {
            const size_t part = blockIdx.z * size_t(gridDim.y) * length + row;
            for (int c = 0; c < kParts; ++c) {
                *reinterpret_cast<float4*>(partial + part * kDim + 64 * c + 4 * tx) = make_float4(
                    out[i][4 * c], out[i][4 * c + 1], out[i][4 * c + 2], out[i][4 * c + 3]);
            }
            if (tx == 0) moments[part] = make_float2(largest[i], total[i]);
        }
    }
}

template <class T, int kDim>
__global__ void __launch_bounds__(kDim) combine_parts(const float* partial, const float2* moments, T* o,
                                                      size_t rows, int parts) {
    const size_t row = blockIdx.x;
    float top = -1e30f, sum = 0, total = 0;
    for (int s = 0; s < parts; ++s) top = fmaxf(top, moments[s * rows + row].x);
    for (int s = 0; s < parts; ++s) {
        const float2 m = moments[s * rows + row];
        const float factor = __expf(m.x - top);
        total += factor * m.y;
        sum += factor * partial[(s * rows + row) * kDim + threadIdx.x];
    }
    put(o + row * kDim + threadIdx.x, sum / total);
}

template <class T, int kDim>
void launch_tiles(const Prefill<T>& d, int parts) {
    const int tiles = d.length / 64;
    BOOK_CHECK(cudaFuncSetAttribute(attend_tiles<T, kDim>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    tile_bytes<kDim>()));
    attend_tiles<T, kDim><<<dim3(tiles, d.heads, parts), 256, tile_bytes<kDim>()>>>(
        d.q, d.k, d.v, d.o, d.partial, d.moments, d.length, (tiles + parts - 1) / parts);
}
//: end

//: variant tiles
template <class T, int kDim>
void tiles(const Prefill<T>& d) {
    launch_tiles<T, kDim>(d, 1);
}
//: end

//: variant tiles_split_keys
template <class T, int kDim>
void tiles_split_keys(const Prefill<T>& d) {
    const int parts = d.length == 960 ? 5 : 4;
    launch_tiles<T, kDim>(d, parts);
    const size_t rows = size_t(d.heads) * d.length;
    combine_parts<T, kDim><<<unsigned(rows), kDim>>>(d.partial, d.moments, d.o, rows, parts);
}
//: end

// --- prefill with matrix instructions: 64 queries a block, 16 a warp, tiles of 64 keys

//: variant matrix_tiles
__device__ uint32_t packed(float low, float high, __half) {
    const __half2 pair = __floats2half2_rn(low, high);
    return *reinterpret_cast<const uint32_t*>(&pair);
}
__device__ uint32_t packed(float low, float high, __nv_bfloat16) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<const uint32_t*>(&pair);
}

__device__ void multiply(float* c, const uint32_t* a, uint32_t b0, uint32_t b1, __half) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};\n"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ void multiply(float* c, const uint32_t* a, uint32_t b0, uint32_t b1, __nv_bfloat16) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};\n"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

template <class T, int kDim>
__global__ void __launch_bounds__(128) attend_matrix(const T* q, const T* k, const T* v, T* o, int length) {
    constexpr int kRow = kDim + 8;
    __shared__ __align__(16) T ks[64 * kRow];
    __shared__ __align__(16) T vs[64 * kRow];
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const size_t head = size_t(blockIdx.y) * length;
    const size_t row = head + blockIdx.x * 64 + threadIdx.x / 32 * 16 + g;
    uint32_t qa[kDim / 16][4];
#pragma unroll
    for (int c = 0; c < kDim / 16; ++c) {
        const T* at = q + row * kDim + 16 * c + 2 * t;
        qa[c][0] = *reinterpret_cast<const uint32_t*>(at);
        qa[c][1] = *reinterpret_cast<const uint32_t*>(at + 8 * kDim);
        qa[c][2] = *reinterpret_cast<const uint32_t*>(at + 8);
        qa[c][3] = *reinterpret_cast<const uint32_t*>(at + 8 * kDim + 8);
    }
    float out[kDim / 8][4] = {};
    float largest[2] = {-1e30f, -1e30f}, total[2] = {0, 0};
    const float scale = rsqrtf(float(kDim)) * 1.44269504f;
    for (int tile = 0; tile < length / 64; ++tile) {
        __syncthreads();
        const uint4* from_k = reinterpret_cast<const uint4*>(k + (head + tile * 64) * kDim);
        const uint4* from_v = reinterpret_cast<const uint4*>(v + (head + tile * 64) * kDim);
#pragma unroll
        for (int i = threadIdx.x; i < 64 * kDim / 8; i += 128) {
            const int at = i / (kDim / 8) * kRow + i % (kDim / 8) * 8;
            *reinterpret_cast<uint4*>(ks + at) = from_k[i];
            *reinterpret_cast<uint4*>(vs + at) = from_v[i];
        }
        __syncthreads();
        float score[8][4] = {};
#pragma unroll
        for (int c = 0; c < kDim / 16; ++c) {
#pragma unroll
            for (int n = 0; n < 8; ++n) {
                const T* at = ks + (8 * n + g) * kRow + 16 * c + 2 * t;
                multiply(score[n], qa[c], *reinterpret_cast<const uint32_t*>(at),
                         *reinterpret_cast<const uint32_t*>(at + 8), T());
            }
        }
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            float top = -1e30f;
#pragma unroll
            for (int n = 0; n < 8; ++n) top = fmaxf(top, fmaxf(score[n][2 * r], score[n][2 * r + 1]));
            top = fmaxf(top, __shfl_xor_sync(kAll, top, 1));
            top = fmaxf(top, __shfl_xor_sync(kAll, top, 2));
            top = fmaxf(top * scale, largest[r]);
            const float factor = exp2f(largest[r] - top);
            largest[r] = top;
            float sum = 0;
#pragma unroll
            for (int n = 0; n < 8; ++n) {
                score[n][2 * r] = exp2f(fmaf(score[n][2 * r], scale, -top));
                score[n][2 * r + 1] = exp2f(fmaf(score[n][2 * r + 1], scale, -top));
                sum += score[n][2 * r] + score[n][2 * r + 1];
            }
            total[r] = total[r] * factor + sum;
#pragma unroll
            for (int n = 0; n < kDim / 8; ++n) {
                out[n][2 * r] *= factor;
                out[n][2 * r + 1] *= factor;
            }
        }
#pragma unroll
        for (int c = 0; c < 4; ++c) {
            const uint32_t pa[4] = {packed(score[2 * c][0], score[2 * c][1], T()),
                                    packed(score[2 * c][2], score[2 * c][3], T()),
                                    packed(score[2 * c + 1][0], score[2 * c + 1][1], T()),
                                    packed(score[2 * c + 1][2], score[2 * c + 1][3], T())};
#pragma unroll
            for (int n = 0; n < kDim / 16; ++n) {
                uint32_t b[4];
                const uint32_t at = static_cast<uint32_t>(__cvta_generic_to_shared(
                    vs + (16 * c + lane % 16) * kRow + 16 * n + lane / 16 * 8));
                asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                             : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
                             : "r"(at)
                             : "memory");
                multiply(out[2 * n], pa, b[0], b[1], T());
                multiply(out[2 * n + 1], pa, b[2], b[3], T());
            }
        }
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        float sum = total[r];
        sum += __shfl_xor_sync(kAll, sum, 1);
        sum += __shfl_xor_sync(kAll, sum, 2);
        const float inverse = 1.0f / sum;
#pragma unroll
        for (int n = 0; n < kDim / 8; ++n) {
            *reinterpret_cast<uint32_t*>(o + (row + 8 * r) * kDim + 8 * n + 2 * t) =
                packed(out[n][2 * r] * inverse, out[n][2 * r + 1] * inverse, T());
        }
    }
}

template <class T, int kDim>
void matrix_tiles(const Prefill<T>& d) {
    attend_matrix<T, kDim><<<dim3(d.length / 64, d.heads), 128>>>(d.q, d.k, d.v, d.o, d.length);
}
//: end

// --- decode: one query a head against its cache of keys and values, 128 wide

//: shared
constexpr int kHead = 128;

// Block (head, chunk of the cache); tiles of kTile keys and values go through shared memory.
template <int kTile>
__global__ void __launch_bounds__(128) decode_chunk(const __half* q, const __half* k, const __half* v,
                                                    const int* offset, float* partial, float2* moments,
                                                    int chunk) {
    extern __shared__ uint4 cached[];
    uint4* ks = cached;
    uint4* vs = cached + kTile * 16;
    __shared__ float2 of_half[8];
    const int head = blockIdx.x;
    const int begin = offset[head] + blockIdx.y * chunk;
    const int end = min(begin + chunk, offset[head + 1]);
    if (begin >= end) return;
    const int half_warp = threadIdx.x / 16, sub = threadIdx.x % 16;
    float query[8], out[8] = {};
    for (int c = 0; c < 8; ++c) query[c] = __half2float(q[head * kHead + 8 * sub + c]) * rsqrtf(float(kHead));
    float largest = -1e30f, total = 0;
    const uint4* from_k = reinterpret_cast<const uint4*>(k);
    const uint4* from_v = reinterpret_cast<const uint4*>(v);
    for (int first = begin; first < end; first += kTile) {
        const int keys = min(kTile, end - first);
        __syncthreads();
#pragma unroll 4
        for (int i = threadIdx.x; i < keys * 16; i += 128) {
            ks[i] = from_k[size_t(first) * 16 + i];
            vs[i] = from_v[size_t(first) * 16 + i];
        }
        __syncthreads();
        // Each half warp takes every eighth key, four at a time.
        for (int key = half_warp; key < kTile; key += 32) {
            float score[4];
            float top = largest;
#pragma unroll
            for (int u = 0; u < 4; ++u) {
                float dot = 0;
                if (key + 8 * u < keys) {
                    const uint4 raw = ks[(key + 8 * u) * 16 + sub];
                    const __half2* pairs = reinterpret_cast<const __half2*>(&raw);
#pragma unroll
                    for (int c = 0; c < 4; ++c) {
                        const float2 x = __half22float2(pairs[c]);
                        dot += query[2 * c] * x.x + query[2 * c + 1] * x.y;
                    }
                }
                for (int step = 8; step > 0; step /= 2) dot += __shfl_xor_sync(kAll, dot, step);
                score[u] = key + 8 * u < keys ? dot : -1e30f;
                top = fmaxf(top, score[u]);
            }
            const float factor = __expf(largest - top);
            largest = top;
            total *= factor;
#pragma unroll
            for (int c = 0; c < 8; ++c) out[c] *= factor;
#pragma unroll
            for (int u = 0; u < 4; ++u) {
                if (key + 8 * u < keys) {
                    const float power = __expf(score[u] - top);
                    total += power;
                    const uint4 raw = vs[(key + 8 * u) * 16 + sub];
                    const __half2* pairs = reinterpret_cast<const __half2*>(&raw);
#pragma unroll
                    for (int c = 0; c < 4; ++c) {
                        const float2 x = __half22float2(pairs[c]);
                        out[2 * c] += power * x.x;
                        out[2 * c + 1] += power * x.y;
                    }
                }
            }
        }
    }
    __syncthreads();
    float* merged = reinterpret_cast<float*>(cached);
    for (int c = 0; c < 8; ++c) merged[half_warp * kHead + 8 * sub + c] = out[c];
    if (sub == 0) of_half[half_warp] = make_float2(largest, total);
    __syncthreads();
    float top = -1e30f, sum = 0, value = 0;
    for (int h = 0; h < 8; ++h) top = fmaxf(top, of_half[h].x);
    for (int h = 0; h < 8; ++h) {
        const float factor = __expf(of_half[h].x - top);
        sum += factor * of_half[h].y;
        value += factor * merged[h * kHead + threadIdx.x];
    }
    const size_t part = size_t(blockIdx.x) * gridDim.y + blockIdx.y;
    partial[part * kHead + threadIdx.x] = value;
    if (threadIdx.x == 0) moments[part] = make_float2(top, sum);
}

__global__ void __launch_bounds__(128) combine_chunks(const float* partial, const float2* moments,
                                                      const int* offset, float* o, int chunk,
                                                      int most_chunks) {
    const int head = blockIdx.x;
    const int chunks = (offset[head + 1] - offset[head] + chunk - 1) / chunk;
    const size_t first = size_t(head) * most_chunks;
    float top = -1e30f, sum = 0, value = 0;
    for (int c = 0; c < chunks; ++c) top = fmaxf(top, moments[first + c].x);
    for (int c = 0; c < chunks; ++c) {
        const float2 m = moments[first + c];
        const float factor = __expf(m.x - top);
        sum += factor * m.y;
        value += factor * partial[(first + c) * kHead + threadIdx.x];
    }
    o[size_t(head) * kHead + threadIdx.x] = value / sum;
}

template <int kTile>
void launch_decode(const Decode& d, int chunk) {
    const int most_chunks = (d.longest + chunk - 1) / chunk, bytes = kTile * 2 * 2 * kHead;
    BOOK_CHECK(cudaFuncSetAttribute(decode_chunk<kTile>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    decode_chunk<kTile><<<dim3(d.heads, most_chunks), 128, bytes>>>(d.q, d.k, d.v, d.offset, d.partial,
                                                                    d.moments, chunk);
    combine_chunks<<<d.heads, 128>>>(d.partial, d.moments, d.offset, d.o, chunk, most_chunks);
}
//: end

//: variant whole_cache
void whole_cache(const Decode& d) {
    launch_decode<32>(d, d.longest);
}
//: end

//: variant chunks
void chunks(const Decode& d) {
    launch_decode<32>(d, 256);
}
//: end

//: variant chunks_long_tile
void chunks_long_tile(const Decode& d) {
    launch_decode<256>(d, 256);
}
//: end

// One block a query. Scores stay far below the overflow of exp, so that no maximum is subtracted.
template <class T, class R>
__global__ void reference_attend(const T* q, const T* k, const T* v, R* o, const int* offset, int length,
                                 int queries, int dim) {
    extern __shared__ float weight[];
    __shared__ double sum;
    __shared__ float result[256];
    const size_t first = offset ? offset[blockIdx.y] : size_t(blockIdx.y) * length;
    const int keys = offset ? offset[blockIdx.y + 1] - offset[blockIdx.y] : length;
    const size_t row = size_t(blockIdx.y) * queries + blockIdx.x;
    if (threadIdx.x == 0) sum = 0;
    result[threadIdx.x] = 0;
    __syncthreads();
    double mine = 0;
    for (int key = threadIdx.x; key < keys; key += blockDim.x) {
        float dot = 0;
        for (int c = 0; c < dim; ++c) {
            dot += static_cast<float>(q[row * dim + c]) * static_cast<float>(k[(first + key) * dim + c]);
        }
        weight[key] = expf(dot / sqrtf(float(dim)));
        mine += weight[key];
    }
    atomicAdd(&sum, mine);
    __syncthreads();
    const int column = threadIdx.x % dim, groups = blockDim.x / dim;
    float value = 0;
    for (int key = threadIdx.x / dim; key < keys; key += groups) {
        value += weight[key] * static_cast<float>(v[(first + key) * dim + column]);
    }
    atomicAdd(&result[column], value);
    __syncthreads();
    if (threadIdx.x < dim) o[row * dim + threadIdx.x] = book::from_double<R>(result[threadIdx.x] / sum);
}

template <class T>
Prefill<T> make_prefill(book::Problem& p, int heads, int length, int dim, int most_parts,
                        book::Tolerance allowed) {
    Prefill<T> d{heads, length};
    const size_t rows = size_t(heads) * length, count = rows * dim;
    d.q = p.uniform<T>(count, -4, 4);
    d.k = p.uniform<T>(count, -1, 1);
    d.v = p.uniform<T>(count, -1, 1);
    d.o = p.output<T>(count);
    d.partial = most_parts > 1 ? p.output<float>(count * most_parts) : nullptr;
    d.moments = most_parts > 1 ? p.output<float2>(rows * most_parts) : nullptr;
    const double flop = 4.0 * rows * length * dim;
    book::Needs needs{.dram_bytes = 4.0 * sizeof(T) * count, .special_op = 1.0 * rows * length};
    (sizeof(T) == 2 ? needs.tensor_flop : needs.fp32_flop) = flop;
    p.needs(needs);
    p.check<T>(d.o, count, allowed, [=](T* expected) {
        reference_attend<T, T><<<dim3(length, heads), 256, length * sizeof(float)>>>(
            d.q, d.k, d.v, expected, nullptr, length, length, dim);
    });
    return d;
}

Decode make_decode(book::Problem& p, const std::vector<int>& lengths) {
    std::vector<int> offset{0};
    for (const int length : lengths) offset.push_back(offset.back() + length);
    Decode d{int(lengths.size()), *std::max_element(lengths.begin(), lengths.end())};
    const size_t count = size_t(offset.back()) * kHead, most_parts = size_t(d.heads) * ((d.longest + 255) / 256);
    d.q = p.uniform<__half>(size_t(d.heads) * kHead, -4, 4);
    d.k = p.uniform<__half>(count, -1, 1);
    d.v = p.uniform<__half>(count, -1, 1);
    d.offset = p.upload(offset);
    d.o = p.output<float>(size_t(d.heads) * kHead);
    d.partial = p.output<float>(most_parts * kHead);
    d.moments = p.output<float2>(most_parts);
    p.needs({.dram_bytes = 4.0 * count + 6.0 * d.heads * kHead, .fp32_flop = 4.0 * count});
    p.check<float>(d.o, size_t(d.heads) * kHead, {1e-2, 2e-4}, [=](float* expected) {
        reference_attend<__half, float><<<dim3(1, d.heads), 256, d.longest * sizeof(float)>>>(
            d.q, d.k, d.v, expected, d.offset, 0, 1, kHead);
    });
    return d;
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("prefill_f16_64", [](book::Problem& p) {
        const auto d = make_prefill<__half>(p, 32, 2048, 64, 1, {0.02, 1.5e-3});
        p.variant("tiles", [=] { tiles<__half, 64>(d); });
        p.variant("matrix_tiles", [=] { matrix_tiles<__half, 64>(d); });
    });
    book.problem("prefill_bf16_128", [](book::Problem& p) {
        const auto d = make_prefill<__nv_bfloat16>(p, 22, 1536, 128, 1, {0.03, 3e-3});
        p.variant("tiles", [=] { tiles<__nv_bfloat16, 128>(d); });
        p.variant("matrix_tiles", [=] { matrix_tiles<__nv_bfloat16, 128>(d); });
    });
    book.problem("prefill_f32_960", [](book::Problem& p) {
        const auto d = make_prefill<float>(p, 9, 960, 128, 5, {1e-3, 1e-4});
        p.variant("tiles", [=] { tiles<float, 128>(d); });
        p.variant("tiles_split_keys", [=] { tiles_split_keys<float, 128>(d); });
    });
    book.problem("prefill_f32_1472", [](book::Problem& p) {
        const auto d = make_prefill<float>(p, 12, 1472, 128, 4, {1e-3, 1e-4});
        p.variant("tiles", [=] { tiles<float, 128>(d); });
        p.variant("tiles_split_keys", [=] { tiles_split_keys<float, 128>(d); });
    });
    book.problem("decode_f16", [](book::Problem& p) {
        const auto d = make_decode(p, std::vector<int>(32, 8192));
        p.variant("whole_cache", [=] { whole_cache(d); });
        p.variant("chunks", [=] { chunks(d); });
        p.variant("chunks_long_tile", [=] { chunks_long_tile(d); });
    });
    book.problem("decode_mixed", [](book::Problem& p) {
        // Sixteen long conversations among short ones.
        std::vector<int> lengths(272);
        for (int i = 0; i < 272; ++i) {
            lengths[i] = i % 17 == 5 ? 8192 : 256 + int(1024 * book::uniform01(p.seed(), 5, i));
        }
        const auto d = make_decode(p, lengths);
        p.variant("whole_cache", [=] { whole_cache(d); });
        p.variant("chunks", [=] { chunks(d); });
    });
    return book.finish();
}
