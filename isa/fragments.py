"""Where every element of every `mma` and `mma.sp` operand lives: the mappings, built from shape and type alone.

With g = lane / 4 (group) and t = lane % 4 (thread in group), P = elements in a register:

    A, stored   row = g + 8 * (r % 2)      column = P * t + i + 4 * P * (r / 2)    (sparse: column of the compressed matrix)
    B           row (k) = P * t + i + 4 * P * r                                     column (n) = g
    C, D        32-bit: row = g + 8 * (r / 2), column = 2 * t + r % 2;  16-bit: row = g + 8 * r, column = 2 * t + i

Sources: PTX ISA 9.0, 9.7.14.5.* (dense fragments) and 9.7.14.6.2.* (sparse fragments); all sparse rows and the dense m16 rows confirmed by the
recorded results of an NVIDIA H100 80GB, November 2026 (tests/golden).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from isa.errors import IsaError
from isa.mapping import Digit, Mapping
from isa.types import Bits, ElementType

LANES = 32


@dataclass(frozen=True)
class Fragment:
    """One matrix operand spread over the registers of a warp.

    Attributes:
        name: operand letter as in PTX: "a", "b", "c", "d".
        type: how the bits are read.
        mapping: places (lane, register, element) <-> coordinates (row, column).
    """

    name: str
    type: ElementType
    mapping: Mapping

    @property
    def registers(self) -> int:
        """32-bit registers that each lane holds."""
        return dict(self.mapping.places)["register"]

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the matrix (A of a sparse form: of the stored matrix)."""
        rows, columns = self.mapping.shape
        return rows, columns

    def gather(self, registers: Bits) -> Bits:
        """Registers uint32 [..., register, lane] -> patterns uint32 [..., row, column]."""
        registers = _checked(registers, (self.registers, LANES), self, "registers")
        lane, register, element = self.mapping.grid
        words = registers[..., register, lane]
        if self.type.bits == 32:
            return words
        return (words >> (element * self.type.bits).astype(np.uint32)) & np.uint32(self.type.mask)

    def scatter(self, matrix: Bits) -> Bits:
        """The inverse: patterns uint32 [..., row, column] -> registers uint32 [..., register, lane]."""
        matrix = _checked(matrix, self.shape, self, "matrix")
        row, column = self.mapping.inverse_grid
        elements = matrix[..., row, column] & np.uint32(self.type.mask)
        shifts = np.arange(elements.shape[-1], dtype=np.uint32) * np.uint32(self.type.bits)
        words = np.bitwise_or.reduce(elements << shifts, axis=-1)
        return np.ascontiguousarray(np.swapaxes(words, -1, -2))


def _checked(array: Bits, tail: tuple[int, ...], fragment: Fragment, what: str) -> Bits:
    array = np.asarray(array)
    if array.dtype != np.uint32 or array.shape[-len(tail) :] != tail:
        raise IsaError(
            "", -1, f"operand {fragment.name}: {what} of type {array.dtype} and shape {array.shape}", f"uint32 [..., {', '.join(map(str, tail))}]"
        )
    return array


@cache
def a_fragment(rows: int, columns: int, element: ElementType) -> Fragment:
    """A (16 or 8 rows; for sparse forms `columns` is K / 2). PTX ISA 9.7.14.5.*, 9.7.14.6.2.*."""
    per, halves = element.per_register, rows // 8
    wide = columns // (4 * per)
    digits = (
        Digit("lane", 4, 8, "row", 1),
        Digit("register", 1, halves, "row", 8),
        Digit("element", 1, per, "column", 1),
        Digit("lane", 1, 4, "column", per),
        Digit("register", halves, wide, "column", 4 * per),
    )
    return _fragment("a", element, halves * wide, (rows, columns), digits)


@cache
def b_fragment(rows: int, columns: int, element: ElementType) -> Fragment:
    """B (K rows, 8 columns, dense in sparse forms too). PTX ISA 9.7.14.5.*, 9.7.14.6.2.*."""
    per = element.per_register
    registers = rows // (4 * per)
    digits = (
        Digit("element", 1, per, "row", 1),
        Digit("lane", 1, 4, "row", per),
        Digit("register", 1, registers, "row", 4 * per),
        Digit("lane", 4, 8, "column", 1),
    )
    return _fragment("b", element, registers, (rows, columns), digits)


@cache
def accumulator_fragment(name: str, rows: int, columns: int, element: ElementType) -> Fragment:
    """C or D (16 or 8 rows, 8 columns). PTX ISA 9.7.14.5.*, 9.7.14.6.2.*."""
    per, halves = element.per_register, rows // 8
    pairs = 2 // per
    digits = (
        Digit("element", 1, per, "column", 1),
        Digit("register", 1, pairs, "column", 1),
        Digit("lane", 1, 4, "column", 2),
        Digit("lane", 4, 8, "row", 1),
        Digit("register", pairs, halves, "row", 8),
    )
    return _fragment(name, element, pairs * halves, (rows, columns), digits)


@cache
def ldmatrix_fragment(matrices: int, transposed: bool, element: ElementType) -> Fragment:
    """Destination of `ldmatrix .m8n8.xN{.trans}.b16`: register i holds 8 x 8 matrix i; row = 8 * i + row in it. PTX ISA 9.7.14.5.15."""
    inner, outer = ("row", "column") if transposed else ("column", "row")
    digits = (
        Digit("element", 1, 2, inner, 1),
        Digit("lane", 1, 4, inner, 2),
        Digit("lane", 4, 8, outer, 1),
        Digit("register", 1, matrices, "row", 8),
    )
    return _fragment("d", element, matrices, (8 * matrices, 8), digits)


def _fragment(name: str, element: ElementType, registers: int, shape: tuple[int, int], digits: tuple[Digit, ...]) -> Fragment:
    places = (("lane", LANES), ("register", registers), ("element", element.per_register))
    kept = tuple(d for d in digits if d.size > 1)
    return Fragment(name, element, Mapping(places, (("row", shape[0]), ("column", shape[1])), kept))
