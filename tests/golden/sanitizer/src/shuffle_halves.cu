// The halves of a warp go different ways and shuffle among themselves, then all lanes vote.
extern "C" __global__ void shuffle_halves(const int *x, int *y, unsigned *votes) {
  const int i = blockIdx.x * 64 + threadIdx.x, lane = threadIdx.x % 32;
  int v = x[i];

  if (lane < 16) {
    for (int step = 8; step > 0; step /= 2) v += __shfl_xor_sync(0x0000ffff, v, step);  // @lower
  } else {
    for (int step = 1; step < 16; step *= 2) {
      const int left = __shfl_up_sync(0xffff0000, v, step, 16);  // @upper
      if (lane - 16 >= step) v += left;
    }
  }
  __syncwarp();
  const unsigned odd = __ballot_sync(0xffffffff, v & 1);  // @vote
  y[i] = v;
  if (lane == 0) votes[i / 32] = odd;
}
