// Wavelet transforms of images: Haar levels in two dimensions and the CDF 5/3 lifting of lines.
// A level puts its averages (LL) into the upper left quarter of its square and its details into
// the other three: horizontal detail at the right, vertical detail below, diagonal at the lower right.
#include "../../harness/book.h"

struct Image {
    int size;          // of the side, a power of two
    const float* in;
    float* middle;     // scratch of the same size
    float* out;
};

struct Picture16 {
    int size;
    const short* in;
    short* out;
};

struct Lines {
    int rows, columns;
    const float* in;
    float* out;  // each row: averages, then details
};

//: shared
// Averages and details of two samples.
__device__ inline float haar_low(float a, float b) {
    return 0.5f * (a + b);
}

__device__ inline float haar_high(float a, float b) {
    return 0.5f * (a - b);
}

// One level of a 2 x 2 quad.
struct Quad {
    float ll, hl, lh, hh;
};

__device__ inline Quad haar_quad(float a, float b, float c, float d) {
    const float top = haar_low(a, b), bottom = haar_low(c, d);
    const float top_detail = haar_high(a, b), bottom_detail = haar_high(c, d);
    return {haar_low(top, bottom), haar_low(top_detail, bottom_detail), haar_high(top, bottom),
            haar_high(top_detail, bottom_detail)};
}

__global__ void haar_rows(const float* in, float* out, int size) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    const float2 pair = reinterpret_cast<const float2*>(in + size_t(y) * size)[x];
    out[size_t(y) * size + x] = haar_low(pair.x, pair.y);
    out[size_t(y) * size + size / 2 + x] = haar_high(pair.x, pair.y);
}
//: end

//: variant column_walk
// A warp goes down the pairs of a column.
__global__ void haar_columns_walk(const float* in, float* out, int size) {
    const int y = blockIdx.y * blockDim.x + threadIdx.x, x = blockIdx.x * blockDim.y + threadIdx.y;
    const float top = in[size_t(2 * y) * size + x], bottom = in[size_t(2 * y + 1) * size + x];
    out[size_t(y) * size + x] = haar_low(top, bottom);
    out[size_t(y + size / 2) * size + x] = haar_high(top, bottom);
}

void column_walk(const Image& d) {
    const int half = d.size / 2;
    haar_rows<<<dim3(half / 32, d.size / 8), dim3(32, 8)>>>(d.in, d.middle, d.size);
    haar_columns_walk<<<dim3(d.size / 8, half / 32), dim3(32, 8)>>>(d.middle, d.out, d.size);
}
//: end

//: variant two_passes
__global__ void haar_columns(const float* in, float* out, int size) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    const float top = in[size_t(2 * y) * size + x], bottom = in[size_t(2 * y + 1) * size + x];
    out[size_t(y) * size + x] = haar_low(top, bottom);
    out[size_t(y + size / 2) * size + x] = haar_high(top, bottom);
}

void two_passes(const Image& d) {
    const int half = d.size / 2;
    haar_rows<<<dim3(half / 32, d.size / 8), dim3(32, 8)>>>(d.in, d.middle, d.size);
    haar_columns<<<dim3(d.size / 32, half / 8), dim3(32, 8)>>>(d.middle, d.out, d.size);
}
//: end

//: variant quads
__global__ void haar_level(const float* in, float* out, int size) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    const int half = size / 2;
    const float2 top = reinterpret_cast<const float2*>(in + size_t(2 * y) * size)[x];
    const float2 bottom = reinterpret_cast<const float2*>(in + size_t(2 * y + 1) * size)[x];
    const Quad q = haar_quad(top.x, top.y, bottom.x, bottom.y);
    out[size_t(y) * size + x] = q.ll;
    out[size_t(y) * size + half + x] = q.hl;
    out[size_t(y + half) * size + x] = q.lh;
    out[size_t(y + half) * size + half + x] = q.hh;
}

void quads(const Image& d) {
    const int half = d.size / 2;
    haar_level<<<dim3(half / 32, half / 8), dim3(32, 8)>>>(d.in, d.out, d.size);
}
//: end

//: shared
// Whole-number Haar step that can be undone: the average is rounded down.
__device__ inline int step_low(int a, int b) {
    return (a + b) >> 1;
}

__device__ inline void step_quad(int a, int b, int c, int d, int (&q)[4]) {
    const int top = step_low(a, b), bottom = step_low(c, d);
    const int top_detail = a - b, bottom_detail = c - d;
    q[0] = step_low(top, bottom), q[1] = step_low(top_detail, bottom_detail);
    q[2] = top - bottom, q[3] = top_detail - bottom_detail;
}
//: end

//: variant quads_16
__global__ void step_level(const short* in, short* out, int size) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    const int half = size / 2;
    const short2 top = reinterpret_cast<const short2*>(in + size_t(2 * y) * size)[x];
    const short2 bottom = reinterpret_cast<const short2*>(in + size_t(2 * y + 1) * size)[x];
    int q[4];
    step_quad(top.x, top.y, bottom.x, bottom.y, q);
    out[size_t(y) * size + x] = short(q[0]);
    out[size_t(y) * size + half + x] = short(q[1]);
    out[size_t(y + half) * size + x] = short(q[2]);
    out[size_t(y + half) * size + half + x] = short(q[3]);
}

void quads_16(const Picture16& d) {
    const int half = d.size / 2;
    step_level<<<dim3(half / 32, half / 8), dim3(32, 8)>>>(d.in, d.out, d.size);
}
//: end

//: variant four_quads_16
__global__ void step_level_of_four(const short* in, short* out, int size) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    const int half = size / 2;
    union Eight {
        uint4 bits;
        short sample[8];
    };
    union Four {
        uint2 bits;
        short sample[4];
    };
    Eight top, bottom;
    top.bits = reinterpret_cast<const uint4*>(in + size_t(2 * y) * size)[x];
    bottom.bits = reinterpret_cast<const uint4*>(in + size_t(2 * y + 1) * size)[x];
    Four band[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        int q[4];
        step_quad(top.sample[2 * k], top.sample[2 * k + 1], bottom.sample[2 * k], bottom.sample[2 * k + 1], q);
#pragma unroll
        for (int b = 0; b < 4; ++b) band[b].sample[k] = short(q[b]);
    }
    reinterpret_cast<uint2*>(out + size_t(y) * size)[x] = band[0].bits;
    reinterpret_cast<uint2*>(out + size_t(y) * size + half)[x] = band[1].bits;
    reinterpret_cast<uint2*>(out + size_t(y + half) * size)[x] = band[2].bits;
    reinterpret_cast<uint2*>(out + size_t(y + half) * size + half)[x] = band[3].bits;
}

void four_quads_16(const Picture16& d) {
    const int half = d.size / 2;
    step_level_of_four<<<dim3(half / 4 / 32, half / 8), dim3(32, 8)>>>(d.in, d.out, d.size);
}
//: end

//: shared
// CDF 5/3 lifting of 64 columns of 128 rows at a time: every thread lifts one row of the tile.
// The tile has four columns more on both sides, as predict and update need their neighbours.
__global__ void __launch_bounds__(128) lift_lines(const float* in, float* out, int columns, int pitch) {
    constexpr int kWide = 72;
    extern __shared__ float tile[];
    const int x0 = blockIdx.x * 64 - 4;
    const float* rows = in + size_t(blockIdx.y) * 128 * columns;
#pragma unroll 8
    for (int i = threadIdx.x; i < 128 * kWide; i += 128) {
        const int x = min(max(x0 + i % kWide, 0), columns - 1);
        tile[i / kWide * pitch + i % kWide] = rows[size_t(i / kWide) * columns + x];
    }
    __syncthreads();
    float* line = tile + threadIdx.x * pitch + 4;
    if (x0 < 0) line[-2] = line[2], line[-1] = line[1];
    if (x0 + 68 >= columns) line[64] = line[62];
    float even = line[0], before = line[-1] - 0.5f * (line[-2] + even);
#pragma unroll 8
    for (int n = 0; n < 32; ++n) {
        const float next = line[2 * n + 2];
        const float detail = line[2 * n + 1] - 0.5f * (even + next);
        line[2 * n] = even + 0.25f * (before + detail);
        line[2 * n + 1] = detail;
        even = next, before = detail;
    }
    __syncthreads();
    float* to = out + size_t(blockIdx.y) * 128 * columns + blockIdx.x * 32;
    const int lane = threadIdx.x % 32;
#pragma unroll 4
    for (int y = threadIdx.x / 32; y < 128; y += 4) {
        const float* from = tile + y * pitch + 4;
        to[size_t(y) * columns + lane] = from[2 * lane];
        to[size_t(y) * columns + columns / 2 + lane] = from[2 * lane + 1];
    }
}

inline void launch_lines(const Lines& d, int pitch) {
    const dim3 grid(d.columns / 64, d.rows / 128);
    lift_lines<<<grid, 128, 128 * pitch * sizeof(float)>>>(d.in, d.out, d.columns, pitch);
}
//: end

//: variant pitch_72
void pitch_72(const Lines& d) {
    launch_lines(d, 72);
}
//: end

//: variant pitch_73
void pitch_73(const Lines& d) {
    launch_lines(d, 73);
}
//: end

//: shared
// One level of the upper left square of `size`: reads LL of the level above, writes its four bands.
// LL of each level goes to `next`; only the last one belongs to the result.
__global__ void pyramid_level(const float* ll, float* next, float* out, int size, int pitch) {
    const int half = size / 2;
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= half || y >= half) return;
    const float2 top = reinterpret_cast<const float2*>(ll + 2 * y * size)[x];
    const float2 bottom = reinterpret_cast<const float2*>(ll + (2 * y + 1) * size)[x];
    const Quad q = haar_quad(top.x, top.y, bottom.x, bottom.y);
    next[y * half + x] = q.ll;
    if (half == 1) out[0] = q.ll;
    out[y * pitch + half + x] = q.hl;
    out[(y + half) * pitch + x] = q.lh;
    out[(y + half) * pitch + half + x] = q.hh;
}

inline void launch_level(const float* ll, float* next, float* out, int size, int pitch) {
    const int half = size / 2;
    const dim3 grid((half + 31) / 32, (half + 7) / 8);
    pyramid_level<<<grid, dim3(32, 8)>>>(ll, next, out, size, pitch);
}
//: end

//: variant level_by_level
// `middle` holds the LL of every level, one after the other.
void level_by_level(const Image& d, const book::Problem* problem) {
    const float* ll = d.in;
    float* next = d.middle;
    int index = 0;
    for (int size = d.size; size > 1; size /= 2) {
        launch_level(ll, next, d.out, size, d.size);
        problem->launched(index++);
        ll = next;
        next += size / 2 * (size / 2);
    }
}
//: end

//: variant coarse_together
// All levels of a 128 x 128 LL in one block; quads are held in registers between two barriers.
__global__ void __launch_bounds__(1024) coarse_levels(const float* ll, float* out, int pitch) {
    extern __shared__ float square[];
    for (int i = threadIdx.x; i < 128 * 128; i += 1024) square[i] = ll[i];
    __syncthreads();
    for (int half = 64; half > 0; half /= 2) {
        float kept[4];
        for (int k = 0; k < 4; ++k) {
            const int i = threadIdx.x + k * 1024, x = i % half, y = i / half;
            if (y >= half) break;
            const float* top = square + 4 * y * half + 2 * x;
            const Quad q = haar_quad(top[0], top[1], top[2 * half], top[2 * half + 1]);
            kept[k] = q.ll;
            out[y * pitch + half + x] = q.hl;
            out[(y + half) * pitch + x] = q.lh;
            out[(y + half) * pitch + half + x] = q.hh;
        }
        __syncthreads();
        for (int k = 0; k < 4; ++k) {
            const int i = threadIdx.x + k * 1024;
            if (i < half * half) square[i] = kept[k];
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) out[0] = square[0];
}

void coarse_together(const Image& d, const book::Problem* problem) {
    const float* ll = d.in;
    float* next = d.middle;
    int index = 0;
    for (int size = d.size; size > 128; size /= 2) {
        launch_level(ll, next, d.out, size, d.size);
        problem->launched(index++, 3);
        ll = next;
        next += size / 2 * (size / 2);
    }
    const int bytes = 128 * 128 * sizeof(float);
    BOOK_CHECK(cudaFuncSetAttribute(coarse_levels, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    coarse_levels<<<1, 1024, bytes>>>(ll, d.out, d.size);
    problem->launched(index++, 3);
}
//: end

//: shared
// Three levels of a 64 x 64 tile in one block of 256 threads. The first level is done in registers.
// Level k of the tile at (tx, ty) fills 64 >> k columns and rows of each band.
struct Bands {
    float* out;
    int pitch, tx, ty;
};

__device__ inline void put_details(const Bands& to, int level, int x, int y, const Quad& q) {
    const int half = to.pitch >> level, edge = 64 >> level;
    const int column = to.tx * edge + x, row = to.ty * edge + y;
    to.out[size_t(row) * to.pitch + half + column] = q.hl;
    to.out[size_t(row + half) * to.pitch + column] = q.lh;
    to.out[size_t(row + half) * to.pitch + half + column] = q.hh;
}

__device__ inline Quad first_quad(const float* in, const Bands& to, int x, int y) {
    const float* from = in + size_t(to.ty * 64 + 2 * y) * to.pitch + to.tx * 64;
    const float2 top = reinterpret_cast<const float2*>(from)[x];
    const float2 bottom = reinterpret_cast<const float2*>(from + to.pitch)[x];
    return haar_quad(top.x, top.y, bottom.x, bottom.y);
}
//: end

//: variant in_place
__global__ void __launch_bounds__(256) three_levels_in_place(const float* in, float* out, int size) {
    __shared__ float tile[32][32];
    const Bands to{out, size, int(blockIdx.x), int(blockIdx.y)};
    const int x = threadIdx.x % 32, y = threadIdx.x / 32;
#pragma unroll
    for (int k = 0; k < 32; k += 8) {
        const Quad q = first_quad(in, to, x, y + k);
        put_details(to, 1, x, y + k, q);
        tile[y + k][x] = q.ll;
    }
    __syncthreads();
    // The averages of a level stay where its even samples were.
    for (int level = 2; level <= 3; ++level) {
        const int edge = 64 >> level, step = 1 << (level - 2);
        const int qx = threadIdx.x % edge, qy = threadIdx.x / edge;
        if (qy < edge) {
            const int left = 2 * step * qx, up = 2 * step * qy;
            const Quad q = haar_quad(tile[up][left], tile[up][left + step], tile[up + step][left],
                                     tile[up + step][left + step]);
            put_details(to, level, qx, qy, q);
            tile[up][left] = q.ll;
            if (level == 3) out[size_t(to.ty * 8 + qy) * size + to.tx * 8 + qx] = q.ll;
        }
        __syncthreads();
    }
}

void in_place(const Image& d) {
    three_levels_in_place<<<dim3(d.size / 64, d.size / 64), 256>>>(d.in, d.out, d.size);
}
//: end

//: variant four_planes
// Samples of a level lie in four planes, by even and odd column and row.
__global__ void __launch_bounds__(256) three_levels_planes(const float* in, float* out, int size) {
    __shared__ float plane[4][16 * 16 + 16], next[4][8 * 8 + 8];
    const Bands to{out, size, int(blockIdx.x), int(blockIdx.y)};
    const int x = threadIdx.x % 32, y = threadIdx.x / 32, i = threadIdx.x;
#pragma unroll
    for (int k = 0; k < 32; k += 8) {
        const Quad q = first_quad(in, to, x, y + k);
        put_details(to, 1, x, y + k, q);
        plane[y % 2 * 2 + x % 2][(y + k) / 2 * 16 + x / 2] = q.ll;
    }
    __syncthreads();
    {
        const int qx = i % 16, qy = i / 16;
        const Quad q = haar_quad(plane[0][i], plane[1][i], plane[2][i], plane[3][i]);
        put_details(to, 2, qx, qy, q);
        next[qy % 2 * 2 + qx % 2][qy / 2 * 8 + qx / 2] = q.ll;
    }
    __syncthreads();
    if (i < 64) {
        const int qx = i % 8, qy = i / 8;
        const Quad q = haar_quad(next[0][i], next[1][i], next[2][i], next[3][i]);
        put_details(to, 3, qx, qy, q);
        out[size_t(to.ty * 8 + qy) * size + to.tx * 8 + qx] = q.ll;
    }
}

void four_planes(const Image& d) {
    three_levels_planes<<<dim3(d.size / 64, d.size / 64), 256>>>(d.in, d.out, d.size);
}
//: end

// --- references: each coefficient from the samples below it, in double

// The Haar coefficient at (column, row) of `levels` levels: a signed mean over a square of samples.
__global__ void reference_haar(const float* in, float* expected, int size, int levels) {
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < size_t(size) * size;
         i += size_t{gridDim.x} * blockDim.x) {
        int x = int(i % size), y = int(i / size), level = 1;
        while (level < levels && x < size >> level && y < size >> level) ++level;
        const int half = size >> level, edge = 1 << level;
        const bool right = x >= half, below = y >= half;
        x -= right ? half : 0, y -= below ? half : 0;
        double sum = 0;
        for (int v = 0; v < edge; ++v) {
            for (int u = 0; u < edge; ++u) {
                const bool minus = (right && u >= edge / 2) != (below && v >= edge / 2);
                const double sample = in[size_t(y * edge + v) * size + x * edge + u];
                sum += minus ? -sample : sample;
            }
        }
        expected[i] = float(sum / (double(edge) * edge));
    }
}

__global__ void reference_steps(const short* in, short* expected, int size) {
    const int half = size / 2;
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < size_t(size) * size;
         i += size_t{gridDim.x} * blockDim.x) {
        const int x = int(i % size), y = int(i / size), left = 2 * (x % half), up = 2 * (y % half);
        double value[2];
        for (int v = 0; v < 2; ++v) {
            const double a = in[size_t(up + v) * size + left], b = in[size_t(up + v) * size + left + 1];
            value[v] = x < half ? floor((a + b) / 2) : a - b;
        }
        expected[i] = short(y < half ? floor((value[0] + value[1]) / 2) : value[0] - value[1]);
    }
}

// CDF 5/3 as filters: (-1 2 6 2 -1) / 8 and (-1 2 -1) / 2, mirrored at the ends.
__global__ void reference_lines(const float* in, float* expected, int rows, int columns) {
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < size_t(rows) * columns;
         i += size_t{gridDim.x} * blockDim.x) {
        const int x = int(i % columns);
        const float* row = in + i / columns * columns;
        const bool detail = x >= columns / 2;
        const int centre = detail ? 2 * (x - columns / 2) + 1 : 2 * x;
        const double low[5] = {-0.125, 0.25, 0.75, 0.25, -0.125}, high[5] = {0, -0.5, 1, -0.5, 0};
        double sum = 0;
        for (int k = -2; k <= 2; ++k) {
            int from = centre + k;
            if (from < 0) from = -from;
            if (from >= columns) from = 2 * (columns - 1) - from;
            sum += (detail ? high : low)[k + 2] * row[from];
        }
        expected[i] = float(sum);
    }
}

Image image(book::Problem& p, int size, int levels) {
    Image d{size};
    const size_t count = size_t(size) * size;
    d.in = p.uniform<float>(count, 0, 1);
    d.middle = p.output<float>(count);
    d.out = p.output<float>(count);
    p.needs({.dram_bytes = 8.0 * count, .fp32_flop = 4.0 * count});
    p.check<float>(d.out, count, {0, 2e-6}, [=](float* expected) {
        reference_haar<<<1056, 256>>>(d.in, expected, size, levels);
    });
    return d;
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("haar_f32", [](book::Problem& p) {
        const auto d = image(p, 4096, 1);
        p.variant("column_walk", [=] { column_walk(d); });
        p.variant("two_passes", [=] { two_passes(d); });
        p.variant("quads", [=] { quads(d); });
    });
    book.problem("haar_i16", [](book::Problem& p) {
        Picture16 d{8192};
        const size_t count = size_t(d.size) * d.size;
        const int size = d.size;
        d.in = p.uniform<short>(count, 0, 4096);
        d.out = p.output<short>(count);
        p.needs({.dram_bytes = 4.0 * count, .int_op = 2.0 * count});
        p.check<short>(d.out, count, {0}, [=](short* expected) {
            reference_steps<<<1056, 256>>>(d.in, expected, size);
        });
        p.variant("quads_16", [=] { quads_16(d); });
        p.variant("four_quads_16", [=] { four_quads_16(d); });
    });
    book.problem("lines_53", [](book::Problem& p) {
        Lines d{4096, 4096};
        const size_t count = size_t(d.rows) * d.columns;
        d.in = p.uniform<float>(count, 0, 1);
        d.out = p.output<float>(count);
        p.needs({.dram_bytes = 8.0 * count, .fp32_flop = 3.0 * count});
        p.check<float>(d.out, count, {0, 2e-6}, [=](float* expected) {
            reference_lines<<<1056, 256>>>(d.in, expected, d.rows, d.columns);
        });
        p.variant("pitch_72", [=] { pitch_72(d); });
        p.variant("pitch_73", [=] { pitch_73(d); });
    });
    book.problem("pyramid_512", [](book::Problem& p) {
        const auto d = image(p, 512, 9);
        auto* problem = &p;
        p.variant("level_by_level", [=] { level_by_level(d, problem); });
        p.variant("coarse_together", [=] { coarse_together(d, problem); });
    });
    book.problem("levels_3", [](book::Problem& p) {
        const auto d = image(p, 4096, 3);
        p.variant("in_place", [=] { in_place(d); });
        p.variant("four_planes", [=] { four_planes(d); });
    });
    return book.finish();
}
