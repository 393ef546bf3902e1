// Reverse time migration of one shot with the acoustic wave equation.
//
// Traces are modelled with the true velocities and filtered. Then the source is propagated through
// the smooth velocities, the traces are propagated backwards in time, and where both waves are at
// the same place at the same time, there is a reflector.

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
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
__constant__ double kCoefficient[kRadius + 1] = {-205.0 / 72.0, 8.0 / 5.0, -1.0 / 5.0,
                                                 8.0 / 315.0, -1.0 / 560.0};

struct ImagePoint {
    float image;
    float illumination;
};

__device__ int cell_of(const Grid& grid, int x, int y, int z) {
    return x + grid.nx * (y + grid.ny * z);
}

__device__ bool inside(const Grid& grid, int x, int y, int z) {
    return x >= kRadius && y >= kRadius && z >= kRadius && x < grid.nx - kRadius &&
           y < grid.ny - kRadius && z < grid.nz - kRadius;
}

__global__ void compute_laplacian(Grid grid, const float* field, float* laplacian) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x;
    const int y = blockIdx.y * blockDim.y + threadIdx.y;
    const int z = blockIdx.z * blockDim.z + threadIdx.z;
    if (!inside(grid, x, y, z)) return;
    float sum = 3.0 * kCoefficient[0] * field[cell_of(grid, x, y, z)];
    for (int r = 1; r <= kRadius; ++r) {
        sum += kCoefficient[r] * field[cell_of(grid, x - r, y, z)];
        sum += kCoefficient[r] * field[cell_of(grid, x + r, y, z)];
        sum += kCoefficient[r] * field[cell_of(grid, x, y - r, z)];
        sum += kCoefficient[r] * field[cell_of(grid, x, y + r, z)];
        sum += kCoefficient[r] * field[cell_of(grid, x, y, z - r)];
        sum += kCoefficient[r] * field[cell_of(grid, x, y, z + r)];
    }
    laplacian[cell_of(grid, x, y, z)] = sum / (kSpacing * kSpacing);
}

__global__ void advance_field(Grid grid, const float* velocity, const float* laplacian,
                              const float* field, const float* previous, float* next) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x;
    const int y = blockIdx.y * blockDim.y + threadIdx.y;
    const int z = blockIdx.z * blockDim.z + threadIdx.z;
    if (!inside(grid, x, y, z)) return;
    const int cell = cell_of(grid, x, y, z);
    next[cell] = 2.0 * field[cell] - previous[cell] +
                 powf(velocity[cell] * kTimeStep, 2.0f) * laplacian[cell];
}

__device__ float sponge_factor(int place, int size, int width) {
    const int distance = min(place, size - 1 - place);
    if (distance >= width) return 1.0f;
    return exp(-pow(0.3 * (width - distance) / width, 2.0));
}

__global__ void absorb(Grid grid, float* field, float* next) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x;
    const int y = blockIdx.y * blockDim.y + threadIdx.y;
    const int z = blockIdx.z * blockDim.z + threadIdx.z;
    if (x >= grid.nx || y >= grid.ny || z >= grid.nz) return;
    const int cell = cell_of(grid, x, y, z);
    next[cell] *= sponge_factor(x, grid.nx, grid.sponge) * sponge_factor(y, grid.ny, grid.sponge) *
                  sponge_factor(z, grid.nz, grid.sponge);
    field[cell] *= sponge_factor(x, grid.nx, grid.sponge) * sponge_factor(y, grid.ny, grid.sponge) *
                   sponge_factor(z, grid.nz, grid.sponge);
}

__global__ void copy_field(int cells, const float* from, float* to) {
    const int cell = blockIdx.x * blockDim.x + threadIdx.x;
    if (cell < cells) to[cell] = from[cell];
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

__global__ void record_receivers(Grid grid, int receivers, const Position* receiver, int step,
                                 int steps, const float* field, float* trace) {
    const int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= receivers) return;
    int cell[8];
    float weight[8];
    corners(grid, receiver[r], cell, weight);
    trace[r * steps + step] = 0;
    for (int c = 0; c < 8; ++c) trace[r * steps + step] += weight[c] * field[cell[c]];
}

__global__ void inject_receivers(Grid grid, int receivers, const Position* receiver, int step,
                                 int steps, const float* velocity, const float* trace,
                                 float* field) {
    const int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= receivers) return;
    int cell[8];
    float weight[8];
    corners(grid, receiver[r], cell, weight);
    for (int c = 0; c < 8; ++c) {
        const float scale = velocity[cell[c]] * kTimeStep / kSpacing;
        atomicAdd(&field[cell[c]], weight[c] * scale * scale * trace[r * steps + step]);
    }
}

__global__ void field_energy(Grid grid, const float* field, double* energy) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= grid.ny * grid.nz) return;
    double sum = 0;
    for (int x = 0; x < grid.nx; ++x) {
        const double value = field[row * grid.nx + x];
        sum += value * value;
    }
    atomicAdd(energy, sum);
}

// Takes out the wave that runs straight from the source to the receiver.
__global__ void mute_direct(int receivers, const Position* receiver, Position source, int steps,
                            const float* trace, float* muted) {
    const int r = blockIdx.x * blockDim.x + threadIdx.x;
    const int step = blockIdx.y;
    if (r >= receivers) return;
    const float dx = receiver[r].x - source.x, dy = receiver[r].y - source.y,
                dz = receiver[r].z - source.z;
    const float arrival = sqrtf(dx * dx + dy * dy + dz * dz) * kSpacing / kSurfaceVelocity;
    const float after = (step * kTimeStep - arrival - 1.6f / kPeakFrequency) * kPeakFrequency;
    float weight = 1.0f;
    if (after < 0.0f) {
        weight = 0.0f;
    } else if (after < 1.0f) {
        weight = 0.5f - 0.5f * cosf(kPi * after);
    }
    muted[r * steps + step] = weight * trace[r * steps + step];
}

// Band pass: a windowed difference of two sinc functions.
__global__ void filter_traces(int receivers, int steps, const float* trace, float* filtered) {
    const int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= receivers) return;
    for (int step = 0; step < steps; ++step) {
        filtered[r * steps + step] = 0;
        for (int tap = -kTaps; tap <= kTaps; ++tap) {
            if (step + tap < 0 || step + tap >= steps) continue;
            const float time = tap * kTimeStep;
            float response = 2.0f * (kHighFrequency - kLowFrequency) * kTimeStep;
            if (tap != 0) {
                response = (sinf(2.0f * kPi * kHighFrequency * time) -
                            sinf(2.0f * kPi * kLowFrequency * time)) /
                           (kPi * tap);
            }
            const float window = 0.5f + 0.5f * cosf(kPi * tap / (kTaps + 1));
            filtered[r * steps + step] += response * window * trace[r * steps + step + tap];
        }
    }
}

__global__ void correlate(int cells, const float* snapshot, const float* field,
                          ImagePoint* point) {
    const int cell = blockIdx.x * blockDim.x + threadIdx.x;
    if (cell >= cells) return;
    point[cell].image += snapshot[cell] * field[cell];
    point[cell].illumination += snapshot[cell] * snapshot[cell];
}

__global__ void strongest_illumination(int cells, const ImagePoint* point, int* strongest) {
    const int cell = blockIdx.x * blockDim.x + threadIdx.x;
    // Floats that are not negative have the order of their bits.
    if (cell < cells) atomicMax(strongest, __float_as_int(point[cell].illumination));
}

__global__ void normalise_image(int cells, const int* strongest, ImagePoint* point) {
    const int cell = blockIdx.x * blockDim.x + threadIdx.x;
    if (cell >= cells) return;
    point[cell].image /= point[cell].illumination + 1e-3f * __int_as_float(*strongest);
}

// Takes out the slow changes that strong waves leave in the image.
__global__ void sharpen_image(Grid grid, const ImagePoint* point, float* sharp) {
    const int z = blockIdx.x * blockDim.x + threadIdx.x;
    const int y = blockIdx.y * blockDim.y + threadIdx.y;
    const int x = blockIdx.z * blockDim.z + threadIdx.z;
    if (x >= grid.nx || y >= grid.ny || z >= grid.nz) return;
    float sum = 0;
    if (inside(grid, x, y, z)) {
        sum = 6.0f * point[cell_of(grid, x, y, z)].image;
        sum -= point[cell_of(grid, x - 1, y, z)].image;
        sum -= point[cell_of(grid, x + 1, y, z)].image;
        sum -= point[cell_of(grid, x, y - 1, z)].image;
        sum -= point[cell_of(grid, x, y + 1, z)].image;
        sum -= point[cell_of(grid, x, y, z - 1)].image;
        sum -= point[cell_of(grid, x, y, z + 1)].image;
    }
    sharp[cell_of(grid, x, y, z)] = sum;
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
        next_ = allocate<float>(cells_);
        laplacian_ = allocate<float>(cells_);
        snapshot_ = allocate<float>(std::size_t(cells_) * snapshots_);
        observed_ = allocate<float>(receivers_ * steps_);
        muted_ = allocate<float>(receivers_ * steps_);
        filtered_ = allocate<float>(receivers_ * steps_);
        point_ = allocate<ImagePoint>(cells_);
        sharp_ = allocate<float>(cells_);
        sum_ = allocate<double>(1);
        strongest_ = allocate<int>(1);
    }

    ~Migration() {
        for (void* pointer : std::initializer_list<void*>{
                 receiver_, true_velocity_, smooth_velocity_, field_, previous_, next_,
                 laplacian_, snapshot_, observed_, muted_, filtered_, point_, sharp_, sum_,
                 strongest_}) {
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

    std::vector<float> observed() const { return download(observed_, receivers_ * steps_); }
    std::vector<float> image() const { return download(sharp_, cells_); }
    const std::vector<float>& energies() const { return energies_; }

private:
    void clear_fields() {
        for (float* field : {field_, previous_, next_, laplacian_})
            CUDA_CHECK(cudaMemset(field, 0, cells_ * sizeof(float)));
    }

    void propagate(const float* velocity) {
        const dim3 threads(8, 8, 4);
        const dim3 blocks(blocks_for(grid_.nx, threads.x), blocks_for(grid_.ny, threads.y),
                          blocks_for(grid_.nz, threads.z));
        compute_laplacian<<<blocks, threads>>>(grid_, field_, laplacian_);
        CUDA_CHECK(cudaGetLastError());
        advance_field<<<blocks, threads>>>(grid_, velocity, laplacian_, field_, previous_, next_);
        CUDA_CHECK(cudaGetLastError());
        absorb<<<blocks, threads>>>(grid_, field_, next_);
        CUDA_CHECK(cudaGetLastError());
        copy_field<<<blocks_for(cells_), kThreads>>>(cells_, field_, previous_);
        CUDA_CHECK(cudaGetLastError());
        copy_field<<<blocks_for(cells_), kThreads>>>(cells_, next_, field_);
        CUDA_CHECK(cudaGetLastError());
    }

    void model_traces() {
        clear_fields();
        for (int step = 0; step < steps_; ++step) {
            propagate(true_velocity_);
            inject_source<<<1, 1>>>(grid_, survey_.source, step, true_velocity_, field_);
            CUDA_CHECK(cudaGetLastError());
            record_receivers<<<blocks_for(receivers_), kThreads>>>(
                grid_, receivers_, receiver_, step, steps_, field_, observed_);
            CUDA_CHECK(cudaGetLastError());
            watch_energy(step);
        }
    }

    void prepare_traces() {
        mute_direct<<<dim3(blocks_for(receivers_), steps_), kThreads>>>(
            receivers_, receiver_, survey_.source, steps_, observed_, muted_);
        CUDA_CHECK(cudaGetLastError());
        filter_traces<<<blocks_for(receivers_), kThreads>>>(receivers_, steps_, muted_, filtered_);
        CUDA_CHECK(cudaGetLastError());
    }

    void propagate_source() {
        clear_fields();
        for (int step = 0; step < steps_; ++step) {
            propagate(smooth_velocity_);
            inject_source<<<1, 1>>>(grid_, survey_.source, step, smooth_velocity_, field_);
            CUDA_CHECK(cudaGetLastError());
            if (step % kSnapshotInterval == 0) {
                copy_field<<<blocks_for(cells_), kThreads>>>(cells_, field_, snapshot_of(step));
                CUDA_CHECK(cudaGetLastError());
            }
            watch_energy(step);
        }
    }

    void propagate_traces() {
        clear_fields();
        CUDA_CHECK(cudaMemset(point_, 0, cells_ * sizeof(ImagePoint)));
        for (int step = steps_ - 1; step >= 0; --step) {
            propagate(smooth_velocity_);
            inject_receivers<<<blocks_for(receivers_), kThreads>>>(
                grid_, receivers_, receiver_, step, steps_, smooth_velocity_, filtered_, field_);
            CUDA_CHECK(cudaGetLastError());
            if (step % kSnapshotInterval == 0) {
                correlate<<<blocks_for(cells_), kThreads>>>(cells_, snapshot_of(step), field_,
                                                            point_);
                CUDA_CHECK(cudaGetLastError());
            }
            watch_energy(step);
        }
    }

    void finish_image() {
        CUDA_CHECK(cudaMemset(strongest_, 0, sizeof(int)));
        strongest_illumination<<<blocks_for(cells_), kThreads>>>(cells_, point_, strongest_);
        CUDA_CHECK(cudaGetLastError());
        normalise_image<<<blocks_for(cells_), kThreads>>>(cells_, strongest_, point_);
        CUDA_CHECK(cudaGetLastError());
        const dim3 threads(32, 8, 1);
        sharpen_image<<<dim3(blocks_for(grid_.nz, threads.x), blocks_for(grid_.ny, threads.y),
                             grid_.nx),
                        threads>>>(grid_, point_, sharp_);
        CUDA_CHECK(cudaGetLastError());
        CUDA_CHECK(cudaDeviceSynchronize());
    }

    // A propagation that is not stable is given up.
    void watch_energy(int step) {
        if (step % kEnergyInterval != 0) return;
        CUDA_CHECK(cudaMemset(sum_, 0, sizeof(double)));
        field_energy<<<blocks_for(grid_.ny * grid_.nz), kThreads>>>(grid_, field_, sum_);
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
    float* next_;
    float* laplacian_;
    float* snapshot_;
    float* observed_;
    float* muted_;
    float* filtered_;
    ImagePoint* point_;
    float* sharp_;
    double* sum_;
    int* strongest_;
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
