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

// Cells that burn are noted in `burning`; ignite_cells() comes back to them.
__global__ void cell_update(const int* __restrict__ donor, const float* __restrict__ temperature,
                            float* __restrict__ next, int* __restrict__ burning,
                            int* __restrict__ burning_count, int cells) {
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
    next[cell] = sum / total;
    if (own > kIgnition) burning[atomicAdd(burning_count, 1)] = cell;
}

__global__ void ignite_cells(const int* burning, const int* burning_count, const float* temperature,
                             const float* composition, float* next) {
    const int count = *burning_count;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        const int cell = burning[i];
        next[cell] += heat_release(composition + cell / kPatch * kSpecies, temperature[cell]);
    }
}

void launch(const Problem& problem) {
    int* burning = problem.workspace;
    int* burning_count = problem.workspace + problem.cells;
    cudaMemsetAsync(burning_count, 0, sizeof(int));
    const int block = 256;
    const int grid = (problem.cells + block - 1) / block;
    cell_update<<<grid, block>>>(problem.donor, problem.temperature, problem.next, burning,
                                 burning_count, problem.cells);
    ignite_cells<<<256, 32>>>(burning, burning_count, problem.temperature, problem.composition,
                              problem.next);
}
