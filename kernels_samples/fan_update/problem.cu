#include "problem.h"

#include <algorithm>

#include "../harness/harness.h"

namespace {

// What an entry of the factors must be, given those above and left of it.
double factor_entry(const std::vector<float>& a, const std::vector<float>& factors, size_t n,
                    size_t row, size_t column) {
    const size_t pivots = std::min(row, column);
    double value = a[row * n + column];
    for (size_t k = 0; k < pivots; ++k) {
        value -= static_cast<double>(factors[row * n + k]) * factors[k * n + column];
    }
    return row > column ? value / factors[column * n + column] : value;
}

}  // namespace

int main(int argc, char** argv) {
    harness::Run run(argc, argv);
    const int n = 2048;
    const size_t size = size_t{n} * n;
    std::vector<float> a = run.uniform<float>(size, 0.5, 1);
    for (size_t i = 0; i < n; ++i) a[i * n + i] += n;
    const std::vector<float> b = run.uniform<float>(n, 1, 2);
    const Problem problem{n, run.state(a), run.state(b)};

    run.measure([&] { launch(problem); });

    const std::vector<float> factors = run.fetch(problem.a, size);
    const std::vector<float> right = run.fetch(problem.b, n);
    run.check(factors, 4096, {2e-4, 1e-8},
              [&](size_t i) { return factor_entry(a, factors, n, i / n, i % n); });
    run.check(right, n, {2e-4, 0}, [&](size_t row) {
        double value = b[row];
        for (size_t k = 0; k < row; ++k) {
            value -= static_cast<double>(factors[row * n + k]) * right[k];
        }
        return value;
    });
    return run.finish();
}
