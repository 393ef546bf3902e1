// Smoothed-particle hydrodynamics: densities and accelerations from stored neighbour lists. The list
// is stored by columns: neighbour k of particle i is list[k * count + i].
#include "../../harness/book.h"

struct Cloud {
    int count, neighbors;
    const int* list;
    const float4* body;  // position and mass
    float* density;
};

struct Columns {
    int count, neighbors;
    const int* list;
    const float *x, *y, *z, *mass;
    float4* packed;
    float* density;
};

struct Fluid {
    int count;
    const int *list, *found;  // found: number of neighbours of each particle
    const int* order;         // particles by number of neighbours, made with the list
    const float4* body;       // position and mass
    const float4* motion;     // velocity and density
    float2* state;            // scratch
    float *ax, *ay, *az;
};

//: shared
constexpr float kRadius = 1.7f;  // smoothing length h; the support is 2 h
constexpr float kRestDensity = 1.0f, kStiffness = 50.0f, kGamma = 7.0f, kViscosity = 0.08f;
constexpr int kBlock = 256;

inline float norm_of(float h) { return float(21.0 / (16.0 * 3.14159265358979 * h * h * h)); }

inline int blocks_of(int count) { return (count + kBlock - 1) / kBlock; }

// Wendland C2 without its normalisation.
__device__ inline float wendland(float q) {
    const float t = fmaxf(1.0f - 0.5f * q, 0.0f);
    return t * t * t * t * (2.0f * q + 1.0f);
}

__global__ void update_state(int count, const float4* __restrict__ motion, float2* __restrict__ state,
                             float rest_density, float stiffness, float gamma) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const float density = motion[i].w;
    const float pressure = stiffness * (powf(density / rest_density, gamma) - 1.0f);
    state[i] = make_float2(pressure / (density * density), 1.0f / density);
}

// Pressure and viscous terms of one neighbour; state is (pressure / density^2, 1 / density).
__device__ inline void add_pair(float4 own, float4 own_motion, float2 own_state, float4 other,
                                float4 other_motion, float2 other_state, float inv_h, float viscosity,
                                float3& sum) {
    const float dx = own.x - other.x, dy = own.y - other.y, dz = own.z - other.z;
    const float r2 = dx * dx + dy * dy + dz * dz;
    const float q = r2 * rsqrtf(r2) * inv_h;
    const float t = fmaxf(1.0f - 0.5f * q, 0.0f);
    const float slope = -5.0f * t * t * t * inv_h * inv_h;  // (dW/dr) / r
    const float push = -other.w * (own_state.x + other_state.x) * slope;
    const float drag = -viscosity * other.w * (own_state.y + other_state.y) * slope;
    sum.x += push * dx + drag * (other_motion.x - own_motion.x);
    sum.y += push * dy + drag * (other_motion.y - own_motion.y);
    sum.z += push * dz + drag * (other_motion.z - own_motion.z);
}
//: end

//: variant by_particle
__global__ void density_by_particle(int count, int neighbors, const int* __restrict__ list,
                                    const float4* __restrict__ body, float* __restrict__ density,
                                    float inv_h, float norm) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const float4 own = body[i];
    float sum = own.w;
    for (int k = 0; k < neighbors; ++k) {
        const float4 other = body[list[size_t(k) * count + i]];
        const float dx = own.x - other.x, dy = own.y - other.y, dz = own.z - other.z;
        const float r2 = dx * dx + dy * dy + dz * dz;
        sum += other.w * wendland(r2 * rsqrtf(r2) * inv_h);
    }
    density[i] = norm * sum;
}

void by_particle(const Cloud& c) {
    density_by_particle<<<blocks_of(c.count), kBlock>>>(c.count, c.neighbors, c.list, c.body, c.density,
                                                        1.0f / kRadius, norm_of(kRadius));
}
//: end

//: variant kernel_function
// The kernel function as in the paper: W(q) = (1 - q/2)^4 (2q + 1).
__device__ inline float wendland_c2(float q) {
    const float t = fmaxf(1.0 - 0.5 * q, 0.0f);
    return t * t * t * t * (2.0 * q + 1.0);
}

__global__ void density_kernel_function(int count, int neighbors, const int* __restrict__ list,
                                        const float4* __restrict__ body, float* __restrict__ density,
                                        float inv_h, float norm) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const float4 own = body[i];
    float sum = own.w;
    for (int k = 0; k < neighbors; ++k) {
        const float4 other = body[list[size_t(k) * count + i]];
        const float dx = own.x - other.x, dy = own.y - other.y, dz = own.z - other.z;
        const float r2 = dx * dx + dy * dy + dz * dz;
        sum += other.w * wendland_c2(r2 * rsqrtf(r2) * inv_h);
    }
    density[i] = norm * sum;
}

void kernel_function(const Cloud& c) {
    density_kernel_function<<<blocks_of(c.count), kBlock>>>(c.count, c.neighbors, c.list, c.body,
                                                            c.density, 1.0f / kRadius, norm_of(kRadius));
}
//: end

//: variant with_norm
__global__ void density_with_norm(int count, int neighbors, const int* __restrict__ list,
                                  const float4* __restrict__ body, float* __restrict__ density,
                                  float h, float inv_h) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const float4 own = body[i];
    float sum = own.w;
    for (int k = 0; k < neighbors; ++k) {
        const float4 other = body[list[size_t(k) * count + i]];
        const float dx = own.x - other.x, dy = own.y - other.y, dz = own.z - other.z;
        const float r2 = dx * dx + dy * dy + dz * dz;
        sum += other.w * wendland(r2 * rsqrtf(r2) * inv_h);
    }
    density[i] = 21.0 / (16.0 * 3.14159265358979 * h * h * h) * sum;
}

void with_norm(const Cloud& c) {
    density_with_norm<<<blocks_of(c.count), kBlock>>>(c.count, c.neighbors, c.list, c.body, c.density,
                                                      kRadius, 1.0f / kRadius);
}
//: end

//: variant by_distance
__global__ void density_by_distance(int count, int neighbors, const int* __restrict__ list,
                                    const float4* __restrict__ body, float* __restrict__ density,
                                    float h, float norm) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const float4 own = body[i];
    float sum = own.w;
    for (int k = 0; k < neighbors; ++k) {
        const float4 other = body[list[size_t(k) * count + i]];
        const float dx = own.x - other.x, dy = own.y - other.y, dz = own.z - other.z;
        const float r = sqrtf(dx * dx + dy * dy + dz * dz);
        sum += other.w * wendland(r / h);
    }
    density[i] = norm * sum;
}

void by_distance(const Cloud& c) {
    density_by_distance<<<blocks_of(c.count), kBlock>>>(c.count, c.neighbors, c.list, c.body, c.density,
                                                        kRadius, norm_of(kRadius));
}
//: end

//: variant by_slices
// 32 particles and 8 slices of their lists per block.
__global__ void density_by_slices(int count, int neighbors, const int* __restrict__ list,
                                  const float4* __restrict__ body, float* __restrict__ density,
                                  float inv_h, float norm) {
    __shared__ float partial[8][32];
    const int i = blockIdx.x * 32 + threadIdx.x;
    const float4 own = body[i];
    float sum = threadIdx.y == 0 ? own.w : 0.0f;
    for (int k = threadIdx.y; k < neighbors; k += 8) {
        const float4 other = body[list[size_t(k) * count + i]];
        const float dx = own.x - other.x, dy = own.y - other.y, dz = own.z - other.z;
        const float r2 = dx * dx + dy * dy + dz * dz;
        sum += other.w * wendland(r2 * rsqrtf(r2) * inv_h);
    }
    partial[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y != 0) return;
    for (int s = 1; s < 8; ++s) sum += partial[s][threadIdx.x];
    density[i] = norm * sum;
}

void by_slices(const Cloud& c) {
    density_by_slices<<<c.count / 32, dim3(32, 8)>>>(c.count, c.neighbors, c.list, c.body, c.density,
                                                     1.0f / kRadius, norm_of(kRadius));
}
//: end

//: variant four_arrays
__global__ void density_four_arrays(int count, int neighbors, const int* __restrict__ list,
                                    const float* __restrict__ x, const float* __restrict__ y,
                                    const float* __restrict__ z, const float* __restrict__ mass,
                                    float* __restrict__ density, float inv_h, float norm) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const float own_x = x[i], own_y = y[i], own_z = z[i];
    float sum = mass[i];
    for (int k = 0; k < neighbors; ++k) {
        const int j = list[size_t(k) * count + i];
        const float dx = own_x - x[j], dy = own_y - y[j], dz = own_z - z[j];
        const float r2 = dx * dx + dy * dy + dz * dz;
        sum += mass[j] * wendland(r2 * rsqrtf(r2) * inv_h);
    }
    density[i] = norm * sum;
}

void four_arrays(const Columns& c) {
    density_four_arrays<<<blocks_of(c.count), kBlock>>>(c.count, c.neighbors, c.list, c.x, c.y, c.z,
                                                        c.mass, c.density, 1.0f / kRadius,
                                                        norm_of(kRadius));
}
//: end

//: variant packed
__global__ void pack(int count, const float* __restrict__ x, const float* __restrict__ y,
                     const float* __restrict__ z, const float* __restrict__ mass,
                     float4* __restrict__ packed) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) packed[i] = make_float4(x[i], y[i], z[i], mass[i]);
}

__global__ void density_packed(int count, int neighbors, const int* __restrict__ list,
                               const float4* __restrict__ body, float* __restrict__ density,
                               float inv_h, float norm) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const float4 own = body[i];
    float sum = own.w;
    for (int k = 0; k < neighbors; ++k) {
        const float4 other = body[list[size_t(k) * count + i]];
        const float dx = own.x - other.x, dy = own.y - other.y, dz = own.z - other.z;
        const float r2 = dx * dx + dy * dy + dz * dz;
        sum += other.w * wendland(r2 * rsqrtf(r2) * inv_h);
    }
    density[i] = norm * sum;
}

void packed(const Columns& c) {
    pack<<<blocks_of(c.count), kBlock>>>(c.count, c.x, c.y, c.z, c.mass, c.packed);
    density_packed<<<blocks_of(c.count), kBlock>>>(c.count, c.neighbors, c.list, c.packed, c.density,
                                                   1.0f / kRadius, norm_of(kRadius));
}
//: end

//: variant forces
__global__ void accelerate(Fluid f, const int* __restrict__ list, const float4* __restrict__ body,
                           const float4* __restrict__ motion, const float2* __restrict__ state,
                           float inv_h, float viscosity) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= f.count) return;
    const float4 own = body[i], own_motion = motion[i];
    const float2 own_state = state[i];
    const int found = f.found[i];
    float3 sum = make_float3(0, 0, 0);
    for (int k = 0; k < found; ++k) {
        const int j = list[size_t(k) * f.count + i];
        add_pair(own, own_motion, own_state, body[j], motion[j], state[j], inv_h, viscosity, sum);
    }
    f.ax[i] = sum.x, f.ay[i] = sum.y, f.az[i] = sum.z;
}

void forces(const Fluid& f) {
    update_state<<<blocks_of(f.count), kBlock>>>(f.count, f.motion, f.state, kRestDensity, kStiffness,
                                                 kGamma);
    accelerate<<<blocks_of(f.count), kBlock>>>(f, f.list, f.body, f.motion, f.state, 1.0f / kRadius,
                                               kViscosity);
}
//: end

//: variant forces_ordered
__global__ void accelerate_ordered(Fluid f, const int* __restrict__ list, const float4* __restrict__ body,
                                   const float4* __restrict__ motion, const float2* __restrict__ state,
                                   float inv_h, float viscosity) {
    const int place = blockIdx.x * blockDim.x + threadIdx.x;
    if (place >= f.count) return;
    const int i = f.order[place];
    const float4 own = body[i], own_motion = motion[i];
    const float2 own_state = state[i];
    const int found = f.found[i];
    float3 sum = make_float3(0, 0, 0);
    for (int k = 0; k < found; ++k) {
        const int j = list[size_t(k) * f.count + i];
        add_pair(own, own_motion, own_state, body[j], motion[j], state[j], inv_h, viscosity, sum);
    }
    f.ax[i] = sum.x, f.ay[i] = sum.y, f.az[i] = sum.z;
}

void forces_ordered(const Fluid& f) {
    update_state<<<blocks_of(f.count), kBlock>>>(f.count, f.motion, f.state, kRestDensity, kStiffness,
                                                 kGamma);
    accelerate_ordered<<<blocks_of(f.count), kBlock>>>(f, f.list, f.body, f.motion, f.state,
                                                       1.0f / kRadius, kViscosity);
}
//: end

//: variant tait_forces
__device__ inline float2 tait(float density, float rest_density, float stiffness, float gamma) {
    const float pressure = stiffness * (powf(density / rest_density, gamma) - 1.0f);
    return make_float2(pressure / (density * density), 1.0f / density);
}

__global__ void accelerate_tait(Fluid f, const int* __restrict__ list, const float4* __restrict__ body,
                                const float4* __restrict__ motion, float inv_h, float viscosity,
                                float rest_density, float stiffness, float gamma) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= f.count) return;
    const float4 own = body[i], own_motion = motion[i];
    const float2 own_state = tait(own_motion.w, rest_density, stiffness, gamma);
    const int found = f.found[i];
    float3 sum = make_float3(0, 0, 0);
    for (int k = 0; k < found; ++k) {
        const int j = list[size_t(k) * f.count + i];
        const float4 other_motion = motion[j];
        const float2 other_state = tait(other_motion.w, rest_density, stiffness, gamma);
        add_pair(own, own_motion, own_state, body[j], other_motion, other_state, inv_h, viscosity, sum);
    }
    f.ax[i] = sum.x, f.ay[i] = sum.y, f.az[i] = sum.z;
}

void tait_forces(const Fluid& f) {
    accelerate_tait<<<blocks_of(f.count), kBlock>>>(f, f.list, f.body, f.motion, 1.0f / kRadius, kViscosity,
                                                    kRestDensity, kStiffness, kGamma);
}
//: end

//: variant tait_ordered
__device__ inline float2 tait_state(float density, float rest_density, float stiffness, float gamma) {
    const float pressure = stiffness * (powf(density / rest_density, gamma) - 1.0f);
    return make_float2(pressure / (density * density), 1.0f / density);
}

__global__ void accelerate_tait_ordered(Fluid f, const int* __restrict__ list,
                                        const float4* __restrict__ body, const float4* __restrict__ motion,
                                        float inv_h, float viscosity, float rest_density, float stiffness,
                                        float gamma) {
    const int place = blockIdx.x * blockDim.x + threadIdx.x;
    if (place >= f.count) return;
    const int i = f.order[place];
    const float4 own = body[i], own_motion = motion[i];
    const float2 own_state = tait_state(own_motion.w, rest_density, stiffness, gamma);
    const int found = f.found[i];
    float3 sum = make_float3(0, 0, 0);
    for (int k = 0; k < found; ++k) {
        const int j = list[size_t(k) * f.count + i];
        const float4 other_motion = motion[j];
        const float2 other_state = tait_state(other_motion.w, rest_density, stiffness, gamma);
        add_pair(own, own_motion, own_state, body[j], other_motion, other_state, inv_h, viscosity, sum);
    }
    f.ax[i] = sum.x, f.ay[i] = sum.y, f.az[i] = sum.z;
}

void tait_ordered(const Fluid& f) {
    accelerate_tait_ordered<<<blocks_of(f.count), kBlock>>>(f, f.list, f.body, f.motion, 1.0f / kRadius,
                                                            kViscosity, kRestDensity, kStiffness, kGamma);
}
//: end

__device__ double reference_weight(double r2) {
    const double q = sqrt(r2) / double(kRadius), t = q < 2 ? 1 - q / 2 : 0;
    return t * t * t * t * (2 * q + 1) * 21.0 / (16.0 * 3.14159265358979 * pow(double(kRadius), 3.0));
}

__global__ void reference_density(int count, int neighbors, const int* list, const float4* body,
                                  float* expected) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    double sum = body[i].w * reference_weight(0);
    for (int k = 0; k < neighbors; ++k) {
        const float4 b = body[list[size_t(k) * count + i]];
        const double dx = double(b.x) - body[i].x, dy = double(b.y) - body[i].y, dz = double(b.z) - body[i].z;
        sum += b.w * reference_weight(dx * dx + dy * dy + dz * dz);
    }
    expected[i] = float(sum);
}

__global__ void reference_force(Fluid f, int axis, float* expected) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= f.count) return;
    const auto along = [axis](float4 v) { return double(axis == 0 ? v.x : axis == 1 ? v.y : v.z); };
    const auto term = [](double rho) {
        return double(kStiffness) * (pow(rho / double(kRestDensity), double(kGamma)) - 1) / (rho * rho);
    };
    const double h = kRadius, own_rho = f.motion[i].w;
    double sum = 0;
    for (int k = 0; k < f.found[i]; ++k) {
        const int j = f.list[size_t(k) * f.count + i];
        const float4 a = f.body[i], b = f.body[j];
        const double dx = double(a.x) - b.x, dy = double(a.y) - b.y, dz = double(a.z) - b.z;
        const double r = sqrt(dx * dx + dy * dy + dz * dz), t = fmax(1 - r / h / 2, 0.0);
        const double slope = -5 / (h * h) * t * t * t, rho = f.motion[j].w;
        sum -= b.w * (term(own_rho) + term(rho)) * slope * (along(a) - along(b));
        sum -= double(kViscosity) * b.w * (1 / own_rho + 1 / rho) * slope *
               (along(f.motion[j]) - along(f.motion[i]));
    }
    expected[i] = float(sum);
}

// Particles of a jittered lattice and its neighbours in the order of their distance.
struct Lattice {
    int bits_x, bits_y, bits_z;
    uint64_t seed;
    bool shuffled;
    int count() const { return 1 << (bits_x + bits_y + bits_z); }
    __host__ __device__ unsigned folded(unsigned value) const {  // its own inverse
        return value ^ (value >> ((bits_x + bits_y + bits_z + 1) / 2));
    }
    __host__ __device__ unsigned times(unsigned value, unsigned factor) const {
        return (value * factor) & ((1u << (bits_x + bits_y + bits_z)) - 1);
    }
    __host__ __device__ static unsigned inverse(unsigned odd) {
        unsigned found = odd;
        for (int k = 0; k < 5; ++k) found *= 2u - odd * found;
        return found;
    }
    // Where the particle of a lattice site is stored, and back: a one-to-one map.
    __host__ __device__ unsigned stored(unsigned site) const {
        if (!shuffled) return site;
        return folded(times(folded(times(folded(site), 0x9E3779B1u)), 0x85EBCA6Bu));
    }
    __host__ __device__ unsigned site(unsigned particle) const {
        if (!shuffled) return particle;
        const unsigned middle = times(folded(particle), inverse(0x85EBCA6Bu));
        return folded(times(folded(middle), inverse(0x9E3779B1u)));
    }
    __host__ __device__ float coordinate(unsigned particle, int axis) const {
        const unsigned s = site(particle);
        const unsigned c = axis == 0   ? s & ((1u << bits_x) - 1)
                           : axis == 1 ? (s >> bits_x) & ((1u << bits_y) - 1)
                                       : s >> (bits_x + bits_y);
        return float(c + 0.3 * book::uniform01(seed, 31 + axis, particle));
    }
    __host__ __device__ int shifted(int c, int by, int bits) const {
        return c + by < 0 || c + by >= (1 << bits) ? c - by : c + by;
    }
    __host__ __device__ int neighbor(unsigned particle, int3 by) const {
        const int s = int(site(particle));
        const int x = shifted(s & ((1 << bits_x) - 1), by.x, bits_x);
        const int y = shifted((s >> bits_x) & ((1 << bits_y) - 1), by.y, bits_y);
        const int z = shifted(s >> (bits_x + bits_y), by.z, bits_z);
        return int(stored(unsigned(x | (y << bits_x) | (z << (bits_x + bits_y)))));
    }
};

int* neighbor_list(book::Problem& p, Lattice lattice, int neighbors) {
    std::vector<int3> offsets;
    for (int z = -4; z <= 4; ++z) {
        for (int y = -4; y <= 4; ++y) {
            for (int x = -4; x <= 4; ++x) {
                if (x || y || z) offsets.push_back(make_int3(x, y, z));
            }
        }
    }
    const auto length = [](int3 v) { return v.x * v.x + v.y * v.y + v.z * v.z; };
    std::stable_sort(offsets.begin(), offsets.end(),
                     [&](int3 a, int3 b) { return length(a) < length(b); });
    const int3* by = p.upload(offsets);
    const int count = lattice.count();
    return p.input<int>(size_t(neighbors) * count, [=] __device__(size_t at) {
        return lattice.neighbor(unsigned(at % count), by[at / count]);
    });
}

Cloud density_problem(book::Problem& p, Lattice lattice, int neighbors) {
    lattice.seed = p.seed();
    const uint64_t seed = p.seed();
    Cloud c{lattice.count(), neighbors};
    c.list = neighbor_list(p, lattice, neighbors);
    c.body = p.input<float4>(c.count, [=] __device__(size_t i) {
        return make_float4(lattice.coordinate(i, 0), lattice.coordinate(i, 1), lattice.coordinate(i, 2),
                           float(0.9 + 0.2 * book::uniform01(seed, 40, i)));
    });
    c.density = p.output<float>(c.count);
    const double pairs = double(c.count) * neighbors;
    p.needs({.dram_bytes = 4 * pairs + 20.0 * c.count, .fp32_flop = 18 * pairs, .special_op = pairs});
    p.check<float>(c.density, c.count, {2e-5}, [=](float* expected) {
        reference_density<<<(c.count + 255) / 256, 256>>>(c.count, neighbors, c.list, c.body, expected);
    });
    return c;
}

Columns column_problem(book::Problem& p, Lattice lattice, int neighbors) {
    const Cloud cloud = density_problem(p, lattice, neighbors);
    Columns c{cloud.count, neighbors, cloud.list};
    c.density = cloud.density;
    const float4* body = cloud.body;
    c.x = p.input<float>(c.count, [=] __device__(size_t i) { return body[i].x; });
    c.y = p.input<float>(c.count, [=] __device__(size_t i) { return body[i].y; });
    c.z = p.input<float>(c.count, [=] __device__(size_t i) { return body[i].z; });
    c.mass = p.input<float>(c.count, [=] __device__(size_t i) { return body[i].w; });
    c.packed = p.output<float4>(c.count);
    return c;
}

// One run of 8 particles in 8 has `most` neighbours, the others have `few`.
Fluid force_problem(book::Problem& p, Lattice lattice, int most, int few) {
    lattice.seed = p.seed();
    const uint64_t seed = p.seed();
    Fluid f{lattice.count()};
    f.list = neighbor_list(p, lattice, most);
    std::vector<int> found(f.count), order;
    double pairs = 0;
    for (int i = 0; i < f.count; ++i) {
        found[i] = book::uniform01(seed, 50, i / 8) < 0.125 ? most : few;
        pairs += found[i];
    }
    for (int wanted : {most, few}) {
        for (int i = 0; i < f.count; ++i) {
            if (found[i] == wanted) order.push_back(i);
        }
    }
    f.found = p.upload(found);
    f.order = p.upload(order);
    f.body = p.input<float4>(f.count, [=] __device__(size_t i) {
        return make_float4(lattice.coordinate(i, 0), lattice.coordinate(i, 1), lattice.coordinate(i, 2),
                           float(0.9 + 0.2 * book::uniform01(seed, 40, i)));
    });
    f.motion = p.input<float4>(f.count, [=] __device__(size_t i) {
        return make_float4(float(book::uniform01(seed, 41, i) - 0.5), float(book::uniform01(seed, 42, i) - 0.5),
                           float(book::uniform01(seed, 43, i) - 0.5),
                           float(1.0 + 0.1 * book::uniform01(seed, 44, i)));
    });
    f.state = p.output<float2>(f.count);
    f.ax = p.output<float>(f.count);
    f.ay = p.output<float>(f.count);
    f.az = p.output<float>(f.count);
    p.needs({.dram_bytes = 4 * pairs + 48.0 * f.count, .fp32_flop = 34 * pairs, .special_op = pairs});
    const float* axes[] = {f.ax, f.ay, f.az};
    for (int axis = 0; axis < 3; ++axis) {
        p.check<float>(axes[axis], f.count, {1e-3, 2e-2}, [=](float* expected) {
            reference_force<<<(f.count + 255) / 256, 256>>>(f, axis, expected);
        });
    }
    return f;
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("tank", [](book::Problem& p) {
        const Cloud c = density_problem(p, {7, 6, 6}, 56);
        p.variant("by_particle", [=] { by_particle(c); });
        p.variant("kernel_function", [=] { kernel_function(c); });
        p.variant("with_norm", [=] { with_norm(c); });
        p.variant("by_distance", [=] { by_distance(c); });
    });
    book.problem("droplet", [](book::Problem& p) {
        const Cloud c = density_problem(p, {5, 5, 5}, 176);
        p.variant("by_particle", [=] { by_particle(c); });
        p.variant("by_slices", [=] { by_slices(c); });
    });
    book.problem("mixed", [](book::Problem& p) {
        const Columns c = column_problem(p, {6, 6, 6, 0, true}, 56);
        p.variant("four_arrays", [=] { four_arrays(c); });
        p.variant("packed", [=] { packed(c); });
    });
    book.problem("spray", [](book::Problem& p) {
        const Fluid f = force_problem(p, {7, 6, 6}, 56, 12);
        p.variant("forces", [=] { forces(f); });
        p.variant("forces_ordered", [=] { forces_ordered(f); });
        p.variant("tait_forces", [=] { tait_forces(f); });
        p.variant("tait_ordered", [=] { tait_ordered(f); });
    });
    return book.finish();
}
