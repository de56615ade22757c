"""The recorded timing of one run: the recorder's events, together with the program and the config that give them
meaning. All views of a timeline start from it."""

from __future__ import annotations

from typing import NamedTuple

from isa.forms.mma import is_mma
from simulator.errors import ViewError
from simulator.program.lowering import Code, Operation
from simulator.program.program import Program
from simulator.state.registers import Numbering
from simulator.timing.config import Config
from simulator.timing.observer import Issue, Stall
from simulator.timing.recorder import Recorder
from simulator.timing.result import Timing

LIMIT = 20_000  # cycles of a timeline, unless told otherwise
_SHOWN = (
    "x1",
    "x2",
    "x4",
    "v2",
    "v4",
    "trans",
    "async",
    "bulk",
    "commit_group",
    "wait_group",
    "wait_all",
)  # qualifiers that a short name keeps


class About(NamedTuple):
    """An instruction in words.

    Attributes:
        short: a name that fits on a slice.
        line: its line in the trace.
        reads, writes: names of registers, separated by spaces.
    """

    short: str
    line: int
    ptx: str
    reads: str
    writes: str


class RecordedRun:
    """The recorded timing of one run.

    Args:
        first, last: the cycles of the timeline, from `first` to before `last`; repetitions of loops are simulated one
            by one until `last`. With last = 0 there is no timeline, only `stalls`.

    Attributes:
        recorder: the events that the engine reported.
        trace, config, timing: those of the run.

    Raises:
        ViewError: no such window.
    """

    def __init__(self, first: int = 0, last: int = LIMIT) -> None:
        if not 0 <= first <= last or (first == last and last):
            raise ViewError(f"no cycles from {first} to before {last}", "FIRST from 0 on, LAST above it")
        self.first, self.last = first, last
        self.recorder = Recorder((first, last))
        self.trace = ""
        self.codes: list[Code] = []
        self._about: dict[tuple[int, int], About] = {}

    def close(self, name: str, program: Program, config: Config, codes: list[Code], timing: Timing) -> None:
        """Called after the run with what gives the recorded numbers their meaning."""
        self.trace, self.config, self.timing, self.codes = name, config, timing, codes
        self.numbering: Numbering = program.numbering
        self.ctas = program.ctas
        self._programs = {code.cta * program.warps + warp: code for code in codes for warp in code.warps}
        self.cta_warps = program.warps

    @property
    def used(self) -> bool:
        """Whether it already belongs to a run."""
        return bool(self.codes) or bool(self.trace)

    @property
    def cut(self) -> bool:
        """Whether the run went on after the last cycle of the timeline."""
        return self.timing.cycles > self.last

    @property
    def warps(self) -> list[int]:
        """The warps with a program, numbered over all CTAs."""
        return sorted(self.timing.waits)

    def core(self, warp: int) -> int:
        """The warp's sub-core, counted over all SMs."""
        cta, local = divmod(warp, self.cta_warps)
        return cta * self.config.sm.sub_cores + local % self.config.sm.sub_cores

    def sm(self, warp: int) -> int:
        """The SM of a warp."""
        return warp // self.cta_warps

    def operation(self, issue: Issue) -> Operation:
        """The instruction of an issue."""
        operation = self._programs[issue.warp].items[issue.place]
        assert isinstance(operation, Operation)
        return operation

    def about(self, issue: Issue) -> About:
        """The description of the instruction of an issue."""
        key = (id(self._programs[issue.warp]), issue.place)
        if key not in self._about:
            operation, name = self.operation(issue), self.numbering.name
            reads, writes = (" ".join(map(name, registers)) for registers in (operation.reads, operation.writes))
            self._about[key] = About(short(operation), operation.line, str(operation.instruction), reads, writes)
        return self._about[key]

    def clipped(self, stall: Stall) -> Stall | None:
        """The part of a stall that lies in the timeline."""
        begin, end = max(stall.begin, self.first), min(stall.end, self.last)
        return Stall(stall.cause, begin, end) if end > begin else None


def short(operation: Operation) -> str:
    """A name of an instruction that fits on a slice."""
    form = operation.instruction.form
    if is_mma(form):
        return f"mma{'.sp' if form.sparse else ''} m{form.m}n{form.n}k{form.k} {form.a_type}"
    return ".".join([form.name, *(q for q in form.opcode.removeprefix(form.name).split(".") if q in _SHOWN)])
