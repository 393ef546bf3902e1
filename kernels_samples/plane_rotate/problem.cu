#include "problem.h"

#include <cmath>

#include "../harness/harness.h"

namespace {

constexpr int kSize = kOrder * kOrder;

std::vector<Rotation> rotations(harness::Random& random) {
    std::vector<Rotation> all(kRotations);
    for (Rotation& one : all) {
        one.first = static_cast<int>(random.below(kOrder));
        one.second = static_cast<int>((one.first + 1 + random.below(kOrder - 1)) % kOrder);
        const double angle = random.uniform(-0.3, 0.3);
        one.cosine = static_cast<float>(std::cos(angle));
        one.sine = static_cast<float>(std::sin(angle));
    }
    return all;
}

void turn(double& a, double& b, const Rotation& by) {
    const double turned = by.cosine * a - by.sine * b;
    b = by.sine * a + by.cosine * b;
    a = turned;
}

double rotated(const float* matrix, const std::vector<Rotation>& rotations, int place) {
    double cells[kOrder][kOrder];
    for (int i = 0; i < kSize; ++i) cells[i / kOrder][i % kOrder] = matrix[i];
    for (const Rotation& by : rotations) {
        for (int c = 0; c < kOrder; ++c) turn(cells[by.first][c], cells[by.second][c], by);
        for (int r = 0; r < kOrder; ++r) turn(cells[r][by.first], cells[r][by.second], by);
    }
    return cells[place / kOrder][place % kOrder];
}

}  // namespace

int main(int argc, char** argv) {
    harness::Run run(argc, argv);
    const int matrices = 16384;
    const size_t size = size_t{kSize} * matrices;
    const std::vector<Rotation> turns = rotations(run.random());
    const std::vector<float> in = run.uniform<float>(size, 0.5, 1.5);
    const Problem problem{matrices, run.input(turns), run.input(in), run.output<float>(size)};

    run.measure([&] { launch(problem); });

    run.check(run.fetch(problem.out, size), 2048, {1e-5, 1e-4}, [&](size_t i) {
        return rotated(&in[i / kSize * kSize], turns, static_cast<int>(i % kSize));
    });
    return run.finish();
}
