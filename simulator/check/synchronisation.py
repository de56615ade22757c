"""Follows the instructions of a recorded run that order others: waits, fences, commits, barriers and mbarriers."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from isa.forms.record import Time
from isa.ptx.instruction import Immediate
from simulator.check.accesses import group_of, kind_of, unit_of
from simulator.check.clocks import Actor, Clock, Knowledge, Mbarrier, departures, join
from simulator.check.links import Commit
from simulator.check.order_result import Result, Stray
from simulator.execute.events import Event

Values = Mapping[tuple[int, str], int]  # (number of the event, operand) -> its value, where it is in a register
Phases = Mapping[int, Mapping[tuple[int, int], int]]


@dataclass(frozen=True)
class Counted:
    """What a launch has counted itself, by number of the event.

    Attributes:
        phases: how many phases each mbarrier that the event names, (CTA, offset), has completed; the last event of
            several that happened at once says it.
        meetings: the event is a warp's arrival at a barrier, or its leave: which use of the barrier, and whether it
            leaves.
    """

    phases: Phases
    meetings: Mapping[int, tuple[Hashable, bool]]


class Synchronisation:
    """The clocks of every warp of a recorded run, as far as its events have been followed.

    Args:
        events: those of the run, in order.
        warps: warps of a CTA; 0: as many as the events name.
        values: operands of mbarrier instructions that are not constants.
        counted: what the run has counted itself; None: it is counted here.

    Attributes:
        result: what has been noted so far.
        numbers: the clock component of each warp and of each asynchronous unit.
        known: by (CTA, warp), what the warp may rely on.
        count: by component, how many instructions the warp issued, or were issued to the unit.
        done: by unit, the clock of all that is complete once the unit is.
        commits: by unit, its commits.
        waited: by unit of loads or stores, how many of them a wait has covered.
    """

    def __init__(self, events: Sequence[Event], warps: int, values: Values, counted: Counted | None = None) -> None:
        self.values, self.result, self.counted = values, Result(), counted
        self.numbers: dict[tuple[object, ...], int] = {}
        actors = sorted({(event.cta, warp) for event in events for warp, _ in event.threads})
        for actor in actors:
            self.numbers["warp", *actor] = len(self.numbers)
        ctas = sorted({cta for cta, _ in actors})
        warps = warps or max((sum(cta == other for other, _ in actors) for cta in ctas), default=0)
        for event in events:
            for warp, mask in event.threads:
                if (kind := kind_of(event)) is not None:
                    self.numbers.setdefault(unit_of(event, kind, warp, mask), len(self.numbers))
        size = len(self.numbers)
        self.known = {actor: Knowledge.nothing(size) for actor in actors}
        self.count = [0] * size
        self.done: dict[int, Clock] = {}
        self.commits: dict[int, list[Commit]] = {}
        self.waited: dict[int, int] = {}
        self._mbarriers: dict[tuple[int, int], Mbarrier] = {}
        self._departures = departures(events, warps) if counted is None else {}
        self._gathered: dict[int, tuple[Clock, Clock, Clock]] = {}
        self._met: dict[Hashable, list[Clock]] = {}
        self._arrived: dict[Actor, int] = {}
        self._departed: dict[Actor, int] = {}
        self._cluster: dict[int, list[Clock]] = {}
        self._handlers: dict[str, Callable[[int, Event], None]] = {
            "tcgen05.wait::ld": self.wait_move,
            "tcgen05.wait::st": self.wait_move,
            "tcgen05.commit": self.commit,
            "tcgen05.fence::before_thread_sync": self.fence_before,
            "tcgen05.fence::after_thread_sync": self.fence_after,
            "fence.proxy": self.fence_proxy,
            "fence": self.fence,
            "mbarrier.init": self.init,
            "mbarrier.inval": self.inval,
        }

    def synchronise(self, index: int, event: Event) -> bool:
        """Follows an event that orders others; returns whether it is one."""
        if self.counted is not None and index in self.counted.meetings:
            self.meet(event, *self.counted.meetings[index])
            return True
        form = event.instruction.form
        handler = self._handlers.get(form.name)
        if handler is None:
            match form.time:
                case Time.MBARRIER:
                    handler = self.wait if form.parts_warps else self.arrive
                case Time.COPY_ARRIVAL:
                    handler = self.arrive
                case Time.BARRIER:
                    handler = self.barrier
                case Time.CLUSTER_BARRIER:
                    handler = self.cluster_barrier
                case _:
                    return False
        handler(index, event)
        return True

    # Waits and fences

    def wait_move(self, _index: int, event: Event) -> None:
        """tcgen05.wait::ld and ::st: the loads, or stores, of the warp are complete."""
        kind = event.instruction.form.opcode.split(".")[1][-2:]
        for warp, _ in event.threads:
            unit = self.numbers.get((kind, event.cta, warp))
            if unit is not None:
                self.waited[unit] = self.count[unit]
                self.known[event.cta, warp].complete(unit, self.count[unit])

    def fence_before(self, _index: int, event: Event) -> None:
        """tcgen05.fence::before_thread_sync: the next barrier hands on what is ordered now."""
        for warp, _ in event.threads:
            knowledge = self.known[event.cta, warp]
            np.maximum(knowledge.fenced, knowledge.ordered, out=knowledge.fenced)

    def fence_after(self, _index: int, event: Event) -> None:
        """tcgen05.fence::after_thread_sync: what barriers handed on is ordered now."""
        for warp, _ in event.threads:
            knowledge = self.known[event.cta, warp]
            np.maximum(knowledge.ordered, knowledge.received, out=knowledge.ordered)

    def fence_proxy(self, _index: int, event: Event) -> None:
        """fence.proxy.async: ordinary stores so far are visible to the asynchronous proxy; one for global memory alone
        has no effect here."""
        qualifiers = event.instruction.form.opcode.split(".")
        if "async" in qualifiers and "global" not in qualifiers:
            for warp, _ in event.threads:
                knowledge = self.known[event.cta, warp]
                np.maximum(knowledge.proxied, knowledge.seen, out=knowledge.proxied)

    def fence(self, _index: int, event: Event) -> None:
        """A memory fence: acquires what relaxed waits have seen, and releases through later relaxed arrivals."""
        for warp, _ in event.threads:
            knowledge = self.known[event.cta, warp]
            knowledge.acquire_relaxed()
            knowledge.snapshot = knowledge.released()

    def barrier(self, index: int, event: Event) -> None:
        """A warp leaves a barrier: those that left it together had all arrived when the first of them left."""
        for place, (warp, _) in enumerate(event.threads):
            number, members = self._departures[index, place]
            if number not in self._gathered:
                joined: list[Clock] = []
                for actor in members:
                    joined = join(joined, self.known[actor].released())
                self._gathered[number] = (joined[0], joined[1], joined[2])
            self.known[event.cta, warp].acquire(self._gathered[number])

    def meet(self, event: Event, phase: Hashable, leaves: bool) -> None:
        """A warp of a launch arrives at a barrier, of its CTA or cluster, or leaves it."""
        for warp, _ in event.threads:
            knowledge = self.known[event.cta, warp]
            if not leaves:
                self._met[phase] = join(self._met.get(phase, []), knowledge.released())
            elif phase in self._met:
                seen, ordered, proxied = self._met[phase]
                knowledge.acquire((seen, ordered, proxied))

    def cluster_barrier(self, _index: int, event: Event) -> None:
        """barrier.cluster: an arrival releases, a wait acquires what all arrivals of its turn released."""
        relaxed = "relaxed" in event.instruction.form.opcode
        for warp, _ in event.threads:
            actor = event.cta, warp
            if ".arrive" in event.kind:
                self._arrived[actor] = turn = self._arrived.get(actor, 0) + 1
                released = self.known[actor].released(relaxed=relaxed)
                self._cluster[turn] = join(self._cluster.get(turn, []), released)
            else:
                self._departed[actor] = turn = self._departed.get(actor, 0) + 1
                if turn in self._cluster:
                    seen, ordered, proxied = self._cluster[turn]
                    self.known[actor].acquire((seen, ordered, proxied))

    # mbarriers

    def number(self, index: int, event: Event, role: str, default: int) -> int:
        """The value of a numeric operand; `default` where the instruction has no such operand."""
        try:
            operand = event.instruction[role]
        except KeyError:
            return default
        return operand.value if isinstance(operand, Immediate) else self.values.get((index, role), default)

    def init(self, index: int, event: Event) -> None:
        """mbarrier.init: a new mbarrier."""
        count = self.number(index, event, "count", 1)
        for region in event.writes:
            for offset in region.cells.ravel().tolist():
                warp = event.threads[0][0]
                number = self.numbers["warp", event.cta, warp]
                self.count[number] += 1
                knowledge = self.known[event.cta, warp]
                knowledge.seen[number] = knowledge.ordered[number] = self.count[number]
                self._mbarriers[region.cta, offset] = Mbarrier(
                    count, count, owner=number, created=self.count[number], line=event.line
                )

    def inval(self, _index: int, event: Event) -> None:
        """mbarrier.inval: the mbarrier exists no more."""
        for region in event.writes:
            for offset in region.cells.ravel().tolist():
                self._mbarriers.pop((region.cta, offset), None)

    def named(self, event: Event, regions: Iterable[object]) -> list[tuple[tuple[int, int], Mbarrier]]:
        """The mbarriers of an event with their places; a use that their initialisation does not precede is noted."""
        barriers = []
        for region in event.writes if regions is event.writes else event.reads:
            for offset in region.cells.ravel().tolist():
                place = region.cta, offset
                barrier = self._mbarriers.get(place)
                if barrier is None:
                    continue
                if any(self.known[event.cta, warp].seen[barrier.owner] < barrier.created for warp, _ in event.threads):
                    self.result.strays.setdefault((event.line, barrier.line), Stray(event, barrier.line, place))
                barriers.append((place, barrier))
        return barriers

    def arrive(self, index: int, event: Event) -> None:
        """mbarrier.arrive, arrive_drop, expect_tx and complete_tx: arrivals release, and may complete the phase."""
        opcode, barriers = event.kind, self.named(event, event.writes)
        qualifiers = opcode.split(".")
        bytes_each = self.number(index, event, "tx_count", 0)
        arrives = any(qualifier.startswith("arrive") for qualifier in qualifiers)
        count = self.number(index, event, "count", 1) if arrives else 0
        lanes = [mask.bit_count() for _, mask in event.threads]
        for place, (where, barrier) in enumerate(barriers):
            many = lanes[place] if len(barriers) == len(lanes) else max(sum(lanes) // len(barriers), 1)
            speakers = event.threads[place : place + 1] if len(barriers) == len(lanes) else event.threads
            if arrives:
                for warp, _ in speakers:
                    knowledge = self.known[event.cta, warp]
                    barrier.released = join(barrier.released, knowledge.released(relaxed="relaxed" in qualifiers))
            if self.counted is not None:
                barrier.reach(self.counted.phases[index].get(where, 0))
                continue
            barrier.transactions += many * (-bytes_each if "complete_tx" in qualifiers else bytes_each)
            barrier.pending -= count * many
            barrier.expected -= count * many if "arrive_drop" in qualifiers else 0
            barrier.arrived()

    def commit(self, index: int, event: Event) -> None:
        """tcgen05.commit: its arrival hands on all that its thread's unit has been given so far."""
        group = group_of(event)
        for warp, mask in event.threads:
            actor = event.cta, warp
            knowledge = self.known[actor]
            self.fence_before(0, event)
            unit = self.numbers.get(("tc", *actor, mask, group))
            released = knowledge.released()
            if unit is not None and unit in self.done:
                done = self.done[unit]
                released = np.maximum(released[0], done), np.maximum(released[1], done), released[2]
            barriers = self.named(event, event.writes)
            if unit is not None:
                self.commits.setdefault(unit, []).append(
                    Commit(self.count[unit], event.line, tuple(place for place, _ in barriers))
                )
            for place, barrier in barriers:
                barrier.released = join(barrier.released, released)
                if self.counted is not None:
                    barrier.reach(self.counted.phases[index].get(place, 0))
                    continue
                barrier.pending -= 1
                barrier.arrived()

    def wait(self, index: int, event: Event) -> None:
        """mbarrier.try_wait and test_wait: the warp acquires what the phase released."""
        parity: int | None = self.number(index, event, "parity", -1)
        for place, barrier in self.named(event, event.reads):
            if self.counted is not None:
                barrier.reach(self.counted.phases[index].get(place, 0))
                parity = None  # the last: the launch has seen that it is complete
            released = barrier.handed_on(None if parity == -1 else parity)
            for warp, _ in event.threads:
                if released and "relaxed" in event.kind.split("."):
                    self.known[event.cta, warp].look((released[0], released[1], released[2]))
                elif released:
                    self.known[event.cta, warp].acquire((released[0], released[1], released[2]))
