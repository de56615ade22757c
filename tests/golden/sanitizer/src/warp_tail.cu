// A block's sum whose last six steps are one warp's: loads and stores parted by __syncwarp.
extern "C" __global__ void warp_tail(const int *x, int *sums) {
  __shared__ volatile int part[128];
  const int i = threadIdx.x;

  part[i] = x[blockIdx.x * 128 + i];  // @store
  __syncthreads();                    // @barrier
  if (i < 32) {
    int sum = part[i] + part[i + 32] + part[i + 64] + part[i + 96];  // @wide
    part[i] = sum;                                                   // @own
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
      __syncwarp();                    // @before
      sum += part[(i + step) % 32];    // @load
      __syncwarp();                    // @after
      part[i] = sum;                   // @add
    }
    if (i == 0) sums[blockIdx.x] = sum;  // @out
  }
}
