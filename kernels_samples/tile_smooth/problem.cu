#include "problem.h"

#include "../harness/harness.h"

#include <cmath>

namespace {

// A Gaussian that is wider along one diagonal, with a little noise on it, adding up to 1.
Spread drawn_spread(harness::Random& random) {
    Spread spread;
    double total = 0;
    for (int dy = 0; dy < kTaps; ++dy) {
        for (int dx = 0; dx < kTaps; ++dx) {
            const double u = (dx - kRadius) + (dy - kRadius), v = (dx - kRadius) - (dy - kRadius);
            const double weight = std::exp(-u * u / 16 - v * v / 36) * random.uniform(0.9, 1.1);
            spread.weights[dy][dx] = static_cast<float>(weight);
            total += weight;
        }
    }
    for (auto& row : spread.weights) {
        for (float& weight : row) weight /= static_cast<float>(total);
    }
    return spread;
}

}  // namespace

int main(int argc, char** argv) {
    harness::Run run(argc, argv);
    const Spread spread = drawn_spread(run.random());
    const std::vector<float> image = run.uniform<float>(size_t{kRows} * kPitch, 0, 1);
    const size_t size = size_t{kSize} * kSize;
    const Problem problem{spread, run.input(image), run.output<float>(size)};

    run.measure([&] { launch(problem); });

    run.check(run.fetch(problem.smooth, size), 5000, {1e-5, 1e-6}, [&](size_t i) {
        const size_t y = i / kSize, x = i % kSize;
        double sum = 0;
        for (int dy = 0; dy < kTaps; ++dy) {
            for (int dx = 0; dx < kTaps; ++dx) {
                sum += double{spread.weights[dy][dx]} * image[(y + dy) * kPitch + x + dx];
            }
        }
        return sum;
    });
    return run.finish();
}
