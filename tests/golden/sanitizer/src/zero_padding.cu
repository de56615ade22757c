// The last tile is filled in part, and its rest with zeros: every tile is summed whole.
extern "C" __global__ void zero_padding(const float *x, float *y, int n) {
  __shared__ float tile[128];
  float sum = 0;
  for (int first = 0; first < n; first += 128) {
    const int i = first + threadIdx.x;
    tile[threadIdx.x] = i < n ? x[i] : 0.f;  // @fill
    __syncthreads();                         // @full
    for (int k = 0; k < 128; ++k) sum += tile[k] * ((k + threadIdx.x) % 3);  // @sum
    __syncthreads();                         // @empty
  }
  y[threadIdx.x] = sum;
}
