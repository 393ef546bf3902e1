#include "problem.h"

#include <cuda_runtime.h>

constexpr int kThreads = 128;
constexpr int kHalf = kWindow / 2;
constexpr int kPacked = 4;  // levels whose counts share a word
static_assert(kWindow <= 255 && kLevels % kPacked == 0);

// The counts of one thread: four levels to a word, the words of a warp side by side.
class Counts {
public:
    __device__ explicit Counts(unsigned* words) : words_(words + threadIdx.x) {
        for (int i = 0; i < kLevels / kPacked; ++i) words_[i * kThreads] = 0;
    }
    __device__ unsigned char& operator[](int level) {
        auto* bytes = reinterpret_cast<unsigned char*>(words_ + level / kPacked * kThreads);
        return bytes[level % kPacked];
    }

private:
    unsigned* words_;
};

// Each thread follows one sensor: it counts how often each level occurs in the window, and how many
// samples lie below the median, and mends both as the window moves on.
__global__ void window_median(const unsigned char* __restrict__ samples,
                              unsigned char* __restrict__ medians, int sensors, int frames) {
    extern __shared__ unsigned words[];  // [kLevels / kPacked][kThreads]
    const int sensor = blockIdx.x * kThreads + threadIdx.x;
    if (sensor >= sensors) return;
    Counts count(words);
    for (int t = 0; t < kWindow; ++t) ++count[samples[t * sensors + sensor]];

    int median = 0;
    int below = 0;
    for (int t = 0; t + kWindow <= frames; ++t) {
        if (t > 0) {
            const int leaving = samples[(t - 1) * sensors + sensor];
            const int entering = samples[(t + kWindow - 1) * sensors + sensor];
            --count[leaving];
            ++count[entering];
            below += (entering < median) - (leaving < median);
        }
        while (below > kHalf) below -= count[--median];
        while (below + count[median] <= kHalf) below += count[median++];
        medians[t * sensors + sensor] = static_cast<unsigned char>(median);
    }
}

void launch(const Problem& problem) {
    const int grid = (problem.sensors + kThreads - 1) / kThreads;
    const int shared = kLevels / kPacked * kThreads * static_cast<int>(sizeof(unsigned));
    cudaFuncSetAttribute(window_median, cudaFuncAttributePreferredSharedMemoryCarveout,
                         cudaSharedmemCarveoutMaxShared);
    window_median<<<grid, kThreads, shared>>>(problem.samples, problem.medians, problem.sensors,
                                              problem.frames);
}
