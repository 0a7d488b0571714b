/* Loaded before a worker's own libraries: its wall clock is the machine's plus the seconds in a file, read at every look.

   No namespace has a wall clock. Whoever asks the C library, be it Python, Rust or a body, is told this one; clocks that
   count from the start of the machine are left alone. Without the file nothing is changed. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *shift;
static int (*real)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void) {
    real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    const char *path = getenv("BURN_WALL_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *found = mmap(NULL, sizeof *shift, PROT_READ, MAP_SHARED, file, 0);
    if (found != MAP_FAILED) shift = found;
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *at) {
    if (!real) begin();
    int failed = real(clock, at);
    if (!failed && shift && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) at->tv_sec += *shift;
    return failed;
}

time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    (void)zone;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}
