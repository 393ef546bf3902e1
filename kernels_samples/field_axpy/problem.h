// One Adams-Bashforth step: next = field + step * (1.5 * rate - 0.5 * rate_before), elementwise.
#pragma once

struct Problem {
    int count;  // a multiple of 4
    float step;
    const float* field;
    const float* rate;
    const float* rate_before;
    float* next;
};

void launch(const Problem& problem);
