// How a program that nobody trusts is led:
//
//   PROGRAM IN OUT      two file descriptors: commands come in, replies go out, each with a nonce
//
//   hello NONCE         first of all: every reply begins with it
//   facts               the GPU
//   record SEED         fresh inputs, outputs poisoned, one launch, the problem's own check
//   time A B ORDER      two more seeds, both alive at once (problem_main inside problem_main): the
//                       arrays of all seeds lie at the same addresses, and a launch finds the data
//                       of A or of B there, as ORDER's random bits have it
//     run               "waiting" was said: now this program may use the GPU
//     go N              N timed launches, and one on data that no launch has seen before
//     probe             one launch of B's problem with A's floating-point inputs
//     end               the check, of one of the timed launches of each of both: nobody knows which
//   quit
//
// What a launch left is copied by the default stream straight behind the second event, so that what
// is still at work elsewhere is not in it, and held against an earlier result of the same data; one
// such copy, drawn at random, is what the problem's own check sees at the end. The clock starts
// behind a kernel that fills the GPU, on an idle GPU with cold caches: nothing can run ahead of it.
// Nothing that the program prints is read.
#define HARNESS_ITSELF
#include "harness.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

int problem_main(int argc, char** argv);

namespace harness {

struct Array {
    enum class Role { input, host_input, state, output, scratch };

    Role role = Role::input;
    Kind kind = Kind::bytes;
    size_t bytes = 0;
    size_t unit = 0;            // of an array of integers
    void* live = nullptr;       // what the work gets
    bool own_place = false;     // it did not fit where the other seeds have theirs
    void* original = nullptr;   // of an input or state, on the device
    std::vector<char> on_host;  // of a host input
    void* snapshot = nullptr;   // what the timed launch had written when the clock stopped
    void* reference = nullptr;  // the result of this data
    void* picked = nullptr;     // of one of the timed launches
    double absolute = 0;        // what float results may differ by from launch to launch

    bool given() const { return role == Role::input || role == Role::state; }
    bool made() const { return role == Role::output || role == Role::state; }
};

struct Launched {
    double microseconds;
};

namespace {

constexpr int kWarmUp = 2;
constexpr long long kGateClocks = 24000;          // 12 us: a kernel can be launched meanwhile
constexpr size_t kLookedAt = size_t{1} << 16;     // of an output, to see whether it was written
constexpr size_t kColdBytes = size_t{256} << 20;  // several times the L2 of any GPU so far

struct Place {
    void* live;
    size_t capacity;
    bool host;
};

struct Checked {
    size_t checked = 0, wrong = 0, not_finite = 0;
    bool repeated = true;  // the last launch gave what the first had given
    bool inputs_whole = true;
    std::string example;

    bool ok() const { return checked > 0 && wrong == 0 && not_finite == 0; }
};

enum class Mode { record, lead, follow };

struct Session {
    int in = -1, out = -1;
    std::string nonce, unread;
    Mode mode = Mode::record;
    uint64_t second_seed = 0;
    Random order{1};
    std::vector<Place> places;
    Run* building = nullptr;
    Run* leader = nullptr;
    const std::function<void()>* leaders_work = nullptr;
    bool rotated = false;
    std::vector<Checked> checks;
    bool repeated = true, inputs_whole = true;  // of the launch that is checked next
};

Session session;

// --- the pipe

void say(const std::string& json) {
    const std::string line = session.nonce + " " + json + "\n";
    for (size_t done = 0; done < line.size();) {
        const ssize_t sent = write(session.out, line.data() + done, line.size() - done);
        if (sent <= 0) _exit(4);
        done += static_cast<size_t>(sent);
    }
}

std::string hear() {
    for (;;) {
        const size_t end = session.unread.find('\n');
        if (end != std::string::npos) {
            const std::string line = session.unread.substr(0, end);
            session.unread.erase(0, end + 1);
            return line;
        }
        char buffer[256];
        const ssize_t got = read(session.in, buffer, sizeof buffer);
        if (got <= 0) _exit(4);
        session.unread.append(buffer, static_cast<size_t>(got));
    }
}

std::vector<std::string> heard() {
    const std::string line = hear();
    std::vector<std::string> words;
    for (size_t at = 0; at < line.size();) {
        const size_t end = std::min(line.find(' ', at), line.size());
        words.push_back(line.substr(at, end - at));
        at = end + 1;
    }
    if (words.empty()) _exit(4);
    return words;
}

void await_turn() {
    say("{\"event\": \"waiting\"}");
    if (heard()[0] != "run") _exit(4);
}

std::string quoted(const std::string& text) {
    std::string result = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') result += '\\';
        result += static_cast<unsigned char>(c) < 32 ? ' ' : c;
    }
    return result + "\"";
}

std::string field(const char* name, double value) {
    char text[64];
    std::snprintf(text, sizeof text, "\"%s\": %.17g", name, value);
    return text;
}

std::string field(const char* name, bool value) {
    return std::string("\"") + name + "\": " + (value ? "true" : "false");
}

// --- kernels, or plain loops where the tests' stand-in for CUDA has none

uint64_t mixed(uint64_t value) {
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ull;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EBull;
    return value ^ (value >> 31);
}

#ifdef __CUDACC__
#define FOR_EACH(i, count)                                                       \
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < (count); \
         i += size_t{gridDim.x} * blockDim.x)
#define KERNEL __global__
#define LAUNCH(kernel, ...)                 \
    do {                                    \
        kernel<<<1024, 256>>>(__VA_ARGS__); \
        CUDA_CHECK(cudaGetLastError());     \
    } while (0)
__device__ void add(double* total, double value) {
    if (value != 0) atomicAdd(total, value);
}
#else
#define FOR_EACH(i, count) for (size_t i = 0; i < (count); ++i)
#define KERNEL
#define LAUNCH(kernel, ...) kernel(__VA_ARGS__)
void add(double* total, double value) { *total += value; }
#endif

#ifdef __CUDACC__
// Reads, never writes: what it leaves in L2 need not be written back during the timed work.
KERNEL void read_through(const float4* values, size_t count, float* sink) {
    float total = 0;
    FOR_EACH(i, count) {
        const float4 value = values[i];
        total += value.x + value.y + value.z + value.w;
    }
    if (total == 12345.678f) *sink = total;
}

void cool_l2() {
    static float* cold = nullptr;
    if (!cold) {
        CUDA_CHECK(cudaMalloc(&cold, kColdBytes + sizeof(float)));
        CUDA_CHECK(cudaMemset(cold, 0, kColdBytes));
    }
    LAUNCH(read_through, reinterpret_cast<const float4*>(cold), kColdBytes / 16,
           cold + kColdBytes / sizeof(float));
}

KERNEL void hold_every_sm(long long clocks) {
    const long long begin = clock64();
    while (clock64() - begin < clocks) {
    }
}

// As many threads as fit: a stream that does not wait for this one finds no room before the clock
// starts. It touches no memory, and while it runs the host can launch the work.
void close_the_gate() {
    constexpr int kThreads = 512;
    static int blocks = 0;
    if (!blocks) {
        int each = 0, sms = 0;
        CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, hold_every_sm, kThreads, 0));
        CUDA_CHECK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
        blocks = each * sms;
    }
    hold_every_sm<<<blocks, kThreads>>>(kGateClocks);
    CUDA_CHECK(cudaGetLastError());
}
#else
void cool_l2() {}
void close_the_gate() {}
#endif

template <class T>
KERNEL void multiply(T* values, size_t count, double factor) {
    FOR_EACH(i, count) values[i] = static_cast<T>(static_cast<double>(values[i]) * factor);
}

template <class T>
void multiply_all(void* values, size_t bytes, double factor) {
    LAUNCH(multiply, static_cast<T*>(values), bytes / sizeof(T), factor);
}

template <class T>
KERNEL void count_unequal(const T* left, const T* right, size_t count, double* total) {
    double unequal = 0;
    FOR_EACH(i, count) unequal += left[i] != right[i];
    add(total, unequal);
}

template <class T>
KERNEL void count_outside(const T* got, const T* want, size_t count, double relative,
                          double absolute, double* total) {
    double outside = 0;
    FOR_EACH(i, count) {
        const double w = static_cast<double>(static_cast<T>(want[i]));
        const double error = fabs(static_cast<double>(got[i]) - w);
        outside += !(error <= absolute + relative * fabs(w));  // NaN is outside
    }
    add(total, outside);
}

template <class T>
KERNEL void sum_squares(const T* values, size_t count, double* total) {
    double sum = 0;
    FOR_EACH(i, count) {
        const double value = static_cast<double>(values[i]);
        sum += value * value;
    }
    add(total, sum);
}

double* counter() {
    static double* total = nullptr;
    if (!total) CUDA_CHECK(cudaMalloc(reinterpret_cast<void**>(&total), sizeof(double)));
    CUDA_CHECK(cudaMemset(total, 0, sizeof(double)));
    return total;
}

double counted(const double* total) {
    double value = 0;
    CUDA_CHECK(cudaMemcpy(&value, total, sizeof value, cudaMemcpyDeviceToHost));
    return value;
}

bool equal_bytes(const void* left, const void* right, size_t bytes) {
    double* total = counter();
    const size_t words = bytes / 8, rest = bytes % 8;
    if (words) {
        LAUNCH(count_unequal, static_cast<const uint64_t*>(left),
               static_cast<const uint64_t*>(right), words, total);
    }
    if (rest) {
        LAUNCH(count_unequal, static_cast<const unsigned char*>(left) + 8 * words,
               static_cast<const unsigned char*>(right) + 8 * words, rest, total);
    }
    return counted(total) == 0;
}

// Sums that atomics or a reduction add up in another order each time differ by this share.
double allowed(Kind kind) {
    switch (kind) {
        case Kind::half: return 4e-3;
        case Kind::bfloat: return 2e-2;
        case Kind::single: return 1e-3;
        case Kind::twofold: return 1e-5;
        default: return 0;
    }
}

template <class T>
bool within(const void* got, const void* want, const Array& array) {
    double* total = counter();
    LAUNCH(count_outside, static_cast<const T*>(got), static_cast<const T*>(want),
           array.bytes / sizeof(T), allowed(array.kind), array.absolute, total);
    return counted(total) == 0;
}

bool close_enough(const void* got, const void* want, const Array& array) {
    switch (array.kind) {
#ifdef __CUDACC__
        case Kind::half: return within<__half>(got, want, array);
        case Kind::bfloat: return within<__nv_bfloat16>(got, want, array);
#endif
        case Kind::single: return within<float>(got, want, array);
        case Kind::twofold: return within<double>(got, want, array);
        default: return equal_bytes(got, want, array.bytes);
    }
}

template <class T>
double root_mean_square(const void* values, size_t bytes) {
    double* total = counter();
    const size_t count = bytes / sizeof(T);
    LAUNCH(sum_squares, static_cast<const T*>(values), count, total);
    const double mean = counted(total) / static_cast<double>(std::max<size_t>(count, 1));
    return std::isfinite(mean) ? std::sqrt(mean) : 0;
}

double magnitude(const void* values, const Array& array) {
    switch (array.kind) {
#ifdef __CUDACC__
        case Kind::half: return root_mean_square<__half>(values, array.bytes);
        case Kind::bfloat: return root_mean_square<__nv_bfloat16>(values, array.bytes);
#endif
        case Kind::single: return root_mean_square<float>(values, array.bytes);
        case Kind::twofold: return root_mean_square<double>(values, array.bytes);
        default: return 0;
    }
}

void multiply_all(const Array& array, double factor) {
    switch (array.kind) {
#ifdef __CUDACC__
        case Kind::half: return multiply_all<__half>(array.live, array.bytes, factor);
        case Kind::bfloat: return multiply_all<__nv_bfloat16>(array.live, array.bytes, factor);
#endif
        case Kind::single: return multiply_all<float>(array.live, array.bytes, factor);
        case Kind::twofold: return multiply_all<double>(array.live, array.bytes, factor);
        default: return;
    }
}

// --- memory

void* device_room(size_t bytes) {
    void* room = nullptr;
    CUDA_CHECK(cudaMalloc(&room, std::max<size_t>(bytes, 16)));
    return room;
}

void copy_on_device(void* to, const void* from, size_t bytes) {
    CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, nullptr));
}

void* room(size_t bytes, bool host, unsigned flags) {
    if (!host) return device_room(bytes);
    void* memory = nullptr;
    CUDA_CHECK(cudaHostAlloc(&memory, bytes, flags));
    return memory;
}

// The k-th array of every seed lies at the same address: a result kept for an address is stale.
void find_place(Array& array, size_t index, bool host, unsigned flags) {
    if (index >= session.places.size()) {
        const size_t capacity = array.bytes + array.bytes / 4 + 256;
        session.places.push_back({room(capacity, host, flags), capacity, host});
    }
    const Place& place = session.places[index];
    array.own_place = place.host != host || place.capacity < array.bytes;
    array.live = array.own_place ? room(array.bytes, host, flags) : place.live;
}

}  // namespace

void must_succeed(cudaError_t status, const char* file, int line) {
    if (status == cudaSuccess) return;
    std::fprintf(stderr, "%s:%d: %s\n", file, line, cudaGetErrorString(status));
    std::fflush(nullptr);
    say("{\"event\": \"cuda_error\", \"what\": " + quoted(cudaGetErrorString(status)) + "}");
    _exit(3);
}

uint64_t Random::bits() {
    state_ += 0x9E3779B97F4A7C15ull;
    return mixed(state_);
}

double Random::normal() {
    const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
    return radius * std::cos(6.283185307179586 * uniform());
}

Run::Run(int, char** argv) : seed_(std::strtoull(argv[2], nullptr, 10)), random_(seed_) {
    session.building = this;
}

Run::~Run() {
    for (const auto& array : arrays_) {
        for (void* copy : {array->original, array->snapshot, array->reference, array->picked}) {
            cudaFree(copy);
        }
        if (array->own_place && array->role != Array::Role::host_input) cudaFree(array->live);
    }
}

// --- what the problem declares

Array& Run::add(size_t bytes, Kind kind) {
    arrays_.push_back(std::make_unique<Array>());
    arrays_.back()->bytes = bytes;
    arrays_.back()->kind = kind;
    return *arrays_.back();
}

void* Run::add_input(const void* values, size_t bytes, Kind kind, size_t unit) {
    Array& array = add(bytes, kind);
    array.unit = unit;
    find_place(array, arrays_.size() - 1, false, 0);
    array.original = device_room(bytes);
    CUDA_CHECK(cudaMemcpy(array.original, values, bytes, cudaMemcpyHostToDevice));
    return array.live;
}

void* Run::add_state(const void* values, size_t bytes, Kind kind) {
    void* live = add_input(values, bytes, kind, 0);
    arrays_.back()->role = Array::Role::state;
    return live;
}

void* Run::add_output(size_t bytes, Kind kind) {
    Array& array = add(bytes, kind);
    array.role = Array::Role::output;
    find_place(array, arrays_.size() - 1, false, 0);
    return array.live;
}

void* Run::add_scratch(size_t bytes) {
    void* live = add_output(bytes, Kind::bytes);
    arrays_.back()->role = Array::Role::scratch;
    return live;
}

cudaError_t host_input(void** host, size_t bytes, unsigned flags) {
    Run& run = *session.building;
    Array& array = run.add(bytes, Kind::bytes);
    array.role = Array::Role::host_input;
    find_place(array, run.arrays_.size() - 1, true, flags);
    *host = array.live;
    return cudaSuccess;
}

// --- one launch

// The problem wrote them before it called measure(), and the next seed writes to the same place.
void Run::keep_host_inputs() {
    for (const auto& array : arrays_) {
        if (array->role != Array::Role::host_input) continue;
        const char* values = static_cast<const char*>(array->live);
        array->on_host.assign(values, values + array->bytes);
    }
}

static bool exchangeable(const Array& mine, const Array& theirs) {
    return mine.role == Array::Role::input && mine.kind != Kind::bytes &&
           mine.kind == theirs.kind && mine.bytes == theirs.bytes;
}

static const void* source(const Array& mine, const Run* floats_of, const Array* theirs) {
    return floats_of && exchangeable(mine, *theirs) ? theirs->original : mine.original;
}

void Run::load(const Run* floats_of) {
    CUDA_CHECK(cudaDeviceSynchronize());
    for (size_t k = 0; k < arrays_.size(); ++k) {
        Array& array = *arrays_[k];
        const Array* theirs = floats_of ? floats_of->arrays_[k].get() : nullptr;
        if (array.given()) copy_on_device(array.live, source(array, floats_of, theirs), array.bytes);
        if (!array.on_host.empty()) std::memcpy(array.live, array.on_host.data(), array.bytes);
    }
}

bool Run::has_floats() const {
    for (const auto& array : arrays_) {
        if (array->given() && array->kind != Kind::bytes) return true;
    }
    return false;
}

// How far into an array its values begin, of those that change places.
static size_t begun_at(size_t bytes, size_t unit, double share) {
    const size_t count = unit ? bytes / unit : 0;
    return count < 2 ? 0 : unit * (1 + static_cast<size_t>(share * static_cast<double>(count - 1)));
}

// Behind load(): data that no launch has seen, and that is as good. All floating-point numbers get
// smaller by the same 0.2 to 0.8%, so their order and bounds hold; integers, which may be indices,
// stay where there are such, and else begin elsewhere. So do those in host memory.
void Run::renew(double fresh) {
    const bool floats = has_floats();
    for (const auto& array : arrays_) {
        const char* original = static_cast<const char*>(array->original);
        char* live = static_cast<char*>(array->live);
        const size_t bytes = array->bytes;
        if (!array->on_host.empty()) {
            const size_t first = begun_at(bytes, 16, fresh);
            std::memcpy(live, array->on_host.data() + first, bytes - first);
            std::memcpy(live + bytes - first, array->on_host.data(), first);
        } else if (array->given() && array->kind != Kind::bytes) {
            multiply_all(*array, 1 - (1 + 3 * fresh) / 512);
        } else if (const size_t first = floats ? 0 : begun_at(bytes, array->unit, fresh)) {
            copy_on_device(live, original + first, bytes - first);
            copy_on_device(live + bytes - first, original, first);
        }
    }
}

void Run::poison() {
    for (const auto& array : arrays_) {
        if (array->given() || array->role == Array::Role::host_input) continue;
        CUDA_CHECK(cudaMemsetAsync(array->live, 0xFF, array->bytes, nullptr));
    }
}

Launched Run::launch(const std::function<void()>& work, const Run* floats_of, double fresh) {
    static cudaEvent_t start = nullptr, stop = nullptr;
    if (!start) CUDA_CHECK(cudaEventCreate(&start));
    if (!stop) CUDA_CHECK(cudaEventCreate(&stop));
    load(floats_of);
    if (fresh > 0) renew(fresh);
    poison();
    if (cudaCtxResetPersistingL2Cache() != cudaSuccess) cudaGetLastError();  // not on every GPU
    cool_l2();
    CUDA_CHECK(cudaDeviceSynchronize());
    close_the_gate();
    CUDA_CHECK(cudaEventRecord(start, nullptr));
    work();
    const cudaError_t status = cudaGetLastError();
    CUDA_CHECK(cudaEventRecord(stop, nullptr));
    for (const auto& array : arrays_) {
        if (array->made()) copy_on_device(array->snapshot, array->live, array->bytes);
    }
    CUDA_CHECK(status);
    CUDA_CHECK(cudaDeviceSynchronize());
    float milliseconds = 0;
    CUDA_CHECK(cudaEventElapsedTime(&milliseconds, start, stop));
    return {1e3 * milliseconds};
}

void Run::keep_reference() {
    for (const auto& array : arrays_) {
        if (!array->made()) continue;
        array->reference = device_room(array->bytes);
        array->picked = device_room(array->bytes);
        copy_on_device(array->reference, array->live, array->bytes);
        array->absolute = allowed(array->kind) * magnitude(array->reference, *array);
    }
}

// The first one, then the next one with a chance of 1/2, 1/3, ...: each is as likely as the others.
void Run::pick() {
    if (session.order.below(++timed_) != 0) return;
    for (const auto& array : arrays_) {
        if (array->made()) copy_on_device(array->picked, array->snapshot, array->bytes);
    }
}

bool Run::snapshot_is(const Run& whose, bool exactly) const {
    for (size_t k = 0; k < arrays_.size(); ++k) {
        const Array &mine = *arrays_[k], &theirs = *whose.arrays_[k];
        if (!mine.made()) continue;
        if (mine.bytes != theirs.bytes) return false;
        if (exactly ? !equal_bytes(mine.snapshot, theirs.reference, mine.bytes)
                    : !close_enough(mine.snapshot, theirs.reference, theirs)) {
            return false;
        }
    }
    return true;
}

bool Run::outputs_are(bool exactly) const {
    for (const auto& array : arrays_) {
        if (!array->made()) continue;
        if (exactly ? !equal_bytes(array->live, array->reference, array->bytes)
                    : !close_enough(array->live, array->reference, *array)) {
            return false;
        }
    }
    return true;
}

bool Run::nothing_written() const {
    static void* poisoned = nullptr;
    if (!poisoned) poisoned = device_room(kLookedAt);
    CUDA_CHECK(cudaMemset(poisoned, 0xFF, kLookedAt));
    for (const auto& array : arrays_) {
        const size_t bytes = std::min(array->bytes, kLookedAt);
        if (array->role == Array::Role::output && equal_bytes(array->snapshot, poisoned, bytes)) {
            return true;
        }
    }
    return false;
}

bool Run::inputs_are_whole(const Run* floats_of) const {
    for (size_t k = 0; k < arrays_.size(); ++k) {
        const Array& array = *arrays_[k];
        const Array* theirs = floats_of ? floats_of->arrays_[k].get() : nullptr;
        if (array.role == Array::Role::input &&
            !equal_bytes(array.live, source(array, floats_of, theirs), array.bytes)) {
            return false;
        }
        if (!array.on_host.empty() &&
            std::memcmp(array.live, array.on_host.data(), array.bytes) != 0) {
            return false;
        }
    }
    return true;
}

bool Run::same_places(const Run& other) const {
    if (arrays_.size() != other.arrays_.size()) return false;
    for (size_t k = 0; k < arrays_.size(); ++k) {
        if (arrays_[k]->live != other.arrays_[k]->live) return false;
    }
    return true;
}

// --- what the script asks for

void Run::measure(const std::function<void()>& work) {
    keep_host_inputs();
    for (const auto& array : arrays_) {
        if (array->made()) array->snapshot = device_room(array->bytes);
    }
    switch (session.mode) {
        case Mode::record: return record(work);
        case Mode::lead: return lead(work);
        case Mode::follow: return follow(work);
    }
}

void Run::record(const std::function<void()>& work) {
    await_turn();
    launch(work);
    session.inputs_whole = inputs_are_whole();
    session.repeated = true;
    say("{\"event\": \"launched\"}");
}

// The first of two seeds: the second one's program runs inside this call.
void Run::lead(const std::function<void()>& work) {
    session.leader = this;
    session.leaders_work = &work;
    session.mode = Mode::follow;
    char name[] = "program", option[] = "--seed";
    std::string seed = std::to_string(session.second_seed);
    char* arguments[] = {name, option, seed.data(), nullptr};
    problem_main(3, arguments);
    show_result(work);
}

void Run::follow(const std::function<void()>& work) {
    Run& leader = *session.leader;
    session.rotated = same_places(leader);
    await_turn();
    leader.launch(*session.leaders_work);
    leader.keep_reference();
    const double first = launch(work).microseconds;
    keep_reference();
    for (int i = 0; i < kWarmUp; ++i) leader.launch(*session.leaders_work), launch(work);
    CUDA_CHECK(cudaDeviceSynchronize());
    say("{\"event\": \"ready\", " + field("first_us", first) + ", " +
        field("alike", snapshot_is(leader, true)) + ", " + field("rotated", session.rotated) + "}");
    serve(work);
    show_result(work);
}

void Run::serve(const std::function<void()>& work) {
    for (;;) {
        const std::vector<std::string> words = heard();
        if (words[0] == "end") return;
        if (words[0] == "probe") {
            say("{\"event\": \"probed\", " + probed(work) + "}");
            continue;
        }
        if (words[0] != "go" || words.size() < 2) _exit(4);
        const uint64_t count = std::strtoull(words[1].c_str(), nullptr, 10);
        say("{\"event\": \"timed\", " + timed_turn(work, std::max<uint64_t>(count, 1)) + "}");
    }
}

std::string Run::timed_turn(const std::function<void()>& work, uint64_t count) {
    launch(work);  // another program had the GPU: its first launch is not timed
    const uint64_t renewed_at = session.order.below(count);
    std::string launches, novel;
    for (uint64_t i = 0; i < count; ++i) {
        if (i == renewed_at) novel = renewed(work);
        launches += (i ? ", {" : "{") + timed(work) + "}";
    }
    return "\"launches\": [" + launches + "], \"novel\": {" + novel + "}";
}

// One launch, and what it was worth: see verdict_of_launch() of the script.
std::string Run::timed(const std::function<void()>& work) {
    const bool leads = session.order.bits() >> 63;
    Run& mine = leads ? *session.leader : *this;
    Run& other = leads ? *this : *session.leader;
    const double time = mine.launch(leads ? *session.leaders_work : work).microseconds;
    mine.pick();
    const bool right = mine.snapshot_is(mine, false);
    const bool stale = right ? mine.snapshot_is(other, true) && !mine.snapshot_is(mine, true)
                             : mine.snapshot_is(other, false);
    return field("us", time) + ", " + field("right", right) + ", " + field("stale", stale) + ", " +
           field("right_later", right || mine.outputs_are(false)) + ", " +
           field("inputs_whole", mine.inputs_are_whole());
}

// Whoever keeps results by what the data are has to work here, and that takes its time.
std::string Run::renewed(const std::function<void()>& work) {
    const bool leads = session.order.bits() >> 63;
    Run& mine = leads ? *session.leader : *this;
    Run& other = leads ? *this : *session.leader;
    const double fresh = std::max(session.order.uniform(), 1e-3);
    const double time =
        mine.launch(leads ? *session.leaders_work : work, nullptr, fresh).microseconds;
    const bool same = mine.snapshot_is(mine, true) || mine.snapshot_is(other, true);
    return field("us", time) + ", " + field("same", same) + ", " +
           field("nothing", mine.nothing_written());
}

// Whoever keeps results by what the Problem holds (sizes, addresses) gives the old one.
std::string Run::probed(const std::function<void()>& work) {
    const Run* floats_of = session.rotated ? session.leader : nullptr;
    launch(work, floats_of);
    return field("same", snapshot_is(*this, false)) + ", " +
           field("inputs_whole", inputs_are_whole(floats_of));
}

// What one of the timed launches gave is put where the problem will look for it.
void Run::show_result(const std::function<void()>& work) {
    if (timed_ == 0) launch(work);
    session.inputs_whole = timed_ > 0 || inputs_are_whole();
    for (const auto& array : arrays_) {
        if (timed_ && array->made()) copy_on_device(array->live, array->picked, array->bytes);
    }
    session.repeated = outputs_are(false);
}

// --- the problem's own check

void Run::look_for_poison(double value) {
    if (!std::isfinite(value)) ++not_finite_;
}

void Run::compare(double got, double want, Tolerance tolerance) {
    ++checked_;
    const bool close = std::fabs(got - want) <=
                       tolerance.absolute + tolerance.relative * std::fabs(want);
    if (close) return;  // never for NaN
    if (wrong_++ > 0) return;
    char text[96];
    std::snprintf(text, sizeof text, "got %.9g, expected %.9g", got, want);
    example_ = text;
}

int Run::finish() {
    session.checks.push_back({checked_, wrong_, not_finite_, session.repeated,
                              session.inputs_whole, example_});
    return session.checks.back().ok() ? 0 : 1;
}

namespace {

std::string told(const Checked& check) {
    return "{" + field("ok", check.ok()) + ", " + field("checked", double(check.checked)) + ", " +
           field("wrong", double(check.wrong)) + ", " +
           field("not_finite", double(check.not_finite)) + ", " +
           field("repeated", check.repeated) + ", " + field("inputs_whole", check.inputs_whole) +
           ", \"example\": " + quoted(check.example) + "}";
}

void run_problem(Mode mode, std::string seed) {
    session.mode = mode;
    session.checks.clear();
    char name[] = "program", option[] = "--seed";
    char* arguments[] = {name, option, seed.data(), nullptr};
    problem_main(3, arguments);
    CUDA_CHECK(cudaDeviceSynchronize());
    std::string checks;
    for (const Checked& check : session.checks) checks += (checks.empty() ? "" : ", ") + told(check);
    say("{\"event\": \"checked\", \"checks\": [" + checks + "]}");
}

double attribute(cudaDeviceAttr name) {
    int value = 0;
    CUDA_CHECK(cudaDeviceGetAttribute(&value, name, 0));
    return value;
}

void tell_facts() {
    cudaDeviceProp properties;
    CUDA_CHECK(cudaGetDeviceProperties(&properties, 0));
    int runtime = 0, driver = 0;
    CUDA_CHECK(cudaRuntimeGetVersion(&runtime));
    CUDA_CHECK(cudaDriverGetVersion(&driver));
    say("{\"event\": \"facts\", \"gpu\": " + quoted(properties.name) + ", " +
        field("sms", attribute(cudaDevAttrMultiProcessorCount)) + ", " +
        field("clock_khz", attribute(cudaDevAttrClockRate)) + ", " +
        field("memory_clock_khz", attribute(cudaDevAttrMemoryClockRate)) + ", " +
        field("bus_bits", attribute(cudaDevAttrGlobalMemoryBusWidth)) + ", " +
        field("l2_bytes", attribute(cudaDevAttrL2CacheSize)) + ", " +
        field("coherent", attribute(cudaDevAttrPageableMemoryAccessUsesHostPageTables)) + ", " +
        field("capability", 10 * attribute(cudaDevAttrComputeCapabilityMajor) +
                                attribute(cudaDevAttrComputeCapabilityMinor)) + ", " +
        field("cuda_runtime", double(runtime)) + ", " + field("cuda_driver", double(driver)) + "}");
}

void obey(const std::vector<std::string>& words) {
    if (words[0] == "facts") return tell_facts();
    if (words[0] == "record" && words.size() == 2) return run_problem(Mode::record, words[1]);
    if (words[0] == "time" && words.size() == 4) {
        session.second_seed = std::strtoull(words[2].c_str(), nullptr, 10);
        session.order = Random(std::strtoull(words[3].c_str(), nullptr, 10));
        return run_problem(Mode::lead, words[1]);
    }
    _exit(words[0] == "quit" ? 0 : 4);
}

}  // namespace

int lead_the_program(int in, int out) {
    signal(SIGXFSZ, SIG_IGN);
    session.in = in;
    session.out = out;
    const std::vector<std::string> hello = heard();
    if (hello.size() != 2 || hello[0] != "hello") _exit(4);
    session.nonce = hello[1];
    for (;;) obey(heard());
}

}  // namespace harness

int main(int argc, char** argv) {
    if (argc != 3) return 4;
    return harness::lead_the_program(std::atoi(argv[1]), std::atoi(argv[2]));
}
