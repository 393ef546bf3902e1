// Stagnation pressure, specific entropy and viscosity of air from density, energy and Mach number.
#pragma once

struct Problem {
    int n;
    const float* density;  // kg / m^3
    const float* energy;   // J / kg, internal
    const float* mach;
    float* stagnation;  // Pa
    float* entropy;     // J / (kg K), zero at the reference state
    float* viscosity;   // Pa s
};

void launch(const Problem& problem);
