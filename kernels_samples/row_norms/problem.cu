#include "problem.h"

#include "../harness/harness.h"

#include <algorithm>
#include <cmath>

namespace {

// The three norms of every row, in double.
std::vector<double> reference(const std::vector<float>& values, int rows, int length) {
    std::vector<double> norms(3 * rows);
    for (int row = 0; row < rows; ++row) {
        double* of_row = &norms[3 * row];
        for (int i = 0; i < length; ++i) {
            const double value = std::fabs(values[size_t{1} * row * length + i]);
            of_row[0] += value;
            of_row[1] += value * value;
            of_row[2] = std::max(of_row[2], value);
        }
    }
    return norms;
}

}  // namespace

int main(int argc, char** argv) {
    harness::Run run(argc, argv);
    const int rows = 12;
    const int length = 4'000'000;
    const std::vector<float> values = run.uniform<float>(size_t{rows} * length, -1, 3);
    const Problem problem{rows, length, run.input(values), run.output<float>(3 * rows)};

    run.measure([&] { launch(problem); });

    const std::vector<double> norms = reference(values, rows, length);
    run.check(run.fetch(problem.norms, 3 * rows), 3 * rows, {1e-4},
              [&](size_t i) { return norms[i]; });
    return run.finish();
}
