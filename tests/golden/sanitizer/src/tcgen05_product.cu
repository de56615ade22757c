// A product in Tensor Memory: commit and an mbarrier, fences around the barriers, loads and their wait.
#include "ptx.cuh"
constexpr unsigned IDESC = 1u << 4 | 16u / 8 << 17 | 128u / 16 << 24;

extern "C" __global__ void __launch_bounds__(128) tcgen05_product(const int4 *a, const int4 *b, float *c, int tiles) {
  __shared__ __align__(128) int4 sa[256], sb[32];
  __shared__ __align__(8) unsigned long long done;
  __shared__ unsigned slot;
  const int i = threadIdx.x, warp = i / 32;

  if (warp == 0) TCGEN_ALLOC(&slot, 32);                                              // @alloc
  if (i == 0) {
    MBAR_INIT(&done, 1);                                                              // @init
    FENCE_MBAR_INIT();                                                                // @init_fence
  }
  TCGEN_BEFORE();                                                                     // @alloc_before
  __syncthreads();                                                                    // @ready
  TCGEN_AFTER();                                                                      // @alloc_after
  const unsigned tmem = slot;                                                         // @slot
#pragma unroll 1
  for (int t = 0; t < tiles; ++t) {
    sa[i] = a[t * 256 + i], sa[i + 128] = a[t * 256 + i + 128];                       // @store_a
    if (i < 32) sb[i] = b[t * 32 + i];                                                // @store_b
    FENCE_ASYNC();                                                                    // @proxy
    __syncthreads();                                                                  // @full
    if (i == 0) {
      TCGEN_MMA(tmem, DESCRIPTOR(sa, 2048, 128) | 1ull << 46, DESCRIPTOR(sb, 256, 128) | 1ull << 46, IDESC, t > 0);  // @mma
      TCGEN_COMMIT(&done);                                                            // @commit
    }
    MBAR_WAIT(&done, t % 2);                                                          // @wait
  }
  __syncwarp();
  TCGEN_AFTER();                                                                      // @after
  unsigned r[16];
  TCGEN_LD_X8(r, tmem + (warp * 32 << 16));                                           // @ld
  TCGEN_LD_X8(r + 8, tmem + (warp * 32 << 16) + 8);                                   // @ld_more
  TCGEN_WAIT_LD();                                                                    // @wait_ld
  for (int j = 0; j < 16; ++j) c[i * 16 + j] = __uint_as_float(r[j]);                 // @out
  TCGEN_BEFORE();                                                                     // @before
  __syncthreads();                                                                    // @end
  if (warp == 0) {
    TCGEN_AFTER();                                                                    // @free_after
    TCGEN_DEALLOC(tmem, 32);                                                          // @dealloc
  }
}
