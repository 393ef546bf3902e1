#include "problem.h"

#include <algorithm>

#include "../harness/harness.h"

int main(int argc, char** argv) {
    harness::Run run(argc, argv);
    const int rows = 4096, columns = 8192, depth = 2048;
    const auto x = run.uniform<__nv_bfloat16>(size_t{rows} * depth, -0.5, 1);
    const auto weights = run.uniform<__nv_bfloat16>(size_t{columns} * depth, -0.06, 0.06);
    const std::vector<float> bias = run.uniform<float>(columns, 0, 1);
    const size_t size = size_t{rows} * columns;
    const Problem problem{rows, columns, depth, run.input(x), run.input(weights), run.input(bias),
                          run.output<__nv_bfloat16>(size)};

    run.measure([&] { launch(problem); });

    run.check(run.fetch(problem.out, size), 4000, {5e-3, 1e-3}, [&](size_t i) {
        const __nv_bfloat16* row = &x[i / columns * depth];
        const __nv_bfloat16* weight = &weights[i % columns * depth];
        double sum = bias[i % columns];
        for (int k = 0; k < depth; ++k) {
            sum += static_cast<double>(__bfloat162float(row[k])) * __bfloat162float(weight[k]);
        }
        return std::max(sum, 0.0);
    });
    return run.finish();
}
