"""The sums that an accuracy study compares: those of chips, chained along K as the main loop of a matrix product does,
those of plain f32, and the exact one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from isa.fragments.sparsity import compress
from isa.types import ELEMENT_TYPES, Bits
from simulator.arithmetic import Operands, Sum, add
from simulator.arithmetic.convert import convert, to_float64
from simulator.arithmetic.exact_gemm import exact_gemm
from simulator.arithmetic.exact_gemm.rounding import to_odd, two_sum
from simulator.studies.accuracy.chips import Chip, Problem
from simulator.studies.accuracy.operands import Batch

F32 = ELEMENT_TYPES["f32"]

Singles = NDArray[np.float32]
Reals = NDArray[np.float64]


def chip_sum(chip: Chip, batch: Batch, problem: Problem) -> Bits:
    """D [case, m, n] as patterns: from C = 0, one instruction after the other along K, each adding to the rounded
    result of the one before.

    A K that is no multiple of the instruction's K is filled up with zeros, which add nothing.
    """
    cases, m, k = batch.a.shape
    spare = -k % chip.k
    a, b = batch.a, batch.b
    if spare:
        a, b = np.pad(a, ((0, 0), (0, 0), (0, spare))), np.pad(b, ((0, 0), (0, spare), (0, 0)))
    sparsity, codes = problem.sparsity, None
    if sparsity is not None:
        a, codes = compress(a, sparsity, problem.a_type)
    result = problem.result
    how = Sum(m, b.shape[2], chip.k, problem.a_type, problem.b_type, result, result, chip.rule, sparsity)
    chunks = chip.k // sparsity.chunk if sparsity else 0
    d = np.zeros((cases, m, b.shape[2]), np.uint32)
    for step in range((k + spare) // chip.k):
        part = slice(step * how.stored, (step + 1) * how.stored)
        code = codes[..., step * chunks : (step + 1) * chunks] if codes is not None else None
        d = add(how, Operands(a[..., part], b[:, step * chip.k : (step + 1) * chip.k], d, code))
    return d


def exact_sum(batch: Batch, problem: Problem) -> Bits:
    """The exact result, rounded once to nearest even: patterns [case, m, n]."""
    patterns = [
        exact_gemm(a, b, a_type=problem.a_type, b_type=problem.b_type, result=problem.result.name)
        for a, b in zip(batch.a, batch.b, strict=True)
    ]
    word = np.uint32 if problem.result.bits == 32 else np.uint16
    return np.stack(patterns).view(word).astype(np.uint32)


def magnitudes(batch: Batch, problem: Problem) -> Reals:
    """The sum of |a||b| [case, m, n] in float64."""
    with np.errstate(invalid="ignore", over="ignore"):
        sums: Reals = np.abs(to_float64(batch.a, problem.a_type)) @ np.abs(to_float64(batch.b, problem.b_type))
    return sums


def f32_sums(batch: Batch, problem: Problem) -> tuple[Bits, Bits]:
    """The sums in f32 without a tensor core, as patterns [case, m, n]; an f16 result is rounded once at the end.

    The first sum is made of fused multiply-adds, one after the other. The second adds the products, each of them
    rounded, in pairs, pairs of pairs and so on; what is left over comes last.
    """
    a = np.ascontiguousarray(np.moveaxis(to_float64(batch.a, problem.a_type), 2, 0))  # [K, case, m]
    b = np.ascontiguousarray(np.moveaxis(to_float64(batch.b, problem.b_type), 1, 0))  # [K, case, n]
    with np.errstate(all="ignore"):
        chain = _chain_plain(a, b) if _products_fit(a, b) else _chain_careful(a, b)
        pairs = _pairwise(a.astype(np.float32), b.astype(np.float32))
    return _patterns(chain, problem), _patterns(pairs, problem)


def _patterns(values: Singles, problem: Problem) -> Bits:
    return convert(values.view(np.uint32), F32, problem.result)


def _products_fit(a: Reals, b: Reals) -> bool:
    """Whether all products, which have at most 22 significant bits, are f32 numbers: at least 2^-126 and below
    2^128."""
    sizes = [np.abs(x[np.isfinite(x) & (x != 0)]) for x in (a, b)]
    low, high = (float(np.prod([f(x, initial=1.0) for x in sizes])) for f in (np.min, np.max))
    return low >= 2.0**-126 and high < 2.0**128


def _chain_plain(a: Reals, b: Reals) -> Singles:
    """The chain where products are f32 numbers: multiplying and adding rounds once, as a fused multiply-add does."""
    x, y = a.astype(np.float32), b.astype(np.float32)
    total = np.zeros((x.shape[1], x.shape[2], y.shape[2]), np.float32)
    term = np.empty_like(total)
    for left, right in zip(x, y, strict=True):
        np.multiply(left[:, :, None], right[:, None, :], out=term)
        total += term
    return total


def _chain_careful(a: Reals, b: Reals) -> Singles:
    """The chain where products are exact only in float64; the sum is rounded to odd there, so that rounding it to f32
    is the only rounding."""
    total = np.zeros((a.shape[1], a.shape[2], b.shape[2]), np.float32)
    for left, right in zip(a, b, strict=True):
        high, rest = two_sum(total.astype(np.float64), left[:, :, None] * right[:, None, :])
        total = np.where(np.isfinite(high), to_odd(high, np.where(np.isfinite(rest), rest, 0.0)), high).astype(
            np.float32
        )
    return total


def _pairwise(a: Singles, b: Singles) -> Singles:
    """The sum in pairs: partial sums of 1, 2, 4, ... products wait for another of their size, as the digits of a binary
    counter do."""
    waiting: list[Singles] = []
    for number, (left, right) in enumerate(zip(a, b, strict=True), start=1):
        total: Singles = left[:, :, None] * right[:, None, :]
        for _ in range((number & -number).bit_length() - 1):
            total = waiting.pop() + total
        waiting.append(total)
    total = waiting.pop()
    while waiting:
        total = waiting.pop() + total
    return total
