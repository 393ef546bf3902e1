// Operators of a column store over the tables of a ledger: sums by city, decoding of a dictionary, a filtered
// sum, arrears of the overdue accounts, and rows from columns.
#include "../../harness/book.h"

using u64 = unsigned long long;

//: shared
constexpr int kSms = 132;

// The sum over a block of 256 threads, valid in thread 0.
__device__ unsigned long long block_sum(unsigned long long value) {
    __shared__ unsigned long long parts[8];
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < 8; ++w) value += parts[w];
    }
    return value;
}
//: end

// --- Sums by city: totals[city[i]] += amount[i]

constexpr int kCities = 2048;

struct Sales {
    int rows;                // a multiple of 4
    unsigned common;         // the most common city, from the statistics of the column
    const unsigned short* city;
    const unsigned* amount;  // below 1,000
    u64* totals;
};

//: variant by_city
__global__ void __launch_bounds__(1024) totals_by_city(const ushort4* city, const uint4* amount, int quads,
                                                       unsigned long long* totals) {
    __shared__ unsigned sums[kCities];
    for (int g = threadIdx.x; g < kCities; g += 1024) sums[g] = 0;
    __syncthreads();
    for (int i = blockIdx.x * 1024 + threadIdx.x; i < quads; i += gridDim.x * 1024) {
        const ushort4 g = city[i];
        const uint4 a = amount[i];
        atomicAdd(&sums[g.x], a.x);
        atomicAdd(&sums[g.y], a.y);
        atomicAdd(&sums[g.z], a.z);
        atomicAdd(&sums[g.w], a.w);
    }
    __syncthreads();
    for (int g = threadIdx.x; g < kCities; g += 1024) {
        atomicAdd(&totals[g], static_cast<unsigned long long>(sums[g]));
    }
}

void by_city(const Sales& d) {
    totals_by_city<<<2 * kSms, 1024>>>(reinterpret_cast<const ushort4*>(d.city),
                                       reinterpret_cast<const uint4*>(d.amount), d.rows / 4, d.totals);
}
//: end

//: variant common_apart
__global__ void __launch_bounds__(1024) totals_common_apart(const ushort4* city, const uint4* amount,
                                                            int quads, unsigned common,
                                                            unsigned long long* totals) {
    __shared__ unsigned sums[kCities];
    for (int g = threadIdx.x; g < kCities; g += 1024) sums[g] = 0;
    __syncthreads();
    unsigned of_common = 0;
    auto add = [&](unsigned g, unsigned a) {
        if (g == common) {
            of_common += a;
        } else {
            atomicAdd(&sums[g], a);
        }
    };
    for (int i = blockIdx.x * 1024 + threadIdx.x; i < quads; i += gridDim.x * 1024) {
        const ushort4 g = city[i];
        const uint4 a = amount[i];
        add(g.x, a.x), add(g.y, a.y), add(g.z, a.z), add(g.w, a.w);
    }
    of_common = __reduce_add_sync(0xffffffffu, of_common);
    if (threadIdx.x % 32 == 0) atomicAdd(&sums[common], of_common);
    __syncthreads();
    for (int g = threadIdx.x; g < kCities; g += 1024) {
        atomicAdd(&totals[g], static_cast<unsigned long long>(sums[g]));
    }
}

void common_apart(const Sales& d) {
    totals_common_apart<<<2 * kSms, 1024>>>(reinterpret_cast<const ushort4*>(d.city),
                                            reinterpret_cast<const uint4*>(d.amount), d.rows / 4, d.common,
                                            d.totals);
}
//: end

// --- Decoding: out[i] = dictionary[code[i]]

struct Coded {
    int rows;  // a multiple of 4
    const unsigned char* code;
    const unsigned* dictionary;  // of 256 entries
    unsigned* out;
};

//: variant decode_1
__global__ void __launch_bounds__(256) decode_rows(const unsigned char* code, const unsigned* dictionary,
                                                   unsigned* out, int rows) {
    __shared__ unsigned words[256];
    words[threadIdx.x] = dictionary[threadIdx.x];
    __syncthreads();
    for (int i = blockIdx.x * 256 + threadIdx.x; i < rows; i += gridDim.x * 256) out[i] = words[code[i]];
}

void decode_1(const Coded& d) {
    decode_rows<<<8 * kSms, 256>>>(d.code, d.dictionary, d.out, d.rows);
}
//: end

//: variant decode_2
__global__ void __launch_bounds__(256) decode_pairs(const uchar2* code, const unsigned* dictionary,
                                                    uint2* out, int pairs) {
    __shared__ unsigned words[256];
    words[threadIdx.x] = dictionary[threadIdx.x];
    __syncthreads();
    for (int i = blockIdx.x * 256 + threadIdx.x; i < pairs; i += gridDim.x * 256) {
        const uchar2 c = code[i];
        out[i] = make_uint2(words[c.x], words[c.y]);
    }
}

void decode_2(const Coded& d) {
    decode_pairs<<<8 * kSms, 256>>>(reinterpret_cast<const uchar2*>(d.code), d.dictionary,
                                    reinterpret_cast<uint2*>(d.out), d.rows / 2);
}
//: end

//: variant decode_4
__global__ void __launch_bounds__(256) decode_quads(const uchar4* code, const unsigned* dictionary,
                                                    uint4* out, int quads) {
    __shared__ unsigned words[256];
    words[threadIdx.x] = dictionary[threadIdx.x];
    __syncthreads();
    for (int i = blockIdx.x * 256 + threadIdx.x; i < quads; i += gridDim.x * 256) {
        const uchar4 c = code[i];
        out[i] = make_uint4(words[c.x], words[c.y], words[c.z], words[c.w]);
    }
}

void decode_4(const Coded& d) {
    decode_quads<<<8 * kSms, 256>>>(reinterpret_cast<const uchar4*>(d.code), d.dictionary,
                                    reinterpret_cast<uint4*>(d.out), d.rows / 4);
}
//: end

// --- Revenue: the sum of price * discount over the rows that pass three filters

struct Orders {
    int rows;  // a multiple of 8
    const unsigned short* date;
    const unsigned char* discount;
    const unsigned char* quantity;
    const unsigned* price;
    unsigned char* chosen;  // scratch: one byte per row
    u64* revenue;
};

//: shared
__device__ bool wanted(unsigned date, unsigned discount, unsigned quantity) {
    return date - 730u < 1095u && discount >= 3u && quantity < 40u;
}
//: end

//: variant mark_then_sum
__global__ void __launch_bounds__(256) mark_rows(const ushort4* date, const uchar4* discount,
                                                 const uchar4* quantity, uchar4* chosen, int quads) {
    for (int i = blockIdx.x * 256 + threadIdx.x; i < quads; i += gridDim.x * 256) {
        const ushort4 t = date[i];
        const uchar4 d = discount[i], q = quantity[i];
        chosen[i] = make_uchar4(wanted(t.x, d.x, q.x), wanted(t.y, d.y, q.y), wanted(t.z, d.z, q.z),
                                wanted(t.w, d.w, q.w));
    }
}

__global__ void __launch_bounds__(256) sum_chosen(const uchar4* chosen, const uchar4* discount,
                                                  const uint4* price, int quads,
                                                  unsigned long long* revenue) {
    unsigned long long sum = 0;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < quads; i += gridDim.x * 256) {
        const uchar4 c = chosen[i], d = discount[i];
        const uint4 p = price[i];
        if (c.x) sum += p.x * d.x;
        if (c.y) sum += p.y * d.y;
        if (c.z) sum += p.z * d.z;
        if (c.w) sum += p.w * d.w;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) atomicAdd(revenue, sum);
}

void mark_then_sum(const Orders& o) {
    mark_rows<<<8 * kSms, 256>>>(reinterpret_cast<const ushort4*>(o.date),
                                 reinterpret_cast<const uchar4*>(o.discount),
                                 reinterpret_cast<const uchar4*>(o.quantity),
                                 reinterpret_cast<uchar4*>(o.chosen), o.rows / 4);
    sum_chosen<<<8 * kSms, 256>>>(reinterpret_cast<const uchar4*>(o.chosen),
                                  reinterpret_cast<const uchar4*>(o.discount),
                                  reinterpret_cast<const uint4*>(o.price), o.rows / 4, o.revenue);
}
//: end

//: shared
// What four rows add to the revenue.
__device__ unsigned long long revenue_of(ushort4 t, uchar4 d, uchar4 q, uint4 p) {
    unsigned long long sum = 0;
    if (wanted(t.x, d.x, q.x)) sum += p.x * d.x;
    if (wanted(t.y, d.y, q.y)) sum += p.y * d.y;
    if (wanted(t.z, d.z, q.z)) sum += p.z * d.z;
    if (wanted(t.w, d.w, q.w)) sum += p.w * d.w;
    return sum;
}
//: end

//: variant filtered_sum
__global__ void __launch_bounds__(256) sum_wanted(const ushort4* date, const uchar4* discount,
                                                  const uchar4* quantity, const uint4* price, int quads,
                                                  unsigned long long* revenue) {
    unsigned long long sum = 0;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < quads; i += gridDim.x * 256) {
        sum += revenue_of(date[i], discount[i], quantity[i], price[i]);
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) atomicAdd(revenue, sum);
}

void filtered_sum(const Orders& o) {
    sum_wanted<<<8 * kSms, 256>>>(reinterpret_cast<const ushort4*>(o.date),
                                  reinterpret_cast<const uchar4*>(o.discount),
                                  reinterpret_cast<const uchar4*>(o.quantity),
                                  reinterpret_cast<const uint4*>(o.price), o.rows / 4, o.revenue);
}
//: end

//: variant filtered_sum_warps
__global__ void __launch_bounds__(256) sum_wanted_warps(const ushort4* date, const uchar4* discount,
                                                        const uchar4* quantity, const uint4* price,
                                                        int quads, unsigned long long* revenue) {
    unsigned long long sum = 0;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < quads; i += gridDim.x * 256) {
        sum += revenue_of(date[i], discount[i], quantity[i], price[i]);
    }
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (threadIdx.x % 32 == 0) atomicAdd(revenue, sum);
}

void filtered_sum_warps(const Orders& o) {
    sum_wanted_warps<<<8 * kSms, 256>>>(reinterpret_cast<const ushort4*>(o.date),
                                        reinterpret_cast<const uchar4*>(o.discount),
                                        reinterpret_cast<const uchar4*>(o.quantity),
                                        reinterpret_cast<const uint4*>(o.price), o.rows / 4, o.revenue);
}
//: end

//: variant filtered_sum_8
struct __align__(16) EightDates {
    ushort4 low, high;
};
struct __align__(8) EightBytes {
    uchar4 low, high;
};

__global__ void __launch_bounds__(256) sum_wanted_8(const EightDates* date, const EightBytes* discount,
                                                    const EightBytes* quantity, const uint4* price,
                                                    int eights, unsigned long long* revenue) {
    unsigned long long sum = 0;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < eights; i += gridDim.x * 256) {
        const EightDates t = date[i];
        const EightBytes d = discount[i], q = quantity[i];
        const uint4 low = price[2 * i], high = price[2 * i + 1];
        sum += revenue_of(t.low, d.low, q.low, low) + revenue_of(t.high, d.high, q.high, high);
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) atomicAdd(revenue, sum);
}

void filtered_sum_8(const Orders& o) {
    sum_wanted_8<<<8 * kSms, 256>>>(reinterpret_cast<const EightDates*>(o.date),
                                    reinterpret_cast<const EightBytes*>(o.discount),
                                    reinterpret_cast<const EightBytes*>(o.quantity),
                                    reinterpret_cast<const uint4*>(o.price), o.rows / 8, o.revenue);
}
//: end

// --- Arrears: what an account owes; an overdue one accrues growth and a falling fee in every month

struct Accounts {
    int rows;  // a multiple of 4,096
    const unsigned char* overdue;
    const unsigned char* months;
    const float* balance;
    const float* rate;
    float* owed;
};

//: shared
__device__ float accrued(float balance, float rate, int months) {
    const float growth = 1.0f + rate;
    float fee = 0.05f * balance;
    for (int m = 0; m < months; ++m) {
        balance = fmaf(balance, growth, fee);
        fee *= 0.97f;
    }
    return balance;
}
//: end

//: variant account_per_thread
__global__ void __launch_bounds__(256) arrears(const unsigned char* overdue, const unsigned char* months,
                                               const float* balance, const float* rate, float* owed,
                                               int rows) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= rows) return;
    float due = balance[i];
    if (overdue[i]) due = accrued(due, rate[i], months[i]);
    owed[i] = due;
}

void account_per_thread(const Accounts& a) {
    arrears<<<(a.rows + 255) / 256, 256>>>(a.overdue, a.months, a.balance, a.rate, a.owed, a.rows);
}
//: end

//: variant overdue_queued
constexpr int kBatch = 4096;

__global__ void __launch_bounds__(256) arrears_queued(const unsigned char* overdue,
                                                      const unsigned char* months, const float* balance,
                                                      const float* rate, float* owed) {
    __shared__ unsigned short queue[kBatch];
    __shared__ int queued;
    if (threadIdx.x == 0) queued = 0;
    __syncthreads();
    const int first = blockIdx.x * kBatch, lane = threadIdx.x % 32;
#pragma unroll 4
    for (int k = threadIdx.x; k < kBatch; k += 256) {
        const bool late = overdue[first + k];
        const float due = balance[first + k];
        if (!late) owed[first + k] = due;
        const unsigned which = __ballot_sync(0xffffffffu, late);
        int place = 0;
        if (lane == 0) place = atomicAdd(&queued, __popc(which));
        place = __shfl_sync(0xffffffffu, place, 0) + __popc(which & ((1u << lane) - 1));
        if (late) queue[place] = static_cast<unsigned short>(k);
    }
    __syncthreads();
    for (int q = threadIdx.x; q < queued; q += 256) {
        const int i = first + queue[q];
        owed[i] = accrued(balance[i], rate[i], months[i]);
    }
}

void overdue_queued(const Accounts& a) {
    arrears_queued<<<a.rows / kBatch, 256>>>(a.overdue, a.months, a.balance, a.rate, a.owed);
}
//: end

// --- Rows from columns

//: shared
struct Row {
    unsigned long long id, price;
    unsigned date, quantity;
};
//: end

struct Columns {
    int rows;  // a multiple of 256
    const u64 *id, *price;
    const unsigned *date, *quantity;
    Row* row;
};

//: variant row_per_thread
__global__ void __launch_bounds__(256) make_rows(const unsigned long long* id,
                                                 const unsigned long long* price, const unsigned* date,
                                                 const unsigned* quantity, Row* rows) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    rows[i] = Row{id[i], price[i], date[i], quantity[i]};
}

void row_per_thread(const Columns& c) {
    make_rows<<<c.rows / 256, 256>>>(c.id, c.price, c.date, c.quantity, c.row);
}
//: end

//: variant rows_by_block
__global__ void __launch_bounds__(256) make_rows_by_block(const unsigned long long* id,
                                                          const unsigned long long* price,
                                                          const unsigned* date, const unsigned* quantity,
                                                          uint4* rows) {
    constexpr int kPieces = 256 * sizeof(Row) / sizeof(uint4);
    __shared__ uint4 pieces[kPieces];
    const int i = blockIdx.x * 256 + threadIdx.x;
    reinterpret_cast<Row*>(pieces)[threadIdx.x] = Row{id[i], price[i], date[i], quantity[i]};
    __syncthreads();
    for (int k = threadIdx.x; k < kPieces; k += 256) rows[blockIdx.x * size_t{kPieces} + k] = pieces[k];
}

void rows_by_block(const Columns& c) {
    make_rows_by_block<<<c.rows / 256, 256>>>(c.id, c.price, c.date, c.quantity,
                                              reinterpret_cast<uint4*>(c.row));
}
//: end

// --- References

__global__ void reference_totals(Sales d, u64* expected) {
    // One block a city would read everything 2,048 times: each block keeps its own totals instead.
    __shared__ u64 own[kCities];
    for (int g = threadIdx.x; g < kCities; g += blockDim.x) own[g] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < d.rows; i += gridDim.x * blockDim.x) {
        atomicAdd(&own[d.city[i]], u64{d.amount[i]});
    }
    __syncthreads();
    for (int g = threadIdx.x; g < kCities; g += blockDim.x) atomicAdd(&expected[g], own[g]);
}

__global__ void reference_decode(Coded d, unsigned* expected) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < d.rows; i += gridDim.x * blockDim.x) {
        expected[i] = d.dictionary[d.code[i]];
    }
}

__global__ void reference_revenue(Orders o, u64* expected) {
    u64 sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < o.rows; i += gridDim.x * blockDim.x) {
        const int t = o.date[i], d = o.discount[i], q = o.quantity[i];
        if (t >= 730 && t < 1825 && d >= 3 && q < 40) sum += u64{o.price[i]} * d;
    }
    atomicAdd(expected, sum);
}

__global__ void reference_owed(Accounts a, float* expected) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < a.rows; i += gridDim.x * blockDim.x) {
        double due = a.balance[i];
        if (a.overdue[i]) {
            double fee = 0.05 * due;
            for (int m = a.months[i]; m > 0; --m) {
                due = due * (1.0 + a.rate[i]) + fee;
                fee *= 0.97;
            }
        }
        expected[i] = static_cast<float>(due);
    }
}

// As 32-bit words: low and high word of id and price, date, quantity.
__global__ void reference_rows(Columns c, unsigned* expected) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < 6 * c.rows; i += gridDim.x * blockDim.x) {
        const int row = i / 6, word = i % 6;
        const u64 wide = word < 2 ? c.id[row] : c.price[row];
        unsigned value = static_cast<unsigned>(word % 2 ? wide >> 32 : wide);
        if (word == 4) value = c.date[row];
        if (word == 5) value = c.quantity[row];
        expected[i] = value;
    }
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("sales", [](book::Problem& p) {
        Sales d{24 << 20, 417};
        const uint64_t seed = p.seed();
        const unsigned common = d.common;
        d.city = p.input<unsigned short>(d.rows, [=] __device__(size_t i) {
            const double u = book::uniform01(seed, 101, i);
            const double v = book::uniform01(seed, 102, i);
            return static_cast<unsigned short>(u < 0.7 ? common : unsigned(v * kCities));
        });
        d.amount = p.uniform<unsigned>(d.rows, 0, 1000);
        d.totals = p.zeroed<u64>(kCities);
        p.needs({.dram_bytes = 6.0 * d.rows + 8.0 * kCities, .int_op = 1.0 * d.rows});
        p.check<u64>(d.totals, kCities, {0}, [=](u64* expected) {
            reference_totals<<<264, 512>>>(d, expected);
        });
        p.variant("by_city", [=] { by_city(d); });
        p.variant("common_apart", [=] { common_apart(d); });
    });
    book.problem("currencies", [](book::Problem& p) {
        Coded d{28 << 20};
        d.code = p.uniform<unsigned char>(d.rows, 0, 256);
        d.dictionary = p.uniform<unsigned>(256, 0, 4e9);
        d.out = p.output<unsigned>(d.rows);
        p.needs({.dram_bytes = 5.0 * d.rows + 1024});
        p.check<unsigned>(d.out, d.rows, {0}, [=](unsigned* expected) {
            reference_decode<<<1056, 256>>>(d, expected);
        });
        p.variant("decode_1", [=] { decode_1(d); });
        p.variant("decode_2", [=] { decode_2(d); });
        p.variant("decode_4", [=] { decode_4(d); });
    });
    book.problem("orders", [](book::Problem& p) {
        Orders o{24 << 20};
        o.date = p.uniform<unsigned short>(o.rows, 0, 2555);
        o.discount = p.uniform<unsigned char>(o.rows, 0, 11);
        o.quantity = p.uniform<unsigned char>(o.rows, 1, 51);
        o.price = p.uniform<unsigned>(o.rows, 1000, 100000);
        o.chosen = p.output<unsigned char>(o.rows);
        o.revenue = p.zeroed<u64>(1);
        p.needs({.dram_bytes = 8.0 * o.rows, .int_op = 6.0 * o.rows});
        p.check<u64>(o.revenue, 1, {0}, [=](u64* expected) {
            reference_revenue<<<264, 256>>>(o, expected);
        });
        p.variant("mark_then_sum", [=] { mark_then_sum(o); });
        p.variant("filtered_sum", [=] { filtered_sum(o); });
        p.variant("filtered_sum_warps", [=] { filtered_sum_warps(o); });
        p.variant("filtered_sum_8", [=] { filtered_sum_8(o); });
    });
    book.problem("accounts", [](book::Problem& p) {
        Accounts a{8 << 20};
        const uint64_t seed = p.seed();
        a.overdue = p.input<unsigned char>(a.rows, [=] __device__(size_t i) {
            return static_cast<unsigned char>(book::uniform01(seed, 201, i) < 0.15);
        });
        a.months = p.uniform<unsigned char>(a.rows, 24, 121);
        a.balance = p.uniform<float>(a.rows, 10, 5000);
        a.rate = p.uniform<float>(a.rows, 0.002, 0.012);
        a.owed = p.output<float>(a.rows);
        p.needs({.dram_bytes = 9.0 * a.rows + 0.15 * 5 * a.rows, .fp32_flop = 0.15 * 72 * 3 * a.rows});
        p.check<float>(a.owed, a.rows, {1e-4}, [=](float* expected) {
            reference_owed<<<1056, 256>>>(a, expected);
        });
        p.variant("account_per_thread", [=] { account_per_thread(a); });
        p.variant("overdue_queued", [=] { overdue_queued(a); });
    });
    book.problem("invoices", [](book::Problem& p) {
        Columns c{15 << 18};
        c.id = p.uniform<u64>(c.rows, 0, 1e18);
        c.price = p.uniform<u64>(c.rows, 0, 1e12);
        c.date = p.uniform<unsigned>(c.rows, 0, 20000);
        c.quantity = p.uniform<unsigned>(c.rows, 1, 500);
        auto* words = p.output<unsigned>(size_t{6} * c.rows);
        c.row = reinterpret_cast<Row*>(words);
        p.needs({.dram_bytes = 48.0 * c.rows});
        p.check<unsigned>(words, size_t{6} * c.rows, {0}, [=](unsigned* expected) {
            reference_rows<<<1056, 256>>>(c, expected);
        });
        p.variant("row_per_thread", [=] { row_per_thread(c); });
        p.variant("rows_by_block", [=] { rows_by_block(c); });
    });
    return book.finish();
}
