// Sparse voxel maps in open-addressing hash tables: accumulation of points, queries, smoothing of bricks.
#include "../../harness/book.h"

struct Sums {
    int points;
    const float4* point;
    unsigned capacity;               // a power of two
    const unsigned long long* keys;  // of the slots
    const int* voxel;                // of the slots
    float* sums;                     // x, y, z and number of points, by voxel
};

//: shared
struct alignas(32) Entry {
    unsigned long long key;
    unsigned long long stamp;
    float4 normal;
};
//: end

struct Map {
    int points;
    const float4* point;
    unsigned capacity;
    const unsigned long long* keys;
    const float *nx, *ny, *nz, *weight;
    const Entry* entries;
    float4* out;
};

struct Bricks {
    int count;
    const int4* origin;  // brick coordinates
    unsigned capacity;
    const int4* table;  // brick coordinates and index; the index of an empty slot is -1
    const float* value;
    float* out;
};

//: shared
constexpr unsigned long long kEmpty = ~0ull;
constexpr float kPerMetre = 10.0f;
constexpr int kBrick = 8, kVolume = 512;

template <class Real>
__device__ __forceinline__ unsigned long long cell_key(float4 p, Real per_metre) {
    const auto x = static_cast<unsigned>(static_cast<int>(floor(p.x * per_metre)));
    const auto y = static_cast<unsigned>(static_cast<int>(floor(p.y * per_metre)));
    const auto z = static_cast<unsigned>(static_cast<int>(floor(p.z * per_metre)));
    return x | static_cast<unsigned long long>(y) << 21 | static_cast<unsigned long long>(z) << 42;
}

__host__ __device__ __forceinline__ unsigned slot_of(unsigned long long key, unsigned capacity) {
    return static_cast<unsigned>(key * 0x9E3779B97F4A7C15ull >> 32) & (capacity - 1);
}

__device__ __forceinline__ int find_voxel(unsigned long long key, const unsigned long long* keys,
                                          const int* voxel, unsigned capacity) {
    for (unsigned slot = slot_of(key, capacity);; slot = (slot + 1) & (capacity - 1)) {
        const unsigned long long there = keys[slot];
        if (there == key) return voxel[slot];
        if (there == kEmpty) return -1;
    }
}

template <class Real>
__global__ void query_packed(const float4* point, int points, const Entry* entries, unsigned capacity,
                             Real per_metre, float4* out) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < points; i += gridDim.x * blockDim.x) {
        const unsigned long long key = cell_key(point[i], per_metre);
        float4 found = make_float4(0, 0, 0, 0);
        for (unsigned slot = slot_of(key, capacity);; slot = (slot + 1) & (capacity - 1)) {
            const Entry& entry = entries[slot];
            const unsigned long long there = entry.key;
            if (there == key) found = entry.normal;
            if (there == key || there == kEmpty) break;
        }
        out[i] = found;
    }
}

__host__ __device__ __forceinline__ unsigned brick_hash(int x, int y, int z) {
    return unsigned(x) * 73856093u ^ unsigned(y) * 19349669u ^ unsigned(z) * 83492791u;
}
//: end

//: variant per_point
__global__ void add_points(const float4* point, int points, const unsigned long long* keys,
                           const int* voxel, unsigned capacity, float* sums) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= points) return;
    const float4 p = point[i];
    const int v = find_voxel(cell_key(p, kPerMetre), keys, voxel, capacity);
    if (v < 0) return;
    atomicAdd(&sums[4 * v], p.x);
    atomicAdd(&sums[4 * v + 1], p.y);
    atomicAdd(&sums[4 * v + 2], p.z);
    atomicAdd(&sums[4 * v + 3], 1.0f);
}

void per_point(const Sums& s) {
    add_points<<<(s.points + 255) / 256, 256>>>(s.point, s.points, s.keys, s.voxel, s.capacity, s.sums);
}
//: end

//: variant per_run
// Adds up runs of neighbouring lanes with the same voxel; the first lane of a run stores.
__global__ void add_runs(const float4* point, int points, const unsigned long long* keys,
                         const int* voxel, unsigned capacity, float* sums) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const int lane = threadIdx.x % 32;
    float4 p = i < points ? point[i] : make_float4(0, 0, 0, 0);
    const int v = i < points ? find_voxel(cell_key(p, kPerMetre), keys, voxel, capacity) : -1;
    __syncwarp();
    const int left = __shfl_up_sync(0xffffffffu, v, 1);
    const unsigned heads = __ballot_sync(0xffffffffu, lane == 0 || left != v);
    const unsigned later = lane == 31 ? 0 : heads & (0xfffffffeu << lane);
    const int last = later ? __ffs(later) - 2 : 31;
    const int length = last - lane + 1;
    for (int step = 1; step < 32; step *= 2) {
        const float x = __shfl_down_sync(0xffffffffu, p.x, step);
        const float y = __shfl_down_sync(0xffffffffu, p.y, step);
        const float z = __shfl_down_sync(0xffffffffu, p.z, step);
        if (lane + step <= last) p.x += x, p.y += y, p.z += z;
    }
    if (v < 0 || !(heads >> lane & 1)) return;
    atomicAdd(&sums[4 * v], p.x);
    atomicAdd(&sums[4 * v + 1], p.y);
    atomicAdd(&sums[4 * v + 2], p.z);
    atomicAdd(&sums[4 * v + 3], float(length));
}

void per_run(const Sums& s) {
    add_runs<<<(s.points + 255) / 256, 256>>>(s.point, s.points, s.keys, s.voxel, s.capacity, s.sums);
}
//: end

//: variant split_entry
__global__ void query_split(const float4* point, int points, const unsigned long long* keys,
                            const float* nx, const float* ny, const float* nz, const float* weight,
                            unsigned capacity, float4* out) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= points) return;
    const unsigned long long key = cell_key(point[i], kPerMetre);
    float4 found = make_float4(0, 0, 0, 0);
    for (unsigned slot = slot_of(key, capacity);; slot = (slot + 1) & (capacity - 1)) {
        const unsigned long long there = keys[slot];
        if (there == key) found = make_float4(nx[slot], ny[slot], nz[slot], weight[slot]);
        if (there == key || there == kEmpty) break;
    }
    out[i] = found;
}

void split_entry(const Map& m) {
    query_split<<<(m.points + 255) / 256, 256>>>(m.point, m.points, m.keys, m.nx, m.ny, m.nz, m.weight,
                                                m.capacity, m.out);
}
//: end

//: variant packed_entry
void packed_entry(const Map& m) {
    query_packed<<<(m.points + 255) / 256, 256>>>(m.point, m.points, m.entries, m.capacity, 10.0f, m.out);
}
//: end

//: variant packed_132
void packed_132(const Map& m) {
    query_packed<<<132, 128>>>(m.point, m.points, m.entries, m.capacity, 10.0f, m.out);
}
//: end

//: variant packed_scale
void packed_scale(const Map& m) {
    query_packed<<<(m.points + 255) / 256, 256>>>(m.point, m.points, m.entries, m.capacity, 10.0, m.out);
}
//: end

//: variant hash_any
__device__ __forceinline__ int find_brick(int x, int y, int z, const int4* table, unsigned capacity) {
    for (unsigned slot = brick_hash(x, y, z) % capacity;; slot = (slot + 1) % capacity) {
        const int4 there = table[slot];
        if (there.w < 0 || (there.x == x && there.y == y && there.z == z)) return there.w;
    }
}

// The mean of a voxel and those of its six neighbours that exist. One block per brick.
__global__ void smooth_hash_any(const int4* origin, const int4* table, unsigned capacity,
                                  const float* value, float* out) {
    const int x = threadIdx.x % 8, y = threadIdx.x / 8 % 8, z = threadIdx.x / 64;
    const int4 at = origin[blockIdx.x];
    const size_t own = size_t(blockIdx.x) * kVolume + threadIdx.x;
    float sum = value[own], count = 1;
#pragma unroll
    for (int side = 0; side < 6; ++side) {
        const int step = side % 2 ? 1 : -1;
        const int wx = at.x * kBrick + x + (side / 2 == 0 ? step : 0);
        const int wy = at.y * kBrick + y + (side / 2 == 1 ? step : 0);
        const int wz = at.z * kBrick + z + (side / 2 == 2 ? step : 0);
        const int brick = find_brick(wx >> 3, wy >> 3, wz >> 3, table, capacity);
        if (brick >= 0) {
            sum += value[size_t(brick) * kVolume + ((wz & 7) * 8 + (wy & 7)) * 8 + (wx & 7)];
            count += 1;
        }
    }
    out[own] = sum / count;
}

void hash_any(const Bricks& b) {
    smooth_hash_any<<<b.count, kVolume>>>(b.origin, b.table, b.capacity, b.value, b.out);
}
//: end

//: variant hash_power
// The capacity is a power of two.
__device__ __forceinline__ int find_brick_power(int x, int y, int z, const int4* table, unsigned capacity) {
    for (unsigned slot = brick_hash(x, y, z) & (capacity - 1);; slot = (slot + 1) & (capacity - 1)) {
        const int4 there = table[slot];
        if (there.w < 0 || (there.x == x && there.y == y && there.z == z)) return there.w;
    }
}

// The mean of a voxel and those of its six neighbours that exist. One block per brick.
__global__ void smooth_hash_power(const int4* origin, const int4* table, unsigned capacity,
                                  const float* value, float* out) {
    const int x = threadIdx.x % 8, y = threadIdx.x / 8 % 8, z = threadIdx.x / 64;
    const int4 at = origin[blockIdx.x];
    const size_t own = size_t(blockIdx.x) * kVolume + threadIdx.x;
    float sum = value[own], count = 1;
#pragma unroll
    for (int side = 0; side < 6; ++side) {
        const int step = side % 2 ? 1 : -1;
        const int wx = at.x * kBrick + x + (side / 2 == 0 ? step : 0);
        const int wy = at.y * kBrick + y + (side / 2 == 1 ? step : 0);
        const int wz = at.z * kBrick + z + (side / 2 == 2 ? step : 0);
        const int brick = find_brick_power(wx >> 3, wy >> 3, wz >> 3, table, capacity);
        if (brick >= 0) {
            sum += value[size_t(brick) * kVolume + ((wz & 7) * 8 + (wy & 7)) * 8 + (wx & 7)];
            count += 1;
        }
    }
    out[own] = sum / count;
}

void hash_power(const Bricks& b) {
    smooth_hash_power<<<b.count, kVolume>>>(b.origin, b.table, b.capacity, b.value, b.out);
}
//: end

//: variant brick_links
// The mean of a voxel and those of its six neighbours that exist. One block per brick; the capacity is
// a power of two.
__global__ void smooth_links(const int4* origin, const int4* table, unsigned capacity,
                             const float* value, float* out) {
    __shared__ int links[6];
    const int x = threadIdx.x % 8, y = threadIdx.x / 8 % 8, z = threadIdx.x / 64;
    if (threadIdx.x < 6) {
        const int4 at = origin[blockIdx.x];
        const int axis = threadIdx.x / 2, step = threadIdx.x % 2 ? 1 : -1;
        const int bx = at.x + (axis == 0 ? step : 0);
        const int by = at.y + (axis == 1 ? step : 0);
        const int bz = at.z + (axis == 2 ? step : 0);
        unsigned slot = brick_hash(bx, by, bz) & (capacity - 1);
        int4 there = table[slot];
        while (there.w >= 0 && (there.x != bx || there.y != by || there.z != bz)) {
            slot = (slot + 1) & (capacity - 1);
            there = table[slot];
        }
        links[threadIdx.x] = there.w;
    }
    const size_t own = size_t(blockIdx.x) * kVolume + threadIdx.x;
    float sum = value[own], count = 1;
    __syncthreads();
#pragma unroll
    for (int side = 0; side < 6; ++side) {
        const int step = side % 2 ? 1 : -1;
        const int nx = x + (side / 2 == 0 ? step : 0);
        const int ny = y + (side / 2 == 1 ? step : 0);
        const int nz = z + (side / 2 == 2 ? step : 0);
        const bool inside = ((nx | ny | nz) & ~7) == 0;
        const int brick = inside ? int(blockIdx.x) : links[side];
        if (brick >= 0) {
            sum += value[size_t(brick) * kVolume + ((nz & 7) * 8 + (ny & 7)) * 8 + (nx & 7)];
            count += 1;
        }
    }
    out[own] = sum / count;
}

void brick_links(const Bricks& b) {
    smooth_links<<<b.count, kVolume>>>(b.origin, b.table, b.capacity, b.value, b.out);
}
//: end

// --- inputs and references

// Voxel v of a surface: one cell per column, at a height between 0 and 63.
__host__ __device__ inline int3 surface_cell(int v, uint64_t seed) {
    const int x = v % 1024, y = v / 1024;
    return make_int3(x, y, int(64 * book::uniform01(seed, 91, uint64_t(v))));
}

__host__ __device__ inline float4 point_in(int v, size_t i, uint64_t seed) {
    const int3 c = surface_cell(v, seed);
    const double x = c.x + 0.1 + 0.8 * book::uniform01(seed, 92, i);
    const double y = c.y + 0.1 + 0.8 * book::uniform01(seed, 93, i);
    const double z = c.z + 0.1 + 0.8 * book::uniform01(seed, 94, i);
    return make_float4(float(x / 10), float(y / 10), float(z / 10), 1);
}

// A scan sees 64 points of a voxel one after the other; scattered points come in any order.
__host__ __device__ inline int voxel_at(size_t i, int voxels, bool scan, uint64_t seed) {
    if (scan) return int((i + 17) / 64 * 12345 % size_t(voxels));
    return int(book::uniform01(seed, 95, i) * voxels);
}

__global__ void build_map(int voxels, uint64_t seed, unsigned capacity, unsigned long long* keys, int* voxel) {
    const int v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v >= voxels) return;
    const int3 c = surface_cell(v, seed);
    const unsigned long long key = uint64_t(c.x) | uint64_t(c.y) << 21 | uint64_t(c.z) << 42;
    unsigned slot = slot_of(key, capacity);
    while (atomicCAS(&keys[slot], kEmpty, key) != kEmpty) slot = (slot + 1) & (capacity - 1);
    voxel[slot] = v;
}

__global__ void reference_sums(int points, int voxels, bool scan, uint64_t seed, float* expected) {
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < size_t(points); i += gridDim.x * blockDim.x) {
        const int v = voxel_at(i, voxels, scan, seed);
        const float4 p = point_in(v, i, seed);
        const float part[4] = {p.x, p.y, p.z, 1};
        for (int c = 0; c < 4; ++c) atomicAdd(&expected[size_t(v) * 4 + c], part[c]);
    }
}

__host__ __device__ inline float normal_of(int v, int c, uint64_t seed) {
    return float(book::uniform01(seed, 96 + c, uint64_t(v)));
}

__global__ void reference_query(int points, int voxels, uint64_t seed, float* expected) {
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < size_t(points); i += gridDim.x * blockDim.x) {
        const int v = voxel_at(i, voxels, false, seed);
        for (int c = 0; c < 4; ++c) expected[4 * i + c] = normal_of(v, c, seed);
    }
}

// Bricks fill 128 x 128 x 2 positions; their storage order is another.
__host__ __device__ inline int4 brick_at(int b) {
    const int id = b * 12347 & 32767;
    return make_int4(id % 128, id / 128 % 128, id / 16384, b);
}

__global__ void build_bricks(int count, unsigned capacity, int* owners) {
    const int b = blockIdx.x * blockDim.x + threadIdx.x;
    if (b >= count) return;
    const int4 at = brick_at(b);
    unsigned slot = brick_hash(at.x, at.y, at.z) % capacity;
    while (atomicCAS(&owners[slot], -1, b) != -1) slot = (slot + 1) % capacity;
}

__global__ void reference_smooth(const float* value, const int* dense, float* expected) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < 1024 * 1024 * 16; i += gridDim.x * blockDim.x) {
        const int x = i % 1024, y = i / 1024 % 1024, z = i / (1024 * 1024);
        const int moves[7][3] = {{0, 0, 0}, {1, 0, 0}, {-1, 0, 0}, {0, 1, 0}, {0, -1, 0}, {0, 0, 1}, {0, 0, -1}};
        double sum = 0;
        int count = 0;
        size_t own = 0;
        for (int n = 0; n < 7; ++n) {
            const int a = x + moves[n][0], b = y + moves[n][1], c = z + moves[n][2];
            if (a < 0 || b < 0 || c < 0 || a >= 1024 || b >= 1024 || c >= 16) continue;
            const int brick = dense[(c / 8 * 128 + b / 8) * 128 + a / 8];
            const size_t at = size_t(brick) * 512 + c % 8 * 64 + b % 8 * 8 + a % 8;
            if (n == 0) own = at;
            sum += value[at];
            ++count;
        }
        expected[own] = float(sum / count);
    }
}

Sums set_up_sums(book::Problem& p, int points, int voxels, bool scan) {
    Sums s{points};
    const uint64_t seed = p.seed();
    s.capacity = 16384;
    while (s.capacity < 2u * voxels) s.capacity *= 2;
    s.point = p.input<float4>(points, [=] __device__(size_t i) {
        return point_in(voxel_at(i, voxels, scan, seed), i, seed);
    });
    auto* keys = p.input<unsigned long long>(s.capacity, [] __device__(size_t) { return kEmpty; });
    auto* voxel = p.input<int>(s.capacity, [] __device__(size_t) { return -1; });
    build_map<<<(voxels + 255) / 256, 256>>>(voxels, seed, s.capacity, keys, voxel);
    s.keys = keys;
    s.voxel = voxel;
    s.sums = p.zeroed<float>(size_t(voxels) * 4);
    p.needs({.dram_bytes = 16.0 * points + 12.0 * voxels + 16.0 * voxels, .fp32_flop = 4.0 * points});
    p.check<float>(s.sums, size_t(voxels) * 4, {1e-4}, [=](float* expected) {
        reference_sums<<<1056, 256>>>(points, voxels, scan, seed, expected);
    });
    return s;
}

Map set_up_map(book::Problem& p, int points, int voxels) {
    Map m{points};
    const uint64_t seed = p.seed();
    const unsigned capacity = m.capacity = 2u * voxels;
    m.point = p.input<float4>(points, [=] __device__(size_t i) {
        return point_in(voxel_at(i, voxels, false, seed), i, seed);
    });
    auto* keys = p.input<unsigned long long>(capacity, [] __device__(size_t) { return kEmpty; });
    auto* voxel = p.input<int>(capacity, [] __device__(size_t) { return -1; });
    build_map<<<(voxels + 255) / 256, 256>>>(voxels, seed, capacity, keys, voxel);
    m.keys = keys;
    const auto plane = [&](int c) {
        return p.input<float>(capacity, [=] __device__(size_t slot) {
            return voxel[slot] < 0 ? 0 : normal_of(voxel[slot], c, seed);
        });
    };
    m.nx = plane(0), m.ny = plane(1), m.nz = plane(2), m.weight = plane(3);
    const float *nx = m.nx, *ny = m.ny, *nz = m.nz, *weight = m.weight;
    m.entries = p.input<Entry>(capacity, [=] __device__(size_t slot) {
        return Entry{keys[slot], 0, make_float4(nx[slot], ny[slot], nz[slot], weight[slot])};
    });
    m.out = p.output<float4>(points);
    p.needs({.dram_bytes = 32.0 * points + 24.0 * voxels});
    p.check<float>(reinterpret_cast<float*>(m.out), size_t(points) * 4, {0}, [=](float* expected) {
        reference_query<<<1056, 256>>>(points, voxels, seed, expected);
    });
    return m;
}

Bricks set_up_bricks(book::Problem& p) {
    Bricks b{32768};
    b.capacity = 131072;
    b.origin = p.input<int4>(b.count, [] __device__(size_t i) { return brick_at(int(i)); });
    int* owners = p.input<int>(b.capacity, [] __device__(size_t) { return -1; });
    build_bricks<<<b.count / 256, 256>>>(b.count, b.capacity, owners);
    b.table = p.input<int4>(b.capacity, [=] __device__(size_t slot) {
        return owners[slot] < 0 ? make_int4(0, 0, 0, -1) : brick_at(owners[slot]);
    });
    const size_t count = size_t(b.count) * kVolume;
    b.value = p.uniform<float>(count, 0, 1);
    b.out = p.output<float>(count);
    std::vector<int> dense(b.count);
    for (int i = 0; i < b.count; ++i) dense[i * 12347 & 32767] = i;
    const int* brick_of = p.upload(dense);
    p.needs({.dram_bytes = 8.0 * count + 32.0 * b.count, .fp32_flop = 8.0 * count});
    p.check<float>(b.out, count, {1e-5, 1e-6}, [=](float* expected) {
        reference_smooth<<<2112, 256>>>(b.value, brick_of, expected);
    });
    return b;
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("scan", [](book::Problem& p) {
        const auto s = set_up_sums(p, 8'388'608, 32'768, true);
        p.variant("per_point", [=] { per_point(s); });
        p.variant("per_run", [=] { per_run(s); });
    });
    book.problem("scattered", [](book::Problem& p) {
        const auto s = set_up_sums(p, 4'194'304, 1'048'576, false);
        p.variant("per_point", [=] { per_point(s); });
        p.variant("per_run", [=] { per_run(s); });
    });
    book.problem("normals", [](book::Problem& p) {
        const auto m = set_up_map(p, 3'145'728, 1'048'576);
        p.variant("split_entry", [=] { split_entry(m); });
        p.variant("packed_entry", [=] { packed_entry(m); });
        p.variant("packed_132", [=] { packed_132(m); });
        p.variant("packed_scale", [=] { packed_scale(m); });
    });
    book.problem("bricks", [](book::Problem& p) {
        const auto b = set_up_bricks(p);
        p.variant("hash_any", [=] { hash_any(b); });
        p.variant("hash_power", [=] { hash_power(b); });
        p.variant("brick_links", [=] { brick_links(b); });
    });
    return book.finish();
}
