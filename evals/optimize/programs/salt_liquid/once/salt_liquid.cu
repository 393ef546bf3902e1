// Molecular dynamics of a liquid of four charged species in a periodic cube: Lennard-Jones and
// screened Coulomb forces, both shifted to zero at the cutoff, found through cells.
//
// Every step sorts positions by cell, so that forces read neighbours one after the other.

#include "../setup.h"

constexpr int kThreads = 128;
constexpr int kScanThreads = 1024;
constexpr int kSums = 5;

// What a pair of species needs: all that does not depend on the distance.
struct PairTerms {
    float epsilon4;      // 4 epsilon
    float sigma2;        // sigma squared
    float charges;       // times the coupling
    float edge_force;    // at the cutoff
    float edge_energy;
};

struct Totals {
    double kinetic;
    double momentum[3];
    double square_way;
    double energy[kKinds];
    double virial;
};

__constant__ PairTerms pair_terms[kSpecies * kSpecies];
__constant__ float mass_of[kSpecies];
__constant__ int kind_of[kSpecies * kSpecies];

__host__ __device__ inline void pair_interaction(float r2, const PairTerms& t, float& r, float& force, float& energy) {
    r = sqrtf(r2);
    float inverse = 1.0f / r;
    float s2 = t.sigma2 * inverse * inverse;
    float s6 = s2 * s2 * s2;
    float coulomb = t.charges * expf(-kScreening * r) * inverse;
    energy = t.epsilon4 * (s6 * s6 - s6) + coulomb;
    force = t.epsilon4 * (12.0f * s6 * s6 - 6.0f * s6) * inverse + coulomb * (kScreening + inverse);
}

// Cell of every particle and its place within the cell.
__global__ void assign_cells(const float4* __restrict__ positions, int count, float cells_per_length, int side,
                             int* __restrict__ cell_of, int* __restrict__ place_of, int* __restrict__ counts) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    float4 p = positions[i];
    int cx = min((int)(p.x * cells_per_length), side - 1);
    int cy = min((int)(p.y * cells_per_length), side - 1);
    int cz = min((int)(p.z * cells_per_length), side - 1);
    int cell = (cz * side + cy) * side + cx;
    cell_of[i] = cell;
    place_of[i] = atomicAdd(&counts[cell], 1);
}

// Where each cell begins. One block goes over all cells, a tile at a time.
__global__ void scan_cells(const int* __restrict__ counts, int cells, int* __restrict__ starts) {
    __shared__ int warp_sums[32];
    __shared__ int carry;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (threadIdx.x == 0) carry = 0;
    __syncthreads();
    for (int tile = 0; tile < cells; tile += kScanThreads) {
        int c = tile + threadIdx.x;
        int value = c < cells ? counts[c] : 0;
        int sum = value;
        for (int offset = 1; offset < 32; offset *= 2) {
            int below = __shfl_up_sync(0xffffffffu, sum, offset);
            if (lane >= offset) sum += below;
        }
        if (lane == 31) warp_sums[warp] = sum;
        __syncthreads();
        if (warp == 0) {
            int total = warp_sums[lane];
            for (int offset = 1; offset < 32; offset *= 2) {
                int below = __shfl_up_sync(0xffffffffu, total, offset);
                if (lane >= offset) total += below;
            }
            warp_sums[lane] = total;
        }
        __syncthreads();
        int before = carry + (warp > 0 ? warp_sums[warp - 1] : 0);
        if (c < cells) starts[c] = before + sum - value;
        __syncthreads();
        if (threadIdx.x == 0) carry += warp_sums[31];
        __syncthreads();
    }
    if (threadIdx.x == 0) starts[cells] = carry;
}

// Positions in the order of cells; w holds the species.
__global__ void sort_positions(const float4* __restrict__ positions, int count, const int* __restrict__ cell_of,
                               const int* __restrict__ place_of, const int* __restrict__ starts,
                               float4* __restrict__ sorted, int* __restrict__ origin) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    int to = starts[cell_of[i]] + place_of[i];
    sorted[to] = positions[i];
    origin[to] = i;
}

__device__ float nearest(float distance, float box, float inverse_box) {
    return distance - box * rintf(distance * inverse_box);
}

__global__ void compute_forces(const float4* __restrict__ sorted, const int* __restrict__ origin, int count,
                               const int* __restrict__ cell_of, const int* __restrict__ starts, float box,
                               float inverse_box, int side, float4* __restrict__ forces, Totals* totals) {
    __shared__ double sums[kKinds + 1];
    if (threadIdx.x < kKinds + 1) sums[threadIdx.x] = 0.0;
    __syncthreads();
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    float energy[kKinds] = {0.0f, 0.0f, 0.0f};
    float virial = 0.0f;
    if (k < count) {
        float4 p = sorted[k];
        int i = origin[k];
        int cell = cell_of[i];
        int species = __float_as_int(p.w);
        int cx = cell % side, cy = cell / side % side, cz = cell / (side * side);
        float fx = 0.0f, fy = 0.0f, fz = 0.0f;
        for (int oz = -1; oz <= 1; ++oz) {
            for (int oy = -1; oy <= 1; ++oy) {
                for (int ox = -1; ox <= 1; ++ox) {
                    int nx = cx + ox, ny = cy + oy, nz = cz + oz;
                    nx += nx < 0 ? side : nx >= side ? -side : 0;
                    ny += ny < 0 ? side : ny >= side ? -side : 0;
                    nz += nz < 0 ? side : nz >= side ? -side : 0;
                    int other_cell = (nz * side + ny) * side + nx;
                    int last = starts[other_cell + 1];
                    for (int m = starts[other_cell]; m < last; ++m) {
                        float4 o = sorted[m];
                        float rx = nearest(p.x - o.x, box, inverse_box);
                        float ry = nearest(p.y - o.y, box, inverse_box);
                        float rz = nearest(p.z - o.z, box, inverse_box);
                        float r2 = rx * rx + ry * ry + rz * rz;
                        if (r2 < kCutoff * kCutoff && m != k) {
                            int pair = species * kSpecies + __float_as_int(o.w);
                            PairTerms terms = pair_terms[pair];
                            float r, force, potential;
                            pair_interaction(r2, terms, r, force, potential);
                            force -= terms.edge_force;
                            potential += terms.edge_force * (r - kCutoff) - terms.edge_energy;
                            float along = force / r;
                            fx += along * rx;
                            fy += along * ry;
                            fz += along * rz;
                            energy[kind_of[pair]] += 0.5f * potential;
                            virial += 0.5f * force * r;
                        }
                    }
                }
            }
        }
        forces[i] = make_float4(fx, fy, fz, 0.0f);
    }
    for (int q = 0; q < kKinds + 1; ++q) {
        float value = q < kKinds ? energy[q] : virial;
        for (int offset = 16; offset > 0; offset /= 2) value += __shfl_down_sync(0xffffffffu, value, offset);
        if (threadIdx.x % 32 == 0) atomicAdd(&sums[q], (double)value);
    }
    __syncthreads();
    if (threadIdx.x < kKinds) atomicAdd(&totals->energy[threadIdx.x], sums[threadIdx.x]);
    if (threadIdx.x == kKinds) atomicAdd(&totals->virial, sums[kKinds]);
}

__device__ float wrapped(float position, float box) {
    if (position < 0.0f) position += box;
    if (position >= box) position -= box;
    return position;
}

// First half of a step: half a kick, then the way with the new velocity.
__global__ void kick_drift(float4* __restrict__ positions, float4* __restrict__ velocities,
                           const float4* __restrict__ forces, float4* __restrict__ ways, int count, float box) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    float4 p = positions[i], v = velocities[i], f = forces[i], w = ways[i];
    float half = 0.5f * kTimeStep / mass_of[__float_as_int(p.w)];
    v.x += half * f.x;
    v.y += half * f.y;
    v.z += half * f.z;
    float sx = kTimeStep * v.x, sy = kTimeStep * v.y, sz = kTimeStep * v.z;
    velocities[i] = v;
    ways[i] = make_float4(w.x + sx, w.y + sy, w.z + sz, 0.0f);
    positions[i] = make_float4(wrapped(p.x + sx, box), wrapped(p.y + sy, box), wrapped(p.z + sz, box), p.w);
}

// Second half kick (none before the first step) and the sums over particles.
__global__ void kick_sum(const float4* __restrict__ positions, float4* __restrict__ velocities,
                         const float4* __restrict__ forces, const float4* __restrict__ ways, int count, bool kick,
                         Totals* totals) {
    __shared__ double sums[kSums];
    if (threadIdx.x < kSums) sums[threadIdx.x] = 0.0;
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    double value[kSums] = {0.0, 0.0, 0.0, 0.0, 0.0};
    if (i < count) {
        float4 v = velocities[i], w = ways[i];
        float mass = mass_of[__float_as_int(positions[i].w)];
        if (kick) {
            float4 f = forces[i];
            float half = 0.5f * kTimeStep / mass;
            v.x += half * f.x;
            v.y += half * f.y;
            v.z += half * f.z;
            velocities[i] = v;
        }
        value[0] = 0.5f * mass * (v.x * v.x + v.y * v.y + v.z * v.z);
        value[1] = mass * v.x;
        value[2] = mass * v.y;
        value[3] = mass * v.z;
        value[4] = w.x * w.x + w.y * w.y + w.z * w.z;
    }
    for (int q = 0; q < kSums; ++q) {
        double sum = value[q];
        for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(0xffffffffu, sum, offset);
        if (threadIdx.x % 32 == 0) atomicAdd(&sums[q], sum);
    }
    __syncthreads();
    if (threadIdx.x == 0) atomicAdd(&totals->kinetic, sums[0]);
    if (threadIdx.x >= 1 && threadIdx.x < 4) atomicAdd(&totals->momentum[threadIdx.x - 1], sums[threadIdx.x]);
    if (threadIdx.x == 4) atomicAdd(&totals->square_way, sums[4]);
}

__global__ void scale_velocities(float4* velocities, int count, float scale) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    float4 v = velocities[i];
    velocities[i] = make_float4(v.x * scale, v.y * scale, v.z * scale, 0.0f);
}

// Distances of pairs, by kind. Every block counts in shared memory first.
__global__ void pair_histogram(const float4* __restrict__ sorted, const int* __restrict__ origin, int count,
                               const int* __restrict__ cell_of, const int* __restrict__ starts, float box,
                               float inverse_box, int side, int* histogram) {
    __shared__ int bins[kKinds * kBins];
    for (int b = threadIdx.x; b < kKinds * kBins; b += blockDim.x) bins[b] = 0;
    __syncthreads();
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k < count) {
        float4 p = sorted[k];
        int species = __float_as_int(p.w);
        int cell = cell_of[origin[k]];
        int cx = cell % side, cy = cell / side % side, cz = cell / (side * side);
        for (int neighbour = 0; neighbour < 27; ++neighbour) {
            int nx = cx + neighbour % 3 - 1, ny = cy + neighbour / 3 % 3 - 1, nz = cz + neighbour / 9 - 1;
            nx += nx < 0 ? side : nx >= side ? -side : 0;
            ny += ny < 0 ? side : ny >= side ? -side : 0;
            nz += nz < 0 ? side : nz >= side ? -side : 0;
            int other_cell = (nz * side + ny) * side + nx;
            int last = starts[other_cell + 1];
            for (int m = starts[other_cell]; m < last; ++m) {
                if (m <= k) continue;
                float4 o = sorted[m];
                float rx = nearest(p.x - o.x, box, inverse_box);
                float ry = nearest(p.y - o.y, box, inverse_box);
                float rz = nearest(p.z - o.z, box, inverse_box);
                float r2 = rx * rx + ry * ry + rz * rz;
                if (r2 < kCutoff * kCutoff) {
                    int bin = min((int)(sqrtf(r2) * (kBins / kCutoff)), kBins - 1);
                    atomicAdd(&bins[kind_of[species * kSpecies + __float_as_int(o.w)] * kBins + bin], 1);
                }
            }
        }
    }
    __syncthreads();
    for (int b = threadIdx.x; b < kKinds * kBins; b += blockDim.x) {
        if (bins[b] > 0) atomicAdd(&histogram[b], bins[b]);
    }
}

static void upload_pair_terms() {
    PairTerms terms[kSpecies * kSpecies];
    float masses[kSpecies];
    int kinds[kSpecies * kSpecies];
    for (int a = 0; a < kSpecies; ++a) {
        masses[a] = kSpeciesTable[a].mass;
        for (int b = 0; b < kSpecies; ++b) {
            const Species &one = kSpeciesTable[a], &other = kSpeciesTable[b];
            PairTerms t = {};
            float sigma = 0.5f * (one.sigma + other.sigma);
            t.epsilon4 = 4.0f * std::sqrt(one.epsilon * other.epsilon);
            t.sigma2 = sigma * sigma;
            t.charges = kCoupling * one.charge * other.charge;
            float r, force, energy;
            pair_interaction(kCutoff * kCutoff, t, r, force, energy);
            t.edge_force = force;
            t.edge_energy = energy;
            terms[a * kSpecies + b] = t;
            kinds[a * kSpecies + b] = one.charge > 0 && other.charge > 0 ? 0 : one.charge < 0 && other.charge < 0 ? 1 : 2;
        }
    }
    CUDA_CHECK(cudaMemcpyToSymbol(pair_terms, terms, sizeof(terms)));
    CUDA_CHECK(cudaMemcpyToSymbol(mass_of, masses, sizeof(masses)));
    CUDA_CHECK(cudaMemcpyToSymbol(kind_of, kinds, sizeof(kinds)));
}

static void unpack(const float4* device, int count, std::vector<float>& x, std::vector<float>& y,
                   std::vector<float>& z) {
    std::vector<float4> values(count);
    CUDA_CHECK(cudaMemcpy(values.data(), device, count * sizeof(float4), cudaMemcpyDeviceToHost));
    for (const float4& v : values) {
        x.push_back(v.x);
        y.push_back(v.y);
        z.push_back(v.z);
    }
}

int main(int argc, char** argv) {
    Options options = parse_options(argc, argv);
    Setup setup = make_setup(options);
    Results results;
    int count = setup.count, side = setup.cells_per_side, cells = side * side * side;
    float box = setup.box, inverse_box = 1.0f / setup.box, cells_per_length = side / setup.box;

    std::vector<float4> positions(count), velocities(count);
    for (int i = 0; i < count; ++i) {
        float species;
        std::memcpy(&species, &setup.species[i], sizeof(float));
        positions[i] = make_float4(setup.x[i], setup.y[i], setup.z[i], species);
        velocities[i] = make_float4(setup.vx[i], setup.vy[i], setup.vz[i], 0.0f);
    }
    upload_pair_terms();

    int blocks = (count + kThreads - 1) / kThreads;
    size_t vectors = count * sizeof(float4);
    float4 *d_positions, *d_velocities, *d_forces, *d_ways, *d_sorted;
    int *d_cell_of, *d_place_of, *d_counts, *d_starts, *d_origin, *d_histogram;
    Totals* d_totals;
    CUDA_CHECK(cudaMalloc(&d_positions, vectors));
    CUDA_CHECK(cudaMalloc(&d_velocities, vectors));
    CUDA_CHECK(cudaMalloc(&d_forces, vectors));
    CUDA_CHECK(cudaMalloc(&d_ways, vectors));
    CUDA_CHECK(cudaMalloc(&d_sorted, vectors));
    CUDA_CHECK(cudaMalloc(&d_cell_of, count * sizeof(int)));
    CUDA_CHECK(cudaMalloc(&d_place_of, count * sizeof(int)));
    CUDA_CHECK(cudaMalloc(&d_origin, count * sizeof(int)));
    CUDA_CHECK(cudaMalloc(&d_counts, cells * sizeof(int)));
    CUDA_CHECK(cudaMalloc(&d_starts, (cells + 1) * sizeof(int)));
    CUDA_CHECK(cudaMalloc(&d_histogram, kKinds * kBins * sizeof(int)));
    CUDA_CHECK(cudaMalloc(&d_totals, sizeof(Totals)));
    CUDA_CHECK(cudaMemcpy(d_positions, positions.data(), vectors, cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(d_velocities, velocities.data(), vectors, cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemset(d_ways, 0, vectors));
    CUDA_CHECK(cudaMemset(d_histogram, 0, kKinds * kBins * sizeof(int)));

    cudaEvent_t start, stop;
    CUDA_CHECK(cudaEventCreate(&start));
    CUDA_CHECK(cudaEventCreate(&stop));
    CUDA_CHECK(cudaEventRecord(start));

    for (int step = 0; step <= options.steps; ++step) {
        if (step > 0) {
            kick_drift<<<blocks, kThreads>>>(d_positions, d_velocities, d_forces, d_ways, count, box);
            CUDA_CHECK(cudaGetLastError());
        }

        CUDA_CHECK(cudaMemset(d_counts, 0, cells * sizeof(int)));
        CUDA_CHECK(cudaMemset(d_totals, 0, sizeof(Totals)));
        assign_cells<<<blocks, kThreads>>>(d_positions, count, cells_per_length, side, d_cell_of, d_place_of, d_counts);
        CUDA_CHECK(cudaGetLastError());
        scan_cells<<<1, kScanThreads>>>(d_counts, cells, d_starts);
        CUDA_CHECK(cudaGetLastError());
        sort_positions<<<blocks, kThreads>>>(d_positions, count, d_cell_of, d_place_of, d_starts, d_sorted, d_origin);
        CUDA_CHECK(cudaGetLastError());
        int in_cells;
        CUDA_CHECK(cudaMemcpy(&in_cells, d_starts + cells, sizeof(int), cudaMemcpyDeviceToHost));

        compute_forces<<<blocks, kThreads>>>(d_sorted, d_origin, count, d_cell_of, d_starts, box, inverse_box, side,
                                             d_forces, d_totals);
        CUDA_CHECK(cudaGetLastError());
        kick_sum<<<blocks, kThreads>>>(d_positions, d_velocities, d_forces, d_ways, count, step > 0, d_totals);
        CUDA_CHECK(cudaGetLastError());
        Totals totals;
        CUDA_CHECK(cudaMemcpy(&totals, d_totals, sizeof(Totals), cudaMemcpyDeviceToHost));
        double scale = thermostat_scale(totals.kinetic, count);
        scale_velocities<<<blocks, kThreads>>>(d_velocities, count, (float)scale);
        CUDA_CHECK(cudaGetLastError());
        results.series.insert(results.series.end(),
                              {totals.kinetic, totals.energy[0], totals.energy[1], totals.energy[2], totals.virial,
                               totals.momentum[0], totals.momentum[1], totals.momentum[2], totals.square_way / count,
                               scale, (double)in_cells});

        if (step % kHistogramEvery == 0) {
            pair_histogram<<<blocks, kThreads>>>(d_sorted, d_origin, count, d_cell_of, d_starts, box, inverse_box, side,
                                                 d_histogram);
            CUDA_CHECK(cudaGetLastError());
        }
    }

    CUDA_CHECK(cudaEventRecord(stop));
    CUDA_CHECK(cudaEventSynchronize(stop));
    float elapsed;
    CUDA_CHECK(cudaEventElapsedTime(&elapsed, start, stop));
    std::printf("%d steps of %d particles: %.3f ms\n", options.steps, count, elapsed);

    results.histogram.resize(kKinds * kBins);
    CUDA_CHECK(cudaMemcpy(results.histogram.data(), d_histogram, kKinds * kBins * sizeof(int), cudaMemcpyDeviceToHost));
    unpack(d_positions, count, results.x, results.y, results.z);
    unpack(d_velocities, count, results.vx, results.vy, results.vz);
    unpack(d_forces, count, results.fx, results.fy, results.fz);
    if (!options.out.empty()) write_results(options, setup, results);

    CUDA_CHECK(cudaEventDestroy(start));
    CUDA_CHECK(cudaEventDestroy(stop));
    for (float4* vector : {d_positions, d_velocities, d_forces, d_ways, d_sorted}) CUDA_CHECK(cudaFree(vector));
    for (int* values : {d_cell_of, d_place_of, d_origin, d_counts, d_starts, d_histogram}) CUDA_CHECK(cudaFree(values));
    CUDA_CHECK(cudaFree(d_totals));
    return 0;
}
