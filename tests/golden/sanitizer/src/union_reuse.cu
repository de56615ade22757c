// The same shared memory is integers, then, behind a barrier, floats.
extern "C" __global__ void union_reuse(const int *x, float *y, int *z) {
  __shared__ union {
    int counts[128];
    float values[128];
  } both;
  const int i = threadIdx.x;

  both.counts[i] = x[blockIdx.x * 128 + i];                // @first
  __syncthreads();                                         // @one
  const int mine = both.counts[127 - i] + both.counts[i ^ 32];  // @read
  __syncthreads();                                         // @two
  both.values[(i * 5) % 128] = 0.5f * mine;                // @second
  __syncthreads();                                         // @three
  y[blockIdx.x * 128 + i] = both.values[i];                // @out
  z[blockIdx.x * 128 + i] = mine;
}
