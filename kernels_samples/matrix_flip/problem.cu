#include "problem.h"

#include "../harness/harness.h"

int main(int argc, char** argv) {
    harness::Run run(argc, argv);
    const int n = 8192;
    const size_t size = size_t{n} * n;
    const std::vector<float> in = run.uniform<float>(size, -1, 1);
    const Problem problem{n, run.input(in), run.output<float>(size)};

    run.measure([&] { launch(problem); });

    run.check(run.fetch(problem.out, size), 4096, {0, 0},
              [&](size_t i) { return in[(i % n) * n + i / n]; });
    return run.finish();
}
