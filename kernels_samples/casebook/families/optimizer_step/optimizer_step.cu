// Steps of optimisers: Adam over one or many tensors, and descent along gradients that lie on the host.
#include "../../harness/book.h"

struct Adam {
    int count;
    const float* weight;
    const float* gradient;
    const float* mean;
    const float* square;
    const float* scaler;  // 1 / loss scale, and 1 where the step is to be taken
    float* new_weight;
    float* new_mean;
    float* new_square;
};

// What a user may set for each weight.
struct Setting {
    float decay, rate, lowest, highest;
};

struct Chunk {
    int begin, count;
    float decay;
};

struct Many {
    Adam all;                    // the tensors one after the other
    std::vector<Chunk> tensors;  // on the host
    const Chunk* chunks;         // pieces of at most 1024 elements, on the device
    int chunk_count;
};

struct Own {
    Adam all;
    const Setting* settings;  // of each weight
    const float* decays;      // of the settings, one after the other
};

struct Descent {
    int count;
    const float* weight;
    const float* gradient;  // host memory
    float* copy;
    float* norm;  // zero before each run: sum of squares
    float* new_weight;
};

//: shared
constexpr float kRate = 1e-3f, kBeta1 = 0.9f, kBeta2 = 0.999f, kSmall = 1e-8f, kScale = 0.25f;
constexpr int kStep = 37;

// Of the step kStep, as the host computes them once.
struct Corrections {
    float first, second;
};

inline Corrections corrections() {
    return {static_cast<float>(1.0 / (1.0 - std::pow(double(kBeta1), kStep))),
            static_cast<float>(1.0 / (1.0 - std::pow(double(kBeta2), kStep)))};
}

__device__ float moved(float weight, float mean, float square, Corrections c) {
    return weight - kRate * (mean * c.first) / (sqrtf(square * c.second) + kSmall);
}
//: end

// --- one large tensor

//: shared
__global__ void __launch_bounds__(256) next_mean(const float* gradient, const float* mean, float* new_mean,
                                                 int count) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < count) new_mean[i] = kBeta1 * mean[i] + (1 - kBeta1) * kScale * gradient[i];
}

__global__ void __launch_bounds__(256) next_square(const float* gradient, const float* square,
                                                   float* new_square, int count) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < count) {
        const float g = kScale * gradient[i];
        new_square[i] = kBeta2 * square[i] + (1 - kBeta2) * g * g;
    }
}
//: end

//: variant stages_with_step
__global__ void __launch_bounds__(256) next_weight_of_step(const float* weight, const float* mean,
                                                           const float* square, float* new_weight,
                                                           int step, int count) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < count) {
        const float first = 1.0 - pow(double(kBeta1), double(step));
        const float second = 1.0 - pow(double(kBeta2), double(step));
        new_weight[i] = moved(weight[i], mean[i], square[i], {1.0f / first, 1.0f / second});
    }
}

void stages_with_step(const Adam& d) {
    const int blocks = d.count / 256;
    next_mean<<<blocks, 256>>>(d.gradient, d.mean, d.new_mean, d.count);
    next_square<<<blocks, 256>>>(d.gradient, d.square, d.new_square, d.count);
    next_weight_of_step<<<blocks, 256>>>(d.weight, d.new_mean, d.new_square, d.new_weight, kStep, d.count);
}
//: end

//: variant stages
__global__ void __launch_bounds__(256) next_weight(const float* weight, const float* mean,
                                                   const float* square, float* new_weight,
                                                   Corrections c, int count) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < count) new_weight[i] = moved(weight[i], mean[i], square[i], c);
}

void stages(const Adam& d) {
    const int blocks = d.count / 256;
    next_mean<<<blocks, 256>>>(d.gradient, d.mean, d.new_mean, d.count);
    next_square<<<blocks, 256>>>(d.gradient, d.square, d.new_square, d.count);
    next_weight<<<blocks, 256>>>(d.weight, d.new_mean, d.new_square, d.new_weight, corrections(), d.count);
}
//: end

//: variant fused_with_step
__global__ void __launch_bounds__(256) adam_of_step(Adam d, int step) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < d.count) {
        const float weight = d.weight[i];
        const float g = kScale * d.gradient[i];
        const float mean = kBeta1 * d.mean[i] + (1 - kBeta1) * g;
        const float square = kBeta2 * d.square[i] + (1 - kBeta2) * g * g;
        const float first = 1.0 - pow(double(kBeta1), double(step));
        const float second = 1.0 - pow(double(kBeta2), double(step));
        d.new_mean[i] = mean;
        d.new_square[i] = square;
        d.new_weight[i] = moved(weight, mean, square, {1.0f / first, 1.0f / second});
    }
}

void fused_with_step(const Adam& d) {
    adam_of_step<<<d.count / 256, 256>>>(d, kStep);
}
//: end

//: variant fused
__global__ void __launch_bounds__(256) adam(Adam d, Corrections c) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < d.count) {
        const float weight = d.weight[i];
        const float g = kScale * d.gradient[i];
        const float mean = kBeta1 * d.mean[i] + (1 - kBeta1) * g;
        const float square = kBeta2 * d.square[i] + (1 - kBeta2) * g * g;
        d.new_mean[i] = mean;
        d.new_square[i] = square;
        d.new_weight[i] = moved(weight, mean, square, c);
    }
}

void fused(const Adam& d) {
    adam<<<d.count / 256, 256>>>(d, corrections());
}
//: end

//: variant live_scaler
// The scaler may be changed by the host while the step is under way.
__global__ void __launch_bounds__(256) adam_live(Adam d, Corrections c) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    const volatile float* scaler = d.scaler;
    const float weight = d.weight[i], old_mean = d.mean[i], old_square = d.square[i];
    const float g = scaler[0] * d.gradient[i];
    const bool taken = scaler[1] != 0.0f;
    const float mean = kBeta1 * old_mean + (1 - kBeta1) * g;
    const float square = kBeta2 * old_square + (1 - kBeta2) * g * g;
    d.new_mean[i] = taken ? mean : old_mean;
    d.new_square[i] = taken ? square : old_square;
    d.new_weight[i] = taken ? moved(weight, mean, square, c) : weight;
}

void live_scaler(const Adam& d) {
    adam_live<<<d.count / 256, 256>>>(d, corrections());
}
//: end

//: variant block_scaler
__global__ void __launch_bounds__(256) adam_block(Adam d, Corrections c) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    const volatile float* scaler = d.scaler;
    __shared__ float of_block[2];
    const float weight = d.weight[i], old_mean = d.mean[i], old_square = d.square[i];
    const float gradient = d.gradient[i];
    if (threadIdx.x < 2) of_block[threadIdx.x] = scaler[threadIdx.x];
    __syncthreads();
    const float g = of_block[0] * gradient;
    const bool taken = of_block[1] != 0.0f;
    const float mean = kBeta1 * old_mean + (1 - kBeta1) * g;
    const float square = kBeta2 * old_square + (1 - kBeta2) * g * g;
    d.new_mean[i] = taken ? mean : old_mean;
    d.new_square[i] = taken ? square : old_square;
    d.new_weight[i] = taken ? moved(weight, mean, square, c) : weight;
}

void block_scaler(const Adam& d) {
    adam_block<<<d.count / 256, 256>>>(d, corrections());
}
//: end

//: variant fused_quads
__device__ float4 mix(float a, float4 x, float b, float4 y) {
    return make_float4(a * x.x + b * y.x, a * x.y + b * y.y, a * x.z + b * y.z, a * x.w + b * y.w);
}

__global__ void __launch_bounds__(256) adam_quads(Adam d, Corrections c) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < d.count / 4) {
        const float4 raw = reinterpret_cast<const float4*>(d.gradient)[i];
        const float4 g = make_float4(kScale * raw.x, kScale * raw.y, kScale * raw.z, kScale * raw.w);
        const float4 gg = make_float4(g.x * g.x, g.y * g.y, g.z * g.z, g.w * g.w);
        const float4 w = reinterpret_cast<const float4*>(d.weight)[i];
        const float4 m = mix(kBeta1, reinterpret_cast<const float4*>(d.mean)[i], 1 - kBeta1, g);
        const float4 s = mix(kBeta2, reinterpret_cast<const float4*>(d.square)[i], 1 - kBeta2, gg);
        reinterpret_cast<float4*>(d.new_mean)[i] = m;
        reinterpret_cast<float4*>(d.new_square)[i] = s;
        reinterpret_cast<float4*>(d.new_weight)[i] = make_float4(
            moved(w.x, m.x, s.x, c), moved(w.y, m.y, s.y, c), moved(w.z, m.z, s.z, c), moved(w.w, m.w, s.w, c));
    }
}

void fused_quads(const Adam& d) {
    adam_quads<<<d.count / 1024, 256>>>(d, corrections());
}
//: end

// --- one large tensor, each weight with a decay of its own

//: variant decay_of_settings
__global__ void __launch_bounds__(256) adam_settings(Adam d, const Setting* __restrict__ settings, Corrections c) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < d.count) {
        const float weight = settings[i].decay * d.weight[i];
        const float g = kScale * d.gradient[i];
        const float mean = kBeta1 * d.mean[i] + (1 - kBeta1) * g;
        const float square = kBeta2 * d.square[i] + (1 - kBeta2) * g * g;
        d.new_mean[i] = mean;
        d.new_square[i] = square;
        d.new_weight[i] = moved(weight, mean, square, c);
    }
}

void decay_of_settings(const Own& d) {
    adam_settings<<<d.all.count / 256, 256>>>(d.all, d.settings, corrections());
}
//: end

//: variant decay_of_array
__global__ void __launch_bounds__(256) adam_decays(Adam d, const float* __restrict__ decays, Corrections c) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < d.count) {
        const float weight = decays[i] * d.weight[i];
        const float g = kScale * d.gradient[i];
        const float mean = kBeta1 * d.mean[i] + (1 - kBeta1) * g;
        const float square = kBeta2 * d.square[i] + (1 - kBeta2) * g * g;
        d.new_mean[i] = mean;
        d.new_square[i] = square;
        d.new_weight[i] = moved(weight, mean, square, c);
    }
}

void decay_of_array(const Own& d) {
    adam_decays<<<d.all.count / 256, 256>>>(d.all, d.decays, corrections());
}
//: end

// --- many tensors, each with its own decay of the weights

//: shared
__device__ void update_chunk(const Adam& d, Corrections c, int begin, int end, float decay) {
    float weight[4], gradient[4], mean[4], square[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const int i = begin + 256 * k + threadIdx.x;
        if (i < end) {
            weight[k] = d.weight[i];
            gradient[k] = kScale * d.gradient[i];
            mean[k] = d.mean[i];
            square[k] = d.square[i];
        }
    }
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const int i = begin + 256 * k + threadIdx.x;
        if (i < end) {
            const float next_mean = kBeta1 * mean[k] + (1 - kBeta1) * gradient[k];
            const float next_square = kBeta2 * square[k] + (1 - kBeta2) * gradient[k] * gradient[k];
            d.new_mean[i] = next_mean;
            d.new_square[i] = next_square;
            d.new_weight[i] = moved(weight[k] * decay, next_mean, next_square, c);
        }
    }
}
//: end

//: variant tensor_by_tensor
__global__ void __launch_bounds__(256) adam_tensor(Adam d, Corrections c, int begin, int count, float decay) {
    update_chunk(d, c, begin + blockIdx.x * 1024, begin + count, decay);
}

void tensor_by_tensor(const Many& d, const book::Problem* problem) {
    const Corrections c = corrections();
    for (int t = 0; t < int(d.tensors.size()); ++t) {
        const Chunk& tensor = d.tensors[t];
        adam_tensor<<<(tensor.count + 1023) / 1024, 256>>>(d.all, c, tensor.begin, tensor.count, tensor.decay);
        problem->launched(t);
    }
}
//: end

//: variant all_tensors
__global__ void __launch_bounds__(256) adam_chunks(Adam d, Corrections c, const Chunk* chunks) {
    const Chunk chunk = chunks[blockIdx.x];
    update_chunk(d, c, chunk.begin, chunk.begin + chunk.count, chunk.decay);
}

void all_tensors(const Many& d) {
    adam_chunks<<<d.chunk_count, 256>>>(d.all, corrections(), d.chunks);
}
//: end

// --- descent along gradients in host memory, with and without clipping of their norm

//: shared
constexpr float kMostNorm = 1000.0f;

__global__ void __launch_bounds__(256) add_squares(const float4* gradient, float* norm, int quads) {
    float sum = 0;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < quads; i += gridDim.x * 256) {
        const float4 g = gradient[i];
        sum += g.x * g.x + g.y * g.y + g.z * g.z + g.w * g.w;
    }
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, step);
    if (threadIdx.x % 32 == 0) atomicAdd(norm, sum);
}

__global__ void __launch_bounds__(256) descend(const float4* weight, const float4* gradient,
                                               const float* norm, float4* new_weight, int quads) {
    const float factor = norm ? fminf(1.0f, kMostNorm * rsqrtf(*norm)) : 1.0f;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < quads; i += gridDim.x * 256) {
        const float4 w = weight[i], g = gradient[i];
        const float rate = 0.1f * factor;
        new_weight[i] = make_float4(w.x - rate * g.x, w.y - rate * g.y, w.z - rate * g.z, w.w - rate * g.w);
    }
}

void launch_descent(const Descent& d, const float* gradient, bool clipped) {
    const auto* g = reinterpret_cast<const float4*>(gradient);
    if (clipped) add_squares<<<1056, 256>>>(g, d.norm, d.count / 4);
    descend<<<1056, 256>>>(reinterpret_cast<const float4*>(d.weight), g, clipped ? d.norm : nullptr,
                           reinterpret_cast<float4*>(d.new_weight), d.count / 4);
}
//: end

//: variant clip_in_place
void clip_in_place(const Descent& d) {
    launch_descent(d, d.gradient, true);
}
//: end

//: variant clip_copy
void clip_copy(const Descent& d) {
    BOOK_CHECK(cudaMemcpyAsync(d.copy, d.gradient, d.count * sizeof(float), cudaMemcpyDefault));
    launch_descent(d, d.copy, true);
}
//: end

//: variant plain_in_place
void plain_in_place(const Descent& d) {
    launch_descent(d, d.gradient, false);
}
//: end

//: variant plain_copy
void plain_copy(const Descent& d) {
    BOOK_CHECK(cudaMemcpyAsync(d.copy, d.gradient, d.count * sizeof(float), cudaMemcpyDefault));
    launch_descent(d, d.copy, false);
}
//: end

// Which of the three results of Adam: 0 weight, 1 mean, 2 square.
__global__ void reference_adam(Adam d, const Chunk* chunks, const float* decays, int which, float* expected) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < d.count; i += gridDim.x * blockDim.x) {
        const double g = 0.25 * double(d.gradient[i]);
        const double mean = double(kBeta1) * d.mean[i] + (1 - double(kBeta1)) * g;
        const double square = double(kBeta2) * d.square[i] + (1 - double(kBeta2)) * g * g;
        double decay = 1;
        if (chunks) {  // last tensor that begins at or before i
            int t = 0;
            while (i >= chunks[t].begin + chunks[t].count) ++t;
            decay = chunks[t].decay;
        }
        if (decays) decay = decays[i];
        const double first = mean / (1 - pow(double(kBeta1), double(kStep)));
        const double second = square / (1 - pow(double(kBeta2), double(kStep)));
        const double weight = decay * d.weight[i] - double(kRate) * first / (sqrt(second) + 1e-8);
        expected[i] = static_cast<float>(which == 0 ? weight : which == 1 ? mean : square);
    }
}

__global__ void reference_norm(const float* gradient, int count, double* sum) {
    double mine = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        mine += double(gradient[i]) * gradient[i];
    }
    atomicAdd(sum, mine);
}

__global__ void reference_descent(Descent d, const double* sum, float* expected) {
    double factor = 1;
    if (sum && sqrt(*sum) > double(kMostNorm)) factor = double(kMostNorm) / sqrt(*sum);
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < d.count; i += gridDim.x * blockDim.x) {
        expected[i] = static_cast<float>(d.weight[i] - 0.1 * factor * d.gradient[i]);
    }
}

struct GradientAt {
    uint64_t seed;
    __host__ __device__ float operator()(size_t i) const {
        return static_cast<float>(2 * book::uniform01(seed, 55, i) - 1);
    }
};

Adam make_adam(book::Problem& p, int count, const Chunk* tensors, const float* decays) {
    Adam d{count};
    d.weight = p.uniform<float>(count, -1, 1);
    d.gradient = p.uniform<float>(count, -0.4, 0.4);
    d.mean = p.uniform<float>(count, -0.1, 0.1);
    d.square = p.uniform<float>(count, 0.0001, 0.01);
    d.scaler = p.upload(std::vector<float>{kScale, 1.0f});
    d.new_weight = p.output<float>(count);
    d.new_mean = p.output<float>(count);
    d.new_square = p.output<float>(count);
    p.needs({.dram_bytes = (decays ? 32.0 : 28.0) * count, .fp32_flop = 15.0 * count, .special_op = 2.0 * count,
             .steps = 1});
    const auto reference = [=](int which) {
        return [=](float* expected) { reference_adam<<<1056, 256>>>(d, tensors, decays, which, expected); };
    };
    p.check<float>(d.new_weight, count, {1e-5, 1e-5}, reference(0));
    p.check<float>(d.new_mean, count, {1e-5, 1e-6}, reference(1));
    p.check<float>(d.new_square, count, {1e-5, 1e-8}, reference(2));
    return d;
}

Many make_many(book::Problem& p, const std::vector<int>& sizes) {
    Many d;
    std::vector<Chunk> chunks;
    int count = 0;
    for (size_t t = 0; t < sizes.size(); ++t) {
        const float decay = t % 3 ? 0.99f : 1.0f;
        d.tensors.push_back({count, sizes[t], decay});
        for (int at = 0; at < sizes[t]; at += 1024) {
            chunks.push_back({count + at, std::min(1024, sizes[t] - at), decay});
        }
        count += sizes[t];
    }
    d.chunks = p.upload(chunks);
    d.chunk_count = int(chunks.size());
    const Chunk* tensors = p.upload(d.tensors);
    d.all = make_adam(p, count, tensors, nullptr);
    return d;
}

Descent make_descent(book::Problem& p, int count, bool clipped) {
    Descent d{count};
    d.weight = p.uniform<float>(count, -1, 1);
    float* gradient = p.host_mapped<float>(count);
    book::book_fill<<<1056, 256>>>(gradient, size_t(count), GradientAt{p.seed()});
    BOOK_CHECK(cudaGetLastError());
    d.gradient = gradient;
    d.copy = p.output<float>(count);
    d.norm = p.zeroed<float>(1);
    d.new_weight = p.output<float>(count);
    double* sum = clipped ? p.upload(std::vector<double>{0.0}) : nullptr;
    p.needs({.dram_bytes = 8.0 * count, .link_bytes = 4.0 * count});
    p.check<float>(d.new_weight, count, {1e-4, 1e-5}, [=](float* expected) {
        if (sum) reference_norm<<<1056, 256>>>(d.gradient, d.count, sum);
        reference_descent<<<1056, 256>>>(d, sum, expected);
    });
    return d;
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("adam_8m", [](book::Problem& p) {
        const auto d = make_adam(p, 8 << 20, nullptr, nullptr);
        p.variant("stages_with_step", [=] { stages_with_step(d); });
        p.variant("stages", [=] { stages(d); });
        p.variant("fused_with_step", [=] { fused_with_step(d); });
        p.variant("fused", [=] { fused(d); });
        p.variant("fused_quads", [=] { fused_quads(d); });
        p.variant("live_scaler", [=] { live_scaler(d); });
        p.variant("block_scaler", [=] { block_scaler(d); });
    });
    book.problem("own_decays", [](book::Problem& p) {
        constexpr int count = 4 << 20;
        Own d;
        const uint64_t seed = p.seed();
        d.settings = p.input<Setting>(count, [=] __device__(size_t i) {
            return Setting{float(1 - 0.1 * book::uniform01(seed, 77, i)), 1.0f, -10.0f, 10.0f};
        });
        d.decays = p.input<float>(count, [=] __device__(size_t i) {
            return float(1 - 0.1 * book::uniform01(seed, 77, i));
        });
        d.all = make_adam(p, count, nullptr, d.decays);
        p.variant("decay_of_settings", [=] { decay_of_settings(d); });
        p.variant("decay_of_array", [=] { decay_of_array(d); });
    });
    book.problem("many_small", [](book::Problem& p) {
        // Biases, norms and small projections.
        std::vector<int> sizes(240);
        for (int t = 0; t < 240; ++t) {
            sizes[t] = t % 8 == 0 ? 65536 : 512 + int(7680 * book::uniform01(p.seed(), 3, t));
        }
        const auto d = make_many(p, sizes);
        auto* problem = &p;
        p.variant("tensor_by_tensor", [=] { tensor_by_tensor(d, problem); });
        p.variant("all_tensors", [=] { all_tensors(d); });
    });
    book.problem("some_large", [](book::Problem& p) {
        const auto d = make_many(p, std::vector<int>(14, 600000));
        auto* problem = &p;
        p.variant("tensor_by_tensor", [=] { tensor_by_tensor(d, problem); });
        p.variant("all_tensors", [=] { all_tensors(d); });
    });
    book.problem("host_gradient_clipped", [](book::Problem& p) {
        const auto d = make_descent(p, 8 << 20, true);
        p.variant("clip_in_place", [=] { clip_in_place(d); });
        p.variant("clip_copy", [=] { clip_copy(d); });
    });
    book.problem("host_gradient", [](book::Problem& p) {
        const auto d = make_descent(p, 8 << 20, false);
        p.variant("plain_in_place", [=] { plain_in_place(d); });
        p.variant("plain_copy", [=] { plain_copy(d); });
    });
    return book.finish();
}
