#include <utility>

#include "problem.h"

constexpr int kLanes = 32;  // cells of a block, one per lane of each warp
constexpr int kWarps = 16;  // the warps of a block share out the reactions and the species
constexpr int kReactionsPerWarp = kReactions / kWarps;
constexpr int kSpeciesPerWarp = kSpecies / kWarps;

template <int... i>
using Indices = std::integer_sequence<int, i...>;
template <int count>
using Range = std::make_integer_sequence<int, count>;

struct Shared {
    float concentration[kSpecies][kLanes];
    float rate[kReactions][kLanes];
    float heat[kWarps][kLanes];
};

struct Warmth {
    float log2_t, inverse_t;
};

__device__ __forceinline__ float value_of(const Arrhenius& k, const Warmth& at) {
    return exp2f(k.scale + k.power * at.log2_t - k.barrier * at.inverse_t);
}

// The mechanism is known when the program is compiled.
template <int index>
__device__ __forceinline__ void react(Shared& shared, int lane, const Warmth& at) {
    constexpr Reaction r = reaction_at(index);
    const auto amount = [&](int species) { return shared.concentration[species][lane]; };
    const float forward = value_of(r.forward, at);
    const float backward = value_of(r.backward, at);
    float net = forward * amount(r.in[0]) * amount(r.in[1]) -
                backward * amount(r.out[0]) * amount(r.out[1]);
    if constexpr (r.kind != Kind::plain) {
        const float density = r.density + r.efficiency[0] * amount(r.collider[0]) +
                              r.efficiency[1] * amount(r.collider[1]) +
                              r.efficiency[2] * amount(r.collider[2]);
        if constexpr (r.kind == Kind::third_body) {
            net *= density;
        } else {
            const float low = density * value_of(r.low, at);
            net *= __fdividef(low, forward + low);
        }
    }
    shared.rate[index][lane] = net;
}

template <int species, int... part>
__device__ __forceinline__ float change_of(const Shared& shared, int lane, Indices<part...>) {
    constexpr Parts parts = parts_of(species);
    float change = 0;
    ((change += parts.part[part].sign * shared.rate[parts.part[part].reaction][lane]), ...);
    return change;
}

// Advances the concentration; returns what the species adds to the temperature.
template <int species>
__device__ __forceinline__ float update(Shared& shared, int lane) {
    constexpr int count = parts_of(species).count;
    float& concentration = shared.concentration[species][lane];
    concentration += kTimeStep * change_of<species>(shared, lane, Range<count>{});
    return heat_of(species) * concentration;
}

template <int warp, int... i>
__device__ __forceinline__ void react_share(Shared& shared, int lane, const Warmth& at,
                                            Indices<i...>) {
    (react<warp * kReactionsPerWarp + i>(shared, lane, at), ...);
}

template <int warp, int... i>
__device__ __forceinline__ void update_share(Shared& shared, int lane, Indices<i...>) {
    shared.heat[warp][lane] = (update<warp * kSpeciesPerWarp + i>(shared, lane) + ...);
}

template <int... w>
__device__ __forceinline__ void react_all(Shared& shared, int warp, int lane, const Warmth& at,
                                          Indices<w...>) {
    ((warp == w ? react_share<w>(shared, lane, at, Range<kReactionsPerWarp>{}) : void()), ...);
}

template <int... w>
__device__ __forceinline__ void update_all(Shared& shared, int warp, int lane, Indices<w...>) {
    ((warp == w ? update_share<w>(shared, lane, Range<kSpeciesPerWarp>{}) : void()), ...);
}

__device__ float temperature_of(const Shared& shared, int lane) {
    float temperature = kCold;
    for (int w = 0; w < kWarps; ++w) temperature += shared.heat[w][lane];
    return temperature;
}

__global__ void advance(const float* start, float* end, float* temperature, int cells) {
    extern __shared__ Shared blocks[];
    Shared& shared = blocks[0];
    const int lane = threadIdx.x % kLanes;
    const int warp = threadIdx.x / kLanes;
    const int cell = blockIdx.x * kLanes + lane;

    float heat = 0;
    for (int i = 0; i < kSpeciesPerWarp; ++i) {
        const int species = warp * kSpeciesPerWarp + i;
        shared.concentration[species][lane] = start[species * cells + cell];
        heat += heat_of(species) * shared.concentration[species][lane];
    }
    shared.heat[warp][lane] = heat;
    __syncthreads();

    for (int step = 0; step < kSteps; ++step) {
        const float t = temperature_of(shared, lane);
        const Warmth at{log2f(t), 1 / t};
        react_all(shared, warp, lane, at, Range<kWarps>{});
        __syncthreads();
        update_all(shared, warp, lane, Range<kWarps>{});
        __syncthreads();
    }

    for (int i = 0; i < kSpeciesPerWarp; ++i) {
        const int species = warp * kSpeciesPerWarp + i;
        end[species * cells + cell] = shared.concentration[species][lane];
    }
    if (warp == 0) temperature[cell] = temperature_of(shared, lane);
}

void launch(const Problem& problem) {
    advance<<<problem.cells / kLanes, kWarps * kLanes, sizeof(Shared)>>>(
        problem.start, problem.end, problem.temperature, problem.cells);
}
