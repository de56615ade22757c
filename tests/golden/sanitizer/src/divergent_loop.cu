// Lanes take different numbers of turns; the lanes of a turn meet by a mask that a vote gave.
extern "C" __global__ void divergent_loop(const int *turns, int *y) {
  __shared__ int row[64];
  const int lane = threadIdx.x % 32, base = threadIdx.x - lane;
  const int own = turns[blockIdx.x * 64 + threadIdx.x];
  int sum = 0;

  unsigned mask = __ballot_sync(0xffffffff, own > 0);
#pragma unroll 1
  for (int t = 0; t < own; ++t) {
    row[threadIdx.x] = lane + t;                      // @store
    __syncwarp(mask);                                 // @meet
    const unsigned below = mask & ((1u << lane) - 1);
    if (below) sum += row[base + 31 - __clz(below)];  // @load
    __syncwarp(mask);                                 // @part
    mask = __ballot_sync(mask, own > t + 1);          // @vote
  }
  y[blockIdx.x * 64 + threadIdx.x] = sum;
}
