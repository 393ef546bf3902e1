// Four launches of three kernels, small enough to read and to profile in seconds:
// a plain one, a template in a namespace, and one that calls into another file.
#include <cstdio>
#include <cuda_runtime.h>

#include "tour_math.cuh"

#define CHECK(call)                                                                  \
    do {                                                                             \
        cudaError_t status = (call);                                                 \
        if (status != cudaSuccess) {                                                 \
            std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(status));     \
            return 1;                                                                \
        }                                                                            \
    } while (0)

__global__ void transpose_rows(const float* in, float* out, int n) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < n && y < n) {
        out[x * n + y] = in[y * n + x];
    }
}

namespace tour {

template <typename T, int TILE>
__global__ void transpose_tiles(const T* in, T* out, int n) {
    __shared__ T tile[TILE][TILE + 1];
    int x = blockIdx.x * TILE + threadIdx.x;
    int y = blockIdx.y * TILE + threadIdx.y;
    for (int row = 0; row < TILE; row += blockDim.y) {
        tile[threadIdx.y + row][threadIdx.x] = in[(y + row) * n + x];
    }
    __syncthreads();
    x = blockIdx.y * TILE + threadIdx.x;
    y = blockIdx.x * TILE + threadIdx.y;
    for (int row = 0; row < TILE; row += blockDim.y) {
        out[(y + row) * n + x] = tile[threadIdx.x][threadIdx.y + row];
    }
}

__global__ void normalise(const float* in, float* out, int n) {
    extern __shared__ float partial[];
    const float* row = in + static_cast<size_t>(blockIdx.x) * n;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        sum += fused_scale(row[i], 0.5f) * row[i];
    }
    partial[threadIdx.x] = sum;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            partial[threadIdx.x] += partial[threadIdx.x + half];
        }
        __syncthreads();
    }
    float scale = 1.0f / slow_root(partial[0] + 1.0f);
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        out[static_cast<size_t>(blockIdx.x) * n + i] = row[i] * scale;
    }
}

}  // namespace tour

int main() {
    const int n = 2048;
    const size_t bytes = sizeof(float) * n * n;
    float *in = nullptr, *out = nullptr;
    CHECK(cudaMalloc(&in, bytes));
    CHECK(cudaMalloc(&out, bytes));
    CHECK(cudaMemset(in, 1, bytes));
    CHECK(cudaMemset(out, 0xFF, bytes));

    transpose_rows<<<dim3(n / 32, n / 8), dim3(32, 8)>>>(in, out, n);
    tour::transpose_tiles<float, 32><<<dim3(n / 32, n / 32), dim3(32, 8)>>>(in, out, n);
    tour::normalise<<<n, 256, 256 * sizeof(float)>>>(in, out, n);
    tour::normalise<<<n / 8, 256, 256 * sizeof(float)>>>(in, out, n);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    std::puts("tour: done");
    return 0;
}
