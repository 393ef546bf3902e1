#include "problem.h"

#include <algorithm>

#include "../harness/harness.h"

int main(int argc, char** argv) {
    harness::Run run(argc, argv);
    const int rows = 4096;
    const int columns = 8192;
    const size_t size = size_t{rows} * columns;
    const std::vector<float> in = run.uniform<float>(size, -1, 1);
    const Problem problem{rows, columns, run.input(in), run.output<float>(size)};

    run.measure([&] { launch(problem); });

    run.check(run.fetch(problem.out, size), 4096, {1e-4, 2e-3}, [&](size_t i) {
        const float* row = &in[i / columns * columns];
        double sum = row[0];
        double peak = sum;
        for (size_t j = 1; j <= i % columns; ++j) {
            sum += row[j];
            peak = std::max(peak, sum);
        }
        return peak - sum;
    });
    return run.finish();
}
