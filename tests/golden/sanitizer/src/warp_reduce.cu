// A sum of each warp through shared memory, with __syncwarp between the steps.
extern "C" __global__ void warp_reduce(const int *x, int *sums) {
  __shared__ int part[128];
  const int lane = threadIdx.x % 32;
  int *own = part + threadIdx.x - lane;

  own[lane] = x[blockIdx.x * 128 + threadIdx.x];  // @store
  __syncwarp();                                   // @first
  for (int step = 16; step > 0; step /= 2) {      // @loop
    int other = lane < step ? own[lane + step] : 0;  // @load
    __syncwarp();                                    // @between
    if (lane < step) own[lane] += other;             // @add
    __syncwarp();                                    // @last
  }
  if (lane == 0) sums[(blockIdx.x * 128 + threadIdx.x) / 32] = own[0];  // @out
}
