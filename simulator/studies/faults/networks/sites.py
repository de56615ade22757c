"""Where faults strike a layer with 2:4 weights, and which elements of D they change.

    values        a stored value, of the type of the weights
    metadata      a word of the stored metadata (cuSPARSELt: a byte; PyTorch and CUTLASS: 16 bits, of s8 32)
    activations   an element of the other operand as the product reads it; of a convolution, one of a neighbourhood
    selector      the two bits with which one executed `mma.sp` picks metadata of its register
    accumulator   a word of the accumulators, in a register between two instructions of a chain (or before the first)
    d             a word of D, before scale and bias

A fault in a value or in metadata changes one row of D (one output of the layer, for every image); one in an activation
changes one column; one in a selector 16 rows of 8 columns; one in accumulators or D an element. Only these are computed
again. Undefined codes are followed as an H100 was measured to follow them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isa.fragments.metadata import CODE_BITS
from isa.types import Bits
from simulator.studies.faults.networks.chain import COLUMNS, ROWS
from simulator.studies.faults.networks.layer import CHUNK, SparseLayer

Places = NDArray[np.int64]
_TOGETHER = 1 << 21  # elements of D that are computed together, at most


class Changes(NamedTuple):
    """Elements of D that faults have changed, an entry each.

    Attributes:
        fault: the index of the fault, ascending.
        row, column: the element.
        word: its pattern, uint32.
    """

    fault: Places
    row: Places
    column: Places
    word: Bits


@dataclass(frozen=True, eq=False)
class Running:
    """A layer with what it reads.

    Attributes:
        layer: the layer.
        b: activations as B of the product, patterns uint32 [K, column].
        d: D without a fault, patterns uint32 [row, column].
    """

    layer: SparseLayer
    b: Bits
    d: Bits

    @property
    def columns(self) -> int:
        """Columns of D: images times places."""
        return int(self.b.shape[1])

    @property
    def tiles(self) -> tuple[int, int, int]:
        """How many instructions a product has, along rows, columns and K."""
        return len(self.layer.values) // ROWS, -(-self.columns // COLUMNS), self.layer.steps


@dataclass(frozen=True)
class Site:
    """A place where faults strike.

    Attributes:
        name: its name here.
        listed: its name in lists of faults.
        words: how many words it has.
        bits: how many bits a word has.
        read: the words at some places.
        effect: what D becomes: from the places of faults and the bits that they invert to the elements that differ.
        legal: which faults do not stop the chip, from places and inverted bits.
    """

    name: str
    listed: str
    words: Callable[[Running], int]
    bits: Callable[[SparseLayer], int]
    read: Callable[[Running, Places], Bits]
    effect: Callable[[Running, Places, Bits], Iterator[Changes]]
    legal: Callable[[Running, Places, Bits], NDArray[np.bool_]] = lambda running, word, invert: np.ones(
        len(word), np.bool_
    )


def _batches(count: int, size: int) -> Iterator[slice]:
    """Slices of so many that about `_TOGETHER` elements of D are computed together, `size` for each."""
    step = max(_TOGETHER // max(size, 1), 1)
    return (slice(start, min(start + step, count)) for start in range(0, count, step))


def _differing(running: Running, places: tuple[Places, ...], got: Bits) -> Changes:
    """The elements that are not as they were; places are faults, rows and columns, all arrays of one shape."""
    fault, row, column = places
    apart = got != running.d[row, column]
    return Changes(fault[apart], row[apart], column[apart], got[apart])


def _of_rows(running: Running, fault: Places, row: Places, values: Bits, codes: Bits) -> Iterator[Changes]:
    """The effect of changed rows of A: each the stored row of a fault, of which several may have several rows."""
    layer = running.layer
    for part in _batches(len(fault), running.columns):
        got = layer.chain.product(values[part], codes[part], running.b)
        places = np.broadcast_arrays(fault[part, None], row[part, None], np.arange(running.columns))
        kept = row[part] < layer.rows
        yield _differing(running, tuple(place[kept] for place in places), got[kept])


def _values(running: Running, word: Places, invert: Bits) -> Iterator[Changes]:
    layer = running.layer
    row, column = np.divmod(word, layer.values.shape[1])
    stored = layer.values[row]
    stored[np.arange(len(word)), column] ^= invert
    yield from _of_rows(running, np.arange(len(word)), row, stored, layer.codes[row])


def _metadata(running: Running, word: Places, invert: Bits) -> Iterator[Changes]:
    layer = running.layer
    per = layer.layout.codes_per_word
    code = np.arange(per)
    change = invert[:, None] >> (CODE_BITS * code).astype(np.uint32) & np.uint32(15)
    place = layer.code_places[word[:, None] * per + code]
    fault, which = np.nonzero((change != 0) & (place >= 0))
    row, chunk = np.divmod(place[fault, which], layer.codes.shape[1])
    pairs, index = np.unique(np.stack([fault, row]), axis=1, return_inverse=True)
    codes = layer.codes[pairs[1]]
    codes[index.reshape(-1), chunk] ^= change[fault, which]
    yield from _of_rows(running, pairs[0], pairs[1], layer.values[pairs[1]], codes)


def _activations(running: Running, word: Places, invert: Bits) -> Iterator[Changes]:
    layer = running.layer
    column, k = np.divmod(word, layer.k)
    rows = np.arange(layer.rows)
    for part in _batches(len(word), layer.rows):
        b = running.b[:, column[part]]
        b[k[part], np.arange(b.shape[1])] ^= invert[part]
        got = layer.product(b).T
        fault = np.arange(len(word))[part, None]
        yield _differing(running, np.broadcast_arrays(fault, rows, column[part, None]), got)


def _d(running: Running, word: Places, invert: Bits) -> Iterator[Changes]:
    column, row = np.divmod(word, running.layer.rows)
    yield _differing(running, (np.arange(len(word)), row, column), running.d[row, column] ^ invert)


def _selector_legal(running: Running, word: Places, invert: Bits) -> NDArray[np.bool_]:
    """A selector that is out of range stops the chip: measured on an H100 for f16, assumed for the other types."""
    return np.asarray((_selected(running, word) ^ invert) < running.layer.selectors)


def _selected(running: Running, word: Places) -> Bits:
    """The selector of each instruction: which step of its register of metadata it is."""
    return np.asarray(word % running.layer.steps % running.layer.selectors, np.uint32)


def _selector(running: Running, word: Places, invert: Bits) -> Iterator[Changes]:
    layer, (_, wide, steps) = running.layer, running.tiles
    chunks = layer.chain.depth // CHUNK
    held = layer.codes_of_registers()
    tile, step = np.divmod(word, steps)
    high, across = np.divmod(tile, wide)
    other = step - _selected(running, word) + (_selected(running, word) ^ invert)
    b = np.pad(running.b, ((0, 0), (0, wide * COLUMNS - running.columns)))
    rows, columns = np.arange(ROWS), np.arange(COLUMNS)
    for part in _batches(len(word), layer.k * COLUMNS):
        row, column = high[part, None] * ROWS + rows, across[part, None] * COLUMNS + columns
        codes = layer.codes[row]
        mine = np.arange(len(row))[:, None, None], rows[:, None], step[part, None, None] * chunks + np.arange(chunks)
        codes[mine] = held[row, other[part, None]]
        got = layer.chain.tiles(layer.values[row], codes, b[:, column].transpose(1, 0, 2))
        fault = np.arange(len(word))[part, None, None]
        places = np.broadcast_arrays(fault, row[:, :, None], column[:, None, :])
        inside = (places[1] < layer.rows) & (places[2] < running.columns)
        yield _differing(running, tuple(place[inside] for place in places), got[inside])


def _accumulating(running: Running, word: Places, invert: Bits) -> Iterator[tuple[slice, Bits, Bits]]:
    """Chains that are struck before one of their steps: for each part of the faults the accumulators there, before the
    fault, and the elements of D that they become, both [fault]."""
    layer, (_, wide, _) = running.layer, running.tiles
    column, row, step = _accumulators(running, word)
    b = np.pad(running.b, ((0, 0), (0, wide * COLUMNS - running.columns)))
    for part in _batches(len(word), layer.k * COLUMNS):
        mine = np.arange(len(row[part])), row[part] % ROWS, column[part] % COLUMNS
        when, bits, seen = step[part], invert[part], np.zeros(len(row[part]), np.uint32)

        def strike(
            now: int, d: Bits, mine: Any = mine, when: Places = when, bits: Bits = bits, seen: Bits = seen
        ) -> None:  # fmt: skip
            seen[when == now] = d[mine][when == now]
            d[mine] ^= np.where(when == now, bits, np.uint32(0))

        rows = row[part, None] // ROWS * ROWS + np.arange(ROWS)
        columns = column[part, None] // COLUMNS * COLUMNS + np.arange(COLUMNS)
        operands = layer.values[rows], layer.codes[rows], b[:, columns].transpose(1, 0, 2)
        yield part, seen, layer.chain.tiles(*operands, strike)[mine]


def _accumulators(running: Running, word: Places) -> tuple[Places, Places, Places]:
    """Column, row and step of words of accumulators."""
    place, step = np.divmod(word, running.layer.steps)
    return *np.divmod(place, running.layer.rows), step


def _accumulator(running: Running, word: Places, invert: Bits) -> Iterator[Changes]:
    column, row, _ = _accumulators(running, word)
    for part, _, got in _accumulating(running, word, invert):
        yield _differing(running, (np.arange(len(word))[part], row[part], column[part]), got)


def _accumulated(running: Running, word: Places) -> Bits:
    """The accumulators before a step: found by adding up to it."""
    parts = [seen for _, seen, _ in _accumulating(running, word, np.zeros(len(word), np.uint32))]
    return np.concatenate([np.zeros(0, np.uint32), *parts])


def _word_bits(layer: SparseLayer) -> int:
    return layer.kind.element.bits


SITES = {
    site.name: site
    for site in (
        Site(
            "values", "a", lambda running: running.layer.values.size, _word_bits,
            lambda running, word: running.layer.values.reshape(-1)[word], _values,
        ),
        Site(
            "metadata", "e", lambda running: len(running.layer.words), lambda layer: layer.layout.word_bits,
            lambda running, word: running.layer.words[word], _metadata,
        ),
        Site(
            "activations", "b", lambda running: running.b.size, _word_bits,
            lambda running, word: running.b.T.reshape(-1)[word], _activations,
        ),
        Site(
            "selector", "selector", lambda running: int(np.prod(running.tiles)), lambda layer: 2,
            _selected, _selector, _selector_legal,
        ),
        Site(
            "accumulator", "registers", lambda running: running.d.size * running.layer.steps,
            lambda layer: layer.kind.result.bits, _accumulated, _accumulator,
        ),
        Site(
            "d", "d", lambda running: running.d.size, lambda layer: layer.kind.result.bits,
            lambda running, word: running.d.T.reshape(-1)[word], _d,
        ),
    )
}  # fmt: skip
