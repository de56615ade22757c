// A product on tensor cores: three stages of cp.async, wait_group 1 in the loop.
#include "ptx.cuh"
constexpr int K = 96, N = 64, STAGES = 3, TILES = K / 16;

extern "C" __global__ void gemm_stages(const half *a, const half *b, float *c) {
  __shared__ __align__(16) half sa[STAGES][32][24], sb[STAGES][16][40];
  const int i = threadIdx.x, lane = i % 32, warp = i / 32, row = blockIdx.y * 32, column = blockIdx.x * 32;
  float d[2][4] = {};

  auto load = [&](int t) {
    if (i < 64)
      CP_ASYNC(&sa[t % STAGES][i / 2][i % 2 * 8], a + (row + i / 2) * K + t * 16 + i % 2 * 8);               // @copy_a
    else
      CP_ASYNC(&sb[t % STAGES][i / 4 - 16][i % 4 * 8], b + (t * 16 + i / 4 - 16) * N + column + i % 4 * 8);  // @copy_b
  };
  for (int t = 0; t < STAGES - 1; ++t) {
    load(t);        // @prologue
    CP_COMMIT();    // @commit_first
  }
#pragma unroll 1
  for (int t = 0; t < TILES; ++t) {
    CP_WAIT(STAGES - 2);                           // @wait
    __syncthreads();                               // @barrier
    if (t + STAGES - 1 < TILES) load(t + STAGES - 1);  // @next
    CP_COMMIT();                                   // @commit
    const int s = t % STAGES;                      // @stage
    unsigned fa[4], fb[4];
    LDMATRIX_X4(fa, &sa[s][warp % 2 * 16 + lane % 16][lane / 16 * 8]);                    // @load_a
    LDMATRIX_X4_TRANS(fb, &sb[s][lane % 16][warp / 2 * 16 + lane / 16 * 8]);              // @load_b
    MMA(d[0], fa, fb);                             // @mma_0
    MMA(d[1], fa, fb + 2);                         // @mma_1
  }
  float *to = c + (row + warp % 2 * 16 + lane / 4) * N + column + warp / 2 * 16 + lane % 4 * 2;  // @to
  for (int j = 0; j < 2; ++j) {
    *reinterpret_cast<float2 *>(to + j * 8) = make_float2(d[j][0], d[j][1]);              // @out_low
    *reinterpret_cast<float2 *>(to + j * 8 + 8 * N) = make_float2(d[j][2], d[j][3]);      // @out_high
  }
}
