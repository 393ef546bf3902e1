#include "problem.h"

#include <cmath>

#include "../harness/harness.h"

int main(int argc, char** argv) {
    harness::Run run(argc, argv);
    const int count = 32768;
    // A planet at the origin and a cloud of debris beside it, a tenth of its mass.
    std::vector<float4> bodies(count);
    bodies[0] = {0, 0, 0, 10};
    for (int i = 1; i < count; ++i) {
        bodies[i].x = static_cast<float>(run.random().uniform(1.0, 2.0));
        bodies[i].y = static_cast<float>(run.random().uniform(1.0, 2.0));
        bodies[i].z = static_cast<float>(run.random().uniform(1.0, 2.0));
        bodies[i].w = static_cast<float>(run.random().uniform(0.5, 1.5) / count);
    }
    const size_t size = size_t{3} * count;
    const Problem problem{count, run.input(bodies), run.scratch<float>(kShares * size),
                          run.output<float>(size)};

    run.measure([&] { launch(problem); });

    // The pull is 1 to 3 in magnitude, 0.15 on the planet.
    run.check(run.fetch(problem.pull, size), 1000, {1e-4, 2e-5}, [&](size_t index) {
        const float4 at = bodies[index % count];
        double sum = 0;
        for (const float4& body : bodies) {
            const double to[3] = {double{body.x} - at.x, double{body.y} - at.y,
                                  double{body.z} - at.z};
            const double square = to[0] * to[0] + to[1] * to[1] + to[2] * to[2] +
                                  double{kSoftening} * kSoftening;
            sum += body.w * to[index / count] / (square * std::sqrt(square));
        }
        return sum;
    });
    return run.finish();
}
