"""The kinds of fault that a campaign can ask for, such as single bits, double bits or wrong codes. For each kind this
module describes which faults of it a site has, whenever and in whichever case they strike.

They are a function from an index to a row of `simulator.faults.table`, which works on whole arrays of indices. So
"every fault" and "n of them at random" are the same code, and no list has to be in memory. To add a kind takes one
function and one line of `KINDS`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import combinations

import numpy as np

from isa.fragments.metadata import CODE_BITS
from isa.tensor_memory.address import TMEM_LANES
from isa.tensor_memory.datapath import HALF
from isa.types import Bits
from simulator.errors import ConfigError
from simulator.faults.element_kinds import ELEMENT_KINDS, Population, rows_of
from simulator.faults.group import KIND_NAMES, Group, need
from simulator.faults.spread import Indices, Site
from simulator.faults.table import Faults
from simulator.layout import FormLayout


def _bits(group: Group, site: Site, model: str) -> Population:
    """One fault for every single bit of the site."""
    places = site.bits(group.which)

    def make(index: Indices) -> Faults:
        word, lane, bit = places[index].T
        return rows_of(model, len(index), word=word, lane=lane, mask=np.uint32(1) << bit.astype(np.uint32))

    return Population(len(places), make)


def _patterns(group: Group, site: Site, masks: Bits, *, whole: bool = False) -> Population:
    """Every one of these patterns of flips in every word. A pattern counts as `live` if it touches a bit that is read
    (with `whole`: if it touches no other), and as `dead` if it touches none."""
    words, masks = site.words("all"), masks[masks & ~np.uint32(site.mask) == 0]
    read = site.live[words[:, 0], words[:, 1]][:, None] & masks[None, :]
    hit = read == masks if whole else read != 0
    pairs = np.argwhere({"live": hit, "dead": read == 0, "all": np.ones_like(hit)}[group.which])

    def make(index: Indices) -> Faults:
        place, which = pairs[index].T
        return rows_of("flip", len(index), word=words[place, 0], lane=words[place, 1], mask=masks[which])

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
        return rows_of("set", len(index), word=word, lane=lane, mask=mask, value=value)

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
    words, others = site.words(group.which), site.live.shape[1] - 1
    need(group, others > 0, f"site {site.name} has one lane", "a site of several lanes")

    def make(index: Indices) -> Faults:
        place, other = np.divmod(index, others)
        word, lane = words[place].T
        return rows_of("lane", len(index), word=word, lane=lane, mask=0xFFFFFFFF, lane2=other + (other >= lane))

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
        return rows_of("swap", len(index), word=word, lane=lane, mask=mask, word2=word2, lane2=lane2, mask2=mask2)

    return Population(rows * len(pairs), make)


def _words(group: Group, site: Site, _: FormLayout) -> Population:
    """A word replaced by a random one. The word comes from the seed of the fault, so a group can have any number of
    them."""
    words = site.words(group.which)
    draws = max(1, math.ceil(group.count / max(1, len(words))))

    def make(index: Indices) -> Faults:
        word, lane = words[index // draws].T
        return rows_of("word", len(index), word=word, lane=lane, mask=0xFFFFFFFF)

    return Population(len(words) * draws, make)


def _selectors(group: Group, _: Site, layout: FormLayout) -> Population:
    """Every other value of the two bits of the selector."""
    need(group, bool(layout.selectors), "a selector of a dense form", "a sparse form")
    values = np.array([value for value in range(4) if value != layout.choice.selector])
    return Population(len(values), lambda index: rows_of("selector", len(index), mask=3, value=values[index]))


def _alignments(group: Group, site: Site, layout: FormLayout) -> Population:
    """An operand in Tensor Memory moved to other lanes: "live": to the other half of every 32; "dead": to each other
    wrong lane."""
    need(group, "align" in site.models, f"kind align of site {site.name}", "base_d, base_a, base_e")
    right = layout.choice.base_lane
    half = right ^ HALF
    others = [lane for lane in range(TMEM_LANES) if lane not in (right, half)]
    lanes = np.array({"live": [half], "dead": others, "all": [half, *others]}[group.which], np.uint32)
    return Population(len(lanes), lambda index: rows_of("align", len(index), mask=0xFFFF0000, value=lanes[index]))


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
    **ELEMENT_KINDS,
}
assert tuple(KINDS) == KIND_NAMES
