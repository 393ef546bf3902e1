#include "problem.h"

#include <cuda_runtime.h>

namespace {

volatile float wasted;

void fill(const void* argument) {
    const Problem& p = *static_cast<const Problem*>(argument);
    int positive = 0;
    for (int i = 0; i < p.n; ++i) {
        for (int k = 0; k < 4; ++k) wasted = p.in[i];
        p.out[i] = p.gain * p.in[i] + p.offset[p.place[i]];
        positive += p.in[i] > 0;
    }
    *p.positive = positive;
}

}  // namespace

void launch(const Problem& problem) { cudaFakeLaunch(fill, &problem, sizeof problem, nullptr); }
