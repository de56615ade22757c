// The device: what the config says of the chip, and what all devices of CUDA have in common (CUDA programming guide,
// "Compute Capabilities").
#include <climits>
#include <cstdio>
#include <cstring>

#include "server.h"

using namespace tcsim;

namespace {

constexpr int WARP = 32, CTA_THREADS = 1024, CTA_DEPTH = 64, GRID_YZ = 65535, DEFAULT_SHARED = 49152;
constexpr int CONSTANT_BYTES = 65536, TEXTURE_ALIGNMENT = 512, RUNTIME_VERSION = 13000;
constexpr int MOST_ATTRIBUTE = 147;  // measured: more is an invalid value
size_t limits[] = {1024, 8650752, 8 << 20, 0, 2048, 64, 0};  // cudaLimit 0 to 6: those of an H200, but for L2's
constexpr int SYNC_DEPTH = 3;  // a limit that chips since 9.0 do not have
constexpr int LIMITS = sizeof limits / sizeof *limits;
const char BUS[] = "0000:00:00.0";
int flags = 0;

void describe(DeviceProperties *all) {
    const Device &chip = device();
    memset(all, 0, sizeof *all);
    snprintf(all->name, sizeof all->name, "%s", chip.name);
    memcpy(all->uuid, "tcsim", 5);
    all->global_bytes = chip.global_bytes;
    all->block_shared_bytes = DEFAULT_SHARED;
    all->block_registers = all->sm_registers = chip.registers;
    all->warp_size = WARP;
    all->pitch = INT_MAX;
    all->block_threads = all->block_extent[0] = all->block_extent[1] = CTA_THREADS;
    all->block_extent[2] = CTA_DEPTH;
    all->grid_extent[0] = INT_MAX;
    all->grid_extent[1] = all->grid_extent[2] = GRID_YZ;
    all->constant_bytes = CONSTANT_BYTES;
    all->major = chip.major, all->minor = chip.minor;
    all->texture_alignment = TEXTURE_ALIGNMENT, all->texture_pitch_alignment = WARP, all->surface_alignment = TEXTURE_ALIGNMENT;
    all->sms = chip.sms;
    all->maps_host_memory = all->concurrent_kernels = all->unified_addressing = all->managed_memory = 1;
    all->async_engines = 1;
    all->l2_bytes = chip.l2_bytes;
    all->sm_threads = chip.warps * WARP;
    all->global_l1 = all->local_l1 = 1;
    all->sm_shared_bytes = chip.sm_shared;
    all->concurrent_managed_access = all->cooperative_launch = all->direct_managed_access = 1;
    all->block_shared_bytes_optin = chip.block_shared;
    all->sm_blocks = chip.ctas;
    all->reserved_shared_bytes = chip.reserved_shared;
    all->cluster_launch = chip.major >= 9;
    all->numa_id = all->host_numa = -1;
}

}  // namespace

API Error cudaGetDeviceProperties(DeviceProperties *properties, int number) {
    UNLESS_STUCK
    if (number) return failed(INVALID_DEVICE);
    describe(properties);
    return SUCCESS;
}

API Error cudaDeviceGetAttribute(int *value, int attribute, int number) {
    UNLESS_STUCK
    if (number) return failed(INVALID_DEVICE);
    DeviceProperties all;
    describe(&all);
    const struct {
        int attribute;
        size_t value;
    } known[] = {
        {1, CTA_THREADS}, {2, CTA_THREADS}, {3, CTA_THREADS}, {4, CTA_DEPTH}, {5, INT_MAX}, {6, GRID_YZ}, {7, GRID_YZ},
        {8, all.block_shared_bytes}, {9, CONSTANT_BYTES}, {10, WARP}, {11, INT_MAX}, {12, size_t(all.block_registers)},
        {13, device().clock_khz}, {14, TEXTURE_ALIGNMENT}, {15, 1}, {16, size_t(all.sms)}, {17, 0}, {18, 0}, {19, 1}, {20, 0},
        {31, 1}, {32, 0}, {33, 0}, {34, 0}, {35, 0}, {38, size_t(all.l2_bytes)}, {39, size_t(all.sm_threads)}, {40, 1}, {41, 1}, {50, 0},
        {75, size_t(all.major)}, {76, size_t(all.minor)}, {78, 0}, {79, 1}, {80, 1}, {81, all.sm_shared_bytes},
        {82, size_t(all.sm_registers)}, {83, 1}, {84, 0}, {86, 0}, {88, 0}, {89, 1}, {90, 0}, {91, 0}, {95, 1},
        {97, all.block_shared_bytes_optin}, {99, 0}, {100, 0}, {101, 1}, {106, size_t(all.sm_blocks)}, {108, 0},
        {109, 0}, {111, all.reserved_shared_bytes}, {115, 0}, {120, size_t(all.cluster_launch)},
    };
    for (const auto &each : known)
        if (each.attribute == attribute) {
            *value = static_cast<int>(each.value);
            return SUCCESS;
        }
    if (attribute < 1 || attribute > MOST_ATTRIBUTE) return failed(INVALID_VALUE);
    fprintf(stderr, "tcsim: device attribute %d is not known; it is answered as 0\n", attribute);
    *value = 0;
    return SUCCESS;
}

API Error cudaGetDeviceCount(int *count) {
    *count = 1;
    return stuck();
}
API Error cudaGetDevice(int *number) {
    *number = 0;
    return stuck();
}
API Error cudaSetDevice(int number) { return number ? failed(INVALID_DEVICE) : stuck(); }
API Error cudaInitDevice(int number, unsigned, unsigned) { return number ? failed(INVALID_DEVICE) : stuck(); }
API Error cudaChooseDevice(int *number, const DeviceProperties *) { return cudaGetDevice(number); }
API Error cudaSetDeviceFlags(unsigned value) {
    flags = static_cast<int>(value);
    return stuck();
}
API Error cudaGetDeviceFlags(unsigned *value) {
    *value = static_cast<unsigned>(flags);
    return stuck();
}
API Error cudaDriverGetVersion(int *version) {
    *version = RUNTIME_VERSION;
    return SUCCESS;
}
API Error cudaRuntimeGetVersion(int *version) { return cudaDriverGetVersion(version); }
API Error cudaDeviceSynchronize() { return stuck(); }
API Error cudaDeviceReset() { return stuck(); }
API Error cudaDeviceCanAccessPeer(int *can, int, int) {
    *can = 0;
    return stuck();
}
API Error cudaDeviceSetLimit(int limit, size_t value) {
    if (limit < 0 || limit >= LIMITS || limit == SYNC_DEPTH) return failed(UNSUPPORTED_LIMIT);
    limits[limit] = value;
    return stuck();
}
API Error cudaDeviceGetLimit(size_t *value, int limit) {
    if (limit < 0 || limit >= LIMITS || limit == SYNC_DEPTH) return failed(UNSUPPORTED_LIMIT);
    *value = limits[limit];
    return stuck();
}
API Error cudaDeviceGetPCIBusId(char *text, int bytes, int number) {
    if (number) return failed(INVALID_DEVICE);
    snprintf(text, bytes, "%s", BUS);
    return stuck();
}
API Error cudaDeviceGetByPCIBusId(int *number, const char *text) {
    *number = 0;
    return strcmp(text, BUS) ? failed(INVALID_DEVICE) : stuck();
}
API Error cudaDeviceSetSharedMemConfig(int) { return stuck(); }
API Error cudaDeviceGetSharedMemConfig(int *banks) {
    *banks = 1;  // cudaSharedMemBankSizeFourByte
    return stuck();
}
API Error cudaDeviceGetCacheConfig(int *config) {
    *config = 0;
    return stuck();
}
API Error cudaCtxResetPersistingL2Cache() { return stuck(); }
API Error cudaDeviceSetCacheConfig(int) { return stuck(); }
API Error cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
    *least = *greatest = 0;
    return stuck();
}
API Error cudaProfilerStart() { return stuck(); }
API Error cudaProfilerStop() { return stuck(); }
