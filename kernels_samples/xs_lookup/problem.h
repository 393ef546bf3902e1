// Neutron histories with implicit capture: at each collision the macroscopic cross-sections of the
// material are looked up at the particle's energy and added, times its weight, to its tallies.
#pragma once

#include <cuda_runtime.h>

constexpr int kChannels = 5;
constexpr int kScatter = 1;
constexpr int kAbsorption = 2;
constexpr int kMembers = 32;  // nuclides of a material

struct Problem {
    int particles;
    int collisions;
    int nuclides;
    int points;              // of the energy grid of a nuclide, 2 to 65536
    const float* energies;   // [nuclide][point], ascending from 0 to 1
    const float* sections;   // [channel][nuclide][point]
    const int* members;      // [material][member]: a nuclide
    const float* densities;  // [material][member]
    const float* born;       // [particle]: its first energy, below 1
    const int* materials;    // [collision][particle]: where it happens
    const float* kept;       // [collision][particle]: share of the energy left after it
    float4* scratch;         // three for each point of each nuclide
    float* tallies;          // [channel][particle]
};

void launch(const Problem& problem);
