/* Records every kernel launch of a CUDA program: name, shape, start, end, order.
 *
 * The CUDA driver loads this library into the program (CUDA_INJECTION64_PATH) and calls
 * InitializeInjection. CUPTI then delivers records of finished kernels, which are appended to a file
 * per process in KEET_RECORD_DIR. A thread asks for them five times per second, so that a program
 * that crashes or is killed loses no more than its last launches.
 *
 * The file is a sequence of records: a tag and a length (4 bytes each), then the content, all in the
 * byte order of the machine. __init__.py, beside this file, reads it. Each batch of records is built in
 * memory and written at once: a child that was forked has no half of it to write.
 *
 * The structs used are those of old CUPTI versions: newer ones only add fields at the end, so one
 * source serves CUDA 10 to 13.
 */
#define _GNU_SOURCE
#include <cupti.h>
#include <dlfcn.h>
#include <errno.h>
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
#define MOST_DEVICES 64

static int file = -1;
static pid_t owner;
static volatile int closing;
static uint64_t dropped, unfinished;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the file and all below */

/* --- batches of records */

struct batch {
    char *bytes;
    size_t used, room;
};

static void add_bytes(struct batch *batch, const void *content, size_t length) {
    if (batch->used + length > batch->room) {
        size_t room = 2 * (batch->used + length) + 4096;
        char *larger = realloc(batch->bytes, room);
        if (!larger) return;
        batch->bytes = larger;
        batch->room = room;
    }
    memcpy(batch->bytes + batch->used, content, length);
    batch->used += length;
}

static void add_head(struct batch *batch, uint32_t tag, uint32_t length) {
    uint32_t head[2] = {tag, length};
    add_bytes(batch, head, sizeof head);
}

static void add_record(struct batch *batch, uint32_t tag, const void *content, uint32_t length) {
    add_head(batch, tag, length);
    add_bytes(batch, content, length);
}

/* A file that may not grow any more must not end the program: the signal is taken here. */
static ssize_t write_quietly(const char *bytes, size_t length) {
    sigset_t limit, old;
    sigemptyset(&limit);
    sigaddset(&limit, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &limit, &old);
    ssize_t done = write(file, bytes, length);
    if (done < 0 && errno == EFBIG) {
        struct timespec at_once = {0, 0};
        sigtimedwait(&limit, NULL, &at_once);
        errno = EFBIG;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return done;
}

/* Called with the lock held. After a failure (a full disk) nothing more is written: the file then
 * has no end, which tells its reader that launches are missing. */
static void write_batch(struct batch *batch) {
    size_t done = 0;
    while (file >= 0 && done < batch->used) {
        ssize_t now = write_quietly(batch->bytes + done, batch->used - done);
        if (now < 0 && errno == EINTR) continue;
        if (now < 0) {
            close(file);
            file = -1;
            break;
        }
        done += (size_t)now;
    }
    free(batch->bytes);
    *batch = (struct batch){NULL, 0, 0};
}

/* --- names: CUPTI gives the same pointer for each launch of a kernel, until its module is gone */

struct known_name {
    const char *pointer;
    char *text;
    uint32_t number;
};
static struct known_name names[MOST_NAMES];
static uint32_t name_count;

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

static uint32_t new_name(struct batch *batch, const char *name) {
    char *readable = demangled(name);
    const char *shown = readable ? readable : name;
    uint32_t number = name_count++;
    add_head(batch, 'n', (uint32_t)(sizeof number + strlen(name) + 1 + strlen(shown)));
    add_bytes(batch, &number, sizeof number);
    add_bytes(batch, name, strlen(name) + 1);
    add_bytes(batch, shown, strlen(shown));
    free(readable);
    return number;
}

static uint32_t name_number(struct batch *batch, const char *name) {
    uint32_t slot = (uint32_t)(((size_t)name >> 3) * 2654435761u) & (MOST_NAMES - 1);
    while (names[slot].pointer && names[slot].pointer != name) slot = (slot + 1) & (MOST_NAMES - 1);
    struct known_name *known = &names[slot];
    if (known->pointer && known->text && !strcmp(known->text, name)) return known->number;
    uint32_t number = new_name(batch, name);
    if (!known->pointer && name_count > MOST_NAMES / 2) return number; /* full: named each time */
    free(known->text);
    *known = (struct known_name){name, strdup(name), number};
    return number;
}

/* --- devices: their numbers differ between processes with other CUDA_VISIBLE_DEVICES */

static char device_seen[MOST_DEVICES], device_named[MOST_DEVICES];

static void name_devices(void) {
    typedef int (*get_uuid_t)(void *, int);
    get_uuid_t get_uuid = (get_uuid_t)dlsym(RTLD_DEFAULT, "cuDeviceGetUuid");
    for (uint32_t device = 0; get_uuid && device < MOST_DEVICES; device++) {
        char content[4 + 16];
        if (!device_seen[device] || device_named[device]) continue;
        if (get_uuid(content + 4, (int)device) != 0) continue;
        device_named[device] = 1;
        memcpy(content, &device, sizeof device);
        struct batch batch = {NULL, 0, 0};
        add_record(&batch, 'd', content, sizeof content);
        pthread_mutex_lock(&lock);
        write_batch(&batch);
        pthread_mutex_unlock(&lock);
    }
}

/* --- records */

struct kernel_record {
    uint64_t start, end;
    uint32_t name, grid[3], block[3], device, correlation, unused;
};

static void add_kernel(struct batch *batch, const CUpti_ActivityKernel4 *k) {
    if (!k->start || !k->end || k->end < k->start) {
        unfinished++;
        return;
    }
    struct kernel_record record = {
        k->start,
        k->end,
        name_number(batch, k->name ? k->name : "?"),
        {(uint32_t)k->gridX, (uint32_t)k->gridY, (uint32_t)k->gridZ},
        {(uint32_t)k->blockX, (uint32_t)k->blockY, (uint32_t)k->blockZ},
        k->deviceId,
        k->correlationId,
        0,
    };
    if (k->deviceId < MOST_DEVICES) device_seen[k->deviceId] = 1;
    add_record(batch, 'k', &record, sizeof record);
}

static void add_activity(struct batch *batch, const CUpti_Activity *activity) {
    switch (activity->kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
    case CUPTI_ACTIVITY_KIND_KERNEL:
        add_kernel(batch, (const CUpti_ActivityKernel4 *)activity);
        break;
    case CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER: {
        const CUpti_ActivityUnifiedMemoryCounter2 *u =
            (const CUpti_ActivityUnifiedMemoryCounter2 *)activity;
        uint64_t content[2] = {(uint64_t)u->counterKind, u->value};
        add_record(batch, 'u', content, sizeof content);
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
    if (getpid() == owner) {
        struct batch batch = {NULL, 0, 0};
        size_t lost = 0; /* asked for without the lock: CUPTI may hold one of its own elsewhere */
        if (cuptiActivityGetNumDroppedRecords(context, stream, &lost) != CUPTI_SUCCESS) lost = 0;
        pthread_mutex_lock(&lock);
        CUpti_Activity *activity = NULL;
        while (cuptiActivityGetNextRecord(buffer, valid, &activity) == CUPTI_SUCCESS)
            add_activity(&batch, activity);
        dropped += lost;
        write_batch(&batch);
        pthread_mutex_unlock(&lock);
    }
    free(buffer);
}

/* CUPTI's own periodic flush delivers full buffers alone; a short program never fills one. */

static pthread_t flusher;
static int flushing;
static pthread_mutex_t nap = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER;

static void *flush_often(void *unused) {
    (void)unused;
    pthread_mutex_lock(&nap);
    while (!closing) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += FLUSH_NANOSECONDS;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&wake, &nap, &until);
        if (closing) break;
        pthread_mutex_unlock(&nap);
        cuptiActivityFlushAll(0);
        name_devices();
        pthread_mutex_lock(&nap);
    }
    pthread_mutex_unlock(&nap);
    return NULL;
}

static void start_flushing(void) {
    sigset_t all, old;
    sigfillset(&all); /* the program's signals are for its own threads */
    pthread_sigmask(SIG_BLOCK, &all, &old);
    flushing = pthread_create(&flusher, NULL, flush_often, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

static void stop_flushing(void) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 2;
    if (pthread_mutex_timedlock(&nap, &until) == 0) {
        closing = 1;
        pthread_cond_signal(&wake);
        pthread_mutex_unlock(&nap);
    }
    closing = 1;
    if (flushing) pthread_timedjoin_np(flusher, NULL, &until);
}

/* --- managed memory: its migrations tell why a kernel takes longer than its replay */

/* CUPTI may refuse; then the counts are missing, and the file says so. The counters can only be
 * configured once the driver is initialised, which is so when the first context is there. */
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
    struct batch batch = {NULL, 0, 0};
    add_record(&batch, 'm', &content, sizeof content);
    pthread_mutex_lock(&lock);
    write_batch(&batch);
    pthread_mutex_unlock(&lock);
}

static void add_managed(uint64_t bytes) {
    struct batch batch = {NULL, 0, 0};
    add_record(&batch, 'a', &bytes, sizeof bytes);
    pthread_mutex_lock(&lock);
    write_batch(&batch);
    pthread_mutex_unlock(&lock);
}

static void CUPTIAPI on_event(void *user, CUpti_CallbackDomain domain, CUpti_CallbackId id,
                              const void *data) {
    (void)user;
    static pthread_once_t counting = PTHREAD_ONCE_INIT;
    if (getpid() != owner || closing) return;
    if (domain == CUPTI_CB_DOMAIN_RESOURCE) pthread_once(&counting, count_migrations);
    if (domain == CUPTI_CB_DOMAIN_DRIVER_API && id == CUPTI_DRIVER_TRACE_CBID_cuMemAllocManaged) {
        const CUpti_CallbackData *call = (const CUpti_CallbackData *)data;
        if (call->callbackSite == CUPTI_API_EXIT)
            add_managed(((const cuMemAllocManaged_params *)call->functionParams)->bytesize);
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

/* --- start and end */

/* With CUPTI's default buffers (3 of 3.2 MB), recording a short program costs 26 ms on an H200, with
 * these 14 ms; launches cost the same with both. */
static void use_small_buffers(void) {
    size_t bytes = 1 << 20, count = 3, size = sizeof(size_t);
    cuptiActivitySetAttribute(CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE, &size, &bytes);
    size = sizeof(size_t);
    cuptiActivitySetAttribute(CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_PRE_ALLOCATE_VALUE, &size, &count);
}

/* A signal handler may call exit() while its own thread holds the lock: then the end is not
 * written, and the process still ends. */
static void finish(void) {
    if (getpid() != owner) return; /* a child that was forked and did not exec */
    stop_flushing();
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 2;
    if (pthread_mutex_timedlock(&lock, &until) != 0) return;
    pthread_mutex_unlock(&lock);
    cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    name_devices();
    uint64_t content[2] = {dropped, unfinished};
    struct batch batch = {NULL, 0, 0};
    add_record(&batch, 'e', content, sizeof content);
    pthread_mutex_lock(&lock);
    write_batch(&batch);
    if (file >= 0) close(file);
    file = -1;
    pthread_mutex_unlock(&lock);
}

static int open_record(const char *folder) {
    char path[4096];
    for (int copy = 0; copy < 1000; copy++) {
        snprintf(path, sizeof path, "%s/%ld.%d.rec", folder, (long)getpid(), copy);
        int found = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (found >= 0 || errno != EEXIST) return found;
    }
    return -1;
}

int InitializeInjection(void) {
    const char *folder = getenv("KEET_RECORD_DIR");
    if (!folder || owner) return 1;
    file = open_record(folder);
    if (file < 0) return 1;
    owner = getpid();
    use_small_buffers();
    CUptiResult result = cuptiActivityRegisterCallbacks(buffer_requested, buffer_completed);
    if (result == CUPTI_SUCCESS)
        result = cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    uint64_t content[3] = {1, (uint64_t)owner, (uint64_t)result};
    struct batch batch = {NULL, 0, 0};
    add_record(&batch, 's', content, sizeof content);
    write_batch(&batch);
    if (result == CUPTI_SUCCESS) watch_managed_memory();
    if (result == CUPTI_SUCCESS) start_flushing();
    atexit(finish);
    return 1;
}
