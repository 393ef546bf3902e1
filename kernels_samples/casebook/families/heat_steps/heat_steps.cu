// Explicit time steps of a one-dimensional reaction-diffusion equation, u' = D u'' + k u (1 - u), with fixed ends.
#include "../../harness/book.h"

#include <cooperative_groups.h>

struct Rod {
    int n, steps;
    const float* in;
    float* scratch;
    float* out;
    const book::Problem* problem;
};

//: shared
template <class T>
__device__ __forceinline__ T stepped(T left, T here, T right) {
    return here + T(0.2) * (left - 2 * here + right) + T(0.01) * here * (1 - here);
}

// One time step, one thread a point, computed in the type T.
template <class T>
__global__ void heat_step(const float* __restrict__ from, float* __restrict__ to, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    to[i] = i > 0 && i < n - 1 ? float(stepped<T>(from[i - 1], from[i], from[i + 1])) : from[i];
}

// Launch number k of an even number of launches reads what launch k - 1 wrote; the last writes to `out`.
inline const float* source(const Rod& r, int k) {
    return k == 0 ? r.in : k % 2 ? r.scratch : r.out;
}
inline float* target(const Rod& r, int k) {
    return k % 2 ? r.out : r.scratch;
}
//: end

//: variant step_by_step_f64
void step_by_step_f64(const Rod& r) {
    for (int k = 0; k < r.steps; ++k) {
        heat_step<double><<<(r.n + 255) / 256, 256>>>(source(r, k), target(r, k), r.n);
        r.problem->launched(k);
    }
}
//: end

//: variant step_by_step
void step_by_step(const Rod& r) {
    for (int k = 0; k < r.steps; ++k) {
        heat_step<float><<<(r.n + 255) / 256, 256>>>(source(r, k), target(r, k), r.n);
        r.problem->launched(k);
    }
}
//: end

//: shared
// Steps steps in shared memory; a block of 256 threads keeps 256 - 2 * Steps of its points.
template <int Steps>
__global__ void heat_several(const float* __restrict__ from, float* __restrict__ to, int n) {
    __shared__ float line[2][256];
    const int t = threadIdx.x;
    const int i = blockIdx.x * (256 - 2 * Steps) + t - Steps;
    float here = i >= 0 && i < n ? from[i] : 0;
    const bool moves = t > 0 && t < 255 && i > 0 && i < n - 1;
    for (int s = 0; s < Steps; ++s) {
        line[s % 2][t] = here;
        __syncthreads();
        if (moves) here = stepped(line[s % 2][t - 1], here, line[s % 2][t + 1]);
    }
    if (t >= Steps && t < 256 - Steps && i < n) to[i] = here;
}

template <int Steps>
void several(const Rod& r) {
    constexpr int kept = 256 - 2 * Steps;
    for (int k = 0; k < r.steps / Steps; ++k) {
        heat_several<Steps><<<(r.n + kept - 1) / kept, 256>>>(source(r, k), target(r, k), r.n);
        r.problem->launched(k);
    }
}
//: end

//: variant four_steps
void four_steps(const Rod& r) {
    several<4>(r);
}
//: end

//: variant twenty_steps
void twenty_steps(const Rod& r) {
    several<20>(r);
}
//: end

//: shared
// Blocks of 256 threads that the GPU runs at a time.
template <class Kernel>
int resident_blocks(Kernel kernel) {
    int resident = 0, device = 0, processors = 0;
    BOOK_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, 256, 0));
    BOOK_CHECK(cudaGetDevice(&device));
    BOOK_CHECK(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device));
    return resident * processors;
}
//: end

//: variant resident_steps
// As many blocks as fit go through the rod.
__global__ void heat_resident(const float* from, float* to, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        to[i] = i > 0 && i < n - 1 ? stepped(from[i - 1], from[i], from[i + 1]) : from[i];
    }
}

void resident_steps(const Rod& r) {
    const int blocks = resident_blocks(heat_resident);
    for (int k = 0; k < r.steps; ++k) {
        heat_resident<<<blocks, 256>>>(source(r, k), target(r, k), r.n);
        r.problem->launched(k);
    }
}
//: end

//: variant grid_wide
// All steps in one launch, with a barrier of the whole grid after each.
__global__ void heat_grid_wide(const float* in, float* scratch, float* out, int n, int steps) {
    const auto grid = cooperative_groups::this_grid();
    for (int k = 0; k < steps; ++k) {
        const float* from = k == 0 ? in : k % 2 ? scratch : out;
        float* to = k % 2 ? out : scratch;
        for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
            to[i] = i > 0 && i < n - 1 ? stepped(from[i - 1], from[i], from[i + 1]) : from[i];
        }
        grid.sync();
    }
}

void grid_wide(const Rod& r) {
    Rod rod = r;
    void* arguments[] = {&rod.in, &rod.scratch, &rod.out, &rod.n, &rod.steps};
    BOOK_CHECK(cudaLaunchCooperativeKernel(reinterpret_cast<void*>(heat_grid_wide),
                                           dim3(resident_blocks(heat_grid_wide)), dim3(256), arguments, 0, nullptr));
}
//: end

//: shared
constexpr int kSteps = 8;          // steps in one launch
constexpr int kWide = 1024;        // threads of a block, one point each
constexpr int kKept = kWide - 2 * kSteps;

// All threads read the line, then all write it.
template <class T>
__global__ void __launch_bounds__(kWide) heat_in_place(const float* __restrict__ from, float* __restrict__ to, int n) {
    __shared__ T line[kWide];
    const int t = threadIdx.x;
    const int i = blockIdx.x * kKept + t - kSteps;
    T here = i >= 0 && i < n ? T(from[i]) : T(0);
    const bool moves = t > 0 && t < kWide - 1 && i > 0 && i < n - 1;
    line[t] = here;
    __syncthreads();
    for (int s = 0; s < kSteps; ++s) {
        if (moves) here = stepped(line[t - 1], here, line[t + 1]);
        __syncthreads();
        line[t] = here;
        __syncthreads();
    }
    if (t >= kSteps && t < kWide - kSteps && i < n) to[i] = float(here);
}

// Two lines in turn: a step reads one and writes the other.
template <class T>
__global__ void __launch_bounds__(kWide) heat_in_turn(const float* __restrict__ from, float* __restrict__ to, int n) {
    __shared__ T line[2][kWide];
    const int t = threadIdx.x;
    const int i = blockIdx.x * kKept + t - kSteps;
    T here = i >= 0 && i < n ? T(from[i]) : T(0);
    const bool moves = t > 0 && t < kWide - 1 && i > 0 && i < n - 1;
    for (int s = 0; s < kSteps; ++s) {
        line[s % 2][t] = here;
        __syncthreads();
        if (moves) here = stepped(line[s % 2][t - 1], here, line[s % 2][t + 1]);
    }
    if (t >= kSteps && t < kWide - kSteps && i < n) to[i] = float(here);
}
//: end

//: variant in_place_f64
void in_place_f64(const Rod& r) {
    heat_in_place<double><<<(r.n + kKept - 1) / kKept, kWide>>>(r.in, r.out, r.n);
}
//: end

//: variant in_place
void in_place(const Rod& r) {
    heat_in_place<float><<<(r.n + kKept - 1) / kKept, kWide>>>(r.in, r.out, r.n);
}
//: end

//: variant in_turn_f64
void in_turn_f64(const Rod& r) {
    heat_in_turn<double><<<(r.n + kKept - 1) / kKept, kWide>>>(r.in, r.out, r.n);
}
//: end

//: variant in_turn
void in_turn(const Rod& r) {
    heat_in_turn<float><<<(r.n + kKept - 1) / kKept, kWide>>>(r.in, r.out, r.n);
}
//: end

//: variant in_warps
// A warp holds 256 points in registers, eight a lane, and keeps the 240 in the middle.
__global__ void heat_in_warps(const float* __restrict__ from, float* __restrict__ to, int n) {
    const int lane = threadIdx.x % 32;
    const int warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    const int first = warp * 240 - 8 + lane * 8;
    float u[8];
    if (first >= 0 && first + 8 <= n) {
        const float4 low = *reinterpret_cast<const float4*>(from + first);
        const float4 high = *reinterpret_cast<const float4*>(from + first + 4);
        u[0] = low.x, u[1] = low.y, u[2] = low.z, u[3] = low.w;
        u[4] = high.x, u[5] = high.y, u[6] = high.z, u[7] = high.w;
    } else {
#pragma unroll
        for (int j = 0; j < 8; ++j) u[j] = first + j >= 0 && first + j < n ? from[first + j] : 0;
    }
    const bool has_start = first <= 0 && first + 8 > 0, has_end = first <= n - 1 && first + 8 > n - 1;
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
        float left = __shfl_up_sync(~0u, u[7], 1);
        const float beyond = __shfl_down_sync(~0u, u[0], 1);
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            const float here = u[j];
            const float right = j < 7 ? u[j + 1] : beyond;
            const bool fixed = (has_start && first + j == 0) || (has_end && first + j == n - 1);
            u[j] = fixed ? here : stepped(left, here, right);
            left = here;
        }
    }
    if (lane == 0 || lane == 31) return;
    if (first + 8 <= n) {
        *reinterpret_cast<float4*>(to + first) = make_float4(u[0], u[1], u[2], u[3]);
        *reinterpret_cast<float4*>(to + first + 4) = make_float4(u[4], u[5], u[6], u[7]);
    } else {
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            if (first + j < n) to[first + j] = u[j];
        }
    }
}

void in_warps(const Rod& r) {
    const int warps = (r.n + 239) / 240;
    heat_in_warps<<<(warps + 7) / 8, 256>>>(r.in, r.out, r.n);
}
//: end

//: shared
constexpr int kLongSteps = 128;

// Many steps in one launch: a block holds 1024 * Each points, Each of them in the registers of a thread.
template <int Each>
__global__ void __launch_bounds__(1024, 2) heat_long(const float* __restrict__ from, float* __restrict__ to, int n) {
    constexpr int points = 1024 * Each, kept = points - 2 * kLongSteps;
    __shared__ float line[2][points];
    const int t = threadIdx.x;
    const int start = blockIdx.x * kept - kLongSteps;
    float u[Each];
#pragma unroll
    for (int j = 0; j < Each; ++j) {
        const int i = start + j * 1024 + t;
        u[j] = i >= 0 && i < n ? from[i] : 0;
    }
    for (int s = 0; s < kLongSteps; ++s) {
        float* now = line[s % 2];
#pragma unroll
        for (int j = 0; j < Each; ++j) now[j * 1024 + t] = u[j];
        __syncthreads();
#pragma unroll
        for (int j = 0; j < Each; ++j) {
            const int at = j * 1024 + t, i = start + at;
            if (at > 0 && at < points - 1 && i > 0 && i < n - 1) u[j] = stepped(now[at - 1], u[j], now[at + 1]);
        }
    }
#pragma unroll
    for (int j = 0; j < Each; ++j) {
        const int at = j * 1024 + t, i = start + at;
        if (at >= kLongSteps && at < points - kLongSteps && i < n) to[i] = u[j];
    }
}

template <int Each>
void long_blocks(const Rod& r) {
    constexpr int kept = 1024 * Each - 2 * kLongSteps;
    heat_long<Each><<<(r.n + kept - 1) / kept, 1024>>>(r.in, r.out, r.n);
}
//: end

//: variant blocks_of_4096
void blocks_of_4096(const Rod& r) {
    long_blocks<4>(r);
}
//: end

//: variant blocks_of_5120
void blocks_of_5120(const Rod& r) {
    long_blocks<5>(r);
}
//: end

__global__ void reference_widen(const float* in, double* u, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) u[i] = in[i];
}

__global__ void reference_advance(const double* u, double* next, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        double change = 0;
        if (i > 0 && i < n - 1) {
            change = 0.2 * (u[i - 1] + u[i + 1]) - 0.4 * u[i] + 0.01 * (u[i] - u[i] * u[i]);
        }
        next[i] = u[i] + change;
    }
}

__global__ void reference_narrow(const double* u, float* expected, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) expected[i] = float(u[i]);
}

void reference_rod(const Rod& r, float* expected) {
    double *u = nullptr, *next = nullptr;
    BOOK_CHECK(cudaMalloc(&u, sizeof(double) * r.n));
    BOOK_CHECK(cudaMalloc(&next, sizeof(double) * r.n));
    reference_widen<<<1056, 256>>>(r.in, u, r.n);
    for (int k = 0; k < r.steps; ++k) {
        reference_advance<<<1056, 256>>>(u, next, r.n);
        std::swap(u, next);
    }
    reference_narrow<<<1056, 256>>>(u, expected, r.n);
    BOOK_CHECK(cudaDeviceSynchronize());
    BOOK_CHECK(cudaFree(u));
    BOOK_CHECK(cudaFree(next));
}

Rod rod_of(book::Problem& p, int n, int steps) {
    Rod r{n, steps};
    r.in = p.uniform<float>(n, 0, 1);
    r.scratch = p.output<float>(n);
    r.out = p.output<float>(n);
    r.problem = &p;
    p.needs({.dram_bytes = 8.0 * n, .fp32_flop = 7.0 * n * steps});
    p.check<float>(r.out, n, {2e-5, 1e-6}, [=](float* expected) { reference_rod(r, expected); });
    return r;
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("short_rod", [](book::Problem& p) {
        const Rod r = rod_of(p, 32768, 400);
        p.variant("step_by_step", [=] { step_by_step(r); });
        p.variant("four_steps", [=] { four_steps(r); });
        p.variant("twenty_steps", [=] { twenty_steps(r); });
    });
    book.problem("long_rod", [](book::Problem& p) {
        const Rod r = rod_of(p, 12582912, 8);
        p.variant("step_by_step_f64", [=] { step_by_step_f64(r); });
        p.variant("step_by_step", [=] { step_by_step(r); });
        p.variant("resident_steps", [=] { resident_steps(r); });
        p.variant("grid_wide", [=] { grid_wide(r); });
        p.variant("in_place_f64", [=] { in_place_f64(r); });
        p.variant("in_place", [=] { in_place(r); });
        p.variant("in_turn_f64", [=] { in_turn_f64(r); });
        p.variant("in_turn", [=] { in_turn(r); });
        p.variant("in_warps", [=] { in_warps(r); });
    });
    book.problem("many_steps", [](book::Problem& p) {
        const Rod r = rod_of(p, 280 * 3840, kLongSteps);
        p.variant("blocks_of_4096", [=] { blocks_of_4096(r); });
        p.variant("blocks_of_5120", [=] { blocks_of_5120(r); });
    });
    return book.finish();
}
