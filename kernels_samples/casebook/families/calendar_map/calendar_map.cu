// Series of measurements by year, day, slot of the day and station. Extents are known at run time
// only; each kernel finds the place of an element in the calendar from its number or its time.
#include "../../harness/book.h"

//: shared
// Values are stored as [year][day][slot][station], a calendar table as [slot][day][station].
template <class T>
struct Series {
    int years, days, slots, stations;
    const T* values;
    const T* table;
    T* out;
    size_t count() const { return size_t(years) * days * slots * stations; }
};

__device__ inline float against(float value, float usual) {
    return value - usual;
}

__device__ inline float4 against(float4 value, float4 usual) {
    return make_float4(value.x - usual.x, value.y - usual.y, value.z - usual.z, value.w - usual.w);
}

// Quotients by a divisor of 2 or more that is fixed for a launch, for dividends below 2^31.
struct Divider {
    unsigned divisor, factor, shift;
    explicit Divider(unsigned d) : divisor(d), shift(0) {
        while ((1ull << (shift + 1)) < d) ++shift;  // shift + 1 is the ceiling of log2(d)
        factor = unsigned(((1ull << (32 + shift)) + d - 1) / d);
    }
    __device__ unsigned divide(unsigned n, unsigned* rest) const {
        const unsigned quotient = __umulhi(n, factor) >> shift;
        *rest = n - quotient * divisor;
        return quotient;
    }
};

template <class T>
unsigned blocks_of(const Series<T>& s) {
    return unsigned((s.count() + 255) / 256);
}
//: end

//: variant by_size_t
template <class T>
__global__ void compare_by_size_t(const T* values, const T* table, T* out, size_t count, size_t days,
                                  size_t slots, size_t stations) {
    const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
    if (i >= count) return;
    const size_t station = i % stations;
    const size_t slot = i / stations % slots;
    const size_t day = i / stations / slots % days;
    out[i] = against(values[i], table[(slot * days + day) * stations + station]);
}

template <class T>
void by_size_t(const Series<T>& s) {
    compare_by_size_t<<<blocks_of(s), 256>>>(s.values, s.table, s.out, s.count(), s.days, s.slots,
                                             s.stations);
}
//: end

//: variant by_unsigned
template <class T>
__global__ void compare_by_unsigned(const T* values, const T* table, T* out, unsigned count,
                                    unsigned days, unsigned slots, unsigned stations) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const unsigned station = i % stations;
    const unsigned slot = i / stations % slots;
    const unsigned day = i / stations / slots % days;
    out[i] = against(values[i], table[(slot * days + day) * stations + station]);
}

template <class T>
void by_unsigned(const Series<T>& s) {
    compare_by_unsigned<<<blocks_of(s), 256>>>(s.values, s.table, s.out, unsigned(s.count()), s.days,
                                               s.slots, s.stations);
}
//: end

//: variant by_divider
template <class T>
__global__ void compare_by_divider(const T* values, const T* table, T* out, unsigned count,
                                   Divider days, Divider slots, Divider stations) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    unsigned station, slot, day;
    const unsigned row = stations.divide(i, &station);
    days.divide(slots.divide(row, &slot), &day);
    out[i] = against(values[i], table[(slot * days.divisor + day) * stations.divisor + station]);
}

template <class T>
void by_divider(const Series<T>& s) {
    compare_by_divider<<<blocks_of(s), 256>>>(s.values, s.table, s.out, unsigned(s.count()),
                                              Divider(s.days), Divider(s.slots), Divider(s.stations));
}
//: end

//: shared
// An ensemble of forecasts, stored as [member][year][day][slot][level][station], is brought into the
// order [level][slot][day][year][member][station].
struct Ensemble {
    int members, years, days, slots, levels, stations;
    const __half* in;
    __half* out;
    unsigned count() const { return unsigned(members) * years * days * slots * levels * stations; }
};
//: end

//: variant reorder
__global__ void reorder_ensemble(const __half* in, __half* out, unsigned count, unsigned members,
                                 unsigned years, unsigned days, unsigned slots, unsigned levels,
                                 unsigned stations) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    unsigned rest = i / stations;
    const unsigned station = i % stations;
    const unsigned member = rest % members;
    rest /= members;
    const unsigned year = rest % years;
    rest /= years;
    const unsigned day = rest % days;
    rest /= days;
    const unsigned slot = rest % slots, level = rest / slots;
    const unsigned row = (((member * years + year) * days + day) * slots + slot) * levels + level;
    out[i] = in[row * stations + station];
}

void reorder(const Ensemble& e) {
    reorder_ensemble<<<(e.count() + 255) / 256, 256>>>(e.in, e.out, e.count(), e.members, e.years, e.days,
                                                       e.slots, e.levels, e.stations);
}
//: end

//: variant reorder_divider
__global__ void reorder_ensemble_divider(const __half* in, __half* out, unsigned count, Divider members,
                                         Divider years, Divider days, Divider slots, unsigned levels,
                                         Divider stations) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    unsigned station, member, year, day, slot;
    unsigned rest = stations.divide(i, &station);
    rest = members.divide(rest, &member);
    rest = years.divide(rest, &year);
    rest = days.divide(rest, &day);
    const unsigned level = slots.divide(rest, &slot);
    const unsigned row =
        (((member * years.divisor + year) * days.divisor + day) * slots.divisor + slot) * levels + level;
    out[i] = in[row * stations.divisor + station];
}

void reorder_divider(const Ensemble& e) {
    reorder_ensemble_divider<<<(e.count() + 255) / 256, 256>>>(
        e.in, e.out, e.count(), Divider(e.members), Divider(e.years), Divider(e.days), Divider(e.slots),
        e.levels, Divider(e.stations));
}
//: end

//: shared
// Meter readings: the tariff at each time. Times are in microseconds since 2000.
struct Readings {
    size_t count;
    unsigned long long slot_length;  // microseconds
    unsigned slots;                  // after which the tariff repeats
    const unsigned long long* times;
    const float* tariff;
    float* out;
};
//: end

//: variant stamps
__global__ void tariff_stamps(Readings r) {
    const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
    if (i >= r.count) return;
    r.out[i] = r.tariff[r.times[i] / r.slot_length % r.slots];
}

void stamps(const Readings& r) {
    tariff_stamps<<<unsigned((r.count + 255) / 256), 256>>>(r);
}
//: end

//: variant stamps_divider
// For dividends below 2^63 and divisors that are no power of two.
struct LongDivider {
    unsigned long long factor;
    unsigned shift;
    explicit LongDivider(unsigned long long d) : shift(0) {
        while ((1ull << (shift + 1)) < d) ++shift;
        factor = static_cast<unsigned long long>((((unsigned __int128)1 << (64 + shift)) + d - 1) / d);
    }
};

__global__ void tariff_stamps_divider(Readings r, LongDivider length, Divider slots) {
    const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
    if (i >= r.count) return;
    unsigned slot;
    slots.divide(unsigned(__umul64hi(r.times[i], length.factor) >> length.shift), &slot);
    r.out[i] = r.tariff[slot];
}

void stamps_divider(const Readings& r) {
    tariff_stamps_divider<<<unsigned((r.count + 255) / 256), 256>>>(r, LongDivider(r.slot_length),
                                                                    Divider(r.slots));
}
//: end

//: shared
// Consumption in half precision as [step][station], weighted by the slot of the week of each step.
constexpr int kChunk = 64;  // steps of a thread

struct Load {
    int steps, stations;        // multiples of kChunk and 256
    int steps_per_slot, slots;  // after which the weights repeat
    const __half* values;
    const float* weights;
    float* sums;                // [chunk][station]
};

inline dim3 chunks_of(const Load& l) {
    return dim3(l.stations / 256, l.steps / kChunk);
}
//: end

//: variant slot_of_step
__global__ void weigh_slot_of_step(Load l) {
    const int station = blockIdx.x * 256 + threadIdx.x, first = blockIdx.y * kChunk;
    const __half* value = l.values + size_t(first) * l.stations + station;
    float sum = 0;
    for (int step = first; step < first + kChunk; ++step, value += l.stations) {
        const int slot = step / l.steps_per_slot % l.slots;
        sum += l.weights[slot] * __half2float(*value);
    }
    l.sums[size_t(blockIdx.y) * l.stations + station] = sum;
}

void slot_of_step(const Load& l) {
    weigh_slot_of_step<<<chunks_of(l), 256>>>(l);
}
//: end

//: variant slot_counted
__global__ void weigh_slot_counted(Load l) {
    const int station = blockIdx.x * 256 + threadIdx.x, first = blockIdx.y * kChunk;
    const __half* value = l.values + size_t(first) * l.stations + station;
    int slot = first / l.steps_per_slot % l.slots, within = first % l.steps_per_slot;
    float sum = 0;
    for (int step = first; step < first + kChunk; ++step, value += l.stations) {
        sum += l.weights[slot] * __half2float(*value);
        if (++within == l.steps_per_slot) {
            within = 0;
            if (++slot == l.slots) slot = 0;
        }
    }
    l.sums[size_t(blockIdx.y) * l.stations + station] = sum;
}

void slot_counted(const Load& l) {
    weigh_slot_counted<<<chunks_of(l), 256>>>(l);
}
//: end

template <class T>
__global__ void reference_compare(Series<T> s, T* expected) {
    const size_t row = blockIdx.x;  // one year, day and slot
    const size_t slot = row % s.slots, day = row / s.slots % s.days;
    for (int k = threadIdx.x; k < s.stations; k += blockDim.x) {
        const T a = s.values[row * s.stations + k], b = s.table[(slot * s.days + day) * s.stations + k];
        expected[row * s.stations + k] = a - b;
    }
}

__global__ void reference_reorder(Ensemble e, __half* expected) {
    const int member = blockIdx.x % e.members, year = blockIdx.x / e.members, day = blockIdx.y;
    for (int level = 0; level < e.levels; ++level) {
        for (int slot = 0; slot < e.slots; ++slot) {
            size_t from = size_t(member) * e.years + year, to = size_t(level) * e.slots + slot;
            from = ((from * e.days + day) * e.slots + slot) * e.levels + level;
            to = ((to * e.days + day) * e.years + year) * e.members + member;
            for (int k = threadIdx.x; k < e.stations; k += blockDim.x) {
                expected[to * e.stations + k] = e.in[from * e.stations + k];
            }
        }
    }
}

__global__ void reference_tariff(Readings r, float* expected) {
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < r.count;
         i += size_t{gridDim.x} * blockDim.x) {
        const unsigned long long slot = r.times[i] / r.slot_length;
        expected[i] = r.tariff[slot - slot / r.slots * r.slots];
    }
}

__global__ void reference_weigh(Load l, float* expected) {
    const int station = blockIdx.x * blockDim.x + threadIdx.x, chunk = blockIdx.y;
    double sum = 0;
    for (int k = 0; k < kChunk; ++k) {
        const int step = chunk * kChunk + k;
        const int slot = step % (l.steps_per_slot * l.slots) / l.steps_per_slot;
        sum += double(l.weights[slot]) * double(__half2float(l.values[size_t(step) * l.stations + station]));
    }
    expected[size_t(chunk) * l.stations + station] = float(sum);
}

template <class T>
Series<T> set_up(book::Problem& p, int years, int days, int slots, int stations, double high) {
    Series<T> s{years, days, slots, stations};
    const size_t count = s.count(), table = count / years;
    s.values = p.uniform<T>(count, 0, high);
    s.table = p.uniform<T>(table, 0, high);
    s.out = p.output<T>(count);
    p.needs({.dram_bytes = sizeof(T) * (2.0 * count + table)});
    p.check<T>(s.out, count, {0}, [=](T* expected) {
        reference_compare<<<years * days * slots, 256>>>(s, expected);
    });
    return s;
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("hourly", [](book::Problem& p) {
        const auto s = set_up<float>(p, 4, 365, 24, 720, 40);
        p.variant("by_size_t", [=] { by_size_t(s); });
        p.variant("by_unsigned", [=] { by_unsigned(s); });
        p.variant("by_divider", [=] { by_divider(s); });
    });
    book.problem("ensemble", [](book::Problem& p) {
        Ensemble e{5, 3, 73, 8, 6, 480};
        e.in = p.uniform<__half>(e.count(), 0, 100);
        e.out = p.output<__half>(e.count());
        p.needs({.dram_bytes = 4.0 * e.count()});
        p.check<__half>(e.out, e.count(), {0}, [=](__half* expected) {
            reference_reorder<<<dim3(e.members * e.years, e.days), 128>>>(e, expected);
        });
        p.variant("reorder", [=] { reorder(e); });
        p.variant("reorder_divider", [=] { reorder_divider(e); });
    });
    book.problem("four_levels", [](book::Problem& p) {
        // The same numbers as groups of four floats, which belong to one station.
        const auto s = set_up<float>(p, 4, 365, 24, 720, 40);
        const Series<float4> levels{4, 365, 24, 180, reinterpret_cast<const float4*>(s.values),
                                    reinterpret_cast<const float4*>(s.table),
                                    reinterpret_cast<float4*>(s.out)};
        p.variant("by_unsigned", [=] { by_unsigned(levels); });
        p.variant("by_divider", [=] { by_divider(levels); });
    });
    book.problem("meter_times", [](book::Problem& p) {
        Readings r{size_t{16} << 20, 900'000'000ull, 672};  // a quarter of an hour; a week
        const uint64_t seed = p.seed();
        r.times = p.input<unsigned long long>(r.count, [=] __device__(size_t i) {
            return static_cast<unsigned long long>(9.0e14 * book::uniform01(seed, 77, i));
        });
        r.tariff = p.uniform<float>(r.slots, 0, 1);
        r.out = p.output<float>(r.count);
        p.needs({.dram_bytes = 12.0 * r.count});
        p.check<float>(r.out, r.count, {0}, [=](float* expected) {
            reference_tariff<<<1056, 256>>>(r, expected);
        });
        p.variant("stamps", [=] { stamps(r); });
        p.variant("stamps_divider", [=] { stamps_divider(r); });
    });
    book.problem("weekly_load", [](book::Problem& p) {
        Load l{4096, 12288, 3, 56};
        const size_t count = size_t(l.steps) * l.stations, sums = count / kChunk;
        l.values = p.uniform<__half>(count, 0, 1);
        l.weights = p.uniform<float>(l.slots, 0.5, 1.5);
        l.sums = p.output<float>(sums);
        p.needs({.dram_bytes = 2.0 * count + 4.0 * sums, .fp32_flop = 2.0 * count});
        p.check<float>(l.sums, sums, {1e-5}, [=](float* expected) {
            reference_weigh<<<dim3(l.stations / 256, l.steps / kChunk), 256>>>(l, expected);
        });
        p.variant("slot_of_step", [=] { slot_of_step(l); });
        p.variant("slot_counted", [=] { slot_counted(l); });
    });
    return book.finish();
}
