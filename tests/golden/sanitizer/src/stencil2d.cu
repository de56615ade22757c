// A five-point stencil of a ragged field, with a halo in shared memory.
extern "C" __global__ void stencil2d(const float *x, float *y, int rows, int columns) {
  __shared__ float tile[10][34];
  const int row = blockIdx.y * 8 - 1, column = blockIdx.x * 32 - 1;

  for (int i = threadIdx.y * 32 + threadIdx.x; i < 340; i += 256) {  // @fill
    const int r = row + i / 34, c = column + i % 34;
    tile[i / 34][i % 34] = r >= 0 && r < rows && c >= 0 && c < columns ? x[r * columns + c] : 0.f;  // @store
  }
  __syncthreads();  // @barrier
  const int r = threadIdx.y + 1, c = threadIdx.x + 1;
  if (row + r < rows && column + c < columns)  // @guard
    y[(row + r) * columns + column + c] =
        4 * tile[r][c] - tile[r - 1][c] - tile[r + 1][c] - tile[r][c - 1] - tile[r][c + 1];  // @load
}
