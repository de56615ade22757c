"""Writes what the warps of an SM did as timed code: the machine instructions of each region that a warp ran through, in
the compiler's order, each with what its execution cost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, NamedTuple

from isa.forms.record import Time, Unit
from simulator.chip.config import Config
from simulator.compiler.compile import mark_pipes, timed_operation
from simulator.compiler.jobs import asynchronous, price
from simulator.compiler.kernel.machine import MachineCode
from simulator.compiler.kernel.order import ordered
from simulator.compiler.kernel.regions import Executed, Micro, Segment
from simulator.compiler.kernel.walk import GivenCode
from simulator.compiler.matrix import matrix
from simulator.compiler.operation_parts import Arithmetic
from simulator.compiler.timed_code import Job, Periodic, TimedCode, TimedLoop, TimedOperation, nesting
from simulator.execute.dynamic_info import (
    NEXT,
    STORES,
    ArriveFacts,
    Barrier,
    BarrierFacts,
    Fact,
    FenceFacts,
    Idle,
    PeerFacts,
    PostFacts,
    WaitFacts,
)
from simulator.program import lowering
from simulator.program.kernel import Operation

LINE = 8  # machine instructions in a line of the instruction cache: 128 bytes; measured, see docs/kernels.md
NAMED = 16  # barriers of a CTA


@dataclass(frozen=True)
class Resident:
    """A warp slot of the SM: a warp of the first CTA there, and then the warps of the CTAs that take its place.

    Attributes:
        slot: the number of the CTA's place on the SM.
        number: the number of the warp among all warps of the SM.
        runs: for each CTA that has that place, one after the other, what its warp executed.
    """

    slot: int
    number: int
    runs: Sequence[Sequence[Executed]]


class Marks(NamedTuple):
    """How one execution of a warp depends on other CTAs.

    Attributes:
        waits: numbers of the writes of other CTAs that it waits for.
        posts: numbers of its own writes that others wait for.
    """

    waits: list[int]
    posts: list[int]


class Clusters(NamedTuple):
    """How the CTAs of clusters that are timed together lie: each on an SM.

    Attributes:
        size: CTAs of a cluster; 1: there are no clusters.
        places: CTAs that each of these SMs holds at a time.
    """

    size: int = 1
    places: int = 1

    def end(self, slot: int, turn: int) -> Barrier:
        """The barrier at which all CTAs of the cluster in a place end, before its next one (`turn`) begins."""
        return NEXT, slot % self.places << 32 | turn


ALONE = Clusters()
Code = MachineCode | GivenCode
"""Machine instructions, and the paths of warps through them: made from the PTX, or read from a file."""


class Replay:
    """Makes timed code of executions.

    Args:
        code: the kernel's machine instructions.
        config: the chip.
        warps: how many warps a CTA has.
        marks: for the number of a warp and the index of an execution, how it depends on other CTAs.
        clusters: of the launch.
    """

    def __init__(
        self,
        code: Code,
        config: Config,
        warps: int,
        marks: Mapping[tuple[int, int], Marks] | None = None,
        clusters: Clusters = ALONE,
    ) -> None:
        self.clusters = clusters
        self.code, self.config, self.warps, self.marks = code, config, warps, marks or {}
        self.order = [ordered(region.micros) if region.first < 0 else region.micros for region in code.regions]
        self.patterns: dict[int, TimedOperation] = {}
        self.jobs: dict[Fact, Job] = {}
        self.fetched = code.registers  # the register that stands for an instruction that is not there yet

    def codes(self, residents: Iterable[Resident]) -> list[TimedCode]:
        """The timed code of these warps; warps with the same path share one."""
        ways: dict[tuple[Any, ...], list[Resident]] = defaultdict(list)
        for resident in residents:
            way = (resident.slot, *(tuple(map(_way, run)) for run in resident.runs))
            ways[way].append(resident)
        return [self._code(together) for together in ways.values()]

    def _code(self, residents: list[Resident]) -> TimedCode:
        """The timed code of warps with the same path."""
        items: list[TimedOperation | TimedLoop] = []
        first, seen = residents[0], set[int]()
        for turn, steps in enumerate(first.runs):
            if turn:
                items += self._next_cta(first.slot, turn, [resident.number for resident in residents])
            runs = {resident.number: resident.runs[turn] for resident in residents}
            for segment in self.code.way(steps):
                start = len(items)
                items += self._region(segment, runs, first.slot, seen)
                if segment.taken and len(items) > start:  # a branch: a loop that turns once
                    items.append(TimedLoop(start, 1, 0, sum(isinstance(item, TimedLoop) for item in items), ()))
        mark_pipes(items, self.config)
        ends = {item.loop: item for item in items if isinstance(item, TimedLoop)}
        return TimedCode(tuple(resident.number for resident in residents), items, nesting(items), ends)

    def _region(
        self, segment: Segment, runs: Mapping[int, Sequence[Executed]], slot: int, seen: set[int]
    ) -> Iterator[TimedOperation]:
        """The instructions of a region. Where it runs for the first time, its machine code is fetched line by line;
        `seen` has the lines that were fetched before (where no machine code is given, each region has its own)."""
        first = self.code.regions[segment.region].first
        origin = first if first >= 0 else (segment.region + 1) << 32
        for count, micro in enumerate(self.order[segment.region]):
            operation = self._operation(micro, segment, runs, slot)
            line = (origin + count) // LINE
            if line not in seen:
                seen.add(line)
                yield self._fetch()
                operation.reads = (*operation.reads, self.fetched)
            if _orders(micro) and self.config.memory is not None:
                yield self._wait(self.config.memory.latency)
                operation.reads = (*operation.reads, self.fetched)
            fencing = self._fencing(micro, segment, runs)
            if fencing:
                yield asynchronous(Unit.SYNC, {warp: [FenceFacts()] for warp in fencing}, self.config)
            beside = self._beside(micro, segment, runs)
            for warp, marks in beside.items():
                yield from (self._meeting(warp, WaitFacts((STORES, number), 0)) for number in marks.waits)
            yield operation
            for warp, marks in beside.items():
                yield from (self._meeting(warp, PostFacts((STORES, number))) for number in marks.posts)

    def _fencing(self, micro: Micro, segment: Segment, runs: Mapping[int, Sequence[Executed]]) -> list[int]:
        """The warps that arrive at a barrier for other SMs, behind a fence: ptxas writes it for an mbarrier.arrive of
        the scope of the cluster, and for a barrier.cluster.arrive that is not relaxed, where there are clusters."""
        step = segment.steps.get(micro.key) if micro.own and self.config.memory is not None else None
        if step is None or not isinstance(micro.item, Operation):
            return []
        first, *rest = micro.item.instruction.form.opcode.split(".")
        if first == "barrier":
            orders = self.clusters.size > 1 and "relaxed" not in rest
        else:
            orders = first == "mbarrier" and "cluster" in rest and not {"release", "acq_rel"}.isdisjoint(rest)
        return [warp for warp, run in runs.items() if isinstance(run[step].fact, ArriveFacts)] if orders else []

    def _beside(self, micro: Micro, segment: Segment, runs: Mapping[int, Sequence[Executed]]) -> dict[int, Marks]:
        """For each warp, how an instruction depends on other CTAs."""
        step = segment.steps.get(micro.key) if micro.own and self.marks else None
        if step is None:
            return {}
        return {warp: self.marks[warp, step] for warp in runs if (warp, step) in self.marks}

    def _meeting(self, warp: int, fact: WaitFacts | PostFacts) -> TimedOperation:
        """An operation of one warp that waits for another CTA, or lets another CTA go on."""
        return asynchronous(Unit.SYNC, {warp: [fact]}, self.config)

    def _operation(
        self, micro: Micro, segment: Segment, runs: Mapping[int, Sequence[Executed]], slot: int
    ) -> TimedOperation:
        """A machine instruction with what its execution costs each warp."""
        pattern = self.patterns.get(id(micro))
        if pattern is None:
            pattern = self.patterns[id(micro)] = self._pattern(micro)
        operation = copy(pattern)
        if micro.words:
            operation.costs = {warp: Periodic((micro.words,)) for warp in runs}
        if not micro.own:
            return operation
        if micro.time is Time.BARRIER:
            step = segment.steps.get(micro.key)
            fact = next(iter(runs.values()))[step].fact if step is not None else None
            if not isinstance(fact, BarrierFacts):  # a predicate has held it back
                return self._wait(1)
            operation.barrier = (slot * NAMED + fact.number, fact.warps or self.warps)
            operation.barrier_waits = fact.waits
        elif operation.costs is not None or operation.jobs is not None:
            step = segment.steps.get(micro.key)
            executions = {warp: run[step] for warp, run in runs.items()} if step is not None else {}
            peers = {warp: [each.fact] for warp, each in executions.items() if isinstance(each.fact, PeerFacts)}
            if peers:
                return self._to_peers(operation, peers)
            if operation.costs is not None:
                operation.costs = {warp: Periodic((executions[warp].wavefronts if executions else 0,)) for warp in runs}
            else:
                operation.jobs = {
                    warp: Periodic((self._job(execution.fact, micro.item.line),))
                    for warp, execution in executions.items()
                    if execution.fact is not None and not isinstance(execution.fact, Idle)
                }
        return operation

    def _to_peers(self, operation: TimedOperation, facts: Mapping[int, list[PeerFacts]]) -> TimedOperation:
        """An access to shared memory of other CTAs; warps that access their own with it take an issue slot alone."""
        reads, writes, line = operation.reads, operation.writes, operation.line
        timed = asynchronous(Unit.SHARED, facts, self.config, reads=reads, writes=writes, line=line)
        timed.latency = self.config.cluster.load_latency if self.config.cluster is not None else 1
        return timed

    def _job(self, fact: Fact, line: int) -> Job:
        """What an execution does and costs."""
        if fact not in self.jobs:
            self.jobs[fact] = Job(fact, price(fact, self.config, line))
        return self.jobs[fact]

    def _pattern(self, micro: Micro) -> TimedOperation:
        """A machine instruction with its times, without what its executions cost."""
        item = micro.item
        if micro.own:
            assert isinstance(item, Operation)
            instruction = item.instruction
            if micro.matrix is not None and self.config.tensor_class(micro.matrix) is not None:
                return matrix(micro.matrix, self.config, micro.reads, micro.writes, item.line)
            flat = lowering.Operation(0, instruction, item.line, micro.reads, micro.writes, None, 1)
            return timed_operation(flat, self.config)
        alu, shared = self.config.alu, self.config.shared
        if micro.words:  # local memory is in L1
            latency = shared.latency + shared.register_latency * (micro.words - 1)
            return TimedOperation(
                Unit.SHARED, latency, shared.warp_interval, micro.reads, micro.writes, item.line, costs={}
            )  # fmt: skip
        latency = self.config.sequences.shuffle if micro.slow and self.config.sequences else alu.latency
        if micro.tests:
            latency = max(alu.predicate_latency, alu.latency)
        return TimedOperation(
            Unit.ALU, latency, alu.interval, micro.reads, micro.writes, item.line,
            arithmetic=Arithmetic(micro.time),
        )  # fmt: skip

    def _fetch(self) -> TimedOperation:
        """A wait for a line of machine code that has not been executed before."""
        return self._wait(self.config.launch.fetch_cycles if self.config.launch is not None else 0)

    def _wait(self, cycles: int) -> TimedOperation:
        """An operation that writes, after so many cycles, the register that the next instruction reads."""
        return TimedOperation(Unit.ALU, max(cycles, 1), 1, (), (self.fetched,), 0, arithmetic=Arithmetic())

    def _next_cta(self, slot: int, turn: int, warps: Sequence[int]) -> list[TimedOperation]:
        """The end of a CTA: its warps wait for one another, and for those of its cluster; then another CTA takes its
        place."""
        launch = self.config.launch
        cycles = launch.cta_cycles if launch is not None else 0
        alu, fetched = self.config.alu, self.fetched
        together: list[TimedOperation] = []
        if self.clusters.size > 1:
            end = self.clusters.end(slot, turn)
            for fact in (ArriveFacts(end, 1), WaitFacts(end, 0)):
                together.append(asynchronous(Unit.SYNC, {warp: [fact] for warp in warps}, self.config))
        return [
            *together,
            TimedOperation(
                Unit.BARRIER, self.config.barrier.latency, 1, (), (), 0, barrier=(1_000_000 + slot, self.warps)
            ),
            TimedOperation(Unit.ALU, max(cycles, 1), alu.interval, (), (fetched,), 0, arithmetic=Arithmetic()),
            TimedOperation(Unit.ALU, alu.latency, alu.interval, (fetched,), (fetched,), 0, arithmetic=Arithmetic()),
        ]


def _way(step: Executed) -> tuple[int, BarrierFacts | None]:
    """What warps that share a code have in common of a step: its place, and the barrier at which it arrives."""
    return step.place, step.fact if isinstance(step.fact, BarrierFacts) else None


def _orders(micro: Micro) -> bool:
    """Whether an instruction waits until other SMs see what its warp has written: a fence for the whole chip, or a
    write that releases. It takes as long as an answer of L2 (docs/kernels.md compares a chain of CTAs)."""
    if not micro.own or not isinstance(micro.item, Operation):
        return False
    first, *rest = micro.item.instruction.form.opcode.split(".")
    if first in ("membar", "fence"):
        return any(scope in ("gl", "cluster", "gpu", "sys") for scope in rest) and rest[:1] != ["mbarrier_init"]
    if first in ("mbarrier", "barrier"):  # `_fencing`: only warps that arrive have a fence
        return False
    return any(order in ("release", "acq_rel") for order in rest) and "cta" not in rest
