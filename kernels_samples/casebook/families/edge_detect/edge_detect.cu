// Edges of an image: smoothing (Gaussian or bilateral), gradient, thinning to local maxima and two thresholds,
// the histogram of gradients from which thresholds are chosen, and the growth of strong edges along weak ones.
#include "../../harness/book.h"

using Byte = unsigned char;
using Word16 = unsigned short;

struct Photo {
    int width, height, low, high;
    const Byte* image;
    Word16* strength;  // |gx| + |gy| of the Sobel operator; 0 on the border
    Byte* direction;   // 0: along x, 1: along the diagonal, 2: along y, 3: along the other diagonal
    Byte* edges;       // 0: none, 1: weak, 2: strong
};

//: shared
template <class T, int Count>
struct alignas(sizeof(T) * Count) Run {
    T v[Count];
};

// Pixels x - 1 ... x + Count of a row; Count divides x and the width.
template <int Count, class T>
__device__ inline void load_window(const T* row, int x, int width, int (&window)[Count + 2]) {
    const Run<T, Count> middle = *reinterpret_cast<const Run<T, Count>*>(row + x);
    window[0] = row[max(x - 1, 0)];
    for (int i = 0; i < Count; ++i) window[i + 1] = middle.v[i];
    window[Count + 1] = row[min(x + Count, width - 1)];
}

__device__ inline Byte direction_of(int gx, int gy) {
    const int ax = abs(gx), ay = abs(gy), both = ax + ay, more = ay - ax;
    if (both * both < 2 * ax * ax) return 0;
    if (more > 0 && more * more > 2 * ax * ax) return 2;
    return (gx ^ gy) >= 0 ? 1 : 3;
}

template <int Count>
__global__ void gradient(const Byte* image, Word16* strength, Byte* direction, int width, int height) {
    const int x = Count * (blockIdx.x * blockDim.x + threadIdx.x), y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    int above[Count + 2], here[Count + 2], below[Count + 2];
    load_window<Count>(image + size_t(max(y - 1, 0)) * width, x, width, above);
    load_window<Count>(image + size_t(y) * width, x, width, here);
    load_window<Count>(image + size_t(min(y + 1, height - 1)) * width, x, width, below);
    Run<Word16, Count> size;
    Run<Byte, Count> way;
    for (int i = 0; i < Count; ++i) {
        const int gx = above[i + 2] - above[i] + 2 * (here[i + 2] - here[i]) + below[i + 2] - below[i];
        const int gy = below[i] - above[i] + 2 * (below[i + 1] - above[i + 1]) + below[i + 2] - above[i + 2];
        const bool inside = y > 0 && y < height - 1 && x + i > 0 && x + i < width - 1;
        size.v[i] = inside ? abs(gx) + abs(gy) : 0;
        way.v[i] = direction_of(gx, gy);
    }
    *reinterpret_cast<Run<Word16, Count>*>(strength + size_t(y) * width + x) = size;
    *reinterpret_cast<Run<Byte, Count>*>(direction + size_t(y) * width + x) = way;
}

template <int Count>
__global__ void thin(const Word16* strength, const Byte* direction, Byte* edges, int width, int height,
                     int low, int high) {
    const int x = Count * (blockIdx.x * blockDim.x + threadIdx.x), y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    int above[Count + 2], here[Count + 2], below[Count + 2];
    load_window<Count>(strength + size_t(max(y - 1, 0)) * width, x, width, above);
    load_window<Count>(strength + size_t(y) * width, x, width, here);
    load_window<Count>(strength + size_t(min(y + 1, height - 1)) * width, x, width, below);
    const auto way = *reinterpret_cast<const Run<Byte, Count>*>(direction + size_t(y) * width + x);
    Run<Byte, Count> kind;
    for (int i = 0; i < Count; ++i) {
        const int d = way.v[i], own = here[i + 1];
        const int before = d == 0 ? here[i] : d == 1 ? above[i] : d == 2 ? above[i + 1] : above[i + 2];
        const int behind = d == 0 ? here[i + 2] : d == 1 ? below[i + 2] : d == 2 ? below[i + 1] : below[i];
        const bool top = own >= low && own > before && own >= behind;
        kind.v[i] = top ? (own >= high ? 2 : 1) : 0;
    }
    *reinterpret_cast<Run<Byte, Count>*>(edges + size_t(y) * width + x) = kind;
}

template <int Count>
void find_edges(const Photo& d) {
    const dim3 block(32, 8), grid((d.width / Count + 31) / 32, (d.height + 7) / 8);
    gradient<Count><<<grid, block>>>(d.image, d.strength, d.direction, d.width, d.height);
    thin<Count><<<grid, block>>>(d.strength, d.direction, d.edges, d.width, d.height, d.low, d.high);
}
//: end

//: variant by_pixel
void by_pixel(const Photo& d) { find_edges<1>(d); }
//: end

//: variant by_pair
void by_pair(const Photo& d) { find_edges<2>(d); }
//: end

//: variant by_quad
void by_quad(const Photo& d) { find_edges<4>(d); }
//: end

__device__ int plain_strength(const Photo& d, int x, int y, int* way) {
    if (x <= 0 || y <= 0 || x >= d.width - 1 || y >= d.height - 1) return 0;
    const int side[3] = {1, 2, 1};
    int gx = 0, gy = 0;
    for (int k = -1; k <= 1; ++k) {
        const auto at = [&](int dx, int dy) { return int(d.image[size_t(y + dy) * d.width + x + dx]); };
        gx += side[k + 1] * (at(1, k) - at(-1, k));
        gy += side[k + 1] * (at(k, 1) - at(k, -1));
    }
    if (way) {
        const double angle = atan2(double(abs(gy)), double(abs(gx))) * 57.29577951308232;
        *way = angle < 22.5 ? 0 : angle > 67.5 ? 2 : (gx < 0) == (gy < 0) ? 1 : 3;
    }
    return abs(gx) + abs(gy);
}

__global__ void reference_edges(Photo d, Byte* expected) {
    const size_t count = size_t(d.width) * d.height;
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count;
         i += size_t{gridDim.x} * blockDim.x) {
        const int x = i % d.width, y = i / d.width;
        int way = 0;
        const int own = plain_strength(d, x, y, &way);
        const int dx[4] = {1, 1, 0, -1}, dy[4] = {0, 1, 1, 1};
        const int a = plain_strength(d, x - dx[way], y - dy[way], nullptr);
        const int b = plain_strength(d, x + dx[way], y + dy[way], nullptr);
        expected[i] = own < d.low || own <= a || own < b ? 0 : own < d.high ? 1 : 2;
    }
}

struct Bins {
    size_t pixels;
    const Word16* strength;
    unsigned* bins;
};

//: shared
constexpr int kBins = 2048;
//: end

//: variant device_bins
__global__ void count_device(const uint4* strength, unsigned* bins, size_t packs) {
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < packs;
         i += size_t{gridDim.x} * blockDim.x) {
        const uint4 eight = strength[i];
        for (const unsigned two : {eight.x, eight.y, eight.z, eight.w}) {
            atomicAdd(&bins[two & 0xFFFF], 1u);
            atomicAdd(&bins[two >> 16], 1u);
        }
    }
}

void device_bins(const Bins& d) {
    BOOK_CHECK(cudaMemsetAsync(d.bins, 0, kBins * sizeof(unsigned)));
    count_device<<<528, 512>>>(reinterpret_cast<const uint4*>(d.strength), d.bins, d.pixels / 8);
}
//: end

//: shared
template <int Copies>
__global__ void count_block(const uint4* strength, unsigned* bins, size_t packs) {
    __shared__ unsigned local[Copies][kBins];
    for (int b = threadIdx.x; b < Copies * kBins; b += blockDim.x) local[b / kBins][b % kBins] = 0;
    __syncthreads();
    unsigned* mine = local[threadIdx.x / 32 % Copies];
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < packs;
         i += size_t{gridDim.x} * blockDim.x) {
        const uint4 eight = strength[i];
        for (const unsigned two : {eight.x, eight.y, eight.z, eight.w}) {
            atomicAdd(&mine[two & 0xFFFF], 1u);
            atomicAdd(&mine[two >> 16], 1u);
        }
    }
    __syncthreads();
    for (int b = threadIdx.x; b < kBins; b += blockDim.x) {
        unsigned sum = 0;
        for (int c = 0; c < Copies; ++c) sum += local[c][b];
        if (sum) atomicAdd(&bins[b], sum);
    }
}
//: end

//: variant block_bins
void block_bins(const Bins& d) {
    BOOK_CHECK(cudaMemsetAsync(d.bins, 0, kBins * sizeof(unsigned)));
    count_block<1><<<528, 512>>>(reinterpret_cast<const uint4*>(d.strength), d.bins, d.pixels / 8);
}
//: end

//: variant block_bins_4
void block_bins_4(const Bins& d) {
    BOOK_CHECK(cudaMemsetAsync(d.bins, 0, kBins * sizeof(unsigned)));
    count_block<4><<<528, 512>>>(reinterpret_cast<const uint4*>(d.strength), d.bins, d.pixels / 8);
}
//: end

// Each thread counts one bin in one slice of the image.
__global__ void reference_bins(Bins d, unsigned* expected) {
    __shared__ Word16 values[1024];
    const size_t slice = d.pixels / gridDim.y, first = blockIdx.y * slice;
    const int bin = blockIdx.x * 1024 + threadIdx.x;
    unsigned count = 0;
    for (size_t i = 0; i < slice; i += 1024) {
        __syncthreads();
        values[threadIdx.x] = d.strength[first + i + threadIdx.x];
        __syncthreads();
        for (int k = 0; k < 1024; ++k) count += values[k] == bin;
    }
    atomicAdd(&expected[bin], count);
}

struct Plane {
    int width, height;  // of the result; the input has a margin of kRadius on each side
    const float* image;
    float* between;
    float* out;
};

//: shared
constexpr int kRadius = 3;
constexpr int kTaps = 2 * kRadius + 1;

struct Taps {
    float w[kTaps];
};

inline Taps gaussian(float sigma) {
    Taps taps;
    float total = 0;
    for (int k = 0; k < kTaps; ++k) {
        taps.w[k] = std::exp(-0.5f * (k - kRadius) * (k - kRadius) / (sigma * sigma));
        total += taps.w[k];
    }
    for (float& w : taps.w) w /= total;
    return taps;
}

constexpr float kSigma = 1.25f;
//: end

//: variant two_passes
// `between` has the rows of the input and the columns of the result.
__global__ void smooth_rows(const float* image, float* between, Taps taps, int width, int rows) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= rows) return;
    const float* from = image + size_t(y) * (width + 2 * kRadius) + x;
    float sum = 0;
    for (int k = 0; k < kTaps; ++k) sum += taps.w[k] * from[k];
    between[size_t(y) * width + x] = sum;
}

__global__ void smooth_columns(const float* between, float* out, Taps taps, int width, int height) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    const float* from = between + size_t(y) * width + x;
    float sum = 0;
    for (int k = 0; k < kTaps; ++k) sum += taps.w[k] * from[size_t(k) * width];
    out[size_t(y) * width + x] = sum;
}

void two_passes(const Plane& d) {
    const dim3 block(64, 4);
    const int rows = d.height + 2 * kRadius;
    const Taps taps = gaussian(kSigma);
    smooth_rows<<<dim3((d.width + 63) / 64, (rows + 3) / 4), block>>>(d.image, d.between, taps, d.width, rows);
    smooth_columns<<<dim3((d.width + 63) / 64, (d.height + 3) / 4), block>>>(d.between, d.out, taps, d.width,
                                                                             d.height);
}
//: end

//: variant one_pass
// A block smooths 64 columns and 64 rows: along the rows into shared memory, then along the columns.
// Width and height are multiples of 64.
__global__ void smooth_tile(const float* image, float* out, Taps taps, int width) {
    constexpr int kTileRows = 64, kOwn = kTileRows / 4;
    __shared__ float tile[kTileRows + 2 * kRadius][64];
    const int x = blockIdx.x * 64 + threadIdx.x, y = blockIdx.y * kTileRows;
    for (int j = threadIdx.y; j < kTileRows + 2 * kRadius; j += 4) {
        const float* from = image + size_t(y + j) * (width + 2 * kRadius) + x;
        float sum = 0;
        for (int k = 0; k < kTaps; ++k) sum += taps.w[k] * from[k];
        tile[j][threadIdx.x] = sum;
    }
    __syncthreads();
    const int first = threadIdx.y * kOwn;
    float window[kTaps];
    for (int k = 0; k < kTaps - 1; ++k) window[k] = tile[first + k][threadIdx.x];
#pragma unroll
    for (int j = 0; j < kOwn; ++j) {
        window[kTaps - 1] = tile[first + j + kTaps - 1][threadIdx.x];
        float sum = 0;
        for (int k = 0; k < kTaps; ++k) sum += taps.w[k] * window[k];
        out[size_t(y + first + j) * width + x] = sum;
        for (int k = 0; k < kTaps - 1; ++k) window[k] = window[k + 1];
    }
}

void one_pass(const Plane& d) {
    const Taps taps = gaussian(kSigma);
    smooth_tile<<<dim3(d.width / 64, d.height / 64), dim3(64, 4)>>>(d.image, d.out, taps, d.width);
}
//: end

__global__ void reference_smooth(Plane d, float* expected) {
    const size_t count = size_t(d.width) * d.height;
    double w[7], total = 0;
    for (int k = 0; k < 7; ++k) total += w[k] = exp(-0.5 * (k - 3) * (k - 3) / (1.25 * 1.25));
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count;
         i += size_t{gridDim.x} * blockDim.x) {
        const size_t x = i % d.width, y = i / d.width;
        double sum = 0;
        for (int r = 0; r < 7; ++r) {
            for (int c = 0; c < 7; ++c) sum += w[r] * w[c] * d.image[(y + r) * (d.width + 6) + x + c];
        }
        expected[i] = float(sum / (total * total));
    }
}

//: shared
// As exp2f, but tiny results are zero.
__device__ inline float power_of_two(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
//: end

//: variant two_weights
__global__ void bilateral_two(const float* image, float* out, int width, int height, int radius, float space,
                              float range) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    const int pitch = width + 2 * radius;
    const float* centre = image + size_t(y + radius) * pitch + x + radius;
    const float own = *centre;
    float sum = 0, total = 0;
    for (int dy = -radius; dy <= radius; ++dy) {
        const float* row = centre + dy * pitch;
        for (int dx = -radius; dx <= radius; ++dx) {
            const float value = row[dx], apart = value - own;
            const float near = power_of_two(space * (dx * dx + dy * dy));
            const float alike = power_of_two(range * apart * apart);
            sum += near * alike * value;
            total += near * alike;
        }
    }
    out[size_t(y) * width + x] = sum / total;
}

void two_weights(const Plane& d, int radius, float space, float range) {
    bilateral_two<<<dim3((d.width + 31) / 32, (d.height + 7) / 8), dim3(32, 8)>>>(
        d.image, d.out, d.width, d.height, radius, space, range);
}
//: end

//: variant one_weight
__global__ void bilateral_one(const float* image, float* out, int width, int height, int radius, float space,
                              float range) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    const int pitch = width + 2 * radius;
    const float* centre = image + size_t(y + radius) * pitch + x + radius;
    const float own = *centre;
    float sum = 0, total = 0;
    for (int dy = -radius; dy <= radius; ++dy) {
        const float* row = centre + dy * pitch;
        for (int dx = -radius; dx <= radius; ++dx) {
            const float value = row[dx], apart = value - own;
            const float weight = power_of_two(space * (dx * dx + dy * dy) + range * apart * apart);
            sum += weight * value;
            total += weight;
        }
    }
    out[size_t(y) * width + x] = sum / total;
}

void one_weight(const Plane& d, int radius, float space, float range) {
    bilateral_one<<<dim3((d.width + 31) / 32, (d.height + 7) / 8), dim3(32, 8)>>>(
        d.image, d.out, d.width, d.height, radius, space, range);
}
//: end

__global__ void reference_bilateral(Plane d, float* expected, double space, double range) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= d.width * d.height) return;
    const int x = i % d.width, y = i / d.width, pitch = d.width + 6;
    const float own = d.image[(y + 3) * pitch + x + 3];
    double sum = 0, total = 0;
    for (int r = 0; r < 7; ++r) {
        for (int c = 0; c < 7; ++c) {
            const float value = d.image[(y + r) * pitch + x + c];
            const float apart = value - own;
            const int square = (r - 3) * (r - 3) + (c - 3) * (c - 3);
            const double weight = exp2(space * square + range * apart * apart);
            sum += weight * value;
            total += weight;
        }
    }
    expected[i] = float(sum / total);
}

struct Trace {
    int width, height;
    Byte* map;     // 0: none, 1: weak, 2: strong; weak pixels that touch a strong one become strong
    int* changed;
};

//: shared
inline bool has_changed(const Trace& d) {
    int changed = 0;
    BOOK_CHECK(cudaMemcpy(&changed, d.changed, sizeof(int), cudaMemcpyDeviceToHost));
    return changed != 0;
}
//: end

//: variant sweeps
__global__ void grow_sweep(Byte* map, int* changed, int width, int height) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height || map[y * width + x] != 1) return;
    bool strong = false;
    for (int v = max(y - 1, 0); v <= min(y + 1, height - 1); ++v) {
        for (int u = max(x - 1, 0); u <= min(x + 1, width - 1); ++u) strong |= map[v * width + u] == 2;
    }
    if (strong) {
        map[y * width + x] = 2;
        *changed = 1;
    }
}

void sweeps(const Trace& d, const book::Problem* problem) {
    const dim3 block(32, 8), grid((d.width + 31) / 32, (d.height + 7) / 8);
    int pass = 0;
    do {
        BOOK_CHECK(cudaMemsetAsync(d.changed, 0, sizeof(int)));
        grow_sweep<<<grid, block>>>(d.map, d.changed, d.width, d.height);
        problem->launched(pass++);
    } while (has_changed(d));
}
//: end

//: variant tile_sweeps
// A block grows the edges of its tile until nothing changes there.
__global__ void grow_tile(Byte* map, int* changed, int width, int height) {
    __shared__ volatile Byte tile[34][34];
    const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int i = threadIdx.y * 32 + threadIdx.x; i < 34 * 34; i += 1024) {
        const int u = int(blockIdx.x) * 32 - 1 + i % 34, v = int(blockIdx.y) * 32 - 1 + i / 34;
        const bool inside = u >= 0 && v >= 0 && u < width && v < height;
        tile[i / 34][i % 34] = inside ? map[v * width + u] : 0;
    }
    __syncthreads();
    const int tx = threadIdx.x + 1, ty = threadIdx.y + 1;
    const bool weak = tile[ty][tx] == 1;
    bool grown = false, now;
    do {
        now = false;
        if (weak && !grown) {
            for (int v = ty - 1; v <= ty + 1; ++v) {
                for (int u = tx - 1; u <= tx + 1; ++u) now |= tile[v][u] == 2;
            }
            if (now) tile[ty][tx] = 2, grown = true;
        }
    } while (__syncthreads_or(now));
    if (grown) {
        map[y * width + x] = 2;
        *changed = 1;
    }
}

void tile_sweeps(const Trace& d, const book::Problem* problem) {
    const dim3 block(32, 32), grid((d.width + 31) / 32, (d.height + 31) / 32);
    int pass = 0;
    do {
        BOOK_CHECK(cudaMemsetAsync(d.changed, 0, sizeof(int)));
        grow_tile<<<grid, block>>>(d.map, d.changed, d.width, d.height);
        problem->launched(pass++);
    } while (has_changed(d));
}
//: end

// One block over the whole image, forth and back, until a round changes nothing.
__global__ void reference_trace(Byte* map, int width, int height) {
    __shared__ int open;
    for (;;) {
        __syncthreads();
        if (threadIdx.x == 0) open = 0;
        __syncthreads();
        for (int line = 0; line < 2 * height; ++line) {
            const int y = line < height ? line : 2 * height - 1 - line;
            for (int x = threadIdx.x; x < width; x += blockDim.x) {
                if (map[y * width + x] != 1) continue;
                bool touches = false;
                for (int k = 0; k < 9; ++k) {
                    const int u = x + k % 3 - 1, v = y + k / 3 - 1;
                    if (u >= 0 && v >= 0 && u < width && v < height) touches |= map[v * width + u] == 2;
                }
                if (touches) map[y * width + x] = 2, open = 1;
            }
            __syncthreads();
        }
        if (!open) return;
    }
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("photo", [](book::Problem& p) {
        Photo d{6144, 4096, 60, 130};
        const size_t count = size_t(d.width) * d.height;
        const uint64_t seed = p.seed();
        // Soft shapes and some noise.
        d.image = p.input<Byte>(count, [=] __device__(size_t i) {
            const float x = float(i % 6144), y = float(i / 6144), turn = float(seed % 7);
            const float shapes = sinf(0.05f * x + turn) * sinf(0.07f * y) + sinf(0.011f * (x + y));
            return Byte(127 + 40 * shapes + 30 * book::uniform01(seed, 401, i));
        });
        d.strength = p.output<Word16>(count);
        d.direction = p.output<Byte>(count);
        d.edges = p.output<Byte>(count);
        p.needs({.dram_bytes = 2.0 * count, .int_op = 20.0 * count});
        p.check<Byte>(d.edges, count, {0}, [=](Byte* expected) {
            reference_edges<<<2112, 256>>>(d, expected);
        });
        p.variant("by_pixel", [=] { by_pixel(d); });
        p.variant("by_pair", [=] { by_pair(d); });
        p.variant("by_quad", [=] { by_quad(d); });
    });
    book.problem("bins", [](book::Problem& p) {
        Bins d{size_t{6144} * 4096};
        const uint64_t seed = p.seed();
        // Most gradients are small.
        d.strength = p.input<Word16>(d.pixels, [=] __device__(size_t i) {
            const double u = book::uniform01(seed, 402, i);
            return Word16(2040 * u * u * sqrt(u));
        });
        d.bins = p.output<unsigned>(kBins);
        p.needs({.dram_bytes = 2.0 * d.pixels + 4.0 * kBins, .int_op = 2.0 * d.pixels});
        p.check<unsigned>(d.bins, kBins, {0}, [=](unsigned* expected) {
            reference_bins<<<dim3(kBins / 1024, 1024), 1024>>>(d, expected);
        });
        p.variant("device_bins", [=] { device_bins(d); });
        p.variant("block_bins", [=] { block_bins(d); });
        p.variant("block_bins_4", [=] { block_bins_4(d); });
    });
    book.problem("smooth", [](book::Problem& p) {
        Plane d{4096, 4096};
        const size_t count = size_t(d.width) * d.height, rows = d.height + 6, pitch = d.width + 6;
        d.image = p.uniform<float>(rows * pitch, 0, 1);
        d.between = p.output<float>(rows * d.width);
        d.out = p.output<float>(count);
        p.needs({.dram_bytes = 4.0 * (rows * pitch + count), .fp32_flop = 28.0 * count});
        p.check<float>(d.out, count, {1e-5}, [=](float* expected) {
            reference_smooth<<<2112, 256>>>(d, expected);
        });
        p.variant("two_passes", [=] { two_passes(d); });
        p.variant("one_pass", [=] { one_pass(d); });
    });
    book.problem("bilateral", [](book::Problem& p) {
        Plane d{4096, 2048};
        const size_t count = size_t(d.width) * d.height, rows = d.height + 6, pitch = d.width + 6;
        d.image = p.uniform<float>(rows * pitch, 0, 1);
        d.out = p.output<float>(count);
        // Weights are 2^(space * distance^2 + range * difference^2).
        const float space = -0.18f, range = -11.5f;
        p.needs({.dram_bytes = 4.0 * (rows * pitch + count),
                 .fp32_flop = 49.0 * 7 * count,
                 .special_op = 48.0 * count});
        p.check<float>(d.out, count, {2e-5}, [=](float* expected) {
            reference_bilateral<<<unsigned((count + 255) / 256), 256>>>(d, expected, space, range);
        });
        p.variant("two_weights", [=] { two_weights(d, 3, space, range); });
        p.variant("one_weight", [=] { one_weight(d, 3, space, range); });
    });
    book.problem("trace", [](book::Problem& p) {
        Trace d{1024, 1024};
        const size_t count = size_t(d.width) * d.height;
        const uint64_t seed = p.seed();
        const auto start = [=] __device__(size_t i) {
            const double u = book::uniform01(seed, 403, i);
            return Byte(u < 0.002 ? 2 : u < 0.345 ? 1 : 0);
        };
        d.map = p.state<Byte>(count, start);
        d.changed = p.output<int>(1);
        const Byte* original = p.input<Byte>(count, start);
        p.needs({.dram_bytes = 2.0 * count, .int_op = 9.0 * count, .steps = 2});
        p.check<Byte>(d.map, count, {0}, [=](Byte* expected) {
            BOOK_CHECK(cudaMemcpy(expected, original, count, cudaMemcpyDeviceToDevice));
            reference_trace<<<1, 1024>>>(expected, d.width, d.height);
        });
        const auto* problem = &p;
        p.variant("sweeps", [=] { sweeps(d, problem); });
        p.variant("tile_sweeps", [=] { tile_sweeps(d, problem); });
    });
    return book.finish();
}
