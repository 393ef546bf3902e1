// Kernels as people write them, each launched once, whose amounts of work known_truth.json has.
#include <cuda_fp16.h>

#include "host_tools.h"

// ---------------------------------------------------------------- kernels

// Five-point stencil of the inner cells.
__global__ void stencil5(const float* __restrict__ in, float* __restrict__ out, int nx, int ny,
                         float centre, float side) {
    int x = blockIdx.x * blockDim.x + threadIdx.x + 1;
    int y = blockIdx.y * blockDim.y + threadIdx.y + 1;
    if (x >= nx - 1 || y >= ny - 1) return;
    int at = y * nx + x;
    float around = in[at - 1] + in[at + 1] + in[at - nx] + in[at + nx];
    out[at] = centre * in[at] + side * around;
}

// Matrix product, one thread per result.
__global__ void matmul_naive(const float* __restrict__ a, const float* __restrict__ b,
                             float* __restrict__ c, int m, int n, int depth) {
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= m || col >= n) return;
    float sum = 0.0f;
    for (int k = 0; k < depth; k++) {
        sum += a[row * depth + k] * b[k * n + col];
    }
    c[row * n + col] = sum;
}

// Matrix product by tiles in shared memory; sizes need not be multiples of the tile.
constexpr int TILE = 32;
__global__ void matmul_tiled(const float* __restrict__ a, const float* __restrict__ b,
                             float* __restrict__ c, int m, int n, int depth) {
    __shared__ float tile_a[TILE][TILE];
    __shared__ float tile_b[TILE][TILE];
    int tx = threadIdx.x, ty = threadIdx.y;
    int col = blockIdx.x * TILE + tx;
    int row = blockIdx.y * TILE + ty;
    float sum = 0.0f;
    for (int start = 0; start < depth; start += TILE) {
        float from_a = 0.0f, from_b = 0.0f;
        if (row < m && start + tx < depth) from_a = a[row * depth + start + tx];
        if (start + ty < depth && col < n) from_b = b[(start + ty) * n + col];
        tile_a[ty][tx] = from_a;
        tile_b[ty][tx] = from_b;
        __syncthreads();
#pragma unroll
        for (int e = 0; e < TILE; e++) sum += tile_a[ty][e] * tile_b[e][tx];
        __syncthreads();
    }
    if (row < m && col < n) c[row * n + col] = sum;
}

// Histogram of bytes: counts of a block in shared memory, then added up.
constexpr int BINS = 256;
__global__ void histogram_bytes(const unsigned char* __restrict__ data, unsigned* bins, int n) {
    __shared__ unsigned counts[BINS];
    for (int i = threadIdx.x; i < BINS; i += blockDim.x) {
        counts[i] = 0;
    }
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        atomicAdd(&counts[data[i]], 1u);
    }
    __syncthreads();
    for (int k = threadIdx.x; k < BINS; k += blockDim.x) {
        atomicAdd(&bins[k], counts[k]);
    }
}

// Sparse matrix times vector, one thread per row, rows of very different lengths.
__global__ void spmv_csr(const int* __restrict__ row_start, const int* __restrict__ column,
                         const float* __restrict__ value, const float* __restrict__ x,
                         float* __restrict__ y, int rows) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    int end = row_start[row + 1];
    float sum = 0.0f;
    for (int e = row_start[row]; e < end; e++) {
        sum += value[e] * x[column[e]];
    }
    y[row] = sum;
}

// Lookups in batches: the block brings its own table into shared memory again for every batch.
constexpr int ENTRIES = 2048;
__global__ void batch_lookup(const float* tables, const unsigned short* keys, float* found,
                             int batches) {
    __shared__ float table[ENTRIES];
    for (int batch = 0; batch < batches; batch++) {
        for (int e = threadIdx.x; e < ENTRIES; e += blockDim.x) {
            table[e] = tables[blockIdx.x * ENTRIES + e];
        }
        __syncthreads();
        int at = (batch * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x;
        found[at] = table[keys[at]];
        __syncthreads();
    }
}

// Softmax of rows, one block per row: largest, sum, quotient.
constexpr int SOFTMAX_THREADS = 256;
__global__ void row_softmax(const float* __restrict__ x, float* __restrict__ y, int cols) {
    __shared__ float part[SOFTMAX_THREADS];
    const float* row = x + (size_t)blockIdx.x * cols;
    int t = threadIdx.x;
    float largest = -INFINITY;
    for (int i = t; i < cols; i += blockDim.x) {
        largest = fmaxf(largest, row[i]);
    }
    part[t] = largest;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (t < half) part[t] = fmaxf(part[t], part[t + half]);
        __syncthreads();
    }
    largest = part[0];
    __syncthreads();
    float sum = 0.0f;
    for (int i = t; i < cols; i += blockDim.x) {
        sum += expf(row[i] - largest);
    }
    part[t] = sum;
    __syncthreads();
    for (int width = blockDim.x / 2; width > 0; width /= 2) {
        if (t < width) part[t] += part[t + width];
        __syncthreads();
    }
    float scale = 1.0f / part[0];
    for (int i = t; i < cols; i += blockDim.x) {
        y[(size_t)blockIdx.x * cols + i] = expf(row[i] - largest) * scale;
    }
}

// Sum of doubles: a strided loop, then shuffles.
__global__ void reduce_sum(const double* __restrict__ in, double* __restrict__ partial, int n) {
    __shared__ double warp_sum[32];
    double sum = 0.0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        sum += in[i];
    }
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
    for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffffu, sum, step);
    if (lane == 0) warp_sum[warp] = sum;
    __syncthreads();
    if (warp == 0) {
        sum = lane < blockDim.x / 32 ? warp_sum[lane] : 0.0;
#pragma unroll
        for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffffu, sum, step);
        if (lane == 0) partial[blockIdx.x] = sum;
    }
}

// Transposition by tiles of 32 x 32 with 32 x 8 threads.
__global__ void transpose_tile(const float* __restrict__ in, float* __restrict__ out, int width,
                               int height) {
    __shared__ float tile[32][33];
    int x = blockIdx.x * 32 + threadIdx.x;
    int y = blockIdx.y * 32 + threadIdx.y;
#pragma unroll
    for (int j = 0; j < 32; j += 8)
        if (x < width && y + j < height) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * width + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x;
    y = blockIdx.x * 32 + threadIdx.y;
#pragma unroll
    for (int j = 0; j < 32; j += 8)
        if (x < height && y + j < width) out[(y + j) * height + x] = tile[threadIdx.x][threadIdx.y + j];
}

// Nearest of k centres for points of eight coordinates.
constexpr int DIM = 8;
__global__ void kmeans_assign(const float* __restrict__ points, const float* __restrict__ centres,
                              int* __restrict__ label, int n, int k) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float p[DIM];
#pragma unroll
    for (int d = 0; d < DIM; d++) p[d] = points[d * n + i];
    float least = INFINITY;
    int nearest = 0;
#pragma unroll 1
    for (int c = 0; c < k; c++) {
        float first = p[0] - centres[c * DIM];
        float distance = first * first;
#pragma unroll
        for (int d = 1; d < DIM; d++) {
            float apart = p[d] - centres[c * DIM + d];
            distance += apart * apart;
        }
        if (distance < least) {
            least = distance;
            nearest = c;
        }
    }
    label[i] = nearest;
}

// 3 x 3 convolution over all channels without padding; blocks of three dimensions.
__global__ void conv_valid(const __half* __restrict__ image, const float* __restrict__ weights,
                           float* __restrict__ out, int channels, int height, int width, int filters) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    int f = blockIdx.z * blockDim.z + threadIdx.z;
    if (x >= width - 2 || y >= height - 2 || f >= filters) return;
    float sum = 0.0f;
    for (int c = 0; c < channels; c++) {
#pragma unroll
        for (int dy = 0; dy < 3; dy++) {
#pragma unroll
            for (int dx = 0; dx < 3; dx++) {
                __half pixel = image[(c * height + y + dy) * width + x + dx];
                sum += weights[(f * channels + c) * 9 + dy * 3 + dx] * __half2float(pixel);
            }
        }
    }
    out[(f * (height - 2) + y) * (width - 2) + x] = sum;
}

// Forces between all pairs of bodies, by tiles in shared memory.
constexpr int BODY_TILE = 128;
__global__ void pair_forces(const float4* __restrict__ body, float4* __restrict__ force, int n) {
    __shared__ float4 tile[BODY_TILE];
    int i = blockIdx.x * BODY_TILE + threadIdx.x;
    float4 own = body[i];
    float fx = 0.0f, fy = 0.0f, fz = 0.0f;
    for (int start = 0; start < n; start += BODY_TILE) {
        tile[threadIdx.x] = body[start + threadIdx.x];
        __syncthreads();
#pragma unroll 8
        for (int j = 0; j < BODY_TILE; j++) {
            float4 other = tile[j];
            float dx = other.x - own.x, dy = other.y - own.y, dz = other.z - own.z;
            float near = rsqrtf(dx * dx + dy * dy + dz * dz + 0.01f);
            float pull = other.w * near * near * near;
            fx += dx * pull;
            fy += dy * pull;
            fz += dz * pull;
        }
        __syncthreads();
    }
    float4 total = make_float4(fx, fy, fz, own.w);
    force[i] = total;
}

// Heat in rods, one rod per block, all time steps in one kernel with two buffers.
__global__ void heat_steps(float* even, float* odd, int cells, int steps, float rate) {
    float* now = even + blockIdx.x * cells;
    float* next = odd + blockIdx.x * cells;
#pragma unroll 1
    for (int step = 0; step < steps; step++) {
#pragma unroll 1
        for (int c = threadIdx.x; c < cells; c += blockDim.x) {
            int left = c > 0 ? c - 1 : 0;
            int right = c < cells - 1 ? c + 1 : cells - 1;
            float here = now[c];
            next[c] = here + rate * (now[left] + now[right] - 2.0f * here);
        }
        __syncthreads();
        float* swapped = now;
        now = next;
        next = swapped;
    }
}

// Running sums within each block, and the block's total.
constexpr int SCAN_THREADS = 256;
__global__ void block_scan(const int* __restrict__ in, int* __restrict__ out,
                           int* __restrict__ totals, int n) {
    __shared__ int sums[SCAN_THREADS];
    int t = threadIdx.x;
    int i = blockIdx.x * blockDim.x + t;
    sums[t] = i < n ? in[i] : 0;
    __syncthreads();
    for (int back = 1; back < blockDim.x; back *= 2) {
        int before = t >= back ? sums[t - back] : 0;
        __syncthreads();
        sums[t] += before;
        __syncthreads();
    }
    if (i < n) out[i] = sums[t];
    if (t == blockDim.x - 1) totals[blockIdx.x] = sums[t];
}

// Polynomial of degree 16 with constants in the code.
constexpr int DEGREE = 16;
__global__ void polynomial_fixed(const float* __restrict__ x, float* __restrict__ y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float at = x[i];
    float sum = 1.0f / (DEGREE + 3);
#pragma unroll
    for (int k = DEGREE - 1; k >= 0; k--) sum = sum * at + 1.0f / (k + 3);
    y[i] = sum;
}

// Polynomial in double precision whose degree and coefficients are given.
__global__ void polynomial_given(const double* __restrict__ coefficient, int degree,
                                 const double* __restrict__ x, double* __restrict__ y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double at = x[i];
    double sum = coefficient[degree];
    for (int k = degree - 1; k >= 0; k--) {
        sum = sum * at + coefficient[k];
    }
    y[i] = sum;
}

// Lower triangle of a matrix (stored by columns) times a vector.
__global__ void lower_product(const double* __restrict__ lower, const double* __restrict__ x,
                              double* __restrict__ y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double sum = 0.0;
    for (int j = 0; j <= i; j++) {
        sum += lower[(size_t)j * n + i] * x[j];
    }
    y[i] = sum;
}

// Particles in a field, each coordinate an array of its own.
__global__ void particles_move(float* px, float* py, float* pz, float* vx, float* vy, float* vz,
                               const float* charge, float3 field, float dt, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        float kick = charge[i] * dt;
        float ux = vx[i] + kick * field.x;
        float uy = vy[i] + kick * field.y;
        float uz = vz[i] + kick * field.z;
        vx[i] = ux;
        vy[i] = uy;
        vz[i] = uz;
        px[i] += ux * dt;
        py[i] += uy * dt;
        pz[i] += uz * dt;
    }
}

// Gradient of a volume of bytes, borders clamped; three-dimensional blocks and grid.
__global__ void volume_gradient(const unsigned char* __restrict__ volume,
                                float4* __restrict__ gradient, int nx, int ny, int nz) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    int z = blockIdx.z * blockDim.z + threadIdx.z;
    if (x >= nx || y >= ny || z >= nz) return;
    int x0 = max(x - 1, 0), x1 = min(x + 1, nx - 1);
    int y0 = max(y - 1, 0), y1 = min(y + 1, ny - 1);
    int z0 = max(z - 1, 0), z1 = min(z + 1, nz - 1);
    float gx = (float)volume[(z * ny + y) * nx + x1] - (float)volume[(z * ny + y) * nx + x0];
    float gy = (float)volume[(z * ny + y1) * nx + x] - (float)volume[(z * ny + y0) * nx + x];
    float gz = (float)volume[(z1 * ny + y) * nx + x] - (float)volume[(z0 * ny + y) * nx + x];
    float4 slope = make_float4(gx, gy, gz, gx * gx + gy * gy + gz * gz);
    gradient[(z * ny + y) * nx + x] = slope;
}

// Steps until 1 of 3n + 1, with a limit: the loop ends by the data.
__global__ void collatz_steps(const unsigned* __restrict__ start, unsigned short* __restrict__ steps,
                              int n, int limit) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned v = start[i];
    int count = 0;
#pragma unroll 1
    while (v != 1 && count < limit) {
        v = v % 2 == 0 ? v / 2 : 3 * v + 1;
        count++;
    }
    steps[i] = (unsigned short)count;
}

// Place of the first word of each list that matches; the loop ends at the match.
__global__ void first_match(const unsigned* __restrict__ words, int* __restrict__ place, int lists,
                            int length, unsigned wanted) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= lists) return;
    int found = -1;
#pragma unroll 1
    for (int j = 0; j < length; j++) {
        if ((words[(size_t)j * lists + i] & 127u) == wanted) {
            found = j;
            break;
        }
    }
    place[i] = found;
}

// Bias per column added to rows of half2; threads walk down the rows.
__global__ void half_bias(const __half2* __restrict__ x, const __half2* __restrict__ bias,
                          __half2* __restrict__ y, int rows, int cols) {
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (col >= cols) return;
    float2 add = __half22float2(bias[col]);
    for (int row = blockIdx.y * blockDim.y + threadIdx.y; row < rows; row += gridDim.y * blockDim.y) {
        float2 v = __half22float2(x[row * cols + col]);
        y[row * cols + col] = __floats2half2_rn(v.x + add.x, v.y + add.y);
    }
}

// Exponential smoothing of many channels, the time loop unrolled four times.
__global__ void smooth_channels(const float* __restrict__ x, float* __restrict__ y, int channels,
                                int times, float weight, float rest) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= channels) return;
    float state = 0.0f;
#pragma unroll 4
    for (int t = 0; t < times; t++) {
        state = weight * x[t * channels + c] + rest * state;
        y[t * channels + c] = state;
    }
}

// Bitonic sort of the keys of each block, in place.
constexpr int SORT_THREADS = 512;
__global__ void block_sort(int* keys) {
    __shared__ int key[SORT_THREADS];
    int t = threadIdx.x;
    int i = blockIdx.x * blockDim.x + t;
    key[t] = keys[i];
    __syncthreads();
    for (int size = 2; size <= blockDim.x; size *= 2) {
        for (int stride = size / 2; stride > 0; stride /= 2) {
            int other = t ^ stride;
            if (other > t) {
                int mine = key[t], theirs = key[other];
                if ((mine > theirs) == ((t & size) == 0)) {
                    key[t] = theirs;
                    key[other] = mine;
                }
            }
            __syncthreads();
        }
    }
    keys[i] = key[t];
}

// Sums of rows of a large table, one warp per bag of row numbers.
__global__ void embedding_bag(const float4* __restrict__ table, const int* __restrict__ ids,
                              const int* __restrict__ offsets, float4* __restrict__ sums, int bags) {
    int lane = threadIdx.x;
    int bag = blockIdx.x * blockDim.y + threadIdx.y;
    if (bag >= bags) return;
    int end = offsets[bag + 1];
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    for (int e = offsets[bag]; e < end; e++) {
        float4 row = table[(size_t)ids[e] * 32 + lane];
        sum.x += row.x;
        sum.y += row.y;
        sum.z += row.z;
        sum.w += row.w;
    }
    sums[bag * 32 + lane] = sum;
}

// ---------------------------------------------------------------- sizes

constexpr int STENCIL_NX = 4096, STENCIL_NY = 4096;
constexpr int NAIVE_M = 640, NAIVE_N = 512, NAIVE_DEPTH = 768;
constexpr int TILED_M = 1000, TILED_N = 712, TILED_DEPTH = 905;
constexpr int HIST_N = 60000001, HIST_BLOCKS = 528, HIST_THREADS = 128;
constexpr int SPMV_ROWS = 200000, SPMV_COLS = 300000;
constexpr int LOOKUP_BLOCKS = 264, LOOKUP_THREADS = 256, LOOKUP_BATCHES = 12;
constexpr int SOFTMAX_ROWS = 3000, SOFTMAX_COLS = 5000;
constexpr int SUM_N = 9000007, SUM_BLOCKS = 264, SUM_THREADS = 256;
constexpr int TURN_WIDTH = 4000, TURN_HEIGHT = 3001;
constexpr int KMEANS_N = 1000000, KMEANS_K = 24;
constexpr int CONV_CHANNELS = 12, CONV_SIDE = 250, CONV_FILTERS = 16;
constexpr int BODIES = 6144;
constexpr int RODS = 264, ROD_CELLS = 1500, ROD_STEPS = 21, ROD_THREADS = 256;
constexpr int SCAN_N = 5000001;
constexpr int FIXED_N = 6000001;
constexpr int GIVEN_N = 2000003, GIVEN_DEGREE = 11;
constexpr int LOWER_N = 2050;
constexpr int MOVE_N = 2000003, MOVE_BLOCKS = 528, MOVE_THREADS = 256;
constexpr int VOLUME_NX = 200, VOLUME_NY = 150, VOLUME_NZ = 101;
constexpr int COLLATZ_N = 1000003, COLLATZ_LIMIT = 120;
constexpr int MATCH_LISTS = 100003, MATCH_LENGTH = 300;
constexpr int BIAS_ROWS = 2001, BIAS_COLS = 3000;
constexpr int SMOOTH_CHANNELS = 20000, SMOOTH_TIMES = 256;
constexpr int SORT_BLOCKS = 1000;
constexpr int BAG_COUNT = 20001, BAG_ROWS = 200000;

static int over(int n, int size) { return (n + size - 1) / size; }

// ---------------------------------------------------------------- one function per kernel

static void run_stencil5() {
    size_t n = (size_t)STENCIL_NX * STENCIL_NY;
    auto h = units(n, 0);
    float *in = upload(h), *out = zeros<float>(n);
    dim3 block(32, 8), grid(over(STENCIL_NX - 2, 32), over(STENCIL_NY - 2, 8));
    stencil5<<<grid, block>>>(in, out, STENCIL_NX, STENCIL_NY, 0.5f, 0.125f);
    auto r = download(out, n);
    for (int y = 1; y < STENCIL_NY - 1; y += 97)
        for (int x = 1; x < STENCIL_NX - 1; x += 89) {
            size_t at = (size_t)y * STENCIL_NX + x;
            expect("stencil5", r[at],
                   0.5 * h[at] + 0.125 * (h[at - 1] + h[at + 1] + h[at - STENCIL_NX] + h[at + STENCIL_NX]),
                   1e-5);
        }
    cudaFree(in), cudaFree(out);
}

static void check_product(const char* name, const std::vector<float>& a, const std::vector<float>& b,
                          const std::vector<float>& c, int m, int n, int depth) {
    for (int row = 0; row < m; row += 37)
        for (int col = 0; col < n; col += 41) {
            double sum = 0;
            for (int k = 0; k < depth; k++) sum += (double)a[row * depth + k] * b[k * n + col];
            expect(name, c[row * n + col], sum, 1e-4);
        }
}

static void run_matmul_naive() {
    auto ha = units(NAIVE_M * NAIVE_DEPTH, 1), hb = units(NAIVE_DEPTH * NAIVE_N, 2);
    float *a = upload(ha), *b = upload(hb), *c = zeros<float>(NAIVE_M * NAIVE_N);
    dim3 block(16, 16), grid(over(NAIVE_N, 16), over(NAIVE_M, 16));
    matmul_naive<<<grid, block>>>(a, b, c, NAIVE_M, NAIVE_N, NAIVE_DEPTH);
    check_product("matmul_naive", ha, hb, download(c, NAIVE_M * NAIVE_N), NAIVE_M, NAIVE_N, NAIVE_DEPTH);
    cudaFree(a), cudaFree(b), cudaFree(c);
}

static void run_matmul_tiled() {
    auto ha = units(TILED_M * TILED_DEPTH, 3), hb = units(TILED_DEPTH * TILED_N, 4);
    float *a = upload(ha), *b = upload(hb), *c = zeros<float>(TILED_M * TILED_N);
    dim3 block(TILE, TILE), grid(over(TILED_N, TILE), over(TILED_M, TILE));
    matmul_tiled<<<grid, block>>>(a, b, c, TILED_M, TILED_N, TILED_DEPTH);
    check_product("matmul_tiled", ha, hb, download(c, TILED_M * TILED_N), TILED_M, TILED_N, TILED_DEPTH);
    cudaFree(a), cudaFree(b), cudaFree(c);
}

static void run_histogram_bytes() {
    std::vector<unsigned char> h(HIST_N);
    std::vector<unsigned> wanted(BINS);
    for (int i = 0; i < HIST_N; i++) wanted[h[i] = mix(i + 5) & 255]++;
    unsigned char* data = upload(h);
    unsigned* bins = zeros<unsigned>(BINS);
    histogram_bytes<<<HIST_BLOCKS, HIST_THREADS>>>(data, bins, HIST_N);
    auto r = download(bins, BINS);
    for (int k = 0; k < BINS; k++) expect("histogram_bytes", r[k], wanted[k]);
    cudaFree(data), cudaFree(bins);
}

static void run_spmv_csr() {
    std::vector<int> hr(SPMV_ROWS + 1);
    for (int i = 0; i < SPMV_ROWS; i++) {
        unsigned m = mix(i + 6);
        hr[i + 1] = hr[i] + 1 + m % 24 + (m % 97 == 0 ? 200 : 0);
    }
    int entries = hr[SPMV_ROWS];
    std::vector<int> hc(entries);
    for (int e = 0; e < entries; e++) hc[e] = mix(e + 7) % SPMV_COLS;
    auto hv = units(entries, 8), hx = units(SPMV_COLS, 9);
    int *row_start = upload(hr), *column = upload(hc);
    float *value = upload(hv), *x = upload(hx), *y = zeros<float>(SPMV_ROWS);
    spmv_csr<<<over(SPMV_ROWS, 128), 128>>>(row_start, column, value, x, y, SPMV_ROWS);
    auto r = download(y, SPMV_ROWS);
    for (int i = 0; i < SPMV_ROWS; i += 31) {
        double sum = 0;
        for (int e = hr[i]; e < hr[i + 1]; e++) sum += (double)hv[e] * hx[hc[e]];
        expect("spmv_csr", r[i], sum, 1e-4);
    }
    cudaFree(row_start), cudaFree(column), cudaFree(value), cudaFree(x), cudaFree(y);
}

static void run_batch_lookup() {
    int n = LOOKUP_BATCHES * LOOKUP_BLOCKS * LOOKUP_THREADS;
    auto ht = units(LOOKUP_BLOCKS * ENTRIES, 10);
    std::vector<unsigned short> hk(n);
    for (int i = 0; i < n; i++) hk[i] = mix(i + 11) % ENTRIES;
    float *tables = upload(ht), *found = zeros<float>(n);
    unsigned short* keys = upload(hk);
    batch_lookup<<<LOOKUP_BLOCKS, LOOKUP_THREADS>>>(tables, keys, found, LOOKUP_BATCHES);
    auto r = download(found, n);
    for (int i = 0; i < n; i++)
        expect("batch_lookup", r[i], ht[i / LOOKUP_THREADS % LOOKUP_BLOCKS * ENTRIES + hk[i]]);
    cudaFree(tables), cudaFree(keys), cudaFree(found);
}

static void run_row_softmax() {
    size_t n = (size_t)SOFTMAX_ROWS * SOFTMAX_COLS;
    auto h = units(n, 12);
    float *x = upload(h), *y = zeros<float>(n);
    row_softmax<<<SOFTMAX_ROWS, SOFTMAX_THREADS>>>(x, y, SOFTMAX_COLS);
    auto r = download(y, n);
    for (int row = 0; row < SOFTMAX_ROWS; row += 101) {
        double sum = 0;
        for (int i = 0; i < SOFTMAX_COLS; i++) sum += std::exp((double)h[row * SOFTMAX_COLS + i]);
        for (int i = 0; i < SOFTMAX_COLS; i += 53)
            expect("row_softmax", r[row * SOFTMAX_COLS + i] * SOFTMAX_COLS,
                   std::exp((double)h[row * SOFTMAX_COLS + i]) / sum * SOFTMAX_COLS, 1e-3);
    }
    cudaFree(x), cudaFree(y);
}

static void run_reduce_sum() {
    std::vector<double> h(SUM_N);
    double wanted = 0;
    for (int i = 0; i < SUM_N; i++) wanted += h[i] = unit(i + 13);
    double *in = upload(h), *partial = zeros<double>(SUM_BLOCKS);
    reduce_sum<<<SUM_BLOCKS, SUM_THREADS>>>(in, partial, SUM_N);
    double sum = 0;
    for (double part : download(partial, SUM_BLOCKS)) sum += part;
    expect("reduce_sum", sum, wanted, 1e-9);
    cudaFree(in), cudaFree(partial);
}

static void run_transpose_tile() {
    size_t n = (size_t)TURN_WIDTH * TURN_HEIGHT;
    auto h = units(n, 14);
    float *in = upload(h), *out = zeros<float>(n);
    dim3 block(32, 8), grid(over(TURN_WIDTH, 32), over(TURN_HEIGHT, 32));
    transpose_tile<<<grid, block>>>(in, out, TURN_WIDTH, TURN_HEIGHT);
    auto r = download(out, n);
    for (int y = 0; y < TURN_HEIGHT; y += 7)
        for (int x = 0; x < TURN_WIDTH; x += 11)
            expect("transpose_tile", r[(size_t)x * TURN_HEIGHT + y], h[(size_t)y * TURN_WIDTH + x]);
    cudaFree(in), cudaFree(out);
}

static void run_kmeans_assign() {
    auto hp = units(KMEANS_N * DIM, 15), hc = units(KMEANS_K * DIM, 16);
    float *points = upload(hp), *centres = upload(hc);
    int* label = zeros<int>(KMEANS_N);
    kmeans_assign<<<over(KMEANS_N, 256), 256>>>(points, centres, label, KMEANS_N, KMEANS_K);
    auto r = download(label, KMEANS_N);
    for (int i = 0; i < KMEANS_N; i += 211) {
        double least = INFINITY, chosen = 0;
        for (int c = 0; c < KMEANS_K; c++) {
            double distance = 0;
            for (int d = 0; d < DIM; d++) distance += std::pow((double)hp[d * KMEANS_N + i] - hc[c * DIM + d], 2);
            if (distance < least) least = distance;
            if (c == r[i]) chosen = distance;
        }
        expect("kmeans_assign", chosen, least, 1e-6);
    }
    cudaFree(points), cudaFree(centres), cudaFree(label);
}

static void run_conv_valid() {
    int side = CONV_SIDE - 2, pixels = CONV_CHANNELS * CONV_SIDE * CONV_SIDE;
    std::vector<__half> hi(pixels);
    for (int i = 0; i < pixels; i++) hi[i] = __float2half((mix(i + 17) & 255) / 256.0f);
    auto hw = units(CONV_FILTERS * CONV_CHANNELS * 9, 18);
    __half* image = upload(hi);
    float *weights = upload(hw), *out = zeros<float>(CONV_FILTERS * side * side);
    dim3 block(32, 4, 2), grid(over(side, 32), over(side, 4), over(CONV_FILTERS, 2));
    conv_valid<<<grid, block>>>(image, weights, out, CONV_CHANNELS, CONV_SIDE, CONV_SIDE, CONV_FILTERS);
    auto r = download(out, CONV_FILTERS * side * side);
    for (int at = 0; at < CONV_FILTERS * side * side; at += 499) {
        int x = at % side, y = at / side % side, f = at / side / side;
        double sum = 0;
        for (int c = 0; c < CONV_CHANNELS; c++)
            for (int k = 0; k < 9; k++)
                sum += (double)hw[(f * CONV_CHANNELS + c) * 9 + k] *
                       __half2float(hi[(c * CONV_SIDE + y + k / 3) * CONV_SIDE + x + k % 3]);
        expect("conv_valid", r[at], sum, 1e-4);
    }
    cudaFree(image), cudaFree(weights), cudaFree(out);
}

static void run_pair_forces() {
    std::vector<float4> h(BODIES);
    for (int i = 0; i < BODIES; i++)
        h[i] = make_float4(unit(4 * i + 19), unit(4 * i + 20), unit(4 * i + 21), unit(4 * i + 22));
    float4 *body = upload(h), *force = zeros<float4>(BODIES);
    pair_forces<<<BODIES / BODY_TILE, BODY_TILE>>>(body, force, BODIES);
    auto r = download(force, BODIES);
    for (int i = 0; i < BODIES; i += 301) {
        double fx = 0;
        for (int j = 0; j < BODIES; j++) {
            double dx = h[j].x - h[i].x, dy = h[j].y - h[i].y, dz = h[j].z - h[i].z;
            fx += dx * h[j].w / std::pow(dx * dx + dy * dy + dz * dz + 0.01, 1.5);
        }
        expect("pair_forces", r[i].x, fx, 1e-2);
    }
    cudaFree(body), cudaFree(force);
}

static void run_heat_steps() {
    auto h = units(RODS * ROD_CELLS, 23);
    float *even = upload(h), *odd = zeros<float>(RODS * ROD_CELLS);
    heat_steps<<<RODS, ROD_THREADS>>>(even, odd, ROD_CELLS, ROD_STEPS, 0.25f);
    auto r = download(ROD_STEPS % 2 ? odd : even, RODS * ROD_CELLS);
    for (int rod = 0; rod < RODS; rod += 29) {
        std::vector<double> now(h.begin() + rod * ROD_CELLS, h.begin() + (rod + 1) * ROD_CELLS), next(now);
        for (int step = 0; step < ROD_STEPS; step++, now.swap(next))
            for (int c = 0; c < ROD_CELLS; c++)
                next[c] = now[c] + 0.25 * (now[c > 0 ? c - 1 : 0] + now[c < ROD_CELLS - 1 ? c + 1 : c] - 2 * now[c]);
        for (int c = 0; c < ROD_CELLS; c++) expect("heat_steps", r[rod * ROD_CELLS + c], now[c], 1e-4);
    }
    cudaFree(even), cudaFree(odd);
}

static void run_block_scan() {
    std::vector<int> h(SCAN_N);
    for (int i = 0; i < SCAN_N; i++) h[i] = mix(i + 24) & 1023;
    int blocks = over(SCAN_N, SCAN_THREADS);
    int *in = upload(h), *out = zeros<int>(SCAN_N), *totals = zeros<int>(blocks);
    block_scan<<<blocks, SCAN_THREADS>>>(in, out, totals, SCAN_N);
    auto r = download(out, SCAN_N), rt = download(totals, blocks);
    for (int i = 0, sum = 0; i < SCAN_N; i++) {
        sum = i % SCAN_THREADS ? sum + h[i] : h[i];
        expect("block_scan", r[i], sum);
        if (i % SCAN_THREADS == SCAN_THREADS - 1 || i == SCAN_N - 1) expect("block_scan", rt[i / SCAN_THREADS], sum);
    }
    cudaFree(in), cudaFree(out), cudaFree(totals);
}

static void run_polynomial_fixed() {
    auto h = units(FIXED_N, 25);
    float *x = upload(h), *y = zeros<float>(FIXED_N);
    polynomial_fixed<<<over(FIXED_N, 256), 256>>>(x, y, FIXED_N);
    auto r = download(y, FIXED_N);
    for (int i = 0; i < FIXED_N; i += 1001) {
        double sum = 0;
        for (int k = DEGREE; k >= 0; k--) sum = sum * h[i] + 1.0 / (k + 3);
        expect("polynomial_fixed", r[i], sum, 1e-5);
    }
    cudaFree(x), cudaFree(y);
}

static void run_polynomial_given() {
    std::vector<double> hc(GIVEN_DEGREE + 1), h(GIVEN_N);
    for (int k = 0; k <= GIVEN_DEGREE; k++) hc[k] = unit(k + 26);
    for (int i = 0; i < GIVEN_N; i++) h[i] = unit(i + 27);
    double *coefficient = upload(hc), *x = upload(h), *y = zeros<double>(GIVEN_N);
    polynomial_given<<<over(GIVEN_N, 256), 256>>>(coefficient, GIVEN_DEGREE, x, y, GIVEN_N);
    auto r = download(y, GIVEN_N);
    for (int i = 0; i < GIVEN_N; i += 1001) {
        double sum = 0;
        for (int k = GIVEN_DEGREE; k >= 0; k--) sum = sum * h[i] + hc[k];
        expect("polynomial_given", r[i], sum, 1e-12);
    }
    cudaFree(coefficient), cudaFree(x), cudaFree(y);
}

static void run_lower_product() {
    std::vector<double> hl((size_t)LOWER_N * LOWER_N), hx(LOWER_N);
    for (size_t i = 0; i < hl.size(); i++) hl[i] = unit((unsigned)i + 28);
    for (int i = 0; i < LOWER_N; i++) hx[i] = unit(i + 29);
    double *lower = upload(hl), *x = upload(hx), *y = zeros<double>(LOWER_N);
    lower_product<<<over(LOWER_N, 64), 64>>>(lower, x, y, LOWER_N);
    auto r = download(y, LOWER_N);
    for (int i = 0; i < LOWER_N; i += 17) {
        double sum = 0;
        for (int j = 0; j <= i; j++) sum += hl[(size_t)j * LOWER_N + i] * hx[j];
        expect("lower_product", r[i], sum, 1e-12);
    }
    cudaFree(lower), cudaFree(x), cudaFree(y);
}

static void run_particles_move() {
    std::vector<float> h[7];
    float* d[7];
    for (int k = 0; k < 7; k++) d[k] = upload(h[k] = units(MOVE_N, 30 + 5 * k));
    particles_move<<<MOVE_BLOCKS, MOVE_THREADS>>>(d[0], d[1], d[2], d[3], d[4], d[5], d[6],
                                                  make_float3(1.0f, 2.0f, 3.0f), 0.5f, MOVE_N);
    for (int k = 0; k < 3; k++) {
        auto rp = download(d[k], MOVE_N), rv = download(d[k + 3], MOVE_N);
        for (int i = 0; i < MOVE_N; i += 501) {
            double v = h[k + 3][i] + h[6][i] * 0.5 * (k + 1);
            expect("particles_move", rv[i], v, 1e-5);
            expect("particles_move", rp[i], h[k][i] + v * 0.5, 1e-5);
        }
    }
    for (float* p : d) cudaFree(p);
}

static void run_volume_gradient() {
    int nx = VOLUME_NX, ny = VOLUME_NY, nz = VOLUME_NZ, n = nx * ny * nz;
    std::vector<unsigned char> h(n);
    for (int i = 0; i < n; i++) h[i] = mix(i + 31) & 255;
    unsigned char* volume = upload(h);
    float4* gradient = zeros<float4>(n);
    dim3 block(8, 8, 4), grid(over(nx, 8), over(ny, 8), over(nz, 4));
    volume_gradient<<<grid, block>>>(volume, gradient, nx, ny, nz);
    auto r = download(gradient, n);
    for (int at = 0; at < n; at += 61) {
        int x = at % nx, z = at / nx / ny;
        expect("volume_gradient", r[at].x, h[x + 1 < nx ? at + 1 : at] - h[x > 0 ? at - 1 : at]);
        expect("volume_gradient", r[at].z, h[z + 1 < nz ? at + nx * ny : at] - h[z > 0 ? at - nx * ny : at]);
    }
    cudaFree(volume), cudaFree(gradient);
}

static void run_collatz_steps() {
    std::vector<unsigned> h(COLLATZ_N);
    for (int i = 0; i < COLLATZ_N; i++) h[i] = 1 + mix(i + 32) % 100000;
    unsigned* start = upload(h);
    unsigned short* steps = zeros<unsigned short>(COLLATZ_N);
    collatz_steps<<<over(COLLATZ_N, 192), 192>>>(start, steps, COLLATZ_N, COLLATZ_LIMIT);
    auto r = download(steps, COLLATZ_N);
    for (int i = 0; i < COLLATZ_N; i += 101) {
        unsigned v = h[i];
        int count = 0;
        for (; v != 1 && count < COLLATZ_LIMIT; count++) v = v % 2 ? 3 * v + 1 : v / 2;
        expect("collatz_steps", r[i], count);
    }
    cudaFree(start), cudaFree(steps);
}

static void run_first_match() {
    size_t n = (size_t)MATCH_LISTS * MATCH_LENGTH;
    std::vector<unsigned> h(n);
    for (size_t i = 0; i < n; i++) h[i] = mix((unsigned)i + 33);
    unsigned* words = upload(h);
    int* place = zeros<int>(MATCH_LISTS);
    first_match<<<over(MATCH_LISTS, 128), 128>>>(words, place, MATCH_LISTS, MATCH_LENGTH, 77u);
    auto r = download(place, MATCH_LISTS);
    for (int i = 0; i < MATCH_LISTS; i += 13) {
        int j = 0;
        while (j < MATCH_LENGTH && (h[(size_t)j * MATCH_LISTS + i] & 127) != 77) j++;
        expect("first_match", r[i], j < MATCH_LENGTH ? j : -1);
    }
    cudaFree(words), cudaFree(place);
}

static void run_half_bias() {
    int n = BIAS_ROWS * BIAS_COLS;
    std::vector<__half2> hx(n), hb(BIAS_COLS);
    for (int i = 0; i < n; i++) hx[i] = __floats2half2_rn(mix(i + 34) & 127, mix(i + 35) & 127);
    for (int i = 0; i < BIAS_COLS; i++) hb[i] = __floats2half2_rn(mix(i + 36) & 127, mix(i + 37) & 127);
    __half2 *x = upload(hx), *bias = upload(hb), *y = zeros<__half2>(n);
    dim3 block(64, 4), grid(over(BIAS_COLS, 64), 22);
    half_bias<<<grid, block>>>(x, bias, y, BIAS_ROWS, BIAS_COLS);
    auto r = download(y, n);
    for (int i = 0; i < n; i += 499) {
        float2 got = __half22float2(r[i]), v = __half22float2(hx[i]), b = __half22float2(hb[i % BIAS_COLS]);
        expect("half_bias", got.x, v.x + b.x);
        expect("half_bias", got.y, v.y + b.y);
    }
    cudaFree(x), cudaFree(bias), cudaFree(y);
}

static void run_smooth_channels() {
    int n = SMOOTH_CHANNELS * SMOOTH_TIMES;
    auto h = units(n, 38);
    float *x = upload(h), *y = zeros<float>(n);
    smooth_channels<<<over(SMOOTH_CHANNELS, 128), 128>>>(x, y, SMOOTH_CHANNELS, SMOOTH_TIMES, 0.25f, 0.75f);
    auto r = download(y, n);
    for (int c = 0; c < SMOOTH_CHANNELS; c += 113) {
        double state = 0;
        for (int t = 0; t < SMOOTH_TIMES; t++) {
            state = 0.25 * h[t * SMOOTH_CHANNELS + c] + 0.75 * state;
            expect("smooth_channels", r[t * SMOOTH_CHANNELS + c], state, 1e-5);
        }
    }
    cudaFree(x), cudaFree(y);
}

static void run_block_sort() {
    int n = SORT_BLOCKS * SORT_THREADS;
    std::vector<int> h(n);
    double wanted = 0, sum = 0;
    for (int i = 0; i < n; i++) wanted += h[i] = mix(i + 39) >> 1;
    int* keys = upload(h);
    block_sort<<<SORT_BLOCKS, SORT_THREADS>>>(keys);
    auto r = download(keys, n);
    for (int i = 0; i < n; i++) {
        sum += r[i];
        if (i % SORT_THREADS) expect("block_sort", r[i - 1] <= r[i], 1);
    }
    expect("block_sort", sum, wanted);
    cudaFree(keys);
}

static void run_embedding_bag() {
    std::vector<int> ho(BAG_COUNT + 1);
    for (int i = 0; i < BAG_COUNT; i++) ho[i + 1] = ho[i] + 1 + mix(i + 40) % 15;
    std::vector<int> hi(ho[BAG_COUNT]);
    for (size_t e = 0; e < hi.size(); e++) hi[e] = mix((unsigned)e + 41) % BAG_ROWS;
    std::vector<float4> ht((size_t)BAG_ROWS * 32);
    for (size_t i = 0; i < ht.size(); i++) {
        float v = unit((unsigned)i + 42);
        ht[i] = make_float4(v, v + 1.0f, v + 2.0f, v + 3.0f);
    }
    float4 *table = upload(ht), *sums = zeros<float4>((size_t)BAG_COUNT * 32);
    int *ids = upload(hi), *offsets = upload(ho);
    embedding_bag<<<over(BAG_COUNT, 8), dim3(32, 8)>>>(table, ids, offsets, sums, BAG_COUNT);
    auto r = download(sums, (size_t)BAG_COUNT * 32);
    for (int bag = 0; bag < BAG_COUNT; bag += 19) {
        double sum = 0;
        for (int e = ho[bag]; e < ho[bag + 1]; e++) sum += ht[(size_t)hi[e] * 32 + bag % 32].w;
        expect("embedding_bag", r[bag * 32 + bag % 32].w, sum, 1e-5);
    }
    cudaFree(table), cudaFree(ids), cudaFree(offsets), cudaFree(sums);
}

int main() {
    run_stencil5();
    run_matmul_naive();
    run_matmul_tiled();
    run_histogram_bytes();
    run_spmv_csr();
    run_batch_lookup();
    run_row_softmax();
    run_reduce_sum();
    run_transpose_tile();
    run_kmeans_assign();
    run_conv_valid();
    run_pair_forces();
    run_heat_steps();
    run_block_scan();
    run_polynomial_fixed();
    run_polynomial_given();
    run_lower_product();
    run_particles_move();
    run_volume_gradient();
    run_collatz_steps();
    run_first_match();
    run_half_bias();
    run_smooth_channels();
    run_block_sort();
    run_embedding_bag();
    return verdict(25);
}
