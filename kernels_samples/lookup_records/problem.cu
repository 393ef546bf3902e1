#include "problem.h"

#include "../harness/harness.h"

int main(int argc, char** argv) {
    harness::Run run(argc, argv);
    const int stars = 1 << 22;
    const int queries = 1 << 24;
    const float time = 0.75f;
    std::vector<std::vector<float>> place, motion;
    for (int axis = 0; axis < 3; ++axis) place.push_back(run.uniform<float>(stars, -4, 4));
    for (int axis = 0; axis < 3; ++axis) motion.push_back(run.uniform<float>(stars, -1, 1));
    const std::vector<float> light = run.uniform<float>(stars, 1, 10);
    const std::vector<float> trend = run.uniform<float>(stars, -0.5, 0.5);
    std::vector<int> star(queries);
    for (int& s : star) s = static_cast<int>(run.random().below(stars));

    const Catalogue catalogue{run.input(place[0]),  run.input(place[1]),  run.input(place[2]),
                              run.input(motion[0]), run.input(motion[1]), run.input(motion[2]),
                              run.input(light),     run.input(trend)};
    const int scratch_size = 1 << 25;
    const Problem problem{stars,
                          queries,
                          time,
                          catalogue,
                          run.input(star),
                          run.output<float>(queries),
                          run.scratch<float>(scratch_size),
                          scratch_size};

    run.measure([&] { launch(problem); });

    run.check(run.fetch(problem.out, queries), 5000, {1e-5, 0}, [&](size_t i) {
        const int s = star[i];
        double distance = 1;
        for (int axis = 0; axis < 3; ++axis) {
            const double moved = place[axis][s] + double{time} * motion[axis][s];
            distance += moved * moved;
        }
        return (light[s] + double{time} * trend[s]) / distance;
    });
    return run.finish();
}
