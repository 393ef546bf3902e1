#include "problem.h"

constexpr int kWarps = 4;  // of a block; each has a matrix

__device__ void turn(float& a, float& b, const Rotation& by) {
    const float was_a = a;
    const float was_b = b;
    a = by.cosine * was_a - by.sine * was_b;
    b = by.sine * was_a + by.cosine * was_b;
}

__global__ void rotate(const Rotation* __restrict__ rotations, const float* __restrict__ in,
                       float* __restrict__ out, int matrices) {
    __shared__ float tiles[kWarps][kOrder][kOrder];
    const int lane = threadIdx.x;
    const int matrix = blockIdx.x * kWarps + threadIdx.y;
    if (matrix >= matrices) return;
    auto& tile = tiles[threadIdx.y];
    const size_t start = size_t{kOrder * kOrder} * matrix + lane;
    for (int r = 0; r < kOrder; ++r) tile[r][lane] = in[start + r * kOrder];

    for (int k = 0; k < kRotations; ++k) {
        const Rotation by = rotations[k];
        __syncwarp();
        turn(tile[by.first][lane], tile[by.second][lane], by);
        __syncwarp();
        turn(tile[lane][by.first], tile[lane][by.second], by);
    }

    __syncwarp();
    for (int r = 0; r < kOrder; ++r) out[start + r * kOrder] = tile[r][lane];
}

void launch(const Problem& problem) {
    const dim3 block(kOrder, kWarps);
    rotate<<<(problem.matrices + kWarps - 1) / kWarps, block>>>(problem.rotations, problem.in,
                                                                problem.out, problem.matrices);
}
