// Device functions in a file of their own: after inlining, one instruction stream
// holds lines of two files, which is what source attribution has to get right.
#pragma once

namespace tour {

template <typename T>
__device__ __forceinline__ T fused_scale(T value, T factor) {
    return value * factor + factor;
}

__device__ __noinline__ float slow_root(float value) {
    float guess = value * 0.5f + 0.5f;
    for (int step = 0; step < 4; ++step) {
        guess = 0.5f * (guess + value / guess);
    }
    return guess;
}

}  // namespace tour
