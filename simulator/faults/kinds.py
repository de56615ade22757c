"""The kinds of fault that a campaign can ask for, such as single bits, double bits or wrong codes. For each group of a
campaign this module describes its population: all faults that the group could have.

A population is a function from an index to a row of `simulator.faults.table`, and works on whole arrays of indices. So
"every fault" and "n of them at random" are the same code, and no list has to be in memory. To add a kind takes one
function and one line of `KINDS`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from isa.fragments.metadata import CODE_BITS
from isa.tensor_memory.address import TMEM_LANES
from isa.tensor_memory.datapath import HALF
from isa.types import Bits
from simulator.errors import ConfigError
from simulator.faults.table import MODELS, SITES, Faults, empty, seeds
from simulator.faults.targets.target import WHERE, Indices, Site
from simulator.layout import FormLayout
from simulator.toml_tables import Between, Choice

KIND_NAMES = (
    "flip", "stuck0", "stuck1", "flips", "byte", "nibble", "code", "lane", "swap", "word", "selector", "align",
)  # fmt: skip
CODES = ("undefined", "descending", "equal", "unordered", "all")
_Time = Annotated[int, Between(-1, 1 << 62)]


@dataclass(frozen=True)
class Group:
    """One [[faults]] table of a campaign.

    Attributes:
        name: the name of the group, for reports.
        site: the site that is struck, one of `SITES`.
        kind: the kind of fault, a key of `KINDS`.
        where: which bits: "live" (read), "dead" (not read) or "all".
        bits: how many bits a multiple flip has.
        adjacent: whether these bits are neighbours.
        codes: which values of codes are written, see `code_values`.
        count: how many faults to draw; 0 takes every one.
        margin, confidence: draw as many faults as an interval of this half width needs; with margin 0, `count` decides.
        at, until: when, for programs: dynamic instructions of the warp, or cycles if `clock` is "cycle"; -1 is the
            whole run. "any" stands for each of the warp's own.
        clock: "instruction" or "cycle".
        warps: the warps that faults strike, for programs; all if empty.
    """

    name: str
    site: str
    kind: Annotated[str, Choice(KIND_NAMES)]
    where: Annotated[str, Choice(WHERE)] = "live"
    bits: Annotated[int, Between(2, 4)] = 2
    adjacent: bool = False
    codes: Annotated[str, Choice(CODES)] = "undefined"
    count: Annotated[int, Between(0, 1 << 62)] = 0
    margin: Annotated[float, Between(0, 1, exclusive=True)] = 0.0
    confidence: Annotated[float, Between(0, 1, exclusive=True)] = 0.95
    at: _Time | tuple[_Time, ...] | Annotated[str, Choice(("any",))] = -1
    until: int = -1
    clock: Annotated[str, Choice(("instruction", "cycle"))] = "instruction"
    warps: tuple[int, ...] = ()


@dataclass(frozen=True)
class Population:
    """All faults of a group: there are `size`, and `make(index)` gives the rows for an array of indices."""

    size: int
    make: Callable[[Indices], Faults]


Moments = Sequence[tuple[int, NDArray[np.int64]]]
"""By case (of programs: warp) the times at which faults can strike it, -1 for the whole run."""


def population(group: Group, site: Site, found: FormLayout, cases: int, moments: Moments | None = None) -> Population:
    """The population of a group; the same fault of all cases and times stands together.

    Args:
        cases: how many sets of operands there are, on every one of which every fault strikes at the group's times.
        moments: in place of these, the cases and their times.

    Raises:
        ConfigError: the group asks for what the site does not have.
    """
    spread = KINDS[group.kind](group, site, found)
    if moments is None:
        moments = [(case, np.atleast_1d(np.array(group.at, np.int64))) for case in group.warps or range(cases)]
    ends = np.cumsum([len(times) for _, times in moments], dtype=np.int64)
    pairs = int(ends[-1]) if len(ends) else 0
    numbers = np.array([case for case, _ in moments], np.int64)
    every = np.concatenate([np.zeros(0, np.int64), *(times for _, times in moments)])

    def make(index: Indices) -> Faults:
        which, rest = np.divmod(np.asarray(index, np.int64), max(pairs, 1))
        faults = spread.make(which)
        faults["case"] = numbers[np.searchsorted(ends, rest, side="right")]
        faults["site"] = SITES.index(site.name)
        faults["at"], faults["until"] = every[rest], group.until
        return faults

    return Population(spread.size * pairs, make)


def _rows(model: str, count: int, **columns: object) -> Faults:
    """Rows of the list with one model and these columns."""
    faults = empty(count)
    faults["model"] = MODELS.index(model)
    for name, values in columns.items():
        faults[name] = values
    return faults


def _need(group: Group, condition: bool, reason: str, legal: str) -> None:
    """Raises ConfigError about a key of the group unless the condition holds."""
    if not condition:
        raise ConfigError("campaign", f"faults.{group.name}", reason, legal)


def _bits(group: Group, site: Site, model: str) -> Population:
    """One fault for every single bit of the site."""
    places = site.bits(group.where)

    def make(index: Indices) -> Faults:
        word, lane, bit = places[index].T
        return _rows(model, len(index), word=word, lane=lane, mask=np.uint32(1) << bit.astype(np.uint32))

    return Population(len(places), make)


def _patterns(group: Group, site: Site, masks: Bits, *, whole: bool = False) -> Population:
    """Every one of these patterns of flips in every word. A pattern counts as `live` if it touches a bit that is read
    (with `whole`: if it touches no other), and as `dead` if it touches none."""
    words = site.words("all")
    read = site.live[words[:, 0], words[:, 1]][:, None] & masks[None, :]
    hit = read == masks if whole else read != 0
    pairs = np.argwhere({"live": hit, "dead": read == 0, "all": np.ones_like(hit)}[group.where])

    def make(index: Indices) -> Faults:
        place, which = pairs[index].T
        return _rows("flip", len(index), word=words[place, 0], lane=words[place, 1], mask=masks[which])

    return Population(len(pairs), make)


def _flips(group: Group, site: Site, _: FormLayout) -> Population:
    """Several bits of a word flipped at once: neighbours only, or any."""
    if group.adjacent:
        masks = [((1 << group.bits) - 1) << low for low in range(33 - group.bits)]
    else:
        masks = [sum(1 << bit for bit in chosen) for chosen in combinations(range(32), group.bits)]
    return _patterns(group, site, np.array(masks, np.uint32), whole=True)


def _fields(group: Group, site: Site, size: int) -> Population:
    """A field of `size` bits replaced by every other value."""
    values = np.arange(1, 1 << size, dtype=np.uint32)
    return _patterns(group, site, np.concatenate([values << np.uint32(low) for low in range(0, 32, size)]))


def _codes(group: Group, site: Site, layout: FormLayout) -> Population:
    """Every code of the metadata replaced by each of some values."""
    places = _codes_of(group, site, "codes").reshape(-1, 3)
    values = np.array(code_values(group, layout), np.uint32)

    def make(index: Indices) -> Faults:
        place, which = np.divmod(index, len(values))
        word, lane, low = places[place].T
        mask, value = (bits << low.astype(np.uint32) for bits in (np.uint32(15), values[which]))
        return _rows("set", len(index), word=word, lane=lane, mask=mask, value=value)

    return Population(len(places) * len(values), make)


def _codes_of(group: Group, site: Site, what: str) -> Indices:
    """The place of each code in a site, as `Site.codes`; ConfigError for a site without codes. `what` names the faults
    in the error."""
    if site.codes is None:
        raise ConfigError("campaign", f"faults.{group.name}", f"{what} in site {site.name}", "e, the metadata")
    return site.codes


def code_values(group: Group, found: FormLayout) -> tuple[int, ...]:
    """The codes to write: those that the form leaves `undefined`; those whose indices are `descending` or `equal`;
    `unordered` for both of these; `all` for all 16."""
    every = range(16)
    choices: Mapping[str, tuple[int, ...]] = {
        "undefined": tuple(code for code in every if code not in found.codes),
        "descending": tuple(code for code in every if code & 3 > code >> 2),
        "equal": tuple(code for code in every if code & 3 == code >> 2),
        "unordered": tuple(code for code in every if code & 3 >= code >> 2),
        "all": tuple(every),
    }
    return choices[group.codes]


def _lanes(group: Group, site: Site, _: FormLayout) -> Population:
    """The word of a lane replaced by that of each other lane, as a crossed wire does it."""
    words, others = site.words(group.where), site.live.shape[1] - 1
    _need(group, others > 0, f"site {site.name} has one lane", "a site of several lanes")

    def make(index: Indices) -> Faults:
        place, other = np.divmod(index, others)
        word, lane = words[place].T
        return _rows("lane", len(index), word=word, lane=lane, mask=0xFFFFFFFF, lane2=other + (other >= lane))

    return Population(len(words) * others, make)


def _swaps(group: Group, site: Site, _: FormLayout) -> Population:
    """Two chunks of a row change their codes."""
    first = _codes_of(group, site, "chunks")[:, :, 0]
    rows, chunks = first.shape[:2]
    pairs = np.array(list(combinations(range(chunks), 2)))

    def make(index: Indices) -> Faults:
        row, which = np.divmod(index, len(pairs))
        (word, lane, low), (word2, lane2, low2) = (first[row, pairs[which, side]].T for side in (0, 1))
        mask, mask2 = (np.uint32((1 << CODE_BITS) - 1) << bit.astype(np.uint32) for bit in (low, low2))
        return _rows("swap", len(index), word=word, lane=lane, mask=mask, word2=word2, lane2=lane2, mask2=mask2)

    return Population(rows * len(pairs), make)


def _words(group: Group, site: Site, _: FormLayout) -> Population:
    """A word replaced by a random one. The word comes from the seed of the fault, so a group can have any number of
    them."""
    words = site.words(group.where)
    draws = max(1, math.ceil(group.count / max(1, len(words))))

    def make(index: Indices) -> Faults:
        word, lane = words[index // draws].T
        return _rows("word", len(index), word=word, lane=lane, mask=0xFFFFFFFF)

    return Population(len(words) * draws, make)


def _selectors(group: Group, _: Site, layout: FormLayout) -> Population:
    """Every other value of the two bits of the selector."""
    _need(group, bool(layout.selectors), "a selector of a dense form", "a sparse form")
    values = np.array([value for value in range(4) if value != layout.choice.selector])
    return Population(len(values), lambda index: _rows("selector", len(index), mask=3, value=values[index]))


def _alignments(group: Group, site: Site, layout: FormLayout) -> Population:
    """An operand in Tensor Memory moved to other lanes: "live": to the other half of every 32; "dead": to each other
    wrong lane."""
    _need(group, "align" in site.models, f"kind align of site {site.name}", "base_d, base_a, base_e")
    right = layout.choice.base_lane
    half = right ^ HALF
    others = [lane for lane in range(TMEM_LANES) if lane not in (right, half)]
    lanes = np.array({"live": [half], "dead": others, "all": [half, *others]}[group.where], np.uint32)
    return Population(len(lanes), lambda index: _rows("align", len(index), mask=0xFFFF0000, value=lanes[index]))


KINDS: dict[str, Callable[[Group, Site, FormLayout], Population]] = {
    "flip": lambda group, site, found: _bits(group, site, "flip"),
    "stuck0": lambda group, site, found: _bits(group, site, "stuck0"),
    "stuck1": lambda group, site, found: _bits(group, site, "stuck1"),
    "flips": _flips,
    "byte": lambda group, site, found: _fields(group, site, 8),
    "nibble": lambda group, site, found: _fields(group, site, 4),
    "code": _codes,
    "lane": _lanes,
    "swap": _swaps,
    "word": _words,
    "selector": _selectors,
    "align": _alignments,
}
assert tuple(KINDS) == KIND_NAMES


def drawn(faults: Faults, campaign_seed: int) -> Faults:
    """The rows with their seeds, and with what a seed decides (the value of a replaced word) filled in."""
    faults["seed"] = seeds(campaign_seed, faults["id"])
    random = faults["model"] == MODELS.index("word")
    faults["value"] = np.where(random, (faults["seed"] >> np.uint64(32)).astype(np.uint32), faults["value"])
    return faults


def every_fault(group: Group, site: Site, found: FormLayout, cases: int, seed: int) -> Faults:
    """All faults of a group, numbered from 0."""
    every = population(group, site, found, cases)
    faults = every.make(np.arange(every.size))
    faults["id"] = np.arange(every.size)
    return drawn(faults, seed)
