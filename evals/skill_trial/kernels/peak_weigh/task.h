// ---- fixed: do not edit. The runner builds with its own copy of this file.
// Mass spectra as vectors of length one, ready to be compared.
#pragma once
#include <cuda_runtime.h>

struct Shape {
    int spectra;
    int most_peaks;  // room for all spectra together
};

struct Problem {
    const int* begin;        // [spectra + 1]: where the peaks of a spectrum begin
    const float* mass;       // [peaks]
    const float* intensity;  // [peaks]
    float* weight;           // [peaks]
    int spectra;
    int longest;  // peaks of the largest spectrum
};

// Before any input exists: scratch memory and attributes of kernels. Not timed.
void prepare(const Shape& shape);
// Everything that computes `weight` from the inputs, on `stream`. Timed.
void launch(const Problem& problem, cudaStream_t stream);
