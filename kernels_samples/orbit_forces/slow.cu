#include "problem.h"

constexpr int kThreads = 128;
constexpr int kBodies = 2;  // bodies of one thread

struct Body {
    double x, y, z, mass;
};

__device__ Body read_body(const float4* bodies, int i) {
    const float4 body = bodies[i];
    return {body.x, body.y, body.z, body.w};
}

// Adds the pull of `source` at `at` to `sum`.
__device__ void add_pull(const Body& at, const Body& source, double (&sum)[3]) {
    const double dx = source.x - at.x;
    const double dy = source.y - at.y;
    const double dz = source.z - at.z;
    const double square = dx * dx + dy * dy + dz * dz + double{kSoftening} * kSoftening;
    const double distance = sqrt(square);
    const double weight = source.mass / (distance * distance * distance);
    sum[0] += weight * dx;
    sum[1] += weight * dy;
    sum[2] += weight * dz;
}

__global__ void pull_of_share(const float4* bodies, float* shares, int count) {
    __shared__ Body tile[kThreads];
    const int first = blockIdx.x * kThreads * kBodies + threadIdx.x;
    Body at[kBodies];
    double sum[kBodies][3] = {};
    for (int b = 0; b < kBodies; ++b) at[b] = read_body(bodies, first + b * kThreads);

    const int sources = count / kShares;
    const int begin = blockIdx.y * sources;
    for (int start = begin; start < begin + sources; start += kThreads) {
        tile[threadIdx.x] = read_body(bodies, start + threadIdx.x);
        __syncthreads();
        for (int j = 0; j < kThreads; ++j) {
            const Body source = tile[j];
            for (int b = 0; b < kBodies; ++b) add_pull(at[b], source, sum[b]);
        }
        __syncthreads();
    }

    for (int b = 0; b < kBodies; ++b) {
        for (int d = 0; d < 3; ++d) {
            const int row = blockIdx.y * 3 + d;
            shares[row * count + first + b * kThreads] = static_cast<float>(sum[b][d]);
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
