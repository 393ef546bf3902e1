// A search over levels that grow: the first launches are tiny, the last ones make the time.
#include "check.h"

__global__ void expand(const float *in, float *out, int n, int degree) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = 0;
    unsigned next = i * 2654435761u;
    for (int k = 0; k < degree; k++) {
        next = next * 1664525u + 1013904223u;
        sum += in[next % (unsigned)n];
    }
    out[i] = sum / degree;
}

int main() {
    int n = 1 << 24;
    float *one = filled(n), *other = filled(n);
    for (int round = 0; round < 4; round++)
        for (int level = 8; level <= 24; level++) {
            int size = 1 << level;
            expand<<<(size + 255) / 256, 256>>>(one, other, size, 16);
            CHECK(cudaGetLastError());
            float *swap = one;
            one = other;
            other = swap;
        }
    CHECK(cudaDeviceSynchronize());
    printf("growing: %f\n", first_of(one));
    return 0;
}
