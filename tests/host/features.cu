// What programs use besides plain launches: memory of the host, callbacks, printf, templates, occupancy, graphs.
#include <cuda_fp16.h>

#include <cstdlib>
#include <vector>

#include "checks.h"

template <typename T, int N> __device__ T table[N];
__constant__ double weights[3] = {0.25, 0.5, 0.25};
__device__ unsigned ticket;

template <typename T> __global__ void scaled(T *data, int n, T factor) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) data[i] = data[i] * factor;
}

template <typename T> static int scaled_is_right() {
    T *data;
    CHECK(cudaMallocManaged(&data, 100 * sizeof(T)));
    for (int i = 0; i < 100; i++) data[i] = T(i);
    scaled<T><<<2, 32>>>(data, 100, T(3));
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < 100; i++) EXPECT(double(data[i]) == 3.0 * i);
    return cudaFree(data) != cudaSuccess;
}

__global__ void fill_table() { table<short, 40>[threadIdx.x] = short(threadIdx.x * weights[threadIdx.x % 3] * 4); }

static int templates() {
    if (scaled_is_right<int>() || scaled_is_right<float>() || scaled_is_right<double>() || scaled_is_right<__half>()) return 1;
    fill_table<<<1, 40>>>();
    short got[40];
    CHECK(cudaMemcpyFromSymbol(got, table<short, 40>, sizeof got));
    for (int i = 0; i < 40; i++) EXPECT(got[i] == short(i * (i % 3 == 1 ? 2 : 1)));
    return 0;
}

__global__ void sum(const float *in, float *out, int n) {  // the last CTA adds up what all have found
    __shared__ float parts[8];
    __shared__ bool last;
    float mine = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) mine += in[i];
    for (int step = 16; step; step /= 2) mine += __shfl_down_sync(~0u, mine, step);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = mine;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (unsigned i = 1; i < blockDim.x / 32; i++) mine += parts[i];
        out[blockIdx.x] = mine;
        __threadfence();
        last = atomicInc(&ticket, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        float all = 0;
        for (unsigned i = 0; i < gridDim.x; i++) all += reinterpret_cast<volatile float *>(out)[i];
        out[0] = all;
    }
}

static int reduction() {
    const int n = 3000;
    std::vector<float> host(n);
    for (int i = 0; i < n; i++) host[i] = float(i % 10);
    float *in, *out, got;
    CHECK(cudaMalloc(&in, 4 * n));
    CHECK(cudaMalloc(&out, 4 * 7));
    CHECK(cudaMemcpy(in, host.data(), 4 * n, cudaMemcpyHostToDevice));
    for (int turn = 0; turn < 2; turn++) {
        sum<<<7, 256>>>(in, out, n);
        CHECK(cudaMemcpy(&got, out, 4, cudaMemcpyDeviceToHost));
        EXPECT(got == 13500.f);
    }
    return 0;
}

static int host_memory() {
    int *mapped, *device, *plain = static_cast<int *>(aligned_alloc(4096, 4096));
    cudaPointerAttributes about;
    CHECK(cudaHostAlloc(&mapped, 1024, cudaHostAllocMapped));
    CHECK(cudaHostGetDevicePointer(&device, mapped, 0));
    for (int i = 0; i < 256; i++) mapped[i] = i;
    scaled<int><<<1, 64>>>(device, 256, 5);
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < 256; i++) EXPECT(mapped[i] == 5 * i);
    CHECK(cudaPointerGetAttributes(&about, mapped));
    EXPECT(about.type == cudaMemoryTypeHost && about.devicePointer == device);
    CHECK(cudaPointerGetAttributes(&about, plain));
    EXPECT(about.type == cudaMemoryTypeUnregistered);
    CHECK(cudaFreeHost(mapped));
    CHECK(cudaMallocManaged(&device, 4096));
    CHECK(cudaMemPrefetchAsync(device, 4096, cudaMemLocation{cudaMemLocationTypeDevice, 0}, 0, 0));
    for (int i = 0; i < 1024; i++) device[i] = i;
    scaled<int><<<1, 64>>>(device, 1024, 2);
    CHECK(cudaDeviceSynchronize());
    EXPECT(device[1023] == 2046);
    cudaMemPool_t pool;
    CHECK(cudaDeviceGetDefaultMemPool(&pool, 0));
    unsigned long long all = ~0ull;
    CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all));
    CHECK(cudaHostRegister(plain, 4096, cudaHostRegisterDefault));
    CHECK(cudaMemcpyAsync(plain, device, 4096, cudaMemcpyDeviceToHost, 0));
    CHECK(cudaDeviceSynchronize());
    EXPECT(plain[1023] == 2046);
    CHECK(cudaHostUnregister(plain));
    free(plain);
    return 0;
}

__global__ void copied_plane(const cudaPitchedPtr from, int *to, int width, int height, int depth) {
    int x = threadIdx.x, y = blockIdx.x, z = blockIdx.y;
    const char *row = static_cast<const char *>(from.ptr) + from.pitch * (y + height * z);
    to[(z * height + y) * width + x] = reinterpret_cast<const int *>(row)[x];
}

static int three_dimensions() {
    const int w = 10, h = 4, d = 3;
    std::vector<int> host(w * h * d), got(w * h * d);
    for (size_t i = 0; i < host.size(); i++) host[i] = int(i * i);
    cudaPitchedPtr box;
    CHECK(cudaMalloc3D(&box, make_cudaExtent(w * 4, h, d)));
    CHECK(cudaMemset3D(box, 0, make_cudaExtent(w * 4, h, d)));
    cudaMemcpy3DParms how = {};
    how.srcPtr = make_cudaPitchedPtr(host.data(), w * 4, w, h);
    how.dstPtr = box;
    how.extent = make_cudaExtent(w * 4, h, d);
    how.kind = cudaMemcpyHostToDevice;
    CHECK(cudaMemcpy3D(&how));
    int *to;
    CHECK(cudaMalloc(&to, host.size() * 4));
    copied_plane<<<dim3(h, d), w>>>(box, to, w, h, d);
    CHECK(cudaMemcpy(got.data(), to, host.size() * 4, cudaMemcpyDeviceToHost));
    EXPECT(got == host);
    return 0;
}

__global__ void says(int n) {
    if (threadIdx.x < n) printf("thread %d of CTA %d: %.2f %s\n", threadIdx.x, blockIdx.x, threadIdx.x * 0.5, "half");
}

static int printing() {
    says<<<2, 32>>>(2);
    CHECK(cudaDeviceSynchronize());
    return 0;
}

static void CUDART_CB note(void *data) { *static_cast<int *>(data) = 42; }

static int callbacks() {
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0));
    int noted = 0, *data;
    CHECK(cudaMallocAsync(&data, 400, stream));
    CHECK(cudaMemsetAsync(data, 1, 400, stream));
    scaled<int><<<1, 32, 0, stream>>>(data, 100, 2);
    CHECK(cudaLaunchHostFunc(stream, note, &noted));
    CHECK(cudaStreamSynchronize(stream));
    EXPECT(noted == 42 && cudaStreamQuery(stream) == cudaSuccess);
    int got[100];
    CHECK(cudaMemcpyAsync(got, data, 400, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaFreeAsync(data, stream));
    CHECK(cudaStreamDestroy(stream));
    EXPECT(got[99] == 0x02020202);
    return 0;
}

__global__ void __launch_bounds__(128, 4) bounded(float *data) { data[threadIdx.x] = sqrtf(data[threadIdx.x]); }

static int occupancy() {
    int block, grid, ctas;
    size_t room;
    CHECK(cudaOccupancyMaxPotentialBlockSize(&grid, &block, bounded, 0, 0));
    EXPECT(block == 128 && grid % 132 == 0);
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&ctas, bounded, 128, 0, cudaOccupancyDefault));
    EXPECT(ctas >= 4 && ctas <= 16);
    CHECK(cudaOccupancyAvailableDynamicSMemPerBlock(&room, bounded, 2, 128));
    EXPECT(room == 48 * 1024);
    CHECK(cudaFuncSetAttribute(bounded, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 * 1024));
    CHECK(cudaOccupancyAvailableDynamicSMemPerBlock(&room, bounded, 2, 128));
    EXPECT(room >= 64 * 1024 && room <= 114 * 1024);
    EXPECT(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&ctas, bounded, 256, 0) == cudaSuccess && ctas == 0);
    cudaFuncAttributes about;
    CHECK(cudaFuncGetAttributes(&about, bounded));
    EXPECT(about.maxThreadsPerBlock == 128 && about.numRegs > 0);
    size_t heap;
    CHECK(cudaDeviceGetLimit(&heap, cudaLimitMallocHeapSize));
    EXPECT(heap == 8 << 20);
    char bus[32];
    CHECK(cudaDeviceGetPCIBusId(bus, sizeof bus, 0));
    return 0;
}

int main(int count, char **arguments) {
    const Program programs[] = {
        {"templates", templates}, {"reduction", reduction},   {"host_memory", host_memory}, {"printing", printing},
        {"callbacks", callbacks}, {"occupancy", occupancy}, {"three_dimensions", three_dimensions},
    };
    return run_named(programs, count, arguments);
}
