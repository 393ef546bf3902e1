// Interpolation in tables: cubic in a curve, rows of a table of bands, clipped curves, a table of the host.
#include "../../harness/book.h"

//: shared
constexpr int kBlocks = 132 * 8;
constexpr int kThreads = 256;

// Relaxes towards the cube root of `value`, `kSteps` explicit steps.
template <int kSteps>
__device__ float relaxed(float value) {
    float y = value;
#pragma unroll 16
    for (int s = 0; s < kSteps; ++s) y += 0.01f * (value - y * y * y);
    return y;
}

// Catmull-Rom through four neighbours.
__device__ float cubic(float a, float b, float c, float d, float f) {
    const float c1 = 0.5f * (c - a);
    const float c2 = a - 2.5f * b + 2.0f * c - 0.5f * d;
    const float c3 = 0.5f * (d - a) + 1.5f * (b - c);
    return b + f * (c1 + f * (c2 + f * c3));
}

struct Curve {
    int count, points;
    const float* x;
    const float* table;
    const int* cancel;
    float* y;
};
//: end

//: variant direct_polled
template <int kSteps>
__global__ void curve_direct_polled(const float* __restrict__ x, const float* __restrict__ table,
                                    const volatile int* cancel, float* __restrict__ y, int count,
                                    int points) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        if (*cancel != 0) return;
        const float t = x[i] * (points - 3);
        const int k = min(int(t), points - 4);
        y[i] = relaxed<kSteps>(cubic(table[k], table[k + 1], table[k + 2], table[k + 3], t - k));
    }
}

template <int kSteps>
void direct_polled(const Curve& c) {
    curve_direct_polled<kSteps><<<kBlocks, kThreads>>>(c.x, c.table, c.cancel, c.y, c.count, c.points);
}
//: end

//: variant direct
template <int kSteps>
__global__ void curve_direct(const float* __restrict__ x, const float* __restrict__ table,
                             const volatile int* cancel, float* __restrict__ y, int count, int points) {
    if (*cancel != 0) return;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        const float t = x[i] * (points - 3);
        const int k = min(int(t), points - 4);
        y[i] = relaxed<kSteps>(cubic(table[k], table[k + 1], table[k + 2], table[k + 3], t - k));
    }
}

template <int kSteps>
void direct(const Curve& c) {
    curve_direct<kSteps><<<kBlocks, kThreads>>>(c.x, c.table, c.cancel, c.y, c.count, c.points);
}
//: end

//: variant staged_polled
template <int kSteps>
__global__ void curve_staged_polled(const float* __restrict__ x, const float* __restrict__ table,
                                    const volatile int* cancel, float* __restrict__ y, int count,
                                    int points) {
    extern __shared__ float near_table[];
    for (int k = threadIdx.x; k < points; k += blockDim.x) near_table[k] = table[k];
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        if (*cancel != 0) return;
        const float t = x[i] * (points - 3);
        const int k = min(int(t), points - 4);
        y[i] = relaxed<kSteps>(
            cubic(near_table[k], near_table[k + 1], near_table[k + 2], near_table[k + 3], t - k));
    }
}

template <int kSteps>
void staged_polled(const Curve& c) {
    curve_staged_polled<kSteps><<<kBlocks, kThreads, c.points * sizeof(float)>>>(
        c.x, c.table, c.cancel, c.y, c.count, c.points);
}
//: end

//: variant staged
template <int kSteps>
__global__ void curve_staged(const float* __restrict__ x, const float* __restrict__ table,
                             const volatile int* cancel, float* __restrict__ y, int count, int points) {
    extern __shared__ float near_table[];
    if (*cancel != 0) return;
    for (int k = threadIdx.x; k < points; k += blockDim.x) near_table[k] = table[k];
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        const float t = x[i] * (points - 3);
        const int k = min(int(t), points - 4);
        y[i] = relaxed<kSteps>(
            cubic(near_table[k], near_table[k + 1], near_table[k + 2], near_table[k + 3], t - k));
    }
}

template <int kSteps>
void staged(const Curve& c) {
    curve_staged<kSteps><<<kBlocks, kThreads, c.points * sizeof(float)>>>(c.x, c.table, c.cancel, c.y,
                                                                          c.count, c.points);
}
//: end

// --- absorption of an item in several bands: one row of a table, found by the item's energy

//: shared
struct Bands {
    int count, rows, bands;
    const float* energy;   // of each item
    const float* table;    // [row][band]
    const float* density;  // [band][item]
    float* absorbed;       // [band][item]
};

template <bool kLinear>
__global__ void absorb(const float* __restrict__ energy, const float* __restrict__ table,
                       const float* __restrict__ density, float* __restrict__ absorbed, int count,
                       int rows, int bands, int pitch) {
    extern __shared__ float near_rows[];
    for (int j = threadIdx.x; j < rows * bands; j += blockDim.x) {
        near_rows[j / bands * pitch + j % bands] = table[j];
    }
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        const float t = energy[i] * (rows - 1);
        const int k = min(int(t), rows - 2);
        const float f = t - k;
        const float* row = near_rows + k * pitch;
        for (int b = 0; b < bands; ++b) {
            float share = row[b];
            if constexpr (kLinear) share += f * (row[b + pitch] - share);
            absorbed[b * count + i] = share * density[b * count + i];
        }
    }
}

template <bool kLinear>
void absorb_with(const Bands& d, int pitch) {
    absorb<kLinear><<<132 * 6, 256, d.rows * pitch * sizeof(float)>>>(
        d.energy, d.table, d.density, d.absorbed, d.count, d.rows, d.bands, pitch);
}
//: end

//: variant rows
template <bool kLinear>
void rows(const Bands& d) {
    absorb_with<kLinear>(d, d.bands);
}
//: end

//: variant rows_apart
template <bool kLinear>
void rows_apart(const Bands& d) {
    absorb_with<kLinear>(d, d.bands + 1);
}
//: end

// --- a curve that is continued by relaxation where x lies beyond its end

//: shared
constexpr int kTile = 2048;
constexpr int kPoints = 256;

struct Clipped {
    int count;
    const float* x;
    const float* table;
    float* y;
};

__device__ float inside(const float* table, float x) {
    const float t = x * (kPoints - 1);
    const int k = min(int(t), kPoints - 2);
    return table[k] + (t - k) * (table[k + 1] - table[k]);
}
//: end

//: variant in_place
__global__ void clipped_in_place(const float* __restrict__ x, const float* __restrict__ table,
                                 float* __restrict__ y) {
    __shared__ float near_table[kPoints];
    for (int k = threadIdx.x; k < kPoints; k += blockDim.x) near_table[k] = table[k];
    __syncthreads();
    const int start = blockIdx.x * kTile;
    for (int j = threadIdx.x; j < kTile; j += blockDim.x) {
        const float at = x[start + j];
        if (at < 1.0f) {
            y[start + j] = inside(near_table, at);
        } else {
            y[start + j] = relaxed<128>(at);
        }
    }
}

void in_place(const Clipped& d) {
    clipped_in_place<<<d.count / kTile, 256>>>(d.x, d.table, d.y);
}
//: end

//: variant set_aside
__global__ void clipped_set_aside(const float* __restrict__ x, const float* __restrict__ table,
                                  float* __restrict__ y) {
    __shared__ float near_table[kPoints];
    __shared__ short aside[kTile];
    __shared__ int waiting;
    for (int k = threadIdx.x; k < kPoints; k += blockDim.x) near_table[k] = table[k];
    if (threadIdx.x == 0) waiting = 0;
    __syncthreads();
    const int start = blockIdx.x * kTile;
    for (int j = threadIdx.x; j < kTile; j += blockDim.x) {
        const float at = x[start + j];
        if (at < 1.0f) {
            y[start + j] = inside(near_table, at);
        } else {
            aside[atomicAdd(&waiting, 1)] = static_cast<short>(j);
        }
    }
    __syncthreads();
    for (int w = threadIdx.x; w < waiting; w += blockDim.x) {
        const int j = aside[w];
        y[start + j] = relaxed<128>(x[start + j]);
    }
}

void set_aside(const Clipped& d) {
    clipped_set_aside<<<d.count / kTile, 256>>>(d.x, d.table, d.y);
}
//: end

// --- a large table that the program keeps in pinned memory of the host

//: shared
struct Remote {
    int count, points;
    const float* x;
    const float* table;  // where the program keeps it
    float* space;        // room for the table on the GPU
    float* y;
};

__global__ void look_up(const float* __restrict__ x, const float* __restrict__ table,
                        float* __restrict__ y, int count, int points) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const float t = x[i];  // in cells of the table
    const int k = min(int(t), points - 2);
    const float low = table[k];
    y[i] = low + (t - k) * (table[k + 1] - low);
}
//: end

//: variant from_program
void from_program(const Remote& d) {
    look_up<<<(d.count + 127) / 128, 128>>>(d.x, d.table, d.y, d.count, d.points);
}
//: end

//: variant brought_over
void brought_over(const Remote& d) {
    BOOK_CHECK(cudaMemcpyAsync(d.space, d.table, d.points * sizeof(float), cudaMemcpyHostToDevice));
    look_up<<<(d.count + 127) / 128, 128>>>(d.x, d.space, d.y, d.count, d.points);
}
//: end

// --- references

__global__ void reference_curve(const float* x, const float* table, float* expected, int count, int points,
                                int steps) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        const float t = x[i] * (points - 3);
        const int k = min(int(floorf(t)), points - 4);
        const double f = double(t) - k;
        const double p0 = table[k], p1 = table[k + 1], p2 = table[k + 2], p3 = table[k + 3];
        double v = 0.5 * (2 * p1 + f * (p2 - p0) + f * f * (2 * p0 - 5 * p1 + 4 * p2 - p3) +
                          f * f * f * (3 * (p1 - p2) + p3 - p0));
        float y = float(v);
        const float goal = y;
        for (int s = 0; s < steps; ++s) y += 0.01f * (goal - y * y * y);
        expected[i] = y;
    }
}

__global__ void reference_bands(Bands d, float* expected, bool linear) {
    for (size_t j = blockIdx.x * size_t{blockDim.x} + threadIdx.x; j < size_t(d.count) * d.bands;
         j += size_t{gridDim.x} * blockDim.x) {
        const int b = j / d.count, i = j % d.count;
        const float t = d.energy[i] * (d.rows - 1);
        const int k = min(int(floorf(t)), d.rows - 2);
        const double low = d.table[k * d.bands + b], high = d.table[(k + 1) * d.bands + b];
        const double share = linear ? low + (double(t) - k) * (high - low) : low;
        expected[j] = float(share * d.density[j]);
    }
}

__global__ void reference_clipped(const float* x, const float* table, float* expected, int count) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        if (x[i] < 1) {
            const float t = x[i] * (kPoints - 1);
            const int k = min(int(floorf(t)), kPoints - 2);
            expected[i] = float(table[k] + (double(t) - k) * (double(table[k + 1]) - table[k]));
        } else {
            float y = x[i];
            for (int s = 0; s < 128; ++s) y += 0.01f * (x[i] - y * y * y);
            expected[i] = y;
        }
    }
}

__global__ void reference_linear(const float* x, const float* table, float* expected, int count, int points) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        const float t = x[i];
        const int k = min(int(floorf(t)), points - 2);
        expected[i] = float(table[k] + (double(t) - k) * (double(table[k + 1]) - table[k]));
    }
}

// --- problems

Curve curve_of(book::Problem& p, int count, int points, int steps) {
    Curve c{count, points};
    c.x = p.uniform<float>(count, 0, 1);
    c.table = p.uniform<float>(points, 0.2, 1);
    c.cancel = p.input<int>(1, [] __device__(size_t) { return 0; });
    c.y = p.output<float>(count);
    p.needs({.dram_bytes = 8.0 * count, .fp32_flop = count * (5.0 * steps + 20)});
    p.check<float>(c.y, count, {1e-3, 1e-3}, [=](float* expected) {
        reference_curve<<<1056, 256>>>(c.x, c.table, expected, count, points, steps);
    });
    return c;
}

Bands bands_of(book::Problem& p, int count, int bands, bool linear) {
    Bands d{count, 256, bands};
    d.energy = p.uniform<float>(count, 0, 1);
    d.table = p.uniform<float>(d.rows * bands, 0.5, 2);
    d.density = p.uniform<float>(size_t(count) * bands, 0.1, 1);
    d.absorbed = p.output<float>(size_t(count) * bands);
    p.needs({.dram_bytes = 4.0 * count * (1 + 2.0 * bands), .fp32_flop = 4.0 * count * bands});
    p.check<float>(d.absorbed, size_t(count) * bands, {1e-4, 1e-5}, [=](float* expected) {
        reference_bands<<<1056, 256>>>(d, expected, linear);
    });
    return d;
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("curve", [](book::Problem& p) {
        const Curve c = curve_of(p, 20 << 20, 4096, 0);
        p.variant("direct_polled", [=] { direct_polled<0>(c); });
        p.variant("direct", [=] { direct<0>(c); });
        p.variant("staged_polled", [=] { staged_polled<0>(c); });
        p.variant("staged", [=] { staged<0>(c); });
    });
    book.problem("relaxed", [](book::Problem& p) {
        const Curve c = curve_of(p, 4 << 20, 4096, 320);
        p.variant("direct", [=] { direct<320>(c); });
        p.variant("staged", [=] { staged<320>(c); });
    });
    book.problem("bands16", [](book::Problem& p) {
        const Bands d = bands_of(p, 1 << 20, 16, true);
        p.variant("rows", [=] { rows<true>(d); });
        p.variant("rows_apart", [=] { rows_apart<true>(d); });
    });
    book.problem("bands8", [](book::Problem& p) {
        const Bands d = bands_of(p, 2 << 20, 8, true);
        p.variant("rows", [=] { rows<true>(d); });
        p.variant("rows_apart", [=] { rows_apart<true>(d); });
    });
    book.problem("bands4_nearest", [](book::Problem& p) {
        const Bands d = bands_of(p, 4 << 20, 4, false);
        p.variant("rows", [=] { rows<false>(d); });
        p.variant("rows_apart", [=] { rows_apart<false>(d); });
    });
    book.problem("clipped", [](book::Problem& p) {
        Clipped d{16 << 20};
        d.x = p.uniform<float>(d.count, 0, 1.0101);
        d.table = p.uniform<float>(kPoints, 0, 1);
        d.y = p.output<float>(d.count);
        p.needs({.dram_bytes = 8.0 * d.count, .fp32_flop = d.count * (5.0 + 0.01 * 5 * 128)});
        p.check<float>(d.y, d.count, {1e-4, 1e-4}, [=](float* expected) {
            reference_clipped<<<1056, 256>>>(d.x, d.table, expected, d.count);
        });
        p.variant("in_place", [=] { in_place(d); });
        p.variant("set_aside", [=] { set_aside(d); });
    });
    book.problem("remote", [](book::Problem& p) {
        Remote d{512 << 10, 1 << 20};
        d.x = p.uniform<float>(d.count, 0, d.points - 1);
        float* table = p.host_mapped<float>(d.points);
        for (int k = 0; k < d.points; ++k) {
            table[k] = static_cast<float>(book::uniform01(p.seed(), 77, k));
        }
        d.table = table;
        d.space = p.output<float>(d.points);
        d.y = p.output<float>(d.count);
        p.needs({.dram_bytes = 8.0 * d.count, .link_bytes = 4.0 * d.points});
        p.check<float>(d.y, d.count, {1e-4, 1e-4}, [=](float* expected) {
            reference_linear<<<1056, 256>>>(d.x, table, expected, d.count, d.points);
        });
        p.variant("from_program", [=] { from_program(d); });
        p.variant("brought_over", [=] { brought_over(d); });
    });
    return book.finish();
}
