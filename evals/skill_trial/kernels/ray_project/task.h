// ---- fixed: do not edit. The runner builds with its own copy of this file.
// Radiographs of a volume: the light that is left of parallel rays.
#pragma once
#include <cuda_runtime.h>

#include <cstdint>

constexpr int kBrick = 8;  // voxels along each edge of a brick

struct Shape {
    int size;           // voxels along each axis, a multiple of kBrick
    int width, height;  // rays
};

struct Problem {
    const float* density;       // [z][y][x]
    const std::uint8_t* empty;  // [bricks z][y][x]: 1: no sample whose cell starts here sees density
    float* light;               // [height][width]
    int size, width, height;
    float slope_x, slope_y;  // voxels along x and y per voxel along z
    float step;              // between samples, in voxels along z
    float absorption;        // per sample of density one
};

// Before any input exists: scratch memory and attributes of kernels. Not timed.
void prepare(const Shape& shape);
// Everything that computes `light` from the inputs, on `stream`. Timed.
void launch(const Problem& problem, cudaStream_t stream);
