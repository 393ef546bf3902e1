// Group-by aggregation over a column store: filter by date, then per group the revenue, the quantity
// and the number of rows. Money is in cents and discounts in per cent, so that all sums are exact.
#include "../../harness/book.h"

using u64 = unsigned long long;

// Columns of one table. `keys8` for few groups, `keys32` for many.
struct Table {
    int rows, groups;
    const int* dates;
    const unsigned char* keys8;
    const int* keys32;
    const unsigned char* quantities;
    const int* prices;
    const unsigned char* discounts;
    int last_date;
    u64* sums;  // 3 per group: revenue, quantity, rows
};

// Samples of a sensor in order of time: the sum and the number of values per bucket.
struct Series {
    int rows, buckets;
    const long long* stamps;  // milliseconds since 1970
    const int* values;
    long long first_bucket, width;
    u64* sums;  // 2 per bucket
};

//: shared
constexpr int kGroups = 6;
constexpr int kSums = 3;
constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kBlocks = 132 * 6;

__device__ u64 warp_total(u64 value) {
    for (int step = 16; step > 0; step /= 2) value += __shfl_down_sync(~0u, value, step);
    return value;
}

// Adds up what the lanes of the block's warps collected, and adds it to the result.
__device__ void add_lane_cells(const u64 (*cells)[kGroups * kSums][32], u64* sums) {
    __syncthreads();
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int cell = warp; cell < kGroups * kSums; cell += kWarps) {
        u64 total = 0;
        for (int w = 0; w < kWarps; ++w) total += cells[w][cell][lane];
        total = warp_total(total);
        if (lane == 0) atomicAdd(&sums[cell], total);
    }
}
//: end

//: variant block_cells
__global__ void sum_block_cells(Table t) {
    __shared__ u64 cells[kGroups * kSums];
    if (threadIdx.x < kGroups * kSums) cells[threadIdx.x] = 0;
    __syncthreads();
    for (int row = blockIdx.x * blockDim.x + threadIdx.x; row < t.rows; row += gridDim.x * blockDim.x) {
        if (t.dates[row] > t.last_date) continue;
        u64* cell = cells + kSums * t.keys8[row];
        atomicAdd(cell, u64(t.prices[row]) * (100 - t.discounts[row]));
        atomicAdd(cell + 1, u64(t.quantities[row]));
        atomicAdd(cell + 2, u64(1));
    }
    __syncthreads();
    if (threadIdx.x < kGroups * kSums) atomicAdd(&t.sums[threadIdx.x], cells[threadIdx.x]);
}

void block_cells(const Table& t) {
    sum_block_cells<<<kBlocks, kThreads>>>(t);
}
//: end

//: variant lane_cells
__global__ void sum_lane_cells(Table t) {
    __shared__ u64 cells[kWarps][kGroups * kSums][32];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int i = 0; i < kGroups * kSums; ++i) cells[warp][i][lane] = 0;
    for (int row = blockIdx.x * blockDim.x + threadIdx.x; row < t.rows; row += gridDim.x * blockDim.x) {
        if (t.dates[row] > t.last_date) continue;
        u64(*cell)[32] = &cells[warp][kSums * t.keys8[row]];
        cell[0][lane] += u64(t.prices[row]) * (100 - t.discounts[row]);
        cell[1][lane] += t.quantities[row];
        cell[2][lane] += 1;
    }
    add_lane_cells(cells, t.sums);
}

void lane_cells(const Table& t) {
    sum_lane_cells<<<kBlocks, kThreads>>>(t);
}
//: end

//: variant lane_cells_quads
// The number of rows is a multiple of 4.
__global__ void sum_lane_quads(Table t) {
    __shared__ u64 cells[kWarps][kGroups * kSums][32];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int i = 0; i < kGroups * kSums; ++i) cells[warp][i][lane] = 0;
    const auto add = [&](int key, int price, int discount, int quantity) {
        u64(*cell)[32] = &cells[warp][kSums * key];
        cell[0][lane] += u64(price) * (100 - discount);
        cell[1][lane] += quantity;
        cell[2][lane] += 1;
    };
    for (int quad = blockIdx.x * blockDim.x + threadIdx.x; quad < t.rows / 4;
         quad += gridDim.x * blockDim.x) {
        const int4 date = reinterpret_cast<const int4*>(t.dates)[quad];
        const bool a = date.x <= t.last_date, b = date.y <= t.last_date;
        const bool c = date.z <= t.last_date, d = date.w <= t.last_date;
        if (!(a || b || c || d)) continue;
        const uchar4 key = reinterpret_cast<const uchar4*>(t.keys8)[quad];
        const int4 price = reinterpret_cast<const int4*>(t.prices)[quad];
        const uchar4 discount = reinterpret_cast<const uchar4*>(t.discounts)[quad];
        const uchar4 quantity = reinterpret_cast<const uchar4*>(t.quantities)[quad];
        if (a) add(key.x, price.x, discount.x, quantity.x);
        if (b) add(key.y, price.y, discount.y, quantity.y);
        if (c) add(key.z, price.z, discount.z, quantity.z);
        if (d) add(key.w, price.w, discount.w, quantity.w);
    }
    add_lane_cells(cells, t.sums);
}

void lane_cells_quads(const Table& t) {
    sum_lane_quads<<<kBlocks, kThreads>>>(t);
}
//: end

//: variant table_cells
__global__ void sum_table_cells(Table t) {
    for (int row = blockIdx.x * blockDim.x + threadIdx.x; row < t.rows; row += gridDim.x * blockDim.x) {
        if (t.dates[row] > t.last_date) continue;
        u64* cell = t.sums + size_t(kSums) * t.keys32[row];
        atomicAdd(cell, u64(t.prices[row]) * (100 - t.discounts[row]));
        atomicAdd(cell + 1, u64(t.quantities[row]));
        atomicAdd(cell + 2, u64(1));
    }
}

void table_cells(const Table& t) {
    sum_table_cells<<<132 * 8, kThreads>>>(t);
}
//: end

//: variant table_null_apart
// Group 0 holds the rows whose key is null.
__global__ void sum_table_null_apart(Table t) {
    u64 revenue = 0, quantity = 0, count = 0;
    for (int row = blockIdx.x * blockDim.x + threadIdx.x; row < t.rows; row += gridDim.x * blockDim.x) {
        if (t.dates[row] > t.last_date) continue;
        const int key = t.keys32[row];
        const u64 amount = u64(t.prices[row]) * (100 - t.discounts[row]);
        if (key == 0) {
            revenue += amount;
            quantity += t.quantities[row];
            count += 1;
            continue;
        }
        u64* cell = t.sums + size_t(kSums) * key;
        atomicAdd(cell, amount);
        atomicAdd(cell + 1, u64(t.quantities[row]));
        atomicAdd(cell + 2, u64(1));
    }
    revenue = warp_total(revenue), quantity = warp_total(quantity), count = warp_total(count);
    if (threadIdx.x % 32 == 0 && count > 0) {
        atomicAdd(t.sums, revenue);
        atomicAdd(t.sums + 1, quantity);
        atomicAdd(t.sums + 2, count);
    }
}

void table_null_apart(const Table& t) {
    sum_table_null_apart<<<132 * 8, kThreads>>>(t);
}
//: end

//: shared
// Samples come in order of time: most warps see one bucket, and add once. All lanes take part.
__device__ void add_to_bucket(int bucket, int value, bool valid, u64* sums) {
    const int first = __shfl_sync(~0u, bucket, 0);
    if (__all_sync(~0u, valid && bucket == first)) {
        const int total = __reduce_add_sync(~0u, value);
        if (threadIdx.x % 32 == 0) {
            atomicAdd(&sums[2 * first], u64(total));
            atomicAdd(&sums[2 * first + 1], u64(32));
        }
    } else if (valid) {
        atomicAdd(&sums[2 * bucket], u64(value));
        atomicAdd(&sums[2 * bucket + 1], u64(1));
    }
}
//: end

//: variant time_bucket
__global__ void sum_time_bucket(Series s) {
    const int first = blockIdx.x * blockDim.x + threadIdx.x;
    for (int base = first - threadIdx.x % 32; base < s.rows; base += gridDim.x * blockDim.x) {
        const int row = base + threadIdx.x % 32;
        const bool valid = row < s.rows;
        const int at = valid ? row : s.rows - 1;
        const int bucket = int(s.stamps[at] / s.width - s.first_bucket);
        add_to_bucket(bucket, s.values[at], valid, s.sums);
    }
}

void time_bucket(const Series& s) {
    sum_time_bucket<<<132 * 8, kThreads>>>(s);
}
//: end

//: variant time_bucket_scaled
// The estimate by the reciprocal is off by at most one; the remainder corrects it.
__global__ void sum_time_bucket_scaled(Series s, float scale) {
    const int first = blockIdx.x * blockDim.x + threadIdx.x;
    const int width = int(s.width);
    const long long origin = s.first_bucket * s.width;
    for (int base = first - threadIdx.x % 32; base < s.rows; base += gridDim.x * blockDim.x) {
        const int row = base + threadIdx.x % 32;
        const bool valid = row < s.rows;
        const int at = valid ? row : s.rows - 1;
        const long long offset = s.stamps[at] - origin;
        int bucket = int(float(offset) * scale);
        const int rest = int(offset - (long long)bucket * width);
        bucket += (rest >= width) - (rest < 0);
        add_to_bucket(bucket, s.values[at], valid, s.sums);
    }
}

void time_bucket_scaled(const Series& s) {
    sum_time_bucket_scaled<<<132 * 8, kThreads>>>(s, 1.0f / float(s.width));
}
//: end

__global__ void reference_groups(Table t, u64* expected) {
    for (size_t row = blockIdx.x * size_t{blockDim.x} + threadIdx.x; row < size_t(t.rows);
         row += size_t{gridDim.x} * blockDim.x) {
        if (t.dates[row] <= t.last_date) {
            const int key = t.keys8 ? int(t.keys8[row]) : t.keys32[row];
            const long long share = 100 - int(t.discounts[row]);
            atomicAdd(expected + 3 * size_t(key) + 0, u64(t.prices[row] * share));
            atomicAdd(expected + 3 * size_t(key) + 1, u64(t.quantities[row]));
            atomicAdd(expected + 3 * size_t(key) + 2, 1ull);
        }
    }
}

__global__ void reference_buckets(Series s, u64* expected) {
    // One block per bucket; the rows of a bucket are found by bisection.
    __shared__ u64 total;
    if (threadIdx.x == 0) total = 0;
    __syncthreads();
    int ends[2];
    for (int side = 0; side < 2; ++side) {
        const long long from = (s.first_bucket + blockIdx.x + side) * s.width;
        int low = 0, high = s.rows;
        while (low < high) {
            const int middle = low + (high - low) / 2;
            if (s.stamps[middle] < from) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        ends[side] = low;
    }
    u64 own = 0;
    for (int row = ends[0] + threadIdx.x; row < ends[1]; row += blockDim.x) own += u64(s.values[row]);
    atomicAdd(&total, own);
    __syncthreads();
    if (threadIdx.x == 0) {
        expected[2 * blockIdx.x] = total;
        expected[2 * blockIdx.x + 1] = u64(ends[1] - ends[0]);
    }
}

// `passing`: share of the rows that the filter keeps. `nulls`: share of the rows with key 0.
Table set_up(book::Problem& p, int rows, int groups, double passing, double nulls) {
    Table t{rows, groups};
    const uint64_t seed = p.seed();
    const bool few = groups <= kGroups;
    t.dates = p.uniform<int>(rows, 0, 100000);
    t.last_date = int(100000 * passing) - 1;
    if (few) {
        t.keys8 = p.uniform<unsigned char>(rows, 0, groups);
    } else {
        t.keys32 = p.input<int>(rows, [=] __device__(size_t i) {
            if (book::uniform01(seed, 77, i) < nulls) return 0;
            return 1 + int(book::uniform01(seed, 78, i) * (groups - 1));
        });
    }
    t.quantities = p.uniform<unsigned char>(rows, 1, 51);
    t.prices = p.uniform<int>(rows, 100, 1000000);
    t.discounts = p.uniform<unsigned char>(rows, 0, 11);
    t.sums = p.zeroed<u64>(size_t(3) * groups);
    const double kept = passing * rows;
    p.needs({.dram_bytes = 4.0 * rows + kept * (few ? 7 : 10) + 24.0 * groups});
    p.check<u64>(t.sums, size_t(3) * groups, {0}, [=](u64* expected) {
        reference_groups<<<1056, 256>>>(t, expected);
    });
    return t;
}

Series set_up_series(book::Problem& p, int rows, int per_bucket) {
    Series s{rows, (rows + per_bucket - 1) / per_bucket + 1};
    const uint64_t seed = p.seed();
    s.width = 900 * 1000;
    s.first_bucket = 1888889;
    const double step = double(s.width) / per_bucket;
    const long long origin = s.first_bucket * s.width;
    s.stamps = p.input<long long>(rows, [=] __device__(size_t i) {
        return origin + (long long)(step * (double(i) + book::uniform01(seed, 79, i)));
    });
    s.values = p.uniform<int>(rows, 0, 30000);
    s.sums = p.zeroed<u64>(size_t(2) * s.buckets);
    p.needs({.dram_bytes = 12.0 * rows + 16.0 * s.buckets});
    p.check<u64>(s.sums, size_t(2) * s.buckets, {0}, [=](u64* expected) {
        reference_buckets<<<s.buckets, 256>>>(s, expected);
    });
    return s;
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("few", [](book::Problem& p) {
        const auto t = set_up(p, 16 << 20, kGroups, 0.98, 0);
        p.variant("block_cells", [=] { block_cells(t); });
        p.variant("lane_cells", [=] { lane_cells(t); });
        p.variant("lane_cells_quads", [=] { lane_cells_quads(t); });
    });
    book.problem("one_day", [](book::Problem& p) {
        const auto t = set_up(p, 24 << 20, kGroups, 0.002, 0);
        p.variant("block_cells", [=] { block_cells(t); });
        p.variant("lane_cells", [=] { lane_cells(t); });
        p.variant("lane_cells_quads", [=] { lane_cells_quads(t); });
    });
    book.problem("customers", [](book::Problem& p) {
        const auto t = set_up(p, 8 << 20, 1 << 20, 0.9, 0);
        p.variant("table_cells", [=] { table_cells(t); });
        p.variant("table_null_apart", [=] { table_null_apart(t); });
    });
    book.problem("customers_nulls", [](book::Problem& p) {
        const auto t = set_up(p, 8 << 20, 1 << 20, 0.9, 0.15);
        p.variant("table_cells", [=] { table_cells(t); });
        p.variant("table_null_apart", [=] { table_null_apart(t); });
    });
    book.problem("quarter_hours", [](book::Problem& p) {
        const auto s = set_up_series(p, 12 << 20, 3000);
        p.variant("time_bucket", [=] { time_bucket(s); });
        p.variant("time_bucket_scaled", [=] { time_bucket_scaled(s); });
    });
    return book.finish();
}
