// A block-sparse Hamiltonian times a block of vectors, as in linear-scaling electronic structure: each row
// of atoms has a few dense blocks of 16 x 16, and there are 32 vectors.
#include "../../harness/book.h"

//: shared
constexpr int kBlock = 16;    // orbitals of an atom
constexpr int kVectors = 32;  // vectors that are multiplied at a time
constexpr int kWarps = 4;

struct Hamiltonian {
    int rows, degree;     // block rows, and blocks in each of them
    const int* column;    // [row][block]
    const float* values;  // [row][block][16][16]
};

// A warp computes 4 * kTileRows rows of a block row for all vectors, kTileRows x 4 results a lane. It copies
// kStage blocks and their vectors to shared memory at a time; rows of a block are kPitch apart there.
template <int kTileRows, int kPitch, int kStage>
struct Panel {
    static constexpr int kRows = 4 * kTileRows;
    static constexpr int kMatrix = kRows * kPitch, kStep = kMatrix + kBlock * kVectors;
    static constexpr int kBytes = kWarps * kStage * kStep * int(sizeof(float));
};

template <int kTileRows, int kPitch, int kStage>
__device__ __forceinline__ void accumulate(const Hamiltonian& h, const float* x, float* panel, int row,
                                           int first, float (&sum)[kTileRows][4]) {
    using P = Panel<kTileRows, kPitch, kStage>;
    const int lane = threadIdx.x % 32, group = lane / 8, own = lane % 8;
#pragma unroll 1
    for (int start = 0; start < h.degree; start += kStage) {
        __syncwarp();
#pragma unroll 1
        for (int q = 0; q < kStage; ++q) {
            const size_t block = size_t(row) * h.degree + start + q;
            const int column = h.column[block];
            const float4* a = reinterpret_cast<const float4*>(h.values + block * (kBlock * kBlock) + first * kBlock);
            const float4* v = reinterpret_cast<const float4*>(x + size_t(column) * (kBlock * kVectors));
            float4 from_a[kTileRows / 2], from_x[4];
#pragma unroll
            for (int k = 0; k < kTileRows / 2; ++k) from_a[k] = a[k * 32 + lane];
#pragma unroll
            for (int k = 0; k < 4; ++k) from_x[k] = v[k * 32 + lane];
            float* to = panel + q * P::kStep;
#pragma unroll
            for (int k = 0; k < kTileRows / 2; ++k) {
                float* place = to + (k * 8 + lane / 4) * kPitch + lane % 4 * 4;
                place[0] = from_a[k].x;
                place[1] = from_a[k].y;
                place[2] = from_a[k].z;
                place[3] = from_a[k].w;
            }
            float4* vectors = reinterpret_cast<float4*>(to + P::kMatrix);
#pragma unroll
            for (int k = 0; k < 4; ++k) vectors[k * 32 + lane] = from_x[k];
        }
        __syncwarp();
#pragma unroll 1
        for (int q = 0; q < kStage; ++q) {
            const float* a = panel + q * P::kStep + group * kTileRows * kPitch;
            const float* v = panel + q * P::kStep + P::kMatrix + own;
#pragma unroll 1
            for (int k = 0; k < kBlock; ++k) {
                float left[kTileRows], right[4];
#pragma unroll
                for (int i = 0; i < kTileRows; ++i) left[i] = a[i * kPitch + k];
#pragma unroll
                for (int j = 0; j < 4; ++j) right[j] = v[k * kVectors + 8 * j];
#pragma unroll
                for (int i = 0; i < kTileRows; ++i) {
#pragma unroll
                    for (int j = 0; j < 4; ++j) sum[i][j] += left[i] * right[j];
                }
            }
        }
    }
}

template <int kTileRows, int kPitch, int kStage>
__global__ void __launch_bounds__(32 * kWarps) multiply(Hamiltonian h, const float* x, float* y) {
    using P = Panel<kTileRows, kPitch, kStage>;
    extern __shared__ float panels[];
    constexpr int kParts = kBlock / P::kRows;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, unit = blockIdx.x * kWarps + warp;
    const int row = unit / kParts, first = unit % kParts * P::kRows;
    if (row >= h.rows) return;
    float sum[kTileRows][4] = {};
    accumulate<kTileRows, kPitch, kStage>(h, x, panels + warp * kStage * P::kStep, row, first, sum);
    float* to = y + (size_t(row) * kBlock + first + lane / 8 * kTileRows) * kVectors + lane % 8;
#pragma unroll
    for (int i = 0; i < kTileRows; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) to[i * kVectors + 8 * j] = sum[i][j];
    }
}

template <int kTileRows, int kPitch, int kStage>
void launch_multiply(const Hamiltonian& h, const float* x, float* y) {
    using P = Panel<kTileRows, kPitch, kStage>;
    auto* kernel = multiply<kTileRows, kPitch, kStage>;
    BOOK_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, P::kBytes));
    const int units = h.rows * (kBlock / P::kRows);
    kernel<<<(units + kWarps - 1) / kWarps, 32 * kWarps, P::kBytes>>>(h, x, y);
}
//: end

//: variant tile_4x4
void tile_4x4(const Hamiltonian& h, const float* x, float* y) {
    constexpr int kTileRows = 4, kPitch = 17, kStage = 1;
    launch_multiply<kTileRows, kPitch, kStage>(h, x, y);
}
//: end

//: variant tile_2x4
void tile_2x4(const Hamiltonian& h, const float* x, float* y) {
    constexpr int kTileRows = 2, kPitch = 17, kStage = 1;
    launch_multiply<kTileRows, kPitch, kStage>(h, x, y);
}
//: end

//: variant rows_of_16
void rows_of_16(const Hamiltonian& h, const float* x, float* y) {
    constexpr int kTileRows = 4, kPitch = 16, kStage = 1;
    launch_multiply<kTileRows, kPitch, kStage>(h, x, y);
}
//: end

//: variant rows_of_20
void rows_of_20(const Hamiltonian& h, const float* x, float* y) {
    constexpr int kTileRows = 4, kPitch = 20, kStage = 1;
    launch_multiply<kTileRows, kPitch, kStage>(h, x, y);
}
//: end

//: variant two_at_a_time
void two_at_a_time(const Hamiltonian& h, const float* x, float* y) {
    constexpr int kTileRows = 4, kPitch = 17, kStage = 2;
    launch_multiply<kTileRows, kPitch, kStage>(h, x, y);
}
//: end

//: variant six_at_a_time
void six_at_a_time(const Hamiltonian& h, const float* x, float* y) {
    constexpr int kTileRows = 4, kPitch = 17, kStage = 6;
    launch_multiply<kTileRows, kPitch, kStage>(h, x, y);
}
//: end

//: shared
// Chebyshev recurrence: next = 2 * scale * H x - previous.
constexpr float kScale = 0.125f;
//: end

//: variant product_then_sum
__global__ void __launch_bounds__(256) combine(const float4* product, const float4* previous, float4* next,
                                               int quads) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= quads) return;
    const float4 a = product[i], b = previous[i];
    next[i] = make_float4(2 * kScale * a.x - b.x, 2 * kScale * a.y - b.y, 2 * kScale * a.z - b.z,
                          2 * kScale * a.w - b.w);
}

void product_then_sum(const Hamiltonian& h, const float* x, const float* previous, float* product, float* next) {
    launch_multiply<4, 17, 1>(h, x, product);
    const int quads = h.rows * (kBlock * kVectors / 4);
    combine<<<(quads + 255) / 256, 256>>>(reinterpret_cast<const float4*>(product),
                                          reinterpret_cast<const float4*>(previous),
                                          reinterpret_cast<float4*>(next), quads);
}
//: end

//: variant sum_in_product
__global__ void __launch_bounds__(32 * kWarps)
    multiply_and_combine(Hamiltonian h, const float* x, const float* previous, float* next) {
    using P = Panel<4, 17, 1>;
    extern __shared__ float panels[];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row = blockIdx.x * kWarps + warp;
    if (row >= h.rows) return;
    float sum[4][4] = {};
    accumulate<4, 17, 1>(h, x, panels + warp * P::kStep, row, 0, sum);
    const size_t at = (size_t(row) * kBlock + lane / 8 * 4) * kVectors + lane % 8;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const size_t place = at + i * kVectors + 8 * j;
            next[place] = 2 * kScale * sum[i][j] - previous[place];
        }
    }
}

void sum_in_product(const Hamiltonian& h, const float* x, const float* previous, float* next) {
    using P = Panel<4, 17, 1>;
    multiply_and_combine<<<(h.rows + kWarps - 1) / kWarps, 32 * kWarps, P::kBytes>>>(h, x, previous, next);
}
//: end

// --- reference: a thread per result, in double

__global__ void reference_product(Hamiltonian h, const float* x, const float* previous, float* out) {
    const size_t i = blockIdx.x * size_t{256} + threadIdx.x;
    if (i >= size_t(h.rows) * 512) return;
    const int vector = int(i % 32), orbital = int(i / 32 % 16), row = int(i / 512);
    double sum = 0;
    for (int b = 0; b < h.degree; ++b) {
        const size_t block = size_t(row) * h.degree + b;
        for (int k = 0; k < 16; ++k) {
            sum += double(h.values[block * 256 + orbital * 16 + k]) *
                   x[size_t(h.column[block]) * 512 + k * 32 + vector];
        }
    }
    out[i] = float(previous ? 0.25 * sum - previous[i] : sum);
}

// Atoms are numbered along a curve: most neighbours have near numbers, and the others are not far.
Hamiltonian hamiltonian_of(book::Problem& p, int rows, int degree) {
    const uint64_t seed = p.seed();
    const int* column = p.input<int>(size_t(rows) * degree, [=] __device__(size_t i) {
        const int row = int(i / degree), q = int(i % degree);
        const int far = 1 + int(2000 * book::uniform01(seed, 700, i));
        const int other = q < 3 ? row + q - 1 : q % 2 ? row + far : row - far;
        return (other + rows) % rows;
    });
    const float* values = p.uniform<float>(size_t(rows) * degree * kBlock * kBlock, -1, 1);
    return {rows, degree, column, values};
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("blocks_12", [](book::Problem& p) {
        const Hamiltonian h = hamiltonian_of(p, 12288, 12);
        const size_t count = size_t(h.rows) * kBlock * kVectors, blocks = size_t(h.rows) * h.degree;
        const float* x = p.uniform<float>(count, -1, 1);
        float* y = p.output<float>(count);
        p.needs({.dram_bytes = 4.0 * blocks * (kBlock * kBlock + 1) + 8.0 * count,
                 .fp32_flop = 2.0 * blocks * kBlock * kBlock * kVectors});
        p.check<float>(y, count, {1e-5, 1e-4}, [=](float* expected) {
            reference_product<<<unsigned((count + 255) / 256), 256>>>(h, x, nullptr, expected);
        });
        p.variant("tile_4x4", [=] { tile_4x4(h, x, y); });
        p.variant("tile_2x4", [=] { tile_2x4(h, x, y); });
        p.variant("rows_of_16", [=] { rows_of_16(h, x, y); });
        p.variant("rows_of_20", [=] { rows_of_20(h, x, y); });
        p.variant("two_at_a_time", [=] { two_at_a_time(h, x, y); });
        p.variant("six_at_a_time", [=] { six_at_a_time(h, x, y); });
    });
    book.problem("recurrence_6", [](book::Problem& p) {
        const Hamiltonian h = hamiltonian_of(p, 16384, 6);
        const size_t count = size_t(h.rows) * kBlock * kVectors, blocks = size_t(h.rows) * h.degree;
        const float* x = p.uniform<float>(count, -1, 1);
        const float* previous = p.uniform<float>(count, -1, 1);
        float* product = p.output<float>(count);
        float* next = p.output<float>(count);
        p.needs({.dram_bytes = 4.0 * blocks * (kBlock * kBlock + 1) + 12.0 * count,
                 .fp32_flop = 2.0 * blocks * kBlock * kBlock * kVectors + 2.0 * count});
        p.check<float>(next, count, {1e-5, 1e-4}, [=](float* expected) {
            reference_product<<<unsigned((count + 255) / 256), 256>>>(h, x, previous, expected);
        });
        p.variant("product_then_sum", [=] { product_then_sum(h, x, previous, product, next); });
        p.variant("sum_in_product", [=] { sum_in_product(h, x, previous, next); });
    });
    return book.finish();
}
