// Launches of one or few blocks: an ensemble of epidemic models, the lowest entry of an array, norms
// of long rows.
#include "../../harness/book.h"

#include <climits>

struct Ensemble {
    int members;
    const float* contact;
    const float* recovery;
    float* peak;
    float* spared;
};

struct Search {
    int count;
    const float* energy;
    unsigned long long* partial;
    unsigned long long* lowest;  // value in the upper half, index in the lower half
};

struct Rows {
    int rows, columns;
    const float* values;
    float* norm;
};

//: shared
constexpr int kDays = 4000;
constexpr float kStep = 0.05f;
constexpr int kRowThreads = 1024;

// Susceptible and infected shares of a population, explicit Euler steps; one member per thread.
__global__ void epidemic(const float* __restrict__ contact, const float* __restrict__ recovery,
                         float* __restrict__ peak, float* __restrict__ spared, int members) {
    const int m = blockIdx.x * blockDim.x + threadIdx.x;
    if (m >= members) return;
    const float spread = contact[m] * kStep, heal = recovery[m] * kStep;
    float s = 0.999f, i = 0.001f, highest = i;
#pragma unroll 4
    for (int day = 0; day < kDays; ++day) {
        const float caught = spread * s * i;
        s -= caught;
        i += caught - heal * i;
        highest = fmaxf(highest, i);
    }
    peak[m] = highest;
    spared[m] = s;
}

inline void run_ensemble(const Ensemble& e, int threads) {
    epidemic<<<(e.members + threads - 1) / threads, threads>>>(e.contact, e.recovery, e.peak,
                                                               e.spared, e.members);
}

// Energies are positive: their bits order as they do.
__device__ unsigned long long lowest_of(const float* energy, int count, int first, int step) {
    float best = __int_as_float(0x7f800000);
    int at = INT_MAX;
    for (int i = first; i < count; i += step) {
        const float e = energy[i];
        if (e < best) best = e, at = i;
    }
    return (unsigned long long)__float_as_uint(best) << 32 | unsigned(at);
}

__device__ unsigned long long lowest_in_block(unsigned long long key) {
    __shared__ unsigned long long of_warp[32];
    for (int offset = 16; offset > 0; offset /= 2) {
        const unsigned long long other = __shfl_xor_sync(0xffffffffu, key, offset);
        key = other < key ? other : key;
    }
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = key;
    __syncthreads();
    if (threadIdx.x < 32) {
        key = threadIdx.x < blockDim.x / 32 ? of_warp[threadIdx.x] : ~0ull;
        for (int offset = 16; offset > 0; offset /= 2) {
            const unsigned long long other = __shfl_xor_sync(0xffffffffu, key, offset);
            key = other < key ? other : key;
        }
    }
    return key;
}

__global__ void find_lowest(const float* energy, int count, unsigned long long* found) {
    const int first = blockIdx.x * blockDim.x + threadIdx.x;
    const auto key = lowest_in_block(lowest_of(energy, count, first, gridDim.x * blockDim.x));
    if (threadIdx.x == 0) found[blockIdx.x] = key;
}

__global__ void lowest_of_partial(const unsigned long long* partial, int count,
                                  unsigned long long* found) {
    unsigned long long key = ~0ull;
    for (int i = threadIdx.x; i < count; i += blockDim.x) key = partial[i] < key ? partial[i] : key;
    key = lowest_in_block(key);
    if (threadIdx.x == 0) *found = key;
}

__device__ float sum_in_block(float sum) {
    __shared__ float of_warp[32];
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = threadIdx.x < blockDim.x / 32 ? of_warp[threadIdx.x] : 0;
        for (int offset = 16; offset > 0; offset /= 2) {
            sum += __shfl_xor_sync(0xffffffffu, sum, offset);
        }
    }
    return sum;
}
//: end

//: variant member_per_block
void member_per_block(const Ensemble& e) { run_ensemble(e, 1); }
//: end

//: variant blocks_of_32
void blocks_of_32(const Ensemble& e) { run_ensemble(e, 32); }
//: end

//: variant blocks_of_128
void blocks_of_128(const Ensemble& e) { run_ensemble(e, 128); }
//: end

//: variant blocks_of_1024
void blocks_of_1024(const Ensemble& e) { run_ensemble(e, 1024); }
//: end

//: variant one_block
void one_block(const Search& s) {
    find_lowest<<<1, 1024>>>(s.energy, s.count, s.lowest);
}
//: end

//: variant eight_blocks
void eight_blocks(const Search& s) {
    constexpr int kBlocks = 8;
    find_lowest<<<kBlocks, 1024>>>(s.energy, s.count, s.partial);
    lowest_of_partial<<<1, 256>>>(s.partial, kBlocks, s.lowest);
}
//: end

//: variant blocks_on_every_sm
void blocks_on_every_sm(const Search& s) {
    constexpr int kBlocks = 264;
    find_lowest<<<kBlocks, 1024>>>(s.energy, s.count, s.partial);
    lowest_of_partial<<<1, 256>>>(s.partial, kBlocks, s.lowest);
}
//: end

//: variant row_per_block
__global__ void squares_of_row(const float* values, float* norm, int columns) {
    const float* row = values + size_t(blockIdx.x) * columns;
    float sum = 0;
#pragma unroll 2
    for (int c = threadIdx.x; c < columns; c += kRowThreads) sum += row[c] * row[c];
    sum = sum_in_block(sum);
    if (threadIdx.x == 0) norm[blockIdx.x] = sum;
}

void row_per_block(const Rows& r) {
    squares_of_row<<<r.rows, kRowThreads>>>(r.values, r.norm, r.columns);
}
//: end

//: variant row_per_two_blocks
__global__ void squares_of_half_row(const float* values, float* norm, int columns) {
    const float* row = values + size_t(blockIdx.x) * columns;
    const int half = columns / 2, first = blockIdx.y * half;
    float sum = 0;
#pragma unroll 2
    for (int c = first + threadIdx.x; c < first + half; c += kRowThreads) sum += row[c] * row[c];
    sum = sum_in_block(sum);
    if (threadIdx.x == 0) atomicAdd(norm + blockIdx.x, sum);
}

// The number of columns is even.
void row_per_two_blocks(const Rows& r) {
    BOOK_CHECK(cudaMemsetAsync(r.norm, 0, r.rows * sizeof(float)));
    squares_of_half_row<<<dim3(r.rows, 2), kRowThreads>>>(r.values, r.norm, r.columns);
}
//: end

__global__ void reference_epidemic(const float* contact, const float* recovery, float* expected,
                                   int members, bool want_peak) {
    const int m = blockIdx.x * blockDim.x + threadIdx.x;
    if (m >= members) return;
    double s = 0.999, i = 0.001, most = i;
    for (int day = 0; day < 4000; ++day) {
        const double caught = double(contact[m]) * 0.05 * s * i;
        i = i + caught - double(recovery[m]) * 0.05 * i;
        s = s - caught;
        if (i > most) most = i;
    }
    expected[m] = float(want_peak ? most : s);
}

__global__ void reference_lowest(const float* energy, int count, unsigned long long* expected) {
    unsigned long long best = ~0ull;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        const auto key = (unsigned long long)__float_as_uint(energy[i]) * 4294967296ull + i;
        if (key < best) best = key;
    }
    atomicMin(expected, best);
}

// One warp per 1/64 of a row, summed in double.
__global__ void reference_norm(const float* values, double* total, int columns) {
    double sum = 0;
    for (int c = blockIdx.y * 32 + threadIdx.x; c < columns; c += 32 * gridDim.y) {
        const double v = values[size_t(blockIdx.x) * columns + c];
        sum += v * v;
    }
    atomicAdd(total + blockIdx.x, sum);
}

__global__ void reference_narrow(const double* total, float* expected, int rows) {
    const int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r < rows) expected[r] = float(total[r]);
}

Ensemble set_up_ensemble(book::Problem& p, int members) {
    Ensemble e{members};
    e.contact = p.uniform<float>(members, 0.2, 0.6);
    e.recovery = p.uniform<float>(members, 0.05, 0.15);
    e.peak = p.output<float>(members);
    e.spared = p.output<float>(members);
    p.needs({.dram_bytes = 16.0 * members, .fp32_flop = 6.0 * kDays * members});
    const int blocks = (members + 127) / 128;
    p.check<float>(e.peak, members, {2e-3, 1e-5}, [=](float* expected) {
        reference_epidemic<<<blocks, 128>>>(e.contact, e.recovery, expected, members, true);
    });
    p.check<float>(e.spared, members, {2e-3, 1e-4}, [=](float* expected) {
        reference_epidemic<<<blocks, 128>>>(e.contact, e.recovery, expected, members, false);
    });
    return e;
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("members_17k", [](book::Problem& p) {
        const auto e = set_up_ensemble(p, 132 * 128);
        p.variant("blocks_of_1024", [=] { blocks_of_1024(e); });
        p.variant("blocks_of_128", [=] { blocks_of_128(e); });
    });
    book.problem("members_90k", [](book::Problem& p) {
        const auto e = set_up_ensemble(p, 88 * 1024);
        p.variant("member_per_block", [=] { member_per_block(e); });
        p.variant("blocks_of_1024", [=] { blocks_of_1024(e); });
        p.variant("blocks_of_128", [=] { blocks_of_128(e); });
    });
    book.problem("members_8k", [](book::Problem& p) {
        const auto e = set_up_ensemble(p, 66 * 128);
        p.variant("blocks_of_128", [=] { blocks_of_128(e); });
        p.variant("blocks_of_32", [=] { blocks_of_32(e); });
    });
    book.problem("lowest_energy", [](book::Problem& p) {
        Search s{24 << 20};
        s.energy = p.uniform<float>(s.count, 0.5, 1000);
        s.partial = p.output<unsigned long long>(264);
        s.lowest = p.output<unsigned long long>(1);
        p.needs({.dram_bytes = 4.0 * s.count});
        const auto* words = reinterpret_cast<const unsigned*>(s.lowest);
        p.check<unsigned>(words, 2, {0}, [=](unsigned* expected) {
            BOOK_CHECK(cudaMemset(expected, 0xFF, 8));
            auto* key = reinterpret_cast<unsigned long long*>(expected);
            reference_lowest<<<1056, 256>>>(s.energy, s.count, key);
        });
        p.variant("one_block", [=] { one_block(s); });
        p.variant("eight_blocks", [=] { eight_blocks(s); });
        p.variant("blocks_on_every_sm", [=] { blocks_on_every_sm(s); });
    });
    book.problem("norms_of_128", [](book::Problem& p) {
        Rows r{128, 196608};
        const size_t count = size_t(r.rows) * r.columns;
        r.values = p.uniform<float>(count, -1, 1);
        r.norm = p.output<float>(r.rows);
        double* total = p.zeroed<double>(r.rows);
        p.needs({.dram_bytes = 4.0 * count + 4.0 * r.rows, .fp32_flop = 2.0 * count});
        p.check<float>(r.norm, r.rows, {2e-5}, [=](float* expected) {
            BOOK_CHECK(cudaMemset(total, 0, r.rows * sizeof(double)));
            reference_norm<<<dim3(r.rows, 64), 32>>>(r.values, total, r.columns);
            reference_narrow<<<1, 128>>>(total, expected, r.rows);
        });
        p.variant("row_per_block", [=] { row_per_block(r); });
        p.variant("row_per_two_blocks", [=] { row_per_two_blocks(r); });
    });
    return book.finish();
}
