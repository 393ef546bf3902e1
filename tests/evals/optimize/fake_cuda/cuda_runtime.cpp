#include "cuda_runtime.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

namespace {

struct Deferred {
    void (*kernel)(const void*);
    char argument[256];
};

cudaError_t fault = cudaSuccess;
Deferred waiting[16];
int waiting_count = 0;
bool busy = false;
size_t allocated = 0;
constexpr size_t kDeviceMemory = size_t{1} << 30;

double now_ms() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return 1e3 * static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_nsec);
}

}  // namespace

struct FakeEvent { double ms; };
struct FakeStream { bool blocking; };

extern "C" {
cudaError_t cudaMalloc(void** memory, size_t bytes) {
    if (allocated + bytes > kDeviceMemory) return fault = cudaErrorMemoryAllocation;
    allocated += bytes;
    *memory = malloc(bytes);
    return cudaSuccess;
}
cudaError_t cudaFree(void* memory) { return free(memory), cudaSuccess; }
cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned) {
    *memory = malloc(bytes);
    return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
    return memmove(to, from, bytes), fault;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t) {
    busy = true;
    return cudaMemcpy(to, from, bytes, kind);
}
cudaError_t cudaMemset(void* memory, int value, size_t bytes) {
    return memset(memory, value, bytes), fault;
}
cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t) {
    busy = true;
    return cudaMemset(memory, value, bytes);
}
cudaError_t cudaDeviceSynchronize() {
    for (int i = 0; i < waiting_count; ++i) waiting[i].kernel(waiting[i].argument);
    waiting_count = 0;
    busy = false;
    return fault;
}
cudaError_t cudaGetLastError() { return fault; }
const char* cudaGetErrorString(cudaError_t error) {
    if (error == cudaErrorMemoryAllocation) return "out of memory";
    return error ? "an illegal memory access was encountered" : "no error";
}
cudaError_t cudaCtxResetPersistingL2Cache() { return cudaSuccess; }
cudaError_t cudaEventCreate(cudaEvent_t* event) { return *event = new FakeEvent{0}, cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t) {
    return event->ms = now_ms(), cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t stop) {
    *milliseconds = static_cast<float>(stop->ms - start->ms);
    return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
    return *stream = new FakeStream{!(flags & cudaStreamNonBlocking)}, cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr name, int) {
    const int values[] = {1, 1000000, 1000000, 64, 1024, 9, 0, 0};  // 16 GB/s
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
    waiting[waiting_count].kernel = kernel;
    memcpy(waiting[waiting_count++].argument, argument, bytes);
    return cudaSuccess;
}
bool cudaFakeBusy() { return busy; }
cudaError_t cudaFakeFault() { return fault = cudaErrorIllegalAddress; }
}
