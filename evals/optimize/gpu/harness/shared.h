// What the referee, a checker and a candidate's process have in common: where the arrays of a
// problem lie, how file descriptors are handed over, and the block of memory that a candidate polls.
//
//   referee     owns the device memory of inputs and results, and the clock; no code of candidates
//   checker     makes the inputs of one seed on the host and checks results with the problem's own
//               reference; never uses the GPU
//   candidate   launch() and a thin main(); nothing that it says is believed, but that it failed
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace harness {

// The k-th array of every seed lies at the same address in every process, so that a Problem can be
// passed on as bytes. Linux gives out addresses far from here unless it is asked for them.
constexpr uint64_t kFirstAddress = 0x600000000000;
constexpr uint64_t kStride = uint64_t{64} << 30;
constexpr size_t kMostArrays = 64;
constexpr size_t kMostProblemBytes = 16384;

inline void* address_of(size_t index) {
    return reinterpret_cast<void*>(kFirstAddress + index * kStride);
}

// Between the referee and one candidate. Numbers count launches; 0 is none.
struct Block {
    std::atomic<uint32_t> armed;  // the candidate polls `go` for this launch
    std::atomic<uint32_t> go;
    std::atomic<uint32_t> done;
    uint32_t failed;
    char what[256];  // why it failed
    alignas(64) char problem[kMostProblemBytes];
};

struct PlaceMessage {
    uint64_t capacity;
    uint32_t index;
    uint32_t host;  // 1: host memory that the device reads
};

struct ArmMessage {
    uint32_t number;
};

// One packet, with a file descriptor unless `descriptor` is negative.
inline bool send_packet(int socket, const void* data, size_t bytes, int descriptor = -1) {
    iovec part{const_cast<void*>(data), bytes};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (descriptor >= 0) {
        message.msg_control = control;
        message.msg_controllen = sizeof control;
        cmsghdr* header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        std::memcpy(CMSG_DATA(header), &descriptor, sizeof(int));
    }
    return sendmsg(socket, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes);
}

// The bytes of the next packet, 0 or less where there is none any more.
inline ssize_t receive_packet(int socket, void* data, size_t room, int* descriptor = nullptr) {
    iovec part{data, room};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    int found = -1;
    if (const cmsghdr* header = got > 0 ? CMSG_FIRSTHDR(&message) : nullptr) {
        if (header->cmsg_type == SCM_RIGHTS) std::memcpy(&found, CMSG_DATA(header), sizeof(int));
    }
    if (descriptor) *descriptor = found;
    if (!descriptor && found >= 0) close(found);
    return got;
}

// Memory to share that nobody can make smaller: to read beyond its end would end the reader.
inline int sealed_memory(const char* name, size_t bytes) {
    const int descriptor = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (descriptor < 0 || ftruncate(descriptor, static_cast<off_t>(bytes)) != 0) return -1;
    const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    return fcntl(descriptor, F_ADD_SEALS, seals) == 0 ? descriptor : -1;
}

inline void* shared_memory(int descriptor, size_t bytes, size_t offset = 0, void* at = nullptr) {
    const int how = MAP_SHARED | MAP_POPULATE | (at ? MAP_FIXED_NOREPLACE : 0);
    void* memory =
        mmap(at, bytes, PROT_READ | PROT_WRITE, how, descriptor, static_cast<off_t>(offset));
    return memory == MAP_FAILED || (at && memory != at) ? nullptr : memory;
}

// Other processes of this user can then neither read nor write this one's memory. `exec` undoes it,
// so each process does it for itself.
inline bool hide_memory() { return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0; }

inline void relax() {
#ifdef __x86_64__
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

}  // namespace harness
