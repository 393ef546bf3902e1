// Undistortion of camera frames: each pixel of the result is interpolated between four pixels of
// the frame, at a place that a map holds or that is computed from the lens. Places have 8 fraction
// bits.
#include "../../harness/book.h"

//: shared
struct Lens {
    float focal_x, focal_y, centre_x, centre_y;
    float scale_x, scale_y;  // one over the focal lengths of the result
    float k1, k2, p1, p2;
};

template <class Pixel>
struct Frames {
    int columns, rows, count;
    const Pixel* in;
    const float2* map;  // per pixel of a frame: its place in the distorted frame
    Pixel* out;
    Lens lens;
};

// Offsets of the four pixels around a place, and weights of the right and lower ones in 1/256.
struct Taps {
    int upper_left, upper_right, lower_left, lower_right;
    int wx, wy;
};

__device__ inline Taps taps_at(float2 place, int columns, int rows) {
    const int u = __float2int_rn(place.x * 256.0f), v = __float2int_rn(place.y * 256.0f);
    const int left = min(max(u >> 8, 0), columns - 1);
    const int right = min(max((u >> 8) + 1, 0), columns - 1);
    const int upper = min(max(v >> 8, 0), rows - 1) * columns;
    const int lower = min(max((v >> 8) + 1, 0), rows - 1) * columns;
    return {upper + left, upper + right, lower + left, lower + right, u & 255, v & 255};
}

__device__ inline int mixed(int ul, int ur, int ll, int lr, int wx, int wy) {
    const int upper = ul * (256 - wx) + ur * wx, lower = ll * (256 - wx) + lr * wx;
    return (upper * (256 - wy) + lower * wy + 32768) >> 16;
}

__device__ inline float mixed(float ul, float ur, float ll, float lr, float wx, float wy) {
    const float upper = ul + wx * (ur - ul), lower = ll + wx * (lr - ll);
    return upper + wy * (lower - upper);
}

__device__ inline unsigned char sample(const unsigned char* frame, const Taps& t) {
    return mixed(frame[t.upper_left], frame[t.upper_right], frame[t.lower_left],
                 frame[t.lower_right], t.wx, t.wy);
}

__device__ inline float sample(const float* frame, const Taps& t) {
    return mixed(frame[t.upper_left], frame[t.upper_right], frame[t.lower_left],
                 frame[t.lower_right], t.wx * (1 / 256.0f), t.wy * (1 / 256.0f));
}

__device__ inline float4 sample(const float4* frame, const Taps& t) {
    const float4 ul = frame[t.upper_left], ur = frame[t.upper_right];
    const float4 ll = frame[t.lower_left], lr = frame[t.lower_right];
    const float wx = t.wx * (1 / 256.0f), wy = t.wy * (1 / 256.0f);
    return {mixed(ul.x, ur.x, ll.x, lr.x, wx, wy), mixed(ul.y, ur.y, ll.y, lr.y, wx, wy),
            mixed(ul.z, ur.z, ll.z, lr.z, wx, wy), mixed(ul.w, ur.w, ll.w, lr.w, wx, wy)};
}

constexpr int kThreads = 128;

inline dim3 pieces(int columns, int rows, int count) {
    return dim3((columns + kThreads - 1) / kThreads, rows, count);
}
//: end

//: variant flat
template <class Pixel>
__global__ void remap_flat(const Pixel* __restrict__ in, const float2* __restrict__ map,
                           Pixel* __restrict__ out, unsigned columns, unsigned rows,
                           unsigned total) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total) return;
    const unsigned row = i / columns, x = i % columns;
    const unsigned frame = row / rows, y = row % rows;
    const Taps t = taps_at(map[y * columns + x], columns, rows);
    out[i] = sample(in + size_t(frame) * columns * rows, t);
}

template <class Pixel>
void flat(const Frames<Pixel>& f) {
    const unsigned total = unsigned(f.columns) * f.rows * f.count;
    remap_flat<<<(total + kThreads - 1) / kThreads, kThreads>>>(f.in, f.map, f.out, f.columns,
                                                                f.rows, total);
}
//: end

//: variant grid
template <class Pixel>
__global__ void remap_grid(const Pixel* __restrict__ in, const float2* __restrict__ map,
                           Pixel* __restrict__ out, int columns, int rows) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    if (x >= columns) return;
    const size_t frame = size_t(blockIdx.z) * columns * rows;
    const Taps t = taps_at(map[y * columns + x], columns, rows);
    out[frame + y * columns + x] = sample(in + frame, t);
}

template <class Pixel>
void grid(const Frames<Pixel>& f) {
    remap_grid<<<pieces(f.columns, f.rows, f.count), kThreads>>>(f.in, f.map, f.out, f.columns,
                                                                   f.rows);
}
//: end

//: variant stack
template <class Pixel>
__global__ void remap_stack(const Pixel* __restrict__ in, const float2* __restrict__ map,
                            Pixel* __restrict__ out, int columns, int rows, int count) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    if (x >= columns) return;
    const size_t pixels = size_t(columns) * rows;
    const Taps t = taps_at(map[y * columns + x], columns, rows);
    out += y * columns + x;
    for (int k = 0; k < count; ++k, in += pixels, out += pixels) *out = sample(in, t);
}

template <class Pixel>
void stack(const Frames<Pixel>& f) {
    remap_stack<<<pieces(f.columns, f.rows, 1), kThreads>>>(f.in, f.map, f.out, f.columns, f.rows,
                                                              f.count);
}
//: end

//: variant lens
__device__ inline float2 place_of(int column, int row, const Lens& lens) {
    const float x = (column - lens.centre_x) * lens.scale_x;
    const float y = (row - lens.centre_y) * lens.scale_y;
    const float r2 = x * x + y * y;
    const float radial = 1.0 + lens.k1 * r2 + lens.k2 * r2 * r2;
    const float dx = 2.0 * lens.p1 * x * y + lens.p2 * (r2 + 2.0 * x * x);
    const float dy = lens.p1 * (r2 + 2.0 * y * y) + 2.0 * lens.p2 * x * y;
    return {lens.focal_x * (x * radial + dx) + lens.centre_x,
            lens.focal_y * (y * radial + dy) + lens.centre_y};
}

__global__ void undistort(const unsigned char* __restrict__ in, unsigned char* __restrict__ out,
                          int columns, int rows, Lens lens) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    if (x >= columns) return;
    const size_t frame = size_t(blockIdx.z) * columns * rows;
    const Taps t = taps_at(place_of(x, y, lens), columns, rows);
    out[frame + y * columns + x] = sample(in + frame, t);
}

void lens(const Frames<unsigned char>& f) {
    undistort<<<pieces(f.columns, f.rows, f.count), kThreads>>>(f.in, f.out, f.columns, f.rows,
                                                                  f.lens);
}
//: end

//: variant lens_f
__device__ inline float2 place_of_f(int column, int row, const Lens& lens) {
    const float x = (column - lens.centre_x) * lens.scale_x;
    const float y = (row - lens.centre_y) * lens.scale_y;
    const float r2 = x * x + y * y;
    const float radial = 1.0f + lens.k1 * r2 + lens.k2 * r2 * r2;
    const float dx = 2.0f * lens.p1 * x * y + lens.p2 * (r2 + 2.0f * x * x);
    const float dy = lens.p1 * (r2 + 2.0f * y * y) + 2.0f * lens.p2 * x * y;
    return {lens.focal_x * (x * radial + dx) + lens.centre_x,
            lens.focal_y * (y * radial + dy) + lens.centre_y};
}

__global__ void undistort_f(const unsigned char* __restrict__ in, unsigned char* __restrict__ out,
                            int columns, int rows, Lens lens) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    if (x >= columns) return;
    const size_t frame = size_t(blockIdx.z) * columns * rows;
    const Taps t = taps_at(place_of_f(x, y, lens), columns, rows);
    out[frame + y * columns + x] = sample(in + frame, t);
}

void lens_f(const Frames<unsigned char>& f) {
    undistort_f<<<pieces(f.columns, f.rows, f.count), kThreads>>>(f.in, f.out, f.columns, f.rows,
                                                                    f.lens);
}
//: end

//: variant channels
__global__ void remap_channels(const unsigned char* __restrict__ in, const float2* __restrict__ map,
                               unsigned char* __restrict__ out, int columns, int rows) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    if (x >= columns) return;
    const size_t frame = 4 * size_t(blockIdx.z) * columns * rows;
    const Taps t = taps_at(map[y * columns + x], columns, rows);
    const unsigned char* from = in + frame;
    unsigned char* to = out + frame + 4 * (y * columns + x);
#pragma unroll
    for (int c = 0; c < 4; ++c) {
        to[c] = mixed(from[4 * t.upper_left + c], from[4 * t.upper_right + c],
                      from[4 * t.lower_left + c], from[4 * t.lower_right + c], t.wx, t.wy);
    }
}

void channels(const Frames<uchar4>& f) {
    remap_channels<<<pieces(f.columns, f.rows, f.count), kThreads>>>(
        reinterpret_cast<const unsigned char*>(f.in), f.map,
        reinterpret_cast<unsigned char*>(f.out), f.columns, f.rows);
}
//: end

//: variant packed
__global__ void remap_packed(const uchar4* __restrict__ in, const float2* __restrict__ map,
                             uchar4* __restrict__ out, int columns, int rows) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    if (x >= columns) return;
    const size_t frame = size_t(blockIdx.z) * columns * rows;
    const Taps t = taps_at(map[y * columns + x], columns, rows);
    const uchar4* from = in + frame;
    const uchar4 ul = from[t.upper_left], ur = from[t.upper_right];
    const uchar4 ll = from[t.lower_left], lr = from[t.lower_right];
    uchar4 result;
    result.x = mixed(ul.x, ur.x, ll.x, lr.x, t.wx, t.wy);
    result.y = mixed(ul.y, ur.y, ll.y, lr.y, t.wx, t.wy);
    result.z = mixed(ul.z, ur.z, ll.z, lr.z, t.wx, t.wy);
    result.w = mixed(ul.w, ur.w, ll.w, lr.w, t.wx, t.wy);
    out[frame + y * columns + x] = result;
}

void packed(const Frames<uchar4>& f) {
    remap_packed<<<pieces(f.columns, f.rows, f.count), kThreads>>>(f.in, f.map, f.out, f.columns,
                                                                     f.rows);
}
//: end

// --- references: one value (a channel of a pixel) after the other, in double

__host__ __device__ inline double2 reference_place(int column, int row, Lens lens) {
    const double x = (column - double(lens.centre_x)) * lens.scale_x;
    const double y = (row - double(lens.centre_y)) * lens.scale_y;
    const double r2 = x * x + y * y, radial = 1 + lens.k1 * r2 + double(lens.k2) * r2 * r2;
    const double dx = 2.0 * lens.p1 * x * y + lens.p2 * (r2 + 2 * x * x);
    const double dy = lens.p1 * (r2 + 2 * y * y) + 2.0 * lens.p2 * x * y;
    return {lens.focal_x * (x * radial + dx) + lens.centre_x,
            lens.focal_y * (y * radial + dy) + lens.centre_y};
}

// Whole: results are rounded to the nearest whole number, halves up.
template <class Value>
__global__ void reference_remap(const Value* in, const float2* map, Lens lens, int columns,
                                int rows, int count, int channels, bool whole, Value* expected) {
    const size_t pixels = size_t(columns) * rows, total = pixels * count * channels;
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < total;
         i += size_t{gridDim.x} * blockDim.x) {
        const size_t channel = i % channels, pixel = i / channels % pixels;
        const Value* frame = in + i / (channels * pixels) * channels * pixels;
        const int x = int(pixel % columns), y = int(pixel / columns);
        const double2 place =
            map ? double2{map[pixel].x, map[pixel].y} : reference_place(x, y, lens);
        const double u = rint(256 * place.x) / 256, v = rint(256 * place.y) / 256;
        double sum = 0;
        for (int j = 0; j < 2; ++j) {
            for (int k = 0; k < 2; ++k) {
                const double at_x = floor(u) + k, at_y = floor(v) + j;
                const double weight = (1 - fabs(u - at_x)) * (1 - fabs(v - at_y));
                const size_t from_x = size_t(fmin(fmax(at_x, 0.0), columns - 1.0));
                const size_t from_y = size_t(fmin(fmax(at_y, 0.0), rows - 1.0));
                sum += weight * double(frame[(from_y * columns + from_x) * channels + channel]);
            }
        }
        expected[i] = Value(whole ? floor(sum + 0.5) : sum);
    }
}

template <class Pixel, class Value>
Frames<Pixel> set_up(book::Problem& p, int columns, int rows, int count, bool with_map) {
    Frames<Pixel> f{.columns = columns, .rows = rows, .count = count};
    const int channels = sizeof(Pixel) / sizeof(Value);
    const bool whole = sizeof(Value) == 1;
    const size_t pixels = size_t(columns) * rows, values = pixels * count * channels;
    const float focal = 0.8f * columns;
    f.lens = {focal,           focal * 1.002f,          columns * 0.5f + 3, rows * 0.5f - 5,
              1.055f / focal, 1.055f / (focal * 1.002f), -0.11f,             0.018f,
              0.0007f,         -0.0004f};
    const Lens lens = f.lens;
    Value* in = const_cast<Value*>(p.uniform<Value>(values, 0, whole ? 255.99 : 1));
    f.in = reinterpret_cast<const Pixel*>(in);
    if (with_map) {
        f.map = p.input<float2>(pixels, [=] __device__(size_t i) {
            const double2 place = reference_place(int(i % columns), int(i / columns), lens);
            return float2{float(place.x), float(place.y)};
        });
    }
    Value* out = p.output<Value>(values);
    f.out = reinterpret_cast<Pixel*>(out);
    p.needs({.dram_bytes = 2.0 * sizeof(Value) * values + (with_map ? 8.0 * pixels : 0),
             .fp32_flop = (whole ? 0 : 9.0 * values) + (with_map ? 0 : 20.0 * pixels),
             .int_op = whole ? 6.0 * values : 0});
    const book::Tolerance exact{0, 0}, rounded{0, 2.01}, close{1e-5, 1e-6};
    p.check<Value>(out, values, !whole ? close : with_map ? exact : rounded, [=](Value* expected) {
        reference_remap<Value><<<1056, 256>>>(in, f.map, f.lens, columns, rows, count, channels,
                                              whole, expected);
    });
    return f;
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("gray_u8", [](book::Problem& p) {
        const auto f = set_up<unsigned char, unsigned char>(p, 1920, 1080, 16, true);
        p.variant("flat", [=] { flat(f); });
        p.variant("grid", [=] { grid(f); });
        p.variant("stack", [=] { stack(f); });
    });
    book.problem("raw_f32", [](book::Problem& p) {
        const auto f = set_up<float, float>(p, 2560, 1920, 3, true);
        p.variant("grid", [=] { grid(f); });
        p.variant("stack", [=] { stack(f); });
    });
    book.problem("rgba_f32", [](book::Problem& p) {
        const auto f = set_up<float4, float>(p, 2560, 1440, 1, true);
        p.variant("flat", [=] { flat(f); });
        p.variant("grid", [=] { grid(f); });
    });
    book.problem("lens_u8", [](book::Problem& p) {
        const auto f = set_up<unsigned char, unsigned char>(p, 1920, 1080, 16, false);
        p.variant("lens", [=] { lens(f); });
        p.variant("lens_f", [=] { lens_f(f); });
    });
    book.problem("rgba_u8", [](book::Problem& p) {
        const auto f = set_up<uchar4, unsigned char>(p, 2560, 1440, 4, true);
        p.variant("channels", [=] { channels(f); });
        p.variant("packed", [=] { packed(f); });
    });
    return book.finish();
}
