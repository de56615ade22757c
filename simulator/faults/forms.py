"""Every single bit of the metadata registers, of every `mma.sp` form: the table of docs/faults.md."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from isa import MmaForm, mma_forms, parse_target
from simulator.errors import ConfigError
from simulator.faults.instruction import Instruction
from simulator.faults.outcomes import DETECTORS, MASKED, REASONS, SDC, flag
from simulator.faults.space import Group, drawn, population
from simulator.faults.table import csv_text

SHOWN = ("legality", "ordered", "parity", "secded", "abft")
HEAD = ("form", "target", "selector", "live bits", "dead bits masked", "masked", "sdc", "due", "max elements", *SHOWN)


@dataclass(frozen=True)
class Row:
    """One form and selector: shares are of the flips of live bits, over all cases; detectors of those that corrupt.

    Attributes:
        opcode, target, selector: what was looked at.
        live: bits that the instruction reads; the others are `dead`, of which `dead_masked` flips are masked.
        masked, sdc, due: shares.
        elements: most elements of D that one flip corrupts.
        seen: by detector; None where nothing is corrupted.
    """

    opcode: str
    target: str
    selector: int
    live: int
    dead: int
    dead_masked: int
    masked: float
    sdc: float
    due: float
    elements: int
    seen: tuple[float | None, ...]

    def cells(self) -> list[str]:
        seen = ["-" if share is None else f"{share:.1%}" for share in self.seen]
        shares = [f"{share:.1%}" for share in (self.masked, self.sdc, self.due)]
        return [
            self.opcode,
            self.target,
            str(self.selector),
            str(self.live),
            f"{self.dead_masked} of {self.dead}",
            *shares,
            str(self.elements),
            *seen,
        ]


def every_form(target: str, cases: int, seed: int, policy: str) -> list[Row]:
    """Exhaustive single-bit campaigns on every sparse form and selector that a target has ("any": of some target).

    Raises:
        ConfigError: a target without sparse forms.
    """
    rows = []
    for form in mma_forms().values():
        if not form.sparse:
            continue
        on = _target(form, target)
        if on is not None:
            rows += [one_form(form, on, selector, cases, seed, policy) for selector in range(form.metadata.selectors)]
    if not rows:
        raise ConfigError("faults forms", "target", f"{target} has no mma.sp", "sm_80 or later")
    return rows


def _target(form: MmaForm, wanted: str) -> str | None:
    """A target that has the form: the wanted one, or for "any" the first of some."""
    if wanted != "any":
        return wanted if form.supports(parse_target(wanted)) else None
    return next((name for name in ("sm_90a", "sm_80", "sm_89", "sm_120a") if form.supports(parse_target(name))), None)


def one_form(form: MmaForm, target: str, selector: int, cases: int, seed: int, policy: str) -> Row:
    """One row."""
    from simulator.layout import Choice

    subject = Instruction(form.opcode, target, Choice(selector=selector), cases, seed, policy)
    site = subject.sites["e"]
    outcome = {}
    for where in ("live", "dead"):
        every = population(Group("", "e", "flip", where), site, subject.layout, cases)
        faults = every.make(np.arange(every.size))
        faults["id"] = np.arange(every.size)
        outcome[where] = subject.run(drawn(faults, seed)) if every.size else None
    live, dead = outcome["live"], outcome["dead"]
    assert live is not None
    harmful = live["outcome"] != MASKED
    seen = tuple(float(((live["detectors"][harmful] & flag(name)) > 0).mean()) if harmful.any() else None for name in SHOWN)
    masked, sdc = (float((live["outcome"] == which).mean()) for which in (MASKED, SDC))
    quiet = 0 if dead is None else int((dead["reason"] == REASONS.index("unread")).sum())
    bits, others = len(live) // cases, 0 if dead is None else len(dead) // cases
    most = int(live["elements"].max())
    return Row(form.opcode, target, selector, bits, others, quiet // cases, masked, sdc, 1 - masked - sdc, most, seen)


def as_text(rows: list[Row]) -> str:
    """A table."""
    lines = [list(HEAD), *(row.cells() for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    table = ["  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]) for line in lines]
    note = "shares of all flips of a live bit; detectors: share of those that are not masked; dead bits: of registers or lanes that are not read"
    return "\n".join([*table, "", f"{len(rows)} forms and selectors; {note}", ""])


def as_markdown(rows: list[Row]) -> str:
    """The same for docs/faults.md."""
    lines = [HEAD, tuple("---" for _ in HEAD), *([f"`{row.cells()[0]}`", *row.cells()[1:]] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def as_csv(rows: list[Row]) -> str:
    """The same as CSV."""
    return csv_text([HEAD, *(row.cells() for row in rows)])


assert set(SHOWN) <= set(DETECTORS)
