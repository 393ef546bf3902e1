// Scores of gradient-boosted trees: score[row] = base + rate * sum over trees of the leaf that the row reaches.
// Trees are complete: inner node i has the children 2 i + 1 and 2 i + 2; a row goes right if its value is larger.
#include "../../harness/book.h"

struct Node {
    float threshold;
    int feature;
};

struct Forest {
    int trees, depth;
    const Node* nodes;    // trees x (2^depth - 1)
    const float* leaves;  // trees x 2^depth
};

struct Data {
    int rows, features;
    const float* table;  // rows x features
    Forest forest;
    float* scores;
};

//: shared
constexpr int kRows = 128;
constexpr float kBase = 0.5f;
constexpr float kRate = 0.1f;

inline int row_blocks(const Data& d) { return (d.rows + kRows - 1) / kRows; }

__device__ inline float leaf_of(const Forest& forest, int tree, const float* row) {
    const int inner = (1 << forest.depth) - 1;
    const Node* nodes = forest.nodes + tree * inner;
    int at = 0;
    for (int level = 0; level < forest.depth; ++level) {
        const Node node = nodes[at];
        at = 2 * at + (row[node.feature] > node.threshold ? 2 : 1);
    }
    return forest.leaves[tree * (inner + 1) + at - inner];
}

// Rows first, first + 1, ... into shared memory; the block reads them as one run of words.
__device__ inline void stage_rows(const float* table, float* held, int first, int count, int features,
                                  int stride) {
    const float* source = table + size_t(first) * features;
    for (int i = threadIdx.x; i < count * features; i += blockDim.x) {
        held[i / features * stride + i % features] = source[i];
    }
    __syncthreads();
}

__global__ void score_staged(const float* table, Forest forest, float* scores, int rows, int features,
                             int stride) {
    extern __shared__ float held[];
    const int first = blockIdx.x * kRows, count = min(kRows, rows - first);
    stage_rows(table, held, first, count, features, stride);
    if (threadIdx.x >= count) return;
    const float* row = held + threadIdx.x * stride;
    float sum = 0;
    for (int tree = 0; tree < forest.trees; ++tree) sum += kRate * leaf_of(forest, tree, row);
    scores[first + threadIdx.x] = kBase + sum;
}

template <class Kernel>
size_t allow_shared(Kernel kernel, int rows, int stride) {
    const size_t bytes = size_t(rows) * stride * sizeof(float);
    BOOK_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(bytes)));
    return bytes;
}
//: end

//: variant direct
__global__ void score_direct(const float* table, Forest forest, float* scores, int rows, int features) {
    const int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= rows) return;
    const float* row = table + size_t(index) * features;
    float sum = 0;
    for (int tree = 0; tree < forest.trees; ++tree) sum += kRate * leaf_of(forest, tree, row);
    scores[index] = kBase + sum;
}

void direct(const Data& d) {
    score_direct<<<row_blocks(d), kRows>>>(d.table, d.forest, d.scores, d.rows, d.features);
}
//: end

//: variant staged
void staged(const Data& d) {
    const int stride = d.features;
    const size_t bytes = allow_shared(score_staged, kRows, stride);
    score_staged<<<row_blocks(d), kRows, bytes>>>(d.table, d.forest, d.scores, d.rows, d.features, stride);
}
//: end

//: variant staged_odd
void staged_odd(const Data& d) {
    const int stride = d.features | 1;
    const size_t bytes = allow_shared(score_staged, kRows, stride);
    score_staged<<<row_blocks(d), kRows, bytes>>>(d.table, d.forest, d.scores, d.rows, d.features, stride);
}
//: end

//: variant own_row
__global__ void score_own_row(const float* table, Forest forest, float* scores, int rows, int features,
                              int stride) {
    extern __shared__ float held[];
    const int index = blockIdx.x * kRows + threadIdx.x;
    if (index >= rows) return;
    float* row = held + threadIdx.x * stride;
    for (int f = 0; f < features; ++f) row[f] = table[size_t(index) * features + f];
    float sum = 0;
    for (int tree = 0; tree < forest.trees; ++tree) sum += kRate * leaf_of(forest, tree, row);
    scores[index] = kBase + sum;
}

void own_row(const Data& d) {
    const int stride = d.features | 1;
    const size_t bytes = allow_shared(score_own_row, kRows, stride);
    score_own_row<<<row_blocks(d), kRows, bytes>>>(d.table, d.forest, d.scores, d.rows, d.features, stride);
}
//: end

//: variant exact_rate
constexpr double kExactRate = 0.1;

__global__ void score_exact_rate(const float* table, Forest forest, float* scores, int rows, int features,
                                 int stride) {
    extern __shared__ float held[];
    const int first = blockIdx.x * kRows, count = min(kRows, rows - first);
    stage_rows(table, held, first, count, features, stride);
    if (threadIdx.x >= count) return;
    const float* row = held + threadIdx.x * stride;
    float sum = 0;
    for (int tree = 0; tree < forest.trees; ++tree) sum += kExactRate * leaf_of(forest, tree, row);
    scores[first + threadIdx.x] = kBase + sum;
}

void exact_rate(const Data& d) {
    const int stride = d.features | 1;
    const size_t bytes = allow_shared(score_exact_rate, kRows, stride);
    score_exact_rate<<<row_blocks(d), kRows, bytes>>>(d.table, d.forest, d.scores, d.rows, d.features,
                                                      stride);
}
//: end

//: variant warp_groups
// 32 rows and kGroups warps per block: each warp walks its share of the trees for all 32 rows.
constexpr int kGroups = 4;

__global__ void score_warp_groups(const float* table, Forest forest, float* scores, int rows, int features,
                                  int stride) {
    extern __shared__ float held[];
    __shared__ float partial[kGroups][32];
    const int first = blockIdx.x * 32, count = min(32, rows - first);
    stage_rows(table, held, first, count, features, stride);
    const int lane = threadIdx.x % 32, group = threadIdx.x / 32;
    float sum = 0;
    if (lane < count) {
        const float* row = held + lane * stride;
        for (int tree = group; tree < forest.trees; tree += kGroups) {
            sum += kRate * leaf_of(forest, tree, row);
        }
    }
    partial[group][lane] = sum;
    __syncthreads();
    if (group == 0 && lane < count) {
        for (int g = 1; g < kGroups; ++g) sum += partial[g][lane];
        scores[first + lane] = kBase + sum;
    }
}

void warp_groups(const Data& d) {
    const int stride = d.features | 1;
    const size_t bytes = allow_shared(score_warp_groups, 32, stride);
    score_warp_groups<<<(d.rows + 31) / 32, 32 * kGroups, bytes>>>(d.table, d.forest, d.scores, d.rows,
                                                                   d.features, stride);
}
//: end

//: variant tree_slices
constexpr int kSlices = 16;

__global__ void score_slice(const float* table, Forest forest, float* scores, int rows, int features,
                            int stride) {
    extern __shared__ float held[];
    const int first = blockIdx.x * kRows, count = min(kRows, rows - first);
    stage_rows(table, held, first, count, features, stride);
    if (threadIdx.x >= count) return;
    const float* row = held + threadIdx.x * stride;
    const int begin = blockIdx.y * forest.trees / kSlices, end = (blockIdx.y + 1) * forest.trees / kSlices;
    float sum = 0;
    for (int tree = begin; tree < end; ++tree) sum += kRate * leaf_of(forest, tree, row);
    atomicAdd(&scores[first + threadIdx.x], blockIdx.y == 0 ? kBase + sum : sum);
}

void tree_slices(const Data& d) {
    const int stride = d.features | 1;
    const size_t bytes = allow_shared(score_slice, kRows, stride);
    BOOK_CHECK(cudaMemsetAsync(d.scores, 0, d.rows * sizeof(float)));
    score_slice<<<dim3(row_blocks(d), kSlices), kRows, bytes>>>(d.table, d.forest, d.scores, d.rows,
                                                                d.features, stride);
}
//: end

__global__ void reference_scores(Data d, float* expected) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= d.rows) return;
    const int inner = (1 << d.forest.depth) - 1;
    double total = 0.5;
    for (int t = 0; t < d.forest.trees; ++t) {
        int at = 0;
        while (at < inner) {
            const Node node = d.forest.nodes[size_t(t) * inner + at];
            const bool right = d.table[size_t(row) * d.features + node.feature] > node.threshold;
            at = right ? 2 * at + 2 : 2 * at + 1;
        }
        total += 0.1 * double(d.forest.leaves[size_t(t) * (inner + 1) + at - inner]);
    }
    expected[row] = float(total);
}

Data set_up(book::Problem& p, int rows, int features, int trees, int depth) {
    Data d{rows, features};
    const size_t inner = (size_t{1} << depth) - 1, cells = size_t(rows) * features;
    d.table = p.uniform<float>(cells, -1, 1);
    const uint64_t seed = p.seed();
    d.forest.trees = trees;
    d.forest.depth = depth;
    // Some features are used more often than others, as in trained trees; thresholds are near the middle.
    d.forest.nodes = p.input<Node>(trees * inner, [=] __device__(size_t i) {
        const double u = book::uniform01(seed, 101, i);
        const double t = book::uniform01(seed, 102, i) + book::uniform01(seed, 103, i) - 1;
        return Node{float(0.5 * t), int(features * u * sqrt(u))};
    });
    d.forest.leaves = p.uniform<float>(trees * (inner + 1), -1, 1);
    d.scores = p.output<float>(rows);
    const double visits = double(rows) * trees * depth;
    p.needs({.dram_bytes = 4.0 * cells + 4.0 * rows + trees * (8.0 * inner + 4.0 * (inner + 1)),
             .fp32_flop = double(rows) * trees * 2,
             .int_op = 2 * visits});
    p.check<float>(d.scores, rows, {1e-5, 3e-5}, [=](float* expected) {
        reference_scores<<<(rows + 127) / 128, 128>>>(d, expected);
    });
    return d;
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("clicks", [](book::Problem& p) {
        const auto d = set_up(p, 262144, 32, 160, 6);
        p.variant("direct", [=] { direct(d); });
        p.variant("staged", [=] { staged(d); });
        p.variant("staged_odd", [=] { staged_odd(d); });
    });
    book.problem("sensors", [](book::Problem& p) {
        const auto d = set_up(p, 262144, 24, 600, 6);
        p.variant("staged", [=] { staged(d); });
        p.variant("staged_odd", [=] { staged_odd(d); });
        p.variant("own_row", [=] { own_row(d); });
        p.variant("exact_rate", [=] { exact_rate(d); });
    });
    book.problem("wide", [](book::Problem& p) {
        const auto d = set_up(p, 67584, 200, 200, 6);
        p.variant("staged_odd", [=] { staged_odd(d); });
        p.variant("warp_groups", [=] { warp_groups(d); });
    });
    book.problem("request", [](book::Problem& p) {
        const auto d = set_up(p, 8192, 28, 800, 6);
        p.variant("staged_odd", [=] { staged_odd(d); });
        p.variant("tree_slices", [=] { tree_slices(d); });
    });
    return book.finish();
}
