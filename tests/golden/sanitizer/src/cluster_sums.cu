// The CTAs of a pair read each other's sums; arrival and wait are apart, and nobody leaves while the other may read.
#include "ptx.cuh"

extern "C" __global__ void __cluster_dims__(2, 1, 1) cluster_sums(const int *x, int *y) {
  __shared__ int sums[2];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, at = blockIdx.x * 64 + threadIdx.x;
  unsigned rank, there;
  CLUSTER_RANK(rank);
  int sum = x[at];
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffff, sum, step);
  if (lane == 0) sums[warp] = sum;                 // @store
  CLUSTER_ARRIVE();                                // @arrive
  const int own = x[at] * 2;
  CLUSTER_WAIT();                                  // @wait
  int first, second;
  MAP(there, sums, rank ^ 1);
  LD_CLUSTER(first, there);                        // @first
  LD_CLUSTER(second, there + 4);                   // @second
  y[at] = own + first + second + sums[warp ^ 1];   // @use
  CLUSTER_ARRIVE();                                // @last_arrive
  CLUSTER_WAIT();                                  // @last_wait
}
