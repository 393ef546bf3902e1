// One step of k-means (Lloyd): the nearest centroid of each point, and the sums from which the new
// centroids follow. Points are rows of 16 floats.
#include "../../harness/book.h"

//: shared
constexpr int kDim = 16;

struct Assign {
    int points, clusters, dim;
    const float* x;          // [point][kDim]
    const float* centroids;  // [cluster][kDim]
    int* label;
    float* distance;  // squared, to the nearest centroid
};

__device__ inline void load_point(const float* __restrict__ x, size_t point, float (&v)[kDim]) {
    for (int j = 0; j < kDim / 4; ++j) {
        const float4 part = reinterpret_cast<const float4*>(x + point * kDim)[j];
        v[4 * j] = part.x, v[4 * j + 1] = part.y, v[4 * j + 2] = part.z, v[4 * j + 3] = part.w;
    }
}

__device__ inline float squared_distance(const float (&v)[kDim], const float (&c)[kDim]) {
    float total = 0;
    for (int d = 0; d < kDim; ++d) {
        const float diff = v[d] - c[d];
        total += diff * diff;
    }
    return total;
}
//: end

//: variant any_dim
__global__ void nearest_any_dim(const float* __restrict__ x, const float* __restrict__ centroids,
                                int* label, float* distance, int points, int clusters, int dim) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= points) return;
    float best = INFINITY;
    int best_k = 0;
    for (int k = 0; k < clusters; ++k) {
        float total = 0;
        for (int d = 0; d < dim; ++d) {
            const float diff = x[size_t(i) * dim + d] - centroids[k * dim + d];
            total += diff * diff;
        }
        if (total < best) best = total, best_k = k;
    }
    label[i] = best_k;
    distance[i] = best;
}

void any_dim(const Assign& a) {
    nearest_any_dim<<<(a.points + 255) / 256, 256>>>(a.x, a.centroids, a.label, a.distance, a.points,
                                                     a.clusters, a.dim);
}
//: end

//: variant point_held
__global__ void nearest_held(const float* __restrict__ x, const float* __restrict__ centroids,
                             int* label, float* distance, int points, int clusters) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= points) return;
    float v[kDim];
    load_point(x, i, v);
    float best = INFINITY;
    int best_k = 0;
    for (int k = 0; k < clusters; ++k) {
        float c[kDim];
        load_point(centroids, k, c);
        const float total = squared_distance(v, c);
        if (total < best) best = total, best_k = k;
    }
    label[i] = best_k;
    distance[i] = best;
}

void point_held(const Assign& a) {
    nearest_held<<<(a.points + 255) / 256, 256>>>(a.x, a.centroids, a.label, a.distance, a.points,
                                                  a.clusters);
}
//: end

//: variant centroids_staged
__global__ void nearest_staged(const float* __restrict__ x, const float* __restrict__ centroids,
                               int* label, float* distance, int points, int clusters) {
    extern __shared__ float staged[];
    for (int j = threadIdx.x; j < clusters * kDim; j += blockDim.x) staged[j] = centroids[j];
    __syncthreads();
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= points) return;
    float v[kDim];
    load_point(x, i, v);
    float best = INFINITY;
    int best_k = 0;
    for (int k = 0; k < clusters; ++k) {
        float c[kDim];
        load_point(staged, k, c);
        const float total = squared_distance(v, c);
        if (total < best) best = total, best_k = k;
    }
    label[i] = best_k;
    distance[i] = best;
}

void centroids_staged(const Assign& a) {
    const size_t bytes = sizeof(float) * a.clusters * kDim;
    nearest_staged<<<(a.points + 255) / 256, 256, bytes>>>(a.x, a.centroids, a.label, a.distance,
                                                           a.points, a.clusters);
}
//: end

//: variant exact_sum
__global__ void nearest_exact(const float* __restrict__ x, const float* __restrict__ centroids,
                              int* label, float* distance, int points, int clusters) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= points) return;
    float v[kDim];
    load_point(x, i, v);
    double best = INFINITY;
    int best_k = 0;
    for (int k = 0; k < clusters; ++k) {
        float c[kDim];
        load_point(centroids, k, c);
        double total = 0;
        for (int d = 0; d < kDim; ++d) {
            const double diff = v[d] - c[d];
            total += diff * diff;
        }
        if (total < best) best = total, best_k = k;
    }
    label[i] = best_k;
    distance[i] = float(best);
}

void exact_sum(const Assign& a) {
    nearest_exact<<<(a.points + 255) / 256, 256>>>(a.x, a.centroids, a.label, a.distance, a.points,
                                                   a.clusters);
}
//: end

//: shared
constexpr int kHeld = 4;  // points of a thread, blockDim.x apart
//: end

//: variant four_points
__global__ void nearest_four(const float* __restrict__ x, const float* __restrict__ centroids,
                             int* label, float* distance, int clusters) {
    extern __shared__ float staged[];
    for (int j = threadIdx.x; j < clusters * kDim; j += blockDim.x) staged[j] = centroids[j];
    __syncthreads();
    const int first = blockIdx.x * kHeld * blockDim.x + threadIdx.x;
    float v[kHeld][kDim], best[kHeld];
    int best_k[kHeld];
    for (int p = 0; p < kHeld; ++p) {
        load_point(x, first + p * blockDim.x, v[p]);
        best[p] = INFINITY;
        best_k[p] = 0;
    }
    for (int k = 0; k < clusters; ++k) {
        float c[kDim];
        load_point(staged, k, c);
        for (int p = 0; p < kHeld; ++p) {
            const float total = squared_distance(v[p], c);
            if (total < best[p]) best[p] = total, best_k[p] = k;
        }
    }
    for (int p = 0; p < kHeld; ++p) {
        label[first + p * blockDim.x] = best_k[p];
        distance[first + p * blockDim.x] = best[p];
    }
}

void four_points(const Assign& a) {
    const size_t bytes = sizeof(float) * a.clusters * kDim;
    nearest_four<<<a.points / (kHeld * 128), 128, bytes>>>(a.x, a.centroids, a.label, a.distance,
                                                           a.clusters);
}
//: end

//: variant four_points_dot
// |v - c|^2 / 2 = |v|^2 / 2 - (v.c - |c|^2 / 2): the largest bracket is the nearest centroid.
__device__ inline float dot_from(float total, const float (&v)[kDim], const float (&c)[kDim]) {
    for (int d = 0; d < kDim; ++d) total += v[d] * c[d];
    return total;
}

__global__ void nearest_four_dot(const float* __restrict__ x, const float* __restrict__ centroids,
                                 int* label, float* distance, int clusters) {
    extern __shared__ float staged[];
    float* half_norm = staged + clusters * kDim;
    for (int j = threadIdx.x; j < clusters * kDim; j += blockDim.x) staged[j] = centroids[j];
    __syncthreads();
    for (int k = threadIdx.x; k < clusters; k += blockDim.x) {
        float c[kDim];
        load_point(staged, k, c);
        half_norm[k] = -0.5f * dot_from(0, c, c);
    }
    __syncthreads();
    const int first = blockIdx.x * kHeld * blockDim.x + threadIdx.x;
    float v[kHeld][kDim], best[kHeld];
    int best_k[kHeld];
    for (int p = 0; p < kHeld; ++p) {
        load_point(x, first + p * blockDim.x, v[p]);
        best[p] = -INFINITY;
        best_k[p] = 0;
    }
    for (int k = 0; k < clusters; ++k) {
        float c[kDim];
        load_point(staged, k, c);
        const float from = half_norm[k];
        for (int p = 0; p < kHeld; ++p) {
            const float total = dot_from(from, v[p], c);
            if (total > best[p]) best[p] = total, best_k[p] = k;
        }
    }
    for (int p = 0; p < kHeld; ++p) {
        float c[kDim];
        load_point(staged, best_k[p], c);
        label[first + p * blockDim.x] = best_k[p];
        distance[first + p * blockDim.x] = squared_distance(v[p], c);
    }
}

void four_points_dot(const Assign& a) {
    const size_t bytes = sizeof(float) * a.clusters * (kDim + 1);
    nearest_four_dot<<<a.points / (kHeld * 128), 128, bytes>>>(a.x, a.centroids, a.label, a.distance,
                                                               a.clusters);
}
//: end

//: shared
// The second half of the step: sum and number of the points of each cluster.
constexpr int kClusters = 32;
constexpr int kSums = kClusters * kDim;

struct Update {
    int points;
    const float* x;
    const int* label;
    float* sums;  // [cluster][kDim]
    int* counts;
};

inline void clear(const Update& u) {
    BOOK_CHECK(cudaMemsetAsync(u.sums, 0, sizeof(float) * kSums));
    BOOK_CHECK(cudaMemsetAsync(u.counts, 0, sizeof(int) * kClusters));
}
//: end

//: variant add_global
__global__ void sums_global(const float* __restrict__ x, const int* __restrict__ label, float* sums,
                            int* counts, int points) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= points) return;
    float v[kDim];
    load_point(x, i, v);
    const int k = label[i];
    for (int d = 0; d < kDim; ++d) atomicAdd(&sums[k * kDim + d], v[d]);
    atomicAdd(&counts[k], 1);
}

void add_global(const Update& u) {
    clear(u);
    sums_global<<<(u.points + 255) / 256, 256>>>(u.x, u.label, u.sums, u.counts, u.points);
}
//: end

//: variant add_block
__global__ void sums_block(const float* __restrict__ x, const int* __restrict__ label, float* sums,
                           int* counts, int points) {
    __shared__ float own[kSums];
    __shared__ int own_counts[kClusters];
    for (int j = threadIdx.x; j < kSums; j += blockDim.x) own[j] = 0;
    if (threadIdx.x < kClusters) own_counts[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < points; i += gridDim.x * blockDim.x) {
        float v[kDim];
        load_point(x, i, v);
        const int k = label[i];
        for (int d = 0; d < kDim; ++d) atomicAdd(&own[k * kDim + d], v[d]);
        atomicAdd(&own_counts[k], 1);
    }
    __syncthreads();
    for (int j = threadIdx.x; j < kSums; j += blockDim.x) atomicAdd(&sums[j], own[j]);
    if (threadIdx.x < kClusters) atomicAdd(&counts[threadIdx.x], own_counts[threadIdx.x]);
}

void add_block(const Update& u) {
    clear(u);
    sums_block<<<132 * 6, 256>>>(u.x, u.label, u.sums, u.counts, u.points);
}
//: end

//: variant lane_dims
// Sixteen lanes take a point, one dimension each, and add to a table of their own.
__global__ void sums_lanes(const float* __restrict__ x, const int* __restrict__ label, float* sums,
                           int* counts, int points) {
    __shared__ float own[16][kSums];
    __shared__ int own_counts[16][kClusters];
    const int team = threadIdx.x / kDim, d = threadIdx.x % kDim;
    for (int j = threadIdx.x; j < 16 * kSums; j += 256) own[0][j] = 0;
    for (int j = threadIdx.x; j < 16 * kClusters; j += 256) own_counts[0][j] = 0;
    __syncthreads();
    for (int i = blockIdx.x * 16 + team; i < points; i += gridDim.x * 16) {
        const float v = x[size_t(i) * kDim + d];
        const int k = label[i];
        own[team][k * kDim + d] += v;
        if (d == 0) ++own_counts[team][k];
    }
    __syncthreads();
    for (int j = threadIdx.x; j < kSums; j += 256) {
        float total = 0;
        for (int t = 0; t < 16; ++t) total += own[t][j];
        atomicAdd(&sums[j], total);
    }
    if (threadIdx.x < kClusters) {
        int total = 0;
        for (int t = 0; t < 16; ++t) total += own_counts[t][threadIdx.x];
        atomicAdd(&counts[threadIdx.x], total);
    }
}

void lane_dims(const Update& u) {
    clear(u);
    sums_lanes<<<132 * 6, 256>>>(u.x, u.label, u.sums, u.counts, u.points);
}
//: end

//: shared
// Sixteen lanes take Ahead points at a time, one dimension each, and add to a table of their own.
template <int Ahead>
__global__ void sums_lanes_ahead(const float* __restrict__ x, const int* __restrict__ label,
                                 float* sums, int* counts, int points) {
    __shared__ float own[16][kSums];
    __shared__ int own_counts[16][kClusters];
    const int team = threadIdx.x / kDim, d = threadIdx.x % kDim;
    for (int j = threadIdx.x; j < 16 * kSums; j += 256) own[0][j] = 0;
    for (int j = threadIdx.x; j < 16 * kClusters; j += 256) own_counts[0][j] = 0;
    __syncthreads();
    const int stride = gridDim.x * 16;
    int i = blockIdx.x * 16 + team;
    for (; i + (Ahead - 1) * stride < points; i += Ahead * stride) {
        float v[Ahead];
        int k[Ahead];
        for (int j = 0; j < Ahead; ++j) v[j] = x[size_t(i + j * stride) * kDim + d];
        for (int j = 0; j < Ahead; ++j) k[j] = label[i + j * stride];
        for (int j = 0; j < Ahead; ++j) {
            own[team][k[j] * kDim + d] += v[j];
            if (d == 0) ++own_counts[team][k[j]];
        }
    }
    for (; i < points; i += stride) {
        own[team][label[i] * kDim + d] += x[size_t(i) * kDim + d];
        if (d == 0) ++own_counts[team][label[i]];
    }
    __syncthreads();
    for (int j = threadIdx.x; j < kSums; j += 256) {
        float total = 0;
        for (int t = 0; t < 16; ++t) total += own[t][j];
        atomicAdd(&sums[j], total);
    }
    if (threadIdx.x < kClusters) {
        int total = 0;
        for (int t = 0; t < 16; ++t) total += own_counts[t][threadIdx.x];
        atomicAdd(&counts[threadIdx.x], total);
    }
}
//: end

//: variant lane_dims_pairs
void lane_dims_pairs(const Update& u) {
    clear(u);
    sums_lanes_ahead<2><<<132 * 6, 256>>>(u.x, u.label, u.sums, u.counts, u.points);
}
//: end

//: variant lane_dims_fours
void lane_dims_fours(const Update& u) {
    clear(u);
    sums_lanes_ahead<4><<<132 * 6, 256>>>(u.x, u.label, u.sums, u.counts, u.points);
}
//: end

__global__ void reference_nearest(Assign a, int* label, float* distance) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < a.points; i += gridDim.x * blockDim.x) {
        double best = 1e300;
        int found = -1;
        for (int k = 0; k < a.clusters; ++k) {
            double total = 0;
            for (int d = 0; d < 16; ++d) {
                const double diff = double(a.x[size_t(i) * 16 + d]) - a.centroids[k * 16 + d];
                total += diff * diff;
            }
            if (total < best) best = total, found = k;
        }
        if (label) label[i] = found;
        if (distance) distance[i] = float(best);
    }
}

// One block per cluster and dimension.
__global__ void reference_sums(Update u, float* sums, int* counts) {
    __shared__ double parts[256];
    __shared__ int numbers[256];
    const int k = blockIdx.x / 16, d = blockIdx.x % 16;
    double total = 0;
    int number = 0;
    for (int i = threadIdx.x; i < u.points; i += 256) {
        if (u.label[i] == k) total += u.x[size_t(i) * 16 + d], ++number;
    }
    parts[threadIdx.x] = total;
    numbers[threadIdx.x] = number;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int t = 1; t < 256; ++t) total += parts[t], number += numbers[t];
        if (sums) sums[blockIdx.x] = float(total);
        if (counts && d == 0) counts[k] = number;
    }
}

Update set_up_update(book::Problem& p, double share_of_first) {
    Update u{1 << 21};
    const uint64_t seed = p.seed();
    u.x = p.uniform<float>(size_t(u.points) * kDim, 0, 1);
    u.label = p.input<int>(u.points, [=] __device__(size_t i) {
        if (book::uniform01(seed, 201, i) < share_of_first) return 0;
        return int(book::uniform01(seed, 202, i) * kClusters);
    });
    u.sums = p.output<float>(kSums);
    u.counts = p.output<int>(kClusters);
    p.needs({.dram_bytes = u.points * (4.0 * kDim + 4) + 4.0 * (kSums + kClusters),
             .fp32_flop = double(u.points) * kDim});
    p.check<float>(u.sums, kSums, {1e-3}, [=](float* expected) {
        reference_sums<<<kSums, 256>>>(u, expected, nullptr);
    });
    p.check<int>(u.counts, kClusters, {0}, [=](int* expected) {
        reference_sums<<<kSums, 256>>>(u, nullptr, expected);
    });
    return u;
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("assign_64", [](book::Problem& p) {
        Assign a{1980 * 512, 64, kDim};
        const uint64_t seed = p.seed();
        const int clusters = a.clusters;
        a.centroids = p.input<float>(size_t(clusters) * kDim, [=] __device__(size_t i) {
            return float(book::uniform01(seed, 301, i));
        });
        // A point is within 0.1 of its centre in each dimension.
        a.x = p.input<float>(size_t(a.points) * kDim, [=] __device__(size_t i) {
            const int k = int(book::uniform01(seed, 302, i / kDim) * clusters);
            return float(book::uniform01(seed, 301, size_t(k) * kDim + i % kDim) +
                         0.2 * book::uniform01(seed, 303, i) - 0.1);
        });
        a.label = p.output<int>(a.points);
        a.distance = p.output<float>(a.points);
        // By dot products: one multiply-add for each point, centroid and dimension.
        p.needs({.dram_bytes = a.points * (4.0 * kDim + 8) + 4.0 * clusters * kDim,
                 .fp32_flop = 2.0 * a.points * clusters * kDim});
        p.check<int>(a.label, a.points, {0}, [=](int* expected) {
            reference_nearest<<<2112, 256>>>(a, expected, nullptr);
        });
        p.check<float>(a.distance, a.points, {1e-4, 1e-6}, [=](float* expected) {
            reference_nearest<<<2112, 256>>>(a, nullptr, expected);
        });
        p.variant("any_dim", [=] { any_dim(a); });
        p.variant("point_held", [=] { point_held(a); });
        p.variant("centroids_staged", [=] { centroids_staged(a); });
        p.variant("exact_sum", [=] { exact_sum(a); });
        p.variant("four_points", [=] { four_points(a); });
        p.variant("four_points_dot", [=] { four_points_dot(a); });
    });
    book.problem("update_even", [](book::Problem& p) {
        const auto u = set_up_update(p, 0);
        p.variant("add_global", [=] { add_global(u); });
        p.variant("add_block", [=] { add_block(u); });
        p.variant("lane_dims_pairs", [=] { lane_dims_pairs(u); });
        p.variant("lane_dims_fours", [=] { lane_dims_fours(u); });
    });
    book.problem("update_skewed", [](book::Problem& p) {
        const auto u = set_up_update(p, 0.7);
        p.variant("add_block", [=] { add_block(u); });
        p.variant("lane_dims", [=] { lane_dims(u); });
    });
    return book.finish();
}
