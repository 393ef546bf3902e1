#include "problem.h"

#include "../harness/harness.h"

#include <numeric>
#include <utility>

namespace {

constexpr int kLists = 32768;
constexpr int kPagesPerList = 64;
constexpr int kPages = kLists * kPagesPerList;

// The places in the pool that the pages were given, in the order of their use.
std::vector<int> shuffled_places(harness::Random& random) {
    std::vector<int> places(kPages);
    std::iota(places.begin(), places.end(), 0);
    for (int i = kPages - 1; i > 0; --i) std::swap(places[i], places[random.below(i + 1)]);
    return places;
}

std::vector<Page> filled_pool(harness::Random& random, const std::vector<int>& places) {
    std::vector<Page> pages(kPages);
    for (Page& page : pages) {
        for (int i = 0; i < kEntries; i += 2) {
            const uint64_t bits = random.bits();
            page.entries[i] = static_cast<float>(bits >> 40) * 0x1.0p-24f;
            if (i + 1 < kEntries) {
                page.entries[i + 1] = static_cast<float>(bits & 0xFFFFFF) * 0x1.0p-24f;
            }
        }
    }
    for (int i = 0; i < kPages; ++i) {
        const bool last = (i + 1) % kPagesPerList == 0;
        pages[places[i]].next = last ? -1 : places[i + 1];
    }
    return pages;
}

}  // namespace

int main(int argc, char** argv) {
    harness::Run run(argc, argv);
    const std::vector<int> places = shuffled_places(run.random());
    const std::vector<Page> pages = filled_pool(run.random(), places);
    std::vector<int> heads(kLists);
    for (int list = 0; list < kLists; ++list) heads[list] = places[list * kPagesPerList];
    const Problem problem{kLists, run.input(heads), run.input(pages), run.output<float>(kLists)};

    run.measure([&] { launch(problem); });

    run.check(run.fetch(problem.sums, kLists), 2000, {1e-5}, [&](size_t list) {
        double sum = 0;
        for (int page = heads[list]; page >= 0; page = pages[page].next) {
            for (float entry : pages[page].entries) sum += entry;
        }
        return sum;
    });
    return run.finish();
}
