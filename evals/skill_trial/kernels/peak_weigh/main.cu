// ---- fixed: do not edit. The runner builds with its own copy of this file.
#include "task.h"

#include "../harness.h"

namespace {

constexpr int kSpectra = 200'000;
constexpr int kFewest = 64, kMost = 384;       // peaks of a centroided spectrum
constexpr int kScans = 40;                     // spectra that were kept as whole scans
constexpr int kShortScan = 6000, kLongScan = 9000;
constexpr std::size_t kRoom = std::size_t(kSpectra) * kMost + std::size_t(kScans) * kLongScan;
constexpr double kAllowed = 1e-4;  // of the value; values below 1e-6 count as 1e-6

struct Task {
    struct Inputs {
        std::vector<int> begin;
        std::vector<float> mass, intensity;
        int longest;
    };
    using Outputs = std::vector<float>;

    trial::Buffer<int> begin{kSpectra + 1};
    trial::Buffer<float> mass{kRoom}, intensity{kRoom}, weight{kRoom};

    static Shape shape() { return {kSpectra, int(kRoom)}; }

    static Inputs make(std::uint64_t seed) {
        const trial::Random random{seed};
        std::vector<int> counts(kSpectra);
        for (int i = 0; i < kSpectra; ++i)
            counts[i] = int(random.uniform(~std::uint64_t(i), kFewest, kMost + 1));
        for (std::uint64_t i = 0; i < kScans; ++i)
            counts[random.bits(2 * i) % (kSpectra * 9 / 10)] =
                int(random.uniform(2 * i + 1, kShortScan, kLongScan));
        Inputs made{std::vector<int>(kSpectra + 1), {}, {}, 0};
        for (int i = 0; i < kSpectra; ++i) {
            made.begin[i + 1] = made.begin[i] + counts[i];
            made.longest = std::max(made.longest, counts[i]);
        }
        const std::size_t peaks = std::size_t(made.begin[kSpectra]);
        made.mass.resize(peaks);
        made.intensity.resize(peaks);
        trial::parallel(peaks, [&](std::size_t first, std::size_t last) {
            for (std::size_t i = first; i < last; ++i) {
                const std::uint64_t bits = random.bits(1000 + i);
                made.mass[i] = 100.0f + float(bits & 0xffff) * 0.02f;
                const float height = float((bits >> 16) & 0xffff) * (1.0f / 65536.0f);
                made.intensity[i] = 1.0f + 1000.0f * height * height * height;
            }
            return 0.0;
        });
        return made;
    }

    Problem load(const Inputs& in) {
        begin.load(in.begin);
        mass.load(in.mass);
        intensity.load(in.intensity);
        return {begin.data, mass.data, intensity.data, weight.data, kSpectra, in.longest};
    }
    void poison() { weight.poison(); }
    Outputs fetch(cudaStream_t stream) { return weight.fetch(stream); }

    static double worst_of(const Inputs& in, const Outputs& out, int id) {
        const int first = in.begin[id], last = in.begin[id + 1];
        double mean = 0, square = 0, most = 0;
        for (int i = first; i < last; ++i) mean += in.intensity[i] / double(last - first);
        std::vector<double> exact;
        for (int i = first; i < last; ++i) {
            const double height = in.intensity[i];
            exact.push_back(std::sqrt(height) * std::pow(in.mass[i] * 1e-3, 1.3) *
                            (height / (height + mean)));
            square += exact.back() * exact.back();
        }
        for (int i = first; i < last; ++i) {
            const double value = exact[i - first] / std::sqrt(square);
            most = std::max(most, trial::excess(out[i], value, kAllowed * std::max(value, 1e-6)));
        }
        return most;
    }

    static double worst(const Inputs& in, const Outputs& outputs) {
        return trial::parallel(kSpectra, [&](std::size_t first, std::size_t last) {
            double most = 0;
            for (std::size_t id = first; id < last; ++id)
                most = std::max(most, worst_of(in, outputs, int(id)));
            return most;
        });
    }
};

}  // namespace

int main(int count, char** words) { return trial::run<Task>(count, words); }
