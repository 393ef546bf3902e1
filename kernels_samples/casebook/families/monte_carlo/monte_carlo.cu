// Monte Carlo: lookback options, the volume of a ball, random walks with absorption, basket options.
#include "../../harness/book.h"

//: shared
__device__ inline uint32_t scrambled(uint32_t value) {
    value = (value ^ (value >> 16)) * 0x7feb352du;
    value = (value ^ (value >> 15)) * 0x846ca68bu;
    return value ^ (value >> 16);
}
__device__ inline uint32_t stepped(uint32_t& state) {
    state = state * 1664525u + 1013904223u;
    return state;
}
// In (0, 1), never 0 or 1.
__device__ inline float open_uniform(uint32_t bits) {
    return __uint_as_float(0x3f800000u | (bits >> 9)) - 0.99999994f;
}
// Two independent normal variates (Box and Muller).
__device__ inline float2 normals(uint32_t& state) {
    const float u = open_uniform(stepped(state)), v = open_uniform(stepped(state));
    const float square = fmaxf(-2.0f * __logf(u), 1e-7f);
    const float radius = square * rsqrtf(square);
    float sine, cosine;
    __sincosf(6.2831853f * v, &sine, &cosine);
    return make_float2(radius * cosine, radius * sine);
}

struct Lookback {
    int paths, steps;
    uint32_t seed;
    float drift, volatility;  // of one step
    float* payoff;
};
//: end

//: variant spot
__global__ void lookback_spot(float* payoff, int steps, uint32_t seed, float drift,
                              float volatility) {
    const int path = blockIdx.x * blockDim.x + threadIdx.x;
    uint32_t state = scrambled(path ^ seed);
    float price = 1, highest = 1;
    for (int step = 0; step < steps; step += 2) {
        const float2 z = normals(state);
        price *= __expf(drift + volatility * z.x);
        highest = fmaxf(highest, price);
        price *= __expf(drift + volatility * z.y);
        highest = fmaxf(highest, price);
    }
    payoff[path] = highest - price;
}

void spot(const Lookback& d) {
    lookback_spot<<<d.paths / 256, 256>>>(d.payoff, d.steps, d.seed, d.drift, d.volatility);
}
//: end

//: variant log_spot
__global__ void lookback_log_spot(float* payoff, int steps, uint32_t seed, float drift,
                                  float volatility) {
    const int path = blockIdx.x * blockDim.x + threadIdx.x;
    uint32_t state = scrambled(path ^ seed);
    float price = 0, highest = 0;
    for (int step = 0; step < steps; step += 2) {
        const float2 z = normals(state);
        price += drift + volatility * z.x;
        highest = fmaxf(highest, price);
        price += drift + volatility * z.y;
        highest = fmaxf(highest, price);
    }
    payoff[path] = expf(highest) - expf(price);
}

void log_spot(const Lookback& d) {
    lookback_log_spot<<<d.paths / 256, 256>>>(d.payoff, d.steps, d.seed, d.drift, d.volatility);
}
//: end

//: variant log_spot_32
__global__ void lookback_log_spot_32(float* payoff, int steps, uint32_t seed, float drift,
                                  float volatility) {
    const int path = blockIdx.x * blockDim.x + threadIdx.x;
    uint32_t state = scrambled(path ^ seed);
    float price = 0, highest = 0;
    for (int step = 0; step < steps; step += 2) {
        const float2 z = normals(state);
        price += drift + volatility * z.x;
        highest = fmaxf(highest, price);
        price += drift + volatility * z.y;
        highest = fmaxf(highest, price);
    }
    payoff[path] = expf(highest) - expf(price);
}

void log_spot_32(const Lookback& d) {
    lookback_log_spot_32<<<d.paths / 32, 32>>>(d.payoff, d.steps, d.seed, d.drift, d.volatility);
}
//: end

//: shared
struct Ball {
    int threads, samples;  // samples a thread, a multiple of 4
    uint32_t seed;
    int* inside;
};

// Salmon's Philox4x32 with ten rounds.
__device__ inline uint4 philox(uint32_t counter, uint32_t stream, uint32_t seed) {
    uint4 c = make_uint4(counter, stream, 0, 0);
    uint32_t k0 = seed, k1 = 0xCAFEF00Du;
#pragma unroll
    for (int round = 0; round < 10; ++round) {
        const uint32_t h0 = __umulhi(0xD2511F53u, c.x), l0 = 0xD2511F53u * c.x;
        const uint32_t h1 = __umulhi(0xCD9E8D57u, c.z), l1 = 0xCD9E8D57u * c.z;
        c = make_uint4(h1 ^ c.y ^ k0, l1, h0 ^ c.w ^ k1, l0);
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return c;
}
//: end

//: variant by_index
__device__ inline float draw(uint32_t index, uint32_t stream, uint32_t seed) {
    const uint4 words = philox(index / 4, stream, seed);
    const uint32_t low = index & 1 ? words.y : words.x, high = index & 1 ? words.w : words.z;
    return open_uniform(index & 2 ? high : low);
}

__global__ void ball_by_index(int* inside, int samples, uint32_t seed) {
    const int thread = blockIdx.x * blockDim.x + threadIdx.x;
    int hits = 0;
    for (int i = 0; i < samples; ++i) {
        const float x = draw(3 * i, thread, seed);
        const float y = draw(3 * i + 1, thread, seed);
        const float z = draw(3 * i + 2, thread, seed);
        hits += x * x + y * y + z * z < 1.0f;
    }
    inside[thread] = hits;
}

void by_index(const Ball& d) {
    ball_by_index<<<d.threads / 128, 128>>>(d.inside, d.samples, d.seed);
}
//: end

//: variant by_fours
__device__ inline bool hit(uint32_t a, uint32_t b, uint32_t c) {
    const float x = open_uniform(a), y = open_uniform(b), z = open_uniform(c);
    return x * x + y * y + z * z < 1.0f;
}

__global__ void ball_by_fours(int* inside, int samples, uint32_t seed) {
    const int thread = blockIdx.x * blockDim.x + threadIdx.x;
    int hits = 0;
    for (int i = 0; i < samples; i += 4) {
        const uint32_t first = 3 * i / 4;
        const uint4 p = philox(first, thread, seed);
        const uint4 q = philox(first + 1, thread, seed);
        const uint4 r = philox(first + 2, thread, seed);
        hits += hit(p.x, p.y, p.z) + hit(p.w, q.x, q.y) + hit(q.z, q.w, r.x) + hit(r.y, r.z, r.w);
    }
    inside[thread] = hits;
}

void by_fours(const Ball& d) {
    ball_by_fours<<<d.threads / 128, 128>>>(d.inside, d.samples, d.seed);
}
//: end

//: shared
struct Walk {
    int threads, particles;  // particles a thread
    int sure;                // collisions before a particle can be absorbed
    uint32_t absorbed;       // 2^32 times the probability
    uint32_t seed;
    float* spread;
};
constexpr int kWalkBlock = 192;
//: end

//: variant nested_log
__global__ void walk_nested_log(float* spread, int particles, int sure, uint32_t absorbed,
                                uint32_t seed) {
    const int thread = blockIdx.x * kWalkBlock + threadIdx.x;
    float total = 0;
    for (int k = 0; k < particles; ++k) {
        uint32_t state = scrambled(thread * particles + k + seed);
        float x = 0;
        int collisions = 0;
        do {
            const float free_path = -log(1.0 - open_uniform(stepped(state)));
            const float cosine = 2.0f * open_uniform(stepped(state)) - 1.0f;
            x += free_path * cosine;
            ++collisions;
        } while (stepped(state) >= absorbed || collisions <= sure);
        total += x * x;
    }
    spread[thread] = total;
}

void nested_log(const Walk& d) {
    walk_nested_log<<<d.threads / kWalkBlock, kWalkBlock>>>(d.spread, d.particles, d.sure,
                                                            d.absorbed, d.seed);
}
//: end

//: variant nested
__global__ void walk_nested(float* spread, int particles, int sure, uint32_t absorbed,
                            uint32_t seed) {
    const int thread = blockIdx.x * kWalkBlock + threadIdx.x;
    float total = 0;
    for (int k = 0; k < particles; ++k) {
        uint32_t state = scrambled(thread * particles + k + seed);
        float x = 0;
        int collisions = 0;
        do {
            const float free_path = -logf(1.0f - open_uniform(stepped(state)));
            const float cosine = 2.0f * open_uniform(stepped(state)) - 1.0f;
            x += free_path * cosine;
            ++collisions;
        } while (stepped(state) >= absorbed || collisions <= sure);
        total += x * x;
    }
    spread[thread] = total;
}

void nested(const Walk& d) {
    walk_nested<<<d.threads / kWalkBlock, kWalkBlock>>>(d.spread, d.particles, d.sure, d.absorbed,
                                                        d.seed);
}
//: end

//: variant refilled_log
__global__ void walk_refilled_log(float* spread, int particles, int sure, uint32_t absorbed,
                                  uint32_t seed) {
    const int thread = blockIdx.x * kWalkBlock + threadIdx.x;
    float total = 0, x = 0;
    int done = 0, collisions = 0;
    uint32_t state = scrambled(thread * particles + seed);
    while (done < particles) {
        const float free_path = -log(1.0 - open_uniform(stepped(state)));
        const float cosine = 2.0f * open_uniform(stepped(state)) - 1.0f;
        x += free_path * cosine;
        ++collisions;
        if (stepped(state) < absorbed && collisions > sure) {
            total += x * x;
            ++done;
            state = scrambled(thread * particles + done + seed);
            x = 0;
            collisions = 0;
        }
    }
    spread[thread] = total;
}

void refilled_log(const Walk& d) {
    walk_refilled_log<<<d.threads / kWalkBlock, kWalkBlock>>>(d.spread, d.particles, d.sure,
                                                              d.absorbed, d.seed);
}
//: end

//: variant refilled
__global__ void walk_refilled(float* spread, int particles, int sure, uint32_t absorbed,
                              uint32_t seed) {
    const int thread = blockIdx.x * kWalkBlock + threadIdx.x;
    float total = 0, x = 0;
    int done = 0, collisions = 0;
    uint32_t state = scrambled(thread * particles + seed);
    while (done < particles) {
        const float free_path = -logf(1.0f - open_uniform(stepped(state)));
        const float cosine = 2.0f * open_uniform(stepped(state)) - 1.0f;
        x += free_path * cosine;
        ++collisions;
        if (stepped(state) < absorbed && collisions > sure) {
            total += x * x;
            ++done;
            state = scrambled(thread * particles + done + seed);
            x = 0;
            collisions = 0;
        }
    }
    spread[thread] = total;
}

void refilled(const Walk& d) {
    walk_refilled<<<d.threads / kWalkBlock, kWalkBlock>>>(d.spread, d.particles, d.sure, d.absorbed,
                                                          d.seed);
}
//: end

//: shared
constexpr int kAssets = 40;
constexpr int kRegimes = 2;  // of volatility; the paths take turns
constexpr int kBasketBlock = 256;

struct Basket {
    int threads, paths;  // paths a thread
    uint32_t seed;
    const float* factor;  // [regime][kAssets][kAssets], lower triangles
    float* value;
};

// The value of the basket at the end of one path: factor times independent normals, exponentials.
__device__ inline float basket_path(const float (*factor)[kAssets], uint32_t& state) {
    float z[kAssets];
#pragma unroll
    for (int i = 0; i < kAssets; i += 2) {
        const float2 pair = normals(state);
        z[i] = pair.x;
        z[i + 1] = pair.y;
    }
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kAssets; ++i) {
        float exponent = 0;
#pragma unroll
        for (int j = 0; j <= i; ++j) exponent += factor[i][j] * z[j];
        sum += __expf(exponent);
    }
    return sum;
}
//: end

//: variant any_assets
__global__ void basket_any_assets(const float* factor, float* value, int assets, int paths,
                                  uint32_t seed) {
    __shared__ alignas(16) float shared_factor[kRegimes][kAssets][kAssets];
    for (int i = threadIdx.x; i < kRegimes * kAssets * kAssets; i += kBasketBlock) {
        (&shared_factor[0][0][0])[i] = factor[i];
    }
    __syncthreads();
    const int thread = blockIdx.x * kBasketBlock + threadIdx.x;
    uint32_t state = scrambled(thread ^ seed);
    float total = 0;
    for (int path = 0; path < paths; ++path) {
        float z[kAssets];
        for (int i = 0; i < assets; i += 2) {
            const float2 pair = normals(state);
            z[i] = pair.x;
            z[i + 1] = pair.y;
        }
        float sum = 0;
        for (int i = 0; i < assets; ++i) {
            float exponent = 0;
            for (int j = 0; j <= i; ++j) exponent += shared_factor[path % kRegimes][i][j] * z[j];
            sum += __expf(exponent);
        }
        total += sum;
    }
    value[thread] = total / paths;
}

void any_assets(const Basket& d) {
    basket_any_assets<<<d.threads / kBasketBlock, kBasketBlock>>>(d.factor, d.value, kAssets,
                                                                  d.paths, d.seed);
}
//: end

//: variant fixed_8_blocks
__global__ void __launch_bounds__(kBasketBlock, 8)
    basket_fixed_8_blocks(const float* factor, float* value, int paths, uint32_t seed) {
    __shared__ alignas(16) float shared_factor[kRegimes][kAssets][kAssets];
    for (int i = threadIdx.x; i < kRegimes * kAssets * kAssets; i += kBasketBlock) {
        (&shared_factor[0][0][0])[i] = factor[i];
    }
    __syncthreads();
    const int thread = blockIdx.x * kBasketBlock + threadIdx.x;
    uint32_t state = scrambled(thread ^ seed);
    float total = 0;
    for (int path = 0; path < paths; ++path) {
        total += basket_path(shared_factor[path % kRegimes], state);
    }
    value[thread] = total / paths;
}

void fixed_8_blocks(const Basket& d) {
    basket_fixed_8_blocks<<<d.threads / kBasketBlock, kBasketBlock>>>(d.factor, d.value, d.paths,
                                                                       d.seed);
}
//: end

//: variant fixed
__global__ void __launch_bounds__(kBasketBlock)
    basket_fixed(const float* factor, float* value, int paths, uint32_t seed) {
    __shared__ alignas(16) float shared_factor[kRegimes][kAssets][kAssets];
    for (int i = threadIdx.x; i < kRegimes * kAssets * kAssets; i += kBasketBlock) {
        (&shared_factor[0][0][0])[i] = factor[i];
    }
    __syncthreads();
    const int thread = blockIdx.x * kBasketBlock + threadIdx.x;
    uint32_t state = scrambled(thread ^ seed);
    float total = 0;
    for (int path = 0; path < paths; ++path) {
        total += basket_path(shared_factor[path % kRegimes], state);
    }
    value[thread] = total / paths;
}

void fixed(const Basket& d) {
    basket_fixed<<<d.threads / kBasketBlock, kBasketBlock>>>(d.factor, d.value, d.paths, d.seed);
}
//: end

// --- references, in double, with generators of their own

__device__ uint32_t reference_start(uint32_t v) {
    v ^= v >> 16;
    v *= 0x7feb352du;
    v ^= v >> 15;
    v *= 0x846ca68bu;
    return v ^ (v >> 16);
}
__device__ double reference_uniform(uint32_t& state) {
    state = 1664525u * state + 1013904223u;
    return (double(state / 512) + 0.5) / 8388608.0;
}
__device__ void reference_normals(uint32_t& state, double* z) {
    const double u = reference_uniform(state), v = reference_uniform(state);
    const double r = sqrt(-2 * log(u));
    z[0] = r * cospi(2 * v);
    z[1] = r * sinpi(2 * v);
}
__global__ void reference_lookback(float* expected, int paths, int steps, uint32_t seed,
                                   float drift, float volatility) {
    const int path = blockIdx.x * blockDim.x + threadIdx.x;
    if (path >= paths) return;
    uint32_t state = reference_start(path ^ seed);
    double at = 0, top = 0, z[2];
    for (int step = 0; step < steps; ++step) {
        if (step % 2 == 0) reference_normals(state, z);
        at += double(drift) + double(volatility) * z[step % 2];
        top = fmax(top, at);
    }
    expected[path] = float(exp(top) - exp(at));
}
__global__ void reference_ball(int* expected, int threads, int samples, uint32_t seed) {
    const int thread = blockIdx.x * blockDim.x + threadIdx.x;
    if (thread >= threads) return;
    uint32_t word[4];
    int hits = 0, drawn = 0;
    for (int i = 0; i < samples; ++i) {
        double square = 0;
        for (int axis = 0; axis < 3; ++axis, ++drawn) {
            if (drawn % 4 == 0) {
                uint32_t c[4] = {uint32_t(drawn / 4), uint32_t(thread), 0, 0};
                uint32_t k0 = seed, k1 = 0xCAFEF00Du;
                for (int round = 0; round < 10; ++round) {
                    const uint64_t a = uint64_t{0xD2511F53u} * c[0], b = uint64_t{0xCD9E8D57u} * c[2];
                    c[0] = uint32_t(b >> 32) ^ c[1] ^ k0;
                    c[1] = uint32_t(b);
                    c[2] = uint32_t(a >> 32) ^ c[3] ^ k1;
                    c[3] = uint32_t(a);
                    k0 += 0x9E3779B9u;
                    k1 += 0xBB67AE85u;
                }
                for (int w = 0; w < 4; ++w) word[w] = c[w];
            }
            const double u = (double(word[drawn % 4] / 512) + 0.5) / 8388608.0;
            square += u * u;
        }
        hits += square < 1;
    }
    expected[thread] = hits;
}
__global__ void reference_walk(float* expected, int threads, int particles, int sure,
                               uint32_t absorbed, uint32_t seed) {
    const int thread = blockIdx.x * blockDim.x + threadIdx.x;
    if (thread >= threads) return;
    double total = 0;
    for (int k = 0; k < particles; ++k) {
        uint32_t state = reference_start(thread * particles + k + seed);
        double x = 0;
        for (int collision = 1;; ++collision) {
            const double path = -log1p(-reference_uniform(state));
            x += path * (2 * reference_uniform(state) - 1);
            state = 1664525u * state + 1013904223u;
            if (collision > sure && state < absorbed) break;
        }
        total += x * x;
    }
    expected[thread] = float(total);
}
__global__ void reference_basket(const float* factor, float* expected, int threads, int paths,
                                 uint32_t seed) {
    const int thread = blockIdx.x * blockDim.x + threadIdx.x;
    if (thread >= threads) return;
    uint32_t state = reference_start(thread ^ seed);
    double total = 0;
    for (int path = 0; path < paths; ++path) {
        double z[40];
        for (int i = 0; i < 40; i += 2) reference_normals(state, z + i);
        for (int i = 0; i < 40; ++i) {
            double exponent = 0;
            for (int j = 0; j <= i; ++j) exponent += double(factor[(path % 2 * 40 + i) * 40 + j]) * z[j];
            total += exp(exponent);
        }
    }
    expected[thread] = float(total / paths);
}

Walk walk_data(book::Problem& p, int particles, int sure, double probability) {
    Walk d{132 * 10 * kWalkBlock, particles, sure,
           uint32_t(probability * 4294967296.0), uint32_t(p.seed() * 7919)};
    d.spread = p.output<float>(d.threads);
    const double collisions = double(d.threads) * particles * (sure + 1 / probability);
    p.needs({.dram_bytes = 4.0 * d.threads,
             .fp32_flop = 6 * collisions,
             .int_op = 9 * collisions,
             .special_op = collisions});
    p.check<float>(d.spread, d.threads, {1e-3, 1e-3}, [=](float* expected) {
        reference_walk<<<(d.threads + 127) / 128, 128>>>(expected, d.threads, d.particles, d.sure,
                                                         d.absorbed, d.seed);
    });
    return d;
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("lookback_128", [](book::Problem& p) {
        Lookback d{132 * 2048 * 4, 128, uint32_t(p.seed() * 104729), -0.0002f, 0.02f};
        d.payoff = p.output<float>(d.paths);
        const double steps = double(d.paths) * d.steps;
        p.needs({.dram_bytes = 4.0 * d.paths,
                 .fp32_flop = 8 * steps,
                 .int_op = 3 * steps,
                 .special_op = 2 * steps});
        p.check<float>(d.payoff, d.paths, {1e-3, 2e-4}, [=](float* expected) {
            reference_lookback<<<(d.paths + 127) / 128, 128>>>(expected, d.paths, d.steps, d.seed,
                                                               d.drift, d.volatility);
        });
        p.variant("spot", [=] { spot(d); });
        p.variant("log_spot", [=] { log_spot(d); });
        p.variant("log_spot_32", [=] { log_spot_32(d); });
    });
    book.problem("ball_256", [](book::Problem& p) {
        Ball d{132 * 2048, 256, uint32_t(p.seed() * 65537)};
        d.inside = p.output<int>(d.threads);
        const double samples = double(d.threads) * d.samples;
        p.needs({.dram_bytes = 4.0 * d.threads, .fp32_flop = 8 * samples, .int_op = 45 * samples});
        p.check<int>(d.inside, d.threads, {0, 2}, [=](int* expected) {
            reference_ball<<<(d.threads + 127) / 128, 128>>>(expected, d.threads, d.samples, d.seed);
        });
        p.variant("by_index", [=] { by_index(d); });
        p.variant("by_fours", [=] { by_fours(d); });
    });
    book.problem("walk_geometric", [](book::Problem& p) {
        const Walk d = walk_data(p, 32, 0, 0.1);
        p.variant("nested_log", [=] { nested_log(d); });
        p.variant("nested", [=] { nested(d); });
        p.variant("refilled_log", [=] { refilled_log(d); });
        p.variant("refilled", [=] { refilled(d); });
    });
    book.problem("walk_16_and_some", [](book::Problem& p) {
        const Walk d = walk_data(p, 32, 16, 0.2);
        p.variant("nested", [=] { nested(d); });
        p.variant("refilled", [=] { refilled(d); });
    });
    book.problem("basket_40", [](book::Problem& p) {
        Basket d{132 * 2048, 8, uint32_t(p.seed() * 50021)};
        const uint64_t seed = p.seed();
        d.factor = p.input<float>(kRegimes * kAssets * kAssets, [=] __device__(size_t i) {
            return i % kAssets > i / kAssets % kAssets ? 0.0f
                                             : float(0.1 * book::uniform01(seed, 5, i) - 0.03);
        });
        d.value = p.output<float>(d.threads);
        const double paths = double(d.threads) * d.paths;
        p.needs({.dram_bytes = 4.0 * d.threads,
                 .fp32_flop = paths * (kAssets * (kAssets + 1.0) + 4 * kAssets),
                 .int_op = paths * 3 * kAssets,
                 .special_op = paths * 3 * kAssets});
        p.check<float>(d.value, d.threads, {3e-4, 1e-4}, [=](float* expected) {
            reference_basket<<<(d.threads + 127) / 128, 128>>>(d.factor, expected, d.threads,
                                                               d.paths, d.seed);
        });
        p.variant("any_assets", [=] { any_assets(d); });
        p.variant("fixed_8_blocks", [=] { fixed_8_blocks(d); });
        p.variant("fixed", [=] { fixed(d); });
    });
    return book.finish();
}
