"""Links between two accesses to the same cells: which pairs the hardware orders, what a pair lacks, and how to fix it.

PTX calls those pairs that need no wait "implicitly pipelined"; they differ between its versions.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from isa.errors import IsaError
from isa.forms.tcgen05 import is_tcgen05_mma
from simulator.check.accesses import Access, Cells, Execution

VERSIONS = ("9.0", "9.4")
EITHER = "9.0 or 9.4"
_INPUTS = ("A", "metadata", "scale factors of A", "scale factors of B")


class Link(Enum):
    """The first link that is missing between two accesses; the value is the name of its rule."""

    COMMIT = "missing-commit"
    MBARRIER = "missing-mbarrier-wait"
    WAIT_LD = "missing-wait-ld"
    WAIT_ST = "missing-wait-st"
    BEFORE = "missing-fence-before"
    AFTER = "missing-fence-after"
    SYNC = "missing-thread-sync"
    PROXY = "missing-proxy-fence"
    RACE = "shared-memory-race"


@dataclass(frozen=True)
class Rules:
    """The implicitly pipelined pairs of a PTX version: "9.0" (as far as 9.3) or "9.4"; or those of `EITHER`.

    9.0, PTX ISA 9.0, 9.7.16.6.2: mma -> mma of the same accumulator, shape and kind; cp -> mma; shift -> mma; shift ->
    cp.4x256b; mma -> shift; in one thread, or in several through fences and a barrier.
    9.4: within one warp alone. What an mma reads as A or metadata -> D of an mma, cp, shift; mma -> mma of the same
    accumulator and shape; cp -> what an mma reads as A or metadata; shift -> what an mma reads, and cp.4x256b; st ->
    ld, st -> st, ld -> st. Scale factors are not named there; they are taken like metadata (inferred: kernels that
    NVIDIA publishes rely on it). "Same accumulator and shape" is taken as: the same cells. "Same address" of cp and mma
    is taken as: cells in common (assumed).
    """

    ptx: str

    def __post_init__(self) -> None:
        if self.ptx not in (*VERSIONS, EITHER):
            raise IsaError(self.ptx, 0, f"no rules of order for PTX '{self.ptx}'", ", ".join(VERSIONS))

    def pipelined(self, before: Access, after: Access) -> bool:
        """Whether two accesses to the same cells are ordered as soon as their instructions are issued in order."""
        if self.ptx == EITHER:
            return any(Rules(version).pipelined(before, after) for version in VERSIONS)
        first, second = before.operation, after.operation
        pair = first.kind, second.kind
        if pair == ("shift", "cp"):
            listed = "4x256b" in second.event.kind
        elif pair == ("mma", "mma") and before.role == after.role == "D":
            listed = first.accumulators == second.accumulators and _kind(first) == _kind(second)
        elif self.ptx == "9.0":
            listed = pair in (("cp", "mma"), ("shift", "mma"), ("mma", "shift"))
        else:
            listed = self._within_a_warp(pair, before, after)
        return listed and (self.ptx == "9.0" or first.actor == second.actor)

    @staticmethod
    def _within_a_warp(pair: tuple[str, str], before: Access, after: Access) -> bool:
        if pair[0] == "mma":
            return pair[1] in ("mma", "cp", "shift") and before.role in _INPUTS and after.write
        if pair == ("cp", "mma"):
            return before.write and after.role in _INPUTS
        if pair == ("shift", "mma"):
            return not after.write
        return pair in (("st", "ld"), ("st", "st"), ("ld", "st"))


def _kind(operation: Execution) -> str:
    form = operation.event.instruction.form
    return form.kind if is_tcgen05_mma(form) else ""


class Commit(NamedTuple):
    """A tcgen05.commit: how much of its unit it covers, its line, and the mbarriers (CTA, offset)."""

    covered: int
    line: int
    barriers: tuple[tuple[int, int], ...]


class Ends(NamedTuple):
    """Two accesses to the same cells that nothing orders, and the commit that covers the first (None: there is
    none)."""

    before: Access
    after: Access
    cells: Cells
    commit: Commit | None


@dataclass(frozen=True)
class Missing:
    """A missing link, in words: why the accesses are not ordered, and what to insert where.

    Attributes:
        seen: whether the second's warp has seen the first complete, by arrivals that release and waits that acquire:
            nothing but fences is missing.
    """

    link: Link
    ends: Ends
    reason: str
    fix: str
    seen: bool = False


def explain(link: Link, ends: Ends, rules: Rules, *, other: bool, seen: bool = False) -> Missing:
    """Puts a missing link into words.

    Args:
        other: whether the rules are those of 9.4 and the two accesses are of different warps.
        seen: as in `Missing`.
    """
    reason, fix = _words(link, ends)
    early = Rules("9.0").pipelined(ends.before, ends.after)
    if other and early:
        reason += "; PTX 9.4 pipelines instructions of one warp alone (9.0 orders this pair by fences and a barrier)"
        fix += ", or issue both from one warp"
    elif (
        rules.ptx == "9.0"
        and ends.before.operation.actor == ends.after.operation.actor
        and Rules("9.4").pipelined(ends.before, ends.after)
    ):
        reason += "; PTX 9.4 orders this pair within a warp, PTX 9.0 to 9.3 do not"
    return Missing(link, ends, reason, fix, seen)


def _words(link: Link, ends: Ends) -> tuple[str, str]:
    first, last = ends.before.line, ends.after.line
    operation = ends.before.operation
    group = f"cta_group::{max(operation.event.instruction.form.cta_group, 1)}"
    commit = f"tcgen05.commit.{group}.mbarrier::arrive::one.b64 [mbar]"
    wait = "mbarrier.try_wait.parity"
    match link:
        case Link.COMMIT:
            return (
                f"no tcgen05.commit of its thread and {group} follows line {first}",
                (
                    f"insert '{commit}' after line {first}, in the same "
                    f"thread, and '{wait}' on that mbarrier before line {last}"
                ),
            )
        case Link.MBARRIER:
            assert ends.commit is not None
            place = " and ".join(f"shared[{offset}]" for _, offset in ends.commit.barriers) or "an mbarrier"
            return (
                (
                    f"the tcgen05.commit of line {ends.commit.line} covers "
                    f"it, but nothing waits for {place} before line {last}"
                ),
                f"insert '{wait}' on the mbarrier at {place} before line {last}",
            )
        case Link.WAIT_LD | Link.WAIT_ST:
            name = "ld" if link is Link.WAIT_LD else "st"
            return (
                f"no tcgen05.wait::{name} of its warp follows line {first}",
                f"insert 'tcgen05.wait::{name}.sync.aligned' after line {first}"
                + ("" if _one_warp(ends) else ", before the barrier"),
            )
        case Link.BEFORE:
            return (
                (
                    "the barrier between the two warps orders no tcgen05 instructions: "
                    "no tcgen05.fence::before_thread_sync stands before it"
                ),
                f"insert 'tcgen05.fence::before_thread_sync' after line {first} and before the barrier",
            )
        case Link.AFTER:
            return (
                "no tcgen05.fence::after_thread_sync stands between what its warp waited for and it",
                f"insert 'tcgen05.fence::after_thread_sync' before line {last}, after the wait or barrier",
            )
        case Link.SYNC:
            return f"no barrier or mbarrier leads from line {first} to line {last}", _synchronise(ends)
        case Link.PROXY:
            return (
                "an ordinary store is not visible to the asynchronous proxy by itself",
                f"insert 'fence.proxy.async.shared::cta' after line {first}, before the barrier if there is one",
            )
        case Link.RACE:
            return "nothing orders the two warps", f"insert 'bar.sync 0' between line {first} and line {last}"


def _one_warp(ends: Ends) -> bool:
    return ends.before.operation.actor == ends.after.operation.actor


def _synchronise(ends: Ends) -> str:
    """The advice to insert a barrier between two warps, with the fences that this pair of accesses needs."""
    before, after = ends.before.operation, ends.after.operation
    first, last = before.line, after.line
    barrier = (
        "'bar.sync 0' (or an mbarrier)" if before.event.cta == after.event.cta else "'barrier.cluster' (or an mbarrier)"
    )
    if before.unit < 0:
        return f"insert 'fence.proxy.async.shared::cta' and {barrier} after line {first} and before line {last}"
    if after.unit < 0:
        return f"insert {barrier} after the wait for line {first} and before line {last}"
    return (
        f"insert 'tcgen05.fence::before_thread_sync' and {barrier} after line "
        f"{first}, and 'tcgen05.fence::after_thread_sync' before line {last}"
    )
