// Two time steps of lattice-Boltzmann flow (D2Q9, periodic): stream by pulling, then collide. Results are the
// moments (density, velocity) that the second step sees.
#include "../../harness/book.h"

struct Flow {
    int nx, ny;
    const float* in_records;  // nine values a cell, side by side; nullptr where not used
    const float* in_planes;   // one plane for each of the nine directions
    float *first, *second;    // distributions after each step, in the layout of the variant
    float* moments;           // planes: density, ux, uy
    const book::Problem* problem;
};

//: shared
__device__ __forceinline__ constexpr int along_x(int q) {
    return q == 1 || q == 5 || q == 8 ? 1 : q == 3 || q == 6 || q == 7 ? -1 : 0;
}
__device__ __forceinline__ constexpr int along_y(int q) {
    return q == 2 || q == 5 || q == 6 ? 1 : q == 4 || q == 7 || q == 8 ? -1 : 0;
}
__device__ __forceinline__ constexpr float weight(int q) {
    return q == 0 ? 4.0f / 9 : q < 5 ? 1.0f / 9 : 1.0f / 36;
}

// Columns and rows that the nine directions come from.
struct Neighbours {
    int west, here, east;
    int south, level, north;

    __device__ __forceinline__ int from(int q, int nx) const {
        const int x = along_x(q) > 0 ? west : along_x(q) < 0 ? east : here;
        const int y = along_y(q) > 0 ? south : along_y(q) < 0 ? north : level;
        return y * nx + x;
    }
};
__device__ __forceinline__ Neighbours around(int x, int y, int nx, int ny) {
    return {x > 0 ? x - 1 : nx - 1, x, x < nx - 1 ? x + 1 : 0, y > 0 ? y - 1 : ny - 1, y, y < ny - 1 ? y + 1 : 0};
}

struct Moments {
    float density, ux, uy;
};
__device__ __forceinline__ Moments moments_of(const float (&f)[9]) {
    Moments m;
    m.density = f[0] + f[1] + f[2] + f[3] + f[4] + f[5] + f[6] + f[7] + f[8];
    m.ux = (f[1] - f[3] + f[5] - f[6] - f[7] + f[8]) / m.density;
    m.uy = (f[2] - f[4] + f[5] + f[6] - f[7] - f[8]) / m.density;
    return m;
}
__device__ __forceinline__ float equilibrium(int q, const Moments& m) {
    const float along = along_x(q) * m.ux + along_y(q) * m.uy;
    return weight(q) * m.density *
           (1 + 3 * along + 4.5f * along * along - 1.5f * (m.ux * m.ux + m.uy * m.uy));
}
__device__ __forceinline__ void store_moments(float* moments, int cell, int cells, const Moments& m) {
    moments[cell] = m.density;
    moments[cells + cell] = m.ux;
    moments[2 * cells + cell] = m.uy;
}

constexpr float kRelaxation = 1.7f;

inline dim3 rows_of(const Flow& f, int threads) {
    return dim3(f.nx / threads, f.ny);
}
//: end

//: variant records_passes
__global__ void stream_records(const float* __restrict__ in, float* __restrict__ out, int nx, int ny) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    const Neighbours n = around(x, y, nx, ny);
#pragma unroll
    for (int q = 0; q < 9; ++q) out[(y * nx + x) * 9 + q] = in[n.from(q, nx) * 9 + q];
}

__global__ void collide_records(float* __restrict__ all, float* __restrict__ moments, int nx, int ny) {
    const int cell = blockIdx.y * nx + blockIdx.x * blockDim.x + threadIdx.x;
    float f[9];
#pragma unroll
    for (int q = 0; q < 9; ++q) f[q] = all[cell * 9 + q];
    const Moments m = moments_of(f);
    store_moments(moments, cell, nx * ny, m);
#pragma unroll
    for (int q = 0; q < 9; ++q) all[cell * 9 + q] = f[q] + kRelaxation * (equilibrium(q, m) - f[q]);
}

void records_passes(const Flow& f) {
    const float* from[] = {f.in_records, f.first};
    float* to[] = {f.first, f.second};
    for (int step = 0; step < 2; ++step) {
        stream_records<<<rows_of(f, 256), 256>>>(from[step], to[step], f.nx, f.ny);
        f.problem->launched(2 * step);
        collide_records<<<rows_of(f, 256), 256>>>(to[step], f.moments, f.nx, f.ny);
        f.problem->launched(2 * step + 1);
    }
}
//: end

//: variant records
__global__ void step_records(const float* __restrict__ in, float* __restrict__ out, float* __restrict__ moments, int nx,
                             int ny) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    const int cell = y * nx + x;
    const Neighbours n = around(x, y, nx, ny);
    float f[9];
#pragma unroll
    for (int q = 0; q < 9; ++q) f[q] = in[n.from(q, nx) * 9 + q];
    const Moments m = moments_of(f);
    store_moments(moments, cell, nx * ny, m);
#pragma unroll
    for (int q = 0; q < 9; ++q) out[cell * 9 + q] = f[q] + kRelaxation * (equilibrium(q, m) - f[q]);
}

void records(const Flow& f) {
    step_records<<<rows_of(f, 256), 256>>>(f.in_records, f.first, f.moments, f.nx, f.ny);
    f.problem->launched(0, 1);
    step_records<<<rows_of(f, 256), 256>>>(f.first, f.second, f.moments, f.nx, f.ny);
}
//: end

//: variant planes_passes
__global__ void stream_planes(const float* __restrict__ in, float* __restrict__ out, int nx, int ny) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    const int cells = nx * ny;
    const Neighbours n = around(x, y, nx, ny);
#pragma unroll
    for (int q = 0; q < 9; ++q) out[q * cells + y * nx + x] = in[q * cells + n.from(q, nx)];
}

__global__ void collide_planes(float* __restrict__ all, float* __restrict__ moments, int nx, int ny) {
    const int cell = blockIdx.y * nx + blockIdx.x * blockDim.x + threadIdx.x;
    const int cells = nx * ny;
    float f[9];
#pragma unroll
    for (int q = 0; q < 9; ++q) f[q] = all[q * cells + cell];
    const Moments m = moments_of(f);
    store_moments(moments, cell, cells, m);
#pragma unroll
    for (int q = 0; q < 9; ++q) all[q * cells + cell] = f[q] + kRelaxation * (equilibrium(q, m) - f[q]);
}

void planes_passes(const Flow& f) {
    const float* from[] = {f.in_planes, f.first};
    float* to[] = {f.first, f.second};
    for (int step = 0; step < 2; ++step) {
        stream_planes<<<rows_of(f, 256), 256>>>(from[step], to[step], f.nx, f.ny);
        f.problem->launched(2 * step);
        collide_planes<<<rows_of(f, 256), 256>>>(to[step], f.moments, f.nx, f.ny);
        f.problem->launched(2 * step + 1);
    }
}
//: end

//: variant planes
__global__ void step_planes(const float* __restrict__ in, float* __restrict__ out, float* __restrict__ moments, int nx,
                            int ny) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    const int cell = y * nx + x, cells = nx * ny;
    const Neighbours n = around(x, y, nx, ny);
    float f[9];
#pragma unroll
    for (int q = 0; q < 9; ++q) f[q] = in[q * cells + n.from(q, nx)];
    const Moments m = moments_of(f);
    store_moments(moments, cell, cells, m);
#pragma unroll
    for (int q = 0; q < 9; ++q) out[q * cells + cell] = f[q] + kRelaxation * (equilibrium(q, m) - f[q]);
}

void planes(const Flow& f) {
    step_planes<<<rows_of(f, 256), 256>>>(f.in_planes, f.first, f.moments, f.nx, f.ny);
    f.problem->launched(0, 1);
    step_planes<<<rows_of(f, 256), 256>>>(f.first, f.second, f.moments, f.nx, f.ny);
}
//: end

//: variant planes_modulo
__global__ void step_planes_modulo(const float* __restrict__ in, float* __restrict__ out, float* __restrict__ moments,
                                   int nx, int ny) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    const int cell = y * nx + x, cells = nx * ny;
    float f[9];
#pragma unroll
    for (int q = 0; q < 9; ++q) {
        const int from_x = (x - along_x(q) + nx) % nx, from_y = (y - along_y(q) + ny) % ny;
        f[q] = in[q * cells + from_y * nx + from_x];
    }
    const Moments m = moments_of(f);
    store_moments(moments, cell, cells, m);
#pragma unroll
    for (int q = 0; q < 9; ++q) out[q * cells + cell] = f[q] + kRelaxation * (equilibrium(q, m) - f[q]);
}

void planes_modulo(const Flow& f) {
    step_planes_modulo<<<rows_of(f, 256), 256>>>(f.in_planes, f.first, f.moments, f.nx, f.ny);
    f.problem->launched(0, 1);
    step_planes_modulo<<<rows_of(f, 256), 256>>>(f.first, f.second, f.moments, f.nx, f.ny);
}
//: end

//: shared
// Collision with several relaxation times: to moments and back by matrices.
template <class T>
struct Lattice {
    T to_moments[9][9];
    T back[9][9];
    T rate[9];
    int cx[9], cy[9];
};

template <class T>
Lattice<T> d2q9() {
    constexpr int rows[9][9] = {{1, 1, 1, 1, 1, 1, 1, 1, 1},     {-4, -1, -1, -1, -1, 2, 2, 2, 2},
                                {4, -2, -2, -2, -2, 1, 1, 1, 1}, {0, 1, 0, -1, 0, 1, -1, -1, 1},
                                {0, -2, 0, 2, 0, 1, -1, -1, 1},  {0, 0, 1, 0, -1, 1, 1, -1, -1},
                                {0, 0, -2, 0, 2, 1, 1, -1, -1},  {0, 1, -1, 1, -1, 0, 0, 0, 0},
                                {0, 0, 0, 0, 0, 1, -1, 1, -1}};
    constexpr int norm[9] = {9, 36, 36, 6, 12, 6, 12, 4, 4};
    constexpr double rate[9] = {0, 1.64, 1.54, 0, 1.7, 0, 1.7, 1.2, 1.2};
    constexpr int cx[9] = {0, 1, 0, -1, 0, 1, -1, -1, 1}, cy[9] = {0, 0, 1, 0, -1, 1, 1, -1, -1};
    Lattice<T> l;
    for (int i = 0; i < 9; ++i) {
        for (int j = 0; j < 9; ++j) {
            l.to_moments[i][j] = T(rows[i][j]);
            l.back[j][i] = T(double(rows[i][j]) / norm[i]);
        }
        l.rate[i] = T(rate[i]);
        l.cx[i] = cx[i];
        l.cy[i] = cy[i];
    }
    return l;
}
//: end

//: shared
// For lattices of any number of directions.
template <class T>
__global__ void step_any(const float* __restrict__ in, float* __restrict__ out, float* __restrict__ moments, int nx,
                         int ny, int directions, const __grid_constant__ Lattice<T> lattice) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    const int cell = y * nx + x, cells = nx * ny;
    T f[9], m[9];
    for (int q = 0; q < directions; ++q) {
        int u = x - lattice.cx[q], v = y - lattice.cy[q];
        u = u < 0 ? nx - 1 : u == nx ? 0 : u;
        v = v < 0 ? ny - 1 : v == ny ? 0 : v;
        f[q] = T(in[q * cells + v * nx + u]);
    }
    for (int i = 0; i < directions; ++i) {
        T sum = 0;
        for (int q = 0; q < directions; ++q) sum += lattice.to_moments[i][q] * f[q];
        m[i] = sum;
    }
    const T jx = m[3], jy = m[5], j2 = jx * jx + jy * jy;
    moments[cell] = float(m[0]);
    moments[cells + cell] = float(jx / m[0]);
    moments[2 * cells + cell] = float(jy / m[0]);
    const T rest[9] = {m[0], -2 * m[0] + 3 * j2, m[0] - 3 * j2, jx, -jx, jy, -jy, jx * jx - jy * jy, jx * jy};
    for (int i = 0; i < directions; ++i) m[i] += lattice.rate[i] * (rest[i] - m[i]);
    for (int q = 0; q < directions; ++q) {
        T sum = 0;
        for (int i = 0; i < directions; ++i) sum += lattice.back[q][i] * m[i];
        out[q * cells + cell] = float(sum);
    }
}

template <class T>
void any(const Flow& f) {
    const Lattice<T> lattice = d2q9<T>();
    step_any<T><<<rows_of(f, 128), 128>>>(f.in_planes, f.first, f.moments, f.nx, f.ny, 9, lattice);
    step_any<T><<<rows_of(f, 128), 128>>>(f.first, f.second, f.moments, f.nx, f.ny, 9, lattice);
}
//: end

//: variant relax_any_f64
void relax_any_f64(const Flow& f) {
    any<double>(f);
}
//: end

//: variant relax_any
void relax_any(const Flow& f) {
    any<float>(f);
}
//: end

//: shared
template <class T>
__global__ void step_nine(const float* __restrict__ in, float* __restrict__ out, float* __restrict__ moments, int nx,
                          int ny, const __grid_constant__ Lattice<T> lattice) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    const int cell = y * nx + x, cells = nx * ny;
    const Neighbours n = around(x, y, nx, ny);
    T f[9], m[9];
#pragma unroll
    for (int q = 0; q < 9; ++q) f[q] = T(in[q * cells + n.from(q, nx)]);
#pragma unroll
    for (int i = 0; i < 9; ++i) {
        m[i] = 0;
#pragma unroll
        for (int q = 0; q < 9; ++q) m[i] += lattice.to_moments[i][q] * f[q];
    }
    const T jx = m[3], jy = m[5], j2 = jx * jx + jy * jy;
    moments[cell] = float(m[0]);
    moments[cells + cell] = float(jx / m[0]);
    moments[2 * cells + cell] = float(jy / m[0]);
    const T rest[9] = {m[0], -2 * m[0] + 3 * j2, m[0] - 3 * j2, jx, -jx, jy, -jy, jx * jx - jy * jy, jx * jy};
#pragma unroll
    for (int i = 0; i < 9; ++i) m[i] += lattice.rate[i] * (rest[i] - m[i]);
#pragma unroll
    for (int q = 0; q < 9; ++q) {
        T sum = 0;
#pragma unroll
        for (int i = 0; i < 9; ++i) sum += lattice.back[q][i] * m[i];
        out[q * cells + cell] = float(sum);
    }
}

template <class T>
void nine(const Flow& f) {
    const Lattice<T> lattice = d2q9<T>();
    step_nine<T><<<rows_of(f, 128), 128>>>(f.in_planes, f.first, f.moments, f.nx, f.ny, lattice);
    step_nine<T><<<rows_of(f, 128), 128>>>(f.first, f.second, f.moments, f.nx, f.ny, lattice);
}
//: end

//: variant relax_nine_f64
void relax_nine_f64(const Flow& f) {
    nine<double>(f);
}
//: end

//: variant relax_nine
void relax_nine(const Flow& f) {
    nine<float>(f);
}
//: end

//: variant power_law
// A fluid that thins under shear: the relaxation time follows from the stress by a fixed-point iteration.
template <int Iterations>
__global__ void step_power_law(const float* __restrict__ in, float* __restrict__ out, float* __restrict__ moments,
                               int nx, int ny) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    const int cell = y * nx + x, cells = nx * ny;
    const Neighbours n = around(x, y, nx, ny);
    float f[9];
#pragma unroll
    for (int q = 0; q < 9; ++q) f[q] = in[q * cells + n.from(q, nx)];
    const Moments m = moments_of(f);
    store_moments(moments, cell, cells, m);
    float xx = 0, xy = 0, yy = 0;
#pragma unroll
    for (int q = 0; q < 9; ++q) {
        const float off = f[q] - equilibrium(q, m);
        xx += along_x(q) * along_x(q) * off;
        xy += along_x(q) * along_y(q) * off;
        yy += along_y(q) * along_y(q) * off;
    }
    const float stress = sqrtf(xx * xx + 2 * xy * xy + yy * yy) / m.density;
    float tau = 0.8f;
    for (int k = 0; k < Iterations; ++k) {
        const float shear = 1.5f * stress / tau;
        tau = 0.5 + 0.06 * pow(shear + 1e-4, -0.3);
    }
    const float relaxation = 1 / tau;
#pragma unroll
    for (int q = 0; q < 9; ++q) out[q * cells + cell] = f[q] + relaxation * (equilibrium(q, m) - f[q]);
}

template <int Iterations>
void power_law(const Flow& f) {
    step_power_law<Iterations><<<rows_of(f, 128), 128>>>(f.in_planes, f.first, f.moments, f.nx, f.ny);
    step_power_law<Iterations><<<rows_of(f, 128), 128>>>(f.first, f.second, f.moments, f.nx, f.ny);
}
//: end

//: variant power_law_f
// A fluid that thins under shear: the relaxation time follows from the stress by a fixed-point iteration.
template <int Iterations>
__global__ void step_power_law_f(const float* __restrict__ in, float* __restrict__ out, float* __restrict__ moments,
                                 int nx, int ny) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    const int cell = y * nx + x, cells = nx * ny;
    const Neighbours n = around(x, y, nx, ny);
    float f[9];
#pragma unroll
    for (int q = 0; q < 9; ++q) f[q] = in[q * cells + n.from(q, nx)];
    const Moments m = moments_of(f);
    store_moments(moments, cell, cells, m);
    float xx = 0, xy = 0, yy = 0;
#pragma unroll
    for (int q = 0; q < 9; ++q) {
        const float off = f[q] - equilibrium(q, m);
        xx += along_x(q) * along_x(q) * off;
        xy += along_x(q) * along_y(q) * off;
        yy += along_y(q) * along_y(q) * off;
    }
    const float stress = sqrtf(xx * xx + 2 * xy * xy + yy * yy) / m.density;
    float tau = 0.8f;
    for (int k = 0; k < Iterations; ++k) {
        const float shear = 1.5f * stress / tau;
        tau = 0.5f + 0.06f * powf(shear + 1e-4f, -0.3f);
    }
    const float relaxation = 1 / tau;
#pragma unroll
    for (int q = 0; q < 9; ++q) out[q * cells + cell] = f[q] + relaxation * (equilibrium(q, m) - f[q]);
}

template <int Iterations>
void power_law_f(const Flow& f) {
    step_power_law_f<Iterations><<<rows_of(f, 128), 128>>>(f.in_planes, f.first, f.moments, f.nx, f.ny);
    step_power_law_f<Iterations><<<rows_of(f, 128), 128>>>(f.first, f.second, f.moments, f.nx, f.ny);
}
//: end

// Reference: both steps in double, gathered cell by cell. kind 0: one relaxation time; 1: several; 2: power law.
__global__ void reference_step(const float* in, const double* from, double* to, float* expected, int nx, int ny,
                               int kind, int iterations) {
    const int cx[9] = {0, 1, 0, -1, 0, 1, -1, -1, 1}, cy[9] = {0, 0, 1, 0, -1, 1, 1, -1, -1};
    const double w[9] = {4. / 9, 1. / 9, 1. / 9, 1. / 9, 1. / 9, 1. / 36, 1. / 36, 1. / 36, 1. / 36};
    const int cells = nx * ny;
    for (int cell = blockIdx.x * blockDim.x + threadIdx.x; cell < cells; cell += gridDim.x * blockDim.x) {
        const int x = cell % nx, y = cell / nx;
        double f[9], rho = 0, jx = 0, jy = 0;
        for (int q = 0; q < 9; ++q) {
            const size_t at = size_t(q) * cells + (y - cy[q] + ny) % ny * nx + (x - cx[q] + nx) % nx;
            f[q] = in ? double(in[at]) : from[at];
            rho += f[q];
            jx += cx[q] * f[q];
            jy += cy[q] * f[q];
        }
        expected[cell] = float(rho);
        expected[cells + cell] = float(jx / rho);
        expected[2 * size_t(cells) + cell] = float(jy / rho);
        if (!to) continue;
        double rest[9], xx = 0, xy = 0, yy = 0;
        for (int q = 0; q < 9; ++q) {
            const double along = (cx[q] * jx + cy[q] * jy) / rho;
            rest[q] = w[q] * rho * (1 + 3 * along + 4.5 * along * along - 1.5 * (jx * jx + jy * jy) / (rho * rho));
            xx += cx[q] * cx[q] * (f[q] - rest[q]);
            xy += cx[q] * cy[q] * (f[q] - rest[q]);
            yy += cy[q] * cy[q] * (f[q] - rest[q]);
        }
        if (kind == 1) {
            // Moment by moment: the change of each is spread back over the directions.
            double change[9] = {};
            for (int k = 1; k < 9; ++k) {
                if (k == 3 || k == 5) continue;
                double row[9], norm = 0, moment = 0;
                for (int q = 0; q < 9; ++q) {
                    const double x2 = cx[q] * cx[q], y2 = cy[q] * cy[q], r2 = x2 + y2;
                    row[q] = k == 1   ? 3 * r2 - 4
                             : k == 2 ? 4 - 10.5 * r2 + 4.5 * r2 * r2
                             : k == 4 ? (3 * r2 - 5) * cx[q]
                             : k == 6 ? (3 * r2 - 5) * cy[q]
                             : k == 7 ? x2 - y2
                                      : double(cx[q] * cy[q]);
                    norm += row[q] * row[q];
                    moment += row[q] * f[q];
                }
                const double j2 = jx * jx + jy * jy;
                const double goal = k == 1   ? -2 * rho + 3 * j2
                                    : k == 2 ? rho - 3 * j2
                                    : k == 4 ? -jx
                                    : k == 6 ? -jy
                                    : k == 7 ? jx * jx - jy * jy
                                             : jx * jy;
                const double rate = k == 1 ? 1.64 : k == 2 ? 1.54 : k == 4 || k == 6 ? 1.7 : 1.2;
                for (int q = 0; q < 9; ++q) change[q] += rate * (goal - moment) * row[q] / norm;
            }
            for (int q = 0; q < 9; ++q) to[size_t(q) * cells + cell] = f[q] + change[q];
            continue;
        }
        double relaxation = 1.7;
        if (kind == 2) {
            double tau = 0.8;
            for (int k = 0; k < iterations; ++k) {
                const double shear = 1.5 * sqrt(xx * xx + 2 * xy * xy + yy * yy) / rho / tau;
                tau = 0.5 + 0.06 * exp(-0.3 * log(shear + 1e-4));
            }
            relaxation = 1 / tau;
        }
        for (int q = 0; q < 9; ++q) to[size_t(q) * cells + cell] = f[q] + relaxation * (rest[q] - f[q]);
    }
}

void reference_flow(const Flow& f, float* expected, int kind, int iterations) {
    double* middle = nullptr;
    BOOK_CHECK(cudaMalloc(&middle, sizeof(double) * 9 * f.nx * f.ny));
    reference_step<<<1056, 256>>>(f.in_planes, nullptr, middle, expected, f.nx, f.ny, kind, iterations);
    reference_step<<<1056, 256>>>(nullptr, middle, nullptr, expected, f.nx, f.ny, kind, iterations);
    BOOK_CHECK(cudaDeviceSynchronize());
    BOOK_CHECK(cudaFree(middle));
}

__host__ __device__ inline float start_value(uint64_t seed, size_t cell, int q) {
    const double w = q == 0 ? 4. / 9 : q < 5 ? 1. / 9 : 1. / 36;
    return float(w * (0.85 + 0.3 * book::uniform01(seed, 77, cell * 9 + q)));
}

Flow flow_of(book::Problem& p, int nx, int ny, bool records, int kind, int iterations) {
    Flow f{nx, ny};
    const size_t cells = size_t(nx) * ny;
    const uint64_t seed = p.seed();
    f.in_records = nullptr;
    f.in_planes = p.input<float>(9 * cells, [=] __device__(size_t i) { return start_value(seed, i % cells, int(i / cells)); });
    if (records) {
        f.in_records = p.input<float>(9 * cells, [=] __device__(size_t i) { return start_value(seed, i / 9, int(i % 9)); });
    }
    f.first = p.output<float>(9 * cells);
    f.second = p.output<float>(9 * cells);
    f.moments = p.output<float>(3 * cells);
    f.problem = &p;
    p.needs({.dram_bytes = 2 * 72.0 * cells + 12.0 * cells, .fp32_flop = 2 * 120.0 * cells});
    p.check<float>(f.moments, 3 * cells, {1e-5, 1e-5}, [=](float* expected) { reference_flow(f, expected, kind, iterations); });
    return f;
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("flow", [](book::Problem& p) {
        const Flow f = flow_of(p, 1536, 1024, true, 0, 0);
        p.variant("records_passes", [=] { records_passes(f); });
        p.variant("records", [=] { records(f); });
        p.variant("planes_passes", [=] { planes_passes(f); });
        p.variant("planes_modulo", [=] { planes_modulo(f); });
        p.variant("planes", [=] { planes(f); });
    });
    book.problem("several_rates", [](book::Problem& p) {
        const Flow f = flow_of(p, 1920, 1024, false, 1, 0);
        p.variant("relax_any_f64", [=] { relax_any_f64(f); });
        p.variant("relax_any", [=] { relax_any(f); });
        p.variant("relax_nine_f64", [=] { relax_nine_f64(f); });
        p.variant("relax_nine", [=] { relax_nine(f); });
    });
    book.problem("thinning_4", [](book::Problem& p) {
        const Flow f = flow_of(p, 1280, 1280, false, 2, 4);
        p.variant("power_law", [=] { power_law<4>(f); });
        p.variant("power_law_f", [=] { power_law_f<4>(f); });
    });
    book.problem("thinning_1", [](book::Problem& p) {
        const Flow f = flow_of(p, 1280, 1280, false, 2, 1);
        p.variant("power_law", [=] { power_law<1>(f); });
        p.variant("power_law_f", [=] { power_law_f<1>(f); });
    });
    return book.finish();
}
