// Steps of a code with adaptive mesh refinement on an octree of small cubic patches: pack the interior of
// patches for a transfer, a Runge-Kutta stage, relaxation of the potential, the refinement criterion,
// interpolation to finer patches, and sums over leaves.
#include "../../harness/book.h"

//: shared
// Patches with guard cells all around: field[patch][variable][z][y][x].
struct Shape {
    int patches, variables, nx, ny, nz, guard;
};
//: end

//: variant by_item
__global__ void __launch_bounds__(256) pack_items(Shape s, const float* field, float* out, int count) {
    const int item = blockIdx.x * 256 + threadIdx.x;
    if (item >= count) return;
    int rest = item;
    const int x = rest % s.nx;
    rest /= s.nx;
    const int y = rest % s.ny;
    rest /= s.ny;
    const int z = rest % s.nz;
    rest /= s.nz;
    const int variable = rest % s.variables, patch = rest / s.variables;
    const int wide = s.nx + 2 * s.guard, high = s.ny + 2 * s.guard, deep = s.nz + 2 * s.guard;
    const int from = (((patch * s.variables + variable) * deep + z + s.guard) * high + y + s.guard) * wide;
    out[item] = field[from + x + s.guard];
}

void by_item(const Shape& s, const float* field, float* out) {
    const int count = s.patches * s.variables * s.nx * s.ny * s.nz;
    pack_items<<<(count + 255) / 256, 256>>>(s, field, out, count);
}
//: end

//: variant by_plane
__global__ void __launch_bounds__(256) pack_planes(Shape s, const float* field, float* out) {
    const int x = threadIdx.x, y = threadIdx.y, z = blockIdx.x, cube = blockIdx.y;
    const int wide = s.nx + 2 * s.guard, high = s.ny + 2 * s.guard, deep = s.nz + 2 * s.guard;
    const int from = ((cube * deep + z + s.guard) * high + y + s.guard) * wide;
    out[((cube * s.nz + z) * s.ny + y) * s.nx + x] = field[from + x + s.guard];
}

void by_plane(const Shape& s, const float* field, float* out) {
    pack_planes<<<dim3(s.nz, s.patches * s.variables), dim3(s.nx, s.ny)>>>(s, field, out);
}
//: end

//: shared
// One stage of a Runge-Kutta step, each patch with its own time step.
struct Stage {
    int patches, cells;  // cells of a patch
    double keep, take;
    const double *start, *state, *change, *step;
    double* next;
};
//: end

//: variant cell_list
__global__ void __launch_bounds__(256) stage_cells(Stage s, int count) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= count) return;
    const double step = s.step[i / s.cells];
    s.next[i] = s.keep * s.start[i] + s.take * (s.state[i] + step * s.change[i]);
}

void cell_list(const Stage& s) {
    const int count = s.patches * s.cells;
    stage_cells<<<(count + 255) / 256, 256>>>(s, count);
}
//: end

//: variant patch_rows
__global__ void __launch_bounds__(256) stage_patches(Stage s) {
    const int cell = blockIdx.x * 256 + threadIdx.x;
    if (cell >= s.cells) return;
    const int i = blockIdx.y * s.cells + cell;
    const double step = s.step[blockIdx.y];
    s.next[i] = s.keep * s.start[i] + s.take * (s.state[i] + step * s.change[i]);
}

void patch_rows(const Stage& s) {
    stage_patches<<<dim3((s.cells + 255) / 256, s.patches), 256>>>(s);
}
//: end

//: shared
// Patches of kSide^3 cells inside one layer of guard cells.
constexpr int kSide = 8, kWide = kSide + 2, kCells = kSide * kSide * kSide, kGuarded = kWide * kWide * kWide;
constexpr int kSweeps = 8;
constexpr int kPitch = 12;  // of a row in shared memory
using Cube = float[kWide][kWide][kPitch];

template <int kThreads>
__device__ __forceinline__ void load_cube(Cube& u, const float* from) {
    for (int i = threadIdx.x; i < kGuarded; i += kThreads) {
        u[i / (kWide * kWide)][i / kWide % kWide][i % kWide] = from[i];
    }
}

__device__ __forceinline__ float relaxed(const Cube& u, int z, int y, int x, float source) {
    return (1.0f / 6) * (u[z - 1][y][x] + u[z + 1][y][x] + u[z][y - 1][x] + u[z][y + 1][x] + u[z][y][x - 1] +
                         u[z][y][x + 1] - source);
}
//: end

//: variant cell_per_thread
// Gauss-Seidel in red-black order, with the guard cells held fixed.
__global__ void __launch_bounds__(kCells) relax_cells(const float* potential, const float* source, float* out) {
    __shared__ Cube u;
    const int t = threadIdx.x, x = t % kSide + 1, y = t / kSide % kSide + 1, z = t / (kSide * kSide) + 1;
    load_cube<kCells>(u, potential + size_t(blockIdx.x) * kGuarded);
    const float own = source[size_t(blockIdx.x) * kCells + t];
    __syncthreads();
#pragma unroll 1
    for (int sweep = 0; sweep < kSweeps; ++sweep) {
#pragma unroll 1
        for (int colour = 0; colour < 2; ++colour) {
            if (((x + y + z) & 1) == colour) u[z][y][x] = relaxed(u, z, y, x, own);
            __syncthreads();
        }
    }
    out[size_t(blockIdx.x) * kCells + t] = u[z][y][x];
}

void cell_per_thread(int patches, const float* potential, const float* source, float* out) {
    relax_cells<<<patches, kCells>>>(potential, source, out);
}
//: end

//: variant pair_per_thread
// Gauss-Seidel in red-black order, with the guard cells held fixed. A thread owns two neighbours along x.
__global__ void __launch_bounds__(kCells / 2) relax_pairs(const float* potential, const float* source,
                                                          float* out) {
    __shared__ Cube u;
    const int t = threadIdx.x, pair = t % (kSide / 2), y = t / (kSide / 2) % kSide + 1,
              z = t / (kSide * kSide / 2) + 1;
    load_cube<kCells / 2>(u, potential + size_t(blockIdx.x) * kGuarded);
    const float2 own = reinterpret_cast<const float2*>(source)[size_t(blockIdx.x) * (kCells / 2) + t];
    __syncthreads();
#pragma unroll 1
    for (int sweep = 0; sweep < kSweeps; ++sweep) {
#pragma unroll 1
        for (int colour = 0; colour < 2; ++colour) {
            const int second = (y + z + 1 + colour) & 1;
            const int x = 2 * pair + 1 + second;
            u[z][y][x] = relaxed(u, z, y, x, second ? own.y : own.x);
            __syncthreads();
        }
    }
    reinterpret_cast<float2*>(out)[size_t(blockIdx.x) * (kCells / 2) + t] =
        make_float2(u[z][y][2 * pair + 1], u[z][y][2 * pair + 2]);
}

void pair_per_thread(int patches, const float* potential, const float* source, float* out) {
    relax_pairs<<<patches, kCells / 2>>>(potential, source, out);
}
//: end

//: shared
// Curvature of u relative to its slopes along one axis: adds to numerator and denominator.
__device__ __forceinline__ void add_axis(const float* u, int step, float& above, float& below) {
    const float left = u[-step], middle = u[0], right = u[step];
    const float curve = right - 2 * middle + left;
    const float slopes = fabsf(right - middle) + fabsf(middle - left) +
                         0.01f * (fabsf(right) + 2 * fabsf(middle) + fabsf(left));
    above += curve * curve;
    below += slopes * slopes;
}

__device__ __forceinline__ float criterion(const float* patch) {
    const int t = threadIdx.x, x = t % kSide + 1, y = t / kSide % kSide + 1, z = t / (kSide * kSide) + 1;
    const float* u = patch + (z * kWide + y) * kWide + x;
    float above = 0, below = 1e-20f;
    add_axis(u, 1, above, below);
    add_axis(u, kWide, above, below);
    add_axis(u, kWide * kWide, above, below);
    return __fdividef(above, below);
}
//: end

//: variant halving
__global__ void __launch_bounds__(kCells) flag_by_halving(const float* field, float* largest) {
    __shared__ float best[kCells];
    const int t = threadIdx.x;
    best[t] = criterion(field + size_t(blockIdx.x) * kGuarded);
    __syncthreads();
    for (int half = kCells / 2; half > 0; half /= 2) {
        if (t < half) best[t] = fmaxf(best[t], best[t + half]);
        __syncthreads();
    }
    if (t == 0) largest[blockIdx.x] = best[0];
}

void halving(int patches, const float* field, float* largest) {
    flag_by_halving<<<patches, kCells>>>(field, largest);
}
//: end

//: variant by_warps
__global__ void __launch_bounds__(kCells) flag_by_warps(const float* field, float* largest) {
    __shared__ float best[kCells / 32];
    const int t = threadIdx.x;
    float value = criterion(field + size_t(blockIdx.x) * kGuarded);
    for (int lane = 16; lane > 0; lane /= 2) value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, lane));
    if (t % 32 == 0) best[t / 32] = value;
    __syncthreads();
    if (t < 32) {
        value = best[t % (kCells / 32)];
        for (int lane = 8; lane > 0; lane /= 2) value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, lane));
        if (t == 0) largest[blockIdx.x] = value;
    }
}

void by_warps(int patches, const float* field, float* largest) {
    flag_by_warps<<<patches, kCells>>>(field, largest);
}
//: end

//: shared
// A limited slope: the smaller of the one-sided differences, zero at extrema.
__device__ __forceinline__ float slope(float left, float middle, float right) {
    const float a = middle - left, b = right - middle;
    const float least = fabsf(a) < fabsf(b) ? a : b;
    return a * b > 0 ? least : 0.0f;
}

// A quarter of the slopes of the coarse cell of this thread.
struct Coarse {
    float value, sx, sy, sz;
};
__device__ __forceinline__ Coarse coarse_cell(const float* coarse, int x, int y, int z) {
    const float* u = coarse + size_t(blockIdx.x) * kGuarded + ((z + 1) * kWide + y + 1) * kWide + x + 1;
    const float value = u[0];
    return {value, 0.25f * slope(u[-1], value, u[1]), 0.25f * slope(u[-kWide], value, u[kWide]),
            0.25f * slope(u[-kWide * kWide], value, u[kWide * kWide])};
}
constexpr int kFine = 2 * kSide;
//: end

//: variant eight_children
__global__ void __launch_bounds__(kCells) refine_children(const float* coarse, float* fine) {
    const int t = threadIdx.x, x = t % kSide, y = t / kSide % kSide, z = t / (kSide * kSide);
    const Coarse c = coarse_cell(coarse, x, y, z);
    float* to = fine + size_t(blockIdx.x) * (8 * kCells) + (2 * z * kFine + 2 * y) * kFine + 2 * x;
#pragma unroll
    for (int k = 0; k < 2; ++k) {
#pragma unroll
        for (int j = 0; j < 2; ++j) {
            const float base = c.value + (k ? c.sz : -c.sz) + (j ? c.sy : -c.sy);
            float* row = to + (k * kFine + j) * kFine;
            row[0] = base - c.sx;
            row[1] = base + c.sx;
        }
    }
}

void eight_children(int patches, const float* coarse, float* fine) {
    refine_children<<<patches, kCells>>>(coarse, fine);
}
//: end

//: variant four_pairs
__global__ void __launch_bounds__(kCells) refine_pairs(const float* coarse, float* fine) {
    const int t = threadIdx.x, x = t % kSide, y = t / kSide % kSide, z = t / (kSide * kSide);
    const Coarse c = coarse_cell(coarse, x, y, z);
    float2* to = reinterpret_cast<float2*>(fine) + size_t(blockIdx.x) * (4 * kCells) +
                 (2 * z * kFine + 2 * y) * kSide + x;
#pragma unroll
    for (int k = 0; k < 2; ++k) {
#pragma unroll
        for (int j = 0; j < 2; ++j) {
            const float base = c.value + (k ? c.sz : -c.sz) + (j ? c.sy : -c.sy);
            to[(k * kFine + j) * kSide] = make_float2(base - c.sx, base + c.sx);
        }
    }
}

void four_pairs(int patches, const float* coarse, float* fine) {
    refine_pairs<<<patches, kCells>>>(coarse, fine);
}
//: end

//: shared
// Leaves of 4^3 cells, of which `active` lists those in use. A warp takes a leaf: total and largest value.
constexpr int kLeaf = 64;

template <int kWarps>
__global__ void __launch_bounds__(32 * kWarps)
    sum_leaves(const int* active, int count, const float2* cells, float2* out) {
    const int place = blockIdx.x * kWarps + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (place >= count) return;
    const float2 v = cells[size_t(active[place]) * (kLeaf / 2) + lane];
    float total = v.x + v.y, most = fmaxf(v.x, v.y);
    for (int step = 16; step > 0; step /= 2) {
        total += __shfl_xor_sync(0xffffffffu, total, step);
        most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, step));
    }
    if (lane == 0) out[place] = make_float2(total, most);
}
//: end

//: variant leaf_per_block
void leaf_per_block(const int* active, int count, const float2* cells, float2* out) {
    constexpr int kWarps = 1;
    sum_leaves<kWarps><<<(count + kWarps - 1) / kWarps, 32 * kWarps>>>(active, count, cells, out);
}
//: end

//: variant leaves_per_block
void leaves_per_block(const int* active, int count, const float2* cells, float2* out) {
    constexpr int kWarps = 8;
    sum_leaves<kWarps><<<(count + kWarps - 1) / kWarps, 32 * kWarps>>>(active, count, cells, out);
}
//: end

// --- references

__global__ void reference_pack(Shape s, const float* field, float* out) {
    // A block per patch and variable, written from the side of the field.
    const int wide = s.nx + 2 * s.guard, high = s.ny + 2 * s.guard, deep = s.nz + 2 * s.guard;
    const size_t all = size_t(wide) * high * deep;
    for (size_t i = threadIdx.x; i < all; i += blockDim.x) {
        const int x = int(i % wide) - s.guard, y = int(i / wide % high) - s.guard,
                  z = int(i / wide / high) - s.guard;
        if (x < 0 || x >= s.nx || y < 0 || y >= s.ny || z < 0 || z >= s.nz) continue;
        out[((size_t(blockIdx.x) * s.nz + z) * s.ny + y) * s.nx + x] = field[blockIdx.x * all + i];
    }
}

__global__ void reference_stage(Stage s, double* out) {
    for (int i = threadIdx.x; i < s.cells; i += blockDim.x) {
        const size_t k = size_t(blockIdx.x) * s.cells + i;
        out[k] = s.take * s.state[k] + s.take * s.step[blockIdx.x] * s.change[k] + s.keep * s.start[k];
    }
}

__global__ void reference_relax(const float* potential, const float* source, float* out) {
    __shared__ double u[1000];
    for (int i = threadIdx.x; i < 1000; i += 128) u[i] = potential[size_t(blockIdx.x) * 1000 + i];
    __syncthreads();
    for (int half = 0; half < 2 * kSweeps; ++half) {
        for (int i = threadIdx.x; i < 1000; i += 128) {
            const int x = i % 10, y = i / 10 % 10, z = i / 100;
            if (x < 1 || x > 8 || y < 1 || y > 8 || z < 1 || z > 8 || (x + y + z) % 2 != half % 2) continue;
            const double f = source[size_t(blockIdx.x) * 512 + (z - 1) * 64 + (y - 1) * 8 + x - 1];
            u[i] = (u[i - 1] + u[i + 1] + u[i - 10] + u[i + 10] + u[i - 100] + u[i + 100] - f) / 6;
        }
        __syncthreads();
    }
    for (int i = threadIdx.x; i < 512; i += 128) {
        out[size_t(blockIdx.x) * 512 + i] = float(u[(i / 64 + 1) * 100 + (i / 8 % 8 + 1) * 10 + i % 8 + 1]);
    }
}

__global__ void reference_flags(const float* field, float* out, int patches) {
    const int patch = blockIdx.x * 128 + threadIdx.x;
    if (patch >= patches) return;
    const float* u = field + size_t(patch) * 1000;
    double most = 0;
    for (int z = 1; z < 9; ++z) {
        for (int y = 1; y < 9; ++y) {
            for (int x = 1; x < 9; ++x) {
                double above = 0, below = 0;
                for (int step = 1; step <= 100; step *= 10) {
                    const int i = z * 100 + y * 10 + x;
                    const double l = u[i - step], m = u[i], r = u[i + step];
                    const double b = fabs(r - m) + fabs(m - l) + 0.01 * (fabs(r) + 2 * fabs(m) + fabs(l));
                    above += (r - 2 * m + l) * (r - 2 * m + l);
                    below += b * b;
                }
                most = fmax(most, above / below);
            }
        }
    }
    out[patch] = float(most);
}

__global__ void reference_refine(const float* coarse, float* fine) {
    // A block per patch, written from the side of the fine cells.
    const float* u = coarse + size_t(blockIdx.x) * 1000;
    for (int i = threadIdx.x; i < 4096; i += blockDim.x) {
        const int p[3] = {i % 16, i / 16 % 16, i / 256};
        const int at = (p[2] / 2 + 1) * 100 + (p[1] / 2 + 1) * 10 + p[0] / 2 + 1;
        double value = u[at];
        for (int axis = 0, step = 1; axis < 3; ++axis, step *= 10) {
            const float a = u[at] - u[at - step], b = u[at + step] - u[at];
            double s = 0;
            if (a > 0 && b > 0) s = fmin(a, b);
            if (a < 0 && b < 0) s = fmax(a, b);
            value += (p[axis] % 2 ? 0.25 : -0.25) * s;
        }
        fine[size_t(blockIdx.x) * 4096 + i] = float(value);
    }
}

__global__ void reference_leaves(const int* active, int count, const float* cells, float* out) {
    const int i = blockIdx.x * 128 + threadIdx.x;
    if (i >= count) return;
    double total = 0, most = -1e30;
    for (int k = 0; k < kLeaf; ++k) {
        const double v = cells[size_t(active[i]) * kLeaf + k];
        total += v;
        most = fmax(most, v);
    }
    out[2 * size_t(i)] = float(total);
    out[2 * size_t(i) + 1] = float(most);
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("pack_16", [](book::Problem& p) {
        const Shape s{768, 5, 16, 16, 16, 2};
        const size_t cubes = size_t(s.patches) * s.variables, count = cubes * 4096;
        const float* field = p.uniform<float>(cubes * 8000, -1, 1);
        float* out = p.output<float>(count);
        p.needs({.dram_bytes = 8.0 * count});
        p.check<float>(out, count, {0}, [=](float* expected) {
            reference_pack<<<unsigned(cubes), 256>>>(s, field, expected);
        });
        p.variant("by_item", [=] { by_item(s, field, out); });
        p.variant("by_plane", [=] { by_plane(s, field, out); });
    });
    book.problem("stage_16", [](book::Problem& p) {
        Stage s{1024, 4096, 0.75, 0.25};
        const size_t count = size_t(s.patches) * s.cells;
        s.start = p.uniform<double>(count, -1, 1);
        s.state = p.uniform<double>(count, -1, 1);
        s.change = p.uniform<double>(count, -1, 1);
        s.step = p.uniform<double>(s.patches, 0.01, 0.1);
        s.next = p.output<double>(count);
        p.needs({.dram_bytes = 32.0 * count + 8.0 * s.patches, .fp64_flop = 5.0 * count});
        p.check<double>(s.next, count, {1e-12, 1e-13}, [=](double* expected) {
            reference_stage<<<s.patches, 256>>>(s, expected);
        });
        p.variant("cell_list", [=] { cell_list(s); });
        p.variant("patch_rows", [=] { patch_rows(s); });
    });
    book.problem("relax_8", [](book::Problem& p) {
        const int patches = 16384;
        const size_t cells = size_t(patches) * kCells;
        const float* potential = p.uniform<float>(size_t(patches) * kGuarded, -1, 1);
        const float* source = p.uniform<float>(cells, -1, 1);
        float* out = p.output<float>(cells);
        // Without the corners and edges of the guard layer, which no update reads.
        p.needs({.dram_bytes = 4.0 * patches * (kCells + 6 * kSide * kSide) + 8.0 * cells,
                 .fp32_flop = 7.0 * kSweeps * cells});
        p.check<float>(out, cells, {1e-4, 1e-5}, [=](float* expected) {
            reference_relax<<<patches, 128>>>(potential, source, expected);
        });
        p.variant("cell_per_thread", [=] { cell_per_thread(patches, potential, source, out); });
        p.variant("pair_per_thread", [=] { pair_per_thread(patches, potential, source, out); });
    });
    book.problem("flags_8", [](book::Problem& p) {
        const int patches = 24576;
        const float* field = p.uniform<float>(size_t(patches) * kGuarded, 0.5, 1.5);
        float* largest = p.output<float>(patches);
        p.needs({.dram_bytes = 4.0 * patches * (kCells + 6 * kSide * kSide) + 4.0 * patches,
                 .fp32_flop = 42.0 * patches * kCells, .special_op = 1.0 * patches * kCells});
        p.check<float>(largest, patches, {1e-4, 1e-6}, [=](float* expected) {
            reference_flags<<<(patches + 127) / 128, 128>>>(field, expected, patches);
        });
        p.variant("halving", [=] { halving(patches, field, largest); });
        p.variant("by_warps", [=] { by_warps(patches, field, largest); });
    });
    book.problem("refine_8", [](book::Problem& p) {
        const int patches = 7168;
        const size_t count = size_t(patches) * 8 * kCells;
        const float* coarse = p.uniform<float>(size_t(patches) * kGuarded, -1, 1);
        float* fine = p.output<float>(count);
        p.needs({.dram_bytes = 4.0 * patches * (kCells + 6 * kSide * kSide) + 4.0 * count,
                 .fp32_flop = 26.0 * patches * kCells});
        p.check<float>(fine, count, {1e-5, 1e-5}, [=](float* expected) {
            reference_refine<<<patches, 256>>>(coarse, expected);
        });
        p.variant("eight_children", [=] { eight_children(patches, coarse, fine); });
        p.variant("four_pairs", [=] { four_pairs(patches, coarse, fine); });
    });
    book.problem("leaves_4", [](book::Problem& p) {
        const int leaves = 1 << 19, count = leaves / 4 * 3;
        const uint64_t seed = p.seed();
        // Three of each four neighbouring leaves are active.
        const int* active = p.input<int>(count, [=] __device__(size_t i) {
            const int group = int(i / 3), out = int(4 * book::uniform01(seed, 500, group)), k = int(i % 3);
            return 4 * group + k + (k >= out);
        });
        const float* cells = p.uniform<float>(size_t(leaves) * kLeaf, -1, 1);
        float2* out = p.output<float2>(count);
        p.needs({.dram_bytes = (4.0 * kLeaf + 12.0) * count, .fp32_flop = 126.0 * count});
        p.check<float>(reinterpret_cast<float*>(out), 2 * size_t(count), {1e-5, 1e-4}, [=](float* expected) {
            reference_leaves<<<(count + 127) / 128, 128>>>(active, count, cells, expected);
        });
        const float2* pairs = reinterpret_cast<const float2*>(cells);
        p.variant("leaf_per_block", [=] { leaf_per_block(active, count, pairs, out); });
        p.variant("leaves_per_block", [=] { leaves_per_block(active, count, pairs, out); });
    });
    return book.finish();
}
