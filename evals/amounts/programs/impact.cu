// Explicit finite elements: a block of metal is pressed from above at constant speed.
//
// Eight-node bricks with one integration point, small strains, elastic and perfectly plastic
// material (von Mises, radial return), lumped masses, central differences in time. Per step: the
// supports set their velocities, the elements update their stresses from the nodes' velocities,
// the elements scatter their forces to the nodes, and the nodes move.
//
// build: nvcc -O3 -lineinfo -arch=sm_90 -o impact impact.cu
// run:   ./impact

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

constexpr int kCells = 96;  // elements along each edge
constexpr int kElements = kCells * kCells * kCells;
constexpr int kEdge = kCells + 1;
constexpr int kNodes = kEdge * kEdge * kEdge;
constexpr int kSteps = 60;
constexpr int kEnergyEvery = 10;
constexpr int kWindow = 256;  // node numbers are shuffled within windows of this size
constexpr int kThreads = 256;

// SI units; steel.
constexpr double kSize = 0.01;
constexpr double kDensity = 7800.0;
constexpr double kShear = 80.0e9;
constexpr double kLame = 120.0e9;
constexpr double kYield = 400.0e6;
constexpr double kImpactSpeed = -40.0;
constexpr double kDamping = 0.999;
constexpr double kSafety = 0.7;

struct NodeState {
    double *x, *y, *z;  // reference position
    double *ux, *uy, *uz;
    double *vx, *vy, *vz;
    double *fx, *fy, *fz;
    double* inverse_mass;
};

struct ElementState {
    int* corners;    // 8 arrays of kElements
    double* stress;  // 6 arrays of kElements: xx, yy, zz, xy, yz, zx
    double* plastic;
};

// ---------------------------------------------------------------------------------------------
// One element, on device and host
// ---------------------------------------------------------------------------------------------

struct Gradient {
    double x[8], y[8], z[8];
    double volume;
};

__host__ __device__ __forceinline__ double sign_x(int c) { return ((c ^ (c >> 1)) & 1) ? 1.0 : -1.0; }
__host__ __device__ __forceinline__ double sign_y(int c) { return (c & 2) ? 1.0 : -1.0; }
__host__ __device__ __forceinline__ double sign_z(int c) { return (c & 4) ? 1.0 : -1.0; }

// Gradients of the shape functions at the centre.
__host__ __device__ __forceinline__ Gradient element_gradient(const double* x, const double* y,
                                                              const double* z) {
    double j[3][3] = {};
#pragma unroll
    for (int c = 0; c < 8; ++c) {
        double a = 0.125 * sign_x(c), b = 0.125 * sign_y(c), d = 0.125 * sign_z(c);
        j[0][0] += a * x[c], j[0][1] += a * y[c], j[0][2] += a * z[c];
        j[1][0] += b * x[c], j[1][1] += b * y[c], j[1][2] += b * z[c];
        j[2][0] += d * x[c], j[2][1] += d * y[c], j[2][2] += d * z[c];
    }
    double c00 = j[1][1] * j[2][2] - j[1][2] * j[2][1];
    double c01 = j[1][2] * j[2][0] - j[1][0] * j[2][2];
    double c02 = j[1][0] * j[2][1] - j[1][1] * j[2][0];
    double determinant = j[0][0] * c00 + j[0][1] * c01 + j[0][2] * c02;
    double s = 0.125 / determinant;
    double i00 = s * c00, i10 = s * c01, i20 = s * c02;
    double i01 = s * (j[0][2] * j[2][1] - j[0][1] * j[2][2]);
    double i11 = s * (j[0][0] * j[2][2] - j[0][2] * j[2][0]);
    double i21 = s * (j[0][1] * j[2][0] - j[0][0] * j[2][1]);
    double i02 = s * (j[0][1] * j[1][2] - j[0][2] * j[1][1]);
    double i12 = s * (j[0][2] * j[1][0] - j[0][0] * j[1][2]);
    double i22 = s * (j[0][0] * j[1][1] - j[0][1] * j[1][0]);
    Gradient g;
#pragma unroll
    for (int c = 0; c < 8; ++c) {
        g.x[c] = i00 * sign_x(c) + i01 * sign_y(c) + i02 * sign_z(c);
        g.y[c] = i10 * sign_x(c) + i11 * sign_y(c) + i12 * sign_z(c);
        g.z[c] = i20 * sign_x(c) + i21 * sign_y(c) + i22 * sign_z(c);
    }
    g.volume = 8.0 * determinant;
    return g;
}

// Adds the elastic increment of the strain rate and returns to the yield surface if it was left.
// Returns the plastic strain of the step.
__host__ __device__ __forceinline__ double return_stress(double* stress, const double* rate, double dt) {
    double trace = rate[0] + rate[1] + rate[2];
#pragma unroll
    for (int k = 0; k < 3; ++k) stress[k] += dt * (kLame * trace + 2.0 * kShear * rate[k]);
#pragma unroll
    for (int k = 3; k < 6; ++k) stress[k] += dt * kShear * rate[k];
    double mean = (stress[0] + stress[1] + stress[2]) / 3.0;
    double a = stress[0] - mean, b = stress[1] - mean, c = stress[2] - mean;
    double square = a * a + b * b + c * c +
                    2.0 * (stress[3] * stress[3] + stress[4] * stress[4] + stress[5] * stress[5]);
    double limit = 2.0 / 3.0 * kYield * kYield;
    if (square <= limit) return 0.0;
    double factor = sqrt(limit / square);
    stress[0] = mean + factor * a;
    stress[1] = mean + factor * b;
    stress[2] = mean + factor * c;
    stress[3] *= factor;
    stress[4] *= factor;
    stress[5] *= factor;
    return (1.0 - factor) * sqrt(1.5 * square) / (3.0 * kShear);
}

// ---------------------------------------------------------------------------------------------
// Kernels
// ---------------------------------------------------------------------------------------------

// An eighth of each element's mass goes to each of its corners.
__global__ void __launch_bounds__(kThreads)
lump_masses(const int* __restrict__ corners, const double* __restrict__ x,
            const double* __restrict__ y, const double* __restrict__ z, double* __restrict__ mass) {
    int e = blockIdx.x * kThreads + threadIdx.x;
    if (e >= kElements) return;
    double cx[8], cy[8], cz[8];
#pragma unroll
    for (int c = 0; c < 8; ++c) {
        int node = corners[c * kElements + e];
        cx[c] = x[node], cy[c] = y[node], cz[c] = z[node];
    }
    double share = 0.125 * kDensity * element_gradient(cx, cy, cz).volume;
#pragma unroll
    for (int c = 0; c < 8; ++c) atomicAdd(&mass[corners[c * kElements + e]], share);
}

__global__ void __launch_bounds__(kThreads) invert_masses(double* __restrict__ mass) {
    int i = blockIdx.x * kThreads + threadIdx.x;
    if (i < kNodes) mass[i] = 1.0 / mass[i];
}

// Largest step that the Courant condition allows. The bits of positive doubles order as integers.
__global__ void __launch_bounds__(kThreads)
stable_step(const int* __restrict__ corners, const double* __restrict__ x,
            const double* __restrict__ y, const double* __restrict__ z,
            unsigned long long* __restrict__ smallest) {
    int e = blockIdx.x * kThreads + threadIdx.x;
    double edge = 1.0;
    if (e < kElements) {
        int from = corners[e];
#pragma unroll
        for (int c = 1; c < 8; ++c) {
            int to = corners[c * kElements + e];
            double dx = x[to] - x[from], dy = y[to] - y[from], dz = z[to] - z[from];
            edge = fmin(edge, sqrt(dx * dx + dy * dy + dz * dz));
        }
    }
    for (int offset = 16; offset > 0; offset /= 2) {
        edge = fmin(edge, __shfl_xor_sync(~0U, edge, offset));
    }
    if (threadIdx.x % 32 == 0) {
        double step = kSafety * edge * sqrt(kDensity / (kLame + 2.0 * kShear));
        atomicMin(smallest, static_cast<unsigned long long>(__double_as_longlong(step)));
    }
}

// Nodes of the upper face move with the plate, those of the lower face rest.
__global__ void __launch_bounds__(kThreads)
set_supports(NodeState nodes, const int* __restrict__ upper, const int* __restrict__ lower, int count) {
    int i = blockIdx.x * kThreads + threadIdx.x;
    if (i >= count) return;
    nodes.vz[upper[i]] = kImpactSpeed;
    int rest = lower[i];
    nodes.vx[rest] = 0.0;
    nodes.vy[rest] = 0.0;
    nodes.vz[rest] = 0.0;
}

// Stresses from the velocities at the corners.
__global__ void __launch_bounds__(kThreads)
update_stresses(NodeState nodes, ElementState elements, double dt) {
    int e = blockIdx.x * kThreads + threadIdx.x;
    if (e >= kElements) return;
    int corner[8];
    double x[8], y[8], z[8];
#pragma unroll
    for (int c = 0; c < 8; ++c) corner[c] = elements.corners[c * kElements + e];
#pragma unroll
    for (int c = 0; c < 8; ++c) {
        x[c] = nodes.x[corner[c]];
        y[c] = nodes.y[corner[c]];
        z[c] = nodes.z[corner[c]];
    }
    Gradient g = element_gradient(x, y, z);
    double rate[6] = {};
#pragma unroll
    for (int c = 0; c < 8; ++c) {
        double vx = nodes.vx[corner[c]];
        double vy = nodes.vy[corner[c]];
        double vz = nodes.vz[corner[c]];
        rate[0] += g.x[c] * vx;
        rate[1] += g.y[c] * vy;
        rate[2] += g.z[c] * vz;
        rate[3] += g.y[c] * vx + g.x[c] * vy;
        rate[4] += g.z[c] * vy + g.y[c] * vz;
        rate[5] += g.x[c] * vz + g.z[c] * vx;
    }
    double stress[6];
#pragma unroll
    for (int k = 0; k < 6; ++k) stress[k] = elements.stress[k * kElements + e];
    double plastic = return_stress(stress, rate, dt);
#pragma unroll
    for (int k = 0; k < 6; ++k) elements.stress[k * kElements + e] = stress[k];
    if (plastic > 0.0) elements.plastic[e] += plastic;
}

// Forces of the stresses on the corners.
__global__ void __launch_bounds__(kThreads)
scatter_forces(NodeState nodes, const int* __restrict__ corners, const double* __restrict__ stress) {
    int e = blockIdx.x * kThreads + threadIdx.x;
    if (e >= kElements) return;
    int corner[8];
    double x[8], y[8], z[8], s[6];
#pragma unroll
    for (int c = 0; c < 8; ++c) corner[c] = corners[c * kElements + e];
#pragma unroll
    for (int c = 0; c < 8; ++c) {
        x[c] = nodes.x[corner[c]];
        y[c] = nodes.y[corner[c]];
        z[c] = nodes.z[corner[c]];
    }
#pragma unroll
    for (int k = 0; k < 6; ++k) s[k] = stress[k * kElements + e];
    Gradient g = element_gradient(x, y, z);
#pragma unroll
    for (int c = 0; c < 8; ++c) {
        double gx = -g.volume * g.x[c], gy = -g.volume * g.y[c], gz = -g.volume * g.z[c];
        atomicAdd(&nodes.fx[corner[c]], gx * s[0] + gy * s[3] + gz * s[5]);
        atomicAdd(&nodes.fy[corner[c]], gx * s[3] + gy * s[1] + gz * s[4]);
        atomicAdd(&nodes.fz[corner[c]], gx * s[5] + gy * s[4] + gz * s[2]);
    }
}

// Velocities and displacements; the forces are cleared for the next step.
__global__ void __launch_bounds__(kThreads) update_nodes(NodeState nodes, double dt) {
    int i = blockIdx.x * kThreads + threadIdx.x;
    if (i >= kNodes) return;
    nodes.vx[i] = kDamping * nodes.vx[i] + dt * nodes.fx[i] * nodes.inverse_mass[i];
    nodes.ux[i] += dt * nodes.vx[i];
    nodes.fx[i] = 0.0;
    nodes.vy[i] = kDamping * nodes.vy[i] + dt * nodes.fy[i] * nodes.inverse_mass[i];
    nodes.uy[i] += dt * nodes.vy[i];
    nodes.fy[i] = 0.0;
    nodes.vz[i] = kDamping * nodes.vz[i] + dt * nodes.fz[i] * nodes.inverse_mass[i];
    nodes.uz[i] += dt * nodes.vz[i];
    nodes.fz[i] = 0.0;
}

__global__ void __launch_bounds__(kThreads) kinetic_energy(NodeState nodes, double* __restrict__ energy) {
    double sum = 0.0;
    for (int i = blockIdx.x * kThreads + threadIdx.x; i < kNodes; i += gridDim.x * kThreads) {
        double square = nodes.vx[i] * nodes.vx[i] + nodes.vy[i] * nodes.vy[i] + nodes.vz[i] * nodes.vz[i];
        sum += 0.5 * square / nodes.inverse_mass[i];
    }
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(~0U, sum, offset);
    if (threadIdx.x % 32 == 0) atomicAdd(energy, sum);
}

// ---------------------------------------------------------------------------------------------
// Host
// ---------------------------------------------------------------------------------------------

struct Mesh {
    std::vector<double> x, y, z;
    std::vector<int> corners, upper, lower;
};

static uint32_t mix(uint32_t x) {
    x ^= x >> 16;
    x *= 0x7feb352dU;
    x ^= x >> 15;
    x *= 0x846ca68bU;
    x ^= x >> 16;
    return x;
}

// A slightly distorted grid. Like a mesh generator's, the node numbers follow the grid only
// roughly.
static Mesh make_mesh() {
    Mesh mesh;
    std::vector<int> number(kNodes);
    for (int i = 0; i < kNodes; ++i) number[i] = i;
    for (int first = 0; first < kNodes; first += kWindow) {
        int size = std::min(kWindow, kNodes - first);
        for (int i = size - 1; i > 0; --i) {
            std::swap(number[first + i], number[first + mix(first + i) % (i + 1)]);
        }
    }
    mesh.x.resize(kNodes), mesh.y.resize(kNodes), mesh.z.resize(kNodes);
    double h = kSize / kCells;
    for (int k = 0, i = 0; k < kEdge; ++k) {
        for (int j = 0; j < kEdge; ++j) {
            for (int l = 0; l < kEdge; ++l, ++i) {
                int node = number[i];
                auto jitter = [&](int axis, int at) {
                    bool edge = at == 0 || at == kCells;
                    return edge ? 0.0 : 0.1 * h * (mix(3 * i + axis) / 4294967296.0 - 0.5);
                };
                mesh.x[node] = l * h + jitter(0, l);
                mesh.y[node] = j * h + jitter(1, j);
                mesh.z[node] = k * h + jitter(2, k);
                if (k == kCells) mesh.upper.push_back(node);
                if (k == 0) mesh.lower.push_back(node);
            }
        }
    }
    mesh.corners.resize(8 * static_cast<size_t>(kElements));
    for (int k = 0, e = 0; k < kCells; ++k) {
        for (int j = 0; j < kCells; ++j) {
            for (int l = 0; l < kCells; ++l, ++e) {
                for (int c = 0; c < 8; ++c) {
                    int a = l + (((c ^ (c >> 1)) & 1) ? 1 : 0);
                    int b = j + ((c & 2) ? 1 : 0);
                    int d = k + ((c & 4) ? 1 : 0);
                    mesh.corners[static_cast<size_t>(c) * kElements + e] =
                        number[(d * kEdge + b) * kEdge + a];
                }
            }
        }
    }
    return mesh;
}

template <class T>
T* to_device(const std::vector<T>& values) {
    T* pointer = nullptr;
    CUDA_OK(cudaMalloc(&pointer, values.size() * sizeof(T)));
    CUDA_OK(cudaMemcpy(pointer, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
    return pointer;
}

static double* device_zeros(size_t count) {
    double* pointer = nullptr;
    CUDA_OK(cudaMalloc(&pointer, count * sizeof(double)));
    CUDA_OK(cudaMemset(pointer, 0, count * sizeof(double)));
    return pointer;
}

template <class T>
std::vector<T> to_host(const T* pointer, size_t count) {
    std::vector<T> values(count);
    CUDA_OK(cudaMemcpy(values.data(), pointer, count * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
}

struct HostStep {
    std::vector<double> vx, vy, vz, stress, inverse_mass;
    long yielded = 0;
    long stressed = 0;
};

// One step on the host, after the supports were set.
static void host_step(const Mesh& mesh, HostStep& s, double dt) {
    std::vector<double> fx(kNodes), fy(kNodes), fz(kNodes);
    for (int e = 0; e < kElements; ++e) {
        double x[8], y[8], z[8], rate[6] = {}, stress[6];
        int corner[8];
        for (int c = 0; c < 8; ++c) {
            corner[c] = mesh.corners[static_cast<size_t>(c) * kElements + e];
            x[c] = mesh.x[corner[c]], y[c] = mesh.y[corner[c]], z[c] = mesh.z[corner[c]];
        }
        Gradient g = element_gradient(x, y, z);
        for (int c = 0; c < 8; ++c) {
            double vx = s.vx[corner[c]], vy = s.vy[corner[c]], vz = s.vz[corner[c]];
            rate[0] += g.x[c] * vx, rate[1] += g.y[c] * vy, rate[2] += g.z[c] * vz;
            rate[3] += g.y[c] * vx + g.x[c] * vy;
            rate[4] += g.z[c] * vy + g.y[c] * vz;
            rate[5] += g.x[c] * vz + g.z[c] * vx;
        }
        for (int k = 0; k < 6; ++k) stress[k] = s.stress[static_cast<size_t>(k) * kElements + e];
        s.yielded += return_stress(stress, rate, dt) > 0.0;
        bool any = false;
        for (int k = 0; k < 6; ++k) any = any || stress[k] != 0.0;
        s.stressed += any;
        for (int c = 0; c < 8; ++c) {
            double gx = -g.volume * g.x[c], gy = -g.volume * g.y[c], gz = -g.volume * g.z[c];
            fx[corner[c]] += gx * stress[0] + gy * stress[3] + gz * stress[5];
            fy[corner[c]] += gx * stress[3] + gy * stress[1] + gz * stress[4];
            fz[corner[c]] += gx * stress[5] + gy * stress[4] + gz * stress[2];
        }
    }
    for (int i = 0; i < kNodes; ++i) {
        s.vx[i] = kDamping * s.vx[i] + dt * fx[i] * s.inverse_mass[i];
        s.vy[i] = kDamping * s.vy[i] + dt * fy[i] * s.inverse_mass[i];
        s.vz[i] = kDamping * s.vz[i] + dt * fz[i] * s.inverse_mass[i];
    }
}

int main() {
    Mesh mesh = make_mesh();
    NodeState nodes;
    nodes.x = to_device(mesh.x), nodes.y = to_device(mesh.y), nodes.z = to_device(mesh.z);
    for (double** array : {&nodes.ux, &nodes.uy, &nodes.uz, &nodes.vx, &nodes.vy, &nodes.vz,
                           &nodes.fx, &nodes.fy, &nodes.fz, &nodes.inverse_mass}) {
        *array = device_zeros(kNodes);
    }
    ElementState elements;
    elements.corners = to_device(mesh.corners);
    elements.stress = device_zeros(6 * static_cast<size_t>(kElements));
    elements.plastic = device_zeros(kElements);
    int* upper = to_device(mesh.upper);
    int* lower = to_device(mesh.lower);
    const int face = kEdge * kEdge;
    double* energies = device_zeros(kSteps / kEnergyEvery);
    unsigned long long* smallest = to_device(std::vector<unsigned long long>(1, ~0ULL >> 1));

    const int element_blocks = (kElements + kThreads - 1) / kThreads;
    const int node_blocks = (kNodes + kThreads - 1) / kThreads;
    lump_masses<<<element_blocks, kThreads>>>(elements.corners, nodes.x, nodes.y, nodes.z,
                                              nodes.inverse_mass);
    invert_masses<<<node_blocks, kThreads>>>(nodes.inverse_mass);
    stable_step<<<element_blocks, kThreads>>>(elements.corners, nodes.x, nodes.y, nodes.z, smallest);
    CUDA_OK(cudaGetLastError());
    unsigned long long bits = to_host(smallest, 1)[0];
    double dt;
    static_assert(sizeof(dt) == sizeof(bits), "bits of a double");
    std::copy_n(reinterpret_cast<const char*>(&bits), sizeof(dt), reinterpret_cast<char*>(&dt));

    HostStep host;
    for (int step = 0; step < kSteps; ++step) {
        set_supports<<<(face + kThreads - 1) / kThreads, kThreads>>>(nodes, upper, lower, face);
        if (step == kSteps - 1) {
            host.vx = to_host(nodes.vx, kNodes), host.vy = to_host(nodes.vy, kNodes);
            host.vz = to_host(nodes.vz, kNodes);
            host.stress = to_host(elements.stress, 6 * static_cast<size_t>(kElements));
            host.inverse_mass = to_host(nodes.inverse_mass, kNodes);
        }
        update_stresses<<<element_blocks, kThreads>>>(nodes, elements, dt);
        scatter_forces<<<element_blocks, kThreads>>>(nodes, elements.corners, elements.stress);
        update_nodes<<<node_blocks, kThreads>>>(nodes, dt);
        if ((step + 1) % kEnergyEvery == 0) {
            kinetic_energy<<<264, kThreads>>>(nodes, energies + step / kEnergyEvery);
        }
        CUDA_OK(cudaGetLastError());
    }
    CUDA_OK(cudaDeviceSynchronize());

    for (double energy : to_host(energies, kSteps / kEnergyEvery)) {
        std::printf("impact: kinetic energy %.6e J\n", energy);
    }
    host_step(mesh, host, dt);
    std::vector<double> vx = to_host(nodes.vx, kNodes), vy = to_host(nodes.vy, kNodes);
    std::vector<double> vz = to_host(nodes.vz, kNodes);
    double worst = 0.0;
    for (int i = 0; i < kNodes; ++i) {
        worst = std::fmax(worst, std::fabs(vx[i] - host.vx[i]));
        worst = std::fmax(worst, std::fabs(vy[i] - host.vy[i]));
        worst = std::fmax(worst, std::fabs(vz[i] - host.vz[i]));
    }
    double mass = 0.0;
    for (double inverse : host.inverse_mass) mass += 1.0 / inverse;
    double mass_error = std::fabs(mass - kDensity * kSize * kSize * kSize) / mass;
    std::printf("impact: dt %.4e s, %d elements, %ld with stress, %ld yielded in the last step\n", dt,
                kElements, host.stressed, host.yielded);
    std::printf("impact: velocities differ by %.2e m/s, the mass by %.2e\n", worst, mass_error);
    bool good = worst < 1e-8 && mass_error < 1e-5 && host.yielded > 0;
    std::printf("impact: %s\n", good ? "PASSED" : "FAILED");
    return good ? 0 : 1;
}
