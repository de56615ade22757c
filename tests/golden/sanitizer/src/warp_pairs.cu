// Each pair of warps has a barrier of its own.
#include "ptx.cuh"

extern "C" __global__ void warp_pairs(const int *x, int *y) {
  __shared__ int part[4][64];
  const int pair = threadIdx.x / 64, i = threadIdx.x % 64;
  int v = x[blockIdx.x * 256 + threadIdx.x];
#pragma unroll 1
  for (int turn = 0; turn <= pair; ++turn) {
    part[pair][i] = v;              // @store
    BAR_SYNC(1 + pair, 64);         // @first
    v += part[pair][63 - i];        // @load
    BAR_SYNC(1 + pair, 64);         // @second
  }
  y[blockIdx.x * 256 + threadIdx.x] = v;
}
