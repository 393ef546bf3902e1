// Escape times of the quadratic map, over images and over lists of points.
#include "../../harness/book.h"

//: shared
struct View {
    int width, height, limit;
    float left, top, step_x, step_y;
    int* times;
    int* next;  // counter, zero at the start
};

constexpr int kBlocks = 132;
constexpr int kThreads = 1024;
constexpr int kPiece = 256;  // pixels that a warp fetches at a time

__device__ inline int escape(float cx, float cy, int limit) {
    float x = 0, y = 0;
    int n = 0;
    while (n < limit && fmaf(x, x, y * y) <= 4.0f) {
        const float next = fmaf(x, x, fmaf(-y, y, cx));
        y = fmaf(2.0f * x, y, cy);
        x = next;
        ++n;
    }
    return n;
}

// The largest parts of the set, whose points are known to stay.
__device__ inline bool stays(float cx, float cy) {
    const float from = cx - 0.25f, square = from * from + cy * cy;
    const float left = cx + 1.0f;
    return square * (square + from) < 0.2499f * cy * cy || left * left + cy * cy < 0.0624f;
}
//: end

//: variant bands
__global__ void times_bands(View v) {
    const int rows = (v.height + kBlocks - 1) / kBlocks;
    const int first = blockIdx.x * rows, last = min(first + rows, v.height);
    for (int i = first * v.width + threadIdx.x; i < last * v.width; i += kThreads) {
        const float cx = v.left + (i % v.width) * v.step_x;
        const float cy = v.top + (i / v.width) * v.step_y;
        v.times[i] = escape(cx, cy, v.limit);
    }
}

void bands(const View& v) { times_bands<<<kBlocks, kThreads>>>(v); }
//: end

//: variant bands_inside
__global__ void times_bands_inside(View v) {
    const int rows = (v.height + kBlocks - 1) / kBlocks;
    const int first = blockIdx.x * rows, last = min(first + rows, v.height);
    for (int i = first * v.width + threadIdx.x; i < last * v.width; i += kThreads) {
        const float cx = v.left + (i % v.width) * v.step_x;
        const float cy = v.top + (i / v.width) * v.step_y;
        v.times[i] = stays(cx, cy) ? v.limit : escape(cx, cy, v.limit);
    }
}

void bands_inside(const View& v) { times_bands_inside<<<kBlocks, kThreads>>>(v); }
//: end

//: variant fetched
__global__ void times_fetched(View v) {
    const int lane = threadIdx.x % 32, count = v.width * v.height;
    for (;;) {
        int first = 0;
        if (lane == 0) first = atomicAdd(v.next, kPiece);
        first = __shfl_sync(~0u, first, 0);
        if (first >= count) return;
        for (int i = first + lane; i < min(first + kPiece, count); i += 32) {
            const float cx = v.left + (i % v.width) * v.step_x;
            const float cy = v.top + (i / v.width) * v.step_y;
            v.times[i] = escape(cx, cy, v.limit);
        }
    }
}

void fetched(const View& v) { times_fetched<<<kBlocks, kThreads>>>(v); }
//: end

//: variant fetched_128
__global__ void times_fetched_128(View v) {
    constexpr int piece = 128;
    const int lane = threadIdx.x % 32, count = v.width * v.height;
    for (;;) {
        int first = 0;
        if (lane == 0) first = atomicAdd(v.next, piece);
        first = __shfl_sync(~0u, first, 0);
        if (first >= count) return;
        for (int i = first + lane; i < min(first + piece, count); i += 32) {
            const float cx = v.left + (i % v.width) * v.step_x;
            const float cy = v.top + (i / v.width) * v.step_y;
            v.times[i] = escape(cx, cy, v.limit);
        }
    }
}

void fetched_128(const View& v) { times_fetched_128<<<kBlocks, kThreads>>>(v); }
//: end

//: variant fetched_inside
__global__ void times_fetched_inside(View v) {
    const int lane = threadIdx.x % 32, count = v.width * v.height;
    for (;;) {
        int first = 0;
        if (lane == 0) first = atomicAdd(v.next, kPiece);
        first = __shfl_sync(~0u, first, 0);
        if (first >= count) return;
        for (int i = first + lane; i < min(first + kPiece, count); i += 32) {
            const float cx = v.left + (i % v.width) * v.step_x;
            const float cy = v.top + (i / v.width) * v.step_y;
            v.times[i] = stays(cx, cy) ? v.limit : escape(cx, cy, v.limit);
        }
    }
}

void fetched_inside(const View& v) { times_fetched_inside<<<kBlocks, kThreads>>>(v); }
//: end

//: variant fetched_columns
__global__ void times_fetched_columns(View v) {
    const int lane = threadIdx.x % 32, count = v.width * v.height;
    for (;;) {
        int first = 0;
        if (lane == 0) first = atomicAdd(v.next, kPiece);
        first = __shfl_sync(~0u, first, 0);
        if (first >= count) return;
        for (int i = first + lane; i < min(first + kPiece, count); i += 32) {
            const int column = i / v.height, row = i % v.height;
            const float cx = v.left + column * v.step_x;
            const float cy = v.top + row * v.step_y;
            v.times[row * v.width + column] = escape(cx, cy, v.limit);
        }
    }
}

void fetched_columns(const View& v) { times_fetched_columns<<<kBlocks, kThreads>>>(v); }
//: end

//: variant fetched_exact
__global__ void times_fetched_exact(View v) {
    const int lane = threadIdx.x % 32, count = v.width * v.height;
    for (;;) {
        int first = 0;
        if (lane == 0) first = atomicAdd(v.next, kPiece);
        first = __shfl_sync(~0u, first, 0);
        if (first >= count) return;
        for (int i = first + lane; i < min(first + kPiece, count); i += 32) {
            const float cx = -2.25 + (i % v.width) * 0.000732421875;
            const float cy = -1.546875 + (i / v.width) * 0.00146484375;
            v.times[i] = escape(cx, cy, v.limit);
        }
    }
}

void fetched_exact(const View& v) { times_fetched_exact<<<kBlocks, kThreads>>>(v); }
//: end

//: variant fetched_fours
// Four steps between tests; those in which the point escapes are done again one by one.
__device__ inline int escape_fours(float cx, float cy, int limit) {
    float x = 0, y = 0;
    int n = 0;
    while (n + 4 <= limit) {
        const float saved_x = x, saved_y = y;
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            const float next = fmaf(x, x, fmaf(-y, y, cx));
            y = fmaf(2.0f * x, y, cy);
            x = next;
        }
        if (fmaf(x, x, y * y) > 4.0f) {
            x = saved_x;
            y = saved_y;
            break;
        }
        n += 4;
    }
    while (n < limit && fmaf(x, x, y * y) <= 4.0f) {
        const float next = fmaf(x, x, fmaf(-y, y, cx));
        y = fmaf(2.0f * x, y, cy);
        x = next;
        ++n;
    }
    return n;
}

__global__ void times_fetched_fours(View v) {
    const int lane = threadIdx.x % 32, count = v.width * v.height;
    for (;;) {
        int first = 0;
        if (lane == 0) first = atomicAdd(v.next, kPiece);
        first = __shfl_sync(~0u, first, 0);
        if (first >= count) return;
        for (int i = first + lane; i < min(first + kPiece, count); i += 32) {
            const float cx = v.left + (i % v.width) * v.step_x;
            const float cy = v.top + (i / v.width) * v.step_y;
            v.times[i] = escape_fours(cx, cy, v.limit);
        }
    }
}

void fetched_fours(const View& v) { times_fetched_fours<<<kBlocks, kThreads>>>(v); }
//: end

//: shared
struct Points {
    int count, limit;
    const float2* c;
    int* times;
};
constexpr int kPointBlock = 128;
constexpr int kPointsPerWarp = 1024;

inline int point_blocks(int count) { return count / kPointsPerWarp / (kPointBlock / 32); }
//: end

//: variant in_turn
__global__ void times_in_turn(const float2* c, int* times, int limit) {
    const int warp = (blockIdx.x * kPointBlock + threadIdx.x) / 32, lane = threadIdx.x % 32;
    const int first = warp * kPointsPerWarp;
    for (int k = lane; k < kPointsPerWarp; k += 32) {
        const float2 at = c[first + k];
        float x = 0, y = 0;
        int n = 0;
        while (n < limit && fmaf(x, x, y * y) <= 4.0f) {
            const float next = fmaf(x, x, fmaf(-y, y, at.x));
            y = fmaf(2.0f * x, y, at.y);
            x = next;
            ++n;
        }
        times[first + k] = n;
    }
}

void in_turn(const Points& d) {
    times_in_turn<<<point_blocks(d.count), kPointBlock>>>(d.c, d.times, d.limit);
}
//: end

//: variant pooled
__global__ void times_pooled(const float2* c, int* times, int limit) {
    __shared__ int taken[kPointBlock / 32];
    const int warp = (blockIdx.x * kPointBlock + threadIdx.x) / 32;
    const int first = warp * kPointsPerWarp;
    int* const next_of_warp = &taken[threadIdx.x / 32];
    if (threadIdx.x % 32 == 0) *next_of_warp = 32;
    __syncwarp();
    int k = threadIdx.x % 32;
    float2 at = c[first + k];
    float x = 0, y = 0;
    int n = 0;
    while (k < kPointsPerWarp) {
        if (n < limit && fmaf(x, x, y * y) <= 4.0f) {
            const float next = fmaf(x, x, fmaf(-y, y, at.x));
            y = fmaf(2.0f * x, y, at.y);
            x = next;
            ++n;
        } else {
            times[first + k] = n;
            k = atomicAdd(next_of_warp, 1);
            if (k < kPointsPerWarp) at = c[first + k];
            x = y = 0;
            n = 0;
        }
    }
}

void pooled(const Points& d) {
    times_pooled<<<point_blocks(d.count), kPointBlock>>>(d.c, d.times, d.limit);
}
//: end

__device__ int reference_time(float cx, float cy, int limit) {
    float x = 0, y = 0;
    for (int n = 0; n < limit; ++n) {
        if (__fmaf_rn(x, x, __fmul_rn(y, y)) > 4.0f) return n;
        const float real = __fmaf_rn(x, x, __fmaf_rn(-y, y, cx));
        y = __fmaf_rn(__fmul_rn(2.0f, x), y, cy);
        x = real;
    }
    return limit;
}
__global__ void reference_view(View v, int* expected) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < v.width * v.height;
         i += gridDim.x * blockDim.x) {
        expected[i] = reference_time(__fmaf_rn(float(i % v.width), v.step_x, v.left),
                                     __fmaf_rn(float(i / v.width), v.step_y, v.top), v.limit);
    }
}
__global__ void reference_points(Points d, int* expected) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < d.count; i += gridDim.x * blockDim.x) {
        expected[i] = reference_time(d.c[i].x, d.c[i].y, d.limit);
    }
}
// Steps that have to be computed: all but those of points which are known to stay.
__global__ void reference_steps(View v, const float2* c, int count, unsigned long long* steps) {
    unsigned long long mine = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        const double x = c ? c[i].x : v.left + (i % v.width) * v.step_x;
        const double y = c ? c[i].y : v.top + (i / v.width) * v.step_y;
        const double q = (x - 0.25) * (x - 0.25) + y * y;
        if (q * (q + x - 0.25) < 0.2499 * y * y || (x + 1) * (x + 1) + y * y < 0.0624) continue;
        mine += reference_time(float(x), float(y), v.limit);
    }
    atomicAdd(steps, mine);
}
double steps_needed(const View& v, const float2* c, int count) {
    unsigned long long *device = nullptr, host = 0;
    BOOK_CHECK(cudaMalloc(&device, sizeof host));
    BOOK_CHECK(cudaMemset(device, 0, sizeof host));
    reference_steps<<<2112, 128>>>(v, c, count, device);
    BOOK_CHECK(cudaMemcpy(&host, device, sizeof host, cudaMemcpyDeviceToHost));
    BOOK_CHECK(cudaFree(device));
    return double(host);
}

View view_data(book::Problem& p, View v) {
    const size_t count = size_t(v.width) * v.height;
    // Shifted by whole pixels with the seed, which keeps all coordinates exact in float.
    v.left += float(p.seed() % 4) * v.step_x;
    v.times = p.output<int>(count);
    v.next = p.zeroed<int>(1);
    p.needs({.dram_bytes = 4.0 * count, .fp32_flop = 8 * steps_needed(v, nullptr, int(count))});
    p.check<int>(v.times, count, {0}, [=](int* expected) {
        reference_view<<<2112, 128>>>(v, expected);
    });
    return v;
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("whole_set", [](book::Problem& p) {
        const View v = view_data(p, {4096, 2112, 1024, -2.25f, -1.546875f, 0.000732421875f,
                                     0.00146484375f});
        p.variant("bands", [=] { bands(v); });
        p.variant("bands_inside", [=] { bands_inside(v); });
        p.variant("fetched", [=] { fetched(v); });
        p.variant("fetched_inside", [=] { fetched_inside(v); });
        p.variant("fetched_128", [=] { fetched_128(v); });
        p.variant("fetched_columns", [=] { fetched_columns(v); });
    });
    book.problem("still_set", [](book::Problem& p) {
        View v{4096, 2112, 1024, -2.25f, -1.546875f, 0.000732421875f, 0.00146484375f};
        const size_t count = size_t(v.width) * v.height;
        v.times = p.output<int>(count);
        v.next = p.zeroed<int>(1);
        p.needs({.dram_bytes = 4.0 * count, .fp32_flop = 8 * steps_needed(v, nullptr, int(count))});
        p.check<int>(v.times, count, {0}, [=](int* expected) {
            reference_view<<<2112, 128>>>(v, expected);
        });
        p.variant("fetched_exact", [=] { fetched_exact(v); });
        p.variant("fetched", [=] { fetched(v); });
    });
    book.problem("third_bulb", [](book::Problem& p) {
        const View v = view_data(p, {4096, 2112, 512, -0.25f, 0.65625f, 0.00006103515625f,
                                     0.000091552734375f});
        p.variant("bands", [=] { bands(v); });
        p.variant("fetched", [=] { fetched(v); });
        p.variant("fetched_fours", [=] { fetched_fours(v); });
    });
    book.problem("random_points", [](book::Problem& p) {
        Points d{132 * 16 * 1024 * 4, 512};
        const uint64_t seed = p.seed();
        d.c = p.input<float2>(d.count, [=] __device__(size_t i) {
            return make_float2(float(-2 + 2.5 * book::uniform01(seed, 1, i)),
                               float(-1.25 + 2.5 * book::uniform01(seed, 2, i)));
        });
        d.times = p.output<int>(d.count);
        View limits{1, 1, d.limit};
        p.needs({.dram_bytes = 12.0 * d.count,
                 .fp32_flop = 8 * steps_needed(limits, d.c, d.count)});
        p.check<int>(d.times, d.count, {0}, [=](int* expected) {
            reference_points<<<2112, 128>>>(d, expected);
        });
        p.variant("in_turn", [=] { in_turn(d); });
        p.variant("pooled", [=] { pooled(d); });
    });
    return book.finish();
}
