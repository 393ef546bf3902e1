// Stencils on two-dimensional grids: a high-order star, periodic relaxation, edge-preserving diffusion, and a
// star in shared-memory tiles.
#include "../../harness/book.h"

// A field with a margin of `kMargin` columns and `kHalo` rows on each side: interior (y, x) is at origin[y * pitch + x].
struct Field {
    int rows, columns, pitch;
    const float* origin;
    float* out;  // rows x columns, without a margin
};

// A grid without a margin.
struct Grid {
    int rows, columns;
    const float* in;
    float* out;
};

//: shared
constexpr int kMargin = 32;
constexpr int kHalo = 4;

// Second derivative, eighth order, in both directions.
__host__ __device__ constexpr float star_weight(int distance) {
    return distance == 0   ? -2.847222222f
           : distance == 1 ? 1.6f
           : distance == 2 ? -0.2f
           : distance == 3 ? 0.02539682540f
                           : -0.001785714286f;
}
constexpr float kTimeStep = 0.1f;
//: end

//: variant star_rows
__global__ void star_by_rows(const float* __restrict__ in, float* __restrict__ out, int columns, int pitch) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x;
    const int y = blockIdx.y;
    const float* at = in + size_t(y) * pitch + x;
    float sum = 2 * star_weight(0) * at[0];
#pragma unroll
    for (int k = 1; k <= 4; ++k) {
        sum += star_weight(k) * (at[k] + at[-k] + at[k * pitch] + at[-k * pitch]);
    }
    out[size_t(y) * columns + x] = at[0] + kTimeStep * sum;
}

void star_rows(const Field& f) {
    star_by_rows<<<dim3(f.columns / 256, f.rows), 256>>>(f.origin, f.out, f.columns, f.pitch);
}
//: end

//: variant star_march
constexpr int kStarRows = 64;

__global__ void star_down_columns(const float* __restrict__ in, float* __restrict__ out, int columns, int pitch) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x;
    const int first = blockIdx.y * kStarRows;
    const float* at = in + size_t(first) * pitch + x;
    float* to = out + size_t(first) * columns + x;
    float line[9];
#pragma unroll
    for (int k = 0; k < 8; ++k) line[k + 1] = at[(k - 4) * pitch];
#pragma unroll 8
    for (int j = 0; j < kStarRows; ++j) {
#pragma unroll
        for (int k = 0; k < 8; ++k) line[k] = line[k + 1];
        line[8] = at[4 * pitch];
        float sum = 2 * star_weight(0) * line[4];
#pragma unroll
        for (int k = 1; k <= 4; ++k) {
            sum += star_weight(k) * (at[k] + at[-k] + line[4 + k] + line[4 - k]);
        }
        *to = line[4] + kTimeStep * sum;
        at += pitch;
        to += columns;
    }
}

void star_march(const Field& f) {
    star_down_columns<<<dim3(f.columns / 256, f.rows / kStarRows), 256>>>(f.origin, f.out, f.columns, f.pitch);
}
//: end

//: variant wrapped
// One thread a point, numbered through; the torus is closed by remainders.
__global__ void relax_wrapped(const float* __restrict__ in, float* __restrict__ out, long long rows, long long columns) {
    const long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
    if (i >= rows * columns) return;
    const long long y = i / columns;
    const long long x = i % columns;
    const long long up = (y + rows - 1) % rows, down = (y + 1) % rows;
    const long long left = (x + columns - 1) % columns, right = (x + 1) % columns;
    out[y * columns + x] = 0.25f * (in[y * columns + left] + in[y * columns + right] + in[up * columns + x] +
                                    in[down * columns + x]);
}

void wrapped(const Grid& g) {
    const int count = g.rows * g.columns;
    relax_wrapped<<<(count + 255) / 256, 256>>>(g.in, g.out, g.rows, g.columns);
}
//: end

//: variant numbered
__global__ void relax_numbered(const float* __restrict__ in, float* __restrict__ out, unsigned rows, unsigned columns) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned y = i / columns;
    const unsigned x = i - y * columns;
    const unsigned up = y == 0 ? rows - 1 : y - 1, down = y + 1 == rows ? 0 : y + 1;
    const unsigned left = x == 0 ? columns - 1 : x - 1, right = x + 1 == columns ? 0 : x + 1;
    out[i] = 0.25f * (in[y * columns + left] + in[y * columns + right] + in[up * columns + x] + in[down * columns + x]);
}

void numbered(const Grid& g) {
    relax_numbered<<<g.rows * g.columns / 256, 256>>>(g.in, g.out, g.rows, g.columns);
}
//: end

//: variant along_y
__global__ void relax_along_y(const float* __restrict__ in, float* __restrict__ out, unsigned rows, unsigned columns) {
    const unsigned x = blockIdx.x;
    const unsigned y = blockIdx.y * blockDim.x + threadIdx.x;
    const unsigned up = y == 0 ? rows - 1 : y - 1, down = y + 1 == rows ? 0 : y + 1;
    const unsigned left = x == 0 ? columns - 1 : x - 1, right = x + 1 == columns ? 0 : x + 1;
    out[y * columns + x] =
        0.25f * (in[y * columns + left] + in[y * columns + right] + in[up * columns + x] + in[down * columns + x]);
}

void along_y(const Grid& g) {
    relax_along_y<<<dim3(g.columns, g.rows / 256), 256>>>(g.in, g.out, g.rows, g.columns);
}
//: end

//: variant rows
__global__ void relax_rows(const float* __restrict__ in, float* __restrict__ out, unsigned rows, unsigned columns) {
    const unsigned x = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned y = blockIdx.y;
    const unsigned up = y == 0 ? rows - 1 : y - 1, down = y + 1 == rows ? 0 : y + 1;
    const unsigned left = x == 0 ? columns - 1 : x - 1, right = x + 1 == columns ? 0 : x + 1;
    out[y * columns + x] =
        0.25f * (in[y * columns + left] + in[y * columns + right] + in[up * columns + x] + in[down * columns + x]);
}

void rows(const Grid& g) {
    relax_rows<<<dim3(g.columns / 256, g.rows), 256>>>(g.in, g.out, g.rows, g.columns);
}
//: end

//: variant rows_quarter
__global__ void relax_rows_quarter(const float* __restrict__ in, float* __restrict__ out, unsigned rows,
                                   unsigned columns) {
    const unsigned x = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned y = blockIdx.y;
    const unsigned up = y == 0 ? rows - 1 : y - 1, down = y + 1 == rows ? 0 : y + 1;
    const unsigned left = x == 0 ? columns - 1 : x - 1, right = x + 1 == columns ? 0 : x + 1;
    out[y * columns + x] = 0.25 * (in[y * columns + left] + in[y * columns + right]) +
                           0.25 * (in[up * columns + x] + in[down * columns + x]);
}

void rows_quarter(const Grid& g) {
    relax_rows_quarter<<<dim3(g.columns / 256, g.rows), 256>>>(g.in, g.out, g.rows, g.columns);
}
//: end

//: variant march
constexpr unsigned kRelaxRows = 32;

__global__ void relax_march(const float* __restrict__ in, float* __restrict__ out, unsigned rows, unsigned columns) {
    const unsigned x = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned first = blockIdx.y * kRelaxRows;
    const unsigned left = x == 0 ? columns - 1 : x - 1, right = x + 1 == columns ? 0 : x + 1;
    float above = in[(first == 0 ? rows - 1 : first - 1) * columns + x];
    float here = in[first * columns + x];
#pragma unroll 8
    for (unsigned j = 0; j < kRelaxRows; ++j) {
        const unsigned y = first + j;
        const float below = in[(y + 1 == rows ? 0 : y + 1) * columns + x];
        out[y * columns + x] = 0.25f * (in[y * columns + left] + in[y * columns + right] + above + below);
        above = here;
        here = below;
    }
}

void march(const Grid& g) {
    relax_march<<<dim3(g.columns / 256, g.rows / kRelaxRows), 256>>>(g.in, g.out, g.rows, g.columns);
}
//: end

//: variant edges_gaussian
// Perona and Malik: flow across an edge falls with the square of its height.
__global__ void edges_by_gaussian(const float* __restrict__ in, float* __restrict__ out, int rows, int columns) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x;
    const int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= columns || y >= rows) return;
    const float here = in[y * columns + x];
    const float north = in[max(y - 1, 0) * columns + x] - here;
    const float south = in[min(y + 1, rows - 1) * columns + x] - here;
    const float west = in[y * columns + max(x - 1, 0)] - here;
    const float east = in[y * columns + min(x + 1, columns - 1)] - here;
    const float flow = exp(-north * north / 0.09) * north + exp(-south * south / 0.09) * south +
                       exp(-west * west / 0.09) * west + exp(-east * east / 0.09) * east;
    out[y * columns + x] = here + 0.2 * flow;
}

void edges_gaussian(const Grid& g) {
    edges_by_gaussian<<<dim3(g.columns / 32, g.rows / 8), dim3(32, 8)>>>(g.in, g.out, g.rows, g.columns);
}
//: end

//: variant edges_gaussian_f
// Perona and Malik: flow across an edge falls with the square of its height.
__global__ void edges_by_gaussian_f(const float* __restrict__ in, float* __restrict__ out, int rows, int columns) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x;
    const int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= columns || y >= rows) return;
    const float here = in[y * columns + x];
    const float north = in[max(y - 1, 0) * columns + x] - here;
    const float south = in[min(y + 1, rows - 1) * columns + x] - here;
    const float west = in[y * columns + max(x - 1, 0)] - here;
    const float east = in[y * columns + min(x + 1, columns - 1)] - here;
    const float flow = expf(-north * north * (1 / 0.09f)) * north + expf(-south * south * (1 / 0.09f)) * south +
                       expf(-west * west * (1 / 0.09f)) * west + expf(-east * east * (1 / 0.09f)) * east;
    out[y * columns + x] = here + 0.2f * flow;
}

void edges_gaussian_f(const Grid& g) {
    edges_by_gaussian_f<<<dim3(g.columns / 32, g.rows / 8), dim3(32, 8)>>>(g.in, g.out, g.rows, g.columns);
}
//: end

//: shared
constexpr int kTileWidth = 128;
constexpr int kReach = 2;
constexpr int kTilePitch = kTileWidth + 2 * kReach;

// Star of reach 2 in tiles of kTileWidth x Height points; 256 threads a block.
template <int Height>
__global__ void smooth_tile(const float* __restrict__ in, float* __restrict__ out, int rows, int columns, int pitch) {
    extern __shared__ float tile[];  // (Height + 2 * kReach) x kTilePitch
    const int left = blockIdx.x * kTileWidth, top = blockIdx.y * Height;
    const int height = min(Height, rows - top);
    const int lane = threadIdx.x % 32;
    for (int j = threadIdx.x / 32; j < height + 2 * kReach; j += 8) {
        const float* from = in + (top + j - kReach) * pitch + left - kReach;
        for (int i = lane; i < kTilePitch; i += 32) tile[j * kTilePitch + i] = from[i];
    }
    __syncthreads();
    const int x = threadIdx.x % kTileWidth;
    for (int j = threadIdx.x / kTileWidth; j < height; j += 256 / kTileWidth) {
        const float* at = tile + (j + kReach) * kTilePitch + x + kReach;
        const float near = at[1] + at[-1] + at[kTilePitch] + at[-kTilePitch];
        const float far = at[2] + at[-2] + at[2 * kTilePitch] + at[-2 * kTilePitch];
        out[size_t(top + j) * columns + left + x] = 0.4f * at[0] + 0.2f * near - 0.05f * far;
    }
}

template <int Height>
void smooth(const Field& f) {
    constexpr int bytes = (Height + 2 * kReach) * kTilePitch * sizeof(float);
    BOOK_CHECK(cudaFuncSetAttribute(smooth_tile<Height>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    smooth_tile<Height><<<dim3(f.columns / kTileWidth, (f.rows + Height - 1) / Height), 256, bytes>>>(
        f.origin, f.out, f.rows, f.columns, f.pitch);
}
//: end

//: variant tiles_200
void tiles_200(const Field& f) {
    smooth<200>(f);
}
//: end

//: variant tiles_128
void tiles_128(const Field& f) {
    smooth<128>(f);
}
//: end

//: variant tiles_24
void tiles_24(const Field& f) {
    smooth<24>(f);
}
//: end

__global__ void reference_star(const float* in, float* expected, int rows, int columns, int pitch) {
    const double w[5] = {-2.847222222, 1.6, -0.2, 0.02539682540, -0.001785714286};
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < size_t(rows) * columns;
         i += size_t{gridDim.x} * blockDim.x) {
        const long long y = i / columns, x = i % columns;
        double sum = 0;
        for (int k = -4; k <= 4; ++k) {
            sum += w[abs(k)] * (double(in[y * pitch + x + k]) + double(in[(y + k) * pitch + x]));
        }
        expected[i] = float(in[y * pitch + x] + 0.1 * sum);
    }
}

__global__ void reference_relax(const float* in, float* expected, int rows, int columns) {
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < size_t(rows) * columns;
         i += size_t{gridDim.x} * blockDim.x) {
        const size_t y = i / columns, x = i % columns;
        double sum = in[y * columns + (x + 1) % columns];
        sum += in[y * columns + (x + columns - 1) % columns];
        sum += in[(y + 1) % rows * columns + x];
        sum += in[(y + rows - 1) % rows * columns + x];
        expected[i] = float(sum / 4);
    }
}

__global__ void reference_edges(const float* in, float* expected, int rows, int columns) {
    const int dy[4] = {-1, 1, 0, 0}, dx[4] = {0, 0, -1, 1};
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < size_t(rows) * columns;
         i += size_t{gridDim.x} * blockDim.x) {
        const int y = int(i / columns), x = int(i % columns);
        double flow = 0;
        for (int k = 0; k < 4; ++k) {
            const int v = y + dy[k], u = x + dx[k];
            if (v < 0 || v >= rows || u < 0 || u >= columns) continue;
            const double step = double(in[size_t(v) * columns + u]) - double(in[i]);
            flow += step * exp(-step * step / 0.09);
        }
        expected[i] = float(in[i] + 0.2 * flow);
    }
}

__global__ void reference_smooth(const float* in, float* expected, int rows, int columns, int pitch) {
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < size_t(rows) * columns;
         i += size_t{gridDim.x} * blockDim.x) {
        const long long y = i / columns, x = i % columns;
        double sum = 0.4 * in[y * pitch + x];
        for (int k = 1; k <= 2; ++k) {
            const double w = k == 1 ? 0.2 : -0.05;
            sum += w * (double(in[y * pitch + x + k]) + in[y * pitch + x - k] + in[(y + k) * pitch + x] +
                        in[(y - k) * pitch + x]);
        }
        expected[i] = float(sum);
    }
}

Field field_of(book::Problem& p, int rows, int columns) {
    Field f{rows, columns, columns + 2 * kMargin};
    const float* all = p.uniform<float>(size_t(rows + 2 * kHalo) * f.pitch, -1, 1);
    f.origin = all + size_t(kHalo) * f.pitch + kMargin;
    f.out = p.output<float>(size_t(rows) * columns);
    return f;
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("star4_f32", [](book::Problem& p) {
        const Field f = field_of(p, 4096, 6144);
        const size_t count = size_t(f.rows) * f.columns;
        p.needs({.dram_bytes = 8.0 * count, .fp32_flop = 24.0 * count});
        p.check<float>(f.out, count, {1e-5, 1e-5}, [=](float* expected) {
            reference_star<<<1056, 256>>>(f.origin, expected, f.rows, f.columns, f.pitch);
        });
        p.variant("star_rows", [=] { star_rows(f); });
        p.variant("star_march", [=] { star_march(f); });
    });
    book.problem("torus_f32", [](book::Problem& p) {
        Grid g{4096, 6144};
        const size_t count = size_t(g.rows) * g.columns;
        g.in = p.uniform<float>(count, -1, 1);
        g.out = p.output<float>(count);
        p.needs({.dram_bytes = 8.0 * count, .fp32_flop = 4.0 * count});
        p.check<float>(g.out, count, {1e-6, 1e-6}, [=](float* expected) {
            reference_relax<<<1056, 256>>>(g.in, expected, g.rows, g.columns);
        });
        p.variant("wrapped", [=] { wrapped(g); });
        p.variant("numbered", [=] { numbered(g); });
        p.variant("along_y", [=] { along_y(g); });
        p.variant("rows_quarter", [=] { rows_quarter(g); });
        p.variant("rows", [=] { rows(g); });
        p.variant("march", [=] { march(g); });
    });
    book.problem("edges_f32", [](book::Problem& p) {
        Grid g{4096, 4096};
        const size_t count = size_t(g.rows) * g.columns;
        g.in = p.uniform<float>(count, 0, 1);
        g.out = p.output<float>(count);
        p.needs({.dram_bytes = 8.0 * count, .fp32_flop = 22.0 * count, .special_op = 4.0 * count});
        p.check<float>(g.out, count, {2e-6, 2e-6}, [=](float* expected) {
            reference_edges<<<1056, 256>>>(g.in, expected, g.rows, g.columns);
        });
        p.variant("edges_gaussian", [=] { edges_gaussian(g); });
        p.variant("edges_gaussian_f", [=] { edges_gaussian_f(g); });
    });
    book.problem("star2_tiles_f32", [](book::Problem& p) {
        const Field f = field_of(p, 4096, 6144);
        const size_t count = size_t(f.rows) * f.columns;
        p.needs({.dram_bytes = 8.0 * count, .fp32_flop = 11.0 * count});
        p.check<float>(f.out, count, {1e-5, 1e-6}, [=](float* expected) {
            reference_smooth<<<1056, 256>>>(f.origin, expected, f.rows, f.columns, f.pitch);
        });
        p.variant("tiles_200", [=] { tiles_200(f); });
        p.variant("tiles_128", [=] { tiles_128(f); });
        p.variant("tiles_24", [=] { tiles_24(f); });
    });
    return book.finish();
}
