#include "problem.h"

constexpr int kSlotBits = 10;
constexpr int kSlots = 1 << kSlotBits;
constexpr int kBlock = kSlots;  // each thread sets up and hands over one slot
constexpr int kBlocks = 132 * 2;
constexpr unsigned kFree = 0xFFFFFFFFu;

// Counts of the keys that found one of their two slots free; any other key is counted in global
// memory.
struct Table {
    unsigned key[kSlots];
    unsigned count[kSlots];
};

// Whether the slot holds this key, which takes the slot if it is free.
__device__ bool owns(Table& table, unsigned slot, unsigned key) {
    unsigned owner = *static_cast<volatile unsigned*>(&table.key[slot]);
    if (owner == kFree) owner = atomicCAS(&table.key[slot], kFree, key);
    return owner == key || owner == kFree;
}

__device__ void add(Table& table, unsigned* count, unsigned key) {
    unsigned slot = (key * 0x9E3779B1u) >> (32 - kSlotBits);
    bool found = owns(table, slot, key);
    if (!found) {
        slot ^= 1;
        found = owns(table, slot, key);
    }
    if (found) {
        atomicAdd(&table.count[slot], 1u);
    } else {
        atomicAdd(&count[key], 1u);
    }
}

__global__ void __launch_bounds__(kBlock, 2)
    count_keys(const uint4* __restrict__ key, unsigned* count, int groups) {
    __shared__ Table table;
    table.key[threadIdx.x] = kFree;
    table.count[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * kBlock + threadIdx.x; i < groups; i += kBlocks * kBlock) {
        const uint4 keys = key[i];
        add(table, count, keys.x);
        add(table, count, keys.y);
        add(table, count, keys.z);
        add(table, count, keys.w);
    }
    __syncthreads();
    const unsigned counted = table.count[threadIdx.x];
    if (counted) atomicAdd(&count[table.key[threadIdx.x]], counted);
}

void launch(const Problem& problem) {
    cudaMemsetAsync(problem.count, 0, problem.bins * sizeof(unsigned));
    count_keys<<<kBlocks, kBlock>>>(reinterpret_cast<const uint4*>(problem.key), problem.count,
                                    problem.n / 4);
}
