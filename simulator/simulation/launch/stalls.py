"""Where the cycles of a launch went: for each line of the PTX how often it issued, and how long warps waited for it."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from simulator.program.kernel import Kernel
from simulator.tables import Table
from simulator.timing.model import StallReason, TimedOperation
from simulator.timing.observer import Stall, TimingObserver
from simulator.timing.pipes import Pipes
from simulator.timing.warp import Warp

_HEAD = ("line", "source", "issued", "cycles", "share", "cause", "instruction")


class LineObserver(TimingObserver):
    """Counts by line of the PTX (0: what a compiler adds) the issues, and the cycles before them by cause."""

    def __init__(self) -> None:
        self.issues: Counter[int] = Counter()
        self.cycles: defaultdict[int, Counter[StallReason]] = defaultdict(Counter)

    def issue(self, core: Pipes, warp: Warp, operation: TimedOperation, now: int, stalls: Sequence[Stall]) -> None:
        """Called when a warp issues an operation."""
        self.issues[operation.line] += 1
        row = self.cycles[operation.line]
        row[StallReason.ISSUED] += 1
        for stall in stalls:
            row[stall.cause] += stall.end - stall.begin


@dataclass(frozen=True)
class LineStalls:
    """The cycles of one line.

    Attributes:
        line: of the PTX.
        source: "file:line" of the source, or "".
        instruction: as it stands in the module.
        issued: machine instructions that its warps issued.
        cycles: by cause, of all warps of the SM together; "issued" are the issues themselves.
    """

    line: int
    source: str
    instruction: str
    issued: int
    cycles: dict[str, int]

    @property
    def total(self) -> int:
        """Cycles of all causes."""
        return sum(self.cycles.values())


@dataclass(frozen=True)
class LaunchStalls:
    """The cycles of the SM with most CTAs of a launch.

    Attributes:
        kernel: that ran.
        cycles: in which the SM was busy.
        rows: the lines, in the order of the PTX.
    """

    kernel: str
    cycles: int
    rows: tuple[LineStalls, ...]

    def _chosen(self, worst: int | None) -> Sequence[LineStalls]:
        return self.rows if worst is None else sorted(self.rows, key=lambda row: -row.total)[:worst]

    def _cells(self, worst: int | None) -> list[tuple[object, ...]]:
        whole = max(sum(row.total for row in self.rows), 1)
        return [
            (
                row.line,
                row.source,
                row.issued,
                row.total,
                f"{100 * row.total / whole:.1f} %",
                _main(row),
                row.instruction,
            )
            for row in self._chosen(worst)
        ]

    def table(self, worst: int | None = None) -> str:
        """The lines as text, all or those with most cycles."""
        head = f"{self.kernel}: {self.cycles:,} cycles of the SM with most CTAs; cycles of all its warps by line\n\n"
        return head + Table(_HEAD, self._cells(worst)).text()

    def csv(self, worst: int | None = None) -> str:
        """One row for each line and cause."""
        rows = [
            (row.line, row.source, row.instruction, row.issued, cause, cycles)
            for row in self._chosen(worst)
            for cause, cycles in row.cycles.items()
        ]
        return Table(("line", "source", "instruction", "issued", "cause", "cycles"), rows).csv()

    def json(self, worst: int | None = None) -> str:
        """One object; `lines` has one row each."""
        lines = [
            {"line": row.line, "source": row.source, "instruction": row.instruction, "issued": row.issued, **row.cycles}
            for row in self._chosen(worst)
        ]
        return json.dumps({"kernel": self.kernel, "cycles": self.cycles, "lines": lines}, indent=1) + "\n"


def _main(row: LineStalls) -> str:
    """The cause of most cycles, the issues left out."""
    waits = {cause: cycles for cause, cycles in row.cycles.items() if cause != "issued"}
    return max(waits, key=lambda cause: waits[cause]) if waits else ""


def stalls_of(kernel: Kernel, cycles: int, observer: LineObserver) -> LaunchStalls:
    """What an observer has counted, with the instructions of the kernel."""
    items = {item.line: item for item in reversed(kernel.items)}
    rows = []
    for line in sorted(observer.cycles):
        item = items.get(line)
        rows.append(
            LineStalls(
                line,
                f"{item.source[0]}:{item.source[1]}" if item is not None and item.source else "",
                item.text if item is not None else "(added by the compiler)",
                observer.issues[line],
                {reason.name.lower(): count for reason, count in sorted(observer.cycles[line].items())},
            )
        )
    return LaunchStalls(kernel.name, cycles, tuple(rows))
