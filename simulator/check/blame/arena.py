"""Runs a launch again with changed instructions: many changes at once, each in a copy of some CTAs.

All copies run in lock step, as the CTAs of a launch do, so that a trial costs little more than what its own instruction
costs. Each copy has its own shared memory and registers anyway. Of the buffers that the kernel writes it has its own,
too: what `ld.param` gives as their address is moved by so many bytes for each copy.

An access outside of memory reads zeros and writes nothing here, so that one copy does not end the others; in a strict
arena it ends its own copy. What seems to mend the result is confirmed by itself, on memory that forgives nothing
(`simulator.check.blame.search`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from isa.errors import Error
from isa.forms.record import Time
from isa.ptx.instruction import Instruction, Register, Vector
from simulator.check.blame.change import Action, executor_of
from simulator.check.blame.mixing import Skip, by_rows, joined, skipping
from simulator.check.blame.strict import StrictMemory
from simulator.execute.cta_state import CtaState, Executor, Outcome
from simulator.execute.dispatch import executor
from simulator.execute.launch_state import LaunchState
from simulator.execute.pending import PendingWait
from simulator.execute.registry import prepare as unguarded
from simulator.program.kernel import Operation
from simulator.simulation.launch.batches import Setup
from simulator.simulation.launch.errors import LaunchError
from simulator.simulation.launch.interpreter import prepared, step_of
from simulator.simulation.launch.meetings import mask_of
from simulator.simulation.launch.run import Code, Run
from simulator.simulation.launch.threads import Group
from simulator.state.columns import LaunchShared
from simulator.state.device_memory import DeviceMemory
from simulator.state.registers import Sort, Warps, register_place
from simulator.state.typed_views import padded
from simulator.state.windows import BUFFER_ALIGNMENT

JUNK = 0x5A  # byte that shared memory begins with where nothing is forgiven: a right kernel does not depend on it
GUARD_BYTES = 1 << 16  # between the buffers of two copies
FAILURES = (Error, OverflowError, ValueError, IndexError, AssertionError, MemoryError)
TOGETHER = 8  # times as many items as a copy may take, after which all copies that have not ended are given up
QUANTUM = 1 << 11  # items that threads execute before others of the batch have a turn
_WAITING = "tcgen05.alloc"  # makes warps wait while it cannot be done
Changes = Mapping[int, "tuple[Action, ...] | Skip"]
Bytes = NDArray[np.uint8]


class _Trial(Run):
    """A run that gives up copies which do not end.

    Attributes:
        rows: warps of a copy.
        most: items that a warp of a copy may take.
        used: int64 [row]: those that it has taken, whoever else has taken them with it.
        given_up: bool [copy].
        failed: the copies that cannot go on.
    """

    def __init__(self, code: Code, state: LaunchState, rows: int, most: int, failed: set[int]) -> None:
        super().__init__(code, state, 1 << 62)
        self.rows, self.most, self.failed, self._told = rows, most, failed, 0
        self.used = np.zeros(state.batch.rows, np.int64)
        self.given_up = np.zeros(state.batch.rows // rows, np.bool_)

    def _advance(self, group: Group) -> None:
        before = self.state.clock
        super()._advance(group._replace(quantum=min(group.quantum, QUANTUM)))
        self.used[group.rows] += self.state.clock - before
        if (late := self._late() & ~self.given_up).any():
            self.given_up |= late
            self._end(late)
        if len(self.failed) > self._told:
            self._told = len(self.failed)
            gone = np.zeros_like(late)
            gone[list(self.failed)] = True
            self._end(gone)
        if self.state.clock > TOGETHER * self.most:
            raise LaunchError("this takes too long", rule="instruction-budget")

    def _late(self) -> NDArray[np.bool_]:
        """bool [copy]: those of which a warp has taken too many items."""
        late: NDArray[np.bool_] = np.logical_or.reduce((self.used > self.most).reshape(-1, self.rows), axis=1)
        return late

    def _end(self, copies: NDArray[np.bool_]) -> None:
        """Lets no thread of some copies, bool [copy], go on."""
        self.threads.exit(self.threads.live & np.repeat(copies, self.rows)[:, None])


@dataclass(frozen=True)
class Results:
    """What trials gave.

    Attributes:
        data: by name of the buffer, uint8 [trial, byte].
        ended: bool [trial]: whether it came to its end.
        late: bool [trial]: whether it was given up because it took too many items.
    """

    data: dict[str, Bytes]
    ended: NDArray[np.bool_]
    late: NDArray[np.bool_]


class Arena:
    """Runs copies of some CTAs.

    Attributes:
        ctas: int64 [CTA]: those that each copy has.
        copies: how many run at once.
        most: items that a copy may take.
        items: that the last run took.
        executed: the places that the last run has come to.
        turned: whether the buffers that the kernel writes begin with the opposite bits.
        strict: whether a copy fails that accesses what lies outside of memory, and shared memory begins with junk.
    """

    def __init__(
        self,
        setup: Setup,
        ctas: NDArray[np.int64],
        written: Sequence[str],
        copies: int,
        *,
        strict: bool = False,
        tables: bool = False,
    ) -> None:
        """Args:
        setup: a launch that has not run; its memory is left as it is.
        written: the buffers that the kernel writes.
        tables: whether it loads their addresses from memory, too, and not as parameters alone.
        """
        self.tables = tables
        self.setup, self.ctas, self.copies, self.strict = setup, ctas, copies, strict
        self._failed = set[int]()
        self.rows = len(ctas) * setup.geometry.warps
        self.most = 1 << 50
        self.items = 0
        self.executed = set[int]()
        self.turned = False
        self._written = [setup.memory[name] for name in written]
        self._moved = self._written if copies > 1 else []
        self._strides = [_aligned(2 * each.size + GUARD_BYTES) for each in self._moved]
        self._memory = self._placed()
        self._loads = self._pointer_loads() if copies > 1 else {}
        self.code = self._forgiving_code()

    def _placed(self) -> DeviceMemory:
        memory = StrictMemory() if self.strict else DeviceMemory()
        memory.lenient = not self.strict
        for buffer in self.setup.memory.buffers:
            if buffer not in self._moved:
                storage = buffer.storage.copy()
                constant = buffer.constant or self.copies > 1  # what all copies share may not be written
                memory.place(buffer.name, buffer.size, buffer.address, storage=storage, constant=constant)
        last = max((buffer.end for buffer in self.setup.memory.buffers), default=0)
        for buffer, stride in zip(self._moved, self._strides, strict=True):
            last = _aligned(last + GUARD_BYTES)
            whole = memory.place(buffer.name, stride * self.copies, last)
            if isinstance(memory, StrictMemory):
                memory.parts.append((whole, stride, buffer.size))
            last += stride * self.copies
        return memory

    def _reset(self) -> None:
        """Gives all buffers the bytes that they have before the launch."""
        for buffer in self.setup.memory.buffers:
            if buffer not in self._moved:
                turned = self.turned and buffer in self._written
                self._memory[buffer.name].storage[:] = ~buffer.storage if turned else buffer.storage
        for buffer, stride in zip(self._moved, self._strides, strict=True):
            own = self._memory[buffer.name].data.reshape(self.copies, stride)
            own[:] = 0
            own[:, : buffer.size] = ~buffer.data if self.turned else buffer.data

    def _pointer_loads(self) -> dict[int, Executor]:
        """By place, what executes loads of parameters, and of tables in memory: addresses of buffers that are written
        become those of the copy's own."""
        places = {}
        for item in self.setup.kernel.items:
            if isinstance(item, Operation) and item.instruction.form.name == "ld":
                form = item.instruction.form
                spaces = {"param", "global"} if self.tables else {"param"}
                if spaces & set(form.qualifiers) and form.width == 64 and item.guard is None:
                    places[item.index] = self._pointer_load(item.instruction)
        return places

    def _pointer_load(self, instruction: Instruction) -> Executor:
        execute, operand = unguarded(instruction), instruction["d"]
        parts = operand.elements if isinstance(operand, Vector) else (operand,)
        known = [register_place(part.name) for part in parts if isinstance(part, Register)]
        numbers = [place.number for place in known if place is not None and place.sort is Sort.WIDE]
        moves = [
            (buffer.address, buffer.size, self._memory[buffer.name].address - buffer.address, stride)
            for buffer, stride in zip(self._written, self._strides, strict=True)
        ]

        def run(machine: CtaState, warps: Warps) -> Outcome:
            outcome = execute(machine, warps)
            copy = (warps // self.rows).astype(np.uint64)[:, None, None]
            values = machine.registers.read(warps, numbers, Sort.WIDE)
            moved = values
            for address, size, distance, stride in moves:
                inside = (values >= address) & (values <= address + size)
                away = np.uint64(distance % (1 << 64)) + copy * np.uint64(stride)
                moved = np.where(inside, values + away, moved)
            machine.registers.write(warps, numbers, moved, machine.active, Sort.WIDE)
            return outcome

        return run

    def run(self, trials: Sequence[Changes], ctas: NDArray[np.int64] | None = None) -> Results:
        """Runs these trials, `copies` of them at most.

        Args:
            ctas: int64 [trial, CTA]: the CTAs of each, where they are not the same for all.
        """
        self._reset()
        chosen = np.tile(self.ctas, len(trials)) if ctas is None else ctas.ravel()
        try:
            ended, late = self._run(trials, chosen)
            return Results(self._results(len(trials)), ended, late)
        except FAILURES:
            if len(trials) == 1:
                return Results(self._results(1), np.zeros(1, np.bool_), np.zeros(1, np.bool_))
        half = len(trials) // 2
        each = [None, None] if ctas is None else [ctas[:half], ctas[half:]]
        parts = [self.run(trials[:half], each[0]), self.run(trials[half:], each[1])]
        data = {name: np.concatenate([part.data[name] for part in parts]) for name in parts[0].data}
        ended, late = (np.concatenate([getattr(part, name) for part in parts]) for name in ("ended", "late"))
        return Results(data, ended, late)

    def _run(self, trials: Sequence[Changes], ctas: NDArray[np.int64]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Runs copies; bool [trial] each: which have come to their end, which were given up as they took too long."""
        setup = replace(self.setup, memory=self._memory, completion=None)
        state = setup.state(ctas)
        assert isinstance(state.shared, LaunchShared)
        state.shared.lenient = not self.strict
        if self.strict:
            state.shared.data[:] = JUNK
        self._failed.clear()
        run = _Trial(self._code(trials), state, self.rows, self.most, self._failed)
        try:
            run.run()
        except LaunchError as error:
            if error.rule not in ("instruction-budget", "deadlock", "aligned-threads"):
                raise
        self.items = state.clock
        self.executed = {place for place, count in enumerate(run.counts) if count}
        live: NDArray[np.bool_] = np.logical_or.reduce(run.threads.live.reshape(len(trials), -1), axis=1)
        live[list(self._failed)] = True
        return ~(live | run.given_up), run.given_up | live & (state.clock > TOGETHER * self.most)

    def _code(self, trials: Sequence[Changes]) -> Code:
        """The kernel in which the rows of each copy execute what its trial says."""
        steps, meets = list(self.code.steps), dict(self.code.meets)
        by_place: dict[int, list[tuple[int, tuple[Action, ...]]]] = {}
        skips: list[tuple[int, int, Skip]] = []
        for copy, changes in enumerate(trials):
            for place, actions in changes.items():
                if isinstance(actions, Skip):
                    skips.append((place, copy, actions))
                else:
                    by_place.setdefault(place, []).append((copy, actions))
        for place in {*by_place, *self._loads}:
            item = self.setup.kernel.items[place]
            assert isinstance(item, Operation)
            steps[place] = step_of(item, self._mixed(item, by_place.get(place, []), guarded=True))
            if place in meets:
                guarded = mask_of(item) is None
                meets[place] = self._mixed(item, by_place.get(place, []), guarded=guarded)
        rows = np.arange(self.copies * self.rows) // self.rows
        for place, copy, skip in skips:
            steps[place] = skipping(steps[place], skip, rows == copy)
        return self.code._replace(steps=steps, meets=meets, kinds={})

    def _mixed(self, item: Operation, trials: list[tuple[int, tuple[Action, ...]]], *, guarded: bool) -> Executor:
        """An executor of which the rows of some copies execute something else."""
        instruction = item.instruction
        base = self._forgiving(self._executor((instruction,), item, guarded=guarded), item)
        if not trials:
            return base
        others = [(copy, self._executor(actions, item, guarded=guarded)) for copy, actions in trials]
        which = np.zeros(self.copies, np.intp)
        for number, (copy, _) in enumerate(others, 1):
            which[copy] = number
        forgiving = [self._forgiving(execute, item) for _, execute in others]
        return by_rows([base, *forgiving], which, self.rows)

    def _forgiving_code(self) -> Code:
        """The kernel, in which an instruction that cannot go on in one copy goes on in the others."""
        code = prepared(self.setup.kernel)
        for item in self.setup.kernel.items:
            if isinstance(item, Operation) and item.instruction.form.time not in (Time.BARRIER, Time.CLUSTER_BARRIER):
                if item.index in code.meets:
                    code.meets[item.index] = self._forgiving(code.meets[item.index], item)
                with suppress(Error):
                    code.steps[item.index] = step_of(item, self._forgiving(executor(item.instruction), item))
        return code

    def _forgiving(self, execute: Executor, item: Operation) -> Executor:
        """An executor that does nothing for those copies in which it cannot go on: they have failed then. One that may
        make warps wait is executed for one copy after the other."""

        def run(machine: CtaState, warps: Warps) -> Outcome:
            try:
                return execute(machine, warps)
            except FAILURES:
                return copy_by_copy(machine, warps)

        def copy_by_copy(machine: CtaState, warps: Warps) -> Outcome:
            copies, before, outcomes = warps // self.rows, machine.active, list[Outcome]()
            try:
                for copy in np.unique(copies).tolist():
                    chosen = np.flatnonzero(copies == copy)
                    machine.active = None if before is None else before[chosen]
                    try:
                        outcome = execute(machine, warps[chosen])
                    except FAILURES:
                        self._failed.add(copy)
                        continue
                    if outcome.block is not None:
                        outcome = outcome._replace(block=self._patient(outcome.block, copy))
                    outcomes.append(outcome)
            finally:
                machine.active = before
            return joined(outcomes)

        return copy_by_copy if item.instruction.form.name == _WAITING else run

    def _patient(self, wait: PendingWait, copy: int) -> PendingWait:
        """What warps of one copy wait for; if it fails, the copy has failed, and waits no longer."""

        def ready() -> bool:
            try:
                return wait.ready()
            except FAILURES:
                self._failed.add(copy)
                return True

        def finish() -> None:
            if copy not in self._failed:
                wait.finish()

        return wait._replace(ready=ready, finish=finish)

    def compiles(self, changes: Changes) -> None:
        """Makes the executors of a trial; raises what they raise."""
        for place, actions in changes.items():
            item = self.setup.kernel.items[place]
            assert isinstance(item, Operation)
            if not isinstance(actions, Skip):
                self._executor(actions, item, guarded=True)

    def _executor(self, actions: tuple[Action, ...], item: Operation, *, guarded: bool) -> Executor:
        only = actions[0] if len(actions) == 1 else None
        if item.index in self._loads and isinstance(only, Instruction):
            return self._pointer_load(only)
        return executor_of(actions, item.instruction, guarded=guarded)

    def _results(self, count: int) -> dict[str, Bytes]:
        if self.copies == 1:
            return {each.name: self._memory[each.name].data[None].copy() for each in self._written}
        return {
            each.name: self._memory[each.name].data.reshape(self.copies, stride)[:count, : each.size].copy()
            for each, stride in zip(self._written, self._strides, strict=True)
        }


def _aligned(address: int) -> int:
    return -(-padded(address) // BUFFER_ALIGNMENT) * BUFFER_ALIGNMENT
