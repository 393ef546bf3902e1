// American puts by binomial trees (Cox, Ross, Rubinstein): from the leaves back to the root, level by level.
#include "../../harness/book.h"

struct Quotes {
    int count;
    const float *spot, *strike, *years, *rate, *volatility;
    float* result;
};

//: shared
// Node i of a level has the spot price spot * up^(2i - level).
struct Tree {
    float spot, strike, up, log2_up, weight_up, weight_down;
};

__device__ inline Tree tree_of(const Quotes& q, int option, int steps) {
    const float dt = q.years[option] / steps;
    const float log_up = q.volatility[option] * sqrtf(dt);
    const float up = expf(log_up), down = expf(-log_up);
    const float growth = expf(q.rate[option] * dt), discount = expf(-q.rate[option] * dt);
    const float p = (growth - down) / (up - down);
    return {q.spot[option], q.strike[option], up, log_up * 1.44269504f, p * discount, (1 - p) * discount};
}

// Spot prices of a thread's nodes, moved from level to level.
template <int Steps, int Nodes>
struct SpotStepped {
    struct Shared {};
    float up, spot, ratio[Nodes];
    __device__ SpotStepped(const Tree& tree, int first, Shared&) : up(tree.up) {
        spot = tree.spot * exp2f(tree.log2_up * (2 * first - Steps));
        for (int j = 0; j < Nodes; ++j) ratio[j] = exp2f(tree.log2_up * (2 * j));
    }
    __device__ void move_to(int) { spot *= up; }
    __device__ float at(int j) const { return spot * ratio[j]; }
};

// One block per option; each thread holds `Nodes` neighbouring nodes. The first node of each thread
// goes to its left neighbour through shared memory.
template <int Steps, int Nodes, class Spot>
__global__ void price_nodes(Quotes q) {
    constexpr int kThreads = (Steps + 1) / Nodes;
    __shared__ float edge[2][kThreads + 1];
    __shared__ typename Spot::Shared scratch;
    const int first = threadIdx.x * Nodes;
    const Tree tree = tree_of(q, blockIdx.x, Steps);
    Spot spot(tree, first, scratch);
    float value[Nodes];
#pragma unroll
    for (int j = 0; j < Nodes; ++j) value[j] = fmaxf(tree.strike - spot.at(j), 0.0f);
    for (int level = Steps - 1; level >= 0; --level) {
        if (first <= level + 1) edge[level & 1][threadIdx.x] = value[0];
        __syncthreads();
        if (first <= level) {
            spot.move_to(level);
            const float right = edge[level & 1][threadIdx.x + 1];
#pragma unroll
            for (int j = 0; j < Nodes; ++j) {
                const float above = j + 1 < Nodes ? value[j + 1] : right;
                const float held = tree.weight_up * above + tree.weight_down * value[j];
                value[j] = fmaxf(held, tree.strike - spot.at(j));
            }
        }
    }
    if (threadIdx.x == 0) q.result[blockIdx.x] = value[0];
}

// One warp per option at a time; each lane holds a run of neighbouring nodes.
template <int Steps>
__global__ void price_warps(Quotes q) {
    constexpr int kNodes = (Steps + 1) / 32;
    const int lane = threadIdx.x % 32;
    const int warps = gridDim.x * blockDim.x / 32;
    for (int option = (blockIdx.x * blockDim.x + threadIdx.x) / 32; option < q.count; option += warps) {
        const Tree tree = tree_of(q, option, Steps);
        float spot = tree.spot * exp2f(tree.log2_up * (2 * lane * kNodes - Steps));
        float ratio[kNodes], value[kNodes];
#pragma unroll
        for (int j = 0; j < kNodes; ++j) {
            ratio[j] = exp2f(tree.log2_up * (2 * j));
            value[j] = fmaxf(tree.strike - spot * ratio[j], 0.0f);
        }
        for (int level = Steps - 1; level >= 0; --level) {
            spot *= tree.up;
            const float right = __shfl_down_sync(0xFFFFFFFFu, value[0], 1);
#pragma unroll
            for (int j = 0; j < kNodes; ++j) {
                const float above = j + 1 < kNodes ? value[j + 1] : right;
                const float held = tree.weight_up * above + tree.weight_down * value[j];
                value[j] = fmaxf(held, tree.strike - spot * ratio[j]);
            }
        }
        if (lane == 0) q.result[option] = value[0];
    }
}
//: end

//: variant node_threads
template <int Steps>
__global__ void price_node_threads(Quotes q) {
    __shared__ float value[Steps + 1];
    const int i = threadIdx.x;
    const Tree tree = tree_of(q, blockIdx.x, Steps);
    float spot = tree.spot * exp2f(tree.log2_up * (2 * i - Steps));
    value[i] = fmaxf(tree.strike - spot, 0.0f);
    __syncthreads();
    for (int level = Steps - 1; level >= 0; --level) {
        spot *= tree.up;
        float next = 0;
        if (i <= level) {
            const float held = tree.weight_up * value[i + 1] + tree.weight_down * value[i];
            next = fmaxf(held, tree.strike - spot);
        }
        __syncthreads();
        if (i <= level) value[i] = next;
        __syncthreads();
    }
    if (i == 0) q.result[blockIdx.x] = value[0];
}

template <int Steps>
void node_threads(const Quotes& q) {
    price_node_threads<Steps><<<q.count, Steps + 1>>>(q);
}
//: end

//: variant two_rows
template <int Steps>
__global__ void price_two_rows(Quotes q) {
    __shared__ float value[2][Steps + 1];
    const int i = threadIdx.x;
    const Tree tree = tree_of(q, blockIdx.x, Steps);
    float spot = tree.spot * exp2f(tree.log2_up * (2 * i - Steps));
    value[Steps & 1][i] = fmaxf(tree.strike - spot, 0.0f);
    __syncthreads();
    for (int level = Steps - 1; level >= 0; --level) {
        spot *= tree.up;
        const float* from = value[(level + 1) & 1];
        if (i <= level) {
            const float held = tree.weight_up * from[i + 1] + tree.weight_down * from[i];
            value[level & 1][i] = fmaxf(held, tree.strike - spot);
        }
        __syncthreads();
    }
    if (i == 0) q.result[blockIdx.x] = value[0][0];
}

template <int Steps>
void two_rows(const Quotes& q) {
    price_two_rows<Steps><<<q.count, Steps + 1>>>(q);
}
//: end

//: variant nodes_4
template <int Steps>
void nodes_4(const Quotes& q) {
    price_nodes<Steps, 4, SpotStepped<Steps, 4>><<<q.count, (Steps + 1) / 4>>>(q);
}
//: end

//: variant nodes_8
template <int Steps>
void nodes_8(const Quotes& q) {
    price_nodes<Steps, 8, SpotStepped<Steps, 8>><<<q.count, (Steps + 1) / 8>>>(q);
}
//: end

//: variant nodes_8_exp
template <int Steps>
struct SpotExp {
    struct Shared {};
    float spot, log2_up;
    int first, level = Steps;
    __device__ SpotExp(const Tree& tree, int first, Shared&)
        : spot(tree.spot), log2_up(tree.log2_up), first(first) {}
    __device__ void move_to(int to) { level = to; }
    __device__ float at(int j) const { return spot * exp2f(log2_up * (2 * (first + j) - level)); }
};

template <int Steps>
void nodes_8_exp(const Quotes& q) {
    price_nodes<Steps, 8, SpotExp<Steps>><<<q.count, (Steps + 1) / 8>>>(q);
}
//: end

//: variant nodes_8_pow
template <int Steps>
struct SpotPow {
    struct Shared {};
    float spot, up;
    int first, level = Steps;
    __device__ SpotPow(const Tree& tree, int first, Shared&) : spot(tree.spot), up(tree.up), first(first) {}
    __device__ void move_to(int to) { level = to; }
    __device__ float at(int j) const { return spot * powf(up, 2 * (first + j) - level); }
};

template <int Steps>
void nodes_8_pow(const Quotes& q) {
    price_nodes<Steps, 8, SpotPow<Steps>><<<q.count, (Steps + 1) / 8>>>(q);
}
//: end

//: variant nodes_8_table
template <int Steps>
struct SpotTable {
    struct Shared {
        float price[2 * Steps + 16];
    };
    const float* price;
    int first, level = Steps;
    __device__ SpotTable(const Tree& tree, int first, Shared& shared) : price(shared.price), first(first) {
        for (int k = threadIdx.x; k < 2 * Steps + 16; k += blockDim.x) {
            shared.price[k] = tree.spot * exp2f(tree.log2_up * (k - Steps));
        }
        __syncthreads();
    }
    __device__ void move_to(int to) { level = to; }
    __device__ float at(int j) const { return price[2 * (first + j) - level + Steps]; }
};

template <int Steps>
void nodes_8_table(const Quotes& q) {
    price_nodes<Steps, 8, SpotTable<Steps>><<<q.count, (Steps + 1) / 8>>>(q);
}
//: end

//: variant nodes_8_skewed
template <int Steps>
struct SpotSkewed {
    struct Shared {
        float price[(2 * Steps + 16) / 16 * 17 + 17];
    };
    const float* price;
    int first, level = Steps;
    __device__ static int slot(int k) { return k + (k >> 4); }
    __device__ SpotSkewed(const Tree& tree, int first, Shared& shared) : price(shared.price), first(first) {
        for (int k = threadIdx.x; k < 2 * Steps + 16; k += blockDim.x) {
            shared.price[slot(k)] = tree.spot * exp2f(tree.log2_up * (k - Steps));
        }
        __syncthreads();
    }
    __device__ void move_to(int to) { level = to; }
    __device__ float at(int j) const { return price[slot(2 * (first + j) - level + Steps)]; }
};

template <int Steps>
void nodes_8_skewed(const Quotes& q) {
    price_nodes<Steps, 8, SpotSkewed<Steps>><<<q.count, (Steps + 1) / 8>>>(q);
}
//: end

//: variant warp_rows
template <int Steps>
void warp_rows(const Quotes& q) {
    price_warps<Steps><<<q.count / 4, 128>>>(q);
}
//: end

//: variant one_batch
template <int Steps>
void one_batch(const Quotes& q) {
    price_warps<Steps><<<1, 512>>>(q);
}
//: end

//: variant option_blocks
template <int Steps>
void option_blocks(const Quotes& q) {
    price_warps<Steps><<<q.count, 32>>>(q);
}
//: end

__global__ void reference_prices(Quotes q, float* expected, int steps) {
    extern __shared__ double row[];
    const int option = blockIdx.x;
    const double dt = double(q.years[option]) / steps, rate = q.rate[option];
    const double s = q.volatility[option] * sqrt(dt), spot = q.spot[option], strike = q.strike[option];
    const double p = (exp(rate * dt) - exp(-s)) / (exp(s) - exp(-s)), discount = exp(-rate * dt);
    const int i = threadIdx.x;
    row[i] = fmax(strike - spot * exp(s * (2 * i - steps)), 0.0);
    for (int level = steps - 1; level >= 0; --level) {
        __syncthreads();
        const double low = row[i], high = i < steps ? row[i + 1] : 0.0;
        __syncthreads();
        const double held = discount * (p * high + (1 - p) * low);
        if (i <= level) row[i] = fmax(held, strike - spot * exp(s * (2 * i - level)));
    }
    if (i == 0) expected[option] = float(row[0]);
}

Quotes set_up(book::Problem& p, int count, int steps) {
    Quotes q{count};
    q.spot = p.uniform<float>(count, 80, 120);
    q.strike = p.uniform<float>(count, 80, 120);
    q.years = p.uniform<float>(count, 0.25, 2);
    q.rate = p.uniform<float>(count, 0.01, 0.05);
    q.volatility = p.uniform<float>(count, 0.15, 0.45);
    q.result = p.output<float>(count);
    p.needs({.dram_bytes = 24.0 * count, .fp32_flop = 6.0 * count * (0.5 * steps * (steps + 1))});
    p.check<float>(q.result, count, {1e-3, 1e-2}, [=](float* expected) {
        reference_prices<<<count, steps + 1, (steps + 1) * sizeof(double)>>>(q, expected, steps);
    });
    return q;
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("portfolio", [](book::Problem& p) {
        const Quotes q = set_up(p, 2112, 1023);
        p.variant("node_threads", [=] { node_threads<1023>(q); });
        p.variant("two_rows", [=] { two_rows<1023>(q); });
        p.variant("nodes_4", [=] { nodes_4<1023>(q); });
        p.variant("nodes_8", [=] { nodes_8<1023>(q); });
        p.variant("nodes_8_exp", [=] { nodes_8_exp<1023>(q); });
        p.variant("nodes_8_pow", [=] { nodes_8_pow<1023>(q); });
        p.variant("nodes_8_table", [=] { nodes_8_table<1023>(q); });
        p.variant("nodes_8_skewed", [=] { nodes_8_skewed<1023>(q); });
        p.variant("warp_rows", [=] { warp_rows<1023>(q); });
    });
    book.problem("desk", [](book::Problem& p) {
        const Quotes q = set_up(p, 64, 511);
        p.variant("one_batch", [=] { one_batch<511>(q); });
        p.variant("option_blocks", [=] { option_blocks<511>(q); });
    });
    return book.finish();
}
