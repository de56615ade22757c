// Rows of different lengths by offsets, a warp a row, as matrices in CSR have them.
extern "C" __global__ void ragged_rows(const int *offsets, const int *columns, const float *values, const float *x,
                                       float *y, int rows) {
  const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;                                       // @guard
  float sum = 0;
  for (int i = offsets[row] + lane; i < offsets[row + 1]; i += 32)  // @row
    sum += values[i] * x[columns[i]];                            // @gather
  for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffff, sum, step);  // @shuffle
  if (lane == 0) y[row] = sum;                                   // @out
}
