"""Computes the matrix products of any number of cases: with the compiled kernel where it can, in numpy otherwise, and
on several threads where the batch is large enough."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from isa.types import Bits
from simulator.arithmetic.chain import ROUNDINGS, Words, chain_in_numpy
from simulator.arithmetic.compiled import WIDTH, Chain, Kernel, library, matrix_layout, supports
from simulator.arithmetic.sums import Operands, Sum, add_in_numpy
from simulator.arithmetic.threads import spread


def add(how: Sum, operands: Operands) -> Bits:
    """The result D of each case: patterns [case, m, n]. Patterns must not be wider than their types; `product` checks
    its arguments, this function does not."""
    d = np.empty(operands.c.shape, np.uint32)
    compute = (
        _compiled if library() is not None and supports(how) and not how.operation else _in_numpy
    )  # bits: the kernel takes words of 32
    spread(len(d), how.m * how.n * how.stored, lambda cases: compute(how, operands[cases], d[cases]))
    return d


def _in_numpy(how: Sum, operands: Operands, d: Bits) -> None:
    d[:] = add_in_numpy(how, operands)


def add_f64(a: Words, b: Words, c: Words, rounding: str = "rn") -> Words:
    """The result D of f64 instructions, from patterns a [case, m, k], b [case, k, n] and c [case, m, n]; `rounding` is
    as in `simulator.arithmetic.chain`."""
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


def chain_f64(a: Words, b: Words, c: Words, rounding: str = "rn") -> Words:
    """The same as `add_f64` on one thread: D [case, m, n]; `rounding` is one of `ROUNDINGS`."""
    if library() is not None:
        return _chain_compiled(a, b, c, ROUNDINGS.index(rounding))
    return chain_in_numpy(a, b, c, rounding)


def _chain_compiled(a: Words, b: Words, c: Words, rounding: int) -> Words:
    n = c.shape[2]
    wide = -n % WIDTH  # columns that the kernel needs, and nobody else
    b, c = (np.pad(x, ((0, 0), (0, 0), (0, wide))) for x in (b, c)) if wide else (b, c)
    d = np.empty(c.shape, np.uint64)
    Chain(a.shape[1], n + wide, a.shape[2])(d, a, b, c, rounding)
    return d[..., :n]
