// What every sample program does beside its own work: inputs from a seed, outputs that are
// poisoned before each run, timing with CUDA events, a check of the results, one JSON line.
//
//   PROGRAM [--seed N] [--launches N] [--once]
//
// --once runs the work a single time and launches no kernel of the harness: for a profiler.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#define CUDA_CHECK(call)                                                                  \
    do {                                                                                  \
        const cudaError_t status_ = (call);                                               \
        if (status_ != cudaSuccess) {                                                     \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(status_)); \
            std::exit(3);                                                                 \
        }                                                                                 \
    } while (0)

namespace harness {

// Numbers that depend on the seed alone (splitmix64), on every machine and compiler.
class Random {
public:
    explicit Random(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15ull + 0x1234567ull) {}

    uint64_t bits();
    double uniform() { return static_cast<double>(bits() >> 11) * 0x1.0p-53; }
    double uniform(double low, double high) { return low + (high - low) * uniform(); }
    uint64_t below(uint64_t limit) { return bits() % limit; }
    double normal();

private:
    uint64_t state_;
};

struct Tolerance {
    double relative;
    double absolute = 0;
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

    // A copy on the device that nothing changes.
    template <class T>
    const T* input(const std::vector<T>& values) {
        return static_cast<const T*>(upload(values.data(), values.size() * sizeof(T)));
    }
    // An array on the device that starts each run with these values: for work done in place.
    template <class T>
    T* state(const std::vector<T>& values) {
        return static_cast<T*>(restored(values.data(), values.size() * sizeof(T)));
    }
    // An array on the device whose every byte is 0xFF before each run.
    template <class T>
    T* output(size_t count) {
        return static_cast<T*>(poisoned(count * sizeof(T)));
    }
    // Room on the device that the work may use between its kernels; poisoned as an output is.
    template <class T>
    T* scratch(size_t count) {
        return output<T>(count);
    }
    template <class T>
    std::vector<T> fetch(const T* device, size_t count) const {
        std::vector<T> values(count);
        CUDA_CHECK(cudaMemcpy(values.data(), device, count * sizeof(T), cudaMemcpyDeviceToHost));
        return values;
    }

    // Runs the work: warm-up and timed launches with a cold L2 each, or a single one (--once).
    void measure(const std::function<void()>& work);

    // Holds `samples` entries of the result (all of them when there are fewer), drawn at random,
    // against `expected(index)`, and adds every entry to the checksum. Any NaN fails.
    template <class T>
    void check(const std::vector<T>& result, size_t samples, Tolerance tolerance,
               const std::function<double(size_t)>& expected) {
        for (size_t i = 0; i < result.size(); ++i) add_to_checksum(i, as_double(result[i]));
        const bool all = samples >= result.size();
        Random pick(seed_ + 77);
        for (size_t k = 0; k < (all ? result.size() : samples); ++k) {
            const size_t i = all ? k : pick.below(result.size());
            compare(as_double(result[i]), expected(i), tolerance);
        }
    }

    // Prints the JSON line; the exit status of the program.
    int finish();

    uint64_t seed() const { return seed_; }

private:
    template <class T>
    static double as_double(T value) {
        return static_cast<double>(static_cast<float>(value));
    }
    static double as_double(double value) { return value; }
    static double as_double(int value) { return value; }
    static double as_double(unsigned value) { return value; }
    static double as_double(long long value) { return static_cast<double>(value); }
    static double as_double(unsigned long long value) { return static_cast<double>(value); }

    struct Restored {
        void* device;
        const void* original;  // a second copy on the device
        size_t bytes;
    };

    void* upload(const void* values, size_t bytes);
    void* restored(const void* values, size_t bytes);
    void* poisoned(size_t bytes);
    void prepare();
    void cool_l2();
    void add_to_checksum(size_t index, double value);
    void compare(double got, double want, Tolerance tolerance);

    std::string program_;
    uint64_t seed_ = 1;
    int launches_ = 30;
    bool once_ = false;
    Random random_{1};
    std::vector<Restored> restored_;
    std::vector<std::pair<void*, size_t>> poisoned_;
    float* cold_ = nullptr;
    std::vector<double> times_us_;
    double checksum_ = 0;
    double worst_ = 0;  // error over what is allowed
    size_t checked_ = 0;
    size_t wrong_ = 0;
    size_t not_finite_ = 0;
};

}  // namespace harness
