// Stream-K: CTAs share the iterations of all tiles; who begins a tile waits for the part of who goes on with it.
#include "ptx.cuh"

extern "C" __global__ void stream_k(const int *x, int *d, int *room, unsigned *flags, int tiles, int per_tile,
                                    int per_cta) {
  const int total = tiles * per_tile;
  int at = blockIdx.x * per_cta;
  const int stop = min(at + per_cta, total);

  while (at < stop) {
    const int tile = at / per_tile, end = min(stop, (tile + 1) * per_tile);
    const bool starts = at == tile * per_tile, ends = end == (tile + 1) * per_tile;
    int sum = 0;
    for (; at < end; ++at) sum += x[at * 64 + threadIdx.x];
    if (!starts) {
      room[blockIdx.x * 64 + threadIdx.x] = sum;              // @store
      __syncthreads();                                        // @stored
      if (threadIdx.x == 0) ST_RELEASE_GPU(flags + blockIdx.x, 1u);  // @release
    } else {
      for (int peer = blockIdx.x + 1, done = end; !ends && done < (tile + 1) * per_tile; ++peer, done += per_cta) {
        if (threadIdx.x == 0) {
          unsigned ready;
          do LD_ACQUIRE_GPU(ready, flags + peer);  // @acquire
          while (!ready);
        }
        __syncthreads();                                      // @ready
        sum += room[peer * 64 + threadIdx.x];                 // @load
      }
      d[tile * 64 + threadIdx.x] = sum;                       // @out
    }
  }
}
