// All CTAs of a cooperative launch meet at a counter in global memory, twice.
__device__ __forceinline__ void meet(unsigned *count, unsigned target) {
  __syncthreads();                                          // @enter
  if (threadIdx.x == 0) {
    __threadfence();                                        // @release
    atomicAdd(count, 1u);                                   // @arrive
    while (*(volatile unsigned *)count < target) {}         // @spin
    __threadfence();                                        // @acquire
  }
  __syncthreads();                                          // @leave
}

extern "C" __global__ void grid_barrier(const int *x, int *a, int *b, unsigned *count) {
  const int n = gridDim.x * blockDim.x, i = blockIdx.x * blockDim.x + threadIdx.x;
  a[i] = x[i] + 1;                       // @first
  meet(count, gridDim.x);                // @meet_one
  b[i] = a[n - 1 - i] * 2;               // @second
  meet(count, 2 * gridDim.x);            // @meet_two
  a[i] = b[(i + blockDim.x) % n] + 3;    // @third
}
