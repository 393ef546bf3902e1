// Held out: kernels in the styles of many authors whose amounts known_second_truth.json has.
// Nothing may be tuned on them.
#include "second_tools.h"

// ---------------------------------------------------------------- kernels

// Positions and velocities behind one struct, 64-bit indices.
struct Swarm {
    double* pos;
    double* vel;
    const double* acc;
    size_t count;
};
__global__ void leapfrog(Swarm s, double dt) {
    const size_t stride = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < s.count; i += stride) {
        const double v = s.vel[i] + s.acc[i] * dt;
        s.vel[i] = v;
        s.pos[i] += v * dt;
    }
}

// Row pass of a separable filter; rows are apart by a pitch in bytes.
constexpr int SEP_W = 128;
template <int R>
__global__ void blurRowsPitched(const float* __restrict__ src, size_t srcPitch, float* __restrict__ dst,
                                size_t dstPitch, const float* __restrict__ taps, int width) {
    __shared__ float line[SEP_W + 2 * R];
    const float* row = (const float*)((const char*)src + blockIdx.y * srcPitch);
    const int x0 = blockIdx.x * SEP_W;
#pragma unroll 1
    for (int s = threadIdx.x; s < SEP_W + 2 * R; s += SEP_W) {
        int x = min(max(x0 + s - R, 0), width - 1);
        line[s] = row[x];
    }
    __syncthreads();
    const int x = x0 + threadIdx.x;
    if (x < width) {
        float acc = 0.0f;
#pragma unroll
        for (int k = 0; k <= 2 * R; ++k) acc += taps[k] * line[threadIdx.x + k];
        float* to = (float*)((char*)dst + blockIdx.y * dstPitch);
        to[x] = acc;
    }
}

// Column pass with the taps in constant memory; plain pointers, unsigned arithmetic.
constexpr int COL_TAPS = 9;
__constant__ float column_taps[COL_TAPS];
template <unsigned R>
__global__ void blurColumns(const float* src, float* dst, unsigned ld, unsigned w, unsigned h) {
    unsigned x = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    float acc = 0.0f;
#pragma unroll
    for (unsigned k = 0; k < 2 * R + 1; k++) {
        unsigned yy = y + k < R ? 0u : y + k - R;
        if (yy > h - 1) yy = h - 1;
        acc += column_taps[k] * src[yy * ld + x];
    }
    dst[y * ld + x] = acc;
}

// Discrete Fourier transform by a table of roots; blockIdx.y is the signal.
__global__ void dft_table(const float2* __restrict__ signal, const float2* __restrict__ root,
                          float2* __restrict__ spectrum, unsigned n) {
    unsigned k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= n) return;
    const float2* in = signal + blockIdx.y * n;
    float re = 0.f, im = 0.f;
    unsigned at = 0;
    for (unsigned t = 0; t < n; ++t) {
        float2 a = in[t];
        float2 w = root[at];
        re += a.x * w.x - a.y * w.y;
        im += a.x * w.y + a.y * w.x;
        at += k;
        if (at >= n) at -= n;
    }
    float2 bin = make_float2(re, im);
    spectrum[blockIdx.y * n + k] = bin;
}

// Sorts each 32 keys in the registers of a warp.
__global__ void sort_by_shuffles(unsigned long long* keys, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned long long mine = keys[i];
    int lane = threadIdx.x & 31;
#pragma unroll
    for (int size = 2; size <= 32; size <<= 1) {
#pragma unroll
        for (int hop = size >> 1; hop > 0; hop >>= 1) {
            unsigned long long theirs = __shfl_xor_sync(0xffffffffu, mine, hop);
            bool keep_small = ((lane & hop) == 0) == ((lane & size) == 0);
            if (size == 32) keep_small = (lane & hop) == 0;
            mine = (theirs < mine) == keep_small ? theirs : mine;
        }
    }
    keys[i] = mine;
}

// Local alignment within a band of diagonals, one thread per pair of sequences.
template <int BAND>
__global__ void band_align(const unsigned char* query, const unsigned char* target, const short* lengths,
                           int* best, int pairs) {
    int p = blockDim.x * blockIdx.x + threadIdx.x;
    if (p >= pairs) return;
    int h[BAND + 1];
    unsigned char window[BAND];
#pragma unroll
    for (int k = 0; k <= BAND; k++) h[k] = 0;
#pragma unroll
    for (int k = 0; k < BAND - 1; k++) window[k] = target[(size_t)k * pairs + p];
    int top = 0;
    int len = lengths[p];
#pragma unroll 1
    for (int i = 0; i < len; i++) {
        unsigned char q = query[(size_t)i * pairs + p];
        window[BAND - 1] = target[(size_t)(i + BAND - 1) * pairs + p];
        int left = 0;
#pragma unroll
        for (int k = 0; k < BAND; k++) {
            int cell = max(h[k] + (q == window[k] ? 2 : -1), max(h[k + 1] - 2, max(left - 2, 0)));
            h[k] = cell;
            left = cell;
            top = max(top, cell);
        }
#pragma unroll
        for (int k = 0; k < BAND - 1; k++) window[k] = window[k + 1];
    }
    best[p] = top;
}

// ELL format: padded entries have column -1. blockIdx.y picks the right-hand side.
__global__ void ell_spmv(const double* __restrict__ vals, const int* __restrict__ cols,
                         const double* __restrict__ x, double* __restrict__ y, long long rows, int width) {
    long long r = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (r >= rows) return;
    const double* xb = x + blockIdx.y * rows;
    double acc = 0;
#pragma unroll 1
    for (int j = 0; j < width; ++j) {
        long long at = r + j * rows;
        int c = cols[at];
        if (c < 0) break;
        acc += vals[at] * xb[c];
    }
    y[blockIdx.y * rows + r] = acc;
}

// LU factors of small matrices without pivoting, one per thread.
template <int N, typename T>
__global__ void lu_small(const T* mats, T* factors, int batch) {
    int m = blockIdx.x * blockDim.x + threadIdx.x;
    if (m >= batch) return;
    T a[N * N];
#pragma unroll
    for (int e = 0; e < N * N; e++) a[e] = mats[e * batch + m];
#pragma unroll
    for (int k = 0; k < N; k++) {
        T inv = T(1) / a[k * N + k];
#pragma unroll
        for (int i = k + 1; i < N; i++) {
            T f = a[i * N + k] * inv;
            a[i * N + k] = f;
#pragma unroll
            for (int j = k + 1; j < N; j++) a[i * N + j] -= f * a[k * N + j];
        }
    }
#pragma unroll
    for (int e = 0; e < N * N; e++) factors[e * batch + m] = a[e];
}

// Area of a quarter circle by random points; one atomic per warp.
__global__ void quarter_circle(const uint2* seeds, unsigned long long* inside, int rounds) {
    int gid = blockIdx.x * blockDim.x + threadIdx.x;
    uint2 st = seeds[gid];
    unsigned a = st.x, b = st.y, hits = 0;
    for (int r = 0; r < rounds; r++) {
        a ^= a << 13;
        a ^= a >> 17;
        a ^= a << 5;
        b ^= b << 13;
        b ^= b >> 17;
        b ^= b << 5;
        unsigned px = a >> 16, py = b >> 16;
        hits += (unsigned long long)px * px + (unsigned long long)py * py < 4294967296ull ? 1u : 0u;
    }
#pragma unroll
    for (int d = 16; d >= 1; d >>= 1) hits += __shfl_xor_sync(~0u, hits, d);
    if ((threadIdx.x & 31) == 0) atomicAdd(&inside[blockIdx.x], (unsigned long long)hits);
}

// Colours: three bytes in, four bytes out, both with row strides.
__global__ void rgb_to_yuva(const uchar3* rgb, int rgbStride, uchar4* yuva, int yuvaStride, int w, int h) {
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (col < w && row < h) {
        uchar3 c = rgb[row * rgbStride + col];
        int y = (66 * c.x + 129 * c.y + 25 * c.z + 128) >> 8;
        int u = (-38 * c.x - 74 * c.y + 112 * c.z + 128) >> 8;
        int v = (112 * c.x - 94 * c.y - 18 * c.z + 128) >> 8;
        uchar4 o = make_uchar4(y + 16, u + 128, v + 128, 255);
        yuva[row * yuvaStride + col] = o;
    }
}

// Totals of a moving window: each thread slides over a chunk of its own.
__global__ void moving_totals(const unsigned short* __restrict__ in, unsigned* __restrict__ out,
                              unsigned results, unsigned window, unsigned chunk) {
    unsigned first = (blockIdx.x * blockDim.x + threadIdx.x) * chunk;
    if (first >= results) return;
    unsigned last = min(first + chunk, results);
    unsigned total = 0;
    for (unsigned k = 0; k < window; k++) {
        total += in[first + k];
    }
    out[first] = total;
    for (unsigned i = first + 1; i < last; i++) {
        total += in[i + window - 1];
        total -= in[i - 1];
        out[i] = total;
    }
}

// Causal attention of one head per blockIdx.y, one warp per query, two channels per lane.
__global__ void causal_attention(const float2* __restrict__ q, const float2* __restrict__ k,
                                 const float2* __restrict__ v, float2* __restrict__ o, int len,
                                 float scale) {
    int i = blockIdx.x * blockDim.y + threadIdx.y;
    if (i >= len) return;
    size_t head = (size_t)blockIdx.y * len * 32;
    float2 mine = q[head + i * 32 + threadIdx.x];
    float top = -1e30f, norm = 0.f;
    float2 acc = make_float2(0.f, 0.f);
    for (int j = 0; j <= i; j++) {
        float2 key = k[head + j * 32 + threadIdx.x];
        float2 val = v[head + j * 32 + threadIdx.x];
        float s = mine.x * key.x + mine.y * key.y;
#pragma unroll
        for (int d = 16; d > 0; d /= 2) s += __shfl_xor_sync(0xffffffff, s, d);
        s *= scale;
        float next = fmaxf(top, s);
        float keep = expf(top - next), w = expf(s - next);
        norm = norm * keep + w;
        acc.x = acc.x * keep + w * val.x;
        acc.y = acc.y * keep + w * val.y;
        top = next;
    }
    float2 res = make_float2(acc.x / norm, acc.y / norm);
    o[head + i * 32 + threadIdx.x] = res;
}

// Rows go to new places; a warp copies a row, its first lane reads where to.
__global__ void scatter_rows(const float* in, const unsigned* place, float* out, unsigned rows,
                             unsigned cols) {
    unsigned lane = threadIdx.x % 32u;
    unsigned warps = gridDim.x * (blockDim.x / 32u);
    for (unsigned r = blockIdx.x * (blockDim.x / 32u) + threadIdx.x / 32u; r < rows; r += warps) {
        unsigned to = 0;
        if (lane == 0) to = place[r];
        to = __shfl_sync(0xffffffffu, to, 0);
        const float* from = in + (size_t)r * cols;
        float* dest = out + (size_t)to * cols;
#pragma unroll 1
        for (unsigned c = lane; c < cols; c += 32u) {
            dest[c] = from[c];
        }
    }
}

// One colour of a red-black relaxation, in place.
__global__ void relax_colour(float* u, const float* f, int ld, int nx, int ny, int colour) {
    int y = blockIdx.y * blockDim.y + threadIdx.y + 1;
    int x = 2 * (blockIdx.x * blockDim.x + threadIdx.x) + 1 + ((y + colour) & 1);
    if (x > nx || y > ny) return;
    int c = y * ld + x;
    u[c] = 0.25f * (u[c - 1] + u[c + 1] + u[c - ld] + u[c + ld] - f[c]);
}

// Running sums: four per thread, then warps by shuffles, then the block.
constexpr int SUMS_BLOCK = 256;
__global__ void __launch_bounds__(SUMS_BLOCK) running_sums4(const int4* __restrict__ in, int4* __restrict__ out,
                                                           int* __restrict__ block_total) {
    __shared__ int warp_total[SUMS_BLOCK / 32];
    int i = blockIdx.x * SUMS_BLOCK + threadIdx.x;
    int lane = threadIdx.x & 31, wid = threadIdx.x >> 5;
    int4 v = in[i];
    v.y += v.x;
    v.z += v.y;
    v.w += v.z;
    int sum = v.w;
#pragma unroll
    for (int d = 1; d < 32; d <<= 1) {
        int left = __shfl_up_sync(0xffffffffu, sum, d);
        if (lane >= d) sum += left;
    }
    if (lane == 31) warp_total[wid] = sum;
    __syncthreads();
    int before = sum - v.w;
#pragma unroll 1
    for (int w = 0; w < wid; w++) before += warp_total[w];
    v.x += before;
    v.y += before;
    v.z += before;
    v.w += before;
    out[i] = v;
    if (threadIdx.x == SUMS_BLOCK - 1) block_total[blockIdx.x] = v.w;
}

// Mandelbrot set in fixed point, so that every machine counts the same steps.
__global__ void mandel_fixed(unsigned short* steps, int w, int h, int limit) {
    int px = blockIdx.x * blockDim.x + threadIdx.x;
    int py = blockIdx.y * blockDim.y + threadIdx.y;
    if (px >= w || py >= h) return;
    const long long one = 1ll << 24;
    long long cr = -2 * one + 3 * one * px / w, ci = -one + 2 * one * py / h;
    long long zr = 0, zi = 0, rr = 0, ii = 0;
    int n = 0;
#pragma unroll 1
    while (n < limit && rr + ii <= 4 * one) {
        zi = ((zr * zi) >> 23) + ci;
        zr = rr - ii + cr;
        rr = (zr * zr) >> 24;
        ii = (zi * zi) >> 24;
        n++;
    }
    steps[py * w + px] = (unsigned short)n;
}

// Three-dimensional convolution with zeros outside; the filter is an argument by value.
struct Filter27 {
    float w[27];
};
__global__ void conv_cube(const signed char* __restrict__ in, float* __restrict__ out, Filter27 filter, int nx,
                          int ny, int nz) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    int z = blockIdx.z * blockDim.z + threadIdx.z;
    if (x >= nx || y >= ny || z >= nz) return;
    float sum = 0.0f;
#pragma unroll
    for (int dz = -1; dz <= 1; dz++) {
#pragma unroll
        for (int dy = -1; dy <= 1; dy++) {
#pragma unroll
            for (int dx = -1; dx <= 1; dx++) {
                int xx = x + dx, yy = y + dy, zz = z + dz;
                if (xx < 0 || xx >= nx || yy < 0 || yy >= ny || zz < 0 || zz >= nz) continue;
                sum += filter.w[dz * 9 + dy * 3 + dx + 13] * (float)in[(zz * ny + yy) * nx + xx];
            }
        }
    }
    out[(z * ny + y) * nx + x] = sum;
}

// A delay line per channel, kept in a ring in memory.
__global__ void ring_delay(const float* x, float* ring, float* y, int channels, int slots, int times, int head) {
    int ch = blockIdx.x * blockDim.x + threadIdx.x;
    if (ch >= channels) return;
#pragma unroll 1
    for (int t = 0; t < times; ++t) {
        float* slot = ring + head * channels + ch;
        float fresh = x[t * channels + ch];
        float late = *slot;
        *slot = fresh + 0.5f * late;
        y[t * channels + ch] = fresh + late;
        head = head + 1 == slots ? 0 : head + 1;
    }
}

// One step of the game of life on a torus of bytes.
__global__ void life_step(const unsigned char* __restrict__ now, unsigned char* __restrict__ next, unsigned w,
                          unsigned h) {
    unsigned x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    unsigned l = x == 0 ? w - 1 : x - 1, r = x == w - 1 ? 0 : x + 1;
    const unsigned char* mid = now + y * w;
    const unsigned char* up = now + (y == 0 ? h - 1 : y - 1) * w;
    const unsigned char* down = now + (y == h - 1 ? 0 : y + 1) * w;
    unsigned n = up[l] + up[x] + up[r] + mid[l] + mid[r] + down[l] + down[x] + down[r];
    unsigned me = mid[x];
    next[y * w + x] = (unsigned char)(n == 3 || (n == 2 && me) ? 1 : 0);
}

// Check sums of records of different lengths, by a table of 256 words.
__global__ void crc_records(const unsigned char* __restrict__ bytes, const unsigned long long* __restrict__ start,
                            const unsigned* __restrict__ table, unsigned* __restrict__ crc, int records) {
    int rec = blockIdx.x * blockDim.x + threadIdx.x;
    if (rec >= records) return;
    unsigned long long stop = start[rec + 1];
    unsigned c = 0xffffffffu;
    for (unsigned long long at = start[rec]; at < stop; at++) {
        c = table[(c ^ bytes[at]) & 255u] ^ (c >> 8);
    }
    crc[rec] = ~c;
}

// Matrices times vectors, blockIdx.y the batch, a warp per row; the loop is in a function.
__device__ __forceinline__ float lane_dot(const float4* a, const float4* b, int quads, int lane) {
    float part = 0.f;
    for (int e = lane; e < quads; e += 32) {
        float4 l = a[e];
        float4 r = b[e];
        part += l.x * r.x + l.y * r.y + l.z * r.z + l.w * r.w;
    }
    return part;
}
__global__ void gemv_batched(const float4* __restrict__ mat, const float4* __restrict__ vec,
                             float* __restrict__ res, int rows, int quads) {
    int row = blockIdx.x * blockDim.y + threadIdx.y, b = blockIdx.y;
    if (row >= rows) return;
    float dot = lane_dot(mat + ((size_t)b * rows + row) * quads, vec + (size_t)b * quads, quads, threadIdx.x);
#pragma unroll
    for (int d = 16; d > 0; d >>= 1) dot += __shfl_down_sync(0xffffffffu, dot, d);
    if (threadIdx.x == 0) res[b * rows + row] = dot;
}

// Nearest other point, references in dynamic shared memory; the last tile is short.
struct Sites {
    const float* x;
    const float* y;
    int n;
};
__global__ void nearest_site(const float2* pts, Sites sites, int* who, int n, int tile) {
    extern __shared__ float buf[];
    float* sx = buf;
    float* sy = buf + tile;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float2 p = make_float2(0.f, 0.f);
    if (i < n) p = pts[i];
    float best = 3e38f;
    int at = -1;
    for (int base = 0; base < sites.n; base += tile) {
        int here = min(tile, sites.n - base);
        for (int s = threadIdx.x; s < here; s += blockDim.x) {
            sx[s] = sites.x[base + s];
            sy[s] = sites.y[base + s];
        }
        __syncthreads();
        for (int s = 0; s < here; s++) {
            float dx = p.x - sx[s], dy = p.y - sy[s];
            float d = dx * dx + dy * dy;
            if (d < best) {
                best = d;
                at = base + s;
            }
        }
        __syncthreads();
    }
    if (i < n) who[i] = at;
}

// ---------------------------------------------------------------- sizes

constexpr int SWARM_N = 1500003, SWARM_BLOCKS = 300, SWARM_THREADS = 192;
constexpr int ROWS_R = 5, ROWS_W = 1000, ROWS_H = 600, ROWS_SRC_LD = 1024, ROWS_DST_LD = 1008;
constexpr int COLS_W = 900, COLS_H = 500, COLS_LD = 928;
constexpr int DFT_N = 240, DFT_BATCH = 96, DFT_THREADS = 64;
constexpr int WARP_KEYS = 640032;
constexpr int BAND_W = 8, PAIRS = 20000, SEQ = 96;
constexpr int ELL_ROWS = 30011, ELL_WIDTH = 20, ELL_RHS = 3;
constexpr int LU_N = 5, LU_BATCH = 60001;
constexpr int DART_BLOCKS = 264, DART_THREADS = 128, DART_ROUNDS = 300;
constexpr int YUV_W = 1300, YUV_H = 701, YUV_IN = 1312, YUV_OUT = 1344;
constexpr int WIN_RESULTS = 1000037, WIN_SIZE = 24, WIN_CHUNK = 10;
constexpr int ATT_LEN = 203, ATT_HEADS = 6, ATT_WARPS = 4;
constexpr int SCAT_ROWS = 9001, SCAT_COLS = 150, SCAT_BLOCKS = 132, SCAT_THREADS = 256;
constexpr int RB_NX = 1501, RB_NY = 998, RB_LD = 1504;
constexpr int SUMS_BLOCKS = 2000;
constexpr int MANDEL_W = 500, MANDEL_H = 301, MANDEL_LIMIT = 200;
constexpr int CUBE_NX = 90, CUBE_NY = 71, CUBE_NZ = 50;
constexpr int RING_CH = 20000, RING_SLOTS = 12, RING_TIMES = 50, RING_HEAD = 7;
constexpr int LIFE_W = 1003, LIFE_H = 905;
constexpr int CRC_RECORDS = 40000, CRC_LEAST = 10, CRC_SPREAD = 60;
constexpr int GEMV_ROWS = 333, GEMV_QUADS = 125, GEMV_BATCH = 24, GEMV_WARPS = 8;
constexpr int SITE_POINTS = 30000, SITE_N = 700, SITE_TILE = 256, SITE_THREADS = 160;

// ---------------------------------------------------------------- one function per kernel

static void run_leapfrog() {
    Swarm s;
    s.pos = doubles(SWARM_N, 1), s.vel = doubles(SWARM_N, 2), s.acc = doubles(SWARM_N, 3), s.count = SWARM_N;
    leapfrog<<<SWARM_BLOCKS, SWARM_THREADS>>>(s, 0.125);
    check("leapfrog", s.pos, SWARM_N);
    cudaFree(s.pos), cudaFree(s.vel), cudaFree((void*)s.acc);
}

static void run_blurRowsPitched() {
    float *src = floats(ROWS_SRC_LD * ROWS_H, 4), *dst = zeros<float>(ROWS_DST_LD * ROWS_H);
    float* taps = floats(2 * ROWS_R + 1, 5);
    blurRowsPitched<ROWS_R><<<dim3(over(ROWS_W, SEP_W), ROWS_H), SEP_W>>>(
        src, ROWS_SRC_LD * 4, dst, ROWS_DST_LD * 4, taps, ROWS_W);
    check("blurRowsPitched", dst, ROWS_DST_LD * ROWS_H);
    cudaFree(src), cudaFree(dst), cudaFree(taps);
}

static void run_blurColumns() {
    float *src = floats(COLS_LD * COLS_H, 6), *dst = zeros<float>(COLS_LD * COLS_H);
    auto taps = units(COL_TAPS, 7);
    CHECKED(cudaMemcpyToSymbol(column_taps, taps.data(), COL_TAPS * sizeof(float)));
    dim3 block(64, 4), grid(over(COLS_W, 64), over(COLS_H, 4));
    blurColumns<4u><<<grid, block>>>(src, dst, COLS_LD, COLS_W, COLS_H);
    check("blurColumns", dst, COLS_LD * COLS_H);
    cudaFree(src), cudaFree(dst);
}

static void run_dft_table() {
    std::vector<float2> hs(DFT_N * DFT_BATCH), hr(DFT_N);
    for (int i = 0; i < DFT_N * DFT_BATCH; i++) hs[i] = make_float2(unit(2 * i + 8), unit(2 * i + 9));
    for (int i = 0; i < DFT_N; i++) {
        double angle = -2 * 3.14159265358979 * i / DFT_N;
        hr[i] = make_float2((float)std::cos(angle), (float)std::sin(angle));
    }
    float2 *signal = upload(hs), *root = upload(hr), *spectrum = zeros<float2>(DFT_N * DFT_BATCH);
    dft_table<<<dim3(over(DFT_N, DFT_THREADS), DFT_BATCH), DFT_THREADS>>>(signal, root, spectrum, DFT_N);
    check("dft_table", (float*)spectrum, 2 * DFT_N * DFT_BATCH, true);
    cudaFree(signal), cudaFree(root), cudaFree(spectrum);
}

static void run_sort_by_shuffles() {
    std::vector<unsigned long long> h(WARP_KEYS);
    for (int i = 0; i < WARP_KEYS; i++) h[i] = mix(i + 10);
    unsigned long long* keys = upload(h);
    sort_by_shuffles<<<over(WARP_KEYS, 128), 128>>>(keys, WARP_KEYS);
    auto r = download(keys, WARP_KEYS);
    for (int i = 0; i < WARP_KEYS; i++)
        if (i % 32) expect("sort_by_shuffles", r[i - 1] <= r[i], 1);
    check("sort_by_shuffles", keys, WARP_KEYS);
    cudaFree(keys);
}

static void run_band_align() {
    std::vector<unsigned char> hq(SEQ * PAIRS), ht((SEQ + BAND_W) * PAIRS);
    std::vector<short> hl(PAIRS);
    for (size_t i = 0; i < hq.size(); i++) hq[i] = mix((unsigned)i + 11) & 3;
    for (size_t i = 0; i < ht.size(); i++) ht[i] = mix((unsigned)i + 12) & 3;
    for (int i = 0; i < PAIRS; i++) hl[i] = SEQ / 2 + mix(i + 13) % (SEQ / 2 + 1);
    unsigned char *query = upload(hq), *target = upload(ht);
    short* lengths = upload(hl);
    int* best = zeros<int>(PAIRS);
    band_align<BAND_W><<<over(PAIRS, 96), 96>>>(query, target, lengths, best, PAIRS);
    check("band_align", best, PAIRS);
    cudaFree(query), cudaFree(target), cudaFree(lengths), cudaFree(best);
}

static void run_ell_spmv() {
    std::vector<int> hc(ELL_ROWS * ELL_WIDTH, -1);
    for (int r = 0; r < ELL_ROWS; r++) {
        int length = mix(r + 14) % (ELL_WIDTH + 1);
        for (int j = 0; j < length; j++) hc[j * ELL_ROWS + r] = mix(r * ELL_WIDTH + j + 15) % ELL_ROWS;
    }
    double *vals = doubles(ELL_ROWS * ELL_WIDTH, 16), *x = doubles(ELL_ROWS * ELL_RHS, 17);
    double* y = zeros<double>(ELL_ROWS * ELL_RHS);
    int* cols = upload(hc);
    ell_spmv<<<dim3(over(ELL_ROWS, 128), ELL_RHS), 128>>>(vals, cols, x, y, ELL_ROWS, ELL_WIDTH);
    check("ell_spmv", y, ELL_ROWS * ELL_RHS);
    cudaFree(vals), cudaFree(x), cudaFree(y), cudaFree(cols);
}

static void run_lu_small() {
    auto h = units(LU_N * LU_N * LU_BATCH, 18);
    for (int k = 0; k < LU_N; k++)
        for (int m = 0; m < LU_BATCH; m++) h[k * (LU_N + 1) * LU_BATCH + m] += 8.0f;
    float *mats = upload(h), *factors = zeros<float>(h.size());
    lu_small<LU_N, float><<<over(LU_BATCH, 64), 64>>>(mats, factors, LU_BATCH);
    check("lu_small", factors, h.size());
    cudaFree(mats), cudaFree(factors);
}

static void run_quarter_circle() {
    std::vector<uint2> h(DART_BLOCKS * DART_THREADS);
    for (size_t i = 0; i < h.size(); i++) h[i] = make_uint2(mix(i + 19) | 1u, mix(i + 777) | 1u);
    uint2* seeds = upload(h);
    unsigned long long* inside = zeros<unsigned long long>(DART_BLOCKS);
    quarter_circle<<<DART_BLOCKS, DART_THREADS>>>(seeds, inside, DART_ROUNDS);
    check("quarter_circle", inside, DART_BLOCKS);
    cudaFree(seeds), cudaFree(inside);
}

static void run_rgb_to_yuva() {
    std::vector<uchar3> h(YUV_IN * YUV_H);
    for (size_t i = 0; i < h.size(); i++) h[i] = make_uchar3(mix(i + 20), mix(i + 21), mix(i + 22));
    uchar3* rgb = upload(h);
    uchar4* yuva = zeros<uchar4>(YUV_OUT * YUV_H);
    rgb_to_yuva<<<dim3(over(YUV_W, 16), over(YUV_H, 16)), dim3(16, 16)>>>(rgb, YUV_IN, yuva, YUV_OUT, YUV_W, YUV_H);
    check("rgb_to_yuva", (unsigned char*)yuva, 4 * YUV_OUT * YUV_H);
    cudaFree(rgb), cudaFree(yuva);
}

static void run_moving_totals() {
    std::vector<unsigned short> h(WIN_RESULTS + WIN_SIZE - 1);
    for (size_t i = 0; i < h.size(); i++) h[i] = (unsigned short)mix((unsigned)i + 23);
    unsigned short* in = upload(h);
    unsigned* out = zeros<unsigned>(WIN_RESULTS);
    moving_totals<<<over(over(WIN_RESULTS, WIN_CHUNK), 128), 128>>>(in, out, WIN_RESULTS, WIN_SIZE, WIN_CHUNK);
    check("moving_totals", out, WIN_RESULTS);
    cudaFree(in), cudaFree(out);
}

static void run_causal_attention() {
    size_t n = (size_t)ATT_HEADS * ATT_LEN * 32;
    float *q = floats(2 * n, 24), *k = floats(2 * n, 25), *v = floats(2 * n, 26), *o = zeros<float>(2 * n);
    causal_attention<<<dim3(over(ATT_LEN, ATT_WARPS), ATT_HEADS), dim3(32, ATT_WARPS)>>>(
        (const float2*)q, (const float2*)k, (const float2*)v, (float2*)o, ATT_LEN, 0.125f);
    check("causal_attention", o, 2 * n);
    cudaFree(q), cudaFree(k), cudaFree(v), cudaFree(o);
}

static void run_scatter_rows() {
    std::vector<unsigned> hp(SCAT_ROWS);
    for (int r = 0; r < SCAT_ROWS; r++) hp[r] = (r * 4000u + 17u) % SCAT_ROWS;  // 4000 and 9001 share no factor.
    unsigned* place = upload(hp);
    float *in = floats(SCAT_ROWS * SCAT_COLS, 27), *out = zeros<float>(SCAT_ROWS * SCAT_COLS);
    scatter_rows<<<SCAT_BLOCKS, SCAT_THREADS>>>(in, place, out, SCAT_ROWS, SCAT_COLS);
    check("scatter_rows", out, SCAT_ROWS * SCAT_COLS);
    cudaFree(place), cudaFree(in), cudaFree(out);
}

static void run_relax_colour() {
    float *u = floats(RB_LD * (RB_NY + 2), 28), *f = floats(RB_LD * (RB_NY + 2), 29);
    relax_colour<<<dim3(over(over(RB_NX, 2), 32), over(RB_NY, 8)), dim3(32, 8)>>>(u, f, RB_LD, RB_NX, RB_NY, 1);
    check("relax_colour", u, RB_LD * (RB_NY + 2));
    cudaFree(u), cudaFree(f);
}

static void run_running_sums4() {
    std::vector<int4> h(SUMS_BLOCKS * SUMS_BLOCK);
    for (size_t i = 0; i < h.size(); i++)
        h[i] = make_int4(mix(4 * i) & 1023, mix(4 * i + 1) & 1023, mix(4 * i + 2) & 1023, mix(4 * i + 3) & 1023);
    int4 *in = upload(h), *out = zeros<int4>(h.size());
    int* block_total = zeros<int>(SUMS_BLOCKS);
    running_sums4<<<SUMS_BLOCKS, SUMS_BLOCK>>>(in, out, block_total);
    check("running_sums4", (int*)out, 4 * h.size());
    cudaFree(in), cudaFree(out), cudaFree(block_total);
}

static void run_mandel_fixed() {
    unsigned short* steps = zeros<unsigned short>(MANDEL_W * MANDEL_H);
    mandel_fixed<<<dim3(over(MANDEL_W, 16), over(MANDEL_H, 8)), dim3(16, 8)>>>(steps, MANDEL_W, MANDEL_H, MANDEL_LIMIT);
    check("mandel_fixed", steps, MANDEL_W * MANDEL_H);
    cudaFree(steps);
}

static void run_conv_cube() {
    std::vector<signed char> h(CUBE_NX * CUBE_NY * CUBE_NZ);
    for (size_t i = 0; i < h.size(); i++) h[i] = (signed char)mix((unsigned)i + 30);
    signed char* in = upload(h);
    float* out = zeros<float>(h.size());
    Filter27 filter;
    for (int k = 0; k < 27; k++) filter.w[k] = unit(k + 31);
    dim3 block(32, 2, 2), grid(over(CUBE_NX, 32), over(CUBE_NY, 2), over(CUBE_NZ, 2));
    conv_cube<<<grid, block>>>(in, out, filter, CUBE_NX, CUBE_NY, CUBE_NZ);
    check("conv_cube", out, h.size(), true);
    cudaFree(in), cudaFree(out);
}

static void run_ring_delay() {
    float *x = floats(RING_CH * RING_TIMES, 32), *ring = floats(RING_CH * RING_SLOTS, 33);
    float* y = zeros<float>(RING_CH * RING_TIMES);
    ring_delay<<<over(RING_CH, 128), 128>>>(x, ring, y, RING_CH, RING_SLOTS, RING_TIMES, RING_HEAD);
    check("ring_delay", y, RING_CH * RING_TIMES);
    cudaFree(x), cudaFree(ring), cudaFree(y);
}

static void run_life_step() {
    std::vector<unsigned char> h(LIFE_W * LIFE_H);
    for (size_t i = 0; i < h.size(); i++) h[i] = mix((unsigned)i + 34) & 1;
    unsigned char *now = upload(h), *next = zeros<unsigned char>(h.size());
    life_step<<<dim3(over(LIFE_W, 64), over(LIFE_H, 2)), dim3(64, 2)>>>(now, next, LIFE_W, LIFE_H);
    check("life_step", next, h.size());
    cudaFree(now), cudaFree(next);
}

static void run_crc_records() {
    std::vector<unsigned long long> hs(CRC_RECORDS + 1);
    for (int i = 0; i < CRC_RECORDS; i++) hs[i + 1] = hs[i] + CRC_LEAST + mix(i + 35) % CRC_SPREAD;
    std::vector<unsigned char> hb(hs[CRC_RECORDS]);
    for (size_t i = 0; i < hb.size(); i++) hb[i] = (unsigned char)mix((unsigned)i + 36);
    std::vector<unsigned> ht(256);
    for (unsigned i = 0; i < 256; i++) {
        unsigned c = i;
        for (int bit = 0; bit < 8; bit++) c = c & 1 ? 0xedb88320u ^ (c >> 1) : c >> 1;
        ht[i] = c;
    }
    unsigned char* bytes = upload(hb);
    unsigned long long* start = upload(hs);
    unsigned *table = upload(ht), *crc = zeros<unsigned>(CRC_RECORDS);
    crc_records<<<over(CRC_RECORDS, 64), 64>>>(bytes, start, table, crc, CRC_RECORDS);
    check("crc_records", crc, CRC_RECORDS);
    cudaFree(bytes), cudaFree(start), cudaFree(table), cudaFree(crc);
}

static void run_gemv_batched() {
    float *mat = floats(4 * GEMV_BATCH * GEMV_ROWS * GEMV_QUADS, 37), *vec = floats(4 * GEMV_BATCH * GEMV_QUADS, 38);
    float* res = zeros<float>(GEMV_BATCH * GEMV_ROWS);
    gemv_batched<<<dim3(over(GEMV_ROWS, GEMV_WARPS), GEMV_BATCH), dim3(32, GEMV_WARPS)>>>(
        (const float4*)mat, (const float4*)vec, res, GEMV_ROWS, GEMV_QUADS);
    check("gemv_batched", res, GEMV_BATCH * GEMV_ROWS);
    cudaFree(mat), cudaFree(vec), cudaFree(res);
}

static void run_nearest_site() {
    float* pts = floats(2 * SITE_POINTS, 39);
    Sites sites;
    sites.x = floats(SITE_N, 40), sites.y = floats(SITE_N, 41), sites.n = SITE_N;
    int* who = zeros<int>(SITE_POINTS);
    nearest_site<<<over(SITE_POINTS, SITE_THREADS), SITE_THREADS, 2 * SITE_TILE * sizeof(float)>>>(
        (const float2*)pts, sites, who, SITE_POINTS, SITE_TILE);
    check("nearest_site", who, SITE_POINTS);
    cudaFree(pts), cudaFree((void*)sites.x), cudaFree((void*)sites.y), cudaFree(who);
}

int main() {
    run_leapfrog();
    run_blurRowsPitched();
    run_blurColumns();
    run_dft_table();
    run_sort_by_shuffles();
    run_band_align();
    run_ell_spmv();
    run_lu_small();
    run_quarter_circle();
    run_rgb_to_yuva();
    run_moving_totals();
    run_causal_attention();
    run_scatter_rows();
    run_relax_colour();
    run_running_sums4();
    run_mandel_fixed();
    run_conv_cube();
    run_ring_delay();
    run_life_step();
    run_crc_records();
    run_gemv_batched();
    run_nearest_site();
    return verdict(22);
}
