// Kernels of the casebook (work families only): stencils, products of matrices, transposes.
// Numbers passed to `loads` are source lines, as in the line table of the report.
#include <algorithm>

#include "replay.h"

#define FAMILY "kernels_samples/casebook/families/"
#define PACKED ".keet.json.zst"

void stencil2d_wrapped(Kernel& k) {
    k.describe(FAMILY "stencil2d/profiles/torus_f32.wrapped" PACKED, 0, "relax_wrapped",
               "left, right, up and down neighbours of point i, closed to a torus by remainders; "
               "4096 x 6144");
    const int64_t rows = 4096, columns = 6144;
    Array& in = k.array("in", 0, 4, rows * columns);
    Loads& three = in.loads({93});
    Loads& below = in.loads({94});
    k.run({static_cast<int>((rows * columns + 255) / 256)}, {256}, [&](Dim block, Dim thread) {
        const int64_t i = block.x * int64_t{256} + thread.x;
        if (i >= rows * columns) return;
        const int64_t y = i / columns, x = i % columns;
        const int64_t up = (y + rows - 1) % rows, down = (y + 1) % rows;
        const int64_t left = (x + columns - 1) % columns, right = (x + 1) % columns;
        three.at(y * columns + left);
        three.at(y * columns + right);
        three.at(up * columns + x);
        below.at(down * columns + x);
    });
}

void stencil2d_star_march(Kernel& k) {
    k.describe(FAMILY "stencil2d/profiles/star4_f32.star_march" PACKED, 0, "star_down_columns",
               "a star of radius 4 marched down 64 rows: eight rows of the column first, then per "
               "row the one four below and eight neighbours in the row; rows have a margin");
    const int rows = 4096, columns = 6144, margin = 32, halo = 4, march = 64;
    const int pitch = columns + 2 * margin;
    const int64_t origin = int64_t{halo} * pitch + margin;  // the argument points here
    Array& in = k.array("in", 0, 4, int64_t{rows + 2 * halo} * pitch);
    Loads& column = in.loads({62});
    Loads& ahead = in.loads({67});
    Loads& beside = in.loads({71});
    k.run({columns / 256, rows / march}, {256}, [&](Dim block, Dim thread) {
        const int x = block.x * 256 + thread.x;
        int64_t at = origin + int64_t{block.y * march} * pitch + x;
        for (int i = 0; i < 8; ++i) column.at(at + (i - 4) * pitch);
        for (int j = 0; j < march; ++j) {
            ahead.at(at + 4 * pitch);
            for (int i = 1; i <= 4; ++i) beside.at(at + i), beside.at(at - i);
            at += pitch;
        }
    });
}

void stencil2d_tiles_24(Kernel& k) {
    k.describe(FAMILY "stencil2d/profiles/star2_tiles_f32.tiles_24" PACKED, 0, "smooth_tile<24>",
               "tiles of 128 x 24 points with a rim of two, one row per warp and turn; the last "
               "row of tiles is 16 high");
    const int rows = 4096, columns = 6144, margin = 32, halo = 4, height = 24, reach = 2;
    const int pitch = columns + 2 * margin, tile_pitch = 128 + 2 * reach;
    const int64_t origin = int64_t{halo} * pitch + margin;  // the argument points here
    Loads& in = k.array("in", 0, 4, int64_t{rows + 2 * halo} * pitch).loads({244});
    k.run({columns / 128, (rows + height - 1) / height}, {256}, [&](Dim block, Dim thread) {
        const int left = block.x * 128, top = block.y * height;
        const int here = std::min(height, rows - top);
        const int lane = thread.x % 32;
        for (int j = thread.x / 32; j < here + 2 * reach; j += 8) {
            const int64_t from = origin + (top + j - reach) * pitch + left - reach;
            for (int i = lane; i < tile_pitch; i += 32) in.at(from + i);
        }
    });
}

void gemv_rows(Kernel& k) {
    k.describe(FAMILY "gemv/profiles/f32_short_rows.four_block_256" PACKED, 0,
               "rows_times<4, 8, 1>",
               "float4 of a row of a per warp, and the same columns of four vectors x");
    const int rows = 262144, columns = 128;
    Loads& a = k.array("a", 0, 16, int64_t{rows} * columns / 4).loads({41});
    Loads& x = k.array("x", 1, 16, 4 * columns / 4).loads({44});
    k.run({(rows + 7) / 8}, {256}, [&](Dim block, Dim thread) {
        const int row = block.x * 8 + thread.x / 32, lane = thread.x % 32;
        if (row >= rows) return;
        const int64_t line = int64_t{row} * columns;
        for (int c = 4 * lane; c < columns; c += 128) {
            a.at((line + c) / 4);
            for (int v = 0; v < 4; ++v) x.at((v * columns + c) / 4);
        }
    });
}

void gemv_columns(Kernel& k) {
    k.describe(FAMILY "gemv/profiles/f32_columns.column_slices" PACKED, 0, "columns_times",
               "a[row * columns + column] and r[row] for the 128 rows of slice blockIdx.y, one "
               "column per thread");
    const int rows = 8192, columns = 4096, slices = 64;
    Loads& a = k.array("a", 0, 4, int64_t{rows} * columns).loads({63});
    Loads& r = k.array("r", 1, 4, rows).loads({63});
    k.run({columns / 256, slices}, {256}, [&](Dim block, Dim thread) {
        const int column = block.x * 256 + thread.x;
        if (column >= columns) return;
        const int count = rows / slices, first = block.y * count;
        for (int row = first; row < first + count; ++row) {
            a.at(int64_t{row} * columns + column);
            r.at(row);
        }
    });
}

void gemm_one_buffer(Kernel& k) {
    k.describe(FAMILY "gemm_f32/profiles/m1408_n1536.one_buffer" PACKED, 0, "gemm_one_buffer",
               "float4 of 128 x 8 of a (rows by blockIdx.y) and 8 x 128 of b (columns by "
               "blockIdx.x) per step");
    const int m = 1408, n = 1536, depth = 2048;
    Loads& a = k.array("a", 0, 16, int64_t{m} * depth / 4).loads({184});
    Loads& b = k.array("b", 1, 16, int64_t{depth} * n / 4).loads({190});
    k.run({n / 128, m / 128}, {256}, [&](Dim block, Dim thread) {
        const int t = thread.x;
        const int64_t of_a = int64_t{block.y} * 128 * depth, of_b = block.x * 128;
        for (int at = 0; at < depth; at += 8) {
            a.at((of_a + int64_t{t / 2} * depth + at + 4 * (t % 2)) / 4);
            b.at((of_b + int64_t{at + t / 32} * n + 4 * (t % 32)) / 4);
        }
    });
}

void gemm_split_k(Kernel& k) {
    k.describe(FAMILY "gemm_f32/profiles/deep_512.split_k" PACKED, 0,
               "gemm_prefetch<128, 128, 8, 8, 0>",
               "float4 of 128 x 8 of a and 8 x 128 of b per step, the slice of the depth by "
               "blockIdx.z; the first step before the loop, in the loop always the next");
    const int size = 512, depth = 8192, slices = 16;
    Loads& a = k.array("a", 0, 16, int64_t{size} * depth / 4).loads({37});
    Loads& b = k.array("b", 1, 16, int64_t{depth} * size / 4).loads({42});
    k.run({size / 128, size / 128, slices}, {256}, [&](Dim block, Dim thread) {
        const int count = depth / slices;
        const int64_t of_a = int64_t{block.y} * 128 * depth + int64_t{block.z} * count;
        const int64_t of_b = int64_t{block.z} * count * size + block.x * 128;
        const auto fetch = [&](int at) {
            const int t = thread.x;
            a.at((of_a + int64_t{t / 2} * depth + at + 4 * (t % 2)) / 4);
            b.at((of_b + int64_t{at + t / 32} * size + 4 * (t % 32)) / 4);
        };
        fetch(0);
        for (int at = 0; at < count; at += 8) {
            if (at + 8 < count) fetch(at + 8);
        }
    });
}

void gemm_nt_single(Kernel& k) {
    k.describe(FAMILY "gemm_f32/profiles/nt_1024.nt_single" PACKED, 0, "gemm_nt_single<0>",
               "a[row * k + at + tx] and b[(32 * blockIdx.x + ty) * k + at + tx], one result per "
               "thread");
    const int m = 1024, n = 2048, depth = 512;
    Loads& a = k.array("a", 0, 4, int64_t{m} * depth).loads({110});
    Loads& b = k.array("b", 1, 4, int64_t{n} * depth).loads({111});
    k.run({n / 32, m / 32}, {32, 32}, [&](Dim block, Dim thread) {
        const int row = block.y * 32 + thread.y;
        for (int at = 0; at < depth; at += 32) {
            a.at(int64_t{row} * depth + at + thread.x);
            b.at(int64_t{block.x * 32 + thread.y} * depth + at + thread.x);
        }
    });
}

void batched_gemm(Kernel& k) {
    k.describe(FAMILY "batched_gemm/profiles/f32_16.most16" PACKED, 0, "multiply_up_to<16>",
               "float4 of matrix blockIdx.x of a and of b, both 16 x 16; 64 threads per matrix");
    const int count = 65536, n = 16;
    Loads& a = k.array("a", 0, 16, int64_t{count} * n * n / 4).loads({26});
    Loads& b = k.array("b", 1, 16, int64_t{count} * n * n / 4).loads({28});
    k.run({count}, {64}, [&](Dim block, Dim thread) {
        const int64_t start = int64_t{block.x} * n * n;
        const int quads = n / 4;
        for (int e = thread.x; e < n * quads; e += 64) {
            const int row = e / quads, column = 4 * (e % quads);
            a.at((start + row * n + column) / 4);
            b.at((start + row * n + column) / 4);
        }
    });
}

void transpose_tile_33(Kernel& k) {
    k.describe(FAMILY "transpose/profiles/f64_flat.tile_33" PACKED, 0, "flip_tile<double, 1>",
               "in[y * columns + x] of double in 32 x 32 tiles, four rows per thread, where "
               "x < columns and y < rows; 96 x 87040");
    const int rows = 96, columns = 87040;
    Loads& in = k.array("in", 0, 8, int64_t{rows} * columns).loads({24});
    k.run({(columns + 31) / 32, (rows + 31) / 32}, {32, 8}, [&](Dim block, Dim thread) {
        const int x = block.x * 32 + thread.x;
        for (int j = thread.y; j < 32; j += 8) {
            const int y = block.y * 32 + j;
            if (x < columns && y < rows) in.at(int64_t{y} * columns + x);
        }
    });
}

void permute_divided(Kernel& k) {
    k.describe(FAMILY "permute_nd/profiles/half_heads.divided" PACKED, 0,
               "permute_by_division<__half, unsigned int>",
               "in[offset of i], the five coordinates of i by division and remainder");
    const unsigned size[5] = {24, 36, 20, 30, 64}, from[5] = {0, 3, 1, 2, 4};
    unsigned in_stride[5], step = 1;
    for (int axis = 4; axis >= 0; --axis) {
        in_stride[axis] = step;
        step *= size[axis];
    }
    const unsigned count = step;
    Loads& in = k.array("in", 0, 2, count).loads({99});
    k.run({static_cast<int>((count + 255) / 256)}, {256}, [&](Dim block, Dim thread) {
        unsigned i = block.x * 256 + thread.x;
        if (i >= count) return;
        unsigned offset = 0;
        for (int axis = 4; axis > 0; --axis) {
            const unsigned next = i / size[from[axis]];
            offset += (i - next * size[from[axis]]) * in_stride[from[axis]];
            i = next;
        }
        in.at(offset + i * in_stride[from[0]]);
    });
}
