// What a program that nvcc compiled passes to the CUDA runtime, in our own words: the values and layouts that NVIDIA's
// documentation of the runtime API 13 gives (sections "Data types used by CUDA Runtime" and "Driver API: types").
#pragma once
#include <cstddef>
#include <cstdint>

#define API extern "C" __attribute__((visibility("default")))

namespace tcsim {

enum Error : int {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    MEMORY_ALLOCATION = 2,
    INVALID_CONFIGURATION = 9,
    INVALID_SYMBOL = 13,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_DEVICE_FUNCTION = 98,
    INITIALIZATION = 3,
    NO_KERNEL_IMAGE = 209,
    UNSUPPORTED_LIMIT = 215,
    INVALID_HANDLE = 400,
    NOT_READY = 600,
    LAUNCH_OUT_OF_RESOURCES = 701,
    LAUNCH_FAILURE = 719,
    NOT_SUPPORTED = 801,
    INVALID_CLUSTER_SIZE = 912,
};

struct Dim3 {
    unsigned x, y, z;
};

struct StreamRecord {
    unsigned flags;
};
struct EventRecord {
    bool recorded;
    double milliseconds;
};
using Stream = StreamRecord *;
using Event = EventRecord *;

// cudaMemcpyKind: both ends are addresses of this process, so that the direction matters to nobody but a reader.
enum Direction : int { TO_HOST = 2 };

struct FunctionAttributes {  // cudaFuncAttributes
    size_t shared_bytes, constant_bytes, local_bytes;
    int most_threads, registers, ptx_version, binary_version, cache_mode, most_dynamic_shared, carveout;
    int cluster_must_be_set, cluster[3], cluster_policy, nonportable_cluster_allowed, reserved[16];
};

struct LaunchAttribute {  // cudaLaunchAttribute: an identifier, and 64 bytes that mean what it says
    int identifier, padding;
    union {
        Dim3 dimensions;
        int number;
        char bytes[64];
    } value;
};
static_assert(sizeof(LaunchAttribute) == 72, "the layout of cudaLaunchAttribute");

enum LaunchAttributeName : int { COOPERATIVE = 2, CLUSTER = 4 };

struct LaunchConfiguration {  // cudaLaunchConfig_t
    Dim3 grid, block;
    size_t shared;
    Stream stream;
    LaunchAttribute *attributes;
    unsigned count;
};

struct PointerAttributes {  // cudaPointerAttributes
    int type, device;
    void *device_pointer, *host_pointer;
    long reserved[8];
};

struct DeviceProperties {  // cudaDeviceProp of CUDA 13
    char name[256];
    char uuid[16], luid[8];
    unsigned luid_mask;
    size_t global_bytes, block_shared_bytes;
    int block_registers, warp_size;
    size_t pitch;
    int block_threads, block_extent[3], grid_extent[3];
    size_t constant_bytes;
    int major, minor;
    size_t texture_alignment, texture_pitch_alignment;
    int sms, integrated, maps_host_memory;
    int textures_and_surfaces[39];
    size_t surface_alignment;
    int concurrent_kernels, ecc, pci_bus, pci_device, pci_domain, tcc, async_engines, unified_addressing;
    int bus_width, l2_bytes, persisting_l2_bytes, sm_threads, stream_priorities, global_l1, local_l1;
    size_t sm_shared_bytes;
    int sm_registers, managed_memory, multi_gpu_board, multi_gpu_group, host_atomics, pageable_access;
    int concurrent_managed_access, compute_preemption, host_pointer_for_registered, cooperative_launch;
    size_t block_shared_bytes_optin;
    int pageable_by_host_tables, direct_managed_access, sm_blocks, access_policy_window;
    size_t reserved_shared_bytes;
    int host_register, sparse_arrays, host_register_read_only, timeline_semaphores, memory_pools, gpu_direct;
    unsigned gpu_direct_flush;
    int gpu_direct_ordering;
    unsigned pool_handles;
    int deferred_mapping, ipc_events, cluster_launch, unified_function_pointers, numa_config, numa_id, mps, host_numa;
    unsigned pci_device_id, pci_subsystem_id;
    int host_numa_ipc, reserved[56];
};


static_assert(sizeof(DeviceProperties) == 1008, "the layout of cudaDeviceProp");
static_assert(sizeof(FunctionAttributes) == 144, "the layout of cudaFuncAttributes");
static_assert(sizeof(LaunchConfiguration) == 56, "the layout of cudaLaunchConfig_t");

}  // namespace tcsim
