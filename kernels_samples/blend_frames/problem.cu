#include "problem.h"

#include "../harness/harness.h"

namespace {

std::vector<unsigned char> noise(harness::Random& random, size_t bytes) {
    std::vector<unsigned char> values(bytes);
    for (size_t i = 0; i < bytes; i += 8) {
        const uint64_t bits = random.bits();
        for (int k = 0; k < 8; ++k) values[i + k] = static_cast<unsigned char>(bits >> (8 * k));
    }
    return values;
}

}  // namespace

int main(int argc, char** argv) {
    harness::Run run(argc, argv);
    const int bytes = 8 * 1920 * 1080 * 4;  // eight RGBA frames
    const int weight = 77;
    const std::vector<unsigned char> first = noise(run.random(), bytes);
    const std::vector<unsigned char> second = noise(run.random(), bytes);
    const Problem problem{bytes, weight, run.input(first), run.input(second),
                          run.output<unsigned char>(bytes)};

    run.measure([&] { launch(problem); });

    run.check(run.fetch(problem.out, bytes), 5000, {0, 0}, [&](size_t i) {
        return (first[i] * (256 - weight) + second[i] * weight + 128) / 256;
    });
    return run.finish();
}
