// Kernels with known memory traffic (groups A and B) and known integer work (groups C and D).
// kernels.tsv says what each one is expected to be; README.md says how to build and run.
//
// Global loads of groups A and B are written LD(array[index]). It is the plain load, except with
// -DTRACE, where it also records which 4-byte words were loaded.
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

constexpr int kMaxArrays = 6;
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
        unsigned thread = (blockIdx.y * gridDim.x + blockIdx.x) * blockDim.x * blockDim.y +
                          threadIdx.y * blockDim.x + threadIdx.x;
        atomicAdd(&array.requested[thread % kCounters], sizeof(T));
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

__device__ __forceinline__ int global_thread() { return blockIdx.x * blockDim.x + threadIdx.x; }
__device__ __forceinline__ int grid_threads() { return gridDim.x * blockDim.x; }

struct Add {
    __device__ float operator()(float a, float b) const { return a + b; }
};
struct Max {
    __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

// Reduces over a one-dimensional block; every thread gets the result.
template <typename Op>
__device__ float block_reduce(float value, Op op, float identity) {
    __shared__ float partial[32];
    for (int offset = 16; offset > 0; offset /= 2)
        value = op(value, __shfl_xor_sync(0xffffffffu, value, offset));
    __syncthreads();
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
    __syncthreads();
    value = threadIdx.x % 32 < blockDim.x / 32 ? partial[threadIdx.x % 32] : identity;
    for (int offset = 16; offset > 0; offset /= 2)
        value = op(value, __shfl_xor_sync(0xffffffffu, value, offset));
    return value;
}

__device__ float block_sum(float value) { return block_reduce(value, Add(), 0.0f); }
__device__ float block_max(float value) { return block_reduce(value, Max(), -FLT_MAX); }

__device__ __forceinline__ float dot4(float4 a, float4 b) {
    return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
}

__device__ __forceinline__ float distance4(float4 a, float4 b) {
    float x = a.x - b.x, y = a.y - b.y, z = a.z - b.z, w = a.w - b.w;
    return x * x + y * y + z * z + w * w;
}

// ---------------------------------------------------------------------------------------------
// Group A

__global__ void norm_rows(const float* __restrict__ x, float* __restrict__ y, int cols) {
    const float* row = x + static_cast<size_t>(blockIdx.x) * cols;
    float* out = y + static_cast<size_t>(blockIdx.x) * cols;
    float sum = 0.0f;
    for (int c = threadIdx.x; c < cols; c += blockDim.x) sum += LD(row[c]);
    float mean = block_sum(sum) / cols;
    float squares = 0.0f;
    for (int c = threadIdx.x; c < cols; c += blockDim.x) {
        float d = LD(row[c]) - mean;
        squares += d * d;
    }
    float scale = rsqrtf(block_sum(squares) / cols + 1e-5f);
    for (int c = threadIdx.x; c < cols; c += blockDim.x) out[c] = (LD(row[c]) - mean) * scale;
}

// vectors: float4 per row
__global__ void rhs_rows(const float4* matrix, const float4* rhs, float* y, int vectors,
                         int n_rhs) {
    int row = blockIdx.x;
    for (int r = 0; r < n_rhs; ++r) {
        float sum = 0.0f;
        for (int c = threadIdx.x; c < vectors; c += blockDim.x)
            sum += dot4(LD(matrix[static_cast<size_t>(row) * vectors + c]),
                        LD(rhs[r * vectors + c]));
        sum = block_sum(sum);
        if (threadIdx.x == 0) y[r * gridDim.x + row] = sum;
    }
}

__global__ void filter_planes(const float* __restrict__ image, const float* __restrict__ weights,
                              float* __restrict__ planes, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    int filter = blockIdx.z;
    if (x >= width || y >= height) return;
    float sum = 0.0f;
    for (int dy = -1; dy <= 1; ++dy)
        for (int dx = -1; dx <= 1; ++dx)
            if (x + dx >= 0 && x + dx < width && y + dy >= 0 && y + dy < height)
                sum += LD(image[(y + dy) * width + x + dx]) *
                       LD(weights[filter * 9 + (dy + 1) * 3 + dx + 1]);
    planes[(static_cast<size_t>(filter) * height + y) * width + x] = sum;
}

// One block of 32x32 threads per strip of 32 columns.
__device__ float strip_sum(float value) {
    __shared__ float partial[32][33];
    __syncthreads();
    partial[threadIdx.y][threadIdx.x] = value;
    __syncthreads();
    float sum = 0.0f;
    for (int i = 0; i < 32; ++i) sum += partial[i][threadIdx.x];
    return sum;
}

__global__ void column_moments(const float* m, float* moments, int rows, int cols) {
    int col = blockIdx.x * 32 + threadIdx.x;
    float sum = 0.0f;
    for (int r = threadIdx.y; r < rows; r += 32) sum += LD(m[static_cast<size_t>(r) * cols + col]);
    float mean = strip_sum(sum) / rows;
    float squares = 0.0f;
    for (int r = threadIdx.y; r < rows; r += 32) {
        float d = LD(m[static_cast<size_t>(r) * cols + col]) - mean;
        squares += d * d;
    }
    float scale = rsqrtf(strip_sum(squares) / rows);
    float cubes = 0.0f;
    for (int r = threadIdx.y; r < rows; r += 32) {
        float d = (LD(m[static_cast<size_t>(r) * cols + col]) - mean) * scale;
        cubes += d * d * d;
    }
    float skew = strip_sum(cubes) / rows;
    if (threadIdx.y == 0) {
        moments[col] = mean;
        moments[cols + col] = scale;
        moments[2 * cols + col] = skew;
    }
}

__global__ void score_table(const float4* __restrict__ table, const float4* __restrict__ queries,
                            float* __restrict__ best, int entries, int batches) {
    for (int batch = 0; batch < batches; ++batch) {
        float4 q0 = LD(queries[batch * 2]);
        float4 q1 = LD(queries[batch * 2 + 1]);
        float score = -FLT_MAX;
        for (int e = global_thread(); e < entries; e += grid_threads()) {
            float4 entry = LD(table[e]);
            score = fmaxf(score, fmaxf(dot4(entry, q0), dot4(entry, q1)));
        }
        score = block_max(score);
        if (threadIdx.x == 0) best[batch * gridDim.x + blockIdx.x] = score;
    }
}

constexpr int kChunk = 8;

__global__ void assign_points(const float4* points, const float4* centroids, float* best,
                              int* label, int n, int n_centroids) {
    __shared__ float4 chunk[kChunk];
    for (int first = 0; first < n_centroids; first += kChunk) {
        __syncthreads();
        if (threadIdx.x < kChunk) chunk[threadIdx.x] = LD(centroids[first + threadIdx.x]);
        __syncthreads();
        for (int i = global_thread(); i < n; i += grid_threads()) {
            float4 p = LD(points[i]);
            float nearest = first == 0 ? FLT_MAX : LD(best[i]);
            int which = -1;
            for (int c = 0; c < kChunk; ++c) {
                float d = distance4(p, chunk[c]);
                if (d < nearest) {
                    nearest = d;
                    which = first + c;
                }
            }
            if (which >= 0) {
                best[i] = nearest;
                label[i] = which;
            }
        }
    }
}

constexpr int kBinsPerRange = 4096;

// The bins do not fit into shared memory: blockIdx.y selects a range of them.
__global__ void bin_ranges(const unsigned* __restrict__ keys, unsigned* __restrict__ bins, int n,
                           int shift) {
    __shared__ unsigned counts[kBinsPerRange];
    for (int b = threadIdx.x; b < kBinsPerRange; b += blockDim.x) counts[b] = 0;
    __syncthreads();
    unsigned first = blockIdx.y * kBinsPerRange;
    for (int i = global_thread(); i < n; i += grid_threads()) {
        unsigned bin = (LD(keys[i]) >> shift) - first;
        if (bin < kBinsPerRange) atomicAdd(&counts[bin], 1u);
    }
    __syncthreads();
    for (int b = threadIdx.x; b < kBinsPerRange; b += blockDim.x)
        if (counts[b]) atomicAdd(&bins[first + b], counts[b]);
}

__global__ void mix_channels(const float4* pixels, const float4* mixer, float* planes, int n,
                             int out_channels) {
    for (int channel = 0; channel < out_channels; ++channel) {
        float4 weight = LD(mixer[channel]);
        float* plane = planes + static_cast<size_t>(channel) * n;
        for (int i = global_thread(); i < n; i += grid_threads())
            plane[i] = fmaxf(dot4(LD(pixels[i]), weight), 0.0f);
    }
}

constexpr int kTileRows = 64, kTileCols = 4, kTileDepth = 32;

// c = a * b for a of rows x depth and b of depth x cols; 256 threads per tile of 64x4.
__device__ __forceinline__ void product_tile(const float* __restrict__ a,
                                             const float* __restrict__ b, float* __restrict__ c,
                                             int row0, int col0, int depth, int cols) {
    __shared__ float a_tile[kTileRows][kTileDepth + 1];
    __shared__ float b_tile[kTileDepth][kTileCols];
    int row = threadIdx.x % kTileRows, col = threadIdx.x / kTileRows;
    float sum = 0.0f;
    for (int k0 = 0; k0 < depth; k0 += kTileDepth) {
        for (int i = threadIdx.x; i < kTileRows * kTileDepth; i += 256)
            a_tile[i / kTileDepth][i % kTileDepth] =
                LD(a[static_cast<size_t>(row0 + i / kTileDepth) * depth + k0 + i % kTileDepth]);
        if (threadIdx.x < kTileDepth * kTileCols)
            b_tile[threadIdx.x / kTileCols][threadIdx.x % kTileCols] =
                LD(b[(k0 + threadIdx.x / kTileCols) * cols + col0 + threadIdx.x % kTileCols]);
        __syncthreads();
        for (int k = 0; k < kTileDepth; ++k) sum += a_tile[row][k] * b_tile[k][col];
        __syncthreads();
    }
    c[static_cast<size_t>(row0 + row) * cols + col0 + col] = sum;
}

__global__ void __launch_bounds__(256) skinny_product(const float* __restrict__ a,
                                                      const float* __restrict__ b,
                                                      float* __restrict__ c, int depth, int cols) {
    product_tile(a, b, c, blockIdx.x * kTileRows, blockIdx.y * kTileCols, depth, cols);
}

// One independent rod per block; u and v take turns as input and output.
__global__ void heat_rods(float* u, float* v, int length, int steps, float rate) {
    float* from = u + static_cast<size_t>(blockIdx.x) * length;
    float* to = v + static_cast<size_t>(blockIdx.x) * length;
    for (int step = 0; step < steps; ++step) {
        for (int i = threadIdx.x; i < length; i += blockDim.x) {
            float here = LD(from[i]);
            float left = i > 0 ? LD(from[i - 1]) : here;
            float right = i + 1 < length ? LD(from[i + 1]) : here;
            to[i] = here + rate * (left - 2.0f * here + right);
        }
        __syncthreads();
        float* swap = from;
        from = to;
        to = swap;
    }
}

// In-place Walsh-Hadamard transform of 4^quarter_bits floats by one block.
__device__ __forceinline__ void walsh(float* data, int quarter_bits) {
    int quads = 1 << (2 * quarter_bits - 2);
    for (int bits = 0; bits < 2 * quarter_bits; bits += 2) {
        int stride = 1 << bits;
        for (int i = threadIdx.x; i < quads; i += blockDim.x) {
            int at = ((i >> bits) << (bits + 2)) + (i & (stride - 1));
            float a = LD(data[at]), b = LD(data[at + stride]);
            float c = LD(data[at + 2 * stride]), d = LD(data[at + 3 * stride]);
            data[at] = 0.5f * (a + b + c + d);
            data[at + stride] = 0.5f * (a - b + c - d);
            data[at + 2 * stride] = 0.5f * (a + b - c - d);
            data[at + 3 * stride] = 0.5f * (a - b - c + d);
        }
        __syncthreads();
    }
}

__global__ void walsh_segments(float* data, int quarter_bits) {
    walsh(data + (static_cast<size_t>(blockIdx.x) << (2 * quarter_bits)), quarter_bits);
}

__global__ void vector_suite(const float* a, const float* b, float* sum, float* product,
                             float* dots, int n) {
    for (int i = global_thread(); i < n; i += grid_threads()) sum[i] = LD(a[i]) + LD(b[i]);
    for (int i = global_thread(); i < n; i += grid_threads()) product[i] = LD(a[i]) * LD(b[i]);
    float dot = 0.0f;
    for (int i = global_thread(); i < n; i += grid_threads()) dot += LD(a[i]) * LD(b[i]);
    dot = block_sum(dot);
    if (threadIdx.x == 0) dots[blockIdx.x] = dot;
}

// All blocks of the grid must be resident.
__device__ void grid_barrier(unsigned* arrived, unsigned target) {
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        atomicAdd(arrived, 1u);
        while (atomicAdd(arrived, 0u) < target) __nanosleep(100);
    }
    __syncthreads();
    __threadfence();
}

__global__ void __launch_bounds__(512, 4) rescale_signal(const float* signal, float* scaled,
                                                      float* partials, unsigned* arrived, int n) {
    float low = FLT_MAX, high = -FLT_MAX;
    for (int i = global_thread(); i < n; i += grid_threads()) {
        float value = LD(signal[i]);
        low = fminf(low, value);
        high = fmaxf(high, value);
    }
    low = -block_max(-low);
    high = block_max(high);
    if (threadIdx.x == 0) {
        partials[2 * blockIdx.x] = low;
        partials[2 * blockIdx.x + 1] = high;
    }
    grid_barrier(arrived, gridDim.x);
    for (int b = threadIdx.x; b < gridDim.x; b += blockDim.x) {
        low = fminf(low, LD(partials[2 * b]));
        high = fmaxf(high, LD(partials[2 * b + 1]));
    }
    low = -block_max(-low);
    high = block_max(high);
    float scale = 1.0f / (high - low);
    for (int i = global_thread(); i < n; i += grid_threads())
        scaled[i] = (LD(signal[i]) - low) * scale;
}

// Every block compares its two queries with all sites, starting at a place of its own.
__global__ void nearest_site(const float4* __restrict__ sites, const float4* __restrict__ queries,
                             float* __restrict__ nearest, int n) {
    float4 q0 = LD(queries[2 * blockIdx.x]);
    float4 q1 = LD(queries[2 * blockIdx.x + 1]);
    int start = blockIdx.x * (n / gridDim.x);
    float d0 = FLT_MAX, d1 = FLT_MAX;
#pragma unroll 4
    for (int k = threadIdx.x; k < n; k += blockDim.x) {
        int i = start + k < n ? start + k : start + k - n;
        float4 site = LD(sites[i]);
        d0 = fminf(d0, distance4(site, q0));
        d1 = fminf(d1, distance4(site, q1));
    }
    d0 = -block_max(-d0);
    d1 = -block_max(-d1);
    if (threadIdx.x == 0) {
        nearest[2 * blockIdx.x] = d0;
        nearest[2 * blockIdx.x + 1] = d1;
    }
}

// ---------------------------------------------------------------------------------------------
// Group B

__global__ void softmax_rows(const float* __restrict__ x, float* __restrict__ y, int cols) {
    const float* row = x + static_cast<size_t>(blockIdx.x) * cols;
    float* out = y + static_cast<size_t>(blockIdx.x) * cols;
    float high = -FLT_MAX;
    for (int c = threadIdx.x; c < cols; c += blockDim.x) high = fmaxf(high, LD(row[c]));
    high = block_max(high);
    float sum = 0.0f;
    for (int c = threadIdx.x; c < cols; c += blockDim.x) sum += __expf(LD(row[c]) - high);
    float scale = 1.0f / block_sum(sum);
    for (int c = threadIdx.x; c < cols; c += blockDim.x)
        out[c] = __expf(LD(row[c]) - high) * scale;
}

constexpr int kLineVectors = 4;  // float4 per thread: 256 threads hold a line of 4096 floats

__global__ void __launch_bounds__(256) norm_lines(const float4* __restrict__ x,
                                                  float4* __restrict__ y) {
    size_t first = static_cast<size_t>(blockIdx.x) * kLineVectors * 256 + threadIdx.x;
    float4 v[kLineVectors];
    float sum = 0.0f;
    for (int k = 0; k < kLineVectors; ++k) {
        v[k] = LD(x[first + k * 256]);
        sum += v[k].x + v[k].y + v[k].z + v[k].w;
    }
    float mean = block_sum(sum) / (kLineVectors * 1024);
    float4 center = make_float4(mean, mean, mean, mean);
    float squares = 0.0f;
    for (int k = 0; k < kLineVectors; ++k) squares += distance4(v[k], center);
    float scale = rsqrtf(block_sum(squares) / (kLineVectors * 1024) + 1e-5f);
    for (int k = 0; k < kLineVectors; ++k)
        y[first + k * 256] = make_float4((v[k].x - mean) * scale, (v[k].y - mean) * scale,
                                         (v[k].z - mean) * scale, (v[k].w - mean) * scale);
}

__global__ void five_point(const float* in, float* out, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < 1 || y < 1 || x >= width - 1 || y >= height - 1) return;
    int i = y * width + x;
    out[i] = 0.2f * (LD(in[i]) + LD(in[i - 1]) + LD(in[i + 1]) + LD(in[i - width]) +
                     LD(in[i + width]));
}

// Marches along z with three values of the own column in registers.
__global__ void cube_laplace(const float* __restrict__ in, float* __restrict__ out, int nx, int ny,
                             int nz, int depth) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    int z0 = max(1, static_cast<int>(blockIdx.z) * depth);
    int z1 = min(nz - 1, static_cast<int>(blockIdx.z + 1) * depth);
    if (x < 1 || y < 1 || x >= nx - 1 || y >= ny - 1) return;
    int plane = nx * ny;
    int i = z0 * plane + y * nx + x;
    float below = LD(in[i - plane]), here = LD(in[i]);
    for (int z = z0; z < z1; ++z, i += plane) {
        float above = LD(in[i + plane]);
        out[i] = below + above + LD(in[i - 1]) + LD(in[i + 1]) + LD(in[i - nx]) + LD(in[i + nx]) -
                 6.0f * here;
        below = here;
        here = above;
    }
}

__global__ void flip_tiles(const float* __restrict__ in, float* __restrict__ out, int width,
                           int height) {
    __shared__ float tile[32][33];
    int x = blockIdx.x * 32 + threadIdx.x;
    for (int k = threadIdx.y; k < 32; k += blockDim.y)
        tile[k][threadIdx.x] = LD(in[static_cast<size_t>(blockIdx.y * 32 + k) * width + x]);
    __syncthreads();
    int y = blockIdx.y * 32 + threadIdx.x;
    for (int k = threadIdx.y; k < 32; k += blockDim.y)
        out[static_cast<size_t>(blockIdx.x * 32 + k) * height + y] = tile[threadIdx.x][k];
}

constexpr int kTaps = 8;

__global__ void fir_taps(const float* __restrict__ x, const float* __restrict__ taps,
                         float* __restrict__ y, int n) {
    int i = global_thread();
    if (i >= n - kTaps) return;
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < kTaps; ++k) sum += LD(x[i + k]) * LD(taps[k]);
    y[i] = sum;
}

__global__ void dot_pair(const float* a, const float* b, float* dots, int n) {
    int stride = grid_threads();
    float s0 = 0.0f, s1 = 0.0f, s2 = 0.0f, s3 = 0.0f;
    int i = global_thread();
    for (; i + 3 * stride < n; i += 4 * stride) {
        s0 += LD(a[i]) * LD(b[i]);
        s1 += LD(a[i + stride]) * LD(b[i + stride]);
        s2 += LD(a[i + 2 * stride]) * LD(b[i + 2 * stride]);
        s3 += LD(a[i + 3 * stride]) * LD(b[i + 3 * stride]);
    }
    for (; i < n; i += stride) s0 += LD(a[i]) * LD(b[i]);
    float dot = block_sum(s0 + s1 + s2 + s3);
    if (threadIdx.x == 0) dots[blockIdx.x] = dot;
}

__global__ void gamma_halves(float* samples, int n, float gain) {
    for (int i = global_thread(); i < n / 2; i += grid_threads())
        samples[i] = sqrtf(LD(samples[i])) * gain;
    for (int i = n / 2 + global_thread(); i < n; i += grid_threads()) {
        float sample = LD(samples[i]);
        samples[i] = sample * sample * gain;
    }
}

__global__ void __launch_bounds__(256) narrow_product(const float* __restrict__ a,
                                                      const float* __restrict__ b,
                                                      float* __restrict__ c, int depth, int cols) {
    product_tile(a, b, c, blockIdx.y * kTileRows, blockIdx.x * kTileCols, depth, cols);
}

__global__ void filter_stack(const float* __restrict__ image, const float* __restrict__ weights,
                             float* __restrict__ planes, int width, int height, int n_filters) {
    __shared__ float tile[10][34];
    int x0 = blockIdx.x * 32 - 1, y0 = blockIdx.y * 8 - 1;
    for (int i = threadIdx.y * 32 + threadIdx.x; i < 340; i += 256) {
        int x = x0 + i % 34, y = y0 + i / 34;
        bool inside = x >= 0 && x < width && y >= 0 && y < height;
        tile[i / 34][i % 34] = inside ? LD(image[y * width + x]) : 0.0f;
    }
    __syncthreads();
    int x = x0 + 1 + threadIdx.x, y = y0 + 1 + threadIdx.y;
    for (int filter = 0; filter < n_filters; ++filter) {
        float sum = 0.0f;
        for (int dy = 0; dy < 3; ++dy)
            for (int dx = 0; dx < 3; ++dx)
                sum += tile[threadIdx.y + dy][threadIdx.x + dx] *
                       LD(weights[filter * 9 + dy * 3 + dx]);
        planes[(static_cast<size_t>(filter) * height + y) * width + x] = sum;
    }
}

constexpr int kMaxCentroids = 64;

__global__ void label_points(const float4* points, const float4* centroids, int* label, int n,
                             int n_centroids) {
    __shared__ float4 all[kMaxCentroids];
    if (threadIdx.x < n_centroids) all[threadIdx.x] = LD(centroids[threadIdx.x]);
    __syncthreads();
    for (int i = global_thread(); i < n; i += grid_threads()) {
        float4 p = LD(points[i]);
        float nearest = FLT_MAX;
        int which = 0;
        for (int first = 0; first < n_centroids; first += kChunk)
            for (int c = first; c < first + kChunk; ++c) {
                float d = distance4(p, all[c]);
                if (d < nearest) {
                    nearest = d;
                    which = c;
                }
            }
        label[i] = which;
    }
}

constexpr int kCell = 4096;

__global__ void heat_cells(float* u, float* v, int steps, float rate) {
    __shared__ float buffer[2][kCell];
    size_t first = static_cast<size_t>(blockIdx.x) * kCell;
    for (int i = threadIdx.x; i < kCell; i += blockDim.x) buffer[0][i] = LD(u[first + i]);
    __syncthreads();
    for (int step = 0; step < steps; ++step) {
        const float* from = buffer[step % 2];
        float* to = buffer[1 - step % 2];
        for (int i = threadIdx.x; i < kCell; i += blockDim.x) {
            float here = from[i];
            float left = i > 0 ? from[i - 1] : here;
            float right = i + 1 < kCell ? from[i + 1] : here;
            to[i] = here + rate * (left - 2.0f * here + right);
        }
        __syncthreads();
    }
    for (int i = threadIdx.x; i < kCell; i += blockDim.x) v[first + i] = buffer[steps % 2][i];
}

__global__ void walsh_blocks(float* data, int quarter_bits) {
    walsh(data + (static_cast<size_t>(blockIdx.x) << (2 * quarter_bits)), quarter_bits);
}

__global__ void rhs_lines(const float* matrix, const float* rhs, float* y, int cols, int n_rhs) {
    int row = blockIdx.x;
    for (int r = 0; r < n_rhs; ++r) {
        float sum = 0.0f;
        for (int c = threadIdx.x; c < cols; c += blockDim.x)
            sum += LD(matrix[static_cast<size_t>(row) * cols + c]) * LD(rhs[r * cols + c]);
        sum = block_sum(sum);
        if (threadIdx.x == 0) y[r * gridDim.x + row] = sum;
    }
}

// ---------------------------------------------------------------------------------------------
// Group C

struct Shape {
    unsigned d0, d1, d2, d3;
};

// The input has shape d0 x d1 x d2 x d3; the output swaps the two middle axes.
__device__ __forceinline__ unsigned swapped_offset(unsigned i, Shape s) {
    unsigned i3 = i % s.d3;
    unsigned rest = i / s.d3;
    unsigned i1 = rest % s.d1;
    rest /= s.d1;
    unsigned i2 = rest % s.d2;
    unsigned i0 = rest / s.d2;
    return ((i0 * s.d1 + i1) * s.d2 + i2) * s.d3 + i3;
}

__global__ void permute_bytes(const uint8_t* __restrict__ in, uint8_t* __restrict__ out, Shape s,
                              unsigned n) {
    unsigned i = global_thread();
    if (i < n) out[i] = in[swapped_offset(i, s)];
}

__global__ void zoom_image(const uint8_t* in, uint8_t* out, long long in_w, long long in_h,
                           long long out_w, long long out_h) {
    long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= out_w * out_h) return;
    long long y = i / out_w, x = i % out_w;
    long long from_y = y * in_h / out_h, from_x = x * in_w / out_w;
    out[i] = in[from_y * in_w + from_x];
}

__global__ void window_mean(const float* in, float* out, int width, int height, int radius) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    float sum = 0.0f;
    for (int dy = -radius; dy <= radius; ++dy)
        for (int dx = -radius; dx <= radius; ++dx) {
            int row = min(max(y + dy, 0), height - 1);
            int col = min(max(x + dx, 0), width - 1);
            sum += in[row * width + col];
        }
    out[y * width + x] = sum / ((2 * radius + 1) * (2 * radius + 1));
}

__device__ __forceinline__ unsigned spread_bits(unsigned v) {
    v &= 0x3ff;
    v = (v | v << 16) & 0x030000ff;
    v = (v | v << 8) & 0x0300f00f;
    v = (v | v << 4) & 0x030c30c3;
    return (v | v << 2) & 0x09249249;
}

__device__ __forceinline__ unsigned gather_bits(unsigned v) {
    v &= 0x09249249;
    v = (v | v >> 2) & 0x030c30c3;
    v = (v | v >> 4) & 0x0300f00f;
    v = (v | v >> 8) & 0x030000ff;
    return (v | v >> 16) & 0x3ff;
}

// Volume of side^3 in Morton order; side is a power of two and the edges wrap.
__global__ void morton_mean(const float* __restrict__ in, float* __restrict__ out, unsigned side,
                            int radius) {
    unsigned i = global_thread();
    unsigned x = gather_bits(i), y = gather_bits(i >> 1), z = gather_bits(i >> 2);
    float sum = 0.0f;
    for (int dz = -radius; dz <= radius; ++dz)
        for (int dy = -radius; dy <= radius; ++dy)
            for (int dx = -radius; dx <= radius; ++dx) {
                unsigned at = spread_bits((x + dx) & (side - 1)) |
                              spread_bits((y + dy) & (side - 1)) << 1 |
                              spread_bits((z + dz) & (side - 1)) << 2;
                sum += in[at];
            }
    out[i] = sum;
}

__global__ void ring_filter(const float* ring, const float* taps, float* out, unsigned capacity,
                            unsigned head, unsigned step, int n_taps) {
    unsigned i = global_thread();
    float sum = 0.0f;
    for (int k = 0; k < n_taps; ++k) sum += ring[(head + i + k * step) % capacity] * taps[k];
    out[i] = sum;
}

struct Texel {
    float value, weight;
};

// Adds a 2x2 window of every level of an image pyramid; the levels follow each other in memory.
__global__ void pyramid_sum(const Texel* __restrict__ pyramid, float* __restrict__ out, int width,
                            int height, int levels) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    float sum = 0.0f;
    size_t offset = 0;
    for (int level = 0; level < levels; ++level) {
        int w = max(width >> level, 1), h = max(height >> level, 1);
        for (int dy = 0; dy < 2; ++dy)
            for (int dx = 0; dx < 2; ++dx) {
                size_t row = min((y >> level) + dy, h - 1), col = min((x >> level) + dx, w - 1);
                Texel texel = pyramid[offset + row * w + col];
                sum += texel.value * texel.weight;
            }
        offset += static_cast<size_t>(w) * h;
    }
    out[y * width + x] = sum;
}

struct Patches {
    int channels, height, width, kernel, pad, images;
};

__global__ void im2col_patches(const float* __restrict__ in, float* __restrict__ out, Patches p,
                               int n) {
    int i = global_thread();
    if (i >= n) return;
    int x = i % p.width;
    int y = i / p.width % p.height;
    int image = i / p.width / p.height % p.images;
    int row = i / p.width / p.height / p.images;
    int kx = row % p.kernel;
    int ky = row / p.kernel % p.kernel;
    int channel = row / p.kernel / p.kernel;
    int from_x = x + kx - p.pad, from_y = y + ky - p.pad;
    bool inside = from_x >= 0 && from_x < p.width && from_y >= 0 && from_y < p.height;
    out[i] = inside
                 ? in[((image * p.channels + channel) * p.height + from_y) * p.width + from_x]
                 : 0.0f;
}

struct Roll {
    unsigned nx, ny, nz, dx, dy, dz;
};

__device__ __forceinline__ unsigned rolled_offset(unsigned i, Roll r) {
    unsigned x = i % r.nx;
    unsigned y = i / r.nx % r.ny;
    unsigned z = i / r.nx / r.ny;
    return ((z + r.dz) % r.nz * r.ny + (y + r.dy) % r.ny) * r.nx + (x + r.dx) % r.nx;
}

__global__ void roll_volume(const uint16_t* in, uint16_t* out, Roll r, unsigned n) {
    unsigned i = global_thread();
    if (i < n) out[i] = in[rolled_offset(i, r)];
}

// ---------------------------------------------------------------------------------------------
// Group D

__global__ void permute_quads(const float4* __restrict__ in, float4* __restrict__ out, Shape s,
                              unsigned n) {
    unsigned i = global_thread();
    if (i < n) out[i] = in[swapped_offset(i, s)];
}

__global__ void roll_rows(const float4* real, const float4* imag, float4* out_real,
                          float4* out_imag, Roll r, unsigned n) {
    unsigned i = global_thread();
    if (i >= n) return;
    unsigned from = rolled_offset(i, r);
    float4 a = real[from], b = imag[from];
    out_real[i] = a;
    out_imag[i] = b;
}

// Each load gives the index of the next one.
__global__ void chain_walk(const unsigned* links, unsigned* last, unsigned n, unsigned width,
                           int steps) {
    unsigned at = global_thread() % n;
    for (int step = 0; step < steps; ++step) {
        unsigned link = links[at];
        unsigned row = link / width, col = link % width;
        at = (row + col * width + step) % n;
    }
    last[global_thread()] = at;
}

__global__ void hash_keys(const unsigned* __restrict__ keys, unsigned* __restrict__ digests, int n,
                          int rounds) {
    int i = global_thread();
    if (i >= n) return;
    unsigned h = keys[i];
    for (int r = 0; r < rounds; ++r) {
        h ^= h >> 16;
        h *= 0x85ebca6bu;
        h ^= h >> 13;
        h *= 0xc2b2ae35u;
        h ^= h >> 16;
        h += r;
    }
    digests[i] = h;
}

__device__ __forceinline__ uint4 philox(uint4 counter, uint2 key) {
#pragma unroll
    for (int round = 0; round < 10; ++round) {
        unsigned hi0 = __umulhi(0xd2511f53u, counter.x), lo0 = 0xd2511f53u * counter.x;
        unsigned hi1 = __umulhi(0xcd9e8d57u, counter.z), lo1 = 0xcd9e8d57u * counter.z;
        counter = make_uint4(hi1 ^ counter.y ^ key.x, lo1, hi0 ^ counter.w ^ key.y, lo0);
        key.x += 0x9e3779b9u;
        key.y += 0xbb67ae85u;
    }
    return counter;
}

// Counts random points inside the quarter disc, in integer arithmetic.
__global__ void random_disc(unsigned* inside, int draws, unsigned seed) {
    unsigned count = 0;
    for (int d = 0; d < draws; ++d) {
        uint4 r = philox(make_uint4(global_thread(), d, 0, 0), make_uint2(seed, 0));
        count += __umulhi(r.x, r.x) + __umulhi(r.y, r.y) >= __umulhi(r.x, r.x);
        count += __umulhi(r.z, r.z) + __umulhi(r.w, r.w) >= __umulhi(r.z, r.z);
    }
    inside[global_thread()] = count;
}

constexpr int kLimbs = 8;

// Repeats a = low 256 bits of a * b; limb k of number i is at [k * n + i].
__global__ void multiply_limbs(const unsigned* __restrict__ a, const unsigned* __restrict__ b,
                               unsigned* __restrict__ out, int n, int repeats) {
    int i = global_thread();
    if (i >= n) return;
    unsigned x[kLimbs], y[kLimbs];
    for (int k = 0; k < kLimbs; ++k) {
        x[k] = a[k * n + i];
        y[k] = b[k * n + i] | 1u;
    }
    for (int r = 0; r < repeats; ++r) {
        unsigned z[kLimbs] = {};
#pragma unroll
        for (int j = 0; j < kLimbs; ++j) {
            unsigned long long carry = 0;
#pragma unroll
            for (int k = 0; k + j < kLimbs; ++k) {
                carry += static_cast<unsigned long long>(x[k]) * y[j] + z[k + j];
                z[k + j] = static_cast<unsigned>(carry);
                carry >>= 32;
            }
        }
        for (int k = 0; k < kLimbs; ++k) x[k] = z[k];
    }
    for (int k = 0; k < kLimbs; ++k) out[k * n + i] = x[k];
}

// Bitwise CRC-32 of records of 64 bytes.
__global__ void crc_records(const uint4* records, unsigned* crcs, int n) {
    int i = global_thread();
    if (i >= n) return;
    unsigned crc = 0xffffffffu;
    for (int part = 0; part < 4; ++part) {
        uint4 words = records[4 * i + part];
        unsigned data[4] = {words.x, words.y, words.z, words.w};
        for (int w = 0; w < 4; ++w) {
            crc ^= data[w];
            for (int bit = 0; bit < 32; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
        }
    }
    crcs[i] = ~crc;
}

// Smallest Hamming distance between a 256-bit code and the codes of a dictionary.
__global__ void code_distance(const unsigned* __restrict__ codes,
                              const unsigned* __restrict__ dictionary,
                              unsigned* __restrict__ nearest, int n, int entries) {
    extern __shared__ unsigned entry[];
    for (int k = threadIdx.x; k < entries * 8; k += blockDim.x) entry[k] = dictionary[k];
    __syncthreads();
    int i = global_thread();
    unsigned code[8];
    for (int k = 0; k < 8; ++k) code[k] = codes[k * n + i];
    unsigned best = 256;
    for (int e = 0; e < entries; ++e) {
        unsigned differing = 0;
        for (int k = 0; k < 8; ++k) differing += __popc(code[k] ^ entry[8 * e + k]);
        best = min(best, differing);
    }
    nearest[i] = best;
}

constexpr int kSorted = 64;

// Odd-even transposition network over 64 integers in registers.
__global__ void __launch_bounds__(128) sort_lanes(const int* __restrict__ in,
                                                  int* __restrict__ out, int n) {
    int i = global_thread();
    if (i >= n) return;
    int v[kSorted];
#pragma unroll
    for (int k = 0; k < kSorted; ++k) v[k] = in[k * n + i];
#pragma unroll
    for (int round = 0; round < kSorted; ++round)
#pragma unroll
        for (int k = round % 2; k + 1 < kSorted; k += 2) {
            int low = min(v[k], v[k + 1]), high = max(v[k], v[k + 1]);
            v[k] = low;
            v[k + 1] = high;
        }
#pragma unroll
    for (int k = 0; k < kSorted; ++k) out[k * n + i] = v[k];
}

// ---------------------------------------------------------------------------------------------
// Host side

constexpr size_t kBig = size_t{1} << 28;      // floats in each of the two large buffers
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

Launch launch_norm_rows(const Buffers& b) {
    int rows = 256, cols = 1 << 18;
    size_t n = size_t(rows) * cols;
    return launch({array("x", b.in, n)}, b.out, n,
                  [=] { norm_rows<<<rows, 1024>>>(b.in, b.out, cols); });
}

Launch launch_rhs_rows(const Buffers& b) {
    int rows = 1024, vectors = 1 << 14, n_rhs = 6;
    auto matrix = b.in_as<float4>();
    auto rhs = b.small_in_as<float4>();
    return launch({array("matrix", matrix, size_t(rows) * vectors),
                   array("rhs", rhs, size_t(n_rhs) * vectors)},
                  b.small_out, size_t(n_rhs) * rows, [=] {
                      rhs_rows<<<rows, 256>>>(matrix, rhs, b.small_out, vectors, n_rhs);
                  });
}

Launch launch_filter_planes(const Buffers& b) {
    int width = 8192, height = 4096, filters = 6;
    size_t n = size_t(width) * height;
    dim3 grid(width / 32, height / 8, filters), block(32, 8);
    return launch({array("image", b.in, n), array("weights", b.small_in, 9 * filters)}, b.out,
                  n * filters,
                  [=] { filter_planes<<<grid, block>>>(b.in, b.small_in, b.out, width, height); });
}

Launch launch_column_moments(const Buffers& b) {
    int rows = 9000, cols = 8192;
    return launch({array("m", b.in, size_t(rows) * cols)}, b.small_out, 3 * cols, [=] {
        column_moments<<<cols / 32, dim3(32, 32)>>>(b.in, b.small_out, rows, cols);
    });
}

Launch launch_score_table(const Buffers& b) {
    int entries = 12500000, batches = 6, grid = b.sms * 6;
    auto table = b.in_as<float4>();
    auto queries = b.small_in_as<float4>();
    return launch({array("table", table, entries), array("queries", queries, 2 * batches)},
                  b.small_out, size_t(batches) * grid, [=] {
                      score_table<<<grid, 256>>>(table, queries, b.small_out, entries, batches);
                  });
}

Launch launch_assign_points(const Buffers& b) {
    int n = 12000000, n_centroids = 32;
    auto points = b.in_as<float4>();
    auto centroids = b.small_in_as<float4>();
    int* label = b.out_as<int>() + kBig / 2;
    return launch({array("points", points, n), array("centroids", centroids, n_centroids),
                   array("best", b.out, n)},
                  label, n, [=] {
                      assign_points<<<b.sms * 4, 256>>>(points, centroids, b.out, label, n,
                                                        n_centroids);
                  });
}

Launch launch_bin_ranges(const Buffers& b) {
    int n = kWords, ranges = 4, shift = 18;  // 2^32 / 2^18 bins in ranges of 4096
    auto bins = b.small_out_as<unsigned>();
    // One range fills the GPU, so the ranges run one after another.
    dim3 grid(b.sms * 4, ranges);
    return launch({array("keys", b.words, n)}, bins, ranges * kBinsPerRange,
                  [=] { bin_ranges<<<grid, 512>>>(b.words, bins, n, shift); });
}

Launch launch_mix_channels(const Buffers& b) {
    int n = 1 << 24, out_channels = 4;
    auto pixels = b.in_as<float4>();
    auto mixer = b.small_in_as<float4>();
    return launch({array("pixels", pixels, n), array("mixer", mixer, out_channels)}, b.out,
                  size_t(n) * out_channels, [=] {
                      mix_channels<<<b.sms * 8, 256>>>(pixels, mixer, b.out, n, out_channels);
                  });
}

Launch launch_skinny_product(const Buffers& b) {
    int rows = 1 << 18, depth = 256, cols = 16;
    dim3 grid(rows / kTileRows, cols / kTileCols);
    return launch({array("a", b.in, size_t(rows) * depth), array("b", b.small_in, depth * cols)},
                  b.out, size_t(rows) * cols, [=] {
                      skinny_product<<<grid, 256>>>(b.in, b.small_in, b.out, depth, cols);
                  });
}

Launch launch_heat_rods(const Buffers& b) {
    int rods = 264, length = 1 << 18, steps = 6;
    size_t n = size_t(rods) * length;
    return launch({array("u", b.in, n), array("v", b.out, n)}, b.in, n,
                  [=] { heat_rods<<<rods, 1024>>>(b.in, b.out, length, steps, 0.25f); });
}

Launch launch_walsh_segments(const Buffers& b) {
    int segments = 256, quarter_bits = 9;
    size_t n = size_t(segments) << (2 * quarter_bits);
    return launch({array("data", b.in, n)}, b.in, n,
                  [=] { walsh_segments<<<segments, 1024>>>(b.in, quarter_bits); });
}

Launch launch_vector_suite(const Buffers& b) {
    int n = 1 << 25;
    float *second = b.in + n, *product = b.out + n;
    return launch({array("a", b.in, n), array("b", second, n)}, b.out, 2 * size_t(n), [=] {
        vector_suite<<<b.sms * 8, 256>>>(b.in, second, b.out, product, b.small_out, n);
    });
}

Launch launch_rescale_signal(const Buffers& b) {
    int n = 73000000, grid = b.sms * 4;
    auto arrived = b.small_out_as<unsigned>() + kSmall / 2;
    return launch({array("signal", b.in, n), array("partials", b.small_out, 2 * grid)}, b.out, n,
                  [=] { rescale_signal<<<grid, 512>>>(b.in, b.out, b.small_out, arrived, n); });
}

Launch launch_nearest_site(const Buffers& b) {
    int n = 6500000, grid = b.sms;
    auto sites = b.in_as<float4>();
    auto queries = b.small_in_as<float4>();
    return launch({array("sites", sites, n), array("queries", queries, 2 * grid)}, b.small_out,
                  2 * grid, [=] { nearest_site<<<grid, 1024>>>(sites, queries, b.small_out, n); });
}

// Group B

Launch launch_softmax_rows(const Buffers& b) {
    int rows = 1 << 16, cols = 2048;
    size_t n = size_t(rows) * cols;
    return launch({array("x", b.in, n)}, b.out, n,
                  [=] { softmax_rows<<<rows, 256>>>(b.in, b.out, cols); });
}

Launch launch_norm_lines(const Buffers& b) {
    int lines = 1 << 15;
    size_t n = size_t(lines) * kLineVectors * 256;
    auto x = b.in_as<float4>();
    auto y = b.out_as<float4>();
    return launch({array("x", x, n)}, y, n, [=] { norm_lines<<<lines, 256>>>(x, y); });
}

Launch launch_five_point(const Buffers& b) {
    int width = 16384, height = 8192;
    size_t n = size_t(width) * height;
    dim3 grid(width / 32, height / 8), block(32, 8);
    return launch({array("in", b.in, n)}, b.out, n,
                  [=] { five_point<<<grid, block>>>(b.in, b.out, width, height); });
}

Launch launch_cube_laplace(const Buffers& b) {
    int side = 512, depth = 64;
    size_t n = size_t(side) * side * side;
    dim3 grid(side / 32, side / 8, side / depth), block(32, 8);
    return launch({array("in", b.in, n)}, b.out, n, [=] {
        cube_laplace<<<grid, block>>>(b.in, b.out, side, side, side, depth);
    });
}

Launch launch_flip_tiles(const Buffers& b) {
    int width = 16384, height = 8192;
    size_t n = size_t(width) * height;
    dim3 grid(width / 32, height / 32), block(32, 8);
    return launch({array("in", b.in, n)}, b.out, n,
                  [=] { flip_tiles<<<grid, block>>>(b.in, b.out, width, height); });
}

Launch launch_fir_taps(const Buffers& b) {
    int n = 1 << 27;
    return launch({array("x", b.in, n), array("taps", b.small_in, kTaps)}, b.out, n - kTaps, [=] {
        fir_taps<<<blocks_for(n, 256), 256>>>(b.in, b.small_in, b.out, n);
    });
}

Launch launch_dot_pair(const Buffers& b) {
    int n = 200000000, grid = b.sms * 8;
    return launch({array("a", b.in, n), array("b", b.out, n)}, b.small_out, grid,
                  [=] { dot_pair<<<grid, 256>>>(b.in, b.out, b.small_out, n); });
}

Launch launch_gamma_halves(const Buffers& b) {
    int n = 250000000;
    return launch({array("samples", b.in, n)}, b.in, n,
                  [=] { gamma_halves<<<b.sms * 8, 256>>>(b.in, n, 1.5f); });
}

Launch launch_narrow_product(const Buffers& b) {
    int rows = 1 << 19, depth = 256, cols = 16;
    dim3 grid(cols / kTileCols, rows / kTileRows);
    return launch({array("a", b.in, size_t(rows) * depth), array("b", b.small_in, depth * cols)},
                  b.out, size_t(rows) * cols, [=] {
                      narrow_product<<<grid, 256>>>(b.in, b.small_in, b.out, depth, cols);
                  });
}

Launch launch_filter_stack(const Buffers& b) {
    int width = 8192, height = 4096, filters = 6;
    size_t n = size_t(width) * height;
    dim3 grid(width / 32, height / 8), block(32, 8);
    return launch({array("image", b.in, n), array("weights", b.small_in, 9 * filters)}, b.out,
                  n * filters, [=] {
                      filter_stack<<<grid, block>>>(b.in, b.small_in, b.out, width, height,
                                                    filters);
                  });
}

Launch launch_label_points(const Buffers& b) {
    int n = 1 << 25, n_centroids = 16;
    auto points = b.in_as<float4>();
    auto centroids = b.small_in_as<float4>();
    auto label = b.out_as<int>();
    return launch({array("points", points, n), array("centroids", centroids, n_centroids)}, label,
                  n, [=] {
                      label_points<<<b.sms * 8, 256>>>(points, centroids, label, n, n_centroids);
                  });
}

Launch launch_heat_cells(const Buffers& b) {
    int cells = 1 << 15, steps = 4;
    size_t n = size_t(cells) * kCell;
    return launch({array("u", b.in, n)}, b.out, n,
                  [=] { heat_cells<<<cells, 256>>>(b.in, b.out, steps, 0.25f); });
}

Launch launch_walsh_blocks(const Buffers& b) {
    int segments = 1 << 15, quarter_bits = 6;
    size_t n = size_t(segments) << (2 * quarter_bits);
    return launch({array("data", b.in, n)}, b.in, n,
                  [=] { walsh_blocks<<<segments, 256>>>(b.in, quarter_bits); });
}

Launch launch_rhs_lines(const Buffers& b) {
    int rows = 1 << 16, cols = 4096, n_rhs = 4;
    return launch({array("matrix", b.in, size_t(rows) * cols),
                   array("rhs", b.small_in, size_t(n_rhs) * cols)},
                  b.small_out, size_t(n_rhs) * rows,
                  [=] { rhs_lines<<<rows, 256>>>(b.in, b.small_in, b.small_out, cols, n_rhs); });
}

// Group C

Launch launch_permute_bytes(const Buffers& b) {
    Shape shape{16, 256, 256, 128};
    unsigned n = shape.d0 * shape.d1 * shape.d2 * shape.d3;
    auto in = reinterpret_cast<uint8_t*>(b.words);
    auto out = b.out_as<uint8_t>();
    return launch({}, out, n,
                  [=] { permute_bytes<<<blocks_for(n, 256), 256>>>(in, out, shape, n); });
}

Launch launch_zoom_image(const Buffers& b) {
    long long in_w = 3000, in_h = 2000, out_w = 8000, out_h = 6000;
    auto in = reinterpret_cast<uint8_t*>(b.words);
    auto out = b.out_as<uint8_t>();
    size_t n = out_w * out_h;
    return launch({}, out, n, [=] {
        zoom_image<<<blocks_for(n, 256), 256>>>(in, out, in_w, in_h, out_w, out_h);
    });
}

Launch launch_window_mean(const Buffers& b) {
    int width = 4096, height = 4096, radius = 3;
    dim3 grid(width / 32, height / 8), block(32, 8);
    return launch({}, b.out, size_t(width) * height,
                  [=] { window_mean<<<grid, block>>>(b.in, b.out, width, height, radius); });
}

Launch launch_morton_mean(const Buffers& b) {
    unsigned side = 256;
    int n = side * side * side;
    return launch({}, b.out, n, [=] { morton_mean<<<n / 256, 256>>>(b.in, b.out, side, 1); });
}

Launch launch_ring_filter(const Buffers& b) {
    unsigned capacity = 1000003, head = 777777, step = 64;
    int n = 1 << 24, taps = 32;
    return launch({}, b.out, n, [=] {
        ring_filter<<<n / 256, 256>>>(b.in, b.small_in, b.out, capacity, head, step, taps);
    });
}

Launch launch_pyramid_sum(const Buffers& b) {
    int width = 4096, height = 4096, levels = 10;
    dim3 grid(width / 32, height / 8), block(32, 8);
    auto pyramid = b.in_as<Texel>();
    return launch({}, b.out, size_t(width) * height,
                  [=] { pyramid_sum<<<grid, block>>>(pyramid, b.out, width, height, levels); });
}

Launch launch_im2col_patches(const Buffers& b) {
    Patches p{64, 56, 56, 3, 1, 48};
    int n = p.channels * p.kernel * p.kernel * p.images * p.height * p.width;
    return launch({}, b.out, n,
                  [=] { im2col_patches<<<blocks_for(n, 256), 256>>>(b.in, b.out, p, n); });
}

Launch launch_roll_volume(const Buffers& b) {
    Roll roll{500, 400, 320, 123, 77, 11};
    unsigned n = roll.nx * roll.ny * roll.nz;
    auto in = reinterpret_cast<uint16_t*>(b.words);
    auto out = b.out_as<uint16_t>();
    return launch({}, out, n, [=] { roll_volume<<<blocks_for(n, 256), 256>>>(in, out, roll, n); });
}

// Group D

Launch launch_permute_quads(const Buffers& b) {
    Shape shape{16, 256, 256, 64};
    unsigned n = shape.d0 * shape.d1 * shape.d2 * shape.d3;
    auto in = b.in_as<float4>();
    auto out = b.out_as<float4>();
    return launch({}, out, n,
                  [=] { permute_quads<<<blocks_for(n, 256), 256>>>(in, out, shape, n); });
}

Launch launch_roll_rows(const Buffers& b) {
    Roll roll{512, 256, 256, 128, 77, 11};
    unsigned n = roll.nx * roll.ny * roll.nz;
    auto in = b.in_as<float4>();
    auto out = b.out_as<float4>();
    return launch({}, out, 2 * size_t(n), [=] {
        roll_rows<<<blocks_for(n, 256), 256>>>(in, in + n, out, out + n, roll, n);
    });
}

Launch launch_chain_walk(const Buffers& b) {
    int threads = b.sms * 128, steps = 1000;
    auto last = b.small_out_as<unsigned>();
    return launch({}, last, threads, [=] {
        chain_walk<<<b.sms, 128>>>(b.words, last, static_cast<unsigned>(kWords), 5000u, steps);
    });
}

Launch launch_hash_keys(const Buffers& b) {
    int n = kWords, rounds = 24;
    auto digests = b.out_as<unsigned>();
    return launch({}, digests, n, [=] {
        hash_keys<<<blocks_for(n, 256), 256>>>(b.words, digests, n, rounds);
    });
}

Launch launch_random_disc(const Buffers& b) {
    int threads = 1 << 20, draws = 64;
    auto inside = b.small_out_as<unsigned>();
    return launch({}, inside, threads,
                  [=] { random_disc<<<threads / 256, 256>>>(inside, draws, 2024u); });
}

Launch launch_multiply_limbs(const Buffers& b) {
    int n = 1 << 21, repeats = 24;
    const unsigned* second = b.words + size_t(n) * kLimbs;
    auto out = b.out_as<unsigned>();
    return launch({}, out, size_t(n) * kLimbs, [=] {
        multiply_limbs<<<blocks_for(n, 256), 256>>>(b.words, second, out, n, repeats);
    });
}

Launch launch_crc_records(const Buffers& b) {
    int n = kWords / 16;
    auto records = reinterpret_cast<const uint4*>(b.words);
    auto crcs = b.out_as<unsigned>();
    return launch({}, crcs, n, [=] { crc_records<<<blocks_for(n, 256), 256>>>(records, crcs, n); });
}

Launch launch_code_distance(const Buffers& b) {
    int n = 1 << 20, entries = 256;
    const unsigned* dictionary = b.words + kWords / 2;
    auto nearest = b.out_as<unsigned>();
    return launch({}, nearest, n, [=] {
        code_distance<<<n / 256, 256, entries * 32>>>(b.words, dictionary, nearest, n, entries);
    });
}

Launch launch_sort_lanes(const Buffers& b) {
    int n = kWords / kSorted;
    auto in = reinterpret_cast<const int*>(b.words);
    auto out = b.out_as<int>();
    return launch({}, out, kWords, [=] { sort_lanes<<<blocks_for(n, 128), 128>>>(in, out, n); });
}

struct Case {
    const char* name;
    char group;
    Launch (*prepare)(const Buffers&);
};

#define CASE(name, group) {#name, group, launch_##name}
const Case kCases[] = {
    CASE(norm_rows, 'A'),      CASE(rhs_rows, 'A'),       CASE(filter_planes, 'A'),
    CASE(column_moments, 'A'), CASE(score_table, 'A'),    CASE(assign_points, 'A'),
    CASE(bin_ranges, 'A'),     CASE(mix_channels, 'A'),   CASE(skinny_product, 'A'),
    CASE(heat_rods, 'A'),      CASE(walsh_segments, 'A'), CASE(vector_suite, 'A'),
    CASE(rescale_signal, 'A'), CASE(nearest_site, 'A'),   CASE(softmax_rows, 'B'),
    CASE(norm_lines, 'B'),     CASE(five_point, 'B'),     CASE(cube_laplace, 'B'),
    CASE(flip_tiles, 'B'),     CASE(fir_taps, 'B'),       CASE(dot_pair, 'B'),
    CASE(gamma_halves, 'B'),   CASE(narrow_product, 'B'), CASE(filter_stack, 'B'),
    CASE(label_points, 'B'),   CASE(heat_cells, 'B'),     CASE(walsh_blocks, 'B'),
    CASE(rhs_lines, 'B'),      CASE(permute_bytes, 'C'),  CASE(zoom_image, 'C'),
    CASE(window_mean, 'C'),    CASE(morton_mean, 'C'),    CASE(ring_filter, 'C'),
    CASE(pyramid_sum, 'C'),    CASE(im2col_patches, 'C'), CASE(roll_volume, 'C'),
    CASE(permute_quads, 'D'),  CASE(roll_rows, 'D'),      CASE(chain_walk, 'D'),
    CASE(hash_keys, 'D'),      CASE(random_disc, 'D'),    CASE(multiply_limbs, 'D'),
    CASE(crc_records, 'D'),    CASE(code_distance, 'D'),  CASE(sort_lanes, 'D'),
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
        std::fprintf(stderr, "usage: streams [--list]\n");
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
