#include "problem.h"

#include "../harness/harness.h"

#include <cmath>

namespace {

constexpr int kRows = 262144;
constexpr int kColumns = 65536;
constexpr int kHubs = 96;            // rows whose lengths fall off as a power of their rank
constexpr double kLongest = 600000;  // entries of the first of them

// A graph's rows: most have a few tens of entries, a few have very many.
std::vector<int> row_starts(harness::Random& random) {
    std::vector<int> lengths(kRows);
    for (int& length : lengths) length = 16 + static_cast<int>(random.below(49));
    for (int rank = 1; rank <= kHubs; ++rank) {
        lengths[random.below(kRows)] = static_cast<int>(kLongest / std::pow(rank, 0.8));
    }
    std::vector<int> starts(kRows + 1);
    for (int row = 0; row < kRows; ++row) starts[row + 1] = starts[row] + lengths[row];
    return starts;
}

struct Entries {
    std::vector<int> columns;
    std::vector<float> values;
};

Entries random_entries(harness::Random& random, int count) {
    Entries entries{std::vector<int>(count), std::vector<float>(count)};
    for (int k = 0; k < count; ++k) {
        const uint64_t bits = random.bits();
        entries.columns[k] = static_cast<int>((bits & 0xFFFFFFFF) % kColumns);
        entries.values[k] = 0.25f + static_cast<float>(bits >> 40) * 0x1.0p-24f;
    }
    return entries;
}

}  // namespace

int main(int argc, char** argv) {
    harness::Run run(argc, argv);
    const std::vector<int> starts = row_starts(run.random());
    const int nonzeros = starts[kRows];
    const Entries entries = random_entries(run.random(), nonzeros);
    const std::vector<float> x = run.uniform<float>(kColumns, 0, 1);
    const Problem problem{kRows,
                          nonzeros,
                          run.input(starts),
                          run.input(entries.columns),
                          run.input(entries.values),
                          run.input(x),
                          run.output<float>(kRows)};

    run.measure([&] { launch(problem); });

    const auto expected = [&](size_t row) {
        double sum = 0;
        for (int k = starts[row]; k < starts[row + 1]; ++k) {
            sum += static_cast<double>(entries.values[k]) * x[entries.columns[k]];
        }
        return sum;
    };
    const std::vector<float> y = run.fetch(problem.y, kRows);
    run.check(y, 4000, {1e-4, 1e-5}, expected);
    // The long rows, which a random choice would miss.
    std::vector<size_t> hubs;
    std::vector<float> of_hubs;
    for (int row = 0; row < kRows; ++row) {
        if (starts[row + 1] - starts[row] < 1000) continue;
        hubs.push_back(row);
        of_hubs.push_back(y[row]);
    }
    run.check(of_hubs, of_hubs.size(), {1e-4}, [&](size_t i) { return expected(hubs[i]); });
    return run.finish();
}
