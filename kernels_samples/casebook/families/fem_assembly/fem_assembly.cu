// Finite elements: element vectors and energies of triangles, element matrices of hexahedra.
#include "../../harness/book.h"

struct Triangles {
    int elements;
    const int* corners;      // three planes of node numbers
    const float2* places;    // of the nodes
    const float* values;     // at the nodes
    const int* old_corners = nullptr;  // the same mesh as the generator numbered its nodes
    const float2* old_places = nullptr;
    const float* old_values = nullptr;
    const unsigned char* kind = nullptr;  // 1: element with inner degrees of freedom
    const int* rich = nullptr;            // list of these
    int rich_count = 0;
    const signed char* part = nullptr;  // that the element belongs to, or -1
    float* out;
    float* totals = nullptr;
};

struct Hexahedra {
    int elements;
    const int* corners;  // eight planes of node numbers
    const float *x, *y, *z;
    const float* conductivity;
    float* matrices;  // 36 planes: the lower triangle by rows
};

//: shared
constexpr int kParts = 8;

struct Corners {
    float2 p[3];
    float u[3];
};
__device__ __forceinline__ Corners corners_of(int e, int elements, const int* __restrict__ corners,
                                              const float2* __restrict__ places, const float* __restrict__ values) {
    Corners c;
#pragma unroll
    for (int k = 0; k < 3; ++k) {
        const int node = corners[k * elements + e];
        c.p[k] = places[node];
        c.u[k] = values[node];
    }
    return c;
}

// Stiffness matrix times values, for the Laplace operator.
__device__ __forceinline__ void plain_vector(const Corners& c, float (&r)[3]) {
    float bx[3], by[3];
#pragma unroll
    for (int k = 0; k < 3; ++k) {
        const float2 next = c.p[(k + 1) % 3], last = c.p[(k + 2) % 3];
        bx[k] = next.y - last.y;
        by[k] = last.x - next.x;
    }
    const float twice = bx[0] * by[1] - bx[1] * by[0];
    const float gx = bx[0] * c.u[0] + bx[1] * c.u[1] + bx[2] * c.u[2];
    const float gy = by[0] * c.u[0] + by[1] * c.u[1] + by[2] * c.u[2];
    const float scale = 0.5f / fabsf(twice);
#pragma unroll
    for (int k = 0; k < 3; ++k) r[k] = scale * (gx * bx[k] + gy * by[k]);
}

// Nine inner degrees of freedom are solved for on the spot and eliminated.
__device__ __forceinline__ void rich_vector(const Corners& c, float (&r)[3]) {
    constexpr int kInner = 9;
    float a[kInner][kInner] = {}, b[kInner] = {};
#pragma unroll 1
    for (int g = 0; g < 12; ++g) {
        const float s = (g % 4 + 0.5f) * 0.25f, t = (g / 4 + 0.5f) / 3.0f * (1 - s), w = 1 - s - t;
        const float x = 2 * (w * c.u[0] + s * c.u[1] + t * c.u[2]), y = s - t;
        const float phi[kInner] = {1, x, y, x * x, x * y, y * y, x * x * x, x * x * y, x * y * y};
#pragma unroll
        for (int i = 0; i < kInner; ++i) {
#pragma unroll
            for (int j = 0; j <= i; ++j) a[i][j] += phi[i] * phi[j];
            b[i] += w * phi[i];
        }
    }
#pragma unroll
    for (int i = 0; i < kInner; ++i) a[i][i] += 0.5f;
#pragma unroll
    for (int k = 0; k < kInner; ++k) {
        const float inverse = 1.0f / a[k][k];
#pragma unroll
        for (int i = k + 1; i < kInner; ++i) {
            const float factor = a[i][k] * inverse;
#pragma unroll
            for (int j = k + 1; j <= i; ++j) a[i][j] -= factor * a[j][k];
            b[i] -= factor * b[k];
        }
    }
#pragma unroll
    for (int k = kInner - 1; k >= 0; --k) {
#pragma unroll
        for (int i = k + 1; i < kInner; ++i) b[k] -= a[i][k] * b[i];
        b[k] /= a[k][k];
    }
    plain_vector(c, r);
    r[0] += 0.1f * (b[0] + b[3] + b[6]);
    r[1] += 0.1f * (b[1] + b[4] + b[7]);
    r[2] += 0.1f * (b[2] + b[5] + b[8]);
}

template <int Blocks>
__global__ void __launch_bounds__(128, Blocks)
    vectors_mixed(int elements, const int* __restrict__ corners, const float2* __restrict__ places,
                  const float* __restrict__ values, const unsigned char* __restrict__ kind, float* __restrict__ out) {
    const int e = blockIdx.x * blockDim.x + threadIdx.x;
    if (e >= elements) return;
    float r[3];
    if (kind[e] == 0) {
        plain_vector(corners_of(e, elements, corners, places, values), r);
    } else {
        rich_vector(corners_of(e, elements, corners, places, values), r);
    }
#pragma unroll
    for (int k = 0; k < 3; ++k) out[k * elements + e] = r[k];
}

__global__ void __launch_bounds__(128)
    vectors_plain(int elements, const int* __restrict__ corners, const float2* __restrict__ places,
                  const float* __restrict__ values, const unsigned char* __restrict__ kind, float* __restrict__ out) {
    const int e = blockIdx.x * blockDim.x + threadIdx.x;
    if (e >= elements) return;
    if (kind[e] != 0) return;
    float r[3];
    plain_vector(corners_of(e, elements, corners, places, values), r);
#pragma unroll
    for (int k = 0; k < 3; ++k) out[k * elements + e] = r[k];
}

__global__ void vectors_rich(int elements, const int* __restrict__ corners, const float2* __restrict__ places,
                             const float* __restrict__ values, const int* __restrict__ list, int count,
                             float* __restrict__ out) {
    const int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= count) return;
    const int e = list[n];
    const Corners c = corners_of(e, elements, corners, places, values);
    float r[3];
    rich_vector(c, r);
#pragma unroll
    for (int k = 0; k < 3; ++k) out[k * elements + e] = r[k];
}
//: end

//: variant mixed_as_generated
void mixed_as_generated(const Triangles& t) {
    vectors_mixed<1><<<(t.elements + 127) / 128, 128>>>(t.elements, t.old_corners, t.old_places, t.old_values, t.kind,
                                                        t.out);
}
//: end

//: variant mixed
void mixed(const Triangles& t) {
    vectors_mixed<1><<<(t.elements + 127) / 128, 128>>>(t.elements, t.corners, t.places, t.values, t.kind, t.out);
}
//: end

//: variant mixed_6
void mixed_6(const Triangles& t) {
    vectors_mixed<6><<<(t.elements + 127) / 128, 128>>>(t.elements, t.corners, t.places, t.values, t.kind, t.out);
}
//: end

//: variant mixed_8
void mixed_8(const Triangles& t) {
    vectors_mixed<8><<<(t.elements + 127) / 128, 128>>>(t.elements, t.corners, t.places, t.values, t.kind, t.out);
}
//: end

//: variant by_kind_as_generated
void by_kind_as_generated(const Triangles& t) {
    vectors_plain<<<(t.elements + 127) / 128, 128>>>(t.elements, t.old_corners, t.old_places, t.old_values, t.kind,
                                                     t.out);
    vectors_rich<<<(t.rich_count + 31) / 32, 32>>>(t.elements, t.old_corners, t.old_places, t.old_values, t.rich,
                                                   t.rich_count, t.out);
}
//: end

//: variant by_kind
void by_kind(const Triangles& t) {
    vectors_plain<<<(t.elements + 127) / 128, 128>>>(t.elements, t.corners, t.places, t.values, t.kind, t.out);
    vectors_rich<<<(t.rich_count + 31) / 32, 32>>>(t.elements, t.corners, t.places, t.values, t.rich, t.rich_count,
                                                   t.out);
}
//: end

//: shared
__device__ __forceinline__ float energy_of(const Corners& c) {
    float r[3];
    plain_vector(c, r);
    return 0.5f * (r[0] * c.u[0] + r[1] * c.u[1] + r[2] * c.u[2]);
}
//: end

//: variant totals_by_element
__global__ void __launch_bounds__(256, 8)
    energies_by_element(int elements, const int* __restrict__ corners, const float2* __restrict__ places,
                                    const float* __restrict__ values, const signed char* __restrict__ part,
                                    float* __restrict__ out, float* __restrict__ totals) {
    for (int e = blockIdx.x * blockDim.x + threadIdx.x; e < elements; e += gridDim.x * blockDim.x) {
        const float energy = energy_of(corners_of(e, elements, corners, places, values));
        out[e] = energy;
        if (part[e] >= 0) atomicAdd(&totals[part[e]], energy);
    }
}

void totals_by_element(const Triangles& t) {
    energies_by_element<<<132 * 8, 256>>>(t.elements, t.corners, t.places, t.values, t.part, t.out, t.totals);
}
//: end

//: variant totals_by_block
__global__ void __launch_bounds__(256, 8)
    energies_by_block(int elements, const int* __restrict__ corners, const float2* __restrict__ places,
                                  const float* __restrict__ values, const signed char* __restrict__ part,
                                  float* __restrict__ out, float* __restrict__ totals) {
    __shared__ float sums[8][kParts];
    float own[kParts] = {};
    for (int e = blockIdx.x * blockDim.x + threadIdx.x; e < elements; e += gridDim.x * blockDim.x) {
        const float energy = energy_of(corners_of(e, elements, corners, places, values));
        out[e] = energy;
        const int p = part[e];
#pragma unroll
        for (int k = 0; k < kParts; ++k) own[k] += p == k ? energy : 0.0f;
    }
#pragma unroll
    for (int k = 0; k < kParts; ++k) {
        for (int step = 16; step > 0; step /= 2) own[k] += __shfl_down_sync(~0u, own[k], step);
        if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32][k] = own[k];
    }
    __syncthreads();
    if (threadIdx.x < kParts) {
        float sum = 0;
        for (int w = 0; w < 8; ++w) sum += sums[w][threadIdx.x];
        if (sum != 0) atomicAdd(&totals[threadIdx.x], sum);
    }
}

void totals_by_block(const Triangles& t) {
    energies_by_block<<<132 * 8, 256>>>(t.elements, t.corners, t.places, t.values, t.part, t.out, t.totals);
}
//: end

//: shared
// Stiffness matrix of a hexahedron by 2 x 2 x 2 quadrature, one thread an element.
template <int Blocks>
__global__ void __launch_bounds__(128, Blocks)
    hex_matrices(int elements, const int* __restrict__ corners, const float* __restrict__ xs,
                 const float* __restrict__ ys, const float* __restrict__ zs, const float* __restrict__ conductivity,
                 float* __restrict__ matrices) {
    const int e = blockIdx.x * blockDim.x + threadIdx.x;
    if (e >= elements) return;
    float x[8], y[8], z[8];
#pragma unroll
    for (int n = 0; n < 8; ++n) {
        const int node = corners[n * elements + e];
        x[n] = xs[node], y[n] = ys[node], z[n] = zs[node];
    }
    float k[36] = {};
#pragma unroll 1
    for (int g = 0; g < 8; ++g) {
        constexpr float at = 0.577350269f;
        const float a = g & 1 ? at : -at, b = g & 2 ? at : -at, c = g & 4 ? at : -at;
        float dx[8], dy[8], dz[8];
        float j[3][3] = {};
#pragma unroll
        for (int n = 0; n < 8; ++n) {
            const float u = n & 1 ? 1 : -1, v = n & 2 ? 1 : -1, w = n & 4 ? 1 : -1;
            dx[n] = 0.125f * u * (1 + v * b) * (1 + w * c);
            dy[n] = 0.125f * v * (1 + u * a) * (1 + w * c);
            dz[n] = 0.125f * w * (1 + u * a) * (1 + v * b);
            j[0][0] += dx[n] * x[n], j[0][1] += dx[n] * y[n], j[0][2] += dx[n] * z[n];
            j[1][0] += dy[n] * x[n], j[1][1] += dy[n] * y[n], j[1][2] += dy[n] * z[n];
            j[2][0] += dz[n] * x[n], j[2][1] += dz[n] * y[n], j[2][2] += dz[n] * z[n];
        }
        const float m00 = j[1][1] * j[2][2] - j[1][2] * j[2][1], m01 = j[0][2] * j[2][1] - j[0][1] * j[2][2];
        const float m02 = j[0][1] * j[1][2] - j[0][2] * j[1][1], m10 = j[1][2] * j[2][0] - j[1][0] * j[2][2];
        const float m11 = j[0][0] * j[2][2] - j[0][2] * j[2][0], m12 = j[0][2] * j[1][0] - j[0][0] * j[1][2];
        const float m20 = j[1][0] * j[2][1] - j[1][1] * j[2][0], m21 = j[0][1] * j[2][0] - j[0][0] * j[2][1];
        const float m22 = j[0][0] * j[1][1] - j[0][1] * j[1][0];
        const float volume = j[0][0] * m00 + j[0][1] * m10 + j[0][2] * m20;
        const float scale = rsqrtf(volume);  // squared below: conductivity * volume / volume^2
#pragma unroll
        for (int n = 0; n < 8; ++n) {
            const float gx = m00 * dx[n] + m01 * dy[n] + m02 * dz[n];
            const float gy = m10 * dx[n] + m11 * dy[n] + m12 * dz[n];
            const float gz = m20 * dx[n] + m21 * dy[n] + m22 * dz[n];
            dx[n] = scale * gx, dy[n] = scale * gy, dz[n] = scale * gz;
        }
#pragma unroll
        for (int r = 0; r < 8; ++r) {
#pragma unroll
            for (int s = 0; s <= r; ++s) k[r * (r + 1) / 2 + s] += dx[r] * dx[s] + dy[r] * dy[s] + dz[r] * dz[s];
        }
    }
    const float factor = conductivity[e];
#pragma unroll
    for (int n = 0; n < 36; ++n) matrices[n * elements + e] = factor * k[n];
}

template <int Blocks>
void hexes(const Hexahedra& h) {
    hex_matrices<Blocks><<<(h.elements + 127) / 128, 128>>>(h.elements, h.corners, h.x, h.y, h.z, h.conductivity,
                                                            h.matrices);
}
//: end

//: variant hex_12
void hex_12(const Hexahedra& h) {
    hexes<12>(h);
}
//: end

//: variant hex_5
void hex_5(const Hexahedra& h) {
    hexes<5>(h);
}
//: end

//: variant hex_1
void hex_1(const Hexahedra& h) {
    hexes<1>(h);
}
//: end

__device__ void reference_element(const Triangles& t, int e, double (&u)[3], double (&r)[3]) {
    double x[3], y[3];
    for (int k = 0; k < 3; ++k) {
        const int node = t.corners[size_t(k) * t.elements + e];
        x[k] = t.places[node].x;
        y[k] = t.places[node].y;
        u[k] = t.values[node];
    }
    const double twice = (x[1] - x[0]) * (y[2] - y[0]) - (x[2] - x[0]) * (y[1] - y[0]);
    const double ux = ((u[1] - u[0]) * (y[2] - y[0]) - (u[2] - u[0]) * (y[1] - y[0])) / twice;
    const double uy = ((u[2] - u[0]) * (x[1] - x[0]) - (u[1] - u[0]) * (x[2] - x[0])) / twice;
    for (int k = 0; k < 3; ++k) {
        const int a = (k + 1) % 3, b = (k + 2) % 3;
        r[k] = 0.5 * fabs(twice) * (ux * (y[a] - y[b]) + uy * (x[b] - x[a])) / twice;
    }
}

__global__ void reference_vectors(const Triangles t, float* expected) {
    for (int e = blockIdx.x * blockDim.x + threadIdx.x; e < t.elements; e += gridDim.x * blockDim.x) {
        double u[3], r[3];
        reference_element(t, e, u, r);
        if (t.kind[e]) {
            double m[9][10] = {};
            for (int g = 0; g < 12; ++g) {
                const double s = (g % 4 + 0.5) / 4, v = (g / 4 + 0.5) / 3 * (1 - s), w = 1 - s - v;
                const double x = 2 * (w * u[0] + s * u[1] + v * u[2]), y = s - v;
                const double phi[9] = {1, x, y, x * x, x * y, y * y, x * x * x, x * x * y, x * y * y};
                for (int i = 0; i < 9; ++i) {
                    for (int j = 0; j < 9; ++j) m[i][j] += phi[i] * phi[j];
                    m[i][9] += w * phi[i];
                }
            }
            for (int i = 0; i < 9; ++i) m[i][i] += 0.5;
            for (int k = 0; k < 9; ++k) {
                for (int i = 0; i < 9; ++i) {
                    if (i == k) continue;
                    const double f = m[i][k] / m[k][k];
                    for (int j = k; j < 10; ++j) m[i][j] -= f * m[k][j];
                }
            }
            for (int k = 0; k < 9; ++k) r[k % 3] += 0.1 * m[k][9] / m[k][k];
        }
        for (int k = 0; k < 3; ++k) expected[size_t(k) * t.elements + e] = float(r[k]);
    }
}

__global__ void reference_energies(const Triangles t, float* expected) {
    for (int e = blockIdx.x * blockDim.x + threadIdx.x; e < t.elements; e += gridDim.x * blockDim.x) {
        double u[3], r[3];
        reference_element(t, e, u, r);
        expected[e] = float(0.5 * (r[0] * u[0] + r[1] * u[1] + r[2] * u[2]));
    }
}

// One block for each part.
__global__ void reference_totals(const Triangles t, float* expected) {
    __shared__ double all;
    if (threadIdx.x == 0) all = 0;
    __syncthreads();
    double sum = 0;
    for (int e = threadIdx.x; e < t.elements; e += blockDim.x) {
        if (t.part[e] != int(blockIdx.x)) continue;
        double u[3], r[3];
        reference_element(t, e, u, r);
        sum += 0.5 * (r[0] * u[0] + r[1] * u[1] + r[2] * u[2]);
    }
    atomicAdd(&all, sum);
    __syncthreads();
    if (threadIdx.x == 0) expected[blockIdx.x] = float(all);
}

__global__ void reference_matrices(const Hexahedra h, float* expected) {
    for (int e = blockIdx.x * blockDim.x + threadIdx.x; e < h.elements; e += gridDim.x * blockDim.x) {
        double p[8][3], k[36] = {};
        for (int n = 0; n < 8; ++n) {
            const int node = h.corners[size_t(n) * h.elements + e];
            p[n][0] = h.x[node], p[n][1] = h.y[node], p[n][2] = h.z[node];
        }
        for (int g = 0; g < 8; ++g) {
            double at[3], d[8][3], j[3][3] = {};
            for (int i = 0; i < 3; ++i) at[i] = (g >> i & 1 ? 1 : -1) / sqrt(3.0);
            for (int n = 0; n < 8; ++n) {
                for (int i = 0; i < 3; ++i) {
                    d[n][i] = (n >> i & 1 ? 1 : -1) / 8.0;
                    for (int o = 0; o < 3; ++o) {
                        if (o != i) d[n][i] *= 1 + (n >> o & 1 ? 1 : -1) * at[o];
                    }
                    for (int o = 0; o < 3; ++o) j[i][o] += d[n][i] * p[n][o];
                }
            }
            // Rows of the inverse by cross products of the columns of j.
            double inverse[3][3], det = 0;
            for (int i = 0; i < 3; ++i) {
                const int a = (i + 1) % 3, b = (i + 2) % 3;
                for (int o = 0; o < 3; ++o) {
                    const int c = (o + 1) % 3, f = (o + 2) % 3;
                    inverse[i][o] = j[c][a] * j[f][b] - j[f][a] * j[c][b];
                }
            }
            for (int o = 0; o < 3; ++o) det += j[0][o] * inverse[o][0];
            double grad[8][3] = {};
            for (int n = 0; n < 8; ++n) {
                for (int i = 0; i < 3; ++i) {
                    for (int o = 0; o < 3; ++o) grad[n][i] += inverse[i][o] * d[n][o] / det;
                }
            }
            for (int r = 0; r < 8; ++r) {
                for (int s = 0; s <= r; ++s) {
                    for (int i = 0; i < 3; ++i) k[r * (r + 1) / 2 + s] += det * grad[r][i] * grad[s][i];
                }
            }
        }
        for (int n = 0; n < 36; ++n) expected[size_t(n) * h.elements + e] = float(h.conductivity[e] * k[n]);
    }
}

// Nodes of a lattice of columns x rows (powers of two), moved a little; two triangles a square.
__host__ __device__ inline int triangle_corner(int e, int k, int columns, int rows) {
    const int square = e / 2, y = square / (columns - 1), x = square % (columns - 1);
    const int dx[6] = {0, 1, 0, 1, 1, 0}, dy[6] = {0, 0, 1, 0, 1, 1};
    const int n = e % 2 * 3 + k;
    return (y + dy[n]) * columns + x + dx[n];
}
__host__ __device__ inline float2 node_place(uint64_t seed, int node, int columns) {
    return make_float2(float(0.3 * book::uniform01(seed, 5, node) + node % columns % 64),
                       float(0.3 * book::uniform01(seed, 6, node) + node / columns % 64));
}

// Mesh of triangles; the places wrap round every 64 nodes so that they stay exact in float.
Triangles triangles_of(book::Problem& p, int columns, int rows, bool generated) {
    Triangles t{2 * (columns - 1) * (rows - 1)};
    const uint64_t seed = p.seed();
    const int elements = t.elements;
    const size_t nodes = size_t(columns) * rows;
    t.corners = p.input<int>(3 * size_t(elements), [=] __device__(size_t i) {
        return triangle_corner(int(i % elements), int(i / elements), columns, rows);
    });
    t.places = p.input<float2>(nodes, [=] __device__(size_t i) { return node_place(seed, int(i), columns); });
    t.values = p.input<float>(nodes, [=] __device__(size_t i) { return float(book::uniform01(seed, 8, i)); });
    if (generated) {
        // An odd multiplier permutes the numbers below a power of two.
        const unsigned mask = unsigned(nodes - 1), factor = 0x9E3779B1u & mask | 1u;
        unsigned inverse = 1;
        for (int k = 0; k < 6; ++k) inverse *= 2 - factor * inverse;
        t.old_corners = p.input<int>(3 * size_t(elements), [=] __device__(size_t i) {
            return int(unsigned(triangle_corner(int(i % elements), int(i / elements), columns, rows)) * factor & mask);
        });
        t.old_places = p.input<float2>(nodes, [=] __device__(size_t i) {
            return node_place(seed, int(unsigned(i) * inverse & mask), columns);
        });
        t.old_values = p.input<float>(nodes, [=] __device__(size_t i) {
            return float(book::uniform01(seed, 8, size_t(unsigned(i) * inverse & mask)));
        });
    }
    return t;
}

const unsigned char* kinds_of(book::Problem& p, int elements, int first, int count) {
    return p.input<unsigned char>(elements, [=] __device__(size_t i) {
        return static_cast<unsigned char>(int(i) >= first && int(i) < first + count);
    });
}

// Parts are stretches of the mesh, of which the given share of the elements counts.
const signed char* parts_of(book::Problem& p, int elements, double share) {
    const uint64_t seed = p.seed();
    return p.input<signed char>(elements, [=] __device__(size_t i) {
        const int part = int(i * kParts / elements);
        return static_cast<signed char>(book::uniform01(seed, 9, i) < share ? part : -1);
    });
}

void define_totals(book::Problem& p, double share) {
    Triangles t = triangles_of(p, 2048, 1024, false);
    t.part = parts_of(p, t.elements, share);
    t.out = p.output<float>(t.elements);
    t.totals = p.zeroed<float>(kParts);
    p.needs({.dram_bytes = 12.0 * (2 << 20) + (12.0 + 1 + 4) * t.elements, .fp32_flop = 36.0 * t.elements});
    p.check<float>(t.out, t.elements, {1e-3, 1e-4}, [=](float* expected) { reference_energies<<<1056, 256>>>(t, expected); });
    p.check<float>(t.totals, kParts, {2e-3, 1e-3}, [=](float* expected) { reference_totals<<<kParts, 1024>>>(t, expected); });
    p.variant("totals_by_element", [=] { totals_by_element(t); });
    p.variant("totals_by_block", [=] { totals_by_block(t); });
}

Hexahedra hexahedra_of(book::Problem& p, int side) {
    Hexahedra h{side * side * side};
    const int elements = h.elements, across = side + 1;
    const size_t nodes = size_t(across) * across * across;
    const uint64_t seed = p.seed();
    h.corners = p.input<int>(8 * size_t(elements), [=] __device__(size_t i) {
        const int e = int(i % elements), n = int(i / elements);
        const int x = e % side + (n & 1), y = e / side % side + (n >> 1 & 1), z = e / side / side + (n >> 2 & 1);
        return (z * across + y) * across + x;
    });
    h.x = p.input<float>(nodes, [=] __device__(size_t i) {
        return float(i % across + 0.2 * book::uniform01(seed, 11, i));
    });
    h.y = p.input<float>(nodes, [=] __device__(size_t i) {
        return float(i / across % across + 0.2 * book::uniform01(seed, 12, i));
    });
    h.z = p.input<float>(nodes, [=] __device__(size_t i) {
        return float(i / across / across + 0.2 * book::uniform01(seed, 13, i));
    });
    h.conductivity = p.uniform<float>(elements, 0.5, 2);
    h.matrices = p.output<float>(36 * size_t(elements));
    return h;
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("vectors", [](book::Problem& p) {
        Triangles t = triangles_of(p, 2048, 1024, true);
        constexpr int first = 1 << 20, count = 2048;
        t.kind = kinds_of(p, t.elements, first, count);
        std::vector<int> list(count);
        for (int k = 0; k < count; ++k) list[k] = first + k;
        t.rich = p.upload(list);
        t.rich_count = count;
        t.out = p.output<float>(3 * size_t(t.elements));
        p.needs({.dram_bytes = 12.0 * (2 << 20) + (12.0 + 1 + 12) * t.elements, .fp32_flop = 30.0 * t.elements});
        p.check<float>(t.out, 3 * size_t(t.elements), {2e-3, 2e-3},
                       [=](float* expected) { reference_vectors<<<1056, 256>>>(t, expected); });
        p.variant("mixed_as_generated", [=] { mixed_as_generated(t); });
        p.variant("mixed", [=] { mixed(t); });
        p.variant("mixed_6", [=] { mixed_6(t); });
        p.variant("mixed_8", [=] { mixed_8(t); });
        p.variant("by_kind_as_generated", [=] { by_kind_as_generated(t); });
        p.variant("by_kind", [=] { by_kind(t); });
    });
    book.problem("totals_all", [](book::Problem& p) { define_totals(p, 1.0); });
    book.problem("totals_few", [](book::Problem& p) { define_totals(p, 0.03); });
    book.problem("hexahedra", [](book::Problem& p) {
        const Hexahedra h = hexahedra_of(p, 72);
        p.needs({.dram_bytes = (36 * 4 + 32 + 4.0) * h.elements + 12.0 * 73 * 73 * 73,
                 .fp32_flop = 8.0 * 550 * h.elements});
        p.check<float>(h.matrices, 36 * size_t(h.elements), {1e-3, 5e-4},
                       [=](float* expected) { reference_matrices<<<1056, 128>>>(h, expected); });
        p.variant("hex_12", [=] { hex_12(h); });
        p.variant("hex_5", [=] { hex_5(h); });
        p.variant("hex_1", [=] { hex_1(h); });
    });
    return book.finish();
}
