// One time step of the wave equation on a grid, of eighth order in space:
// next = 2 * current - previous + courant * laplacian(current), courant being (speed * dt / dx)^2
// and the field beyond the grid's faces the outermost layer repeated. x varies first, z last; nx is
// a multiple of 64 and ny of 16.
#pragma once

struct Grid {
    int nx, ny, nz;
};

struct Problem {
    Grid grid;
    const float* current;
    const float* previous;
    const float* courant;
    float* next;
};

void launch(const Problem& problem);
