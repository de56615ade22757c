// The digits layer on Hopper: wgmma.sp by each group of four warps, A and B in shared memory. 6 CTAs of 2 groups.
// TMA brings boxes with their swizzle, an mbarrier counts the bytes, a descriptor names an operand: no thread touches
// W or X. Still in registers: the metadata, and D.
//     nvcc -arch=sm_90a -ptx -o hopper.ptx hopper.cu
#include "layer.cuh"

constexpr int BLOCK = 64;
constexpr int W_BYTES = ROWS * 128, X_BYTES = BLOCK * 128;  // rows of 128 bytes: all of stored W, half of an image

#define F8(i) "+f"(sum[i]), "+f"(sum[i + 1]), "+f"(sum[i + 2]), "+f"(sum[i + 3]), "+f"(sum[i + 4]), "+f"(sum[i + 5]), "+f"(sum[i + 6]), "+f"(sum[i + 7])
__device__ void multiply(float (&sum)[32], uint64_t a, uint64_t b, uint32_t e) {
    asm volatile("wgmma.mma_async.sp.sync.aligned.m64n64k32.f32.f16.f16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
                 "%32, %33, %34, 0, 1, 1, 1, 0, 0;" : F8(0), F8(8), F8(16), F8(24) : "l"(a), "l"(b), "r"(e));
}

extern "C" __global__ void __launch_bounds__(256) digits_hopper(const __grid_constant__ TensorMap w, const uint32_t* e, const __grid_constant__ TensorMap x, const float* bias, float* d) {
    __shared__ __align__(1024) unsigned char tiles[W_BYTES + 2 * X_BYTES];
    __shared__ __align__(8) uint64_t arrived;
    const uint32_t w_tile = shared(tiles), x_tile = w_tile + W_BYTES, barrier = shared(&arrived);
    const int thread = threadIdx.x, lane = thread % 32, first = blockIdx.x * BLOCK;

    // one thread asks for all boxes
    if (thread == 0) {
        barrier_init(barrier);
        barrier_expect(barrier, W_BYTES + 2 * X_BYTES);
        copy_box(w_tile, &w, 0, 0, barrier);
        copy_box(x_tile, &x, 0, first, barrier);
        copy_box(x_tile + X_BYTES, &x, INPUTS / 2, first, barrier);
    }
    __syncthreads();

    // 64 rows a group, 16 a warp: D starts with the bias of rows lane / 4 and lane / 4 + 8
    const int top = thread / 128 * 64, row = thread / 32 * 16 + lane / 4;
    float sum[32];
    for (int i = 0; i < 32; ++i) sum[i] = bias[row + (i & 2) * 4];
    uint32_t words[STEPS];
    for (int step = 0; step < STEPS; ++step) words[step] = metadata(e, row, step, lane % 2);

    barrier_wait(barrier);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    for (int step = 0; step < STEPS; ++step) {  // 32 bytes of stored W, 64 bytes of X
        const uint64_t a = descriptor(w_tile + top * 128 + step * 32, 0);
        const uint64_t b = descriptor(x_tile + step / 2 * X_BYTES + step % 2 * 64, 0);
        multiply(sum, a, b, words[step]);
    }
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");

    for (int i = 0; i < 32; ++i) d[(row + (i & 2) * 4) * IMAGES + first + i / 4 * 8 + lane % 4 * 2 + i % 2] = sum[i];
}
