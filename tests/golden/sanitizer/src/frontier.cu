// Threads push what they find to a queue in shared memory, by slots from an atomic operation; then all share the queue.
extern "C" __global__ void frontier(const int *starts, const int *edges, int *depth, int *pushed) {
  __shared__ int queue[256], tail;
  if (threadIdx.x == 0) tail = 0;                                            // @clear
  __syncthreads();                                                           // @cleared
  for (int e = starts[threadIdx.x]; e < starts[threadIdx.x + 1]; ++e)
    if (edges[e] % 3 != 0) queue[atomicAdd(&tail, 1)] = edges[e];            // @push
  __syncthreads();                                                           // @pushed
  for (int k = threadIdx.x; k < tail; k += blockDim.x) depth[queue[k]] = 1;  // @pop
  if (threadIdx.x == 0) *pushed = tail;                                      // @tail
}
