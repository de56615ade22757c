// Each kernel: D = A * B + C of one tile, by the WMMA interface
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda::wmma;
#define CASE(name, M, N, K, T, S, C, LA, LB, LC) \
extern "C" __global__ void name(const S* a, const S* b, const C* c, C* d) { \
  fragment<matrix_a, M, N, K, T, LA> fa; fragment<matrix_b, M, N, K, T, LB> fb; fragment<accumulator, M, N, K, C> fc; \
  load_matrix_sync(fa, a, 32); load_matrix_sync(fb, b, 32); load_matrix_sync(fc, c, 32, LC); \
  for (int i = 0; i < fc.num_elements; ++i) fc.x[i] = fc.x[i] + fc.x[i]; \
  mma_sync(fc, fa, fb, fc); store_matrix_sync(d, fc, 32, LC); }
CASE(f16_16_rc, 16, 16, 16, half, half, float, row_major, col_major, mem_row_major)
CASE(f16_16_cr, 16, 16, 16, half, half, float, col_major, row_major, mem_col_major)
CASE(f16_32_rr, 32, 8, 16, half, half, float, row_major, row_major, mem_row_major)
CASE(f16_8_cc, 8, 32, 16, half, half, float, col_major, col_major, mem_col_major)
CASE(f16_8_rc, 8, 32, 16, half, half, half, row_major, col_major, mem_row_major)
CASE(h16_16_rc, 16, 16, 16, half, half, half, row_major, col_major, mem_row_major)
CASE(bf_16_rr, 16, 16, 16, __nv_bfloat16, __nv_bfloat16, float, row_major, row_major, mem_row_major)
CASE(bf_8_rc, 8, 32, 16, __nv_bfloat16, __nv_bfloat16, float, row_major, col_major, mem_col_major)
CASE(tf_rc, 16, 16, 8, precision::tf32, float, float, row_major, col_major, mem_row_major)
CASE(tf_cr, 16, 16, 8, precision::tf32, float, float, col_major, row_major, mem_col_major)
CASE(s8_16_rc, 16, 16, 16, signed char, signed char, int, row_major, col_major, mem_row_major)
CASE(s8_32_cr, 32, 8, 16, signed char, signed char, int, col_major, row_major, mem_col_major)
CASE(u8_8_rc, 8, 32, 16, unsigned char, unsigned char, int, row_major, col_major, mem_row_major)
CASE(f64_rc, 8, 8, 4, double, double, double, row_major, col_major, mem_row_major)
CASE(f64_cr, 8, 8, 4, double, double, double, col_major, row_major, mem_col_major)
// A tile of shared memory, and a stride that the launch says
extern "C" __global__ void shared_tile(const half* a, const half* b, float* d, int stride) {
  __shared__ half s[2][16 * 24];
  for (int i = threadIdx.x; i < 256; i += 32) { s[0][i / 16 * 24 + i % 16] = a[i / 16 * stride + i % 16]; s[1][i / 16 * 24 + i % 16] = b[i / 16 * stride + i % 16]; }
  __syncwarp();
  fragment<matrix_a, 16, 16, 16, half, row_major> fa; fragment<matrix_b, 16, 16, 16, half, col_major> fb; fragment<accumulator, 16, 16, 16, float> fc;
  fill_fragment(fc, 0.5f); load_matrix_sync(fa, s[0], 24); load_matrix_sync(fb, s[1], 24); mma_sync(fc, fa, fb, fc); store_matrix_sync(d, fc, stride, mem_row_major);
}
