"""Data path layouts A to G of `tcgen05.mma`: which lanes of Tensor Memory hold which rows of D and A.

    layout   M    cta_group  A       .ws     path                  base lane
    A        256  2          any     -       4x1                   0
    B        128  2          dense   -       2x2                   0
    C        128  2          sparse  -       4x1, half the lanes   0 or 16
    D        128  1          any     any     4x1                   0
    E        64   1          any     .ws     2x2                   0
    F        64   1          any     not ws  4x1, half the lanes   0 or 16
    G        32   1          any     .ws     1x4                   0

Rows are those inside one CTA: with cta_group::2 the CTA of even rank has the first half of M. D has one element a cell
(16-bit ones in the low half). A in Tensor Memory takes 8 columns an instruction, 32 bytes a row, low bits first;
layouts that split N hold one copy of A for each part.

Evidence. The table: published (PTX ISA 9.0, 9.7.16.10.5). D of A, B, D, E, F, G: published (CUTLASS tmem_frg and
tmem_frg_ws, TVM's tmem_datapath_layout agrees); D of C: inferred (the table and TVM alone). A of A, D, F: published; of
B: published (CUTLASS, duplicated allocation); of C: inferred, like F; the copies of E and G: inferred, like B.
"""

from __future__ import annotations

from collections.abc import Mapping as AbstractMapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from isa.errors import IsaError
from isa.mapping import Digit, Fixed, Integers, Mapping
from isa.tensor_memory.address import CELL_BITS, TMEM_LANES, TmemAddress

SECTION = "PTX ISA 9.0, 9.7.16.10.5 (data path layout organization)"
ALIGNMENT = "PTX ISA 9.0, 9.7.16.10.8.5 (alignment restriction)"
A_COLUMNS = 8
LARGEST_N = 256
HALF = 16  # lanes of a quarter that a half layout uses


class Violation(NamedTuple):
    """A rule on addresses that is broken: its name, the operand that breaks it, what is wrong, what would be right, and
    who says so."""

    name: str
    operand: str
    rule: str
    right: str
    section: str

    def __str__(self) -> str:
        return f"{self.name}: {self.operand}: {self.rule}; right: {self.right} ({self.section})"


@dataclass(frozen=True)
class DatapathLayout:
    """One data path layout: which lanes of Tensor Memory hold which rows of D and A.

    Attributes:
        name: "A" to "G".
        m: rows of the instruction, of both CTAs together.
        cta_group: 1 or 2.
        path: as PTX draws it, parts of M x parts of N.
        rows: rows in one CTA.
        parts: how many parts N is cut into, each in lanes of its own.
        half: whether only 16 lanes of each 32 are used.
        evidence: "published" or "inferred": where D's lanes come from.
        a_evidence: the same for A in Tensor Memory.
    """

    name: str
    m: int
    cta_group: int
    path: str
    rows: int
    parts: int
    half: bool
    evidence: str
    a_evidence: str

    @property
    def base_lanes(self) -> tuple[int, ...]:
        """The lanes at which the addresses of D, A and the metadata may start."""
        return (0, HALF) if self.half else (0,)

    @property
    def which(self) -> str:
        """Which instructions with this M and cta_group have the layout, where others have another one: `, .ws`."""
        same = sorted((key, name) for key, name in _CHOICE.items() if key[:2] == (self.m, self.cta_group))
        mine = {key[2:] for key, name in same if name == self.name}
        others = {key[2:] for key, name in same if name != self.name}
        for place, words in enumerate(((", dense", ", .sp"), (", without .ws", ", .ws"))):
            if others and {key[place] for key in mine}.isdisjoint(key[place] for key in others):
                return words[mine.pop()[place]]
        return ""

    def lanes(self, base_lane: int = 0) -> Integers:
        """The lanes that D uses, ascending."""
        lane = np.arange(TMEM_LANES)
        used: Integers = lane[(lane // HALF % 2 == self.checked(base_lane) // HALF) | (not self.half)]
        return used

    def row_digits(self, base_lane: int, row: str = "row") -> tuple[tuple[Digit, ...], tuple[Fixed, ...]]:
        """The digits of the lane that number the rows, and those that are fixed."""
        if self.half:
            return (Digit("lane", 1, HALF, row, 1), Digit("lane", 32, self.rows // HALF, row, HALF)), (
                Fixed("lane", HALF, 2, base_lane // HALF),
            )
        return (Digit("lane", 1, self.rows, row, 1),), ()

    def d(self, n: int, base_lane: int = 0) -> Mapping:
        """D: places (lane, column from the base) <-> coordinates (row in this CTA, n).

        Raises:
            IsaError: the base lane is not one of `base_lanes`, or N is not a multiple of `parts` up to 256.
        """
        if not 1 <= n <= LARGEST_N or n % self.parts:
            raise IsaError(
                str(n),
                -1,
                f"N = {n} in layout {self.name}",
                f"a multiple of {self.parts} up to {LARGEST_N}",
                section=SECTION,
                rule="idesc",
            )
        return _d(self, n, self.checked(base_lane))

    def a(self, bits: int, base_lane: int = 0) -> Mapping:
        """A in Tensor Memory: places (lane, column from the base, element of the cell) <-> coordinates (row, k, copy).

        Args:
            bits: width of a stored element, 4 to 32; f8f6f4 and mxf8f6f4 have bytes, whatever the type.
            base_lane: 0, or 16 in layouts C and F.

        k counts stored elements: of a sparse A half the logical ones. Every copy must be there: one for each part of N.
        """
        if bits not in (4, 8, 16, 32):
            raise IsaError(
                str(bits), -1, f"elements of {bits} bits in Tensor Memory", "4, 8, 16 or 32", section=SECTION
            )
        return _a(self, bits, self.checked(base_lane))

    def checked(self, base_lane: int) -> int:
        """Returns the base lane; raises IsaError if the layout does not have it."""
        if base_lane not in self.base_lanes:
            legal = " or ".join(map(str, self.base_lanes))
            raise IsaError(str(base_lane), -1, f"base lane {base_lane} in layout {self.name}", legal, section=ALIGNMENT)
        return int(base_lane)


_PUBLISHED, _INFERRED = "published", "inferred"
LAYOUTS: AbstractMapping[str, DatapathLayout] = {
    layout.name: layout
    for layout in (
        DatapathLayout("A", 256, 2, "4x1", 128, 1, False, _PUBLISHED, _PUBLISHED),
        DatapathLayout("B", 128, 2, "2x2", 64, 2, False, _PUBLISHED, _PUBLISHED),
        DatapathLayout("C", 128, 2, "4x1", 64, 1, True, _INFERRED, _INFERRED),
        DatapathLayout("D", 128, 1, "4x1", 128, 1, False, _PUBLISHED, _PUBLISHED),
        DatapathLayout("E", 64, 1, "2x2", 64, 2, False, _PUBLISHED, _INFERRED),
        DatapathLayout("F", 64, 1, "4x1", 64, 1, True, _PUBLISHED, _PUBLISHED),
        DatapathLayout("G", 32, 1, "1x4", 32, 4, False, _PUBLISHED, _INFERRED),
    )
}
_CHOICE = {
    (256, 2, False, False): "A", (256, 2, True, False): "A", (128, 2, False, False): "B", (128, 2, True, False): "C",
    (128, 1, False, False): "D", (128, 1, True, False): "D", (128, 1, False, True): "D", (128, 1, True, True): "D",
    (64, 1, False, True): "E", (64, 1, True, True): "E", (64, 1, False, False): "F", (64, 1, True, False): "F",
    (32, 1, False, True): "G", (32, 1, True, True): "G",
}  # fmt: skip


def datapath(m: int, cta_group: int = 1, sparse: bool = False, ws: bool = False) -> DatapathLayout:
    """The layout of an instruction; raises IsaError where there is no such instruction. PTX ISA 9.0, 9.7.16.10.5:
    published.

    >>> datapath(128, cta_group=2, sparse=True).name
    'C'
    """
    name = _CHOICE.get((m, cta_group, bool(sparse), bool(ws)))
    if name is None:
        same = sorted({key[0] for key in _CHOICE if key[1:] == (cta_group, bool(sparse), bool(ws))})
        form = f"cta_group::{cta_group}" + ", .sp" * bool(sparse) + ", .ws" * bool(ws)
        legal = (
            f"M = {' or '.join(map(str, same))}"
            if same
            else ".ws with cta_group::1 only"
            if cta_group == 2
            else "cta_group 1 or 2"
        )
        raise IsaError(str(m), -1, f"no data path layout for M = {m} with {form}", legal, section=SECTION, rule="idesc")
    return LAYOUTS[name]


def violations(
    layout: DatapathLayout, d: TmemAddress, *, a: TmemAddress | None = None, sp_meta: TmemAddress | None = None
) -> list[Violation]:
    """What is wrong with the addresses of one instruction, in the order d, a, sp_meta; empty if nothing is.

    Args:
        layout: of the instruction.
        d: address of D.
        a: address of A if it is in Tensor Memory.
        sp_meta: address of the sparsity metadata of a sparse instruction.

    `base-lane`: a lane that the layout has not (published: layouts C and F take 0 or 16, the others 0).
    `half-mismatch`: A or the metadata in the other half of the quarters than D (published; seen as a "misaligned
    address" fault on sm_110). `odd-metadata-column`: metadata not at an even column (inferred: CUTLASS always passes
    even ones; a "misaligned address" fault on sm_110). Scale factors are not part of these rules.
    """
    operands = [(name, address) for name, address in (("d", d), ("a", a), ("sp_meta", sp_meta)) if address is not None]
    legal = " or ".join(map(str, layout.base_lanes))
    broken = []
    for name, address in operands:
        if address.lane not in layout.base_lanes:
            broken.append(
                Violation(
                    "base-lane",
                    name,
                    f"lane {address.lane} in layout {layout.name}",
                    legal,
                    ALIGNMENT if layout.half else SECTION,
                )
            )
        elif address.lane != d.lane and d.lane in layout.base_lanes:
            rule = (
                f"lane {address.lane}, but d is at lane {d.lane}: layout {layout.name} works on one half "
                f"of every 32 lanes"
            )
            broken.append(
                Violation("half-mismatch", name, rule, f"lane {d.lane} in all of d, a and sp_meta", ALIGNMENT)
            )
    if sp_meta is not None and sp_meta.column % 2:
        rule = f"column {sp_meta.column} is not the first of a pair"
        source = "inferred from CUTLASS; a fault on sm_110"
        broken.append(
            Violation(
                "odd-metadata-column",
                "sp_meta",
                rule,
                f"column {sp_meta.column - 1}, and the selector for the second",
                source,
            )
        )
    return broken


def check_addresses(
    layout: DatapathLayout, d: TmemAddress, *, a: TmemAddress | None = None, sp_meta: TmemAddress | None = None
) -> None:
    """Raises IsaError with everything that `violations` reports."""
    broken = violations(layout, d, a=a, sp_meta=sp_meta)
    if broken:
        raise IsaError.together(
            [
                IsaError("", -1, f"{v.name}: {v.operand}: {v.rule}", v.right, section=v.section, rule="tmem-alignment")
                for v in broken
            ]
        )


@lru_cache(maxsize=1024)
def _d(layout: DatapathLayout, n: int, base_lane: int) -> Mapping:
    rows, fixed = layout.row_digits(base_lane)
    width = n // layout.parts
    columns = (Digit("column", 1, width, "n", 1), Digit("lane", layout.rows, layout.parts, "n", width))
    kept = tuple(d for d in (*rows, *columns) if d.size > 1)
    return Mapping((("lane", TMEM_LANES), ("column", width)), (("row", layout.rows), ("n", n)), kept, fixed)


@lru_cache(maxsize=64)
def _a(layout: DatapathLayout, bits: int, base_lane: int) -> Mapping:
    rows, fixed = layout.row_digits(base_lane)
    per = CELL_BITS // bits
    inner = (
        Digit("element", 1, per, "k", 1),
        Digit("column", 1, A_COLUMNS, "k", per),
        Digit("lane", layout.rows, layout.parts, "copy", 1),
    )
    places = (("lane", TMEM_LANES), ("column", A_COLUMNS), ("element", per))
    axes = (("row", layout.rows), ("k", per * A_COLUMNS), ("copy", layout.parts))
    return Mapping(places, axes, tuple(d for d in (*rows, *inner) if d.size > 1), fixed)
