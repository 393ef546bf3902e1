// Stages of an audio chain over long signals: mixing, downmixing, filter banks, framing, resampling.
#include "../../harness/book.h"

constexpr int kStems = 8;

struct MixData {
    int samples;
    const float *stems, *left_gain, *right_gain;  // stems[stem][sample]
    float *left, *right;
};

constexpr int kChannels = 12;

struct FrameData {
    int frames;
    const short* in;  // in[frame][channel]
    const float* gains;  // gains[channel], then gains[kChannels + channel]
    short2* out;
};

struct BankData {
    int channels, samples;
    const float* in;  // in[sample][channel]
    const float* coefficients;  // b0, b1, b2, a1, a2, each [channel]
    float* out;
};

struct WindowData {
    int frames;
    const float *in, *window;
    float* out;
};

struct ResampleData {
    int count;
    const float *in, *taps;  // taps[tap][phase]
    float* out;
};

//: shared
__device__ inline float limited(float v) {
    return v / (1.0f + fabsf(v));
}

__device__ inline short rounded(float v) {
    return static_cast<short>(__float2int_rn(fminf(fmaxf(v, -32768.0f), 32767.0f)));
}

struct Biquad {
    float b0, b1, b2, a1, a2, s1, s2;

    __device__ Biquad(const float* c, int channels, int channel)
        : b0(c[channel]),
          b1(c[channels + channel]),
          b2(c[2 * channels + channel]),
          a1(c[3 * channels + channel]),
          a2(c[4 * channels + channel]),
          s1(0),
          s2(0) {}

    __device__ float step(float x) {
        const float y = fmaf(b0, x, s1);
        s1 = fmaf(b1, x, fmaf(-a1, y, s2));
        s2 = fmaf(b2, x, -a2 * y);
        return y;
    }
};

constexpr int kFrame = 1024, kHop = kFrame / 2;

constexpr unsigned kUp = 147, kDown = 160;  // 48 kHz to 44.1 kHz
constexpr int kTaps = 16, kOutputsPerThread = 8;
//: end

//: variant mix_samples
__global__ void mix_down(const float* __restrict__ stems, const float* __restrict__ left_gain,
                         const float* __restrict__ right_gain, float* __restrict__ left,
                         float* __restrict__ right, int samples) {
    const int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= samples) return;
    float l = 0, r = 0;
#pragma unroll
    for (int k = 0; k < kStems; ++k) {
        const float v = stems[size_t(k) * samples + t];
        l = fmaf(left_gain[k], v, l);
        r = fmaf(right_gain[k], v, r);
    }
    left[t] = limited(l);
    right[t] = limited(r);
}

void mix_samples(const MixData& d) {
    mix_down<<<(d.samples + 255) / 256, 256>>>(d.stems, d.left_gain, d.right_gain, d.left, d.right,
                                               d.samples);
}
//: end

//: shared
// The number of samples is a multiple of 4.
__global__ void mix_down_quads(const float* __restrict__ stems, const float* __restrict__ left_gain,
                               const float* __restrict__ right_gain, float* __restrict__ left,
                               float* __restrict__ right, int samples) {
    const int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (4 * t >= samples) return;
    float4 v[kStems];
#pragma unroll
    for (int k = 0; k < kStems; ++k) {
        v[k] = reinterpret_cast<const float4*>(stems + size_t(k) * samples)[t];
    }
    float4 l = make_float4(0, 0, 0, 0), r = l;
#pragma unroll
    for (int k = 0; k < kStems; ++k) {
        const float gl = left_gain[k], gr = right_gain[k];
        l.x = fmaf(gl, v[k].x, l.x), l.y = fmaf(gl, v[k].y, l.y);
        l.z = fmaf(gl, v[k].z, l.z), l.w = fmaf(gl, v[k].w, l.w);
        r.x = fmaf(gr, v[k].x, r.x), r.y = fmaf(gr, v[k].y, r.y);
        r.z = fmaf(gr, v[k].z, r.z), r.w = fmaf(gr, v[k].w, r.w);
    }
    reinterpret_cast<float4*>(left)[t] =
        make_float4(limited(l.x), limited(l.y), limited(l.z), limited(l.w));
    reinterpret_cast<float4*>(right)[t] =
        make_float4(limited(r.x), limited(r.y), limited(r.z), limited(r.w));
}

//: end

//: variant mix_quads
void mix_quads(const MixData& d) {
    const int threads = 256;
    mix_down_quads<<<(d.samples / 4 + threads - 1) / threads, threads>>>(
        d.stems, d.left_gain, d.right_gain, d.left, d.right, d.samples);
}
//: end

//: variant mix_quads_by_warp
void mix_quads_by_warp(const MixData& d) {
    const int threads = 32;
    mix_down_quads<<<(d.samples / 4 + threads - 1) / threads, threads>>>(
        d.stems, d.left_gain, d.right_gain, d.left, d.right, d.samples);
}
//: end

//: variant mix_then_limit
__global__ void mix_sum(const float* __restrict__ stems, const float* __restrict__ left_gain,
                        const float* __restrict__ right_gain, float* __restrict__ left,
                        float* __restrict__ right, int samples) {
    const int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= samples) return;
    float l = 0, r = 0;
#pragma unroll
    for (int k = 0; k < kStems; ++k) {
        const float v = stems[size_t(k) * samples + t];
        l = fmaf(left_gain[k], v, l);
        r = fmaf(right_gain[k], v, r);
    }
    left[t] = l;
    right[t] = r;
}

__global__ void limit_in_place(float* __restrict__ left, float* __restrict__ right, int samples) {
    const int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= samples) return;
    left[t] = limited(left[t]);
    right[t] = limited(right[t]);
}

void mix_then_limit(const MixData& d) {
    const int blocks = (d.samples + 255) / 256;
    mix_sum<<<blocks, 256>>>(d.stems, d.left_gain, d.right_gain, d.left, d.right, d.samples);
    limit_in_place<<<blocks, 256>>>(d.left, d.right, d.samples);
}
//: end

//: variant downmix_channels
__global__ void downmix_by_channel(const short* __restrict__ in, const float* __restrict__ gains,
                                   short2* __restrict__ out, int frames) {
    const int frame = blockIdx.x * blockDim.x + threadIdx.x;
    if (frame >= frames) return;
    float l = 0, r = 0;
#pragma unroll
    for (int c = 0; c < kChannels; ++c) {
        const float v = in[size_t(frame) * kChannels + c];
        l = fmaf(gains[c], v, l);
        r = fmaf(gains[kChannels + c], v, r);
    }
    out[frame] = make_short2(rounded(l), rounded(r));
}

void downmix_channels(const FrameData& d) {
    downmix_by_channel<<<(d.frames + 255) / 256, 256>>>(d.in, d.gains, d.out, d.frames);
}
//: end

//: variant downmix_fours
__global__ void downmix_by_fours(const short* __restrict__ in, const float* __restrict__ gains,
                                 short2* __restrict__ out, int frames) {
    const int frame = blockIdx.x * blockDim.x + threadIdx.x;
    if (frame >= frames) return;
    const short4* four = reinterpret_cast<const short4*>(in) + size_t(frame) * (kChannels / 4);
    float l = 0, r = 0;
#pragma unroll
    for (int c = 0; c < kChannels; c += 4) {
        const short4 v = four[c / 4];
        const float x[4] = {float(v.x), float(v.y), float(v.z), float(v.w)};
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            l = fmaf(gains[c + i], x[i], l);
            r = fmaf(gains[kChannels + c + i], x[i], r);
        }
    }
    out[frame] = make_short2(rounded(l), rounded(r));
}

void downmix_fours(const FrameData& d) {
    downmix_by_fours<<<(d.frames + 255) / 256, 256>>>(d.in, d.gains, d.out, d.frames);
}
//: end

//: variant filter_steps
__global__ void filter_bank(const float* in, const float* coefficients, float* out, int channels,
                            int samples) {
    const int channel = blockIdx.x * blockDim.x + threadIdx.x;
    if (channel >= channels) return;
    Biquad filter(coefficients, channels, channel);
    for (int t = 0; t < samples; ++t) {
        const size_t at = size_t(t) * channels + channel;
        out[at] = filter.step(in[at]);
    }
}

void filter_steps(const BankData& d) {
    filter_bank<<<(d.channels + 127) / 128, 128>>>(d.in, d.coefficients, d.out, d.channels,
                                                   d.samples);
}
//: end

//: shared
// The number of samples is a multiple of N.
template <int N>
__global__ void filter_bank_chunks(const float* in, const float* coefficients, float* out,
                                   int channels, int samples) {
    const int channel = blockIdx.x * blockDim.x + threadIdx.x;
    if (channel >= channels) return;
    Biquad filter(coefficients, channels, channel);
    for (int t = 0; t < samples; t += N) {
        const size_t at = size_t(t) * channels + channel;
        float x[N];
#pragma unroll
        for (int i = 0; i < N; ++i) x[i] = in[at + size_t(i) * channels];
#pragma unroll
        for (int i = 0; i < N; ++i) out[at + size_t(i) * channels] = filter.step(x[i]);
    }
}
//: end

//: variant filter_chunks_4
void filter_chunks_4(const BankData& d) {
    filter_bank_chunks<4><<<(d.channels + 127) / 128, 128>>>(d.in, d.coefficients, d.out, d.channels,
                                                             d.samples);
}
//: end

//: variant filter_chunks_16
void filter_chunks_16(const BankData& d) {
    filter_bank_chunks<16><<<(d.channels + 127) / 128, 128>>>(d.in, d.coefficients, d.out,
                                                              d.channels, d.samples);
}
//: end

//: variant frame_blocks
// One block per frame, four samples per thread.
__global__ void window_frames(const float* __restrict__ in, const float* __restrict__ window,
                              float* __restrict__ out) {
    const size_t frame = blockIdx.x;
    const int i = threadIdx.x;
    const float4 x = reinterpret_cast<const float4*>(in + frame * kHop)[i];
    const float4 w = reinterpret_cast<const float4*>(window)[i];
    reinterpret_cast<float4*>(out + frame * kFrame)[i] =
        make_float4(w.x * x.x, w.y * x.y, w.z * x.z, w.w * x.w);
}

void frame_blocks(const WindowData& d) {
    window_frames<<<d.frames, kFrame / 4>>>(d.in, d.window, d.out);
}
//: end

//: variant frame_groups
// A block stages the samples of several frames, which overlap, in shared memory.
constexpr int kGroup = 8;

__global__ void window_frame_groups(const float* __restrict__ in, const float* __restrict__ window,
                                    float* __restrict__ out) {
    __shared__ float4 samples[(kGroup + 1) * kHop / 4];
    const size_t first = size_t(blockIdx.x) * kGroup;
    const int i = threadIdx.x;
    const float4* from = reinterpret_cast<const float4*>(in + first * kHop);
#pragma unroll
    for (int k = i; k < (kGroup + 1) * kHop / 4; k += kFrame / 4) samples[k] = from[k];
    const float4 w = reinterpret_cast<const float4*>(window)[i];
    __syncthreads();
#pragma unroll
    for (int f = 0; f < kGroup; ++f) {
        const float4 x = samples[f * (kHop / 4) + i];
        reinterpret_cast<float4*>(out + (first + f) * kFrame)[i] =
            make_float4(w.x * x.x, w.y * x.y, w.z * x.z, w.w * x.w);
    }
}

void frame_groups(const WindowData& d) {
    window_frame_groups<<<d.frames / kGroup, kFrame / 4>>>(d.in, d.window, d.out);
}
//: end

//: variant resample_direct
__global__ void resample(const float* __restrict__ in, const float* __restrict__ taps,
                         float* __restrict__ out, unsigned count) {
    unsigned n = blockIdx.x * blockDim.x * kOutputsPerThread + threadIdx.x;
    for (int j = 0; j < kOutputsPerThread && n < count; ++j, n += blockDim.x) {
        const unsigned first = n * kDown / kUp, phase = n * kDown % kUp;
        float sum = 0;
#pragma unroll
        for (int k = 0; k < kTaps; ++k) sum = fmaf(taps[k * kUp + phase], in[first + k], sum);
        out[n] = sum;
    }
}

void resample_direct(const ResampleData& d) {
    const int each = 256 * kOutputsPerThread;
    resample<<<(d.count + each - 1) / each, 256>>>(d.in, d.taps, d.out, d.count);
}
//: end

//: variant resample_staged
__global__ void resample_shared_taps(const float* __restrict__ in, const float* __restrict__ taps,
                                     float* __restrict__ out, unsigned count) {
    __shared__ float table[kTaps * kUp];
    for (int i = threadIdx.x; i < kTaps * int(kUp); i += blockDim.x) table[i] = taps[i];
    __syncthreads();
    unsigned n = blockIdx.x * blockDim.x * kOutputsPerThread + threadIdx.x;
    for (int j = 0; j < kOutputsPerThread && n < count; ++j, n += blockDim.x) {
        const unsigned first = n * kDown / kUp, phase = n * kDown % kUp;
        float sum = 0;
#pragma unroll
        for (int k = 0; k < kTaps; ++k) sum = fmaf(table[k * kUp + phase], in[first + k], sum);
        out[n] = sum;
    }
}

void resample_staged(const ResampleData& d) {
    const int each = 256 * kOutputsPerThread;
    resample_shared_taps<<<(d.count + each - 1) / each, 256>>>(d.in, d.taps, d.out, d.count);
}
//: end

__global__ void reference_mix(const float* stems, const float* gain, float* expected, int samples) {
    for (int t = blockIdx.x * blockDim.x + threadIdx.x; t < samples; t += gridDim.x * blockDim.x) {
        double sum = 0;
        for (int k = 0; k < kStems; ++k) sum += double(gain[k]) * stems[size_t(k) * samples + t];
        expected[t] = float(sum / (1.0 + fabs(sum)));
    }
}

__global__ void reference_downmix(const short* in, const float* gains, short* expected, int frames) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < 2 * frames; i += gridDim.x * blockDim.x) {
        double sum = 0;
        for (int c = 0; c < kChannels; ++c) {
            sum += double(gains[(i % 2) * kChannels + c]) * in[size_t(i / 2) * kChannels + c];
        }
        expected[i] = short(rint(fmin(fmax(sum, -32768.0), 32767.0)));
    }
}

__global__ void reference_bank(const float* in, const float* c, float* expected, int channels,
                               int samples) {
    const int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= channels) return;
    double x1 = 0, x2 = 0, y1 = 0, y2 = 0;
    for (int t = 0; t < samples; ++t) {
        const double x = in[size_t(t) * channels + k];
        const double y = double(c[k]) * x + double(c[channels + k]) * x1 +
                         double(c[2 * channels + k]) * x2 - double(c[3 * channels + k]) * y1 -
                         double(c[4 * channels + k]) * y2;
        expected[size_t(t) * channels + k] = float(y);
        x2 = x1, x1 = x, y2 = y1, y1 = y;
    }
}

__global__ void reference_window(const float* in, const float* window, float* expected, size_t count) {
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count;
         i += size_t{gridDim.x} * blockDim.x) {
        expected[i] = window[i % 1024] * in[(i / 1024) * 512 + i % 1024];
    }
}

__global__ void reference_resample(const float* in, const float* taps, float* expected, int count) {
    for (int n = blockIdx.x * blockDim.x + threadIdx.x; n < count; n += gridDim.x * blockDim.x) {
        const long long at = 160ll * n;
        double sum = 0;
        for (int k = 0; k < 16; ++k) sum += double(taps[k * 147 + at % 147]) * in[at / 147 + k];
        expected[n] = float(sum);
    }
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("stereo", [](book::Problem& p) {
        MixData d{4 << 20};
        d.stems = p.uniform<float>(size_t(kStems) * d.samples, -1, 1);
        d.left_gain = p.uniform<float>(kStems, 0, 1);
        d.right_gain = p.uniform<float>(kStems, 0, 1);
        d.left = p.output<float>(d.samples);
        d.right = p.output<float>(d.samples);
        p.needs({.dram_bytes = 4.0 * (kStems + 2) * d.samples,
                 .fp32_flop = 4.0 * (kStems + 1) * d.samples});
        p.check<float>(d.left, d.samples, {1e-5, 1e-5}, [=](float* expected) {
            reference_mix<<<1056, 256>>>(d.stems, d.left_gain, expected, d.samples);
        });
        p.check<float>(d.right, d.samples, {1e-5, 1e-5}, [=](float* expected) {
            reference_mix<<<1056, 256>>>(d.stems, d.right_gain, expected, d.samples);
        });
        p.variant("mix_samples", [=] { mix_samples(d); });
        p.variant("mix_quads", [=] { mix_quads(d); });
        p.variant("mix_quads_by_warp", [=] { mix_quads_by_warp(d); });
        p.variant("mix_then_limit", [=] { mix_then_limit(d); });
    });
    book.problem("surround", [](book::Problem& p) {
        FrameData d{5 << 20};
        d.in = p.uniform<short>(size_t(kChannels) * d.frames, -30000, 30000);
        d.gains = p.uniform<float>(2 * kChannels, 0, 0.25);
        short* out = p.output<short>(2 * size_t(d.frames));
        d.out = reinterpret_cast<short2*>(out);
        p.needs({.dram_bytes = 2.0 * (kChannels + 2) * d.frames,
                 .fp32_flop = 4.0 * kChannels * d.frames});
        p.check<short>(out, 2 * size_t(d.frames), {0, 1}, [=](short* expected) {
            reference_downmix<<<1056, 256>>>(d.in, d.gains, expected, d.frames);
        });
        p.variant("downmix_channels", [=] { downmix_channels(d); });
        p.variant("downmix_fours", [=] { downmix_fours(d); });
    });
    book.problem("bank", [](book::Problem& p) {
        BankData d{65536, 256};
        const size_t count = size_t(d.channels) * d.samples;
        const int channels = d.channels;
        const uint64_t seed = p.seed();
        d.in = p.uniform<float>(count, -1, 1);
        d.coefficients = p.input<float>(5 * size_t(channels), [=] __device__(size_t i) {
            const int kind = int(i / channels), channel = int(i % channels);
            const double radius = 0.5 + 0.4 * book::uniform01(seed, 71, channel);
            if (kind == 3) return float(-2 * radius * cospi(book::uniform01(seed, 72, channel)));
            if (kind == 4) return float(radius * radius);
            return float(0.1 + 0.4 * book::uniform01(seed, 73 + kind, channel));
        });
        d.out = p.output<float>(count);
        p.needs({.dram_bytes = 8.0 * count, .fp32_flop = 9.0 * count});
        p.check<float>(d.out, count, {1e-4, 5e-4}, [=](float* expected) {
            reference_bank<<<512, 128>>>(d.in, d.coefficients, expected, d.channels, d.samples);
        });
        p.variant("filter_steps", [=] { filter_steps(d); });
        p.variant("filter_chunks_4", [=] { filter_chunks_4(d); });
        p.variant("filter_chunks_16", [=] { filter_chunks_16(d); });
    });
    book.problem("overlap", [](book::Problem& p) {
        WindowData d{32768};
        const size_t count = size_t(d.frames) * kFrame, samples = size_t(d.frames + 1) * kHop;
        d.in = p.uniform<float>(samples, -1, 1);
        d.window = p.input<float>(kFrame, [=] __device__(size_t i) {
            return float(0.5 - 0.5 * cospi(2.0 * double(i) / kFrame));
        });
        d.out = p.output<float>(count);
        p.needs({.dram_bytes = 4.0 * (count + samples), .fp32_flop = double(count)});
        p.check<float>(d.out, count, {0}, [=](float* expected) {
            reference_window<<<1056, 256>>>(d.in, d.window, expected, count);
        });
        p.variant("frame_blocks", [=] { frame_blocks(d); });
        p.variant("frame_groups", [=] { frame_groups(d); });
    });
    book.problem("to_cd_rate", [](book::Problem& p) {
        ResampleData d{8 << 20};
        const size_t samples = size_t(d.count) * kDown / kUp + kTaps;
        d.in = p.uniform<float>(samples, -1, 1);
        d.taps = p.uniform<float>(kTaps * kUp, -0.25, 0.25);
        d.out = p.output<float>(d.count);
        p.needs({.dram_bytes = 4.0 * (samples + d.count), .fp32_flop = 2.0 * kTaps * d.count});
        p.check<float>(d.out, d.count, {1e-5, 1e-5}, [=](float* expected) {
            reference_resample<<<1056, 256>>>(d.in, d.taps, expected, d.count);
        });
        p.variant("resample_direct", [=] { resample_direct(d); });
        p.variant("resample_staged", [=] { resample_staged(d); });
    });
    return book.finish();
}
