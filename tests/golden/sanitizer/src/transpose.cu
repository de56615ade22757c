// A matrix is transposed through padded tiles of shared memory.
extern "C" __global__ void transpose(const float *x, float *y, int rows, int columns) {
  __shared__ float tile[32][33];
  const int column = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 32 + threadIdx.y;

  for (int r = 0; r < 32; r += 8)
    if (row + r < rows && column < columns) tile[threadIdx.y + r][threadIdx.x] = x[(row + r) * columns + column];  // @store
  __syncthreads();  // @barrier
  const int to = blockIdx.y * 32 + threadIdx.x, line = blockIdx.x * 32 + threadIdx.y;
  for (int r = 0; r < 32; r += 8)
    if (line + r < columns && to < rows) y[(line + r) * rows + to] = tile[threadIdx.x][threadIdx.y + r];  // @load
}
