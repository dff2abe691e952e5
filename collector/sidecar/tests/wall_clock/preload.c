// Preloaded into a program: its wall clock is off by the seconds in the file $WALL_CLOCK_OFFSET.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *now) {
    int result = (int)syscall(SYS_clock_gettime, clock, now);
    const char *path = getenv("WALL_CLOCK_OFFSET");
    if (result != 0 || clock != CLOCK_REALTIME || path == NULL) {
        return result;
    }
    int before = errno;
    char text[32] = {0};
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file >= 0 && read(file, text, sizeof text - 1) > 0) {
        now->tv_sec += atoll(text);
    }
    if (file >= 0) {
        close(file);
    }
    errno = before;
    return result;
}
