// Device memory that two processes see at the same address. The driver's functions are asked for by
// name, so that nothing has to be linked but the CUDA runtime.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include "shared.h"

namespace harness {

// nullptr: this driver does not have it.
template <class Function>
Function* driver_function(const char* name) {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result;
    const cudaError_t status =
        cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result);
    return status == cudaSuccess ? reinterpret_cast<Function*>(found) : nullptr;
}

// The driver does as it is told about an address only where much room is asked for.
constexpr size_t kReserved = size_t{256} << 20;

// An error of the driver, 0 if it is mapped there.
inline int map_on_device(CUmemGenericAllocationHandle memory, void* at, size_t bytes) {
    static const auto reserve = driver_function<decltype(cuMemAddressReserve)>("cuMemAddressReserve");
    static const auto map = driver_function<decltype(cuMemMap)>("cuMemMap");
    static const auto allow = driver_function<decltype(cuMemSetAccess)>("cuMemSetAccess");
    if (!reserve || !map || !allow) return CUDA_ERROR_NOT_SUPPORTED;
    const auto wanted = reinterpret_cast<CUdeviceptr>(at);
    const size_t room = (bytes + kReserved - 1) / kReserved * kReserved;
    CUdeviceptr address = 0;
    if (const int error = reserve(&address, room, 0, wanted, 0)) return error;
    if (address != wanted) return CUDA_ERROR_ALREADY_MAPPED;
    if (const int error = map(address, bytes, 0, memory, 0)) return error;
    CUmemAccessDesc access{};
    access.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    return allow(address, bytes, &access, 1);
}

}  // namespace harness
