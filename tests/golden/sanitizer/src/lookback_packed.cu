// Sums over all CTAs in one pass: each looks back at its predecessors, whose state and sum are one word of 64 bits.
constexpr unsigned PART = 1, WHOLE = 2;

extern "C" __global__ void lookback_packed(const int *x, int *y, unsigned long long *states, unsigned *ticket) {
  __shared__ int warp_sums[2], before, tile;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  if (threadIdx.x == 0) tile = atomicAdd(ticket, 1u);  // @ticket
  __syncthreads();                                     // @have_tile
  const int own = x[tile * 64 + threadIdx.x];
  int sum = own;
  for (int step = 1; step < 32; step *= 2) {
    const int left = __shfl_up_sync(0xffffffff, sum, step);
    if (lane >= step) sum += left;
  }
  if (lane == 31) warp_sums[warp] = sum;  // @warp_sum
  __syncthreads();                        // @summed
  if (threadIdx.x == 0) {
    const unsigned total = warp_sums[0] + warp_sums[1];
    unsigned long long mine = ((unsigned long long)(tile ? PART : WHOLE) << 32) | total;
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(states + tile), "l"(mine) : "memory");  // @publish
    unsigned prefix = 0;
    for (int back = tile - 1; back >= 0; --back) {
      unsigned long long state;
      do {
        asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(state) : "l"(states + back) : "memory");  // @poll
      } while (state >> 32 == 0);
      prefix += (unsigned)state;
      if (state >> 32 == WHOLE) break;
    }
    mine = ((unsigned long long)WHOLE << 32) | (prefix + total);
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(states + tile), "l"(mine) : "memory");  // @whole
    before = prefix;  // @before
  }
  __syncthreads();  // @known
  y[tile * 64 + threadIdx.x] = before + sum - own + (warp ? warp_sums[0] : 0);  // @use
}
