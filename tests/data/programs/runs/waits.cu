// A kernel that waits for the host to set a flag after the launch. ncu runs a launch to its end
// before the host goes on, so this one never ends under replay; it gives up after two minutes.
// `waits range` marks one round as a range, which ncu can replay as a whole.
#include "check.h"
#include <cuda_profiler_api.h>
#include <unistd.h>

__global__ void before_wait(float *data, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) data[i] += 1.0f;
}

__global__ void wait_for_host(volatile int *flag, float *data) {
    long long began = clock64();
    while (!*flag && clock64() - began < 240000000000ll) {}
    data[threadIdx.x] += float(*flag);
}

__global__ void after_wait(float *data, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) data[i] = sqrtf(data[i]);
}

int main(int argc, char **) {
    bool range = argc > 1;
    int n = 1 << 24;
    float *data = filled(n);
    int *flag = nullptr;
    CHECK(cudaHostAlloc(&flag, sizeof *flag, cudaHostAllocMapped));
    for (int round = 0; round < 3; round++) {
        *flag = 0;
        if (range && round == 1) CHECK(cudaProfilerStart());
        before_wait<<<n / 256, 256>>>(data, n);
        wait_for_host<<<1, 32>>>(flag, data);
        usleep(2000);
        *(volatile int *)flag = 1;
        after_wait<<<n / 256, 256>>>(data, n);
        CHECK(cudaDeviceSynchronize());
        if (range && round == 1) CHECK(cudaProfilerStop());
    }
    printf("waits: %f\n", first_of(data));
    return 0;
}
