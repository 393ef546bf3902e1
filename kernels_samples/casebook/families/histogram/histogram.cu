// Histograms: bytes a traffic class sent, frequencies of four-bit codes, sums over mapped classes.
#include "../../harness/book.h"

struct Traffic {
    unsigned count;
    const unsigned* records;  // class in the low 8 bits, size above
    const uint8_t* map;       // group of each class
    unsigned* out;            // zero at the start
};
struct Codes {
    unsigned count;
    const uint8_t* codes;  // 0 to 15
    unsigned* out;         // zero at the start
};

//: shared
constexpr int kClasses = 256;
constexpr int kThreads = 256;
constexpr int kResident = 132 * 8;
//: end

//: variant add_to_result
__global__ void __launch_bounds__(kThreads)
    count_to_result(const uint4* records, unsigned* out, unsigned quads) {
    auto add = [&](unsigned record) { atomicAdd(&out[record % kClasses], record / kClasses); };
    for (unsigned i = blockIdx.x * kThreads + threadIdx.x; i < quads; i += gridDim.x * kThreads) {
        const uint4 r = records[i];
        add(r.x), add(r.y), add(r.z), add(r.w);
    }
}

void add_to_result(const Traffic& d) {
    count_to_result<<<kResident, kThreads>>>(reinterpret_cast<const uint4*>(d.records), d.out, d.count / 4);
}
//: end

//: shared
// A table for each block.
__global__ void __launch_bounds__(kThreads)
    count_by_table(const uint4* records, unsigned* out, unsigned quads) {
    __shared__ unsigned table[kClasses];
    table[threadIdx.x] = 0;
    __syncthreads();
    auto add = [&](unsigned record) { atomicAdd(&table[record % kClasses], record / kClasses); };
    for (unsigned i = blockIdx.x * kThreads + threadIdx.x; i < quads; i += gridDim.x * kThreads) {
        const uint4 r = records[i];
        add(r.x), add(r.y), add(r.z), add(r.w);
    }
    __syncthreads();
    atomicAdd(&out[threadIdx.x], table[threadIdx.x]);
}

// Eight tables for each block, side by side; neighbouring threads use different ones.
__global__ void __launch_bounds__(kThreads)
    count_by_eight(const uint4* records, unsigned* out, unsigned quads) {
    __shared__ unsigned table[kClasses * 8];
    for (int i = threadIdx.x; i < kClasses * 8; i += kThreads) table[i] = 0;
    __syncthreads();
    unsigned* own = table + threadIdx.x % 8;
    auto add = [&](unsigned record) { atomicAdd(&own[record % kClasses * 8], record / kClasses); };
    for (unsigned i = blockIdx.x * kThreads + threadIdx.x; i < quads; i += gridDim.x * kThreads) {
        const uint4 r = records[i];
        add(r.x), add(r.y), add(r.z), add(r.w);
    }
    __syncthreads();
    unsigned sum = 0;
    for (int k = 0; k < 8; ++k) sum += table[threadIdx.x * 8 + (threadIdx.x + k) % 8];
    atomicAdd(&out[threadIdx.x], sum);
}
//: end

//: variant table
void table(const Traffic& d) {
    const int blocks = kResident;
    count_by_table<<<blocks, kThreads>>>(reinterpret_cast<const uint4*>(d.records), d.out, d.count / 4);
}
//: end

//: variant table_48
void table_48(const Traffic& d) {
    const int blocks = 48;
    count_by_table<<<blocks, kThreads>>>(reinterpret_cast<const uint4*>(d.records), d.out, d.count / 4);
}
//: end

//: variant eight_tables
void eight_tables(const Traffic& d) {
    const int blocks = kResident;
    count_by_eight<<<blocks, kThreads>>>(reinterpret_cast<const uint4*>(d.records), d.out, d.count / 4);
}
//: end

//: variant eight_tables_48
void eight_tables_48(const Traffic& d) {
    const int blocks = 48;
    count_by_eight<<<blocks, kThreads>>>(reinterpret_cast<const uint4*>(d.records), d.out, d.count / 4);
}
//: end

//: variant row_per_thread
__global__ void __launch_bounds__(kThreads)
    count_codes_rows(const uint4* codes, unsigned* out, unsigned quads) {
    __shared__ unsigned counts[kThreads][16];
    const int t = threadIdx.x;
    for (int k = 0; k < 16; ++k) counts[t][k] = 0;
    for (unsigned i = blockIdx.x * kThreads + t; i < quads; i += gridDim.x * kThreads) {
        const uint4 four = codes[i];
        const unsigned words[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
        for (int w = 0; w < 4; ++w) {
#pragma unroll
            for (int b = 0; b < 32; b += 8) ++counts[t][words[w] >> b & 15];
        }
    }
    __syncthreads();
    if (t < 128) {
        unsigned sum = 0;
        for (int k = t % 8; k < kThreads; k += 8) sum += counts[k][t / 8];
        for (int step = 4; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
        if (t % 8 == 0) atomicAdd(&out[t / 8], sum);
    }
}

void row_per_thread(const Codes& d) {
    count_codes_rows<<<kResident, kThreads>>>(reinterpret_cast<const uint4*>(d.codes), d.out, d.count / 16);
}
//: end

//: variant column_per_thread
__global__ void __launch_bounds__(kThreads)
    count_codes_columns(const uint4* codes, unsigned* out, unsigned quads) {
    __shared__ unsigned counts[16][kThreads];
    const int t = threadIdx.x;
    for (int k = 0; k < 16; ++k) counts[k][t] = 0;
    for (unsigned i = blockIdx.x * kThreads + t; i < quads; i += gridDim.x * kThreads) {
        const uint4 four = codes[i];
        const unsigned words[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
        for (int w = 0; w < 4; ++w) {
#pragma unroll
            for (int b = 0; b < 32; b += 8) ++counts[words[w] >> b & 15][t];
        }
    }
    __syncthreads();
    if (t < 128) {
        unsigned sum = 0;
        for (int k = t % 8; k < kThreads; k += 8) sum += counts[t / 8][k];
        for (int step = 4; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
        if (t % 8 == 0) atomicAdd(&out[t / 8], sum);
    }
}

void column_per_thread(const Codes& d) {
    count_codes_columns<<<kResident, kThreads>>>(reinterpret_cast<const uint4*>(d.codes), d.out,
                                                 d.count / 16);
}
//: end

//: variant map_in_place
// The map can be edited by another stream: it is read afresh for each record.
__global__ void __launch_bounds__(kThreads)
    count_groups(const uint4* records, const volatile uint8_t* map, unsigned* out, unsigned quads) {
    __shared__ unsigned table[kClasses];
    table[threadIdx.x] = 0;
    __syncthreads();
    auto add = [&](unsigned record) { atomicAdd(&table[map[record % kClasses]], record / kClasses); };
    for (unsigned i = blockIdx.x * kThreads + threadIdx.x; i < quads; i += gridDim.x * kThreads) {
        const uint4 r = records[i];
        add(r.x), add(r.y), add(r.z), add(r.w);
    }
    __syncthreads();
    atomicAdd(&out[threadIdx.x], table[threadIdx.x]);
}

void map_in_place(const Traffic& d) {
    count_groups<<<kResident, kThreads>>>(reinterpret_cast<const uint4*>(d.records), d.map, d.out,
                                          d.count / 4);
}
//: end

//: variant map_per_block
// The map can be edited by another stream: each block reads it afresh.
__global__ void __launch_bounds__(kThreads)
    count_groups_copied(const uint4* records, const volatile uint8_t* map, unsigned* out, unsigned quads) {
    __shared__ unsigned table[kClasses];
    __shared__ unsigned group[kClasses];
    table[threadIdx.x] = 0;
    group[threadIdx.x] = map[threadIdx.x];
    __syncthreads();
    auto add = [&](unsigned record) { atomicAdd(&table[group[record % kClasses]], record / kClasses); };
    for (unsigned i = blockIdx.x * kThreads + threadIdx.x; i < quads; i += gridDim.x * kThreads) {
        const uint4 r = records[i];
        add(r.x), add(r.y), add(r.z), add(r.w);
    }
    __syncthreads();
    atomicAdd(&out[threadIdx.x], table[threadIdx.x]);
}

void map_per_block(const Traffic& d) {
    count_groups_copied<<<kResident, kThreads>>>(reinterpret_cast<const uint4*>(d.records), d.map, d.out,
                                                 d.count / 4);
}
//: end

// Thread t of a block counts what belongs to bin t in the block's stretch of the input.
__global__ void reference_traffic(const unsigned* records, const uint8_t* map, unsigned* expected,
                                  unsigned stretch) {
    unsigned sum = 0;
    for (unsigned i = 0; i < stretch; ++i) {
        const unsigned record = records[size_t(blockIdx.x) * stretch + i];
        unsigned bin = record & 0xff;
        if (map) bin = map[bin];
        if (bin == threadIdx.x) sum += record >> 8;
    }
    atomicAdd(&expected[threadIdx.x], sum);
}
__global__ void reference_codes(const uint8_t* codes, unsigned* expected, unsigned stretch) {
    unsigned sum = 0;
    for (unsigned i = threadIdx.x / 16; i < stretch; i += 16) {
        if (codes[size_t(blockIdx.x) * stretch + i] == threadIdx.x % 16) ++sum;
    }
    atomicAdd(&expected[threadIdx.x % 16], sum);
}

Traffic traffic_of(book::Problem& p, unsigned count, double share, bool mapped) {
    Traffic d{count};
    const uint64_t seed = p.seed();
    d.records = p.input<unsigned>(count, [=] __device__(size_t i) {
        const unsigned size = unsigned(64 * book::uniform01(seed, 901, i));
        const bool common = book::uniform01(seed, 902, i) < share;
        const unsigned kind = common ? 7u : unsigned(256 * book::uniform01(seed, 903, i));
        return size << 8 | kind;
    });
    d.map = p.input<uint8_t>(256, [=] __device__(size_t i) { return uint8_t((i * 37 + seed) % 160); });
    d.out = p.zeroed<unsigned>(256);
    const uint8_t* map = mapped ? d.map : nullptr;
    p.needs({.dram_bytes = 4.0 * count, .int_op = 2.0 * count});
    p.check<unsigned>(d.out, 256, {0}, [=](unsigned* expected) {
        reference_traffic<<<4096, 256>>>(d.records, map, expected, count / 4096);
    });
    return d;
}

Codes codes_of(book::Problem& p, unsigned count) {
    Codes d{count};
    d.codes = p.uniform<uint8_t>(count, 0, 16);
    d.out = p.zeroed<unsigned>(16);
    p.needs({.dram_bytes = 1.0 * count, .int_op = 2.0 * count});
    p.check<unsigned>(d.out, 16, {0}, [=](unsigned* expected) {
        reference_codes<<<4096, 256>>>(d.codes, expected, count / 4096);
    });
    return d;
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("uniform", [](book::Problem& p) {
        const Traffic d = traffic_of(p, 32u << 20, 0, false);
        p.variant("add_to_result", [=] { add_to_result(d); });
        p.variant("table", [=] { table(d); });
        p.variant("eight_tables", [=] { eight_tables(d); });
    });
    book.problem("one_class_90", [](book::Problem& p) {
        const Traffic d = traffic_of(p, 32u << 20, 0.9, false);
        p.variant("table_48", [=] { table_48(d); });
        p.variant("eight_tables_48", [=] { eight_tables_48(d); });
        p.variant("table", [=] { table(d); });
        p.variant("eight_tables", [=] { eight_tables(d); });
    });
    book.problem("one_class_25", [](book::Problem& p) {
        const Traffic d = traffic_of(p, 48u << 20, 0.25, false);
        p.variant("table", [=] { table(d); });
        p.variant("eight_tables", [=] { eight_tables(d); });
    });
    book.problem("one_class_21", [](book::Problem& p) {
        const Traffic d = traffic_of(p, 48u << 20, 0.21, false);
        p.variant("table", [=] { table(d); });
        p.variant("eight_tables", [=] { eight_tables(d); });
    });
    book.problem("codes_64m", [](book::Problem& p) {
        const Codes d = codes_of(p, 64u << 20);
        p.variant("row_per_thread", [=] { row_per_thread(d); });
        p.variant("column_per_thread", [=] { column_per_thread(d); });
    });
    book.problem("groups_16m", [](book::Problem& p) {
        const Traffic d = traffic_of(p, 16u << 20, 0, true);
        p.variant("map_in_place", [=] { map_in_place(d); });
        p.variant("map_per_block", [=] { map_per_block(d); });
    });
    return book.finish();
}
