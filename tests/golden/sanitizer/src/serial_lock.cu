// CTAs add to the same tile in turn: a lock in global memory that counts, as quantised GEMMs have it.
#include "ptx.cuh"

extern "C" __global__ void serial_lock(const int *x, int *c, unsigned *locks) {
  const unsigned slice = blockIdx.x, tile = blockIdx.y;
  const int mine = x[(tile * gridDim.x + slice) * 128 + threadIdx.x];
  if (threadIdx.x == 0) {
    unsigned state = 0xffffffff;
    do LD_ACQUIRE_GPU(state, locks + tile);  // @acquire
    while (state != slice);
  }
  __syncthreads();                                          // @enter
  int *at = c + tile * 128 + threadIdx.x;
  *at = slice == 0 ? mine : *at * 2 + mine;                 // @update
  __syncthreads();                                          // @leave
  if (threadIdx.x == 0) {
    if (slice == gridDim.x - 1) {
      locks[tile] = 0;                                      // @reset
    } else {
      FENCE_GPU();                                          // @release
      RED_RELAXED_GPU(locks + tile, 1u);                    // @count
    }
  }
}
