// Instructions that CUDA C++ has no name for, as macros: a line of PTX then belongs to the line that uses it.
#pragma once
#include <cuda_fp16.h>

#define SHARED(p) ((unsigned)__cvta_generic_to_shared(p))
#define BAR_SYNC(id, n) asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(n) : "memory")
#define BAR_ARRIVE(id, n) asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(n) : "memory")
#define CP_ASYNC(to, from) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(SHARED(to)), "l"(from) : "memory")
#define CP_COMMIT() asm volatile("cp.async.commit_group;" ::: "memory")
#define CP_WAIT(n) asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory")
#define CP_ARRIVE(bar) asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(SHARED(bar)) : "memory")
#define LD_ACQUIRE_GPU(v, p) asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory")
#define ST_RELEASE_GPU(p, v) asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory")
#define RED_RELAXED_GPU(p, v) asm volatile("red.relaxed.gpu.global.add.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory")
#define FENCE_GPU() asm volatile("fence.acq_rel.gpu;" ::: "memory")
#define LDMATRIX_X4(r, p) \
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" \
               : "=r"((r)[0]), "=r"((r)[1]), "=r"((r)[2]), "=r"((r)[3]) : "r"(SHARED(p)) : "memory")
#define LDMATRIX_X2_TRANS(r, p) \
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];" \
               : "=r"((r)[0]), "=r"((r)[1]) : "r"(SHARED(p)) : "memory")
#define LDMATRIX_X2(r, p) \
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" \
               : "=r"((r)[0]), "=r"((r)[1]) : "r"(SHARED(p)) : "memory")
#define LDMATRIX_X4_TRANS(r, p) \
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];" \
               : "=r"((r)[0]), "=r"((r)[1]), "=r"((r)[2]), "=r"((r)[3]) : "r"(SHARED(p)) : "memory")
#define MMA(d, a, b) \
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, " \
               "{%0, %1, %2, %3};" \
               : "+f"((d)[0]), "+f"((d)[1]), "+f"((d)[2]), "+f"((d)[3]) \
               : "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), "r"((b)[0]), "r"((b)[1]))
#define MMA_SP(d, a, b, e, selector) \
  asm volatile("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, " \
               "{%4, %5, %6, %7}, {%8, %9, %10, %11}, {%0, %1, %2, %3}, %12, " #selector ";" \
               : "+f"((d)[0]), "+f"((d)[1]), "+f"((d)[2]), "+f"((d)[3]) \
               : "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), "r"((b)[0]), "r"((b)[1]), "r"((b)[2]), \
                 "r"((b)[3]), "r"(e))

// Barriers in shared memory that count arrivals and bytes.
#define MBAR_INIT(bar, n) asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(SHARED(bar)), "r"(n) : "memory")
#define MBAR_ARRIVE(bar) \
  asm volatile("{ .reg .b64 state; mbarrier.arrive.shared::cta.b64 state, [%0]; }" ::"r"(SHARED(bar)) : "memory")
#define MBAR_EXPECT(bar, bytes) \
  asm volatile("{ .reg .b64 state; mbarrier.arrive.expect_tx.shared::cta.b64 state, [%0], %1; }" ::"r"(SHARED(bar)), \
               "r"(bytes) : "memory")
#define MBAR_WAIT(bar, parity) \
  asm volatile("{\n .reg .pred done;\n again_%=:\n mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n" \
               " @!done bra again_%=;\n}" ::"r"(SHARED(bar)), "r"(parity) : "memory")
#define MBAR_TEST_WAIT(bar, parity) \
  asm volatile("{\n .reg .pred done;\n again_%=:\n mbarrier.test_wait.parity.shared::cta.b64 done, [%0], %1;\n" \
               " @!done bra again_%=;\n}" ::"r"(SHARED(bar)), "r"(parity) : "memory")

// Copies of whole rows, and what orders them with ordinary accesses.
#define BULK_LOAD(to, from, bytes, bar) \
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" \
               ::"r"(SHARED(to)), "l"(from), "r"(bytes), "r"(SHARED(bar)) : "memory")
#define BULK_MULTICAST(to, from, bytes, bar, ranks) \
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, " \
               "[%3], %4;" ::"r"(SHARED(to)), "l"(from), "r"(bytes), "r"(SHARED(bar)), "h"(ranks) : "memory")
#define BULK_STORE(to, from, bytes) \
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(SHARED(from)), "r"(bytes) \
               : "memory")
#define BULK_COMMIT() asm volatile("cp.async.bulk.commit_group;" ::: "memory")
#define BULK_WAIT(n) asm volatile("cp.async.bulk.wait_group %0;" ::"n"(n) : "memory")
#define BULK_WAIT_READ(n) asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(n) : "memory")
#define FENCE_ASYNC() asm volatile("fence.proxy.async.shared::cta;" ::: "memory")
#define FENCE_MBAR_INIT() asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory")

// Clusters.
#define CLUSTER_ARRIVE() asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory")
#define CLUSTER_ARRIVE_RELAXED() asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory")
#define CLUSTER_WAIT() asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory")
#define CLUSTER_RANK(r) asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r))
#define MAP(to, p, rank) asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(to) : "r"(SHARED(p)), "r"(rank))
#define LD_CLUSTER(v, at) asm volatile("ld.shared::cluster.s32 %0, [%1];" : "=r"(v) : "r"(at) : "memory")
#define ST_CLUSTER(at, v) asm volatile("st.shared::cluster.s32 [%0], %1;" ::"r"(at), "r"(v) : "memory")
#define MBAR_ARRIVE_REMOTE(at) \
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(at) : "memory")
#define MBAR_WAIT_CLUSTER(bar, parity) \
  asm volatile("{\n .reg .pred done;\n again_%=:\n" \
               " mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n" \
               " @!done bra again_%=;\n}" ::"r"(SHARED(bar)), "r"(parity) : "memory")

// Matrix instructions of Hopper and Blackwell, whose operands lie in shared memory.
#define WGMMA_FENCE() asm volatile("wgmma.fence.sync.aligned;" ::: "memory")
#define WGMMA_COMMIT() asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory")
#define WGMMA_WAIT(n) asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(n) : "memory")
#define WGMMA(d, a, b, scale) \
  asm volatile("{\n .reg .pred p;\n setp.ne.b32 p, %6, 0;\n wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 " \
               "{%0, %1, %2, %3}, %4, %5, p, 1, 1, 0, 0;\n}" \
               : "+f"((d)[0]), "+f"((d)[1]), "+f"((d)[2]), "+f"((d)[3]) : "l"(a), "l"(b), "r"((unsigned)(scale)) : "memory")
#define WGMMA_SP(d, a, b, e, scale) \
  asm volatile("{\n .reg .pred p;\n setp.ne.b32 p, %7, 0;\n wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16 " \
               "{%0, %1, %2, %3}, %4, %5, %6, 0, p, 1, 1, 0, 0;\n}" \
               : "+f"((d)[0]), "+f"((d)[1]), "+f"((d)[2]), "+f"((d)[3]) : "l"(a), "l"(b), "r"(e), "r"((unsigned)(scale)) : "memory")
// A descriptor of a matrix whose blocks of 8 rows of 16 bytes are contiguous: bytes to the next block along k, and down.
#define DESCRIPTOR(p, along, down) \
  ((unsigned long long)(SHARED(p) >> 4 & 0x3fff) | (unsigned long long)((along) >> 4) << 16 | \
   (unsigned long long)((down) >> 4) << 32)
#define TCGEN_ALLOC(slot, n) \
  asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(SHARED(slot)), "n"(n) : "memory")
#define TCGEN_DEALLOC(at, n) \
  asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(at), "n"(n) : "memory")
#define TCGEN_MMA(d, a, b, idesc, scale) \
  asm volatile("{\n .reg .pred p;\n setp.ne.b32 p, %4, 0;\n tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, p;\n}" \
               ::"r"(d), "l"(a), "l"(b), "r"(idesc), "r"((unsigned)(scale)) : "memory")
#define TCGEN_COMMIT(bar) \
  asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(SHARED(bar)) : "memory")
#define TCGEN_LD_X8(r, at) \
  asm volatile("tcgen05.ld.sync.aligned.32x32b.x8.b32 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8];" \
               : "=r"((r)[0]), "=r"((r)[1]), "=r"((r)[2]), "=r"((r)[3]), "=r"((r)[4]), "=r"((r)[5]), "=r"((r)[6]), \
                 "=r"((r)[7]) : "r"(at) : "memory")
#define TCGEN_WAIT_LD() asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory")
#define TCGEN_BEFORE() asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory")
#define TCGEN_AFTER() asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory")
#define ELECT(p) \
  asm volatile("{\n .reg .pred chosen;\n elect.sync _|chosen, 0xffffffff;\n selp.b32 %0, 1, 0, chosen;\n}" : "=r"(p))
