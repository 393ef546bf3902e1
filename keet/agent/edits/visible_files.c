/* Hides files from the programs of a compiler where Linux gives no namespaces (confinement.py).
 *
 * Loaded into each of them with LD_PRELOAD. A path that is not on the list in $KEET_VISIBLE is "No
 * such file or directory", whether it exists or not. A line of the list is a letter and a path: F is
 * the file or folder itself, D a folder with everything below it. Each program adds its name to $KEET_LOADED, so that
 * keet knows which ones are linked dynamically and therefore call these functions. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static char *list; /* the lines, each ended by a NUL; an empty one ends the list */

/* Without dlsym: an allocator may open files before this library is set up, and dlsym allocates. */
static int open_directly(int folder, const char *path, int how, int mode) {
    return (int)syscall(SYS_openat, folder, path, how, mode);
}

static void read_list(void) {
    const char *name = getenv("KEET_VISIBLE");
    int file = name ? open_directly(AT_FDCWD, name, O_RDONLY | O_CLOEXEC, 0) : -1;
    off_t size = file < 0 ? 0 : lseek(file, 0, SEEK_END);
    char *text = calloc(1, (size_t)size + 2);
    if (!text || file < 0 || pread(file, text, (size_t)size, 0) != size) _exit(125);
    close(file);
    for (char *at = text; *at; ++at)
        if (*at == '\n') *at = 0;
    list = text;
}

static void tell_name(void) {
    const char *name = getenv("KEET_LOADED");
    int file = name ? open_directly(AT_FDCWD, name, O_WRONLY | O_APPEND | O_CLOEXEC, 0) : -1;
    if (file < 0) _exit(125);
    dprintf(file, "%s\n", program_invocation_short_name);
    close(file);
}

/* On the list, below a folder of it, or above an entry. */
static int is_listed(const char *path) {
    size_t length = strlen(path);
    for (const char *line = list; *line; line += strlen(line) + 1) {
        const char *name = line + 1;
        size_t size = strlen(name);
        if (!strcmp(path, name)) return 1;
        if (line[0] == 'D' && !strncmp(path, name, size) && path[size] == '/') return 1;
        if (length < size && !strncmp(path, name, length) && name[length] == '/') return 1;
    }
    return 0;
}

/* Follows the path part by part, as the system would, and asks nothing about a part that is not on
 * the list: `/hidden/../usr/include` must not tell whether /hidden exists. Before main(), programs
 * open files of the system only, because no source has been read yet. */
static int is_hidden(int folder, const char *path) {
    char at[PATH_MAX] = "", rest[2 * PATH_MAX], link[PATH_MAX];
    int links = 0;
    if (!path || !list) return 0;
    errno = ENOENT;
    if (strlen(path) >= PATH_MAX || (path[0] != '/' && folder != AT_FDCWD)) return 1;
    if (path[0] != '/' && !getcwd(at, sizeof at)) return 1;
    strcpy(rest, path);
    while (*rest) {
        char *part = rest + strspn(rest, "/"), *end = part + strcspn(part, "/");
        size_t size = (size_t)(end - part), length = strlen(at);
        char name[PATH_MAX];
        memcpy(name, part, size);
        name[size] = 0;
        memmove(rest, end, strlen(end) + 1);
        if (!size || !strcmp(name, ".")) continue;
        if (!strcmp(name, "..")) {
            char *last = strrchr(at, '/');
            if (last) *last = 0;
            continue;
        }
        if (length + size + 2 > PATH_MAX) return errno = ENOENT, 1;
        sprintf(at + length, "/%s", name);
        if (!is_listed(at)) return errno = ENOENT, 1;
        ssize_t got = syscall(SYS_readlinkat, AT_FDCWD, at, link, sizeof link - 1);
        if (got <= 0) continue;
        link[got] = 0;
        if (++links > 40 || (size_t)got + strlen(rest) + 2 > sizeof rest) return errno = ENOENT, 1;
        at[link[0] == '/' ? 0 : length] = 0;
        memmove(rest + got + 1, rest, strlen(rest) + 1);
        memcpy(rest, link, (size_t)got);
        rest[got] = '/';
    }
    return errno = 0, 0;
}

#define WRAP(type, failed, name, parameters, arguments, folder)                       \
    static type(*real_##name) parameters;                                             \
    type name parameters {                                                            \
        if (!real_##name) errno = ENOENT;                                             \
        return !real_##name || is_hidden(folder, path) ? failed : real_##name arguments; \
    }                                                                                 \
    __attribute__((constructor)) static void find_##name(void) {                      \
        real_##name = (type(*) parameters)dlsym(RTLD_NEXT, #name);                    \
    }
#define OPEN(name, parameters, last, folder)                                          \
    int name parameters {                                                             \
        va_list rest;                                                                 \
        va_start(rest, last);                                                         \
        int mode = va_arg(rest, int);                                                 \
        va_end(rest);                                                                 \
        return is_hidden(folder, path) ? -1 : open_directly(folder, path, how, mode); \
    }
#define BOTH(macro, name) macro(name) macro(name##64)
#define PLAIN(name) OPEN(name, (const char *path, int how, ...), how, AT_FDCWD)
#define AT(name) OPEN(name, (int folder, const char *path, int how, ...), how, folder)
#define STAT(name) WRAP(int, -1, name, (const char *path, void *to), (path, to), AT_FDCWD)
#define OLD(name) WRAP(int, -1, name, (int v, const char *path, void *to), (v, path, to), AT_FDCWD)
#define STAT_AT(name)                                                                 \
    WRAP(int, -1, name, (int folder, const char *path, void *to, int how),            \
         (folder, path, to, how), folder)
#define STREAM(name)                                                                  \
    WRAP(FILE *, NULL, name, (const char *path, const char *how), (path, how), AT_FDCWD)
#define AGAIN(name)                                                                   \
    WRAP(FILE *, NULL, name, (const char *path, const char *how, FILE *old), (path, how, old), AT_FDCWD)

BOTH(PLAIN, open)
BOTH(AT, openat)
BOTH(STAT, stat)
BOTH(STAT, lstat)
BOTH(OLD, __xstat)
BOTH(OLD, __lxstat)
BOTH(STAT_AT, fstatat)
BOTH(STREAM, fopen)
BOTH(AGAIN, freopen)
WRAP(int, -1, __open_2, (const char *path, int how), (path, how), AT_FDCWD)
WRAP(int, -1, __open64_2, (const char *path, int how), (path, how), AT_FDCWD)
WRAP(int, -1, statx, (int folder, const char *path, int how, unsigned mask, void *to),
     (folder, path, how, mask, to), folder)
WRAP(int, -1, access, (const char *path, int how), (path, how), AT_FDCWD)
WRAP(int, -1, euidaccess, (const char *path, int how), (path, how), AT_FDCWD)
WRAP(int, -1, faccessat, (int folder, const char *path, int how, int flags),
     (folder, path, how, flags), folder)
WRAP(void *, NULL, opendir, (const char *path), (path), AT_FDCWD)
WRAP(ssize_t, -1, readlink, (const char *path, char *to, size_t size), (path, to, size), AT_FDCWD)
WRAP(char *, NULL, realpath, (const char *path, char *to), (path, to), AT_FDCWD)
WRAP(char *, NULL, canonicalize_file_name, (const char *path), (path), AT_FDCWD)

__attribute__((constructor)) static void set_up(void) {
    read_list();
    tell_name();
}
