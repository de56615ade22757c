// CTAs take tiles from a counter until none is left; thread 0 tells the others which.
extern "C" __global__ void work_queue(const int *x, int *y, unsigned *next, unsigned tiles) {
  __shared__ unsigned tile;
#pragma unroll 1
  while (true) {
    if (threadIdx.x == 0) tile = atomicAdd(next, 1u);      // @take
    __syncthreads();                                       // @taken
    const unsigned mine = tile;                            // @read
    __syncthreads();                                       // @reuse
    if (mine >= tiles) break;                              // @end
    y[mine * 64 + threadIdx.x] = x[mine * 64 + 63 - threadIdx.x] + mine;
  }
}
