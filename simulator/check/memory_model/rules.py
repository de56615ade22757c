"""The rules of order by their short names: what orders two accesses, and where that is stated.

docs/memory_order.md has each of them with an example and with one that breaks it. A race quotes the rule that its two
threads would need.
"""

from __future__ import annotations

from typing import NamedTuple


class OrderRule(NamedTuple):
    """One rule of order.

    Attributes:
        rule: what orders what, in words.
        section: where PTX states it, or why it is assumed.
    """

    rule: str
    section: str


_PATTERNS = "8.8 (release and acquire patterns)"
_SYNCHRONIZES = "8.9.4 (memory synchronization)"
_ASYNCHRONOUS = "8.9.1.1 (asynchronous operations)"

ORDER: dict[str, OrderRule] = {
    "program-order": OrderRule(
        "what one thread does is in the order of its instructions; two threads are in no order by themselves, lanes of "
        "one warp no more than others",
        "PTX ISA 9.0, 8.9.1 (program order), 8.5 (the warp is no scope)",
    ),
    "one-instruction": OrderRule(
        "lanes of one instruction are in no order: those that write the same bytes write the same value, or use an "
        "atomic operation",
        "PTX ISA 9.0, 8.7.1 (conflict and data races)",
    ),
    "same-value": OrderRule(
        "writes that leave each byte as it was are a note and no finding",
        "assumed: PTX calls them races, too, but no result depends on them",
    ),
    "warp-sync": OrderRule(
        "lanes of a warp are in order if both come to a bar.warp.sync whose mask names them",
        "PTX ISA 9.0, 9.7.13.2 (bar.warp.sync)",
    ),
    "warp-meeting": OrderRule(
        "lanes that meet at another instruction with .sync (shfl, vote, match, redux, mma, wgmma, tcgen05) are in "
        "order; elect.sync, ldmatrix and stmatrix order nobody",
        "assumed: PTX says that they wait for each other, and promises no order of memory",
    ),
    "cta-barrier": OrderRule(
        "threads of a CTA are in order if both come to the same bar.sync, or one to bar.arrive and the other to its "
        "bar.sync",
        f"PTX ISA 9.0, 9.7.13.1 (bar, barrier), {_SYNCHRONIZES}",
    ),
    "barrier-arrive": OrderRule(
        "bar.arrive hands on what its thread did before it, and lets it know nothing of the others",
        f"PTX ISA 9.0, 9.7.13.1 (bar, barrier), {_SYNCHRONIZES}",
    ),
    "named-barrier": OrderRule(
        "a barrier orders the threads that come to it by its number in the same phase, and no others",
        f"PTX ISA 9.0, 9.7.13.1 (bar, barrier), {_SYNCHRONIZES}",
    ),
    "cluster-barrier": OrderRule(
        "threads of a cluster are in order if one comes to barrier.cluster.arrive (.release) and the other to the "
        "barrier.cluster.wait of that phase",
        f"PTX ISA 9.0, 9.7.13.3 (barrier.cluster), {_SYNCHRONIZES}",
    ),
    "cluster-exit": OrderRule(
        "a CTA of a cluster exits after others have accessed its shared memory: it waits for them",
        "PTX ISA 9.0, 9.7.13.3 (barrier.cluster), 5.1.7 (shared state space)",
    ),
    "release-acquire": OrderRule(
        "threads of different CTAs are in order if one releases at a location (.release, or a fence and a strong "
        "write) and the other acquires what it reads there (.acquire, or a strong read and a fence)",
        f"PTX ISA 9.0, {_PATTERNS}, {_SYNCHRONIZES}",
    ),
    "fence-release": OrderRule(
        "a fence before a strong write of the same thread makes that write a release", f"PTX ISA 9.0, {_PATTERNS}"
    ),
    "fence-acquire": OrderRule(
        "a fence behind a strong read of the same thread makes that read an acquire", f"PTX ISA 9.0, {_PATTERNS}"
    ),
    "fence-through-barrier": OrderRule(
        "what a thread has fenced goes through a barrier to others, whose strong writes hand it on",
        "assumed: PTX asks for a fence by the thread that writes, and kernels leave it out",
    ),
    "observation": OrderRule(
        "who reads what an atomic operation wrote sees what was released before in the same chain of atomic operations",
        f"PTX ISA 9.0, 8.9.2 (observation order), {_SYNCHRONIZES}",
    ),
    "scope": OrderRule(
        "strong operations, releases and acquires reach the threads of their scope alone: .cta, .cluster, .gpu, .sys",
        "PTX ISA 9.0, 8.5 (scope), 8.7 (morally strong operations)",
    ),
    "strong-operations": OrderRule(
        "two strong operations whose scopes reach each other do not race (.relaxed, .acquire, .release, atom, red); "
        "without release and acquire they order nothing else",
        "PTX ISA 9.0, 8.4 (operation types), 8.7 (morally strong operations)",
    ),
    "volatile": OrderRule(
        "a .volatile access is strong where a value that is read so decides a branch: threads wait by it; else it "
        "counts as a weak one",
        "PTX ISA 9.0, 8.4.2 (volatile operation); that data are weak is assumed, and stricter than PTX",
    ),
    "kernel-boundary": OrderRule(
        "a launch comes after all that was done before it, and before all that is done after it; CTAs of one launch "
        "are in no order",
        f"PTX ISA 9.0, {_SYNCHRONIZES} (API synchronization)",
    ),
    "mbarrier": OrderRule(
        "mbarrier.arrive (.release) hands on to mbarrier.test_wait and try_wait (.acquire) of the same phase",
        "PTX ISA 9.0, 9.7.13.15.13 (mbarrier.arrive), 9.7.13.15.16 (mbarrier.test_wait)",
    ),
    "mbarrier-transactions": OrderRule(
        "who has waited for the phase of an mbarrier sees the bytes of the bulk copies that completed on it, if the "
        "phase expected them",
        f"PTX ISA 9.0, 9.7.13.15.5 (tracking asynchronous operations), {_ASYNCHRONOUS}",
    ),
    "cp-async-groups": OrderRule(
        "the bytes of a cp.async are there for its own thread after cp.async.wait_group, and for others behind a "
        "barrier after that",
        f"PTX ISA 9.0, 9.7.9.25.3.3 (cp.async.wait_group), {_ASYNCHRONOUS}",
    ),
    "bulk-groups": OrderRule(
        "a bulk copy out of shared memory has read its bytes after cp.async.bulk.wait_group(.read) of its thread",
        f"PTX ISA 9.0, 9.7.9.25.6.2 (cp.async.bulk.wait_group), {_ASYNCHRONOUS}",
    ),
    "proxy": OrderRule(
        "the asynchronous proxy sees ordinary stores behind a fence.proxy.async, of the thread that stored or of one "
        "that comes after it in order",
        "PTX ISA 9.0, 8.6 (proxies), 9.7.13.4 (fence.proxy.async)",
    ),
    "wgmma-pipeline": OrderRule(
        "a wgmma.mma_async reads shared memory until wgmma.wait_group; others write there behind a barrier after that",
        f"PTX ISA 9.0, 9.7.15.7 (wgmma.fence, commit_group, wait_group), {_ASYNCHRONOUS}",
    ),
    "tcgen05-pipeline": OrderRule(
        "tcgen05 instructions are in order by their waits, commits and fences, and by pairs that are pipelined",
        "PTX ISA 9.0, 9.7.16.6 (memory consistency of tcgen05)",
    ),
}
"""By short name, which is a heading of docs/memory_order.md."""

ORDERS_OF: dict[str, str] = {
    "cp.async.bulk": "mbarrier-transactions",
    "cp.reduce.async.bulk": "bulk-groups",
    "cp.async": "cp-async-groups",
    "wgmma": "wgmma-pipeline",
    "tcgen05": "tcgen05-pipeline",
}
"""By the beginning of the opcode of an asynchronous operation: the rule that says when its accesses are complete."""
