"""The population of a group of a campaign: all faults that the group could have, at every place that its kind has and
at every time at which it may strike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.faults.aim.executed import Block
from simulator.faults.aim.selection import Selection, read_selection
from simulator.faults.element_kinds import Population
from simulator.faults.group import Group, need
from simulator.faults.kinds import KINDS
from simulator.faults.models import bits_of
from simulator.faults.spread import Indices, Places, Site, complete
from simulator.faults.table import ALONG, MODELS, SITES, Faults, seeds
from simulator.layout import FormLayout

_CHUNK = 1 << 18  # rows that are looked at together
_MANY = 64  # words that are found faster all at once


def population(
    group: Group, site: Site, found: FormLayout, cases: int, blocks: Sequence[Block] | None = None
) -> Population:
    """The population of a group; the same fault of all cases and times stands together, where all strike at the same
    times.

    Args:
        cases: how many sets of operands there are, on every one of which every fault strikes at the group's times.
        blocks: in place of these, the cases (of programs: warps), their times, and the words that are struck there.

    Raises:
        ConfigError: the group asks for what the site does not have.
    """
    places = _kept(group, site, KINDS[group.kind](group, site, found))
    if blocks is None:
        times = np.atleast_1d(np.array(group.at, np.int64))
        blocks = [Block(case, times) for case in group.warps or range(cases)]
    spread = _everywhere(places, blocks) if all(one.words is None for one in blocks) else _aimed(places, blocks)

    def make(index: Indices) -> Faults:
        faults = spread.make(np.asarray(index, np.int64))
        faults["site"] = SITES.index(site.name)
        faults["until"] = faults["at"] + 1 if group.hold == "instruction" else group.until
        faults["period"], faults["duty"] = group.period, group.duty
        return faults

    return Population(spread.size, make, places.finish)


def _kept(group: Group, site: Site, places: Population) -> Population:
    """The faults of a kind that the group's selection and its number of places leave."""
    selection = read_selection(group.where)
    if group.along:
        need(group, site.operand is not None or group.along not in ("rows", "columns"),
             f"along {group.along} of site {site.name}, which is no operand", "words or lanes")  # fmt: skip
        axis, span = ALONG.index(group.along), group.span
        plain = places

        def spread(index: Indices) -> Faults:
            rows = plain.make(index)
            rows["along"], rows["span"] = axis, span
            return rows

        places = Population(places.size, spread, places.finish)
    elif not selection.uses(("words", "lanes", "bits")):
        return places
    chosen = _joined([part[_fits(places.make(part), site, selection)] for part in _parts(places.size)])
    return Population(len(chosen), lambda index: places.make(chosen[index]), places.finish)


def _fits(rows: Faults, site: Site, selection: Selection) -> NDArray[np.bool_]:
    """Whether rows are selected by their words, lanes and bits, and whether all their places exist."""
    masks = bits_of(rows)
    fits = selection.numbers("words", rows["word"]) & selection.numbers("lanes", rows["lane"])
    for term in selection.of("bits"):
        inside = term.numbers(np.arange(32))
        fits &= (masks & np.uint32(sum(1 << bit for bit in np.flatnonzero(~inside).tolist()))) == 0
    if (rows["along"] != ALONG.index("pattern")).all() and rows["along"].any():  # those of a pattern need not all exist
        first = Places(np.arange(len(rows)), rows["word"].astype(np.int64), rows["lane"].astype(np.int64), masks)
        fits &= complete(rows, first, site)
    return np.asarray(fits)


def _everywhere(places: Population, blocks: Sequence[Block]) -> Population:
    """Every fault at every time of every case."""
    ends = np.cumsum([len(one.times) for one in blocks], dtype=np.int64)
    pairs = int(ends[-1]) if len(ends) else 0
    numbers = np.array([one.warp for one in blocks], np.int64)
    every = _joined([one.times for one in blocks])

    def make(index: Indices) -> Faults:
        which, rest = np.divmod(index, max(pairs, 1))
        faults = places.make(which)
        faults["case"] = numbers[np.searchsorted(ends, rest, side="right")]
        faults["at"] = every[rest]
        return faults

    return Population(places.size * pairs, make)


def _aimed(places: Population, blocks: Sequence[Block]) -> Population:
    """Of each block its faults: those in its words, at each of its times."""
    rows, lanes = (
        _joined([places.make(part)[name].astype(np.int64) for part in _parts(places.size)]) for name in ("word", "lane")
    )
    order = np.argsort(rows, kind="stable")
    words, chosen = rows[order], dict[tuple[Any, ...], tuple[int, NDArray[np.int64]]]()
    first = 0
    for one in blocks:
        if (one.words, one.lanes) not in chosen:
            part = order if one.words is None else _in_words(words, order, one.words)
            part = part if one.lanes is None else part[np.isin(lanes[part], one.lanes)]
            chosen[one.words, one.lanes] = first, part
            first += len(part)
    every, times = _joined([part for _, part in chosen.values()]), _joined([one.times for one in blocks])
    weights = np.concatenate([np.ones(0), *(one.weights_or_ones for one in blocks)])
    counts = np.array([len(one.times) for one in blocks], np.int64)
    start_of_times, start_of_places = (
        np.cumsum(counts) - counts,
        np.array([chosen[one.words, one.lanes][0] for one in blocks]),
    )
    sizes = counts * np.array([len(chosen[one.words, one.lanes][1]) for one in blocks])
    ends, warps = np.cumsum(sizes), np.array([one.warp for one in blocks])

    def make(index: Indices) -> Faults:
        which = np.searchsorted(ends, index, side="right")
        place, time = np.divmod(index - (ends[which] - sizes[which]), counts[which])
        faults = places.make(every[start_of_places[which] + place])
        time += start_of_times[which]
        faults["case"], faults["at"], faults["weight"] = warps[which], times[time], weights[time]
        return faults

    return Population(int(ends[-1]) if len(ends) else 0, make)


def _parts(size: int) -> list[Indices]:
    """The numbers below `size`, in pieces that are looked at together."""
    return [np.arange(first, min(first + _CHUNK, size)) for first in range(0, size, _CHUNK)]


def _joined(arrays: Sequence[Indices]) -> Indices:
    return np.concatenate([np.zeros(0, np.int64), *arrays])


def _in_words(words: Indices, order: Indices, wanted: Sequence[int]) -> Indices:
    """Of faults in the order of their words, those in the wanted words, ascending."""
    if len(wanted) > _MANY:
        return np.sort(order[np.isin(words, wanted)])
    return np.sort(_joined([order[slice(*np.searchsorted(words, (word, word + 1)))] for word in wanted]))


def drawn(faults: Faults, campaign_seed: int, one: Population | None = None) -> Faults:
    """The rows with their seeds, and with what a seed decides (the value of a replaced word) filled in."""
    faults["seed"] = seeds(campaign_seed, faults["id"])
    random = faults["model"] == MODELS.index("word")
    faults["value"] = np.where(random, (faults["seed"] >> np.uint64(32)).astype(np.uint32), faults["value"])
    return faults if one is None else one.finish(faults)


def every_fault(group: Group, site: Site, found: FormLayout, cases: int, seed: int) -> Faults:
    """All faults of a group, numbered from 0."""
    every = population(group, site, found, cases)
    faults = every.make(np.arange(every.size))
    faults["id"] = np.arange(every.size)
    return drawn(faults, seed, every)
