#include "cuda_runtime.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "cuda.h"

namespace {

struct Deferred {
    void (*kernel)(const void*);
    char argument[256];
};

cudaError_t fault = cudaSuccess;
size_t allocated = 0;
constexpr size_t kDeviceMemory = size_t{1} << 30;

void* at(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

}  // namespace

struct FakeEvent {};
struct FakeStream { bool blocking; };

extern "C" {
cudaError_t cudaSetDeviceFlags(unsigned) { return cudaSuccess; }
cudaError_t cudaMalloc(void** memory, size_t bytes) {
    if (allocated + bytes > kDeviceMemory) return fault = cudaErrorMemoryAllocation;
    allocated += bytes;
    *memory = malloc(bytes);
    return cudaSuccess;
}
cudaError_t cudaMallocHost(void** memory, size_t bytes) {
    return *memory = malloc(bytes), cudaSuccess;
}
cudaError_t cudaFree(void* memory) { return free(memory), cudaSuccess; }
cudaError_t cudaHostRegister(void*, size_t, unsigned) { return cudaSuccess; }
cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned) {
    return *device = host, cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
    return memmove(to, from, bytes), fault;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t) {
    return cudaMemcpy(to, from, bytes, kind);
}
cudaError_t cudaMemset(void* memory, int value, size_t bytes) {
    return memset(memory, value, bytes), fault;
}
cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t) {
    return cudaMemset(memory, value, bytes);
}
cudaError_t cudaDeviceSynchronize() { return fault; }
cudaError_t cudaGetLastError() { return fault; }
const char* cudaGetErrorString(cudaError_t error) {
    if (error == cudaErrorMemoryAllocation) return "out of memory";
    return error ? "an illegal memory access was encountered" : "no error";
}
cudaError_t cudaCtxResetPersistingL2Cache() { return cudaSuccess; }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
    return *event = new FakeEvent, cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return fault; }
cudaError_t cudaEventSynchronize(cudaEvent_t) { return fault; }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
    return *stream = new FakeStream{!(flags & cudaStreamNonBlocking)}, cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr name, int) {
    const int values[] = {1, 1000000, 1000000, 64, 1024, 9, 0, 0, 0};  // 16 GB/s
    return *value = values[name], cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
    return strcpy(properties->name, "a stand-in"), cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) { return *version = 13000, cudaSuccess; }
cudaError_t cudaDriverGetVersion(int* version) { return *version = 13000, cudaSuccess; }
cudaError_t cudaFakeLaunch(void (*kernel)(const void*), const void* argument, size_t bytes,
                           cudaStream_t stream) {
    if (!stream || stream->blocking) return kernel(argument), cudaSuccess;
    Deferred later{kernel, {}};
    memcpy(later.argument, argument, bytes);
    std::thread([later] {
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        later.kernel(later.argument);
    }).detach();
    return cudaSuccess;
}
cudaError_t cudaFakeFault() { return fault = cudaErrorIllegalAddress; }

// --- the driver

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes,
                     const CUmemAllocationProp*, unsigned long long) {
    if (bytes > kDeviceMemory) return CUDA_ERROR_OUT_OF_MEMORY;
    *handle = static_cast<CUmemGenericAllocationHandle>(memfd_create("device", 0));
    return ftruncate(static_cast<int>(*handle), static_cast<off_t>(bytes)) ? CUDA_ERROR_OUT_OF_MEMORY
                                                                            : CUDA_SUCCESS;
}
CUresult cuMemExportToShareableHandle(void* shared, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType, unsigned long long) {
    return *static_cast<int*>(shared) = dup(static_cast<int>(handle)), CUDA_SUCCESS;
}
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* shared,
                                        CUmemAllocationHandleType) {
    const int descriptor = static_cast<int>(reinterpret_cast<intptr_t>(shared));
    return *handle = static_cast<CUmemGenericAllocationHandle>(dup(descriptor)), CUDA_SUCCESS;
}
CUresult cuMemAddressReserve(CUdeviceptr* address, size_t bytes, size_t, CUdeviceptr wanted,
                             unsigned long long) {
    void* found = mmap(at(wanted), bytes, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    *address = reinterpret_cast<CUdeviceptr>(found);
    return found == MAP_FAILED ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}
CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t, CUmemGenericAllocationHandle handle,
                  unsigned long long) {
    void* found = mmap(at(address), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED,
                       static_cast<int>(handle), 0);
    return found == MAP_FAILED ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}
CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc*, size_t) {
    return mprotect(at(address), bytes, PROT_READ | PROT_WRITE) ? CUDA_ERROR_NOT_SUPPORTED
                                                                : CUDA_SUCCESS;
}
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned,
                                             unsigned long long, cudaDriverEntryPointQueryResult*) {
    struct {
        const char* name;
        void* function;
    } const known[] = {
        {"cuMemCreate", reinterpret_cast<void*>(cuMemCreate)},
        {"cuMemExportToShareableHandle", reinterpret_cast<void*>(cuMemExportToShareableHandle)},
        {"cuMemImportFromShareableHandle", reinterpret_cast<void*>(cuMemImportFromShareableHandle)},
        {"cuMemAddressReserve", reinterpret_cast<void*>(cuMemAddressReserve)},
        {"cuMemMap", reinterpret_cast<void*>(cuMemMap)},
        {"cuMemSetAccess", reinterpret_cast<void*>(cuMemSetAccess)},
    };
    for (const auto& one : known) {
        if (strcmp(one.name, name) == 0) return *function = one.function, cudaSuccess;
    }
    return cudaErrorMemoryAllocation;
}
}
