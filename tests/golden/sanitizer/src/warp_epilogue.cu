// Each warp turns its accumulators into rows through shared memory of its own: __syncwarp is enough.
#include "ptx.cuh"

extern "C" __global__ void warp_epilogue(const half *a, const half *b, half *c) {
  __shared__ __align__(16) half rows[4][16][40];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const half *from = a + (blockIdx.x * 4 + warp) * 16 * 16;
  unsigned fa[4], fb[2];

  for (int j = 0; j < 4; ++j)
    fa[j] = *reinterpret_cast<const unsigned *>(from + (lane / 4 + j % 2 * 8) * 16 + lane % 4 * 2 + j / 2 * 8);
#pragma unroll
  for (int n = 0; n < 4; ++n) {
    float d[4] = {};
    for (int j = 0; j < 2; ++j)
      fb[j] = *reinterpret_cast<const unsigned *>(b + (n * 8 + lane / 4) * 16 + lane % 4 * 2 + j * 8);
    MMA(d, fa, fb);
    *reinterpret_cast<half2 *>(&rows[warp][lane / 4][n * 8 + lane % 4 * 2]) = __floats2half2_rn(d[0], d[1]);      // @low
    *reinterpret_cast<half2 *>(&rows[warp][lane / 4 + 8][n * 8 + lane % 4 * 2]) = __floats2half2_rn(d[2], d[3]);  // @high
  }
  __syncwarp();                                                                              // @syncwarp
  for (int p = lane; p < 64; p += 32)
    *reinterpret_cast<int4 *>(c + ((blockIdx.x * 4 + warp) * 16 + p / 4) * 32 + p % 4 * 8) =
        *reinterpret_cast<int4 *>(&rows[warp][p / 4][p % 4 * 8]);                            // @row
}
