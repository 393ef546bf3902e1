#include "problem.h"

#include "../harness/harness.h"

int main(int argc, char** argv) {
    harness::Run run(argc, argv);
    const int count = 40 << 20;
    const float step = 0.0625f;
    const std::vector<float> field = run.uniform<float>(count, 1, 2);
    const std::vector<float> rate = run.uniform<float>(count, -1, 1);
    const std::vector<float> rate_before = run.uniform<float>(count, -1, 1);
    const Problem problem{count, step, run.input(field), run.input(rate), run.input(rate_before),
                          run.output<float>(count)};

    run.measure([&] { launch(problem); });

    run.check(run.fetch(problem.next, count), 5000, {1e-6, 1e-6}, [&](size_t i) {
        return field[i] + double{step} * (1.5 * rate[i] - 0.5 * rate_before[i]);
    });
    return run.finish();
}
