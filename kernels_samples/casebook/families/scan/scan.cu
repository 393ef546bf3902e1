// Inclusive prefix sums of unsigned integers: of many short rows, of few long ones, of one array.
#include "../../harness/book.h"

struct Data {
    int rows, length;
    const unsigned* in;
    unsigned* out;
    unsigned* totals;               // one for each tile of 4,096
    unsigned long long* published;  // zero at the start, one for each tile
};

//: shared
constexpr int kThreads = 1024;
constexpr int kTile = 4 * kThreads;

__device__ inline unsigned warp_inclusive(unsigned value) {
    for (int step = 1; step < 32; step *= 2) {
        const unsigned other = __shfl_up_sync(0xffffffffu, value, step);
        if (threadIdx.x % 32 >= step) value += other;
    }
    return value;
}

// Prefix sums over the threads of a block, by one thread.
struct BySums {
    static __device__ unsigned inclusive(unsigned value, unsigned& total) {
        __shared__ unsigned sums[kThreads];
        sums[threadIdx.x] = value;
        __syncthreads();
        if (threadIdx.x == 0) {
            unsigned running = 0;
            for (int i = 0; i < kThreads; ++i) {
                running += sums[i];
                sums[i] = running;
            }
        }
        __syncthreads();
        const unsigned result = sums[threadIdx.x];
        total = sums[kThreads - 1];
        __syncthreads();
        return result;
    }
};

// Prefix sums over the threads of a block, within warps and then over the warps.
struct ByWarps {
    static __device__ unsigned inclusive(unsigned value, unsigned& total) {
        __shared__ unsigned sums[32];
        const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
        unsigned result = warp_inclusive(value);
        if (lane == 31) sums[warp] = result;
        __syncthreads();
        const unsigned all = warp_inclusive(lane < blockDim.x / 32 ? sums[lane] : 0);
        total = __shfl_sync(0xffffffffu, all, 31);
        const unsigned before = __shfl_sync(0xffffffffu, all, warp > 0 ? warp - 1 : 0);
        if (warp > 0) result += before;
        __syncthreads();
        return result;
    }
};

// Scans a tile of 4,096 numbers, four a thread, and returns the tile's sum.
template <class Way>
__device__ unsigned scan_tile(const unsigned* in, unsigned* out, unsigned start) {
    uint4 v = reinterpret_cast<const uint4*>(in)[threadIdx.x];
    v.y += v.x;
    v.z += v.y;
    v.w += v.z;
    unsigned total;
    const unsigned before = start + Way::inclusive(v.w, total) - v.w;
    v.x += before;
    v.y += before;
    v.z += before;
    v.w += before;
    reinterpret_cast<uint4*>(out)[threadIdx.x] = v;
    return total;
}

template <class Way>
__global__ void __launch_bounds__(kThreads, 2) scan_rows(const unsigned* in, unsigned* out, int length) {
    const size_t first = blockIdx.x * size_t(length);
    unsigned start = 0;
    for (int i = 0; i < length; i += kTile) start += scan_tile<Way>(in + first + i, out + first + i, start);
}

__global__ void __launch_bounds__(kThreads, 2) sum_tiles(const unsigned* in, unsigned* totals) {
    const uint4 v = reinterpret_cast<const uint4*>(in + blockIdx.x * size_t{kTile})[threadIdx.x];
    unsigned total;
    ByWarps::inclusive(v.x + v.y + v.z + v.w, total);
    if (threadIdx.x == 0) totals[blockIdx.x] = total;
}

// Turns the totals of each row's tiles into the sum of what lies before each tile.
__global__ void __launch_bounds__(kThreads) scan_totals(unsigned* totals, int tiles) {
    unsigned* own = totals + blockIdx.x * size_t(tiles);
    unsigned start = 0;
    for (int i = 0; i < tiles; i += kThreads) {
        const int tile = i + threadIdx.x;
        const unsigned value = tile < tiles ? own[tile] : 0;
        unsigned total;
        const unsigned before = ByWarps::inclusive(value, total) - value;
        if (tile < tiles) own[tile] = start + before;
        start += total;
    }
}

template <class Way>
__global__ void __launch_bounds__(kThreads, 2)
    scan_tiles(const unsigned* in, unsigned* out, const unsigned* starts) {
    const size_t first = blockIdx.x * size_t{kTile};
    scan_tile<Way>(in + first, out + first, starts[blockIdx.x]);
}

template <class Way>
void sum_and_scan(const Data& d) {
    const int tiles = d.length / kTile;
    sum_tiles<<<d.rows * tiles, kThreads>>>(d.in, d.totals);
    scan_totals<<<d.rows, kThreads>>>(d.totals, tiles);
    scan_tiles<Way><<<d.rows * tiles, kThreads>>>(d.in, d.out, d.totals);
}
//: end

//: variant rows_by_sums
void rows_by_sums(const Data& d) { scan_rows<BySums><<<d.rows, kThreads>>>(d.in, d.out, d.length); }
//: end

//: variant rows_by_warps
void rows_by_warps(const Data& d) { scan_rows<ByWarps><<<d.rows, kThreads>>>(d.in, d.out, d.length); }
//: end

//: variant tiles_by_sums
void tiles_by_sums(const Data& d) { sum_and_scan<BySums>(d); }
//: end

//: variant tiles_by_warps
void tiles_by_warps(const Data& d) { sum_and_scan<ByWarps>(d); }
//: end

//: variant runs_in_place
// 256 threads scan a row of 4,096; each has a run of 16 neighbouring numbers.
__global__ void __launch_bounds__(256) scan_runs_in_place(const unsigned* in, unsigned* out) {
    const size_t first = blockIdx.x * size_t{4096} + threadIdx.x * 16;
    unsigned run[16];
#pragma unroll
    for (int k = 0; k < 16; ++k) run[k] = in[first + k];
#pragma unroll
    for (int k = 1; k < 16; ++k) run[k] += run[k - 1];
    unsigned total;
    const unsigned before = ByWarps::inclusive(run[15], total) - run[15];
#pragma unroll
    for (int k = 0; k < 16; ++k) out[first + k] = before + run[k];
}

void runs_in_place(const Data& d) { scan_runs_in_place<<<d.rows, 256>>>(d.in, d.out); }
//: end

//: shared
// As above, with the row staged in shared memory, where each run of 16 has `pitch` places.
__global__ void __launch_bounds__(256) scan_runs_staged(const unsigned* in, unsigned* out, int pitch) {
    extern __shared__ unsigned stage[];
    const size_t first = blockIdx.x * size_t{4096};
    const int t = threadIdx.x;
    unsigned run[16];
#pragma unroll
    for (int k = 0; k < 16; ++k) run[k] = in[first + k * 256 + t];
#pragma unroll
    for (int k = 0; k < 16; ++k) stage[(k * 16 + t / 16) * pitch + t % 16] = run[k];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 16; ++k) run[k] = stage[t * pitch + k];
#pragma unroll
    for (int k = 1; k < 16; ++k) run[k] += run[k - 1];
    unsigned total;
    const unsigned before = ByWarps::inclusive(run[15], total) - run[15];
#pragma unroll
    for (int k = 0; k < 16; ++k) stage[t * pitch + k] = before + run[k];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 16; ++k) {
        out[first + k * 256 + t] = stage[(k * 16 + t / 16) * pitch + t % 16];
    }
}
//: end

//: variant runs_staged_16
void runs_staged_16(const Data& d) {
    const int pitch = 16;
    scan_runs_staged<<<d.rows, 256, 256 * pitch * sizeof(unsigned)>>>(d.in, d.out, pitch);
}
//: end

//: variant runs_staged_17
void runs_staged_17(const Data& d) {
    const int pitch = 17;
    scan_runs_staged<<<d.rows, 256, 256 * pitch * sizeof(unsigned)>>>(d.in, d.out, pitch);
}
//: end

//: variant scan_then_add
__global__ void __launch_bounds__(kThreads, 2)
    scan_each_tile(const unsigned* in, unsigned* out, unsigned* totals) {
    const size_t first = blockIdx.x * size_t{kTile};
    const unsigned total = scan_tile<ByWarps>(in + first, out + first, 0);
    if (threadIdx.x == 0) totals[blockIdx.x] = total;
}

__global__ void __launch_bounds__(kThreads, 2) add_starts(unsigned* out, const unsigned* starts) {
    uint4* own = reinterpret_cast<uint4*>(out + blockIdx.x * size_t{kTile}) + threadIdx.x;
    const unsigned start = starts[blockIdx.x];
    uint4 v = *own;
    v.x += start;
    v.y += start;
    v.z += start;
    v.w += start;
    *own = v;
}

void scan_then_add(const Data& d) {
    const int tiles = d.length / kTile;
    scan_each_tile<<<d.rows * tiles, kThreads>>>(d.in, d.out, d.totals);
    scan_totals<<<d.rows, kThreads>>>(d.totals, tiles);
    add_starts<<<d.rows * tiles, kThreads>>>(d.out, d.totals);
}
//: end

//: variant one_pass
constexpr int kWarps = 8;
constexpr int kQuads = 8;  // of a thread
constexpr int kWarpPart = 32 * 4 * kQuads;
constexpr int kLookBack = 4;  // times 32 tiles at once

// Tiles publish their sum, then the sum of all up to them: 1 or 2 in the upper half says which.
__device__ unsigned sum_before(volatile unsigned long long* published, int tile, unsigned total) {
    const int lane = threadIdx.x % 32;
    if (lane == 0) published[tile] = ((tile == 0 ? 2ull : 1ull) << 32) | total;
    unsigned before = 0;
    bool complete = tile == 0;
    for (int nearest = tile - 1 - lane; !complete; nearest -= 32 * kLookBack) {
        unsigned long long found[kLookBack];
        bool missing;
        do {
            missing = false;
#pragma unroll
            for (int k = 0; k < kLookBack; ++k) {
                const int other = nearest - 32 * k;
                found[k] = other >= 0 ? published[other] : 2ull << 32;
                missing |= (found[k] >> 32) == 0;
            }
        } while (__any_sync(0xffffffffu, missing));
#pragma unroll
        for (int k = 0; k < kLookBack; ++k) {
            if (complete) break;
            const unsigned whole = __ballot_sync(0xffffffffu, (found[k] >> 32) == 2);
            const int last = whole ? __ffs(whole) - 1 : 31;
            before += __reduce_add_sync(0xffffffffu, lane <= last ? unsigned(found[k]) : 0u);
            complete = whole != 0;
        }
    }
    if (lane == 0 && tile > 0) published[tile] = (2ull << 32) | (before + total);
    return before;
}

__global__ void __launch_bounds__(32 * kWarps, 4)
    scan_one_pass(const unsigned* in, unsigned* out, unsigned long long* published) {
    __shared__ unsigned sums[kWarps];
    __shared__ unsigned start;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const size_t first = (blockIdx.x * size_t{kWarps} + warp) * kWarpPart;
    const uint4* from = reinterpret_cast<const uint4*>(in + first) + lane;
    uint4* to = reinterpret_cast<uint4*>(out + first) + lane;
    uint4 v[kQuads];
#pragma unroll
    for (int k = 0; k < kQuads; ++k) v[k] = from[k * 32];
    unsigned sum = 0;  // of the warp
#pragma unroll
    for (int k = 0; k < kQuads; ++k) {
        v[k].y += v[k].x;
        v[k].z += v[k].y;
        v[k].w += v[k].z;
        const unsigned up_to = warp_inclusive(v[k].w);
        const unsigned before = sum + up_to - v[k].w;
        v[k].x += before;
        v[k].y += before;
        v[k].z += before;
        v[k].w += before;
        sum += __shfl_sync(0xffffffffu, up_to, 31);
    }
    if (lane == 0) sums[warp] = sum;
    __syncthreads();
    const unsigned all = warp_inclusive(lane < kWarps ? sums[lane] : 0);
    const unsigned total = __shfl_sync(0xffffffffu, all, 31);
    unsigned before = __shfl_sync(0xffffffffu, all, warp > 0 ? warp - 1 : 0);
    if (warp == 0) {
        before = 0;
        const unsigned tiles_before = sum_before(published, blockIdx.x, total);
        if (lane == 0) start = tiles_before;
    }
    __syncthreads();
    before += start;
#pragma unroll
    for (int k = 0; k < kQuads; ++k) {
        to[k * 32] = {v[k].x + before, v[k].y + before, v[k].z + before, v[k].w + before};
    }
}

void one_pass(const Data& d) {
    scan_one_pass<<<d.length / (kWarps * kWarpPart), 32 * kWarps>>>(d.in, d.out, d.published);
}
//: end

// One block of 512 a row, a stretch a thread.
__global__ void reference_scan(const unsigned* in, unsigned* expected, int length) {
    __shared__ unsigned sums[512];
    const int stretch = (length + 511) / 512, first = threadIdx.x * stretch;
    const int last = min(length, first + stretch);
    const unsigned* own = in + blockIdx.x * size_t(length);
    unsigned* result = expected + blockIdx.x * size_t(length);
    unsigned sum = 0;
    for (int i = first; i < last; ++i) sum += own[i];
    sums[threadIdx.x] = sum;
    __syncthreads();
    sum = 0;
    for (int i = 0; i < int(threadIdx.x); ++i) sum += sums[i];
    for (int i = first; i < last; ++i) result[i] = sum += own[i];
}

Data data_of(book::Problem& p, int rows, int length) {
    Data d{rows, length};
    const size_t count = size_t(rows) * length;
    d.in = p.uniform<unsigned>(count, 0, 100);
    d.out = p.output<unsigned>(count);
    d.totals = p.output<unsigned>(count / kTile);
    d.published = p.zeroed<unsigned long long>(count / kTile);
    p.needs({.dram_bytes = 8.0 * count, .int_op = 1.0 * count});
    p.check<unsigned>(d.out, count, {0}, [=](unsigned* expected) {
        reference_scan<<<rows, 512>>>(d.in, expected, length);
    });
    return d;
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("rows_4096", [](book::Problem& p) {
        const Data d = data_of(p, 4096, 4096);
        p.variant("rows_by_sums", [=] { rows_by_sums(d); });
        p.variant("rows_by_warps", [=] { rows_by_warps(d); });
        p.variant("runs_in_place", [=] { runs_in_place(d); });
        p.variant("runs_staged_16", [=] { runs_staged_16(d); });
        p.variant("runs_staged_17", [=] { runs_staged_17(d); });
    });
    book.problem("array_24m", [](book::Problem& p) {
        const Data d = data_of(p, 1, 24 << 20);
        p.variant("scan_then_add", [=] { scan_then_add(d); });
        p.variant("tiles_by_warps", [=] { tiles_by_warps(d); });
        p.variant("one_pass", [=] { one_pass(d); });
    });
    book.problem("rows_16", [](book::Problem& p) {
        const Data d = data_of(p, 16, 1 << 20);
        p.variant("rows_by_sums", [=] { rows_by_sums(d); });
        p.variant("rows_by_warps", [=] { rows_by_warps(d); });
        p.variant("tiles_by_sums", [=] { tiles_by_sums(d); });
        p.variant("tiles_by_warps", [=] { tiles_by_warps(d); });
    });
    return book.finish();
}
