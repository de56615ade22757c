"""Happens-before over the log of a run: which accesses to Tensor Memory and shared memory are not ordered, and which
link is missing.

Vector clocks, as race detectors have them. A component counts what one warp has issued, or what one asynchronous unit
has completed: a unit is what a `tcgen05.commit` speaks of (the mma, cp and shift of one thread and cta_group), or the
loads, or the stores, of a warp. Every warp has five clocks (`Knowledge`), because PTX asks for more than a barrier:
`tcgen05.fence` on both sides of it for asynchronous tcgen05 instructions, and `fence.proxy.async` between ordinary
stores and what mma and cp read. PTX ISA 9.0, 9.7.16.6 (memory consistency), 9.7.16.11, 9.7.16.12.

Assumed: the lanes of a warp are in step, so a fence or an arrival of one lane speaks for the others; a commit speaks
    for its own lane alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from isa.ptx.instruction import Immediate
from simulator.check.accesses import (
    ALLOC,
    COMMITTED,
    DEALLOC,
    GENERIC,
    INITIAL,
    Access,
    Operation,
    Partition,
    Touch,
    group_of,
    kind_of,
    touches,
    unit_of,
)
from simulator.check.clocks import Actor, Clock, Knowledge, Mbarrier, departures, join
from simulator.check.found import Commit, Early, Overlap, Result, Stray, Unwritten
from simulator.check.links import Ends, Link, Rules, explain
from simulator.execute.events import Event

Values = Mapping[tuple[int, str], int]  # (number of the event, operand) -> its value, where it is in a register


def check_order(
    events: Sequence[Event],
    *,
    ptx: str = "9.0",
    warps: int = 0,
    values: Values | None = None,
    written: Mapping[int, NDArray[np.int64]] | None = None,
    ended: bool = True,
) -> Result:
    """Checks the log of a run.

    Args:
        events: in the order of execution; a barrier of a CTA has an event for each warp that leaves it.
        ptx: "9.0" or "9.4": which pairs are implicitly pipelined, see `simulator.check.links`.
        warps: warps of a CTA, for barriers of all of them; 0: as many as the log knows.
        values: operands of mbarrier instructions that are not constants.
        written: for each CTA the cells of Tensor Memory that are initial data.
        ended: whether all programs came to their end.
    """
    engine = _Engine(events, Rules(ptx), warps, values or {}, written or {})
    for index, event in enumerate(events):
        engine.take(index, event)
    if ended:
        engine.end()
    return engine.result


class _Engine:
    def __init__(
        self,
        events: Sequence[Event],
        rules: Rules,
        warps: int,
        values: Values,
        written: Mapping[int, NDArray[np.int64]],
    ) -> None:
        self.rules, self.values, self.result = rules, values, Result()
        self.numbers: dict[tuple[object, ...], int] = {}
        actors = sorted({(event.cta, warp) for event in events for warp, _ in event.threads})
        for actor in actors:
            self.numbers["warp", *actor] = len(self.numbers)
        self.ctas = sorted({cta for cta, _ in actors})
        self.warps = warps or max((sum(cta == other for other, _ in actors) for cta in self.ctas), default=0)
        for event in events:
            for warp, mask in event.threads:
                if (kind := kind_of(event)) is not None:
                    self.numbers.setdefault(unit_of(event, kind, warp, mask), len(self.numbers))
        size = len(self.numbers)
        self.known = {actor: Knowledge.nothing(size) for actor in actors}
        self.count = [0] * size  # of warps: what they issued; of units: what was issued to them
        self.done: dict[int, Clock] = {}  # of a unit: what is complete once all of it is
        self.commits: dict[int, list[Commit]] = {}
        self.waited: dict[int, int] = {}  # of loads and stores: how many a wait covered
        self.last: dict[int, Operation] = {}
        self.owners: dict[tuple[int, int], Operation] = {}  # of an atom of Tensor Memory: its tcgen05.alloc
        self.partition = Partition([touches(event) for event in events], written)
        self.mbarriers: dict[tuple[int, int], Mbarrier] = {}
        self.departures = departures(events, self.warps)
        self.gathered: dict[int, tuple[Clock, Clock, Clock]] = {}
        self.arrived: dict[Actor, int] = {}
        self.departed: dict[Actor, int] = {}
        self.cluster: dict[int, list[Clock]] = {}
        self.handlers: dict[str, Callable[[int, Event], None]] = {
            "tcgen05.wait::ld": self.wait_move,
            "tcgen05.wait::st": self.wait_move,
            "tcgen05.commit": self.commit,
            "tcgen05.fence::before_thread_sync": self.fence_before,
            "tcgen05.fence::after_thread_sync": self.fence_after,
            "fence.proxy": self.fence_proxy,
            "fence": self.fence,
            "mbarrier.init": self.init,
            "mbarrier.inval": self.inval,
            "bar": self.barrier,
        }

    def take(self, index: int, event: Event) -> None:
        form = event.instruction.form
        name: str = getattr(form, "name", "")
        handler = self.handlers.get(name)
        if handler is not None:
            handler(index, event)
        elif name.startswith("mbarrier."):
            (self.wait if "_wait" in name else self.arrive)(index, event)
        elif name == "barrier":
            (self.cluster_barrier if ".cluster" in form.opcode else self.barrier)(index, event)
        else:
            self.access(index, event)

    # Accesses

    def access(self, index: int, event: Event) -> None:
        """Asynchronous instructions, ordinary accesses to shared memory, deallocations."""
        kind = kind_of(event)
        for place, (warp, mask) in enumerate(event.threads):
            touched = self.partition.of(index, place)
            if not touched:
                continue
            number = self.numbers["warp", event.cta, warp]
            self.count[number] += 1
            known = self.known[event.cta, warp]
            known.seen[number] = known.ordered[number] = self.count[number]
            if event.kind.startswith("tcgen05.alloc"):
                owner = Operation(event, ALLOC, warp, number, self.count[number])
                self.owners |= {(touch.cta, atom): owner for touch in touched for atom in touch.atoms}
                continue
            if kind is None:
                synchronous = DEALLOC if event.kind.startswith("tcgen05.dealloc") else GENERIC
                operation = Operation(event, synchronous, warp, number, self.count[number])
            else:
                operation = self.issue(event, kind, warp, mask, touched)
            for touch in touched:
                self.touch(Access(operation, touch.role, touch.write, touch.space, touch.cta), touch)

    def issue(self, event: Event, kind: str, warp: int, mask: int, touched: Sequence[Touch]) -> Operation:
        """An asynchronous instruction enters its unit."""
        number, unit = self.numbers["warp", event.cta, warp], self.numbers[unit_of(event, kind, warp, mask)]
        self.count[unit] += 1
        accumulators = tuple(touch.region for touch in touched if touch.role == "D" and touch.write)
        operation = Operation(event, kind, warp, number, self.count[number], unit, self.count[unit], accumulators)
        self.last[unit] = operation
        self.done.setdefault(unit, np.zeros(len(self.count), np.int32))[unit] = operation.sequence
        if kind == "mma":
            self.overlaps(operation, touched)
        return operation

    def touch(self, access: Access, touch: Touch) -> None:
        """One region: what was there before it must come before it."""
        if access.space == "tmem":
            self.own(access, touch)
        for state, atoms in sorted(
            self.partition.states(touch), key=lambda found: not found[0].readers
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
                if before.operation is not access.operation and before.operation.kind != INITIAL:
                    self.judge(before, access, touch, atoms)
            self.partition.become(touch, atoms, state.after(access))

    def own(self, access: Access, touch: Touch) -> None:
        """Columns are used after their allocation."""
        seen = self.known[access.operation.event.cta, access.operation.warp].seen
        for owner in {self.owners.get((touch.cta, atom)) for atom in touch.atoms}:
            if owner is not None and seen[owner.actor] < owner.clock:
                self.result.early.setdefault((access.line, owner.line), Early(access, owner))

    def overlaps(self, operation: Operation, touched: Sequence[Touch]) -> None:
        """Operands in Tensor Memory that share cells; two sets of scale factors may."""
        tmem = [touch for touch in touched if touch.space == "tmem" and not (touch.role == "D" and not touch.write)]
        for at, first in enumerate(tmem):
            for second in tmem[at + 1 :]:
                both = first.atoms & second.atoms
                if both and first.cta == second.cta and not (first.role[:5] == second.role[:5] == "scale"):
                    one, two = (
                        Access(operation, touch.role, touch.write, "tmem", touch.cta) for touch in (first, second)
                    )
                    key = operation.line, first.role, second.role
                    self.result.overlaps.setdefault(key, Overlap(one, two, self.partition.cells(first, sorted(both))))

    def judge(self, before: Access, after: Access, touch: Touch, atoms: Sequence[int]) -> None:
        """Whether `after` may rely on `before`; else what is missing."""
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
            apart = first.actor != second.actor
            self.result.missing[key] = explain(link, ends, self.rules, other=self.rules.ptx == "9.4" and apart)

    def link(self, before: Access, after: Access) -> Link | None:
        """The missing link between two accesses; None if they are ordered."""
        first, second = before.operation, after.operation
        known = self.known[second.event.cta, second.warp]
        if first.unit < 0:
            if known.seen[first.actor] < first.clock:
                return Link.RACE if second.unit < 0 else Link.SYNC
            return Link.PROXY if second.unit >= 0 and known.proxied[first.actor] < first.clock else None
        if second.unit < 0:
            return None if known.seen[first.unit] >= first.sequence else self.incomplete(first, second, fences=False)
        if known.ordered[first.unit] >= first.sequence:
            return None
        if self.rules.pipelined(before, after):
            if known.ordered[first.actor] >= first.clock:
                self.follow(first, second)
                return None
            if known.seen[first.actor] < first.clock:
                return Link.SYNC
            return Link.AFTER if known.received[first.actor] >= first.clock else Link.BEFORE
        if first.kind == second.kind == "cp" and any(first in middle.after for middle in second.after):
            return None  # the mma between them comes after the one and before the other
        return self.incomplete(first, second, fences=True)

    def follow(self, first: Operation, second: Operation) -> None:
        """A pipelined pair: when the second is complete, so is the first, which may be of another unit."""
        second.after.add(first)
        if first.unit != second.unit:
            mine, other = self.done[second.unit], self.done[first.unit]
            mine[first.unit] = max(mine[first.unit], first.sequence)
            np.maximum(mine, np.where(np.arange(mine.size) == first.unit, 0, other), out=mine)

    def incomplete(self, first: Operation, second: Operation, *, fences: bool) -> Link | None:
        """What lacks for the second to see the completion of the first."""
        known, unit, sequence = self.known[second.event.cta, second.warp], first.unit, first.sequence
        if known.seen[unit] >= sequence:
            if not fences:
                return None
            return Link.AFTER if known.received[unit] >= sequence else Link.BEFORE
        if first.kind in ("ld", "st"):
            if self.waited.get(unit, 0) < sequence:
                return Link.WAIT_LD if first.kind == "ld" else Link.WAIT_ST
            return Link.SYNC
        if all(commit.covered < sequence for commit in self.commits.get(unit, ())):
            return Link.COMMIT
        return Link.SYNC if any(other.seen[unit] >= sequence for other in self.known.values()) else Link.MBARRIER

    # What orders

    def wait_move(self, _index: int, event: Event) -> None:
        kind = event.instruction.form.opcode.split(".")[1][-2:]
        for warp, _ in event.threads:
            unit = self.numbers.get((kind, event.cta, warp))
            if unit is not None:
                self.waited[unit] = self.count[unit]
                self.known[event.cta, warp].complete(unit, self.count[unit])

    def fence_before(self, _index: int, event: Event) -> None:
        for warp, _ in event.threads:
            known = self.known[event.cta, warp]
            np.maximum(known.fenced, known.ordered, out=known.fenced)

    def fence_after(self, _index: int, event: Event) -> None:
        for warp, _ in event.threads:
            known = self.known[event.cta, warp]
            np.maximum(known.ordered, known.received, out=known.ordered)

    def fence_proxy(self, _index: int, event: Event) -> None:
        """fence.proxy.async; that of global memory alone says nothing here."""
        qualifiers = event.instruction.form.opcode.split(".")
        if "async" in qualifiers and "global" not in qualifiers:
            for warp, _ in event.threads:
                known = self.known[event.cta, warp]
                np.maximum(known.proxied, known.seen, out=known.proxied)

    def fence(self, _index: int, event: Event) -> None:
        for warp, _ in event.threads:
            known = self.known[event.cta, warp]
            known.acquire_relaxed()
            known.snapshot = known.released()

    def barrier(self, index: int, event: Event) -> None:
        """A warp leaves a barrier: those that left it together had all arrived when the first of them left."""
        for place, (warp, _) in enumerate(event.threads):
            number, members = self.departures[index, place]
            if number not in self.gathered:
                joined: list[Clock] = []
                for actor in members:
                    joined = join(joined, self.known[actor].released())
                self.gathered[number] = (joined[0], joined[1], joined[2])
            self.known[event.cta, warp].acquire(self.gathered[number])

    def cluster_barrier(self, _index: int, event: Event) -> None:
        relaxed = "relaxed" in event.instruction.form.opcode
        for warp, _ in event.threads:
            actor = event.cta, warp
            if ".arrive" in event.kind:
                self.arrived[actor] = turn = self.arrived.get(actor, 0) + 1
                known = self.known[actor].snapshot if relaxed else self.known[actor].released()
                if known is not None:
                    self.cluster[turn] = join(self.cluster.get(turn, []), known)
            else:
                self.departed[actor] = turn = self.departed.get(actor, 0) + 1
                if turn in self.cluster:
                    seen, ordered, proxied = self.cluster[turn]
                    self.known[actor].acquire((seen, ordered, proxied))

    # mbarriers

    def number(self, index: int, event: Event, role: str, default: int) -> int:
        try:
            operand = event.instruction[role]
        except KeyError:
            return default
        return operand.value if isinstance(operand, Immediate) else self.values.get((index, role), default)

    def init(self, index: int, event: Event) -> None:
        count = self.number(index, event, "count", 1)
        for region in event.writes:
            for offset in region.cells.ravel().tolist():
                warp = event.threads[0][0]
                number = self.numbers["warp", event.cta, warp]
                self.count[number] += 1
                known = self.known[event.cta, warp]
                known.seen[number] = known.ordered[number] = self.count[number]
                self.mbarriers[region.cta, offset] = Mbarrier(number, self.count[number], event.line, count, count)

    def inval(self, _index: int, event: Event) -> None:
        for region in event.writes:
            for offset in region.cells.ravel().tolist():
                self.mbarriers.pop((region.cta, offset), None)

    def named(self, event: Event, regions: Iterable[object]) -> list[tuple[tuple[int, int], Mbarrier]]:
        """The mbarriers of an event; a use that comes before their initialisation is met."""
        found = []
        for region in event.writes if regions is event.writes else event.reads:
            for offset in region.cells.ravel().tolist():
                place = region.cta, offset
                barrier = self.mbarriers.get(place)
                if barrier is None:
                    continue
                if any(self.known[event.cta, warp].seen[barrier.owner] < barrier.made for warp, _ in event.threads):
                    self.result.strays.setdefault((event.line, barrier.line), Stray(event, barrier.line, place))
                found.append((place, barrier))
        return found

    def arrive(self, index: int, event: Event) -> None:
        """arrive, arrive_drop, expect_tx, complete_tx."""
        opcode, barriers = event.kind, self.named(event, event.writes)
        qualifiers = opcode.split(".")
        bytes_each = self.number(index, event, "tx_count", 0)
        arrives = qualifiers[1].startswith("arrive")
        count = self.number(index, event, "count", 1) if arrives else 0
        lanes = [mask.bit_count() for _, mask in event.threads]
        for place, (_, barrier) in enumerate(barriers):
            many = lanes[place] if len(barriers) == len(lanes) else max(sum(lanes) // len(barriers), 1)
            speakers = event.threads[place : place + 1] if len(barriers) == len(lanes) else event.threads
            if arrives:
                for warp, _ in speakers:
                    known = self.known[event.cta, warp]
                    released = known.snapshot if "relaxed" in qualifiers else known.released()
                    if released is not None:
                        barrier.released = join(barrier.released, released)
            barrier.transactions += many * (-bytes_each if "complete_tx" in qualifiers else bytes_each)
            barrier.pending -= count * many
            barrier.expected -= count * many if "arrive_drop" in qualifiers else 0
            barrier.settle()

    def commit(self, _index: int, event: Event) -> None:
        group = group_of(event)
        for warp, mask in event.threads:
            actor = event.cta, warp
            known = self.known[actor]
            self.fence_before(0, event)
            unit = self.numbers.get(("tc", *actor, mask, group))
            released = known.released()
            if unit is not None and unit in self.done:
                done = self.done[unit]
                released = np.maximum(released[0], done), np.maximum(released[1], done), released[2]
            barriers = self.named(event, event.writes)
            if unit is not None:
                self.commits.setdefault(unit, []).append(
                    Commit(self.count[unit], event.line, tuple(place for place, _ in barriers))
                )
            for _, barrier in barriers:
                barrier.released = join(barrier.released, released)
                barrier.pending -= 1
                barrier.settle()

    def wait(self, index: int, event: Event) -> None:
        parity: int | None = self.number(index, event, "parity", -1)
        for _, barrier in self.named(event, event.reads):
            known = barrier.awaited(None if parity == -1 else parity)
            for warp, _ in event.threads:
                if known and "relaxed" in event.kind.split("."):
                    self.known[event.cta, warp].relaxed += [(known[0], known[1], known[2])]
                elif known:
                    self.known[event.cta, warp].acquire((known[0], known[1], known[2]))

    # The end

    def end(self) -> None:
        """What runs on when its CTA, or the other one of its pair, is over."""
        for unit, operation in self.last.items():
            if operation.kind not in COMMITTED:
                continue
            cta = operation.event.cta
            for other, peer in ((cta, False), (1 - cta, True)):
                if peer and group_of(operation.event) < 2:
                    continue
                if not any(
                    known.seen[unit] >= operation.sequence for (rank, _), known in self.known.items() if rank == other
                ):
                    self.result.unfinished.append((operation, peer))
                    break
