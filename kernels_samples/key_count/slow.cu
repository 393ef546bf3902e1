#include "problem.h"

__global__ void count_keys(const uint4* __restrict__ key, unsigned* count, int groups) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= groups) return;
    const uint4 keys = key[i];
    atomicAdd(&count[keys.x], 1u);
    atomicAdd(&count[keys.y], 1u);
    atomicAdd(&count[keys.z], 1u);
    atomicAdd(&count[keys.w], 1u);
}

void launch(const Problem& problem) {
    const int groups = problem.n / 4;
    const int block = 256;
    cudaMemsetAsync(problem.count, 0, problem.bins * sizeof(unsigned));
    count_keys<<<(groups + block - 1) / block, block>>>(
        reinterpret_cast<const uint4*>(problem.key), problem.count, groups);
}
