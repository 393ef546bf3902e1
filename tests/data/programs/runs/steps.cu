// 400 smoothing steps over independent rows: a launch per step (steps many), or one launch whose
// blocks keep their row in shared memory for all steps (steps one).
#include "check.h"
#include <cstring>

constexpr int WIDTH = 1024, ROWS = 132, STEPS = 400;

__global__ void smooth_step(const float *in, float *out) {
    int x = threadIdx.x, row = blockIdx.x * WIDTH;
    float left = in[row + (x ? x - 1 : WIDTH - 1)], right = in[row + (x + 1) % WIDTH];
    out[row + x] = 0.5f * in[row + x] + 0.25f * (left + right);
}

__global__ void smooth_all(float *data, int steps) {
    __shared__ float now[WIDTH], next[WIDTH];
    int x = threadIdx.x, row = blockIdx.x * WIDTH;
    now[x] = data[row + x];
    __syncthreads();
    for (int step = 0; step < steps; step++) {
        float left = now[x ? x - 1 : WIDTH - 1], right = now[(x + 1) % WIDTH];
        next[x] = 0.5f * now[x] + 0.25f * (left + right);
        __syncthreads();
        now[x] = next[x];
        __syncthreads();
    }
    data[row + x] = now[x];
}

int main(int argc, char **argv) {
    bool fused = argc > 1 && !strcmp(argv[1], "one");
    int repeats = argc > 2 ? atoi(argv[2]) : 1;
    float *one = filled(ROWS * WIDTH), *other = filled(ROWS * WIDTH);
    for (int repeat = 0; repeat < repeats; repeat++) {
        if (fused) {
            smooth_all<<<ROWS, WIDTH>>>(one, STEPS);
            continue;
        }
        for (int step = 0; step < STEPS; step++) {
            smooth_step<<<ROWS, WIDTH>>>(one, other);
            float *swap = one;
            one = other;
            other = swap;
        }
    }
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    printf("steps: %f\n", first_of(one + 5));
    return 0;
}
