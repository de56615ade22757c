// Rows less their maximum, and the sum of what is left: two reductions through the same shared memory.
extern "C" __global__ void softmax_like(const float *x, float *y, float *sums, int n) {
  __shared__ float part[4];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const float *row = x + blockIdx.x * n;

  float top = -1e30f;
  for (int i = threadIdx.x; i < n; i += 128) top = fmaxf(top, row[i]);
  for (int step = 16; step > 0; step /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, step));
  if (lane == 0) part[warp] = top;                                      // @max
  __syncthreads();                                                      // @first
  top = fmaxf(fmaxf(part[0], part[1]), fmaxf(part[2], part[3]));        // @top
  __syncthreads();                                                      // @reuse
  float sum = 0;
  for (int i = threadIdx.x; i < n; i += 128) {                          // @loop
    y[blockIdx.x * n + i] = row[i] - top;                               // @store
    sum += row[i] - top;                                                // @each
  }
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffff, sum, step);
  if (lane == 0) part[warp] = sum;                                      // @sum
  __syncthreads();                                                      // @second
  if (threadIdx.x == 127) sums[blockIdx.x] = part[0] + part[1] + part[2] + part[3];  // @out
}
