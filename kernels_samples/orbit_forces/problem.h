// The pull of all bodies on each body, per unit of mass, with a softened distance:
// pull[i] = sum over j of mass[j] * (r[j] - r[i]) / (|r[j] - r[i]|^2 + kSoftening^2)^(3/2).
//
// Positions are known to about 1e-6 of the system's size; a component of the pull must be right
// to 1e-4 of the magnitude of the pull.
#pragma once

#include <vector_types.h>

constexpr float kSoftening = 0.02f;
constexpr int kShares = 32;  // the sources are summed in this many shares, then joined

struct Problem {
    int count;             // bodies, a multiple of 4096
    const float4* bodies;  // x, y, z, mass
    float* shares;         // scratch, [kShares][3][count]
    float* pull;           // [3][count]
};

void launch(const Problem& problem);
