// For each row of a row-major matrix: the sum of |v|, the sum of v * v, and the largest |v|.
#pragma once

struct Problem {
    int rows;
    int length;  // values of a row, a multiple of 4
    const float* values;
    float* norms;  // three a row, in the order above
};

void launch(const Problem& problem);
