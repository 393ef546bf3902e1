// Finds how the camera moved between two views: corners over a pyramid, descriptors of the gradients
// around them, nearest neighbours both ways, and a similarity transform that most matches agree with.

#include "../setup.h"

struct Candidate {
    float response;
    int x, y, level;
};

// A feature and the descriptor of its surroundings.
struct Feature {
    float response;
    int x, y, level;
    float descriptor[kDescriptor];
};

struct Match {
    Place from, to;
};

struct Pyramid {
    int width[kLevels], height[kLevels];
    float* image[kLevels];
    float* gx[kLevels];
    float* gy[kLevels];
};

__global__ void to_gray(const unsigned char* view, int width, int height, float* gray) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    int i = y * width + x;
    gray[i] = (0.299 * view[3 * i] + 0.587 * view[3 * i + 1] + 0.114 * view[3 * i + 2]) / 255.0;
}

// Weighted mean of the pixels around; at the borders the outermost pixels go on.
__global__ void gaussian_blur(const float* in, int width, int height, int radius, float sigma, float* out) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    float sum = 0.0f, weights = 0.0f;
    for (int dy = -radius; dy <= radius; ++dy) {
        for (int dx = -radius; dx <= radius; ++dx) {
            float weight = expf(-(dx * dx + dy * dy) / (2.0f * sigma * sigma));
            int sx = min(max(x + dx, 0), width - 1);
            int sy = min(max(y + dy, 0), height - 1);
            sum += weight * in[sy * width + sx];
            weights += weight;
        }
    }
    out[y * width + x] = sum / weights;
}

__global__ void gradient(const float* image, int width, int height, float* gx, float* gy) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    int left = max(x - 1, 0), right = min(x + 1, width - 1);
    int up = max(y - 1, 0), down = min(y + 1, height - 1);
    gx[y * width + x] = 0.5f * (image[y * width + right] - image[y * width + left]);
    gy[y * width + x] = 0.5f * (image[down * width + x] - image[up * width + x]);
}

__global__ void multiply(const float* a, const float* b, int count, float* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) out[i] = a[i] * b[i];
}

__global__ void corner_response(const float* xx, const float* yy, const float* xy, int count, float* response) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    response[i] = xx[i] * yy[i] - pow(xy[i], 2.0) - kHarris * pow(xx[i] + yy[i], 2.0);
}

// Corners: the highest response within a square, above the threshold.
__global__ void collect_maxima(const float* response, int width, int height, int level, Candidate* candidates,
                               int* count) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < kBorder || y < kBorder || x >= width - kBorder || y >= height - kBorder) return;
    bool highest = true;
    for (int dy = -kMaximumRadius; dy <= kMaximumRadius; ++dy) {
        for (int dx = -kMaximumRadius; dx <= kMaximumRadius; ++dx) {
            if (dx == 0 && dy == 0) continue;
            if (response[(y + dy) * width + x + dx] >= response[y * width + x]) highest = false;
        }
    }
    if (highest && response[y * width + x] > kThreshold) {
        int place = atomicAdd(count, 1);
        if (place < kCandidates) candidates[place] = {response[y * width + x], x, y, level};
    }
}

__global__ void downsample(const float* in, int in_width, int width, int height, float* out) {
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
__global__ void rank_features(const Candidate* candidates, int count, int limit, Feature* features) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    int rank = 0;
    for (int j = 0; j < count; ++j) {
        if (stronger(candidates[j], candidates[i])) rank++;
    }
    if (rank < limit) {
        features[rank].response = candidates[i].response;
        features[rank].x = candidates[i].x;
        features[rank].y = candidates[i].y;
        features[rank].level = candidates[i].level;
    }
}

// Direction of most of the gradients around the feature, then histograms of their directions relative
// to it in 4 x 4 cells.
__global__ void describe(Pyramid pyramid, Feature* features, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    int level = features[i].level;
    int width = pyramid.width[level];
    const float* gx = pyramid.gx[level];
    const float* gy = pyramid.gy[level];

    float angles[kAngles];
    for (int k = 0; k < kAngles; ++k) angles[k] = 0.0f;
    for (int dy = -8; dy <= 8; ++dy) {
        for (int dx = -8; dx <= 8; ++dx) {
            int at = (features[i].y + dy) * width + features[i].x + dx;
            float strength = sqrt(pow(gx[at], 2.0) + pow(gy[at], 2.0));
            float weight = exp(-(dx * dx + dy * dy) / 32.0);
            float direction = atan2f(gy[at], gx[at]) / (2.0 * M_PI) * kAngles;
            int bin = (int)floorf(direction + kAngles) % kAngles;
            angles[bin] += weight * strength;
        }
    }
    int peak = 0;
    for (int k = 1; k < kAngles; ++k) {
        if (angles[k] > angles[peak]) peak = k;
    }
    float before = angles[(peak + kAngles - 1) % kAngles], after = angles[(peak + 1) % kAngles];
    float bend = before - 2.0f * angles[peak] + after;
    float shift = bend != 0.0f ? 0.5f * (before - after) / bend : 0.0f;
    float angle = (peak + 0.5f + shift) / kAngles * 2.0f * (float)M_PI;

    float cells[kDescriptor];
    for (int k = 0; k < kDescriptor; ++k) cells[k] = 0.0f;
    for (int v = 0; v < 16; ++v) {
        for (int u = 0; u < 16; ++u) {
            float ou = u - 7.5f, ov = v - 7.5f;
            int x = features[i].x + (int)rintf(cosf(angle) * ou - sinf(angle) * ov);
            int y = features[i].y + (int)rintf(sinf(angle) * ou + cosf(angle) * ov);
            int at = y * width + x;
            float strength = sqrt(pow(gx[at], 2.0) + pow(gy[at], 2.0));
            float weight = exp(-(ou * ou + ov * ov) / 128.0);
            float direction = (atan2f(gy[at], gx[at]) - angle) / (2.0 * M_PI) * 8.0 + 16.0;
            int low = (int)floorf(direction);
            float part = direction - low;
            int cell = (v / 4 * 4 + u / 4) * 8;
            cells[cell + low % 8] += weight * strength * (1.0f - part);
            cells[cell + (low + 1) % 8] += weight * strength * part;
        }
    }
    for (int k = 0; k < kDescriptor; ++k) features[i].descriptor[k] = cells[k];
}

// Length 1, without values above the clip, and length 1 again.
__global__ void normalise(Feature* features, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    for (int pass = 0; pass < 2; ++pass) {
        double length = 0.0;
        for (int k = 0; k < kDescriptor; ++k) {
            length += features[i].descriptor[k] * features[i].descriptor[k];
        }
        length = sqrt(length) + 1e-12;
        for (int k = 0; k < kDescriptor; ++k) {
            features[i].descriptor[k] /= length;
            if (pass == 0 && features[i].descriptor[k] > kClip) features[i].descriptor[k] = kClip;
        }
    }
}

__global__ void distance_matrix(const Feature* first, int rows, const Feature* second, int columns, float* distances) {
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    int i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= rows || j >= columns) return;
    float sum = 0.0f;
    for (int k = 0; k < kDescriptor; ++k) {
        float difference = first[i].descriptor[k] - second[j].descriptor[k];
        sum += difference * difference;
    }
    distances[i * columns + j] = sum;
}

__global__ void best_in_rows(const float* distances, int rows, int columns, int* nearest, float* best, float* second) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows) return;
    nearest[i] = 0;
    best[i] = 1e30f;
    second[i] = 1e30f;
    for (int j = 0; j < columns; ++j) {
        float distance = distances[i * columns + j];
        if (distance < best[i]) {
            second[i] = best[i];
            best[i] = distance;
            nearest[i] = j;
        } else if (distance < second[i]) {
            second[i] = distance;
        }
    }
}

__global__ void best_in_columns(const float* distances, int rows, int columns, int* nearest) {
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j >= columns) return;
    nearest[j] = 0;
    for (int i = 1; i < rows; ++i) {
        if (distances[i * columns + j] < distances[nearest[j] * columns + j]) nearest[j] = i;
    }
}

// Number of matches within reach of the transform that two of them give.
__global__ void score_hypotheses(const Match* matches, int count, int hypotheses, unsigned seed, int* agreeing) {
    int h = blockIdx.x * blockDim.x + threadIdx.x;
    if (h >= hypotheses) return;
    agreeing[h] = 0;
    Match one = matches[pick(seed, h, 0, count)];
    Match other = matches[pick(seed, h, 1, count)];
    float a, b, tx, ty;
    if (!transform_of_pair(one.from, other.from, one.to, other.to, a, b, tx, ty)) return;
    for (int m = 0; m < count; ++m) {
        float dx = a * matches[m].from.x - b * matches[m].from.y + tx - matches[m].to.x;
        float dy = b * matches[m].from.x + a * matches[m].from.y + ty - matches[m].to.y;
        if (sqrt(pow(dx, 2.0) + pow(dy, 2.0)) < kReach) agreeing[h] += 1;
    }
}

// What least squares needs of the matches that agree with a transform.
__global__ void sum_inliers(const Match* matches, int count, Transform t, double* sums) {
    int m = blockIdx.x * blockDim.x + threadIdx.x;
    if (m >= count) return;
    double x = matches[m].from.x, y = matches[m].from.y, u = matches[m].to.x, v = matches[m].to.y;
    double dx = t.a * x - t.b * y + t.tx - u;
    double dy = t.b * x + t.a * y + t.ty - v;
    if (sqrt(dx * dx + dy * dy) >= kReach) return;
    atomicAdd(&sums[0], 1.0);
    atomicAdd(&sums[1], x);
    atomicAdd(&sums[2], y);
    atomicAdd(&sums[3], u);
    atomicAdd(&sums[4], v);
    atomicAdd(&sums[5], x * x + y * y);
    atomicAdd(&sums[6], x * u + y * v);
    atomicAdd(&sums[7], x * v - y * u);
}

static dim3 blocks_for(int width, int height, dim3 block) {
    return dim3((width + block.x - 1) / block.x, (height + block.y - 1) / block.y);
}

// Corners and gradients of all levels of a view; returns how many features there are.
static int detect(const Options& options, const std::vector<unsigned char>& view, Pyramid& pyramid,
                  Feature* d_features) {
    dim3 block(16, 16);
    unsigned char* d_view;
    Candidate* d_candidates;
    int* d_count;
    CUDA_CHECK(cudaMalloc(&d_view, view.size()));
    CUDA_CHECK(cudaMalloc(&d_candidates, kCandidates * sizeof(Candidate)));
    CUDA_CHECK(cudaMalloc(&d_count, sizeof(int)));
    CUDA_CHECK(cudaMemcpy(d_view, view.data(), view.size(), cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemset(d_count, 0, sizeof(int)));

    for (int level = 0; level < kLevels; ++level) {
        int width = pyramid.width[level], height = pyramid.height[level], pixels = width * height;
        dim3 blocks = blocks_for(width, height, block);
        int lines = (pixels + 255) / 256;
        float *d_raw, *d_xx, *d_yy, *d_xy, *d_wxx, *d_wyy, *d_wxy, *d_response;
        for (float** array : {&d_raw, &d_xx, &d_yy, &d_xy, &d_wxx, &d_wyy, &d_wxy, &d_response})
            CUDA_CHECK(cudaMalloc(array, pixels * sizeof(float)));

        if (level == 0) {
            to_gray<<<blocks, block>>>(d_view, width, height, d_raw);
        } else {
            downsample<<<blocks, block>>>(pyramid.image[level - 1], pyramid.width[level - 1], width, height, d_raw);
        }
        CUDA_CHECK(cudaGetLastError());
        gaussian_blur<<<blocks, block>>>(d_raw, width, height, kSmoothRadius, kSmoothSigma, pyramid.image[level]);
        CUDA_CHECK(cudaGetLastError());
        gradient<<<blocks, block>>>(pyramid.image[level], width, height, pyramid.gx[level], pyramid.gy[level]);
        CUDA_CHECK(cudaGetLastError());
        multiply<<<lines, 256>>>(pyramid.gx[level], pyramid.gx[level], pixels, d_xx);
        CUDA_CHECK(cudaGetLastError());
        multiply<<<lines, 256>>>(pyramid.gy[level], pyramid.gy[level], pixels, d_yy);
        CUDA_CHECK(cudaGetLastError());
        multiply<<<lines, 256>>>(pyramid.gx[level], pyramid.gy[level], pixels, d_xy);
        CUDA_CHECK(cudaGetLastError());
        gaussian_blur<<<blocks, block>>>(d_xx, width, height, kWindowRadius, kWindowSigma, d_wxx);
        CUDA_CHECK(cudaGetLastError());
        gaussian_blur<<<blocks, block>>>(d_yy, width, height, kWindowRadius, kWindowSigma, d_wyy);
        CUDA_CHECK(cudaGetLastError());
        gaussian_blur<<<blocks, block>>>(d_xy, width, height, kWindowRadius, kWindowSigma, d_wxy);
        CUDA_CHECK(cudaGetLastError());
        corner_response<<<lines, 256>>>(d_wxx, d_wyy, d_wxy, pixels, d_response);
        CUDA_CHECK(cudaGetLastError());
        collect_maxima<<<blocks, block>>>(d_response, width, height, level, d_candidates, d_count);
        CUDA_CHECK(cudaGetLastError());
        CUDA_CHECK(cudaDeviceSynchronize());
        for (float* array : {d_raw, d_xx, d_yy, d_xy, d_wxx, d_wyy, d_wxy, d_response}) CUDA_CHECK(cudaFree(array));
    }
    int count;
    CUDA_CHECK(cudaMemcpy(&count, d_count, sizeof(int), cudaMemcpyDeviceToHost));
    if (count > kCandidates || count < 2) {
        std::fprintf(stderr, "%d corners: not from 2 to %d\n", count, kCandidates);
        std::exit(1);
    }
    rank_features<<<(count + 127) / 128, 128>>>(d_candidates, count, options.features, d_features);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaFree(d_view));
    CUDA_CHECK(cudaFree(d_candidates));
    CUDA_CHECK(cudaFree(d_count));
    return std::min(count, options.features);
}

int main(int argc, char** argv) {
    Options options = parse_options(argc, argv);
    Setup setup = make_setup(options);
    Results results;

    Pyramid pyramids[2];
    Feature* d_features[2];
    for (int view = 0; view < 2; ++view) {
        for (int level = 0; level < kLevels; ++level) {
            int width = options.width >> level, height = options.height >> level;
            pyramids[view].width[level] = width;
            pyramids[view].height[level] = height;
            CUDA_CHECK(cudaMalloc(&pyramids[view].image[level], (size_t)width * height * sizeof(float)));
            CUDA_CHECK(cudaMalloc(&pyramids[view].gx[level], (size_t)width * height * sizeof(float)));
            CUDA_CHECK(cudaMalloc(&pyramids[view].gy[level], (size_t)width * height * sizeof(float)));
        }
        CUDA_CHECK(cudaMalloc(&d_features[view], options.features * sizeof(Feature)));
    }

    cudaEvent_t start, stop;
    CUDA_CHECK(cudaEventCreate(&start));
    CUDA_CHECK(cudaEventCreate(&stop));
    CUDA_CHECK(cudaEventRecord(start));

    int count[2];
    std::vector<Feature> features[2];
    for (int view = 0; view < 2; ++view) {
        count[view] = detect(options, setup.views[view], pyramids[view], d_features[view]);
        describe<<<(count[view] + 31) / 32, 32>>>(pyramids[view], d_features[view], count[view]);
        CUDA_CHECK(cudaGetLastError());
        normalise<<<(count[view] + 31) / 32, 32>>>(d_features[view], count[view]);
        CUDA_CHECK(cudaGetLastError());
        features[view].resize(count[view]);
        CUDA_CHECK(cudaMemcpy(features[view].data(), d_features[view], count[view] * sizeof(Feature), cudaMemcpyDeviceToHost));
        for (const Feature& f : features[view]) {
            results.found[view].insert(results.found[view].end(), {f.x, f.y, f.level});
            results.response[view].push_back(f.response);
            results.descriptors[view].insert(results.descriptors[view].end(), f.descriptor, f.descriptor + kDescriptor);
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
    dim3 block(16, 16);
    distance_matrix<<<blocks_for(columns, rows, block), block>>>(d_features[0], rows, d_features[1], columns, d_distances);
    CUDA_CHECK(cudaGetLastError());
    best_in_rows<<<(rows + 127) / 128, 128>>>(d_distances, rows, columns, d_nearest, d_best, d_second);
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
    std::vector<Match> matches(matched);
    for (int m = 0; m < matched; ++m)
        matches[m] = {place_of(results.found[0], results.matches[2 * m]),
                      place_of(results.found[1], results.matches[2 * m + 1])};

    Match* d_matches;
    int* d_agreeing;
    double* d_sums;
    CUDA_CHECK(cudaMalloc(&d_matches, matched * sizeof(Match)));
    CUDA_CHECK(cudaMalloc(&d_agreeing, options.hypotheses * sizeof(int)));
    CUDA_CHECK(cudaMalloc(&d_sums, kSums * sizeof(double)));
    CUDA_CHECK(cudaMemcpy(d_matches, matches.data(), matched * sizeof(Match), cudaMemcpyHostToDevice));
    score_hypotheses<<<(options.hypotheses + 31) / 32, 32>>>(d_matches, matched, options.hypotheses,
                                                             (unsigned)options.seed, d_agreeing);
    CUDA_CHECK(cudaGetLastError());
    results.agreeing.resize(options.hypotheses);
    CUDA_CHECK(cudaMemcpy(results.agreeing.data(), d_agreeing, options.hypotheses * sizeof(int), cudaMemcpyDeviceToHost));
    int best = (int)(std::max_element(results.agreeing.begin(), results.agreeing.end()) - results.agreeing.begin());
    const Match& one = matches[pick((unsigned)options.seed, best, 0, matched)];
    const Match& other = matches[pick((unsigned)options.seed, best, 1, matched)];
    float a = 1.0f, b = 0.0f, tx = 0.0f, ty = 0.0f;
    transform_of_pair(one.from, other.from, one.to, other.to, a, b, tx, ty);
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
    }
    for (float* array : {d_distances, d_best, d_second}) CUDA_CHECK(cudaFree(array));
    for (int* array : {d_nearest, d_back, d_agreeing}) CUDA_CHECK(cudaFree(array));
    CUDA_CHECK(cudaFree(d_matches));
    CUDA_CHECK(cudaFree(d_sums));
    return 0;
}
