#include "problem.h"

#include <cuda_pipeline.h>
#include <cuda_runtime.h>

#include <algorithm>

#ifndef BLOCK
#define BLOCK 128
#endif

constexpr int kBlock = BLOCK;
constexpr int kWarps = kBlock / 32;
constexpr int kVectors = 2;  // of each array, per thread and stage
constexpr int kStage = kVectors * kBlock;
constexpr int kStageBytes = 2 * kStage * int{sizeof(float4)};
constexpr int kStages = std::min(8, (224 << 10) / kStageBytes);

static_assert(kBlock % 32 == 0 && kStages >= 2);

__device__ void add_to_total(float mine, double* total) {
    __shared__ double of_warp[kWarps];
    double sum = mine;
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(~0u, sum, offset);
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        double of_block = 0;
        for (int w = 0; w < kWarps; ++w) of_block += of_warp[w];
        atomicAdd(total, of_block);
    }
}

// Each thread has a ring of slots of its own: no thread waits for another before the end.
__global__ void __launch_bounds__(kBlock) dot(const float4* __restrict__ left,
                                              const float4* __restrict__ right, int count,
                                              double* total) {
    extern __shared__ float4 ring[];
    float4* const of_left = ring + threadIdx.x;
    float4* const of_right = of_left + kStages * kStage;
    const int first = blockIdx.x * kStage + threadIdx.x;
    const int stride = gridDim.x * kStage;

    int next = first;
    const auto request = [&](int stage) {
#pragma unroll
        for (int v = 0; v < kVectors; ++v) {
            const int slot = stage * kStage + v * kBlock;
            const int i = next + v * kBlock;
            if (i < count) {
                __pipeline_memcpy_async(&of_left[slot], &left[i], sizeof(float4));
                __pipeline_memcpy_async(&of_right[slot], &right[i], sizeof(float4));
            }
        }
        __pipeline_commit();
        next += stride;
    };

    for (int stage = 0; stage < kStages - 1; ++stage) request(stage);
    float4 sum = make_float4(0, 0, 0, 0);
    int stage = 0;
    for (int begin = first; begin < count; begin += stride) {
        request(stage == 0 ? kStages - 1 : stage - 1);
        __pipeline_wait_prior(kStages - 1);
#pragma unroll
        for (int v = 0; v < kVectors; ++v) {
            const int slot = stage * kStage + v * kBlock;
            if (begin + v * kBlock < count) {
                const float4 a = of_left[slot];
                const float4 b = of_right[slot];
                sum.x = fmaf(a.x, b.x, sum.x);
                sum.y = fmaf(a.y, b.y, sum.y);
                sum.z = fmaf(a.z, b.z, sum.z);
                sum.w = fmaf(a.w, b.w, sum.w);
            }
        }
        stage = stage == kStages - 1 ? 0 : stage + 1;
    }
    __pipeline_wait_prior(0);
    add_to_total((sum.x + sum.y) + (sum.z + sum.w), total);
}

void launch(const Problem& problem) {
    constexpr int kShared = kStages * kStageBytes;
    int processors = 0;
    cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0);
    cudaFuncSetAttribute(dot, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared);
    cudaMemsetAsync(problem.dot, 0, sizeof(double));
    dot<<<processors, kBlock, kShared>>>(reinterpret_cast<const float4*>(problem.left),
                                         reinterpret_cast<const float4*>(problem.right),
                                         problem.count / 4, problem.dot);
}
