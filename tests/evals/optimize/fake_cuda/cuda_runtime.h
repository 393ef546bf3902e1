// A stand-in for CUDA on a machine without a GPU: enough of it for the harness and for candidates
// that are plain loops. Device memory is host memory.
#pragma once

#include <cstddef>

struct float2 { float x, y; };
struct float3 { float x, y, z; };
struct float4 { float x, y, z, w; };
struct double2 { double x, y; };
struct uint4 { unsigned x, y, z, w; };

enum cudaError_t { cudaSuccess, cudaErrorMemoryAllocation = 2, cudaErrorIllegalAddress = 700 };
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice };
enum cudaDeviceAttr {
    cudaDevAttrMultiProcessorCount,
    cudaDevAttrClockRate,
    cudaDevAttrMemoryClockRate,
    cudaDevAttrGlobalMemoryBusWidth,
    cudaDevAttrL2CacheSize,
    cudaDevAttrComputeCapabilityMajor,
    cudaDevAttrComputeCapabilityMinor,
    cudaDevAttrPageableMemoryAccessUsesHostPageTables,
    cudaDevAttrMpsEnabled,
};
enum cudaDriverEntryPointQueryResult { cudaDriverEntryPointSuccess };
struct cudaDeviceProp { char name[64]; };
typedef struct FakeEvent* cudaEvent_t;
typedef struct FakeStream* cudaStream_t;
constexpr unsigned cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2;
constexpr unsigned cudaDeviceScheduleSpin = 1, cudaHostRegisterMapped = 2, cudaEnableDefault = 0;

extern "C" {
cudaError_t cudaSetDeviceFlags(unsigned flags);
cudaError_t cudaMalloc(void** memory, size_t bytes);
cudaError_t cudaMallocHost(void** memory, size_t bytes);
cudaError_t cudaFree(void* memory);
cudaError_t cudaHostRegister(void* memory, size_t bytes, unsigned flags);
cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned flags);
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind);
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream);
cudaError_t cudaMemset(void* memory, int value, size_t bytes);
cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t stream);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaGetLastError();
const char* cudaGetErrorString(cudaError_t error);
cudaError_t cudaCtxResetPersistingL2Cache();
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr name, int device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
cudaError_t cudaRuntimeGetVersion(int* version);
cudaError_t cudaDriverGetVersion(int* version);
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned version,
                                             unsigned long long flags,
                                             cudaDriverEntryPointQueryResult* result);
// A "kernel": runs at once, or 300 ms later in a thread of its own if the stream does not block.
cudaError_t cudaFakeLaunch(void (*kernel)(const void*), const void* argument, size_t bytes,
                           cudaStream_t stream);
// What an illegal address would do to every later call.
cudaError_t cudaFakeFault();
}
