// Filters of images and volumes. Outside of the image its nearest pixel counts.
#include "../../harness/book.h"

constexpr int kTaps = 7;  // of the large filter, in both directions

template <class T>
struct Image {
    int width, height;
    const T* in;
    T* out;
};

struct Volume {
    int width, height, depth;
    float centre, face, edge, corner;  // weights of the 27 neighbours
    const float* in;
    float* out;
};

//: shared
constexpr int kRadius = 3;
__constant__ float weight[7][7];

__device__ __host__ inline int clamped(int i, int count) {
    return i < 0 ? 0 : i >= count ? count - 1 : i;
}

// Each thread computes Rows pixels of a column.
template <int Rows>
__global__ void __launch_bounds__(256) filter_tile(int width, int height, const float* __restrict__ in,
                                                   float* __restrict__ out) {
    constexpr int kHigh = 8 * Rows + 2 * kRadius, kWide = 32 + 2 * kRadius;
    __shared__ float tile[kHigh][kWide];
    const int x0 = blockIdx.x * 32 - kRadius, y0 = blockIdx.y * 8 * Rows - kRadius;
    for (int j = threadIdx.y; j < kHigh; j += 8) {
        const float* row = in + size_t(clamped(y0 + j, height)) * width;
        for (int i = threadIdx.x; i < kWide; i += 32) tile[j][i] = row[clamped(x0 + i, width)];
    }
    __syncthreads();
    float sum[Rows] = {};
    const int top = threadIdx.y * Rows;
#pragma unroll
    for (int j = 0; j < Rows + 2 * kRadius; ++j) {
#pragma unroll
        for (int i = 0; i <= 2 * kRadius; ++i) {
            const float v = tile[top + j][threadIdx.x + i];
#pragma unroll
            for (int r = 0; r < Rows; ++r) {
                if (j - r >= 0 && j - r <= 2 * kRadius) sum[r] += weight[j - r][i] * v;
            }
        }
    }
    const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 * Rows + top;
#pragma unroll
    for (int r = 0; r < Rows; ++r) out[size_t(y + r) * width + x] = sum[r];
}

template <int Rows>
void launch_tile(const Image<float>& d) {
    filter_tile<Rows><<<dim3(d.width / 32, d.height / (8 * Rows)), dim3(32, 8)>>>(d.width, d.height,
                                                                                 d.in, d.out);
}

// Shares of a plane in the result of the same plane and of the planes next to it.
struct Plane {
    float same, next;
};

template <class Tile>
__device__ inline Plane plane_of(const Tile& tile, int x, int y, float4 w) {
    const float centre = tile[y + 1][x + 1];
    const float face = tile[y][x + 1] + tile[y + 2][x + 1] + tile[y + 1][x] + tile[y + 1][x + 2];
    const float edge = tile[y][x] + tile[y][x + 2] + tile[y + 2][x] + tile[y + 2][x + 2];
    return {w.x * centre + w.y * face + w.z * edge, w.y * centre + w.z * face + w.w * edge};
}

constexpr int kDeep = 64;  // planes of a block

inline dim3 columns_of(const Volume& d) {
    return dim3(d.width / 32, d.height / 8, d.depth / kDeep);
}

inline float4 weights_of(const Volume& d) { return make_float4(d.centre, d.face, d.edge, d.corner); }

// Where in a plane the n-th element of the block's tile of 34 x 10 comes from.
__device__ inline int place_in_plane(int n, int width, int height) {
    const int x = clamped(int(blockIdx.x) * 32 + n % 34 - 1, width);
    const int y = clamped(int(blockIdx.y) * 8 + n / 34 - 1, height);
    return y * width + x;
}
//: end

// --- 7 x 7 filter of a photograph

//: variant tile_1
void tile_1(const Image<float>& d) { launch_tile<1>(d); }
//: end

//: variant tile_2
void tile_2(const Image<float>& d) { launch_tile<2>(d); }
//: end

//: variant tile_4
void tile_4(const Image<float>& d) { launch_tile<4>(d); }
//: end

//: variant tile_8
void tile_8(const Image<float>& d) { launch_tile<8>(d); }
//: end

// --- edges (Sobel) of an image of bytes

//: variant edges_by_pixel
__global__ void edges_pixel(int width, int height, const unsigned char* __restrict__ in,
                            unsigned char* __restrict__ out) {
    const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    const int left = clamped(x - 1, width), right = clamped(x + 1, width);
    const unsigned char* up = in + size_t(clamped(y - 1, height)) * width;
    const unsigned char* here = in + size_t(y) * width;
    const unsigned char* down = in + size_t(clamped(y + 1, height)) * width;
    const int across = up[right] + 2 * here[right] + down[right] - up[left] - 2 * here[left] - down[left];
    const int along = down[left] + 2 * down[x] + down[right] - up[left] - 2 * up[x] - up[right];
    out[size_t(y) * width + x] = min(255, (abs(across) + abs(along)) / 4);
}

void edges_by_pixel(const Image<unsigned char>& d) {
    edges_pixel<<<dim3(d.width / 32, d.height / 8), dim3(32, 8)>>>(d.width, d.height, d.in, d.out);
}
//: end

//: variant edges_by_four
__global__ void edges_four(int width, int height, const unsigned char* __restrict__ in,
                           unsigned char* __restrict__ out) {
    const int x = blockIdx.x * 128 + threadIdx.x * 4, y = blockIdx.y * 8 + threadIdx.y;
    const int left = clamped(x - 1, width), right = clamped(x + 4, width);
    int smooth[6] = {}, change[6] = {};  // of six columns
#pragma unroll
    for (int j = -1; j <= 1; ++j) {
        const unsigned char* row = in + size_t(clamped(y + j, height)) * width;
        const uchar4 four = *reinterpret_cast<const uchar4*>(row + x);
        const int pixel[6] = {row[left], four.x, four.y, four.z, four.w, row[right]};
#pragma unroll
        for (int i = 0; i < 6; ++i) {
            smooth[i] += (2 - j * j) * pixel[i];
            change[i] += j * pixel[i];
        }
    }
    int result[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int across = smooth[i + 2] - smooth[i];
        const int along = change[i] + 2 * change[i + 1] + change[i + 2];
        result[i] = min(255, (abs(across) + abs(along)) / 4);
    }
    *reinterpret_cast<uchar4*>(out + size_t(y) * width + x) =
        make_uchar4(result[0], result[1], result[2], result[3]);
}

void edges_by_four(const Image<unsigned char>& d) {
    edges_four<<<dim3(d.width / 128, d.height / 8), dim3(32, 8)>>>(d.width, d.height, d.in, d.out);
}
//: end

// --- smoothing of a volume by its 27 neighbours

//: variant march
__global__ void __launch_bounds__(256) smooth_march(int width, int height, int depth, float4 w,
                                                    const float* __restrict__ in,
                                                    float* __restrict__ out) {
    __shared__ float tile[10][34];
    const int x = threadIdx.x, y = threadIdx.y, t = y * 32 + x;
    const int first = place_in_plane(t, width, height);
    const int second = t < 84 ? place_in_plane(t + 256, width, height) : 0;
    const size_t area = size_t(width) * height;
    const size_t at = size_t(blockIdx.y * 8 + y) * width + blockIdx.x * 32 + x;
    const int z0 = blockIdx.z * kDeep;
    float before = 0, now = 0;
    for (int z = z0 - 1; z <= z0 + kDeep; ++z) {
        const float* plane = in + clamped(z, depth) * area;
        (&tile[0][0])[t] = plane[first];
        if (t < 84) (&tile[0][0])[t + 256] = plane[second];
        __syncthreads();
        const Plane p = plane_of(tile, x, y, w);
        if (z > z0) out[(z - 1) * area + at] = now + p.next;
        now = before + p.same;
        before = p.next;
        __syncthreads();
    }
}

void march(const Volume& d) {
    smooth_march<<<columns_of(d), dim3(32, 8)>>>(d.width, d.height, d.depth, weights_of(d), d.in, d.out);
}
//: end

//: variant march_ahead
__global__ void __launch_bounds__(256) smooth_march_ahead(int width, int height, int depth, float4 w,
                                                          const float* __restrict__ in,
                                                          float* __restrict__ out) {
    __shared__ float tile[10][34];
    const int x = threadIdx.x, y = threadIdx.y, t = y * 32 + x;
    const int first = place_in_plane(t, width, height);
    const int second = t < 84 ? place_in_plane(t + 256, width, height) : 0;
    const size_t area = size_t(width) * height;
    const size_t at = size_t(blockIdx.y * 8 + y) * width + blockIdx.x * 32 + x;
    const int z0 = blockIdx.z * kDeep;
    float before = 0, now = 0;
    const float* plane = in + clamped(z0 - 1, depth) * area;
    float a = plane[first], b = t < 84 ? plane[second] : 0;
    for (int z = z0 - 1; z <= z0 + kDeep; ++z) {
        (&tile[0][0])[t] = a;
        if (t < 84) (&tile[0][0])[t + 256] = b;
        __syncthreads();
        if (z < z0 + kDeep) {
            plane = in + clamped(z + 1, depth) * area;
            a = plane[first];
            if (t < 84) b = plane[second];
        }
        const Plane p = plane_of(tile, x, y, w);
        if (z > z0) out[(z - 1) * area + at] = now + p.next;
        now = before + p.same;
        before = p.next;
        __syncthreads();
    }
}

void march_ahead(const Volume& d) {
    smooth_march_ahead<<<columns_of(d), dim3(32, 8)>>>(d.width, d.height, d.depth, weights_of(d), d.in,
                                                      d.out);
}
//: end

//: variant march_two_tiles
__global__ void __launch_bounds__(256) smooth_march_two(int width, int height, int depth, float4 w,
                                                        const float* __restrict__ in,
                                                        float* __restrict__ out) {
    __shared__ float tiles[2][10][34];
    const int x = threadIdx.x, y = threadIdx.y, t = y * 32 + x;
    const int first = place_in_plane(t, width, height);
    const int second = t < 84 ? place_in_plane(t + 256, width, height) : 0;
    const size_t area = size_t(width) * height;
    const size_t at = size_t(blockIdx.y * 8 + y) * width + blockIdx.x * 32 + x;
    const int z0 = blockIdx.z * kDeep;
    float before = 0, now = 0;
    const float* plane = in + clamped(z0 - 1, depth) * area;
    float a = plane[first], b = t < 84 ? plane[second] : 0;
    for (int z = z0 - 1; z <= z0 + kDeep; ++z) {
        auto& tile = tiles[z & 1];
        (&tile[0][0])[t] = a;
        if (t < 84) (&tile[0][0])[t + 256] = b;
        __syncthreads();
        if (z < z0 + kDeep) {
            plane = in + clamped(z + 1, depth) * area;
            a = plane[first];
            if (t < 84) b = plane[second];
        }
        const Plane p = plane_of(tile, x, y, w);
        if (z > z0) out[(z - 1) * area + at] = now + p.next;
        now = before + p.same;
        before = p.next;
    }
}

void march_two_tiles(const Volume& d) {
    smooth_march_two<<<columns_of(d), dim3(32, 8)>>>(d.width, d.height, d.depth, weights_of(d), d.in,
                                                    d.out);
}
//: end

// --- 3 x 3 binomial filter of a large image

//: variant soft_by_pixel
__global__ void soft_pixel(int width, int height, const float* __restrict__ in,
                           float* __restrict__ out) {
    const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    const int left = clamped(x - 1, width), right = clamped(x + 1, width);
    const float* up = in + size_t(clamped(y - 1, height)) * width;
    const float* here = in + size_t(y) * width;
    const float* down = in + size_t(clamped(y + 1, height)) * width;
    const float above = up[left] + 2 * up[x] + up[right];
    const float level = here[left] + 2 * here[x] + here[right];
    const float below = down[left] + 2 * down[x] + down[right];
    out[size_t(y) * width + x] = (above + 2 * level + below) * 0.0625f;
}

void soft_by_pixel(const Image<float>& d) {
    soft_pixel<<<dim3(d.width / 32, d.height / 8), dim3(32, 8)>>>(d.width, d.height, d.in, d.out);
}
//: end

//: shared
// 1 2 1 along a row, for four pixels of each lane; the lanes at the ends load one pixel more.
__device__ inline float4 soft_row(const float* row, int x, int width) {
    const int lane = threadIdx.x;
    const float4 v = *reinterpret_cast<const float4*>(row + x);
    float left = __shfl_up_sync(~0u, v.w, 1), right = __shfl_down_sync(~0u, v.x, 1);
    if (lane == 0 || lane == 31) {
        const float beyond = row[clamped(lane == 0 ? x - 1 : x + 4, width)];
        (lane == 0 ? left : right) = beyond;
    }
    return make_float4(left + 2 * v.x + v.y, v.x + 2 * v.y + v.z, v.y + 2 * v.z + v.w,
                       v.z + 2 * v.w + right);
}

__device__ inline float4 soft_column(float4 a, float4 b, float4 c) {
    return make_float4((a.x + 2 * b.x + c.x) * 0.0625f, (a.y + 2 * b.y + c.y) * 0.0625f,
                       (a.z + 2 * b.z + c.z) * 0.0625f, (a.w + 2 * b.w + c.w) * 0.0625f);
}
//: end

//: variant soft_by_four
__global__ void soft_four(int width, int height, const float* __restrict__ in,
                          float* __restrict__ out) {
    const int x = blockIdx.x * 128 + threadIdx.x * 4, y = blockIdx.y * 8 + threadIdx.y;
    const float4 above = soft_row(in + size_t(clamped(y - 1, height)) * width, x, width);
    const float4 level = soft_row(in + size_t(y) * width, x, width);
    const float4 below = soft_row(in + size_t(clamped(y + 1, height)) * width, x, width);
    *reinterpret_cast<float4*>(out + size_t(y) * width + x) = soft_column(above, level, below);
}

void soft_by_four(const Image<float>& d) {
    soft_four<<<dim3(d.width / 128, d.height / 8), dim3(32, 8)>>>(d.width, d.height, d.in, d.out);
}
//: end

//: variant soft_down
__global__ void soft_four_down(int width, int height, const float* __restrict__ in,
                               float* __restrict__ out) {
    const int x = blockIdx.x * 128 + threadIdx.x * 4, y0 = (blockIdx.y * 8 + threadIdx.y) * 4;
    float4 above = soft_row(in + size_t(clamped(y0 - 1, height)) * width, x, width);
    float4 level = soft_row(in + size_t(y0) * width, x, width);
#pragma unroll
    for (int y = y0; y < y0 + 4; ++y) {
        const float4 below = soft_row(in + size_t(clamped(y + 1, height)) * width, x, width);
        *reinterpret_cast<float4*>(out + size_t(y) * width + x) = soft_column(above, level, below);
        above = level;
        level = below;
    }
}

void soft_down(const Image<float>& d) {
    soft_four_down<<<dim3(d.width / 128, d.height / 32), dim3(32, 8)>>>(d.width, d.height, d.in, d.out);
}
//: end

// --- references

// (2 radius + 1) squared taps, in double.
__global__ void reference_filter(int width, int height, int radius, const double* taps, const float* in,
                                 float* expected) {
    const size_t n = blockIdx.x * size_t{blockDim.x} + threadIdx.x;
    if (n >= size_t(width) * height) return;
    const int x = int(n % width), y = int(n / width);
    double sum = 0;
    for (int j = -radius; j <= radius; ++j) {
        for (int i = -radius; i <= radius; ++i) {
            const int from_x = min(max(x + i, 0), width - 1), from_y = min(max(y + j, 0), height - 1);
            sum += taps[(j + radius) * (2 * radius + 1) + i + radius] * in[size_t(from_y) * width + from_x];
        }
    }
    expected[n] = float(sum);
}

__global__ void reference_edges(int width, int height, const unsigned char* in, unsigned char* expected) {
    const size_t n = blockIdx.x * size_t{blockDim.x} + threadIdx.x;
    if (n >= size_t(width) * height) return;
    const int x = int(n % width), y = int(n / width);
    int across = 0, along = 0;
    for (int j = -1; j <= 1; ++j) {
        for (int i = -1; i <= 1; ++i) {
            const int from_x = min(max(x + i, 0), width - 1), from_y = min(max(y + j, 0), height - 1);
            const int v = in[size_t(from_y) * width + from_x];
            across += i * (j == 0 ? 2 : 1) * v;
            along += j * (i == 0 ? 2 : 1) * v;
        }
    }
    const int size = ((across < 0 ? -across : across) + (along < 0 ? -along : along)) / 4;
    expected[n] = static_cast<unsigned char>(size > 255 ? 255 : size);
}

__global__ void reference_volume(Volume d, float* expected) {
    const size_t n = blockIdx.x * size_t{blockDim.x} + threadIdx.x;
    if (n >= size_t(d.width) * d.height * d.depth) return;
    const int x = int(n % d.width), y = int(n / d.width % d.height), z = int(n / d.width / d.height);
    const double weights[4] = {d.centre, d.face, d.edge, d.corner};
    double sum = 0;
    for (int k = -1; k <= 1; ++k) {
        for (int j = -1; j <= 1; ++j) {
            for (int i = -1; i <= 1; ++i) {
                const int u = min(max(x + i, 0), d.width - 1), v = min(max(y + j, 0), d.height - 1);
                const int w = min(max(z + k, 0), d.depth - 1);
                sum += weights[i * i + j * j + k * k] * d.in[(size_t(w) * d.height + v) * d.width + u];
            }
        }
    }
    expected[n] = float(sum);
}

// --- problems

Image<float> set_up_photo(book::Problem& p, int width, int height, int radius,
                          const std::vector<double>& taps, double flop) {
    Image<float> d{width, height};
    const size_t count = size_t(width) * height;
    d.in = p.uniform<float>(count, 0, 1);
    d.out = p.output<float>(count);
    const double* device_taps = p.upload(taps);
    p.needs({.dram_bytes = 8.0 * count, .fp32_flop = flop * count});
    p.check<float>(d.out, count, {1e-5, 1e-6}, [=](float* expected) {
        reference_filter<<<unsigned((count + 255) / 256), 256>>>(width, height, radius, device_taps, d.in,
                                                                 expected);
    });
    return d;
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("photo_7x7", [](book::Problem& p) {
        std::vector<double> taps(kTaps * kTaps);
        std::vector<float> rounded(kTaps * kTaps);
        for (int n = 0; n < kTaps * kTaps; ++n) {
            const double y = n / kTaps - 3.1, x = n % kTaps - 2.8;
            rounded[n] = float(std::exp(-0.15 * (x * x + 1.3 * y * y + 0.4 * x * y)) / 18);
            taps[n] = rounded[n];
        }
        BOOK_CHECK(cudaMemcpyToSymbol(weight, rounded.data(), sizeof(float) * rounded.size()));
        const auto d = set_up_photo(p, 4096, 4096, 3, taps, 2.0 * kTaps * kTaps);
        p.variant("tile_1", [=] { tile_1(d); });
        p.variant("tile_2", [=] { tile_2(d); });
        p.variant("tile_4", [=] { tile_4(d); });
        p.variant("tile_8", [=] { tile_8(d); });
    });
    book.problem("edges_u8", [](book::Problem& p) {
        Image<unsigned char> d{8192, 8192};
        const size_t count = size_t(d.width) * d.height;
        d.in = p.uniform<unsigned char>(count, 0, 256);
        d.out = p.output<unsigned char>(count);
        p.needs({.dram_bytes = 2.0 * count, .int_op = 10.0 * count});
        p.check<unsigned char>(d.out, count, {0}, [=](unsigned char* expected) {
            reference_edges<<<unsigned((count + 255) / 256), 256>>>(d.width, d.height, d.in, expected);
        });
        p.variant("edges_by_pixel", [=] { edges_by_pixel(d); });
        p.variant("edges_by_four", [=] { edges_by_four(d); });
    });
    book.problem("volume_27", [](book::Problem& p) {
        Volume d{256, 256, 256, 0.2f, 0.05f, 0.03f, 0.0175f};
        const size_t count = size_t(d.width) * d.height * d.depth;
        d.in = p.uniform<float>(count, 0, 1);
        d.out = p.output<float>(count);
        p.needs({.dram_bytes = 8.0 * count, .fp32_flop = 18.0 * count});
        p.check<float>(d.out, count, {1e-5, 1e-6}, [=](float* expected) {
            reference_volume<<<unsigned((count + 255) / 256), 256>>>(d, expected);
        });
        p.variant("march", [=] { march(d); });
        p.variant("march_ahead", [=] { march_ahead(d); });
        p.variant("march_two_tiles", [=] { march_two_tiles(d); });
    });
    book.problem("soft_3x3", [](book::Problem& p) {
        std::vector<double> taps{1, 2, 1, 2, 4, 2, 1, 2, 1};
        for (double& tap : taps) tap /= 16;
        const auto d = set_up_photo(p, 6144, 4096, 1, taps, 7);
        p.variant("soft_by_pixel", [=] { soft_by_pixel(d); });
        p.variant("soft_by_four", [=] { soft_by_four(d); });
        p.variant("soft_down", [=] { soft_down(d); });
    });
    return book.finish();
}
