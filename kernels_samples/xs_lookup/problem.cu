#include "problem.h"

#include "../harness/harness.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace {

constexpr int kParticles = 16384;
constexpr int kCollisions = 16;
constexpr int kNuclides = 64;
constexpr int kPoints = 8192;
constexpr int kMaterials = 12;

std::vector<float> energy_grids(harness::Run& run) {
    std::vector<float> energies = run.uniform<float>(kNuclides * kPoints, 0, 1);
    for (auto grid = energies.begin(); grid != energies.end(); grid += kPoints) {
        grid[0] = 0;
        grid[1] = 1;
        std::sort(grid, grid + kPoints);
    }
    return energies;
}

// Each material is made of different nuclides.
std::vector<int> material_members(harness::Random& random) {
    std::vector<int> members;
    std::vector<int> nuclides(kNuclides);
    std::iota(nuclides.begin(), nuclides.end(), 0);
    for (int material = 0; material < kMaterials; ++material) {
        for (int i = kNuclides - 1; i > 0; --i) {
            std::swap(nuclides[i], nuclides[random.below(i + 1)]);
        }
        members.insert(members.end(), nuclides.begin(), nuclides.begin() + kMembers);
    }
    return members;
}

struct Inputs {
    std::vector<float> energies, sections, densities, born, kept;
    std::vector<int> members, materials;
};

Inputs random_inputs(harness::Run& run) {
    Inputs in;
    in.energies = energy_grids(run);
    in.sections = run.uniform<float>(kChannels * kNuclides * kPoints, 0.5, 2);
    for (int i = 0; i < kNuclides * kPoints; ++i) {
        in.sections[kAbsorption * kNuclides * kPoints + i] *= 0.2f;
    }
    in.members = material_members(run.random());
    in.densities = run.uniform<float>(kMaterials * kMembers, 0.1, 1);
    in.born = run.uniform<float>(kParticles, 0.2, 0.999);
    in.kept = run.uniform<float>(kCollisions * kParticles, 0.9, 1);
    in.materials.resize(kCollisions * kParticles);
    for (int& material : in.materials) {
        material = static_cast<int>(run.random().below(kMaterials));
    }
    return in;
}

// One channel of a material's macroscopic cross-section.
double macroscopic(const Inputs& in, int material, int channel, float energy) {
    double sum = 0;
    for (int member = 0; member < kMembers; ++member) {
        const int nuclide = in.members[material * kMembers + member];
        const float* grid = &in.energies[nuclide * kPoints];
        const float* values = &in.sections[(channel * kNuclides + nuclide) * kPoints];
        const auto point = std::upper_bound(grid, grid + kPoints, energy) - grid - 1;
        const double share = (static_cast<double>(energy) - grid[point]) /
                             (static_cast<double>(grid[point + 1]) - grid[point]);
        const double value = values[point] + share * (values[point + 1] - values[point]);
        sum += in.densities[material * kMembers + member] * value;
    }
    return sum;
}

double tally(const Inputs& in, int channel, int particle) {
    double sum = 0;
    double weight = 1;
    float energy = in.born[particle];
    for (int collision = 0; collision < kCollisions; ++collision) {
        const int event = collision * kParticles + particle;
        const int material = in.materials[event];
        const double scatter = macroscopic(in, material, kScatter, energy);
        const double absorption = macroscopic(in, material, kAbsorption, energy);
        sum += weight * macroscopic(in, material, channel, energy);
        weight *= scatter / (scatter + absorption);
        energy *= in.kept[event];
    }
    return sum;
}

}  // namespace

int main(int argc, char** argv) {
    harness::Run run(argc, argv);
    const Inputs in = random_inputs(run);
    const size_t size = kChannels * kParticles;
    const Problem problem{kParticles,
                          kCollisions,
                          kNuclides,
                          kPoints,
                          run.input(in.energies),
                          run.input(in.sections),
                          run.input(in.members),
                          run.input(in.densities),
                          run.input(in.born),
                          run.input(in.materials),
                          run.input(in.kept),
                          run.scratch<float4>(3 * kNuclides * kPoints),
                          run.output<float>(size)};

    run.measure([&] { launch(problem); });

    run.check(run.fetch(problem.tallies, size), 1000, {1e-4}, [&](size_t i) {
        return tally(in, static_cast<int>(i) / kParticles, static_cast<int>(i) % kParticles);
    });
    return run.finish();
}
