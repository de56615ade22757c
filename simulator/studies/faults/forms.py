"""Every single bit of the metadata registers, of every `mma.sp` form: the table of docs/faults.md."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from isa import MmaForm, mma_forms, parse_target
from simulator.errors import ConfigError
from simulator.faults.kinds import Group, every_fault
from simulator.faults.mma_target import MmaTarget
from simulator.faults.outcomes import DETECTORS, MASKED, REASONS, SDC, Results, flag
from simulator.layout import Choice
from simulator.tables import Table

SHOWN = ("legality", "ordered", "parity", "secded", "abft")
HEAD = ("form", "target", "selectors", "live bits", "dead bits masked", "masked", "sdc", "max elements", *SHOWN)


@dataclass(frozen=True)
class Row:
    """One form, every selector: shares are of the flips of live bits, over all selectors and cases; detectors of those
    that corrupt.

    Attributes:
        opcode, target, selectors: what was looked at.
        live: bits that the instruction reads with one selector; the others are `dead`, of which `dead_masked` flips are
            masked with every one.
        masked, sdc: shares.
        elements: most elements of D that one flip corrupts.
        seen: by detector; None where nothing is corrupted.
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
        seen = ["-" if share is None else f"{share:.1%}" for share in self.seen]
        counts = [str(self.selectors), str(self.live), f"{self.dead_masked} of {self.dead}"]
        return [self.opcode, self.target, *counts, f"{self.masked:.1%}", f"{self.sdc:.1%}", str(self.elements), *seen]


def every_form(target: str, cases: int, seed: int, policy: str) -> list[Row]:
    """Exhaustive single-bit campaigns on every sparse form, with every selector, that a target has ("any": of some
    target).

    Raises:
        ConfigError: a target without sparse forms.
    """
    rows = []
    for form in mma_forms().values():
        if not form.sparse:
            continue
        on = _target(form, target)
        if on is not None:
            rows.append(one_form(form, on, cases, seed, policy))
    if not rows:
        raise ConfigError("faults forms", "target", f"{target} has no mma.sp", "sm_80 or later")
    return rows


def _target(form: MmaForm, wanted: str) -> str | None:
    """A target that has the form: the wanted one, or for "any" the first of some."""
    if wanted != "any":
        return wanted if form.supports(parse_target(wanted)) else None
    return next((name for name in ("sm_90a", "sm_80", "sm_89", "sm_120a") if form.supports(parse_target(name))), None)


def one_form(form: MmaForm, target: str, cases: int, seed: int, policy: str) -> Row:
    """One row."""
    results: dict[str, list[Results]] = {"live": [], "dead": []}
    for selector in range(form.metadata.selectors):
        subject = MmaTarget(form.opcode, target, Choice(selector=selector), cases, seed, policy)
        for where, found in results.items():
            group = Group("", "e", "flip", where)
            found.append(subject.run(every_fault(group, subject.sites["e"], subject.layout, cases, seed)))
    live, dead = (np.concatenate(found) for found in results.values())
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
    """A table."""
    note = (
        f"{len(rows)} forms; shares of all flips of a live bit; detectors: share of those that are not masked; "
        "dead bits: of registers or lanes that are not read"
    )
    return f"{_table(rows).text('<>')}\n{note}\n"


def as_markdown(rows: list[Row]) -> str:
    """The same for docs/faults.md."""
    cells = [row.cells() for row in rows]
    return Table(HEAD, [[f"`{opcode}`", *others] for opcode, *others in cells]).markdown()


def as_csv(rows: list[Row]) -> str:
    """The same as CSV."""
    return _table(rows).csv()


def to_frame(rows: list[Row]) -> Any:
    """The same as a pandas DataFrame, with shares as numbers."""
    import pandas as pd

    columns = [field.name for field in fields(Row) if field.name != "seen"]
    frame = pd.DataFrame([{name: getattr(row, name) for name in columns} for row in rows])
    return frame.join(pd.DataFrame([row.seen for row in rows], columns=list(SHOWN)))


assert set(SHOWN) <= set(DETECTORS)
