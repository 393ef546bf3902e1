// Rectification of a fisheye frame: this file may be changed.
#include "task.h"

namespace {

constexpr int kTileX = 32, kTileY = 8;

template <class T>
struct Place {
    T x, y;
};

// a (1 + b0 a^2 + b1 a^4 + b2 a^6 + b3 a^8)
template <class T>
__device__ T bent(T angle, const T (&bend)[4]) {
    const T square = angle * angle;
    T sum = bend[3];
    for (int i = 2; i >= 0; --i) sum = bend[i] + square * sum;
    return angle * (1 + square * sum);
}

// Where the frame shows what the view has at (u, v).
__device__ auto place_in_frame(const Lens& lens, const View& view, float u, float v) {
    const auto x = (u - view.cx) / view.fx;
    const auto y = (v - view.cy) / view.fy;
    const auto a = view.turn[0] * x + view.turn[1] * y + view.turn[2];
    const auto b = view.turn[3] * x + view.turn[4] * y + view.turn[5];
    const auto c = view.turn[6] * x + view.turn[7] * y + view.turn[8];
    const auto radius = sqrt(a * a + b * b);
    const auto scale = bent(atan2(radius, c), lens.bend) / fmax(radius, decltype(radius)(1e-12f));
    return Place<decltype(lens.fx * scale)>{lens.fx * scale * a + lens.cx,
                                            lens.fy * scale * b + lens.cy};
}

__device__ float pixel(const Problem& p, int x, int y) {
    x = min(max(x, 0), p.width - 1);
    y = min(max(y, 0), p.height - 1);
    return float(p.frame[std::size_t(y) * p.width + x]);
}

__device__ float sampled(const Problem& p, float x, float y) {
    const float left = floorf(x), top = floorf(y);
    const float right_share = x - left, bottom_share = y - top;
    const int i = int(left), j = int(top);
    const float upper = pixel(p, i, j) * (1.0f - right_share) + pixel(p, i + 1, j) * right_share;
    const float lower =
        pixel(p, i, j + 1) * (1.0f - right_share) + pixel(p, i + 1, j + 1) * right_share;
    return upper * (1.0f - bottom_share) + lower * bottom_share;
}

__global__ void __launch_bounds__(kTileX* kTileY) rectify(Problem p) {
    const int u = blockIdx.x * kTileX + threadIdx.x;
    const int v = blockIdx.y * kTileY + threadIdx.y;
    if (u >= p.view_width || v >= p.view_height) return;
    const auto place = place_in_frame(p.lens, p.view, u + 0.5f, v + 0.5f);
    p.picture[std::size_t(v) * p.view_width + u] = sampled(p, float(place.x), float(place.y));
}

}  // namespace

void prepare(const Shape&) {}

void launch(const Problem& problem, cudaStream_t stream) {
    const dim3 block(kTileX, kTileY);
    const dim3 grid((problem.view_width + kTileX - 1) / kTileX,
                    (problem.view_height + kTileY - 1) / kTileY);
    rectify<<<grid, block, 0, stream>>>(problem);
}
