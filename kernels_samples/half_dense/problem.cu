#include "problem.h"

#include "../harness/harness.h"

int main(int argc, char** argv) {
    harness::Run run(argc, argv);
    const int rows = 4096, columns = 4096, depth = 2048;
    const std::vector<__half> a = run.uniform<__half>(size_t{rows} * depth, -0.5, 1);
    const std::vector<__half> b = run.uniform<__half>(size_t{depth} * columns, -0.5, 1);
    const size_t size = size_t{rows} * columns;
    const Problem problem{rows, columns, depth, run.input(a), run.input(b),
                          run.output<float>(size)};

    run.measure([&] { launch(problem); });

    run.check(run.fetch(problem.c, size), 2000, {1e-4, 1e-2}, [&](size_t i) {
        const __half* row = &a[i / columns * depth];
        const __half* column = &b[i % columns];
        double sum = 0;
        for (int k = 0; k < depth; ++k) {
            sum += static_cast<double>(__half2float(row[k])) *
                   __half2float(column[size_t(k) * columns]);
        }
        return sum;
    });
    return run.finish();
}
