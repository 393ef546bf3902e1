#include "problem.h"

#include <cstdint>

constexpr int kThreads = 64;
constexpr int kBins = 16384;  // equal parts of the energy range
constexpr int kBatch = 4;     // nuclides at a time

// For each nuclide and bin: the last grid point at or below the bin's lower end.
__global__ void index_grids(Problem problem, uint16_t* bin_points) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= problem.nuclides * problem.points) return;
    const int nuclide = i / problem.points;
    const int point = i % problem.points;
    if (point + 1 == problem.points) return;
    const int begin = static_cast<int>(ceilf(problem.energies[i] * kBins));
    const int end = static_cast<int>(ceilf(problem.energies[i + 1] * kBins));
    for (int bin = begin; bin < end; ++bin) bin_points[nuclide * kBins + bin] = point;
}

// Adds a nuclide's cross-sections, interpolated between two points of its grid.
__device__ void add_nuclide(const Problem& problem, int nuclide, int point, float density,
                            float energy, float (&macroscopic)[kChannels]) {
    const float* grid = problem.energies + nuclide * problem.points;
    const float share = __fdividef(energy - grid[point], grid[point + 1] - grid[point]);
#pragma unroll
    for (int channel = 0; channel < kChannels; ++channel) {
        const float* values =
            problem.sections + (channel * problem.nuclides + nuclide) * problem.points + point;
        macroscopic[channel] += density * (values[0] + share * (values[1] - values[0]));
    }
}

// Moves a nuclide's point on to the last one at or below the energy, given the two that follow.
__device__ int grid_point(const float* grid, int point, float next, float after_next,
                          float energy) {
    if (next <= energy) ++point;
    if (after_next <= energy) {
        ++point;
        while (grid[point + 1] <= energy) ++point;
    }
    return point;
}

__device__ void add_batch(const Problem& problem, const uint16_t* bin_points, int first,
                          float energy, float (&macroscopic)[kChannels]) {
    const int bin = static_cast<int>(energy * kBins);
    int nuclide[kBatch];
    int point[kBatch];
    float next[kBatch];
    float after_next[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
        nuclide[i] = problem.members[first + i];
        point[i] = bin_points[nuclide[i] * kBins + bin];
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
        const float* grid = problem.energies + nuclide[i] * problem.points;
        next[i] = grid[point[i] + 1];
        after_next[i] = grid[min(point[i] + 2, problem.points - 1)];
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
        const float* grid = problem.energies + nuclide[i] * problem.points;
        point[i] = grid_point(grid, point[i], next[i], after_next[i], energy);
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
        add_nuclide(problem, nuclide[i], point[i], problem.densities[first + i], energy,
                    macroscopic);
    }
}

__global__ void track(Problem problem, const uint16_t* __restrict__ bin_points) {
    const int particle = blockIdx.x * kThreads + threadIdx.x;
    if (particle >= problem.particles) return;
    float tallies[kChannels] = {};
    float weight = 1;
    float energy = problem.born[particle];
    for (int collision = 0; collision < problem.collisions; ++collision) {
        const int event = collision * problem.particles + particle;
        const int first = problem.materials[event] * kMembers;
        float macroscopic[kChannels] = {};
        for (int i = first; i < first + kMembers; i += kBatch) {
            add_batch(problem, bin_points, i, energy, macroscopic);
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
    uint16_t* bin_points = reinterpret_cast<uint16_t*>(problem.scratch);
    const int all_points = problem.nuclides * problem.points;
    index_grids<<<(all_points + 255) / 256, 256>>>(problem, bin_points);
    track<<<(problem.particles + kThreads - 1) / kThreads, kThreads>>>(problem, bin_points);
}
