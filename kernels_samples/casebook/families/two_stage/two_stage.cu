// Programs of two or three kernels: row statistics and their use, stream compaction, a model and its
// residual.
#include "../../harness/book.h"

struct Rows {
    int rows;
    const float* values;
    const float* gain;
    const float* bias;
    float* mean;
    float* variance;
    float* result;
};

struct Stream {
    int count;  // a multiple of 1024
    const float* score;
    int* counts;
    int* offsets;
    float* kept;
};

struct Image {
    int pixels;
    const float* red;
    const float* green;
    const float* blue;
    const float* target;
    float* luma;
    float* residual;
};

struct Orbits {
    int bodies;
    const float* mean_anomaly;
    const float* eccentricity;
    const float* observed;
    float* anomaly;
    float* residual;
};

//: shared
constexpr int kColumns = 128;
constexpr int kTile = 1024;
constexpr float kThreshold = 0.5f;
constexpr int kSweeps = 64;

// One warp per row, four columns per lane.
__global__ void statistics_by_warp(const float* __restrict__ values, float* __restrict__ mean,
                                   float* __restrict__ variance) {
    const int row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
    const float4 v = reinterpret_cast<const float4*>(values)[size_t(row) * (kColumns / 4) + lane];
    float sum = v.x + v.y + v.z + v.w;
    float squares = v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
    for (int offset = 16; offset > 0; offset /= 2) {
        sum += __shfl_xor_sync(0xffffffffu, sum, offset);
        squares += __shfl_xor_sync(0xffffffffu, squares, offset);
    }
    if (lane == 0) {
        const float m = sum / kColumns;
        mean[row] = m;
        variance[row] = squares / kColumns - m * m;
    }
}

__global__ void apply_rows(const float* __restrict__ values, const float* __restrict__ mean,
                           const float* __restrict__ variance, const float* __restrict__ gain,
                           const float* __restrict__ bias, float* __restrict__ result) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const int row = i / kColumns, column = i % kColumns;
    const float scaled = (values[i] - mean[row]) * rsqrtf(variance[row] + 1e-5f);
    result[i] = scaled * gain[column] + bias[column];
}

__global__ void count_kept(const float* __restrict__ score, int* __restrict__ counts) {
    const float4 s = reinterpret_cast<const float4*>(score)[blockIdx.x * (kTile / 4) + threadIdx.x];
    int total = __syncthreads_count(s.x >= kThreshold);
    total += __syncthreads_count(s.y >= kThreshold);
    total += __syncthreads_count(s.z >= kThreshold);
    total += __syncthreads_count(s.w >= kThreshold);
    if (threadIdx.x == 0) counts[blockIdx.x] = total;
}

// One block of 1024 threads; each adds up a run of counts.
__global__ void offsets_by_block(const int* __restrict__ counts, int* __restrict__ offsets,
                                 int tiles) {
    __shared__ int of_warp[32];
    const int each = (tiles + 1023) / 1024, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int first = threadIdx.x * each, last = min(first + each, tiles);
    int own = 0;
    for (int t = first; t < last; ++t) own += counts[t];
    int sum = own;
    for (int offset = 1; offset < 32; offset *= 2) {
        const int other = __shfl_up_sync(0xffffffffu, sum, offset);
        if (lane >= offset) sum += other;
    }
    if (lane == 31) of_warp[warp] = sum;
    __syncthreads();
    if (warp == 0) {
        int total = of_warp[lane];
        for (int offset = 1; offset < 32; offset *= 2) {
            const int other = __shfl_up_sync(0xffffffffu, total, offset);
            if (lane >= offset) total += other;
        }
        of_warp[lane] = total;
    }
    __syncthreads();
    int before = sum - own + (warp > 0 ? of_warp[warp - 1] : 0);
    for (int t = first; t < last; ++t) {
        offsets[t] = before;
        before += counts[t];
    }
}

// 256 threads per tile, four rounds; ranks from votes.
__global__ void scatter_by_vote(const float* __restrict__ score, const int* __restrict__ offsets,
                                float* __restrict__ kept) {
    __shared__ int starts[32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float s[4];
    unsigned votes[4];
#pragma unroll
    for (int r = 0; r < 4; ++r) s[r] = score[blockIdx.x * kTile + r * 256 + threadIdx.x];
#pragma unroll
    for (int r = 0; r < 4; ++r) {
        votes[r] = __ballot_sync(0xffffffffu, s[r] >= kThreshold);
        if (lane == 0) starts[r * 8 + warp] = __popc(votes[r]);
    }
    __syncthreads();
    if (warp == 0) {
        const int own = starts[lane];
        int sum = own;
        for (int offset = 1; offset < 32; offset *= 2) {
            const int other = __shfl_up_sync(0xffffffffu, sum, offset);
            if (lane >= offset) sum += other;
        }
        starts[lane] = offsets[blockIdx.x] + sum - own;
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < 4; ++r) {
        const int rank = __popc(votes[r] & ((1u << lane) - 1));
        if (s[r] >= kThreshold) kept[starts[r * 8 + warp] + rank] = s[r];
    }
}

// Kepler's equation E = M + e sin E by repeated insertion.
__device__ float eccentric_anomaly(float mean_anomaly, float eccentricity) {
    float anomaly = mean_anomaly;
    for (int sweep = 0; sweep < kSweeps; ++sweep) {
        anomaly = mean_anomaly + eccentricity * sinf(anomaly);
    }
    return anomaly;
}
//: end

//: variant statistics_by_row
__global__ void statistics_by_thread(const float* __restrict__ values, float* __restrict__ mean,
                                     float* __restrict__ variance, int rows) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float sum = 0, squares = 0;
    for (int c = 0; c < kColumns; ++c) {
        const float v = values[size_t(row) * kColumns + c];
        sum += v;
        squares += v * v;
    }
    const float m = sum / kColumns;
    mean[row] = m;
    variance[row] = squares / kColumns - m * m;
}

void statistics_by_row(const Rows& r) {
    statistics_by_thread<<<(r.rows + 127) / 128, 128>>>(r.values, r.mean, r.variance, r.rows);
    apply_rows<<<r.rows * kColumns / 256, 256>>>(r.values, r.mean, r.variance, r.gain, r.bias,
                                                 r.result);
}
//: end

//: variant warp_statistics
// The number of rows is a multiple of 8.
void warp_statistics(const Rows& r) {
    statistics_by_warp<<<r.rows / 8, 256>>>(r.values, r.mean, r.variance);
    apply_rows<<<r.rows * kColumns / 256, 256>>>(r.values, r.mean, r.variance, r.gain, r.bias,
                                                 r.result);
}
//: end

//: variant divided_rows
__global__ void apply_divided(const float* __restrict__ values, const float* __restrict__ mean,
                              const float* __restrict__ variance, const float* __restrict__ gain,
                              const float* __restrict__ bias, float* __restrict__ result) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const int row = i / kColumns, column = i % kColumns;
    result[i] = (values[i] - mean[row]) / sqrt(variance[row] + 1e-5) * gain[column] + bias[column];
}

// The number of rows is a multiple of 8.
void divided_rows(const Rows& r) {
    statistics_by_warp<<<r.rows / 8, 256>>>(r.values, r.mean, r.variance);
    apply_divided<<<r.rows * kColumns / 256, 256>>>(r.values, r.mean, r.variance, r.gain, r.bias,
                                                    r.result);
}
//: end

//: variant rows_in_one_pass
// One warp per row, which stays in registers.
__global__ void normalize_rows(const float* __restrict__ values, const float* __restrict__ gain,
                               const float* __restrict__ bias, float* __restrict__ result) {
    const int row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
    const size_t at = size_t(row) * (kColumns / 4) + lane;
    const float4 v = reinterpret_cast<const float4*>(values)[at];
    const float4 g = reinterpret_cast<const float4*>(gain)[lane];
    const float4 b = reinterpret_cast<const float4*>(bias)[lane];
    float sum = v.x + v.y + v.z + v.w;
    float squares = v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
    for (int offset = 16; offset > 0; offset /= 2) {
        sum += __shfl_xor_sync(0xffffffffu, sum, offset);
        squares += __shfl_xor_sync(0xffffffffu, squares, offset);
    }
    const float m = sum / kColumns;
    const float scale = rsqrtf(squares / kColumns - m * m + 1e-5f);
    reinterpret_cast<float4*>(result)[at] =
        make_float4((v.x - m) * scale * g.x + b.x, (v.y - m) * scale * g.y + b.y,
                    (v.z - m) * scale * g.z + b.z, (v.w - m) * scale * g.w + b.w);
}

// The number of rows is a multiple of 8.
void rows_in_one_pass(const Rows& r) {
    normalize_rows<<<r.rows / 8, 256>>>(r.values, r.gain, r.bias, r.result);
}
//: end

//: variant offsets_in_order
__global__ void offsets_by_thread(const int* counts, int* offsets, int tiles) {
    int total = 0;
    for (int t = 0; t < tiles; ++t) {
        offsets[t] = total;
        total += counts[t];
    }
}

void offsets_in_order(const Stream& s) {
    const int tiles = s.count / kTile;
    count_kept<<<tiles, 256>>>(s.score, s.counts);
    offsets_by_thread<<<1, 1>>>(s.counts, s.offsets, tiles);
    scatter_by_vote<<<tiles, 256>>>(s.score, s.offsets, s.kept);
}
//: end

//: variant votes
void votes(const Stream& s) {
    const int tiles = s.count / kTile;
    count_kept<<<tiles, 256>>>(s.score, s.counts);
    offsets_by_block<<<1, 1024>>>(s.counts, s.offsets, tiles);
    scatter_by_vote<<<tiles, 256>>>(s.score, s.offsets, s.kept);
}
//: end

//: variant runs
// 64 threads per tile; each copies what it keeps of a run of 16 scores.
__global__ void scatter_runs(const float* __restrict__ score, const int* __restrict__ offsets,
                             float* __restrict__ kept) {
    __shared__ int of_warp[2];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const float* run = score + blockIdx.x * kTile + threadIdx.x * 16;
    int own = 0;
    for (int k = 0; k < 16; ++k) own += run[k] >= kThreshold;
    int sum = own;
    for (int offset = 1; offset < 32; offset *= 2) {
        const int other = __shfl_up_sync(0xffffffffu, sum, offset);
        if (lane >= offset) sum += other;
    }
    if (lane == 31) of_warp[warp] = sum;
    __syncthreads();
    int to = offsets[blockIdx.x] + sum - own + (warp > 0 ? of_warp[0] : 0);
    for (int k = 0; k < 16; ++k) {
        const float s = run[k];
        if (s >= kThreshold) kept[to++] = s;
    }
}

void runs(const Stream& s) {
    const int tiles = s.count / kTile;
    count_kept<<<tiles, 256>>>(s.score, s.counts);
    offsets_by_block<<<1, 1024>>>(s.counts, s.offsets, tiles);
    scatter_runs<<<tiles, 64>>>(s.score, s.offsets, s.kept);
}
//: end

//: variant luma_then_residual
__global__ void luma_of(const float4* __restrict__ red, const float4* __restrict__ green,
                        const float4* __restrict__ blue, float4* __restrict__ luma) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float4 r = red[i], g = green[i], b = blue[i];
    luma[i] = make_float4(0.299f * r.x + 0.587f * g.x + 0.114f * b.x,
                          0.299f * r.y + 0.587f * g.y + 0.114f * b.y,
                          0.299f * r.z + 0.587f * g.z + 0.114f * b.z,
                          0.299f * r.w + 0.587f * g.w + 0.114f * b.w);
}

__global__ void luma_residual(const float4* __restrict__ luma, const float4* __restrict__ target,
                              float4* __restrict__ residual) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float4 l = luma[i], t = target[i];
    residual[i] = make_float4(l.x - t.x, l.y - t.y, l.z - t.z, l.w - t.w);
}

// The number of pixels is a multiple of 1024.
void luma_then_residual(const Image& m) {
    const int blocks = m.pixels / 1024;
    luma_of<<<blocks, 256>>>((const float4*)m.red, (const float4*)m.green, (const float4*)m.blue,
                             (float4*)m.luma);
    luma_residual<<<blocks, 256>>>((const float4*)m.luma, (const float4*)m.target,
                                   (float4*)m.residual);
}
//: end

//: variant residual_of_planes
__global__ void plane_residual(const float4* __restrict__ red, const float4* __restrict__ green,
                               const float4* __restrict__ blue, const float4* __restrict__ target,
                               float4* __restrict__ residual) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float4 r = red[i], g = green[i], b = blue[i], t = target[i];
    residual[i] = make_float4(0.299f * r.x + 0.587f * g.x + 0.114f * b.x - t.x,
                              0.299f * r.y + 0.587f * g.y + 0.114f * b.y - t.y,
                              0.299f * r.z + 0.587f * g.z + 0.114f * b.z - t.z,
                              0.299f * r.w + 0.587f * g.w + 0.114f * b.w - t.w);
}

// The number of pixels is a multiple of 1024.
void residual_of_planes(const Image& m) {
    plane_residual<<<m.pixels / 1024, 256>>>((const float4*)m.red, (const float4*)m.green,
                                             (const float4*)m.blue, (const float4*)m.target,
                                             (float4*)m.residual);
}
//: end

//: variant anomaly_then_residual
__global__ void anomalies(const float* __restrict__ mean_anomaly,
                          const float* __restrict__ eccentricity, float* __restrict__ anomaly) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    anomaly[i] = eccentric_anomaly(mean_anomaly[i], eccentricity[i]);
}

__global__ void anomaly_residual(const float* __restrict__ anomaly,
                                 const float* __restrict__ observed, float* __restrict__ residual) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    residual[i] = anomaly[i] - observed[i];
}

// The number of bodies is a multiple of 256.
void anomaly_then_residual(const Orbits& o) {
    anomalies<<<o.bodies / 256, 256>>>(o.mean_anomaly, o.eccentricity, o.anomaly);
    anomaly_residual<<<o.bodies / 256, 256>>>(o.anomaly, o.observed, o.residual);
}
//: end

//: variant residual_at_once
__global__ void orbit_residual(const float* __restrict__ mean_anomaly,
                               const float* __restrict__ eccentricity,
                               const float* __restrict__ observed, float* __restrict__ residual) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    residual[i] = eccentric_anomaly(mean_anomaly[i], eccentricity[i]) - observed[i];
}

// The number of bodies is a multiple of 256.
void residual_at_once(const Orbits& o) {
    orbit_residual<<<o.bodies / 256, 256>>>(o.mean_anomaly, o.eccentricity, o.observed, o.residual);
}
//: end

// One warp per row in double, the variance from the distances to the mean.
__global__ void reference_rows(Rows r, float* expected) {
    const int row = blockIdx.x, lane = threadIdx.x;
    double sum = 0, squares = 0;
    for (int c = 0; c < 128; ++c) sum += r.values[size_t(row) * 128 + c];
    const double mean = sum / 128;
    for (int c = 0; c < 128; ++c) {
        const double away = r.values[size_t(row) * 128 + c] - mean;
        squares += away * away;
    }
    for (int c = lane; c < 128; c += 32) {
        const double away = r.values[size_t(row) * 128 + c] - mean;
        expected[size_t(row) * 128 + c] = float(away / sqrt(squares / 128 + 1e-5) * r.gain[c] + r.bias[c]);
    }
}

// One of each pair of scores is kept: the place of a kept score is the number of its pair.
__global__ void reference_kept(const float* score, float* expected, int count) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        if (!(score[i] < 0.5f)) expected[i / 2] = score[i];
    }
}

__global__ void reference_image(Image m, float* expected) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < m.pixels; i += gridDim.x * blockDim.x) {
        const double luma = 0.299 * m.red[i] + 0.587 * m.green[i] + 0.114 * m.blue[i];
        expected[i] = float(luma - m.target[i]);
    }
}

// Bisection in double.
__global__ void reference_orbit(Orbits o, float* expected) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < o.bodies; i += gridDim.x * blockDim.x) {
        const double m = o.mean_anomaly[i], e = o.eccentricity[i];
        double low = m - 1, high = m + 1;
        for (int k = 0; k < 40; ++k) {
            const double middle = 0.5 * (low + high);
            if (middle - e * sin(middle) < m) low = middle;
            else high = middle;
        }
        expected[i] = float(low - o.observed[i]);
    }
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("rows", [](book::Problem& p) {
        Rows r{131072};
        const size_t count = size_t(r.rows) * kColumns;
        r.values = p.uniform<float>(count, -1, 1);
        r.gain = p.uniform<float>(kColumns, 0.5, 1.5);
        r.bias = p.uniform<float>(kColumns, -1, 1);
        r.mean = p.output<float>(r.rows);
        r.variance = p.output<float>(r.rows);
        r.result = p.output<float>(count);
        p.needs({.dram_bytes = 8.0 * count, .fp32_flop = 7.0 * count});
        p.check<float>(r.result, count, {1e-4, 1e-5}, [=](float* expected) {
            reference_rows<<<r.rows, 32>>>(r, expected);
        });
        p.variant("statistics_by_row", [=] { statistics_by_row(r); });
        p.variant("warp_statistics", [=] { warp_statistics(r); });
        p.variant("divided_rows", [=] { divided_rows(r); });
        p.variant("rows_in_one_pass", [=] { rows_in_one_pass(r); });
    });
    book.problem("stream", [](book::Problem& p) {
        Stream s{16 << 20};
        const uint64_t seed = p.seed();
        s.score = p.input<float>(s.count, [=] __device__(size_t i) {
            const bool keep = (book::mixed(seed * 977 + i / 2) >> 20 & 1) == (i & 1);
            const double u = book::uniform01(seed, 5, i);
            return float(keep ? 0.5 + 0.5 * u : 0.499 * u);
        });
        s.counts = p.output<int>(s.count / kTile);
        s.offsets = p.output<int>(s.count / kTile);
        s.kept = p.output<float>(s.count / 2);
        p.needs({.dram_bytes = 6.0 * s.count, .int_op = 2.0 * s.count});
        p.check<float>(s.kept, s.count / 2, {0}, [=](float* expected) {
            reference_kept<<<1056, 256>>>(s.score, expected, s.count);
        });
        p.variant("offsets_in_order", [=] { offsets_in_order(s); });
        p.variant("votes", [=] { votes(s); });
        p.variant("runs", [=] { runs(s); });
    });
    book.problem("image", [](book::Problem& p) {
        Image m{9 << 20};
        m.red = p.uniform<float>(m.pixels, 0, 1);
        m.green = p.uniform<float>(m.pixels, 0, 1);
        m.blue = p.uniform<float>(m.pixels, 0, 1);
        m.target = p.uniform<float>(m.pixels, 0, 1);
        m.luma = p.output<float>(m.pixels);
        m.residual = p.output<float>(m.pixels);
        p.needs({.dram_bytes = 20.0 * m.pixels, .fp32_flop = 6.0 * m.pixels});
        p.check<float>(m.residual, m.pixels, {1e-5, 1e-6}, [=](float* expected) {
            reference_image<<<1056, 256>>>(m, expected);
        });
        p.variant("luma_then_residual", [=] { luma_then_residual(m); });
        p.variant("residual_of_planes", [=] { residual_of_planes(m); });
    });
    book.problem("orbits", [](book::Problem& p) {
        Orbits o{4 << 20};
        o.mean_anomaly = p.uniform<float>(o.bodies, 0, 6.2831853);
        o.eccentricity = p.uniform<float>(o.bodies, 0.1, 0.8);
        o.observed = p.uniform<float>(o.bodies, 0, 6.2831853);
        o.anomaly = p.output<float>(o.bodies);
        o.residual = p.output<float>(o.bodies);
        p.needs({.dram_bytes = 16.0 * o.bodies, .fp32_flop = 18.0 * kSweeps * o.bodies});
        p.check<float>(o.residual, o.bodies, {1e-5, 3e-5}, [=](float* expected) {
            reference_orbit<<<1056, 256>>>(o, expected);
        });
        p.variant("anomaly_then_residual", [=] { anomaly_then_residual(o); });
        p.variant("residual_at_once", [=] { residual_at_once(o); });
    });
    return book.finish();
}
