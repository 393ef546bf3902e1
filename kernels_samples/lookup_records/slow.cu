#include "problem.h"

__global__ void observe(Catalogue catalogue, const int* __restrict__ star,
                        float* __restrict__ out, int queries, float time) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= queries) return;
    const int s = star[i];
    const float x = catalogue.x[s] + time * catalogue.vx[s];
    const float y = catalogue.y[s] + time * catalogue.vy[s];
    const float z = catalogue.z[s] + time * catalogue.vz[s];
    const float light = catalogue.light[s] + time * catalogue.trend[s];
    out[i] = __fdividef(light, 1 + x * x + y * y + z * z);
}

void launch(const Problem& problem) {
    const int block = 256;
    observe<<<(problem.queries + block - 1) / block, block>>>(
        problem.catalogue, problem.star, problem.out, problem.queries, problem.time);
}
