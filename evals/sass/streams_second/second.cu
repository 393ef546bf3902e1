// Kernels with known memory traffic (groups A and B) and known integer work (groups C and D).
// kernels.tsv says what each one is expected to be; README.md says how to build and run.
//
// Global loads of groups A and B are written LD(array[index]). It is the plain load, except with
// -DTRACE, where it also records which 4-byte words were loaded.
#include <cooperative_groups.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cfloat>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#define CHECK(call)                                                                \
    do {                                                                           \
        cudaError_t status = (call);                                               \
        if (status != cudaSuccess) {                                               \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__,                \
                         cudaGetErrorString(status));                              \
            std::exit(1);                                                          \
        }                                                                          \
    } while (0)

// ---------------------------------------------------------------------------------------------
// Trace of loads

#ifdef TRACE
#define LD(element) traced_load(&(element))

constexpr int kMaxArrays = 8;
constexpr int kCounters = 4096;

struct TracedArray {
    const char* base;
    size_t bytes;
    unsigned* bits;                 // one bit per 4-byte word
    unsigned long long* requested;  // kCounters partial sums of bytes
};

__device__ TracedArray traced_arrays[kMaxArrays];
__device__ int traced_count;
__device__ unsigned long long untraced_loads;

template <typename T>
__device__ T traced_load(const T* address) {
    static_assert(sizeof(T) % 4 == 0, "the bitmap has one bit per 4-byte word");
    for (int a = 0; a < traced_count; ++a) {
        const TracedArray& array = traced_arrays[a];
        size_t offset = reinterpret_cast<const char*>(address) - array.base;
        if (offset >= array.bytes) continue;
        for (size_t word = offset / 4; word < (offset + sizeof(T)) / 4; ++word) {
            unsigned bit = 1u << (word % 32);
            if (!(array.bits[word / 32] & bit)) atomicOr(&array.bits[word / 32], bit);
        }
        // One atomic per group of lanes that load from the same array.
        unsigned lanes = __match_any_sync(__activemask(), a);
        unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
        if (thread % 32 == __ffs(lanes) - 1) {
            unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
            atomicAdd(&array.requested[(block * 32 + thread / 32) % kCounters],
                      __popc(lanes) * sizeof(T));
        }
        return *address;
    }
    atomicAdd(&untraced_loads, 1ull);
    return *address;
}
#else
#define LD(element) (element)
#endif

// ---------------------------------------------------------------------------------------------
// Shared helpers

__device__ __forceinline__ size_t thread_index() {
    return static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ __forceinline__ size_t thread_total() {
    return static_cast<size_t>(gridDim.x) * blockDim.x;
}

__device__ __forceinline__ float warp_add(float value) {
    for (int offset = 16; offset > 0; offset /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, offset);
    return value;
}

__device__ __forceinline__ float warp_max(float value) {
    for (int offset = 16; offset > 0; offset /= 2)
        value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, offset));
    return value;
}

// Sum over a one-dimensional block; every thread gets it.
__device__ float block_add(float value) {
    __shared__ float partial[32];
    value = warp_add(value);
    __syncthreads();
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
    __syncthreads();
    return warp_add(threadIdx.x % 32 < blockDim.x / 32 ? partial[threadIdx.x % 32] : 0.0f);
}

__device__ __forceinline__ float square(float value) { return value * value; }

// ---------------------------------------------------------------------------------------------
// Group A

// One block per signal. Each output filter has kWidth taps; the result is its energy.
template <int kWidth>
__global__ void signal_bank(const float* __restrict__ signals, const float* __restrict__ bank,
                            float* __restrict__ energy, int length, int outputs) {
    const float* signal = signals + static_cast<size_t>(blockIdx.x) * length;
    for (int o = 0; o < outputs; ++o) {
        float taps[kWidth];
        for (int k = 0; k < kWidth; ++k) taps[k] = LD(bank[o * kWidth + k]) - 0.5f;
        float sum = 0.0f;
        for (int i = threadIdx.x; i < length - kWidth + 1; i += blockDim.x) {
            float value = 0.0f;
#pragma unroll
            for (int k = 0; k < kWidth; ++k) value += taps[k] * LD(signal[i + k]);
            sum += square(fmaxf(value, 0.0f));
        }
        sum = block_add(sum);
        if (threadIdx.x == 0) energy[o * gridDim.x + blockIdx.x] = sum;
    }
}

__device__ __forceinline__ float growth_factor(float rate) { return 1.0f + 1e-4f * (rate - 0.5f); }

// Inclusive product over the threads of the block.
__device__ float block_scan_product(float value, float* warp_products) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int offset = 1; offset < 32; offset *= 2) {
        float before = __shfl_up_sync(0xffffffffu, value, offset);
        if (lane >= offset) value *= before;
    }
    __syncthreads();
    if (lane == 31) warp_products[warp] = value;
    __syncthreads();
    for (int w = 0; w < warp; ++w) value *= warp_products[w];
    return value;
}

// Prefix products of a series. Each block owns one segment, reduces it, waits for the blocks
// before it and then scans it. All blocks must be resident.
__global__ void __launch_bounds__(512, 2) running_product(const float4* rates, float4* index,
                                                          float* totals, unsigned* ready,
                                                          int vectors) {
    __shared__ float warp_products[16];
    __shared__ float carry;
    const float4* own = rates + static_cast<size_t>(blockIdx.x) * vectors;
    float4* out = index + static_cast<size_t>(blockIdx.x) * vectors;
    float product = 1.0f;
    for (int i = threadIdx.x; i < vectors; i += blockDim.x) {
        float4 r = LD(own[i]);
        product *= growth_factor(r.x) * growth_factor(r.y) * growth_factor(r.z) *
                   growth_factor(r.w);
    }
    product = block_scan_product(product, warp_products);
    if (threadIdx.x == blockDim.x - 1) {
        while (atomicAdd(ready, 0u) < blockIdx.x) __nanosleep(40);
        __threadfence();
        carry = blockIdx.x ? atomicAdd(&totals[blockIdx.x - 1], 0.0f) : 1.0f;
        atomicExch(&totals[blockIdx.x], carry * product);
        __threadfence();
        atomicAdd(ready, 1u);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < vectors; i += blockDim.x) {
        float4 r = LD(own[i]);
        float x = growth_factor(r.x), y = x * growth_factor(r.y), z = y * growth_factor(r.z);
        float w = z * growth_factor(r.w);
        float through = carry * block_scan_product(w, warp_products);
        float before = through / w;
        out[i] = make_float4(before * x, before * y, before * z, through);
        __syncthreads();
        if (threadIdx.x == blockDim.x - 1) carry = through;
        __syncthreads();
    }
}

constexpr int kGroup = 16;

// gram = transpose(m) * m. blockIdx.y numbers the pairs of groups of 16 columns.
__global__ void gram_pairs(const float* m, float* gram, int rows, int cols, int rows_per_block) {
    int pair = blockIdx.y, first_group = 0, groups = cols / kGroup;
    while (pair >= groups - first_group) pair -= groups - first_group++;
    int i = first_group * kGroup + threadIdx.y;
    int j = (first_group + pair) * kGroup + threadIdx.x;
    int begin = blockIdx.x * rows_per_block, end = min(rows, begin + rows_per_block);
    float sum = 0.0f;
    for (int r = begin; r < end; ++r) {
        const float* row = m + static_cast<size_t>(r) * cols;
        sum += LD(row[i]) * LD(row[j]);
    }
    atomicAdd(&gram[i * cols + j], sum);
}

// Gauss-Seidel with two colours, in place. One square plate per block.
__global__ void relax_plates(float* plates, int side, int sweeps) {
    float* plate = plates + static_cast<size_t>(blockIdx.x) * side * side;
    for (int half = 0; half < 2 * sweeps; ++half) {
        for (int y = 1 + threadIdx.y; y < side - 1; y += blockDim.y)
            for (int x = 1 + (y + half) % 2 + 2 * threadIdx.x; x < side - 1; x += 2 * blockDim.x) {
                int at = y * side + x;
                plate[at] = 0.25f * (LD(plate[at - 1]) + LD(plate[at + 1]) +
                                     LD(plate[at - side]) + LD(plate[at + side]));
            }
        __syncthreads();
    }
}

// Error of each fold's model over the samples outside the fold.
__global__ void fold_errors(const float4* __restrict__ features, const float* __restrict__ target,
                            const float4* __restrict__ models, float* __restrict__ errors,
                            long long n, int folds) {
    for (int f = 0; f < folds; ++f) {
        float4 model = LD(models[f]);
        long long begin = n * f / folds, end = n * (f + 1) / folds;
        float sum = 0.0f;
        for (long long i = thread_index(); i < n; i += thread_total()) {
            if (i >= begin && i < end) continue;
            float4 x = LD(features[i]);
            sum += square(x.x * model.x + x.y * model.y + x.z * model.z + x.w * model.w -
                          LD(target[i]));
        }
        sum = block_add(sum);
        if (threadIdx.x == 0) errors[f * gridDim.x + blockIdx.x] = sum;
    }
}

// Peak and energy of long overlapping windows.
__global__ void window_levels(const float2* signal, float* peaks, float* energies,
                              long long window, long long step, int windows) {
    for (int w = 0; w < windows; ++w) {
        const float2* start = signal + w * step;
        float peak = 0.0f, energy = 0.0f;
        for (long long i = thread_index(); i < window; i += thread_total()) {
            float2 sample = LD(start[i]);
            float power = square(sample.x) + square(sample.y);
            peak = fmaxf(peak, power);
            energy += power;
        }
        energy = block_add(energy);
        peak = warp_max(peak);
        if (threadIdx.x % 32 == 0)
            atomicMax(reinterpret_cast<unsigned*>(&peaks[w]), __float_as_uint(peak));
        if (threadIdx.x == 0) energies[w * gridDim.x + blockIdx.x] = energy;
    }
}

// Number of samples above each level. Each block owns per_block vectors.
template <int kLevels>
__global__ void level_counts(const ushort4* __restrict__ samples,
                             const unsigned* __restrict__ levels, unsigned* __restrict__ counts,
                             size_t per_block) {
    const ushort4* own = samples + blockIdx.x * per_block;
#pragma unroll
    for (int l = 0; l < kLevels; ++l) {
        unsigned level = LD(levels[l]) >> 16, above = 0;
        for (size_t i = threadIdx.x; i < per_block; i += blockDim.x) {
            ushort4 s = LD(own[i]);
            above += (s.x > level) + (s.y > level) + (s.z > level) + (s.w > level);
        }
        above = __reduce_add_sync(0xffffffffu, above);
        if (threadIdx.x % 32 == 0) atomicAdd(&counts[l], above);
    }
}

// Quantile of vectors * 4 values by bisection, by one block.
__device__ __forceinline__ float bisected(const float4* values, int vectors, float quantile,
                                          int passes) {
    float low = 0.0f, high = 1.0f;
    for (int pass = 0; pass < passes; ++pass) {
        float middle = 0.5f * (low + high);
        int below = 0;
        for (int i = threadIdx.x; i < vectors; i += blockDim.x) {
            float4 v = LD(values[i]);
            below += (v.x < middle) + (v.y < middle) + (v.z < middle) + (v.w < middle);
        }
        bool right = block_add(below) < quantile * 4.0f * vectors;
        low = right ? middle : low;
        high = right ? high : middle;
    }
    return 0.5f * (low + high);
}

__global__ void series_quantile(const float4* series, float* result, int vectors, float quantile,
                                int passes) {
    const float4* own = series + static_cast<size_t>(blockIdx.x) * vectors;
    float value = bisected(own, vectors, quantile, passes);
    if (threadIdx.x == 0) result[blockIdx.x] = value;
}

// Sparse matrix in ELL format (column-major, columns relative to the diagonal) times the columns
// of x.
__global__ void ell_columns(const float* __restrict__ value, const int* __restrict__ relative,
                            const float* __restrict__ x, float* __restrict__ y, int n, int width,
                            int n_rhs) {
    for (int r = 0; r < n_rhs; ++r)
        for (int row = thread_index(); row < n; row += thread_total()) {
            float sum = 0.0f;
            for (int k = 0; k < width; ++k) {
                int at = k * n + row;
                int col = min(max(row + (LD(relative[at]) >> 18), 0), n - 1);
                sum += LD(value[at]) * LD(x[r * n + col]);
            }
            y[r * n + row] = sum;
        }
}

// Standardises panels of kLanes * 4 columns; blockDim is (kLanes, 64).
template <int kLanes>
__global__ void scale_panels(const float4* __restrict__ x, float4* __restrict__ y, int rows,
                             int pitch) {
    __shared__ float4 sums[64][kLanes], squares[64][kLanes];
    int col = blockIdx.x * kLanes + threadIdx.x;
    float4 s = make_float4(0, 0, 0, 0), q = s;
    for (int r = threadIdx.y; r < rows; r += 64) {
        float4 v = LD(x[static_cast<size_t>(r) * pitch + col]);
        s = make_float4(s.x + v.x, s.y + v.y, s.z + v.z, s.w + v.w);
        q = make_float4(q.x + v.x * v.x, q.y + v.y * v.y, q.z + v.z * v.z, q.w + v.w * v.w);
    }
    sums[threadIdx.y][threadIdx.x] = s;
    squares[threadIdx.y][threadIdx.x] = q;
    for (int half = 32; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.y >= half) continue;
        float4 a = sums[threadIdx.y + half][threadIdx.x];
        float4 b = squares[threadIdx.y + half][threadIdx.x];
        float4& s0 = sums[threadIdx.y][threadIdx.x];
        float4& q0 = squares[threadIdx.y][threadIdx.x];
        s0 = make_float4(s0.x + a.x, s0.y + a.y, s0.z + a.z, s0.w + a.w);
        q0 = make_float4(q0.x + b.x, q0.y + b.y, q0.z + b.z, q0.w + b.w);
    }
    __syncthreads();
    float n = rows;
    s = sums[0][threadIdx.x];
    q = squares[0][threadIdx.x];
    float4 mean = make_float4(s.x / n, s.y / n, s.z / n, s.w / n);
    float4 scale = make_float4(rsqrtf(q.x / n - square(mean.x)), rsqrtf(q.y / n - square(mean.y)),
                               rsqrtf(q.z / n - square(mean.z)), rsqrtf(q.w / n - square(mean.w)));
    for (int r = threadIdx.y; r < rows; r += 64) {
        size_t at = static_cast<size_t>(r) * pitch + col;
        float4 v = LD(x[at]);
        y[at] = make_float4((v.x - mean.x) * scale.x, (v.y - mean.y) * scale.y,
                            (v.z - mean.z) * scale.z, (v.w - mean.w) * scale.w);
    }
}

// Selected coefficients of the 8x8 cosine transform. One strip of the image per block, one 8x8
// tile per thread.
__global__ void cosine_strips(const float4* image, const int2* selected, float* coefficients,
                              int width, int strip_height, int n_selected) {
    __shared__ float wave_x[8], wave_y[8];
    const float4* strip = image + static_cast<size_t>(blockIdx.x) * strip_height * width / 4;
    int across = width / 8, tiles = across * (strip_height / 8);
    for (int c = 0; c < n_selected; ++c) {
        __syncthreads();
        if (threadIdx.x < 8) {
            int2 frequency = LD(selected[c]);
            wave_x[threadIdx.x] = cospif((2 * threadIdx.x + 1) * (frequency.x & 7) / 16.0f);
            wave_y[threadIdx.x] = cospif((2 * threadIdx.x + 1) * (frequency.y & 7) / 16.0f);
        }
        __syncthreads();
        for (int t = threadIdx.x; t < tiles; t += blockDim.x) {
            const float4* tile = strip + (t / across) * 2 * width + (t % across) * 2;
            float sum = 0.0f;
            for (int row = 0; row < 8; ++row) {
                float4 a = LD(tile[row * (width / 4)]), b = LD(tile[row * (width / 4) + 1]);
                sum += wave_y[row] *
                       (a.x * wave_x[0] + a.y * wave_x[1] + a.z * wave_x[2] + a.w * wave_x[3] +
                        b.x * wave_x[4] + b.y * wave_x[5] + b.z * wave_x[6] + b.w * wave_x[7]);
            }
            coefficients[(static_cast<size_t>(c) * gridDim.x + blockIdx.x) * tiles + t] = sum;
        }
    }
}

// Wave equation with three time levels that change roles after each step. Cooperative launch.
__global__ void __launch_bounds__(512, 2) wave_levels(float* before, float* now, float* after,
                                                      int width, int height, int steps,
                                                      float speed) {
    auto grid = cooperative_groups::this_grid();
    size_t n = static_cast<size_t>(width) * height;
    for (int step = 0; step < steps; ++step) {
        for (size_t i = width + thread_index(); i < n - width; i += thread_total()) {
            float here = LD(now[i]);
            float bend = LD(now[i - 1]) + LD(now[i + 1]) + LD(now[i - width]) +
                         LD(now[i + width]) - 4.0f * here;
            after[i] = 2.0f * here - LD(before[i]) + speed * bend;
        }
        grid.sync();
        float* oldest = before;
        before = now;
        now = after;
        after = oldest;
    }
}

// Autocorrelation: blockIdx.y selects the lag.
__global__ void lag_products(const float* __restrict__ x, float* __restrict__ products, unsigned n,
                             unsigned lag_step) {
    unsigned lag = blockIdx.y * lag_step;
    float sum = 0.0f;
    for (unsigned i = thread_index(); i < n - lag; i += thread_total())
        sum += LD(x[i]) * LD(x[i + lag]);
    sum = block_add(sum);
    if (threadIdx.x == 0) products[blockIdx.y * gridDim.x + blockIdx.x] = sum;
}

// ---------------------------------------------------------------------------------------------
// Group B

constexpr int kSpan = 1024;

// Moving average over 2 * kRadius + 1 values; 256 threads per span.
template <int kRadius>
__global__ void moving_average(const float* __restrict__ x, float* __restrict__ y, size_t n) {
    __shared__ float span[kSpan + 2 * kRadius];
    long long first = static_cast<long long>(blockIdx.x) * kSpan - kRadius;
    for (int k = threadIdx.x; k < kSpan + 2 * kRadius; k += 256) {
        long long i = first + k;
        span[k] = i >= 0 && i < static_cast<long long>(n) ? LD(x[i]) : 0.0f;
    }
    __syncthreads();
    for (int k = threadIdx.x; k < kSpan; k += 256) {
        float sum = 0.0f;
#pragma unroll
        for (int d = 0; d <= 2 * kRadius; ++d) sum += span[k + d];
        size_t i = static_cast<size_t>(blockIdx.x) * kSpan + k;
        if (i < n) y[i] = sum / (2 * kRadius + 1);
    }
}

constexpr int kPlateX = 64, kPlateY = 16, kReach = 2;

// Star of 9 points with reach 2; borders repeat the nearest point. blockDim is (64, 4).
__global__ void plate_star(const float* in, float* out, int width, int height) {
    __shared__ float tile[kPlateY + 2 * kReach][kPlateX + 2 * kReach];
    int x0 = blockIdx.x * kPlateX - kReach, y0 = blockIdx.y * kPlateY - kReach;
    for (int v = threadIdx.y; v < kPlateY + 2 * kReach; v += 4)
        for (int u = threadIdx.x; u < kPlateX + 2 * kReach; u += kPlateX) {
            int x = min(max(x0 + u, 0), width - 1), y = min(max(y0 + v, 0), height - 1);
            tile[v][u] = LD(in[static_cast<size_t>(y) * width + x]);
        }
    __syncthreads();
    int u = threadIdx.x + kReach, x = x0 + u;
    for (int v = threadIdx.y + kReach; v < kPlateY + kReach; v += 4) {
        int y = y0 + v;
        if (x >= width || y >= height) continue;
        float near = tile[v][u - 1] + tile[v][u + 1] + tile[v - 1][u] + tile[v + 1][u];
        float far = tile[v][u - 2] + tile[v][u + 2] + tile[v - 2][u] + tile[v + 2][u];
        out[static_cast<size_t>(y) * width + x] = 16.0f * near - far - 60.0f * tile[v][u];
    }
}

// blockDim is (32, 4, 4); zero outside of the volume.
__global__ void volume_gradient(const float* __restrict__ in, float* __restrict__ out, int nx,
                                int ny, int nz) {
    __shared__ float tile[6][6][34];
    int x0 = blockIdx.x * 32 - 1, y0 = blockIdx.y * 4 - 1, z0 = blockIdx.z * 4 - 1;
    int thread = (threadIdx.z * 4 + threadIdx.y) * 32 + threadIdx.x;
    for (int k = thread; k < 6 * 6 * 34; k += 512) {
        int x = x0 + k % 34, y = y0 + k / 34 % 6, z = z0 + k / 34 / 6;
        bool inside = x >= 0 && x < nx && y >= 0 && y < ny && z >= 0 && z < nz;
        tile[k / 34 / 6][k / 34 % 6][k % 34] = inside ? LD(in[(z * ny + y) * nx + x]) : 0.0f;
    }
    __syncthreads();
    int u = threadIdx.x + 1, v = threadIdx.y + 1, w = threadIdx.z + 1;
    float dx = tile[w][v][u + 1] - tile[w][v][u - 1];
    float dy = tile[w][v + 1][u] - tile[w][v - 1][u];
    float dz = tile[w + 1][v][u] - tile[w - 1][v][u];
    if (x0 + u < nx && y0 + v < ny && z0 + w < nz)
        out[((z0 + w) * ny + y0 + v) * nx + x0 + u] = sqrtf(dx * dx + dy * dy + dz * dz);
}

// Planes of one channel each become pixels of all channels; blockIdx.z is the image.
__global__ void interleave_planes(const float* __restrict__ planes, float* __restrict__ pixels,
                                  int channels, int area) {
    __shared__ float tile[32][33];
    size_t image = static_cast<size_t>(blockIdx.z) * channels * area;
    int pixel = blockIdx.x * 32, channel = blockIdx.y * 32;
    for (int k = threadIdx.y; k < 32; k += blockDim.y)
        tile[k][threadIdx.x] =
            LD(planes[image + static_cast<size_t>(channel + k) * area + pixel + threadIdx.x]);
    __syncthreads();
    for (int k = threadIdx.y; k < 32; k += blockDim.y)
        pixels[image + static_cast<size_t>(pixel + k) * channels + channel + threadIdx.x] =
            tile[threadIdx.x][k];
}

// Weighted mean and absolute difference of two frames.
__global__ void blend_frames(const uchar4* a, const uchar4* b, uchar4* mean, uchar4* difference,
                             unsigned n, int weight) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    uchar4 p = LD(a[i]), q = LD(b[i]);
    auto mixed = [weight](int u, int v) { return (u * weight + v * (256 - weight)) >> 8; };
    mean[i] = make_uchar4(mixed(p.x, q.x), mixed(p.y, q.y), mixed(p.z, q.z), mixed(p.w, q.w));
    difference[i] = make_uchar4(abs(p.x - q.x), abs(p.y - q.y), abs(p.z - q.z), abs(p.w - q.w));
}

// One warp per row of 32 * kPerLane scores; entropy of their softmax.
template <int kPerLane>
__global__ void row_entropy(const float* __restrict__ scores, float* __restrict__ entropy,
                            int rows) {
    int row = blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= rows) return;
    const float* own = scores + static_cast<size_t>(row) * 32 * kPerLane;
    float v[kPerLane];
    float high = -FLT_MAX;
#pragma unroll
    for (int k = 0; k < kPerLane; ++k) {
        v[k] = LD(own[k * 32 + threadIdx.x]);
        high = fmaxf(high, v[k]);
    }
    high = warp_max(high);
    float total = 0.0f, weighted = 0.0f;
#pragma unroll
    for (int k = 0; k < kPerLane; ++k) {
        float weight = __expf(v[k] - high);
        total += weight;
        weighted += weight * (v[k] - high);
    }
    total = warp_add(total);
    weighted = warp_add(weighted);
    if (threadIdx.x == 0) entropy[row] = __logf(total) - weighted / total;
}

struct Columns {
    const float *x, *y, *z, *vx, *vy, *vz, *mass;
};

__global__ void body_energy(Columns c, float* energy, int n) {
    float sum = 0.0f;
#pragma unroll 4
    for (int i = thread_index(); i < n; i += static_cast<int>(thread_total())) {
        float speed2 = square(LD(c.vx[i])) + square(LD(c.vy[i])) + square(LD(c.vz[i]));
        float radius2 = square(LD(c.x[i])) + square(LD(c.y[i])) + square(LD(c.z[i]));
        sum += LD(c.mass[i]) * (0.5f * speed2 - rsqrtf(radius2 + 0.01f));
    }
    sum = block_add(sum);
    if (threadIdx.x == 0) energy[blockIdx.x] = sum;
}

struct Body {
    float x, y, z, mass, vx, vy, vz, charge, ax, ay, az, age;
};

// One leapfrog step in place.
__global__ void body_drift(Body* bodies, size_t n, float dt) {
    size_t i = thread_index();
    if (i >= n) return;
    float push = dt * LD(bodies[i].charge) / (LD(bodies[i].mass) + 0.1f);
    bodies[i].vx = LD(bodies[i].vx) + push * LD(bodies[i].ax);
    bodies[i].vy = LD(bodies[i].vy) + push * LD(bodies[i].ay);
    bodies[i].vz = LD(bodies[i].vz) + push * LD(bodies[i].az);
    bodies[i].x = LD(bodies[i].x) + dt * LD(bodies[i].vx);
    bodies[i].y = LD(bodies[i].y) + dt * LD(bodies[i].vy);
    bodies[i].z = LD(bodies[i].z) + dt * LD(bodies[i].vz);
    bodies[i].age = LD(bodies[i].age) + dt;
}

// Even and odd part of a signal.
__global__ void parity_parts(const float* x, float* even, float* odd, long long n) {
    for (long long i = thread_index(); i < n / 2; i += thread_total()) {
        float left = LD(x[i]), right = LD(x[n - 1 - i]);
        even[i] = 0.5f * (left + right);
        odd[i] = 0.5f * (left - right);
    }
}

constexpr int kPerPhase = 1024;

// Separates interleaved phases; each block owns kPerPhase samples of every phase.
template <int kPhases>
__global__ void split_phases(const float* __restrict__ x, const float* __restrict__ gain,
                             float* __restrict__ phases, size_t per_phase) {
    size_t first = static_cast<size_t>(blockIdx.x) * kPerPhase;
    for (int p = 0; p < kPhases; ++p) {
        float g = LD(gain[p]);
        for (int k = threadIdx.x; k < kPerPhase; k += blockDim.x)
            phases[p * per_phase + first + k] = g * LD(x[(first + k) * kPhases + p]);
    }
}

struct Cyclic {
    int rows, cols, tile, grid_rows, grid_cols;
};

// Copies a matrix from a block-cyclic layout (one piece per process) to row-major order.
__global__ void collect_pieces(const float* __restrict__ pieces, float* __restrict__ matrix,
                               Cyclic c) {
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (col >= c.cols || row >= c.rows) return;
    int tile_row = row / c.tile, tile_col = col / c.tile;
    int process = tile_row % c.grid_rows * c.grid_cols + tile_col % c.grid_cols;
    int local_row = tile_row / c.grid_rows * c.tile + row % c.tile;
    int local_col = tile_col / c.grid_cols * c.tile + col % c.tile;
    int local_rows = c.rows / c.grid_rows, local_cols = c.cols / c.grid_cols;
    size_t piece = static_cast<size_t>(process) * local_rows * local_cols;
    matrix[static_cast<size_t>(row) * c.cols + col] =
        LD(pieces[piece + static_cast<size_t>(local_row) * local_cols + local_col]);
}

constexpr int kFrame = 1024;

// Fourier transform of frames of 1024 complex values; 256 threads, two buffers in shared memory.
__global__ void __launch_bounds__(256) fourier_frames(const float2* __restrict__ in,
                                                      float2* __restrict__ out) {
    __shared__ float2 buffer[2][kFrame];
    size_t first = static_cast<size_t>(blockIdx.x) * kFrame;
    for (int k = threadIdx.x; k < kFrame; k += 256) buffer[0][k] = LD(in[first + k]);
    int from = 0;
    for (int span = 1; span < kFrame; span *= 2) {
        __syncthreads();
        for (int k = threadIdx.x; k < kFrame / 2; k += 256) {
            int inner = k & (span - 1);
            float sine, cosine;
            __sincosf(-3.14159265f * inner / span, &sine, &cosine);
            float2 a = buffer[from][k], b = buffer[from][k + kFrame / 2];
            float2 t = make_float2(b.x * cosine - b.y * sine, b.x * sine + b.y * cosine);
            int to = 2 * k - inner;
            buffer[1 - from][to] = make_float2(a.x + t.x, a.y + t.y);
            buffer[1 - from][to + span] = make_float2(a.x - t.x, a.y - t.y);
        }
        from = 1 - from;
    }
    __syncthreads();
    for (int k = threadIdx.x; k < kFrame; k += 256) out[first + k] = buffer[from][k];
}

constexpr int kRecordVectors = 8;

// Reorders records of 128 bytes by the reversed bits of their number.
__global__ void reverse_records(const float4* records, float4* out, int bits) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned record = i / kRecordVectors, part = i % kRecordVectors;
    unsigned from = __brev(record) >> (32 - bits);
    out[i] = LD(records[from * kRecordVectors + part]);
}

__global__ void row_quantile(const float4* __restrict__ rows, float* __restrict__ result,
                             int vectors, float quantile, int passes) {
    const float4* own = rows + static_cast<size_t>(blockIdx.x) * vectors;
    float value = bisected(own, vectors, quantile, passes);
    if (threadIdx.x == 0) result[blockIdx.x] = value;
}

// ---------------------------------------------------------------------------------------------
// Group C

// Sum over all cells within a distance on a hexagonal grid; odd rows are shifted by half a cell
// and the edges wrap.
__global__ void hex_disc(const float* in, float* out, int width, int height, int radius) {
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int q = col - (row - (row & 1)) / 2;
    float sum = 0.0f;
    for (int dq = -radius; dq <= radius; ++dq)
        for (int dr = max(-radius, -dq - radius); dr <= min(radius, -dq + radius); ++dr) {
            int r = row + dr;
            int c = q + dq + (r - (r & 1)) / 2;
            r += r < 0 ? height : r >= height ? -height : 0;
            c += c < 0 ? width : c >= width ? -width : 0;
            sum += in[r * width + c];
        }
    out[row * width + col] = sum;
}

// Sums tokens that lie in pages of run-time size; a table gives the place of each page.
__global__ void paged_tokens(const uint8_t* __restrict__ pool, const unsigned* __restrict__ table,
                             unsigned* __restrict__ sums, unsigned page_size, unsigned stride,
                             int tokens) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned sum = 0;
    for (int t = 0; t < tokens; ++t) {
        unsigned token = i + t * stride;
        unsigned page = token / page_size % 4096, slot = token % page_size;
        sum += pool[(table[page] >> 20) * page_size + slot];
    }
    sums[i] = sum;
}

constexpr int kMaxRank = 6;

struct View {
    int rank;
    unsigned sizes[kMaxRank];
    long long stride_a[kMaxRank], stride_b[kMaxRank];  // 0 where the axis is broadcast
};

__global__ void broadcast_add(const uint8_t* a, const uint8_t* b, uint8_t* out,
                              const __grid_constant__ View view, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned rest = i;
    long long at_a = 0, at_b = 0;
    for (int d = view.rank - 1; d >= 0; --d) {
        unsigned coordinate = rest % view.sizes[d];
        rest /= view.sizes[d];
        at_a += coordinate * view.stride_a[d];
        at_b += coordinate * view.stride_b[d];
    }
    out[i] = a[at_a] + b[at_b];
}

// Cell number `step` of the Hilbert curve that fills a square of 2^bits x 2^bits cells.
__device__ __forceinline__ uint2 hilbert_cell(unsigned step, int bits) {
    unsigned x = 0, y = 0;
    for (int b = 0; b < bits; ++b) {
        unsigned rx = step >> 1 & 1, ry = (step ^ rx) & 1, side = 1u << b;
        if (ry == 0) {
            if (rx) {
                x = side - 1 - x;
                y = side - 1 - y;
            }
            unsigned swap = x;
            x = y;
            y = swap;
        }
        x += rx << b;
        y += ry << b;
        step >>= 2;
    }
    return make_uint2(x, y);
}

__global__ void hilbert_bytes(const uint8_t* __restrict__ image, uint8_t* __restrict__ curve,
                              int bits) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    uint2 cell = hilbert_cell(i, bits);
    curve[i] = image[(static_cast<size_t>(cell.y) << bits) + cell.x];
}

constexpr int kPoints = 24;

struct Pattern {
    int dx[kPoints], dy[kPoints], dz[kPoints];
};

// Sum over a sparse pattern in volumes with periodic edges; blockIdx.y is the volume.
template <int kNx, int kNy, int kNz>
__global__ void periodic_pattern(const float* __restrict__ in, float* __restrict__ out,
                                 Pattern pattern, int points) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= kNx * kNy * kNz) return;
    int x = i % kNx, y = i / kNx % kNy, z = i / kNx / kNy;
    const float* volume = in + static_cast<size_t>(blockIdx.y) * kNx * kNy * kNz;
    float sum = 0.0f;
#pragma unroll 1
    for (int p = 0; p < points; ++p) {
        int u = ((x + pattern.dx[p]) % kNx + kNx) % kNx;
        int v = ((y + pattern.dy[p]) % kNy + kNy) % kNy;
        int w = ((z + pattern.dz[p]) % kNz + kNz) % kNz;
        sum += volume[(w * kNy + v) * kNx + u];
    }
    out[static_cast<size_t>(blockIdx.y) * kNx * kNy * kNz + i] = sum;
}

// Sum over a cube of cells in a volume stored as bricks of 8x8x8; a table gives the brick's place.
__global__ void brick_cubes(const float* __restrict__ bricks, const unsigned* __restrict__ table,
                            float* __restrict__ out, int side, int radius) {
    int x = blockIdx.x * 8 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    int z = blockIdx.z * 4 + threadIdx.z;
    int across = side >> 3;
    float sum = 0.0f;
    for (int dz = -radius; dz <= radius; ++dz)
        for (int dy = -radius; dy <= radius; ++dy)
            for (int dx = -radius; dx <= radius; ++dx) {
                int u = min(max(x + dx, 0), side - 1), v = min(max(y + dy, 0), side - 1);
                int w = min(max(z + dz, 0), side - 1);
                unsigned brick = table[((w >> 3) * across + (v >> 3)) * across + (u >> 3)] >> 17;
                sum += bricks[(brick << 9) | (w & 7) << 6 | (v & 7) << 3 | (u & 7)];
            }
    out[(z * side + y) * side + x] = sum;
}

// One thread per pair (i, j) with j <= i, numbered row by row; the row follows from the number by
// an integer square root.
__global__ void pair_gaps(const float* values, uint8_t* gaps, unsigned pairs, int bits) {
    unsigned k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= pairs) return;
    unsigned i = 0;
    for (int b = bits - 1; b >= 0; --b) {
        unsigned candidate = i | 1u << b;
        if (candidate * (candidate + 1) / 2 <= k) i = candidate;
    }
    unsigned j = k - i * (i + 1) / 2;
    gaps[k] = static_cast<uint8_t>(255.0f * fabsf(values[i] - values[j]));
}

// ---------------------------------------------------------------------------------------------
// Group D

// One record of 64 bytes per thread, in the order of the Hilbert curve.
__global__ void hilbert_records(const float4* __restrict__ grid, float4* __restrict__ curve,
                                int bits) {
    size_t i = thread_index();
    uint2 cell = hilbert_cell(static_cast<unsigned>(i), bits);
    const float4* from = grid + ((static_cast<size_t>(cell.y) << bits) + cell.x) * 4;
    float4 a = from[0], b = from[1], c = from[2], d = from[3];
    curve[i * 4] = a;
    curve[i * 4 + 1] = b;
    curve[i * 4 + 2] = c;
    curve[i * 4 + 3] = d;
}

__global__ void paged_pairs(const float4* keys, const float4* values, const unsigned* table,
                            float4* out_keys, float4* out_values, unsigned page_size) {
    unsigned token = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned page = token / page_size, slot = token % page_size;
    size_t from = static_cast<size_t>(table[page] >> 16) * page_size + slot;
    float4 key = keys[from], value = values[from];
    out_keys[token] = key;
    out_values[token] = value;
}

// Follows a path from the root of an implicit binary tree; each load decides the next index.
__global__ void tree_paths(const unsigned* tree, unsigned* leaf, long long nodes, int queries) {
    int i = thread_index();
    if (i >= queries) return;
    unsigned key = i * 2654435761u;
    long long at = 0;
    while (at < nodes) {
        unsigned node = tree[at];
        at = 2 * at + 1 + (key > node);
        key ^= node;
    }
    leaf[i] = static_cast<unsigned>(at - nodes);
}

// Montgomery product for an odd 32-bit modulus.
__device__ __forceinline__ unsigned montgomery(unsigned a, unsigned b, unsigned modulus,
                                               unsigned inverse) {
    unsigned low = a * b, high = __umulhi(a, b);
    unsigned reduce = __umulhi(low * inverse, modulus);
    return high >= reduce ? high - reduce : high - reduce + modulus;
}

__global__ void modular_powers(const unsigned* __restrict__ bases, unsigned* __restrict__ powers,
                               int n, unsigned exponent, unsigned modulus, unsigned inverse) {
    int i = thread_index();
    if (i >= n) return;
    unsigned base = bases[i] % modulus, power = 1;
    for (unsigned e = exponent; e; e >>= 1) {
        if (e & 1) power = montgomery(power, base, modulus, inverse);
        base = montgomery(base, base, modulus, inverse);
    }
    powers[i] = power;
}

constexpr int kTextWords = 16;  // 16 letters of 2 bits per word

// Edit distance between a pattern of 32 letters and a text, bit-parallel (Myers).
__global__ void edit_distance(const unsigned* __restrict__ texts, unsigned* __restrict__ best,
                              int n, uint4 pattern) {
    int i = thread_index();
    if (i >= n) return;
    unsigned plus = ~0u, minus = 0;
    int score = 32, lowest = 32;
    for (int w = 0; w < kTextWords; ++w) {
        unsigned letters = texts[static_cast<size_t>(w) * n + i];
        for (int k = 0; k < 16; ++k, letters >>= 2) {
            unsigned first = letters & 1 ? pattern.y : pattern.x;
            unsigned second = letters & 1 ? pattern.w : pattern.z;
            unsigned equal = letters & 2 ? second : first;
            unsigned vertical = equal | minus;
            unsigned horizontal = (((equal & plus) + plus) ^ plus) | equal;
            unsigned up = minus | ~(horizontal | plus), down = plus & horizontal;
            score += static_cast<int>(up >> 31) - static_cast<int>(down >> 31);
            lowest = min(lowest, score);
            up = up << 1 | 1;
            plus = down << 1 | ~(vertical | up);
            minus = up & vertical;
        }
    }
    best[i] = lowest;
}

__constant__ unsigned kRound[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

__device__ __forceinline__ unsigned rotated(unsigned v, int by) {
    return __funnelshift_r(v, v, by);
}

// SHA-256 compression of one message of 16 words per thread; word k of message i is at [k * n + i].
__global__ void digest_messages(const unsigned* __restrict__ messages,
                                unsigned* __restrict__ digests, int n) {
    int i = thread_index();
    if (i >= n) return;
    unsigned w[16];
#pragma unroll
    for (int k = 0; k < 16; ++k) w[k] = messages[static_cast<size_t>(k) * n + i];
    unsigned a = 0x6a09e667, b = 0xbb67ae85, c = 0x3c6ef372, d = 0xa54ff53a;
    unsigned e = 0x510e527f, f = 0x9b05688c, g = 0x1f83d9ab, h = 0x5be0cd19;
#pragma unroll
    for (int k = 0; k < 64; ++k) {
        if (k >= 16) {
            unsigned p = w[(k + 1) % 16], q = w[(k + 14) % 16];
            w[k % 16] += (rotated(p, 7) ^ rotated(p, 18) ^ p >> 3) + w[(k + 9) % 16] +
                         (rotated(q, 17) ^ rotated(q, 19) ^ q >> 10);
        }
        unsigned t1 = h + (rotated(e, 6) ^ rotated(e, 11) ^ rotated(e, 25)) +
                      ((e & f) ^ (~e & g)) + kRound[k] + w[k % 16];
        unsigned t2 = (rotated(a, 2) ^ rotated(a, 13) ^ rotated(a, 22)) +
                      ((a & b) ^ (a & c) ^ (b & c));
        h = g;
        g = f;
        f = e;
        e = d + t1;
        d = c;
        c = b;
        b = a;
        a = t1 + t2;
    }
    digests[i] = a ^ e;
    digests[n + i] = b ^ f;
    digests[2 * n + i] = c ^ g;
    digests[3 * n + i] = d ^ h;
}

// Game of Life on boards of 32x32 cells with wrapped edges; one row per lane, one bit per cell.
__global__ void life_boards(const unsigned* __restrict__ boards, unsigned* __restrict__ out,
                            int generations) {
    size_t i = thread_index();
    unsigned row = boards[i];
    int lane = threadIdx.x % 32;
    for (int g = 0; g < generations; ++g) {
        unsigned left = rotated(row, 1), right = rotated(row, 31);
        unsigned ones = left ^ row ^ right, twos = (left & row) | (right & (left ^ row));
        unsigned up1 = __shfl_sync(0xffffffffu, ones, (lane + 31) % 32);
        unsigned up2 = __shfl_sync(0xffffffffu, twos, (lane + 31) % 32);
        unsigned down1 = __shfl_sync(0xffffffffu, ones, (lane + 1) % 32);
        unsigned down2 = __shfl_sync(0xffffffffu, twos, (lane + 1) % 32);
        unsigned side1 = left ^ right, side2 = left & right;
        unsigned sum1 = up1 ^ down1 ^ side1;
        unsigned carry = (up1 & down1) | (side1 & (up1 ^ down1));
        unsigned pair1 = up2 ^ down2, pair2 = up2 & down2;
        unsigned rest1 = side2 ^ carry, rest2 = side2 & carry;
        unsigned sum2 = pair1 ^ rest1;
        unsigned many = pair2 | rest2 | (pair1 & rest1);
        row = ~many & sum2 & (sum1 | row);
    }
    out[i] = row;
}

// ---------------------------------------------------------------------------------------------
// Host side

constexpr size_t kBig = size_t{1} << 27;      // floats in each of the two large buffers
constexpr size_t kWords = size_t{1} << 26;    // random integers
constexpr size_t kSmall = size_t{1} << 22;    // floats for weights, and for small results
constexpr size_t kPattern = size_t{1} << 24;  // values generated on the host, then repeated

struct Buffers {
    float *in, *out;   // kBig each
    unsigned* words;   // kWords
    float *small_in, *small_out;  // kSmall each; small_out is zero before each launch
    int sms;

    template <typename T>
    T* in_as() const { return reinterpret_cast<T*>(in); }
    template <typename T>
    T* out_as() const { return reinterpret_cast<T*>(out); }
    template <typename T>
    T* words_as() const { return reinterpret_cast<T*>(words); }
    template <typename T>
    T* small_in_as() const { return reinterpret_cast<T*>(small_in); }
    template <typename T>
    T* small_out_as() const { return reinterpret_cast<T*>(small_out); }
};

struct HostArray {
    std::string name;  // of the kernel's parameter
    const void* base;
    size_t bytes;
};

struct Launch {
    std::vector<HostArray> loaded;  // every array that the kernel loads from (groups A and B)
    std::function<void()> start;
    const void* result;
    size_t result_bytes;
};

template <typename T>
HostArray array(const char* name, const T* base, size_t count) {
    return {name, base, count * sizeof(T)};
}

template <typename T>
Launch launch(std::vector<HostArray> loaded, const T* result, size_t count,
              std::function<void()> start) {
    return {std::move(loaded), std::move(start), result, count * sizeof(T)};
}

constexpr int blocks_for(size_t n, int threads) {
    return static_cast<int>((n + threads - 1) / threads);
}

// Group A: sizes are such that what all resident blocks walk over is far larger than L2.

Launch launch_signal_bank(const Buffers& b) {
    int signals = 256, length = 260000, outputs = 5;
    constexpr int width = 7;
    return launch({array("signals", b.in, size_t(signals) * length),
                   array("bank", b.small_in, width * outputs)},
                  b.small_out, signals * outputs, [=] {
                      signal_bank<width><<<signals, 512>>>(b.in, b.small_in, b.small_out, length,
                                                           outputs);
                  });
}

Launch launch_running_product(const Buffers& b) {
    int segments = 256, vectors = 1 << 16;
    auto rates = b.in_as<float4>();
    auto index = b.out_as<float4>();
    size_t n = size_t(segments) * vectors;
    auto ready = b.small_out_as<unsigned>() + segments;
    return launch({array("rates", rates, n)}, index, n, [=] {
        running_product<<<segments, 512>>>(rates, index, b.small_out, ready, vectors);
    });
}

Launch launch_gram_pairs(const Buffers& b) {
    int rows = 1100000, cols = 48, groups = cols / kGroup, slices = b.sms * 8;
    dim3 grid(slices, groups * (groups + 1) / 2), block(kGroup, kGroup);
    int rows_per_block = (rows + slices - 1) / slices;
    return launch({array("m", b.in, size_t(rows) * cols)}, b.small_out, cols * cols, [=] {
        gram_pairs<<<grid, block>>>(b.in, b.small_out, rows, cols, rows_per_block);
    });
}

Launch launch_relax_plates(const Buffers& b) {
    int plates = 256, side = 512, sweeps = 3;
    size_t n = size_t(plates) * side * side;
    return launch({array("plates", b.in, n)}, b.in, n,
                  [=] { relax_plates<<<plates, dim3(32, 32)>>>(b.in, side, sweeps); });
}

Launch launch_fold_errors(const Buffers& b) {
    long long n = 11000000;
    int folds = 5, grid = b.sms * 8;
    auto features = b.in_as<float4>();
    auto models = b.small_in_as<float4>();
    const float* target = b.in + 4 * n;
    return launch({array("features", features, n), array("target", target, n),
                   array("models", models, folds)},
                  b.small_out, size_t(folds) * grid, [=] {
                      fold_errors<<<grid, 256>>>(features, target, models, b.small_out, n, folds);
                  });
}

Launch launch_window_levels(const Buffers& b) {
    long long window = 1 << 24, step = 1 << 22;
    int windows = 5, grid = b.sms * 4;
    auto signal = b.in_as<float2>();
    float* energies = b.small_out + 32;
    return launch({array("signal", signal, (windows - 1) * step + window)}, b.small_out,
                  32 + windows * grid, [=] {
                      window_levels<<<grid, 512>>>(signal, b.small_out, energies, window, step,
                                                   windows);
                  });
}

Launch launch_level_counts(const Buffers& b) {
    constexpr int levels = 4;
    size_t per_block = 1 << 17, blocks = kWords / 2 / per_block;
    auto samples = b.words_as<ushort4>();
    auto thresholds = b.small_in_as<unsigned>();
    auto counts = b.small_out_as<unsigned>();
    return launch({array("samples", samples, kWords / 2), array("levels", thresholds, levels)},
                  counts, levels, [=] {
                      level_counts<levels><<<blocks, 1024>>>(samples, thresholds, counts,
                                                             per_block);
                  });
}

Launch launch_series_quantile(const Buffers& b) {
    int series = 250, vectors = 70000, passes = 8;
    auto values = b.in_as<float4>();
    return launch({array("series", values, size_t(series) * vectors)}, b.small_out, series, [=] {
        series_quantile<<<series, 1024>>>(values, b.small_out, vectors, 0.9f, passes);
    });
}

Launch launch_ell_columns(const Buffers& b) {
    int n = 1 << 20, width = 28, n_rhs = 4;
    auto relative = b.words_as<int>();
    size_t entries = size_t(n) * width;
    return launch({array("value", b.in, entries), array("relative", relative, entries),
                   array("x", b.small_in, size_t(n_rhs) * n)},
                  b.out, size_t(n_rhs) * n, [=] {
                      ell_columns<<<b.sms * 4, 256>>>(b.in, relative, b.small_in, b.out, n, width,
                                                      n_rhs);
                  });
}

Launch launch_scale_panels(const Buffers& b) {
    constexpr int lanes = 8;
    int rows = 8192, pitch = 2048;
    auto x = b.in_as<float4>();
    auto y = b.out_as<float4>();
    size_t n = size_t(rows) * pitch;
    return launch({array("x", x, n)}, y, n, [=] {
        scale_panels<lanes><<<pitch / lanes, dim3(lanes, 64)>>>(x, y, rows, pitch);
    });
}

Launch launch_cosine_strips(const Buffers& b) {
    int width = 8192, strip_height = 32, strips = 256, n_selected = 5;
    auto image = b.in_as<float4>();
    auto selected = b.words_as<int2>();
    size_t n = size_t(width) * strip_height * strips;
    return launch({array("image", image, n / 4), array("selected", selected, n_selected)}, b.out,
                  n / 64 * n_selected, [=] {
                      cosine_strips<<<strips, 512>>>(image, selected, b.out, width, strip_height,
                                                     n_selected);
                  });
}

Launch launch_wave_levels(const Buffers& b) {
    int width = 8192, height = 4096, steps = 5;
    size_t n = size_t(width) * height;
    float *before = b.in, *now = b.in + n, *after = b.in + 2 * n;
    return launch({array("before", before, n), array("now", now, n), array("after", after, n)},
                  b.in, 3 * n, [=] {
                      float *first = before, *second = now, *third = after;
                      int w = width, h = height, s = steps;
                      float speed = 0.1f;
                      void* arguments[] = {&first, &second, &third, &w, &h, &s, &speed};
                      CHECK(cudaLaunchCooperativeKernel((void*)wave_levels, dim3(b.sms * 2),
                                                        dim3(512), arguments, 0, nullptr));
                  });
}

Launch launch_lag_products(const Buffers& b) {
    unsigned n = 60000000, lag_step = 37, lags = 6;
    dim3 grid(b.sms * 8, lags);
    return launch({array("x", b.in, n)}, b.small_out, size_t(grid.x) * lags,
                  [=] { lag_products<<<grid, 256>>>(b.in, b.small_out, n, lag_step); });
}

// Group B

Launch launch_moving_average(const Buffers& b) {
    size_t n = 100000000;
    return launch({array("x", b.in, n)}, b.out, n, [=] {
        moving_average<16><<<blocks_for(n, kSpan), 256>>>(b.in, b.out, n);
    });
}

Launch launch_plate_star(const Buffers& b) {
    int width = 10000, height = 9000;
    size_t n = size_t(width) * height;
    dim3 grid(blocks_for(width, kPlateX), blocks_for(height, kPlateY)), block(kPlateX, 4);
    return launch({array("in", b.in, n)}, b.out, n,
                  [=] { plate_star<<<grid, block>>>(b.in, b.out, width, height); });
}

Launch launch_volume_gradient(const Buffers& b) {
    int nx = 480, ny = 402, nz = 430;
    size_t n = size_t(nx) * ny * nz;
    dim3 grid(blocks_for(nx, 32), blocks_for(ny, 4), blocks_for(nz, 4)), block(32, 4, 4);
    return launch({array("in", b.in, n)}, b.out, n,
                  [=] { volume_gradient<<<grid, block>>>(b.in, b.out, nx, ny, nz); });
}

Launch launch_interleave_planes(const Buffers& b) {
    int channels = 96, area = 1 << 17, images = 8;
    size_t n = size_t(channels) * area * images;
    dim3 grid(area / 32, channels / 32, images), block(32, 8);
    return launch({array("planes", b.in, n)}, b.out, n,
                  [=] { interleave_planes<<<grid, block>>>(b.in, b.out, channels, area); });
}

Launch launch_blend_frames(const Buffers& b) {
    unsigned n = 60000000;
    auto first = b.words_as<uchar4>(), second = b.in_as<uchar4>(), mean = b.out_as<uchar4>();
    return launch({array("a", first, n), array("b", second, n)}, mean, 2 * size_t(n), [=] {
        blend_frames<<<blocks_for(n, 256), 256>>>(first, second, mean, mean + n, n, 90);
    });
}

Launch launch_row_entropy(const Buffers& b) {
    constexpr int per_lane = 16;
    int rows = 200000;
    return launch({array("scores", b.in, size_t(rows) * 32 * per_lane)}, b.small_out, rows, [=] {
        row_entropy<per_lane><<<blocks_for(rows, 8), dim3(32, 8)>>>(b.in, b.small_out, rows);
    });
}

Launch launch_body_energy(const Buffers& b) {
    int n = 15000000;
    Columns c{b.in,         b.in + n,     b.in + 2 * n, b.in + 3 * n,
              b.in + 4 * n, b.in + 5 * n, b.in + 6 * n};
    return launch({array("x", c.x, n), array("y", c.y, n), array("z", c.z, n),
                   array("vx", c.vx, n), array("vy", c.vy, n), array("vz", c.vz, n),
                   array("mass", c.mass, n)},
                  b.small_out, b.sms * 6,
                  [=] { body_energy<<<b.sms * 6, 256>>>(c, b.small_out, n); });
}

Launch launch_body_drift(const Buffers& b) {
    size_t n = 9000000;
    auto bodies = b.in_as<Body>();
    return launch({array("bodies", bodies, n)}, bodies, n,
                  [=] { body_drift<<<blocks_for(n, 256), 256>>>(bodies, n, 0.01f); });
}

Launch launch_parity_parts(const Buffers& b) {
    long long n = 120000000;
    return launch({array("x", b.in, n)}, b.out, n, [=] {
        parity_parts<<<b.sms * 8, 256>>>(b.in, b.out, b.out + n / 2, n);
    });
}

Launch launch_split_phases(const Buffers& b) {
    constexpr int phases = 4;
    size_t per_phase = size_t(kPerPhase) * 25000;
    return launch({array("x", b.in, per_phase * phases), array("gain", b.small_in, phases)},
                  b.out, per_phase * phases, [=] {
                      split_phases<phases><<<per_phase / kPerPhase, 256>>>(b.in, b.small_in,
                                                                           b.out, per_phase);
                  });
}

Launch launch_collect_pieces(const Buffers& b) {
    Cyclic c{9600, 9600, 48, 2, 4};
    size_t n = size_t(c.rows) * c.cols;
    dim3 grid(blocks_for(c.cols, 64), blocks_for(c.rows, 4)), block(64, 4);
    return launch({array("pieces", b.in, n)}, b.out, n,
                  [=] { collect_pieces<<<grid, block>>>(b.in, b.out, c); });
}

Launch launch_fourier_frames(const Buffers& b) {
    int frames = 45000;
    auto in = b.in_as<float2>(), out = b.out_as<float2>();
    size_t n = size_t(frames) * kFrame;
    return launch({array("in", in, n)}, out, n,
                  [=] { fourier_frames<<<frames, 256>>>(in, out); });
}

Launch launch_reverse_records(const Buffers& b) {
    int bits = 21;
    auto records = b.in_as<float4>(), out = b.out_as<float4>();
    size_t n = size_t{kRecordVectors} << bits;
    return launch({array("records", records, n)}, out, n,
                  [=] { reverse_records<<<n / 256, 256>>>(records, out, bits); });
}

Launch launch_row_quantile(const Buffers& b) {
    int rows = 25000, vectors = 1000, passes = 8;
    auto values = b.in_as<float4>();
    return launch({array("rows", values, size_t(rows) * vectors)}, b.small_out, rows, [=] {
        row_quantile<<<rows, 256>>>(values, b.small_out, vectors, 0.9f, passes);
    });
}

// Group C

Launch launch_hex_disc(const Buffers& b) {
    int width = 4096, height = 4096, radius = 3;
    dim3 grid(width / 32, height / 8), block(32, 8);
    return launch({}, b.out, size_t(width) * height,
                  [=] { hex_disc<<<grid, block>>>(b.in, b.out, width, height, radius); });
}

Launch launch_paged_tokens(const Buffers& b) {
    int n = 1 << 23, tokens = 48;
    auto pool = b.in_as<uint8_t>();
    auto sums = b.out_as<unsigned>();
    return launch({}, sums, n, [=] {
        paged_tokens<<<n / 256, 256>>>(pool, b.words, sums, 144u, 5000u, tokens);
    });
}

Launch launch_broadcast_add(const Buffers& b) {
    View view{5,
              {20, 30, 40, 25, 100},
              {3000000, 100000, 2500, 100, 1},
              {3000, 0, 75, 3, 0}};
    unsigned n = 60000000;
    auto a = b.words_as<uint8_t>(), second = b.in_as<uint8_t>(), out = b.out_as<uint8_t>();
    return launch({}, out, n, [=] {
        broadcast_add<<<blocks_for(n, 256), 256>>>(a, second, out, view, n);
    });
}

Launch launch_hilbert_bytes(const Buffers& b) {
    int bits = 13;
    unsigned n = 1u << (2 * bits);
    auto image = b.words_as<uint8_t>(), curve = b.out_as<uint8_t>();
    return launch({}, curve, n, [=] { hilbert_bytes<<<n / 256, 256>>>(image, curve, bits); });
}

Launch launch_periodic_pattern(const Buffers& b) {
    constexpr int nx = 120, ny = 90, nz = 75;
    int volumes = 20;
    Pattern pattern;
    for (int p = 0; p < kPoints; ++p) {
        pattern.dx[p] = p % 5 - 2;
        pattern.dy[p] = p % 7 - 3;
        pattern.dz[p] = p % 3 - 1;
    }
    size_t n = size_t(nx) * ny * nz;
    dim3 grid(blocks_for(n, 256), volumes);
    return launch({}, b.out, n * volumes, [=] {
        periodic_pattern<nx, ny, nz><<<grid, 256>>>(b.in, b.out, pattern, kPoints);
    });
}

Launch launch_brick_cubes(const Buffers& b) {
    int side = 256, radius = 1;
    dim3 grid(side / 8, side / 8, side / 4), block(8, 8, 4);
    return launch({}, b.out, size_t(side) * side * side,
                  [=] { brick_cubes<<<grid, block>>>(b.in, b.words, b.out, side, radius); });
}

Launch launch_pair_gaps(const Buffers& b) {
    int bits = 14;
    unsigned pairs = 1u << 27;
    auto gaps = b.out_as<uint8_t>();
    return launch({}, gaps, pairs,
                  [=] { pair_gaps<<<pairs / 256, 256>>>(b.in, gaps, pairs, bits); });
}

// Group D

Launch launch_hilbert_records(const Buffers& b) {
    int bits = 11;
    auto grid = b.in_as<float4>(), curve = b.out_as<float4>();
    size_t n = size_t{1} << (2 * bits);
    return launch({}, curve, 4 * n,
                  [=] { hilbert_records<<<n / 128, 128>>>(grid, curve, bits); });
}

Launch launch_paged_pairs(const Buffers& b) {
    unsigned page_size = 256, n = 1u << 24;
    auto keys = b.in_as<float4>(), out = b.out_as<float4>();
    return launch({}, out, 2 * size_t(n), [=] {
        paged_pairs<<<n / 256, 256>>>(keys, keys + n, b.words, out, out + n, page_size);
    });
}

Launch launch_tree_paths(const Buffers& b) {
    int queries = 1 << 21;
    auto leaf = b.small_out_as<unsigned>();
    return launch({}, leaf, queries, [=] {
        tree_paths<<<queries / 256, 256>>>(b.words, leaf, static_cast<long long>(kWords), queries);
    });
}

Launch launch_modular_powers(const Buffers& b) {
    int n = 40000000;
    unsigned exponent = 0xdeadbeefu, modulus = 4294967291u, inverse = modulus;
    for (int k = 0; k < 5; ++k) inverse *= 2 - modulus * inverse;
    auto powers = b.out_as<unsigned>();
    return launch({}, powers, n, [=] {
        modular_powers<<<blocks_for(n, 256), 256>>>(b.words, powers, n, exponent, modulus,
                                                    inverse);
    });
}

Launch launch_edit_distance(const Buffers& b) {
    int n = kWords / kTextWords;
    uint4 pattern = make_uint4(0x1a2b3c48u, 0x85404022u, 0x60138301u, 0x00840c94u);
    auto best = b.out_as<unsigned>();
    return launch({}, best, n, [=] {
        edit_distance<<<blocks_for(n, 256), 256>>>(b.words, best, n, pattern);
    });
}

Launch launch_digest_messages(const Buffers& b) {
    int n = kWords / 16;
    auto digests = b.out_as<unsigned>();
    return launch({}, digests, 4 * size_t(n), [=] {
        digest_messages<<<blocks_for(n, 128), 128>>>(b.words, digests, n);
    });
}

Launch launch_life_boards(const Buffers& b) {
    int n = 1 << 23, generations = 64;
    auto out = b.out_as<unsigned>();
    return launch({}, out, n, [=] { life_boards<<<n / 256, 256>>>(b.words, out, generations); });
}

struct Case {
    const char* name;
    char group;
    Launch (*prepare)(const Buffers&);
};

#define CASE(name, group) {#name, group, launch_##name}
const Case kCases[] = {
    CASE(signal_bank, 'A'),       CASE(running_product, 'A'),   CASE(gram_pairs, 'A'),
    CASE(relax_plates, 'A'),      CASE(fold_errors, 'A'),       CASE(window_levels, 'A'),
    CASE(level_counts, 'A'),      CASE(series_quantile, 'A'),   CASE(ell_columns, 'A'),
    CASE(scale_panels, 'A'),      CASE(cosine_strips, 'A'),     CASE(wave_levels, 'A'),
    CASE(lag_products, 'A'),      CASE(moving_average, 'B'),    CASE(plate_star, 'B'),
    CASE(volume_gradient, 'B'),   CASE(interleave_planes, 'B'), CASE(blend_frames, 'B'),
    CASE(row_entropy, 'B'),       CASE(body_energy, 'B'),       CASE(body_drift, 'B'),
    CASE(parity_parts, 'B'),      CASE(split_phases, 'B'),      CASE(collect_pieces, 'B'),
    CASE(fourier_frames, 'B'),    CASE(reverse_records, 'B'),   CASE(row_quantile, 'B'),
    CASE(hex_disc, 'C'),          CASE(paged_tokens, 'C'),      CASE(broadcast_add, 'C'),
    CASE(hilbert_bytes, 'C'),     CASE(periodic_pattern, 'C'),  CASE(brick_cubes, 'C'),
    CASE(pair_gaps, 'C'),         CASE(hilbert_records, 'D'),   CASE(paged_pairs, 'D'),
    CASE(tree_paths, 'D'),        CASE(modular_powers, 'D'),    CASE(edit_distance, 'D'),
    CASE(digest_messages, 'D'),   CASE(life_boards, 'D'),
};

// Copies the pattern to the start of a buffer, then doubles it. Uses no kernel, so that a profile
// holds only the kernels of the list.
template <typename T>
void fill(T* buffer, size_t count, const std::vector<T>& pattern) {
    size_t filled = std::min(count, pattern.size());
    CHECK(cudaMemcpy(buffer, pattern.data(), filled * sizeof(T), cudaMemcpyHostToDevice));
    for (; filled < count; filled *= 2)
        CHECK(cudaMemcpy(buffer + filled, buffer, std::min(filled, count - filled) * sizeof(T),
                         cudaMemcpyDeviceToDevice));
}

template <typename T>
T* allocate(size_t count) {
    void* memory = nullptr;
    CHECK(cudaMalloc(&memory, count * sizeof(T)));
    return static_cast<T*>(memory);
}

class Data {
public:
    Data() : words_(kPattern), floats_(kPattern) {
        std::mt19937 random(7);
        for (unsigned& word : words_) word = random();
        for (size_t i = 0; i < kPattern; ++i)
            floats_[i] = static_cast<float>(words_[i] >> 8) / (1 << 24);
        buffers_.in = allocate<float>(kBig);
        buffers_.out = allocate<float>(kBig);
        buffers_.words = allocate<unsigned>(kWords);
        buffers_.small_in = allocate<float>(kSmall);
        buffers_.small_out = allocate<float>(kSmall);
        CHECK(cudaDeviceGetAttribute(&buffers_.sms, cudaDevAttrMultiProcessorCount, 0));
        fill(buffers_.words, kWords, words_);
        // Other values than in the large buffers, or a query would be equal to a site.
        fill(buffers_.small_in, kSmall, std::vector<float>(floats_.rbegin(), floats_.rend()));
    }

    // Restores what kernels may have written.
    const Buffers& fresh() const {
        fill(buffers_.in, kBig, floats_);
        fill(buffers_.out, kBig, floats_);
        CHECK(cudaMemset(buffers_.small_out, 0, kSmall * sizeof(float)));
        CHECK(cudaDeviceSynchronize());
        return buffers_;
    }

private:
    std::vector<unsigned> words_;
    std::vector<float> floats_;
    Buffers buffers_;
};

// Sum of the 4-byte words in up to 4 MB of a result, from four places.
unsigned long long checksum(const Launch& launch) {
    size_t words = launch.result_bytes / 4;
    size_t piece = std::min(words, size_t{1} << 18);
    std::vector<unsigned> host(piece);
    unsigned long long sum = 0;
    for (int k = 0; k < 4; ++k) {
        auto from = static_cast<const unsigned*>(launch.result) + (words - piece) / 3 * k;
        CHECK(cudaMemcpy(host.data(), from, piece * 4, cudaMemcpyDeviceToHost));
        for (unsigned word : host) sum += word;
    }
    return sum;
}

#ifdef TRACE
void run_case(const Case& which, const Data& data) {
    if (which.group > 'B') return;
    Launch launch = which.prepare(data.fresh());
    std::vector<TracedArray> traced;
    for (const HostArray& a : launch.loaded) {
        size_t bit_words = (a.bytes / 4 + 31) / 32;
        TracedArray t{static_cast<const char*>(a.base), a.bytes, allocate<unsigned>(bit_words),
                      allocate<unsigned long long>(kCounters)};
        CHECK(cudaMemset(t.bits, 0, bit_words * 4));
        CHECK(cudaMemset(t.requested, 0, kCounters * 8));
        traced.push_back(t);
    }
    int count = traced.size();
    unsigned long long untraced = 0;
    CHECK(cudaMemcpyToSymbol(traced_arrays, traced.data(), count * sizeof(TracedArray)));
    CHECK(cudaMemcpyToSymbol(traced_count, &count, sizeof count));
    CHECK(cudaMemcpyToSymbol(untraced_loads, &untraced, sizeof untraced));
    launch.start();
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpyFromSymbol(&untraced, untraced_loads, sizeof untraced));
    if (untraced) std::fprintf(stderr, "%s: %llu loads of other arrays\n", which.name, untraced);
    for (int a = 0; a < count; ++a) {
        // One byte of the bitmap stands for 8 words, which is one 32-byte sector.
        std::vector<unsigned char> bits((traced[a].bytes / 4 + 31) / 32 * 4);
        std::vector<unsigned long long> counters(kCounters);
        CHECK(cudaMemcpy(bits.data(), traced[a].bits, bits.size(), cudaMemcpyDeviceToHost));
        CHECK(cudaMemcpy(counters.data(), traced[a].requested, kCounters * 8,
                         cudaMemcpyDeviceToHost));
        unsigned long long words = 0, sectors = 0, requested = 0;
        for (unsigned char byte : bits) {
            words += __builtin_popcount(byte);
            sectors += byte != 0;
        }
        for (unsigned long long c : counters) requested += c;
        std::printf("%s\t%s\t%llu\t%llu\t%llu\n", which.name, launch.loaded[a].name.c_str(),
                    words * 4, requested, sectors * 32);
        CHECK(cudaFree(traced[a].bits));
        CHECK(cudaFree(traced[a].requested));
    }
}
constexpr char kHeader[] = "kernel\tarray\tdistinct_bytes\trequested_bytes\tsector_bytes\n";
#else
void run_case(const Case& which, const Data& data) {
    Launch launch = which.prepare(data.fresh());
    cudaEvent_t before, after;
    CHECK(cudaEventCreate(&before));
    CHECK(cudaEventCreate(&after));
    CHECK(cudaEventRecord(before));
    launch.start();
    CHECK(cudaGetLastError());
    CHECK(cudaEventRecord(after));
    CHECK(cudaEventSynchronize(after));
    float ms = 0.0f;
    CHECK(cudaEventElapsedTime(&ms, before, after));
    std::printf("%s\t%c\t%.3f\t%016llx\n", which.name, which.group, ms, checksum(launch));
    CHECK(cudaEventDestroy(before));
    CHECK(cudaEventDestroy(after));
}
constexpr char kHeader[] = "kernel\tgroup\tms\tchecksum\n";
#endif

int main(int argc, char** argv) {
    if (argc == 2 && !std::strcmp(argv[1], "--list")) {
        for (const Case& c : kCases) std::printf("%s %c\n", c.name, c.group);
        return 0;
    }
    if (argc != 1) {
        std::fprintf(stderr, "usage: second [--list]\n");
        return 2;
    }
    Data data;
    std::printf("%s", kHeader);
    for (const Case& c : kCases) {
        run_case(c, data);
        std::fflush(stdout);
    }
    return 0;
}
