// Small kernels with asynchronous copies and products, each beside copies of it in which one wait or fence is missing.
// nvcc 13.0: nvcc -arch=sm_90a -std=c++17 -ptx asynchronous.cu -o asynchronous.ptx
#include <cstdint>

enum class Bug { NONE, WAIT, COMMIT, EXPECT, FEWER, FENCE, REUSE, REGISTERS };

__device__ uint32_t at(const void *place) { return static_cast<uint32_t>(__cvta_generic_to_shared(place)); }
__device__ void proxy_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Reverses 512 bytes by cp.async: out[i] = in[127 - i]. One warp.
template <Bug bug>
__device__ void reverse(const int *in, int *out) {
    __shared__ alignas(16) int tile[128];
    int thread = threadIdx.x;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at(tile + 4 * thread)), "l"(in + 4 * thread) : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
    if (bug != Bug::WAIT) asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
    #pragma unroll 1
    for (int i = thread; i < 128; i += 32) out[i] = tile[127 - i];
}

__device__ void wait_for(uint32_t barrier, int parity) {
    asm volatile("{\n.reg .pred done;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@done bra over;\nbra again;\nover:\n}" ::"r"(barrier), "r"(parity) : "memory");
}

// The same by a bulk copy and an mbarrier.
template <Bug bug>
__device__ void bulk_reverse(const int *in, int *out) {
    __shared__ alignas(128) int tile[128];
    __shared__ uint64_t barrier;
    int thread = threadIdx.x;
    if (thread == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\nfence.mbarrier_init.release.cluster;" ::"r"(at(&barrier)) : "memory");
        if (bug == Bug::EXPECT)
            asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at(&barrier)) : "memory");
        else
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at(&barrier)), "r"(bug == Bug::FEWER ? 256 : 512) : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 512, [%2];" ::"r"(at(tile)), "l"(in), "r"(at(&barrier)) : "memory");
    }
    __syncthreads();
    if (bug != Bug::WAIT) wait_for(at(&barrier), 0);
    #pragma unroll 1
    for (int i = thread; i < 128; i += 32) out[i] = tile[127 - i];
}

__device__ void bulk_store(int *to, const int *from) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 512;" ::"l"(to), "r"(at(from)) : "memory");
}

// out[i] = in[i] + 1, out[128 + i] = in[i] + 2, through one buffer.
template <Bug bug>
__device__ void store_twice(const int *in, int *out) {
    __shared__ alignas(128) int tile[128];
    int thread = threadIdx.x;
    #pragma unroll 1
    for (int turn = 0; turn < 2; turn++) {
        #pragma unroll 1
        for (int i = thread; i < 128; i += 32) tile[i] = in[i] + 1 + turn;
        if (bug != Bug::FENCE) proxy_fence();
        __syncthreads();
        if (thread == 0) {
            bulk_store(out + 128 * turn, tile);
            if (bug != Bug::COMMIT) asm volatile("cp.async.bulk.commit_group;" ::: "memory");
            if (bug != Bug::REUSE) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
        }
        __syncthreads();
    }
    if (thread == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

// d[64][8] = a[64][16] * b[8][16] (transposed) + 1, f16 and f32, K-major without a swizzle. Four warps.
template <Bug bug>
__device__ void product(const uint16_t *a, const uint16_t *b, float *out) {
    __shared__ alignas(128) uint16_t tile_a[64 * 16], tile_b[8 * 16];
    int thread = threadIdx.x;
    #pragma unroll 1
    for (int i = thread; i < 64 * 16; i += 128) tile_a[i / 128 * 128 + i % 16 / 8 * 64 + i / 16 % 8 * 8 + i % 8] = a[i];
    if (thread < 128) tile_b[thread % 16 / 8 * 64 + thread / 16 * 8 + thread % 8] = b[thread];
    if (bug != Bug::FENCE) proxy_fence();
    __syncthreads();
    uint64_t how = (uint64_t(128 >> 4) << 16) | (uint64_t(256 >> 4) << 32);
    uint64_t left = how | (at(tile_a) >> 4), right = how | (at(tile_b) >> 4);
    float d0 = 1, d1 = 1, d2 = 1, d3 = 1;
    asm volatile("" : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3)::"memory");
    if (bug != Bug::REGISTERS) asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
                 : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3) : "l"(left), "l"(right) : "memory");
    if (bug != Bug::COMMIT) asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    if (bug != Bug::WAIT) asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    asm volatile("" : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3)::"memory");
    int row = thread / 32 * 16 + thread % 32 / 4, column = thread % 4 * 2;
    out[row * 8 + column] = d0, out[row * 8 + column + 1] = d1;
    out[(row + 8) * 8 + column] = d2, out[(row + 8) * 8 + column + 1] = d3;
}

// Reverses by cp.async and cp.async.mbarrier.arrive.noinc.
template <Bug bug>
__device__ void arrive_reverse(const int *in, int *out) {
    __shared__ alignas(16) int tile[128];
    __shared__ uint64_t barrier;
    int thread = threadIdx.x;
    if (thread == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 32;" ::"r"(at(&barrier)) : "memory");
    __syncthreads();
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at(tile + 4 * thread)), "l"(in + 4 * thread) : "memory");
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(at(&barrier)) : "memory");
    if (bug != Bug::WAIT) wait_for(at(&barrier), 0);
    __syncthreads();
    #pragma unroll 1
    for (int i = thread; i < 128; i += 32) out[i] = tile[127 - i];
}

#define KERNEL(name, kernel, bug, type, result) \
    extern "C" __global__ void name(const type *a, const type *b, result *out) { kernel }
#define COPY(name, which, bug) KERNEL(name, which<Bug::bug>(a, out);, bug, int, int)
#define PRODUCT(name, bug) KERNEL(name, product<Bug::bug>(a, b, out);, bug, uint16_t, float)

COPY(copy, reverse, NONE)
COPY(copy_without_wait, reverse, WAIT)
COPY(arrive, arrive_reverse, NONE)
COPY(arrive_without_wait, arrive_reverse, WAIT)
COPY(bulk, bulk_reverse, NONE)
COPY(bulk_without_wait, bulk_reverse, WAIT)
COPY(bulk_without_expect, bulk_reverse, EXPECT)
COPY(bulk_with_fewer, bulk_reverse, FEWER)
COPY(store, store_twice, NONE)
COPY(store_without_fence, store_twice, FENCE)
COPY(store_without_wait, store_twice, REUSE)
COPY(store_without_commit, store_twice, COMMIT)
PRODUCT(wgmma, NONE)
PRODUCT(wgmma_without_proxy_fence, FENCE)
PRODUCT(wgmma_without_fence, REGISTERS)
PRODUCT(wgmma_without_commit, COMMIT)
PRODUCT(wgmma_without_wait, WAIT)
