"""Runs a trace for its values: what the registers and shared memory hold at the end, and how long each access keeps
shared memory busy.

Warps of a block run in lock step, all of their lanes at once; blocks take turns at barriers. Where warps may part
(waits for mbarriers, guards on barriers, Tensor Memory) each runs by itself. In a program without races (which are
counted) no other order gives another result, so time is left to `simulator.timing`. Asynchronous instructions are
executed whole when they are issued.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from isa import IsaError, Target, UndefinedBehavior
from isa.forms.mma import MmaForm
from simulator.errors import DeadlockError, TraceError
from simulator.execute.barrier import Barriers, ClusterBarrier, is_cluster_barrier
from simulator.execute.cta_state import CtaState, Event, Executor, PendingWait
from simulator.execute.dispatch import executor, guarded_lanes
from simulator.execute.dynamic_info import Fact
from simulator.program.data import load_all, store_all
from simulator.program.lowering import Code, LoopEnd, Operation
from simulator.program.trace import Trace
from simulator.state import AddressError, RegisterFile, SharedMemory
from simulator.state.global_memory import GlobalMemory
from simulator.state.mbarrier import OrderedMemory

COMPARED = 20_000  # matrix instructions compared with the exact result, unless told otherwise


@dataclass
class Group:
    """Warps that run the same code in lock step, and what was seen of them.

    Attributes:
        wavefronts: for each operation that uses shared memory, [execution, warp] cycles.
        lanes: for each of them whose guard may leave threads out, [execution, warp] threads that took part.
        facts: for each operation of the families whose time depends on more than the opcode: for each warp the facts of
            its executions.
        unwritten: (register, line) of the first read of each register that nothing had written, with its warps.
    """

    code: Code
    warps: NDArray[np.intp]
    wavefronts: dict[int, list[NDArray[np.int64]]] = field(default_factory=dict)
    lanes: dict[int, list[NDArray[np.int64]]] = field(default_factory=dict)
    facts: dict[int, dict[int, list[Fact | None]]] = field(default_factory=dict)
    unwritten: dict[tuple[int, int], set[int]] = field(default_factory=dict)


class Watch(Protocol):
    """Looks at a run, and may change its state: for fault injection."""

    def before(self, machine: CtaState, group: Group, operation: Operation, index: int) -> Executor | None:
        """Called before a group executes an operation.

        Args:
            index: how many operations the warps of the group have executed before, each of them: the dynamic
                instruction. Barriers and what is behind a false guard count, ends of loops do not.

        Returns:
            What executes in place of the operation (not of a barrier); None: the operation.
        """

    def after(self, machines: list[CtaState]) -> None:
        """Called when all groups have ended, before `.store`."""


@dataclass
class Executed:
    """What running a trace for its values gave.

    Attributes:
        arrays: what `.store` asked for.
        groups: the groups with their wavefronts.
        machines: the final state of each CTA.
    """

    arrays: dict[str, NDArray[np.generic]]
    groups: list[Group]
    machines: list[CtaState]

    @property
    def machine(self) -> CtaState:
        """The first CTA."""
        return self.machines[0]

    @cached_property
    def work(self) -> Counter[Fact]:
        """How often each fact of an asynchronous instruction was met, all warps together."""
        return Counter(
            fact
            for group in self.groups
            for rows in group.facts.values()
            for facts in rows.values()
            for fact in facts
            if fact is not None
        )

    @property
    def warnings(self) -> list[str]:
        """What a user should know about the trace."""
        found: dict[tuple[int, int], set[tuple[int, int]]] = {}
        for group in self.groups:
            for key, warps in group.unwritten.items():
                found.setdefault(key, set()).update((group.code.cta, warp) for warp in warps)
        name = self.machine.registers.numbering.name
        return [
            f"line {line}: {name(register)} is read before anything wrote it, in {len(warps)} warp{'s' if len(warps) > 1 else ''} (it reads as 0)"
            for (register, line), warps in sorted(found.items(), key=lambda item: (item[0][1], item[0][0]))
        ]

    @property
    def undefined(self) -> Counter[str]:
        """Undefined cases met, by name (`isa.undefined.RULES`)."""
        met = sum((machine.met for machine in self.machines), Counter[str]())
        reads = sum(len(warps) for group in self.groups for warps in group.unwritten.values())
        return met + Counter({"read-before-write": reads}) if reads else met


def execute(
    trace: Trace,
    codes: list[Code],
    target: Target,
    *,
    arithmetic: str = "chip",
    undefined: str = "hardware",
    compare: int = COMPARED,
    slots: int = 64,
    log: list[Event] | None = None,
    prepare: Callable[[CtaState], None] | None = None,
    watch: Watch | None = None,
) -> Executed:
    """Runs the programs of a trace for their values.

    Args:
        target: the chip whose arithmetic is used.
        arithmetic: "chip", "exact" or "none".
        undefined: "hardware" or "raise".
        compare: how many matrix instructions to compare with the exact result.
        slots: warps that the SM has room for (%nwarpid).
        prepare: gets each CTA after its `.load`s, to set more of its state.
        log: gets an event for each access, barrier and asynchronous instruction, in the order of execution; for
            checkers.
        watch: is called before each operation.

    Raises:
        TraceError: data that cannot be loaded, an access outside of shared memory, an instruction that is not executed.
        UndefinedBehavior: under the policy "raise", and for what stops a chip.
        DeadlockError: a barrier that not all warps reach, an mbarrier whose phase is never complete.
    """
    machines = machines_of(trace, codes, target, slots)
    for machine in machines:
        machine.arithmetic, machine.undefined, machine.compare, machine.log = arithmetic, undefined, compare, log
    load_all(trace, *machines)
    if prepare is not None:
        for machine in machines:
            prepare(machine)
    return run(trace, codes, machines, watch)


def run(trace: Trace, codes: list[Code], machines: list[CtaState], watch: Watch | None = None) -> Executed:
    """Runs the programs on CTAs that are ready; errors as `execute`."""
    groups = grouped(codes)
    Walk(trace, groups, machines, watch).run()
    if watch is not None:
        watch.after(machines)
    return Executed(store_all(trace, *machines), groups, machines)


def machines_of(trace: Trace, codes: list[Code], target: Target, slots: int) -> list[CtaState]:
    """The CTAs of a trace, which know each other."""
    machines = []
    cluster = ClusterBarrier((code.cta, warp) for code in codes if code.items for warp in code.warps)
    ordered = trace.ctas > 1 or any(
        op.instruction.form.asynchronous for code in codes for op in code.operations
    )
    outside = GlobalMemory(trace.global_bytes)
    for rank in range(trace.ctas):
        registers = RegisterFile(trace.warps, *trace.numbering)
        memory = (OrderedMemory if ordered else SharedMemory)(trace.shared_bytes, trace.warps * trace.ctas)
        machines.append(
            CtaState(registers, memory, trace.warps, target, slots=slots, rank=rank, cluster=cluster, memory=outside)
        )
    if len(machines) == 2:
        machines[0].peer, machines[1].peer = machines[1], machines[0]
    return machines


def grouped(codes: list[Code]) -> list[Group]:
    """One group a block; one a warp where warps may part: where some of them wait for something that the others need
    not wait for."""
    operations = [op for code in codes for op in code.operations]
    part = any(
        (op.barrier and (op.barrier[1] is not None or op.instruction.guard)) or _parting(op) for op in operations
    )
    return [
        Group(code, np.array(warps, np.intp))
        for code in codes
        for warps in ([[w] for w in code.warps] if part else [list(code.warps)])
    ]


def _parting(op: Operation) -> bool:
    form = op.instruction.form
    return (
        form.time.table in ("tcgen05", "tmem")
        or is_cluster_barrier(form)
        or "_wait" in form.name
    )


class _Stop(NamedTuple):
    """Where a group waits.

    Attributes:
        barrier: (number, warps that it is for) of a named barrier, or None.
        block: what else is waited for.
        line: of the instruction.
    """

    barrier: tuple[int, int | None] | None
    block: PendingWait | None
    line: int


class Walk:
    """Runs groups in turn: each as far as it goes, those that were released earlier first."""

    def __init__(self, trace: Trace, groups: list[Group], machines: list[CtaState], watch: Watch | None = None) -> None:
        self.trace, self.machines, self.watch = trace, machines, watch
        self.barriers = [Barriers(trace.warps) for _ in machines]
        self.running = {number: (group, self.walk(group)) for number, group in enumerate(groups)}
        self.ready = list(self.running)
        self.blocked: dict[int, set[int]] = {}  # groups at named barriers: the warps that have not been released
        self.waiting: dict[int, _Stop] = {}  # groups that wait for something else

    def run(self) -> None:
        """To the end; DeadlockError if it is not reached."""
        while self.ready:
            number = self.ready.pop(0)
            group, walk = self.running[number]
            stop = next(walk, None)
            if stop is None:
                del self.running[number]
                for warp in group.warps:
                    self.machines[0].cluster.leave((group.code.cta, int(warp)))
            elif stop.barrier is not None:
                self.arrive(number, group, stop.barrier)
            else:
                self.waiting[number] = stop
            if self.waiting:
                self.wake()
        if self.running:
            raise DeadlockError(self.describe())

    def arrive(self, number: int, group: Group, barrier: tuple[int, int | None]) -> None:
        """A group arrives at a named barrier; who is released by that goes on."""
        cta, warps = group.code.cta, [int(w) for w in group.warps]
        machine, barriers = self.machines[cta], self.barriers[cta]
        self.blocked[number] = set(warps)
        mismatches = barriers.mismatches
        for released in barriers.arrive(*barrier, warps):
            machine.synchronise(np.array(released, np.intp))
            for other, waiting in list(self.blocked.items()):
                if self.running[other][0].code.cta == cta:
                    waiting -= set(released)
                    if not waiting:
                        del self.blocked[other]
                        self.ready.append(other)
        if barriers.mismatches > mismatches:
            machine.note_undefined(
                "barrier-mismatch", barriers.mismatches - mismatches, f"{self.trace.path}: barrier {barrier[0]}"
            )

    def wake(self) -> None:
        """Lets those go on whose wait is over."""
        for number, stop in list(self.waiting.items()):
            assert stop.block is not None
            try:
                over = stop.block.ready()
            except (AddressError, IsaError, UndefinedBehavior) as error:
                raise self.placed(error, stop.line) from None
            if over:
                del self.waiting[number]
                self.ready.append(number)

    def placed(self, error: AddressError | IsaError | UndefinedBehavior, line: int) -> TraceError | UndefinedBehavior:
        """The error with its place in the trace."""
        if isinstance(error, UndefinedBehavior):
            return UndefinedBehavior(error.name, f"{self.trace.path}:{line}: {error.where}", error.rule, error.section)
        return TraceError(str(self.trace.path), line, 0, error.reason, error.legal)

    def describe(self) -> tuple[str, ...]:
        """Who waits for what."""
        pair = len(self.machines) > 1
        lines = [
            f"CTA {rank}: {line}" if pair else line
            for rank, barriers in enumerate(self.barriers)
            for line in barriers.describe()
        ]
        for number, stop in self.waiting.items():
            group = self.running[number][0]
            assert stop.block is not None
            who = f"CTA {group.code.cta}: " if pair else ""
            lines.append(
                f"{who}warps {', '.join(map(str, group.warps))} wait in line {stop.line} for {stop.block.describe()}"
            )
        warps = self.trace.warps * self.trace.ctas
        finished = warps - sum(len(group.warps) for group, _ in self.running.values())
        return (*lines, f"{finished} of {warps} warps are finished or have no program")

    def walk(self, group: Group) -> Generator[_Stop]:
        """Executes a group's code; yields where it waits, and goes on when it is released."""
        items, machine = group.code.items, self.machines[group.code.cta]
        counts = [0] * group.code.loops
        seen = np.zeros(len(items), np.bool_)
        idle = _idle_loops(group.code) if machine.arithmetic == "none" else set()
        at = index = 0
        watch, instead = self.watch, None
        while at < len(items):
            item = items[at]
            at += 1
            if isinstance(item, LoopEnd):
                counts[item.loop] += 1
                if counts[item.loop] < item.count and item.loop not in idle:
                    at = item.start
                else:
                    counts[item.loop] = 0
                continue
            if not seen[item.index]:
                seen[item.index] = item.instruction.guard is None
                _note_unwritten(group, item, machine)
            if watch is not None:
                instead = watch.before(machine, group, item, index)
                index += 1
            if item.barrier is None:
                block = self.execute(group, item, machine, instead)
                if block is not None:
                    yield _Stop(None, block, item.line)
                    machine.line = item.line
                    block.finish()
            elif item.instruction.guard is None or self.passes(group, item, machine):
                yield _Stop(item.barrier, None, item.line)
                machine.line = item.line
                machine.note(item.instruction, group.warps)

    def execute(
        self, group: Group, item: Operation, machine: CtaState, instead: Executor | None = None
    ) -> PendingWait | None:
        """Executes one operation, or what a watch puts in its place; what it waits for, if it does."""
        machine.line = item.line
        try:
            outcome = (executor(item.instruction) if instead is None else instead)(machine, group.warps)
        except (AddressError, IsaError, UndefinedBehavior) as error:
            raise self.placed(error, item.line) from None
        if outcome.wavefronts is not None:
            group.wavefronts.setdefault(item.index, []).append(outcome.wavefronts)
            if outcome.lanes is not None:
                group.lanes.setdefault(item.index, []).append(outcome.lanes)
        if outcome.facts:
            known = group.facts.setdefault(item.index, {int(warp): [] for warp in group.warps})
            for facts, fact in zip(known.values(), outcome.facts, strict=True):
                facts.append(fact)
        return outcome.block

    def passes(self, group: Group, item: Operation, machine: CtaState) -> bool:
        """Whether the guard of a barrier lets the group's one warp take part; TraceError where only some of its threads
        would."""
        guard = item.instruction.guard
        assert guard is not None
        lanes = guarded_lanes(guard, machine, group.warps)
        if lanes.any() != lanes.all():
            reason = f"'{item.instruction.form.opcode}' in {int(lanes.sum())} of the {lanes.size} threads of warp {int(group.warps[0])}"
            raise TraceError(str(self.trace.path), item.line, 0, reason, "all threads of a warp, or none")
        return bool(lanes.any())


def _note_unwritten(group: Group, item: Operation, machine: CtaState) -> None:
    """Notes registers that an operation is about to read although nothing wrote them; behind a guard that is false it
    reads the guard alone."""
    guard, file = item.instruction.guard, machine.registers
    if not item.reads:
        return
    missing = file.unwritten(group.warps, item.reads)
    if guard is not None and missing:
        passing = set(group.warps[guarded_lanes(guard, machine, group.warps).any(axis=1)].tolist())
        always = file.numbering.numbers((guard.predicate.name,))
        missing = [(warp, register) for warp, register in missing if warp in passing or register in always]
    for warp, register in missing:
        if not any(register == known and warp in warps for (known, _), warps in group.unwritten.items()):
            group.unwritten.setdefault((register, item.line), set()).add(warp)


def _idle_loops(code: Code) -> set[int]:
    """Loops that change nothing when matrix results are not computed: matrix instructions alone."""
    idle = set()
    for end in (item for item in code.items if isinstance(item, LoopEnd)):
        body = code.items[end.start : end.index]
        if all(isinstance(item, LoopEnd) or isinstance(item.instruction.form, MmaForm) for item in body):
            idle.add(end.loop)
    return idle
