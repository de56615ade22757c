// Two warpgroups store their tiles of A, and B together, by ordinary stores, and multiply: a proxy fence and a barrier.
#include "ptx.cuh"

extern "C" __global__ void __launch_bounds__(256) wgmma_stores(const int4 *a, const int4 *b, float *c, int tiles) {
  __shared__ __align__(128) int4 sa[2][128], sb[16];
  const int i = threadIdx.x % 128, group = threadIdx.x / 128, lane = threadIdx.x % 32, warp = i / 32;
  float d[4] = {1, 2, 3, 4};
#pragma unroll 1
  for (int t = 0; t < tiles; ++t) {
    sa[group][i] = a[(t * 2 + group) * 128 + i];                                      // @store_a
    if (threadIdx.x < 16) sb[threadIdx.x] = b[t * 16 + threadIdx.x];                  // @store_b
    FENCE_ASYNC();                                                                    // @proxy
    __syncthreads();                                                                  // @full
    WGMMA_FENCE();                                                                    // @fence
    WGMMA(d, DESCRIPTOR(sa[group], 1024, 128), DESCRIPTOR(sb, 128, 128), 1);          // @mma
    WGMMA_COMMIT();                                                                   // @commit
    WGMMA_WAIT(0);                                                                    // @wait
    __syncthreads();                                                                  // @free
  }
  float *to = c + (group * 64 + warp * 16 + lane / 4) * 8 + lane % 4 * 2;
  to[0] = d[0], to[1] = d[1], to[64] = d[2], to[65] = d[3];                           // @out
}
