#include "problem.h"

#include <algorithm>

#include "../harness/harness.h"

namespace {

// A level of its own for each sensor, noise of up to 31 levels about it, and a spike now and then.
std::vector<unsigned char> make_samples(harness::Random& random, int sensors, int frames) {
    std::vector<unsigned char> samples(size_t(frames) * sensors);
    std::vector<unsigned char> base(sensors);
    for (unsigned char& level : base) {
        level = static_cast<unsigned char>(random.below(kLevels - 40));
    }
    uint64_t bits = 0;
    for (size_t i = 0; i < samples.size(); ++i) {
        bits = i % 8 ? bits >> 8 : random.bits();
        const int noise = (bits & 15) + (bits >> 4 & 15);
        const bool spike = (bits & 255) == 77;
        samples[i] = static_cast<unsigned char>(spike ? kLevels - 1 : base[i % sensors] + noise);
    }
    return samples;
}

}  // namespace

int main(int argc, char** argv) {
    harness::Run run(argc, argv);
    const int sensors = 512 * 512;
    const int frames = 256;
    const size_t results = size_t(frames - kWindow + 1) * sensors;
    const std::vector<unsigned char> samples = make_samples(run.random(), sensors, frames);
    const Problem problem{sensors, frames, run.input(samples), run.output<unsigned char>(results)};

    run.measure([&] { launch(problem); });

    run.check(run.fetch(problem.medians, results), 4096, {0, 0}, [&](size_t i) {
        unsigned char window[kWindow];
        for (int t = 0; t < kWindow; ++t) window[t] = samples[i + size_t(t) * sensors];
        std::nth_element(window, window + kWindow / 2, window + kWindow);
        return window[kWindow / 2];
    });
    return run.finish();
}
