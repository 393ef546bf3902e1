#include "problem.h"

#include "../harness/harness.h"

int main(int argc, char** argv) {
    harness::Run run(argc, argv);
    const int64_t shape[kAxes] = {20, 24, 28, 36, 96};
    const int axis_of[kAxes] = {2, 0, 3, 1, 4};  // the axis of the input for each of the result
    int64_t step[kAxes];
    int64_t size = 1;
    for (int axis = kAxes - 1; axis >= 0; --axis) {
        step[axis] = size;
        size *= shape[axis];
    }
    const std::vector<float> in = run.uniform<float>(size, 0.5, 1.5);
    Problem problem{size, {}, {}, run.input(in), run.output<float>(size)};
    for (int axis = 0; axis < kAxes; ++axis) {
        problem.extent[axis] = shape[axis_of[axis]];
        problem.stride[axis] = step[axis_of[axis]];
    }

    run.measure([&] { launch(problem); });

    run.check(run.fetch(problem.out, size), 4096, {0, 0}, [&](size_t i) {
        size_t from = 0;
        for (int axis = kAxes - 1; axis >= 0; --axis) {
            from += i % problem.extent[axis] * problem.stride[axis];
            i /= problem.extent[axis];
        }
        return in[from];
    });
    return run.finish();
}
