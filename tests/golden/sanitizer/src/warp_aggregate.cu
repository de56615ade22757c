// One atomic operation for all lanes of a warp that have the same key.
extern "C" __global__ void warp_aggregate(const int *keys, int *counts, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned all = __ballot_sync(0xffffffff, i < n);
  if (i >= n) return;
  const int key = keys[i];
  const unsigned same = __match_any_sync(all, key);                                   // @match
  if (threadIdx.x % 32 == __ffs(same) - 1) atomicAdd(counts + key, __popc(same));     // @add
}
