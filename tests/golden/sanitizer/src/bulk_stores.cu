// Rows are made in two buffers and stored by bulk copies: a proxy fence before, wait_group.read before a buffer is reused.
#include "ptx.cuh"

extern "C" __global__ void bulk_stores(const int *x, int *y, int rows) {
  __shared__ __align__(128) int buffer[2][128];
  const int i = threadIdx.x;
#pragma unroll 1
  for (int t = 0; t < rows; ++t) {
    buffer[t % 2][127 - i] = x[t * 128 + i] + t;            // @store
    FENCE_ASYNC();                                          // @fence
    __syncthreads();                                        // @full
    if (i == 0) {
      BULK_STORE(y + t * 128, buffer[t % 2], 512);          // @copy
      BULK_COMMIT();                                        // @commit
      BULK_WAIT_READ(1);                                    // @wait
    }
    __syncthreads();                                        // @free
  }
  if (i == 0) BULK_WAIT(0);                                 // @end
}
