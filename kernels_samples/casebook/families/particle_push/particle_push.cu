// Steps of particle codes: records in a trap, orbits in a magnetic mirror, walls, fields on a grid, drift.
#include "../../harness/book.h"

struct TrapData {
    int count;
    const float* in;  // x, y, z, vx, vy, vz, charge, mass of each particle
    float* out;
};

// Arrays of `count` floats one after the other: x, y, z, vx, vy, vz.
struct OrbitData {
    int count, substeps;
    const float* in;
    float* out;
};

struct WallData {
    int count;
    const float* in;  // x, y, z, vx, vy, vz
    float* out;
};

struct FieldData {
    int count;
    const float* grid;      // six components, each [z][y][x]
    const float* particles;  // x, y, z, vx, vy, vz
    float4* packed;          // scratch
    float* velocities;       // vx, vy, vz
};

struct DriftData {
    int count;
    const double* positions;   // x, y, z
    const float* velocities;   // x, y, z
    double* moved;
};

//: shared
constexpr float kTimeStep = 0.01f, kStiffness = 4.0f;

constexpr float kMirror = 0.3f;  // growth of the field along the axis

struct Orbit {
    float x, y, z, vx, vy, vz;

    __device__ Orbit(const float* in, size_t count, int i)
        : x(in[i]),
          y(in[count + i]),
          z(in[2 * count + i]),
          vx(in[3 * count + i]),
          vy(in[4 * count + i]),
          vz(in[5 * count + i]) {}

    __device__ void store(float* out, size_t count, int i) const {
        out[i] = x, out[count + i] = y, out[2 * count + i] = z;
        out[3 * count + i] = vx, out[4 * count + i] = vy, out[5 * count + i] = vz;
    }
};

// Rotates the velocity by the field over a time step, and moves.
__device__ inline void advance_orbit(Orbit& p, float charge_over_mass, float dt) {
    const float h = 0.5f * charge_over_mass * dt;
    const float tx = -h * kMirror * p.x * p.z, ty = -h * kMirror * p.y * p.z;
    const float tz = h * (1.0f + kMirror * p.z * p.z);
    const float s = 2.0f / (1.0f + tx * tx + ty * ty + tz * tz);
    const float ux = p.vx + p.vy * tz - p.vz * ty;
    const float uy = p.vy + p.vz * tx - p.vx * tz;
    const float uz = p.vz + p.vx * ty - p.vy * tx;
    p.vx += s * (uy * tz - uz * ty);
    p.vy += s * (uz * tx - ux * tz);
    p.vz += s * (ux * ty - uy * tx);
    p.x += p.vx * dt, p.y += p.vy * dt, p.z += p.vz * dt;
}

constexpr int kPerThread = 4;
constexpr int kScatterings = 128;

// A particle beyond the wall at x = 1 scatters in it, loses energy, and comes back at the wall.
__device__ inline void scatter_in_wall(Orbit& p) {
    const float depth = p.x - 1.0f;
    float turn = 0.1f + depth;
    for (int i = 0; i < kScatterings; ++i) {
        const float c = 1.0f - 0.5f * turn * turn;
        const float x = c * p.vx - turn * p.vy, y = turn * p.vx + c * p.vy;
        p.vx = 0.995f * x;
        p.vy = 0.995f * (c * y - turn * p.vz);
        p.vz = 0.995f * (turn * y + c * p.vz);
        turn = 0.98f * turn + 0.002f;
    }
    p.x = 1.0f;
    p.vx = -fabsf(p.vx);
}

constexpr int kGrid = 64;  // cells of the field in each direction; periodic

struct Corner {
    int cell[8];
    float weight[8];

    __device__ Corner(float x, float y, float z) {
        const float fx = x * kGrid, fy = y * kGrid, fz = z * kGrid;
        const int ix = int(fx), iy = int(fy), iz = int(fz);
        const float wx = fx - ix, wy = fy - iy, wz = fz - iz;
#pragma unroll
        for (int c = 0; c < 8; ++c) {
            const int dx = c & 1, dy = c >> 1 & 1, dz = c >> 2;
            cell[c] = ((iz + dz) % kGrid * kGrid + (iy + dy) % kGrid) * kGrid + (ix + dx) % kGrid;
            weight[c] = (dx ? wx : 1 - wx) * (dy ? wy : 1 - wy) * (dz ? wz : 1 - wz);
        }
    }
};

__device__ inline void kick(const float* particles, float* velocities, size_t count, int i,
                            const float (&f)[6]) {
    const float vx = particles[3 * count + i], vy = particles[4 * count + i];
    const float vz = particles[5 * count + i];
    velocities[i] = vx + kTimeStep * (f[0] + vy * f[5] - vz * f[4]);
    velocities[count + i] = vy + kTimeStep * (f[1] + vz * f[3] - vx * f[5]);
    velocities[2 * count + i] = vz + kTimeStep * (f[2] + vx * f[4] - vy * f[3]);
}
//: end

//: variant trap_fields
struct Particle {
    float x, y, z, vx, vy, vz, charge, mass;
};

__global__ void trap_records(const Particle* __restrict__ in, Particle* __restrict__ out, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    Particle p = in[i];
    const float pull = -kStiffness * kTimeStep * p.charge / p.mass;
    p.vx += pull * p.x, p.vy += pull * p.y, p.vz += pull * p.z;
    p.x += kTimeStep * p.vx, p.y += kTimeStep * p.vy, p.z += kTimeStep * p.vz;
    out[i] = p;
}

void trap_fields(const TrapData& d) {
    trap_records<<<(d.count + 255) / 256, 256>>>(reinterpret_cast<const Particle*>(d.in),
                                                 reinterpret_cast<Particle*>(d.out), d.count);
}
//: end

//: variant trap_quads
__global__ void trap_record_quads(const float4* __restrict__ in, float4* __restrict__ out, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    float4 a = in[2 * i], b = in[2 * i + 1];  // x, y, z, vx; vy, vz, charge, mass
    const float pull = -kStiffness * kTimeStep * b.z / b.w;
    a.w += pull * a.x, b.x += pull * a.y, b.y += pull * a.z;
    a.x += kTimeStep * a.w, a.y += kTimeStep * b.x, a.z += kTimeStep * b.y;
    out[2 * i] = a, out[2 * i + 1] = b;
}

void trap_quads(const TrapData& d) {
    trap_record_quads<<<(d.count + 255) / 256, 256>>>(reinterpret_cast<const float4*>(d.in),
                                                      reinterpret_cast<float4*>(d.out), d.count);
}
//: end

//: variant orbit_plain
__global__ void orbit_substeps(const float* __restrict__ in, float* __restrict__ out, int count,
                               int substeps, float charge_over_mass, float dt) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    Orbit p(in, count, i);
    for (int step = 0; step < substeps; ++step) {
        const float h = 0.5 * charge_over_mass * dt;
        const float tx = -h * kMirror * p.x * p.z, ty = -h * kMirror * p.y * p.z;
        const float tz = h * (1.0 + kMirror * p.z * p.z);
        const float s = 2.0 / (1.0 + tx * tx + ty * ty + tz * tz);
        const float ux = p.vx + p.vy * tz - p.vz * ty;
        const float uy = p.vy + p.vz * tx - p.vx * tz;
        const float uz = p.vz + p.vx * ty - p.vy * tx;
        p.vx += s * (uy * tz - uz * ty);
        p.vy += s * (uz * tx - ux * tz);
        p.vz += s * (ux * ty - uy * tx);
        p.x += p.vx * dt, p.y += p.vy * dt, p.z += p.vz * dt;
    }
    p.store(out, count, i);
}

void orbit_plain(const OrbitData& d) {
    orbit_substeps<<<(d.count + 255) / 256, 256>>>(d.in, d.out, d.count, d.substeps, 1.5f, 0.05f);
}
//: end

//: variant orbit_suffixed
__global__ void orbit_substeps_f(const float* __restrict__ in, float* __restrict__ out, int count,
                                 int substeps, float charge_over_mass, float dt) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    Orbit p(in, count, i);
    for (int step = 0; step < substeps; ++step) advance_orbit(p, charge_over_mass, dt);
    p.store(out, count, i);
}

void orbit_suffixed(const OrbitData& d) {
    orbit_substeps_f<<<(d.count + 255) / 256, 256>>>(d.in, d.out, d.count, d.substeps, 1.5f, 0.05f);
}
//: end

//: variant orbit_groups
// Eight particles per thread. The number of particles is a multiple of 2048.
__global__ void __launch_bounds__(256)
    orbit_groups_of_8(const float* __restrict__ in, float* __restrict__ out, int count, int substeps,
                      float charge_over_mass, float dt) {
    const int i = blockIdx.x * blockDim.x * 8 + threadIdx.x;
    Orbit p[8] = {{in, size_t(count), i},        {in, size_t(count), i + 256},
                  {in, size_t(count), i + 512},  {in, size_t(count), i + 768},
                  {in, size_t(count), i + 1024}, {in, size_t(count), i + 1280},
                  {in, size_t(count), i + 1536}, {in, size_t(count), i + 1792}};
    for (int step = 0; step < substeps; ++step) {
#pragma unroll
        for (int j = 0; j < 8; ++j) advance_orbit(p[j], charge_over_mass, dt);
    }
#pragma unroll
    for (int j = 0; j < 8; ++j) p[j].store(out, count, i + 256 * j);
}

void orbit_groups(const OrbitData& d) {
    orbit_groups_of_8<<<d.count / 2048, 256>>>(d.in, d.out, d.count, d.substeps, 1.5f, 0.05f);
}
//: end

//: variant wall_inline
__global__ void __launch_bounds__(256)
    push_and_scatter(const float* __restrict__ in, float* __restrict__ out, int count) {
    int i = blockIdx.x * blockDim.x * kPerThread + threadIdx.x;
    for (int j = 0; j < kPerThread && i < count; ++j, i += blockDim.x) {
        Orbit p(in, count, i);
        p.x += kTimeStep * p.vx, p.y += kTimeStep * p.vy, p.z += kTimeStep * p.vz;
        if (p.x > 1.0f) scatter_in_wall(p);
        p.store(out, count, i);
    }
}

void wall_inline(const WallData& d) {
    const int each = 256 * kPerThread;
    push_and_scatter<<<(d.count + each - 1) / each, 256>>>(d.in, d.out, d.count);
}
//: end

//: variant wall_queued
__global__ void __launch_bounds__(256)
    push_then_scatter(const float* __restrict__ in, float* __restrict__ out, int count) {
    __shared__ int queue[256 * kPerThread];
    __shared__ int waiting;
    if (threadIdx.x == 0) waiting = 0;
    __syncthreads();
    int i = blockIdx.x * blockDim.x * kPerThread + threadIdx.x;
    for (int j = 0; j < kPerThread && i < count; ++j, i += blockDim.x) {
        Orbit p(in, count, i);
        p.x += kTimeStep * p.vx, p.y += kTimeStep * p.vy, p.z += kTimeStep * p.vz;
        if (p.x > 1.0f) {
            queue[atomicAdd(&waiting, 1)] = i;
        } else {
            p.store(out, count, i);
        }
    }
    __syncthreads();
    for (int k = threadIdx.x; k < waiting; k += blockDim.x) {
        Orbit p(in, count, queue[k]);
        p.x += kTimeStep * p.vx, p.y += kTimeStep * p.vy, p.z += kTimeStep * p.vz;
        scatter_in_wall(p);
        p.store(out, count, queue[k]);
    }
}

void wall_queued(const WallData& d) {
    const int each = 256 * kPerThread;
    push_then_scatter<<<(d.count + each - 1) / each, 256>>>(d.in, d.out, d.count);
}
//: end

//: variant field_components
__global__ void kick_from_components(const float* __restrict__ grid,
                                     const float* __restrict__ particles,
                                     float* __restrict__ velocities, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const Corner corner(particles[i], particles[count + i], particles[2 * count + i]);
    float f[6] = {};
#pragma unroll
    for (int component = 0; component < 6; ++component) {
        const float* values = grid + component * kGrid * kGrid * kGrid;
#pragma unroll
        for (int c = 0; c < 8; ++c) f[component] += corner.weight[c] * values[corner.cell[c]];
    }
    kick(particles, velocities, count, i, f);
}

void field_components(const FieldData& d) {
    kick_from_components<<<(d.count + 255) / 256, 256>>>(d.grid, d.particles, d.velocities, d.count);
}
//: end

//: variant field_packed
__global__ void pack_components(const float* __restrict__ grid, float4* __restrict__ packed) {
    constexpr int cells = kGrid * kGrid * kGrid;
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    packed[2 * i] = make_float4(grid[i], grid[cells + i], grid[2 * cells + i], grid[3 * cells + i]);
    packed[2 * i + 1] = make_float4(grid[4 * cells + i], grid[5 * cells + i], 0, 0);
}

__global__ void kick_from_packed(const float4* __restrict__ packed,
                                 const float* __restrict__ particles,
                                 float* __restrict__ velocities, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const Corner corner(particles[i], particles[count + i], particles[2 * count + i]);
    float f[6] = {};
#pragma unroll
    for (int c = 0; c < 8; ++c) {
        const float4 a = packed[2 * corner.cell[c]];
        const float2 b = *reinterpret_cast<const float2*>(packed + 2 * corner.cell[c] + 1);
        const float w = corner.weight[c];
        f[0] += w * a.x, f[1] += w * a.y, f[2] += w * a.z;
        f[3] += w * a.w, f[4] += w * b.x, f[5] += w * b.y;
    }
    kick(particles, velocities, count, i, f);
}

void field_packed(const FieldData& d) {
    pack_components<<<kGrid * kGrid * kGrid / 256, 256>>>(d.grid, d.packed);
    kick_from_packed<<<(d.count + 255) / 256, 256>>>(d.packed, d.particles, d.velocities, d.count);
}
//: end

//: variant drift_double
// Positions lie between 0 and 1; walls reflect.
__global__ void drift_in_double(const double* __restrict__ positions,
                                const float* __restrict__ velocities, double* __restrict__ moved,
                                size_t count, double dt) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
#pragma unroll
    for (int axis = 0; axis < 3; ++axis) {
        const double x = positions[axis * count + i] + velocities[axis * count + i] * dt;
        moved[axis * count + i] = 1.0 - fabs(1.0 - fabs(x));
    }
}

void drift_double(const DriftData& d) {
    drift_in_double<<<(d.count + 255) / 256, 256>>>(d.positions, d.velocities, d.moved, d.count,
                                                    1e-3);
}
//: end

//: variant drift_float
// Positions lie between 0 and 1; walls reflect.
__global__ void drift_in_float(const double* __restrict__ positions,
                               const float* __restrict__ velocities, double* __restrict__ moved,
                               size_t count, float dt) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
#pragma unroll
    for (int axis = 0; axis < 3; ++axis) {
        const float x = float(positions[axis * count + i]) + velocities[axis * count + i] * dt;
        moved[axis * count + i] = 1.0f - fabsf(1.0f - fabsf(x));
    }
}

void drift_float(const DriftData& d) {
    drift_in_float<<<(d.count + 255) / 256, 256>>>(d.positions, d.velocities, d.moved, d.count,
                                                   1e-3f);
}
//: end

__global__ void reference_trap(const float* in, float* expected, int count) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        const float* p = in + size_t(i) * 8;
        for (int axis = 0; axis < 3; ++axis) {
            const double v = p[3 + axis] - 4.0 * 0.01 * p[6] / p[7] * p[axis];
            expected[size_t(i) * 8 + axis] = float(p[axis] + 0.01 * v);
            expected[size_t(i) * 8 + 3 + axis] = float(v);
        }
        expected[size_t(i) * 8 + 6] = p[6];
        expected[size_t(i) * 8 + 7] = p[7];
    }
}

__global__ void reference_orbits(const float* in, float* expected, int count, int substeps) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        const size_t n = count;
        double r[3], v[3];
        for (int a = 0; a < 3; ++a) r[a] = in[a * n + i], v[a] = in[(3 + a) * n + i];
        for (int step = 0; step < substeps; ++step) {
            const double h = 0.5 * 1.5 * 0.05;
            const double t[3] = {-h * 0.3 * r[0] * r[2], -h * 0.3 * r[1] * r[2],
                                 h * (1 + 0.3 * r[2] * r[2])};
            const double s = 2 / (1 + t[0] * t[0] + t[1] * t[1] + t[2] * t[2]);
            double u[3], w[3];
            for (int a = 0; a < 3; ++a) {
                u[a] = v[a] + v[(a + 1) % 3] * t[(a + 2) % 3] - v[(a + 2) % 3] * t[(a + 1) % 3];
            }
            for (int a = 0; a < 3; ++a) {
                w[a] = v[a] + s * (u[(a + 1) % 3] * t[(a + 2) % 3] - u[(a + 2) % 3] * t[(a + 1) % 3]);
            }
            for (int a = 0; a < 3; ++a) v[a] = w[a], r[a] += 0.05 * v[a];
        }
        for (int a = 0; a < 3; ++a) {
            expected[a * n + i] = float(r[a]), expected[(3 + a) * n + i] = float(v[a]);
        }
    }
}

__global__ void reference_walls(const float* in, float* expected, int count) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        const size_t n = count;
        float r[3];
        double v[3];
        for (int a = 0; a < 3; ++a) {
            v[a] = in[(3 + a) * n + i];
            r[a] = fmaf(0.01f, in[(3 + a) * n + i], in[a * n + i]);
        }
        if (r[0] > 1) {
            double turn = 0.1 + (double(r[0]) - 1);
            for (int k = 0; k < 128; ++k) {
                const double c = 1 - 0.5 * turn * turn;
                const double x = c * v[0] - turn * v[1], y = turn * v[0] + c * v[1], z = v[2];
                v[0] = 0.995 * x;
                v[1] = 0.995 * (c * y - turn * z);
                v[2] = 0.995 * (turn * y + c * z);
                turn = 0.98 * turn + 0.002;
            }
            r[0] = 1;
            v[0] = -fabs(v[0]);
        }
        for (int a = 0; a < 3; ++a) expected[a * n + i] = r[a], expected[(3 + a) * n + i] = float(v[a]);
    }
}

__global__ void reference_field(FieldData d, float* expected) {
    const size_t n = d.count;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < d.count; i += gridDim.x * blockDim.x) {
        double f[6] = {}, v[3];
        int at[3];
        double part[3];
        for (int a = 0; a < 3; ++a) {
            const double x = 64.0 * d.particles[a * n + i];
            at[a] = int(floor(x));
            part[a] = x - at[a];
            v[a] = d.particles[(3 + a) * n + i];
        }
        for (int dz = 0; dz < 2; ++dz) {
            for (int dy = 0; dy < 2; ++dy) {
                for (int dx = 0; dx < 2; ++dx) {
                    const double w = (dx ? part[0] : 1 - part[0]) * (dy ? part[1] : 1 - part[1]) *
                                     (dz ? part[2] : 1 - part[2]);
                    const int cell = ((at[2] + dz) & 63) * 4096 + ((at[1] + dy) & 63) * 64 +
                                     ((at[0] + dx) & 63);
                    for (int k = 0; k < 6; ++k) f[k] += w * d.grid[k * 262144 + cell];
                }
            }
        }
        for (int a = 0; a < 3; ++a) {
            const int b = (a + 1) % 3, c = (a + 2) % 3;
            expected[a * n + i] = float(v[a] + 0.01 * (f[a] + v[b] * f[3 + c] - v[c] * f[3 + b]));
        }
    }
}

__global__ void reference_drift(const double* positions, const float* velocities, double* expected,
                                size_t count) {
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count;
         i += size_t{gridDim.x} * blockDim.x) {
        double x = positions[i] + 1e-3 * velocities[i];
        if (x < 0) x = -x;
        if (x > 1) x = 2 - x;
        expected[i] = x;
    }
}

void orbits(book::Problem& p, OrbitData& d) {
    d.in = p.uniform<float>(6 * size_t(d.count), -1, 1);
    d.out = p.output<float>(6 * size_t(d.count));
    p.needs({.dram_bytes = 48.0 * d.count, .fp32_flop = 60.0 * d.count * d.substeps});
    p.check<float>(d.out, 6 * size_t(d.count), {1e-4, 1e-4}, [=](float* expected) {
        reference_orbits<<<1056, 256>>>(d.in, expected, d.count, d.substeps);
    });
}

// `share` of the particles are beyond the wall after the step.
void walls(book::Problem& p, WallData& d, double share) {
    const size_t n = d.count;
    const uint64_t seed = p.seed();
    d.in = p.input<float>(6 * n, [=] __device__(size_t i) {
        const size_t particle = i % n;
        const double u = book::uniform01(seed, 11 + i / n, particle);
        const bool leaves = book::uniform01(seed, 7, particle) < share;
        if (i < n) return float(leaves ? 0.997 + 0.002 * u : 0.9 * u);
        if (i / n == 3) return float(leaves ? 1 + u : 2 * u - 1);
        return float(2 * u - 1);
    });
    d.out = p.output<float>(6 * n);
    p.needs({.dram_bytes = 48.0 * n, .fp32_flop = n * (6 + share * kScatterings * 18)});
    p.check<float>(d.out, 6 * n, {1e-4, 1e-4}, [=](float* expected) {
        reference_walls<<<1056, 256>>>(d.in, expected, d.count);
    });
    p.variant("wall_inline", [=] { wall_inline(d); });
    p.variant("wall_queued", [=] { wall_queued(d); });
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("trap", [](book::Problem& p) {
        TrapData d{2 << 20};
        d.in = p.uniform<float>(8 * size_t(d.count), 0.5, 1.5);
        d.out = p.output<float>(8 * size_t(d.count));
        p.needs({.dram_bytes = 64.0 * d.count, .fp32_flop = 15.0 * d.count});
        p.check<float>(d.out, 8 * size_t(d.count), {1e-5}, [=](float* expected) {
            reference_trap<<<1056, 256>>>(d.in, expected, d.count);
        });
        p.variant("trap_fields", [=] { trap_fields(d); });
        p.variant("trap_quads", [=] { trap_quads(d); });
    });
    book.problem("mirror", [](book::Problem& p) {
        OrbitData d{2 << 20, 32};
        orbits(p, d);
        p.variant("orbit_plain", [=] { orbit_plain(d); });
        p.variant("orbit_suffixed", [=] { orbit_suffixed(d); });
        p.variant("orbit_groups", [=] { orbit_groups(d); });
    });
    book.problem("mirror_short", [](book::Problem& p) {
        OrbitData d{4 << 20, 4};
        orbits(p, d);
        p.variant("orbit_plain", [=] { orbit_plain(d); });
        p.variant("orbit_suffixed", [=] { orbit_suffixed(d); });
    });
    book.problem("walls", [](book::Problem& p) {
        WallData d{4 << 20};
        walls(p, d, 0.006);
    });
    book.problem("far_walls", [](book::Problem& p) {
        WallData d{4 << 20};
        walls(p, d, 0.0015);
    });
    book.problem("grid", [](book::Problem& p) {
        FieldData d{1 << 20};
        const size_t cells = kGrid * kGrid * kGrid;
        d.grid = p.uniform<float>(6 * cells, -1, 1);
        d.particles = p.uniform<float>(6 * size_t(d.count), 0, 0.9999);
        d.packed = p.output<float4>(2 * cells);
        d.velocities = p.output<float>(3 * size_t(d.count));
        p.needs({.dram_bytes = 36.0 * d.count + 24.0 * cells, .fp32_flop = 120.0 * d.count});
        p.check<float>(d.velocities, 3 * size_t(d.count), {1e-5, 1e-5}, [=](float* expected) {
            reference_field<<<1056, 256>>>(d, expected);
        });
        p.variant("field_components", [=] { field_components(d); });
        p.variant("field_packed", [=] { field_packed(d); });
    });
    book.problem("drift", [](book::Problem& p) {
        DriftData d{3 << 20};
        const size_t count = 3 * size_t(d.count);
        d.positions = p.uniform<double>(count, 0, 1);
        d.velocities = p.uniform<float>(count, -1, 1);
        d.moved = p.output<double>(count);
        p.needs({.dram_bytes = 20.0 * count, .fp64_flop = 4.0 * count});
        p.check<double>(d.moved, count, {0, 1e-6}, [=](double* expected) {
            reference_drift<<<1056, 256>>>(d.positions, d.velocities, expected, count);
        });
        p.variant("drift_double", [=] { drift_double(d); });
        p.variant("drift_float", [=] { drift_float(d); });
    });
    return book.finish();
}
