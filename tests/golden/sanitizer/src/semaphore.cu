// Slices of k hand their sums on by a semaphore: all threads wait in a vote, one fetches.
#include "ptx.cuh"

extern "C" __global__ void semaphore(const int *x, int *partial, int *d, unsigned *semaphores) {
  const unsigned slice = blockIdx.x, slices = gridDim.x;
  unsigned *own = semaphores + blockIdx.y, state = 0;
  const int at = blockIdx.y * 64 + threadIdx.x;
  int sum = x[slice * gridDim.y * 64 + at];

  if (threadIdx.x == 0) LD_ACQUIRE_GPU(state, own);       // @fetch
  while (__syncthreads_and(state != slice)) {             // @wait
    if (threadIdx.x == 0) LD_ACQUIRE_GPU(state, own);     // @again
  }
  if (slice > 0) sum += partial[at];                      // @read
  if (slice + 1 < slices)
    partial[at] = sum;                                    // @write
  else
    d[at] = sum;
  __syncthreads();                                        // @done
  if (threadIdx.x == 0) ST_RELEASE_GPU(own, slice + 1 == slices ? 0u : slice + 1);  // @release
}
