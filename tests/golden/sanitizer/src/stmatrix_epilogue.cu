// The accumulators of a warp go to shared memory by stmatrix; a second pass uses the same memory.
#include "ptx.cuh"

extern "C" __global__ void stmatrix_epilogue(const unsigned *x, half *c) {
  __shared__ __align__(16) half tile[2][16][24];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll 1
  for (int pass = 0; pass < 2; ++pass) {
    unsigned r[4];
    for (int j = 0; j < 4; ++j) r[j] = x[((pass * 2 + warp) * 4 + j) * 32 + lane];
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                 ::"r"(SHARED(&tile[warp][lane % 16][lane / 16 * 8])), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
                 : "memory");                                                             // @store
    __syncwarp();                                                                         // @stored
    *reinterpret_cast<int4 *>(c + ((pass * 2 + warp) * 16 + lane / 2) * 16 + lane % 2 * 8) =
        *reinterpret_cast<int4 *>(&tile[warp][lane / 2][lane % 2 * 8]);                   // @row
    __syncwarp();                                                                         // @reuse
  }
}
