// *dot = sum over i of left[i] * right[i], added up in float per thread and in double beyond.
#pragma once

struct Problem {
    int count;  // a multiple of 4
    const float* left;
    const float* right;
    double* dot;
};

void launch(const Problem& problem);
