#include "problem.h"

constexpr int kThreads = 64;

// The last point of an ascending grid at or below the energy; never the last point of all.
__device__ int grid_point(const float* grid, int points, float energy) {
    int low = 0;
    int high = points - 1;
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (grid[middle] <= energy) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

// Adds a nuclide's cross-sections, interpolated between two points of its grid.
__device__ void add_nuclide(const Problem& problem, int nuclide, float density, float energy,
                            float (&macroscopic)[kChannels]) {
    const float* grid = problem.energies + nuclide * problem.points;
    const int point = grid_point(grid, problem.points, energy);
    const float share = __fdividef(energy - grid[point], grid[point + 1] - grid[point]);
#pragma unroll
    for (int channel = 0; channel < kChannels; ++channel) {
        const float* values =
            problem.sections + (channel * problem.nuclides + nuclide) * problem.points + point;
        macroscopic[channel] += density * (values[0] + share * (values[1] - values[0]));
    }
}

__global__ void track(Problem problem) {
    const int particle = blockIdx.x * kThreads + threadIdx.x;
    if (particle >= problem.particles) return;
    float tallies[kChannels] = {};
    float weight = 1;
    float energy = problem.born[particle];
    for (int collision = 0; collision < problem.collisions; ++collision) {
        const int event = collision * problem.particles + particle;
        const int first = problem.materials[event] * kMembers;
        float macroscopic[kChannels] = {};
        for (int i = first; i < first + kMembers; ++i) {
            add_nuclide(problem, problem.members[i], problem.densities[i], energy, macroscopic);
        }
        for (int channel = 0; channel < kChannels; ++channel) {
            tallies[channel] += weight * macroscopic[channel];
        }
        weight *= macroscopic[kScatter] / (macroscopic[kScatter] + macroscopic[kAbsorption]);
        energy *= problem.kept[event];
    }
    for (int channel = 0; channel < kChannels; ++channel) {
        problem.tallies[channel * problem.particles + particle] = tallies[channel];
    }
}

void launch(const Problem& problem) {
    track<<<(problem.particles + kThreads - 1) / kThreads, kThreads>>>(problem);
}
