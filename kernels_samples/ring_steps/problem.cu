#include "problem.h"

#include "../harness/harness.h"

namespace {

std::vector<double> run_ring(const std::vector<float>& start, const std::vector<float>& growth,
                             int steps) {
    std::vector<double> now(start.begin(), start.end());
    std::vector<double> next(now.size());
    const size_t cells = now.size();
    for (int step = 0; step < steps; ++step) {
        for (size_t i = 0; i < cells; ++i) {
            const double left = now[i ? i - 1 : cells - 1];
            const double right = now[i + 1 < cells ? i + 1 : 0];
            const double u = now[i];
            next[i] = u + kDiffusion * (left - 2 * u + right) + growth[i] * u * (1 - u);
        }
        now.swap(next);
    }
    return now;
}

}  // namespace

int main(int argc, char** argv) {
    harness::Run run(argc, argv);
    const int cells = 8192;
    const int steps = 300;
    const std::vector<float> start = run.uniform<float>(cells, 0.01, 0.6);
    const std::vector<float> growth = run.uniform<float>(cells, 0.001, 0.01);
    const Problem problem{cells,
                          steps,
                          run.input(start),
                          run.input(growth),
                          run.scratch<float>(cells),
                          run.output<float>(cells)};

    run.measure([&] { launch(problem); });

    const std::vector<double> expected = run_ring(start, growth, steps);
    run.check(run.fetch(problem.out, cells), cells, {1e-4, 1e-6},
              [&](size_t i) { return expected[i]; });
    return run.finish();
}
