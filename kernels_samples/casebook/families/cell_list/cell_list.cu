// Short-range forces between particles that are sorted into cells as wide as the cutoff.
#include "../../harness/book.h"

struct Record {
    float4 place, velocity, charge, tag;
};

struct Data {
    int particles, side, cells, chunks;
    const int* start;        // of each cell, in particles; cells + 1
    const float4* place;     // sorted by cell
    const Record* record;    // the same particles with all they have
    const int2* chunk;       // cell and first particle of each 32 particles of a cell
    float4* force;           // and energy
};

//: shared
constexpr int kBlock = 128, kWarps = kBlock / 32;

// Factors of the distance vector and energies, by the squared distance; they vanish at the cutoff, 1.
struct LennardJones {
    __device__ static float2 at(float r2) {
        const float inverse = 1.f / (r2 + 0.3f), third = inverse * inverse * inverse;
        const float taper = 1.f - r2;
        return {third * (0.1f * third - 1.f) * inverse * taper, third * (0.05f * third - 1.f) * taper};
    }
};
struct ScreenedCoulomb {
    __device__ static float2 at(float r2) {
        const float r = sqrtf(r2 + 0.01f), taper = 1.f - r2;
        const float screened = erfcf(2.f * r) / r;
        return {(screened + 2.256758f * expf(-4.f * r * r)) / (r * r) * taper, screened * taper};
    }
};

// The range of particles in the three cells around column x of a row of cells.
__device__ inline int2 row_of(const int* __restrict__ start, int side, int x, int y, int z) {
    if (y < 0 || z < 0 || y >= side || z >= side) return {0, 0};
    const int row = (z * side + y) * side;
    return {start[row + max(x - 1, 0)], start[row + min(x + 1, side - 1) + 1]};
}

// Force on particle i at `own`, which lies in `cell`, as are all of the calling warp.
template <class Potential>
__device__ inline float4 force_direct(const int* __restrict__ start, const float4* __restrict__ place,
                                      int side, int cell, int i, float4 own) {
    float4 total = {0, 0, 0, 0};
    const int x = cell % side, y = cell / side % side, z = cell / side / side;
    for (int row = 0; row < 9; ++row) {
        const int2 range = row_of(start, side, x, y + row % 3 - 1, z + row / 3 - 1);
        for (int j = range.x; j < range.y; ++j) {
            const float4 other = place[j];
            const float dx = own.x - other.x, dy = own.y - other.y, dz = own.z - other.z;
            const float r2 = dx * dx + dy * dy + dz * dz;
            if (r2 < 1.f && j != i) {
                const float2 f = Potential::at(r2);
                total.x += f.x * dx;
                total.y += f.x * dy;
                total.z += f.x * dz;
                total.w += f.y;
            }
        }
    }
    return total;
}

// The same for one particle of a warp: lanes take candidates, 64 at a time, and those within the cutoff
// wait in a queue of the warp until there are 32.
constexpr int kQueue = 96;

template <class Potential>
__device__ inline void take_pairs(const float4* queue, int from, int held, float4& total) {
    __syncwarp();
    const int at = from + threadIdx.x % 32;
    if (at < held) {
        const float4 d = queue[at];
        const float2 f = Potential::at(d.w);
        total.x += f.x * d.x;
        total.y += f.x * d.y;
        total.z += f.x * d.z;
        total.w += f.y;
    }
    __syncwarp();
}

__device__ inline float over_warp(float value) {
    for (int bit = 16; bit > 0; bit /= 2) value += __shfl_xor_sync(0xffffffffu, value, bit);
    return value;
}

template <class Potential>
__device__ inline float4 force_queued(const float4* __restrict__ place, float4* queue, int2 mine, int i,
                                      float4 own) {
    const int lane = threadIdx.x % 32;
    const unsigned before = (1u << lane) - 1;
    int held = 0;
    float4 total = {0, 0, 0, 0};
    for (int row = 0; row < 9; ++row) {
        const int last = __shfl_sync(0xffffffffu, mine.y, row);
        for (int j = __shfl_sync(0xffffffffu, mine.x, row); j < last; j += 64) {
            float4 d[2];
#pragma unroll
            for (int k = 0; k < 2; ++k) d[k] = place[min(j + 32 * k + lane, last - 1)];
#pragma unroll
            for (int k = 0; k < 2; ++k) {
                const int at = j + 32 * k + lane;
                d[k] = {own.x - d[k].x, own.y - d[k].y, own.z - d[k].z, 0};
                d[k].w = d[k].x * d[k].x + d[k].y * d[k].y + d[k].z * d[k].z;
                const bool near = d[k].w < 1.f && at < last && at != i;
                const unsigned with = __ballot_sync(0xffffffffu, near);
                float4* const free = queue + held + __popc(with & before);
                if (near) *free = d[k];
                held += __popc(with);
            }
#pragma unroll 1
            for (; held >= 32; held -= 32) take_pairs<Potential>(queue, held - 32, held, total);
        }
    }
    take_pairs<Potential>(queue, 0, held, total);
    return {over_warp(total.x), over_warp(total.y), over_warp(total.z), over_warp(total.w)};
}

// Row r of the nine around a cell, for lane r.
__device__ inline int2 row_of_lane(const int* __restrict__ start, int side, int cell) {
    const int row = threadIdx.x % 32;
    const int x = cell % side, y = cell / side % side, z = cell / side / side;
    return row < 9 ? row_of(start, side, x, y + row % 3 - 1, z + row / 3 - 1) : int2{0, 0};
}

// Far from all particles: for threads without one.
__device__ inline float4 nowhere() { return {-1e4f, -1e4f, -1e4f, 0}; }

inline int blocks_for(int warps) { return (warps + kWarps - 1) / kWarps; }
//: end

//: variant cells_direct
template <class Potential>
__global__ void __launch_bounds__(kBlock, 8)
    forces_cells_direct(const int* __restrict__ start, const float4* __restrict__ place,
                        float4* __restrict__ force, int side, int cells) {
    const int cell = blockIdx.x * kWarps + threadIdx.x / 32;
    if (cell >= cells) return;
    const int last = start[cell + 1];
    for (int first = start[cell]; first < last; first += 32) {
        const int i = first + threadIdx.x % 32;
        const float4 own = i < last ? place[i] : nowhere();
        const float4 total = force_direct<Potential>(start, place, side, cell, i, own);
        if (i < last) force[i] = total;
    }
}

template <class Potential>
void cells_direct(const Data& d) {
    forces_cells_direct<Potential><<<blocks_for(d.cells), kBlock>>>(d.start, d.place, d.force, d.side,
                                                                    d.cells);
}
//: end

//: variant cells_queued
template <class Potential>
__global__ void __launch_bounds__(kBlock, 8)
    forces_cells_queued(const int* __restrict__ start, const float4* __restrict__ place,
                        float4* __restrict__ force, int side, int cells) {
    __shared__ float4 queues[kWarps][kQueue];
    const int cell = blockIdx.x * kWarps + threadIdx.x / 32;
    if (cell >= cells) return;
    const int last = start[cell + 1];
    const int2 mine = row_of_lane(start, side, cell);
    for (int i = start[cell]; i < last; ++i) {
        const float4 total = force_queued<Potential>(place, queues[threadIdx.x / 32], mine, i, place[i]);
        if (threadIdx.x % 32 == 0) force[i] = total;
    }
}

template <class Potential>
void cells_queued(const Data& d) {
    forces_cells_queued<Potential><<<blocks_for(d.cells), kBlock>>>(d.start, d.place, d.force, d.side,
                                                                    d.cells);
}
//: end

//: variant chunks_direct
template <class Potential>
__global__ void __launch_bounds__(kBlock, 8)
    forces_chunks_direct(const int* __restrict__ start, const float4* __restrict__ place,
                         const int2* __restrict__ chunk, float4* __restrict__ force, int side,
                         int chunks) {
    const int which = blockIdx.x * kWarps + threadIdx.x / 32;
    if (which >= chunks) return;
    const int cell = chunk[which].x, last = start[cell + 1];
    const int i = chunk[which].y + threadIdx.x % 32;
    const float4 own = i < last ? place[i] : nowhere();
    const float4 total = force_direct<Potential>(start, place, side, cell, i, own);
    if (i < last) force[i] = total;
}

template <class Potential>
void chunks_direct(const Data& d) {
    forces_chunks_direct<Potential><<<blocks_for(d.chunks), kBlock>>>(d.start, d.place, d.chunk, d.force,
                                                                      d.side, d.chunks);
}
//: end

//: variant chunks_queued
template <class Potential>
__global__ void __launch_bounds__(kBlock, 8)
    forces_chunks_queued(const int* __restrict__ start, const float4* __restrict__ place,
                         const int2* __restrict__ chunk, float4* __restrict__ force, int side,
                         int chunks) {
    __shared__ float4 queues[kWarps][kQueue];
    const int which = blockIdx.x * kWarps + threadIdx.x / 32;
    if (which >= chunks) return;
    const int cell = chunk[which].x, first = chunk[which].y, last = min(start[cell + 1], first + 32);
    const int2 mine = row_of_lane(start, side, cell);
    for (int i = first; i < last; ++i) {
        const float4 total = force_queued<Potential>(place, queues[threadIdx.x / 32], mine, i, place[i]);
        if (threadIdx.x % 32 == 0) force[i] = total;
    }
}

template <class Potential>
void chunks_queued(const Data& d) {
    forces_chunks_queued<Potential><<<blocks_for(d.chunks), kBlock>>>(d.start, d.place, d.chunk, d.force,
                                                                      d.side, d.chunks);
}
//: end

//: variant chunks_of_records
template <class Potential>
__global__ void __launch_bounds__(kBlock, 8)
    forces_of_records(const int* __restrict__ start, const float4* __restrict__ place,
                      const Record* __restrict__ record, const int2* __restrict__ chunk,
                      float4* __restrict__ force, int side, int chunks) {
    const int which = blockIdx.x * kWarps + threadIdx.x / 32;
    if (which >= chunks) return;
    const int cell = chunk[which].x, last = start[cell + 1];
    const int i = chunk[which].y + threadIdx.x % 32;
    const float4 own = i < last ? record[i].place : nowhere();
    const float4 total = force_direct<Potential>(start, place, side, cell, i, own);
    if (i < last) force[i] = total;
}

template <class Potential>
void chunks_of_records(const Data& d) {
    forces_of_records<Potential><<<blocks_for(d.chunks), kBlock>>>(d.start, d.place, d.record, d.chunk,
                                                                   d.force, d.side, d.chunks);
}
//: end

// One thread a particle, in double; the potential by its number.
__global__ void reference_forces(const int* start, const float4* place, float4* expected, int side,
                                 int particles, int potential) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < particles; i += gridDim.x * blockDim.x) {
        const float4 own = place[i];
        double fx = 0, fy = 0, fz = 0, energy = 0;
        const int x0 = min(int(own.x), side - 1), y0 = min(int(own.y), side - 1),
                  z0 = min(int(own.z), side - 1);
        for (int z = max(z0 - 1, 0); z <= min(z0 + 1, side - 1); ++z) {
            for (int y = max(y0 - 1, 0); y <= min(y0 + 1, side - 1); ++y) {
                for (int x = max(x0 - 1, 0); x <= min(x0 + 1, side - 1); ++x) {
                    const int cell = x + side * (y + side * z);
                    for (int j = start[cell]; j < start[cell + 1]; ++j) {
                        if (j == i) continue;
                        const double dx = double(own.x) - place[j].x, dy = double(own.y) - place[j].y,
                                     dz = double(own.z) - place[j].z;
                        const double s = dx * dx + dy * dy + dz * dz;
                        if (s >= 1) continue;
                        double f, e;
                        if (potential == 0) {
                            const double q = s + 0.3, t = 1 / (q * q * q);
                            f = t * (0.1 * t - 1) / q;
                            e = t * (0.05 * t - 1);
                        } else {
                            const double r = sqrt(s + 0.01);
                            e = erfc(2 * r) / r;
                            f = (e + 2.256758 * exp(-4 * (s + 0.01))) / (s + 0.01);
                        }
                        fx += f * (1 - s) * dx;
                        fy += f * (1 - s) * dy;
                        fz += f * (1 - s) * dz;
                        energy += e * (1 - s);
                    }
                }
            }
        }
        expected[i] = {float(fx), float(fy), float(fz), float(energy)};
    }
}

template <class Potential>
constexpr int kNumber = 0;
template <>
constexpr int kNumber<ScreenedCoulomb> = 1;

// Cells of 16 to 24 particles; `dense_cells` of them, anywhere, hold `dense` instead.
template <class Potential>
void problem_of(book::Book& book, const char* name, int side, int dense_cells, int dense,
                const std::vector<std::string>& variants) {
    book.problem(name, [=](book::Problem& p) {
        Data d{};
        d.side = side;
        d.cells = side * side * side;
        std::vector<int> start(d.cells + 1, 0);
        std::vector<int> held(d.cells);
        for (int c = 0; c < d.cells; ++c) held[c] = 16 + int(9 * book::uniform01(p.seed(), 1, c));
        for (int k = 0; k < dense_cells; ++k) {
            held[int(d.cells * book::uniform01(p.seed(), 2, k))] = dense;
        }
        std::vector<float4> place;
        std::vector<int2> chunk;
        for (int c = 0; c < d.cells; ++c) {
            const int x = c % side, y = c / side % side, z = c / side / side;
            for (int k = 0; k < held[c]; ++k) {
                const uint64_t at = place.size();
                if (k % 32 == 0) chunk.push_back({c, int(at)});
                // Clear of the faces, so that the cell can be told from the rounded coordinates.
                const auto within = [&](int axis) {
                    return 0.001 + 0.998 * book::uniform01(p.seed(), 3 + axis, at);
                };
                place.push_back({float(x + within(0)), float(y + within(1)), float(z + within(2)), 1.f});
            }
            start[c + 1] = int(place.size());
        }
        d.particles = int(place.size());
        d.chunks = int(chunk.size());
        d.start = p.upload(start);
        d.chunk = p.upload(chunk);
        const float4* places = p.upload(place);
        d.place = places;
        d.record = p.input<Record>(d.particles, [=] __device__(size_t i) {
            return Record{places[i], {0, 0, 0, 0}, {1, 1, 1, 1}, {float(i), 0, 0, 0}};
        });
        d.force = p.output<float4>(d.particles);
        // Of some 540 candidates 84 are within the cutoff. A pair has to be tested (8 flop) and evaluated
        // once for its two particles, and is added to the sums of both.
        const double pairs = 42.0 * d.particles, tests = 270.0 * d.particles;
        p.needs({.dram_bytes = 32.0 * d.particles + 4.0 * d.cells,
                 .fp32_flop = 8 * tests + pairs * (kNumber<Potential> == 1 ? 60 : 28),
                 .special_op = pairs * (kNumber<Potential> == 1 ? 4 : 1)});
        p.check<float>(reinterpret_cast<const float*>(d.force), size_t(d.particles) * 4, {5e-4, 1e-2},
                       [=](float* expected) {
                           reference_forces<<<1056, 128>>>(d.start, d.place,
                                                           reinterpret_cast<float4*>(expected), side,
                                                           d.particles, kNumber<Potential>);
                       });
        for (const std::string& variant : variants) {
            if (variant == "cells_direct") p.variant(variant, [=] { cells_direct<Potential>(d); });
            if (variant == "cells_queued") p.variant(variant, [=] { cells_queued<Potential>(d); });
            if (variant == "chunks_direct") p.variant(variant, [=] { chunks_direct<Potential>(d); });
            if (variant == "chunks_queued") p.variant(variant, [=] { chunks_queued<Potential>(d); });
            if (variant == "chunks_of_records") {
                p.variant(variant, [=] { chunks_of_records<Potential>(d); });
            }
        }
    });
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    problem_of<ScreenedCoulomb>(book, "droplets_coulomb", 24, 24, 320,
                                {"cells_direct", "cells_queued", "chunks_direct", "chunks_queued"});
    problem_of<ScreenedCoulomb>(book, "liquid_coulomb", 24, 0, 0, {"chunks_direct", "chunks_queued"});
    problem_of<LennardJones>(book, "liquid_lj", 26, 0, 0,
                             {"chunks_of_records", "chunks_direct", "chunks_queued"});
    problem_of<LennardJones>(book, "clumps_lj", 26, 40, 90, {"cells_direct", "chunks_direct"});
    return book.finish();
}
