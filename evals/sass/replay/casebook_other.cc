// Kernels of the casebook (work families only): maps, reductions, all pairs, gathers, Triton.
// Numbers passed to `loads` are source lines, as in the line table of the report.
#include <algorithm>

#include "random.h"
#include "replay.h"

#define FAMILY "kernels_samples/casebook/families/"
#define PACKED ".keet.json.zst"

void host_stream_rows(Kernel& k) {
    k.describe(FAMILY "host_stream/profiles/frames.copied_rows" PACKED, 0, "correct_copied_by_row",
               "1024 offsets per block, and in[first + i] for 16 neighbouring columns i of one of "
               "four rows per thread");
    const int rows = 4096, columns = 8192, wide = 1024;
    Loads& in = k.array("in", 0, 4, int64_t{rows} * columns).loads({120});
    Loads& offset = k.array("offset", 1, 4, columns).loads({116});
    k.run({columns / wide, rows / 4}, {256}, [&](Dim block, Dim thread) {
        for (int i = thread.x; i < wide; i += 256) offset.at(block.x * wide + i);
        const int row = thread.x % 4, column = thread.x / 4 * 16;
        const int64_t first = (int64_t{block.y} * 4 + row) * columns + block.x * wide;
        for (int i = column; i < column + 16; ++i) in.at(first + i);
    });
}

void quant_dequant_flat(Kernel& k) {
    k.describe(FAMILY "quant_elementwise/profiles/dequant_i8_f16.eight_codes_flat" PACKED, 0,
               "dequant_flat", "codes[i] of eight bytes, scale[i / groups % rows]");
    const unsigned rows = 4096, groups = 16384 / 8;
    Loads& codes = k.array("codes", 0, 8, int64_t{rows} * groups).loads({88});
    Loads& scale = k.array("scale", 1, 4, rows).loads({89});
    k.run({static_cast<int>(rows * (groups / 256))}, {256}, [&](Dim block, Dim thread) {
        const unsigned i = block.x * 256 + thread.x;
        codes.at(i);
        scale.at(i / groups % rows);
    });
}

void bit_unpack_each(Kernel& k) {
    k.describe(FAMILY "bit_unpack/profiles/weights.each_by_group" PACKED, 0,
               "weights_each_by_group",
               "nibbles[i / 2] of one byte and scales[i / 128] of half, one i per thread");
    const int64_t count = int64_t{48} << 20, group = 128;
    Loads& nibbles = k.array("nibbles", 0, 1, count / 2).loads({106});
    Loads& scales = k.array("scales", 1, 2, count / group).loads({107});
    k.run({static_cast<int>((count + 255) / 256)}, {256}, [&](Dim block, Dim thread) {
        const int64_t i = int64_t{block.x} * 256 + thread.x;
        if (i >= count) return;
        nibbles.at(i / 2);
        scales.at(i / group);
    });
}

void layernorm_halves(Kernel& k) {
    k.describe(FAMILY "layernorm/profiles/f32_16384.sum_by_halves" PACKED, 0, "norm_by_halves",
               "eight float4 of a row of x per thread, 512 apart, and the same columns of gamma "
               "and beta");
    const int rows = 1584, quads = 16384 / 4;
    Loads& x = k.array("x", 0, 16, int64_t{rows} * quads).loads({476});
    Loads& gamma = k.array("gamma", 1, 16, quads).loads({488});
    Loads& beta = k.array("beta", 2, 16, quads).loads({488});
    k.run({rows}, {512}, [&](Dim block, Dim thread) {
        const int64_t first = int64_t{block.x} * quads + thread.x;
        for (int i = 0; i < quads / 512; ++i) x.at(first + 512 * i);
        for (int i = 0; i < quads / 512; ++i) {
            gamma.at(thread.x + 512 * i);
            beta.at(thread.x + 512 * i);
        }
    });
}

void heat_in_turn(Kernel& k) {
    k.describe(FAMILY "heat_steps/profiles/long_rod.in_turn" PACKED, 0, "heat_in_turn<float>",
               "from[1008 * blockIdx.x + threadIdx.x - 8] where it lies on the rod: blocks of 1024 "
               "points that overlap by 16");
    const int n = 12582912, kept = 1024 - 16;
    Loads& from = k.array("from", 0, 4, n).loads({175});
    k.run({(n + kept - 1) / kept}, {1024}, [&](Dim block, Dim thread) {
        const int i = block.x * kept + thread.x - 8;
        if (i >= 0 && i < n) from.at(i);
    });
}

void nbody_untiled(Kernel& k) {
    k.describe(FAMILY "nbody/profiles/field_270k.untiled" PACKED, 0, "field_untiled",
               "at[min(i, targets - 1)] and every source[j], by every thread");
    const int targets = 132 * 2048, sources = 2048;
    Loads& at = k.array("at", 0, 16, targets).loads({95});
    Loads& source = k.array("source", 1, 16, sources).loads({99});
    k.run({(targets + 255) / 256}, {256}, [&](Dim block, Dim thread) {
        const int i = block.x * 256 + thread.x;
        at.at(std::min(i, targets - 1));
        for (int j = 0; j < sources; ++j) source.at(j);
    });
}

// Column of entry `entry` of a row, or -1 in the last entry of a row that is one short.
int sparse_column(int row, int entry, int rows, int width, int reach) {
    if (entry == width - 1 && casebook_uniform(71, row) < 0.05) return -1;
    const double u = casebook_uniform(72 + entry, row / 16) - 0.5;
    const int c = row + static_cast<int>(u * reach);
    return c < 0 ? c + rows : c >= rows ? c - rows : c;
}

void spmv_sentinel_each(Kernel& k) {
    k.describe(FAMILY "spmv_ell/profiles/few_long_rows.sentinel_each" PACKED, 0,
               "ell_sentinel_each<float>",
               "four passes over column[k * rows + row] up to the first negative one, value at the "
               "same place, x[side * rows + c], with the program's random columns");
    const int rows = 65536, width = 256, sides = 4;
    Loads& column = k.array("column", 0, 4, int64_t{rows} * width).loads({161});
    Loads& value = k.array("value", 1, 4, int64_t{rows} * width).loads({163});
    Loads& x = k.array("x", 2, 4, int64_t{rows} * sides).loads({163});
    std::vector<int> columns(int64_t{rows} * width);
    for (int entry = 0; entry < width; ++entry) {
        for (int row = 0; row < rows; ++row) {
            columns[int64_t{entry} * rows + row] = sparse_column(row, entry, rows, width, 8192);
        }
    }
    k.run({(rows + 127) / 128}, {128}, [&](Dim block, Dim thread) {
        const int row = block.x * 128 + thread.x;
        if (row >= rows) return;
        for (int side = 0; side < sides; ++side) {
            for (int entry = 0; entry < width; ++entry) {
                const int64_t at = int64_t{entry} * rows + row;
                column.at(at);
                if (columns[at] < 0) break;
                value.at(at);
                x.at(side * int64_t{rows} + columns[at]);
            }
        }
    });
}

void embedding_columns(Kernel& k) {
    k.describe(FAMILY "embedding_bag/profiles/f16_bags_of_32.columns" PACKED, 0, "sum_columns",
               "index[32 * blockIdx.x + k] by every thread, table[index * 128 + threadIdx.x] of "
               "half, with the program's random index");
    const int rows = 327680, bags = 20480, each = 32;
    Loads& table = k.array("table", 0, 2, int64_t{rows} * 128).loads({101});
    Loads& index = k.array("index", 1, 4, int64_t{bags} * each).loads({101});
    std::vector<int> row(int64_t{bags} * each);
    for (size_t i = 0; i < row.size(); ++i) {
        row[i] = static_cast<int>(rows * casebook_uniform(2, i));
    }
    k.run({bags}, {128}, [&](Dim block, Dim thread) {
        for (int i = 0; i < each; ++i) {
            index.at(block.x * each + i);
            table.at(int64_t{row[block.x * each + i]} * 128 + thread.x);
        }
    });
}

void gather_pixels(Kernel& k) {
    k.describe(FAMILY "gather_scatter/profiles/layer_64.pixels" PACKED, 0, "layer_of_pixels",
               "two of the three words of pixel[i] in a grid-stride loop, four pixels per turn, "
               "and colour[pixel[i].colour] with the program's random colours");
    const int blocks = 132 * 6, size = 64;
    const int64_t count = int64_t{blocks} * 4 * 256 * 13;
    Array& pixel = k.array("pixel", 0, 4, count * 3);
    Loads& colours = pixel.loads({393});
    Loads& cover = pixel.loads({394});
    Loads& colour = k.array("colour", 1, 4, size).loads({397});
    k.run({blocks}, {256}, [&](Dim block, Dim thread) {
        const int64_t step = int64_t{blocks} * 4 * 256;
        for (int64_t i = block.x * int64_t{4 * 256} + thread.x; i < count; i += step) {
            for (int n = 0; n < 4; ++n) {
                const int64_t at = i + n * 256;
                colours.at(3 * at);
                cover.at(3 * at + 1);
                colour.at(static_cast<int>(size * casebook_uniform(66, at)));
            }
        }
    });
}

// Triton spreads the items of a load over the threads of the program. The replay goes through the
// items of each program instead: with the layouts of these two kernels, each belongs to one thread.
template <class Body>
void run_programs(Kernel& k, int programs, int threads, int items, Body body) {
    k.run({programs}, {threads}, [&](Dim program, Dim thread) {
        for (int i = thread.x; i < items; i += threads) body(program.x, i);
    });
}

void triton_softmax_short(Kernel& k) {
    k.describe(FAMILY "triton_softmax/profiles/short_f32.one_warp" PACKED, 0, "softmax_rows",
               "scores[program * width + column] for the columns below width, one row per program");
    const int rows = 32768, width = 1024, block = 1024;
    Loads& scores = k.array("scores", 0, 4, int64_t{rows} * width).loads({30});
    run_programs(k, rows, 32, block, [&](int program, int column) {
        if (column < width) scores.at(int64_t{program} * width + column);
    });
}

void triton_gather_sums(Kernel& k) {
    k.describe(FAMILY "triton_gather/profiles/bags_f32.columns_then_sums" PACKED, 1,
               "add_picked_columns",
               "picked[(bag * 8 + j) * 128 + column] for j from 0 to 7: 256 bags and one column "
               "per program");
    const int bags = 16384, size = 8, width = 128, block = 256;
    Loads& picked = k.array("picked", 0, 4, int64_t{bags} * size * width).loads({112});
    run_programs(k, bags / block * width, 128, block, [&](int program, int item) {
        const int column = program % width;
        const int64_t bag = program / width * block + item;
        for (int j = 0; j < size; ++j) picked.at((bag * size + j) * width + column);
    });
}
