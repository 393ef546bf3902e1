#include "problem.h"

struct alignas(32) Star {
    float4 place;  // x, y, z, vx
    float4 rest;   // vy, vz, light, trend
};

// Two threads for each star, one for each half of its entry.
__global__ void gather_stars(Catalogue catalogue, float4* __restrict__ halves, int stars) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const int s = i / 2;
    if (s >= stars) return;
    const bool second = i % 2;
    const float* a = second ? catalogue.vy : catalogue.x;
    const float* b = second ? catalogue.vz : catalogue.y;
    const float* c = second ? catalogue.light : catalogue.z;
    const float* d = second ? catalogue.trend : catalogue.vx;
    halves[i] = make_float4(a[s], b[s], c[s], d[s]);
}

__global__ void observe(const Star* __restrict__ stars, const int* __restrict__ star,
                        float* __restrict__ out, int queries, float time) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= queries) return;
    const int s = star[i];
    const float4 place = stars[s].place;
    const float4 rest = stars[s].rest;
    const float x = place.x + time * place.w;
    const float y = place.y + time * rest.x;
    const float z = place.z + time * rest.y;
    const float light = rest.z + time * rest.w;
    out[i] = __fdividef(light, 1 + x * x + y * y + z * z);
}

void launch(const Problem& problem) {
    const int block = 256;
    gather_stars<<<(2 * problem.stars + block - 1) / block, block>>>(
        problem.catalogue, reinterpret_cast<float4*>(problem.scratch), problem.stars);
    observe<<<(problem.queries + block - 1) / block, block>>>(
        reinterpret_cast<const Star*>(problem.scratch), problem.star, problem.out,
        problem.queries, problem.time);
}
