// Input and output of graph_measures: a graph made from a seed, the command line, the file of
// results.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

constexpr int kGroup = 32;        // members of a community
constexpr int kLandmarks = 6;     // vertices to which distances are measured
constexpr int kDegreeBins = 64;   // the last one holds all higher degrees
constexpr int kMaxIterations = 30;
constexpr double kDamping = 0.85;
constexpr double kTolerance = 1e-7;  // of the ranks: the sum of all changes in an iteration

// An edge is two arcs, one in each direction. Arcs are sorted by source, then by target.
struct Arc {
    int source;
    int target;
    float weight;
    int group;  // of the source
};

struct Graph {
    int vertices = 0;
    std::vector<int> first;  // arc of each vertex, and one more
    std::vector<Arc> arc;
    std::vector<int> landmark;
};

struct Options {
    std::uint64_t seed = 1;
    int vertices = 320000;
    std::string out;
};

class Random {
public:
    explicit Random(std::uint64_t seed) : state_(seed * 0xBF58476D1CE4E5B9ull + 11) {}

    std::uint64_t next() {
        std::uint64_t z = (state_ += 0x9E3779B97F4A7C15ull);
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
        return z ^ (z >> 31);
    }
    double uniform() { return double(next() >> 11) * 0x1p-53; }
    int below(int limit) { return int((next() >> 32) * std::uint64_t(limit) >> 32); }

private:
    std::uint64_t state_;
};

inline Options read_options(int argc, char** argv) {
    Options options;
    for (int i = 1; i < argc; i += 2) {
        const std::string name = argv[i];
        const char* value = i + 1 < argc ? argv[i + 1] : nullptr;
        if (name == "--seed" && value) {
            options.seed = std::strtoull(value, nullptr, 10);
        } else if (name == "--vertices" && value) {
            options.vertices = std::atoi(value);
        } else if (name == "--out" && value) {
            options.out = value;
        } else {
            std::fprintf(stderr, "usage: %s [--seed N] [--vertices N] [--out FILE]\n", argv[0]);
            std::exit(2);
        }
    }
    if (options.vertices < 1000 || options.vertices > 2000000) {
        std::fprintf(stderr, "--vertices must be from 1000 to 2000000\n");
        std::exit(2);
    }
    return options;
}

using Edge = std::pair<int, int>;

// A core of communities with popular members, chains that hang on it, and small separate parts.
inline std::vector<Edge> make_edges(int core, Random& random, int& vertices) {
    std::vector<Edge> edges;
    edges.reserve(std::size_t(core) * 11);
    const auto popular = [&] {
        return std::min(int(core * std::pow(random.uniform(), 1.0 / 0.62)), core - 1);
    };
    for (std::size_t i = 0; i < std::size_t(core) * 5; ++i) {
        const int a = popular();
        edges.emplace_back(a, popular());
    }
    for (std::size_t i = 0; i < std::size_t(core) * 5; ++i) {
        const int a = random.below(core), start = a / kGroup * kGroup;
        edges.emplace_back(a, start + random.below(std::min(kGroup, core - start)));
    }
    vertices = core;
    for (int chain = 0; chain < core / 1600; ++chain) {
        int last = random.below(core);
        for (int left = 40 + random.below(200); left > 0; --left) {
            edges.emplace_back(last, vertices);
            last = vertices++;
        }
    }
    for (int part = 0; part < core / 200; ++part) {
        const int start = vertices;
        vertices += 1 + random.below(6);
        for (int v = start + 1; v < vertices; ++v)
            edges.emplace_back(start + random.below(v - start), v);
    }
    return edges;
}

inline Graph make_graph(const Options& options) {
    Random random(options.seed);
    Graph graph;
    const std::vector<Edge> edges = make_edges(options.vertices, random, graph.vertices);

    std::vector<int> number(graph.vertices);
    std::iota(number.begin(), number.end(), 0);
    for (int i = graph.vertices - 1; i > 0; --i)
        std::swap(number[i], number[random.below(i + 1)]);
    std::vector<int> group(graph.vertices);
    for (int v = 0; v < graph.vertices; ++v) group[number[v]] = v / kGroup;

    std::vector<int> start(graph.vertices + 1, 0);
    for (const Edge& edge : edges) {
        if (edge.first == edge.second) continue;
        ++start[number[edge.first] + 1];
        ++start[number[edge.second] + 1];
    }
    std::partial_sum(start.begin(), start.end(), start.begin());
    std::vector<int> target(start.back()), free(start.begin(), start.end() - 1);
    for (const Edge& edge : edges) {
        if (edge.first == edge.second) continue;
        const int a = number[edge.first], b = number[edge.second];
        target[free[a]++] = b;
        target[free[b]++] = a;
    }

    graph.first.assign(1, 0);
    graph.first.reserve(graph.vertices + 1);
    graph.arc.reserve(target.size());
    for (int v = 0; v < graph.vertices; ++v) {
        const auto begin = target.begin() + start[v];
        auto end = target.begin() + start[v + 1];
        std::sort(begin, end);
        end = std::unique(begin, end);
        for (auto to = begin; to != end; ++to) {
            const std::uint32_t pair = std::uint32_t(std::min(v, *to)) * 2654435761u ^
                                       std::uint32_t(std::max(v, *to)) * 2246822519u;
            graph.arc.push_back({v, *to, 0.5f + float(pair >> 8) * 0x1p-24f, group[v]});
        }
        graph.first.push_back(int(graph.arc.size()));
    }
    for (int i = 0; i < kLandmarks; ++i)
        graph.landmark.push_back(number[random.below(options.vertices)]);
    return graph;
}

class ResultFile {
public:
    explicit ResultFile(const std::string& path) : file_(std::fopen(path.c_str(), "wb")) {
        if (!file_) {
            std::fprintf(stderr, "cannot write %s\n", path.c_str());
            std::exit(1);
        }
    }
    ~ResultFile() { std::fclose(file_); }
    ResultFile(const ResultFile&) = delete;
    ResultFile& operator=(const ResultFile&) = delete;

    // The last character of the title is the type, as Python's array has it.
    template <typename T>
    void write(const char* name, const std::vector<T>& values) {
        static_assert(std::is_same<T, int>() || std::is_same<T, float>() ||
                      std::is_same<T, double>() || std::is_same<T, std::int64_t>());
        char title[16] = {};
        std::snprintf(title, sizeof(title) - 1, "%s", name);
        title[15] = std::is_same<T, int>()     ? 'i'
                    : std::is_same<T, float>()  ? 'f'
                    : std::is_same<T, double>() ? 'd'
                                                : 'q';
        const std::uint64_t size = values.size();
        std::fwrite(title, sizeof(title), 1, file_);
        std::fwrite(&size, sizeof(size), 1, file_);
        std::fwrite(values.data(), sizeof(T), values.size(), file_);
    }

private:
    std::FILE* file_;
};

struct Measures {
    std::vector<int> histogram;           // of degrees
    std::vector<float> neighbour_degree;  // mean of the neighbours' degrees; 0 without any
    std::vector<double> rank;             // their sum is 1
    std::vector<int> triangles;           // of each vertex
    std::vector<std::int64_t> total;      // of triangles in the graph: one value
    std::vector<float> clustering;        // triangles / pairs of neighbours
    std::vector<int> component;           // the lowest vertex that can be reached
    std::vector<int> component_size;      // at that vertex; 0 elsewhere
    std::vector<int> core;                // highest k for which the vertex is in the k-core
    std::vector<float> closeness;         // sum of 1 / (1 + distance) over the landmarks
};

inline void write_results(const Options& options, const Measures& measures) {
    if (options.out.empty()) return;
    ResultFile file(options.out);
    file.write("histogram", measures.histogram);
    file.write("neighbours", measures.neighbour_degree);
    file.write("rank", measures.rank);
    file.write("triangles", measures.triangles);
    file.write("total", measures.total);
    file.write("clustering", measures.clustering);
    file.write("component", measures.component);
    file.write("component_size", measures.component_size);
    file.write("core", measures.core);
    file.write("closeness", measures.closeness);
}
