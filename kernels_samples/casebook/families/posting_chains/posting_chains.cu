// Scores of a search index that is updated while it is read: the postings of a term lie in slices of a
// pool, each of which names the next; documents are found through a table of pages.
#include "../../harness/book.h"

//: shared
constexpr unsigned kEnd = 0xFFFFFFFFu;
constexpr int kThreads = 256;
constexpr int kFields = 16;

struct Query {
    const unsigned* boosts;  // by field
    unsigned horizon;        // older documents do not count
};

__device__ inline unsigned worth(unsigned posting, const unsigned* boost, unsigned horizon) {
    const unsigned document = posting >> 12, field = posting >> 8 & 15, count = posting & 255;
    return document >= horizon ? boost[field] * count : 0;
}

__device__ inline unsigned next_of(unsigned word) { return word; }
__device__ inline unsigned next_of(uint2 word) { return word.y; }
__device__ inline unsigned next_of(uint4 word) { return word.w; }

// The last word of a slice is the position of the next slice, not a posting.
__device__ inline unsigned worth_of(unsigned word, int lane, const unsigned* boost, unsigned horizon) {
    return lane < 31 ? worth(word, boost, horizon) : 0;
}

__device__ inline unsigned worth_of(uint2 word, int lane, const unsigned* boost, unsigned horizon) {
    return worth(word.x, boost, horizon) + worth_of(word.y, lane, boost, horizon);
}

__device__ inline unsigned worth_of(uint4 word, int lane, const unsigned* boost, unsigned horizon) {
    return worth(word.x, boost, horizon) + worth(word.y, boost, horizon) + worth(word.z, boost, horizon) +
           worth_of(word.w, lane, boost, horizon);
}

__device__ inline void load_boosts(unsigned* boost, const Query& query) {
    if (threadIdx.x < kFields) boost[threadIdx.x] = query.boosts[threadIdx.x];
    __syncthreads();
}

__device__ inline void store_total(unsigned sum, int lane, unsigned* score) {
    sum = __reduce_add_sync(~0u, sum);
    if (lane == 0) *score = sum;
}
//: end

template <class Word>
struct Index {
    int lists;
    const Word* pool;           // 32 words per slice
    const unsigned* head;       // first slice of each list
    const unsigned* starts;     // where the slices of a list begin in `directory`
    const unsigned* directory;  // positions of all slices, list by list
    Query query;
    unsigned* score;
};

//: shared
inline int warps_as_blocks(int warps) { return (warps * 32 + kThreads - 1) / kThreads; }
//: end

//: variant walk
template <class Word>
__global__ void __launch_bounds__(kThreads)
    walk_slices(const Word* pool, const unsigned* head, Query query, unsigned* score, int lists) {
    __shared__ unsigned boost[kFields];
    load_boosts(boost, query);
    const int list = (blockIdx.x * kThreads + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (list >= lists) return;
    unsigned sum = 0;
    unsigned at = head[list];
    while (at != kEnd) {
        const Word word = pool[size_t(at) * 32 + lane];
        sum += worth_of(word, lane, boost, query.horizon);
        at = __shfl_sync(~0u, next_of(word), 31);
    }
    store_total(sum, lane, score + list);
}

template <class Word>
void walk(const Index<Word>& d) {
    walk_slices<<<warps_as_blocks(d.lists), kThreads>>>(d.pool, d.head, d.query, d.score, d.lists);
}
//: end

//: variant walk_pairs
// The number of lists is even.
template <class Word>
__global__ void __launch_bounds__(kThreads)
    walk_two(const Word* pool, const unsigned* head, Query query, unsigned* score, int lists) {
    __shared__ unsigned boost[kFields];
    load_boosts(boost, query);
    const int list = (blockIdx.x * kThreads + threadIdx.x) / 32 * 2, lane = threadIdx.x % 32;
    if (list >= lists) return;
    unsigned sum_a = 0, sum_b = 0;
    unsigned at_a = head[list], at_b = head[list + 1];
    while (at_a != kEnd && at_b != kEnd) {
        const Word word_a = pool[size_t(at_a) * 32 + lane];
        const Word word_b = pool[size_t(at_b) * 32 + lane];
        sum_a += worth_of(word_a, lane, boost, query.horizon);
        sum_b += worth_of(word_b, lane, boost, query.horizon);
        at_a = __shfl_sync(~0u, next_of(word_a), 31);
        at_b = __shfl_sync(~0u, next_of(word_b), 31);
    }
    while (at_a != kEnd) {
        const Word word = pool[size_t(at_a) * 32 + lane];
        sum_a += worth_of(word, lane, boost, query.horizon);
        at_a = __shfl_sync(~0u, next_of(word), 31);
    }
    while (at_b != kEnd) {
        const Word word = pool[size_t(at_b) * 32 + lane];
        sum_b += worth_of(word, lane, boost, query.horizon);
        at_b = __shfl_sync(~0u, next_of(word), 31);
    }
    store_total(sum_a, lane, score + list);
    store_total(sum_b, lane, score + list + 1);
}

template <class Word>
void walk_pairs(const Index<Word>& d) {
    walk_two<<<warps_as_blocks(d.lists / 2), kThreads>>>(d.pool, d.head, d.query, d.score, d.lists);
}
//: end

//: variant by_directory
template <class Word, int kAhead>
__global__ void __launch_bounds__(kThreads)
    read_listed(const Word* pool, const unsigned* starts, const unsigned* directory, Query query,
                unsigned* score, int lists) {
    __shared__ unsigned boost[kFields];
    load_boosts(boost, query);
    const int list = (blockIdx.x * kThreads + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (list >= lists) return;
    const unsigned end = starts[list + 1];
    unsigned sum = 0;
    for (unsigned first = starts[list]; first < end; first += 32) {
        const unsigned mine = directory[min(first + lane, end - 1)];
        const int slices = min(32u, end - first);
        int k = 0;
        for (; k + kAhead <= slices; k += kAhead) {
            Word words[kAhead];
#pragma unroll
            for (int j = 0; j < kAhead; ++j) {
                words[j] = pool[size_t(__shfl_sync(~0u, mine, k + j)) * 32 + lane];
            }
#pragma unroll
            for (int j = 0; j < kAhead; ++j) sum += worth_of(words[j], lane, boost, query.horizon);
        }
        for (; k < slices; ++k) {
            const Word word = pool[size_t(__shfl_sync(~0u, mine, k)) * 32 + lane];
            sum += worth_of(word, lane, boost, query.horizon);
        }
    }
    store_total(sum, lane, score + list);
}

template <class Word>
void by_directory(const Index<Word>& d) {
    constexpr int kAhead = 32 / sizeof(Word);
    read_listed<Word, kAhead><<<warps_as_blocks(d.lists), kThreads>>>(d.pool, d.starts, d.directory,
                                                                     d.query, d.score, d.lists);
}
//: end

struct Column {
    int count;                  // a multiple of 1024
    const unsigned* documents;  // of which the value is wanted
    const unsigned* page_slot;  // by page of 256 documents
    const unsigned* slot_base;  // where a slot begins in `values`
    const float* values;
    float* found;
};

//: variant fetch_one
__global__ void __launch_bounds__(kThreads)
    fetch_value(const unsigned* documents, const unsigned* page_slot, const unsigned* slot_base,
                const float* values, float* found) {
    const int i = blockIdx.x * kThreads + threadIdx.x;
    const unsigned document = documents[i];
    const unsigned slot = page_slot[document >> 8];
    found[i] = values[slot_base[slot] + (document & 255)];
}

void fetch_one(const Column& d) {
    fetch_value<<<d.count / kThreads, kThreads>>>(d.documents, d.page_slot, d.slot_base, d.values, d.found);
}
//: end

//: variant fetch_four
__global__ void __launch_bounds__(kThreads)
    fetch_values(const unsigned* documents, const unsigned* page_slot, const unsigned* slot_base,
                 const float* values, float* found) {
    const int first = blockIdx.x * 4 * kThreads + threadIdx.x;
    unsigned document[4], place[4];
    float value[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) document[k] = documents[first + k * kThreads];
#pragma unroll
    for (int k = 0; k < 4; ++k) place[k] = page_slot[document[k] >> 8];
#pragma unroll
    for (int k = 0; k < 4; ++k) place[k] = slot_base[place[k]] + (document[k] & 255);
#pragma unroll
    for (int k = 0; k < 4; ++k) value[k] = values[place[k]];
#pragma unroll
    for (int k = 0; k < 4; ++k) found[first + k * kThreads] = value[k];
}

void fetch_four(const Column& d) {
    fetch_values<<<d.count / (4 * kThreads), kThreads>>>(d.documents, d.page_slot, d.slot_base, d.values,
                                                         d.found);
}
//: end

// --- references and data

__global__ void reference_scores(const unsigned* words, int words_per_slice, const unsigned* starts,
                                 const unsigned* directory, const unsigned* boosts, unsigned horizon,
                                 unsigned* score, int lists) {
    const int list = blockIdx.x;
    if (list >= lists) return;
    unsigned sum = 0;
    for (unsigned k = starts[list]; k < starts[list + 1]; ++k) {
        for (int j = threadIdx.x; j < words_per_slice - 1; j += blockDim.x) {
            const unsigned p = words[size_t(directory[k]) * words_per_slice + j];
            if (p / 4096 >= horizon) sum += boosts[p / 256 % 16] * (p % 256);
        }
    }
    atomicAdd(score + list, sum);
}

__global__ void reference_fetch(Column d, float* found) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < d.count; i += gridDim.x * blockDim.x) {
        const unsigned document = d.documents[i];
        found[i] = d.values[d.slot_base[d.page_slot[document / 256]] + document % 256];
    }
}

std::vector<unsigned> shuffled(unsigned count, uint64_t seed) {
    std::vector<unsigned> order(count);
    for (unsigned i = 0; i < count; ++i) order[i] = i;
    for (unsigned i = count - 1; i > 0; --i) {
        std::swap(order[i], order[book::mixed(seed * 0x10001ull + i) % (i + 1)]);
    }
    return order;
}

// `longest` - `shortest` + 1 lengths of lists take turns.
template <class Word>
Index<Word> set_up_index(book::Problem& p, int lists, int shortest, int longest) {
    Index<Word> d;
    d.lists = lists;
    std::vector<unsigned> starts(lists + 1, 0);
    for (int l = 0; l < lists; ++l) starts[l + 1] = starts[l] + shortest + l % (longest - shortest + 1);
    const unsigned slices = starts[lists];
    const std::vector<unsigned> directory = shuffled(slices, p.seed());
    std::vector<unsigned> head(lists), next(slices, kEnd);
    for (int l = 0; l < lists; ++l) {
        head[l] = directory[starts[l]];
        for (unsigned k = starts[l]; k + 1 < starts[l + 1]; ++k) next[directory[k]] = directory[k + 1];
    }
    d.head = p.upload(head);
    d.starts = p.upload(starts);
    d.directory = p.upload(directory);
    const unsigned* next_slice = p.upload(next);
    constexpr unsigned kWords = 32 * sizeof(Word) / 4;
    const uint64_t seed = p.seed();
    const unsigned* words = p.input<unsigned>(size_t(slices) * kWords, [=] __device__(size_t i) {
        return i % kWords == kWords - 1 ? next_slice[i / kWords]
                                        : static_cast<unsigned>(book::mixed(seed ^ (i << 8)) >> 32);
    });
    d.pool = reinterpret_cast<const Word*>(words);
    d.query.boosts = p.input<unsigned>(kFields, [=] __device__(size_t i) {
        return static_cast<unsigned>(1 + book::uniform01(seed, 91, i) * 30);
    });
    d.query.horizon = 300000;
    d.score = p.output<unsigned>(lists);
    const double postings = double(slices) * (kWords - 1);
    p.needs({.dram_bytes = 4.0 * slices * kWords + 8.0 * lists + 4.0 * kFields, .int_op = 4.0 * postings});
    p.check<unsigned>(d.score, lists, {0}, [=](unsigned* expected) {
        reference_scores<<<d.lists, 32>>>(words, kWords, d.starts, d.directory, d.query.boosts,
                                          d.query.horizon, expected, d.lists);
    });
    return d;
}

Column set_up_column(book::Problem& p, int count) {
    Column d;
    d.count = count;
    constexpr unsigned kDocuments = 1u << 24, kPages = kDocuments / 256;
    const unsigned salt = static_cast<unsigned>(book::mixed(p.seed()));
    // Distinct documents: every step maps 24 bits one to one.
    d.documents = p.input<unsigned>(count, [=] __device__(size_t i) {
        unsigned v = (static_cast<unsigned>(i) ^ salt) & (kDocuments - 1);
        v = v * 0x9E3779B1u & (kDocuments - 1);
        v ^= v >> 13;
        v = v * 0x85EBCA6Bu & (kDocuments - 1);
        v ^= v >> 12;
        return v;
    });
    d.page_slot = p.upload(shuffled(kPages, p.seed() + 1000));
    std::vector<unsigned> base = shuffled(kPages, p.seed() + 2000);
    for (unsigned& b : base) b *= 256;
    d.slot_base = p.upload(base);
    d.values = p.uniform<float>(kDocuments, 0, 1);
    d.found = p.output<float>(count);
    p.needs({.dram_bytes = 12.0 * count + 8.0 * kPages});
    p.check<float>(d.found, count, {0}, [=](float* expected) { reference_fetch<<<1056, 256>>>(d, expected); });
    return d;
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("slices_128", [](book::Problem& p) {
        const auto d = set_up_index<unsigned>(p, 65536, 14, 18);
        p.variant("walk", [=] { walk(d); });
        p.variant("walk_pairs", [=] { walk_pairs(d); });
        p.variant("by_directory", [=] { by_directory(d); });
    });
    book.problem("slices_256", [](book::Problem& p) {
        const auto d = set_up_index<uint2>(p, 32768, 14, 18);
        p.variant("walk", [=] { walk(d); });
        p.variant("by_directory", [=] { by_directory(d); });
    });
    book.problem("slices_512", [](book::Problem& p) {
        const auto d = set_up_index<uint4>(p, 16384, 14, 18);
        p.variant("walk", [=] { walk(d); });
        p.variant("by_directory", [=] { by_directory(d); });
    });
    book.problem("frequent_terms", [](book::Problem& p) {
        const auto d = set_up_index<unsigned>(p, 1056, 960, 960);
        p.variant("walk", [=] { walk(d); });
        p.variant("by_directory", [=] { by_directory(d); });
    });
    book.problem("column", [](book::Problem& p) {
        const auto d = set_up_column(p, 1 << 23);
        p.variant("fetch_one", [=] { fetch_one(d); });
        p.variant("fetch_four", [=] { fetch_four(d); });
    });
    return book.finish();
}
