// What the three kernels of the digits layer share: sizes, and the words of PTX that are the same on every chip.
//     D[128 outputs x 384 images] = W[128 x 128, 2:4] * X[128 x 384] + bias
// w: the stored half of W, f16 [128][64]; e: metadata, 32 bits for each row and 32 columns of W, 4 bits a chunk;
// x: f16 [384 images][128]; d: f32 [128][384]. nvcc 13.0 -ptx.
#pragma once
#include <cstdint>

constexpr int ROWS = 128, INPUTS = 128, STORED = 64, IMAGES = 384, STEPS = 4;  // a step: 32 columns of W

__device__ inline uint32_t shared(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

// Metadata of rows r and r + 8, 4 chunks each: what one thread of mma.sp and wgmma.sp, and one lane of Tensor Memory, holds.
__device__ inline uint32_t metadata(const uint32_t* e, int row, int step, int half) {
    const uint32_t upper = e[row * STEPS + step] >> 16 * half, lower = e[(row + 8) * STEPS + step] >> 16 * half;
    return (upper & 0xffff) | lower << 16;
}

__device__ inline void barrier_init(uint32_t barrier) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\n\tfence.mbarrier_init.release.cluster;" ::"r"(barrier) : "memory");
}
__device__ inline void barrier_expect(uint32_t barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
__device__ inline void barrier_wait(uint32_t barrier) {
    asm volatile("{\n\t.reg .pred done;\nWAIT_%=:\n\tmbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0;\n\t"
                 "@!done bra WAIT_%=;\n\t}" ::"r"(barrier) : "memory");
}
// TMA: a box of a matrix to shared memory, with its swizzle; the mbarrier counts the bytes.
__device__ inline void copy_box(uint32_t to, const void* map, int column, int row, uint32_t barrier) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                 ::"r"(to), "l"(map), "r"(column), "r"(row), "r"(barrier) : "memory");
}
// The matrix descriptor of rows of 128 bytes with swizzle 128B, 8 rows in 1024 bytes.
__device__ inline uint64_t descriptor(uint32_t address, uint64_t version) {
    return (address >> 4 & 0x3fff) | 1ull << 16 | 64ull << 32 | version | 1ull << 62;
}
struct alignas(64) TensorMap { unsigned char bytes[128]; };
