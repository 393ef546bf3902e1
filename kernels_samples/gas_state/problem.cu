#include "problem.h"

#include <cmath>

#include "../harness/harness.h"

int main(int argc, char** argv) {
    harness::Run run(argc, argv);
    const int n = 8000000;
    const std::vector<float> density = run.uniform<float>(n, 0.2, 4);
    const std::vector<float> energy = run.uniform<float>(n, 1.5e5, 9e5);
    const std::vector<float> mach = run.uniform<float>(n, 0.05, 3);
    const Problem problem{n,
                          run.input(density),
                          run.input(energy),
                          run.input(mach),
                          run.output<float>(n),
                          run.output<float>(n),
                          run.output<float>(n)};

    run.measure([&] { launch(problem); });

    const double gamma = 1.4, heat_capacity = 717.625;
    const auto pressure = [&](size_t i) { return (gamma - 1) * density[i] * energy[i]; };
    run.check(run.fetch(problem.stagnation, n), 2048, {1e-5}, [&](size_t i) {
        const double heating = 1 + (gamma - 1) / 2 * mach[i] * mach[i];
        return pressure(i) * std::pow(heating, gamma / (gamma - 1));
    });
    run.check(run.fetch(problem.entropy, n), 2048, {1e-5, 5e-3}, [&](size_t i) {
        const double adiabat = pressure(i) / 101325 / std::pow(density[i] / 1.225, gamma);
        return heat_capacity * std::log(adiabat);
    });
    run.check(run.fetch(problem.viscosity, n), 2048, {1e-5}, [&](size_t i) {
        const double temperature = energy[i] / heat_capacity;
        return 1.716e-5 * std::pow(temperature / 273.15, 1.5) * (273.15 + 110.4) /
               (temperature + 110.4);
    });
    return run.finish();
}
