// The CTAs of a pair store into each other's shared memory: a fence and a relaxed arrival.
#include "ptx.cuh"

extern "C" __global__ void __cluster_dims__(2, 1, 1) cluster_stores(const int *x, int *y) {
  __shared__ int inbox[64];
  const int i = threadIdx.x;
  unsigned rank, there;
  CLUSTER_RANK(rank);
  inbox[i] = -1;                                          // @clear
  CLUSTER_ARRIVE();                                       // @entry_arrive
  CLUSTER_WAIT();                                         // @entry_wait
  MAP(there, inbox + 63 - i, rank ^ 1);
  ST_CLUSTER(there, x[blockIdx.x * 64 + i]);              // @store
  asm volatile("fence.acq_rel.cluster;" ::: "memory");    // @fence
  CLUSTER_ARRIVE_RELAXED();                               // @arrive
  CLUSTER_WAIT();                                         // @wait
  y[blockIdx.x * 64 + i] = inbox[i] + inbox[i ^ 1];       // @load
}
