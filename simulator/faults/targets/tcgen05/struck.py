"""Faults of the units that compute D of one `tcgen05.mma`: which there are, and the elements of D that they change,
which alone are computed again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isa.targets import parse_target
from isa.types import Bits
from simulator.arithmetic import Sum
from simulator.arithmetic.disturbance import disturbed
from simulator.execute.tcgen05.example import COLUMN, Shape
from simulator.execute.tcgen05.fetch import Cta
from simulator.execute.tcgen05.plan import plan_of, sum_of
from simulator.faults.models import Edits, Mask, bits_of
from simulator.faults.spread import Site
from simulator.faults.table import SITES, Faults
from simulator.faults.targets.tcgen05.operands import Integers, Matrices
from simulator.faults.unit.mapping import position
from simulator.faults.unit.rows import disturbance, of_unit
from simulator.faults.unit.sites import unit_sites


class StruckElements(NamedTuple):
    """The elements of D of the even CTA that faults of its units strike, an entry for each fault.

    Attributes:
        row, column: int64: the element.
        patterns: uint32: what it becomes.
        changed: whether a word of the unit held other bits than it should.
    """

    row: Integers
    column: Integers
    patterns: Bits
    changed: Mask

    def some(self, index: NDArray[np.intp]) -> StruckElements:
        """Those of some of the faults."""
        return StruckElements(self.row[index], self.column[index], self.patterns[index], self.changed[index])


def sum_of_cta(shape: Shape, target: str, arithmetic: str) -> Sum:
    """How the instruction adds D of one CTA, all parts of N together: each element has a unit."""
    plan = plan_of(shape.call, parse_target(target), range(shape.form.cta_group))
    how = sum_of(plan, arithmetic)
    return replace(how, n=how.n * shape.datapath.parts)


def sites_of(shape: Shape, how: Sum) -> dict[str, Site]:
    """The sites of the units of a CTA, by name; none under the exact arithmetic of floats."""
    return unit_sites(how, len(shape.metadata.selectors) if shape.form.sparse else 0)


def elements(how: Sum, operands: Matrices, faults: Faults) -> StruckElements:
    """What faults of one case make of D.

    Args:
        how: how the CTA adds.
        operands: the operands of the case.
        faults: rows that strike a position's unit.
    """
    what = disturbance(faults, how, np.zeros(len(faults), np.intp))
    row, column = what.row.astype(np.int64), what.column.astype(np.int64)
    part, inside = np.divmod(column, operands.how.n)
    patterns, changed = disturbed(operands.how, operands.ctas[0], replace(what, case=part, column=inside))
    return StruckElements(row, column, patterns, changed)


def codes_of(operands: Matrices, n: int, fault: Any) -> Bits | None:
    """The metadata uint32 [row, chunk] of the part of N that a position's unit computes; None if dense."""
    codes, (_, column) = operands.ctas[0].codes, position(int(fault["lane"]), n)
    return None if codes is None else codes[column // operands.how.n]


def all_elements(how: Sum, operands: Callable[[int], Matrices], faults: Faults) -> StruckElements:
    """The same of faults of any cases and sites, zeros where no unit of a position is struck; `operands` gives those of
    a case."""
    integers, bits = np.zeros(len(faults), np.int64), np.zeros(len(faults), np.uint32)
    found = StruckElements(integers, integers.copy(), bits, np.zeros(len(faults), np.bool_))
    mine = np.flatnonzero(of_unit(faults))
    for case in np.unique(faults["case"][mine]).tolist():
        some = mine[faults["case"][mine] == case]
        part = elements(how, operands(case), faults[some])
        found.row[some], found.column[some] = part.row, part.column
        found.patterns[some], found.changed[some] = part.patterns, part.changed
    return found


def amend(changes: Edits, faults: Faults, changed: Mask) -> None:
    """Says of faults of units that their bits change where a word of the unit held other bits; lines of a selector that
    there are not stay as they are."""
    lines = faults["site"][changes.fault] == SITES.index("selector_input")
    changes.invert[lines] &= changes.live[lines]
    mine = of_unit(faults[changes.fault])
    bits = np.where(changed[changes.fault], bits_of(faults[changes.fault]), np.uint32(0))
    changes.invert[mine] = bits[mine]


@contextmanager
def selected_apart(shape: Shape, ctas: list[Cta], selector: int) -> Iterator[None]:
    """Lets an instruction with another selector read the right codes in the odd CTA of a pair, while the block runs:
    the fault is in the even one."""
    columns, metadata = slice(COLUMN["e"], COLUMN["e"] + 2), shape.metadata
    kept = [cta.tmem.words[:, columns].copy() for cta in ctas[1:]]
    for cta in ctas[1:]:
        cells = cta.tmem.words[:, columns]
        codes = metadata.gather(cells, shape.idesc.selector, shape.base_lane)
        cta.tmem.words[:, columns] = metadata.scatter(codes, selector, shape.base_lane, cells)
    try:
        yield
    finally:
        for cta, words in zip(ctas[1:], kept, strict=True):
            cta.tmem.words[:, columns] = words
