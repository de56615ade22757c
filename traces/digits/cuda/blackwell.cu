// The digits layer on Blackwell: tcgen05.mma.sp by one thread, D and metadata in Tensor Memory. 2 CTAs of 4 warps,
// 192 images each. TMA and mbarriers as on Hopper; now D and the metadata have left the registers, too: a warp sees
// them only when it stores the bias and the metadata, and when it loads the sums.
//     nvcc -arch=sm_100a -ptx -o blackwell.ptx blackwell.cu
#include "layer.cuh"

constexpr int BLOCK = 192, COLUMNS = 256, METADATA = BLOCK;  // columns of Tensor Memory: D, metadata behind it
constexpr int W_BYTES = ROWS * 128, X_BYTES = BLOCK * 128;
constexpr uint64_t VERSION = 1ull << 46;
constexpr uint32_t INSTRUCTION = 1u << 2 | 1u << 4 | BLOCK / 8 << 17 | ROWS / 16 << 24;  // sparse, D f32, N, M

__device__ void multiply(uint32_t d, uint64_t a, uint64_t b, uint32_t e, uint32_t instruction) {
    asm volatile("tcgen05.mma.sp.cta_group::1.kind::f16 [%0], %1, %2, [%3], %4, 1;" ::"r"(d), "l"(a), "l"(b), "r"(e), "r"(instruction) : "memory");
}
__device__ void store(uint32_t to, uint32_t word) { asm volatile("tcgen05.st.sync.aligned.32x32b.x1.b32 [%0], {%1};" ::"r"(to), "r"(word) : "memory"); }
__device__ void load(uint32_t (&r)[8], uint32_t from) {
    asm volatile("tcgen05.ld.sync.aligned.32x32b.x8.b32 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8];\n\ttcgen05.wait::ld.sync.aligned;"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]), "=r"(r[4]), "=r"(r[5]), "=r"(r[6]), "=r"(r[7]) : "r"(from) : "memory");
}
__device__ void commit(uint32_t barrier) {
    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(barrier) : "memory");
}
__device__ void meet() {  // __syncthreads that orders Tensor Memory
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
    __syncthreads();
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
}

extern "C" __global__ void __launch_bounds__(128) digits_blackwell(const __grid_constant__ TensorMap w, const uint32_t* e, const __grid_constant__ TensorMap x, const float* bias, float* d) {
    extern __shared__ __align__(1024) unsigned char tiles[];
    __shared__ __align__(8) uint64_t arrived, done;
    __shared__ uint32_t base;
    const uint32_t w_tile = shared(tiles), x_tile = w_tile + W_BYTES, copied = shared(&arrived), multiplied = shared(&done);
    const int row = threadIdx.x, first = blockIdx.x * BLOCK;  // thread, lane of Tensor Memory and row of D are one

    if (row < 32) asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;\n\t"
                               "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;" ::"r"(shared(&base)), "n"(COLUMNS) : "memory");
    if (row == 0) {
        barrier_init(copied);
        barrier_init(multiplied);
        barrier_expect(copied, W_BYTES + 2 * X_BYTES);
        copy_box(w_tile, &w, 0, 0, copied);
        copy_box(x_tile, &x, 0, first, copied);
        copy_box(x_tile + X_BYTES, &x, INPUTS / 2, first, copied);
    }
    meet();

    // D starts with the bias; a step has a column of metadata: 16 lanes hold 16 rows,
    // lane bit 3 says which 4 chunks
    const uint32_t memory = base, mine = memory + (row / 32 * 32 << 16);
    const uint32_t start = __float_as_uint(bias[row]);
    for (int column = 0; column < BLOCK; ++column) store(mine + column, start);
    for (int step = 0; step < STEPS; ++step) {
        const uint32_t word = metadata(e, row & ~15 | row & 7, step, row >> 3 & 1);
        store(mine + METADATA + step, word);
    }
    asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");
    meet();

    if (row == 0) {
        barrier_wait(copied);
        for (int step = 0; step < STEPS; ++step) {
            const uint64_t a = descriptor(w_tile + step * 32, VERSION);
            const uint32_t half = x_tile + step / 2 * X_BYTES + step % 2 * 64;
            const uint64_t b = descriptor(half, VERSION);
            const uint32_t words = memory + METADATA + (step & ~1);  // even column
            multiply(memory, a, b, words, INSTRUCTION | step & 1);  // selector: odd
        }
        commit(multiplied);
    }
    __syncwarp();
    barrier_wait(multiplied);
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");

    for (int column = 0; column < BLOCK; column += 8) {
        uint32_t words[8];
        load(words, mine + column);
        for (int i = 0; i < 8; ++i) d[row * IMAGES + first + column + i] = __uint_as_float(words[i]);
    }
    meet();
    if (row < 32) asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(memory), "n"(COLUMNS) : "memory");
}
