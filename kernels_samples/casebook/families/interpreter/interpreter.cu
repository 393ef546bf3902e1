// Programs of one-byte operations, run over batches of records.
//
// Transform programs: a batch of 128 records has a program of 64 operations; operation k replaces the
// value of a record by a polynomial of degree 47 of it, with the coefficients of operation k. Values are
// floats, or whole numbers modulo 2^32.
// Formula programs: each record names one of 256 programs of 64 small formulas.
#include "../../harness/book.h"

#include <numeric>
#include <type_traits>

//: shared
constexpr int kOps = 64;     // operations of transform programs
constexpr int kTerms = 48;   // coefficients of an operation
constexpr int kSteps = 64;   // operations of a program
constexpr int kRecords = 4;  // of a thread
constexpr int kBatch = 32 * kRecords;
constexpr int kBlock = 256;

__host__ __device__ constexpr unsigned scrambled(unsigned value) {
    value = (value ^ (value >> 16)) * 0x7feb352du;
    value = (value ^ (value >> 15)) * 0x846ca68bu;
    return value ^ (value >> 16);
}

// Coefficient of the power `power` in operation `op`.
template <class T>
__host__ __device__ constexpr T coefficient(int op, int power) {
    const unsigned bits = scrambled(unsigned(op * kTerms + power));
    if constexpr (std::is_integral_v<T>) {
        return bits;
    } else {
        const float size = power == 0 ? 0.5f : 0.4f / ((power + 1) * (power + 1));
        return (2 * (static_cast<float>(bits >> 8) / (1 << 24)) - 1) * size;
    }
}

template <class T>
struct Transforms {
    int batches;
    const T* in;
    const uint8_t* tape;  // kSteps operations per batch
    const T* terms;       // [kOps][kTerms], highest power first
    T* out;
};

template <int op, class T>
__device__ __forceinline__ void transform(T (&v)[kRecords]) {
    T p[kRecords] = {};
#pragma unroll
    for (int power = kTerms - 1; power >= 0; --power) {
        const T c = coefficient<T>(op, power);
        for (int k = 0; k < kRecords; ++k) p[k] = p[k] * v[k] + c;
    }
    for (int k = 0; k < kRecords; ++k) v[k] = p[k];
}
//: end

//: variant generated
#define OP(n) \
    case (n): transform<(n)>(v); break;
#define OPS_4(n) OP(n) OP((n) + 1) OP((n) + 2) OP((n) + 3)
#define OPS_16(n) OPS_4(n) OPS_4((n) + 4) OPS_4((n) + 8) OPS_4((n) + 12)

template <class T>
__device__ __forceinline__ void apply(int op, T (&v)[kRecords]) {
    switch (op) { OPS_16(0) OPS_16(16) OPS_16(32) OPS_16(48) }
}

template <class T>
__global__ void __launch_bounds__(kBlock) run_generated(const T* in, const uint8_t* tape, T* out) {
    const int batch = blockIdx.x * (kBlock / 32) + threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const uint8_t* program = tape + batch * kSteps;
    T v[kRecords];
    for (int k = 0; k < kRecords; ++k) v[k] = in[batch * kBatch + k * 32 + lane];
    for (int step = 0; step < kSteps; ++step) apply(program[step], v);
    for (int k = 0; k < kRecords; ++k) out[batch * kBatch + k * 32 + lane] = v[k];
}

template <class T>
void generated(const Transforms<T>& d) {
    run_generated<<<d.batches / (kBlock / 32), kBlock>>>(d.in, d.tape, d.out);
}
//: end

//: variant generated_for_two
// For programs of the operations 5 and 37, found when they were loaded.
#define OP(n) \
    case (n): transform<(n)>(v); break;

template <class T>
__device__ __forceinline__ void apply_of_two(int op, T (&v)[kRecords]) {
    switch (op) { OP(5) OP(37) }
}

template <class T>
__global__ void __launch_bounds__(kBlock) run_generated_for_two(const T* in, const uint8_t* tape, T* out) {
    const int batch = blockIdx.x * (kBlock / 32) + threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const uint8_t* program = tape + batch * kSteps;
    T v[kRecords];
    for (int k = 0; k < kRecords; ++k) v[k] = in[batch * kBatch + k * 32 + lane];
    for (int step = 0; step < kSteps; ++step) apply_of_two(program[step], v);
    for (int k = 0; k < kRecords; ++k) out[batch * kBatch + k * 32 + lane] = v[k];
}

template <class T>
void generated_for_two(const Transforms<T>& d) {
    run_generated_for_two<<<d.batches / (kBlock / 32), kBlock>>>(d.in, d.tape, d.out);
}
//: end

//: shared
template <class T>
struct alignas(16) Four {
    T x, y, z, w;
};
//: end

//: variant table
template <class T>
__global__ void __launch_bounds__(kBlock) run_table(const T* in, const uint8_t* tape, const Four<T>* terms,
                                                    T* out) {
    __shared__ Four<T> table[kOps * kTerms / 4];
    for (int i = threadIdx.x; i < kOps * kTerms / 4; i += kBlock) table[i] = terms[i];
    __syncthreads();
    const int batch = blockIdx.x * (kBlock / 32) + threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const uint8_t* program = tape + batch * kSteps;
    T v[kRecords];
    for (int k = 0; k < kRecords; ++k) v[k] = in[batch * kBatch + k * 32 + lane];
    for (int step = 0; step < kSteps; ++step) {
        const Four<T>* row = table + program[step] * (kTerms / 4);
        T p[kRecords] = {};
#pragma unroll
        for (int j = 0; j < kTerms / 4; ++j) {
            const Four<T> c = row[j];
            for (int k = 0; k < kRecords; ++k) {
                p[k] = (((p[k] * v[k] + c.x) * v[k] + c.y) * v[k] + c.z) * v[k] + c.w;
            }
        }
        for (int k = 0; k < kRecords; ++k) v[k] = p[k];
    }
    for (int k = 0; k < kRecords; ++k) out[batch * kBatch + k * 32 + lane] = v[k];
}

template <class T>
void table(const Transforms<T>& d) {
    run_table<<<d.batches / (kBlock / 32), kBlock>>>(
        d.in, d.tape, reinterpret_cast<const Four<T>*>(d.terms), d.out);
}
//: end

//: variant table_half_warps
// Half a warp runs a batch, eight records a thread.
template <class T>
__global__ void __launch_bounds__(kBlock) run_table_half_warps(const T* in, const uint8_t* tape,
                                                               const Four<T>* terms, T* out) {
    constexpr int kMore = 2 * kRecords;
    __shared__ Four<T> table[kOps * kTerms / 4];
    for (int i = threadIdx.x; i < kOps * kTerms / 4; i += kBlock) table[i] = terms[i];
    __syncthreads();
    const int batch = blockIdx.x * (kBlock / 16) + threadIdx.x / 16;
    const int lane = threadIdx.x % 16;
    const uint8_t* program = tape + batch * kSteps;
    T v[kMore];
    for (int k = 0; k < kMore; ++k) v[k] = in[batch * kBatch + k * 16 + lane];
    for (int step = 0; step < kSteps; ++step) {
        const Four<T>* row = table + program[step] * (kTerms / 4);
        T p[kMore] = {};
#pragma unroll
        for (int j = 0; j < kTerms / 4; ++j) {
            const Four<T> c = row[j];
            for (int k = 0; k < kMore; ++k) {
                p[k] = (((p[k] * v[k] + c.x) * v[k] + c.y) * v[k] + c.z) * v[k] + c.w;
            }
        }
        for (int k = 0; k < kMore; ++k) v[k] = p[k];
    }
    for (int k = 0; k < kMore; ++k) out[batch * kBatch + k * 16 + lane] = v[k];
}

template <class T>
void table_half_warps(const Transforms<T>& d) {
    run_table_half_warps<<<d.batches / (kBlock / 16), kBlock>>>(
        d.in, d.tape, reinterpret_cast<const Four<T>*>(d.terms), d.out);
}
//: end

// --- formula programs

//: shared
constexpr int kPrograms = 256;

struct Formulas {
    int records;
    const float* in;
    const uint8_t* program;  // of each record
    const int* order;        // the records, by program
    const uint8_t* code;     // [kPrograms][kSteps], operations 0 to 7
    float* out;
};
//: end

//: variant listed_wide
__device__ float formula_wide(int op, float v) {
    switch (op) {
        case 0: return ((0.11 * v - 0.23) * v + 0.41) * v + 0.07;
        case 1: return sqrt(fabsf(v) + 0.1) * 0.7;
        case 2: return v * v * (0.45 - 0.2 * v) + 0.15;
        case 3: return (v + 0.3) / (1.5 + v * v);
        case 4: return exp(-0.9 * v * v) * 0.6;
        case 5: return (0.3 * v + 0.2) * (0.8 - 0.4 * v);
        case 6: return fminf(fabsf(v - 0.4f), 0.5f * v + 0.3f);
        default: return (0.25 * v * v - 0.4) * v + 0.33;
    }
}

__global__ void evaluate_listed_wide(const float* in, const uint8_t* program, const uint8_t* code, float* out,
                                     int records) {
    const int record = blockIdx.x * blockDim.x + threadIdx.x;
    if (record >= records) return;
    const uint8_t* ops = code + program[record] * kSteps;
    float v = in[record];
    for (int step = 0; step < kSteps; ++step) v = formula_wide(ops[step], v);
    out[record] = v;
}

void listed_wide(const Formulas& d) {
    evaluate_listed_wide<<<(d.records + 127) / 128, 128>>>(d.in, d.program, d.code, d.out, d.records);
}
//: end

//: variant listed
__device__ float formula(int op, float v) {
    switch (op) {
        case 0: return ((0.11f * v - 0.23f) * v + 0.41f) * v + 0.07f;
        case 1: return sqrtf(fabsf(v) + 0.1f) * 0.7f;
        case 2: return v * v * (0.45f - 0.2f * v) + 0.15f;
        case 3: return (v + 0.3f) / (1.5f + v * v);
        case 4: return __expf(-0.9f * v * v) * 0.6f;
        case 5: return (0.3f * v + 0.2f) * (0.8f - 0.4f * v);
        case 6: return fminf(fabsf(v - 0.4f), 0.5f * v + 0.3f);
        default: return (0.25f * v * v - 0.4f) * v + 0.33f;
    }
}

__global__ void evaluate_listed(const float* in, const uint8_t* program, const uint8_t* code, float* out,
                                int records) {
    const int record = blockIdx.x * blockDim.x + threadIdx.x;
    if (record >= records) return;
    const uint8_t* ops = code + program[record] * kSteps;
    float v = in[record];
    for (int step = 0; step < kSteps; ++step) v = formula(ops[step], v);
    out[record] = v;
}

void listed(const Formulas& d) {
    evaluate_listed<<<(d.records + 127) / 128, 128>>>(d.in, d.program, d.code, d.out, d.records);
}
//: end

//: variant ordered_wide
__device__ float formula_ordered_wide(int op, float v) {
    switch (op) {
        case 0: return ((0.11 * v - 0.23) * v + 0.41) * v + 0.07;
        case 1: return sqrt(fabsf(v) + 0.1) * 0.7;
        case 2: return v * v * (0.45 - 0.2 * v) + 0.15;
        case 3: return (v + 0.3) / (1.5 + v * v);
        case 4: return exp(-0.9 * v * v) * 0.6;
        case 5: return (0.3 * v + 0.2) * (0.8 - 0.4 * v);
        case 6: return fminf(fabsf(v - 0.4f), 0.5f * v + 0.3f);
        default: return (0.25 * v * v - 0.4) * v + 0.33;
    }
}

__global__ void evaluate_ordered_wide(const float* in, const uint8_t* program, const int* order,
                                      const uint8_t* code, float* out, int records) {
    const int place = blockIdx.x * blockDim.x + threadIdx.x;
    if (place >= records) return;
    const int record = order[place];
    const uint8_t* ops = code + program[record] * kSteps;
    float v = in[record];
    for (int step = 0; step < kSteps; ++step) v = formula_ordered_wide(ops[step], v);
    out[record] = v;
}

void ordered_wide(const Formulas& d) {
    evaluate_ordered_wide<<<(d.records + 127) / 128, 128>>>(d.in, d.program, d.order, d.code, d.out,
                                                            d.records);
}
//: end

//: variant ordered
__device__ float formula_ordered(int op, float v) {
    switch (op) {
        case 0: return ((0.11f * v - 0.23f) * v + 0.41f) * v + 0.07f;
        case 1: return sqrtf(fabsf(v) + 0.1f) * 0.7f;
        case 2: return v * v * (0.45f - 0.2f * v) + 0.15f;
        case 3: return (v + 0.3f) / (1.5f + v * v);
        case 4: return __expf(-0.9f * v * v) * 0.6f;
        case 5: return (0.3f * v + 0.2f) * (0.8f - 0.4f * v);
        case 6: return fminf(fabsf(v - 0.4f), 0.5f * v + 0.3f);
        default: return (0.25f * v * v - 0.4f) * v + 0.33f;
    }
}

__global__ void evaluate_ordered(const float* in, const uint8_t* program, const int* order,
                                 const uint8_t* code, float* out, int records) {
    const int place = blockIdx.x * blockDim.x + threadIdx.x;
    if (place >= records) return;
    const int record = order[place];
    const uint8_t* ops = code + program[record] * kSteps;
    float v = in[record];
    for (int step = 0; step < kSteps; ++step) v = formula_ordered(ops[step], v);
    out[record] = v;
}

void ordered(const Formulas& d) {
    evaluate_ordered<<<(d.records + 127) / 128, 128>>>(d.in, d.program, d.order, d.code, d.out, d.records);
}
//: end

// --- references and problems

template <class T, class Sum>
__global__ void reference_transforms(const T* in, const uint8_t* tape, const T* terms, T* expected, int records) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= records) return;
    Sum v = in[i];
    for (int step = 0; step < kSteps; ++step) {
        const T* row = terms + tape[i / kBatch * kSteps + step] * kTerms;
        Sum p = 0;
#pragma unroll 1
        for (int j = 0; j < kTerms; ++j) p = p * v + Sum(row[j]);
        v = p;
    }
    expected[i] = T(v);
}

__global__ void reference_formulas(const float* in, const uint8_t* program, const uint8_t* code,
                                   float* expected, int records) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= records) return;
    double v = in[i];
    for (int step = 0; step < kSteps; ++step) {
        const int op = code[program[i] * kSteps + step];
        double next = 0;
        if (op == 0) next = 0.11 * v * v * v - 0.23 * v * v + 0.41 * v + 0.07;
        if (op == 1) next = 0.7 * sqrt(fabs(v) + 0.1);
        if (op == 2) next = 0.45 * v * v - 0.2 * v * v * v + 0.15;
        if (op == 3) next = (v + 0.3) / (1.5 + v * v);
        if (op == 4) next = 0.6 * exp(-0.9 * v * v);
        if (op == 5) next = (0.3 * v + 0.2) * (0.8 - 0.4 * v);
        if (op == 6) next = fmin(fabs(v - 0.4), 0.5 * v + 0.3);
        if (op == 7) next = 0.25 * v * v * v - 0.4 * v + 0.33;
        v = next;
    }
    expected[i] = float(v);
}

enum class Mix { uniform, third, favoured, two };

template <class T, class Sum>
void transform_problem(book::Book& book, const char* name, int batches, Mix mix) {
    book.problem(name, [=](book::Problem& p) {
        Transforms<T> d{batches};
        const size_t records = size_t(batches) * kBatch;
        const uint64_t seed = p.seed();
        d.in = p.uniform<T>(records, std::is_integral_v<T> ? 0 : -1, std::is_integral_v<T> ? 4e9 : 1);
        d.tape = p.input<uint8_t>(size_t(batches) * kSteps, [=] __device__(size_t i) {
            const double first = book::uniform01(seed, 101, i), second = book::uniform01(seed, 102, i);
            int op = int(second * kOps);
            if (mix == Mix::third) op = 3 * int(second * (kOps / 3));
            if (mix == Mix::two || (mix == Mix::favoured && first < 0.8)) op = second < 0.5 ? 5 : 37;
            return uint8_t(op);
        });
        std::vector<T> terms(kOps * kTerms);
        for (int op = 0; op < kOps; ++op) {
            for (int j = 0; j < kTerms; ++j) terms[op * kTerms + j] = coefficient<T>(op, kTerms - 1 - j);
        }
        d.terms = p.upload(terms);
        d.out = p.output<T>(records);
        const double bytes = 2.0 * sizeof(T) * records + double(batches) * kSteps;
        const double steps = double(records) * kSteps * (kTerms - 1);
        if (std::is_integral_v<T>) {
            p.needs({.dram_bytes = bytes, .int_op = steps});
            p.check<T>(d.out, records, {0}, [=](T* expected) {
                reference_transforms<T, Sum><<<(records + 255) / 256, 256>>>(d.in, d.tape, d.terms, expected,
                                                                             int(records));
            });
        } else {
            p.needs({.dram_bytes = bytes, .fp32_flop = 2 * steps});
            p.check<T>(d.out, records, {1e-4, 1e-5}, [=](T* expected) {
                reference_transforms<T, Sum><<<(records + 255) / 256, 256>>>(d.in, d.tape, d.terms, expected,
                                                                             int(records));
            });
        }
        p.variant("generated", [=] { generated(d); });
        if (mix == Mix::two) p.variant("generated_for_two", [=] { generated_for_two(d); });
        p.variant("table", [=] { table(d); });
        if (!std::is_integral_v<T>) p.variant("table_half_warps", [=] { table_half_warps(d); });
    });
}

void formula_problem(book::Book& book, const char* name, int records) {
    book.problem(name, [=](book::Problem& p) {
        Formulas d{records};
        const uint64_t seed = p.seed();
        d.in = p.uniform<float>(records, 0, 1);
        std::vector<uint8_t> program(records), code(kPrograms * kSteps);
        for (int i = 0; i < records; ++i) program[i] = uint8_t(book::uniform01(seed, 201, i) * kPrograms);
        for (int i = 0; i < kPrograms * kSteps; ++i) code[i] = uint8_t(book::uniform01(seed, 202, i) * 8);
        std::vector<int> order(records);
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return program[a] < program[b]; });
        d.program = p.upload(program);
        d.code = p.upload(code);
        d.order = p.upload(order);
        d.out = p.output<float>(records);
        // Three of the eight formulas have a root, a reciprocal or an exponential.
        p.needs({.dram_bytes = 9.0 * records, .fp32_flop = 4.0 * records * kSteps,
                 .special_op = 0.375 * records * kSteps});
        p.check<float>(d.out, records, {1e-3, 1e-4}, [=](float* expected) {
            reference_formulas<<<(records + 255) / 256, 256>>>(d.in, d.program, d.code, expected, records);
        });
        p.variant("listed_wide", [=] { listed_wide(d); });
        p.variant("listed", [=] { listed(d); });
        p.variant("ordered_wide", [=] { ordered_wide(d); });
        p.variant("ordered", [=] { ordered(d); });
    });
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    transform_problem<float, double>(book, "any_op", 1 << 14, Mix::uniform);
    transform_problem<float, double>(book, "third_of_ops", 1 << 14, Mix::third);
    transform_problem<float, double>(book, "favoured_ops", 1 << 14, Mix::favoured);
    transform_problem<float, double>(book, "two_ops", 1 << 14, Mix::two);
    transform_problem<uint32_t, uint32_t>(book, "any_op_u32", 1 << 13, Mix::uniform);
    formula_problem(book, "formulas", 1 << 20);
    return book.finish();
}
