// Statistics of segments: mean, variance and maximum of runs of values that offsets delimit, as in a
// group-by of a data frame, and the mean of edge features per node, as in a graph network.
#include "../../harness/book.h"

//: shared
struct Column {
    int segments;
    const int* offsets;   // segments + 1
    const float* values;  // sorted by segment
    float* stats;         // mean, then variance, then maximum, one per segment each
    int* queue;           // room for one entry per segment
    int* queued;          // zero
};

struct Messages {
    int nodes, edges;
    const int* offsets;     // nodes + 1
    const int* target;      // node of each edge, ascending
    const float* features;  // edges x kFeatures
    float* mean;            // nodes x kFeatures
};

constexpr int kFeatures = 64;
constexpr int kThreads = 256;

template <class T>
struct Moments {
    T sum, squares;
    float largest;
};

template <class T>
__device__ Moments<T> joined(const Moments<T>& a, const Moments<T>& b) {
    return {a.sum + b.sum, a.squares + b.squares, fmaxf(a.largest, b.largest)};
}

template <class T>
__device__ Moments<T> over_warp(Moments<T> m) {
    for (int step = 16; step > 0; step /= 2) {
        m = joined(m, {__shfl_down_sync(~0u, m.sum, step), __shfl_down_sync(~0u, m.squares, step),
                       __shfl_down_sync(~0u, m.largest, step)});
    }
    return m;
}

// The result is valid in thread 0.
template <class T>
__device__ Moments<T> over_block(Moments<T> m, Moments<T>* partial) {
    m = over_warp(m);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = m;
    __syncthreads();
    if (threadIdx.x < 32) {
        m = {0, 0, -INFINITY};
        if (threadIdx.x < blockDim.x / 32) m = partial[threadIdx.x];
        m = over_warp(m);
    }
    return m;
}

// Sums of differences from the segment's first value: they do not cancel.
template <class T, int Stride>
__device__ Moments<T> summed(const float* values, int first, int last, int from) {
    Moments<T> m{0, 0, -INFINITY};
    const float origin = values[first];
    for (int i = first + from; i < last; i += Stride) {
        const float x = values[i];
        const T d = T(x) - T(origin);
        m.sum += d;
        m.squares += d * d;
        m.largest = fmaxf(m.largest, x);
    }
    return m;
}

template <class T>
__device__ void store(const Column& c, int segment, int first, int last, const Moments<T>& m) {
    const T count = T(last - first), shift = m.sum / count;
    c.stats[segment] = float(T(c.values[first]) + shift);
    c.stats[c.segments + segment] = float(m.squares / count - shift * shift);
    c.stats[2 * c.segments + segment] = m.largest;
}

template <class T>
__global__ void segment_block(Column c) {
    __shared__ Moments<T> partial[32];
    const int first = c.offsets[blockIdx.x], last = c.offsets[blockIdx.x + 1];
    const auto m = over_block(summed<T, kThreads>(c.values, first, last, threadIdx.x), partial);
    if (threadIdx.x == 0) store(c, blockIdx.x, first, last, m);
}

__global__ void divide_by_degree(Messages g) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= g.nodes * kFeatures) return;
    const int node = i / kFeatures;
    g.mean[i] /= float(g.offsets[node + 1] - g.offsets[node]);
}
//: end

//: variant warp_rows
__global__ void segment_warp(Column c) {
    const int segment = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (segment >= c.segments) return;
    const int first = c.offsets[segment], last = c.offsets[segment + 1];
    const auto m = over_warp(summed<float, 32>(c.values, first, last, lane));
    if (lane == 0) store(c, segment, first, last, m);
}

void warp_rows(const Column& c) { segment_warp<<<(c.segments + 7) / 8, 256>>>(c); }
//: end

//: variant queue_rows
constexpr int kLong = 4096;

__global__ void segment_warp_or_queue(Column c) {
    const int segment = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (segment >= c.segments) return;
    const int first = c.offsets[segment], last = c.offsets[segment + 1];
    if (last - first > kLong) {
        if (lane == 0) c.queue[atomicAdd(c.queued, 1)] = segment;
        return;
    }
    const auto m = over_warp(summed<float, 32>(c.values, first, last, lane));
    if (lane == 0) store(c, segment, first, last, m);
}

__global__ void segment_queued(Column c) {
    __shared__ Moments<float> partial[32];
    const int count = *c.queued;
    for (int q = blockIdx.x; q < count; q += gridDim.x) {
        const int segment = c.queue[q];
        const int first = c.offsets[segment], last = c.offsets[segment + 1];
        const auto m = over_block(summed<float, 1024>(c.values, first, last, threadIdx.x), partial);
        if (threadIdx.x == 0) store(c, segment, first, last, m);
        __syncthreads();
    }
}

void queue_rows(const Column& c) {
    segment_warp_or_queue<<<(c.segments + 7) / 8, 256>>>(c);
    segment_queued<<<132, 1024>>>(c);
}
//: end

//: variant two_pass
__global__ void segment_mean(Column c) {
    __shared__ Moments<float> partial[32];
    const int first = c.offsets[blockIdx.x], last = c.offsets[blockIdx.x + 1];
    Moments<float> m{0, 0, -INFINITY};
    for (int i = first + threadIdx.x; i < last; i += kThreads) {
        m.sum += c.values[i];
        m.largest = fmaxf(m.largest, c.values[i]);
    }
    m = over_block(m, partial);
    if (threadIdx.x == 0) {
        c.stats[blockIdx.x] = m.sum / float(last - first);
        c.stats[2 * c.segments + blockIdx.x] = m.largest;
    }
}

__global__ void segment_variance(Column c) {
    __shared__ Moments<float> partial[32];
    const int first = c.offsets[blockIdx.x], last = c.offsets[blockIdx.x + 1];
    const float mean = c.stats[blockIdx.x];
    Moments<float> m{0, 0, -INFINITY};
    for (int i = first + threadIdx.x; i < last; i += kThreads) {
        const float d = c.values[i] - mean;
        m.squares += d * d;
    }
    m = over_block(m, partial);
    if (threadIdx.x == 0) c.stats[c.segments + blockIdx.x] = m.squares / float(last - first);
}

void two_pass(const Column& c) {
    segment_mean<<<c.segments, kThreads>>>(c);
    segment_variance<<<c.segments, kThreads>>>(c);
}
//: end

//: variant two_loops
__global__ void segment_block_centred(Column c) {
    __shared__ Moments<float> partial[32];
    __shared__ float mean;
    const int first = c.offsets[blockIdx.x], last = c.offsets[blockIdx.x + 1];
    Moments<float> m{0, 0, -INFINITY};
    for (int i = first + threadIdx.x; i < last; i += kThreads) {
        m.sum += c.values[i];
        m.largest = fmaxf(m.largest, c.values[i]);
    }
    m = over_block(m, partial);
    if (threadIdx.x == 0) {
        mean = m.sum / float(last - first);
        c.stats[blockIdx.x] = mean;
        c.stats[2 * c.segments + blockIdx.x] = m.largest;
    }
    __syncthreads();
    m.squares = 0;
    for (int i = first + threadIdx.x; i < last; i += kThreads) {
        const float d = c.values[i] - mean;
        m.squares += d * d;
    }
    m = over_block(m, partial);
    if (threadIdx.x == 0) c.stats[c.segments + blockIdx.x] = m.squares / float(last - first);
}

void two_loops(const Column& c) { segment_block_centred<<<c.segments, kThreads>>>(c); }
//: end

//: variant shifted
void shifted(const Column& c) { segment_block<float><<<c.segments, kThreads>>>(c); }
//: end

//: variant shifted_f64
void shifted_f64(const Column& c) { segment_block<double><<<c.segments, kThreads>>>(c); }
//: end

//: variant scatter
__global__ void scatter_add(Messages g) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= g.edges * kFeatures) return;
    const int node = g.target[i / kFeatures];
    atomicAdd(&g.mean[size_t(node) * kFeatures + i % kFeatures], g.features[i]);
}

void scatter(const Messages& g) {
    BOOK_CHECK(cudaMemsetAsync(g.mean, 0, sizeof(float) * g.nodes * kFeatures));
    scatter_add<<<(g.edges * kFeatures + 255) / 256, 256>>>(g);
    divide_by_degree<<<(g.nodes * kFeatures + 255) / 256, 256>>>(g);
}
//: end

//: variant runs
constexpr int kRun = 32, kBatch = 8;

__device__ void flush(const Messages& g, int node, float2 sum, int lane) {
    float* row = g.mean + size_t(node) * kFeatures + 2 * lane;
    atomicAdd(row, sum.x);
    atomicAdd(row + 1, sum.y);
}

// Each warp adds a run of edges; edges are a multiple of kRun.
__global__ void add_runs(Messages g) {
    const int lane = threadIdx.x % 32;
    const int first = (blockIdx.x * blockDim.x + threadIdx.x) / 32 * kRun;
    if (first >= g.edges) return;
    const int mine = g.target[first + lane];
    const float2* rows = reinterpret_cast<const float2*>(g.features + size_t(first) * kFeatures) + lane;
    int node = __shfl_sync(~0u, mine, 0);
    float2 sum{0, 0};
    for (int start = 0; start < kRun; start += kBatch) {
        float2 x[kBatch];
#pragma unroll
        for (int k = 0; k < kBatch; ++k) x[k] = rows[(start + k) * (kFeatures / 2)];
#pragma unroll
        for (int k = 0; k < kBatch; ++k) {
            const int next = __shfl_sync(~0u, mine, start + k);
            if (next != node) {
                flush(g, node, sum, lane);
                node = next;
                sum = {0, 0};
            }
            sum.x += x[k].x;
            sum.y += x[k].y;
        }
    }
    flush(g, node, sum, lane);
}

void runs(const Messages& g) {
    BOOK_CHECK(cudaMemsetAsync(g.mean, 0, sizeof(float) * g.nodes * kFeatures));
    add_runs<<<(g.edges / kRun + 7) / 8, 256>>>(g);
    divide_by_degree<<<(g.nodes * kFeatures + 255) / 256, 256>>>(g);
}
//: end

__global__ void reference_stats(int segments, const int* offsets, const float* values, float* expected) {
    __shared__ double totals[2][128];
    __shared__ float largest[128];
    const int s = blockIdx.x, t = threadIdx.x, first = offsets[s], last = offsets[s + 1];
    double sum = 0;
    float top = values[first];
    for (int i = first + t; i < last; i += 128) {
        sum += values[i];
        top = values[i] > top ? values[i] : top;
    }
    totals[0][t] = sum;
    largest[t] = top;
    __syncthreads();
    double all = 0;
    for (int k = 0; k < 128; ++k) all += totals[0][k];
    const double mean = all / (last - first);
    double squares = 0;
    for (int i = first + t; i < last; i += 128) squares += (values[i] - mean) * (values[i] - mean);
    totals[1][t] = squares;
    __syncthreads();
    if (t) return;
    squares = 0;
    for (int k = 0; k < 128; ++k) {
        squares += totals[1][k];
        top = largest[k] > top ? largest[k] : top;
    }
    expected[s] = float(mean);
    expected[segments + s] = float(squares / (last - first));
    expected[2 * segments + s] = top;
}

__global__ void reference_mean(const int* offsets, const float* features, float* expected) {
    __shared__ double totals[16][kFeatures];
    const int f = threadIdx.x, first = offsets[blockIdx.x], last = offsets[blockIdx.x + 1];
    double sum = 0;
    for (int e = first + threadIdx.y; e < last; e += 16) sum += features[size_t(e) * kFeatures + f];
    totals[threadIdx.y][f] = sum;
    __syncthreads();
    if (threadIdx.y) return;
    for (int k = 1; k < 16; ++k) sum += totals[k][f];
    expected[size_t(blockIdx.x) * kFeatures + f] = float(sum / (last - first));
}

std::vector<int> ends_of(const std::vector<int>& lengths) {
    std::vector<int> offsets(1, 0);
    for (int length : lengths) offsets.push_back(offsets.back() + length);
    return offsets;
}

Column set_up_column(book::Problem& p, const std::vector<int>& lengths) {
    const auto offsets = ends_of(lengths);
    const int segments = int(lengths.size());
    const size_t count = offsets.back();
    const uint64_t seed = p.seed();
    Column c{segments};
    c.offsets = p.upload(offsets);
    c.values = p.input<float>(count, [=] __device__(size_t i) {
        return float(10 + 5 * book::uniform01(seed, 7, i) + 5 * book::uniform01(seed, 8, i));
    });
    c.stats = p.output<float>(3 * size_t(segments));
    c.queue = p.output<int>(segments);
    c.queued = p.zeroed<int>(1);
    p.needs({.dram_bytes = 4.0 * (count + 4.0 * segments), .fp32_flop = 5.0 * count});
    p.check<float>(c.stats, 3 * size_t(segments), {3e-4}, [=](float* expected) {
        reference_stats<<<segments, 128>>>(segments, c.offsets, c.values, expected);
    });
    return c;
}

// Most groups have some hundred rows; the rows without a key are one group.
std::vector<int> group_lengths(uint64_t seed, int groups, int at, int rows_without_key) {
    std::vector<int> lengths;
    for (int s = 0; s < groups; ++s) {
        const int length = 16 + int(-230 * std::log(1 - book::uniform01(seed, 1, s)));
        lengths.push_back(s == at ? rows_without_key : std::min(length, 3500));
    }
    return lengths;
}

Messages set_up_messages(book::Problem& p, int nodes, int degree, int hub) {
    std::vector<int> lengths;
    int edges = 0;
    for (int n = 0; n < nodes; ++n) {
        lengths.push_back(n == nodes / 2 && hub ? hub
                                                : 1 + int((2 * degree - 1) * book::uniform01(p.seed(), 2, n)));
        edges += lengths.back();
    }
    lengths.back() += (32 - edges % 32) % 32;
    const auto offsets = ends_of(lengths);
    edges = offsets.back();
    std::vector<int> target;
    for (int n = 0; n < nodes; ++n) target.insert(target.end(), lengths[n], n);
    Messages g{nodes, edges};
    g.offsets = p.upload(offsets);
    g.target = p.upload(target);
    g.features = p.uniform<float>(size_t(edges) * kFeatures, 0.25, 1.25);
    g.mean = p.output<float>(size_t(nodes) * kFeatures);
    p.needs({.dram_bytes = 4.0 * (double(edges) * kFeatures + nodes + double(nodes) * kFeatures),
             .fp32_flop = double(edges) * kFeatures});
    p.check<float>(g.mean, size_t(nodes) * kFeatures, {5e-4}, [=](float* expected) {
        reference_mean<<<nodes, dim3(kFeatures, 16)>>>(g.offsets, g.features, expected);
    });
    return g;
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("groups_last", [](book::Problem& p) {
        const auto c = set_up_column(p, group_lengths(p.seed(), 130000, 129999, 24576));
        p.variant("warp_rows", [=] { warp_rows(c); });
        p.variant("queue_rows", [=] { queue_rows(c); });
    });
    book.problem("groups_first", [](book::Problem& p) {
        const auto c = set_up_column(p, group_lengths(p.seed(), 130000, 0, 16384));
        p.variant("warp_rows", [=] { warp_rows(c); });
        p.variant("queue_rows", [=] { queue_rows(c); });
    });
    book.problem("sensors", [](book::Problem& p) {
        std::vector<int> lengths;
        for (int s = 0; s < 4000; ++s) {
            const double u = book::uniform01(p.seed(), 3, s);
            lengths.push_back(500 + int(22500 * u * u));
        }
        const auto c = set_up_column(p, lengths);
        p.variant("two_pass", [=] { two_pass(c); });
        p.variant("two_loops", [=] { two_loops(c); });
        p.variant("shifted", [=] { shifted(c); });
        p.variant("shifted_f64", [=] { shifted_f64(c); });
    });
    book.problem("hub", [](book::Problem& p) {
        const auto g = set_up_messages(p, 20000, 16, 120000);
        p.variant("scatter", [=] { scatter(g); });
        p.variant("runs", [=] { runs(g); });
    });
    book.problem("mesh", [](book::Problem& p) {
        const auto g = set_up_messages(p, 26000, 16, 0);
        p.variant("scatter", [=] { scatter(g); });
        p.variant("runs", [=] { runs(g); });
    });
    return book.finish();
}
