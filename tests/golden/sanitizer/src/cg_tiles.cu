// Tiles of 16 threads after cooperative groups exchange through shared memory; the lanes of a branch elect one of them.
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

extern "C" __global__ void cg_tiles(const int *x, int *y, int *odd) {
  __shared__ int part[128];
  const auto tile = cg::tiled_partition<16>(cg::this_thread_block());
  const int i = blockIdx.x * 128 + threadIdx.x, first = threadIdx.x - tile.thread_rank();
  int v = x[i];

#pragma unroll 1
  for (int step = 1; step < 16; step *= 2) {
    part[threadIdx.x] = v;                                // @store
    tile.sync();                                          // @stored
    v += part[first + (tile.thread_rank() + step) % 16];  // @load
    tile.sync();                                          // @loaded
  }
  y[i] = v;
  if (x[i] & 1) {
    const auto group = cg::coalesced_threads();
    if (group.thread_rank() == 0) atomicAdd(odd, (int)group.size());  // @count
  }
}
