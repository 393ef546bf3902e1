#include "problem.h"

#include <algorithm>
#include <cmath>

#include "../harness/harness.h"

namespace {

// Rows of different mean and spread: some are drawn, the others are these, rotated.
std::vector<half> activations(harness::Random& random, int rows) {
    constexpr int kDrawn = 128;
    std::vector<half> values(size_t{kColumns} * rows);
    for (int r = 0; r < std::min(rows, kDrawn); ++r) {
        const double centre = random.uniform(-1, 1);
        const double spread = random.uniform(0.5, 3);
        for (int c = 0; c < kColumns; ++c) {
            const double value = centre + spread * random.uniform(-1, 1);
            values[size_t{kColumns} * r + c] = __float2half(static_cast<float>(value));
        }
    }
    for (int r = kDrawn; r < rows; ++r) {
        const half* from = &values[size_t{kColumns} * random.below(kDrawn)];
        const size_t turn = random.below(kColumns);
        std::rotate_copy(from, from + turn, from + kColumns, &values[size_t{kColumns} * r]);
    }
    return values;
}

double normalised(const half* row, int column, double scale, double shift) {
    double mean = 0;
    for (int c = 0; c < kColumns; ++c) mean += __half2float(row[c]);
    mean /= kColumns;
    double variance = 0;
    for (int c = 0; c < kColumns; ++c) {
        const double offset = __half2float(row[c]) - mean;
        variance += offset * offset;
    }
    variance /= kColumns;
    return (__half2float(row[column]) - mean) / std::sqrt(variance + kEpsilon) * scale + shift;
}

}  // namespace

int main(int argc, char** argv) {
    harness::Run run(argc, argv);
    const int rows = 24576;
    const size_t size = size_t{kColumns} * rows;
    const std::vector<half> in = activations(run.random(), rows);
    const std::vector<half> scale = run.uniform<half>(kColumns, 0.5, 1.5);
    const std::vector<half> shift = run.uniform<half>(kColumns, 0.5, 1.5);
    const Problem problem{rows,
                          run.input(in),
                          run.input(scale),
                          run.input(shift),
                          run.scratch<float>(rows),
                          run.scratch<float>(rows),
                          run.output<half>(size)};

    run.measure([&] { launch(problem); });

    run.check(run.fetch(problem.out, size), 2048, {2e-3, 2e-3}, [&](size_t i) {
        const size_t c = i % kColumns;
        return normalised(&in[i - c], static_cast<int>(c), __half2float(scale[c]),
                          __half2float(shift[c]));
    });
    return run.finish();
}
