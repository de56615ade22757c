// Sums of warps meet in an array that one warp has cleared before, whatever the number of warps.
extern "C" __global__ void warp_sums(const int *x, int *y) {
  __shared__ int sums[32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  if (warp == 0) sums[lane] = 0;              // @clear
  int sum = x[blockIdx.x * 192 + threadIdx.x];
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffff, sum, step);
  __syncthreads();                            // @cleared
  if (lane == 0) sums[warp] = sum;            // @store
  __syncthreads();                            // @stored
  int all = sums[lane];                       // @load
  for (int step = 16; step > 0; step /= 2) all += __shfl_xor_sync(0xffffffff, all, step);
  y[blockIdx.x * 192 + threadIdx.x] = all - sum;
}
