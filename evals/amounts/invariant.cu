// Kernels with loops: some read the same values again in every iteration, most do not.
// invariant_truth.json tells which.
#include "host_tools.h"

// Reads and writes of flags between blocks, ordered by the memory model.
__device__ unsigned load_acquire(const unsigned* at) {
#ifdef EMULATED
    return *at;
#else
    unsigned value;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
    return value;
#endif
}
__device__ void store_release(unsigned* at, unsigned value) {
#ifdef EMULATED
    *at = value;
#else
    asm volatile("st.release.gpu.global.u32 [%0], %1;" : : "l"(at), "r"(value) : "memory");
#endif
}

// ---------------------------------------------------------------- kernels

// Mixture of topics: each thread has weights of its own and goes through the samples.
__global__ void topic_scores(const float* weight, const float* sample, float* score, int topics,
                             int samples, int people) {
    int person = blockIdx.x * blockDim.x + threadIdx.x;
    for (int s = 0; s < samples; s++) {
        float x = sample[s * people + person];
        float sum = 0.0f;
        for (int k = 0; k < topics; k++) {
            sum = sum * x + weight[k * people + person];
        }
        score[s * people + person] = sum;
    }
}

// A filter over the signal's present value, at every time the same coefficients for all threads.
__global__ void filter_times(const float* coefficient, float* signal, int order, int times,
                             int channels) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    float state = 0.0f;
    for (int t = 0; t < times; t++) {
        float input = signal[t * channels + c] + 0.5f * state;
        float sum = 0.0f;
        for (int k = 0; k < order; k++) {
            sum = sum * input + coefficient[k];
        }
        state = sum;
        signal[t * channels + c] = sum;
    }
}

// Quantisation by a codebook of the block, brought into shared memory for each frame.
constexpr int CODES = 1024;
__global__ void decode_frames(const float* codebook, const unsigned short* code, float* frame,
                              int frames) {
    __shared__ float book[CODES];
    for (int f = 0; f < frames; f++) {
        for (int e = threadIdx.x; e < CODES; e += blockDim.x) {
            book[e] = codebook[blockIdx.x * CODES + e];
        }
        __syncthreads();
        int at = (f * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x;
        frame[at] = book[code[at]];
        __syncthreads();
    }
}

// Scaling by one number that the compiler cannot tell from the results.
__global__ void scale_columns(const float* in, float* out, const float* factor, int rows, int cols) {
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    for (int row = 0; row < rows; row++) {
        out[row * cols + col] = in[row * cols + col] * factor[0];
    }
}

// Offsets: one number per block.
__global__ void shift_groups(int* values, const int* offset, int rows) {
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    int cols = gridDim.x * blockDim.x;
    for (int row = 0; row < rows; row++) {
        values[row * cols + col] += offset[blockIdx.x];
    }
}

// Layers of lines of taps: the taps of a layer serve every line.
__global__ void layer_lines(const float* taps, const float* input, float* output, int layers,
                            int lines, int width, int length) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    for (int layer = 0; layer < layers; layer++) {
        for (int line = 0; line < lines; line++) {
            int row = (layer * lines + line) * length;
            float sum = 0.0f;
            for (int k = 0; k < width; k++) {
                sum += taps[layer * width + k] * input[row + x + k];
            }
            output[row + x] = sum;
        }
    }
}

// Random walk within bounds; every thread's bound is read behind a barrier.
constexpr int WALKERS = 128;
__global__ void bounded_walk(const float* bound, float* path, int steps) {
    __shared__ float place[WALKERS];
    int t = threadIdx.x;
    int i = blockIdx.x * WALKERS + t;
    place[t] = (float)t;
    for (int step = 0; step < steps; step++) {
        __syncthreads();
        float next = 0.5f * (place[t] + place[(t + 1) % WALKERS]) + 1.0f;
        float limit = bound[i];
        __syncthreads();
        place[t] = next < limit ? next : limit;
        path[step * gridDim.x * WALKERS + i] = place[t];
    }
}

// Nearest centre of binary codes; a thread takes many codes.
__global__ void nearest_codes(const float* centre, const unsigned* codes, int* nearest, int n,
                              int centres, int bits) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        unsigned code = codes[i];
        float least = 1e30f;
        int best = 0;
        for (int c = 0; c < centres; c++) {
            float distance = 0.0f;
            for (int bit = 0; bit < bits; bit++) {
                float apart = centre[c * bits + bit] - (float)((code >> bit) & 1u);
                distance += apart * apart;
            }
            if (distance < least) {
                least = distance;
                best = c;
            }
        }
        nearest[i] = best;
    }
}

// Groups of bodies, one per block: positions change with every step.
__global__ void group_motion(double* position, const double* mass, int bodies, int steps) {
    double* own = position + blockIdx.x * bodies;
    int t = threadIdx.x;
    for (int step = 0; step < steps; step++) {
        double here = own[t];
        double pull = 0.0;
        for (int j = 0; j < bodies; j++) {
            double apart = own[j] - here;
            pull += mass[blockIdx.x * bodies + j] * apart;
        }
        __syncthreads();
        own[t] = here + 0.001 * pull;
        __syncthreads();
    }
}

// Channels of an image under a mask; a block has a tile of pixels.
__global__ void mask_channels(const unsigned char* mask, const unsigned char* image,
                              unsigned char* masked, int channels, int pixels, int tile) {
    int start = blockIdx.x * tile;
    for (int channel = 0; channel < channels; channel++) {
        for (int p = threadIdx.x; p < tile; p += blockDim.x) {
            int at = channel * pixels + start + p;
            masked[at] = image[at] & mask[start + p];
        }
    }
}

// Follows links.
__global__ void follow_links(const int* next, int* last, int hops) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int at = i;
    for (int hop = 0; hop < hops; hop++) {
        at = next[at];
    }
    last[i] = at;
}

// Smoothing steps between two buffers that change places.
__global__ void smooth_steps(float* first, float* second, int cells, int steps) {
    float* now = first + blockIdx.x * cells;
    float* then = second + blockIdx.x * cells;
    for (int step = 0; step < steps; step++) {
        for (int c = threadIdx.x; c < cells; c += blockDim.x) {
            int left = c > 0 ? c - 1 : cells - 1;
            then[c] = 0.5f * (now[c] + now[left]);
        }
        __syncthreads();
        float* swapped = now;
        now = then;
        then = swapped;
    }
}

// A ring of samples, read from a place that moves on.
__global__ void ring_reader(const float* ring, float* sums, int slots, int times) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0.0f;
    for (int t = 0; t < times; t++) {
        sum = 0.5f * sum + ring[(i + 7 * t) % slots];
    }
    sums[i] = sum;
}

// Two halves of one buffer, chosen by a flag that flips.
__global__ void flip_halves(int* halves, int n, int rounds) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int from = 0;
    for (int round = 0; round < rounds; round++) {
        int neighbour = blockIdx.x * blockDim.x + (threadIdx.x + 1) % blockDim.x;
        int value = halves[from * n + neighbour] + round;
        halves[(1 - from) * n + i] = value;
        __syncthreads();
        from = 1 - from;
    }
}

// The block's next page is chosen by one thread and told through shared memory.
__global__ void shared_pages(const float* pages, const int* order, float* sums, int visits) {
    __shared__ int page;
    float sum = 0.0f;
    for (int v = 0; v < visits; v++) {
        if (threadIdx.x == 0) page = order[blockIdx.x * visits + v];
        __syncthreads();
        sum += pages[page * blockDim.x + threadIdx.x];
        __syncthreads();
    }
    sums[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

// Relaxation in place: red and black cells in turn, each block a line of its own.
__global__ void relax_line(float* line, int sweeps) {
    float* own = line + blockIdx.x * (2 * blockDim.x + 2);
    int t = threadIdx.x;
    for (int sweep = 0; sweep < sweeps; sweep++) {
        own[2 * t + 1] = 0.5f * (own[2 * t] + own[2 * t + 2]);
        __syncthreads();
        own[2 * t + 2] = 0.5f * (own[2 * t + 1] + own[2 * t + 3 - (t == blockDim.x - 1 ? 2 : 0)]);
        __syncthreads();
    }
}

// Takes jobs from a counter until there are none.
__global__ void job_queue(int* taken, const float* job, float* result, int jobs) {
    int i = atomicAdd(&taken[0], 1);
    while (i < jobs) {
        result[i] = 2.0f * job[i] + 1.0f;
        i = atomicAdd(&taken[0], 1);
    }
}

// A strided loop over new data.
__global__ void axpy_strided(float a, const float* x, float* y, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        y[i] = a * x[i] + y[i];
    }
}

// Gathers by indices of the loop.
__global__ void gather_sum(const int* index, const float* table, float* sums, int n, int each) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0.0f;
    for (int e = 0; e < each; e++) {
        sum += table[index[e * n + i]];
    }
    sums[i] = sum;
}

// Running totals over all blocks: a block waits for the one before it.
__global__ void chained_totals(unsigned* ticket, unsigned* ready, unsigned* total, const unsigned* in) {
    __shared__ unsigned mine;
    __shared__ unsigned sum;
    if (threadIdx.x == 0) {
        mine = atomicAdd(&ticket[0], 1u);
        sum = 0;
    }
    __syncthreads();
    atomicAdd(&sum, in[mine * blockDim.x + threadIdx.x]);
    __syncthreads();
    if (threadIdx.x == 0) {
        unsigned before = 0;
        if (mine > 0) {
            while (load_acquire(&ready[mine - 1]) == 0) {
            }
            before = load_acquire(&total[mine - 1]);
        }
        store_release(&total[mine], before + sum);
        store_release(&ready[mine], 1u);
    }
}

// Matrix product by tiles in two buffers: the next tile is read while one is used.
constexpr int EDGE = 16;
__global__ void product_two_buffers(const float* a, const float* b, float* c, int n) {
    __shared__ float tile_a[2][EDGE][EDGE];
    __shared__ float tile_b[2][EDGE][EDGE];
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * EDGE + ty, col = blockIdx.x * EDGE + tx;
    tile_a[0][ty][tx] = a[row * n + tx];
    tile_b[0][ty][tx] = b[ty * n + col];
    __syncthreads();
    float sum = 0.0f;
    int buffer = 0;
    for (int start = 0; start < n; start += EDGE) {
        if (start + EDGE < n) {
            tile_a[1 - buffer][ty][tx] = a[row * n + start + EDGE + tx];
            tile_b[1 - buffer][ty][tx] = b[(start + EDGE + ty) * n + col];
        }
        for (int e = 0; e < EDGE; e++) sum += tile_a[buffer][ty][e] * tile_b[buffer][e][tx];
        __syncthreads();
        buffer = 1 - buffer;
    }
    c[row * n + col] = sum;
}

// Rows above and below, clamped at the borders.
__global__ void blur_rows(const float* in, float* out, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    for (int y = 0; y < height; y++) {
        int above = y > 0 ? y - 1 : 0;
        int below = y < height - 1 ? y + 1 : height - 1;
        out[y * width + x] = 0.5f * (in[above * width + x] + in[below * width + x]);
    }
}

// A pointer that walks down a column.
__global__ void column_walk(const float* matrix, float* norm, int rows, int cols) {
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    const float* at = matrix + col;
    const float* end = matrix + rows * cols;
    float sum = 0.0f;
    while (at < end) {
        float value = *at;
        sum += value * value;
        at += cols;
    }
    norm[col] = sum;
}

// Binary search: each place depends on what was read before.
__global__ void binary_search(const int* sorted, const int* wanted, int* place, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int key = wanted[i];
    int low = 0, high = n;
    while (low < high) {
        int middle = (low + high) / 2;
        if (sorted[middle] < key) low = middle + 1;
        else high = middle;
    }
    place[i] = low;
}

// A colour table that is looked up by the pixel just read.
__global__ void colour_table(const unsigned char* pixel, const unsigned* colour, unsigned* out,
                             int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        out[i] = colour[pixel[i]];
    }
}

// Every season has a table of its own.
__global__ void season_tables(const float* table, float* level, int entries, int seasons, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int season = 0; season < seasons; season++) {
        float x = level[season * n + i];
        float sum = 0.0f;
        for (int k = 0; k < entries; k++) {
            sum = sum * x + table[season * entries + k];
        }
        level[season * n + i] = sum;
    }
}

// Butterflies in global memory: partners change with the stage, and so do the values.
__global__ void butterflies(int* values, int stages) {
    int* own = values + blockIdx.x * blockDim.x;
    int t = threadIdx.x;
    for (int stage = 0; stage < stages; stage++) {
        int other = own[t ^ (1 << stage)];
        int mine = own[t];
        __syncthreads();
        own[t] = (t >> stage) & 1 ? other - mine : other + mine;
        __syncthreads();
    }
}

// Forward substitution: each step reads the unknown that the step before settled.
__global__ void forward_solve(const double* lower, double* x, int n) {
    const double* l = lower + (size_t)blockIdx.x * n * n;
    double* own = x + blockIdx.x * n;
    int t = threadIdx.x;
    for (int j = 0; j < n - 1; j++) {
        double known = own[j];
        if (t > j) own[t] -= l[j * n + t] * known;
        __syncthreads();
    }
}

// A table with open addressing: probes go on until the key or a gap is found.
__global__ void probe_table(const unsigned* keys, const unsigned* wanted, int* slot, unsigned last) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned key = wanted[i];
    unsigned at = (key * 2654435761u) & last;
    unsigned there = keys[at];
    while (there != key && there != 0u) {
        at = (at + 1u) & last;
        there = keys[at];
    }
    slot[i] = there == key ? (int)at : -1;
}

// Counts per block by atomics at one address.
__global__ void count_large(const unsigned* values, unsigned* count, int each, unsigned bound) {
    int width = gridDim.x * blockDim.x;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int e = 0; e < each; e++) {
        if (values[e * width + i] > bound) atomicAdd(&count[blockIdx.x], 1u);
    }
}

// Sums kept in memory: the same place is read in every iteration, but it has changed.
__global__ void sums_in_place(float* sums, const float* terms, int each) {
    int width = gridDim.x * blockDim.x;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int e = 0; e < each; e++) {
        sums[i] += terms[e * width + i];
    }
}

// Samples at places of a generator whose state goes through the loop.
__global__ void random_samples(const float* field, float* mean, int each, unsigned last) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned state = (unsigned)i;
    float sum = 0.0f;
    for (int e = 0; e < each; e++) {
        state = state * 1664525u + 1013904223u;
        sum += field[(state >> 8) & last];
    }
    mean[i] = sum;
}

// ---------------------------------------------------------------- sizes

constexpr int BLOCKS = 264, THREADS = 128, ALL = BLOCKS * THREADS;
constexpr int TOPICS = 96, SAMPLES = 12;
constexpr int ORDER = 200, TIMES = 16;
constexpr int FRAMES = 10;
constexpr int SCALE_ROWS = 40, SHIFT_ROWS = 36;
constexpr int LAYERS = 3, LINES = 14, WIDTH = 48, LENGTH = ALL + 64;
constexpr int WALK_STEPS = 30;
constexpr int CENTRES = 20, BITS = 24, CODES_EACH = 6;
constexpr int BODIES = 128, MOTION_STEPS = 8;
constexpr int CHANNELS = 9, MASK_TILE = 1024;
constexpr int HOPS = 50;
constexpr int CELLS = 1000, SMOOTH_STEPS = 12;
constexpr int SLOTS = 4093, RING_TIMES = 60;
constexpr int ROUNDS = 20, VISITS = 24, PAGES = 512, SWEEPS = 15;
constexpr int JOBS = 400000, STRIDED_N = 8 * ALL + 77;
constexpr int EACH = 25, TABLE = 1 << 20;
constexpr int PRODUCT_N = 512;
constexpr int BLUR_HEIGHT = 80, WALK_ROWS = 64;
constexpr int SEASONS = 6, SEASON_ENTRIES = 120;
constexpr int STAGES = 7;
constexpr int PROBE_SLOTS = 1 << 18, PROBE_KEYS = 150000;

// ---------------------------------------------------------------- one function per kernel

static void run_topic_scores() {
    auto hw = units(TOPICS * ALL, 1), hs = units(SAMPLES * ALL, 2);
    float *weight = upload(hw), *sample = upload(hs), *score = zeros<float>(SAMPLES * ALL);
    topic_scores<<<BLOCKS, THREADS>>>(weight, sample, score, TOPICS, SAMPLES, ALL);
    auto r = download(score, SAMPLES * ALL);
    for (int at = 0; at < SAMPLES * ALL; at += 1009) {
        double sum = 0;
        for (int k = 0; k < TOPICS; k++) sum = sum * hs[at] + hw[k * ALL + at % ALL];
        expect("topic_scores", r[at], sum, 1e-3);
    }
    cudaFree(weight), cudaFree(sample), cudaFree(score);
}

static void run_filter_times() {
    auto hc = units(ORDER, 3), hs = units(TIMES * ALL, 4);
    for (float& v : hs) v *= 0.25f;
    for (float& v : hc) v *= 0.25f;
    float *coefficient = upload(hc), *signal = upload(hs);
    filter_times<<<BLOCKS, THREADS>>>(coefficient, signal, ORDER, TIMES, ALL);
    auto r = download(signal, TIMES * ALL);
    for (int c = 0; c < ALL; c += 1009) {
        double state = 0;
        for (int t = 0; t < TIMES; t++) {
            double input = hs[t * ALL + c] + 0.5 * state, sum = 0;
            for (int k = 0; k < ORDER; k++) sum = sum * input + hc[k];
            state = sum;
            expect("filter_times", r[t * ALL + c], sum, 1e-3);
        }
    }
    cudaFree(coefficient), cudaFree(signal);
}

static void run_decode_frames() {
    auto hb = units(BLOCKS * CODES, 5);
    std::vector<unsigned short> hc(FRAMES * ALL);
    for (size_t i = 0; i < hc.size(); i++) hc[i] = mix((unsigned)i + 6) % CODES;
    float *codebook = upload(hb), *frame = zeros<float>(FRAMES * ALL);
    unsigned short* code = upload(hc);
    decode_frames<<<BLOCKS, THREADS>>>(codebook, code, frame, FRAMES);
    auto r = download(frame, FRAMES * ALL);
    for (int i = 0; i < FRAMES * ALL; i++)
        expect("decode_frames", r[i], hb[i / THREADS % BLOCKS * CODES + hc[i]]);
    cudaFree(codebook), cudaFree(code), cudaFree(frame);
}

static void run_scale_columns() {
    auto h = units(SCALE_ROWS * ALL, 7);
    std::vector<float> hf(1, 3.0f);
    float *in = upload(h), *out = zeros<float>(SCALE_ROWS * ALL), *factor = upload(hf);
    scale_columns<<<BLOCKS, THREADS>>>(in, out, factor, SCALE_ROWS, ALL);
    auto r = download(out, SCALE_ROWS * ALL);
    for (int i = 0; i < SCALE_ROWS * ALL; i++) expect("scale_columns", r[i], 3.0f * h[i]);
    cudaFree(in), cudaFree(out), cudaFree(factor);
}

static void run_shift_groups() {
    std::vector<int> h(SHIFT_ROWS * ALL), ho(BLOCKS);
    for (size_t i = 0; i < h.size(); i++) h[i] = mix((unsigned)i + 8) & 65535;
    for (int i = 0; i < BLOCKS; i++) ho[i] = mix(i + 9) & 65535;
    int *values = upload(h), *offset = upload(ho);
    shift_groups<<<BLOCKS, THREADS>>>(values, offset, SHIFT_ROWS);
    auto r = download(values, SHIFT_ROWS * ALL);
    for (int i = 0; i < SHIFT_ROWS * ALL; i++) expect("shift_groups", r[i], h[i] + ho[i % ALL / THREADS]);
    cudaFree(values), cudaFree(offset);
}

static void run_layer_lines() {
    int n = LAYERS * LINES * LENGTH;
    auto ht = units(LAYERS * WIDTH, 10), h = units(n, 11);
    float *taps = upload(ht), *input = upload(h), *output = zeros<float>(n);
    layer_lines<<<BLOCKS, THREADS>>>(taps, input, output, LAYERS, LINES, WIDTH, LENGTH);
    auto r = download(output, n);
    for (int row = 0; row < LAYERS * LINES; row++)
        for (int x = 0; x < ALL; x += 1009) {
            double sum = 0;
            for (int k = 0; k < WIDTH; k++) sum += (double)ht[row / LINES * WIDTH + k] * h[row * LENGTH + x + k];
            expect("layer_lines", r[row * LENGTH + x], sum, 1e-4);
        }
    cudaFree(taps), cudaFree(input), cudaFree(output);
}

static void run_bounded_walk() {
    auto hb = units(BLOCKS * WALKERS, 12);
    for (float& v : hb) v *= 128.0f;
    float *bound = upload(hb), *path = zeros<float>(WALK_STEPS * BLOCKS * WALKERS);
    bounded_walk<<<BLOCKS, WALKERS>>>(bound, path, WALK_STEPS);
    auto r = download(path, WALK_STEPS * BLOCKS * WALKERS);
    for (int b = 0; b < BLOCKS; b += 37) {
        std::vector<double> place(WALKERS), next(WALKERS);
        for (int t = 0; t < WALKERS; t++) place[t] = t;
        for (int step = 0; step < WALK_STEPS; step++, place = next)
            for (int t = 0; t < WALKERS; t++) {
                next[t] = std::fmin(0.5 * (place[t] + place[(t + 1) % WALKERS]) + 1.0, hb[b * WALKERS + t]);
                expect("bounded_walk", r[(step * BLOCKS + b) * WALKERS + t], next[t], 1e-4);
            }
    }
    cudaFree(bound), cudaFree(path);
}

static void run_nearest_codes() {
    int n = CODES_EACH * ALL;
    auto hc = units(CENTRES * BITS, 13);
    std::vector<unsigned> h(n);
    for (int i = 0; i < n; i++) h[i] = mix(i + 14);
    float* centre = upload(hc);
    unsigned* codes = upload(h);
    int* nearest = zeros<int>(n);
    nearest_codes<<<BLOCKS, THREADS>>>(centre, codes, nearest, n, CENTRES, BITS);
    auto r = download(nearest, n);
    for (int i = 0; i < n; i += 1009) {
        double least = INFINITY, chosen = 0;
        for (int c = 0; c < CENTRES; c++) {
            double distance = 0;
            for (int bit = 0; bit < BITS; bit++) distance += std::pow(hc[c * BITS + bit] - ((h[i] >> bit) & 1), 2);
            if (distance < least) least = distance;
            if (c == r[i]) chosen = distance;
        }
        expect("nearest_codes", chosen, least, 1e-5);
    }
    cudaFree(centre), cudaFree(codes), cudaFree(nearest);
}

static void run_group_motion() {
    std::vector<double> hp(BLOCKS * BODIES), hm(BLOCKS * BODIES);
    for (int i = 0; i < BLOCKS * BODIES; i++) hp[i] = unit(i + 15), hm[i] = unit(i + 16);
    double *position = upload(hp), *mass = upload(hm);
    group_motion<<<BLOCKS, BODIES>>>(position, mass, BODIES, MOTION_STEPS);
    auto r = download(position, BLOCKS * BODIES);
    for (int b = 0; b < BLOCKS; b += 37) {
        std::vector<double> now(hp.begin() + b * BODIES, hp.begin() + (b + 1) * BODIES), next(now);
        for (int step = 0; step < MOTION_STEPS; step++, now = next)
            for (int t = 0; t < BODIES; t++) {
                double pull = 0;
                for (int j = 0; j < BODIES; j++) pull += hm[b * BODIES + j] * (now[j] - now[t]);
                next[t] = now[t] + 0.001 * pull;
            }
        for (int t = 0; t < BODIES; t++) expect("group_motion", r[b * BODIES + t], now[t], 1e-9);
    }
    cudaFree(position), cudaFree(mass);
}

static void run_mask_channels() {
    int pixels = BLOCKS * MASK_TILE;
    std::vector<unsigned char> hm(pixels), hi(CHANNELS * pixels);
    for (int i = 0; i < pixels; i++) hm[i] = mix(i + 17) & 1 ? 255 : 0;
    for (size_t i = 0; i < hi.size(); i++) hi[i] = mix((unsigned)i + 18);
    unsigned char *mask = upload(hm), *image = upload(hi), *masked = zeros<unsigned char>(CHANNELS * pixels);
    mask_channels<<<BLOCKS, THREADS>>>(mask, image, masked, CHANNELS, pixels, MASK_TILE);
    auto r = download(masked, CHANNELS * pixels);
    for (int i = 0; i < CHANNELS * pixels; i++) expect("mask_channels", r[i], hi[i] & hm[i % pixels]);
    cudaFree(mask), cudaFree(image), cudaFree(masked);
}

static void run_follow_links() {
    std::vector<int> h(ALL);
    for (int i = 0; i < ALL; i++) h[i] = mix(i + 19) % ALL;
    int *next = upload(h), *last = zeros<int>(ALL);
    follow_links<<<BLOCKS, THREADS>>>(next, last, HOPS);
    auto r = download(last, ALL);
    for (int i = 0; i < ALL; i++) {
        int at = i;
        for (int hop = 0; hop < HOPS; hop++) at = h[at];
        expect("follow_links", r[i], at);
    }
    cudaFree(next), cudaFree(last);
}

static void run_smooth_steps() {
    auto h = units(BLOCKS * CELLS, 20);
    float *first = upload(h), *second = zeros<float>(BLOCKS * CELLS);
    smooth_steps<<<BLOCKS, THREADS>>>(first, second, CELLS, SMOOTH_STEPS);
    auto r = download(SMOOTH_STEPS % 2 ? second : first, BLOCKS * CELLS);
    for (int b = 0; b < BLOCKS; b += 37) {
        std::vector<double> now(h.begin() + b * CELLS, h.begin() + (b + 1) * CELLS), next(now);
        for (int step = 0; step < SMOOTH_STEPS; step++, now = next)
            for (int c = 0; c < CELLS; c++) next[c] = 0.5 * (now[c] + now[(c + CELLS - 1) % CELLS]);
        for (int c = 0; c < CELLS; c++) expect("smooth_steps", r[b * CELLS + c], now[c], 1e-5);
    }
    cudaFree(first), cudaFree(second);
}

static void run_ring_reader() {
    auto h = units(SLOTS, 21);
    float *ring = upload(h), *sums = zeros<float>(ALL);
    ring_reader<<<BLOCKS, THREADS>>>(ring, sums, SLOTS, RING_TIMES);
    auto r = download(sums, ALL);
    for (int i = 0; i < ALL; i++) {
        double sum = 0;
        for (int t = 0; t < RING_TIMES; t++) sum = 0.5 * sum + h[(i + 7 * t) % SLOTS];
        expect("ring_reader", r[i], sum, 1e-5);
    }
    cudaFree(ring), cudaFree(sums);
}

static void run_flip_halves() {
    std::vector<int> h(2 * ALL);
    for (int i = 0; i < ALL; i++) h[i] = mix(i + 22) & 65535;
    int* halves = upload(h);
    flip_halves<<<BLOCKS, THREADS>>>(halves, ALL, ROUNDS);
    auto r = download(halves, 2 * ALL);
    for (int i = 0; i < ALL; i++) {
        int from = i / THREADS * THREADS + (i % THREADS + ROUNDS) % THREADS;
        expect("flip_halves", r[ROUNDS % 2 * ALL + i], h[from] + ROUNDS * (ROUNDS - 1) / 2);
    }
    cudaFree(halves);
}

static void run_shared_pages() {
    auto h = units(PAGES * THREADS, 23);
    std::vector<int> ho(BLOCKS * VISITS);
    for (size_t i = 0; i < ho.size(); i++) ho[i] = mix((unsigned)i + 24) % PAGES;
    float *pages = upload(h), *sums = zeros<float>(ALL);
    int* order = upload(ho);
    shared_pages<<<BLOCKS, THREADS>>>(pages, order, sums, VISITS);
    auto r = download(sums, ALL);
    for (int i = 0; i < ALL; i++) {
        double sum = 0;
        for (int v = 0; v < VISITS; v++) sum += h[ho[i / THREADS * VISITS + v] * THREADS + i % THREADS];
        expect("shared_pages", r[i], sum, 1e-5);
    }
    cudaFree(pages), cudaFree(order), cudaFree(sums);
}

static void run_relax_line() {
    int width = 2 * THREADS + 2;
    auto h = units(BLOCKS * width, 25);
    float* line = upload(h);
    relax_line<<<BLOCKS, THREADS>>>(line, SWEEPS);
    auto r = download(line, BLOCKS * width);
    for (int b = 0; b < BLOCKS; b += 37) {
        std::vector<double> own(h.begin() + b * width, h.begin() + (b + 1) * width);
        for (int sweep = 0; sweep < SWEEPS; sweep++) {
            for (int t = 0; t < THREADS; t++) own[2 * t + 1] = 0.5 * (own[2 * t] + own[2 * t + 2]);
            for (int t = 0; t < THREADS; t++)
                own[2 * t + 2] = 0.5 * (own[2 * t + 1] + own[2 * t + 3 - (t == THREADS - 1 ? 2 : 0)]);
        }
        for (int c = 0; c < width; c++) expect("relax_line", r[b * width + c], own[c], 1e-4);
    }
    cudaFree(line);
}

static void run_job_queue() {
    auto h = units(JOBS, 26);
    int* taken = zeros<int>(1);
    float *job = upload(h), *result = zeros<float>(JOBS);
    job_queue<<<BLOCKS, THREADS>>>(taken, job, result, JOBS);
    auto r = download(result, JOBS);
    for (int i = 0; i < JOBS; i++) expect("job_queue", r[i], 2.0f * h[i] + 1.0f);
    cudaFree(taken), cudaFree(job), cudaFree(result);
}

static void run_axpy_strided() {
    auto hx = units(STRIDED_N, 27), hy = units(STRIDED_N, 28);
    float *x = upload(hx), *y = upload(hy);
    axpy_strided<<<BLOCKS, THREADS>>>(2.0f, x, y, STRIDED_N);
    auto r = download(y, STRIDED_N);
    for (int i = 0; i < STRIDED_N; i++) expect("axpy_strided", r[i], 2.0f * hx[i] + hy[i]);
    cudaFree(x), cudaFree(y);
}

static void run_gather_sum() {
    std::vector<int> hi(EACH * ALL);
    for (size_t i = 0; i < hi.size(); i++) hi[i] = mix((unsigned)i + 29) % TABLE;
    auto h = units(TABLE, 30);
    int* index = upload(hi);
    float *table = upload(h), *sums = zeros<float>(ALL);
    gather_sum<<<BLOCKS, THREADS>>>(index, table, sums, ALL, EACH);
    auto r = download(sums, ALL);
    for (int i = 0; i < ALL; i++) {
        double sum = 0;
        for (int e = 0; e < EACH; e++) sum += h[hi[e * ALL + i]];
        expect("gather_sum", r[i], sum, 1e-5);
    }
    cudaFree(index), cudaFree(table), cudaFree(sums);
}

static void run_chained_totals() {
    std::vector<unsigned> h(ALL);
    for (int i = 0; i < ALL; i++) h[i] = mix(i + 31) & 1023;
    unsigned *ticket = zeros<unsigned>(1), *ready = zeros<unsigned>(BLOCKS), *total = zeros<unsigned>(BLOCKS);
    unsigned* in = upload(h);
    chained_totals<<<BLOCKS, THREADS>>>(ticket, ready, total, in);
    auto r = download(total, BLOCKS);
    unsigned sum = 0;
    for (int i = 0; i < ALL; i++) {
        sum += h[i];
        if (i % THREADS == THREADS - 1) expect("chained_totals", r[i / THREADS], sum);
    }
    cudaFree(ticket), cudaFree(ready), cudaFree(total), cudaFree(in);
}

static void run_product_two_buffers() {
    int n = PRODUCT_N;
    auto ha = units(n * n, 32), hb = units(n * n, 33);
    float *a = upload(ha), *b = upload(hb), *c = zeros<float>(n * n);
    product_two_buffers<<<dim3(n / EDGE, n / EDGE), dim3(EDGE, EDGE)>>>(a, b, c, n);
    auto r = download(c, n * n);
    for (int at = 0; at < n * n; at += 1009) {
        double sum = 0;
        for (int k = 0; k < n; k++) sum += (double)ha[at / n * n + k] * hb[k * n + at % n];
        expect("product_two_buffers", r[at], sum, 1e-4);
    }
    cudaFree(a), cudaFree(b), cudaFree(c);
}

static void run_blur_rows() {
    auto h = units(BLUR_HEIGHT * ALL, 34);
    float *in = upload(h), *out = zeros<float>(BLUR_HEIGHT * ALL);
    blur_rows<<<BLOCKS, THREADS>>>(in, out, ALL, BLUR_HEIGHT);
    auto r = download(out, BLUR_HEIGHT * ALL);
    for (int y = 0; y < BLUR_HEIGHT; y++)
        for (int x = 0; x < ALL; x += 101)
            expect("blur_rows", r[y * ALL + x],
                   0.5f * (h[(y > 0 ? y - 1 : 0) * ALL + x] + h[(y < BLUR_HEIGHT - 1 ? y + 1 : y) * ALL + x]));
    cudaFree(in), cudaFree(out);
}

static void run_column_walk() {
    auto h = units(WALK_ROWS * ALL, 35);
    float *matrix = upload(h), *norm = zeros<float>(ALL);
    column_walk<<<BLOCKS, THREADS>>>(matrix, norm, WALK_ROWS, ALL);
    auto r = download(norm, ALL);
    for (int x = 0; x < ALL; x++) {
        double sum = 0;
        for (int y = 0; y < WALK_ROWS; y++) sum += (double)h[y * ALL + x] * h[y * ALL + x];
        expect("column_walk", r[x], sum, 1e-5);
    }
    cudaFree(matrix), cudaFree(norm);
}

static void run_binary_search() {
    std::vector<int> hs(TABLE), hw(ALL);
    for (int i = 0; i < TABLE; i++) hs[i] = 3 * i;
    for (int i = 0; i < ALL; i++) hw[i] = mix(i + 36) % (3 * TABLE);
    int *sorted = upload(hs), *wanted = upload(hw), *place = zeros<int>(ALL);
    binary_search<<<BLOCKS, THREADS>>>(sorted, wanted, place, TABLE);
    auto r = download(place, ALL);
    for (int i = 0; i < ALL; i++) expect("binary_search", r[i], (hw[i] + 2) / 3);
    cudaFree(sorted), cudaFree(wanted), cudaFree(place);
}

static void run_colour_table() {
    std::vector<unsigned char> hp(STRIDED_N);
    std::vector<unsigned> hc(256);
    for (int i = 0; i < STRIDED_N; i++) hp[i] = mix(i + 37);
    for (int i = 0; i < 256; i++) hc[i] = mix(i + 38);
    unsigned char* pixel = upload(hp);
    unsigned *colour = upload(hc), *out = zeros<unsigned>(STRIDED_N);
    colour_table<<<BLOCKS, THREADS>>>(pixel, colour, out, STRIDED_N);
    auto r = download(out, STRIDED_N);
    for (int i = 0; i < STRIDED_N; i++) expect("colour_table", r[i], hc[hp[i]]);
    cudaFree(pixel), cudaFree(colour), cudaFree(out);
}

static void run_season_tables() {
    auto ht = units(SEASONS * SEASON_ENTRIES, 39), h = units(SEASONS * ALL, 40);
    float *table = upload(ht), *level = upload(h);
    season_tables<<<BLOCKS, THREADS>>>(table, level, SEASON_ENTRIES, SEASONS, ALL);
    auto r = download(level, SEASONS * ALL);
    for (int at = 0; at < SEASONS * ALL; at += 1009) {
        double sum = 0;
        for (int k = 0; k < SEASON_ENTRIES; k++) sum = sum * h[at] + ht[at / ALL * SEASON_ENTRIES + k];
        expect("season_tables", r[at], sum, 1e-3);
    }
    cudaFree(table), cudaFree(level);
}

static void run_butterflies() {
    std::vector<int> h(ALL);
    for (int i = 0; i < ALL; i++) h[i] = mix(i + 41) & 1023;
    int* values = upload(h);
    butterflies<<<BLOCKS, THREADS>>>(values, STAGES);
    auto r = download(values, ALL);
    for (int b = 0; b < BLOCKS; b++) {
        int sum = 0;
        for (int t = 0; t < THREADS; t++) sum += h[b * THREADS + t];
        expect("butterflies", r[b * THREADS], sum);
    }
    cudaFree(values);
}

static void run_forward_solve() {
    int n = THREADS;
    std::vector<double> hl((size_t)BLOCKS * n * n), hx(BLOCKS * n);
    for (size_t i = 0; i < hl.size(); i++) hl[i] = unit((unsigned)i + 42) / n;
    for (size_t i = 0; i < hx.size(); i++) hx[i] = unit((unsigned)i + 43);
    double *lower = upload(hl), *x = upload(hx);
    forward_solve<<<BLOCKS, THREADS>>>(lower, x, n);
    auto r = download(x, BLOCKS * n);
    for (int b = 0; b < BLOCKS; b += 37) {
        std::vector<double> own(hx.begin() + b * n, hx.begin() + (b + 1) * n);
        for (int j = 0; j < n; j++) {
            expect("forward_solve", r[b * n + j], own[j], 1e-9);
            for (int t = j + 1; t < n; t++) own[t] -= hl[((size_t)b * n + j) * n + t] * own[j];
        }
    }
    cudaFree(lower), cudaFree(x);
}

static void run_probe_table() {
    std::vector<unsigned> hk(PROBE_SLOTS), hw(ALL);
    std::vector<unsigned> all(PROBE_KEYS);
    for (int i = 0; i < PROBE_KEYS; i++) {
        unsigned key = all[i] = mix(i + 44) | 1u, at = key * 2654435761u & (PROBE_SLOTS - 1);
        while (hk[at] != 0 && hk[at] != key) at = (at + 1) & (PROBE_SLOTS - 1);
        hk[at] = key;
    }
    for (int i = 0; i < ALL; i++) hw[i] = i % 2 ? mix(i + 99) | 1u : all[mix(i + 45) % PROBE_KEYS];
    unsigned *keys = upload(hk), *wanted = upload(hw);
    int* slot = zeros<int>(ALL);
    probe_table<<<BLOCKS, THREADS>>>(keys, wanted, slot, PROBE_SLOTS - 1);
    auto r = download(slot, ALL);
    for (int i = 0; i < ALL; i += 2) expect("probe_table", r[i] >= 0 ? hk[r[i]] : 0, hw[i]);
    cudaFree(keys), cudaFree(wanted), cudaFree(slot);
}

static void run_count_large() {
    std::vector<unsigned> h(EACH * ALL), wanted(BLOCKS);
    for (size_t i = 0; i < h.size(); i++) {
        h[i] = mix((unsigned)i + 46);
        wanted[i % ALL / THREADS] += h[i] > 3000000000u;
    }
    unsigned *values = upload(h), *count = zeros<unsigned>(BLOCKS);
    count_large<<<BLOCKS, THREADS>>>(values, count, EACH, 3000000000u);
    auto r = download(count, BLOCKS);
    for (int b = 0; b < BLOCKS; b++) expect("count_large", r[b], wanted[b]);
    cudaFree(values), cudaFree(count);
}

static void run_sums_in_place() {
    auto h = units(EACH * ALL, 47);
    float *sums = zeros<float>(ALL), *terms = upload(h);
    sums_in_place<<<BLOCKS, THREADS>>>(sums, terms, EACH);
    auto r = download(sums, ALL);
    for (int i = 0; i < ALL; i++) {
        double sum = 0;
        for (int e = 0; e < EACH; e++) sum += h[e * ALL + i];
        expect("sums_in_place", r[i], sum, 1e-5);
    }
    cudaFree(sums), cudaFree(terms);
}

static void run_random_samples() {
    auto h = units(TABLE, 48);
    float *field = upload(h), *mean = zeros<float>(ALL);
    random_samples<<<BLOCKS, THREADS>>>(field, mean, EACH, TABLE - 1);
    auto r = download(mean, ALL);
    for (int i = 0; i < ALL; i++) {
        unsigned state = i;
        double sum = 0;
        for (int e = 0; e < EACH; e++) {
            state = state * 1664525u + 1013904223u;
            sum += h[(state >> 8) & (TABLE - 1)];
        }
        expect("random_samples", r[i], sum, 1e-5);
    }
    cudaFree(field), cudaFree(mean);
}

int main() {
    run_topic_scores();
    run_filter_times();
    run_decode_frames();
    run_scale_columns();
    run_shift_groups();
    run_layer_lines();
    run_bounded_walk();
    run_nearest_codes();
    run_group_motion();
    run_mask_channels();
    run_follow_links();
    run_smooth_steps();
    run_ring_reader();
    run_flip_halves();
    run_shared_pages();
    run_relax_line();
    run_job_queue();
    run_axpy_strided();
    run_gather_sum();
    run_chained_totals();
    run_product_two_buffers();
    run_blur_rows();
    run_column_walk();
    run_binary_search();
    run_colour_table();
    run_season_tables();
    run_butterflies();
    run_forward_solve();
    run_probe_table();
    run_count_large();
    run_sums_in_place();
    run_random_samples();
    return verdict(32);
}
