// Eight chains of small launches, one after the other (streams serial) or on eight streams at the
// same time (streams together): each launch takes longer then, and the program is faster.
#include "check.h"
#include <cstring>

__global__ void scale_part(float *data, int n, int passes) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int pass = 0; pass < passes; pass++)
        for (int at = i; at < n; at += gridDim.x * blockDim.x) data[at] = data[at] * 1.0001f + 0.5f;
}

int main(int argc, char **argv) {
    constexpr int chains = 8, n = 1 << 24, launches = 20;
    bool together = argc > 1 && !strcmp(argv[1], "together");
    float *parts[chains];
    cudaStream_t streams[chains];
    for (int chain = 0; chain < chains; chain++) {
        parts[chain] = filled(n);
        CHECK(cudaStreamCreate(&streams[chain]));
    }
    CHECK(cudaDeviceSynchronize());
    for (int launch = 0; launch < launches; launch++)
        for (int chain = 0; chain < chains; chain++)
            scale_part<<<64, 512, 0, streams[together ? chain : 0]>>>(parts[chain], n, 4);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    printf("streams: %f\n", first_of(parts[0]));
    return 0;
}
