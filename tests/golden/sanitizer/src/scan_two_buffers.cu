// Inclusive sums of a block after Hillis and Steele: two buffers take turns.
extern "C" __global__ void scan_two_buffers(const int *x, int *y) {
  __shared__ int sums[2][128];
  const int i = threadIdx.x, at = blockIdx.x * 128 + i;
  int from = 0;

  sums[0][i] = x[at];  // @store
  __syncthreads();     // @first
#pragma unroll 1
  for (int step = 1; step < 128; step *= 2) {
    sums[from ^ 1][i] = sums[from][i] + (i >= step ? sums[from][i - step] : 0);  // @add
    from ^= 1;                                                                   // @flip
    __syncthreads();                                                             // @inside
  }
  y[at] = sums[from][i];  // @out
}
