// Moments of samples by bin: number, sum and sum of squares of floats, or number and sum of integers.
#include "../../harness/book.h"

struct Samples {
    int count, bins;
    const unsigned char* bin;
    const float* value;
    unsigned long long* number;  // results; they start at zero
    double *sum, *square;
};

struct Levels {
    int count, bins;
    const unsigned char* bin;
    const unsigned short* level;
    unsigned long long *number, *sum;  // results; they start at zero
};

//: shared
constexpr int kBlock = 256;
constexpr int kGrid = 1024;
constexpr int kWarps = kBlock / 32;

// Each block has a piece of the samples of its own, a multiple of 4 * kBlock.
struct Piece {
    int first, end;  // in groups of four samples
};

__device__ inline Piece piece_of_block(int count) {
    const int groups = count / 4 / gridDim.x;
    return {int(blockIdx.x) * groups + int(threadIdx.x), int(blockIdx.x + 1) * groups};
}

template <class T>
__device__ inline T warp_sum(T v) {
    for (int step = 16; step > 0; step /= 2) v += __shfl_down_sync(~0u, v, step);
    return v;
}
//: end

// --- moments of floats

//: variant block_bins
__global__ void moments_block(int count, int bins, const uchar4* __restrict__ bin,
                              const float4* __restrict__ value, unsigned long long* number,
                              double* sum, double* square) {
    __shared__ unsigned n[256];
    __shared__ float s[256], q[256];
    for (int b = threadIdx.x; b < bins; b += kBlock) n[b] = 0, s[b] = 0, q[b] = 0;
    __syncthreads();
    const auto add = [&](int b, float v) {
        atomicAdd(&n[b], 1u);
        atomicAdd(&s[b], v);
        atomicAdd(&q[b], v * v);
    };
    const Piece piece = piece_of_block(count);
    for (int i = piece.first; i < piece.end; i += kBlock) {
        const uchar4 b = bin[i];
        const float4 v = value[i];
        add(b.x, v.x), add(b.y, v.y), add(b.z, v.z), add(b.w, v.w);
    }
    __syncthreads();
    for (int b = threadIdx.x; b < bins; b += kBlock) {
        if (n[b] == 0) continue;
        atomicAdd(&number[b], static_cast<unsigned long long>(n[b]));
        atomicAdd(&sum[b], double(s[b]));
        atomicAdd(&square[b], double(q[b]));
    }
}

void block_bins(const Samples& d) {
    moments_block<<<kGrid, kBlock>>>(d.count, d.bins, reinterpret_cast<const uchar4*>(d.bin),
                                     reinterpret_cast<const float4*>(d.value), d.number, d.sum,
                                     d.square);
}
//: end

//: variant warp_bins
__global__ void moments_warp(int count, int bins, const uchar4* __restrict__ bin,
                             const float4* __restrict__ value, unsigned long long* number,
                             double* sum, double* square) {
    __shared__ unsigned n[kWarps][32];
    __shared__ float s[kWarps][32], q[kWarps][32];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    n[warp][lane] = 0, s[warp][lane] = 0, q[warp][lane] = 0;
    __syncthreads();
    const auto add = [&](int b, float v) {
        atomicAdd(&n[warp][b], 1u);
        atomicAdd(&s[warp][b], v);
        atomicAdd(&q[warp][b], v * v);
    };
    const Piece piece = piece_of_block(count);
    for (int i = piece.first; i < piece.end; i += kBlock) {
        const uchar4 b = bin[i];
        const float4 v = value[i];
        add(b.x, v.x), add(b.y, v.y), add(b.z, v.z), add(b.w, v.w);
    }
    __syncthreads();
    for (int b = threadIdx.x; b < bins; b += kBlock) {
        unsigned all_n = 0;
        float all_s = 0, all_q = 0;
        for (int w = 0; w < kWarps; ++w) all_n += n[w][b], all_s += s[w][b], all_q += q[w][b];
        atomicAdd(&number[b], static_cast<unsigned long long>(all_n));
        atomicAdd(&sum[b], double(all_s));
        atomicAdd(&square[b], double(all_q));
    }
}

void warp_bins(const Samples& d) {
    moments_warp<<<kGrid, kBlock>>>(d.count, d.bins, reinterpret_cast<const uchar4*>(d.bin),
                                    reinterpret_cast<const float4*>(d.value), d.number, d.sum,
                                    d.square);
}
//: end

//: variant thread_bins
// At most 8 bins: one per warp at the end.
__global__ void moments_thread(int count, int bins, const uchar4* __restrict__ bin,
                               const float4* __restrict__ value, unsigned long long* number,
                               double* sum, double* square) {
    __shared__ unsigned n[8][kBlock];
    __shared__ float s[8][kBlock], q[8][kBlock];
    const int t = threadIdx.x, warp = t / 32, lane = t % 32;
    for (int b = 0; b < 8; ++b) n[b][t] = 0, s[b][t] = 0, q[b][t] = 0;
    const auto add = [&](int b, float v) {
        n[b][t] += 1;
        s[b][t] += v;
        q[b][t] += v * v;
    };
    const Piece piece = piece_of_block(count);
    for (int i = piece.first; i < piece.end; i += kBlock) {
        const uchar4 b = bin[i];
        const float4 v = value[i];
        add(b.x, v.x), add(b.y, v.y), add(b.z, v.z), add(b.w, v.w);
    }
    __syncthreads();
    if (warp >= bins) return;
    unsigned all_n = 0;
    float all_s = 0, all_q = 0;
    for (int k = lane; k < kBlock; k += 32) {
        all_n += n[warp][k], all_s += s[warp][k], all_q += q[warp][k];
    }
    all_n = warp_sum(all_n), all_s = warp_sum(all_s), all_q = warp_sum(all_q);
    if (lane == 0) {
        atomicAdd(&number[warp], static_cast<unsigned long long>(all_n));
        atomicAdd(&sum[warp], double(all_s));
        atomicAdd(&square[warp], double(all_q));
    }
}

void thread_bins(const Samples& d) {
    moments_thread<<<kGrid, kBlock>>>(d.count, d.bins, reinterpret_cast<const uchar4*>(d.bin),
                                      reinterpret_cast<const float4*>(d.value), d.number, d.sum,
                                      d.square);
}
//: end

//: variant run_bins
// A thread keeps the moments of its current bin in registers until the bin changes.
__global__ void moments_run(int count, int bins, const uchar4* __restrict__ bin,
                            const float4* __restrict__ value, unsigned long long* number,
                            double* sum, double* square) {
    __shared__ unsigned n[256];
    __shared__ float s[256], q[256];
    for (int b = threadIdx.x; b < bins; b += kBlock) n[b] = 0, s[b] = 0, q[b] = 0;
    __syncthreads();
    int run = -1;
    unsigned run_n = 0;
    float run_s = 0, run_q = 0;
    const auto store = [&] {
        atomicAdd(&n[run], run_n);
        atomicAdd(&s[run], run_s);
        atomicAdd(&q[run], run_q);
    };
    const auto add = [&](int b, float v) {
        if (b != run) {
            if (run_n) store();
            run = b, run_n = 0, run_s = 0, run_q = 0;
        }
        run_n += 1, run_s += v, run_q += v * v;
    };
    const Piece piece = piece_of_block(count);
    for (int i = piece.first; i < piece.end; i += kBlock) {
        const uchar4 b = bin[i];
        const float4 v = value[i];
        add(b.x, v.x), add(b.y, v.y), add(b.z, v.z), add(b.w, v.w);
    }
    int same = 0;
    __match_all_sync(~0u, run, &same);
    if (same) {
        run_n = warp_sum(run_n), run_s = warp_sum(run_s), run_q = warp_sum(run_q);
        if (threadIdx.x % 32 == 0) store();
    } else {
        store();
    }
    __syncthreads();
    for (int b = threadIdx.x; b < bins; b += kBlock) {
        if (n[b] == 0) continue;
        atomicAdd(&number[b], static_cast<unsigned long long>(n[b]));
        atomicAdd(&sum[b], double(s[b]));
        atomicAdd(&square[b], double(q[b]));
    }
}

void run_bins(const Samples& d) {
    moments_run<<<kGrid, kBlock>>>(d.count, d.bins, reinterpret_cast<const uchar4*>(d.bin),
                                   reinterpret_cast<const float4*>(d.value), d.number, d.sum,
                                   d.square);
}
//: end

// --- number and sum of integers. The sum of a block fits 32 bits: 16384 samples of 16 bits.

//: variant levels_block
__global__ void levels_by_block(int count, int bins, const uchar4* __restrict__ bin,
                                const ushort4* __restrict__ level, unsigned long long* number,
                                unsigned long long* sum) {
    __shared__ unsigned n[256], s[256];
    for (int b = threadIdx.x; b < bins; b += kBlock) n[b] = 0, s[b] = 0;
    __syncthreads();
    const auto add = [&](int b, unsigned v) {
        atomicAdd(&n[b], 1u);
        atomicAdd(&s[b], v);
    };
    const Piece piece = piece_of_block(count);
    for (int i = piece.first; i < piece.end; i += kBlock) {
        const uchar4 b = bin[i];
        const ushort4 v = level[i];
        add(b.x, v.x), add(b.y, v.y), add(b.z, v.z), add(b.w, v.w);
    }
    __syncthreads();
    for (int b = threadIdx.x; b < bins; b += kBlock) {
        atomicAdd(&number[b], static_cast<unsigned long long>(n[b]));
        atomicAdd(&sum[b], static_cast<unsigned long long>(s[b]));
    }
}

void levels_block(const Levels& d) {
    levels_by_block<<<kGrid, kBlock>>>(d.count, d.bins, reinterpret_cast<const uchar4*>(d.bin),
                                       reinterpret_cast<const ushort4*>(d.level), d.number, d.sum);
}
//: end

//: variant levels_warp
__global__ void levels_by_warp(int count, int bins, const uchar4* __restrict__ bin,
                               const ushort4* __restrict__ level, unsigned long long* number,
                               unsigned long long* sum) {
    __shared__ unsigned n[kWarps][64], s[kWarps][64];
    const int warp = threadIdx.x / 32;
    for (int b = threadIdx.x % 32; b < bins; b += 32) n[warp][b] = 0, s[warp][b] = 0;
    __syncthreads();
    const auto add = [&](int b, unsigned v) {
        atomicAdd(&n[warp][b], 1u);
        atomicAdd(&s[warp][b], v);
    };
    const Piece piece = piece_of_block(count);
    for (int i = piece.first; i < piece.end; i += kBlock) {
        const uchar4 b = bin[i];
        const ushort4 v = level[i];
        add(b.x, v.x), add(b.y, v.y), add(b.z, v.z), add(b.w, v.w);
    }
    __syncthreads();
    for (int b = threadIdx.x; b < bins; b += kBlock) {
        unsigned all_n = 0, all_s = 0;
        for (int w = 0; w < kWarps; ++w) all_n += n[w][b], all_s += s[w][b];
        atomicAdd(&number[b], static_cast<unsigned long long>(all_n));
        atomicAdd(&sum[b], static_cast<unsigned long long>(all_s));
    }
}

void levels_warp(const Levels& d) {
    levels_by_warp<<<kGrid, kBlock>>>(d.count, d.bins, reinterpret_cast<const uchar4*>(d.bin),
                                      reinterpret_cast<const ushort4*>(d.level), d.number, d.sum);
}
//: end

//: variant levels_lane
// Each lane has a column of bins of its own; the warps of a block share it.
__global__ void levels_by_lane(int count, int bins, const uchar4* __restrict__ bin,
                               const ushort4* __restrict__ level, unsigned long long* number,
                               unsigned long long* sum) {
    __shared__ unsigned n[64][32], s[64][32];
    const int lane = threadIdx.x % 32;
    for (int b = threadIdx.x / 32; b < bins; b += kWarps) n[b][lane] = 0, s[b][lane] = 0;
    __syncthreads();
    const auto add = [&](int b, unsigned v) {
        atomicAdd(&n[b][lane], 1u);
        atomicAdd(&s[b][lane], v);
    };
    const Piece piece = piece_of_block(count);
    for (int i = piece.first; i < piece.end; i += kBlock) {
        const uchar4 b = bin[i];
        const ushort4 v = level[i];
        add(b.x, v.x), add(b.y, v.y), add(b.z, v.z), add(b.w, v.w);
    }
    __syncthreads();
    for (int b = threadIdx.x / 32; b < bins; b += kWarps) {
        const unsigned all_n = warp_sum(n[b][lane]), all_s = warp_sum(s[b][lane]);
        if (lane == 0) {
            atomicAdd(&number[b], static_cast<unsigned long long>(all_n));
            atomicAdd(&sum[b], static_cast<unsigned long long>(all_s));
        }
    }
}

void levels_lane(const Levels& d) {
    levels_by_lane<<<kGrid, kBlock>>>(d.count, d.bins, reinterpret_cast<const uchar4*>(d.bin),
                                      reinterpret_cast<const ushort4*>(d.level), d.number, d.sum);
}
//: end

//: variant levels_long
__global__ void levels_by_block_long(int count, int bins, const uchar4* __restrict__ bin,
                                     const ushort4* __restrict__ level, unsigned long long* number,
                                     unsigned long long* sum) {
    __shared__ unsigned long long n[256], s[256];
    for (int b = threadIdx.x; b < bins; b += kBlock) n[b] = 0, s[b] = 0;
    __syncthreads();
    const auto add = [&](int b, unsigned long long v) {
        atomicAdd(&n[b], 1ull);
        atomicAdd(&s[b], v);
    };
    const Piece piece = piece_of_block(count);
    for (int i = piece.first; i < piece.end; i += kBlock) {
        const uchar4 b = bin[i];
        const ushort4 v = level[i];
        add(b.x, v.x), add(b.y, v.y), add(b.z, v.z), add(b.w, v.w);
    }
    __syncthreads();
    for (int b = threadIdx.x; b < bins; b += kBlock) {
        atomicAdd(&number[b], n[b]);
        atomicAdd(&sum[b], s[b]);
    }
}

void levels_long(const Levels& d) {
    levels_by_block_long<<<kGrid, kBlock>>>(d.count, d.bins, reinterpret_cast<const uchar4*>(d.bin),
                                            reinterpret_cast<const ushort4*>(d.level), d.number,
                                            d.sum);
}
//: end

// --- references: one block per bin

// power 0: number, 1: sum, 2: sum of squares
template <class V, class R>
__global__ void reference_moment(int count, const unsigned char* bin, const V* value, int power,
                                 R* expected) {
    __shared__ R part[1024];
    R total = 0;
    for (int i = threadIdx.x; i < count; i += blockDim.x) {
        if (bin[i] != blockIdx.x) continue;
        const R v = R(value[i]);
        total += power == 0 ? R(1) : power == 1 ? v : v * v;
    }
    part[threadIdx.x] = total;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int t = 1; t < int(blockDim.x); ++t) total += part[t];
        expected[blockIdx.x] = total;
    }
}

// --- problems

Samples set_up_samples(book::Problem& p, int count, int bins, bool sorted) {
    Samples d{count, bins};
    const uint64_t seed = p.seed();
    d.bin = p.input<unsigned char>(count, [=] __device__(size_t i) {
        const double at = sorted ? double(i) / count : book::uniform01(seed, 91, i);
        return static_cast<unsigned char>(bins * at);
    });
    d.value = p.uniform<float>(count, -1, 3);
    d.number = p.zeroed<unsigned long long>(bins);
    d.sum = p.zeroed<double>(bins);
    d.square = p.zeroed<double>(bins);
    p.needs({.dram_bytes = 5.0 * count + 24.0 * bins, .fp32_flop = 3.0 * count});
    p.check<unsigned long long>(d.number, bins, {0}, [=](unsigned long long* expected) {
        reference_moment<<<bins, 1024>>>(count, d.bin, d.value, 0, expected);
    });
    p.check<double>(d.sum, bins, {3e-5}, [=](double* expected) {
        reference_moment<<<bins, 1024>>>(count, d.bin, d.value, 1, expected);
    });
    p.check<double>(d.square, bins, {3e-5}, [=](double* expected) {
        reference_moment<<<bins, 1024>>>(count, d.bin, d.value, 2, expected);
    });
    return d;
}

Levels set_up_levels(book::Problem& p, int count, int bins, double high) {
    Levels d{count, bins};
    d.bin = p.uniform<unsigned char>(count, 0, bins);
    d.level = p.uniform<unsigned short>(count, 0, high);
    d.number = p.zeroed<unsigned long long>(bins);
    d.sum = p.zeroed<unsigned long long>(bins);
    p.needs({.dram_bytes = 3.0 * count + 16.0 * bins, .int_op = 2.0 * count});
    for (int power : {0, 1}) {
        p.check<unsigned long long>(power ? d.sum : d.number, bins, {0},
                                    [=](unsigned long long* expected) {
            reference_moment<<<bins, 1024>>>(count, d.bin, d.level, power, expected);
        });
    }
    return d;
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("phases_8", [](book::Problem& p) {
        const auto d = set_up_samples(p, 1 << 24, 8, false);
        p.variant("block_bins", [=] { block_bins(d); });
        p.variant("warp_bins", [=] { warp_bins(d); });
        p.variant("thread_bins", [=] { thread_bins(d); });
    });
    book.problem("time_256", [](book::Problem& p) {
        const auto d = set_up_samples(p, 1 << 23, 256, true);
        p.variant("block_bins", [=] { block_bins(d); });
        p.variant("run_bins", [=] { run_bins(d); });
    });
    book.problem("levels_64", [](book::Problem& p) {
        const auto d = set_up_levels(p, 1 << 24, 64, 4096);
        p.variant("levels_block", [=] { levels_block(d); });
        p.variant("levels_warp", [=] { levels_warp(d); });
        p.variant("levels_lane", [=] { levels_lane(d); });
    });
    book.problem("levels_256", [](book::Problem& p) {
        const auto d = set_up_levels(p, 1 << 24, 256, 65536);
        p.variant("levels_block", [=] { levels_block(d); });
        p.variant("levels_long", [=] { levels_long(d); });
    });
    return book.finish();
}
