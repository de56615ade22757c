// Exclusive sums of a block: shuffles within warps, shared memory for the sums of warps.
extern "C" __global__ void scan_warps(const int *x, int *y, int *total) {
  __shared__ int warp_sums[8];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, at = blockIdx.x * 256 + threadIdx.x;
  const int own = x[at];
  int sum = own;

#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const int left = __shfl_up_sync(0xffffffff, sum, step);
    if (lane >= step) sum += left;  // @guard
  }
  if (lane == 31) warp_sums[warp] = sum;  // @store
  __syncthreads();                        // @first
  if (warp == 0) {
    int part = lane < 8 ? warp_sums[lane] : 0;  // @load
#pragma unroll
    for (int step = 1; step < 8; step *= 2) {
      const int left = __shfl_up_sync(0xffffffff, part, step);
      if (lane >= step) part += left;
    }
    if (lane < 8) warp_sums[lane] = part;  // @back
  }
  __syncthreads();                                           // @second
  y[at] = sum - own + (warp ? warp_sums[warp - 1] : 0);      // @use
  if (threadIdx.x == 255) total[blockIdx.x] = warp_sums[7];  // @total
}
