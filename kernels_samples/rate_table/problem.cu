#include "problem.h"

#include "../harness/harness.h"

#include <algorithm>

namespace {

// The rates live with the process that keeps them up to date; the device sees them there.
const float* published(const std::vector<float>& values) {
    float* host = nullptr;
    CUDA_CHECK(cudaHostAlloc(reinterpret_cast<void**>(&host), values.size() * sizeof(float),
                             cudaHostAllocMapped));
    std::copy(values.begin(), values.end(), host);
    float* device = nullptr;
    CUDA_CHECK(cudaHostGetDevicePointer(reinterpret_cast<void**>(&device), host, 0));
    return device;
}

}  // namespace

int main(int argc, char** argv) {
    harness::Run run(argc, argv);
    const int n = 1 << 23;
    const int codes = 1 << 24;
    const std::vector<float> amount = run.uniform<float>(n, 1, 100);
    const std::vector<float> rate = run.uniform<float>(codes, 0.5, 1.5);
    std::vector<int> code(n);
    for (int& c : code) c = static_cast<int>(run.random().below(codes));
    const Problem problem{n,
                          codes,
                          run.input(amount),
                          run.input(code),
                          published(rate),
                          run.output<float>(n),
                          run.scratch<float>(codes),
                          codes};

    run.measure([&] { launch(problem); });

    run.check(run.fetch(problem.out, n), 5000, {1e-6, 0},
              [&](size_t i) { return double{amount[i]} * rate[code[i]]; });
    return run.finish();
}
