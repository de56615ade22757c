// Memory of three dimensions, pools, and memory of the program that is registered.
#include <cstdio>
#include <cstring>

#include "memory.h"

using namespace tcsim;

namespace {

struct Extent {  // cudaExtent: of memory that is no array, the width is in bytes
    size_t width, height, depth;
};
struct Position {
    size_t x, y, z;
};
struct Pitched {  // cudaPitchedPtr
    char *pointer;
    size_t pitch, width, height;
};
struct Copy {  // cudaMemcpy3DParms
    void *from_array;
    Position from_place;
    Pitched from;
    void *to_array;
    Position to_place;
    Pitched to;
    Extent extent;
    int direction;
};
static_assert(sizeof(Copy) == 160, "the layout of cudaMemcpy3DParms");

char *slice(const Pitched &all, const Position &place, size_t z) {
    return all.pointer + all.pitch * (all.height * (place.z + z) + place.y) + place.x;
}

Error copy_volume(const Copy *how) {
    if (!how) return failed(INVALID_VALUE);
    if (how->from_array || how->to_array) {
        fprintf(stderr, "tcsim: arrays are not supported; legal: cudaMalloc3D\n");
        return failed(NOT_SUPPORTED);
    }
    for (size_t z = 0; z < how->extent.depth; z++)
        if (Error error = copy(slice(how->to, how->to_place, z), how->to.pitch, slice(how->from, how->from_place, z),
                               how->from.pitch, how->extent.width, how->extent.height, how->direction))
            return error;
    return stuck();
}

Error set_volume(const Pitched &to, int value, const Extent &extent) {
    for (size_t z = 0; z < extent.depth; z++)
        if (Error error = set(slice(to, {0, 0, 0}, z), to.pitch, value, extent.width, extent.height)) return error;
    return stuck();
}

// A pool gives what cudaMalloc gives; its attributes are kept, and change nothing.
struct PoolRecord {
    int reuse[4] = {0, 1, 1, 1};  // attributes 1 to 3
    uint64_t threshold = 0;
};
using Pool = PoolRecord *;
PoolRecord first;
Pool current = &first;

enum PoolAttribute : int { THRESHOLD = 4, RESERVED_NOW = 5, RESERVED_MOST = 6, USED_NOW = 7, USED_MOST = 8 };

}  // namespace

API Error cudaMalloc3D(Pitched *made, Extent extent) {
    if (!made) return failed(INVALID_VALUE);
    size_t pitch = (extent.width + PITCH - 1) / PITCH * PITCH;
    void *pointer;
    Error error = allocate(&pointer, pitch * extent.height * extent.depth, DEVICE_MEMORY);
    *made = {static_cast<char *>(pointer), pitch, extent.width, extent.height};
    return error;
}
API Error cudaMemcpy3D(const Copy *how) { return copy_volume(how); }
API Error cudaMemcpy3DAsync(const Copy *how, Stream) { return copy_volume(how); }
API Error cudaMemset3D(Pitched to, int value, Extent extent) { return set_volume(to, value, extent); }
API Error cudaMemset3DAsync(Pitched to, int value, Extent extent, Stream) { return set_volume(to, value, extent); }

API Error cudaHostRegister(void *pointer, size_t bytes, unsigned) {  // copies need no registration here
    return pointer && bytes ? stuck() : failed(INVALID_VALUE);
}
API Error cudaHostUnregister(void *) { return stuck(); }
API Error cudaHostGetFlags(unsigned *flags, void *pointer) {
    *flags = 0;
    return in_arena(pointer) ? stuck() : failed(INVALID_VALUE);
}

API Error cudaDeviceGetDefaultMemPool(Pool *pool, int) {
    *pool = &first;
    return stuck();
}
API Error cudaDeviceGetMemPool(Pool *pool, int) {
    *pool = current;
    return stuck();
}
API Error cudaDeviceSetMemPool(int, Pool pool) {
    current = pool;
    return stuck();
}
API Error cudaMemPoolCreate(Pool *pool, const void *) {
    UNLESS_STUCK
    *pool = new PoolRecord;
    return SUCCESS;
}
API Error cudaMemPoolDestroy(Pool pool) {
    if (pool == &first) return failed(INVALID_VALUE);
    if (pool == current) current = &first;
    delete pool;
    return stuck();
}
API Error cudaMallocFromPoolAsync(void **pointer, size_t bytes, Pool, Stream) {
    return allocate(pointer, bytes, DEVICE_MEMORY);
}
API Error cudaMemPoolTrimTo(Pool, size_t) { return stuck(); }
API Error cudaMemPoolSetAccess(Pool, const void *, size_t) { return stuck(); }
API Error cudaMemPoolGetAccess(int *access, Pool, const void *) {
    *access = 3;  // cudaMemAccessFlagsProtReadWrite
    return stuck();
}
API Error cudaMemPoolSetAttribute(Pool pool, int attribute, void *value) {
    if (attribute >= 1 && attribute < THRESHOLD)
        memcpy(&pool->reuse[attribute], value, sizeof(int));
    else if (attribute == THRESHOLD)
        memcpy(&pool->threshold, value, sizeof pool->threshold);
    else if (attribute != RESERVED_MOST && attribute != USED_MOST)
        return failed(INVALID_VALUE);
    return stuck();
}
API Error cudaMemPoolGetAttribute(Pool pool, int attribute, void *value) {
    uint64_t number = attribute == THRESHOLD ? pool->threshold : bytes_in_use();
    if (attribute >= 1 && attribute < THRESHOLD)
        memcpy(value, &pool->reuse[attribute], sizeof(int));
    else if (attribute >= THRESHOLD && attribute <= USED_MOST)
        memcpy(value, &number, sizeof number);
    else
        return failed(INVALID_VALUE);
    return stuck();
}
