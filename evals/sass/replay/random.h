// The random inputs of the programs, for kernels whose addresses depend on their data. The
// constants and the order of the draws are those of the two harnesses, with the seed of a profile.
#pragma once

#include <cstdint>

inline uint64_t mixed(uint64_t value) {
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ull;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EBull;
    return value ^ (value >> 31);
}

// kernels_samples/harness: numbers are drawn one after the other.
class SampleRandom {
public:
    uint64_t bits() {
        state_ += kStep;
        return mixed(state_);
    }
    uint64_t below(uint64_t limit) { return bits() % limit; }
    void skip(uint64_t draws) { state_ += draws * kStep; }

private:
    static constexpr uint64_t kStep = 0x9E3779B97F4A7C15ull;
    uint64_t state_ = kStep + 0x1234567ull;  // seed 1
};

// kernels_samples/casebook/harness: a number is a function of its stream and index.
inline double casebook_uniform(uint64_t stream, uint64_t index) {
    constexpr uint64_t kStep = 0x9E3779B97F4A7C15ull;
    const uint64_t seed = 1;
    const uint64_t bits = mixed((index ^ mixed(stream * 0x100000001B3ull + seed + kStep)) + kStep);
    return static_cast<double>(bits >> 11) * 0x1.0p-53;
}
