// CTA 1 of a pair stores into CTA 0 and arrives on its mbarrier; CTA 0 waits, so that it cannot leave too early.
#include "ptx.cuh"

extern "C" __global__ void __cluster_dims__(2, 1, 1) remote_arrive(const int *x, int *y) {
  __shared__ int inbox[32];
  __shared__ __align__(8) unsigned long long full;
  const int i = threadIdx.x;
  unsigned rank, data, bar;
  CLUSTER_RANK(rank);
  if (i == 0) {
    MBAR_INIT(&full, 32);                                 // @init
    FENCE_MBAR_INIT();                                    // @init_fence
  }
  CLUSTER_ARRIVE();                                       // @entry_arrive
  CLUSTER_WAIT();                                         // @entry_wait
  if (rank == 1) {
    MAP(data, inbox + i, 0);
    MAP(bar, &full, 0);
    ST_CLUSTER(data, x[blockIdx.x * 32 + i] * 5);         // @store
    MBAR_ARRIVE_REMOTE(bar);                              // @arrive
  } else {
    MBAR_WAIT_CLUSTER(&full, 0);                          // @wait
    y[blockIdx.x / 2 * 32 + i] = inbox[31 - i];           // @load
  }
}
