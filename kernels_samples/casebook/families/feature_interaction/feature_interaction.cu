// Pairwise interaction of a recommendation model: the dot products of all pairs of a sample's 27
// feature vectors (128 halves each). Out: the 351 pairs i > j in row order and one zero of padding.
#include "../../harness/book.h"

#include <cuda_pipeline.h>
#include <mma.h>

struct Batch {
    int samples;       // a multiple of 4
    const __half* in;  // [sample][27][128]
    __half* out;       // [sample][352]
    __half* products;  // scratch, [sample][32][32]
};

//: shared
constexpr int kFeatures = 27, kRows = 32, kDim = 128;
constexpr int kPairs = kFeatures * (kFeatures - 1) / 2, kOut = kPairs + 1;
constexpr int kWarps = 4;        // samples per block
constexpr int kStagePitch = 40;  // floats

// Copies the features of one sample to shared memory, 16 bytes at a time.
template <int kPitch>
__device__ inline void fetch_rows(__half* rows, const __half* own, int lane) {
    constexpr int kVectors = kDim / 8;
    for (int i = lane; i < kFeatures * kVectors; i += 32) {
        __pipeline_memcpy_async(rows + i / kVectors * kPitch + i % kVectors * 8, own + i * 8, 16);
    }
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncwarp();
}

// The tiles of rows x rows^T on and below the diagonal, 16 x 16 each; kAll: the fourth one as well.
template <int kPitch, bool kAll>
__device__ inline void multiply_rows(const __half* rows, float* stage) {
    using namespace nvcuda;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sums[2][2];
#pragma unroll
    for (int t = 0; t < 4; ++t) wmma::fill_fragment(sums[t / 2][t % 2], 0.0f);
#pragma unroll 2
    for (int k = 0; k < kDim; k += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> a[2];
        wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> b[2];
#pragma unroll
        for (int t = 0; t < 2; ++t) {
            wmma::load_matrix_sync(a[t], rows + t * 16 * kPitch + k, kPitch);
            wmma::load_matrix_sync(b[t], rows + t * 16 * kPitch + k, kPitch);
        }
        wmma::mma_sync(sums[0][0], a[0], b[0], sums[0][0]);
        wmma::mma_sync(sums[1][0], a[1], b[0], sums[1][0]);
        wmma::mma_sync(sums[1][1], a[1], b[1], sums[1][1]);
        if (kAll) wmma::mma_sync(sums[0][1], a[0], b[1], sums[0][1]);
    }
    __syncwarp();
#pragma unroll
    for (int t = 0; t < 4; ++t) {
        if (t == 1 && !kAll) continue;
        wmma::store_matrix_sync(stage + t / 2 * 16 * kStagePitch + t % 2 * 16, sums[t / 2][t % 2],
                                kStagePitch, wmma::mem_row_major);
    }
    __syncwarp();
}

// Row by row: the lanes left of the diagonal write.
__device__ inline void write_rows(const float* stage, __half* to, int lane) {
#pragma unroll
    for (int i = 1; i < kFeatures; ++i) {
        if (lane < i) to[i * (i - 1) / 2 + lane] = __float2half(stage[i * kStagePitch + lane]);
    }
    if (lane == 0) to[kPairs] = __float2half(0.0f);
}

// Pair number e is (i, j) with e = i (i - 1) / 2 + j.
__device__ inline int2 pair_at(int e) {
    const int i = int(0.5f + 0.5f * sqrtf(8.0f * e + 1.0f));
    return make_int2(i, e - i * (i - 1) / 2);
}

__device__ inline float staged_pair(const float* stage, int e) {
    const int2 at = pair_at(e);
    return e < kPairs ? stage[at.x * kStagePitch + at.y] : 0.0f;
}

// Two pairs at a time, all lanes.
__device__ inline void write_flat(const float* stage, __half* to, int lane) {
#pragma unroll
    for (int k = 0; k < (kOut / 2 + 31) / 32; ++k) {
        const int e = 2 * (k * 32 + lane);
        if (e < kOut) {
            reinterpret_cast<__half2*>(to)[e / 2] =
                __floats2half2_rn(staged_pair(stage, e), staged_pair(stage, e + 1));
        }
    }
}

template <int kPitch, bool kOwnStage>
constexpr int kWarpBytes = kRows * kPitch * int(sizeof(__half)) +
                           (kOwnStage ? kRows * kStagePitch * int(sizeof(float)) : 0);

// A warp does one sample. The products are staged over the features, or (kOwnStage) behind them.
template <int kPitch, bool kOwnStage, bool kFlat>
__global__ void __launch_bounds__(32 * kWarps) interact(const __half* in, __half* out) {
    extern __shared__ __align__(128) unsigned char memory[];
    const int lane = threadIdx.x % 32, sample = blockIdx.x * kWarps + threadIdx.x / 32;
    unsigned char* mine = memory + threadIdx.x / 32 * kWarpBytes<kPitch, kOwnStage>;
    __half* rows = reinterpret_cast<__half*>(mine);
    float* stage = reinterpret_cast<float*>(mine + (kOwnStage ? kRows * kPitch * sizeof(__half) : 0));
    fetch_rows<kPitch>(rows, in + sample * size_t(kFeatures * kDim), lane);
    multiply_rows<kPitch, false>(rows, stage);
    __half* to = out + sample * size_t(kOut);
    if (kFlat) {
        write_flat(stage, to, lane);
    } else {
        write_rows(stage, to, lane);
    }
}

template <int kPitch, bool kOwnStage, bool kFlat>
void launch_interact(const __half* in, __half* out, int samples) {
    constexpr int kBytes = kWarps * kWarpBytes<kPitch, kOwnStage>;
    if (kBytes > 48 * 1024) {
        BOOK_CHECK(cudaFuncSetAttribute(interact<kPitch, kOwnStage, kFlat>,
                                        cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
    }
    interact<kPitch, kOwnStage, kFlat><<<samples / kWarps, 32 * kWarps, kBytes>>>(in, out);
}
//: end

//: variant register_tiles
// A warp does one sample. Lane (p, q) with p >= q has the products of rows p, p + 7, p + 14, p + 21
// with rows q, q + 7, q + 14, q + 21.
__global__ void __launch_bounds__(32 * kWarps) interact_registers(const __half* in, __half* out) {
    constexpr int kPitch = 136;
    extern __shared__ __align__(128) unsigned char memory[];
    const int lane = threadIdx.x % 32, sample = blockIdx.x * kWarps + threadIdx.x / 32;
    __half* rows = reinterpret_cast<__half*>(memory) + threadIdx.x / 32 * kRows * kPitch;
    fetch_rows<kPitch>(rows, in + sample * size_t(kFeatures * kDim), lane);
    const int2 tile = pair_at(min(lane, 27));
    const int p = tile.x - 1, q = tile.y;
    const uint2* left = reinterpret_cast<const uint2*>(rows + p * kPitch);
    const uint2* right = reinterpret_cast<const uint2*>(rows + q * kPitch);
    float sums[4][4] = {};
#pragma unroll 2
    for (int k = 0; k < kDim / 4; ++k) {
        float4 a[4], b[4];
#pragma unroll
        for (int t = 0; t < 4; ++t) {
            const uint2 x = left[t * 7 * kPitch / 4 + k], y = right[t * 7 * kPitch / 4 + k];
            const float2 x0 = __half22float2(reinterpret_cast<const __half2&>(x.x));
            const float2 x1 = __half22float2(reinterpret_cast<const __half2&>(x.y));
            const float2 y0 = __half22float2(reinterpret_cast<const __half2&>(y.x));
            const float2 y1 = __half22float2(reinterpret_cast<const __half2&>(y.y));
            a[t] = make_float4(x0.x, x0.y, x1.x, x1.y);
            b[t] = make_float4(y0.x, y0.y, y1.x, y1.y);
        }
#pragma unroll
        for (int s = 0; s < 4; ++s) {
#pragma unroll
            for (int t = 0; t < 4; ++t) {
                float sum = fmaf(a[s].x, b[t].x, sums[s][t]);
                sum = fmaf(a[s].y, b[t].y, sum);
                sum = fmaf(a[s].z, b[t].z, sum);
                sums[s][t] = fmaf(a[s].w, b[t].w, sum);
            }
        }
    }
    __syncwarp();
    float* stage = reinterpret_cast<float*>(rows);
#pragma unroll
    for (int s = 0; s < 4; ++s) {
#pragma unroll
        for (int t = 0; t < 4; ++t) {
            const int i = p + 7 * s, j = q + 7 * t;
            if (lane < 28 && i != j) stage[max(i, j) * kStagePitch + min(i, j)] = sums[s][t];
        }
    }
    __syncwarp();
    write_rows(stage, out + sample * size_t(kOut), lane);
}

void register_tiles(const Batch& b) {
    const int bytes = kWarps * kRows * 136 * int(sizeof(__half));
    interact_registers<<<b.samples / kWarps, 32 * kWarps, bytes>>>(b.in, b.out);
}
//: end

//: variant pitch_160
void pitch_160(const Batch& b) {
    launch_interact<160, false, false>(b.in, b.out, b.samples);
}
//: end

//: variant pitch_136
void pitch_136(const Batch& b) {
    launch_interact<136, false, false>(b.in, b.out, b.samples);
}
//: end

//: variant stage_behind
void stage_behind(const Batch& b) {
    launch_interact<136, true, false>(b.in, b.out, b.samples);
}
//: end

//: variant flat_writes
void flat_writes(const Batch& b) {
    launch_interact<136, false, true>(b.in, b.out, b.samples);
}
//: end

//: variant product_then_pairs
// The products of all features of a sample, 32 x 32; the pairs are picked by another kernel.
__global__ void __launch_bounds__(32 * kWarps) multiply_features(const __half* in, __half2* products) {
    constexpr int kPitch = 136;
    extern __shared__ __align__(128) unsigned char memory[];
    const int lane = threadIdx.x % 32, sample = blockIdx.x * kWarps + threadIdx.x / 32;
    __half* rows = reinterpret_cast<__half*>(memory) + threadIdx.x / 32 * kRows * kPitch;
    float* stage = reinterpret_cast<float*>(rows);
    fetch_rows<kPitch>(rows, in + sample * size_t(kFeatures * kDim), lane);
    multiply_rows<kPitch, true>(rows, stage);
    __half2* to = products + sample * size_t(kRows * kRows / 2);
#pragma unroll 4
    for (int k = lane; k < kRows * kRows / 2; k += 32) {
        const float2 v = reinterpret_cast<const float2*>(stage + k / 16 * kStagePitch)[k % 16];
        to[k] = __floats2half2_rn(v.x, v.y);
    }
}

__global__ void __launch_bounds__(kOut / 2) pick_pairs(const __half* products, __half2* out) {
    const __half* own = products + blockIdx.x * size_t(kRows * kRows);
    const int e = 2 * threadIdx.x;
    const int2 first = pair_at(e), second = pair_at(e + 1);
    const __half low = own[first.x * kRows + first.y];
    const __half high = e + 1 < kPairs ? own[second.x * kRows + second.y] : __float2half(0.0f);
    out[blockIdx.x * size_t(kOut / 2) + threadIdx.x] = __halves2half2(low, high);
}

void product_then_pairs(const Batch& b) {
    const int bytes = kWarps * kRows * 136 * int(sizeof(__half));
    multiply_features<<<b.samples / kWarps, 32 * kWarps, bytes>>>(
        b.in, reinterpret_cast<__half2*>(b.products));
    pick_pairs<<<b.samples, kOut / 2>>>(b.products, reinterpret_cast<__half2*>(b.out));
}
//: end

//: variant request_by_request
constexpr int kRequest = 768;  // samples

void request_by_request(const Batch& b, const book::Problem* problem) {
    for (int i = 0; i < b.samples / kRequest; ++i) {
        launch_interact<136, false, false>(b.in + size_t(i) * kRequest * kFeatures * kDim,
                                           b.out + size_t(i) * kRequest * kOut, kRequest);
        problem->launched(i);
    }
}
//: end

//: variant requests_together
void requests_together(const Batch& b) {
    launch_interact<136, false, false>(b.in, b.out, b.samples);
}
//: end

// A block a sample.
__global__ void reference_pairs(const __half* in, __half* expected) {
    const __half* own = in + blockIdx.x * size_t(27 * 128);
    for (int e = threadIdx.x; e < 352; e += blockDim.x) {
        int i = 1;
        while ((i + 1) * i / 2 <= e) ++i;
        const int j = e - i * (i - 1) / 2;
        float sum = 0;
        for (int k = 0; e < 351 && k < 128; ++k) {
            sum += __half2float(own[i * 128 + k]) * __half2float(own[j * 128 + k]);
        }
        expected[blockIdx.x * size_t(352) + e] = __float2half(sum);
    }
}

Batch batch_of(book::Problem& p, int samples, bool scratch) {
    Batch b{samples};
    b.in = p.uniform<__half>(size_t(samples) * kFeatures * kDim, -1, 1);
    b.out = p.output<__half>(size_t(samples) * kOut);
    b.products = scratch ? p.output<__half>(size_t(samples) * kRows * kRows) : nullptr;
    p.needs({.dram_bytes = 2.0 * samples * (kFeatures * kDim + kOut),
             .tensor_flop = 2.0 * samples * kPairs * kDim});
    p.check<__half>(b.out, size_t(samples) * kOut, {2e-3, 4e-3}, [=](__half* expected) {
        reference_pairs<<<samples, 128>>>(b.in, expected);
    });
    return b;
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("training", [](book::Problem& p) {
        const auto b = batch_of(p, 24576, true);
        p.variant("register_tiles", [=] { register_tiles(b); });
        p.variant("pitch_160", [=] { pitch_160(b); });
        p.variant("pitch_136", [=] { pitch_136(b); });
        p.variant("stage_behind", [=] { stage_behind(b); });
        p.variant("flat_writes", [=] { flat_writes(b); });
        p.variant("product_then_pairs", [=] { product_then_pairs(b); });
    });
    book.problem("serving", [](book::Problem& p) {
        const auto b = batch_of(p, 16 * 768, false);
        auto* problem = &p;
        p.variant("request_by_request", [=] { request_by_request(b, problem); });
        p.variant("requests_together", [=] { requests_together(b); });
    });
    return book.finish();
}
