// A product of matrices by plain loads: the next tiles come through registers into the other buffers.
constexpr int T = 16;

extern "C" __global__ void double_buffer(const float *a, const float *b, float *c, int m, int n, int k) {
  __shared__ float sa[2][T][T + 1], sb[2][T][T];
  const int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * T + y, column = blockIdx.x * T + x;
  const int tiles = (k + T - 1) / T;
  float sum = 0;

  sa[0][y][x] = row < m && x < k ? a[row * k + x] : 0.f;           // @first_a
  sb[0][y][x] = column < n && y < k ? b[y * n + column] : 0.f;     // @first_b
  __syncthreads();                                                 // @first
#pragma unroll 1
  for (int t = 0; t < tiles; ++t) {                                // @loop
    const int at = (t + 1) * T, buffer = t & 1;
    const float next_a = row < m && at + x < k ? a[row * k + at + x] : 0.f;         // @load_a
    const float next_b = column < n && at + y < k ? b[(at + y) * n + column] : 0.f; // @load_b
    for (int i = 0; i < T; ++i) sum += sa[buffer][y][i] * sb[buffer][i][x];         // @product
    sa[buffer ^ 1][y][x] = next_a;                                 // @store_a
    sb[buffer ^ 1][y][x] = next_b;                                 // @store_b
    __syncthreads();                                               // @inside
  }
  if (row < m && column < n) c[row * n + column] = sum;            // @guard
}
