// Fisher-KPP on a ring: explicit time steps of a population that diffuses and grows to saturation.
#pragma once

constexpr float kDiffusion = 0.2f;  // of a cell's difference to each neighbour, per step

struct Problem {
    int cells;
    int steps;
    const float* start;   // [cells]
    const float* growth;  // [cells], rate per step
    float* workspace;     // room for cells values
    float* out;           // [cells], after the last step
};

void launch(const Problem& problem);
