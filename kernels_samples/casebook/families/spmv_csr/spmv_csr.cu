// Products of a sparse matrix in CSR form with one vector or four: y = A x.
#include "../../harness/book.h"

struct Data {
    int rows, pieces;
    size_t entries;
    const int* start;      // rows + 1
    const int* column;
    const float* value;
    const float* x;        // rows, or rows x 4
    const int2* piece;     // pieces + 1: row (top bit: shares its row with others), first entry
    float* y;
};

//: shared
constexpr int kBlock = 256;
constexpr int kResident = 132 * 8;
constexpr int kSharesRow = 1 << 30;

inline int blocks_for(size_t threads) { return int((threads + kBlock - 1) / kBlock); }

// LANES neighbouring threads share a row.
template <int LANES>
__global__ void rows_by_lanes(const int* __restrict__ start, const int* __restrict__ column,
                              const float* __restrict__ value, const float* __restrict__ x,
                              float* __restrict__ y, int rows) {
    const int thread = blockIdx.x * blockDim.x + threadIdx.x;
    const int row = thread / LANES, lane = thread % LANES;
    float sum = 0;
    if (row < rows) {
        const int end = start[row + 1];
        for (int j = start[row] + lane; j < end; j += LANES) sum += value[j] * x[column[j]];
    }
    for (int offset = LANES / 2; offset > 0; offset /= 2) {
        sum += __shfl_down_sync(0xffffffffu, sum, offset, LANES);
    }
    if (lane == 0 && row < rows) y[row] = sum;
}
//: end

//: variant scalar
__global__ void rows_by_thread(const int* __restrict__ start, const int* __restrict__ column,
                               const float* __restrict__ value, const float* __restrict__ x,
                               float* __restrict__ y, int rows) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float sum = 0;
    const int end = start[row + 1];
    for (int j = start[row]; j < end; ++j) sum += value[j] * x[column[j]];
    y[row] = sum;
}

void scalar(const Data& d) {
    rows_by_thread<<<blocks_for(d.rows), kBlock>>>(d.start, d.column, d.value, d.x, d.y, d.rows);
}
//: end

//: variant lanes32
void lanes32(const Data& d) {
    rows_by_lanes<32><<<blocks_for(size_t(d.rows) * 32), kBlock>>>(d.start, d.column, d.value, d.x, d.y,
                                                                   d.rows);
}
//: end

//: variant lanes8
void lanes8(const Data& d) {
    rows_by_lanes<8><<<blocks_for(size_t(d.rows) * 8), kBlock>>>(d.start, d.column, d.value, d.x, d.y,
                                                                 d.rows);
}
//: end

//: variant lanes4
void lanes4(const Data& d) {
    rows_by_lanes<4><<<blocks_for(size_t(d.rows) * 4), kBlock>>>(d.start, d.column, d.value, d.x, d.y,
                                                                 d.rows);
}
//: end

//: variant pieces8
// Eight threads share a piece: a row, or at most 256 entries of one.
__global__ void pieces_by_lanes(const int2* __restrict__ piece, const int* __restrict__ column,
                                const float* __restrict__ value, const float* __restrict__ x,
                                float* __restrict__ y, int pieces) {
    const int thread = blockIdx.x * blockDim.x + threadIdx.x;
    const int which = thread / 8, lane = thread % 8;
    float sum = 0;
    int row = 0;
    if (which < pieces) {
        const int2 first = piece[which];
        const int end = piece[which + 1].y;
        row = first.x;
        for (int j = first.y + lane; j < end; j += 8) sum += value[j] * x[column[j]];
    }
    for (int offset = 4; offset > 0; offset /= 2) sum += __shfl_down_sync(0xffffffffu, sum, offset, 8);
    if (lane == 0 && which < pieces) {
        if (row & kSharesRow) {
            atomicAdd(&y[row & ~kSharesRow], sum);
        } else {
            y[row] = sum;
        }
    }
}

void pieces8(const Data& d) {
    BOOK_CHECK(cudaMemsetAsync(d.y, 0, sizeof(float) * d.rows));
    pieces_by_lanes<<<blocks_for(size_t(d.pieces) * 8), kBlock>>>(d.piece, d.column, d.value, d.x, d.y,
                                                                  d.pieces);
}
//: end

// --- four right-hand sides, x and y as rows x 4

//: variant threads_each
__global__ void thread_rows_one(const int* __restrict__ start, const int* __restrict__ column,
                                const float* __restrict__ value, const float* __restrict__ x,
                                float* __restrict__ y, int rows) {
    const int first = blockIdx.x * blockDim.x + threadIdx.x, step = gridDim.x * blockDim.x;
    for (int which = 0; which < 4; ++which) {
        for (int row = first; row < rows; row += step) {
            float sum = 0;
            const int end = start[row + 1];
            for (int j = start[row]; j < end; ++j) sum += value[j] * x[4 * column[j] + which];
            y[4 * row + which] = sum;
        }
    }
}

void threads_each(const Data& d) {
    thread_rows_one<<<kResident, kBlock>>>(d.start, d.column, d.value, d.x, d.y, d.rows);
}
//: end

//: variant threads_together
__global__ void thread_rows_four(const int* __restrict__ start, const int* __restrict__ column,
                                 const float* __restrict__ value, const float4* __restrict__ x,
                                 float4* __restrict__ y, int rows) {
    const int first = blockIdx.x * blockDim.x + threadIdx.x, step = gridDim.x * blockDim.x;
    for (int row = first; row < rows; row += step) {
        float4 sum = {0, 0, 0, 0};
        const int end = start[row + 1];
        for (int j = start[row]; j < end; ++j) {
            const float a = value[j];
            const float4 v = x[column[j]];
            sum.x += a * v.x;
            sum.y += a * v.y;
            sum.z += a * v.z;
            sum.w += a * v.w;
        }
        y[row] = sum;
    }
}

void threads_together(const Data& d) {
    thread_rows_four<<<kResident, kBlock>>>(d.start, d.column, d.value,
                                            reinterpret_cast<const float4*>(d.x),
                                            reinterpret_cast<float4*>(d.y), d.rows);
}
//: end

//: variant lanes_each
// The number of rows is a multiple of four: a warp's threads leave the loop together.
__global__ void lane_rows_one(const int* __restrict__ start, const int* __restrict__ column,
                              const float* __restrict__ value, const float* __restrict__ x,
                              float* __restrict__ y, int rows) {
    const int thread = blockIdx.x * blockDim.x + threadIdx.x, lane = thread % 8;
    const int first = thread / 8, step = gridDim.x * blockDim.x / 8;
    for (int which = 0; which < 4; ++which) {
        for (int row = first; row < rows; row += step) {
            float sum = 0;
            const int end = start[row + 1];
            for (int j = start[row] + lane; j < end; j += 8) sum += value[j] * x[4 * column[j] + which];
            for (int offset = 4; offset > 0; offset /= 2) {
                sum += __shfl_down_sync(0xffffffffu, sum, offset, 8);
            }
            if (lane == 0) y[4 * row + which] = sum;
        }
    }
}

void lanes_each(const Data& d) {
    lane_rows_one<<<kResident, kBlock>>>(d.start, d.column, d.value, d.x, d.y, d.rows);
}
//: end

//: variant lanes_together
// The number of rows is a multiple of four: a warp's threads leave the loop together.
__global__ void lane_rows_four(const int* __restrict__ start, const int* __restrict__ column,
                               const float* __restrict__ value, const float4* __restrict__ x,
                               float4* __restrict__ y, int rows) {
    const int thread = blockIdx.x * blockDim.x + threadIdx.x, lane = thread % 8;
    const int first = thread / 8, step = gridDim.x * blockDim.x / 8;
    for (int row = first; row < rows; row += step) {
        float4 sum = {0, 0, 0, 0};
        const int end = start[row + 1];
        for (int j = start[row] + lane; j < end; j += 8) {
            const float a = value[j];
            const float4 v = x[column[j]];
            sum.x += a * v.x;
            sum.y += a * v.y;
            sum.z += a * v.z;
            sum.w += a * v.w;
        }
        for (int offset = 4; offset > 0; offset /= 2) {
            sum.x += __shfl_down_sync(0xffffffffu, sum.x, offset, 8);
            sum.y += __shfl_down_sync(0xffffffffu, sum.y, offset, 8);
            sum.z += __shfl_down_sync(0xffffffffu, sum.z, offset, 8);
            sum.w += __shfl_down_sync(0xffffffffu, sum.w, offset, 8);
        }
        if (lane == 0) y[row] = sum;
    }
}

void lanes_together(const Data& d) {
    lane_rows_four<<<kResident, kBlock>>>(d.start, d.column, d.value,
                                          reinterpret_cast<const float4*>(d.x),
                                          reinterpret_cast<float4*>(d.y), d.rows);
}
//: end

// One warp a row, in double.
__global__ void reference_product(const int* start, const int* column, const float* value,
                                  const float* x, float* expected, int rows, int sides) {
    const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    for (int side = 0; side < sides; ++side) {
        double sum = 0;
        for (int j = start[row] + lane; j < start[row + 1]; j += 32) {
            sum += double(value[j]) * x[size_t(column[j]) * sides + side];
        }
        for (int bit = 16; bit > 0; bit >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, bit);
        if (lane == 0) expected[size_t(row) * sides + side] = float(sum);
    }
}

// Columns in runs of four near the diagonal, as meshes give.
void problem_of(book::Book& book, const char* name, int rows, int sides,
                const std::function<int(uint64_t, int)>& length_of,
                const std::vector<const char*>& variants) {
    book.problem(name, [=](book::Problem& p) {
        Data d{};
        d.rows = rows;
        std::vector<int> start(rows + 1, 0);
        std::vector<int2> piece;
        constexpr int kPiece = 256;
        for (int row = 0; row < rows; ++row) {
            const int length = length_of(p.seed(), row);
            start[row + 1] = start[row] + length;
            const bool several = length > kPiece;
            for (int done = 0; done == 0 || done < length; done += kPiece) {
                piece.push_back({several ? row | kSharesRow : row, start[row] + done});
            }
        }
        d.entries = start[rows];
        d.pieces = int(piece.size());
        piece.push_back({0, start[rows]});
        d.start = p.upload(start);
        d.piece = p.upload(piece);
        const uint64_t seed = p.seed();
        const double ratio = double(rows) / d.entries;
        d.column = p.input<int>(d.entries, [=] __device__(size_t i) {
            const size_t run = i / 4;
            const long long near = (long long)(run * 4 * ratio) +
                                   (long long)((book::uniform01(seed, 91, run) - 0.5) * 2048);
            const long long first = near < 0 ? 0 : near > rows - 4 ? rows - 4 : near;
            return int(first / 4 * 4 + i % 4);
        });
        d.value = p.uniform<float>(d.entries, 0.1, 1);
        d.x = p.uniform<float>(size_t(rows) * sides, 0.1, 1);
        d.y = p.output<float>(size_t(rows) * sides);
        p.needs({.dram_bytes = 8.0 * d.entries + 4.0 * rows + 8.0 * rows * sides,
                 .fp32_flop = 2.0 * d.entries * sides});
        p.check<float>(d.y, size_t(rows) * sides, {5e-4}, [=](float* expected) {
            reference_product<<<(rows + 7) / 8, 256>>>(d.start, d.column, d.value, d.x, expected, rows,
                                                       sides);
        });
        for (const char* one : variants) {
            const std::string variant = one;
            if (variant == "scalar") p.variant(variant, [=] { scalar(d); });
            if (variant == "lanes32") p.variant(variant, [=] { lanes32(d); });
            if (variant == "lanes8") p.variant(variant, [=] { lanes8(d); });
            if (variant == "lanes4") p.variant(variant, [=] { lanes4(d); });
            if (variant == "pieces8") p.variant(variant, [=] { pieces8(d); });
            if (variant == "threads_each") p.variant(variant, [=] { threads_each(d); });
            if (variant == "threads_together") p.variant(variant, [=] { threads_together(d); });
            if (variant == "lanes_each") p.variant(variant, [=] { lanes_each(d); });
            if (variant == "lanes_together") p.variant(variant, [=] { lanes_together(d); });
        }
    });
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    const auto short_row = [](uint64_t seed, int row) {
        return 8 + int(32 * book::uniform01(seed, 7, row));
    };
    problem_of(book, "band32", 786432, 1, [](uint64_t, int) { return 32; },
               {"scalar", "lanes32", "lanes8", "lanes4"});
    problem_of(book, "web", 500000, 1,
               [=](uint64_t seed, int row) {
                   return book::uniform01(seed, 8, row) < 3.6e-4 ? 16000 : short_row(seed, row);
               },
               {"lanes8", "pieces8"});
    problem_of(book, "ordered", 1000000, 1,
               [=](uint64_t seed, int row) {
                   return row >= 996000 && row % 10 == 0 ? 3600 : short_row(seed, row);
               },
               {"lanes8", "pieces8"});
    problem_of(book, "dense_head", 1000000, 1,
               [=](uint64_t seed, int row) {
                   return row < 2560 && row % 10 == 0 ? 800 : short_row(seed, row);
               },
               {"lanes8", "pieces8"});
    problem_of(book, "four_sides", 540672, 4, [](uint64_t, int) { return 32; },
               {"threads_each", "threads_together", "lanes_each", "lanes_together"});
    return book.finish();
}
