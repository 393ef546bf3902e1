#include "problem.h"

constexpr int kBlock = 256;  // a multiple of kBands, so that a thread keeps its bands
constexpr int kBlocks = 132 * 8;

__device__ void mark(unsigned* flag) {
    __nv_atomic_store_n(flag, 1u, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_DEVICE);
}

__device__ float limited(float value, float limit, unsigned& overload, unsigned bit) {
    if (fabsf(value) > limit) overload |= bit;
    return fminf(fmaxf(value, -limit), limit);
}

// Bit b of the result is set when it is set in any thread of the block.
__device__ unsigned any_of_block(unsigned bits) {
    __shared__ unsigned of_warp[kBlock / 32];
    const unsigned warp_bits = __reduce_or_sync(0xFFFFFFFFu, bits);
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = warp_bits;
    __syncthreads();
    unsigned all = 0;
    for (int warp = 0; warp < kBlock / 32; ++warp) all |= of_warp[warp];
    return all;
}

__global__ void __launch_bounds__(kBlock)
    scale_bands(const float4* __restrict__ in, const float4* __restrict__ gain,
                float4* __restrict__ out, unsigned* overload, int groups, float limit) {
    const int first = blockIdx.x * kBlock + threadIdx.x;
    const int half = first % (kBands / 4);
    const float4 factor = gain[half];
    unsigned seen = 0;
    for (int i = first; i < groups; i += kBlocks * kBlock) {
        const float4 value = in[i];
        out[i] = make_float4(limited(value.x * factor.x, limit, seen, 1u),
                             limited(value.y * factor.y, limit, seen, 2u),
                             limited(value.z * factor.z, limit, seen, 4u),
                             limited(value.w * factor.w, limit, seen, 8u));
    }
    const unsigned all = any_of_block(seen << (4 * half));
    if (threadIdx.x < kBands && (all >> threadIdx.x & 1)) mark(overload + threadIdx.x);
}

void launch(const Problem& problem) {
    cudaMemsetAsync(problem.overload, 0, kBands * sizeof(unsigned));
    scale_bands<<<kBlocks, kBlock>>>(
        reinterpret_cast<const float4*>(problem.in), reinterpret_cast<const float4*>(problem.gain),
        reinterpret_cast<float4*>(problem.out), problem.overload, problem.n / 4, problem.limit);
}
