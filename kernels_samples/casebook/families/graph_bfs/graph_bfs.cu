// Breadth-first search over graphs in CSR form: one level from a frontier, or a whole traversal.
#include "../../harness/book.h"

#include <cooperative_groups.h>

struct Data {
    int vertices, frontier_size, level, levels;
    const int* start;      // vertices + 1
    const int* neighbour;
    const int* frontier;
    int* distance;         // -1: not reached yet
    int* next;             // the frontier of the next level
    int* next_size;
    int* hubs;
    int* hub_count;
    int* again;
};

//: shared
constexpr int kBlock = 256, kWarps = kBlock / 32;
constexpr int kResident = 132 * 8;

// Whether the calling thread is the first to reach the vertex.
__device__ inline bool claim(int* distance, int vertex, int level) {
    return distance[vertex] < 0 && atomicCAS(&distance[vertex], -1, level) < 0;
}

// Appends to the frontier of the next level, as the whole warp.
__device__ inline void append(bool fresh, int vertex, int* next, int* next_size) {
    const unsigned with = __ballot_sync(0xffffffffu, fresh);
    if (with == 0) return;
    const int lane = threadIdx.x % 32;
    int at = 0;
    if (lane == 0) at = atomicAdd(next_size, __popc(with));
    at = __shfl_sync(0xffffffffu, at, 0);
    if (fresh) next[at + __popc(with & ((1u << lane) - 1))] = vertex;
}

// The same by way of a buffer of the warp in shared memory.
constexpr int kStaged = 256;

__device__ inline void flush(int* staged, int& held, int* next, int* next_size) {
    __syncwarp();
    const int lane = threadIdx.x % 32;
    int at = 0;
    if (lane == 0 && held > 0) at = atomicAdd(next_size, held);
    at = __shfl_sync(0xffffffffu, at, 0);
    for (int i = lane; i < held; i += 32) next[at + i] = staged[i];
    held = 0;
    __syncwarp();
}

__device__ inline void stage(bool fresh, int vertex, int* staged, int& held, int* next,
                             int* next_size) {
    const unsigned with = __ballot_sync(0xffffffffu, fresh);
    if (fresh) staged[held + __popc(with & ((1u << (threadIdx.x % 32)) - 1))] = vertex;
    held += __popc(with);
    if (held > kStaged - 32) flush(staged, held, next, next_size);
}

// Vertices with many neighbours go to a second kernel, 64 blocks a vertex.
constexpr int kHub = 512, kSlices = 64;

inline dim3 hub_grid() { return dim3(kSlices, 32); }
//: end

//: variant push_each
__global__ void expand_push(const int* __restrict__ start, const int* __restrict__ neighbour,
                            const int* __restrict__ frontier, int frontier_size, int* distance,
                            int level, int* next, int* next_size) {
    const int lane = threadIdx.x % 32, warps = gridDim.x * kWarps;
    for (int i = blockIdx.x * kWarps + threadIdx.x / 32; i < frontier_size; i += warps) {
        const int vertex = frontier[i], last = start[vertex + 1];
        for (int edge = start[vertex] + lane; edge - lane < last; edge += 32) {
            const int other = edge < last ? neighbour[edge] : vertex;
            const bool fresh = edge < last && claim(distance, other, level);
            append(fresh, other, next, next_size);
        }
    }
}

void push_each(const Data& d) {
    expand_push<<<kResident, kBlock>>>(d.start, d.neighbour, d.frontier, d.frontier_size, d.distance,
                                       d.level, d.next, d.next_size);
}
//: end

//: variant staged
__global__ void expand_staged(const int* __restrict__ start, const int* __restrict__ neighbour,
                              const int* __restrict__ frontier, int frontier_size, int* distance,
                              int level, int* next, int* next_size) {
    __shared__ int buffers[kWarps][kStaged];
    int* const staged = buffers[threadIdx.x / 32];
    int held = 0;
    const int lane = threadIdx.x % 32, warps = gridDim.x * kWarps;
    for (int i = blockIdx.x * kWarps + threadIdx.x / 32; i < frontier_size; i += warps) {
        const int vertex = frontier[i], last = start[vertex + 1];
        for (int edge = start[vertex] + lane; edge - lane < last; edge += 32) {
            const int other = edge < last ? neighbour[edge] : vertex;
            const bool fresh = edge < last && claim(distance, other, level);
            stage(fresh, other, staged, held, next, next_size);
        }
    }
    flush(staged, held, next, next_size);
}

void staged(const Data& d) {
    expand_staged<<<kResident, kBlock>>>(d.start, d.neighbour, d.frontier, d.frontier_size, d.distance,
                                         d.level, d.next, d.next_size);
}
//: end

//: variant push_hubs_apart
__global__ void expand_push_small(const int* __restrict__ start, const int* __restrict__ neighbour,
                                  const int* __restrict__ frontier, int frontier_size, int* distance,
                                  int level, int* next, int* next_size, int* hubs, int* hub_count) {
    const int lane = threadIdx.x % 32, warps = gridDim.x * kWarps;
    for (int i = blockIdx.x * kWarps + threadIdx.x / 32; i < frontier_size; i += warps) {
        const int vertex = frontier[i], first = start[vertex], last = start[vertex + 1];
        if (last - first > kHub) {
            if (lane == 0) hubs[atomicAdd(hub_count, 1)] = vertex;
            continue;
        }
        for (int edge = first + lane; edge - lane < last; edge += 32) {
            const int other = edge < last ? neighbour[edge] : vertex;
            const bool fresh = edge < last && claim(distance, other, level);
            append(fresh, other, next, next_size);
        }
    }
}

__global__ void expand_push_hubs(const int* __restrict__ start, const int* __restrict__ neighbour,
                                 const int* hubs, const int* hub_count, int* distance, int level,
                                 int* next, int* next_size) {
    const int lane = threadIdx.x % 32;
    for (int hub = blockIdx.y; hub < *hub_count; hub += gridDim.y) {
        const int vertex = hubs[hub], first = start[vertex], last = start[vertex + 1];
        for (int edge = first + blockIdx.x * kBlock + threadIdx.x; edge - lane < last;
             edge += kSlices * kBlock) {
            const int other = edge < last ? neighbour[edge] : vertex;
            const bool fresh = edge < last && claim(distance, other, level);
            append(fresh, other, next, next_size);
        }
    }
}

void push_hubs_apart(const Data& d) {
    expand_push_small<<<kResident, kBlock>>>(d.start, d.neighbour, d.frontier, d.frontier_size,
                                             d.distance, d.level, d.next, d.next_size, d.hubs,
                                             d.hub_count);
    expand_push_hubs<<<hub_grid(), kBlock>>>(d.start, d.neighbour, d.hubs, d.hub_count, d.distance,
                                             d.level, d.next, d.next_size);
}
//: end

//: variant staged_hubs_apart
__global__ void expand_staged_small(const int* __restrict__ start, const int* __restrict__ neighbour,
                                    const int* __restrict__ frontier, int frontier_size, int* distance,
                                    int level, int* next, int* next_size, int* hubs, int* hub_count) {
    __shared__ int buffers[kWarps][kStaged];
    int* const staged = buffers[threadIdx.x / 32];
    int held = 0;
    const int lane = threadIdx.x % 32, warps = gridDim.x * kWarps;
    for (int i = blockIdx.x * kWarps + threadIdx.x / 32; i < frontier_size; i += warps) {
        const int vertex = frontier[i], first = start[vertex], last = start[vertex + 1];
        if (last - first > kHub) {
            if (lane == 0) hubs[atomicAdd(hub_count, 1)] = vertex;
            continue;
        }
        for (int edge = first + lane; edge - lane < last; edge += 32) {
            const int other = edge < last ? neighbour[edge] : vertex;
            const bool fresh = edge < last && claim(distance, other, level);
            stage(fresh, other, staged, held, next, next_size);
        }
    }
    flush(staged, held, next, next_size);
}

__global__ void expand_staged_hubs(const int* __restrict__ start, const int* __restrict__ neighbour,
                                   const int* hubs, const int* hub_count, int* distance, int level,
                                   int* next, int* next_size) {
    __shared__ int buffers[kWarps][kStaged];
    int* const staged = buffers[threadIdx.x / 32];
    int held = 0;
    const int lane = threadIdx.x % 32;
    for (int hub = blockIdx.y; hub < *hub_count; hub += gridDim.y) {
        const int vertex = hubs[hub], first = start[vertex], last = start[vertex + 1];
        for (int edge = first + blockIdx.x * kBlock + threadIdx.x; edge - lane < last;
             edge += kSlices * kBlock) {
            const int other = edge < last ? neighbour[edge] : vertex;
            const bool fresh = edge < last && claim(distance, other, level);
            stage(fresh, other, staged, held, next, next_size);
        }
    }
    flush(staged, held, next, next_size);
}

void staged_hubs_apart(const Data& d) {
    expand_staged_small<<<kResident, kBlock>>>(d.start, d.neighbour, d.frontier, d.frontier_size,
                                               d.distance, d.level, d.next, d.next_size, d.hubs,
                                               d.hub_count);
    expand_staged_hubs<<<hub_grid(), kBlock>>>(d.start, d.neighbour, d.hubs, d.hub_count, d.distance,
                                               d.level, d.next, d.next_size);
}
//: end

// --- one level without queues: every vertex looks whether it is in the frontier

//: variant mark_each
__global__ void level_mark_each(const int* __restrict__ start, const int* __restrict__ neighbour,
                                int* distance, int level, int vertices, int* again) {
    const int vertex = blockIdx.x * blockDim.x + threadIdx.x;
    if (vertex >= vertices || distance[vertex] != level - 1) return;
    const int last = start[vertex + 1];
    for (int edge = start[vertex]; edge < last; ++edge) {
        const int other = neighbour[edge];
        if (distance[other] < 0) {
            distance[other] = level;
            *again = 1;
        }
    }
}

void mark_each(const Data& d) {
    level_mark_each<<<(d.vertices + kBlock - 1) / kBlock, kBlock>>>(d.start, d.neighbour, d.distance,
                                                                    d.level, d.vertices, d.again);
}
//: end

//: variant mark_once
__global__ void level_mark_once(const int* __restrict__ start, const int* __restrict__ neighbour,
                                int* distance, int level, int vertices, int* again) {
    const int vertex = blockIdx.x * blockDim.x + threadIdx.x;
    bool found = false;
    if (vertex < vertices && distance[vertex] == level - 1) {
        const int last = start[vertex + 1];
        for (int edge = start[vertex]; edge < last; ++edge) {
            const int other = neighbour[edge];
            if (distance[other] < 0) {
                distance[other] = level;
                found = true;
            }
        }
    }
    if (__syncthreads_or(found) && threadIdx.x == 0) *again = 1;
}

void mark_once(const Data& d) {
    level_mark_once<<<(d.vertices + kBlock - 1) / kBlock, kBlock>>>(d.start, d.neighbour, d.distance,
                                                                    d.level, d.vertices, d.again);
}
//: end

// --- all levels

//: variant kernel_a_level
__global__ void one_level(const int* __restrict__ start, const int* __restrict__ neighbour,
                          int* distance, int level, int vertices) {
    const int vertex = blockIdx.x * blockDim.x + threadIdx.x;
    if (vertex >= vertices || distance[vertex] != level - 1) return;
    const int last = start[vertex + 1];
    for (int edge = start[vertex]; edge < last; ++edge) {
        const int other = neighbour[edge];
        if (distance[other] < 0) distance[other] = level;
    }
}

void kernel_a_level(const Data& d, const book::Problem* problem) {
    for (int level = 1; level <= d.levels; ++level) {
        one_level<<<(d.vertices + kBlock - 1) / kBlock, kBlock>>>(d.start, d.neighbour, d.distance,
                                                                  level, d.vertices);
        problem->launched(level - 1);
    }
}
//: end

//: variant grid_of_levels
__global__ void __launch_bounds__(kBlock)
    all_levels(const int* __restrict__ start, const int* __restrict__ neighbour, int* distance,
               int levels, int vertices) {
    const auto grid = cooperative_groups::this_grid();
    for (int level = 1; level <= levels; ++level) {
        const int vertex = blockIdx.x * blockDim.x + threadIdx.x;
        if (vertex < vertices && distance[vertex] == level - 1) {
            const int last = start[vertex + 1];
            for (int edge = start[vertex]; edge < last; ++edge) {
                const int other = neighbour[edge];
                if (distance[other] < 0) distance[other] = level;
            }
        }
        grid.sync();
    }
}

// At most as many vertices as one wave of blocks has threads.
void grid_of_levels(const Data& d) {
    int* distance = d.distance;
    const int *start = d.start, *neighbour = d.neighbour;
    int levels = d.levels, vertices = d.vertices;
    void* arguments[] = {&start, &neighbour, &distance, &levels, &vertices};
    BOOK_CHECK(cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(all_levels),
                                           dim3((d.vertices + kBlock - 1) / kBlock), dim3(kBlock),
                                           arguments, 0, nullptr));
}
//: end

// `expected` holds what was reached before.
__global__ void reference_level(const int* start, const int* neighbour, const int* before,
                                int* expected, int level, int vertices) {
    for (int v = (blockIdx.x * blockDim.x + threadIdx.x) / 32; v < vertices;
         v += gridDim.x * blockDim.x / 32) {
        if (before[v] != level - 1) continue;
        for (int e = start[v] + threadIdx.x % 32; e < start[v + 1]; e += 32) {
            const int other = neighbour[e];
            if (before[other] == -1) atomicExch(&expected[other], level);
        }
    }
}

__global__ void reference_count(const int* before, const int* after, int vertices, int* count) {
    for (int v = blockIdx.x * blockDim.x + threadIdx.x; v < vertices; v += gridDim.x * blockDim.x) {
        if (before[v] == -1 && after[v] != -1) atomicAdd(count, 1);
    }
}

struct Shape {
    int vertices, least, most;     // neighbours
    double frontier, unreached;    // shares of the vertices
    double hub_share;              // of the frontier
    int hub;                       // neighbours of a hub
    bool marks;
};

void level_problem(book::Book& book, const char* name, Shape shape,
                   const std::vector<std::string>& variants) {
    book.problem(name, [=](book::Problem& p) {
        Data d{};
        d.vertices = shape.vertices;
        d.level = 6;
        std::vector<int> start(shape.vertices + 1, 0), before(shape.vertices), frontier;
        double edges = 0;
        for (int v = 0; v < shape.vertices; ++v) {
            const double u = book::uniform01(p.seed(), 21, v);
            const bool inside = u < shape.frontier;
            before[v] = inside ? 5 : u < shape.frontier + shape.unreached ? -1 : v % 5;
            const bool hub = inside && book::uniform01(p.seed(), 22, v) < shape.hub_share;
            const int spread = shape.most - shape.least + 1;
            const int count = hub ? shape.hub
                                  : shape.least + int(spread * book::uniform01(p.seed(), 23, v));
            start[v + 1] = start[v] + count;
            if (inside) {
                frontier.push_back(v);
                edges += count;
            }
        }
        d.frontier_size = int(frontier.size());
        d.start = p.upload(start);
        d.frontier = p.upload(frontier);
        const uint64_t seed = p.seed();
        const int vertices = shape.vertices;
        d.neighbour = p.input<int>(start[vertices], [=] __device__(size_t i) {
            return int(vertices * book::uniform01(seed, 24, i));
        });
        const int* original = p.upload(before);
        d.distance = p.state<int>(vertices, [=] __device__(size_t i) { return original[i]; });
        d.next = p.output<int>(vertices);
        d.hubs = p.output<int>(vertices);
        d.next_size = p.zeroed<int>(1);
        d.hub_count = p.zeroed<int>(1);
        d.again = p.zeroed<int>(1);
        const double found = shape.unreached * vertices;
        p.needs({.dram_bytes = 4 * edges + 12.0 * d.frontier_size + 4.0 * vertices + 8 * found});
        const auto reach = [=](int* after) {
            BOOK_CHECK(cudaMemcpy(after, original, sizeof(int) * vertices, cudaMemcpyDeviceToDevice));
            reference_level<<<1056, 256>>>(d.start, d.neighbour, original, after, d.level, vertices);
        };
        p.check<int>(d.distance, vertices, {0}, [=](int* expected) { reach(expected); });
        if (shape.marks) {
            p.check<int>(d.again, 1, {0}, [=](int* expected) {
                const int yes = 1;
                BOOK_CHECK(cudaMemcpy(expected, &yes, sizeof(int), cudaMemcpyHostToDevice));
            });
        } else {
            p.check<int>(d.next_size, 1, {0}, [=](int* expected) {
                int* after = nullptr;
                BOOK_CHECK(cudaMalloc(&after, sizeof(int) * vertices));
                reach(after);
                reference_count<<<264, 256>>>(original, after, vertices, expected);
                BOOK_CHECK(cudaDeviceSynchronize());
                BOOK_CHECK(cudaFree(after));
            });
        }
        for (const std::string& variant : variants) {
            if (variant == "push_each") p.variant(variant, [=] { push_each(d); });
            if (variant == "staged") p.variant(variant, [=] { staged(d); });
            if (variant == "push_hubs_apart") p.variant(variant, [=] { push_hubs_apart(d); });
            if (variant == "staged_hubs_apart") p.variant(variant, [=] { staged_hubs_apart(d); });
            if (variant == "mark_each") p.variant(variant, [=] { mark_each(d); });
            if (variant == "mark_once") p.variant(variant, [=] { mark_once(d); });
        }
    });
}

// A traversal of a lattice from a corner: a vertex's distance is the sum of its coordinates.
void lattice_problem(book::Book& book, const char* name, int width, int height) {
    book.problem(name, [=](book::Problem& p) {
        Data d{};
        d.vertices = width * height;
        d.levels = width + height - 2;
        std::vector<int> start{0}, neighbour;
        for (int y = 0; y < height; ++y) {
            for (int x = 0; x < width; ++x) {
                const int v = y * width + x;
                if (x > 0) neighbour.push_back(v - 1);
                if (x + 1 < width) neighbour.push_back(v + 1);
                if (y > 0) neighbour.push_back(v - width);
                if (y + 1 < height) neighbour.push_back(v + width);
                start.push_back(int(neighbour.size()));
            }
        }
        d.start = p.upload(start);
        d.neighbour = p.upload(neighbour);
        d.distance = p.state<int>(d.vertices, [=] __device__(size_t i) { return i == 0 ? 0 : -1; });
        p.needs({.dram_bytes = 8.0 * d.vertices + 4.0 * neighbour.size(), .steps = double(d.levels)});
        p.check<int>(d.distance, d.vertices, {0}, [=](int* expected) {
            book::book_fill<<<132, 256>>>(expected, size_t(d.vertices), [=] __device__(size_t i) {
                return int(i % width + i / width);
            });
        });
        auto* problem = &p;
        p.variant("kernel_a_level", [=] { kernel_a_level(d, problem); });
        p.variant("grid_of_levels", [=] { grid_of_levels(d); });
    });
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    constexpr int kVertices = 1 << 20;
    level_problem(book, "social", {kVertices, 12, 20, 0.3, 0.6, 4e-5, 16000, false},
                  {"push_each", "staged", "push_hubs_apart", "staged_hubs_apart"});
    level_problem(book, "some_hubs", {kVertices, 12, 20, 0.3, 0.6, 2e-4, 1500, false},
                  {"push_each", "staged", "staged_hubs_apart"});
    level_problem(book, "late_level", {kVertices, 12, 20, 0.6, 0.02, 0, 0, false},
                  {"push_each", "staged"});
    level_problem(book, "mesh", {2 * kVertices, 8, 8, 0.5, 0.33, 0, 0, true},
                  {"mark_each", "mark_once"});
    lattice_problem(book, "lattice", 192, 176);
    return book.finish();
}
