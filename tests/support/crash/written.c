/* Loaded before a process's own libraries: it is killed at the call that would write to a disk for the Nth time.

   What counts is what changes a file or a folder, or asks the disk to keep it: whoever is asked, Python, SQLite and
   libgit2 all go through the C library. Only the process that was started counts, not what it starts. With DIES_AT=0
   nobody dies, and DIES_TO has a file that is told how many calls there were. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static long dies_at, calls;
static pid_t owner;
static char *said;

__attribute__((constructor)) static void begin(void) {
    const char *at = getenv("DIES_AT");
    if (!at) return;
    dies_at = atol(at);
    said = getenv("DIES_TO");
    owner = getpid();
    unsetenv("DIES_AT");
    unsetenv("LD_PRELOAD");
}

__attribute__((destructor)) static void end(void) {
    FILE *file = said && getpid() == owner && !dies_at ? fopen(said, "w") : NULL;
    if (!file) return;
    fprintf(file, "%ld", calls);
    fclose(file);
}

static void counts(void) {
    if (owner && getpid() == owner && __sync_add_and_fetch(&calls, 1) == dies_at) kill(owner, SIGKILL);
}

static void counts_if_a_file(int file) {
    struct stat found;
    if (owner && !fstat(file, &found) && S_ISREG(found.st_mode)) counts();
}

#define REAL(name, result, ...) \
    static result (*real)(__VA_ARGS__); \
    if (!real) real = (result (*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name);

#define OPENS(name) \
    int name(const char *path, int flags, ...) { \
        va_list more; va_start(more, flags); mode_t mode = va_arg(more, mode_t); va_end(more); \
        REAL(name, int, const char *, int, ...) \
        if (flags & (O_CREAT | O_TRUNC)) counts(); \
        return real(path, flags, mode); \
    }
OPENS(open) OPENS(open64)

#define OPENS_AT(name) \
    int name(int folder, const char *path, int flags, ...) { \
        va_list more; va_start(more, flags); mode_t mode = va_arg(more, mode_t); va_end(more); \
        REAL(name, int, int, const char *, int, ...) \
        if (flags & (O_CREAT | O_TRUNC)) counts(); \
        return real(folder, path, flags, mode); \
    }
OPENS_AT(openat) OPENS_AT(openat64)

ssize_t write(int file, const void *from, size_t size) {
    REAL(write, ssize_t, int, const void *, size_t)
    counts_if_a_file(file);
    return real(file, from, size);
}
ssize_t writev(int file, const struct iovec *from, int many) {
    REAL(writev, ssize_t, int, const struct iovec *, int)
    counts_if_a_file(file);
    return real(file, from, many);
}
#define WRITES_AT(name) \
    ssize_t name(int file, const void *from, size_t size, off_t at) { \
        REAL(name, ssize_t, int, const void *, size_t, off_t) \
        counts_if_a_file(file); \
        return real(file, from, size, at); \
    }
WRITES_AT(pwrite) WRITES_AT(pwrite64)

#define ON_A_FILE(name) int name(int file) { REAL(name, int, int) counts(); return real(file); }
ON_A_FILE(fsync) ON_A_FILE(fdatasync)
#define CUTS(name) int name(int file, off_t size) { REAL(name, int, int, off_t) counts(); return real(file, size); }
CUTS(ftruncate) CUTS(ftruncate64)

#define ON_A_PATH(name) int name(const char *path) { REAL(name, int, const char *) counts(); return real(path); }
ON_A_PATH(unlink) ON_A_PATH(rmdir)
#define ON_TWO_PATHS(name) \
    int name(const char *from, const char *to) { REAL(name, int, const char *, const char *) counts(); return real(from, to); }
ON_TWO_PATHS(rename) ON_TWO_PATHS(link) ON_TWO_PATHS(symlink)

int mkdir(const char *path, mode_t mode) {
    REAL(mkdir, int, const char *, mode_t)
    counts();
    return real(path, mode);
}
int unlinkat(int folder, const char *path, int flags) {
    REAL(unlinkat, int, int, const char *, int)
    counts();
    return real(folder, path, flags);
}
