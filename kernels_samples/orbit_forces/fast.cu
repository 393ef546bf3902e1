#include "problem.h"

constexpr int kThreads = 128;
constexpr int kBodies = 4;  // bodies of one thread

// To 2 units in the last place, for numbers that are not subnormal.
__device__ float inverse_root(float value) {
    float result;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(value));
    return result;
}

// Adds the pull of `source` at `at` to `sum`.
__device__ void add_pull(const float4& at, const float4& source, float (&sum)[3]) {
    const float dx = source.x - at.x;
    const float dy = source.y - at.y;
    const float dz = source.z - at.z;
    const float square = kSoftening * kSoftening + dx * dx + dy * dy + dz * dz;
    const float inverse = inverse_root(square);
    const float weight = source.w * inverse * (inverse * inverse);
    sum[0] += weight * dx;
    sum[1] += weight * dy;
    sum[2] += weight * dz;
}

__global__ void pull_of_share(const float4* bodies, float* shares, int count) {
    __shared__ float4 tile[kThreads];
    const int first = blockIdx.x * kThreads * kBodies + threadIdx.x;
    float4 at[kBodies];
    float sum[kBodies][3] = {};
    for (int b = 0; b < kBodies; ++b) at[b] = bodies[first + b * kThreads];

    const int sources = count / kShares;
    const int begin = blockIdx.y * sources;
    for (int start = begin; start < begin + sources; start += kThreads) {
        tile[threadIdx.x] = bodies[start + threadIdx.x];
        __syncthreads();
#pragma unroll 4
        for (int j = 0; j < kThreads; ++j) {
            const float4 source = tile[j];
            for (int b = 0; b < kBodies; ++b) add_pull(at[b], source, sum[b]);
        }
        __syncthreads();
    }

    for (int b = 0; b < kBodies; ++b) {
        for (int d = 0; d < 3; ++d) {
            const int row = blockIdx.y * 3 + d;
            shares[row * count + first + b * kThreads] = sum[b][d];
        }
    }
}

__global__ void join_shares(const float* shares, float* pull, int size) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= size) return;
    float sum = 0;
    for (int s = 0; s < kShares; ++s) sum += shares[s * size + i];
    pull[i] = sum;
}

void launch(const Problem& problem) {
    const int size = 3 * problem.count;
    const dim3 grid(problem.count / (kThreads * kBodies), kShares);
    pull_of_share<<<grid, kThreads>>>(problem.bodies, problem.shares, problem.count);
    join_shares<<<(size + 255) / 256, 256>>>(problem.shares, problem.pull, size);
}
