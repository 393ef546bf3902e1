// Credit exposure of a portfolio of swaps by Monte Carlo: a one-factor short rate is simulated from
// date to date, the portfolio is valued on each date as a sum of 16 discounted flows, and each path
// adds up its positive values. The flows hold the weight of their date already.
#include "../../harness/book.h"

constexpr int kFlows = 16;

struct Model {
    int paths, dates;  // dates: even
    uint32_t key;
    float speed, level;
    const float4* flows;  // [date][8], two flows each: amount, exponent per unit of the rate
    float* exposure;      // [path]
    float* profile;       // [date], zero at the start: sums over the paths
    float* summary;       // zero at the start: sum, sum of squares, largest
    float2* state;        // scratch, [path]
};

//: shared
constexpr int kVectors = kFlows / 2;

__device__ inline float power_of_two(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Philox 2x32-7, then Box-Muller: the normal variables of dates 2 * pair and 2 * pair + 1.
__device__ inline float2 normals(uint32_t path, uint32_t pair, uint32_t key) {
    uint32_t x = path, y = pair;
#pragma unroll
    for (int round = 0; round < 7; ++round) {
        const uint64_t product = uint64_t(0xD256D193u) * x;
        x = uint32_t(product >> 32) ^ key ^ y;
        y = uint32_t(product);
        key += 0x9E3779B9u;
    }
    const float u = fmaf(float(x), 0x1p-32f, 0x1p-33f);
    const float angle = 6.2831853f * fmaf(float(y), 0x1p-32f, -0.5f);
    const float radius = sqrtf(fmaxf(-2.0f * __logf(u), 0.0f));
    float sine, cosine;
    __sincosf(angle, &sine, &cosine);
    return make_float2(radius * cosine, radius * sine);
}

__device__ inline float portfolio(const float4* flows, float rate) {
    float2 value = make_float2(0, 0);
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
        const float4 f = flows[k];
        value.x += f.x * power_of_two(f.y * rate);
        value.y += f.z * power_of_two(f.w * rate);
    }
    return value.x + value.y;
}

// To the next date; the volatility of a step is 25 basis points.
__device__ inline void advance(float& rate, float& exposure, float z, const float4* flows, const Model& m) {
    rate += m.speed * (m.level - rate) + 0.0025f * z;
    const float value = portfolio(flows, rate);
    exposure += 0.5f * (value + fabsf(value));
}

template <int kThreads>
__device__ inline void copy_flows(float4* flows, const Model& m) {
#pragma unroll 4
    for (int i = threadIdx.x; i < m.dates * kVectors; i += kThreads) flows[i] = m.flows[i];
    __syncthreads();
}

// A thread simulates one path over all dates.
template <int kThreads>
__global__ void __launch_bounds__(kThreads) simulate(Model m) {
    extern __shared__ float4 flows[];
    copy_flows<kThreads>(flows, m);
    const int path = blockIdx.x * kThreads + threadIdx.x;
    float rate = m.level, exposure = 0;
#pragma unroll 1
    for (int t = 0; t < m.dates; t += 2) {
        const float2 z = normals(path, t / 2, m.key);
        advance(rate, exposure, z.x, flows + t * kVectors, m);
        advance(rate, exposure, z.y, flows + (t + 1) * kVectors, m);
    }
    m.exposure[path] = exposure;
}

inline int flow_bytes(const Model& m) { return m.dates * kVectors * int(sizeof(float4)); }
//: end

//: variant blocks_of_1024
void blocks_of_1024(const Model& m) {
    simulate<1024><<<m.paths / 1024, 1024, flow_bytes(m)>>>(m);
}
//: end

//: variant blocks_of_512
void blocks_of_512(const Model& m) {
    simulate<512><<<m.paths / 512, 512, flow_bytes(m)>>>(m);
}
//: end

//: variant blocks_of_128
void blocks_of_128(const Model& m) {
    simulate<128><<<m.paths / 128, 128, flow_bytes(m)>>>(m);
}
//: end

//: variant plain_constants
// To the next date; the volatility of a step is 25 basis points.
__device__ inline void advance_plain(float& rate, float& exposure, float z, const float4* flows,
                                     const Model& m) {
    rate += m.speed * (m.level - rate) + 0.0025 * z;
    const float value = portfolio(flows, rate);
    exposure += 0.5 * (value + fabsf(value));
}

__global__ void __launch_bounds__(128) simulate_plain(Model m) {
    extern __shared__ float4 flows[];
    copy_flows<128>(flows, m);
    const int path = blockIdx.x * 128 + threadIdx.x;
    float rate = m.level, exposure = 0;
#pragma unroll 1
    for (int t = 0; t < m.dates; t += 2) {
        const float2 z = normals(path, t / 2, m.key);
        advance_plain(rate, exposure, z.x, flows + t * kVectors, m);
        advance_plain(rate, exposure, z.y, flows + (t + 1) * kVectors, m);
    }
    m.exposure[path] = exposure;
}

void plain_constants(const Model& m) {
    simulate_plain<<<m.paths / 128, 128, flow_bytes(m)>>>(m);
}
//: end

//: variant date_by_date
// All paths go on by two dates.
__global__ void __launch_bounds__(128) simulate_dates(Model m, int t) {
    const int path = blockIdx.x * 128 + threadIdx.x;
    float2 state = t == 0 ? make_float2(m.level, 0) : m.state[path];
    const float2 z = normals(path, t / 2, m.key);
    advance(state.x, state.y, z.x, m.flows + t * kVectors, m);
    advance(state.x, state.y, z.y, m.flows + (t + 1) * kVectors, m);
    if (t + 2 < m.dates) {
        m.state[path] = state;
    } else {
        m.exposure[path] = state.y;
    }
}

void date_by_date(const Model& m, const book::Problem* problem) {
    for (int t = 0; t < m.dates; t += 2) {
        simulate_dates<<<m.paths / 128, 128>>>(m, t);
        problem->launched(t / 2);
    }
}
//: end

//: shared
struct Moments {
    float sum, squares, most;
};

__device__ inline void add_value(Moments& all, float4 v) {
    all.sum += v.x + v.y + v.z + v.w;
    all.squares += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
    all.most = fmaxf(fmaxf(all.most, fmaxf(v.x, v.y)), fmaxf(v.z, v.w));
}

__device__ inline Moments moments_of_warp(Moments all) {
    for (int lane = 16; lane > 0; lane /= 2) {
        all.sum += __shfl_xor_sync(0xffffffffu, all.sum, lane);
        all.squares += __shfl_xor_sync(0xffffffffu, all.squares, lane);
        all.most = fmaxf(all.most, __shfl_xor_sync(0xffffffffu, all.most, lane));
    }
    return all;
}

// The moments of a block, valid in the first warp.
template <int kThreads>
__device__ inline Moments moments_of_block(Moments all) {
    __shared__ Moments parts[kThreads / 32];
    all = moments_of_warp(all);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = all;
    __syncthreads();
    if (threadIdx.x < 32) {
        all = threadIdx.x < kThreads / 32 ? parts[threadIdx.x] : Moments{0, 0, 0};
        all = moments_of_warp(all);
    }
    return all;
}
//: end

//: variant block_summary
__global__ void __launch_bounds__(1024) summarise_block(const float4* exposure, float* summary, int vectors) {
    Moments all{0, 0, 0};
#pragma unroll 4
    for (int i = threadIdx.x; i < vectors; i += 1024) add_value(all, exposure[i]);
    all = moments_of_block<1024>(all);
    if (threadIdx.x == 0) {
        summary[0] = all.sum;
        summary[1] = all.squares;
        summary[2] = all.most;
    }
}

void block_summary(const Model& m) {
    simulate<128><<<m.paths / 128, 128, flow_bytes(m)>>>(m);
    summarise_block<<<1, 1024>>>(reinterpret_cast<const float4*>(m.exposure), m.summary, m.paths / 4);
}
//: end

//: variant grid_summary
__global__ void __launch_bounds__(256) summarise_grid(const float4* exposure, float* summary, int vectors) {
    Moments all{0, 0, 0};
#pragma unroll 4
    for (int i = blockIdx.x * 256 + threadIdx.x; i < vectors; i += gridDim.x * 256) {
        add_value(all, exposure[i]);
    }
    all = moments_of_block<256>(all);
    if (threadIdx.x == 0) {
        atomicAdd(&summary[0], all.sum);
        atomicAdd(&summary[1], all.squares);
        atomicMax(reinterpret_cast<int*>(&summary[2]), __float_as_int(all.most));
    }
}

void grid_summary(const Model& m) {
    simulate<128><<<m.paths / 128, 128, flow_bytes(m)>>>(m);
    summarise_grid<<<256, 256>>>(reinterpret_cast<const float4*>(m.exposure), m.summary, m.paths / 4);
}
//: end

//: variant profile_by_block
// As simulate; adds the exposure of each date up over the block as well.
__device__ inline void add_to_profile(float* parts, float gained, float* total) {
    parts[threadIdx.x] = gained;
    __syncthreads();
    for (int half = 512; half > 0; half /= 2) {
        if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) atomicAdd(total, parts[0]);
}

__global__ void __launch_bounds__(1024) simulate_profile_block(Model m) {
    extern __shared__ float4 flows[];
    __shared__ float parts[1024];
    copy_flows<1024>(flows, m);
    const int path = blockIdx.x * 1024 + threadIdx.x;
    float rate = m.level, exposure = 0;
#pragma unroll 1
    for (int t = 0; t < m.dates; t += 2) {
        const float2 z = normals(path, t / 2, m.key);
        float first = 0, second = 0;
        advance(rate, first, z.x, flows + t * kVectors, m);
        add_to_profile(parts, first, &m.profile[t]);
        advance(rate, second, z.y, flows + (t + 1) * kVectors, m);
        add_to_profile(parts, second, &m.profile[t + 1]);
        exposure += first + second;
    }
    m.exposure[path] = exposure;
}

void profile_by_block(const Model& m) {
    simulate_profile_block<<<m.paths / 1024, 1024, flow_bytes(m)>>>(m);
}
//: end

//: variant profile_by_warp
// As simulate; each warp adds the exposure of each date up, and the block those of its warps at the end.
__device__ inline void keep_for_profile(float* kept, float gained) {
    for (int lane = 16; lane > 0; lane /= 2) gained += __shfl_xor_sync(0xffffffffu, gained, lane);
    if (threadIdx.x % 32 == 0) *kept = gained;
}

__global__ void __launch_bounds__(1024) simulate_profile_warp(Model m) {
    extern __shared__ float4 flows[];
    float* kept = reinterpret_cast<float*>(flows + m.dates * kVectors);  // [date][warp]
    copy_flows<1024>(flows, m);
    const int path = blockIdx.x * 1024 + threadIdx.x, warp = threadIdx.x / 32;
    float rate = m.level, exposure = 0;
#pragma unroll 1
    for (int t = 0; t < m.dates; t += 2) {
        const float2 z = normals(path, t / 2, m.key);
        float first = 0, second = 0;
        advance(rate, first, z.x, flows + t * kVectors, m);
        keep_for_profile(&kept[t * 32 + warp], first);
        advance(rate, second, z.y, flows + (t + 1) * kVectors, m);
        keep_for_profile(&kept[(t + 1) * 32 + warp], second);
        exposure += first + second;
    }
    m.exposure[path] = exposure;
    __syncthreads();
    for (int t = warp; t < m.dates; t += 32) {
        float sum = kept[t * 32 + threadIdx.x % 32];
        for (int lane = 16; lane > 0; lane /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lane);
        if (threadIdx.x % 32 == 0) atomicAdd(&m.profile[t], sum);
    }
}

void profile_by_warp(const Model& m) {
    const int bytes = flow_bytes(m) + m.dates * 32 * int(sizeof(float));
    simulate_profile_warp<<<m.paths / 1024, 1024, bytes>>>(m);
}
//: end

enum Wanted { kExposure, kProfile, kSummary };

// In double; a thread a path, 256 paths a block.
__global__ void reference_paths(Model m, float* expected, Wanted wanted) {
    __shared__ double all[256];
    const int path = blockIdx.x * 256 + threadIdx.x;
    double rate = m.level, exposure = 0, even = 0, odd = 0;
    for (int t = 0; t < m.dates; ++t) {
        if (t % 2 == 0) {
            unsigned high = path, low = t / 2, key = m.key;
            for (int round = 0; round < 7; ++round) {
                const unsigned upper = __umulhi(high, 0xD256D193u), lower = high * 0xD256D193u;
                high = upper ^ key ^ low;
                low = lower;
                key += 0x9E3779B9u;
            }
            const double radius = sqrt(-2 * log((high + 0.5) / 4294967296.0));
            even = radius * cospi(2 * (low / 4294967296.0 - 0.5));
            odd = radius * sinpi(2 * (low / 4294967296.0 - 0.5));
        }
        rate += double(m.speed) * (m.level - rate) + 0.0025 * (t % 2 ? odd : even);
        double value = 0;
        for (int k = 0; k < 8; ++k) {
            const float4 f = m.flows[t * 8 + k];
            value += f.x * exp2(f.y * rate) + f.z * exp2(f.w * rate);
        }
        const double gained = value > 0 ? value : 0;
        exposure += gained;
        if (wanted == kProfile) {
            __syncthreads();
            all[threadIdx.x] = gained;
            __syncthreads();
            if (threadIdx.x == 0) {
                double sum = 0;
                for (int i = 0; i < 256; ++i) sum += all[i];
                atomicAdd(&expected[t], float(sum));
            }
        }
    }
    if (wanted == kExposure) expected[path] = float(exposure);
    if (wanted == kSummary) {
        all[threadIdx.x] = exposure;
        __syncthreads();
        if (threadIdx.x == 0) {
            double sum = 0, squares = 0, most = 0;
            for (int i = 0; i < 256; ++i) {
                sum += all[i];
                squares += all[i] * all[i];
                most = fmax(most, all[i]);
            }
            atomicAdd(&expected[0], float(sum));
            atomicAdd(&expected[1], float(squares));
            atomicMax(reinterpret_cast<int*>(&expected[2]), __float_as_int(float(most)));
        }
    }
}

Model model_of(book::Problem& p, int paths, int dates) {
    Model m{paths, dates};
    const uint64_t seed = p.seed();
    m.key = uint32_t(book::mixed(seed));
    m.speed = 0.02f;
    m.level = 0.03f;
    m.flows = p.input<float4>(size_t(dates) * 8, [=] __host__ __device__(size_t i) {
        const double weight = 2.0 / dates;
        return make_float4(float(weight * (book::uniform01(seed, 101, i) * 2 - 1)),
                           float(-14 * book::uniform01(seed, 102, i)),
                           float(weight * (book::uniform01(seed, 103, i) * 2 - 1)),
                           float(-14 * book::uniform01(seed, 104, i)));
    });
    m.exposure = p.output<float>(paths);
    const double steps = double(paths) * dates;
    p.needs({.dram_bytes = 4.0 * paths + 128.0 * dates,
             .fp32_flop = steps * (3 * kFlows + 10),
             .int_op = steps * 10,
             .special_op = steps * (kFlows + 2)});
    p.check<float>(m.exposure, paths, {1e-3, 1e-3}, [=](float* expected) {
        reference_paths<<<paths / 256, 256>>>(m, expected, kExposure);
    });
    return m;
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("desk", [](book::Problem& p) {
        Model m = model_of(p, 16384, 160);
        m.state = p.output<float2>(m.paths);
        auto* problem = &p;
        p.variant("date_by_date", [=] { date_by_date(m, problem); });
        p.variant("blocks_of_512", [=] { blocks_of_512(m); });
        p.variant("blocks_of_128", [=] { blocks_of_128(m); });
    });
    book.problem("branch", [](book::Problem& p) {
        const Model m = model_of(p, 294 * 1024, 32);
        p.variant("blocks_of_1024", [=] { blocks_of_1024(m); });
        p.variant("blocks_of_128", [=] { blocks_of_128(m); });
    });
    book.problem("bank", [](book::Problem& p) {
        const Model m = model_of(p, 3208 * 512, 16);
        p.variant("blocks_of_512", [=] { blocks_of_512(m); });
        p.variant("blocks_of_128", [=] { blocks_of_128(m); });
        p.variant("plain_constants", [=] { plain_constants(m); });
    });
    book.problem("with_summary", [](book::Problem& p) {
        Model m = model_of(p, 1 << 20, 6);
        m.summary = p.zeroed<float>(3);
        p.check<float>(m.summary, 3, {1e-3, 1e-3}, [=](float* expected) {
            reference_paths<<<m.paths / 256, 256>>>(m, expected, kSummary);
        });
        p.variant("block_summary", [=] { block_summary(m); });
        p.variant("grid_summary", [=] { grid_summary(m); });
    });
    book.problem("with_profile", [](book::Problem& p) {
        Model m = model_of(p, 128 * 1024, 64);
        m.profile = p.zeroed<float>(m.dates);
        p.check<float>(m.profile, m.dates, {1e-3, 4}, [=](float* expected) {
            reference_paths<<<m.paths / 256, 256>>>(m, expected, kProfile);
        });
        p.variant("profile_by_block", [=] { profile_by_block(m); });
        p.variant("profile_by_warp", [=] { profile_by_warp(m); });
    });
    return book.finish();
}
