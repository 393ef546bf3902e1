// main() of a candidate's process: maps the arrays of the problem, and calls launch() when the
// referee says so. It shares its process with code that nobody trusts: the referee believes nothing
// of what is done here, and measures from outside.
//
//   PROGRAM SOCKET
#include "problem.h"

#include <cuda_runtime.h>
#include <sched.h>

#include <cstdio>
#include <cstdlib>
#include <new>
#include <type_traits>

#include "../harness/device_memory.h"

namespace {

static_assert(std::is_trivially_copyable<Problem>::value, "a Problem travels as bytes");
static_assert(sizeof(Problem) <= harness::kMostProblemBytes, "kMostProblemBytes is too small");

void end_with(const char* what, int code) {
    std::fprintf(stderr, "%s (%d)\n", what, code);
    std::exit(3);
}

void map_host(const harness::PlaceMessage& place, int memory) {
    void* at = harness::shared_memory(memory, place.capacity, 0, harness::address_of(place.index));
    if (!at) end_with("the address of an array is taken", 0);
    const cudaError_t status = cudaHostRegister(at, place.capacity, cudaHostRegisterMapped);
    if (status != cudaSuccess) end_with("host memory cannot be registered", status);
}

void map_device(const harness::PlaceMessage& place, int memory) {
    using namespace harness;
    const auto import = driver_function<decltype(cuMemImportFromShareableHandle)>(
        "cuMemImportFromShareableHandle");
    CUmemGenericAllocationHandle handle{};
    int error = import ? import(&handle, reinterpret_cast<void*>(static_cast<intptr_t>(memory)),
                                CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
                       : CUDA_ERROR_NOT_SUPPORTED;
    if (!error) error = map_on_device(handle, address_of(place.index), place.capacity);
    if (error) end_with("device memory cannot be mapped", error);
}

void map_arrays(int socket) {
    for (;;) {
        harness::PlaceMessage place{};
        int memory = -1;
        if (harness::receive_packet(socket, &place, sizeof place, &memory) != sizeof place) exit(4);
        if (memory < 0) return;  // that was all
        place.host ? map_host(place, memory) : map_device(place, memory);
        close(memory);
    }
}

// What the default stream waits for is part of the launch; other work is not.
cudaError_t launched(const Problem& problem) {
    static cudaEvent_t finished = nullptr;
    if (!finished) cudaEventCreateWithFlags(&finished, cudaEventDisableTiming);
    launch(problem);
    cudaError_t status = cudaGetLastError();
    if (status == cudaSuccess) status = cudaEventRecord(finished, nullptr);
    if (status == cudaSuccess) status = cudaEventSynchronize(finished);
    return status;
}

void await_go(const harness::Block& block, uint32_t number) {
    for (unsigned turn = 0; block.go.load(std::memory_order_acquire) != number; ++turn) {
        turn % 4096 ? harness::relax() : void(sched_yield());
    }
}

void serve(int socket, harness::Block& block) {
    for (;;) {
        harness::ArmMessage arm{};
        if (harness::receive_packet(socket, &arm, sizeof arm) != sizeof arm) return;
        block.armed.store(arm.number, std::memory_order_release);
        await_go(block, arm.number);
        alignas(Problem) char bytes[sizeof(Problem)];
        std::memcpy(bytes, block.problem, sizeof bytes);
        const cudaError_t status = launched(*std::launder(reinterpret_cast<Problem*>(bytes)));
        if (status != cudaSuccess) {
            std::snprintf(block.what, sizeof block.what, "%s", cudaGetErrorString(status));
            block.failed = 1;
        }
        block.done.store(arm.number, std::memory_order_release);
    }
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2) return 4;
    const int socket = std::atoi(argv[1]);
    cudaSetDeviceFlags(cudaDeviceScheduleSpin);
    if (const cudaError_t status = cudaFree(nullptr)) end_with(cudaGetErrorString(status), status);
    int memory = -1;
    char ready = 'r';
    if (!harness::send_packet(socket, &ready, 1)) return 4;
    if (harness::receive_packet(socket, &ready, 1, &memory) != 1 || memory < 0) return 4;
    void* block = harness::shared_memory(memory, sizeof(harness::Block));
    if (!block) return 4;
    map_arrays(socket);
    if (!harness::send_packet(socket, &ready, 1)) return 4;
    serve(socket, *static_cast<harness::Block*>(block));
    return 0;
}
