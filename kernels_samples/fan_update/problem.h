// Forward elimination of a dense system, without pivoting. In place: a becomes its upper triangular
// factor with the multipliers below the diagonal, b the right-hand side that goes with it.
#pragma once

struct Problem {
    int n;     // a multiple of 32
    float* a;  // [n][n], row-major
    float* b;  // [n]
};

void launch(const Problem& problem);
