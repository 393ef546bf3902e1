// Video frames in NV12 (a plane of luma, then a half-size plane of interleaved chroma) to RGB:
// BT.601 in fixed point, optional tone curve, optional reduction by two in both directions.
#include "../../harness/book.h"

using Byte = unsigned char;

struct Frames {
    int width, height, count;
    const Byte* nv12;
    const Byte* curve;  // 256 levels of the tone curve
    uint32_t* scratch;  // full-size RGBA where a variant wants it
    uint32_t* out;
};

//: shared
constexpr int kAcross = 96, kDown = 2;

struct Chroma {
    int r, g, b;
};

__device__ inline Chroma chroma(int u, int v) {
    u -= 128, v -= 128;
    return {409 * v + 128, -100 * u - 208 * v + 128, 516 * u + 128};
}

__device__ inline uint32_t level(int value) { return min(max(value >> 8, 0), 255); }

__device__ inline uint32_t pack(uint32_t r, uint32_t g, uint32_t b) {
    return r | g << 8 | b << 16 | 0xFF000000u;
}

__device__ inline uint32_t rgba(int y, const Chroma& c) {
    const int l = 298 * (y - 16);
    return pack(level(l + c.r), level(l + c.g), level(l + c.b));
}

__device__ inline const Byte* luma_row(const Byte* nv12, int width, int height, int frame, int y) {
    return nv12 + size_t(frame) * width * height * 3 / 2 + size_t(y) * width;
}

__device__ inline const Byte* chroma_row(const Byte* nv12, int width, int height, int frame, int y) {
    return luma_row(nv12, width, height, frame, height) + size_t(y / 2) * width;
}

inline dim3 block() { return dim3(kAcross, kDown); }

inline dim3 grid(const Frames& f, int wide, int high) {
    return dim3(f.width / (kAcross * wide), f.height / (kDown * high), f.count);
}

// Four pixels of a row per thread.
__global__ void nv12_to_rgba(const Byte* nv12, uint32_t* out, int width, int height) {
    const int x = (blockIdx.x * kAcross + threadIdx.x) * 4;
    const int y = blockIdx.y * kDown + threadIdx.y;
    const uchar4 l = *reinterpret_cast<const uchar4*>(luma_row(nv12, width, height, blockIdx.z, y) + x);
    const uchar4 uv = *reinterpret_cast<const uchar4*>(chroma_row(nv12, width, height, blockIdx.z, y) + x);
    const Chroma a = chroma(uv.x, uv.y), b = chroma(uv.z, uv.w);
    const uint4 four = make_uint4(rgba(l.x, a), rgba(l.y, a), rgba(l.z, b), rgba(l.w, b));
    *reinterpret_cast<uint4*>(out + (size_t(blockIdx.z) * height + y) * width + x) = four;
}
//: end

//: variant pixels
__global__ void nv12_pixel(const Byte* nv12, uint32_t* out, int width, int height) {
    const int x = blockIdx.x * kAcross + threadIdx.x;
    const int y = blockIdx.y * kDown + threadIdx.y;
    const Byte* uv = chroma_row(nv12, width, height, blockIdx.z, y) + (x & ~1);
    const Byte l = luma_row(nv12, width, height, blockIdx.z, y)[x];
    out[(size_t(blockIdx.z) * height + y) * width + x] = rgba(l, chroma(uv[0], uv[1]));
}

void pixels(const Frames& f) {
    nv12_pixel<<<grid(f, 1, 1), block()>>>(f.nv12, f.out, f.width, f.height);
}
//: end

//: variant quads
void quads(const Frames& f) {
    nv12_to_rgba<<<grid(f, 4, 1), block()>>>(f.nv12, f.out, f.width, f.height);
}
//: end

//: variant row_pairs
__global__ void nv12_row_pairs(const Byte* nv12, uint32_t* out, int width, int height) {
    const int x = (blockIdx.x * kAcross + threadIdx.x) * 4;
    const int y = (blockIdx.y * kDown + threadIdx.y) * 2;
    const uchar4 uv = *reinterpret_cast<const uchar4*>(chroma_row(nv12, width, height, blockIdx.z, y) + x);
    const Chroma a = chroma(uv.x, uv.y), b = chroma(uv.z, uv.w);
    for (int row = y; row < y + 2; ++row) {
        const uchar4 l = *reinterpret_cast<const uchar4*>(luma_row(nv12, width, height, blockIdx.z, row) + x);
        const uint4 four = make_uint4(rgba(l.x, a), rgba(l.y, a), rgba(l.z, b), rgba(l.w, b));
        *reinterpret_cast<uint4*>(out + (size_t(blockIdx.z) * height + row) * width + x) = four;
    }
}

void row_pairs(const Frames& f) {
    nv12_row_pairs<<<grid(f, 4, 2), block()>>>(f.nv12, f.out, f.width, f.height);
}
//: end

//: variant matrix
__device__ inline uint32_t matrix_rgba(int y, int u, int v) {
    const auto l = 1.164 * (y - 16) + 0.5;
    const int r = int(l + 1.598 * (v - 128));
    const int g = int(l - 0.391 * (u - 128) - 0.8125 * (v - 128));
    const int b = int(l + 2.016 * (u - 128));
    return pack(min(max(r, 0), 255), min(max(g, 0), 255), min(max(b, 0), 255));
}

__global__ void nv12_matrix(const Byte* nv12, uint32_t* out, int width, int height) {
    const int x = (blockIdx.x * kAcross + threadIdx.x) * 4;
    const int y = blockIdx.y * kDown + threadIdx.y;
    const uchar4 l = *reinterpret_cast<const uchar4*>(luma_row(nv12, width, height, blockIdx.z, y) + x);
    const uchar4 c = *reinterpret_cast<const uchar4*>(chroma_row(nv12, width, height, blockIdx.z, y) + x);
    const uint4 four = make_uint4(matrix_rgba(l.x, c.x, c.y), matrix_rgba(l.y, c.x, c.y),
                                  matrix_rgba(l.z, c.z, c.w), matrix_rgba(l.w, c.z, c.w));
    *reinterpret_cast<uint4*>(out + (size_t(blockIdx.z) * height + y) * width + x) = four;
}

void matrix(const Frames& f) {
    nv12_matrix<<<grid(f, 4, 1), block()>>>(f.nv12, f.out, f.width, f.height);
}
//: end

//: variant matrix_f
__device__ inline uint32_t matrix_f_rgba(int y, int u, int v) {
    const auto l = 1.164f * (y - 16) + 0.5f;
    const int r = int(l + 1.598f * (v - 128));
    const int g = int(l - 0.391f * (u - 128) - 0.8125f * (v - 128));
    const int b = int(l + 2.016f * (u - 128));
    return pack(min(max(r, 0), 255), min(max(g, 0), 255), min(max(b, 0), 255));
}

__global__ void nv12_matrix_f(const Byte* nv12, uint32_t* out, int width, int height) {
    const int x = (blockIdx.x * kAcross + threadIdx.x) * 4;
    const int y = blockIdx.y * kDown + threadIdx.y;
    const uchar4 l = *reinterpret_cast<const uchar4*>(luma_row(nv12, width, height, blockIdx.z, y) + x);
    const uchar4 c = *reinterpret_cast<const uchar4*>(chroma_row(nv12, width, height, blockIdx.z, y) + x);
    const uint4 four = make_uint4(matrix_f_rgba(l.x, c.x, c.y), matrix_f_rgba(l.y, c.x, c.y),
                                  matrix_f_rgba(l.z, c.z, c.w), matrix_f_rgba(l.w, c.z, c.w));
    *reinterpret_cast<uint4*>(out + (size_t(blockIdx.z) * height + y) * width + x) = four;
}

void matrix_f(const Frames& f) {
    nv12_matrix_f<<<grid(f, 4, 1), block()>>>(f.nv12, f.out, f.width, f.height);
}
//: end

//: shared
constexpr int kBand = 8;  // rows per thread where a tone curve is applied
//: end

//: variant curve_formula
__device__ inline uint32_t toned(uint32_t value) {
    return uint32_t(255.0f * __powf(value * (1.0f / 255.0f), 1.0f / 2.2f) + 0.5f);
}

__device__ inline uint32_t toned_rgba(int y, const Chroma& c) {
    const int l = 298 * (y - 16);
    return pack(toned(level(l + c.r)), toned(level(l + c.g)), toned(level(l + c.b)));
}

__global__ void nv12_toned(const Byte* nv12, uint32_t* out, int width, int height) {
    const int x = (blockIdx.x * kAcross + threadIdx.x) * 4;
    for (int k = 0; k < kBand; ++k) {
        const int y = (blockIdx.y * kBand + k) * kDown + threadIdx.y;
        const uchar4 l = *reinterpret_cast<const uchar4*>(luma_row(nv12, width, height, blockIdx.z, y) + x);
        const uchar4 uv = *reinterpret_cast<const uchar4*>(chroma_row(nv12, width, height, blockIdx.z, y) + x);
        const Chroma a = chroma(uv.x, uv.y), b = chroma(uv.z, uv.w);
        const uint4 four = make_uint4(toned_rgba(l.x, a), toned_rgba(l.y, a), toned_rgba(l.z, b), toned_rgba(l.w, b));
        *reinterpret_cast<uint4*>(out + (size_t(blockIdx.z) * height + y) * width + x) = four;
    }
}

void curve_formula(const Frames& f) {
    nv12_toned<<<grid(f, 4, kBand), block()>>>(f.nv12, f.out, f.width, f.height);
}
//: end

//: variant curve_levels
__device__ inline uint32_t looked_up(int y, const Chroma& c, const Byte* levels) {
    const int l = 298 * (y - 16);
    return pack(levels[level(l + c.r)], levels[level(l + c.g)], levels[level(l + c.b)]);
}

__global__ void nv12_curve(const Byte* nv12, const Byte* curve, uint32_t* out, int width, int height) {
    __shared__ Byte levels[256];
    for (int i = threadIdx.y * kAcross + threadIdx.x; i < 256; i += kAcross * kDown) levels[i] = curve[i];
    __syncthreads();
    const int x = (blockIdx.x * kAcross + threadIdx.x) * 4;
    for (int k = 0; k < kBand; ++k) {
        const int y = (blockIdx.y * kBand + k) * kDown + threadIdx.y;
        const uchar4 l = *reinterpret_cast<const uchar4*>(luma_row(nv12, width, height, blockIdx.z, y) + x);
        const uchar4 uv = *reinterpret_cast<const uchar4*>(chroma_row(nv12, width, height, blockIdx.z, y) + x);
        const Chroma a = chroma(uv.x, uv.y), b = chroma(uv.z, uv.w);
        const uint4 four = make_uint4(looked_up(l.x, a, levels), looked_up(l.y, a, levels),
                                      looked_up(l.z, b, levels), looked_up(l.w, b, levels));
        *reinterpret_cast<uint4*>(out + (size_t(blockIdx.z) * height + y) * width + x) = four;
    }
}

void curve_levels(const Frames& f) {
    nv12_curve<<<grid(f, 4, kBand), block()>>>(f.nv12, f.curve, f.out, f.width, f.height);
}
//: end

//: shared
// The low three bytes of four packed pixels as three words.
__device__ inline uint3 without_alpha(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    return make_uint3(__byte_perm(a, b, 0x4210), __byte_perm(b, c, 0x5421), __byte_perm(c, d, 0x6542));
}
//: end

//: variant packed
__global__ void nv12_to_rgb24(const Byte* nv12, uint32_t* out, int width, int height) {
    const int quad = blockIdx.x * kAcross + threadIdx.x;
    const int y = blockIdx.y * kDown + threadIdx.y;
    const uchar4 l = reinterpret_cast<const uchar4*>(luma_row(nv12, width, height, blockIdx.z, y))[quad];
    const uchar4 uv = reinterpret_cast<const uchar4*>(chroma_row(nv12, width, height, blockIdx.z, y))[quad];
    const Chroma a = chroma(uv.x, uv.y), b = chroma(uv.z, uv.w);
    const uint3 rgb = without_alpha(rgba(l.x, a), rgba(l.y, a), rgba(l.z, b), rgba(l.w, b));
    uint32_t* row = out + (size_t(blockIdx.z) * height + y) * (width / 4 * 3);
    row[3 * quad] = rgb.x;
    row[3 * quad + 1] = rgb.y;
    row[3 * quad + 2] = rgb.z;
}

void packed(const Frames& f) {
    nv12_to_rgb24<<<grid(f, 4, 1), block()>>>(f.nv12, f.out, f.width, f.height);
}
//: end

//: variant packed_tile
__global__ void nv12_to_rgb24_tile(const Byte* nv12, uint32_t* out, int width, int height) {
    __shared__ uint32_t tile[kDown][3 * kAcross];
    const int quad = blockIdx.x * kAcross + threadIdx.x;
    const int y = blockIdx.y * kDown + threadIdx.y;
    const uchar4 l = reinterpret_cast<const uchar4*>(luma_row(nv12, width, height, blockIdx.z, y))[quad];
    const uchar4 uv = reinterpret_cast<const uchar4*>(chroma_row(nv12, width, height, blockIdx.z, y))[quad];
    const Chroma a = chroma(uv.x, uv.y), b = chroma(uv.z, uv.w);
    const uint3 rgb = without_alpha(rgba(l.x, a), rgba(l.y, a), rgba(l.z, b), rgba(l.w, b));
    uint32_t* own = tile[threadIdx.y] + 3 * (threadIdx.x & ~31);  // of this warp
    const int lane = threadIdx.x % 32;
    own[3 * lane] = rgb.x;
    own[3 * lane + 1] = rgb.y;
    own[3 * lane + 2] = rgb.z;
    __syncwarp();
    uint32_t* row = out + (size_t(blockIdx.z) * height + y) * (width / 4 * 3) + 3 * (quad - lane);
    for (int k = 0; k < 3; ++k) row[32 * k + lane] = own[32 * k + lane];
}

void packed_tile(const Frames& f) {
    nv12_to_rgb24_tile<<<grid(f, 4, 1), block()>>>(f.nv12, f.out, f.width, f.height);
}
//: end

//: shared
__device__ inline uint32_t mean4(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    const uint32_t even = (a & 0xFF00FF) + (b & 0xFF00FF) + (c & 0xFF00FF) + (d & 0xFF00FF) + 0x020002;
    const uint32_t odd = (a >> 8 & 0xFF00FF) + (b >> 8 & 0xFF00FF) + (c >> 8 & 0xFF00FF) + (d >> 8 & 0xFF00FF) + 0x020002;
    return (even >> 2 & 0xFF00FF) | (odd >> 2 & 0xFF00FF) << 8;
}
//: end

//: variant convert_then_halve
__global__ void halve(const uint32_t* in, uint32_t* out, int width, int height) {
    const int x = (blockIdx.x * kAcross + threadIdx.x) * 4;
    const int y = (blockIdx.y * kDown + threadIdx.y) * 2;
    const uint32_t* row = in + (size_t(blockIdx.z) * height + y) * width + x;
    const uint4 a = *reinterpret_cast<const uint4*>(row);
    const uint4 b = *reinterpret_cast<const uint4*>(row + width);
    const uint2 two = make_uint2(mean4(a.x, a.y, b.x, b.y), mean4(a.z, a.w, b.z, b.w));
    *reinterpret_cast<uint2*>(out + (size_t(blockIdx.z) * height / 2 + y / 2) * (width / 2) + x / 2) = two;
}

void convert_then_halve(const Frames& f) {
    nv12_to_rgba<<<grid(f, 4, 1), block()>>>(f.nv12, f.scratch, f.width, f.height);
    halve<<<grid(f, 4, 2), block()>>>(f.scratch, f.out, f.width, f.height);
}
//: end

//: variant convert_and_halve
__global__ void nv12_halved(const Byte* nv12, uint32_t* out, int width, int height) {
    const int x = (blockIdx.x * kAcross + threadIdx.x) * 4;
    const int y = (blockIdx.y * kDown + threadIdx.y) * 2;
    const Byte* row = luma_row(nv12, width, height, blockIdx.z, y) + x;
    const uchar4 l = *reinterpret_cast<const uchar4*>(row);
    const uchar4 m = *reinterpret_cast<const uchar4*>(row + width);
    const uchar4 uv = *reinterpret_cast<const uchar4*>(chroma_row(nv12, width, height, blockIdx.z, y) + x);
    const Chroma a = chroma(uv.x, uv.y), b = chroma(uv.z, uv.w);
    const uint2 two = make_uint2(mean4(rgba(l.x, a), rgba(l.y, a), rgba(m.x, a), rgba(m.y, a)),
                                 mean4(rgba(l.z, b), rgba(l.w, b), rgba(m.z, b), rgba(m.w, b)));
    *reinterpret_cast<uint2*>(out + (size_t(blockIdx.z) * height / 2 + y / 2) * (width / 2) + x / 2) = two;
}

void convert_and_halve(const Frames& f) {
    nv12_halved<<<grid(f, 4, 2), block()>>>(f.nv12, f.out, f.width, f.height);
}
//: end

//: variant frame_by_frame
void frame_by_frame(const Frames& f, const book::Problem* problem) {
    const size_t pixels = size_t(f.width) * f.height;
    Frames one = f;
    one.count = 1;
    for (int i = 0; i < f.count; ++i) {
        nv12_to_rgba<<<grid(one, 4, 1), block()>>>(f.nv12 + i * (pixels * 3 / 2), f.out + i * pixels,
                                                   f.width, f.height);
        problem->launched(i);
    }
}
//: end

//: variant all_frames
void all_frames(const Frames& f) {
    nv12_to_rgba<<<grid(f, 4, 1), block()>>>(f.nv12, f.out, f.width, f.height);
}
//: end

enum class Result { rgba, toned, rgb24, halved };

__device__ int reference_channel(const Byte* frame, int width, int height, int x, int y, int channel) {
    const int l = frame[size_t(y) * width + x];
    const Byte* pair = frame + size_t(height) * width + size_t(y / 2) * width + x / 2 * 2;
    const int u = pair[0] - 128, v = pair[1] - 128;
    const double base = 298.0 * (l - 16);
    const double value = channel == 0   ? base + 409 * v
                         : channel == 1 ? base - 100 * u - 208 * v
                                        : base + 516 * u;
    return int(fmin(fmax(floor((value + 128) / 256), 0.0), 255.0));
}

__global__ void reference_frames(const Byte* nv12, Byte* expected, int width, int height, int count, Result kind) {
    const int channels = kind == Result::rgb24 ? 3 : 4, step = kind == Result::halved ? 2 : 1;
    const size_t wide = width / step, high = height / step, total = wide * high * count * channels;
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < total; i += size_t{gridDim.x} * blockDim.x) {
        const int channel = i % channels, x = i / channels % wide, y = i / channels / wide % high;
        const Byte* frame = nv12 + i / channels / wide / high * (size_t(width) * height * 3 / 2);
        int value = 255;
        if (channel < 3 && kind == Result::halved) {
            value = 2;
            for (int k = 0; k < 4; ++k) {
                value += reference_channel(frame, width, height, 2 * x + k % 2, 2 * y + k / 2, channel);
            }
            value /= 4;
        } else if (channel < 3) {
            value = reference_channel(frame, width, height, x, y, channel);
            if (kind == Result::toned) value = int(255 * pow(value / 255.0, 1 / 2.2) + 0.5);
        }
        expected[i] = Byte(value);
    }
}

Frames set_up(book::Problem& p, int width, int height, int count, Result kind, double allowed) {
    Frames f{width, height, count};
    const uint64_t seed = p.seed();
    const size_t pixels = size_t(width) * height, frame = pixels * 3 / 2;
    f.nv12 = p.input<Byte>(frame * count, [=] __device__(size_t i) {
        const int at = int(i % frame), x = at % width, y = at / width;
        const int noise = int(12 * book::uniform01(seed, 7, i));
        if (y < height) {  // luma: slopes that go up and down
            const int slope = (x / 4 + y / 3 + int(i / frame) * 31) % 416;
            return Byte(14 + (slope < 208 ? slope : 416 - slope) + noise);
        }
        const int slope = (x / 8 + y / 2 + (x & 1) * 50) % 160;
        return Byte(70 + (slope < 80 ? slope : 160 - slope) + noise);
    });
    std::vector<Byte> curve(256);
    for (int i = 0; i < 256; ++i) curve[i] = Byte(int(255 * std::pow(i / 255.0, 1 / 2.2) + 0.5));
    f.curve = p.upload(curve);
    const size_t results = kind == Result::halved ? pixels : kind == Result::rgb24 ? 3 * pixels : 4 * pixels;
    if (kind == Result::halved) f.scratch = p.output<uint32_t>(pixels * count);
    f.out = p.output<uint32_t>(results * count / 4);
    p.needs({.dram_bytes = double(frame + results) * count});
    p.check<Byte>(reinterpret_cast<const Byte*>(f.out), results * count, {0, allowed}, [=](Byte* expected) {
        reference_frames<<<1056, 256>>>(f.nv12, expected, width, height, count, kind);
    });
    return f;
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("uhd", [](book::Problem& p) {
        const auto f = set_up(p, 3840, 2160, 3, Result::rgba, 1);
        p.variant("pixels", [=] { pixels(f); });
        p.variant("quads", [=] { quads(f); });
        p.variant("row_pairs", [=] { row_pairs(f); });
        p.variant("matrix", [=] { matrix(f); });
        p.variant("matrix_f", [=] { matrix_f(f); });
    });
    book.problem("toned", [](book::Problem& p) {
        const auto f = set_up(p, 3840, 2160, 3, Result::toned, 1);
        p.variant("curve_formula", [=] { curve_formula(f); });
        p.variant("curve_levels", [=] { curve_levels(f); });
    });
    book.problem("rgb24", [](book::Problem& p) {
        const auto f = set_up(p, 3840, 2160, 4, Result::rgb24, 0);
        p.variant("packed", [=] { packed(f); });
        p.variant("packed_tile", [=] { packed_tile(f); });
    });
    book.problem("preview", [](book::Problem& p) {
        const auto f = set_up(p, 3840, 2160, 4, Result::halved, 0);
        p.variant("convert_then_halve", [=] { convert_then_halve(f); });
        p.variant("convert_and_halve", [=] { convert_and_halve(f); });
    });
    book.problem("cif_batch", [](book::Problem& p) {
        const auto f = set_up(p, 384, 288, 96, Result::rgba, 0);
        auto* problem = &p;
        p.variant("frame_by_frame", [=] { frame_by_frame(f, problem); });
        p.variant("all_frames", [=] { all_frames(f); });
    });
    return book.finish();
}
