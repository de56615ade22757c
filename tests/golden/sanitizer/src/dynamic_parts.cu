// Dynamic shared memory cut into a table of integers and one of bytes.
extern "C" __global__ void dynamic_parts(const int *x, int *y, int n) {
  extern __shared__ int room[];
  int *table = room;                                                        // @first_part
  unsigned char *marks = reinterpret_cast<unsigned char *>(room + n);       // @second_part
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    table[i] = x[i];           // @table
    marks[i] = x[i] & 1;       // @mark
  }
  __syncthreads();             // @barrier
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    const int other = n - 1 - i;
    y[i] = marks[other] ? table[other] : -table[other];  // @use
  }
}
