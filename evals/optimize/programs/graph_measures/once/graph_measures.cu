// Measures of a large undirected graph: degrees, ranks (PageRank with weights), triangles and
// clustering, connected components, cores, and closeness to some landmarks.

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <utility>
#include <vector>

#include <cuda_runtime.h>

#include "../graph.h"

#define CUDA_CHECK(call)                                                       \
    do {                                                                       \
        const cudaError_t error_ = (call);                                     \
        if (error_ != cudaSuccess) {                                           \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__,            \
                         cudaGetErrorString(error_));                          \
            std::exit(1);                                                      \
        }                                                                      \
    } while (0)

constexpr int kThreads = 256;
constexpr int kWarp = 32;

using Counter = unsigned long long;

__device__ int degree_of(const int* first, int vertex) { return first[vertex + 1] - first[vertex]; }

// The sum over a warp, in its first lane.
template <typename T>
__device__ T warp_sum(T value) {
    for (int offset = kWarp / 2; offset > 0; offset /= 2)
        value += __shfl_down_sync(0xffffffffu, value, offset);
    return value;
}

// The sum over a block, in its first thread.
__device__ double block_sum(double value) {
    __shared__ double part[kThreads / kWarp];
    value = warp_sum(value);
    if (threadIdx.x % kWarp == 0) part[threadIdx.x / kWarp] = value;
    __syncthreads();
    double sum = 0;
    if (threadIdx.x == 0) {
        for (double one : part) sum += one;
    }
    __syncthreads();
    return sum;
}

__global__ void degree_histogram(int vertices, const int* __restrict__ first, int* histogram) {
    __shared__ int count[kDegreeBins];
    for (int bin = threadIdx.x; bin < kDegreeBins; bin += kThreads) count[bin] = 0;
    __syncthreads();
    for (int v = blockIdx.x * blockDim.x + threadIdx.x; v < vertices; v += gridDim.x * blockDim.x)
        atomicAdd(&count[min(degree_of(first, v), kDegreeBins - 1)], 1);
    __syncthreads();
    for (int bin = threadIdx.x; bin < kDegreeBins; bin += kThreads)
        if (count[bin] > 0) atomicAdd(&histogram[bin], count[bin]);
}

// A warp for each vertex.
__global__ void neighbour_degrees(int vertices, const int* __restrict__ first,
                                  const int* __restrict__ target, float* __restrict__ mean) {
    const int v = (blockIdx.x * blockDim.x + threadIdx.x) / kWarp, lane = threadIdx.x % kWarp;
    if (v >= vertices) return;
    const int begin = first[v], end = first[v + 1];
    int sum = 0;
    for (int a = begin + lane; a < end; a += kWarp) sum += degree_of(first, target[a]);
    sum = warp_sum(sum);
    if (lane == 0) mean[v] = begin < end ? float(sum) / float(end - begin) : 0.0f;
}

__global__ void sum_weights(int vertices, const int* __restrict__ first,
                            const float* __restrict__ weight, double* __restrict__ strength) {
    const int v = (blockIdx.x * blockDim.x + threadIdx.x) / kWarp, lane = threadIdx.x % kWarp;
    if (v >= vertices) return;
    double sum = 0;
    for (int a = first[v] + lane; a < first[v + 1]; a += kWarp) sum += weight[a];
    sum = warp_sum(sum);
    if (lane == 0) strength[v] = sum;
}

// What a vertex gives for a unit of weight.
__global__ void share_ranks(int vertices, const double* __restrict__ strength,
                            const double* __restrict__ rank, double* __restrict__ share,
                            double* isolated) {
    const int v = blockIdx.x * blockDim.x + threadIdx.x;
    double lost = 0;
    if (v < vertices) {
        const double sum = strength[v];
        share[v] = sum > 0 ? rank[v] / sum : 0.0;
        if (sum == 0) lost = rank[v];
    }
    lost = block_sum(lost);
    if (threadIdx.x == 0 && lost > 0) atomicAdd(isolated, lost);
}

// A warp for each vertex: it takes from the neighbours.
__global__ void pull_ranks(int vertices, const int* __restrict__ first,
                           const int* __restrict__ target, const float* __restrict__ weight,
                           const double* __restrict__ share, const double* __restrict__ isolated,
                           double* __restrict__ rank, double* change) {
    const int v = (blockIdx.x * blockDim.x + threadIdx.x) / kWarp, lane = threadIdx.x % kWarp;
    double difference = 0;
    if (v < vertices) {
        const int end = first[v + 1];
        double sum = 0;
        for (int a = first[v] + lane; a < end; a += kWarp) sum += weight[a] * share[target[a]];
        sum = warp_sum(sum);
        if (lane == 0) {
            const double updated =
                (1.0 - kDamping) / vertices + kDamping * (sum + *isolated / vertices);
            difference = fabs(updated - rank[v]);
            rank[v] = updated;
        }
    }
    difference = block_sum(difference);
    if (threadIdx.x == 0) atomicAdd(change, difference);
}

// Forward arcs lead to higher vertices. Each triangle is found once, at the edge between its two
// lowest vertices.
__global__ void count_triangles(int edges, const int* __restrict__ forward_first,
                                const int* __restrict__ forward_source,
                                const int* __restrict__ forward_target, int* triangles,
                                Counter* total) {
    const int e = blockIdx.x * blockDim.x + threadIdx.x;
    int found = 0;
    if (e < edges) {
        const int u = forward_source[e], v = forward_target[e];
        int i = e + 1, j = forward_first[v];
        const int last_i = forward_first[u + 1], last_j = forward_first[v + 1];
        while (i < last_i && j < last_j) {
            const int a = forward_target[i], b = forward_target[j];
            if (a == b) {
                ++found;
                atomicAdd(&triangles[a], 1);
            }
            i += a <= b;
            j += b <= a;
        }
        if (found > 0) {
            atomicAdd(&triangles[u], found);
            atomicAdd(&triangles[v], found);
        }
    }
    found = warp_sum(found);
    if (threadIdx.x % kWarp == 0 && found > 0) atomicAdd(total, Counter(found));
}

__global__ void clustering_coefficients(int vertices, const int* first, const int* triangles,
                                        float* clustering) {
    const int v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v >= vertices) return;
    const float degree = degree_of(first, v);
    clustering[v] = degree > 1 ? 2.0f * triangles[v] / (degree * (degree - 1.0f)) : 0.0f;
}

__global__ void start_labels(int vertices, int* label, int* frontier, int* queued) {
    const int v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v >= vertices) return;
    label[v] = v;
    frontier[v] = v;
    queued[v] = 0;
}

// Labels that have become lower go on to the neighbours. A vertex is queued once in a round.
__global__ void spread_labels(int active, const int* __restrict__ first,
                              const int* __restrict__ target, const int* __restrict__ frontier,
                              int round, int* label, int* queued, int* next_frontier,
                              int* next_active) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= active) return;
    const int v = frontier[i], own = label[v], end = first[v + 1];
    for (int a = first[v]; a < end; ++a) {
        const int u = target[a];
        if (label[u] <= own) continue;
        if (atomicMin(&label[u], own) > own && atomicExch(&queued[u], round) != round)
            next_frontier[atomicAdd(next_active, 1)] = u;
    }
}

__global__ void component_sizes(int vertices, const int* label, int* size) {
    const int v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v < vertices) atomicAdd(&size[label[v]], 1);
}

__global__ void start_cores(int vertices, const int* first, int* remaining, int* core) {
    const int v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v >= vertices) return;
    remaining[v] = degree_of(first, v);
    core[v] = -1;
}

// Takes out the vertices that have no more than k neighbours left.
__global__ void peel(int vertices, const int* __restrict__ first, const int* __restrict__ target,
                     int k, int* remaining, int* core, int* changed, int* removed) {
    const int v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v >= vertices) return;
    if (core[v] >= 0 || remaining[v] > k) return;
    core[v] = k;
    *changed = 1;
    atomicAdd(removed, 1);
    const int end = first[v + 1];
    for (int a = first[v]; a < end; ++a) atomicSub(&remaining[target[a]], 1);
}

__global__ void start_distances(int vertices, int landmark, int* distance, int* frontier) {
    const int v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v < vertices) distance[v] = v == landmark ? 0 : -1;
    if (v == 0) frontier[0] = landmark;
}

__global__ void expand_level(int active, const int* __restrict__ first,
                             const int* __restrict__ target, const int* __restrict__ frontier,
                             int level, int* distance, int* next_frontier, int* next_active) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= active) return;
    const int v = frontier[i], end = first[v + 1];
    for (int a = first[v]; a < end; ++a) {
        const int u = target[a];
        if (distance[u] == -1 && atomicCAS(&distance[u], -1, level + 1) == -1)
            next_frontier[atomicAdd(next_active, 1)] = u;
    }
}

__global__ void add_closeness(int vertices, const int* __restrict__ distance,
                              float* __restrict__ closeness) {
    const int v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v >= vertices) return;
    if (distance[v] >= 0) closeness[v] += 1.0f / (1.0f + distance[v]);
}

template <typename T>
T* allocate(std::size_t count) {
    T* pointer = nullptr;
    CUDA_CHECK(cudaMalloc(&pointer, count * sizeof(T)));
    return pointer;
}

template <typename T>
T* upload(const std::vector<T>& values) {
    T* pointer = allocate<T>(values.size());
    CUDA_CHECK(cudaMemcpy(pointer, values.data(), values.size() * sizeof(T),
                          cudaMemcpyHostToDevice));
    return pointer;
}

template <typename T>
std::vector<T> download(const T* from, std::size_t count) {
    std::vector<T> result(count);
    CUDA_CHECK(cudaMemcpy(result.data(), from, count * sizeof(T), cudaMemcpyDeviceToHost));
    return result;
}

template <typename T>
T download_value(const T* from) {
    T value;
    CUDA_CHECK(cudaMemcpy(&value, from, sizeof(T), cudaMemcpyDeviceToHost));
    return value;
}

template <typename T>
void clear(T* values, std::size_t count) {
    CUDA_CHECK(cudaMemset(values, 0, count * sizeof(T)));
}

int blocks_for(int count) { return (count + kThreads - 1) / kThreads; }

class Analysis {
public:
    explicit Analysis(const Graph& graph)
        : graph_(graph),
          vertices_(graph.vertices),
          arcs_(int(graph.arc.size())),
          blocks_(blocks_for(graph.vertices)),
          warp_blocks_(blocks_for(graph.vertices * kWarp)) {
        first_ = upload(graph.first);
        upload_arcs();
        histogram_ = allocate<int>(kDegreeBins);
        neighbour_degree_ = allocate<float>(vertices_);
        strength_ = allocate<double>(vertices_);
        rank_ = upload(std::vector<double>(vertices_, 1.0 / vertices_));
        share_ = allocate<double>(vertices_);
        isolated_ = allocate<double>(1);
        change_ = allocate<double>(1);
        triangles_ = allocate<int>(vertices_);
        total_ = allocate<Counter>(1);
        clustering_ = allocate<float>(vertices_);
        label_ = allocate<int>(vertices_);
        frontier_ = allocate<int>(vertices_);
        next_frontier_ = allocate<int>(vertices_);
        queued_ = allocate<int>(vertices_);
        active_ = allocate<int>(1);
        size_ = allocate<int>(vertices_);
        remaining_ = allocate<int>(vertices_);
        core_ = allocate<int>(vertices_);
        distance_ = allocate<int>(vertices_);
        closeness_ = allocate<float>(vertices_);
        changed_ = allocate<int>(1);
        removed_ = allocate<int>(1);
    }

    ~Analysis() {
        for (void* pointer : std::initializer_list<void*>{
                 first_, target_, weight_, forward_first_, forward_source_, forward_target_,
                 histogram_, neighbour_degree_, strength_, rank_, share_, isolated_, change_,
                 triangles_, total_, clustering_, label_, frontier_, next_frontier_, queued_,
                 active_, size_, remaining_, core_, distance_, closeness_, changed_,
                 removed_}) {
            CUDA_CHECK(cudaFree(pointer));
        }
    }

    Analysis(const Analysis&) = delete;
    Analysis& operator=(const Analysis&) = delete;

    void run() {
        measure_degrees();
        const int iterations = measure_ranks();
        measure_triangles();
        const int rounds = find_components();
        const int highest = find_cores();
        measure_closeness();
        CUDA_CHECK(cudaDeviceSynchronize());
        std::printf("%d iterations of ranks, %d rounds of labels, highest core %d\n", iterations,
                    rounds, highest);
    }

    Measures measures() const {
        Measures result;
        result.histogram = download(histogram_, kDegreeBins);
        result.neighbour_degree = download(neighbour_degree_, vertices_);
        result.rank = download(rank_, vertices_);
        result.triangles = download(triangles_, vertices_);
        result.total = {std::int64_t(download_value(total_))};
        result.clustering = download(clustering_, vertices_);
        result.component = download(label_, vertices_);
        result.component_size = download(size_, vertices_);
        result.core = download(core_, vertices_);
        result.closeness = download(closeness_, vertices_);
        return result;
    }

private:
    void upload_arcs() {
        std::vector<int> target, forward_first = {0}, forward_source, forward_target;
        std::vector<float> weight;
        target.reserve(arcs_);
        weight.reserve(arcs_);
        for (int v = 0; v < vertices_; ++v) {
            for (int a = graph_.first[v]; a < graph_.first[v + 1]; ++a) {
                const Arc& arc = graph_.arc[a];
                target.push_back(arc.target);
                weight.push_back(arc.weight);
                if (arc.target < v) continue;
                forward_source.push_back(v);
                forward_target.push_back(arc.target);
            }
            forward_first.push_back(int(forward_target.size()));
        }
        target_ = upload(target);
        weight_ = upload(weight);
        forward_first_ = upload(forward_first);
        forward_source_ = upload(forward_source);
        forward_target_ = upload(forward_target);
    }

    void measure_degrees() {
        clear(histogram_, kDegreeBins);
        degree_histogram<<<264, kThreads>>>(vertices_, first_, histogram_);
        CUDA_CHECK(cudaGetLastError());
        neighbour_degrees<<<warp_blocks_, kThreads>>>(vertices_, first_, target_,
                                                      neighbour_degree_);
        CUDA_CHECK(cudaGetLastError());
    }

    int measure_ranks() {
        sum_weights<<<warp_blocks_, kThreads>>>(vertices_, first_, weight_, strength_);
        CUDA_CHECK(cudaGetLastError());
        int iteration = 0;
        double change = 1;
        while (iteration < kMaxIterations && change > kTolerance) {
            clear(isolated_, 1);
            clear(change_, 1);
            share_ranks<<<blocks_, kThreads>>>(vertices_, strength_, rank_, share_, isolated_);
            CUDA_CHECK(cudaGetLastError());
            pull_ranks<<<warp_blocks_, kThreads>>>(vertices_, first_, target_, weight_, share_,
                                                   isolated_, rank_, change_);
            CUDA_CHECK(cudaGetLastError());
            change = download_value(change_);
            ++iteration;
        }
        return iteration;
    }

    void measure_triangles() {
        clear(triangles_, vertices_);
        clear(total_, 1);
        const int edges = arcs_ / 2;
        count_triangles<<<blocks_for(edges), kThreads>>>(edges, forward_first_, forward_source_,
                                                         forward_target_, triangles_, total_);
        CUDA_CHECK(cudaGetLastError());
        clustering_coefficients<<<blocks_, kThreads>>>(vertices_, first_, triangles_, clustering_);
        CUDA_CHECK(cudaGetLastError());
    }

    int find_components() {
        start_labels<<<blocks_, kThreads>>>(vertices_, label_, frontier_, queued_);
        CUDA_CHECK(cudaGetLastError());
        int rounds = 0, active = vertices_;
        while (active > 0) {
            ++rounds;
            clear(active_, 1);
            spread_labels<<<blocks_for(active), kThreads>>>(active, first_, target_, frontier_,
                                                            rounds, label_, queued_,
                                                            next_frontier_, active_);
            CUDA_CHECK(cudaGetLastError());
            active = download_value(active_);
            std::swap(frontier_, next_frontier_);
        }
        clear(size_, vertices_);
        component_sizes<<<blocks_, kThreads>>>(vertices_, label_, size_);
        CUDA_CHECK(cudaGetLastError());
        return rounds;
    }

    int find_cores() {
        start_cores<<<blocks_, kThreads>>>(vertices_, first_, remaining_, core_);
        CUDA_CHECK(cudaGetLastError());
        clear(removed_, 1);
        int k = 0;
        while (true) {
            do {
                clear(changed_, 1);
                peel<<<blocks_, kThreads>>>(vertices_, first_, target_, k, remaining_, core_,
                                            changed_, removed_);
                CUDA_CHECK(cudaGetLastError());
            } while (download_value(changed_));
            if (download_value(removed_) == vertices_) return k;
            ++k;
        }
    }

    void measure_closeness() {
        clear(closeness_, vertices_);
        for (int landmark : graph_.landmark) {
            start_distances<<<blocks_, kThreads>>>(vertices_, landmark, distance_, frontier_);
            CUDA_CHECK(cudaGetLastError());
            int active = 1;
            for (int level = 0; active > 0; ++level) {
                clear(active_, 1);
                expand_level<<<blocks_for(active), kThreads>>>(active, first_, target_, frontier_,
                                                               level, distance_, next_frontier_,
                                                               active_);
                CUDA_CHECK(cudaGetLastError());
                active = download_value(active_);
                std::swap(frontier_, next_frontier_);
            }
            add_closeness<<<blocks_, kThreads>>>(vertices_, distance_, closeness_);
            CUDA_CHECK(cudaGetLastError());
        }
    }

    const Graph& graph_;
    const int vertices_, arcs_, blocks_, warp_blocks_;
    int* first_;
    int* target_;
    float* weight_;
    int* forward_first_;
    int* forward_source_;
    int* forward_target_;
    int* histogram_;
    float* neighbour_degree_;
    double* strength_;
    double* rank_;
    double* share_;
    double* isolated_;
    double* change_;
    int* triangles_;
    Counter* total_;
    float* clustering_;
    int* label_;
    int* frontier_;
    int* next_frontier_;
    int* queued_;
    int* active_;
    int* size_;
    int* remaining_;
    int* core_;
    int* distance_;
    float* closeness_;
    int* changed_;
    int* removed_;
};

int main(int argc, char** argv) {
    const Options options = read_options(argc, argv);
    const Graph graph = make_graph(options);
    std::printf("%d vertices, %zu arcs\n", graph.vertices, graph.arc.size());
    Analysis analysis(graph);
    CUDA_CHECK(cudaDeviceSynchronize());

    const auto start = std::chrono::steady_clock::now();
    analysis.run();
    const std::chrono::duration<double, std::milli> taken =
        std::chrono::steady_clock::now() - start;
    std::printf("time: %.3f ms\n", taken.count());

    write_results(options, analysis.measures());
    return 0;
}
