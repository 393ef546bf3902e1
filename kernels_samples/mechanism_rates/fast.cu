#include "problem.h"

constexpr int kLanes = 32;  // cells of a block, one per lane of each warp
constexpr int kWarps = 16;  // the warps of a block share out the reactions and the species
constexpr int kReactionsPerWarp = kReactions / kWarps;
constexpr int kSpeciesPerWarp = kSpecies / kWarps;
constexpr int kParts = 4 * kReactions;

// The mechanism as data; one table serves all cells.
struct Mechanism {
    Reaction reaction[kReactions];
    Part part[kParts];
    int first_part[kSpecies + 1];
    float heat[kSpecies];
};

constexpr Mechanism mechanism() {
    Mechanism m{};
    for (int i = 0; i < kReactions; ++i) m.reaction[i] = reaction_at(i);
    int count = 0;
    for (int s = 0; s < kSpecies; ++s) {
        m.first_part[s] = count;
        for (int i = 0; i < kReactions; ++i) {
            const Reaction& r = m.reaction[i];
            if (r.in[0] == s || r.in[1] == s) m.part[count++] = {i, -1};
            if (r.out[0] == s || r.out[1] == s) m.part[count++] = {i, 1};
        }
        m.heat[s] = heat_of(s);
    }
    m.first_part[kSpecies] = count;
    return m;
}

__device__ const Mechanism kMechanism = mechanism();

struct Shared {
    Mechanism mechanism;
    float concentration[kSpecies][kLanes];
    float rate[kReactions][kLanes];
    float heat[kWarps][kLanes];
};

struct Warmth {
    float log2_t, inverse_t;
};

__device__ float value_of(const Arrhenius& k, const Warmth& at) {
    return exp2f(k.scale + k.power * at.log2_t - k.barrier * at.inverse_t);
}

// `concentration` points to the cell's entry for species 0.
__device__ float rate_of(const Reaction& r, const float* concentration, const Warmth& at) {
    const auto amount = [&](int species) { return concentration[species * kLanes]; };
    const float forward = value_of(r.forward, at);
    const float backward = value_of(r.backward, at);
    const float net = forward * amount(r.in[0]) * amount(r.in[1]) -
                      backward * amount(r.out[0]) * amount(r.out[1]);
    if (r.kind == Kind::plain) return net;
    const float density = r.density + r.efficiency[0] * amount(r.collider[0]) +
                          r.efficiency[1] * amount(r.collider[1]) +
                          r.efficiency[2] * amount(r.collider[2]);
    if (r.kind == Kind::third_body) return net * density;
    const float low = density * value_of(r.low, at);
    return net * __fdividef(low, forward + low);
}

__device__ float change_of(int species, const Shared& shared, int lane) {
    const Mechanism& mechanism = shared.mechanism;
    const float* rate = &shared.rate[0][lane];
    float change = 0;
#pragma unroll 4
    for (int p = mechanism.first_part[species]; p < mechanism.first_part[species + 1]; ++p) {
        const Part part = mechanism.part[p];
        change += part.sign * rate[part.reaction * kLanes];
    }
    return change;
}

__device__ float temperature_of(const Shared& shared, int lane) {
    float temperature = kCold;
    for (int w = 0; w < kWarps; ++w) temperature += shared.heat[w][lane];
    return temperature;
}

__device__ void read_mechanism(Mechanism& to) {
    static_assert(sizeof(Mechanism) % sizeof(int) == 0);
    const int* words = reinterpret_cast<const int*>(&kMechanism);
    for (int i = threadIdx.x; i < sizeof(Mechanism) / sizeof(int); i += kWarps * kLanes) {
        reinterpret_cast<int*>(&to)[i] = words[i];
    }
}

__global__ void advance(const float* start, float* end, float* temperature, int cells) {
    extern __shared__ Shared blocks[];
    Shared& shared = blocks[0];
    const int lane = threadIdx.x % kLanes;
    const int warp = threadIdx.x / kLanes;
    const int cell = blockIdx.x * kLanes + lane;

    read_mechanism(shared.mechanism);
    __syncthreads();
    float heat = 0;
    for (int i = 0; i < kSpeciesPerWarp; ++i) {
        const int species = warp * kSpeciesPerWarp + i;
        shared.concentration[species][lane] = start[species * cells + cell];
        heat += shared.mechanism.heat[species] * shared.concentration[species][lane];
    }
    shared.heat[warp][lane] = heat;
    __syncthreads();

    for (int step = 0; step < kSteps; ++step) {
        const float t = temperature_of(shared, lane);
        const Warmth at{log2f(t), 1 / t};
        const float* concentration = &shared.concentration[0][lane];
#pragma unroll 2
        for (int j = 0; j < kReactionsPerWarp; ++j) {
            const int i = warp * kReactionsPerWarp + j;
            const Reaction& reaction = shared.mechanism.reaction[i];
            shared.rate[i][lane] = rate_of(reaction, concentration, at);
        }
        __syncthreads();
        heat = 0;
        for (int i = 0; i < kSpeciesPerWarp; ++i) {
            const int species = warp * kSpeciesPerWarp + i;
            float& mine = shared.concentration[species][lane];
            mine += kTimeStep * change_of(species, shared, lane);
            heat += shared.mechanism.heat[species] * mine;
        }
        shared.heat[warp][lane] = heat;
        __syncthreads();
    }

    for (int i = 0; i < kSpeciesPerWarp; ++i) {
        const int species = warp * kSpeciesPerWarp + i;
        end[species * cells + cell] = shared.concentration[species][lane];
    }
    if (warp == 0) temperature[cell] = temperature_of(shared, lane);
}

void launch(const Problem& problem) {
    cudaFuncSetAttribute(advance, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Shared));
    advance<<<problem.cells / kLanes, kWarps * kLanes, sizeof(Shared)>>>(
        problem.start, problem.end, problem.temperature, problem.cells);
}
