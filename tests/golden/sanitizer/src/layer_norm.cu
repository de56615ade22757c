// Mean and centred rows; one warp a row, the mean broadcast by lane 0 through shared memory.
extern "C" __global__ void layer_norm(const float *x, const float *scale, float *y) {
  __shared__ float mean[4], gain[128];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const float *row = x + (blockIdx.x * 4 + warp) * 128;

  gain[threadIdx.x] = scale[threadIdx.x];  // @gain
  float sum = row[lane] + row[lane + 32] + row[lane + 64] + row[lane + 96];
  for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffff, sum, step);
  if (lane == 0) mean[warp] = sum * (1.f / 128);  // @mean
  __syncthreads();                                // @barrier
  for (int i = lane; i < 128; i += 32)
    y[(blockIdx.x * 4 + warp) * 128 + i] = (row[i] - mean[warp]) * gain[i];  // @use
}
