"""Runs a trace, or CTAs of a captured launch, and records what their Tensor Memory holds when."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from simulator.errors import ViewError
from simulator.execute.cta_state import CtaState
from simulator.execute.events import Event
from simulator.program.capture import read_capture
from simulator.program.kernel import link
from simulator.program.program import Program
from simulator.program.reader import load
from simulator.simulation.interpreter import Interpreter
from simulator.simulation.launch.arguments import parameter_bytes
from simulator.simulation.launch.batches import batches, waits_for_clusters
from simulator.simulation.launch.captured import place
from simulator.simulation.launch.interpreter import prepared
from simulator.simulation.launch.launching import Options, prepare
from simulator.simulation.launch.module import Module
from simulator.simulation.launch.run import Run
from simulator.simulation.observer import Observer
from simulator.simulation.session import Session
from simulator.state.tensor_memory import Allocation
from simulator.tables import Table
from simulator.views.tensor_memory.lives import START, Interval, Lives, Moment, changes


@dataclass(frozen=True)
class MemoryMap:
    """What Tensor Memory holds at each moment of a run.

    Attributes:
        name: of the trace or the launch.
        intervals: which cells hold what from when to when, in the order of their beginning, CTA by CTA.
        moments: the instructions that touch Tensor Memory, in the order of execution; the first is the beginning.
    """

    name: str
    intervals: tuple[Interval, ...]
    moments: tuple[Moment, ...]

    @property
    def ctas(self) -> list[int]:
        """The CTAs that use their Tensor Memory."""
        return sorted({each.cta for each in self.intervals})

    @cached_property
    def changes(self) -> list[int]:
        """The numbers of the moments at which what Tensor Memory holds changes."""
        return [number for number in changes(list(self.intervals)) if number < len(self.moments)]

    def at(self, moment: int) -> list[Interval]:
        """What is held after the instruction of this number.

        Raises:
            ViewError: there is no such instruction.
        """
        if not 0 <= moment < len(self.moments):
            raise ViewError(f"no moment {moment} of {self.name}", f"0 to {len(self.moments) - 1}")
        return [each for each in self.intervals if each.holds(moment)]

    def table(self, moment: int | None = None) -> Table:
        """A row for each interval, or for each that holds at a moment; ViewError as `at`."""
        columns = (
            "cta", "role", "lanes", "columns", "first_moment", "last_moment", "first_line", "last_line",
            "first_opcode", "last_opcode",
        )  # fmt: skip
        chosen = self.intervals if moment is None else self.at(moment)
        rows = [
            (
                each.cta, each.role, each.lanes_in_words, words(each.columns), each.first.number, each.last.number,
                each.first.line, each.last.line, each.first.opcode, each.last.opcode,
            )
            for each in chosen
        ]  # fmt: skip
        return Table(columns, rows)


def words(columns: range) -> str:
    """`0 to 63`, or one number."""
    return f"{columns[0]} to {columns[-1]}" if len(columns) > 1 else f"{columns[0]}"


class Recorder(Observer):
    """Keeps the lives of all cells, of the CTAs that are asked for.

    Args:
        ctas: their numbers; None: all.
        line_of: gives the line of what an event calls its line.
    """

    wants_accesses = True

    def __init__(self, ctas: set[int] | None = None, line_of: Callable[[int], int] = int) -> None:
        self.moments = [START]
        self._ctas, self._line_of = ctas, line_of
        self._lives: dict[int, Lives] = {}

    def started(self, machines: list[CtaState]) -> None:
        """As `Observer.started`: notes what `.load` has filled."""
        for machine in machines:
            if "tmem" in vars(machine):
                self._lives[machine.rank] = Lives(machine.rank, machine.tmem.written)

    def accessed(self, event: Event) -> None:
        """As `Listener.accessed`."""
        ctas = {region.cta for region in (*event.reads, *event.writes) if region.space == "tmem"}
        ctas = {cta for cta in ctas if self._wanted(cta)}
        if ctas:
            moment = self._moment(event.line, event.kind)
            for cta in sorted(ctas):
                self._of(cta).touched(event, moment)

    def columns_allocated(self, cta: int, line: int, allocation: Allocation) -> None:
        """As `Listener.columns_allocated`."""
        if self._wanted(cta):
            self._of(cta).allocated(allocation, self._moment(line, "tcgen05.alloc"))

    def columns_freed(self, cta: int, line: int, allocation: Allocation) -> None:
        """As `Listener.columns_freed`."""
        if self._wanted(cta):
            self._of(cta).freed(allocation, self._moment(line, "tcgen05.dealloc"))

    def _wanted(self, cta: int) -> bool:
        return self._ctas is None or cta in self._ctas

    def _of(self, cta: int) -> Lives:
        return self._lives.setdefault(cta, Lives(cta))

    def _moment(self, line: int, kind: str) -> int:
        opcode = kind.partition(".cta_group")[0].partition(".sync")[0]
        self.moments.append(Moment(len(self.moments), self._line_of(line), opcode))
        return len(self.moments) - 1

    def memory_map(self, name: str) -> MemoryMap:
        """What was recorded."""
        found = [each for _, lives in sorted(self._lives.items()) for each in lives.intervals(self.moments)]
        return MemoryMap(name, tuple(found), tuple(self.moments))


def map_of_trace(source: str | Path | Program) -> MemoryMap:
    """Runs a trace; errors as of `simulator.run`."""
    program = load(source)
    recorder = Recorder()
    Interpreter(program, Session(program).fresh(), (recorder,)).run()
    return _checked(recorder.memory_map(program.name))


def map_of_launch(path: str | Path, cta: int = 0) -> MemoryMap:
    """Runs the cluster of one CTA of a captured launch; where clusters wait for one another, all of them.

    Raises:
        ViewError: there is no such CTA, or it has nothing in Tensor Memory.
        CaptureError, LaunchError, IsaError: as `simulator.launch`.
    """
    capture = read_capture(path)
    module = Module(capture.ptx)
    kernel = link(module.parsed, module.find(capture.entry))
    placed = place(capture)
    options = Options(dynamic_shared=capture.dynamic_shared, cluster=capture.cluster, target=capture.target)
    params = parameter_bytes(kernel, placed.values)
    setup = prepare(kernel, capture.grid, capture.block, placed.memory, params, options)
    if not 0 <= cta < setup.geometry.ctas:
        raise ViewError(f"no CTA {cta} in {capture.path.stem}", f"0 to {setup.geometry.ctas - 1}")
    cluster = setup.geometry.whole_clusters(np.array([cta]))
    portions = batches(setup) if waits_for_clusters(kernel) else [cluster]
    recorder = Recorder(set(cluster.tolist()), lambda index: kernel.items[index].line)
    budget, code = setup.budget, prepared(kernel)
    for portion in portions:
        state = setup.state(portion)
        state.listen(recorder)
        run = Run(code, state, budget)
        run.run()
        budget = run.budget
    return _checked(recorder.memory_map(capture.path.stem))


def _checked(memory: MemoryMap) -> MemoryMap:
    if not memory.intervals:
        raise ViewError(f"{memory.name} has nothing in Tensor Memory", "a program with tcgen05.alloc")
    return memory
