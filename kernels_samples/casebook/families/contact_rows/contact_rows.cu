// Steps of a rigid-body and cloth solver: distance rows by colour, contact impulses, integration.
#include "../../harness/book.h"

#include <random>

struct alignas(8) Row {
    int a, b;
};

struct Cloth {
    float4* x;  // position and inverse mass
    int first[5];  // of the rows of a colour
    const Row* sorted;  // by first particle
    const Row* listed;  // in the order of the mesh
    const float* rest;
    int rounds;
};

struct Garments {
    int count;
    float4* x;
    float rest;
    int rounds;
    int first[5];
    const Row* rows;  // of one garment
    const float* rests;
};

struct Contacts {
    int rows;
    const Row* bodies;       // sorted by the second body
    const float4* normal;    // w: effective mass
    const float4* arm;       // from the first body
    const float4* velocity;  // w: inverse mass
    float* delta;            // 8 floats per body: linear, angular, two unused
};

struct Body {
    float px, py, pz, inverse_mass;
    float vx, vy, vz, damping;
    float qx, qy, qz, qw;
    float wx, wy, wz, radius;
};

struct World {
    int count;
    Body* bodies;
};

//: shared
constexpr float kStiffness = 0.8f;
constexpr float kStep = 1.0f / 120, kGravity = -9.81f;
constexpr int kSide = 32, kParticles = kSide * kSide;

__device__ __forceinline__ void project(float4& a, float4& b, float rest) {
    const float dx = b.x - a.x, dy = b.y - a.y, dz = b.z - a.z;
    const float length = sqrtf(dx * dx + dy * dy + dz * dz);
    const float weight = a.w + b.w;
    if (weight <= 0 || length <= 0) return;
    const float s = kStiffness * (length - rest) / (length * weight);
    a.x += s * a.w * dx, a.y += s * a.w * dy, a.z += s * a.w * dz;
    b.x -= s * b.w * dx, b.y -= s * b.w * dy, b.z -= s * b.w * dz;
}

// No two rows of a colour share a particle.
__global__ void solve_colour(float4* x, const Row* rows, const float* rest, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const Row row = rows[i];
    float4 a = x[row.a], b = x[row.b];
    project(a, b, rest[i]);
    x[row.a] = a;
    x[row.b] = b;
}

// One block per garment of 32 x 32 particles: all rounds in shared memory.
template <int Threads>
__global__ void __launch_bounds__(Threads) solve_garment(float4* all, float rest, int rounds) {
    __shared__ float4 x[kParticles];
    float4* own = all + size_t(blockIdx.x) * kParticles;
    for (int i = threadIdx.x; i < kParticles; i += Threads) x[i] = own[i];
    __syncthreads();
    for (int round = 0; round < rounds; ++round) {
        for (int colour = 0; colour < 4; ++colour) {
            const bool down = colour >= 2;
            const int phase = colour % 2, step = down ? kSide : 1;
            for (int i = threadIdx.x; i < kParticles / 2; i += Threads) {
                const int along = 2 * (down ? i / kSide : i % (kSide / 2)) + phase;
                const int across = down ? i % kSide : i / (kSide / 2);
                if (along + 1 < kSide) {
                    const int first = down ? along * kSide + across : across * kSide + along;
                    project(x[first], x[first + step], rest);
                }
            }
            __syncthreads();
        }
    }
    for (int i = threadIdx.x; i < kParticles; i += Threads) own[i] = x[i];
}

struct Impulse {
    float lx, ly, lz;  // linear
    float ax, ay, az;  // angular
};

__device__ __forceinline__ Impulse impulse_of(float4 n, float4 arm, float4 va, float4 vb) {
    const float closing = n.x * (vb.x - va.x) + n.y * (vb.y - va.y) + n.z * (vb.z - va.z);
    const float size = fmaxf(-closing * n.w, 0.0f);
    return {size * n.x, size * n.y, size * n.z, size * (arm.y * n.z - arm.z * n.y),
            size * (arm.z * n.x - arm.x * n.z), size * (arm.x * n.y - arm.y * n.x)};
}

__device__ __forceinline__ void add_to(float* delta, const Impulse& p, float scale) {
    atomicAdd(delta, scale * p.lx);
    atomicAdd(delta + 1, scale * p.ly);
    atomicAdd(delta + 2, scale * p.lz);
    atomicAdd(delta + 3, scale * p.ax);
    atomicAdd(delta + 4, scale * p.ay);
    atomicAdd(delta + 5, scale * p.az);
}

__device__ __forceinline__ void advance(float4& p, float4& v, float4& q, float4& w) {
    v.y += kGravity * kStep;
    v.x *= v.w, v.y *= v.w, v.z *= v.w;
    p.x += kStep * v.x, p.y += kStep * v.y, p.z += kStep * v.z;
    const float h = 0.5f * kStep;
    const float4 o = q;
    q.x += h * (w.x * o.w + w.y * o.z - w.z * o.y);
    q.y += h * (w.y * o.w + w.z * o.x - w.x * o.z);
    q.z += h * (w.z * o.w + w.x * o.y - w.y * o.x);
    q.w -= h * (w.x * o.x + w.y * o.y + w.z * o.z);
    const float s = rsqrtf(q.x * q.x + q.y * q.y + q.z * q.z + q.w * q.w);
    q.x *= s, q.y *= s, q.z *= s, q.w *= s;
    w.x *= v.w, w.y *= v.w, w.z *= v.w;
}
//: end

//: variant listed_rows
void listed_rows(const Cloth& c, const book::Problem* problem) {
    int launch = 0;
    for (int round = 0; round < c.rounds; ++round) {
        for (int k = 0; k < 4; ++k) {
            const int count = c.first[k + 1] - c.first[k];
            solve_colour<<<(count + 127) / 128, 128>>>(c.x, c.listed + c.first[k], c.rest + c.first[k], count);
            problem->launched(launch++);
        }
    }
}
//: end

//: variant sorted_rows
void sorted_rows(const Cloth& c, const book::Problem* problem) {
    int launch = 0;
    for (int round = 0; round < c.rounds; ++round) {
        for (int k = 0; k < 4; ++k) {
            const int count = c.first[k + 1] - c.first[k];
            solve_colour<<<(count + 127) / 128, 128>>>(c.x, c.sorted + c.first[k], c.rest + c.first[k], count);
            problem->launched(launch++);
        }
    }
}
//: end

//: variant sorted_rows_32
void sorted_rows_32(const Cloth& c, const book::Problem* problem) {
    int launch = 0;
    for (int round = 0; round < c.rounds; ++round) {
        for (int k = 0; k < 4; ++k) {
            const int count = c.first[k + 1] - c.first[k];
            solve_colour<<<(count + 31) / 32, 32>>>(c.x, c.sorted + c.first[k], c.rest + c.first[k], count);
            problem->launched(launch++);
        }
    }
}
//: end

//: variant colour_launches
void colour_launches(const Garments& g, const book::Problem* problem) {
    int launch = 0;
    for (int round = 0; round < g.rounds; ++round) {
        for (int k = 0; k < 4; ++k) {
            const int count = g.first[k + 1] - g.first[k];
            solve_colour<<<(count + 127) / 128, 128>>>(g.x, g.rows + g.first[k], g.rests + g.first[k], count);
            problem->launched(launch++);
        }
    }
}
//: end

//: variant garment_1024
void garment_1024(const Garments& g) { solve_garment<1024><<<g.count, 1024>>>(g.x, g.rest, g.rounds); }
//: end

//: variant garment_512
void garment_512(const Garments& g) { solve_garment<512><<<g.count, 512>>>(g.x, g.rest, g.rounds); }
//: end

//: variant garment_128
void garment_128(const Garments& g) { solve_garment<128><<<g.count, 128>>>(g.x, g.rest, g.rounds); }
//: end

//: variant row_impulses
__global__ void apply_rows(const Row* bodies, const float4* normal, const float4* arm, const float4* velocity,
                           float* delta, int rows) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows) return;
    const Row row = bodies[i];
    const float4 va = velocity[row.a], vb = velocity[row.b];
    const Impulse p = impulse_of(normal[i], arm[i], va, vb);
    add_to(delta + 8 * row.a, p, -va.w);
    add_to(delta + 8 * row.b, p, vb.w);
}

void row_impulses(const Contacts& c) {
    apply_rows<<<(c.rows + 127) / 128, 128>>>(c.bodies, c.normal, c.arm, c.velocity, c.delta, c.rows);
}
//: end

//: variant warp_impulses
__global__ void apply_rows_by_warp(const Row* bodies, const float4* normal, const float4* arm,
                                   const float4* velocity, float* delta, int rows) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const bool inside = i < rows;
    const Row row = bodies[min(i, rows - 1)];
    const float4 va = velocity[row.a], vb = velocity[row.b];
    Impulse p = impulse_of(normal[min(i, rows - 1)], arm[min(i, rows - 1)], va, vb);
    if (inside) add_to(delta + 8 * row.a, p, -va.w);
    // Rows are sorted by their second body: the rows of a warp often have the same one.
    const int common = __shfl_sync(0xffffffffu, row.b, 0);
    if (__all_sync(0xffffffffu, inside && row.b == common)) {
        for (int step = 16; step > 0; step /= 2) {
            p.lx += __shfl_down_sync(0xffffffffu, p.lx, step);
            p.ly += __shfl_down_sync(0xffffffffu, p.ly, step);
            p.lz += __shfl_down_sync(0xffffffffu, p.lz, step);
            p.ax += __shfl_down_sync(0xffffffffu, p.ax, step);
            p.ay += __shfl_down_sync(0xffffffffu, p.ay, step);
            p.az += __shfl_down_sync(0xffffffffu, p.az, step);
        }
        if (threadIdx.x % 32 == 0) add_to(delta + 8 * row.b, p, vb.w);
    } else if (inside) {
        add_to(delta + 8 * row.b, p, vb.w);
    }
}

void warp_impulses(const Contacts& c) {
    apply_rows_by_warp<<<(c.rows + 127) / 128, 128>>>(c.bodies, c.normal, c.arm, c.velocity, c.delta, c.rows);
}
//: end

//: variant members
__global__ void integrate_members(Body* bodies, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    Body& b = bodies[i];
    float4 p = make_float4(b.px, b.py, b.pz, 0), v = make_float4(b.vx, b.vy, b.vz, b.damping);
    float4 q = make_float4(b.qx, b.qy, b.qz, b.qw), w = make_float4(b.wx, b.wy, b.wz, 0);
    advance(p, v, q, w);
    b.px = p.x, b.py = p.y, b.pz = p.z;
    b.vx = v.x, b.vy = v.y, b.vz = v.z;
    b.qx = q.x, b.qy = q.y, b.qz = q.z, b.qw = q.w;
    b.wx = w.x, b.wy = w.y, b.wz = w.z;
}

void members(const World& w) { integrate_members<<<(w.count + 255) / 256, 256>>>(w.bodies, w.count); }
//: end

//: variant quads
__global__ void integrate_quads(float4* bodies, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    float4* b = bodies + size_t(i) * 4;
    float4 p = b[0], v = b[1], q = b[2], w = b[3];
    advance(p, v, q, w);
    b[0] = p, b[1] = v, b[2] = q, b[3] = w;
}

void quads(const World& w) {
    integrate_quads<<<(w.count + 255) / 256, 256>>>(reinterpret_cast<float4*>(w.bodies), w.count);
}
//: end

//: variant staged_quads
// The number of bodies is a multiple of 256.
__global__ void integrate_staged(float4* bodies) {
    __shared__ float4 stage[256 * 5];
    float4* block = bodies + size_t(blockIdx.x) * 256 * 4;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const int e = k * 256 + threadIdx.x;
        stage[e / 4 * 5 + e % 4] = block[e];
    }
    __syncthreads();
    float4* b = stage + threadIdx.x * 5;
    float4 p = b[0], v = b[1], q = b[2], w = b[3];
    advance(p, v, q, w);
    b[0] = p, b[1] = v, b[2] = q, b[3] = w;
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const int e = k * 256 + threadIdx.x;
        block[e] = stage[e / 4 * 5 + e % 4];
    }
}

void staged_quads(const World& w) {
    integrate_staged<<<w.count / 256, 256>>>(reinterpret_cast<float4*>(w.bodies));
}
//: end

// --- inputs and references

struct Point {
    double x, y, z, w;
};

// Particle i of a cloth with `side` particles per row: 1 cm apart, disturbed; the first row is held.
__host__ __device__ inline float4 cloth_point(size_t i, int side, uint64_t seed) {
    const int x = int(i % side), y = int(i / side % side);
    const auto noise = [=](int stream) { return 0.002 * (book::uniform01(seed, 60 + stream, i) - 0.5); };
    return make_float4(float(0.01 * x + noise(0)), float(0.01 * y + noise(1)), float(noise(2)), y ? 1.0f : 0.0f);
}

__global__ void reference_start(Point* x, size_t count, int side, uint64_t seed) {
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        const float4 p = cloth_point(i, side, seed);
        x[i] = Point{p.x, p.y, p.z, p.w};
    }
}

// Pairs of neighbours in direction (sx, sy), the first one at an even or odd place.
__global__ void reference_colour(Point* x, size_t count, int side, int sx, int sy, int odd, double rest) {
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        const int px = int(i % side), py = int(i / side % side);
        const int place = sx ? px : py;
        if (place % 2 != odd || place + 1 >= side) continue;
        Point &a = x[i], &b = x[i + sx + size_t(sy) * side];
        const double d[3] = {b.x - a.x, b.y - a.y, b.z - a.z};
        const double length = sqrt(d[0] * d[0] + d[1] * d[1] + d[2] * d[2]), weight = a.w + b.w;
        if (weight == 0) continue;
        const double s = double(0.8f) * (length - rest) / length / weight;
        a.x += a.w * s * d[0], a.y += a.w * s * d[1], a.z += a.w * s * d[2];
        b.x -= b.w * s * d[0], b.y -= b.w * s * d[1], b.z -= b.w * s * d[2];
    }
}

__global__ void reference_end(const Point* x, size_t count, float* expected) {
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        expected[4 * i] = float(x[i].x), expected[4 * i + 1] = float(x[i].y);
        expected[4 * i + 2] = float(x[i].z), expected[4 * i + 3] = float(x[i].w);
    }
}

void check_cloth(book::Problem& p, float4* x, size_t count, int side, float rest, int rounds, double tolerance) {
    const uint64_t seed = p.seed();
    auto* work = p.input<Point>(count, [] __device__(size_t) { return Point{0, 0, 0, 0}; });
    p.check<float>(reinterpret_cast<float*>(x), count * 4, {0, tolerance}, [=](float* expected) {
        reference_start<<<1056, 256>>>(work, count, side, seed);
        for (int round = 0; round < rounds; ++round) {
            for (int k = 0; k < 4; ++k) {
                reference_colour<<<1056, 256>>>(work, count, side, k < 2, k >= 2, k % 2, rest);
            }
        }
        reference_end<<<1056, 256>>>(work, count, expected);
    });
}

// Rows by colour: along rows of the cloth, then along columns; each even, then odd.
std::vector<Row> cloth_rows(int side, int* first) {
    std::vector<Row> rows;
    for (int k = 0; k < 4; ++k) {
        first[k] = int(rows.size());
        for (int y = k < 2 ? 0 : k % 2; y + (k >= 2) < side; y += k < 2 ? 1 : 2) {
            for (int x = k < 2 ? k % 2 : 0; x + (k < 2) < side; x += k < 2 ? 2 : 1) {
                const int a = y * side + x;
                rows.push_back({a, a + (k < 2 ? 1 : side)});
            }
        }
    }
    first[4] = int(rows.size());
    return rows;
}

Cloth set_up_cloth(book::Problem& p, int side, int rounds) {
    Cloth c{};
    const uint64_t seed = p.seed();
    const size_t count = size_t(side) * side;
    const float rest = 0.0095f;
    c.rounds = rounds;
    c.x = p.state<float4>(count, [=] __device__(size_t i) { return cloth_point(i, side, seed); });
    std::vector<Row> rows = cloth_rows(side, c.first);
    c.sorted = p.upload(rows);
    std::mt19937_64 random(seed);
    for (int k = 0; k < 4; ++k) std::shuffle(rows.begin() + c.first[k], rows.begin() + c.first[k + 1], random);
    c.listed = p.upload(rows);
    c.rest = p.input<float>(rows.size(), [=] __device__(size_t) { return rest; });
    p.needs({.dram_bytes = 32.0 * count + 12.0 * rows.size(), .fp32_flop = 28.0 * rows.size() * rounds,
             .steps = 4.0 * rounds});
    check_cloth(p, c.x, count, side, rest, rounds, 3e-5);
    return c;
}

Garments set_up_garments(book::Problem& p, int count, int rounds) {
    Garments g{count};
    const uint64_t seed = p.seed();
    const size_t particles = size_t(count) * kParticles;
    g.rest = 0.0095f;
    g.rounds = rounds;
    g.x = p.state<float4>(particles, [=] __device__(size_t i) { return cloth_point(i, kSide, seed); });
    const std::vector<Row> rows = cloth_rows(kSide, g.first);
    g.rows = p.upload(rows);
    g.rests = p.upload(std::vector<float>(rows.size(), g.rest));
    p.needs({.dram_bytes = 32.0 * particles, .fp32_flop = 28.0 * rows.size() * rounds * count});
    check_cloth(p, g.x, particles, kSide, g.rest, rounds, 1e-5);
    return g;
}

__global__ void reference_contacts(const Row* bodies, const float4* normal, const float4* arm,
                                   const float4* velocity, int rows, double* total) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < rows; i += gridDim.x * blockDim.x) {
        const float4 n = normal[i], r = arm[i], va = velocity[bodies[i].a], vb = velocity[bodies[i].b];
        const double closing = double(n.x) * (double(vb.x) - va.x) + double(n.y) * (double(vb.y) - va.y) +
                               double(n.z) * (double(vb.z) - va.z);
        const double size = closing < 0 ? -closing * n.w : 0;
        const double part[6] = {n.x, n.y, n.z, double(r.y) * n.z - double(r.z) * n.y,
                                double(r.z) * n.x - double(r.x) * n.z, double(r.x) * n.y - double(r.y) * n.x};
        for (int c = 0; c < 6; ++c) {
            atomicAdd(&total[size_t(bodies[i].a) * 8 + c], -size * va.w * part[c]);
            atomicAdd(&total[size_t(bodies[i].b) * 8 + c], size * vb.w * part[c]);
        }
    }
}

__global__ void reference_narrow(const double* total, size_t count, float* expected) {
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        expected[i] = float(total[i]);
    }
}

// Three fifths of the rows lie on one of four decks (the first bodies), the others between boxes.
Contacts set_up_contacts(book::Problem& p, int rows, int bodies) {
    Contacts c{rows};
    const uint64_t seed = p.seed();
    std::vector<Row> pairs(rows);
    const int on_deck = rows / 5 * 3;
    for (int i = 0; i < rows; ++i) {
        const int box = 4 + int(book::uniform01(seed, 50, i) * (bodies - 8));
        if (i < on_deck) {
            pairs[i] = {box, int(4ll * i / on_deck)};
        } else {
            const int b = 8 + int((bodies - 8ll) * (i - on_deck) / (rows - on_deck));
            pairs[i] = {b - 1 - int(3 * book::uniform01(seed, 51, i)), b};
        }
    }
    c.bodies = p.upload(pairs);
    c.normal = p.input<float4>(rows, [=] __device__(size_t i) {
        const double x = book::uniform01(seed, 52, i) - 0.5, z = book::uniform01(seed, 53, i) - 0.5;
        const double s = 1 / sqrt(x * x + z * z + 1);
        return make_float4(float(x * s), float(s), float(z * s), float(0.5 + book::uniform01(seed, 54, i)));
    });
    c.arm = p.input<float4>(rows, [=] __device__(size_t i) {
        return make_float4(float(book::uniform01(seed, 55, i) - 0.5), float(book::uniform01(seed, 56, i) - 0.5),
                           float(book::uniform01(seed, 57, i) - 0.5), 0.0f);
    });
    c.velocity = p.input<float4>(bodies, [=] __device__(size_t i) {
        return make_float4(float(book::uniform01(seed, 58, i) - 0.5), float(book::uniform01(seed, 59, i) - 0.5),
                           float(book::uniform01(seed, 49, i) - 0.5), i < 4 ? 0.01f : 1.0f);
    });
    c.delta = p.zeroed<float>(size_t(bodies) * 8);
    double* total = p.input<double>(size_t(bodies) * 8, [] __device__(size_t) { return 0.0; });
    p.needs({.dram_bytes = 40.0 * rows + 40.0 * bodies, .fp32_flop = 42.0 * rows});
    p.check<float>(c.delta, size_t(bodies) * 8, {1e-3, 1e-4}, [=](float* expected) {
        reference_contacts<<<1056, 256>>>(c.bodies, c.normal, c.arm, c.velocity, rows, total);
        reference_narrow<<<1056, 256>>>(total, size_t(bodies) * 8, expected);
    });
    return c;
}

__host__ __device__ inline Body body_at(size_t i, uint64_t seed) {
    const auto u = [=](int stream) { return float(2 * book::uniform01(seed, 20 + stream, i) - 1); };
    Body b{10 * u(0), 10 * u(1), 10 * u(2), 1, u(3), u(4), u(5), 0.99f, u(6), u(7), u(8), 0, 5 * u(9), 5 * u(10), 5 * u(11), 0.5f};
    const double s = 1 / sqrt(1.0 + b.qx * b.qx + b.qy * b.qy + b.qz * b.qz);
    b.qx = float(b.qx * s), b.qy = float(b.qy * s), b.qz = float(b.qz * s), b.qw = float(s);
    return b;
}

__global__ void reference_integrate(size_t count, uint64_t seed, float* expected) {
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        const Body b = body_at(i, seed);
        const double dt = 1.0f / 120, d = b.damping;
        const double v[3] = {b.vx * d, (b.vy - double(9.81f) * dt) * d, b.vz * d};
        const double q[4] = {b.qx + dt / 2 * (double(b.wx) * b.qw + double(b.wy) * b.qz - double(b.wz) * b.qy),
                             b.qy + dt / 2 * (double(b.wy) * b.qw + double(b.wz) * b.qx - double(b.wx) * b.qz),
                             b.qz + dt / 2 * (double(b.wz) * b.qw + double(b.wx) * b.qy - double(b.wy) * b.qx),
                             b.qw - dt / 2 * (double(b.wx) * b.qx + double(b.wy) * b.qy + double(b.wz) * b.qz)};
        const double size = sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]);
        const double all[16] = {b.px + dt * v[0], b.py + dt * v[1], b.pz + dt * v[2], b.inverse_mass,
                                v[0], v[1], v[2], b.damping,
                                q[0] / size, q[1] / size, q[2] / size, q[3] / size,
                                b.wx * d, b.wy * d, b.wz * d, b.radius};
        for (int k = 0; k < 16; ++k) expected[16 * i + k] = float(all[k]);
    }
}

World set_up_world(book::Problem& p, int count) {
    const uint64_t seed = p.seed();
    World w{count, p.state<Body>(count, [=] __device__(size_t i) { return body_at(i, seed); })};
    p.needs({.dram_bytes = 108.0 * count, .fp32_flop = 50.0 * count});
    p.check<float>(reinterpret_cast<float*>(w.bodies), size_t(count) * 16, {1e-5, 1e-5}, [=](float* expected) {
        reference_integrate<<<1056, 256>>>(count, seed, expected);
    });
    return w;
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("cloth", [](book::Problem& p) {
        const auto c = set_up_cloth(p, 1024, 3);
        auto* problem = &p;
        p.variant("listed_rows", [=] { listed_rows(c, problem); });
        p.variant("sorted_rows", [=] { sorted_rows(c, problem); });
        p.variant("sorted_rows_32", [=] { sorted_rows_32(c, problem); });
    });
    book.problem("garments", [](book::Problem& p) {
        const auto g = set_up_garments(p, 528, 24);
        p.variant("garment_1024", [=] { garment_1024(g); });
        p.variant("garment_128", [=] { garment_128(g); });
    });
    book.problem("one_garment", [](book::Problem& p) {
        const auto g = set_up_garments(p, 1, 32);
        auto* problem = &p;
        p.variant("colour_launches", [=] { colour_launches(g, problem); });
        p.variant("garment_512", [=] { garment_512(g); });
    });
    book.problem("decks", [](book::Problem& p) {
        const auto c = set_up_contacts(p, 400'000, 100'000);
        p.variant("row_impulses", [=] { row_impulses(c); });
        p.variant("warp_impulses", [=] { warp_impulses(c); });
    });
    book.problem("bodies", [](book::Problem& p) {
        const auto w = set_up_world(p, 1'048'576);
        p.variant("members", [=] { members(w); });
        p.variant("quads", [=] { quads(w); });
        p.variant("staged_quads", [=] { staged_quads(w); });
    });
    return book.finish();
}
