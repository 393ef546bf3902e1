// Zero suppression of a detector readout: samples above the threshold go to a list of hits, whose
// energies are then filled into a map. And the repair of flagged pixels of a stack of frames.
#include "../../harness/book.h"

//: shared
constexpr int kThreads = 256;
constexpr int kTile = 8 * kThreads;

struct alignas(8) Hit {
    unsigned at;
    float adc;
};

struct Readout {
    int samples;  // a multiple of the tile
    float threshold;
    int steps;  // of Newton's method; none: the response is taken as linear
    const float* adc;
    Hit* hits;
    unsigned* count;
    float* energy;
    unsigned* tile_start;
    unsigned* ticket;
};

// Solves adc = 1 - exp(-e) + leak * e, the response of an amplifier that saturates.
__device__ inline float deposited(float adc, int steps) {
    constexpr float kLeak = 0.125f;
    float e = 1.25f * adc;
    for (int k = 0; k < steps; ++k) {
        const float left = expf(-e);
        e -= (1.0f - left + kLeak * e - adc) / (left + kLeak);
    }
    return e;
}

// Eight samples of a thread: four at tid * 4 of the tile's first half, four of the second.
struct Eight {
    float4 low, high;
};

__device__ inline Eight load_eight(const float* adc, unsigned tile, int tid) {
    const float4* at = reinterpret_cast<const float4*>(adc + size_t(tile) * kTile);
    return {at[tid], at[tid + kThreads]};
}

__device__ inline unsigned place_of(unsigned tile, int tid, int k) {
    return tile * kTile + (k < 4 ? 0 : kTile / 2) + 4 * tid + (k & 3);
}

__device__ inline unsigned hits_of(const Eight& v, float threshold) {
    return (v.low.x > threshold) | (v.low.y > threshold) << 1 | (v.low.z > threshold) << 2 |
           (v.low.w > threshold) << 3 | (v.high.x > threshold) << 4 |
           (v.high.y > threshold) << 5 | (v.high.z > threshold) << 6 |
           (v.high.w > threshold) << 7;
}

__device__ inline void store_hits(const Eight& v, unsigned mask, unsigned tile, int tid, Hit* to) {
    const float adc[8] = {v.low.x,  v.low.y,  v.low.z,  v.low.w,
                          v.high.x, v.high.y, v.high.z, v.high.w};
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        if (mask >> k & 1) *to++ = {place_of(tile, tid, k), adc[k]};
    }
}

__device__ inline unsigned sum_up_to_lane(unsigned value) {
    const unsigned lane = threadIdx.x % 32;
    for (int d = 1; d < 32; d *= 2) {
        const unsigned other = __shfl_up_sync(~0u, value, d);
        if (lane >= d) value += other;
    }
    return value;
}

// The sum over the threads of the block before this one; `total` is that of the block.
__device__ inline unsigned sum_before(unsigned value, unsigned& total) {
    __shared__ unsigned of_warp[kThreads / 32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const unsigned inclusive = sum_up_to_lane(value);
    if (lane == 31) of_warp[warp] = inclusive;
    __syncthreads();
    unsigned before = 0;
    total = 0;
#pragma unroll
    for (int w = 0; w < kThreads / 32; ++w) {
        if (w < warp) before += of_warp[w];
        total += of_warp[w];
    }
    return before + inclusive - value;
}

__global__ void fill_energy(const Hit* hits, const unsigned* count, int steps, float* energy) {
    const unsigned found = *count;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < found;
         i += gridDim.x * blockDim.x) {
        const Hit hit = hits[i];
        energy[hit.at] = deposited(hit.adc, steps);
    }
}
//: end

//: variant per_hit
__global__ void select_per_hit(const float* adc, float threshold, Hit* hits, unsigned* count) {
    const int tid = threadIdx.x;
    const Eight v = load_eight(adc, blockIdx.x, tid);
    const unsigned mask = hits_of(v, threshold);
    const float value[8] = {v.low.x,  v.low.y,  v.low.z,  v.low.w,
                            v.high.x, v.high.y, v.high.z, v.high.w};
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        if (mask >> k & 1) hits[atomicAdd(count, 1u)] = {place_of(blockIdx.x, tid, k), value[k]};
    }
}

void per_hit(const Readout& d) {
    select_per_hit<<<d.samples / kTile, kThreads>>>(d.adc, d.threshold, d.hits, d.count);
    fill_energy<<<528, 256>>>(d.hits, d.count, d.steps, d.energy);
}
//: end

//: variant per_warp
__global__ void select_per_warp(const float* adc, float threshold, Hit* hits, unsigned* count) {
    const int tid = threadIdx.x;
    const Eight v = load_eight(adc, blockIdx.x, tid);
    const unsigned mask = hits_of(v, threshold);
    const unsigned own = __popc(mask), inclusive = sum_up_to_lane(own);
    unsigned start = 0;
    if (tid % 32 == 31 && inclusive > 0) start = atomicAdd(count, inclusive);
    start = __shfl_sync(~0u, start, 31);
    store_hits(v, mask, blockIdx.x, tid, hits + start + inclusive - own);
}

void per_warp(const Readout& d) {
    select_per_warp<<<d.samples / kTile, kThreads>>>(d.adc, d.threshold, d.hits, d.count);
    fill_energy<<<528, 256>>>(d.hits, d.count, d.steps, d.energy);
}
//: end

//: variant per_tile
__global__ void select_per_tile(const float* adc, float threshold, Hit* hits, unsigned* count) {
    __shared__ unsigned start;
    const int tid = threadIdx.x;
    const Eight v = load_eight(adc, blockIdx.x, tid);
    const unsigned mask = hits_of(v, threshold);
    unsigned total;
    const unsigned before = sum_before(__popc(mask), total);
    if (total == 0) return;
    if (tid == 0) start = atomicAdd(count, total);
    __syncthreads();
    store_hits(v, mask, blockIdx.x, tid, hits + start + before);
}

void per_tile(const Readout& d) {
    select_per_tile<<<d.samples / kTile, kThreads>>>(d.adc, d.threshold, d.hits, d.count);
    fill_energy<<<528, 256>>>(d.hits, d.count, d.steps, d.energy);
}
//: end

//: variant two_pass
// The last block to finish turns the counts of the tiles into starts.
__global__ void count_tiles(const float* adc, float threshold, unsigned* tile_start,
                            unsigned* ticket, unsigned* count) {
    __shared__ bool last;
    const int tid = threadIdx.x, tiles = gridDim.x;
    const Eight v = load_eight(adc, blockIdx.x, tid);
    unsigned total;
    sum_before(__popc(hits_of(v, threshold)), total);
    if (tid == 0) {
        tile_start[blockIdx.x] = total;
        __threadfence();
        last = atomicAdd(ticket, 1u) + 1 == tiles;
    }
    __syncthreads();
    if (!last) return;
    __threadfence();
    unsigned run = 0;
    for (int first = 0; first < tiles; first += kThreads) {
        const int tile = first + tid;
        const unsigned own = tile < tiles ? __ldcg(tile_start + tile) : 0;
        __syncthreads();
        const unsigned before = sum_before(own, total);
        if (tile < tiles) tile_start[tile] = run + before;
        run += total;
    }
    if (tid == 0) *count = run;
}

__global__ void write_tiles(const float* adc, float threshold, const unsigned* tile_start,
                            Hit* hits) {
    const int tid = threadIdx.x;
    const Eight v = load_eight(adc, blockIdx.x, tid);
    const unsigned mask = hits_of(v, threshold);
    unsigned total;
    const unsigned before = sum_before(__popc(mask), total);
    store_hits(v, mask, blockIdx.x, tid, hits + tile_start[blockIdx.x] + before);
}

void two_pass(const Readout& d) {
    const int tiles = d.samples / kTile;
    count_tiles<<<tiles, kThreads>>>(d.adc, d.threshold, d.tile_start, d.ticket, d.count);
    write_tiles<<<tiles, kThreads>>>(d.adc, d.threshold, d.tile_start, d.hits);
    fill_energy<<<528, 256>>>(d.hits, d.count, d.steps, d.energy);
}
//: end

//: variant in_place
__global__ void fill_in_place(const float* adc, float threshold, int steps, float* energy,
                              unsigned* count) {
    const int tid = threadIdx.x;
    const Eight v = load_eight(adc, blockIdx.x, tid);
    const unsigned mask = hits_of(v, threshold);
    const float value[8] = {v.low.x,  v.low.y,  v.low.z,  v.low.w,
                            v.high.x, v.high.y, v.high.z, v.high.w};
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        if (mask >> k & 1) energy[place_of(blockIdx.x, tid, k)] = deposited(value[k], steps);
    }
    unsigned total;
    sum_before(__popc(mask), total);
    if (tid == 0 && total > 0) atomicAdd(count, total);
}

void in_place(const Readout& d) {
    fill_in_place<<<d.samples / kTile, kThreads>>>(d.adc, d.threshold, d.steps, d.energy,
                                                   d.count);
}
//: end

//: shared
struct Frames {
    int pixels, columns;  // pixels: a multiple of the tile
    const unsigned char* flags;  // not zero: the pixel is not to be trusted
    const unsigned char* image;
    unsigned* list;
    unsigned* count;
    unsigned char* patch;
};

__global__ void patch_pixels(const unsigned char* image, const unsigned* list,
                             const unsigned* count, int columns, int pixels,
                             unsigned char* patch) {
    const unsigned found = *count;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < found;
         i += gridDim.x * blockDim.x) {
        const int at = list[i], x = at % columns;
        const int left = x > 0 ? at - 1 : at, right = x + 1 < columns ? at + 1 : at;
        const int up = at >= columns ? at - columns : at;
        const int down = at + columns < pixels ? at + columns : at;
        patch[at] = (image[left] + image[right] + image[up] + image[down] + 2) / 4;
    }
}
//: end

//: variant flag_bytes
__global__ void list_flag_bytes(const unsigned char* flags, unsigned* list, unsigned* count) {
    __shared__ unsigned start;
    const int tid = threadIdx.x;
    const unsigned first = blockIdx.x * kTile + tid;
    unsigned mask = 0;
#pragma unroll
    for (int k = 0; k < 8; ++k) mask |= unsigned(flags[first + k * kThreads] != 0) << k;
    unsigned total;
    const unsigned before = sum_before(__popc(mask), total);
    if (total == 0) return;
    if (tid == 0) start = atomicAdd(count, total);
    __syncthreads();
    unsigned* to = list + start + before;
    for (; mask; mask &= mask - 1) *to++ = first + (__ffs(mask) - 1) * kThreads;
}

void flag_bytes(const Frames& d) {
    list_flag_bytes<<<d.pixels / kTile, kThreads>>>(d.flags, d.list, d.count);
    patch_pixels<<<528, 256>>>(d.image, d.list, d.count, d.columns, d.pixels, d.patch);
}
//: end

//: variant flag_words
__global__ void list_flag_words(const unsigned char* flags, unsigned* list, unsigned* count) {
    __shared__ unsigned start;
    const int tid = threadIdx.x;
    const unsigned first = blockIdx.x * (2 * kTile) + 16 * tid;
    const uint4 v = *reinterpret_cast<const uint4*>(flags + first);
    const unsigned word[4] = {v.x, v.y, v.z, v.w};
    unsigned mask = 0;
    if (v.x | v.y | v.z | v.w) {
#pragma unroll
        for (int k = 0; k < 16; ++k) mask |= unsigned((word[k / 4] >> 8 * (k % 4) & 255) != 0) << k;
    }
    unsigned total;
    const unsigned before = sum_before(__popc(mask), total);
    if (total == 0) return;
    if (tid == 0) start = atomicAdd(count, total);
    __syncthreads();
    unsigned* to = list + start + before;
    for (; mask; mask &= mask - 1) *to++ = first + __ffs(mask) - 1;
}

void flag_words(const Frames& d) {
    list_flag_words<<<d.pixels / (2 * kTile), kThreads>>>(d.flags, d.list, d.count);
    patch_pixels<<<528, 256>>>(d.image, d.list, d.count, d.columns, d.pixels, d.patch);
}
//: end

__global__ void reference_energy(const float* adc, int samples, float threshold, int steps,
                                 float* expected) {
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < samples;
         i += size_t{gridDim.x} * blockDim.x) {
        double e = 0;
        if (adc[i] > threshold) {
            e = 1.25 * adc[i];
            for (int k = 0; k < steps; ++k) {
                const double left = exp(-e);
                e -= (1 - left + 0.125 * e - adc[i]) / (left + 0.125);
            }
        }
        expected[i] = float(e);
    }
}

__global__ void reference_patch(const unsigned char* flags, const unsigned char* image, int columns,
                                int pixels, unsigned char* expected) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < pixels; i += gridDim.x * blockDim.x) {
        if (flags[i] == 0) {
            expected[i] = 0;
            continue;
        }
        int sum = 2;
        sum += image[i % columns == 0 ? i : i - 1];
        sum += image[(i + 1) % columns == 0 ? i : i + 1];
        sum += image[i / columns == 0 ? i : i - columns];
        sum += image[i >= pixels - columns ? i : i + columns];
        expected[i] = sum / 4;
    }
}

template <class T, class F>
__global__ void reference_count(const T* values, size_t count, F counts, unsigned* expected) {
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count;
         i += size_t{gridDim.x} * blockDim.x) {
        if (counts(values[i])) atomicAdd(expected, 1u);
    }
}

// A share of the samples, at random places, is above the threshold.
Readout set_up(book::Problem& p, int samples, double share, int steps) {
    Readout d{.samples = samples, .threshold = 0.5f, .steps = steps};
    const uint64_t seed = p.seed();
    d.adc = p.input<float>(samples, [=] __device__(size_t i) {
        const bool pulse = book::uniform01(seed, 1, i) < share;
        const double noise = book::uniform01(seed, 2, i);
        return float(pulse ? 0.55 + 0.45 * noise : 0.4 * noise);
    });
    d.hits = p.output<Hit>(samples / 8);
    d.count = p.zeroed<unsigned>(1);
    d.energy = p.zeroed<float>(samples);
    d.tile_start = p.output<unsigned>(samples / kTile);
    d.ticket = p.zeroed<unsigned>(1);
    const double hits = share * samples;
    p.needs({.dram_bytes = 4.0 * samples + 4.0 * hits,
             .fp32_flop = hits * (1 + 8.0 * steps),
             .special_op = hits * 2.0 * steps});
    p.check<float>(d.energy, samples, {2e-5}, [=](float* expected) {
        reference_energy<<<1056, 256>>>(d.adc, d.samples, d.threshold, d.steps, expected);
    });
    p.check<unsigned>(d.count, 1, {0}, [=](unsigned* expected) {
        const float threshold = d.threshold;
        reference_count<<<1056, 256>>>(
            d.adc, d.samples, [=] __device__(float v) { return v > threshold; }, expected);
    });
    return d;
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("sparse", [](book::Problem& p) {
        const auto d = set_up(p, 20 << 20, 0.01, 0);
        p.variant("per_hit", [=] { per_hit(d); });
        p.variant("per_warp", [=] { per_warp(d); });
        p.variant("per_tile", [=] { per_tile(d); });
        p.variant("two_pass", [=] { two_pass(d); });
    });
    book.problem("rare", [](book::Problem& p) {
        const auto d = set_up(p, 20 << 20, 0.0005, 0);
        p.variant("per_hit", [=] { per_hit(d); });
        p.variant("per_tile", [=] { per_tile(d); });
    });
    book.problem("saturated", [](book::Problem& p) {
        const auto d = set_up(p, 20 << 20, 0.03, 16);
        p.variant("in_place", [=] { in_place(d); });
        p.variant("per_tile", [=] { per_tile(d); });
    });
    book.problem("flags", [](book::Problem& p) {
        Frames d{.pixels = 64 << 20, .columns = 4096};
        const uint64_t seed = p.seed();
        d.flags = p.input<unsigned char>(d.pixels, [=] __device__(size_t i) {
            const double u = book::uniform01(seed, 1, i);
            return static_cast<unsigned char>(u < 1e-4 ? 1 + int(u * 3e4) : 0);
        });
        d.image = p.uniform<unsigned char>(d.pixels, 0, 255);
        d.list = p.output<unsigned>(d.pixels / 8);
        d.count = p.zeroed<unsigned>(1);
        d.patch = p.zeroed<unsigned char>(d.pixels);
        const double found = 1e-4 * d.pixels;
        p.needs({.dram_bytes = d.pixels + 5.0 * found, .int_op = 6.0 * found});
        p.check<unsigned char>(d.patch, d.pixels, {0}, [=](unsigned char* expected) {
            reference_patch<<<1056, 256>>>(d.flags, d.image, d.columns, d.pixels, expected);
        });
        p.check<unsigned>(d.count, 1, {0}, [=](unsigned* expected) {
            reference_count<<<1056, 256>>>(
                d.flags, d.pixels, [] __device__(unsigned char v) { return v != 0; }, expected);
        });
        p.variant("flag_bytes", [=] { flag_bytes(d); });
        p.variant("flag_words", [=] { flag_words(d); });
    });
    return book.finish();
}
