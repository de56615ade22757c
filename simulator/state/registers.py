"""The register file of a CTA: bit patterns of 32-, 64-, 16- and 1-bit registers, as arrays [warp, register, lane].

Names are those that nvcc gives: %r (32 bits), %rd (64), %p (predicates), %rs (16). A trace's registers also have one
number each, so that dependencies need one array: the 32-bit ones come first, then the other sorts (`Numbering`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import IntEnum
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isa.types import Bits

WARP_SIZE = 32
LANE = np.arange(WARP_SIZE, dtype=np.uint32)
"""The number of each lane of a warp."""
Warps = NDArray[np.intp]
Lanes = NDArray[np.bool_]
_NAME = re.compile(r"%(rd|rs|r|p)(0|[1-9][0-9]{0,8})", re.ASCII)


class Sort(IntEnum):
    """The sorts of registers, by their width."""

    WORD = 0
    WIDE = 1
    PREDICATE = 2
    HALF = 3

    @property
    def prefix(self) -> str:
        """The prefix of the registers' names."""
        return ("%r", "%rd", "%p", "%rs")[self]

    @property
    def bits(self) -> int:
        """The width of the registers in bits."""
        return (32, 64, 1, 16)[self]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of an array of such registers."""
        return _DTYPES[self]


_DTYPES: tuple[np.dtype[Any], ...] = (np.dtype(np.uint32), np.dtype(np.uint64), np.dtype(np.bool_), np.dtype(np.uint16))
_SORTS = {sort.prefix[1:]: sort for sort in Sort}
SORT_OF_BITS = {sort.bits: sort for sort in Sort}


class Place(NamedTuple):
    """A register of a trace: its sort, and its index within the sort."""

    sort: Sort
    number: int

    def __str__(self) -> str:
        return f"{self.sort.prefix}{self.number}"


@lru_cache(maxsize=1 << 12)
def register_place(name: str) -> Place | None:
    """The place that a register name stands for, (Sort.WIDE, 3) for "%rd3"; None for a name that is not a trace
    register."""
    match = _NAME.fullmatch(name)
    return Place(_SORTS[match[1]], int(match[2])) if match else None


class Numbering(NamedTuple):
    """How many registers of each sort a warp has. From this each register gets one number: first the 32-bit ones, then
    the 64-bit ones, the predicates and the 16-bit ones."""

    words: int = 255
    wide: int = 255
    predicates: int = 255
    halves: int = 255

    @property
    def total(self) -> int:
        """The number of registers of all sorts."""
        return sum(self)

    @property
    def words_each(self) -> int:
        """The number of 32-bit registers that a thread needs for all of this. Predicates have a file of their own, and
        a 16-bit register takes a whole one."""
        return self.words + 2 * self.wide + self.halves

    def first(self, sort: Sort) -> int:
        """The number of the first register of a sort."""
        return sum(self[:sort])

    def numbers(self, names: Iterable[str]) -> tuple[int, ...]:
        """The numbers of these registers, without duplicates. Names of registers that do not belong to the trace
        (special registers) are left out."""
        places = (register_place(name) for name in names)
        return tuple(dict.fromkeys(self.first(place.sort) + place.number for place in places if place is not None))

    def name(self, number: int) -> str:
        """The name of the register with this number, e.g. "%rd3"."""
        sort = max(sort for sort in Sort if self.first(sort) <= number and self[sort])
        return f"{sort.prefix}{number - self.first(sort)}"


class RegisterFile:
    """The registers of all warps of a CTA, zero until written.

    Attributes:
        values: uint32 [warp, register, lane]: the 32-bit registers.
        banks: by `Sort`, the registers of each sort, [warp, register, lane]; `values` is the first.
        written: bool [warp, number]: whether anything wrote the register of that number.
        rows: how many warps it has registers for.
    """

    def __init__(self, warps: int, registers: int, wide: int = 0, predicates: int = 0, halves: int = 0) -> None:
        self.numbering = Numbering(registers, wide, predicates, halves)
        self.banks: tuple[NDArray[Any], ...] = tuple(
            np.zeros((warps, count, WARP_SIZE), sort.dtype) for sort, count in zip(Sort, self.numbering, strict=True)
        )
        self.values: Bits = self.banks[Sort.WORD]
        self.written = np.zeros((warps, self.numbering.total), np.bool_)
        self.rows = warps
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
        """Copies all registers of all warps from another file of the same shape."""
        for bank, other in zip(self.banks, source.banks, strict=True):
            bank[:] = other
        self.written[:] = source.written

    def unwritten(self, warps: Warps, registers: Sequence[int]) -> list[tuple[int, int]]:
        """(warp, number) pairs among these numbers that nothing has written, without duplicates."""
        distinct = sorted(set(registers))
        missing = ~self.written[warps[:, None], np.asarray(distinct, np.intp)]
        return [(int(warps[w]), distinct[r]) for w, r in np.argwhere(missing)]
