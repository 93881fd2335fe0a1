/* A driver library of eight GPUs, told by the environment what to be and which calls to fail.
 *
 * FAKE_NVML_NAMES  models, separated by `|`, given out in turn (default: all "Fake H100")
 * FAKE_NVML_MIG    indices of GPUs in MIG mode, each with two slices, for instance "2,5"
 * FAKE_NVML_FAIL   names of functions that answer "no permission"
 * FAKE_NVML_HANG   names of functions that never come back, or not as long as the file FAKE_NVML_HANG_WHILE exists
 * FAKE_NVML_CALLS  a file that gets a line for every call: the function's name
 * A handle is 1 + index, or 100 + 10 * index + slice.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GPUS 8
#define OK 0
#define INVALID 2
#define NOT_SUPPORTED 3
#define NO_PERMISSION 4
#define NOT_FOUND 6
#define GB (1024ULL * 1024 * 1024)

typedef long handle_t;
typedef struct { unsigned int gpu, memory; } rates_t;
typedef struct { unsigned long long total, free, used; } memory_t;

static int named(const char *variable, const char *word) {
    const char *list = getenv(variable);
    size_t length = strlen(word);
    while (list && *list) {
        size_t next = strcspn(list, ",");
        if (next == length && !strncmp(list, word, length)) return 1;
        list += next + (list[next] == ',');
    }
    return 0;
}

static int is_slice(handle_t handle) { return handle >= 100; }
static int index_of(handle_t handle) { return is_slice(handle) ? (int)(handle - 100) / 10 : (int)handle - 1; }
static int slice_of(handle_t handle) { return (int)(handle - 100) % 10; }

static int in_mig_mode(int index) {
    char word[8];
    snprintf(word, sizeof word, "%d", index);
    return named("FAKE_NVML_MIG", word);
}

static void enter(const char *function) {
    const char *path = getenv("FAKE_NVML_CALLS");
    FILE *file = path && *path ? fopen(path, "a") : NULL;
    if (file) {
        fprintf(file, "%s\n", function);
        fclose(file);
    }
    const char *cause = getenv("FAKE_NVML_HANG_WHILE");
    while (named("FAKE_NVML_HANG", function) && (!cause || access(cause, F_OK) == 0)) usleep(10000);
}

#define GUARD enter(__func__); if (named("FAKE_NVML_FAIL", __func__)) return NO_PERMISSION

int nvmlInitWithFlags(unsigned int flags) { (void)flags; GUARD; return OK; }
int nvmlShutdown(void) { GUARD; return OK; }
const char *nvmlErrorString(int code) { (void)code; return "fake error"; }

int nvmlDeviceGetCount_v2(unsigned int *count) { GUARD; *count = GPUS; return OK; }

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, handle_t *handle) {
    GUARD;
    if (index >= GPUS) return INVALID;
    *handle = index + 1;
    return OK;
}

int nvmlDeviceGetUUID(handle_t handle, char *text, unsigned int size) {
    GUARD;
    if (is_slice(handle)) snprintf(text, size, "MIG-%d%d-5ee1", index_of(handle), slice_of(handle));
    else snprintf(text, size, "GPU-%d0a1b2c3-fake", index_of(handle));
    return OK;
}

int nvmlDeviceGetName(handle_t handle, char *text, unsigned int size) {
    GUARD;
    const char *names = getenv("FAKE_NVML_NAMES");
    int skip = index_of(handle);
    const char *name = names && *names ? names : "Fake H100";
    while (skip-- > 0) name = strchr(name, '|') ? strchr(name, '|') + 1 : (names && *names ? names : name);
    snprintf(text, size, "%.*s%s", (int)strcspn(name, "|"), name, is_slice(handle) ? " MIG 1g.10gb" : "");
    return OK;
}

int nvmlDeviceGetMigMode(handle_t handle, unsigned int *now, unsigned int *pending) {
    GUARD;
    *now = *pending = in_mig_mode(index_of(handle));
    return OK;
}

int nvmlDeviceGetMaxMigDeviceCount(handle_t handle, unsigned int *count) { (void)handle; GUARD; *count = 7; return OK; }

int nvmlDeviceGetMigDeviceHandleByIndex(handle_t parent, unsigned int index, handle_t *handle) {
    GUARD;
    if (index != 0 && index != 3) return NOT_FOUND; /* free places between the slices */
    *handle = 100 + 10 * index_of(parent) + index;
    return OK;
}

int nvmlDeviceGetGpuInstanceId(handle_t handle, unsigned int *id) { GUARD; *id = 7 + slice_of(handle); return OK; }
int nvmlDeviceGetComputeInstanceId(handle_t handle, unsigned int *id) { (void)handle; GUARD; *id = 0; return OK; }

int nvmlDeviceGetUtilizationRates(handle_t handle, rates_t *rates) {
    static unsigned int calls[GPUS];
    GUARD;
    if (is_slice(handle) || in_mig_mode(index_of(handle))) return NOT_SUPPORTED;
    /* A busy card that is caught idle at every second reading. */
    rates->gpu = calls[index_of(handle)]++ % 2 ? 0 : 80;
    rates->memory = 10;
    return OK;
}

int nvmlDeviceGetMemoryInfo(handle_t handle, memory_t *memory) {
    GUARD;
    memory->total = is_slice(handle) ? 10 * GB : 80 * GB;
    memory->used = (index_of(handle) + 1) * GB;
    memory->free = memory->total - memory->used;
    return OK;
}

int nvmlDeviceGetTemperature(handle_t handle, unsigned int sensor, unsigned int *degrees) {
    (void)sensor;
    GUARD;
    if (is_slice(handle)) return NOT_SUPPORTED;
    *degrees = 40 + index_of(handle);
    return OK;
}

int nvmlDeviceGetPowerUsage(handle_t handle, unsigned int *milliwatts) {
    GUARD;
    *milliwatts = 300000 + index_of(handle);
    return OK;
}

int nvmlDeviceGetEnforcedPowerLimit(handle_t handle, unsigned int *milliwatts) {
    (void)handle;
    GUARD;
    *milliwatts = 700000;
    return OK;
}

/* The name of older drivers; the newer one is absent here. */
int nvmlDeviceGetCurrentClocksThrottleReasons(handle_t handle, unsigned long long *reasons) {
    GUARD;
    *reasons = index_of(handle) == 0 ? 0x1 | 0x4 | 0x40 : 0;
    return OK;
}
