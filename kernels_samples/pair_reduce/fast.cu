#include "problem.h"

#include <cuda_runtime.h>

constexpr int kBlock = 256;
constexpr int kWarps = kBlock / 32;
constexpr int kVectors = 2;             // of each array, per thread and turn
constexpr int kBlocks = 2048 / kBlock;  // per processor

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

__global__ void __launch_bounds__(kBlock, kBlocks) dot(const float4* __restrict__ left,
                                                       const float4* __restrict__ right, int count,
                                                       double* total) {
    const int first = blockIdx.x * (kVectors * kBlock) + threadIdx.x;
    const int stride = gridDim.x * (kVectors * kBlock);
    float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll 1
    for (int begin = first; begin < count; begin += stride) {
        float4 a[kVectors], b[kVectors];
#pragma unroll
        for (int v = 0; v < kVectors; ++v) {
            const int i = begin + v * kBlock;
            const float4 zero = make_float4(0, 0, 0, 0);
            a[v] = i < count ? left[i] : zero;
            b[v] = i < count ? right[i] : zero;
        }
#pragma unroll
        for (int v = 0; v < kVectors; ++v) {
            sum.x = fmaf(a[v].x, b[v].x, sum.x);
            sum.y = fmaf(a[v].y, b[v].y, sum.y);
            sum.z = fmaf(a[v].z, b[v].z, sum.z);
            sum.w = fmaf(a[v].w, b[v].w, sum.w);
        }
    }
    add_to_total((sum.x + sum.y) + (sum.z + sum.w), total);
}

void launch(const Problem& problem) {
    int processors = 0;
    cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0);
    cudaMemsetAsync(problem.dot, 0, sizeof(double));
    dot<<<processors * kBlocks, kBlock>>>(reinterpret_cast<const float4*>(problem.left),
                                          reinterpret_cast<const float4*>(problem.right),
                                          problem.count / 4, problem.dot);
}
