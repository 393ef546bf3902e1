#include "problem.h"

#include "../harness/harness.h"

int main(int argc, char** argv) {
    harness::Run run(argc, argv);
#ifdef SIZES_VARY
    const int n = 20000 + static_cast<int>(run.seed() % 64);
#else
    const int n = 20000;
#endif
    const float gain = static_cast<float>(run.random().uniform(1, 2));
    const std::vector<float> in = run.uniform<float>(n, -1, 1);
    std::vector<int> place(n);
    for (int& p : place) p = static_cast<int>(run.random().below(64));
    float* offset = nullptr;
    CUDA_CHECK(cudaHostAlloc(reinterpret_cast<void**>(&offset), 64 * sizeof(float), 0));
    for (int k = 0; k < 64; ++k) offset[k] = static_cast<float>(run.random().uniform(1, 2));
    const std::vector<float> kept(offset, offset + 64);
    const Problem problem{n, gain, run.input(in), run.input(place), offset,
                          run.scratch<float>(n), run.output<float>(n), run.output<int>(1)};

    run.measure([&] { launch(problem); });

    run.check(run.fetch(problem.out, n), 500, {1e-5, 1e-5},
              [&](size_t i) { return gain * in[i] + kept[place[i]]; });
    int positive = 0;
    for (const float value : in) positive += value > 0;
    run.check(run.fetch(problem.positive, 1), 1, {0, 0}, [&](size_t) { return positive; });
    return run.finish();
}
