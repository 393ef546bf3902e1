#include <cstdint>

#include "problem.h"

constexpr int kTileRows = 128;  // of the output, per block
constexpr int kTileColumns = 256;
constexpr int kDepth = 64;  // depth of one step
constexpr int kStages = 3;
constexpr int kThreads = 256;
constexpr int kWarpRows = 64;  // of the output, per warp
constexpr int kWarpColumns = 64;
constexpr int kWarpsAcross = kTileColumns / kWarpColumns;
constexpr int kRowTiles = kWarpRows / 16;  // a warp's 16 x 8 tiles
constexpr int kColumnTiles = kWarpColumns / 8;
constexpr int kChunk = 8;  // numbers in 16 bytes

// One step's part of x and of the weights. Within each line of 16-byte chunks, chunk i of line j
// is kept at place i ^ (j % 8).
struct Stage {
    __nv_bfloat16 x[kTileRows][kDepth];
    __nv_bfloat16 weights[kTileColumns][kDepth];
};

// What one warp multiplies at a time, in the layout of the mma instruction.
struct Fragments {
    uint32_t x[kRowTiles][4];
    uint32_t weights[kColumnTiles][2];
};

using Sums = float[kRowTiles][kColumnTiles][4];

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

__device__ void load_pair(uint32_t (&low)[2], uint32_t (&high)[2], const void* line) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(low[0]), "=r"(low[1]), "=r"(high[0]), "=r"(high[1])
                 : "r"(shared_address(line))
                 : "memory");
}

__device__ void multiply_add(float (&sum)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ int swizzled(int chunk, int line) { return (chunk ^ (line % 8)) * kChunk; }

// Starts the copies of lines of kDepth numbers, `depth` apart in memory, by the whole block.
template <int kLines>
__device__ void load_lines(__nv_bfloat16 (&to)[kLines][kDepth], const __nv_bfloat16* from,
                           int depth) {
    constexpr int kChunks = kDepth / kChunk;
    constexpr int kAtOnce = kThreads / kChunks;
    static_assert(kAtOnce % 8 == 0);
    const int first = threadIdx.x / kChunks, chunk = threadIdx.x % kChunks;
    from += size_t(first) * depth + chunk * kChunk;
#pragma unroll
    for (int line = 0; line < kLines; line += kAtOnce) {
        copy_async(&to[first + line][swizzled(chunk, first)], from + size_t(line) * depth);
    }
}

__device__ void load_fragments(Fragments& fragments, const Stage& stage, int row, int column,
                               int k) {
    const int lane = threadIdx.x % 32;
    for (int i = 0; i < kRowTiles; ++i) {
        const int line = row + i * 16 + lane % 16;
        load_matrices(fragments.x[i], &stage.x[line][swizzled(k / kChunk + lane / 16, line)]);
    }
    for (int j = 0; j < kColumnTiles; j += 2) {
        const int line = column + j * 8 + lane / 16 * 8 + lane % 8;
        load_pair(fragments.weights[j], fragments.weights[j + 1],
                  &stage.weights[line][swizzled(k / kChunk + lane / 8 % 2, line)]);
    }
}

// Adds the product of one stage to the sums of the warp at (row, column) of the tile.
__device__ void multiply_stage(Sums& sums, const Stage& stage, int row, int column) {
    Fragments fragments[2];
    load_fragments(fragments[0], stage, row, column, 0);
#pragma unroll
    for (int k = 0; k < kDepth; k += 16) {
        const Fragments& now = fragments[k / 16 % 2];
        if (k + 16 < kDepth) {
            load_fragments(fragments[(k / 16 + 1) % 2], stage, row, column, k + 16);
        }
        for (int i = 0; i < kRowTiles; ++i) {
            for (int j = 0; j < kColumnTiles; ++j) {
                multiply_add(sums[i][j], now.x[i], now.weights[j]);
            }
        }
    }
}

// Bias and rectifier; out and bias point at the warp's part.
__device__ void store_sums(const Sums& sums, const float* bias, __nv_bfloat16* out, int columns) {
    const int lane = threadIdx.x % 32;
    for (int j = 0; j < kColumnTiles; ++j) {
        const int column = j * 8 + lane % 4 * 2;
        const float2 shift = *reinterpret_cast<const float2*>(bias + column);
        for (int i = 0; i < kRowTiles; ++i) {
            for (int half = 0; half < 2; ++half) {
                const int row = i * 16 + half * 8 + lane / 4;
                const float left = fmaxf(sums[i][j][2 * half] + shift.x, 0);
                const float right = fmaxf(sums[i][j][2 * half + 1] + shift.y, 0);
                *reinterpret_cast<__nv_bfloat162*>(out + size_t(row) * columns + column) =
                    __floats2bfloat162_rn(left, right);
            }
        }
    }
}

__global__ void __launch_bounds__(kThreads)
dense_layer(const __nv_bfloat16* x, const __nv_bfloat16* weights, const float* bias,
            __nv_bfloat16* out, int columns, int depth) {
    extern __shared__ __align__(128) unsigned char shared[];
    Stage* stages = reinterpret_cast<Stage*>(shared);
    const int warp = threadIdx.x / 32;
    const int row = warp / kWarpsAcross * kWarpRows;
    const int column = warp % kWarpsAcross * kWarpColumns;
    const int block_row = blockIdx.x * kTileRows, block_column = blockIdx.y * kTileColumns;
    x += size_t(block_row) * depth;
    weights += size_t(block_column) * depth;
    Sums sums = {};

    const int steps = depth / kDepth;
    for (int step = 0; step < kStages - 1; ++step) {
        load_lines(stages[step].x, x + step * kDepth, depth);
        load_lines(stages[step].weights, weights + step * kDepth, depth);
        commit_copies();
    }
    for (int step = 0; step < steps; ++step) {
        wait_for_copies<kStages - 2>();
        __syncthreads();
        const int ahead = step + kStages - 1;
        if (ahead < steps) {
            load_lines(stages[ahead % kStages].x, x + ahead * kDepth, depth);
            load_lines(stages[ahead % kStages].weights, weights + ahead * kDepth, depth);
        }
        commit_copies();
        multiply_stage(sums, stages[step % kStages], row, column);
    }
    store_sums(sums, bias + block_column + column,
               out + size_t(block_row + row) * columns + block_column + column, columns);
}

void launch(const Problem& problem) {
    constexpr int kSharedBytes = kStages * sizeof(Stage);
    cudaFuncSetAttribute(dense_layer, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
    const dim3 grid(problem.rows / kTileRows, problem.columns / kTileColumns);
    dense_layer<<<grid, kThreads, kSharedBytes>>>(problem.x, problem.weights, problem.bias,
                                                  problem.out, problem.columns, problem.depth);
}
