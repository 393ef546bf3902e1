// What both programs need on the host: arrays of the device, data by a hash, checks of results.
#pragma once
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECKED(call)                                                               \
    do {                                                                            \
        cudaError_t error = (call);                                                 \
        if (error != cudaSuccess) {                                                 \
            std::printf("%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error)); \
            std::exit(2);                                                           \
        }                                                                           \
    } while (0)

static int wrong_results = 0;

// A hash of 32 bits.
static inline unsigned mix(unsigned x) {
    x ^= x >> 16;
    x *= 0x7feb352dU;
    x ^= x >> 15;
    x *= 0x846ca68bU;
    x ^= x >> 16;
    return x;
}

// A float from 0 to below 1 with 12 bits, so that it has no rounding of its own.
static inline float unit(unsigned x) { return (mix(x) >> 20) / 4096.0f; }

template <typename T>
static T* upload(const std::vector<T>& host) {
    T* device = nullptr;
    CHECKED(cudaMalloc((void**)&device, host.size() * sizeof(T)));
    CHECKED(cudaMemcpy(device, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
    return device;
}

template <typename T>
static T* zeros(size_t count) {
    T* device = nullptr;
    CHECKED(cudaMalloc((void**)&device, count * sizeof(T)));
    CHECKED(cudaMemset(device, 0, count * sizeof(T)));
    return device;
}

template <typename T>
static std::vector<T> download(const T* device, size_t count) {
    std::vector<T> host(count);
    CHECKED(cudaGetLastError());
    CHECKED(cudaDeviceSynchronize());
    CHECKED(cudaMemcpy(host.data(), device, count * sizeof(T), cudaMemcpyDeviceToHost));
    return host;
}

static std::vector<float> units(size_t count, unsigned seed) {
    std::vector<float> values(count);
    for (size_t i = 0; i < count; i++) values[i] = unit((unsigned)i + seed);
    return values;
}

static void expect(const char* kernel, double got, double wanted, double tolerance = 0.0) {
    if (std::fabs(got - wanted) <= tolerance * (1.0 + std::fabs(wanted))) return;
    std::printf("%s: got %.9g, wanted %.9g\n", kernel, got, wanted);
    wrong_results++;
}

static int verdict(int kernels) {
    if (wrong_results == 0) std::printf("%d kernels, every checked result is right\n", kernels);
    else std::printf("%d results are wrong\n", wrong_results);
    return wrong_results == 0 ? 0 : 1;
}
