// Two groups of warps take turns at the same shared memory: each opens the other's barrier when it is done.
#include "ptx.cuh"

extern "C" __global__ void ping_pong(const int *x, int *y, int rounds) {
  __shared__ int state[64];
  const int group = threadIdx.x / 64, i = threadIdx.x % 64;
  if (group == 0) state[i] = 0;                                 // @clear
  __syncthreads();                                              // @cleared
  if (group == 1) BAR_ARRIVE(1, 128);                           // @begin
  for (int r = 0; r < rounds; ++r) {
    BAR_SYNC(1 + group, 128);                                   // @turn
    const int other = state[i ^ 32];                            // @load
    BAR_SYNC(3 + group, 64);                                    // @loaded
    state[i] = 2 * other + x[(r * 2 + group) * 64 + i];         // @store
    if (group == 0 || r + 1 < rounds) BAR_ARRIVE(2 - group, 128);  // @hand_over
  }
  __syncthreads();                                              // @end
  if (group == 0) y[i] = state[i];                              // @out
}
