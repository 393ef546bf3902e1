#include "harness.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace harness {
namespace {

constexpr int kWarmUp = 5;
constexpr size_t kColdBytes = size_t{256} << 20;  // several times the L2 of any GPU so far

// Reads, never writes: what it leaves in L2 need not be written back during the timed work.
__global__ void read_through(const float4* values, size_t count, float* sink) {
    float total = 0;
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count;
         i += size_t{gridDim.x} * blockDim.x) {
        const float4 value = values[i];
        total += value.x + value.y + value.z + value.w;
    }
    if (total == 12345.678f) *sink = total;
}

uint64_t mixed(uint64_t value) {
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ull;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EBull;
    return value ^ (value >> 31);
}

double quantile(std::vector<double> values, double share) {
    std::sort(values.begin(), values.end());
    const double place = share * static_cast<double>(values.size() - 1);
    const size_t below = static_cast<size_t>(place);
    const size_t above = std::min(below + 1, values.size() - 1);
    return values[below] + (place - static_cast<double>(below)) * (values[above] - values[below]);
}

[[noreturn]] void usage(const char* program) {
    std::fprintf(stderr, "usage: %s [--seed N] [--launches N] [--once]\n", program);
    std::exit(2);
}

}  // namespace

uint64_t Random::bits() {
    state_ += 0x9E3779B97F4A7C15ull;
    return mixed(state_);
}

double Random::normal() {
    const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
    return radius * std::cos(6.283185307179586 * uniform());
}

Run::Run(int argc, char** argv) : program_(argv[0]) {
    for (int i = 1; i < argc; ++i) {
        if (!std::strcmp(argv[i], "--once")) {
            once_ = true;
        } else if (!std::strcmp(argv[i], "--seed") && i + 1 < argc) {
            seed_ = std::strtoull(argv[++i], nullptr, 10);
        } else if (!std::strcmp(argv[i], "--launches") && i + 1 < argc) {
            launches_ = std::max(1, std::atoi(argv[++i]));
        } else {
            usage(argv[0]);
        }
    }
    random_ = Random(seed_);
}

void* Run::upload(const void* values, size_t bytes) {
    void* device = nullptr;
    CUDA_CHECK(cudaMalloc(&device, bytes));
    CUDA_CHECK(cudaMemcpy(device, values, bytes, cudaMemcpyHostToDevice));
    return device;
}

void* Run::restored(const void* values, size_t bytes) {
    void* device = upload(values, bytes);
    restored_.push_back({device, upload(values, bytes), bytes});
    return device;
}

void* Run::poisoned(size_t bytes) {
    void* device = nullptr;
    CUDA_CHECK(cudaMalloc(&device, bytes));
    poisoned_.emplace_back(device, bytes);
    return device;
}

void Run::prepare() {
    for (const Restored& array : restored_) {
        CUDA_CHECK(cudaMemcpyAsync(array.device, array.original, array.bytes,
                                   cudaMemcpyDeviceToDevice));
    }
    for (const auto& [device, bytes] : poisoned_) CUDA_CHECK(cudaMemsetAsync(device, 0xFF, bytes));
}

void Run::cool_l2() {
    if (!cold_) {
        CUDA_CHECK(cudaMalloc(&cold_, kColdBytes + sizeof(float)));
        CUDA_CHECK(cudaMemset(cold_, 0, kColdBytes));
    }
    read_through<<<1024, 256>>>(reinterpret_cast<const float4*>(cold_), kColdBytes / 16,
                                cold_ + kColdBytes / sizeof(float));
    CUDA_CHECK(cudaGetLastError());
}

void Run::measure(const std::function<void()>& work) {
    if (once_) {
        prepare();
        work();
        CUDA_CHECK(cudaGetLastError());
        CUDA_CHECK(cudaDeviceSynchronize());
        return;
    }
    cudaEvent_t start, stop;
    CUDA_CHECK(cudaEventCreate(&start));
    CUDA_CHECK(cudaEventCreate(&stop));
    for (int i = 0; i < kWarmUp + launches_; ++i) {
        prepare();
        cool_l2();
        CUDA_CHECK(cudaEventRecord(start));
        work();
        CUDA_CHECK(cudaGetLastError());
        CUDA_CHECK(cudaEventRecord(stop));
        CUDA_CHECK(cudaEventSynchronize(stop));
        float elapsed_ms = 0;
        CUDA_CHECK(cudaEventElapsedTime(&elapsed_ms, start, stop));
        if (i >= kWarmUp) times_us_.push_back(1e3 * elapsed_ms);
    }
}

// Weighed by position, so that a result in the wrong place changes the sum.
void Run::add_to_checksum(size_t index, double value) {
    if (!std::isfinite(value)) {
        ++not_finite_;
        return;
    }
    const double weight = 0.5 + static_cast<double>(mixed(index) >> 11) * 0x1.0p-53;
    checksum_ += weight * value;
}

void Run::compare(double got, double want, Tolerance tolerance) {
    const double allowed = tolerance.absolute + tolerance.relative * std::fabs(want);
    const double error = std::fabs(got - want);
    ++checked_;
    const bool close = error <= allowed;  // false for NaN
    if (!close && wrong_++ < 3) std::fprintf(stderr, "got %.9g, expected %.9g\n", got, want);
    if (allowed > 0 && std::isfinite(error)) worst_ = std::max(worst_, error / allowed);
}

int Run::finish() {
    CUDA_CHECK(cudaDeviceSynchronize());
    const bool ok = checked_ > 0 && wrong_ == 0 && not_finite_ == 0;
    std::printf("{\"program\": \"%s\", \"seed\": %llu, \"ok\": %s, \"checked\": %zu, \"wrong\": %zu, "
                "\"not_finite\": %zu, \"worst_error_over_allowed\": %.3g, \"checksum\": %.12g",
                program_.c_str(), static_cast<unsigned long long>(seed_), ok ? "true" : "false",
                checked_, wrong_, not_finite_, worst_, checksum_);
    if (!times_us_.empty()) {
        std::printf(", \"launches\": %zu, \"median_us\": %.3f, \"p10_us\": %.3f, \"p90_us\": %.3f",
                    times_us_.size(), quantile(times_us_, 0.5), quantile(times_us_, 0.1),
                    quantile(times_us_, 0.9));
        std::printf(", \"times_us\": [");
        for (size_t i = 0; i < times_us_.size(); ++i) std::printf(i ? ", %.2f" : "%.2f", times_us_[i]);
        std::printf("]");
    }
    std::printf("}\n");
    return ok ? 0 : 1;
}

}  // namespace harness
