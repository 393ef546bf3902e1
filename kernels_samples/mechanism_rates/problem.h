// Species concentrations of gas cells, advanced by kSteps explicit time steps of a reaction
// mechanism; the temperature follows from the composition.
#pragma once

constexpr int kSpecies = 64;
constexpr int kReactions = 176;
constexpr int kSteps = 40;
constexpr float kTimeStep = 1e-3f;
constexpr float kCold = 1000.0f;  // temperature without the heat of the species

// k(T) = 2^(scale + power * log2 T - barrier / T)
struct Arrhenius {
    float scale, power, barrier;
};

// in[0] + in[1] <=> out[0] + out[1]
enum class Kind : int {
    plain,       // forward and backward as they are
    third_body,  // both in proportion to the density of colliders
    fall_off,    // from low pressure (in proportion to it) to high pressure (independent of it)
};

struct alignas(16) Reaction {
    int in[2], out[2];
    Arrhenius forward;
    Kind kind;
    Arrhenius backward;
    float density;  // of colliders, without those listed
    Arrhenius low;  // forward at low pressure
    int collider[3];
    float efficiency[3];
};

__host__ __device__ constexpr unsigned scrambled(unsigned value) {
    value = (value ^ (value >> 16)) * 0x7feb352du;
    value = (value ^ (value >> 15)) * 0x846ca68bu;
    return value ^ (value >> 16);
}

__host__ __device__ constexpr float between(float low, float high, unsigned key) {
    return low + (high - low) * static_cast<float>(scrambled(key) >> 8) * (1.0f / (1 << 24));
}

// About 2^level at 1000 K.
__host__ __device__ constexpr Arrhenius arrhenius(float level, unsigned key) {
    const float power = between(-1.5f, 1.5f, key);
    const float barrier = between(2000.0f, 9000.0f, key + 1);
    return {level + barrier / 1000.0f - power * 9.9657843f, power, barrier};
}

// The mechanism: synthetic, of the size and form of a hydrocarbon flame.
__host__ __device__ constexpr Reaction reaction_at(int index) {
    const unsigned key = 100u * static_cast<unsigned>(index);
    const int first = static_cast<int>(scrambled(key) % kSpecies);
    Reaction r{};
    r.in[0] = first;
    r.in[1] = (first + 1 + static_cast<int>(scrambled(key + 1) % 20)) % kSpecies;
    r.out[0] = (first + 21 + static_cast<int>(scrambled(key + 2) % 20)) % kSpecies;
    r.out[1] = (first + 41 + static_cast<int>(scrambled(key + 3) % 20)) % kSpecies;
    r.kind = index % 8 == 7 ? Kind::fall_off : index % 8 >= 5 ? Kind::third_body : Kind::plain;
    r.forward = arrhenius(between(-1, 1, key + 10), key + 11);
    r.backward = arrhenius(between(-2, 0, key + 20), key + 21);
    r.low = arrhenius(between(0, 1, key + 30), key + 31);
    r.density = 0.25f;
    for (int i = 0; i < 3; ++i) {
        r.collider[i] = static_cast<int>(scrambled(key + 40 + i) % kSpecies);
        r.efficiency[i] = between(0.1f, 0.4f, key + 50 + i);
    }
    return r;
}

// What a unit of the species adds to the temperature.
__host__ __device__ constexpr float heat_of(int species) {
    return between(-10, 10, 90000u + static_cast<unsigned>(species));
}

// The reactions in which a species takes part.
struct alignas(8) Part {
    int reaction;
    float sign;  // -1: used up, 1: formed
};

struct Parts {
    int count;
    Part part[kReactions];
};

__host__ __device__ constexpr Parts parts_of(int species) {
    Parts parts{};
    for (int index = 0; index < kReactions; ++index) {
        const Reaction r = reaction_at(index);
        if (r.in[0] == species || r.in[1] == species) parts.part[parts.count++] = {index, -1};
        if (r.out[0] == species || r.out[1] == species) parts.part[parts.count++] = {index, 1};
    }
    return parts;
}

struct Problem {
    int cells;           // a multiple of 32
    const float* start;  // [kSpecies][cells]
    float* end;          // [kSpecies][cells]
    float* temperature;  // [cells], after the last step
};

void launch(const Problem& problem);
