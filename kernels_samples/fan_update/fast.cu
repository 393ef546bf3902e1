#include "problem.h"

#include <cuda_runtime.h>

constexpr int kPanel = 32;  // pivots per pass
constexpr int kTile = 64;
constexpr int kThreads = kTile * kTile / 16;
constexpr int kBorder = 128;

__device__ const float4& quad(const float* values) {
    return *reinterpret_cast<const float4*>(values);
}

__device__ float4& quad(float* values) { return *reinterpret_cast<float4*>(values); }

__device__ void load_row(float (&row)[kPanel], const float* values) {
#pragma unroll
    for (int c = 0; c < kPanel; c += 4) {
        const float4 four = quad(values + c);
        row[c] = four.x;
        row[c + 1] = four.y;
        row[c + 2] = four.z;
        row[c + 3] = four.w;
    }
}

__device__ void store_row(const float (&row)[kPanel], float* values) {
#pragma unroll
    for (int c = 0; c < kPanel; c += 4) {
        quad(values + c) = make_float4(row[c], row[c + 1], row[c + 2], row[c + 3]);
    }
}

// Eliminates within the block on the diagonal, one thread per entry.
__global__ void __launch_bounds__(kPanel * kPanel) factor_diagonal(float* a, float* b, int n,
                                                                   int first) {
    __shared__ float entry[kPanel][kPanel + 1];
    __shared__ float right[kPanel];
    const int row = threadIdx.y;
    const int column = threadIdx.x;
    float* const place = a + (first + row) * n + first + column;
    entry[row][column] = *place;
    if (row == 0) right[column] = b[first + column];
    __syncthreads();
#pragma unroll 1
    for (int k = 0; k + 1 < kPanel; ++k) {
        if (row > k && column == k) entry[row][k] /= entry[k][k];
        __syncthreads();
        if (row > k && column > k) entry[row][column] -= entry[row][k] * entry[k][column];
        if (row > k && column == k) right[row] -= entry[row][k] * right[k];
        __syncthreads();
    }
    *place = entry[row][column];
    if (row == 0) b[first + column] = right[column];
}

struct Panel {
    float diagonal[kPanel][kPanel];
    float inverse[kPanel];
};

// Multipliers of one row below the panel, and their part in its right-hand side.
__device__ void eliminate_row(const Panel& panel, float* a, float* b, int n, int first, int row) {
    float* const place = a + row * n + first;
    float x[kPanel];
    load_row(x, place);
    float right = b[row];
#pragma unroll
    for (int k = 0; k < kPanel; ++k) {
        x[k] *= panel.inverse[k];
        right -= x[k] * b[first + k];
#pragma unroll
        for (int c = k + 1; c < kPanel; ++c) x[c] -= x[k] * panel.diagonal[k][c];
    }
    store_row(x, place);
    b[row] = right;
}

// One column right of the panel, within the panel's rows.
__device__ void eliminate_column(const Panel& panel, float* a, int n, int first, int column) {
    float* const place = a + first * n + column;
    float x[kPanel];
#pragma unroll
    for (int r = 0; r < kPanel; ++r) x[r] = place[r * n];
#pragma unroll
    for (int r = 1; r < kPanel; ++r) {
#pragma unroll
        for (int k = 0; k < r; ++k) x[r] -= panel.diagonal[r][k] * x[k];
        place[r * n] = x[r];
    }
}

// Blocks with y = 0 take the rows below the panel, those with y = 1 the columns right of it.
__global__ void __launch_bounds__(kBorder) eliminate_border(float* a, float* b, int n, int first) {
    __shared__ __align__(16) Panel panel;
#pragma unroll 1
    for (int i = threadIdx.x; i < kPanel * kPanel; i += kBorder) {
        panel.diagonal[i / kPanel][i % kPanel] = a[(first + i / kPanel) * n + first + i % kPanel];
    }
    if (threadIdx.x < kPanel) panel.inverse[threadIdx.x] = 1 / a[(first + threadIdx.x) * (n + 1)];
    __syncthreads();
    const int place = first + kPanel + blockIdx.x * kBorder + threadIdx.x;
    if (place >= n) return;
    if (blockIdx.y == 0) {
        eliminate_row(panel, a, b, n, first, place);
    } else {
        eliminate_column(panel, a, n, first, place);
    }
}

// What is right of and below the panel: all of its pivots at once, 4 x 4 entries per thread.
__global__ void __launch_bounds__(kThreads) fan_update(float* a, int n, int first) {
    __shared__ __align__(16) float multiplier[kPanel][kTile];
    __shared__ __align__(16) float upper[kPanel][kTile];
    const int top = first + kPanel + blockIdx.y * kTile;
    const int left = first + kPanel + blockIdx.x * kTile;
#pragma unroll
    for (int part = 0; part < kTile * kPanel / 4; part += kThreads) {
        const int i = part + threadIdx.x;
        const int row = i % kTile;
        const int k = i / kTile * 4;
        const float4 four = top + row < n ? quad(a + (top + row) * n + first + k) : float4{};
        multiplier[k][row] = four.x;
        multiplier[k + 1][row] = four.y;
        multiplier[k + 2][row] = four.z;
        multiplier[k + 3][row] = four.w;
    }
#pragma unroll
    for (int part = 0; part < kTile * kPanel / 4; part += kThreads) {
        const int i = part + threadIdx.x;
        const int k = i / (kTile / 4);
        const int column = i % (kTile / 4) * 4;
        const bool inside = left + column < n;
        quad(&upper[k][column]) = inside ? quad(a + (first + k) * n + left + column) : float4{};
    }
    __syncthreads();

    const int row = threadIdx.x / 16 * 4;
    const int column = threadIdx.x % 16 * 4;
    float4 sum[4] = {};
#pragma unroll
    for (int k = 0; k < kPanel; ++k) {
        const float4 m = quad(&multiplier[k][row]);
        const float4 u = quad(&upper[k][column]);
        const float rows[4] = {m.x, m.y, m.z, m.w};
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            sum[i].x += rows[i] * u.x;
            sum[i].y += rows[i] * u.y;
            sum[i].z += rows[i] * u.z;
            sum[i].w += rows[i] * u.w;
        }
    }
    if (left + column >= n) return;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        if (top + row + i >= n) return;
        float4& entry = quad(a + (top + row + i) * n + left + column);
        const float4 old = entry;
        entry = make_float4(old.x - sum[i].x, old.y - sum[i].y, old.z - sum[i].z,
                            old.w - sum[i].w);
    }
}

void launch(const Problem& problem) {
    const int n = problem.n;
    for (int first = 0; first < n; first += kPanel) {
        factor_diagonal<<<1, dim3(kPanel, kPanel)>>>(problem.a, problem.b, n, first);
        const int rest = n - first - kPanel;
        if (rest == 0) break;
        const dim3 border((rest + kBorder - 1) / kBorder, 2);
        eliminate_border<<<border, kBorder>>>(problem.a, problem.b, n, first);
        const dim3 tiles((rest + kTile - 1) / kTile, (rest + kTile - 1) / kTile);
        fan_update<<<tiles, kThreads>>>(problem.a, n, first);
    }
}
