// ---- fixed: do not edit. The runner builds with its own copy of this file.
// A fisheye frame to the view of a pinhole camera.
#pragma once
#include <cuda_runtime.h>

#include <cstdint>

struct Lens {
    double fx, fy, cx, cy;  // of the frame, in pixels
    double bend[4];         // angle on the frame: a (1 + b0 a^2 + b1 a^4 + b2 a^6 + b3 a^8)
};

struct View {
    double fx, fy, cx, cy;
    double turn[9];  // rotation from the view to the lens, row by row
};

struct Shape {
    int width, height;              // of the frame
    int view_width, view_height;
};

struct Problem {
    const std::uint8_t* frame;  // [height][width]
    float* picture;             // [view_height][view_width]
    int width, height, view_width, view_height;
    Lens lens;
    View view;
};

// Before any input exists: scratch memory and attributes of kernels. Not timed.
void prepare(const Shape& shape);
// Everything that computes `picture` from the inputs, on `stream`. Timed.
void launch(const Problem& problem, cudaStream_t stream);
