"""Stalls: where the cycles of each warp went, by warp, by sub-core, for the SM, and by instruction. Each of these
tables sums to cycles x warps."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from simulator.chip.config import config_label
from simulator.compiler.timed_code import StallReason
from simulator.tables import Table, aligned
from simulator.views.timeline.recorded import RecordedRun

if TYPE_CHECKING:
    from pandas import DataFrame

CAUSES = tuple(wait.name.lower() for wait in StallReason)
VIEWS = ("line", "warp", "sub-core", "sm")
END = "(end of the program)"


@dataclass(frozen=True)
class Row:
    """A part of the cycles.

    Attributes:
        name: what the part belongs to: a warp, a sub-core, the SM, or a line of the trace (0: what comes after the last
            instruction, or what a compiler adds).
        what: the instruction.
        issues: instructions issued, each in one cycle.
        cycles: warps' cycles by cause: "issued", and waits. Waits for a barrier, an mbarrier, completion or the end of
            a loop belong to the instruction before, all others to the instruction that was to issue.
        source: "file:line" of the source that the line was compiled from, or "".
    """

    name: int
    what: str
    issues: int
    cycles: dict[str, int]
    source: str = ""

    @property
    def total(self) -> int:
        """The cycles of all causes together."""
        return sum(self.cycles.values())


@dataclass(frozen=True)
class Stalls:
    """Where the cycles of a run went.

    Attributes:
        cycles, warps: cycles of the run, and warps that have a program.
        views: rows by the name of the view: "line", "warp", "sub-core", "sm".
        config_path: the file of a config that does not come with tcsim; empty for one that does.
        config_overrides: what was set over the config's values, "key=value; key=value"; empty if nothing was.
    """

    trace: str
    config: str
    cycles: int
    warps: int
    views: dict[str, list[Row]]
    config_path: str = ""
    config_overrides: str = ""

    @property
    def total(self) -> int:
        """The cycles of all warps together."""
        return self.cycles * self.warps

    def rows(self, by: str = "line", worst: int | None = None) -> list[Row]:
        """The rows of a view, or the `worst` rows with the most cycles, largest first; KeyError for a view that does
        not exist."""
        rows = self.views[by]
        return rows if worst is None else sorted(rows, key=lambda row: -row.total)[:worst]

    def as_dict(self, by: str = "line", worst: int | None = None) -> dict[str, Any]:
        """A view as plain values, ready for JSON."""
        return {
            "trace": self.trace,
            "config": self.config,
            "config_path": self.config_path,
            "config_overrides": self.config_overrides,
            "cycles": self.cycles,
            "warps": self.warps,
            "by": by,
            "rows": [self._record(row, by) for row in self.rows(by, worst)],
            "all": self.views["sm"][0].cycles
            if len(self.views["sm"]) == 1
            else added([row.cycles for row in self.views["sm"]]),
        }

    def json(self, by: str = "line", worst: int | None = None) -> str:
        """A view as JSON."""
        return json.dumps(self.as_dict(by, worst), indent=2) + "\n"

    def csv(self, by: str = "line", worst: int | None = None) -> str:
        """A row for each row of the view, a column for each cause."""
        sourced = self._sourced(by)
        rows = [
            (
                row.name,
                *((row.source,) if sourced else ()),
                *((row.what,) if by == "line" else ()),
                row.issues,
                row.total,
                self._share(row.total),
                *(row.cycles[cause] for cause in CAUSES),
            )
            for row in self.rows(by, worst)
        ]
        what = (*(("source",) if sourced else ()), *(("instruction",) if by == "line" else ()))
        return Table((by, *what, "issues", "cycles", "share", *CAUSES), rows).csv()

    def to_frame(self, by: str = "line", worst: int | None = None) -> DataFrame:
        """The view as a pandas DataFrame: name, instruction (of lines alone), issues, cycles, share of all warps'
        cycles, and a column of cycles for each cause: `barrier_cycles`."""
        records = [
            {by: row.name}
            | ({"source": row.source} if self._sourced(by) else {})
            | ({"instruction": row.what} if by == "line" else {})
            | {"issues": row.issues, "cycles": row.total, "share": self._share(row.total)}
            | {f"{cause}_cycles": row.cycles[cause] for cause in CAUSES}
            for row in self.rows(by, worst)
        ]
        return Table.of(records).frame()

    def table(self, by: str = "line", worst: int | None = None) -> str:
        """The view as text for a person: cycles and shares, by cause."""
        every = added([row.cycles for row in self.views["sm"]])
        causes = [cause for cause in CAUSES if every[cause]]
        rows: list[tuple[str, ...]] = [(by, "issues", "cycles", "share", *causes, "")]
        for row in self.rows(by, worst):
            name = str(row.name) if by != "line" or row.name else "end" if row.what == END else "-"
            cells = (f"{row.cycles[cause]:,}" if row.cycles[cause] else "." for cause in causes)
            where = f"{row.source}: " if row.source else ""
            what = f" {where}{_shortened(row.what)}" if row.what and row.what != END else ""
            rows.append((name, f"{row.issues:,}", f"{row.total:,}", f"{self._share(row.total):.1%}", *cells, what))
        issues = sum(row.issues for row in self.views["sm"])
        rows.append(("all", f"{issues:,}", f"{self.total:,}", "", *(f"{every[cause]:,}" for cause in causes), ""))
        rows.append(("", "", "", "", *(f"{self._share(every[cause]):.1%}" for cause in causes), ""))
        lines = aligned(rows, ">" * (4 + len(causes)) + "<", widths=(8, 9, 11, 6, *[10] * len(causes), 0), gap=" ")
        run = f"{self.trace} on {config_label(self.config, self.config_path, self.config_overrides)}"
        title = f"{run}: {self.cycles:,} cycles x {self.warps} warps; cycles of warps by cause"
        return "\n".join([title, "", *lines, ""])

    def _sourced(self, by: str) -> bool:
        """Whether the rows of a view say where in a source they come from."""
        return by == "line" and any(row.source for row in self.views[by])

    def _share(self, cycles: int) -> float:
        return cycles / max(self.total, 1)

    def _record(self, row: Row, by: str) -> dict[str, Any]:
        what = {"instruction": row.what} if by == "line" else {}
        what |= {"source": row.source} if self._sourced(by) else {}
        return {
            by: row.name,
            **what,
            "issues": row.issues,
            "total": row.total,
            "share": self._share(row.total),
            "cycles": row.cycles,
        }


def added(parts: Sequence[dict[str, int]]) -> dict[str, int]:
    """The cycles of all parts together, by cause."""
    return {cause: sum(part[cause] for part in parts) for cause in CAUSES}


def stalls_of(timeline: RecordedRun) -> Stalls:
    """The tables of stalls of a run."""
    waits = {warp: dict(zip(CAUSES, row, strict=True)) for warp, row in timeline.timing.waits.items()}
    views = {"line": _lines(timeline, added(list(waits.values()))["finished"])}
    views["warp"] = [Row(warp, "", row["issued"], row) for warp, row in sorted(waits.items())]
    for view, part in (("sub-core", timeline.core), ("sm", timeline.sm)):
        places = sorted({part(warp) for warp in waits})
        sums = {place: added([row for warp, row in waits.items() if part(warp) == place]) for place in places}
        views[view] = [Row(place, "", row["issued"], row) for place, row in sums.items()]
    config = timeline.config
    cycles = timeline.timing.cycles
    return Stalls(timeline.trace, config.name, cycles, len(waits), views, config.own_path, config.overridden)


def _lines(timeline: RecordedRun, finished: int) -> list[Row]:
    """A row for each instruction of the trace, in the order of the lines, and one for what comes after the last
    instruction."""
    assert timeline.listing is not None
    by_instruction: dict[tuple[int, str, str], list[list[int]]] = {}
    for code, ledger in enumerate(timeline.recorder.ledgers()):
        for place, row in enumerate(ledger):
            entry = timeline.listing.entry(code, place)
            if entry is not None:
                by_instruction.setdefault((entry.line, entry.text, entry.source), []).append(row)
    parts = {key: np.sum(rows, 0).tolist() for key, rows in sorted(by_instruction.items(), key=lambda pair: pair[0][0])}
    rows = [
        Row(line, what, row[StallReason.ISSUED], dict(zip(CAUSES, row, strict=True)), source)
        for (line, what, source), row in parts.items()
    ]
    return [*rows, Row(0, END, 0, dict.fromkeys(CAUSES, 0) | {"finished": finished})]


def _shortened(text: str, width: int = 72) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."
