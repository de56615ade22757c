"""Sums of any number of cases: by the compiled kernel where it can, in numpy otherwise, on several threads where it is
worth it."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from isa.types import Bits
from simulator.arithmetic.chain import Words, chain_f64
from simulator.arithmetic.compiled import Kernel, library, matrix_layout, supports
from simulator.arithmetic.sums import Operands, Sum, add_in_numpy
from simulator.arithmetic.threads import spread


def add(how: Sum, operands: Operands) -> Bits:
    """D patterns [case, m, n]. Patterns must not be wider than their types; `product` checks what it is given, this
    does not."""
    d = np.empty(operands.c.shape, np.uint32)
    compute = (
        _compiled if library() is not None and supports(how) and not how.operation else _in_numpy
    )  # bits: the kernel takes words of 32
    spread(len(d), how.m * how.n * how.stored, lambda cases: compute(how, operands[cases], d[cases]))
    return d


def _in_numpy(how: Sum, operands: Operands, d: Bits) -> None:
    d[:] = add_in_numpy(how, operands)


def add_f64(a: Words, b: Words, c: Words, rounding: str = "rn") -> Words:
    """The same for f64 patterns a [case, m, k], b [case, k, n], c [case, m, n]; `rounding` as in
    `simulator.arithmetic.chain`."""
    d = np.empty_like(c)

    def part(cases: slice) -> None:
        d[cases] = chain_f64(a[cases], b[cases], c[cases], rounding)

    spread(len(d), a.shape[1] * a.shape[2] * b.shape[2], part)
    return d


@lru_cache(maxsize=256)
def _kernel(how: Sum) -> Kernel:
    return Kernel(how, matrix_layout(how))


def _compiled(how: Sum, operands: Operands, d: Bits) -> None:
    x = operands
    _kernel(how)(d, x.a, x.b, x.c, x.codes, x.scale_a, x.scale_b)
