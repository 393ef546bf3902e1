#include "problem.h"

__device__ void mark(unsigned* flag) {
    __nv_atomic_store_n(flag, 1u, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_DEVICE);
}

__device__ float limited(float value, float limit, unsigned* overload) {
    if (fabsf(value) > limit) mark(overload);
    return fminf(fmaxf(value, -limit), limit);
}

__global__ void scale_bands(const float4* __restrict__ in, const float4* __restrict__ gain,
                            float4* __restrict__ out, unsigned* overload, int groups,
                            float limit) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= groups) return;
    const int half = i % (kBands / 4);
    const float4 factor = gain[half];
    const float4 value = in[i];
    unsigned* flags = overload + 4 * half;
    out[i] = make_float4(limited(value.x * factor.x, limit, flags + 0),
                         limited(value.y * factor.y, limit, flags + 1),
                         limited(value.z * factor.z, limit, flags + 2),
                         limited(value.w * factor.w, limit, flags + 3));
}

void launch(const Problem& problem) {
    const int groups = problem.n / 4;
    const int block = 256;
    cudaMemsetAsync(problem.overload, 0, kBands * sizeof(unsigned));
    scale_bands<<<(groups + block - 1) / block, block>>>(
        reinterpret_cast<const float4*>(problem.in), reinterpret_cast<const float4*>(problem.gain),
        reinterpret_cast<float4*>(problem.out), problem.overload, groups, problem.limit);
}
