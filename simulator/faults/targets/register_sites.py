"""The sites of registers: which registers are words of which site, and where a word of one lies.

site         word                                                      bits of a word
registers    32-bit registers; of launches, behind these the halves    32
             of the 64-bit ones, the low half first
registers16  16-bit registers                                          16
predicates   predicates                                                1
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.faults.group import WRITES
from simulator.faults.spread import WORD_MODELS, Site
from simulator.state.registers import WARP_SIZE, Numbering, Sort, register_place

REGISTER_SITES: Mapping[str, tuple[Sort, ...]] = {
    "registers": (Sort.WORD, Sort.WIDE),
    "registers16": (Sort.HALF,),
    "predicates": (Sort.PREDICATE,),
}
_WORD_BITS = 32
_MODELS = tuple(name for name in WORD_MODELS if name != "word")  # a random word has 32 bits


class Cell(NamedTuple):
    """A word of a site of registers: the register's sort, its index within the sort, and the lowest bit of the word."""

    sort: Sort
    number: int
    low: int


def cell(numbering: Numbering, site: str, word: int) -> Cell:
    """The place of a word of a site of registers."""
    for sort in REGISTER_SITES[site]:
        each = _words_each(sort)
        if word < each * numbering[sort]:
            number, part = divmod(word, each)
            return Cell(sort, number, _WORD_BITS * part)
        word -= each * numbering[sort]
    raise IndexError(f"word {word} behind the last of site {site}")


def number_of(numbering: Numbering, site: str, word: int) -> int:
    """The number of the register (`Numbering`) that a word of a site belongs to."""
    at = cell(numbering, site, word)
    return numbering.first(at.sort) + at.number


def words_of(numbering: Numbering, names: Iterable[str], site: str = "registers") -> tuple[int, ...]:
    """The words of a site that registers of these names are; registers of other sites are left out."""
    starts: dict[Sort, int] = {}
    first = 0
    for sort in REGISTER_SITES[site]:
        starts[sort] = first
        first += _words_each(sort) * numbering[sort]
    found: list[int] = []
    for place in dict.fromkeys(map(register_place, names)):
        if place is not None and place.sort in starts and place.number < numbering[place.sort]:
            begin, each = starts[place.sort] + _words_each(place.sort) * place.number, _words_each(place.sort)
            found += range(begin, begin + each)
    return tuple(found)


def register_sites(numbering: Numbering, read: Iterable[str]) -> dict[str, Site]:
    """The sites of a program whose registers are numbered so; a register is live if its name is among those that are
    `read`. Site `registers` is there even where it has no word, the others are where the program has such registers."""
    names, sites = tuple(dict.fromkeys(read)), {}
    for name, sorts in REGISTER_SITES.items():
        bits = min(_WORD_BITS, sorts[0].bits)
        live: NDArray[np.uint32] = np.zeros((sum(_words_each(s) * numbering[s] for s in sorts), WARP_SIZE), np.uint32)
        live[list(words_of(numbering, names, name))] = (1 << bits) - 1
        models = WORD_MODELS if bits == _WORD_BITS else _MODELS
        if name == "registers" or len(live):
            sites[name] = Site(name, live, models=(*models, *WRITES), size=bits)
    return sites


def _words_each(sort: Sort) -> int:
    """How many words of its site a register is."""
    return 2 if sort is Sort.WIDE else 1
