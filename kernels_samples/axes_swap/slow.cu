#include "problem.h"

constexpr int kThreads = 256;

__global__ void swap_axes(Problem problem) {
    const int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x;
    if (i >= problem.size) return;
    int64_t rest = i;
    int64_t from = 0;
#pragma unroll
    for (int axis = kAxes - 1; axis >= 0; --axis) {
        from += rest % problem.extent[axis] * problem.stride[axis];
        rest /= problem.extent[axis];
    }
    problem.out[i] = problem.in[from];
}

void launch(const Problem& problem) {
    const int64_t blocks = (problem.size + kThreads - 1) / kThreads;
    swap_axes<<<static_cast<unsigned>(blocks), kThreads>>>(problem);
}
