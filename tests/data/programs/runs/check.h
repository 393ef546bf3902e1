// What the programs of this folder share.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

#define CHECK(call)                                                                     \
    do {                                                                                \
        cudaError_t status = (call);                                                    \
        if (status != cudaSuccess) {                                                    \
            fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(status));             \
            exit(1);                                                                    \
        }                                                                               \
    } while (0)

__global__ void fill(float *data, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) data[i] = float((i * 2654435761u) >> 8) / float(1 << 24);
}

inline float *filled(int n) {
    float *data = nullptr;
    CHECK(cudaMalloc(&data, sizeof(float) * n));
    fill<<<(n + 255) / 256, 256>>>(data, n);
    CHECK(cudaGetLastError());
    return data;
}

inline float first_of(const float *data) {
    float value = 0;
    CHECK(cudaMemcpy(&value, data, sizeof value, cudaMemcpyDeviceToHost));
    return value;
}
