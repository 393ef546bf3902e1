/* As much of CUPTI's interface as keet's recorder uses, for tests without a GPU. The names are
 * CUPTI's; the layouts are this folder's own, since recorder and library are compiled together. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#define CUPTIAPI
typedef void *CUcontext;
typedef enum { CUPTI_SUCCESS = 0, CUPTI_ERROR_MAX_LIMIT_REACHED = 12 } CUptiResult;
typedef enum {
    CUPTI_ACTIVITY_KIND_KERNEL = 3,
    CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL = 10,
    CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER = 24,
} CUpti_ActivityKind;
enum { CUPTI_ACTIVITY_FLAG_FLUSH_FORCED = 1 };
typedef enum {
    CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE,
    CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_PRE_ALLOCATE_VALUE,
} CUpti_ActivityAttribute;
typedef enum {
    CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_HTOD = 1,
    CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_DTOH = 2,
    CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_GPU_PAGE_FAULT = 4,
} CUpti_ActivityUnifiedMemoryCounterKind;
enum { CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_SCOPE_PROCESS_SINGLE_DEVICE = 1 };

typedef struct { CUpti_ActivityKind kind; } CUpti_Activity;
typedef struct {
    CUpti_ActivityKind kind;
    uint64_t start, end;
    int32_t gridX, gridY, gridZ, blockX, blockY, blockZ;
    uint32_t deviceId, contextId, streamId, correlationId;
    const char *name;
} CUpti_ActivityKernel4;
typedef struct {
    CUpti_ActivityKind kind;
    CUpti_ActivityUnifiedMemoryCounterKind counterKind;
    uint64_t value;
} CUpti_ActivityUnifiedMemoryCounter2;
typedef struct {
    int scope;
    CUpti_ActivityUnifiedMemoryCounterKind kind;
    uint32_t deviceId, enable;
} CUpti_ActivityUnifiedMemoryCounterConfig;

typedef enum { CUPTI_CB_DOMAIN_DRIVER_API = 1, CUPTI_CB_DOMAIN_RESOURCE = 3 } CUpti_CallbackDomain;
typedef uint32_t CUpti_CallbackId;
enum { CUPTI_CBID_RESOURCE_CONTEXT_CREATED = 1, CUPTI_DRIVER_TRACE_CBID_cuMemAllocManaged = 371 };
typedef enum { CUPTI_API_ENTER, CUPTI_API_EXIT } CUpti_ApiCallbackSite;
typedef struct { CUpti_ApiCallbackSite callbackSite; const void *functionParams; } CUpti_CallbackData;
typedef struct { void *dptr; size_t bytesize; } cuMemAllocManaged_params;
typedef void *CUpti_SubscriberHandle;
typedef void (*CUpti_CallbackFunc)(void *, CUpti_CallbackDomain, CUpti_CallbackId, const void *);
typedef void (*CUpti_BuffersRequested)(uint8_t **, size_t *, size_t *);
typedef void (*CUpti_BuffersCompleted)(CUcontext, uint32_t, uint8_t *, size_t, size_t);

CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersRequested, CUpti_BuffersCompleted);
CUptiResult cuptiActivityEnable(CUpti_ActivityKind);
CUptiResult cuptiActivityFlushAll(uint32_t);
CUptiResult cuptiActivityGetNextRecord(uint8_t *, size_t, CUpti_Activity **);
CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, uint32_t, size_t *);
CUptiResult cuptiActivitySetAttribute(CUpti_ActivityAttribute, size_t *, void *);
CUptiResult cuptiActivityConfigureUnifiedMemoryCounter(CUpti_ActivityUnifiedMemoryCounterConfig *,
                                                       uint32_t);
CUptiResult cuptiSubscribe(CUpti_SubscriberHandle *, CUpti_CallbackFunc, void *);
CUptiResult cuptiEnableCallback(uint32_t, CUpti_SubscriberHandle, CUpti_CallbackDomain,
                                CUpti_CallbackId);
