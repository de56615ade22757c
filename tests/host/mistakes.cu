// Programs that go wrong, each as `mistakes NAME`: what a GPU would say is what they expect.
#include <cassert>
#include <vector>

#include "checks.h"

__global__ void write(int *to, size_t offset) { to[offset + threadIdx.x] = 1; }
__global__ void write_bytes(char *to) { *reinterpret_cast<int *>(to + 1) = 1; }
__global__ void asserted(int n) { assert(int(threadIdx.x) < n); }
__global__ void trapped() { __trap(); }
__global__ void endless(volatile int *flag) {
    while (!*flag) {
    }
}
__global__ void never_met() {
    if (threadIdx.x < 32) asm volatile("bar.sync 1, 64;");
}
__global__ void beyond_shared(int *to) {
    __shared__ int room[32];
    *reinterpret_cast<volatile int *>(reinterpret_cast<char *>(room) + (1 << 20)) = 1;
    to[0] = room[0];
}
__global__ void __launch_bounds__(64) bounded(int *to) { to[threadIdx.x] = 1; }
__global__ void exited(int *to) {
    if (threadIdx.x == 0) to[0] = 7;
    asm volatile("exit;");
}

static int *memory(size_t bytes = 1024) {
    void *made = nullptr;
    cudaMalloc(&made, bytes);
    return static_cast<int *>(made);
}

static int illegal_address() {
    write<<<1, 32>>>(memory(), size_t(1) << 40);
    EXPECT(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
    EXPECT(cudaFree(nullptr) == cudaErrorIllegalAddress);
    return 0;
}
static int null_pointer() {
    write<<<1, 32>>>(nullptr, 0);
    EXPECT(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
    return 0;
}
static int used_after_free() {
    int *to = memory();
    CHECK(cudaFree(to));
    write<<<1, 32>>>(to, 0);
    EXPECT(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
    return 0;
}
static int address_of_the_host() {
    std::vector<int> host(32);
    write<<<1, 32>>>(host.data(), 0);
    EXPECT(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
    return 0;
}
static int misaligned() {
    write_bytes<<<1, 1>>>(reinterpret_cast<char *>(memory()));
    EXPECT(cudaDeviceSynchronize() == cudaErrorMisalignedAddress);
    return 0;
}
static int assertion() {
    asserted<<<1, 32>>>(32);
    CHECK(cudaDeviceSynchronize());
    asserted<<<1, 32>>>(31);
    EXPECT(cudaDeviceSynchronize() == cudaErrorAssert);
    return 0;
}
static int trap() {
    trapped<<<1, 1>>>();
    EXPECT(cudaDeviceSynchronize() == cudaErrorLaunchFailure);
    return 0;
}
static int endless_loop() {  // a GPU with a display stops it after seconds
    int *flag = memory();
    CHECK(cudaMemset(flag, 0, 4));
    endless<<<1, 32>>>(flag);
    EXPECT(cudaDeviceSynchronize() == cudaErrorLaunchTimeout);
    return 0;
}
static int deadlock() {
    never_met<<<1, 64>>>();
    EXPECT(cudaDeviceSynchronize() != cudaSuccess);
    return 0;
}
static int outside_of_shared_memory() {
    beyond_shared<<<1, 1>>>(memory());
    EXPECT(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
    return 0;
}
static int too_many_threads() {
    int *to = memory(8192), got = 0;
    CHECK(cudaMemset(to, 0, 8192));
    write<<<1, 1025>>>(to, 0);
    EXPECT(cudaGetLastError() == cudaErrorInvalidValue);
    write<<<dim3(1, 65536), 1>>>(to, 0);
    EXPECT(cudaGetLastError() == cudaErrorInvalidValue);
    write<<<0, 32>>>(to, 0);
    EXPECT(cudaGetLastError() == cudaErrorInvalidValue);
    write<<<1, 0>>>(to, 0);
    EXPECT(cudaGetLastError() == cudaErrorInvalidValue);
    bounded<<<1, 128>>>(to);
    EXPECT(cudaGetLastError() == cudaErrorInvalidValue);
    CHECK(cudaMemcpy(&got, to, 4, cudaMemcpyDeviceToHost));
    EXPECT(got == 0);
    return 0;
}
static int too_much_shared_memory() {
    int *to = memory();
    write<<<1, 32, 49153>>>(to, 0);
    EXPECT(cudaGetLastError() == cudaErrorInvalidValue);
    EXPECT(cudaFuncSetAttribute(write, cudaFuncAttributeMaxDynamicSharedMemorySize, 227 * 1024 + 1) == cudaErrorInvalidValue);
    EXPECT(cudaGetLastError() == cudaErrorInvalidValue);
    CHECK(cudaFuncSetAttribute(write, cudaFuncAttributeMaxDynamicSharedMemorySize, 227 * 1024));
    write<<<1, 32, 227 * 1024>>>(to, 0);
    CHECK(cudaDeviceSynchronize());
    return 0;
}
static int clusters_that_are_too_large() {
    int *to = memory(), got = 0;
    cudaLaunchConfig_t how = {};
    cudaLaunchAttribute attribute;
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
    how.attrs = &attribute, how.numAttrs = 1, how.blockDim = dim3(32);
    CHECK(cudaMemset(to, 0, 1024));
    for (int size : {4, 9, 16, 32}) {
        how.gridDim = dim3(size == 4 ? 5 : size), attribute.val.clusterDim.x = size;
        EXPECT(cudaLaunchKernelEx(&how, write, to, size_t(0)) == cudaErrorInvalidClusterSize);
    }
    cudaGetLastError();
    CHECK(cudaMemcpy(&got, to, 4, cudaMemcpyDeviceToHost));
    EXPECT(got == 0);
    CHECK(cudaFuncSetAttribute(write, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
    how.gridDim = dim3(16), attribute.val.clusterDim.x = 16;
    CHECK(cudaLaunchKernelEx(&how, write, to, size_t(0)));
    how.gridDim = dim3(32), attribute.val.clusterDim.x = 32;
    EXPECT(cudaLaunchKernelEx(&how, write, to, size_t(0)) == cudaErrorInvalidClusterSize);
    return 0;
}
static int too_much_memory() {
    void *made;
    EXPECT(cudaMalloc(&made, size_t(1) << 50) == cudaErrorMemoryAllocation);
    EXPECT(cudaGetLastError() == cudaErrorMemoryAllocation);
    return 0;
}
static int early_exit() {
    int *to = memory(), got = 0;
    exited<<<1, 32>>>(to);
    CHECK(cudaMemcpy(&got, to, 4, cudaMemcpyDeviceToHost));
    EXPECT(got == 7);
    return 0;
}
static int wrong_calls() {
    int *to = memory(), number;
    EXPECT(cudaSetDevice(1) == cudaErrorInvalidDevice);
    EXPECT(cudaMemcpy(to, nullptr, 4, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
    EXPECT(cudaMemcpy(&number, &number, 4, cudaMemcpyDeviceToHost) == cudaErrorInvalidValue);
    EXPECT(cudaMemcpy(&number, to, 4, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
    EXPECT(cudaFree(to + 1) == cudaErrorInvalidValue);
    EXPECT(cudaMemset(to, 0, 1025) == cudaErrorInvalidValue);
    EXPECT(cudaEventElapsedTime(nullptr, nullptr, nullptr) != cudaSuccess);
    EXPECT(cudaDeviceGetAttribute(&number, cudaDeviceAttr(9999), 0) != cudaSuccess);
    EXPECT(cudaMemcpyToSymbol(&number, to, 4) == cudaErrorInvalidSymbol);
    EXPECT(cudaLaunchKernel(&number, dim3(1), dim3(1), nullptr, 0, 0) == cudaErrorInvalidResourceHandle);
    return 0;
}

int main(int count, char **arguments) {
    const Program programs[] = {
        {"illegal_address", illegal_address}, {"null_pointer", null_pointer}, {"used_after_free", used_after_free},
        {"address_of_the_host", address_of_the_host}, {"misaligned", misaligned}, {"assertion", assertion},
        {"trap", trap}, {"endless_loop", endless_loop}, {"deadlock", deadlock},
        {"outside_of_shared_memory", outside_of_shared_memory}, {"too_many_threads", too_many_threads},
        {"too_much_shared_memory", too_much_shared_memory}, {"too_much_memory", too_much_memory},
        {"clusters_that_are_too_large", clusters_that_are_too_large}, {"early_exit", early_exit}, {"wrong_calls", wrong_calls},
    };
    return run_named(programs, count, arguments);
}
