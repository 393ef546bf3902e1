// Samples with neighbourhoods (stencils, filters), tiles or all pairs.
// Numbers passed to `loads` are source lines, as in the line table of the report.
#include <algorithm>

#include "replay.h"

void stencil_march_slow(Kernel& k) {
    k.describe("kernels_samples/stencil_march/slow.ncu-repz", 0, "advance",
               "25 points of a 3D star of radius 4 with every coordinate clamped to the grid, and "
               "current, previous, courant at the point itself; 24 planes per block");
    const int nx = 512, ny = 512, nz = 96, radius = 4;
    const auto index_of = [&](int x, int y, int z) { return int64_t{z * ny + y} * nx + x; };
    Array& current = k.array("current", 0, 4, int64_t{nx} * ny * nz);
    Loads& star = current.loads({19});
    Loads& centre = current.loads({41});
    Loads& previous = k.array("previous", 1, 4, int64_t{nx} * ny * nz).loads({41});
    Loads& courant = k.array("courant", 2, 4, int64_t{nx} * ny * nz).loads({42});
    const auto at = [&](int x, int y, int z) {
        x = std::min(std::max(x, 0), nx - 1);
        y = std::min(std::max(y, 0), ny - 1);
        z = std::min(std::max(z, 0), nz - 1);
        star.at(index_of(x, y, z));
    };
    k.run({nx / 32, ny / 16, (nz + 23) / 24}, {32, 16}, [&](Dim block, Dim thread) {
        const int x = block.x * 32 + thread.x;
        const int y = block.y * 16 + thread.y;
        const int end = std::min((block.z + 1) * 24, nz);
        for (int z = block.z * 24; z < end; ++z) {
            const int64_t here = index_of(x, y, z);
            centre.at(here);
            previous.at(here);
            courant.at(here);
            at(x, y, z);
            for (int r = 1; r <= radius; ++r) {
                at(x - r, y, z), at(x + r, y, z);
                at(x, y - r, z), at(x, y + r, z);
                at(x, y, z - r), at(x, y, z + r);
            }
        }
    });
}

// Item of the pair in the rim of a 64 x 16 tile that a thread loads, or -1 where it has none.
int rim_offset(Dim block, Dim thread, int nx, int ny) {
    const int radius = 4, tile_x = 64, tile_y = 16;
    const int number = thread.y * 32 + thread.x;
    const int above_and_below = 2 * radius * 32, beside = radius * tile_y;
    if (number >= above_and_below + beside) return -1;
    int row, column;
    if (number < above_and_below) {
        row = number / 32 + (number / 32 < radius ? 0 : tile_y);
        column = radius + number % 32 * 2;
    } else {
        const int place = number - above_and_below;
        row = radius + place / radius;
        column = place % radius * 2 + (place % radius < radius / 2 ? 0 : tile_x);
    }
    const int x = block.x * tile_x + column - radius, y = block.y * tile_y + row - radius;
    return std::min(std::max(y, 0), ny - 1) * nx + std::min(std::max(x, 0), nx - 2);
}

void stencil_march_fast(Kernel& k) {
    k.describe("kernels_samples/stencil_march/fast.ncu-repz", 0, "advance",
               "pairs of floats: the first five planes of the column (its clamped planes are one "
               "load), then per plane the next plane ahead, previous, courant and the tile's rim, "
               "each clamped at the end");
    const int nx = 512, ny = 512, nz = 96, radius = 4, plane = nx * ny;
    Array& current = k.array("current", 0, 4, int64_t{plane} * nz);
    Loads& column = current.loads({90});
    Loads& next_ahead = current.loads({107});
    Loads& rim = current.loads({46});
    Array& previous = k.array("previous", 1, 4, int64_t{plane} * nz);
    Loads& before = previous.loads({92});
    Loads& next_before = previous.loads({108});
    Array& courant = k.array("courant", 2, 4, int64_t{plane} * nz);
    Loads& factor = courant.loads({92});
    Loads& next_factor = courant.loads({109});
    k.run({nx / 64, ny / 16}, {32, 16}, [&](Dim block, Dim thread) {
        const int offset = rim_offset(block, thread, nx, ny);
        int here = (block.y * 16 + thread.y) * nx + block.x * 64 + thread.x * 2;
        for (int i = radius; i <= 2 * radius; ++i) {
            column.at(here + std::min(i - radius, nz - 1) * plane, 2);
        }
        before.at(here, 2);
        factor.at(here, 2);
        if (offset >= 0) rim.at(offset, 2);
        int ahead = here + std::min(radius, nz - 1) * plane;
        int plane_start = 0;
        for (int z = 0; z < nz; ++z) {
            if (z + radius + 1 < nz) ahead += plane;
            const int step = z + 1 < nz ? plane : 0;
            plane_start += step;
            next_ahead.at(ahead, 2);
            next_before.at(here + step, 2);
            next_factor.at(here + step, 2);
            if (offset >= 0) rim.at(plane_start + offset, 2);
            here += step;
        }
    });
}

void tap_filter_slow(Kernel& k) {
    k.describe("kernels_samples/tap_filter/slow.ncu-repz", 0, "filter",
               "taps[k], k from threadIdx.x to 127; in[256 * blockIdx.x + s], s from threadIdx.x "
               "to 382 in steps of 256, where the sample exists");
    const int taps_count = 128, tile = 256 + taps_count - 1, count = 1 << 24;
    Loads& taps = k.array("taps", 0, 4, taps_count).loads({10});
    Loads& in = k.array("in", 1, 4, count + taps_count - 1).loads({12});
    k.run({(count + 255) / 256}, {256}, [&](Dim block, Dim thread) {
        const int first = block.x * 256;
        for (int i = thread.x; i < taps_count; i += 256) taps.at(i);
        for (int s = thread.x; s < tile; s += 256) {
            if (first + s < count + taps_count - 1) in.at(first + s);
        }
    });
}

void tile_smooth_slow(Kernel& k) {
    k.describe("kernels_samples/tile_smooth/slow.ncu-repz", 0, "blur",
               "image[(y + row) * pitch + x + dx] for row, dx from 0 to 8, one pixel per thread");
    const int size = 4096, taps = 9, pitch = size + 8, rows = size + 8 + 64;
    Loads& image = k.array("image", 1, 4, int64_t{rows} * pitch).loads({34});
    k.run({size / 32, size / 8}, {32, 8}, [&](Dim block, Dim thread) {
        const int x = block.x * 32 + thread.x;
        const int y = block.y * 8 + thread.y;
        if (y >= size) return;
        const int corner = y * pitch + x;
        for (int row = 0; row < taps; ++row) {
            for (int dx = 0; dx < taps; ++dx) image.at(corner + row * pitch + dx);
        }
    });
}

void score_tiles_slow(Kernel& k) {
    k.describe("kernels_samples/score_tiles/slow.ncu-repz", 0, "score",
               "float4 of 128 x 16 tiles of queries (rows by blockIdx.y) and of items (rows by "
               "blockIdx.x), 64 steps along the vectors");
    const int vectors = 4096, length = 1024, tile = 128, depth = 16;
    Loads& queries = k.array("queries", 0, 16, int64_t{vectors} * length / 4).loads({17});
    Loads& items = k.array("items", 1, 16, int64_t{vectors} * length / 4).loads({17});
    const auto load_tile = [&](Loads& loads, int64_t from, int number) {
        const int chunks = depth / 4, chunk = number % chunks;
        for (int pass = 0; pass < tile * chunks / 256; ++pass) {
            const int row = number / chunks + pass * (256 / chunks);
            loads.at((from + int64_t{row} * length + chunk * 4) / 4);
        }
    };
    k.run({vectors / tile, vectors / tile}, {256}, [&](Dim block, Dim thread) {
        for (int first = 0; first < length; first += depth) {
            load_tile(queries, int64_t{block.y * tile} * length + first, thread.x);
            load_tile(items, int64_t{block.x * tile} * length + first, thread.x);
        }
    });
}

void half_dense_slow(Kernel& k) {
    k.describe("kernels_samples/half_dense/slow.ncu-repz", 0, "product",
               "16 bytes of half per thread and step: 128 rows of a by blockIdx.y, 128 columns of "
               "b by blockIdx.x; the first step before the loop, in the loop always the next");
    const int rows = 4096, columns = 4096, depth = 2048, tile = 128, step_depth = 16;
    Array& a = k.array("a", 0, 16, int64_t{rows} * depth / 8);
    Loads& first_a = a.loads({58});
    Loads& more_a = a.loads({68});
    Array& b = k.array("b", 1, 16, int64_t{depth} * columns / 8);
    Loads& first_b = b.loads({59});
    Loads& more_b = b.loads({69});
    k.run({columns / tile, rows / tile}, {256}, [&](Dim block, Dim thread) {
        int64_t next_a = int64_t{block.y * tile + thread.x / 2} * depth + thread.x % 2 * 8;
        int64_t next_b = int64_t{thread.x / 16} * columns + block.x * tile + thread.x % 16 * 8;
        first_a.at(next_a / 8);
        first_b.at(next_b / 8);
        const int steps = depth / step_depth;
        for (int step = 0; step < steps; ++step) {
            if (step + 1 < steps) {
                next_a += step_depth;
                next_b += int64_t{step_depth} * columns;
                more_a.at(next_a / 8);
                more_b.at(next_b / 8);
            }
        }
    });
}

void panel_product_slow(Kernel& k) {
    k.describe("kernels_samples/panel_product/slow.ncu-repz", 0, "dense_layer",
               "asynchronous copies of 16 bytes of bfloat16: 128 lines of x by blockIdx.x and 256 "
               "lines of weights by blockIdx.y per step of 64; pairs of bias at the end");
    const int rows = 4096, columns = 8192, depth = 2048, step = 64;
    Loads& x = k.array("x", 0, 16, int64_t{rows} * depth / 8).loads({81});
    Loads& weights = k.array("weights", 1, 16, int64_t{columns} * depth / 8).loads({81});
    Loads& bias = k.array("bias", 2, 8, columns / 2).loads({122});
    k.run({rows / 128, columns / 256}, {256}, [&](Dim block, Dim thread) {
        const auto load_lines = [&](Loads& loads, int64_t from, int lines) {
            const int first = thread.x / 8, chunk = thread.x % 8;
            from += int64_t{first} * depth + chunk * 8;
            for (int line = 0; line < lines; line += 32) {
                loads.at((from + int64_t{line} * depth) / 8);
            }
        };
        for (int at = 0; at < depth; at += step) {
            load_lines(x, int64_t{block.x * 128} * depth + at, 128);
            load_lines(weights, int64_t{block.y * 256} * depth + at, 256);
        }
        const int warp = thread.x / 32, lane = thread.x % 32;
        const int first = block.y * 256 + warp % 4 * 64;
        for (int j = 0; j < 8; ++j) bias.at((first + j * 8 + lane % 4 * 2) / 2);
    });
}

void orbit_forces_slow(Kernel& k) {
    k.describe("kernels_samples/orbit_forces/slow.ncu-repz", 0, "pull_of_share",
               "float4 of bodies: the thread's own two, and tiles of 128 sources of the share "
               "blockIdx.y");
    const int count = 32768, shares = 32;
    Array& bodies = k.array("bodies", 0, 16, count);
    Loads& own = bodies.loads({33});
    Loads& source = bodies.loads({11});
    k.run({count / 256, shares}, {128}, [&](Dim block, Dim thread) {
        const int first = block.x * 128 * 2 + thread.x;
        for (int b = 0; b < 2; ++b) own.at(first + b * 128);
        const int sources = count / shares;
        const int begin = block.y * sources;
        for (int start = begin; start < begin + sources; start += 128) source.at(start + thread.x);
    });
}
