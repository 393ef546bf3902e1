// Landau-Lifshitz dynamics of an ensemble of independent macrospins in local fields, an easy axis and a common
// microwave pulse: fourth-order Runge-Kutta, normalised after each step.
#include "../../harness/book.h"

struct Vec {
    float x, y, z;
};

struct Material {
    float damping, anisotropy;
};

struct Pulse {
    float amplitude, frequency;
};

struct Ensemble {
    int count, steps;  // count is a multiple of 256
    float dt;
    Pulse pulse;
    const Vec *start, *field;
    const Material* material;
    Vec* end;
};

// Coefficients of an explicit Runge-Kutta method. `half_steps` are the times of the stages, in halves of a step.
struct Tableau {
    int stages;
    float a[6][6], b[6];
    int half_steps[6];
};

//: shared
constexpr int kThreads = 128;
constexpr int kLongestPulse = 8192;  // half steps

__device__ inline Vec cross(Vec a, Vec b) {
    return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}

__device__ inline float dot(Vec a, Vec b) {
    return a.x * b.x + a.y * b.y + a.z * b.z;
}

__device__ inline Vec moved(Vec m, float by, Vec rate) {
    return {m.x + by * rate.x, m.y + by * rate.y, m.z + by * rate.z};
}

__device__ inline Vec torque(Vec m, Vec field, Material material, float pulse) {
    const Vec effective = {field.x + pulse, field.y, field.z + material.anisotropy * m.z};
    const Vec precession = cross(effective, m);
    return moved(precession, material.damping, cross(m, precession));
}

__device__ inline Vec normalised(Vec m) {
    const float scale = rsqrtf(dot(m, m));
    return {m.x * scale, m.y * scale, m.z * scale};
}

__device__ inline Vec combined(Vec m, float dt, Vec k1, Vec k2, Vec k3, Vec k4) {
    const Vec middle = {k2.x + k3.x, k2.y + k3.y, k2.z + k3.z}, outer = {k1.x + k4.x, k1.y + k4.y, k1.z + k4.z};
    return moved(moved(m, dt * (1.0f / 6.0f), outer), dt * (1.0f / 3.0f), middle);
}

// One step; the pulse at its start, middle and end.
__device__ inline Vec stepped(Vec m, Vec field, Material material, float dt, const float* pulse) {
    const Vec k1 = torque(m, field, material, pulse[0]);
    const Vec k2 = torque(moved(m, 0.5f * dt, k1), field, material, pulse[1]);
    const Vec k3 = torque(moved(m, 0.5f * dt, k2), field, material, pulse[1]);
    const Vec k4 = torque(moved(m, dt, k3), field, material, pulse[2]);
    return combined(m, dt, k1, k2, k3, k4);
}

__device__ inline float pulse_at(const Pulse& pulse, float time) {
    return pulse.amplitude * sinf(pulse.frequency * time);
}

__device__ inline void fill_table(const Ensemble& e, float* table) {
    for (int i = threadIdx.x; i <= 2 * e.steps; i += kThreads) table[i] = pulse_at(e.pulse, 0.5f * e.dt * i);
    __syncthreads();
}

inline size_t table_bytes(const Ensemble& e) {
    return (2 * e.steps + 1) * sizeof(float);
}
//: end

//: variant unrolled
__global__ void spin_unrolled(Ensemble e) {
    extern __shared__ float table[];
    fill_table(e, table);
    const int i = blockIdx.x * kThreads + threadIdx.x;
    const Vec field = e.field[i];
    const Material material = e.material[i];
    Vec m = e.start[i];
    for (int n = 0; n < e.steps; ++n) m = normalised(stepped(m, field, material, e.dt, table + 2 * n));
    e.end[i] = m;
}

void unrolled(const Ensemble& e) {
    spin_unrolled<<<e.count / kThreads, kThreads, table_bytes(e)>>>(e);
}
//: end

//: variant from_tableau
// Any explicit method of up to six stages.
__global__ void spin_from_tableau(Ensemble e, Tableau method) {
    extern __shared__ float table[];
    fill_table(e, table);
    const int i = blockIdx.x * kThreads + threadIdx.x;
    const Vec field = e.field[i];
    const Material material = e.material[i];
    Vec m = e.start[i], rates[6];
    for (int n = 0; n < e.steps; ++n) {
        Vec next = m;
        for (int s = 0; s < method.stages; ++s) {
            Vec at = m;
            for (int j = 0; j < s; ++j) at = moved(at, e.dt * method.a[s][j], rates[j]);
            rates[s] = torque(at, field, material, table[2 * n + method.half_steps[s]]);
            next = moved(next, e.dt * method.b[s], rates[s]);
        }
        m = normalised(next);
    }
    e.end[i] = m;
}

void from_tableau(const Ensemble& e) {
    Tableau method{4};
    method.a[1][0] = method.a[2][1] = 0.5f;
    method.a[3][2] = 1;
    method.b[0] = method.b[3] = 1.0f / 6;
    method.b[1] = method.b[2] = 1.0f / 3;
    method.half_steps[1] = method.half_steps[2] = 1;
    method.half_steps[3] = 2;
    spin_from_tableau<<<e.count / kThreads, kThreads, table_bytes(e)>>>(e, method);
}
//: end

//: variant plain_factors
__device__ inline Vec halfway(Vec m, float dt, Vec rate) {
    return {float(m.x + 0.5 * dt * rate.x), float(m.y + 0.5 * dt * rate.y), float(m.z + 0.5 * dt * rate.z)};
}

__device__ inline float weighted(float dt, float k1, float k2, float k3, float k4) {
    return dt / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4);
}

__global__ void spin_plain_factors(Ensemble e) {
    extern __shared__ float table[];
    fill_table(e, table);
    const int i = blockIdx.x * kThreads + threadIdx.x;
    const Vec field = e.field[i];
    const Material material = e.material[i];
    Vec m = e.start[i];
    for (int n = 0; n < e.steps; ++n) {
        const float* pulse = table + 2 * n;
        const Vec k1 = torque(m, field, material, pulse[0]);
        const Vec k2 = torque(halfway(m, e.dt, k1), field, material, pulse[1]);
        const Vec k3 = torque(halfway(m, e.dt, k2), field, material, pulse[1]);
        const Vec k4 = torque(moved(m, e.dt, k3), field, material, pulse[2]);
        m.x += weighted(e.dt, k1.x, k2.x, k3.x, k4.x);
        m.y += weighted(e.dt, k1.y, k2.y, k3.y, k4.y);
        m.z += weighted(e.dt, k1.z, k2.z, k3.z, k4.z);
        m = normalised(m);
    }
    e.end[i] = m;
}

void plain_factors(const Ensemble& e) {
    spin_plain_factors<<<e.count / kThreads, kThreads, table_bytes(e)>>>(e);
}
//: end

//: variant by_length
__device__ inline Vec over_length(Vec m) {
    const float length = sqrtf(dot(m, m));
    return {m.x / length, m.y / length, m.z / length};
}

__global__ void spin_by_length(Ensemble e) {
    extern __shared__ float table[];
    fill_table(e, table);
    const int i = blockIdx.x * kThreads + threadIdx.x;
    const Vec field = e.field[i];
    const Material material = e.material[i];
    Vec m = e.start[i];
    for (int n = 0; n < e.steps; ++n) m = over_length(stepped(m, field, material, e.dt, table + 2 * n));
    e.end[i] = m;
}

void by_length(const Ensemble& e) {
    spin_by_length<<<e.count / kThreads, kThreads, table_bytes(e)>>>(e);
}
//: end

//: variant pulse_in_step
__global__ void spin_pulse_in_step(Ensemble e) {
    const int i = blockIdx.x * kThreads + threadIdx.x;
    const Vec field = e.field[i];
    const Material material = e.material[i];
    Vec m = e.start[i];
    for (int n = 0; n < e.steps; ++n) {
        const float time = n * e.dt;
        const float pulse[3] = {pulse_at(e.pulse, time), pulse_at(e.pulse, time + 0.5f * e.dt),
                                pulse_at(e.pulse, time + e.dt)};
        m = normalised(stepped(m, field, material, e.dt, pulse));
    }
    e.end[i] = m;
}

void pulse_in_step(const Ensemble& e) {
    spin_pulse_in_step<<<e.count / kThreads, kThreads>>>(e);
}
//: end

//: variant through_shared
// The vectors of a block as one run of floats.
__device__ inline Vec loaded(const Vec* from, float* exchange) {
    const float* run = reinterpret_cast<const float*>(from + blockIdx.x * kThreads);
#pragma unroll
    for (int j = 0; j < 3; ++j) exchange[j * kThreads + threadIdx.x] = run[j * kThreads + threadIdx.x];
    __syncthreads();
    const Vec own = reinterpret_cast<const Vec*>(exchange)[threadIdx.x];
    __syncthreads();
    return own;
}

__global__ void spin_through_shared(Ensemble e) {
    extern __shared__ float table[];
    __shared__ float exchange[3 * kThreads];
    fill_table(e, table);
    const Vec field = loaded(e.field, exchange);
    const Material material = e.material[blockIdx.x * kThreads + threadIdx.x];
    Vec m = loaded(e.start, exchange);
    for (int n = 0; n < e.steps; ++n) m = normalised(stepped(m, field, material, e.dt, table + 2 * n));
    reinterpret_cast<Vec*>(exchange)[threadIdx.x] = m;
    __syncthreads();
    float* run = reinterpret_cast<float*>(e.end + blockIdx.x * kThreads);
#pragma unroll
    for (int j = 0; j < 3; ++j) run[j * kThreads + threadIdx.x] = exchange[j * kThreads + threadIdx.x];
}

void through_shared(const Ensemble& e) {
    spin_through_shared<<<e.count / kThreads, kThreads, table_bytes(e)>>>(e);
}
//: end

//: variant two_spins
__global__ void spin_pairs(Ensemble e) {
    extern __shared__ float table[];
    fill_table(e, table);
    const int i = 2 * blockIdx.x * kThreads + threadIdx.x, j = i + kThreads;
    const Vec field_i = e.field[i], field_j = e.field[j];
    const Material material_i = e.material[i], material_j = e.material[j];
    Vec m_i = e.start[i], m_j = e.start[j];
    for (int n = 0; n < e.steps; ++n) {
        m_i = normalised(stepped(m_i, field_i, material_i, e.dt, table + 2 * n));
        m_j = normalised(stepped(m_j, field_j, material_j, e.dt, table + 2 * n));
    }
    e.end[i] = m_i;
    e.end[j] = m_j;
}

void two_spins(const Ensemble& e) {
    spin_pairs<<<e.count / (2 * kThreads), kThreads, table_bytes(e)>>>(e);
}
//: end

//: variant long_table
// Room for the longest pulse of a schedule.
__global__ void spin_long_table(Ensemble e) {
    __shared__ float table[kLongestPulse];
    fill_table(e, table);
    const int i = blockIdx.x * kThreads + threadIdx.x;
    const Vec field = e.field[i];
    const Material material = e.material[i];
    Vec m = e.start[i];
    for (int n = 0; n < e.steps; ++n) m = normalised(stepped(m, field, material, e.dt, table + 2 * n));
    e.end[i] = m;
}

void long_table(const Ensemble& e) {
    spin_long_table<<<e.count / kThreads, kThreads>>>(e);
}
//: end

// --- reference, in double precision

__device__ void reference_rate(const double (&m)[3], const double (&h)[3], double damping, double anisotropy,
                               double pulse, double (&rate)[3]) {
    const double f[3] = {h[0] + pulse, h[1], h[2] + anisotropy * m[2]};
    double p[3];
    for (int c = 0; c < 3; ++c) {
        const int d = (c + 1) % 3, g = (c + 2) % 3;
        p[c] = f[d] * m[g] - f[g] * m[d];
    }
    for (int c = 0; c < 3; ++c) {
        const int d = (c + 1) % 3, g = (c + 2) % 3;
        rate[c] = p[c] + damping * (m[d] * p[g] - m[g] * p[d]);
    }
}

__global__ void reference_spins(Ensemble e, float* expected) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= e.count) return;
    double m[3] = {e.start[i].x, e.start[i].y, e.start[i].z};
    const double h[3] = {e.field[i].x, e.field[i].y, e.field[i].z}, dt = e.dt;
    const double damping = e.material[i].damping, anisotropy = e.material[i].anisotropy;
    for (int n = 0; n < e.steps; ++n) {
        double total[3] = {}, rate[3] = {};
        for (int stage = 0; stage < 4; ++stage) {
            const double part = stage == 0 ? 0.0 : stage == 3 ? 1.0 : 0.5;
            const double weight = stage == 0 || stage == 3 ? 1.0 : 2.0;
            double at[3];
            for (int c = 0; c < 3; ++c) at[c] = m[c] + part * dt * rate[c];
            const double pulse = double(e.pulse.amplitude) * sin(double(e.pulse.frequency) * (n + part) * dt);
            reference_rate(at, h, damping, anisotropy, pulse, rate);
            for (int c = 0; c < 3; ++c) total[c] += weight * rate[c];
        }
        double square = 0;
        for (int c = 0; c < 3; ++c) m[c] += dt / 6 * total[c], square += m[c] * m[c];
        for (int c = 0; c < 3; ++c) m[c] /= sqrt(square);
    }
    for (int c = 0; c < 3; ++c) expected[3 * size_t(i) + c] = float(m[c]);
}

Ensemble set_up(book::Problem& p, int count, int steps) {
    Ensemble e{count, steps, 0.04f, {0.8f, 7.0f}};
    const uint64_t seed = p.seed();
    e.start = p.input<Vec>(count, [=] __device__(size_t i) {
        const double z = 1.9 * book::uniform01(seed, 201, i) - 0.95, angle = 6.283 * book::uniform01(seed, 202, i);
        const double r = sqrt(1 - z * z);
        return Vec{float(r * cos(angle)), float(r * sin(angle)), float(z)};
    });
    e.field = p.input<Vec>(count, [=] __device__(size_t i) {
        return Vec{float(book::uniform01(seed, 203, i) - 0.5), float(book::uniform01(seed, 204, i) - 0.5),
                   float(2 * book::uniform01(seed, 205, i))};
    });
    e.material = p.input<Material>(count, [=] __device__(size_t i) {
        return Material{float(0.02 + 0.1 * book::uniform01(seed, 206, i)),
                        float(0.5 + book::uniform01(seed, 207, i))};
    });
    float* end = p.output<float>(3 * size_t(count));
    e.end = reinterpret_cast<Vec*>(end);
    p.needs({.dram_bytes = 44.0 * count, .fp32_flop = 205.0 * count * steps, .special_op = 1.0 * count * steps});
    p.check<float>(end, 3 * size_t(count), {1e-5, 3e-5}, [=](float* expected) {
        reference_spins<<<(count + 255) / 256, 256>>>(e, expected);
    });
    return e;
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("million", [](book::Problem& p) {
        const Ensemble e = set_up(p, 1 << 20, 24);
        p.variant("unrolled", [=] { unrolled(e); });
        p.variant("from_tableau", [=] { from_tableau(e); });
        p.variant("plain_factors", [=] { plain_factors(e); });
        p.variant("by_length", [=] { by_length(e); });
        p.variant("pulse_in_step", [=] { pulse_in_step(e); });
        p.variant("through_shared", [=] { through_shared(e); });
        p.variant("two_spins", [=] { two_spins(e); });
        p.variant("long_table", [=] { long_table(e); });
    });
    return book.finish();
}
