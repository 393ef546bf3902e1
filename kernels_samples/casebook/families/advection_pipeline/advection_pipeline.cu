// Transport of a tracer by upwind fluxes, in pipelines of several kernels a step.
#include "../../harness/book.h"

struct Tracer {
    int nx, ny, steps;
    const float *q, *u, *v;  // tracer in the cells, speeds at their left and lower faces; periodic
    float *flux_x, *flux_y;
    float* out;
    const book::Problem* problem;
    int reactions = 0;  // that the tracer takes part in
};

// A field with one ghost cell on each side; rows are `pitch` apart, cell (0, 0) is at origin.
struct Plume {
    int nx, ny, pitch, steps;
    const float* start;  // with ghost cells in place
    float *first, *second;
    float* out;  // nx x ny
    const book::Problem* problem;
};

//: shared
constexpr float kStep = 0.2f;

__device__ __forceinline__ float upwind(float speed, float before, float behind) {
    return fmaxf(speed, 0.0f) * before + fminf(speed, 0.0f) * behind;
}

inline dim3 rows_of(const Tracer& t) {
    return dim3(t.nx / 256, t.ny);
}
inline int blocks_of(const Tracer& t) {
    return t.nx * t.ny / 256;
}
//: end

//: variant fluxes_numbered
__global__ void flux_x_numbered(const float* __restrict__ q, const float* __restrict__ u, float* __restrict__ flux,
                                long long nx) {
    const long long i = blockIdx.x * 256ll + threadIdx.x;
    const long long y = i / nx, x = i % nx;
    const long long west = (x + nx - 1) % nx;
    flux[i] = upwind(u[i], q[y * nx + west], q[i]);
}

__global__ void flux_y_numbered(const float* __restrict__ q, const float* __restrict__ v, float* __restrict__ flux,
                                long long nx, long long ny) {
    const long long i = blockIdx.x * 256ll + threadIdx.x;
    const long long y = i / nx, x = i % nx;
    const long long south = (y + ny - 1) % ny;
    flux[i] = upwind(v[i], q[south * nx + x], q[i]);
}

__global__ void update_numbered(const float* __restrict__ q, const float* __restrict__ flux_x,
                                const float* __restrict__ flux_y, float* __restrict__ out, long long nx, long long ny) {
    const long long i = blockIdx.x * 256ll + threadIdx.x;
    const long long y = i / nx, x = i % nx;
    const long long east = (x + 1) % nx, north = (y + 1) % ny;
    out[i] = q[i] - kStep * (flux_x[y * nx + east] - flux_x[i] + flux_y[north * nx + x] - flux_y[i]);
}

void fluxes_numbered(const Tracer& t) {
    flux_x_numbered<<<blocks_of(t), 256>>>(t.q, t.u, t.flux_x, t.nx);
    flux_y_numbered<<<blocks_of(t), 256>>>(t.q, t.v, t.flux_y, t.nx, t.ny);
    update_numbered<<<blocks_of(t), 256>>>(t.q, t.flux_x, t.flux_y, t.out, t.nx, t.ny);
}
//: end

//: variant fluxes
__global__ void flux_x_rows(const float* __restrict__ q, const float* __restrict__ u, float* __restrict__ flux, int nx) {
    const int x = blockIdx.x * 256 + threadIdx.x, y = blockIdx.y, i = y * nx + x;
    const int west = x > 0 ? x - 1 : nx - 1;
    flux[i] = upwind(u[i], q[y * nx + west], q[i]);
}

__global__ void flux_y_rows(const float* __restrict__ q, const float* __restrict__ v, float* __restrict__ flux, int nx,
                            int ny) {
    const int x = blockIdx.x * 256 + threadIdx.x, y = blockIdx.y, i = y * nx + x;
    const int south = y > 0 ? y - 1 : ny - 1;
    flux[i] = upwind(v[i], q[south * nx + x], q[i]);
}

__global__ void update_rows(const float* __restrict__ q, const float* __restrict__ flux_x,
                            const float* __restrict__ flux_y, float* __restrict__ out, int nx, int ny) {
    const int x = blockIdx.x * 256 + threadIdx.x, y = blockIdx.y, i = y * nx + x;
    const int east = x < nx - 1 ? x + 1 : 0, north = y < ny - 1 ? y + 1 : 0;
    out[i] = q[i] - kStep * (flux_x[y * nx + east] - flux_x[i] + flux_y[north * nx + x] - flux_y[i]);
}

void fluxes(const Tracer& t) {
    flux_x_rows<<<rows_of(t), 256>>>(t.q, t.u, t.flux_x, t.nx);
    flux_y_rows<<<rows_of(t), 256>>>(t.q, t.v, t.flux_y, t.nx, t.ny);
    update_rows<<<rows_of(t), 256>>>(t.q, t.flux_x, t.flux_y, t.out, t.nx, t.ny);
}
//: end

//: variant joined_numbered
__global__ void step_numbered(const float* __restrict__ q, const float* __restrict__ u, const float* __restrict__ v,
                              float* __restrict__ out, long long nx, long long ny) {
    const long long i = blockIdx.x * 256ll + threadIdx.x;
    const long long y = i / nx, x = i % nx;
    const long long west = y * nx + (x + nx - 1) % nx, east = y * nx + (x + 1) % nx;
    const long long south = (y + ny - 1) % ny * nx + x, north = (y + 1) % ny * nx + x;
    const float here = q[i];
    const float in_x = upwind(u[i], q[west], here), out_x = upwind(u[east], here, q[east]);
    const float in_y = upwind(v[i], q[south], here), out_y = upwind(v[north], here, q[north]);
    out[i] = here - kStep * (out_x - in_x + out_y - in_y);
}

void joined_numbered(const Tracer& t) {
    step_numbered<<<blocks_of(t), 256>>>(t.q, t.u, t.v, t.out, t.nx, t.ny);
}
//: end

//: variant joined_flat
__global__ void step_flat(const float* __restrict__ q, const float* __restrict__ u, const float* __restrict__ v,
                          float* __restrict__ out, unsigned nx, unsigned ny) {
    const unsigned i = blockIdx.x * 256 + threadIdx.x;
    const unsigned y = i / nx, x = i - y * nx;
    const unsigned west = y * nx + (x > 0 ? x - 1 : nx - 1), east = y * nx + (x < nx - 1 ? x + 1 : 0);
    const unsigned south = (y > 0 ? y - 1 : ny - 1) * nx + x, north = (y < ny - 1 ? y + 1 : 0) * nx + x;
    const float here = q[i];
    const float in_x = upwind(u[i], q[west], here), out_x = upwind(u[east], here, q[east]);
    const float in_y = upwind(v[i], q[south], here), out_y = upwind(v[north], here, q[north]);
    out[i] = here - kStep * (out_x - in_x + out_y - in_y);
}

void joined_flat(const Tracer& t) {
    step_flat<<<blocks_of(t), 256>>>(t.q, t.u, t.v, t.out, t.nx, t.ny);
}
//: end

//: variant joined_fifth
__global__ void step_fifth(const float* __restrict__ q, const float* __restrict__ u, const float* __restrict__ v,
                           float* __restrict__ out, int nx, int ny) {
    const int x = blockIdx.x * 256 + threadIdx.x, y = blockIdx.y, i = y * nx + x;
    const int west = y * nx + (x > 0 ? x - 1 : nx - 1), east = y * nx + (x < nx - 1 ? x + 1 : 0);
    const int south = (y > 0 ? y - 1 : ny - 1) * nx + x, north = (y < ny - 1 ? y + 1 : 0) * nx + x;
    const float here = q[i];
    const float in_x = upwind(u[i], q[west], here), out_x = upwind(u[east], here, q[east]);
    const float in_y = upwind(v[i], q[south], here), out_y = upwind(v[north], here, q[north]);
    out[i] = here - 0.2 * (out_x - in_x + out_y - in_y);
}

void joined_fifth(const Tracer& t) {
    step_fifth<<<rows_of(t), 256>>>(t.q, t.u, t.v, t.out, t.nx, t.ny);
}
//: end

//: variant joined
__global__ void step_joined(const float* __restrict__ q, const float* __restrict__ u, const float* __restrict__ v,
                            float* __restrict__ out, int nx, int ny) {
    const int x = blockIdx.x * 256 + threadIdx.x, y = blockIdx.y, i = y * nx + x;
    const int west = y * nx + (x > 0 ? x - 1 : nx - 1), east = y * nx + (x < nx - 1 ? x + 1 : 0);
    const int south = (y > 0 ? y - 1 : ny - 1) * nx + x, north = (y < ny - 1 ? y + 1 : 0) * nx + x;
    const float here = q[i];
    const float in_x = upwind(u[i], q[west], here), out_x = upwind(u[east], here, q[east]);
    const float in_y = upwind(v[i], q[south], here), out_y = upwind(v[north], here, q[north]);
    out[i] = here - kStep * (out_x - in_x + out_y - in_y);
}

void joined(const Tracer& t) {
    step_joined<<<rows_of(t), 256>>>(t.q, t.u, t.v, t.out, t.nx, t.ny);
}
//: end

//: shared
constexpr int kWide = 64;  // columns of a tile
constexpr int kLine = kWide + 2;

// Tracer and speeds of a tile of kWide x High cells and its rim go through shared memory; 256 threads a block.
template <int High>
__global__ void step_staged(const float* __restrict__ q, const float* __restrict__ u, const float* __restrict__ v,
                            float* __restrict__ out, int nx, int ny) {
    extern __shared__ float staged[];
    constexpr int size = (High + 2) * kLine;
    float *tq = staged, *tu = staged + size, *tv = staged + 2 * size;
    const int left = blockIdx.x * kWide, low = blockIdx.y * High;
    for (int j = threadIdx.x / 32; j < High + 2; j += 8) {
        int y = low + j - 1;
        y = y < 0 ? ny - 1 : y == ny ? 0 : y;
        for (int c = threadIdx.x % 32; c < kLine; c += 32) {
            int x = left + c - 1;
            x = x < 0 ? nx - 1 : x == nx ? 0 : x;
            tq[j * kLine + c] = q[y * nx + x];
            tu[j * kLine + c] = u[y * nx + x];
            tv[j * kLine + c] = v[y * nx + x];
        }
    }
    __syncthreads();
    const int c = threadIdx.x % kWide + 1;
    for (int j = threadIdx.x / kWide + 1; j <= High; j += 256 / kWide) {
        const int at = j * kLine + c;
        const float here = tq[at];
        const float in_x = upwind(tu[at], tq[at - 1], here), out_x = upwind(tu[at + 1], here, tq[at + 1]);
        const float in_y = upwind(tv[at], tq[at - kLine], here), out_y = upwind(tv[at + kLine], here, tq[at + kLine]);
        out[(low + j - 1) * nx + left + c - 1] = here - kStep * (out_x - in_x + out_y - in_y);
    }
}

template <int High>
void stage(const Tracer& t) {
    constexpr int bytes = 3 * (High + 2) * kLine * sizeof(float);
    BOOK_CHECK(cudaFuncSetAttribute(step_staged<High>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    step_staged<High><<<dim3(t.nx / kWide, t.ny / High), 256, bytes>>>(t.q, t.u, t.v, t.out, t.nx, t.ny);
}
//: end

//: variant staged_128
void staged_128(const Tracer& t) {
    stage<128>(t);
}
//: end

//: variant staged_16
void staged_16(const Tracer& t) {
    stage<16>(t);
}
//: end

//: shared
template <class Real>
__device__ __forceinline__ Real carried(Real speed, Real before, Real behind) {
    return speed * (speed > 0 ? before : behind);
}

// Transport with reactions that make or use up the tracer, all in the type Real.
template <class Real, int kReactions>
__global__ void step_reacting(const float* __restrict__ q, const float* __restrict__ u, const float* __restrict__ v,
                              float* __restrict__ out, int nx, int ny) {
    const int x = blockIdx.x * 256 + threadIdx.x, y = blockIdx.y, i = y * nx + x;
    const int west = y * nx + (x > 0 ? x - 1 : nx - 1), east = y * nx + (x < nx - 1 ? x + 1 : 0);
    const int south = (y > 0 ? y - 1 : ny - 1) * nx + x, north = (y < ny - 1 ? y + 1 : 0) * nx + x;
    const Real here = q[i];
    const Real in_x = carried<Real>(u[i], q[west], here), out_x = carried<Real>(u[east], here, q[east]);
    const Real in_y = carried<Real>(v[i], q[south], here), out_y = carried<Real>(v[north], here, q[north]);
    Real made = 0;
#pragma unroll
    for (int k = 0; k < kReactions; ++k) {
        made += (k % 2 ? 1 - here : -here) * exp(Real(-2 - k) / (Real(0.5) + Real(0.25) * k + here));
    }
    out[i] = float(here - Real(kStep) * (out_x - in_x + out_y - in_y) + Real(0.05) * made);
}

template <class Real>
void react(const Tracer& t) {
    const auto kernel = t.reactions == 1 ? step_reacting<Real, 1> : step_reacting<Real, 4>;
    kernel<<<rows_of(t), 256>>>(t.q, t.u, t.v, t.out, t.nx, t.ny);
}
//: end

//: variant reacting_f64
void reacting_f64(const Tracer& t) {
    react<double>(t);
}
//: end

//: variant reacting
void reacting(const Tracer& t) {
    react<float>(t);
}
//: end

//: shared
// A plume that drifts with a constant wind and decays; the rate of decay is of the type Real.
template <class Real>
__global__ void drift_step(const float* __restrict__ from, float* __restrict__ to, int pitch) {
    const int x = blockIdx.x * 64 + threadIdx.x, y = blockIdx.y * 4 + threadIdx.y, i = y * pitch + x;
    const float here = from[i];
    const float drift = 0.15f * (here - from[i - 1]) + 0.1f * (here - from[i - pitch]);
    const Real decay = exp(-Real(2.0) / (Real(0.5) + here));
    to[i] = float(here - drift - Real(0.01) * decay * here);
}

// Ghost cells of one edge are copies of the cells at the opposite edge.
__global__ void fill_column(float* field, int pitch, int ny, int to_x, int from_x) {
    const int y = blockIdx.x * blockDim.x + threadIdx.x;
    if (y < ny) field[y * pitch + to_x] = field[y * pitch + from_x];
}
__global__ void fill_row(float* field, int pitch, int nx, int to_y, int from_y) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x;
    if (x < nx) field[to_y * pitch + x] = field[from_y * pitch + x];
}

// All four edges.
__global__ void fill_edges(float* field, int pitch, int nx, int ny) {
    const int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n < nx) {
        field[-pitch + n] = field[(ny - 1) * pitch + n];
        field[ny * pitch + n] = field[n];
    }
    if (n < ny) {
        field[n * pitch - 1] = field[n * pitch + nx - 1];
        field[n * pitch + nx] = field[n * pitch];
    }
}

__global__ void take_out(const float* __restrict__ field, float* __restrict__ out, int nx, int pitch) {
    const int x = blockIdx.x * 256 + threadIdx.x, y = blockIdx.y;
    out[y * nx + x] = field[y * pitch + x];
}

template <class Real>
void drift_four_edges(const Plume& p) {
    for (int k = 0; k < p.steps; ++k) {
        float* to = k % 2 ? p.second : p.first;
        drift_step<Real><<<dim3(p.nx / 64, p.ny / 4), dim3(64, 4)>>>(k == 0 ? p.start : k % 2 ? p.first : p.second, to,
                                                                     p.pitch);
        p.problem->launched(3 * k, 3);
        fill_row<<<(p.nx + 255) / 256, 256>>>(to, p.pitch, p.nx, -1, p.ny - 1);
        p.problem->launched(3 * k + 1, 3);
        fill_row<<<(p.nx + 255) / 256, 256>>>(to, p.pitch, p.nx, p.ny, 0);
        p.problem->launched(3 * k + 2, 3);
        fill_column<<<(p.ny + 255) / 256, 256>>>(to, p.pitch, p.ny, -1, p.nx - 1);
        fill_column<<<(p.ny + 255) / 256, 256>>>(to, p.pitch, p.ny, p.nx, 0);
    }
    take_out<<<dim3(p.nx / 256, p.ny), 256>>>(p.steps % 2 ? p.first : p.second, p.out, p.nx, p.pitch);
}

template <class Real>
void drift_all_edges(const Plume& p) {
    for (int k = 0; k < p.steps; ++k) {
        float* to = k % 2 ? p.second : p.first;
        drift_step<Real><<<dim3(p.nx / 64, p.ny / 4), dim3(64, 4)>>>(k == 0 ? p.start : k % 2 ? p.first : p.second, to,
                                                                     p.pitch);
        p.problem->launched(2 * k, 2);
        fill_edges<<<(max(p.nx, p.ny) + 255) / 256, 256>>>(to, p.pitch, p.nx, p.ny);
        p.problem->launched(2 * k + 1, 2);
    }
    take_out<<<dim3(p.nx / 256, p.ny), 256>>>(p.steps % 2 ? p.first : p.second, p.out, p.nx, p.pitch);
}
//: end

//: variant edge_by_edge_rate64
void edge_by_edge_rate64(const Plume& p) {
    drift_four_edges<double>(p);
}
//: end

//: variant edge_by_edge
void edge_by_edge(const Plume& p) {
    drift_four_edges<float>(p);
}
//: end

//: variant edges_rate64
void edges_rate64(const Plume& p) {
    drift_all_edges<double>(p);
}
//: end

//: variant edges
void edges(const Plume& p) {
    drift_all_edges<float>(p);
}
//: end

__global__ void reference_tracer(const Tracer t, float* expected) {
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < size_t(t.nx) * t.ny;
         i += size_t{gridDim.x} * blockDim.x) {
        const size_t x = i % t.nx, y = i / t.nx;
        const size_t at[4] = {y * t.nx + (x + t.nx - 1) % t.nx, y * t.nx + (x + 1) % t.nx,
                              (y + t.ny - 1) % t.ny * t.nx + x, (y + 1) % t.ny * t.nx + x};
        const double speed[4] = {t.u[i], t.u[at[1]], t.v[i], t.v[at[3]]};
        double net = 0;
        for (int k = 0; k < 4; ++k) {
            // Faces 0 and 2 lead into the cell in positive direction, 1 and 3 out of it.
            const bool inner = k % 2 == 0 ? speed[k] < 0 : speed[k] > 0;
            const double flux = speed[k] * double(inner ? t.q[i] : t.q[at[k]]);
            net += k % 2 == 0 ? -flux : flux;
        }
        const double c = t.q[i];
        double made = 0;
        for (int k = 0; k < t.reactions; ++k) {
            const double rate = exp(-(2.0 + k) / (c + 0.5 + 0.25 * k));
            made += rate * (k & 1 ? 1.0 - c : -c);
        }
        expected[i] = float(c - 0.2 * net + 0.05 * made);
    }
}

__global__ void reference_drift(const float* start, int pitch, const double* from, double* to, int nx, int ny) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < nx * ny; i += gridDim.x * blockDim.x) {
        const int x = i % nx, y = i / nx, west = (x + nx - 1) % nx, south = (y + ny - 1) % ny;
        const double here = start ? start[y * pitch + x] : from[i];
        const double w = start ? start[y * pitch + west] : from[y * nx + west];
        const double s = start ? start[south * pitch + x] : from[south * nx + x];
        to[i] = here * (1 - 0.25 - 0.01 * exp(-2 / (0.5 + here))) + 0.15 * w + 0.1 * s;
    }
}

__global__ void reference_narrow(const double* from, float* expected, int count) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) expected[i] = float(from[i]);
}

void reference_plume(const Plume& p, float* expected) {
    const int count = p.nx * p.ny;
    double *now = nullptr, *next = nullptr;
    BOOK_CHECK(cudaMalloc(&now, sizeof(double) * count));
    BOOK_CHECK(cudaMalloc(&next, sizeof(double) * count));
    for (int k = 0; k < p.steps; ++k) {
        reference_drift<<<1056, 256>>>(k == 0 ? p.start : nullptr, p.pitch, now, next, p.nx, p.ny);
        std::swap(now, next);
    }
    reference_narrow<<<1056, 256>>>(now, expected, count);
    BOOK_CHECK(cudaDeviceSynchronize());
    BOOK_CHECK(cudaFree(now));
    BOOK_CHECK(cudaFree(next));
}

Tracer tracer_of(book::Problem& p, int nx, int ny, int reactions) {
    Tracer t{nx, ny, 1};
    const size_t count = size_t(nx) * ny;
    t.q = p.uniform<float>(count, 0, 1);
    t.u = p.uniform<float>(count, -1, 1);
    t.v = p.uniform<float>(count, -1, 1);
    t.flux_x = p.output<float>(count);
    t.flux_y = p.output<float>(count);
    t.out = p.output<float>(count);
    t.problem = &p;
    t.reactions = reactions;
    p.needs({.dram_bytes = 16.0 * count, .fp32_flop = (17.0 + 7 * reactions) * count,
             .special_op = 2.0 * reactions * count});
    p.check<float>(t.out, count, {1e-5, 1e-6}, [=](float* expected) { reference_tracer<<<1056, 256>>>(t, expected); });
    return t;
}

// Rows begin at a multiple of 32 floats, with 32 columns of margin on both sides and a row above and below.
Plume plume_of(book::Problem& p, int nx, int ny, int steps) {
    Plume plume{nx, ny, nx + 64, steps};
    const int pitch = plume.pitch;
    const size_t all = size_t(pitch) * (ny + 2);
    const uint64_t seed = p.seed();
    plume.start = p.input<float>(all, [=] __device__(size_t i) {
        const int x = (int(i % pitch) - 32 + nx) % nx, y = (int(i / pitch) - 1 + ny) % ny;
        return float(book::uniform01(seed, 21, size_t(y) * nx + x));
    }) + pitch + 32;
    plume.first = p.output<float>(all) + pitch + 32;
    plume.second = p.output<float>(all) + pitch + 32;
    plume.out = p.output<float>(size_t(nx) * ny);
    plume.problem = &p;
    p.needs({.dram_bytes = 8.0 * nx * ny, .fp32_flop = 12.0 * nx * ny * steps, .special_op = 2.0 * nx * ny * steps});
    p.check<float>(plume.out, size_t(nx) * ny, {2e-5, 1e-6}, [=](float* expected) { reference_plume(plume, expected); });
    return plume;
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("tracer", [](book::Problem& p) {
        const Tracer t = tracer_of(p, 4096, 2048, 0);
        p.variant("fluxes_numbered", [=] { fluxes_numbered(t); });
        p.variant("fluxes", [=] { fluxes(t); });
        p.variant("joined_numbered", [=] { joined_numbered(t); });
        p.variant("joined_flat", [=] { joined_flat(t); });
        p.variant("joined_fifth", [=] { joined_fifth(t); });
        p.variant("joined", [=] { joined(t); });
        p.variant("staged_128", [=] { staged_128(t); });
        p.variant("staged_16", [=] { staged_16(t); });
    });
    for (const int reactions : {1, 4}) {
        book.problem("reactions_" + std::to_string(reactions), [=](book::Problem& p) {
            const Tracer t = tracer_of(p, 4096, 2048, reactions);
            p.variant("reacting_f64", [=] { reacting_f64(t); });
            p.variant("reacting", [=] { reacting(t); });
        });
    }
    book.problem("plume", [](book::Problem& p) {
        const Plume plume = plume_of(p, 2048, 768, 12);
        p.variant("edge_by_edge_rate64", [=] { edge_by_edge_rate64(plume); });
        p.variant("edge_by_edge", [=] { edge_by_edge(plume); });
        p.variant("edges_rate64", [=] { edges_rate64(plume); });
        p.variant("edges", [=] { edges(plume); });
    });
    return book.finish();
}
