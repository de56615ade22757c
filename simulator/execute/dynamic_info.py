"""Facts: small records of what one execution of an asynchronous instruction did, for the timing engine.

The time of `tcgen05`, `mbarrier` and global-memory instructions depends on more than the opcode. The interpreter runs a
program first and learns what each execution did: which shape the instruction descriptor asked for, which mbarrier a
commit names, which parity a wait was given. It hands the engine, for each static operation of these families and each
warp that runs it, the facts of its executions as a cycle:

    facts: dict[int, tuple[Fact, ...]]       # warp -> facts; execution r (0, 1, ...) of that warp has facts[r %
        len(facts)]

`simulator.compiler.jobs.cycle` makes the shortest such tuple of a sequence. Loops with short cycles are skipped when
the state of the SM repeats; a sequence without a period is right too, but is simulated to its end. Warps are numbered
over all CTAs of the trace: warp w of CTA c is c * (warps of a CTA) + w. An instruction that a predicate turns off, or
that takes no unit's time, is `Idle`.

| instruction | fact | unit | the issuing warp goes on |
| --- | --- | --- | --- |
| tcgen05.mma, .sp, .ws, .ws.sp | MmaFacts | queue of the SM, in order | after issue |
| tcgen05.cp | CopyFacts | the same queue | after issue |
| tcgen05.shift | ShiftFacts | the same queue | after issue |
| tcgen05.commit | CommitFacts | the same queue; arrives when all earlier work of the warp is complete | after issue |
| wgmma.mma_async | ProductFacts | the matrix unit of the SM, in order | after issue; complete for wait_group |
| wgmma.commit_group; wait_group | CommitProductsFacts; WaitProductsFacts | none | after issue; when complete |
| tcgen05.ld, tcgen05.st | MoveFacts | the sub-core's path to Tensor Memory | after issue; ld's registers come later |
| tcgen05.wait::ld, ::st | MoveWaitFacts | none | when the warp's own ld, or st, are complete |
| tcgen05.alloc; dealloc | AllocateFacts; FreeFacts | none | when so many columns are free; after issue |
| bar.sync, bar.arrive in launches | BarrierFacts | the barriers of the CTA | when all are there; after issue |
| mbarrier.init | InitFacts | none | after issue |
| mbarrier.arrive | ArriveFacts | none | after issue |
| mbarrier.try_wait (test_wait in a loop) | WaitFacts | none | when the phase of that parity is complete |
| a write for which another CTA looks in a loop | PostFacts beside its own | none | after issue |
| barrier.cluster.arrive, .wait | ArriveFacts(CLUSTER, 1); WaitFacts(CLUSTER, waits mod 2) | none | as above |
| the same in launches | ArriveFacts and WaitFacts of `meeting`, one barrier for each phase | none | as above |
| a fence for other SMs before an arrival | FenceFacts beside its own | none | when others see what it has written |
| ld, st of another CTA's shared memory, st.async | PeerFacts | the way to other SMs | after issue; data come later |
| mbarrier.expect_tx, complete_tx | ExpectFacts | none | after issue |
| ld.global, st.global, cp.async | FetchFacts | the way to global memory | after issue; data come later |
| cp.async.commit_group; wait_group, wait_all | CommitGroupFacts; WaitGroupFacts | none | after issue; when complete |
| cp.async.mbarrier.arrive | CopyArriveFacts | none; arrives when the warp's copies have come | after issue |
| cp.async.bulk | BulkFacts | the way to global memory; its bytes count on the mbarrier | after issue |
| cp.async.bulk from shared memory | BulkStoreFacts | the way to global memory | after issue |
| cp.async.bulk.commit_group, wait_group | BulkGroupFacts | none | after issue; when read, or complete |
| relinquish_alloc_permit, fences, inval, test_wait that is not waited for | Idle | none | after issue |

An mbarrier in the engine is one in the hardware's sense: `InitFacts` gives it a count; each arrival (of a thread, or of
a commit) lowers the pending count; at zero the phase is complete, its parity flips and the count begins anew. A wait
for parity p goes on when the current phase's parity is not p, so the usual wait for parity 1 on a fresh barrier passes.
Which commit a wait waits for follows, and needs no index. `CLUSTER` is there from the start and waits for every warp
that has a program and has not ended.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from isa.fragments.metadata import stored_k

Barrier = tuple[int, int]  # an mbarrier: rank of the CTA whose shared memory it lies in, byte offset there
CLUSTER: Barrier = (-1, 0)  # the barrier of all CTAs, barrier.cluster
_PHASE_BITS = 32  # more phases than a launch can have
NEXT = -3  # in place of a rank: the end of all CTAs of a cluster, whose places the next cluster takes
STORES = -2  # in place of a rank: a write to global memory, for which threads of other CTAs look in a loop


@dataclass(frozen=True, slots=True)
class MmaFacts:
    """One tcgen05.mma.

    Attributes:
        kind: "f16", "tf32", "f8f6f4", "i8", "mxf8f6f4", "mxf4" or "mxf4nvf4".
        m, n, k: the shape as named: M of the whole group of CTAs, K in logical columns (a sparse A stores half of
            them).
        cta_group: 1 or 2.
        a_in_tmem: A comes from Tensor Memory, not from shared memory.
        a_bits, b_bits: bits that one stored element takes in memory, padding included: 16 for f16, 32 for tf32, 8 for
            every type of f8f6f4 and mxf8f6f4 (fp4 and fp6 lie in bytes there), 4 for mxf4 and mxf4nvf4.
    """

    kind: str
    m: int
    n: int
    k: int
    cta_group: int
    ws: bool
    sparse: bool
    a_in_tmem: bool
    a_bits: int
    b_bits: int

    @property
    def k_stored(self) -> int:
        """Columns of A that are stored."""
        return stored_k(self.k, self.sparse)

    @property
    def fma(self) -> int:
        """Multiply-adds as named, pruned products included."""
        return self.m * self.n * self.k

    @property
    def performed_fma(self) -> int:
        """Multiply-adds that are performed."""
        return self.m * self.n * self.k_stored


@dataclass(frozen=True, slots=True)
class ProductFacts:
    """One wgmma.mma_async, as one of the four warps of its warpgroup issues it.

    Attributes:
        n: columns of D; M is 64, and a row of A as stored has 32 bytes.
        sparse: whether B has twice as many rows as A has stored columns.
        a_in_registers: A comes from registers, not from shared memory.
        integer: whether the accumulators are integers.
    """

    n: int
    sparse: bool
    a_in_registers: bool
    integer: bool


@dataclass(frozen=True, slots=True)
class CommitProductsFacts:
    """wgmma.commit_group."""


@dataclass(frozen=True, slots=True)
class WaitProductsFacts:
    """wgmma.wait_group: all groups of the warp but the last so many are complete."""

    groups: int


@dataclass(frozen=True, slots=True)
class CopyFacts:
    """One tcgen05.cp.

    Attributes:
        shared_bytes: bytes read from the shared memory of one CTA.
        tmem_bytes: bytes written to the Tensor Memory of one CTA, copies by multicast and decompression counted.
    """

    shared_bytes: int
    tmem_bytes: int
    cta_group: int


@dataclass(frozen=True, slots=True)
class ShiftFacts:
    """One tcgen05.shift.down: bytes of the cells that move, in one CTA."""

    tmem_bytes: int
    cta_group: int


@dataclass(frozen=True, slots=True)
class MoveFacts:
    """One tcgen05.ld or tcgen05.st of a warp.

    Attributes:
        store: st, not ld.
        cells: 32-bit cells of Tensor Memory that are read or written (32 lanes x columns for .32x32b; two a register
            with pack or unpack).
    """

    store: bool
    cells: int


@dataclass(frozen=True, slots=True)
class MoveWaitFacts:
    """tcgen05.wait::st (`store`) or tcgen05.wait::ld."""

    store: bool


@dataclass(frozen=True, slots=True)
class AllocateFacts:
    """tcgen05.alloc of so many columns of Tensor Memory, in one CTA."""

    columns: int


@dataclass(frozen=True, slots=True)
class FreeFacts:
    """tcgen05.dealloc of so many columns, in one CTA."""

    columns: int


@dataclass(frozen=True, slots=True)
class CommitFacts:
    """tcgen05.commit: arrives once on each of these mbarriers (several with .multicast::cluster)."""

    barriers: tuple[Barrier, ...]
    cta_group: int


@dataclass(frozen=True, slots=True)
class InitFacts:
    """mbarrier.init: arrivals that complete a phase."""

    barrier: Barrier
    count: int


@dataclass(frozen=True, slots=True)
class ArriveFacts:
    """mbarrier.arrive by threads of a warp: `count` arrivals together, which announce `expect` bytes first.

    Attributes:
        drops: whether later phases expect as many arrivals fewer (arrive_drop).
        others: mbarriers at which other threads of the warp arrive meanwhile, one for each arrival.
    """

    barrier: Barrier
    count: int
    expect: int = 0
    drops: bool = False
    others: tuple[Barrier, ...] = ()


@dataclass(frozen=True, slots=True)
class ExpectFacts:
    """mbarrier.expect_tx, or complete_tx with `count` below 0: bytes more that the phase waits for."""

    barrier: Barrier
    count: int


@dataclass(frozen=True, slots=True)
class WaitFacts:
    """mbarrier.try_wait.parity, repeated until it succeeds: the phase of this parity (0 or 1) must be complete."""

    barrier: Barrier
    parity: int


@dataclass(frozen=True, slots=True)
class PostFacts:
    """A write to global memory that ends a wait of other CTAs, whose `WaitFacts` name the same "barrier"."""

    barrier: Barrier


class FetchKind(Enum):
    """What an access to global memory does: a load; a store; cp.async.cg, past L1; cp.async.ca, which L1 keeps."""

    LOAD = "load"
    STORE = "store"
    COPY = "copy"
    CACHED_COPY = "cached copy"


@dataclass(frozen=True, slots=True)
class FetchFacts:
    """An access of a warp to global memory.

    Attributes:
        lines, sectors: cache lines of 128 bytes and sectors of 32 that its lanes touch.
        wavefronts: of a copy, what it takes of shared memory when it arrives.
        where: the numbers of the sectors, where the L1 cache is modelled (launches of kernels); else empty.
        kept: of a load, whether L1 may have it.
    """

    kind: FetchKind
    lines: int
    sectors: int
    wavefronts: int = 0
    where: tuple[int, ...] = ()
    kept: bool = True


@dataclass(frozen=True, slots=True)
class CommitGroupFacts:
    """cp.async.commit_group."""


@dataclass(frozen=True, slots=True)
class WaitGroupFacts:
    """cp.async.wait_group; cp.async.wait_all if `commit`: what is not committed is waited for, too."""

    groups: int
    commit: bool = False


@dataclass(frozen=True, slots=True)
class CopyArriveFacts:
    """cp.async.mbarrier.arrive by threads of a warp: `count` arrivals together, when all copies of the warp so far have
    come; `counted` (.noinc): the phase expects them anyway."""

    barrier: Barrier
    count: int
    counted: bool


@dataclass(frozen=True, slots=True)
class BulkFacts:
    """cp.async.bulk: bytes to shared memory, which touch this many lines, and the mbarrier that they complete on.

    Attributes:
        tensor: whether a tensor map says which bytes: `lines` are then those that each row of the box touches.
        others: of a copy to several CTAs, the mbarriers of the others, on which as many bytes complete.
        peer: whether the bytes come from the shared memory of the CTA that asks.
    """

    barrier: Barrier
    bytes: int
    lines: int
    tensor: bool = False
    others: tuple[Barrier, ...] = ()
    peer: bool = False


@dataclass(frozen=True, slots=True)
class PeerFacts:
    """An access of a warp to shared memory of other CTAs of its cluster.

    Attributes:
        store: whether it stores, and does not load.
        bytes: that it moves.
        counts: of st.async, the mbarriers and how many bytes count on each when they are there.
    """

    store: bool
    bytes: int
    counts: tuple[tuple[Barrier, int], ...] = ()


@dataclass(frozen=True, slots=True)
class FenceFacts:
    """What an arrival for other SMs waits for before it: that these see what its warp has written."""


@dataclass(frozen=True, slots=True)
class BulkStoreFacts:
    """cp.async.bulk from shared memory: bytes of the warp's open bulk group."""

    bytes: int


@dataclass(frozen=True, slots=True)
class BulkGroupFacts:
    """cp.async.bulk.commit_group (`groups` -1), or wait_group: all bulk groups but the last so many.

    Attributes:
        reads: whether the wait is for what they read of shared memory alone.
    """

    groups: int
    reads: bool = False


@dataclass(frozen=True, slots=True)
class BarrierFacts:
    """An arrival of a warp at a barrier of its CTA, bar.sync or bar.arrive.

    Attributes:
        number: of the barrier.
        warps: for how many it waits; None: all of the CTA.
        waits: whether the warp waits there; bar.arrive does not.
    """

    number: int
    warps: int | None
    waits: bool


@dataclass(frozen=True, slots=True)
class Idle:
    """An execution that takes an issue slot and nothing else."""


QueuedFacts = MmaFacts | CopyFacts | ShiftFacts | CommitFacts
TensorMemoryFacts = MoveFacts | MoveWaitFacts | AllocateFacts | FreeFacts
GlobalFacts = (
    FetchFacts | CommitGroupFacts | WaitGroupFacts | CopyArriveFacts | BulkFacts | BulkStoreFacts | BulkGroupFacts
    | PeerFacts
)  # fmt: skip
Fact = (
    QueuedFacts | TensorMemoryFacts | InitFacts | ArriveFacts | ExpectFacts | WaitFacts | PostFacts | FenceFacts
    | GlobalFacts | ProductFacts | CommitProductsFacts | WaitProductsFacts | BarrierFacts | Idle
)  # fmt: skip


def meeting(first: int, phase: int) -> Barrier:
    """The barrier of a cluster in a launch, in one of its phases, which are counted from 0.

    Args:
        first: number of the cluster's first CTA in the grid.
    """
    return CLUSTER[0], 1 + (first << _PHASE_BITS) + phase
