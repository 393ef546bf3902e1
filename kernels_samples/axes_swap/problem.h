// A copy of a 5-D tensor with its axes in another order; the innermost axis stays in its place.
#pragma once

#include <cstdint>

constexpr int kAxes = 5;

struct Problem {
    int64_t size;
    int64_t extent[kAxes];  // of the result, outermost first; the last is a multiple of 4
    int64_t stride[kAxes];  // in the input, for a step along each axis of the result
    const float* in;
    float* out;
};

void launch(const Problem& problem);
