// Nodal forces and time steps of Lagrangian gas dynamics on a mesh of hexahedra: the pressure,
// viscosity and hourglass resistance of each element act on its eight corners; the forces of all
// corners that meet in a node are summed.
#pragma once

constexpr int kCorners = 8;

constexpr double kGamma = 5.0 / 3.0;           // ratio of specific heats
constexpr double kLinearViscosity = 0.25;      // shock viscosity, linear in the compression
constexpr double kQuadraticViscosity = 1.3;    // and quadratic
constexpr double kShearViscosity = 0.02;
constexpr double kHourglassResistance = 0.03;

struct Problem {
    int elements;
    int nodes;
    const int* corner_node;      // [kCorners][elements]
    const int* node_corner;      // [8][nodes]: element * kCorners + corner, or -1
    const double* position;      // [3][nodes]
    const double* velocity;      // [3][nodes]
    const double* mass;          // [elements]
    const double* energy;        // [elements], per unit of mass
    double* corner_force;        // scratch, room for 3 * kCorners * elements
    double* force;               // [3][nodes]
    double* time_step;           // [elements], the longest that is stable
};

void launch(const Problem& problem);
