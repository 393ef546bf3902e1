// Flow around spheres between two walls: lattice Boltzmann method (D3Q19, two relaxation times),
// with passive tracers. x and y are periodic through a layer of halo cells.
//
// Populations are stored direction by direction, after collision. One kernel takes them from the
// neighbours, computes density and velocity and collides.

#include "../setup.h"

struct Grid {
    int nx, ny, nz;  // interior cells; one halo cell more on every side

    __host__ __device__ int cell(int x, int y, int z) const {
        return (z * (ny + 2) + y) * (nx + 2) + x;
    }
    __host__ __device__ int cells() const { return (nx + 2) * (ny + 2) * (nz + 2); }
};

struct Velocity {
    float x, y, z;
};

// Arrays of one value per cell.
struct Fields {
    float *density, *ux, *uy, *uz;
};

struct Tracers {
    float *x, *y, *z, *path;
};

struct Totals {
    double sums[5];  // mass, momentum, kinetic energy
    int highest;     // speed, as the bits of the float
    int unused;
};

constexpr int kThreads = 256;

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
    return weight[q] * rho * (1.0f + 3.0f * cu + 4.5f * cu * cu - 1.5f * uu);
}

// Two relaxation times: one for the even part of each pair of directions, one for the odd part.
__device__ void collide(const float* f, int id, int cells, float rho, float ux, float uy, float uz,
                        float omega_even, float omega_odd, float* __restrict__ next) {
    float balance[kDirections];
#pragma unroll
    for (int q = 0; q < kDirections; ++q) balance[q] = f[q] - equilibrium(q, rho, ux, uy, uz);
#pragma unroll
    for (int q = 0; q < kDirections; ++q) {
        int p = opposite[q];
        float even = 0.5f * (balance[q] + balance[p]);
        float odd = 0.5f * (balance[q] - balance[p]);
        next[q * cells + id] = f[q] - omega_even * even - omega_odd * odd + 3.0f * weight[q] * cx[q] * kBodyForce;
    }
}

// Mean flow along x with a perturbation of whole waves: populations after the first collision.
__global__ void init_populations(Grid grid, const int* __restrict__ body, float phase, float omega_even, float omega_odd,
                                 float* __restrict__ next, Fields fields) {
    int x = blockIdx.x * blockDim.x + threadIdx.x + 1;
    int y = blockIdx.y * blockDim.y + threadIdx.y + 1;
    int z = blockIdx.z * blockDim.z + threadIdx.z + 1;
    if (x > grid.nx || y > grid.ny || z > grid.nz) return;
    int id = grid.cell(x, y, z);
    if (body[id] != 0) return;
    float ax = 6.2831853f * (x - 0.5f) / grid.nx;
    float ay = 6.2831853f * (y - 0.5f) / grid.ny;
    float az = 3.1415927f * (z - 0.5f) / grid.nz;
    float ux = kInflow * sinf(az) * (1.0f + 0.5f * sinf(2.0f * ay + phase));
    float uy = 0.4f * kInflow * sinf(az) * sinf(3.0f * ax + phase);
    float uz = 0.3f * kInflow * sinf(2.0f * az) * cosf(2.0f * ax - ay);
    float rho = 1.0f + 0.002f * cosf(ax + 2.0f * ay);
    float f[kDirections];
#pragma unroll
    for (int q = 0; q < kDirections; ++q) f[q] = equilibrium(q, rho, ux, uy, uz);
    fields.density[id] = rho;
    fields.ux[id] = ux;
    fields.uy[id] = uy;
    fields.uz[id] = uz;
    collide(f, id, grid.cells(), rho, ux, uy, uz, omega_even, omega_odd, next);
}

// Every cell takes the populations of its neighbours; those from a body are its own, reversed.
// Then come density and velocity of the cell, and its collision.
__global__ void stream_collide(Grid grid, const int* __restrict__ body, const float* __restrict__ f,
                               float omega_even, float omega_odd, float* __restrict__ next, Fields fields) {
    int x = blockIdx.x * blockDim.x + threadIdx.x + 1;
    int y = blockIdx.y * blockDim.y + threadIdx.y + 1;
    int z = blockIdx.z * blockDim.z + threadIdx.z + 1;
    if (x > grid.nx || y > grid.ny || z > grid.nz) return;
    int id = grid.cell(x, y, z);
    if (body[id] != 0) return;
    int cells = grid.cells();
    float here[kDirections];
    float rho = 0.0f, mx = 0.0f, my = 0.0f, mz = 0.0f;
#pragma unroll
    for (int q = 0; q < kDirections; ++q) {
        int source = grid.cell(x - cx[q], y - cy[q], z - cz[q]);
        if (body[source] > 0) {
            here[q] = f[opposite[q] * cells + id];
        } else {
            here[q] = f[q * cells + source];
        }
        rho += here[q];
        mx += here[q] * cx[q];
        my += here[q] * cy[q];
        mz += here[q] * cz[q];
    }
    float inverse = 1.0f / rho;
    float ux = mx * inverse, uy = my * inverse, uz = mz * inverse;
    fields.density[id] = rho;
    fields.ux[id] = ux;
    fields.uy[id] = uy;
    fields.uz[id] = uz;
    collide(here, id, cells, rho, ux, uy, uz, omega_even, omega_odd, next);
}

// The outermost interior planes of an axis go into the halo of the other side, all directions at once.
__global__ void wrap_x(Grid grid, float* f) {
    int y = blockIdx.x * blockDim.x + threadIdx.x;
    int z = blockIdx.y;
    if (y >= grid.ny + 2) return;
    float* plane = f + blockIdx.z * grid.cells();
    plane[grid.cell(grid.nx + 1, y, z)] = plane[grid.cell(1, y, z)];
    plane[grid.cell(0, y, z)] = plane[grid.cell(grid.nx, y, z)];
}

__global__ void wrap_y(Grid grid, float* f) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int z = blockIdx.y;
    if (x >= grid.nx + 2) return;
    float* plane = f + blockIdx.z * grid.cells();
    plane[grid.cell(x, grid.ny + 1, z)] = plane[grid.cell(x, 1, z)];
    plane[grid.cell(x, 0, z)] = plane[grid.cell(x, grid.ny, z)];
}

// Momentum that the bodies take from populations which are about to bounce back.
__global__ void link_forces(Grid grid, const int* __restrict__ body, const float* __restrict__ f, double* force) {
    __shared__ double shared[kBodies * 3];
    int thread = threadIdx.y * blockDim.x + threadIdx.x;
    if (thread < kBodies * 3) shared[thread] = 0.0;
    __syncthreads();
    int x = blockIdx.x * blockDim.x + threadIdx.x + 1;
    int y = blockIdx.y * blockDim.y + threadIdx.y + 1;
    int z = blockIdx.z * blockDim.z + threadIdx.z + 1;
    if (x <= grid.nx && y <= grid.ny && z <= grid.nz) {
        int id = grid.cell(x, y, z);
        if (body[id] == 0) {
            for (int q = 1; q < kDirections; ++q) {
                int hit = body[grid.cell(x + cx[q], y + cy[q], z + cz[q])];
                if (hit > 0) {
                    float push = 2.0f * f[q * grid.cells() + id];
                    if (cx[q] != 0) atomicAdd(&shared[hit * 3 + 0], (double)(push * cx[q]));
                    if (cy[q] != 0) atomicAdd(&shared[hit * 3 + 1], (double)(push * cy[q]));
                    if (cz[q] != 0) atomicAdd(&shared[hit * 3 + 2], (double)(push * cz[q]));
                }
            }
        }
    }
    __syncthreads();
    if (thread < kBodies * 3 && shared[thread] != 0.0) atomicAdd(&force[thread], shared[thread]);
}

__device__ Velocity sample_velocity(Grid grid, Fields fields, float px, float py, float pz) {
    int x0 = (int)floorf(px - 0.5f), y0 = (int)floorf(py - 0.5f), z0 = (int)floorf(pz - 0.5f);
    float wx = px - 0.5f - x0, wy = py - 0.5f - y0, wz = pz - 0.5f - z0;
    Velocity sum = {0.0f, 0.0f, 0.0f};
#pragma unroll
    for (int corner = 0; corner < 8; ++corner) {
        int dx = corner & 1, dy = (corner >> 1) & 1, dz = corner >> 2;
        int x = x0 + dx, y = y0 + dy;
        if (x < 0) x += grid.nx;
        if (x >= grid.nx) x -= grid.nx;
        if (y < 0) y += grid.ny;
        if (y >= grid.ny) y -= grid.ny;
        int z = min(max(z0 + dz, 0), grid.nz - 1);
        float w = (dx ? wx : 1.0f - wx) * (dy ? wy : 1.0f - wy) * (dz ? wz : 1.0f - wz);
        int id = grid.cell(x + 1, y + 1, z + 1);
        sum.x += w * fields.ux[id];
        sum.y += w * fields.uy[id];
        sum.z += w * fields.uz[id];
    }
    return sum;
}

// Midpoint rule with the velocity of this step.
__global__ void advect_tracers(Grid grid, Fields fields, Tracers tracers, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    float x = tracers.x[i], y = tracers.y[i], z = tracers.z[i];
    Velocity first = sample_velocity(grid, fields, x, y, z);
    Velocity middle = sample_velocity(grid, fields, x + 0.5f * first.x, y + 0.5f * first.y, z + 0.5f * first.z);
    x += middle.x;
    y += middle.y;
    z += middle.z;
    if (x < 0.0f) x += grid.nx;
    if (x >= grid.nx) x -= grid.nx;
    if (y < 0.0f) y += grid.ny;
    if (y >= grid.ny) y -= grid.ny;
    tracers.x[i] = x;
    tracers.y[i] = y;
    tracers.z[i] = z;
    tracers.path[i] += sqrtf(middle.x * middle.x + middle.y * middle.y + middle.z * middle.z);
}

__global__ void count_slabs(Grid grid, Tracers tracers, int count, int* slabs) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    atomicAdd(&slabs[min((int)tracers.x[i], grid.nx - 1)], 1);
}

__device__ float warp_sum(float value) {
    for (int offset = 16; offset > 0; offset /= 2) value += __shfl_down_sync(0xffffffffu, value, offset);
    return value;
}

// Mass, momentum and kinetic energy of the fluid cells, and their highest speed.
__global__ void flow_totals(Grid grid, const int* __restrict__ body, Fields fields, Totals* totals) {
    __shared__ double sums[5];
    __shared__ int highest;
    if (threadIdx.x < 5) sums[threadIdx.x] = 0.0;
    if (threadIdx.x == 0) highest = 0;
    __syncthreads();
    float value[5] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
    float fastest = 0.0f;
    int interior = grid.nx * grid.ny * grid.nz;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < interior; i += gridDim.x * blockDim.x) {
        int x = i % grid.nx, y = i / grid.nx % grid.ny, z = i / (grid.nx * grid.ny);
        int id = grid.cell(x + 1, y + 1, z + 1);
        if (body[id] != 0) continue;
        float rho = fields.density[id], ux = fields.ux[id], uy = fields.uy[id], uz = fields.uz[id];
        float uu = ux * ux + uy * uy + uz * uz;
        value[0] += rho;
        value[1] += rho * ux;
        value[2] += rho * uy;
        value[3] += rho * uz;
        value[4] += 0.5f * rho * uu;
        fastest = fmaxf(fastest, uu);
    }
#pragma unroll
    for (int k = 0; k < 5; ++k) {
        float sum = warp_sum(value[k]);
        if (threadIdx.x % 32 == 0) atomicAdd(&sums[k], (double)sum);
    }
    for (int offset = 16; offset > 0; offset /= 2)
        fastest = fmaxf(fastest, __shfl_down_sync(0xffffffffu, fastest, offset));
    if (threadIdx.x % 32 == 0) atomicMax(&highest, __float_as_int(sqrtf(fastest)));
    __syncthreads();
    if (threadIdx.x < 5) atomicAdd(&totals->sums[threadIdx.x], sums[threadIdx.x]);
    if (threadIdx.x == 0) atomicMax(&totals->highest, highest);
}

// Magnitude of the curl, with central differences.
__global__ void vorticity_magnitude(Grid grid, Fields fields, float* __restrict__ vorticity) {
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
    float wx = 0.5f * (fields.uz[north] - fields.uz[south] - fields.uy[above] + fields.uy[below]);
    float wy = 0.5f * (fields.ux[above] - fields.ux[below] - fields.uz[east] + fields.uz[west]);
    float wz = 0.5f * (fields.uy[east] - fields.uy[west] - fields.ux[north] + fields.ux[south]);
    vorticity[(z * grid.ny + y) * grid.nx + x] = sqrtf(wx * wx + wy * wy + wz * wz);
}

static dim3 blocks_for(int a, int b, int c, dim3 block) {
    return dim3((a + block.x - 1) / block.x, (b + block.y - 1) / block.y, (c + block.z - 1) / block.z);
}

static std::vector<float> interior_of(Grid grid, const float* device) {
    std::vector<float> padded(grid.cells()), interior;
    interior.reserve((size_t)grid.nx * grid.ny * grid.nz);
    CUDA_CHECK(cudaMemcpy(padded.data(), device, grid.cells() * sizeof(float), cudaMemcpyDeviceToHost));
    for (int z = 1; z <= grid.nz; ++z)
        for (int y = 1; y <= grid.ny; ++y)
            interior.insert(interior.end(), &padded[grid.cell(1, y, z)], &padded[grid.cell(1, y, z)] + grid.nx);
    return interior;
}

static std::vector<float> download(const float* device, size_t count) {
    std::vector<float> values(count);
    CUDA_CHECK(cudaMemcpy(values.data(), device, count * sizeof(float), cudaMemcpyDeviceToHost));
    return values;
}

static float* upload(const std::vector<float>& values) {
    float* device;
    CUDA_CHECK(cudaMalloc(&device, values.size() * sizeof(float)));
    CUDA_CHECK(cudaMemcpy(device, values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice));
    return device;
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

    int *d_body, *d_slabs;
    float *d_f, *d_next, *d_vorticity;
    double* d_force;
    Fields fields;
    Totals* d_totals;
    size_t populations = (size_t)cells * kDirections * sizeof(float);
    CUDA_CHECK(cudaMalloc(&d_body, cells * sizeof(int)));
    CUDA_CHECK(cudaMalloc(&d_f, populations));
    CUDA_CHECK(cudaMalloc(&d_next, populations));
    CUDA_CHECK(cudaMalloc(&d_vorticity, interior * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&d_force, kBodies * 3 * sizeof(double)));
    CUDA_CHECK(cudaMalloc(&d_slabs, grid.nx * sizeof(int)));
    CUDA_CHECK(cudaMalloc(&d_totals, sizeof(Totals)));
    for (float** field : {&fields.density, &fields.ux, &fields.uy, &fields.uz}) {
        CUDA_CHECK(cudaMalloc(field, cells * sizeof(float)));
        CUDA_CHECK(cudaMemset(*field, 0, cells * sizeof(float)));
    }
    Tracers tracers = {upload(setup.tracer_x), upload(setup.tracer_y), upload(setup.tracer_z),
                       upload(std::vector<float>(options.tracers, 0.0f))};
    CUDA_CHECK(cudaMemcpy(d_body, body.data(), cells * sizeof(int), cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemset(d_f, 0, populations));
    CUDA_CHECK(cudaMemset(d_next, 0, populations));

    float tau = 3.0f * kViscosity + 0.5f;
    float omega_even = 1.0f / tau;
    float omega_odd = 1.0f / (3.0f / 16.0f / (tau - 0.5f) + 0.5f);

    dim3 block(64, 4, 1);
    dim3 blocks = blocks_for(grid.nx, grid.ny, grid.nz, block);
    dim3 wrap_x_blocks((grid.ny + 2 + 127) / 128, grid.nz + 2, kDirections);
    dim3 wrap_y_blocks((grid.nx + 2 + 127) / 128, grid.nz + 2, kDirections);
    int tracer_blocks = (options.tracers + kThreads - 1) / kThreads;
    int total_blocks = (int)((interior + kThreads * 8 - 1) / (kThreads * 8));

    cudaEvent_t start, stop;
    CUDA_CHECK(cudaEventCreate(&start));
    CUDA_CHECK(cudaEventCreate(&stop));
    CUDA_CHECK(cudaEventRecord(start));

    init_populations<<<blocks, block>>>(grid, d_body, setup.phase, omega_even, omega_odd, d_f, fields);
    CUDA_CHECK(cudaGetLastError());

    for (int step = 0; step <= options.steps; ++step) {
        Totals totals;
        CUDA_CHECK(cudaMemset(d_totals, 0, sizeof(Totals)));
        flow_totals<<<total_blocks, kThreads>>>(grid, d_body, fields, d_totals);
        CUDA_CHECK(cudaGetLastError());
        CUDA_CHECK(cudaMemcpy(&totals, d_totals, sizeof(Totals), cudaMemcpyDeviceToHost));
        float highest;
        std::memcpy(&highest, &totals.highest, sizeof(float));
        results.series.insert(results.series.end(), totals.sums, totals.sums + 5);
        results.series.push_back(highest);
        if (step == options.steps) break;

        wrap_x<<<wrap_x_blocks, 128>>>(grid, d_f);
        CUDA_CHECK(cudaGetLastError());
        wrap_y<<<wrap_y_blocks, 128>>>(grid, d_f);
        CUDA_CHECK(cudaGetLastError());

        double force[kBodies * 3];
        CUDA_CHECK(cudaMemset(d_force, 0, sizeof(force)));
        link_forces<<<blocks, block>>>(grid, d_body, d_f, d_force);
        CUDA_CHECK(cudaGetLastError());
        CUDA_CHECK(cudaMemcpy(force, d_force, sizeof(force), cudaMemcpyDeviceToHost));
        results.forces.insert(results.forces.end(), force, force + kBodies * 3);

        advect_tracers<<<tracer_blocks, kThreads>>>(grid, fields, tracers, options.tracers);
        CUDA_CHECK(cudaGetLastError());
        if (step % kSlabEvery == 0) {
            CUDA_CHECK(cudaMemset(d_slabs, 0, grid.nx * sizeof(int)));
            count_slabs<<<tracer_blocks, kThreads>>>(grid, tracers, options.tracers, d_slabs);
            CUDA_CHECK(cudaGetLastError());
            std::vector<int> slabs(grid.nx);
            CUDA_CHECK(cudaMemcpy(slabs.data(), d_slabs, grid.nx * sizeof(int), cudaMemcpyDeviceToHost));
            results.slabs.insert(results.slabs.end(), slabs.begin(), slabs.end());
        }

        stream_collide<<<blocks, block>>>(grid, d_body, d_f, omega_even, omega_odd, d_next, fields);
        CUDA_CHECK(cudaGetLastError());
        std::swap(d_f, d_next);
    }
    vorticity_magnitude<<<blocks, block>>>(grid, fields, d_vorticity);
    CUDA_CHECK(cudaGetLastError());

    CUDA_CHECK(cudaEventRecord(stop));
    CUDA_CHECK(cudaEventSynchronize(stop));
    float elapsed;
    CUDA_CHECK(cudaEventElapsedTime(&elapsed, start, stop));
    std::printf("%d steps of %zu cells: %.3f ms\n", options.steps, interior, elapsed);

    results.density = interior_of(grid, fields.density);
    results.velocity_x = interior_of(grid, fields.ux);
    results.velocity_y = interior_of(grid, fields.uy);
    results.velocity_z = interior_of(grid, fields.uz);
    results.vorticity = download(d_vorticity, interior);
    results.tracer_x = download(tracers.x, options.tracers);
    results.tracer_y = download(tracers.y, options.tracers);
    results.tracer_z = download(tracers.z, options.tracers);
    results.tracer_path = download(tracers.path, options.tracers);
    if (!options.out.empty()) write_results(options, setup, results);

    CUDA_CHECK(cudaEventDestroy(start));
    CUDA_CHECK(cudaEventDestroy(stop));
    CUDA_CHECK(cudaFree(d_body));
    CUDA_CHECK(cudaFree(d_f));
    CUDA_CHECK(cudaFree(d_next));
    CUDA_CHECK(cudaFree(d_vorticity));
    CUDA_CHECK(cudaFree(d_force));
    CUDA_CHECK(cudaFree(d_slabs));
    CUDA_CHECK(cudaFree(d_totals));
    for (float* field : {fields.density, fields.ux, fields.uy, fields.uz}) CUDA_CHECK(cudaFree(field));
    for (float* values : {tracers.x, tracers.y, tracers.z, tracers.path}) CUDA_CHECK(cudaFree(values));
    return 0;
}
