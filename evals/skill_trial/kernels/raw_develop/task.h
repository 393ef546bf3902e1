// ---- fixed: do not edit. The runner builds with its own copy of this file.
// Camera raw samples to linear light: response curve, dark level and gain of each column.
#pragma once
#include <cuda_runtime.h>

#include <cstdint>

constexpr int kCurveBits = 14;
constexpr int kCurve = 1 << kCurveBits;  // segments of the response curve

struct Shape {
    int width, height;
};

struct Problem {
    const std::uint16_t* raw;  // [height][width], all 16 bits may be in use
    const float* curve;        // [kCurve + 1], light at the ends of the segments
    const float* dark;         // [width]
    const float* gain;         // [width]
    float* light;              // [height][width]
    int width, height;
};

// Before any input exists: scratch memory and attributes of kernels. Not timed.
void prepare(const Shape& shape);
// Everything that computes `light` from the inputs, on `stream`. Timed.
void launch(const Problem& problem, cudaStream_t stream);
