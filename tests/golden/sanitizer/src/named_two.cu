// Two warps produce, two consume, two buffers, each with a barrier of its own for full and for empty.
#include "ptx.cuh"

extern "C" __global__ void named_two(const int *x, int *y, int rounds) {
  __shared__ int buffer[2][64];
  const int i = threadIdx.x % 64;
  if (threadIdx.x >= 64) {
    for (int r = 0; r < rounds; ++r) {
      if (r > 1) BAR_SYNC(3 + r % 2, 128);             // @wait_empty
      buffer[r % 2][i] = x[r * 64 + i] * 3;            // @store
      __threadfence_block();                           // @fence
      BAR_ARRIVE(1 + r % 2, 128);                      // @full
    }
  } else {
    for (int r = 0; r < rounds; ++r) {
      BAR_SYNC(1 + r % 2, 128);                        // @wait_full
      y[r * 64 + i] = buffer[r % 2][(i + 33) % 64];    // @load
      if (r + 2 < rounds) BAR_ARRIVE(3 + r % 2, 128);  // @empty
    }
  }
}
