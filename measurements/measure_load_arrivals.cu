// In which order an SM serves accesses to shared memory. Some warps send six accesses each, as soon as they may, and
// read the clock whenever the next value has arrived. Usage: load_arrivals > results/load_arrivals.csv
//
//     nvcc -O3 -arch=sm_90a -o load_arrivals measure_load_arrivals.cu
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int ACCESSES = 6;  // as many as there are scoreboards, so that each has its own
enum Kind { B32, V4, X2, X4 };
const char* const NAMES[] = {"ld.shared.b32", "ld.shared.v4.b32", "ldmatrix.x2", "ldmatrix.x4"};

template <Kind KIND>
__device__ void load(uint32_t address, uint32_t (&value)[4]) {
    if (KIND == B32) asm volatile("ld.shared.b32 %0, [%1];" : "=r"(value[0]) : "r"(address) : "memory");
    if (KIND == V4)
        asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(value[0]), "=r"(value[1]), "=r"(value[2]), "=r"(value[3]) : "r"(address) : "memory");
    if (KIND == X2)
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                     : "=r"(value[0]), "=r"(value[1]) : "r"(address) : "memory");
    if (KIND == X4)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(value[0]), "=r"(value[1]), "=r"(value[2]), "=r"(value[3]) : "r"(address) : "memory");
}

// Of each warp: the clock before its first access, and after each value.
template <Kind KIND>
__global__ void kernel(int pitch, int sub_cores, uint64_t* out, uint32_t* sink) {
    extern __shared__ uint32_t shared[];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int i = threadIdx.x; i < 4096; i += blockDim.x) shared[i] = 0;
    uint32_t address = uint32_t(__cvta_generic_to_shared(shared)) + lane * pitch % 4096;
    uint64_t begin = 0, clocks[ACCESSES] = {};
    uint32_t sum = threadIdx.x;
    for (int turn = 0; turn < 4; turn++) {  // the last one counts: its code is there
        __syncthreads();
        if (!(sub_cores >> warp % 4 & 1)) continue;
        uint32_t values[ACCESSES][4];
        asm volatile("mov.u64 %0, %%clock64;" : "=l"(begin));
#pragma unroll
        for (int i = 0; i < ACCESSES; i++) load<KIND>(address + 1024 * i, values[i]);
        asm volatile("bar.warp.sync -1;" ::: "memory");  // what follows is not moved between the loads
#pragma unroll
        for (int i = 0; i < ACCESSES; i++)
            asm volatile("mad.lo.u32 %0, %0, %2, %2; mov.u64 %1, %%clock64;"
                         : "+r"(sum), "=l"(clocks[i]) : "r"(values[i][0]));
    }
    if (sum == 0x1234567) *sink = sum;
    if (lane == 0) {
        out[warp * (ACCESSES + 1)] = begin;
        for (int i = 0; i < ACCESSES; i++) out[warp * (ACCESSES + 1) + 1 + i] = clocks[i];
    }
}

template <Kind KIND>
void measure(int pitch) {
    constexpr int ROW = ACCESSES + 1;
    uint64_t* out;
    uint32_t* sink;
    cudaMalloc(&out, 32 * ROW * sizeof(*out));
    cudaMalloc(&sink, sizeof(*sink));
    struct Case { int warps, sub_cores; };
    const Case cases[] = {{4, 1}, {4, 3}, {4, 7}, {4, 15}, {5, 15}, {8, 1}, {8, 3}, {8, 15}, {12, 1}, {16, 1}};
    for (const auto [warps, sub_cores] : cases) {
        for (int launch = 0; launch < 3; launch++) {
            kernel<KIND><<<1, 32 * warps, 16384>>>(pitch, sub_cores, out, sink);
            std::vector<uint64_t> rows(32 * ROW);
            if (cudaMemcpy(rows.data(), out, rows.size() * sizeof(*out), cudaMemcpyDeviceToHost)) exit(1);
            uint64_t first = UINT64_MAX;
            for (int warp = 0; warp < warps; warp++)
                if (sub_cores >> warp % 4 & 1 && rows[warp * ROW] < first) first = rows[warp * ROW];
            for (int warp = 0; launch && warp < warps; warp++) {
                if (!(sub_cores >> warp % 4 & 1)) continue;
                printf("%s,%d,%d,%d,%d,%d", NAMES[KIND], pitch, warps, sub_cores, launch, warp);
                for (int i = 0; i < ROW; i++) printf(",%d", int(rows[warp * ROW + i] - first));
                printf("\n");
            }
        }
    }
    cudaFree(out);
    cudaFree(sink);
}

int main() {
    cudaDeviceProp device;
    if (cudaGetDeviceProperties(&device, 0)) return 1;
    printf("# %s; clocks of one CTA from the first warp's first access on; sub_cores is a mask\n", device.name);
    printf("instruction,pitch_bytes,warps,sub_cores,launch,warp,begin,value_1,value_2,value_3,value_4,value_5,value_6\n");
    for (int pitch : {4, 8, 16, 32}) measure<B32>(pitch);  // 1, 2, 4, 8 wavefronts
    measure<V4>(16);
    measure<X2>(16);
    measure<X4>(16);
}
