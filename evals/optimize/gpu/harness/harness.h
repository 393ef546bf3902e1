// The samples' harness again, for code that nobody trusts: the same interface, so that every
// problem.cu compiles unchanged (with -Dmain=problem_main), but the program is led by a script
// over a pipe and does what it takes to see a cheat. harness.cu says how.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#define CUDA_CHECK(call) harness::must_succeed((call), __FILE__, __LINE__)

struct __half;
struct __nv_bfloat16;

namespace harness {

void must_succeed(cudaError_t status, const char* file, int line);
// Stands in for cudaHostAlloc in problem.cu: what the device reads there is an input as well.
cudaError_t host_input(void** host, size_t bytes, unsigned flags);

// What an array holds, as far as comparing goes: integers and structs byte by byte.
enum class Kind { bytes, half, bfloat, single, twofold };

template <class T>
struct KindOf {
    static constexpr Kind value = Kind::bytes;
};
template <> struct KindOf<__half> { static constexpr Kind value = Kind::half; };
template <> struct KindOf<__nv_bfloat16> { static constexpr Kind value = Kind::bfloat; };
template <> struct KindOf<float> { static constexpr Kind value = Kind::single; };
template <> struct KindOf<float2> { static constexpr Kind value = Kind::single; };
template <> struct KindOf<float3> { static constexpr Kind value = Kind::single; };
template <> struct KindOf<float4> { static constexpr Kind value = Kind::single; };
template <> struct KindOf<double> { static constexpr Kind value = Kind::twofold; };
template <> struct KindOf<double2> { static constexpr Kind value = Kind::twofold; };

// The size of an integer, nothing for a struct: whether its values may change places.
template <class T>
constexpr size_t unit_of() {
    return std::is_integral<T>::value ? sizeof(T) : 0;
}
// Of what is compared: the last bits of floats may differ from launch to launch, so they need a kind.
template <class T>
constexpr bool comparable() {
    return KindOf<T>::value != Kind::bytes || std::is_integral<T>::value;
}

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

struct Array;
struct Launched;

class Run {
public:
    Run(int argc, char** argv);
    Run(const Run&) = delete;
    ~Run();

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
            add_input(values.data(), values.size() * sizeof(T), KindOf<T>::value, unit_of<T>()));
    }
    template <class T>
    T* state(const std::vector<T>& values) {
        static_assert(comparable<T>(), "a struct as a result needs a KindOf of its own");
        return static_cast<T*>(
            add_state(values.data(), values.size() * sizeof(T), KindOf<T>::value));
    }
    template <class T>
    T* output(size_t count) {
        static_assert(comparable<T>(), "a struct as a result needs a KindOf of its own");
        return static_cast<T*>(add_output(count * sizeof(T), KindOf<T>::value));
    }
    template <class T>
    T* scratch(size_t count) {
        return static_cast<T*>(add_scratch(count * sizeof(T)));
    }
    template <class T>
    std::vector<T> fetch(const T* device, size_t count) const {
        std::vector<T> values(count);
        CUDA_CHECK(cudaMemcpy(values.data(), device, count * sizeof(T), cudaMemcpyDeviceToHost));
        return values;
    }

    // What happens here depends on what the script asked for: see harness.cu.
    void measure(const std::function<void()>& work);

    // Holds `samples` entries of the result (all of them when there are fewer), drawn at random,
    // against `expected(index)`. Any NaN or infinity fails, wherever it is.
    template <class T>
    void check(const std::vector<T>& result, size_t samples, Tolerance tolerance,
               const std::function<double(size_t)>& expected) {
        for (const T& value : result) look_for_poison(as_double(value));
        const bool all = samples >= result.size();
        Random pick(seed_ + 77);
        for (size_t k = 0; k < (all ? result.size() : samples); ++k) {
            const size_t i = all ? k : pick.below(result.size());
            compare(as_double(result[i]), expected(i), tolerance);
        }
    }

    int finish();

    uint64_t seed() const { return seed_; }

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

    void* add_input(const void* values, size_t bytes, Kind kind, size_t unit);
    void* add_state(const void* values, size_t bytes, Kind kind);
    void* add_output(size_t bytes, Kind kind);
    void* add_scratch(size_t bytes);
    Array& add(size_t bytes, Kind kind);
    void look_for_poison(double value);
    void compare(double got, double want, Tolerance tolerance);

    void keep_host_inputs();
    void load(const Run* floats_of = nullptr);
    bool has_floats() const;
    void renew(double fresh);
    void poison();
    Launched launch(const std::function<void()>& work, const Run* floats_of = nullptr,
                    double fresh = 0);
    void keep_reference();
    void pick();
    bool snapshot_is(const Run& whose, bool exactly) const;
    bool outputs_are(bool exactly) const;
    bool nothing_written() const;
    bool inputs_are_whole(const Run* floats_of = nullptr) const;
    bool same_places(const Run& other) const;

    void record(const std::function<void()>& work);
    void lead(const std::function<void()>& work);
    void follow(const std::function<void()>& work);
    void serve(const std::function<void()>& work);
    std::string timed(const std::function<void()>& work);
    std::string timed_turn(const std::function<void()>& work, uint64_t count);
    std::string renewed(const std::function<void()>& work);
    std::string probed(const std::function<void()>& work);
    void show_result(const std::function<void()>& work);

    uint64_t seed_;
    Random random_;
    std::vector<std::unique_ptr<Array>> arrays_;
    size_t timed_ = 0;
    size_t checked_ = 0;
    size_t wrong_ = 0;
    size_t not_finite_ = 0;
    std::string example_;
};

}  // namespace harness

#ifndef HARNESS_ITSELF
#define cudaHostAlloc harness::host_input
#endif
