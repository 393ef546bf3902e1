/* A "CUDA program" without CUDA. Like the driver, it loads the library of CUDA_INJECTION64_PATH and
 * then does what its arguments say, in order:
 *   launch NAME START END GRID BLOCK TIMES   kernels one after the other, times in nanoseconds
 *   managed BYTES   migrate KIND VALUE   print LINES   delivered   pause   fork   abort
 *   exit CODE   _exit CODE
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void *symbol(const char *name) { return dlsym(RTLD_DEFAULT, name); }

static void inject(void) {
    const char *path = getenv("CUDA_INJECTION64_PATH");
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_GLOBAL) : NULL;
    int (*start)(void) = library ? (int (*)(void))dlsym(library, "InitializeInjection") : NULL;
    if (start) start();
    void (*context)(void) = (void (*)(void))symbol("fake_context");
    if (context) context();
}

static void launch(char **words) {
    void (*record)(const char *, uint64_t, uint64_t, int, int) =
        (void (*)(const char *, uint64_t, uint64_t, int, int))symbol("fake_launch");
    uint64_t start = strtoull(words[1], NULL, 10), end = strtoull(words[2], NULL, 10);
    for (int i = 0; record && i < atoi(words[5]); i++)
        record(words[0], start + i * (end - start), end + i * (end - start), atoi(words[3]),
               atoi(words[4]));
}

int main(int argc, char **argv) {
    inject();
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "launch")) {
            launch(argv + i + 1);
            i += 6;
        } else if (!strcmp(argv[i], "managed")) {
            void (*managed)(size_t) = (void (*)(size_t))symbol("fake_managed");
            if (managed) managed(strtoull(argv[++i], NULL, 10));
        } else if (!strcmp(argv[i], "migrate")) {
            void (*migrate)(int, uint64_t) = (void (*)(int, uint64_t))symbol("fake_migration");
            if (migrate) migrate(atoi(argv[i + 1]), strtoull(argv[i + 2], NULL, 10));
            i += 2;
        } else if (!strcmp(argv[i], "print")) {
            for (int n = atoi(argv[++i]); n > 0; n--) puts("the program speaks");
        } else if (!strcmp(argv[i], "delivered")) {
            int (*left)(void) = (int (*)(void))symbol("fake_waiting");
            while (left && left()) usleep(1000);
        } else if (!strcmp(argv[i], "pause")) {
            pause();
        } else if (!strcmp(argv[i], "fork")) {
            pid_t child = fork();
            if (child == 0) exit(0);
            waitpid(child, NULL, 0);
        } else if (!strcmp(argv[i], "abort")) {
            abort();
        } else if (!strcmp(argv[i], "exit")) {
            exit(atoi(argv[++i]));
        } else if (!strcmp(argv[i], "_exit")) {
            _exit(atoi(argv[++i]));
        }
    }
    return 0;
}
