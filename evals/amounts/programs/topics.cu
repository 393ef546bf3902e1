// Online variational inference for latent Dirichlet allocation (Hoffman, Blei, Bach 2010).
//
// Documents are bags of words in compressed rows. For each mini-batch the program infers the
// topic weights of every document (fixed number of coordinate-ascent iterations), adds up the
// expected word counts per topic, and moves the topics towards them with a falling step size.
// Every few batches a small held-out set is inferred with fewer iterations and scored.
//
// build: nvcc -O3 -lineinfo -arch=sm_90 -o topics topics.cu
// run:   ./topics

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cuda_runtime.h>

#define CUDA_OK(call)                                                                         \
    do {                                                                                      \
        cudaError_t status = (call);                                                          \
        if (status != cudaSuccess) {                                                          \
            std::fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(status)); \
            std::exit(2);                                                                     \
        }                                                                                     \
    } while (0)

constexpr int kTopics = 64;
constexpr int kVocabulary = 16384;
constexpr int kBatchDocs = 4096;
constexpr int kBatches = 12;
constexpr int kPasses = 2;
constexpr int kHeldOutDocs = 264;
constexpr int kTrainIterations = 64;
constexpr int kHeldOutIterations = 16;
constexpr int kScoreEvery = 4;

constexpr int kWarp = 32;
constexpr int kDocThreads = 256;
constexpr int kDocWarps = kDocThreads / kWarp;
constexpr int kPairs = kTopics / 2;  // each lane holds two topics

constexpr float kAlpha = 0.1f;
constexpr float kEta = 0.01f;
constexpr float kTiny = 1e-30f;

static_assert(kPairs == kWarp, "one lane per pair of topics");

// ---------------------------------------------------------------------------------------------
// The corpus
// ---------------------------------------------------------------------------------------------

struct Corpus {
    std::vector<int> start;     // documents + 1
    std::vector<int2> entries;  // word, count
    std::vector<long> tokens;   // sum of the counts per document

    int documents() const { return static_cast<int>(start.size()) - 1; }
};

static uint32_t mix(uint32_t x) {
    x ^= x >> 16;
    x *= 0x7feb352dU;
    x ^= x >> 15;
    x *= 0x846ca68bU;
    x ^= x >> 16;
    return x;
}

struct Random {
    uint32_t state;
    explicit Random(uint32_t seed) : state(mix(seed + 0x9e3779b9U)) {}
    uint32_t bits() {
        state = state * 1664525U + 1013904223U;
        return mix(state);
    }
    float uniform() { return (bits() >> 8) * (1.0f / 16777216.0f); }
};

// A document has 40 to 255 distinct entries, most of them few. Its words come from three planted
// topics; low ranks are frequent, as in text.
static void append_document(Corpus& corpus, uint32_t seed) {
    Random random(seed);
    float u = random.uniform();
    int length = 40 + static_cast<int>(u * u * u * 216.0f);
    int planted[3];
    for (int& topic : planted) topic = random.bits() % kTopics;
    long tokens = 0;
    for (int n = 0; n < length; ++n) {
        int topic = planted[random.bits() % 3];
        float v = random.uniform();
        uint32_t rank = static_cast<uint32_t>(v * v * 700.0f);
        int word = mix(topic * 4096U + rank) % kVocabulary;
        int count = 1 + random.bits() % 3;
        corpus.entries.push_back(make_int2(word, count));
        tokens += count;
    }
    corpus.start.push_back(static_cast<int>(corpus.entries.size()));
    corpus.tokens.push_back(tokens);
}

static Corpus make_corpus(int documents, uint32_t seed) {
    Corpus corpus;
    corpus.start.push_back(0);
    corpus.entries.reserve(static_cast<size_t>(documents) * 96);
    for (int d = 0; d < documents; ++d) append_document(corpus, seed + d);
    return corpus;
}

// ---------------------------------------------------------------------------------------------
// Kernels
// ---------------------------------------------------------------------------------------------

__device__ __forceinline__ float digamma(float x) {
    float shift = 0.0f;
    while (x < 6.0f) {
        shift -= __fdividef(1.0f, x);
        x += 1.0f;
    }
    float inverse = __fdividef(1.0f, x);
    float f = inverse * inverse;
    return shift + __logf(x) - 0.5f * inverse -
           f * (1.0f / 12.0f - f * (1.0f / 120.0f - f * (1.0f / 252.0f)));
}

__device__ __forceinline__ float warp_sum(float value) {
    for (int offset = kWarp / 2; offset > 0; offset /= 2) {
        value += __shfl_xor_sync(0xffffffffU, value, offset);
    }
    return value;
}

// Sum of each topic's parameters over the vocabulary.
__global__ void __launch_bounds__(256)
topic_sums(const float* __restrict__ lambda, float* __restrict__ sums) {
    __shared__ float rows[4][kTopics];
    int topic = threadIdx.x % kTopics;
    int row = threadIdx.x / kTopics;
    float sum = 0.0f;
    for (int word = blockIdx.x * 4 + row; word < kVocabulary; word += gridDim.x * 4) {
        sum += lambda[word * kTopics + topic];
    }
    rows[row][topic] = sum;
    __syncthreads();
    if (threadIdx.x < kTopics) {
        atomicAdd(&sums[topic], rows[0][topic] + rows[1][topic] + rows[2][topic] + rows[3][topic]);
    }
}

// exp(E[log beta]) for every word and topic.
__global__ void __launch_bounds__(256)
refresh_topics(const float* __restrict__ lambda, const float* __restrict__ sums,
               float* __restrict__ exp_beta) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= kVocabulary * kTopics) return;
    exp_beta[i] = __expf(digamma(lambda[i]) - digamma(sums[i % kTopics]));
}

// Topic weights of one document per block. A warp takes every eighth entry of the document and
// holds two topics per lane, so that a row of exp_beta is read by one coalesced load.
__global__ void __launch_bounds__(kDocThreads)
infer_documents(const int* __restrict__ start, const int2* __restrict__ entries,
                const float2* __restrict__ exp_beta, float* __restrict__ theta_out,
                float* __restrict__ gamma_out, int first_document, int iterations) {
    __shared__ float theta[kTopics];
    __shared__ float partial[kDocWarps][kTopics];
    int document = first_document + blockIdx.x;
    int begin = start[document];
    int end = start[document + 1];
    int lane = threadIdx.x % kWarp;
    int warp = threadIdx.x / kWarp;
    float gamma = 1.0f;
    if (threadIdx.x < kTopics) theta[threadIdx.x] = 1.0f;
    __syncthreads();

    for (int iteration = 0; iteration < iterations; ++iteration) {
        float2 weight = reinterpret_cast<const float2*>(theta)[lane];
        float2 sum = make_float2(0.0f, 0.0f);
        for (int n = begin + warp; n < end; n += kDocWarps) {
            int2 entry = entries[n];
            float2 row = exp_beta[entry.x * kPairs + lane];
            float norm = warp_sum(row.x * weight.x + row.y * weight.y) + kTiny;
            float ratio = __fdividef(static_cast<float>(entry.y), norm);
            sum.x += ratio * row.x;
            sum.y += ratio * row.y;
        }
        reinterpret_cast<float2*>(partial[warp])[lane] = sum;
        __syncthreads();
        if (threadIdx.x < kTopics) {
            float total = 0.0f;
            for (int w = 0; w < kDocWarps; ++w) total += partial[w][threadIdx.x];
            gamma = kAlpha + theta[threadIdx.x] * total;
            theta[threadIdx.x] = __expf(digamma(gamma));
        }
        __syncthreads();
    }

    if (threadIdx.x < kTopics) {
        theta_out[blockIdx.x * kTopics + threadIdx.x] = theta[threadIdx.x];
        gamma_out[blockIdx.x * kTopics + threadIdx.x] = gamma;
    }
}

// Expected counts of each word and topic in the batch. Frequent words occur in many documents, so
// the sums are atomic.
__global__ void __launch_bounds__(kDocThreads)
scatter_counts(const int* __restrict__ start, const int2* __restrict__ entries,
               const float2* __restrict__ exp_beta, const float2* __restrict__ theta,
               float* __restrict__ counts, int first_document) {
    int document = first_document + blockIdx.x;
    int lane = threadIdx.x % kWarp;
    int warp = threadIdx.x / kWarp;
    int end = start[document + 1];
    float2 weight = theta[blockIdx.x * kPairs + lane];
    for (int n = start[document] + warp; n < end; n += kDocWarps) {
        int2 entry = entries[n];
        float2 row = exp_beta[entry.x * kPairs + lane];
        row.x *= weight.x;
        row.y *= weight.y;
        float ratio = __fdividef(static_cast<float>(entry.y), warp_sum(row.x + row.y) + kTiny);
        float* target = counts + entry.x * kTopics + 2 * lane;
        atomicAdd(target, ratio * row.x);
        atomicAdd(target + 1, ratio * row.y);
    }
}

// Moves the topics towards the batch and clears the counts for the next one.
__global__ void __launch_bounds__(256)
update_topics(float4* __restrict__ lambda, float4* __restrict__ counts, float step, float scale) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= kVocabulary * kTopics / 4) return;
    float4 old = lambda[i];
    float4 count = counts[i];
    float keep = 1.0f - step;
    old.x = keep * old.x + step * (kEta + scale * count.x);
    old.y = keep * old.y + step * (kEta + scale * count.y);
    old.z = keep * old.z + step * (kEta + scale * count.z);
    old.w = keep * old.w + step * (kEta + scale * count.w);
    lambda[i] = old;
    counts[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
}

// Log likelihood of each held-out document under its mean topic weights.
__global__ void __launch_bounds__(kDocThreads)
score_documents(const int* __restrict__ start, const int2* __restrict__ entries,
                const float2* __restrict__ exp_beta, const float2* __restrict__ gamma,
                float* __restrict__ scores) {
    __shared__ float sums[kDocWarps];
    int lane = threadIdx.x % kWarp;
    int warp = threadIdx.x / kWarp;
    float2 weight = gamma[blockIdx.x * kPairs + lane];
    float inverse = 1.0f / warp_sum(weight.x + weight.y);
    float sum = 0.0f;
    int end = start[blockIdx.x + 1];
    for (int n = start[blockIdx.x] + warp; n < end; n += kDocWarps) {
        int2 entry = entries[n];
        float2 row = exp_beta[entry.x * kPairs + lane];
        float mean = warp_sum(row.x * weight.x + row.y * weight.y) * inverse;
        sum += entry.y * __logf(mean + kTiny);
    }
    if (lane == 0) sums[warp] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        float total = 0.0f;
        for (int w = 0; w < kDocWarps; ++w) total += sums[w];
        scores[blockIdx.x] = total;
    }
}

// ---------------------------------------------------------------------------------------------
// Host
// ---------------------------------------------------------------------------------------------

template <class T>
T* to_device(const std::vector<T>& values) {
    T* pointer = nullptr;
    CUDA_OK(cudaMalloc(&pointer, values.size() * sizeof(T)));
    CUDA_OK(cudaMemcpy(pointer, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
    return pointer;
}

template <class T>
T* device_zeros(size_t count) {
    T* pointer = nullptr;
    CUDA_OK(cudaMalloc(&pointer, count * sizeof(T)));
    CUDA_OK(cudaMemset(pointer, 0, count * sizeof(T)));
    return pointer;
}

template <class T>
std::vector<T> to_host(const T* pointer, size_t count) {
    std::vector<T> values(count);
    CUDA_OK(cudaMemcpy(values.data(), pointer, count * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
}

static double host_digamma(double x) {
    double shift = 0.0;
    while (x < 6.0) {
        shift -= 1.0 / x;
        x += 1.0;
    }
    double f = 1.0 / (x * x);
    return shift + std::log(x) - 0.5 / x - f * (1.0 / 12 - f * (1.0 / 120 - f / 252));
}

// Repeats the inference of one document in double precision; the largest relative difference.
static double compare_document(const Corpus& corpus, int document, const std::vector<float>& beta,
                               const float* gamma_device) {
    std::vector<double> theta(kTopics, 1.0);
    std::vector<double> gamma(kTopics, 1.0);
    for (int iteration = 0; iteration < kHeldOutIterations; ++iteration) {
        std::vector<double> sum(kTopics, 0.0);
        for (int n = corpus.start[document]; n < corpus.start[document + 1]; ++n) {
            const float* row = &beta[static_cast<size_t>(corpus.entries[n].x) * kTopics];
            double norm = kTiny;
            for (int k = 0; k < kTopics; ++k) norm += row[k] * theta[k];
            for (int k = 0; k < kTopics; ++k) sum[k] += corpus.entries[n].y / norm * row[k];
        }
        for (int k = 0; k < kTopics; ++k) {
            gamma[k] = kAlpha + theta[k] * sum[k];
            theta[k] = std::exp(host_digamma(gamma[k]));
        }
    }
    double worst = 0.0;
    for (int k = 0; k < kTopics; ++k) {
        worst = std::fmax(worst, std::fabs(gamma[k] - gamma_device[k]) / (1.0 + gamma[k]));
    }
    return worst;
}

int main() {
    Corpus train = make_corpus(kBatchDocs * kBatches, 1);
    Corpus held_out = make_corpus(kHeldOutDocs, 50000000);
    std::printf("topics: %d documents, %zu entries, %d held out with %zu entries\n",
                train.documents(), train.entries.size(), held_out.documents(),
                held_out.entries.size());

    std::vector<float> start_lambda(static_cast<size_t>(kVocabulary) * kTopics);
    Random random(7);
    for (float& value : start_lambda) value = 0.5f + random.uniform();

    int* train_start = to_device(train.start);
    int2* train_entries = to_device(train.entries);
    int* held_start = to_device(held_out.start);
    int2* held_entries = to_device(held_out.entries);
    size_t table = static_cast<size_t>(kVocabulary) * kTopics;
    float* lambda = to_device(start_lambda);
    float* exp_beta = device_zeros<float>(table);
    float* counts = device_zeros<float>(table);
    float* sums = device_zeros<float>(kTopics);
    float* theta = device_zeros<float>(static_cast<size_t>(kBatchDocs) * kTopics);
    float* gamma = device_zeros<float>(static_cast<size_t>(kBatchDocs) * kTopics);
    float* scores = device_zeros<float>(kHeldOutDocs);

    long held_tokens = 0;
    for (long tokens : held_out.tokens) held_tokens += tokens;
    const int table_blocks = static_cast<int>((table + 255) / 256);
    std::vector<double> per_token;
    double mass = 0.0;

    for (int step = 0; step < kPasses * kBatches; ++step) {
        int first = (step % kBatches) * kBatchDocs;
        float rate = std::pow(4.0f + step, -0.7f);
        CUDA_OK(cudaMemsetAsync(sums, 0, kTopics * sizeof(float)));
        topic_sums<<<256, 256>>>(lambda, sums);
        refresh_topics<<<table_blocks, 256>>>(lambda, sums, exp_beta);
        const float2* rows = reinterpret_cast<const float2*>(exp_beta);

        if (step % kScoreEvery == 0) {
            infer_documents<<<kHeldOutDocs, kDocThreads>>>(held_start, held_entries, rows, theta,
                                                           gamma, 0, kHeldOutIterations);
            score_documents<<<kHeldOutDocs, kDocThreads>>>(
                held_start, held_entries, rows, reinterpret_cast<const float2*>(gamma), scores);
            double total = 0.0;
            for (float score : to_host(scores, kHeldOutDocs)) total += score;
            per_token.push_back(total / held_tokens);
        }

        infer_documents<<<kBatchDocs, kDocThreads>>>(train_start, train_entries, rows, theta, gamma,
                                                     first, kTrainIterations);
        scatter_counts<<<kBatchDocs, kDocThreads>>>(train_start, train_entries, rows,
                                                    reinterpret_cast<const float2*>(theta), counts,
                                                    first);
        if (step == kPasses * kBatches - 1) {
            for (float value : to_host(counts, table)) mass += value;
        }
        update_topics<<<table_blocks / 4, 256>>>(reinterpret_cast<float4*>(lambda),
                                                 reinterpret_cast<float4*>(counts), rate,
                                                 static_cast<float>(kBatches));
        CUDA_OK(cudaGetLastError());
    }
    CUDA_OK(cudaDeviceSynchronize());

    // The last held-out inference, once more, against the host.
    infer_documents<<<kHeldOutDocs, kDocThreads>>>(held_start, held_entries,
                                                   reinterpret_cast<const float2*>(exp_beta), theta,
                                                   gamma, 0, kHeldOutIterations);
    std::vector<float> beta = to_host(exp_beta, table);
    std::vector<float> found = to_host(gamma, static_cast<size_t>(kHeldOutDocs) * kTopics);
    double worst = 0.0;
    for (int document = 0; document < kHeldOutDocs; document += 33) {
        worst = std::fmax(worst, compare_document(held_out, document, beta,
                                                  &found[static_cast<size_t>(document) * kTopics]));
    }
    double expected = 0.0;
    for (int d = train.documents() - kBatchDocs; d < train.documents(); ++d) {
        expected += train.tokens[d];
    }
    double lost = std::fabs(mass - expected) / expected;
    for (double score : per_token) std::printf("topics: held-out log likelihood %.4f\n", score);
    std::printf("topics: largest difference of gamma %.2e, of the counts %.2e\n", worst, lost);
    bool good = worst < 2e-2 && lost < 1e-3 && per_token.back() > per_token.front();
    std::printf("topics: %s\n", good ? "PASSED" : "FAILED");
    return good ? 0 : 1;
}
