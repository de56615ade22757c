"""Which elements of the operands of a `tcgen05.mma` each word of memory holds: the mappings of `isa`, turned round.

Operands are numbered as `simulator.arithmetic.Operands` has them, as matrices with one copy for each part of N. An
element may be read from several copies, and a word holds several elements, or a piece of one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isa.shared_memory.packing import packing
from isa.tensor_memory.address import TMEM_LANES
from isa.types import Bits
from simulator.execute.tcgen05.example import Shape

Integers = NDArray[np.int64]
_WORD_BITS = 32


class Hits(NamedTuple):
    """What changes of words change, as arrays with an entry for each element that a change concerns.

    Attributes:
        change: the number of the change.
        element: the number of the element in its matrices.
        invert: uint32: which bits of the element's pattern change.
    """

    change: Integers
    element: Integers
    invert: Bits

    def of(self, faults: NDArray[np.bool_]) -> Hits:
        """Those of some of the faults, bool [fault], where changes have the numbers of their faults."""
        some = np.flatnonzero(faults[self.change])
        return Hits(self.change[some], self.element[some], self.invert[some])


class Places:
    """Where the elements of one operand lie.

    Args:
        first: int64, of the shape of the operand's matrices: the number of the first bit of each element, counted from
            the first word of the site.
        bits: how many bits of memory an element has.
        shift: where these stand in its pattern.
    """

    def __init__(self, first: Integers, bits: int, shift: int = 0) -> None:
        self._shift, self._mask = np.uint32(shift), np.uint32((1 << bits) - 1)
        first = first.ravel()
        word, last = first // _WORD_BITS, (first + bits - 1) // _WORD_BITS
        beyond = np.flatnonzero(word != last)  # elements that go on in the next word
        words = np.concatenate([word, last[beyond]])
        element = np.concatenate([np.arange(len(first)), beyond])
        order = np.argsort(words, kind="stable")
        self._element = element[order]
        self._low = (first[element] - _WORD_BITS * words)[order]
        self._start = np.searchsorted(words[order], np.arange(int(words.max(initial=-1)) + 2))

    def hit(self, words: Integers, invert: Bits) -> Hits:
        """What inverting these bits of these words changes."""
        inside = np.flatnonzero((words < len(self._start) - 1) & (invert != 0))
        start, stop = self._start[words[inside]], self._start[words[inside] + 1]
        counts = stop - start
        change = np.repeat(inside, counts)
        ends = np.cumsum(counts)
        entry = np.arange(len(change)) - np.repeat(ends - counts, counts) + np.repeat(start, counts)
        low, bits = self._low[entry], invert[change].astype(np.int64)
        moved = np.where(low >= 0, bits >> np.maximum(low, 0), bits << np.maximum(-low, 0))
        delta = (moved & int(self._mask)).astype(np.uint32)
        some = np.flatnonzero(delta)
        return Hits(change[some], self._element[entry[some]], delta[some] << self._shift)


def places(shape: Shape, site: str) -> dict[str, Places]:
    """By operand, where the elements of the even CTA lie that words of a site hold. A word of Tensor Memory has the
    number column * 128 + lane, from the operand's first column on; one of shared memory its address / 4."""
    if site == "shared":
        operands = "b" if shape.form.a_in_tmem else "ab"
        return {operand: _shared(shape, operand) for operand in operands}
    makers: dict[str, Any] = {"a": _a, "d": _d, "e": _codes}
    return {site: makers[site](shape) if site in makers else _factors(shape, site[-1])}


def _cells(lane: Integers, column: Integers, low: Integers | int) -> Integers:
    return (column * TMEM_LANES + lane) * _WORD_BITS + low


def _a(shape: Shape) -> Places:
    bits = shape.element("a").bits
    lane, column, place = (np.moveaxis(grid, -1, 0) for grid in shape.datapath.a(bits, shape.base_lane).grid)
    first = _cells(lane, column, place * bits)
    if shape.form.ashift:
        first = np.concatenate([first[:, 1:], first[:, -1:]], axis=1)
    return Places(first, bits)


def _d(shape: Shape) -> Places:
    cells = shape.accumulators
    return Places(_cells(cells.lane, cells.column, 0), cells.element.bits)


def _codes(shape: Shape) -> Places:
    metadata = shape.metadata
    grid = metadata.mapping(shape.idesc.selector, shape.base_lane).grid
    lane, column, code = (np.moveaxis(axis, -1, 0) for axis in grid)
    first = _cells(lane, column, 4 * code)
    return Places(np.broadcast_to(first, (shape.datapath.parts, *first.shape[1:])), 4)


def _factors(shape: Shape, operand: str) -> Places:
    scales, parts = shape.scales(operand), shape.datapath.parts
    id = shape.idesc.a_scale_id if operand == "a" else shape.idesc.b_scale_id
    lane, column, byte = (grid[: scales.vectors, ..., 0] for grid in scales.mapping(id).grid)
    first = _cells(lane, column, 8 * byte)
    if operand == "a":
        return Places(np.broadcast_to(first, (parts, *first.shape)), 8)
    return Places(first, 8)


def _shared(shape: Shape, operand: str) -> Places:
    """A [part, row, k], or the columns of B that a CTA brings, [column, k]."""
    first, how = shape.shared_bits(operand), packing(shape.smem(operand).element)
    if operand == "a":
        first = np.broadcast_to(first, (shape.datapath.parts, *first.shape))
    return Places(first, how.bits, how.shift)
