#include "problem.h"

#include <cmath>

#include "../harness/harness.h"

float4 random_direction(harness::Random& random) {
    const double z = random.uniform(-1, 1);
    const double angle = random.uniform(0, 6.283185307179586);
    const double radius = std::sqrt(1 - z * z);
    return make_float4(static_cast<float>(radius * std::cos(angle)),
                       static_cast<float>(radius * std::sin(angle)), static_cast<float>(z), 0);
}

int main(int argc, char** argv) {
    harness::Run run(argc, argv);
    const int count = 1024, directions = 1024, orders = 1024;
    const float step = 0.015625f;
    std::vector<float4> charge(count), direction(directions);
    for (float4& c : charge) {
        c.x = static_cast<float>(run.random().uniform(-10, 10));
        c.y = static_cast<float>(run.random().uniform(-10, 10));
        c.z = static_cast<float>(run.random().uniform(-10, 10));
        c.w = static_cast<float>(run.random().uniform(0.5, 1.5));
    }
    for (float4& d : direction) d = random_direction(run.random());
    const size_t size = size_t{directions} * orders;
    const Problem problem{count,
                          directions,
                          orders,
                          step,
                          run.input(charge),
                          run.input(direction),
                          run.output<float>(size)};

    run.measure([&] { launch(problem); });

    run.check(run.fetch(problem.intensity, size), 2000, {2e-4, 2e-4}, [&](size_t i) {
        const float4 u = direction[i / orders];
        double real = 0, imaginary = 0;
        for (const float4& c : charge) {
            const double along = double{u.x} * c.x + double{u.y} * c.y + double{u.z} * c.z;
            const double phase = static_cast<double>(i % orders) * step * along;
            real += c.w * std::cos(phase);
            imaginary += c.w * std::sin(phase);
        }
        return (real * real + imaginary * imaginary) / count;
    });
    return run.finish();
}
