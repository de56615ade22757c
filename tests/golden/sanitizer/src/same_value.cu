// Many threads store the same value to one word: whichever comes last, the word is the same.
extern "C" __global__ void same_value(const int *x, int *y, int *found) {
  __shared__ int any;
  const int i = blockIdx.x * 128 + threadIdx.x;
  if (threadIdx.x == 0) any = 0;    // @clear
  __syncthreads();                  // @cleared
  if (x[i] == 5) any = 1;           // @mark
  __syncthreads();                  // @marked
  y[i] = any ? x[i] : 0;            // @use
  if (any) *found = 1;              // @found
}
