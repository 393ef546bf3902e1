// Batches of small systems of differential equations, one system a thread.
#include "../../harness/book.h"

//: shared
struct Chains {
    int systems, steps;
    const float* start;  // [2 * kMasses][systems]: positions, then velocities
    float* end;
};
constexpr int kMasses = 4;
constexpr int kState = 2 * kMasses;

// Classical Runge-Kutta; Model::slope is the right-hand side, for states of type Real.
template <class Model, class Real, int kBlock>
__global__ void __launch_bounds__(kBlock) integrate(const float* start, float* end, int systems,
                                                    int steps, Real step) {
    const int i = blockIdx.x * kBlock + threadIdx.x;
    if (i >= systems) return;
    Real y[kState];
#pragma unroll
    for (int k = 0; k < kState; ++k) y[k] = start[size_t(k) * systems + i];
    for (int n = 0; n < steps; ++n) {
        Real slope[kState], sum[kState], at[kState];
        Model::slope(y, slope);
#pragma unroll
        for (int k = 0; k < kState; ++k) {
            sum[k] = slope[k];
            at[k] = y[k] + step / 2 * slope[k];
        }
        Model::slope(at, slope);
#pragma unroll
        for (int k = 0; k < kState; ++k) {
            sum[k] += 2 * slope[k];
            at[k] = y[k] + step / 2 * slope[k];
        }
        Model::slope(at, slope);
#pragma unroll
        for (int k = 0; k < kState; ++k) {
            sum[k] += 2 * slope[k];
            at[k] = y[k] + step * slope[k];
        }
        Model::slope(at, slope);
#pragma unroll
        for (int k = 0; k < kState; ++k) y[k] += step / 6 * (sum[k] + slope[k]);
    }
#pragma unroll
    for (int k = 0; k < kState; ++k) end[size_t(k) * systems + i] = y[k];
}

// Masses between springs that stiffen, with friction.
template <class Real>
struct Springs {
    static __device__ void slope(const Real (&y)[kState], Real (&out)[kState]) {
#pragma unroll
        for (int m = 0; m < kMasses; ++m) {
            const Real left = m ? y[m] - y[m - 1] : y[m];
            const Real right = m + 1 < kMasses ? y[m + 1] - y[m] : -y[m];
            out[m] = y[kMasses + m];
            out[kMasses + m] = right - left - Real(0.2) * left * left * left -
                               Real(0.05) * y[kMasses + m];
        }
    }
};

struct SpringConstants {
    static __device__ void slope(const float (&y)[kState], float (&out)[kState]) {
#pragma unroll
        for (int m = 0; m < kMasses; ++m) {
            const float left = m ? y[m] - y[m - 1] : y[m];
            const float right = m + 1 < kMasses ? y[m + 1] - y[m] : -y[m];
            out[m] = y[kMasses + m];
            out[kMasses + m] = right - left - 0.2 * left * left * left - 0.05 * y[kMasses + m];
        }
    }
};

template <class Model, class Real, int kBlock>
void integrate_chains(const Chains& d) {
    integrate<Model, Real, kBlock><<<(d.systems + kBlock - 1) / kBlock, kBlock>>>(
        d.start, d.end, d.systems, d.steps, Real(0.02));
}
//: end

//: variant constants_1024
void constants_1024(const Chains& d) {
    constexpr int kBlock = 1024;
    integrate_chains<SpringConstants, float, kBlock>(d);
}
//: end

//: variant constants_128
void constants_128(const Chains& d) {
    constexpr int kBlock = 128;
    integrate_chains<SpringConstants, float, kBlock>(d);
}
//: end

//: variant springs_1024
void springs_1024(const Chains& d) {
    constexpr int kBlock = 1024;
    integrate_chains<Springs<float>, float, kBlock>(d);
}
//: end

//: variant springs_128
void springs_128(const Chains& d) {
    constexpr int kBlock = 128;
    integrate_chains<Springs<float>, float, kBlock>(d);
}
//: end

//: variant springs_32
void springs_32(const Chains& d) {
    constexpr int kBlock = 32;
    integrate_chains<Springs<float>, float, kBlock>(d);
}
//: end

//: variant real_128
void real_128(const Chains& d) {
    using Real = double;
    constexpr int kBlock = 128;
    integrate_chains<Springs<Real>, Real, kBlock>(d);
}
//: end

//: shared
struct Models {
    int warps, steps;
    const float* start;  // [warp][species][lane]
    const float* rate;   // [model][species][species]
    float* end;
};
constexpr int kModelBlock = 256;
constexpr float kModelStep = 0.01f;

// Exchange rates of the fitted models.
__host__ __device__ constexpr float exchange(int model, int to, int from) {
    uint32_t v = uint32_t(model) * 2654435761u + uint32_t(to) * 40503u + uint32_t(from) * 9176201u;
    v = (v ^ (v >> 15)) * 0x2c1b3c6du;
    v = (v ^ (v >> 12)) * 0x297a2d39u;
    v ^= v >> 15;
    return to == from ? -0.75f : float(v >> 8) * (0.05f / 16777216.0f);
}
//: end

//: variant generated
template <int kSpecies, int kModel>
__device__ void run_model(float (&y)[kSpecies], int steps) {
    for (int n = 0; n < steps; ++n) {
        float change[kSpecies];
#pragma unroll
        for (int to = 0; to < kSpecies; ++to) {
            change[to] = 0;
#pragma unroll
            for (int from = 0; from < kSpecies; ++from) {
                change[to] += exchange(kModel, to, from) * y[from];
            }
        }
#pragma unroll
        for (int k = 0; k < kSpecies; ++k) y[k] += kModelStep * change[k];
    }
}

template <int kSpecies, int kFirst, int kCount>
__device__ void run_any(int model, float (&y)[kSpecies], int steps) {
    if constexpr (kCount == 1) {
        run_model<kSpecies, kFirst>(y, steps);
    } else {
        constexpr int kHalf = kCount / 2;
        if (model < kFirst + kHalf) {
            run_any<kSpecies, kFirst, kHalf>(model, y, steps);
        } else {
            run_any<kSpecies, kFirst + kHalf, kCount - kHalf>(model, y, steps);
        }
    }
}

template <int kSpecies, int kModels>
__global__ void __launch_bounds__(kModelBlock)
    models_generated(const float* start, float* end, int steps) {
    const int warp = (blockIdx.x * kModelBlock + threadIdx.x) / 32, lane = threadIdx.x % 32;
    float y[kSpecies];
#pragma unroll
    for (int k = 0; k < kSpecies; ++k) y[k] = start[(warp * kSpecies + k) * 32 + lane];
    run_any<kSpecies, 0, kModels>(__shfl_sync(~0u, warp % kModels, 0), y, steps);
#pragma unroll
    for (int k = 0; k < kSpecies; ++k) end[(warp * kSpecies + k) * 32 + lane] = y[k];
}

template <int kSpecies, int kModels>
void generated(const Models& d) {
    models_generated<kSpecies, kModels>
        <<<d.warps / (kModelBlock / 32), kModelBlock>>>(d.start, d.end, d.steps);
}
//: end

//: variant tabulated
template <int kSpecies, int kModels>
__global__ void __launch_bounds__(kModelBlock)
    models_tabulated(const float* start, const float* rate, float* end, int steps) {
    const int warp = (blockIdx.x * kModelBlock + threadIdx.x) / 32, lane = threadIdx.x % 32;
    const int model = __shfl_sync(~0u, warp % kModels, 0);
    const float4* rates = reinterpret_cast<const float4*>(rate) + model * kSpecies * kSpecies / 4;
    float y[kSpecies];
#pragma unroll
    for (int k = 0; k < kSpecies; ++k) y[k] = start[(warp * kSpecies + k) * 32 + lane];
    for (int n = 0; n < steps; ++n) {
        float change[kSpecies];
#pragma unroll
        for (int to = 0; to < kSpecies; ++to) {
            change[to] = 0;
#pragma unroll
            for (int from = 0; from < kSpecies; from += 4) {
                const float4 r = __ldg(rates + (to * kSpecies + from) / 4);
                change[to] += r.x * y[from];
                change[to] += r.y * y[from + 1];
                change[to] += r.z * y[from + 2];
                change[to] += r.w * y[from + 3];
            }
        }
#pragma unroll
        for (int k = 0; k < kSpecies; ++k) y[k] += kModelStep * change[k];
    }
#pragma unroll
    for (int k = 0; k < kSpecies; ++k) end[(warp * kSpecies + k) * 32 + lane] = y[k];
}

template <int kSpecies, int kModels>
void tabulated(const Models& d) {
    models_tabulated<kSpecies, kModels><<<d.warps / (kModelBlock / 32), kModelBlock>>>(
        d.start, d.rate, d.end, d.steps);
}
//: end

//: shared
struct Driven {
    int systems, steps;
    const float* force;  // [step][system]
    float* end;
};
constexpr int kDrivenBlock = 256;
constexpr int kModes = 6;
constexpr float kImpact = 0.999995f;

// The modes that an impact excites are coupled: x / (distance + 1), and 4 on the diagonal.
__device__ inline float coupled(int i, int j, float x) {
    return i == j ? 4.0f : __fdividef(x, (i < j ? j - i : i - j) + 1);
}

// What an impact changes the velocity by: the mean over the modes, by elimination.
__device__ inline float impact_of(float x) {
    float a[kModes][kModes], b[kModes];  // the upper triangle of a, which is symmetric
#pragma unroll
    for (int i = 0; i < kModes; ++i) {
        b[i] = x * (i + 1);
#pragma unroll
        for (int j = i; j < kModes; ++j) a[i][j] = coupled(i, j, x);
    }
#pragma unroll
    for (int k = 0; k < kModes; ++k) {
#pragma unroll
        for (int i = k + 1; i < kModes; ++i) {
            const float factor = __fdividef(a[k][i], a[k][k]);
#pragma unroll
            for (int j = i; j < kModes; ++j) a[i][j] -= factor * a[k][j];
            b[i] -= factor * b[k];
        }
    }
    float sum = 0;
#pragma unroll
    for (int i = kModes - 1; i >= 0; --i) {
#pragma unroll
        for (int j = i + 1; j < kModes; ++j) b[i] -= a[i][j] * b[j];
        b[i] = __fdividef(b[i], a[i][i]);
        sum += b[i];
    }
    return sum / kModes;
}
//: end

//: variant one_block
__global__ void __launch_bounds__(kDrivenBlock, 1)
    drive_one_block(const float* force, float* end, int systems, int steps) {
    const int i = blockIdx.x * kDrivenBlock + threadIdx.x;
    if (i >= systems) return;
    float x = 0.5f, v = 0;
    for (int n = 0; n < steps; ++n) {
        const float f = force[size_t(n) * systems + i];
        v += 0.05f * (f - x - 0.1f * v);
        x += 0.05f * v;
        if (f > kImpact) v -= impact_of(x);
    }
    end[i] = x;
}

void one_block(const Driven& d) {
    drive_one_block<<<(d.systems + kDrivenBlock - 1) / kDrivenBlock, kDrivenBlock>>>(
        d.force, d.end, d.systems, d.steps);
}
//: end

//: variant eight_blocks
__global__ void __launch_bounds__(kDrivenBlock, 8)
    drive_eight_blocks(const float* force, float* end, int systems, int steps) {
    const int i = blockIdx.x * kDrivenBlock + threadIdx.x;
    if (i >= systems) return;
    float x = 0.5f, v = 0;
    for (int n = 0; n < steps; ++n) {
        const float f = force[size_t(n) * systems + i];
        v += 0.05f * (f - x - 0.1f * v);
        x += 0.05f * v;
        if (f > kImpact) v -= impact_of(x);
    }
    end[i] = x;
}

void eight_blocks(const Driven& d) {
    drive_eight_blocks<<<(d.systems + kDrivenBlock - 1) / kDrivenBlock, kDrivenBlock>>>(
        d.force, d.end, d.systems, d.steps);
}
//: end

__device__ void reference_slope(const double* y, double* out) {
    for (int m = 0; m < 4; ++m) {
        const double before = m > 0 ? y[m - 1] : 0, after = m < 3 ? y[m + 1] : 0;
        const double left = y[m] - before;
        out[m] = y[4 + m];
        out[4 + m] = after - 2 * y[m] + before - 0.2 * left * left * left - 0.05 * y[4 + m];
    }
}
__global__ void reference_chains(const float* start, float* expected, int systems, int steps) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= systems) return;
    double y[8], k1[8], k2[8], k3[8], k4[8], t[8];
    const double h = 0.02;
    for (int k = 0; k < 8; ++k) y[k] = start[size_t(k) * systems + i];
    for (int n = 0; n < steps; ++n) {
        reference_slope(y, k1);
        for (int k = 0; k < 8; ++k) t[k] = y[k] + h / 2 * k1[k];
        reference_slope(t, k2);
        for (int k = 0; k < 8; ++k) t[k] = y[k] + h / 2 * k2[k];
        reference_slope(t, k3);
        for (int k = 0; k < 8; ++k) t[k] = y[k] + h * k3[k];
        reference_slope(t, k4);
        for (int k = 0; k < 8; ++k) y[k] += h / 6 * (k1[k] + 2 * k2[k] + 2 * k3[k] + k4[k]);
    }
    for (int k = 0; k < 8; ++k) expected[size_t(k) * systems + i] = float(y[k]);
}
__global__ void reference_models(const float* start, const float* rate, float* expected, int warps,
                                 int steps, int species, int models) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= warps * 32) return;
    const int warp = i / 32, lane = i % 32;
    const float* a = rate + warp % models * species * species;
    double y[24], next[24];
    for (int k = 0; k < species; ++k) y[k] = start[(warp * species + k) * 32 + lane];
    for (int n = 0; n < steps; ++n) {
        for (int k = 0; k < species; ++k) {
            double change = 0;
            for (int j = 0; j < species; ++j) change += a[k * species + j] * y[j];
            next[k] = y[k] + 0.01 * change;
        }
        for (int k = 0; k < species; ++k) y[k] = next[k];
    }
    for (int k = 0; k < species; ++k) expected[(warp * species + k) * 32 + lane] = float(y[k]);
}
__global__ void reference_driven(const float* force, float* expected, int systems, int steps) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= systems) return;
    double x = 0.5, v = 0;
    for (int n = 0; n < steps; ++n) {
        const float f = force[size_t(n) * systems + i];
        v += 0.05 * (f - x - 0.1 * v);
        x += 0.05 * v;
        if (f <= 0.999995f) continue;
        const int modes = 6;
        double a[6][7];
        for (int r = 0; r < modes; ++r) {
            for (int c = 0; c < modes; ++c) a[r][c] = r == c ? 4.0 : x / (abs(r - c) + 1);
            a[r][modes] = x * (r + 1);
        }
        for (int k = 0; k < modes; ++k) {
            for (int r = 0; r < modes; ++r) {
                const double factor = r == k ? 0 : a[r][k] / a[k][k];
                for (int c = k; c <= modes; ++c) a[r][c] -= factor * a[k][c];
            }
        }
        for (int r = 0; r < modes; ++r) v -= a[r][modes] / a[r][r] / modes;
    }
    expected[i] = float(x);
}

Chains chain_data(book::Problem& p, int systems, int steps = 200) {
    Chains d{systems, steps};
    d.start = p.uniform<float>(size_t(kState) * systems, -1, 1);
    d.end = p.output<float>(size_t(kState) * systems);
    // A slope takes 9 operations a mass, a stage 4 more a value.
    const double stages = 4.0 * d.steps * systems;
    p.needs({.dram_bytes = 8.0 * kState * systems,
             .fp32_flop = stages * (9.0 * kMasses + 4.0 * kState)});
    p.check<float>(d.end, size_t(kState) * systems, {1e-3, 1e-4}, [=](float* expected) {
        reference_chains<<<(systems + 127) / 128, 128>>>(d.start, expected, systems, d.steps);
    });
    return d;
}

template <int kSpecies, int kModels>
void model_problem(book::Book& book, const char* name, int warps, int steps) {
    book.problem(name, [=](book::Problem& p) {
        Models d{warps, steps};
        const size_t values = size_t(warps) * kSpecies * 32;
        d.start = p.uniform<float>(values, 0.5, 1.5);
        d.rate = p.input<float>(kModels * kSpecies * kSpecies, [=] __device__(size_t i) {
            const int pair = int(i) % (kSpecies * kSpecies);
            return exchange(int(i) / (kSpecies * kSpecies), pair / kSpecies, pair % kSpecies);
        });
        d.end = p.output<float>(values);
        p.needs({.dram_bytes = 8.0 * values, .fp32_flop = 2.0 * (kSpecies + 1) * values * steps});
        p.check<float>(d.end, values, {2e-4, 1e-5}, [=](float* expected) {
            reference_models<<<(warps * 32 + 127) / 128, 128>>>(d.start, d.rate, expected, warps,
                                                                steps, kSpecies, kModels);
        });
        p.variant("generated", [=] { generated<kSpecies, kModels>(d); });
        p.variant("tabulated", [=] { tabulated<kSpecies, kModels>(d); });
    });
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("chains_143k", [](book::Problem& p) {
        const Chains d = chain_data(p, 140 * 1024);
        p.variant("constants_1024", [=] { constants_1024(d); });
        p.variant("constants_128", [=] { constants_128(d); });
        p.variant("springs_1024", [=] { springs_1024(d); });
        p.variant("springs_128", [=] { springs_128(d); });
    });
    book.problem("chains_278k", [](book::Problem& p) {
        const Chains d = chain_data(p, 272 * 1024);
        p.variant("springs_1024", [=] { springs_1024(d); });
        p.variant("springs_128", [=] { springs_128(d); });
        p.variant("real_128", [=] { real_128(d); });
    });
    book.problem("chains_549k", [](book::Problem& p) {
        const Chains d = chain_data(p, 536 * 1024, 100);
        p.variant("springs_1024", [=] { springs_1024(d); });
        p.variant("springs_128", [=] { springs_128(d); });
    });
    book.problem("chains_2m", [](book::Problem& p) {
        const Chains d = chain_data(p, 2120 * 1024, 50);
        p.variant("springs_1024", [=] { springs_1024(d); });
        p.variant("springs_128", [=] { springs_128(d); });
        p.variant("springs_32", [=] { springs_32(d); });
    });
    model_problem<24, 40>(book, "models_40", 132 * 24, 100);
    model_problem<24, 28>(book, "models_28", 132 * 16, 200);
    book.problem("driven_1m", [](book::Problem& p) {
        Driven d{132 * 32 * 320, 24};
        d.force = p.uniform<float>(size_t(d.systems) * d.steps, -1, 1);
        d.end = p.output<float>(d.systems);
        p.needs({.dram_bytes = 4.0 * (double(d.systems) * d.steps + d.systems),
                 .fp32_flop = 8.0 * d.systems * d.steps});
        p.check<float>(d.end, d.systems, {1e-3, 1e-4}, [=](float* expected) {
            reference_driven<<<(d.systems + 127) / 128, 128>>>(d.force, expected, d.systems,
                                                               d.steps);
        });
        p.variant("one_block", [=] { one_block(d); });
        p.variant("eight_blocks", [=] { eight_blocks(d); });
    });
    return book.finish();
}
