#include "problem.h"

#include "../harness/harness.h"

int main(int argc, char** argv) {
    harness::Run run(argc, argv);
    const int count = 64 << 20;
    const std::vector<float> left = run.uniform<float>(count, 0, 1);
    const std::vector<float> right = run.uniform<float>(count, -0.5, 1.5);
    const Problem problem{count, run.input(left), run.input(right), run.output<double>(1)};

    run.measure([&] { launch(problem); });

    run.check(run.fetch(problem.dot, 1), 1, {1e-5, 0}, [&](size_t) {
        double sum = 0;
        for (int i = 0; i < count; ++i) sum += double{left[i]} * right[i];
        return sum;
    });
    return run.finish();
}
