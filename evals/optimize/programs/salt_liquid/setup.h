// Input and results of salt_liquid: command line, particles from the seed, file of results.
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

constexpr int kSpecies = 4;
constexpr int kKinds = 3;       // of pairs: both positive, both negative, unlike
constexpr int kBins = 200;      // of the pair histogram, from 0 to the cutoff
constexpr int kSeries = 11;     // kinetic, potential by kind, virial, momentum x y z,
                                // mean square displacement, scale of velocities, particles in cells

constexpr float kDensity = 0.8f;
constexpr float kCutoff = 2.5f;
constexpr float kScreening = 1.5f;
constexpr float kCoupling = 4.0f;      // of charges
constexpr float kTimeStep = 0.002f;
constexpr float kTemperature = 1.2f;
constexpr float kRelaxation = 0.1f;    // of the thermostat
constexpr int kHistogramEvery = 6;     // steps between two samples of the pair histogram

struct Species {
    float mass, epsilon, sigma, charge;
};

const Species kSpeciesTable[kSpecies] = {
    {1.0f, 1.0f, 1.00f, 1.0f},
    {1.2f, 0.8f, 1.05f, -1.0f},
    {0.8f, 0.9f, 0.92f, 0.5f},
    {1.5f, 1.1f, 0.97f, -0.5f},
};

struct Options {
    int side = 64;  // side^3 particles
    int steps = 24;
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
        else if (name == "--side") o.side = std::atoi(value);
        else if (name == "--out") o.out = value;
        else {
            std::fprintf(stderr, "unknown option %s\n", name.c_str());
            std::exit(2);
        }
    }
    if (o.side < 8 || o.side > 128 || o.steps < 1) {
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
    int count = 0;
    float box = 0.0f;             // side of the periodic cube
    int cells_per_side = 0;       // no cell is narrower than the cutoff
    std::vector<float> x, y, z, vx, vy, vz;
    std::vector<int> species;
};

// A simple cubic lattice with small displacements, in no order, as many of one species as of another.
inline Setup make_setup(const Options& o) {
    Setup s;
    Random random(o.seed);
    s.count = o.side * o.side * o.side;
    s.box = static_cast<float>(o.side / std::cbrt(static_cast<double>(kDensity)));
    s.cells_per_side = static_cast<int>(s.box / kCutoff);
    std::vector<int> site(s.count);
    for (int i = 0; i < s.count; ++i) site[i] = i;
    for (int i = s.count - 1; i > 0; --i) {
        int j = static_cast<int>(random.uniform() * (i + 1));
        std::swap(site[i], site[j < i ? j : i]);
    }
    float spacing = s.box / o.side;
    double momentum[3] = {0.0, 0.0, 0.0}, mass = 0.0;
    for (int i = 0; i < s.count; ++i) {
        int species = i % kSpecies;
        float m = kSpeciesTable[species].mass;
        float place[3] = {site[i] % o.side + 0.5f, site[i] / o.side % o.side + 0.5f,
                          site[i] / (o.side * o.side) + 0.5f};
        float speed[3];
        for (int axis = 0; axis < 3; ++axis) {
            place[axis] = (place[axis] + 0.1f * (random.uniform() - 0.5f)) * spacing;
            float bell = 0.0f;  // about normal, with variance 1
            for (int k = 0; k < 4; ++k) bell += random.uniform() - 0.5f;
            speed[axis] = bell * std::sqrt(3.0f * kTemperature / m);
            momentum[axis] += m * speed[axis];
        }
        mass += m;
        s.x.push_back(place[0]);
        s.y.push_back(place[1]);
        s.z.push_back(place[2]);
        s.vx.push_back(speed[0]);
        s.vy.push_back(speed[1]);
        s.vz.push_back(speed[2]);
        s.species.push_back(species);
    }
    for (int i = 0; i < s.count; ++i) {
        s.vx[i] -= static_cast<float>(momentum[0] / mass);
        s.vy[i] -= static_cast<float>(momentum[1] / mass);
        s.vz[i] -= static_cast<float>(momentum[2] / mass);
    }
    return s;
}

// Particles are in the order of the setup.
struct Results {
    std::vector<double> series;      // kSeries for each of steps + 1 states
    std::vector<int> histogram;      // kKinds * kBins, all samples together, each pair once
    std::vector<float> x, y, z, vx, vy, vz, fx, fy, fz;
};

// How velocities are scaled after a step whose kinetic energy is known.
inline double thermostat_scale(double kinetic, int count) {
    double temperature = 2.0 * kinetic / (3.0 * count);
    return std::sqrt(1.0 + kTimeStep / kRelaxation * (kTemperature / temperature - 1.0));
}

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

// Positions of all particles, velocities and forces of every `kThin`-th.
inline void write_results(const Options& o, const Setup& s, const Results& r) {
    constexpr size_t kThin = 11;
    std::vector<float> motion;
    for (size_t i = 0; i < r.vx.size(); i += kThin)
        motion.insert(motion.end(), {r.vx[i], r.vy[i], r.vz[i], r.fx[i], r.fy[i], r.fz[i]});
    std::vector<double> species;
    for (const Species& k : kSpeciesTable)
        species.insert(species.end(), {k.mass, k.epsilon, k.sigma, k.charge});
    ResultFile file(o.out);
    file.add("sizes", std::vector<int>{s.count, o.steps, s.cells_per_side, static_cast<int>(o.seed)});
    file.add("constants", std::vector<double>{s.box, kCutoff, kScreening, kCoupling});
    file.add("species_table", species);
    file.add("species", s.species);
    file.add("series", r.series);
    file.add("histogram", r.histogram);
    file.add("x", r.x);
    file.add("y", r.y);
    file.add("z", r.z);
    file.add("motion", motion);
}
