// Counts in shared memory by atomic operations, then in global memory.
extern "C" __global__ void histogram(const unsigned char *x, unsigned *counts, int n) {
  __shared__ unsigned bins[64];
  for (int b = threadIdx.x; b < 64; b += blockDim.x) bins[b] = 0;  // @zero
  __syncthreads();                                                 // @before
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    atomicAdd(bins + x[i] % 64, 1u);  // @count
  __syncthreads();                    // @after
  for (int b = threadIdx.x; b < 64; b += blockDim.x)
    if (bins[b]) atomicAdd(counts + b, bins[b]);  // @flush
}
