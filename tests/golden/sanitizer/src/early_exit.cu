// Warps without work return before the barrier: it counts the threads that are left.
extern "C" __global__ void early_exit(const int *x, int *y, int n) {
  __shared__ int part[128];
  const int warp_first = threadIdx.x & ~31;
  if (warp_first >= n) return;  // whole warps @exit

  part[threadIdx.x] = threadIdx.x < n ? x[threadIdx.x] : 0;  // @store
  __syncthreads();                                           // @barrier
  const int rounded = (n + 31) & ~31;
  if (threadIdx.x < n) y[threadIdx.x] = part[rounded - 1 - threadIdx.x];  // @load
}
