"""The register file: patterns of 32, 64, 16 and 1 bit, [warp, register, lane].

Names are those that nvcc gives: %r (32 bits), %rd (64), %p (predicates), %rs (16). A trace's registers also have one
number each, so that dependencies need one array: the 32-bit ones come first, then the other sorts (`Numbering`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isa.types import Bits

WARP_SIZE = 32
Warps = NDArray[np.intp]
Lanes = NDArray[np.bool_]
_NAME = re.compile(r"%(rd|rs|r|p)(0|[1-9][0-9]{0,8})", re.ASCII)


class Sort(IntEnum):
    """Sorts of registers."""

    WORD = 0
    WIDE = 1
    PREDICATE = 2
    HALF = 3

    @property
    def prefix(self) -> str:
        return ("%r", "%rd", "%p", "%rs")[self]

    @property
    def bits(self) -> int:
        return (32, 64, 1, 16)[self]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of an array of such registers."""
        return _DTYPES[self]


_DTYPES: tuple[np.dtype[Any], ...] = (np.dtype(np.uint32), np.dtype(np.uint64), np.dtype(np.bool_), np.dtype(np.uint16))
_SORTS = {sort.prefix[1:]: sort for sort in Sort}
SORT_OF_BITS = {sort.bits: sort for sort in Sort}


class Place(NamedTuple):
    """A register of a trace."""

    sort: Sort
    number: int

    def __str__(self) -> str:
        return f"{self.sort.prefix}{self.number}"


def register_place(name: str) -> Place | None:
    """(Sort.WIDE, 3) for "%rd3"; None for a name that is not a trace register."""
    match = _NAME.fullmatch(name)
    return Place(_SORTS[match[1]], int(match[2])) if match else None


class Numbering(NamedTuple):
    """How many registers of each sort a warp has, and with that one number for each register: 32-bit ones, 64-bit ones,
    predicates, 16-bit ones."""

    words: int = 255
    wide: int = 255
    predicates: int = 255
    halves: int = 255

    @property
    def total(self) -> int:
        return sum(self)

    @property
    def words_each(self) -> int:
        """32-bit registers of a thread that all this takes; predicates have a file of their own, 16-bit registers take
        a whole one."""
        return self.words + 2 * self.wide + self.halves

    def first(self, sort: Sort) -> int:
        return sum(self[:sort])

    def numbers(self, names: Iterable[str]) -> tuple[int, ...]:
        """Numbers of these registers, without duplicates; names that are no trace registers (special ones) are left
        out."""
        places = (register_place(name) for name in names)
        return tuple(dict.fromkeys(self.first(place.sort) + place.number for place in places if place is not None))

    def name(self, number: int) -> str:
        """ "%rd3" for its number."""
        sort = max(sort for sort in Sort if self.first(sort) <= number and self[sort])
        return f"{sort.prefix}{number - self.first(sort)}"


class RegisterFile:
    """Registers of all warps of a CTA, zero until written.

    Attributes:
        values: uint32 [warp, register, lane]: the 32-bit registers.
        banks: by `Sort`, the registers of each sort, [warp, register, lane]; `values` is the first.
        written: bool [warp, number]: whether anything wrote the register of that number.
    """

    def __init__(self, warps: int, registers: int, wide: int = 0, predicates: int = 0, halves: int = 0) -> None:
        self.numbering = Numbering(registers, wide, predicates, halves)
        self.banks: tuple[NDArray[Any], ...] = tuple(
            np.zeros((warps, count, WARP_SIZE), sort.dtype) for sort, count in zip(Sort, self.numbering, strict=True)
        )
        self.values: Bits = self.banks[Sort.WORD]
        self.written = np.zeros((warps, self.numbering.total), np.bool_)
        self._first = tuple(self.numbering.first(sort) for sort in Sort)

    def read(self, warps: Warps, registers: Sequence[int], sort: Sort = Sort.WORD) -> NDArray[Any]:
        """[warp, register, lane] of the given warps and registers, of the sort's type (uint32 for the 32-bit ones)."""
        return self.banks[sort][warps[:, None], np.asarray(registers, np.intp)]

    def write(
        self,
        warps: Warps,
        registers: Sequence[int],
        values: NDArray[Any],
        lanes: Lanes | None = None,
        sort: Sort = Sort.WORD,
    ) -> None:
        """Writes [warp, register, lane] of the sort's type; only in `lanes`, bool [warp, lane], where they are
        given."""
        index = np.asarray(registers, np.intp)
        bank = self.banks[sort]
        if lanes is not None:
            values = np.where(lanes[:, None, :], values, bank[warps[:, None], index])
        bank[warps[:, None], index] = values
        self.written[warps[:, None], index + self._first[sort]] = True

    def copy_from(self, source: RegisterFile) -> None:
        """All registers of all warps, as in a file of the same shape."""
        for bank, other in zip(self.banks, source.banks, strict=True):
            bank[:] = other
        self.written[:] = source.written

    def unwritten(self, warps: Warps, registers: Sequence[int]) -> list[tuple[int, int]]:
        """(warp, number) pairs among these numbers that nothing has written, without duplicates."""
        distinct = sorted(set(registers))
        missing = ~self.written[warps[:, None], np.asarray(distinct, np.intp)]
        return [(int(warps[w]), distinct[r]) for w, r in np.argwhere(missing)]
