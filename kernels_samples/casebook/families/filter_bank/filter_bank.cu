// A bank of FIR filters (gammatone, Gabor) over the channels of a recording:
// out[c][f][t] = sum over k of tap[f][k] * in[c][t + k].
#include "../../harness/book.h"

struct Bank {
    int channels, filters, samples;  // samples of the output; the input has one filter length more
    const float* in;
    const float* taps;  // [filter][tap]
    float* out;
};

//: shared
// Blocks of one sample per thread, and of groups of four samples per thread.
constexpr int kSingles = 256, kLanes = 128;

// The piece of the recording that a block needs; the length is a multiple of four.
template <int Threads, int Length>
__device__ inline void load_piece(const float* from, float* piece) {
    for (int i = threadIdx.x; i < Length / 4; i += Threads) {
        reinterpret_cast<float4*>(piece)[i] = reinterpret_cast<const float4*>(from)[i];
    }
}

// Taps of neighbouring filters side by side: [tap][filter].
template <int Threads, int Taps, int Filters>
__device__ inline void load_taps(const float* from, float* taps) {
    for (int i = threadIdx.x; i < Taps * Filters; i += Threads) {
        taps[(i % Taps) * Filters + i / Taps] = from[i];
    }
}

template <int Count>
__device__ inline void load_quads(const float* from, float (&values)[4 * Count]) {
#pragma unroll
    for (int i = 0; i < Count; ++i) {
        const float4 v = reinterpret_cast<const float4*>(from)[i];
        values[4 * i] = v.x, values[4 * i + 1] = v.y, values[4 * i + 2] = v.z, values[4 * i + 3] = v.w;
    }
}

template <int Taps, int Filters>
__global__ void __launch_bounds__(kSingles) bank_singles(Bank b) {
    __shared__ alignas(16) float piece[kSingles + Taps];
    __shared__ alignas(16) float taps[Taps * Filters];
    const int first = blockIdx.x * kSingles, filter = blockIdx.y * Filters, channel = blockIdx.z;
    load_piece<kSingles, kSingles + Taps>(b.in + size_t(channel) * (b.samples + Taps) + first, piece);
    load_taps<kSingles, Taps, Filters>(b.taps + filter * Taps, taps);
    __syncthreads();
    float sum[Filters] = {};
#pragma unroll 4
    for (int k = 0; k < Taps; k += 4) {
        float tap[4 * Filters];
        load_quads<Filters>(taps + k * Filters, tap);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const float x = piece[threadIdx.x + k + j];
#pragma unroll
            for (int f = 0; f < Filters; ++f) sum[f] += tap[j * Filters + f] * x;
        }
    }
    float* out = b.out + (size_t(channel) * b.filters + filter) * b.samples + first + threadIdx.x;
#pragma unroll
    for (int f = 0; f < Filters; ++f) out[size_t(f) * b.samples] = sum[f];
}

// A thread has `Groups` groups of four neighbouring samples, for each of `Filters` filters.
template <int Taps, int Groups, int Filters>
__global__ void __launch_bounds__(kLanes) bank_groups(Bank b) {
    constexpr int kStep = 4 * kLanes, kPiece = Groups * kStep;
    __shared__ alignas(16) float piece[kPiece + Taps];
    __shared__ alignas(16) float taps[Taps * Filters];
    const int first = blockIdx.x * kPiece, filter = blockIdx.y * Filters, channel = blockIdx.z;
    load_piece<kLanes, kPiece + Taps>(b.in + size_t(channel) * (b.samples + Taps) + first, piece);
    load_taps<kLanes, Taps, Filters>(b.taps + filter * Taps, taps);
    __syncthreads();
    const float* own = piece + 4 * threadIdx.x;
    float sum[Groups][Filters][4] = {};
    float window[Groups][8];
#pragma unroll
    for (int g = 0; g < Groups; ++g) {
        float start[4];
        load_quads<1>(own + g * kStep, start);
#pragma unroll
        for (int i = 0; i < 4; ++i) window[g][4 + i] = start[i];
    }
#pragma unroll 4
    for (int k = 0; k < Taps; k += 4) {
        float tap[4 * Filters];
        load_quads<Filters>(taps + k * Filters, tap);
#pragma unroll
        for (int g = 0; g < Groups; ++g) {
            float next[4];
            load_quads<1>(own + g * kStep + k + 4, next);
#pragma unroll
            for (int i = 0; i < 4; ++i) window[g][i] = window[g][4 + i], window[g][4 + i] = next[i];
#pragma unroll
            for (int j = 0; j < 4; ++j) {
#pragma unroll
                for (int f = 0; f < Filters; ++f) {
#pragma unroll
                    for (int i = 0; i < 4; ++i) sum[g][f][i] += tap[j * Filters + f] * window[g][i + j];
                }
            }
        }
    }
    float* out = b.out + (size_t(channel) * b.filters + filter) * b.samples + first + 4 * threadIdx.x;
#pragma unroll
    for (int g = 0; g < Groups; ++g) {
#pragma unroll
        for (int f = 0; f < Filters; ++f) {
            const float* s = sum[g][f];
            *reinterpret_cast<float4*>(out + size_t(f) * b.samples + g * kStep) = make_float4(s[0], s[1], s[2], s[3]);
        }
    }
}

template <int Taps, int Filters>
void run_singles(const Bank& b) {
    const dim3 grid(b.samples / kSingles, b.filters / Filters, b.channels);
    bank_singles<Taps, Filters><<<grid, kSingles>>>(b);
}

template <int Taps, int Groups, int Filters>
void run_groups(const Bank& b) {
    const dim3 grid(b.samples / (4 * Groups * kLanes), b.filters / Filters, b.channels);
    bank_groups<Taps, Groups, Filters><<<grid, kLanes>>>(b);
}
//: end

//: variant per_output
template <int Taps>
void per_output(const Bank& b) {
    run_singles<Taps, 1>(b);
}
//: end

//: variant filters_4
template <int Taps>
void filters_4(const Bank& b) {
    run_singles<Taps, 4>(b);
}
//: end

//: variant samples_4
template <int Taps>
void samples_4(const Bank& b) {
    run_groups<Taps, 1, 1>(b);
}
//: end

//: variant tile_4x2
template <int Taps>
void tile_4x2(const Bank& b) {
    run_groups<Taps, 1, 2>(b);
}
//: end

//: variant tile_4x4
template <int Taps>
void tile_4x4(const Bank& b) {
    run_groups<Taps, 1, 4>(b);
}
//: end

//: variant tile_8x4
template <int Taps>
void tile_8x4(const Bank& b) {
    run_groups<Taps, 2, 4>(b);
}
//: end

//: variant tile_8x8
template <int Taps>
void tile_8x8(const Bank& b) {
    run_groups<Taps, 2, 8>(b);
}
//: end

__global__ void reference_bank(Bank b, int taps, float* expected) {
    const size_t count = size_t(b.channels) * b.filters * b.samples;
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count; i += size_t{gridDim.x} * blockDim.x) {
        const size_t t = i % b.samples, row = i / b.samples, f = row % b.filters, c = row / b.filters;
        double sum = 0;
        for (int k = 0; k < taps; ++k) {
            sum += double(b.taps[f * taps + k]) * b.in[c * (b.samples + taps) + t + k];
        }
        expected[i] = float(sum);
    }
}

template <int Taps>
Bank set_up(book::Problem& p, int channels, int filters, int samples) {
    Bank b{channels, filters, samples};
    b.in = p.uniform<float>(size_t(channels) * (samples + Taps), -1, 1);
    b.taps = p.uniform<float>(size_t(filters) * Taps, -0.5, 0.5);
    const size_t count = size_t(channels) * filters * samples;
    b.out = p.output<float>(count);
    p.needs({.dram_bytes = 4.0 * (count + double(channels) * (samples + Taps) + filters * Taps),
             .fp32_flop = 2.0 * Taps * count});
    p.check<float>(b.out, count, {1e-5, 1e-5}, [=](float* expected) {
        reference_bank<<<1056, 256>>>(b, Taps, expected);
    });
    return b;
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("taps_64", [](book::Problem& p) {
        const Bank b = set_up<64>(p, 8, 16, 1 << 18);
        p.variant("per_output", [=] { per_output<64>(b); });
        p.variant("filters_4", [=] { filters_4<64>(b); });
        p.variant("samples_4", [=] { samples_4<64>(b); });
        p.variant("tile_4x2", [=] { tile_4x2<64>(b); });
        p.variant("tile_8x4", [=] { tile_8x4<64>(b); });
        p.variant("tile_8x8", [=] { tile_8x8<64>(b); });
    });
    book.problem("taps_16", [](book::Problem& p) {
        const Bank b = set_up<16>(p, 8, 16, 1 << 18);
        p.variant("samples_4", [=] { samples_4<16>(b); });
        p.variant("tile_4x4", [=] { tile_4x4<16>(b); });
        p.variant("tile_8x4", [=] { tile_8x4<16>(b); });
    });
    return book.finish();
}
