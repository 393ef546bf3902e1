// Decimal arithmetic on columns of invoices: amounts are integers with a scale (a power of ten, or an exchange
// rate's denominator) that is known when the query runs. Every product is brought back to the scale of its column,
// rounded half up. Payouts: an amount is broken into notes and coins of a till.
#include "../../harness/book.h"

using u32 = unsigned;
using u64 = unsigned long long;

struct Scale {
    u64 divisor, half;
    u64 factor;  // ceil(2^(63 + bits) / divisor): exact for dividends below 2^63
    int shift;
};

struct Terms {
    Scale discount, tax, exchange;
    u64 exchange_rate;
};

struct Lines {
    int rows;
    const u64* price;
    const u32* discount;
    const u32* rate;
};

struct Bill {
    u64 net, tax, total;
};

struct TotalOnly {
    u64* total;
    __device__ void put(int i, const Bill& b) const { total[i] = b.total; }
};

struct Breakdown {
    u64 *net, *tax, *total;
    __device__ void put(int i, const Bill& b) const {
        net[i] = b.net;
        tax[i] = b.tax;
        total[i] = b.total;
    }
};

template <int Kinds>
struct Till {
    u32 value[Kinds];   // falling
    u32 factor[Kinds];  // as in Scale, for dividends below 2^31
    int shift[Kinds];
};

template <int Kinds>
struct Payouts {
    int rows;
    const u32* amount;
    u32* counts;  // one byte for each kind, and one for what is left
    Till<Kinds> till;
};

//: shared
constexpr int kThreads = 256;

inline int blocks_for(int items) {
    return (items + kThreads - 1) / kThreads;
}

__device__ inline u64 rounded_quotient(u64 product, const Scale& s) {
    return (product + s.half) / s.divisor;
}

__device__ inline u64 rounded_wide(unsigned __int128 product, const Scale& s) {
    return u64((product + s.half) / s.divisor);
}

__device__ inline u64 rescaled(u64 product, const Scale& s) {
    return __umul64hi(product + s.half, s.factor) >> s.shift;
}

__device__ inline Bill rescaled_bill(u64 price, u32 discount, u32 rate, const Terms& terms) {
    Bill b;
    b.net = rescaled(price * (terms.discount.divisor - discount), terms.discount);
    b.tax = rescaled(b.net * rate, terms.tax);
    b.total = rescaled((b.net + b.tax) * terms.exchange_rate, terms.exchange);
    return b;
}

// Rows of counts that a thread handles: sixteen bytes of output.
template <int Kinds>
constexpr int kRowsPerThread = 16 / (Kinds + 1);

template <int Rows>
__device__ inline void load_amounts(const u32* amount, int first, u32 (&left)[Rows]) {
    if constexpr (Rows == 4) {
        const uint4 v = reinterpret_cast<const uint4*>(amount)[first / 4];
        left[0] = v.x, left[1] = v.y, left[2] = v.z, left[3] = v.w;
    } else {
        const uint2 v = reinterpret_cast<const uint2*>(amount)[first / 2];
        left[0] = v.x, left[1] = v.y;
    }
}
//: end

//: variant wide
// Products in 128 bits, as for columns of 38 digits.
template <class Out>
__global__ void bill_wide(Lines in, Terms terms, Out out) {
    const int i = blockIdx.x * kThreads + threadIdx.x;
    if (i >= in.rows) return;
    using u128 = unsigned __int128;
    Bill b;
    b.net = rounded_wide(u128(in.price[i]) * (terms.discount.divisor - in.discount[i]), terms.discount);
    b.tax = rounded_wide(u128(b.net) * in.rate[i], terms.tax);
    b.total = rounded_wide(u128(b.net + b.tax) * terms.exchange_rate, terms.exchange);
    out.put(i, b);
}

template <class Out>
void wide(const Lines& in, const Terms& terms, const Out& out) {
    bill_wide<<<blocks_for(in.rows), kThreads>>>(in, terms, out);
}
//: end

//: variant by_scale
template <class Out>
__global__ void bill_by_scale(Lines in, Terms terms, Out out) {
    const int i = blockIdx.x * kThreads + threadIdx.x;
    if (i >= in.rows) return;
    Bill b;
    b.net = rounded_quotient(in.price[i] * (terms.discount.divisor - in.discount[i]), terms.discount);
    b.tax = rounded_quotient(b.net * in.rate[i], terms.tax);
    b.total = rounded_quotient((b.net + b.tax) * terms.exchange_rate, terms.exchange);
    out.put(i, b);
}

template <class Out>
void by_scale(const Lines& in, const Terms& terms, const Out& out) {
    bill_by_scale<<<blocks_for(in.rows), kThreads>>>(in, terms, out);
}
//: end

//: variant fixed_scales
// Scales of columns are prepared with the plan; the exchange rate changes every day.
template <class Out>
__global__ void bill_fixed_scales(Lines in, Terms terms, Out out) {
    const int i = blockIdx.x * kThreads + threadIdx.x;
    if (i >= in.rows) return;
    Bill b;
    b.net = rescaled(in.price[i] * (terms.discount.divisor - in.discount[i]), terms.discount);
    b.tax = rescaled(b.net * in.rate[i], terms.tax);
    b.total = rounded_quotient((b.net + b.tax) * terms.exchange_rate, terms.exchange);
    out.put(i, b);
}

template <class Out>
void fixed_scales(const Lines& in, const Terms& terms, const Out& out) {
    bill_fixed_scales<<<blocks_for(in.rows), kThreads>>>(in, terms, out);
}
//: end

//: variant prepared
template <class Out>
__global__ void bill_prepared(Lines in, Terms terms, Out out) {
    const int i = blockIdx.x * kThreads + threadIdx.x;
    if (i >= in.rows) return;
    out.put(i, rescaled_bill(in.price[i], in.discount[i], in.rate[i], terms));
}

template <class Out>
void prepared(const Lines& in, const Terms& terms, const Out& out) {
    bill_prepared<<<blocks_for(in.rows), kThreads>>>(in, terms, out);
}
//: end

//: variant prepared_pairs
// Two rows per thread; the number of rows is even.
__global__ void bill_pairs(Lines in, Terms terms, TotalOnly out) {
    const int i = blockIdx.x * kThreads + threadIdx.x;
    if (2 * i >= in.rows) return;
    const ulonglong2 price = reinterpret_cast<const ulonglong2*>(in.price)[i];
    const uint2 discount = reinterpret_cast<const uint2*>(in.discount)[i];
    const uint2 rate = reinterpret_cast<const uint2*>(in.rate)[i];
    const Bill a = rescaled_bill(price.x, discount.x, rate.x, terms);
    const Bill b = rescaled_bill(price.y, discount.y, rate.y, terms);
    reinterpret_cast<ulonglong2*>(out.total)[i] = make_ulonglong2(a.total, b.total);
}

void prepared_pairs(const Lines& in, const Terms& terms, const TotalOnly& out) {
    bill_pairs<<<blocks_for(in.rows / 2), kThreads>>>(in, terms, out);
}
//: end

//: variant by_value
template <int Kinds>
__global__ void payout_by_value(Payouts<Kinds> p) {
    constexpr int kRows = kRowsPerThread<Kinds>;
    const int first = (blockIdx.x * kThreads + threadIdx.x) * kRows;
    if (first >= p.rows) return;
    u32 left[kRows], packed[4] = {};
    load_amounts<kRows>(p.amount, first, left);
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
#pragma unroll
        for (int kind = 0; kind <= Kinds; ++kind) {
            u32 count = left[row];
            if (kind < Kinds) {
                count = left[row] / p.till.value[kind];
                left[row] %= p.till.value[kind];
            }
            const int byte = row * (Kinds + 1) + kind;
            packed[byte / 4] |= count << (8 * (byte % 4));
        }
    }
    reinterpret_cast<uint4*>(p.counts)[first / kRows] =
        make_uint4(packed[0], packed[1], packed[2], packed[3]);
}

template <int Kinds>
void by_value(const Payouts<Kinds>& p) {
    payout_by_value<<<blocks_for(p.rows / kRowsPerThread<Kinds>), kThreads>>>(p);
}
//: end

//: variant by_factor
template <int Kinds>
__global__ void payout_by_factor(Payouts<Kinds> p) {
    constexpr int kRows = kRowsPerThread<Kinds>;
    const int first = (blockIdx.x * kThreads + threadIdx.x) * kRows;
    if (first >= p.rows) return;
    u32 left[kRows], packed[4] = {};
    load_amounts<kRows>(p.amount, first, left);
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
#pragma unroll
        for (int kind = 0; kind <= Kinds; ++kind) {
            u32 count = left[row];
            if (kind < Kinds) {
                count = __umulhi(left[row], p.till.factor[kind]) >> p.till.shift[kind];
                left[row] -= count * p.till.value[kind];
            }
            const int byte = row * (Kinds + 1) + kind;
            packed[byte / 4] |= count << (8 * (byte % 4));
        }
    }
    reinterpret_cast<uint4*>(p.counts)[first / kRows] =
        make_uint4(packed[0], packed[1], packed[2], packed[3]);
}

template <int Kinds>
void by_factor(const Payouts<Kinds>& p) {
    payout_by_factor<<<blocks_for(p.rows / kRowsPerThread<Kinds>), kThreads>>>(p);
}
//: end

// --- references and set-up

// In steps of one digit of a schoolbook division, in base 2: shares nothing with the variants.
__device__ u64 reference_rounded(u64 product, u64 divisor) {
    u64 quotient = 0, rest = 0;
    for (int bit = 63; bit >= 0; --bit) {
        rest = 2 * rest + ((product >> bit) & 1);
        quotient = 2 * quotient + (rest >= divisor);
        if (rest >= divisor) rest -= divisor;
    }
    return quotient + (2 * rest >= divisor);
}

// field: 0 net, 1 tax, 2 total
__global__ void reference_bill(Lines in, u64 discount_unit, u64 tax_unit, u64 exchange_rate, u64 exchange_unit,
                               int field, u64* expected) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < in.rows; i += gridDim.x * blockDim.x) {
        const u64 net = reference_rounded(in.price[i] * (discount_unit - in.discount[i]), discount_unit);
        const u64 tax = reference_rounded(net * in.rate[i], tax_unit);
        const u64 total = reference_rounded((net + tax) * exchange_rate, exchange_unit);
        expected[i] = field == 0 ? net : field == 1 ? tax : total;
    }
}

template <int Kinds>
__global__ void reference_payout(Payouts<Kinds> p, unsigned char* expected) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < p.rows; i += gridDim.x * blockDim.x) {
        u32 left = p.amount[i];
        for (int kind = 0; kind < Kinds; ++kind) {
            unsigned char count = 0;
            while (left >= p.till.value[kind]) left -= p.till.value[kind], ++count;
            expected[size_t(i) * (Kinds + 1) + kind] = count;
        }
        expected[size_t(i) * (Kinds + 1) + Kinds] = left;
    }
}

inline int bits_of(u64 divisor) {
    int bits = 0;
    while ((u64{1} << bits) < divisor) ++bits;
    return bits;
}

inline Scale scale_of(u64 divisor) {
    const int bits = bits_of(divisor);
    const auto power = static_cast<unsigned __int128>(1) << (63 + bits);
    return {divisor, divisor / 2, static_cast<u64>((power + divisor - 1) / divisor), bits - 1};
}

constexpr u64 kDiscountUnit = 10000, kTaxUnit = 100000, kExchangeUnit = 1000003, kExchangeRate = 1087391;

inline Terms terms_of_query() {
    return {scale_of(kDiscountUnit), scale_of(kTaxUnit), scale_of(kExchangeUnit), kExchangeRate};
}

inline Lines invoice_lines(book::Problem& p, int rows) {
    Lines in{rows};
    in.price = p.uniform<u64>(rows, 1e9, 1e11);
    in.discount = p.uniform<u32>(rows, 0, 2500);
    in.rate = p.uniform<u32>(rows, 5000, 25000);
    return in;
}

inline void check_field(book::Problem& p, const Lines& in, int field, const u64* result) {
    p.check<u64>(result, in.rows, {0}, [=](u64* expected) {
        reference_bill<<<1056, 256>>>(in, kDiscountUnit, kTaxUnit, kExchangeRate, kExchangeUnit, field, expected);
    });
}

template <int Kinds>
Payouts<Kinds> payout_problem(book::Problem& p, int rows, const std::vector<u32>& values) {
    Payouts<Kinds> payouts{rows};
    payouts.amount = p.uniform<u32>(rows, 0, 400000);
    auto* counts = p.output<u32>(size_t(rows) * (Kinds + 1) / 4);
    payouts.counts = counts;
    for (int kind = 0; kind < Kinds; ++kind) {
        const u32 value = values[kind];
        const int bits = bits_of(value);
        payouts.till.value[kind] = value;
        payouts.till.factor[kind] = static_cast<u32>(((u64{1} << (31 + bits)) + value - 1) / value);
        payouts.till.shift[kind] = bits - 1;
    }
    p.needs({.dram_bytes = rows * (4.0 + Kinds + 1), .int_op = 4.0 * Kinds * rows});
    p.check<unsigned char>(reinterpret_cast<unsigned char*>(counts), size_t(rows) * (Kinds + 1), {0},
                           [=](unsigned char* expected) {
                               reference_payout<<<1056, 256>>>(payouts, expected);
                           });
    return payouts;
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("invoice", [](book::Problem& p) {
        const Lines in = invoice_lines(p, 6 << 20);
        const TotalOnly out{p.output<u64>(in.rows)};
        const Terms terms = terms_of_query();
        p.needs({.dram_bytes = 24.0 * in.rows, .int_op = 45.0 * in.rows});
        check_field(p, in, 2, out.total);
        p.variant("wide", [=] { wide(in, terms, out); });
        p.variant("by_scale", [=] { by_scale(in, terms, out); });
        p.variant("fixed_scales", [=] { fixed_scales(in, terms, out); });
        p.variant("prepared", [=] { prepared(in, terms, out); });
        p.variant("prepared_pairs", [=] { prepared_pairs(in, terms, out); });
    });
    book.problem("breakdown", [](book::Problem& p) {
        const Lines in = invoice_lines(p, 4 << 20);
        const Breakdown out{p.output<u64>(in.rows), p.output<u64>(in.rows), p.output<u64>(in.rows)};
        const Terms terms = terms_of_query();
        p.needs({.dram_bytes = 40.0 * in.rows, .int_op = 45.0 * in.rows});
        check_field(p, in, 0, out.net);
        check_field(p, in, 1, out.tax);
        check_field(p, in, 2, out.total);
        p.variant("fixed_scales", [=] { fixed_scales(in, terms, out); });
        p.variant("prepared", [=] { prepared(in, terms, out); });
    });
    book.problem("payout", [](book::Problem& p) {
        const auto payouts = payout_problem<7>(p, 12 << 20, {20000, 10000, 5000, 2000, 1000, 500, 200});
        p.variant("by_value", [=] { by_value(payouts); });
        p.variant("by_factor", [=] { by_factor(payouts); });
    });
    book.problem("rolls", [](book::Problem& p) {
        const auto payouts = payout_problem<3>(p, 16 << 20, {20000, 2000, 200});
        p.variant("by_value", [=] { by_value(payouts); });
        p.variant("by_factor", [=] { by_factor(payouts); });
    });
    return book.finish();
}
