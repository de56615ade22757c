// Microbenchmarks of the way from global memory to an SM: latency and bandwidth of ld.global, st.global, cp.async and cp.async.bulk, an mbarrier's
// round. Every kernel writes for each warp its first and last clock: clocks[CTA][warp][2].
//
// Addresses of a warp: base + CTA * cta_stride + warp * warp_stride + offset, offset = (offset + advance) & mask in every round.
#include <cstdint>

struct Walk {
    uint64_t cta_stride;
    uint32_t warp_stride, advance, mask;
};

extern __shared__ __align__(1024) char memory[];
#define WALK uint64_t cta_stride, uint32_t warp_stride, uint32_t advance, uint32_t mask
#define WALKED Walk{cta_stride, warp_stride, advance, mask}

__device__ inline uint64_t clock_now() {
    uint64_t t;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(t)::"memory");
    return t;
}
__device__ inline void note(uint64_t *clocks, uint64_t start, uint64_t stop) {
    uint64_t *to = clocks + (blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32) * 2;
    if (threadIdx.x % 32 == 0) to[0] = start, to[1] = stop;
}
__device__ inline uint32_t shared_address(const void *p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }
template <int N> __device__ inline void wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N)); }

#define CHASE(NAME, OPCODE)                                                                                                                  \
    extern "C" __global__ void NAME(const char *base, uint32_t first, int rounds, uint64_t *clocks, uint32_t *sink) {                        \
        uint32_t at = first;                                                                                                                 \
        const uint64_t start = clock_now();                                                                                                  \
        _Pragma("unroll 8") for (int i = 0; i < rounds; ++i) asm volatile(OPCODE " %0, [%1];" : "=r"(at) : "l"(base + at) : "memory");       \
        if (at == 0xFFFFFFFF) *sink = at;                                                                                                    \
        note(clocks, start, clock_now());                                                                                                    \
    }
CHASE(chase_cg, "ld.global.cg.b32")
CHASE(chase_ca, "ld.global.ca.b32")

// ld.global.v4: COUNT loads a round, all waited for at its end.
template <int COUNT> __device__ inline void loads(const char *base, Walk walk, int rounds, uint64_t *clocks, uint32_t *sink) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const char *from = base + blockIdx.x * walk.cta_stride + static_cast<uint64_t>(warp) * walk.warp_stride + lane * 16;
    uint32_t offset = 0, sum = 0;
    __syncthreads();
    const uint64_t start = clock_now();
#pragma unroll 1
    for (int i = 0; i < rounds; ++i) {
        uint32_t d[COUNT][4];
#pragma unroll
        for (int n = 0; n < COUNT; ++n)
            asm volatile("ld.global.cg.v4.b32 {%0, %1, %2, %3}, [%4];"
                         : "=r"(d[n][0]), "=r"(d[n][1]), "=r"(d[n][2]), "=r"(d[n][3]) : "l"(from + offset + n * 512));
#pragma unroll
        for (int n = 0; n < COUNT; ++n) sum += d[n][0] ^ d[n][1] ^ d[n][2] ^ d[n][3];
        offset = (offset + walk.advance) & walk.mask;
    }
    if (sum == 0x12345678) *sink = sum;
    note(clocks, start, clock_now());
}
#define LOADS(C)                                                                                                                             \
    extern "C" __global__ void load_##C(const char *base, WALK, int rounds, uint64_t *clocks, uint32_t *sink) { loads<C>(base, WALKED, rounds, clocks, sink); }
LOADS(1) LOADS(2) LOADS(4) LOADS(8)

// Stores: PATTERN 0 v4, 512 bytes in one piece; 1 v2, rows of 32 bytes as the fragments of an mma lie, 16384 apart.
template <int PATTERN> __device__ inline void stores(char *base, Walk walk, int rounds, uint64_t *clocks) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    char *from = base + blockIdx.x * walk.cta_stride + static_cast<uint64_t>(warp) * walk.warp_stride +
                 (PATTERN == 0 ? lane * 16 : lane / 4 * 16384 + lane % 4 * 8);
    uint32_t offset = 0;
    __syncthreads();
    const uint64_t start = clock_now();
#pragma unroll 1
    for (int i = 0; i < rounds; ++i) {
#pragma unroll
        for (int n = 0; n < 8; ++n) {
            if constexpr (PATTERN == 0)
                asm volatile("st.global.v4.b32 [%0], {%1, %1, %1, %1};" ::"l"(from + offset + n * 512), "r"(i));
            else
                asm volatile("st.global.v2.b32 [%0], {%1, %1};" ::"l"(from + offset + n * 32), "r"(i));
        }
        offset = (offset + walk.advance) & walk.mask;
    }
    __threadfence();
    note(clocks, start, clock_now());
}
extern "C" __global__ void store_rows(char *base, WALK, int rounds, uint64_t *clocks) { stores<0>(base, WALKED, rounds, clocks); }
extern "C" __global__ void store_fragments(char *base, WALK, int rounds, uint64_t *clocks) { stores<1>(base, WALKED, rounds, clocks); }

__device__ inline void expect(uint32_t barrier, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
__device__ inline void await_phase(uint32_t barrier, uint32_t parity) {
    asm volatile("{ .reg .pred p; AGAIN: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra AGAIN; }" ::"r"(barrier), "r"(parity) : "memory");
}

// One thread keeps `depth` bulk copies of `size` bytes under way.
extern "C" __global__ void bulk(const char *base, WALK, int rounds, uint64_t *clocks, uint32_t size, uint32_t depth) {
    const Walk walk = WALKED;
        const uint32_t barriers = shared_address(memory), data = barriers + 128;
    if (threadIdx.x) return;
    for (uint32_t i = 0; i < depth; ++i) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barriers + 8 * i) : "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    const char *from = base + blockIdx.x * walk.cta_stride;
    uint32_t offset = 0, slot = 0, parity = 0;
    const uint64_t start = clock_now();
#pragma unroll 1
    for (int i = 0; i < rounds; ++i) {
        if (i >= depth) await_phase(barriers + 8 * slot, parity ^ 1);
        expect(barriers + 8 * slot, size);
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(data + slot * size),
                     "l"(from + offset), "r"(size), "r"(barriers + 8 * slot) : "memory");
        offset = (offset + walk.advance) & walk.mask;
        if (++slot == depth) slot = 0, parity ^= 1;
    }
    for (uint32_t i = 0; i < depth; ++i) {
        await_phase(barriers + 8 * slot, parity ^ 1);
        if (++slot == depth) slot = 0, parity ^= 1;
    }
    note(clocks, start, clock_now());
}

// mbarrier: each round one arrival, then the wait for the phase that it completes.
extern "C" __global__ void mbarrier_round(int rounds, uint64_t *clocks) {
        const uint32_t barrier = shared_address(memory);
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(blockDim.x / 32) : "memory");
    __syncthreads();
    const uint64_t start = clock_now();
#pragma unroll 1
    for (int i = 0; i < rounds; ++i) {
        if (threadIdx.x % 32 == 0) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
        await_phase(barrier, i & 1);
    }
    note(clocks, start, clock_now());
}

// ---- cp.async in detail. A warp's 32 accesses of SIZE bytes lie in rows of ROW bytes, 8192 apart; a round takes COUNT of them (8192 * rows apart)
// and the next round the columns that follow. Only SMs that are marked take part; their number in `active` less 1 stands for the CTA.

template <int SIZE, int CACHED> __device__ inline void copy(uint32_t to, const char *from) {
    if constexpr (CACHED) asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from), "n"(SIZE));
    else asm volatile("cp.async.cg.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from), "n"(SIZE));
}
__device__ inline int place_of(const uint8_t *active) {
    uint32_t sm;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    return static_cast<int>(active[sm]) - 1;
}
template <int SIZE, int CACHED, int ROW, int COUNT, int GROUPS>
__device__ inline void rows(const char *base, Walk walk, int rounds, uint64_t *clocks, const uint8_t *active) {
    constexpr int PER_ROW = ROW / SIZE, ROWS = 32 / PER_ROW;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, place = place_of(active);
    if (place < 0) return note(clocks, 0, 0);
    const uint32_t to = shared_address(memory) + (warp * GROUPS * COUNT * 32 + lane) * SIZE;
    const char *from = base + place * walk.cta_stride + static_cast<uint64_t>(warp) * COUNT * ROWS * 8192 + lane / PER_ROW * 8192 + lane % PER_ROW * SIZE;
    uint32_t offset = 0;
    __syncthreads();
    const uint64_t start = clock_now();
#pragma unroll 1
    for (int i = 0; i < rounds; i += GROUPS) {
#pragma unroll
        for (int g = 0; g < GROUPS; ++g) {  // a place of its own for every copy under way
            const char *here = from + offset;
#pragma unroll
            for (int n = 0; n < COUNT; ++n) copy<SIZE, CACHED>(to + (g * COUNT + n) * 32 * SIZE, here + static_cast<uint64_t>(n) * ROWS * 8192);
            asm volatile("cp.async.commit_group;");
            wait<GROUPS - 1>();
            offset = (offset + walk.advance) & walk.mask;
        }
    }
    wait<0>();
    note(clocks, start, clock_now());
}
#define ROWS(S, K, R, C, G)                                                                                                                  \
    extern "C" __global__ void rows_##S##_##K##_##R##_##C##_##G(const char *base, WALK, int rounds, uint64_t *clocks, const uint8_t *active) { \
        rows<S, K, R, C, G>(base, WALKED, rounds, clocks, active);                                                                           \
    }
#define ROWS_C(S, K, R) ROWS(S, K, R, 1, 1) ROWS(S, K, R, 4, 1) ROWS(S, K, R, 8, 1) ROWS(S, K, R, 4, 4) ROWS(S, K, R, 8, 2) ROWS(S, K, R, 8, 4)
ROWS_C(16, 0, 512) ROWS_C(16, 0, 256) ROWS_C(16, 0, 128) ROWS_C(16, 0, 64) ROWS_C(16, 0, 32) ROWS_C(16, 1, 128) ROWS_C(8, 1, 256) ROWS_C(8, 1, 128)
ROWS_C(4, 1, 128) ROWS_C(4, 1, 64)

extern "C" __global__ void nothing() {}
