// Kernels whose CTAs use one another's shared memory. clusters.ptx is what nvcc 13.0 makes of this:
//     nvcc -std=c++17 -arch=sm_90a -ptx -o clusters.ptx clusters.cu
#include <cstdint>

#define CLUSTER(n) __cluster_dims__(n, 1, 1)

__device__ uint32_t rank() { uint32_t r; asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r)); return r; }
__device__ uint32_t size() { uint32_t r; asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(r)); return r; }
__device__ void sync() { asm volatile("barrier.cluster.arrive.release; barrier.cluster.wait.acquire;" ::: "memory"); }
__device__ uint32_t shared(void* p) { return (uint32_t)__cvta_generic_to_shared(p); }
__device__ uint32_t at(uint32_t address, uint32_t r) {
  uint32_t mapped;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(mapped) : "r"(address), "r"(r));
  return mapped;
}

// Sums over the CTAs of a cluster of four: plain loads by .shared::cluster, generic loads, and generic atomics agree.
extern "C" __global__ void CLUSTER(4) sums(const int* in, int* out) {
  __shared__ int own[64];
  __shared__ int total[64];
  int t = threadIdx.x;
  own[t] = in[blockIdx.x * 64 + t];
  total[t] = 0;
  sync();
  int plain = 0, generic = 0;
  for (uint32_t r = 0; r < size(); r++) {
    int value;
    asm volatile("ld.shared::cluster.s32 %0, [%1];" : "=r"(value) : "r"(at(shared(&own[t]), r)));
    plain += value;
    int* other;
    asm volatile("mapa.u64 %0, %1, %2;" : "=l"(other) : "l"(&own[t]), "r"(r));
    generic += *(volatile int*)other;
    int* where;
    asm volatile("mapa.u64 %0, %1, %2;" : "=l"(where) : "l"(&total[t]), "r"(r));
    atomicAdd(where, own[t]);
  }
  sync();
  out[blockIdx.x * 64 + t] = plain == generic && plain == total[t] ? plain : -1;
}

// A token goes round: each CTA waits at its own mbarrier, adds its number and hands the token to the next one.
extern "C" __global__ void CLUSTER(8) ring(int* out, int rounds) {
  __shared__ int token;
  __shared__ __align__(8) uint64_t bar;
  uint32_t r = rank(), next = (r + 1) % size(), b = shared(&bar);
  if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1; fence.mbarrier_init.release.cluster;" ::"r"(b));
  if (threadIdx.x == 0) token = 0;
  sync();
  if (threadIdx.x == 0)
    for (int round = 0; round < rounds; round++) {
      if (r || round) {
        uint32_t parity = (r ? round : round - 1) & 1, done = 0;
        while (!done)
          asm volatile("{.reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2; selp.b32 %0, 1, 0, p;}"
                       : "=r"(done) : "r"(b), "r"(parity) : "memory");
      }
      asm volatile("st.shared::cluster.s32 [%0], %1;" ::"r"(at(shared(&token), next)), "r"(token + (int)r + 1) : "memory");
      asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(at(b, next)) : "memory");
    }
  sync();
  if (threadIdx.x == 0) out[blockIdx.x] = token;
}

// Where addresses lie: the rank that getctarank gives of an address of each CTA, and whether isspacep calls it one's own.
extern "C" __global__ void CLUSTER(2) places(int* out) {
  __shared__ int own[4];
  if (threadIdx.x == 0) {
    int* mine = own;
    for (uint32_t r = 0; r < 2; r++) {
      uint32_t found, cta, cluster;
      int* other;
      asm volatile("mapa.u64 %0, %1, %2;" : "=l"(other) : "l"(mine), "r"(r));
      asm volatile("getctarank.u64 %0, %1;" : "=r"(found) : "l"(other));
      asm volatile("{.reg .pred p; isspacep.shared::cta p, %1; selp.b32 %0, 1, 0, p;}" : "=r"(cta) : "l"(other));
      asm volatile("{.reg .pred p; isspacep.shared::cluster p, %1; selp.b32 %0, 1, 0, p;}" : "=r"(cluster) : "l"(other));
      out[(blockIdx.x * 2 + r) * 4] = found;
      out[(blockIdx.x * 2 + r) * 4 + 1] = cta;
      out[(blockIdx.x * 2 + r) * 4 + 2] = cluster;
      out[(blockIdx.x * 2 + r) * 4 + 3] = shared(own) >> 24;
    }
  }
  sync();
}

// What goes wrong. 0: a CTA loads from another one by ld.shared; 1: one that has exited; 2: one never arrives.
extern "C" __global__ void CLUSTER(2) wrong(int* out, int which) {
  __shared__ int own[4];
  own[0] = 7;
  if (which != 2) sync();
  if (which == 0 && threadIdx.x == 0) {
    int value;
    asm volatile("ld.shared.s32 %0, [%1];" : "=r"(value) : "r"(at(shared(own), rank() ^ 1)));
    out[0] = value;
  }
  if (which == 1) {
    if (rank() == 1) return;
    for (int i = 0; i < 100; i++) asm volatile("nanosleep.u32 100;");
    int value;
    asm volatile("ld.shared::cluster.s32 %0, [%1];" : "=r"(value) : "r"(at(shared(own), 1)));
    out[0] = value;
  }
  if (which == 2) {
    if (rank() == 0) asm volatile("barrier.cluster.arrive; barrier.cluster.wait;");
    else for (int i = 0; i < 4; i++) asm volatile("bar.sync 1, 64;");
  }
}

// Each of two CTAs brings half of a box to both: cp.async.bulk.tensor with .multicast::cluster.
struct __align__(64) Map { char bytes[128]; };
extern "C" __global__ void CLUSTER(2) multicast(const __grid_constant__ Map map, int* out) {
  __shared__ __align__(1024) int box[512];
  __shared__ __align__(8) uint64_t bar;
  uint32_t b = shared(&bar), r = rank();
  if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1; fence.mbarrier_init.release.cluster;" ::"r"(b));
  sync();
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 2048;" ::"r"(b));
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%3, %4}], [%2], %5;"
                 ::"r"(shared(box) + r * 1024), "l"(&map), "r"(b), "r"(0), "r"(8 * (blockIdx.x / 2 * 2 + r)), "h"((short)3) : "memory");
  }
  uint32_t done = 0;
  while (!done)
    asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.b32 %0, 1, 0, p;}" : "=r"(done) : "r"(b) : "memory");
  for (int i = threadIdx.x; i < 512; i += blockDim.x) out[blockIdx.x * 512 + i] = box[i];
  sync();
}
