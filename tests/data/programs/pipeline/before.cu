// A chain of kernels as it was before somebody worked on it; after.cu is the same chain afterwards.
// Their profiles are what `keet diff` is tested with: ./pipeline [elements]
#include <cstdio>
#include <cstdlib>

__global__ void scale(const float *in, float *out, float factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[i] * factor;
}

__global__ void add_bias(const float *in, float *out, float bias, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[i] + bias;
}

__global__ void clamp(const float *in, float *out, float most, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = fminf(in[i], most);
}

// Rows of `width` elements become columns.
template <int TILE>
__global__ void turn(const float *in, float *out, int width, int height) {
    int x = blockIdx.x * TILE + threadIdx.x;
    int y = blockIdx.y * TILE + threadIdx.y;
    if (x < width && y < height) out[x * height + y] = in[y * width + x];
}

__global__ void sum_blocks(const float *in, float *sums, int n) {
    __shared__ float part[256];
    float sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        sum += in[i];
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int step = 128; step > 0; step /= 2) {
        if (threadIdx.x < step) part[threadIdx.x] += part[threadIdx.x + step];
        __syncthreads();
    }
    if (threadIdx.x == 0) sums[blockIdx.x] = part[0];
}

__global__ void relax(const float *in, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i > 0 && i < n - 1) out[i] = 0.25f * in[i - 1] + 0.5f * in[i] + 0.25f * in[i + 1];
}

int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 1 << 22;
    int width = 2048, height = n / width;
    float *a, *b, *sums;
    cudaMalloc(&a, n * sizeof(float));
    cudaMalloc(&b, n * sizeof(float));
    cudaMalloc(&sums, 264 * sizeof(float));
    cudaMemset(a, 1, n * sizeof(float));
    int blocks = (n + 255) / 256;
    scale<<<blocks, 256>>>(a, b, 1.5f, n);
    add_bias<<<blocks, 256>>>(b, a, 0.25f, n);
    clamp<<<blocks, 256>>>(a, b, 6.0f, n);
    turn<16><<<dim3(width / 16, height / 16), dim3(16, 16)>>>(b, a, width, height);
    sum_blocks<<<264, 256>>>(a, sums, n);
    for (int step = 0; step < 3; ++step) relax<<<blocks, 256>>>(step % 2 ? b : a, step % 2 ? a : b, n);
    cudaError_t error = cudaDeviceSynchronize();
    printf("%s\n", cudaGetErrorString(error));
    return error != cudaSuccess;
}
