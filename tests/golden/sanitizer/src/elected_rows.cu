// Each warp makes a row, and a lane that elect.sync chooses stores it.
#include "ptx.cuh"

extern "C" __global__ void elected_rows(const int *x, int *y) {
  __shared__ __align__(128) int row[4][32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  row[warp][31 - lane] = x[blockIdx.x * 128 + threadIdx.x] * 3;   // @store
  FENCE_ASYNC();                                                  // @fence
  __syncwarp();                                                   // @stored
  int chosen;
  ELECT(chosen);                                                  // @elect
  if (chosen) {
    BULK_STORE(y + blockIdx.x * 128 + warp * 32, row[warp], 128); // @copy
    BULK_COMMIT();                                                // @commit
    BULK_WAIT_READ(0);                                            // @wait
  }
}
