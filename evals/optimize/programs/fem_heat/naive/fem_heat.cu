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

// One row of the system.
struct Unknown {
    double temperature;
    double residual;
    double preconditioned;
    double direction;
    double product;
    double right_side;
    double inverse_diagonal;
};

struct LocalMatrix {
    double entry[4][4];
};

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

__device__ double conductivity(const Element& element, const Material* material,
                               const Unknown* unknown) {
    double temperature = 0;
    for (int i = 0; i < 4; ++i) temperature += unknown[element.node[i]].temperature / 4.0;
    const Material& of = material[element.material];
    return of.conductivity * pow(temperature / kStartTemperature, of.exponent);
}

__device__ int find_entry(const int* row_start, const int* column, int row, int wanted) {
    int entry = row_start[row];
    while (column[entry] != wanted) ++entry;
    return entry;
}

__global__ void local_matrices(int elements, const Element* element, const Point* position,
                               const Material* material, const Unknown* unknown,
                               LocalMatrix* local) {
    const int e = blockIdx.x * blockDim.x + threadIdx.x;
    if (e >= elements) return;
    Point gradient[4];
    const double volume = shape_gradients(element[e], position, gradient);
    for (int i = 0; i < 4; ++i) {
        for (int j = 0; j < 4; ++j) {
            local[e].entry[i][j] = conductivity(element[e], material, unknown) * volume *
                                   dot3(gradient[i], gradient[j]);
        }
    }
}

__global__ void scatter_matrices(int elements, const Element* element, const LocalMatrix* local,
                                 const int* row_start, const int* column, double* value) {
    const int e = blockIdx.x * blockDim.x + threadIdx.x;
    if (e >= elements) return;
    for (int i = 0; i < 4; ++i) {
        for (int j = 0; j < 4; ++j) {
            const int entry =
                find_entry(row_start, column, element[e].node[i], element[e].node[j]);
            atomicAdd(&value[entry], local[e].entry[i][j]);
        }
    }
}

__global__ void add_links(int links, int nodes, const Link* link, const int* row_start,
                          const int* column, double* value) {
    const int l = blockIdx.x * blockDim.x + threadIdx.x;
    if (l >= links) return;
    const int node = link[l].node, part = nodes + link[l].part;
    atomicAdd(&value[find_entry(row_start, column, node, node)], link[l].conductance);
    atomicAdd(&value[find_entry(row_start, column, part, part)], link[l].conductance);
    atomicAdd(&value[find_entry(row_start, column, node, part)], -link[l].conductance);
    atomicAdd(&value[find_entry(row_start, column, part, node)], -link[l].conductance);
}

__global__ void add_capacity(int elements, const Element* element, const Point* position,
                             const Material* material, double* capacity) {
    const int e = blockIdx.x * blockDim.x + threadIdx.x;
    if (e >= elements) return;
    Point gradient[4];
    const double volume = shape_gradients(element[e], position, gradient);
    for (int i = 0; i < 4; ++i) {
        atomicAdd(&capacity[element[e].node[i]],
                  volume * material[element[e].material].heat_capacity / 4.0);
    }
}

__global__ void add_source(int elements, const Element* element, const Point* position,
                           Point source, double source_power, double* load) {
    const int e = blockIdx.x * blockDim.x + threadIdx.x;
    if (e >= elements) return;
    Point gradient[4];
    const double volume = shape_gradients(element[e], position, gradient);
    Point centre = {0, 0, 0};
    for (int i = 0; i < 4; ++i) {
        const Point corner = position[element[e].node[i]];
        centre.x += corner.x / 4.0;
        centre.y += corner.y / 4.0;
        centre.z += corner.z / 4.0;
    }
    const Point away = minus(centre, source);
    const double power =
        source_power * exp(-dot3(away, away) / (2.0 * pow(kSourceWidth, 2.0)));
    for (int i = 0; i < 4; ++i) atomicAdd(&load[element[e].node[i]], power * volume / 4.0);
}

__global__ void finish_system(int rows, const int* row_start, const int* column, double* value,
                              const double* capacity, const double* load, double time_step,
                              Unknown* unknown) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    const int diagonal = find_entry(row_start, column, row, row);
    value[diagonal] += capacity[row] / time_step;
    unknown[row].inverse_diagonal = 1.0 / value[diagonal];
    unknown[row].right_side = capacity[row] / time_step * unknown[row].temperature + load[row];
}

// product = matrix * direction
__global__ void multiply_direction(int rows, const int* row_start, const int* column,
                                   const double* value, Unknown* unknown) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    unknown[row].product = 0;
    for (int entry = row_start[row]; entry < row_start[row + 1]; ++entry) {
        unknown[row].product += value[entry] * unknown[column[entry]].direction;
    }
}

// residual = right side - matrix * temperature
__global__ void compute_residual(int rows, const int* row_start, const int* column,
                                 const double* value, Unknown* unknown) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    double sum = unknown[row].right_side;
    for (int entry = row_start[row]; entry < row_start[row + 1]; ++entry) {
        sum -= value[entry] * unknown[column[entry]].temperature;
    }
    unknown[row].residual = sum;
}

__global__ void precondition(int rows, Unknown* unknown) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    unknown[row].preconditioned = unknown[row].inverse_diagonal * unknown[row].residual;
}

__global__ void update_direction(int rows, double beta, Unknown* unknown) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    unknown[row].direction = unknown[row].preconditioned + beta * unknown[row].direction;
}

__global__ void update_temperature(int rows, double alpha, Unknown* unknown) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    unknown[row].temperature += alpha * unknown[row].direction;
}

__global__ void update_residual(int rows, double alpha, Unknown* unknown) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    unknown[row].residual -= alpha * unknown[row].product;
}

__global__ void dot_product(int rows, const double* a, const double* b, int stride,
                            double* partial) {
    __shared__ double sum[kThreads];
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    sum[threadIdx.x] = row < rows ? a[row * stride] * b[row * stride] : 0.0;
    __syncthreads();
    for (int apart = 1; apart < kThreads; apart *= 2) {
        if (threadIdx.x % (2 * apart) == 0) sum[threadIdx.x] += sum[threadIdx.x + apart];
        __syncthreads();
    }
    if (threadIdx.x == 0) partial[blockIdx.x] = sum[0];
}

__global__ void accumulate_flux(int elements, const Element* element, const Point* position,
                                const Material* material, const Unknown* unknown,
                                NodeFlux* flux) {
    const int e = blockIdx.x * blockDim.x + threadIdx.x;
    if (e >= elements) return;
    Point gradient[4];
    const double volume = shape_gradients(element[e], position, gradient);
    for (int i = 0; i < 4; ++i) {
        Point rise = {0, 0, 0};
        for (int j = 0; j < 4; ++j) {
            const double temperature = unknown[element[e].node[j]].temperature;
            rise.x += temperature * gradient[j].x;
            rise.y += temperature * gradient[j].y;
            rise.z += temperature * gradient[j].z;
        }
        const double factor = -conductivity(element[e], material, unknown) * volume;
        NodeFlux* node = &flux[element[e].node[i]];
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
          entries_(mesh.column.size()),
          partial_sums_(blocks_for(rows_)) {
        element_ = upload(mesh.element);
        position_ = upload(mesh.position);
        link_ = upload(mesh.link);
        material_ = upload(std::vector<Material>(mesh.material, mesh.material + kMaterials));
        row_start_ = upload(mesh.row_start);
        column_ = upload(mesh.column);
        value_ = allocate<double>(entries_);
        capacity_ = allocate<double>(rows_);
        load_ = allocate<double>(rows_);
        local_ = allocate<LocalMatrix>(elements_);
        partial_ = allocate<double>(partial_sums_.size());
        flux_ = allocate<NodeFlux>(nodes_);
        Unknown start = {};
        start.temperature = kStartTemperature;
        unknown_ = upload(std::vector<Unknown>(rows_, start));
    }

    ~HeatSolver() {
        for (void* pointer : std::initializer_list<void*>{
                 element_, position_, link_, material_, row_start_, column_, value_, capacity_,
                 load_, local_, partial_, flux_, unknown_}) {
            CUDA_CHECK(cudaFree(pointer));
        }
    }

    HeatSolver(const HeatSolver&) = delete;
    HeatSolver& operator=(const HeatSolver&) = delete;

    Step advance(int step) {
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
                                                             material_, unknown_, flux_);
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

    std::vector<double> temperature() {
        std::vector<double> result;
        result.reserve(rows_);
        for (const Unknown& unknown : download_unknowns()) result.push_back(unknown.temperature);
        return result;
    }

    std::vector<double> capacity() { return download(capacity_, rows_); }

private:
    void assemble(int step) {
        CUDA_CHECK(cudaMemset(value_, 0, entries_ * sizeof(double)));
        CUDA_CHECK(cudaMemset(capacity_, 0, rows_ * sizeof(double)));
        CUDA_CHECK(cudaMemset(load_, 0, rows_ * sizeof(double)));
        const int blocks = blocks_for(elements_);
        local_matrices<<<blocks, kThreads>>>(elements_, element_, position_, material_, unknown_,
                                             local_);
        CUDA_CHECK(cudaGetLastError());
        scatter_matrices<<<blocks, kThreads>>>(elements_, element_, local_, row_start_, column_,
                                               value_);
        CUDA_CHECK(cudaGetLastError());
        const int links = int(mesh_.link.size());
        add_links<<<blocks_for(links), kThreads>>>(links, nodes_, link_, row_start_, column_,
                                                   value_);
        CUDA_CHECK(cudaGetLastError());
        add_capacity<<<blocks, kThreads>>>(elements_, element_, position_, material_, capacity_);
        CUDA_CHECK(cudaGetLastError());
        const std::vector<double> part_capacity(mesh_.parts, mesh_.part_capacity);
        CUDA_CHECK(cudaMemcpy(capacity_ + nodes_, part_capacity.data(),
                              part_capacity.size() * sizeof(double), cudaMemcpyHostToDevice));
        add_source<<<blocks, kThreads>>>(elements_, element_, position_, source_position(step),
                                         kSourceHeat / mesh_.time_step, load_);
        CUDA_CHECK(cudaGetLastError());
        finish_system<<<blocks_for(rows_), kThreads>>>(rows_, row_start_, column_, value_,
                                                       capacity_, load_, mesh_.time_step,
                                                       unknown_);
        CUDA_CHECK(cudaGetLastError());
    }

    double dot(const double* a, const double* b) {
        const int stride = sizeof(Unknown) / sizeof(double);
        dot_product<<<blocks_for(rows_), kThreads>>>(rows_, a, b, stride, partial_);
        CUDA_CHECK(cudaGetLastError());
        CUDA_CHECK(cudaMemcpy(partial_sums_.data(), partial_,
                              partial_sums_.size() * sizeof(double), cudaMemcpyDeviceToHost));
        double sum = 0;
        for (double value : partial_sums_) sum += value;
        return sum;
    }

    void true_residual() {
        compute_residual<<<blocks_for(rows_), kThreads>>>(rows_, row_start_, column_, value_,
                                                          unknown_);
        CUDA_CHECK(cudaGetLastError());
    }

    // Starts from the temperatures of the step before and replaces them.
    int solve() {
        const int blocks = blocks_for(rows_);
        true_residual();
        double energy = 0;
        int iteration = 0;
        while (iteration < kMaxIterations) {
            const double scale = sqrt(dot(&unknown_->right_side, &unknown_->right_side));
            if (sqrt(dot(&unknown_->residual, &unknown_->residual)) <= kTolerance * scale) break;
            precondition<<<blocks, kThreads>>>(rows_, unknown_);
            CUDA_CHECK(cudaGetLastError());
            const double before = energy;
            energy = dot(&unknown_->residual, &unknown_->preconditioned);
            update_direction<<<blocks, kThreads>>>(rows_, iteration ? energy / before : 0.0,
                                                   unknown_);
            CUDA_CHECK(cudaGetLastError());
            multiply_direction<<<blocks, kThreads>>>(rows_, row_start_, column_, value_,
                                                     unknown_);
            CUDA_CHECK(cudaGetLastError());
            const double alpha = energy / dot(&unknown_->direction, &unknown_->product);
            update_temperature<<<blocks, kThreads>>>(rows_, alpha, unknown_);
            CUDA_CHECK(cudaGetLastError());
            ++iteration;
            if (iteration % 10 == 0) {
                true_residual();
            } else {
                update_residual<<<blocks, kThreads>>>(rows_, alpha, unknown_);
                CUDA_CHECK(cudaGetLastError());
            }
        }
        return iteration;
    }

    Step summary() {
        const std::vector<Unknown> unknowns = download_unknowns();
        const std::vector<double> capacities = capacity(), loads = download(load_, rows_);
        Step step = {0, 0, 0};
        for (int row = 0; row < rows_; ++row) {
            step.energy += capacities[row] * unknowns[row].temperature;
            step.injected += loads[row] * mesh_.time_step;
            step.hottest = std::max(step.hottest, unknowns[row].temperature);
        }
        return step;
    }

    std::vector<double> download(const double* from, std::size_t count) {
        std::vector<double> result(count);
        CUDA_CHECK(cudaMemcpy(result.data(), from, count * sizeof(double),
                              cudaMemcpyDeviceToHost));
        return result;
    }

    std::vector<Unknown> download_unknowns() {
        std::vector<Unknown> result(rows_);
        CUDA_CHECK(cudaMemcpy(result.data(), unknown_, rows_ * sizeof(Unknown),
                              cudaMemcpyDeviceToHost));
        return result;
    }

    const Mesh& mesh_;
    const int nodes_, rows_, elements_;
    const std::size_t entries_;
    std::vector<double> partial_sums_;
    Element* element_;
    Point* position_;
    Link* link_;
    Material* material_;
    int* row_start_;
    int* column_;
    double* value_;
    double* capacity_;
    double* load_;
    LocalMatrix* local_;
    double* partial_;
    NodeFlux* flux_;
    Unknown* unknown_;
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
