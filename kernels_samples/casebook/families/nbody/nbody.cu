// Direct sums over particles: the gravitational field at many points, and the Fourier harmonics of a
// set of scatterers.
#include "../../harness/book.h"

//: shared
constexpr float kSoftening = 0.01f;

struct Field {
    int targets, sources;
    const float4* at;      // x, y, z of the points where the field is wanted
    const float4* source;  // x, y, z, mass
    float4* field;
};

struct Scatter {
    int directions, atoms;
    const float4* direction;  // wave vector of the first harmonic
    const float4* atom;       // x, y, z, form factor
    float2* sum;              // [harmonic][direction]
};

// Four targets a thread: each source that is read from shared memory is used four times.
template <int kBlock>
__global__ void field_quad(const float4* at, const float4* source, float4* field, int targets,
                           int sources) {
    __shared__ float4 tile[kBlock];
    const int first = blockIdx.x * kBlock * 4 + threadIdx.x;
    float4 here[4];
    float ax[4] = {}, ay[4] = {}, az[4] = {};
#pragma unroll
    for (int k = 0; k < 4; ++k) here[k] = at[min(first + k * kBlock, targets - 1)];
    for (int start = 0; start < sources; start += kBlock) {
        tile[threadIdx.x] = source[start + threadIdx.x];
        __syncthreads();
#pragma unroll 2
        for (int j = 0; j < kBlock; ++j) {
            const float4 s = tile[j];
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                const float dx = s.x - here[k].x, dy = s.y - here[k].y, dz = s.z - here[k].z;
                const float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + kSoftening);
                const float pull = s.w * inverse * inverse * inverse;
                ax[k] += dx * pull;
                ay[k] += dy * pull;
                az[k] += dz * pull;
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const int i = first + k * kBlock;
        if (i < targets) field[i] = make_float4(ax[k], ay[k], az[k], 0);
    }
}

constexpr int kFieldBlock = 256;
//: end

//: variant tiled
__global__ void field_tiled(const float4* at, const float4* source, float4* field, int targets,
                            int sources) {
    __shared__ float4 tile[kFieldBlock];
    const int i = blockIdx.x * kFieldBlock + threadIdx.x;
    const float4 here = at[min(i, targets - 1)];
    float ax = 0, ay = 0, az = 0;
    for (int start = 0; start < sources; start += kFieldBlock) {
        tile[threadIdx.x] = source[start + threadIdx.x];
        __syncthreads();
#pragma unroll 8
        for (int j = 0; j < kFieldBlock; ++j) {
            const float4 s = tile[j];
            const float dx = s.x - here.x, dy = s.y - here.y, dz = s.z - here.z;
            const float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + kSoftening);
            const float pull = s.w * inverse * inverse * inverse;
            ax += dx * pull;
            ay += dy * pull;
            az += dz * pull;
        }
        __syncthreads();
    }
    if (i < targets) field[i] = make_float4(ax, ay, az, 0);
}

void tiled(const Field& d) {
    field_tiled<<<(d.targets + kFieldBlock - 1) / kFieldBlock, kFieldBlock>>>(
        d.at, d.source, d.field, d.targets, d.sources);
}
//: end

//: variant untiled
__global__ void field_untiled(const float4* at, const float4* source, float4* field, int targets,
                              int sources) {
    const int i = blockIdx.x * kFieldBlock + threadIdx.x;
    const float4 here = at[min(i, targets - 1)];
    float ax = 0, ay = 0, az = 0;
#pragma unroll 8
    for (int j = 0; j < sources; ++j) {
        const float4 s = source[j];
        const float dx = s.x - here.x, dy = s.y - here.y, dz = s.z - here.z;
        const float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + kSoftening);
        const float pull = s.w * inverse * inverse * inverse;
        ax += dx * pull;
        ay += dy * pull;
        az += dz * pull;
    }
    if (i < targets) field[i] = make_float4(ax, ay, az, 0);
}

void untiled(const Field& d) {
    field_untiled<<<(d.targets + kFieldBlock - 1) / kFieldBlock, kFieldBlock>>>(
        d.at, d.source, d.field, d.targets, d.sources);
}
//: end

//: variant tiled_ptx
__device__ inline float inverse_root(float x) {
    float result;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}

__global__ void field_tiled_ptx(const float4* at, const float4* source, float4* field, int targets,
                                int sources) {
    __shared__ float4 tile[kFieldBlock];
    const int i = blockIdx.x * kFieldBlock + threadIdx.x;
    const float4 here = at[min(i, targets - 1)];
    float ax = 0, ay = 0, az = 0;
    for (int start = 0; start < sources; start += kFieldBlock) {
        tile[threadIdx.x] = source[start + threadIdx.x];
        __syncthreads();
#pragma unroll 8
        for (int j = 0; j < kFieldBlock; ++j) {
            const float4 s = tile[j];
            const float dx = s.x - here.x, dy = s.y - here.y, dz = s.z - here.z;
            const float inverse = inverse_root(dx * dx + dy * dy + dz * dz + kSoftening);
            const float pull = s.w * inverse * inverse * inverse;
            ax += dx * pull;
            ay += dy * pull;
            az += dz * pull;
        }
        __syncthreads();
    }
    if (i < targets) field[i] = make_float4(ax, ay, az, 0);
}

void tiled_ptx(const Field& d) {
    field_tiled_ptx<<<(d.targets + kFieldBlock - 1) / kFieldBlock, kFieldBlock>>>(
        d.at, d.source, d.field, d.targets, d.sources);
}
//: end

//: variant plummer
__global__ void field_plummer(const float4* at, const float4* source, float4* field, int targets,
                              int sources) {
    __shared__ float4 tile[kFieldBlock];
    const int i = blockIdx.x * kFieldBlock + threadIdx.x;
    const float4 here = at[min(i, targets - 1)];
    float ax = 0, ay = 0, az = 0;
    for (int start = 0; start < sources; start += kFieldBlock) {
        tile[threadIdx.x] = source[start + threadIdx.x];
        __syncthreads();
#pragma unroll 8
        for (int j = 0; j < kFieldBlock; ++j) {
            const float4 s = tile[j];
            const float dx = s.x - here.x, dy = s.y - here.y, dz = s.z - here.z;
            const float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + 0.01);
            const float pull = s.w * inverse * inverse * inverse;
            ax += dx * pull;
            ay += dy * pull;
            az += dz * pull;
        }
        __syncthreads();
    }
    if (i < targets) field[i] = make_float4(ax, ay, az, 0);
}

void plummer(const Field& d) {
    field_plummer<<<(d.targets + kFieldBlock - 1) / kFieldBlock, kFieldBlock>>>(
        d.at, d.source, d.field, d.targets, d.sources);
}
//: end

//: variant plummer_root
__global__ void field_plummer_root(const float4* at, const float4* source, float4* field,
                                   int targets, int sources) {
    __shared__ float4 tile[kFieldBlock];
    const int i = blockIdx.x * kFieldBlock + threadIdx.x;
    const float4 here = at[min(i, targets - 1)];
    float ax = 0, ay = 0, az = 0;
    for (int start = 0; start < sources; start += kFieldBlock) {
        tile[threadIdx.x] = source[start + threadIdx.x];
        __syncthreads();
#pragma unroll 8
        for (int j = 0; j < kFieldBlock; ++j) {
            const float4 s = tile[j];
            const float dx = s.x - here.x, dy = s.y - here.y, dz = s.z - here.z;
            const float inverse = rsqrt(dx * dx + dy * dy + dz * dz + 0.01);
            const float pull = s.w * inverse * inverse * inverse;
            ax += dx * pull;
            ay += dy * pull;
            az += dz * pull;
        }
        __syncthreads();
    }
    if (i < targets) field[i] = make_float4(ax, ay, az, 0);
}

void plummer_root(const Field& d) {
    field_plummer_root<<<(d.targets + kFieldBlock - 1) / kFieldBlock, kFieldBlock>>>(
        d.at, d.source, d.field, d.targets, d.sources);
}
//: end

//: variant long_sums
__global__ void field_long_sums(const float4* at, const float4* source, float4* field, int targets,
                                int sources) {
    __shared__ float4 tile[kFieldBlock];
    const int i = blockIdx.x * kFieldBlock + threadIdx.x;
    const float4 here = at[min(i, targets - 1)];
    double ax = 0, ay = 0, az = 0;
    for (int start = 0; start < sources; start += kFieldBlock) {
        tile[threadIdx.x] = source[start + threadIdx.x];
        __syncthreads();
#pragma unroll 8
        for (int j = 0; j < kFieldBlock; ++j) {
            const float4 s = tile[j];
            const float dx = s.x - here.x, dy = s.y - here.y, dz = s.z - here.z;
            const float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + kSoftening);
            const float pull = s.w * inverse * inverse * inverse;
            ax += dx * pull;
            ay += dy * pull;
            az += dz * pull;
        }
        __syncthreads();
    }
    if (i < targets) field[i] = make_float4(float(ax), float(ay), float(az), 0);
}

void long_sums(const Field& d) {
    field_long_sums<<<(d.targets + kFieldBlock - 1) / kFieldBlock, kFieldBlock>>>(
        d.at, d.source, d.field, d.targets, d.sources);
}
//: end

//: variant plummer_long
__global__ void field_plummer_long(const float4* at, const float4* source, float4* field,
                                   int targets, int sources) {
    __shared__ float4 tile[kFieldBlock];
    const int i = blockIdx.x * kFieldBlock + threadIdx.x;
    const float4 here = at[min(i, targets - 1)];
    double ax = 0, ay = 0, az = 0;
    for (int start = 0; start < sources; start += kFieldBlock) {
        tile[threadIdx.x] = source[start + threadIdx.x];
        __syncthreads();
#pragma unroll 8
        for (int j = 0; j < kFieldBlock; ++j) {
            const float4 s = tile[j];
            const float dx = s.x - here.x, dy = s.y - here.y, dz = s.z - here.z;
            const float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + 0.01);
            const float pull = s.w * inverse * inverse * inverse;
            ax += dx * pull;
            ay += dy * pull;
            az += dz * pull;
        }
        __syncthreads();
    }
    if (i < targets) field[i] = make_float4(float(ax), float(ay), float(az), 0);
}

void plummer_long(const Field& d) {
    field_plummer_long<<<(d.targets + kFieldBlock - 1) / kFieldBlock, kFieldBlock>>>(
        d.at, d.source, d.field, d.targets, d.sources);
}
//: end

//: variant all_double
struct alignas(16) Body {
    double x, y, z, mass;
};

__global__ void field_all_double(const float4* at, const float4* source, float4* field,
                                 int targets, int sources) {
    __shared__ Body tile[kFieldBlock];
    const int i = blockIdx.x * kFieldBlock + threadIdx.x;
    const float4 point = at[min(i, targets - 1)];
    const double hx = point.x, hy = point.y, hz = point.z;
    double ax = 0, ay = 0, az = 0;
    for (int start = 0; start < sources; start += kFieldBlock) {
        const float4 body = source[start + threadIdx.x];
        tile[threadIdx.x].x = body.x;
        tile[threadIdx.x].y = body.y;
        tile[threadIdx.x].z = body.z;
        tile[threadIdx.x].mass = body.w;
        __syncthreads();
#pragma unroll 8
        for (int j = 0; j < kFieldBlock; ++j) {
            const double dx = tile[j].x - hx, dy = tile[j].y - hy, dz = tile[j].z - hz;
            const double inverse = rsqrt(dx * dx + dy * dy + dz * dz + double(kSoftening));
            const double pull = tile[j].mass * inverse * inverse * inverse;
            ax += dx * pull;
            ay += dy * pull;
            az += dz * pull;
        }
        __syncthreads();
    }
    if (i < targets) field[i] = make_float4(float(ax), float(ay), float(az), 0);
}

void all_double(const Field& d) {
    field_all_double<<<(d.targets + kFieldBlock - 1) / kFieldBlock, kFieldBlock>>>(
        d.at, d.source, d.field, d.targets, d.sources);
}
//: end

//: variant quad_1024
void quad_1024(const Field& d) {
    constexpr int kBlock = 1024;
    field_quad<kBlock><<<(d.targets + 4 * kBlock - 1) / (4 * kBlock), kBlock>>>(
        d.at, d.source, d.field, d.targets, d.sources);
}
//: end

//: variant quad_128
void quad_128(const Field& d) {
    constexpr int kBlock = 128;
    field_quad<kBlock><<<(d.targets + 4 * kBlock - 1) / (4 * kBlock), kBlock>>>(
        d.at, d.source, d.field, d.targets, d.sources);
}
//: end

//: shared
constexpr int kScatterBlock = 128;
//: end

//: variant each_harmonic
template <int kHarmonics>
__global__ void harmonics_each(const float4* direction, const float4* atom, float2* sum,
                               int directions, int atoms) {
    __shared__ float4 tile[kScatterBlock];
    const int i = blockIdx.x * kScatterBlock + threadIdx.x;
    const float4 wave = direction[min(i, directions - 1)];
    float real[kHarmonics] = {}, imaginary[kHarmonics] = {};
    for (int start = 0; start < atoms; start += kScatterBlock) {
        tile[threadIdx.x] = atom[start + threadIdx.x];
        __syncthreads();
#pragma unroll 2
        for (int j = 0; j < kScatterBlock; ++j) {
            const float4 a = tile[j];
            const float phase = wave.x * a.x + wave.y * a.y + wave.z * a.z;
#pragma unroll
            for (int m = 0; m < kHarmonics; ++m) {
                float sine, cosine;
                __sincosf((m + 1) * phase, &sine, &cosine);
                real[m] += a.w * cosine;
                imaginary[m] += a.w * sine;
            }
        }
        __syncthreads();
    }
    if (i < directions) {
#pragma unroll
        for (int m = 0; m < kHarmonics; ++m) {
            sum[size_t(m) * directions + i] = make_float2(real[m], imaginary[m]);
        }
    }
}

template <int kHarmonics>
void each_harmonic(const Scatter& d) {
    harmonics_each<kHarmonics>
        <<<(d.directions + kScatterBlock - 1) / kScatterBlock, kScatterBlock>>>(
            d.direction, d.atom, d.sum, d.directions, d.atoms);
}
//: end

//: variant rotated
template <int kHarmonics>
__global__ void harmonics_rotated(const float4* direction, const float4* atom, float2* sum,
                                  int directions, int atoms) {
    __shared__ float4 tile[kScatterBlock];
    const int i = blockIdx.x * kScatterBlock + threadIdx.x;
    const float4 wave = direction[min(i, directions - 1)];
    float real[kHarmonics] = {}, imaginary[kHarmonics] = {};
    for (int start = 0; start < atoms; start += kScatterBlock) {
        tile[threadIdx.x] = atom[start + threadIdx.x];
        __syncthreads();
#pragma unroll 2
        for (int j = 0; j < kScatterBlock; ++j) {
            const float4 a = tile[j];
            const float phase = wave.x * a.x + wave.y * a.y + wave.z * a.z;
            float sine, cosine;
            __sincosf(phase, &sine, &cosine);
            float x = a.w * cosine, y = a.w * sine;
#pragma unroll
            for (int m = 0; m < kHarmonics; ++m) {
                real[m] += x;
                imaginary[m] += y;
                const float next = x * cosine - y * sine;
                y = x * sine + y * cosine;
                x = next;
            }
        }
        __syncthreads();
    }
    if (i < directions) {
#pragma unroll
        for (int m = 0; m < kHarmonics; ++m) {
            sum[size_t(m) * directions + i] = make_float2(real[m], imaginary[m]);
        }
    }
}

template <int kHarmonics>
void rotated(const Scatter& d) {
    harmonics_rotated<kHarmonics>
        <<<(d.directions + kScatterBlock - 1) / kScatterBlock, kScatterBlock>>>(
            d.direction, d.atom, d.sum, d.directions, d.atoms);
}
//: end

__global__ void reference_field(const float4* at, const float4* source, float4* expected,
                                int targets, int sources) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= targets) return;
    const float4 p = at[i];
    double sum[3] = {0, 0, 0};
    for (int j = 0; j < sources; ++j) {
        const float4 s = source[j];
        const double d[3] = {double(s.x) - p.x, double(s.y) - p.y, double(s.z) - p.z};
        const double square = d[0] * d[0] + d[1] * d[1] + d[2] * d[2] + 0.01;
        const double weight = s.w / (square * sqrt(square));
        for (int k = 0; k < 3; ++k) sum[k] += weight * d[k];
    }
    expected[i] = make_float4(float(sum[0]), float(sum[1]), float(sum[2]), 0);
}

__global__ void reference_harmonics(const float4* direction, const float4* atom, float* expected,
                                    int directions, int atoms, int harmonics) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= directions * harmonics) return;
    const float4 wave = direction[i % directions];
    const double order = i / directions + 1;
    double real = 0, imaginary = 0;
    for (int j = 0; j < atoms; ++j) {
        const float4 a = atom[j];
        const double phase =
            order * (double(wave.x) * a.x + double(wave.y) * a.y + double(wave.z) * a.z);
        real += a.w * cos(phase);
        imaginary += a.w * sin(phase);
    }
    expected[2 * i] = float(real);
    expected[2 * i + 1] = float(imaginary);
}

float4* points(book::Problem& p, size_t count, uint64_t stream, double extent, double low_w,
               double high_w) {
    const uint64_t seed = p.seed();
    return p.input<float4>(count, [=] __device__(size_t i) {
        float v[3];
        for (int k = 0; k < 3; ++k) {
            v[k] = float(extent * (2 * book::uniform01(seed, stream + k, i) - 1));
        }
        const double w = low_w + (high_w - low_w) * book::uniform01(seed, stream + 3, i);
        return make_float4(v[0], v[1], v[2], float(w));
    });
}

Field field_data(book::Problem& p, int targets, int sources) {
    Field d{targets, sources};
    d.at = points(p, targets, 100, 1.0, 0, 0);
    d.source = points(p, sources, 200, 1.0, 0.5, 1.5);
    d.field = p.output<float4>(targets);
    const double pairs = double(targets) * sources;
    p.needs({.dram_bytes = 32.0 * targets + 16.0 * sources,
             .fp32_flop = 18 * pairs,
             .special_op = pairs});
    p.check<float>(reinterpret_cast<const float*>(d.field), 4 * size_t(targets), {2e-4, 0.02},
                   [=](float* expected) {
                       reference_field<<<(targets + 127) / 128, 128>>>(
                           d.at, d.source, reinterpret_cast<float4*>(expected), targets, sources);
                   });
    return d;
}

template <int kHarmonics>
void scatter_problem(book::Book& book, const char* name, int directions, int atoms) {
    book.problem(name, [=](book::Problem& p) {
        Scatter d{directions, atoms};
        d.direction = points(p, directions, 100, 1.5, 0, 0);
        d.atom = points(p, atoms, 200, 1.0, 0.5, 1.5);
        const size_t sums = size_t(directions) * kHarmonics;
        d.sum = p.output<float2>(sums);
        const double pairs = double(directions) * atoms;
        p.needs({.dram_bytes = 16.0 * directions + 16.0 * atoms + 8.0 * sums,
                 .fp32_flop = pairs * (5 + 2 + 2 * kHarmonics + 6 * (kHarmonics - 1)),
                 .special_op = 2 * pairs});
        p.check<float>(reinterpret_cast<const float*>(d.sum), 2 * sums, {2e-4, 0.03},
                       [=](float* expected) {
                           reference_harmonics<<<(int(sums) + 127) / 128, 128>>>(
                               d.direction, d.atom, expected, directions, atoms, kHarmonics);
                       });
        p.variant("each_harmonic", [=] { each_harmonic<kHarmonics>(d); });
        p.variant("rotated", [=] { rotated<kHarmonics>(d); });
    });
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("field_270k", [](book::Problem& p) {
        const Field d = field_data(p, 132 * 2048, 2048);
        p.variant("tiled", [=] { tiled(d); });
        p.variant("untiled", [=] { untiled(d); });
        p.variant("tiled_ptx", [=] { tiled_ptx(d); });
        p.variant("plummer", [=] { plummer(d); });
        p.variant("plummer_root", [=] { plummer_root(d); });
        p.variant("long_sums", [=] { long_sums(d); });
        p.variant("plummer_long", [=] { plummer_long(d); });
        p.variant("all_double", [=] { all_double(d); });
    });
    book.problem("field_573k", [](book::Problem& p) {
        const Field d = field_data(p, 140 * 4096, 1024);
        p.variant("quad_1024", [=] { quad_1024(d); });
        p.variant("quad_128", [=] { quad_128(d); });
    });
    scatter_problem<8>(book, "harmonics_8", 132 * 1024, 1024);
    scatter_problem<2>(book, "harmonics_2", 132 * 2048, 2048);
    return book.finish();
}
