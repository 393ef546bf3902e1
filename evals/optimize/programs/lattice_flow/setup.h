// Input and results of lattice_flow: command line, obstacles and tracers from the seed, file of results.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#define CUDA_CHECK(call)                                                                  \
    do {                                                                                  \
        cudaError_t status_ = (call);                                                     \
        if (status_ != cudaSuccess) {                                                     \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__,                       \
                         cudaGetErrorString(status_));                                    \
            std::exit(1);                                                                 \
        }                                                                                 \
    } while (0)

constexpr int kDirections = 19;
constexpr int kSpheres = 12;
constexpr int kBodies = kSpheres + 3;  // 0 is fluid, 1 and 2 are the walls, then the spheres
constexpr int kSeries = 6;             // mass, momentum x y z, kinetic energy, highest speed

constexpr float kViscosity = 0.02f;
constexpr float kBodyForce = 2.0e-5f;  // along x, per cell and step
constexpr float kInflow = 0.06f;       // mean velocity at the start
constexpr int kSlabEvery = 4;          // steps between two counts of tracers per slab

struct Options {
    int nx = 160, ny = 128, nz = 128;
    int steps = 40;
    int tracers = 400000;
    uint64_t seed = 1;
    std::string out;
};

inline Options parse_options(int argc, char** argv) {
    Options o;
    for (int i = 1; i < argc; ++i) {
        std::string name = argv[i];
        if (i + 1 == argc) {
            std::fprintf(stderr, "%s needs a value\n", name.c_str());
            std::exit(2);
        }
        const char* value = argv[++i];
        if (name == "--seed") o.seed = std::strtoull(value, nullptr, 10);
        else if (name == "--steps") o.steps = std::atoi(value);
        else if (name == "--nx") o.nx = std::atoi(value);
        else if (name == "--ny") o.ny = std::atoi(value);
        else if (name == "--nz") o.nz = std::atoi(value);
        else if (name == "--tracers") o.tracers = std::atoi(value);
        else if (name == "--out") o.out = value;
        else {
            std::fprintf(stderr, "unknown option %s\n", name.c_str());
            std::exit(2);
        }
    }
    if (o.nx < 8 || o.ny < 8 || o.nz < 8 || o.steps < 1 || o.tracers < 1 ||
        static_cast<double>(o.nx + 2) * (o.ny + 2) * (o.nz + 2) * kDirections > 2.0e9) {
        std::fprintf(stderr, "sizes are out of range\n");
        std::exit(2);
    }
    return o;
}

class Random {  // splitmix64
  public:
    explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15ull + 0x632be59bd9b4e019ull) {}

    float uniform() {
        state_ += 0x9e3779b97f4a7c15ull;
        uint64_t z = state_;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
        z ^= z >> 31;
        return static_cast<float>(z >> 40) * (1.0f / 16777216.0f);
    }

  private:
    uint64_t state_;
};

struct Setup {
    std::vector<int> body;                // interior cells, x fastest: 0 is fluid
    std::vector<float> tracer_x, tracer_y, tracer_z;
    int fluid_cells = 0;
    float phase = 0.0f;                   // of the perturbation at the start
};

// Walls below and above (z), spheres between them. Tracers start in fluid, in no order.
inline Setup make_setup(const Options& o) {
    Setup s;
    Random random(o.seed);
    s.phase = 6.2831853f * random.uniform();
    s.body.assign(static_cast<size_t>(o.nx) * o.ny * o.nz, 0);
    auto at = [&](int x, int y, int z) -> int& {
        return s.body[(static_cast<size_t>(z) * o.ny + y) * o.nx + x];
    };
    for (int k = 0; k < kSpheres; ++k) {
        int shortest = o.nx < o.ny ? o.nx : o.ny;
        shortest = shortest < o.nz ? shortest : o.nz;
        float r = (0.04f + 0.06f * random.uniform()) * shortest + 1.0f;
        float cx = random.uniform() * o.nx, cy = random.uniform() * o.ny;
        float cz = r + 2.0f + random.uniform() * (o.nz - 2.0f * r - 4.0f);
        int reach = static_cast<int>(r) + 1;
        for (int dz = -reach; dz <= reach; ++dz)
            for (int dy = -reach; dy <= reach; ++dy)
                for (int dx = -reach; dx <= reach; ++dx) {
                    int z = static_cast<int>(cz) + dz;
                    if (dx * dx + dy * dy + dz * dz > r * r || z < 0 || z >= o.nz) continue;
                    int x = (static_cast<int>(cx) + dx + o.nx) % o.nx;
                    int y = (static_cast<int>(cy) + dy + o.ny) % o.ny;
                    at(x, y, z) = 3 + k;
                }
    }
    for (int y = 0; y < o.ny; ++y)
        for (int x = 0; x < o.nx; ++x) {
            at(x, y, 0) = 1;
            at(x, y, o.nz - 1) = 2;
        }
    for (int body : s.body) s.fluid_cells += body == 0;
    while (static_cast<int>(s.tracer_x.size()) < o.tracers) {
        float x = random.uniform() * o.nx, y = random.uniform() * o.ny, z = random.uniform() * o.nz;
        int cx = static_cast<int>(x), cy = static_cast<int>(y), cz = static_cast<int>(z);
        if (cx >= o.nx || cy >= o.ny || cz >= o.nz || at(cx, cy, cz) != 0) continue;
        s.tracer_x.push_back(x);
        s.tracer_y.push_back(y);
        s.tracer_z.push_back(z);
    }
    return s;
}

// All fields are of interior cells, x fastest, without halo.
struct Results {
    std::vector<double> series;    // kSeries for each of steps + 1 states
    std::vector<double> forces;    // kBodies * 3 for each step: momentum given to each body
    std::vector<int> slabs;        // nx for each count: tracers with that cell in x
    std::vector<float> density, velocity_x, velocity_y, velocity_z, vorticity;
    std::vector<float> tracer_x, tracer_y, tracer_z, tracer_path;
};

class ResultFile {
  public:
    explicit ResultFile(const std::string& path) : file_(std::fopen(path.c_str(), "wb")) {
        if (!file_) {
            std::perror(path.c_str());
            std::exit(1);
        }
    }
    ~ResultFile() { std::fclose(file_); }

    void add(const char* name, const std::vector<float>& v) { block(name, 'f', v.data(), v.size(), 4); }
    void add(const char* name, const std::vector<int>& v) { block(name, 'i', v.data(), v.size(), 4); }
    void add(const char* name, const std::vector<double>& v) { block(name, 'd', v.data(), v.size(), 8); }

  private:
    void block(const char* name, char type, const void* data, size_t count, size_t width) {
        char head[24] = {};
        std::strncpy(head, name, 22);
        head[23] = type;
        uint64_t n = count;
        if (std::fwrite(head, 1, 24, file_) != 24 || std::fwrite(&n, 8, 1, file_) != 1 ||
            std::fwrite(data, width, count, file_) != count) {
            std::perror("writing results");
            std::exit(1);
        }
    }

    std::FILE* file_;
};

// Sums of the whole fields, and every `kThin`-th cell and tracer themselves.
inline void write_results(const Options& o, const Setup& s, const Results& r) {
    constexpr size_t kThin = 37;
    std::vector<double> sums(5, 0.0);
    std::vector<float> cells, tracers;
    for (size_t i = 0; i < s.body.size(); ++i) {
        if (s.body[i] != 0) continue;
        double m = r.density[i], ux = r.velocity_x[i], uy = r.velocity_y[i], uz = r.velocity_z[i];
        sums[0] += m;
        sums[1] += m * ux;
        sums[2] += m * uy;
        sums[3] += m * uz;
        sums[4] += 0.5 * m * (ux * ux + uy * uy + uz * uz);
        if (i % kThin == 0)
            cells.insert(cells.end(), {r.density[i], r.velocity_x[i], r.velocity_y[i],
                                       r.velocity_z[i], r.vorticity[i]});
    }
    for (size_t i = 0; i < r.tracer_x.size(); i += kThin)
        tracers.insert(tracers.end(),
                       {r.tracer_x[i], r.tracer_y[i], r.tracer_z[i], r.tracer_path[i]});
    ResultFile file(o.out);
    file.add("sizes", std::vector<int>{o.nx, o.ny, o.nz, o.steps, o.tracers, s.fluid_cells,
                                       static_cast<int>(o.seed)});
    file.add("body_force", std::vector<double>{kBodyForce});
    file.add("series", r.series);
    file.add("forces", r.forces);
    file.add("slabs", r.slabs);
    file.add("sums", sums);
    file.add("cells", cells);
    file.add("tracers", tracers);
}
