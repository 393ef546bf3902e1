// Shares of three nuclides that feed each other in a ring, after a number of steps:
// a -> b -> c -> a, each flow limited by the scarcer of its two ends.
#pragma once

struct Problem {
    int n;
    int steps;
    float rate_ab, rate_bc, rate_ca;  // per step
    const float* a;                   // amounts at the start
    const float* b;
    const float* c;
    float* share_a;  // of the whole, at the end
    float* share_b;
};

void launch(const Problem& problem);
