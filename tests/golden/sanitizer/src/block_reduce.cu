// A sum of each CTA: a tree in shared memory, with __syncthreads between the steps.
extern "C" __global__ void block_reduce(const int *x, int *sums) {
  __shared__ int part[256];
  const int i = threadIdx.x;

  part[i] = x[blockIdx.x * 256 + i];  // @store
  __syncthreads();                    // @first
#pragma unroll 1
  for (int step = 128; step > 0; step /= 2) {     // @loop
    if (i < step) part[i] += part[i + step];      // @add
    __syncthreads();                              // @inside
  }
  if (i == 255) sums[blockIdx.x] = part[0];       // @out
}
