// Promolecular electron density: sums of atomic densities on grids around a molecule, their gradient,
// and the reduced density gradient that analyses of weak interactions plot.
#include "../../harness/book.h"

//: shared
constexpr int kMostAtoms = 192;

// Density of an atom: three exponentials, sum of weight[k] * exp(-r / length[k]).
struct Molecule {
    int atoms;
    const float4* center;  // x, y, z
    const float4* weight;  // three weights
    const float4* length;  // three decay lengths
    const float4* rate;    // minus their reciprocals
};

// A box of points, kLine of them along x, where blockIdx.x counts y and blockIdx.y counts z.
constexpr int kLine = 128;
struct Box {
    int ny, nz;
    float spacing;
};

// 2^x, about 22 bits; results below the normal range are zero.
__device__ __forceinline__ float power_of_two(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
constexpr float kLog2e = 1.44269504f;
__device__ __forceinline__ float exponential(float x) { return power_of_two(kLog2e * x); }
//: end

//: variant by_rates
__global__ void __launch_bounds__(kLine) density_by_rates(Molecule m, Box box, float* rho) {
    __shared__ float4 center[kMostAtoms], weight[kMostAtoms], rate[kMostAtoms];
#pragma unroll 1
    for (int a = threadIdx.x; a < m.atoms; a += kLine) {
        const float4 length = m.length[a];
        center[a] = m.center[a];
        weight[a] = m.weight[a];
        rate[a] = make_float4(-kLog2e / length.x, -kLog2e / length.y, -kLog2e / length.z, 0);
    }
    __syncthreads();
    const float x = box.spacing * threadIdx.x, y = box.spacing * blockIdx.x, z = box.spacing * blockIdx.y;
    float sum = 0;
#pragma unroll 2
    for (int a = 0; a < m.atoms; ++a) {
        const float4 c = center[a], w = weight[a], k = rate[a];
        const float dx = x - c.x, dy = y - c.y, dz = z - c.z;
        const float r2 = dx * dx + dy * dy + dz * dz + 1e-12f;
        const float r = r2 * rsqrtf(r2);
        sum += w.x * power_of_two(r * k.x) + w.y * power_of_two(r * k.y) + w.z * power_of_two(r * k.z);
    }
    rho[(size_t(blockIdx.y) * box.ny + blockIdx.x) * kLine + threadIdx.x] = sum;
}

void by_rates(const Molecule& m, const Box& box, float* rho) {
    density_by_rates<<<dim3(box.ny, box.nz), kLine>>>(m, box, rho);
}
//: end

//: variant with_offset
__global__ void __launch_bounds__(kLine) density_with_offset(Molecule m, Box box, float* rho) {
    __shared__ float4 center[kMostAtoms], weight[kMostAtoms], rate[kMostAtoms];
#pragma unroll 1
    for (int a = threadIdx.x; a < m.atoms; a += kLine) {
        const float4 length = m.length[a];
        center[a] = m.center[a];
        weight[a] = m.weight[a];
        rate[a] = make_float4(-kLog2e / length.x, -kLog2e / length.y, -kLog2e / length.z, 0);
    }
    __syncthreads();
    const float x = box.spacing * threadIdx.x, y = box.spacing * blockIdx.x, z = box.spacing * blockIdx.y;
    float sum = 0;
#pragma unroll 2
    for (int a = 0; a < m.atoms; ++a) {
        const float4 c = center[a], w = weight[a], k = rate[a];
        const float dx = x - c.x, dy = y - c.y, dz = z - c.z;
        const float r2 = dx * dx + dy * dy + dz * dz + 1e-12;
        const float r = r2 * rsqrtf(r2);
        sum += w.x * power_of_two(r * k.x) + w.y * power_of_two(r * k.y) + w.z * power_of_two(r * k.z);
    }
    rho[(size_t(blockIdx.y) * box.ny + blockIdx.x) * kLine + threadIdx.x] = sum;
}

void with_offset(const Molecule& m, const Box& box, float* rho) {
    density_with_offset<<<dim3(box.ny, box.nz), kLine>>>(m, box, rho);
}
//: end

//: variant by_lengths
__global__ void __launch_bounds__(kLine) density_by_lengths(Molecule m, Box box, float* rho) {
    __shared__ float4 center[kMostAtoms], weight[kMostAtoms], length[kMostAtoms];
#pragma unroll 1
    for (int a = threadIdx.x; a < m.atoms; a += kLine) {
        center[a] = m.center[a];
        weight[a] = m.weight[a];
        length[a] = m.length[a];
    }
    __syncthreads();
    const float x = box.spacing * threadIdx.x, y = box.spacing * blockIdx.x, z = box.spacing * blockIdx.y;
    float sum = 0;
#pragma unroll 2
    for (int a = 0; a < m.atoms; ++a) {
        const float4 c = center[a], w = weight[a], l = length[a];
        const float dx = x - c.x, dy = y - c.y, dz = z - c.z;
        const float r2 = dx * dx + dy * dy + dz * dz + 1e-12f;
        const float r = -kLog2e * r2 * rsqrtf(r2);
        sum += w.x * power_of_two(r / l.x) + w.y * power_of_two(r / l.y) + w.z * power_of_two(r / l.z);
    }
    rho[(size_t(blockIdx.y) * box.ny + blockIdx.x) * kLine + threadIdx.x] = sum;
}

void by_lengths(const Molecule& m, const Box& box, float* rho) {
    density_by_lengths<<<dim3(box.ny, box.nz), kLine>>>(m, box, rho);
}
//: end

//: shared
// Density (x) and its gradient (y, z, w) at kPoints points above each other per thread.
template <int kPoints>
__global__ void __launch_bounds__(kLine) density_gradient(Molecule m, Box box, float4* out) {
    __shared__ float4 center[kMostAtoms], weight[kMostAtoms], rate[kMostAtoms];
#pragma unroll 1
    for (int a = threadIdx.x; a < m.atoms; a += kLine) {
        center[a] = m.center[a];
        weight[a] = m.weight[a];
        rate[a] = m.rate[a];
    }
    __syncthreads();
    const float x = box.spacing * threadIdx.x, y = box.spacing * blockIdx.x;
    float z[kPoints];
    float4 sum[kPoints];
#pragma unroll
    for (int p = 0; p < kPoints; ++p) {
        z[p] = box.spacing * (blockIdx.y * kPoints + p);
        sum[p] = make_float4(0, 0, 0, 0);
    }
#pragma unroll 1
    for (int a = 0; a < m.atoms; ++a) {
        const float4 c = center[a], w = weight[a], k = rate[a];
        const float dx = x - c.x, dy = y - c.y;
        const float across = dx * dx + dy * dy + 1e-12f;
        const float wx = w.x * k.x, wy = w.y * k.y, wz = w.z * k.z;
#pragma unroll
        for (int p = 0; p < kPoints; ++p) {
            const float dz = z[p] - c.z;
            const float r2 = across + dz * dz;
            const float inverse = rsqrtf(r2), r = r2 * inverse;
            const float e1 = exponential(r * k.x), e2 = exponential(r * k.y), e3 = exponential(r * k.z);
            const float slope = (wx * e1 + wy * e2 + wz * e3) * inverse;
            sum[p].x += w.x * e1 + w.y * e2 + w.z * e3;
            sum[p].y += slope * dx;
            sum[p].z += slope * dy;
            sum[p].w += slope * dz;
        }
    }
#pragma unroll
    for (int p = 0; p < kPoints; ++p) {
        out[(size_t(blockIdx.y * kPoints + p) * box.ny + blockIdx.x) * kLine + threadIdx.x] = sum[p];
    }
}
//: end

//: variant column_of_sixteen
void column_of_sixteen(const Molecule& m, const Box& box, float4* out) {
    constexpr int kPoints = 16;
    density_gradient<kPoints><<<dim3(box.ny, box.nz / kPoints), kLine>>>(m, box, out);
}
//: end

//: variant column_of_two
void column_of_two(const Molecule& m, const Box& box, float4* out) {
    constexpr int kPoints = 2;
    density_gradient<kPoints><<<dim3(box.ny, box.nz / kPoints), kLine>>>(m, box, out);
}
//: end

//: shared
// Atoms as even-tempered Gaussians: sum of weight[k] * 2^(-a * 3^k * r^2), a in center.w with its sign.
struct Gaussians {
    int atoms;
    const float4* center;
    const float4* weight;
};
//: end

//: variant four_shells
__global__ void __launch_bounds__(kLine) gaussians_four(Gaussians m, Box box, float* rho) {
    __shared__ float4 center[kMostAtoms], weight[kMostAtoms];
#pragma unroll 1
    for (int a = threadIdx.x; a < m.atoms; a += kLine) {
        center[a] = m.center[a];
        weight[a] = m.weight[a];
    }
    __syncthreads();
    const float x = box.spacing * threadIdx.x, y = box.spacing * blockIdx.x, z = box.spacing * blockIdx.y;
    float sum = 0;
#pragma unroll 4
    for (int a = 0; a < m.atoms; ++a) {
        const float4 c = center[a], w = weight[a];
        const float dx = x - c.x, dy = y - c.y, dz = z - c.z;
        const float s = c.w * (dx * dx + dy * dy + dz * dz);
        sum += w.x * power_of_two(s);
        sum += w.y * power_of_two(3 * s);
        sum += w.z * power_of_two(9 * s);
        sum += w.w * power_of_two(27 * s);
    }
    rho[(size_t(blockIdx.y) * box.ny + blockIdx.x) * kLine + threadIdx.x] = sum;
}

void four_shells(const Gaussians& m, const Box& box, float* rho) {
    gaussians_four<<<dim3(box.ny, box.nz), kLine>>>(m, box, rho);
}
//: end

//: variant shell_to_shell
__global__ void __launch_bounds__(kLine) gaussians_next(Gaussians m, Box box, float* rho) {
    __shared__ float4 center[kMostAtoms], weight[kMostAtoms];
#pragma unroll 1
    for (int a = threadIdx.x; a < m.atoms; a += kLine) {
        center[a] = m.center[a];
        weight[a] = m.weight[a];
    }
    __syncthreads();
    const float x = box.spacing * threadIdx.x, y = box.spacing * blockIdx.x, z = box.spacing * blockIdx.y;
    float sum = 0;
#pragma unroll 4
    for (int a = 0; a < m.atoms; ++a) {
        const float4 c = center[a], w = weight[a];
        const float dx = x - c.x, dy = y - c.y, dz = z - c.z;
        const float s = c.w * (dx * dx + dy * dy + dz * dz);
        const float e1 = power_of_two(s), e3 = e1 * e1 * e1, e9 = e3 * e3 * e3, e27 = e9 * e9 * e9;
        sum += w.x * e1;
        sum += w.y * e3;
        sum += w.z * e9;
        sum += w.w * e27;
    }
    rho[(size_t(blockIdx.y) * box.ny + blockIdx.x) * kLine + threadIdx.x] = sum;
}

void shell_to_shell(const Gaussians& m, const Box& box, float* rho) {
    gaussians_next<<<dim3(box.ny, box.nz), kLine>>>(m, box, rho);
}
//: end

//: shared
// Quadrature points around the atoms: kAngles directions on each radial shell.
constexpr int kAngles = 50;
struct Shells {
    int count;
    const float4* shell;      // centre and radius
    const float4* direction;  // unit vector and weight of the quadrature
};

__device__ __forceinline__ float density_at(const Molecule& m, float x, float y, float z) {
    float sum = 0;
#pragma unroll 2
    for (int a = 0; a < m.atoms; ++a) {
        const float4 c = __ldg(m.center + a), w = __ldg(m.weight + a), k = __ldg(m.rate + a);
        const float dx = x - c.x, dy = y - c.y, dz = z - c.z;
        const float r2 = dx * dx + dy * dy + dz * dz + 1e-12f;
        const float r = r2 * rsqrtf(r2);
        sum += w.x * exponential(r * k.x) + w.y * exponential(r * k.y) + w.z * exponential(r * k.z);
    }
    return sum;
}
//: end

//: variant shell_per_block
__global__ void __launch_bounds__(64) weigh_shell(Molecule m, Shells s, float* out) {
    const float4 shell = s.shell[blockIdx.x], d = s.direction[threadIdx.x];
    const float rho = density_at(m, shell.x + shell.w * d.x, shell.y + shell.w * d.y, shell.z + shell.w * d.z);
    out[blockIdx.x * kAngles + threadIdx.x] = d.w * rho;
}

void shell_per_block(const Molecule& m, const Shells& s, float* out) {
    weigh_shell<<<s.count, kAngles>>>(m, s, out);
}
//: end

//: variant points_in_line
__global__ void __launch_bounds__(64) weigh_points(Molecule m, Shells s, float* out) {
    const int i = blockIdx.x * 64 + threadIdx.x;
    if (i >= s.count * kAngles) return;
    const float4 shell = s.shell[i / kAngles], d = s.direction[i % kAngles];
    const float rho = density_at(m, shell.x + shell.w * d.x, shell.y + shell.w * d.y, shell.z + shell.w * d.z);
    out[i] = d.w * rho;
}

void points_in_line(const Molecule& m, const Shells& s, float* out) {
    weigh_points<<<(s.count * kAngles + 63) / 64, 64>>>(m, s, out);
}
//: end

//: shared
// Reduced density gradient |grad rho| / (2 (3 pi^2)^(1/3) rho^(4/3)), and the density with the sign of the
// middle curvature.
constexpr float kReduced = 0.161620459674f;
struct Map {
    int quads;
    const float4 *rho, *gx, *gy, *gz, *curvature;
    float4 *reduced, *signed_rho;
};

__device__ __forceinline__ float4 with_sign(float4 r, float4 c) {
    return make_float4(copysignf(r.x, c.x), copysignf(r.y, c.y), copysignf(r.z, c.z), copysignf(r.w, c.w));
}
//: end

//: variant by_power
__device__ __forceinline__ float reduced_by_power(float rho, float x, float y, float z) {
    return kReduced * sqrtf(x * x + y * y + z * z) * powf(rho, -4.0f / 3);
}

__global__ void __launch_bounds__(256) map_by_power(Map m) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= m.quads) return;
    const float4 r = m.rho[i], x = m.gx[i], y = m.gy[i], z = m.gz[i], c = m.curvature[i];
    m.signed_rho[i] = with_sign(r, c);
    m.reduced[i] = make_float4(reduced_by_power(r.x, x.x, y.x, z.x), reduced_by_power(r.y, x.y, y.y, z.y),
                               reduced_by_power(r.z, x.z, y.z, z.z), reduced_by_power(r.w, x.w, y.w, z.w));
}

void by_power(const Map& m) { map_by_power<<<(m.quads + 255) / 256, 256>>>(m); }
//: end

//: variant by_root
__device__ __forceinline__ float reduced_by_root(float rho, float x, float y, float z) {
    const float root = rcbrtf(rho), square = root * root;
    return kReduced * sqrtf(x * x + y * y + z * z) * square * square;
}

__global__ void __launch_bounds__(256) map_by_root(Map m) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= m.quads) return;
    const float4 r = m.rho[i], x = m.gx[i], y = m.gy[i], z = m.gz[i], c = m.curvature[i];
    m.signed_rho[i] = with_sign(r, c);
    m.reduced[i] = make_float4(reduced_by_root(r.x, x.x, y.x, z.x), reduced_by_root(r.y, x.y, y.y, z.y),
                               reduced_by_root(r.z, x.z, y.z, z.z), reduced_by_root(r.w, x.w, y.w, z.w));
}

void by_root(const Map& m) { map_by_root<<<(m.quads + 255) / 256, 256>>>(m); }
//: end

// --- references, in double

__device__ double4_32a reference_at(const Molecule& m, double x, double y, double z) {
    double4_32a sum = {0, 0, 0, 0};
    for (int a = 0; a < m.atoms; ++a) {
        const float w[3] = {m.weight[a].x, m.weight[a].y, m.weight[a].z};
        const float l[3] = {m.length[a].x, m.length[a].y, m.length[a].z};
        const double dx = x - m.center[a].x, dy = y - m.center[a].y, dz = z - m.center[a].z;
        const double r = sqrt(dx * dx + dy * dy + dz * dz + 1e-12);
        for (int k = 0; k < 3; ++k) {
            const double e = w[k] * exp(-r / l[k]);
            sum.x += e;
            sum.y -= e / l[k] / r * dx;
            sum.z -= e / l[k] / r * dy;
            sum.w -= e / l[k] / r * dz;
        }
    }
    return sum;
}

__global__ void reference_box(Molecule m, Box box, float* rho, float* all) {
    const size_t i = blockIdx.x * size_t{256} + threadIdx.x;
    if (i >= size_t(kLine) * box.ny * box.nz) return;
    const float x = box.spacing * int(i % kLine), y = box.spacing * int(i / kLine % box.ny),
                z = box.spacing * int(i / kLine / box.ny);
    const double4_32a sum = reference_at(m, x, y, z);
    if (rho) rho[i] = float(sum.x);
    if (all) {
        all[4 * i] = float(sum.x);
        all[4 * i + 1] = float(sum.y);
        all[4 * i + 2] = float(sum.z);
        all[4 * i + 3] = float(sum.w);
    }
}

__global__ void reference_gaussians(Gaussians m, Box box, float* rho) {
    const size_t i = blockIdx.x * size_t{256} + threadIdx.x;
    if (i >= size_t(kLine) * box.ny * box.nz) return;
    const float x = box.spacing * int(i % kLine), y = box.spacing * int(i / kLine % box.ny),
                z = box.spacing * int(i / kLine / box.ny);
    double sum = 0;
    for (int a = 0; a < m.atoms; ++a) {
        const double dx = double(x) - m.center[a].x, dy = double(y) - m.center[a].y,
                     dz = double(z) - m.center[a].z;
        double s = m.center[a].w * (dx * dx + dy * dy + dz * dz);
        const float w[4] = {m.weight[a].x, m.weight[a].y, m.weight[a].z, m.weight[a].w};
        for (int k = 0; k < 4; ++k, s *= 3) sum += w[k] * exp2(s);
    }
    rho[i] = float(sum);
}

__global__ void reference_shells(Molecule m, Shells s, float* out) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= s.count * kAngles) return;
    const float4 shell = s.shell[i / kAngles], d = s.direction[i % kAngles];
    const double4_32a sum = reference_at(m, double(shell.x) + double(shell.w) * d.x,
                                     double(shell.y) + double(shell.w) * d.y,
                                     double(shell.z) + double(shell.w) * d.z);
    out[i] = float(d.w * sum.x);
}

__global__ void reference_sign(const float* rho, const float* curvature, float* out, size_t count) {
    const size_t i = blockIdx.x * size_t{256} + threadIdx.x;
    if (i < count) out[i] = curvature[i] < 0 ? -rho[i] : rho[i];
}

__global__ void reference_map(const float* rho, const float* x, const float* y, const float* z, float* out,
                              size_t count) {
    const size_t i = blockIdx.x * size_t{256} + threadIdx.x;
    if (i >= count) return;
    const double g = sqrt(double(x[i]) * x[i] + double(y[i]) * y[i] + double(z[i]) * z[i]);
    out[i] = float(g / (2 * cbrt(3 * 9.869604401089358) * pow(double(rho[i]), 4.0 / 3)));
}

constexpr int kAtoms = 192;
constexpr double kSide = 12;

double draw(const book::Problem& p, int stream, int i, double low, double high) {
    return low + (high - low) * book::uniform01(p.seed(), 1000 + stream, i);
}

std::vector<float4> centers(const book::Problem& p) {
    std::vector<float4> c(kAtoms);
    for (int a = 0; a < kAtoms; ++a) {
        c[a] = make_float4(float(draw(p, 0, a, 0, kSide)), float(draw(p, 1, a, 0, kSide)),
                           float(draw(p, 2, a, 0, kSide)), float(draw(p, 3, a, -0.6, -0.2)));
    }
    return c;
}

Molecule molecule_of(book::Problem& p) {
    std::vector<float4> weight(kAtoms), length(kAtoms), rate(kAtoms);
    for (int a = 0; a < kAtoms; ++a) {
        weight[a] = make_float4(float(draw(p, 4, a, 0.2, 1)), float(draw(p, 5, a, 0.5, 2)),
                                float(draw(p, 6, a, 1, 4)), 0);
        length[a] = make_float4(float(draw(p, 7, a, 0.5, 0.9)), float(draw(p, 8, a, 0.3, 0.5)),
                                float(draw(p, 9, a, 0.1, 0.3)), 0);
        rate[a] = make_float4(-1 / length[a].x, -1 / length[a].y, -1 / length[a].z, 0);
    }
    return {kAtoms, p.upload(centers(p)), p.upload(weight), p.upload(length), p.upload(rate)};
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("density", [](book::Problem& p) {
        const Molecule m = molecule_of(p);
        const Box box{128, 64, float(kSide / kLine)};
        const size_t points = size_t(kLine) * box.ny * box.nz;
        float* rho = p.output<float>(points);
        const double pairs = double(points) * m.atoms;
        p.needs({.dram_bytes = 4.0 * points, .fp32_flop = 19 * pairs, .special_op = 4 * pairs});
        p.check<float>(rho, points, {3e-4, 1e-6}, [=](float* expected) {
            reference_box<<<unsigned((points + 255) / 256), 256>>>(m, box, expected, nullptr);
        });
        p.variant("by_rates", [=] { by_rates(m, box, rho); });
        p.variant("with_offset", [=] { with_offset(m, box, rho); });
        p.variant("by_lengths", [=] { by_lengths(m, box, rho); });
    });
    book.problem("gradient", [](book::Problem& p) {
        const Molecule m = molecule_of(p);
        const Box box{128, 256, float(kSide / kLine)};
        const size_t points = size_t(kLine) * box.ny * box.nz;
        float4* out = p.output<float4>(points);
        const double pairs = double(points) * m.atoms;
        p.needs({.dram_bytes = 16.0 * points, .fp32_flop = 26 * pairs, .special_op = 4 * pairs});
        p.check<float>(reinterpret_cast<float*>(out), 4 * points, {1e-3, 1e-3}, [=](float* expected) {
            reference_box<<<unsigned((points + 255) / 256), 256>>>(m, box, nullptr, expected);
        });
        p.variant("column_of_sixteen", [=] { column_of_sixteen(m, box, out); });
        p.variant("column_of_two", [=] { column_of_two(m, box, out); });
    });
    book.problem("even_tempered", [](book::Problem& p) {
        std::vector<float4> weight(kAtoms);
        for (int a = 0; a < kAtoms; ++a) {
            weight[a] = make_float4(float(draw(p, 4, a, 0.2, 1)), float(draw(p, 5, a, 0.5, 2)),
                                    float(draw(p, 6, a, 1, 3)), float(draw(p, 7, a, 1, 5)));
        }
        const Gaussians m{kAtoms, p.upload(centers(p)), p.upload(weight)};
        const Box box{128, 128, float(kSide / kLine)};
        const size_t points = size_t(kLine) * box.ny * box.nz;
        float* rho = p.output<float>(points);
        const double pairs = double(points) * m.atoms;
        p.needs({.dram_bytes = 4.0 * points, .fp32_flop = 23 * pairs, .special_op = pairs});
        p.check<float>(rho, points, {3e-4, 1e-6}, [=](float* expected) {
            reference_gaussians<<<unsigned((points + 255) / 256), 256>>>(m, box, expected);
        });
        p.variant("four_shells", [=] { four_shells(m, box, rho); });
        p.variant("shell_to_shell", [=] { shell_to_shell(m, box, rho); });
    });
    book.problem("shells_50", [](book::Problem& p) {
        const Molecule m = molecule_of(p);
        const int count = 16384;
        const std::vector<float4> c = centers(p);
        std::vector<float4> shell(count), direction(kAngles);
        for (int s = 0; s < count; ++s) {
            shell[s] = c[s % kAtoms];
            shell[s].w = float(draw(p, 10, s, 0.05, 4));
        }
        for (int j = 0; j < kAngles; ++j) {
            const double up = draw(p, 11, j, -1, 1), turn = draw(p, 12, j, 0, 6.283185307179586);
            const double out = std::sqrt(1 - up * up);
            direction[j] = make_float4(float(out * std::cos(turn)), float(out * std::sin(turn)), float(up),
                                       float(draw(p, 13, j, 0.01, 0.03)));
        }
        const Shells s{count, p.upload(shell), p.upload(direction)};
        const size_t points = size_t(count) * kAngles;
        float* out = p.output<float>(points);
        const double pairs = double(points) * m.atoms;
        p.needs({.dram_bytes = 4.0 * points + 16.0 * count, .fp32_flop = 19 * pairs, .special_op = 4 * pairs});
        p.check<float>(out, points, {1e-3, 1e-7}, [=](float* expected) {
            reference_shells<<<unsigned((points + 255) / 256), 256>>>(m, s, expected);
        });
        p.variant("shell_per_block", [=] { shell_per_block(m, s, out); });
        p.variant("points_in_line", [=] { points_in_line(m, s, out); });
    });
    book.problem("reduced_map", [](book::Problem& p) {
        const int quads = 3 << 19;
        const size_t points = size_t(4) * quads;
        const float* rho = p.uniform<float>(points, 0.01, 2);
        const float* gx = p.uniform<float>(points, -1, 1);
        const float* gy = p.uniform<float>(points, -1, 1);
        const float* gz = p.uniform<float>(points, -1, 1);
        const float* curvature = p.uniform<float>(points, -1, 1);
        float* reduced = p.output<float>(points);
        float* signed_rho = p.output<float>(points);
        auto wide = [](const float* v) { return reinterpret_cast<const float4*>(v); };
        const Map m{quads, wide(rho), wide(gx), wide(gy), wide(gz), wide(curvature),
                    reinterpret_cast<float4*>(reduced), reinterpret_cast<float4*>(signed_rho)};
        p.needs({.dram_bytes = 28.0 * points, .fp32_flop = 10.0 * points, .special_op = 3.0 * points});
        p.check<float>(reduced, points, {1e-4, 1e-6}, [=](float* expected) {
            reference_map<<<unsigned((points + 255) / 256), 256>>>(rho, gx, gy, gz, expected, points);
        });
        p.check<float>(signed_rho, points, {0}, [=](float* expected) {
            reference_sign<<<unsigned((points + 255) / 256), 256>>>(rho, curvature, expected, points);
        });
        p.variant("by_power", [=] { by_power(m); });
        p.variant("by_root", [=] { by_root(m); });
    });
    return book.finish();
}
