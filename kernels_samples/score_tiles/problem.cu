#include "problem.h"

#include "../harness/harness.h"

int main(int argc, char** argv) {
    harness::Run run(argc, argv);
    const int query_count = 4096, item_count = 4096, length = 1024;
    const std::vector<float> queries = run.uniform<float>(size_t{query_count} * length, -0.5, 1);
    const std::vector<float> items = run.uniform<float>(size_t{item_count} * length, -0.5, 1);
    const size_t size = size_t{query_count} * item_count;
    const Problem problem{query_count,        item_count,       length,
                          run.input(queries), run.input(items), run.output<float>(size)};

    run.measure([&] { launch(problem); });

    run.check(run.fetch(problem.scores, size), 4000, {1e-4, 1e-3}, [&](size_t i) {
        const float* query = &queries[i / item_count * length];
        const float* item = &items[i % item_count * length];
        double sum = 0;
        for (int k = 0; k < length; ++k) sum += static_cast<double>(query[k]) * item[k];
        return sum;
    });
    return run.finish();
}
