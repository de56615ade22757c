// A product whose tiles are swizzled: lines of 128 bytes, whose 16-byte parts change places by the row.
#include "ptx.cuh"
constexpr int K = 128, N = 64;

extern "C" __global__ void gemm_swizzle(const half *a, const half *b, float *c) {
  __shared__ __align__(128) half sa[32 * 64], sb[64 * 64];
  const int i = threadIdx.x, lane = i % 32, warp = i / 32, row = blockIdx.x * 32;
  float d[4][4] = {};

#pragma unroll 1
  for (int t = 0; t < K / 64; ++t) {
    for (int p = i; p < 256; p += 128)
      *reinterpret_cast<int4 *>(sa + p / 8 * 64 + (p % 8 ^ p / 8 % 8) * 8) =                       // @store_a
          *reinterpret_cast<const int4 *>(a + (row + p / 8) * K + t * 64 + p % 8 * 8);             // @load_a
    for (int p = i; p < 512; p += 128)
      *reinterpret_cast<int4 *>(sb + p / 8 * 64 + (p % 8 ^ p / 8 % 8) * 8) =                       // @store_b
          *reinterpret_cast<const int4 *>(b + (t * 64 + p / 8) * N + p % 8 * 8);                   // @load_b
    __syncthreads();                                                                              // @full
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      unsigned fa[4], fb[4];
      const int r = warp % 2 * 16 + lane % 16, part = k * 2 + lane / 16;
      LDMATRIX_X4(fa, sa + r * 64 + (part ^ r % 8) * 8);                                          // @ldmatrix_a
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int kr = k * 16 + lane % 16, chunk = warp / 2 * 4 + j * 2 + lane / 16;
        LDMATRIX_X4_TRANS(fb, sb + kr * 64 + (chunk ^ kr % 8) * 8);                               // @ldmatrix_b
        MMA(d[2 * j], fa, fb);                                                                    // @mma_0
        MMA(d[2 * j + 1], fa, fb + 2);                                                            // @mma_1
      }
    }
    __syncthreads();                                                                              // @empty
  }
  float *to = c + (row + warp % 2 * 16 + lane / 4) * N + warp / 2 * 32 + lane % 4 * 2;
  for (int j = 0; j < 4; ++j) {
    *reinterpret_cast<float2 *>(to + j * 8) = make_float2(d[j][0], d[j][1]);
    *reinterpret_cast<float2 *>(to + j * 8 + 8 * N) = make_float2(d[j][2], d[j][3]);
  }
}
