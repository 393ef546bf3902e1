#include "problem.h"

#include <array>
#include <cmath>

#include "../harness/harness.h"

namespace {

double value_of(const Arrhenius& k, double temperature) {
    return std::exp2(k.scale + k.power * std::log2(temperature) - k.barrier / temperature);
}

double rate_of(const Reaction& r, const std::array<double, kSpecies>& c, double temperature) {
    const double forward = value_of(r.forward, temperature);
    const double backward = value_of(r.backward, temperature);
    const double net = forward * c[r.in[0]] * c[r.in[1]] - backward * c[r.out[0]] * c[r.out[1]];
    if (r.kind == Kind::plain) return net;
    double density = r.density;
    for (int i = 0; i < 3; ++i) density += r.efficiency[i] * c[r.collider[i]];
    if (r.kind == Kind::third_body) return density * net;
    const double low = density * value_of(r.low, temperature);
    return net * low / (forward + low);
}

double temperature_of(const std::array<double, kSpecies>& c) {
    double temperature = kCold;
    for (int s = 0; s < kSpecies; ++s) temperature += heat_of(s) * c[s];
    return temperature;
}

std::array<double, kSpecies> advanced(std::array<double, kSpecies> c,
                                      const std::vector<Reaction>& mechanism) {
    for (int step = 0; step < kSteps; ++step) {
        const double temperature = temperature_of(c);
        std::array<double, kSpecies> change{};
        for (const Reaction& r : mechanism) {
            const double rate = rate_of(r, c, temperature);
            for (const int s : r.in) change[s] -= rate;
            for (const int s : r.out) change[s] += rate;
        }
        for (int s = 0; s < kSpecies; ++s) c[s] += kTimeStep * change[s];
    }
    return c;
}

}  // namespace

int main(int argc, char** argv) {
    harness::Run run(argc, argv);
    const int cells = 4096;
    const size_t size = size_t{kSpecies} * cells;
    const std::vector<float> start = run.uniform<float>(size, 0.5, 1.5);
    const Problem problem{cells, run.input(start), run.output<float>(size),
                          run.output<float>(cells)};

    run.measure([&] { launch(problem); });

    std::vector<Reaction> mechanism;
    for (int i = 0; i < kReactions; ++i) mechanism.push_back(reaction_at(i));
    const auto end_of = [&](size_t cell) {
        std::array<double, kSpecies> c;
        for (int s = 0; s < kSpecies; ++s) c[s] = start[s * cells + cell];
        return advanced(c, mechanism);
    };
    run.check(run.fetch(problem.end, size), 300, {1e-4},
              [&](size_t i) { return end_of(i % cells)[i / cells]; });
    run.check(run.fetch(problem.temperature, cells), 50, {1e-5},
              [&](size_t i) { return temperature_of(end_of(i)); });
    return run.finish();
}
