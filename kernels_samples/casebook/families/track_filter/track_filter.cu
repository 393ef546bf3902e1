// Kalman filters of particle tracks: one thread per track carries five parameters and their covariance
// through the layers of strips of a spectrometer. Hits are floats, and some are missing.
#include "../../harness/book.h"

constexpr int kMostLayers = 16;

struct Layer {
    float step;      // distance from the layer before
    float cos, sin;  // direction that the strips measure
};

struct Detector {
    int layers;
    float bend;      // of a track of unit charge over momentum, per unit length
    float variance;  // of a hit
    Layer layer[kMostLayers];
};

struct Tracks {
    int count;
    Detector detector;
    const float* seeds;  // [parameter][track]
    const float* hits;   // [layer][track]
    float* states;       // [parameter][track]
    float* variances;    // [parameter][track]
    float* quality;      // [track]
};

//: shared
constexpr int kThreads = 256;
constexpr float kMissing = -1e6f;  // hits below are missing

// Parameters are x, y, slopes tx and ty, and charge over momentum q.
template <class T>
struct Track {
    T x[5];
    T p[5][5];
    T chi2;
    int hits;

    __device__ void start(const float* seeds, int count, int t) {
        const T spread[5] = {T(1), T(1), T(0.01), T(0.01), T(0.04)};
#pragma unroll
        for (int i = 0; i < 5; ++i) {
            x[i] = seeds[size_t(i) * count + t];
#pragma unroll
            for (int j = 0; j < 5; ++j) p[i][j] = i == j ? spread[i] : T(0);
        }
        chi2 = 0;
        hits = 0;
    }

    __device__ void carry(T step, T sag, T turn, T scatter) {
        x[0] += step * x[2] + sag * x[4];
        x[1] += step * x[3];
        x[2] += turn * x[4];
#pragma unroll
        for (int j = 0; j < 5; ++j) {
            p[0][j] += step * p[2][j] + sag * p[4][j];
            p[1][j] += step * p[3][j];
            p[2][j] += turn * p[4][j];
        }
#pragma unroll
        for (int i = 0; i < 5; ++i) {
            p[i][0] += step * p[i][2] + sag * p[i][4];
            p[i][1] += step * p[i][3];
            p[i][2] += turn * p[i][4];
        }
        p[2][2] += scatter;
        p[3][3] += scatter;
    }

    __device__ T variance_along(T cos, T sin, T (&toward)[5]) const {
#pragma unroll
        for (int i = 0; i < 5; ++i) toward[i] = cos * p[i][0] + sin * p[i][1];
        return cos * toward[0] + sin * toward[1];
    }

    __device__ void correct(T residual, T weight, const T (&toward)[5]) {
#pragma unroll
        for (int i = 0; i < 5; ++i) {
            const T gain = weight * toward[i];
            x[i] += gain * residual;
#pragma unroll
            for (int j = 0; j < 5; ++j) p[i][j] -= gain * toward[j];
        }
        chi2 += weight * residual * residual;
        ++hits;
    }

    __device__ void finish(const Tracks& tracks, int t, float quality) const {
#pragma unroll
        for (int i = 0; i < 5; ++i) {
            tracks.states[size_t(i) * tracks.count + t] = float(x[i]);
            tracks.variances[size_t(i) * tracks.count + t] = float(p[i][i]);
        }
        tracks.quality[t] = quality;
    }
};

// Everything in T.
template <class T>
struct Uniformly {
    using Real = T;

    __device__ static void step_to(Track<T>& track, const Detector& d, const Layer& layer) {
        const T tx = track.x[2], ty = track.x[3];
        const T path = sqrt(T(1) + tx * tx + ty * ty), step = layer.step;
        const T turn = T(d.bend) * step * path;
        track.carry(step, T(0.5) * turn * step, turn, T(2.5e-6) * path * path);
    }

    __device__ static void use_hit(Track<T>& track, const Detector& d, const Layer& layer, float hit) {
        const T cos = layer.cos, sin = layer.sin;
        T toward[5];
        const T spread = track.variance_along(cos, sin, toward) + T(d.variance);
        track.correct(T(hit) - cos * track.x[0] - sin * track.x[1], T(1) / spread, toward);
    }

    __device__ static float quality(const Track<T>& track) {
        return track.hits ? float(exp(T(-0.5) * track.chi2 / T(track.hits))) : 0.0f;
    }
};

template <class Arithmetic>
__device__ inline void filter_track(const Tracks& tracks) {
    const int t = blockIdx.x * kThreads + threadIdx.x;
    if (t >= tracks.count) return;
    Track<typename Arithmetic::Real> track;
    track.start(tracks.seeds, tracks.count, t);
    const float* hits = tracks.hits + t;
    float next = *hits;
    for (int l = 0; l < tracks.detector.layers; ++l) {
        const float hit = next;
        if (l + 1 < tracks.detector.layers) next = hits[size_t(l + 1) * tracks.count];
        const Layer& layer = tracks.detector.layer[l];
        Arithmetic::step_to(track, tracks.detector, layer);
        if (hit > kMissing) Arithmetic::use_hit(track, tracks.detector, layer, hit);
    }
    track.finish(tracks, t, Arithmetic::quality(track));
}

template <class Arithmetic, int BlocksPerSm>
__global__ void __launch_bounds__(kThreads, BlocksPerSm) filter_tracks(const __grid_constant__ Tracks tracks) {
    filter_track<Arithmetic>(tracks);
}

template <class Arithmetic, int BlocksPerSm>
void launch(const Tracks& tracks) {
    const int blocks = (tracks.count + kThreads - 1) / kThreads;
    filter_tracks<Arithmetic, BlocksPerSm><<<blocks, kThreads>>>(tracks);
}
//: end

//: variant floats
void floats(const Tracks& tracks) {
    launch<Uniformly<float>, 3>(tracks);
}
//: end

//: variant doubles
void doubles(const Tracks& tracks) {
    launch<Uniformly<double>, 1>(tracks);
}
//: end

//: variant eight_blocks
void eight_blocks(const Tracks& tracks) {
    launch<Uniformly<float>, 8>(tracks);
}
//: end

//: variant six_blocks
void six_blocks(const Tracks& tracks) {
    launch<Uniformly<float>, 6>(tracks);
}
//: end

//: variant five_blocks
void five_blocks(const Tracks& tracks) {
    launch<Uniformly<float>, 5>(tracks);
}
//: end

//: variant literals
struct WithLiterals : Uniformly<float> {
    __device__ static void step_to(Track<float>& track, const Detector& d, const Layer& layer) {
        const float tx = track.x[2], ty = track.x[3];
        const float path = sqrt(1.0 + tx * tx + ty * ty), step = layer.step;
        const float turn = d.bend * step * path;
        track.carry(step, 0.5 * turn * step, turn, 2.5e-6 * path * path);
    }

    __device__ static void use_hit(Track<float>& track, const Detector& d, const Layer& layer, float hit) {
        const float cos = layer.cos, sin = layer.sin;
        float toward[5];
        const float spread = track.variance_along(cos, sin, toward) + d.variance;
        track.correct(hit - cos * track.x[0] - sin * track.x[1], 1.0 / spread, toward);
    }
};

void literals(const Tracks& tracks) {
    launch<WithLiterals, 3>(tracks);
}
//: end

//: variant path_literal
struct WithPath : Uniformly<float> {
    __device__ static void step_to(Track<float>& track, const Detector& d, const Layer& layer) {
        const float tx = track.x[2], ty = track.x[3];
        const float path = sqrt(1.0 + tx * tx + ty * ty), step = layer.step;
        const float turn = d.bend * step * path;
        track.carry(step, 0.5f * turn * step, turn, 2.5e-6f * path * path);
    }
};

void path_literal(const Tracks& tracks) {
    launch<WithPath, 3>(tracks);
}
//: end

//: variant quality_literal
struct WithQuality : Uniformly<float> {
    __device__ static float quality(const Track<float>& track) {
        return track.hits ? exp(-0.5 * track.chi2 / track.hits) : 0.0;
    }
};

void quality_literal(const Tracks& tracks) {
    launch<WithQuality, 3>(tracks);
}
//: end

__global__ void reference_tracks(Tracks tracks, float* states, float* variances, float* quality) {
    const int t = blockIdx.x * blockDim.x + threadIdx.x, n = tracks.count;
    if (t >= n) return;
    double x[5], p[5][5] = {};
    for (int i = 0; i < 5; ++i) {
        x[i] = tracks.seeds[size_t(i) * n + t];
        p[i][i] = i < 2 ? 1 : i < 4 ? 0.01 : 0.04;
    }
    double chi2 = 0;
    int used = 0;
    for (int l = 0; l < tracks.detector.layers; ++l) {
        const Layer layer = tracks.detector.layer[l];
        const double path2 = 1 + x[2] * x[2] + x[3] * x[3], d = layer.step;
        const double g = tracks.detector.bend * d * sqrt(path2), e = g * d / 2;
        double f[5][5] = {}, fp[5][5], y[5];
        for (int i = 0; i < 5; ++i) f[i][i] = 1;
        f[0][2] = f[1][3] = d;
        f[0][4] = e;
        f[2][4] = g;
        for (int i = 0; i < 5; ++i) {
            y[i] = 0;
            for (int k = 0; k < 5; ++k) y[i] += f[i][k] * x[k];
            for (int j = 0; j < 5; ++j) {
                fp[i][j] = 0;
                for (int k = 0; k < 5; ++k) fp[i][j] += f[i][k] * p[k][j];
            }
        }
        for (int i = 0; i < 5; ++i) {
            x[i] = y[i];
            for (int j = 0; j < 5; ++j) {
                p[i][j] = i == j && (i == 2 || i == 3) ? 2.5e-6 * path2 : 0;
                for (int k = 0; k < 5; ++k) p[i][j] += fp[i][k] * f[j][k];
            }
        }
        const double hit = tracks.hits[size_t(l) * n + t];
        if (hit <= -1e6) continue;
        const double h[2] = {layer.cos, layer.sin};
        double ph[5];
        for (int i = 0; i < 5; ++i) ph[i] = p[i][0] * h[0] + p[i][1] * h[1];
        const double s = h[0] * ph[0] + h[1] * ph[1] + tracks.detector.variance;
        const double r = hit - h[0] * x[0] - h[1] * x[1];
        for (int i = 0; i < 5; ++i) {
            x[i] += ph[i] / s * r;
            for (int j = 0; j < 5; ++j) p[i][j] -= ph[i] * ph[j] / s;
        }
        chi2 += r * r / s;
        ++used;
    }
    for (int i = 0; i < 5; ++i) {
        if (states) states[size_t(i) * n + t] = float(x[i]);
        if (variances) variances[size_t(i) * n + t] = float(p[i][i]);
    }
    if (quality) quality[t] = used ? float(exp(-chi2 / 2 / used)) : 0;
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("strips", [](book::Problem& p) {
        Tracks tracks{};
        const int n = tracks.count = 1 << 20;
        const uint64_t seed = p.seed();
        Detector& d = tracks.detector;
        d.layers = 12;
        d.bend = 0.3f;
        d.variance = 0.0025f;
        for (int l = 0; l < d.layers; ++l) {
            const float angle = 0.7f * (l % 4);
            d.layer[l] = {0.5f, std::cos(angle), std::sin(angle)};
        }
        const Detector detector = d;
        // What a track starts with: x, y, tx, ty, q.
        const auto truth = [=] __host__ __device__(size_t t, int i) {
            const double half = i < 2 ? 5 : i < 4 ? 0.3 : 0.5;
            return half * (2 * book::uniform01(seed, 100 + i, t) - 1);
        };
        tracks.seeds = p.input<float>(size_t(5) * n, [=] __device__(size_t at) {
            const int i = int(at / n);
            const size_t t = at % n;
            const double off = i < 2 ? 1 : i < 4 ? 0.1 : 0.2;
            return float(truth(t, i) + off * (2 * book::uniform01(seed, 110 + i, t) - 1));
        });
        tracks.hits = p.input<float>(size_t(d.layers) * n, [=] __device__(size_t at) {
            const int last = int(at / n);
            const size_t t = at % n;
            if (book::uniform01(seed, 120, at) < 0.01) return -2e6f;
            double x = truth(t, 0), y = truth(t, 1), tx = truth(t, 2);
            const double ty = truth(t, 3), q = truth(t, 4);
            for (int l = 0; l <= last; ++l) {
                const double step = detector.layer[l].step;
                const double turn = detector.bend * step * sqrt(1 + tx * tx + ty * ty);
                x += step * tx + turn * step / 2 * q;
                y += step * ty;
                tx += turn * q;
            }
            const double noise = 0.17 * (book::uniform01(seed, 121, at) - 0.5);
            return float(detector.layer[last].cos * x + detector.layer[last].sin * y + noise);
        });
        tracks.states = p.output<float>(size_t(5) * n);
        tracks.variances = p.output<float>(size_t(5) * n);
        tracks.quality = p.output<float>(n);
        p.needs({.dram_bytes = 4.0 * n * (5 + d.layers + 11), .fp32_flop = 130.0 * n * d.layers});
        const Tracks all = tracks;
        const int blocks = (n + 127) / 128;
        p.check<float>(all.states, size_t(5) * n, {1e-3, 1e-3}, [=](float* expected) {
            reference_tracks<<<blocks, 128>>>(all, expected, nullptr, nullptr);
        });
        p.check<float>(all.variances, size_t(5) * n, {1e-2, 5e-6}, [=](float* expected) {
            reference_tracks<<<blocks, 128>>>(all, nullptr, expected, nullptr);
        });
        p.check<float>(all.quality, n, {1e-2, 1e-3}, [=](float* expected) {
            reference_tracks<<<blocks, 128>>>(all, nullptr, nullptr, expected);
        });
        p.variant("floats", [=] { floats(all); });
        p.variant("doubles", [=] { doubles(all); });
        p.variant("eight_blocks", [=] { eight_blocks(all); });
        p.variant("six_blocks", [=] { six_blocks(all); });
        p.variant("five_blocks", [=] { five_blocks(all); });
        p.variant("literals", [=] { literals(all); });
        p.variant("path_literal", [=] { path_literal(all); });
        p.variant("quality_literal", [=] { quality_literal(all); });
    });
    return book.finish();
}
