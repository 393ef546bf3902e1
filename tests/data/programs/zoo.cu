// One small kernel for each hardware unit, so that a report exists in which every
// family of metrics (FP64, FP16, tensor, XU, local memory, atomics, shared-memory
// bank conflicts, clusters, divergence) has values that are not zero.
#include <cstdio>
#include <cooperative_groups.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

#define CHECK(call)                                                                  \
    do {                                                                             \
        cudaError_t status = (call);                                                 \
        if (status != cudaSuccess) {                                                 \
            std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(status));     \
            return 1;                                                                \
        }                                                                            \
    } while (0)

__global__ void fp64_chain(double* data, int rounds) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    double a = data[i], b = a + 1.0;
    for (int r = 0; r < rounds; ++r) {
        a = fma(a, 1.0000001, b);
        b = b * 0.9999999 + 0.5;
    }
    data[i] = a + b;
}

__global__ void half_pairs(__half2* data, int rounds) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    __half2 a = data[i], scale = __float2half2_rn(0.999f);
    for (int r = 0; r < rounds; ++r) {
        a = __hfma2(a, scale, scale);
    }
    data[i] = a;
}

__global__ void tensor_tiles(const __half* a, const __half* b, float* c, int n) {
    using namespace nvcuda;
    int warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    int tiles = n / 16;
    int row = warp / tiles, col = warp % tiles;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
    wmma::fill_fragment(fc, 0.0f);
    for (int k = 0; k < n; k += 16) {
        wmma::load_matrix_sync(fa, a + row * 16 * n + k, n);
        wmma::load_matrix_sync(fb, b + col * 16 * n + k, n);
        wmma::mma_sync(fc, fa, fb, fc);
    }
    wmma::store_matrix_sync(c + row * 16 * n + col * 16, fc, n, wmma::mem_row_major);
}

__global__ void special_functions(float* data, int rounds) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float a = data[i];
    for (int r = 0; r < rounds; ++r) {
        a = __sinf(a) + __expf(a * 0.01f) + rsqrtf(a * a + 1.0f);
    }
    data[i] = a;
}

__global__ void indexed_stack(float* data, const int* order, int rounds) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float stack[64];
    for (int k = 0; k < 64; ++k) {
        stack[k] = data[i] + k;
    }
    float sum = 0.0f;
    for (int r = 0; r < rounds; ++r) {
        int slot = order[(i + r) & 1023] & 63;
        stack[slot] += sum;
        sum += stack[(slot * 7 + r) & 63];
    }
    data[i] = sum;
}

__global__ void histogram(const int* keys, int* bins, int n) {
    __shared__ int local[64];
    if (threadIdx.x < 64) {
        local[threadIdx.x] = 0;
    }
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        atomicAdd(&local[keys[i] & 63], 1);
        atomicAdd(&bins[keys[i] & 1023], 1);
    }
    __syncthreads();
    if (threadIdx.x < 64) {
        atomicAdd(&bins[threadIdx.x], local[threadIdx.x]);
    }
}

__global__ void strided_shared(float* data, int stride) {
    __shared__ float tile[32 * 33];
    int lane = threadIdx.x & 31;
    tile[threadIdx.x] = data[threadIdx.x];
    __syncthreads();
    float sum = 0.0f;
    for (int k = 0; k < 64; ++k) {
        sum += tile[(lane * stride + k) % 1024];
    }
    if (lane < 7) {
        sum += sqrtf(sum);
    }
    data[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

__global__ void __cluster_dims__(4, 1, 1) cluster_sum(float* data) {
    namespace cg = cooperative_groups;
    extern __shared__ float mine[];
    cg::cluster_group cluster = cg::this_cluster();
    mine[threadIdx.x] = data[blockIdx.x * blockDim.x + threadIdx.x];
    cluster.sync();
    float sum = 0.0f;
    for (unsigned rank = 0; rank < cluster.num_blocks(); ++rank) {
        sum += cluster.map_shared_rank(mine, rank)[threadIdx.x];
    }
    cluster.sync();
    data[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

int main() {
    const int n = 1 << 20;
    void *data = nullptr, *other = nullptr, *keys = nullptr;
    CHECK(cudaMalloc(&data, n * 8));
    CHECK(cudaMalloc(&other, n * 8));
    CHECK(cudaMalloc(&keys, n * 4));
    CHECK(cudaMemset(data, 0x11, n * 8));
    CHECK(cudaMemset(other, 0x11, n * 8));
    int* host = new int[n];
    unsigned state = 12345;
    for (int i = 0; i < n; ++i) {
        state = state * 1664525u + 1013904223u;
        host[i] = static_cast<int>(state >> 12);
    }
    CHECK(cudaMemcpy(keys, host, n * 4, cudaMemcpyHostToDevice));

    fp64_chain<<<512, 256>>>(static_cast<double*>(data), 64);
    half_pairs<<<1024, 256>>>(static_cast<__half2*>(data), 64);
    tensor_tiles<<<256, 256>>>(static_cast<__half*>(data), static_cast<__half*>(other),
                               static_cast<float*>(other), 512);
    special_functions<<<1024, 256>>>(static_cast<float*>(data), 32);
    indexed_stack<<<256, 128>>>(static_cast<float*>(data), static_cast<int*>(keys), 64);
    histogram<<<264, 256>>>(static_cast<int*>(keys), static_cast<int*>(other), n);
    strided_shared<<<512, 1024>>>(static_cast<float*>(data), 32);
    cluster_sum<<<256, 256, 256 * sizeof(float)>>>(static_cast<float*>(data));
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    std::puts("zoo: done");
    delete[] host;
    return 0;
}
