#include "problem.h"

#include "../harness/harness.h"

#include <complex>

namespace {

using Complex = std::complex<double>;

Expansions drawn_expansions(harness::Random& random) {
    Expansions expansions;
    for (auto& series : expansions.terms) {
        for (int k = 0; k <= kDegree; ++k) {
            const double size = 1.0 / (1 + 0.1 * k);
            series[k] = make_float2(static_cast<float>(size * random.uniform(-1, 1)),
                                    static_cast<float>(size * random.uniform(-1, 1)));
        }
        series[0] = make_float2(4, 4);
    }
    return expansions;
}

Complex value(const float2 (&series)[kDegree + 1], float2 z) {
    const Complex at(z.x, z.y);
    Complex sum = 0;
    for (int k = kDegree; k >= 0; --k) sum = sum * at + Complex(series[k].x, series[k].y);
    return sum;
}

}  // namespace

int main(int argc, char** argv) {
    harness::Run run(argc, argv);
    const int points = 33 << 17;
    const Expansions expansions = drawn_expansions(run.random());
    std::vector<float2> z(points);
    for (float2& at : z) {
        at.x = static_cast<float>(run.random().uniform(-0.65, 0.65));
        at.y = static_cast<float>(run.random().uniform(-0.65, 0.65));
    }
    const size_t size = size_t{kSeries} * points;
    const Problem problem{points, expansions, run.input(z), run.output<float2>(size)};

    run.measure([&] { launch(problem); });

    const std::vector<float> parts = run.fetch(reinterpret_cast<const float*>(problem.field),
                                               2 * size);
    run.check(parts, 4000, {1e-4, 1e-4}, [&](size_t i) {
        const Complex sum = value(expansions.terms[i / 2 / points], z[i / 2 % points]);
        return i % 2 ? sum.imag() : sum.real();
    });
    return run.finish();
}
