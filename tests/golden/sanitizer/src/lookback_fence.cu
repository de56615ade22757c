// The sum of a CTA is handed to the next one: a value, __threadfence, a volatile flag.
extern "C" __global__ void lookback_fence(const int *x, int *y, volatile int *flags, int *prefixes) {
  __shared__ int before;
  const int total = __syncthreads_count(x[blockIdx.x * 64 + threadIdx.x]);
  if (threadIdx.x == 0) {
    int prefix = 0;
    if (blockIdx.x > 0) {
      while (flags[blockIdx.x - 1] == 0) {}  // @poll
      __threadfence();                       // @acquire
      prefix = prefixes[blockIdx.x - 1];     // @read
    }
    prefixes[blockIdx.x] = prefix + total;   // @write
    __threadfence();                         // @release
    flags[blockIdx.x] = 1;                   // @flag
    before = prefix;                         // @before
  }
  __syncthreads();                           // @known
  y[blockIdx.x * 64 + threadIdx.x] = before + total;  // @use
}
