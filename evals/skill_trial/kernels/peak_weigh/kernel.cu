// Weights of the peaks of mass spectra: this file may be changed.
#include "task.h"

namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / 32;
constexpr int kMostShared = 227 * 1024;

// The sum over the block, for every thread. `parts` may be used again after the next barrier.
__device__ float block_sum(float value, float* parts) {
    for (int distance = 16; distance > 0; distance /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, distance);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
    __syncthreads();
    float sum = 0.0f;
    for (int warp = 0; warp < kWarps; ++warp) sum += parts[warp];
    return sum;
}

// Heavy peaks tell more than light ones; those below the mean are mostly noise.
__device__ float raw_weight(float mass, float intensity, float mean) {
    return sqrtf(intensity) * powf(mass * 1e-3f, 1.3f) * (intensity / (intensity + mean));
}

// One block per spectrum; the peaks are read from memory once.
__global__ void __launch_bounds__(kThreads) weigh(Problem p) {
    __shared__ float sums[kWarps], squares[kWarps];
    extern __shared__ float2 peaks[];
    const int begin = p.begin[blockIdx.x];
    const int count = p.begin[blockIdx.x + 1] - begin;

    float sum = 0.0f;
    for (int i = threadIdx.x; i < count; i += kThreads) {
        const float2 peak = make_float2(p.mass[begin + i], p.intensity[begin + i]);
        peaks[i] = peak;
        sum += peak.y;
    }
    const float mean = block_sum(sum, sums) / float(count);

    float square = 0.0f;
    for (int i = threadIdx.x; i < count; i += kThreads) {
        const float weight = raw_weight(peaks[i].x, peaks[i].y, mean);
        peaks[i].x = weight;
        square += weight * weight;
    }
    const float scale = rsqrtf(block_sum(square, squares));

    for (int i = threadIdx.x; i < count; i += kThreads) p.weight[begin + i] = peaks[i].x * scale;
}

}  // namespace

void prepare(const Shape&) {
    cudaFuncSetAttribute(weigh, cudaFuncAttributeMaxDynamicSharedMemorySize, kMostShared - 1024);
}

void launch(const Problem& problem, cudaStream_t stream) {
    const std::size_t room = std::size_t(problem.longest) * sizeof(float2);
    weigh<<<problem.spectra, kThreads, room, stream>>>(problem);
}
