// The same with a volatile flag and __threadfence_block.
extern "C" __global__ void flag_volatile(const int *x, int *y) {
  __shared__ int data[64];
  __shared__ volatile int flag;
  const int i = threadIdx.x;
  if (i == 0) flag = 0;             // @clear
  __syncthreads();                  // @begin
  if (i < 32) {
    data[i] = x[i] + 9;             // @first
    data[i + 32] = x[i] - 9;        // @second
    __syncwarp();                   // @stored
    if (i == 0) {
      __threadfence_block();        // @release
      flag = 1;                     // @flag
    }
  } else {
    while (flag == 0) {}            // @poll
    __threadfence_block();          // @acquire
    y[i - 32] = data[63 - i];       // @load
    y[i] = data[i];                 // @load_more
  }
}
