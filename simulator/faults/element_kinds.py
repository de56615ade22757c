"""Kinds of fault that are about whole elements: zeros, constants, NaN, infinities, random numbers of a range, models of
one's own, patterns of several elements, lost and doubled writes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isa.types import ELEMENT_TYPES, Bits, ElementType
from simulator.arithmetic.convert import from_float64
from simulator.arithmetic.formats import canonical_nan, infinity
from simulator.faults.group import Group, need
from simulator.faults.spread import Indices, Site, lowest
from simulator.faults.table import ALONG, MODELS, Faults, empty
from simulator.layout import FormLayout


@dataclass(frozen=True)
class Population:
    """All faults of a group: there are `size`, and `make(index)` gives the rows for an array of indices. `finish` fills
    in what a fault's seed decides."""

    size: int
    make: Callable[[Indices], Faults]
    finish: Callable[[Faults], Faults] = lambda rows: rows


def rows_of(model: str, count: int, **columns: object) -> Faults:
    """Rows of the list with one model and these columns."""
    faults = empty(count)
    faults["model"] = MODELS.index(model)
    for name, values in columns.items():
        faults[name] = values
    return faults


def element_of(group: Group, site: Site) -> ElementType:
    """The type of the elements that a group strikes. ConfigError if neither the site nor the group says it."""
    chosen = ELEMENT_TYPES[group.type] if group.type else site.element
    need(group, chosen is not None, f"kind {group.kind} of site {site.name} without a type", 'type = "f16" or another')
    assert chosen is not None
    need(group, site.operand is None or chosen.bits == site.width, f"type {chosen} of site {site.name}",
         f"one of {site.width} bits")  # fmt: skip
    return chosen


def _elements(group: Group, site: Site, pattern: int, width: int) -> Population:
    """Every element replaced by the same bits."""
    places = site.fields(group.which, width)

    def make(index: Indices) -> Faults:
        word, lane, low = places[index].T
        mask, value = (np.uint32(bits) << low.astype(np.uint32) for bits in ((1 << width) - 1, pattern))
        return rows_of("set", len(index), word=word, lane=lane, mask=mask, value=value)

    return Population(len(places), make)


def _zeros(group: Group, site: Site, _: FormLayout) -> Population:
    """Every element becomes zero; of words without elements, every word."""
    return _elements(group, site, 0, ELEMENT_TYPES[group.type].bits if group.type else site.width)


def _constants(group: Group, site: Site, _: FormLayout) -> Population:
    """Every element becomes a constant, a number of its type or given bits."""
    given = group.constant
    legal = 'constant = 1.5, or "0x7c00" for the bits'
    need(group, given is not None, "kind constant without a constant", legal)
    if isinstance(given, str):
        width = ELEMENT_TYPES[group.type].bits if group.type else site.width
        try:
            pattern = int(given, 16)
        except ValueError:
            pattern = -1
        need(group, 0 <= pattern < 1 << width, f"constant '{given}' of {width} bits", legal)
        return _elements(group, site, pattern, width)
    element = element_of(group, site)
    (encoded,) = _encoded(np.array([given], np.float64), element)
    return _elements(group, site, int(encoded), element.bits)


def _nans(group: Group, site: Site, _: FormLayout) -> Population:
    """Every element becomes NaN."""
    element = element_of(group, site)
    need(group, element.is_float and element.nan, f"{element} has no NaN", "a type that has it")
    return _elements(group, site, canonical_nan(element), element.bits)


def _infinities(group: Group, site: Site, _: FormLayout) -> Population:
    """Every element becomes infinity."""
    element = element_of(group, site)
    need(group, element.is_float and element.infinity, f"{element} has no infinity", "a type that has it")
    return _elements(group, site, infinity(element), element.bits)


def _randoms(group: Group, site: Site, _: FormLayout) -> Population:
    """Every element becomes a random number between `low` and `high`, rounded to its type."""
    element = element_of(group, site)
    need(group, 0 < group.high - group.low < math.inf, f"numbers from {group.low} to {group.high}", "low below high, "
         "no farther than a float64 goes")  # fmt: skip
    blank = _elements(group, site, 0, element.bits)

    def finish(rows: Faults) -> Faults:
        share = (rows["seed"] >> np.uint64(11)).astype(np.float64) * 2.0**-53
        value = _encoded(group.low + share * (group.high - group.low), element)
        rows["value"] = value << lowest(rows["mask"]).astype(np.uint32)
        return rows

    return Population(blank.size, blank.make, finish)


def _encoded(values: NDArray[np.float64], element: ElementType) -> Bits:
    """Numbers as bits of a type, to nearest; integers beyond the ends become the ends."""
    if element.is_float:
        return from_float64(values, element).astype(np.uint32)
    ends = (-(1 << element.bits - 1), (1 << element.bits - 1) - 1) if element.name[0] == "s" else (0, element.mask)
    return (np.clip(np.rint(values), *ends).astype(np.int64) & element.mask).astype(np.uint32)


def _own(group: Group, site: Site, _: FormLayout) -> Population:
    """A model of one's own at every bit of every element."""
    need(group, bool(group.model), "kind own without a model", "model = 'bits ^ (1 << bit)', or FILE.py:FUNCTION")
    width = ELEMENT_TYPES[group.type].bits if group.type else site.width
    places = site.fields(group.which, width)
    live = (site.live[places[:, 0], places[:, 1], None] >> (places[:, 2:] + np.arange(width)).astype(np.uint32)) & 1
    there = {"live": live == 1, "dead": live == 0, "all": np.ones_like(live, np.bool_)}[group.which]
    chosen = np.argwhere(there)

    def make(index: Indices) -> Faults:
        place, bit = chosen[index].T
        word, lane, low = places[place].T
        mask = np.uint32((1 << width) - 1) << low.astype(np.uint32)
        return rows_of("own", len(index), word=word, lane=lane, mask=mask, value=bit)

    return Population(len(chosen), make)


def _patterns(group: Group, site: Site, _: FormLayout) -> Population:
    """The patterns of the group's file at every element. A fault's seed decides which pattern, by their
    probabilities, so a group can have any number of faults."""
    need(group, bool(group.listed), "kind pattern without patterns", "patterns = 'FILE.csv'")
    width = ELEMENT_TYPES[group.type].bits if group.type else site.width
    widest = max(mask for pattern in group.listed for _, _, mask in pattern.offsets)
    need(group, widest < 1 << width, f"a pattern with the mask {widest:#x} of elements of {width} bits",
         f"masks of at most {width} bits")  # fmt: skip
    places = site.fields(group.which, width)
    draws = max(1, math.ceil(group.count / max(1, len(places))))
    ends = np.cumsum([pattern.probability for pattern in group.listed])

    def make(index: Indices) -> Faults:
        word, lane, low = places[index // draws].T
        mask = np.uint32((1 << width) - 1) << low.astype(np.uint32)
        place = {"word": word, "lane": lane, "mask": mask}
        return rows_of("flip", len(index), **place, along=ALONG.index("pattern"), span=group.first_pattern)

    def finish(rows: Faults) -> Faults:
        share = (rows["seed"] >> np.uint64(11)).astype(np.float64) * 2.0**-53 * ends[-1]
        rows["span"] = group.first_pattern + np.minimum(np.searchsorted(ends, share, side="right"), len(ends) - 1)
        return rows

    return Population(len(places) * draws, make, finish)


def _lost(group: Group, site: Site, _: FormLayout) -> Population:
    """Every word that is written keeps what it held before."""
    words = site.words(group.which)

    def make(index: Indices) -> Faults:
        word, lane = words[index].T
        return rows_of("lost", len(index), word=word, lane=lane, mask=0xFFFFFFFF)

    return Population(len(words), make)


def _doubled(group: Group, site: Site, _: FormLayout) -> Population:
    """Every word that is written lands in a second one too, whose number differs in one bit: one line of the address
    is wrong in a second write."""
    words, count = site.words(group.which), site.live.shape[0]
    bits = 1 << np.arange(max(count - 1, 0).bit_length())
    pairs = np.argwhere(words[:, :1] ^ bits < count)

    def make(index: Indices) -> Faults:
        place, which = pairs[index].T
        word, lane = words[place].T
        return rows_of("doubled", len(index), word=word, lane=lane, mask=0xFFFFFFFF, word2=word ^ bits[which],
                       lane2=lane, mask2=0xFFFFFFFF)  # fmt: skip

    return Population(len(pairs), make)


ELEMENT_KINDS: dict[str, Callable[[Group, Site, FormLayout], Population]] = {
    "zero": _zeros,
    "constant": _constants,
    "nan": _nans,
    "infinity": _infinities,
    "random": _randoms,
    "own": _own,
    "pattern": _patterns,
    "lost": _lost,
    "doubled": _doubled,
}
