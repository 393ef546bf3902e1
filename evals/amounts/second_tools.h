// What the held-out programs need on the host besides host_tools.h: sums of results.
#pragma once
#include <cstring>
#include <type_traits>

#include "host_tools.h"

struct Sum {
    const char* kernel;
    double value;
};
// What the emulation got; emulated.py compares it. A program of another set names its own file.
#ifndef SUMS_FILE
#define SUMS_FILE "second_sums.inc"
#endif
static const Sum SUMS[] = {
#include SUMS_FILE
    {"", 0.0}};

static inline int over(int n, int size) { return (n + size - 1) / size; }
static inline float* floats(size_t count, unsigned seed) { return upload(units(count, seed * 1000003u)); }
static inline double* doubles(size_t count, unsigned seed) {
    auto single = units(count, seed * 1000003u);
    return upload(std::vector<double>(single.begin(), single.end()));
}

// Compares a weighted sum of a result with the emulation's: whole numbers exactly, others nearly.
template <typename T>
static void check(const char* kernel, const T* device, size_t count, bool cancels = false) {
    auto values = download(device, count);
    double sum = 0, size = 0;
    for (size_t i = 0; i < count; i++) {
        double term = (double)values[i] * (1 + mix((unsigned)i) % 7);
        sum += term, size += std::fabs(term);
    }
#ifdef EMULATED
    std::printf("sum {\"%s\", %.17g},\n", kernel, sum);
#else
    (void)size;
    for (const Sum& known : SUMS) {
        if (std::strcmp(known.kernel, kernel) != 0) continue;
        double tolerance = std::is_integral<T>::value ? 1e-13 : 1e-5;
        if (cancels) tolerance *= 1 + size / (1 + std::fabs(known.value));
        expect(kernel, sum, known.value, tolerance);
        return;
    }
    expect(kernel, 0, 1);
#endif
}
