// Beams of a sensor array in the frequency domain: for each frequency bin, the weighted sums of all
// channels' spectra in every direction, over sixteen snapshots.
#include "../../harness/book.h"
#include <cuda_pipeline.h>

//: shared
constexpr int kSnapshots = 16;
constexpr int kChunk = 8;      // channels that are staged at a time
constexpr int kBandBins = 16;  // neighbouring bins that share weights
constexpr int kQuads = kChunk * kSnapshots / 2;  // float4 of a staged chunk of one bin
constexpr int kStride = kQuads + 2;              // with a gap, so that two bins lie in other banks

struct Beams {
    int bins, beams, channels;  // an even number of beams; channels: a multiple of 16 * kChunk
    const float4* spectra;      // [bin][channel][snapshot], complex
    const float4* weights;      // [band][channel][beam], complex
    float4* out;                // [bin][beam][snapshot], complex
    float4* parts;              // the same for each slice of channels
    float2* power;              // [bin][thread], of two beams each
    float* level;               // mean power
    float* sums;                // of blocks
};

// Of two beams, over half of the snapshots.
struct Sums {
    float2 of[2][kSnapshots / 2];
};

__device__ inline void add_product(float2& sum, float2 weight, float re, float im) {
    sum.x = fmaf(weight.x, re, sum.x);
    sum.x = fmaf(-weight.y, im, sum.x);
    sum.y = fmaf(weight.x, im, sum.y);
    sum.y = fmaf(weight.y, re, sum.y);
}

// Copies a chunk of channels of the block's bins; `from` points to the chunk of the first bin.
__device__ inline void stage(float4* to, const float4* from, int bins, size_t bin_stride, int thread,
                             int threads) {
    for (int i = thread; i < bins * kQuads; i += threads) {
        const int bin = i / kQuads, quad = i % kQuads;
        __pipeline_memcpy_async(to + bin * kStride + quad, from + bin * bin_stride + quad, sizeof(float4));
    }
    __pipeline_commit();
}

// Block: one row of threads per bin. A thread has two beams and half of the snapshots. Sums the
// channels [first, last).
template <int kBins>
__device__ inline Sums beam_sums(const Beams& d, int first, int last) {
    __shared__ float4 staged[2][kBins * kStride];
    const int row = threadIdx.y, pairs = d.beams / 2;
    const int pair = threadIdx.x % pairs, half = threadIdx.x / pairs;
    const int first_bin = blockIdx.x * kBins, bins = min(kBins, d.bins - first_bin);
    const int thread = row * d.beams + threadIdx.x, threads = kBins * d.beams;
    const size_t bin_stride = size_t(d.channels) * kSnapshots / 2;
    const float4* from = d.spectra + first_bin * bin_stride;
    const int bin = min(first_bin + row, d.bins - 1);
    const float4* weights = d.weights + size_t(bin / kBandBins) * d.channels * pairs + pair;
    Sums sums;
#pragma unroll
    for (int s = 0; s < kSnapshots / 2; ++s) sums.of[0][s] = sums.of[1][s] = make_float2(0.0f, 0.0f);
    stage(staged[0], from + size_t(first) * kSnapshots / 2, bins, bin_stride, thread, threads);
    for (int chunk = first, turn = 0; chunk < last; chunk += kChunk, turn ^= 1) {
        __pipeline_wait_prior(0);
        __syncthreads();
        if (chunk + kChunk < last) {
            stage(staged[turn ^ 1], from + size_t(chunk + kChunk) * kSnapshots / 2, bins, bin_stride, thread,
                  threads);
        }
        const float4* mine = staged[turn] + row * kStride + half * (kSnapshots / 4);
#pragma unroll 2
        for (int c = 0; c < kChunk; ++c) {
            const float4 weight = weights[size_t(chunk + c) * pairs];
            const float2 weight_a = make_float2(weight.x, weight.y);
            const float2 weight_b = make_float2(weight.z, weight.w);
#pragma unroll
            for (int q = 0; q < kSnapshots / 4; ++q) {
                const float4 x = mine[c * (kSnapshots / 2) + q];
                add_product(sums.of[0][2 * q], weight_a, x.x, x.y);
                add_product(sums.of[0][2 * q + 1], weight_a, x.z, x.w);
                add_product(sums.of[1][2 * q], weight_b, x.x, x.y);
                add_product(sums.of[1][2 * q + 1], weight_b, x.z, x.w);
            }
        }
    }
    return sums;
}

// `to` is where the block's bin begins.
__device__ inline void store_sums(const Sums& sums, int beams, float4* to) {
    const int pair = threadIdx.x % (beams / 2), half = threadIdx.x / (beams / 2);
#pragma unroll
    for (int k = 0; k < 2; ++k) {
        float4* beam = to + (2 * pair + k) * (kSnapshots / 2) + half * (kSnapshots / 4);
#pragma unroll
        for (int q = 0; q < kSnapshots / 4; ++q) {
            const float2 a = sums.of[k][2 * q], b = sums.of[k][2 * q + 1];
            beam[q] = make_float4(a.x, a.y, b.x, b.y);
        }
    }
}

__device__ inline float power_of(const float2* sums) {
    float power = 0;
#pragma unroll
    for (int s = 0; s < kSnapshots / 2; ++s) power += sums[s].x * sums[s].x + sums[s].y * sums[s].y;
    return power;
}

template <int kBins>
__global__ void __launch_bounds__(kBins * 48, kBins > 1 ? 16 / kBins : 12) form_beams(Beams d) {
    const Sums sums = beam_sums<kBins>(d, 0, d.channels);
    const int bin = blockIdx.x * kBins + threadIdx.y;
    if (bin >= d.bins) return;
    store_sums(sums, d.beams, d.out + size_t(bin) * d.beams * (kSnapshots / 2));
    if (d.power) {
        d.power[size_t(bin) * d.beams + threadIdx.x] = make_float2(power_of(sums.of[0]), power_of(sums.of[1]));
    }
}

template <int kBins>
void beams_of_bins(const Beams& d) {
    form_beams<kBins><<<(d.bins + kBins - 1) / kBins, dim3(d.beams, kBins)>>>(d);
}

// The sum over a block of 1024 threads, valid in thread 0.
__device__ inline float block_sum(float value) {
    __shared__ float of_warp[32];
    for (int step = 16; step > 0; step /= 2) value += __shfl_down_sync(~0u, value, step);
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
    __syncthreads();
    value = of_warp[threadIdx.x % 32];
    for (int step = 16; step > 0; step /= 2) value += __shfl_down_sync(~0u, value, step);
    return value;
}
//: end

//: variant one_bin
void one_bin(const Beams& d) { beams_of_bins<1>(d); }
//: end

//: variant two_bins
void two_bins(const Beams& d) { beams_of_bins<2>(d); }
//: end

//: variant eight_bins
void eight_bins(const Beams& d) { beams_of_bins<8>(d); }
//: end

//: variant sixteen_bins
void sixteen_bins(const Beams& d) { beams_of_bins<16>(d); }
//: end

//: variant all_channels
void all_channels(const Beams& d) { beams_of_bins<2>(d); }
//: end

//: variant sixteen_slices
constexpr int kSlices = 16;

__global__ void __launch_bounds__(2 * 48) form_slices(Beams d) {
    const int share = d.channels / kSlices, slice = blockIdx.y;
    const Sums sums = beam_sums<2>(d, slice * share, (slice + 1) * share);
    const int bin = blockIdx.x * 2 + threadIdx.y;
    if (bin >= d.bins) return;
    store_sums(sums, d.beams, d.parts + (size_t(slice) * d.bins + bin) * d.beams * (kSnapshots / 2));
}

__global__ void add_slices(const float4* parts, float4* out, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    float4 sum = parts[i];
#pragma unroll
    for (int s = 1; s < kSlices; ++s) {
        const float4 part = parts[size_t(s) * count + i];
        sum.x += part.x, sum.y += part.y, sum.z += part.z, sum.w += part.w;
    }
    out[i] = sum;
}

void sixteen_slices(const Beams& d) {
    form_slices<<<dim3((d.bins + 1) / 2, kSlices), dim3(d.beams, 2)>>>(d);
    const int count = d.bins * d.beams * kSnapshots / 2;
    add_slices<<<(count + 127) / 128, 128>>>(d.parts, d.out, count);
}
//: end

//: variant level_in_one_go
__global__ void __launch_bounds__(1024) mean_power(const float2* power, float* level, int count) {
    float sum = 0;
    for (int i = threadIdx.x; i < count; i += 1024) sum += power[i].x + power[i].y;
    sum = block_sum(sum);
    if (threadIdx.x == 0) *level = sum / count;
}

void level_in_one_go(const Beams& d) {
    beams_of_bins<8>(d);
    mean_power<<<1, 1024>>>(d.power, d.level, d.bins * d.beams);
}
//: end

//: variant level_of_blocks
constexpr int kLevelBlocks = 128;

__global__ void __launch_bounds__(1024) sum_power(const float2* power, float* sums, int count) {
    float sum = 0;
    for (int i = blockIdx.x * 1024 + threadIdx.x; i < count; i += kLevelBlocks * 1024) {
        sum += power[i].x + power[i].y;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(1024) mean_of_sums(const float* sums, float* level, int count) {
    const float sum = block_sum(threadIdx.x < kLevelBlocks ? sums[threadIdx.x] : 0.0f);
    if (threadIdx.x == 0) *level = sum / count;
}

void level_of_blocks(const Beams& d) {
    beams_of_bins<8>(d);
    sum_power<<<kLevelBlocks, 1024>>>(d.power, d.sums, d.bins * d.beams);
    mean_of_sums<<<1, 1024>>>(d.sums, d.level, d.bins * d.beams);
}
//: end

// --- references and data

// One thread per output: [bin][beam][snapshot].
__global__ void reference_beams(Beams d, float2* expected) {
    const int count = d.bins * d.beams * 16;
    const float2* spectra = reinterpret_cast<const float2*>(d.spectra);
    const float2* weights = reinterpret_cast<const float2*>(d.weights);
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        const int snapshot = i % 16, beam = i / 16 % d.beams, bin = i / 16 / d.beams;
        double re = 0, im = 0;
        for (int c = 0; c < d.channels; ++c) {
            const float2 x = spectra[(size_t(bin) * d.channels + c) * 16 + snapshot];
            const float2 w = weights[(size_t(bin / 16) * d.channels + c) * d.beams + beam];
            re += double(w.x) * x.x - double(w.y) * x.y;
            im += double(w.x) * x.y + double(w.y) * x.x;
        }
        expected[i] = make_float2(static_cast<float>(re), static_cast<float>(im));
    }
}

__global__ void reference_level(const float2* beams, int count, int per_mean, float* level) {
    __shared__ double sums[1024];
    double sum = 0;
    for (int i = threadIdx.x; i < count; i += 1024) {
        sum += double(beams[i].x) * beams[i].x + double(beams[i].y) * beams[i].y;
    }
    sums[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x != 0) return;
    for (int t = 1; t < 1024; ++t) sum += sums[t];
    *level = static_cast<float>(sum / per_mean);
}

Beams set_up(book::Problem& p, int bins, int beams, int channels, bool with_level, bool with_slices) {
    Beams d{};
    d.bins = bins, d.beams = beams, d.channels = channels;
    const size_t inputs = size_t(bins) * channels * kSnapshots;
    const size_t outputs = size_t(bins) * beams * kSnapshots;
    const size_t weights = size_t((bins + kBandBins - 1) / kBandBins) * channels * beams;
    d.spectra = reinterpret_cast<const float4*>(p.uniform<float>(2 * inputs, -1, 1));
    d.weights = reinterpret_cast<const float4*>(p.uniform<float>(2 * weights, -1, 1));
    float* out = p.output<float>(2 * outputs);
    d.out = reinterpret_cast<float4*>(out);
    double level_bytes = 0;
    if (with_slices) d.parts = reinterpret_cast<float4*>(p.output<float>(2 * outputs * 16));
    if (with_level) {
        d.power = p.output<float2>(size_t(bins) * beams);
        d.level = p.output<float>(1);
        d.sums = p.output<float>(128);
        level_bytes = 4;
    }
    p.needs({.dram_bytes = 8.0 * (inputs + weights + outputs) + level_bytes,
             .fp32_flop = 8.0 * outputs * channels});
    p.check<float>(out, 2 * outputs, {1e-4, 2e-3}, [=](float* expected) {
        reference_beams<<<2112, 256>>>(d, reinterpret_cast<float2*>(expected));
    });
    if (with_level) {
        p.check<float>(d.level, 1, {2e-4}, [=](float* expected) {
            float2* fresh = nullptr;
            BOOK_CHECK(cudaMalloc(&fresh, outputs * sizeof(float2)));
            reference_beams<<<2112, 256>>>(d, fresh);
            reference_level<<<1, 1024>>>(fresh, static_cast<int>(outputs), d.bins * d.beams, expected);
            BOOK_CHECK(cudaDeviceSynchronize());
            BOOK_CHECK(cudaFree(fresh));
        });
    }
    return d;
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("beams_36", [](book::Problem& p) {
        const auto d = set_up(p, 4096, 36, 128, false, false);
        p.variant("one_bin", [=] { one_bin(d); });
        p.variant("eight_bins", [=] { eight_bins(d); });
    });
    book.problem("beams_48", [](book::Problem& p) {
        const auto d = set_up(p, 4096, 48, 128, false, false);
        p.variant("one_bin", [=] { one_bin(d); });
        p.variant("eight_bins", [=] { eight_bins(d); });
    });
    book.problem("bins_2112", [](book::Problem& p) {
        const auto d = set_up(p, 2112, 48, 256, false, false);
        p.variant("two_bins", [=] { two_bins(d); });
        p.variant("sixteen_bins", [=] { sixteen_bins(d); });
    });
    book.problem("bins_2144", [](book::Problem& p) {
        const auto d = set_up(p, 2144, 48, 256, false, false);
        p.variant("two_bins", [=] { two_bins(d); });
        p.variant("sixteen_bins", [=] { sixteen_bins(d); });
    });
    book.problem("bins_4320", [](book::Problem& p) {
        const auto d = set_up(p, 4320, 48, 192, false, false);
        p.variant("two_bins", [=] { two_bins(d); });
        p.variant("sixteen_bins", [=] { sixteen_bins(d); });
    });
    book.problem("narrow_band", [](book::Problem& p) {
        const auto d = set_up(p, 48, 48, 4096, false, true);
        p.variant("all_channels", [=] { all_channels(d); });
        p.variant("sixteen_slices", [=] { sixteen_slices(d); });
    });
    book.problem("with_level", [](book::Problem& p) {
        const auto d = set_up(p, 4096, 48, 128, true, false);
        p.variant("level_in_one_go", [=] { level_in_one_go(d); });
        p.variant("level_of_blocks", [=] { level_of_blocks(d); });
    });
    return book.finish();
}
