// Allocation and copies. Device memory is a file that this process and the simulator map; a copy is a memmove.
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "memory.h"

namespace tcsim {

namespace {

constexpr uint64_t STEP = 1 << 16;  // allocations begin at multiples; a gap behind each finds what runs over its end

std::mutex changing;
std::map<uint64_t, Allocation> live;
uint64_t next = ARENA + VARIABLE_BYTES, used = 0;

}  // namespace

Error allocate(void **pointer, size_t bytes, Kind kind) {
    if (!pointer) return failed(INVALID_VALUE);
    *pointer = nullptr;
    UNLESS_STUCK
    if (!bytes) return SUCCESS;
    connect_memory();
    std::lock_guard<std::mutex> lock(changing);
    if (bytes > device().global_bytes - used || bytes + 2 * STEP > ARENA + ARENA_BYTES - next)
        return failed(MEMORY_ALLOCATION);
    uint64_t address = next;
    next += (bytes + STEP - 1) / STEP * STEP + STEP;
    used += bytes;
    live[address] = {bytes, kind};
    ask(ALLOCATE, Bytes().put(address).put<uint64_t>(bytes).put<uint32_t>(kind), nullptr);
    *pointer = reinterpret_cast<void *>(address);
    return SUCCESS;
}

bool in_arena(const void *address) {
    uint64_t value = reinterpret_cast<uint64_t>(address);
    return value >= ARENA && value < ARENA + ARENA_BYTES;
}

uint64_t bytes_in_use() { return used; }

namespace {

Error release(void *pointer) {
    if (!pointer) return stuck();
    std::lock_guard<std::mutex> lock(changing);
    auto found = live.find(reinterpret_cast<uint64_t>(pointer));
    if (found == live.end()) return failed(INVALID_VALUE);
    ask(RELEASE, Bytes().put<uint64_t>(found->first), nullptr);
    used -= found->second.bytes;
    madvise(pointer, found->second.bytes, MADV_REMOVE);  // whole pages go back: allocations begin at them
    live.erase(found);
    return stuck();
}

// Whether all bytes lie in one allocation, or in no device memory at all.
bool reachable(const void *address, size_t bytes) {
    uint64_t value = reinterpret_cast<uint64_t>(address), start = 0;
    if (!bytes || !in_arena(address) || value < ARENA + VARIABLE_BYTES) return true;
    const Allocation *one = allocation_of(address, &start);
    return one && value + bytes <= start + one->bytes;
}

}  // namespace

Error copy(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t rows, int direction) {
    if (rows && width > (rows > 1 ? std::min(to_pitch, from_pitch) : width)) return failed(INVALID_VALUE);
    size_t last = rows ? rows - 1 : 0, bytes = rows ? width : 0;
    if (bytes && (!to || !from)) return failed(INVALID_VALUE);
    bool to_device = direction == 1 || direction == 3, from_device = direction == 2 || direction == 3;
    if (bytes && ((to_device && !in_arena(to)) || (from_device && !in_arena(from)))) return failed(INVALID_VALUE);
    if (!reachable(to, last * to_pitch + bytes) || !reachable(from, last * from_pitch + bytes)) {
        fprintf(stderr, "tcsim: a copy of %zu bytes from %p to %p leaves its allocation\n", last * to_pitch + bytes, from, to);
        return failed(INVALID_VALUE);
    }
    // After a launch that failed, what the program reads is what the launch has left: poison, with the error.
    if (Error error = stuck()) {
        if (direction != TO_HOST && !(in_arena(from) && !in_arena(to))) return error;
    }
    for (size_t row = 0; row < rows; row++)
        memmove(static_cast<char *>(to) + row * to_pitch, static_cast<const char *>(from) + row * from_pitch, width);
    return stuck();
}

Error set(void *to, size_t pitch, int value, size_t width, size_t rows) {
    UNLESS_STUCK
    if (!rows || !width) return SUCCESS;
    if (!to || !in_arena(to) || !reachable(to, (rows - 1) * pitch + width)) return failed(INVALID_VALUE);
    for (size_t row = 0; row < rows; row++) memset(static_cast<char *>(to) + row * pitch, value, width);
    return SUCCESS;
}

const Allocation *allocation_of(const void *address, uint64_t *start) {
    auto found = live.upper_bound(reinterpret_cast<uint64_t>(address));
    if (found == live.begin()) return nullptr;
    --found;
    *start = found->first;
    return reinterpret_cast<uint64_t>(address) < found->first + found->second.bytes ? &found->second : nullptr;
}

}  // namespace tcsim

using namespace tcsim;

API Error cudaMalloc(void **pointer, size_t bytes) { return allocate(pointer, bytes, DEVICE_MEMORY); }
API Error cudaMallocAsync(void **pointer, size_t bytes, Stream) { return allocate(pointer, bytes, DEVICE_MEMORY); }
API Error cudaMallocManaged(void **pointer, size_t bytes, unsigned) { return allocate(pointer, bytes, MANAGED_MEMORY); }
API Error cudaMallocHost(void **pointer, size_t bytes) { return allocate(pointer, bytes, HOST_MEMORY); }
API Error cudaHostAlloc(void **pointer, size_t bytes, unsigned) { return allocate(pointer, bytes, HOST_MEMORY); }

API Error cudaMallocPitch(void **pointer, size_t *pitch, size_t width, size_t rows) {
    if (!pitch) return failed(INVALID_VALUE);
    *pitch = (width + PITCH - 1) / PITCH * PITCH;
    return allocate(pointer, *pitch * rows, DEVICE_MEMORY);
}

API Error cudaFree(void *pointer) { return release(pointer); }
API Error cudaFreeAsync(void *pointer, Stream) { return release(pointer); }
API Error cudaFreeHost(void *pointer) { return release(pointer); }

API Error cudaHostGetDevicePointer(void **pointer, void *host, unsigned) {
    if (!in_arena(host)) {
        fprintf(stderr, "tcsim: kernels do not reach memory of the program at %p; legal: cudaHostAlloc\n", host);
        return failed(INVALID_VALUE);
    }
    *pointer = host;
    return stuck();
}

API Error cudaMemcpy(void *to, const void *from, size_t bytes, int direction) {
    return copy(to, 0, from, 0, bytes, 1, direction);
}
API Error cudaMemcpyAsync(void *to, const void *from, size_t bytes, int direction, Stream) {
    return copy(to, 0, from, 0, bytes, 1, direction);
}
API Error cudaMemcpyPeer(void *to, int, const void *from, int, size_t bytes) { return copy(to, 0, from, 0, bytes, 1, 3); }
API Error cudaMemcpy2D(void *to, size_t pitch, const void *from, size_t from_pitch, size_t width, size_t rows, int kind) {
    return copy(to, pitch, from, from_pitch, width, rows, kind);
}
API Error cudaMemcpy2DAsync(
    void *to, size_t pitch, const void *from, size_t from_pitch, size_t width, size_t rows, int kind, Stream) {
    return copy(to, pitch, from, from_pitch, width, rows, kind);
}
API Error cudaMemset(void *to, int value, size_t bytes) { return set(to, 0, value, bytes, 1); }
API Error cudaMemsetAsync(void *to, int value, size_t bytes, Stream) { return set(to, 0, value, bytes, 1); }
API Error cudaMemset2D(void *to, size_t pitch, int value, size_t width, size_t rows) {
    return set(to, pitch, value, width, rows);
}
API Error cudaMemset2DAsync(void *to, size_t pitch, int value, size_t width, size_t rows, Stream) {
    return set(to, pitch, value, width, rows);
}

API Error cudaMemGetInfo(size_t *free, size_t *total) {
    *total = device().global_bytes;
    *free = *total - used;
    return stuck();
}

API Error cudaPointerGetAttributes(PointerAttributes *attributes, const void *pointer) {
    static const int TYPES[] = {2, 1, 3};  // cudaMemoryTypeDevice, Host, Managed
    memset(attributes, 0, sizeof *attributes);
    uint64_t start = 0;
    const Allocation *one = allocation_of(pointer, &start);
    if (!one && !in_arena(pointer)) {  // memory that CUDA does not know
        attributes->host_pointer = const_cast<void *>(pointer);
        attributes->device = -2;
        return stuck();
    }
    Kind kind = one ? one->kind : DEVICE_MEMORY;
    attributes->type = TYPES[kind];
    attributes->device_pointer = const_cast<void *>(pointer);
    attributes->host_pointer = kind == DEVICE_MEMORY ? nullptr : const_cast<void *>(pointer);
    return stuck();
}

API Error cudaMemPrefetchAsync() { return stuck(); }
API Error cudaMemAdvise() { return stuck(); }
