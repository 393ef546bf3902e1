// Projection of a volume along parallel rays: this file may be changed.
#include "task.h"

namespace {

constexpr int kThreads = 256;
constexpr int kBlocksPerSm = 8;

int grid_blocks = 0;

__device__ bool inside(const Problem& p, float x, float y, float z) {
    const float last = float(p.size - 1);
    return x >= 0.0f && y >= 0.0f && x < last && y < last && z < last;
}

__device__ float mixed(float a, float b, float share) { return a + share * (b - a); }

// Density between the eight voxels around a place.
__device__ float sample(const Problem& p, float x, float y, float z) {
    const int i = int(x), j = int(y), k = int(z);
    const float fx = x - i, fy = y - j, fz = z - k;
    const int row = p.size, layer = p.size * p.size;
    const float* v = p.density + (k * layer + j * row + i);
    const float near_low = mixed(v[0], v[1], fx);
    const float near_high = mixed(v[row], v[row + 1], fx);
    const float far_low = mixed(v[layer], v[layer + 1], fx);
    const float far_high = mixed(v[layer + row], v[layer + row + 1], fx);
    return mixed(mixed(near_low, near_high, fy), mixed(far_low, far_high, fy), fz);
}

__device__ bool is_empty(const Problem& p, float x, float y, float z) {
    const int bricks = p.size / kBrick;
    const int i = int(x) / kBrick, j = int(y) / kBrick, k = int(z) / kBrick;
    return p.empty[(k * bricks + j) * bricks + i] != 0;
}

// Along z, how far a brick reaches from a place in it, for a ray that moves by `slope` per voxel.
__device__ float way_out(float place, float slope) {
    const float begin = floorf(place / kBrick) * kBrick;
    if (slope > 0.0f) return (begin + kBrick - place) / slope;
    if (slope < 0.0f) return (begin - place) / slope;
    return 1e9f;
}

// Samples until the ray has left the brick that it is in, at least one.
__device__ int samples_to_skip(const Problem& p, float x, float y, float z) {
    const float way = fminf(way_out(z, 1.0f), fminf(way_out(x, p.slope_x), way_out(y, p.slope_y)));
    return max(1, int(way / p.step));
}

__device__ float ray(const Problem& p, float x0, float y0) {
    float sum = 0.0f;
    const int samples = int(float(p.size - 1) / p.step);
    for (int s = 0; s < samples;) {
        const float z = (s + 0.5f) * p.step;
        const float x = x0 + p.slope_x * z, y = y0 + p.slope_y * z;
        if (!inside(p, x, y, z)) {
            ++s;
        } else if (is_empty(p, x, y, z)) {
            s += samples_to_skip(p, x, y, z);
        } else {
            sum += sample(p, x, y, z);
            ++s;
        }
    }
    return expf(-p.absorption * sum);
}

// Blocks take runs of rays in turn, so that costly parts of the picture fall to all of them.
__global__ void __launch_bounds__(kThreads) project(Problem p) {
    const int rays = p.width * p.height;
    for (int id = blockIdx.x * kThreads + threadIdx.x; id < rays; id += gridDim.x * kThreads) {
        const float x = (id % p.width + 0.5f) * p.size / p.width;
        const float y = (id / p.width + 0.5f) * p.size / p.height;
        p.light[id] = ray(p, x, y);
    }
}

}  // namespace

void prepare(const Shape&) {
    int device = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&grid_blocks, cudaDevAttrMultiProcessorCount, device);
    grid_blocks *= kBlocksPerSm;
}

void launch(const Problem& problem, cudaStream_t stream) {
    project<<<grid_blocks, kThreads, 0, stream>>>(problem);
}
