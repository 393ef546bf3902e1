// Flow around spheres between two walls: lattice Boltzmann method (D3Q19, two relaxation times),
// with passive tracers. x and y are periodic through a layer of halo cells.

#include "../setup.h"

struct Grid {
    int nx, ny, nz;  // interior cells; one halo cell more on every side

    __host__ __device__ int cell(int x, int y, int z) const {
        return (z * (ny + 2) + y) * (nx + 2) + x;
    }
    int cells() const { return (nx + 2) * (ny + 2) * (nz + 2); }
};

struct Velocity {
    float x, y, z;
};

struct Tracer {
    float x, y, z;
    float path;     // length of the way so far
    int slab;       // cell in x
    int crossings;  // of the periodic boundaries
};

__constant__ int cx[kDirections] = {0, 1, -1, 0, 0, 0, 0, 1, -1, 1, -1, 1, -1, 1, -1, 0, 0, 0, 0};
__constant__ int cy[kDirections] = {0, 0, 0, 1, -1, 0, 0, 1, -1, -1, 1, 0, 0, 0, 0, 1, -1, 1, -1};
__constant__ int cz[kDirections] = {0, 0, 0, 0, 0, 1, -1, 0, 0, 0, 0, 1, -1, -1, 1, 1, -1, -1, 1};
__constant__ int opposite[kDirections] = {0, 2, 1, 4, 3, 6, 5, 8, 7, 10, 9, 12, 11, 14, 13, 16, 15, 18, 17};
__constant__ float weight[kDirections] = {
    1.0f / 3.0f,  1.0f / 18.0f, 1.0f / 18.0f, 1.0f / 18.0f, 1.0f / 18.0f, 1.0f / 18.0f, 1.0f / 18.0f,
    1.0f / 36.0f, 1.0f / 36.0f, 1.0f / 36.0f, 1.0f / 36.0f, 1.0f / 36.0f, 1.0f / 36.0f, 1.0f / 36.0f,
    1.0f / 36.0f, 1.0f / 36.0f, 1.0f / 36.0f, 1.0f / 36.0f, 1.0f / 36.0f};

__device__ float equilibrium(int q, float rho, float ux, float uy, float uz) {
    float cu = cx[q] * ux + cy[q] * uy + cz[q] * uz;
    float uu = ux * ux + uy * uy + uz * uz;
    return weight[q] * rho * (1.0 + 3.0 * cu + 4.5 * cu * cu - 1.5 * uu);
}

// Mean flow along x with a perturbation of whole waves.
__global__ void init_populations(Grid grid, const int* body, float phase, float* f) {
    int x = blockIdx.x * blockDim.x + threadIdx.x + 1;
    int y = blockIdx.y * blockDim.y + threadIdx.y + 1;
    int z = blockIdx.z * blockDim.z + threadIdx.z + 1;
    if (x > grid.nx || y > grid.ny || z > grid.nz) return;
    int id = grid.cell(x, y, z);
    float ax = 6.2831853f * (x - 0.5f) / grid.nx;
    float ay = 6.2831853f * (y - 0.5f) / grid.ny;
    float az = 3.1415927f * (z - 0.5f) / grid.nz;
    float ux = 0.0f, uy = 0.0f, uz = 0.0f;
    if (body[id] == 0) {
        ux = kInflow * sinf(az) * (1.0f + 0.5f * sinf(2.0f * ay + phase));
        uy = 0.4f * kInflow * sinf(az) * sinf(3.0f * ax + phase);
        uz = 0.3f * kInflow * sinf(2.0f * az) * cosf(2.0f * ax - ay);
    }
    float rho = 1.0f + 0.002f * cosf(ax + 2.0f * ay);
    for (int q = 0; q < kDirections; ++q) {
        f[id * kDirections + q] = equilibrium(q, rho, ux, uy, uz);
    }
}

// Density and velocity of every fluid cell.
__global__ void compute_moments(Grid grid, const int* body, const float* f, float* density, Velocity* velocity) {
    int x = blockIdx.x * blockDim.x + threadIdx.x + 1;
    int y = blockIdx.y * blockDim.y + threadIdx.y + 1;
    int z = blockIdx.z * blockDim.z + threadIdx.z + 1;
    if (x > grid.nx || y > grid.ny || z > grid.nz) return;
    int id = grid.cell(x, y, z);
    if (body[id] != 0) return;
    float rho = 0.0f, mx = 0.0f, my = 0.0f, mz = 0.0f;
    for (int q = 0; q < kDirections; ++q) {
        rho += f[id * kDirections + q];
        mx += f[id * kDirections + q] * cx[q];
        my += f[id * kDirections + q] * cy[q];
        mz += f[id * kDirections + q] * cz[q];
    }
    density[id] = rho;
    velocity[id].x = mx / rho;
    velocity[id].y = my / rho;
    velocity[id].z = mz / rho;
}

// Two relaxation times: one for the even part of each pair of directions, one for the odd part.
__global__ void collide(Grid grid, const int* body, float* f, float* density, Velocity* velocity,
                        float omega_even, float omega_odd) {
    int x = blockIdx.x * blockDim.x + threadIdx.x + 1;
    int y = blockIdx.y * blockDim.y + threadIdx.y + 1;
    int z = blockIdx.z * blockDim.z + threadIdx.z + 1;
    if (x > grid.nx || y > grid.ny || z > grid.nz) return;
    int id = grid.cell(x, y, z);
    if (body[id] != 0) return;
    float before[kDirections];
    for (int q = 0; q < kDirections; ++q) before[q] = f[id * kDirections + q];
    for (int q = 0; q < kDirections; ++q) {
        int p = opposite[q];
        float here = equilibrium(q, density[id], velocity[id].x, velocity[id].y, velocity[id].z);
        float there = equilibrium(p, density[id], velocity[id].x, velocity[id].y, velocity[id].z);
        float even = 0.5 * (before[q] + before[p]) - 0.5 * (here + there);
        float odd = 0.5 * (before[q] - before[p]) - 0.5 * (here - there);
        f[id * kDirections + q] = before[q] - omega_even * even - omega_odd * odd + 3.0 * weight[q] * cx[q] * kBodyForce;
    }
}

// Copies one direction of the outermost interior planes of an axis into the halo of the other side.
__global__ void copy_halo(Grid grid, int axis, int q, float* f) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int j = blockIdx.y * blockDim.y + threadIdx.y;
    int from_low, to_high, from_high, to_low;
    if (axis == 0) {
        if (i >= grid.ny + 2 || j >= grid.nz + 2) return;
        from_low = grid.cell(1, i, j);
        to_high = grid.cell(grid.nx + 1, i, j);
        from_high = grid.cell(grid.nx, i, j);
        to_low = grid.cell(0, i, j);
    } else {
        if (i >= grid.nx + 2 || j >= grid.nz + 2) return;
        from_low = grid.cell(i, 1, j);
        to_high = grid.cell(i, grid.ny + 1, j);
        from_high = grid.cell(i, grid.ny, j);
        to_low = grid.cell(i, 0, j);
    }
    f[to_high * kDirections + q] = f[from_low * kDirections + q];
    f[to_low * kDirections + q] = f[from_high * kDirections + q];
}

// Momentum that the bodies take from populations which are about to bounce back.
__global__ void link_forces(Grid grid, const int* body, const float* f, double* force) {
    int x = blockIdx.x * blockDim.x + threadIdx.x + 1;
    int y = blockIdx.y * blockDim.y + threadIdx.y + 1;
    int z = blockIdx.z * blockDim.z + threadIdx.z + 1;
    if (x > grid.nx || y > grid.ny || z > grid.nz) return;
    int id = grid.cell(x, y, z);
    if (body[id] != 0) return;
    for (int q = 1; q < kDirections; ++q) {
        int hit = body[grid.cell(x + cx[q], y + cy[q], z + cz[q])];
        if (hit > 0) {
            float push = 2.0 * f[id * kDirections + q];
            atomicAdd(&force[hit * 3 + 0], push * cx[q]);
            atomicAdd(&force[hit * 3 + 1], push * cy[q]);
            atomicAdd(&force[hit * 3 + 2], push * cz[q]);
        }
    }
}

// Every cell takes the populations of its neighbours; those from a body are its own, reversed.
__global__ void stream(Grid grid, const int* body, const float* f, float* next) {
    int x = blockIdx.x * blockDim.x + threadIdx.x + 1;
    int y = blockIdx.y * blockDim.y + threadIdx.y + 1;
    int z = blockIdx.z * blockDim.z + threadIdx.z + 1;
    if (x > grid.nx || y > grid.ny || z > grid.nz) return;
    int id = grid.cell(x, y, z);
    if (body[id] != 0) return;
    for (int q = 0; q < kDirections; ++q) {
        int source = grid.cell(x - cx[q], y - cy[q], z - cz[q]);
        if (body[source] > 0) {
            next[id * kDirections + q] = f[id * kDirections + opposite[q]];
        } else {
            next[id * kDirections + q] = f[source * kDirections + q];
        }
    }
}

__device__ Velocity sample_velocity(Grid grid, const Velocity* velocity, float px, float py, float pz) {
    int x0 = (int)floorf(px - 0.5f), y0 = (int)floorf(py - 0.5f), z0 = (int)floorf(pz - 0.5f);
    float wx = px - 0.5f - x0, wy = py - 0.5f - y0, wz = pz - 0.5f - z0;
    Velocity sum = {0.0f, 0.0f, 0.0f};
    for (int corner = 0; corner < 8; ++corner) {
        int dx = corner & 1, dy = (corner >> 1) & 1, dz = corner >> 2;
        int x = (x0 + dx + grid.nx) % grid.nx;
        int y = (y0 + dy + grid.ny) % grid.ny;
        int z = min(max(z0 + dz, 0), grid.nz - 1);
        float w = (dx ? wx : 1.0f - wx) * (dy ? wy : 1.0f - wy) * (dz ? wz : 1.0f - wz);
        int id = grid.cell(x + 1, y + 1, z + 1);
        sum.x += w * velocity[id].x;
        sum.y += w * velocity[id].y;
        sum.z += w * velocity[id].z;
    }
    return sum;
}

// Midpoint rule with the velocity of this step.
__global__ void advect_tracers(Grid grid, const Velocity* velocity, Tracer* tracers, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    Velocity first = sample_velocity(grid, velocity, tracers[i].x, tracers[i].y, tracers[i].z);
    float mx = tracers[i].x + 0.5 * first.x;
    float my = tracers[i].y + 0.5 * first.y;
    float mz = tracers[i].z + 0.5 * first.z;
    Velocity middle = sample_velocity(grid, velocity, mx, my, mz);
    tracers[i].x += middle.x;
    tracers[i].y += middle.y;
    tracers[i].z += middle.z;
    tracers[i].path += sqrt(pow(middle.x, 2.0) + pow(middle.y, 2.0) + pow(middle.z, 2.0));
    if (tracers[i].x < 0.0f) {
        tracers[i].x += grid.nx;
        tracers[i].crossings += 1;
    }
    if (tracers[i].x >= grid.nx) {
        tracers[i].x -= grid.nx;
        tracers[i].crossings += 1;
    }
    if (tracers[i].y < 0.0f) {
        tracers[i].y += grid.ny;
        tracers[i].crossings += 1;
    }
    if (tracers[i].y >= grid.ny) {
        tracers[i].y -= grid.ny;
        tracers[i].crossings += 1;
    }
    tracers[i].slab = min((int)tracers[i].x, grid.nx - 1);
}

__global__ void count_slabs(const Tracer* tracers, int count, int* slabs) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    atomicAdd(&slabs[tracers[i].slab], 1);
}

// Sum over fluid cells of one quantity: 0 mass, 1 to 3 momentum, 4 kinetic energy.
__global__ void sum_quantity(Grid grid, const int* body, const float* density, const Velocity* velocity,
                             int quantity, float* partial) {
    __shared__ float shared[256];
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    int cells = (grid.nx + 2) * (grid.ny + 2) * (grid.nz + 2);
    float value = 0.0f;
    if (id < cells) {
        int x = id % (grid.nx + 2), y = id / (grid.nx + 2) % (grid.ny + 2), z = id / ((grid.nx + 2) * (grid.ny + 2));
        bool interior = x >= 1 && x <= grid.nx && y >= 1 && y <= grid.ny && z >= 1 && z <= grid.nz;
        if (interior && body[id] == 0) {
            float rho = density[id];
            Velocity u = velocity[id];
            if (quantity == 0) value = rho;
            if (quantity == 1) value = rho * u.x;
            if (quantity == 2) value = rho * u.y;
            if (quantity == 3) value = rho * u.z;
            if (quantity == 4) value = 0.5 * rho * (pow(u.x, 2.0) + pow(u.y, 2.0) + pow(u.z, 2.0));
        }
    }
    shared[threadIdx.x] = value;
    __syncthreads();
    for (int stride = 1; stride < blockDim.x; stride *= 2) {
        if (threadIdx.x % (2 * stride) == 0) shared[threadIdx.x] += shared[threadIdx.x + stride];
        __syncthreads();
    }
    if (threadIdx.x == 0) partial[blockIdx.x] = shared[0];
}

// The bits of a float that is not negative are in the order of its values.
__global__ void highest_speed(Grid grid, const int* body, const Velocity* velocity, int* highest) {
    int x = blockIdx.x * blockDim.x + threadIdx.x + 1;
    int y = blockIdx.y * blockDim.y + threadIdx.y + 1;
    int z = blockIdx.z * blockDim.z + threadIdx.z + 1;
    if (x > grid.nx || y > grid.ny || z > grid.nz) return;
    int id = grid.cell(x, y, z);
    if (body[id] != 0) return;
    Velocity u = velocity[id];
    float speed = sqrtf(u.x * u.x + u.y * u.y + u.z * u.z);
    atomicMax(highest, __float_as_int(speed));
}

// Magnitude of the curl, with central differences.
__global__ void vorticity_magnitude(Grid grid, const Velocity* velocity, float* vorticity) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    int z = blockIdx.z * blockDim.z + threadIdx.z;
    if (x >= grid.nx || y >= grid.ny || z >= grid.nz) return;
    int east = grid.cell((x + 1) % grid.nx + 1, y + 1, z + 1);
    int west = grid.cell((x + grid.nx - 1) % grid.nx + 1, y + 1, z + 1);
    int north = grid.cell(x + 1, (y + 1) % grid.ny + 1, z + 1);
    int south = grid.cell(x + 1, (y + grid.ny - 1) % grid.ny + 1, z + 1);
    int above = grid.cell(x + 1, y + 1, min(z + 1, grid.nz - 1) + 1);
    int below = grid.cell(x + 1, y + 1, max(z - 1, 0) + 1);
    float wx = 0.5f * (velocity[north].z - velocity[south].z - velocity[above].y + velocity[below].y);
    float wy = 0.5f * (velocity[above].x - velocity[below].x - velocity[east].z + velocity[west].z);
    float wz = 0.5f * (velocity[east].y - velocity[west].y - velocity[north].x + velocity[south].x);
    vorticity[(z * grid.ny + y) * grid.nx + x] = sqrtf(wx * wx + wy * wy + wz * wz);
}

static dim3 blocks_for(int a, int b, int c, dim3 block) {
    return dim3((a + block.x - 1) / block.x, (b + block.y - 1) / block.y, (c + block.z - 1) / block.z);
}

int main(int argc, char** argv) {
    Options options = parse_options(argc, argv);
    Setup setup = make_setup(options);
    Results results;
    Grid grid = {options.nx, options.ny, options.nz};
    int cells = grid.cells();
    size_t interior = setup.body.size();

    // Bodies with their periodic images; beyond the walls there is more wall.
    std::vector<int> body(cells, 0);
    for (int z = 0; z < grid.nz + 2; ++z)
        for (int y = 0; y < grid.ny + 2; ++y)
            for (int x = 0; x < grid.nx + 2; ++x) {
                int ix = (x - 1 + grid.nx) % grid.nx, iy = (y - 1 + grid.ny) % grid.ny;
                int iz = z < 1 ? 0 : z > grid.nz ? grid.nz - 1 : z - 1;
                body[grid.cell(x, y, z)] = setup.body[((size_t)iz * grid.ny + iy) * grid.nx + ix];
            }
    std::vector<Tracer> tracers(options.tracers);
    for (int i = 0; i < options.tracers; ++i)
        tracers[i] = {setup.tracer_x[i], setup.tracer_y[i], setup.tracer_z[i], 0.0f, 0, 0};

    int *d_body, *d_slabs, *d_highest;
    float *d_f, *d_next, *d_density, *d_partial, *d_vorticity;
    double* d_force;
    Velocity* d_velocity;
    Tracer* d_tracers;
    int sum_blocks = (cells + 255) / 256;
    CUDA_CHECK(cudaMalloc(&d_body, cells * sizeof(int)));
    CUDA_CHECK(cudaMalloc(&d_f, (size_t)cells * kDirections * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&d_next, (size_t)cells * kDirections * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&d_density, cells * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&d_velocity, cells * sizeof(Velocity)));
    CUDA_CHECK(cudaMalloc(&d_vorticity, interior * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&d_partial, sum_blocks * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&d_force, kBodies * 3 * sizeof(double)));
    CUDA_CHECK(cudaMalloc(&d_slabs, grid.nx * sizeof(int)));
    CUDA_CHECK(cudaMalloc(&d_highest, sizeof(int)));
    CUDA_CHECK(cudaMalloc(&d_tracers, options.tracers * sizeof(Tracer)));
    CUDA_CHECK(cudaMemcpy(d_body, body.data(), cells * sizeof(int), cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(d_tracers, tracers.data(), options.tracers * sizeof(Tracer), cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemset(d_f, 0, (size_t)cells * kDirections * sizeof(float)));
    CUDA_CHECK(cudaMemset(d_next, 0, (size_t)cells * kDirections * sizeof(float)));
    CUDA_CHECK(cudaMemset(d_density, 0, cells * sizeof(float)));
    CUDA_CHECK(cudaMemset(d_velocity, 0, cells * sizeof(Velocity)));

    float tau = 3.0f * kViscosity + 0.5f;
    float omega_even = 1.0f / tau;
    float omega_odd = 1.0f / (3.0f / 16.0f / (tau - 0.5f) + 0.5f);

    dim3 block(8, 8, 8);
    dim3 blocks = blocks_for(grid.nx, grid.ny, grid.nz, block);
    dim3 plane(16, 16);
    int tracer_blocks = (options.tracers + 127) / 128;
    std::vector<float> partial(sum_blocks);

    cudaEvent_t start, stop;
    CUDA_CHECK(cudaEventCreate(&start));
    CUDA_CHECK(cudaEventCreate(&stop));
    CUDA_CHECK(cudaEventRecord(start));

    init_populations<<<blocks, block>>>(grid, d_body, setup.phase, d_f);
    CUDA_CHECK(cudaGetLastError());

    for (int step = 0; step <= options.steps; ++step) {
        compute_moments<<<blocks, block>>>(grid, d_body, d_f, d_density, d_velocity);
        CUDA_CHECK(cudaGetLastError());

        for (int quantity = 0; quantity < 5; ++quantity) {
            sum_quantity<<<sum_blocks, 256>>>(grid, d_body, d_density, d_velocity, quantity, d_partial);
            CUDA_CHECK(cudaGetLastError());
            CUDA_CHECK(cudaMemcpy(partial.data(), d_partial, sum_blocks * sizeof(float), cudaMemcpyDeviceToHost));
            double sum = 0.0;
            for (float value : partial) sum += value;
            results.series.push_back(sum);
        }
        CUDA_CHECK(cudaMemset(d_highest, 0, sizeof(int)));
        highest_speed<<<blocks, block>>>(grid, d_body, d_velocity, d_highest);
        CUDA_CHECK(cudaGetLastError());
        float highest;
        CUDA_CHECK(cudaMemcpy(&highest, d_highest, sizeof(float), cudaMemcpyDeviceToHost));
        results.series.push_back(highest);
        if (step == options.steps) break;

        collide<<<blocks, block>>>(grid, d_body, d_f, d_density, d_velocity, omega_even, omega_odd);
        CUDA_CHECK(cudaGetLastError());
        for (int axis = 0; axis < 2; ++axis) {
            for (int q = 0; q < kDirections; ++q) {
                int extent = axis == 0 ? grid.ny + 2 : grid.nx + 2;
                copy_halo<<<blocks_for(extent, grid.nz + 2, 1, plane), plane>>>(grid, axis, q, d_f);
                CUDA_CHECK(cudaGetLastError());
            }
        }

        CUDA_CHECK(cudaMemset(d_force, 0, kBodies * 3 * sizeof(double)));
        link_forces<<<blocks, block>>>(grid, d_body, d_f, d_force);
        CUDA_CHECK(cudaGetLastError());
        double force[kBodies * 3];
        CUDA_CHECK(cudaMemcpy(force, d_force, sizeof(force), cudaMemcpyDeviceToHost));
        results.forces.insert(results.forces.end(), force, force + kBodies * 3);

        stream<<<blocks, block>>>(grid, d_body, d_f, d_next);
        CUDA_CHECK(cudaGetLastError());
        std::swap(d_f, d_next);

        advect_tracers<<<tracer_blocks, 128>>>(grid, d_velocity, d_tracers, options.tracers);
        CUDA_CHECK(cudaGetLastError());
        if (step % kSlabEvery == 0) {
            CUDA_CHECK(cudaMemset(d_slabs, 0, grid.nx * sizeof(int)));
            count_slabs<<<tracer_blocks, 128>>>(d_tracers, options.tracers, d_slabs);
            CUDA_CHECK(cudaGetLastError());
            std::vector<int> slabs(grid.nx);
            CUDA_CHECK(cudaMemcpy(slabs.data(), d_slabs, grid.nx * sizeof(int), cudaMemcpyDeviceToHost));
            results.slabs.insert(results.slabs.end(), slabs.begin(), slabs.end());
        }
    }
    vorticity_magnitude<<<blocks, block>>>(grid, d_velocity, d_vorticity);
    CUDA_CHECK(cudaGetLastError());

    CUDA_CHECK(cudaEventRecord(stop));
    CUDA_CHECK(cudaEventSynchronize(stop));
    float elapsed;
    CUDA_CHECK(cudaEventElapsedTime(&elapsed, start, stop));
    std::printf("%d steps of %zu cells: %.3f ms\n", options.steps, interior, elapsed);

    std::vector<float> density(cells);
    std::vector<Velocity> velocity(cells);
    results.vorticity.resize(interior);
    CUDA_CHECK(cudaMemcpy(density.data(), d_density, cells * sizeof(float), cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaMemcpy(velocity.data(), d_velocity, cells * sizeof(Velocity), cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaMemcpy(results.vorticity.data(), d_vorticity, interior * sizeof(float), cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaMemcpy(tracers.data(), d_tracers, options.tracers * sizeof(Tracer), cudaMemcpyDeviceToHost));
    for (int z = 1; z <= grid.nz; ++z)
        for (int y = 1; y <= grid.ny; ++y)
            for (int x = 1; x <= grid.nx; ++x) {
                int id = grid.cell(x, y, z);
                results.density.push_back(density[id]);
                results.velocity_x.push_back(velocity[id].x);
                results.velocity_y.push_back(velocity[id].y);
                results.velocity_z.push_back(velocity[id].z);
            }
    for (const Tracer& tracer : tracers) {
        results.tracer_x.push_back(tracer.x);
        results.tracer_y.push_back(tracer.y);
        results.tracer_z.push_back(tracer.z);
        results.tracer_path.push_back(tracer.path);
    }
    if (!options.out.empty()) write_results(options, setup, results);

    CUDA_CHECK(cudaEventDestroy(start));
    CUDA_CHECK(cudaEventDestroy(stop));
    CUDA_CHECK(cudaFree(d_body));
    CUDA_CHECK(cudaFree(d_f));
    CUDA_CHECK(cudaFree(d_next));
    CUDA_CHECK(cudaFree(d_density));
    CUDA_CHECK(cudaFree(d_velocity));
    CUDA_CHECK(cudaFree(d_vorticity));
    CUDA_CHECK(cudaFree(d_partial));
    CUDA_CHECK(cudaFree(d_force));
    CUDA_CHECK(cudaFree(d_slabs));
    CUDA_CHECK(cudaFree(d_highest));
    CUDA_CHECK(cudaFree(d_tracers));
    return 0;
}
