#include "problem.h"

#include <cuda_runtime.h>

constexpr int kThreads = 1024;

struct Add {
    static constexpr float kNeutral = 0.0f;
    __device__ float operator()(float x, float y) const { return x + y; }
};

struct Max {
    static constexpr float kNeutral = -3.0e38f;
    __device__ float operator()(float x, float y) const { return fmaxf(x, y); }
};

// Leaves in line[i], and returns for the thread's own i, the values of threads 0 .. i combined.
template <class Combine>
__device__ float scan_line(float value, float* line, Combine combine) {
    const int i = threadIdx.x;
    line[i] = value;
    __syncthreads();
    for (int reach = 1; reach < kThreads; reach *= 2) {
        const float left = i >= reach ? line[i - reach] : Combine::kNeutral;
        __syncthreads();
        value = combine(left, value);
        line[i] = value;
        __syncthreads();
    }
    return value;
}

// One block per row, a stretch of kThreads columns at a time.
__global__ void scan_rows(const float* __restrict__ in, float* __restrict__ out, int columns) {
    __shared__ float sums[kThreads];
    __shared__ float peaks[kThreads];
    const size_t row = blockIdx.x * static_cast<size_t>(columns);
    float sum_before = 0;
    float peak_before = Max::kNeutral;
    int column = threadIdx.x;
    float coming = column < columns ? in[row + column] : 0;
    for (int start = 0; start < columns; start += kThreads) {
        const float value = coming;
        const int next = column + kThreads;
        if (next < columns) coming = in[row + next];

        const float sum = sum_before + scan_line(value, sums, Add());
        const float peak = fmaxf(peak_before, scan_line(sum, peaks, Max()));
        if (column < columns) out[row + column] = peak - sum;
        sum_before += sums[kThreads - 1];
        peak_before = fmaxf(peak_before, peaks[kThreads - 1]);
        column = next;
        __syncthreads();
    }
}

void launch(const Problem& problem) {
    scan_rows<<<problem.rows, kThreads>>>(problem.in, problem.out, problem.columns);
}
