#include "problem.h"

#include <cuda_runtime.h>

constexpr int kThreads = 128;
constexpr int kHalf = kWindow / 2;

// Each thread follows one sensor: it counts how often each level occurs in the window, and how many
// samples lie below the median, and mends both as the window moves on.
__global__ void window_median(const unsigned char* __restrict__ samples,
                              unsigned char* __restrict__ medians, int sensors, int frames) {
    extern __shared__ int counts[];  // [kLevels][kThreads]
    int* count = counts + threadIdx.x;
    const int sensor = blockIdx.x * kThreads + threadIdx.x;
    if (sensor >= sensors) return;
    for (int level = 0; level < kLevels; ++level) count[level * kThreads] = 0;
    for (int t = 0; t < kWindow; ++t) ++count[samples[t * sensors + sensor] * kThreads];

    int median = 0;
    int below = 0;
    for (int t = 0; t + kWindow <= frames; ++t) {
        if (t > 0) {
            const int leaving = samples[(t - 1) * sensors + sensor];
            const int entering = samples[(t + kWindow - 1) * sensors + sensor];
            --count[leaving * kThreads];
            ++count[entering * kThreads];
            below += (entering < median) - (leaving < median);
        }
        while (below > kHalf) below -= count[--median * kThreads];
        while (below + count[median * kThreads] <= kHalf) below += count[median++ * kThreads];
        medians[t * sensors + sensor] = static_cast<unsigned char>(median);
    }
}

void launch(const Problem& problem) {
    const int grid = (problem.sensors + kThreads - 1) / kThreads;
    const int shared = kLevels * kThreads * static_cast<int>(sizeof(int));
    cudaFuncSetAttribute(window_median, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
    cudaFuncSetAttribute(window_median, cudaFuncAttributePreferredSharedMemoryCarveout,
                         cudaSharedmemCarveoutMaxShared);
    window_median<<<grid, kThreads, shared>>>(problem.samples, problem.medians, problem.sensors,
                                              problem.frames);
}
