// Tallies of Monte Carlo particle transport: what collision events deposit, by energy group, by
// reaction and by mesh cell, and the macroscopic cross section of a material at a particle's energy.
#include "../../harness/book.h"

//: shared
constexpr int kGroups = 64;
constexpr int kReactions = 3;
constexpr int kThreads = 256;
constexpr int kNuclides = 64;
constexpr int kGridPoints = 11303;
constexpr int kCells = 49152;

// Groups of equal lethargy: six octaves, [1, 64), in 64 groups.
__device__ inline int group_of(float energy) {
    return min(kGroups - 1, max(0, int(log2f(energy) * (kGroups / 6.0f))));
}
//: end

struct Detector {
    int events;
    const float2* event;  // energy, deposit
    float* tally;         // kGroups, zero at the start
};

struct Leakage {
    int events;
    const float2* event;  // reaction as a float 0, 1 or 2; weight
    double* total;        // kReactions, zero at the start
    double* partial;      // kReactions per block
};

struct Mesh {
    int events;
    const uint4* cell;  // eight 16-bit cells each
    unsigned* hits;     // kCells, zero at the start
};

struct Lookup {
    int particles;
    const float* energy;   // of the particles, in order
    const float* grid;     // kNuclides x kGridPoints energies, each row in order
    const float* micro;    // kNuclides x kGridPoints cross sections
    const float* density;  // kNuclides
    float* macro;
};

//: variant global_adds
__global__ void score_global(const float2* event, int events, float* tally) {
    const int step = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < events; i += step) {
        const float2 e = event[i];
        atomicAdd(tally + group_of(e.x), e.y);
    }
}

void global_adds(const Detector& d) {
    score_global<<<1056, kThreads>>>(d.event, d.events, d.tally);
}
//: end

//: variant block_copy
__global__ void score_block(const float2* event, int events, float* tally) {
    __shared__ float bins[kGroups];
    for (int g = threadIdx.x; g < kGroups; g += kThreads) bins[g] = 0;
    __syncthreads();
    const int step = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < events; i += step) {
        const float2 e = event[i];
        atomicAdd(bins + group_of(e.x), e.y);
    }
    __syncthreads();
    for (int g = threadIdx.x; g < kGroups; g += kThreads) atomicAdd(tally + g, bins[g]);
}

void block_copy(const Detector& d) {
    score_block<<<1056, kThreads>>>(d.event, d.events, d.tally);
}
//: end

//: variant lane_copies
__global__ void score_lanes(const float2* event, int events, float* tally) {
    __shared__ float bins[kGroups][32];
    const int lane = threadIdx.x % 32;
    for (int g = threadIdx.x / 32; g < kGroups; g += kThreads / 32) bins[g][lane] = 0;
    __syncthreads();
    const int step = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < events; i += step) {
        const float2 e = event[i];
        atomicAdd(&bins[group_of(e.x)][lane], e.y);
    }
    __syncthreads();
    for (int g = threadIdx.x / 32; g < kGroups; g += kThreads / 32) {
        float sum = bins[g][lane];
        for (int offset = 16; offset > 0; offset /= 2) {
            sum += __shfl_down_sync(0xffffffffu, sum, offset);
        }
        if (lane == 0) atomicAdd(tally + g, sum);
    }
}

void lane_copies(const Detector& d) {
    score_lanes<<<1056, kThreads>>>(d.event, d.events, d.tally);
}
//: end

//: shared
__device__ inline double warp_sum(double value) {
    for (int offset = 16; offset > 0; offset /= 2) {
        value += __shfl_down_sync(0xffffffffu, value, offset);
    }
    return value;
}

// Adds the block's sum of each reaction to sum[r] of thread 0.
__device__ inline void block_sum(double (&sum)[kReactions]) {
    __shared__ double of_warp[kReactions][kThreads / 32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int r = 0; r < kReactions; ++r) {
        sum[r] = warp_sum(sum[r]);
        if (lane == 0) of_warp[r][warp] = sum[r];
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int r = 0; r < kReactions; ++r) {
            for (int w = 1; w < kThreads / 32; ++w) sum[r] += of_warp[r][w];
        }
    }
}

// Sums over every event of a thread.
__device__ inline void sum_events(const float2* event, int events, double (&sum)[kReactions]) {
    const int step = gridDim.x * blockDim.x;
#pragma unroll 4
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < events; i += step) {
        const float2 e = event[i];
        for (int r = 0; r < kReactions; ++r) sum[r] += int(e.x) == r ? double(e.y) : 0.0;
    }
}
//: end

//: variant warp_sums
// One event per thread; the sums of a warp are added to the totals.
__global__ void leak_warps(const float2* event, int events, double* total) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float2 e = i < events ? event[i] : make_float2(0, 0);
    for (int r = 0; r < kReactions; ++r) {
        const double sum = warp_sum(int(e.x) == r ? double(e.y) : 0.0);
        if (threadIdx.x % 32 == 0) atomicAdd(total + r, sum);
    }
}

void warp_sums(const Leakage& d) {
    leak_warps<<<(d.events + kThreads - 1) / kThreads, kThreads>>>(d.event, d.events, d.total);
}
//: end

//: variant block_sums
__global__ void leak_blocks(const float2* event, int events, double* total) {
    double sum[kReactions] = {};
    sum_events(event, events, sum);
    block_sum(sum);
    if (threadIdx.x == 0) {
        for (int r = 0; r < kReactions; ++r) atomicAdd(total + r, sum[r]);
    }
}

void block_sums(const Leakage& d) {
    leak_blocks<<<1056, kThreads>>>(d.event, d.events, d.total);
}
//: end

//: variant partial_sums
__global__ void leak_partial(const float2* event, int events, double* partial) {
    double sum[kReactions] = {};
    sum_events(event, events, sum);
    block_sum(sum);
    if (threadIdx.x == 0) {
        for (int r = 0; r < kReactions; ++r) partial[blockIdx.x * kReactions + r] = sum[r];
    }
}

__global__ void leak_finish(const double* partial, int blocks, double* total) {
    double sum[kReactions] = {};
    for (int b = threadIdx.x; b < blocks; b += kThreads) {
        for (int r = 0; r < kReactions; ++r) sum[r] += partial[b * kReactions + r];
    }
    block_sum(sum);
    if (threadIdx.x == 0) {
        for (int r = 0; r < kReactions; ++r) total[r] = sum[r];
    }
}

void partial_sums(const Leakage& d) {
    leak_partial<<<1056, kThreads>>>(d.event, d.events, d.partial);
    leak_finish<<<1, kThreads>>>(d.partial, 1056, d.total);
}
//: end

//: shared
// A block counts its events in a copy of the whole mesh in shared memory.
__global__ void __launch_bounds__(1024) count_cells(const uint4* cell, int packs, unsigned* hits) {
    extern __shared__ unsigned mesh[];
    for (int c = threadIdx.x; c < kCells; c += 1024) mesh[c] = 0;
    __syncthreads();
    for (int i = blockIdx.x * 1024 + threadIdx.x; i < packs; i += gridDim.x * 1024) {
        const uint4 pack = cell[i];
        const unsigned words[4] = {pack.x, pack.y, pack.z, pack.w};
        for (unsigned word : words) {
            atomicAdd(mesh + (word & 0xffff), 1u);
            atomicAdd(mesh + (word >> 16), 1u);
        }
    }
    __syncthreads();
    for (int c = threadIdx.x; c < kCells; c += 1024) {
        if (mesh[c]) atomicAdd(hits + c, mesh[c]);
    }
}

inline void launch_count(const Mesh& d, int blocks) {
    const int bytes = kCells * sizeof(unsigned);
    BOOK_CHECK(cudaFuncSetAttribute(count_cells, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    count_cells<<<blocks, 1024, bytes>>>(d.cell, d.events / 8, d.hits);
}
//: end

//: variant blocks_192
void blocks_192(const Mesh& d) {
    launch_count(d, 192);
}
//: end

//: variant blocks_132
void blocks_132(const Mesh& d) {
    launch_count(d, 132);
}
//: end

//: shared
// Linear interpolation between the grid points that enclose the energy.
__device__ inline float between(const float* grid, const float* micro, int low, float energy) {
    const float share = (energy - grid[low]) / (grid[low + 1] - grid[low]);
    return micro[low] + share * (micro[low + 1] - micro[low]);
}

// The last grid point that is not above the energy, by bisection.
__device__ inline int enclosing(const float* grid, float energy) {
    int low = 0, high = kGridPoints - 1;
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (grid[middle] > energy) {
            high = middle;
        } else {
            low = middle;
        }
    }
    return low;
}
//: end

//: variant per_particle
// One thread per particle; it goes through the nuclides of the material.
__global__ void macro_by_particle(Lookup d) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= d.particles) return;
    const float energy = d.energy[i];
    float sum = 0;
    for (int n = 0; n < kNuclides; ++n) {
        const float* grid = d.grid + n * kGridPoints;
        const int low = enclosing(grid, energy);
        sum += d.density[n] * between(grid, d.micro + n * kGridPoints, low, energy);
    }
    d.macro[i] = sum;
}

void per_particle(const Lookup& d) {
    macro_by_particle<<<(d.particles + 127) / 128, 128>>>(d);
}
//: end

//: variant four_nuclides
// One thread per particle; it bisects the grids of four nuclides in step.
__global__ void macro_by_fours(Lookup d) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= d.particles) return;
    const float energy = d.energy[i];
    float sum = 0;
    for (int n = 0; n < kNuclides; n += 4) {
        int low[4] = {}, length = kGridPoints - 1;
        while (length > 1) {
            const int half = length / 2;
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                const float* grid = d.grid + (n + k) * kGridPoints;
                low[k] += grid[low[k] + half] > energy ? 0 : half;
            }
            length -= half;
        }
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            const float* grid = d.grid + (n + k) * kGridPoints;
            const float* micro = d.micro + (n + k) * kGridPoints;
            sum += d.density[n + k] * between(grid, micro, low[k], energy);
        }
    }
    d.macro[i] = sum;
}

void four_nuclides(const Lookup& d) {
    macro_by_fours<<<(d.particles + 127) / 128, 128>>>(d);
}
//: end

//: variant warp_per_particle
// One warp per particle; its lanes share the nuclides.
__global__ void macro_by_warp(Lookup d) {
    const int i = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (i >= d.particles) return;
    const float energy = d.energy[i];
    float sum = 0;
    for (int n = lane; n < kNuclides; n += 32) {
        const float* grid = d.grid + n * kGridPoints;
        const int low = enclosing(grid, energy);
        sum += d.density[n] * between(grid, d.micro + n * kGridPoints, low, energy);
    }
    for (int offset = 16; offset > 0; offset /= 2) {
        sum += __shfl_down_sync(0xffffffffu, sum, offset);
    }
    if (lane == 0) d.macro[i] = sum;
}

void warp_per_particle(const Lookup& d) {
    macro_by_warp<<<(d.particles + 3) / 4, 128>>>(d);
}
//: end

// --- references

__global__ void reference_groups(const float2* event, int events, double* sums) {
    __shared__ double mine[256];
    const int group = blockIdx.y;
    double sum = 0;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < events; i += gridDim.x * 256) {
        const float2 e = event[i];
        if (min(kGroups - 1, max(0, int(log2f(e.x) * (kGroups / 6.0f)))) == group) sum += e.y;
    }
    mine[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x) return;
    for (int t = 1; t < 256; ++t) sum += mine[t];
    atomicAdd(sums + group, sum);
}

__global__ void reference_reactions(const float2* event, int events, double* sums) {
    __shared__ double mine[256];
    const int reaction = blockIdx.y;
    double sum = 0;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < events; i += gridDim.x * 256) {
        if (event[i].x == float(reaction)) sum += event[i].y;
    }
    mine[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x) return;
    for (int t = 1; t < 256; ++t) sum += mine[t];
    atomicAdd(sums + reaction, sum);
}

__global__ void reference_cells(const unsigned short* cell, int events, unsigned* hits) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < events; i += gridDim.x * blockDim.x) {
        atomicAdd(hits + cell[i], 1u);
    }
}

__global__ void reference_macro(Lookup d, float* expected) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= d.particles) return;
    const double energy = d.energy[i];
    double sum = 0;
    for (int n = 0; n < kNuclides; ++n) {
        const float* grid = d.grid + size_t(n) * kGridPoints;
        int count = 0;  // grid points that are not above the energy, counted from large strides to small
        for (int stride = 1 << 13; stride > 0; stride >>= 1) {
            if (count + stride <= kGridPoints && double(grid[count + stride - 1]) <= energy) count += stride;
        }
        const int low = min(max(count - 1, 0), kGridPoints - 2);
        const double a = grid[low], b = grid[low + 1];
        const double from = d.micro[n * kGridPoints + low], to = d.micro[n * kGridPoints + low + 1];
        sum += double(d.density[n]) * (from + (energy - a) / (b - a) * (to - from));
    }
    expected[i] = float(sum);
}

__global__ void reference_round(const double* sums, int count, float* expected) {
    if (threadIdx.x < count) expected[threadIdx.x] = float(sums[threadIdx.x]);
}

void detector(book::Problem& p) {
    Detector d{8 << 20};
    const uint64_t seed = p.seed();
    // Three events in four are thermal: their energies lie in two neighbouring groups.
    d.event = p.input<float2>(d.events, [=] __device__(size_t i) {
        const double u = book::uniform01(seed, 1, i), kind = book::uniform01(seed, 2, i);
        const double octave = kind < 0.75 ? 1.5 + 0.1875 * u : 6 * u;
        return make_float2(float(exp2(octave)), float(0.5 + book::uniform01(seed, 3, i)));
    });
    d.tally = p.zeroed<float>(kGroups);
    double* sums = p.zeroed<double>(kGroups);
    p.needs({.dram_bytes = 8.0 * d.events + 4.0 * kGroups, .fp32_flop = 1.0 * d.events, .special_op = 1.0 * d.events});
    p.check<float>(d.tally, kGroups, {2e-3}, [=](float* expected) {
        BOOK_CHECK(cudaMemset(sums, 0, kGroups * sizeof(double)));
        reference_groups<<<dim3(64, kGroups), 256>>>(d.event, d.events, sums);
        reference_round<<<1, kGroups>>>(sums, kGroups, expected);
    });
    p.variant("global_adds", [=] { global_adds(d); });
    p.variant("block_copy", [=] { block_copy(d); });
    p.variant("lane_copies", [=] { lane_copies(d); });
}

void leakage(book::Problem& p) {
    Leakage d{12 << 20};
    const uint64_t seed = p.seed();
    d.event = p.input<float2>(d.events, [=] __device__(size_t i) {
        return make_float2(float(int(3 * book::uniform01(seed, 1, i))), float(book::uniform01(seed, 2, i)));
    });
    d.total = p.zeroed<double>(kReactions);
    d.partial = p.output<double>(1056 * kReactions);
    p.needs({.dram_bytes = 8.0 * d.events, .fp64_flop = 1.0 * d.events});
    p.check<double>(d.total, kReactions, {1e-9}, [=](double* expected) {
        reference_reactions<<<dim3(64, kReactions), 256>>>(d.event, d.events, expected);
    });
    p.variant("warp_sums", [=] { warp_sums(d); });
    p.variant("block_sums", [=] { block_sums(d); });
    p.variant("partial_sums", [=] { partial_sums(d); });
}

void mesh_hits(book::Problem& p) {
    Mesh d{64 << 20};
    const uint64_t seed = p.seed();
    const unsigned short* cell = p.input<unsigned short>(d.events, [=] __device__(size_t i) {
        return static_cast<unsigned short>(kCells * book::uniform01(seed, 1, i));
    });
    d.cell = reinterpret_cast<const uint4*>(cell);
    d.hits = p.zeroed<unsigned>(kCells);
    const int events = d.events;
    p.needs({.dram_bytes = 2.0 * d.events + 4.0 * kCells, .int_op = 1.0 * d.events});
    p.check<unsigned>(d.hits, kCells, {0}, [=](unsigned* expected) {
        reference_cells<<<1056, 256>>>(cell, events, expected);
    });
    p.variant("blocks_192", [=] { blocks_192(d); });
    p.variant("blocks_132", [=] { blocks_132(d); });
}

Lookup material(book::Problem& p, int particles) {
    Lookup d{particles};
    const uint64_t seed = p.seed();
    // Event-based transport keeps its particles in the order of their energies.
    d.energy = p.input<float>(particles, [=] __device__(size_t i) {
        return float((i + book::uniform01(seed, 1, i)) / particles);
    });
    d.grid = p.input<float>(kNuclides * kGridPoints, [=] __device__(size_t i) {
        const int point = int(i % kGridPoints);
        if (point == 0) return 0.0f;
        if (point == kGridPoints - 1) return 1.0f;
        return float((point + 0.8 * (book::uniform01(seed, 2, i) - 0.5)) / (kGridPoints - 1));
    });
    d.micro = p.uniform<float>(kNuclides * kGridPoints, 1, 10);
    d.density = p.uniform<float>(kNuclides, 0.1, 1);
    d.macro = p.output<float>(particles);
    p.needs({.dram_bytes = 8.0 * particles + 8.0 * kNuclides * kGridPoints,
             .fp32_flop = 8.0 * kNuclides * particles});
    p.check<float>(d.macro, particles, {2e-5}, [=](float* expected) {
        reference_macro<<<(d.particles + 127) / 128, 128>>>(d, expected);
    });
    return d;
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("detector_f32", detector);
    book.problem("leakage_f64", leakage);
    book.problem("mesh_u32", mesh_hits);
    book.problem("batch_131072", [](book::Problem& p) {
        const auto d = material(p, 131072);
        p.variant("per_particle", [=] { per_particle(d); });
        p.variant("four_nuclides", [=] { four_nuclides(d); });
    });
    book.problem("batch_4096", [](book::Problem& p) {
        const auto d = material(p, 4096);
        p.variant("per_particle", [=] { per_particle(d); });
        p.variant("warp_per_particle", [=] { warp_per_particle(d); });
    });
    return book.finish();
}
