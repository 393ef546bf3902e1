// The counts of emulate.h: bytes per array and iterations per loop and warp, as lines of JSON.
#include "emulate.h"

#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <tuple>
#include <vector>

dim3 gridDim, blockDim;
uint3 blockIdx, threadIdx;

namespace emu {
bool counting = false;

struct Array {
    uintptr_t at;
    size_t bytes, loaded = 0, stored = 0, atomics = 0;
    std::vector<uint8_t> touched;
};
struct Loop {
    std::vector<std::vector<int>> counts = std::vector<std::vector<int>>(1024);
    std::vector<long> barriers_before = std::vector<long>(1024);
    long entries = 0, empty = 0, sum = 0, least = 1L << 60, most = 0, barriers = 0, iterations = 0;
};
static std::map<uintptr_t, size_t> allocations;
static std::vector<Array> arrays;
static std::vector<Loop*> loops(5000);
static std::vector<long> barriers_of(1024);
static std::string kernel_name;
static int current = 0;

// Loads that are the same in every iteration of a loop: same place, same value, in each thread.
struct Load {
    uintptr_t code;
    size_t array;
    uint64_t first = 0, now = 0;
    bool same = true;
    long iterations = 0;
};
struct Active {
    int line;
    std::vector<Load> loads;
};
struct Sameness {
    long entries = 0, same = 0;
};
static std::vector<std::vector<Active>> active(1024);
static std::map<std::tuple<int, uintptr_t, size_t>, Sameness> sameness;
static bool watching = false;

static void end_iteration(Active& loop) {
    for (Load& load : loop.loads) {
        if (load.now == 0) continue;
        if (load.iterations++ == 0) load.first = load.now;
        else if (load.now != load.first) load.same = false;
        load.now = 0;
    }
}
static void leave(int line) {
    auto& stack = active[current];
    while (!stack.empty()) {
        Active loop = std::move(stack.back());
        stack.pop_back();
        end_iteration(loop);
        for (Load& load : loop.loads) {
            if (load.iterations < 2) continue;
            Sameness& told = sameness[{loop.line, load.code, load.array}];
            told.entries++;
            told.same += load.same;
        }
        if (loop.line == line) return;
    }
}
static void left_by_break(int line) {
    for (Active& loop : active[current])
        if (loop.line == line) return leave(line);
}
static void watch(uintptr_t code, uintptr_t at, size_t bytes, size_t array) {
    uint64_t value = 0;
    std::memcpy(&value, (void*)at, std::min<size_t>(bytes, 8));
    for (Active& loop : active[current]) {
        Load* found = nullptr;
        for (Load& load : loop.loads)
            if (load.code == code && load.array == array) found = &load;
        if (!found) {
            loop.loads.push_back({code, array});
            found = &loop.loads.back();
        }
        found->now = (found->now * 0x9e3779b97f4a7c15u) ^ (at * 0xff51afd7ed558ccdu) ^ (value + 0x1234567u);
        found->now |= 1;
    }
}

void allocated(void* at, size_t bytes) { allocations[(uintptr_t)at] = bytes; }
void freed(void* at) { allocations.erase((uintptr_t)at); }
void begin(const char* kernel) {
    kernel_name = kernel;
    arrays.clear();
}
void argument(const void* at) {
    Array array;
    array.at = (uintptr_t)at;
    array.bytes = allocations.at(array.at);
    array.touched.assign(array.bytes, 0);
    arrays.push_back(std::move(array));
}
// Pointers in an argument that is a struct: words that are the start of an allocation.
void members(const void* at, size_t bytes) {
    for (size_t place = 0; place + sizeof(uintptr_t) <= bytes; place += sizeof(uintptr_t)) {
        uintptr_t word;
        std::memcpy(&word, (const char*)at + place, sizeof word);
        if (allocations.count(word)) argument((const void*)word);
    }
}

static inline void access(uintptr_t at, size_t bytes, int kind, uintptr_t code) {
    for (Array& array : arrays) {
        if (at - array.at >= array.bytes) continue;
        if (watching && kind == 1) watch(code, at, bytes, &array - arrays.data());
        (kind == 1 ? array.loaded : kind == 2 ? array.stored : array.atomics) += bytes;
        for (size_t b = 0; b < bytes; b++) array.touched[at - array.at + b] |= kind;
        return;
    }
}
static inline void seen(const void* at, size_t bytes, int kind, void* code) {
    if (counting) access((uintptr_t)at, bytes, kind, (uintptr_t)code);
}
void atomic(void* at, size_t bytes) { seen(at, bytes, 4, nullptr); }

// Fibers.
struct Fiber {
    void* stack_pointer = nullptr;
    char* stack = nullptr;
    bool done = true, waits = false;
};
static const size_t STACK = 64 * 1024;
static std::vector<Fiber> fibers(1024);
static void* main_stack;
static const std::function<void()>* work;

extern "C" void emulate_switch(void** save, void* load);
// Words that a switch leaves on a fiber's stack (and the end of the stack, so that it is aligned),
// and which of them is the place to go on from.
#ifdef __aarch64__
static const int FRAME = 20, RETURN = 11;
asm(R"(
.globl emulate_switch
emulate_switch:
    sub sp, sp, #160
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
)");
#else
static const int FRAME = 8, RETURN = 6;
asm(R"(
.globl emulate_switch
emulate_switch:
    push %rbp
    push %rbx
    push %r12
    push %r13
    push %r14
    push %r15
    mov %rsp, (%rdi)
    mov %rsi, %rsp
    pop %r15
    pop %r14
    pop %r13
    pop %r12
    pop %rbx
    pop %rbp
    ret
)");
#endif

static void fiber_main() {
    (*work)();
    fibers[current].done = true;
    void* ignored;
    emulate_switch(&ignored, main_stack);
}
void wait_turn() { emulate_switch(&fibers[current].stack_pointer, main_stack); }
void barrier() {
    barriers_of[current]++;
    fibers[current].waits = true;
    wait_turn();
}
static uint64_t exchanged[1024][2];
int lane() { return current % 32; }
void exchange(void* value, size_t bytes, int from_lane) {
    std::memcpy(exchanged[current], value, bytes);
    wait_turn();
    std::memcpy(value, exchanged[current / 32 * 32 + from_lane], bytes);
    wait_turn();
}

void enter(int line) {
    if (!loops[line]) loops[line] = new Loop;
    loops[line]->counts[current].push_back(0);
    loops[line]->barriers_before[current] = barriers_of[current];
    if (!watching) return;
    left_by_break(line);
    active[current].push_back({line, {}});
}
bool hit(int line, bool goes_on) {
    Loop& loop = *loops[line];
    if (watching && !goes_on) leave(line);
    if (watching && goes_on) {
        while (active[current].back().line != line) leave(active[current].back().line);
        end_iteration(active[current].back());
    }
    if (goes_on) loop.counts[current].back()++;
    else {
        loop.barriers += barriers_of[current] - loop.barriers_before[current];
        loop.iterations += loop.counts[current].back();
    }
    return goes_on;
}

static void fold(unsigned threads) {
    for (Loop* loop : loops) {
        if (!loop) continue;
        for (unsigned warp = 0; warp < threads; warp += 32) {
            std::vector<int> longest;
            for (unsigned t = warp; t < std::min(warp + 32, threads); t++) {
                auto& counts = loop->counts[t];
                if (longest.size() < counts.size()) longest.resize(counts.size());
                for (size_t e = 0; e < counts.size(); e++) longest[e] = std::max(longest[e], counts[e]);
                counts.clear();
            }
            for (long n : longest) {
                loop->entries++;
                if (n == 0) loop->empty++;
                else loop->least = std::min(loop->least, n);
                loop->sum += n;
                loop->most = std::max(loop->most, n);
            }
        }
    }
}

static void report() {
    std::printf("{\"kernel\": \"%s\", \"arrays\": [", kernel_name.c_str());
    const char* comma = "";
    for (Array& array : arrays) {
        size_t distinct = 0, stored = 0;
        for (uint8_t flag : array.touched) distinct += flag != 0, stored += (flag & 6) != 0;
        std::printf("%s{\"distinct\": %zu, \"loaded\": %zu, \"stored\": %zu, \"atomic\": %zu, \"distinct_stored\": %zu}",
                    comma, distinct, array.loaded, array.stored, array.atomics, stored);
        comma = ", ";
    }
    std::printf("], \"loops\": {");
    comma = "";
    for (size_t line = 0; line < loops.size(); line++) {
        Loop* loop = loops[line];
        if (!loop) continue;
        std::printf("%s\"%zu\": {\"entries\": %ld, \"empty\": %ld, \"sum\": %ld, \"least\": %ld, \"most\": %ld, "
                    "\"barriers\": %g}",
                    comma, line, loop->entries, loop->empty, loop->sum, loop->least, loop->most,
                    loop->iterations ? (double)loop->barriers / loop->iterations : 0.0);
        comma = ", ";
        delete loop;
        loops[line] = nullptr;
    }
    std::printf("}, \"same\": [");
    comma = "";
    for (auto& [place, told] : sameness) {
        auto [line, code, array] = place;
        if (told.same == 0) continue;
        std::printf("%s{\"loop\": %d, \"code\": %lu, \"array\": %zu, \"entries\": %ld, \"same\": %ld}", comma,
                    line, (unsigned long)code, array, told.entries, told.same);
        comma = ", ";
    }
    sameness.clear();
    std::printf("]}\n");
    std::fflush(stdout);
}

void run(dim3 grid, dim3 block, const std::function<void()>& body) {
    bool backwards = std::getenv("EMULATE_BACKWARDS") != nullptr;
    bool watch_loads = std::getenv("EMULATE_SAME") != nullptr;
    work = &body;
    gridDim = grid;
    blockDim = block;
    int threads = block.x * block.y * block.z;
    for (blockIdx.z = 0; blockIdx.z < grid.z; blockIdx.z++)
        for (blockIdx.y = 0; blockIdx.y < grid.y; blockIdx.y++)
            for (blockIdx.x = 0; blockIdx.x < grid.x; blockIdx.x++) {
                watching = watch_loads && blockIdx.x % 16 == 0;
                for (int t = 0; t < threads; t++) {
                    active[t].clear();
                    Fiber& fiber = fibers[t];
                    if (!fiber.stack) fiber.stack = (char*)std::aligned_alloc(64, STACK);
                    void** frame = (void**)(fiber.stack + STACK) - FRAME;
                    frame[RETURN] = (void*)fiber_main;
                    fiber.stack_pointer = frame;
                    fiber.done = fiber.waits = false;
                    barriers_of[t] = 0;
                }
                for (bool alive = true; alive;) {
                    alive = false;
                    bool ran = false;
                    for (int k = 0; k < threads; k++) {
                        current = backwards ? threads - 1 - k : k;
                        if (fibers[current].done) continue;
                        alive = true;
                        if (fibers[current].waits) continue;
                        ran = true;
                        threadIdx.x = current % block.x;
                        threadIdx.y = current / block.x % block.y;
                        threadIdx.z = current / block.x / block.y;
                        counting = true;
                        emulate_switch(&main_stack, fibers[current].stack_pointer);
                        counting = false;
                    }
                    // All that are left wait at a barrier: they go on together.
                    if (!ran)
                        for (Fiber& fiber : fibers) fiber.waits = false;
                }
                fold(threads);
            }
    report();
}
}  // namespace emu

extern "C" {
#define HOOKS(n)                                                              \
    void __tsan_read##n(void* at) { emu::seen(at, n, 1, __builtin_return_address(0)); }                    \
    void __tsan_write##n(void* at) { emu::seen(at, n, 2, __builtin_return_address(0)); }                   \
    void __tsan_unaligned_read##n(void* at) { emu::seen(at, n, 1, __builtin_return_address(0)); }          \
    void __tsan_unaligned_write##n(void* at) { emu::seen(at, n, 2, __builtin_return_address(0)); }         \
    void __tsan_volatile_read##n(void* at) { emu::seen(at, n, 1, __builtin_return_address(0)); }           \
    void __tsan_volatile_write##n(void* at) { emu::seen(at, n, 2, __builtin_return_address(0)); }
HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)
void __tsan_read_range(void* at, size_t n) { emu::seen(at, n, 1, __builtin_return_address(0)); }
void __tsan_write_range(void* at, size_t n) { emu::seen(at, n, 2, __builtin_return_address(0)); }
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void*, void*) {}
void __tsan_vptr_read(void*) {}
}
