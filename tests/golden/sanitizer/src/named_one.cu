// A warp produces and a warp consumes, one buffer, named barriers by arrive and sync.
#include "ptx.cuh"
constexpr int FULL = 1, EMPTY = 2;

extern "C" __global__ void named_one(const int *x, int *y, int rounds) {
  __shared__ int buffer[32];
  const int lane = threadIdx.x % 32;
  if (threadIdx.x < 32) {
    for (int r = 0; r < rounds; ++r) {
      if (r > 0) BAR_SYNC(EMPTY, 64);          // @wait_empty
      buffer[lane] = x[r * 32 + lane];         // @store
      BAR_ARRIVE(FULL, 64);                    // @full
    }
  } else {
    for (int r = 0; r < rounds; ++r) {
      BAR_SYNC(FULL, 64);                      // @wait_full
      y[r * 32 + lane] = buffer[31 - lane];    // @load
      if (r + 1 < rounds) BAR_ARRIVE(EMPTY, 64);  // @empty
    }
  }
}
