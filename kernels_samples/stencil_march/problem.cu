#include "problem.h"

#include <algorithm>

#include "../harness/harness.h"

int main(int argc, char** argv) {
    harness::Run run(argc, argv);
    const Grid grid{512, 512, 96};
    const size_t size = size_t{512} * 512 * 96;
    const std::vector<float> current = run.uniform<float>(size, 0.5, 1.5);
    const std::vector<float> previous = run.uniform<float>(size, 0.5, 1.5);
    const std::vector<float> courant = run.uniform<float>(size, 0.05, 0.25);
    const Problem problem{grid, run.input(current), run.input(previous), run.input(courant),
                          run.output<float>(size)};

    run.measure([&] { launch(problem); });

    const auto at = [&](int x, int y, int z) -> double {
        x = std::clamp(x, 0, grid.nx - 1);
        y = std::clamp(y, 0, grid.ny - 1);
        z = std::clamp(z, 0, grid.nz - 1);
        return current[(size_t(z) * grid.ny + y) * grid.nx + x];
    };
    run.check(run.fetch(problem.next, size), 20000, {1e-5, 1e-5}, [&](size_t i) {
        const double weights[] = {-205.0 / 72, 8.0 / 5, -1.0 / 5, 8.0 / 315, -1.0 / 560};
        const int x = i % grid.nx, y = i / grid.nx % grid.ny, z = i / grid.nx / grid.ny;
        double laplacian = 3 * weights[0] * at(x, y, z);
        for (int r = 1; r <= 4; ++r) {
            laplacian += weights[r] * (at(x - r, y, z) + at(x + r, y, z) + at(x, y - r, z) +
                                       at(x, y + r, z) + at(x, y, z - r) + at(x, y, z + r));
        }
        return 2.0 * current[i] - previous[i] + courant[i] * laplacian;
    });
    return run.finish();
}
