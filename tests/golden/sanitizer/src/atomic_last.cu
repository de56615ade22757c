// The last CTA adds up: one fetch_add of libcu++ releases what a CTA left and acquires what the others left.
#include <cuda/atomic>

extern "C" __global__ void atomic_last(const int *x, int *partial, int *sum, unsigned *count) {
  __shared__ bool last;
  const int i = threadIdx.x;
  partial[blockIdx.x * 32 + i] = x[blockIdx.x * 32 + i] * 3;                    // @store
  __syncthreads();                                                              // @stored
  if (i == 0) {
    cuda::atomic_ref<unsigned, cuda::thread_scope_device> counter(*count);                  // @counter
    last = counter.fetch_add(1, cuda::std::memory_order_acq_rel) == gridDim.x - 1;  // @count
  }
  __syncthreads();                                                              // @known
  if (last) {                                                                   // @last
    int all = 0;
    for (unsigned b = 0; b < gridDim.x; ++b) all += partial[b * 32 + i];        // @load
    sum[i] = all;
  }
}
