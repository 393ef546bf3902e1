// The referee's kernels, or plain loops where the tests' stand-in for CUDA has none.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#define MUST(call) harness::must_succeed((call), __LINE__)

namespace harness {

void must_succeed(cudaError_t status, int line);

namespace {

constexpr size_t kColdBytes = size_t{256} << 20;  // several times the L2 of any GPU so far

#ifdef __CUDACC__
#define FOR_EACH(i, count)                                                       \
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < (count); \
         i += size_t{gridDim.x} * blockDim.x)
#define KERNEL __global__
#define LAUNCH(kernel, ...)                 \
    do {                                    \
        kernel<<<1024, 256>>>(__VA_ARGS__); \
        MUST(cudaGetLastError());           \
    } while (0)
__device__ void add(unsigned long long* total, unsigned long long value) {
    if (value != 0) atomicAdd(total, value);
}
#else
#define FOR_EACH(i, count) for (size_t i = 0; i < (count); ++i)
#define KERNEL
#define LAUNCH(kernel, ...) kernel(__VA_ARGS__)
void add(unsigned long long* total, unsigned long long value) { *total += value; }
#endif

// Reads, never writes: what it leaves in L2 need not be written back during the timed work.
KERNEL void read_through(const uint4* values, size_t count, unsigned* sink) {
    unsigned total = 0;
    FOR_EACH(i, count) {
        const uint4 value = values[i];
        total += value.x ^ value.y ^ value.z ^ value.w;
    }
    if (total == 123456789u) *sink = total;
}

// From a place that nobody knows, around the end and on: who still copies the result in order is
// overtaken.
KERNEL void copy_from(const unsigned char* from, unsigned char* to, size_t bytes, size_t first) {
    const size_t words = bytes / 16;
    FOR_EACH(k, words) {
        const size_t i = k + first < words ? k + first : k + first - words;
        reinterpret_cast<uint4*>(to)[i] = reinterpret_cast<const uint4*>(from)[i];
    }
    FOR_EACH(k, bytes % 16) to[16 * words + k] = from[16 * words + k];
}

KERNEL void count_unequal(const unsigned char* left, const unsigned char* right, size_t bytes,
                          unsigned long long* total) {
    const size_t words = bytes / 8;
    unsigned long long unequal = 0;
    FOR_EACH(i, words) {
        unequal += reinterpret_cast<const uint64_t*>(left)[i] !=
                   reinterpret_cast<const uint64_t*>(right)[i];
    }
    FOR_EACH(i, bytes % 8) unequal += left[8 * words + i] != right[8 * words + i];
    add(total, unequal);
}

// A sum that depends on every byte and its place; 0 if all are poison.
KERNEL void digest_into(const unsigned char* values, size_t bytes, unsigned long long* total) {
    unsigned long long sum = 0;
    FOR_EACH(i, bytes / 4) {
        const unsigned word = reinterpret_cast<const unsigned*>(values)[i];
        unsigned long long mixed = (word + 1ull) * 0x9E3779B97F4A7C15ull ^ (i * 0xBF58476D1CE4E5B9ull);
        mixed = (mixed ^ (mixed >> 31)) * 0x94D049BB133111EBull;
        sum += word == 0xFFFFFFFFu ? 0 : mixed ^ (mixed >> 29);
    }
    add(total, sum);
}

#ifdef __CUDACC__
__global__ void raise_flag(volatile unsigned* flag, unsigned value) {
    *flag = value;
    __threadfence_system();
}
void raise(unsigned* flag, unsigned value) {
    raise_flag<<<1, 1>>>(flag, value);
    MUST(cudaGetLastError());
}
// Runs from when it says that it has begun until it is released.
__global__ void hold_kernel(volatile unsigned* begun, volatile unsigned* released, unsigned value) {
    *begun = value;
    __threadfence_system();
    while (*released != value) {
    }
}
void hold_gpu(unsigned* begun, unsigned* released, unsigned value) {
    hold_kernel<<<1, 1>>>(begun, released, value);
    MUST(cudaGetLastError());
}
#else
void raise(unsigned* flag, unsigned value) { *flag = value; }
void hold_gpu(unsigned* begun, unsigned*, unsigned value) { *begun = value; }
#endif

void* device_room(size_t bytes) {
    void* room = nullptr;
    MUST(cudaMalloc(&room, bytes < 16 ? 16 : bytes));
    return room;
}

#ifdef __CUDACC__
void cool_l2() {
    static unsigned* cold = nullptr;
    if (!cold) {
        cold = static_cast<unsigned*>(device_room(kColdBytes + 16));
        MUST(cudaMemset(cold, 0, kColdBytes));
    }
    LAUNCH(read_through, reinterpret_cast<const uint4*>(cold), kColdBytes / 16,
           cold + kColdBytes / 4);
}
#else
void cool_l2() {}
#endif

}  // namespace

}  // namespace harness
