// Gathers from tables and scatters into arrays, through an index per item.
#include "../../harness/book.h"

constexpr int kFields = 8, kChannels = 4;

struct Records {
    size_t count, records;
    const int* index;
    const __half2* field;     // field f of record r at [f * records + r]
    const uint4* record;      // the same by records, two uint4 each
    const float* weight;      // channels x 16
    float* out;               // channels x count
};

struct Moves {
    size_t count;
    const int* target;
    const double* in;
    double* out;
    const int* stop;
};

struct Vectors {
    size_t count, rows;
    const int* index;
    const float4* host_row;   // four float4 a row, in memory of the host
    float4* device_row;       // room for a copy
    float* out;
};

struct Cells {
    int count, size;
    const int* key;
    const int* cell;          // ~cell: its value has to be solved for
    const float* table;
    float* out;
    int* rare;
    int* rare_count;
};

struct Palette {
    size_t count;
    int size;
    const int* index;
    const float* colour;
    float* out;
};

struct Pixel {
    int colour;
    float cover;
    int depth;
};

struct Layer {
    size_t count;
    int size;
    const Pixel* pixel;
    const int* index;         // the same: colours
    const float* cover;       // and covers, each by itself
    const float* colour;
    float* out;
};

//: shared
constexpr int kBlock = 256, kResident = 132 * 8;

__constant__ float channel_weight[kChannels * 16];

__device__ inline float weighted(__half2 values, const float* weight) {
    const float2 v = __half22float2(values);
    return v.x * weight[0] + v.y * weight[1];
}

__device__ inline __half2 pair_of(unsigned bits) { return *reinterpret_cast<const __half2*>(&bits); }

__device__ inline float weighted(uint4 low, uint4 high, const float* weight) {
    return weighted(pair_of(low.x), weight) + weighted(pair_of(low.y), weight + 2) +
           weighted(pair_of(low.z), weight + 4) + weighted(pair_of(low.w), weight + 6) +
           weighted(pair_of(high.x), weight + 8) + weighted(pair_of(high.y), weight + 10) +
           weighted(pair_of(high.z), weight + 12) + weighted(pair_of(high.w), weight + 14);
}
//: end

//: variant fields_each
__global__ void fields_by_channel(const int* __restrict__ index, const __half2* __restrict__ field,
                                  float* __restrict__ out,
                                  size_t count, size_t records) {
    const size_t first = blockIdx.x * size_t{kBlock} + threadIdx.x, step = size_t{gridDim.x} * kBlock;
    for (int channel = 0; channel < kChannels; ++channel) {
        for (size_t i = first; i < count; i += step) {
            const int r = index[i];
            float sum = 0;
#pragma unroll
            for (int f = 0; f < kFields; ++f) {
                sum += weighted(field[f * records + r], channel_weight + channel * 16 + 2 * f);
            }
            out[channel * count + i] = sum;
        }
    }
}

void fields_each(const Records& d) {
    fields_by_channel<<<kResident, kBlock>>>(d.index, d.field, d.out, d.count, d.records);
}
//: end

//: variant fields_once
__global__ void fields_all_channels(const int* __restrict__ index, const __half2* __restrict__ field,
                                    float* __restrict__ out,
                                    size_t count, size_t records) {
    const size_t first = blockIdx.x * size_t{kBlock} + threadIdx.x, step = size_t{gridDim.x} * kBlock;
    for (size_t i = first; i < count; i += step) {
        const int r = index[i];
        __half2 values[kFields];
#pragma unroll
        for (int f = 0; f < kFields; ++f) values[f] = field[f * records + r];
#pragma unroll
        for (int channel = 0; channel < kChannels; ++channel) {
            float sum = 0;
#pragma unroll
            for (int f = 0; f < kFields; ++f) {
                sum += weighted(values[f], channel_weight + channel * 16 + 2 * f);
            }
            out[channel * count + i] = sum;
        }
    }
}

void fields_once(const Records& d) {
    fields_all_channels<<<kResident, kBlock>>>(d.index, d.field, d.out, d.count, d.records);
}
//: end

//: variant records_each
__global__ void records_by_channel(const int* __restrict__ index, const uint4* __restrict__ record,
                                   float* __restrict__ out,
                                   size_t count) {
    const size_t first = blockIdx.x * size_t{kBlock} + threadIdx.x, step = size_t{gridDim.x} * kBlock;
    for (int channel = 0; channel < kChannels; ++channel) {
        for (size_t i = first; i < count; i += step) {
            const uint4* const r = record + 2 * size_t(index[i]);
            out[channel * count + i] = weighted(r[0], r[1], channel_weight + channel * 16);
        }
    }
}

void records_each(const Records& d) {
    records_by_channel<<<kResident, kBlock>>>(d.index, d.record, d.out, d.count);
}
//: end

//: variant records_once
__global__ void records_all_channels(const int* __restrict__ index, const uint4* __restrict__ record,
                                     float* __restrict__ out,
                                     size_t count) {
    const size_t first = blockIdx.x * size_t{kBlock} + threadIdx.x, step = size_t{gridDim.x} * kBlock;
    for (size_t i = first; i < count; i += step) {
        const uint4* const r = record + 2 * size_t(index[i]);
        const uint4 low = r[0], high = r[1];
#pragma unroll
        for (int channel = 0; channel < kChannels; ++channel) {
            out[channel * count + i] = weighted(low, high, channel_weight + channel * 16);
        }
    }
}

void records_once(const Records& d) {
    records_all_channels<<<kResident, kBlock>>>(d.index, d.record, d.out, d.count);
}
//: end

// --- out[target[i]] = in[i], which the host can stop

//: variant ask_each_item
__global__ void scatter_asking(const double* __restrict__ in, const int* __restrict__ target,
                               double* __restrict__ out, size_t count, const volatile int* stop) {
    const size_t first = blockIdx.x * size_t{4 * kBlock} + threadIdx.x;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const size_t i = first + k * kBlock;
        if (i < count && *stop == 0) out[target[i]] = in[i];
    }
}

void ask_each_item(const Moves& d) {
    scatter_asking<<<(d.count + 4 * kBlock - 1) / (4 * kBlock), kBlock>>>(d.in, d.target, d.out,
                                                                          d.count, d.stop);
}
//: end

//: variant ask_each_block
__global__ void scatter_in_blocks(const double* __restrict__ in, const int* __restrict__ target,
                                  double* __restrict__ out, size_t count, const volatile int* stop) {
    __shared__ int stopped;
    if (threadIdx.x == 0) stopped = *stop;
    __syncthreads();
    if (stopped) return;
    const size_t first = blockIdx.x * size_t{4 * kBlock} + threadIdx.x;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const size_t i = first + k * kBlock;
        if (i < count) out[target[i]] = in[i];
    }
}

void ask_each_block(const Moves& d) {
    scatter_in_blocks<<<(d.count + 4 * kBlock - 1) / (4 * kBlock), kBlock>>>(d.in, d.target, d.out,
                                                                             d.count, d.stop);
}
//: end

// --- sums over rows of a table that the host owns

//: shared
// Four neighbouring threads share a row.
__global__ void row_sums(const float4* __restrict__ row, const int* __restrict__ index,
                         float* __restrict__ out, size_t count) {
    const size_t thread = blockIdx.x * size_t{kBlock} + threadIdx.x;
    const size_t i = thread / 4;
    float sum = 0;
    if (i < count) {
        const float4 v = row[size_t(index[i]) * 4 + thread % 4];
        sum = v.x + v.y + v.z + v.w;
    }
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    sum += __shfl_xor_sync(0xffffffffu, sum, 2);
    if (i < count && thread % 4 == 0) out[i] = sum;
}
//: end

//: variant table_in_place
void table_in_place(const Vectors& d) {
    row_sums<<<(4 * d.count + kBlock - 1) / kBlock, kBlock>>>(d.host_row, d.index, d.out, d.count);
}
//: end

//: variant table_copied
void table_copied(const Vectors& d) {
    BOOK_CHECK(cudaMemcpyAsync(d.device_row, d.host_row, d.rows * 64, cudaMemcpyHostToDevice));
    row_sums<<<(4 * d.count + kBlock - 1) / kBlock, kBlock>>>(d.device_row, d.index, d.out, d.count);
}
//: end

// --- values of cells; a few have to be solved for

//: shared
constexpr int kOrder = 12, kSmallBlock = 128;

// The sum of the solution of a small dense system made of the cell's neighbourhood.
__device__ inline float solved(const float* __restrict__ table, int cell, int size) {
    float a[kOrder][kOrder], b[kOrder];
#pragma unroll
    for (int r = 0; r < kOrder; ++r) {
#pragma unroll
        for (int c = 0; c < kOrder; ++c) {
            a[r][c] = table[(cell + 17 * r + c) % size] + (r == c ? 14.f : 0.f);
        }
        b[r] = table[(cell + 300 + r) % size];
    }
#pragma unroll
    for (int k = 0; k < kOrder; ++k) {
        const float pivot = 1.f / a[k][k];
#pragma unroll
        for (int r = k + 1; r < kOrder; ++r) {
            const float factor = a[r][k] * pivot;
#pragma unroll
            for (int c = k + 1; c < kOrder; ++c) a[r][c] -= factor * a[k][c];
            b[r] -= factor * b[k];
        }
    }
    float sum = 0;
#pragma unroll
    for (int k = kOrder - 1; k >= 0; --k) {
        float x = b[k];
#pragma unroll
        for (int c = k + 1; c < kOrder; ++c) x -= a[k][c] * b[c];
        b[k] = x / a[k][k];
        sum += b[k];
    }
    return sum;
}
//: end

//: variant solve_inside
__global__ void cell_values(const int* __restrict__ key, const int* __restrict__ cells,
                            const float* __restrict__ table, float* __restrict__ out, int count,
                            int size) {
    const int i = blockIdx.x * kSmallBlock + threadIdx.x;
    if (i >= count) return;
    const int cell = cells[key[i]];
    out[i] = cell >= 0 ? table[cell] : solved(table, ~cell, size);
}

void solve_inside(const Cells& d) {
    cell_values<<<(d.count + kSmallBlock - 1) / kSmallBlock, kSmallBlock>>>(d.key, d.cell, d.table, d.out,
                                                                            d.count, d.size);
}
//: end

//: variant solve_apart
__global__ void cell_values_known(const int* __restrict__ key, const int* __restrict__ cells,
                                  const float* __restrict__ table, float* __restrict__ out, int count,
                                  int* rare, int* rare_count) {
    const int i = blockIdx.x * kSmallBlock + threadIdx.x;
    if (i >= count) return;
    const int cell = cells[key[i]];
    if (cell >= 0) {
        out[i] = table[cell];
    } else {
        rare[atomicAdd(rare_count, 1)] = i;
    }
}

__global__ void cell_values_solved(const int* __restrict__ key, const int* __restrict__ cells,
                                   const float* __restrict__ table, float* __restrict__ out,
                                   const int* __restrict__ rare, const int* __restrict__ rare_count,
                                   int size) {
    for (int at = blockIdx.x * blockDim.x + threadIdx.x; at < *rare_count;
         at += gridDim.x * blockDim.x) {
        const int i = rare[at];
        out[i] = solved(table, ~cells[key[i]], size);
    }
}

void solve_apart(const Cells& d) {
    cell_values_known<<<(d.count + kSmallBlock - 1) / kSmallBlock, kSmallBlock>>>(
        d.key, d.cell, d.table, d.out, d.count, d.rare, d.rare_count);
    cell_values_solved<<<264, 32>>>(d.key, d.cell, d.table, d.out, d.rare, d.rare_count, d.size);
}
//: end

// --- colours of a palette

//: shared
constexpr int kPaletteGrid = 132 * 6;
//: end

//: variant palette_global
// The number of items is a multiple of four blocks.
__global__ void colours_global(const int* __restrict__ index, const float* __restrict__ colour,
                               float* __restrict__ out, size_t count, int size) {
    const size_t step = size_t{gridDim.x} * 4 * kBlock;
    for (size_t i = blockIdx.x * size_t{4 * kBlock} + threadIdx.x; i < count; i += step) {
        int c[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) c[k] = index[i + k * kBlock];
#pragma unroll
        for (int k = 0; k < 4; ++k) out[i + k * kBlock] = colour[c[k]];
    }
}

void palette_global(const Palette& d) {
    colours_global<<<kPaletteGrid, kBlock>>>(d.index, d.colour, d.out, d.count, d.size);
}
//: end

//: variant palette_shared
// The number of items is a multiple of four blocks.
__global__ void colours_shared(const int* __restrict__ index, const float* __restrict__ colour,
                               float* __restrict__ out, size_t count, int size) {
    extern __shared__ float near[];
    for (int c = threadIdx.x; c < size; c += kBlock) near[c] = colour[c];
    __syncthreads();
    const size_t step = size_t{gridDim.x} * 4 * kBlock;
    for (size_t i = blockIdx.x * size_t{4 * kBlock} + threadIdx.x; i < count; i += step) {
        int c[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) c[k] = index[i + k * kBlock];
#pragma unroll
        for (int k = 0; k < 4; ++k) out[i + k * kBlock] = near[c[k]];
    }
}

void palette_shared(const Palette& d) {
    colours_shared<<<kPaletteGrid, kBlock, d.size * sizeof(float)>>>(d.index, d.colour, d.out, d.count,
                                                                     d.size);
}
//: end

// --- covered colours of a layer of pixels

//: variant pixels
// The number of items is a multiple of four blocks.
__global__ void layer_of_pixels(const Pixel* __restrict__ pixel, const float* __restrict__ colour,
                                float* __restrict__ out, size_t count) {
    const size_t step = size_t{gridDim.x} * 4 * kBlock;
    for (size_t i = blockIdx.x * size_t{4 * kBlock} + threadIdx.x; i < count; i += step) {
        int c[4];
        float a[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            c[k] = pixel[i + k * kBlock].colour;
            a[k] = pixel[i + k * kBlock].cover;
        }
#pragma unroll
        for (int k = 0; k < 4; ++k) out[i + k * kBlock] = a[k] * colour[c[k]];
    }
}

void pixels(const Layer& d) {
    layer_of_pixels<<<kPaletteGrid, kBlock>>>(d.pixel, d.colour, d.out, d.count);
}
//: end

//: variant planes
// The number of items is a multiple of four blocks.
__global__ void layer_of_planes(const int* __restrict__ index, const float* __restrict__ cover,
                                const float* __restrict__ colour, float* __restrict__ out,
                                size_t count) {
    const size_t step = size_t{gridDim.x} * 4 * kBlock;
    for (size_t i = blockIdx.x * size_t{4 * kBlock} + threadIdx.x; i < count; i += step) {
        int c[4];
        float a[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            c[k] = index[i + k * kBlock];
            a[k] = cover[i + k * kBlock];
        }
#pragma unroll
        for (int k = 0; k < 4; ++k) out[i + k * kBlock] = a[k] * colour[c[k]];
    }
}

void planes(const Layer& d) {
    layer_of_planes<<<kPaletteGrid, kBlock>>>(d.index, d.cover, d.colour, d.out, d.count);
}
//: end

__global__ void reference_channels(const int* index, const __half2* field, const float* weight,
                                   float* expected, size_t count, size_t records) {
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count * kChannels;
         i += size_t{gridDim.x} * blockDim.x) {
        const size_t channel = i / count;
        double sum = 0;
        for (int f = 0; f < kFields; ++f) {
            const __half2 pair = field[f * records + index[i % count]];
            sum += double(__low2float(pair)) * weight[channel * 16 + 2 * f] +
                   double(__high2float(pair)) * weight[channel * 16 + 2 * f + 1];
        }
        expected[i] = float(sum);
    }
}

__global__ void reference_moves(const double* in, const int* target, double* expected, size_t count) {
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count;
         i += size_t{gridDim.x} * blockDim.x) {
        expected[target[i]] = in[i];
    }
}

__global__ void reference_row_sums(const float* row, const int* index, float* expected, size_t count) {
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count;
         i += size_t{gridDim.x} * blockDim.x) {
        double sum = 0;
        for (int k = 0; k < 16; ++k) sum += row[size_t(index[i]) * 16 + k];
        expected[i] = float(sum);
    }
}

__global__ void reference_cells(const int* key, const int* cells, const float* table, float* expected,
                                int count, int size) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        const int cell = cells[key[i]];
        if (cell >= 0) {
            expected[i] = table[cell];
            continue;
        }
        constexpr int n = 12;
        double a[n][n + 1];
        for (int r = 0; r < n; ++r) {
            for (int c = 0; c < n; ++c) a[r][c] = table[(~cell + 17 * r + c) % size];
            a[r][r] += 14;
            a[r][n] = table[(~cell + 300 + r) % size];
        }
        // Gauss-Jordan.
        for (int k = 0; k < n; ++k) {
            for (int r = 0; r < n; ++r) {
                if (r == k) continue;
                const double factor = a[r][k] / a[k][k];
                for (int c = k; c <= n; ++c) a[r][c] -= factor * a[k][c];
            }
        }
        double sum = 0;
        for (int k = 0; k < n; ++k) sum += a[k][n] / a[k][k];
        expected[i] = float(sum);
    }
}

__global__ void reference_colours(const int* index, const float* colour, float* expected, size_t count) {
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count;
         i += size_t{gridDim.x} * blockDim.x) {
        expected[i] = colour[index[i]];
    }
}

__global__ void reference_layer(const Pixel* pixel, const float* colour, float* expected, size_t count) {
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count;
         i += size_t{gridDim.x} * blockDim.x) {
        expected[i] = float(double(pixel[i].cover) * colour[pixel[i].colour]);
    }
}

void records_problem(book::Book& book) {
    book.problem("half_records", [=](book::Problem& p) {
        Records d{};
        d.count = 4 << 20;
        d.records = 2 << 20;
        const uint64_t seed = p.seed();
        const size_t records = d.records;
        d.index = p.input<int>(d.count, [=] __device__(size_t i) {
            return int(records * book::uniform01(seed, 31, i));
        });
        // Value 2 f + h of a record is a function of the record and that number.
        d.field = p.input<__half2>(records * kFields, [=] __device__(size_t i) {
            const size_t at = (i % records) * 16 + 2 * (i / records);
            return __floats2half2_rn(float(book::uniform01(seed, 32, at)),
                                     float(book::uniform01(seed, 32, at + 1)));
        });
        const __half* record = p.input<__half>(records * 16, [=] __device__(size_t i) {
            return __float2half(float(book::uniform01(seed, 32, i)));
        });
        d.record = reinterpret_cast<const uint4*>(record);
        d.weight = p.uniform<float>(kChannels * 16, 0.1, 1);
        BOOK_CHECK(cudaMemcpyToSymbol(channel_weight, d.weight, sizeof(channel_weight), 0,
                                      cudaMemcpyDeviceToDevice));
        d.out = p.output<float>(kChannels * d.count);
        p.needs({.dram_bytes = 4.0 * d.count + 32.0 * records * 0.865 + 4.0 * kChannels * d.count,
                 .fp32_flop = 2.0 * 16 * kChannels * d.count});
        p.check<float>(d.out, kChannels * d.count, {1e-5}, [=](float* expected) {
            reference_channels<<<1056, 256>>>(d.index, d.field, d.weight, expected, d.count, d.records);
        });
        p.variant("fields_each", [=] { fields_each(d); });
        p.variant("fields_once", [=] { fields_once(d); });
        p.variant("records_each", [=] { records_each(d); });
        p.variant("records_once", [=] { records_once(d); });
    });
}

void moves_problem(book::Book& book) {
    book.problem("stoppable", [=](book::Problem& p) {
        Moves d{};
        d.count = 8 << 20;
        // Runs of 64 items change places.
        const size_t runs = d.count / 64;
        d.target = p.input<int>(d.count, [=] __device__(size_t i) {
            return int(i / 64 * 40503 % runs * 64 + i % 64);
        });
        d.in = p.uniform<double>(d.count, -1, 1);
        d.out = p.output<double>(d.count);
        d.stop = p.input<int>(1, [=] __device__(size_t) { return 0; });
        p.needs({.dram_bytes = 20.0 * d.count});
        p.check<double>(d.out, d.count, {0}, [=](double* expected) {
            reference_moves<<<1056, 256>>>(d.in, d.target, expected, d.count);
        });
        p.variant("ask_each_item", [=] { ask_each_item(d); });
        p.variant("ask_each_block", [=] { ask_each_block(d); });
    });
}

void vectors_problem(book::Book& book) {
    book.problem("host_table", [=](book::Problem& p) {
        Vectors d{};
        d.count = 3000000;
        d.rows = 1 << 20;
        const uint64_t seed = p.seed();
        const size_t rows = d.rows;
        d.index = p.input<int>(d.count, [=] __device__(size_t i) {
            return int(rows * book::uniform01(seed, 41, i));
        });
        const float* rows_on_device = p.uniform<float>(rows * 16, 0, 1);
        float* host = p.host_mapped<float>(rows * 16);
        BOOK_CHECK(cudaMemcpy(host, rows_on_device, rows * 64, cudaMemcpyDeviceToHost));
        d.host_row = reinterpret_cast<const float4*>(host);
        d.device_row = p.output<float4>(rows * 4);
        d.out = p.output<float>(d.count);
        p.needs({.dram_bytes = 8.0 * d.count, .link_bytes = 64.0 * rows * 0.943});
        p.check<float>(d.out, d.count, {1e-5}, [=](float* expected) {
            reference_row_sums<<<1056, 256>>>(rows_on_device, d.index, expected, d.count);
        });
        p.variant("table_in_place", [=] { table_in_place(d); });
        p.variant("table_copied", [=] { table_copied(d); });
    });
}

// Keys come in runs of neighbours.
void cells_problem(book::Book& book, const char* name, int run) {
    book.problem(name, [=](book::Problem& p) {
        Cells d{};
        d.count = 16 << 20;
        d.size = 1 << 20;
        const uint64_t seed = p.seed();
        const int size = d.size;
        d.key = p.input<int>(d.count, [=] __device__(size_t i) {
            return int(size / run * book::uniform01(seed, 51, i / run)) * run + int(i % run);
        });
        d.cell = p.input<int>(size, [=] __device__(size_t k) {
            const int cell = int(k / 16 * 24571 % (size / 16) * 16 + k % 16);
            return book::uniform01(seed, 52, k) < 1.0 / 8000 ? ~cell : cell;
        });
        d.table = p.uniform<float>(size, 0.1, 1);
        d.out = p.output<float>(d.count);
        d.rare = p.output<int>(1 << 17);
        d.rare_count = p.zeroed<int>(1);
        p.needs({.dram_bytes = 8.0 * d.count + 8.0 * size});
        p.check<float>(d.out, d.count, {1e-4}, [=](float* expected) {
            reference_cells<<<1056, 256>>>(d.key, d.cell, d.table, expected, d.count, d.size);
        });
        p.variant("solve_inside", [=] { solve_inside(d); });
        p.variant("solve_apart", [=] { solve_apart(d); });
    });
}

void palette_problem(book::Book& book, const char* name, int size) {
    book.problem(name, [=](book::Problem& p) {
        Palette d{};
        d.count = 24 << 20;
        d.size = size;
        const uint64_t seed = p.seed();
        d.index = p.input<int>(d.count, [=] __device__(size_t i) {
            return int(size * book::uniform01(seed, 61, i));
        });
        d.colour = p.uniform<float>(size, 0, 1);
        d.out = p.output<float>(d.count);
        p.needs({.dram_bytes = 8.0 * d.count});
        p.check<float>(d.out, d.count, {0}, [=](float* expected) {
            reference_colours<<<1056, 256>>>(d.index, d.colour, expected, d.count);
        });
        p.variant("palette_global", [=] { palette_global(d); });
        p.variant("palette_shared", [=] { palette_shared(d); });
    });
}

void layer_problem(book::Book& book, const char* name, int size) {
    book.problem(name, [=](book::Problem& p) {
        Layer d{};
        d.count = size_t{kPaletteGrid} * 4 * kBlock * 13;
        d.size = size;
        const uint64_t seed = p.seed();
        const Pixel* pixel = p.input<Pixel>(d.count, [=] __device__(size_t i) {
            return Pixel{int(size * book::uniform01(seed, 66, i)), float(book::uniform01(seed, 67, i)),
                         int(i % 100)};
        });
        d.pixel = pixel;
        d.index = p.input<int>(d.count, [=] __device__(size_t i) { return pixel[i].colour; });
        d.cover = p.input<float>(d.count, [=] __device__(size_t i) { return pixel[i].cover; });
        d.colour = p.uniform<float>(size, 0.1, 1);
        d.out = p.output<float>(d.count);
        p.needs({.dram_bytes = 12.0 * d.count, .fp32_flop = 1.0 * d.count});
        p.check<float>(d.out, d.count, {1e-6}, [=](float* expected) {
            reference_layer<<<1056, 256>>>(d.pixel, d.colour, expected, d.count);
        });
        p.variant("pixels", [=] { pixels(d); });
        p.variant("planes", [=] { planes(d); });
    });
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    records_problem(book);
    moves_problem(book);
    vectors_problem(book);
    cells_problem(book, "some_solved", 16);
    cells_problem(book, "some_solved_anywhere", 1);
    palette_problem(book, "colours_64", 64);
    layer_problem(book, "layer_64", 64);
    return book.finish();
}
