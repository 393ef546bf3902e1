// Input and output of fem_heat: a tetrahedral mesh made from a seed, the command line, the file
// of results.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

constexpr int kMaterials = 4;
constexpr int kSteps = 4;
constexpr int kMaxIterations = 200;
constexpr double kTolerance = 1e-10;  // of the residual, relative to the right-hand side
constexpr double kStartTemperature = 300.0;
constexpr double kSourceHeat = 2e8;  // per volume and step, at the centre of the source
constexpr double kSourceWidth = 0.08;

struct Point {
    double x, y, z;
};

struct Element {
    int node[4];
    int material;
};

// A part that is not meshed (a cooler, a clamp) has one temperature; links couple surface nodes
// to it.
struct Link {
    int node;
    int part;
    double conductance;
};

struct Material {
    double conductivity;  // at kStartTemperature
    double exponent;      // conductivity changes with (temperature / kStartTemperature) ^ exponent
    double heat_capacity; // by volume
};

struct Mesh {
    int nodes = 0;  // of the mesh; rows nodes ... nodes + parts - 1 of the system are the parts
    int parts = 0;
    double part_capacity = 0;
    double time_step = 0;
    std::vector<Point> position;
    std::vector<Element> element;
    std::vector<Link> link;
    Material material[kMaterials];
    std::vector<int> row_start;  // the pattern of the matrix, columns in ascending order
    std::vector<int> column;

    int rows() const { return nodes + parts; }
};

struct Options {
    std::uint64_t seed = 1;
    int cells = 80;
    std::string out;
};

class Random {
public:
    explicit Random(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15ull + 1) {}

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
        } else if (name == "--cells" && value) {
            options.cells = std::atoi(value);
        } else if (name == "--out" && value) {
            options.out = value;
        } else {
            std::fprintf(stderr, "usage: %s [--seed N] [--cells N] [--out FILE]\n", argv[0]);
            std::exit(2);
        }
    }
    if (options.cells < 2 || options.cells > 96) {
        std::fprintf(stderr, "--cells must be from 2 to 96\n");
        std::exit(2);
    }
    return options;
}

inline std::vector<int> shuffled(int count, Random& random) {
    std::vector<int> order(count);
    std::iota(order.begin(), order.end(), 0);
    for (int i = count - 1; i > 0; --i) std::swap(order[i], order[random.below(i + 1)]);
    return order;
}

inline void make_pattern(Mesh& mesh, int side, const std::vector<int>& number) {
    std::vector<int> place(mesh.nodes), part_of(mesh.nodes, -1), part_links(mesh.parts, 0);
    for (int i = 0; i < mesh.nodes; ++i) place[number[i]] = i;
    for (const Link& link : mesh.link) {
        part_of[link.node] = link.part;
        ++part_links[link.part];
    }
    mesh.row_start.assign(1, 0);
    mesh.row_start.reserve(mesh.rows() + 1);
    mesh.column.reserve(std::size_t(mesh.nodes) * 15 + 2 * mesh.link.size() + mesh.parts);
    for (int row = 0; row < mesh.nodes; ++row) {
        const int x = place[row] % side, y = place[row] / side % side, z = place[row] / side / side;
        const std::size_t start = mesh.column.size();
        mesh.column.push_back(row);
        for (int sign = -1; sign <= 1; sign += 2) {
            for (int corner = 1; corner < 8; ++corner) {
                const int i = x + sign * (corner & 1), j = y + sign * (corner >> 1 & 1),
                          k = z + sign * (corner >> 2);
                if (i < 0 || j < 0 || k < 0 || i >= side || j >= side || k >= side) continue;
                mesh.column.push_back(number[(k * side + j) * side + i]);
            }
        }
        if (part_of[row] >= 0) mesh.column.push_back(mesh.nodes + part_of[row]);
        std::sort(mesh.column.begin() + start, mesh.column.end());
        mesh.row_start.push_back(int(mesh.column.size()));
    }
    std::vector<std::vector<int>> linked(mesh.parts);
    for (const Link& link : mesh.link) linked[link.part].push_back(link.node);
    for (int part = 0; part < mesh.parts; ++part) {
        std::sort(linked[part].begin(), linked[part].end());
        mesh.column.insert(mesh.column.end(), linked[part].begin(), linked[part].end());
        mesh.column.push_back(mesh.nodes + part);
        mesh.row_start.push_back(int(mesh.column.size()));
    }
}

inline Mesh make_mesh(const Options& options) {
    Random random(options.seed);
    const int cells = options.cells, side = cells + 1;
    const double spacing = 1.0 / cells;
    Mesh mesh;
    mesh.nodes = side * side * side;
    mesh.parts = 30;
    mesh.material[0] = {40.0, -0.6, 3.5e6};
    mesh.material[1] = {15.0, 0.4, 4.0e6};
    mesh.material[2] = {120.0, -1.1, 3.4e6};
    mesh.material[3] = {60.0, 0.1, 2.5e6};
    mesh.part_capacity = 3e6 * 0.001;
    mesh.time_step = 2.0 * spacing * spacing * 3.5e6 / 60.0;

    // Mesh generators number nodes and elements in the order in which they create them.
    const std::vector<int> number = shuffled(mesh.nodes, random);
    mesh.position.resize(mesh.nodes);
    for (int k = 0, i = 0; k < side; ++k) {
        for (int j = 0; j < side; ++j) {
            for (int l = 0; l < side; ++l, ++i) {
                double at[3] = {l * spacing, j * spacing, k * spacing};
                const int index[3] = {l, j, k};
                for (int axis = 0; axis < 3; ++axis) {
                    const double shift = 0.15 * spacing * (2 * random.uniform() - 1);
                    if (index[axis] > 0 && index[axis] < cells) at[axis] += shift;
                }
                mesh.position[number[i]] = {at[0], at[1], at[2]};
            }
        }
    }

    struct Inclusion {
        Point centre;
        double radius;
        int material;
    };
    std::vector<Inclusion> inclusions(24);
    for (Inclusion& inclusion : inclusions) {
        inclusion.centre = {random.uniform(), random.uniform(), random.uniform()};
        inclusion.radius = 0.05 + 0.1 * random.uniform();
        inclusion.material = 1 + random.below(kMaterials - 1);
    }

    static const int kPaths[6][2] = {{1, 3}, {1, 5}, {2, 3}, {2, 6}, {4, 5}, {4, 6}};
    const std::vector<int> order = shuffled(cells * cells * cells, random);
    mesh.element.reserve(std::size_t(order.size()) * 6);
    for (int cell : order) {
        const int x = cell % cells, y = cell / cells % cells, z = cell / cells / cells;
        const double px = (x + 0.5) * spacing, py = (y + 0.5) * spacing, pz = (z + 0.5) * spacing;
        int material = 0;
        for (const Inclusion& inclusion : inclusions) {
            const double dx = px - inclusion.centre.x, dy = py - inclusion.centre.y,
                         dz = pz - inclusion.centre.z;
            if (dx * dx + dy * dy + dz * dz < inclusion.radius * inclusion.radius)
                material = inclusion.material;
        }
        int corner[8];
        for (int c = 0; c < 8; ++c)
            corner[c] = number[((z + (c >> 2)) * side + y + (c >> 1 & 1)) * side + x + (c & 1)];
        for (const int(&path)[2] : kPaths)
            mesh.element.push_back(
                {{corner[0], corner[path[0]], corner[path[1]], corner[7]}, material});
    }

    for (int j = 0; j < side; ++j) {
        for (int i = 0; i < side; ++i) {
            const int part = (j * 5 / side) * 6 + i * 6 / side;
            const double conductance = (2e3 + 1e3 * random.uniform()) * spacing * spacing;
            mesh.link.push_back({number[j * side + i], part, conductance});
        }
    }
    make_pattern(mesh, side, number);
    return mesh;
}

// The heat source moves along a line below the upper face.
inline Point source_position(int step) {
    return {0.3 + 0.1 * step, 0.45 + 0.02 * step, 0.85};
}

struct Step {
    double energy;    // of all nodes and parts, after the step
    double injected;  // by the source, in this step
    double hottest;
};

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

    void write(const char* name, const double* values, std::size_t count) {
        char title[16] = {};
        std::snprintf(title, sizeof(title), "%s", name);
        const std::uint64_t size = count;
        std::fwrite(title, sizeof(title), 1, file_);
        std::fwrite(&size, sizeof(size), 1, file_);
        std::fwrite(values, sizeof(double), count, file_);
    }

private:
    std::FILE* file_;
};

// temperature: of every row; capacity: of every row; flux: x, y, z of every node.
inline void write_results(const Options& options, const std::vector<double>& temperature,
                          const std::vector<double>& capacity, const std::vector<double>& flux,
                          const std::vector<Step>& steps) {
    if (options.out.empty()) return;
    std::vector<double> history;
    for (const Step& step : steps) {
        history.push_back(step.energy);
        history.push_back(step.injected);
        history.push_back(step.hottest);
    }
    ResultFile file(options.out);
    file.write("temperature", temperature.data(), temperature.size());
    file.write("capacity", capacity.data(), capacity.size());
    file.write("flux", flux.data(), flux.size());
    file.write("history", history.data(), history.size());
}
