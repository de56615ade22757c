// D[M][N] = A[M][K] * B[N][K]^T with 2:4 sparse (or dense) A: the main loop of a GEMM, cp.async -> swizzled shared memory -> ldmatrix -> mma.
//
// One kernel; build.py compiles it once for each variant:
//   TYPE 0 f16, 1 bf16, 2 s8 (accumulators f32, s32)      SPARSE 1 mma.sp::ordered_metadata, 0 mma
//   BM, BN  tile of a CTA     ROWB  bytes of K that an iteration takes of a row of B (A stores half of them if sparse)
//   WARPS_M, WARPS_N          STAGES  tiles in shared memory
//   PITCH   bytes from a row of B to the next in global memory (A: half if sparse)
//   MODE 0 everything; 1 without copies; 2 without copies and barriers; 3 copies and barriers alone
//
// Metadata lies as the lanes need it: word [K / 64 bytes of B, or 128 bytes where a register serves two steps][M / rows of a warp][lane][m16 tile].
// The loop runs `iterations` (a multiple of STAGES) and copies STAGES - 1 tiles beyond its end, so the arrays end that much later.
#include <cstdint>

#ifndef SMS_BLOCKS
#define SMS_BLOCKS 1
#endif

constexpr int WARPS = WARPS_M * WARPS_N, THREADS = 32 * WARPS;
constexpr int MT = BM / WARPS_M / 16, NT = BN / WARPS_N / 8;
constexpr int ROWA = SPARSE ? ROWB / 2 : ROWB, PITCH_A = SPARSE ? PITCH / 2 : PITCH;
constexpr int STEPS = ROWB / (SPARSE ? 64 : 32);
constexpr int REGS_B = SPARSE ? 4 : 2;
constexpr int META = !SPARSE ? 0 : TYPE == 2 ? STEPS : STEPS / 2;  // metadata registers of an m16 tile
constexpr int BYTES_A = BM * ROWA, BYTES_B = BN * ROWB, BYTES_E = META * BM * 8;
constexpr int STAGE = BYTES_A + BYTES_B + BYTES_E;
constexpr int COPIES_A = BYTES_A / 16 / THREADS, COPIES_B = BYTES_B / 16 / THREADS, SIZE_E = BYTES_E / THREADS;
static_assert(COPIES_A * THREADS * 16 == BYTES_A && COPIES_B * THREADS * 16 == BYTES_B, "whole copies");
static_assert(!SPARSE || SIZE_E == 4 || SIZE_E == 8 || SIZE_E == 16, "one copy of metadata for each thread");

// 16-byte column of a tile after the swizzle that spreads any eight rows of one column over all banks.
template <int ROW> __device__ constexpr int turned(int row) { return ROW == 64 ? row >> 1 & 3 : row & 7; }

template <int SIZE> __device__ inline void copy(uint32_t to, const char *from) {
    if constexpr (SIZE == 16) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from));
    else asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from), "n"(SIZE));
}
__device__ inline void commit() { asm volatile("cp.async.commit_group;"); }
template <int N> __device__ inline void wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N)); }

__device__ inline void ldmatrix4(uint32_t *d, uint32_t at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]) : "r"(at));
}
template <int WORDS> __device__ inline void load(uint32_t *d, uint32_t at) {
    if constexpr (WORDS == 4) asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];" : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]) : "r"(at));
    else if constexpr (WORDS == 2) asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(d[0]), "=r"(d[1]) : "r"(at));
    else asm volatile("ld.shared.b32 %0, [%1];" : "=r"(d[0]) : "r"(at));
}

#define MMA_SPARSE(OPCODE, CONSTRAINT, SELECTOR)                                                                                            \
    asm volatile("mma.sp::ordered_metadata.sync.aligned." OPCODE                                                                             \
                 " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9, %10, %11}, {%0, %1, %2, %3}, %12, " SELECTOR ";"                             \
                 : CONSTRAINT(c[0]), CONSTRAINT(c[1]), CONSTRAINT(c[2]), CONSTRAINT(c[3])                                                    \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]), "r"(e))
#define MMA_DENSE(OPCODE, CONSTRAINT)                                                                                                        \
    asm volatile("mma.sync.aligned." OPCODE " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                               \
                 : CONSTRAINT(c[0]), CONSTRAINT(c[1]), CONSTRAINT(c[2]), CONSTRAINT(c[3])                                                    \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))

#if TYPE == 2
typedef int32_t acc_t;
#else
typedef float acc_t;
#endif

template <int SELECTOR> __device__ inline void mma(acc_t *c, const uint32_t *a, const uint32_t *b, uint32_t e) {
#if SPARSE && TYPE == 2
    MMA_SPARSE("m16n8k64.row.col.s32.s8.s8.s32", "+r", "0x0");
#elif SPARSE && TYPE == 1
    if constexpr (SELECTOR == 0) MMA_SPARSE("m16n8k32.row.col.f32.bf16.bf16.f32", "+f", "0x0");
    else MMA_SPARSE("m16n8k32.row.col.f32.bf16.bf16.f32", "+f", "0x1");
#elif SPARSE
    if constexpr (SELECTOR == 0) MMA_SPARSE("m16n8k32.row.col.f32.f16.f16.f32", "+f", "0x0");
    else MMA_SPARSE("m16n8k32.row.col.f32.f16.f16.f32", "+f", "0x1");
#elif TYPE == 2
    MMA_DENSE("m16n8k32.row.col.s32.s8.s8.s32", "+r");
#elif TYPE == 1
    MMA_DENSE("m16n8k16.row.col.f32.bf16.bf16.f32", "+f");
#else
    MMA_DENSE("m16n8k16.row.col.f32.f16.f16.f32", "+f");
#endif
}

__device__ inline uint64_t clock_now() {
    uint64_t t;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(t)::"memory");
    return t;
}
__device__ inline uint64_t time_now() {
    uint64_t t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t)::"memory");
    return t;
}

struct Pointers {
    const char *a, *b, *e;
    uint32_t to_a, to_b, to_e;
};

template <int SLOT> __device__ inline void copy_tile(Pointers &p, int pitch_e) {
    constexpr int ROWS_A = THREADS * 16 / ROWA, ROWS_B = THREADS * 16 / ROWB;
#pragma unroll
    for (int i = 0; i < COPIES_A; ++i) copy<16>(p.to_a + SLOT * STAGE + i * ROWS_A * ROWA, p.a + i * ROWS_A * PITCH_A);
#pragma unroll
    for (int i = 0; i < COPIES_B; ++i) copy<16>(p.to_b + SLOT * STAGE + i * ROWS_B * ROWB, p.b + i * ROWS_B * PITCH);
    if constexpr (META > 0) copy<META ? SIZE_E : 4>(p.to_e + SLOT * STAGE, p.e);
    commit();
    p.a += ROWA;
    p.b += ROWB;
    p.e += META * pitch_e;
}

template <int STEP> __device__ inline void steps(acc_t (*c)[NT][4], const uint32_t *at_a, const uint32_t *at_b, uint32_t slot, uint32_t (*e)[MT]) {
    if constexpr (STEP < STEPS) {
        uint32_t a[MT][4], b[NT][REGS_B];
#pragma unroll
        for (int m = 0; m < MT; ++m) ldmatrix4(a[m], at_a[STEP] + slot + m * 16 * ROWA);
        if constexpr (SPARSE) {
#pragma unroll
            for (int n = 0; n < NT; ++n) ldmatrix4(b[n], at_b[STEP] + slot + n * 8 * ROWB);
        } else {
#pragma unroll
            for (int n = 0; n < NT; n += 2) ldmatrix4(b[n], at_b[STEP] + slot + n * 8 * ROWB);
        }
        constexpr int SELECTOR = TYPE == 2 ? 0 : STEP & 1;
#pragma unroll
        for (int n = 0; n < NT; ++n)
#pragma unroll
            for (int m = 0; m < MT; ++m) mma<SELECTOR>(c[m][n], a[m], b[n], SPARSE ? e[TYPE == 2 ? STEP : STEP / 2][m] : 0);
        steps<STEP + 1>(c, at_a, at_b, slot, e);
    }
}

template <int SLOT>
__device__ inline void iteration(acc_t (*c)[NT][4], const uint32_t *at_a, const uint32_t *at_b, uint32_t at_e, Pointers &p, int pitch_e) {
    if constexpr (SLOT < STAGES) {
        if constexpr (MODE == 0 || MODE == 3) wait<STAGES - 2>();
        if constexpr (MODE != 2) __syncthreads();
        if constexpr (MODE == 0 || MODE == 3) copy_tile<(SLOT + STAGES - 1) % STAGES>(p, pitch_e);
        if constexpr (MODE != 3) {
            uint32_t e[META ? META : 1][MT];
            if constexpr (SPARSE)
#pragma unroll
                for (int i = 0; i < META; ++i) load<MT>(e[i], at_e + SLOT * STAGE + i * BM * 8);
            steps<0>(c, at_a, at_b, SLOT * STAGE, e);
        }
        iteration<SLOT + 1>(c, at_a, at_b, at_e, p, pitch_e);
    }
}

template <int SLOT> __device__ inline void first_tiles(Pointers &p, int pitch_e) {
    if constexpr (SLOT < (MODE == 1 || MODE == 2 ? STAGES : STAGES - 1)) {
        copy_tile<SLOT>(p, pitch_e);
        first_tiles<SLOT + 1>(p, pitch_e);
    }
}

// clocks: [CTA][warp][4]: clock at entry, before the loop, after it, at the end; times: [CTA][4]: globaltimer at entry and end, SM, clock at the end.
extern "C" __global__ void __launch_bounds__(THREADS, SMS_BLOCKS)
gemm(const char *a, const char *b, const char *e, acc_t *d, uint64_t *clocks, uint64_t *times, int iterations, int m_rows, int n_columns, int pitch_e) {
    extern __shared__ __align__(1024) char memory[];
    const uint64_t entered = clock_now(), began = time_now();
    const int thread = threadIdx.x, lane = thread & 31, warp = thread >> 5, warp_m = warp % WARPS_M, warp_n = warp / WARPS_M;
    const uint32_t base = static_cast<uint32_t>(__cvta_generic_to_shared(memory));
    const int bm = blockIdx.y, bn = blockIdx.x;

    Pointers p;
    const int row_a = thread / (ROWA / 16), column_a = thread % (ROWA / 16), row_b = thread / (ROWB / 16), column_b = thread % (ROWB / 16);
    p.a = a + static_cast<size_t>(bm * BM + row_a) * PITCH_A + column_a * 16;
    p.b = b + static_cast<size_t>(bn * BN + row_b) * PITCH + column_b * 16;
    p.to_a = base + row_a * ROWA + ((column_a ^ turned<ROWA>(row_a)) << 4);
    p.to_b = base + BYTES_A + row_b * ROWB + ((column_b ^ turned<ROWB>(row_b)) << 4);
    if constexpr (META > 0) {
        const int byte = thread * SIZE_E;
        p.e = e + static_cast<size_t>(byte / (BM * 8)) * pitch_e + static_cast<size_t>(bm) * BM * 8 + byte % (BM * 8);
        p.to_e = base + BYTES_A + BYTES_B + byte;
    }

    uint32_t at_a[STEPS], at_b[STEPS];
    const int my_a = warp_m * MT * 16 + lane % 16;
    const int my_b = warp_n * NT * 8 + (SPARSE ? lane % 8 : lane % 8 + lane / 16 * 8), part_b = SPARSE ? lane / 8 : lane / 8 % 2;
#pragma unroll
    for (int s = 0; s < STEPS; ++s) {
        at_a[s] = base + my_a * ROWA + ((lane / 16 ^ turned<ROWA>(my_a)) << 4 ^ s << 5);
        at_b[s] = base + BYTES_A + my_b * ROWB + ((part_b ^ turned<ROWB>(my_b)) << 4 ^ s << (SPARSE ? 6 : 5));
    }
    const uint32_t at_e = base + BYTES_A + BYTES_B + (warp_m * 32 + lane) * MT * 4;

    acc_t c[MT][NT][4] = {};
    first_tiles<0>(p, pitch_e);
    if constexpr (MODE == 1 || MODE == 2) {
        wait<0>();
        __syncthreads();
    }
    const uint64_t start = clock_now();
#pragma unroll 1
    for (int i = 0; i < iterations; i += STAGES) iteration<0>(c, at_a, at_b, at_e, p, pitch_e);
    const uint64_t stop = clock_now();
    wait<0>();

    const int row = bm * BM + warp_m * MT * 16 + lane / 4, column = bn * BN + warp_n * NT * 8 + lane % 4 * 2;
#pragma unroll
    for (int m = 0; m < MT; ++m)
#pragma unroll
        for (int n = 0; n < NT; ++n) {
            acc_t *to = d + static_cast<size_t>(row + m * 16) * n_columns + column + n * 8;
            reinterpret_cast<int2 *>(to)[0] = *reinterpret_cast<int2 *>(&c[m][n][0]);
            reinterpret_cast<int2 *>(to + 8 * static_cast<size_t>(n_columns))[0] = *reinterpret_cast<int2 *>(&c[m][n][2]);
        }
    const uint64_t left = clock_now();
    const size_t cta = blockIdx.y * gridDim.x + blockIdx.x;
    if (lane == 0) {
        uint64_t *to = clocks + (cta * WARPS + warp) * 4;
        to[0] = entered, to[1] = start, to[2] = stop, to[3] = left;
    }
    if (thread == 0) {
        uint32_t sm;
        asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
        uint64_t *to = times + cta * 4;
        to[0] = began, to[1] = time_now(), to[2] = sm, to[3] = clock_now();
    }
}
