// A relaxation whose "changed" flags live in managed memory: the kernel writes them, the host reads
// and resets them after each sweep. The pages move twice per sweep, and the kernel waits for them.
// Under ncu's replay they stay on the GPU.
#include "check.h"

__global__ void relax(const float *in, float *out, unsigned char *changed, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= 0 || i >= n - 1) return;
    float next = 0.5f * in[i] + 0.25f * (in[i - 1] + in[i + 1]);
    out[i] = next;
    if (fabsf(next - in[i]) > 1e-3f) changed[i] = 1;
}

int main(int argc, char **argv) {
    int n = 1 << 20, sweeps = argc > 1 ? atoi(argv[1]) : 100;
    float *one = filled(n), *other = filled(n);
    unsigned char *changed = nullptr;
    CHECK(cudaMallocManaged(&changed, n));
    long total = 0;
    for (int sweep = 0; sweep < sweeps; sweep++) {
        for (int i = 0; i < n; i++) changed[i] = 0;
        relax<<<n / 256, 256>>>(one, other, changed, n);
        CHECK(cudaDeviceSynchronize());
        for (int i = 0; i < n; i++) total += changed[i];
        float *swap = one;
        one = other;
        other = swap;
    }
    printf("managed_flags: %ld changes, %f\n", total, first_of(one + n / 2));
    return 0;
}
