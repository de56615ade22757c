"""Products of stored 2:4 matrices as a chain of `mma.sp` instructions adds them up, whatever their metadata says.

An instruction adds a step of K to what the one before has rounded. So every element of D is the chip's, bit for bit,
and rows that a fault has changed can be computed alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from isa.targets import Target
from isa.types import Bits
from simulator.arithmetic.batch import add
from simulator.arithmetic.rows import find_row
from simulator.arithmetic.sums import Operands, Sum
from simulator.studies.faults.networks.number_types import NumberType

ROWS, COLUMNS = 16, 8  # of D of one instruction
_WIDE = 64  # columns of D that are computed together


@dataclass(frozen=True)
class Chain:
    """The chain of instructions of a type on a target."""

    kind: NumberType
    target: Target

    @property
    def depth(self) -> int:
        """K of one instruction."""
        return self.kind.form.k

    def sum_of(self, m: int, n: int) -> Sum:
        """How a tile of m rows and n columns is added in one step of K."""
        element, result = self.kind.element, self.kind.result
        rule = find_row("mma", self.target, element, sparse=True).rule if element.is_float else None
        pattern = self.kind.form.metadata.sparsity
        return Sum(m, n, self.depth, element, element, result, result, rule, pattern)

    def tiles(self, stored: Bits, codes: Bits, x: Bits, before: Callable[[int, Bits], None] | None = None) -> Bits:
        """D uint32 [case, m, n] of stored A [case, m, K / 2], its codes [case, m, K / 4] and B [case, K, n].

        `before` is called with the number of each step and the accumulators that it will add to, which it may change.
        """
        how = self.sum_of(stored.shape[1], x.shape[2])
        d = np.zeros((len(stored), how.m, how.n), np.uint32)
        chunks = how.k // 4
        for step in range(x.shape[1] // how.k):
            of, of_codes = (slice(step * size, (step + 1) * size) for size in (how.stored, chunks))
            part = x[:, step * how.k : (step + 1) * how.k]
            cut = (np.ascontiguousarray(y) for y in (stored[..., of], part, codes[..., of_codes]))
            a, b, e = cut
            if before is not None:
                before(step, d)
            d = add(how, Operands(a, b, d, e))
        return d

    def product(self, stored: Bits, codes: Bits, x: Bits) -> Bits:
        """D uint32 [row, n] of any number of stored rows [row, K / 2] with codes [row, K / 4], and B [K, n]."""
        rows, n = len(stored), x.shape[1]
        stored, codes = (_filled(y, 0, ROWS).reshape(-1, ROWS, y.shape[1]) for y in (stored, codes))
        x = _filled(x, 1, COLUMNS)
        d = np.empty((len(stored), ROWS, x.shape[1]), np.uint32)
        for first in range(0, x.shape[1], _WIDE):
            piece = x[None, :, first : first + _WIDE]
            d[..., first : first + _WIDE] = self.tiles(
                stored, codes, np.broadcast_to(piece, (len(stored), *piece.shape[1:]))
            )
        return np.ascontiguousarray(d.reshape(-1, x.shape[1])[:rows, :n])


def _filled(x: Bits, axis: int, multiple: int) -> Bits:
    """With zeros behind, so that the axis is a multiple."""
    short = -x.shape[axis] % multiple
    return np.pad(x, [(0, short if i == axis else 0) for i in range(x.ndim)]) if short else x
