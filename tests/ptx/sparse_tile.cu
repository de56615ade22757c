// A tile of D = A * B with A pruned 2:4: cp.async into shared memory, ldmatrix, mma.sp.
//     nvcc -arch=sm_90a -ptx -o sparse_tile.ptx sparse_tile.cu        (CUDA 13.0)
#include <cstdint>
#include <cuda_fp16.h>

__device__ uint32_t shared_address(const void* pointer) { return static_cast<uint32_t>(__cvta_generic_to_shared(pointer)); }

__device__ void copy16(void* to, const void* from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from));
}

__device__ void load4(uint32_t (&r)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(row)));
}

__device__ void multiply(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[4], uint32_t e) {
    asm volatile("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9, %10, %11}, {%0, %1, %2, %3}, %12, 0x0;"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]), "r"(e));
}

// One warp: 16 x 8 of D; A is 16 x k/2 as stored, B is 8 x k (a row for each column), e holds a word for each lane and step.
extern "C" __global__ void sparse_tile(const __half* a, const __half* b, const uint32_t* e, float* d, int steps) {
    __shared__ __align__(128) __half a_tile[16 * 16];
    __shared__ __align__(128) __half b_tile[8 * 32];
    const int lane = threadIdx.x;
    float sum[4] = {0, 0, 0, 0};
    for (int step = 0; step < steps; ++step) {
        copy16(&a_tile[lane * 8], a + (lane / 2) * steps * 16 + step * 16 + (lane % 2) * 8);
        copy16(&b_tile[lane * 8], b + (lane / 4) * steps * 32 + step * 32 + (lane % 4) * 8);
        asm volatile("cp.async.commit_group;");
        asm volatile("cp.async.wait_group 0;");
        __syncthreads();
        uint32_t a_registers[4], b_registers[4];
        load4(a_registers, &a_tile[(lane % 16) * 16 + (lane / 16) * 8]);
        load4(b_registers, &b_tile[(lane % 8) * 32 + (lane / 8) * 8]);
        multiply(sum, a_registers, b_registers, e[step * 32 + lane]);
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i) d[(lane / 4 + 8 * (i / 2)) * 8 + lane % 4 * 2 + i % 2] = sum[i];
}
