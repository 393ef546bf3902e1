#include "problem.h"

#include "../harness/harness.h"

#include <algorithm>

namespace {

// Nine keys of ten fall off with their rank r as 1 / (r (r + 1)), the others are spread evenly.
std::vector<unsigned> words(harness::Random& random, int n, unsigned bins) {
    const uint64_t turn = random.bits();
    std::vector<unsigned> values(n);
    for (unsigned& value : values) {
        const uint64_t bits = random.bits();
        const double share = 1.0 - static_cast<double>(bits >> 24) * 0x1.0p-40;
        const double rank = std::min(1.0 / share, 1e9);
        const unsigned even = static_cast<unsigned>(random.bits() % bins);
        const bool common = (bits & 0xFFFF) < 58982;
        value = common ? (static_cast<uint64_t>(rank) * 0x9E3779B1ull + turn) % bins : even;
    }
    return values;
}

}  // namespace

int main(int argc, char** argv) {
    harness::Run run(argc, argv);
    const int n = 1 << 24;
    const int bins = 1 << 18;
    const std::vector<unsigned> key = words(run.random(), n, bins);
    const Problem problem{n, bins, run.input(key), run.output<unsigned>(bins)};

    run.measure([&] { launch(problem); });

    std::vector<unsigned> expected(bins, 0);
    for (const unsigned k : key) ++expected[k];
    run.check(run.fetch(problem.count, bins), bins, {0, 0}, [&](size_t k) { return expected[k]; });
    return run.finish();
}
