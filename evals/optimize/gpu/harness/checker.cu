// How a checker is led:
//
//   CHECKER SOCKET INPUTS RESULTS     file descriptors: of commands, and of shared memory
//
//   make SEED                         runs the problem up to its launch: its inputs are in INPUTS,
//                                     each at its offset, and the reply has the Problem as bytes
//   check OFFSET SEED                 the problem's own check of the result that lies at this offset
//                                     of RESULTS; the seed chooses the entries that are looked at
//
// Seeds are 32 hexadecimal digits. A problem checks one result and ends: so each check is a fork of
// this process, made where the problem waits for its launch. That is safe because no checker uses
// CUDA. It ends when the socket is closed.
#define HARNESS_ITSELF
#include "harness.h"

#include <sys/wait.h>

#include <algorithm>
#include <cinttypes>
#include <new>

#include "shared.h"
#include "text.h"

int problem_main(int argc, char** argv);

namespace harness {

namespace {

struct Session {
    int socket = -1, inputs = -1, results = -1;
    size_t used = 0;  // bytes of `inputs`
    Seed seed;
    Run* building = nullptr;
    std::string problem;          // as hexadecimal digits
    Checked* report = nullptr;    // of the check that this process runs
};

Session session;

constexpr size_t kAlignment = 4096;

size_t rounded_up(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

[[noreturn]] void end_with(const std::string& what) {
    const std::string text = "{\"event\": \"failed\", \"what\": " + quoted(what) + "}";
    send_packet(session.socket, text.data(), text.size());
    _exit(3);
}

std::vector<std::string> next_command() {
    char text[16384];
    const ssize_t got = receive_packet(session.socket, text, sizeof text);
    if (got <= 0) _exit(0);
    return split(std::string(text, static_cast<size_t>(got)));
}

Seed seed_of(const std::string& digits) {
    Seed seed;
    const bool read =
        std::sscanf(digits.c_str(), "%16" SCNx64 "%16" SCNx64, &seed.high, &seed.low) == 2;
    if (!read) end_with("not a seed");
    return seed;
}

uint64_t split_mixed(uint64_t& state) {
    uint64_t value = state += 0x9E3779B97F4A7C15ull;
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ull;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EBull;
    return value ^ (value >> 31);
}

const char* name_of(Array::Role role) {
    const char* const names[] = {"input", "host_input", "state", "output", "scratch"};
    return names[static_cast<int>(role)];
}

std::string told(const Checked& check) {
    return "{" + field("checked", double(check.checked)) + ", " +
           field("wrong", double(check.wrong)) + ", " +
           field("not_finite", double(check.not_finite)) + ", " +
           field("finished", check.finished) + ", \"example\": " + quoted(check.example) + "}";
}

}  // namespace

void must_succeed(cudaError_t status, const char* file, int line) {
    if (status != cudaSuccess) end_with(file + (":" + std::to_string(line)));
}

void hand_over(const void* problem, size_t bytes) {
    session.problem.clear();
    for (size_t i = 0; i < bytes; ++i) {
        char digits[3];
        std::snprintf(digits, sizeof digits, "%02x", static_cast<const unsigned char*>(problem)[i]);
        session.problem += digits;
    }
}

Random::Random(Seed seed) {
    for (int i = 0; i < 4; ++i) state_[i] = split_mixed(i % 2 ? seed.low : seed.high);
    for (int i = 0; i < 8; ++i) bits();  // until every bit of the seed is in every number
}

double Random::normal() {
    const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
    return radius * std::cos(6.283185307179586 * uniform());
}

Run::Run(int, char**) : seed_(session.seed), random_(seed_), picks_(seed_) {
    session.building = this;
}

// --- what the problem declares

void* Run::add(Array::Role role, size_t bytes) {
    if (arrays_.size() == kMostArrays || bytes > kStride / 2) end_with("an array too many or too large");
    arrays_.push_back({role, bytes, session.used});
    return address_of(arrays_.size() - 1);
}

void* Run::add_given(Array::Role role, const void* values, size_t bytes) {
    void* const address = add(role, bytes);
    const size_t room = rounded_up(std::max<size_t>(bytes, 1));
    if (ftruncate(session.inputs, static_cast<off_t>(session.used + room)) != 0) end_with("no memory");
    void* shared = shared_memory(session.inputs, room, session.used);
    if (!shared) end_with("no memory");
    std::memcpy(shared, values, bytes);
    munmap(shared, room);
    session.used += room;
    return address;
}

// The problem writes to it before it calls measure().
cudaError_t host_input(void** host, size_t bytes, unsigned) {
    Run& run = *session.building;
    void* const at = run.add(Array::Role::host_input, bytes);
    *host = mmap(at, rounded_up(bytes), PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    return *host == at ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t device_address(void** device, void* host, unsigned) {
    *device = host;
    return cudaSuccess;
}

void Run::keep_host_inputs() {
    for (size_t k = 0; k < arrays_.size(); ++k) {
        Array& array = arrays_[k];
        if (array.role != Array::Role::host_input) continue;
        const size_t room = rounded_up(array.bytes);
        array.offset = session.used;
        if (ftruncate(session.inputs, static_cast<off_t>(session.used + room)) != 0) end_with("no memory");
        void* shared = shared_memory(session.inputs, room, session.used);
        if (!shared) end_with("no memory");
        std::memcpy(shared, address_of(k), array.bytes);
        munmap(shared, room);
        session.used += room;
    }
}

std::string Run::description() const {
    std::string text;
    for (const Array& array : arrays_) {
        text += (text.empty() ? "[\"" : ", [\"") + std::string(name_of(array.role)) + "\", " +
                std::to_string(array.bytes) + ", " + std::to_string(array.offset) + "]";
    }
    return "{\"event\": \"made\", \"arrays\": [" + text + "], \"problem\": \"" + session.problem +
           "\"}";
}

void Run::measure(const std::function<void()>& work) {
    keep_host_inputs();
    work();
    const std::string made = description();
    if (!send_packet(session.socket, made.data(), made.size())) _exit(4);
    while (!begins_check(next_command())) {
    }
}

// --- the problem's own check

// Results lie one behind the other, in the order of their arrays.
size_t Run::result_bytes() const {
    size_t bytes = 0;
    for (const Array& array : arrays_) bytes += array.made() ? rounded_up(array.bytes) : 0;
    return bytes;
}

// True in the process that runs the check, false in the other one when that has ended.
bool Run::begins_check(const std::vector<std::string>& command) {
    if (command.size() != 3 || command[0] != "check") end_with("not a command");
    void* shared = mmap(nullptr, sizeof(Checked), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) end_with("no memory");
    session.report = new (shared) Checked;
    const pid_t child = fork();
    if (child < 0) end_with("cannot fork");
    if (child == 0) {
        begin_check(std::strtoull(command[1].c_str(), nullptr, 10), seed_of(command[2]));
        return true;
    }
    waitpid(child, nullptr, 0);
    const std::string text = "{\"event\": \"checked\", \"check\": " + told(*session.report) + "}";
    munmap(shared, sizeof(Checked));
    if (!send_packet(session.socket, text.data(), text.size())) _exit(4);
    return false;
}

void Run::begin_check(size_t offset, Seed picks) {
    result_ = static_cast<const char*>(shared_memory(session.results, result_bytes(), offset));
    if (!result_) _exit(3);
    picks_ = Random(picks);
    checked_ = {};
}

void Run::fetch_bytes(void* values, const void* device, size_t bytes) const {
    size_t at = 0;
    for (size_t k = 0; k < arrays_.size(); ++k) {
        if (!arrays_[k].made()) continue;
        const size_t within = static_cast<size_t>(static_cast<const char*>(device) -
                                                  static_cast<const char*>(address_of(k)));
        if (device >= address_of(k) && within + bytes <= arrays_[k].bytes) {
            std::memcpy(values, result_ + at + within, bytes);
            return;
        }
        at += rounded_up(arrays_[k].bytes);
    }
    _exit(3);  // no result lies there: the check does not finish
}

void Run::compare(double got, double want, Tolerance tolerance) {
    ++checked_.checked;
    const bool close = std::fabs(got - want) <=
                       tolerance.absolute + tolerance.relative * std::fabs(want);
    if (close) return;  // never for NaN
    if (checked_.wrong++ > 0) return;
    std::snprintf(checked_.example, sizeof checked_.example, "got %.9g, expected %.9g", got, want);
}

int Run::finish() {
    checked_.finished = true;
    *session.report = checked_;
    _exit(0);
}

int run_checker(int socket, int inputs, int results) {
    session.socket = socket;
    session.inputs = inputs;
    session.results = results;
    const std::vector<std::string> make = next_command();
    if (make.size() != 2 || make[0] != "make") end_with("not a command");
    session.seed = seed_of(make[1]);
    char name[] = "problem";
    char* arguments[] = {name, nullptr};
    problem_main(1, arguments);
    end_with("the problem never launched");
}

}  // namespace harness

int main(int argc, char** argv) {
    if (argc != 4 || !harness::hide_memory()) return 4;
    return harness::run_checker(std::atoi(argv[1]), std::atoi(argv[2]), std::atoi(argv[3]));
}
