// Tallies that many threads add to: station peaks, energy deposits, word lengths, a squared norm.
#include "../../harness/book.h"

struct Peaks {
    int count, stations;
    const int* station;
    const float* height;  // not negative
    float* peak;          // starts at zero
};

struct Deposits {
    int count, cells, source;
    const int* cell;
    const double* energy;
    double* dose;  // starts at zero
};

struct Words {
    int count, words;
    const int* word;  // numbered by falling frequency in a reference text
    const unsigned short* length;
    unsigned long long* bytes;  // starts at zero
};

struct Vector {
    int count;
    const float* x;
    float* norm2;  // starts at zero
};

//: shared
constexpr int kBlock = 512;
constexpr int kGrid = 132 * 4;

__device__ inline float warp_sum(float v) {
    for (int step = 16; step > 0; step /= 2) v += __shfl_down_sync(~0u, v, step);
    return v;
}

__device__ inline double warp_sum(double v) {
    for (int step = 16; step > 0; step /= 2) v += __shfl_down_sync(~0u, v, step);
    return v;
}

template <int Quads>
__device__ inline float squares_of(const float* x) {
    const float4* quads = reinterpret_cast<const float4*>(x) + size_t(blockIdx.x) * Quads * blockDim.x;
    float4 v[Quads];
#pragma unroll
    for (int q = 0; q < Quads; ++q) v[q] = quads[q * blockDim.x + threadIdx.x];
    float sum = 0;
#pragma unroll
    for (int q = 0; q < Quads; ++q) {
        sum += v[q].x * v[q].x + v[q].y * v[q].y + v[q].z * v[q].z + v[q].w * v[q].w;
    }
    return sum;
}

template <int Quads>
__global__ void norm_by_warp(const float* x, float* norm2) {
    const float sum = warp_sum(squares_of<Quads>(x));
    if (threadIdx.x % 32 == 0) atomicAdd(norm2, sum);
}
//: end

// --- highest reading of each station

//: variant cas_max
__device__ inline float atomic_max(float* address, float value) {
    int* bits = reinterpret_cast<int*>(address);
    int old = *bits, assumed;
    do {
        assumed = old;
        old = atomicCAS(bits, assumed, __float_as_int(fmaxf(value, __int_as_float(assumed))));
    } while (assumed != old);
    return __int_as_float(old);
}

__global__ void peaks_cas(int count, const int* station, const float* height, float* peak) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        atomic_max(&peak[station[i]], height[i]);
    }
}

void cas_max(const Peaks& d) {
    peaks_cas<<<kGrid, kBlock>>>(d.count, d.station, d.height, d.peak);
}
//: end

//: variant int_max
// Floats that are not negative have the order of their bits.
__global__ void peaks_int(int count, const int* station, const float* height, float* peak) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        atomicMax(reinterpret_cast<int*>(&peak[station[i]]), __float_as_int(height[i]));
    }
}

void int_max(const Peaks& d) {
    peaks_int<<<kGrid, kBlock>>>(d.count, d.station, d.height, d.peak);
}
//: end

//: variant block_max
// Floats that are not negative have the order of their bits.
__global__ void peaks_block(int count, int stations, const int* station, const float* height,
                            float* peak) {
    __shared__ int mine[64];
    for (int s = threadIdx.x; s < stations; s += blockDim.x) mine[s] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        atomicMax(&mine[station[i]], __float_as_int(height[i]));
    }
    __syncthreads();
    for (int s = threadIdx.x; s < stations; s += blockDim.x) {
        atomicMax(reinterpret_cast<int*>(&peak[s]), mine[s]);
    }
}

void block_max(const Peaks& d) {
    peaks_block<<<kGrid, kBlock>>>(d.count, d.stations, d.station, d.height, d.peak);
}
//: end

// --- dose in the cells around a source

//: variant deposit
__global__ void deposit_all(int count, const int* cell, const double* energy, double* dose) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        atomicAdd(&dose[cell[i]], energy[i]);
    }
}

void deposit(const Deposits& d) {
    deposit_all<<<kGrid, kBlock>>>(d.count, d.cell, d.energy, d.dose);
}
//: end

//: variant deposit_source_apart
__global__ void deposit_apart(int count, const int* cell, const double* energy, double* dose,
                              int source) {
    double at_source = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        const int c = cell[i];
        if (c == source) {
            at_source += energy[i];
        } else {
            atomicAdd(&dose[c], energy[i]);
        }
    }
    __shared__ double of_warp[kBlock / 32];
    at_source = warp_sum(at_source);
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = at_source;
    __syncthreads();
    if (threadIdx.x < 32) {
        at_source = warp_sum(threadIdx.x < kBlock / 32 ? of_warp[threadIdx.x] : 0.0);
        if (threadIdx.x == 0) atomicAdd(&dose[source], at_source);
    }
}

void deposit_source_apart(const Deposits& d) {
    deposit_apart<<<kGrid, kBlock>>>(d.count, d.cell, d.energy, d.dose, d.source);
}
//: end

// --- bytes of text by word

//: variant words_direct
__global__ void bytes_by_word(int count, const int* word, const unsigned short* length,
                              unsigned long long* bytes) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        atomicAdd(&bytes[word[i]], static_cast<unsigned long long>(length[i]));
    }
}

void words_direct(const Words& d) {
    bytes_by_word<<<kGrid, kBlock>>>(d.count, d.word, d.length, d.bytes);
}
//: end

//: variant words_head_first
// The first kHead words go to shared memory. A block sees fewer than 65536 words: 32 bits suffice.
constexpr int kHead = 2048;

__global__ void bytes_by_word_head(int count, const int* word, const unsigned short* length,
                                   unsigned long long* bytes) {
    __shared__ unsigned head[kHead];
    for (int w = threadIdx.x; w < kHead; w += blockDim.x) head[w] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        const int w = word[i];
        if (w < kHead) {
            atomicAdd(&head[w], static_cast<unsigned>(length[i]));
        } else {
            atomicAdd(&bytes[w], static_cast<unsigned long long>(length[i]));
        }
    }
    __syncthreads();
    for (int w = threadIdx.x; w < kHead; w += blockDim.x) {
        if (head[w]) atomicAdd(&bytes[w], static_cast<unsigned long long>(head[w]));
    }
}

void words_head_first(const Words& d) {
    bytes_by_word_head<<<kGrid, kBlock>>>(d.count, d.word, d.length, d.bytes);
}
//: end

// --- squared norm of a vector

//: variant warp_4
void warp_4(const Vector& d) {
    norm_by_warp<1><<<d.count / (256 * 4), 256>>>(d.x, d.norm2);
}
//: end

//: variant warp_16
void warp_16(const Vector& d) {
    norm_by_warp<4><<<d.count / (256 * 16), 256>>>(d.x, d.norm2);
}
//: end

//: variant block_16
template <int Quads>
__global__ void norm_by_block(const float* x, float* norm2) {
    __shared__ float of_warp[8];
    float sum = warp_sum(squares_of<Quads>(x));
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = warp_sum(threadIdx.x < 8 ? of_warp[threadIdx.x] : 0.0f);
        if (threadIdx.x == 0) atomicAdd(norm2, sum);
    }
}

void block_16(const Vector& d) {
    norm_by_block<4><<<d.count / (256 * 16), 256>>>(d.x, d.norm2);
}
//: end

// --- references

// One block per station.
__global__ void reference_peaks(Peaks d, float* expected) {
    __shared__ float best[1024];
    float mine = 0;
    for (int i = threadIdx.x; i < d.count; i += blockDim.x) {
        if (d.station[i] == int(blockIdx.x) && d.height[i] > mine) mine = d.height[i];
    }
    best[threadIdx.x] = mine;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int t = 1; t < int(blockDim.x); ++t) mine = best[t] > mine ? best[t] : mine;
        expected[blockIdx.x] = mine;
    }
}

template <class Key, class From, class To>
__global__ void reference_sums(int count, const Key* key, const From* value, To* expected) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) atomicAdd(expected + key[i], To(value[i]));
}

// One block.
__global__ void reference_norm(int count, const float* x, float* expected) {
    __shared__ double part[1024];
    double sum = 0;
    for (int i = threadIdx.x; i < count; i += blockDim.x) sum += double(x[i]) * double(x[i]);
    part[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int t = 1; t < int(blockDim.x); ++t) sum += part[t];
        *expected = float(sum);
    }
}

// --- problems

void words_problem(book::Problem& p, double exponent) {
    Words d{1 << 23, 1 << 20};
    const uint64_t seed = p.seed();
    const double words = d.words, power = 1 - exponent;
    // Word w occurs about w to the power of -exponent times as often as the first one.
    d.word = p.input<int>(d.count, [=] __device__(size_t i) {
        const double u = book::uniform01(seed, 77, i);
        const double at = pow(1 + u * (pow(words + 1, power) - 1), 1 / power);
        return min(static_cast<int>(words) - 1, static_cast<int>(at) - 1);
    });
    d.length = p.uniform<unsigned short>(d.count, 1, 24);
    d.bytes = p.zeroed<unsigned long long>(d.words);
    p.needs({.dram_bytes = 6.0 * d.count + 8.0 * d.words});
    p.check<unsigned long long>(d.bytes, d.words, {0}, [=](unsigned long long* expected) {
        reference_sums<<<(d.count + 255) / 256, 256>>>(d.count, d.word, d.length, expected);
    });
    p.variant("words_direct", [=] { words_direct(d); });
    p.variant("words_head_first", [=] { words_head_first(d); });
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("peaks_16", [](book::Problem& p) {
        Peaks d{1 << 22, 16};
        d.station = p.uniform<int>(d.count, 0, d.stations);
        d.height = p.uniform<float>(d.count, 0, 1000);
        d.peak = p.zeroed<float>(d.stations);
        p.needs({.dram_bytes = 8.0 * d.count + 4.0 * d.stations});
        p.check<float>(d.peak, d.stations, {0}, [=](float* expected) {
            reference_peaks<<<d.stations, 1024>>>(d, expected);
        });
        p.variant("cas_max", [=] { cas_max(d); });
        p.variant("int_max", [=] { int_max(d); });
        p.variant("block_max", [=] { block_max(d); });
    });
    book.problem("dose_tenth", [](book::Problem& p) {
        Deposits d{1 << 22, 1 << 20, 1 << 19};
        const uint64_t seed = p.seed();
        const int cells = d.cells, source = d.source;
        d.cell = p.input<int>(d.count, [=] __device__(size_t i) {
            if (book::uniform01(seed, 78, i) < 0.1) return source;
            return static_cast<int>(cells * book::uniform01(seed, 79, i));
        });
        d.energy = p.uniform<double>(d.count, 0, 1);
        d.dose = p.zeroed<double>(d.cells);
        p.needs({.dram_bytes = 12.0 * d.count + 8.0 * d.cells, .fp64_flop = 1.0 * d.count});
        p.check<double>(d.dose, d.cells, {1e-10, 1e-12}, [=](double* expected) {
            reference_sums<<<(d.count + 255) / 256, 256>>>(d.count, d.cell, d.energy, expected);
        });
        p.variant("deposit", [=] { deposit(d); });
        p.variant("deposit_source_apart", [=] { deposit_source_apart(d); });
    });
    book.problem("words_steep", [](book::Problem& p) { words_problem(p, 0.8); });
    book.problem("words_flat", [](book::Problem& p) { words_problem(p, 0.5); });
    book.problem("norm_f32", [](book::Problem& p) {
        Vector d{1 << 24};
        d.x = p.uniform<float>(d.count, -1, 1);
        d.norm2 = p.zeroed<float>(1);
        p.needs({.dram_bytes = 4.0 * d.count + 4, .fp32_flop = 2.0 * d.count});
        p.check<float>(d.norm2, 1, {2e-4}, [=](float* expected) {
            reference_norm<<<1, 1024>>>(d.count, d.x, expected);
        });
        p.variant("warp_4", [=] { warp_4(d); });
        p.variant("warp_16", [=] { warp_16(d); });
        p.variant("block_16", [=] { block_16(d); });
    });
    return book.finish();
}
