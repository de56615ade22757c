// A sparse product: A is compressed 2:4, its metadata lie in global memory as lanes want them.
#include "ptx.cuh"
constexpr int K = 128, N = 32;

extern "C" __global__ void gemm_sparse(const half *a, const unsigned *e, const half *b, float *c) {
  __shared__ __align__(16) half sa[2][16][24], sb[2][32][40];
  const int i = threadIdx.x, lane = i % 32, warp = i / 32, row = blockIdx.x * 16;
  float d[4] = {};

  auto load = [&](int t) {
    if (i < 32) CP_ASYNC(&sa[t % 2][i / 2][i % 2 * 8], a + (row + i / 2) * (K / 2) + t * 16 + i % 2 * 8);   // @copy_a
    CP_ASYNC(&sb[t % 2][i / 4][i % 4 * 8], b + (t * 32 + i / 4) * N + i % 4 * 8);                           // @copy_b
    CP_COMMIT();                                                                                           // @commit
  };
  load(0);                                           // @first
#pragma unroll 1
  for (int t = 0; t < K / 32; ++t) {
    if (t + 1 < K / 32) {
      load(t + 1);                                   // @next
      CP_WAIT(1);                                    // @wait
    } else {
      CP_WAIT(0);                                    // @wait_last
    }
    __syncthreads();                                 // @full
    unsigned fa[4], fb[4];
    const unsigned codes = e[((blockIdx.x * (K / 32) + t) * 8 + lane / 4) * 2 + lane % 2];   // @codes
    LDMATRIX_X4(fa, &sa[t % 2][lane % 16][lane / 16 * 8]);                                   // @load_a
    LDMATRIX_X4_TRANS(fb, &sb[t % 2][lane][warp * 8]);                                       // @load_b
    MMA_SP(d, fa, fb, codes, 0x0);                                                           // @mma
    __syncthreads();                                                                         // @empty
  }
  float *to = c + (row + lane / 4) * N + warp * 8 + lane % 4 * 2;                            // @to
  *reinterpret_cast<float2 *>(to) = make_float2(d[0], d[1]);
  *reinterpret_cast<float2 *>(to + 8 * N) = make_float2(d[2], d[3]);
}
