// Sums of table rows by bags of indices, as in the sparse part of a recommender.
#include "../../harness/book.h"

struct HalfBags {  // rows of 128 halves, bags of one size
    int rows, bags, each;
    const __half* table;
    const int* index;
    __half* gathered;
    float* out;
};

struct FloatBags {  // rows of 64 floats, bags of any size
    int rows, bags, pieces;
    const float* table;
    float* copy;  // room for the table
    const int* index;
    const int* offset;   // bags + 1 entries
    const int3* piece;   // bag, first and last + 1 index of pieces of at most 128
    float* out;
};

struct SlimBags {  // rows of 32 floats, bags of four
    int rows, bags;
    const float* table;
    const int* index;
    float* out;
};

struct Tables {  // many tables of rows of 64 halves, one batch of bags of four for each
    int tables, rows, bags;
    const __half* table;
    const int* index;
    float* out;
};

//: shared
constexpr unsigned kAll = 0xFFFFFFFFu;

__device__ void add_eight(float* sum, uint4 raw) {
    const __half2* pairs = reinterpret_cast<const __half2*>(&raw);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const float2 v = __half22float2(pairs[k]);
        sum[2 * k] += v.x;
        sum[2 * k + 1] += v.y;
    }
}
//: end

// --- bags of 32 rows of 128 halves

//: variant gather_columns
__global__ void __launch_bounds__(128) copy_columns(const __half* table, const int* index, __half* gathered) {
    gathered[size_t(blockIdx.x) * 128 + threadIdx.x] =
        table[size_t(index[blockIdx.x]) * 128 + threadIdx.x];
}

__global__ void __launch_bounds__(128) add_columns(const __half* gathered, float* out, int each) {
    float sum = 0;
    for (int k = 0; k < each; ++k) {
        sum += __half2float(gathered[(size_t(blockIdx.x) * each + k) * 128 + threadIdx.x]);
    }
    out[size_t(blockIdx.x) * 128 + threadIdx.x] = sum;
}

void gather_columns(const HalfBags& d) {
    copy_columns<<<d.bags * d.each, 128>>>(d.table, d.index, d.gathered);
    add_columns<<<d.bags, 128>>>(d.gathered, d.out, d.each);
}
//: end

//: variant gather_vectors
__global__ void __launch_bounds__(256) copy_vectors(const uint4* table, const int* index, uint4* gathered) {
    const size_t i = size_t(blockIdx.x) * 256 + threadIdx.x;
    gathered[i] = table[size_t(index[i / 16]) * 16 + i % 16];
}

__global__ void __launch_bounds__(256) add_vectors(const uint4* gathered, float4* out, int each) {
    const int bag = blockIdx.x * 8 + threadIdx.x / 32, half = threadIdx.x % 32 / 16, sub = threadIdx.x % 16;
    float sum[8] = {};
#pragma unroll 4
    for (int k = half; k < each; k += 2) add_eight(sum, gathered[(size_t(bag) * each + k) * 16 + sub]);
    for (int c = 0; c < 8; ++c) sum[c] += __shfl_xor_sync(kAll, sum[c], 16);
    out[size_t(bag) * 32 + 2 * sub + half] = half ? make_float4(sum[4], sum[5], sum[6], sum[7])
                                                  : make_float4(sum[0], sum[1], sum[2], sum[3]);
}

void gather_vectors(const HalfBags& d) {
    copy_vectors<<<d.bags * d.each / 16, 256>>>(reinterpret_cast<const uint4*>(d.table), d.index,
                                                reinterpret_cast<uint4*>(d.gathered));
    add_vectors<<<d.bags / 8, 256>>>(reinterpret_cast<const uint4*>(d.gathered),
                                     reinterpret_cast<float4*>(d.out), d.each);
}
//: end

//: variant columns
__global__ void __launch_bounds__(128) sum_columns(const __half* table, const int* index, float* out,
                                                   int each) {
    float sum = 0;
    for (int k = 0; k < each; ++k) {
        sum += __half2float(table[size_t(index[blockIdx.x * each + k]) * 128 + threadIdx.x]);
    }
    out[size_t(blockIdx.x) * 128 + threadIdx.x] = sum;
}

void columns(const HalfBags& d) {
    sum_columns<<<d.bags, 128>>>(d.table, d.index, d.out, d.each);
}
//: end

//: variant vectors
__global__ void __launch_bounds__(256) sum_vectors(const uint4* table, const int* index, float4* out,
                                                   int each) {
    const int bag = blockIdx.x * 8 + threadIdx.x / 32, half = threadIdx.x % 32 / 16, sub = threadIdx.x % 16;
    float sum[8] = {};
#pragma unroll 4
    for (int k = half; k < each; k += 2) add_eight(sum, table[size_t(index[bag * each + k]) * 16 + sub]);
    for (int c = 0; c < 8; ++c) sum[c] += __shfl_xor_sync(kAll, sum[c], 16);
    out[size_t(bag) * 32 + 2 * sub + half] = half ? make_float4(sum[4], sum[5], sum[6], sum[7])
                                                  : make_float4(sum[0], sum[1], sum[2], sum[3]);
}

void vectors(const HalfBags& d) {
    sum_vectors<<<d.bags / 8, 256>>>(reinterpret_cast<const uint4*>(d.table), d.index,
                                     reinterpret_cast<float4*>(d.out), d.each);
}
//: end

// --- bags of any size, rows of 64 floats, half a warp a row

//: shared
__device__ float4 sum_range(const float4* table, const int* index, int begin, int end) {
    const int half = threadIdx.x % 32 / 16, sub = threadIdx.x % 16;
    float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll 4
    for (int i = begin + half; i < end; i += 2) {
        const float4 v = table[size_t(index[i]) * 16 + sub];
        sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
    }
    sum.x += __shfl_xor_sync(kAll, sum.x, 16);
    sum.y += __shfl_xor_sync(kAll, sum.y, 16);
    sum.z += __shfl_xor_sync(kAll, sum.z, 16);
    sum.w += __shfl_xor_sync(kAll, sum.w, 16);
    return sum;
}

__global__ void __launch_bounds__(256) sum_bags(const float4* table, const int* index, const int* offset,
                                                float4* out, int bags) {
    const int bag = blockIdx.x * 8 + threadIdx.x / 32;
    if (bag >= bags) return;
    const float4 sum = sum_range(table, index, offset[bag], offset[bag + 1]);
    if (threadIdx.x % 32 < 16) out[size_t(bag) * 16 + threadIdx.x % 16] = sum;
}
//: end

//: variant warp_a_bag
void warp_a_bag(const FloatBags& d) {
    sum_bags<<<(d.bags + 7) / 8, 256>>>(reinterpret_cast<const float4*>(d.table), d.index, d.offset,
                                        reinterpret_cast<float4*>(d.out), d.bags);
}
//: end

//: variant warp_a_piece
__global__ void __launch_bounds__(256) sum_pieces(const float4* table, const int* index, const int3* piece,
                                                  float* out, int pieces) {
    const int p = blockIdx.x * 8 + threadIdx.x / 32;
    if (p >= pieces) return;
    const int3 range = piece[p];
    const float4 sum = sum_range(table, index, range.y, range.z);
    if (threadIdx.x % 32 < 16) {
        float* at = out + size_t(range.x) * 64 + threadIdx.x % 16 * 4;
        atomicAdd(at, sum.x);
        atomicAdd(at + 1, sum.y);
        atomicAdd(at + 2, sum.z);
        atomicAdd(at + 3, sum.w);
    }
}

void warp_a_piece(const FloatBags& d) {
    BOOK_CHECK(cudaMemsetAsync(d.out, 0, size_t(d.bags) * 64 * sizeof(float)));
    sum_pieces<<<(d.pieces + 7) / 8, 256>>>(reinterpret_cast<const float4*>(d.table), d.index, d.piece,
                                            d.out, d.pieces);
}
//: end

//: variant table_in_place
void table_in_place(const FloatBags& d) {
    sum_bags<<<(d.bags + 7) / 8, 256>>>(reinterpret_cast<const float4*>(d.table), d.index, d.offset,
                                        reinterpret_cast<float4*>(d.out), d.bags);
}
//: end

//: variant table_copied
void table_copied(const FloatBags& d) {
    BOOK_CHECK(cudaMemcpyAsync(d.copy, d.table, size_t(d.rows) * 64 * sizeof(float), cudaMemcpyDefault));
    sum_bags<<<(d.bags + 7) / 8, 256>>>(reinterpret_cast<const float4*>(d.copy), d.index, d.offset,
                                        reinterpret_cast<float4*>(d.out), d.bags);
}
//: end

// --- bags of four rows of 32 floats, a lane a column, eight bags a warp

//: shared
template <int kThreads>
__global__ void __launch_bounds__(kThreads) sum_slim(const float* table, const int* index, float* out) {
    const int lane = threadIdx.x % 32;
    const int first = (blockIdx.x * (kThreads / 32) + threadIdx.x / 32) * 8;
    for (int bag = first; bag < first + 8; ++bag) {
        const int4 row = reinterpret_cast<const int4*>(index)[bag];
        out[size_t(bag) * 32 + lane] = table[size_t(row.x) * 32 + lane] + table[size_t(row.y) * 32 + lane] +
                                       table[size_t(row.z) * 32 + lane] + table[size_t(row.w) * 32 + lane];
    }
}
//: end

//: variant slim_blocks_32
void slim_blocks_32(const SlimBags& d) {
    sum_slim<32><<<d.bags / 8, 32>>>(d.table, d.index, d.out);
}
//: end

//: variant slim_blocks_128
void slim_blocks_128(const SlimBags& d) {
    sum_slim<128><<<d.bags / 32, 128>>>(d.table, d.index, d.out);
}
//: end

//: variant slim_vectors
// Eight lanes a row with 16 bytes each, the four rows of a bag at once.
__global__ void __launch_bounds__(128) sum_slim_vectors(const float4* table, const int* index, float4* out) {
    const int lane = threadIdx.x % 32, sub = lane % 8;
    const int first = (blockIdx.x * 4 + threadIdx.x / 32) * 8;
    for (int bag = first; bag < first + 8; ++bag) {
        float4 sum = table[size_t(index[bag * 4 + lane / 8]) * 8 + sub];
#pragma unroll
        for (int bit = 8; bit < 32; bit *= 2) {
            sum.x += __shfl_xor_sync(kAll, sum.x, bit);
            sum.y += __shfl_xor_sync(kAll, sum.y, bit);
            sum.z += __shfl_xor_sync(kAll, sum.z, bit);
            sum.w += __shfl_xor_sync(kAll, sum.w, bit);
        }
        if (lane < 8) out[size_t(bag) * 8 + sub] = sum;
    }
}

void slim_vectors(const SlimBags& d) {
    sum_slim_vectors<<<d.bags / 32, 128>>>(reinterpret_cast<const float4*>(d.table), d.index,
                                           reinterpret_cast<float4*>(d.out));
}
//: end

// --- many tables, a small batch

//: shared
__device__ void sum_batch(const __half2* table, const int* index, float2* out, int bag) {
    const int lane = threadIdx.x % 32;
    const int4 row = reinterpret_cast<const int4*>(index)[bag];
    const float2 a = __half22float2(table[size_t(row.x) * 32 + lane]);
    const float2 b = __half22float2(table[size_t(row.y) * 32 + lane]);
    const float2 c = __half22float2(table[size_t(row.z) * 32 + lane]);
    const float2 e = __half22float2(table[size_t(row.w) * 32 + lane]);
    out[size_t(bag) * 32 + lane] = make_float2(a.x + b.x + c.x + e.x, a.y + b.y + c.y + e.y);
}
//: end

//: variant table_by_table
__global__ void __launch_bounds__(128) sum_one_table(const __half2* table, const int* index, float2* out) {
    sum_batch(table, index, out, blockIdx.x * 4 + threadIdx.x / 32);
}

void table_by_table(const Tables& d, const book::Problem* problem) {
    for (int t = 0; t < d.tables; ++t) {
        sum_one_table<<<d.bags / 4, 128>>>(
            reinterpret_cast<const __half2*>(d.table) + size_t(t) * d.rows * 32,
            d.index + size_t(t) * d.bags * 4, reinterpret_cast<float2*>(d.out) + size_t(t) * d.bags * 32);
        problem->launched(t);
    }
}
//: end

//: variant all_tables
__global__ void __launch_bounds__(128) sum_all_tables(const __half2* table, const int* index, float2* out,
                                                      int rows, int bags) {
    const size_t t = blockIdx.y;
    sum_batch(table + t * rows * 32, index + t * bags * 4, out + t * bags * 32,
              blockIdx.x * 4 + threadIdx.x / 32);
}

void all_tables(const Tables& d) {
    sum_all_tables<<<dim3(d.bags / 4, d.tables), 128>>>(reinterpret_cast<const __half2*>(d.table), d.index,
                                                        reinterpret_cast<float2*>(d.out), d.rows, d.bags);
}
//: end

// Entry (bag, column) of the result; `offset` or bags of `each`; `bags_a_table` bags share a table.
template <class T>
__global__ void reference_bags(const T* table, const int* index, const int* offset, int each, size_t bags,
                               int width, size_t bags_a_table, size_t rows, float* expected) {
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < bags * width;
         i += size_t{gridDim.x} * blockDim.x) {
        const size_t bag = i / width, column = i % width;
        const size_t begin = offset ? offset[bag] : bag * each, end = offset ? offset[bag + 1] : begin + each;
        const T* mine = table + bag / bags_a_table * rows * width;
        double sum = 0;
        for (size_t k = begin; k < end; ++k) sum += book::as_double(mine[size_t(index[k]) * width + column]);
        expected[i] = static_cast<float>(sum);
    }
}

struct TableAt {
    uint64_t seed;
    __host__ __device__ float operator()(size_t i) const {
        return static_cast<float>(2 * book::uniform01(seed, 31, i) - 1);
    }
};

FloatBags make_float_bags(book::Problem& p, int rows, const std::vector<int>& sizes, bool on_host) {
    FloatBags d{rows, int(sizes.size())};
    std::vector<int> offset{0};
    std::vector<int3> piece;
    for (int bag = 0; bag < d.bags; ++bag) {
        const int begin = offset.back(), end = begin + sizes[bag];
        for (int at = begin; at < end; at += 128) piece.push_back({bag, at, std::min(at + 128, end)});
        offset.push_back(end);
    }
    d.pieces = int(piece.size());
    const size_t count = size_t(rows) * 64, lookups = offset.back(), outputs = size_t(d.bags) * 64;
    if (on_host) {
        float* table = p.host_mapped<float>(count);
        book::book_fill<<<1056, 256>>>(table, count, TableAt{p.seed()});
        BOOK_CHECK(cudaGetLastError());
        d.table = table;
        d.copy = p.output<float>(count);
    } else {
        d.table = p.input<float>(count, TableAt{p.seed()});
        d.copy = nullptr;
    }
    d.index = p.uniform<int>(lookups, 0, rows);
    d.offset = p.upload(offset);
    d.piece = p.upload(piece);
    d.out = p.output<float>(outputs);
    const double touched = 256.0 * rows * (1 - std::exp(-double(lookups) / rows));
    p.needs({.dram_bytes = (on_host ? 0.0 : touched) + 4.0 * lookups + 4.0 * d.bags + 4.0 * outputs,
             .link_bytes = on_host ? touched : 0.0});
    p.check<float>(d.out, outputs, {1e-4, 1e-3}, [=](float* expected) {
        reference_bags<float><<<1056, 256>>>(d.table, d.index, d.offset, 0, d.bags, 64, size_t(d.bags), 0, expected);
    });
    return d;
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("f16_bags_of_32", [](book::Problem& p) {
        HalfBags d{327680, 20480, 32};
        const size_t lookups = size_t(d.bags) * d.each, outputs = size_t(d.bags) * 128;
        d.table = p.uniform<__half>(size_t(d.rows) * 128, -1, 1);
        d.index = p.uniform<int>(lookups, 0, d.rows);
        d.gathered = p.output<__half>(lookups * 128);
        d.out = p.output<float>(outputs);
        p.needs({.dram_bytes = 256.0 * d.rows * (1 - std::exp(-double(lookups) / d.rows)) + 4.0 * lookups +
                               4.0 * outputs,
                 .fp32_flop = 128.0 * lookups});
        p.check<float>(d.out, outputs, {1e-4, 1e-4}, [=](float* expected) {
            reference_bags<__half><<<1056, 256>>>(d.table, d.index, nullptr, d.each, d.bags, 128,
                                                  size_t(d.bags), 0, expected);
        });
        p.variant("gather_columns", [=] { gather_columns(d); });
        p.variant("gather_vectors", [=] { gather_vectors(d); });
        p.variant("columns", [=] { columns(d); });
        p.variant("vectors", [=] { vectors(d); });
    });
    book.problem("f32_skewed", [](book::Problem& p) {
        std::vector<int> sizes(30000);
        for (int i = 0; i < 30000; ++i) {
            sizes[i] = i % 500 == 250 ? 4096 : 4 + int(36 * book::uniform01(p.seed(), 9, i));
        }
        const auto d = make_float_bags(p, 400000, sizes, false);
        p.variant("warp_a_bag", [=] { warp_a_bag(d); });
        p.variant("warp_a_piece", [=] { warp_a_piece(d); });
    });
    book.problem("f32_varied", [](book::Problem& p) {
        std::vector<int> sizes(24000);
        for (int i = 0; i < 24000; ++i) sizes[i] = 8 + int(152 * std::pow(book::uniform01(p.seed(), 9, i), 4));
        const auto d = make_float_bags(p, 400000, sizes, false);
        p.variant("warp_a_bag", [=] { warp_a_bag(d); });
        p.variant("warp_a_piece", [=] { warp_a_piece(d); });
    });
    book.problem("f32_host_table", [](book::Problem& p) {
        const auto d = make_float_bags(p, 245760, std::vector<int>(49152, 20), true);
        p.variant("table_in_place", [=] { table_in_place(d); });
        p.variant("table_copied", [=] { table_copied(d); });
    });
    book.problem("f32_slim", [](book::Problem& p) {
        SlimBags d{1000000, 270336};
        const size_t lookups = size_t(d.bags) * 4, outputs = size_t(d.bags) * 32;
        d.table = p.uniform<float>(size_t(d.rows) * 32, -1, 1);
        d.index = p.uniform<int>(lookups, 0, d.rows);
        d.out = p.output<float>(outputs);
        p.needs({.dram_bytes = 128.0 * d.rows * (1 - std::exp(-double(lookups) / d.rows)) + 4.0 * lookups +
                               4.0 * outputs});
        p.check<float>(d.out, outputs, {1e-5, 1e-5}, [=](float* expected) {
            reference_bags<float><<<1056, 256>>>(d.table, d.index, nullptr, 4, d.bags, 32, size_t(d.bags), 0,
                                                 expected);
        });
        p.variant("slim_blocks_32", [=] { slim_blocks_32(d); });
        p.variant("slim_blocks_128", [=] { slim_blocks_128(d); });
        p.variant("slim_vectors", [=] { slim_vectors(d); });
    });
    book.problem("f16_many_tables", [](book::Problem& p) {
        Tables d{64, 16384, 256};
        const size_t bags = size_t(d.tables) * d.bags;
        d.table = p.uniform<__half>(size_t(d.tables) * d.rows * 64, -1, 1);
        d.index = p.uniform<int>(bags * 4, 0, d.rows);
        d.out = p.output<float>(bags * 64);
        p.needs({.dram_bytes = bags * (4.0 * 128 + 16 + 256), .steps = 1});
        p.check<float>(d.out, bags * 64, {1e-5, 1e-5}, [=](float* expected) {
            reference_bags<__half><<<1056, 256>>>(d.table, d.index, nullptr, 4, bags, 64, size_t(d.bags),
                                                  size_t(d.rows), expected);
        });
        auto* problem = &p;
        p.variant("table_by_table", [=] { table_by_table(d, problem); });
        p.variant("all_tables", [=] { all_tables(d); });
    });
    return book.finish();
}
