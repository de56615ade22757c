"""The operands of a `tcgen05.mma` as matrices, and those rows and columns of D that changes of them can change.

A change in a row of A, of its codes, its scale factors or of C can change that row of D alone, and of C one element; a
change in a column of B, or of its scale factors, that column. Rows that many faults change are computed together as the
rows of matrices of their own, and so are columns: the sums of an element of D do not depend on what else is computed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isa.targets import parse_target
from isa.types import Bits
from simulator.arithmetic import Operands, Sum, add
from simulator.execute.tcgen05.fetch import Cta
from simulator.execute.tcgen05.multiply import matrices
from simulator.execute.tcgen05.plan import Call, plan_of, sum_of

Integers = NDArray[np.int64]
_LINES = 32  # rows, or columns, of D in one case
NAMES = {"a": "a", "d": "c", "e": "codes", "scale_a": "scale_a", "b": "b", "scale_b": "scale_b"}
"""The operand that a site holds, as `Operands` calls it; D holds C."""


class Lines(NamedTuple):
    """Rows, or columns, of operands, one for each line of D that is to be computed.

    Attributes:
        number: int64 [line]: the row of the CTA, with those of further parts of N behind it; or the column of D.
        values: the changed rows or columns, by the operand's name in `Operands`: uint32 [line, element].
    """

    number: Integers
    values: dict[str, Bits]


class Matrices:
    """The operands of an instruction without faults.

    Attributes:
        how: how it adds in one part of N.
        ctas: the operands of each CTA, with a case for each part of N.
    """

    def __init__(self, call: Call, ctas: list[Cta], target: str, arithmetic: str) -> None:
        self.how: Sum = sum_of(plan_of(call, parse_target(target), ctas), arithmetic)
        self.ctas = [operands for _, operands in matrices(call, ctas, target)]
        self.parts = len(self.ctas[0].a)

    def size(self, operand: str, *, columns: bool) -> tuple[int, int]:
        """How many rows or columns an operand of the even CTA has, with those of all parts of N, and of how many
        elements."""
        values = getattr(self.ctas[0], operand)
        if columns and operand == "b":
            return self.parts * self.how.n, self.how.k
        return values.shape[0] * values.shape[1], values.shape[2]

    def row(self, operand: str, number: Integers) -> Bits:
        """Rows of an operand of the even CTA, uint32 [line, element]."""
        return self._rows(getattr(self.ctas[0], operand))[number]

    def column(self, operand: str, number: Integers) -> Bits:
        """Columns of B, uint32 [line, k], or their scale factors."""
        values = getattr(self.ctas[0], operand)
        if operand == "b":
            values = values.transpose(0, 2, 1)
        return np.asarray(values.reshape(-1, values.shape[-1])[number])

    @staticmethod
    def _rows(values: Bits) -> Bits:
        return values.reshape(-1, values.shape[-1])

    def rows_of_d(self, lines: Lines) -> Bits:
        """D of rows of the even CTA, uint32 [line, n of a part]."""
        m, own = self.how.m, self.ctas[0]
        d = np.empty((len(lines.number), self.how.n), np.uint32)
        how = replace(self.how, m=_LINES)
        for part in range(self.parts):
            mine = np.flatnonzero(lines.number // m == part)
            if not len(mine):
                continue
            index = _padded(mine)
            given = {
                name: None
                if getattr(own, name) is None
                else (
                    lines.values[name][index]
                    if name in lines.values
                    else self._rows(getattr(own, name))[lines.number[index]]
                )
                for name in ("a", "c", "codes", "scale_a")
            }
            cases = len(index) // _LINES
            cut = {name: None if x is None else x.reshape(cases, _LINES, -1) for name, x in given.items()}
            assert cut["a"] is not None
            assert cut["c"] is not None
            scale_b = None if own.scale_b is None else _repeated(own.scale_b[part], cases)
            operands = Operands(
                cut["a"], _repeated(own.b[part], cases), cut["c"], cut["codes"], cut["scale_a"], scale_b
            )
            d[mine] = add(how, operands).reshape(len(index), -1)[: len(mine)]
        return d

    def columns_of_d(self, lines: Lines, *, even: bool) -> Bits:
        """D of columns, uint32 [line, row], of all CTAs, or with `even` of the even one alone."""
        ctas = self.ctas[:1] if even else self.ctas
        m, n = self.how.m, self.how.n
        d = np.empty((len(lines.number), m * len(ctas)), np.uint32)
        how = replace(self.how, n=_LINES)
        for part in range(self.parts):
            mine = np.flatnonzero(lines.number // n == part)
            if not len(mine):
                continue
            index = _padded(mine)
            cases = len(index) // _LINES
            number = lines.number[index] % n
            for rank, own in enumerate(ctas):
                b = lines.values["b"][index] if "b" in lines.values else own.b[part].T[number]
                scales = None
                if own.scale_b is not None:
                    scales = lines.values.get("scale_b", own.scale_b[part][number])
                    scales = (scales[index] if "scale_b" in lines.values else scales).reshape(cases, _LINES, -1)
                codes, scale_a = (None if x is None else _repeated(x[part], cases) for x in (own.codes, own.scale_a))
                operands = Operands(
                    _repeated(own.a[part], cases),
                    np.ascontiguousarray(b.reshape(cases, _LINES, -1).transpose(0, 2, 1)),
                    np.ascontiguousarray(own.c[part][:, number].reshape(m, cases, _LINES).transpose(1, 0, 2)),
                    codes,
                    scale_a,
                    scales,
                )
                found = add(how, operands).transpose(0, 2, 1).reshape(len(index), m)
                d[mine, rank * m : (rank + 1) * m] = found[: len(mine)]
        return d


def _padded(index: Integers) -> Integers:
    """The numbers, and the last of them again until they fill whole cases."""
    return np.concatenate([index, np.repeat(index[-1:], -len(index) % _LINES)])


def _repeated(matrix: Bits, cases: int) -> Bits:
    return np.broadcast_to(matrix, (cases, *matrix.shape))
