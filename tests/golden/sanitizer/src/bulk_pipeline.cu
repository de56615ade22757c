// One thread copies rows of 512 bytes to two stages; four warps read them: mbarriers for full and for empty stages.
#include "ptx.cuh"
constexpr int STAGES = 2;

extern "C" __global__ void bulk_pipeline(const int *x, int *y, int rows) {
  __shared__ __align__(128) int stage[STAGES][128];
  __shared__ __align__(8) unsigned long long full[STAGES], empty[STAGES];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;

  if (threadIdx.x == 0) {
    for (int s = 0; s < STAGES; ++s) {
      MBAR_INIT(full + s, 1);                               // @init_full
      MBAR_INIT(empty + s, 4);                              // @init_empty
    }
    FENCE_ASYNC();                                          // @init_fence
  }
  __syncthreads();                                          // @ready
  if (warp == 4) {
    if (lane == 0) {
      for (int t = 0; t < rows; ++t) {
        const int s = t % STAGES;
        if (t >= STAGES) MBAR_WAIT(empty + s, (t / STAGES - 1) % 2);  // @wait_empty
        MBAR_EXPECT(full + s, 512);                         // @expect
        BULK_LOAD(stage[s], x + t * 128, 512, full + s);    // @copy
      }
    }
  } else {
    for (int t = 0; t < rows; ++t) {
      const int s = t % STAGES;
      MBAR_WAIT(full + s, t / STAGES % 2);                  // @wait_full
      y[t * 128 + threadIdx.x] = stage[s][127 - threadIdx.x] * 2;  // @load
      __syncwarp();                                         // @together
      if (lane == 0) MBAR_ARRIVE(empty + s);                // @arrive
    }
  }
}
