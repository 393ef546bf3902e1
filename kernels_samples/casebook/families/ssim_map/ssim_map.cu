// Map of the structural similarity (SSIM) of two images: local means, variances and covariance under a Gaussian
// window, for all positions where the window lies inside the images.
#include "../../harness/book.h"

template <int Taps>
struct Window {
    float weight[Taps];
};

struct Images {
    int width, height;          // of the images
    int map_width, map_height;  // of the map: a multiple of 128 and of 64
    const float *a, *b;
    float *aa, *bb, *ab;  // scratch: products
    float* moments;       // scratch: five planes of height x map_width
    float* map;
};

//: shared
constexpr int kLanes = 32, kRows = 8;  // threads of a block
constexpr int kStrip = 8;              // rows of the map that a thread finishes
constexpr int kTileWidth = 64, kTileHeight = 32;
constexpr float kC1 = 1e-4f, kC2 = 9e-4f;

// Pixels that four neighbouring results need, in whole float4.
template <int Taps>
constexpr int kRun = (Taps + 3 + 3) / 4 * 4;

template <int Run>
__device__ inline void load_run(const float* from, float (&values)[Run]) {
#pragma unroll
    for (int i = 0; i < Run / 4; ++i) {
        const float4 v = reinterpret_cast<const float4*>(from)[i];
        values[4 * i] = v.x, values[4 * i + 1] = v.y, values[4 * i + 2] = v.z, values[4 * i + 3] = v.w;
    }
}

// Four neighbouring weighted sums.
template <int Taps>
__device__ inline float4 smoothed(const float (&values)[kRun<Taps>], const Window<Taps>& window) {
    float sum[4] = {};
#pragma unroll
    for (int k = 0; k < Taps; ++k) {
#pragma unroll
        for (int i = 0; i < 4; ++i) sum[i] += window.weight[k] * values[i + k];
    }
    return make_float4(sum[0], sum[1], sum[2], sum[3]);
}

// The five moments of four neighbouring pixels along a row.
template <int Taps>
__device__ inline void row_moments(const float* a, const float* b, const Window<Taps>& window, float4 (&moments)[5]) {
    float va[kRun<Taps>], vb[kRun<Taps>], product[kRun<Taps>];
    load_run(a, va);
    load_run(b, vb);
    moments[0] = smoothed<Taps>(va, window);
    moments[1] = smoothed<Taps>(vb, window);
#pragma unroll
    for (int i = 0; i < kRun<Taps>; ++i) product[i] = va[i] * va[i];
    moments[2] = smoothed<Taps>(product, window);
#pragma unroll
    for (int i = 0; i < kRun<Taps>; ++i) product[i] = vb[i] * vb[i];
    moments[3] = smoothed<Taps>(product, window);
#pragma unroll
    for (int i = 0; i < kRun<Taps>; ++i) product[i] = va[i] * vb[i];
    moments[4] = smoothed<Taps>(product, window);
}

__device__ inline float similarity(float mean_a, float mean_b, float aa, float bb, float ab) {
    const float square_a = mean_a * mean_a, square_b = mean_b * mean_b, cross = mean_a * mean_b;
    const float above = (2 * cross + kC1) * (2 * (ab - cross) + kC2);
    const float below = (square_a + square_b + kC1) * (aa - square_a + bb - square_b + kC2);
    return __fdividef(above, below);
}

template <int Taps>
__global__ void smooth_rows(Images m, Window<Taps> window) {
    const int x = 4 * (blockIdx.x * kLanes + threadIdx.x), y = blockIdx.y * kRows + threadIdx.y;
    if (y >= m.height) return;
    const int from = y * m.width + x;
    float4 moments[5];
    row_moments<Taps>(m.a + from, m.b + from, window, moments);
    const int plane = m.height * m.map_width;
#pragma unroll
    for (int p = 0; p < 5; ++p) {
        *reinterpret_cast<float4*>(m.moments + p * plane + y * m.map_width + x) = moments[p];
    }
}

// A thread finishes `Strip` rows of one column.
template <int Taps, int Strip>
__global__ void smooth_columns(Images m, Window<Taps> window) {
    const int x = blockIdx.x * kLanes + threadIdx.x, y = (blockIdx.y * kRows + threadIdx.y) * Strip;
    const int plane = m.height * m.map_width;
    const float* from = m.moments + y * m.map_width + x;
    float sum[5][Strip] = {};
#pragma unroll
    for (int r = 0; r < Strip + Taps - 1; ++r) {
#pragma unroll
        for (int p = 0; p < 5; ++p) {
            const float v = from[p * plane + r * m.map_width];
#pragma unroll
            for (int i = 0; i < Strip; ++i) {
                if (r - i >= 0 && r - i < Taps) sum[p][i] += window.weight[r - i] * v;
            }
        }
    }
#pragma unroll
    for (int i = 0; i < Strip; ++i) {
        m.map[(y + i) * m.map_width + x] = similarity(sum[0][i], sum[1][i], sum[2][i], sum[3][i], sum[4][i]);
    }
}

template <int Taps>
void run_rows(const Images& m, const Window<Taps>& window) {
    const dim3 grid(m.map_width / (4 * kLanes), (m.height + kRows - 1) / kRows);
    smooth_rows<Taps><<<grid, dim3(kLanes, kRows)>>>(m, window);
}

template <int Taps, int Strip>
void run_columns(const Images& m, const Window<Taps>& window) {
    const dim3 grid(m.map_width / kLanes, m.map_height / (kRows * Strip));
    smooth_columns<Taps, Strip><<<grid, dim3(kLanes, kRows)>>>(m, window);
}
//: end

//: variant staged
__global__ void multiply_images(Images m) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (4 * i >= m.width * m.height) return;
    const float4 a = reinterpret_cast<const float4*>(m.a)[i], b = reinterpret_cast<const float4*>(m.b)[i];
    reinterpret_cast<float4*>(m.aa)[i] = make_float4(a.x * a.x, a.y * a.y, a.z * a.z, a.w * a.w);
    reinterpret_cast<float4*>(m.bb)[i] = make_float4(b.x * b.x, b.y * b.y, b.z * b.z, b.w * b.w);
    reinterpret_cast<float4*>(m.ab)[i] = make_float4(a.x * b.x, a.y * b.y, a.z * b.z, a.w * b.w);
}

template <int Taps>
__global__ void smooth_five_rows(Images m, Window<Taps> window) {
    const int x = 4 * (blockIdx.x * kLanes + threadIdx.x), y = blockIdx.y * kRows + threadIdx.y;
    if (y >= m.height) return;
    const int from = y * m.width + x, plane = m.height * m.map_width;
    const float* planes[5] = {m.a, m.b, m.aa, m.bb, m.ab};
#pragma unroll
    for (int p = 0; p < 5; ++p) {
        float values[kRun<Taps>];
        load_run(planes[p] + from, values);
        *reinterpret_cast<float4*>(m.moments + p * plane + y * m.map_width + x) = smoothed<Taps>(values, window);
    }
}

template <int Taps>
void staged(const Images& m, const Window<Taps>& window) {
    multiply_images<<<(m.width * m.height / 4 + 255) / 256, 256>>>(m);
    const dim3 grid(m.map_width / (4 * kLanes), (m.height + kRows - 1) / kRows);
    smooth_five_rows<Taps><<<grid, dim3(kLanes, kRows)>>>(m, window);
    run_columns<Taps, kStrip>(m, window);
}
//: end

//: variant two_pass
template <int Taps>
void two_pass(const Images& m, const Window<Taps>& window) {
    run_rows<Taps>(m, window);
    run_columns<Taps, kStrip>(m, window);
}
//: end

//: variant two_pass_single
template <int Taps>
void two_pass_single(const Images& m, const Window<Taps>& window) {
    run_rows<Taps>(m, window);
    run_columns<Taps, 1>(m, window);
}
//: end

//: variant two_pass_pairs
template <int Taps>
__global__ void smooth_column_pairs(Images m, Window<Taps> window) {
    const int x = 2 * (blockIdx.x * kLanes + threadIdx.x), y = (blockIdx.y * kRows + threadIdx.y) * kStrip;
    const int plane = m.height * m.map_width;
    const float* from = m.moments + y * m.map_width + x;
    float2 sum[5][kStrip] = {};
#pragma unroll
    for (int r = 0; r < kStrip + Taps - 1; ++r) {
#pragma unroll
        for (int p = 0; p < 5; ++p) {
            const float2 v = *reinterpret_cast<const float2*>(from + p * plane + r * m.map_width);
#pragma unroll
            for (int i = 0; i < kStrip; ++i) {
                if (r - i < 0 || r - i >= Taps) continue;
                sum[p][i].x += window.weight[r - i] * v.x;
                sum[p][i].y += window.weight[r - i] * v.y;
            }
        }
    }
#pragma unroll
    for (int i = 0; i < kStrip; ++i) {
        const float left = similarity(sum[0][i].x, sum[1][i].x, sum[2][i].x, sum[3][i].x, sum[4][i].x);
        const float right = similarity(sum[0][i].y, sum[1][i].y, sum[2][i].y, sum[3][i].y, sum[4][i].y);
        *reinterpret_cast<float2*>(m.map + (y + i) * m.map_width + x) = make_float2(left, right);
    }
}

template <int Taps>
void two_pass_pairs(const Images& m, const Window<Taps>& window) {
    run_rows<Taps>(m, window);
    const dim3 grid(m.map_width / (2 * kLanes), m.map_height / (kRows * kStrip));
    smooth_column_pairs<Taps><<<grid, dim3(kLanes, kRows)>>>(m, window);
}
//: end

//: variant tiled
template <int Taps>
__global__ void __launch_bounds__(256) smooth_tile(Images m, Window<Taps> window) {
    constexpr int kHeight = kTileHeight + Taps - 1, kPlane = kHeight * kTileWidth, kGroups = kTileWidth / 4;
    extern __shared__ __align__(16) float tile[];
    const int x = blockIdx.x * kTileWidth, y = blockIdx.y * kTileHeight;
    for (int item = threadIdx.x; item < kHeight * kGroups; item += 256) {
        const int row = item / kGroups, column = item % kGroups * 4;
        const int from = (y + row) * m.width + x + column;
        float4 moments[5];
        row_moments<Taps>(m.a + from, m.b + from, window, moments);
#pragma unroll
        for (int p = 0; p < 5; ++p) {
            *reinterpret_cast<float4*>(tile + p * kPlane + row * kTileWidth + column) = moments[p];
        }
    }
    __syncthreads();
    const int column = threadIdx.x % kTileWidth, top = threadIdx.x / kTileWidth * kStrip;
    const float* from = tile + top * kTileWidth + column;
    float sum[5][kStrip] = {};
#pragma unroll
    for (int r = 0; r < kStrip + Taps - 1; ++r) {
#pragma unroll
        for (int p = 0; p < 5; ++p) {
            const float v = from[p * kPlane + r * kTileWidth];
#pragma unroll
            for (int i = 0; i < kStrip; ++i) {
                if (r - i >= 0 && r - i < Taps) sum[p][i] += window.weight[r - i] * v;
            }
        }
    }
    float* to = m.map + (y + top) * m.map_width + x + column;
#pragma unroll
    for (int i = 0; i < kStrip; ++i) {
        to[i * m.map_width] = similarity(sum[0][i], sum[1][i], sum[2][i], sum[3][i], sum[4][i]);
    }
}

template <int Taps>
void tiled(const Images& m, const Window<Taps>& window) {
    constexpr int kBytes = 5 * (kTileHeight + Taps - 1) * kTileWidth * sizeof(float);
    static const cudaError_t allowed =
        cudaFuncSetAttribute(smooth_tile<Taps>, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
    BOOK_CHECK(allowed);
    const dim3 grid(m.map_width / kTileWidth, m.map_height / kTileHeight);
    smooth_tile<Taps><<<grid, 256, kBytes>>>(m, window);
}
//: end

template <int Taps>
__global__ void reference_map(const float* a, const float* b, int width, int map_width, int map_height,
                              Window<Taps> window, float* expected) {
    const size_t count = size_t(map_width) * map_height;
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count; i += size_t{gridDim.x} * blockDim.x) {
        const size_t x = i % map_width, y = i / map_width;
        double ma = 0, mb = 0, aa = 0, bb = 0, ab = 0;
        for (int dy = 0; dy < Taps; ++dy) {
            for (int dx = 0; dx < Taps; ++dx) {
                const double w = double(window.weight[dy]) * window.weight[dx];
                const double va = a[(y + dy) * width + x + dx], vb = b[(y + dy) * width + x + dx];
                ma += w * va, mb += w * vb, aa += w * va * va, bb += w * vb * vb, ab += w * va * vb;
            }
        }
        const double c1 = kC1, c2 = kC2;
        expected[i] = float((2 * ma * mb + c1) * (2 * (ab - ma * mb) + c2) /
                            ((ma * ma + mb * mb + c1) * (aa - ma * ma + bb - mb * mb + c2)));
    }
}

template <int Taps>
Window<Taps> gaussian(double sigma) {
    Window<Taps> window;
    double total = 0;
    for (int k = 0; k < Taps; ++k) total += std::exp(-0.5 * std::pow((k - Taps / 2) / sigma, 2));
    for (int k = 0; k < Taps; ++k) {
        window.weight[k] = float(std::exp(-0.5 * std::pow((k - Taps / 2) / sigma, 2)) / total);
    }
    return window;
}

template <int Taps>
Images set_up(book::Problem& p, int map_width, int map_height, const Window<Taps>& window) {
    Images m{map_width + kRun<Taps> - 4, map_height + Taps - 1, map_width, map_height};
    const size_t pixels = size_t(m.width) * m.height, count = size_t(map_width) * map_height;
    const uint64_t seed = p.seed();
    m.a = p.input<float>(pixels, [=] __device__(size_t i) { return float(book::uniform01(seed, 101, i)); });
    m.b = p.input<float>(pixels, [=] __device__(size_t i) {
        return float(0.8 * book::uniform01(seed, 101, i) + 0.2 * book::uniform01(seed, 102, i));
    });
    m.aa = p.output<float>(pixels);
    m.bb = p.output<float>(pixels);
    m.ab = p.output<float>(pixels);
    m.moments = p.output<float>(5 * size_t(m.height) * map_width);
    m.map = p.output<float>(count);
    p.needs({.dram_bytes = 4.0 * (2 * pixels + count), .fp32_flop = (20.0 * Taps + 20) * count});
    p.check<float>(m.map, count, {1e-4, 1e-5}, [=](float* expected) {
        reference_map<Taps><<<1056, 256>>>(m.a, m.b, m.width, m.map_width, m.map_height, window, expected);
    });
    return m;
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("window_11", [](book::Problem& p) {
        const auto window = gaussian<11>(1.5);
        const Images m = set_up<11>(p, 2560, 2048, window);
        p.variant("staged", [=] { staged<11>(m, window); });
        p.variant("two_pass", [=] { two_pass<11>(m, window); });
        p.variant("two_pass_single", [=] { two_pass_single<11>(m, window); });
        p.variant("two_pass_pairs", [=] { two_pass_pairs<11>(m, window); });
        p.variant("tiled", [=] { tiled<11>(m, window); });
    });
    book.problem("window_7", [](book::Problem& p) {
        const auto window = gaussian<7>(1.0);
        const Images m = set_up<7>(p, 2560, 2048, window);
        p.variant("two_pass", [=] { two_pass<7>(m, window); });
        p.variant("two_pass_single", [=] { two_pass_single<7>(m, window); });
        p.variant("tiled", [=] { tiled<7>(m, window); });
    });
    return book.finish();
}
