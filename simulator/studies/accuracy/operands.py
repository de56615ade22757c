"""The matrices that an accuracy study multiplies: drawn from a distribution, or given by the user.

Both come in batches of stacked matrices, [case, m, K] and [case, K, n], every element of whose products is one sample;
so a row of A meets n columns, and none is wasted. Drawn matrices are small, so that samples share few operands;
standard errors allow for what they share.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from isa.errors import IsaError
from isa.fragments.sparsity import prune
from isa.types import Bits, ElementType
from simulator.arithmetic.convert import from_float64, largest, to_float64
from simulator.arithmetic.random_operands import draw
from simulator.studies.accuracy.chips import Problem

MOST = 1 << 24  # results
MOST_K = 1 << 20

_SMALL, _LARGE = 32, 128  # rows and columns of a drawn matrix at most
_SMALL_K = 256  # up to which it is small: a BLAS starts no threads, which cost more than the product where others work
_ROWS = 1 << 22  # elements of A in a drawn matrix that is not small: 32 MiB as float64
_TILE = 128  # of given matrices
_ELEMENTS = 1 << 21  # of A in a batch: 16 MiB as float64
_WIDTH = 8  # the compiled kernel wants columns in such multiples

Reals = NDArray[np.float64]
Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Batch:
    """Matrices that are multiplied together.

    Attributes:
        a: patterns [case, m, K], pruned where A is sparse.
        b: patterns [case, K, n].
        rows: the number of each row of A [case, m], different for different rows.
        columns: the number of each column of B [case, n]; -1 for a column that only fills up.
    """

    a: Bits
    b: Bits
    rows: Indices
    columns: Indices


class Source(Protocol):
    """Where operands come from: what drawn and given matrices have in common."""

    k: int
    count: int  # results
    notes: tuple[str, ...]

    def batches(self) -> Iterator[Batch]:
        """All batches of operands; the same each time."""

    def pair(self, row: int, column: int) -> tuple[Bits, Bits]:
        """A row of A and a column of B [K], by their numbers."""

    def place(self, row: int, column: int) -> dict[str, int]:
        """Where a row and a column are, as numbers for a person to read."""


@dataclass(frozen=True)
class Drawn:
    """Operands drawn from a distribution; the same for the same seed, shape and type, whatever chips are asked for.

    Of the last matrix, trailing results are left out.
    """

    problem: Problem
    k: int
    count: int
    distribution: str
    scale: float
    seed: int
    notes: tuple[str, ...] = ()

    @property
    def _shape(self) -> tuple[int, int]:
        """The numbers of rows and columns of a matrix."""
        side = _SMALL if self.k <= _SMALL_K else max(_SMALL, min(_LARGE, _ROWS // self.k // _WIDTH * _WIDTH))
        n = min(side, -(-math.isqrt(self.count) // _WIDTH) * _WIDTH)
        return min(side, -(-self.count // n)), n

    def batches(self) -> Iterator[Batch]:
        """All batches of operands; the same each time."""
        m, n = self._shape
        cases = -(-self.count // (m * n))
        step = max(1, _ELEMENTS // (m * self.k))
        for start in range(0, cases, step):
            numbers = np.arange(start, min(start + step, cases))
            drawn = [self._draw(int(case)) for case in numbers]
            a, b = (np.stack(x) for x in zip(*drawn, strict=True))
            yield Batch(a, b, numbers[:, None] * m + np.arange(m), numbers[:, None] * n + np.arange(n))

    def pair(self, row: int, column: int) -> tuple[Bits, Bits]:
        """A row of A and a column of B [K], by their numbers."""
        m, n = self._shape
        a, b = self._draw(row // m)
        return a[row % m], b[:, column % n]

    def place(self, row: int, column: int) -> dict[str, int]:
        """The numbers of the matrix, its row and its column."""
        m, n = self._shape
        return {"matrix": row // m, "row": row % m, "column": column % n}

    def _draw(self, case: int) -> tuple[Bits, Bits]:
        rng = np.random.default_rng([self.seed, case])
        m, n = self._shape
        a = draw(rng, (m, self.k), self.problem.a_type, self.distribution, self.scale)
        b = draw(rng, (self.k, n), self.problem.b_type, self.distribution, self.scale)
        return pruned(a, self.problem), b


def pruned(a: Bits, problem: Problem) -> Bits:
    """A with zeros for the elements that its sparsity does not keep (by magnitude); A itself if it is dense."""
    if problem.sparsity is None:
        return a
    spare = -a.shape[-1] % problem.sparsity.chunk
    padded = np.pad(a, ((0, 0), (0, spare))) if spare else a
    kept = prune(to_float64(padded, problem.a_type), problem.sparsity)
    return np.where(kept, padded, np.uint32(0))[..., : a.shape[-1]]


@dataclass(frozen=True)
class Given:
    """Matrices of a user: patterns A [M, K] and B [K, N], with the rows and columns whose results are compared."""

    a: Bits
    b: Bits
    rows: Indices
    columns: Indices
    notes: tuple[str, ...]

    @property
    def k(self) -> int:
        """How many products each dot product has."""
        return int(self.a.shape[1])

    @property
    def count(self) -> int:
        """How many results are compared."""
        return len(self.rows) * len(self.columns)

    def batches(self) -> Iterator[Batch]:
        """All batches of operands; the same each time."""
        for i in range(0, len(self.rows), _TILE):
            rows = self.rows[i : i + _TILE]
            for j in range(0, len(self.columns), _TILE):
                columns = self.columns[j : j + _TILE]
                spare = -len(columns) % _WIDTH
                b = np.pad(self.b[:, columns], ((0, 0), (0, spare)))
                yield Batch(
                    self.a[rows][None], b[None], rows[None], np.pad(columns, (0, spare), constant_values=-1)[None]
                )

    def pair(self, row: int, column: int) -> tuple[Bits, Bits]:
        """A row of A and a column of B [K], by their numbers."""
        return self.a[row], self.b[:, column]

    def place(self, row: int, column: int) -> dict[str, int]:
        """The numbers of the row and the column."""
        return {"row": row, "column": column}


def given(a: NDArray[Any], b: NDArray[Any], problem: Problem, count: int, seed: int) -> Given:
    """Operands from arrays: floats are rounded to the types as `cvt` does it (8 bits and fewer saturate), unsigned
    integers are patterns.

    If A * B has more than `count` elements, about so many are compared: those of rows and columns drawn at random.

    Raises:
        IsaError: shapes that do not fit, dtypes that are neither, patterns that the type does not have.
    """
    for name, array, legal in (("A", a, "[M, K]"), ("B", b, "[K, N]")):
        if array.ndim != 2 or not array.size:
            raise IsaError("", -1, f"{name} has shape {array.shape}, not that of a matrix", f"{legal}, none of them 0")
    if a.shape[1] != b.shape[0]:
        raise IsaError(
            "", -1, f"A has {a.shape[1]} columns and B {b.shape[0]} rows", "[M, K] and [K, N] with the same K"
        )
    left, note_a = _patterns(a, problem.a_type, "A")
    right, note_b = _patterns(b, problem.b_type, "B")
    notes = [*note_a, *note_b]
    if problem.sparsity is not None and not np.array_equal(kept := pruned(left, problem), left):
        share = np.count_nonzero(to_float64(left, problem.a_type) != to_float64(kept, problem.a_type)) / left.size
        notes.append(f"A: pruned {problem.sparsity.name} by magnitude, {share:.1%} of its elements set to zero")
        left = kept
    rows, columns = np.arange(a.shape[0]), np.arange(b.shape[1])
    if len(rows) * len(columns) > count:
        side = math.isqrt(count)
        m = min(len(rows), max(side, count // len(columns)))
        n = min(len(columns), count // m)
        rng = np.random.default_rng(seed)
        total = len(rows) * len(columns)
        rows, columns = (np.sort(rng.permutation(x)[:size]) for x, size in ((rows, m), (columns, n)))
        notes.append(
            f"{m * n:,} of {total:,} results compared: {m:,} rows and {n:,} columns drawn at random; --count for more"
        )
    return Given(left, right, rows, columns, tuple(notes))


def _patterns(array: NDArray[Any], element: ElementType, name: str) -> tuple[Bits, list[str]]:
    """The patterns of an array's elements, and a note if rounding changed something."""
    if array.dtype.kind == "u":
        if array.size and int(array.max()) > element.mask:
            raise IsaError(
                "",
                -1,
                f"{name} holds {int(array.max()):#x}, which is no pattern of {element}",
                f"at most {element.mask:#x}",
            )
        return array.astype(np.uint32), []
    if array.dtype.kind != "f":
        legal = f"float16, float32 or float64 numbers, or unsigned integers: patterns of {element}"
        raise IsaError("", -1, f"{name} is an array of {array.dtype}", legal)
    with np.errstate(invalid="ignore"):  # a signalling NaN
        numbers = array.astype(np.float64)
    saturates = element.bits <= 8  # as PTX's conversions do: to 8 bits and fewer with .satfinite alone
    patterns = from_float64(numbers, element, satfinite=saturates)
    held = to_float64(patterns, element)
    changed = ~((held == numbers) | (np.isnan(held) & np.isnan(numbers)))
    if not changed.any():
        return patterns, []
    note = f"{name}: {np.count_nonzero(changed):,} of {array.size:,} elements rounded to {element}"
    top = float(to_float64(np.uint32(largest(element)), element))
    over = np.count_nonzero(changed & (np.abs(numbers) > top))
    return patterns, [
        note + (f", {over:,} of them, too large for it, to {f'+-{top:g}' if saturates else 'infinity'}" if over else "")
    ]
