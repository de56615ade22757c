"""From rows of a list of faults to disturbances of the arithmetic."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from isa.types import Bits
from simulator.arithmetic import Sum
from simulator.arithmetic.disturbance import PARTS, Disturbance
from simulator.faults.models import BY_NAME, bits_of
from simulator.faults.table import MODELS, SITES, Faults
from simulator.faults.unit.mapping import HALVES, WORD_BITS, position
from simulator.faults.unit.sites import RESULTS, UNIT_SITES

UNIT_NUMBERS = tuple(SITES.index(name) for name in UNIT_SITES)
SELECTOR_INPUT = SITES.index("selector_input")
_HALVED = tuple(SITES.index(name) for name in ("term", "adder"))
_EVERY = np.uint64((1 << 64) - 1)


def of_unit(faults: Faults) -> NDArray[np.bool_]:
    """Which faults strike a part of a position's unit; a selector's input is none."""
    return np.asarray(np.isin(faults["site"], UNIT_NUMBERS) & (faults["site"] != SELECTOR_INPUT))


def disturbance(faults: Faults, how: Sum, case: NDArray[np.intp]) -> Disturbance:
    """The disturbances of faults, an entry for each; all must satisfy `of_unit`, with positions that the sum has.

    A word of a row that has a `lane2` of 0 or more is struck in that step alone, else in every step; D has none.
    """
    word, lane = faults["word"].astype(np.int64), faults["lane"].astype(np.intp)
    halved, output = np.isin(faults["site"], _HALVED), faults["site"] == SITES.index("output")
    part = np.array([PARTS.index(name) if name in PARTS else 0 for name in SITES])[faults["site"]]
    part = np.where(output, np.array([PARTS.index(name) for name in RESULTS])[np.where(output, word, 0)], part)
    place = np.where(halved, word // HALVES, np.where(output, 0, word))
    shift = np.where(halved, word % HALVES * WORD_BITS, 0).astype(np.uint64)
    mask = bits_of(faults).astype(np.uint64) << shift
    zeros, ones = (_becomes(faults, now).astype(np.uint64) << shift for now in (0, 0xFFFFFFFF))
    keep = (zeros ^ ones) & mask | (mask ^ _EVERY)
    row, column = position(lane, how.n)
    step = np.where(output & (word == 0), -1, faults["lane2"].astype(np.int64))
    return Disturbance(case, row, column, part, place, step, keep, zeros & mask)


def selectors(faults: Faults, selector: int, count: int) -> NDArray[np.intp]:
    """What faults of a selector's input make of the selector of an instruction that has so many; its lines are those
    that tell the legal selectors apart."""
    lines = bits_of(faults) & np.uint32(count - 1)
    becomes = _becomes(faults, selector)
    return ((np.uint32(selector) & ~lines) | (becomes & lines)).astype(np.intp)


def _becomes(faults: Faults, now: int) -> Bits:
    """What the models make of a word, uint32 [fault]."""
    words, becomes = np.full(len(faults), now, np.uint32), np.zeros(len(faults), np.uint32)
    for number in np.unique(faults["model"]).tolist():
        mine = faults["model"] == number
        becomes[mine] = BY_NAME[MODELS[number]].becomes(words[mine], faults["value"][mine], words[mine])
    return becomes
