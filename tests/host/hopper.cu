// Programs of Hopper: clusters and their shared memory, tensor maps, mbarriers, specialised warps, launch attributes.
#include <cooperative_groups.h>
#include <cuda.h>
#include <cudaTypedefs.h>

#include <cuda/barrier>
#include <cuda/ptx>
#include <vector>

#include "checks.h"

namespace cg = cooperative_groups;
namespace ptx = cuda::ptx;

// A histogram whose bins lie in the shared memory of all CTAs of a cluster.
__global__ void histogram(const int *data, int n, int *bins, int each) {
    extern __shared__ int mine[];
    auto cluster = cg::this_cluster();
    for (int i = threadIdx.x; i < each; i += blockDim.x) mine[i] = 0;
    cluster.sync();
    for (int i = cluster.thread_rank() + (blockIdx.x / cluster.num_blocks()) * cluster.num_threads(); i < n;
         i += gridDim.x * blockDim.x) {
        int bin = data[i], *there = cluster.map_shared_rank(mine, bin / each);
        atomicAdd(there + bin % each, 1);
    }
    cluster.sync();
    for (int i = threadIdx.x; i < each; i += blockDim.x) atomicAdd(&bins[cluster.block_rank() * each + i], mine[i]);
}

static int histogram_of_clusters() {
    const int n = 2000, each = 16, size = 4;
    std::vector<int> host(n), got(each * size), wanted(each * size);
    unsigned state = 7;
    for (int &one : host) wanted[one = ((state = state * 1664525u + 1013904223u) >> 16) % (each * size)]++;
    int *data, *bins;
    CHECK(cudaMalloc(&data, 4 * n));
    CHECK(cudaMalloc(&bins, 4 * each * size));
    CHECK(cudaMemcpy(data, host.data(), 4 * n, cudaMemcpyHostToDevice));
    CHECK(cudaMemset(bins, 0, 4 * each * size));
    cudaLaunchConfig_t how = {};
    how.gridDim = dim3(2 * size), how.blockDim = dim3(64), how.dynamicSmemBytes = 4 * each;
    cudaLaunchAttribute attributes[2];
    attributes[0].id = cudaLaunchAttributePriority;
    attributes[0].val.priority = 0;
    attributes[1].id = cudaLaunchAttributeClusterDimension;
    attributes[1].val.clusterDim.x = size, attributes[1].val.clusterDim.y = attributes[1].val.clusterDim.z = 1;
    how.attrs = attributes, how.numAttrs = 2;
    int clusters = 0;
    CHECK(cudaOccupancyMaxActiveClusters(&clusters, histogram, &how));
    EXPECT(clusters > 0);
    CHECK(cudaLaunchKernelEx(&how, histogram, static_cast<const int *>(data), n, bins, each));
    CHECK(cudaMemcpy(got.data(), bins, 4 * each * size, cudaMemcpyDeviceToHost));
    EXPECT(got == wanted);
    how.gridDim = dim3(2 * size + 1);  // no whole clusters
    EXPECT(cudaLaunchKernelEx(&how, histogram, static_cast<const int *>(data), n, bins, each) ==
           cudaErrorInvalidClusterSize);
    EXPECT(cudaGetLastError() == cudaErrorInvalidClusterSize && cudaGetLastError() == cudaSuccess);
    return 0;
}

// Each CTA smooths its part of a row, and reads the elements beyond its ends from its neighbours.
__global__ void __cluster_dims__(4, 1, 1) smoothed(const float *in, float *out, int rounds) {
    __shared__ float part[2][64];
    auto cluster = cg::this_cluster();
    int rank = cluster.block_rank(), x = threadIdx.x;
    part[0][x] = in[blockIdx.x * 64 + x];
    cluster.sync();
    for (int round = 0; round < rounds; round++) {
        const float *now = part[round % 2];
        float left = x ? now[x - 1] : rank ? cluster.map_shared_rank(now, rank - 1)[63] : 0.f;
        float right = x < 63 ? now[x + 1] : rank < 3 ? cluster.map_shared_rank(now, rank + 1)[0] : 0.f;
        part[(round + 1) % 2][x] = 0.25f * left + 0.5f * now[x] + 0.25f * right;
        cluster.sync();
    }
    out[blockIdx.x * 64 + x] = part[rounds % 2][x];
}

static int halo_exchange() {
    const int n = 512;
    std::vector<float> a(n), b(n), got(n);
    for (int i = 0; i < n; i++) a[i] = float(i * 37 % 101);
    float *in, *out;
    CHECK(cudaMalloc(&in, 4 * n));
    CHECK(cudaMalloc(&out, 4 * n));
    CHECK(cudaMemcpy(in, a.data(), 4 * n, cudaMemcpyHostToDevice));
    smoothed<<<8, 64>>>(in, out, 3);
    CHECK(cudaMemcpy(got.data(), out, 4 * n, cudaMemcpyDeviceToHost));
    for (int round = 0; round < 3; round++, a = b)
        for (int i = 0; i < n; i++)
            b[i] = 0.25f * (i % 256 ? a[i - 1] : 0.f) + 0.5f * a[i] + 0.25f * (i % 256 < 255 ? a[i + 1] : 0.f);
    EXPECT(got == a);
    return 0;
}

// A warp brings tiles by a tensor map while a warpgroup adds up those that are there: two stages, full and empty.
constexpr int TILE = 32, STAGES = 2;

__global__ void __launch_bounds__(256) column_sums(const __grid_constant__ CUtensorMap map, float *sums, int tiles) {
    __shared__ alignas(1024) float stage[STAGES][TILE][TILE];
    __shared__ uint64_t full[STAGES], empty[STAGES];
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            ptx::mbarrier_init(&full[i], 1);
            ptx::mbarrier_init(&empty[i], 128);
        }
        ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
    }
    __syncthreads();
    if (threadIdx.x < 128) {  // a producer, of which one thread works
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == 0)
            for (int tile = 0; tile < tiles; tile++) {
                int at = tile % STAGES, turn = tile / STAGES;
                while (!ptx::mbarrier_try_wait_parity(&empty[at], (turn + 1) & 1)) {
                }
                ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &full[at],
                                               sizeof stage[0]);
                const int place[2] = {int(blockIdx.x) * TILE, tile * TILE};
                ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, &stage[at], &map, place, &full[at]);
            }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        int x = threadIdx.x % TILE, part = (threadIdx.x - 128) / TILE;
        float sum = 0;
        for (int tile = 0; tile < tiles; tile++) {
            int at = tile % STAGES, turn = tile / STAGES;
            while (!ptx::mbarrier_try_wait_parity(&full[at], turn & 1)) {
            }
            for (int y = part; y < TILE; y += 4) {
                int row = y, unit = (x / 4) ^ (row % 8);  // the 128-byte swizzle
                sum += stage[at][row][unit * 4 + x % 4];
            }
            ptx::mbarrier_arrive(&empty[at]);
        }
        atomicAdd(&sums[blockIdx.x * TILE + x], sum);
    }
}

static int tensor_map_pipeline() {
    const int width = 96, rows = 150;  // the last tile is not whole
    void *encode;
    cudaDriverEntryPointQueryResult found;
    CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &encode, 12000, cudaEnableDefault, &found));
    EXPECT(found == cudaDriverEntryPointSuccess);
    float *data, *sums;
    CHECK(cudaMallocManaged(&data, 4 * width * rows));
    CHECK(cudaMallocManaged(&sums, 4 * width));
    for (int i = 0; i < width * rows; i++) data[i] = float(i * 13 % 17);
    for (int i = 0; i < width; i++) sums[i] = 0;
    alignas(64) CUtensorMap map;
    cuuint64_t size[2] = {width, rows}, stride[1] = {4 * width};
    cuuint32_t box[2] = {TILE, TILE}, step[2] = {1, 1};
    auto encode_tiled = reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(encode);
    EXPECT(encode_tiled(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, data, size, stride, box, step,
                        CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                        CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS);
    column_sums<<<width / TILE, 256>>>(map, sums, (rows + TILE - 1) / TILE);
    CHECK(cudaDeviceSynchronize());
    for (int x = 0; x < width; x++) {
        float sum = 0;
        for (int y = 0; y < rows; y++) sum += data[y * width + x];
        EXPECT(sums[x] == sum);
    }
    stride[0] = 4 * width + 4;  // no multiple of 16
    EXPECT(encode_tiled(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, data, size, stride, box, step,
                        CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                        CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_ERROR_INVALID_VALUE);
    return 0;
}

// A kernel that is launched before the one in front of it has ended, and waits for it.
__global__ void first_half(int *data) {
    data[threadIdx.x] = threadIdx.x;
    cudaTriggerProgrammaticLaunchCompletion();
}
__global__ void second_half(int *data) {
    cudaGridDependencySynchronize();
    data[threadIdx.x] *= 2;
}

static int dependent_launch() {
    int *data;
    CHECK(cudaMallocManaged(&data, 256));
    first_half<<<1, 64>>>(data);
    cudaLaunchConfig_t how = {};
    how.gridDim = dim3(1), how.blockDim = dim3(64);
    cudaLaunchAttribute attribute;
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    how.attrs = &attribute, how.numAttrs = 1;
    CHECK(cudaLaunchKernelEx(&how, second_half, data));
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < 64; i++) EXPECT(data[i] == 2 * i);
    return 0;
}

int main(int count, char **arguments) {
    const Program programs[] = {
        {"histogram_of_clusters", histogram_of_clusters},
        {"halo_exchange", halo_exchange},
        {"tensor_map_pipeline", tensor_map_pipeline},
        {"dependent_launch", dependent_launch},
    };
    return run_named(programs, count, arguments);
}
