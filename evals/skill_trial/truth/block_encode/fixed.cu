// Forward cosine transform and quantisation of 8 x 8 blocks: this file may be changed.
#include "task.h"

namespace {

constexpr int kThreads = 128;

// cos(k pi / 16) / 2
constexpr float kC1 = 0.490392640f, kC2 = 0.461939766f, kC3 = 0.415734806f, kC4 = 0.353553391f,
                kC5 = 0.277785117f, kC6 = 0.191341716f, kC7 = 0.097545161f;

// Orthonormal transform of eight values that lie `kStride` apart, in place.
template <int kStride>
__device__ void transform(float* f) {
    const float s0 = f[0 * kStride] + f[7 * kStride], d0 = f[0 * kStride] - f[7 * kStride];
    const float s1 = f[1 * kStride] + f[6 * kStride], d1 = f[1 * kStride] - f[6 * kStride];
    const float s2 = f[2 * kStride] + f[5 * kStride], d2 = f[2 * kStride] - f[5 * kStride];
    const float s3 = f[3 * kStride] + f[4 * kStride], d3 = f[3 * kStride] - f[4 * kStride];
    f[0 * kStride] = (s0 + s1 + s2 + s3) * kC4;
    f[4 * kStride] = (s0 - s1 - s2 + s3) * kC4;
    f[2 * kStride] = (s0 - s3) * kC2 + (s1 - s2) * kC6;
    f[6 * kStride] = (s0 - s3) * kC6 - (s1 - s2) * kC2;
    f[1 * kStride] = d0 * kC1 + d1 * kC3 + d2 * kC5 + d3 * kC7;
    f[3 * kStride] = d0 * kC3 - d1 * kC7 - d2 * kC1 - d3 * kC5;
    f[5 * kStride] = d0 * kC5 - d1 * kC1 + d2 * kC7 + d3 * kC3;
    f[7 * kStride] = d0 * kC7 - d1 * kC5 + d2 * kC3 - d3 * kC1;
}

__device__ void read_row(const std::uint8_t* row, float* f) {
    const uint2 bytes = *reinterpret_cast<const uint2*>(row);
    for (int x = 0; x < kSide; ++x) {
        const unsigned word = x < 4 ? bytes.x : bytes.y;
        f[x] = float((word >> (8 * (x % 4))) & 255u) - 128.0f;
    }
}

__device__ unsigned level(float value, float step) {
    return unsigned(__float2int_rn(value / step)) & 0xffffu;
}

__device__ unsigned two_levels(const float* f, const float* step) {
    return level(f[0], step[0]) | (level(f[1], step[1]) << 16);
}

// One block of pixels per thread.
__global__ void __launch_bounds__(kThreads) encode(Problem p) {
    const int across = p.width / kSide;
    const int blocks = across * (p.height / kSide);
    const int id = blockIdx.x * kThreads + threadIdx.x;
    if (id >= blocks) return;
    const std::uint8_t* corner =
        p.pixels + std::size_t(id / across) * kSide * p.width + (id % across) * kSide;

    float cells[kCells];
    for (int y = 0; y < kSide; ++y) read_row(corner + std::size_t(y) * p.width, cells + y * kSide);
    for (int y = 0; y < kSide; ++y) transform<1>(cells + y * kSide);
    for (int x = 0; x < kSide; ++x) transform<kSide>(cells + x);

    for (int y = 0; y < kSide; ++y) {
        const float* f = cells + y * kSide;
        const float* step = p.steps + y * kSide;
        uint4 row;
        row.x = two_levels(f, step);
        row.y = two_levels(f + 2, step + 2);
        row.z = two_levels(f + 4, step + 4);
        row.w = two_levels(f + 6, step + 6);
        reinterpret_cast<uint4*>(p.levels)[std::size_t(y) * blocks + id] = row;
    }
}

}  // namespace

void prepare(const Shape&) {}

void launch(const Problem& problem, cudaStream_t stream) {
    const int blocks = (problem.width / kSide) * (problem.height / kSide);
    encode<<<(blocks + kThreads - 1) / kThreads, kThreads, 0, stream>>>(problem);
}
