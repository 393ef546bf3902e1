// Roll-ups of a stream of messages from measuring devices: totals of the fleet, energy by site, latest
// message by device, sums by region, alarms.
#include "../../harness/book.h"

//: shared
using Key = unsigned long long;  // time of a message, then its number

constexpr int kThreads = 256;
constexpr int kPerThread = 8;
constexpr int kTile = kThreads * kPerThread;
constexpr int kResident = 1024;  // blocks: eight fit on each SM, and all get as many tiles
constexpr int kRegions = 48;
constexpr int kSites = 4096;

__host__ __device__ inline Key key_of(unsigned time, int message) {
    return static_cast<Key>(time) << 32 | static_cast<unsigned>(message);
}
//: end

//: shared
struct Overview {
    double sum;
    Key latest;
    unsigned above;
    unsigned spare;
};

__device__ inline void merge(Overview& into, const Overview& other) {
    into.sum += other.sum;
    into.latest = max(into.latest, other.latest);
    into.above += other.above;
}

__device__ inline Overview warp_overview(Overview mine) {
    for (int step = 16; step > 0; step /= 2) {
        Overview other;
        other.sum = __shfl_down_sync(~0u, mine.sum, step);
        other.latest = __shfl_down_sync(~0u, mine.latest, step);
        other.above = __shfl_down_sync(~0u, mine.above, step);
        merge(mine, other);
    }
    return mine;
}

// Valid in thread 0.
__device__ inline Overview block_overview(Overview mine) {
    __shared__ Overview of_warp[kThreads / 32];
    mine = warp_overview(mine);
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = mine;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < kThreads / 32; ++w) merge(mine, of_warp[w]);
    }
    return mine;
}

__device__ inline void publish(Overview* fleet, const Overview& part) {
    atomicAdd(&fleet->sum, part.sum);
    atomicMax(&fleet->latest, part.latest);
    atomicAdd(&fleet->above, part.above);
}

__device__ inline void take_tile(Overview& mine, const unsigned* time, const float* reading, float limit,
                                 int tile) {
    const int base = tile * kTile + threadIdx.x;
    unsigned t[kPerThread];
    float r[kPerThread];
#pragma unroll
    for (int k = 0; k < kPerThread; ++k) {
        t[k] = time[base + k * kThreads];
        r[k] = reading[base + k * kThreads];
    }
#pragma unroll
    for (int k = 0; k < kPerThread; ++k) {
        mine.sum += r[k];
        mine.latest = max(mine.latest, key_of(t[k], base + k * kThreads));
        mine.above += r[k] > limit;
    }
}

__global__ void __launch_bounds__(kThreads)
    tally_tiles(const unsigned* time, const float* reading, float limit, Overview* fleet, int tiles) {
    Overview mine{0.0, 0, 0, 0};
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        take_tile(mine, time, reading, limit, tile);
    }
    const Overview all = block_overview(mine);
    if (threadIdx.x == 0) publish(fleet, all);
}
//: end

struct Fleet {
    int tiles;
    const unsigned* time;
    const float* reading;
    float limit;
    Overview *fleet, *parts;
};

//: variant by_warp
__global__ void __launch_bounds__(kThreads)
    tally_warps(const unsigned* time, const float* reading, float limit, Overview* fleet) {
    Overview mine{0.0, 0, 0, 0};
    take_tile(mine, time, reading, limit, blockIdx.x);
    mine = warp_overview(mine);
    if (threadIdx.x % 32 == 0) publish(fleet, mine);
}

void by_warp(const Fleet& d) {
    tally_warps<<<d.tiles, kThreads>>>(d.time, d.reading, d.limit, d.fleet);
}
//: end

//: variant by_block
void by_block(const Fleet& d) {
    tally_tiles<<<d.tiles, kThreads>>>(d.time, d.reading, d.limit, d.fleet, d.tiles);
}
//: end

//: variant by_resident_block
void by_resident_block(const Fleet& d) {
    tally_tiles<<<kResident, kThreads>>>(d.time, d.reading, d.limit, d.fleet, d.tiles);
}
//: end

//: variant in_two_passes
__global__ void __launch_bounds__(kThreads)
    tally_parts(const unsigned* time, const float* reading, float limit, Overview* parts, int tiles) {
    Overview mine{0.0, 0, 0, 0};
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        take_tile(mine, time, reading, limit, tile);
    }
    const Overview all = block_overview(mine);
    if (threadIdx.x == 0) parts[blockIdx.x] = all;
}

__global__ void __launch_bounds__(kThreads) add_parts(const Overview* parts, int count, Overview* fleet) {
    Overview mine{0.0, 0, 0, 0};
    for (int i = threadIdx.x; i < count; i += kThreads) merge(mine, parts[i]);
    const Overview all = block_overview(mine);
    if (threadIdx.x == 0) *fleet = all;
}

void in_two_passes(const Fleet& d) {
    tally_parts<<<kResident, kThreads>>>(d.time, d.reading, d.limit, d.parts, d.tiles);
    add_parts<<<1, kThreads>>>(d.parts, kResident, d.fleet);
}
//: end

struct Sites {
    int tiles;
    const unsigned* site;
    const float* reading;
    double* energy;
};

//: shared
// Of a reading in watts over one period of 15 minutes, in kilowatt-hours.
__device__ inline double energy_of(float reading) { return 0.00025 * reading; }
//: end

//: variant swap_energy
__device__ inline void add_energy(double* address, double value) {
    Key* bits = reinterpret_cast<Key*>(address);
    Key old = *bits, assumed;
    do {
        assumed = old;
        old = atomicCAS(bits, assumed, __double_as_longlong(value + __longlong_as_double(assumed)));
    } while (assumed != old);
}

__global__ void __launch_bounds__(kThreads)
    sites_swap(const unsigned* site, const float* reading, double* energy) {
    const int base = blockIdx.x * kTile + threadIdx.x;
    for (int k = 0; k < kPerThread; ++k) {
        const int i = base + k * kThreads;
        add_energy(energy + site[i], energy_of(reading[i]));
    }
}

void swap_energy(const Sites& d) { sites_swap<<<d.tiles, kThreads>>>(d.site, d.reading, d.energy); }
//: end

//: variant add_energy_directly
__global__ void __launch_bounds__(kThreads)
    sites_add(const unsigned* site, const float* reading, double* energy) {
    const int base = blockIdx.x * kTile + threadIdx.x;
    for (int k = 0; k < kPerThread; ++k) {
        const int i = base + k * kThreads;
        atomicAdd(energy + site[i], energy_of(reading[i]));
    }
}

void add_energy_directly(const Sites& d) {
    sites_add<<<d.tiles, kThreads>>>(d.site, d.reading, d.energy);
}
//: end

//: variant stage_energy
// Two blocks of 1024 threads per SM, each with sums of all sites.
__global__ void __launch_bounds__(1024)
    sites_stage(const unsigned* site, const float* reading, double* energy, int count) {
    __shared__ double staged[kSites];
    for (int s = threadIdx.x; s < kSites; s += blockDim.x) staged[s] = 0;
    __syncthreads();
    const int step = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        atomicAdd(staged + site[i], energy_of(reading[i]));
    }
    __syncthreads();
    for (int s = threadIdx.x; s < kSites; s += blockDim.x) {
        if (staged[s] != 0) atomicAdd(energy + s, staged[s]);
    }
}

void stage_energy(const Sites& d) {
    sites_stage<<<2 * 132, 1024>>>(d.site, d.reading, d.energy, d.tiles * kTile);
}
//: end

struct Devices {
    int tiles;
    const unsigned *device, *time;
    Key* latest;
};

//: variant latest_of_all
__global__ void __launch_bounds__(kThreads)
    note_latest(const unsigned* device, const unsigned* time, Key* latest) {
    const int base = blockIdx.x * kTile + threadIdx.x;
#pragma unroll
    for (int k = 0; k < kPerThread; ++k) {
        const int i = base + k * kThreads;
        atomicMax(latest + device[i], key_of(time[i], i));
    }
}

void latest_of_all(const Devices& d) { note_latest<<<d.tiles, kThreads>>>(d.device, d.time, d.latest); }
//: end

//: variant latest_if_newer
__global__ void __launch_bounds__(kThreads)
    note_newer(const unsigned* device, const unsigned* time, Key* latest) {
    const int base = blockIdx.x * kTile + threadIdx.x;
    Key* place[kPerThread];
    Key known[kPerThread];
#pragma unroll
    for (int k = 0; k < kPerThread; ++k) place[k] = latest + device[base + k * kThreads];
    // What is read here may be older than the table, never newer.
#pragma unroll
    for (int k = 0; k < kPerThread; ++k) known[k] = *place[k];
#pragma unroll
    for (int k = 0; k < kPerThread; ++k) {
        const int i = base + k * kThreads;
        const Key key = key_of(time[i], i);
        if (key > known[k]) atomicMax(place[k], key);
    }
}

void latest_if_newer(const Devices& d) { note_newer<<<d.tiles, kThreads>>>(d.device, d.time, d.latest); }
//: end

struct Regions {
    int count;  // a multiple of 1024
    const unsigned* region;
    const float* reading;
    float* sums;
};

//: shared
__device__ inline void clear_sums(float* sums) {
    if (threadIdx.x < kRegions) sums[threadIdx.x] = 0;
    __syncthreads();
}

__device__ inline void add_sums(const float* sums, float* total) {
    __syncthreads();
    if (threadIdx.x < kRegions && sums[threadIdx.x] != 0) atomicAdd(total + threadIdx.x, sums[threadIdx.x]);
}
//: end

//: variant sum_messages
__global__ void __launch_bounds__(kThreads)
    region_messages(const unsigned* region, const float* reading, float* total, int count) {
    __shared__ float sums[kRegions];
    clear_sums(sums);
    for (int i = blockIdx.x * kThreads + threadIdx.x; i < count; i += gridDim.x * kThreads) {
        atomicAdd(sums + region[i], reading[i]);
    }
    add_sums(sums, total);
}

void sum_messages(const Regions& d) {
    region_messages<<<8 * 132, kThreads>>>(d.region, d.reading, d.sums, d.count);
}
//: end

//: variant sum_warps
// Warps are always full: the number of messages is a multiple of 32.
__global__ void __launch_bounds__(kThreads)
    region_warps(const unsigned* region, const float* reading, float* total, int count) {
    __shared__ float sums[kRegions];
    clear_sums(sums);
    for (int i = blockIdx.x * kThreads + threadIdx.x; i < count; i += gridDim.x * kThreads) {
        const unsigned mine = region[i];
        float value = reading[i];
        int same;
        __match_all_sync(~0u, mine, &same);
        if (same) {
            for (int step = 16; step > 0; step /= 2) value += __shfl_down_sync(~0u, value, step);
        }
        if (!same || threadIdx.x % 32 == 0) atomicAdd(sums + mine, value);
    }
    add_sums(sums, total);
}

void sum_warps(const Regions& d) {
    region_warps<<<8 * 132, kThreads>>>(d.region, d.reading, d.sums, d.count);
}
//: end

struct Alarms {
    int quads;
    const float4* reading;
    const unsigned char* region;
    float limit;
    unsigned* alarms;
};

//: variant alarms_directly
__global__ void __launch_bounds__(kThreads)
    count_alarms(const float4* reading, const unsigned char* region, float limit, unsigned* alarms,
                 int quads) {
    for (int q = blockIdx.x * kThreads + threadIdx.x; q < quads; q += gridDim.x * kThreads) {
        const float4 r = reading[q];
        if (r.x > limit) atomicAdd(alarms + region[4 * q], 1u);
        if (r.y > limit) atomicAdd(alarms + region[4 * q + 1], 1u);
        if (r.z > limit) atomicAdd(alarms + region[4 * q + 2], 1u);
        if (r.w > limit) atomicAdd(alarms + region[4 * q + 3], 1u);
    }
}

void alarms_directly(const Alarms& d) {
    count_alarms<<<8 * 132, kThreads>>>(d.reading, d.region, d.limit, d.alarms, d.quads);
}
//: end

//: variant alarms_by_block
__global__ void __launch_bounds__(kThreads)
    stage_alarms(const float4* reading, const unsigned char* region, float limit, unsigned* alarms,
                 int quads) {
    __shared__ unsigned staged[kRegions];
    if (threadIdx.x < kRegions) staged[threadIdx.x] = 0;
    __syncthreads();
    for (int q = blockIdx.x * kThreads + threadIdx.x; q < quads; q += gridDim.x * kThreads) {
        const float4 r = reading[q];
        if (r.x > limit) atomicAdd(staged + region[4 * q], 1u);
        if (r.y > limit) atomicAdd(staged + region[4 * q + 1], 1u);
        if (r.z > limit) atomicAdd(staged + region[4 * q + 2], 1u);
        if (r.w > limit) atomicAdd(staged + region[4 * q + 3], 1u);
    }
    __syncthreads();
    if (threadIdx.x < kRegions && staged[threadIdx.x]) atomicAdd(alarms + threadIdx.x, staged[threadIdx.x]);
}

void alarms_by_block(const Alarms& d) {
    stage_alarms<<<8 * 132, kThreads>>>(d.reading, d.region, d.limit, d.alarms, d.quads);
}
//: end

// --- references and data

__global__ void reference_overview(Fleet d, double* sum, Key* latest, unsigned* above) {
    __shared__ double s[1024];
    __shared__ Key l[1024];
    __shared__ unsigned a[1024];
    double mine = 0;
    Key newest = 0;
    unsigned high = 0;
    for (int i = threadIdx.x; i < d.tiles * 2048; i += 1024) {
        mine += d.reading[i];
        const Key key = (Key(d.time[i]) << 32) + Key(i);
        if (key > newest) newest = key;
        if (d.reading[i] > d.limit) ++high;
    }
    s[threadIdx.x] = mine, l[threadIdx.x] = newest, a[threadIdx.x] = high;
    __syncthreads();
    if (threadIdx.x != 0) return;
    for (int t = 1; t < 1024; ++t) {
        s[0] += s[t], a[0] += a[t];
        if (l[t] > l[0]) l[0] = l[t];
    }
    if (sum) *sum = s[0];
    if (latest) *latest = l[0];
    if (above) *above = a[0];
}

// One block per group adds what belongs to it; `groups` is small.
__global__ void reference_by_group(const unsigned* group, const float* reading, double scale, int groups,
                                   double* sums, int count) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        atomicAdd(sums + (i % 64) * groups + group[i], scale * reading[i]);
    }
}

template <class T>
__global__ void reference_join(const double* sums, int groups, T* out) {
    for (int g = blockIdx.x * blockDim.x + threadIdx.x; g < groups; g += gridDim.x * blockDim.x) {
        double total = 0;
        for (int c = 0; c < 64; ++c) total += sums[c * groups + g];
        out[g] = static_cast<T>(total);
    }
}

template <class T>
void reference_sums(const unsigned* group, const float* reading, double scale, int groups, int count,
                    T* expected) {
    double* copies = nullptr;
    BOOK_CHECK(cudaMalloc(&copies, sizeof(double) * 64 * groups));
    BOOK_CHECK(cudaMemset(copies, 0, sizeof(double) * 64 * groups));
    reference_by_group<<<1056, 256>>>(group, reading, scale, groups, copies, count);
    reference_join<<<16, 256>>>(copies, groups, expected);
    BOOK_CHECK(cudaDeviceSynchronize());
    BOOK_CHECK(cudaFree(copies));
}

// Plain maxima by compare and swap, independent of the variants' atomicMax.
__global__ void reference_latest(const unsigned* device, const unsigned* time, Key* latest, int count) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        const Key key = (Key(time[i]) << 32) + Key(i);
        Key* place = latest + device[i];
        Key seen = *reinterpret_cast<volatile Key*>(place);
        while (seen < key) {
            const Key got = atomicCAS(place, seen, key);
            if (got == seen) break;
            seen = got;
        }
    }
}

__global__ void reference_alarms(Alarms d, unsigned* alarms) {
    const float* reading = reinterpret_cast<const float*>(d.reading);
    const int count = 4 * d.quads;
    unsigned mine = 0;
    for (int i = threadIdx.x; i < count / 64; i += blockDim.x) {
        const int at = blockIdx.x % 64 * (count / 64) + i;
        if (reading[at] > d.limit && d.region[at] == blockIdx.x / 64) ++mine;
    }
    atomicAdd(alarms + blockIdx.x / 64, mine);
}

Fleet set_up_fleet(book::Problem& p, int tiles) {
    Fleet d;
    d.tiles = tiles;
    const int count = tiles * kTile;
    const uint64_t seed = p.seed();
    d.time = p.input<unsigned>(count, [=] __device__(size_t i) {
        return static_cast<unsigned>(book::uniform01(seed, 61, i) * 1000000);
    });
    d.reading = p.uniform<float>(count, 0, 100);
    d.limit = 70.0f;
    d.fleet = p.zeroed<Overview>(1);
    d.parts = p.output<Overview>(kResident);
    p.needs({.dram_bytes = 8.0 * count + 24.0, .fp64_flop = 1.0 * count, .int_op = 2.0 * count});
    p.check<double>(&d.fleet->sum, 1, {1e-9}, [=](double* expected) {
        reference_overview<<<1, 1024>>>(d, expected, nullptr, nullptr);
    });
    p.check<Key>(&d.fleet->latest, 1, {0}, [=](Key* expected) {
        reference_overview<<<1, 1024>>>(d, nullptr, expected, nullptr);
    });
    p.check<unsigned>(&d.fleet->above, 1, {0}, [=](unsigned* expected) {
        reference_overview<<<1, 1024>>>(d, nullptr, nullptr, expected);
    });
    return d;
}

Sites set_up_sites(book::Problem& p, int tiles) {
    Sites d;
    d.tiles = tiles;
    const int count = tiles * kTile;
    const uint64_t seed = p.seed();
    d.site = p.input<unsigned>(count, [=] __device__(size_t i) {
        return static_cast<unsigned>(book::uniform01(seed, 62, i) * kSites);
    });
    d.reading = p.uniform<float>(count, 10, 2000);
    d.energy = p.zeroed<double>(kSites);
    p.needs({.dram_bytes = 8.0 * count + 8.0 * kSites, .fp64_flop = 2.0 * count});
    p.check<double>(d.energy, kSites, {1e-9}, [=](double* expected) {
        reference_sums<double>(d.site, d.reading, 0.00025, kSites, count, expected);
    });
    return d;
}

// One device in the fleet is a gateway that reports 1 / 64 of all messages.
Devices set_up_devices(book::Problem& p, int tiles, int devices) {
    Devices d;
    d.tiles = tiles;
    const int count = tiles * kTile;
    const uint64_t seed = p.seed();
    d.device = p.input<unsigned>(count, [=] __device__(size_t i) {
        const unsigned any = static_cast<unsigned>(book::uniform01(seed, 63, i) * devices);
        return book::uniform01(seed, 64, i) < 1.0 / 64 ? static_cast<unsigned>(devices / 3) : any;
    });
    d.time = p.input<unsigned>(count, [=] __device__(size_t i) {
        return static_cast<unsigned>(book::uniform01(seed, 65, i) * 1000000);
    });
    d.latest = p.zeroed<Key>(devices);
    p.needs({.dram_bytes = 8.0 * count + 8.0 * devices, .int_op = 2.0 * count});
    p.check<Key>(d.latest, devices, {0}, [=](Key* expected) {
        reference_latest<<<1056, 256>>>(d.device, d.time, expected, count);
    });
    return d;
}

// Messages arrive in batches of some 256 from the gateways, each of which is in one region.
Regions set_up_regions(book::Problem& p, int count) {
    Regions d;
    d.count = count;
    const uint64_t seed = p.seed();
    d.region = p.input<unsigned>(count, [=] __device__(size_t i) {
        return static_cast<unsigned>(book::uniform01(seed, 66, (i + 100) / 256) * kRegions);
    });
    d.reading = p.uniform<float>(count, 0, 1);
    d.sums = p.zeroed<float>(kRegions);
    p.needs({.dram_bytes = 8.0 * count + 4.0 * kRegions, .fp32_flop = 1.0 * count});
    p.check<float>(d.sums, kRegions, {2e-4}, [=](float* expected) {
        reference_sums<float>(d.region, d.reading, 1.0, kRegions, d.count, expected);
    });
    return d;
}

Alarms set_up_alarms(book::Problem& p, int quads) {
    Alarms d;
    d.quads = quads;
    const int count = 4 * quads;
    d.reading = reinterpret_cast<const float4*>(p.uniform<float>(count, 0, 1));
    const uint64_t seed = p.seed();
    d.region = p.input<unsigned char>(count, [=] __device__(size_t i) {
        return static_cast<unsigned char>(book::uniform01(seed, 67, i) * kRegions);
    });
    d.limit = 0.9995f;
    d.alarms = p.zeroed<unsigned>(kRegions);
    p.needs({.dram_bytes = 4.0 * count + 0.0005 * count + 4.0 * kRegions, .int_op = 1.0 * count});
    p.check<unsigned>(d.alarms, kRegions, {0}, [=](unsigned* expected) {
        reference_alarms<<<kRegions * 64, 256>>>(d, expected);
    });
    return d;
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("fleet", [](book::Problem& p) {
        const auto d = set_up_fleet(p, 8192);
        p.variant("by_warp", [=] { by_warp(d); });
        p.variant("by_block", [=] { by_block(d); });
        p.variant("by_resident_block", [=] { by_resident_block(d); });
        p.variant("in_two_passes", [=] { in_two_passes(d); });
    });
    book.problem("sites", [](book::Problem& p) {
        const auto d = set_up_sites(p, 2048);
        p.variant("swap_energy", [=] { swap_energy(d); });
        p.variant("add_energy_directly", [=] { add_energy_directly(d); });
        p.variant("stage_energy", [=] { stage_energy(d); });
    });
    book.problem("devices", [](book::Problem& p) {
        const auto d = set_up_devices(p, 4096, 1 << 20);
        p.variant("latest_of_all", [=] { latest_of_all(d); });
        p.variant("latest_if_newer", [=] { latest_if_newer(d); });
    });
    book.problem("regions", [](book::Problem& p) {
        const auto d = set_up_regions(p, 1 << 24);
        p.variant("sum_messages", [=] { sum_messages(d); });
        p.variant("sum_warps", [=] { sum_warps(d); });
    });
    book.problem("alarms", [](book::Problem& p) {
        const auto d = set_up_alarms(p, 1 << 23);
        p.variant("alarms_directly", [=] { alarms_directly(d); });
        p.variant("alarms_by_block", [=] { alarms_by_block(d); });
    });
    return book.finish();
}
