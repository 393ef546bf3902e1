// Elementwise maps: free energies of level schemes, channel calibrations, smoothed samples.
#include "../../harness/book.h"

//: shared
struct Map {
    int count;
    const float* in;
    float* out;
};
constexpr int kMapBlock = 256;
inline int map_blocks(int count) { return (count + kMapBlock - 1) / kMapBlock; }
//: end

//: variant levels_log
// Free energy of a rotor: -kT log of the sum over levels of (2 k + 1) exp(-k x).
template <int kLevels>
__global__ void energy_levels_log(const float* in, float* out, int count) {
    const int i = blockIdx.x * kMapBlock + threadIdx.x;
    if (i >= count) return;
    const float x = in[i];
    float sum = 1;
#pragma unroll
    for (int k = 1; k < kLevels; ++k) sum += (2 * k + 1) * __expf(-k * x);
    out[i] = -0.0259 * log(sum + 1e-9);
}

template <int kLevels>
void levels_log(const Map& d) {
    energy_levels_log<kLevels><<<map_blocks(d.count), kMapBlock>>>(d.in, d.out, d.count);
}
//: end

//: variant levels
// Free energy of a rotor: -kT log of the sum over levels of (2 k + 1) exp(-k x).
template <int kLevels>
__global__ void energy_levels(const float* in, float* out, int count) {
    const int i = blockIdx.x * kMapBlock + threadIdx.x;
    if (i >= count) return;
    const float x = in[i];
    float sum = 1;
#pragma unroll
    for (int k = 1; k < kLevels; ++k) sum += (2 * k + 1) * __expf(-k * x);
    out[i] = -0.0259f * __logf(sum + 1e-9f);
}

template <int kLevels>
void levels(const Map& d) {
    energy_levels<kLevels><<<map_blocks(d.count), kMapBlock>>>(d.in, d.out, d.count);
}
//: end

//: variant powers_log
// Free energy of a rotor: -kT log of the sum over levels of (2 k + 1) exp(-x)^k.
template <int kLevels>
__global__ void energy_powers_log(const float* in, float* out, int count) {
    const int i = blockIdx.x * kMapBlock + threadIdx.x;
    if (i >= count) return;
    const float base = __expf(-in[i]);
    float sum = 0;
#pragma unroll
    for (int k = kLevels - 1; k >= 0; --k) sum = sum * base + (2 * k + 1);
    out[i] = -0.0259 * log(sum + 1e-9);
}

template <int kLevels>
void powers_log(const Map& d) {
    energy_powers_log<kLevels><<<map_blocks(d.count), kMapBlock>>>(d.in, d.out, d.count);
}
//: end

//: variant powers
// Free energy of a rotor: -kT log of the sum over levels of (2 k + 1) exp(-x)^k.
template <int kLevels>
__global__ void energy_powers(const float* in, float* out, int count) {
    const int i = blockIdx.x * kMapBlock + threadIdx.x;
    if (i >= count) return;
    const float base = __expf(-in[i]);
    float sum = 0;
#pragma unroll
    for (int k = kLevels - 1; k >= 0; --k) sum = sum * base + (2 * k + 1);
    out[i] = -0.0259f * __logf(sum + 1e-9f);
}

template <int kLevels>
void powers(const Map& d) {
    energy_powers<kLevels><<<map_blocks(d.count), kMapBlock>>>(d.in, d.out, d.count);
}
//: end

//: variant powers_fours
// Free energy of a rotor: -kT log of the sum over levels of (2 k + 1) exp(-x)^k. Four elements a thread.
template <int kLevels>
__device__ inline float energy_of(float x) {
    const float base = __expf(-x);
    float sum = 0;
#pragma unroll
    for (int k = kLevels - 1; k >= 0; --k) sum = sum * base + (2 * k + 1);
    return -0.0259f * __logf(sum + 1e-9f);
}

template <int kLevels>
__global__ void energy_powers_fours(const float4* in, float4* out, int fours) {
    const int i = blockIdx.x * kMapBlock + threadIdx.x;
    if (i >= fours) return;
    const float4 x = in[i];
    out[i] = make_float4(energy_of<kLevels>(x.x), energy_of<kLevels>(x.y), energy_of<kLevels>(x.z),
                         energy_of<kLevels>(x.w));
}

template <int kLevels>
void powers_fours(const Map& d) {
    energy_powers_fours<kLevels><<<map_blocks(d.count / 4), kMapBlock>>>(
        reinterpret_cast<const float4*>(d.in), reinterpret_cast<float4*>(d.out), d.count / 4);
}
//: end

//: variant closed
// Free energy of a rotor: -kT log of the sum over levels of (2 k + 1) exp(-x)^k, a finite series.
template <int kLevels>
__global__ void energy_closed(const float* in, float* out, int count) {
    const int i = blockIdx.x * kMapBlock + threadIdx.x;
    if (i >= count) return;
    const float x = in[i];
    const float base = __expf(-x), last = __expf(-kLevels * x), rest = 1.0f - base;
    const float above = 1.0f + base - last * (2 * kLevels + 1 - (2 * kLevels - 1) * base);
    out[i] = -0.0259f * __logf(__fdividef(above, rest * rest) + 1e-9f);
}

template <int kLevels>
void closed(const Map& d) {
    energy_closed<kLevels><<<map_blocks(d.count), kMapBlock>>>(d.in, d.out, d.count);
}
//: end

//: variant powers_volts
// Free energy of a rotor: -kT log of the sum over levels of (2 k + 1) exp(-x)^k.
template <int kLevels>
__global__ void energy_powers_volts(const float* in, float* out, int count) {
    const int i = blockIdx.x * kMapBlock + threadIdx.x;
    if (i >= count) return;
    const float base = __expf(-in[i]);
    float sum = 0;
#pragma unroll
    for (int k = kLevels - 1; k >= 0; --k) sum = sum * base + (2 * k + 1);
    out[i] = -0.0259 * __logf(sum + 1e-9f);
}

template <int kLevels>
void powers_volts(const Map& d) {
    energy_powers_volts<kLevels><<<map_blocks(d.count), kMapBlock>>>(d.in, d.out, d.count);
}
//: end

//: shared
struct Channels {
    int records;             // of 32 samples, all of one channel
    const uint8_t* channel;  // of a record
    const float* at;         // samples, in [-1, 1)
    const float* table;      // [channel][term], highest term first
    float* value;
};
constexpr int kChannels = 136;
constexpr int kTerms = 160;
constexpr int kChannelBlock = 256;

// Fitted once, never changed.
__host__ __device__ constexpr float coefficient(int channel, int term) {
    uint32_t v = uint32_t(channel) * 2654435761u + uint32_t(term) * 40503u + 12345u;
    v = (v ^ (v >> 15)) * 0x2c1b3c6du;
    v = (v ^ (v >> 12)) * 0x297a2d39u;
    v ^= v >> 15;
    return float(int(v >> 12) - 524288) * (1.0f / 524288.0f);
}
//: end

//: variant compiled
template <int kChannel>
__device__ inline float channel_value(float x) {
    float value = 0;
#pragma unroll
    for (int term = 0; term < kTerms; ++term) value = value * x + coefficient(kChannel, term);
    return value;
}

template <int kFirst, int kCount>
__device__ inline float any_channel(int channel, float x) {
    if constexpr (kCount == 1) {
        return channel_value<kFirst>(x);
    } else {
        constexpr int kHalf = kCount / 2;
        return channel < kFirst + kHalf ? any_channel<kFirst, kHalf>(channel, x)
                                        : any_channel<kFirst + kHalf, kCount - kHalf>(channel, x);
    }
}

__global__ void calibrate_compiled(const uint8_t* channel_of, const float* at, float* value) {
    const int sample = blockIdx.x * kChannelBlock + threadIdx.x;
    const int channel = __shfl_sync(~0u, channel_of[sample / 32], 0);
    value[sample] = any_channel<0, kChannels>(channel, at[sample]);
}

void compiled(const Channels& d) {
    calibrate_compiled<<<d.records * 32 / kChannelBlock, kChannelBlock>>>(d.channel, d.at, d.value);
}
//: end

//: variant tabulated
__global__ void calibrate_tabulated(const uint8_t* channel_of, const float* at,
                                    const float4* table, float* value) {
    const int sample = blockIdx.x * kChannelBlock + threadIdx.x;
    const int channel = __shfl_sync(~0u, channel_of[sample / 32], 0);
    const float4* terms = table + channel * (kTerms / 4);
    const float x = at[sample];
    float sum = 0;
#pragma unroll 8
    for (int term = 0; term < kTerms / 4; ++term) {
        const float4 c = __ldg(terms + term);
        sum = (((sum * x + c.x) * x + c.y) * x + c.z) * x + c.w;
    }
    value[sample] = sum;
}

void tabulated(const Channels& d) {
    calibrate_tabulated<<<d.records * 32 / kChannelBlock, kChannelBlock>>>(
        d.channel, d.at, reinterpret_cast<const float4*>(d.table), d.value);
}
//: end

//: shared
constexpr int kFit = 10;
constexpr float kOutlier = 0.99999f;

// The mean over the solution of a system that an outlier gives: coupling x / (|i - j| + 1), 4 on the diagonal.
__device__ inline float coupling(int i, int j, float x) {
    return i == j ? 4.0f : x / ((i < j ? j - i : i - j) + 1);
}
//: end

//: variant refit_unrolled
__device__ inline float refit_in_registers(float x) {
    float a[kFit][kFit], b[kFit];
#pragma unroll
    for (int i = 0; i < kFit; ++i) {
        b[i] = x * (i + 1);
#pragma unroll
        for (int j = 0; j < kFit; ++j) a[i][j] = coupling(i, j, x) * (j % 2 ? -x : 1.0f);
    }
#pragma unroll
    for (int k = 0; k < kFit; ++k) {
#pragma unroll
        for (int i = 0; i < kFit; ++i) {
            if (i == k) continue;
            const float factor = a[i][k] / a[k][k];
#pragma unroll
            for (int j = k + 1; j < kFit; ++j) a[i][j] -= factor * a[k][j];
            b[i] -= factor * b[k];
        }
    }
    float mean = 0;
#pragma unroll
    for (int i = 0; i < kFit; ++i) mean += b[i] / a[i][i];
    return mean / kFit;
}

__global__ void smooth_refit_unrolled(const float* in, float* out, int count) {
    const int i = blockIdx.x * kMapBlock + threadIdx.x;
    if (i >= count) return;
    const float x = in[i];
    out[i] = x < kOutlier ? x * (1.5f - 0.5f * x * x) : refit_in_registers(x);
}

void refit_unrolled(const Map& d) {
    smooth_refit_unrolled<<<map_blocks(d.count), kMapBlock>>>(d.in, d.out, d.count);
}
//: end

//: variant refit_rolled
__device__ inline float refit_in_memory(float x) {
    float a[kFit][kFit], b[kFit];
#pragma unroll 1
    for (int i = 0; i < kFit; ++i) {
        b[i] = x * (i + 1);
#pragma unroll 1
        for (int j = 0; j < kFit; ++j) a[i][j] = coupling(i, j, x) * (j % 2 ? -x : 1.0f);
    }
#pragma unroll 1
    for (int k = 0; k < kFit; ++k) {
#pragma unroll 1
        for (int i = 0; i < kFit; ++i) {
            if (i == k) continue;
            const float factor = a[i][k] / a[k][k];
#pragma unroll 1
            for (int j = k + 1; j < kFit; ++j) a[i][j] -= factor * a[k][j];
            b[i] -= factor * b[k];
        }
    }
    float mean = 0;
#pragma unroll 1
    for (int i = 0; i < kFit; ++i) mean += b[i] / a[i][i];
    return mean / kFit;
}

__global__ void smooth_refit_rolled(const float* in, float* out, int count) {
    const int i = blockIdx.x * kMapBlock + threadIdx.x;
    if (i >= count) return;
    const float x = in[i];
    out[i] = x < kOutlier ? x * (1.5f - 0.5f * x * x) : refit_in_memory(x);
}

void refit_rolled(const Map& d) {
    smooth_refit_rolled<<<map_blocks(d.count), kMapBlock>>>(d.in, d.out, d.count);
}
//: end

__global__ void reference_energy(const float* in, float* expected, int count, int levels) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        double sum = 0;
        for (int k = 0; k < levels; ++k) sum += (2.0 * k + 1) * exp(-double(in[i]) * k);
        expected[i] = float(-0.0259 * log(sum));
    }
}
__global__ void reference_channels(const uint8_t* channel, const float* at, const float* table,
                                   float* expected, int samples) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < samples; i += gridDim.x * blockDim.x) {
        double sum = 0, power = 1;
        for (int term = kTerms - 1; term >= 0; --term) {
            sum += power * table[channel[i / 32] * kTerms + term];
            power *= at[i];
        }
        expected[i] = float(sum);
    }
}
__global__ void reference_smooth(const float* in, float* expected, int count) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        const double x = in[i];
        if (in[i] < 0.99999f) {
            expected[i] = float(x * (1.5 - 0.5 * x * x));
            continue;
        }
        const int n = 10;
        double a[10][11];
        for (int r = 0; r < n; ++r) {
            for (int c = 0; c < n; ++c) {
                a[r][c] = (r == c ? 4.0 : x / (abs(r - c) + 1)) * (c % 2 ? -x : 1.0);
            }
            a[r][n] = x * (r + 1);
        }
        for (int k = 0; k < n; ++k) {
            for (int r = k + 1; r < n; ++r) {
                const double f = a[r][k] / a[k][k];
                for (int c = k; c <= n; ++c) a[r][c] -= f * a[k][c];
            }
        }
        double mean = 0;
        for (int r = n - 1; r >= 0; --r) {
            for (int c = r + 1; c < n; ++c) a[r][n] -= a[r][c] * a[c][n];
            a[r][n] /= a[r][r];
            mean += a[r][n] / n;
        }
        expected[i] = float(mean);
    }
}

template <int kLevels>
Map energy_data(book::Problem& p, int count) {
    Map d{count};
    d.in = p.uniform<float>(count, 0.1, 2.0);
    d.out = p.output<float>(count);
    // Horner's scheme, or the closed form of a long series.
    p.needs({.dram_bytes = 8.0 * count,
             .fp32_flop = std::min(2.0 * kLevels + 3, 16.0) * count,
             .special_op = 2.0 * count});
    p.check<float>(d.out, count, {2e-4, 2e-6}, [=](float* expected) {
        reference_energy<<<1056, 256>>>(d.in, expected, count, kLevels);
    });
    return d;
}

enum class Readout { in_turn, a_third, mostly_one };

void channel_problem(book::Book& book, const char* name, Readout readout) {
    book.problem(name, [=](book::Problem& p) {
        Channels d{278528};
        const uint64_t seed = p.seed();
        d.channel = p.input<uint8_t>(d.records, [=] __device__(size_t i) {
            const double chosen = book::uniform01(seed, 31, i);
            const int any = int(kChannels * book::uniform01(seed, 32, i));
            if (readout == Readout::in_turn) return uint8_t(i % kChannels);
            if (readout == Readout::a_third) return uint8_t(any / 3 * 3);
            return uint8_t(chosen < 0.1 ? any : 77);
        });
        const size_t samples = size_t(d.records) * 32;
        d.at = p.uniform<float>(samples, -0.98, 0.98);
        d.table = p.input<float>(kChannels * kTerms, [=] __device__(size_t i) {
            return coefficient(int(i / kTerms), int(i % kTerms));
        });
        d.value = p.output<float>(samples);
        p.needs({.dram_bytes = 8.0 * samples + d.records, .fp32_flop = 2.0 * kTerms * samples});
        p.check<float>(d.value, samples, {1e-4, 1e-4}, [=](float* expected) {
            reference_channels<<<1056, 256>>>(d.channel, d.at, d.table, expected, int(samples));
        });
        p.variant("compiled", [=] { compiled(d); });
        p.variant("tabulated", [=] { tabulated(d); });
    });
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    constexpr int kCount = 1 << 24;
    book.problem("levels_16", [](book::Problem& p) {
        const Map d = energy_data<16>(p, kCount);
        p.variant("levels_log", [=] { levels_log<16>(d); });
        p.variant("levels", [=] { levels<16>(d); });
        p.variant("powers_log", [=] { powers_log<16>(d); });
        p.variant("powers", [=] { powers<16>(d); });
    });
    book.problem("levels_32", [](book::Problem& p) {
        const Map d = energy_data<32>(p, kCount);
        p.variant("powers", [=] { powers<32>(d); });
        p.variant("closed", [=] { closed<32>(d); });
    });
    book.problem("levels_11", [](book::Problem& p) {
        const Map d = energy_data<11>(p, kCount);
        p.variant("levels", [=] { levels<11>(d); });
        p.variant("powers", [=] { powers<11>(d); });
    });
    book.problem("levels_5", [](book::Problem& p) {
        const Map d = energy_data<5>(p, kCount);
        p.variant("levels", [=] { levels<5>(d); });
        p.variant("powers", [=] { powers<5>(d); });
    });
    book.problem("levels_3", [](book::Problem& p) {
        const Map d = energy_data<3>(p, kCount);
        p.variant("levels", [=] { levels<3>(d); });
        p.variant("powers", [=] { powers<3>(d); });
        p.variant("powers_fours", [=] { powers_fours<3>(d); });
        p.variant("powers_volts", [=] { powers_volts<3>(d); });
    });
    channel_problem(book, "channels_136", Readout::in_turn);
    channel_problem(book, "channels_45", Readout::a_third);
    channel_problem(book, "channels_mostly_one", Readout::mostly_one);
    book.problem("samples_16m", [](book::Problem& p) {
        Map d{kCount};
        d.in = p.uniform<float>(kCount, 0, 1);
        d.out = p.output<float>(kCount);
        p.needs({.dram_bytes = 8.0 * kCount, .fp32_flop = 4.0 * kCount});
        p.check<float>(d.out, kCount, {1e-4, 1e-5}, [=](float* expected) {
            reference_smooth<<<1056, 256>>>(d.in, expected, kCount);
        });
        p.variant("refit_unrolled", [=] { refit_unrolled(d); });
        p.variant("refit_rolled", [=] { refit_rolled(d); });
    });
    return book.finish();
}
