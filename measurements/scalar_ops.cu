// lop3 of every table, bfi, fma.rn.f32 and shfl.sync.bfly on the operands of scalar_ops.py. Usage: scalar_ops INPUT OUTPUT
#include <cstdint>
#include <cstdio>
#include <vector>

template <int TABLE>
__device__ void lop3(const uint32_t* in, uint32_t* out, int i) {
    uint32_t d;
    asm volatile("lop3.b32 %0, %1, %2, %3, %4;" : "=r"(d) : "r"(in[3 * i]), "r"(in[3 * i + 1]), "r"(in[3 * i + 2]), "n"(TABLE));
    out[TABLE * TRIPLES + i] = d;
    if constexpr (TABLE % 64 < 63) lop3<TABLE + 1>(in, out, i);  // 64 at a time: compilers bound the depth of templates
}

__global__ void lop3_kernel(const uint32_t* in, uint32_t* out) {
    if (threadIdx.x >= TRIPLES) return;
    lop3<0>(in, out, threadIdx.x);
    lop3<64>(in, out, threadIdx.x);
    lop3<128>(in, out, threadIdx.x);
    lop3<192>(in, out, threadIdx.x);
}

__global__ void bfi_kernel(const uint32_t* in, uint32_t* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= BFI) return;
    asm volatile("bfi.b32 %0, %1, %2, %3, %4;" : "=r"(out[i]) : "r"(in[4 * i]), "r"(in[4 * i + 1]), "r"(in[4 * i + 2]), "r"(in[4 * i + 3]));
}

__global__ void fma_kernel(const float* in, float* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= FMA) return;
    asm volatile("fma.rn.f32 %0, %1, %2, %3;" : "=f"(out[i]) : "f"(in[3 * i]), "f"(in[3 * i + 1]), "f"(in[3 * i + 2]));
}

__global__ void shuffle_kernel(const uint32_t* values, const uint32_t* masks, const uint32_t* clamps, uint32_t* out, uint32_t* predicates) {
    int i = blockIdx.x * 32 + threadIdx.x;
    asm volatile("{ .reg .pred p; shfl.sync.bfly.b32 %0|p, %2, %3, %4, -1; selp.u32 %1, 1, 0, p; }"
                 : "=r"(out[i]), "=r"(predicates[i]) : "r"(values[i]), "r"(masks[i]), "r"(clamps[i]));
}

int main(int, char** arguments) {
    const size_t lop3s = 3 * TRIPLES, bfis = 4 * BFI, fmas = 3 * FMA, lanes = 32 * SHUFFLES;
    std::vector<uint32_t> in(lop3s + bfis + fmas + 3 * lanes), out(256 * TRIPLES + BFI + FMA + 2 * lanes);
    FILE* file = fopen(arguments[1], "rb");
    if (!file || fread(in.data(), 4, in.size(), file) != in.size()) return 1;
    fclose(file);
    uint32_t *from, *to;
    cudaMalloc(&from, 4 * in.size());
    cudaMalloc(&to, 4 * out.size());
    cudaMemcpy(from, in.data(), 4 * in.size(), cudaMemcpyHostToDevice);
    lop3_kernel<<<1, 32>>>(from, to);
    const uint32_t* next = from + lop3s;
    uint32_t* result = to + 256 * TRIPLES;
    bfi_kernel<<<(BFI + 127) / 128, 128>>>(next, result);
    fma_kernel<<<(FMA + 127) / 128, 128>>>((const float*)(next + bfis), (float*)(result + BFI));
    next += bfis + fmas;
    result += BFI + FMA;
    shuffle_kernel<<<SHUFFLES, 32>>>(next, next + lanes, next + 2 * lanes, result, result + lanes);
    cudaMemcpy(out.data(), to, 4 * out.size(), cudaMemcpyDeviceToHost);
    if (cudaError_t error = cudaDeviceSynchronize(); error != cudaSuccess) {
        fprintf(stderr, "%s\n", cudaGetErrorString(error));
        return 1;
    }
    file = fopen(arguments[2], "wb");
    if (!file || fwrite(out.data(), 4, out.size(), file) != out.size()) return 1;
    return fclose(file);
}
