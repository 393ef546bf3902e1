// Per-point stages of a lidar driver: world heights, polar views, range calibration, surface roughness.
#include "../../harness/book.h"

//: shared
constexpr int kChannels = 128;  // lasers, which fire one after the other
constexpr int kKnots = 64;      // of the calibration curve of a laser
constexpr int kThreads = 256;

struct Pose {
    float turn[9];
    float shift[3];
};

// What the driver hands over for each return.
struct Return {
    double time;
    float x, y, z;
    float intensity;
    float range, azimuth, elevation;
    unsigned short ring, flags;
    unsigned int label;
};

struct Point {
    float x, y, z, intensity;
};

struct Cloud {
    const float *x, *y, *z;
};

inline int blocks_for(int items) { return (items + kThreads - 1) / kThreads; }

__device__ inline float world_height(const Pose& pose, float x, float y, float z) {
    return pose.turn[6] * x + pose.turn[7] * y + pose.turn[8] * z + pose.shift[2];
}

__device__ inline float distance_of(float x, float y, float z) { return sqrtf(x * x + y * y + z * z); }

__device__ inline float slope_of(float x, float y, float z) { return z / sqrtf(x * x + y * y); }

__device__ inline float brightness(float x, float y, float z, float intensity) {
    return intensity * (x * x + y * y + z * z);
}
//: end

struct Records {
    int count;
    Pose pose;
    const Return* returns;
    Cloud cloud;
    float* height;
};

//: variant heights_of_returns
__global__ void lift_returns(const Return* returns, Pose pose, float* height, int count) {
    const int i = blockIdx.x * kThreads + threadIdx.x;
    if (i >= count) return;
    const Return& r = returns[i];
    height[i] = world_height(pose, r.x, r.y, r.z);
}

void heights_of_returns(const Records& d) {
    lift_returns<<<blocks_for(d.count), kThreads>>>(d.returns, d.pose, d.height, d.count);
}
//: end

//: variant heights_of_planes
__global__ void lift_planes(Cloud cloud, Pose pose, float* height, int count) {
    const int i = blockIdx.x * kThreads + threadIdx.x;
    if (i >= count) return;
    height[i] = world_height(pose, cloud.x[i], cloud.y[i], cloud.z[i]);
}

void heights_of_planes(const Records& d) {
    lift_planes<<<blocks_for(d.count), kThreads>>>(d.cloud, d.pose, d.height, d.count);
}
//: end

struct Firings {
    int count;
    const float2* both;   // first and last return of each firing
    const float* first;   // first returns alone
    const float2* lasers;   // cosine and sine of each laser's elevation
    const float2* columns;  // cosine and sine of the azimuth of each 128 firings
    float *x, *y, *z;
};

//: shared
__device__ inline void place(float range, float2 laser, float2 column, int i, float* x, float* y, float* z) {
    const float flat = range * laser.x;
    x[i] = flat * column.x;
    y[i] = flat * column.y;
    z[i] = range * laser.y;
}
//: end

//: variant place_from_pairs
__global__ void place_pairs(const float2* both, const float2* lasers, const float2* columns, float* x,
                            float* y, float* z, int count) {
    const int i = blockIdx.x * kThreads + threadIdx.x;
    if (i >= count) return;
    place(both[i].x, lasers[i % kChannels], columns[i / kChannels], i, x, y, z);
}

void place_from_pairs(const Firings& d) {
    place_pairs<<<blocks_for(d.count), kThreads>>>(d.both, d.lasers, d.columns, d.x, d.y, d.z, d.count);
}
//: end

//: variant place_from_plane
__global__ void place_plane(const float* first, const float2* lasers, const float2* columns, float* x,
                            float* y, float* z, int count) {
    const int i = blockIdx.x * kThreads + threadIdx.x;
    if (i >= count) return;
    place(first[i], lasers[i % kChannels], columns[i / kChannels], i, x, y, z);
}

void place_from_plane(const Firings& d) {
    place_plane<<<blocks_for(d.count), kThreads>>>(d.first, d.lasers, d.columns, d.x, d.y, d.z, d.count);
}
//: end

struct Points {
    int count;
    const Point* points;
    float* bright;
};

//: variant bright_by_member
__global__ void bright_members(const Point* points, float* bright, int count) {
    const int i = blockIdx.x * kThreads + threadIdx.x;
    if (i >= count) return;
    const Point& p = points[i];
    bright[i] = brightness(p.x, p.y, p.z, p.intensity);
}

void bright_by_member(const Points& d) {
    bright_members<<<blocks_for(d.count), kThreads>>>(d.points, d.bright, d.count);
}
//: end

//: variant bright_by_quad
__global__ void bright_quads(const float4* points, float* bright, int count) {
    const int i = blockIdx.x * kThreads + threadIdx.x;
    if (i >= count) return;
    const float4 p = points[i];
    bright[i] = brightness(p.x, p.y, p.z, p.w);
}

void bright_by_quad(const Points& d) {
    bright_quads<<<blocks_for(d.count), kThreads>>>(reinterpret_cast<const float4*>(d.points), d.bright,
                                                    d.count);
}
//: end

struct Views {
    int count;
    Cloud cloud;
    float *range, *azimuth, *slope;
};

//: shared
__global__ void azimuth_view(Cloud c, float* azimuth, int count) {
    const int i = blockIdx.x * kThreads + threadIdx.x;
    if (i < count) azimuth[i] = atan2f(c.y[i], c.x[i]) + 0.001f * c.z[i];  // tilt of the mast
}
//: end

//: variant view_by_view
__global__ void range_view(Cloud c, float* range, int count) {
    const int i = blockIdx.x * kThreads + threadIdx.x;
    if (i < count) range[i] = distance_of(c.x[i], c.y[i], c.z[i]);
}

__global__ void slope_view(Cloud c, float* slope, int count) {
    const int i = blockIdx.x * kThreads + threadIdx.x;
    if (i < count) slope[i] = slope_of(c.x[i], c.y[i], c.z[i]);
}

void view_by_view(const Views& d) {
    range_view<<<blocks_for(d.count), kThreads>>>(d.cloud, d.range, d.count);
    azimuth_view<<<blocks_for(d.count), kThreads>>>(d.cloud, d.azimuth, d.count);
    slope_view<<<blocks_for(d.count), kThreads>>>(d.cloud, d.slope, d.count);
}
//: end

//: variant shape_then_azimuth
__global__ void shape_view(Cloud c, float* range, float* slope, int count) {
    const int i = blockIdx.x * kThreads + threadIdx.x;
    if (i >= count) return;
    const float x = c.x[i], y = c.y[i], z = c.z[i];
    range[i] = distance_of(x, y, z);
    slope[i] = slope_of(x, y, z);
}

void shape_then_azimuth(const Views& d) {
    shape_view<<<blocks_for(d.count), kThreads>>>(d.cloud, d.range, d.slope, d.count);
    azimuth_view<<<blocks_for(d.count), kThreads>>>(d.cloud, d.azimuth, d.count);
}
//: end

//: variant all_views
__global__ void polar_views(Cloud c, float* range, float* azimuth, float* slope, int count) {
    const int i = blockIdx.x * kThreads + threadIdx.x;
    if (i >= count) return;
    const float x = c.x[i], y = c.y[i], z = c.z[i];
    range[i] = distance_of(x, y, z);
    azimuth[i] = atan2f(y, x) + 0.001f * z;
    slope[i] = slope_of(x, y, z);
}

void all_views(const Views& d) {
    polar_views<<<blocks_for(d.count), kThreads>>>(d.cloud, d.range, d.azimuth, d.slope, d.count);
}
//: end

struct Ranges {
    int count;  // a multiple of kTile
    const float* raw;
    const float4* curves;  // offset[knot][channel]
    float* corrected;
};

//: shared
constexpr int kCurveThreads = 512;
constexpr int kDeep = 4;
constexpr int kTile = kCurveThreads * kDeep;
constexpr float kKnotsPerMetre = 0.5f;

// Adds the calibration offset at the measured range, interpolated between two knots. Firings are in
// the order of the channels, so that a thread always meets the same one.
__global__ void __launch_bounds__(kCurveThreads)
    correct_ranges(const float* raw, const float4* curves, float* corrected, int tiles, int tiles_per_block) {
    __shared__ float4 staged[kKnots * kChannels / 4];
    for (int i = threadIdx.x; i < kKnots * kChannels / 4; i += kCurveThreads) staged[i] = curves[i];
    __syncthreads();
    const float* curve = reinterpret_cast<const float*>(staged) + threadIdx.x % kChannels;
    const int first = blockIdx.x * tiles_per_block;
    const int last = min(first + tiles_per_block, tiles);
    for (int tile = first; tile < last; ++tile) {
        const size_t base = size_t(tile) * kTile + threadIdx.x;
        float range[kDeep];
#pragma unroll
        for (int k = 0; k < kDeep; ++k) range[k] = raw[base + k * kCurveThreads];
#pragma unroll
        for (int k = 0; k < kDeep; ++k) {
            const float at = range[k] * kKnotsPerMetre;
            const int knot = min(static_cast<int>(at), kKnots - 2);
            const float low = curve[knot * kChannels], high = curve[(knot + 1) * kChannels];
            corrected[base + k * kCurveThreads] = range[k] + low + (high - low) * (at - knot);
        }
    }
}

inline void correct_with(const Ranges& d, int tiles_per_block) {
    const int tiles = d.count / kTile;
    correct_ranges<<<(tiles + tiles_per_block - 1) / tiles_per_block, kCurveThreads>>>(
        d.raw, d.curves, d.corrected, tiles, tiles_per_block);
}
//: end

//: variant tile_per_block
void tile_per_block(const Ranges& d) { correct_with(d, 1); }
//: end

//: variant four_tiles_per_block
void four_tiles_per_block(const Ranges& d) { correct_with(d, 4); }
//: end

//: variant resident_blocks
// Four blocks fit on each of 132 SMs.
void resident_blocks(const Ranges& d) {
    const int tiles = d.count / kTile, blocks = 4 * 132;
    correct_with(d, (tiles + blocks - 1) / blocks);
}
//: end

struct Image {
    int rows, columns;  // columns: a multiple of 128
    const float* range;
    float* rough;
};

//: shared
__device__ inline float roughness(float a, float b, float here, float c, float d) {
    return fabsf(a + b - 4.0f * here + c + d);
}

__device__ inline float4 roughness_of_four(float a, float b, float4 v, float c, float d) {
    return make_float4(roughness(a, b, v.x, v.y, v.z), roughness(b, v.x, v.y, v.z, v.w),
                       roughness(v.x, v.y, v.z, v.w, c), roughness(v.y, v.z, v.w, c, d));
}
//: end

//: variant rough_from_image
__global__ void rough_image(const float* range, float* rough, int columns) {
    const int quad = blockIdx.x * blockDim.x + threadIdx.x;
    const float* row = range + size_t(blockIdx.y) * columns;
    const int at = 4 * quad;
    const float4 here = reinterpret_cast<const float4*>(row)[quad];
    const float a = row[max(at - 2, 0)], b = row[max(at - 1, 0)];
    const float c = row[min(at + 4, columns - 1)], d = row[min(at + 5, columns - 1)];
    reinterpret_cast<float4*>(rough + size_t(blockIdx.y) * columns)[quad] =
        roughness_of_four(a, b, here, c, d);
}

void rough_from_image(const Image& d) {
    rough_image<<<dim3(d.columns / 1024, d.rows), 256>>>(d.range, d.rough, d.columns);
}
//: end

//: variant rough_from_lanes
__global__ void rough_lanes(const float* range, float* rough, int columns) {
    const int quad = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
    const float* row = range + size_t(blockIdx.y) * columns;
    const int at = 4 * quad;
    const float4 here = reinterpret_cast<const float4*>(row)[quad];
    float a = __shfl_up_sync(~0u, here.z, 1), b = __shfl_up_sync(~0u, here.w, 1);
    float c = __shfl_down_sync(~0u, here.x, 1), d = __shfl_down_sync(~0u, here.y, 1);
    if (lane == 0) a = row[max(at - 2, 0)], b = row[max(at - 1, 0)];
    if (lane == 31) c = row[min(at + 4, columns - 1)], d = row[min(at + 5, columns - 1)];
    reinterpret_cast<float4*>(rough + size_t(blockIdx.y) * columns)[quad] =
        roughness_of_four(a, b, here, c, d);
}

void rough_from_lanes(const Image& d) {
    rough_lanes<<<dim3(d.columns / 1024, d.rows), 256>>>(d.range, d.rough, d.columns);
}
//: end

// --- references and data

__global__ void reference_heights(Cloud c, Pose pose, float* height, int count) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        height[i] = static_cast<float>(double(pose.turn[6]) * c.x[i] + double(pose.turn[7]) * c.y[i] +
                                       double(pose.turn[8]) * c.z[i] + double(pose.shift[2]));
    }
}

__global__ void reference_place(const float* first, const float2* lasers, const float2* columns, int axis,
                                float* out, int count) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        const float2 laser = lasers[i % 128], column = columns[i / 128];
        const double range = first[i];
        const double value = axis == 0   ? range * laser.x * column.x
                             : axis == 1 ? range * laser.x * column.y
                                         : range * laser.y;
        out[i] = static_cast<float>(value);
    }
}

__global__ void reference_bright(const Point* points, float* bright, int count) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        const double x = points[i].x, y = points[i].y, z = points[i].z;
        bright[i] = static_cast<float>(points[i].intensity * (x * x + y * y + z * z));
    }
}

__global__ void reference_view(Cloud c, int which, float* out, int count) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        const double x = c.x[i], y = c.y[i], z = c.z[i];
        const double value = which == 0   ? sqrt(x * x + y * y + z * z)
                             : which == 1 ? atan2(y, x) + 0.001 * z
                                          : z / sqrt(x * x + y * y);
        out[i] = static_cast<float>(value);
    }
}

__global__ void reference_correct(const float* raw, const float* curves, float* out, int count) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        const double at = 0.5 * raw[i];
        int knot = int(at);
        if (knot > 62) knot = 62;
        const double low = curves[knot * 128 + i % 128], high = curves[(knot + 1) * 128 + i % 128];
        out[i] = static_cast<float>(raw[i] + low + (high - low) * (at - knot));
    }
}

__global__ void reference_rough(const float* range, float* rough, int rows, int columns) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < rows * columns; i += gridDim.x * blockDim.x) {
        const int row = i / columns, column = i % columns;
        double sum = -4.0 * range[i];
        for (int k = -2; k <= 2; ++k) {
            const int at = min(max(column + k, 0), columns - 1);
            if (k != 0) sum += range[size_t(row) * columns + at];
        }
        rough[i] = static_cast<float>(fabs(sum));
    }
}

Cloud make_cloud(book::Problem& p, int count) {
    Cloud c;
    c.x = p.uniform<float>(count, -50, 50);
    c.y = p.uniform<float>(count, -50, 50);
    c.z = p.uniform<float>(count, -3, 12);
    return c;
}

Records set_up_records(book::Problem& p, int count) {
    Records d;
    d.count = count;
    d.pose = Pose{{0.8f, -0.6f, 0.01f, 0.6f, 0.8f, -0.02f, 0.004f, 0.022f, 0.9997f}, {120.0f, -40.0f, 1.7f}};
    d.cloud = make_cloud(p, count);
    const Cloud c = d.cloud;
    const uint64_t seed = p.seed();
    d.returns = p.input<Return>(count, [=] __device__(size_t i) {
        Return r;
        r.time = 1e-6 * i;
        r.x = c.x[i], r.y = c.y[i], r.z = c.z[i];
        r.intensity = static_cast<float>(book::uniform01(seed, 77, i));
        r.range = sqrtf(r.x * r.x + r.y * r.y);
        r.azimuth = 0.1f, r.elevation = 0.2f;
        r.ring = static_cast<unsigned short>(i % 128), r.flags = 1;
        r.label = 0;
        return r;
    });
    d.height = p.output<float>(count);
    p.needs({.dram_bytes = 16.0 * count, .fp32_flop = 6.0 * count});
    p.check<float>(d.height, count, {1e-5, 1e-4}, [=](float* expected) {
        reference_heights<<<1056, 256>>>(d.cloud, d.pose, expected, d.count);
    });
    return d;
}

Firings set_up_firings(book::Problem& p, int count) {
    Firings d;
    d.count = count;
    float* first = p.uniform<float>(count, 1, 120);
    d.first = first;
    const uint64_t seed = p.seed();
    d.both = p.input<float2>(count, [=] __device__(size_t i) {
        return make_float2(first[i], first[i] + 5.0f * static_cast<float>(book::uniform01(seed, 78, i)));
    });
    d.lasers = p.input<float2>(kChannels, [=] __device__(size_t i) {
        const double angle = -0.4 + 0.006 * i;
        return make_float2(static_cast<float>(cos(angle)), static_cast<float>(sin(angle)));
    });
    d.columns = p.input<float2>((count + kChannels - 1) / kChannels, [=] __device__(size_t i) {
        const double angle = 0.0035 * (i % 1800);
        return make_float2(static_cast<float>(cos(angle)), static_cast<float>(sin(angle)));
    });
    d.x = p.output<float>(count);
    d.y = p.output<float>(count);
    d.z = p.output<float>(count);
    p.needs({.dram_bytes = 16.0 * count + 8.0 * kChannels + 8.0 * ((count + kChannels - 1) / kChannels),
             .fp32_flop = 4.0 * count});
    float* const axes[3] = {d.x, d.y, d.z};
    for (int axis = 0; axis < 3; ++axis) {
        p.check<float>(axes[axis], count, {1e-5, 1e-5}, [=](float* expected) {
            reference_place<<<1056, 256>>>(d.first, d.lasers, d.columns, axis, expected, d.count);
        });
    }
    return d;
}

Points set_up_points(book::Problem& p, int count) {
    Points d;
    d.count = count;
    const uint64_t seed = p.seed();
    d.points = p.input<Point>(count, [=] __device__(size_t i) {
        Point q;
        q.x = static_cast<float>(100 * book::uniform01(seed, 81, i) - 50);
        q.y = static_cast<float>(100 * book::uniform01(seed, 82, i) - 50);
        q.z = static_cast<float>(15 * book::uniform01(seed, 83, i) - 3);
        q.intensity = static_cast<float>(book::uniform01(seed, 84, i));
        return q;
    });
    d.bright = p.output<float>(count);
    p.needs({.dram_bytes = 20.0 * count, .fp32_flop = 6.0 * count});
    p.check<float>(d.bright, count, {1e-5, 1e-5}, [=](float* expected) {
        reference_bright<<<1056, 256>>>(d.points, expected, d.count);
    });
    return d;
}

Views set_up_views(book::Problem& p, int count) {
    Views d;
    d.count = count;
    d.cloud = make_cloud(p, count);
    d.range = p.output<float>(count);
    d.azimuth = p.output<float>(count);
    d.slope = p.output<float>(count);
    p.needs({.dram_bytes = 24.0 * count, .fp32_flop = 30.0 * count});
    float* const views[3] = {d.range, d.azimuth, d.slope};
    for (int which = 0; which < 3; ++which) {
        p.check<float>(views[which], count, {2e-5, 1e-5}, [=](float* expected) {
            reference_view<<<1056, 256>>>(d.cloud, which, expected, d.count);
        });
    }
    return d;
}

Ranges set_up_ranges(book::Problem& p, int tiles) {
    Ranges d;
    d.count = tiles * kTile;
    d.raw = p.uniform<float>(d.count, 0.5, 120);
    const float* curves = p.uniform<float>(kKnots * kChannels, -0.2, 0.2);
    d.curves = reinterpret_cast<const float4*>(curves);
    d.corrected = p.output<float>(d.count);
    p.needs({.dram_bytes = 8.0 * d.count + 4.0 * kKnots * kChannels, .fp32_flop = 6.0 * d.count});
    p.check<float>(d.corrected, d.count, {1e-5, 1e-5}, [=](float* expected) {
        reference_correct<<<1056, 256>>>(d.raw, curves, expected, d.count);
    });
    return d;
}

Image set_up_image(book::Problem& p, int rows, int columns) {
    Image d;
    d.rows = rows, d.columns = columns;
    const size_t count = size_t(rows) * columns;
    d.range = p.uniform<float>(count, 1, 120);
    d.rough = p.output<float>(count);
    p.needs({.dram_bytes = 8.0 * count, .fp32_flop = 5.0 * count});
    p.check<float>(d.rough, count, {1e-5, 1e-3}, [=](float* expected) {
        reference_rough<<<1056, 256>>>(d.range, expected, d.rows, d.columns);
    });
    return d;
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("heights", [](book::Problem& p) {
        const auto d = set_up_records(p, 4000000);
        p.variant("heights_of_returns", [=] { heights_of_returns(d); });
        p.variant("heights_of_planes", [=] { heights_of_planes(d); });
    });
    book.problem("firings", [](book::Problem& p) {
        const auto d = set_up_firings(p, 8000000);
        p.variant("place_from_pairs", [=] { place_from_pairs(d); });
        p.variant("place_from_plane", [=] { place_from_plane(d); });
    });
    book.problem("brightness", [](book::Problem& p) {
        const auto d = set_up_points(p, 8000000);
        p.variant("bright_by_member", [=] { bright_by_member(d); });
        p.variant("bright_by_quad", [=] { bright_by_quad(d); });
    });
    book.problem("views", [](book::Problem& p) {
        const auto d = set_up_views(p, 6400000);
        p.variant("view_by_view", [=] { view_by_view(d); });
        p.variant("shape_then_azimuth", [=] { shape_then_azimuth(d); });
        p.variant("all_views", [=] { all_views(d); });
    });
    book.problem("curves", [](book::Problem& p) {
        const auto d = set_up_ranges(p, 8192);
        p.variant("tile_per_block", [=] { tile_per_block(d); });
        p.variant("four_tiles_per_block", [=] { four_tiles_per_block(d); });
        p.variant("resident_blocks", [=] { resident_blocks(d); });
    });
    book.problem("image", [](book::Problem& p) {
        const auto d = set_up_image(p, 8192, 2048);
        p.variant("rough_from_image", [=] { rough_from_image(d); });
        p.variant("rough_from_lanes", [=] { rough_from_lanes(d); });
    });
    return book.finish();
}
