"""Where the operands of `tcgen05.mma` lie in Tensor Memory and in shared memory (docs/tensor_memory.md)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tests.golden.again.descriptors import Kind
from tests.golden.again.numerals import FORMATS


class Memory(NamedTuple):
    """A CTA's Tensor Memory, uint32 [lane, column], and shared memory, uint8."""

    cells: Any
    shared: Any


class Block(NamedTuple):
    """A part of a product: operands of the rows of one CTA and of some columns of N.

    Attributes:
        rows, columns: which of D's.
        cell: lane and column of every element of D, [row, column] each.
        a: patterns [row, stored].
        codes: [row, chunk], or None.
        b: patterns [column, k].
        c: words [row, column].
        scales: patterns of A [row] and of B [column], or None.
    """

    rows: Any
    columns: Any
    cell: tuple[Any, Any]
    a: Any
    codes: Any
    b: Any
    c: Any
    scales: Any


class StoppedError(Exception):
    """The instruction stops, for a reason of docs/faults.md; with a second argument because of its descriptor."""


def lanes_of(m: int, kind: Kind, base: int) -> tuple[Any, int]:
    """The lane of each row of D in a CTA, and in how many parts N lies above another (64 lanes apart)."""
    row = np.arange(m // kind.ctas)
    if (m, kind.ctas) == (64, 1) or (m, kind.ctas, kind.sparse) == (128, 2, True):
        return base + 32 * (row // 16) + row % 16, 1
    return row, 2 if (m, kind.ctas) == (128, 2) else 1


def code_places(count: int, lanes: Any, kind: Kind, selector: int) -> tuple[Any, Any, Any]:
    """Lane, column and lowest bit of every code [row, chunk]."""
    row, chunk = np.ogrid[:count, : kind.k // 4]
    first = (lanes[::16])[row // 16]
    if kind.name == "f16":
        return first + row % 8 + 8 * (chunk // 4), selector + 0 * chunk, 16 * (row // 8 % 2) + 4 * (chunk % 4)
    return first + row % 16, chunk // 8, 4 * (chunk % 8)


def elements_at(cta: Memory, spots: Any, kind: str) -> Any:
    """Elements at byte addresses. Those of 4 and 6 bits lie side by side in the first bytes of 16 for 16 elements."""
    width = {"e2m1": 4, "e2m3": 6, "e3m2": 6}.get(kind)
    if width is None:
        found = cta.shared[spots].astype(np.int64)
        return found | cta.shared[spots + 1].astype(np.int64) << 8 if FORMATS[kind].bits == 16 else found
    bit = spots % 16 * width
    first = spots - spots % 16 + bit // 8
    pair = cta.shared[first].astype(np.int64) | cta.shared[first + 1].astype(np.int64) << 8
    return (pair >> bit % 8 & (1 << width) - 1) << FORMATS[kind].low


def factors_at(cta: Memory, first: int, count: int, id_: int) -> Any:
    """Scale factors, of the lowest copy: byte `id_` of lane number mod 32, column number / 32."""
    number = np.arange(count)
    return cta.cells[number % 32, first + number // 32].astype(np.int64) >> 8 * id_ & 255
