// Programs of the libraries that come with the compiler: Thrust, CUB, libcu++, cooperative groups.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <thrust/device_vector.h>
#include <thrust/host_vector.h>
#include <thrust/inner_product.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>
#include <thrust/transform_reduce.h>

#include <algorithm>
#include <cub/cub.cuh>
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda/std/complex>
#include <numeric>
#include <vector>

#include "checks.h"

namespace cg = cooperative_groups;

static std::vector<int> numbers(int n) {
    std::vector<int> all(n);
    unsigned state = 12345;
    for (int &each : all) each = int((state = state * 1664525u + 1013904223u) >> 12);
    return all;
}

struct Square {
    __host__ __device__ double operator()(double x) const { return x * x; }
};

static int thrust_algorithms() {
    const int n = 3000;
    std::vector<int> host = numbers(n);
    thrust::device_vector<int> device(host.begin(), host.end());
    EXPECT(thrust::reduce(device.begin(), device.end(), 0ll) == std::accumulate(host.begin(), host.end(), 0ll));
    EXPECT(*thrust::max_element(device.begin(), device.end()) == *std::max_element(host.begin(), host.end()));
    thrust::device_vector<int> sums(n);
    thrust::inclusive_scan(device.begin(), device.end(), sums.begin());
    int sum = 0;
    for (int i = 0; i < n; i++) sum += host[i];
    EXPECT(sums[n - 1] == sum);
    thrust::sort(device.begin(), device.end());
    std::sort(host.begin(), host.end());
    EXPECT(std::equal(host.begin(), host.end(), thrust::host_vector<int>(device).begin()));
    thrust::device_vector<double> steps(1000);
    thrust::sequence(steps.begin(), steps.end());
    EXPECT(thrust::transform_reduce(steps.begin(), steps.end(), Square(), 0.0, thrust::plus<double>()) == 332833500.0);
    thrust::device_vector<int> keys(6), values(6);
    int key[] = {3, 1, 2, 3, 0, 1};
    thrust::copy(key, key + 6, keys.begin());
    thrust::sequence(values.begin(), values.end());
    thrust::stable_sort_by_key(keys.begin(), keys.end(), values.begin());
    int order[] = {4, 1, 5, 2, 0, 3};
    for (int i = 0; i < 6; i++) EXPECT(values[i] == order[i]);
    return 0;
}

static int cub_algorithms() {
    const int n = 5000;
    std::vector<int> host = numbers(n);
    int *in, *out;
    CHECK(cudaMalloc(&in, 4 * n));
    CHECK(cudaMalloc(&out, 4 * n));
    CHECK(cudaMemcpy(in, host.data(), 4 * n, cudaMemcpyHostToDevice));
    void *room = nullptr;
    size_t bytes = 0;
    CHECK(cub::DeviceReduce::Sum(room, bytes, in, out, n));
    CHECK(cudaMalloc(&room, bytes));
    CHECK(cub::DeviceReduce::Sum(room, bytes, in, out, n));
    std::vector<int> got(n);
    CHECK(cudaMemcpy(got.data(), out, 4, cudaMemcpyDeviceToHost));
    EXPECT(got[0] == int(std::accumulate(host.begin(), host.end(), 0u)));
    CHECK(cudaFree(room));
    room = nullptr;
    CHECK(cub::DeviceScan::ExclusiveSum(room, bytes, in, out, n));
    CHECK(cudaMalloc(&room, bytes));
    CHECK(cub::DeviceScan::ExclusiveSum(room, bytes, in, out, n));
    CHECK(cudaMemcpy(got.data(), out, 4 * n, cudaMemcpyDeviceToHost));
    unsigned sum = 0;
    for (int i = 0; i < n; i++) {
        EXPECT(got[i] == int(sum));
        sum += host[i];
    }
    CHECK(cudaFree(room));
    room = nullptr;
    CHECK(cub::DeviceRadixSort::SortKeys(room, bytes, in, out, n));
    CHECK(cudaMalloc(&room, bytes));
    CHECK(cub::DeviceRadixSort::SortKeys(room, bytes, in, out, n));
    CHECK(cudaMemcpy(got.data(), out, 4 * n, cudaMemcpyDeviceToHost));
    std::sort(host.begin(), host.end());
    EXPECT(got == host);
    CHECK(cudaFree(room));
    room = nullptr;
    CHECK(cub::DeviceHistogram::HistogramEven(room, bytes, in, out, 17, 0, 1 << 20, n));
    CHECK(cudaMalloc(&room, bytes));
    CHECK(cub::DeviceHistogram::HistogramEven(room, bytes, in, out, 17, 0, 1 << 20, n));
    CHECK(cudaMemcpy(got.data(), out, 64, cudaMemcpyDeviceToHost));
    int bins[16] = {};
    for (int each : host) bins[each >> 16]++;
    EXPECT(std::equal(bins, bins + 16, got.begin()));
    return 0;
}

__global__ void doubled(const int *in, int *out, int n) {  // two stages of copies under way
    constexpr int PART = 64;
    __shared__ int parts[2][PART];
    auto block = cg::this_thread_block();
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    auto pipe = cuda::make_pipeline(block, &state);
    auto fetch = [&](int part) {
        pipe.producer_acquire();
        cuda::memcpy_async(block, parts[part % 2], in + part * PART, sizeof(int) * PART, pipe);
        pipe.producer_commit();
    };
    fetch(0);
    for (int part = 0; part < n / PART; part++) {
        if (part + 1 < n / PART) fetch(part + 1);
        pipe.consumer_wait();
        out[part * PART + block.thread_rank()] = 2 * parts[part % 2][block.thread_rank()];
        pipe.consumer_release();
    }
}

__global__ void tripled(const int *in, int *out) {
    __shared__ alignas(16) int part[128];
    __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
    auto block = cg::this_thread_block();
    if (block.thread_rank() == 0) init(&barrier, block.size());
    block.sync();
    cuda::memcpy_async(block, part, in + 128 * blockIdx.x, cuda::aligned_size_t<16>(sizeof part), barrier);
    barrier.arrive_and_wait();
    out[128 * blockIdx.x + threadIdx.x] = 3 * part[127 - threadIdx.x];
}

static int asynchronous_copies() {
    int *in, *out, got[256];
    CHECK(cudaMallocManaged(&in, 1024));
    CHECK(cudaMalloc(&out, 1024));
    for (int i = 0; i < 256; i++) in[i] = i * i;
    doubled<<<1, 64>>>(in, out, 256);
    CHECK(cudaMemcpy(got, out, 1024, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 256; i++) EXPECT(got[i] == 2 * i * i);
    tripled<<<2, 128>>>(in, out);
    CHECK(cudaMemcpy(got, out, 1024, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 256; i++) EXPECT(got[i] == 3 * (127 - i % 128 + i / 128 * 128) * (127 - i % 128 + i / 128 * 128));
    return 0;
}

__global__ void summed_in_tiles(const int *in, int *out, int n) {
    auto tile = cg::tiled_partition<32>(cg::this_thread_block());
    int sum = 0;
    for (int i = cg::this_grid().thread_rank(); i < n; i += cg::this_grid().size()) sum += in[i];
    sum = cg::reduce(tile, sum, cg::plus<int>());
    if (tile.thread_rank() == 0) {
        cuda::atomic_ref<int, cuda::thread_scope_device> total(*out);
        total.fetch_add(sum, cuda::memory_order_relaxed);
    }
}

__global__ void turned_over_and_over(int *data, int n, int rounds) {  // a cooperative launch
    auto grid = cg::this_grid();
    for (int round = 0; round < rounds; round++) {
        int i = grid.thread_rank(), from = i < n ? data[(i + 1) % n] : 0;
        grid.sync();
        if (i < n) data[i] = from;
        grid.sync();
    }
}

__global__ void complex_product(cuda::std::complex<float> *all) {
    all[threadIdx.x] = all[threadIdx.x] * all[threadIdx.x] + cuda::std::complex<float>(0, 1);
}

static int groups() {
    const int n = 1000;
    int *in, *out, got = 0;
    CHECK(cudaMallocManaged(&in, 4 * n));
    CHECK(cudaMalloc(&out, 4));
    CHECK(cudaMemset(out, 0, 4));
    for (int i = 0; i < n; i++) in[i] = i;
    summed_in_tiles<<<3, 128>>>(in, out, n);
    CHECK(cudaMemcpy(&got, out, 4, cudaMemcpyDeviceToHost));
    EXPECT(got == n * (n - 1) / 2);
    int rounds = 3, count = 500;
    void *arguments[] = {&in, &count, &rounds};
    CHECK(cudaLaunchCooperativeKernel(turned_over_and_over, dim3(4), dim3(128), arguments));
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < count; i++) EXPECT(in[i] == (i + 3) % count);
    int ctas = 0, sms = 0;
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&ctas, turned_over_and_over, 128, 0));
    CHECK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
    EXPECT(cudaLaunchCooperativeKernel(turned_over_and_over, dim3(ctas * sms + 1), dim3(128), arguments) ==
           cudaErrorCooperativeLaunchTooLarge);
    EXPECT(cudaGetLastError() == cudaErrorCooperativeLaunchTooLarge);
    cuda::std::complex<float> *numbers;
    CHECK(cudaMallocManaged(&numbers, 32 * sizeof *numbers));
    for (int i = 0; i < 32; i++) numbers[i] = {float(i), 1.f};
    complex_product<<<1, 32>>>(numbers);
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < 32; i++) EXPECT(numbers[i].real() == float(i * i - 1) && numbers[i].imag() == float(2 * i + 1));
    return 0;
}

int main(int count, char **arguments) {
    const Program programs[] = {
        {"thrust_algorithms", thrust_algorithms},
        {"cub_algorithms", cub_algorithms},
        {"asynchronous_copies", asynchronous_copies},
        {"groups", groups},
    };
    return run_named(programs, count, arguments);
}
