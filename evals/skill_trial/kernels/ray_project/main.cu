// ---- fixed: do not edit. The runner builds with its own copy of this file.
#include "task.h"

#include "../harness.h"

namespace {

constexpr int kSize = 192, kBricks = kSize / kBrick;
constexpr int kWidth = 1536, kHeight = 1536;
constexpr int kBodies = 40;
constexpr float kStep = 0.5f;
constexpr double kAllowed = 2e-4;  // of the light at the start
constexpr std::size_t kChecked = 8;  // every so many-th ray, from a place that the seed gives

struct Body {
    double x, y, z, radius;
};

struct Task {
    struct Inputs {
        std::vector<float> density;
        std::vector<std::uint8_t> empty;
        float slope_x, slope_y;
        std::uint64_t seed;
    };
    using Outputs = std::vector<float>;

    trial::Buffer<float> density{std::size_t(kSize) * kSize * kSize};
    trial::Buffer<std::uint8_t> empty{std::size_t(kBricks) * kBricks * kBricks};
    trial::Buffer<float> light{std::size_t(kWidth) * kHeight};

    static Shape shape() { return {kSize, kWidth, kHeight}; }

    // Bodies that lie on a table.
    static std::vector<Body> bodies(const trial::Random& random) {
        std::vector<Body> made;
        for (std::uint64_t i = 0; i < kBodies; ++i)
            made.push_back({random.uniform(~(4 * i), 16, 176), random.uniform(~(4 * i + 1), 22, 36),
                            random.uniform(~(4 * i + 2), 24, 168),
                            random.uniform(~(4 * i + 3), 8, 13)});
        return made;
    }

    static double density_at(const std::vector<Body>& bodies, int x, int y, int z) {
        double sum = 0;
        for (const Body& body : bodies) {
            const double dx = x - body.x, dy = y - body.y, dz = z - body.z;
            sum += std::max(0.0, 1 - (dx * dx + dy * dy + dz * dz) / (body.radius * body.radius));
        }
        return sum;
    }

    static bool is_empty(const std::vector<float>& density, int bx, int by, int bz) {
        const auto end = [](int b) { return std::min((b + 1) * kBrick + 1, kSize); };
        for (int z = bz * kBrick; z < end(bz); ++z)
            for (int y = by * kBrick; y < end(by); ++y)
                for (int x = bx * kBrick; x < end(bx); ++x)
                    if (density[(std::size_t(z) * kSize + y) * kSize + x] != 0) return false;
        return true;
    }

    static Inputs make(std::uint64_t seed) {
        const trial::Random random{seed};
        const auto placed = bodies(random);
        Inputs made{std::vector<float>(std::size_t(kSize) * kSize * kSize),
                    std::vector<std::uint8_t>(std::size_t(kBricks) * kBricks * kBricks),
                    float(random.uniform(1000, 0.02, 0.06)), float(random.uniform(1001, 0.01, 0.03)),
                    seed};
        trial::parallel(kSize, [&](std::size_t begin, std::size_t end) {
            for (int z = int(begin); z < int(end); ++z)
                for (int y = 0; y < kSize; ++y)
                    for (int x = 0; x < kSize; ++x) {
                        const std::size_t at = (std::size_t(z) * kSize + y) * kSize + x;
                        const double grain = random.uniform(2000 + at, 0.8, 1.2);
                        made.density[at] = float(density_at(placed, x, y, z) * grain);
                    }
            return 0.0;
        });
        for (int z = 0; z < kBricks; ++z)
            for (int y = 0; y < kBricks; ++y)
                for (int x = 0; x < kBricks; ++x)
                    made.empty[(std::size_t(z) * kBricks + y) * kBricks + x] =
                        is_empty(made.density, x, y, z);
        return made;
    }

    Problem load(const Inputs& inputs) {
        density.load(inputs.density);
        empty.load(inputs.empty);
        return {density.data, empty.data, light.data, kSize, kWidth, kHeight,
                inputs.slope_x, inputs.slope_y, kStep, 0.02f};
    }
    void poison() { light.poison(); }
    Outputs fetch(cudaStream_t stream) { return light.fetch(stream); }

    static double sample(const std::vector<float>& density, double x, double y, double z) {
        const int i = int(x), j = int(y), k = int(z);
        double sum = 0;
        for (int corner = 0; corner < 8; ++corner) {
            const int a = corner & 1, b = (corner >> 1) & 1, c = corner >> 2;
            const double share = (a ? x - i : 1 - (x - i)) * (b ? y - j : 1 - (y - j)) *
                                 (c ? z - k : 1 - (z - k));
            sum += share * density[(std::size_t(k + c) * kSize + j + b) * kSize + i + a];
        }
        return sum;
    }

    static double exact(const Inputs& in, std::size_t id) {
        const double x0 = (id % kWidth + 0.5) * kSize / kWidth, y0 = (id / kWidth + 0.5) * kSize / kHeight;
        double sum = 0;
        for (int s = 0; s < int((kSize - 1) / kStep); ++s) {
            const double z = (s + 0.5) * kStep;
            const double x = x0 + in.slope_x * z, y = y0 + in.slope_y * z;
            if (x >= 0 && y >= 0 && x < kSize - 1 && y < kSize - 1 && z < kSize - 1)
                sum += sample(in.density, x, y, z);
        }
        return std::exp(-double(0.02f) * sum);
    }

    static double worst(const Inputs& in, const Outputs& outputs) {
        constexpr std::size_t rays = std::size_t(kWidth) * kHeight;
        const std::size_t offset = trial::Random{in.seed}.bits(77) % kChecked;
        return trial::parallel(rays / kChecked, [&](std::size_t begin, std::size_t end) {
            double most = 0;
            for (std::size_t i = begin; i < end; ++i) {
                const std::size_t id = i * kChecked + offset;
                most = std::max(most, trial::excess(outputs[id], exact(in, id), kAllowed));
                for (std::size_t other = i * kChecked; other < (i + 1) * kChecked; ++other)
                    if (!(outputs[other] >= 0 && outputs[other] <= 1 + kAllowed)) return 1e9;
            }
            return most;
        });
    }
};

}  // namespace

int main(int count, char** words) { return trial::run<Task>(count, words); }
