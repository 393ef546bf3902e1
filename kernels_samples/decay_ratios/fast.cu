#include "problem.h"

constexpr int kThreads = 256;
constexpr float kLittle = 0x1p-60f;
constexpr float kRaise = 0x1p80f;

__global__ void decay_ratios(Problem problem) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= problem.n) return;
    float a = problem.a[i];
    float b = problem.b[i];
    float c = problem.c[i];
    // Shares do not depend on the unit of the amounts.
    const float unit = fmaxf(a, fmaxf(b, c)) < kLittle ? kRaise : 1.0f;
    a *= unit;
    b *= unit;
    c *= unit;
    for (int step = 0; step < problem.steps; ++step) {
        const float ab = problem.rate_ab * a * (b / (a + b));
        const float bc = problem.rate_bc * b * (c / (b + c));
        const float ca = problem.rate_ca * c * (a / (c + a));
        a += ca - ab;
        b += ab - bc;
        c += bc - ca;
    }
    const float whole = a + b + c;
    problem.share_a[i] = a / whole;
    problem.share_b[i] = b / whole;
}

void launch(const Problem& problem) {
    decay_ratios<<<(problem.n + kThreads - 1) / kThreads, kThreads>>>(problem);
}
