// Input and output of seismic_migration: a survey made from a seed, the command line, the file of
// results.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

constexpr int kRadius = 4;           // of the stencil
constexpr int kSnapshotInterval = 4; // steps
constexpr int kEnergyInterval = 8;   // steps
constexpr int kTaps = 40;            // of the filter, on either side
constexpr float kSpacing = 10.0f;    // m
constexpr float kTimeStep = 1.25e-3f;
constexpr float kPeakFrequency = 28.0f;
constexpr float kLowFrequency = 8.0f;
constexpr float kHighFrequency = 60.0f;
constexpr float kSurfaceVelocity = 1800.0f;
constexpr float kMaxVelocity = 3300.0f;
constexpr float kPi = 3.14159265f;

struct Options {
    std::uint64_t seed = 1;
    int size = 210;
    int steps = 160;
    std::string out;
};

// Cell x, y, z is at x + nx * (y + ny * z). Fields are zero in the outer kRadius cells.
struct Grid {
    int nx, ny, nz;
    int sponge;  // width of the absorbing boundary

    std::size_t cells() const { return std::size_t(nx) * ny * nz; }
};

// In cells; never within the absorbing boundary.
struct Position {
    float x, y, z;
};

struct Survey {
    Grid grid;
    int steps;
    Position source;
    std::vector<Position> receiver;
    std::vector<float> true_velocity;    // the earth, with which the traces are modelled
    std::vector<float> smooth_velocity;  // what is known of it, with which they are migrated
};

class Random {
public:
    explicit Random(std::uint64_t seed) : state_(seed * 0xD1342543DE82EF95ull + 7) {}

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
        } else if (name == "--size" && value) {
            options.size = std::atoi(value);
        } else if (name == "--steps" && value) {
            options.steps = std::atoi(value);
        } else if (name == "--out" && value) {
            options.out = value;
        } else {
            std::fprintf(stderr, "usage: %s [--seed N] [--size N] [--steps N] [--out FILE]\n",
                         argv[0]);
            std::exit(2);
        }
    }
    if (options.size < 52 || options.size > 240 || options.steps < 1 || options.steps > 200) {
        std::fprintf(stderr, "--size must be from 52 to 240, --steps from 1 to 200\n");
        std::exit(2);
    }
    return options;
}

inline Survey make_survey(const Options& options) {
    Random random(options.seed);
    Survey survey;
    Grid& grid = survey.grid;
    grid = {options.size, options.size * 12 / 13, options.size * 10 / 13, options.size / 10};
    survey.steps = options.steps;

    struct Layer {
        double depth, dip_x, dip_y, velocity;
    };
    std::vector<Layer> layers(3);
    double depth = grid.sponge + 6;
    for (Layer& layer : layers) {
        depth += 2 + 4 * random.uniform();
        layer = {depth, 0.06 * (random.uniform() - 0.5), 0.06 * (random.uniform() - 0.5),
                 200 + 150 * random.uniform()};
    }
    survey.true_velocity.resize(grid.cells());
    survey.smooth_velocity.resize(grid.cells());
    std::size_t cell = 0;
    for (int z = 0; z < grid.nz; ++z) {
        const double below = std::max(0, z - grid.sponge);
        const double smooth = std::min(kSurfaceVelocity + 6.0 * below, 2400.0);
        for (int y = 0; y < grid.ny; ++y) {
            for (int x = 0; x < grid.nx; ++x, ++cell) {
                double velocity = smooth;
                for (const Layer& layer : layers) {
                    if (z > layer.depth + layer.dip_x * (x - grid.nx / 2) +
                                layer.dip_y * (y - grid.ny / 2))
                        velocity += layer.velocity;
                }
                survey.true_velocity[cell] = std::min(float(velocity), kMaxVelocity);
                survey.smooth_velocity[cell] = float(smooth);
            }
        }
    }

    // Receivers hang on cables; the recorder numbers them in the order in which they answered.
    const int cables = 12, along = 500;
    const float first = grid.sponge + 2.0f;
    for (int cable = 0; cable < cables; ++cable) {
        for (int i = 0; i < along; ++i) {
            const float x =
                first + (grid.nx - 2 * first - 2) * (i + float(random.uniform())) / along;
            const float y = first + (grid.ny - 2 * first - 2) * (cable + 0.5f) / cables +
                            0.5f * float(random.uniform());
            survey.receiver.push_back({x, y, grid.sponge + 2 + float(random.uniform())});
        }
    }
    for (int i = int(survey.receiver.size()) - 1; i > 0; --i)
        std::swap(survey.receiver[i], survey.receiver[random.below(i + 1)]);
    survey.source = {grid.nx * 0.5f + float(random.uniform()),
                     grid.ny * 0.5f + float(random.uniform()),
                     grid.sponge + 3 + float(random.uniform())};
    return survey;
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

    void write(const char* name, const float* values, std::size_t count) {
        char title[16] = {};
        std::snprintf(title, sizeof(title), "%s", name);
        const std::uint64_t size = count;
        std::fwrite(title, sizeof(title), 1, file_);
        std::fwrite(&size, sizeof(size), 1, file_);
        std::fwrite(values, sizeof(float), count, file_);
    }

private:
    std::FILE* file_;
};

// observed: the traces as recorded, receiver by receiver; image: of every cell; energy: every
// kEnergyInterval steps of the three propagations.
inline void write_results(const Options& options, const Survey& survey,
                          const std::vector<float>& observed, const std::vector<float>& image,
                          const std::vector<float>& energy) {
    if (options.out.empty()) return;
    std::vector<float> geometry = {kSpacing, kTimeStep, kMaxVelocity,
                                   survey.source.x, survey.source.y, survey.source.z};
    for (const Position& receiver : survey.receiver) {
        geometry.push_back(receiver.x);
        geometry.push_back(receiver.y);
        geometry.push_back(receiver.z);
    }
    ResultFile file(options.out);
    file.write("geometry", geometry.data(), geometry.size());
    file.write("observed", observed.data(), observed.size());
    file.write("image", image.data(), image.size());
    file.write("energy", energy.data(), energy.size());
}
