"""Sums of products in the order of a chip: whole matrices, through the arithmetic of its matrix instructions.

A dot product is a chain of instructions over ascending K, each of which adds to the accumulator that the one before has
rounded. Every recorded product of cuSPARSELt 0.8 on an H100 comes out so, bit for bit, with the sums of `wgmma.sp`
(tests/golden/compare_sparselt_matmul.py). Which tile an element is in changes nothing; where K is cut does.

The library's f32 is tf32. It adds half a place of tf32 to A when it compresses it, and both operands are then rounded
to the nearest, ties to even, on their way to the tensor core: A twice, that is (measured, November 2026).
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from isa.errors import IsaError
from isa.fragments.metadata import sparsity_of
from isa.targets import Target
from isa.types import ELEMENT_TYPES, PACKED_E2M1, Bits
from simulator.arithmetic.batch import add
from simulator.arithmetic.compiled import WIDTH, library
from simulator.arithmetic.convert import to_float64
from simulator.arithmetic.rows import find_row
from simulator.arithmetic.sums import Operands, Sum
from simulator.arithmetic.threads import thread_count
from simulator.studies.sparselt.compression import split
from simulator.studies.sparselt.matrices import Patterns
from simulator.studies.sparselt.scales import BlockScales

Singles = NDArray[np.float32]

_TILE = (256, 64, 512) if library() is not None else (32, 16, 256)  # m, n, k of a piece: what fits into a core's cache
_SHARES = 4  # pieces along M at least, so that several cores have work
_WORTH = 1 << 22  # products of a chain below which a thread costs more than it brings
_HALF_PLACE = np.uint32(0x1000)  # of tf32, whose patterns leave the last 13 bits of f32 unused
_EXPONENT = np.uint32(0x7F800000)


@dataclass(frozen=True)
class Chain:
    """How a chip sums.

    Attributes:
        type: of A and B, as the library names it (f32: tf32).
        target: the chip's.
        accumulator: "f32" or "f16".
        sparse: A is 2:4 (1:2) sparse, and the `.sp` instructions multiply it.
        slices: parts of K that are summed on their own and then added in f32, in ascending order.
    """

    type: str
    target: Target
    accumulator: str = "f32"
    sparse: bool = True
    slices: int = 1

    @property
    def family(self) -> str:
        """The instructions of the chip's fastest products."""
        number = self.target.number
        return "wgmma" if number == 90 else "tcgen05" if number in (100, 103, 110) else "mma"

    @property
    def depth(self) -> int:
        """K of one instruction."""
        bits = 4 if self.type == "e2m1" else ELEMENT_TYPES[self.type].bits
        return (512 if self.sparse else 256) // bits


def tf32(patterns: Bits, *, compressed: bool) -> Bits:
    """What the tensor core gets of f32: rounded to tf32, of A (`compressed`) with half a place added first."""
    finite = (patterns & _EXPONENT) != _EXPONENT
    words = np.where(finite, patterns + _HALF_PLACE, patterns) if compressed else patterns
    finite = (words & _EXPONENT) != _EXPONENT
    rounded = words + np.uint32(0xFFF) + (words >> np.uint32(13) & np.uint32(1))
    return np.where(finite, rounded & np.uint32(0xFFFFE000), words).astype(np.uint32)


def accumulate(
    a: Patterns, b: Patterns, chain: Chain, scales: BlockScales | None = None
) -> NDArray[np.float32] | NDArray[np.int64]:
    """Accumulators [m, n] of patterns a [m, k] (with its zeros) and b [n, k]: float32, or int64 (wrapped to s32) of s8.

    Raises:
        IsaError: a chip without the instructions, K in more slices than it has instructions.
    """
    k = a.shape[1]
    if not 1 <= chain.slices <= -(-k // chain.depth):
        raise IsaError("", -1, f"K = {k} in {chain.slices} slices", f"1 to {-(-k // chain.depth)}")
    if chain.type == "s8":
        return _integers(a, b)
    step = -(-k // chain.slices // chain.depth) * chain.depth
    total: Singles | None = None
    for start in range(0, k, step):
        of = slice(start, start + step)
        part = _chained(a[:, of], b[:, of], chain, None if scales is None else _along(scales, of))
        total = part if total is None else total + part
    assert total is not None
    return total


def _along(scales: BlockScales, part: slice) -> BlockScales:
    """The factors of a part of K."""
    of = slice(part.start // scales.block, -(-part.stop // scales.block))
    return replace(scales, a=scales.a[:, of], b=scales.b[:, of])


def _integers(a: Patterns, b: Patterns) -> NDArray[np.int64]:
    """Exact: no sum of products of 8 bits leaves float64's integers."""
    left, right = (x.view(np.int8).astype(np.float64) for x in (a, b))
    total = (left @ right.T).astype(np.int64)
    return (total + 2**31) % 2**32 - 2**31


def _chained(a: Patterns, b: Patterns, chain: Chain, scales: BlockScales | None) -> Singles:
    """The chain over all of K of one slice."""
    m, n = len(a), len(b)
    name = "tf32" if chain.type == "f32" else chain.type
    element, result = PACKED_E2M1 if name == "e2m1" else ELEMENT_TYPES[name], ELEMENT_TYPES[chain.accumulator]
    kind = "" if scales is None else "mxf4" if element.bits == 4 else "mxf8f6f4"
    rule = find_row(chain.family, chain.target, element, sparse=chain.sparse, kind=kind).rule
    alone = rule.split or rule.add_last or rule.group  # one instruction at a time
    deep = chain.depth if alone else max(_TILE[2] // chain.depth, 1) * chain.depth
    tile_m, tile_n = _share(m, _TILE[0], max(min(m // 16, _SHARES), 1)), _share(n, _TILE[1], 1)
    k = -(-a.shape[1] // chain.depth) * chain.depth
    left = _padded(a, -(-m // tile_m) * tile_m, k)
    right = _padded(b, -(-n // tile_n) * tile_n, k)
    pattern = sparsity_of(element) if chain.sparse else None
    stored, codes = _pieces_of_a(left, chain, deep, tile_m)
    factors = None if scales is None else _factors(scales, k, len(left), len(right))
    right = (tf32(right, compressed=False) if name == "tf32" else right).T
    rows = len(left) // tile_m
    d = np.empty((len(left), right.shape[1]), np.uint32)

    def chained(column: int) -> None:
        sums = np.zeros((rows, tile_m, tile_n), np.uint32)
        for i, start in enumerate(range(0, k, deep)):
            width = min(deep, k - start)
            how = Sum(tile_m, tile_n, width, element, element, result, result, rule, pattern)
            piece = right[start : start + width, column : column + tile_n]
            given = np.broadcast_to(piece, (rows, width, tile_n)).astype(np.uint32)
            of_a = of_b = None
            if factors is not None and scales is not None:
                part = slice(start // scales.block, (start + width) // scales.block)
                how = replace(how, scale_type=scales.type, factors=width // scales.block)
                of_a = np.ascontiguousarray(factors[0][:, part].reshape(rows, tile_m, -1))
                of_b = np.broadcast_to(factors[1][column : column + tile_n, part], (rows, tile_n, how.factors)).copy()
            codes_of = codes[i] if chain.sparse else None
            sums = add(how, Operands(stored[i], given, sums, codes_of, of_a, of_b))
        d[:, column : column + tile_n] = sums.reshape(-1, tile_n)

    columns = range(0, right.shape[1], tile_n)
    threads = min(thread_count(), len(columns))
    if threads > 1 and len(left) * k * tile_n >= _WORTH:  # several chains at a time: none waits for another's step
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(chained, columns))
    else:
        for column in columns:
            chained(column)
    values: Singles = to_float64(d[:m, :n], result).astype(np.float32)
    return values


def _factors(scales: BlockScales, k: int, rows: int, columns: int) -> tuple[Bits, Bits]:
    """Of matrices with zeros below and to the right: factors there are what they are, they multiply zeros."""
    found = [
        np.full((size, k // scales.block), 127 if scales.block == 64 else 0x38, np.uint32) for size in (rows, columns)
    ]
    for target, given in zip(found, (scales.a, scales.b), strict=True):
        target[: given.shape[0], : given.shape[1]] = given
    return found[0], found[1]


def _share(size: int, most: int, least: int) -> int:
    """Rows or columns of a piece: a multiple of `WIDTH` that cuts `size` evenly, into `least` pieces or more."""
    pieces = max(-(-size // most), least)
    return -(-size // pieces // WIDTH) * WIDTH


def _padded(x: Patterns, rows: int, columns: int) -> Patterns:
    """With zeros below and to the right."""
    if x.shape == (rows, columns):
        return x
    found = np.zeros((rows, columns), x.dtype)
    found[: x.shape[0], : x.shape[1]] = x
    return found


def _pieces_of_a(a: Patterns, chain: Chain, deep: int, tile_m: int) -> tuple[list[Bits], list[Bits]]:
    """Stored elements and codes of the pieces along K, each [row of tiles, row, column]."""
    stored, codes = split(a, chain.type) if chain.sparse else (a, np.zeros((len(a), 0), np.uint32))
    words = stored.astype(np.uint32)
    if chain.type == "f32":
        words = tf32(words, compressed=chain.sparse)

    def pieces(x: Bits) -> list[Bits]:
        per = x.shape[1] * deep // a.shape[1]
        cuts = range(0, x.shape[1], per) if per else range(0)
        return [np.ascontiguousarray(x[:, i : i + per].reshape(-1, tile_m, min(per, x.shape[1] - i))) for i in cuts]

    return pieces(words), pieces(codes)
