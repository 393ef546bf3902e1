// Universal back-projection for photoacoustic tomography (Xu and Wang 2005).
//
// A sphere of ultrasound sensors records pressure after a laser pulse. Each record is cleaned (mean
// removed, band limited), turned into the back-projection term 2 p - 2 t dp/dt, and each voxel adds
// up the term of every sensor at the time of flight. The volume is a stack of slices.
//
// build: nvcc -O3 -lineinfo -arch=sm_90 -o photoacoustic photoacoustic.cu
// run:   ./photoacoustic

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cuda_runtime.h>

#define CUDA_OK(call)                                                                         \
    do {                                                                                      \
        cudaError_t status = (call);                                                          \
        if (status != cudaSuccess) {                                                          \
            std::fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(status)); \
            std::exit(2);                                                                     \
        }                                                                                     \
    } while (0)

constexpr int kSensors = 32768;
constexpr int kSamples = 1536;
constexpr int kWidth = 256;
constexpr int kHeight = 256;
constexpr int kSlices = 16;

// Lengths in millimetres, times in microseconds.
constexpr float kRadius = 60.0f;
constexpr float kBelt = 0.4f;  // height of the belt of sensors, in radii
constexpr float kVoxel = 0.10f;
constexpr float kSpeed = 1.5f;
constexpr float kSampleTime = 0.0168f;
constexpr float kFirstTime = 27.2f;
constexpr float kInverseStep = 1.0f / (kSpeed * kSampleTime);  // samples per millimetre
constexpr float kFirstSample = kFirstTime / kSampleTime;

constexpr int kTaps = 31;
constexpr int kHalfTaps = kTaps / 2;
constexpr int kMeanThreads = kSamples / 8;  // 8 samples per load
constexpr int kRowThreads = 256;
constexpr int kRowSamples = 512;   // samples of one block of condition_records
constexpr int kSensorTile = 256;   // sensors held in shared memory by back_project
constexpr int kAbsorbers = 5;

__constant__ float filter_taps[kTaps];

struct Absorber {
    float x, y, z, radius, strength;
};

__constant__ Absorber absorbers[kAbsorbers];

static const Absorber kPhantom[kAbsorbers] = {
    {0.0f, 0.0f, 0.0f, 0.80f, 1.00f},   {5.0f, 2.0f, 0.3f, 0.60f, 0.90f},
    {-6.0f, 4.0f, -0.5f, 0.70f, 0.80f}, {3.0f, -7.0f, 0.6f, 0.50f, 1.10f},
    {-4.0f, -5.0f, -0.6f, 0.90f, 0.70f},
};

// ---------------------------------------------------------------------------------------------
// Kernels
// ---------------------------------------------------------------------------------------------

__host__ __device__ __forceinline__ uint32_t mix(uint32_t x) {
    x ^= x >> 16;
    x *= 0x7feb352dU;
    x ^= x >> 15;
    x *= 0x846ca68bU;
    x ^= x >> 16;
    return x;
}

// Sensors on a golden spiral over a belt below the equator, all with the same solid angle.
__global__ void place_sensors(float4* __restrict__ sensors) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= kSensors) return;
    float z = -kBelt * (i + 0.5f) / kSensors;
    float ring = sqrtf(1.0f - z * z);
    float angle = i * 2.39996323f;
    sensors[i] = make_float4(kRadius * ring * cosf(angle), kRadius * ring * sinf(angle),
                             kRadius * z, 1.0f / kSensors);
}

// What the digitiser would deliver: the N-shaped pulses of the absorbers, an offset per channel,
// and noise, as 16-bit integers.
__global__ void __launch_bounds__(256)
simulate_records(const float4* __restrict__ sensors, int16_t* __restrict__ records) {
    int sample = blockIdx.x * blockDim.x + threadIdx.x;
    int sensor = blockIdx.y;
    if (sample >= kSamples) return;
    float4 s = sensors[sensor];
    float reach = kSpeed * (kFirstTime + kSampleTime * sample);
    float pressure = 0.0f;
    for (int a = 0; a < kAbsorbers; ++a) {
        float dx = s.x - absorbers[a].x;
        float dy = s.y - absorbers[a].y;
        float dz = s.z - absorbers[a].z;
        float distance = sqrtf(dx * dx + dy * dy + dz * dz);
        float late = distance - reach;
        if (fabsf(late) < absorbers[a].radius) {
            pressure += absorbers[a].strength * late / (2.0f * distance);
        }
    }
    uint32_t hash = mix(sensor * 1543U + sample);
    float noise = ((hash & 0xffff) - 32768.0f) * (40.0f / 32768.0f);
    float offset = static_cast<float>(mix(sensor) % 400) - 200.0f;
    records[static_cast<size_t>(sensor) * kSamples + sample] =
        static_cast<int16_t>(rintf(2.0e6f * pressure + noise + offset));
}

// Mean of each record. One block per sensor, one load per thread.
__global__ void __launch_bounds__(kMeanThreads)
record_means(const int4* __restrict__ records, float* __restrict__ means) {
    __shared__ int sums[kMeanThreads / 32];
    int4 packed = records[static_cast<size_t>(blockIdx.x) * kMeanThreads + threadIdx.x];
    int words[4] = {packed.x, packed.y, packed.z, packed.w};
    int sum = 0;
#pragma unroll
    for (int w = 0; w < 4; ++w) sum += static_cast<int16_t>(words[w]) + (words[w] >> 16);
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(~0U, sum, offset);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        int total = 0;
        for (int w = 0; w < kMeanThreads / 32; ++w) total += sums[w];
        means[blockIdx.x] = static_cast<float>(total) / kSamples;
    }
}

// Mean removed, band limited by a symmetric filter, and 2 p - 2 t dp/dt. A block first loads its
// samples and the margin that the filter and the derivative need.
__global__ void __launch_bounds__(kRowThreads)
condition_records(const int16_t* __restrict__ records, const float* __restrict__ means,
                  float* __restrict__ terms) {
    constexpr int margin = kHalfTaps + 1;
    constexpr int loaded = kRowSamples + 2 * margin;
    __shared__ float raw[loaded];
    __shared__ float smooth[kRowSamples + 2];
    int sensor = blockIdx.y;
    int first = blockIdx.x * kRowSamples;
    const int16_t* row = records + static_cast<size_t>(sensor) * kSamples;
    float mean = means[sensor];
    for (int i = threadIdx.x; i < loaded; i += kRowThreads) {
        int sample = first + i - margin;
        bool inside = sample >= 0 && sample < kSamples;
        raw[i] = inside ? static_cast<float>(row[sample]) - mean : 0.0f;
    }
    __syncthreads();

    for (int i = threadIdx.x; i < kRowSamples + 2; i += kRowThreads) {
        float sum = filter_taps[kHalfTaps] * raw[i + kHalfTaps];
#pragma unroll
        for (int t = 1; t <= kHalfTaps; ++t) {
            sum += filter_taps[kHalfTaps + t] * (raw[i + kHalfTaps - t] + raw[i + kHalfTaps + t]);
        }
        smooth[i] = sum;
    }
    __syncthreads();

    float* out = terms + static_cast<size_t>(sensor) * kSamples + first;
    for (int i = threadIdx.x; i < kRowSamples; i += kRowThreads) {
        float slope = 0.5f * (smooth[i + 2] - smooth[i]);
        out[i] = 2.0f * smooth[i + 1] - 2.0f * (kFirstSample + first + i) * slope;
    }
}

// Each thread one voxel of slice blockIdx.z; all sensors, a tile of positions at a time.
__global__ void __launch_bounds__(256)
back_project(const float4* __restrict__ sensors, const float* __restrict__ terms,
             float* __restrict__ volume) {
    __shared__ float4 tile[kSensorTile];
    int column = blockIdx.x * 16 + threadIdx.x % 16;
    int line = blockIdx.y * 16 + threadIdx.x / 16;
    float x = (column - 0.5f * (kWidth - 1)) * kVoxel;
    float y = (line - 0.5f * (kHeight - 1)) * kVoxel;
    float z = (blockIdx.z - 0.5f * (kSlices - 1)) * kVoxel;
    float sum = 0.0f;
    for (int base = 0; base < kSensors; base += kSensorTile) {
        __syncthreads();
        tile[threadIdx.x] = sensors[base + threadIdx.x];
        __syncthreads();
        const float* row = terms + static_cast<size_t>(base) * kSamples;
#pragma unroll 4
        for (int s = 0; s < kSensorTile; ++s, row += kSamples) {
            float4 sensor = tile[s];
            float dx = sensor.x - x;
            float dy = sensor.y - y;
            float dz = sensor.z - z;
            float square = dx * dx + dy * dy + dz * dz;
            float place = square * rsqrtf(square) * kInverseStep - kFirstSample;
            int sample = static_cast<int>(place);
            float fraction = place - sample;
            float low = row[sample];
            float high = row[sample + 1];
            sum += sensor.w * (low + fraction * (high - low));
        }
    }
    volume[(static_cast<size_t>(blockIdx.z) * kHeight + line) * kWidth + column] = sum;
}

// Largest value of each slice, for the display window.
__global__ void __launch_bounds__(256)
slice_peaks(const float4* __restrict__ volume, int* __restrict__ peaks) {
    const float4* slice = volume + static_cast<size_t>(blockIdx.y) * (kWidth * kHeight / 4);
    float peak = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < kWidth * kHeight / 4;
         i += gridDim.x * blockDim.x) {
        float4 v = slice[i];
        peak = fmaxf(peak, fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w)));
    }
    for (int offset = 16; offset > 0; offset /= 2) {
        peak = fmaxf(peak, __shfl_down_sync(~0U, peak, offset));
    }
    // Positive floats order as integers.
    if (threadIdx.x % 32 == 0) atomicMax(&peaks[blockIdx.y], __float_as_int(peak));
}

// Scales every slice to its peak and sets negative values, which are artefacts, to zero.
__global__ void __launch_bounds__(256)
window_slices(float4* __restrict__ volume, const int* __restrict__ peaks) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int slice = i / (kWidth * kHeight / 4);
    float scale = 1.0f / fmaxf(__int_as_float(peaks[slice]), 1e-20f);
    float4 v = volume[i];
    v.x = fmaxf(v.x * scale, 0.0f);
    v.y = fmaxf(v.y * scale, 0.0f);
    v.z = fmaxf(v.z * scale, 0.0f);
    v.w = fmaxf(v.w * scale, 0.0f);
    volume[i] = v;
}

// ---------------------------------------------------------------------------------------------
// Host
// ---------------------------------------------------------------------------------------------

template <class T>
T* device_array(size_t count) {
    T* pointer = nullptr;
    CUDA_OK(cudaMalloc(&pointer, count * sizeof(T)));
    CUDA_OK(cudaMemset(pointer, 0, count * sizeof(T)));
    return pointer;
}

template <class T>
std::vector<T> to_host(const T* pointer, size_t count) {
    std::vector<T> values(count);
    CUDA_OK(cudaMemcpy(values.data(), pointer, count * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
}

// A windowed sinc, normalised to one.
static std::vector<float> low_pass(double cutoff) {
    std::vector<float> taps(kTaps);
    double sum = 0.0;
    for (int t = 0; t < kTaps; ++t) {
        int k = t - kHalfTaps;
        double window = 0.54 + 0.46 * std::cos(M_PI * k / (kHalfTaps + 1));
        double sinc = k == 0 ? cutoff : std::sin(M_PI * cutoff * k) / (M_PI * k);
        taps[t] = static_cast<float>(window * sinc);
        sum += taps[t];
    }
    for (float& tap : taps) tap = static_cast<float>(tap / sum);
    return taps;
}

static double host_term(const std::vector<int16_t>& record, const std::vector<float>& taps,
                        double mean, int sample) {
    auto smooth = [&](int centre) {
        double sum = 0.0;
        for (int t = 0; t < kTaps; ++t) {
            int at = centre + t - kHalfTaps;
            if (at >= 0 && at < kSamples) sum += taps[t] * (record[at] - mean);
        }
        return sum;
    };
    double slope = 0.5 * (smooth(sample + 1) - smooth(sample - 1));
    return 2.0 * smooth(sample) - 2.0 * (kFirstSample + sample) * slope;
}

static double host_voxel(const std::vector<float4>& sensors, const std::vector<float>& terms,
                         int column, int line, int slice) {
    double x = (column - 0.5 * (kWidth - 1)) * kVoxel;
    double y = (line - 0.5 * (kHeight - 1)) * kVoxel;
    double z = (slice - 0.5 * (kSlices - 1)) * kVoxel;
    double sum = 0.0;
    for (int s = 0; s < kSensors; ++s) {
        double dx = sensors[s].x - x, dy = sensors[s].y - y, dz = sensors[s].z - z;
        double place = std::sqrt(dx * dx + dy * dy + dz * dz) * kInverseStep - kFirstSample;
        int sample = static_cast<int>(place);
        const float* row = &terms[static_cast<size_t>(s) * kSamples];
        double fraction = place - sample;
        sum += sensors[s].w * (row[sample] + fraction * (row[sample + 1] - row[sample]));
    }
    return sum;
}

int main() {
    const size_t record_count = static_cast<size_t>(kSensors) * kSamples;
    const size_t voxels = static_cast<size_t>(kWidth) * kHeight * kSlices;
    std::vector<float> taps = low_pass(0.12);
    CUDA_OK(cudaMemcpyToSymbol(filter_taps, taps.data(), kTaps * sizeof(float)));
    CUDA_OK(cudaMemcpyToSymbol(absorbers, kPhantom, sizeof(kPhantom)));

    float4* sensors = device_array<float4>(kSensors);
    int16_t* records = device_array<int16_t>(record_count);
    float* means = device_array<float>(kSensors);
    float* terms = device_array<float>(record_count);
    float* volume = device_array<float>(voxels);
    int* peaks = device_array<int>(kSlices);

    place_sensors<<<kSensors / 256, 256>>>(sensors);
    simulate_records<<<dim3(kSamples / 256, kSensors), 256>>>(sensors, records);
    record_means<<<kSensors, kMeanThreads>>>(reinterpret_cast<const int4*>(records), means);
    condition_records<<<dim3(kSamples / kRowSamples, kSensors), kRowThreads>>>(records, means, terms);
    back_project<<<dim3(kWidth / 16, kHeight / 16, kSlices), 256>>>(sensors, terms, volume);
    CUDA_OK(cudaGetLastError());
    CUDA_OK(cudaDeviceSynchronize());
    std::vector<float> unscaled = to_host(volume, voxels);

    slice_peaks<<<dim3(16, kSlices), 256>>>(reinterpret_cast<const float4*>(volume), peaks);
    window_slices<<<static_cast<int>(voxels / 4 / 256), 256>>>(reinterpret_cast<float4*>(volume),
                                                             peaks);
    CUDA_OK(cudaGetLastError());
    CUDA_OK(cudaDeviceSynchronize());

    // One record, some voxels and the peaks, against the host.
    std::vector<float4> places = to_host(sensors, kSensors);
    std::vector<float> found_terms = to_host(terms, record_count);
    const int probe = 4321;
    std::vector<int16_t> record = to_host(records + static_cast<size_t>(probe) * kSamples, kSamples);
    double mean = 0.0;
    for (int16_t value : record) mean += value;
    mean /= kSamples;
    double term_error = 0.0, term_scale = 0.0;
    for (int sample = 0; sample < kSamples; sample += 7) {
        double expected = host_term(record, taps, mean, sample);
        double found = found_terms[static_cast<size_t>(probe) * kSamples + sample];
        term_error = std::fmax(term_error, std::fabs(expected - found));
        term_scale = std::fmax(term_scale, std::fabs(expected));
    }
    double voxel_error = 0.0, voxel_scale = 0.0;
    for (int k = 0; k < 48; ++k) {
        int column = mix(3 * k) % kWidth, line = mix(3 * k + 1) % kHeight, slice = mix(3 * k + 2) % kSlices;
        double expected = host_voxel(places, found_terms, column, line, slice);
        double found = unscaled[(static_cast<size_t>(slice) * kHeight + line) * kWidth + column];
        voxel_error = std::fmax(voxel_error, std::fabs(expected - found));
        voxel_scale = std::fmax(voxel_scale, std::fabs(expected));
    }
    std::vector<float> shown = to_host(volume, voxels);
    size_t zeros = std::count(shown.begin(), shown.end(), 0.0f);
    float highest = *std::max_element(shown.begin(), shown.end());
    std::printf("photoacoustic: terms differ by %.2e of %.2e, voxels by %.2e of %.2e\n", term_error,
                term_scale, voxel_error, voxel_scale);
    std::printf("photoacoustic: %zu of %zu voxels are zero, the highest is %.6f\n", zeros, voxels,
                highest);
    bool good = term_error < 1e-3 * term_scale && voxel_error < 2e-2 * voxel_scale &&
                std::fabs(highest - 1.0f) < 1e-3f;
    std::printf("photoacoustic: %s\n", good ? "PASSED" : "FAILED");
    return good ? 0 : 1;
}
