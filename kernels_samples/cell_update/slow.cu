#include "problem.h"

// A chain of s + 1 bonds loses one of them at s + 1 times the rate of a single bond, and each gives
// off heat. Runge-Kutta of fourth order over kSteps steps, at a constant temperature.
__device__ float heat_release(const float* fractions, float temperature) {
    const float step = kStep * expf(-kActivation / temperature);
    float state[kSpecies], start[kSpecies], stage[kSpecies];
    float bonds = 0;
#pragma unroll
    for (int s = 0; s < kSpecies; s += 4) {
        const float4 four = *reinterpret_cast<const float4*>(fractions + s);
        state[s] = four.x;
        state[s + 1] = four.y;
        state[s + 2] = four.z;
        state[s + 3] = four.w;
    }
#pragma unroll
    for (int s = 0; s < kSpecies; ++s) bonds += (s + 1) * state[s];
#pragma unroll 1
    for (int n = 0; n < kSteps; ++n) {
#pragma unroll
        for (int s = 0; s < kSpecies; ++s) start[s] = stage[s] = state[s];
#pragma unroll 1
        for (int k = 0; k < 4; ++k) {
            const float weight = step * (k == 0 || k == 3 ? 1.0f / 6 : 1.0f / 3);
            const float ahead = step * (k < 2 ? 0.5f : 1.0f);
#pragma unroll
            for (int s = 0; s < kSpecies; ++s) {
                const float gain = s + 1 < kSpecies ? (s + 2) * stage[s + 1] : 0.0f;
                const float change = gain - (s + 1) * stage[s];
                stage[s] = start[s] + ahead * change;
                state[s] += weight * change;
            }
        }
    }
    float left = 0;
#pragma unroll
    for (int s = 0; s < kSpecies; ++s) left += (s + 1) * state[s];
    return kHeat * (bonds - left);
}

__global__ void cell_update(const int* __restrict__ donor, const float* __restrict__ temperature,
                            const float* __restrict__ composition, float* __restrict__ next,
                            int cells) {
    const int cell = blockIdx.x * blockDim.x + threadIdx.x;
    if (cell >= cells) return;
    const float own = temperature[cell];
    float sum = own;
    float weight = 1;
    float total = 1;
    int at = cell;
    for (int hop = 0; hop < kHops; ++hop) {
        at = donor[at];
        weight *= kReach;
        sum += weight * temperature[at];
        total += weight;
    }
    float mixed = sum / total;
    if (own > kIgnition) {
        mixed += heat_release(composition + cell / kPatch * kSpecies, own);
    }
    next[cell] = mixed;
}

void launch(const Problem& problem) {
    const int block = 128;
    const int grid = (problem.cells + block - 1) / block;
    cell_update<<<grid, block>>>(problem.donor, problem.temperature, problem.composition,
                                 problem.next, problem.cells);
}
