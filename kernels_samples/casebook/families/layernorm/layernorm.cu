// Layer normalisation of rows: y = (x - mean) / sqrt(variance + eps) * gamma + beta.
#include "../../harness/book.h"

template <class T>
struct Rows {
    int rows, hidden;
    const T* x;
    const T* residual;  // added to x before the norm, where there is one
    const T* gamma;
    const T* beta;
    T* sum;  // scratch: x + residual
    T* y;
    float* partial;  // scratch: two values a piece of a row
};

//: shared
constexpr float kEps = 1e-5f;
constexpr unsigned kAll = 0xFFFFFFFFu;

__device__ float warp_sum(float value) {
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(kAll, value, step);
    return value;
}

// Sum over the block by warps, known to all threads.
__device__ float block_sum(float value) {
    __shared__ float of_warp[32];
    value = warp_sum(value);
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
    __syncthreads();
    value = threadIdx.x % 32 < blockDim.x / 32 ? of_warp[threadIdx.x % 32] : 0.0f;
    value = warp_sum(value);
    __syncthreads();
    return value;
}

// Sum over the block by halves, known to all threads.
template <int kThreads>
__device__ float halving_sum(float value) {
    __shared__ float scratch[kThreads];
    scratch[threadIdx.x] = value;
    __syncthreads();
    for (int half = kThreads / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) scratch[threadIdx.x] += scratch[threadIdx.x + half];
        __syncthreads();
    }
    const float total = scratch[0];
    __syncthreads();
    return total;
}

union Eight {
    uint4 vector;
    __half2 pairs[4];
};
//: end

// --- short rows of float

//: variant block_row
__global__ void __launch_bounds__(512) norm_block_row(const float* x, const float* gamma,
                                                      const float* beta, float* y) {
    constexpr int kHidden = 512;
    const size_t i = size_t(blockIdx.x) * kHidden + threadIdx.x;
    const float value = x[i];
    const float mean = halving_sum<512>(value) / kHidden;
    const float centred = value - mean;
    const float variance = halving_sum<512>(centred * centred) / kHidden;
    y[i] = centred * rsqrtf(variance + kEps) * gamma[threadIdx.x] + beta[threadIdx.x];
}

void block_row(const Rows<float>& d) {
    norm_block_row<<<d.rows, 512>>>(d.x, d.gamma, d.beta, d.y);
}
//: end

//: variant block_row_pairs
__global__ void __launch_bounds__(256) norm_block_row_pairs(const float2* x, const float2* gamma,
                                                            const float2* beta, float2* y) {
    constexpr int kHidden = 512;
    const size_t i = size_t(blockIdx.x) * (kHidden / 2) + threadIdx.x;
    const float2 value = x[i];
    const float mean = halving_sum<256>(value.x + value.y) / kHidden;
    const float2 centred = make_float2(value.x - mean, value.y - mean);
    const float variance =
        halving_sum<256>(centred.x * centred.x + centred.y * centred.y) / kHidden;
    const float inverse = rsqrtf(variance + kEps);
    const float2 g = gamma[threadIdx.x], b = beta[threadIdx.x];
    y[i] = make_float2(centred.x * inverse * g.x + b.x, centred.y * inverse * g.y + b.y);
}

void block_row_pairs(const Rows<float>& d) {
    norm_block_row_pairs<<<d.rows, 256>>>(
        reinterpret_cast<const float2*>(d.x), reinterpret_cast<const float2*>(d.gamma),
        reinterpret_cast<const float2*>(d.beta), reinterpret_cast<float2*>(d.y));
}
//: end

//: variant warp_row
__global__ void __launch_bounds__(256) norm_warp_row(const float* x, const float* gamma,
                                                     const float* beta, float* y) {
    constexpr int kHidden = 512, kEach = kHidden / 32;
    const int lane = threadIdx.x % 32;
    const size_t first = (size_t(blockIdx.x) * 8 + threadIdx.x / 32) * kHidden + lane;
    float values[kEach];
    float total = 0;
#pragma unroll
    for (int k = 0; k < kEach; ++k) values[k] = x[first + 32 * k];
#pragma unroll
    for (int k = 0; k < kEach; ++k) total += values[k];
    const float mean = warp_sum(total) / kHidden;
    float squares = 0;
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
        values[k] -= mean;
        squares += values[k] * values[k];
    }
    const float inverse = rsqrtf(warp_sum(squares) / kHidden + kEps);
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
        y[first + 32 * k] = values[k] * inverse * gamma[lane + 32 * k] + beta[lane + 32 * k];
    }
}

void warp_row(const Rows<float>& d) {
    norm_warp_row<<<d.rows / 8, 256>>>(d.x, d.gamma, d.beta, d.y);
}
//: end

// --- a few very long rows of float

//: variant one_block_a_row
__global__ void __launch_bounds__(1024) norm_one_block(const float4* x, const float4* gamma,
                                                       const float4* beta, float4* y, int quads) {
    const size_t first = size_t(blockIdx.x) * quads;
    float total = 0, squares = 0;
    for (int i = threadIdx.x; i < quads; i += blockDim.x) {
        const float4 v = x[first + i];
        total += v.x + v.y + v.z + v.w;
        squares += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
    }
    const float mean = block_sum(total) / (4.0f * quads);
    const float inverse = rsqrtf(block_sum(squares) / (4.0f * quads) - mean * mean + kEps);
    for (int i = threadIdx.x; i < quads; i += blockDim.x) {
        const float4 v = x[first + i], g = gamma[i], b = beta[i];
        y[first + i] = make_float4((v.x - mean) * inverse * g.x + b.x, (v.y - mean) * inverse * g.y + b.y,
                                   (v.z - mean) * inverse * g.z + b.z, (v.w - mean) * inverse * g.w + b.w);
    }
}

void one_block_a_row(const Rows<float>& d) {
    norm_one_block<<<d.rows, 1024>>>(
        reinterpret_cast<const float4*>(d.x), reinterpret_cast<const float4*>(d.gamma),
        reinterpret_cast<const float4*>(d.beta), reinterpret_cast<float4*>(d.y), d.hidden / 4);
}
//: end

//: variant pieces_of_rows
constexpr int kPieces = 64;

__global__ void __launch_bounds__(256) sums_of_pieces(const float4* x, float* partial, int quads) {
    const int piece = quads / kPieces;
    const size_t first = size_t(blockIdx.y) * quads + size_t(blockIdx.x) * piece;
    float total = 0, squares = 0;
    for (int i = threadIdx.x; i < piece; i += blockDim.x) {
        const float4 v = x[first + i];
        total += v.x + v.y + v.z + v.w;
        squares += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
    }
    total = block_sum(total);
    squares = block_sum(squares);
    if (threadIdx.x == 0) {
        partial[2 * (blockIdx.y * kPieces + blockIdx.x)] = total;
        partial[2 * (blockIdx.y * kPieces + blockIdx.x) + 1] = squares;
    }
}

__global__ void __launch_bounds__(256) norm_pieces(const float4* x, const float4* gamma,
                                                   const float4* beta, const float* partial, float4* y,
                                                   int quads) {
    const float* mine = partial + 2 * blockIdx.y * kPieces;
    const float mean =
        block_sum(threadIdx.x < kPieces ? mine[2 * threadIdx.x] : 0.0f) / (4.0f * quads);
    const float square =
        block_sum(threadIdx.x < kPieces ? mine[2 * threadIdx.x + 1] : 0.0f) / (4.0f * quads);
    const float inverse = rsqrtf(square - mean * mean + kEps);
    const int piece = quads / kPieces, start = blockIdx.x * piece;
    const size_t row = size_t(blockIdx.y) * quads;
    for (int i = start + threadIdx.x; i < start + piece; i += blockDim.x) {
        const float4 v = x[row + i], g = gamma[i], b = beta[i];
        y[row + i] = make_float4((v.x - mean) * inverse * g.x + b.x, (v.y - mean) * inverse * g.y + b.y,
                                 (v.z - mean) * inverse * g.z + b.z, (v.w - mean) * inverse * g.w + b.w);
    }
}

void pieces_of_rows(const Rows<float>& d) {
    const dim3 grid(kPieces, d.rows);
    const auto* x = reinterpret_cast<const float4*>(d.x);
    sums_of_pieces<<<grid, 256>>>(x, d.partial, d.hidden / 4);
    norm_pieces<<<grid, 256>>>(x, reinterpret_cast<const float4*>(d.gamma),
                               reinterpret_cast<const float4*>(d.beta), d.partial,
                               reinterpret_cast<float4*>(d.y), d.hidden / 4);
}
//: end

// --- residual and norm of half rows, 24 elements a thread

//: shared
constexpr int kModel = 6144, kModelThreads = 256, kGroups = kModel / 8 / kModelThreads;

__global__ void __launch_bounds__(256) add_rows(const uint4* a, const uint4* b, uint4* sum) {
    const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    Eight u, v;
    u.vector = a[i];
    v.vector = b[i];
#pragma unroll
    for (int k = 0; k < 4; ++k) u.pairs[k] = __hadd2(u.pairs[k], v.pairs[k]);
    sum[i] = u.vector;
}

__device__ void load_row(const uint4* x, float* values) {
#pragma unroll
    for (int j = 0; j < kGroups; ++j) {
        Eight e;
        e.vector = x[j * kModelThreads + threadIdx.x];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            const float2 v = __half22float2(e.pairs[k]);
            values[8 * j + 2 * k] = v.x;
            values[8 * j + 2 * k + 1] = v.y;
        }
    }
}

__device__ void load_row_sum(const uint4* x, const uint4* residual, float* values) {
#pragma unroll
    for (int j = 0; j < kGroups; ++j) {
        Eight a, b;
        a.vector = x[j * kModelThreads + threadIdx.x];
        b.vector = residual[j * kModelThreads + threadIdx.x];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            const float2 u = __half22float2(a.pairs[k]), v = __half22float2(b.pairs[k]);
            values[8 * j + 2 * k] = u.x + v.x;
            values[8 * j + 2 * k + 1] = u.y + v.y;
        }
    }
}

__device__ float2 row_moments(const float* values) {
    float total = 0, squares = 0;
#pragma unroll
    for (int k = 0; k < 8 * kGroups; ++k) total += values[k];
    const float mean = block_sum(total) / kModel;
#pragma unroll
    for (int k = 0; k < 8 * kGroups; ++k) squares += (values[k] - mean) * (values[k] - mean);
    return make_float2(mean, block_sum(squares) / kModel);
}

template <class F>
__device__ void store_row(const float* values, const uint4* gamma, const uint4* beta, uint4* y, F norm) {
#pragma unroll
    for (int j = 0; j < kGroups; ++j) {
        const int at = j * kModelThreads + threadIdx.x;
        Eight g, b, out;
        g.vector = gamma[at];
        b.vector = beta[at];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            const float2 s = __half22float2(g.pairs[k]), t = __half22float2(b.pairs[k]);
            out.pairs[k] = __floats2half2_rn(norm(values[8 * j + 2 * k], s.x, t.x),
                                             norm(values[8 * j + 2 * k + 1], s.y, t.y));
        }
        y[at] = out.vector;
    }
}

template <class K>
void launch_model(K kernel, const Rows<__half>& d, const __half* x) {
    kernel<<<d.rows, kModelThreads>>>(
        reinterpret_cast<const uint4*>(x), reinterpret_cast<const uint4*>(d.residual),
        reinterpret_cast<const uint4*>(d.gamma), reinterpret_cast<const uint4*>(d.beta),
        reinterpret_cast<uint4*>(d.y));
}

void launch_add(const Rows<__half>& d) {
    add_rows<<<unsigned(size_t(d.rows) * kModel / 8 / 256), 256>>>(
        reinterpret_cast<const uint4*>(d.x), reinterpret_cast<const uint4*>(d.residual),
        reinterpret_cast<uint4*>(d.sum));
}
//: end

//: variant add_then_formula
__global__ void __launch_bounds__(256) norm_formula(const uint4* x, const uint4*, const uint4* gamma,
                                                    const uint4* beta, uint4* y) {
    const size_t first = size_t(blockIdx.x) * (kModel / 8);
    float values[8 * kGroups];
    load_row(x + first, values);
    const float2 moments = row_moments(values);
    const float mean = moments.x, variance = moments.y;
    store_row(values, gamma, beta, y + first, [=](float v, float g, float b) -> float {
        return (v - mean) / sqrt(variance + 1e-5) * g + b;
    });
}

void add_then_formula(const Rows<__half>& d) {
    launch_add(d);
    launch_model(norm_formula, d, d.sum);
}
//: end

//: variant add_then_scale
__global__ void __launch_bounds__(256) norm_scale(const uint4* x, const uint4*, const uint4* gamma,
                                                  const uint4* beta, uint4* y) {
    const size_t first = size_t(blockIdx.x) * (kModel / 8);
    float values[8 * kGroups];
    load_row(x + first, values);
    const float2 moments = row_moments(values);
    const float mean = moments.x, inverse = rsqrtf(moments.y + 1e-5f);
    store_row(values, gamma, beta, y + first, [=](float v, float g, float b) -> float {
        return (v - mean) * inverse * g + b;
    });
}

void add_then_scale(const Rows<__half>& d) {
    launch_add(d);
    launch_model(norm_scale, d, d.sum);
}
//: end

//: variant fused_formula
__global__ void __launch_bounds__(256) add_norm_formula(const uint4* x, const uint4* residual,
                                                        const uint4* gamma, const uint4* beta, uint4* y) {
    const size_t first = size_t(blockIdx.x) * (kModel / 8);
    float values[8 * kGroups];
    load_row_sum(x + first, residual + first, values);
    const float2 moments = row_moments(values);
    const float mean = moments.x, variance = moments.y;
    store_row(values, gamma, beta, y + first, [=](float v, float g, float b) -> float {
        return (v - mean) / sqrt(variance + 1e-5) * g + b;
    });
}

void fused_formula(const Rows<__half>& d) {
    launch_model(add_norm_formula, d, d.x);
}
//: end

//: variant fused_scale
__global__ void __launch_bounds__(256) add_norm_scale(const uint4* x, const uint4* residual,
                                                      const uint4* gamma, const uint4* beta, uint4* y) {
    const size_t first = size_t(blockIdx.x) * (kModel / 8);
    float values[8 * kGroups];
    load_row_sum(x + first, residual + first, values);
    const float2 moments = row_moments(values);
    const float mean = moments.x, inverse = rsqrtf(moments.y + 1e-5f);
    store_row(values, gamma, beta, y + first, [=](float v, float g, float b) -> float {
        return (v - mean) * inverse * g + b;
    });
}

void fused_scale(const Rows<__half>& d) {
    launch_model(add_norm_scale, d, d.x);
}
//: end

// --- wide half rows that wait in shared memory between the passes

//: shared
struct StagedFloat {  // two planes of float4
    static constexpr int kBytes = 4;
    float4* plane;
    int groups;
    __device__ void put(int at, const Eight& e) const {
        const float2 a = __half22float2(e.pairs[0]), b = __half22float2(e.pairs[1]);
        const float2 c = __half22float2(e.pairs[2]), d = __half22float2(e.pairs[3]);
        plane[at] = make_float4(a.x, a.y, b.x, b.y);
        plane[groups + at] = make_float4(c.x, c.y, d.x, d.y);
    }
    __device__ void get(int at, float* v) const {
        const float4 a = plane[at], b = plane[groups + at];
        v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w;
        v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
    }
};

struct StagedHalf {
    static constexpr int kBytes = 2;
    uint4* row;
    int groups;
    __device__ void put(int at, const Eight& e) const { row[at] = e.vector; }
    __device__ void get(int at, float* v) const {
        Eight e;
        e.vector = row[at];
        for (int k = 0; k < 4; ++k) {
            const float2 pair = __half22float2(e.pairs[k]);
            v[2 * k] = pair.x, v[2 * k + 1] = pair.y;
        }
    }
};

template <class Stage, class Element>
__global__ void __launch_bounds__(128) norm_staged(const uint4* __restrict__ x,
                                                   const uint4* __restrict__ gamma,
                                                   const uint4* __restrict__ beta,
                                                   uint4* __restrict__ y, int groups) {
    extern __shared__ uint4 memory[];
    const Stage stage{reinterpret_cast<Element*>(memory), groups};
    const size_t first = size_t(blockIdx.x) * groups;
    float total = 0, squares = 0;
    for (int i = threadIdx.x; i < groups; i += 128) {
        Eight e;
        e.vector = x[first + i];
        stage.put(i, e);
        for (int k = 0; k < 4; ++k) {
            const float2 pair = __half22float2(e.pairs[k]);
            total += pair.x + pair.y;
        }
    }
    const float mean = block_sum(total) / (8.0f * groups);
    for (int i = threadIdx.x; i < groups; i += 128) {
        float v[8];
        stage.get(i, v);
        for (int k = 0; k < 8; ++k) squares += (v[k] - mean) * (v[k] - mean);
    }
    const float inverse = rsqrtf(block_sum(squares) / (8.0f * groups) + kEps);
    for (int i = threadIdx.x; i < groups; i += 128) {
        float v[8];
        stage.get(i, v);
        Eight g, b, out;
        g.vector = gamma[i];
        b.vector = beta[i];
        for (int k = 0; k < 4; ++k) {
            const float2 s = __half22float2(g.pairs[k]), t = __half22float2(b.pairs[k]);
            out.pairs[k] = __floats2half2_rn((v[2 * k] - mean) * inverse * s.x + t.x,
                                             (v[2 * k + 1] - mean) * inverse * s.y + t.y);
        }
        y[first + i] = out.vector;
    }
}

template <class Stage, class Element>
void launch_staged(const Rows<__half>& d) {
    const int bytes = d.hidden * Stage::kBytes;
    BOOK_CHECK(cudaFuncSetAttribute(norm_staged<Stage, Element>,
                                    cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    norm_staged<Stage, Element><<<d.rows, 128, bytes>>>(
        reinterpret_cast<const uint4*>(d.x), reinterpret_cast<const uint4*>(d.gamma),
        reinterpret_cast<const uint4*>(d.beta), reinterpret_cast<uint4*>(d.y), d.hidden / 8);
}
//: end

//: variant staged_float
void staged_float(const Rows<__half>& d) {
    launch_staged<StagedFloat, float4>(d);
}
//: end

//: variant staged_half
void staged_half(const Rows<__half>& d) {
    launch_staged<StagedHalf, uint4>(d);
}
//: end

// --- rows of 16384 floats, 32 elements a thread

//: shared
template <class F, class R>
__device__ void norm_in_registers(const float4* x, const float4* gamma, const float4* beta, float4* y,
                                  F sum_over_block, R inverse_root) {
    constexpr int kHidden = 16384, kEach = kHidden / 4 / 512;
    const size_t first = size_t(blockIdx.x) * (kHidden / 4) + threadIdx.x;
    float4 v[kEach];
    float total = 0, squares = 0;
#pragma unroll
    for (int k = 0; k < kEach; ++k) v[k] = x[first + 512 * k];
#pragma unroll
    for (int k = 0; k < kEach; ++k) total += v[k].x + v[k].y + v[k].z + v[k].w;
    const float mean = sum_over_block(total) / kHidden;
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
        v[k].x -= mean, v[k].y -= mean, v[k].z -= mean, v[k].w -= mean;
        squares += v[k].x * v[k].x + v[k].y * v[k].y + v[k].z * v[k].z + v[k].w * v[k].w;
    }
    const float inverse = inverse_root(sum_over_block(squares) / kHidden);
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
        const float4 g = gamma[threadIdx.x + 512 * k], b = beta[threadIdx.x + 512 * k];
        y[first + 512 * k] = make_float4(v[k].x * inverse * g.x + b.x, v[k].y * inverse * g.y + b.y,
                                         v[k].z * inverse * g.z + b.z, v[k].w * inverse * g.w + b.w);
    }
}
//: end

//: variant sum_by_halves
__global__ void __launch_bounds__(512) norm_by_halves(const float4* x, const float4* gamma,
                                                      const float4* beta, float4* y) {
    norm_in_registers(
        x, gamma, beta, y, [](float value) { return halving_sum<512>(value); },
        [](float variance) { return rsqrtf(variance + kEps); });
}

void sum_by_halves(const Rows<float>& d) {
    norm_by_halves<<<d.rows, 512>>>(
        reinterpret_cast<const float4*>(d.x), reinterpret_cast<const float4*>(d.gamma),
        reinterpret_cast<const float4*>(d.beta), reinterpret_cast<float4*>(d.y));
}
//: end

//: variant root_of_sum
__global__ void __launch_bounds__(512) norm_root(const float4* x, const float4* gamma, const float4* beta,
                                                 float4* y) {
    norm_in_registers(
        x, gamma, beta, y, [](float value) { return block_sum(value); },
        [](float variance) -> float { return 1.0 / sqrt(variance + 1e-5); });
}

void root_of_sum(const Rows<float>& d) {
    norm_root<<<d.rows, 512>>>(
        reinterpret_cast<const float4*>(d.x), reinterpret_cast<const float4*>(d.gamma),
        reinterpret_cast<const float4*>(d.beta), reinterpret_cast<float4*>(d.y));
}
//: end

//: variant sum_by_warps
__global__ void __launch_bounds__(512) norm_by_warps(const float4* x, const float4* gamma,
                                                     const float4* beta, float4* y) {
    norm_in_registers(
        x, gamma, beta, y, [](float value) { return block_sum(value); },
        [](float variance) { return rsqrtf(variance + kEps); });
}

void sum_by_warps(const Rows<float>& d) {
    norm_by_warps<<<d.rows, 512>>>(
        reinterpret_cast<const float4*>(d.x), reinterpret_cast<const float4*>(d.gamma),
        reinterpret_cast<const float4*>(d.beta), reinterpret_cast<float4*>(d.y));
}
//: end

template <class T>
__global__ void reference_norm(Rows<T> d, T* expected) {
    __shared__ double sums[2];
    if (threadIdx.x < 2) sums[threadIdx.x] = 0;
    __syncthreads();
    const size_t row = size_t(blockIdx.x) * d.hidden;
    double total = 0, squares = 0;
    for (int i = threadIdx.x; i < d.hidden; i += blockDim.x) {
        double v = book::as_double(d.x[row + i]);
        if (d.residual) v += book::as_double(d.residual[row + i]);
        total += v;
        squares += v * v;
    }
    atomicAdd(&sums[0], total);
    atomicAdd(&sums[1], squares);
    __syncthreads();
    const double mean = sums[0] / d.hidden;
    const double inverse = 1.0 / sqrt(sums[1] / d.hidden - mean * mean + 1e-5);
    for (int i = threadIdx.x; i < d.hidden; i += blockDim.x) {
        double v = book::as_double(d.x[row + i]);
        if (d.residual) v += book::as_double(d.residual[row + i]);
        expected[row + i] = book::from_double<T>((v - mean) * inverse * book::as_double(d.gamma[i]) +
                                                 book::as_double(d.beta[i]));
    }
}

template <class T>
Rows<T> make_rows(book::Problem& p, int rows, int hidden, bool with_residual, double absolute) {
    Rows<T> d{rows, hidden};
    const size_t count = size_t(rows) * hidden;
    d.x = p.uniform<T>(count, -1, 2);
    d.residual = with_residual ? p.uniform<T>(count, -1, 1) : nullptr;
    d.gamma = p.uniform<T>(hidden, 0.5, 1.5);
    d.beta = p.uniform<T>(hidden, -1, 1);
    d.y = p.output<T>(count);
    d.sum = with_residual ? p.output<T>(count) : nullptr;
    d.partial = p.output<float>(2 * 64 * size_t(rows));
    p.needs({.dram_bytes = sizeof(T) * ((with_residual ? 3.0 : 2.0) * count + 2.0 * hidden),
             .fp32_flop = 8.0 * count});
    p.check<T>(d.y, count, {absolute, absolute}, [=](T* expected) {
        reference_norm<T><<<rows, 512>>>(d, expected);
    });
    return d;
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("f32_512", [](book::Problem& p) {
        const auto d = make_rows<float>(p, 49152, 512, false, 1e-4);
        p.variant("block_row", [=] { block_row(d); });
        p.variant("block_row_pairs", [=] { block_row_pairs(d); });
        p.variant("warp_row", [=] { warp_row(d); });
    });
    book.problem("f32_few_long", [](book::Problem& p) {
        const auto d = make_rows<float>(p, 16, 3 << 19, false, 1e-3);
        p.variant("one_block_a_row", [=] { one_block_a_row(d); });
        p.variant("pieces_of_rows", [=] { pieces_of_rows(d); });
    });
    book.problem("f16_residual", [](book::Problem& p) {
        const auto d = make_rows<__half>(p, 5280, kModel, true, 8e-3);
        p.variant("add_then_formula", [=] { add_then_formula(d); });
        p.variant("add_then_scale", [=] { add_then_scale(d); });
        p.variant("fused_formula", [=] { fused_formula(d); });
        p.variant("fused_scale", [=] { fused_scale(d); });
    });
    book.problem("f16_49152", [](book::Problem& p) {
        const auto d = make_rows<__half>(p, 1056, 49152, false, 4e-3);
        p.variant("staged_float", [=] { staged_float(d); });
        p.variant("staged_half", [=] { staged_half(d); });
    });
    book.problem("f32_16384", [](book::Problem& p) {
        const auto d = make_rows<float>(p, 1584, 16384, false, 1e-4);
        p.variant("sum_by_halves", [=] { sum_by_halves(d); });
        p.variant("root_of_sum", [=] { root_of_sum(d); });
        p.variant("sum_by_warps", [=] { sum_by_warps(d); });
    });
    return book.finish();
}
