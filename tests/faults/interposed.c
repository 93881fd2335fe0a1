/* A wall clock that jumps, and a folder whose disk hangs or refuses, for one process: loaded before libc by LD_PRELOAD.

   What it does is in a file of 24 bytes that a test writes while the process runs (TS_SHIM_CONTROL): seconds that the wall
   clock is ahead (double), whether calls about anything in TS_SHIM_FOLDER hang (int), with which errno calls that write there
   fail (int), how many calls have hung or failed so far (int). Calls that hang can be killed, as on a hard NFS mount. */

#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

struct control { double ahead_s; int hangs; int error; int met; };

static struct control none;
static volatile struct control *control = &none;
static char folder[PATH_MAX];
static size_t folder_length;

#define REAL(name) static __typeof__(&name) real; if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

__attribute__((constructor)) static void begin(void) {
    const char *at = getenv("TS_SHIM_CONTROL"), *below = getenv("TS_SHIM_FOLDER");
    if (below) { strncpy(folder, below, sizeof folder - 1); folder_length = strlen(folder); }
    int fd = at ? open(at, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0) return;
    void *mapped = mmap(NULL, sizeof none, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapped != MAP_FAILED) control = mapped;
    close(fd);
}

/* Waits while the disk hangs; -1 with errno where it refuses. */
static int pass(const char *path, int writes) {
    if (!folder_length || !(control->hangs || control->error) || strncmp(path, folder, folder_length)) return 0;
    if (control->hangs || writes) __sync_fetch_and_add((int *)&control->met, 1);
    while (control->hangs) { struct timespec nap = {0, 10 * 1000 * 1000}; nanosleep(&nap, NULL); }
    if (!writes || !control->error) return 0;
    errno = control->error;
    return -1;
}

static int pass_at(int at, const char *path, int writes) {
    if (!folder_length || !(control->hangs || control->error)) return 0;
    if (path[0] == '/' || at == AT_FDCWD) return pass(path, writes);
    char link[64], whole[PATH_MAX] = {0};
    strcpy(link, "/proc/self/fd/");
    char *end = link + strlen(link), digits[16]; int n = 0, left = at;
    do digits[n++] = '0' + left % 10; while (left /= 10);
    while (n) *end++ = digits[--n];
    *end = 0;
    ssize_t length = readlink(link, whole, sizeof whole - 1);
    return length > 0 ? pass(whole, writes) : 0;
}

static int pass_fd(int fd, int writes) { return fd < 0 ? 0 : pass_at(fd, "", writes); }

int clock_gettime(clockid_t which, struct timespec *now) {
    REAL(clock_gettime);
    int done = real(which, now);
    if (!done && (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE)) now->tv_sec += (time_t)control->ahead_s;
    return done;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    REAL(gettimeofday);
    int done = real(now, zone);
    if (!done) now->tv_sec += (time_t)control->ahead_s;
    return done;
}

time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}

static int has_mode(int flags) { return (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE; }
static int is_writing(int flags) { return (flags & O_ACCMODE) != O_RDONLY || has_mode(flags); }

#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        mode_t mode = 0; \
        if (has_mode(flags)) { va_list rest; va_start(rest, flags); mode = va_arg(rest, mode_t); va_end(rest); } \
        REAL(name); \
        return pass(path, is_writing(flags)) ? -1 : real(path, flags, mode); \
    }
#define OPENAT(name) \
    int name(int at, const char *path, int flags, ...) { \
        mode_t mode = 0; \
        if (has_mode(flags)) { va_list rest; va_start(rest, flags); mode = va_arg(rest, mode_t); va_end(rest); } \
        REAL(name); \
        return pass_at(at, path, is_writing(flags)) ? -1 : real(at, path, flags, mode); \
    }
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

ssize_t read(int fd, void *data, size_t size) { REAL(read); return pass_fd(fd, 0) ? -1 : real(fd, data, size); }
ssize_t pread(int fd, void *data, size_t size, off_t at) { REAL(pread); return pass_fd(fd, 0) ? -1 : real(fd, data, size, at); }
ssize_t pread64(int fd, void *data, size_t size, off64_t at) { REAL(pread64); return pass_fd(fd, 0) ? -1 : real(fd, data, size, at); }
ssize_t write(int fd, const void *data, size_t size) { REAL(write); return pass_fd(fd, 1) ? -1 : real(fd, data, size); }
ssize_t pwrite(int fd, const void *data, size_t size, off_t at) { REAL(pwrite); return pass_fd(fd, 1) ? -1 : real(fd, data, size, at); }
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) { REAL(pwrite64); return pass_fd(fd, 1) ? -1 : real(fd, data, size, at); }
int fsync(int fd) { REAL(fsync); return pass_fd(fd, 1) ? -1 : real(fd); }
int fdatasync(int fd) { REAL(fdatasync); return pass_fd(fd, 1) ? -1 : real(fd); }
int stat(const char *restrict path, struct stat *restrict found) { REAL(stat); return pass(path, 0) ? -1 : real(path, found); }
int lstat(const char *restrict path, struct stat *restrict found) { REAL(lstat); return pass(path, 0) ? -1 : real(path, found); }
int fstatat(int at, const char *restrict path, struct stat *restrict found, int flags) {
    REAL(fstatat);
    return pass_at(at, path, 0) ? -1 : real(at, path, found, flags);
}
DIR *opendir(const char *path) { REAL(opendir); return pass(path, 0) ? NULL : real(path); }
int mkdir(const char *path, mode_t mode) { REAL(mkdir); return pass(path, 1) ? -1 : real(path, mode); }
int rename(const char *from, const char *to) { REAL(rename); return pass(to, 1) ? -1 : real(from, to); }
int unlink(const char *path) { REAL(unlink); return pass(path, 1) ? -1 : real(path); }
int rmdir(const char *path) { REAL(rmdir); return pass(path, 1) ? -1 : real(path); }
