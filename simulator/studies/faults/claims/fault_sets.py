"""The sets of faults that published claims are tried on: bits of storage and registers, and faults of the unit that
multiplies, each as the elements of D that it changes.

    SITE                bits of a site of a layer, as `networks.sites` has it
    d word              a word of D replaced by a random one
    d tile, same bit    the same bit of all 16 x 8 words of D of an instruction
    d tile, random      all 16 x 8 words of D of an instruction replaced by random ones
    port a, b, e, d     a bit of one dot-product unit stuck at 0 or 1 for the whole product: of a stored value that it
                        reads, of an element of B, of an index of metadata, of the accumulator that it writes after each
                        step

A unit is assumed to compute one element of the 16 x 8 of an instruction, in every tile: the core that does so is not
published. So a stuck bit of a unit changes every 16th row and every 8th column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isa.types import Bits
from simulator.studies.faults.networks.chain import COLUMNS, ROWS
from simulator.studies.faults.networks.injection import Campaign
from simulator.studies.faults.networks.layer import CHUNK
from simulator.studies.faults.networks.sites import Changes, Running

Effects = Callable[[Campaign, int, int], Iterator[Changes]]


class FaultSet(NamedTuple):
    """A set of faults.

    Attributes:
        name: its name.
        effects: for a campaign, a number of faults and a seed, what they change in D; `fault` counts them from 0.
        one_image: a fault strikes one image, or a few, and not all of them.
    """

    name: str
    effects: Effects
    one_image: bool = False


def at_site(site: str, model: str = "flip", name: str = "") -> FaultSet:
    """Faults of a site, drawn without repetition."""

    def effects(of: Campaign, count: int, seed: int) -> Iterator[Changes]:
        return of.changes(site, of.draw(site, count, seed, model).faults)

    return FaultSet(name or site, effects, site not in ("values", "metadata"))


def _differing(running: Running, fault: int, rows: NDArray[Any], columns: NDArray[Any], got: Bits) -> Changes:
    """The elements of one fault that are not as they were: `got` [row, column] at these rows and columns."""
    row, column = np.nonzero(got != running.d[np.ix_(rows, columns)])
    return Changes(np.full(len(row), fault), rows[row], columns[column], got[row, column])


def _tiles(random: bool) -> Effects:
    """Whole tiles of D: the same bit of every word, or random words."""

    def effects(of: Campaign, count: int, seed: int) -> Iterator[Changes]:
        running, draws = of.running, np.random.default_rng(seed)
        high, wide, _ = running.tiles
        bits = of.layer.kind.result.bits
        for fault in range(count):
            rows = draws.integers(high) * ROWS + np.arange(ROWS)
            columns = draws.integers(wide) * COLUMNS + np.arange(COLUMNS)
            rows, columns = rows[rows < of.layer.rows], columns[columns < running.columns]
            before = running.d[np.ix_(rows, columns)]
            bit = np.uint32(1 << int(draws.integers(bits)))
            got = draws.integers(0, 1 << bits, before.shape, np.uint64).astype(np.uint32) if random else before ^ bit
            yield _differing(running, fault, rows, columns, got)

    return effects


def _stuck(words: Bits, bit: np.uint32, one: bool) -> Bits:
    return words | bit if one else words & ~bit


def _port(which: str) -> Effects:
    """A bit of an operand, an index or the result of one dot-product unit, stuck for the whole product."""

    def effects(of: Campaign, count: int, seed: int) -> Iterator[Changes]:
        draws = np.random.default_rng(seed)
        for fault in range(count):
            yield _of_port(of.running, which, fault, draws)

    return effects


def _of_port(running: Running, which: str, fault: int, draws: np.random.Generator) -> Changes:
    layer, chain = running.layer, running.layer.chain
    rows = np.arange(draws.integers(ROWS), layer.rows, ROWS)
    columns = np.arange(draws.integers(COLUMNS), running.columns, COLUMNS)
    values, codes, b = layer.values[rows], layer.codes[rows], running.b[:, columns]
    one, element = bool(draws.integers(2)), int(draws.integers(chain.depth if which == "b" else chain.depth // 2))
    width = {"e": 2, "d": layer.kind.result.bits}.get(which, layer.kind.element.bits)
    bit = np.uint32(1 << int(draws.integers(width)))
    if which == "a":
        values[:, element :: chain.depth // 2] = _stuck(values[:, element :: chain.depth // 2], bit, one)
    elif which == "b":
        b[element :: chain.depth] = _stuck(b[element :: chain.depth], bit, one)
    elif which == "e":
        of, shift = slice(element // 2, None, chain.depth // CHUNK), np.uint32(2 * (element % 2))
        codes[:, of] = _stuck(codes[:, of], bit << shift, one)
    if which != "d":
        return _differing(running, fault, rows, columns, chain.product(values, codes, b))
    wide = np.pad(b, ((0, 0), (0, -len(columns) % COLUMNS)))

    def hold(step: int, d: Bits) -> None:
        if step:
            d[:] = _stuck(d, bit, one)

    got = _stuck(chain.tiles(values[None], codes[None], wide[None], hold)[0], bit, one)
    return _differing(running, fault, rows, columns, got[:, : len(columns)])


STORAGE = (at_site("values"), at_site("metadata"))
REGISTERS = (at_site("activations"), at_site("selector"), at_site("accumulator"))
OUTPUTS = (
    at_site("d"), at_site("d", "word", "d word"), FaultSet("d tile, same bit", _tiles(random=False)),
    FaultSet("d tile, random", _tiles(random=True)),
)  # fmt: skip
PORTS = tuple(FaultSet(f"port {which}", _port(which)) for which in "abed")
