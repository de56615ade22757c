"""Sparsity metadata: which lane holds which code, which codes are legal, and which columns a code picks.

A code is 4 bits for one chunk of one row of A: `lo` = bits 1..0 and `hi` = bits 3..2.

    2:4             chunk of 4 columns, 2 stored: element 0 is column lo, element 1 is column hi
    4:8 in pairs    chunk of 8 columns, 4 stored: elements 0, 1 are pair lo, elements 2, 3 are pair hi
    1:2 (tf32)      chunk of 2 columns, 1 stored: 0b0100 is column 0, 0b1110 is column 1

Sources: PTX ISA 9.0, 9.7.14.6.1 (sparse matrix storage) and 9.7.14.6.2.* (who holds the metadata); lanes, bits and the
effect of all 16 codes measured on an NVIDIA H100 80GB, November 2026.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from isa.errors import IsaError
from isa.mapping import Digit, Mapping
from isa.types import Bits, ElementType, pack, unpack

CODE_BITS = 4
CODES_PER_REGISTER = 32 // CODE_BITS
_DIFFERENT = tuple(code for code in range(16) if code & 3 != code >> 2)
_ASCENDING = tuple(code for code in range(16) if code & 3 < code >> 2)


@dataclass(frozen=True)
class Sparsity:
    """One structured-sparsity pattern.

    Attributes:
        name: as PTX's users say it.
        chunk: logical columns that one code covers.
        stored: stored elements of a chunk.
        unit: neighbouring elements that one index picks together.
        ordered: codes legal under `.sp::ordered_metadata`.
        unordered: codes legal under `.sp` (8-bit floats: only the ordered ones, see `metadata_operand`).
    """

    name: str
    chunk: int
    stored: int
    unit: int
    ordered: tuple[int, ...]
    unordered: tuple[int, ...]

    @property
    def splices(self) -> bool:
        """Whether an undefined code joins the halves of two elements (1:2 does) instead of picking one element."""
        return self.stored == 1

    def columns(self, k: int) -> int:
        """How many columns of A are stored for k logical columns."""
        return k * self.stored // self.chunk

    @property
    def formula(self) -> str:
        """The logical column of a stored one, from `code`, the metadata of its chunk; evaluated by `stored_columns`."""
        if self.splices:
            return f"{self.chunk} * column + code / 8"
        chunk = f"{self.chunk} * (column / {self.stored})"
        if self.unit == 1:
            return f"{chunk} + (code >> 2 * (column % 2)) % 4"
        return f"{chunk} + {self.unit} * ((code >> 2 * (column / {self.unit} % 2)) % 4) + column % {self.unit}"


TWO_OF_FOUR = Sparsity("2:4", 4, 2, 1, _ASCENDING, _DIFFERENT)
FOUR_OF_EIGHT = Sparsity("4:8 in pairs", 8, 4, 2, _ASCENDING, _DIFFERENT)
ONE_OF_TWO = Sparsity("1:2", 2, 1, 1, (0b0100, 0b1110), (0b0100, 0b1110))


def stored_k(k: int, sparse: bool) -> int:
    """Columns of A that are stored: half of K in a sparse form, since every pattern keeps half."""
    return TWO_OF_FOUR.columns(k) if sparse else k


def sparsity_of(element: ElementType) -> Sparsity:
    """The pattern that goes with elements of this width. PTX ISA 9.7.14.6.1: 32-bit 1:2, 16- and 8-bit 2:4, 4-bit 4:8
    in pairs."""
    return {32: ONE_OF_TWO, 16: TWO_OF_FOUR, 8: TWO_OF_FOUR, 4: FOUR_OF_EIGHT}[element.bits]


@dataclass(frozen=True)
class Metadata:
    """The metadata operand `e` of one sparse form.

    Attributes:
        sparsity: the pattern that the codes describe.
        codes: the codes that are defined for this form; any other is undefined behavior.
        mapping: places (lane, code) <-> coordinates (row, chunk, selector); code q is bits 4q..4q+3 of the lane's
            register.
    """

    sparsity: Sparsity
    codes: tuple[int, ...]
    mapping: Mapping

    @property
    def shape(self) -> tuple[int, int]:
        """The number of rows, and of chunks in each row."""
        rows, chunks, _ = self.mapping.shape
        return rows, chunks

    @property
    def selectors(self) -> int:
        """How many selector values are legal: 0 .. selectors - 1."""
        return self.mapping.shape[2]

    def gather(self, registers: Bits, selector: int) -> Bits:
        """Reads the codes that this selector picks: registers uint32 [..., lane] -> codes uint32 [..., row, chunk]."""
        lane, code = self.places(selector)
        return (np.asarray(registers, np.uint32)[..., lane] >> (CODE_BITS * code).astype(np.uint32)) & np.uint32(15)

    def scatter(self, codes: Bits, selector: int, rest: Bits | None = None) -> Bits:
        """Codes uint32 [..., row, chunk] -> registers uint32 [..., lane]; lanes of other selectors keep `rest` (default
        0)."""
        codes = np.asarray(codes)
        if codes.shape[-2:] != self.shape:
            raise IsaError("", -1, f"metadata codes of shape {codes.shape}", f"[..., {self.shape[0]}, {self.shape[1]}]")
        lane, code = self.places(selector)
        start = np.zeros(32, np.uint32) if rest is None else np.asarray(rest, np.uint32)
        fields = np.array(
            np.broadcast_to(unpack(start[..., None], CODE_BITS), (*codes.shape[:-2], 32, CODES_PER_REGISTER))
        )
        fields[..., lane, code] = codes
        return pack(fields, CODE_BITS)[..., 0]

    def legal(self, codes: Bits) -> NDArray[np.bool_]:
        """Whether each code is defined for this form, same shape as `codes`."""
        table = np.zeros(16, np.bool_)
        table[list(self.codes)] = True
        legal_codes: NDArray[np.bool_] = table[codes]
        return legal_codes

    def places(self, selector: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Lane, and code within its register, of every [row, chunk] that this selector picks; raises IsaError if it is
        out of range."""
        if not 0 <= selector < self.selectors:
            raise IsaError(
                str(selector),
                -1,
                f"sparsity selector {selector} is out of range",
                _selector_range(self.selectors),
                rule="selector-out-of-range",
            )
        lane, code = self.mapping.grid
        return lane[..., selector], code[..., selector]


def _selector_range(count: int) -> str:
    return "0" if count == 1 else f"0 to {count - 1}"


@cache
def metadata_operand(rows: int, k: int, element: ElementType, ordered: bool) -> Metadata:
    """The metadata of a sparse form with `k` logical columns. PTX ISA 9.7.14.6.2.*; measured on H100, November 2026.

    Elements of 16 bits and more: a register holds 4 chunks of rows g and g + 8. Narrower ones: 8 chunks of one row. For
    8-bit floats PTX lists only the ascending codes, whichever spelling is used (9.7.14.6.2.7).
    """
    sparsity = sparsity_of(element)
    ascending = ordered or (element.is_float and element.bits == 8)
    chunks = k // sparsity.chunk
    selectors = 32 * CODES_PER_REGISTER // (rows * chunks)
    in_register = 4 if element.bits >= 16 else 8
    digits = [Digit("lane", 4, 8, "row", 1), Digit("code", 1, in_register, "chunk", 1)]
    if element.bits >= 16:
        digits.append(Digit("code", 4, 2, "row", 8))
        step = 1
    else:
        digits.append(Digit("lane", 1, 2, "row", 8))
        step = 2
    digits.append(Digit("lane", step, chunks // in_register, "chunk", in_register))
    digits.append(Digit("lane", step * (chunks // in_register), selectors, "selector", 1))
    places = (("lane", 32), ("code", CODES_PER_REGISTER))
    axes = (("row", rows), ("chunk", chunks), ("selector", selectors))
    return Metadata(
        sparsity,
        sparsity.ordered if ascending else sparsity.unordered,
        Mapping(places, axes, tuple(d for d in digits if d.size > 1)),
    )


def stored_columns(codes: Bits, sparsity: Sparsity) -> NDArray[np.int64]:
    """Codes [..., chunk] -> logical column of every stored element [..., chunk * stored], as a plain multiplexer picks
    it.

    Illegal 2:4 and 4:8 codes give the columns that the H100 was measured to use (equal or descending indices as
    written). For 1:2 the columns of the two legal codes; `spliced` tells where an illegal one joins halves of both
    columns instead.
    """
    codes = np.asarray(codes).astype(np.int64)
    base = sparsity.chunk * np.arange(codes.shape[-1])
    if sparsity.splices:
        return base + ((codes & 3) >> 1)
    index = np.stack([codes & 3, codes >> 2], axis=-1)
    columns = index[..., None] * sparsity.unit + np.arange(sparsity.unit)
    return (columns.reshape(*codes.shape, sparsity.stored) + base[:, None]).reshape(*codes.shape[:-1], -1)


def spliced(codes: Bits, sparsity: Sparsity) -> NDArray[np.bool_]:
    """Where a 1:2 code joins 16-bit halves of two elements (every code but 0b0100 and 0b1110); all False for the other
    patterns."""
    codes = np.asarray(codes)
    if not sparsity.splices:
        return np.zeros(codes.shape, np.bool_)
    return ~np.isin(codes, ONE_OF_TWO.ordered)
