// The samples' harness again, for code that nobody trusts: the same interface, so that every
// problem.cu compiles unchanged (with -Dmain=problem_main). Here the problem runs in a checker, a
// process without candidates and without a GPU: it makes the inputs of one seed, and later checks
// what candidates made of them. checker.cu says how it is led.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#define CUDA_CHECK(call) harness::must_succeed((call), __FILE__, __LINE__)

namespace harness {

void must_succeed(cudaError_t status, const char* file, int line);
void hand_over(const void* problem, size_t bytes);
// Stand in for functions of CUDA in problem.cu: what the device reads there is an input as well.
cudaError_t host_input(void** host, size_t bytes, unsigned flags);
cudaError_t device_address(void** device, void* host, unsigned flags);

struct Seed {
    uint64_t high = 0, low = 0;
};

// Numbers that depend on all 128 bits of the seed (xoshiro256++), on every machine and compiler.
class Random {
public:
    explicit Random(Seed seed);

    uint64_t bits() {
        const uint64_t result = turned(state_[0] + state_[3], 23) + state_[0];
        const uint64_t shifted = state_[1] << 17;
        state_[2] ^= state_[0];
        state_[3] ^= state_[1];
        state_[1] ^= state_[2];
        state_[0] ^= state_[3];
        state_[2] ^= shifted;
        state_[3] = turned(state_[3], 45);
        return result;
    }
    double uniform() { return static_cast<double>(bits() >> 11) * 0x1.0p-53; }
    double uniform(double low, double high) { return low + (high - low) * uniform(); }
    uint64_t below(uint64_t limit) { return bits() % limit; }
    double normal();

private:
    static uint64_t turned(uint64_t value, int by) { return (value << by) | (value >> (64 - by)); }

    uint64_t state_[4];
};

struct Tolerance {
    double relative;
    double absolute = 0;
};

struct Array {
    enum class Role { input, host_input, state, output, scratch };

    Role role;
    size_t bytes;
    size_t offset;  // of an input or state in the shared memory of inputs

    bool given() const { return role != Role::output && role != Role::scratch; }
    bool made() const { return role == Role::output || role == Role::state; }
};

// What the problem's reference says of one result.
struct Checked {
    size_t checked = 0, wrong = 0, not_finite = 0;
    bool finished = false;  // the check ran to its end
    char example[96] = {};
};

class Run {
public:
    Run(int argc, char** argv);
    Run(const Run&) = delete;

    // The stream of numbers of this run's seed; every input is drawn from it, in a fixed order.
    Random& random() { return random_; }
    // `count` numbers, uniform in [low, high).
    template <class T>
    std::vector<T> uniform(size_t count, double low, double high) {
        std::vector<T> values(count);
        for (T& value : values) value = static_cast<T>(static_cast<float>(random_.uniform(low, high)));
        return values;
    }

    template <class T>
    const T* input(const std::vector<T>& values) {
        return static_cast<const T*>(
            add_given(Array::Role::input, values.data(), values.size() * sizeof(T)));
    }
    template <class T>
    T* state(const std::vector<T>& values) {
        return static_cast<T*>(
            add_given(Array::Role::state, values.data(), values.size() * sizeof(T)));
    }
    template <class T>
    T* output(size_t count) {
        return static_cast<T*>(add(Array::Role::output, count * sizeof(T)));
    }
    template <class T>
    T* scratch(size_t count) {
        return static_cast<T*>(add(Array::Role::scratch, count * sizeof(T)));
    }
    // Of the result that is checked.
    template <class T>
    std::vector<T> fetch(const T* device, size_t count) const {
        std::vector<T> values(count);
        fetch_bytes(values.data(), device, count * sizeof(T));
        return values;
    }

    // Hands the inputs to the referee. Returns once for each result that is to be checked, in a
    // process of its own each time.
    void measure(const std::function<void()>& work);

    // Holds `samples` entries of the result (all of them when there are fewer), drawn at random,
    // against `expected(index)`. Any NaN or infinity fails, wherever it is.
    template <class T>
    void check(const std::vector<T>& result, size_t samples, Tolerance tolerance,
               const std::function<double(size_t)>& expected) {
        for (const T& value : result) checked_.not_finite += !std::isfinite(as_double(value));
        const bool all = samples >= result.size();
        for (size_t k = 0; k < (all ? result.size() : samples); ++k) {
            const size_t i = all ? k : picks_.below(result.size());
            compare(as_double(result[i]), expected(i), tolerance);
        }
    }

    int finish();

    // A number that depends on the seed.
    uint64_t seed() const { return seed_.low; }

private:
    friend cudaError_t host_input(void** host, size_t bytes, unsigned flags);

    template <class T>
    static double as_double(T value) {
        return static_cast<double>(static_cast<float>(value));
    }
    static double as_double(double value) { return value; }
    static double as_double(int value) { return value; }
    static double as_double(unsigned value) { return value; }
    static double as_double(long long value) { return static_cast<double>(value); }
    static double as_double(unsigned long long value) { return static_cast<double>(value); }

    void* add(Array::Role role, size_t bytes);
    void* add_given(Array::Role role, const void* values, size_t bytes);
    void keep_host_inputs();
    std::string description() const;
    size_t result_bytes() const;
    bool begins_check(const std::vector<std::string>& command);
    void begin_check(size_t offset, Seed picks);
    void fetch_bytes(void* values, const void* device, size_t bytes) const;
    void compare(double got, double want, Tolerance tolerance);

    Seed seed_;
    Random random_;
    Random picks_;  // which entries are checked: from a seed that came after the result
    std::vector<Array> arrays_;
    const char* result_ = nullptr;
    Checked checked_;
};

}  // namespace harness

#ifndef HARNESS_ITSELF
#define cudaHostAlloc harness::host_input
#define cudaHostGetDevicePointer harness::device_address
#endif
