// Acoustic wave propagation for seismic imaging: second order in time, eighth order in space, a sponge
// of absorbing cells around the model, a point source and a spread of receivers on one plane.
#include "../../harness/book.h"

struct Model {
    int nx, ny, nz;
    const float* now;       // pressure, x fastest
    const float* before;    // pressure one step earlier
    const float* velocity;  // (v dt / h)^2
    const float* sponge_x;  // damping per coordinate: 1 inside
    const float* sponge_y;
    const float* sponge_z;
    float* next;
};

struct Shot {
    Model model;  // `now` and `before` are the two fields below
    float* fields[2];
    int steps;
    const float* wavelet;
    int source_x, source_y, source_z;
    int receiver_z;  // one receiver at every fourth cell in x and y
    float* traces;
};

//: shared
constexpr int kRadius = 4;
constexpr float kC0 = -205.0f / 72, kC1 = 8.0f / 5, kC2 = -1.0f / 5, kC3 = 8.0f / 315, kC4 = -1.0f / 560;
constexpr int kTileX = 32, kTileY = 16;

inline dim3 columns_of(const Model& m, int chunks) {
    return dim3(m.nx / kTileX, m.ny / kTileY, chunks);
}

// Value of the field, zero outside of the model.
__device__ float cell(const Model& m, int x, int y, int z) {
    if (x < 0 || y < 0 || z < 0 || x >= m.nx || y >= m.ny || z >= m.nz) return 0;
    return m.now[(size_t(z) * m.ny + y) * m.nx + x];
}

// Fills the tile of one plane with its halo in x and y. The centre comes from the caller.
__device__ void fill_tile(const Model& m, float (*tile)[kTileX + 2 * kRadius], float centre, int x, int y,
                          int z) {
    const int i = threadIdx.x + kRadius, j = threadIdx.y + kRadius;
    tile[j][i] = centre;
    if (threadIdx.x < kRadius) {
        tile[j][i - kRadius] = cell(m, x - kRadius, y, z);
        tile[j][i + kTileX] = cell(m, x + kTileX, y, z);
    }
    if (threadIdx.y < kRadius) {
        tile[j - kRadius][i] = cell(m, x, y - kRadius, z);
        tile[j + kTileY][i] = cell(m, x, y + kTileY, z);
    }
}

// A block walks along z over `depth` planes and keeps the column of each thread in registers.
template <int MinBlocks>
__global__ void __launch_bounds__(kTileX * kTileY, MinBlocks) march_planes(Model m, int depth) {
    __shared__ float tile[kTileY + 2 * kRadius][kTileX + 2 * kRadius];
    const int x = blockIdx.x * kTileX + threadIdx.x, y = blockIdx.y * kTileY + threadIdx.y;
    const int i = threadIdx.x + kRadius, j = threadIdx.y + kRadius;
    const int first = blockIdx.z * depth, last = min(first + depth, m.nz);
    float column[2 * kRadius + 1];
#pragma unroll
    for (int k = 0; k < 2 * kRadius; ++k) column[k + 1] = cell(m, x, y, first - kRadius + k);
    const float edge = m.sponge_x[x] * m.sponge_y[y];
    for (int z = first; z < last; ++z) {
#pragma unroll
        for (int k = 0; k < 2 * kRadius; ++k) column[k] = column[k + 1];
        column[2 * kRadius] = cell(m, x, y, z + kRadius);
        const size_t at = (size_t(z) * m.ny + y) * m.nx + x;
        const float before = m.before[at], velocity = m.velocity[at];
        __syncthreads();
        fill_tile(m, tile, column[kRadius], x, y, z);
        __syncthreads();
        float sum = 3 * kC0 * column[4];
        sum += kC1 * (tile[j][i - 1] + tile[j][i + 1] + tile[j - 1][i] + tile[j + 1][i] + column[3] + column[5]);
        sum += kC2 * (tile[j][i - 2] + tile[j][i + 2] + tile[j - 2][i] + tile[j + 2][i] + column[2] + column[6]);
        sum += kC3 * (tile[j][i - 3] + tile[j][i + 3] + tile[j - 3][i] + tile[j + 3][i] + column[1] + column[7]);
        sum += kC4 * (tile[j][i - 4] + tile[j][i + 4] + tile[j - 4][i] + tile[j + 4][i] + column[0] + column[8]);
        m.next[at] = edge * m.sponge_z[z] * (2 * column[4] - before + velocity * sum);
    }
}
//: end

//: variant volume
__global__ void step_volume(Model m) {
    const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y, z = blockIdx.z;
    const size_t at = (size_t(z) * m.ny + y) * m.nx + x;
    const float c[] = {kC0, kC1, kC2, kC3, kC4};
    const float centre = m.now[at];
    float sum = 3 * c[0] * centre;
#pragma unroll
    for (int k = 1; k <= kRadius; ++k) {
        sum += c[k] * (cell(m, x - k, y, z) + cell(m, x + k, y, z) + cell(m, x, y - k, z) +
                       cell(m, x, y + k, z) + cell(m, x, y, z - k) + cell(m, x, y, z + k));
    }
    const float sponge = m.sponge_x[x] * m.sponge_y[y] * m.sponge_z[z];
    m.next[at] = sponge * (2 * centre - m.before[at] + m.velocity[at] * sum);
}

void volume(const Model& m) {
    step_volume<<<dim3(m.nx / 32, m.ny / 8, m.nz), dim3(32, 8)>>>(m);
}
//: end

//: variant march
void march(const Model& m) {
    const int depth = 24;
    march_planes<2><<<columns_of(m, (m.nz + depth - 1) / depth), dim3(kTileX, kTileY)>>>(m, depth);
}
//: end

//: variant march_whole
void march_whole(const Model& m) {
    const int depth = m.nz;
    march_planes<2><<<columns_of(m, (m.nz + depth - 1) / depth), dim3(kTileX, kTileY)>>>(m, depth);
}
//: end

//: variant march_four
void march_four(const Model& m) {
    const int depth = 24;
    march_planes<4><<<columns_of(m, (m.nz + depth - 1) / depth), dim3(kTileX, kTileY)>>>(m, depth);
}
//: end

//: variant march_two_tiles
__global__ void __launch_bounds__(kTileX * kTileY, 4) march_planes_two_tiles(Model m, int depth) {
    __shared__ float tiles[2][kTileY + 2 * kRadius][kTileX + 2 * kRadius];
    const int x = blockIdx.x * kTileX + threadIdx.x, y = blockIdx.y * kTileY + threadIdx.y;
    const int i = threadIdx.x + kRadius, j = threadIdx.y + kRadius;
    const int first = blockIdx.z * depth, last = min(first + depth, m.nz);
    float column[2 * kRadius + 1];
#pragma unroll
    for (int k = 0; k < 2 * kRadius; ++k) column[k + 1] = cell(m, x, y, first - kRadius + k);
    const float edge = m.sponge_x[x] * m.sponge_y[y];
    for (int z = first; z < last; ++z) {
        auto tile = tiles[z % 2];
#pragma unroll
        for (int k = 0; k < 2 * kRadius; ++k) column[k] = column[k + 1];
        column[2 * kRadius] = cell(m, x, y, z + kRadius);
        const size_t at = (size_t(z) * m.ny + y) * m.nx + x;
        const float before = m.before[at], velocity = m.velocity[at];
        fill_tile(m, tile, column[kRadius], x, y, z);
        __syncthreads();
        float sum = 3 * kC0 * column[4];
        sum += kC1 * (tile[j][i - 1] + tile[j][i + 1] + tile[j - 1][i] + tile[j + 1][i] + column[3] + column[5]);
        sum += kC2 * (tile[j][i - 2] + tile[j][i + 2] + tile[j - 2][i] + tile[j + 2][i] + column[2] + column[6]);
        sum += kC3 * (tile[j][i - 3] + tile[j][i + 3] + tile[j - 3][i] + tile[j + 3][i] + column[1] + column[7]);
        sum += kC4 * (tile[j][i - 4] + tile[j][i + 4] + tile[j - 4][i] + tile[j + 4][i] + column[0] + column[8]);
        m.next[at] = edge * m.sponge_z[z] * (2 * column[4] - before + velocity * sum);
    }
}

void march_two_tiles(const Model& m) {
    const int depth = 24;
    march_planes_two_tiles<<<columns_of(m, (m.nz + depth - 1) / depth), dim3(kTileX, kTileY)>>>(m, depth);
}
//: end

//: variant march_weights
// The weights of the second derivative as in the textbook.
__global__ void __launch_bounds__(kTileX * kTileY, 2) march_planes_weights(Model m, int depth) {
    __shared__ float tile[kTileY + 2 * kRadius][kTileX + 2 * kRadius];
    const int x = blockIdx.x * kTileX + threadIdx.x, y = blockIdx.y * kTileY + threadIdx.y;
    const int i = threadIdx.x + kRadius, j = threadIdx.y + kRadius;
    const int first = blockIdx.z * depth, last = min(first + depth, m.nz);
    float column[2 * kRadius + 1];
#pragma unroll
    for (int k = 0; k < 2 * kRadius; ++k) column[k + 1] = cell(m, x, y, first - kRadius + k);
    const float edge = m.sponge_x[x] * m.sponge_y[y];
    for (int z = first; z < last; ++z) {
#pragma unroll
        for (int k = 0; k < 2 * kRadius; ++k) column[k] = column[k + 1];
        column[2 * kRadius] = cell(m, x, y, z + kRadius);
        const size_t at = (size_t(z) * m.ny + y) * m.nx + x;
        const float before = m.before[at], velocity = m.velocity[at];
        __syncthreads();
        fill_tile(m, tile, column[kRadius], x, y, z);
        __syncthreads();
        float sum = -205.0 / 24.0 * column[4];
        sum += 8.0 / 5.0 * (tile[j][i - 1] + tile[j][i + 1] + tile[j - 1][i] + tile[j + 1][i] + column[3] + column[5]);
        sum += -1.0 / 5.0 * (tile[j][i - 2] + tile[j][i + 2] + tile[j - 2][i] + tile[j + 2][i] + column[2] + column[6]);
        sum += 8.0 / 315.0 * (tile[j][i - 3] + tile[j][i + 3] + tile[j - 3][i] + tile[j + 3][i] + column[1] + column[7]);
        sum += -1.0 / 560.0 * (tile[j][i - 4] + tile[j][i + 4] + tile[j - 4][i] + tile[j + 4][i] + column[0] + column[8]);
        m.next[at] = edge * m.sponge_z[z] * (2.0 * column[4] - before + velocity * sum);
    }
}

void march_weights(const Model& m) {
    const int depth = 24;
    march_planes_weights<<<columns_of(m, (m.nz + depth - 1) / depth), dim3(kTileX, kTileY)>>>(m, depth);
}
//: end

//: shared
// One step of a cell in a small model. `m.before` is overwritten with the new field.
__device__ float stepped(const Model& m, int x, int y, int z, size_t at) {
    const float c[] = {kC0, kC1, kC2, kC3, kC4};
    const float centre = m.now[at];
    float sum = 3 * c[0] * centre;
#pragma unroll
    for (int k = 1; k <= kRadius; ++k) {
        sum += c[k] * (cell(m, x - k, y, z) + cell(m, x + k, y, z) + cell(m, x, y - k, z) +
                       cell(m, x, y + k, z) + cell(m, x, y, z - k) + cell(m, x, y, z + k));
    }
    const float sponge = m.sponge_x[x] * m.sponge_y[y] * m.sponge_z[z];
    return sponge * (2 * centre - m.before[at] + m.velocity[at] * sum);
}

inline Model model_at(const Shot& s, int step) {
    Model m = s.model;
    m.now = s.fields[step % 2];
    m.before = m.next = s.fields[(step + 1) % 2];
    return m;
}
//: end

//: variant shot_stages
__global__ void stage_step(Model m) {
    const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y, z = blockIdx.z;
    const size_t at = (size_t(z) * m.ny + y) * m.nx + x;
    m.next[at] = stepped(m, x, y, z, at);
}

__global__ void stage_source(float* next, size_t at, const float* wavelet, int step) {
    next[at] += wavelet[step];
}

__global__ void stage_receivers(Model m, int receiver_z, float* trace) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x, across = m.nx / 4;
    if (i >= across * (m.ny / 4)) return;
    const int x = i % across * 4, y = i / across * 4;
    trace[i] = m.next[(size_t(receiver_z) * m.ny + y) * m.nx + x];
}

void shot_stages(const Shot& s, const book::Problem* problem) {
    const Model& all = s.model;
    const int receivers = all.nx / 4 * (all.ny / 4);
    const size_t source = (size_t(s.source_z) * all.ny + s.source_y) * all.nx + s.source_x;
    for (int step = 0; step < s.steps; ++step) {
        const Model m = model_at(s, step);
        stage_step<<<dim3(m.nx / 32, m.ny / 8, m.nz), dim3(32, 8)>>>(m);
        stage_source<<<1, 1>>>(m.next, source, s.wavelet, step);
        stage_receivers<<<(receivers + 127) / 128, 128>>>(m, s.receiver_z, s.traces + size_t(step) * receivers);
        problem->launched(step, 1);
    }
}
//: end

//: variant shot_one_kernel
__global__ void step_and_record(Model m, Shot s, int step) {
    const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y, z = blockIdx.z;
    const size_t at = (size_t(z) * m.ny + y) * m.nx + x;
    float next = stepped(m, x, y, z, at);
    if (x == s.source_x && y == s.source_y && z == s.source_z) next += s.wavelet[step];
    m.next[at] = next;
    if (z == s.receiver_z && x % 4 == 0 && y % 4 == 0) {
        s.traces[(size_t(step) * (m.ny / 4) + y / 4) * (m.nx / 4) + x / 4] = next;
    }
}

void shot_one_kernel(const Shot& s, const book::Problem* problem) {
    for (int step = 0; step < s.steps; ++step) {
        const Model m = model_at(s, step);
        step_and_record<<<dim3(m.nx / 32, m.ny / 8, m.nz), dim3(32, 8)>>>(m, s, step);
        problem->launched(step, 2);
    }
}
//: end

template <class T>
__global__ void reference_step(Model m, const T* now, const T* before, T* next) {
    const double weights[5] = {-205.0 / 72, 8.0 / 5, -1.0 / 5, 8.0 / 315, -1.0 / 560};
    const int sizes[3] = {m.nx, m.ny, m.nz};
    const size_t strides[3] = {1, size_t(m.nx), size_t(m.nx) * m.ny};
    for (size_t at = blockIdx.x * size_t{blockDim.x} + threadIdx.x; at < strides[2] * m.nz;
         at += size_t{gridDim.x} * blockDim.x) {
        const int place[3] = {int(at % m.nx), int(at / m.nx % m.ny), int(at / strides[2])};
        double sum = 0;
        for (int axis = 0; axis < 3; ++axis) {
            for (int k = -4; k <= 4; ++k) {
                const int there = place[axis] + k;
                if (there < 0 || there >= sizes[axis]) continue;
                sum += weights[abs(k)] * double(now[at + k * (long long)strides[axis]]);
            }
        }
        const double sponge = double(m.sponge_x[place[0]]) * m.sponge_y[place[1]] * m.sponge_z[place[2]];
        next[at] = T(sponge * (2.0 * double(now[at]) - double(before[at]) + double(m.velocity[at]) * sum));
    }
}

__global__ void reference_widen(const float* from, double* to, size_t count) {
    const size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x;
    if (i < count) to[i] = from[i];
}

__global__ void reference_record(Shot s, double* next, int step, float* expected) {
    const int nx = s.model.nx, ny = s.model.ny;
    next[(size_t(s.source_z) * ny + s.source_y) * nx + s.source_x] += s.wavelet[step];
    for (int y = 0; y < ny; y += 4) {
        for (int x = 0; x < nx; x += 4) {
            *expected++ = float(next[(size_t(s.receiver_z) * ny + y) * nx + x]);
        }
    }
}

const float* sponge(book::Problem& p, int count) {
    return p.input<float>(count, [=] __device__(size_t i) {
        const int in = min(int(i), count - 1 - int(i));
        const float depth = in < 16 ? 0.015f * (16 - in) : 0;
        return expf(-depth * depth);
    });
}

Model set_up_cells(book::Problem& p, int nx, int ny, int nz) {
    Model m{nx, ny, nz};
    m.velocity = p.uniform<float>(size_t(nx) * ny * nz, 0.05, 0.15);
    m.sponge_x = sponge(p, nx);
    m.sponge_y = sponge(p, ny);
    m.sponge_z = sponge(p, nz);
    return m;
}

Model set_up(book::Problem& p, int nx, int ny, int nz) {
    Model m = set_up_cells(p, nx, ny, nz);
    const size_t count = size_t(nx) * ny * nz;
    m.now = p.uniform<float>(count, -1, 1);
    m.before = p.uniform<float>(count, -1, 1);
    m.next = p.output<float>(count);
    // 24 additions of neighbours, 5 weights, and 6 operations for the step
    p.needs({.dram_bytes = 16.0 * count, .fp32_flop = 38.0 * count});
    p.check<float>(m.next, count, {1e-5, 5e-6}, [=](float* expected) {
        reference_step<float><<<1056, 256>>>(m, m.now, m.before, expected);
    });
    return m;
}

Shot set_up_shot(book::Problem& p, int nx, int ny, int nz, int steps) {
    Shot s{set_up_cells(p, nx, ny, nz)};
    const uint64_t seed = p.seed();
    const size_t count = size_t(nx) * ny * nz;
    const int receivers = nx / 4 * (ny / 4);
    for (int k = 0; k < 2; ++k) {
        s.fields[k] = p.state<float>(count, [=] __device__(size_t i) {
            return float(2 * book::uniform01(seed, 90 + k, i / 64) - 1);
        });
    }
    s.steps = steps;
    s.wavelet = p.input<float>(steps, [=] __device__(size_t i) {
        const float t = 0.3f * (float(i) - 10);
        return 20 * (1 - 2 * t * t) * expf(-t * t);
    });
    s.source_x = nx / 2, s.source_y = ny / 2, s.source_z = 8;
    s.receiver_z = 6;
    s.traces = p.output<float>(size_t(steps) * receivers);
    p.needs({.dram_bytes = 16.0 * count + 4.0 * steps * receivers, .fp32_flop = 38.0 * count * steps,
             .steps = double(steps)});
    p.check<float>(s.traces, size_t(steps) * receivers, {1e-4, 1e-3}, [=](float* expected) {
        // From values like those of the fields: these hold the first step's input only in a run.
        double* fields[2];
        float* start = nullptr;
        BOOK_CHECK(cudaMalloc(&start, count * sizeof(float)));
        for (int k = 0; k < 2; ++k) {
            BOOK_CHECK(cudaMalloc(&fields[k], count * sizeof(double)));
            book::book_fill<<<1056, 256>>>(start, count, [=] __device__(size_t i) {
                return float(2 * book::uniform01(seed, 90 + k, i / 64) - 1);
            });
            reference_widen<<<unsigned((count + 255) / 256), 256>>>(start, fields[k], count);
        }
        for (int step = 0; step < steps; ++step) {
            double* now = fields[step % 2];
            double* next = fields[(step + 1) % 2];
            reference_step<double><<<1056, 256>>>(s.model, now, next, next);
            reference_record<<<1, 1>>>(s, next, step, expected + size_t(step) * receivers);
        }
        BOOK_CHECK(cudaDeviceSynchronize());
        for (double* field : fields) BOOK_CHECK(cudaFree(field));
        BOOK_CHECK(cudaFree(start));
    });
    return s;
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("basin", [](book::Problem& p) {
        const auto m = set_up(p, 256, 256, 192);
        p.variant("volume", [=] { volume(m); });
        p.variant("march", [=] { march(m); });
        p.variant("march_whole", [=] { march_whole(m); });
        p.variant("march_four", [=] { march_four(m); });
        p.variant("march_weights", [=] { march_weights(m); });
        p.variant("march_two_tiles", [=] { march_two_tiles(m); });
    });
    book.problem("wide", [](book::Problem& p) {
        const auto m = set_up(p, 448, 320, 96);
        p.variant("march", [=] { march(m); });
        p.variant("march_whole", [=] { march_whole(m); });
    });
    book.problem("small_shot", [](book::Problem& p) {
        const auto s = set_up_shot(p, 64, 64, 64, 40);
        const auto* problem = &p;
        p.variant("shot_stages", [=] { shot_stages(s, problem); });
        p.variant("shot_one_kernel", [=] { shot_one_kernel(s, problem); });
    });
    return book.finish();
}
