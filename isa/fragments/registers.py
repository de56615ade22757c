"""Where every element of every `mma` and `mma.sp` operand lives: the mappings, built from shape and type alone.

With g = lane / 4 (group), t = lane % 4 (thread in group), r the register, i the element in it and P the elements in a
register:

    A, stored   row = g + 8 * (r % 2),         column = P * t + i + 4 * P * (r / 2)   (sparse: of the stored matrix)
    B           row (k) = P * t + i + 4 * P * r,                 column (n) = g
    C, D        32-bit: row = g + 8 * (r / 2), column = 2 * t + r % 2;  16-bit: row = g + 8 * r, column = 2 * t + i

f64 is as 32-bit types, in 64-bit registers (arrays of uint64; published: PTX and CuTe agree). `mma.m8n8k4` of f16 is
another matter: see `quad_pair_fragment`.

Sources: PTX ISA 9.0, 9.7.14.5.* (dense fragments) and 9.7.14.6.2.* (sparse fragments); all sparse rows and the dense
m16 rows confirmed by the recorded results of an NVIDIA H100 80GB, November 2026 (tests/golden).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from isa.arguments import bit_patterns
from isa.errors import IsaError
from isa.mapping import Digit, Fixed, Mapping
from isa.types import Bits, ElementType

WARP_SIZE = 32


@dataclass(frozen=True)
class Fragment:
    """One matrix operand spread over the registers of a warp or warpgroup.

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
        """Registers that each lane holds: of 32 bits, or of 64 for f64."""
        return dict(self.mapping.places)["register"]

    @property
    def lanes(self) -> int:
        """Lanes that hold it: 32 of a warp, or 128 of a warpgroup."""
        return dict(self.mapping.places)["lane"]

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the matrix (A of a sparse form: of the stored matrix)."""
        rows, columns = self.mapping.shape
        return rows, columns

    def gather(self, registers: Bits) -> Bits:
        """Registers uint32 [..., register, lane] -> patterns uint32 [..., row, column]; both uint64 for f64."""
        registers = _checked(registers, (self.registers, self.lanes), self, "registers")
        lane, register, element = self.mapping.grid
        words = registers[..., register, lane]
        if self.type.per_register == 1:
            return words
        return (words >> (element * self.type.bits).astype(np.uint32)) & np.uint32(self.type.mask)

    def scatter(self, matrix: Bits) -> Bits:
        """The inverse: patterns uint32 [..., row, column] -> registers uint32 [..., register, lane]; both uint64 for
        f64. IsaError for another type or shape, or for patterns of more bits than the element has."""
        matrix = _checked(matrix, self.shape, self, "matrix")
        if self.type.bits < self.type.register_bits:
            bit_patterns(matrix, self.type.bits, f"operand {self.name}")
        row, column = self.mapping.inverse_grid
        elements = matrix[..., row, column]
        if self.type.per_register == 1:
            words = elements[..., 0]
        else:
            shifts = np.arange(elements.shape[-1], dtype=np.uint32) * np.uint32(self.type.bits)
            words = np.bitwise_or.reduce(elements << shifts, axis=-1)
        return np.ascontiguousarray(np.swapaxes(words, -1, -2))


def _checked(array: Bits, tail: tuple[int, ...], fragment: Fragment, what: str) -> Bits:
    """Returns the array after checking that it has the unsigned integers of the fragment's registers. `Bits` stands for
    uint64 too where the type is f64."""
    array = np.asarray(array)
    word = f"uint{fragment.type.register_bits}"
    if array.dtype != word or array.shape[-len(tail) :] != tail:
        reason = f"operand {fragment.name}: {what} of type {array.dtype} and shape {array.shape}"
        raise IsaError("", -1, reason, f"{word} [..., {', '.join(map(str, tail))}]")
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
    """C or D (16 or 8 rows, 8 columns or a multiple of them). PTX ISA 9.7.14.5.*, 9.7.14.6.2.*, 9.7.15.5.1.1."""
    per, halves = element.per_register, rows // 8
    pairs = 2 // per
    digits = (
        Digit("element", 1, per, "column", 1),
        Digit("register", 1, pairs, "column", 1),
        Digit("lane", 1, 4, "column", 2),
        Digit("lane", 4, 8, "row", 1),
        Digit("register", pairs, halves, "row", 8),
        Digit("register", pairs * halves, columns // 8, "column", 8),
    )
    return _fragment(name, element, pairs * halves * columns // 8, (rows, columns), digits)


@cache
def quad_pair_fragment(name: str, element: ElementType, layout: str = "") -> Fragment:
    """An operand of `mma.m8n8k4` of f16. PTX ISA 9.0, 9.7.14.5.1; lanes confirmed by the routine that ptxas 13.0 puts
    in its place.

    Four products are computed at once, product q by the quad pair of lanes 4 * q .. 4 * q + 3 (low group) and 16 more
    (high group). Their operands are stacked: A is 32 x 4, C and D 32 x 8, with rows 8 * q .. 8 * q + 7 of product q; B
    is 4 x 32, with columns 8 * q .. 8 * q + 7.

    Args:
        name: "a", "b", "c" or "d".
        element: f16, or f32 for C and D.
        layout: "row" or "col", of A and B.
    """
    outer, inner, shape = ("column", "row", (4, 32)) if name == "b" else ("row", "column", (32, 4))
    pair, group = Digit("lane", 4, 4, outer, 8), Digit("lane", 16, 2, outer, 4)
    if name in ("c", "d"):
        shape = (32, 8)
        if element.bits == 16:
            digits = [
                Digit("lane", 1, 4, outer, 1),
                Digit("element", 1, 2, inner, 1),
                Digit("register", 1, 4, inner, 2),
            ]
        else:
            digits = [Digit("lane", 1, 2, outer, 1), Digit("register", 2, 2, outer, 2)]
            digits += [
                Digit("register", 1, 2, inner, 1),
                Digit("lane", 2, 2, inner, 2),
                Digit("register", 4, 2, inner, 4),
            ]
    else:
        along, across = (inner, outer) if layout == {"a": "row", "b": "col"}[name] else (outer, inner)
        digits = [Digit("element", 1, 2, along, 1), Digit("register", 1, 2, along, 2), Digit("lane", 1, 4, across, 1)]
    registers = shape[0] * shape[1] // (WARP_SIZE * element.per_register)
    return _fragment(name, element, registers, shape, (*digits, group, pair))


@cache
def matrix_rows_fragment(matrices: int, transposed: bool, element: ElementType) -> Fragment:
    """Destination of `ldmatrix .m8n8.xN{.trans}.b16`: register i holds 8 x 8 matrix i; row = 8 * i + row in it. PTX ISA
    9.7.14.5.15."""
    inner, outer = ("row", "column") if transposed else ("column", "row")
    digits = (
        Digit("element", 1, 2, inner, 1),
        Digit("lane", 1, 4, inner, 2),
        Digit("lane", 4, 8, outer, 1),
        Digit("register", 1, matrices, "row", 8),
    )
    return _fragment("d", element, matrices, (8 * matrices, 8), digits)


@cache
def matrix_row_addresses(matrices: int) -> Mapping:
    """Which lane's address names which row of which 8 x 8 matrix of `ldmatrix .xN`; other lanes' addresses are not
    used. PTX ISA 9.7.14.5.15."""
    used = 8 * matrices
    rest = (Fixed("lane", used, WARP_SIZE // used, 0),) if used < WARP_SIZE else ()
    digits = (Digit("lane", 8, matrices, "matrix", 1), Digit("lane", 1, 8, "row", 1))
    return Mapping(
        (("lane", WARP_SIZE),), (("matrix", matrices), ("row", 8)), tuple(d for d in digits if d.size > 1), rest
    )


def _fragment(
    name: str, element: ElementType, registers: int, shape: tuple[int, int], digits: tuple[Digit, ...]
) -> Fragment:
    places = (("lane", WARP_SIZE), ("register", registers), ("element", element.per_register))
    kept = tuple(d for d in digits if d.size > 1)
    return Fragment(name, element, Mapping(places, (("row", shape[0]), ("column", shape[1])), kept))
