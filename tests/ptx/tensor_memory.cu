// The instructions around one tcgen05.mma.sp: allocate Tensor Memory, bring metadata, multiply, commit, wait, load, free.
//     nvcc -arch=sm_100a -ptx -o tensor_memory.ptx tensor_memory.cu   (CUDA 13.0)
#include <cstdint>

__device__ uint32_t shared_address(const void* pointer) { return static_cast<uint32_t>(__cvta_generic_to_shared(pointer)); }

extern "C" __global__ void tensor_memory(uint64_t a, uint64_t b, uint64_t e, uint32_t description, uint32_t* d) {
    __shared__ uint32_t base;
    __shared__ __align__(8) uint64_t barrier;
    const uint32_t bar = shared_address(&barrier);
    if (threadIdx.x < 32) asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 256;" ::"r"(shared_address(&base)));
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar));
    __syncthreads();
    const uint32_t metadata = base + 128;
    if (threadIdx.x == 0) {
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        asm volatile("tcgen05.cp.cta_group::1.128x128b [%0], %1;" ::"r"(metadata), "l"(e));
        asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %5, 0;\n\t"
                     "tcgen05.mma.sp.cta_group::1.kind::f16 [%0], %1, %2, [%3], %4, p;\n\t}" ::"r"(base), "l"(a), "l"(b), "r"(metadata), "r"(description), "r"(0));
        asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(bar));
    }
    asm volatile("{\n\t.reg .pred done;\nWAIT:\n\tmbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0;\n\t@!done bra WAIT;\n\t}" ::"r"(bar));
    asm volatile("tcgen05.fence::after_thread_sync;");
    uint32_t r0, r1, r2, r3;
    asm volatile("tcgen05.ld.sync.aligned.32x32b.x4.b32 {%0, %1, %2, %3}, [%4];" : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3) : "r"(base + (threadIdx.x / 32 << 21)));
    asm volatile("tcgen05.wait::ld.sync.aligned;");
    d[threadIdx.x * 4] = r0 + r1 + r2 + r3;
    if (threadIdx.x < 32) {
        asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;");
        asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 256;" ::"r"(base));
    }
}
