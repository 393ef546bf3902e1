// Detector frames: every column has an offset that the control program may change at any time; the
// gain of a long recording; the total signal of a frame.
#include "../../harness/book.h"

//: shared
constexpr int kColumns = 8192;
constexpr int kBlock = 256;

struct Frames {
    int rows;
    const float* in;      // [rows][kColumns]
    const float* offset;  // of each column, kept up to date by the control program
    float* scratch;       // kColumns floats
    float* out;
};

// A block takes 256 columns of `height` rows, a thread one column of them.
template <int height>
__global__ void __launch_bounds__(kBlock) correct_by_column(const float* __restrict__ in,
                                                            const volatile float* offset,
                                                            float* __restrict__ out) {
    const int column = blockIdx.x * kBlock + threadIdx.x;
    const size_t first = size_t(blockIdx.y) * height * kColumns + column;
    const float shift = offset[column];
#pragma unroll 8
    for (int row = 0; row < height; ++row) {
        const size_t at = first + size_t(row) * kColumns;
        out[at] = fmaxf(in[at] - shift, 0.0f);
    }
}

template <int height>
dim3 tiles(const Frames& d) {
    return dim3(kColumns / kBlock, d.rows / height);
}
//: end

//: variant live_4
void live_4(const Frames& d) {
    correct_by_column<4><<<tiles<4>(d), kBlock>>>(d.in, d.offset, d.out);
}
//: end

//: variant copied_4
void copied_4(const Frames& d) {
    cudaMemcpyAsync(d.scratch, d.offset, kColumns * sizeof(float), cudaMemcpyDefault);
    correct_by_column<4><<<tiles<4>(d), kBlock>>>(d.in, d.scratch, d.out);
}
//: end

//: variant live_32
void live_32(const Frames& d) {
    correct_by_column<32><<<tiles<32>(d), kBlock>>>(d.in, d.offset, d.out);
}
//: end

//: variant copied_32
void copied_32(const Frames& d) {
    cudaMemcpyAsync(d.scratch, d.offset, kColumns * sizeof(float), cudaMemcpyDefault);
    correct_by_column<32><<<tiles<32>(d), kBlock>>>(d.in, d.scratch, d.out);
}
//: end

//: variant live_128
void live_128(const Frames& d) {
    correct_by_column<128><<<tiles<128>(d), kBlock>>>(d.in, d.offset, d.out);
}
//: end

//: variant copied_128
void copied_128(const Frames& d) {
    cudaMemcpyAsync(d.scratch, d.offset, kColumns * sizeof(float), cudaMemcpyDefault);
    correct_by_column<128><<<tiles<128>(d), kBlock>>>(d.in, d.scratch, d.out);
}
//: end

//: variant live_256
void live_256(const Frames& d) {
    correct_by_column<256><<<tiles<256>(d), kBlock>>>(d.in, d.offset, d.out);
}
//: end

//: variant copied_256
void copied_256(const Frames& d) {
    cudaMemcpyAsync(d.scratch, d.offset, kColumns * sizeof(float), cudaMemcpyDefault);
    correct_by_column<256><<<tiles<256>(d), kBlock>>>(d.in, d.scratch, d.out);
}
//: end

//: shared
constexpr int kWide = 1024;
//: end

//: variant live_rows
// A block takes 1024 columns of 4 rows, a thread 16 neighbouring columns of one of the rows.
__global__ void __launch_bounds__(kBlock) correct_by_row(const float* __restrict__ in, const volatile float* offset,
                                                         float* __restrict__ out) {
    __shared__ float shift[kWide];
    for (int i = threadIdx.x; i < kWide; i += kBlock) shift[i] = offset[blockIdx.x * kWide + i];
    __syncthreads();
    const int row = threadIdx.x % 4, column = threadIdx.x / 4 * 16;
    const size_t first = (size_t(blockIdx.y) * 4 + row) * kColumns + blockIdx.x * kWide;
    for (int i = column; i < column + 16; ++i) out[first + i] = fmaxf(in[first + i] - shift[i], 0.0f);
}

void live_rows(const Frames& d) {
    correct_by_row<<<dim3(kColumns / kWide, d.rows / 4), kBlock>>>(d.in, d.offset, d.out);
}
//: end

//: variant copied_rows
// A block takes 1024 columns of 4 rows, a thread 16 neighbouring columns of one of the rows.
__global__ void __launch_bounds__(kBlock) correct_copied_by_row(const float* __restrict__ in, const volatile float* offset,
                                                                float* __restrict__ out) {
    __shared__ float shift[kWide];
    for (int i = threadIdx.x; i < kWide; i += kBlock) shift[i] = offset[blockIdx.x * kWide + i];
    __syncthreads();
    const int row = threadIdx.x % 4, column = threadIdx.x / 4 * 16;
    const size_t first = (size_t(blockIdx.y) * 4 + row) * kColumns + blockIdx.x * kWide;
    for (int i = column; i < column + 16; ++i) out[first + i] = fmaxf(in[first + i] - shift[i], 0.0f);
}

void copied_rows(const Frames& d) {
    cudaMemcpyAsync(d.scratch, d.offset, kColumns * sizeof(float), cudaMemcpyDefault);
    correct_copied_by_row<<<dim3(kColumns / kWide, d.rows / 4), kBlock>>>(d.in, d.scratch, d.out);
}
//: end

// --- the gain of a recording

//: shared
constexpr int kBlocks = 132 * 8;

struct Recording {
    int groups;            // of four samples
    const float4* signal;  // from the recorder
    float4* scratch;       // as long as the signal
    float* partial;        // kBlocks sums
    float4* out;           // the signal, scaled to a mean square of 1
};

__device__ float block_sum(float value) {
    __shared__ float of_warp[kBlock / 32];
    for (int d = 16; d > 0; d /= 2) value += __shfl_down_sync(~0u, value, d);
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
    __syncthreads();
    float total = 0;
    for (int w = 0; w < kBlock / 32; ++w) total += of_warp[w];
    return total;
}

__global__ void __launch_bounds__(kBlock) add_squares(const float4* __restrict__ signal,
                                                      float* __restrict__ partial, int groups) {
    float sum = 0;
    for (int i = blockIdx.x * kBlock + threadIdx.x; i < groups; i += kBlocks * kBlock) {
        const float4 v = signal[i];
        sum += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(kBlock) scale(const float4* __restrict__ signal,
                                                const float* __restrict__ partial, float4* __restrict__ out,
                                                int groups) {
    float sum = 0;
    for (int i = threadIdx.x; i < kBlocks; i += kBlock) sum += partial[i];
    const float gain = rsqrtf(block_sum(sum) / (4.0f * groups));
    for (int i = blockIdx.x * kBlock + threadIdx.x; i < groups; i += kBlocks * kBlock) {
        const float4 v = signal[i];
        out[i] = make_float4(gain * v.x, gain * v.y, gain * v.z, gain * v.w);
    }
}
//: end

//: variant in_place
void in_place(const Recording& d) {
    add_squares<<<kBlocks, kBlock>>>(d.signal, d.partial, d.groups);
    scale<<<kBlocks, kBlock>>>(d.signal, d.partial, d.out, d.groups);
}
//: end

//: variant staged
void staged(const Recording& d) {
    cudaMemcpyAsync(d.scratch, d.signal, d.groups * sizeof(float4), cudaMemcpyDefault);
    add_squares<<<kBlocks, kBlock>>>(d.scratch, d.partial, d.groups);
    scale<<<kBlocks, kBlock>>>(d.scratch, d.partial, d.out, d.groups);
}
//: end

// --- the same of a recording that goes on: most of it is on the GPU already

//: shared
struct Resumed {
    int groups;           // of four samples
    int kept;             // of them on the GPU
    const float4* early;  // the groups that are on the GPU
    const float4* fresh;  // the others, from the recorder
    float4* scratch;      // as long as the fresh groups
    float* partial;       // kBlocks sums
    float4* out;          // the whole signal, scaled to a mean square of 1
};

__global__ void __launch_bounds__(kBlock) add_squares_of_both(const float4* __restrict__ early,
                                                              const float4* __restrict__ fresh,
                                                              float* __restrict__ partial, int kept, int groups) {
    float sum = 0;
    for (int i = blockIdx.x * kBlock + threadIdx.x; i < groups; i += kBlocks * kBlock) {
        const float4 v = *(i < kept ? early + i : fresh + (i - kept));
        sum += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(kBlock) scale_both(const float4* __restrict__ early,
                                                     const float4* __restrict__ fresh,
                                                     const float* __restrict__ partial, float4* __restrict__ out,
                                                     int kept, int groups) {
    float sum = 0;
    for (int i = threadIdx.x; i < kBlocks; i += kBlock) sum += partial[i];
    const float gain = rsqrtf(block_sum(sum) / (4.0f * groups));
    for (int i = blockIdx.x * kBlock + threadIdx.x; i < groups; i += kBlocks * kBlock) {
        const float4 v = *(i < kept ? early + i : fresh + (i - kept));
        out[i] = make_float4(gain * v.x, gain * v.y, gain * v.z, gain * v.w);
    }
}
//: end

//: variant fresh_in_place
void fresh_in_place(const Resumed& d) {
    add_squares_of_both<<<kBlocks, kBlock>>>(d.early, d.fresh, d.partial, d.kept, d.groups);
    scale_both<<<kBlocks, kBlock>>>(d.early, d.fresh, d.partial, d.out, d.kept, d.groups);
}
//: end

//: variant fresh_staged
void fresh_staged(const Resumed& d) {
    cudaMemcpyAsync(d.scratch, d.fresh, (d.groups - d.kept) * sizeof(float4), cudaMemcpyDefault);
    add_squares_of_both<<<kBlocks, kBlock>>>(d.early, d.scratch, d.partial, d.kept, d.groups);
    scale_both<<<kBlocks, kBlock>>>(d.early, d.scratch, d.partial, d.out, d.kept, d.groups);
}
//: end

// --- the signal of parts of a frame

//: shared
struct Totals {
    int groups;        // of four samples
    const float4* in;
    float* monitor;    // kBlocks sums, where the control program looks for them
    float* scratch;    // kBlocks floats
    float* copy;       // the sums once more, on the GPU
};

__global__ void __launch_bounds__(kBlock) add_parts(const float4* __restrict__ in, float* __restrict__ sums,
                                                    float* __restrict__ copy, int groups) {
    float sum = 0;
#pragma unroll 4
    for (int i = blockIdx.x * kBlock + threadIdx.x; i < groups; i += kBlocks * kBlock) {
        const float4 v = in[i];
        sum += (v.x + v.y) + (v.z + v.w);
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) sums[blockIdx.x] = copy[blockIdx.x] = sum;
}
//: end

//: variant to_monitor
void to_monitor(const Totals& d) {
    add_parts<<<kBlocks, kBlock>>>(d.in, d.monitor, d.copy, d.groups);
}
//: end

//: variant copied_back
void copied_back(const Totals& d) {
    add_parts<<<kBlocks, kBlock>>>(d.in, d.scratch, d.copy, d.groups);
    cudaMemcpyAsync(d.monitor, d.scratch, kBlocks * sizeof(float), cudaMemcpyDefault);
}
//: end

// --- references and problems

__global__ void reference_frames(const float* in, const float* offset, float* expected, size_t count) {
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count;
         i += size_t{gridDim.x} * blockDim.x) {
        const float v = in[i] - offset[i % kColumns];
        expected[i] = v > 0 ? v : 0;
    }
}

__global__ void reference_energy(const float* signal, double* energy, size_t count) {
    double sum = 0;
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count;
         i += size_t{gridDim.x} * blockDim.x) {
        sum += double(signal[i]) * signal[i];
    }
    atomicAdd(energy, sum);
}

__global__ void reference_scaled(const float* signal, const double* energy, float* expected, size_t count) {
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count;
         i += size_t{gridDim.x} * blockDim.x) {
        expected[i] = float(signal[i] / sqrt(*energy / double(count)));
    }
}

// Part b of the frame: of every kBlocks * kBlock groups those from b * kBlock to b * kBlock + 255.
__global__ void reference_parts(const float* in, float* expected, int groups) {
    __shared__ double sums[128];
    double sum = 0;
    for (size_t first = blockIdx.x * size_t{kBlock}; first < size_t(groups); first += size_t{kBlocks} * kBlock) {
        const size_t end = min(first + kBlock, size_t(groups));
        for (size_t i = 4 * first + threadIdx.x; i < 4 * end; i += 128) sum += in[i];
    }
    sums[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        double total = 0;
        for (int i = 0; i < 128; ++i) total += sums[i];
        expected[blockIdx.x] = float(total);
    }
}

void frame_problem(book::Book& book, const char* name, int rows) {
    book.problem(name, [=](book::Problem& p) {
        Frames d{rows};
        const size_t count = size_t(rows) * kColumns;
        const uint64_t seed = p.seed();
        d.in = p.uniform<float>(count, 0, 4);
        float* offset = p.host_mapped<float>(kColumns);
        for (int i = 0; i < kColumns; ++i) offset[i] = float(book::uniform01(seed, 77, i));
        d.offset = offset;
        d.scratch = p.output<float>(kColumns);
        d.out = p.output<float>(count);
        p.needs({.dram_bytes = 8.0 * count, .link_bytes = 4.0 * kColumns});
        p.check<float>(d.out, count, {1e-6, 1e-6}, [=](float* expected) {
            reference_frames<<<1056, 256>>>(d.in, d.offset, expected, count);
        });
        p.variant("live_4", [=] { live_4(d); });
        p.variant("copied_4", [=] { copied_4(d); });
        p.variant("live_32", [=] { live_32(d); });
        p.variant("copied_32", [=] { copied_32(d); });
        p.variant("live_128", [=] { live_128(d); });
        p.variant("copied_128", [=] { copied_128(d); });
        p.variant("live_256", [=] { live_256(d); });
        p.variant("copied_256", [=] { copied_256(d); });
        p.variant("live_rows", [=] { live_rows(d); });
        p.variant("copied_rows", [=] { copied_rows(d); });
    });
}

void recording_problem(book::Book& book, const char* name, int samples) {
    book.problem(name, [=](book::Problem& p) {
        Recording d{samples / 4};
        const uint64_t seed = p.seed();
        float* signal = p.host_mapped<float>(samples);
        const float* drawn = p.uniform<float>(samples, -3, 3);
        BOOK_CHECK(cudaMemcpy(signal, drawn, samples * sizeof(float), cudaMemcpyDeviceToHost));
        d.signal = reinterpret_cast<const float4*>(signal);
        d.scratch = p.output<float4>(samples / 4);
        d.partial = p.output<float>(kBlocks);
        d.out = p.output<float4>(samples / 4);
        double* energy = p.input<double>(1, [=] __device__(size_t) { return 0.0 * double(seed); });
        p.needs({.dram_bytes = 4.0 * samples, .link_bytes = 4.0 * samples});
        p.check<float>(reinterpret_cast<float*>(d.out), samples, {1e-4}, [=](float* expected) {
            reference_energy<<<132, 256>>>(drawn, energy, samples);
            reference_scaled<<<1056, 256>>>(drawn, energy, expected, samples);
        });
        p.variant("in_place", [=] { in_place(d); });
        p.variant("staged", [=] { staged(d); });
    });
}

void resumed_problem(book::Book& book, const char* name, int samples, int fresh) {
    book.problem(name, [=](book::Problem& p) {
        const int kept = samples - fresh;
        Resumed d{samples / 4, kept / 4};
        const uint64_t seed = p.seed();
        const float* drawn = p.uniform<float>(samples, -3, 3);
        float* arrived = p.host_mapped<float>(fresh);
        BOOK_CHECK(cudaMemcpy(arrived, drawn + kept, fresh * sizeof(float), cudaMemcpyDeviceToHost));
        d.early = reinterpret_cast<const float4*>(drawn);
        d.fresh = reinterpret_cast<const float4*>(arrived);
        d.scratch = p.output<float4>(fresh / 4);
        d.partial = p.output<float>(kBlocks);
        d.out = p.output<float4>(samples / 4);
        double* energy = p.input<double>(1, [=] __device__(size_t) { return 0.0 * double(seed); });
        p.needs({.dram_bytes = 4.0 * kept + 4.0 * samples, .link_bytes = 4.0 * fresh});
        p.check<float>(reinterpret_cast<float*>(d.out), samples, {1e-4}, [=](float* expected) {
            reference_energy<<<132, 256>>>(drawn, energy, samples);
            reference_scaled<<<1056, 256>>>(drawn, energy, expected, samples);
        });
        p.variant("fresh_in_place", [=] { fresh_in_place(d); });
        p.variant("fresh_staged", [=] { fresh_staged(d); });
    });
}

void totals_problem(book::Book& book, const char* name, int samples) {
    book.problem(name, [=](book::Problem& p) {
        Totals d{samples / 4};
        d.in = reinterpret_cast<const float4*>(p.uniform<float>(samples, 0, 1));
        d.monitor = p.host_mapped<float>(kBlocks);
        d.scratch = p.output<float>(kBlocks);
        d.copy = p.output<float>(kBlocks);
        p.needs({.dram_bytes = 4.0 * samples, .link_bytes = 4.0 * kBlocks});
        p.check<float>(d.copy, kBlocks, {1e-4}, [=](float* expected) {
            reference_parts<<<kBlocks, 128>>>(reinterpret_cast<const float*>(d.in), expected, d.groups);
        });
        p.variant("to_monitor", [=] { to_monitor(d); });
        p.variant("copied_back", [=] { copied_back(d); });
    });
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    frame_problem(book, "frames", 4096);
    recording_problem(book, "recording", 8 << 20);
    resumed_problem(book, "resumed", 24 << 20, 512 << 10);
    totals_problem(book, "totals", 48 << 20);
    return book.finish();
}
