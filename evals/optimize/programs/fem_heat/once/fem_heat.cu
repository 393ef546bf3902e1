// Transient heat conduction in a solid of several materials with tetrahedral finite elements.
//
// Each time step assembles the system (capacity / time step + conductivity) for the temperatures of
// the step before and solves it with conjugate gradients and a Jacobi preconditioner.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <vector>

#include <cuda_runtime.h>

#include "../mesh.h"

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

constexpr int kLanes = 8;  // threads for a row of the matrix

struct NodeFlux {
    double x, y, z;
    double weight;
};

__device__ Point minus(Point a, Point b) { return {a.x - b.x, a.y - b.y, a.z - b.z}; }

__device__ Point cross(Point a, Point b) {
    return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}

__device__ double dot3(Point a, Point b) { return a.x * b.x + a.y * b.y + a.z * b.z; }

// Volume of a tetrahedron and the gradients of its four shape functions.
__device__ double shape_gradients(const Element& element, const Point* position, Point* gradient) {
    const Point origin = position[element.node[0]];
    const Point a = minus(position[element.node[1]], origin);
    const Point b = minus(position[element.node[2]], origin);
    const Point c = minus(position[element.node[3]], origin);
    const Point bc = cross(b, c), ca = cross(c, a), ab = cross(a, b);
    const double determinant = dot3(a, bc);
    gradient[1] = {bc.x / determinant, bc.y / determinant, bc.z / determinant};
    gradient[2] = {ca.x / determinant, ca.y / determinant, ca.z / determinant};
    gradient[3] = {ab.x / determinant, ab.y / determinant, ab.z / determinant};
    gradient[0] = {-gradient[1].x - gradient[2].x - gradient[3].x,
                   -gradient[1].y - gradient[2].y - gradient[3].y,
                   -gradient[1].z - gradient[2].z - gradient[3].z};
    return fabs(determinant) / 6.0;
}

__device__ double conductivity(const Material& material, double temperature) {
    return material.conductivity * pow(temperature / kStartTemperature, material.exponent);
}

__device__ int find_entry(const int* __restrict__ row_start, const int* __restrict__ column,
                          int row, int wanted) {
    int low = row_start[row], high = row_start[row + 1] - 1;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (column[middle] < wanted) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

// The sum over a block, in its first thread.
__device__ double block_sum(double value) {
    __shared__ double warp_sum[kThreads / 32];
    for (int offset = 16; offset > 0; offset /= 2)
        value += __shfl_down_sync(0xffffffffu, value, offset);
    if (threadIdx.x % 32 == 0) warp_sum[threadIdx.x / 32] = value;
    __syncthreads();
    double sum = 0;
    if (threadIdx.x == 0) {
        for (double part : warp_sum) sum += part;
    }
    __syncthreads();
    return sum;
}

__global__ void assemble_elements(int elements, const Element* __restrict__ element,
                                  const Point* __restrict__ position,
                                  const Material* __restrict__ material,
                                  const double* __restrict__ temperature,
                                  const int* __restrict__ row_start,
                                  const int* __restrict__ column, double* value) {
    const int e = blockIdx.x * blockDim.x + threadIdx.x;
    if (e >= elements) return;
    const Element own = element[e];
    Point gradient[4];
    const double volume = shape_gradients(own, position, gradient);
    double mean = 0;
    for (int i = 0; i < 4; ++i) mean += 0.25 * temperature[own.node[i]];
    const double factor = conductivity(material[own.material], mean) * volume;
    for (int i = 0; i < 4; ++i) {
        for (int j = 0; j < 4; ++j) {
            const int entry = find_entry(row_start, column, own.node[i], own.node[j]);
            atomicAdd(&value[entry], factor * dot3(gradient[i], gradient[j]));
        }
    }
}

__global__ void add_links(int links, int nodes, const Link* __restrict__ link,
                          const int* __restrict__ row_start, const int* __restrict__ column,
                          double* value) {
    const int l = blockIdx.x * blockDim.x + threadIdx.x;
    if (l >= links) return;
    const int node = link[l].node, part = nodes + link[l].part;
    const double conductance = link[l].conductance;
    atomicAdd(&value[find_entry(row_start, column, node, node)], conductance);
    atomicAdd(&value[find_entry(row_start, column, part, part)], conductance);
    atomicAdd(&value[find_entry(row_start, column, node, part)], -conductance);
    atomicAdd(&value[find_entry(row_start, column, part, node)], -conductance);
}

__global__ void add_capacity(int elements, const Element* __restrict__ element,
                             const Point* __restrict__ position,
                             const Material* __restrict__ material, double* capacity) {
    const int e = blockIdx.x * blockDim.x + threadIdx.x;
    if (e >= elements) return;
    const Element own = element[e];
    Point gradient[4];
    const double volume = shape_gradients(own, position, gradient);
    const double share = 0.25 * volume * material[own.material].heat_capacity;
    for (int i = 0; i < 4; ++i) atomicAdd(&capacity[own.node[i]], share);
}

__global__ void add_source(int elements, const Element* __restrict__ element,
                           const Point* __restrict__ position, Point source,
                           double source_power, double* load) {
    const int e = blockIdx.x * blockDim.x + threadIdx.x;
    if (e >= elements) return;
    const Element own = element[e];
    Point gradient[4];
    const double volume = shape_gradients(own, position, gradient);
    Point centre = {0, 0, 0};
    for (int i = 0; i < 4; ++i) {
        const Point corner = position[own.node[i]];
        centre.x += 0.25 * corner.x;
        centre.y += 0.25 * corner.y;
        centre.z += 0.25 * corner.z;
    }
    const Point away = minus(centre, source);
    const double power =
        source_power * exp(-dot3(away, away) / (2.0 * kSourceWidth * kSourceWidth));
    for (int i = 0; i < 4; ++i) atomicAdd(&load[own.node[i]], 0.25 * power * volume);
}

__global__ void finish_system(int rows, const int* __restrict__ row_start,
                              const int* __restrict__ column, double* value,
                              const double* __restrict__ capacity,
                              const double* __restrict__ load,
                              const double* __restrict__ temperature, double time_step,
                              double* inverse_diagonal, double* right_side) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    const int entry = find_entry(row_start, column, row, row);
    const double per_time = capacity[row] / time_step;
    const double diagonal = value[entry] + per_time;
    value[entry] = diagonal;
    inverse_diagonal[row] = 1.0 / diagonal;
    right_side[row] = per_time * temperature[row] + load[row];
}

__device__ double row_product(int row, int lane, const int* __restrict__ row_start,
                              const int* __restrict__ column, const double* __restrict__ value,
                              const double* __restrict__ vector) {
    double sum = 0;
    const int end = row_start[row + 1];
    for (int entry = row_start[row] + lane; entry < end; entry += kLanes)
        sum += value[entry] * vector[column[entry]];
    return sum;
}

__device__ double sum_of_lanes(double sum) {
    for (int offset = kLanes / 2; offset > 0; offset /= 2)
        sum += __shfl_down_sync(0xffffffffu, sum, offset, kLanes);
    return sum;
}

// product = matrix * direction; adds direction * product to total.
__global__ void multiply_direction(int rows, const int* __restrict__ row_start,
                                   const int* __restrict__ column,
                                   const double* __restrict__ value,
                                   const double* __restrict__ direction,
                                   double* __restrict__ product, double* total) {
    const int thread = blockIdx.x * blockDim.x + threadIdx.x;
    const int row = thread / kLanes, lane = thread % kLanes;
    double sum = row < rows ? row_product(row, lane, row_start, column, value, direction) : 0.0;
    sum = sum_of_lanes(sum);
    double term = 0;
    if (row < rows && lane == 0) {
        product[row] = sum;
        term = sum * direction[row];
    }
    term = block_sum(term);
    if (threadIdx.x == 0) atomicAdd(total, term);
}

// residual = right side - matrix * temperature
__global__ void compute_residual(int rows, const int* __restrict__ row_start,
                                 const int* __restrict__ column,
                                 const double* __restrict__ value,
                                 const double* __restrict__ right_side,
                                 const double* __restrict__ temperature,
                                 double* __restrict__ residual) {
    const int thread = blockIdx.x * blockDim.x + threadIdx.x;
    const int row = thread / kLanes, lane = thread % kLanes;
    double sum =
        row < rows ? row_product(row, lane, row_start, column, value, temperature) : 0.0;
    sum = sum_of_lanes(sum);
    if (row < rows && lane == 0) residual[row] = right_side[row] - sum;
}

__global__ void update_direction(int rows, double beta,
                                 const double* __restrict__ inverse_diagonal,
                                 const double* __restrict__ residual, double* direction) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows)
        direction[row] = inverse_diagonal[row] * residual[row] + beta * direction[row];
}

__global__ void update_temperature(int rows, double alpha, const double* __restrict__ direction,
                                   const double* __restrict__ product,
                                   double* __restrict__ temperature,
                                   double* __restrict__ residual) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    temperature[row] += alpha * direction[row];
    residual[row] -= alpha * product[row];
}

struct Norms {
    double preconditioned;  // residual * preconditioned residual
    double residual;        // residual * residual
};

__global__ void residual_norms(int rows, const double* __restrict__ inverse_diagonal,
                               const double* __restrict__ residual, Norms* norms) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    const double r = row < rows ? residual[row] : 0.0;
    const double plain = block_sum(r * r);
    const double scaled = block_sum(row < rows ? r * r * inverse_diagonal[row] : 0.0);
    if (threadIdx.x == 0) {
        atomicAdd(&norms->residual, plain);
        atomicAdd(&norms->preconditioned, scaled);
    }
}

__global__ void sum_of_squares(int rows, const double* __restrict__ vector, double* total) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    const double sum = block_sum(row < rows ? vector[row] * vector[row] : 0.0);
    if (threadIdx.x == 0) atomicAdd(total, sum);
}

__global__ void accumulate_flux(int elements, const Element* __restrict__ element,
                                const Point* __restrict__ position,
                                const Material* __restrict__ material,
                                const double* __restrict__ temperature, NodeFlux* flux) {
    const int e = blockIdx.x * blockDim.x + threadIdx.x;
    if (e >= elements) return;
    const Element own = element[e];
    Point gradient[4];
    const double volume = shape_gradients(own, position, gradient);
    Point rise = {0, 0, 0};
    double mean = 0;
    for (int i = 0; i < 4; ++i) {
        const double value = temperature[own.node[i]];
        mean += 0.25 * value;
        rise.x += value * gradient[i].x;
        rise.y += value * gradient[i].y;
        rise.z += value * gradient[i].z;
    }
    const double factor = -conductivity(material[own.material], mean) * volume;
    for (int i = 0; i < 4; ++i) {
        NodeFlux* node = &flux[own.node[i]];
        atomicAdd(&node->x, factor * rise.x);
        atomicAdd(&node->y, factor * rise.y);
        atomicAdd(&node->z, factor * rise.z);
        atomicAdd(&node->weight, volume);
    }
}

__global__ void average_flux(int nodes, NodeFlux* flux) {
    const int node = blockIdx.x * blockDim.x + threadIdx.x;
    if (node >= nodes) return;
    flux[node].x /= flux[node].weight;
    flux[node].y /= flux[node].weight;
    flux[node].z /= flux[node].weight;
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

int blocks_for(int count) { return (count + kThreads - 1) / kThreads; }

class HeatSolver {
public:
    explicit HeatSolver(const Mesh& mesh)
        : mesh_(mesh),
          nodes_(mesh.nodes),
          rows_(mesh.rows()),
          elements_(int(mesh.element.size())),
          entries_(mesh.column.size()) {
        element_ = upload(mesh.element);
        position_ = upload(mesh.position);
        link_ = upload(mesh.link);
        material_ = upload(std::vector<Material>(mesh.material, mesh.material + kMaterials));
        row_start_ = upload(mesh.row_start);
        column_ = upload(mesh.column);
        value_ = allocate<double>(entries_);
        capacity_ = allocate<double>(rows_);
        load_ = allocate<double>(rows_);
        flux_ = allocate<NodeFlux>(nodes_);
        total_ = allocate<double>(1);
        norms_ = allocate<Norms>(1);
        residual_ = allocate<double>(rows_);
        direction_ = allocate<double>(rows_);
        product_ = allocate<double>(rows_);
        right_side_ = allocate<double>(rows_);
        inverse_diagonal_ = allocate<double>(rows_);
        temperature_ = upload(std::vector<double>(rows_, kStartTemperature));
    }

    ~HeatSolver() {
        for (void* pointer : std::initializer_list<void*>{
                 element_, position_, link_, material_, row_start_, column_, value_, capacity_,
                 load_, flux_, total_, norms_, residual_, direction_, product_, right_side_,
                 inverse_diagonal_, temperature_}) {
            CUDA_CHECK(cudaFree(pointer));
        }
    }

    HeatSolver(const HeatSolver&) = delete;
    HeatSolver& operator=(const HeatSolver&) = delete;

    Step advance(int step) {
        if (step == 0) assemble_capacity();
        assemble(step);
        const int iterations = solve();
        const Step result = summary();
        std::printf("step %d: %d iterations, energy %.9e J, hottest %.4f K\n", step, iterations,
                    result.energy, result.hottest);
        return result;
    }

    std::vector<double> flux() {
        CUDA_CHECK(cudaMemset(flux_, 0, nodes_ * sizeof(NodeFlux)));
        accumulate_flux<<<blocks_for(elements_), kThreads>>>(elements_, element_, position_,
                                                             material_, temperature_, flux_);
        CUDA_CHECK(cudaGetLastError());
        average_flux<<<blocks_for(nodes_), kThreads>>>(nodes_, flux_);
        CUDA_CHECK(cudaGetLastError());
        std::vector<NodeFlux> found(nodes_);
        CUDA_CHECK(cudaMemcpy(found.data(), flux_, nodes_ * sizeof(NodeFlux),
                              cudaMemcpyDeviceToHost));
        std::vector<double> result;
        result.reserve(3 * std::size_t(nodes_));
        for (const NodeFlux& node : found) {
            result.push_back(node.x);
            result.push_back(node.y);
            result.push_back(node.z);
        }
        return result;
    }

    std::vector<double> temperature() { return download(temperature_, rows_); }

    std::vector<double> capacity() { return download(capacity_, rows_); }

private:
    void assemble_capacity() {
        CUDA_CHECK(cudaMemset(capacity_, 0, rows_ * sizeof(double)));
        add_capacity<<<blocks_for(elements_), kThreads>>>(elements_, element_, position_,
                                                          material_, capacity_);
        CUDA_CHECK(cudaGetLastError());
        const std::vector<double> part_capacity(mesh_.parts, mesh_.part_capacity);
        CUDA_CHECK(cudaMemcpy(capacity_ + nodes_, part_capacity.data(),
                              part_capacity.size() * sizeof(double), cudaMemcpyHostToDevice));
    }

    void assemble(int step) {
        CUDA_CHECK(cudaMemset(value_, 0, entries_ * sizeof(double)));
        CUDA_CHECK(cudaMemset(load_, 0, rows_ * sizeof(double)));
        const int blocks = blocks_for(elements_);
        assemble_elements<<<blocks, kThreads>>>(elements_, element_, position_, material_,
                                                temperature_, row_start_, column_, value_);
        CUDA_CHECK(cudaGetLastError());
        const int links = int(mesh_.link.size());
        add_links<<<blocks_for(links), kThreads>>>(links, nodes_, link_, row_start_, column_,
                                                   value_);
        CUDA_CHECK(cudaGetLastError());
        add_source<<<blocks, kThreads>>>(elements_, element_, position_, source_position(step),
                                         kSourceHeat / mesh_.time_step, load_);
        CUDA_CHECK(cudaGetLastError());
        finish_system<<<blocks_for(rows_), kThreads>>>(
            rows_, row_start_, column_, value_, capacity_, load_, temperature_, mesh_.time_step,
            inverse_diagonal_, right_side_);
        CUDA_CHECK(cudaGetLastError());
    }

    void true_residual() {
        compute_residual<<<blocks_for(rows_ * kLanes), kThreads>>>(
            rows_, row_start_, column_, value_, right_side_, temperature_, residual_);
        CUDA_CHECK(cudaGetLastError());
    }

    Norms norms_of_residual() {
        CUDA_CHECK(cudaMemset(norms_, 0, sizeof(Norms)));
        residual_norms<<<blocks_for(rows_), kThreads>>>(rows_, inverse_diagonal_, residual_,
                                                        norms_);
        CUDA_CHECK(cudaGetLastError());
        Norms norms;
        CUDA_CHECK(cudaMemcpy(&norms, norms_, sizeof(Norms), cudaMemcpyDeviceToHost));
        return norms;
    }

    double total() {
        double sum = 0;
        CUDA_CHECK(cudaMemcpy(&sum, total_, sizeof(double), cudaMemcpyDeviceToHost));
        return sum;
    }

    // Starts from the temperatures of the step before and replaces them.
    int solve() {
        const int blocks = blocks_for(rows_);
        CUDA_CHECK(cudaMemset(total_, 0, sizeof(double)));
        sum_of_squares<<<blocks, kThreads>>>(rows_, right_side_, total_);
        CUDA_CHECK(cudaGetLastError());
        const double scale = sqrt(total());
        CUDA_CHECK(cudaMemset(direction_, 0, rows_ * sizeof(double)));
        true_residual();
        double before = 0;
        int iteration = 0;
        while (iteration < kMaxIterations) {
            const Norms norms = norms_of_residual();
            if (sqrt(norms.residual) <= kTolerance * scale) break;
            update_direction<<<blocks, kThreads>>>(
                rows_, iteration ? norms.preconditioned / before : 0.0, inverse_diagonal_,
                residual_, direction_);
            CUDA_CHECK(cudaGetLastError());
            before = norms.preconditioned;
            CUDA_CHECK(cudaMemset(total_, 0, sizeof(double)));
            multiply_direction<<<blocks_for(rows_ * kLanes), kThreads>>>(
                rows_, row_start_, column_, value_, direction_, product_, total_);
            CUDA_CHECK(cudaGetLastError());
            const double alpha = norms.preconditioned / total();
            update_temperature<<<blocks, kThreads>>>(rows_, alpha, direction_, product_,
                                                     temperature_, residual_);
            CUDA_CHECK(cudaGetLastError());
            ++iteration;
            if (iteration % 10 == 0) true_residual();
        }
        return iteration;
    }

    Step summary() {
        const std::vector<double> temperatures = temperature(), capacities = capacity(),
                                  loads = download(load_, rows_);
        Step step = {0, 0, 0};
        for (int row = 0; row < rows_; ++row) {
            step.energy += capacities[row] * temperatures[row];
            step.injected += loads[row] * mesh_.time_step;
            step.hottest = std::max(step.hottest, temperatures[row]);
        }
        return step;
    }

    std::vector<double> download(const double* from, std::size_t count) {
        std::vector<double> result(count);
        CUDA_CHECK(cudaMemcpy(result.data(), from, count * sizeof(double),
                              cudaMemcpyDeviceToHost));
        return result;
    }

    const Mesh& mesh_;
    const int nodes_, rows_, elements_;
    const std::size_t entries_;
    Element* element_;
    Point* position_;
    Link* link_;
    Material* material_;
    int* row_start_;
    int* column_;
    double* value_;
    double* capacity_;
    double* load_;
    NodeFlux* flux_;
    double* total_;
    Norms* norms_;
    double* residual_;
    double* direction_;
    double* product_;
    double* right_side_;
    double* inverse_diagonal_;
    double* temperature_;
};

int main(int argc, char** argv) {
    const Options options = read_options(argc, argv);
    const Mesh mesh = make_mesh(options);
    std::printf("%d nodes, %zu elements, %d parts, %zu entries\n", mesh.nodes,
                mesh.element.size(), mesh.parts, mesh.column.size());
    HeatSolver solver(mesh);
    CUDA_CHECK(cudaDeviceSynchronize());

    const auto start = std::chrono::steady_clock::now();
    std::vector<Step> steps;
    for (int step = 0; step < kSteps; ++step) steps.push_back(solver.advance(step));
    const std::vector<double> flux = solver.flux();
    const std::chrono::duration<double, std::milli> taken =
        std::chrono::steady_clock::now() - start;
    std::printf("time: %.3f ms\n", taken.count());

    write_results(options, solver.temperature(), solver.capacity(), flux, steps);
    return 0;
}
