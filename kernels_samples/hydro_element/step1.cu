#include "problem.h"

constexpr int kThreads = 64;

// Corners of each face, so that the normal points outwards.
__constant__ int kFaces[6][4] = {{0, 3, 2, 1}, {4, 5, 6, 7}, {0, 1, 5, 4},
                                 {3, 7, 6, 2}, {0, 4, 7, 3}, {1, 2, 6, 5}};

// The four ways in which a hexahedron can deform without a change of its mean strain.
__device__ constexpr int kModes[4][kCorners] = {
    {1, 1, -1, -1, -1, -1, 1, 1},
    {1, -1, -1, 1, -1, 1, 1, -1},
    {1, -1, 1, -1, 1, -1, 1, -1},
    {-1, 1, -1, 1, 1, -1, 1, -1}};

struct Vector {
    double x, y, z;
};

__device__ Vector operator-(const Vector& a, const Vector& b) {
    return {a.x - b.x, a.y - b.y, a.z - b.z};
}

__device__ void add(Vector& to, double factor, const Vector& what) {
    to.x += factor * what.x;
    to.y += factor * what.y;
    to.z += factor * what.z;
}

__device__ double dot(const Vector& a, const Vector& b) {
    return a.x * b.x + a.y * b.y + a.z * b.z;
}

__device__ Vector cross(const Vector& a, const Vector& b) {
    return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}

__device__ Vector read_vector(const double* values, int nodes, int node) {
    return {values[node], values[nodes + node], values[2 * nodes + node]};
}

struct Gas {
    double density, pressure, sound, length;
};

__device__ Gas state_of_gas(double mass, double energy, double volume) {
    Gas gas;
    gas.density = mass / volume;
    gas.pressure = (kGamma - 1) * gas.density * energy;
    gas.sound = sqrt(kGamma * gas.pressure / gas.density);
    gas.length = cbrt(volume);
    return gas;
}

// A quarter of the area of each face that meets in a corner, as a vector.
__device__ void corner_areas(const Vector (&x)[kCorners], Vector (&area)[kCorners]) {
    for (int f = 0; f < 6; ++f) {
        const int a = kFaces[f][0], b = kFaces[f][1], c = kFaces[f][2], d = kFaces[f][3];
        const Vector twice = cross(x[c] - x[a], x[d] - x[b]);
        add(area[a], 0.125, twice);
        add(area[b], 0.125, twice);
        add(area[c], 0.125, twice);
        add(area[d], 0.125, twice);
    }
}

struct Stress {
    Vector row[3];
};

// Rows of the symmetric stress tensor: pressure, shock viscosity, shear.
__device__ Stress stress_of(const Vector (&gradient)[3], const Gas& gas, double squeeze) {
    const double shock =
        gas.density * squeeze * (kLinearViscosity * gas.sound + kQuadraticViscosity * squeeze);
    const double diagonal = gas.pressure + shock;
    const double shear = kShearViscosity * gas.density * gas.sound * gas.length;
    const double xy = shear * (gradient[0].y + gradient[1].x);
    const double xz = shear * (gradient[0].z + gradient[2].x);
    const double yz = shear * (gradient[1].z + gradient[2].y);
    return {{{2 * shear * gradient[0].x - diagonal, xy, xz},
             {xy, 2 * shear * gradient[1].y - diagonal, yz},
             {xz, yz, 2 * shear * gradient[2].z - diagonal}}};
}

__global__ void element_forces(Problem problem) {
    const int e = blockIdx.x * blockDim.x + threadIdx.x;
    if (e >= problem.elements) return;

    int node[kCorners];
    Vector x[kCorners];
    Vector area[kCorners] = {};
    for (int c = 0; c < kCorners; ++c) {
        node[c] = problem.corner_node[c * problem.elements + e];
        x[c] = read_vector(problem.position, problem.nodes, node[c]);
    }
    corner_areas(x, area);

    double volume = 0;
    for (int c = 0; c < kCorners; ++c) volume += dot(x[c], area[c]);
    volume /= 3;
    const double per_volume = 1 / volume;
    const Gas gas = state_of_gas(problem.mass[e], problem.energy[e], volume);

    // The mean gradient of the velocity; how far shape and motion go along each mode.
    Vector gradient[3] = {};
    Vector lean[4] = {};
    Vector flow[4] = {};
    for (int c = 0; c < kCorners; ++c) {
        const Vector v = read_vector(problem.velocity, problem.nodes, node[c]);
        add(gradient[0], v.x * per_volume, area[c]);
        add(gradient[1], v.y * per_volume, area[c]);
        add(gradient[2], v.z * per_volume, area[c]);
        for (int m = 0; m < 4; ++m) {
            add(lean[m], kModes[m][c], x[c]);
            add(flow[m], kModes[m][c], v);
        }
    }
    const double divergence = gradient[0].x + gradient[1].y + gradient[2].z;
    const double squeeze = divergence < 0 ? -divergence * gas.length : 0;
    problem.time_step[e] = gas.length / (gas.sound + 2 * squeeze);

    // What is left of the flow without the mean strain is resisted; the part of the resistance
    // that follows the corner areas goes into the stress.
    Stress stress = stress_of(gradient, gas, squeeze);
    const double resistance =
        kHourglassResistance * gas.density * gas.sound * gas.length * gas.length;
    for (int m = 0; m < 4; ++m) {
        const Vector strain = {dot(gradient[0], lean[m]), dot(gradient[1], lean[m]),
                               dot(gradient[2], lean[m])};
        flow[m] = flow[m] - strain;
        add(stress.row[0], -resistance * per_volume * flow[m].x, lean[m]);
        add(stress.row[1], -resistance * per_volume * flow[m].y, lean[m]);
        add(stress.row[2], -resistance * per_volume * flow[m].z, lean[m]);
    }
    for (int c = 0; c < kCorners; ++c) {
        Vector force = {-dot(stress.row[0], area[c]), -dot(stress.row[1], area[c]),
                        -dot(stress.row[2], area[c])};
        for (int m = 0; m < 4; ++m) add(force, -resistance * kModes[m][c], flow[m]);
        const int place = 3 * c * problem.elements + e;
        problem.corner_force[place] = force.x;
        problem.corner_force[place + problem.elements] = force.y;
        problem.corner_force[place + 2 * problem.elements] = force.z;
    }
}

__global__ void sum_at_nodes(Problem problem) {
    const int node = blockIdx.x * blockDim.x + threadIdx.x;
    if (node >= problem.nodes) return;
    Vector sum = {};
    for (int k = 0; k < 8; ++k) {
        const int code = problem.node_corner[k * problem.nodes + node];
        if (code < 0) continue;
        const int e = code / kCorners, c = code % kCorners;
        const double* force = problem.corner_force + 3 * c * problem.elements + e;
        add(sum, 1, {force[0], force[problem.elements], force[2 * problem.elements]});
    }
    problem.force[node] = sum.x;
    problem.force[problem.nodes + node] = sum.y;
    problem.force[2 * problem.nodes + node] = sum.z;
}

void launch(const Problem& problem) {
    element_forces<<<(problem.elements + kThreads - 1) / kThreads, kThreads>>>(problem);
    sum_at_nodes<<<(problem.nodes + kThreads - 1) / kThreads, kThreads>>>(problem);
}
