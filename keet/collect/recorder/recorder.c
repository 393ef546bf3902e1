/* Records every kernel launch of a CUDA program: name, shape, start, end, stream, order.
 *
 * The CUDA driver loads this library into the program (CUDA_INJECTION64_PATH) and calls
 * InitializeInjection. CUPTI then delivers records of finished kernels, which are appended as lines
 * of text to a file per process in KEET_RECORD_DIR. Buffers are delivered every quarter of a second
 * as well, so that a program that crashes or is killed loses no more than that.
 *
 * The structs used are those of old CUPTI versions: newer ones only add fields at the end, so one
 * source serves CUDA 10 to 13.
 */
#define _GNU_SOURCE
#include <cupti.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BUFFER_BYTES (1 << 20)
#define FLUSH_MILLISECONDS 250
#define MOST_NAMES 65536 /* a power of two */

static FILE *out;
static pid_t owner;
static unsigned long dropped, unfinished, setup_ns, writing_ns;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static unsigned long now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (unsigned long)t.tv_sec * 1000000000ul + (unsigned long)t.tv_nsec;
}

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

static void write_text(const char *text) {
    for (; *text; text++) fputc((unsigned char)*text < ' ' ? '?' : *text, out);
}

/* The slot of the name; a name that is new is written first. */
static unsigned name_number(const char *name) {
    unsigned slot = (unsigned)(((size_t)name >> 3) * 2654435761u) & (MOST_NAMES - 1);
    while (seen[slot] && seen[slot] != name) slot = (slot + 1) & (MOST_NAMES - 1);
    if (seen[slot] || seen_count > MOST_NAMES / 2) return slot;
    seen[slot] = name;
    seen_count++;
    char *readable = demangled(name);
    fprintf(out, "n %u ", slot);
    write_text(name);
    fputc('\t', out);
    write_text(readable ? readable : name);
    fputc('\n', out);
    free(readable);
    return slot;
}

/* --- records */

static void write_kernel(const CUpti_ActivityKernel4 *k) {
    if (!k->start || !k->end || k->end < k->start) {
        unfinished++;
        return;
    }
    unsigned name = name_number(k->name ? k->name : "?");
    fprintf(out, "k %u %llu %llu %d %d %d %d %d %d %u %u %u %u\n", name,
            (unsigned long long)k->start, (unsigned long long)k->end, k->gridX, k->gridY, k->gridZ,
            k->blockX, k->blockY, k->blockZ, k->deviceId, k->contextId, k->streamId,
            k->correlationId);
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
        fprintf(out, "u %d %llu %llu %llu\n", (int)u->counterKind, (unsigned long long)u->value,
                (unsigned long long)u->start, (unsigned long long)u->end);
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
        unsigned long began = now_ns();
        pthread_mutex_lock(&lock);
        CUpti_Activity *record = NULL;
        while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS)
            write_record(record);
        size_t lost = 0;
        if (cuptiActivityGetNumDroppedRecords(context, stream, &lost) == CUPTI_SUCCESS)
            dropped += lost;
        fflush(out);
        writing_ns += now_ns() - began;
        pthread_mutex_unlock(&lock);
    }
    free(buffer);
}

/* --- start and end */

static void finish(void) {
    if (getpid() != owner || !out) return; /* a child that was forked and did not exec */
    unsigned long began = now_ns();
    cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    pthread_mutex_lock(&lock);
    fprintf(out, "end %lu %lu %lu %lu %lu\n", dropped, unfinished, setup_ns, writing_ns,
            now_ns() - began);
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

/* Page migrations tell why a kernel takes longer than its replay. CUPTI may refuse: then not. */
static int count_migrations(void) {
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
        config[i].deviceId = 0;
        config[i].enable = 1;
    }
    CUptiResult result = cuptiActivityConfigureUnifiedMemoryCounter(config, 3);
    if (result == CUPTI_SUCCESS)
        result = cuptiActivityEnable(CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER);
    return (int)result;
}

int InitializeInjection(void) {
    const char *folder = getenv("KEET_RECORD_DIR");
    if (!folder || out) return 1;
    unsigned long began = now_ns();
    out = open_record(folder);
    if (!out) return 1;
    owner = getpid();
    CUptiResult result = cuptiActivityRegisterCallbacks(buffer_requested, buffer_completed);
    if (result == CUPTI_SUCCESS)
        result = cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    int migrations = result == CUPTI_SUCCESS && !getenv("KEET_RECORD_NO_MIGRATIONS")
                         ? count_migrations()
                         : -1;
    cuptiActivityFlushPeriod(FLUSH_MILLISECONDS);
    atexit(finish);
    setup_ns = now_ns() - began;
    fprintf(out, "keet-record 1 %ld %d %d\n", (long)owner, (int)result, migrations);
    fflush(out);
    return 1;
}
