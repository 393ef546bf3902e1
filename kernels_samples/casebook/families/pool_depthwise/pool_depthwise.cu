// Depthwise 3x3 convolutions (stride 1, zero padding of 1) and pooling layers of a neural network.
#include "../../harness/book.h"

//: shared
template <class T>
struct Layer {
    int batch, channels, height, width;
    const T* in;      // NCHW or NHWC, as the problem says
    const T* weight;  // NCHW: [C][9]; NHWC: [9][C]
    T* out;
};

template <class Index>
__global__ void depthwise_flat(Layer<float> l, Index count) {
    const Index i = Index(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const Index width = l.width, height = l.height, channels = l.channels;
    const Index x = i % width;
    const Index y = (i / width) % height;
    const Index c = (i / width / height) % channels;
    const Index n = i / width / height / channels;
    float sum = 0;
#pragma unroll
    for (int ky = 0; ky < 3; ++ky) {
#pragma unroll
        for (int kx = 0; kx < 3; ++kx) {
            const Index sy = y + ky - 1, sx = x + kx - 1;
            if (sy >= 0 && sy < height && sx >= 0 && sx < width) {
                sum += l.weight[c * 9 + ky * 3 + kx] *
                       l.in[((n * channels + c) * height + sy) * width + sx];
            }
        }
    }
    l.out[i] = sum;
}

constexpr int kThreads = 256;

inline int planes(int batch, int channels) { return batch * channels; }
//: end

//: variant flat_long
void flat_long(const Layer<float>& l) {
    const int64_t count = int64_t(l.batch) * l.channels * l.height * l.width;
    depthwise_flat<int64_t><<<unsigned((count + 255) / 256), 256>>>(l, count);
}
//: end

//: variant flat_int
void flat_int(const Layer<float>& l) {
    const int count = l.batch * l.channels * l.height * l.width;
    depthwise_flat<int><<<unsigned((count + 255) / 256), 256>>>(l, count);
}
//: end

//: variant plane_grid
// A block takes whole rows of one channel of one image.
__global__ void depthwise_plane(Layer<float> l) {
    const int x = threadIdx.x, y = blockIdx.x * blockDim.y + threadIdx.y;
    if (y >= l.height) return;
    const int c = blockIdx.y, size = l.height * l.width;
    const size_t plane = size_t(blockIdx.z * l.channels + c) * size;
    const float* in = l.in + plane;
    const float* weight = l.weight + c * 9;
    float sum = 0;
#pragma unroll
    for (int ky = 0; ky < 3; ++ky) {
#pragma unroll
        for (int kx = 0; kx < 3; ++kx) {
            const int sy = y + ky - 1, sx = x + kx - 1;
            if (sy >= 0 && sy < l.height && sx >= 0 && sx < l.width) {
                sum += weight[ky * 3 + kx] * in[sy * l.width + sx];
            }
        }
    }
    l.out[plane + y * l.width + x] = sum;
}

void plane_grid(const Layer<float>& l) {
    depthwise_plane<<<dim3((l.height + 1) / 2, l.channels, l.batch), dim3(l.width, 2)>>>(l);
}
//: end

//: shared
template <int N>
struct alignas(2 * N) Pack {
    __half value[N];
};

// N neighbours of a row per thread; rows are a multiple of N.
template <int N>
__global__ void depthwise_packed(Layer<__half> l) {
    const int x = threadIdx.x * N, y = blockIdx.x * blockDim.y + threadIdx.y;
    if (y >= l.height) return;
    const int c = blockIdx.y, size = l.height * l.width;
    const size_t plane = size_t(blockIdx.z * l.channels + c) * size;
    const __half* weight = l.weight + c * 9;
    float sum[N] = {};
#pragma unroll
    for (int ky = 0; ky < 3; ++ky) {
        const int sy = y + ky - 1;
        if (sy < 0 || sy >= l.height) continue;
        const __half* row = l.in + plane + sy * l.width + x;
        const Pack<N> inner = *reinterpret_cast<const Pack<N>*>(row);
        float v[N + 2];
        v[0] = x > 0 ? __half2float(row[-1]) : 0.0f;
        v[N + 1] = x + N < l.width ? __half2float(row[N]) : 0.0f;
#pragma unroll
        for (int k = 0; k < N; ++k) v[k + 1] = __half2float(inner.value[k]);
#pragma unroll
        for (int kx = 0; kx < 3; ++kx) {
            const float w = __half2float(weight[ky * 3 + kx]);
#pragma unroll
            for (int k = 0; k < N; ++k) sum[k] += w * v[k + kx];
        }
    }
    Pack<N> result;
#pragma unroll
    for (int k = 0; k < N; ++k) result.value[k] = __float2half(sum[k]);
    *reinterpret_cast<Pack<N>*>(l.out + plane + y * l.width + x) = result;
}

template <int N>
void launch_packed(const Layer<__half>& l) {
    const int columns = l.width / N, rows = 256 / columns;
    depthwise_packed<N><<<dim3((l.height + rows - 1) / rows, l.channels, l.batch), dim3(columns, rows)>>>(l);
}
//: end

//: variant plane_pairs
void plane_pairs(const Layer<__half>& l) { launch_packed<2>(l); }
//: end

//: variant plane_eights
void plane_eights(const Layer<__half>& l) { launch_packed<8>(l); }
//: end

//: variant last_by_pixel
__global__ void depthwise_last_by_pixel(Layer<float> l) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= l.width || y >= l.height) return;
    const int n = blockIdx.z / l.channels, c = blockIdx.z % l.channels;
    const float* in = l.in + size_t(n) * l.height * l.width * l.channels;
    float sum = 0;
#pragma unroll
    for (int ky = 0; ky < 3; ++ky) {
#pragma unroll
        for (int kx = 0; kx < 3; ++kx) {
            const int sy = y + ky - 1, sx = x + kx - 1;
            if (sy >= 0 && sy < l.height && sx >= 0 && sx < l.width) {
                sum += l.weight[(ky * 3 + kx) * l.channels + c] * in[(sy * l.width + sx) * l.channels + c];
            }
        }
    }
    l.out[((size_t(n) * l.height + y) * l.width + x) * l.channels + c] = sum;
}

void last_by_pixel(const Layer<float>& l) {
    depthwise_last_by_pixel<<<dim3((l.width + 31) / 32, (l.height + 7) / 8, planes(l.batch, l.channels)),
                              dim3(32, 8)>>>(l);
}
//: end

//: variant last_by_channel
__global__ void depthwise_last_by_channel(Layer<float> l) {
    const int c = threadIdx.x, x = blockIdx.x * blockDim.y + threadIdx.y, y = blockIdx.y;
    if (x >= l.width) return;
    const int n = blockIdx.z;
    const float* in = l.in + size_t(n) * l.height * l.width * l.channels;
    float sum = 0;
#pragma unroll
    for (int ky = 0; ky < 3; ++ky) {
#pragma unroll
        for (int kx = 0; kx < 3; ++kx) {
            const int sy = y + ky - 1, sx = x + kx - 1;
            if (sy >= 0 && sy < l.height && sx >= 0 && sx < l.width) {
                sum += l.weight[(ky * 3 + kx) * l.channels + c] * in[(sy * l.width + sx) * l.channels + c];
            }
        }
    }
    l.out[((size_t(n) * l.height + y) * l.width + x) * l.channels + c] = sum;
}

void last_by_channel(const Layer<float>& l) {
    depthwise_last_by_channel<<<dim3((l.width + 3) / 4, l.height, l.batch), dim3(l.channels, 4)>>>(l);
}
//: end

//: variant last_by_four
// Four channels per thread; channels are a multiple of four.
__global__ void depthwise_last_by_four(Layer<float> l) {
    const int c = threadIdx.x, x = blockIdx.x * blockDim.y + threadIdx.y, y = blockIdx.y;
    if (x >= l.width) return;
    const int n = blockIdx.z, channels = l.channels / 4;
    const float4* weight = reinterpret_cast<const float4*>(l.weight);
    const float4* in = reinterpret_cast<const float4*>(l.in) + size_t(n) * l.height * l.width * channels;
    float4 sum{0, 0, 0, 0};
#pragma unroll
    for (int ky = 0; ky < 3; ++ky) {
#pragma unroll
        for (int kx = 0; kx < 3; ++kx) {
            const int sy = y + ky - 1, sx = x + kx - 1;
            if (sy >= 0 && sy < l.height && sx >= 0 && sx < l.width) {
                const float4 w = weight[(ky * 3 + kx) * channels + c];
                const float4 v = in[(sy * l.width + sx) * channels + c];
                sum.x += w.x * v.x;
                sum.y += w.y * v.y;
                sum.z += w.z * v.z;
                sum.w += w.w * v.w;
            }
        }
    }
    reinterpret_cast<float4*>(l.out)[((size_t(n) * l.height + y) * l.width + x) * channels + c] = sum;
}

void last_by_four(const Layer<float>& l) {
    depthwise_last_by_four<<<dim3((l.width + 15) / 16, l.height, l.batch), dim3(l.channels / 4, 16)>>>(l);
}
//: end

//: variant halve_scalar
// Maxima of 2x2 cells.
__global__ void max_pool(Layer<float> l) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    const int columns = l.width / 2, rows = l.height / 2;
    if (x >= columns || y >= rows) return;
    const float* upper = l.in + (size_t(blockIdx.z) * l.height + 2 * y) * l.width + 2 * x;
    const float* lower = upper + l.width;
    l.out[(size_t(blockIdx.z) * rows + y) * columns + x] =
        fmaxf(fmaxf(upper[0], upper[1]), fmaxf(lower[0], lower[1]));
}

void halve_scalar(const Layer<float>& l) {
    max_pool<<<dim3((l.width / 2 + 31) / 32, (l.height / 2 + 7) / 8, planes(l.batch, l.channels)),
               dim3(32, 8)>>>(l);
}
//: end

//: variant halve_pairs
// Maxima of 2x2 cells; rows are a multiple of two.
__global__ void max_pool_pairs(Layer<float> l) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    const int columns = l.width / 2, rows = l.height / 2;
    if (x >= columns || y >= rows) return;
    const float2* upper =
        reinterpret_cast<const float2*>(l.in + (size_t(blockIdx.z) * l.height + 2 * y) * l.width) + x;
    const float2 a = upper[0], b = upper[columns];
    l.out[(size_t(blockIdx.z) * rows + y) * columns + x] = fmaxf(fmaxf(a.x, a.y), fmaxf(b.x, b.y));
}

void halve_pairs(const Layer<float>& l) {
    max_pool_pairs<<<dim3((l.width / 2 + 31) / 32, (l.height / 2 + 7) / 8, planes(l.batch, l.channels)),
                     dim3(32, 8)>>>(l);
}
//: end

//: variant mean_by_plane
__global__ void global_mean(Layer<float> l) {
    __shared__ float partial[8];
    const int size = l.height * l.width;
    const float* in = l.in + size_t(blockIdx.x) * size;
    float sum = 0;
    for (int i = threadIdx.x; i < size; i += kThreads) sum += in[i];
    for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(~0u, sum, step);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < 8; ++w) sum += partial[w];
        l.out[blockIdx.x] = sum / float(size);
    }
}

void mean_by_plane(const Layer<float>& l) { global_mean<<<planes(l.batch, l.channels), kThreads>>>(l); }
//: end

//: variant mean_by_parts
constexpr int kParts = 64;

__global__ void global_mean_parts(Layer<float> l) {
    __shared__ float partial[8];
    const int size = l.height * l.width, part = size / kParts;
    const float* in = l.in + size_t(blockIdx.x) * size + blockIdx.y * part;
    float sum = 0;
    for (int i = threadIdx.x; i < part; i += kThreads) sum += in[i];
    for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(~0u, sum, step);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < 8; ++w) sum += partial[w];
        atomicAdd(&l.out[blockIdx.x], sum / float(size));
    }
}

void mean_by_parts(const Layer<float>& l) {
    BOOK_CHECK(cudaMemsetAsync(l.out, 0, sizeof(float) * planes(l.batch, l.channels)));
    global_mean_parts<<<dim3(planes(l.batch, l.channels), kParts), kThreads>>>(l);
}
//: end

template <class T>
__global__ void reference_depthwise(Layer<T> l, bool channels_last, T* expected) {
    const long long count = 1ll * l.batch * l.channels * l.height * l.width;
    for (long long i = blockIdx.x * 256ll + threadIdx.x; i < count; i += gridDim.x * 256ll) {
        long long rest = i;
        int n, c, y, x;
        if (channels_last) {
            c = rest % l.channels, rest /= l.channels;
            x = rest % l.width, rest /= l.width;
            y = rest % l.height, n = rest / l.height;
        } else {
            x = rest % l.width, rest /= l.width;
            y = rest % l.height, rest /= l.height;
            c = rest % l.channels, n = rest / l.channels;
        }
        double sum = 0;
        for (int tap = 0; tap < 9; ++tap) {
            const int sy = y + tap / 3 - 1, sx = x + tap % 3 - 1;
            if (sy < 0 || sx < 0 || sy >= l.height || sx >= l.width) continue;
            const long long at = channels_last
                                     ? ((1ll * n * l.height + sy) * l.width + sx) * l.channels + c
                                     : ((1ll * n * l.channels + c) * l.height + sy) * l.width + sx;
            const int w = channels_last ? tap * l.channels + c : c * 9 + tap;
            sum += book::as_double(l.weight[w]) * book::as_double(l.in[at]);
        }
        expected[i] = book::from_double<T>(sum);
    }
}

__global__ void reference_max(Layer<float> l, float* expected) {
    const int columns = l.width / 2, rows = l.height / 2;
    const long long count = 1ll * l.batch * l.channels * rows * columns;
    for (long long i = blockIdx.x * 256ll + threadIdx.x; i < count; i += gridDim.x * 256ll) {
        const long long plane = i / (rows * columns);
        const int y = i / columns % rows, x = i % columns;
        float largest = -1e30f;
        for (int k = 0; k < 4; ++k) {
            largest = fmaxf(largest, l.in[(plane * l.height + 2 * y + k / 2) * l.width + 2 * x + k % 2]);
        }
        expected[i] = largest;
    }
}

__global__ void reference_mean(Layer<float> l, float* expected) {
    __shared__ double partial[512];
    const long long size = 1ll * l.height * l.width;
    double sum = 0;
    for (long long i = threadIdx.x; i < size; i += 512) sum += l.in[blockIdx.x * size + i];
    partial[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x) return;
    for (int k = 1; k < 512; ++k) sum += partial[k];
    expected[blockIdx.x] = float(sum / size);
}

template <class T>
Layer<T> set_up_depthwise(book::Problem& p, int batch, int channels, int size, bool channels_last,
                          double allowed) {
    Layer<T> l{batch, channels, size, size};
    const size_t count = size_t(batch) * channels * size * size;
    l.in = p.uniform<T>(count, 0, 1);
    l.weight = p.uniform<T>(size_t(channels) * 9, 0.1, 1);
    l.out = p.output<T>(count);
    p.needs({.dram_bytes = sizeof(T) * (2.0 * count + 9.0 * channels), .fp32_flop = 18.0 * count});
    p.check<T>(l.out, count, {allowed}, [=](T* expected) {
        reference_depthwise<<<2112, 256>>>(l, channels_last, expected);
    });
    return l;
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("planes_f32", [](book::Problem& p) {
        const auto l = set_up_depthwise<float>(p, 16, 96, 112, false, 1e-5);
        p.variant("flat_long", [=] { flat_long(l); });
        p.variant("flat_int", [=] { flat_int(l); });
        p.variant("plane_grid", [=] { plane_grid(l); });
    });
    book.problem("planes_f16", [](book::Problem& p) {
        const auto l = set_up_depthwise<__half>(p, 16, 96, 128, false, 2e-3);
        p.variant("plane_pairs", [=] { plane_pairs(l); });
        p.variant("plane_eights", [=] { plane_eights(l); });
    });
    book.problem("channels_last", [](book::Problem& p) {
        const auto l = set_up_depthwise<float>(p, 16, 96, 112, true, 1e-5);
        p.variant("last_by_pixel", [=] { last_by_pixel(l); });
        p.variant("last_by_channel", [=] { last_by_channel(l); });
        p.variant("last_by_four", [=] { last_by_four(l); });
    });
    book.problem("max_2x2", [](book::Problem& p) {
        Layer<float> l{16, 64, 192, 192};
        const size_t count = size_t(16) * 64 * 192 * 192;
        l.in = p.uniform<float>(count, -1, 1);
        l.out = p.output<float>(count / 4);
        p.needs({.dram_bytes = 5.0 * count, .fp32_flop = 0.75 * count});
        p.check<float>(l.out, count / 4, {0}, [=](float* expected) { reference_max<<<2112, 256>>>(l, expected); });
        p.variant("halve_scalar", [=] { halve_scalar(l); });
        p.variant("halve_pairs", [=] { halve_pairs(l); });
    });
    book.problem("whole_plane", [](book::Problem& p) {
        Layer<float> l{1, 48, 768, 768};
        const size_t count = size_t(48) * 768 * 768;
        l.in = p.uniform<float>(count, 0, 1);
        l.out = p.output<float>(48);
        p.needs({.dram_bytes = 4.0 * count, .fp32_flop = 1.0 * count});
        p.check<float>(l.out, 48, {2e-5}, [=](float* expected) { reference_mean<<<48, 512>>>(l, expected); });
        p.variant("mean_by_plane", [=] { mean_by_plane(l); });
        p.variant("mean_by_parts", [=] { mean_by_parts(l); });
    });
    return book.finish();
}
