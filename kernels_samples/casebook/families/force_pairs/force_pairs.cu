// Molecular dynamics: forces and the energy of Lennard-Jones and screened Coulomb pairs from a
// neighbour list with a skin, and of the bonds of ring molecules. Periodic box, one kind of atom.
#include "../../harness/book.h"

struct Box {
    int x, y, z;  // also the lattice that the atoms are displaced from
};

//: shared
// Everything that the pair kernels read.
struct System {
    int atoms, most;       // most: neighbours that a list has room for
    float3 box, inverse_box;
    float cut2;            // square of the cut-off
    float force_shift, energy_shift, inverse_cut, inverse_cut3;
    const float4* atom;    // position, charge
    const int* neighbours; // how many, of each atom
    const int* by_rank;    // [rank][atom]: neighbour number `rank` of the atom
    const int* by_atom;    // [atom][rank]
    const int* later;      // [rank][atom]: each pair at one of its atoms only
    const int* later_neighbours;
    float4* force;
    double* energy;
};

constexpr float kSigma6 = 0.262144f;  // sigma = 0.8
constexpr int kThreads = 128;

__device__ inline float wrapped(float d, float box, float inverse) { return d - box * rintf(d * inverse); }

__device__ inline float3 between(const float4& a, const float4& b, const System& s) {
    return make_float3(wrapped(a.x - b.x, s.box.x, s.inverse_box.x), wrapped(a.y - b.y, s.box.y, s.inverse_box.y),
                       wrapped(a.z - b.z, s.box.z, s.inverse_box.z));
}

__device__ inline float squared(const float3& d) { return d.x * d.x + d.y * d.y + d.z * d.z; }

// Force over distance; adds the energy of the pair.
__device__ inline float pair_force(float r2, float charges, const System& s, float& energy) {
    const float inverse = rsqrtf(r2), inverse2 = inverse * inverse;
    const float sr6 = kSigma6 * inverse2 * inverse2 * inverse2;
    energy += 4 * sr6 * (sr6 - 1) - s.energy_shift
              + charges * (inverse + 0.5f * r2 * s.inverse_cut3 - 1.5f * s.inverse_cut);
    return 24 * sr6 * (2 * sr6 - 1) * inverse2 - s.force_shift + charges * (inverse2 * inverse - s.inverse_cut3);
}

// Adds the values of a block to one number.
__device__ inline void add_of_block(float value, double* total) {
    __shared__ float parts[kThreads / 32];
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xFFFFFFFFu, value, step);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
    __syncthreads();
    if (threadIdx.x == 0) {
        double sum = 0;
        for (float part : parts) sum += part;
        atomicAdd(total, sum);
    }
}

inline int blocks_for(int threads) { return (threads + kThreads - 1) / kThreads; }
//: end

//: variant by_rank
__global__ void __launch_bounds__(kThreads) forces_by_rank(System s) {
    const int i = blockIdx.x * kThreads + threadIdx.x;
    float energy = 0;
    if (i < s.atoms) {
        const float4 own = s.atom[i];
        float3 force = make_float3(0, 0, 0);
        const int count = s.neighbours[i];
        for (int k = 0; k < count; ++k) {
            const float4 other = s.atom[s.by_rank[size_t(k) * s.atoms + i]];
            const float3 d = between(own, other, s);
            const float r2 = squared(d);
            if (r2 < s.cut2) {
                const float f = pair_force(r2, own.w * other.w, s, energy);
                force.x += f * d.x, force.y += f * d.y, force.z += f * d.z;
            }
        }
        s.force[i] = make_float4(force.x, force.y, force.z, 0);
    }
    add_of_block(0.5f * energy, s.energy);
}

void by_rank(const System& s) { forces_by_rank<<<blocks_for(s.atoms), kThreads>>>(s); }
//: end

//: variant by_atom
__global__ void __launch_bounds__(kThreads) forces_by_atom(System s) {
    const int i = blockIdx.x * kThreads + threadIdx.x;
    float energy = 0;
    if (i < s.atoms) {
        const float4 own = s.atom[i];
        float3 force = make_float3(0, 0, 0);
        const int count = s.neighbours[i];
        for (int k = 0; k < count; ++k) {
            const float4 other = s.atom[s.by_atom[size_t(i) * s.most + k]];
            const float3 d = between(own, other, s);
            const float r2 = squared(d);
            if (r2 < s.cut2) {
                const float f = pair_force(r2, own.w * other.w, s, energy);
                force.x += f * d.x, force.y += f * d.y, force.z += f * d.z;
            }
        }
        s.force[i] = make_float4(force.x, force.y, force.z, 0);
    }
    add_of_block(0.5f * energy, s.energy);
}

void by_atom(const System& s) { forces_by_atom<<<blocks_for(s.atoms), kThreads>>>(s); }
//: end

//: variant selected
__global__ void __launch_bounds__(kThreads) forces_selected(System s) {
    const int i = blockIdx.x * kThreads + threadIdx.x;
    float energy = 0;
    if (i < s.atoms) {
        const float4 own = s.atom[i];
        float3 force = make_float3(0, 0, 0);
        const int count = s.neighbours[i];
        for (int k = 0; k < count; ++k) {
            const float4 other = s.atom[s.by_rank[size_t(k) * s.atoms + i]];
            const float3 d = between(own, other, s);
            const float r2 = squared(d);
            float pair_energy = 0;
            const float value = pair_force(r2, own.w * other.w, s, pair_energy);
            const float f = r2 < s.cut2 ? value : 0.0f;
            energy += r2 < s.cut2 ? pair_energy : 0.0f;
            force.x += f * d.x, force.y += f * d.y, force.z += f * d.z;
        }
        s.force[i] = make_float4(force.x, force.y, force.z, 0);
    }
    add_of_block(0.5f * energy, s.energy);
}

void selected(const System& s) { forces_selected<<<blocks_for(s.atoms), kThreads>>>(s); }
//: end

//: variant formula
__device__ inline float formula_force(float r2, float charges, const System& s, float& energy) {
    const float inverse = rsqrtf(r2), inverse2 = 1.0 / r2;
    const float sr6 = 0.262144 * inverse2 * inverse2 * inverse2;
    energy += 4.0 * sr6 * (sr6 - 1.0) - s.energy_shift
              + charges * (inverse + 0.5 * r2 * s.inverse_cut3 - 1.5 * s.inverse_cut);
    return 24.0 * sr6 * (2.0 * sr6 - 1.0) * inverse2 - s.force_shift + charges * (inverse2 * inverse - s.inverse_cut3);
}

__global__ void __launch_bounds__(kThreads) forces_formula(System s) {
    const int i = blockIdx.x * kThreads + threadIdx.x;
    float energy = 0;
    if (i < s.atoms) {
        const float4 own = s.atom[i];
        float3 force = make_float3(0, 0, 0);
        const int count = s.neighbours[i];
        for (int k = 0; k < count; ++k) {
            const float4 other = s.atom[s.by_rank[size_t(k) * s.atoms + i]];
            const float3 d = between(own, other, s);
            const float r2 = squared(d);
            if (r2 < s.cut2) {
                const float f = formula_force(r2, own.w * other.w, s, energy);
                force.x += f * d.x, force.y += f * d.y, force.z += f * d.z;
            }
        }
        s.force[i] = make_float4(force.x, force.y, force.z, 0);
    }
    add_of_block(0.5f * energy, s.energy);
}

void formula(const System& s) { forces_formula<<<blocks_for(s.atoms), kThreads>>>(s); }
//: end

//: variant energy_by_thread
__global__ void __launch_bounds__(kThreads) forces_energy_by_thread(System s) {
    const int i = blockIdx.x * kThreads + threadIdx.x;
    float energy = 0;
    if (i < s.atoms) {
        const float4 own = s.atom[i];
        float3 force = make_float3(0, 0, 0);
        const int count = s.neighbours[i];
        for (int k = 0; k < count; ++k) {
            const float4 other = s.atom[s.by_rank[size_t(k) * s.atoms + i]];
            const float3 d = between(own, other, s);
            const float r2 = squared(d);
            if (r2 < s.cut2) {
                const float f = pair_force(r2, own.w * other.w, s, energy);
                force.x += f * d.x, force.y += f * d.y, force.z += f * d.z;
            }
        }
        s.force[i] = make_float4(force.x, force.y, force.z, 0);
        atomicAdd(s.energy, 0.5 * energy);
    }
}

void energy_by_thread(const System& s) { forces_energy_by_thread<<<blocks_for(s.atoms), kThreads>>>(s); }
//: end

//: variant each_pair_once
__global__ void __launch_bounds__(kThreads) forces_each_pair_once(System s) {
    const int i = blockIdx.x * kThreads + threadIdx.x;
    float energy = 0;
    if (i < s.atoms) {
        const float4 own = s.atom[i];
        float3 force = make_float3(0, 0, 0);
        const int count = s.later_neighbours[i];
        for (int k = 0; k < count; ++k) {
            const int j = s.later[size_t(k) * s.atoms + i];
            const float4 other = s.atom[j];
            const float3 d = between(own, other, s);
            const float r2 = squared(d);
            if (r2 < s.cut2) {
                const float f = pair_force(r2, own.w * other.w, s, energy);
                force.x += f * d.x, force.y += f * d.y, force.z += f * d.z;
                atomicAdd(&s.force[j].x, -f * d.x);
                atomicAdd(&s.force[j].y, -f * d.y);
                atomicAdd(&s.force[j].z, -f * d.z);
            }
        }
        atomicAdd(&s.force[i].x, force.x);
        atomicAdd(&s.force[i].y, force.y);
        atomicAdd(&s.force[i].z, force.z);
    }
    add_of_block(energy, s.energy);
}

void each_pair_once(const System& s) {
    BOOK_CHECK(cudaMemsetAsync(s.force, 0, s.atoms * sizeof(float4)));
    forces_each_pair_once<<<blocks_for(s.atoms), kThreads>>>(s);
}
//: end

//: variant eight_lanes
// Eight threads share the neighbours of an atom.
__global__ void __launch_bounds__(kThreads) forces_eight_lanes(System s) {
    const int thread = blockIdx.x * kThreads + threadIdx.x;
    const int i = thread / 8, lane = thread % 8;
    float energy = 0;
    float3 force = make_float3(0, 0, 0);
    if (i < s.atoms) {
        const float4 own = s.atom[i];
        const int count = s.neighbours[i];
        for (int k = lane; k < count; k += 8) {
            const float4 other = s.atom[s.by_rank[size_t(k) * s.atoms + i]];
            const float3 d = between(own, other, s);
            const float r2 = squared(d);
            if (r2 < s.cut2) {
                const float f = pair_force(r2, own.w * other.w, s, energy);
                force.x += f * d.x, force.y += f * d.y, force.z += f * d.z;
            }
        }
    }
    for (int step = 4; step > 0; step /= 2) {
        force.x += __shfl_xor_sync(0xFFFFFFFFu, force.x, step);
        force.y += __shfl_xor_sync(0xFFFFFFFFu, force.y, step);
        force.z += __shfl_xor_sync(0xFFFFFFFFu, force.z, step);
    }
    if (i < s.atoms && lane == 0) s.force[i] = make_float4(force.x, force.y, force.z, 0);
    add_of_block(0.5f * energy, s.energy);
}

void eight_lanes(const System& s) { forces_eight_lanes<<<blocks_for(8 * s.atoms), kThreads>>>(s); }
//: end

//: shared
// Rings of kRing atoms; bond b joins atoms of ring b / kRing.
struct Bonds {
    int count;
    const float4* atom;
    const int2* ends;
    const float2* spring;  // stiffness, length at rest
    float4* force;         // zero at the start
    double* energy;        // of each ring, zero at the start
};

constexpr int kRing = 512;

// Adds the forces of a bond to both ends; returns its energy.
__device__ inline float stretch(const Bonds& b, int bond) {
    const int2 ends = b.ends[bond];
    const float2 spring = b.spring[bond];
    const float4 p = b.atom[ends.x], q = b.atom[ends.y];
    const float3 d = make_float3(p.x - q.x, p.y - q.y, p.z - q.z);
    const float inverse = rsqrtf(squared(d)), excess = 1 / inverse - spring.y;
    const float f = -spring.x * excess * inverse;
    atomicAdd(&b.force[ends.x].x, f * d.x);
    atomicAdd(&b.force[ends.x].y, f * d.y);
    atomicAdd(&b.force[ends.x].z, f * d.z);
    atomicAdd(&b.force[ends.y].x, -f * d.x);
    atomicAdd(&b.force[ends.y].y, -f * d.y);
    atomicAdd(&b.force[ends.y].z, -f * d.z);
    return 0.5f * spring.x * excess * excess;
}
//: end

//: variant bond_energies
__global__ void bond_forces(Bonds b) {
    const int bond = blockIdx.x * kThreads + threadIdx.x;
    if (bond >= b.count) return;
    const double energy = stretch(b, bond);
    atomicAdd(&b.energy[bond / kRing], energy);
}

void bond_energies(const Bonds& b) { bond_forces<<<blocks_for(b.count), kThreads>>>(b); }
//: end

//: variant block_energies
// The bonds of a block belong to one ring, and their number is a multiple of kThreads.
__global__ void bond_forces_block(Bonds b) {
    const int bond = blockIdx.x * kThreads + threadIdx.x;
    if (bond >= b.count) return;
    const float energy = stretch(b, bond);
    add_of_block(energy, &b.energy[bond / kRing]);
}

void block_energies(const Bonds& b) { bond_forces_block<<<blocks_for(b.count), kThreads>>>(b); }
//: end

__device__ double minimum_image(double d, double box) { return d - box * rint(d / box); }

// Lists of all atoms within `reach`, from the lattice cells around an atom.
__global__ void build_lists(const float4* atom, Box box, double reach, int around, int most, int* count, int* by_rank,
                            int* by_atom, int* later_count, int* later) {
    const int atoms = box.x * box.y * box.z, i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= atoms) return;
    const int x = i % box.x, y = i / box.x % box.y, z = i / box.x / box.y;
    int found = 0, found_later = 0;
    for (int c = -around; c <= around; ++c) {
        for (int b = -around; b <= around; ++b) {
            for (int a = -around; a <= around; ++a) {
                if (a == 0 && b == 0 && c == 0) continue;
                const int j = ((z + c + box.z) % box.z * box.y + (y + b + box.y) % box.y) * box.x + (x + a + box.x) % box.x;
                const double dx = minimum_image(double(atom[i].x) - atom[j].x, box.x);
                const double dy = minimum_image(double(atom[i].y) - atom[j].y, box.y);
                const double dz = minimum_image(double(atom[i].z) - atom[j].z, box.z);
                if (dx * dx + dy * dy + dz * dz >= reach * reach || found == most) continue;
                by_rank[size_t(found) * atoms + i] = j;
                by_atom[size_t(i) * most + found] = j;
                ++found;
                if (c > 0 || (c == 0 && (b > 0 || (b == 0 && a > 0)))) {
                    later[size_t(found_later) * atoms + i] = j;
                    ++found_later;
                }
            }
        }
    }
    count[i] = found;
    later_count[i] = found_later;
}

// All pairs of the lattice cells around an atom, in double precision, without lists.
__global__ void reference_forces(const float4* atom, Box box, double cut, int around, float* force, double* energy) {
    const int atoms = box.x * box.y * box.z, i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= atoms) return;
    const int x = i % box.x, y = i / box.x % box.y, z = i / box.x / box.y;
    const double s6 = pow(0.8, 6.0), sc6 = s6 / pow(cut, 6.0);
    const double shift = 24 * sc6 * (2 * sc6 - 1) / (cut * cut), base = 4 * sc6 * (sc6 - 1);
    double fx = 0, fy = 0, fz = 0, sum = 0;
    for (int cell = 0, side = 2 * around + 1; cell < side * side * side; ++cell) {
        const int a = cell % side - around, b = cell / side % side - around, c = cell / side / side - around;
        const int j = ((z + c + box.z) % box.z * box.y + (y + b + box.y) % box.y) * box.x + (x + a + box.x) % box.x;
        if (j == i) continue;
        const double dx = minimum_image(double(atom[i].x) - atom[j].x, box.x);
        const double dy = minimum_image(double(atom[i].y) - atom[j].y, box.y);
        const double dz = minimum_image(double(atom[i].z) - atom[j].z, box.z);
        const double r2 = dx * dx + dy * dy + dz * dz, r = sqrt(r2);
        if (r >= cut) continue;
        const double sr6 = s6 / (r2 * r2 * r2), qq = double(atom[i].w) * atom[j].w;
        const double f = 24 * sr6 * (2 * sr6 - 1) / r2 - shift + qq * (1 / (r2 * r) - 1 / (cut * cut * cut));
        fx += f * dx, fy += f * dy, fz += f * dz;
        sum += 4 * sr6 * (sr6 - 1) - base + qq * (1 / r + r2 / (2 * cut * cut * cut) - 1.5 / cut);
    }
    if (force) {
        force[4 * i] = float(fx), force[4 * i + 1] = float(fy), force[4 * i + 2] = float(fz), force[4 * i + 3] = 0;
    }
    if (energy) atomicAdd(energy, sum / 2);
}

System set_up(book::Problem& p, Box box, double cut, double skin, int most) {
    constexpr double kMoved = 0.15;
    const int atoms = box.x * box.y * box.z, around = int(std::ceil(cut + skin + 2 * kMoved));
    const uint64_t seed = p.seed();
    float4* atom = p.input<float4>(atoms, [=] __device__(size_t i) {
        const auto moved = [=](int axis) { return float(kMoved * (2 * book::uniform01(seed, 10 + axis, i) - 1)); };
        const int x = i % box.x, y = i / box.x % box.y, z = i / box.x / box.y;
        return make_float4(x + moved(0), y + moved(1), z + moved(2), float(2 * book::uniform01(seed, 20, i) - 1));
    });
    const auto zero = [] __device__(size_t) { return 0; };
    const size_t room = size_t(atoms) * most;
    int *count = p.input<int>(atoms, zero), *later_count = p.input<int>(atoms, zero);
    int *by_rank = p.input<int>(room, zero), *by_atom = p.input<int>(room, zero), *later = p.input<int>(room / 2, zero);
    build_lists<<<(atoms + 127) / 128, 128>>>(atom, box, cut + skin, around, most, count, by_rank, by_atom, later_count, later);
    BOOK_CHECK(cudaGetLastError());
    std::vector<int> counts(atoms);
    BOOK_CHECK(cudaMemcpy(counts.data(), count, atoms * sizeof(int), cudaMemcpyDeviceToHost));
    double pairs = 0;
    for (const int n : counts) {
        pairs += n / 2.0;
        if (n == most) std::fprintf(stderr, "a neighbour list is full\n"), std::exit(3);
    }
    System s{atoms, most};
    s.box = make_float3(box.x, box.y, box.z);
    s.inverse_box = make_float3(1.0f / box.x, 1.0f / box.y, 1.0f / box.z);
    s.cut2 = float(cut * cut);
    const double sc6 = std::pow(0.8 / cut, 6);
    s.force_shift = float(24 * sc6 * (2 * sc6 - 1) / (cut * cut));
    s.energy_shift = float(4 * sc6 * (sc6 - 1));
    s.inverse_cut = float(1 / cut);
    s.inverse_cut3 = float(1 / (cut * cut * cut));
    s.atom = atom, s.neighbours = count, s.by_rank = by_rank, s.by_atom = by_atom;
    s.later = later, s.later_neighbours = later_count;
    s.force = p.output<float4>(atoms);
    s.energy = p.zeroed<double>(1);
    p.needs({.dram_bytes = 4 * pairs + 36.0 * atoms, .fp32_flop = 30 * pairs});
    p.check<float>(reinterpret_cast<const float*>(s.force), size_t(atoms) * 4, {1e-4, 2e-2}, [=](float* expected) {
        reference_forces<<<(atoms + 127) / 128, 128>>>(atom, box, cut, around, expected, nullptr);
    });
    p.check<double>(s.energy, 1, {1e-4, 1e-4 * atoms}, [=](double* expected) {
        reference_forces<<<(atoms + 127) / 128, 128>>>(atom, box, cut, around, nullptr, expected);
    });
    return s;
}

// Each atom from the two bonds of its ring.
__global__ void reference_bonds(const float4* atom, const float2* spring, int atoms, float* force, double* energy) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= atoms) return;
    const int first = i / 512 * 512;
    double sum[3] = {0, 0, 0};
    for (int side = 0; side < 2; ++side) {
        const int j = first + (i - first + (side ? 511 : 1)) % 512, bond = side ? j : i;
        const double dx = double(atom[i].x) - atom[j].x, dy = double(atom[i].y) - atom[j].y, dz = double(atom[i].z) - atom[j].z;
        const double r = sqrt(dx * dx + dy * dy + dz * dz), excess = r - spring[bond].y;
        const double f = -double(spring[bond].x) * excess / r;
        sum[0] += f * dx, sum[1] += f * dy, sum[2] += f * dz;
        if (energy && side == 0) atomicAdd(&energy[i / 512], 0.5 * spring[bond].x * excess * excess);
    }
    if (force) {
        force[4 * i] = float(sum[0]), force[4 * i + 1] = float(sum[1]), force[4 * i + 2] = float(sum[2]), force[4 * i + 3] = 0;
    }
}

Bonds set_up_bonds(book::Problem& p, int rings) {
    const int atoms = rings * kRing;
    const uint64_t seed = p.seed();
    Bonds b{atoms};
    const auto* atom = p.input<float4>(atoms, [=] __device__(size_t i) {
        const auto at = [=](int axis) { return float(4 * book::uniform01(seed, 30 + axis, i)); };
        return make_float4(at(0), at(1), at(2), 0);
    });
    b.ends = p.input<int2>(atoms, [=] __device__(size_t i) {
        return make_int2(int(i), int(i / kRing * kRing + (i + 1) % kRing));
    });
    const auto* spring = p.input<float2>(atoms, [=] __device__(size_t i) {
        return make_float2(float(1 + book::uniform01(seed, 40, i)), float(1 + book::uniform01(seed, 41, i)));
    });
    b.atom = atom, b.spring = spring;
    b.force = p.zeroed<float4>(atoms);
    b.energy = p.zeroed<double>(rings);
    p.needs({.dram_bytes = 48.0 * atoms + 8.0 * rings, .fp32_flop = 26.0 * atoms});
    p.check<float>(reinterpret_cast<const float*>(b.force), size_t(atoms) * 4, {1e-4, 1e-4}, [=](float* expected) {
        reference_bonds<<<(atoms + 127) / 128, 128>>>(atom, spring, atoms, expected, nullptr);
    });
    p.check<double>(b.energy, rings, {1e-5}, [=](double* expected) {
        reference_bonds<<<(atoms + 127) / 128, 128>>>(atom, spring, atoms, nullptr, expected);
    });
    return b;
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("liquid", [](book::Problem& p) {
        const auto s = set_up(p, {64, 64, 48}, 2.3, 0.3, 112);
        p.variant("by_atom", [=] { by_atom(s); });
        p.variant("by_rank", [=] { by_rank(s); });
        p.variant("selected", [=] { selected(s); });
        p.variant("formula", [=] { formula(s); });
        p.variant("energy_by_thread", [=] { energy_by_thread(s); });
        p.variant("each_pair_once", [=] { each_pair_once(s); });
    });
    book.problem("droplet", [](book::Problem& p) {
        const auto s = set_up(p, {16, 16, 24}, 4.2, 0.3, 480);
        p.variant("by_rank", [=] { by_rank(s); });
        p.variant("eight_lanes", [=] { eight_lanes(s); });
    });
    book.problem("rings", [](book::Problem& p) {
        const auto b = set_up_bonds(p, 4096);
        p.variant("bond_energies", [=] { bond_energies(b); });
        p.variant("block_energies", [=] { block_energies(b); });
    });
    return book.finish();
}
