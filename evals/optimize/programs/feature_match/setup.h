// Input and results of feature_match: command line, two views of a scene from the seed, what is fitted
// on the host, file of results.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
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

constexpr int kLevels = 4;             // of the pyramid
constexpr int kCandidates = 1 << 17;   // more corners than this in a view are an error
constexpr int kDescriptor = 128;       // 4 x 4 cells of 8 directions
constexpr int kAngles = 36;            // bins for the direction of a feature
constexpr int kBorder = 16;            // pixels of a level without features
constexpr int kMaximumRadius = 4;      // a corner has the highest response within
constexpr int kSmoothRadius = 6;
constexpr int kWindowRadius = 4;
constexpr int kRefinements = 5;
constexpr int kSums = 8;               // of the matches that agree

constexpr float kSmoothSigma = 1.6f;
constexpr float kWindowSigma = 1.8f;
constexpr float kHarris = 0.05f;
constexpr float kThreshold = 1.0e-7f;  // of the response
constexpr float kClip = 0.2f;          // of descriptors
constexpr float kRatio = 0.8f;         // of the nearest distance to the second
constexpr float kReach = 3.0f;         // pixels between a match and a transform that it agrees with

struct Options {
    int width = 2560, height = 1920;
    int features = 5000;     // at most, the strongest of each view
    int hypotheses = 16384;
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
        else if (name == "--width") o.width = std::atoi(value);
        else if (name == "--height") o.height = std::atoi(value);
        else if (name == "--features") o.features = std::atoi(value);
        else if (name == "--hypotheses") o.hypotheses = std::atoi(value);
        else if (name == "--out") o.out = value;
        else {
            std::fprintf(stderr, "unknown option %s\n", name.c_str());
            std::exit(2);
        }
    }
    int least = 8 * (2 * kBorder + 2);
    if (o.width < least || o.height < least || o.width > 16384 || o.height > 16384 || o.features < 16 ||
        o.features > 20000 || o.hypotheses < 1) {
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

// x' = a x - b y + tx, y' = b x + a y + ty, from the first view to the second.
struct Transform {
    double a, b, tx, ty;
};

struct Setup {
    std::vector<unsigned char> views[2];  // red, green and blue of each pixel
    Transform truth;
};

// Discs and squares with soft edges, the later over the earlier, then noise.
inline void paint(const Options& o, const Transform& t, bool moved, uint64_t noise, std::vector<unsigned char>& view) {
    Random shapes(o.seed);
    std::vector<float> colour(static_cast<size_t>(o.width) * o.height * 3, 110.0f);
    double scale = std::hypot(t.a, t.b), turn = std::atan2(t.b, t.a);
    int count = static_cast<int>(static_cast<double>(o.width) * o.height / 420.0);
    for (int k = 0; k < count; ++k) {
        double x = (1.2 * shapes.uniform() - 0.1) * o.width, y = (1.2 * shapes.uniform() - 0.1) * o.height;
        double size = 3.0 + 11.0 * shapes.uniform(), angle = 6.2831853 * shapes.uniform();
        bool disc = shapes.uniform() < 0.3f;
        float ink[3];
        for (float& channel : ink) channel = 20.0f + 215.0f * shapes.uniform();
        if (moved) {
            double mx = t.a * x - t.b * y + t.tx, my = t.b * x + t.a * y + t.ty;
            x = mx;
            y = my;
            size *= scale;
            angle += turn;
        }
        float c = static_cast<float>(std::cos(angle)), s = static_cast<float>(std::sin(angle));
        float extent = static_cast<float>(size), fx = static_cast<float>(x), fy = static_cast<float>(y);
        int reach = static_cast<int>(size * 1.42) + 2;
        int x0 = std::max(0, static_cast<int>(fx) - reach), x1 = std::min(o.width - 1, static_cast<int>(fx) + reach);
        int y0 = std::max(0, static_cast<int>(fy) - reach), y1 = std::min(o.height - 1, static_cast<int>(fy) + reach);
        for (int py = y0; py <= y1; ++py)
            for (int px = x0; px <= x1; ++px) {
                float dx = px - fx, dy = py - fy;
                float u = std::fabs(c * dx + s * dy), v = std::fabs(c * dy - s * dx);
                float outside = disc ? std::sqrt(dx * dx + dy * dy) - extent : std::max(u, v) - extent;
                float cover = std::min(1.0f, std::max(0.0f, 0.5f - outside));
                float* pixel = &colour[(static_cast<size_t>(py) * o.width + px) * 3];
                for (int k3 = 0; k3 < 3; ++k3) pixel[k3] += cover * (ink[k3] - pixel[k3]);
            }
    }
    Random grain(noise);
    view.resize(colour.size());
    for (size_t i = 0; i < colour.size(); ++i)
        view[i] = static_cast<unsigned char>(std::min(255.0f, std::max(0.0f, colour[i] + 6.0f * grain.uniform() - 2.5f)));
}

inline Setup make_setup(const Options& o) {
    Setup s;
    Random random(o.seed + 1000003);
    double angle = 0.25 * (random.uniform() - 0.5), scale = 0.96 + 0.08 * random.uniform();
    double a = scale * std::cos(angle), b = scale * std::sin(angle), cx = 0.5 * o.width, cy = 0.5 * o.height;
    // About the middle, then a small way.
    s.truth = {a, b, cx - a * cx + b * cy + 0.04 * o.width * (random.uniform() - 0.5),
               cy - b * cx - a * cy + 0.04 * o.height * (random.uniform() - 0.5)};
    paint(o, s.truth, false, o.seed * 2 + 7, s.views[0]);
    paint(o, s.truth, true, o.seed * 2 + 8, s.views[1]);
    return s;
}

// Which matches a hypothesis is made from: `which` is 0 or 1.
__host__ __device__ inline int pick(unsigned seed, unsigned hypothesis, unsigned which, unsigned matches) {
    unsigned h = seed * 0x9e3779b9u + hypothesis * 0x85ebca6bu + which * 0xc2b2ae35u + 0x27d4eb2fu;
    h ^= h >> 16;
    h *= 0x7feb352du;
    h ^= h >> 15;
    h *= 0x846ca68bu;
    h ^= h >> 16;
    return static_cast<int>(h % matches);
}

struct Place {
    float x, y;  // pixels of the finest level
};

// Nearest and second nearest descriptor of the other view.
struct Nearest {
    std::vector<int> index;
    std::vector<float> distance, second;  // squared
};

struct Results {
    std::vector<int> found[2];           // x, y, level for each feature, the strongest first
    std::vector<float> response[2];
    std::vector<float> descriptors[2];
    Nearest forward;                     // of the first view's features in the second view
    std::vector<int> back;               // nearest only, the other way
    std::vector<int> matches;            // pairs of indices
    std::vector<int> agreeing;           // matches that agree with each hypothesis
    Transform transform = {1.0, 0.0, 0.0, 0.0};
    int inliers = 0;
};

inline Place place_of(const std::vector<int>& found, int i) {
    float size = static_cast<float>(1 << found[3 * i + 2]);
    return {(found[3 * i] + 0.5f) * size - 0.5f, (found[3 * i + 1] + 0.5f) * size - 0.5f};
}

// Features that are each other's nearest, clearly nearer than the second, in the order of the first view.
inline std::vector<int> select_matches(const Nearest& forward, const std::vector<int>& back) {
    std::vector<int> matches;
    for (size_t i = 0; i < forward.index.size(); ++i) {
        int j = forward.index[i];
        bool clear = forward.distance[i] < kRatio * kRatio * forward.second[i];
        if (clear && back[j] == static_cast<int>(i)) {
            matches.push_back(static_cast<int>(i));
            matches.push_back(j);
        }
    }
    return matches;
}

// Least squares: sums are count, x, y, x', y', x^2 + y^2, x x' + y y', x y' - y x'.
inline Transform fit_transform(const double* sums) {
    double n = sums[0], mx = sums[1] / n, my = sums[2] / n, nx = sums[3] / n, ny = sums[4] / n;
    double spread = sums[5] - n * (mx * mx + my * my);
    double a = (sums[6] - n * (mx * nx + my * ny)) / spread;
    double b = (sums[7] - n * (mx * ny - my * nx)) / spread;
    return {a, b, nx - a * mx + b * my, ny - b * mx - a * my};
}

// From two matches; false if the first view's places are the same.
__host__ __device__ inline bool transform_of_pair(Place p0, Place p1, Place q0, Place q1, float& a, float& b, float& tx,
                                                  float& ty) {
    float px = p1.x - p0.x, py = p1.y - p0.y, qx = q1.x - q0.x, qy = q1.y - q0.y;
    float length = px * px + py * py;
    if (length == 0.0f) return false;
    a = (px * qx + py * qy) / length;
    b = (px * qy - py * qx) / length;
    tx = q0.x - a * p0.x + b * p0.y;
    ty = q0.y - b * p0.x - a * p0.y;
    return true;
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

inline void write_results(const Options& o, const Setup& s, const Results& r) {
    ResultFile file(o.out);
    file.add("sizes", std::vector<int>{o.width, o.height, o.features, o.hypotheses, static_cast<int>(o.seed)});
    file.add("truth", std::vector<double>{s.truth.a, s.truth.b, s.truth.tx, s.truth.ty});
    file.add("found0", r.found[0]);
    file.add("found1", r.found[1]);
    file.add("response0", r.response[0]);
    file.add("response1", r.response[1]);
    file.add("descriptors0", r.descriptors[0]);
    file.add("descriptors1", r.descriptors[1]);
    file.add("nearest", r.forward.index);
    file.add("distance", r.forward.distance);
    file.add("second", r.forward.second);
    file.add("back", r.back);
    file.add("matches", r.matches);
    file.add("agreeing", r.agreeing);
    file.add("transform", std::vector<double>{r.transform.a, r.transform.b, r.transform.tx, r.transform.ty});
    file.add("inliers", std::vector<int>{r.inliers});
}
