// A sparse matrix product for sm_80 and later: D[M][N] = A * B + bias, A pruned 2:4 and compressed to M x K/2, B stored
// as N x K, E the metadata: for 16 rows and 64 columns 32 words, one for each lane (lanes 0 and 1 of four for the first
// 32 columns, which selector 0 picks, lanes 2 and 3 for the others, which selector 1 picks). M and N are arbitrary, K is
// a multiple of 64. BUG plants one mistake; 0 is right.
#include <cuda_fp16.h>
#ifndef BUG
#define BUG 0
#endif
constexpr int TM = 64, TN = 32, TK = 64, PA = BUG == 8 ? 64 : 80, PB = BUG == 8 ? 128 : 144, STAGE = TM * PA + TN * PB;

__device__ void copy16(unsigned to, const void *from, bool inside) {
    int bytes = inside || BUG == 5 ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
__device__ void ldmatrix(unsigned (&r)[4], unsigned from) {
    if (BUG == 10) from += 8;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(from));
}
template <int F> __device__ void mma_sp(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[4], unsigned e) {
    asm volatile("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
                 "{%8,%9,%10,%11}, {%0,%1,%2,%3}, %12, %13;"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[BUG == 2 ? 2 : 1]), "r"(a[BUG == 2 ? 1 : 2]), "r"(a[3]), "r"(b[0]), "r"(b[1]),
                   "r"(b[2]), "r"(b[3]), "r"(e), "n"(F));
}

extern "C" __global__ void __launch_bounds__(128) spmm(const __half *A, const unsigned *E, const __half *B,
                                                       const float *bias, float *D, int M, int N, int K) {
    __shared__ __align__(128) char shared[2 * STAGE];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, m0 = blockIdx.y * TM, n0 = blockIdx.x * TN;
    const unsigned base = __cvta_generic_to_shared(shared);
    auto load = [&](int stage, int k) {
        for (int i = threadIdx.x; i < TM * 4; i += 128) {
            int row = i / 4, chunk = i % 4;
            copy16(base + stage * STAGE + row * PA + chunk * 16, A + (size_t)(m0 + row) * (K / 2) + k / 2 + chunk * 8,
                   m0 + row < M);
        }
        for (int i = threadIdx.x; i < TN * 8; i += 128) {
            int row = i / 8, chunk = i % 8;
            copy16(base + stage * STAGE + TM * PA + row * PB + chunk * 16, B + (size_t)(n0 + row) * K + k + chunk * 8,
                   n0 + row < N);
        }
        asm volatile("cp.async.commit_group;");
    };
    float c[4][4];
    for (int i = 0; i < 4 && BUG != 9; i++)
        for (int j = 0; j < 4; j++) c[i][j] = 0;
    load(0, 0);
    for (int k = 0, stage = 0; k < K; k += TK, stage ^= 1) {
        if (BUG != 4) asm volatile("cp.async.wait_group 0;" ::: "memory");
        if (BUG != 3) __syncthreads();
        if (k + TK < K) load(stage ^ 1, k + TK);
        int block = (m0 + warp * 16) / 16 * (K / 64) + k / 64;
        unsigned e = E[block * 32 + (BUG == 7 ? (lane + 4) % 32 : lane)];
        if (BUG == 6) e = (e & 0x33333333u) << 2 | (e >> 2 & 0x33333333u);
        unsigned a[2][4], b[4];
        for (int half = 0; half < 2; half++)
            ldmatrix(a[half], base + stage * STAGE + (warp * 16 + lane % 16) * PA + half * 32 + lane / 16 * 16);
        for (int n = 0; n < 4; n++) {
            unsigned from = base + stage * STAGE + TM * PA + (n * 8 + lane % 8) * PB + lane / 8 * 16;
            ldmatrix(b, from);
            mma_sp<0>(c[n], a[0], b, e);
            ldmatrix(b, from + 64);
            mma_sp<BUG == 1 ? 0 : 1>(c[n], a[1], b, e);
        }
    }
    for (int n = 0; n < 4; n++)
        for (int j = 0; j < 4; j++) {
            int row = m0 + warp * 16 + lane / 4 + j / 2 * 8, column = n0 + n * 8 + lane % 4 * 2 + j % 2;
            if (row < M && column < N) D[(size_t)row * N + column] = c[n][j] + bias[column];
        }
}
