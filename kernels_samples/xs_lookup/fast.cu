#include "problem.h"

#include <cstdint>

constexpr int kThreads = 64;
constexpr int kBins = 16384;  // equal parts of the energy range
constexpr int kBatch = 4;     // nuclides at a time

// What is known of a nuclide at a point of its grid.
struct alignas(32) Record {
    float4 first;   // channels 0 to 3
    float4 second;  // channel 4, the energy, nothing, nothing
};

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

__global__ void pack_records(Problem problem, Record* records) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const int all_points = problem.nuclides * problem.points;
    if (i >= all_points) return;
    const float* sections = problem.sections + i;
    records[i].first = {sections[0], sections[all_points], sections[2 * all_points],
                        sections[3 * all_points]};
    records[i].second = {sections[4 * all_points], problem.energies[i], 0, 0};
}

// Adds a nuclide's cross-sections, interpolated between two points of its grid.
__device__ void add_nuclide(const Record* record, float density, float energy,
                            float (&macroscopic)[kChannels]) {
    const float4 low = record[0].first;
    const float4 high = record[1].first;
    const float2 low_rest = *reinterpret_cast<const float2*>(&record[0].second);
    const float2 high_rest = *reinterpret_cast<const float2*>(&record[1].second);
    const float share = __fdividef(energy - low_rest.y, high_rest.y - low_rest.y);
    macroscopic[0] += density * (low.x + share * (high.x - low.x));
    macroscopic[1] += density * (low.y + share * (high.y - low.y));
    macroscopic[2] += density * (low.z + share * (high.z - low.z));
    macroscopic[3] += density * (low.w + share * (high.w - low.w));
    macroscopic[4] += density * (low_rest.x + share * (high_rest.x - low_rest.x));
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

__device__ void add_batch(const Problem& problem, const uint16_t* bin_points,
                          const Record* records, int first, float energy,
                          float (&macroscopic)[kChannels]) {
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
        add_nuclide(records + nuclide[i] * problem.points + point[i],
                    problem.densities[first + i], energy, macroscopic);
    }
}

__global__ void track(Problem problem, const uint16_t* __restrict__ bin_points,
                      const Record* __restrict__ records) {
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
            add_batch(problem, bin_points, records, i, energy, macroscopic);
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
    const int all_points = problem.nuclides * problem.points;
    Record* records = reinterpret_cast<Record*>(problem.scratch);
    uint16_t* bin_points = reinterpret_cast<uint16_t*>(records + all_points);
    index_grids<<<(all_points + 255) / 256, 256>>>(problem, bin_points);
    pack_records<<<(all_points + 255) / 256, 256>>>(problem, records);
    track<<<(problem.particles + kThreads - 1) / kThreads, kThreads>>>(problem, bin_points,
                                                                       records);
}
