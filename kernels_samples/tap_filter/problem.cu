#include "problem.h"

#include <cmath>

#include "../harness/harness.h"

namespace {

// A windowed low-pass, as a designer would give it.
std::vector<float> low_pass() {
    std::vector<float> taps(kTaps);
    for (int k = 0; k < kTaps; ++k) {
        const double place = k - 0.5 * (kTaps - 1);
        const double window = 0.54 - 0.46 * std::cos(6.283185307179586 * k / (kTaps - 1));
        taps[k] = static_cast<float>(window * std::sin(0.2 * place) / (3.141592653589793 * place));
    }
    return taps;
}

}  // namespace

int main(int argc, char** argv) {
    harness::Run run(argc, argv);
    const int count = 1 << 24;
    const std::vector<float> taps = low_pass();
    const std::vector<float> in = run.uniform<float>(size_t{count} + kTaps - 1, 0, 2);
    const Problem problem{count, run.input(taps), run.input(in), run.output<float>(count)};

    run.measure([&] { launch(problem); });

    run.check(run.fetch(problem.out, count), 4096, {1e-5, 2e-5}, [&](size_t i) {
        double sum = 0;
        for (int k = 0; k < kTaps; ++k) sum += double{taps[k]} * in[i + k];
        return sum;
    });
    return run.finish();
}
