// A sorted list of four in local memory, indexed by what is found.
extern "C" __global__ void local_arrays(const int *x, int *y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  int best[4];
  for (int k = 0; k < 4; ++k) best[k] = -1;                // @clear
#pragma unroll 1
  for (int j = 0; j < n; ++j) {                            // @loop
    const int v = x[i * n + j];
    best[v & 3] = max(best[v & 3], v >> 2);                // @local
  }
  for (int k = 0; k < 4; ++k) y[i * 4 + k] = best[k];      // @out
}
