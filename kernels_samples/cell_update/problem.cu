#include "problem.h"

#include <cmath>

#include "../harness/harness.h"

namespace {

struct Mesh {
    std::vector<int> donor;
    std::vector<float> temperature;
    std::vector<float> composition;
};

constexpr int kFlames = 64;
constexpr int kFlameCells = 64;

Mesh make_mesh(harness::Run& run, int cells) {
    harness::Random& random = run.random();
    const int patches = cells / kPatch;
    Mesh mesh{std::vector<int>(cells), run.uniform<float>(cells, 300, 900),
              run.uniform<float>(size_t(patches) * kSpecies, 0.005, 0.025)};
    // The flow through a patch comes from one other patch.
    for (int patch = 0; patch < patches; ++patch) {
        const int from = static_cast<int>(random.below(patches));
        const int shift = static_cast<int>(random.below(kPatch));
        for (int i = 0; i < kPatch; ++i) {
            mesh.donor[patch * kPatch + i] = from * kPatch + (i + shift) % kPatch;
        }
    }
    for (int flame = 0; flame < kFlames; ++flame) {
        const int first = static_cast<int>(random.below(cells - kFlameCells));
        for (int i = 0; i < kFlameCells; ++i) {
            mesh.temperature[first + i] = static_cast<float>(random.uniform(1600, 2400));
        }
    }
    return mesh;
}

double bonds(const std::vector<double>& fractions) {
    double total = 0;
    for (int s = 0; s < kSpecies; ++s) total += (s + 1) * fractions[s];
    return total;
}

// The classic Runge-Kutta scheme on the concentrations of the chains.
double heat_release(const Mesh& mesh, int cell) {
    const float* fractions = &mesh.composition[size_t(cell / kPatch) * kSpecies];
    std::vector<double> state(fractions, fractions + kSpecies);
    const double before = bonds(state);
    const double step = kStep * std::exp(-double{kActivation} / mesh.temperature[cell]);
    const double ahead[] = {0, step / 2, step / 2, step};
    const double weight[] = {step / 6, step / 3, step / 3, step / 6};
    for (int n = 0; n < kSteps; ++n) {
        std::vector<double> change(kSpecies), sum = state;
        for (int k = 0; k < 4; ++k) {
            std::vector<double> loss(kSpecies + 1);
            for (int s = 0; s < kSpecies; ++s) {
                loss[s] = (s + 1) * (state[s] + ahead[k] * change[s]);
            }
            for (int s = 0; s < kSpecies; ++s) {
                change[s] = loss[s + 1] - loss[s];
                sum[s] += weight[k] * change[s];
            }
        }
        state = sum;
    }
    return kHeat * (before - bonds(state));
}

double expected(const Mesh& mesh, int cell) {
    double sum = 0, total = 0, weight = 1;
    for (int hop = 0, at = cell; hop <= kHops; ++hop, at = mesh.donor[at]) {
        sum += weight * mesh.temperature[at];
        total += weight;
        weight *= kReach;
    }
    const bool burns = mesh.temperature[cell] > kIgnition;
    return sum / total + (burns ? heat_release(mesh, cell) : 0);
}

}  // namespace

int main(int argc, char** argv) {
    harness::Run run(argc, argv);
    const int cells = 3 << 20;
    const Mesh mesh = make_mesh(run, cells);
    const Problem problem{cells,
                          run.input(mesh.donor),
                          run.input(mesh.temperature),
                          run.input(mesh.composition),
                          run.scratch<int>(size_t{cells} + 1),
                          run.output<float>(cells)};

    run.measure([&] { launch(problem); });

    const std::vector<float> next = run.fetch(problem.next, cells);
    std::vector<float> burning;
    std::vector<int> burning_cells;
    for (int cell = 0; cell < cells; ++cell) {
        if (mesh.temperature[cell] <= kIgnition) continue;
        burning.push_back(next[cell]);
        burning_cells.push_back(cell);
    }
    const harness::Tolerance tolerance{2e-5, 1e-5};
    run.check(next, 4096, tolerance,
              [&](size_t i) { return expected(mesh, static_cast<int>(i)); });
    run.check(burning, 1024, tolerance,
              [&](size_t i) { return expected(mesh, burning_cells[i]); });
    return run.finish();
}
