#include "problem.h"

#include "../harness/harness.h"

#include <cmath>

int main(int argc, char** argv) {
    harness::Run run(argc, argv);
    const int n = 1 << 25;
    const float limit = 1;
    std::vector<float> gain(kBands);
    for (int band = 0; band < kBands; ++band) {
        gain[band] = static_cast<float>(0.55 + 0.2 * band + run.random().uniform(0, 0.04));
    }
    const std::vector<float> in = run.uniform<float>(n, -1, 1);
    const Problem problem{n, limit, run.input(in), run.input(gain), run.output<float>(n),
                          run.output<unsigned>(kBands)};

    run.measure([&] { launch(problem); });

    std::vector<float> peak(kBands, 0);
    for (int i = 0; i < n; ++i) {
        peak[i % kBands] = std::fmax(peak[i % kBands], std::fabs(in[i] * gain[i % kBands]));
    }
    run.check(run.fetch(problem.out, n), 5000, {1e-6, 1e-7}, [&](size_t i) {
        return std::fmin(std::fmax(in[i] * gain[i % kBands], -limit), limit);
    });
    run.check(run.fetch(problem.overload, kBands), kBands, {0, 0},
              [&](size_t band) { return peak[band] > limit ? 1.0 : 0.0; });
    return run.finish();
}
