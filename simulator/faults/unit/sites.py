"""The sites of a unit: for each part of it, the bits that there are.

    site            word                              lane
    multiplier      product within a step             position, row * N + column of D
    term            2 * term within a step + half     position; the term of C comes last
    adder           2 * node + half                   position
    mux             code within a step                position; bits 0, 1 set the first multiplexer, 2, 3 the second
    selector_input  0                                 0
    output          0: D; 1: the result of each step  position

`simulator.arithmetic.anatomy` says what the bits of a word mean. Terms and sums can have more than 32 bits, so each is
listed as two words, the low half first.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from isa.types import Bits
from simulator.arithmetic import Sum
from simulator.arithmetic.anatomy import Anatomy, sums_on_unit
from simulator.faults.spread import Site
from simulator.faults.unit.mapping import HALVES, WORD_BITS

UNIT_SITES = ("multiplier", "term", "adder", "mux", "selector_input", "output")
UNIT_MODELS = ("flip", "stuck0", "stuck1", "set", "word")  # whose bits depend on nothing but themselves
RESULTS = ("output", "accumulator")  # what the words of site output are


def unit_sites(how: Sum, selectors: int) -> dict[str, Site]:
    """The sites of the units that compute a sum, by name; none where no tensor core's own sum is computed.

    Args:
        how: the sum of an instruction.
        selectors: how many sparsity selectors the instruction has; 1 or 0: none to choose.
    """
    if not sums_on_unit(how):
        return {}
    anatomy, positions = Anatomy(how), how.m * how.n
    products = np.full(anatomy.used if not anatomy.group else how.stored, anatomy.product_mask, np.uint32)
    words = {
        "multiplier": products,
        "term": _halves(anatomy.term_widths()),
        "adder": _halves(anatomy.node_widths()),
        "output": np.full(len(RESULTS), how.d_type.mask, np.uint32),
    }
    sites = {
        name: Site(name, _everywhere(live, positions), models=UNIT_MODELS, alike=True) for name, live in words.items()
    }
    if how.sparsity is not None:
        live = np.full(anatomy.code_places, (1 << how.sparsity.code_bits) - 1, np.uint32)
        place, code = np.indices((positions, len(live)))
        codes = np.stack([code, place, np.zeros_like(code)], axis=-1)[:, :, None]
        sites["mux"] = Site("mux", _everywhere(live, positions), codes, UNIT_MODELS, alike=True)
    if selectors > 1:
        live = np.array([selectors - 1], np.uint32)
        sites["selector_input"] = Site("selector_input", _everywhere(live, 1), models=UNIT_MODELS)
    return {name: sites[name] for name in UNIT_SITES if name in sites}


def _everywhere(live: Bits, positions: int) -> Bits:
    """The same words at each position: [word, position]."""
    words: Bits = np.broadcast_to(live[:, None], (len(live), positions))
    return words


def _halves(widths: NDArray[np.int64]) -> Bits:
    """The bits of words of so many bits each, two words of 32 bits for each."""
    low = np.clip(widths[:, None] - WORD_BITS * np.arange(HALVES), 0, WORD_BITS).astype(np.uint64)
    masks = (np.uint64(1) << low) - np.uint64(1)
    halves: Bits = masks.astype(np.uint32).ravel()
    return halves
