// Sparse products of a warpgroup: two buffers, the next tiles are stored while a product is in flight.
#include "ptx.cuh"

extern "C" __global__ void __launch_bounds__(128) wgmma_sparse(const int4 *a, const unsigned *e, const int4 *b, float *c,
                                                               int tiles) {
  __shared__ __align__(128) int4 sa[2][128], sb[2][32];
  const int i = threadIdx.x, lane = i % 32, warp = i / 32;
  float d[4];
#pragma unroll 1
  for (int t = 0; t < tiles; ++t) {
    sa[t % 2][i] = a[t * 128 + i];                                                    // @store_a
    if (i < 32) sb[t % 2][i] = b[t * 32 + i];                                         // @store_b
    FENCE_ASYNC();                                                                    // @proxy
    WGMMA_WAIT(0);                                                                    // @wait
    const unsigned codes = e[((t * 4 + warp) * 8 + lane / 4) * 2 + lane % 2];         // @codes
    __syncthreads();                                                                  // @full
    WGMMA_FENCE();                                                                    // @fence
    WGMMA_SP(d, DESCRIPTOR(sa[t % 2], 1024, 128), DESCRIPTOR(sb[t % 2], 128, 128), codes, t > 0);  // @mma
    WGMMA_COMMIT();                                                                   // @commit
  }
  WGMMA_WAIT(0);                                                                      // @wait_all
  float *to = c + (warp * 16 + lane / 4) * 8 + lane % 4 * 2;
  to[0] = d[0], to[1] = d[1], to[64] = d[2], to[65] = d[3];                           // @out
}
