// Stencils on three-dimensional grids: diffusion with a few cut cells, a high-order derivative along z, diffusion
// plane by plane, and a periodic box filter. x is the fastest axis.
#include "../../harness/book.h"

struct Volume {
    int nx, ny, nz;
    const float* in;
    float* out;
    const unsigned char* kind = nullptr;  // 1: cut cell
    const int* cut_cells = nullptr;
    int cut_count = 0;
};

//: shared
constexpr float kDiffusion = 0.12f;

// A cut cell: a quadratic polynomial through the 27 cells around it, by weighted least squares.
__device__ __forceinline__ float cut_cell(const float* __restrict__ at, int row, int plane) {
    constexpr int kTerms = 10;
    const float here = at[0];
    const float cx = 0.1f * (at[1] - at[-1]), cy = 0.1f * (at[row] - at[-row]), cz = 0.1f * (at[plane] - at[-plane]);
    float a[kTerms][kTerms] = {}, c[kTerms] = {};
#pragma unroll 1
    for (int dz = -1; dz <= 1; ++dz) {
#pragma unroll 1
        for (int dy = -1; dy <= 1; ++dy) {
#pragma unroll 1
            for (int dx = -1; dx <= 1; ++dx) {
                const float u = at[dz * plane + dy * row + dx];
                const float w = 1.0f / (1.0f + (u - here) * (u - here));
                const float x = dx - cx, y = dy - cy, z = dz - cz;
                const float b[kTerms] = {1, x, y, z, x * x, y * y, z * z, x * y, y * z, z * x};
#pragma unroll
                for (int i = 0; i < kTerms; ++i) {
#pragma unroll
                    for (int j = 0; j <= i; ++j) a[i][j] += w * b[i] * b[j];
                    c[i] += w * b[i] * u;
                }
            }
        }
    }
#pragma unroll
    for (int k = 0; k < kTerms; ++k) {
        const float inverse = 1.0f / a[k][k];
#pragma unroll
        for (int i = k + 1; i < kTerms; ++i) {
            const float factor = a[i][k] * inverse;
#pragma unroll
            for (int j = k + 1; j <= i; ++j) a[i][j] -= factor * a[j][k];
            c[i] -= factor * c[k];
        }
    }
#pragma unroll
    for (int k = kTerms - 1; k >= 0; --k) {
#pragma unroll
        for (int i = k + 1; i < kTerms; ++i) c[k] -= a[i][k] * c[i];
        c[k] /= a[k][k];
    }
    return c[0] + kDiffusion * 2 * (c[4] + c[5] + c[6]);
}

__device__ __forceinline__ float plain_cell(const float* __restrict__ at, int row, int plane) {
    const float around = at[1] + at[-1] + at[row] + at[-row] + at[plane] + at[-plane];
    return at[0] + kDiffusion * (around - 6 * at[0]);
}

__device__ __forceinline__ bool on_the_rim(int x, int y, int z, int nx, int ny, int nz) {
    return x == 0 || y == 0 || z == 0 || x == nx - 1 || y == ny - 1 || z == nz - 1;
}

template <int Blocks>
__global__ void __launch_bounds__(256, Blocks)
    diffuse_all(const float* __restrict__ in, const unsigned char* __restrict__ kind, float* __restrict__ out, int nx,
                int ny, int nz) {
    const int x = threadIdx.x, y = blockIdx.x, z = blockIdx.y;
    const int i = (z * ny + y) * nx + x;
    if (on_the_rim(x, y, z, nx, ny, nz)) {
        out[i] = in[i];
    } else if (kind[i] == 0) {
        out[i] = plain_cell(in + i, nx, nx * ny);
    } else {
        out[i] = cut_cell(in + i, nx, nx * ny);
    }
}
//: end

//: variant together
void together(const Volume& v) {
    diffuse_all<1><<<dim3(v.ny, v.nz), v.nx>>>(v.in, v.kind, v.out, v.nx, v.ny, v.nz);
}
//: end

//: variant together_4
void together_4(const Volume& v) {
    diffuse_all<4><<<dim3(v.ny, v.nz), v.nx>>>(v.in, v.kind, v.out, v.nx, v.ny, v.nz);
}
//: end

//: variant apart
__global__ void diffuse_plain(const float* __restrict__ in, const unsigned char* __restrict__ kind,
                              float* __restrict__ out, int nx, int ny, int nz) {
    const int x = threadIdx.x, y = blockIdx.x, z = blockIdx.y;
    const int i = (z * ny + y) * nx + x;
    if (on_the_rim(x, y, z, nx, ny, nz)) {
        out[i] = in[i];
    } else if (kind[i] == 0) {
        out[i] = plain_cell(in + i, nx, nx * ny);
    }
}

__global__ void diffuse_cut(const float* __restrict__ in, const int* __restrict__ cells, int count,
                            float* __restrict__ out, int nx, int ny) {
    const int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n < count) out[cells[n]] = cut_cell(in + cells[n], nx, nx * ny);
}

void apart(const Volume& v) {
    diffuse_plain<<<dim3(v.ny, v.nz), v.nx>>>(v.in, v.kind, v.out, v.nx, v.ny, v.nz);
    diffuse_cut<<<(v.cut_count + 31) / 32, 32>>>(v.in, v.cut_cells, v.cut_count, v.out, v.nx, v.ny);
}
//: end

//: shared
// A cut cell by a fit with few terms: linear in x, y and z and, where kTerms is 5, with the square of the distance.
template <int kTerms>
__device__ __forceinline__ float fitted_cell(const float* __restrict__ at, int row, int plane) {
    const float here = at[0];
    const float cx = 0.1f * (at[1] - at[-1]), cy = 0.1f * (at[row] - at[-row]), cz = 0.1f * (at[plane] - at[-plane]);
    float a[kTerms][kTerms] = {}, c[kTerms] = {};
#pragma unroll 1
    for (int dz = -1; dz <= 1; ++dz) {
#pragma unroll 1
        for (int dy = -1; dy <= 1; ++dy) {
#pragma unroll 1
            for (int dx = -1; dx <= 1; ++dx) {
                const float u = at[dz * plane + dy * row + dx];
                const float w = 1.0f / (1.0f + (u - here) * (u - here));
                const float x = dx - cx, y = dy - cy, z = dz - cz;
                const float b[5] = {1, x, y, z, x * x + y * y + z * z};
#pragma unroll
                for (int i = 0; i < kTerms; ++i) {
#pragma unroll
                    for (int j = 0; j <= i; ++j) a[i][j] += w * b[i] * b[j];
                    c[i] += w * b[i] * u;
                }
            }
        }
    }
#pragma unroll
    for (int k = 0; k < kTerms; ++k) {
        const float inverse = 1.0f / a[k][k];
#pragma unroll
        for (int i = k + 1; i < kTerms; ++i) {
            const float factor = a[i][k] * inverse;
#pragma unroll
            for (int j = k + 1; j <= i; ++j) a[i][j] -= factor * a[j][k];
            c[i] -= factor * c[k];
        }
    }
#pragma unroll
    for (int k = kTerms - 1; k >= 0; --k) {
#pragma unroll
        for (int i = k + 1; i < kTerms; ++i) c[k] -= a[i][k] * c[i];
        c[k] /= a[k][k];
    }
    return kTerms == 5 ? c[0] + kDiffusion * 6 * c[kTerms - 1] : c[0];
}
//: end

//: variant fitted_together
template <int kTerms>
__global__ void __launch_bounds__(256)
    diffuse_fitted(const float* __restrict__ in, const unsigned char* __restrict__ kind, float* __restrict__ out, int nx,
                   int ny, int nz) {
    const int x = threadIdx.x, y = blockIdx.x, z = blockIdx.y;
    const int i = (z * ny + y) * nx + x;
    if (on_the_rim(x, y, z, nx, ny, nz)) {
        out[i] = in[i];
    } else if (kind[i] == 0) {
        out[i] = plain_cell(in + i, nx, nx * ny);
    } else {
        out[i] = fitted_cell<kTerms>(in + i, nx, nx * ny);
    }
}

template <int kTerms>
void fitted_together(const Volume& v) {
    diffuse_fitted<kTerms><<<dim3(v.ny, v.nz), v.nx>>>(v.in, v.kind, v.out, v.nx, v.ny, v.nz);
}
//: end

//: variant fitted_apart
__global__ void __launch_bounds__(256)
    diffuse_uncut(const float* __restrict__ in, const unsigned char* __restrict__ kind, float* __restrict__ out, int nx,
                  int ny, int nz) {
    const int x = threadIdx.x, y = blockIdx.x, z = blockIdx.y;
    const int i = (z * ny + y) * nx + x;
    if (on_the_rim(x, y, z, nx, ny, nz)) {
        out[i] = in[i];
    } else if (kind[i] == 0) {
        out[i] = plain_cell(in + i, nx, nx * ny);
    }
}

template <int kTerms>
__global__ void fit_listed(const float* __restrict__ in, const int* __restrict__ cells, int count,
                           float* __restrict__ out, int nx, int ny) {
    const int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n < count) out[cells[n]] = fitted_cell<kTerms>(in + cells[n], nx, nx * ny);
}

template <int kTerms>
void fitted_apart(const Volume& v) {
    diffuse_uncut<<<dim3(v.ny, v.nz), v.nx>>>(v.in, v.kind, v.out, v.nx, v.ny, v.nz);
    fit_listed<kTerms><<<(v.cut_count + 31) / 32, 32>>>(v.in, v.cut_cells, v.cut_count, v.out, v.nx, v.ny);
}
//: end

//: shared
constexpr int kSlab = 48;  // planes that one thread walks through

__host__ __device__ constexpr float slope_weight(int distance) {
    return distance == 1 ? 0.8f : distance == 2 ? -0.2f : distance == 3 ? 0.0380952381f : -0.00357142857f;
}
//: end

//: variant slope_direct
__global__ void slope_by_points(const float* __restrict__ in, float* __restrict__ out, int nx, int ny) {
    const int plane = nx * ny;
    const int i = (blockIdx.y * ny + blockIdx.x) * nx + threadIdx.x;
    const float* at = in + i;
    float sum = 0;
#pragma unroll
    for (int k = 1; k <= 4; ++k) sum += slope_weight(k) * (at[k * plane] - at[-k * plane]);
    out[i] = sum;
}

void slope_direct(const Volume& v) {
    slope_by_points<<<dim3(v.ny, v.nz), v.nx>>>(v.in, v.out, v.nx, v.ny);
}
//: end

//: variant slope_ring
// The last planes of a column are kept in a ring of 16.
__global__ void slope_with_ring(const float* __restrict__ in, float* __restrict__ out, int nx, int ny, int planes) {
    const int plane = nx * ny;
    const int start = (blockIdx.y * planes * ny + blockIdx.x) * nx + threadIdx.x;
    const float* at = in + start;
    float* to = out + start;
    float ring[16];
    for (int k = 0; k < 8; ++k) ring[k] = at[(k - 4) * plane];
    for (int z = 0; z < planes; ++z) {
        ring[(z + 8) & 15] = at[(z + 4) * plane];
        float sum = 0;
#pragma unroll
        for (int k = 1; k <= 4; ++k) sum += slope_weight(k) * (ring[(z + 4 + k) & 15] - ring[(z + 4 - k) & 15]);
        to[z * plane] = sum;
    }
}

void slope_ring(const Volume& v) {
    slope_with_ring<<<dim3(v.ny, v.nz / kSlab), v.nx>>>(v.in, v.out, v.nx, v.ny, kSlab);
}
//: end

//: variant slope_shift
// The last planes of a column are kept in registers that move on by one with each plane.
__global__ void slope_with_shift(const float* __restrict__ in, float* __restrict__ out, int nx, int ny, int planes) {
    const int plane = nx * ny;
    const int start = (blockIdx.y * planes * ny + blockIdx.x) * nx + threadIdx.x;
    const float* at = in + start;
    float* to = out + start;
    float line[9];
#pragma unroll
    for (int k = 0; k < 8; ++k) line[k + 1] = at[(k - 4) * plane];
#pragma unroll 4
    for (int z = 0; z < planes; ++z) {
#pragma unroll
        for (int k = 0; k < 8; ++k) line[k] = line[k + 1];
        line[8] = at[(z + 4) * plane];
        float sum = 0;
#pragma unroll
        for (int k = 1; k <= 4; ++k) sum += slope_weight(k) * (line[4 + k] - line[4 - k]);
        to[z * plane] = sum;
    }
}

void slope_shift(const Volume& v) {
    slope_with_shift<<<dim3(v.ny, v.nz / kSlab), v.nx>>>(v.in, v.out, v.nx, v.ny, kSlab);
}
//: end

//: shared
// Diffusion: each thread walks through `planes` planes; in has one more plane on each side.
__global__ void __launch_bounds__(256, 8)
    walk_step(const float* __restrict__ in, float* __restrict__ out, int nx, int ny, int planes) {
    const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    const int plane = nx * ny;
    const int west = x > 0 ? -1 : 0, east = x < nx - 1 ? 1 : 0, north = y > 0 ? -nx : 0, south = y < ny - 1 ? nx : 0;
    const int start = blockIdx.z * planes * plane + y * nx + x;
    const float* at = in + start;
    float* to = out + start;
    float below = at[-plane], here = at[0];
#pragma unroll 1
    for (int z = 0; z < planes; ++z) {
        const float above = at[plane];
        const float around = at[west] + at[east] + at[north] + at[south] + below + above;
        *to = here + kDiffusion * (around - 6 * here);
        below = here;
        here = above;
        at += plane;
        to += plane;
    }
}

// The same with the values of the next four planes on their way; `planes` is a multiple of 4.
__global__ void __launch_bounds__(256, 8)
    walk_ahead(const float* __restrict__ in, float* __restrict__ out, int nx, int ny, int planes) {
    const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    const int plane = nx * ny;
    const int west = x > 0 ? -1 : 0, east = x < nx - 1 ? 1 : 0, north = y > 0 ? -nx : 0, south = y < ny - 1 ? nx : 0;
    const int start = blockIdx.z * planes * plane + y * nx + x;
    const float* at = in + start;
    float* to = out + start;
    float below = at[-plane], here = at[0];
    float next[4] = {at[plane], at[2 * plane], at[3 * plane], at[4 * plane]};
    for (int z = 0; z < planes; z += 4) {
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            const float above = next[k];
            if (z + k + 5 <= planes) next[k] = at[5 * plane];
            const float around = at[west] + at[east] + at[north] + at[south] + below + above;
            *to = here + kDiffusion * (around - 6 * here);
            below = here;
            here = above;
            at += plane;
            to += plane;
        }
    }
}
//: end

//: variant walk_whole
void walk_whole(const Volume& v) {
    const int planes = v.nz;
    walk_step<<<dim3(v.nx / 32, v.ny / 8, v.nz / planes), dim3(32, 8)>>>(v.in, v.out, v.nx, v.ny, planes);
}
//: end

//: variant walk_slabs
void walk_slabs(const Volume& v) {
    const int planes = 12;
    walk_step<<<dim3(v.nx / 32, v.ny / 8, v.nz / planes), dim3(32, 8)>>>(v.in, v.out, v.nx, v.ny, planes);
}
//: end

//: variant ahead_whole
void ahead_whole(const Volume& v) {
    const int planes = v.nz;
    walk_ahead<<<dim3(v.nx / 32, v.ny / 8, v.nz / planes), dim3(32, 8)>>>(v.in, v.out, v.nx, v.ny, planes);
}
//: end

//: variant ahead_slabs
void ahead_slabs(const Volume& v) {
    const int planes = 12;
    walk_ahead<<<dim3(v.nx / 32, v.ny / 8, v.nz / planes), dim3(32, 8)>>>(v.in, v.out, v.nx, v.ny, planes);
}
//: end

//: variant box_by_cell
// The average of the 27 cells around each cell of a periodic volume.
__device__ __forceinline__ int cell(int x, int y, int z, int nx, int ny, int nz) {
    return ((z + nz) % nz * ny + (y + ny) % ny) * nx + (x + nx) % nx;
}

__global__ void box_of_cells(const float* __restrict__ in, float* __restrict__ out, int nx, int ny, int nz) {
    const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y, z = blockIdx.z;
    float sum = 0;
    for (int dz = -1; dz <= 1; ++dz) {
        for (int dy = -1; dy <= 1; ++dy) {
            for (int dx = -1; dx <= 1; ++dx) sum += in[cell(x + dx, y + dy, z + dz, nx, ny, nz)];
        }
    }
    out[cell(x, y, z, nx, ny, nz)] = sum / 27.0f;
}

void box_by_cell(const Volume& v) {
    box_of_cells<<<dim3(v.nx / 32, v.ny / 8, v.nz), dim3(32, 8)>>>(v.in, v.out, v.nx, v.ny, v.nz);
}
//: end

//: variant box_by_offset
// The average of the 27 cells around each cell of a periodic volume.
__global__ void box_of_offsets(const float* __restrict__ in, float* __restrict__ out, int nx, int ny, int nz) {
    const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y, z = blockIdx.z;
    const int west = x > 0 ? x - 1 : nx - 1, east = x < nx - 1 ? x + 1 : 0;
    const int row[3] = {(y > 0 ? y - 1 : ny - 1) * nx, y * nx, (y < ny - 1 ? y + 1 : 0) * nx};
    const int plane[3] = {(z > 0 ? z - 1 : nz - 1) * nx * ny, z * nx * ny, (z < nz - 1 ? z + 1 : 0) * nx * ny};
    float sum = 0;
#pragma unroll
    for (int k = 0; k < 3; ++k) {
#pragma unroll
        for (int j = 0; j < 3; ++j) {
            const float* line = in + plane[k] + row[j];
            sum += line[west] + line[x] + line[east];
        }
    }
    out[plane[1] + row[1] + x] = sum / 27.0f;
}

void box_by_offset(const Volume& v) {
    box_of_offsets<<<dim3(v.nx / 32, v.ny / 8, v.nz), dim3(32, 8)>>>(v.in, v.out, v.nx, v.ny, v.nz);
}
//: end

// By 10 terms, or by the first 4, or by these and the square of the distance.
__device__ double reference_fit(const float* in, long long i, long long nx, long long ny, int terms) {
    const long long plane = nx * ny;
    const double here = in[i];
    const double shift[3] = {0.1 * (double(in[i + 1]) - in[i - 1]), 0.1 * (double(in[i + nx]) - in[i - nx]),
                             0.1 * (double(in[i + plane]) - in[i - plane])};
    double m[10][11] = {};
    for (int n = 0; n < 27; ++n) {
        const int dx = n % 3 - 1, dy = n / 3 % 3 - 1, dz = n / 9 - 1;
        const double u = in[i + dz * plane + dy * nx + dx], w = 1 / (1 + (u - here) * (u - here));
        const double x = dx - shift[0], y = dy - shift[1], z = dz - shift[2];
        const double squared = x * x + y * y + z * z;
        const double b[10] = {1, x, y, z, terms == 5 ? squared : x * x, y * y, z * z, x * y, y * z, z * x};
        for (int r = 0; r < terms; ++r) {
            for (int s = 0; s < terms; ++s) m[r][s] += w * b[r] * b[s];
            m[r][10] += w * b[r] * u;
        }
    }
    for (int k = 0; k < terms; ++k) {
        for (int r = 0; r < terms; ++r) {
            if (r == k) continue;
            const double f = m[r][k] / m[k][k];
            for (int s = k; s < 11; ++s) m[r][s] -= f * m[k][s];
        }
    }
    double c[10] = {};
    for (int k = 0; k < terms; ++k) c[k] = m[k][10] / m[k][k];
    return c[0] + 0.12 * (terms == 5 ? 6 * c[4] : 2 * (c[4] + c[5] + c[6]));
}

__global__ void reference_cut(const float* in, const unsigned char* kind, float* expected, int nx, int ny, int nz,
                              int terms) {
    const long long plane = (long long)nx * ny;
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < plane * nz;
         i += (long long)gridDim.x * blockDim.x) {
        const int x = int(i % nx), y = int(i / nx % ny), z = int(i / plane);
        const bool rim = min(min(x, y), z) == 0 || x == nx - 1 || y == ny - 1 || z == nz - 1;
        if (rim) {
            expected[i] = in[i];
        } else if (kind[i]) {
            expected[i] = float(reference_fit(in, i, nx, ny, terms));
        } else {
            const double sum = double(in[i - 1]) + in[i + 1] + in[i - nx] + in[i + nx] + in[i - plane] + in[i + plane];
            expected[i] = float(in[i] + 0.12 * (sum - 6.0 * in[i]));
        }
    }
}

__global__ void reference_slope(const float* in, float* expected, long long plane, long long count) {
    const double w[5] = {0, 0.8, -0.2, 0.0380952381, -0.00357142857};
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < count;
         i += (long long)gridDim.x * blockDim.x) {
        double sum = 0;
        for (int k = 1; k <= 4; ++k) sum += w[k] * (double(in[i + k * plane]) - in[i - k * plane]);
        expected[i] = float(sum);
    }
}

__global__ void reference_walk(const float* in, float* expected, int nx, int ny, int nz) {
    const long long plane = (long long)nx * ny;
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < plane * nz;
         i += (long long)gridDim.x * blockDim.x) {
        const int x = int(i % nx), y = int(i / nx % ny);
        double sum = double(in[i - plane]) + in[i + plane];
        sum += in[x ? i - 1 : i];
        sum += in[x < nx - 1 ? i + 1 : i];
        sum += in[y ? i - nx : i];
        sum += in[y < ny - 1 ? i + nx : i];
        expected[i] = float(in[i] + 0.12 * (sum - 6.0 * in[i]));
    }
}

__global__ void reference_box(const float* in, float* expected, int nx, int ny, int nz) {
    const long long plane = (long long)nx * ny;
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < plane * nz;
         i += (long long)gridDim.x * blockDim.x) {
        const long long x = i % nx, y = i / nx % ny, z = i / plane;
        double sum = 0;
        for (int n = 0; n < 27; ++n) {
            const long long u = (x + n % 3 + nx - 1) % nx, v = (y + n / 3 % 3 + ny - 1) % ny, w = (z + n / 9 + nz - 1) % nz;
            sum += in[w * plane + v * nx + u];
        }
        expected[i] = float(sum / 27);
    }
}

// Cut cells lie on a small sphere.
__host__ __device__ inline bool on_sphere(int x, int y, int z) {
    const double dx = x - 120.3, dy = y - 190.6, dz = z - 128.2;
    const double distance = sqrt(dx * dx + dy * dy + dz * dz);
    return distance > 19.6 && distance < 20.4;
}

const unsigned char* kinds_of(book::Problem& p, int nx, int ny, int nz) {
    return p.input<unsigned char>(size_t(nx) * ny * nz, [=] __device__(size_t i) {
        return static_cast<unsigned char>(on_sphere(int(i % nx), int(i / nx % ny), int(i / nx / ny)));
    });
}

// A volume with cut cells, computed by a fit with the given number of terms.
Volume cut_volume(book::Problem& p, int nx, int ny, int nz, int terms) {
    Volume v{nx, ny, nz};
    const size_t count = size_t(nx) * ny * nz;
    v.in = p.uniform<float>(count, -1, 1);
    v.out = p.output<float>(count);
    v.kind = kinds_of(p, nx, ny, nz);
    std::vector<int> cells;
    for (int z = 100; z < 156; ++z) {
        for (int y = 160; y < 220; ++y) {
            for (int x = 90; x < 150; ++x) {
                if (on_sphere(x, y, z)) cells.push_back((z * ny + y) * nx + x);
            }
        }
    }
    v.cut_cells = p.upload(cells);
    v.cut_count = int(cells.size());
    p.needs({.dram_bytes = 9.0 * count, .fp32_flop = 9.0 * count});
    p.check<float>(v.out, count, {1e-3, 1e-3}, [=](float* expected) {
        reference_cut<<<1056, 256>>>(v.in, v.kind, expected, nx, ny, nz, terms);
    });
    return v;
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("cut_cells", [](book::Problem& p) {
        const Volume v = cut_volume(p, 256, 384, 256, 10);
        p.variant("together", [=] { together(v); });
        p.variant("together_4", [=] { together_4(v); });
        p.variant("apart", [=] { apart(v); });
    });
    book.problem("cut_linear", [](book::Problem& p) {
        const Volume v = cut_volume(p, 256, 384, 256, 4);
        p.variant("fitted_together", [=] { fitted_together<4>(v); });
        p.variant("fitted_apart", [=] { fitted_apart<4>(v); });
    });
    book.problem("cut_radial_192", [](book::Problem& p) {
        const Volume v = cut_volume(p, 192, 512, 256, 5);
        p.variant("fitted_together", [=] { fitted_together<5>(v); });
        p.variant("fitted_apart", [=] { fitted_apart<5>(v); });
    });
    book.problem("slope_z", [](book::Problem& p) {
        Volume v{256, 512, 192};
        const size_t plane = size_t(v.nx) * v.ny, count = plane * v.nz;
        v.in = p.uniform<float>(count + 8 * plane, -1, 1) + 4 * plane;
        v.out = p.output<float>(count);
        p.needs({.dram_bytes = 8.0 * count + 32.0 * plane, .fp32_flop = 12.0 * count});
        p.check<float>(v.out, count, {1e-5, 1e-6}, [=](float* expected) {
            reference_slope<<<1056, 256>>>(v.in, expected, plane, count);
        });
        p.variant("slope_direct", [=] { slope_direct(v); });
        p.variant("slope_ring", [=] { slope_ring(v); });
        p.variant("slope_shift", [=] { slope_shift(v); });
    });
    book.problem("walk_544", [](book::Problem& p) {
        Volume v{544, 512, 96};
        const size_t plane = size_t(v.nx) * v.ny, count = plane * v.nz;
        v.in = p.uniform<float>(count + 2 * plane, -1, 1) + plane;
        v.out = p.output<float>(count);
        p.needs({.dram_bytes = 8.0 * count, .fp32_flop = 9.0 * count});
        p.check<float>(v.out, count, {1e-5, 1e-6}, [=](float* expected) {
            reference_walk<<<1056, 256>>>(v.in, expected, v.nx, v.ny, v.nz);
        });
        p.variant("walk_whole", [=] { walk_whole(v); });
        p.variant("walk_slabs", [=] { walk_slabs(v); });
        p.variant("ahead_whole", [=] { ahead_whole(v); });
        p.variant("ahead_slabs", [=] { ahead_slabs(v); });
    });
    book.problem("box_256", [](book::Problem& p) {
        Volume v{256, 256, 256};
        const size_t count = size_t(v.nx) * v.ny * v.nz;
        v.in = p.uniform<float>(count, -1, 1);
        v.out = p.output<float>(count);
        p.needs({.dram_bytes = 8.0 * count, .fp32_flop = 7.0 * count});
        p.check<float>(v.out, count, {1e-5, 1e-6}, [=](float* expected) {
            reference_box<<<1056, 256>>>(v.in, expected, v.nx, v.ny, v.nz);
        });
        p.variant("box_by_cell", [=] { box_by_cell(v); });
        p.variant("box_by_offset", [=] { box_by_offset(v); });
    });
    return book.finish();
}
