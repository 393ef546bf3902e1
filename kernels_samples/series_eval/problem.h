// Local expansions in the plane: field[s][i] = sum over k of terms[s][k] * z[i]^k, complex.
#pragma once

#include <cuda_runtime.h>

constexpr int kSeries = 4;
constexpr int kDegree = 96;

struct Expansions {
    float2 terms[kSeries][kDegree + 1];
};

struct Problem {
    int points;  // a multiple of 2048
    Expansions expansions;
    const float2* z;
    float2* field;  // kSeries rows of `points`
};

void launch(const Problem& problem);
