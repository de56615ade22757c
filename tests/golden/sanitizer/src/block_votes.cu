// Barriers that count and vote order accesses as plain ones do.
extern "C" __global__ void block_votes(const int *x, int *y, int *votes) {
  __shared__ int part[64];
  const int i = threadIdx.x;
  part[i] = x[i];                                        // @store
  const int positive = __syncthreads_count(x[i] > 0);    // @count
  int v = part[63 - i];                                  // @load
  const int any = __syncthreads_or(v == 3);              // @or
  part[(i + 7) % 64] = v + positive;                     // @again
  const int every = __syncthreads_and(v < 100);          // @and
  y[i] = part[i ^ 1];                                    // @out
  if (i == 0) votes[0] = positive, votes[1] = any != 0, votes[2] = every != 0;
}
