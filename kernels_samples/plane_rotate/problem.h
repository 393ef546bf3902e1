// Takes each matrix of a batch into another basis, A <- Q' A Q, where Q is a product of plane
// rotations: each turns the axes `first` and `second` by an angle.
#pragma once

constexpr int kOrder = 32;      // of a matrix, row-major
constexpr int kRotations = 64;  // one after the other, the same for all matrices

struct alignas(16) Rotation {
    int first;
    int second;
    float cosine;
    float sine;
};

struct Problem {
    int matrices;
    const Rotation* rotations;
    const float* in;
    float* out;
};

void launch(const Problem& problem);
