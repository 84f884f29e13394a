/* For LD_PRELOAD: a server whose clock can be set while it runs.
 *
 * Redis takes its time from gettimeofday. To the monotonic clock, which nobody sets, this adds as many microseconds as
 * are written in the file that RATELIMIT_TEST_CLOCK names. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int file = -1;

__attribute__((constructor)) static void open_file(void) {
    const char *path = getenv("RATELIMIT_TEST_CLOCK");
    if (path) {
        file = open(path, O_RDONLY | O_CLOEXEC);
    }
}

int gettimeofday(struct timeval *now, void *zone) {
    (void)zone;
    struct timespec monotonic;
    clock_gettime(CLOCK_MONOTONIC, &monotonic);
    char text[32] = {0};
    long long offset = 0;
    if (file >= 0 && pread(file, text, sizeof text - 1, 0) > 0) {
        offset = atoll(text);
    }
    long long micros = monotonic.tv_sec * 1000000LL + monotonic.tv_nsec / 1000 + offset;
    now->tv_sec = micros / 1000000;
    now->tv_usec = micros % 1000000;
    return 0;
}
