// Reverse time migration of one shot with the acoustic wave equation.
//
// Traces are modelled with the true velocities and filtered. Then the source is propagated through
// the smooth velocities, the traces are propagated backwards in time, and where both waves are at
// the same place at the same time, there is a reflector.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <utility>
#include <vector>

#include <cuda_runtime.h>

#include "../survey.h"

#define CUDA_CHECK(call)                                                       \
    do {                                                                       \
        const cudaError_t error_ = (call);                                     \
        if (error_ != cudaSuccess) {                                           \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__,            \
                         cudaGetErrorString(error_));                          \
            std::exit(1);                                                      \
        }                                                                      \
    } while (0)

constexpr int kThreads = 256;

// Second derivative, eighth order.
__constant__ float kCoefficient[kRadius + 1] = {-205.0f / 72.0f, 8.0f / 5.0f, -1.0f / 5.0f,
                                                8.0f / 315.0f, -1.0f / 560.0f};

__constant__ float filter_response[2 * kTaps + 1];

__device__ int cell_of(const Grid& grid, int x, int y, int z) {
    return x + grid.nx * (y + grid.ny * z);
}

__device__ bool inside(const Grid& grid, int x, int y, int z) {
    return x >= kRadius && y >= kRadius && z >= kRadius && x < grid.nx - kRadius &&
           y < grid.ny - kRadius && z < grid.nz - kRadius;
}

// Advances the wave by a step and replaces the field of the step before. The sponge's factors are
// those of the places along each axis.
__global__ void advance_field(Grid grid, const float* __restrict__ velocity,
                              const float* __restrict__ sponge_x,
                              const float* __restrict__ sponge_y,
                              const float* __restrict__ sponge_z,
                              const float* __restrict__ field, float* __restrict__ previous) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x;
    const int y = blockIdx.y * blockDim.y + threadIdx.y;
    const int z = blockIdx.z * blockDim.z + threadIdx.z;
    if (!inside(grid, x, y, z)) return;
    const int cell = cell_of(grid, x, y, z), row = grid.nx, plane = grid.nx * grid.ny;
    const float centre = field[cell];
    float sum = 3.0f * kCoefficient[0] * centre;
#pragma unroll
    for (int r = 1; r <= kRadius; ++r) {
        sum += kCoefficient[r] * (field[cell - r] + field[cell + r] + field[cell - r * row] +
                                  field[cell + r * row] + field[cell - r * plane] +
                                  field[cell + r * plane]);
    }
    const float scale = velocity[cell] * kTimeStep / kSpacing;
    const float factor = sponge_x[x] * sponge_y[y] * sponge_z[z];
    previous[cell] =
        factor * (2.0 * centre - factor * previous[cell] + scale * scale * sum);
}

__device__ float ricker(float time) {
    const float a = kPi * kPeakFrequency * (time - 1.0f / kPeakFrequency);
    return (1.0f - 2.0f * a * a) * expf(-a * a);
}

// The eight cells around a position and their weights.
__device__ void corners(const Grid& grid, const Position& at, int* cell, float* weight) {
    const int x = int(at.x), y = int(at.y), z = int(at.z);
    const float fx = at.x - x, fy = at.y - y, fz = at.z - z;
    for (int c = 0; c < 8; ++c) {
        const int dx = c & 1, dy = c >> 1 & 1, dz = c >> 2;
        cell[c] = cell_of(grid, x + dx, y + dy, z + dz);
        weight[c] = (dx ? fx : 1 - fx) * (dy ? fy : 1 - fy) * (dz ? fz : 1 - fz);
    }
}

__global__ void inject_source(Grid grid, Position source, int step, const float* velocity,
                              float* field) {
    int cell[8];
    float weight[8];
    corners(grid, source, cell, weight);
    for (int c = 0; c < 8; ++c) {
        const float scale = velocity[cell[c]] * kTimeStep / kSpacing;
        field[cell[c]] += weight[c] * scale * scale * ricker(step * kTimeStep);
    }
}

__global__ void record_receivers(Grid grid, int receivers, const Position* __restrict__ receiver,
                                 int step, const float* __restrict__ field,
                                 float* __restrict__ trace) {
    const int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= receivers) return;
    int cell[8];
    float weight[8];
    corners(grid, receiver[r], cell, weight);
    float sum = 0;
    for (int c = 0; c < 8; ++c) sum += weight[c] * field[cell[c]];
    trace[step * receivers + r] = sum;
}

__global__ void inject_receivers(Grid grid, int receivers, const Position* __restrict__ receiver,
                                 int step, const float* __restrict__ velocity,
                                 const float* __restrict__ trace, float* field) {
    const int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= receivers) return;
    int cell[8];
    float weight[8];
    corners(grid, receiver[r], cell, weight);
    const float amplitude = trace[step * receivers + r];
    for (int c = 0; c < 8; ++c) {
        const float scale = velocity[cell[c]] * kTimeStep / kSpacing;
        atomicAdd(&field[cell[c]], weight[c] * scale * scale * amplitude);
    }
}

__global__ void field_energy(int cells, const float* __restrict__ field, double* energy) {
    __shared__ double warp_sum[kThreads / 32];
    double sum = 0;
    for (int cell = blockIdx.x * blockDim.x + threadIdx.x; cell < cells;
         cell += gridDim.x * blockDim.x) {
        const double value = field[cell];
        sum += value * value;
    }
    for (int offset = 16; offset > 0; offset /= 2)
        sum += __shfl_down_sync(0xffffffffu, sum, offset);
    if (threadIdx.x % 32 == 0) warp_sum[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        sum = 0;
        for (double part : warp_sum) sum += part;
        atomicAdd(energy, sum);
    }
}

// Takes out the wave that runs straight from the source to the receiver.
__global__ void mute_direct(int receivers, const Position* __restrict__ receiver, Position source,
                            const float* __restrict__ trace, float* __restrict__ muted) {
    const int r = blockIdx.x * blockDim.x + threadIdx.x;
    const int step = blockIdx.y;
    if (r >= receivers) return;
    const Position at = receiver[r];
    const float dx = at.x - source.x, dy = at.y - source.y, dz = at.z - source.z;
    const float arrival = sqrtf(dx * dx + dy * dy + dz * dz) * kSpacing / kSurfaceVelocity;
    const float after = (step * kTimeStep - arrival - 1.6f / kPeakFrequency) * kPeakFrequency;
    float weight = 1.0f;
    if (after < 0.0f) {
        weight = 0.0f;
    } else if (after < 1.0f) {
        weight = 0.5f - 0.5f * cosf(kPi * after);
    }
    muted[step * receivers + r] = weight * trace[step * receivers + r];
}

__global__ void filter_traces(int receivers, int steps, const float* __restrict__ trace,
                              float* __restrict__ filtered) {
    const int r = blockIdx.x * blockDim.x + threadIdx.x;
    const int step = blockIdx.y;
    if (r >= receivers) return;
    const int first = max(0, step - kTaps), last = min(steps - 1, step + kTaps);
    float sum = 0;
    for (int from = first; from <= last; ++from)
        sum += filter_response[from - step + kTaps] * trace[from * receivers + r];
    filtered[step * receivers + r] = sum;
}

__global__ void correlate(int cells, const float* __restrict__ snapshot,
                          const float* __restrict__ field, float* __restrict__ image,
                          float* __restrict__ illumination) {
    const int cell = blockIdx.x * blockDim.x + threadIdx.x;
    if (cell >= cells) return;
    const float source = snapshot[cell];
    image[cell] += source * field[cell];
    illumination[cell] += source * source;
}

__global__ void strongest_illumination(int cells, const float* __restrict__ illumination,
                                       int* strongest) {
    const int cell = blockIdx.x * blockDim.x + threadIdx.x;
    float most = cell < cells ? illumination[cell] : 0.0f;
    for (int offset = 16; offset > 0; offset /= 2)
        most = fmaxf(most, __shfl_down_sync(0xffffffffu, most, offset));
    // Floats that are not negative have the order of their bits.
    if (threadIdx.x % 32 == 0) atomicMax(strongest, __float_as_int(most));
}

__global__ void normalise_image(int cells, const int* __restrict__ strongest,
                                const float* __restrict__ illumination,
                                float* __restrict__ image) {
    const int cell = blockIdx.x * blockDim.x + threadIdx.x;
    if (cell >= cells) return;
    image[cell] /= illumination[cell] + 1e-3f * __int_as_float(*strongest);
}

// Takes out the slow changes that strong waves leave in the image.
__global__ void sharpen_image(Grid grid, const float* __restrict__ image,
                              float* __restrict__ sharp) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x;
    const int y = blockIdx.y * blockDim.y + threadIdx.y;
    const int z = blockIdx.z;
    if (x >= grid.nx || y >= grid.ny) return;
    const int cell = cell_of(grid, x, y, z), row = grid.nx, plane = grid.nx * grid.ny;
    float sum = 0;
    if (inside(grid, x, y, z)) {
        sum = 6.0f * image[cell] - image[cell - 1] - image[cell + 1] - image[cell - row] -
              image[cell + row] - image[cell - plane] - image[cell + plane];
    }
    sharp[cell] = sum;
}

// Factors by which the sponge damps the wave in each step, for the places along an axis.
std::vector<float> sponge_factors(int size, int width) {
    std::vector<float> factors(size, 1.0f);
    for (int place = 0; place < size; ++place) {
        const int distance = std::min(place, size - 1 - place);
        if (distance < width)
            factors[place] = float(std::exp(-std::pow(0.3 * (width - distance) / width, 2.0)));
    }
    return factors;
}

// Band pass: a windowed difference of two sinc functions.
std::vector<float> band_pass() {
    std::vector<float> response;
    for (int tap = -kTaps; tap <= kTaps; ++tap) {
        const float time = tap * kTimeStep;
        float value = 2.0f * (kHighFrequency - kLowFrequency) * kTimeStep;
        if (tap != 0) {
            value = (std::sin(2.0f * kPi * kHighFrequency * time) -
                     std::sin(2.0f * kPi * kLowFrequency * time)) /
                    (kPi * tap);
        }
        response.push_back(value * (0.5f + 0.5f * std::cos(kPi * tap / (kTaps + 1))));
    }
    return response;
}

template <typename T>
T* allocate(std::size_t count) {
    T* pointer = nullptr;
    CUDA_CHECK(cudaMalloc(&pointer, count * sizeof(T)));
    return pointer;
}

template <typename T>
T* upload(const std::vector<T>& values) {
    T* pointer = allocate<T>(values.size());
    CUDA_CHECK(cudaMemcpy(pointer, values.data(), values.size() * sizeof(T),
                          cudaMemcpyHostToDevice));
    return pointer;
}

int blocks_for(int count, int threads = kThreads) { return (count + threads - 1) / threads; }

class Migration {
public:
    explicit Migration(const Survey& survey)
        : survey_(survey),
          grid_(survey.grid),
          cells_(int(survey.grid.cells())),
          receivers_(int(survey.receiver.size())),
          steps_(survey.steps),
          snapshots_((survey.steps + kSnapshotInterval - 1) / kSnapshotInterval) {
        receiver_ = upload(survey.receiver);
        true_velocity_ = upload(survey.true_velocity);
        smooth_velocity_ = upload(survey.smooth_velocity);
        field_ = allocate<float>(cells_);
        previous_ = allocate<float>(cells_);
        snapshot_ = allocate<float>(std::size_t(cells_) * snapshots_);
        observed_ = allocate<float>(receivers_ * steps_);
        muted_ = allocate<float>(receivers_ * steps_);
        filtered_ = allocate<float>(receivers_ * steps_);
        image_ = allocate<float>(cells_);
        illumination_ = allocate<float>(cells_);
        sharp_ = allocate<float>(cells_);
        sum_ = allocate<double>(1);
        strongest_ = allocate<int>(1);
        sponge_x_ = upload(sponge_factors(grid_.nx, grid_.sponge));
        sponge_y_ = upload(sponge_factors(grid_.ny, grid_.sponge));
        sponge_z_ = upload(sponge_factors(grid_.nz, grid_.sponge));
        const std::vector<float> response = band_pass();
        CUDA_CHECK(cudaMemcpyToSymbol(filter_response, response.data(),
                                      response.size() * sizeof(float)));
    }

    ~Migration() {
        for (void* pointer : std::initializer_list<void*>{
                 receiver_, true_velocity_, smooth_velocity_, field_, previous_, snapshot_,
                 observed_, muted_, filtered_, image_, illumination_, sharp_, sum_, strongest_,
                 sponge_x_, sponge_y_, sponge_z_}) {
            CUDA_CHECK(cudaFree(pointer));
        }
    }

    Migration(const Migration&) = delete;
    Migration& operator=(const Migration&) = delete;

    void run() {
        model_traces();
        prepare_traces();
        propagate_source();
        propagate_traces();
        finish_image();
    }

    std::vector<float> observed() const {
        const std::vector<float> by_step = download(observed_, receivers_ * steps_);
        std::vector<float> result(by_step.size());
        for (int r = 0; r < receivers_; ++r)
            for (int step = 0; step < steps_; ++step)
                result[r * steps_ + step] = by_step[step * receivers_ + r];
        return result;
    }
    std::vector<float> image() const { return download(sharp_, cells_); }
    const std::vector<float>& energies() const { return energies_; }

private:
    void clear_fields() {
        for (float* field : {field_, previous_})
            CUDA_CHECK(cudaMemset(field, 0, cells_ * sizeof(float)));
    }

    void propagate(const float* velocity) {
        const dim3 threads(32, 4, 2);
        const dim3 blocks(blocks_for(grid_.nx, threads.x), blocks_for(grid_.ny, threads.y),
                          blocks_for(grid_.nz, threads.z));
        advance_field<<<blocks, threads>>>(grid_, velocity, sponge_x_, sponge_y_, sponge_z_,
                                           field_, previous_);
        CUDA_CHECK(cudaGetLastError());
        std::swap(field_, previous_);
    }

    void model_traces() {
        clear_fields();
        for (int step = 0; step < steps_; ++step) {
            propagate(true_velocity_);
            inject_source<<<1, 1>>>(grid_, survey_.source, step, true_velocity_, field_);
            CUDA_CHECK(cudaGetLastError());
            record_receivers<<<blocks_for(receivers_), kThreads>>>(
                grid_, receivers_, receiver_, step, field_, observed_);
            CUDA_CHECK(cudaGetLastError());
            watch_energy(step);
        }
    }

    void prepare_traces() {
        mute_direct<<<dim3(blocks_for(receivers_), steps_), kThreads>>>(
            receivers_, receiver_, survey_.source, observed_, muted_);
        CUDA_CHECK(cudaGetLastError());
        filter_traces<<<dim3(blocks_for(receivers_), steps_), kThreads>>>(receivers_, steps_,
                                                                          muted_, filtered_);
        CUDA_CHECK(cudaGetLastError());
    }

    void propagate_source() {
        clear_fields();
        for (int step = 0; step < steps_; ++step) {
            propagate(smooth_velocity_);
            inject_source<<<1, 1>>>(grid_, survey_.source, step, smooth_velocity_, field_);
            CUDA_CHECK(cudaGetLastError());
            if (step % kSnapshotInterval == 0) {
                CUDA_CHECK(cudaMemcpyAsync(snapshot_of(step), field_, cells_ * sizeof(float),
                                           cudaMemcpyDeviceToDevice));
            }
            watch_energy(step);
        }
    }

    void propagate_traces() {
        clear_fields();
        for (float* sum : {image_, illumination_})
            CUDA_CHECK(cudaMemset(sum, 0, cells_ * sizeof(float)));
        for (int step = steps_ - 1; step >= 0; --step) {
            propagate(smooth_velocity_);
            inject_receivers<<<blocks_for(receivers_), kThreads>>>(
                grid_, receivers_, receiver_, step, smooth_velocity_, filtered_, field_);
            CUDA_CHECK(cudaGetLastError());
            if (step % kSnapshotInterval == 0) {
                correlate<<<blocks_for(cells_), kThreads>>>(cells_, snapshot_of(step), field_,
                                                            image_, illumination_);
                CUDA_CHECK(cudaGetLastError());
            }
            watch_energy(step);
        }
    }

    void finish_image() {
        CUDA_CHECK(cudaMemset(strongest_, 0, sizeof(int)));
        strongest_illumination<<<blocks_for(cells_), kThreads>>>(cells_, illumination_,
                                                                 strongest_);
        CUDA_CHECK(cudaGetLastError());
        normalise_image<<<blocks_for(cells_), kThreads>>>(cells_, strongest_, illumination_,
                                                          image_);
        CUDA_CHECK(cudaGetLastError());
        const dim3 threads(32, 8, 1);
        sharpen_image<<<dim3(blocks_for(grid_.nx, threads.x), blocks_for(grid_.ny, threads.y),
                             grid_.nz),
                        threads>>>(grid_, image_, sharp_);
        CUDA_CHECK(cudaGetLastError());
        CUDA_CHECK(cudaDeviceSynchronize());
    }

    // A propagation that is not stable is given up.
    void watch_energy(int step) {
        if (step % kEnergyInterval != 0) return;
        CUDA_CHECK(cudaMemset(sum_, 0, sizeof(double)));
        field_energy<<<1024, kThreads>>>(cells_, field_, sum_);
        CUDA_CHECK(cudaGetLastError());
        double energy = 0;
        CUDA_CHECK(cudaMemcpy(&energy, sum_, sizeof(double), cudaMemcpyDeviceToHost));
        if (!std::isfinite(energy) || energy > 1e12) {
            std::fprintf(stderr, "not stable at step %d\n", step);
            std::exit(1);
        }
        energies_.push_back(float(energy));
    }

    float* snapshot_of(int step) const {
        return snapshot_ + std::size_t(cells_) * (step / kSnapshotInterval);
    }

    static std::vector<float> download(const float* from, std::size_t count) {
        std::vector<float> result(count);
        CUDA_CHECK(cudaMemcpy(result.data(), from, count * sizeof(float), cudaMemcpyDeviceToHost));
        return result;
    }

    const Survey& survey_;
    const Grid grid_;
    const int cells_, receivers_, steps_, snapshots_;
    std::vector<float> energies_;
    Position* receiver_;
    float* true_velocity_;
    float* smooth_velocity_;
    float* field_;
    float* previous_;
    float* snapshot_;
    float* observed_;
    float* muted_;
    float* filtered_;
    float* image_;
    float* illumination_;
    float* sharp_;
    double* sum_;
    int* strongest_;
    float* sponge_x_;
    float* sponge_y_;
    float* sponge_z_;
};

int main(int argc, char** argv) {
    const Options options = read_options(argc, argv);
    const Survey survey = make_survey(options);
    std::printf("%d x %d x %d cells, %zu receivers, %d steps\n", survey.grid.nx, survey.grid.ny,
                survey.grid.nz, survey.receiver.size(), survey.steps);
    Migration migration(survey);
    CUDA_CHECK(cudaDeviceSynchronize());

    const auto start = std::chrono::steady_clock::now();
    migration.run();
    const std::chrono::duration<double, std::milli> taken =
        std::chrono::steady_clock::now() - start;
    std::printf("time: %.3f ms\n", taken.count());

    write_results(options, survey, migration.observed(), migration.image(),
                  migration.energies());
    return 0;
}
