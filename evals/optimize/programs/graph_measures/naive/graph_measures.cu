// Measures of a large undirected graph: degrees, ranks (PageRank with weights), triangles and
// clustering, connected components, cores, and closeness to some landmarks.

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
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

using Counter = unsigned long long;

__device__ int degree_of(const int* first, int vertex) { return first[vertex + 1] - first[vertex]; }

__global__ void degree_histogram(int vertices, const int* first, int* histogram) {
    const int v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v >= vertices) return;
    atomicAdd(&histogram[min(degree_of(first, v), kDegreeBins - 1)], 1);
}

__global__ void neighbour_degrees(int vertices, const int* first, const Arc* arc, float* mean) {
    const int v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v >= vertices) return;
    mean[v] = 0;
    for (int a = first[v]; a < first[v + 1]; ++a) {
        mean[v] += float(degree_of(first, arc[a].target)) / float(degree_of(first, v));
    }
}

__global__ void sum_weights(int arcs, const Arc* arc, double* strength) {
    const int a = blockIdx.x * blockDim.x + threadIdx.x;
    if (a < arcs) atomicAdd(&strength[arc[a].source], double(arc[a].weight));
}

// Every vertex gives its rank to its neighbours, by the weights of the edges.
__global__ void push_ranks(int vertices, const int* first, const Arc* arc, const double* strength,
                           const double* rank, double* next, double* isolated) {
    const int v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v >= vertices) return;
    if (first[v] == first[v + 1]) {
        atomicAdd(isolated, rank[v]);
        return;
    }
    for (int a = first[v]; a < first[v + 1]; ++a) {
        atomicAdd(&next[arc[a].target], rank[v] * arc[a].weight / strength[v]);
    }
}

__global__ void apply_ranks(int vertices, const double* isolated, const double* next, double* rank,
                            double* change) {
    const int v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v >= vertices) return;
    const double updated =
        (1.0 - kDamping) / vertices + kDamping * (next[v] + *isolated / vertices);
    atomicAdd(change, fabs(updated - rank[v]));
    rank[v] = updated;
}

// Each triangle is found once, at the edge between its two lowest vertices.
__global__ void count_triangles(int arcs, const int* first, const Arc* arc, int* triangles,
                                Counter* total) {
    const int a = blockIdx.x * blockDim.x + threadIdx.x;
    if (a >= arcs) return;
    const int u = arc[a].source, v = arc[a].target;
    if (u > v) return;
    int i = first[u], j = first[v];
    while (i < first[u + 1] && j < first[v + 1]) {
        if (arc[i].target < arc[j].target) {
            ++i;
        } else if (arc[i].target > arc[j].target) {
            ++j;
        } else {
            if (arc[i].target > v) {
                atomicAdd(&triangles[u], 1);
                atomicAdd(&triangles[v], 1);
                atomicAdd(&triangles[arc[i].target], 1);
                atomicAdd(total, Counter(1));
            }
            ++i;
            ++j;
        }
    }
}

__global__ void clustering_coefficients(int vertices, const int* first, const int* triangles,
                                        float* clustering) {
    const int v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v >= vertices) return;
    const double degree = degree_of(first, v);
    clustering[v] = degree > 1 ? 2.0 * triangles[v] / (degree * (degree - 1.0)) : 0.0;
}

__global__ void start_labels(int vertices, int* label, int* active) {
    const int v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v >= vertices) return;
    label[v] = v;
    active[v] = 1;
}

// Labels that have become lower go on to the neighbours.
__global__ void spread_labels(int vertices, const int* first, const Arc* arc, const int* active,
                              int* label, int* next_active, int* changed) {
    const int v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v >= vertices || !active[v]) return;
    const int own = label[v];
    for (int a = first[v]; a < first[v + 1]; ++a) {
        const int u = arc[a].target;
        if (atomicMin(&label[u], own) > own) {
            next_active[u] = 1;
            *changed = 1;
        }
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
__global__ void peel(int vertices, const int* first, const Arc* arc, int k, int* remaining,
                     int* core, int* changed, Counter* removed) {
    const int v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v >= vertices) return;
    if (core[v] >= 0 || remaining[v] > k) return;
    core[v] = k;
    *changed = 1;
    atomicAdd(removed, Counter(1));
    for (int a = first[v]; a < first[v + 1]; ++a) atomicSub(&remaining[arc[a].target], 1);
}

__global__ void start_distances(int vertices, int landmark, int* distance) {
    const int v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v < vertices) distance[v] = v == landmark ? 0 : -1;
}

__global__ void expand_level(int vertices, const int* first, const Arc* arc, int level,
                             int* distance, int* changed) {
    const int v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v >= vertices || distance[v] != level) return;
    for (int a = first[v]; a < first[v + 1]; ++a) {
        if (atomicCAS(&distance[arc[a].target], -1, level + 1) == -1) *changed = 1;
    }
}

__global__ void add_closeness(int vertices, const int* distance, float* closeness) {
    const int v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v >= vertices) return;
    if (distance[v] >= 0) closeness[v] += 1.0 / (1.0 + distance[v]);
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
          blocks_(blocks_for(graph.vertices)) {
        first_ = upload(graph.first);
        arc_ = upload(graph.arc);
        histogram_ = allocate<int>(kDegreeBins);
        neighbour_degree_ = allocate<float>(vertices_);
        strength_ = allocate<double>(vertices_);
        rank_ = upload(std::vector<double>(vertices_, 1.0 / vertices_));
        next_rank_ = allocate<double>(vertices_);
        isolated_ = allocate<double>(1);
        change_ = allocate<double>(1);
        triangles_ = allocate<int>(vertices_);
        total_ = allocate<Counter>(1);
        clustering_ = allocate<float>(vertices_);
        label_ = allocate<int>(vertices_);
        active_ = allocate<int>(vertices_);
        next_active_ = allocate<int>(vertices_);
        size_ = allocate<int>(vertices_);
        remaining_ = allocate<int>(vertices_);
        core_ = allocate<int>(vertices_);
        distance_ = allocate<int>(vertices_);
        closeness_ = allocate<float>(vertices_);
        changed_ = allocate<int>(1);
        removed_ = allocate<Counter>(1);
    }

    ~Analysis() {
        for (void* pointer : std::initializer_list<void*>{
                 first_, arc_, histogram_, neighbour_degree_, strength_, rank_, next_rank_,
                 isolated_, change_, triangles_, total_, clustering_, label_, active_,
                 next_active_, size_, remaining_, core_, distance_, closeness_, changed_,
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
    void measure_degrees() {
        clear(histogram_, kDegreeBins);
        degree_histogram<<<blocks_, kThreads>>>(vertices_, first_, histogram_);
        CUDA_CHECK(cudaGetLastError());
        neighbour_degrees<<<blocks_, kThreads>>>(vertices_, first_, arc_, neighbour_degree_);
        CUDA_CHECK(cudaGetLastError());
    }

    int measure_ranks() {
        int iteration = 0;
        double change = 1;
        while (iteration < kMaxIterations && change > kTolerance) {
            clear(strength_, vertices_);
            clear(next_rank_, vertices_);
            clear(isolated_, 1);
            clear(change_, 1);
            sum_weights<<<blocks_for(arcs_), kThreads>>>(arcs_, arc_, strength_);
            CUDA_CHECK(cudaGetLastError());
            push_ranks<<<blocks_, kThreads>>>(vertices_, first_, arc_, strength_, rank_,
                                              next_rank_, isolated_);
            CUDA_CHECK(cudaGetLastError());
            apply_ranks<<<blocks_, kThreads>>>(vertices_, isolated_, next_rank_, rank_, change_);
            CUDA_CHECK(cudaGetLastError());
            change = download_value(change_);
            ++iteration;
        }
        return iteration;
    }

    void measure_triangles() {
        clear(triangles_, vertices_);
        clear(total_, 1);
        count_triangles<<<blocks_for(arcs_), kThreads>>>(arcs_, first_, arc_, triangles_, total_);
        CUDA_CHECK(cudaGetLastError());
        clustering_coefficients<<<blocks_, kThreads>>>(vertices_, first_, triangles_, clustering_);
        CUDA_CHECK(cudaGetLastError());
    }

    int find_components() {
        start_labels<<<blocks_, kThreads>>>(vertices_, label_, active_);
        CUDA_CHECK(cudaGetLastError());
        int rounds = 0;
        do {
            clear(next_active_, vertices_);
            clear(changed_, 1);
            spread_labels<<<blocks_, kThreads>>>(vertices_, first_, arc_, active_, label_,
                                                 next_active_, changed_);
            CUDA_CHECK(cudaGetLastError());
            CUDA_CHECK(cudaMemcpy(active_, next_active_, vertices_ * sizeof(int),
                                  cudaMemcpyDeviceToDevice));
            ++rounds;
        } while (download_value(changed_));
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
                peel<<<blocks_, kThreads>>>(vertices_, first_, arc_, k, remaining_, core_,
                                            changed_, removed_);
                CUDA_CHECK(cudaGetLastError());
            } while (download_value(changed_));
            if (download_value(removed_) == Counter(vertices_)) return k;
            ++k;
        }
    }

    void measure_closeness() {
        clear(closeness_, vertices_);
        for (int landmark : graph_.landmark) {
            start_distances<<<blocks_, kThreads>>>(vertices_, landmark, distance_);
            CUDA_CHECK(cudaGetLastError());
            int level = 0;
            do {
                clear(changed_, 1);
                expand_level<<<blocks_, kThreads>>>(vertices_, first_, arc_, level, distance_,
                                                    changed_);
                CUDA_CHECK(cudaGetLastError());
                ++level;
            } while (download_value(changed_));
            add_closeness<<<blocks_, kThreads>>>(vertices_, distance_, closeness_);
            CUDA_CHECK(cudaGetLastError());
        }
    }

    const Graph& graph_;
    const int vertices_, arcs_, blocks_;
    int* first_;
    Arc* arc_;
    int* histogram_;
    float* neighbour_degree_;
    double* strength_;
    double* rank_;
    double* next_rank_;
    double* isolated_;
    double* change_;
    int* triangles_;
    Counter* total_;
    float* clustering_;
    int* label_;
    int* active_;
    int* next_active_;
    int* size_;
    int* remaining_;
    int* core_;
    int* distance_;
    float* closeness_;
    int* changed_;
    Counter* removed_;
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
