// y = A x, with the sparse matrix A in CSR form.
#pragma once

struct Problem {
    int rows;
    int nonzeros;
    const int* row_start;  // rows + 1 of them; row r holds the entries row_start[r] and up
    const int* columns;
    const float* values;
    const float* x;
    float* y;
};

void launch(const Problem& problem);
