// ---- fixed: do not edit. The runner builds with its own copy of this file.
//
// `program SEED` checks and times one task, `program SEED --once` launches it once (for a profiler).
// It prints: time_us=... low_us=... high_us=... check=ok|FAILED worst=... seed=...
// `time_us` is the median of the timed launches, low and high are the 10th and 90th percentile,
// `worst` is the largest error over the allowed error.
//
// The order of the steps keeps the comparison honest: prepare() runs before any input exists; caches
// are overwritten before each timed launch; outputs are poisoned before each checked launch; the
// second checked launch has other inputs in the same buffers.
#pragma once
#include <cuda_runtime.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <thread>
#include <vector>

namespace {
namespace trial {

constexpr int kWarmUps = 3;
constexpr int kLaunches = 21;
constexpr std::size_t kFlushBytes = 256u << 20;  // several times the L2 cache

inline void require(cudaError_t code, const char* what) {
    if (code == cudaSuccess) return;
    std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(code));
    std::exit(3);
}
#define TRIAL_CUDA(call) trial::require((call), #call)

inline std::uint64_t mixed(std::uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

// Numbers by index, so that threads can draw them in any order.
struct Random {
    std::uint64_t seed;
    std::uint64_t bits(std::uint64_t index) const { return mixed(mixed(seed) ^ mixed(index)); }
    double uniform(std::uint64_t index) const { return double(bits(index) >> 11) * 0x1p-53; }
    double uniform(std::uint64_t index, double low, double high) const {
        return low + (high - low) * uniform(index);
    }
};

// body(begin, end) on all cores; returns the largest result.
template <class Body>
double parallel(std::size_t count, Body body) {
    const std::size_t workers = std::max(1u, std::min(16u, std::thread::hardware_concurrency()));
    std::vector<double> results(workers, 0.0);
    std::vector<std::thread> threads;
    for (std::size_t w = 0; w < workers; ++w)
        threads.emplace_back([&, w] {
            results[w] = body(count * w / workers, count * (w + 1) / workers);
        });
    for (auto& thread : threads) thread.join();
    return *std::max_element(results.begin(), results.end());
}

// An error over what is allowed; infinite for what is not a number.
inline double excess(double value, double expected, double allowed) {
    const double ratio = std::fabs(value - expected) / allowed;
    return std::isfinite(ratio) ? ratio : std::numeric_limits<double>::infinity();
}

template <class T>
struct Buffer {
    T* data = nullptr;
    std::size_t count;
    explicit Buffer(std::size_t items) : count(items) {
        TRIAL_CUDA(cudaMalloc(&data, count * sizeof(T)));
    }
    void load(const std::vector<T>& from) {
        if (from.size() > count) std::exit(3);
        TRIAL_CUDA(cudaMemcpy(data, from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice));
    }
    void poison() { TRIAL_CUDA(cudaMemset(data, 0xff, count * sizeof(T))); }
    std::vector<T> fetch(cudaStream_t stream) const {
        std::vector<T> copy(count);
        TRIAL_CUDA(cudaMemcpyAsync(copy.data(), data, count * sizeof(T), cudaMemcpyDeviceToHost, stream));
        TRIAL_CUDA(cudaStreamSynchronize(stream));
        return copy;
    }
};

// The GPU belongs to one program at a time; making inputs and checking results may overlap.
struct Lock {
    int file = -1;
    void take() {
        const char* path = std::getenv("TRIAL_GPU_LOCK");
        if (!path) return;
        file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (file < 0 || flock(file, LOCK_EX)) std::exit(3);
        // Programs that hang must not hold the GPU: SIGALRM ends this one.
        const char* seconds = std::getenv("TRIAL_GPU_SECONDS");
        alarm(seconds ? unsigned(std::atoi(seconds)) : 30u);
    }
    void release() {
        alarm(0);
        if (file >= 0) close(file);
        file = -1;
    }
};

template <class Task, class Inputs>
auto checked_launch(Task& task, const Inputs& inputs, cudaStream_t stream) {
    const auto problem = task.load(inputs);
    task.poison();
    TRIAL_CUDA(cudaDeviceSynchronize());
    launch(problem, stream);
    TRIAL_CUDA(cudaGetLastError());
    TRIAL_CUDA(cudaStreamSynchronize(stream));
    return problem;
}

template <class Problem>
std::vector<float> times_of(const Problem& problem, cudaStream_t stream) {
    Buffer<char> flush(kFlushBytes);
    cudaEvent_t start, end;
    TRIAL_CUDA(cudaEventCreate(&start));
    TRIAL_CUDA(cudaEventCreate(&end));
    std::vector<float> times;
    for (int i = 0; i < kWarmUps + kLaunches; ++i) {
        TRIAL_CUDA(cudaMemsetAsync(flush.data, i, kFlushBytes, stream));
        TRIAL_CUDA(cudaEventRecord(start, stream));
        launch(problem, stream);
        TRIAL_CUDA(cudaEventRecord(end, stream));
        TRIAL_CUDA(cudaEventSynchronize(end));
        float milliseconds = 0;
        TRIAL_CUDA(cudaEventElapsedTime(&milliseconds, start, end));
        if (i >= kWarmUps) times.push_back(milliseconds * 1000);
    }
    std::sort(times.begin(), times.end());
    return times;
}

// Task: Inputs make(seed) and Shape shape() without a GPU; load, poison, fetch; worst(inputs, outputs).
template <class Task>
int run(int count, char** words) {
    if (count < 2) {
        std::fprintf(stderr, "usage: %s SEED [--once]\n", words[0]);
        return 2;
    }
    const std::uint64_t seed = std::strtoull(words[1], nullptr, 10);
    const bool once = count > 2 && !std::strcmp(words[2], "--once");
    const auto first = Task::make(seed);
    const auto second = once ? typename Task::Inputs{} : Task::make(mixed(seed));
    Lock lock;
    lock.take();
    cudaStream_t stream;
    TRIAL_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    Task task;
    prepare(Task::shape());
    TRIAL_CUDA(cudaDeviceSynchronize());
    const auto problem = checked_launch(task, first, stream);
    if (once) return 0;
    const auto results = task.fetch(stream);
    const auto times = times_of(problem, stream);
    checked_launch(task, second, stream);
    const auto others = task.fetch(stream);
    lock.release();
    const double worst = std::max(Task::worst(first, results), Task::worst(second, others));
    const bool right = worst <= 1.0;
    std::printf("time_us=%.2f low_us=%.2f high_us=%.2f check=%s worst=%.3g seed=%llu\n",
                times[kLaunches / 2], times[kLaunches / 10], times[kLaunches - 1 - kLaunches / 10],
                right ? "ok" : "FAILED", worst, static_cast<unsigned long long>(seed));
    return right ? 0 : 1;
}

}  // namespace trial
}  // namespace
