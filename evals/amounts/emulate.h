// Stands in for CUDA on the host, so that a program can be counted without a GPU (emulated.py).
//
// Threads of a block are fibers that take turns at barriers. g++ -fsanitize=thread puts a call
// before every load and store; the calls are defined in emulate.cpp and count bytes per array.
#pragma once
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <algorithm>
#include <functional>
#include <type_traits>
#include <vector_types.h>
#include <vector_functions.h>
#include <driver_types.h>

#define EMULATED
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __restrict__
#define __shared__ static
#define __launch_bounds__(...)
#define __constant__ static

extern dim3 gridDim, blockDim;
extern uint3 blockIdx, threadIdx;
using std::max;
using std::min;

namespace emu {
void allocated(void* at, size_t bytes);
void freed(void* at);
void begin(const char* kernel);
void argument(const void* at);
void members(const void* at, size_t bytes);
void run(dim3 grid, dim3 block, const std::function<void()>& body);
void barrier();
void wait_turn();
void exchange(void* value, size_t bytes, int from_lane);
int lane();
void atomic(void* at, size_t bytes);
void enter(int line);
bool hit(int line, bool goes_on);
extern bool counting;

template <typename T>
void note(T value) {
    if constexpr (std::is_pointer_v<T>) argument((const void*)value);
    else if constexpr (std::is_class_v<T>) members(&value, sizeof value);
    (void)value;
}
template <typename Kernel, typename... Args>
void launch(const char* name, dim3 grid, dim3 block, Kernel kernel, Args... args) {
    begin(name);
    (note(args), ...);
    run(grid, block, [&] { kernel(args...); });
}
struct Quiet {
    bool before = counting;
    Quiet() { counting = false; }
    ~Quiet() { counting = before; }
};
}  // namespace emu

inline void __syncthreads() { emu::barrier(); }
inline void __threadfence() {}
template <typename T>
T __shfl_down_sync(unsigned, T value, int step) {
    emu::Quiet quiet;
    int from = emu::lane() + step;
    emu::exchange(&value, sizeof value, from < 32 ? from : emu::lane());
    return value;
}
template <typename T>
T __shfl_up_sync(unsigned, T value, int step) {
    emu::Quiet quiet;
    int from = emu::lane() - step;
    emu::exchange(&value, sizeof value, from >= 0 ? from : emu::lane());
    return value;
}
template <typename T>
T __shfl_xor_sync(unsigned, T value, int mask) {
    emu::Quiet quiet;
    emu::exchange(&value, sizeof value, emu::lane() ^ mask);
    return value;
}
template <typename T>
T __shfl_sync(unsigned, T value, int from) {
    emu::Quiet quiet;
    emu::exchange(&value, sizeof value, from % 32);
    return value;
}
inline void __syncwarp(unsigned = ~0u) { emu::wait_turn(); }
template <typename T, typename U>
T atomicAdd(T* at, U more) {
    emu::atomic(at, sizeof(T));
    emu::Quiet quiet;
    T before = *at;
    *at = before + (T)more;
    return before;
}
template <typename T>
T atomicMax(T* at, T other) {
    emu::atomic(at, sizeof(T));
    emu::Quiet quiet;
    T before = *at;
    if (other > before) *at = other;
    return before;
}
inline float rsqrtf(float x) { return 1.0f / __builtin_sqrtf(x); }

inline cudaError_t cudaMalloc(void** at, size_t bytes) {
    *at = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
    emu::allocated(*at, bytes);
    return cudaSuccess;
}
inline cudaError_t cudaFree(void* at) {
    emu::freed(at);
    std::free(at);
    return cudaSuccess;
}
inline cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
    std::memcpy(to, from, bytes);
    return cudaSuccess;
}
inline cudaError_t cudaMemset(void* at, int value, size_t bytes) {
    std::memset(at, value, bytes);
    return cudaSuccess;
}
template <typename T>
cudaError_t cudaMemcpyToSymbol(T& to, const void* from, size_t bytes) {
    std::memcpy((void*)&to, from, bytes);
    return cudaSuccess;
}
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
inline cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
inline const char* cudaGetErrorString(cudaError_t) { return "error"; }
