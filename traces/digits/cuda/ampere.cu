// The digits layer on Ampere: mma.sp by each warp, operands in its registers. 6 CTAs of 8 warps, 64 images each.
// The programmer does all: copies 16 bytes a thread, pads rows against bank conflicts, brings each fragment to the
// lanes that must hold it, gives each thread its word of metadata, and keeps D in registers.
//     nvcc -arch=sm_80 -ptx -o ampere.ptx ampere.cu
#include "layer.cuh"

constexpr int BLOCK = 64, W_PITCH = STORED + 8, X_PITCH = INPUTS + 8;  // halves; 16 bytes of padding a row

__device__ void copy16(uint32_t to, const void* from) { asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory"); }
__device__ void fragment(uint32_t (&r)[4], uint32_t from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(from) : "memory");
}
__device__ void multiply(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[4], uint32_t e) {
    asm volatile("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9, %10, %11}, {%0, %1, %2, %3}, %12, 0x0;"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]), "r"(e));
}

extern "C" __global__ void __launch_bounds__(256) digits_ampere(const uint16_t* w, const uint32_t* e, const uint16_t* x, const float* bias, float* d) {
    __shared__ __align__(16) uint16_t w_tile[ROWS * W_PITCH], x_tile[BLOCK * X_PITCH];
    const int thread = threadIdx.x, lane = thread % 32, first = blockIdx.x * BLOCK;

    // global to shared memory, 16 bytes a thread
    for (int i = thread; i < ROWS * STORED / 8; i += 256) copy16(shared(w_tile + i / 8 * W_PITCH + i % 8 * 8), w + i * 8);
    for (int i = thread; i < BLOCK * INPUTS / 8; i += 256) copy16(shared(x_tile + i / 16 * X_PITCH + i % 16 * 8), x + first * INPUTS + i * 8);
    asm volatile("cp.async.commit_group;\n\tcp.async.wait_group 0;" ::: "memory");
    __syncthreads();

    // 16 rows a warp: fragments of W and its metadata, once
    const int top = thread / 32 * 16, row = top + lane / 4;
    uint32_t a[STEPS][4], words[STEPS];
    for (int step = 0; step < STEPS; ++step) {
        const int column = step * 16 + lane / 16 * 8;
        fragment(a[step], shared(w_tile + (top + lane % 16) * W_PITCH + column));
        words[step] = metadata(e, row, step, lane % 2);  // selector 0: lanes 0, 1 of 4
    }

    // 8 images a turn: D starts with the bias of rows lane / 4 and lane / 4 + 8
    for (int image = 0; image < BLOCK; image += 8) {
        float sum[4] = {bias[row], bias[row], bias[row + 8], bias[row + 8]};
        for (int step = 0; step < STEPS; ++step) {
            uint32_t b[4];
            const int column = step * 32 + lane / 8 * 8;
            fragment(b, shared(x_tile + (image + lane % 8) * X_PITCH + column));
            multiply(sum, a[step], b, words[step]);
        }
        float* to = d + row * IMAGES + first + image + lane % 4 * 2;
        to[0] = sum[0], to[1] = sum[1], to[8 * IMAGES] = sum[2], to[8 * IMAGES + 1] = sum[3];
    }
}
