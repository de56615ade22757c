"""Which faults there are: the bits of a subject, those that its instruction reads, and the population of each group of
a campaign.

A population is a function from its index to a row of `simulator.faults.table`, for whole arrays of indices; so that
"every fault" and "n of them at random" are the same code, and no list has to be in memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from isa.fragments.metadata import CODE_BITS
from isa.types import Bits
from simulator.errors import ConfigError
from simulator.faults.table import MODELS, SITES, Faults, empty, seeds
from simulator.layout import FormLayout, Operand

Indices = NDArray[np.int64]
WHERE = ("live", "dead", "all")
_MOST_BITS = 4


@dataclass(frozen=True)
class Site:
    """Words that faults can hit.

    Attributes:
        name: of `SITES`.
        live: uint32 [word, lane]: the bits that the instruction reads.
        codes: row, chunk -> (word, lane, lowest bit) of metadata, int64 [row, chunk, copy, 3]; None elsewhere.
    """

    name: str
    live: Bits
    codes: Indices | None = None

    def bits(self, where: str) -> Indices:
        """Word, lane, bit of every bit: [n, 3]; of those that are read, of the others, or all."""
        masks = {"live": self.live, "dead": ~self.live, "all": np.full_like(self.live, 0xFFFFFFFF)}[where]
        set_ = masks[..., None] >> np.arange(32, dtype=np.uint32) & np.uint32(1)
        return np.argwhere(set_ == 1)

    def words(self, where: str) -> Indices:
        """Word, lane of every word: [n, 2]; `live` if any of its bits is read."""
        read = self.live != 0
        return np.argwhere({"live": read, "dead": ~read, "all": np.ones_like(read)}[where])


def live_bits(operand: Operand, used: int) -> Bits:
    """The bits of [word, lane] that belong to elements; `used`: of the bits of one element, which count (a tf32 has 13
    that do not)."""
    live = np.zeros((operand.words, operand.lanes), np.uint32)
    table = operand.table
    np.bitwise_or.at(
        live, (table["word"], table["lane"]), (np.uint32(used) << table["low"].astype(np.uint32)).astype(np.uint32)
    )
    return live


def code_places(operand: Operand) -> Indices:
    """Word, lane and lowest bit of each code: int64 [row, chunk, copy, 3]."""
    grid = operand.grid
    places = np.stack([grid["word"], grid["lane"], grid["low"]], axis=-1)
    return places if places.ndim == 4 else places[:, :, None]


@dataclass(frozen=True)
class Group:
    """One [[faults]] table of a campaign.

    Attributes:
        name: for reports.
        site: of `SITES`.
        kind: a key of `KINDS`.
        where: "live", "dead" or "all" bits.
        bits: of multiple flips.
        adjacent: whether these are neighbours.
        codes: values of codes: "undefined", "descending", "equal", "all".
        count: faults to draw; 0: every one.
        margin, confidence: draw so many that an interval is as narrow as this; 0: by `count`.
        at, until: when, of traces: dynamic instructions of the warp, or (`clock` = "cycle") cycles; -1: the whole run.
        clock: "instruction" or "cycle".
        warps: of traces: those that faults strike; all if empty.
    """

    name: str
    site: str
    kind: str
    where: str = "live"
    bits: int = 2
    adjacent: bool = False
    codes: str = "undefined"
    count: int = 0
    margin: float = 0.0
    confidence: float = 0.95
    at: Sequence[int] = (-1,)
    until: int = -1
    clock: str = "instruction"
    warps: tuple[int, ...] = ()


@dataclass(frozen=True)
class Population:
    """All faults of a group: `make(index)` are the rows of these indices."""

    size: int
    make: Callable[[Indices], Faults]


def population(group: Group, site: Site, found: FormLayout, cases: int) -> Population:
    """The faults of a group on every one of `cases` sets of operands, the same fault of all cases together.

    Raises:
        ConfigError: the group asks for what the site has not.
    """
    spread = KINDS[group.kind](group, site, found)
    times, numbers = np.array(group.at), np.array(group.warps or range(cases))

    def make(index: Indices) -> Faults:
        which, rest = np.divmod(np.asarray(index, np.int64), len(numbers) * len(times))
        faults = spread.make(which)
        faults["case"] = numbers[rest // len(times)]
        faults["site"] = SITES.index(site.name)
        faults["at"], faults["until"] = times[rest % len(times)], group.until
        return faults

    return Population(spread.size * len(numbers) * len(times), make)


def _model(name: str) -> int:
    return MODELS.index(name)


def _need(group: Group, condition: bool, reason: str, legal: str) -> None:
    if not condition:
        raise ConfigError("campaign", f"faults.{group.name}", reason, legal)


def _bits(group: Group, site: Site, model: str) -> Population:
    """Every single bit."""
    places = site.bits(group.where)

    def make(index: Indices) -> Faults:
        faults = empty(len(index))
        word, lane, bit = places[index].T
        faults["model"], faults["word"], faults["lane"] = _model(model), word, lane
        faults["mask"] = np.uint32(1) << bit.astype(np.uint32)
        return faults

    return Population(len(places), make)


def _patterns(group: Group, site: Site, masks: Bits, *, whole: bool = False) -> Population:
    """Every one of these patterns of flips in every word: `live` if it touches a bit that is read (`whole`: no other),
    `dead` if it touches none."""
    words = site.words("all")
    live = site.live[words[:, 0], words[:, 1]]
    read = live[:, None] & masks[None, :]
    hit = read == masks if whole else read != 0
    wanted = {"live": hit, "dead": read == 0, "all": np.ones_like(hit)}[group.where]
    pairs = np.argwhere(wanted)

    def make(index: Indices) -> Faults:
        faults = empty(len(index))
        at, which = pairs[index].T
        faults["model"], faults["word"], faults["lane"] = _model("flip"), words[at, 0], words[at, 1]
        faults["mask"] = masks[which]
        return faults

    return Population(len(pairs), make)


def _flips(group: Group, site: Site, _: FormLayout) -> Population:
    """Several bits of a word at once, neighbours or any."""
    _need(group, 2 <= group.bits <= _MOST_BITS, f"bits = {group.bits}", f"2 to {_MOST_BITS}")
    if group.adjacent:
        masks = [((1 << group.bits) - 1) << low for low in range(33 - group.bits)]
    else:
        masks = [sum(1 << bit for bit in chosen) for chosen in combinations(range(32), group.bits)]
    return _patterns(group, site, np.array(masks, np.uint32), whole=True)


def _fields(size: int) -> Callable[[Group, Site, FormLayout], Population]:
    """A field of `size` bits replaced by every other value."""
    values = np.arange(1, 1 << size, dtype=np.uint32)
    masks = np.concatenate([values << np.uint32(low) for low in range(0, 32, size)])
    return lambda group, site, found: _patterns(group, site, masks)


def _codes(group: Group, site: Site, found: FormLayout) -> Population:
    """Every code of the metadata replaced by each of some values."""
    _need(group, site.codes is not None, f"codes in site {site.name}", "e, the metadata")
    assert site.codes is not None
    places = site.codes.reshape(-1, 3)
    values = np.array(code_values(group, found), np.uint32)

    def make(index: Indices) -> Faults:
        faults = empty(len(index))
        at, which = np.divmod(index, len(values))
        word, lane, low = places[at].T
        shift = low.astype(np.uint32)
        faults["model"], faults["word"], faults["lane"] = _model("set"), word, lane
        faults["mask"], faults["value"] = np.uint32(15) << shift, values[which] << shift
        return faults

    return Population(len(places) * len(values), make)


def code_values(group: Group, found: FormLayout) -> tuple[int, ...]:
    """Codes to write: `undefined` by the form; `descending` or `equal` indices; `unordered`: both of these; all 16."""
    choices: Mapping[str, tuple[int, ...]] = {
        "undefined": tuple(code for code in range(16) if code not in found.codes),
        "descending": tuple(code for code in range(16) if code & 3 > code >> 2),
        "equal": tuple(code for code in range(16) if code & 3 == code >> 2),
        "unordered": tuple(code for code in range(16) if code & 3 >= code >> 2),
        "all": tuple(range(16)),
    }
    _need(group, group.codes in choices, f"codes = {group.codes!r}", ", ".join(choices))
    return choices[group.codes]


def _lanes(group: Group, site: Site, _: FormLayout) -> Population:
    """The word of a lane replaced by that of each other lane: a crossed wire."""
    words = site.words(group.where)
    others = site.live.shape[1] - 1
    _need(group, others > 0, f"site {site.name} has one lane", "a site of several lanes")

    def make(index: Indices) -> Faults:
        faults = empty(len(index))
        at, other = np.divmod(index, others)
        word, lane = words[at].T
        faults["model"], faults["word"], faults["lane"], faults["mask"] = _model("lane"), word, lane, 0xFFFFFFFF
        faults["lane2"] = other + (other >= lane)
        return faults

    return Population(len(words) * others, make)


def _swaps(group: Group, site: Site, _: FormLayout) -> Population:
    """Two chunks of a row change their codes."""
    _need(group, site.codes is not None, f"chunks in site {site.name}", "e, the metadata")
    assert site.codes is not None
    rows, chunks = site.codes.shape[:2]
    pairs = np.array(list(combinations(range(chunks), 2)))
    first = site.codes[:, :, 0]

    def make(index: Indices) -> Faults:
        faults = empty(len(index))
        row, which = np.divmod(index, len(pairs))
        left, right = first[row, pairs[which, 0]], first[row, pairs[which, 1]]
        faults["model"], faults["word"], faults["lane"], faults["lane2"] = (
            _model("swap"),
            left[:, 0],
            left[:, 1],
            right[:, 1],
        )
        faults["word2"] = right[:, 0]
        faults["mask"], faults["mask2"] = (
            np.uint32((1 << CODE_BITS) - 1) << side[:, 2].astype(np.uint32) for side in (left, right)
        )
        return faults

    return Population(rows * len(pairs), make)


def _words(group: Group, site: Site, _: FormLayout) -> Population:
    """A word replaced by a random one: drawn from the seed of the fault, so that any number of them can be had."""
    words = site.words(group.where)
    draws = max(1, math.ceil(group.count / max(1, len(words))))

    def make(index: Indices) -> Faults:
        faults = empty(len(index))
        word, lane = words[index // draws].T
        faults["model"], faults["word"], faults["lane"], faults["mask"] = _model("word"), word, lane, 0xFFFFFFFF
        return faults

    return Population(len(words) * draws, make)


def _selectors(group: Group, _: Site, found: FormLayout) -> Population:
    """Every other value of the two bits of the selector."""
    _need(group, bool(found.selectors), "a selector of a dense form", "a sparse form")
    values = np.array([value for value in range(4) if value != found.choice.selector])

    def make(index: Indices) -> Faults:
        faults = empty(len(index))
        faults["model"], faults["mask"], faults["value"] = _model("selector"), 3, values[index]
        return faults

    return Population(len(values), make)


KINDS: dict[str, Callable[[Group, Site, FormLayout], Population]] = {
    "flip": lambda group, site, found: _bits(group, site, "flip"),
    "stuck0": lambda group, site, found: _bits(group, site, "stuck0"),
    "stuck1": lambda group, site, found: _bits(group, site, "stuck1"),
    "flips": _flips,
    "byte": _fields(8),
    "nibble": _fields(4),
    "code": _codes,
    "lane": _lanes,
    "swap": _swaps,
    "word": _words,
    "selector": _selectors,
}


def drawn(faults: Faults, campaign_seed: int) -> Faults:
    """The rows with their seeds, and what a seed decides (the value of a replaced word) written out."""
    faults["seed"] = seeds(campaign_seed, faults["id"])
    random = faults["model"] == _model("word")
    faults["value"] = np.where(random, (faults["seed"] >> np.uint64(32)).astype(np.uint32), faults["value"])
    return faults
