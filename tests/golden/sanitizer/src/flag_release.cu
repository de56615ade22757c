// One warp hands data to another by a flag in shared memory: release and acquire at the scope of the CTA.
extern "C" __global__ void flag_release(const int *x, int *y) {
  __shared__ int data[32];
  __shared__ unsigned flag;
  const int lane = threadIdx.x % 32;
  const unsigned at = (unsigned)__cvta_generic_to_shared(&flag);
  if (threadIdx.x == 0) flag = 0;   // @clear
  __syncthreads();                  // @begin
  if (threadIdx.x < 32) {
    data[lane] = x[lane] * 7;       // @store
    __syncwarp();                   // @stored
    if (lane == 0) asm volatile("st.release.cta.shared.u32 [%0], 1;" ::"r"(at) : "memory");  // @release
  } else {
    unsigned seen;
    do asm volatile("ld.acquire.cta.shared.u32 %0, [%1];" : "=r"(seen) : "r"(at) : "memory");  // @acquire
    while (!seen);
    y[lane] = data[31 - lane];      // @load
  }
}
