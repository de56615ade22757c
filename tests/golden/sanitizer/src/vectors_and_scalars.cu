// Scalar stores, vector loads; then vector stores, scalar loads of the same memory.
extern "C" __global__ void vectors_and_scalars(const float *x, float *y) {
  __shared__ __align__(16) float tile[256];
  const int i = threadIdx.x;

  for (int k = 0; k < 4; ++k) tile[i + 64 * k] = x[i + 64 * k];      // @scalar
  __syncthreads();                                                   // @first
  float4 v = reinterpret_cast<float4 *>(tile)[63 - i];               // @vector
  __syncthreads();                                                   // @second
  v.x += 1, v.y += 2, v.z += 3, v.w += 4;
  reinterpret_cast<float4 *>(tile)[i] = v;                           // @back
  __syncthreads();                                                   // @third
  for (int k = 0; k < 4; ++k) y[i + 64 * k] = tile[i + 64 * k];      // @out
}
