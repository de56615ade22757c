"""What a design's core takes for a layer: cycles, and what limits them. One function for each kind of core."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from math import ceil

import numpy as np
from numpy.typing import NDArray

from isa.patterns import Pattern, Sparsity, Unstructured
from simulator.errors import DesignError
from simulator.studies.designs.record import Bitmap, Layer, Stream, Tiles

SEED = 0
_SAMPLE = 1024  # rows, columns and depth of the random masks that stand for a larger matrix


@dataclass(frozen=True)
class Cost:
    """What a layer takes.

    Attributes:
        cycles: of the core.
        limits: for each limit, the cycles that it would take alone.
        imbalance: slowest part of the work over the mean, of matrices whose parts differ.
    """

    cycles: float
    limits: dict[str, float] = field(default_factory=dict)
    imbalance: float = 1.0

    @property
    def bound(self) -> str:
        """The limit that takes longest."""
        return max(self.limits, key=lambda name: self.limits[name])


def random_mask(rows: int, columns: int, density: float, seed: int) -> NDArray[np.bool_]:
    """A random mask of a matrix whose elements stay independently of each other."""
    return np.asarray(np.random.default_rng(seed).random((rows, columns)) < density)


# tiles: a systolic engine behind tile registers


def tiles_cost(core: Tiles, layer: Layer, pattern: Pattern | None, *, sparse: bool) -> Cost:
    """A layer on a tile engine: blocks of C stay in registers while instructions run along K.

    Args:
        sparse: the design's own engine; False: the dense one that it is compared with, which has neither its drain nor
            its forwarding.

    An engine begins an instruction every `max(stages)` cycles. One on the same C waits for the whole result of the one
    before, unless results are forwarded. B of N:M needs M / N registers for the columns that A picks from, so that
    fewer C fit beside it: the block is the one with the fewest loads for an instruction. Unstructured rows take the
    smallest of the classes N:4 that covers each of their groups (`row_classes`).
    """
    density, wide = _tile_pattern(core, layer, pattern)
    interval = max(core.load, core.first, core.second, core.drain if sparse else core.baseline_drain)
    drain = core.drain if sparse else core.baseline_drain
    result = core.first + core.second + drain
    steps = (
        ceil(layer.k / (core.depth * wide)) if not isinstance(pattern, Unstructured) else layer.k / core.depth * density
    )
    high, across = _block(core, wide)
    instructions = steps * high * across
    engine = instructions * interval
    chain = steps * (interval if sparse and core.forwards else result)
    lines = steps * (high * (core.lines + (core.metadata_lines if wide > 1 else 0)) + across * wide * core.lines)
    lines += 2 * high * across * core.lines  # C in and out
    loads = lines / core.lines_per_cycle / core.core_cycles
    exposed = 0 if core.overlaps else core.load + result - interval
    blocks = ceil(layer.m / core.rows) * ceil(layer.n / core.rows) / (high * across)
    limits = {"engine": blocks * engine, "results of the last": blocks * chain, "loads": blocks * loads}
    return Cost(max(limits.values()) + blocks * exposed, limits)


def _tile_pattern(core: Tiles, layer: Layer, pattern: Pattern | None) -> tuple[float, int]:
    """Work as a part of the dense work, and how many times as many columns of B stand beside a tile of A."""
    if pattern is None:
        return 1.0, 1
    if isinstance(pattern, Unstructured):
        rows = max(_SAMPLE * _SAMPLE // layer.k, core.rows)
        columns = -(-layer.k // core.group) * core.group
        classes = row_classes(random_mask(rows, columns, pattern.density, SEED), core.classes, core.group)
        return float(classes.mean()) / max(core.classes), 1
    if not isinstance(pattern, Sparsity) or pattern.chunk % pattern.stored:
        raise DesignError(f"the tile engine has no instruction for {pattern.name}", "N:M with M a multiple of N")
    return pattern.density, pattern.chunk // pattern.stored


def row_classes(mask: NDArray[np.bool_], classes: tuple[int, ...], group: int) -> NDArray[np.int64]:
    """The smallest N of N:4 that covers each group of columns of each row, [row, group]."""
    most = mask.reshape(len(mask), -1, group // max(classes), max(classes)).sum(axis=-1).max(axis=-1)
    ordered = np.array(sorted(classes))
    return np.asarray(ordered[np.searchsorted(ordered, most)])


def _block(core: Tiles, wide: int) -> tuple[int, int]:
    """Tiles of C along M and N that stay in registers: those with the fewest loads for an instruction."""
    sizes = [
        (high, across)
        for high in range(1, core.registers)
        for across in range(1, core.registers)
        if high * across + 1 + wide * across <= core.registers
    ]
    if not sizes:
        raise DesignError(f"{core.registers} tile registers hold no block with {wide} of B", "more registers")
    return min(sizes, key=lambda size: ((size[0] + wide * size[1]) / (size[0] * size[1]), size))


# bitmap: outer products of condensed vectors


def bitmap_cost(core: Bitmap, layer: Layer, a: Pattern | None, b: Pattern | None) -> Cost:
    """A layer on a core of outer products: for every k the elements of A's column and of B's row that are not zero are
    pushed together, and take as many steps as they fill; a tile's instructions are the sum over k of the product."""
    m, n, k = (min(size, _SAMPLE) for size in (layer.m, layer.n, layer.k))
    filled_a = _filled(m, k, 1.0 if a is None else a.density, core.rows, core.row_step, SEED)
    filled_b = _filled(n, k, 1.0 if b is None else b.density, core.columns, core.column_step, SEED + 1)
    work = filled_a.astype(np.float64) @ filled_b.T.astype(np.float64)  # instructions of each tile
    scale = layer.m * layer.n * layer.k / (m * n * k)
    total = float(work.sum()) * scale
    return Cost(total, {"instructions": total}, float(work.max() / work.mean()) if work.any() else 1.0)


@lru_cache(maxsize=16)
def _filled(rows: int, k: int, density: float, vector: int, step: int, seed: int) -> NDArray[np.int64]:
    """Steps that each vector along the rows of a random matrix fills, for each k: [vector, k]."""
    rows = -(-rows // vector) * vector
    if density == 1:
        return np.full((rows // vector, k), -(-vector // step))
    mask = random_mask(rows, k, density, seed)
    return np.asarray(-(-mask.reshape(-1, vector, k).sum(axis=1) // step))


# stream: a stationary A


def stream_cost(core: Stream, layer: Layer, pattern: Pattern | None, b: Pattern | None, *, compresses_b: bool) -> Cost:
    """A layer on a core that holds A and streams B: as many cycles as its multipliers or its shared memory need."""
    density = 1.0 if pattern is None else pattern.density
    if isinstance(pattern, Unstructured):
        raise DesignError(f"a stationary A of {pattern.name} leaves lanes empty in a way that is not modelled", "N:M")
    unit = round(core.depth / density)
    k = -(-layer.k // unit) * unit
    stored = layer.m * k * density
    index = _index_bits(core, "dense" if pattern is None else pattern.name, pattern, layer, k, stored)
    a_words = stored * (1 + index / core.word_bits) * -(-layer.n // core.columns)
    b_part = (b.density if b is not None else 1.0) + 1 / core.word_bits if compresses_b else 1.0
    b_words = -(-layer.m // core.rows) * k * layer.n * b_part
    limits = {"multipliers": stored * layer.n / core.macs}
    if core.words_per_cycle:
        limits["shared memory"] = (a_words + b_words) / core.words_per_cycle
    return Cost(max(limits.values()), limits)


def _index_bits(core: Stream, name: str, pattern: Pattern | None, layer: Layer, k: int, stored: float) -> float:
    """Metadata bits of a stored element: what the design says, or what the pattern's own encoding takes."""
    given = dict(entry.split(" = ") for entry in core.index_bits)
    if name in given:
        return float(given[name])
    return 0.0 if pattern is None else pattern.metadata_bits(layer.m, k) / stored
