// A warpgroup multiplies what a thread of another one copies: three stages, one product in flight.
#include "ptx.cuh"
constexpr int STAGES = 3, TILE_A = 2048, TILE_B = 256;

// 96 registers a thread at the start: 56 of each of 128 producers go to 128 consumers.
extern "C" __global__ void __maxnreg__(96) wgmma_pipeline(const half *a, const half *b, float *c, int tiles) {
  __shared__ __align__(128) unsigned char sa[STAGES][TILE_A], sb[STAGES][TILE_B];
  __shared__ __align__(8) unsigned long long full[STAGES], empty[STAGES];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;

  if (threadIdx.x == 0) {
    for (int s = 0; s < STAGES; ++s) {
      MBAR_INIT(full + s, 1);                                            // @init_full
      MBAR_INIT(empty + s, 4);                                           // @init_empty
    }
    FENCE_MBAR_INIT();                                                   // @init_fence
  }
  __syncthreads();                                                       // @ready
  if (warp >= 4) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (warp == 4) {
      int chosen;
      ELECT(chosen);
      if (chosen) {
        for (int t = 0; t < tiles; ++t) {
          const int s = t % STAGES;
          if (t >= STAGES) MBAR_WAIT(empty + s, (t / STAGES - 1) % 2);   // @wait_empty
          MBAR_EXPECT(full + s, TILE_A + TILE_B);                        // @expect
          BULK_LOAD(sa[s], a + t * (TILE_A / 2), TILE_A, full + s);      // @copy_a
          BULK_LOAD(sb[s], b + t * (TILE_B / 2), TILE_B, full + s);      // @copy_b
        }
      }
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 152;");
    float d[4];
#pragma unroll 1
    for (int t = 0; t < tiles; ++t) {
      const int s = t % STAGES;
      MBAR_WAIT(full + s, t / STAGES % 2);                               // @wait_full
      WGMMA_FENCE();                                                     // @fence
      WGMMA(d, DESCRIPTOR(sa[s], 1024, 128), DESCRIPTOR(sb[s], 128, 128), t > 0);  // @mma
      WGMMA_COMMIT();                                                    // @commit
      WGMMA_WAIT(1);                                                     // @wait_one
      if (t > 0 && lane == 0) MBAR_ARRIVE(empty + (t - 1) % STAGES);     // @arrive
    }
    WGMMA_WAIT(0);                                                       // @wait_all
    float *to = c + (warp * 16 + lane / 4) * 8 + lane % 4 * 2;
    to[0] = d[0], to[1] = d[1], to[64] = d[2], to[65] = d[3];            // @out
  }
}
