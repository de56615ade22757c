// Three of four warps meet at a barrier that counts 96 threads; the fourth goes its way until all meet.
#include "ptx.cuh"

extern "C" __global__ void three_of_four(const int *x, int *y) {
  __shared__ int part[128];
  const int i = threadIdx.x;
  if (i < 96) {
    part[i] = x[i] + x[i + 32];     // @store
    BAR_SYNC(1, 96);                // @three
    const int other = part[95 - i]; // @load
    BAR_SYNC(1, 96);                // @again
    part[i] = other * 2;            // @back
  } else {
    part[i] = x[i] * 5;             // @fourth
  }
  __syncthreads();                  // @all
  y[i] = part[(i + 50) % 128];      // @out
}
