// Streaming kernels that keep the rest of the program informed, or are told by it what to do: the overload
// flag of a limiter, a cancel word, a threshold that may change while the kernel runs.
#include "../../harness/book.h"

//: shared
constexpr int kBlock = 256;
constexpr int kBlocks = 132 * 8;
//: end

// --- limiter: stereo frames, and a flag that is raised once a sample was limited

//: shared
constexpr int kStride = kBlocks * kBlock;
constexpr int kAhead = 4;  // frames that a thread loads at a time

struct Limiter {
    int frames;  // a multiple of kAhead * kStride
    const float2* in;
    float2* out;
    unsigned* overload;
    float limit;
};

__device__ inline bool is_over(float2 frame, float limit) {
    return fmaxf(fabsf(frame.x), fabsf(frame.y)) > limit;
}

__device__ inline float2 limited(float2 frame, float limit) {
    return make_float2(fminf(fmaxf(frame.x, -limit), limit), fminf(fmaxf(frame.y, -limit), limit));
}
//: end

//: variant raise_if_down
__global__ void __launch_bounds__(kBlock) limit_frames(const float2* __restrict__ in, float2* __restrict__ out,
                                                       volatile unsigned* overload, int frames, float limit) {
#pragma unroll 1
    for (int i = blockIdx.x * kBlock + threadIdx.x; i < frames; i += kAhead * kStride) {
        float2 frame[kAhead];
        for (int k = 0; k < kAhead; ++k) frame[k] = in[i + k * kStride];
        for (int k = 0; k < kAhead; ++k) {
            if (is_over(frame[k], limit) && *overload == 0) *overload = 1;
            out[i + k * kStride] = limited(frame[k], limit);
        }
    }
}

void raise_if_down(const Limiter& d) {
    limit_frames<<<kBlocks, kBlock>>>(d.in, d.out, d.overload, d.frames, d.limit);
}
//: end

//: variant raise_each
__global__ void __launch_bounds__(kBlock) limit_frames_raising(const float2* __restrict__ in,
                                                               float2* __restrict__ out,
                                                               volatile unsigned* overload, int frames,
                                                               float limit) {
#pragma unroll 1
    for (int i = blockIdx.x * kBlock + threadIdx.x; i < frames; i += kAhead * kStride) {
        float2 frame[kAhead];
        for (int k = 0; k < kAhead; ++k) frame[k] = in[i + k * kStride];
        for (int k = 0; k < kAhead; ++k) {
            if (is_over(frame[k], limit)) *overload = 1;
            out[i + k * kStride] = limited(frame[k], limit);
        }
    }
}

void raise_each(const Limiter& d) {
    limit_frames_raising<<<kBlocks, kBlock>>>(d.in, d.out, d.overload, d.frames, d.limit);
}
//: end

//: variant raise_at_end
__global__ void __launch_bounds__(kBlock) limit_frames_noting(const float2* __restrict__ in,
                                                              float2* __restrict__ out,
                                                              volatile unsigned* overload, int frames,
                                                              float limit) {
    bool over = false;
#pragma unroll 1
    for (int i = blockIdx.x * kBlock + threadIdx.x; i < frames; i += kAhead * kStride) {
        float2 frame[kAhead];
        for (int k = 0; k < kAhead; ++k) frame[k] = in[i + k * kStride];
        for (int k = 0; k < kAhead; ++k) {
            over |= is_over(frame[k], limit);
            out[i + k * kStride] = limited(frame[k], limit);
        }
    }
    if (__syncthreads_or(over) && threadIdx.x == 0) *overload = 1;
}

void raise_at_end(const Limiter& d) {
    limit_frames_noting<<<kBlocks, kBlock>>>(d.in, d.out, d.overload, d.frames, d.limit);
}
//: end

// --- keyed checksum of words, which another thread of the program may cancel

//: shared
struct Words {
    int pairs;
    const uint2* in;
    uint2* out;
    const int* cancel;  // set to 1 to make the kernel stop
};

__device__ inline unsigned scrambled(unsigned value) {
    value = (value ^ (value >> 16)) * 0x7feb352du;
    value = (value ^ (value >> 15)) * 0x846ca68bu;
    return value ^ (value >> 16);
}
//: end

//: variant ask_each
__global__ void __launch_bounds__(kBlock) scramble(const uint2* __restrict__ in, uint2* __restrict__ out,
                                                   const volatile int* cancel, int pairs) {
#pragma unroll 1
    for (int i = blockIdx.x * kBlock + threadIdx.x; i < pairs; i += kBlocks * kBlock) {
        const uint2 pair = in[i];
        if (*cancel) return;
        out[i] = make_uint2(scrambled(pair.x), scrambled(pair.y));
    }
}

void ask_each(const Words& d) {
    scramble<<<kBlocks, kBlock>>>(d.in, d.out, d.cancel, d.pairs);
}
//: end

//: variant ask_every_16
__global__ void __launch_bounds__(kBlock) scramble_asking_less(const uint2* __restrict__ in,
                                                               uint2* __restrict__ out,
                                                               const volatile int* cancel, int pairs) {
    int turn = 0;
#pragma unroll 1
    for (int i = blockIdx.x * kBlock + threadIdx.x; i < pairs; i += kBlocks * kBlock) {
        const uint2 pair = in[i];
        if (turn++ % 16 == 0 && *cancel) return;
        out[i] = make_uint2(scrambled(pair.x), scrambled(pair.y));
    }
}

void ask_every_16(const Words& d) {
    scramble_asking_less<<<kBlocks, kBlock>>>(d.in, d.out, d.cancel, d.pairs);
}
//: end

//: variant ask_first
__global__ void __launch_bounds__(kBlock) scramble_asking_first(const uint2* __restrict__ in,
                                                                uint2* __restrict__ out,
                                                                const volatile int* cancel, int pairs) {
    if (*cancel) return;
#pragma unroll 1
    for (int i = blockIdx.x * kBlock + threadIdx.x; i < pairs; i += kBlocks * kBlock) {
        const uint2 pair = in[i];
        out[i] = make_uint2(scrambled(pair.x), scrambled(pair.y));
    }
}

void ask_first(const Words& d) {
    scramble_asking_first<<<kBlocks, kBlock>>>(d.in, d.out, d.cancel, d.pairs);
}
//: end

// --- events: how many samples of each row of 64 lie above a threshold

//: shared
constexpr int kWidth = 64;

struct Events {
    int rows;
    const float* samples;    // [rows][kWidth]
    const float* threshold;  // the operator may turn it while the kernel runs
    int* count;
};
//: end

//: variant row_live
__global__ void __launch_bounds__(kBlock) count_row_live(const float* __restrict__ samples,
                                                         const volatile float* threshold,
                                                         int* __restrict__ count, int rows) {
    const int row = blockIdx.x * kBlock + threadIdx.x;
    if (row >= rows) return;
    int above = 0;
#pragma unroll 8
    for (int i = 0; i < kWidth; ++i) above += samples[size_t(row) * kWidth + i] > *threshold;
    count[row] = above;
}

void row_live(const Events& d) {
    count_row_live<<<(d.rows + kBlock - 1) / kBlock, kBlock>>>(d.samples, d.threshold, d.count, d.rows);
}
//: end

//: variant row_once
__global__ void __launch_bounds__(kBlock) count_row_once(const float* __restrict__ samples,
                                                         const volatile float* threshold,
                                                         int* __restrict__ count, int rows) {
    __shared__ float level;
    if (threadIdx.x == 0) level = *threshold;
    __syncthreads();
    const int row = blockIdx.x * kBlock + threadIdx.x;
    if (row >= rows) return;
    int above = 0;
#pragma unroll 8
    for (int i = 0; i < kWidth; ++i) above += samples[size_t(row) * kWidth + i] > level;
    count[row] = above;
}

void row_once(const Events& d) {
    count_row_once<<<(d.rows + kBlock - 1) / kBlock, kBlock>>>(d.samples, d.threshold, d.count, d.rows);
}
//: end

//: variant warp_live
__global__ void __launch_bounds__(kBlock) count_warp_live(const float* __restrict__ samples,
                                                          const volatile float* threshold,
                                                          int* __restrict__ count, int rows) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int first = blockIdx.x * kBlock + warp * 32;
    int mine = 0;
#pragma unroll 8
    for (int r = 0; r < 32; ++r) {
        const float* row = samples + size_t(first + r) * kWidth;
        int above = __popc(__ballot_sync(~0u, row[lane] > *threshold));
        above += __popc(__ballot_sync(~0u, row[lane + 32] > *threshold));
        if (lane == r) mine = above;
    }
    count[first + lane] = mine;
}

void warp_live(const Events& d) {
    count_warp_live<<<d.rows / kBlock, kBlock>>>(d.samples, d.threshold, d.count, d.rows);
}
//: end

//: variant warp_once
__global__ void __launch_bounds__(kBlock) count_warp_once(const float* __restrict__ samples,
                                                          const volatile float* threshold,
                                                          int* __restrict__ count, int rows) {
    __shared__ float level;
    if (threadIdx.x == 0) level = *threshold;
    __syncthreads();
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int first = blockIdx.x * kBlock + warp * 32;
    int mine = 0;
#pragma unroll 8
    for (int r = 0; r < 32; ++r) {
        const float* row = samples + size_t(first + r) * kWidth;
        int above = __popc(__ballot_sync(~0u, row[lane] > level));
        above += __popc(__ballot_sync(~0u, row[lane + 32] > level));
        if (lane == r) mine = above;
    }
    count[first + lane] = mine;
}

void warp_once(const Events& d) {
    count_warp_once<<<d.rows / kBlock, kBlock>>>(d.samples, d.threshold, d.count, d.rows);
}
//: end

// --- references and problems

__global__ void reference_limited(const float* in, float* expected, size_t count, float limit) {
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count;
         i += size_t{gridDim.x} * blockDim.x) {
        expected[i] = in[i] > limit ? limit : in[i] < -limit ? -limit : in[i];
    }
}

__global__ void reference_flag(const float* in, unsigned* expected, size_t count, float limit) {
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count;
         i += size_t{gridDim.x} * blockDim.x) {
        if ((in[i] > limit || in[i] < -limit) && *expected == 0) atomicMax(expected, 1u);
    }
}

__global__ void reference_words(const unsigned* in, unsigned* expected, int count) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        unsigned v = in[i];
        v ^= v >> 16;
        v *= 0x7feb352du;
        v ^= v >> 15;
        v *= 0x846ca68bu;
        expected[i] = v ^ (v >> 16);
    }
}

__global__ void reference_events(const float* samples, const float* threshold, int* expected, int rows) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    int above = 0;
    for (int i = 0; i < kWidth; ++i) above += samples[size_t(row) * kWidth + i] > *threshold ? 1 : 0;
    expected[row] = above;
}

// `loud`: share of the stretches of 4096 samples in which half of the samples are over the limit; in the
// others one in a thousand is.
void limiter_problem(book::Book& book, const char* name, int frames, double loud) {
    book.problem(name, [=](book::Problem& p) {
        Limiter d{frames};
        const size_t count = size_t(frames) * 2;
        const uint64_t seed = p.seed();
        d.limit = 0.8f;
        float* in = p.input<float>(count, [=] __device__(size_t i) {
            const bool is_loud = book::uniform01(seed, 301, i / 4096) < loud;
            const double u = book::uniform01(seed, 302, i);
            const double over = is_loud ? 0.5 : 1e-3;
            const double size = u < over ? 0.81 + u : 0.79 * u;
            return float(book::uniform01(seed, 303, i) < 0.5 ? -size : size);
        });
        float* out = p.output<float>(count);
        d.in = reinterpret_cast<const float2*>(in);
        d.out = reinterpret_cast<float2*>(out);
        d.overload = p.zeroed<unsigned>(1);
        p.needs({.dram_bytes = 8.0 * count});
        p.check<float>(out, count, {0}, [=](float* expected) {
            reference_limited<<<1056, 256>>>(in, expected, count, d.limit);
        });
        p.check<unsigned>(d.overload, 1, {0}, [=](unsigned* expected) {
            reference_flag<<<1056, 256>>>(in, expected, count, d.limit);
        });
        p.variant("raise_if_down", [=] { raise_if_down(d); });
        p.variant("raise_each", [=] { raise_each(d); });
        p.variant("raise_at_end", [=] { raise_at_end(d); });
    });
}

void words_problem(book::Book& book, const char* name, int count) {
    book.problem(name, [=](book::Problem& p) {
        Words d{count / 2};
        const unsigned* in = p.uniform<unsigned>(count, 0, 4e9);
        unsigned* out = p.output<unsigned>(count);
        d.in = reinterpret_cast<const uint2*>(in);
        d.out = reinterpret_cast<uint2*>(out);
        d.cancel = p.input<int>(8, [=] __device__(size_t) { return 0; });
        p.needs({.dram_bytes = 8.0 * count});
        p.check<unsigned>(out, count, {0}, [=](unsigned* expected) {
            reference_words<<<1056, 256>>>(in, expected, count);
        });
        p.variant("ask_each", [=] { ask_each(d); });
        p.variant("ask_every_16", [=] { ask_every_16(d); });
        p.variant("ask_first", [=] { ask_first(d); });
    });
}

void events_problem(book::Book& book, const char* name, int rows) {
    book.problem(name, [=](book::Problem& p) {
        Events d{rows};
        d.samples = p.uniform<float>(size_t(rows) * kWidth, 0, 1);
        d.threshold = p.input<float>(8, [=] __device__(size_t) { return 0.7f; });
        d.count = p.output<int>(rows);
        p.needs({.dram_bytes = 4.0 * rows * kWidth + 4.0 * rows});
        p.check<int>(d.count, rows, {0}, [=](int* expected) {
            reference_events<<<(rows + 255) / 256, 256>>>(d.samples, d.threshold, expected, rows);
        });
        p.variant("row_live", [=] { row_live(d); });
        p.variant("row_once", [=] { row_once(d); });
        p.variant("warp_live", [=] { warp_live(d); });
        p.variant("warp_once", [=] { warp_once(d); });
    });
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    limiter_problem(book, "loud", 16 * kAhead * kStride, 1.0);
    limiter_problem(book, "bursts", 16 * kAhead * kStride, 0.28);
    limiter_problem(book, "quiet", 16 * kAhead * kStride, 0.0);
    words_problem(book, "words", 32 << 20);
    events_problem(book, "events", 256 * 2112);
    return book.finish();
}
