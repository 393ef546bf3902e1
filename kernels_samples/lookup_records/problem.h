// How bright each queried star appears at a given time, by its place, motion and light.
#pragma once

// One array for each property; entry s belongs to star s.
struct Catalogue {
    const float* x;
    const float* y;
    const float* z;
    const float* vx;
    const float* vy;
    const float* vz;
    const float* light;
    const float* trend;  // change of light with time
};

struct Problem {
    int stars;
    int queries;
    float time;
    Catalogue catalogue;
    const int* star;  // of each query
    float* out;
    float* scratch;
    int scratch_size;  // in floats
};

void launch(const Problem& problem);
