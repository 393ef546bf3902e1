#include "problem.h"

#include "../harness/harness.h"

#include <cmath>

int main(int argc, char** argv) {
    harness::Run run(argc, argv);
    const int queries = 1536;
    const int documents = 3072;
    const int features = 2048;
    const size_t size = size_t{queries} * documents;
    const std::vector<float> q = run.uniform<float>(size_t{features} * queries, 0, 1);
    const std::vector<float> d = run.uniform<float>(size_t{features} * documents, 0, 1);
    const Problem problem{queries,
                          documents,
                          features,
                          run.input(q),
                          run.input(d),
                          run.scratch<float>(queries),
                          run.scratch<float>(documents),
                          run.output<float>(size)};

    run.measure([&] { launch(problem); });

    run.check(run.fetch(problem.scores, size), 2000, {1e-4}, [&](size_t index) {
        const size_t i = index / documents;
        const size_t j = index % documents;
        double dot = 0, of_query = 0, of_document = 0;
        for (size_t f = 0; f < size_t{features}; ++f) {
            const double a = q[f * queries + i];
            const double b = d[f * documents + j];
            dot += a * b;
            of_query += a * a;
            of_document += b * b;
        }
        return dot / std::sqrt(of_query * of_document);
    });
    return run.finish();
}
