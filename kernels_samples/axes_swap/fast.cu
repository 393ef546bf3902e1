#include "problem.h"

constexpr int kThreads = 256;

// n / d = (n m) >> (32 + s) for n < 2^31 and d > 1, where m = ceil(2^(32 + s) / d) and
// 2^s < d <= 2^(s + 1).
struct Divisor {
    uint32_t value;
    uint32_t multiplier;
    uint32_t shift;

    explicit Divisor(int64_t d) : value(static_cast<uint32_t>(d)), multiplier(0), shift(0) {
        while (uint64_t{2} << shift < value) ++shift;
        multiplier = static_cast<uint32_t>(((uint64_t{1} << (32 + shift)) + value - 1) / value);
    }
    __device__ uint32_t quotient(uint32_t n) const { return __umulhi(n, multiplier) >> shift; }
};

// In units of four neighbours along the innermost axis.
struct Layout {
    uint32_t size;
    Divisor extent[kAxes];
    uint32_t stride[kAxes];
};

__global__ void swap_axes(Layout layout, const float4* in, float4* out) {
    const uint32_t i = blockIdx.x * kThreads + threadIdx.x;
    if (i >= layout.size) return;
    uint32_t rest = i;
    uint32_t from = 0;
#pragma unroll
    for (int axis = kAxes - 1; axis > 0; --axis) {
        const uint32_t next = layout.extent[axis].quotient(rest);
        from += (rest - next * layout.extent[axis].value) * layout.stride[axis];
        rest = next;
    }
    out[i] = in[from + rest * layout.stride[0]];
}

void launch(const Problem& problem) {
    const auto quarter = [](int64_t value) { return static_cast<uint32_t>(value / 4); };
    const int64_t* extent = problem.extent;
    const int64_t* stride = problem.stride;
    const Layout layout{
        quarter(problem.size),
        {Divisor(extent[0]), Divisor(extent[1]), Divisor(extent[2]), Divisor(extent[3]),
         Divisor(extent[4] / 4)},
        {quarter(stride[0]), quarter(stride[1]), quarter(stride[2]), quarter(stride[3]), 1}};
    swap_axes<<<(layout.size + kThreads - 1) / kThreads, kThreads>>>(
        layout, reinterpret_cast<const float4*>(problem.in),
        reinterpret_cast<float4*>(problem.out));
}
