// Molecular dynamics of a liquid of four charged species in a periodic cube: Lennard-Jones and
// screened Coulomb forces, both shifted to zero at the cutoff, found through cells.

#include "../setup.h"

struct Particle {
    float x, y, z;
    float vx, vy, vz;
    float fx, fy, fz;
    float dx, dy, dz;      // way since the start
    float energy[kKinds];  // half of that of its pairs
    float virial;
    int species;
    int cell;
};

// -dU/dr
__device__ float pair_force(float r, float epsilon, float sigma, float charges) {
    float lj = 24.0 * epsilon * (2.0 * powf(sigma / r, 12.0f) - powf(sigma / r, 6.0f)) / r;
    float coulomb = kCoupling * charges * expf(-kScreening * r) * (kScreening + 1.0 / r) / r;
    return lj + coulomb;
}

__device__ float pair_energy(float r, float epsilon, float sigma, float charges) {
    float lj = 4.0 * epsilon * (powf(sigma / r, 12.0f) - powf(sigma / r, 6.0f));
    float coulomb = kCoupling * charges * expf(-kScreening * r) / r;
    return lj + coulomb;
}

__device__ int pair_kind(float charge, float other) {
    if (charge > 0.0f && other > 0.0f) return 0;
    if (charge < 0.0f && other < 0.0f) return 1;
    return 2;
}

__global__ void assign_cells(Particle* particles, int count, float box, int side) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    float width = box / side;
    int cx = min((int)floorf(particles[i].x / width), side - 1);
    int cy = min((int)floorf(particles[i].y / width), side - 1);
    int cz = min((int)floorf(particles[i].z / width), side - 1);
    particles[i].cell = (cz * side + cy) * side + cx;
}

__global__ void count_cells(const Particle* particles, int count, int* counts) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    atomicAdd(&counts[particles[i].cell], 1);
}

// Where each cell begins: one block, a run of cells per thread.
__global__ void scan_cells(int* counts, int cells, int* starts, int* cursors) {
    __shared__ int sums[256];
    int run = (cells + blockDim.x - 1) / blockDim.x;
    int first = threadIdx.x * run;
    int last = min(first + run, cells);
    int sum = 0;
    for (int c = first; c < last; ++c) sum += counts[c];
    sums[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        int total = 0;
        for (int t = 0; t < blockDim.x; ++t) {
            int value = sums[t];
            sums[t] = total;
            total += value;
        }
        starts[cells] = total;
    }
    __syncthreads();
    sum = sums[threadIdx.x];
    for (int c = first; c < last; ++c) {
        starts[c] = sum;
        cursors[c] = sum;
        sum += counts[c];
    }
}

__global__ void fill_cells(const Particle* particles, int count, int* cursors, int* members) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    int place = atomicAdd(&cursors[particles[i].cell], 1);
    members[place] = i;
}

__global__ void compute_forces(Particle* particles, int count, const Species* species, const int* starts,
                               const int* members, float box, int side) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    particles[i].fx = 0.0f;
    particles[i].fy = 0.0f;
    particles[i].fz = 0.0f;
    particles[i].virial = 0.0f;
    for (int k = 0; k < kKinds; ++k) particles[i].energy[k] = 0.0f;
    int cx = particles[i].cell % side;
    int cy = particles[i].cell / side % side;
    int cz = particles[i].cell / (side * side);
    for (int oz = -1; oz <= 1; ++oz) {
        for (int oy = -1; oy <= 1; ++oy) {
            for (int ox = -1; ox <= 1; ++ox) {
                int nx = (cx + ox + side) % side;
                int ny = (cy + oy + side) % side;
                int nz = (cz + oz + side) % side;
                int cell = (nz * side + ny) * side + nx;
                for (int m = starts[cell]; m < starts[cell + 1]; ++m) {
                    int j = members[m];
                    if (j == i) continue;
                    float rx = particles[i].x - particles[j].x;
                    float ry = particles[i].y - particles[j].y;
                    float rz = particles[i].z - particles[j].z;
                    rx -= box * rintf(rx / box);
                    ry -= box * rintf(ry / box);
                    rz -= box * rintf(rz / box);
                    float r = sqrtf(rx * rx + ry * ry + rz * rz);
                    if (r < kCutoff) {
                        Species a = species[particles[i].species];
                        Species b = species[particles[j].species];
                        float epsilon = sqrtf(a.epsilon * b.epsilon);
                        float sigma = 0.5 * (a.sigma + b.sigma);
                        float charges = a.charge * b.charge;
                        float edge = pair_force(kCutoff, epsilon, sigma, charges);
                        float force = pair_force(r, epsilon, sigma, charges) - edge;
                        float energy = pair_energy(r, epsilon, sigma, charges) -
                                       pair_energy(kCutoff, epsilon, sigma, charges) + edge * (r - kCutoff);
                        particles[i].fx += force * rx / r;
                        particles[i].fy += force * ry / r;
                        particles[i].fz += force * rz / r;
                        particles[i].energy[pair_kind(a.charge, b.charge)] += 0.5 * energy;
                        particles[i].virial += 0.5 * force * r;
                    }
                }
            }
        }
    }
}

__global__ void kick(Particle* particles, int count, const Species* species) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    float mass = species[particles[i].species].mass;
    particles[i].vx += 0.5 * kTimeStep * particles[i].fx / mass;
    particles[i].vy += 0.5 * kTimeStep * particles[i].fy / mass;
    particles[i].vz += 0.5 * kTimeStep * particles[i].fz / mass;
}

__global__ void drift(Particle* particles, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    particles[i].x += kTimeStep * particles[i].vx;
    particles[i].y += kTimeStep * particles[i].vy;
    particles[i].z += kTimeStep * particles[i].vz;
    particles[i].dx += kTimeStep * particles[i].vx;
    particles[i].dy += kTimeStep * particles[i].vy;
    particles[i].dz += kTimeStep * particles[i].vz;
}

__device__ float wrapped(float position, float box) {
    position = fmodf(position + box, box);
    return position < box ? position : 0.0f;
}

__global__ void wrap_positions(Particle* particles, int count, float box) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    particles[i].x = wrapped(particles[i].x, box);
    particles[i].y = wrapped(particles[i].y, box);
    particles[i].z = wrapped(particles[i].z, box);
}

// Kinetic energy, momentum and squares of the ways.
__global__ void sum_motion(const Particle* particles, int count, const Species* species, double* sums) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    Particle p = particles[i];
    float mass = species[p.species].mass;
    atomicAdd(&sums[0], 0.5 * mass * (p.vx * p.vx + p.vy * p.vy + p.vz * p.vz));
    atomicAdd(&sums[1], (double)(mass * p.vx));
    atomicAdd(&sums[2], (double)(mass * p.vy));
    atomicAdd(&sums[3], (double)(mass * p.vz));
    atomicAdd(&sums[4], (double)(p.dx * p.dx + p.dy * p.dy + p.dz * p.dz));
}

// One quantity at a time: 0 to 2 energy by kind, 3 virial.
__global__ void sum_pairs(const Particle* particles, int count, int quantity, double* partial) {
    __shared__ double shared[128];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    shared[threadIdx.x] = 0.0;
    if (i < count) shared[threadIdx.x] = quantity < kKinds ? particles[i].energy[quantity] : particles[i].virial;
    __syncthreads();
    for (int stride = blockDim.x / 2; stride > 0; stride /= 2) {
        if (threadIdx.x < stride) shared[threadIdx.x] += shared[threadIdx.x + stride];
        __syncthreads();
    }
    if (threadIdx.x == 0) partial[blockIdx.x] = shared[0];
}

__global__ void scale_velocities(Particle* particles, int count, double scale) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    particles[i].vx *= scale;
    particles[i].vy *= scale;
    particles[i].vz *= scale;
}

// Distances of pairs, by kind.
__global__ void pair_histogram(const Particle* particles, int count, const Species* species, const int* starts,
                               const int* members, float box, int side, int* histogram) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    Particle p = particles[i];
    int cx = p.cell % side, cy = p.cell / side % side, cz = p.cell / (side * side);
    for (int neighbour = 0; neighbour < 27; ++neighbour) {
        int nx = (cx + neighbour % 3 - 1 + side) % side;
        int ny = (cy + neighbour / 3 % 3 - 1 + side) % side;
        int nz = (cz + neighbour / 9 - 1 + side) % side;
        int cell = (nz * side + ny) * side + nx;
        for (int m = starts[cell]; m < starts[cell + 1]; ++m) {
            int j = members[m];
            if (j <= i) continue;
            float rx = p.x - particles[j].x;
            float ry = p.y - particles[j].y;
            float rz = p.z - particles[j].z;
            rx -= box * rintf(rx / box);
            ry -= box * rintf(ry / box);
            rz -= box * rintf(rz / box);
            float r = sqrtf(rx * rx + ry * ry + rz * rz);
            if (r < kCutoff) {
                int bin = min((int)(r / kCutoff * kBins), kBins - 1);
                int kind = pair_kind(species[p.species].charge, species[particles[j].species].charge);
                atomicAdd(&histogram[kind * kBins + bin], 1);
            }
        }
    }
}

int main(int argc, char** argv) {
    Options options = parse_options(argc, argv);
    Setup setup = make_setup(options);
    Results results;
    int count = setup.count, side = setup.cells_per_side, cells = side * side * side;
    float box = setup.box;

    std::vector<Particle> particles(count);
    for (int i = 0; i < count; ++i) {
        particles[i] = {};
        particles[i].x = setup.x[i];
        particles[i].y = setup.y[i];
        particles[i].z = setup.z[i];
        particles[i].vx = setup.vx[i];
        particles[i].vy = setup.vy[i];
        particles[i].vz = setup.vz[i];
        particles[i].species = setup.species[i];
    }

    const int threads = 128;
    int blocks = (count + threads - 1) / threads;
    Particle* d_particles;
    Species* d_species;
    int *d_counts, *d_starts, *d_cursors, *d_members, *d_histogram;
    double *d_sums, *d_partial;
    CUDA_CHECK(cudaMalloc(&d_particles, count * sizeof(Particle)));
    CUDA_CHECK(cudaMalloc(&d_species, sizeof(kSpeciesTable)));
    CUDA_CHECK(cudaMalloc(&d_counts, cells * sizeof(int)));
    CUDA_CHECK(cudaMalloc(&d_starts, (cells + 1) * sizeof(int)));
    CUDA_CHECK(cudaMalloc(&d_cursors, cells * sizeof(int)));
    CUDA_CHECK(cudaMalloc(&d_members, count * sizeof(int)));
    CUDA_CHECK(cudaMalloc(&d_histogram, kKinds * kBins * sizeof(int)));
    CUDA_CHECK(cudaMalloc(&d_sums, 5 * sizeof(double)));
    CUDA_CHECK(cudaMalloc(&d_partial, blocks * sizeof(double)));
    CUDA_CHECK(cudaMemcpy(d_particles, particles.data(), count * sizeof(Particle), cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(d_species, kSpeciesTable, sizeof(kSpeciesTable), cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemset(d_histogram, 0, kKinds * kBins * sizeof(int)));

    cudaEvent_t start, stop;
    CUDA_CHECK(cudaEventCreate(&start));
    CUDA_CHECK(cudaEventCreate(&stop));
    CUDA_CHECK(cudaEventRecord(start));

    std::vector<double> partial(blocks);
    for (int step = 0; step <= options.steps; ++step) {
        if (step > 0) {
            kick<<<blocks, threads>>>(d_particles, count, d_species);
            CUDA_CHECK(cudaGetLastError());
            drift<<<blocks, threads>>>(d_particles, count);
            CUDA_CHECK(cudaGetLastError());
            wrap_positions<<<blocks, threads>>>(d_particles, count, box);
            CUDA_CHECK(cudaGetLastError());
        }

        assign_cells<<<blocks, threads>>>(d_particles, count, box, side);
        CUDA_CHECK(cudaGetLastError());
        CUDA_CHECK(cudaMemset(d_counts, 0, cells * sizeof(int)));
        count_cells<<<blocks, threads>>>(d_particles, count, d_counts);
        CUDA_CHECK(cudaGetLastError());
        scan_cells<<<1, 256>>>(d_counts, cells, d_starts, d_cursors);
        CUDA_CHECK(cudaGetLastError());
        fill_cells<<<blocks, threads>>>(d_particles, count, d_cursors, d_members);
        CUDA_CHECK(cudaGetLastError());
        int in_cells;
        CUDA_CHECK(cudaMemcpy(&in_cells, d_starts + cells, sizeof(int), cudaMemcpyDeviceToHost));

        compute_forces<<<blocks, threads>>>(d_particles, count, d_species, d_starts, d_members, box, side);
        CUDA_CHECK(cudaGetLastError());
        if (step > 0) {
            kick<<<blocks, threads>>>(d_particles, count, d_species);
            CUDA_CHECK(cudaGetLastError());
        }

        double motion[5], pairs[4];
        CUDA_CHECK(cudaMemset(d_sums, 0, 5 * sizeof(double)));
        sum_motion<<<blocks, threads>>>(d_particles, count, d_species, d_sums);
        CUDA_CHECK(cudaGetLastError());
        CUDA_CHECK(cudaMemcpy(motion, d_sums, sizeof(motion), cudaMemcpyDeviceToHost));
        for (int quantity = 0; quantity < 4; ++quantity) {
            sum_pairs<<<blocks, threads>>>(d_particles, count, quantity, d_partial);
            CUDA_CHECK(cudaGetLastError());
            CUDA_CHECK(cudaMemcpy(partial.data(), d_partial, blocks * sizeof(double), cudaMemcpyDeviceToHost));
            pairs[quantity] = 0.0;
            for (double value : partial) pairs[quantity] += value;
        }
        double scale = thermostat_scale(motion[0], count);
        scale_velocities<<<blocks, threads>>>(d_particles, count, scale);
        CUDA_CHECK(cudaGetLastError());
        results.series.insert(results.series.end(),
                              {motion[0], pairs[0], pairs[1], pairs[2], pairs[3], motion[1], motion[2], motion[3],
                               motion[4] / count, scale, (double)in_cells});

        if (step % kHistogramEvery == 0) {
            pair_histogram<<<blocks, threads>>>(d_particles, count, d_species, d_starts, d_members, box, side,
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
    CUDA_CHECK(cudaMemcpy(particles.data(), d_particles, count * sizeof(Particle), cudaMemcpyDeviceToHost));
    for (const Particle& p : particles) {
        results.x.push_back(p.x);
        results.y.push_back(p.y);
        results.z.push_back(p.z);
        results.vx.push_back(p.vx);
        results.vy.push_back(p.vy);
        results.vz.push_back(p.vz);
        results.fx.push_back(p.fx);
        results.fy.push_back(p.fy);
        results.fz.push_back(p.fz);
    }
    if (!options.out.empty()) write_results(options, setup, results);

    CUDA_CHECK(cudaEventDestroy(start));
    CUDA_CHECK(cudaEventDestroy(stop));
    CUDA_CHECK(cudaFree(d_particles));
    CUDA_CHECK(cudaFree(d_species));
    CUDA_CHECK(cudaFree(d_counts));
    CUDA_CHECK(cudaFree(d_starts));
    CUDA_CHECK(cudaFree(d_cursors));
    CUDA_CHECK(cudaFree(d_members));
    CUDA_CHECK(cudaFree(d_histogram));
    CUDA_CHECK(cudaFree(d_sums));
    CUDA_CHECK(cudaFree(d_partial));
    return 0;
}
