#include "problem.h"

#include <cmath>

#include "../harness/harness.h"

struct Shares {
    double a, b;
};

Shares expected(const Problem& problem, double a, double b, double c) {
    for (int step = 0; step < problem.steps; ++step) {
        const double ab = problem.rate_ab * a * (b / (a + b));
        const double bc = problem.rate_bc * b * (c / (b + c));
        const double ca = problem.rate_ca * c * (a / (c + a));
        a += ca - ab;
        b += ab - bc;
        c += bc - ca;
    }
    return {a / (a + b + c), b / (a + b + c)};
}

// What is left at a place after `age` lifetimes: most places are young, some are very old.
float remaining(harness::Random& random) {
    const double age = random.uniform() < 0.15 ? random.uniform(87, 88) : random.uniform(0, 30);
    return static_cast<float>(std::exp(-age));
}

int main(int argc, char** argv) {
    harness::Run run(argc, argv);
    const int n = 2000000;
    std::vector<float> a(n), b(n), c(n);
    for (int i = 0; i < n; ++i) {
        const float left = remaining(run.random());
        a[i] = left * static_cast<float>(run.random().uniform(0.3, 1));
        b[i] = left * static_cast<float>(run.random().uniform(0.3, 1));
        c[i] = left * static_cast<float>(run.random().uniform(0.3, 1));
    }
    const Problem problem{n,
                          32,
                          0.05f,
                          0.03f,
                          0.04f,
                          run.input(a),
                          run.input(b),
                          run.input(c),
                          run.output<float>(n),
                          run.output<float>(n)};

    run.measure([&] { launch(problem); });

    run.check(run.fetch(problem.share_a, n), 4096, {1e-4, 1e-6},
              [&](size_t i) { return expected(problem, a[i], b[i], c[i]).a; });
    run.check(run.fetch(problem.share_b, n), 4096, {1e-4, 1e-6},
              [&](size_t i) { return expected(problem, a[i], b[i], c[i]).b; });
    return run.finish();
}
