// Metropolis simulation of the two-dimensional Ising model with a field, on a checkerboard.
//
// The lattice is split into its two colours. Each colour is an array of bytes (0 or 1), kWidth / 2
// columns wide; a thread updates 16 spins of one colour, held in one 16-byte word. All spins of a
// colour are independent, so one launch updates one colour. Random numbers come from the counter
// of Philox 4x32-10 (Salmon et al. 2011) and need no memory. The temperature is lowered in stages,
// and the energy and the magnetisation are measured now and then.
//
// build: nvcc -O3 -lineinfo -arch=sm_90 -o ising ising.cu
// run:   ./ising

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <cuda_runtime.h>

#define CUDA_OK(call)                                                                         \
    do {                                                                                      \
        cudaError_t status = (call);                                                          \
        if (status != cudaSuccess) {                                                          \
            std::fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(status)); \
            std::exit(2);                                                                     \
        }                                                                                     \
    } while (0)

constexpr int kWidth = 6144;
constexpr int kHeight = 4096;
constexpr int kHalf = kWidth / 2;  // columns of one colour
constexpr int kWords = kHalf / 16;  // 16-byte words of one row of one colour
constexpr int kSweeps = 600;
constexpr int kStages = 6;
constexpr int kMeasureEvery = 50;

constexpr int kBlockX = 64;
constexpr int kBlockY = 4;
constexpr int kMeasureBlocks = 264;
constexpr uint32_t kSeed = 20261118U;
constexpr float kCoupling = 1.0f;
constexpr float kField = 0.02f;

static_assert(kWords % kBlockX == 0 && kHeight % kBlockY == 0, "blocks cover the lattice");

// Accept the flip of spin s with n neighbours up if a 16-bit random number is below this.
struct Acceptance {
    uint32_t threshold[2][5];
};

struct Totals {
    long long energy_bonds;  // sum of s s' over all bonds, s = -1 or 1
    long long magnetisation;
};

// ---------------------------------------------------------------------------------------------
// Random numbers
// ---------------------------------------------------------------------------------------------

__host__ __device__ __forceinline__ uint32_t high_product(uint32_t a, uint32_t b) {
#ifdef __CUDA_ARCH__
    return __umulhi(a, b);
#else
    return static_cast<uint32_t>((static_cast<uint64_t>(a) * b) >> 32);
#endif
}

__host__ __device__ __forceinline__ uint4 philox(uint4 counter, uint2 key) {
#pragma unroll
    for (int round = 0; round < 10; ++round) {
        uint32_t high0 = high_product(0xD2511F53U, counter.x);
        uint32_t low0 = 0xD2511F53U * counter.x;
        uint32_t high1 = high_product(0xCD9E8D57U, counter.z);
        uint32_t low1 = 0xCD9E8D57U * counter.z;
        counter = make_uint4(high1 ^ counter.y ^ key.x, low1, high0 ^ counter.w ^ key.y, low0);
        key.x += 0x9E3779B9U;
        key.y += 0xBB67AE85U;
    }
    return counter;
}

// Eight 16-bit numbers for one half of a word of spins.
__host__ __device__ __forceinline__ uint4 random_half(uint32_t word, uint32_t half, uint32_t step) {
    return philox(make_uint4(word, half, step, 0U), make_uint2(kSeed, 0U));
}

// ---------------------------------------------------------------------------------------------
// Kernels
// ---------------------------------------------------------------------------------------------

__global__ void __launch_bounds__(256) hot_start(uint4* __restrict__ spins, uint32_t stream) {
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    uint4 r = philox(make_uint4(i, 0U, 0U, stream), make_uint2(kSeed, 1U));
    spins[i] = make_uint4(r.x & 0x01010101U, r.y & 0x01010101U, r.z & 0x01010101U,
                          r.w & 0x01010101U);
}

// Flips those of four spins whose random number is below the threshold.
__device__ __forceinline__ uint32_t flip_four(uint32_t spins, uint32_t ups, uint32_t random_low,
                                              uint32_t random_high, const uint32_t* thresholds) {
    uint32_t flips = 0U;
#pragma unroll
    for (int b = 0; b < 4; ++b) {
        uint32_t spin = (spins >> (8 * b)) & 1U;
        uint32_t up = (ups >> (8 * b)) & 7U;
        uint32_t word = b < 2 ? random_low : random_high;
        uint32_t random = (word >> (16 * (b & 1))) & 0xffffU;
        if (random < thresholds[spin * 5 + up]) flips |= 1U << (8 * b);
    }
    return spins ^ flips;
}

// One colour, given the other. Spin (row, column) of a colour has the neighbours (row, column) of
// the other colour above, below, in its own row, and in its own row one column left or right,
// which depends on the row's parity.
__global__ void __launch_bounds__(kBlockX * kBlockY)
update_colour(uint4* __restrict__ spins, const uint4* __restrict__ others, int colour,
              uint32_t step, Acceptance acceptance) {
    __shared__ uint32_t thresholds[10];
    int thread = threadIdx.y * kBlockX + threadIdx.x;
    if (thread < 10) thresholds[thread] = acceptance.threshold[thread / 5][thread % 5];
    __syncthreads();

    int column = blockIdx.x * kBlockX + threadIdx.x;
    int row = blockIdx.y * kBlockY + threadIdx.y;
    int above = row == 0 ? kHeight - 1 : row - 1;
    int below = row == kHeight - 1 ? 0 : row + 1;
    bool right = (row & 1) == colour;
    int side = right ? (column == kWords - 1 ? 0 : column + 1)
                     : (column == 0 ? kWords - 1 : column - 1);

    int index = row * kWords + column;
    uint4 self = spins[index];
    uint4 up = others[above * kWords + column];
    uint4 same = others[index];
    uint4 down = others[below * kWords + column];
    uint4 beside = others[row * kWords + side];

    // The own row of the other colour, moved by one spin.
    uint4 moved;
    if (right) {
        moved.x = __funnelshift_r(same.x, same.y, 8);
        moved.y = __funnelshift_r(same.y, same.z, 8);
        moved.z = __funnelshift_r(same.z, same.w, 8);
        moved.w = __funnelshift_r(same.w, beside.x, 8);
    } else {
        moved.x = __funnelshift_l(beside.w, same.x, 8);
        moved.y = __funnelshift_l(same.x, same.y, 8);
        moved.z = __funnelshift_l(same.y, same.z, 8);
        moved.w = __funnelshift_l(same.z, same.w, 8);
    }
    uint4 first = random_half(index, 2 * colour, step);
    uint4 second = random_half(index, 2 * colour + 1, step);
    self.x = flip_four(self.x, up.x + same.x + down.x + moved.x, first.x, first.y, thresholds);
    self.y = flip_four(self.y, up.y + same.y + down.y + moved.y, first.z, first.w, thresholds);
    self.z = flip_four(self.z, up.z + same.z + down.z + moved.z, second.x, second.y, thresholds);
    self.w = flip_four(self.w, up.w + same.w + down.w + moved.w, second.z, second.w, thresholds);
    spins[index] = self;
}

__device__ __forceinline__ int count_ones(uint4 word) {
    return __popc(word.x) + __popc(word.y) + __popc(word.z) + __popc(word.w);
}

__device__ __forceinline__ int sum_bytes(uint32_t bytes) {
    return static_cast<int>((bytes * 0x01010101U) >> 24);
}

// Products of the four sums of bytes with the spins: sum over spins of s * (neighbours up).
__device__ __forceinline__ int masked_sum(uint4 spins, uint4 ups) {
    return sum_bytes(ups.x & (spins.x * 7U)) + sum_bytes(ups.y & (spins.y * 7U)) +
           sum_bytes(ups.z & (spins.z * 7U)) + sum_bytes(ups.w & (spins.w * 7U));
}

// Partial sums of energy and magnetisation. Bonds are counted from the black spins, each of which
// has four.
__global__ void __launch_bounds__(256)
measure_partial(const uint4* __restrict__ black, const uint4* __restrict__ white,
                Totals* __restrict__ partial) {
    __shared__ long long bonds_of_warp[8];
    __shared__ long long spins_of_warp[8];
    long long bonds = 0;
    long long magnetisation = 0;
    for (int index = blockIdx.x * blockDim.x + threadIdx.x; index < kWords * kHeight;
         index += gridDim.x * blockDim.x) {
        int row = index / kWords;
        int column = index % kWords;
        int above = row == 0 ? kHeight - 1 : row - 1;
        int below = row == kHeight - 1 ? 0 : row + 1;
        bool right = (row & 1) == 0;
        int side = right ? (column == kWords - 1 ? 0 : column + 1)
                         : (column == 0 ? kWords - 1 : column - 1);
        uint4 self = black[index];
        uint4 up = white[above * kWords + column];
        uint4 same = white[index];
        uint4 down = white[below * kWords + column];
        uint4 beside = white[row * kWords + side];
        uint4 ups;
        if (right) {
            ups.x = up.x + same.x + down.x + __funnelshift_r(same.x, same.y, 8);
            ups.y = up.y + same.y + down.y + __funnelshift_r(same.y, same.z, 8);
            ups.z = up.z + same.z + down.z + __funnelshift_r(same.z, same.w, 8);
            ups.w = up.w + same.w + down.w + __funnelshift_r(same.w, beside.x, 8);
        } else {
            ups.x = up.x + same.x + down.x + __funnelshift_l(beside.w, same.x, 8);
            ups.y = up.y + same.y + down.y + __funnelshift_l(same.x, same.y, 8);
            ups.z = up.z + same.z + down.z + __funnelshift_l(same.y, same.z, 8);
            ups.w = up.w + same.w + down.w + __funnelshift_l(same.z, same.w, 8);
        }
        // With s = 2 b - 1: sum of s s' over the four bonds = 4 b u - 8 b - 2 u + 4.
        int all = sum_bytes(ups.x) + sum_bytes(ups.y) + sum_bytes(ups.z) + sum_bytes(ups.w);
        int ones = count_ones(self);
        bonds += 4 * masked_sum(self, ups) - 8 * ones - 2 * all + 64;
        magnetisation += 2 * (ones + count_ones(same)) - 32;
    }
    for (int offset = 16; offset > 0; offset /= 2) {
        bonds += __shfl_down_sync(~0U, bonds, offset);
        magnetisation += __shfl_down_sync(~0U, magnetisation, offset);
    }
    if (threadIdx.x % 32 == 0) {
        bonds_of_warp[threadIdx.x / 32] = bonds;
        spins_of_warp[threadIdx.x / 32] = magnetisation;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        Totals total = {0, 0};
        for (int w = 0; w < 8; ++w) {
            total.energy_bonds += bonds_of_warp[w];
            total.magnetisation += spins_of_warp[w];
        }
        partial[blockIdx.x] = total;
    }
}

__global__ void __launch_bounds__(32)
measure_final(const Totals* __restrict__ partial, Totals* __restrict__ series, int slot) {
    Totals total = {0, 0};
    for (int i = threadIdx.x; i < kMeasureBlocks; i += 32) {
        total.energy_bonds += partial[i].energy_bonds;
        total.magnetisation += partial[i].magnetisation;
    }
    for (int offset = 16; offset > 0; offset /= 2) {
        total.energy_bonds += __shfl_down_sync(~0U, total.energy_bonds, offset);
        total.magnetisation += __shfl_down_sync(~0U, total.magnetisation, offset);
    }
    if (threadIdx.x == 0) series[slot] = total;
}

// ---------------------------------------------------------------------------------------------
// Host
// ---------------------------------------------------------------------------------------------

static Acceptance acceptance_at(float temperature) {
    Acceptance acceptance;
    for (int spin = 0; spin < 2; ++spin) {
        for (int up = 0; up < 5; ++up) {
            float s = 2.0f * spin - 1.0f;
            float cost = 2.0f * s * (kCoupling * (2.0f * up - 4.0f) + kField);
            float probability = cost <= 0.0f ? 1.0f : std::exp(-cost / temperature);
            acceptance.threshold[spin][up] = static_cast<uint32_t>(probability * 65536.0f);
        }
    }
    return acceptance;
}

static float stage_temperature(int stage) { return 3.0f - 0.25f * stage; }

static int host_spin(const std::vector<uint8_t>& colour, int row, int column) {
    row = (row + kHeight) % kHeight;
    column = (column + kHalf) % kHalf;
    return colour[static_cast<size_t>(row) * kHalf + column];
}

// One update of some rows of a colour; the number of spins that differ from the device's.
static long compare_rows(const std::vector<uint8_t>& before, const std::vector<uint8_t>& others,
                         const std::vector<uint8_t>& after, int colour, uint32_t step,
                         const Acceptance& acceptance, int rows) {
    long wrong = 0;
    for (int row = 0; row < rows; ++row) {
        int shift = (row & 1) == colour ? 1 : -1;
        for (int column = 0; column < kHalf; ++column) {
            int up = host_spin(others, row - 1, column) + host_spin(others, row, column) +
                     host_spin(others, row + 1, column) + host_spin(others, row, column + shift);
            int spin = host_spin(before, row, column);
            int place = column % 16;
            uint4 r = random_half(row * kWords + column / 16, 2 * colour + place / 8, step);
            uint32_t words[4] = {r.x, r.y, r.z, r.w};
            uint32_t random = (words[(place % 8) / 2] >> (16 * (place % 2))) & 0xffffU;
            int expected = random < acceptance.threshold[spin][up] ? 1 - spin : spin;
            wrong += expected != host_spin(after, row, column);
        }
    }
    return wrong;
}

static Totals host_totals(const std::vector<uint8_t>& black, const std::vector<uint8_t>& white) {
    Totals total = {0, 0};
    for (int row = 0; row < kHeight; ++row) {
        int shift = (row & 1) == 0 ? 1 : -1;
        for (int column = 0; column < kHalf; ++column) {
            int s = 2 * host_spin(black, row, column) - 1;
            int ups = host_spin(white, row - 1, column) + host_spin(white, row, column) +
                      host_spin(white, row + 1, column) + host_spin(white, row, column + shift);
            total.energy_bonds += s * (2 * ups - 4);
            total.magnetisation += s + 2 * host_spin(white, row, column) - 1;
        }
    }
    return total;
}

static std::vector<uint8_t> to_host(const uint4* spins) {
    std::vector<uint8_t> bytes(static_cast<size_t>(kHeight) * kHalf);
    CUDA_OK(cudaMemcpy(bytes.data(), spins, bytes.size(), cudaMemcpyDeviceToHost));
    return bytes;
}

int main() {
    const size_t words = static_cast<size_t>(kHeight) * kWords;
    const int measurements = kSweeps / kMeasureEvery;
    uint4* black = nullptr;
    uint4* white = nullptr;
    Totals* partial = nullptr;
    Totals* series = nullptr;
    CUDA_OK(cudaMalloc(&black, words * sizeof(uint4)));
    CUDA_OK(cudaMalloc(&white, words * sizeof(uint4)));
    CUDA_OK(cudaMalloc(&partial, kMeasureBlocks * sizeof(Totals)));
    CUDA_OK(cudaMalloc(&series, measurements * sizeof(Totals)));

    const dim3 block(kBlockX, kBlockY);
    const dim3 grid(kWords / kBlockX, kHeight / kBlockY);
    hot_start<<<static_cast<int>(words / 256), 256>>>(black, 0U);
    hot_start<<<static_cast<int>(words / 256), 256>>>(white, 1U);
    CUDA_OK(cudaGetLastError());

    std::vector<uint8_t> black_before, white_before;
    Acceptance acceptance = acceptance_at(stage_temperature(0));
    for (int sweep = 0; sweep < kSweeps; ++sweep) {
        acceptance = acceptance_at(stage_temperature(sweep * kStages / kSweeps));
        if (sweep == kSweeps - 1) {
            black_before = to_host(black);
            white_before = to_host(white);
        }
        update_colour<<<grid, block>>>(black, white, 0, sweep, acceptance);
        update_colour<<<grid, block>>>(white, black, 1, sweep, acceptance);
        if ((sweep + 1) % kMeasureEvery == 0) {
            measure_partial<<<kMeasureBlocks, 256>>>(black, white, partial);
            measure_final<<<1, 32>>>(partial, series, sweep / kMeasureEvery);
        }
    }
    CUDA_OK(cudaGetLastError());
    CUDA_OK(cudaDeviceSynchronize());

    std::vector<uint8_t> black_after = to_host(black);
    std::vector<uint8_t> white_after = to_host(white);
    std::vector<Totals> measured(measurements);
    CUDA_OK(cudaMemcpy(measured.data(), series, measurements * sizeof(Totals),
                       cudaMemcpyDeviceToHost));
    const double spins = static_cast<double>(kWidth) * kHeight;
    for (const Totals& totals : measured) {
        std::printf("ising: energy %.5f, magnetisation %.5f per spin\n",
                    -totals.energy_bonds / spins, totals.magnetisation / spins);
    }
    size_t changed = 0;
    size_t still = 0;  // 16-byte words in which no spin changed
    for (size_t i = 0; i < black_after.size(); i += 16) {
        size_t here = 0;
        for (size_t k = i; k < i + 16; ++k) here += black_after[k] != black_before[k];
        changed += here;
        still += here == 0;
    }
    std::printf("ising: the last update changed %.4f of the black spins, %.4f of the words not\n",
                2.0 * changed / spins, static_cast<double>(still) / words);

    long wrong = compare_rows(black_before, white_before, black_after, 0, kSweeps - 1, acceptance, 128);
    wrong += compare_rows(white_before, black_after, white_after, 1, kSweeps - 1, acceptance, 128);
    Totals expected = host_totals(black_after, white_after);
    bool sums = expected.energy_bonds == measured.back().energy_bonds &&
                expected.magnetisation == measured.back().magnetisation;
    bool good = wrong == 0 && sums && measured.back().energy_bonds > measured.front().energy_bonds;
    std::printf("ising: %ld spins differ from the host, sums %s\n", wrong, sums ? "agree" : "differ");
    std::printf("ising: %s\n", good ? "PASSED" : "FAILED");
    return good ? 0 : 1;
}
