/* A CUPTI that delivers what program.c tells it to. FAKE_CUPTI_ERROR makes it refuse to record. */
#include "cupti.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef union {
    CUpti_Activity any;
    CUpti_ActivityKernel4 kernel;
    CUpti_ActivityUnifiedMemoryCounter2 counter;
} Slot;

enum { MOST = 100000 };
static Slot waiting[MOST];
static size_t count;
static int recording;
static CUpti_BuffersRequested requested;
static CUpti_BuffersCompleted completed;
static CUpti_CallbackFunc callback;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersRequested r, CUpti_BuffersCompleted c) {
    requested = r;
    completed = c;
    return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
    recording = kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL || !getenv("FAKE_CUPTI_ERROR");
    return recording ? CUPTI_SUCCESS : CUPTI_ERROR_MAX_LIMIT_REACHED;
}
CUptiResult cuptiActivitySetAttribute(CUpti_ActivityAttribute a, size_t *n, void *v) {
    (void)a, (void)n, (void)v;
    return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityConfigureUnifiedMemoryCounter(
    CUpti_ActivityUnifiedMemoryCounterConfig *config, uint32_t n) {
    (void)config, (void)n;
    return CUPTI_SUCCESS;
}
CUptiResult cuptiSubscribe(CUpti_SubscriberHandle *handle, CUpti_CallbackFunc function, void *user) {
    (void)user;
    *handle = &callback;
    callback = function;
    return CUPTI_SUCCESS;
}
CUptiResult cuptiEnableCallback(uint32_t on, CUpti_SubscriberHandle handle, CUpti_CallbackDomain d,
                                CUpti_CallbackId id) {
    (void)on, (void)handle, (void)d, (void)id;
    return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext c, uint32_t s, size_t *dropped) {
    (void)c, (void)s;
    *dropped = 0;
    return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, CUpti_Activity **record) {
    Slot *next = *record ? (Slot *)*record + 1 : (Slot *)buffer;
    if ((uint8_t *)(next + 1) > buffer + valid) return CUPTI_ERROR_MAX_LIMIT_REACHED;
    *record = &next->any;
    return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityFlushAll(uint32_t flag) {
    (void)flag;
    pthread_mutex_lock(&lock);
    size_t sent = 0;
    while (requested && sent < count) {
        uint8_t *buffer = NULL;
        size_t size = 0, most = 0;
        requested(&buffer, &size, &most);
        size_t fit = size / sizeof(Slot), now = count - sent < fit ? count - sent : fit;
        memcpy(buffer, waiting + sent, now * sizeof(Slot));
        completed(NULL, 0, buffer, size, now * sizeof(Slot));
        sent += now;
    }
    count = 0;
    pthread_mutex_unlock(&lock);
    return CUPTI_SUCCESS;
}

/* --- what program.c calls */

void fake_context(void) {
    if (callback) callback(NULL, CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_CONTEXT_CREATED, NULL);
}
void fake_managed(size_t bytes) {
    cuMemAllocManaged_params params = {NULL, bytes};
    CUpti_CallbackData data = {CUPTI_API_EXIT, &params};
    if (callback)
        callback(NULL, CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuMemAllocManaged, &data);
}
void fake_launch(const char *name, uint64_t start, uint64_t end, int grid, int block) {
    static uint32_t correlation;
    pthread_mutex_lock(&lock);
    CUpti_ActivityKernel4 kernel = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, start, end, grid, 1, 1,
                                    block, 1, 1, 0, 1, 7, ++correlation, name};
    if (recording && count < MOST) waiting[count++].kernel = kernel;
    pthread_mutex_unlock(&lock);
}
void fake_migration(int kind, uint64_t value) {
    pthread_mutex_lock(&lock);
    CUpti_ActivityUnifiedMemoryCounter2 counter = {CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER,
                                                   (CUpti_ActivityUnifiedMemoryCounterKind)kind,
                                                   value};
    if (count < MOST) waiting[count++].counter = counter;
    pthread_mutex_unlock(&lock);
}
int fake_waiting(void) {
    pthread_mutex_lock(&lock);
    int left = (int)count;
    pthread_mutex_unlock(&lock);
    return left;
}
