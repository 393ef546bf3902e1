// Samples that stream, reduce or transpose, and samples whose addresses depend on their data.
// Numbers passed to `loads` are source lines, as in the line table of the report.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "random.h"
#include "replay.h"

void matrix_flip_slow(Kernel& k) {
    k.describe("kernels_samples/matrix_flip/slow.ncu-rep", 0, "flip",
               "in[y * n + x] where x, y < n; n = 8192");
    const int n = 8192;
    Loads& in = k.array("in", 0, 4, int64_t{n} * n).loads({7});
    k.run({n / 32, n / 8}, {32, 8}, [&](Dim block, Dim thread) {
        const int x = block.x * 32 + thread.x;
        const int y = block.y * 8 + thread.y;
        if (x < n && y < n) in.at(y * n + x);
    });
}

void fan_update_slow(Kernel& k) {
    k.describe("kernels_samples/fan_update/slow.ncu-repz", 0, "fan_update",
               "a[row * n + column], a[row * n + k], a[k * n + column] where k < row, column < n; "
               "n = 2048, k = 0");
    const int n = 2048, pivot = 0;
    Loads& a = k.array("a", 0, 4, int64_t{n} * n).loads({17});
    k.run({n / 32, n / 8}, {32, 8}, [&](Dim block, Dim thread) {
        const int row = block.x * 32 + thread.x;
        const int column = block.y * 8 + thread.y;
        if (row > pivot && column > pivot && row < n && column < n) {
            a.at(row * n + column);
            a.at(row * n + pivot);
            a.at(pivot * n + column);
        }
    });
}

void field_axpy_slow(Kernel& k) {
    k.describe("kernels_samples/field_axpy/slow.ncu-repz", 0, "advance",
               "field[i], rate[i], rate_before[i] of float4, one i per thread where i < count");
    const int count = (40 << 20) / 4;
    Loads& field = k.array("field", 0, 16, count).loads({16});
    Loads& rate = k.array("rate", 1, 16, count).loads({17});
    Loads& rate_before = k.array("rate_before", 2, 16, count).loads({18});
    k.run({(count + 255) / 256}, {256}, [&](Dim block, Dim thread) {
        const int i = block.x * 256 + thread.x;
        if (i >= count) return;
        field.at(i);
        rate.at(i);
        rate_before.at(i);
    });
}

void blend_frames_slow(Kernel& k) {
    k.describe("kernels_samples/blend_frames/slow.ncu-repz", 0, "blend",
               "16 loads of one byte, first[16 * i + c] and second[16 * i + c], where i < count");
    const int bytes = 8 * 1920 * 1080 * 4, count = bytes / 16;
    Loads& first = k.array("first", 0, 1, bytes).loads({13});
    Loads& second = k.array("second", 1, 1, bytes).loads({14});
    k.run({(count + 255) / 256}, {256}, [&](Dim block, Dim thread) {
        const int i = block.x * 256 + thread.x;
        if (i >= count) return;
        for (int c = 0; c < 16; ++c) first.at(i * 16 + c);
        for (int c = 0; c < 16; ++c) second.at(i * 16 + c);
    });
}

void row_norms_slow(Kernel& k) {
    k.describe("kernels_samples/row_norms/slow.ncu-repz", 0, "row_norms",
               "row_values[i] of float4, i from threadIdx.x in steps of 1024; one block per row");
    const int rows = 12, length = 4000000;
    Loads& values = k.array("values", 0, 16, int64_t{rows} * length / 4).loads({59});
    k.run({rows}, {1024}, [&](Dim block, Dim thread) {
        const int64_t row_values = int64_t{block.x} * length / 4;
        for (int i = thread.x; i < length / 4; i += 1024) values.at(row_values + i);
    });
}

void pair_reduce_fast(Kernel& k) {
    k.describe("kernels_samples/pair_reduce/fast.ncu-repz", 0, "dot",
               "left[i] and right[i] of float4 in a grid-stride loop, two vectors per turn, where "
               "i < count");
    const int blocks = 132 * 8, count = (64 << 20) / 4;
    Loads& left = k.array("left", 0, 16, count).loads({36});
    Loads& right = k.array("right", 1, 16, count).loads({37});
    k.run({blocks}, {256}, [&](Dim block, Dim thread) {
        const int first = block.x * (2 * 256) + thread.x;
        const int stride = blocks * (2 * 256);
        for (int begin = first; begin < count; begin += stride) {
            for (int v = 0; v < 2; ++v) {
                const int i = begin + v * 256;
                if (i < count) left.at(i);
                if (i < count) right.at(i);
            }
        }
    });
}

void row_layers_slow_normalise(Kernel& k) {
    k.describe("kernels_samples/row_layers/slow.ncu-repz", 1, "normalise",
               "in[4096 * blockIdx.x + c], scale[c], shift[c] of half, c = k * 256 + threadIdx.x; "
               "mean and variance of the row by every thread");
    const int rows = 24576, columns = 4096;
    Loads& in = k.array("in", 0, 2, int64_t{rows} * columns).loads({47});
    Loads& mean = k.array("mean", 1, 4, rows).loads({43});
    Loads& variance = k.array("variance", 2, 4, rows).loads({44});
    Loads& scale = k.array("scale", 3, 2, columns).loads({48});
    Loads& shift = k.array("shift", 4, 2, columns).loads({48});
    k.run({rows}, {256}, [&](Dim block, Dim thread) {
        const int64_t start = int64_t{columns} * block.x;
        mean.at(block.x);
        variance.at(block.x);
        for (int i = 0; i < columns / 256; ++i) {
            const int c = i * 256 + thread.x;
            in.at(start + c);
            scale.at(c);
            shift.at(c);
        }
    });
}

void scan_rows_slow(Kernel& k) {
    k.describe("kernels_samples/scan_rows/slow.ncu-repz", 0, "scan_rows",
               "in[row + column], the first stretch of 1024 columns before the loop, in the loop "
               "always the next one where it exists");
    const int rows = 4096, columns = 8192;
    Array& in = k.array("in", 0, 4, int64_t{rows} * columns);
    Loads& first = in.loads({41});
    Loads& coming = in.loads({45});
    k.run({rows}, {1024}, [&](Dim block, Dim thread) {
        const int64_t row = int64_t{block.x} * columns;
        int column = thread.x;
        if (column < columns) first.at(row + column);
        for (int start = 0; start < columns; start += 1024) {
            const int next = column + 1024;
            if (next < columns) coming.at(row + next);
            column = next;
        }
    });
}

void window_median_slow(Kernel& k) {
    k.describe("kernels_samples/window_median/slow.ncu-repz", 0, "window_median",
               "samples[t * sensors + sensor] of one byte: 63 frames, then for every later t the "
               "sample that leaves the window (t - 1) and the one that enters it (t + 62)");
    const int sensors = 512 * 512, frames = 256, window = 63;
    Array& samples = k.array("samples", 0, 1, int64_t{frames} * sensors);
    Loads& filling = samples.loads({17});
    Loads& leaving = samples.loads({23});
    Loads& entering = samples.loads({24});
    k.run({(sensors + 127) / 128}, {128}, [&](Dim block, Dim thread) {
        const int sensor = block.x * 128 + thread.x;
        if (sensor >= sensors) return;
        for (int t = 0; t < window; ++t) filling.at(t * sensors + sensor);
        for (int t = 0; t + window <= frames; ++t) {
            if (t > 0) {
                leaving.at((t - 1) * sensors + sensor);
                entering.at((t + window - 1) * sensors + sensor);
            }
        }
    });
}

void lookup_records_slow(Kernel& k) {
    k.describe("kernels_samples/lookup_records/slow.ncu-repz", 0, "observe",
               "star[i], then entry star[i] of eight arrays, with the program's random stars");
    const int stars = 1 << 22, queries = 1 << 24;
    SampleRandom random;
    random.skip(uint64_t{8} * stars);  // the eight arrays
    std::vector<int> star(queries);
    for (int& s : star) s = static_cast<int>(random.below(stars));

    std::vector<Loads*> fields;
    const char* names[] = {"x", "y", "z", "vx", "vy", "vz", "light", "trend"};
    const int lines[] = {8, 9, 10, 8, 9, 10, 11, 11};
    for (int f = 0; f < 8; ++f) {
        Array& field = k.array(std::string("catalogue.") + names[f], 0, 4, stars, 8 * f);
        fields.push_back(&field.loads({lines[f]}));
    }
    Loads& index = k.array("star", 1, 4, queries).loads({7});
    k.run({(queries + 255) / 256}, {256}, [&](Dim block, Dim thread) {
        const int i = block.x * 256 + thread.x;
        if (i >= queries) return;
        index.at(i);
        for (Loads* field : fields) field->at(star[i]);
    });
}

// The rows of the matrix: lengths of 16 to 64, and 96 long rows.
std::vector<int> sparse_row_starts(SampleRandom& random, int rows) {
    std::vector<int> lengths(rows);
    for (int& length : lengths) length = 16 + static_cast<int>(random.below(49));
    for (int rank = 1; rank <= 96; ++rank) {
        lengths[random.below(rows)] = static_cast<int>(600000 / std::pow(rank, 0.8));
    }
    std::vector<int> starts(rows + 1);
    std::partial_sum(lengths.begin(), lengths.end(), starts.begin() + 1);
    return starts;
}

void sparse_apply_slow(Kernel& k) {
    k.describe("kernels_samples/sparse_apply/slow.ncu-repz", 0, "apply_matrix",
               "row_start[row] and [row + 1], columns[k], values[k], x[columns[k]], k from "
               "row_start[row] + lane in steps of 32, with the program's random matrix");
    const int rows = 262144, x_size = 65536;
    SampleRandom random;
    const std::vector<int> row_start = sparse_row_starts(random, rows);
    const int nonzeros = row_start[rows];
    std::vector<int> column(nonzeros);
    for (int& c : column) c = static_cast<int>((random.bits() & 0xFFFFFFFF) % x_size);

    Array& starts = k.array("row_start", 0, 4, rows + 1);
    Loads& ends = starts.loads({21});
    Loads& begins = starts.loads({23});
    Loads& columns = k.array("columns", 1, 4, nonzeros).loads({24});
    Loads& values = k.array("values", 2, 4, nonzeros).loads({24});
    Loads& x = k.array("x", 3, 4, x_size).loads({24});
    k.run({rows / 8}, {256}, [&](Dim block, Dim thread) {
        const int row = block.x * 8 + thread.x / 32;
        const int lane = thread.x % 32;
        if (row >= rows) return;
        ends.at(row + 1);
        begins.at(row);
        for (int i = row_start[row] + lane; i < row_start[row + 1]; i += 32) {
            values.at(i);
            columns.at(i);
            x.at(column[i]);
        }
    });
}

void page_walk_slow(Kernel& k) {
    k.describe("kernels_samples/page_walk/slow.ncu-repz", 0, "sum_lists",
               "heads[blockIdx.x] by every lane, then word `lane` of each page of the list, with "
               "the program's random order of pages");
    const int lists = 32768, pages_per_list = 64, count = lists * pages_per_list;
    SampleRandom random;
    std::vector<int> places(count);
    std::iota(places.begin(), places.end(), 0);
    for (int i = count - 1; i > 0; --i) std::swap(places[i], places[random.below(i + 1)]);
    std::vector<int> next(count);
    for (int i = 0; i < count; ++i) {
        next[places[i]] = (i + 1) % pages_per_list == 0 ? -1 : places[i + 1];
    }

    Loads& heads = k.array("heads", 0, 4, lists).loads({21});
    Loads& pages = k.array("pages", 1, 4, int64_t{count} * 32).loads({7});
    k.run({lists}, {32}, [&](Dim block, Dim thread) {
        heads.at(block.x);
        for (int page = places[block.x * pages_per_list]; page >= 0; page = next[page]) {
            pages.at(int64_t{page} * 32 + thread.x);
        }
    });
}
