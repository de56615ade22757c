// Two kernels that wait at mbarriers, as libcu++ writes them: a pipeline between producers and consumers with
// asynchronous copies, and a barrier that threads arrive at, wait at, and leave.
#include <cooperative_groups.h>
#include <cuda/barrier>
#include <cuda/pipeline>

namespace cg = cooperative_groups;
constexpr int kStages = 2, kTile = 128;

// D[b][i] = sum over t of (t + 1) * X[b][t][i]: warp 0 copies, warps 1 to 4 add up
extern "C" __global__ void pipeline_sum(const float* x, float* d, int tiles) {
  __shared__ alignas(16) float tile[kStages][kTile];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, kStages> state;
  auto block = cg::this_thread_block();
  const bool produces = threadIdx.x < 32;
  auto pipe = cuda::make_pipeline(block, &state, produces ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer);
  const float* mine = x + blockIdx.x * tiles * kTile;
  if (produces) {
    for (int t = 0; t < tiles; ++t) {
      pipe.producer_acquire();
      cuda::memcpy_async(&tile[t % kStages][4 * threadIdx.x], mine + t * kTile + 4 * threadIdx.x,
                         cuda::aligned_size_t<16>(16), pipe);
      pipe.producer_commit();
    }
  } else {
    const int i = threadIdx.x - 32;
    float sum = 0;
    for (int t = 0; t < tiles; ++t) {
      pipe.consumer_wait();
      sum += (t + 1) * tile[t % kStages][i];
      pipe.consumer_release();
    }
    d[blockIdx.x * kTile + i] = sum;
  }
}

// Each thread writes a word, arrives, does something else, waits, and reads its neighbour's word; after two rounds the
// upper half of the threads leaves
extern "C" __global__ void barrier_rounds(const int* x, int* d, int rounds) {
  __shared__ int word[128];
  __shared__ cuda::barrier<cuda::thread_scope_block> bar;
  if (threadIdx.x == 0) init(&bar, blockDim.x);
  __syncthreads();
  int n = blockDim.x, value = x[blockIdx.x * n + threadIdx.x];
  const int place = blockIdx.x * n + threadIdx.x;
  for (int r = 0; r < rounds; ++r) {
    word[threadIdx.x] = value;
    auto token = bar.arrive();
    int own = value * 3 + r;
    bar.wait(std::move(token));
    value = own ^ word[(threadIdx.x + 1) % n];
    bar.arrive_and_wait();
    if (r == 1) {
      if (threadIdx.x >= n / 2) {
        bar.arrive_and_drop();
        d[place] = value;
        return;
      }
      n /= 2;
      bar.arrive_and_wait();
    }
  }
  d[place] = value;
}
