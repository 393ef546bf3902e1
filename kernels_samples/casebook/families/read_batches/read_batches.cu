// Batches of sequencing reads: packing of bases, best hit per gene, sketches of cells, recalibration of base
// qualities, expected errors per read.
#include "../../harness/book.h"

using u64 = unsigned long long;

// --- Packing: 16 bases (A, C, T, G are 0, 1, 2, 3) in a word, the first in the lowest bits

struct Bases {
    int words;  // of 16 bases; a multiple of 256
    const unsigned char* in;
    unsigned* out;
};

//: variant base_by_base
__global__ void __launch_bounds__(256) pack_bases(const unsigned char* in, unsigned* out) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    const unsigned char* own = in + static_cast<size_t>(i) * 16;
    unsigned word = 0;
#pragma unroll
    for (int k = 0; k < 16; ++k) word |= (own[k] >> 1 & 3u) << 2 * k;
    out[i] = word;
}

void base_by_base(const Bases& b) { pack_bases<<<b.words / 256, 256>>>(b.in, b.out); }
//: end

//: shared
// The codes of four bases, one byte each, in 8 bits.
__device__ unsigned four_codes(unsigned bases) {
    const unsigned codes = bases >> 1 & 0x03030303u;
    return (codes | codes >> 6 | codes >> 12 | codes >> 18) & 0xFFu;
}
//: end

//: variant four_by_four
__global__ void __launch_bounds__(256) pack_fours(const unsigned* in, unsigned* out) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    const unsigned* own = in + static_cast<size_t>(i) * 4;
    const unsigned a = own[0], b = own[1], c = own[2], d = own[3];
    out[i] = four_codes(a) | four_codes(b) << 8 | four_codes(c) << 16 | four_codes(d) << 24;
}

void four_by_four(const Bases& b) {
    pack_fours<<<b.words / 256, 256>>>(reinterpret_cast<const unsigned*>(b.in), b.out);
}
//: end

//: variant sixteen
__global__ void __launch_bounds__(256) pack_sixteen(const uint4* in, unsigned* out) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    const uint4 own = in[i];
    out[i] = four_codes(own.x) | four_codes(own.y) << 8 | four_codes(own.z) << 16 | four_codes(own.w) << 24;
}

void sixteen(const Bases& b) {
    pack_sixteen<<<b.words / 256, 256>>>(reinterpret_cast<const uint4*>(b.in), b.out);
}
//: end

// --- Best hit per gene: the largest score, with the number of the hit in the low half

constexpr int kGenes = 512;

struct Hits {
    int hits;  // a multiple of 4
    const unsigned short* gene;
    const unsigned* score;
    u64* best;
};

//: shared
__device__ unsigned long long ranked(unsigned score, int hit) {
    return static_cast<unsigned long long>(score) << 32 | static_cast<unsigned>(hit);
}
//: end

//: variant best_of_block
__global__ void __launch_bounds__(512) best_hits(const ushort4* gene, const uint4* score, int quads,
                                                 unsigned long long* best) {
    __shared__ unsigned long long own[kGenes];
    own[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * 512 + threadIdx.x; i < quads; i += gridDim.x * 512) {
        const ushort4 g = gene[i];
        const uint4 s = score[i];
        atomicMax(&own[g.x], ranked(s.x, 4 * i));
        atomicMax(&own[g.y], ranked(s.y, 4 * i + 1));
        atomicMax(&own[g.z], ranked(s.z, 4 * i + 2));
        atomicMax(&own[g.w], ranked(s.w, 4 * i + 3));
    }
    __syncthreads();
    atomicMax(&best[threadIdx.x], own[threadIdx.x]);
}

void best_of_block(const Hits& h) {
    best_hits<<<4 * 132, 512>>>(reinterpret_cast<const ushort4*>(h.gene),
                                reinterpret_cast<const uint4*>(h.score), h.hits / 4, h.best);
}
//: end

//: variant best_if_better
__global__ void __launch_bounds__(512) better_hits(const ushort4* gene, const uint4* score, int quads,
                                                   unsigned long long* best) {
    __shared__ unsigned long long own[kGenes];
    own[threadIdx.x] = 0;
    __syncthreads();
    const volatile unsigned long long* current = own;
    auto offer = [&](unsigned gene, unsigned long long hit) {
        if (hit > current[gene]) atomicMax(&own[gene], hit);
    };
    for (int i = blockIdx.x * 512 + threadIdx.x; i < quads; i += gridDim.x * 512) {
        const ushort4 g = gene[i];
        const uint4 s = score[i];
        offer(g.x, ranked(s.x, 4 * i));
        offer(g.y, ranked(s.y, 4 * i + 1));
        offer(g.z, ranked(s.z, 4 * i + 2));
        offer(g.w, ranked(s.w, 4 * i + 3));
    }
    __syncthreads();
    atomicMax(&best[threadIdx.x], own[threadIdx.x]);
}

void best_if_better(const Hits& h) {
    better_hits<<<4 * 132, 512>>>(reinterpret_cast<const ushort4*>(h.gene),
                                  reinterpret_cast<const uint4*>(h.score), h.hits / 4, h.best);
}
//: end

// --- Sketch of a cell: the largest hash of its molecular barcodes, and how many hashes are below a limit

//: shared
struct Task {
    int cell, first, last;  // quads of barcodes
};

__device__ unsigned hashed(unsigned x) {
    x = (x ^ x >> 16) * 0x7FEB352Du;
    x = (x ^ x >> 15) * 0x846CA68Bu;
    return x ^ x >> 16;
}

// Adds the quads [first, last) to the sketch of a cell. For a block of 256 threads.
__device__ void add_to_sketch(const uint4* barcodes, int first, int last, unsigned* top, unsigned* low) {
    __shared__ unsigned tops[8], lows[8];
    unsigned largest = 0, below = 0;
    auto add = [&](unsigned barcode) {
        const unsigned hash = hashed(barcode);
        largest = max(largest, hash);
        below += hash < 1u << 24;
    };
#pragma unroll 2
    for (int i = first + threadIdx.x; i < last; i += 256) {
        const uint4 b = barcodes[i];
        add(b.x), add(b.y), add(b.z), add(b.w);
    }
    largest = __reduce_max_sync(0xffffffffu, largest);
    below = __reduce_add_sync(0xffffffffu, below);
    if (threadIdx.x % 32 == 0) {
        tops[threadIdx.x / 32] = largest;
        lows[threadIdx.x / 32] = below;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < 8; ++w) {
            largest = max(largest, tops[w]);
            below += lows[w];
        }
        atomicMax(top, largest);
        atomicAdd(low, below);
    }
}
//: end

struct Cells {
    int cells, tasks;
    const int* offset;  // cells + 1, in quads of barcodes
    const Task* task;   // pieces of cells, at most 4,096 quads each
    const uint4* barcodes;
    unsigned *top, *low;
};

//: variant block_per_cell
__global__ void __launch_bounds__(256) sketch_cells(const int* offset, const uint4* barcodes, unsigned* top,
                                                    unsigned* low) {
    const int cell = blockIdx.x;
    add_to_sketch(barcodes, offset[cell], offset[cell + 1], &top[cell], &low[cell]);
}

void block_per_cell(const Cells& c) {
    sketch_cells<<<c.cells, 256>>>(c.offset, c.barcodes, c.top, c.low);
}
//: end

//: variant block_per_task
__global__ void __launch_bounds__(256) sketch_tasks(const Task* tasks, const uint4* barcodes, unsigned* top,
                                                    unsigned* low) {
    const Task t = tasks[blockIdx.x];
    add_to_sketch(barcodes, t.first, t.last, &top[t.cell], &low[t.cell]);
}

void block_per_task(const Cells& c) {
    sketch_tasks<<<c.tasks, 256>>>(c.task, c.barcodes, c.top, c.low);
}
//: end

// --- Recalibration: quality falls with the cycle of the sequencer, faster in second reads of a pair

struct Qualities {
    unsigned count;   // reads * length, a multiple of 16; reads follow each other without gaps
    unsigned length;  // at least 16
    unsigned first_slope, second_slope;
    const unsigned char* in;
    unsigned char* out;
};

//: shared
__device__ unsigned recalibrated(unsigned quality, unsigned cycle, unsigned slope) {
    const int lower = static_cast<int>(quality) - static_cast<int>(cycle * slope >> 8);
    return static_cast<unsigned>(max(lower, 2));
}

// Sixteen qualities from a 16-byte vector, and back.
struct __align__(16) Sixteen {
    unsigned word[4];
};
//: end

//: variant place_of_each
__global__ void __launch_bounds__(256) recalibrate(const Sixteen* in, Sixteen* out, unsigned vectors,
                                                   unsigned length, unsigned first_slope,
                                                   unsigned second_slope) {
    const unsigned i = blockIdx.x * 256 + threadIdx.x;
    if (i >= vectors) return;
    const Sixteen from = in[i];
    Sixteen to{};
#pragma unroll
    for (unsigned k = 0; k < 16; ++k) {
        const unsigned place = 16 * i + k;
        const unsigned read = place / length, cycle = place % length;
        const unsigned quality = from.word[k / 4] >> 8 * (k % 4) & 0xFFu;
        to.word[k / 4] |= recalibrated(quality, cycle, read % 2 ? second_slope : first_slope) << 8 * (k % 4);
    }
    out[i] = to;
}

void place_of_each(const Qualities& q) {
    const unsigned vectors = q.count / 16;
    recalibrate<<<(vectors + 255) / 256, 256>>>(reinterpret_cast<const Sixteen*>(q.in),
                                                reinterpret_cast<Sixteen*>(q.out), vectors, q.length,
                                                q.first_slope, q.second_slope);
}
//: end

//: variant place_of_first
__global__ void __launch_bounds__(256) recalibrate_run(const Sixteen* in, Sixteen* out, unsigned vectors,
                                                       unsigned length, unsigned first_slope,
                                                       unsigned second_slope) {
    const unsigned i = blockIdx.x * 256 + threadIdx.x;
    if (i >= vectors) return;
    const Sixteen from = in[i];
    Sixteen to{};
    const unsigned read = 16 * i / length;
    unsigned cycle = 16 * i - read * length;
    unsigned slope = read % 2 ? second_slope : first_slope;
    const unsigned next_slope = read % 2 ? first_slope : second_slope;
#pragma unroll
    for (unsigned k = 0; k < 16; ++k) {
        const unsigned quality = from.word[k / 4] >> 8 * (k % 4) & 0xFFu;
        to.word[k / 4] |= recalibrated(quality, cycle, slope) << 8 * (k % 4);
        if (++cycle == length) {  // at most once: reads are longer than 16
            cycle = 0;
            slope = next_slope;
        }
    }
    out[i] = to;
}

void place_of_first(const Qualities& q) {
    const unsigned vectors = q.count / 16;
    recalibrate_run<<<(vectors + 255) / 256, 256>>>(reinterpret_cast<const Sixteen*>(q.in),
                                                    reinterpret_cast<Sixteen*>(q.out), vectors, q.length,
                                                    q.first_slope, q.second_slope);
}
//: end

// --- Expected errors of a read of 128 bases: the sum of 10^(-quality / 10)

struct Reads {
    int reads;  // a multiple of 32
    const unsigned char* quality;
    float* errors;
};

//: shared
// Eight neighbouring threads add up the 128 qualities of a read, sixteen each.
template <class Error>
__device__ void errors_of_read(const uint4* quality, float* errors, Error error) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    const uint4 q = quality[i];
    const unsigned words[4] = {q.x, q.y, q.z, q.w};
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < 16; ++k) sum += error(static_cast<int>(words[k / 4] >> 8 * (k % 4) & 0xFFu));
    for (int step = 4; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (i % 8 == 0) errors[i / 8] = sum;
}
//: end

//: variant phred_sum
__global__ void __launch_bounds__(256) add_errors(const uint4* quality, float* errors) {
    errors_of_read(quality, errors, [](int q) { return exp2f(q * -0.33219281); });
}

void phred_sum(const Reads& r) {
    add_errors<<<r.reads / 32, 256>>>(reinterpret_cast<const uint4*>(r.quality), r.errors);
}
//: end

//: variant phred_sum_f
__global__ void __launch_bounds__(256) add_errors_f(const uint4* quality, float* errors) {
    errors_of_read(quality, errors, [](int q) { return exp2f(q * -0.33219281f); });
}

void phred_sum_f(const Reads& r) {
    add_errors_f<<<r.reads / 32, 256>>>(reinterpret_cast<const uint4*>(r.quality), r.errors);
}
//: end

// --- References

__global__ void reference_pack(Bases b, unsigned* expected) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < b.words; i += gridDim.x * blockDim.x) {
        unsigned word = 0;
        for (int k = 15; k >= 0; --k) {
            const unsigned char base = b.in[size_t(16) * i + k];
            const unsigned code = base == 'A' ? 0 : base == 'C' ? 1 : base == 'T' ? 2 : 3;
            word = word * 4 + code;
        }
        expected[i] = word;
    }
}

__global__ void reference_best(Hits h, u64* expected) {
    __shared__ u64 own[kGenes];
    for (int g = threadIdx.x; g < kGenes; g += blockDim.x) own[g] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < h.hits; i += gridDim.x * blockDim.x) {
        const u64 value = u64{h.score[i]} * 4294967296ull + u64(i);
        volatile u64* seen = own;
        if (seen[h.gene[i]] < value) atomicMax(&own[h.gene[i]], value);
    }
    __syncthreads();
    for (int g = threadIdx.x; g < kGenes; g += blockDim.x) atomicMax(&expected[g], own[g]);
}

__global__ void reference_sketch(Cells c, unsigned* expected, bool want_top) {
    __shared__ unsigned result;
    for (int cell = blockIdx.x; cell < c.cells; cell += gridDim.x) {
        __syncthreads();
        if (threadIdx.x == 0) result = 0;
        __syncthreads();
        const auto* words = reinterpret_cast<const unsigned*>(c.barcodes);
        unsigned mine = 0;
        for (int i = 4 * c.offset[cell] + int(threadIdx.x); i < 4 * c.offset[cell + 1]; i += blockDim.x) {
            unsigned x = words[i];
            x ^= x >> 16, x *= 0x7FEB352Du;
            x ^= x >> 15, x *= 0x846CA68Bu;
            x ^= x >> 16;
            if (want_top) mine = x > mine ? x : mine;
            if (!want_top && x < 16777216u) ++mine;
        }
        if (want_top) atomicMax(&result, mine);
        if (!want_top) atomicAdd(&result, mine);
        __syncthreads();
        if (threadIdx.x == 0) expected[cell] = result;
    }
}

__global__ void reference_recalibrate(Qualities q, unsigned char* expected) {
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < q.count;
         i += size_t{gridDim.x} * blockDim.x) {
        const size_t read = i / q.length;
        const int cycle = int(i - read * q.length);
        const int fall = cycle * int(read & 1 ? q.second_slope : q.first_slope) / 256;
        const int quality = int(q.in[i]) - fall;
        expected[i] = static_cast<unsigned char>(quality < 2 ? 2 : quality);
    }
}

__global__ void reference_errors(Reads r, float* expected) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < r.reads; i += gridDim.x * blockDim.x) {
        double sum = 0;
        for (int k = 0; k < 128; ++k) sum += exp(r.quality[size_t(128) * i + k] * -0.23025850929940457);
        expected[i] = static_cast<float>(sum);
    }
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("bases", [](book::Problem& p) {
        Bases b{8 << 20};
        const uint64_t seed = p.seed();
        b.in = p.input<unsigned char>(size_t{16} * b.words, [=] __device__(size_t i) {
            const int letter = static_cast<int>(4 * book::uniform01(seed, 401, i));
            return static_cast<unsigned char>(letter == 0   ? 'A'
                                              : letter == 1 ? 'C'
                                              : letter == 2 ? 'G'
                                                            : 'T');
        });
        b.out = p.output<unsigned>(b.words);
        p.needs({.dram_bytes = 20.0 * b.words});
        p.check<unsigned>(b.out, b.words, {0}, [=](unsigned* expected) {
            reference_pack<<<1056, 256>>>(b, expected);
        });
        p.variant("base_by_base", [=] { base_by_base(b); });
        p.variant("four_by_four", [=] { four_by_four(b); });
        p.variant("sixteen", [=] { sixteen(b); });
    });
    book.problem("hits", [](book::Problem& p) {
        Hits h{24 << 20};
        const uint64_t seed = p.seed();
        // Ribosomal genes are expressed far more than the others.
        h.gene = p.input<unsigned short>(h.hits, [=] __device__(size_t i) {
            const double u = book::uniform01(seed, 411, i);
            const double fourth = u * u * u * u;
            return static_cast<unsigned short>(kGenes * fourth * fourth);
        });
        h.score = p.uniform<unsigned>(h.hits, 1, 4e9);
        h.best = p.zeroed<u64>(kGenes);
        p.needs({.dram_bytes = 6.0 * h.hits + 8.0 * kGenes});
        p.check<u64>(h.best, kGenes, {0}, [=](u64* expected) {
            reference_best<<<264, 512>>>(h, expected);
        });
        p.variant("best_of_block", [=] { best_of_block(h); });
        p.variant("best_if_better", [=] { best_if_better(h); });
    });
    book.problem("cells", [](book::Problem& p) {
        Cells c{4096};
        const uint64_t seed = p.seed();
        constexpr int kPiece = 4096;
        std::vector<int> offset{0};
        std::vector<Task> task;
        for (int cell = 0; cell < c.cells; ++cell) {
            int quads = 2048 + static_cast<int>(512 * book::uniform01(seed, 421, cell));
            if (cell % 211 == 100) quads = 20480;
            const int first = offset.back(), last = first + quads;
            for (int at = first; at < last; at += kPiece) {
                task.push_back({cell, at, std::min(at + kPiece, last)});
            }
            offset.push_back(last);
        }
        c.tasks = static_cast<int>(task.size());
        const size_t barcodes = size_t{4} * offset.back();
        c.offset = p.upload(offset);
        c.task = p.upload(task);
        c.barcodes = reinterpret_cast<const uint4*>(p.uniform<unsigned>(barcodes, 0, 4294967295.0));
        c.top = p.zeroed<unsigned>(c.cells);
        c.low = p.zeroed<unsigned>(c.cells);
        p.needs({.dram_bytes = 4.0 * barcodes + 12.0 * c.cells, .int_op = 10.0 * barcodes});
        p.check<unsigned>(c.top, c.cells, {0}, [=](unsigned* expected) {
            reference_sketch<<<1024, 256>>>(c, expected, true);
        });
        p.check<unsigned>(c.low, c.cells, {0}, [=](unsigned* expected) {
            reference_sketch<<<1024, 256>>>(c, expected, false);
        });
        p.variant("block_per_cell", [=] { block_per_cell(c); });
        p.variant("block_per_task", [=] { block_per_task(c); });
    });
    book.problem("qualities_151", [](book::Problem& p) {
        Qualities q{655360u * 151u, 151, 12, 21};
        q.in = p.uniform<unsigned char>(q.count, 2, 42);
        q.out = p.output<unsigned char>(q.count);
        p.needs({.dram_bytes = 2.0 * q.count, .int_op = 3.0 * q.count});
        p.check<unsigned char>(q.out, q.count, {0}, [=](unsigned char* expected) {
            reference_recalibrate<<<2112, 256>>>(q, expected);
        });
        p.variant("place_of_each", [=] { place_of_each(q); });
        p.variant("place_of_first", [=] { place_of_first(q); });
    });
    book.problem("reads_128", [](book::Problem& p) {
        Reads r{1 << 20};
        r.quality = p.uniform<unsigned char>(size_t{128} * r.reads, 2, 42);
        r.errors = p.output<float>(r.reads);
        p.needs({.dram_bytes = 132.0 * r.reads, .fp32_flop = 128.0 * r.reads, .special_op = 128.0 * r.reads});
        p.check<float>(r.errors, r.reads, {1e-4}, [=](float* expected) {
            reference_errors<<<2112, 256>>>(r, expected);
        });
        p.variant("phred_sum", [=] { phred_sum(r); });
        p.variant("phred_sum_f", [=] { phred_sum_f(r); });
    });
    return book.finish();
}
