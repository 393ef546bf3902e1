#include "problem.h"

#include <cmath>

#include "../harness/harness.h"

namespace {

constexpr int kSide = 96;  // elements along an edge of the block of gas
constexpr int kNodes = kSide + 1;

int node_at(int x, int y, int z) { return (z * kNodes + y) * kNodes + x; }

// Corners 0..3 run around the lower face, 4..7 around the upper one.
constexpr int kOffset[kCorners][3] = {{0, 0, 0}, {1, 0, 0}, {1, 1, 0}, {0, 1, 0},
                                      {0, 0, 1}, {1, 0, 1}, {1, 1, 1}, {0, 1, 1}};

// Corners of each face, so that the normal points outwards.
constexpr int kFaces[6][4] = {{0, 3, 2, 1}, {4, 5, 6, 7}, {0, 1, 5, 4},
                              {3, 7, 6, 2}, {0, 4, 7, 3}, {1, 2, 6, 5}};

constexpr int kModes[4][kCorners] = {{1, 1, -1, -1, -1, -1, 1, 1},
                                     {1, -1, -1, 1, -1, 1, 1, -1},
                                     {1, -1, 1, -1, 1, -1, 1, -1},
                                     {-1, 1, -1, 1, 1, -1, 1, -1}};

struct Element {
    double force[kCorners][3];
    double time_step;
};

// One element, as in the textbook: loops over corners, faces and modes.
Element reference(int e, const std::vector<int>& corner_node, const std::vector<double>& position,
                  const std::vector<double>& velocity, double mass, double energy) {
    const size_t elements = corner_node.size() / kCorners;
    const size_t nodes = position.size() / 3;
    double x[kCorners][3], v[kCorners][3], area[kCorners][3] = {};
    for (int c = 0; c < kCorners; ++c) {
        for (int d = 0; d < 3; ++d) {
            const size_t node = corner_node[c * elements + e];
            x[c][d] = position[d * nodes + node];
            v[c][d] = velocity[d * nodes + node];
        }
    }
    for (const auto& face : kFaces) {
        double one[3], two[3];
        for (int d = 0; d < 3; ++d) {
            one[d] = x[face[2]][d] - x[face[0]][d];
            two[d] = x[face[3]][d] - x[face[1]][d];
        }
        for (int d = 0; d < 3; ++d) {
            const int n = (d + 1) % 3, m = (d + 2) % 3;
            const double share = 0.125 * (one[n] * two[m] - one[m] * two[n]);
            for (const int c : face) area[c][d] += share;
        }
    }
    double volume = 0;
    double gradient[3][3] = {};
    for (int c = 0; c < kCorners; ++c) {
        for (int d = 0; d < 3; ++d) volume += x[c][d] * area[c][d] / 3;
    }
    for (int c = 0; c < kCorners; ++c) {
        for (int n = 0; n < 3; ++n) {
            for (int m = 0; m < 3; ++m) gradient[n][m] += v[c][n] * area[c][m] / volume;
        }
    }
    const double density = mass / volume;
    const double pressure = (kGamma - 1) * density * energy;
    const double sound = std::sqrt(kGamma * pressure / density);
    const double length = std::cbrt(volume);
    const double divergence = gradient[0][0] + gradient[1][1] + gradient[2][2];
    const double squeeze = divergence < 0 ? -divergence * length : 0;
    const double shock =
        density * squeeze * (kLinearViscosity * sound + kQuadraticViscosity * squeeze);
    double stress[3][3];
    for (int n = 0; n < 3; ++n) {
        for (int m = 0; m < 3; ++m) {
            stress[n][m] = kShearViscosity * density * sound * length *
                           (gradient[n][m] + gradient[m][n]);
        }
        stress[n][n] -= pressure + shock;
    }
    Element result;
    result.time_step = length / (sound + 2 * squeeze);
    for (int c = 0; c < kCorners; ++c) {
        for (int n = 0; n < 3; ++n) {
            result.force[c][n] = 0;
            for (int m = 0; m < 3; ++m) result.force[c][n] -= stress[n][m] * area[c][m];
        }
    }
    const double resistance = kHourglassResistance * density * sound * length * length;
    for (const auto& mode : kModes) {
        double lean[3] = {}, shape[kCorners], flow[3] = {};
        for (int d = 0; d < 3; ++d) {
            for (int c = 0; c < kCorners; ++c) lean[d] += mode[c] * x[c][d] / volume;
        }
        for (int c = 0; c < kCorners; ++c) {
            shape[c] = mode[c];
            for (int d = 0; d < 3; ++d) shape[c] -= lean[d] * area[c][d];
            for (int d = 0; d < 3; ++d) flow[d] += shape[c] * v[c][d];
        }
        for (int c = 0; c < kCorners; ++c) {
            for (int d = 0; d < 3; ++d) result.force[c][d] -= resistance * shape[c] * flow[d];
        }
    }
    return result;
}

}  // namespace

int main(int argc, char** argv) {
    harness::Run run(argc, argv);
    const int elements = kSide * kSide * kSide;
    const int nodes = kNodes * kNodes * kNodes;
    std::vector<int> corner_node(size_t{kCorners} * elements);
    std::vector<int> node_corner(size_t{8} * nodes, -1);
    for (int e = 0; e < elements; ++e) {
        const int x = e % kSide, y = e / kSide % kSide, z = e / kSide / kSide;
        for (int c = 0; c < kCorners; ++c) {
            const int node = node_at(x + kOffset[c][0], y + kOffset[c][1], z + kOffset[c][2]);
            corner_node[size_t(c) * elements + e] = node;
            node_corner[size_t(c) * nodes + node] = e * kCorners + c;
        }
    }
    std::vector<double> position(size_t{3} * nodes), velocity(size_t{3} * nodes);
    for (int node = 0; node < nodes; ++node) {
        const int at[3] = {node % kNodes, node / kNodes % kNodes, node / kNodes / kNodes};
        for (int d = 0; d < 3; ++d) {
            position[size_t(d) * nodes + node] = at[d] + run.random().uniform(-0.15, 0.15);
            // The gas is squeezed towards its middle.
            velocity[size_t(d) * nodes + node] =
                0.02 * (0.5 * kSide - at[d]) + run.random().uniform(-0.1, 0.1);
        }
    }
    const std::vector<double> mass = run.uniform<double>(elements, 0.8, 1.2);
    const std::vector<double> energy = run.uniform<double>(elements, 1.0, 3.0);
    const Problem problem{elements,
                          nodes,
                          run.input(corner_node),
                          run.input(node_corner),
                          run.input(position),
                          run.input(velocity),
                          run.input(mass),
                          run.input(energy),
                          run.scratch<double>(size_t{3} * kCorners * elements),
                          run.output<double>(size_t{3} * nodes),
                          run.output<double>(elements)};

    run.measure([&] { launch(problem); });

    const auto element = [&](int e) {
        return reference(e, corner_node, position, velocity, mass[e], energy[e]);
    };
    run.check(run.fetch(problem.force, size_t{3} * nodes), 2000, {1e-9, 1e-9}, [&](size_t i) {
        double sum = 0;
        for (int k = 0; k < 8; ++k) {
            const int code = node_corner[size_t(k) * nodes + i % nodes];
            if (code >= 0) sum += element(code / kCorners).force[code % kCorners][i / nodes];
        }
        return sum;
    });
    run.check(run.fetch(problem.time_step, elements), 2000, {1e-9},
              [&](size_t i) { return element(i).time_step; });
    return run.finish();
}
