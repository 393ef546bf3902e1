// Reacting flow on a grid: transport, chemistry and implicit heat conduction.
//
// Per time step: the rate coefficients are integrated for the current mixture, the flow is rebuilt
// from its leading modes, the cells react, the fields are transported (van Leer limiter, planes
// only), and the temperature is diffused implicitly by conjugate gradients with device-side
// scalars. The host looks at the residual every few iterations.
//
// build: nvcc -O3 -lineinfo -arch=sm_90 -o reactive reactive.cu
// run:   ./reactive

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

constexpr int kNx = 128;
constexpr int kNy = 128;
constexpr int kNz = 64;
constexpr int kPlane = kNx * kNy;
constexpr int kCells = kPlane * kNz;
constexpr int kSteps = 3;
constexpr int kModes = 24;
constexpr int kSpecies = 8;
constexpr int kReactions = 12;
constexpr int kBins = 1024;  // temperatures in the table of rates
constexpr int kPoints = 4096;  // of the integrals
constexpr int kTile = 32;
constexpr int kThreads = 256;
constexpr int kDotBlocks = kCells / (2 * kThreads);  // two cells per thread
constexpr int kTransportBlocks = (kNx / kTile) * (kNy / kTile) * kNz;  // of one field
constexpr int kCheckEvery = 4;
constexpr int kMaxIterations = 100;
constexpr double kTolerance = 1e-9;

constexpr double kColdest = 300.0;
constexpr double kBinWidth = 2.0;
constexpr double kStep = 0.02;

struct Scalars {
    double residual;  // r . r
    double first_residual;
    double alpha;
    double beta;
};

enum class Dot { kStart, kAlpha, kBeta };

// Reactants x and y become the products z and w.
__constant__ int4 reactions[kReactions];
__constant__ double activation[kReactions];

static const int4 kNetwork[kReactions] = {
    {0, 1, 2, 3}, {2, 3, 4, 5}, {4, 0, 6, 1}, {5, 1, 7, 0}, {6, 7, 0, 1}, {2, 4, 3, 6},
    {3, 5, 2, 7}, {6, 1, 5, 2}, {7, 0, 4, 3}, {1, 3, 0, 6}, {4, 7, 5, 1}, {5, 6, 7, 4},
};

// ---------------------------------------------------------------------------------------------
// Pieces shared with the host
// ---------------------------------------------------------------------------------------------

__host__ __device__ __forceinline__ uint32_t mix(uint32_t x) {
    x ^= x >> 16;
    x *= 0x7feb352dU;
    x ^= x >> 15;
    x *= 0x846ca68bU;
    x ^= x >> 16;
    return x;
}

// Integrand of a rate coefficient over the collision energy.
__host__ __device__ __forceinline__ double integrand(double energy, double barrier, double inverse_t) {
    double over = energy - barrier;
    double section = over * (1.0 + over * (0.31 - over * 0.027));
    return section * exp(-energy * inverse_t);
}

__host__ __device__ __forceinline__ double van_leer(double a, double b) {
    return a * b > 0.0 ? 2.0 * a * b / (a + b) : 0.0;
}

// Flux through the face between b and c; the speed is in cells per step.
__host__ __device__ __forceinline__ double face_flux(double a, double b, double c, double d, double speed) {
    if (speed >= 0.0) return speed * (b + 0.5 * (1.0 - speed) * van_leer(b - a, c - b));
    return speed * (c - 0.5 * (1.0 + speed) * van_leer(c - b, d - c));
}

__host__ __device__ __forceinline__ int substeps(double temperature) {
    return 1 + min(7, max(0, static_cast<int>((temperature - kColdest) * (1.0 / 200.0))));
}

// ---------------------------------------------------------------------------------------------
// Chemistry
// ---------------------------------------------------------------------------------------------

// One rate coefficient per thread: reaction and temperature.
__global__ void __launch_bounds__(kThreads)
integrate_rates(double* __restrict__ rates, double mixture) {
    int i = blockIdx.x * kThreads + threadIdx.x;
    double barrier = activation[i / kBins] * mixture;
    double inverse_t = 1000.0 / (kColdest + kBinWidth * (i % kBins));
    double width = 20.0 / kPoints;
    double even = 0.0;
    double odd = 0.0;
    for (int point = 0; point < kPoints; point += 2) {
        even += integrand(barrier + (point + 0.5) * width, barrier, inverse_t);
        odd += integrand(barrier + (point + 1.5) * width, barrier, inverse_t);
    }
    rates[i] = (even + odd) * width;
}

// Species and heat of each cell. Hot cells take more, shorter steps.
__global__ void __launch_bounds__(kThreads)
react_cells(const double* __restrict__ rates, const double* __restrict__ temperature,
            double* __restrict__ species, double* __restrict__ heat) {
    int i = blockIdx.x * kThreads + threadIdx.x;
    double t = temperature[i];
    double place = fmin(fmax((t - kColdest) * (1.0 / kBinWidth), 0.0), kBins - 1.001);
    int bin = static_cast<int>(place);
    double fraction = place - bin;
    double amount_of[kSpecies];
#pragma unroll
    for (int s = 0; s < kSpecies; ++s) amount_of[s] = species[s * kCells + i];
    int steps = substeps(t);
    double step = kStep / steps;
    double released = 0.0;
    for (int n = 0; n < steps; ++n) {
        for (int r = 0; r < kReactions; ++r) {
            int4 reaction = reactions[r];
            double low = rates[r * kBins + bin];
            double rate = low + fraction * (rates[r * kBins + bin + 1] - low);
            double x = amount_of[reaction.x];
            double y = amount_of[reaction.y];
            double turned = fmin(step * rate * x * y, 0.25 * fmin(x, y));
            amount_of[reaction.x] = x - turned;
            amount_of[reaction.y] = y - turned;
            amount_of[reaction.z] += turned;
            amount_of[reaction.w] += turned;
            released += turned * activation[r];
        }
    }
#pragma unroll
    for (int s = 0; s < kSpecies; ++s) species[s * kCells + i] = amount_of[s];
    heat[i] = released;
}

// ---------------------------------------------------------------------------------------------
// Flow and transport
// ---------------------------------------------------------------------------------------------

// Velocity of each cell: every mode's vector turned and scaled by that mode's matrix.
__global__ void __launch_bounds__(kThreads)
rebuild_flow(const float4* __restrict__ matrices, const float2* __restrict__ modes,
             float2* __restrict__ flow) {
    int i = blockIdx.x * kThreads + threadIdx.x;
    float2 sum = make_float2(0.0f, 0.0f);
#pragma unroll 4
    for (int m = 0; m < kModes; ++m) {
        float4 matrix = matrices[m];
        float2 mode = modes[static_cast<size_t>(m) * kCells + i];
        sum.x += matrix.x * mode.x + matrix.y * mode.y;
        sum.y += matrix.z * mode.x + matrix.w * mode.y;
    }
    flow[i] = sum;
}

// Transports one field's tile per block: load with margin, fluxes through all faces, update. The
// fields are the species and, last, the temperature, which also takes up the heat of reaction.
__global__ void __launch_bounds__(kThreads)
transport(const double* __restrict__ species, const double* __restrict__ temperature,
          const float2* __restrict__ flow, const double* __restrict__ heat,
          double* __restrict__ species_out, double* __restrict__ rhs, double* __restrict__ partial) {
    __shared__ double value[kTile + 4][kTile + 5];
    __shared__ float2 speed[kTile + 2][kTile + 2];
    __shared__ double across[kTile][kTile + 1];
    __shared__ double along[kTile + 1][kTile];
    __shared__ double sums[kThreads / 32];
    int field = blockIdx.z / kNz;
    int plane = (blockIdx.z % kNz) * kPlane;
    int x0 = blockIdx.x * kTile;
    int y0 = blockIdx.y * kTile;
    const double* in = field == kSpecies ? temperature : species + field * kCells;

    for (int k = threadIdx.x; k < (kTile + 4) * (kTile + 4); k += kThreads) {
        int row = k / (kTile + 4), column = k % (kTile + 4);
        int x = (x0 + column - 2) & (kNx - 1), y = (y0 + row - 2) & (kNy - 1);
        value[row][column] = in[plane + y * kNx + x];
    }
    for (int k = threadIdx.x; k < (kTile + 2) * (kTile + 2); k += kThreads) {
        int row = k / (kTile + 2), column = k % (kTile + 2);
        int x = (x0 + column - 1) & (kNx - 1), y = (y0 + row - 1) & (kNy - 1);
        speed[row][column] = flow[plane + y * kNx + x];
    }
    __syncthreads();

    for (int k = threadIdx.x; k < kTile * (kTile + 1); k += kThreads) {
        int row = k / (kTile + 1), face = k % (kTile + 1);
        double v = 0.5 * (speed[row + 1][face].x + speed[row + 1][face + 1].x);
        const double* at = &value[row + 2][face];
        across[row][face] = face_flux(at[0], at[1], at[2], at[3], v);
    }
    for (int k = threadIdx.x; k < (kTile + 1) * kTile; k += kThreads) {
        int face = k / kTile, column = k % kTile;
        double v = 0.5 * (speed[face][column + 1].y + speed[face + 1][column + 1].y);
        along[face][column] = face_flux(value[face][column + 2], value[face + 1][column + 2],
                                        value[face + 2][column + 2], value[face + 3][column + 2], v);
    }
    __syncthreads();

    double square = 0.0;
    for (int k = threadIdx.x; k < kTile * kTile; k += kThreads) {
        int row = k / kTile, column = k % kTile;
        double moved = value[row + 2][column + 2] + across[row][column] - across[row][column + 1] +
                       along[row][column] - along[row + 1][column];
        int cell = plane + (y0 + row) * kNx + x0 + column;
        if (field == kSpecies) {
            moved += heat[cell];
            rhs[cell] = moved;
            square += moved * moved;
        } else {
            species_out[field * kCells + cell] = moved;
        }
    }
    if (field < kSpecies) return;
    for (int offset = 16; offset > 0; offset /= 2) square += __shfl_down_sync(~0U, square, offset);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = square;
    __syncthreads();
    if (threadIdx.x == 0) {
        double total = 0.0;
        for (int w = 0; w < kThreads / 32; ++w) total += sums[w];
        partial[(blockIdx.z % kNz) * gridDim.x * gridDim.y + blockIdx.y * gridDim.x + blockIdx.x] = total;
    }
}

// ---------------------------------------------------------------------------------------------
// Conjugate gradients
// ---------------------------------------------------------------------------------------------

__device__ __forceinline__ void store_block_sum(double sum, double* target) {
    __shared__ double sums[kThreads / 32];
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(~0U, sum, offset);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        double total = 0.0;
        for (int w = 0; w < kThreads / 32; ++w) total += sums[w];
        *target = total;
    }
}

__host__ __device__ __forceinline__ double operator_at(const double* p, const double* conduct, int i) {
    int x = i % kNx, y = i / kNx % kNy, z = i / kPlane;
    int row = i - x, column = i - y * kNx;
    double own = p[i], k = conduct[i];
    auto through = [&](int j) { return 0.5 * (k + conduct[j]) * (own - p[j]); };
    double sum = own + through(row + ((x + 1) & (kNx - 1))) + through(row + ((x - 1) & (kNx - 1))) +
                 through(column + ((y + 1) & (kNy - 1)) * kNx) +
                 through(column + ((y - 1) & (kNy - 1)) * kNx);
    if (z > 0) sum += through(i - kPlane);
    if (z < kNz - 1) sum += through(i + kPlane);
    return sum;
}

// q = A p and the parts of p . q.
__global__ void __launch_bounds__(kThreads)
apply_operator(const double* __restrict__ p, const double* __restrict__ conduct,
               double* __restrict__ q, double* __restrict__ partial) {
    double sum = 0.0;
    for (int i = blockIdx.x * kThreads + threadIdx.x; i < kCells; i += gridDim.x * kThreads) {
        double value = operator_at(p, conduct, i);
        q[i] = value;
        sum += p[i] * value;
    }
    store_block_sum(sum, &partial[blockIdx.x]);
}

// Adds up the parts and forms the scalar that the next kernel needs.
__global__ void __launch_bounds__(kThreads)
finish_dot(const double* __restrict__ partial, int count, Dot what, Scalars* __restrict__ scalars) {
    __shared__ double total;
    double sum = 0.0;
    for (int i = threadIdx.x; i < count; i += kThreads) sum += partial[i];
    store_block_sum(sum, &total);
    if (threadIdx.x != 0) return;
    if (what == Dot::kStart) {
        scalars->residual = scalars->first_residual = total;
        scalars->beta = 0.0;
    } else if (what == Dot::kAlpha) {
        scalars->alpha = scalars->residual / total;
    } else {
        scalars->beta = total / scalars->residual;
        scalars->residual = total;
    }
}

// x += alpha p, r -= alpha q, and the parts of r . r.
__global__ void __launch_bounds__(kThreads)
update_solution(const double2* __restrict__ p, const double2* __restrict__ q,
                const Scalars* __restrict__ scalars, double2* __restrict__ x, double2* __restrict__ r,
                double* __restrict__ partial) {
    int i = blockIdx.x * kThreads + threadIdx.x;
    double alpha = scalars->alpha;
    double2 direction = p[i], image = q[i], solution = x[i], residual = r[i];
    solution.x += alpha * direction.x;
    solution.y += alpha * direction.y;
    residual.x -= alpha * image.x;
    residual.y -= alpha * image.y;
    x[i] = solution;
    r[i] = residual;
    store_block_sum(residual.x * residual.x + residual.y * residual.y, &partial[blockIdx.x]);
}

// p = r + beta p.
__global__ void __launch_bounds__(kThreads)
update_direction(const double2* __restrict__ r, const Scalars* __restrict__ scalars,
                 double2* __restrict__ p) {
    int i = blockIdx.x * kThreads + threadIdx.x;
    double beta = scalars->beta;
    double2 residual = r[i], direction = p[i];
    p[i] = make_double2(residual.x + beta * direction.x, residual.y + beta * direction.y);
}

// ---------------------------------------------------------------------------------------------
// Host
// ---------------------------------------------------------------------------------------------

struct Start {
    std::vector<double> temperature, species, conduct, barriers;
    std::vector<float2> modes;
};

static double noise(uint32_t x) { return mix(x) / 4294967296.0; }

static Start make_start() {
    Start start;
    start.temperature.resize(kCells);
    start.conduct.resize(kCells);
    start.species.resize(static_cast<size_t>(kSpecies) * kCells);
    start.modes.resize(static_cast<size_t>(kModes) * kCells);
    for (int r = 0; r < kReactions; ++r) start.barriers.push_back(1.0 + 0.25 * r);
    std::vector<float> waves(kNx * 8);  // of x or y: four wave numbers, cosine and sine
    for (int w = 0; w < 4; ++w) {
        for (int x = 0; x < kNx; ++x) {
            waves[(2 * w) * kNx + x] = std::cos(2.0 * M_PI * (w + 1) * x / kNx);
            waves[(2 * w + 1) * kNx + x] = std::sin(2.0 * M_PI * (w + 1) * x / kNx);
        }
    }
    for (int i = 0; i < kCells; ++i) {
        int x = i % kNx, y = i / kNx % kNy, z = i / kPlane;
        double hot = waves[x] * waves[kNx + y] * (1.0 - z / 80.0);
        start.temperature[i] = 350.0 + 1500.0 * std::fabs(hot) + 20.0 * noise(i);
        start.conduct[i] = 0.05 + 0.2 * noise(5 * i + 1);
        for (int s = 0; s < kSpecies; ++s) {
            start.species[static_cast<size_t>(s) * kCells + i] = 0.1 + 0.8 * noise(8 * i + s + 77);
        }
        for (int m = 0; m < kModes; ++m) {
            float a = waves[(m % 8) * kNx + x] * waves[(m / 3) * kNx + y];
            float b = waves[(m / 3) * kNx + x] * waves[((m + 3) % 8) * kNx + y];
            start.modes[static_cast<size_t>(m) * kCells + i] = make_float2(a, b);
        }
    }
    return start;
}

static std::vector<float4> mode_matrices(int step) {
    std::vector<float4> matrices(kModes);
    for (int m = 0; m < kModes; ++m) {
        float phase = 0.7f * m + 0.3f * step, size = 0.05f / (1 + m / 4);
        matrices[m] = make_float4(size * std::cos(phase), -size * std::sin(phase),
                                  size * std::sin(phase), size * std::cos(phase));
    }
    return matrices;
}

template <class T>
T* to_device(const std::vector<T>& values) {
    T* pointer = nullptr;
    CUDA_OK(cudaMalloc(&pointer, values.size() * sizeof(T)));
    CUDA_OK(cudaMemcpy(pointer, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
    return pointer;
}

template <class T>
T* device_zeros(size_t count) {
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

// Heat of one cell on the host; its species are replaced.
static double host_react(const std::vector<double>& rates, const std::vector<double>& barriers, double t,
                         double* amount_of) {
    double place = std::fmin(std::fmax((t - kColdest) / kBinWidth, 0.0), kBins - 1.001);
    int bin = static_cast<int>(place);
    int steps = substeps(t);
    double released = 0.0;
    for (int n = 0; n < steps; ++n) {
        for (int r = 0; r < kReactions; ++r) {
            const int4& k = kNetwork[r];
            double low = rates[r * kBins + bin], high = rates[r * kBins + bin + 1];
            double rate = low + (place - bin) * (high - low);
            double x = amount_of[k.x], y = amount_of[k.y];
            double turned = std::fmin(kStep / steps * rate * x * y, 0.25 * std::fmin(x, y));
            amount_of[k.x] = x - turned, amount_of[k.y] = y - turned;
            amount_of[k.z] += turned, amount_of[k.w] += turned;
            released += turned * barriers[r];
        }
    }
    return released;
}

static double host_transport(const double* field, const std::vector<float2>& flow, int i) {
    int x = i % kNx, y = i / kNx % kNy, plane = i / kPlane * kPlane;
    auto at = [&](int dx, int dy) {
        return plane + ((y + dy) & (kNy - 1)) * kNx + ((x + dx) & (kNx - 1));
    };
    double left = 0.5 * (flow[at(-1, 0)].x + flow[i].x), right = 0.5 * (flow[i].x + flow[at(1, 0)].x);
    double lower = 0.5 * (flow[at(0, -1)].y + flow[i].y), upper = 0.5 * (flow[i].y + flow[at(0, 1)].y);
    auto value = [&](int dx, int dy) { return field[at(dx, dy)]; };
    return field[i] + face_flux(value(-2, 0), value(-1, 0), field[i], value(1, 0), left) -
           face_flux(value(-1, 0), field[i], value(1, 0), value(2, 0), right) +
           face_flux(value(0, -2), value(0, -1), field[i], value(0, 1), lower) -
           face_flux(value(0, -1), field[i], value(0, 1), value(0, 2), upper);
}

int main() {
    Start start = make_start();
    CUDA_OK(cudaMemcpyToSymbol(reactions, kNetwork, sizeof(kNetwork)));
    CUDA_OK(cudaMemcpyToSymbol(activation, start.barriers.data(), kReactions * sizeof(double)));
    const size_t all_species = static_cast<size_t>(kSpecies) * kCells;
    double* temperature = to_device(start.temperature);
    double* species = to_device(start.species);
    double* conduct = to_device(start.conduct);
    float2* modes = to_device(start.modes);
    float4* matrices = device_zeros<float4>(kModes);
    float2* flow = device_zeros<float2>(kCells);
    double* rates = device_zeros<double>(kReactions * kBins);
    double* heat = device_zeros<double>(kCells);
    double* species_next = device_zeros<double>(all_species);
    double* r = device_zeros<double>(kCells);
    double* p = device_zeros<double>(kCells);
    double* q = device_zeros<double>(kCells);
    double* x = device_zeros<double>(kCells);
    double* partial = device_zeros<double>(std::max(kDotBlocks, kTransportBlocks));
    Scalars* scalars = device_zeros<Scalars>(1);

    const int pair_blocks = kCells / 2 / kThreads;
    const dim3 tiles(kNx / kTile, kNy / kTile, kNz * (kSpecies + 1));
    auto pairs = [](double* pointer) { return reinterpret_cast<double2*>(pointer); };
    std::vector<double> species_before, temperature_before, rhs;
    std::vector<float2> flow_used;
    std::vector<double> species_reacted, species_moved;
    double* used_temperature = nullptr;
    for (int step = 0; step < kSteps; ++step) {
        bool last = step == kSteps - 1;
        if (last) species_before = to_host(species, all_species);
        integrate_rates<<<kReactions * kBins / kThreads, kThreads>>>(rates, 1.0 + 0.01 * step);
        std::vector<float4> turned = mode_matrices(step);
        CUDA_OK(cudaMemcpy(matrices, turned.data(), kModes * sizeof(float4), cudaMemcpyHostToDevice));
        rebuild_flow<<<kCells / kThreads, kThreads>>>(matrices, modes, flow);
        react_cells<<<kCells / kThreads, kThreads>>>(rates, temperature, species, heat);
        if (last) species_reacted = to_host(species, all_species);
        transport<<<tiles, kThreads>>>(species, temperature, flow, heat, species_next, r, partial);
        if (last) rhs = to_host(r, kCells);
        std::swap(species, species_next);

        CUDA_OK(cudaMemsetAsync(x, 0, kCells * sizeof(double)));
        finish_dot<<<1, kThreads>>>(partial, kTransportBlocks, Dot::kStart, scalars);
        update_direction<<<pair_blocks, kThreads>>>(pairs(r), scalars, pairs(p));
        int iteration = 0;
        while (iteration < kMaxIterations) {
            apply_operator<<<kDotBlocks, kThreads>>>(p, conduct, q, partial);
            finish_dot<<<1, kThreads>>>(partial, kDotBlocks, Dot::kAlpha, scalars);
            update_solution<<<pair_blocks, kThreads>>>(pairs(p), pairs(q), scalars, pairs(x), pairs(r),
                                                       partial);
            finish_dot<<<1, kThreads>>>(partial, pair_blocks, Dot::kBeta, scalars);
            update_direction<<<pair_blocks, kThreads>>>(pairs(r), scalars, pairs(p));
            if (++iteration % kCheckEvery == 0) {
                Scalars now = to_host(scalars, 1)[0];
                if (now.residual < kTolerance * kTolerance * now.first_residual) break;
            }
        }
        CUDA_OK(cudaGetLastError());
        std::printf("reactive: step %d, %d iterations\n", step, iteration);
        used_temperature = temperature;
        std::swap(temperature, x);
    }
    CUDA_OK(cudaDeviceSynchronize());

    // The last step against the host: rates and cells at random, the linear system as a whole.
    flow_used = to_host(flow, kCells);
    species_moved = to_host(species, all_species);
    temperature_before = to_host(used_temperature, kCells);
    std::vector<double> found_rates = to_host(rates, kReactions * kBins), heats = to_host(heat, kCells);
    double rate_error = 0.0, react_error = 0.0, move_error = 0.0;
    for (int k = 0; k < 40; ++k) {
        int entry = mix(k) % (kReactions * kBins);
        double barrier = start.barriers[entry / kBins] * (1.0 + 0.01 * (kSteps - 1));
        double inverse_t = 1000.0 / (kColdest + kBinWidth * (entry % kBins)), sum = 0.0;
        for (int n = 0; n < kPoints; ++n) {
            sum += integrand(barrier + (n + 0.5) * (20.0 / kPoints), barrier, inverse_t) * 20.0 / kPoints;
        }
        rate_error = std::fmax(rate_error, std::fabs(sum - found_rates[entry]) / (1e-12 + std::fabs(sum)));
    }
    for (int k = 0; k < 500; ++k) {
        int cell = mix(1000 + k) % kCells;
        double amount_of[kSpecies];
        for (int s = 0; s < kSpecies; ++s) amount_of[s] = species_before[static_cast<size_t>(s) * kCells + cell];
        double released = host_react(found_rates, start.barriers, temperature_before[cell], amount_of);
        react_error = std::fmax(react_error, std::fabs(released - heats[cell]));
        for (int s = 0; s < kSpecies; ++s) {
            size_t at = static_cast<size_t>(s) * kCells;
            react_error = std::fmax(react_error, std::fabs(amount_of[s] - species_reacted[at + cell]));
            double moved = host_transport(&species_reacted[at], flow_used, cell);
            move_error = std::fmax(move_error, std::fabs(moved - species_moved[at + cell]));
        }
        double warm = host_transport(temperature_before.data(), flow_used, cell) + heats[cell];
        move_error = std::fmax(move_error, std::fabs(warm - rhs[cell]) / 1000.0);
    }
    std::vector<double> solution = to_host(temperature, kCells);
    double left = 0.0, size = 0.0;
    for (int i = 0; i < kCells; ++i) {
        double difference = operator_at(solution.data(), start.conduct.data(), i) - rhs[i];
        left += difference * difference;
        size += rhs[i] * rhs[i];
    }
    double residual = std::sqrt(left / size);
    std::printf("reactive: rates %.2e, reactions %.2e, transport %.2e, residual %.2e\n", rate_error,
                react_error, move_error, residual);
    bool good = rate_error < 1e-9 && react_error < 1e-10 && move_error < 1e-10 && residual < 1e-8;
    std::printf("reactive: %s\n", good ? "PASSED" : "FAILED");
    return good ? 0 : 1;
}
