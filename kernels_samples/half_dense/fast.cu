#include <cstdint>

#include "problem.h"

constexpr int kTileRows = 128;  // of c, per block
constexpr int kTileColumns = 256;
constexpr int kDepth = 64;  // depth of one step
constexpr int kStages = 3;
constexpr int kThreads = 256;
constexpr int kWarpRows = 64;  // of c, per warp
constexpr int kWarpColumns = 64;
constexpr int kWarpsAcross = kTileColumns / kWarpColumns;
constexpr int kRowTiles = kWarpRows / 16;  // a warp's 16 x 8 tiles
constexpr int kColumnTiles = kWarpColumns / 8;
constexpr int kChunk = 8;  // halves per 16 bytes

// One step's part of a and b. Within each line of 16-byte chunks, chunk x of line y is kept at
// place x ^ (y % 8).
struct Stage {
    __half a[kTileRows][kDepth];
    __half b[kDepth][kTileColumns];
};

// What one warp multiplies at a time, in the layout of the mma instruction.
struct Fragments {
    uint32_t a[kRowTiles][4];
    uint32_t b[kColumnTiles][2];
};

__device__ uint32_t shared_address(const void* pointer) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ void copy_async(void* to, const void* from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from)
                 : "memory");
}

__device__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int kPending>
__device__ void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

__device__ void load_matrices(uint32_t (&to)[4], const void* line) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(shared_address(line))
                 : "memory");
}

__device__ void load_transposed(uint32_t (&low)[2], uint32_t (&high)[2], const void* line) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(low[0]), "=r"(low[1]), "=r"(high[0]), "=r"(high[1])
                 : "r"(shared_address(line))
                 : "memory");
}

__device__ void multiply_add(float (&sum)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ int swizzled(int chunk, int line) { return (chunk ^ (line % 8)) * kChunk; }

// Copies lines of 16-byte chunks that are `pitch` halves apart, by all threads of the block.
template <int kLines, int kLength>
__device__ void load_lines(__half (&to)[kLines][kLength], const __half* from, int pitch) {
    constexpr int kChunks = kLength / kChunk;
    constexpr int kAtOnce = kThreads / kChunks;
    const int first = threadIdx.x / kChunks, chunk = threadIdx.x % kChunks;
    from += size_t(first) * pitch + chunk * kChunk;
#pragma unroll
    for (int line = 0; line < kLines; line += kAtOnce) {
        copy_async(&to[first + line][swizzled(chunk, first)], from + size_t(line) * pitch);
    }
}

// Starts the copies of one step: a points at its first row, b at its first column.
__device__ void load_stage(Stage& stage, const __half* a, const __half* b, int depth, int columns) {
    static_assert(kThreads / (kDepth / kChunk) % 8 == 0 &&
                  kThreads / (kTileColumns / kChunk) % 8 == 0);
    load_lines(stage.a, a, depth);
    load_lines(stage.b, b, columns);
}

__device__ void load_fragments(Fragments& fragments, const Stage& stage, int row, int column,
                               int k) {
    const int lane = threadIdx.x % 32;
    for (int i = 0; i < kRowTiles; ++i) {
        const int line = row + i * 16 + lane % 16;
        load_matrices(fragments.a[i], &stage.a[line][swizzled(k / kChunk + lane / 16, line)]);
    }
    for (int j = 0; j < kColumnTiles; j += 2) {
        const int line = k + lane % 16;
        const int chunk = column / kChunk + j + lane / 16;
        load_transposed(fragments.b[j], fragments.b[j + 1], &stage.b[line][swizzled(chunk, line)]);
    }
}

__global__ void __launch_bounds__(kThreads)
product(const __half* a, const __half* b, float* c, int columns, int depth) {
    extern __shared__ __align__(128) unsigned char shared[];
    Stage* stages = reinterpret_cast<Stage*>(shared);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int row = warp / kWarpsAcross * kWarpRows;
    const int column = warp % kWarpsAcross * kWarpColumns;
    const int block_row = blockIdx.x * kTileRows, block_column = blockIdx.y * kTileColumns;
    a += size_t(block_row) * depth;
    b += block_column;

    const int steps = depth / kDepth;
    for (int step = 0; step < kStages - 1; ++step) {
        load_stage(stages[step], a + step * kDepth, b + size_t(step) * kDepth * columns, depth,
                   columns);
        commit_copies();
    }

    float sum[kRowTiles][kColumnTiles][4] = {};
    for (int step = 0; step < steps; ++step) {
        wait_for_copies<kStages - 2>();
        __syncthreads();
        const int ahead = step + kStages - 1;
        if (ahead < steps) {
            load_stage(stages[ahead % kStages], a + ahead * kDepth,
                       b + size_t(ahead) * kDepth * columns, depth, columns);
        }
        commit_copies();

        const Stage& stage = stages[step % kStages];
        Fragments fragments[2];
        load_fragments(fragments[0], stage, row, column, 0);
#pragma unroll
        for (int k = 0; k < kDepth; k += 16) {
            const Fragments& now = fragments[k / 16 % 2];
            if (k + 16 < kDepth) {
                load_fragments(fragments[(k / 16 + 1) % 2], stage, row, column, k + 16);
            }
            for (int i = 0; i < kRowTiles; ++i) {
                for (int j = 0; j < kColumnTiles; ++j) multiply_add(sum[i][j], now.a[i], now.b[j]);
            }
        }
    }

    for (int i = 0; i < kRowTiles; ++i) {
        for (int j = 0; j < kColumnTiles; ++j) {
            const int at = block_row + row + i * 16 + lane / 4;
            float* out = c + size_t(at) * columns + block_column + column + j * 8 + lane % 4 * 2;
            *reinterpret_cast<float2*>(out) = make_float2(sum[i][j][0], sum[i][j][1]);
            *reinterpret_cast<float2*>(out + size_t(8) * columns) =
                make_float2(sum[i][j][2], sum[i][j][3]);
        }
    }
}

void launch(const Problem& problem) {
    constexpr int kSharedBytes = kStages * sizeof(Stage);
    cudaFuncSetAttribute(product, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
    const dim3 grid(problem.rows / kTileRows, problem.columns / kTileColumns);
    product<<<grid, kThreads, kSharedBytes>>>(problem.a, problem.b, problem.c, problem.columns,
                                              problem.depth);
}
