"""Where the time of a run went: a timeline for Perfetto or Konata, a Gantt chart, and stalls by warp, sub-core and
instruction.

    >>> import simulator
    >>> timeline = simulator.Timeline(0, 2000)
    >>> report = simulator.run("digits/f16", arithmetic="none", timeline=timeline)
    >>> timeline.stalls.total == report.cycles * report.warps
    True

`timeline.write_chrome("x.json")`, `timeline.write_kanata("x.log.gz")` and `timeline.write_gantt("x.svg")` write it;
docs/timelines.md says what the files show.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from isa.forms.mma import MmaForm
from simulator.errors import ViewError
from simulator.program.lowering import Code, Operation
from simulator.state.registers import Numbering
from simulator.timing.observer import Issue, Stall
from simulator.timing.recorder import Recorder

if TYPE_CHECKING:
    from simulator.program.program import Program
    from simulator.timing.config import Config
    from simulator.timing.result import Timing
    from simulator.views.timeline.gantt import Svg
    from simulator.views.timeline.stalls import Stalls

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
        line: of the trace.
        reads, writes: names of registers, with spaces between.
    """

    short: str
    line: int
    ptx: str
    reads: str
    writes: str


class Timeline:
    """What one run tells about its time.

    Args:
        first, last: the cycles of the timeline, from `first` to before `last`; repetitions of loops are simulated one
            by one until `last`. With last = 0 there is no timeline, only `stalls`.

    Attributes:
        recorder: what the engine told.
        trace, config, timing: of the run.

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

    def close(self, name: str, trace: Program, config: Config, codes: list[Code], timing: Timing) -> None:
        """After the run: what the recorded numbers mean."""
        self.trace, self.config, self.timing, self.codes = name, config, timing, codes
        self.numbering: Numbering = trace.numbering
        self.ctas = trace.ctas
        self._programs = {code.cta * trace.warps + warp: code for code in codes for warp in code.warps}
        self.cta_warps = trace.warps

    @property
    def used(self) -> bool:
        """Whether it belongs to a run already."""
        return bool(self.codes) or bool(self.trace)

    @property
    def cut(self) -> bool:
        """Whether the run went on after the last cycle of the timeline."""
        return self.timing.cycles > self.last

    @property
    def warps(self) -> list[int]:
        """Warps with a program, numbered over all CTAs."""
        return sorted(self.timing.waits)

    def core(self, warp: int) -> int:
        """The warp's sub-core, counted over all SMs."""
        cta, local = divmod(warp, self.cta_warps)
        return cta * self.config.sm.sub_cores + local % self.config.sm.sub_cores

    def sm(self, warp: int) -> int:
        return warp // self.cta_warps

    def operation(self, issue: Issue) -> Operation:
        """The instruction of an issue."""
        found = self._programs[issue.warp].items[issue.place]
        assert isinstance(found, Operation)
        return found

    def about(self, issue: Issue) -> About:
        """What to call the instruction of an issue."""
        key = (id(self._programs[issue.warp]), issue.place)
        if key not in self._about:
            operation, name = self.operation(issue), self.numbering.name
            reads, writes = (" ".join(map(name, registers)) for registers in (operation.reads, operation.writes))
            self._about[key] = About(short(operation), operation.line, str(operation.instruction), reads, writes)
        return self._about[key]

    def clipped(self, stall: Stall) -> Stall | None:
        """The part of it that lies in the timeline."""
        begin, end = max(stall.begin, self.first), min(stall.end, self.last)
        return Stall(stall.cause, begin, end) if end > begin else None

    @cached_property
    def stalls(self) -> Stalls:
        """Where the cycles of the whole run went, also those outside of the timeline."""
        from simulator.views.timeline.stalls import stalls_of

        return stalls_of(self)

    def write_chrome(self, path: str | Path) -> None:
        """Writes Chrome's trace event format (JSON), gzip if the name ends in .gz; OSError if it cannot be written."""
        from simulator.views.timeline.chrome import write

        write(self, path)

    def gantt(self, palette: str = "colour") -> Svg:
        """A Gantt chart as SVG text, which a notebook shows; `palette` is "colour" or "bw" (for print).

        Raises:
            ViewError: no such palette, or no cycle or more than 4,000 to draw.
        """
        from simulator.views.timeline.gantt import draw

        return draw(self, palette)

    def write_gantt(self, path: str | Path, palette: str = "colour") -> None:
        """Writes a Gantt chart: .svg, or .html that shows details of what is pointed at.

        Raises:
            ViewError: as `gantt`, or a name that ends in neither.
            OSError: it cannot be written.
        """
        from simulator.views.timeline.gantt import write

        write(self, path, palette)

    def write_kanata(self, path: str | Path) -> None:
        """Writes a Kanata log, gzip if the name ends in .gz; OSError if it cannot be written."""
        from simulator.views.timeline.kanata import write

        write(self, path)


def short(operation: Operation) -> str:
    """A name of an instruction that fits on a slice."""
    form = operation.instruction.form
    if isinstance(form, MmaForm):
        return f"mma{'.sp' if form.sparse else ''} m{form.m}n{form.n}k{form.k} {form.a_type}"
    name = str(getattr(form, "name", "")) or form.opcode.split(".")[0]
    return ".".join([name, *(q for q in form.opcode.removeprefix(name).split(".") if q in _SHOWN)])
