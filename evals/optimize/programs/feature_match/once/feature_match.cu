// Finds how the camera moved between two views: corners over a pyramid, descriptors of the gradients
// around them, nearest neighbours both ways, and a similarity transform that most matches agree with.
//
// Blurs go along rows and columns in turn. Descriptors lie in an array of their own and have length 1,
// so that a scalar product gives the distance.

#include "../setup.h"

constexpr int kTile = 32;  // of the distance matrix

struct Candidate {
    float response;
    int x, y, level;
};

struct Pyramid {
    int width[kLevels], height[kLevels];
    float* image[kLevels];
    float* gx[kLevels];
    float* gy[kLevels];
};

// Arrays that one level needs and the next uses again.
struct Scratch {
    unsigned char* view;
    Candidate* candidates;
    int* count;
    float *raw, *rows, *xx, *yy, *xy, *response;
};

__constant__ float smooth_weights[2 * kSmoothRadius + 1];
__constant__ float window_weights[2 * kWindowRadius + 1];

__global__ void to_gray(const unsigned char* __restrict__ view, int pixels, float* __restrict__ gray) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= pixels) return;
    gray[i] = (0.299f * view[3 * i] + 0.587f * view[3 * i + 1] + 0.114f * view[3 * i + 2]) * (1.0f / 255.0f);
}

template <int kRadius>
__device__ float weight_of(int k) {
    return kRadius == kSmoothRadius ? smooth_weights[k] : window_weights[k];
}

// Weighted means along rows or columns; at the borders the outermost pixels go on.
template <int kRadius>
__global__ void blur_rows(const float* __restrict__ in, int width, int height, float* __restrict__ out) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    float sum = 0.0f;
#pragma unroll
    for (int d = -kRadius; d <= kRadius; ++d)
        sum += weight_of<kRadius>(d + kRadius) * in[y * width + min(max(x + d, 0), width - 1)];
    out[y * width + x] = sum;
}

template <int kRadius>
__global__ void blur_columns(const float* __restrict__ in, int width, int height, float* __restrict__ out) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    float sum = 0.0f;
#pragma unroll
    for (int d = -kRadius; d <= kRadius; ++d)
        sum += weight_of<kRadius>(d + kRadius) * in[min(max(y + d, 0), height - 1) * width + x];
    out[y * width + x] = sum;
}

// Gradient of the image and its products.
__global__ void gradient_products(const float* __restrict__ image, int width, int height, float* __restrict__ gx,
                                  float* __restrict__ gy, float* __restrict__ xx, float* __restrict__ yy,
                                  float* __restrict__ xy) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    int left = max(x - 1, 0), right = min(x + 1, width - 1);
    int up = max(y - 1, 0), down = min(y + 1, height - 1);
    float dx = 0.5f * (image[y * width + right] - image[y * width + left]);
    float dy = 0.5f * (image[down * width + x] - image[up * width + x]);
    int i = y * width + x;
    gx[i] = dx;
    gy[i] = dy;
    xx[i] = dx * dx;
    yy[i] = dy * dy;
    xy[i] = dx * dy;
}

__global__ void corner_response(const float* __restrict__ xx, const float* __restrict__ yy,
                                const float* __restrict__ xy, int count, float* __restrict__ response) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    float trace = xx[i] + yy[i];
    response[i] = xx[i] * yy[i] - xy[i] * xy[i] - kHarris * trace * trace;
}

// Corners: the highest response within a square, above the threshold.
__global__ void collect_maxima(const float* __restrict__ response, int width, int height, int level,
                               Candidate* __restrict__ candidates, int* __restrict__ count) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < kBorder || y < kBorder || x >= width - kBorder || y >= height - kBorder) return;
    float here = response[y * width + x];
    if (here <= kThreshold) return;
    for (int dy = -kMaximumRadius; dy <= kMaximumRadius; ++dy) {
        for (int dx = -kMaximumRadius; dx <= kMaximumRadius; ++dx) {
            if (dx == 0 && dy == 0) continue;
            if (response[(y + dy) * width + x + dx] >= here) return;
        }
    }
    int place = atomicAdd(count, 1);
    if (place < kCandidates) candidates[place] = {here, x, y, level};
}

__global__ void downsample(const float* __restrict__ in, int in_width, int width, int height, float* __restrict__ out) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    const float* corner = in + 2 * y * in_width + 2 * x;
    out[y * width + x] = 0.25f * (corner[0] + corner[1] + corner[in_width] + corner[in_width + 1]);
}

__device__ bool stronger(Candidate a, Candidate b) {
    if (a.response != b.response) return a.response > b.response;
    if (a.level != b.level) return a.level < b.level;
    if (a.y != b.y) return a.y < b.y;
    return a.x < b.x;
}

// The rank of a candidate is the number of stronger ones.
__global__ void rank_features(const Candidate* __restrict__ candidates, int count, int limit,
                              Candidate* __restrict__ features) {
    __shared__ Candidate tile[128];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    Candidate own = candidates[min(i, count - 1)];
    int rank = 0;
    for (int first = 0; first < count; first += blockDim.x) {
        int j = first + threadIdx.x;
        if (j < count) tile[threadIdx.x] = candidates[j];
        __syncthreads();
        int last = min((int)blockDim.x, count - first);
        for (int k = 0; k < last; ++k) {
            if (stronger(tile[k], own)) rank++;
        }
        __syncthreads();
    }
    if (i < count && rank < limit) features[rank] = own;
}

// Direction of most of the gradients around the feature, then histograms of their directions relative
// to it in 4 x 4 cells. A block for each feature.
__global__ void describe(Pyramid pyramid, const Candidate* __restrict__ features, float* __restrict__ descriptors) {
    __shared__ float angles[kAngles];
    __shared__ float cells[kDescriptor];
    __shared__ float angle;
    Candidate feature = features[blockIdx.x];
    int width = pyramid.width[feature.level];
    const float* __restrict__ gx = pyramid.gx[feature.level];
    const float* __restrict__ gy = pyramid.gy[feature.level];
    for (int k = threadIdx.x; k < kAngles; k += blockDim.x) angles[k] = 0.0f;
    for (int k = threadIdx.x; k < kDescriptor; k += blockDim.x) cells[k] = 0.0f;
    __syncthreads();
    for (int s = threadIdx.x; s < 17 * 17; s += blockDim.x) {
        int dx = s % 17 - 8, dy = s / 17 - 8;
        int at = (feature.y + dy) * width + feature.x + dx;
        float strength = sqrtf(gx[at] * gx[at] + gy[at] * gy[at]);
        float weight = expf(-(dx * dx + dy * dy) / 32.0f);
        float direction = atan2f(gy[at], gx[at]) * (kAngles / (2.0f * (float)M_PI));
        int bin = (int)floorf(direction + kAngles) % kAngles;
        atomicAdd(&angles[bin], weight * strength);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        int peak = 0;
        for (int k = 1; k < kAngles; ++k) {
            if (angles[k] > angles[peak]) peak = k;
        }
        float before = angles[(peak + kAngles - 1) % kAngles], after = angles[(peak + 1) % kAngles];
        float bend = before - 2.0f * angles[peak] + after;
        float shift = bend != 0.0f ? 0.5f * (before - after) / bend : 0.0f;
        angle = (peak + 0.5f + shift) / kAngles * 2.0f * (float)M_PI;
    }
    __syncthreads();
    float c = cosf(angle), sn = sinf(angle);
    for (int s = threadIdx.x; s < 16 * 16; s += blockDim.x) {
        int u = s % 16, v = s / 16;
        float ou = u - 7.5f, ov = v - 7.5f;
        int x = feature.x + (int)rintf(c * ou - sn * ov);
        int y = feature.y + (int)rintf(sn * ou + c * ov);
        int at = y * width + x;
        float strength = sqrtf(gx[at] * gx[at] + gy[at] * gy[at]);
        float weight = expf(-(ou * ou + ov * ov) / 128.0f);
        float direction = (atan2f(gy[at], gx[at]) - angle) * (8.0f / (2.0f * (float)M_PI)) + 16.0f;
        int low = (int)floorf(direction);
        float part = direction - low;
        int cell = (v / 4 * 4 + u / 4) * 8;
        atomicAdd(&cells[cell + low % 8], weight * strength * (1.0f - part));
        atomicAdd(&cells[cell + (low + 1) % 8], weight * strength * part);
    }
    __syncthreads();
    for (int k = threadIdx.x; k < kDescriptor; k += blockDim.x)
        descriptors[blockIdx.x * kDescriptor + k] = cells[k];
}

// Length 1, without values above the clip, and length 1 again. A warp for each descriptor.
__global__ void normalise(float* descriptors, int count) {
    int i = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    int lane = threadIdx.x % 32;
    if (i >= count) return;
    float* row = descriptors + i * kDescriptor;
    for (int pass = 0; pass < 2; ++pass) {
        float length = 0.0f;
        for (int k = lane; k < kDescriptor; k += 32) length += row[k] * row[k];
        for (int offset = 16; offset > 0; offset /= 2) length += __shfl_xor_sync(0xffffffffu, length, offset);
        float inverse = 1.0f / (sqrtf(length) + 1e-12f);
        for (int k = lane; k < kDescriptor; k += 32) {
            float value = row[k] * inverse;
            row[k] = pass == 0 ? fminf(value, kClip) : value;
        }
    }
}

// Squares of distances between descriptors, in tiles.
__global__ void distance_matrix(const float* __restrict__ first, int rows, const float* __restrict__ second,
                                int columns, float* __restrict__ distances) {
    __shared__ float tile_a[kTile][kTile];
    __shared__ float tile_b[kTile][kTile];
    int j = blockIdx.x * kTile + threadIdx.x;
    int i = blockIdx.y * kTile + threadIdx.y;
    int b_row = blockIdx.x * kTile + threadIdx.y;
    float sum = 0.0f;
    for (int start = 0; start < kDescriptor; start += kTile) {
        tile_a[threadIdx.y][threadIdx.x] = i < rows ? first[i * kDescriptor + start + threadIdx.x] : 0.0f;
        tile_b[threadIdx.y][threadIdx.x] = b_row < columns ? second[b_row * kDescriptor + start + threadIdx.x] : 0.0f;
        __syncthreads();
#pragma unroll
        for (int k = 0; k < kTile; ++k) sum += tile_a[threadIdx.y][k] * tile_b[threadIdx.x][k];
        __syncthreads();
    }
    if (i < rows && j < columns) distances[(size_t)i * columns + j] = fmaxf(2.0f - 2.0f * sum, 0.0f);
}

// A warp for each row.
__global__ void best_in_rows(const float* __restrict__ distances, int rows, int columns, int* __restrict__ nearest,
                             float* __restrict__ best, float* __restrict__ second) {
    int i = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    int lane = threadIdx.x % 32;
    if (i >= rows) return;
    int index = columns;
    float least = 1e30f, next = 1e30f;
    for (int j = lane; j < columns; j += 32) {
        float distance = distances[(size_t)i * columns + j];
        if (distance < least) {
            next = least;
            least = distance;
            index = j;
        } else if (distance < next) {
            next = distance;
        }
    }
    for (int offset = 16; offset > 0; offset /= 2) {
        float other = __shfl_xor_sync(0xffffffffu, least, offset);
        float other_next = __shfl_xor_sync(0xffffffffu, next, offset);
        int other_index = __shfl_xor_sync(0xffffffffu, index, offset);
        next = fminf(fmaxf(least, other), fminf(next, other_next));
        if (other < least || (other == least && other_index < index)) {
            least = other;
            index = other_index;
        }
    }
    if (lane == 0) {
        nearest[i] = index;
        best[i] = least;
        second[i] = next;
    }
}

__global__ void best_in_columns(const float* __restrict__ distances, int rows, int columns,
                                int* __restrict__ nearest) {
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j >= columns) return;
    int index = 0;
    float least = 1e30f;
    for (int i = 0; i < rows; ++i) {
        float distance = distances[(size_t)i * columns + j];
        if (distance < least) {
            least = distance;
            index = i;
        }
    }
    nearest[j] = index;
}

// Number of matches within reach of the transform that two of them give. A block for each hypothesis;
// a match is x, y, x', y'.
__global__ void score_hypotheses(const float4* __restrict__ matches, int count, unsigned seed,
                                 int* __restrict__ agreeing) {
    __shared__ int total;
    if (threadIdx.x == 0) total = 0;
    __syncthreads();
    float4 one = matches[pick(seed, blockIdx.x, 0, count)];
    float4 other = matches[pick(seed, blockIdx.x, 1, count)];
    float a, b, tx, ty;
    int agree = 0;
    if (transform_of_pair({one.x, one.y}, {other.x, other.y}, {one.z, one.w}, {other.z, other.w}, a, b, tx, ty)) {
        for (int m = threadIdx.x; m < count; m += blockDim.x) {
            float4 match = matches[m];
            float dx = a * match.x - b * match.y + tx - match.z;
            float dy = b * match.x + a * match.y + ty - match.w;
            if (sqrtf(dx * dx + dy * dy) < kReach) agree++;
        }
    }
    if (agree > 0) atomicAdd(&total, agree);
    __syncthreads();
    if (threadIdx.x == 0) agreeing[blockIdx.x] = total;
}

// What least squares needs of the matches that agree with a transform.
__global__ void sum_inliers(const float4* __restrict__ matches, int count, Transform t, double* sums) {
    int m = blockIdx.x * blockDim.x + threadIdx.x;
    double value[kSums] = {0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0};
    if (m < count) {
        double x = matches[m].x, y = matches[m].y, u = matches[m].z, v = matches[m].w;
        double dx = t.a * x - t.b * y + t.tx - u;
        double dy = t.b * x + t.a * y + t.ty - v;
        if (sqrt(dx * dx + dy * dy) < kReach) {
            value[0] = 1.0;
            value[1] = x;
            value[2] = y;
            value[3] = u;
            value[4] = v;
            value[5] = x * x + y * y;
            value[6] = x * u + y * v;
            value[7] = x * v - y * u;
        }
    }
#pragma unroll
    for (int k = 0; k < kSums; ++k) {
        for (int offset = 16; offset > 0; offset /= 2)
            value[k] += __shfl_down_sync(0xffffffffu, value[k], offset);
        if (threadIdx.x % 32 == 0) atomicAdd(&sums[k], value[k]);
    }
}

static dim3 blocks_for(int width, int height, dim3 block) {
    return dim3((width + block.x - 1) / block.x, (height + block.y - 1) / block.y);
}

static std::vector<float> gaussian_weights(int radius, float sigma) {
    std::vector<float> weights;
    float sum = 0.0f;
    for (int d = -radius; d <= radius; ++d) {
        weights.push_back(std::exp(-(d * d) / (2.0f * sigma * sigma)));
        sum += weights.back();
    }
    for (float& weight : weights) weight /= sum;
    return weights;
}

// Corners and gradients of all levels of a view; returns how many features there are.
static int detect(const Options& options, const std::vector<unsigned char>& view, const Pyramid& pyramid,
                  const Scratch& scratch, Candidate* d_features) {
    dim3 block(32, 8);
    CUDA_CHECK(cudaMemcpy(scratch.view, view.data(), view.size(), cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemset(scratch.count, 0, sizeof(int)));
    for (int level = 0; level < kLevels; ++level) {
        int width = pyramid.width[level], height = pyramid.height[level], pixels = width * height;
        dim3 blocks = blocks_for(width, height, block);
        int lines = (pixels + 255) / 256;
        if (level == 0) {
            to_gray<<<lines, 256>>>(scratch.view, pixels, scratch.raw);
        } else {
            downsample<<<blocks, block>>>(pyramid.image[level - 1], pyramid.width[level - 1], width, height, scratch.raw);
        }
        CUDA_CHECK(cudaGetLastError());
        blur_rows<kSmoothRadius><<<blocks, block>>>(scratch.raw, width, height, scratch.rows);
        CUDA_CHECK(cudaGetLastError());
        blur_columns<kSmoothRadius><<<blocks, block>>>(scratch.rows, width, height, pyramid.image[level]);
        CUDA_CHECK(cudaGetLastError());
        gradient_products<<<blocks, block>>>(pyramid.image[level], width, height, pyramid.gx[level], pyramid.gy[level],
                                             scratch.xx, scratch.yy, scratch.xy);
        CUDA_CHECK(cudaGetLastError());
        for (float* product : {scratch.xx, scratch.yy, scratch.xy}) {
            blur_rows<kWindowRadius><<<blocks, block>>>(product, width, height, scratch.rows);
            CUDA_CHECK(cudaGetLastError());
            blur_columns<kWindowRadius><<<blocks, block>>>(scratch.rows, width, height, product);
            CUDA_CHECK(cudaGetLastError());
        }
        corner_response<<<lines, 256>>>(scratch.xx, scratch.yy, scratch.xy, pixels, scratch.response);
        CUDA_CHECK(cudaGetLastError());
        collect_maxima<<<blocks, block>>>(scratch.response, width, height, level, scratch.candidates, scratch.count);
        CUDA_CHECK(cudaGetLastError());
    }
    int count;
    CUDA_CHECK(cudaMemcpy(&count, scratch.count, sizeof(int), cudaMemcpyDeviceToHost));
    if (count > kCandidates || count < 2) {
        std::fprintf(stderr, "%d corners: not from 2 to %d\n", count, kCandidates);
        std::exit(1);
    }
    rank_features<<<(count + 127) / 128, 128>>>(scratch.candidates, count, options.features, d_features);
    CUDA_CHECK(cudaGetLastError());
    return std::min(count, options.features);
}

int main(int argc, char** argv) {
    Options options = parse_options(argc, argv);
    Setup setup = make_setup(options);
    Results results;

    Pyramid pyramids[2];
    Candidate* d_features[2];
    float* d_descriptors[2];
    Scratch scratch;
    size_t pixels = (size_t)options.width * options.height;
    CUDA_CHECK(cudaMalloc(&scratch.view, pixels * 3));
    CUDA_CHECK(cudaMalloc(&scratch.candidates, kCandidates * sizeof(Candidate)));
    CUDA_CHECK(cudaMalloc(&scratch.count, sizeof(int)));
    for (float** array : {&scratch.raw, &scratch.rows, &scratch.xx, &scratch.yy, &scratch.xy, &scratch.response})
        CUDA_CHECK(cudaMalloc(array, pixels * sizeof(float)));
    std::vector<float> smooth = gaussian_weights(kSmoothRadius, kSmoothSigma);
    std::vector<float> window = gaussian_weights(kWindowRadius, kWindowSigma);
    CUDA_CHECK(cudaMemcpyToSymbol(smooth_weights, smooth.data(), smooth.size() * sizeof(float)));
    CUDA_CHECK(cudaMemcpyToSymbol(window_weights, window.data(), window.size() * sizeof(float)));
    for (int view = 0; view < 2; ++view) {
        for (int level = 0; level < kLevels; ++level) {
            int width = options.width >> level, height = options.height >> level;
            pyramids[view].width[level] = width;
            pyramids[view].height[level] = height;
            CUDA_CHECK(cudaMalloc(&pyramids[view].image[level], (size_t)width * height * sizeof(float)));
            CUDA_CHECK(cudaMalloc(&pyramids[view].gx[level], (size_t)width * height * sizeof(float)));
            CUDA_CHECK(cudaMalloc(&pyramids[view].gy[level], (size_t)width * height * sizeof(float)));
        }
        CUDA_CHECK(cudaMalloc(&d_features[view], options.features * sizeof(Candidate)));
        CUDA_CHECK(cudaMalloc(&d_descriptors[view], (size_t)options.features * kDescriptor * sizeof(float)));
    }

    cudaEvent_t start, stop;
    CUDA_CHECK(cudaEventCreate(&start));
    CUDA_CHECK(cudaEventCreate(&stop));
    CUDA_CHECK(cudaEventRecord(start));

    int count[2];
    for (int view = 0; view < 2; ++view) {
        count[view] = detect(options, setup.views[view], pyramids[view], scratch, d_features[view]);
        describe<<<count[view], 64>>>(pyramids[view], d_features[view], d_descriptors[view]);
        CUDA_CHECK(cudaGetLastError());
        normalise<<<(count[view] + 7) / 8, 256>>>(d_descriptors[view], count[view]);
        CUDA_CHECK(cudaGetLastError());
        std::vector<Candidate> features(count[view]);
        CUDA_CHECK(cudaMemcpy(features.data(), d_features[view], count[view] * sizeof(Candidate), cudaMemcpyDeviceToHost));
        for (const Candidate& f : features) {
            results.found[view].insert(results.found[view].end(), {f.x, f.y, f.level});
            results.response[view].push_back(f.response);
        }
    }

    int rows = count[0], columns = count[1];
    float *d_distances, *d_best, *d_second;
    int *d_nearest, *d_back;
    CUDA_CHECK(cudaMalloc(&d_distances, (size_t)rows * columns * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&d_best, rows * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&d_second, rows * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&d_nearest, rows * sizeof(int)));
    CUDA_CHECK(cudaMalloc(&d_back, columns * sizeof(int)));
    dim3 block(kTile, kTile);
    distance_matrix<<<blocks_for(columns, rows, block), block>>>(d_descriptors[0], rows, d_descriptors[1], columns,
                                                                 d_distances);
    CUDA_CHECK(cudaGetLastError());
    best_in_rows<<<(rows + 7) / 8, 256>>>(d_distances, rows, columns, d_nearest, d_best, d_second);
    CUDA_CHECK(cudaGetLastError());
    best_in_columns<<<(columns + 127) / 128, 128>>>(d_distances, rows, columns, d_back);
    CUDA_CHECK(cudaGetLastError());
    results.forward.index.resize(rows);
    results.forward.distance.resize(rows);
    results.forward.second.resize(rows);
    results.back.resize(columns);
    CUDA_CHECK(cudaMemcpy(results.forward.index.data(), d_nearest, rows * sizeof(int), cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaMemcpy(results.forward.distance.data(), d_best, rows * sizeof(float), cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaMemcpy(results.forward.second.data(), d_second, rows * sizeof(float), cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaMemcpy(results.back.data(), d_back, columns * sizeof(int), cudaMemcpyDeviceToHost));
    results.matches = select_matches(results.forward, results.back);
    int matched = (int)results.matches.size() / 2;
    if (matched < 2) {
        std::fprintf(stderr, "%d matches are too few\n", matched);
        return 1;
    }
    std::vector<float4> matches(matched);
    for (int m = 0; m < matched; ++m) {
        Place from = place_of(results.found[0], results.matches[2 * m]);
        Place to = place_of(results.found[1], results.matches[2 * m + 1]);
        matches[m] = make_float4(from.x, from.y, to.x, to.y);
    }

    float4* d_matches;
    int* d_agreeing;
    double* d_sums;
    CUDA_CHECK(cudaMalloc(&d_matches, matched * sizeof(float4)));
    CUDA_CHECK(cudaMalloc(&d_agreeing, options.hypotheses * sizeof(int)));
    CUDA_CHECK(cudaMalloc(&d_sums, kSums * sizeof(double)));
    CUDA_CHECK(cudaMemcpy(d_matches, matches.data(), matched * sizeof(float4), cudaMemcpyHostToDevice));
    score_hypotheses<<<options.hypotheses, 128>>>(d_matches, matched, (unsigned)options.seed, d_agreeing);
    CUDA_CHECK(cudaGetLastError());
    results.agreeing.resize(options.hypotheses);
    CUDA_CHECK(cudaMemcpy(results.agreeing.data(), d_agreeing, options.hypotheses * sizeof(int), cudaMemcpyDeviceToHost));
    int best = (int)(std::max_element(results.agreeing.begin(), results.agreeing.end()) - results.agreeing.begin());
    const float4& one = matches[pick((unsigned)options.seed, best, 0, matched)];
    const float4& other = matches[pick((unsigned)options.seed, best, 1, matched)];
    float a = 1.0f, b = 0.0f, tx = 0.0f, ty = 0.0f;
    transform_of_pair({one.x, one.y}, {other.x, other.y}, {one.z, one.w}, {other.z, other.w}, a, b, tx, ty);
    results.transform = {a, b, tx, ty};
    for (int round = 0; round < kRefinements; ++round) {
        double sums[kSums];
        CUDA_CHECK(cudaMemset(d_sums, 0, sizeof(sums)));
        sum_inliers<<<(matched + 127) / 128, 128>>>(d_matches, matched, results.transform, d_sums);
        CUDA_CHECK(cudaGetLastError());
        CUDA_CHECK(cudaMemcpy(sums, d_sums, sizeof(sums), cudaMemcpyDeviceToHost));
        results.inliers = (int)sums[0];
        if (results.inliers < 2) break;
        results.transform = fit_transform(sums);
    }

    CUDA_CHECK(cudaEventRecord(stop));
    CUDA_CHECK(cudaEventSynchronize(stop));
    float elapsed;
    CUDA_CHECK(cudaEventElapsedTime(&elapsed, start, stop));
    std::printf("%d and %d features, %d matches, %d agree: %.3f ms\n", rows, columns, matched, results.inliers, elapsed);
    for (int view = 0; view < 2; ++view) {
        results.descriptors[view].resize((size_t)count[view] * kDescriptor);
        CUDA_CHECK(cudaMemcpy(results.descriptors[view].data(), d_descriptors[view],
                              results.descriptors[view].size() * sizeof(float), cudaMemcpyDeviceToHost));
    }
    if (!options.out.empty()) write_results(options, setup, results);

    CUDA_CHECK(cudaEventDestroy(start));
    CUDA_CHECK(cudaEventDestroy(stop));
    for (int view = 0; view < 2; ++view) {
        for (int level = 0; level < kLevels; ++level) {
            CUDA_CHECK(cudaFree(pyramids[view].image[level]));
            CUDA_CHECK(cudaFree(pyramids[view].gx[level]));
            CUDA_CHECK(cudaFree(pyramids[view].gy[level]));
        }
        CUDA_CHECK(cudaFree(d_features[view]));
        CUDA_CHECK(cudaFree(d_descriptors[view]));
    }
    CUDA_CHECK(cudaFree(scratch.view));
    CUDA_CHECK(cudaFree(scratch.candidates));
    CUDA_CHECK(cudaFree(scratch.count));
    for (float* array : {scratch.raw, scratch.rows, scratch.xx, scratch.yy, scratch.xy, scratch.response})
        CUDA_CHECK(cudaFree(array));
    for (float* array : {d_distances, d_best, d_second}) CUDA_CHECK(cudaFree(array));
    for (int* array : {d_nearest, d_back, d_agreeing}) CUDA_CHECK(cudaFree(array));
    CUDA_CHECK(cudaFree(d_matches));
    CUDA_CHECK(cudaFree(d_sums));
    return 0;
}
