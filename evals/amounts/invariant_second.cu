// Held out: ten kernels read the same again in every iteration of a loop, twenty only seem to.
// invariant_second_truth.json tells which. Nothing may be tuned on them.
#include "second_tools.h"

struct Settings {
    float gain;
    float bias;
};

// ---------------------------------------------------------------- kernels

// Amplifies frames; the gain is in a struct in memory.
__global__ void amplify(const Settings* cfg, const float* in, float* out, int frames, int width) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    for (int f = 0; f < frames; ++f) {
        out[f * width + x] = in[f * width + x] * cfg->gain;
    }
}

// Correlates a pattern of the block's own with every shift of a signal.
__global__ void correlate_shifts(const short* pattern, const short* signal, int* score, int shifts, int taps) {
    unsigned lane = threadIdx.x;
    for (int s = 0; s < shifts; s++) {
        int acc = 0;
#pragma unroll 1
        for (int k = 0; k < taps; k++) {
            acc += pattern[blockIdx.x * taps + k] * signal[s * blockDim.x + lane + k];
        }
        score[(s * gridDim.x + blockIdx.x) * blockDim.x + lane] = acc;
    }
}

// Reactions: the state of a cell is in shared memory, the rates are read behind a barrier.
constexpr int SPECIES = 64;
__global__ void react(const float* rate, float* trace, int steps) {
    __shared__ float state[SPECIES];
    int s = threadIdx.x;
    state[s] = 1.0f + s;
    __syncthreads();
    for (int n = 0; n < steps; n++) {
        float k = rate[blockIdx.x * SPECIES + s];
        float next = state[s] + k * (state[(s + 1) % SPECIES] - state[s]);
        __syncthreads();
        state[s] = next;
        trace[(n * gridDim.x + blockIdx.x) * SPECIES + s] = next;
        __syncthreads();
    }
}

// Product by panels: the block's rows of `left` come into shared memory again for every panel.
constexpr int PANEL = 16, PANEL_DEPTH = 32;
__global__ void panels_product(const float* left, const float* right, float* prod, int cols) {
    __shared__ float a[PANEL][PANEL_DEPTH];
    int tx = threadIdx.x, ty = threadIdx.y;
    for (int p = 0; p < cols; p += PANEL) {
        for (int d = tx; d < PANEL_DEPTH; d += PANEL) {
            a[ty][d] = left[(blockIdx.x * PANEL + ty) * PANEL_DEPTH + d];
        }
        __syncthreads();
        float sum = 0.0f;
        for (int d = 0; d < PANEL_DEPTH; d++) {
            sum += a[ty][d] * right[d * cols + p + tx];
        }
        prod[(size_t)(blockIdx.x * PANEL + ty) * cols + p + tx] = sum;
        __syncthreads();
    }
}

// Planes are reordered by one permutation.
__global__ void reorder_planes(const int* perm, const int* in, int* out, unsigned planes, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    for (unsigned long long p = 0; p < planes; p++) {
        out[p * n + i] = in[p * n + perm[i]];
    }
}

// A matrix of diagonals times many vectors.
__global__ void band_many(const double* diag, const double* x, double* y, int sides, int bands, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int ld = n + bands;
    for (int r = 0; r < sides; ++r) {
        double acc = 0.0;
#pragma unroll 1
        for (int d = 0; d < bands; ++d) {
            acc += diag[(long long)d * n + i] * x[r * ld + i + d];
        }
        y[r * n + i] = acc;
    }
}

// Light through a plate whose thickness is a pitched image.
__global__ void lens_phase(const char* plate, int pitch, float* phase, int w, int h, int colours) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    for (int c = 0; c < colours; c++) {
        const float* row = (const float*)(plate + y * pitch);
        phase[(c * h + y) * w + x] = row[x] * (1.0f + 0.25f * c);
    }
}

// Tokens of bytes become floats by scales of groups of channels.
__global__ void dequantise(const signed char* q, const float* scale, float* out, int tokens, int channels) {
    int t = blockIdx.x * tokens;
    int stop = t + tokens;
    while (t < stop) {
        for (int c = threadIdx.x; c < channels; c += blockDim.x) {
            out[t * channels + c] = (float)q[t * channels + c] * scale[c >> 5];
        }
        t++;
    }
}

// Energies of windowed frames: a tree of the block for each frame.
constexpr int FRAME = 128;
__global__ void frame_energy(const float* samples, const float* window, float* energy, int frames, int hop) {
    __shared__ float part[FRAME];
    int t = threadIdx.x;
    for (int f = 0; f < frames; f++) {
        float v = samples[(blockIdx.x * frames + f) * hop + t] * window[t];
        part[t] = v * v;
        __syncthreads();
        for (int half = FRAME / 2; half > 0; half >>= 1) {
            if (t < half) part[t] += part[t + half];
            __syncthreads();
        }
        if (t == 0) energy[blockIdx.x * frames + f] = part[0];
    }
}

// Heat with a source in every cell, the temperatures in place in memory.
__global__ void heated_line(float* heat, const float* source, int steps) {
    int base = blockIdx.x * blockDim.x, t = threadIdx.x;
    int next = t + 1 == blockDim.x ? 0 : t + 1;
    for (int s = 0; s < steps; s++) {
        float mean = 0.5f * (heat[base + t] + heat[base + next]);
        __syncthreads();
        heat[base + t] = 0.5f * mean + source[base + t];
        __syncthreads();
    }
}

// As amplify, but the gain is taken before the loop.
__global__ void amplify_once(const Settings* cfg, const float* in, float* out, int frames, int width) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    const float gain = cfg->gain;
    for (int f = 0; f < frames; ++f) {
        out[f * width + x] = in[f * width + x] * gain;
    }
}

// As amplify, but every frame has settings of its own.
__global__ void amplify_each(const Settings* cfg, const float* in, float* out, int frames, int width) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    for (int f = 0; f < frames; ++f, ++cfg) {
        out[f * width + x] = in[f * width + x] * cfg->gain;
    }
}

// The pattern moves on with the shift.
__global__ void correlate_moving(const short* pattern, const short* signal, int* score, int shifts, int taps) {
    unsigned lane = threadIdx.x;
    for (int s = 0; s < shifts; s++) {
        int acc = 0;
#pragma unroll 1
        for (int k = 0; k < taps; k++) {
            acc += pattern[blockIdx.x * taps + s + k] * signal[s * blockDim.x + lane + k];
        }
        score[(s * gridDim.x + blockIdx.x) * blockDim.x + lane] = acc;
    }
}

// Each of the planes has a permutation of its own.
__global__ void reorder_each(const int* perm, const int* in, int* out, unsigned planes, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    for (unsigned long long p = 0; p < planes; p++) {
        out[p * n + i] = in[p * n + perm[p * n + i]];
    }
}

// A matrix of diagonals times one vector.
__global__ void band_once(const double* diag, const double* x, double* y, int bands, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    double acc = 0.0;
    for (int d = 0; d < bands; ++d) {
        acc += diag[(long long)d * n + i] * x[i + d];
    }
    y[i] = acc;
}

// The source fades: the same place, another value.
__global__ void fading_source(float* source, float* heat, int steps, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int s = 0; s < steps; s++) {
        float q = source[i];
        heat[s * n + i] = q;
        source[i] = 0.5f * q + 1.0f;
    }
}

// One thread writes a number that all read behind the barrier.
__global__ void mailbox(int* box, int* seen, int rounds) {
    int n = gridDim.x * blockDim.x;
    for (int r = 0; r < rounds; r++) {
        if (threadIdx.x == r % blockDim.x) box[blockIdx.x] = 3 * r + blockIdx.x;
        __syncthreads();
        seen[r * n + blockIdx.x * blockDim.x + threadIdx.x] = box[blockIdx.x];
        __syncthreads();
    }
}

// A tree of sums in memory, half as wide each time.
__global__ void halving_sums(int* values) {
    int* own = values + blockIdx.x * 2 * blockDim.x;
    for (int half = blockDim.x; half > 0; half >>= 1) {
        if (threadIdx.x < half) own[threadIdx.x] += own[threadIdx.x + half];
        __syncthreads();
    }
}

// Places in the order of the Gray code.
__global__ void gray_order(const int* in, int* sums, int steps) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int acc = 0;
    for (int k = 0; k < steps; k++) {
        acc = 2 * (acc & 0xffff) + in[i ^ (k ^ (k >> 1))];
    }
    sums[i] = acc;
}

// Down the diagonals of a torus.
__global__ void diagonal_sums(const float* m, float* sums, int side) {
    int start = blockIdx.x * blockDim.x + threadIdx.x;
    float acc = 0.f;
    for (int k = 0; k < side; k++) {
        int col = start + k < side ? start + k : start + k - side;
        acc += m[k * side + col];
    }
    sums[start] = acc;
}

// Two rows in turn: places repeat, but not from one iteration to the next.
__global__ void two_rows(const float* rows, float* out, int steps, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int k = 0; k < steps; k++) {
        out[k * n + i] = rows[(k & 1) * n + i] + (float)k;
    }
}

// A pointer with a 64-bit step.
__global__ void stepping_pointer(const double* at, long long step, double* norm, int steps) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    at += i;
    double acc = 0;
    for (int k = 0; k < steps; k++) {
        acc += *at * *at;
        at += step;
    }
    norm[i] = acc;
}

// Each place is the hash of the word before.
__global__ void hash_chain(const unsigned* words, unsigned* last, int steps, unsigned mask) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned h = i;
    for (int k = 0; k < steps; k++) {
        h = (words[h & mask] + (unsigned)k) * 2654435769u >> 3;
    }
    last[i] = h;
}

// Walks a tree with a stack of its own.
__global__ void tree_walk(const int2* children, const int* weight, int* sums, int limit) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int stack[24];
    int depth = 0, acc = 0, left = limit + (i & 3);
    stack[depth++] = 0;
    while (depth > 0 && left > 0) {
        int node = stack[--depth];
        acc += weight[node];
        int2 c = children[node];
        if (c.x > 0) stack[depth++] = c.x;
        if (c.y > 0) stack[depth++] = c.y;
        left--;
    }
    sums[i] = acc;
}

// The next value is read while the present one is used.
__global__ void read_ahead(const float* in, float* out, int steps, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float now = in[i], acc = 0.f;
    for (int k = 1; k < steps; k++) {
        float next = in[k * n + i];
        acc = 0.5f * acc + now;
        out[(k - 1) * n + i] = acc;
        now = next;
    }
    out[(steps - 1) * n + i] = 0.5f * acc + now;
}

// Elimination in place: the pivot's row is another one in every step.
__global__ void eliminate(float* mats, int order) {
    float* m = mats + (size_t)blockIdx.x * order * order;
    int r = threadIdx.x;
    for (int k = 0; k < order - 1; k++) {
        float f = r > k ? m[r * order + k] / m[k * order + k] : 0.0f;
        for (int c = k + 1; c < order; c++) {
            if (r > k) m[r * order + c] -= f * m[k * order + c];
        }
        __syncthreads();
    }
}

// Backwards along a series.
__global__ void suffix_most(const int* in, int* most, int times, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int top = -1;
    for (int t = times - 1; t >= 0; t--) {
        top = max(top, in[t * n + i]);
        most[t * n + i] = top;
    }
}

// Rows of different lengths, two threads per row.
__global__ void ragged_rows(const unsigned* first, const short* items, int* sums, int rows) {
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    int row = id >> 1;
    if (row >= rows) return;
    int acc = 0;
    unsigned stop = first[row + 1];
    for (unsigned e = first[row] + (id & 1); e < stop; e += 2) {
        acc += items[e];
    }
    sums[id] = acc;
}

// A schedule that stays at its last value once it has reached it.
__global__ void warm_up(const float* schedule, float* level, int steps, int warm, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int s = 0; s < steps; s++) {
        level[s * n + i] = (float)(i & 15) * schedule[min(s, warm - 1)];
    }
}

// The start is read in the first iteration only.
__global__ void first_only(const float* start, float* path, int steps, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = 0.f;
    for (int s = 0; s < steps; s++) {
        if (s == 0) v = start[i];
        v = 0.5f * v + 1.0f;
        path[s * n + i] = v;
    }
}

// ---------------------------------------------------------------- sizes

constexpr int BLOCKS = 264, THREADS = 128, ALL = BLOCKS * THREADS;
constexpr int FRAMES = 30, SHIFTS = 9, TAPS = 70, REACT_STEPS = 25, PANEL_COLS = 160, PLANES = 14;
constexpr int SIDES = 8, BANDS = 21, COLOURS = 11, LENS_W = 320, LENS_H = 96, LENS_PITCH = 1408;
constexpr int TOKENS = 7, CHANNELS = 640, ENERGY_FRAMES = 10, HOP = 64, HEAT_STEPS = 18;
constexpr int STEPS = 20, SIDE = 512, MASK = (1 << 16) - 1, NODES = 8191, ORDER = 32, WARM = 6;

// ---------------------------------------------------------------- one function per kernel

static int* integers(size_t count, unsigned seed, unsigned below) {
    std::vector<int> h(count);
    for (size_t i = 0; i < count; i++) h[i] = (int)(mix((unsigned)i + seed * 1000003u) % below);
    return upload(h);
}
static short* shorts(size_t count, unsigned seed) {
    std::vector<short> h(count);
    for (size_t i = 0; i < count; i++) h[i] = (short)(mix((unsigned)i + seed * 1000003u) % 201) - 100;
    return upload(h);
}
static Settings* settings(int count) {
    std::vector<Settings> h(count);
    for (int i = 0; i < count; i++) h[i].gain = 1.0f + i, h[i].bias = 0.5f;
    return upload(h);
}

static void run_amplify() {
    Settings* cfg = settings(1);
    float *in = floats(FRAMES * ALL, 1), *out = zeros<float>(FRAMES * ALL);
    amplify<<<BLOCKS, THREADS>>>(cfg, in, out, FRAMES, ALL);
    check("amplify", out, FRAMES * ALL);
    cudaFree(cfg), cudaFree(in), cudaFree(out);
}

static void run_correlate_shifts() {
    short *pattern = shorts(BLOCKS * TAPS, 2), *signal = shorts(SHIFTS * THREADS + TAPS, 3);
    int* score = zeros<int>(SHIFTS * ALL);
    correlate_shifts<<<BLOCKS, THREADS>>>(pattern, signal, score, SHIFTS, TAPS);
    check("correlate_shifts", score, SHIFTS * ALL);
    cudaFree(pattern), cudaFree(signal), cudaFree(score);
}

static void run_react() {
    float *rate = floats(BLOCKS * SPECIES, 4), *trace = zeros<float>(REACT_STEPS * BLOCKS * SPECIES);
    react<<<BLOCKS, SPECIES>>>(rate, trace, REACT_STEPS);
    check("react", trace, REACT_STEPS * BLOCKS * SPECIES);
    cudaFree(rate), cudaFree(trace);
}

static void run_panels_product() {
    float *left = floats(BLOCKS * PANEL * PANEL_DEPTH, 5), *right = floats(PANEL_DEPTH * PANEL_COLS, 6);
    float* prod = zeros<float>(BLOCKS * PANEL * PANEL_COLS);
    panels_product<<<BLOCKS, dim3(PANEL, PANEL)>>>(left, right, prod, PANEL_COLS);
    check("panels_product", prod, BLOCKS * PANEL * PANEL_COLS);
    cudaFree(left), cudaFree(right), cudaFree(prod);
}

static void run_reorder_planes() {
    int *perm = integers(ALL, 7, ALL), *in = integers(PLANES * ALL, 8, 1000), *out = zeros<int>(PLANES * ALL);
    reorder_planes<<<BLOCKS, THREADS>>>(perm, in, out, PLANES, ALL);
    check("reorder_planes", out, PLANES * ALL);
    cudaFree(perm), cudaFree(in), cudaFree(out);
}

static void run_band_many() {
    double *diag = doubles(BANDS * ALL, 9), *x = doubles(SIDES * (ALL + BANDS), 10), *y = zeros<double>(SIDES * ALL);
    band_many<<<BLOCKS, THREADS>>>(diag, x, y, SIDES, BANDS, ALL);
    check("band_many", y, SIDES * ALL);
    cudaFree(diag), cudaFree(x), cudaFree(y);
}

static void run_lens_phase() {
    float *plate = floats(LENS_PITCH / 4 * LENS_H, 11), *phase = zeros<float>(COLOURS * LENS_W * LENS_H);
    lens_phase<<<dim3(LENS_W / 32, LENS_H / 4), dim3(32, 4)>>>((const char*)plate, LENS_PITCH, phase, LENS_W, LENS_H, COLOURS);
    check("lens_phase", phase, COLOURS * LENS_W * LENS_H);
    cudaFree(plate), cudaFree(phase);
}

static void run_dequantise() {
    int n = BLOCKS * TOKENS * CHANNELS;
    std::vector<signed char> h(n);
    for (int i = 0; i < n; i++) h[i] = (signed char)(mix(i + 12) & 127);
    signed char* q = upload(h);
    float *scale = floats(CHANNELS / 32, 13), *out = zeros<float>(n);
    dequantise<<<BLOCKS, THREADS>>>(q, scale, out, TOKENS, CHANNELS);
    check("dequantise", out, n);
    cudaFree(q), cudaFree(scale), cudaFree(out);
}

static void run_frame_energy() {
    int frames = BLOCKS * ENERGY_FRAMES;
    float *samples = floats(frames * HOP + FRAME, 14), *window = floats(FRAME, 15), *energy = zeros<float>(frames);
    frame_energy<<<BLOCKS, FRAME>>>(samples, window, energy, ENERGY_FRAMES, HOP);
    check("frame_energy", energy, frames);
    cudaFree(samples), cudaFree(window), cudaFree(energy);
}

static void run_heated_line() {
    float *heat = floats(ALL, 16), *source = floats(ALL, 17);
    heated_line<<<BLOCKS, THREADS>>>(heat, source, HEAT_STEPS);
    check("heated_line", heat, ALL);
    cudaFree(heat), cudaFree(source);
}

static void run_amplify_once() {
    Settings* cfg = settings(1);
    float *in = floats(FRAMES * ALL, 18), *out = zeros<float>(FRAMES * ALL);
    amplify_once<<<BLOCKS, THREADS>>>(cfg, in, out, FRAMES, ALL);
    check("amplify_once", out, FRAMES * ALL);
    cudaFree(cfg), cudaFree(in), cudaFree(out);
}

static void run_amplify_each() {
    Settings* cfg = settings(FRAMES);
    float *in = floats(FRAMES * ALL, 19), *out = zeros<float>(FRAMES * ALL);
    amplify_each<<<BLOCKS, THREADS>>>(cfg, in, out, FRAMES, ALL);
    check("amplify_each", out, FRAMES * ALL);
    cudaFree(cfg), cudaFree(in), cudaFree(out);
}

static void run_correlate_moving() {
    short *pattern = shorts(BLOCKS * TAPS + SHIFTS, 20), *signal = shorts(SHIFTS * THREADS + TAPS, 21);
    int* score = zeros<int>(SHIFTS * ALL);
    correlate_moving<<<BLOCKS, THREADS>>>(pattern, signal, score, SHIFTS, TAPS);
    check("correlate_moving", score, SHIFTS * ALL);
    cudaFree(pattern), cudaFree(signal), cudaFree(score);
}

static void run_reorder_each() {
    int *perm = integers(PLANES * ALL, 22, ALL), *in = integers(PLANES * ALL, 23, 1000), *out = zeros<int>(PLANES * ALL);
    reorder_each<<<BLOCKS, THREADS>>>(perm, in, out, PLANES, ALL);
    check("reorder_each", out, PLANES * ALL);
    cudaFree(perm), cudaFree(in), cudaFree(out);
}

static void run_band_once() {
    double *diag = doubles(BANDS * ALL, 24), *x = doubles(ALL + BANDS, 25), *y = zeros<double>(ALL);
    band_once<<<BLOCKS, THREADS>>>(diag, x, y, BANDS, ALL);
    check("band_once", y, ALL);
    cudaFree(diag), cudaFree(x), cudaFree(y);
}

static void run_fading_source() {
    float *source = floats(ALL, 26), *heat = zeros<float>(STEPS * ALL);
    fading_source<<<BLOCKS, THREADS>>>(source, heat, STEPS, ALL);
    check("fading_source", heat, STEPS * ALL);
    cudaFree(source), cudaFree(heat);
}

static void run_mailbox() {
    int *box = zeros<int>(BLOCKS), *seen = zeros<int>(STEPS * ALL);
    mailbox<<<BLOCKS, THREADS>>>(box, seen, STEPS);
    check("mailbox", seen, STEPS * ALL);
    cudaFree(box), cudaFree(seen);
}

static void run_halving_sums() {
    int* values = integers(2 * ALL, 27, 1000);
    halving_sums<<<BLOCKS, THREADS>>>(values);
    check("halving_sums", values, 2 * ALL);
    cudaFree(values);
}

static void run_gray_order() {
    int *in = integers(ALL, 28, 1000), *sums = zeros<int>(ALL);
    gray_order<<<BLOCKS, THREADS>>>(in, sums, 2 * STEPS);
    check("gray_order", sums, ALL);
    cudaFree(in), cudaFree(sums);
}

static void run_diagonal_sums() {
    float *m = floats(SIDE * SIDE, 29), *sums = zeros<float>(SIDE);
    diagonal_sums<<<SIDE / 64, 64>>>(m, sums, SIDE);
    check("diagonal_sums", sums, SIDE);
    cudaFree(m), cudaFree(sums);
}

static void run_two_rows() {
    float *rows = floats(2 * ALL, 30), *out = zeros<float>(STEPS * ALL);
    two_rows<<<BLOCKS, THREADS>>>(rows, out, STEPS, ALL);
    check("two_rows", out, STEPS * ALL);
    cudaFree(rows), cudaFree(out);
}

static void run_stepping_pointer() {
    double *at = doubles(STEPS * ALL, 31), *norm = zeros<double>(ALL);
    stepping_pointer<<<BLOCKS, THREADS>>>(at, ALL, norm, STEPS);
    check("stepping_pointer", norm, ALL);
    cudaFree(at), cudaFree(norm);
}

static void run_hash_chain() {
    unsigned *words = (unsigned*)integers(MASK + 1, 32, 1u << 30), *last = zeros<unsigned>(ALL);
    hash_chain<<<BLOCKS, THREADS>>>(words, last, STEPS, MASK);
    check("hash_chain", last, ALL);
    cudaFree(words), cudaFree(last);
}

static void run_tree_walk() {
    std::vector<int2> h(NODES);
    for (int i = 0; i < NODES; i++) {
        h[i].x = 2 * i + 1 < NODES ? 2 * i + 1 : 0;
        h[i].y = 2 * i + 2 < NODES ? 2 * i + 2 : 0;
    }
    int2* children = upload(h);
    int *weight = integers(NODES, 33, 1000), *sums = zeros<int>(ALL);
    tree_walk<<<BLOCKS, THREADS>>>(children, weight, sums, 40);
    check("tree_walk", sums, ALL);
    cudaFree(children), cudaFree(weight), cudaFree(sums);
}

static void run_read_ahead() {
    float *in = floats(STEPS * ALL, 34), *out = zeros<float>(STEPS * ALL);
    read_ahead<<<BLOCKS, THREADS>>>(in, out, STEPS, ALL);
    check("read_ahead", out, STEPS * ALL);
    cudaFree(in), cudaFree(out);
}

static void run_eliminate() {
    int n = BLOCKS * ORDER * ORDER;
    auto h = units(n, 35);
    for (int b = 0; b < BLOCKS; b++)
        for (int k = 0; k < ORDER; k++) h[(b * ORDER + k) * ORDER + k] += 40.0f;
    float* mats = upload(h);
    eliminate<<<BLOCKS, ORDER>>>(mats, ORDER);
    check("eliminate", mats, n);
    cudaFree(mats);
}

static void run_suffix_most() {
    int *in = integers(STEPS * ALL, 36, 100000), *most = zeros<int>(STEPS * ALL);
    suffix_most<<<BLOCKS, THREADS>>>(in, most, STEPS, ALL);
    check("suffix_most", most, STEPS * ALL);
    cudaFree(in), cudaFree(most);
}

static void run_ragged_rows() {
    int rows = ALL / 2;
    std::vector<unsigned> h(rows + 1);
    for (int i = 0; i < rows; i++) h[i + 1] = h[i] + 6 + mix(i + 37) % 40;
    unsigned* first = upload(h);
    short* items = shorts(h[rows], 38);
    int* sums = zeros<int>(ALL);
    ragged_rows<<<BLOCKS, THREADS>>>(first, items, sums, rows);
    check("ragged_rows", sums, ALL);
    cudaFree(first), cudaFree(items), cudaFree(sums);
}

static void run_warm_up() {
    float *schedule = floats(WARM, 39), *level = zeros<float>(STEPS * ALL);
    warm_up<<<BLOCKS, THREADS>>>(schedule, level, STEPS, WARM, ALL);
    check("warm_up", level, STEPS * ALL);
    cudaFree(schedule), cudaFree(level);
}

static void run_first_only() {
    float *start = floats(ALL, 40), *path = zeros<float>(STEPS * ALL);
    first_only<<<BLOCKS, THREADS>>>(start, path, STEPS, ALL);
    check("first_only", path, STEPS * ALL);
    cudaFree(start), cudaFree(path);
}

int main() {
    run_amplify();
    run_correlate_shifts();
    run_react();
    run_panels_product();
    run_reorder_planes();
    run_band_many();
    run_lens_phase();
    run_dequantise();
    run_frame_energy();
    run_heated_line();
    run_amplify_once();
    run_amplify_each();
    run_correlate_moving();
    run_reorder_each();
    run_band_once();
    run_fading_source();
    run_mailbox();
    run_halving_sums();
    run_gray_order();
    run_diagonal_sums();
    run_two_rows();
    run_stepping_pointer();
    run_hash_chain();
    run_tree_walk();
    run_read_ahead();
    run_eliminate();
    run_suffix_most();
    run_ragged_rows();
    run_warm_up();
    run_first_only();
    return verdict(30);
}
