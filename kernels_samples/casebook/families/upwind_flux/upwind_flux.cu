// Finite volumes for the shallow-water equations (depth, momentum in x and y) with Rusanov fluxes: one
// explicit step on an unstructured mesh (face list) and on a periodic grid of squares.
#include "../../harness/book.h"

//: shared
constexpr float kGravity = 9.81f;
constexpr float kRootGravity = 3.13209195267317f;

template <class Real>
struct State {
    Real h, hu, hv;
};

// A mesh of quadrilaterals. State is one array per component.
struct Mesh {
    int cells, faces;
    const float* h;
    const float* hu;
    const float* hv;
    const int2* sides;      // cells on the left and right of a face, in the order of the mesh file
    const float2* normal;   // of length 1, from left to right
    const int2* sides_by_cell;     // the same faces, ordered by left cell
    const float2* normal_by_cell;
    const int4* neighbour;  // across the four faces of a cell
    const int4* face;       // the four faces of a cell, in the order by left cell
    float dt_over_area;
    float* flux;            // [3][faces]
    float* out;             // [3][cells]
};

__device__ inline State<float> cell_state(const float* __restrict__ h, const float* __restrict__ hu,
                                          const float* __restrict__ hv, int cell) {
    return {h[cell], hu[cell], hv[cell]};
}

__device__ inline State<float> rusanov(State<float> l, State<float> r, float2 n) {
    const float inv_l = 1.0f / l.h, inv_r = 1.0f / r.h;
    const float un_l = (l.hu * n.x + l.hv * n.y) * inv_l, un_r = (r.hu * n.x + r.hv * n.y) * inv_r;
    const float p_l = 0.5f * kGravity * l.h * l.h, p_r = 0.5f * kGravity * r.h * r.h;
    const float a = fmaxf(fabsf(un_l) + sqrtf(kGravity * l.h), fabsf(un_r) + sqrtf(kGravity * r.h));
    return {0.5f * (l.h * un_l + r.h * un_r) - 0.5f * a * (r.h - l.h),
            0.5f * (l.hu * un_l + p_l * n.x + r.hu * un_r + p_r * n.x) - 0.5f * a * (r.hu - l.hu),
            0.5f * (l.hv * un_l + p_l * n.y + r.hv * un_r + p_r * n.y) - 0.5f * a * (r.hv - l.hv)};
}

inline int blocks_for(int count) { return (count + 255) / 256; }
//: end

//: shared
__global__ void copy_state(const float* h, const float* hu, const float* hv, float* out, int cells) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= cells) return;
    out[i] = h[i];
    out[cells + i] = hu[i];
    out[2 * cells + i] = hv[i];
}

__global__ void add_fluxes(const float* __restrict__ h, const float* __restrict__ hu,
                           const float* __restrict__ hv, const int2* __restrict__ sides,
                           const float2* __restrict__ normal, float dt_over_area, float* out, int cells,
                           int faces) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= faces) return;
    const int2 s = sides[i];
    const State<float> f = rusanov(cell_state(h, hu, hv, s.x), cell_state(h, hu, hv, s.y), normal[i]);
    atomicAdd(&out[s.x], -dt_over_area * f.h);
    atomicAdd(&out[cells + s.x], -dt_over_area * f.hu);
    atomicAdd(&out[2 * cells + s.x], -dt_over_area * f.hv);
    atomicAdd(&out[s.y], dt_over_area * f.h);
    atomicAdd(&out[cells + s.y], dt_over_area * f.hu);
    atomicAdd(&out[2 * cells + s.y], dt_over_area * f.hv);
}
//: end

//: variant file_order
void file_order(const Mesh& m) {
    copy_state<<<blocks_for(m.cells), 256>>>(m.h, m.hu, m.hv, m.out, m.cells);
    add_fluxes<<<blocks_for(m.faces), 256>>>(m.h, m.hu, m.hv, m.sides, m.normal, m.dt_over_area, m.out,
                                             m.cells, m.faces);
}
//: end

//: variant cell_order
void cell_order(const Mesh& m) {
    copy_state<<<blocks_for(m.cells), 256>>>(m.h, m.hu, m.hv, m.out, m.cells);
    add_fluxes<<<blocks_for(m.faces), 256>>>(m.h, m.hu, m.hv, m.sides_by_cell, m.normal_by_cell,
                                             m.dt_over_area, m.out, m.cells, m.faces);
}
//: end

//: variant faces_then_cells
__global__ void face_fluxes(const float* __restrict__ h, const float* __restrict__ hu,
                            const float* __restrict__ hv, const int2* __restrict__ sides,
                            const float2* __restrict__ normal, float* flux, int faces) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= faces) return;
    const int2 s = sides[i];
    const State<float> f = rusanov(cell_state(h, hu, hv, s.x), cell_state(h, hu, hv, s.y), normal[i]);
    flux[i] = f.h;
    flux[faces + i] = f.hu;
    flux[2 * faces + i] = f.hv;
}

__global__ void sum_faces(const float* __restrict__ h, const float* __restrict__ hu,
                          const float* __restrict__ hv, const int2* __restrict__ sides,
                          const int4* __restrict__ face, const float* __restrict__ flux,
                          float dt_over_area, float* out, int cells, int faces) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= cells) return;
    const int4 packed = face[i];
    const int mine[4] = {packed.x, packed.y, packed.z, packed.w};
    State<float> sum{0, 0, 0};
    for (int j = 0; j < 4; ++j) {
        const float sign = sides[mine[j]].x == i ? 1.0f : -1.0f;
        sum.h += sign * flux[mine[j]];
        sum.hu += sign * flux[faces + mine[j]];
        sum.hv += sign * flux[2 * faces + mine[j]];
    }
    out[i] = h[i] - dt_over_area * sum.h;
    out[cells + i] = hu[i] - dt_over_area * sum.hu;
    out[2 * cells + i] = hv[i] - dt_over_area * sum.hv;
}

void faces_then_cells(const Mesh& m) {
    face_fluxes<<<blocks_for(m.faces), 256>>>(m.h, m.hu, m.hv, m.sides_by_cell, m.normal_by_cell, m.flux,
                                              m.faces);
    sum_faces<<<blocks_for(m.cells), 256>>>(m.h, m.hu, m.hv, m.sides_by_cell, m.face, m.flux,
                                            m.dt_over_area, m.out, m.cells, m.faces);
}
//: end

//: variant cells_only
__global__ void step_cells(const float* __restrict__ h, const float* __restrict__ hu,
                           const float* __restrict__ hv, const int2* __restrict__ sides,
                           const float2* __restrict__ normal, const int4* __restrict__ neighbour,
                           const int4* __restrict__ face, float dt_over_area, float* out, int cells) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= cells) return;
    const int4 packed = face[i], across = neighbour[i];
    const int mine[4] = {packed.x, packed.y, packed.z, packed.w};
    const int other[4] = {across.x, across.y, across.z, across.w};
    const State<float> own = cell_state(h, hu, hv, i);
    State<float> sum{0, 0, 0};
    for (int j = 0; j < 4; ++j) {
        const float sign = sides[mine[j]].x == i ? 1.0f : -1.0f;
        const float2 n = normal[mine[j]];
        const State<float> f =
            rusanov(own, cell_state(h, hu, hv, other[j]), make_float2(sign * n.x, sign * n.y));
        sum.h += f.h;
        sum.hu += f.hu;
        sum.hv += f.hv;
    }
    out[i] = own.h - dt_over_area * sum.h;
    out[cells + i] = own.hu - dt_over_area * sum.hu;
    out[2 * cells + i] = own.hv - dt_over_area * sum.hv;
}

void cells_only(const Mesh& m) {
    step_cells<<<blocks_for(m.cells), 256>>>(m.h, m.hu, m.hv, m.sides_by_cell, m.normal_by_cell,
                                             m.neighbour, m.face, m.dt_over_area, m.out, m.cells);
}
//: end

//: variant cells_only_plain
__device__ inline State<float> rusanov_plain(State<float> l, State<float> r, float2 n) {
    const float inv_l = 1 / l.h, inv_r = 1 / r.h;
    const float un_l = (l.hu * n.x + l.hv * n.y) * inv_l, un_r = (r.hu * n.x + r.hv * n.y) * inv_r;
    const float p_l = 0.5 * 9.81 * l.h * l.h, p_r = 0.5 * 9.81 * r.h * r.h;
    const float a = fmax(fabs(un_l) + sqrt(9.81 * l.h), fabs(un_r) + sqrt(9.81 * r.h));
    return {float(0.5 * (l.h * un_l + r.h * un_r) - 0.5 * a * (r.h - l.h)),
            float(0.5 * (l.hu * un_l + p_l * n.x + r.hu * un_r + p_r * n.x) - 0.5 * a * (r.hu - l.hu)),
            float(0.5 * (l.hv * un_l + p_l * n.y + r.hv * un_r + p_r * n.y) - 0.5 * a * (r.hv - l.hv))};
}

__global__ void step_cells_plain(const float* __restrict__ h, const float* __restrict__ hu,
                                 const float* __restrict__ hv, const int2* __restrict__ sides,
                                 const float2* __restrict__ normal, const int4* __restrict__ neighbour,
                                 const int4* __restrict__ face, float dt_over_area, float* out,
                                 int cells) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= cells) return;
    const int4 packed = face[i], across = neighbour[i];
    const int mine[4] = {packed.x, packed.y, packed.z, packed.w};
    const int other[4] = {across.x, across.y, across.z, across.w};
    const State<float> own = cell_state(h, hu, hv, i);
    State<float> sum{0, 0, 0};
    for (int j = 0; j < 4; ++j) {
        const float sign = sides[mine[j]].x == i ? 1.0f : -1.0f;
        const float2 n = normal[mine[j]];
        const State<float> f =
            rusanov_plain(own, cell_state(h, hu, hv, other[j]), make_float2(sign * n.x, sign * n.y));
        sum.h += f.h;
        sum.hu += f.hu;
        sum.hv += f.hv;
    }
    out[i] = own.h - dt_over_area * sum.h;
    out[cells + i] = own.hu - dt_over_area * sum.hu;
    out[2 * cells + i] = own.hv - dt_over_area * sum.hv;
}

void cells_only_plain(const Mesh& m) {
    step_cells_plain<<<blocks_for(m.cells), 256>>>(m.h, m.hu, m.hv, m.sides_by_cell, m.normal_by_cell,
                                                   m.neighbour, m.face, m.dt_over_area, m.out, m.cells);
}
//: end

//: shared
// A periodic grid of squares; width and height are multiples of 32 and 8. Besides the new state, the
// step gives the fastest wave of the new state, from which the next time step follows.
template <class Real>
struct Grid {
    int width, height;
    const Real* q;  // [3][height][width]
    Real dt_over_dx;
    Real* out;
    float* fastest;
    float* block_fastest;
};

template <class Real>
__device__ inline State<Real> load_state(const Real* __restrict__ q, size_t cells, size_t at) {
    return {q[at], q[cells + at], q[2 * cells + at]};
}

// What the fluxes need of a cell: state, velocity, speed of waves, pressure.
template <class Real>
struct Primitive {
    Real h, hu, hv, u, v, c, p;
};

template <class Real>
__device__ inline Primitive<Real> primitive(State<Real> s) {
    const Real g = Real(9.81);
    if constexpr (sizeof(Real) == 4) {
        const float root = rsqrtf(s.h), inv = root * root;
        return {s.h, s.hu, s.hv, s.hu * inv, s.hv * inv, kRootGravity * s.h * root, 0.5f * g * s.h * s.h};
    }
    const Real inv = Real(1) / s.h;
    return {s.h, s.hu, s.hv, s.hu * inv, s.hv * inv, sqrt(g * s.h), Real(0.5) * g * s.h * s.h};
}

template <class Real>
__device__ inline State<Real> flux_x(const Primitive<Real>& l, const Primitive<Real>& r) {
    const Real half = Real(0.5), a = half * max(abs(l.u) + l.c, abs(r.u) + r.c);
    return {half * (l.hu + r.hu) - a * (r.h - l.h),
            half * (l.hu * l.u + l.p + r.hu * r.u + r.p) - a * (r.hu - l.hu),
            half * (l.hv * l.u + r.hv * r.u) - a * (r.hv - l.hv)};
}

template <class Real>
__device__ inline State<Real> flux_y(const Primitive<Real>& l, const Primitive<Real>& r) {
    const Real half = Real(0.5), a = half * max(abs(l.v) + l.c, abs(r.v) + r.c);
    return {half * (l.hv + r.hv) - a * (r.h - l.h),
            half * (l.hu * l.v + r.hu * r.v) - a * (r.hu - l.hu),
            half * (l.hv * l.v + l.p + r.hv * r.v + r.p) - a * (r.hv - l.hv)};
}

template <class Real>
__device__ inline State<Real> advanced(const Primitive<Real>& own, const Primitive<Real>& west,
                                       const Primitive<Real>& east, const Primitive<Real>& south,
                                       const Primitive<Real>& north, Real dt_over_dx) {
    const State<Real> w = flux_x(west, own), e = flux_x(own, east);
    const State<Real> s = flux_y(south, own), n = flux_y(own, north);
    return {own.h - dt_over_dx * (e.h - w.h + n.h - s.h),
            own.hu - dt_over_dx * (e.hu - w.hu + n.hu - s.hu),
            own.hv - dt_over_dx * (e.hv - w.hv + n.hv - s.hv)};
}

template <class Real>
__device__ inline State<Real> step_of_cell(const Real* __restrict__ q, int x, int y, int width,
                                           int height, Real dt_over_dx) {
    const size_t cells = size_t(width) * height, row = size_t(y) * width;
    const int west = x == 0 ? width - 1 : x - 1, east = x == width - 1 ? 0 : x + 1;
    const size_t south = size_t(y == 0 ? height - 1 : y - 1) * width;
    const size_t north = size_t(y == height - 1 ? 0 : y + 1) * width;
    return advanced(primitive(load_state(q, cells, row + x)), primitive(load_state(q, cells, row + west)),
                    primitive(load_state(q, cells, row + east)), primitive(load_state(q, cells, south + x)),
                    primitive(load_state(q, cells, north + x)), dt_over_dx);
}

__device__ inline float wave_speed(State<float> s) {
    const float root = rsqrtf(s.h);
    return (fmaxf(fabsf(s.hu), fabsf(s.hv)) * root + kRootGravity * s.h) * root;
}

// The largest value of a block of 256 threads, in its first thread.
__device__ inline float block_largest(float value) {
    __shared__ float warps[8];
    const int thread = threadIdx.y * blockDim.x + threadIdx.x;
    for (int step = 16; step > 0; step /= 2) {
        value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, step));
    }
    if (thread % 32 == 0) warps[thread / 32] = value;
    __syncthreads();
    if (thread == 0) {
        for (int i = 1; i < 8; ++i) value = fmaxf(value, warps[i]);
    }
    return value;
}

// Of positive floats the bits order as the values do.
__device__ inline void raise_to(float* largest, float value) {
    atomicMax(reinterpret_cast<int*>(largest), __float_as_int(value));
}

template <class Real>
__global__ void grid_step(const Real* __restrict__ q, Real* out, int width, int height, Real dt_over_dx) {
    const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    const size_t cells = size_t(width) * height, at = size_t(y) * width + x;
    const State<Real> s = step_of_cell(q, x, y, width, height, dt_over_dx);
    out[at] = s.h;
    out[cells + at] = s.hu;
    out[2 * cells + at] = s.hv;
}

template <class Real>
void step_grid(const Grid<Real>& g) {
    grid_step<<<dim3(g.width / 32, g.height / 8), dim3(32, 8)>>>(g.q, g.out, g.width, g.height,
                                                                 g.dt_over_dx);
}
//: end

//: variant speeds_each
__global__ void fastest_each(const float* __restrict__ q, float* fastest, size_t cells) {
    const size_t i = blockIdx.x * size_t{256} + threadIdx.x;
    raise_to(fastest, wave_speed(load_state(q, cells, i)));
}

void speeds_each(const Grid<float>& g) {
    const size_t cells = size_t(g.width) * g.height;
    BOOK_CHECK(cudaMemsetAsync(g.fastest, 0, sizeof(float)));
    step_grid(g);
    fastest_each<<<cells / 256, 256>>>(g.out, g.fastest, cells);
}
//: end

//: variant speeds_blocks
__global__ void fastest_blocks(const float* __restrict__ q, float* fastest, size_t cells) {
    const size_t i = blockIdx.x * size_t{256} + threadIdx.x;
    const float largest = block_largest(wave_speed(load_state(q, cells, i)));
    if (threadIdx.x == 0) raise_to(fastest, largest);
}

void speeds_blocks(const Grid<float>& g) {
    const size_t cells = size_t(g.width) * g.height;
    BOOK_CHECK(cudaMemsetAsync(g.fastest, 0, sizeof(float)));
    step_grid(g);
    fastest_blocks<<<cells / 256, 256>>>(g.out, g.fastest, cells);
}
//: end

//: variant with_speed
__global__ void grid_step_speed(const float* __restrict__ q, float* out, float* fastest, int width,
                                int height, float dt_over_dx) {
    const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    const size_t cells = size_t(width) * height, at = size_t(y) * width + x;
    const State<float> s = step_of_cell(q, x, y, width, height, dt_over_dx);
    out[at] = s.h;
    out[cells + at] = s.hu;
    out[2 * cells + at] = s.hv;
    const float largest = block_largest(wave_speed(s));
    if (threadIdx.x == 0 && threadIdx.y == 0) raise_to(fastest, largest);
}

void with_speed(const Grid<float>& g) {
    BOOK_CHECK(cudaMemsetAsync(g.fastest, 0, sizeof(float)));
    grid_step_speed<<<dim3(g.width / 32, g.height / 8), dim3(32, 8)>>>(g.q, g.out, g.fastest, g.width,
                                                                       g.height, g.dt_over_dx);
}
//: end

//: variant with_speed_kept
__global__ void grid_step_speed_kept(const float* __restrict__ q, float* out, float* block_fastest,
                                     int width, int height, float dt_over_dx) {
    const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    const size_t cells = size_t(width) * height, at = size_t(y) * width + x;
    const State<float> s = step_of_cell(q, x, y, width, height, dt_over_dx);
    out[at] = s.h;
    out[cells + at] = s.hu;
    out[2 * cells + at] = s.hv;
    const float largest = block_largest(wave_speed(s));
    if (threadIdx.x == 0 && threadIdx.y == 0) block_fastest[blockIdx.y * gridDim.x + blockIdx.x] = largest;
}

__global__ void largest_of(const float* __restrict__ values, float* fastest, int count) {
    float value = 0;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < count; i += gridDim.x * 256) {
        value = fmaxf(value, values[i]);
    }
    value = block_largest(value);
    if (threadIdx.x == 0) raise_to(fastest, value);
}

void with_speed_kept(const Grid<float>& g) {
    const dim3 blocks(g.width / 32, g.height / 8);
    BOOK_CHECK(cudaMemsetAsync(g.fastest, 0, sizeof(float)));
    grid_step_speed_kept<<<blocks, dim3(32, 8)>>>(g.q, g.out, g.block_fastest, g.width, g.height,
                                                  g.dt_over_dx);
    largest_of<<<24, 256>>>(g.block_fastest, g.fastest, blocks.x * blocks.y);
}
//: end

//: variant direct_f64
void direct_f64(const Grid<double>& g) { step_grid(g); }
//: end

//: variant tile_f64
// Velocities, wave speed and pressure of a tile and its rim are computed once.
__global__ void grid_step_tile(const double* __restrict__ q, double* out, int width, int height,
                               double dt_over_dx) {
    __shared__ double tile[7][10][34];
    const size_t cells = size_t(width) * height;
    for (int j = threadIdx.y * 32 + threadIdx.x; j < 340; j += 256) {
        const int tx = j % 34, ty = j / 34;
        const bool rim_x = tx == 0 || tx == 33, rim_y = ty == 0 || ty == 9;
        if (rim_x && rim_y) continue;
        int x = blockIdx.x * 32 + tx - 1, y = blockIdx.y * 8 + ty - 1;
        x = x < 0 ? width - 1 : x == width ? 0 : x;
        y = y < 0 ? height - 1 : y == height ? 0 : y;
        const Primitive<double> p = primitive(load_state(q, cells, size_t(y) * width + x));
        tile[0][ty][tx] = p.h, tile[1][ty][tx] = p.hu, tile[2][ty][tx] = p.hv, tile[3][ty][tx] = p.u;
        tile[4][ty][tx] = p.v, tile[5][ty][tx] = p.c, tile[6][ty][tx] = p.p;
    }
    __syncthreads();
    const auto at_tile = [&](int tx, int ty) {
        return Primitive<double>{tile[0][ty][tx], tile[1][ty][tx], tile[2][ty][tx], tile[3][ty][tx],
                                 tile[4][ty][tx], tile[5][ty][tx], tile[6][ty][tx]};
    };
    const int tx = threadIdx.x + 1, ty = threadIdx.y + 1;
    const State<double> s = advanced(at_tile(tx, ty), at_tile(tx - 1, ty), at_tile(tx + 1, ty),
                                     at_tile(tx, ty - 1), at_tile(tx, ty + 1), dt_over_dx);
    const size_t at = size_t(blockIdx.y * 8 + threadIdx.y) * width + blockIdx.x * 32 + threadIdx.x;
    out[at] = s.h;
    out[cells + at] = s.hu;
    out[2 * cells + at] = s.hv;
}

void tile_f64(const Grid<double>& g) {
    grid_step_tile<<<dim3(g.width / 32, g.height / 8), dim3(32, 8)>>>(g.q, g.out, g.width, g.height,
                                                                      g.dt_over_dx);
}
//: end

__device__ void reference_flux(const double* l, const double* r, double nx, double ny, double* f) {
    const double g = 9.81;
    double part[2][3], speed = 0;
    const double* both[2] = {l, r};
    for (int k = 0; k < 2; ++k) {
        const double* s = both[k];
        const double un = s[1] / s[0] * nx + s[2] / s[0] * ny, p = g * s[0] * s[0] / 2;
        part[k][0] = s[0] * un;
        part[k][1] = s[1] * un + p * nx;
        part[k][2] = s[2] * un + p * ny;
        speed = fmax(speed, fabs(un) + sqrt(g * s[0]));
    }
    for (int k = 0; k < 3; ++k) f[k] = (part[0][k] + part[1][k]) / 2 - speed / 2 * (r[k] - l[k]);
}

// Periodic grid; the mesh is the same grid with a number and a list of faces for each cell.
template <class T>
__global__ void reference_step(const T* h, const T* hu, const T* hv, int width, int height, double dt,
                               T* out, float* speeds) {
    const int cells = width * height;
    const T* q[3] = {h, hu, hv};
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < cells; i += gridDim.x * blockDim.x) {
        const int x = i % width, y = i / width;
        const int around[4] = {y * width + (x + 1) % width, y * width + (x + width - 1) % width,
                               (y + 1) % height * width + x, (y + height - 1) % height * width + x};
        const double nx[4] = {1, -1, 0, 0}, ny[4] = {0, 0, 1, -1};
        double own[3], other[3], f[3], next[3];
        for (int k = 0; k < 3; ++k) next[k] = own[k] = q[k][i];
        for (int j = 0; j < 4; ++j) {
            for (int k = 0; k < 3; ++k) other[k] = q[k][around[j]];
            reference_flux(own, other, nx[j], ny[j], f);
            for (int k = 0; k < 3; ++k) next[k] -= dt * f[k];
        }
        if (out) {
            for (int k = 0; k < 3; ++k) out[size_t(k) * cells + i] = T(next[k]);
        }
        if (speeds) {
            const double wave = fmax(fabs(next[1]), fabs(next[2])) / next[0] + sqrt(9.81 * next[0]);
            atomicMax(reinterpret_cast<int*>(speeds), __float_as_int(float(wave)));
        }
    }
}

template <class T>
T* make_state(book::Problem& p, size_t cells) {
    const uint64_t seed = p.seed();
    return p.input<T>(3 * cells, [=] __device__(size_t i) {
        const double value = book::uniform01(seed, 401, i);
        return T(i < cells ? 1 + value : value - 0.5);
    });
}

template <class T>
Grid<T> set_up_grid(book::Problem& p, int width, int height) {
    Grid<T> g{width, height};
    const size_t cells = size_t(width) * height;
    g.q = make_state<T>(p, cells);
    g.dt_over_dx = T(0.05);
    g.out = p.output<T>(3 * cells);
    p.check<T>(g.out, 3 * cells, {sizeof(T) == 4 ? 1e-4 : 1e-11, sizeof(T) == 4 ? 1e-5 : 1e-12},
               [=](T* expected) {
                   reference_step<T><<<2112, 256>>>(g.q, g.q + cells, g.q + 2 * cells, width, height,
                                                    double(g.dt_over_dx), expected, nullptr);
               });
    return g;
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("mesh", [](book::Problem& p) {
        // Cell c has the faces 2c (to the east) and 2c + 1 (to the north).
        const int width = 2048, height = 1024;
        Mesh m{width * height, 2 * width * height};
        const int cells = m.cells, faces = m.faces;
        const auto at = [=] __host__ __device__(int x, int y) {
            return (y + height) % height * width + (x + width) % width;
        };
        const auto sides_of = [=] __host__ __device__(int face) {
            const int c = face / 2, x = c % width, y = c / width;
            return make_int2(c, face % 2 == 0 ? at(x + 1, y) : at(x, y + 1));
        };
        // The order of the mesh file: an odd factor permutes the numbers below a power of two.
        const auto listed = [=] __host__ __device__(size_t i) {
            unsigned k = unsigned(i) * 2654435761u & unsigned(faces - 1);
            k ^= k >> 11;
            return int(k * 2246822519u & unsigned(faces - 1));
        };
        float* q = make_state<float>(p, cells);
        m.h = q, m.hu = q + cells, m.hv = q + 2 * size_t(cells);
        m.sides = p.input<int2>(faces, [=] __device__(size_t i) { return sides_of(listed(i)); });
        m.normal = p.input<float2>(faces, [=] __device__(size_t i) {
            return listed(i) % 2 == 0 ? make_float2(1, 0) : make_float2(0, 1);
        });
        m.sides_by_cell = p.input<int2>(faces, [=] __device__(size_t i) { return sides_of(int(i)); });
        m.normal_by_cell = p.input<float2>(faces, [=] __device__(size_t i) {
            return i % 2 == 0 ? make_float2(1, 0) : make_float2(0, 1);
        });
        m.neighbour = p.input<int4>(cells, [=] __device__(size_t i) {
            const int x = int(i) % width, y = int(i) / width;
            return make_int4(at(x + 1, y), at(x, y + 1), at(x - 1, y), at(x, y - 1));
        });
        m.face = p.input<int4>(cells, [=] __device__(size_t i) {
            const int c = int(i), x = c % width, y = c / width;
            return make_int4(2 * c, 2 * c + 1, 2 * at(x - 1, y), 2 * at(x, y - 1) + 1);
        });
        m.dt_over_area = 0.05f;
        m.flux = p.output<float>(3 * size_t(faces));
        m.out = p.output<float>(3 * size_t(cells));
        // State in and out, and each face's two cells and normal; some 50 operations per face.
        p.needs({.dram_bytes = 24.0 * cells + 16.0 * faces, .fp32_flop = 50.0 * faces});
        p.check<float>(m.out, 3 * size_t(cells), {1e-4, 1e-5}, [=](float* expected) {
            reference_step<float><<<2112, 256>>>(m.h, m.hu, m.hv, width, height, 0.05f, expected,
                                                 nullptr);
        });
        p.variant("file_order", [=] { file_order(m); });
        p.variant("cell_order", [=] { cell_order(m); });
        p.variant("faces_then_cells", [=] { faces_then_cells(m); });
        p.variant("cells_only", [=] { cells_only(m); });
        p.variant("cells_only_plain", [=] { cells_only_plain(m); });
    });
    book.problem("grid_f32", [](book::Problem& p) {
        auto g = set_up_grid<float>(p, 4096, 1536);
        const size_t cells = size_t(g.width) * g.height;
        g.fastest = p.output<float>(1);
        g.block_fastest = p.output<float>(cells / 256);
        p.needs({.dram_bytes = 24.0 * cells, .fp32_flop = 100.0 * cells});
        p.check<float>(g.fastest, 1, {1e-4}, [=](float* expected) {
            reference_step<float><<<2112, 256>>>(g.q, g.q + cells, g.q + 2 * cells, g.width, g.height,
                                                 double(g.dt_over_dx), nullptr, expected);
        });
        p.variant("speeds_each", [=] { speeds_each(g); });
        p.variant("speeds_blocks", [=] { speeds_blocks(g); });
        p.variant("with_speed", [=] { with_speed(g); });
        p.variant("with_speed_kept", [=] { with_speed_kept(g); });
    });
    book.problem("grid_f64", [](book::Problem& p) {
        const auto g = set_up_grid<double>(p, 2048, 1024);
        const double cells = double(g.width) * g.height;
        p.needs({.dram_bytes = 48.0 * cells, .fp64_flop = 110.0 * cells});
        p.variant("direct_f64", [=] { direct_f64(g); });
        p.variant("tile_f64", [=] { tile_f64(g); });
    });
    return book.finish();
}
