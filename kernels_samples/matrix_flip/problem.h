// out[x][y] = in[y][x] for a square matrix, row-major.
#pragma once

struct Problem {
    int n;
    const float* in;
    float* out;
};

void launch(const Problem& problem);
