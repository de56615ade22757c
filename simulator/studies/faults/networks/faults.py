"""Faults of a layer as rows of `simulator.faults.table`: drawn from a population that is stated, or all of it.

`word` counts words of a site, `mask` says which bits of the word are concerned. Models are those of
`simulator.faults.models` that concern one word: flip, stuck0, stuck1, word (a random pattern).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isa.types import Bits
from simulator.errors import ViewError, did_you_mean
from simulator.faults.models import BY_NAME
from simulator.faults.table import MODELS, SITES, Faults, empty, seeds
from simulator.studies.faults.networks.layer import SparseLayer
from simulator.studies.faults.networks.sites import SITES as HERE
from simulator.studies.faults.networks.sites import Running, Site

MODELS_HERE = ("flip", "stuck0", "stuck1", "word")
_MOST = 1 << 24  # faults in one table


class Drawn(NamedTuple):
    """Faults of one site, and how many it has."""

    faults: Faults
    population: int


def site_of(name: str) -> Site:
    """The site of a name; ViewError for any other."""
    if name not in HERE:
        raise ViewError(f"no site '{name}' in a layer{did_you_mean(name, HERE)}", ", ".join(HERE))
    return HERE[name]


def masks(site: Site, running: Running, model: str, bits: int) -> Bits:
    """The masks that a word of a site is struck with: each run of `bits` neighbouring bits, or the whole word."""
    width = site.bits(running.layer)
    if model not in MODELS_HERE:
        raise _unknown_model(model)
    if model == "word":
        return np.array([(1 << width) - 1], np.uint32)
    if not 1 <= bits <= width:
        raise ViewError(f"{bits} neighbouring bits of {site.name}, words of {width} bits", f"1 to {width}")
    return np.array([((1 << bits) - 1) << low for low in range(width - bits + 1)], np.uint32)


def draw(
    running: Running, name: str, count: int | None = None, seed: int = 0, model: str = "flip", bits: int = 1
) -> Drawn:
    """Faults of a site.

    Args:
        running: the layer, with what it reads.
        name: a name of `sites.SITES`.
        count: how many to draw without repetition; None, or more than there are, takes every one.
        seed: of the draw, and of random words.
        model: "flip", "stuck0", "stuck1" or "word" (random patterns; the population is then that of words).
        bits: how many neighbouring bits of a word a fault concerns.

    Raises:
        ViewError: an unknown name or model, so many bits that a word has not, no faults, or too many to hold.
    """
    site = site_of(name)
    patterns = masks(site, running, model, bits)
    population = site.words(running) * len(patterns)
    if not 0 <= seed < 1 << 63:
        raise ViewError(f"seed {seed}", f"0 to {(1 << 63) - 1}")
    if site.words(running) >= 1 << 32:
        raise ViewError(f"{site.words(running):,} words of {name}", "fewer than 2^32: fewer images")
    chosen = population if count is None else min(count, population)
    if not 0 < chosen <= _MOST:
        raise ViewError(f"{chosen:,} faults of {name}", f"1 to {_MOST:,}, such as --faults 1000")
    index = np.arange(population) if chosen == population else _sample(population, chosen, seed)
    rows = empty(len(index))
    rows["id"] = np.arange(len(index))
    word, which = np.divmod(index, len(patterns))
    rows["word"], rows["mask"] = word, patterns[which]
    rows["model"], rows["site"] = MODELS.index(model), SITES.index(site.listed)
    rows["seed"] = seeds(seed, rows["id"])
    rows["value"] = np.where(model == "word", (rows["seed"] >> np.uint64(32)).astype(np.uint32), 0)
    return Drawn(rows, population)


def one_fault(site: str, word: int, *, bit: int = 0, bits: int = 1, model: str = "flip", value: int = 0) -> Faults:
    """One fault as a row of a list: of `bits` neighbouring bits of a word, from `bit` on; of model "word" all of them,
    which become those of `value`. ViewError for an unknown site or model."""
    where = site_of(site)
    if model not in MODELS_HERE:
        raise _unknown_model(model)
    row = empty(1)
    row["word"], row["mask"], row["value"] = word, ((1 << bits) - 1) << bit if model != "word" else 0xFFFFFFFF, value
    row["model"], row["site"] = MODELS.index(model), SITES.index(where.listed)
    return row


def checked(layer: SparseLayer, fault: Faults) -> Site:
    """The site of one fault; ViewError for several, or for one that the layer does not have."""
    rows = fault.reshape(-1)
    if len(rows) != 1:
        raise ViewError(f"{len(rows)} faults at once", "one row of a list of faults")
    listed, model = SITES[rows["site"][0]], MODELS[rows["model"][0]]
    sites = [site for site in HERE.values() if site.listed == listed]
    if not sites:
        raise ViewError(f"a fault of site '{listed}' in a layer", ", ".join(site.listed for site in HERE.values()))
    if model not in MODELS_HERE:
        raise _unknown_model(model)
    width, fixed = sites[0].bits(layer), {"values": layer.values.size, "metadata": len(layer.words)}
    word, most = int(rows["word"][0]), fixed.get(sites[0].name)
    if most is not None and word >= most:
        raise ViewError(f"word {word:,} of {sites[0].name}", f"0 to {most - 1:,}")
    if model != "word" and int(rows["mask"][0]) >> width:
        raise ViewError(f"bits {int(rows['mask'][0]):#x} of {sites[0].name}", f"words of {width} bits")
    return sites[0]


def _unknown_model(model: str) -> ViewError:
    return ViewError(f"no fault model '{model}' of a layer{did_you_mean(model, MODELS_HERE)}", ", ".join(MODELS_HERE))


def _sample(population: int, count: int, seed: int) -> NDArray[np.int64]:
    """Different numbers below the population, ascending; without holding it."""
    return np.sort(np.random.default_rng(seed).choice(population, count, replace=False, shuffle=False))


def inverted(running: Running, site: Site, faults: Faults) -> Bits:
    """Which bits of its word each fault inverts: uint32 [fault]. ViewError for faults of another site, or of words that
    it does not have."""
    other = np.flatnonzero(faults["site"] != SITES.index(site.listed))
    if len(other):
        listed = SITES[faults["site"][other[0]]]
        raise ViewError(f"row {other[0]:,} is a fault of site '{listed}'", f"'{site.listed}', of {site.name}")
    most = site.words(running)
    if len(faults) and int(faults["word"].max()) >= most:
        raise ViewError(f"word {int(faults['word'].max()):,} of {site.name}", f"0 to {most - 1:,}")
    before = site.read(running, faults["word"].astype(np.int64))
    becomes: Any = np.zeros(len(faults), np.uint32)
    for number in np.unique(faults["model"]).tolist():
        mine = faults["model"] == number
        becomes[mine] = BY_NAME[MODELS[number]].becomes(before[mine], faults["value"][mine], before[mine])
    held = np.uint32((1 << site.bits(running.layer)) - 1)
    return np.asarray((before ^ becomes) & faults["mask"] & held, np.uint32)
