// ---- fixed: do not edit. The runner builds with its own copy of this file.
#include "task.h"

#include "../harness.h"

namespace {

constexpr int kWidth = 4096, kHeight = 4096;
constexpr int kViewWidth = 8192, kViewHeight = 5120;
constexpr double kAllowed = 0.25;  // of 255 grey levels; a place may be off by 0.001 pixels

struct Task {
    struct Inputs {
        std::vector<std::uint8_t> frame;
        Lens lens;
        View view;
        std::uint64_t seed;
    };
    using Outputs = std::vector<float>;

    trial::Buffer<std::uint8_t> frame{std::size_t(kWidth) * kHeight};
    trial::Buffer<float> picture{std::size_t(kViewWidth) * kViewHeight};

    static Shape shape() { return {kWidth, kHeight, kViewWidth, kViewHeight}; }

    static View view_of(const trial::Random& random) {
        const double yaw = random.uniform(~std::uint64_t(1), -0.2, 0.2);
        const double roll = random.uniform(~std::uint64_t(2), -0.1, 0.1);
        const double cy = std::cos(yaw), sy = std::sin(yaw), cr = std::cos(roll), sr = std::sin(roll);
        return {3000.0 + random.uniform(~std::uint64_t(3)), 3000.0, kViewWidth / 2.0,
                kViewHeight / 2.0,
                {cy * cr, -cy * sr, sy, sr, cr, 0.0, -sy * cr, sy * sr, cy}};
    }

    static Inputs make(std::uint64_t seed) {
        const trial::Random random{seed};
        const Lens lens{1900.0 + random.uniform(~std::uint64_t(4)), 1900.5, 2047.3, 2049.1,
                        {-0.02 + 0.01 * random.uniform(~std::uint64_t(5)), 0.004, -0.001, 1e-4}};
        Inputs made{std::vector<std::uint8_t>(std::size_t(kWidth) * kHeight), lens, view_of(random), seed};
        trial::parallel(kHeight, [&](std::size_t begin, std::size_t end) {
            for (std::size_t y = begin; y < end; ++y)
                for (std::size_t x = 0; x < kWidth; ++x) {
                    const int shade = int((x ^ y) >> 5) % 192;
                    made.frame[y * kWidth + x] =
                        std::uint8_t(shade + int(random.bits(y * kWidth + x) & 63));
                }
            return 0.0;
        });
        return made;
    }

    Problem load(const Inputs& inputs) {
        frame.load(inputs.frame);
        return {frame.data, picture.data, kWidth, kHeight, kViewWidth, kViewHeight,
                inputs.lens, inputs.view};
    }
    void poison() { picture.poison(); }
    Outputs fetch(cudaStream_t stream) { return picture.fetch(stream); }

    static double at(const Inputs& in, long x, long y) {
        x = std::min(std::max(x, 0L), long(kWidth) - 1);
        y = std::min(std::max(y, 0L), long(kHeight) - 1);
        return in.frame[std::size_t(y) * kWidth + std::size_t(x)];
    }

    static double exact(const Inputs& in, double u, double v) {
        const double x = (u - in.view.cx) / in.view.fx, y = (v - in.view.cy) / in.view.fy;
        const double* t = in.view.turn;
        const double a = t[0] * x + t[1] * y + t[2], b = t[3] * x + t[4] * y + t[5];
        const double c = t[6] * x + t[7] * y + t[8], radius = std::hypot(a, b);
        const double angle = std::atan2(radius, c), s = angle * angle;
        const double* k = in.lens.bend;
        const double bent = angle * (1 + s * (k[0] + s * (k[1] + s * (k[2] + s * k[3]))));
        const double scale = bent / std::max(radius, 1e-12);
        const double px = in.lens.fx * scale * a + in.lens.cx, py = in.lens.fy * scale * b + in.lens.cy;
        const double i = std::floor(px), j = std::floor(py), fx = px - i, fy = py - j;
        const long col = long(i), row = long(j);
        return (at(in, col, row) * (1 - fx) + at(in, col + 1, row) * fx) * (1 - fy) +
               (at(in, col, row + 1) * (1 - fx) + at(in, col + 1, row + 1) * fx) * fy;
    }

    static double worst(const Inputs& in, const Outputs& outputs) {
        return trial::parallel(kViewHeight, [&](std::size_t begin, std::size_t end) {
            double most = 0;
            for (std::size_t v = begin; v < end; ++v)
                for (std::size_t u = trial::Random{in.seed}.bits(v) % 4; u < kViewWidth; u += 4) {
                    const double value = exact(in, double(u) + 0.5, double(v) + 0.5);
                    most = std::max(most, trial::excess(outputs[v * kViewWidth + u], value, kAllowed));
                }
            return most;
        });
    }
};

}  // namespace

int main(int count, char** words) { return trial::run<Task>(count, words); }
