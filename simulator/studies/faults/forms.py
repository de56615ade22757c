"""Injects every single-bit fault into the metadata registers of every `mma.sp` form, and makes the table of
docs/faults.md."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from isa import MmaForm, mma_forms, parse_target
from simulator.errors import ConfigError
from simulator.faults.group import Group
from simulator.faults.outcomes import DETECTORS, MASKED, REASONS, SDC, Results, flag
from simulator.faults.population import every_fault
from simulator.faults.targets.mma import MmaTarget
from simulator.layout import Choice
from simulator.progress import Progress, unseen
from simulator.tables import Table

SHOWN = ("legality", "ordered", "parity", "secded", "abft")
HEAD = ("form", "target", "selectors", "live bits", "dead bits masked", "masked", "sdc", "max elements", *SHOWN)


@dataclass(frozen=True)
class Row:
    """The results of one form, over every selector. Shares are shares of the flips of live bits, over all selectors and
    cases; those of detectors are shares of the flips that corrupt the result.

    Attributes:
        opcode, target, selectors: what was examined.
        live: how many bits the instruction reads with one selector.
        dead: how many bits it does not read; `dead_masked` of their flips are masked with every selector.
        masked, sdc: shares.
        elements: the largest number of elements of D that one flip corrupts.
        seen: for each detector the share that it sees; None where nothing is corrupted.
    """

    opcode: str
    target: str
    selectors: int
    live: int
    dead: int
    dead_masked: int
    masked: float
    sdc: float
    elements: int
    seen: tuple[float | None, ...]

    def cells(self) -> list[str]:
        """The row as cells of the table."""
        seen = ["-" if share is None else f"{share:.1%}" for share in self.seen]
        counts = [str(self.selectors), str(self.live), f"{self.dead_masked} of {self.dead}"]
        return [self.opcode, self.target, *counts, f"{self.masked:.1%}", f"{self.sdc:.1%}", str(self.elements), *seen]


def every_form(target: str, cases: int, seed: int, policy: str, progress: Progress = unseen) -> list[Row]:
    """Makes exhaustive single-bit campaigns on every sparse form that a target has, with every selector ("any": on
    every form that some target has).

    Raises:
        ConfigError: a target without sparse forms, a policy or a seed that is none.
    """
    if not 0 <= seed < 1 << 63:
        raise ConfigError("faults forms", "seed", str(seed), f"0 to {(1 << 63) - 1}")
    sparse = ((form, _target(form, target)) for form in mma_forms().values() if form.sparse)
    there = [(form, on) for form, on in sparse if on is not None]
    rows: list[Row] = []
    for form, on in there:
        progress(len(rows), len(there), "forms")
        rows.append(one_form(form, on, cases, seed, policy))
    if not rows:
        raise ConfigError("faults forms", "target", f"{target} has no mma.sp", "sm_80 or later")
    return rows


def _target(form: MmaForm, requested: str) -> str | None:
    """A target that has the form: the requested one, or for "any" the first that has it; None if there is none."""
    if requested != "any":
        return requested if form.supports(parse_target(requested)) else None
    return next((name for name in ("sm_90a", "sm_80", "sm_89", "sm_120a") if form.supports(parse_target(name))), None)


def one_form(form: MmaForm, target: str, cases: int, seed: int, policy: str) -> Row:
    """Makes the row of one form."""
    results: dict[str, list[Results]] = {"live": [], "dead": []}
    for selector in range(form.metadata.selectors):
        subject = MmaTarget(form.opcode, target, Choice(selector=selector), cases, seed, policy)
        for where, parts in results.items():
            group = Group("", "e", "flip", where)
            parts.append(subject.run(every_fault(group, subject.sites["e"], subject.layout, cases, seed)))
    live, dead = (np.concatenate(parts) for parts in results.values())
    times = cases * form.metadata.selectors
    harmful = live["outcome"] != MASKED
    seen = tuple(
        float(((live["detectors"][harmful] & flag(name)) > 0).mean()) if harmful.any() else None for name in SHOWN
    )
    masked, sdc = (float((live["outcome"] == which).mean()) for which in (MASKED, SDC))
    quiet = int((dead["reason"] == REASONS.index("unread")).sum())
    sizes = len(live) // times, len(dead) // times, quiet // times
    return Row(form.opcode, target, form.metadata.selectors, *sizes, masked, sdc, int(live["elements"].max()), seen)


def _table(rows: list[Row]) -> Table:
    return Table(HEAD, [row.cells() for row in rows])


def as_text(rows: list[Row]) -> str:
    """The rows as a table of text."""
    note = (
        f"{len(rows)} forms; shares of all flips of a live bit; detectors: share of those that are not masked; "
        "dead bits: of registers or lanes that are not read"
    )
    return f"{_table(rows).text('<>')}\n{note}\n"


def as_markdown(rows: list[Row]) -> str:
    """The rows as a Markdown table, for docs/faults.md."""
    cells = [row.cells() for row in rows]
    return Table(HEAD, [[f"`{opcode}`", *others] for opcode, *others in cells]).markdown()


def as_csv(rows: list[Row]) -> str:
    """The rows as CSV."""
    return _table(rows).csv()


def to_frame(rows: list[Row]) -> Any:
    """The rows as a pandas DataFrame, with shares as numbers."""
    import pandas as pd

    columns = [field.name for field in fields(Row) if field.name != "seen"]
    frame = pd.DataFrame([{name: getattr(row, name) for name in columns} for row in rows])
    return frame.join(pd.DataFrame([row.seen for row in rows], columns=list(SHOWN)))


assert set(SHOWN) <= set(DETECTORS)
