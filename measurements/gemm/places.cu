// Runs gemm.cu, with its constants, on 4096 x 4096 and prints when each CTA ran where: places.py reads it.
// A row for each CTA: SM, then the SM's clock at the CTA's first instruction, before its loop, after it, at its last instruction.
#include "gemm.cu"
#include <algorithm>
#include <cstdio>
#include <vector>

int main() {
    constexpr int m = 4096, n = 4096, ctas = (m / BM) * (n / BN), steps = PITCH / ROWB, launches = 12;
    constexpr size_t arena = 256u << 20, from_b = 64u << 20, from_e = 128u << 20;
    std::vector<unsigned> words(arena / 4), codes((32u << 20) / 4, 0x4e4e4e4e);
    unsigned seed = 1;
    for (auto &word : words) {
        seed = seed * 1664525u + 1013904223u;
        word = TYPE == 2 ? seed & 0x03030303u : (seed & 0x03ff03ffu) | 0x3c003c00u;
    }
    char *memory;
    acc_t *d;
    uint64_t *clocks, *times;
    cudaMalloc(&memory, arena);
    cudaMalloc(&d, sizeof(acc_t) * m * n);
    cudaMalloc(&clocks, size_t(ctas) * WARPS * 32);
    cudaMalloc(&times, size_t(ctas) * 32);
    cudaMemcpy(memory, words.data(), arena, cudaMemcpyHostToDevice);
    cudaMemcpy(memory + from_e, codes.data(), codes.size() * 4, cudaMemcpyHostToDevice);
    cudaFuncSetAttribute(gemm, cudaFuncAttributeMaxDynamicSharedMemorySize, STAGES * STAGE);
    std::vector<uint64_t> c(size_t(ctas) * WARPS * 4), t(size_t(ctas) * 4), best_c, best_t;
    uint64_t best = ~0ull;
    for (int launch = 0; launch < launches; ++launch) {
        gemm<<<dim3(n / BN, m / BM), THREADS, STAGES * STAGE>>>(memory, memory + from_b, memory + from_e, d, clocks, times, steps, m, n, m / 16 * 128);
        if (cudaError_t error = cudaDeviceSynchronize()) return fprintf(stderr, "%s\n", cudaGetErrorString(error)), 1;
        cudaMemcpy(c.data(), clocks, c.size() * 8, cudaMemcpyDeviceToHost);
        cudaMemcpy(t.data(), times, t.size() * 8, cudaMemcpyDeviceToHost);
        uint64_t first = ~0ull, last = 0;
        for (int cta = 0; cta < ctas; ++cta) first = std::min(first, t[cta * 4]), last = std::max(last, t[cta * 4 + 1]);
        if (last - first < best) best = last - first, best_c = c, best_t = t;
    }
    for (int cta = 0; cta < ctas; ++cta) {
        uint64_t at[4] = {~0ull, ~0ull, 0, 0};
        for (int warp = 0; warp < WARPS; ++warp)
            for (int i = 0; i < 4; ++i) {
                uint64_t x = best_c[(size_t(cta) * WARPS + warp) * 4 + i];
                at[i] = i < 2 ? std::min(at[i], x) : std::max(at[i], x);
            }
        printf("%d", int(best_t[cta * 4 + 2]));
        for (uint64_t x : at) printf(",%llu", (unsigned long long)x);
        printf("\n");
    }
}
