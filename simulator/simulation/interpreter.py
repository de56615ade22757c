"""The interpreter: it runs a program for its values, without regard to time.

It tells what registers and memories hold at the end, and how long each access keeps shared memory busy.

Warps of a block run in lock step, all of their lanes at once; blocks take turns at barriers. Where warps may part
(waits for mbarriers, guards on barriers, Tensor Memory) each warp runs by itself. In a program without races (which are
counted) the order makes no difference to the result, so time is left to `simulator.timing`. Asynchronous instructions
are executed whole when they are issued.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isa import IsaError, UndefinedBehavior
from isa.forms.record import Time
from simulator.errors import DeadlockError, TraceError
from simulator.execute.barrier import Barriers
from simulator.execute.cta_state import CtaState, Executor
from simulator.execute.dispatch import executor, guarded_lanes
from simulator.execute.dynamic_info import Fact
from simulator.execute.pending import PendingWait
from simulator.program.data import store_all
from simulator.program.lowering import Operation
from simulator.program.program import Program
from simulator.progress import Pace, Progress
from simulator.simulation.group import Group, grouped, to_execute
from simulator.simulation.observer import Observer
from simulator.simulation.relevance import light_executors, relevance
from simulator.simulation.repeats import Repeats
from simulator.state import AddressError

_COUNTED = "executed"  # instructions of groups of warps
_GLANCE = 64  # instructions of a group from one look at the clock to the next


@dataclass
class Executed:
    """The results of running a program for its values.

    Attributes:
        arrays: by name, what the program's `.store` lines asked for; none where no results are computed.
        groups: the groups of warps, with what was noted about each.
        machines: the final state of each CTA.
    """

    arrays: dict[str, NDArray[np.generic]]
    groups: list[Group]
    machines: list[CtaState]

    @property
    def machine(self) -> CtaState:
        """The final state of the first CTA."""
        return self.machines[0]

    @cached_property
    def work(self) -> Counter[Fact]:
        """What asynchronous instructions did, and how many executions of all warps did just that."""
        counts: Counter[Fact] = Counter()
        for group in self.groups:
            for executions in group.facts.values():
                for row, times in executions.totals().items():
                    for fact in row:
                        if fact is not None:
                            counts[fact] += times
        return counts

    @property
    def skipped(self) -> int:
        """Turns of loops that were known without executing them, of all warps."""
        return sum(group.skipped * len(group.warps) for group in self.groups)

    @property
    def warnings(self) -> list[str]:
        """What a user should know about the run."""
        unwritten: dict[tuple[int, int], set[tuple[int, int]]] = {}
        for group in self.groups:
            for key, warps in group.unwritten.items():
                unwritten.setdefault(key, set()).update((group.code.cta, warp) for warp in warps)
        name = self.machine.registers.numbering.name
        return [
            f"line {line}: {name(register)} is read before anything wrote it, in "
            f"{len(warps)} warp{'s' if len(warps) > 1 else ''} (it reads as 0)"
            for (register, line), warps in sorted(unwritten.items(), key=lambda item: (item[0][1], item[0][0]))
        ]

    @property
    def undefined(self) -> Counter[str]:
        """How often each undefined case occurred, by its name in `isa.undefined.RULES`."""
        counts = sum((machine.met for machine in self.machines), Counter[str]())
        reads = sum(len(warps) for group in self.groups for warps in group.unwritten.values())
        return counts + Counter({"read-before-write": reads}) if reads else counts


def interpret(
    program: Program,
    machines: list[CtaState],
    observers: Sequence[Observer] = (),
    *,
    flat: bool = True,
    lean: bool = False,
    progress: Progress | None = None,
) -> Executed:
    """Runs a program on CTAs that are ready to run, and leaves them in their final state.

    Args:
        flat: whether turns of loops in which nothing new happens may be skipped, where no results are computed: what is
            noted is the same, but registers and memory are not those of a whole run.
        lean: whether only what takes time is wanted: neither values nor undefined cases.
        progress: is told now and then how much has been executed.

    Raises:
        TraceError: an access outside of shared memory, or an instruction that cannot be executed.
        UndefinedBehavior: under the policy "raise", and for what stops a chip.
        DeadlockError: a barrier that not all warps reach, an mbarrier whose phase is never complete.
    """
    interpreter = Interpreter(program, machines, observers, flat=flat, lean=lean, progress=progress)
    interpreter.run()
    return interpreter.executed()


class _Stop(NamedTuple):
    """The place where a group waits, and what it waits for.

    Attributes:
        barrier: (number, how many warps it is for) of a named barrier, or None. None warps: all of the CTA.
        block: the wait for anything else, or None.
        line: the line of the waiting instruction.
    """

    barrier: tuple[int, int | None] | None
    block: PendingWait | None
    line: int


class Interpreter:
    """Runs the groups in turn: each until it has to wait, those that were released earlier first.

    Attributes:
        groups: the groups of warps and what was noted about them; also valid when a run ends with an error.
    """

    def __init__(
        self,
        program: Program,
        machines: list[CtaState],
        observers: Sequence[Observer] = (),
        *,
        flat: bool = False,
        lean: bool = False,
        progress: Progress | None = None,
    ) -> None:
        self.program, self.machines, self.observers = program, machines, tuple(observers)
        self.groups = grouped(program.codes)
        self.barriers = [Barriers(program.warps) for _ in machines]
        self.running = {number: (group, self.walk(number, group)) for number, group in enumerate(self.groups)}
        self.ready = list(self.running)
        self.blocked: dict[int, set[int]] = {}  # groups at named barriers: the warps that have not been released
        self.waiting: dict[int, _Stop] = {}  # groups that wait for something else
        self.done, self.pace = 0, None if progress is None else Pace(progress, _COUNTED, to_execute(self.groups))
        without_values = (lean or flat) and _without_values(program, machines, self.observers)
        lean = lean and without_values
        self.repeats: Repeats | None = None
        self.light: dict[int, dict[int, Executor | None]] = {}
        if without_values:
            beside = any(op.instruction.form.asynchronous for op, _ in program.operations)
            relevant = relevance(program.codes, program.numbering, undefined=not lean, memory=beside)
            by_code = {id(code): found for code, found in zip(program.codes, relevant, strict=True)}
            if lean:
                self.light = {code: light_executors(found) for code, found in by_code.items()}
            if flat:
                self.repeats = Repeats(program.numbering, self.groups, machines, by_code, self.flow, lean=lean)

    def run(self) -> None:
        """Runs all groups to the end; raises what `interpret` raises."""
        for machine in self.machines:
            machine.listen(*self.observers)
        for observer in self.observers:
            observer.started(self.machines)
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
        for observer in self.observers:
            observer.finished(self.machines)

    def executed(self) -> Executed:
        """The results of the run."""
        for machine in self.machines:
            machine.settle()
        computed = any(machine.arithmetic != "none" for machine in self.machines)
        return Executed(store_all(self.program, *self.machines) if computed else {}, self.groups, self.machines)

    def arrive(self, number: int, group: Group, barrier: tuple[int, int | None]) -> None:
        """Lets a group arrive at a named barrier; the groups that this releases are ready again."""
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
                "barrier-mismatch", barriers.mismatches - mismatches, f"{self.program.path}: barrier {barrier[0]}"
            )

    def wake(self) -> None:
        """Makes the groups ready whose wait is over."""
        for number, stop in list(self.waiting.items()):
            assert stop.block is not None
            try:
                released = stop.block.ready()
            except (AddressError, IsaError, UndefinedBehavior) as error:
                raise self.placed(error, stop.line) from None
            if released:
                del self.waiting[number]
                self.ready.append(number)

    def placed(self, error: AddressError | IsaError | UndefinedBehavior, line: int) -> TraceError | UndefinedBehavior:
        """The error with the file and line of the trace in which it arose."""
        if isinstance(error, UndefinedBehavior):
            return UndefinedBehavior(
                error.rule, f"{self.program.path}:{line}: {error.where}", error.reason, error.section
            )
        return TraceError(str(self.program.path), line, 0, error.reason, error.legal, error.rule, error.operand)

    def describe(self) -> tuple[str, ...]:
        """The lines of a deadlock's message: which warps wait in which line for what."""
        several = len(self.machines) > 1
        lines = [
            f"CTA {rank}: {line}" if several else line
            for rank, barriers in enumerate(self.barriers)
            for line in barriers.describe()
        ]
        for number, stop in self.waiting.items():
            group = self.running[number][0]
            assert stop.block is not None
            where = f"CTA {group.code.cta}: " if several else ""
            lines.append(
                f"{where}warps {', '.join(map(str, group.warps))} wait in line {stop.line} for {stop.block.describe()}"
            )
        warps = self.program.warps * self.program.ctas
        finished = warps - sum(len(group.warps) for group, _ in self.running.values())
        return (*lines, f"{finished} of {warps} warps are finished or have no program")

    def flow(self) -> tuple[object, ...]:
        """Where all groups are, and what decides which of them goes on when; the counts of loops are left out."""
        return (
            tuple(self.ready),
            tuple((number, group.cursor.place) for number, (group, _) in self.running.items()),
            tuple((number, tuple(sorted(warps))) for number, warps in self.blocked.items()),
            tuple(self.waiting),
            tuple(barriers.state() for barriers in self.barriers),
        )

    def walk(self, number: int, group: Group) -> Generator[_Stop]:
        """Executes a group's code; yields wherever the group has to wait, and is resumed when it is released."""
        machine, cursor = self.machines[group.code.cta], group.cursor
        seen = np.zeros(len(group.code.items), np.bool_)
        light = self.light.get(id(group.code), {})
        index = 0
        while True:
            while (end := cursor.pass_ends()) is not None:
                if self.repeats is not None:
                    self.repeats.look(number, end)
            item = cursor.operation
            if item is None:
                return
            instead = light.get(item.index)
            if item.index in light and instead is None:
                cursor.place += 1
                continue
            if not seen[item.index] and not light:
                seen[item.index] = item.instruction.guard is None
                _note_unwritten(group, item, machine)
            if self.repeats is not None:
                self.repeats.follow(number, group, item, machine)
            elif self.observers:
                substitutes = [observer.before(machine, group, item, index) for observer in self.observers]
                instead = next((executes for executes in substitutes if executes is not None), None)
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
            cursor.place += 1
            index += 1
            if self.pace is not None and not index % _GLANCE:
                self.done += _GLANCE
                if self.pace.due:
                    self.pace.tell(self.done)

    def execute(
        self, group: Group, item: Operation, machine: CtaState, instead: Executor | None = None
    ) -> PendingWait | None:
        """Executes one operation, or what an observer puts in its place; returns what it waits for, if anything."""
        machine.line = item.line
        try:
            outcome = (executor(item.instruction) if instead is None else instead)(machine, group.warps)
        except (AddressError, IsaError, UndefinedBehavior) as error:
            raise self.placed(error, item.line) from None
        if outcome.wavefronts is not None:
            group.note("wavefronts", item.index, tuple(outcome.wavefronts.tolist()))
            if outcome.lanes is not None:
                group.note("lanes", item.index, tuple(outcome.lanes.tolist()))
        if outcome.facts:
            group.note("facts", item.index, outcome.facts)
        return outcome.block

    def passes(self, group: Group, item: Operation, machine: CtaState) -> bool:
        """Whether the guard of a barrier lets the group's one warp take part.

        Raises:
            TraceError: only some of the warp's threads would take part.
        """
        guard = item.instruction.guard
        assert guard is not None
        lanes = guarded_lanes(guard, machine, group.warps)
        if lanes.any() != lanes.all():
            reason = (
                f"'{item.instruction.form.opcode}' in {int(lanes.sum())} of "
                f"the {lanes.size} threads of warp {int(group.warps[0])}"
            )
            raise TraceError(
                str(self.program.path), item.line, 0, reason, "all threads of a warp, or none", rule="aligned-threads"
            )
        return bool(lanes.any())


def _note_unwritten(group: Group, item: Operation, machine: CtaState) -> None:
    """Notes the registers that an operation is about to read although nothing has written them.

    Where its guard is false, an operation reads nothing but the guard.
    """
    guard, registers = item.instruction.guard, machine.registers
    if not item.reads:
        return
    missing = registers.unwritten(group.warps, item.reads)
    if guard is not None and missing:
        passing = set(group.warps[guarded_lanes(guard, machine, group.warps).any(axis=1)].tolist())
        always = registers.numbering.numbers((guard.predicate.name,))
        missing = [(warp, register) for warp, register in missing if warp in passing or register in always]
    for warp, register in missing:
        if not any(register == noted and warp in warps for (noted, _), warps in group.unwritten.items()):
            group.unwritten.setdefault((register, item.line), set()).add(warp)


def _without_values(program: Program, machines: list[CtaState], observers: Sequence[Observer]) -> bool:
    """Whether a run is one whose values nobody asks for, and which is of one CTA."""
    return (
        not observers
        and program.ctas == 1
        and not any(op.instruction.form.time is Time.CLUSTER_BARRIER for op, _ in program.operations)
        and all(machine.arithmetic == "none" and not machine.listeners for machine in machines)
    )
