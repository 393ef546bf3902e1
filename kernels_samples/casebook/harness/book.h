// What every casebook program does beside its kernels: inputs from a seed, poisoned outputs, a check
// against a reference, interleaved timing with a cold L2, and one launch of each side for a profiler.
//
//   PROGRAM [--mode list|measure|time|profile] [--seeds 1,2,3] [--launches N]
//           [--only PROBLEM/VARIANT,...] [--skip PROBLEM/VARIANT,...]
//
// A side is one variant of the code on one problem (size, type, data). Each result is one JSON line
// on stdout. `measure` checks every side for every seed, then times the sides of a problem in turns.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_profiler_api.h>
#include <cuda_runtime.h>
#include <fcntl.h>
#include <nvtx3/nvToolsExt.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#define BOOK_CHECK(call)                                                                        \
    do {                                                                                        \
        const cudaError_t status_ = (call);                                                     \
        if (status_ != cudaSuccess) {                                                           \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(status_)); \
            std::exit(3);                                                                       \
        }                                                                                       \
    } while (0)

namespace book {

// The least work that any correct version has to do: what the floor of the run time is computed from.
struct Needs {
    double dram_bytes = 0;   // each input byte read once, each output byte written once
    double fp32_flop = 0;    // an FMA counts as 2
    double fp64_flop = 0;
    double tensor_flop = 0;  // fp16 or bf16 on tensor cores
    double int_op = 0;       // 32-bit integer instructions per thread
    double special_op = 0;   // MUFU operations: rsqrt, sin, exp2, ...
    double link_bytes = 0;   // host memory that has to cross the bus
    double steps = 0;        // dependent steps on the whole device, each one launch or grid barrier
};

struct Tolerance {
    double relative;
    double absolute = 0;
};

__host__ __device__ inline uint64_t mixed(uint64_t value) {
    value += 0x9E3779B97F4A7C15ull;
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ull;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EBull;
    return value ^ (value >> 31);
}

// Uniform in [0, 1), a function of seed, stream and index alone: the same on host and device.
__host__ __device__ inline double uniform01(uint64_t seed, uint64_t stream, uint64_t index) {
    const uint64_t bits = mixed(index ^ mixed(stream * 0x100000001B3ull + seed));
    return static_cast<double>(bits >> 11) * 0x1.0p-53;
}

template <class T>
__host__ __device__ inline double as_double(T value) {
    return static_cast<double>(value);
}
template <>
__host__ __device__ inline double as_double(__half value) {
    return static_cast<double>(__half2float(value));
}
template <>
__host__ __device__ inline double as_double(__nv_bfloat16 value) {
    return static_cast<double>(__bfloat162float(value));
}
template <class T>
__host__ __device__ inline T from_double(double value) {
    return static_cast<T>(value);
}
template <>
__host__ __device__ inline __half from_double<__half>(double value) {
    return __float2half(static_cast<float>(value));
}
template <>
__host__ __device__ inline __nv_bfloat16 from_double<__nv_bfloat16>(double value) {
    return __float2bfloat16(static_cast<float>(value));
}

// --- kernels of the harness itself; the profiler never sees them

template <class T, class F>
__global__ void book_fill(T* values, size_t count, F value_at) {
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count;
         i += size_t{gridDim.x} * blockDim.x) {
        values[i] = value_at(i);
    }
}

struct Verdict {
    unsigned long long wrong;
    unsigned long long not_finite;
    unsigned long long worst_bits;  // of a non-negative double: its bits order as the value does
};

template <class T>
__global__ void book_compare(const T* got, const T* want, size_t count, Tolerance allowed,
                             Verdict* verdict) {
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count;
         i += size_t{gridDim.x} * blockDim.x) {
        const double g = as_double(got[i]), w = as_double(want[i]);
        const double limit = allowed.absolute + allowed.relative * fabs(w);
        const double error = fabs(g - w);
        if (!isfinite(g) || !isfinite(w)) atomicAdd(&verdict->not_finite, 1ull);
        if (!(error <= limit)) atomicAdd(&verdict->wrong, 1ull);
        if (limit > 0 && isfinite(error)) {
            atomicMax(&verdict->worst_bits, static_cast<unsigned long long>(
                                                __double_as_longlong(error / limit)));
        }
    }
}

static __global__ void book_read_through(const float4* values, size_t count, float* sink) {
    float total = 0;
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count;
         i += size_t{gridDim.x} * blockDim.x) {
        const float4 v = values[i];
        total += v.x + v.y + v.z + v.w;
    }
    if (total == 12345.678f) *sink = total;
}

class Book;

// One problem: its data on the device, what the result must be, and the variants that compute it.
class Problem {
public:
    uint64_t seed() const { return seed_; }

    // Device array of which entry i is value_at(i), a __host__ __device__ lambda. Read-only input.
    template <class T, class F>
    T* input(size_t count, F value_at) {
        T* device = allocate<T>(count);
        book_fill<<<blocks(count), 256>>>(device, count, value_at);
        BOOK_CHECK(cudaGetLastError());
        return device;
    }
    // Device array, uniform in [low, high); every call draws from a stream of its own.
    template <class T>
    T* uniform(size_t count, double low, double high) {
        const uint64_t seed = seed_, stream = ++stream_;
        return input<T>(count, [=] __device__(size_t i) {
            return from_double<T>(low + (high - low) * uniform01(seed, stream, i));
        });
    }
    // Device array with the values of a host vector.
    template <class T>
    T* upload(const std::vector<T>& values) {
        T* device = allocate<T>(values.size());
        BOOK_CHECK(cudaMemcpy(device, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
        return device;
    }
    // Device array that starts each run with value_at(i): for work done in place.
    template <class T, class F>
    T* state(size_t count, F value_at) {
        T* original = input<T>(count, value_at);
        T* device = allocate<T>(count);
        restored_.push_back({device, original, count * sizeof(T)});
        return device;
    }
    // Device array whose every byte is 0xFF before each run; also for scratch space.
    template <class T>
    T* output(size_t count) {
        T* device = allocate<T>(count);
        poisoned_.push_back({device, count * sizeof(T)});
        return device;
    }
    // Device array that is zero before each run: counters, accumulators. Not timed.
    template <class T>
    T* zeroed(size_t count) {
        T* device = allocate<T>(count);
        zeroed_.push_back({device, count * sizeof(T)});
        return device;
    }
    // Pinned host memory that kernels can read and write directly over the bus.
    template <class T>
    T* host_mapped(size_t count) {
        void* host = nullptr;
        BOOK_CHECK(cudaHostAlloc(&host, count * sizeof(T), cudaHostAllocMapped));
        host_.push_back(host);
        return static_cast<T*>(host);
    }

    void needs(const Needs& needs) { needs_ = needs; }

    // The result must equal what `reference(expected)` writes into a buffer of the same size. The
    // reference is plain device code that shares nothing with the variants. It runs once per seed.
    template <class T>
    void check(const T* result, size_t count, Tolerance allowed,
               const std::function<void(T*)>& reference) {
        checks_.push_back([=, this]() mutable {
            static_assert(sizeof(T) > 0);
            return compare(result, count, allowed, reference);
        });
    }

    // `work` launches everything that this variant needs to get from the inputs to the result.
    void variant(const std::string& name, const std::function<void()>& work) {
        variants_.push_back({name, work});
    }

    // In a loop of many launches: ends profiling after `most` of them, so that a profile of the
    // side stays small. Does nothing in other modes.
    void launched(int index, int most = 2) const {
        if (profiling_ && index + 1 == most) {
            BOOK_CHECK(cudaDeviceSynchronize());
            BOOK_CHECK(cudaProfilerStop());
        }
    }

    Problem(const Problem&) = delete;
    ~Problem() {
        for (void* memory : device_) cudaFree(memory);
        for (void* memory : host_) cudaFreeHost(memory);
    }

private:
    friend class Book;
    Problem(std::string name, uint64_t seed, bool profiling)
        : name_(std::move(name)), seed_(seed), profiling_(profiling) {}

    struct Variant {
        std::string name;
        std::function<void()> work;
    };
    struct Block {
        void* device;
        size_t bytes;
    };
    struct Restored {
        void* device;
        const void* original;
        size_t bytes;
    };
    struct Outcome {
        bool ok = true;
        unsigned long long wrong = 0, not_finite = 0;
        double worst = 0;
    };

    static unsigned blocks(size_t count) {
        return static_cast<unsigned>(std::min<size_t>((count + 255) / 256, 132 * 32));
    }
    template <class T>
    T* allocate(size_t count) {
        void* device = nullptr;
        BOOK_CHECK(cudaMalloc(&device, std::max<size_t>(count * sizeof(T), 256)));
        device_.push_back(device);
        return static_cast<T*>(device);
    }
    template <class T>
    Outcome compare(const T* result, size_t count, Tolerance allowed,
                    const std::function<void(T*)>& reference) {
        T* expected = static_cast<T*>(expected_for(result, count * sizeof(T), [&](void* fresh) {
            reference(static_cast<T*>(fresh));
        }));
        Verdict* verdict = nullptr;
        BOOK_CHECK(cudaMalloc(&verdict, sizeof(Verdict)));
        BOOK_CHECK(cudaMemset(verdict, 0, sizeof(Verdict)));
        book_compare<<<blocks(count), 256>>>(result, expected, count, allowed, verdict);
        BOOK_CHECK(cudaGetLastError());
        Verdict found{};
        BOOK_CHECK(cudaMemcpy(&found, verdict, sizeof(Verdict), cudaMemcpyDeviceToHost));
        BOOK_CHECK(cudaFree(verdict));
        Outcome outcome;
        outcome.wrong = found.wrong;
        outcome.not_finite = found.not_finite;
        std::memcpy(&outcome.worst, &found.worst_bits, sizeof(double));
        outcome.ok = found.wrong == 0 && found.not_finite == 0;
        return outcome;
    }
    // Computed once per result array, before any variant ran.
    void* expected_for(const void* result, size_t bytes, const std::function<void(void*)>& fill) {
        for (auto& [of, expected] : expected_) {
            if (of == result) return expected;
        }
        void* fresh = allocate<unsigned char>(bytes);
        BOOK_CHECK(cudaMemset(fresh, 0, bytes));
        fill(fresh);
        BOOK_CHECK(cudaGetLastError());
        BOOK_CHECK(cudaDeviceSynchronize());
        expected_.push_back({result, fresh});
        return fresh;
    }
    void prepare() {
        for (const Restored& r : restored_) {
            BOOK_CHECK(cudaMemcpyAsync(r.device, r.original, r.bytes, cudaMemcpyDeviceToDevice));
        }
        for (const Block& b : poisoned_) BOOK_CHECK(cudaMemsetAsync(b.device, 0xFF, b.bytes));
        for (const Block& b : zeroed_) BOOK_CHECK(cudaMemsetAsync(b.device, 0, b.bytes));
    }
    Outcome run_checks() {
        Outcome all;
        for (auto& check : checks_) {
            const Outcome one = check();
            all.ok = all.ok && one.ok;
            all.wrong += one.wrong;
            all.not_finite += one.not_finite;
            all.worst = std::max(all.worst, one.worst);
        }
        all.ok = all.ok && !checks_.empty();
        return all;
    }

    std::string name_;
    uint64_t seed_;
    bool profiling_;
    uint64_t stream_ = 0;
    Needs needs_;
    std::vector<Variant> variants_;
    std::vector<std::function<Outcome()>> checks_;
    std::vector<std::pair<const void*, void*>> expected_;
    std::vector<Block> poisoned_, zeroed_;
    std::vector<Restored> restored_;
    std::vector<void*> device_, host_;
};

class Book {
public:
    Book(int argc, char** argv) {
        for (int i = 1; i + 1 < argc; i += 2) {
            const std::string option = argv[i], value = argv[i + 1];
            if (option == "--mode") {
                mode_ = value;
            } else if (option == "--launches") {
                launches_ = std::max(1, std::atoi(value.c_str()));
            } else if (option == "--seeds") {
                seeds_.clear();
                for (const std::string& s : split(value)) seeds_.push_back(std::stoull(s));
            } else if (option == "--only") {
                only_ = split(value);
            } else if (option == "--skip") {
                skip_ = split(value);
            } else {
                std::fprintf(stderr, "%s: unknown option %s\n", argv[0], option.c_str());
                std::exit(2);
            }
        }
        if (mode_ == "profile") wait_for_gpu();
    }

    void problem(const std::string& name, const std::function<void(Problem&)>& define) {
        if (!only_.empty() && std::none_of(only_.begin(), only_.end(), [&](const std::string& s) {
                return s.rfind(name + "/", 0) == 0;
            })) {
            return;
        }
        const bool once = mode_ == "profile" || mode_ == "time" || mode_ == "list";
        for (size_t k = 0; k < (once ? 1 : seeds_.size()); ++k) {
            Problem problem(name, seeds_[k], mode_ == "profile");
            define(problem);
            drop_unwanted(problem);
            if (mode_ == "list") list(problem);
            if (mode_ == "measure") verify(problem);
            if ((mode_ == "measure" && k + 1 == seeds_.size()) || mode_ == "time") time(problem);
            if (mode_ == "profile") profile(problem);
        }
    }

    int finish() {
        BOOK_CHECK(cudaDeviceSynchronize());
        std::printf("{\"event\": \"done\", \"failed\": %d}\n", failed_);
        std::fflush(stdout);
        if (lock_ >= 0) close(lock_);
        return failed_ ? 1 : 0;
    }

private:
    // Before the first CUDA call: profilers of several programs start and end beside each other, but
    // only one program at a time uses the GPU. The lock ends with the process, or in finish().
    void wait_for_gpu() {
        const char* path = std::getenv("BOOK_GPU_LOCK");
        if (!path) return;
        lock_ = open(path, O_CREAT | O_RDWR, 0666);
        if (lock_ >= 0) flock(lock_, LOCK_EX);
    }
    static std::vector<std::string> split(const std::string& text) {
        std::vector<std::string> parts;
        size_t start = 0;
        while (start <= text.size()) {
            const size_t end = std::min(text.find(',', start), text.size());
            if (end > start) parts.push_back(text.substr(start, end - start));
            start = end + 1;
        }
        return parts;
    }
    static bool has(const std::vector<std::string>& list, const std::string& name) {
        return std::find(list.begin(), list.end(), name) != list.end();
    }
    void drop_unwanted(Problem& problem) const {
        auto& all = problem.variants_;
        all.erase(std::remove_if(all.begin(), all.end(),
                                 [&](const Problem::Variant& v) {
                                     const std::string side = problem.name_ + "/" + v.name;
                                     return (!only_.empty() && !has(only_, side)) || has(skip_, side);
                                 }),
                  all.end());
    }
    static void say(const char* event, const Problem& problem, const Problem::Variant& variant) {
        std::printf("{\"event\": \"%s\", \"problem\": \"%s\", \"variant\": \"%s\"", event,
                    problem.name_.c_str(), variant.name.c_str());
    }
    static void end_line() {
        std::printf("}\n");
        std::fflush(stdout);
    }

    void list(const Problem& problem) const {
        for (const auto& variant : problem.variants_) {
            say("side", problem, variant);
            end_line();
        }
    }
    void verify(Problem& problem) {
        // References first: a variant that writes where it must not cannot spoil them.
        for (auto& check : problem.checks_) check();
        for (const auto& variant : problem.variants_) {
            say("start", problem, variant);
            end_line();
            problem.prepare();
            variant.work();
            BOOK_CHECK(cudaGetLastError());
            BOOK_CHECK(cudaDeviceSynchronize());
            const auto outcome = problem.run_checks();
            failed_ += !outcome.ok;
            say("check", problem, variant);
            std::printf(", \"seed\": %llu, \"ok\": %s, \"wrong\": %llu, \"not_finite\": %llu, "
                        "\"worst_error_over_allowed\": %.4g",
                        static_cast<unsigned long long>(problem.seed_), outcome.ok ? "true" : "false",
                        outcome.wrong, outcome.not_finite, outcome.worst);
            end_line();
        }
    }
    void time(Problem& problem) {
        constexpr int kWarmUp = 3;
        std::vector<std::vector<float>> times(problem.variants_.size());
        cudaEvent_t start, stop;
        BOOK_CHECK(cudaEventCreate(&start));
        BOOK_CHECK(cudaEventCreate(&stop));
        for (int round = 0; round < kWarmUp + launches_; ++round) {
            for (size_t v = 0; v < problem.variants_.size(); ++v) {
                problem.prepare();
                cool_l2();
                BOOK_CHECK(cudaEventRecord(start));
                problem.variants_[v].work();
                BOOK_CHECK(cudaEventRecord(stop));
                BOOK_CHECK(cudaEventSynchronize(stop));
                float elapsed_ms = 0;
                BOOK_CHECK(cudaEventElapsedTime(&elapsed_ms, start, stop));
                if (round >= kWarmUp) times[v].push_back(1e3f * elapsed_ms);
            }
        }
        BOOK_CHECK(cudaGetLastError());
        for (size_t v = 0; v < problem.variants_.size(); ++v) tell(problem, v, times[v]);
    }
    void tell(const Problem& problem, size_t v, const std::vector<float>& times) const {
        const Needs& n = problem.needs_;
        say("time", problem, problem.variants_[v]);
        std::printf(", \"needs\": {\"dram_bytes\": %.9g, \"fp32_flop\": %.9g, \"fp64_flop\": %.9g, "
                    "\"tensor_flop\": %.9g, \"int_op\": %.9g, \"special_op\": %.9g, "
                    "\"link_bytes\": %.9g, \"steps\": %.9g}, \"times_us\": [",
                    n.dram_bytes, n.fp32_flop, n.fp64_flop, n.tensor_flop, n.int_op, n.special_op,
                    n.link_bytes, n.steps);
        for (size_t i = 0; i < times.size(); ++i) std::printf(i ? ", %.2f" : "%.2f", times[i]);
        std::printf("]");
        end_line();
    }
    // A warm-up launch outside of the profile: code is loaded and pages are mapped before counting.
    void profile(Problem& problem) {
        for (const auto& variant : problem.variants_) {
            say("start", problem, variant);
            end_line();
            problem.prepare();
            BOOK_CHECK(cudaDeviceSynchronize());
            nvtxRangePushA((problem.name_ + "/" + variant.name).c_str());
            BOOK_CHECK(cudaProfilerStart());
            variant.work();
            BOOK_CHECK(cudaGetLastError());
            BOOK_CHECK(cudaDeviceSynchronize());
            BOOK_CHECK(cudaProfilerStop());
            nvtxRangePop();
            say("profiled", problem, variant);
            end_line();
        }
    }
    // Reads, never writes: what it leaves in L2 need not be written back during the timed work.
    void cool_l2() {
        constexpr size_t kBytes = size_t{256} << 20;
        if (!cold_) {
            BOOK_CHECK(cudaMalloc(&cold_, kBytes + sizeof(float)));
            BOOK_CHECK(cudaMemset(cold_, 0, kBytes));
        }
        book_read_through<<<1056, 256>>>(reinterpret_cast<const float4*>(cold_), kBytes / 16,
                                         cold_ + kBytes / sizeof(float));
        BOOK_CHECK(cudaGetLastError());
    }

    std::string mode_ = "measure";
    std::vector<uint64_t> seeds_{1, 2, 3};
    int launches_ = 20;
    std::vector<std::string> only_, skip_;
    float* cold_ = nullptr;
    int failed_ = 0;
    int lock_ = -1;
};

}  // namespace book
