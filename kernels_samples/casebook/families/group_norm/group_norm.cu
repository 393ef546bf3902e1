// Group normalisation with SiLU of half-precision feature maps, as in diffusion models, and the
// modulation of normalised maps by a scale and an offset per image and channel. 32 groups per image.
#include "../../harness/book.h"

struct Maps {
    int images, channels, pixels;
    const __half* in;
    const float* gain;   // per channel
    const float* shift;  // per channel
    float2* totals;      // per image and group, zero at the start: sum and sum of squares
    __half* out;
};

struct Modulated {
    int images, channels, pixels;
    const __half* in;     // [image][pixel][channel]
    const __half* scale;  // [image][channel]
    const __half* offset;
    __half* out;
};

//: shared
constexpr int kGroups = 32;
constexpr float kEpsilon = 1e-5f;

__device__ inline float silu(float x) {
    const float half = 0.5f * x;
    float t;
    asm("tanh.approx.f32 %0, %1;" : "=f"(t) : "f"(half));
    return half + half * t;
}

union EightHalves {
    uint4 bits;
    __half2 pair[4];
};

__device__ inline float2 affine_silu(__half2 pair, float scale, float offset) {
    const float2 x = __half22float2(pair);
    return make_float2(silu(x.x * scale + offset), silu(x.y * scale + offset));
}

__device__ inline void add_moments(float2& sums, __half2 pair) {
    const float2 x = __half22float2(pair);
    sums.x += x.x + x.y;
    sums.y += x.x * x.x + x.y * x.y;
}

__device__ inline uint4 affine_silu(uint4 bits, float scale, float offset) {
    EightHalves v{bits};
#pragma unroll
    for (int k = 0; k < 4; ++k) v.pair[k] = __float22half2_rn(affine_silu(v.pair[k], scale, offset));
    return v.bits;
}

__device__ inline void add_moments(float2& sums, uint4 bits) {
    const EightHalves v{bits};
#pragma unroll
    for (int k = 0; k < 4; ++k) add_moments(sums, v.pair[k]);
}

// The sums over a block, in all threads.
template <int kThreads>
__device__ inline float2 block_sums(float2 sums) {
    __shared__ float2 parts[kThreads / 32];
    for (int lane = 16; lane > 0; lane /= 2) {
        sums.x += __shfl_xor_sync(0xffffffffu, sums.x, lane);
        sums.y += __shfl_xor_sync(0xffffffffu, sums.y, lane);
    }
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sums;
    __syncthreads();
    sums = make_float2(0, 0);
#pragma unroll
    for (int k = 0; k < kThreads / 32; ++k) sums.x += parts[k].x, sums.y += parts[k].y;
    return sums;
}

// Mean and reciprocal of the standard deviation.
__device__ inline float2 mean_and_scale(float2 sums, float count) {
    const float mean = sums.x / count;
    return make_float2(mean, rsqrtf(fmaxf(sums.y / count - mean * mean, 0.0f) + kEpsilon));
}
//: end

//: variant group_block
// Maps are [image][channel][pixel]: a group is contiguous. One block normalises one group.
__global__ void __launch_bounds__(512)
    normalise_group(const uint4* __restrict__ in, const float* __restrict__ gain,
                    const float* __restrict__ shift, uint4* __restrict__ out,
                    int group_channels, int channel_vectors) {
    const int vectors = group_channels * channel_vectors;
    const uint4* own = in + blockIdx.x * size_t(vectors);
    float2 sums = make_float2(0, 0);
#pragma unroll 4
    for (int i = threadIdx.x; i < vectors; i += 512) add_moments(sums, own[i]);
    const float2 moments = mean_and_scale(block_sums<512>(sums), 8.0f * vectors);
    const int first_channel = blockIdx.x % kGroups * group_channels;
    for (int c = 0; c < group_channels; ++c) {
        const float scale = moments.y * gain[first_channel + c];
        const float offset = shift[first_channel + c] - moments.x * scale;
        const uint4* from = own + size_t(c) * channel_vectors;
        uint4* to = out + (from - in);
#pragma unroll 4
        for (int i = threadIdx.x; i < channel_vectors; i += 512) {
            to[i] = affine_silu(from[i], scale, offset);
        }
    }
}

void group_block(const Maps& m) {
    normalise_group<<<m.images * kGroups, 512>>>(reinterpret_cast<const uint4*>(m.in), m.gain, m.shift,
                                                 reinterpret_cast<uint4*>(m.out), m.channels / kGroups,
                                                 m.pixels / 8);
}
//: end

//: variant two_kernels
// Maps are [image][channel][pixel]. A block adds up a piece of a group, then another kernel applies.
constexpr int kPiece = 1024;  // vectors

__global__ void __launch_bounds__(256) add_up_pieces(const uint4* in, float2* totals, int vectors) {
    const uint4* own = in + blockIdx.y * size_t(vectors);
    float2 sums = make_float2(0, 0);
    uint4 bits[kPiece / 256];
#pragma unroll
    for (int k = 0; k < kPiece / 256; ++k) bits[k] = own[blockIdx.x * kPiece + k * 256 + threadIdx.x];
#pragma unroll
    for (int k = 0; k < kPiece / 256; ++k) add_moments(sums, bits[k]);
    sums = block_sums<256>(sums);
    if (threadIdx.x == 0) {
        atomicAdd(&totals[blockIdx.y].x, sums.x);
        atomicAdd(&totals[blockIdx.y].y, sums.y);
    }
}

// A block of 512 vectors of one channel.
__global__ void __launch_bounds__(256)
    apply_to_channel(const uint4* __restrict__ in, const float2* __restrict__ totals,
                     const float* __restrict__ gain, const float* __restrict__ shift,
                     uint4* __restrict__ out, int channels, int channel_vectors) {
    const int group_channels = channels / kGroups;
    const int channel = blockIdx.y % channels;
    const float2 moments = mean_and_scale(totals[blockIdx.y / group_channels],
                                          8.0f * group_channels * channel_vectors);
    const float scale = moments.y * gain[channel];
    const float offset = shift[channel] - moments.x * scale;
    const size_t start = blockIdx.y * size_t(channel_vectors);
    const int end = min(channel_vectors, (int(blockIdx.x) + 1) * 512);
#pragma unroll
    for (int k = 0; k < 2; ++k) {
        const int i = blockIdx.x * 512 + k * 256 + threadIdx.x;
        if (i < end) out[start + i] = affine_silu(in[start + i], scale, offset);
    }
}

void two_kernels(const Maps& m) {
    const int channel_vectors = m.pixels / 8, vectors = m.channels / kGroups * channel_vectors;
    const auto in = reinterpret_cast<const uint4*>(m.in);
    add_up_pieces<<<dim3(vectors / kPiece, m.images * kGroups), 256>>>(in, m.totals, vectors);
    apply_to_channel<<<dim3((channel_vectors + 511) / 512, m.images * m.channels), 256>>>(
        in, m.totals, m.gain, m.shift, reinterpret_cast<uint4*>(m.out), m.channels, channel_vectors);
}
//: end

//: variant kept_float
// Maps are [image][channel][pixel]. A block reads a group once and keeps it as floats.
__global__ void __launch_bounds__(256)
    normalise_kept_float(const uint4* __restrict__ in, const float* __restrict__ gain,
                         const float* __restrict__ shift, uint4* __restrict__ out,
                         int group_channels, int channel_vectors) {
    extern __shared__ float4 kept[];  // the low halves of all vectors, then the high halves
    const int vectors = group_channels * channel_vectors;
    const size_t start = blockIdx.x * size_t(vectors);
    float2 sums = make_float2(0, 0);
#pragma unroll 4
    for (int i = threadIdx.x; i < vectors; i += 256) {
        const EightHalves v{in[start + i]};
        const float2 a = __half22float2(v.pair[0]), b = __half22float2(v.pair[1]);
        const float2 c = __half22float2(v.pair[2]), d = __half22float2(v.pair[3]);
        sums.x += a.x + a.y + b.x + b.y + c.x + c.y + d.x + d.y;
        sums.y += a.x * a.x + a.y * a.y + b.x * b.x + b.y * b.y;
        sums.y += c.x * c.x + c.y * c.y + d.x * d.x + d.y * d.y;
        kept[i] = make_float4(a.x, a.y, b.x, b.y);
        kept[vectors + i] = make_float4(c.x, c.y, d.x, d.y);
    }
    const float2 moments = mean_and_scale(block_sums<256>(sums), 8.0f * vectors);
    const int first_channel = blockIdx.x % kGroups * group_channels;
    for (int c = 0; c < group_channels; ++c) {
        const float scale = moments.y * gain[first_channel + c];
        const float offset = shift[first_channel + c] - moments.x * scale;
#pragma unroll 2
        for (int k = threadIdx.x; k < channel_vectors; k += 256) {
            const int i = c * channel_vectors + k;
            const float4 low = kept[i], high = kept[vectors + i];
            EightHalves v;
            v.pair[0] = __floats2half2_rn(silu(low.x * scale + offset), silu(low.y * scale + offset));
            v.pair[1] = __floats2half2_rn(silu(low.z * scale + offset), silu(low.w * scale + offset));
            v.pair[2] = __floats2half2_rn(silu(high.x * scale + offset), silu(high.y * scale + offset));
            v.pair[3] = __floats2half2_rn(silu(high.z * scale + offset), silu(high.w * scale + offset));
            out[start + i] = v.bits;
        }
    }
}

void kept_float(const Maps& m) {
    const int bytes = m.channels / kGroups * m.pixels * int(sizeof(float));
    BOOK_CHECK(cudaFuncSetAttribute(normalise_kept_float, cudaFuncAttributeMaxDynamicSharedMemorySize,
               bytes));
    normalise_kept_float<<<m.images * kGroups, 256, bytes>>>(
        reinterpret_cast<const uint4*>(m.in), m.gain, m.shift, reinterpret_cast<uint4*>(m.out),
        m.channels / kGroups, m.pixels / 8);
}
//: end

//: variant kept_half
// Maps are [image][channel][pixel]. A block reads a group once and keeps it as it is.
__global__ void __launch_bounds__(256)
    normalise_kept_half(const uint4* __restrict__ in, const float* __restrict__ gain,
                        const float* __restrict__ shift, uint4* __restrict__ out,
                        int group_channels, int channel_vectors) {
    extern __shared__ uint4 kept_bits[];
    const int vectors = group_channels * channel_vectors;
    const size_t start = blockIdx.x * size_t(vectors);
    float2 sums = make_float2(0, 0);
#pragma unroll 4
    for (int i = threadIdx.x; i < vectors; i += 256) {
        const uint4 bits = in[start + i];
        add_moments(sums, bits);
        kept_bits[i] = bits;
    }
    const float2 moments = mean_and_scale(block_sums<256>(sums), 8.0f * vectors);
    const int first_channel = blockIdx.x % kGroups * group_channels;
    for (int c = 0; c < group_channels; ++c) {
        const float scale = moments.y * gain[first_channel + c];
        const float offset = shift[first_channel + c] - moments.x * scale;
#pragma unroll 2
        for (int k = threadIdx.x; k < channel_vectors; k += 256) {
            const int i = c * channel_vectors + k;
            out[start + i] = affine_silu(kept_bits[i], scale, offset);
        }
    }
}

void kept_half(const Maps& m) {
    const int bytes = m.channels / kGroups * m.pixels * int(sizeof(__half));
    BOOK_CHECK(cudaFuncSetAttribute(normalise_kept_half, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    normalise_kept_half<<<m.images * kGroups, 256, bytes>>>(
        reinterpret_cast<const uint4*>(m.in), m.gain, m.shift, reinterpret_cast<uint4*>(m.out),
        m.channels / kGroups, m.pixels / 8);
}
//: end

//: variant group_of_pixels
// Maps are [image][pixel][channel], five pairs of channels to a group. A block normalises one group.
__global__ void __launch_bounds__(256)
    normalise_pixels(const __half2* __restrict__ in, const float* __restrict__ gain,
                     const float* __restrict__ shift, __half2* __restrict__ out, int pixels) {
    constexpr int kPairs = 5, kAll = kGroups * kPairs;
    const int group = blockIdx.x;
    const size_t start = blockIdx.y * size_t(pixels) * kAll + group * kPairs;
    float2 sums = make_float2(0, 0);
#pragma unroll 2
    for (int i = threadIdx.x; i < pixels; i += 256) {
        const __half2* own = in + start + size_t(i) * kAll;
#pragma unroll
        for (int k = 0; k < kPairs; ++k) add_moments(sums, own[k]);
    }
    const float2 moments = mean_and_scale(block_sums<256>(sums), 2.0f * kPairs * pixels);
    float2 scale[kPairs], offset[kPairs];
#pragma unroll
    for (int k = 0; k < kPairs; ++k) {
        const int c = 2 * (group * kPairs + k);
        scale[k] = make_float2(moments.y * gain[c], moments.y * gain[c + 1]);
        offset[k] = make_float2(shift[c] - moments.x * scale[k].x, shift[c + 1] - moments.x * scale[k].y);
    }
    for (int i = threadIdx.x; i < pixels; i += 256) {
        const __half2* own = in + start + size_t(i) * kAll;
        __half2* to = out + start + size_t(i) * kAll;
#pragma unroll
        for (int k = 0; k < kPairs; ++k) {
            const float2 x = __half22float2(own[k]);
            to[k] = __floats2half2_rn(silu(x.x * scale[k].x + offset[k].x),
                                      silu(x.y * scale[k].y + offset[k].y));
        }
    }
}

void group_of_pixels(const Maps& m) {
    normalise_pixels<<<dim3(kGroups, m.images), 256>>>(reinterpret_cast<const __half2*>(m.in), m.gain,
                                                       m.shift, reinterpret_cast<__half2*>(m.out), m.pixels);
}
//: end

//: variant stretch_of_pixels
// Maps are [image][pixel][channel], five pairs of channels to a group. A thread has one pair of
// channels, a block all channels of a stretch of pixels.
constexpr int kAllPairs = 160, kStretches = 48;

__global__ void __launch_bounds__(2 * kAllPairs)
    add_up_stretch(const __half2* in, float2* totals, int pixels) {
    __shared__ float2 group_sums[kGroups];
    if (threadIdx.x < kGroups) group_sums[threadIdx.x] = make_float2(0, 0);
    __syncthreads();
    const int pair = threadIdx.x % kAllPairs, stretch = pixels / kStretches;
    const int first = blockIdx.x * stretch;
    const __half2* own = in + blockIdx.y * size_t(pixels) * kAllPairs + pair;
    float2 sums = make_float2(0, 0);
#pragma unroll 8
    for (int i = first + threadIdx.x / kAllPairs; i < first + stretch; i += 2) {
        add_moments(sums, own[size_t(i) * kAllPairs]);
    }
    atomicAdd(&group_sums[pair / 5].x, sums.x);
    atomicAdd(&group_sums[pair / 5].y, sums.y);
    __syncthreads();
    if (threadIdx.x < kGroups) {
        atomicAdd(&totals[blockIdx.y * kGroups + threadIdx.x].x, group_sums[threadIdx.x].x);
        atomicAdd(&totals[blockIdx.y * kGroups + threadIdx.x].y, group_sums[threadIdx.x].y);
    }
}

__global__ void __launch_bounds__(2 * kAllPairs)
    apply_to_stretch(const __half2* __restrict__ in, const float2* __restrict__ totals,
                     const float* __restrict__ gain, const float* __restrict__ shift,
                     __half2* __restrict__ out, int pixels) {
    const int pair = threadIdx.x % kAllPairs, stretch = pixels / kStretches;
    const int first = blockIdx.x * stretch;
    const float2 moments = mean_and_scale(totals[blockIdx.y * kGroups + pair / 5], 10.0f * pixels);
    const float2 g = reinterpret_cast<const float2*>(gain)[pair];
    const float2 s = reinterpret_cast<const float2*>(shift)[pair];
    const float2 scale = make_float2(moments.y * g.x, moments.y * g.y);
    const float2 offset = make_float2(s.x - moments.x * scale.x, s.y - moments.x * scale.y);
    const size_t start = blockIdx.y * size_t(pixels) * kAllPairs + pair;
#pragma unroll 4
    for (int i = first + threadIdx.x / kAllPairs; i < first + stretch; i += 2) {
        const float2 x = __half22float2(in[start + size_t(i) * kAllPairs]);
        out[start + size_t(i) * kAllPairs] =
            __floats2half2_rn(silu(x.x * scale.x + offset.x), silu(x.y * scale.y + offset.y));
    }
}

void stretch_of_pixels(const Maps& m) {
    const auto in = reinterpret_cast<const __half2*>(m.in);
    const dim3 grid(kStretches, m.images);
    add_up_stretch<<<grid, 2 * kAllPairs>>>(in, m.totals, m.pixels);
    apply_to_stretch<<<grid, 2 * kAllPairs>>>(in, m.totals, m.gain, m.shift,
                                              reinterpret_cast<__half2*>(m.out), m.pixels);
}
//: end

//: variant pair_index
// A thread does one pair of channels of one pixel.
__global__ void __launch_bounds__(256)
    modulate_pairs(const __half2* __restrict__ in, const __half2* __restrict__ scale,
                   const __half2* __restrict__ offset, __half2* __restrict__ out, size_t count,
                   size_t image_pairs, size_t pairs) {
    const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
    if (i >= count) return;
    const size_t image = i / image_pairs, pair = i % pairs;
    out[i] = __hfma2(in[i], scale[image * pairs + pair], offset[image * pairs + pair]);
}

void pair_index(const Modulated& m) {
    const size_t pairs = m.channels / 2, image_pairs = m.pixels * pairs, count = m.images * image_pairs;
    modulate_pairs<<<unsigned((count + 255) / 256), 256>>>(
        reinterpret_cast<const __half2*>(m.in), reinterpret_cast<const __half2*>(m.scale),
        reinterpret_cast<const __half2*>(m.offset), reinterpret_cast<__half2*>(m.out), count, image_pairs,
        pairs);
}
//: end

//: variant pair_columns
// A thread does one pair of channels of every second pixel of a stretch.
__global__ void __launch_bounds__(320)
    modulate_pair_columns(const __half2* __restrict__ in, const __half2* __restrict__ scale,
                          const __half2* __restrict__ offset, __half2* __restrict__ out, int pixels,
                          int stretch) {
    constexpr int kPairs = 160;
    const int pair = threadIdx.x % kPairs;
    const int image = blockIdx.y;
    const __half2 a = scale[image * kPairs + pair], b = offset[image * kPairs + pair];
    const int first = blockIdx.x * stretch, end = min(pixels, first + stretch);
    const size_t start = size_t(image) * pixels * kPairs + pair;
#pragma unroll 8
    for (int i = first + threadIdx.x / kPairs; i < end; i += 2) {
        out[start + size_t(i) * kPairs] = __hfma2(in[start + size_t(i) * kPairs], a, b);
    }
}

void pair_columns(const Modulated& m) {
    const int stretch = 32;
    modulate_pair_columns<<<dim3((m.pixels + stretch - 1) / stretch, m.images), 320>>>(
        reinterpret_cast<const __half2*>(m.in), reinterpret_cast<const __half2*>(m.scale),
        reinterpret_cast<const __half2*>(m.offset), reinterpret_cast<__half2*>(m.out), m.pixels, stretch);
}
//: end

//: variant vector_index
// A thread does eight channels of one pixel.
__global__ void __launch_bounds__(256)
    modulate_vectors(const uint4* __restrict__ in, const uint4* __restrict__ scale,
                     const uint4* __restrict__ offset, uint4* __restrict__ out, int count,
                     int image_vectors, int vectors) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const int image = i / image_vectors, vector = i % vectors;
    EightHalves v{in[i]};
    const EightHalves a{scale[image * vectors + vector]}, b{offset[image * vectors + vector]};
#pragma unroll
    for (int k = 0; k < 4; ++k) v.pair[k] = __hfma2(v.pair[k], a.pair[k], b.pair[k]);
    out[i] = v.bits;
}

void vector_index(const Modulated& m) {
    const int vectors = m.channels / 8, image_vectors = m.pixels * vectors;
    const int count = m.images * image_vectors;
    modulate_vectors<<<(count + 255) / 256, 256>>>(
        reinterpret_cast<const uint4*>(m.in), reinterpret_cast<const uint4*>(m.scale),
        reinterpret_cast<const uint4*>(m.offset), reinterpret_cast<uint4*>(m.out), count, image_vectors,
        vectors);
}
//: end

//: variant vector_columns
// A thread does eight channels of every eighth pixel of a stretch.
__global__ void __launch_bounds__(320)
    modulate_vector_columns(const uint4* __restrict__ in, const uint4* __restrict__ scale,
                            const uint4* __restrict__ offset, uint4* __restrict__ out, int pixels,
                            int stretch) {
    constexpr int kVectors = 40;
    const int vector = threadIdx.x % kVectors;
    const int image = blockIdx.y;
    const EightHalves a{scale[image * kVectors + vector]}, b{offset[image * kVectors + vector]};
    const int first = blockIdx.x * stretch, end = min(pixels, first + stretch);
    const size_t start = size_t(image) * pixels * kVectors + vector;
#pragma unroll 2
    for (int i = first + threadIdx.x / kVectors; i < end; i += 8) {
        EightHalves v{in[start + size_t(i) * kVectors]};
#pragma unroll
        for (int k = 0; k < 4; ++k) v.pair[k] = __hfma2(v.pair[k], a.pair[k], b.pair[k]);
        out[start + size_t(i) * kVectors] = v.bits;
    }
}

void vector_columns(const Modulated& m) {
    const int stretch = 32;
    modulate_vector_columns<<<dim3((m.pixels + stretch - 1) / stretch, m.images), 320>>>(
        reinterpret_cast<const uint4*>(m.in), reinterpret_cast<const uint4*>(m.scale),
        reinterpret_cast<const uint4*>(m.offset), reinterpret_cast<uint4*>(m.out), m.pixels, stretch);
}
//: end

// One block of 256 a group, in double. An element is at image * channels * pixels +
// channel * of_channel + pixel * of_pixel.
__global__ void reference_norm(const __half* in, const float* gain, const float* shift, __half* expected,
                               int channels, int pixels, int of_channel, int of_pixel) {
    __shared__ double all[2][256];
    const int t = threadIdx.x, per = channels / 32, first = blockIdx.x % 32 * per;
    const size_t base = size_t(blockIdx.x / 32) * channels * pixels;
    const int count = per * pixels;
    double sum = 0, squares = 0;
    for (int i = t; i < count; i += 256) {
        const size_t at = base + size_t(first + i / pixels) * of_channel + size_t(i % pixels) * of_pixel;
        const double x = __half2float(in[at]);
        sum += x;
        squares += x * x;
    }
    all[0][t] = sum;
    all[1][t] = squares;
    __syncthreads();
    sum = squares = 0;
    for (int i = 0; i < 256; ++i) sum += all[0][i], squares += all[1][i];
    const double mean = sum / count, deviation = sqrt(squares / count - mean * mean + 1e-5);
    for (int i = t; i < count; i += 256) {
        const int c = first + i / pixels;
        const size_t at = base + size_t(c) * of_channel + size_t(i % pixels) * of_pixel;
        const float y = float((__half2float(in[at]) - mean) / deviation * gain[c] + shift[c]);
        expected[at] = __float2half(y / (1 + expf(-y)));
    }
}

__global__ void reference_modulate(Modulated m, __half* expected) {
    const size_t count = size_t(m.images) * m.pixels * m.channels;
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count;
         i += size_t{gridDim.x} * blockDim.x) {
        const size_t image = i / (size_t(m.pixels) * m.channels), c = i % m.channels;
        const float a = __half2float(m.scale[image * m.channels + c]);
        const float b = __half2float(m.offset[image * m.channels + c]);
        expected[i] = __float2half(__half2float(m.in[i]) * a + b);
    }
}

Maps maps_of(book::Problem& p, int images, int channels, int pixels, bool channels_last) {
    Maps m{images, channels, pixels};
    const size_t count = size_t(images) * channels * pixels;
    m.in = p.uniform<__half>(count, -1, 2);
    m.gain = p.uniform<float>(channels, 0.5, 1.5);
    m.shift = p.uniform<float>(channels, -0.5, 0.5);
    m.totals = p.zeroed<float2>(size_t(images) * 32);
    m.out = p.output<__half>(count);
    p.needs({.dram_bytes = 4.0 * count, .fp32_flop = 8.0 * count, .special_op = 1.0 * count});
    p.check<__half>(m.out, count, {4e-3, 4e-3}, [=](__half* expected) {
        reference_norm<<<images * 32, 256>>>(m.in, m.gain, m.shift, expected, channels, pixels,
                                             channels_last ? 1 : pixels, channels_last ? channels : 1);
    });
    return m;
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("one_image", [](book::Problem& p) {
        const auto m = maps_of(p, 1, 128, 512 * 512, false);
        p.variant("group_block", [=] { group_block(m); });
        p.variant("two_kernels", [=] { two_kernels(m); });
    });
    book.problem("batch_48", [](book::Problem& p) {
        const auto m = maps_of(p, 48, 320, 64 * 64, false);
        p.variant("two_kernels", [=] { two_kernels(m); });
        p.variant("kept_float", [=] { kept_float(m); });
        p.variant("kept_half", [=] { kept_half(m); });
    });
    book.problem("channels_last", [](book::Problem& p) {
        const auto m = maps_of(p, 16, 320, 96 * 96, true);
        p.variant("group_of_pixels", [=] { group_of_pixels(m); });
        p.variant("stretch_of_pixels", [=] { stretch_of_pixels(m); });
    });
    book.problem("modulated", [](book::Problem& p) {
        Modulated m{16, 320, 96 * 96};
        const size_t count = size_t(m.images) * m.channels * m.pixels;
        m.in = p.uniform<__half>(count, -2, 2);
        m.scale = p.uniform<__half>(size_t(m.images) * m.channels, 0.5, 1.5);
        m.offset = p.uniform<__half>(size_t(m.images) * m.channels, -0.5, 0.5);
        m.out = p.output<__half>(count);
        p.needs({.dram_bytes = 4.0 * count});
        p.check<__half>(m.out, count, {2e-3, 2e-3}, [=](__half* expected) {
            reference_modulate<<<1056, 256>>>(m, expected);
        });
        p.variant("pair_index", [=] { pair_index(m); });
        p.variant("pair_columns", [=] { pair_columns(m); });
        p.variant("vector_index", [=] { vector_index(m); });
        p.variant("vector_columns", [=] { vector_columns(m); });
    });
    return book.finish();
}
