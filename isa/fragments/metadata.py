"""Sparsity metadata: which lane holds which code, which codes are legal, and which columns a code picks.

A code is 4 bits for one chunk of one row of A: `lo` = bits 1..0 and `hi` = bits 3..2.

    2:4             chunk of 4 columns, 2 stored: element 0 is column lo, element 1 is column hi
    4:8 in pairs    chunk of 8 columns, 4 stored: elements 0, 1 are pair lo, elements 2, 3 are pair hi
    1:2 (tf32)      chunk of 2 columns, 1 stored: 0b0100 is column 0, 0b1110 is column 1

These are rows of the table `isa.patterns`, which has other patterns, too.

Sources: PTX ISA 9.0, 9.7.14.6.1 (sparse matrix storage) and 9.7.14.6.2.* (who holds the metadata); lanes, bits and the
effect of all 16 codes measured on an NVIDIA H100 80GB, November 2026.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import comb, perm
from typing import cast

import numpy as np
from numpy.typing import NDArray

from isa.arguments import bit_patterns
from isa.errors import IsaError
from isa.mapping import Digit, Mapping
from isa.patterns import FOUR_OF_EIGHT, ONE_OF_TWO, TWO_OF_FOUR, Sparsity
from isa.types import Bits, ElementType, pack, unpack

__all__ = [
    "CODES_PER_REGISTER",
    "CODE_BITS",
    "FOUR_OF_EIGHT",
    "ONE_OF_TWO",
    "TWO_OF_FOUR",
    "Metadata",
    "Sparsity",
    "metadata_operand",
    "sparsity_of",
    "spliced",
    "stored_columns",
    "stored_k",
]

CODE_BITS = TWO_OF_FOUR.code_bits
CODES_PER_REGISTER = 32 // CODE_BITS
_LISTED = 256  # codes of a hypothetical pattern that are listed one by one, at most


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
        codes: the codes that are defined for this form; any other is undefined behavior. Empty where there are so many
            that only `Sparsity.distinct` tells.
        mapping: places (lane, code) <-> coordinates (row, chunk, selector); code q is bits 4q..4q+3 of the lane's
            register (of a hypothetical pattern as many bits as its codes take: `Sparsity.field_bits`).
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

    @property
    def bits(self) -> int:
        """Bits of a register that hold one code."""
        return self.sparsity.field_bits

    def gather(self, registers: Bits, selector: int) -> Bits:
        """Reads the codes that this selector picks: registers uint32 [..., lane] -> codes uint32 [..., row, chunk]."""
        lane, code = self.places(selector)
        return (np.asarray(registers, np.uint32)[..., lane] >> (self.bits * code).astype(np.uint32)) & np.uint32(
            (1 << self.bits) - 1
        )

    def scatter(self, codes: Bits, selector: int, rest: Bits | None = None) -> Bits:
        """Codes uint32 [..., row, chunk] -> registers uint32 [..., lane]; lanes of other selectors keep `rest` (default
        0). IsaError for codes of another shape, or of more bits than the pattern's."""
        codes = cast(Bits, bit_patterns(codes, self.bits, "metadata codes"))
        if codes.shape[-2:] != self.shape:
            raise IsaError("", -1, f"metadata codes of shape {codes.shape}", f"[..., {self.shape[0]}, {self.shape[1]}]")
        lane, code = self.places(selector)
        lanes = dict(self.mapping.places)["lane"]
        start = np.zeros(lanes, np.uint32) if rest is None else np.asarray(rest, np.uint32)
        fields = np.array(
            np.broadcast_to(unpack(start[..., None], self.bits), (*codes.shape[:-2], lanes, 32 // self.bits))
        )
        fields[..., lane, code] = codes
        return pack(fields, self.bits)[..., 0]

    def legal(self, codes: Bits) -> NDArray[np.bool_]:
        """Whether each code is defined for this form, same shape as `codes`."""
        if not self.codes:
            return self.sparsity.distinct(codes)
        table = np.zeros(1 << self.bits, np.bool_)
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
def metadata_operand(
    rows: int, k: int, element: ElementType, ordered: bool, sparsity: Sparsity | None = None
) -> Metadata:
    """The metadata of a sparse form with `k` logical columns. PTX ISA 9.7.14.6.2.*; measured on H100, November 2026.

    Elements of 16 bits and more: a register holds codes of rows g and g + 8, of 4 bits 4 chunks of each. Narrower ones:
    codes of one row, 8 chunks. For 8-bit floats PTX lists only the ascending codes, whichever spelling is used
    (9.7.14.6.2.7).

    Args:
        sparsity: a pattern that no chip has, in place of the one that goes with the elements; its codes follow the same
            rule, as many in a register as fit. Where there are more than 256, only those with ascending indices are
            defined.

    Raises:
        IsaError: more codes than a register of a warp holds, or a number of chunks that is no power of two.
    """
    hypothetical = sparsity is not None
    sparsity = sparsity or sparsity_of(element)
    ascending = ordered or (element.is_float and element.bits == 8)
    chunks, places = k // sparsity.chunk, 32 // sparsity.field_bits
    if chunks & (chunks - 1) or k % sparsity.chunk or rows * chunks > 32 * places:
        legal = f"chunks of {sparsity.chunk} columns, a power of two and at most {32 * places // rows} of them"
        raise IsaError("", -1, f"no metadata register for K = {k} of {sparsity.name}", legal)
    selectors = 32 * places // (rows * chunks)
    wide = element.bits >= 16
    in_register = places // 2 if wide else places
    here = min(chunks, in_register)
    digits = [Digit("lane", 4, 8, "row", 1), Digit("code", 1, here, "chunk", 1)]
    digits.append(Digit("code", here, in_register // here, "selector", 1))
    digits.append(Digit("code", in_register, 2, "row", 8) if wide else Digit("lane", 1, 2, "row", 8))
    step = 1 if wide else 2
    digits.append(Digit("lane", step, chunks // here, "chunk", here))
    digits.append(
        Digit("lane", step * (chunks // here), selectors * here // in_register, "selector", in_register // here)
    )
    sizes = (("lane", 32), ("code", places))
    axes = (("row", rows), ("chunk", chunks), ("selector", selectors))
    every, combinations = perm(sparsity.units, sparsity.kept), comb(sparsity.units, sparsity.kept)
    codes: tuple[int, ...] = ()
    if not hypothetical or combinations <= _LISTED:
        codes = sparsity.ordered if ascending or every > _LISTED else sparsity.unordered
    return Metadata(sparsity, codes, Mapping(sizes, axes, tuple(d for d in digits if d.size > 1)))


def stored_columns(codes: Bits, sparsity: Sparsity) -> NDArray[np.int64]:
    """Codes [..., chunk] -> logical column of every stored element [..., chunk * stored], as a plain multiplexer picks
    it.

    Illegal 2:4 and 4:8 codes give the columns that the H100 was measured to use (equal or descending indices as
    written). For 1:2 the columns of the two legal codes; `spliced` tells where an illegal one joins halves of both
    columns instead.
    """
    codes = np.asarray(codes)
    base = sparsity.chunk * np.arange(codes.shape[-1])
    columns = sparsity.indices(codes)[..., None] * sparsity.unit + np.arange(sparsity.unit)
    return (columns.reshape(*codes.shape, sparsity.stored) + base[:, None]).reshape(*codes.shape[:-1], -1)


def spliced(codes: Bits, sparsity: Sparsity) -> NDArray[np.bool_]:
    """Where a 1:2 code joins 16-bit halves of two elements (every code but 0b0100 and 0b1110); all False for the other
    patterns."""
    codes = np.asarray(codes)
    if not sparsity.splices:
        return np.zeros(codes.shape, np.bool_)
    return ~np.isin(codes, ONE_OF_TWO.ordered)
