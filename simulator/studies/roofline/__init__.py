"""Rooflines: compares how fast runs are with the limits that the tensor cores and the memories set for the work of each
run.

    >>> import simulator
    >>> from simulator.studies.roofline import roofline
    >>> line = roofline([simulator.run("digits/f16", arithmetic="none")]).points[0]
    >>> line.bound, 0 < line.share <= 1
    ('shared memory', True)

Operational intensity is the number of multiply-adds for each byte that a memory moves. A run can do no more
multiply-adds in a cycle than its matrix instructions let the tensor cores do ("tensor"), and no more than each memory
has bytes for; the lowest of these limits is its roof.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from simulator.chip.config import config_label
from simulator.errors import ViewError
from simulator.floating_point import guarded
from simulator.simulation.demand import Work
from simulator.simulation.launch.report import LaunchReport
from simulator.simulation.report import Report
from simulator.tables import Table, aligned

if TYPE_CHECKING:
    from pandas import DataFrame

COUNTS = ("named", "performed")
TENSOR = "tensor"


@dataclass(frozen=True)
class Point:
    """One run compared with one memory.

    Attributes:
        config_path: the file of a config that does not come with tcsim; empty for one that does.
        config_overrides: what was set over the config's values, "key=value; key=value"; empty if nothing was.
        memory: the name of the memory.
        fma: the multiply-adds of one SM.
        bytes: the bytes that the memory moved for that SM.
        intensity: multiply-adds per byte; infinite if no byte was moved.
        achieved: multiply-adds per cycle of one SM.
        tensor_limit, memory_limit: the most multiply-adds per cycle that the tensor cores, and the memory, allow.
        path, path_limit: what tensor pipes of a sub-core share and matrix instructions take longest ("metadata path",
            "operand ports"), and what it allows; empty and infinite where a config has no such thing.
    """

    trace: str
    config: str
    memory: str
    cycles: int
    fma: float
    bytes: int
    bytes_per_cycle: float
    intensity: float
    achieved: float
    tensor_limit: float
    memory_limit: float
    config_path: str = ""
    config_overrides: str = ""
    path: str = ""
    path_limit: float = math.inf

    @property
    def config_label(self) -> str:
        """The config as texts name it: with its path, if it is not one of tcsim's own, and with what was set."""
        return config_label(self.config, self.config_path, self.config_overrides)

    @property
    def limit(self) -> float:
        """The lowest of the limits, in multiply-adds per cycle."""
        return min(self.tensor_limit, self.memory_limit, self.path_limit)

    @property
    def bound(self) -> str:
        """What sets the lowest limit: "tensor", the memory's name, or that of `path`."""
        if self.path_limit < min(self.tensor_limit, self.memory_limit):
            return self.path
        return TENSOR if self.tensor_limit <= self.memory_limit else self.memory

    @property
    def share(self) -> float:
        """The achieved rate as a share of the lower limit."""
        return self.achieved / self.limit

    def as_dict(self) -> dict[str, Any]:
        """The point as plain values for JSON; None stands for infinity."""
        values = asdict(self) | {"limit": self.limit, "bound": self.bound, "share": self.share}
        return {key: None if value == math.inf else value for key, value in values.items()}


@dataclass(frozen=True)
class Roofline:
    """The points of some runs: one for each memory that their configs describe and that moved something (for all
    memories, if none did).

    Attributes:
        count: which multiply-adds are counted: "named" (pruned products count) or "performed".
    """

    count: str
    points: tuple[Point, ...]

    def json(self) -> str:
        """The points as JSON."""
        return json.dumps({"count": self.count, "points": [point.as_dict() for point in self.points]}, indent=2) + "\n"

    def csv(self) -> str:
        """The points as CSV."""
        return Table.of(point.as_dict() for point in self.points).csv()

    def to_frame(self) -> DataFrame:
        """The points as a pandas DataFrame, one row for each run and memory."""
        named = {
            "bytes_per_cycle": "memory_bytes_per_cycle",
            "intensity": "intensity_fma_per_byte",
            "achieved": "achieved_fma_per_clk",
            "tensor_limit": "tensor_limit_fma_per_clk",
            "memory_limit": "memory_limit_fma_per_clk",
            "path_limit": "path_limit_fma_per_clk",
            "limit": "limit_fma_per_clk",
        }
        return Table.of(point.as_dict() for point in self.points).frame().rename(columns=named)

    def table(self) -> str:
        """The points as a table of text."""
        counted = "as named, pruned products counted" if self.count == "named" else "that are performed"
        head = ("trace", "config", "memory", "FMA", "bytes", "FMA/byte", "FMA/clk", "tensor limit", "memory limit")
        rows: list[tuple[str, ...]] = [(*head, "share", " bound by")]
        for p in self.points:
            moved = p.intensity != math.inf
            rows.append(
                (
                    *(p.trace, p.config_label, p.memory, f"{p.fma:,.0f}", f"{p.bytes:,}"),
                    *(f"{p.intensity:,.2f}" if moved else "-", f"{p.achieved:,.1f}", f"{p.tensor_limit:,.0f}"),
                    *(f"{p.memory_limit:,.0f}" if moved else "-", f"{p.share:.1%}", f" {p.bound}"),
                )
            )
        lines = aligned(rows, "<<<>>>>>>><", widths=(0, 12, 14, 14, 13, 9, 8, 12, 12, 6, 0), gap=" ")
        return "\n".join([f"multiply-adds (FMA) {counted}, of one SM", "", *lines, ""])


@dataclass(frozen=True)
class _Run:
    """What rooflines need of a run: of a trace, or of the SM of a launch that has most CTAs."""

    trace: str
    config: str
    config_path: str
    config_overrides: str
    cycles: int
    work: Work


def _run(report: Report | LaunchReport) -> _Run:
    timed = report if isinstance(report, Report) else report.timing
    if timed is None:
        return _Run(report.trace, "", "", "", 0, Work())
    return _Run(report.trace, timed.config, timed.config_path, timed.config_overrides, timed.cycles, timed.work)


@guarded
def roofline(reports: Sequence[Report | LaunchReport], count: str = "named") -> Roofline:
    """Compares runs with their limits.

    Args:
        reports: the reports of runs of traces, and of launches.
        count: which multiply-adds to count: "named" or "performed".

    Raises:
        ViewError: no run, one without a config, or one without matrix instructions.
    """
    if count not in COUNTS:
        raise ViewError(f"multiply-adds '{count}' are not known", ", ".join(COUNTS))
    if not reports:
        raise ViewError("no run to draw", "at least one report")
    return Roofline(count, tuple(point for report in reports for point in _points(_run(report), count)))


def _points(report: _Run, count: str) -> list[Point]:
    work = report.work
    if not work.memories:
        raise ViewError(
            f"{report.trace} was run without a config, so there are no limits", "a config, such as h100_sxm"
        )
    fma = work.fma if count == "named" else work.performed_fma
    if not fma or not work.tensor_cycles:
        raise ViewError(f"{report.trace} has no matrix instructions", "a trace with mma, mma.sp or tcgen05.mma")
    points = []
    path = max(work.paths, key=lambda name: work.paths[name], default="")
    moving = {name: traffic for name, traffic in work.memories.items() if traffic.bytes}
    for name, traffic in (moving or work.memories).items():
        intensity = fma / traffic.bytes if traffic.bytes else math.inf
        points.append(
            Point(
                report.trace,
                report.config,
                name,
                report.cycles,
                fma,
                traffic.bytes,
                traffic.bytes_per_cycle,
                intensity,
                fma / report.cycles,
                fma / work.tensor_cycles,
                intensity * traffic.bytes_per_cycle,
                report.config_path,
                report.config_overrides,
                path,
                fma / work.paths[path] if path else math.inf,
            )
        )
    return points
