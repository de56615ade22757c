// Host programs that check themselves: `programs NAME` runs one; 0: as it should be. Each prints what it found.
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define CHECK(call)                                                            \
    do {                                                                       \
        cudaError_t error_ = (call);                                           \
        if (error_ != cudaSuccess) {                                           \
            printf("line %d: %s\n", __LINE__, cudaGetErrorString(error_));     \
            return 1;                                                          \
        }                                                                      \
    } while (0)
#define EXPECT(condition)                                      \
    do {                                                       \
        if (!(condition)) {                                    \
            printf("line %d: not " #condition "\n", __LINE__); \
            return 1;                                          \
        }                                                      \
    } while (0)

__device__ int counter = 5;
__constant__ float scale[4];
__managed__ int shared_with_host = 3;

__global__ void add(const float *a, const float *b, float *c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

__global__ void count() {
    atomicAdd(&counter, 1 + static_cast<int>(scale[1]));
    shared_with_host = 2 * counter;
}

__global__ void product(const float *a, const float *b, float *c, int n) {
    __shared__ float left[16][17], right[16][17];
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 16 + y, column = blockIdx.x * 16 + x;
    float sum = 0;
    for (int k = 0; k < n; k += 16) {
        left[y][x] = a[row * n + k + x];
        right[y][x] = b[(k + y) * n + column];
        __syncthreads();
        for (int i = 0; i < 16; i++) sum += left[y][i] * right[i][x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}

__global__ void overrun(int *to, int n) { to[threadIdx.x + n] = 1; }

__global__ void fill_dynamic(int *to) {
    extern __shared__ int room[];
    room[threadIdx.x * 100] = threadIdx.x;
    __syncthreads();
    to[threadIdx.x] = room[(blockDim.x - 1 - threadIdx.x) * 100];
}

// Keeps the two elements of each four that are not zero, and says which: two bits an element, four groups a byte pair.
__global__ void compress(const __half *a, __half *kept, unsigned *metadata) {  // 16 x 32 -> 16 x 16; a thread a row
    int row = threadIdx.x;
    for (int half = 0; half < 2; half++) {
        unsigned bits = 0;
        for (int group = 0; group < 4; group++) {
            int found = 0, at[2] = {0, 1};
            const __half *four = a + row * 32 + half * 16 + group * 4;
            for (int i = 0; i < 4 && found < 2; i++)
                if (__half2float(four[i]) != 0.f) at[found++] = i;
            for (int i = 0; i < 2; i++) kept[row * 16 + half * 8 + group * 2 + i] = four[at[i]];
            bits |= (at[0] | at[1] << 2) << 4 * group;
        }
        metadata[row * 2 + half] = bits;
    }
}

__global__ void sparse(const __half *kept, const unsigned *metadata, const __half *b, float *d) {
    int lane = threadIdx.x, group = lane / 4, place = lane % 4;
    auto pair = [](const __half *from) { return *reinterpret_cast<const unsigned *>(from); };
    unsigned a[4], bs[4], e;
    for (int i = 0; i < 4; i++) a[i] = pair(kept + (group + 8 * (i % 2)) * 16 + 2 * place + 8 * (i / 2));
    for (int i = 0; i < 4; i++) {  // b: column-major, 32 x 8
        bs[i] = pair(b + group * 32 + 2 * place + 8 * i);
    }
    int half = lane % 2;  // selector 0: lanes 0 and 1 of four hold the metadata of rows group and group + 8
    e = metadata[group * 2 + half] | metadata[(group + 8) * 2 + half] << 16;
    float c[4] = {0, 0, 0, 0};
    asm volatile(
        "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9,%10,%11}, {%0,%1,%2,%3}, %12, 0x0;"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(bs[0]), "r"(bs[1]), "r"(bs[2]), "r"(bs[3]), "r"(e));
    for (int i = 0; i < 4; i++) d[(group + 8 * (i / 2)) * 8 + 2 * place + i % 2] = c[i];
}

static int vector_add() {
    const int n = 1000;
    std::vector<float> a(n), b(n), c(n);
    for (int i = 0; i < n; i++) a[i] = i, b[i] = 2 * i;
    float *da, *db, *dc;
    CHECK(cudaMalloc(&da, 4 * n));
    CHECK(cudaMalloc(&db, 4 * n));
    CHECK(cudaMalloc(&dc, 4 * n));
    CHECK(cudaMemcpy(da, a.data(), 4 * n, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(db, b.data(), 4 * n, cudaMemcpyHostToDevice));
    add<<<4, 256>>>(da, db, dc, n);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(c.data(), dc, 4 * n, cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; i++) EXPECT(c[i] == 3.f * i);
    EXPECT(cudaMemcpy(c.data(), dc, 4 * n + 4, cudaMemcpyDeviceToHost) == cudaErrorInvalidValue);
    EXPECT(cudaGetLastError() == cudaErrorInvalidValue && cudaGetLastError() == cudaSuccess);
    CHECK(cudaFree(dc));
    EXPECT(cudaFree(dc) == cudaErrorInvalidValue);
    return 0;
}

static int matrix_product() {
    const int n = 32;
    float *a, *b, *c;
    size_t pitch;
    CHECK(cudaMallocManaged(&a, 4 * n * n));
    CHECK(cudaMallocHost(&b, 4 * n * n));
    CHECK(cudaMalloc(&c, 4 * n * n));
    for (int i = 0; i < n * n; i++) a[i] = i % 7, b[i] = i % 5;
    product<<<dim3(2, 2), dim3(16, 16)>>>(a, b, c, n);
    CHECK(cudaDeviceSynchronize());
    std::vector<float> got(n * n);
    char *rows;
    CHECK(cudaMallocPitch(&rows, &pitch, 4 * n, n));
    CHECK(cudaMemcpy2D(rows, pitch, c, 4 * n, 4 * n, n, cudaMemcpyDeviceToDevice));
    CHECK(cudaMemcpy2DAsync(got.data(), 4 * n, rows, pitch, 4 * n, n, cudaMemcpyDeviceToHost, 0));
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            float sum = 0;
            for (int k = 0; k < n; k++) sum += a[i * n + k] * b[k * n + j];
            EXPECT(got[i * n + j] == sum);
        }
    return 0;
}

static int module_variables() {
    float values[4] = {0, 6, 0, 0};
    int got = 0, *address;
    CHECK(cudaMemcpyToSymbol(scale, values, sizeof values));
    count<<<1, 1>>>();
    count<<<1, 1>>>();
    CHECK(cudaMemcpyFromSymbol(&got, counter, 4));
    EXPECT(got == 5 + 2 * 7);
    EXPECT(shared_with_host == 2 * got);
    CHECK(cudaGetSymbolAddress(reinterpret_cast<void **>(&address), counter));
    CHECK(cudaMemset(address, 0, 4));
    count<<<1, 1>>>();
    CHECK(cudaMemcpyFromSymbol(&got, counter, 4));
    EXPECT(got == 7);
    return 0;
}

static int streams() {
    cudaStream_t one, two;
    cudaEvent_t start, end;
    CHECK(cudaStreamCreate(&one));
    CHECK(cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking));
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreate(&end));
    float *a, time = -1, got[256];
    CHECK(cudaMallocAsync(&a, 1024, one));
    CHECK(cudaMemsetAsync(a, 0, 1024, one));
    CHECK(cudaEventRecord(start, one));
    add<<<1, 256, 0, one>>>(a, a, a, 256);
    CHECK(cudaEventRecord(end, one));
    CHECK(cudaStreamWaitEvent(two, end));
    CHECK(cudaMemcpyAsync(got, a, 1024, cudaMemcpyDeviceToHost, two));
    CHECK(cudaStreamSynchronize(two));
    CHECK(cudaEventElapsedTime(&time, start, end));
    EXPECT(time > 0 && got[255] == 0);
    CHECK(cudaFreeAsync(a, one));
    CHECK(cudaEventDestroy(end));
    CHECK(cudaStreamDestroy(two));
    return 0;
}

static int occupancy() {
    int ctas = 0, sms = 0, *to, got[64];
    cudaFuncAttributes attributes;
    cudaDeviceProp device;
    CHECK(cudaFuncGetAttributes(&attributes, product));
    EXPECT(attributes.sharedSizeBytes == 2 * 16 * 17 * 4 && attributes.numRegs >= 8);
    CHECK(cudaGetDeviceProperties(&device, 0));
    CHECK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
    EXPECT(sms == device.multiProcessorCount && device.warpSize == 32);
    printf("%s: %d SMs, %d.%d\n", device.name, sms, device.major, device.minor);
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&ctas, product, 256, 100000));
    EXPECT(ctas == 0);  // more than 48 KB, which nobody has allowed
    CHECK(cudaFuncSetAttribute(product, cudaFuncAttributeMaxDynamicSharedMemorySize, 100000));
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&ctas, product, 256, 100000));
    EXPECT(ctas == static_cast<int>(device.sharedMemPerMultiprocessor / (100000 + attributes.sharedSizeBytes + 1024)));
    CHECK(cudaMalloc(&to, 256));
    CHECK(cudaMemset(to, 0, 256));
    fill_dynamic<<<1, 64, 60000>>>(to);  // more than 48 KB, which nobody has allowed
    EXPECT(cudaGetLastError() == cudaErrorInvalidValue);
    CHECK(cudaFuncSetAttribute(fill_dynamic, cudaFuncAttributeMaxDynamicSharedMemorySize, 60000));
    fill_dynamic<<<1, 2048, 60000>>>(to);
    EXPECT(cudaGetLastError() == cudaErrorInvalidValue);
    CHECK(cudaMemcpy(got, to, 256, cudaMemcpyDeviceToHost));
    EXPECT(got[1] == 0);  // as on a chip, nothing has run and nothing stays
    fill_dynamic<<<1, 64, 60000>>>(to);
    CHECK(cudaMemcpy(got, to, 256, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 64; i++) EXPECT(got[i] == 63 - i);
    return 0;
}

static int failure() {
    int *one, *two, *host, got[2][64];
    memset(got, 0, sizeof got);
    CHECK(cudaMalloc(&one, 256));
    CHECK(cudaMalloc(&two, 256));
    CHECK(cudaMallocHost(&host, 256));
    CHECK(cudaMemset(one, 0, 256));
    CHECK(cudaMemset(two, 0, 256));
    memset(host, 7, 256);
    overrun<<<1, 32>>>(one, 64);
    EXPECT(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
    EXPECT(cudaGetLastError() == cudaErrorIllegalAddress && cudaGetLastError() == cudaErrorIllegalAddress);
    EXPECT(cudaMemcpy(got[0], one, 256, cudaMemcpyDeviceToHost) == cudaErrorIllegalAddress);
    EXPECT(cudaMemcpy(got[1], two, 256, cudaMemcpyDeviceToHost) == cudaErrorIllegalAddress);
    for (int i = 0; i < 64; i++) EXPECT(reinterpret_cast<unsigned char *>(&got[0][i])[3] == 0xdb && got[0][i] != got[1][i]);
    EXPECT(host[0] == 0x07070707);
    overrun<<<1, 32>>>(one, 0);
    EXPECT(cudaGetLastError() == cudaErrorIllegalAddress);
    EXPECT(cudaMalloc(&one, 4) == cudaErrorIllegalAddress);
    return 0;
}

static int sparse_product() {
    __half *a, *b, *kept;
    unsigned *metadata;
    float *d;
    CHECK(cudaMallocManaged(&a, 16 * 32 * 2));
    CHECK(cudaMallocManaged(&b, 32 * 8 * 2));
    CHECK(cudaMallocManaged(&kept, 16 * 16 * 2));
    CHECK(cudaMallocManaged(&metadata, 16 * 2 * 4));
    CHECK(cudaMallocManaged(&d, 16 * 8 * 4));
    for (int row = 0; row < 16; row++)
        for (int k = 0; k < 32; k++) {
            int first = (row + k / 4) % 3, second = first + 1 + row * (k / 4) % (3 - first);
            a[row * 32 + k] = __float2half(k % 4 == first || k % 4 == second ? 1.f + (row * 5 + k) % 9 : 0.f);
        }
    for (int i = 0; i < 32 * 8; i++) b[i] = __float2half(float(i * 7 % 11 - 5));
    compress<<<1, 16>>>(a, kept, metadata);
    sparse<<<1, 32>>>(kept, metadata, b, d);
    CHECK(cudaDeviceSynchronize());
    for (int row = 0; row < 16; row++)
        for (int column = 0; column < 8; column++) {
            float sum = 0;
            for (int k = 0; k < 32; k++) sum += __half2float(a[row * 32 + k]) * __half2float(b[column * 32 + k]);
            EXPECT(d[row * 8 + column] == sum);
        }
    return 0;
}

int main(int count, char **arguments) {
    const struct {
        const char *name;
        int (*run)();
    } programs[] = {
        {"vector_add", vector_add}, {"matrix_product", matrix_product}, {"module_variables", module_variables},
        {"streams", streams},       {"occupancy", occupancy},           {"failure", failure},
        {"sparse_product", sparse_product},
    };
    int bad = 0;
    for (int i = 1; i < count; i++)
        for (const auto &each : programs)
            if (!strcmp(each.name, arguments[i])) {
                int code = each.run();
                printf("%s %s\n", each.name, code ? "FAILED" : "passed");
                bad |= code;
            }
    fflush(stdout);
    return bad;
}
