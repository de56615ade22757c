// One thread of each CTA takes a lock, changes plain words of global memory, and gives it back.
extern "C" __global__ void spin_lock(const int *x, int *records, int *lock) {
  if (threadIdx.x == 0) {
    while (atomicCAS(lock, 0, 1) != 0) {}     // @take
    __threadfence();                          // @acquire
    records[0] += 1;                          // @count
    records[1] += x[blockIdx.x];              // @sum
    records[2] = max(records[2], x[blockIdx.x]);  // @max
    __threadfence();                          // @release
    atomicExch(lock, 0);                      // @give
  }
}
