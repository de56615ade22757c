"""The order checker: it follows a recorded run and tells which accesses to Tensor and shared memory nothing orders.

It keeps vector clocks, as race detectors do. A component counts what one warp has issued, or what one asynchronous unit
has completed: a unit is what a `tcgen05.commit` speaks of (the mma, cp and shift of one thread and cta_group), or the
loads, or the stores, of a warp. Every warp has five clocks (`Knowledge`), because PTX asks for more than a barrier:
`tcgen05.fence` on both sides of it for asynchronous tcgen05 instructions, and `fence.proxy.async` between ordinary
stores and what mma and cp read. PTX ISA 9.0, 9.7.16.6 (memory consistency), 9.7.16.11, 9.7.16.12.

Assumed: the lanes of a warp are in step, so a fence or an arrival of one lane speaks for the others; a commit speaks
    for its own lane alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from simulator.check.accesses import (
    ALLOC,
    COMMITTED,
    COPY,
    DEALLOC,
    INITIAL,
    Access,
    Execution,
    Partition,
    Touch,
    group_of,
    kind_of,
    synchronous_kind_of,
    touches,
    unit_of,
)
from simulator.check.links import Ends, Link, Rules, explain
from simulator.check.order_result import Early, Overlap, Result, Unwritten
from simulator.check.synchronisation import Counted, Synchronisation, Values
from simulator.execute.events import Event


def check_order(
    events: Sequence[Event],
    *,
    ptx: str = "9.0",
    warps: int = 0,
    values: Values | None = None,
    written: Mapping[int, NDArray[np.int64]] | None = None,
    ended: bool = True,
    counted: Counted | None = None,
) -> Result:
    """Checks the recorded events of a run.

    Args:
        events: in the order of execution; a barrier of a CTA has an event for each warp that leaves it.
        ptx: "9.0" or "9.4": which pairs are implicitly pipelined, see `simulator.check.links`.
        warps: warps of a CTA, for barriers of all of them; 0: as many as the log knows.
        values: operands of mbarrier instructions that are not constants.
        written: for each CTA the cells of Tensor Memory that are initial data.
        ended: whether all programs of the run came to their end.
        counted: what the run has counted itself of barriers and mbarriers.
    """
    checker = _Checker(events, Rules(ptx), warps, values or {}, written or {}, counted)
    for index, event in enumerate(events):
        if not checker.synchronise(index, event):
            checker.access(index, event)
    if ended:
        checker.end()
    return checker.result


class _Checker(Synchronisation):
    """Follows a log access by access.

    Attributes:
        last: by unit, its last execution.
        owners: by (CTA, atom of Tensor Memory), the tcgen05.alloc that allocated it.
    """

    def __init__(
        self,
        events: Sequence[Event],
        rules: Rules,
        warps: int,
        values: Values,
        written: Mapping[int, NDArray[np.int64]],
        counted: Counted | None,
    ) -> None:
        super().__init__(events, warps, values, counted)
        self.rules = rules
        self.last: dict[int, Execution] = {}
        self.owners: dict[tuple[int, int], Execution] = {}
        self.partition = Partition([touches(event) for event in events], written)

    # Accesses

    def access(self, index: int, event: Event) -> None:
        """Follows an event that accesses memory: an asynchronous instruction, an ordinary access, or a deallocation."""
        kind = kind_of(event)
        for place, (warp, mask) in enumerate(event.threads):
            touched = self.partition.of(index, place)
            if not touched:
                continue
            number = self.numbers["warp", event.cta, warp]
            self.count[number] += 1
            knowledge = self.known[event.cta, warp]
            knowledge.seen[number] = knowledge.ordered[number] = self.count[number]
            if event.kind.startswith("tcgen05.alloc"):
                owner = Execution(event, ALLOC, warp, number, self.count[number])
                self.owners |= {(touch.cta, atom): owner for touch in touched for atom in touch.atoms}
                continue
            if kind is None:
                operation = Execution(event, synchronous_kind_of(event), warp, number, self.count[number])
            else:
                operation = self.issue(event, kind, warp, mask, touched)
            for touch in touched:
                self.touch(Access(operation, touch.role, touch.write, touch.space, touch.cta), touch)

    def issue(self, event: Event, kind: str, warp: int, mask: int, touched: Sequence[Touch]) -> Execution:
        """Puts an asynchronous instruction into its unit."""
        number, unit = self.numbers["warp", event.cta, warp], self.numbers[unit_of(event, kind, warp, mask)]
        self.count[unit] += 1
        accumulators = tuple(touch.region for touch in touched if touch.role == "D" and touch.write)
        operation = Execution(event, kind, warp, number, self.count[number], unit, self.count[unit], accumulators)
        self.last[unit] = operation
        self.done.setdefault(unit, np.zeros(len(self.count), np.int32))[unit] = operation.sequence
        if kind == "mma":
            self.overlaps(operation, touched)
        return operation

    def touch(self, access: Access, touch: Touch) -> None:
        """Follows the access to one region: all conflicting earlier accesses to its cells must be ordered before it."""
        if access.space == "tmem":
            self.own(access, touch)
        for state, atoms in sorted(
            self.partition.states(touch), key=lambda pair: not pair[0].readers
        ):  # pairs through a reader come first
            if access.write:
                befores: tuple[Access, ...] = state.readers or ((state.writer,) if state.writer else ())
            else:
                befores = (state.writer,) if state.writer else ()
                if state.writer is None and access.space == "tmem":
                    self.result.unwritten.setdefault(
                        (access.line, access.role), Unwritten(access, self.partition.cells(touch, atoms))
                    )
            for before in befores:
                if before.operation is not access.operation and before.operation.kind not in (INITIAL, COPY):
                    self.judge(before, access, touch, atoms)
            self.partition.become(touch, atoms, state.after(access))

    def own(self, access: Access, touch: Touch) -> None:
        """Notes an access to columns whose allocation by another warp is not ordered before it."""
        if touch.cta != access.operation.event.cta:
            return  # the two warps of a pair allocate together (PTX ISA 9.0, 9.7.16.7)
        seen = self.known[access.operation.event.cta, access.operation.warp].seen
        for owner in {self.owners.get((touch.cta, atom)) for atom in touch.atoms}:
            if owner is not None and seen[owner.actor] < owner.clock:
                self.result.early.setdefault((access.line, owner.line), Early(access, owner))

    def overlaps(self, operation: Execution, touched: Sequence[Touch]) -> None:
        """Notes operands in Tensor Memory that share cells, which only two sets of scale factors may."""
        tmem = [touch for touch in touched if touch.space == "tmem" and not (touch.role == "D" and not touch.write)]
        for position, first in enumerate(tmem):
            for second in tmem[position + 1 :]:
                both = first.atoms & second.atoms
                if both and first.cta == second.cta and not (first.role[:5] == second.role[:5] == "scale"):
                    one, two = (
                        Access(operation, touch.role, touch.write, "tmem", touch.cta) for touch in (first, second)
                    )
                    key = operation.line, first.role, second.role
                    self.result.overlaps.setdefault(key, Overlap(one, two, self.partition.cells(first, sorted(both))))

    def judge(self, before: Access, after: Access, touch: Touch, atoms: Sequence[int]) -> None:
        """Notes the link that is missing between two accesses, if one is."""
        first, second = before.operation, after.operation
        link = self.link(before, after)
        if link is None:
            return
        key = (link, before.line, after.line, before.role, after.role, after.space)
        self.result.counts[key] = self.result.counts.get(key, 0) + 1
        if key not in self.result.missing:
            commit = (
                next((c for c in self.commits.get(first.unit, ()) if c.covered >= first.sequence), None)
                if first.unit >= 0
                else None
            )
            ends = Ends(before, after, self.partition.cells(touch, atoms), commit)
            other = self.rules.ptx == "9.4" and first.actor != second.actor
            seen = first.unit >= 0 and bool(
                self.known[second.event.cta, second.warp].seen[first.unit] >= first.sequence
            )
            self.result.missing[key] = explain(link, ends, self.rules, other=other, seen=seen)

    def link(self, before: Access, after: Access) -> Link | None:
        """The missing link between two accesses; None if they are ordered."""
        first, second = before.operation, after.operation
        knowledge = self.known[second.event.cta, second.warp]
        if first.unit < 0:
            if knowledge.seen[first.actor] < first.clock:
                return Link.RACE if second.unit < 0 else Link.SYNC
            return Link.PROXY if second.unit >= 0 and knowledge.proxied[first.actor] < first.clock else None
        if second.kind == DEALLOC and knowledge.ordered[first.unit] >= first.sequence:
            return None
        if second.unit < 0:
            return (
                None if knowledge.seen[first.unit] >= first.sequence else self.incomplete(first, second, fences=False)
            )
        if knowledge.ordered[first.unit] >= first.sequence:
            return None
        if self.rules.pipelined(before, after):
            if knowledge.ordered[first.actor] >= first.clock:
                self.follow(first, second)
                return None
            if knowledge.seen[first.actor] < first.clock:
                return Link.SYNC
            return Link.AFTER if knowledge.received[first.actor] >= first.clock else Link.BEFORE
        if first.kind == second.kind == "cp" and any(first in middle.after for middle in second.after):
            return None  # the mma between them comes after the one and before the other
        return self.incomplete(first, second, fences=True)

    def follow(self, first: Execution, second: Execution) -> None:
        """Notes a pipelined pair: when the second is complete, so is the first, which may be of another unit."""
        second.after.add(first)
        if first.unit != second.unit:
            mine, other = self.done[second.unit], self.done[first.unit]
            mine[first.unit] = max(mine[first.unit], first.sequence)
            np.maximum(mine, np.where(np.arange(mine.size) == first.unit, 0, other), out=mine)

    def incomplete(self, first: Execution, second: Execution, *, fences: bool) -> Link | None:
        """The link that is missing for the second to see the completion of the first; None if it sees it."""
        knowledge, unit, sequence = self.known[second.event.cta, second.warp], first.unit, first.sequence
        if knowledge.seen[unit] >= sequence:
            if not fences:
                return None
            return Link.AFTER if knowledge.received[unit] >= sequence else Link.BEFORE
        if first.kind in ("ld", "st"):
            if self.waited.get(unit, 0) < sequence:
                return Link.WAIT_LD if first.kind == "ld" else Link.WAIT_ST
            return Link.SYNC
        if all(commit.covered < sequence for commit in self.commits.get(unit, ())):
            return Link.COMMIT
        return Link.SYNC if any(other.seen[unit] >= sequence for other in self.known.values()) else Link.MBARRIER

    # The end

    def end(self) -> None:
        """Notes the executions that are still under way when their CTA, or the other one of the pair, ends."""
        for unit, operation in self.last.items():
            if operation.kind not in COMMITTED:
                continue
            cta = operation.event.cta
            for other, peer in ((cta, False), (cta ^ 1, True)):
                if peer and group_of(operation.event) < 2:
                    continue
                if not any(
                    max(knowledge.seen[unit], knowledge.ordered[unit]) >= operation.sequence
                    for (rank, _), knowledge in self.known.items()
                    if rank == other
                ):
                    self.result.unfinished.append((operation, peer))
                    break
