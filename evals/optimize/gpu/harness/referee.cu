// The referee owns what a candidate must not touch: the inputs before they are due, the results
// from the moment they are due, and the clock. No code of a candidate is in its process.
//
//   REFEREE SOCKET
//
//   facts                                  the GPU
//   results BYTES            + descriptor  shared memory for results that are to be checked
//   set K PROBLEM ROLE BYTES OFFSET ...    + descriptor: the inputs of a seed, kept on the device
//   quiet K                                how long it takes to reveal set K. Asked first when no
//                                          candidate has a process: launches are compared with it
//   join SECONDS             + descriptor  the socket of the candidate, instead of an earlier one's:
//                                          it maps the arrays, whose memory is overwritten first
//   launch K OFFSET SECONDS [WARM]         one launch on set K; its result goes to OFFSET of the
//                                          results. Before it, launches on set WARM wake up the GPU
//                                          and the processes; the last of them is timed as well
//
// A launch: outputs and scratch are poisoned, and the candidate says that it is armed. Only then are
// the inputs revealed: copied to where the candidate sees them, and L2 is cooled. A kernel of this
// process holds the GPU until the candidate is told to go, and the clock starts. When it says that
// it is done, a kernel of this process raises a flag and copies the results; the clock stops when
// the flag is up. The GPU runs one process's kernels at a time (unless MPS is on, and then nothing is
// measured): that kernel comes after the candidate's work, or interrupts it and copies what is there.
//
// Nothing of the candidate can have read the inputs before the reveal began, whatever it had queued.
// If it works during the reveal, it delays it: what the reveal takes longer than a quiet one is added
// to the candidate's time. What the switches and the calls take is measured with an empty program and
// subtracted.
//
// The results are compared with what lies in the arrays somewhat later: a candidate that still
// writes has said "done" too early.
#include <cuda_runtime.h>
#include <poll.h>
#include <sched.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "device_memory.h"
#include "kernels.h"
#include "text.h"

namespace harness {

namespace {

constexpr size_t kGranularity = size_t{2} << 20;  // of device memory that is shared
constexpr size_t kPage = 4096;
constexpr int kCollapse = 25;  // MADV_COLLAPSE of Linux 6.1: large pages, as cudaHostAlloc has them
constexpr size_t kQuietTimes = 9;
constexpr double kWarmUs = 5000;  // chosen: some launches more than it takes to fill caches

struct Array {
    std::string role;
    size_t bytes = 0, offset = 0;

    bool on_host() const { return role == "host_input"; }
    bool fixed() const { return role == "input" || on_host(); }
    bool given() const { return fixed() || role == "state"; }
    bool made() const { return role == "output" || role == "state"; }
};

// Where the k-th array of every set lies, and the copy of results.
struct Place {
    void* live = nullptr;
    void* snapshot = nullptr;
    size_t capacity = 0;
    int descriptor = -1;
    bool host = false;
};

struct Set {
    std::vector<Array> arrays;
    std::vector<void*> originals;  // on the device
    std::vector<size_t> room;      // of each original
    std::string problem;
    double quiet_us = 0;  // to reveal it with no candidate there; 0: not measured
};

struct Member {
    int socket = -1;
    Block* block = nullptr;
    uint32_t launches = 0;
};

struct Session {
    int socket = -1;
    char* results = nullptr;
    size_t result_bytes = 0;
    std::vector<Place> places;
    std::map<int, Set> sets;
    Member member;  // the candidate that has its turn
    std::random_device entropy;
};

Session* session;

// --- the socket

void say(const std::string& json) {
    if (!send_packet(session->socket, json.data(), json.size())) _exit(4);
}

[[noreturn]] void end_with(const std::string& what) {
    say("{\"event\": \"failed\", \"what\": " + quoted(what) + "}");
    _exit(3);
}

}  // namespace

void must_succeed(cudaError_t status, int line) {
    if (status == cudaSuccess) return;
    end_with(cudaGetErrorString(status) + (" (line " + std::to_string(line) + " of the referee)"));
}

namespace {

double now_us() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return 1e6 * static_cast<double>(time.tv_sec) + 1e-3 * static_cast<double>(time.tv_nsec);
}

// --- memory

unsigned char* bytes_of(void* memory) { return static_cast<unsigned char*>(memory); }

// What a kernel adds up over the arrays of a role.
template <class Step>
unsigned long long added_up(const Set& set, bool (Array::*wanted)() const, const Step& step) {
    static auto* total = static_cast<unsigned long long*>(device_room(8));
    MUST(cudaMemset(total, 0, 8));
    for (size_t k = 0; k < set.arrays.size(); ++k) {
        if ((set.arrays[k].*wanted)()) step(k, total);
    }
    unsigned long long value = 0;
    MUST(cudaMemcpy(&value, total, sizeof value, cudaMemcpyDeviceToHost));
    return value;
}

bool inputs_are_whole(const Set& set) {
    return added_up(set, &Array::fixed, [&](size_t k, unsigned long long* total) {
               LAUNCH(count_unequal, bytes_of(session->places[k].live), bytes_of(set.originals[k]),
                      set.arrays[k].bytes, total);
           }) == 0;
}

// Whether the arrays still hold what was copied when the clock stopped.
bool is_settled(const Set& set) {
    return added_up(set, &Array::made, [&](size_t k, unsigned long long* total) {
               const Place& place = session->places[k];
               LAUNCH(count_unequal, bytes_of(place.live), bytes_of(place.snapshot),
                      set.arrays[k].bytes, total);
           }) == 0;
}

unsigned long long digest_of(const Set& set) {
    return added_up(set, &Array::made, [&](size_t k, unsigned long long* total) {
        LAUNCH(digest_into, bytes_of(session->places[k].snapshot), set.arrays[k].bytes, total);
    });
}

void make_device_place(Place& place, size_t index) {
    const auto create = driver_function<decltype(cuMemCreate)>("cuMemCreate");
    const auto share = driver_function<decltype(cuMemExportToShareableHandle)>(
        "cuMemExportToShareableHandle");
    if (!create || !share) end_with("this driver cannot share device memory");
    CUmemAllocationProp wanted{};
    wanted.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    wanted.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    wanted.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    CUmemGenericAllocationHandle memory{};
    int error = create(&memory, place.capacity, &wanted, 0);
    if (error == CUDA_ERROR_OUT_OF_MEMORY) MUST(cudaErrorMemoryAllocation);
    if (!error) {
        error = share(&place.descriptor, memory, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    }
    if (!error) error = map_on_device(memory, address_of(index), place.capacity);
    if (error) end_with("device memory cannot be shared: error " + std::to_string(error));
    place.live = address_of(index);
}

void make_host_place(Place& place, size_t index) {
    place.descriptor = sealed_memory("input", place.capacity);
    if (place.descriptor < 0) end_with("no shared memory");
    place.live = shared_memory(place.descriptor, place.capacity, 0, address_of(index));
    if (!place.live) end_with("the address of an array is taken");
    madvise(place.live, place.capacity, kCollapse);
    MUST(cudaHostRegister(place.live, place.capacity, cudaHostRegisterMapped));
    void* device = nullptr;
    MUST(cudaHostGetDevicePointer(&device, place.live, 0));
    if (device != place.live) end_with("the device sees host memory at another address");
}

// A quarter more than the first seed takes: others may have a little more.
void make_place(const Array& array, size_t index) {
    Place place;
    place.host = array.on_host();
    const size_t wanted = array.bytes + array.bytes / 4 + 1;
    place.capacity = (wanted + kGranularity - 1) / kGranularity * kGranularity;
    place.host ? make_host_place(place, index) : make_device_place(place, index);
    if (array.made()) place.snapshot = device_room(place.capacity);
    session->places.push_back(place);
}

// --- sets of inputs

void read_arrays(Set& set, const std::vector<std::string>& words) {
    set.arrays.clear();
    set.quiet_us = 0;
    for (size_t i = 3; i + 2 < words.size(); i += 3) {
        set.arrays.push_back({words[i], std::strtoull(words[i + 1].c_str(), nullptr, 10),
                              std::strtoull(words[i + 2].c_str(), nullptr, 10)});
    }
    set.problem.clear();
    for (size_t i = 0; i + 1 < words[2].size(); i += 2) {
        set.problem += static_cast<char>(std::strtoul(words[2].substr(i, 2).c_str(), nullptr, 16));
    }
}

void find_places(const Set& set) {
    const bool first = session->places.empty();
    for (size_t k = 0; first && k < set.arrays.size(); ++k) make_place(set.arrays[k], k);
    if (set.arrays.size() != session->places.size()) end_with("another number of arrays");
    for (size_t k = 0; k < set.arrays.size(); ++k) {
        const Place& place = session->places[k];
        if (set.arrays[k].bytes > place.capacity || set.arrays[k].on_host() != place.host) {
            end_with("the arrays of this seed are larger than those of the first by a quarter");
        }
    }
    if (set.problem.size() > kMostProblemBytes) end_with("the Problem is too large");
}

void* room_for(Set& set, size_t k) {
    const size_t bytes = session->places[k].capacity;
    set.originals.resize(set.arrays.size());
    set.room.resize(set.arrays.size());
    if (set.room[k] >= bytes) return set.originals[k];
    set.room[k] = bytes;
    return set.originals[k] = device_room(bytes);
}

void keep_original(Set& set, size_t k, int inputs) {
    const Array& array = set.arrays[k];
    void* const original = room_for(set, k);
    if (!array.bytes) return;
    void* values = shared_memory(inputs, array.bytes, array.offset);
    if (!values) end_with("the inputs cannot be read");
    MUST(cudaMemcpy(original, values, array.bytes, cudaMemcpyHostToDevice));
    munmap(values, array.bytes);
}

void take_set(const std::vector<std::string>& words, int inputs) {
    Set& set = session->sets[std::atoi(words[1].c_str())];
    read_arrays(set, words);
    find_places(set);
    set.originals.resize(set.arrays.size());
    for (size_t k = 0; k < set.arrays.size(); ++k) {
        if (set.arrays[k].given()) keep_original(set, k, inputs);
    }
    say("{\"event\": \"set\"}");
}

// --- candidates

// Whether anything is said within the time; a candidate that ended says nothing any more.
bool hears(int socket, double seconds) {
    pollfd watched{socket, POLLIN, 0};
    return poll(&watched, 1, static_cast<int>(1e3 * seconds)) == 1 && (watched.revents & POLLIN);
}

bool has_ended(int socket) {
    pollfd watched{socket, 0, 0};
    return poll(&watched, 1, 0) == 1 && (watched.revents & (POLLHUP | POLLERR));
}

Block* shared_block(int socket) {
    const int descriptor = sealed_memory("block", sizeof(Block));
    if (descriptor < 0) end_with("no shared memory");
    void* block = shared_memory(descriptor, sizeof(Block));
    if (!block) end_with("no shared memory");
    send_packet(socket, "b", 1, descriptor);
    close(descriptor);
    return static_cast<Block*>(block);
}

void part_from_member() {
    Member& member = session->member;
    if (member.socket >= 0) close(member.socket);
    if (member.block) munmap(member.block, sizeof(Block));
    member = Member{};
}

// With what lies beyond its end in a set too: a candidate could leave something there for another.
void overwrite_arrays() {
    for (const Place& place : session->places) {
        if (place.host) {
            std::memset(place.live, 0xFF, place.capacity);
        } else {
            MUST(cudaMemset(place.live, 0xFF, place.capacity));
        }
    }
    MUST(cudaDeviceSynchronize());
}

// What happens to a candidate that does not answer is for the script to find out.
void join(int socket, double seconds) {
    part_from_member();
    overwrite_arrays();
    Member& member = session->member;
    member.socket = socket;
    member.block = shared_block(socket);
    for (size_t k = 0; k < session->places.size(); ++k) {
        const Place& place = session->places[k];
        const PlaceMessage message{place.capacity, static_cast<uint32_t>(k), place.host};
        send_packet(socket, &message, sizeof message, place.descriptor);
    }
    const PlaceMessage last{};
    send_packet(socket, &last, sizeof last);
    char ready = 0;
    const bool heard = hears(socket, seconds);
    const bool joined = heard && receive_packet(socket, &ready, 1) == 1;
    if (!joined) part_from_member();
    say(joined ? "{\"event\": \"joined\"}" : heard ? "{\"event\": \"gone\"}" : "{\"event\": \"hung\"}");
}

// --- one launch

// Host memory that a kernel of this process writes or reads.
unsigned* shared_flag() {
    unsigned* flag = nullptr;
    MUST(cudaMallocHost(reinterpret_cast<void**>(&flag), kPage));
    *flag = 0;
    return flag;
}

void await_flag(const unsigned* flag, unsigned value) {
    while (*static_cast<const volatile unsigned*>(flag) != value) relax();
}

// What a candidate may see before its time. Afterwards this process has the GPU.
void poison(const Set& set) {
    for (size_t k = 0; k < set.arrays.size(); ++k) {
        const Array& array = set.arrays[k];
        if (!array.given()) MUST(cudaMemsetAsync(session->places[k].live, 0xFF, array.bytes, nullptr));
    }
    if (cudaCtxResetPersistingL2Cache() != cudaSuccess) cudaGetLastError();  // not on every GPU
    MUST(cudaDeviceSynchronize());
}

// By a kernel, not by the copy engine, beside which kernels of other processes could run.
void copy_from_anywhere(const Set& set, size_t k, void* from, void* to) {
    const size_t words = set.arrays[k].bytes / 16;
    const size_t first = words ? (size_t{session->entropy()} << 20 ^ session->entropy()) % words : 0;
    LAUNCH(copy_from, bytes_of(from), bytes_of(to), set.arrays[k].bytes, first);
}

// Keeps the GPU for this process from the end of the reveal until `release`: a kernel that a candidate
// has queued cannot begin earlier than one that is launched at "go".
struct Hold {
    unsigned* begun = shared_flag();
    unsigned* released = shared_flag();
    unsigned number = 0;

    void begin() {
        hold_gpu(begun, released, ++number);
        await_flag(begun, number);
    }
    void release() { *static_cast<volatile unsigned*>(released) = number; }
};

Hold& gpu() {
    static Hold hold;
    return hold;
}

// Microseconds that it took: more than usual where another process uses the GPU. The GPU is held.
double reveal(const Set& set) {
    const double begin = now_us();
    for (size_t k = 0; k < set.arrays.size(); ++k) {
        if (set.arrays[k].given()) copy_from_anywhere(set, k, set.originals[k], session->places[k].live);
    }
    cool_l2();
    gpu().begin();
    return now_us() - begin;
}

// Returns when the GPU has begun with it.
void take_snapshot(const Set& set) {
    static unsigned* const flag = shared_flag();
    static unsigned raised = 0;
    raise(flag, ++raised);
    for (size_t k = 0; k < set.arrays.size(); ++k) {
        const Place& place = session->places[k];
        if (set.arrays[k].made()) copy_from_anywhere(set, k, place.live, place.snapshot);
    }
    await_flag(flag, raised);
}

enum class Wait { reached, hung, gone };

Wait await(const std::atomic<uint32_t>& counter, uint32_t number, int socket, double seconds) {
    const double end = now_us() + 1e6 * seconds;
    for (unsigned turn = 1; counter.load(std::memory_order_acquire) != number; ++turn) {
        if (turn % 4096) {
            relax();
            continue;
        }
        sched_yield();
        if (has_ended(socket)) return Wait::gone;
        if (now_us() > end) return Wait::hung;
    }
    return Wait::reached;
}

// Locked in memory: a copy from the device takes a tenth of the time.
void share_results(size_t bytes, int descriptor) {
    void* room = shared_memory(descriptor, bytes);
    close(descriptor);
    if (!room) end_with("no memory");
    MUST(cudaHostRegister(room, bytes, cudaHostRegisterMapped));
    session->results = static_cast<char*>(room);
    session->result_bytes = bytes;
    say("{\"event\": \"results\"}");
}

void keep_result(const Set& set, size_t offset) {
    for (size_t k = 0; k < set.arrays.size(); ++k) {
        const size_t bytes = set.arrays[k].bytes;
        if (!set.arrays[k].made()) continue;
        if (offset + bytes > session->result_bytes) end_with("no room for a result");
        MUST(cudaMemcpy(session->results + offset, session->places[k].snapshot, bytes,
                        cudaMemcpyDeviceToHost));
        offset += (bytes + kPage - 1) / kPage * kPage;
    }
}

bool has_failed(const Member& member) {
    if (!member.block->failed) return false;
    char what[sizeof member.block->what];
    std::memcpy(what, member.block->what, sizeof what);
    what[sizeof what - 1] = 0;
    say("{\"event\": \"error\", \"what\": " + quoted(what) + "}");
    return true;
}

bool arrives(Wait wait) {
    if (wait == Wait::reached) return true;
    say(wait == Wait::gone ? "{\"event\": \"gone\"}" : "{\"event\": \"hung\"}");
    return false;
}

struct Times {
    double whole;     // from "go" until the results are copied, and what the reveal was delayed
    double after;     // the part of it that follows "done"
    double revealed;  // what the reveal took
};

// False: it did not come to its end, and the script was told so.
bool launch(Member& member, const Set& set, double seconds, Times& times) {
    const uint32_t number = ++member.launches;
    Block& block = *member.block;
    poison(set);
    const ArmMessage arm{number};
    if (!send_packet(member.socket, &arm, sizeof arm)) return arrives(Wait::gone);
    if (!arrives(await(block.armed, number, member.socket, seconds))) return false;
    times.revealed = reveal(set);
    const double begin = now_us();
    std::memcpy(block.problem, set.problem.data(), set.problem.size());
    block.go.store(number, std::memory_order_release);
    gpu().release();
    if (!arrives(await(block.done, number, member.socket, seconds))) return false;
    const double done = now_us();
    take_snapshot(set);
    const double end = now_us();
    MUST(cudaDeviceSynchronize());
    times.whole = end - begin + std::max(0.0, times.revealed - set.quiet_us);
    times.after = end - done;
    return !has_failed(member);
}

void launch_and_tell(Member& member, const Set& set, const Set* warm, size_t offset,
                     double seconds) {
    Times seen{}, times{};
    const double begin = now_us();
    for (int i = 0; warm && (i < 2 || now_us() - begin < kWarmUs); ++i) {
        if (!launch(member, *warm, seconds, seen)) return;
    }
    if (!launch(member, set, seconds, times)) return;
    keep_result(set, offset);
    say("{\"event\": \"launched\", " + field("us", times.whole) + ", " +
        field("seen_us", seen.whole) + ", " + field("after_us", times.after) + ", " +
        field("revealed_us", times.revealed) + ", " + field("inputs_whole", inputs_are_whole(set)) +
        ", " + field("settled", is_settled(set)) + ", \"digest\": \"" +
        std::to_string(digest_of(set)) + "\"}");
}

// --- what the script asks for

double attribute(cudaDeviceAttr name) {
    int value = 0;
    MUST(cudaDeviceGetAttribute(&value, name, 0));
    return value;
}

void tell_facts() {
    cudaDeviceProp properties;
    MUST(cudaGetDeviceProperties(&properties, 0));
    int runtime = 0, driver = 0;
    MUST(cudaRuntimeGetVersion(&runtime));
    MUST(cudaDriverGetVersion(&driver));
    say("{\"event\": \"facts\", \"gpu\": " + quoted(properties.name) + ", " +
        field("sms", attribute(cudaDevAttrMultiProcessorCount)) + ", " +
        field("clock_khz", attribute(cudaDevAttrClockRate)) + ", " +
        field("memory_clock_khz", attribute(cudaDevAttrMemoryClockRate)) + ", " +
        field("bus_bits", attribute(cudaDevAttrGlobalMemoryBusWidth)) + ", " +
        field("l2_bytes", attribute(cudaDevAttrL2CacheSize)) + ", " +
        field("mps", attribute(cudaDevAttrMpsEnabled)) + ", " +
        field("coherent", attribute(cudaDevAttrPageableMemoryAccessUsesHostPageTables)) + ", " +
        field("capability", 10 * attribute(cudaDevAttrComputeCapabilityMajor) +
                                attribute(cudaDevAttrComputeCapabilityMinor)) + ", " +
        field("cuda_runtime", double(runtime)) + ", " + field("cuda_driver", double(driver)) + "}");
}

void tell_quiet(Set& set) {
    std::vector<double> times;
    for (const double begin = now_us(); times.size() < kQuietTimes;) {
        poison(set);
        const double took = reveal(set);
        gpu().release();
        MUST(cudaDeviceSynchronize());
        if (now_us() - begin > kWarmUs) times.push_back(took);
    }
    std::nth_element(times.begin(), times.begin() + kQuietTimes / 2, times.end());
    const double middle = times[kQuietTimes / 2];
    if (set.quiet_us == 0) set.quiet_us = middle;
    say("{\"event\": \"quiet\", " + field("revealed_us", middle) + "}");
}

Set& set_named(const std::string& number) {
    const auto found = session->sets.find(std::atoi(number.c_str()));
    if (found == session->sets.end()) end_with("no such set");
    return found->second;
}

void launch_named(const std::vector<std::string>& words) {
    if (!session->member.block) return say("{\"event\": \"gone\"}");
    const Set* warm = words.size() > 4 ? &set_named(words[4]) : nullptr;
    launch_and_tell(session->member, set_named(words[1]), warm,
                    std::strtoull(words[2].c_str(), nullptr, 10), std::atof(words[3].c_str()));
}

void obey(const std::vector<std::string>& words, int descriptor) {
    const std::string& verb = words[0];
    const size_t count = words.size();
    if (verb == "facts") return tell_facts();
    if (verb == "results" && descriptor >= 0 && count == 2) {
        return share_results(std::strtoull(words[1].c_str(), nullptr, 10), descriptor);
    }
    if (verb == "set" && descriptor >= 0 && count >= 3) {
        take_set(words, descriptor);
        close(descriptor);
        return;
    }
    if (verb == "join" && descriptor >= 0 && count == 2) {
        return join(descriptor, std::atof(words[1].c_str()));
    }
    if (verb == "quiet" && count == 2) return tell_quiet(set_named(words[1]));
    if (verb == "launch" && (count == 4 || count == 5)) return launch_named(words);
    end_with("not a command");
}

}  // namespace

int run_referee(int socket) {
    session = new Session;
    session->socket = socket;
    cudaSetDeviceFlags(cudaDeviceScheduleSpin);
    std::vector<char> text(size_t{1} << 17);
    for (;;) {
        int descriptor = -1;
        const ssize_t got = receive_packet(socket, text.data(), text.size(), &descriptor);
        if (got <= 0) _exit(0);
        obey(split(std::string(text.data(), static_cast<size_t>(got))), descriptor);
    }
}

}  // namespace harness

int main(int argc, char** argv) {
    if (argc != 2 || !harness::hide_memory()) return 4;
    return harness::run_referee(std::atoi(argv[1]));
}
