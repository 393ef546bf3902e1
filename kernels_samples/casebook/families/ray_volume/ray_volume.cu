// Images of 3D scalar fields: front-to-back compositing along the rays of an orthographic camera
// through a CT volume, and maximum-intensity projections along an axis.
#include "../../harness/book.h"

//: shared
struct Scene {
    int nx, ny, nz;       // voxels, x innermost
    const short* volume;  // Hounsfield units
    float3 corner, right, down, forward;  // of the image plane, in voxels
    int columns, rows;    // pixels
    float level, width;   // of the display window
    float2* image;        // grey value and opacity
};

constexpr float kOpaque = 0.999f;
constexpr float kDensity = 0.05f;

__device__ float3 along(float3 p, float t, float3 d) {
    return make_float3(p.x + t * d.x, p.y + t * d.y, p.z + t * d.z);
}

// The part of a ray between two parallel sides of the box; no direction has a zero component.
__device__ void clip(float origin, float direction, int count, float& enter, float& leave) {
    const float a = -origin / direction, b = (float(count - 1) - origin) / direction;
    enter = fmaxf(enter, fminf(a, b));
    leave = fminf(leave, fmaxf(a, b));
}

__device__ int cell_of(float& position, int count) {
    const float inside = fminf(fmaxf(position, 0.0f), float(count) - 1.001f);
    const int cell = int(inside);
    position = inside - float(cell);
    return cell;
}

template <class Math>
__device__ float sample(const Scene& s, float3 p) {
    const int x = cell_of(p.x, s.nx), y = cell_of(p.y, s.ny), z = cell_of(p.z, s.nz);
    const int row = s.nx, slice = s.nx * s.ny;
    const short* v = s.volume + (z * slice + y * row + x);
    const float y0 = Math::blend(Math::blend(v[0], v[1], p.x), Math::blend(v[row], v[row + 1], p.x), p.y);
    v += slice;
    const float y1 = Math::blend(Math::blend(v[0], v[1], p.x), Math::blend(v[row], v[row + 1], p.x), p.y);
    return Math::blend(y0, y1, p.z);
}

template <class Math>
__device__ void composite(const Scene& s, float3 p, float2& pixel) {
    const float shown = __saturatef(Math::windowed(sample<Math>(s, p), s.level, s.width));
    const float opacity = kDensity * shown * shown;
    const float weight = (1.0f - pixel.y) * opacity;
    pixel.x += weight * shown;
    pixel.y += weight;
}

// First position inside the volume and number of samples, one per unit of length.
__device__ float3 entry_of(const Scene& s, int column, int row, int& samples) {
    const float3 origin = along(along(s.corner, column + 0.5f, s.right), row + 0.5f, s.down);
    float enter = 0, leave = 1e30f;
    clip(origin.x, s.forward.x, s.nx, enter, leave);
    clip(origin.y, s.forward.y, s.ny, enter, leave);
    clip(origin.z, s.forward.z, s.nz, enter, leave);
    samples = leave > enter ? int(leave - enter) : 0;
    return along(origin, enter, s.forward);
}

template <class Math>
__global__ void march(Scene s) {
    const int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (column >= s.columns || row >= s.rows) return;
    int samples;
    const float3 entry = entry_of(s, column, row, samples);
    float2 pixel{0, 0};
    for (int i = 0; i < samples && pixel.y < kOpaque; ++i) {
        composite<Math>(s, along(entry, float(i), s.forward), pixel);
    }
    s.image[row * s.columns + column] = pixel;
}

template <class Math>
void launch_march(const Scene& s, dim3 block) {
    march<Math><<<dim3((s.columns + block.x - 1) / block.x, (s.rows + block.y - 1) / block.y), block>>>(s);
}

struct Plain {
    static __device__ float blend(float a, float b, float t) { return (1.0f - t) * a + t * b; }
    static __device__ float windowed(float value, float level, float width) {
        return (value - (level - 0.5f)) / (width - 1.0f) + 0.5f;
    }
};
//: end

//: variant cast_blend
struct Blended : Plain {
    static __device__ float blend(float a, float b, float t) { return (1.0 - t) * a + t * b; }
};

void cast_blend(const Scene& s) { launch_march<Blended>(s, dim3(32, 8)); }
//: end

//: variant cast_window
// Linear display window of DICOM, PS3.3 C.11.2.
struct Windowed : Plain {
    static __device__ float windowed(float value, float level, float width) {
        return (value - (level - 0.5)) / (width - 1.0) + 0.5;
    }
};

void cast_window(const Scene& s) { launch_march<Windowed>(s, dim3(32, 8)); }
//: end

//: variant cast
void cast(const Scene& s) { launch_march<Plain>(s, dim3(32, 8)); }
//: end

//: variant cast_rows
void cast_rows(const Scene& s) { launch_march<Plain>(s, dim3(32, 1)); }
//: end

//: variant cast_parts
constexpr int kParts = 8;

// Each ray is cut into parts; compositing of parts is associative.
__global__ void march_parts(Scene s) {
    __shared__ float2 parts[kParts][32];
    const int column = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y;
    const int ray = threadIdx.x, part = threadIdx.y;
    float2 pixel{0, 0};
    if (column < s.columns) {
        int samples;
        const float3 entry = entry_of(s, column, row, samples);
        const int last = samples * (part + 1) / kParts;
        for (int i = samples * part / kParts; i < last && pixel.y < kOpaque; ++i) {
            composite<Plain>(s, along(entry, float(i), s.forward), pixel);
        }
    }
    parts[part][ray] = pixel;
    __syncthreads();
    if (part != 0 || column >= s.columns) return;
    for (int k = 1; k < kParts; ++k) {
        const float through = 1.0f - pixel.y;
        pixel.x += through * parts[k][ray].x;
        pixel.y += through * parts[k][ray].y;
    }
    s.image[row * s.columns + column] = pixel;
}

void cast_parts(const Scene& s) {
    march_parts<<<dim3((s.columns + 31) / 32, s.rows), dim3(32, kParts)>>>(s);
}
//: end

//: shared
template <class T>
struct Stack {
    int nx, ny, nz;
    const T* volume;
    T* image;  // largest value of each column along z
};

inline dim3 tiles(int across, int down) { return dim3((across + 31) / 32, (down + 7) / 8); }
//: end

//: variant project_down
template <class T>
__global__ void largest_down(Stack<T> s) {
    const int y = blockIdx.x * blockDim.x + threadIdx.x, x = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= s.nx || y >= s.ny) return;
    const T* v = s.volume + y * s.nx + x;
    T largest = v[0];
    for (int z = 1; z < s.nz; ++z) largest = max(largest, v[size_t(z) * s.nx * s.ny]);
    s.image[y * s.nx + x] = largest;
}

template <class T>
void project_down(const Stack<T>& s) {
    largest_down<<<tiles(s.ny, s.nx), dim3(32, 8)>>>(s);
}
//: end

//: variant project_across
template <class T>
__global__ void largest_across(Stack<T> s) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= s.nx || y >= s.ny) return;
    const T* v = s.volume + y * s.nx + x;
    T largest = v[0];
    for (int z = 1; z < s.nz; ++z) largest = max(largest, v[size_t(z) * s.nx * s.ny]);
    s.image[y * s.nx + x] = largest;
}

template <class T>
void project_across(const Stack<T>& s) {
    largest_across<<<tiles(s.nx, s.ny), dim3(32, 8)>>>(s);
}
//: end

//: shared
constexpr int kWhite = 4095;  // largest value of the scanner: nothing behind it shows

// The number of slices is a multiple of Slices.
template <int Slices, class T>
__global__ void largest_until_white(Stack<T> s) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= s.nx || y >= s.ny) return;
    const size_t slice = size_t(s.nx) * s.ny;
    const T* v = s.volume + y * s.nx + x;
    T largest = 0;
    for (int z = 0; z < s.nz && largest < kWhite; z += Slices, v += Slices * slice) {
        T values[Slices];
#pragma unroll
        for (int k = 0; k < Slices; ++k) values[k] = v[k * slice];
#pragma unroll
        for (int k = 0; k < Slices; ++k) largest = max(largest, values[k]);
    }
    s.image[y * s.nx + x] = largest;
}
//: end

//: variant until_white_4
template <class T>
void until_white_4(const Stack<T>& s) {
    largest_until_white<4><<<tiles(s.nx, s.ny), dim3(32, 8)>>>(s);
}
//: end

//: variant until_white_16
template <class T>
void until_white_16(const Stack<T>& s) {
    largest_until_white<16><<<tiles(s.nx, s.ny), dim3(32, 8)>>>(s);
}
//: end

__global__ void reference_image(Scene s, float2* expected) {
    const int pixel = blockIdx.x * blockDim.x + threadIdx.x;
    if (pixel >= s.columns * s.rows) return;
    const double across = pixel % s.columns + 0.5, down = pixel / s.columns + 0.5;
    const double n[3] = {double(s.nx), double(s.ny), double(s.nz)};
    const double f[3] = {s.forward.x, s.forward.y, s.forward.z};
    const double o[3] = {s.corner.x + across * s.right.x + down * s.down.x,
                         s.corner.y + across * s.right.y + down * s.down.y,
                         s.corner.z + across * s.right.z + down * s.down.z};
    double enter = 0, leave = 1e30;
    for (int k = 0; k < 3; ++k) {
        const double a = (0 - o[k]) / f[k], b = (n[k] - 1 - o[k]) / f[k];
        enter = fmax(enter, a < b ? a : b);
        leave = fmin(leave, a < b ? b : a);
    }
    double grey = 0, through = 1;
    for (double t = enter; t + 1 <= leave; t += 1) {
        long long cell[3];
        float part[3];
        for (int k = 0; k < 3; ++k) {
            const double inside = fmin(fmax(o[k] + t * f[k], 0.0), n[k] - 1.001);
            cell[k] = (long long)inside;
            part[k] = float(inside - double(cell[k]));
        }
        float value = 0;
        for (int c = 0; c < 8; ++c) {
            const int dx = c & 1, dy = c >> 1 & 1, dz = c >> 2;
            const float w = (dx ? part[0] : 1 - part[0]) * (dy ? part[1] : 1 - part[1]) *
                            (dz ? part[2] : 1 - part[2]);
            value += w * s.volume[((cell[2] + dz) * s.ny + cell[1] + dy) * s.nx + cell[0] + dx];
        }
        const float shown = fminf(fmaxf((value - s.level + 0.5f) / (s.width - 1) + 0.5f, 0.0f), 1.0f);
        const double weight = through * 0.05 * shown * shown;
        grey += weight * shown;
        through -= weight;
        if (through < 1e-5) break;
    }
    expected[pixel] = make_float2(float(grey), float(1 - through));
}

template <class T>
__global__ void reference_largest(Stack<T> s, T* expected) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x, plane = s.nx * s.ny;
    if (i >= plane) return;
    T best = s.volume[i];
    for (int z = s.nz - 1; z > 0; --z) {
        const T v = s.volume[size_t(z) * plane + i];
        if (v > best) best = v;
    }
    expected[i] = best;
}

// A body with noise and a grid of dense rods, in air.
Scene set_up_scene(book::Problem& p, int columns, int rows) {
    Scene s{384, 384, 256};
    const uint64_t seed = p.seed();
    const int nx = s.nx, ny = s.ny, nz = s.nz;
    const size_t count = size_t(nx) * ny * nz;
    s.volume = p.input<short>(count, [=] __device__(size_t i) {
        const int x = i % nx, y = i / nx % ny, z = i / nx / ny;
        const float u = 2.0f * x / nx - 1, v = 2.0f * y / ny - 1, w = 2.0f * z / nz - 1;
        if (u * u + v * v + w * w > 0.8f) return short(-1000);
        const bool dense = x / 24 % 4 == 1 && z / 24 % 4 == 2;
        return short((dense ? 300 : -60) + int(120 * book::uniform01(seed, 1, i)));
    });
    // Along z, turned by a few degrees about y and x.
    const float sa = 0.1f, ca = std::sqrt(1 - sa * sa), sb = 0.05f, cb = std::sqrt(1 - sb * sb);
    const float3 r{ca, 0, -sa}, d{-sa * sb, cb, -ca * sb}, f{sa * cb, sb, ca * cb};
    s.forward = f;
    const float step_x = 400.0f / columns, step_y = 320.0f / rows;
    s.right = make_float3(r.x * step_x, r.y * step_x, r.z * step_x);
    s.down = make_float3(d.x * step_y, d.y * step_y, d.z * step_y);
    const float3 centre{nx / 2.0f - 400 * f.x, ny / 2.0f - 400 * f.y, nz / 2.0f - 400 * f.z};
    s.corner = make_float3(centre.x - columns / 2.0f * s.right.x - rows / 2.0f * s.down.x,
                           centre.y - columns / 2.0f * s.right.y - rows / 2.0f * s.down.y,
                           centre.z - columns / 2.0f * s.right.z - rows / 2.0f * s.down.z);
    s.columns = columns;
    s.rows = rows;
    s.level = 40;
    s.width = 400;
    const size_t pixels = size_t(columns) * rows;
    s.image = p.output<float2>(pixels);
    // Samples per ray: about 250. A thin image does not touch every voxel, but four new ones per sample.
    p.needs({.dram_bytes = std::min(2.0 * count, 8.0 * 250 * pixels) + 8.0 * pixels,
             .fp32_flop = 250.0 * pixels * 36});
    p.check<float>(reinterpret_cast<float*>(s.image), 2 * pixels, {0, 4e-3}, [=](float* expected) {
        reference_image<<<unsigned((pixels + 127) / 128), 128>>>(s, reinterpret_cast<float2*>(expected));
    });
    return s;
}

template <class T>
Stack<T> set_up_stack(book::Problem& p, int slices) {
    Stack<T> s{512, 512, slices};
    const size_t plane = size_t(s.nx) * s.ny;
    s.volume = p.uniform<T>(plane * slices, 0, 4000);
    s.image = p.output<T>(plane);
    p.needs({.dram_bytes = double(sizeof(T)) * plane * (slices + 1)});
    p.check<T>(s.image, plane, {0}, [=](T* expected) {
        reference_largest<<<unsigned((plane + 255) / 256), 256>>>(s, expected);
    });
    return s;
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("ct", [](book::Problem& p) {
        const auto s = set_up_scene(p, 640, 512);
        p.variant("cast_blend", [=] { cast_blend(s); });
        p.variant("cast_window", [=] { cast_window(s); });
        p.variant("cast", [=] { cast(s); });
        p.variant("cast_rows", [=] { cast_rows(s); });
    });
    book.problem("preview", [](book::Problem& p) {
        const auto s = set_up_scene(p, 120, 96);
        p.variant("cast", [=] { cast(s); });
        p.variant("cast_parts", [=] { cast_parts(s); });
    });
    book.problem("projection_u16", [](book::Problem& p) {
        const auto s = set_up_stack<unsigned short>(p, 256);
        p.variant("project_down", [=] { project_down(s); });
        p.variant("project_across", [=] { project_across(s); });
        p.variant("until_white_4", [=] { until_white_4(s); });
        p.variant("until_white_16", [=] { until_white_16(s); });
    });
    book.problem("projection_f32", [](book::Problem& p) {
        const auto s = set_up_stack<float>(p, 128);
        p.variant("until_white_4", [=] { until_white_4(s); });
        p.variant("until_white_16", [=] { until_white_16(s); });
    });
    return book.finish();
}
