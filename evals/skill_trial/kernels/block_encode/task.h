// ---- fixed: do not edit. The runner builds with its own copy of this file.
// Transform coding of an 8-bit image in blocks of 8 x 8 pixels.
#pragma once
#include <cuda_runtime.h>

#include <cstdint>

constexpr int kSide = 8;
constexpr int kCells = kSide * kSide;

struct Shape {
    int width, height;  // multiples of 8
};

struct Problem {
    const std::uint8_t* pixels;  // [height][width]
    const float* steps;          // [8][8]: quantiser steps, row by row
    std::int16_t* levels;        // [8 rows of coefficients][blocks][8]
    int width, height;
};

// Before any input exists: scratch memory and attributes of kernels. Not timed.
void prepare(const Shape& shape);
// Everything that computes `levels` from the inputs, on `stream`. Timed.
void launch(const Problem& problem, cudaStream_t stream);
