// 3 x 3 convolutions with zero padding: depthwise, direct over all channels, and as an implicit product.
#include "../../harness/book.h"

#include <cuda_pipeline.h>
#include <mma.h>

//: shared
// Depthwise: planes x height x width, one 3 x 3 filter for all planes of a group of 64.
template <class T>
struct Depthwise {
    int planes, height, width;
    const T* in;
    const float* weights;  // 64 x 9
    T* out;
};

// Direct: images x channels x height x width, weights channels x 9 x outputs.
struct Direct {
    int images, channels, outputs, height, width;
    const float* in;
    const float* weights;
    float* out;
};

// Implicit product: images x height x width x channels, weights 9 x channels x outputs, all half.
struct Implicit {
    int images, channels, outputs, height, width;
    const __half* in;
    const __half* weights;
    float* out;  // images x height x width x outputs
};

__device__ inline float as_float(float value) { return value; }
__device__ inline float as_float(__half value) { return __half2float(value); }
__device__ inline void put(float* at, float value) { *at = value; }
__device__ inline void put(__half* at, float value) { *at = __float2half(value); }

constexpr int kTileX = 28, kTileY = 8;

// A thread computes kOut output channels of one pixel; kChunk input channels at a time are in shared
// memory with their border.
template <int kOut, int kChunk>
__global__ __launch_bounds__(kTileX* kTileY) void conv_direct(const float* __restrict__ in,
                                                              const float* __restrict__ weights,
                                                              float* __restrict__ out, int channels,
                                                              int outputs, int height, int width) {
    constexpr int kRow = kTileX + 2, kPlane = kRow * (kTileY + 2);
    extern __shared__ float tile[];  // kChunk x (kTileY + 2) x (kTileX + 2)
    const int across = width / kTileX;
    const int x0 = blockIdx.x % across * kTileX, y0 = blockIdx.x / across * kTileY;
    const int first = blockIdx.y * kOut, image = blockIdx.z;
    const int t = threadIdx.x, tx = t % kTileX, ty = t / kTileX;
    float sum[kOut] = {};
    for (int c0 = 0; c0 < channels; c0 += kChunk) {
        const float* planes = in + (size_t(image) * channels + c0) * height * width;
#pragma unroll 4
        for (int e = t; e < kChunk * kPlane; e += kTileX * kTileY) {
            const int c = e / kPlane, y = y0 + e % kPlane / kRow - 1, x = x0 + e % kRow - 1;
            tile[e] = y >= 0 && y < height && x >= 0 && x < width ? planes[(c * height + y) * width + x]
                                                                  : 0.0f;
        }
        __syncthreads();
#pragma unroll 1
        for (int c = 0; c < kChunk; ++c) {
            const float* from = tile + c * kPlane + ty * kRow + tx;
            const float* w = weights + size_t(c0 + c) * 9 * outputs + first;
#pragma unroll
            for (int tap = 0; tap < 9; ++tap) {
                const float value = from[tap / 3 * kRow + tap % 3];
                if constexpr (kOut % 4 == 0) {
#pragma unroll
                    for (int o = 0; o < kOut; o += 4) {
                        const float4 v = *reinterpret_cast<const float4*>(w + tap * outputs + o);
                        sum[o] += value * v.x;
                        sum[o + 1] += value * v.y;
                        sum[o + 2] += value * v.z;
                        sum[o + 3] += value * v.w;
                    }
                } else {
#pragma unroll
                    for (int o = 0; o < kOut; ++o) sum[o] += value * w[tap * outputs + o];
                }
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int o = 0; o < kOut; ++o)
        out[((size_t(image) * outputs + first + o) * height + y0 + ty) * width + x0 + tx] = sum[o];
}

template <int kOut, int kChunk>
void launch_direct(const Direct& d) {
    constexpr int kBytes = kChunk * (kTileX + 2) * (kTileY + 2) * sizeof(float);
    BOOK_CHECK(cudaFuncSetAttribute(conv_direct<kOut, kChunk>,
                                    cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
    const dim3 grid(d.width / kTileX * (d.height / kTileY), d.outputs / kOut, d.images);
    conv_direct<kOut, kChunk><<<grid, kTileX * kTileY, kBytes>>>(d.in, d.weights, d.out, d.channels,
                                                                 d.outputs, d.height, d.width);
}

// The two pixels of a block of 128 whose channels a thread brings: row t / 4 and row t / 4 + 64.
struct Pixels {
    int image[2], y[2], x[2];

    __device__ Pixels(int first, int height, int width) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int pixel = first + 64 * i;
            image[i] = pixel / (height * width);
            y[i] = pixel % (height * width) / width;
            x[i] = pixel % width;
        }
    }
    // 8 channels from c of the neighbour `tap` of pixel i; zero outside.
    __device__ uint4 neighbour(const __half* in, int i, int tap, int c, int height, int width,
                               int channels) const {
        const int yy = y[i] + tap / 3 - 1, xx = x[i] + tap % 3 - 1;
        if (yy < 0 || yy >= height || xx < 0 || xx >= width) return make_uint4(0, 0, 0, 0);
        return *reinterpret_cast<const uint4*>(
            in + (size_t(image[i] * height + yy) * width + xx) * channels + c);
    }
};

template <int kPad>
__global__ __launch_bounds__(256) void conv_wmma(const __half* __restrict__ in,
                                                 const __half* __restrict__ weights,
                                                 float* __restrict__ out, int channels, int outputs,
                                                 int height, int width) {
    using namespace nvcuda::wmma;
    __shared__ __align__(128) __half as[128][32 + kPad];
    __shared__ __align__(128) __half bs[32][64 + kPad];
    const int t = threadIdx.x, warp = t / 32, row = 32 * (warp / 2), column = 32 * (warp % 2);
    const Pixels pixels(blockIdx.x * 128 + t / 4, height, width);
    fragment<accumulator, 16, 16, 16, float> sum[2][2];
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 2; ++j) fill_fragment(sum[i][j], 0.0f);
    for (int tap = 0; tap < 9; ++tap) {
        for (int c = 0; c < channels; c += 32) {
#pragma unroll
            for (int i = 0; i < 2; ++i)
                *reinterpret_cast<uint4*>(&as[t / 4 + 64 * i][8 * (t % 4)]) =
                    pixels.neighbour(in, i, tap, c + 8 * (t % 4), height, width, channels);
            *reinterpret_cast<uint4*>(&bs[t / 8][8 * (t % 8)]) = *reinterpret_cast<const uint4*>(
                weights + size_t(tap * channels + c + t / 8) * outputs + blockIdx.y * 64 + 8 * (t % 8));
            __syncthreads();
#pragma unroll
            for (int kk = 0; kk < 32; kk += 16) {
                fragment<matrix_a, 16, 16, 16, __half, row_major> x[2];
                fragment<matrix_b, 16, 16, 16, __half, row_major> y[2];
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    load_matrix_sync(x[i], &as[row + 16 * i][kk], 32 + kPad);
                    load_matrix_sync(y[i], &bs[kk][column + 16 * i], 64 + kPad);
                }
#pragma unroll
                for (int i = 0; i < 2; ++i)
#pragma unroll
                    for (int j = 0; j < 2; ++j) mma_sync(sum[i][j], x[i], y[j], sum[i][j]);
            }
            __syncthreads();
        }
    }
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 2; ++j)
            store_matrix_sync(out + size_t(blockIdx.x * 128 + row + 16 * i) * outputs + blockIdx.y * 64 +
                                  column + 16 * j,
                              sum[i][j], outputs, mem_row_major);
}

inline dim3 implicit_grid(const Implicit& d) {
    return dim3(d.images * d.height * d.width / 128, d.outputs / 64);
}
//: end

//: variant flat_index
// One thread an output, from its place in the array. Shape is planes x height x width.
template <class T, class Index>
__global__ void depthwise_flat(const T* __restrict__ in, const float* __restrict__ weights,
                               T* __restrict__ out, Index planes, Index height, Index width) {
    const Index i = Index(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= planes * height * width) return;
    const Index x = i % width, y = i / width % height, plane = i / (width * height);
    float sum = 0;
#pragma unroll
    for (int r = -1; r <= 1; ++r) {
#pragma unroll
        for (int s = -1; s <= 1; ++s) {
            if (y + r >= 0 && y + r < height && x + s >= 0 && x + s < width) {
                sum += as_float(in[(plane * height + y + r) * width + x + s]) *
                       weights[plane % 64 * 9 + (r + 1) * 3 + s + 1];
            }
        }
    }
    put(out + i, sum);
}

template <class T, class Index>
void flat_index(const Depthwise<T>& d) {
    const size_t count = size_t(d.planes) * d.height * d.width;
    depthwise_flat<T, Index><<<unsigned((count + 255) / 256), 256>>>(d.in, d.weights, d.out, d.planes,
                                                                     d.height, d.width);
}
//: end

//: variant grid_3d
// One thread an output; the block's coordinates are the rows and the plane.
template <class T>
__global__ void depthwise_grid(const T* __restrict__ in, const float* __restrict__ weights,
                               T* __restrict__ out, int height, int width) {
    const int x = threadIdx.x, y = blockIdx.x * blockDim.y + threadIdx.y, plane = blockIdx.y;
    if (y >= height) return;
    in += size_t(plane) * height * width;
    out += size_t(plane) * height * width;
    weights += plane % 64 * 9;
    float sum = 0;
#pragma unroll
    for (int r = -1; r <= 1; ++r) {
#pragma unroll
        for (int s = -1; s <= 1; ++s) {
            if (y + r >= 0 && y + r < height && x + s >= 0 && x + s < width) {
                sum += as_float(in[(y + r) * width + x + s]) * weights[(r + 1) * 3 + s + 1];
            }
        }
    }
    put(out + y * width + x, sum);
}

template <class T>
void grid_3d(const Depthwise<T>& d) {
    depthwise_grid<T><<<dim3((d.height + 3) / 4, d.planes), dim3(d.width, 4)>>>(d.in, d.weights, d.out,
                                                                              d.height, d.width);
}
//: end

//: variant strip
// Four outputs below each other a thread; width 112, rows of 16 a block.
__global__ __launch_bounds__(448) void depthwise_strip(const float* __restrict__ in,
                                                       const float* __restrict__ weights,
                                                       float* __restrict__ out, int height, int width) {
    const int x = threadIdx.x, y = blockIdx.x * 16 + 4 * threadIdx.y, plane = blockIdx.y;
    in += size_t(plane) * height * width;
    out += size_t(plane) * height * width;
    float w[9];
#pragma unroll
    for (int i = 0; i < 9; ++i) w[i] = weights[plane % 64 * 9 + i];
    float sum[4] = {};
#pragma unroll
    for (int r = -1; r <= 4; ++r) {
        float line[3] = {};
        if (y + r >= 0 && y + r < height) {
            const float* from = in + (y + r) * width + x;
            line[0] = x > 0 ? from[-1] : 0.0f;
            line[1] = from[0];
            line[2] = x + 1 < width ? from[1] : 0.0f;
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if (r - i >= -1 && r - i <= 1) {
                const float* v = w + 3 * (r - i + 1);
                sum[i] += line[0] * v[0] + line[1] * v[1] + line[2] * v[2];
            }
        }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) out[(y + i) * width + x] = sum[i];
}

void strip(const Depthwise<float>& d) {
    depthwise_strip<<<dim3(d.height / 16, d.planes), dim3(112, 4)>>>(d.in, d.weights, d.out, d.height,
                                                                     d.width);
}
//: end

//: variant strip_tile
// Four outputs below each other a thread, from a tile of 18 rows with its border.
__global__ __launch_bounds__(448) void depthwise_strip_tile(const float* __restrict__ in,
                                                            const float* __restrict__ weights,
                                                            float* __restrict__ out, int height,
                                                            int width) {
    __shared__ float tile[18][114];
    const int x = threadIdx.x, y = blockIdx.x * 16 + 4 * threadIdx.y, plane = blockIdx.y;
    in += size_t(plane) * height * width;
    out += size_t(plane) * height * width;
    float w[9];
#pragma unroll
    for (int i = 0; i < 9; ++i) w[i] = weights[plane % 64 * 9 + i];
    for (int row = threadIdx.y; row < 18; row += 4) {
        const int from = int(blockIdx.x) * 16 + row - 1;
        tile[row][x + 1] = from >= 0 && from < height ? in[from * width + x] : 0.0f;
        if (x < 2) tile[row][113 * x] = 0.0f;
    }
    __syncthreads();
    float sum[4] = {};
#pragma unroll
    for (int r = -1; r <= 4; ++r) {
        const float* line = &tile[4 * threadIdx.y + r + 1][x];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if (r - i >= -1 && r - i <= 1) {
                const float* v = w + 3 * (r - i + 1);
                sum[i] += line[0] * v[0] + line[1] * v[1] + line[2] * v[2];
            }
        }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) out[(y + i) * width + x] = sum[i];
}

void strip_tile(const Depthwise<float>& d) {
    depthwise_strip_tile<<<dim3(d.height / 16, d.planes), dim3(112, 4)>>>(d.in, d.weights, d.out,
                                                                          d.height, d.width);
}
//: end

//: variant out1_chunk64
void out1_chunk64(const Direct& d) { launch_direct<1, 64>(d); }
//: end

//: variant out1_chunk8
void out1_chunk8(const Direct& d) { launch_direct<1, 8>(d); }
//: end

//: variant out8_chunk64
void out8_chunk64(const Direct& d) { launch_direct<8, 64>(d); }
//: end

//: variant out8_chunk8
void out8_chunk8(const Direct& d) { launch_direct<8, 8>(d); }
//: end

//: variant implicit_fma
// 128 pixels x 64 outputs a block, 8 x 4 results a thread.
__global__ __launch_bounds__(256) void conv_fma(const __half* __restrict__ in,
                                                const __half* __restrict__ weights,
                                                float* __restrict__ out, int channels, int outputs,
                                                int height, int width) {
    __shared__ __align__(16) float as[32][128 + 4], bs[32][64];
    const int t = threadIdx.x, tx = t % 16, ty = t / 16;
    const Pixels pixels(blockIdx.x * 128 + t / 4, height, width);
    float sum[8][4] = {};
    for (int tap = 0; tap < 9; ++tap) {
        for (int c = 0; c < channels; c += 32) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const uint4 u =
                    pixels.neighbour(in, i, tap, c + 8 * (t % 4), height, width, channels);
                const __half* h = reinterpret_cast<const __half*>(&u);
#pragma unroll
                for (int j = 0; j < 8; ++j)
                    as[8 * (t % 4) + j][t / 4 + 64 * i] = __half2float(h[j]);
            }
            const uint4 v = *reinterpret_cast<const uint4*>(
                weights + size_t(tap * channels + c + t / 8) * outputs + blockIdx.y * 64 + 8 * (t % 8));
            const __half* h = reinterpret_cast<const __half*>(&v);
#pragma unroll
            for (int j = 0; j < 8; ++j) bs[t / 8][8 * (t % 8) + j] = __half2float(h[j]);
            __syncthreads();
#pragma unroll 8
            for (int kk = 0; kk < 32; ++kk) {
                const float4 p = *reinterpret_cast<const float4*>(&as[kk][4 * ty]);
                const float4 q = *reinterpret_cast<const float4*>(&as[kk][64 + 4 * ty]);
                const float4 y = *reinterpret_cast<const float4*>(&bs[kk][4 * tx]);
                const float x[8] = {p.x, p.y, p.z, p.w, q.x, q.y, q.z, q.w};
#pragma unroll
                for (int i = 0; i < 8; ++i) {
                    sum[i][0] += x[i] * y.x;
                    sum[i][1] += x[i] * y.y;
                    sum[i][2] += x[i] * y.z;
                    sum[i][3] += x[i] * y.w;
                }
            }
            __syncthreads();
        }
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const int pixel = blockIdx.x * 128 + i / 4 * 64 + 4 * ty + i % 4;
        *reinterpret_cast<float4*>(out + size_t(pixel) * outputs + blockIdx.y * 64 + 4 * tx) =
            make_float4(sum[i][0], sum[i][1], sum[i][2], sum[i][3]);
    }
}

void implicit_fma(const Implicit& d) {
    conv_fma<<<implicit_grid(d), 256>>>(d.in, d.weights, d.out, d.channels, d.outputs, d.height, d.width);
}
//: end

//: variant implicit_wmma
void implicit_wmma(const Implicit& d) {
    conv_wmma<0><<<implicit_grid(d), 256>>>(d.in, d.weights, d.out, d.channels, d.outputs, d.height,
                                            d.width);
}
//: end

//: variant implicit_wmma_pad8
void implicit_wmma_pad8(const Implicit& d) {
    conv_wmma<8><<<implicit_grid(d), 256>>>(d.in, d.weights, d.out, d.channels, d.outputs, d.height,
                                            d.width);
}
//: end

//: variant implicit_wmma_next
// The next slices of pixels and weights are on their way into a second buffer meanwhile.
__global__ __launch_bounds__(256) void conv_wmma_next(const __half* __restrict__ in,
                                                      const __half* __restrict__ weights,
                                                      float* __restrict__ out, int channels,
                                                      int outputs, int height, int width) {
    using namespace nvcuda::wmma;
    __shared__ __align__(128) __half as[2][128][32 + 8];
    __shared__ __align__(128) __half bs[2][32][64 + 8];
    const int t = threadIdx.x, warp = t / 32, row = 32 * (warp / 2), column = 32 * (warp % 2);
    const Pixels pixels(blockIdx.x * 128 + t / 4, height, width);
    fragment<accumulator, 16, 16, 16, float> sum[2][2];
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 2; ++j) fill_fragment(sum[i][j], 0.0f);
    auto fetch = [&](int buffer, int tap, int c) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int y = pixels.y[i] + tap / 3 - 1, x = pixels.x[i] + tap % 3 - 1;
            const bool inside = y >= 0 && y < height && x >= 0 && x < width;
            const __half* from =
                inside ? in + (size_t(pixels.image[i] * height + y) * width + x) * channels + c +
                             8 * (t % 4)
                       : in;
            __pipeline_memcpy_async(&as[buffer][t / 4 + 64 * i][8 * (t % 4)], from, 16, inside ? 0 : 16);
        }
        __pipeline_memcpy_async(
            &bs[buffer][t / 8][8 * (t % 8)],
            weights + size_t(tap * channels + c + t / 8) * outputs + blockIdx.y * 64 + 8 * (t % 8), 16);
        __pipeline_commit();
    };
    fetch(0, 0, 0);
    int buffer = 0;
    for (int tap = 0; tap < 9; ++tap) {
        for (int c = 0; c < channels; c += 32) {
            __pipeline_wait_prior(0);
            __syncthreads();
            const int next = c + 32 < channels ? c + 32 : 0, next_tap = next > 0 ? tap : tap + 1;
            if (next_tap < 9) fetch(buffer ^ 1, next_tap, next);
#pragma unroll
            for (int kk = 0; kk < 32; kk += 16) {
                fragment<matrix_a, 16, 16, 16, __half, row_major> x[2];
                fragment<matrix_b, 16, 16, 16, __half, row_major> y[2];
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    load_matrix_sync(x[i], &as[buffer][row + 16 * i][kk], 32 + 8);
                    load_matrix_sync(y[i], &bs[buffer][kk][column + 16 * i], 64 + 8);
                }
#pragma unroll
                for (int i = 0; i < 2; ++i)
#pragma unroll
                    for (int j = 0; j < 2; ++j) mma_sync(sum[i][j], x[i], y[j], sum[i][j]);
            }
            buffer ^= 1;
        }
    }
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 2; ++j)
            store_matrix_sync(out + size_t(blockIdx.x * 128 + row + 16 * i) * outputs + blockIdx.y * 64 +
                                  column + 16 * j,
                              sum[i][j], outputs, mem_row_major);
}

void implicit_wmma_next(const Implicit& d) {
    conv_wmma_next<<<implicit_grid(d), 256>>>(d.in, d.weights, d.out, d.channels, d.outputs, d.height,
                                              d.width);
}
//: end

template <class T>
__global__ void reference_depthwise(Depthwise<T> d, T* expected) {
    const size_t area = size_t(d.height) * d.width;
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < d.planes * area;
         i += size_t{gridDim.x} * blockDim.x) {
        const int plane = int(i / area), y = int(i % area) / d.width, x = int(i % area) % d.width;
        double sum = 0;
        for (int r = 0; r < 3; ++r) {
            for (int s = 0; s < 3; ++s) {
                const int yy = y + r - 1, xx = x + s - 1;
                if (yy < 0 || xx < 0 || yy >= d.height || xx >= d.width) continue;
                sum += book::as_double(d.in[plane * area + size_t(yy) * d.width + xx]) *
                       double(d.weights[plane % 64 * 9 + r * 3 + s]);
            }
        }
        expected[i] = book::from_double<T>(sum);
    }
}

// 16 outputs a thread. Strides in elements, so that one reference serves both layouts.
template <class T>
__global__ void reference_conv(const T* in, const T* weights, float* expected, int images, int channels,
                               int outputs, int height, int width, bool channels_last) {
    const int pixel = blockIdx.x * blockDim.x + threadIdx.x, first = blockIdx.y * 16;
    if (pixel >= images * height * width) return;
    const int image = pixel / (height * width), y = pixel / width % height, x = pixel % width;
    double sum[16] = {};
    for (int c = 0; c < channels; ++c) {
        for (int tap = 0; tap < 9; ++tap) {
            const int yy = y + tap / 3 - 1, xx = x + tap % 3 - 1;
            if (yy < 0 || xx < 0 || yy >= height || xx >= width) continue;
            const size_t at = channels_last
                                  ? (size_t(image * height + yy) * width + xx) * channels + c
                                  : (size_t(image * channels + c) * height + yy) * width + xx;
            const size_t from = channels_last ? size_t(tap * channels + c) : size_t(c * 9 + tap);
            const double value = book::as_double(in[at]);
            for (int o = 0; o < 16; ++o)
                sum[o] += value * book::as_double(weights[from * outputs + first + o]);
        }
    }
    for (int o = 0; o < 16; ++o) {
        const size_t at = channels_last
                              ? size_t(pixel) * outputs + first + o
                              : (size_t(image * outputs + first + o) * height + y) * width + x;
        expected[at] = float(sum[o]);
    }
}

template <class T>
void depthwise_problem(book::Book& book, const char* name, int planes, book::Tolerance allowed,
                       std::vector<std::pair<const char*, void (*)(const Depthwise<T>&)>> variants) {
    book.problem(name, [=](book::Problem& p) {
        Depthwise<T> d{planes, 112, 112};
        const size_t count = size_t(planes) * d.height * d.width;
        d.in = p.uniform<T>(count, -1, 1);
        d.weights = p.uniform<float>(64 * 9, -1, 1);
        d.out = p.output<T>(count);
        p.needs({.dram_bytes = 2.0 * sizeof(T) * count, .fp32_flop = 18.0 * count});
        p.check<T>(d.out, count, allowed,
                   [=](T* expected) { reference_depthwise<T><<<2112, 256>>>(d, expected); });
        for (const auto& [variant, work] : variants) {
            p.variant(variant, [=, w = work] { w(d); });
        }
    });
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    depthwise_problem<float>(book, "depthwise_f32", 2048, {1e-4, 1e-5},
                             {{"flat_index", flat_index<float, long long>},
                              {"grid_3d", grid_3d<float>},
                              {"strip", strip},
                              {"strip_tile", strip_tile}});
    depthwise_problem<__half>(book, "depthwise_f16", 4096, {2e-3, 1e-3},
                              {{"flat_index", flat_index<__half, int>}, {"grid_3d", grid_3d<__half>}});
    book.problem("direct_f32", [](book::Problem& p) {
        Direct d{32, 64, 64, 56, 56};
        const size_t pixels = size_t(d.images) * d.height * d.width;
        d.in = p.uniform<float>(pixels * d.channels, -1, 1);
        d.weights = p.uniform<float>(size_t(d.channels) * 9 * d.outputs, -1, 1);
        d.out = p.output<float>(pixels * d.outputs);
        p.needs({.dram_bytes = 4.0 * pixels * (d.channels + d.outputs),
                 .fp32_flop = 18.0 * pixels * d.channels * d.outputs});
        p.check<float>(d.out, pixels * d.outputs, {1e-4, 1e-3}, [=](float* expected) {
            reference_conv<float><<<dim3(unsigned(pixels / 128), d.outputs / 16), 128>>>(
                d.in, d.weights, expected, d.images, d.channels, d.outputs, d.height, d.width, false);
        });
        p.variant("out1_chunk64", [=] { out1_chunk64(d); });
        p.variant("out1_chunk8", [=] { out1_chunk8(d); });
        p.variant("out8_chunk64", [=] { out8_chunk64(d); });
        p.variant("out8_chunk8", [=] { out8_chunk8(d); });
    });
    book.problem("implicit_f16", [](book::Problem& p) {
        Implicit d{32, 64, 64, 56, 56};
        const size_t pixels = size_t(d.images) * d.height * d.width;
        d.in = p.uniform<__half>(pixels * d.channels, -1, 1);
        d.weights = p.uniform<__half>(size_t(d.channels) * 9 * d.outputs, -1, 1);
        d.out = p.output<float>(pixels * d.outputs);
        p.needs({.dram_bytes = pixels * (2.0 * d.channels + 4.0 * d.outputs),
                 .tensor_flop = 18.0 * pixels * d.channels * d.outputs});
        p.check<float>(d.out, pixels * d.outputs, {1e-3, 5e-3}, [=](float* expected) {
            reference_conv<__half><<<dim3(unsigned(pixels / 128), d.outputs / 16), 128>>>(
                d.in, d.weights, expected, d.images, d.channels, d.outputs, d.height, d.width, true);
        });
        p.variant("implicit_fma", [=] { implicit_fma(d); });
        p.variant("implicit_wmma", [=] { implicit_wmma(d); });
        p.variant("implicit_wmma_pad8", [=] { implicit_wmma_pad8(d); });
        p.variant("implicit_wmma_next", [=] { implicit_wmma_next(d); });
    });
    return book.finish();
}
