// X-ray sequences of vessels: subtraction of a mask with smoothing, a motion-adaptive filter over time, and
// the correction of raw detector frames.
#include "../../harness/book.h"

// --- Subtraction: out = window(smoothed(log2 frame - log2 mask)), binomial 3 x 3, edges repeated

struct Sequence {
    int width, height, frames;  // width a multiple of 64, height of 32
    const unsigned short* in;
    const unsigned short* mask;
    __half* difference;  // scratch, of the size of `in`
    unsigned char* out;
};

//: shared
constexpr int kWide = 64, kHigh = 32;           // pixels of a block
constexpr int kPitch = kWide + 8, kRows = kHigh + 2;  // with a border: 4 pixels left and right, 1 row

// The logarithm of a pixel, which is at least 1.
__device__ float log2_of(unsigned pixel) {
    float log;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(log) : "f"(static_cast<float>(pixel)));
    return log;
}

__device__ float attenuation(unsigned frame, unsigned mask) { return log2_of(frame) - log2_of(mask); }

// Grey level of a difference: -2 to 2 becomes 0 to 255, rounded by the addition of 2^23.
__device__ unsigned window_level(float difference) {
    const float level = fminf(fmaxf(fmaf(difference, 63.75f, 127.5f), 0.0f), 255.0f);
    return __float_as_uint(level + 8388608.0f) & 255u;
}

// Fills the tile of this block, with its border, by four_at(offset in the frame) -> four values.
template <class Four, class FourAt>
__device__ void fill_tile(Four* tile, int width, int height, FourAt four_at) {
    constexpr int kQuads = kPitch / 4;
    for (int k = threadIdx.x; k < kQuads * kRows; k += 256) {
        const int row = k / kQuads, quad = k % kQuads;
        const int x = blockIdx.x * kWide - 4 + 4 * quad, y = blockIdx.y * kHigh - 1 + row;
        const int inside_x = min(max(x, 0), width - 4), inside_y = min(max(y, 0), height - 1);
        Four v = four_at(static_cast<size_t>(inside_y) * width + inside_x);
        if (x < 0) v.w = v.x;
        if (x >= width) v.x = v.w;
        tile[k] = v;
    }
}

// Eight rows of a column of pixels: each thread slides down its column of the tile.
template <class Value>
__device__ void smooth_columns(Value value, unsigned char* out, int width) {
    const int x = threadIdx.x % kWide, y = threadIdx.x / kWide * 8;
    unsigned char* to = out + (blockIdx.y * kHigh + y) * static_cast<size_t>(width) + blockIdx.x * kWide + x;
    float above = 0, middle = 0;
#pragma unroll
    for (int r = 0; r < 10; ++r) {
        const int at = (y + r) * kPitch + x + 4;
        const float below = value(at - 1) + 2 * value(at) + value(at + 1);
        if (r >= 2) {
            to[(r - 2) * width] =
                static_cast<unsigned char>(window_level((above + 2 * middle + below) * 0.0625f));
        }
        above = middle;
        middle = below;
    }
}

inline dim3 tiles(const Sequence& s) { return dim3(s.width / kWide, s.height / kHigh, s.frames); }

union FourHalves {
    uint2 bits;
    __half2 pair[2];
};

__device__ float4 four_attenuations(ushort4 frame, ushort4 mask) {
    return make_float4(attenuation(frame.x, mask.x), attenuation(frame.y, mask.y),
                       attenuation(frame.z, mask.z), attenuation(frame.w, mask.w));
}
//: end

//: variant subtract_then_smooth
__global__ void __launch_bounds__(256) subtract(const ushort4* in, const ushort4* mask, uint2* difference,
                                                int quads) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= quads) return;
    const size_t at = static_cast<size_t>(blockIdx.y) * quads + i;
    const float4 d = four_attenuations(in[at], mask[i]);
    FourHalves packed;
    packed.pair[0] = __floats2half2_rn(d.x, d.y);
    packed.pair[1] = __floats2half2_rn(d.z, d.w);
    difference[at] = packed.bits;
}

__global__ void __launch_bounds__(256) smooth(const __half* difference, unsigned char* out, int width,
                                              int height) {
    __shared__ float4 tile[kPitch / 4 * kRows];
    const size_t frame = static_cast<size_t>(blockIdx.z) * width * height;
    fill_tile(tile, width, height, [&](size_t at) {
        FourHalves packed;
        packed.bits = *reinterpret_cast<const uint2*>(difference + frame + at);
        const float2 low = __half22float2(packed.pair[0]), high = __half22float2(packed.pair[1]);
        return make_float4(low.x, low.y, high.x, high.y);
    });
    __syncthreads();
    const float* values = reinterpret_cast<const float*>(tile);
    smooth_columns([&](int at) { return values[at]; }, out + frame, width);
}

void subtract_then_smooth(const Sequence& s) {
    const int quads = s.width * s.height / 4;
    subtract<<<dim3((quads + 255) / 256, s.frames), 256>>>(
        reinterpret_cast<const ushort4*>(s.in), reinterpret_cast<const ushort4*>(s.mask),
        reinterpret_cast<uint2*>(s.difference), quads);
    smooth<<<tiles(s), 256>>>(s.difference, s.out, s.width, s.height);
}
//: end

//: variant difference_tile
__global__ void __launch_bounds__(256) subtract_smooth(const unsigned short* in, const unsigned short* mask,
                                                       unsigned char* out, int width, int height) {
    __shared__ float4 tile[kPitch / 4 * kRows];
    const size_t frame = static_cast<size_t>(blockIdx.z) * width * height;
    fill_tile(tile, width, height, [&](size_t at) {
        return four_attenuations(*reinterpret_cast<const ushort4*>(in + frame + at),
                                 *reinterpret_cast<const ushort4*>(mask + at));
    });
    __syncthreads();
    const float* values = reinterpret_cast<const float*>(tile);
    smooth_columns([&](int at) { return values[at]; }, out + frame, width);
}

void difference_tile(const Sequence& s) {
    subtract_smooth<<<tiles(s), 256>>>(s.in, s.mask, s.out, s.width, s.height);
}
//: end

//: variant pixel_tile
// The tile holds the pixel of the frame in the low half of a word and that of the mask in the high half.
__global__ void __launch_bounds__(256) smooth_pixels(const unsigned short* in, const unsigned short* mask,
                                                     unsigned char* out, int width, int height) {
    __shared__ uint4 tile[kPitch / 4 * kRows];
    const size_t frame = static_cast<size_t>(blockIdx.z) * width * height;
    fill_tile(tile, width, height, [&](size_t at) {
        const ushort4 f = *reinterpret_cast<const ushort4*>(in + frame + at);
        const ushort4 m = *reinterpret_cast<const ushort4*>(mask + at);
        return make_uint4(f.x | m.x << 16, f.y | m.y << 16, f.z | m.z << 16, f.w | m.w << 16);
    });
    __syncthreads();
    const unsigned* pixels = reinterpret_cast<const unsigned*>(tile);
    smooth_columns([&](int at) { return attenuation(pixels[at] & 0xFFFFu, pixels[at] >> 16); }, out + frame,
                   width);
}

void pixel_tile(const Sequence& s) {
    smooth_pixels<<<tiles(s), 256>>>(s.in, s.mask, s.out, s.width, s.height);
}
//: end

//: variant four_across
// Each thread smooths four pixels of a row, in two rows, and stores them together.
__global__ void __launch_bounds__(256) subtract_smooth_across(const unsigned short* in,
                                                              const unsigned short* mask,
                                                              unsigned char* out, int width, int height) {
    __shared__ float4 tile[kPitch / 4 * kRows];
    const size_t frame = static_cast<size_t>(blockIdx.z) * width * height;
    fill_tile(tile, width, height, [&](size_t at) {
        return four_attenuations(*reinterpret_cast<const ushort4*>(in + frame + at),
                                 *reinterpret_cast<const ushort4*>(mask + at));
    });
    __syncthreads();
    const float* values = reinterpret_cast<const float*>(tile);
    const int x = threadIdx.x % (kWide / 4) * 4, y = threadIdx.x / (kWide / 4) * 2;
    uchar4* to = reinterpret_cast<uchar4*>(
        out + frame + (blockIdx.y * kHigh + y) * static_cast<size_t>(width) + blockIdx.x * kWide + x);
    float above[4] = {}, middle[4] = {};
#pragma unroll
    for (int r = 0; r < 4; ++r) {
        const float* row = values + (y + r) * kPitch + x + 3;
        float v[6], below[4];
        unsigned level[4];
#pragma unroll
        for (int k = 0; k < 6; ++k) v[k] = row[k];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            below[k] = v[k] + 2 * v[k + 1] + v[k + 2];
            level[k] = window_level((above[k] + 2 * middle[k] + below[k]) * 0.0625f);
            above[k] = middle[k];
            middle[k] = below[k];
        }
        if (r >= 2) to[(r - 2) * (width / 4)] = make_uchar4(level[0], level[1], level[2], level[3]);
    }
}

void four_across(const Sequence& s) {
    subtract_smooth_across<<<tiles(s), 256>>>(s.in, s.mask, s.out, s.width, s.height);
}
//: end

// --- Filter over time: y += gain(|x - y|) * (x - y), pixel by pixel

struct Fluoroscopy {
    int pixels, frames;  // multiples of 1,024 and of 8
    const unsigned short* in;
    unsigned short* out;
};

//: shared
// The next value of a pixel: small changes are noise, large ones are motion.
__device__ float followed(float y, unsigned x) {
    const float change = static_cast<float>(x) - y;
    return fmaf(fabsf(change) > 96.0f ? 0.6f : 0.15f, change, y);
}

// The rounded value, by the addition of 2^23.
__device__ unsigned short rounded(float y) {
    return static_cast<unsigned short>(__float_as_uint(y + 8388608.0f));
}

__device__ void start_at(float4& y, ushort4 x) { y = make_float4(x.x, x.y, x.z, x.w); }

__device__ ushort4 next_four(float4& y, ushort4 x) {
    y = make_float4(followed(y.x, x.x), followed(y.y, x.y), followed(y.z, x.z), followed(y.w, x.w));
    return make_ushort4(rounded(y.x), rounded(y.y), rounded(y.z), rounded(y.w));
}
//: end

//: variant frame_by_frame
__global__ void __launch_bounds__(128) follow(const ushort4* in, ushort4* out, int quads, int frames) {
    const int i = blockIdx.x * 128 + threadIdx.x;
    float4 y;
    start_at(y, in[i]);
    for (int t = 0; t < frames; ++t) {
        const size_t at = static_cast<size_t>(t) * quads + i;
        out[at] = next_four(y, in[at]);
    }
}

void frame_by_frame(const Fluoroscopy& f) {
    follow<<<f.pixels / 512, 128>>>(reinterpret_cast<const ushort4*>(f.in),
                                    reinterpret_cast<ushort4*>(f.out), f.pixels / 4, f.frames);
}
//: end

//: variant eight_frames
__global__ void __launch_bounds__(128) follow_eight(const ushort4* in, ushort4* out, int quads, int frames) {
    const int i = blockIdx.x * 128 + threadIdx.x;
    float4 y;
    start_at(y, in[i]);
    for (int t = 0; t < frames; t += 8) {
        const size_t at = static_cast<size_t>(t) * quads + i;
        ushort4 x[8];
#pragma unroll
        for (int k = 0; k < 8; ++k) x[k] = in[at + static_cast<size_t>(k) * quads];
#pragma unroll
        for (int k = 0; k < 8; ++k) out[at + static_cast<size_t>(k) * quads] = next_four(y, x[k]);
    }
}

void eight_frames(const Fluoroscopy& f) {
    follow_eight<<<f.pixels / 512, 128>>>(reinterpret_cast<const ushort4*>(f.in),
                                          reinterpret_cast<ushort4*>(f.out), f.pixels / 4, f.frames);
}
//: end

//: variant eight_pixels
struct __align__(16) EightPixels {
    ushort4 low, high;
};

__global__ void __launch_bounds__(128) follow_wide(const EightPixels* in, EightPixels* out, int eights,
                                                   int frames) {
    const int i = blockIdx.x * 128 + threadIdx.x;
    float4 low, high;
    start_at(low, in[i].low);
    start_at(high, in[i].high);
    for (int t = 0; t < frames; t += 8) {
        const size_t at = static_cast<size_t>(t) * eights + i;
        EightPixels x[8];
#pragma unroll
        for (int k = 0; k < 8; ++k) x[k] = in[at + static_cast<size_t>(k) * eights];
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            EightPixels now;
            now.low = next_four(low, x[k].low);
            now.high = next_four(high, x[k].high);
            out[at + static_cast<size_t>(k) * eights] = now;
        }
    }
}

void eight_pixels(const Fluoroscopy& f) {
    follow_wide<<<f.pixels / 1024, 128>>>(reinterpret_cast<const EightPixels*>(f.in),
                                          reinterpret_cast<EightPixels*>(f.out), f.pixels / 8, f.frames);
}
//: end

// --- Detector correction: out = (raw - dark) * gain; a defect, which has gain 0, gets the mean of its sound
// neighbours

struct Detector {
    int width, height, frames;  // width a multiple of 4
    int defects;
    const int* defect;  // the pixels of the defects, in ascending order
    const unsigned short* raw;
    const unsigned short* dark;
    const float* gain;
    unsigned short* out;
};

//: shared
__device__ float sound_value(unsigned raw, unsigned dark, float gain) {
    return fminf(fmaxf((static_cast<float>(raw) - static_cast<float>(dark)) * gain, 0.0f), 65535.0f);
}

__device__ unsigned short in_counts(float value) {
    return static_cast<unsigned short>(__float_as_uint(value + 8388608.0f));
}

__device__ unsigned short mean_of_neighbours(const unsigned short* raw, const unsigned short* dark,
                                             const float* gain, int pixel, int width, int height) {
    const int x = pixel % width, y = pixel / width;
    float sum = 0, count = 0;
    for (int v = max(y - 1, 0); v <= min(y + 1, height - 1); ++v) {
        for (int u = max(x - 1, 0); u <= min(x + 1, width - 1); ++u) {
            const int at = v * width + u;
            if (gain[at] == 0.0f) continue;
            sum += sound_value(raw[at], dark[at], gain[at]);
            count += 1.0f;
        }
    }
    return in_counts(count > 0.0f ? sum / count : 0.0f);
}
//: end

//: variant repair_in_place
__global__ void __launch_bounds__(256) correct(const unsigned short* raw, const unsigned short* dark,
                                               const float* gain, unsigned short* out, int width,
                                               int height) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (4 * i >= width * height) return;
    const size_t frame = static_cast<size_t>(blockIdx.y) * width * height;
    const ushort4 r = reinterpret_cast<const ushort4*>(raw + frame)[i];
    const ushort4 d = reinterpret_cast<const ushort4*>(dark)[i];
    const float4 g = reinterpret_cast<const float4*>(gain)[i];
    auto value = [&](unsigned r, unsigned d, float g, int pixel) {
        if (g == 0.0f) return mean_of_neighbours(raw + frame, dark, gain, pixel, width, height);
        return in_counts(sound_value(r, d, g));
    };
    reinterpret_cast<ushort4*>(out + frame)[i] =
        make_ushort4(value(r.x, d.x, g.x, 4 * i), value(r.y, d.y, g.y, 4 * i + 1),
                     value(r.z, d.z, g.z, 4 * i + 2), value(r.w, d.w, g.w, 4 * i + 3));
}

void repair_in_place(const Detector& d) {
    correct<<<dim3((d.width * d.height / 4 + 255) / 256, d.frames), 256>>>(d.raw, d.dark, d.gain, d.out,
                                                                           d.width, d.height);
}
//: end

//: variant repair_by_list
__global__ void __launch_bounds__(256) correct_all(const unsigned short* raw, const unsigned short* dark,
                                                   const float* gain, unsigned short* out, int width,
                                                   int height) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (4 * i >= width * height) return;
    const size_t frame = static_cast<size_t>(blockIdx.y) * width * height;
    const ushort4 r = reinterpret_cast<const ushort4*>(raw + frame)[i];
    const ushort4 d = reinterpret_cast<const ushort4*>(dark)[i];
    const float4 g = reinterpret_cast<const float4*>(gain)[i];
    reinterpret_cast<ushort4*>(out + frame)[i] =
        make_ushort4(in_counts(sound_value(r.x, d.x, g.x)), in_counts(sound_value(r.y, d.y, g.y)),
                     in_counts(sound_value(r.z, d.z, g.z)), in_counts(sound_value(r.w, d.w, g.w)));
}

__global__ void __launch_bounds__(128) repair_listed(const int* defect, int defects,
                                                     const unsigned short* raw, const unsigned short* dark,
                                                     const float* gain, unsigned short* out, int width,
                                                     int height) {
    const int k = blockIdx.x * 128 + threadIdx.x;
    if (k >= defects) return;
    const size_t frame = static_cast<size_t>(blockIdx.y) * width * height;
    out[frame + defect[k]] = mean_of_neighbours(raw + frame, dark, gain, defect[k], width, height);
}

void repair_by_list(const Detector& d) {
    correct_all<<<dim3((d.width * d.height / 4 + 255) / 256, d.frames), 256>>>(d.raw, d.dark, d.gain, d.out,
                                                                               d.width, d.height);
    repair_listed<<<dim3((d.defects + 127) / 128, d.frames), 128>>>(d.defect, d.defects, d.raw, d.dark,
                                                                    d.gain, d.out, d.width, d.height);
}
//: end

// --- References

__global__ void reference_subtraction(Sequence s, unsigned char* expected) {
    const size_t frame = size_t(s.width) * s.height, count = frame * s.frames;
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count;
         i += size_t{gridDim.x} * blockDim.x) {
        const int pixel = int(i % frame), x = pixel % s.width, y = pixel / s.width;
        float sum = 0;
        for (int dy = -1; dy <= 1; ++dy) {
            for (int dx = -1; dx <= 1; ++dx) {
                const int u = min(max(x + dx, 0), s.width - 1), v = min(max(y + dy, 0), s.height - 1);
                const size_t at = size_t(v) * s.width + u;
                sum += (2 - abs(dx)) * (2 - abs(dy)) *
                       (log2f(s.in[i - pixel + at]) - log2f(s.mask[at]));
            }
        }
        const double level = rint(fmin(fmax(sum / 16.0 * 63.75 + 127.5, 0.0), 255.0));
        expected[i] = static_cast<unsigned char>(level);
    }
}

__global__ void reference_follow(Fluoroscopy f, unsigned short* expected) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < f.pixels; i += gridDim.x * blockDim.x) {
        float y = f.in[i];
        for (int t = 0; t < f.frames; ++t) {
            const size_t at = size_t(t) * f.pixels + i;
            // In the order and precision of the filter: its threshold would part two others for good.
            const float change = __fsub_rn(f.in[at], y);
            float gain = 0.15f;
            if (change > 96.0f || change < -96.0f) gain = 0.6f;
            y = __fmaf_rn(gain, change, y);
            expected[at] = static_cast<unsigned short>(rintf(y));
        }
    }
}

__global__ void reference_correction(Detector d, unsigned short* expected) {
    const size_t frame = size_t(d.width) * d.height, count = frame * d.frames;
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count;
         i += size_t{gridDim.x} * blockDim.x) {
        const int pixel = int(i % frame), x = pixel % d.width, y = pixel / d.width;
        const int reach = d.gain[pixel] == 0 ? 1 : 0;
        double sum = 0;
        int values = 0;
        for (int dy = -reach; dy <= reach; ++dy) {
            for (int dx = -reach; dx <= reach; ++dx) {
                const int u = x + dx, v = y + dy;
                if (u < 0 || v < 0 || u >= d.width || v >= d.height) continue;
                const int at = v * d.width + u;
                if (d.gain[at] == 0) continue;
                const double value = (double(d.raw[i - pixel + at]) - d.dark[at]) * d.gain[at];
                sum += fmin(fmax(value, 0.0), 65535.0);
                ++values;
            }
        }
        expected[i] = static_cast<unsigned short>(values ? rint(sum / values) : 0);
    }
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("subtraction", [](book::Problem& p) {
        Sequence s{1024, 1024, 40};
        const size_t frame = size_t(s.width) * s.height, count = frame * s.frames;
        s.in = p.uniform<unsigned short>(count, 500, 3900);
        s.mask = p.uniform<unsigned short>(frame, 1200, 2400);
        s.difference = p.output<__half>(count);
        s.out = p.output<unsigned char>(count);
        p.needs({.dram_bytes = 3.0 * count + 2.0 * frame, .fp32_flop = 12.0 * count,
                 .special_op = 1.0 * count + frame});
        p.check<unsigned char>(s.out, count, {0, 1}, [=](unsigned char* expected) {
            reference_subtraction<<<1056, 256>>>(s, expected);
        });
        p.variant("subtract_then_smooth", [=] { subtract_then_smooth(s); });
        p.variant("difference_tile", [=] { difference_tile(s); });
        p.variant("pixel_tile", [=] { pixel_tile(s); });
        p.variant("four_across", [=] { four_across(s); });
    });
    book.problem("fluoroscopy", [](book::Problem& p) {
        Fluoroscopy f{704 * 704, 88};
        const size_t count = size_t(f.pixels) * f.frames;
        f.in = p.uniform<unsigned short>(count, 900, 1100);
        f.out = p.output<unsigned short>(count);
        p.needs({.dram_bytes = 4.0 * count, .fp32_flop = 3.0 * count});
        p.check<unsigned short>(f.out, count, {0, 1}, [=](unsigned short* expected) {
            reference_follow<<<2304, 256>>>(f, expected);
        });
        p.variant("frame_by_frame", [=] { frame_by_frame(f); });
        p.variant("eight_frames", [=] { eight_frames(f); });
        p.variant("eight_pixels", [=] { eight_pixels(f); });
    });
    book.problem("detector", [](book::Problem& p) {
        Detector d{1024, 1024, 32};
        const size_t frame = size_t(d.width) * d.height, count = frame * d.frames;
        const uint64_t seed = p.seed();
        auto is_defect = [=] __host__ __device__(size_t i) { return book::uniform01(seed, 301, i) < 0.0006; };
        std::vector<int> defect;
        for (size_t i = 0; i < frame; ++i) {
            if (is_defect(i)) defect.push_back(int(i));
        }
        d.defects = int(defect.size());
        d.defect = p.upload(defect);
        d.raw = p.uniform<unsigned short>(count, 400, 4095);
        d.dark = p.uniform<unsigned short>(frame, 80, 120);
        d.gain = p.input<float>(frame, [=] __host__ __device__(size_t i) {
            return is_defect(i) ? 0.0f : float(0.8 + 0.4 * book::uniform01(seed, 302, i));
        });
        d.out = p.output<unsigned short>(count);
        p.needs({.dram_bytes = 4.0 * count + 6.0 * frame, .fp32_flop = 2.0 * count});
        p.check<unsigned short>(d.out, count, {0, 1}, [=](unsigned short* expected) {
            reference_correction<<<1056, 256>>>(d, expected);
        });
        p.variant("repair_in_place", [=] { repair_in_place(d); });
        p.variant("repair_by_list", [=] { repair_by_list(d); });
    });
    return book.finish();
}
