// A third set, of kernels as public repositories have them, whose amounts known_third_truth.json
// has. Held out until its first score; rules were improved on them afterwards.
#define SUMS_FILE "third_sums.inc"
#include "second_tools.h"
#include <cuda_fp16.h>

// ---------------------------------------------------------------- kernels

// Layer norm: a block per row, two reductions over the block.
__device__ __forceinline__ float block_sum(float v) {
    __shared__ float part[32];
    int lane = threadIdx.x & 31, wid = threadIdx.x >> 5;
#pragma unroll
    for (int o = 16; o > 0; o >>= 1) v += __shfl_down_sync(0xffffffff, v, o);
    __syncthreads();
    if (lane == 0) part[wid] = v;
    __syncthreads();
    if (wid == 0) {
        v = lane < blockDim.x / 32 ? part[lane] : 0.f;
#pragma unroll
        for (int o = 16; o > 0; o >>= 1) v += __shfl_down_sync(0xffffffff, v, o);
        if (lane == 0) part[0] = v;
    }
    __syncthreads();
    return part[0];
}
__global__ void layer_norm_fwd(const float* __restrict__ x, const float* __restrict__ gamma,
                               const float* __restrict__ beta, float* __restrict__ y, float* __restrict__ mean_out,
                               float* __restrict__ rstd_out, int cols, float eps) {
    const float* row = x + (size_t)blockIdx.x * cols;
    float sum = 0.f;
    for (int c = threadIdx.x; c < cols; c += blockDim.x) sum += row[c];
    float mean = block_sum(sum) / cols;
    float sq = 0.f;
    for (int c = threadIdx.x; c < cols; c += blockDim.x) {
        float d = row[c] - mean;
        sq += d * d;
    }
    float rstd = rsqrtf(block_sum(sq) / cols + eps);
    for (int c = threadIdx.x; c < cols; c += blockDim.x)
        y[(size_t)blockIdx.x * cols + c] = (row[c] - mean) * rstd * gamma[c] + beta[c];
    if (threadIdx.x == 0) {
        mean_out[blockIdx.x] = mean;
        rstd_out[blockIdx.x] = rstd;
    }
}

// Bias and GELU of half precision numbers, computed in single.
__device__ inline float gelu(float x) {
    return 0.5f * x * (1.0f + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));
}
__global__ void bias_gelu(const __half* in, const __half* bias, __half* out, int total, int cols) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += gridDim.x * blockDim.x) {
        const __half x = in[i], b = bias[i % cols];
        float v = __half2float(x) + __half2float(b);
        __half r = __float2half(gelu(v));
        out[i] = r;
    }
}

// Direct convolution, NCHW, zeros outside; blockIdx.z is the image and the filter.
template <int KS>
__global__ void conv2d_direct(const float* __restrict__ in, const float* __restrict__ weight,
                              const float* __restrict__ bias, float* __restrict__ out, int C, int H, int W, int K,
                              int OH, int OW, int stride, int pad)
{
    const int ox = blockIdx.x * blockDim.x + threadIdx.x;
    const int oy = blockIdx.y * blockDim.y + threadIdx.y;
    const int n = blockIdx.z / K, k = blockIdx.z % K;
    if (ox >= OW || oy >= OH) return;

    float acc = bias[k];
    for (int c = 0; c < C; ++c)
    {
        const float* plane = in + ((size_t)n * C + c) * H * W;
        const float* w = weight + (k * C + c) * KS * KS;
#pragma unroll
        for (int r = 0; r < KS; ++r)
        {
            const int iy = oy * stride - pad + r;
            if (iy < 0 || iy >= H) continue;
#pragma unroll
            for (int s = 0; s < KS; ++s)
            {
                const int ix = ox * stride - pad + s;
                if (ix >= 0 && ix < W) acc += plane[iy * W + ix] * w[r * KS + s];
            }
        }
    }
    out[(((size_t)n * K + k) * OH + oy) * OW + ox] = acc;
}

// Max pooling with the place of the maximum, after Caffe.
template <typename Dtype>
__global__ void MaxPoolForward(const int nthreads, const Dtype* const bottom_data, const int height, const int width,
                               const int pooled_height, const int pooled_width, const int kernel_h,
                               const int kernel_w, const int stride_h, const int stride_w, Dtype* const top_data,
                               int* const mask) {
  for (int index = blockIdx.x * blockDim.x + threadIdx.x; index < nthreads; index += blockDim.x * gridDim.x) {
    const int pw = index % pooled_width;
    const int ph = (index / pooled_width) % pooled_height;
    const int plane = index / pooled_width / pooled_height;
    const int hstart = ph * stride_h;
    const int wstart = pw * stride_w;
    const int hend = min(hstart + kernel_h, height);
    const int wend = min(wstart + kernel_w, width);
    Dtype maxval = -3.0e38f;
    int maxidx = -1;
    const Dtype* const bottom_slice = bottom_data + plane * height * width;
    for (int h = hstart; h < hend; ++h) {
      for (int w = wstart; w < wend; ++w) {
        const Dtype v = bottom_slice[h * width + w];
        if (v > maxval) {
          maxidx = h * width + w;
          maxval = v;
        }
      }
    }
    top_data[index] = maxval;
    mask[index] = maxidx;
  }
}

// SGEMM with tiles in shared memory and in registers; sizes are multiples of the tile.
template <int BM, int BN, int BK, int TM, int TN>
__global__ void sgemm_2d_tile(int M, int N, int K, float alpha, const float *A, const float *B, float beta, float *C) {
    __shared__ float As[BM * BK];
    __shared__ float Bs[BK * BN];
    const unsigned cRow = blockIdx.y, cCol = blockIdx.x;
    const int threadCol = threadIdx.x % (BN / TN);
    const int threadRow = threadIdx.x / (BN / TN);
    const int numThreads = BM * BN / (TM * TN);

    A += cRow * BM * K;
    B += cCol * BN;
    C += cRow * BM * N + cCol * BN;

    const int innerRowA = threadIdx.x / BK, innerColA = threadIdx.x % BK;
    const int innerRowB = threadIdx.x / BN, innerColB = threadIdx.x % BN;
    const int strideA = numThreads / BK, strideB = numThreads / BN;

    float threadResults[TM * TN] = {0.0f};
    float regM[TM], regN[TN];

    for (int bkIdx = 0; bkIdx < K; bkIdx += BK) {
        for (int loadOffset = 0; loadOffset < BM; loadOffset += strideA)
            As[(innerRowA + loadOffset) * BK + innerColA] = A[(innerRowA + loadOffset) * K + innerColA];
        for (int loadOffset = 0; loadOffset < BK; loadOffset += strideB)
            Bs[(innerRowB + loadOffset) * BN + innerColB] = B[(innerRowB + loadOffset) * N + innerColB];
        __syncthreads();
        A += BK;
        B += BK * N;
        for (int dotIdx = 0; dotIdx < BK; ++dotIdx) {
            for (int i = 0; i < TM; ++i) regM[i] = As[(threadRow * TM + i) * BK + dotIdx];
            for (int i = 0; i < TN; ++i) regN[i] = Bs[dotIdx * BN + threadCol * TN + i];
            for (int resIdxM = 0; resIdxM < TM; ++resIdxM) {
                for (int resIdxN = 0; resIdxN < TN; ++resIdxN)
                    threadResults[resIdxM * TN + resIdxN] += regM[resIdxM] * regN[resIdxN];
            }
        }
        __syncthreads();
    }
    for (int resIdxM = 0; resIdxM < TM; ++resIdxM) {
        for (int resIdxN = 0; resIdxN < TN; ++resIdxN) {
            const int at = (threadRow * TM + resIdxM) * N + threadCol * TN + resIdxN;
            C[at] = alpha * threadResults[resIdxM * TN + resIdxN] + beta * C[at];
        }
    }
}

// Image of interleaved bytes to normalised planes, the input of a network; blockIdx.z is the image.
struct Normalise {
    float mean[3];
    float inv_std[3];
};
__global__ void hwc_to_chw(const unsigned char* __restrict__ hwc, float* __restrict__ chw, Normalise norm, int width,
                           int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    size_t area = (size_t)width * height;
    const unsigned char* pixel = hwc + (blockIdx.z * area + (size_t)y * width + x) * 3;
    float* dst = chw + blockIdx.z * area * 3 + (size_t)y * width + x;
#pragma unroll
    for (int c = 0; c < 3; c++) {
        float v = (float)pixel[c] * (1.0f / 255.0f);
        dst[c * area] = (v - norm.mean[c]) * norm.inv_std[c];
    }
}

// Lattice Boltzmann, D2Q9: pull, collide (BGK), periodic borders, bounce-back at solid cells.
__device__ inline float feq(float w, float rho, float cu, float uu)
{
    return w * rho * (1.0f + 3.0f * cu + 4.5f * cu * cu - 1.5f * uu);
}
__global__ void lbm_d2q9(const float *fin, float *fout, const unsigned char *solid, int nx, int ny, float omega)
{
    int x = threadIdx.x + blockIdx.x * blockDim.x;
    int y = threadIdx.y + blockIdx.y * blockDim.y;
    if (x >= nx || y >= ny)
        return;
    int n = nx * ny, i = y * nx + x;
    int xm = x > 0 ? x - 1 : nx - 1, xp = x < nx - 1 ? x + 1 : 0;
    int ym = y > 0 ? y - 1 : ny - 1, yp = y < ny - 1 ? y + 1 : 0;

    float f0 = fin[i];
    float f1 = fin[1 * n + y * nx + xm];
    float f2 = fin[2 * n + ym * nx + x];
    float f3 = fin[3 * n + y * nx + xp];
    float f4 = fin[4 * n + yp * nx + x];
    float f5 = fin[5 * n + ym * nx + xm];
    float f6 = fin[6 * n + ym * nx + xp];
    float f7 = fin[7 * n + yp * nx + xp];
    float f8 = fin[8 * n + yp * nx + xm];

    if (solid[i])
    {
        fout[i] = f0;
        fout[1 * n + i] = f3;
        fout[2 * n + i] = f4;
        fout[3 * n + i] = f1;
        fout[4 * n + i] = f2;
        fout[5 * n + i] = f7;
        fout[6 * n + i] = f8;
        fout[7 * n + i] = f5;
        fout[8 * n + i] = f6;
        return;
    }
    float rho = f0 + f1 + f2 + f3 + f4 + f5 + f6 + f7 + f8;
    float ux = (f1 + f5 + f8 - f3 - f6 - f7) / rho;
    float uy = (f2 + f5 + f6 - f4 - f7 - f8) / rho;
    float uu = ux * ux + uy * uy;
    const float ws = 4.0f / 9.0f, wa = 1.0f / 9.0f, wd = 1.0f / 36.0f;
    fout[i] = f0 + omega * (feq(ws, rho, 0.0f, uu) - f0);
    fout[1 * n + i] = f1 + omega * (feq(wa, rho, ux, uu) - f1);
    fout[2 * n + i] = f2 + omega * (feq(wa, rho, uy, uu) - f2);
    fout[3 * n + i] = f3 + omega * (feq(wa, rho, -ux, uu) - f3);
    fout[4 * n + i] = f4 + omega * (feq(wa, rho, -uy, uu) - f4);
    fout[5 * n + i] = f5 + omega * (feq(wd, rho, ux + uy, uu) - f5);
    fout[6 * n + i] = f6 + omega * (feq(wd, rho, uy - ux, uu) - f6);
    fout[7 * n + i] = f7 + omega * (feq(wd, rho, -ux - uy, uu) - f7);
    fout[8 * n + i] = f8 + omega * (feq(wd, rho, ux - uy, uu) - f8);
}

// Acoustic wave, order 8 in space: a tile of a plane in shared memory, the column in registers.
constexpr int FD_BX = 32, FD_BY = 8, FD_R = 4;
__constant__ float fd_coef[FD_R + 1];
template <int R>
__global__ void wave_step(float* p_next, const float* __restrict__ p_now, const float* __restrict__ vel2, int nz,
                          int stride_y, int stride_z) {
    __shared__ float tile[FD_BY + 2 * R][FD_BX + 2 * R];
    const int tx = threadIdx.x + R, ty = threadIdx.y + R;
    const int ix = blockIdx.x * FD_BX + tx, iy = blockIdx.y * FD_BY + ty;
    int in_idx = iy * stride_y + ix, out_idx = 0;
    float infront[R], behind[R], current;

#pragma unroll
    for (int i = R - 2; i >= 0; i--) {
        behind[i] = p_now[in_idx];
        in_idx += stride_z;
    }
    current = p_now[in_idx];
    out_idx = in_idx;
    in_idx += stride_z;
#pragma unroll
    for (int i = 0; i < R; i++) {
        infront[i] = p_now[in_idx];
        in_idx += stride_z;
    }

    for (int iz = 0; iz < nz; iz++) {
#pragma unroll
        for (int i = R - 1; i > 0; i--) behind[i] = behind[i - 1];
        behind[0] = current;
        current = infront[0];
#pragma unroll
        for (int i = 0; i < R - 1; i++) infront[i] = infront[i + 1];
        infront[R - 1] = p_now[in_idx];
        in_idx += stride_z;
        out_idx += stride_z;
        __syncthreads();

        if (threadIdx.y < R) {
            tile[threadIdx.y][tx] = p_now[out_idx - R * stride_y];
            tile[threadIdx.y + FD_BY + R][tx] = p_now[out_idx + FD_BY * stride_y];
        }
        if (threadIdx.x < R) {
            tile[ty][threadIdx.x] = p_now[out_idx - R];
            tile[ty][threadIdx.x + FD_BX + R] = p_now[out_idx + FD_BX];
        }
        tile[ty][tx] = current;
        __syncthreads();

        float lap = fd_coef[0] * current;
#pragma unroll
        for (int i = 1; i <= R; i++)
            lap += fd_coef[i] * (infront[i - 1] + behind[i - 1] + tile[ty - i][tx] + tile[ty + i][tx] +
                                 tile[ty][tx - i] + tile[ty][tx + i]);
        p_next[out_idx] = 2.0f * current - p_next[out_idx] + vel2[out_idx] * lap;
    }
}

// Reaction and diffusion (Gray and Scott) on a torus.
__global__ void gray_scott(double *u, double *v, double *u_new, double *v_new, int w, int h, double Du, double Dv,
                           double F, double Fk, double dt) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < w && y < h) {
    int left = y * w + (x - 1 + w) % w, right = y * w + (x + 1) % w;
    int up = (y - 1 + h) % h * w + x, down = (y + 1) % h * w + x;
    int c = y * w + x;
    double uc = u[c], vc = v[c];
    double lap_u = u[left] + u[right] + u[up] + u[down] - 4.0 * uc;
    double lap_v = v[left] + v[right] + v[up] + v[down] - 4.0 * vc;
    double uvv = uc * vc * vc;
    u_new[c] = uc + dt * (Du * lap_u - uvv + F * (1.0 - uc));
    v_new[c] = vc + dt * (Dv * lap_v + uvv - Fk * vc);
  }
}

// CSR matrix times vector, a warp per row.
template <typename IndexType, typename ValueType>
__global__ void spmv_csr_vector(const IndexType num_rows, const IndexType *Ap, const IndexType *Aj,
                                const ValueType *Ax, const ValueType *x, ValueType *y)
{
    const IndexType thread_id = blockDim.x * blockIdx.x + threadIdx.x;
    const IndexType lane = threadIdx.x & 31;
    const IndexType row = thread_id / 32;
    if (row >= num_rows) return;

    const IndexType row_start = Ap[row];
    const IndexType row_end = Ap[row + 1];
    ValueType sum = 0;
    for (IndexType jj = row_start + lane; jj < row_end; jj += 32)
        sum += Ax[jj] * x[Aj[jj]];
#pragma unroll
    for (int delta = 16; delta > 0; delta /= 2)
        sum += __shfl_down_sync(0xffffffffu, sum, delta);
    if (lane == 0) y[row] = sum;
}

// Charge of particles to the four nearest nodes of a periodic grid.
struct Plasma {
    const double* x;
    const double* y;
    double* rho;
    int particles;
    int nx, ny;
};
__global__ void deposit_charge(Plasma pl, double q) {
    int p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= pl.particles) return;
    double px = pl.x[p], py = pl.y[p];
    int i = (int)px, j = (int)py;
    double fx = px - i, fy = py - j;
    int i1 = i + 1 == pl.nx ? 0 : i + 1;
    int j1 = j + 1 == pl.ny ? 0 : j + 1;
    atomicAdd(&pl.rho[j * pl.nx + i], q * (1.0 - fx) * (1.0 - fy));
    atomicAdd(&pl.rho[j * pl.nx + i1], q * fx * (1.0 - fy));
    atomicAdd(&pl.rho[j1 * pl.nx + i], q * (1.0 - fx) * fy);
    atomicAdd(&pl.rho[j1 * pl.nx + i1], q * fx * fy);
}

// Forces of molecular dynamics by lists of neighbours; w of a position is the charge.
__global__ void lj_force(const float4* __restrict__ pos, const int* __restrict__ num_neigh,
                         const int* __restrict__ neighbors, float4* __restrict__ force, int natoms, float cutsq,
                         float lj1, float lj2, float qqr) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < natoms) {
        float4 pi = pos[i];
        int jnum = num_neigh[i];
        float4 f = make_float4(0.f, 0.f, 0.f, 0.f);
        for (int jj = 0; jj < jnum; jj++) {
            int j = neighbors[jj * natoms + i];
            float4 pj = pos[j];
            float dx = pi.x - pj.x, dy = pi.y - pj.y, dz = pi.z - pj.z;
            float rsq = dx * dx + dy * dy + dz * dz;
            float qq = qqr * pi.w * pj.w;
            if (rsq < cutsq) {
                float r2inv = 1.0f / rsq;
                float r6inv = r2inv * r2inv * r2inv;
                float fpair = (r6inv * (lj1 * r6inv - lj2) + qq * sqrtf(r2inv)) * r2inv;
                f.x += dx * fpair;
                f.y += dy * fpair;
                f.z += dz * fpair;
                f.w += r6inv * (lj1 * r6inv - lj2);
            }
        }
        force[i] = f;
    }
}

// Black and Scholes, after NVIDIA's sample.
__device__ inline float cndGPU(float d)
{
    const float A1 = 0.31938153f, A2 = -0.356563782f, A3 = 1.781477937f, A4 = -1.821255978f, A5 = 1.330274429f;
    float K = 1.0f / (1.0f + 0.2316419f * fabsf(d));
    float cnd = 0.39894228040143f * expf(-0.5f * d * d) * (K * (A1 + K * (A2 + K * (A3 + K * (A4 + K * A5)))));
    return d > 0 ? 1.0f - cnd : cnd;
}
__global__ void BlackScholesGPU(float *d_CallResult, float *d_PutResult, float *d_StockPrice, float *d_OptionStrike,
                                float *d_OptionYears, float Riskfree, float Volatility, int optN)
{
    const int opt = blockDim.x * blockIdx.x + threadIdx.x;
    if (opt < optN)
    {
        float S = d_StockPrice[opt], X = d_OptionStrike[opt], T = d_OptionYears[opt];
        float sqrtT = sqrtf(T);
        float d1 = (logf(S / X) + (Riskfree + 0.5f * Volatility * Volatility) * T) / (Volatility * sqrtT);
        float d2 = d1 - Volatility * sqrtT;
        float CNDD1 = cndGPU(d1), CNDD2 = cndGPU(d2);
        float expRT = expf(-Riskfree * T);
        d_CallResult[opt] = S * CNDD1 - X * expRT * CNDD2;
        d_PutResult[opt] = X * expRT * (1.0f - CNDD2) - S * (1.0f - CNDD1);
    }
}

// Global alignment of pairs, a block per pair that goes along the antidiagonals.
constexpr int NW_LEN = 96;
__global__ void needleman(const char* __restrict__ seq_a, const char* __restrict__ seq_b,
                          unsigned char* __restrict__ trace, int* __restrict__ score, int match, int mismatch,
                          int gap) {
    __shared__ int diag[3][NW_LEN];
    __shared__ char b[NW_LEN];
    const int t = threadIdx.x, pair = blockIdx.x;
    const char a = seq_a[pair * NW_LEN + t];
    b[t] = seq_b[pair * NW_LEN + t];
    unsigned char* row = trace + ((size_t)pair * NW_LEN + t) * NW_LEN;
    int best = 0;
    __syncthreads();
    for (int d = 0; d < 2 * NW_LEN - 1; d++) {
        const int j = d - t;
        if (j >= 0 && j < NW_LEN) {
            const int* one = diag[(d + 2) % 3];
            const int* two = diag[(d + 1) % 3];
            int up = t == 0 ? -(j + 1) * gap : one[t - 1];
            int left = j == 0 ? -(t + 1) * gap : one[t];
            int corner = t == 0 ? -j * gap : j == 0 ? -t * gap : two[t - 1];
            best = corner + (a == b[j] ? match : mismatch);
            unsigned char from = 0;
            if (up - gap > best) {
                best = up - gap;
                from = 1;
            }
            if (left - gap > best) {
                best = left - gap;
                from = 2;
            }
            diag[d % 3][t] = best;
            row[j] = from;
        }
        __syncthreads();
    }
    if (t == NW_LEN - 1) score[pair] = best;
}

// One level of a breadth-first search, after Rodinia.
struct Node
{
	int starting;
	int no_of_edges;
};
__global__ void bfs_level(Node* g_nodes, int* g_edges, unsigned char* g_mask, unsigned char* g_updating,
                          unsigned char* g_visited, int* g_cost, int no_of_nodes)
{
	int tid = blockIdx.x*blockDim.x + threadIdx.x;
	if( tid<no_of_nodes && g_mask[tid])
	{
		g_mask[tid]=0;
		int start = g_nodes[tid].starting;
		int stop = start + g_nodes[tid].no_of_edges;
		int cost = g_cost[tid] + 1;
		for(int i=start; i<stop; i++)
		{
			int id = g_edges[i];
			if(!g_visited[id])
			{
				g_cost[id]=cost;
				g_updating[id]=1;
			}
		}
	}
}

// Bilinear resize of an interleaved image.
template <int CH>
__global__ void resize_bilinear(const unsigned char* src, int sw, int sh, unsigned char* dst, int dw, int dh,
                                float scale_x, float scale_y) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x;
    const int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= dw || y >= dh) return;
    const float sx = fmaxf((x + 0.5f) * scale_x - 0.5f, 0.0f);
    const float sy = fmaxf((y + 0.5f) * scale_y - 0.5f, 0.0f);
    const int x0 = (int)sx, y0 = (int)sy;
    const int x1 = min(x0 + 1, sw - 1), y1 = min(y0 + 1, sh - 1);
    const float fx = sx - x0, fy = sy - y0;
    for (int c = 0; c < CH; c++) {
        const float p00 = src[(y0 * sw + x0) * CH + c], p01 = src[(y0 * sw + x1) * CH + c];
        const float p10 = src[(y1 * sw + x0) * CH + c], p11 = src[(y1 * sw + x1) * CH + c];
        const float top = p00 + (p01 - p00) * fx, bottom = p10 + (p11 - p10) * fx;
        dst[(y * dw + x) * CH + c] = (unsigned char)(top + (bottom - top) * fy + 0.5f);
    }
}

// Filter and decimate complex samples; blockIdx.y is the channel.
__global__ void fir_decimate(const float2* __restrict__ input, const float* __restrict__ taps,
                             float2* __restrict__ output, int samples, int outputs, int ntaps, int factor) {
    extern __shared__ float2 window[];
    const float2* in = input + (size_t)blockIdx.y * samples;
    int first = blockIdx.x * blockDim.x * factor;
    int need = (blockDim.x - 1) * factor + ntaps;
    for (int s = threadIdx.x; s < need; s += blockDim.x) {
        float2 v = make_float2(0.0f, 0.0f);
        if (first + s < samples) v = in[first + s];
        window[s] = v;
    }
    __syncthreads();
    int o = blockIdx.x * blockDim.x + threadIdx.x;
    if (o >= outputs) return;
    float re = 0.0f, im = 0.0f;
    for (int k = 0; k < ntaps; k++) {
        float h = taps[k];
        float2 v = window[threadIdx.x * factor + k];
        re += h * v.x;
        im += h * v.y;
    }
    float2 result = make_float2(re, im);
    output[(size_t)blockIdx.y * outputs + o] = result;
}

// Stiffness of linear triangles; the matrices are apart by element.
__global__ void triangle_stiffness(const double* __restrict__ nodeX, const double* __restrict__ nodeY,
                                   const int* __restrict__ conn, const short* __restrict__ material,
                                   const double* __restrict__ conductivity, double* __restrict__ ke, int nElem)
{
  int e = blockIdx.x * blockDim.x + threadIdx.x;
  if (e >= nElem) return;
  double X[3], Y[3];
#pragma unroll
  for (int a = 0; a < 3; ++a) {
    int node = conn[3 * e + a];
    X[a] = nodeX[node];
    Y[a] = nodeY[node];
  }
  double b[3] = {Y[1] - Y[2], Y[2] - Y[0], Y[0] - Y[1]};
  double c[3] = {X[2] - X[1], X[0] - X[2], X[1] - X[0]};
  double area2 = b[0] * c[1] - b[1] * c[0];
  double f = 0.5 * conductivity[material[e]] / area2;
#pragma unroll
  for (int i = 0; i < 3; ++i) {
#pragma unroll
    for (int j = 0; j < 3; ++j) ke[(3 * i + j) * nElem + e] = f * (b[i] * b[j] + c[i] * c[j]);
  }
}

// Tridiagonal systems side by side, a thread per system; c and d are overwritten, d has the result.
__global__ void thomas_interleaved(const double* a, const double* b, double* c, double* d, int n, int batch) {
    int s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s >= batch) return;
    double pivot = b[s];
    double cp = c[s] / pivot;
    double dp = d[s] / pivot;
    c[s] = cp;
    d[s] = dp;
    for (int i = 1; i < n; ++i) {
        int at = i * batch + s;
        double low = a[at];
        double inv = 1.0 / (b[at] - low * cp);
        cp = c[at] * inv;
        dp = (d[at] - low * dp) * inv;
        c[at] = cp;
        d[at] = dp;
    }
    for (int i = n - 2; i >= 0; --i) {
        int at = i * batch + s;
        dp = d[at] - c[at] * dp;
        d[at] = dp;
    }
}

// Rows to 8 bits, each with the scale of its largest value; four columns per thread and step.
template <int THREADS>
__global__ void quantize_per_row(const float4* __restrict__ x, char4* __restrict__ q, float* __restrict__ scales,
                                 int quads) {
    __shared__ float warp_max[THREADS / 32];
    const float4* row = x + (size_t)blockIdx.x * quads;
    float amax = 0.f;
    for (int i = threadIdx.x; i < quads; i += THREADS) {
        float4 v = row[i];
        amax = fmaxf(amax, fmaxf(fmaxf(fabsf(v.x), fabsf(v.y)), fmaxf(fabsf(v.z), fabsf(v.w))));
    }
#pragma unroll
    for (int mask = 16; mask > 0; mask >>= 1) amax = fmaxf(amax, __shfl_xor_sync(0xffffffff, amax, mask));
    if (threadIdx.x % 32 == 0) warp_max[threadIdx.x / 32] = amax;
    __syncthreads();
#pragma unroll
    for (int w = 0; w < THREADS / 32; w++) amax = fmaxf(amax, warp_max[w]);
    const float scale = 127.0f / amax;
    if (threadIdx.x == 0) scales[blockIdx.x] = amax;
    for (int i = threadIdx.x; i < quads; i += THREADS) {
        float4 v = row[i];
        char4 r;
        r.x = (signed char)rintf(v.x * scale);
        r.y = (signed char)rintf(v.y * scale);
        r.z = (signed char)rintf(v.z * scale);
        r.w = (signed char)rintf(v.w * scale);
        q[(size_t)blockIdx.x * quads + i] = r;
    }
}

// A small network per sample: one hidden layer with ReLU, the weights in shared memory.
struct Mlp {
    const float* w1;
    const float* b1;
    const float* w2;
    const float* b2;
};
template <int IN, int HID, int OUT>
__global__ void mlp_forward(Mlp net, const float* x, float* y, int samples) {
    __shared__ float w1[IN * HID], b1[HID], w2[HID * OUT];
    for (int i = threadIdx.x; i < IN * HID; i += blockDim.x) w1[i] = net.w1[i];
    for (int i = threadIdx.x; i < HID * OUT; i += blockDim.x) w2[i] = net.w2[i];
    if (threadIdx.x < HID) b1[threadIdx.x] = net.b1[threadIdx.x];
    __syncthreads();
    int s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s >= samples) return;
    float in[IN], out[OUT];
#pragma unroll
    for (int k = 0; k < IN; k++) in[k] = x[s * IN + k];
#pragma unroll
    for (int o = 0; o < OUT; o++) out[o] = net.b2[o];
    for (int j = 0; j < HID; j++) {
        float h = b1[j];
#pragma unroll
        for (int k = 0; k < IN; k++) h += w1[j * IN + k] * in[k];
        h = fmaxf(h, 0.0f);
#pragma unroll
        for (int o = 0; o < OUT; o++) out[o] += w2[o * HID + j] * h;
    }
#pragma unroll
    for (int o = 0; o < OUT; o++) y[s * OUT + o] = out[o];
}

// Sums of whole numbers, after NVIDIA's reduction sample: two elements per thread and step.
template <class T, unsigned int blockSize>
__global__ void reduce6(T *g_idata, T *g_odata, unsigned int n)
{
    __shared__ T sdata[blockSize];
    unsigned int tid = threadIdx.x;
    unsigned int i = blockIdx.x * blockSize * 2 + threadIdx.x;
    unsigned int gridSize = blockSize * 2 * gridDim.x;
    T mySum = 0;

    while (i < n)
    {
        mySum += g_idata[i];
        if (i + blockSize < n)
            mySum += g_idata[i + blockSize];
        i += gridSize;
    }
    sdata[tid] = mySum;
    __syncthreads();

    if ((blockSize >= 512) && (tid < 256)) sdata[tid] = mySum = mySum + sdata[tid + 256];
    __syncthreads();
    if ((blockSize >= 256) && (tid < 128)) sdata[tid] = mySum = mySum + sdata[tid + 128];
    __syncthreads();
    if ((blockSize >= 128) && (tid < 64)) sdata[tid] = mySum = mySum + sdata[tid + 64];
    __syncthreads();
    if (tid < 32)
    {
        if (blockSize >= 64) mySum += sdata[tid + 32];
        for (int offset = 16; offset > 0; offset /= 2)
        {
            mySum += __shfl_down_sync(0xffffffffu, mySum, offset);
        }
    }
    if (tid == 0) g_odata[blockIdx.x] = mySum;
}

// Exclusive scan of a block's elements by a sweep up and a sweep down, after GPU Gems.
__global__ void prescan(int *g_odata, const int *g_idata, int *g_sums, int n)
{
    extern __shared__ int temp[];
    int thid = threadIdx.x;
    int offset = 1;
    int base = blockIdx.x * n;
    temp[2 * thid] = g_idata[base + 2 * thid];
    temp[2 * thid + 1] = g_idata[base + 2 * thid + 1];

    for (int d = n >> 1; d > 0; d >>= 1)
    {
        __syncthreads();
        if (thid < d)
        {
            int ai = offset * (2 * thid + 1) - 1;
            int bi = offset * (2 * thid + 2) - 1;
            temp[bi] += temp[ai];
        }
        offset *= 2;
    }
    if (thid == 0)
    {
        g_sums[blockIdx.x] = temp[n - 1];
        temp[n - 1] = 0;
    }
    for (int d = 1; d < n; d *= 2)
    {
        offset >>= 1;
        __syncthreads();
        if (thid < d)
        {
            int ai = offset * (2 * thid + 1) - 1;
            int bi = offset * (2 * thid + 2) - 1;
            int t = temp[ai];
            temp[ai] = temp[bi];
            temp[bi] += t;
        }
    }
    __syncthreads();
    g_odata[base + 2 * thid] = temp[2 * thid];
    g_odata[base + 2 * thid + 1] = temp[2 * thid + 1];
}

// Rotary embedding of positions, in place; a block has some heads of one token.
__global__ void rotary_embed(float* __restrict__ q, const int* __restrict__ positions,
                             const float* __restrict__ cos_table, const float* __restrict__ sin_table, int heads) {
    const int half_dim = blockDim.x;
    const int token = blockIdx.x, head = blockIdx.y * blockDim.y + threadIdx.y, d = threadIdx.x;
    if (head >= heads) return;
    const int pos = positions[token];
    const float c = cos_table[pos * half_dim + d];
    const float s = sin_table[pos * half_dim + d];
    float* vec = q + ((size_t)token * heads + head) * 2 * half_dim;
    const float a = vec[d], b = vec[d + half_dim];
    vec[d] = a * c - b * s;
    vec[d + half_dim] = b * c + a * s;
}

// One step of Adam with decay of the weights.
struct AdamState {
    float* __restrict__ param;
    float* __restrict__ exp_avg;
    float* __restrict__ exp_avg_sq;
    const float* __restrict__ grad;
    size_t numel;
};
__global__ void adamw_step(AdamState st, float lr, float beta1, float beta2, float eps, float decay, float corr1,
                           float corr2) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < st.numel; i += (size_t)gridDim.x * blockDim.x) {
        const float g = st.grad[i];
        float p = st.param[i] * (1.0f - lr * decay);
        const float m = beta1 * st.exp_avg[i] + (1.0f - beta1) * g;
        const float v = beta2 * st.exp_avg_sq[i] + (1.0f - beta2) * g * g;
        st.exp_avg[i] = m;
        st.exp_avg_sq[i] = v;
        p -= lr * (m / corr1) / (sqrtf(v / corr2) + eps);
        st.param[i] = p;
    }
}

// Attention with tiles of keys and values in shared memory, a thread per query, one pass.
template <int DIM, int TILE>
__global__ void flash_forward(const float* __restrict__ Q, const float* __restrict__ K, const float* __restrict__ V,
                              float* __restrict__ O, float* __restrict__ lse, int len, float scale) {
    __shared__ float Ks[TILE * DIM], Vs[TILE * DIM];
    const size_t head = (size_t)blockIdx.y * len;
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    const bool valid = row < len;
    float q[DIM], acc[DIM];
#pragma unroll
    for (int d = 0; d < DIM; d++) {
        q[d] = valid ? Q[(head + row) * DIM + d] : 0.f;
        acc[d] = 0.f;
    }
    float m = -1e30f, l = 0.f;
    for (int base = 0; base < len; base += TILE) {
        const int cols = min(TILE, len - base);
        for (int e = threadIdx.x; e < cols * DIM; e += blockDim.x) {
            Ks[e] = K[(head + base) * DIM + e];
            Vs[e] = V[(head + base) * DIM + e];
        }
        __syncthreads();
        for (int j = 0; j < cols; j++) {
            float s = 0.f;
#pragma unroll
            for (int d = 0; d < DIM; d++) s += q[d] * Ks[j * DIM + d];
            s *= scale;
            const float m_new = fmaxf(m, s);
            const float alpha = expf(m - m_new), p = expf(s - m_new);
            l = l * alpha + p;
#pragma unroll
            for (int d = 0; d < DIM; d++) acc[d] = acc[d] * alpha + p * Vs[j * DIM + d];
            m = m_new;
        }
        __syncthreads();
    }
    if (!valid) return;
    const float inv = 1.0f / l;
#pragma unroll
    for (int d = 0; d < DIM; d++) O[(head + row) * DIM + d] = acc[d] * inv;
    lse[head + row] = m + logf(l);
}

// Sobel edges of a grey image; tile and halo in shared memory, borders repeated.
#define TILE_W 16
#define TILE_H 16
__global__ void sobelTiled(const unsigned char *in, unsigned char *out, int width, int height)
{
    __shared__ unsigned char tile[TILE_H + 2][TILE_W + 2];
    int tid = threadIdx.y * TILE_W + threadIdx.x;
    int bx = blockIdx.x * TILE_W - 1, by = blockIdx.y * TILE_H - 1;

    for (int i = tid; i < (TILE_W + 2) * (TILE_H + 2); i += TILE_W * TILE_H)
    {
        int gx = min(max(bx + i % (TILE_W + 2), 0), width - 1);
        int gy = min(max(by + i / (TILE_W + 2), 0), height - 1);
        tile[i / (TILE_W + 2)][i % (TILE_W + 2)] = in[gy * width + gx];
    }
    __syncthreads();

    int x = blockIdx.x * TILE_W + threadIdx.x, y = blockIdx.y * TILE_H + threadIdx.y;
    if (x >= width || y >= height) return;
    int tx = threadIdx.x + 1, ty = threadIdx.y + 1;
    int gx = tile[ty - 1][tx + 1] + 2 * tile[ty][tx + 1] + tile[ty + 1][tx + 1]
           - tile[ty - 1][tx - 1] - 2 * tile[ty][tx - 1] - tile[ty + 1][tx - 1];
    int gy = tile[ty + 1][tx - 1] + 2 * tile[ty + 1][tx] + tile[ty + 1][tx + 1]
           - tile[ty - 1][tx - 1] - 2 * tile[ty - 1][tx] - tile[ty - 1][tx + 1];
    out[y * width + x] = (unsigned char)min(abs(gx) + abs(gy), 255);
}

// Particles as structs that bounce in a box.
struct Particle {
    float x, y, z;
    float vx, vy, vz;
};
__device__ inline void reflect(float& pos, float& vel, float limit) {
    if (pos < 0.0f) {
        pos = -pos;
        vel = -vel;
    } else if (pos > limit) {
        pos = 2.0f * limit - pos;
        vel = -vel;
    }
}
__global__ void move_particles(Particle* particles, int count, float dt, float gravity, float box) {
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    if (id >= count) return;
    Particle p = particles[id];
    p.vz -= gravity * dt;
    p.x += p.vx * dt;
    p.y += p.vy * dt;
    p.z += p.vz * dt;
    reflect(p.x, p.vx, box);
    reflect(p.y, p.vy, box);
    reflect(p.z, p.vz, box);
    particles[id] = p;
}

// ---------------------------------------------------------------- sizes

constexpr int LN_ROWS = 1500, LN_COLS = 900, LN_THREADS = 256;
constexpr int GELU_N = 1200005, GELU_COLS = 768, GELU_BLOCKS = 500, GELU_THREADS = 256;
constexpr int CV_N = 2, CV_C = 8, CV_H = 61, CV_W = 67, CV_K = 20, CV_S = 2, CV_PAD = 1, CV_OH = 31, CV_OW = 34;
constexpr int POOL_PLANES = 250, POOL_IN = 56, POOL_OUT = 28, POOL_K = 3, POOL_S = 2, POOL_THREADS = 512;
constexpr int MM_M = 256, MM_N = 320, MM_K = 200, MM_B = 64, MM_BK = 8, MM_T = 4;
constexpr int CHW_W = 450, CHW_H = 301, CHW_N = 9;
constexpr int LBM_NX = 500, LBM_NY = 403;
constexpr int FD_NX = 96, FD_NY = 88, FD_NZ = 36;
constexpr int GS_W = 810, GS_H = 615;
constexpr int CSR_ROWS = 15000, CSR_COLS = 14000, CSR_MOST = 90, CSR_THREADS = 128;
constexpr int PIC_N = 250001, PIC_NX = 192, PIC_NY = 140;
constexpr int LJ_N = 30011, LJ_LEAST = 10, LJ_MOST = 36, LJ_NEAR = 300, LJ_THREADS = 96;
constexpr int BS_N = 700003;
constexpr int NW_PAIRS = 420;
constexpr int BFS_N = 400009, BFS_DEGREE = 9, BFS_THREADS = 256;
constexpr int RS_SW = 480, RS_SH = 360, RS_DW = 640, RS_DH = 480;
constexpr int FIR_CH = 12, FIR_OUT = 5003, FIR_TAPS = 47, FIR_M = 4, FIR_IN = 20055, FIR_THREADS = 128;
constexpr int TRI_NX = 401, TRI_NY = 301, TRI_N = 240000, TRI_MATERIALS = 7;
constexpr int TH_N = 48, TH_BATCH = 12005;
constexpr int Q8_ROWS = 1300, Q8_QUADS = 300, Q8_THREADS = 128;
constexpr int MLP_N = 40001, MLP_IN = 8, MLP_HID = 20, MLP_OUT = 3, MLP_THREADS = 128;
constexpr int RED_N = 2500003, RED_BLOCKS = 200, RED_THREADS = 256;
constexpr int PRE_BLOCKS = 1200, PRE_N = 512;
constexpr int ROPE_TOKENS = 2100, ROPE_HEADS = 14, ROPE_HALF = 32, ROPE_MAX = 2048, ROPE_ROWS = 4;
constexpr int ADAM_N = 800011, ADAM_BLOCKS = 264, ADAM_THREADS = 512;
constexpr int FA_HEADS = 6, FA_LEN = 200, FA_DIM = 32, FA_TILE = 64, FA_THREADS = 64;
constexpr int SOBEL_W = 1001, SOBEL_H = 705;
constexpr int BOX_N = 500009;

// ---------------------------------------------------------------- one function per kernel

static void run_layer_norm_fwd() {
    float *x = floats(LN_ROWS * LN_COLS, 1), *gamma = floats(LN_COLS, 2), *beta = floats(LN_COLS, 3);
    float *y = zeros<float>(LN_ROWS * LN_COLS), *mean = zeros<float>(LN_ROWS), *rstd = zeros<float>(LN_ROWS);
    layer_norm_fwd<<<LN_ROWS, LN_THREADS>>>(x, gamma, beta, y, mean, rstd, LN_COLS, 1e-5f);
    check("layer_norm_fwd", y, LN_ROWS * LN_COLS, true);
    cudaFree(x), cudaFree(gamma), cudaFree(beta), cudaFree(y), cudaFree(mean), cudaFree(rstd);
}

static void run_bias_gelu() {
    std::vector<__half> hx(GELU_N), hb(GELU_COLS);
    for (int i = 0; i < GELU_N; i++) hx[i] = __float2half(4.0f * unit(i + 4) - 2.0f);
    for (int i = 0; i < GELU_COLS; i++) hb[i] = __float2half(unit(i + 5));
    __half *in = upload(hx), *bias = upload(hb), *out = zeros<__half>(GELU_N);
    bias_gelu<<<GELU_BLOCKS, GELU_THREADS>>>(in, bias, out, GELU_N, GELU_COLS);
    auto halves = download(out, GELU_N);
    float* wide = upload(std::vector<float>(halves.begin(), halves.end()));
    check("bias_gelu", wide, GELU_N, true);
    cudaFree(in), cudaFree(bias), cudaFree(out), cudaFree(wide);
}

static void run_conv2d_direct() {
    float *in = floats(CV_N * CV_C * CV_H * CV_W, 6), *weight = floats(CV_K * CV_C * 9, 7), *bias = floats(CV_K, 8);
    float* out = zeros<float>(CV_N * CV_K * CV_OH * CV_OW);
    conv2d_direct<3><<<dim3(over(CV_OW, 16), over(CV_OH, 16), CV_N * CV_K), dim3(16, 16)>>>(
        in, weight, bias, out, CV_C, CV_H, CV_W, CV_K, CV_OH, CV_OW, CV_S, CV_PAD);
    check("conv2d_direct", out, CV_N * CV_K * CV_OH * CV_OW);
    cudaFree(in), cudaFree(weight), cudaFree(bias), cudaFree(out);
}

static void run_MaxPoolForward() {
    const int n = POOL_PLANES * POOL_OUT * POOL_OUT;
    float *bottom = floats(POOL_PLANES * POOL_IN * POOL_IN, 9), *top = zeros<float>(n);
    int* mask = zeros<int>(n);
    MaxPoolForward<float><<<over(n, POOL_THREADS), POOL_THREADS>>>(
        n, bottom, POOL_IN, POOL_IN, POOL_OUT, POOL_OUT, POOL_K, POOL_K, POOL_S, POOL_S, top, mask);
    check("MaxPoolForward", mask, n);
    cudaFree(bottom), cudaFree(top), cudaFree(mask);
}

static void run_sgemm_2d_tile() {
    float *a = floats(MM_M * MM_K, 10), *b = floats(MM_K * MM_N, 11), *c = floats(MM_M * MM_N, 12);
    sgemm_2d_tile<MM_B, MM_B, MM_BK, MM_T, MM_T><<<dim3(MM_N / MM_B, MM_M / MM_B), MM_B * MM_B / (MM_T * MM_T)>>>(
        MM_M, MM_N, MM_K, 0.75f, a, b, 0.5f, c);
    check("sgemm_2d_tile", c, MM_M * MM_N);
    cudaFree(a), cudaFree(b), cudaFree(c);
}

static void run_hwc_to_chw() {
    std::vector<unsigned char> h(CHW_N * CHW_W * CHW_H * 3);
    for (size_t i = 0; i < h.size(); i++) h[i] = (unsigned char)mix((unsigned)i + 13);
    unsigned char* hwc = upload(h);
    float* chw = zeros<float>(h.size());
    Normalise norm = {{0.485f, 0.456f, 0.406f}, {4.367f, 4.464f, 4.444f}};
    hwc_to_chw<<<dim3(over(CHW_W, 32), over(CHW_H, 8), CHW_N), dim3(32, 8)>>>(hwc, chw, norm, CHW_W, CHW_H);
    check("hwc_to_chw", chw, h.size(), true);
    cudaFree(hwc), cudaFree(chw);
}

static void run_lbm_d2q9() {
    std::vector<unsigned char> hs(LBM_NX * LBM_NY);
    for (size_t i = 0; i < hs.size(); i++) hs[i] = mix((unsigned)i + 14) % 11 == 0;
    auto hf = units(9 * LBM_NX * LBM_NY, 15);
    for (float& f : hf) f += 1.0f;
    float *fin = upload(hf), *fout = zeros<float>(hf.size());
    unsigned char* solid = upload(hs);
    lbm_d2q9<<<dim3(over(LBM_NX, 64), over(LBM_NY, 4)), dim3(64, 4)>>>(fin, fout, solid, LBM_NX, LBM_NY, 1.2f);
    check("lbm_d2q9", fout, hf.size());
    cudaFree(fin), cudaFree(fout), cudaFree(solid);
}

static void run_wave_step() {
    const int sy = FD_NX + 2 * FD_R, sz = sy * (FD_NY + 2 * FD_R), n = sz * (FD_NZ + 2 * FD_R);
    float *next = floats(n, 16), *now = floats(n, 17), *vel2 = floats(n, 18);
    const float coef[FD_R + 1] = {-8.5417f, 1.6f, -0.2f, 0.0254f, -0.0018f};
    CHECKED(cudaMemcpyToSymbol(fd_coef, coef, sizeof coef));
    wave_step<FD_R><<<dim3(FD_NX / FD_BX, FD_NY / FD_BY), dim3(FD_BX, FD_BY)>>>(next, now, vel2, FD_NZ, sy, sz);
    check("wave_step", next, n, true);
    cudaFree(next), cudaFree(now), cudaFree(vel2);
}

static void run_gray_scott() {
    const int n = GS_W * GS_H;
    double *u = doubles(n, 19), *v = doubles(n, 20), *u_new = zeros<double>(n), *v_new = zeros<double>(n);
    gray_scott<<<dim3(over(GS_W, 32), over(GS_H, 4)), dim3(32, 4)>>>(u, v, u_new, v_new, GS_W, GS_H, 0.16, 0.08,
                                                                   0.035, 0.1, 0.5);
    check("gray_scott", v_new, n);
    cudaFree(u), cudaFree(v), cudaFree(u_new), cudaFree(v_new);
}

static void run_spmv_csr_vector() {
    std::vector<int> hp(CSR_ROWS + 1);
    for (int r = 0; r < CSR_ROWS; r++) hp[r + 1] = hp[r] + mix(r + 21) % CSR_MOST;
    std::vector<int> hj(hp[CSR_ROWS]);
    for (size_t e = 0; e < hj.size(); e++) hj[e] = mix((unsigned)e + 22) % CSR_COLS;
    int *ap = upload(hp), *aj = upload(hj);
    double *ax = doubles(hj.size(), 23), *x = doubles(CSR_COLS, 24), *y = zeros<double>(CSR_ROWS);
    spmv_csr_vector<int, double><<<over(CSR_ROWS, CSR_THREADS / 32), CSR_THREADS>>>(CSR_ROWS, ap, aj, ax, x, y);
    check("spmv_csr_vector", y, CSR_ROWS);
    cudaFree(ap), cudaFree(aj), cudaFree(ax), cudaFree(x), cudaFree(y);
}

static void run_deposit_charge() {
    std::vector<double> hx(PIC_N), hy(PIC_N);
    for (int i = 0; i < PIC_N; i++) hx[i] = (double)unit(i + 25) * PIC_NX, hy[i] = (double)unit(i + 26000003) * PIC_NY;
    Plasma pl;
    pl.x = upload(hx), pl.y = upload(hy), pl.rho = zeros<double>(PIC_NX * PIC_NY);
    pl.particles = PIC_N, pl.nx = PIC_NX, pl.ny = PIC_NY;
    deposit_charge<<<over(PIC_N, 256), 256>>>(pl, 0.5);
    check("deposit_charge", pl.rho, PIC_NX * PIC_NY);
    cudaFree((void*)pl.x), cudaFree((void*)pl.y), cudaFree(pl.rho);
}

static void run_lj_force() {
    std::vector<int> hn(LJ_N), hl(LJ_N * LJ_MOST);
    for (int i = 0; i < LJ_N; i++) hn[i] = LJ_LEAST + mix(i + 27) % (LJ_MOST - LJ_LEAST + 1);
    for (int k = 0; k < LJ_MOST; k++)
        for (int i = 0; i < LJ_N; i++) hl[k * LJ_N + i] = (i + 1 + mix(k * LJ_N + i + 28) % LJ_NEAR) % LJ_N;
    auto hp = units(4 * LJ_N, 29);
    for (int i = 0; i < LJ_N; i++) {
        // Near the points of a grid, so that no two atoms meet.
        const int at[] = {i % 31, i / 31 % 31, i / 961};
        for (int a = 0; a < 3; a++) hp[4 * i + a] = at[a] + 0.5f * hp[4 * i + a];
    }
    float *pos = upload(hp), *force = zeros<float>(4 * LJ_N);
    int *num = upload(hn), *list = upload(hl);
    lj_force<<<over(LJ_N, LJ_THREADS), LJ_THREADS>>>((const float4*)pos, num, list, (float4*)force, LJ_N, 80.0f, 0.5f,
                                                  1.0f, 0.1f);
    check("lj_force", force, 4 * LJ_N, true);
    cudaFree(pos), cudaFree(num), cudaFree(list), cudaFree(force);
}

static void run_BlackScholesGPU() {
    auto hs = units(BS_N, 30), hx = units(BS_N, 31), ht = units(BS_N, 32);
    for (int i = 0; i < BS_N; i++) hs[i] = 5 + 25 * hs[i], hx[i] = 1 + 99 * hx[i], ht[i] = 0.25f + 9.75f * ht[i];
    float *s = upload(hs), *x = upload(hx), *t = upload(ht), *call = zeros<float>(BS_N), *put = zeros<float>(BS_N);
    BlackScholesGPU<<<over(BS_N, 128), 128>>>(call, put, s, x, t, 0.02f, 0.30f, BS_N);
    check("BlackScholesGPU", put, BS_N, true);
    cudaFree(s), cudaFree(x), cudaFree(t), cudaFree(call), cudaFree(put);
}

static void run_needleman() {
    std::vector<char> ha(NW_PAIRS * NW_LEN), hb(NW_PAIRS * NW_LEN);
    for (size_t i = 0; i < ha.size(); i++) ha[i] = "ACGT"[mix((unsigned)i + 33) & 3], hb[i] = "ACGT"[mix((unsigned)i + 34) & 3];
    char *a = upload(ha), *b = upload(hb);
    unsigned char* trace = zeros<unsigned char>(NW_PAIRS * NW_LEN * NW_LEN);
    int* score = zeros<int>(NW_PAIRS);
    needleman<<<NW_PAIRS, NW_LEN>>>(a, b, trace, score, 2, -1, 2);
    check("needleman", trace, NW_PAIRS * NW_LEN * NW_LEN);
    cudaFree(a), cudaFree(b), cudaFree(trace), cudaFree(score);
}

static void run_bfs_level() {
    std::vector<Node> hn(BFS_N);
    std::vector<unsigned char> hm(BFS_N), hv(BFS_N);
    std::vector<int> hc(BFS_N, -1);
    int edges = 0;
    for (int i = 0; i < BFS_N; i++) {
        hn[i].starting = edges, hn[i].no_of_edges = 1 + mix(i + 35) % BFS_DEGREE;
        edges += hn[i].no_of_edges;
        hm[i] = mix(i + 36) % 6 == 0;
        hv[i] = hm[i] || mix(i + 37) % 3 == 0;
        if (hm[i]) hc[i] = 4;
    }
    std::vector<int> he(edges);
    for (int e = 0; e < edges; e++) he[e] = mix(e + 38) % BFS_N;
    Node* nodes = upload(hn);
    int *list = upload(he), *cost = upload(hc);
    unsigned char *mask = upload(hm), *visited = upload(hv), *updating = zeros<unsigned char>(BFS_N);
    bfs_level<<<over(BFS_N, BFS_THREADS), BFS_THREADS>>>(nodes, list, mask, updating, visited, cost, BFS_N);
    check("bfs_level", cost, BFS_N);
    cudaFree(nodes), cudaFree(list), cudaFree(cost), cudaFree(mask), cudaFree(visited), cudaFree(updating);
}

static void run_resize_bilinear() {
    std::vector<unsigned char> h(RS_SW * RS_SH * 3);
    for (size_t i = 0; i < h.size(); i++) h[i] = (unsigned char)mix((unsigned)i + 39);
    unsigned char *src = upload(h), *dst = zeros<unsigned char>(RS_DW * RS_DH * 3);
    resize_bilinear<3><<<dim3(over(RS_DW, 16), over(RS_DH, 16)), dim3(16, 16)>>>(src, RS_SW, RS_SH, dst, RS_DW, RS_DH,
                                                                              0.75f, 0.75f);
    check("resize_bilinear", dst, RS_DW * RS_DH * 3);
    cudaFree(src), cudaFree(dst);
}

static void run_fir_decimate() {
    float *in = floats(2 * FIR_CH * FIR_IN, 40), *taps = floats(FIR_TAPS, 41), *out = zeros<float>(2 * FIR_CH * FIR_OUT);
    fir_decimate<<<dim3(over(FIR_OUT, FIR_THREADS), FIR_CH), FIR_THREADS,
                   ((FIR_THREADS - 1) * FIR_M + FIR_TAPS) * sizeof(float2)>>>(
        (const float2*)in, taps, (float2*)out, FIR_IN, FIR_OUT, FIR_TAPS, FIR_M);
    check("fir_decimate", out, 2 * FIR_CH * FIR_OUT);
    cudaFree(in), cudaFree(taps), cudaFree(out);
}

static void run_triangle_stiffness() {
    std::vector<double> hx(TRI_NX * TRI_NY), hy(TRI_NX * TRI_NY);
    std::vector<int> hc(3 * TRI_N);
    std::vector<short> hm(TRI_N);
    for (int i = 0; i < TRI_NX * TRI_NY; i++)
        hx[i] = i % TRI_NX + 0.25 * unit(i + 42), hy[i] = i / TRI_NX + 0.25 * unit(i + 43);
    for (int e = 0; e < TRI_N; e++) {
        int cell = e / 2, low = cell / (TRI_NX - 1) * TRI_NX + cell % (TRI_NX - 1);
        hc[3 * e] = low, hc[3 * e + 1] = e % 2 ? low + TRI_NX + 1 : low + 1;
        hc[3 * e + 2] = e % 2 ? low + TRI_NX : low + TRI_NX + 1;
        hm[e] = mix(e + 44) % TRI_MATERIALS;
    }
    double *x = upload(hx), *y = upload(hy), *k = doubles(TRI_MATERIALS, 45), *ke = zeros<double>(9 * TRI_N);
    int* conn = upload(hc);
    short* material = upload(hm);
    triangle_stiffness<<<over(TRI_N, 128), 128>>>(x, y, conn, material, k, ke, TRI_N);
    check("triangle_stiffness", ke, 9 * TRI_N, true);
    cudaFree(x), cudaFree(y), cudaFree(k), cudaFree(ke), cudaFree(conn), cudaFree(material);
}

static void run_thomas_interleaved() {
    const int n = TH_N * TH_BATCH;
    auto hb = units(n, 46);
    std::vector<double> b(hb.begin(), hb.end());
    for (double& diagonal : b) diagonal += 3;
    double *a = doubles(n, 47), *db = upload(b), *c = doubles(n, 48), *d = doubles(n, 49);
    thomas_interleaved<<<over(TH_BATCH, 64), 64>>>(a, db, c, d, TH_N, TH_BATCH);
    check("thomas_interleaved", d, n);
    cudaFree(a), cudaFree(db), cudaFree(c), cudaFree(d);
}

static void run_quantize_per_row() {
    auto h = units(4 * Q8_ROWS * Q8_QUADS, 50);
    for (float& v : h) v = 6.0f * v - 3.0f;
    float *x = upload(h), *scales = zeros<float>(Q8_ROWS);
    char4* q = zeros<char4>(Q8_ROWS * Q8_QUADS);
    quantize_per_row<Q8_THREADS><<<Q8_ROWS, Q8_THREADS>>>((const float4*)x, q, scales, Q8_QUADS);
    check("quantize_per_row", (signed char*)q, 4 * Q8_ROWS * Q8_QUADS);
    cudaFree(x), cudaFree(scales), cudaFree(q);
}

static void run_mlp_forward() {
    auto h1 = units(MLP_IN * MLP_HID, 51);
    for (float& w : h1) w -= 0.5f;
    Mlp net;
    net.w1 = upload(h1), net.b1 = floats(MLP_HID, 52), net.w2 = floats(MLP_HID * MLP_OUT, 53), net.b2 = floats(MLP_OUT, 54);
    float *x = floats(MLP_N * MLP_IN, 55), *y = zeros<float>(MLP_N * MLP_OUT);
    mlp_forward<MLP_IN, MLP_HID, MLP_OUT><<<over(MLP_N, MLP_THREADS), MLP_THREADS>>>(net, x, y, MLP_N);
    check("mlp_forward", y, MLP_N * MLP_OUT);
    cudaFree((void*)net.w1), cudaFree((void*)net.b1), cudaFree((void*)net.w2), cudaFree((void*)net.b2);
    cudaFree(x), cudaFree(y);
}

static void run_reduce6() {
    std::vector<int> h(RED_N);
    for (int i = 0; i < RED_N; i++) h[i] = mix(i + 56) & 4095;
    int *in = upload(h), *out = zeros<int>(RED_BLOCKS);
    reduce6<int, RED_THREADS><<<RED_BLOCKS, RED_THREADS>>>(in, out, RED_N);
    check("reduce6", out, RED_BLOCKS);
    cudaFree(in), cudaFree(out);
}

static void run_prescan() {
    std::vector<int> h(PRE_BLOCKS * PRE_N);
    for (size_t i = 0; i < h.size(); i++) h[i] = mix((unsigned)i + 57) & 255;
    int *in = upload(h), *out = zeros<int>(h.size()), *sums = zeros<int>(PRE_BLOCKS);
    prescan<<<PRE_BLOCKS, PRE_N / 2, PRE_N * sizeof(int)>>>(out, in, sums, PRE_N);
    check("prescan", out, h.size());
    cudaFree(in), cudaFree(out), cudaFree(sums);
}

static void run_rotary_embed() {
    std::vector<int> hp(ROPE_TOKENS);
    for (int t = 0; t < ROPE_TOKENS; t++) hp[t] = mix(t + 58) % ROPE_MAX;
    int* positions = upload(hp);
    const int n = ROPE_TOKENS * ROPE_HEADS * 2 * ROPE_HALF;
    float *q = floats(n, 59), *cosines = floats(ROPE_MAX * ROPE_HALF, 60), *sines = floats(ROPE_MAX * ROPE_HALF, 61);
    rotary_embed<<<dim3(ROPE_TOKENS, over(ROPE_HEADS, ROPE_ROWS)), dim3(ROPE_HALF, ROPE_ROWS)>>>(q, positions, cosines,
                                                                                              sines, ROPE_HEADS);
    check("rotary_embed", q, n, true);
    cudaFree(positions), cudaFree(q), cudaFree(cosines), cudaFree(sines);
}

static void run_adamw_step() {
    AdamState st;
    st.param = floats(ADAM_N, 62), st.exp_avg = floats(ADAM_N, 63), st.exp_avg_sq = floats(ADAM_N, 64);
    st.grad = floats(ADAM_N, 65), st.numel = ADAM_N;
    adamw_step<<<ADAM_BLOCKS, ADAM_THREADS>>>(st, 0.001f, 0.9f, 0.999f, 1e-8f, 0.01f, 0.4095f, 0.00499f);
    check("adamw_step", st.param, ADAM_N, true);
    cudaFree(st.param), cudaFree(st.exp_avg), cudaFree(st.exp_avg_sq), cudaFree((void*)st.grad);
}

static void run_flash_forward() {
    const int rows = FA_HEADS * FA_LEN, n = rows * FA_DIM;
    float *q = floats(n, 66), *k = floats(n, 67), *v = floats(n, 68), *o = zeros<float>(n), *lse = zeros<float>(rows);
    flash_forward<FA_DIM, FA_TILE><<<dim3(over(FA_LEN, FA_THREADS), FA_HEADS), FA_THREADS>>>(q, k, v, o, lse, FA_LEN,
                                                                                         0.1767767f);
    check("flash_forward", o, n);
    cudaFree(q), cudaFree(k), cudaFree(v), cudaFree(o), cudaFree(lse);
}

static void run_sobelTiled() {
    std::vector<unsigned char> h(SOBEL_W * SOBEL_H);
    for (size_t i = 0; i < h.size(); i++) h[i] = mix((unsigned)i + 69) & 63;
    unsigned char *in = upload(h), *out = zeros<unsigned char>(h.size());
    sobelTiled<<<dim3(over(SOBEL_W, TILE_W), over(SOBEL_H, TILE_H)), dim3(TILE_W, TILE_H)>>>(in, out, SOBEL_W, SOBEL_H);
    check("sobelTiled", out, h.size());
    cudaFree(in), cudaFree(out);
}

static void run_move_particles() {
    auto h = units(6 * BOX_N, 70);
    for (int i = 0; i < BOX_N; i++)
        for (int a = 3; a < 6; a++) h[6 * i + a] -= 0.5f;
    float* p = upload(h);
    move_particles<<<over(BOX_N, 256), 256>>>((Particle*)p, BOX_N, 0.1f, 0.98f, 1.0f);
    check("move_particles", p, 6 * BOX_N, true);
    cudaFree(p);
}

int main() {
    run_layer_norm_fwd();
    run_bias_gelu();
    run_conv2d_direct();
    run_MaxPoolForward();
    run_sgemm_2d_tile();
    run_hwc_to_chw();
    run_lbm_d2q9();
    run_wave_step();
    run_gray_scott();
    run_spmv_csr_vector();
    run_deposit_charge();
    run_lj_force();
    run_BlackScholesGPU();
    run_needleman();
    run_bfs_level();
    run_resize_bilinear();
    run_fir_decimate();
    run_triangle_stiffness();
    run_thomas_interleaved();
    run_quantize_per_row();
    run_mlp_forward();
    run_reduce6();
    run_prescan();
    run_rotary_embed();
    run_adamw_step();
    run_flash_forward();
    run_sobelTiled();
    run_move_particles();
    return verdict(28);
}
