/* Records every kernel launch of a CUDA program: name, shape, start, end, stream, order.
 *
 * The CUDA driver loads this library into the program (CUDA_INJECTION64_PATH) and calls
 * InitializeInjection. CUPTI then delivers records of finished kernels, which are appended to a file
 * per process in KEET_RECORD_DIR. A thread asks for them five times per second, so that a program
 * that crashes or is killed loses no more than its last launches.
 *
 * The file is a sequence of records: a tag and a length (4 bytes each), then the content, all in the
 * byte order of the machine. keet/collect/record_file.py reads it.
 *
 * The structs used are those of old CUPTI versions: newer ones only add fields at the end, so one
 * source serves CUDA 10 to 13.
 */
#define _GNU_SOURCE
#include <cupti.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BUFFER_BYTES (1 << 20)
#define FLUSH_NANOSECONDS 200000000
#define MOST_NAMES 65536 /* a power of two */

static FILE *out;
static pid_t owner;
static uint64_t dropped, unfinished;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* --- names: CUPTI gives the same pointer for each launch of a kernel */

static const char *seen[MOST_NAMES];
static unsigned seen_count;

typedef char *(*demangle_t)(const char *, char *, size_t *, int *);

static char *demangled(const char *name) {
    static demangle_t demangle;
    static int looked;
    if (!looked) {
        looked = 1;
        void *library = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_LOCAL);
        if (library) demangle = (demangle_t)dlsym(library, "__cxa_demangle");
    }
    int status = 0;
    return demangle ? demangle(name, NULL, NULL, &status) : NULL;
}

static void write_head(uint32_t tag, uint32_t length) {
    uint32_t head[2] = {tag, length};
    fwrite(head, sizeof head, 1, out);
}

static void write_all(uint32_t tag, const void *content, uint32_t length) {
    write_head(tag, length);
    fwrite(content, length, 1, out);
}

/* The slot of the name; a name that is new is written first. */
static unsigned name_number(const char *name) {
    unsigned slot = (unsigned)(((size_t)name >> 3) * 2654435761u) & (MOST_NAMES - 1);
    while (seen[slot] && seen[slot] != name) slot = (slot + 1) & (MOST_NAMES - 1);
    if (seen[slot] || seen_count > MOST_NAMES / 2) return slot;
    seen[slot] = name;
    seen_count++;
    char *readable = demangled(name);
    const char *shown = readable ? readable : name;
    uint32_t number = slot;
    write_head('n', (uint32_t)(sizeof number + strlen(name) + 1 + strlen(shown)));
    fwrite(&number, sizeof number, 1, out);
    fwrite(name, strlen(name) + 1, 1, out);
    fwrite(shown, strlen(shown), 1, out);
    free(readable);
    return slot;
}

/* --- records */

struct kernel_record {
    uint64_t start, end;
    uint32_t name, grid[3], block[3], device, context, stream, correlation, unused;
};

static void write_kernel(const CUpti_ActivityKernel4 *k) {
    if (!k->start || !k->end || k->end < k->start) {
        unfinished++;
        return;
    }
    struct kernel_record record = {
        k->start,
        k->end,
        name_number(k->name ? k->name : "?"),
        {(uint32_t)k->gridX, (uint32_t)k->gridY, (uint32_t)k->gridZ},
        {(uint32_t)k->blockX, (uint32_t)k->blockY, (uint32_t)k->blockZ},
        k->deviceId,
        k->contextId,
        k->streamId,
        k->correlationId,
        0,
    };
    write_all('k', &record, sizeof record);
}

static void write_record(const CUpti_Activity *record) {
    switch (record->kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
    case CUPTI_ACTIVITY_KIND_KERNEL:
        write_kernel((const CUpti_ActivityKernel4 *)record);
        break;
    case CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER: {
        const CUpti_ActivityUnifiedMemoryCounter2 *u =
            (const CUpti_ActivityUnifiedMemoryCounter2 *)record;
        uint64_t content[2] = {(uint64_t)u->counterKind, u->value};
        write_all('u', content, sizeof content);
        break;
    }
    default:
        break;
    }
}

static void CUPTIAPI buffer_requested(uint8_t **buffer, size_t *size, size_t *most_records) {
    *most_records = 0;
    *size = BUFFER_BYTES;
    *buffer = aligned_alloc(8, BUFFER_BYTES);
    if (!*buffer) *size = 0;
}

static void CUPTIAPI buffer_completed(CUcontext context, uint32_t stream, uint8_t *buffer,
                                      size_t size, size_t valid) {
    (void)size;
    if (getpid() == owner && out) {
        pthread_mutex_lock(&lock);
        CUpti_Activity *record = NULL;
        while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS)
            write_record(record);
        size_t lost = 0;
        if (cuptiActivityGetNumDroppedRecords(context, stream, &lost) == CUPTI_SUCCESS)
            dropped += lost;
        fflush(out);
        pthread_mutex_unlock(&lock);
    }
    free(buffer);
}

/* CUPTI's own periodic flush delivers full buffers alone; a short program never fills one. */
static void *flush_often(void *unused) {
    (void)unused;
    struct timespec pause = {0, FLUSH_NANOSECONDS};
    while (getpid() == owner && out) {
        nanosleep(&pause, NULL);
        cuptiActivityFlushAll(0);
    }
    return NULL;
}

static void start_flushing(void) {
    pthread_t thread;
    sigset_t all, old;
    sigfillset(&all); /* the program's signals are for its own threads */
    pthread_sigmask(SIG_BLOCK, &all, &old);
    if (pthread_create(&thread, NULL, flush_often, NULL) == 0) pthread_detach(thread);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/* CUPTI's default buffers (3 of 3.2 MB) cost 26 ms to set up on an H200, these 14 ms; launches cost
 * the same with both. */
static void use_small_buffers(void) {
    size_t bytes = 1 << 20, count = 3, size = sizeof(size_t);
    cuptiActivitySetAttribute(CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE, &size, &bytes);
    size = sizeof(size_t);
    cuptiActivitySetAttribute(CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_PRE_ALLOCATE_VALUE, &size, &count);
}

/* --- start and end */

static void finish(void) {
    if (getpid() != owner || !out) return; /* a child that was forked and did not exec */
    cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    pthread_mutex_lock(&lock);
    uint64_t content[2] = {dropped, unfinished};
    write_all('e', content, sizeof content);
    fclose(out);
    out = NULL;
    pthread_mutex_unlock(&lock);
}

static FILE *open_record(const char *folder) {
    char path[4096];
    for (int copy = 0; copy < 1000; copy++) {
        snprintf(path, sizeof path, "%s/%ld.%d.rec", folder, (long)getpid(), copy);
        int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (file >= 0) return fdopen(file, "w");
    }
    return NULL;
}

/* --- managed memory: its migrations tell why a kernel takes longer than its replay */

/* CUPTI may refuse; then the counts are missing, and the file says so. */
static void count_migrations(void) {
    CUpti_ActivityUnifiedMemoryCounterKind kinds[] = {
        CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_HTOD,
        CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_DTOH,
        CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_GPU_PAGE_FAULT,
    };
    CUpti_ActivityUnifiedMemoryCounterConfig config[3];
    memset(config, 0, sizeof config);
    for (int i = 0; i < 3; i++) {
        config[i].scope = CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_SCOPE_PROCESS_SINGLE_DEVICE;
        config[i].kind = kinds[i];
        config[i].enable = 1;
    }
    CUptiResult result = cuptiActivityConfigureUnifiedMemoryCounter(config, 3);
    if (result == CUPTI_SUCCESS)
        result = cuptiActivityEnable(CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER);
    uint64_t content = (uint64_t)result;
    write_all('m', &content, sizeof content);
}

/* Managed memory is asked for before the first context as well as later; the counters can only be
 * configured once the driver is initialised, which is so when the first context is there. */
static void CUPTIAPI on_event(void *user, CUpti_CallbackDomain domain, CUpti_CallbackId id,
                              const void *data) {
    (void)user;
    static int counting;
    if (getpid() != owner || !out) return;
    if (domain == CUPTI_CB_DOMAIN_RESOURCE && !counting) {
        counting = 1;
        count_migrations();
    }
    if (domain == CUPTI_CB_DOMAIN_DRIVER_API && id == CUPTI_DRIVER_TRACE_CBID_cuMemAllocManaged) {
        const CUpti_CallbackData *call = (const CUpti_CallbackData *)data;
        if (call->callbackSite != CUPTI_API_EXIT) return;
        uint64_t bytes = ((const cuMemAllocManaged_params *)call->functionParams)->bytesize;
        pthread_mutex_lock(&lock);
        write_all('a', &bytes, sizeof bytes);
        pthread_mutex_unlock(&lock);
    }
}

static void watch_managed_memory(void) {
    CUpti_SubscriberHandle subscriber;
    if (cuptiSubscribe(&subscriber, (CUpti_CallbackFunc)on_event, NULL) != CUPTI_SUCCESS) return;
    cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_RESOURCE,
                        CUPTI_CBID_RESOURCE_CONTEXT_CREATED);
    cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API,
                        CUPTI_DRIVER_TRACE_CBID_cuMemAllocManaged);
}

int InitializeInjection(void) {
    const char *folder = getenv("KEET_RECORD_DIR");
    if (!folder || out) return 1;
    out = open_record(folder);
    if (!out) return 1;
    owner = getpid();
    use_small_buffers();
    CUptiResult result = cuptiActivityRegisterCallbacks(buffer_requested, buffer_completed);
    if (result == CUPTI_SUCCESS)
        result = cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    uint64_t content[3] = {1, (uint64_t)owner, (uint64_t)result};
    write_all('s', content, sizeof content);
    if (result == CUPTI_SUCCESS) watch_managed_memory();
    if (result == CUPTI_SUCCESS) start_flushing();
    atexit(finish);
    fflush(out);
    return 1;
}
