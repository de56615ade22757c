// One copy fills the shared memory of both CTAs of a pair, twice.
#include "ptx.cuh"

extern "C" __global__ void __cluster_dims__(2, 1, 1) multicast_rows(const int *x, int *y, int rows) {
  __shared__ __align__(128) int row[128];
  __shared__ __align__(8) unsigned long long full;
  const int i = threadIdx.x;
  unsigned rank;
  CLUSTER_RANK(rank);
  if (i == 0) {
    MBAR_INIT(&full, 1);                                            // @init
    FENCE_MBAR_INIT();                                              // @init_fence
  }
  CLUSTER_ARRIVE();                                                 // @entry_arrive
  CLUSTER_WAIT();                                                   // @entry_wait
#pragma unroll 1
  for (int t = 0; t < rows; ++t) {
    if (i == 0) {
      MBAR_EXPECT(&full, 512);                                      // @expect
      if (rank == 0) BULK_MULTICAST(row, x + t * 128, 512, &full, (unsigned short)3);  // @copy
    }
    MBAR_WAIT(&full, t % 2);                                        // @wait
    y[(t * gridDim.x + blockIdx.x) * 128 + i] = row[127 - i] + rank;  // @load
    CLUSTER_ARRIVE();                                               // @free_arrive
    CLUSTER_WAIT();                                                 // @free_wait
  }
}
