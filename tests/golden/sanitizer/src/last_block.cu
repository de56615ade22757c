// The CTA that comes last adds up what all have left in global memory.
extern "C" __global__ void last_block(const int *x, int *partial, int *sum, unsigned *count) {
  __shared__ int part[64];
  __shared__ bool last;
  const int i = threadIdx.x;

  part[i] = x[blockIdx.x * 64 + i];
  __syncthreads();
  for (int step = 32; step > 0; step /= 2) {
    if (i < step) part[i] += part[i + step];
    __syncthreads();
  }
  if (i == 0) {
    partial[blockIdx.x] = part[0];                         // @partial
    __threadfence();                                       // @release
    last = atomicInc(count, gridDim.x - 1) == gridDim.x - 1;  // @ticket
    __threadfence();                                       // @acquire
  }
  __syncthreads();                                         // @barrier
  if (last) {                                              // @last
    part[i] = i < gridDim.x ? partial[i] : 0;              // @read
    __syncthreads();                                       // @filled
    if (i == 63) {
      int all = 0;
      for (int k = 0; k < 64; ++k) all += part[k];         // @add
      *sum = all;
    }
  }
}
