"""What a tensor core adds, by the rules of docs/arithmetic.md: exact products, aligned to the largest exponent, cut,
added, and rounded once. Written in integers from that page."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tests.golden.again.numerals import FORMATS, Parts, parts

NAN = {"f32": 0x7FFFFFFF, "f16": 0x7FFF}
INFINITY = {"f32": 0x7F800000, "f16": 0x7C00}
SIGN = {"f32": 1 << 31, "f16": 1 << 15}
_NONE = -(1 << 20)  # an exponent below all others


class Rule(NamedTuple):
    """A row of the table of rules.

    Attributes:
        step: bytes of A in a step; 0 for any number.
        kept: the fraction bits that are kept.
        floor: the least exponent of the alignment, of an f32 and of an f16 result.
        rounded: the fraction bits of an f32 result.
    """

    step: int = 32
    kept: int = 25
    floor: tuple[int, int] = (-133, -21)
    rounded: int = 23


RULES = {
    "Hopper": Rule(),
    "Ampere": Rule(16, 24, (-132, -20)),
    "packed": Rule(0, 35, (-139, -139)),
}


def _cut(significand: Any, exponent: Any, fraction: int, largest: Any, kept: int) -> Any:
    """Magnitudes in units of 2^(largest - kept), cut toward zero."""
    room = kept - fraction
    down = np.minimum(largest - exponent + max(-room, 0), 63)
    return significand << max(room, 0) >> down


def _fused(terms: Parts, c: Parts, special: tuple[Any, Any, Any], rule: Rule, result: str) -> Any:
    """One step: terms [..., k] and C [...], of which `special` says whether the sum is NaN, or has infinities of each
    sign."""
    exponent = np.where(terms.significand != 0, terms.exponent, _NONE)
    own = np.where(c.significand != 0, c.exponent, _NONE)
    largest = np.maximum(np.maximum(exponent.max(axis=-1), own), rule.floor[result == "f16"])
    cut = _cut(terms.significand, terms.exponent, terms.fraction, largest[..., None], rule.kept)
    total = np.where(terms.negative, -cut, cut).sum(axis=-1)
    cut = _cut(c.significand, c.exponent, c.fraction, largest, rule.kept)
    total += np.where(c.negative, -cut, cut)
    found = _rounded(total, largest - rule.kept, rule, result)
    nan, plus, minus = special
    found = np.where(plus, INFINITY[result], np.where(minus, INFINITY[result] | SIGN[result], found))
    return np.where(nan | plus & minus, NAN[result], found).astype(np.uint32)


def _rounded(total: Any, unit: Any, rule: Rule, result: str) -> Any:
    """The patterns of total * 2^unit: f32 cut toward zero, f16 to nearest even; a zero is +0."""
    size = np.abs(total)
    top = np.frexp(size.astype(np.float64))[1] - 1 + unit  # exact: below 2^53
    bits = rule.rounded if result == "f32" else 10
    least, head = (-126, 127) if result == "f32" else (-14, 15)
    quantum = np.maximum(top, least) - bits
    up, down = np.clip(unit - quantum, 0, 62), np.clip(quantum - unit, 0, 62)
    found = size << up >> down
    if result == "f16":
        rest, half = size - (found << down), np.where(down > 0, np.int64(1) << np.maximum(down - 1, 0), 0)
        found += (down > 0) & ((rest > half) | (rest == half) & (found & 1 == 1))
    width = 23 if result == "f32" else 10
    pattern = (quantum + bits - least << width) + (found << width - bits)
    pattern = np.where((pattern >> width) > head - least + 1, INFINITY[result], pattern)
    return np.where(size == 0, 0, np.where(found == 0, 0, pattern | np.where(total < 0, SIGN[result], 0)))


def _products(a: Parts, b: Parts) -> tuple[Parts, tuple[Any, Any, Any]]:
    """All products, not normalised, and whether there is NaN, plus or minus infinity among each row of them."""
    negative = a.negative ^ b.negative
    terms = Parts(negative, a.significand * b.significand, a.exponent + b.exponent, False, False,
                  a.fraction + b.fraction)  # fmt: skip
    if not (a.nan.any() or a.infinite.any() or b.nan.any() or b.infinite.any()):
        never = np.zeros(terms.significand.shape[:-1], np.bool_)
        return terms, (never, never, never)
    infinite = a.infinite | b.infinite
    nan = a.nan | b.nan | infinite & ((a.significand == 0) | (b.significand == 0))
    special = [each.any(axis=-1) for each in (nan, infinite & ~negative & ~nan, infinite & negative & ~nan)]
    return terms, (special[0], special[1], special[2])


def _with(special: tuple[Any, Any, Any], c: Parts) -> tuple[Any, Any, Any]:
    """The same with C."""
    nan, plus, minus = special
    return nan | c.nan, plus | c.infinite & ~c.negative, minus | c.infinite & c.negative


def fused(a: Parts, b: Parts, c: Any, kinds: tuple[str, str], rule: Rule, size: int) -> Any:
    """Products [..., k] added to C: patterns [...] of the type of D.

    Args:
        a, b: operands, which broadcast.
        c: patterns of C.
        kinds: the types of C and of D.
        size: bytes of an element of A.
    """
    count = a.significand.shape[-1]
    each = rule.step // size if rule.step else count
    kind = kinds[0]
    for first in range(0, count, each):
        part = slice(first, first + each)
        some = [x.at((..., part)) if x.significand.shape[-1] > 1 else x for x in (a, b)]
        terms, special = _products(some[0], some[1])
        own = parts(c, FORMATS[kind])
        c, kind = _fused(terms, own, _with(special, own), rule, kinds[1]), kinds[1]
    return c


def scaled(a: Parts, b: Parts, scales: Any, c: Any, rule: Rule) -> Any:
    """The same with block scales that count with the exponents of the products: `scales` are two, [..., k]."""
    terms, special = _products(a, b)
    left, right = scales
    terms = terms._replace(exponent=terms.exponent + left.exponent + right.exponent)
    own = parts(c, FORMATS["f32"])
    nan, plus, minus = _with(special, own)
    nan = nan | (left.nan | right.nan).any(axis=-1)
    return _fused(terms, own, (nan, plus, minus), rule, "f32")


def grouped(a: Parts, b: Parts, scales: Any, c: Any) -> Any:
    """Packed e2m1: 16 products are added exactly, multiplied by their scales [..., group], and aligned by the scales'
    exponents alone. A group all of whose products are zero does not count."""
    terms, _ = _products(a, b)
    shape = (*terms.significand.shape[:-1], -1, 16)
    sizes = np.where(terms.negative, -1, 1) * terms.significand << terms.exponent  # e2m1's exponents are 0 to 4
    sizes, some = sizes.reshape(shape).sum(axis=-1), (terms.significand != 0).reshape(shape).any(axis=-1)
    left, right = scales
    scale = left.significand * right.significand
    group = Parts(sizes < 0, np.abs(sizes) * scale, left.exponent + right.exponent, False, False,
                  terms.fraction + left.fraction + right.fraction)  # fmt: skip
    own, rule = parts(c, FORMATS["f32"]), RULES["packed"]
    there = some & (scale != 0)
    largest = np.where(there, group.exponent, _NONE).max(axis=-1)
    nan = (left.nan | right.nan).any(axis=-1) | own.nan
    return _aligned(group, own, largest, (nan, own.infinite & ~own.negative, own.infinite & own.negative), rule)


def _aligned(terms: Parts, c: Parts, largest: Any, special: tuple[Any, Any, Any], rule: Rule) -> Any:
    """As `_fused`, where a term that is zero may count for the alignment: `largest` is that of the terms."""
    largest = np.maximum(largest, np.where(c.significand != 0, c.exponent, _NONE))
    largest = np.maximum(largest, rule.floor[0])
    cut = _cut(terms.significand, terms.exponent, terms.fraction, largest[..., None], rule.kept)
    total = np.where(terms.negative, -cut, cut).sum(axis=-1)
    cut = _cut(c.significand, c.exponent, c.fraction, largest, rule.kept)
    found = _rounded(total + np.where(c.negative, -cut, cut), largest - rule.kept, rule, "f32")
    nan, plus, minus = special
    found = np.where(plus, INFINITY["f32"], np.where(minus, INFINITY["f32"] | SIGN["f32"], found))
    return np.where(nan, NAN["f32"], found).astype(np.uint32)


def as_f16(a: Parts) -> Parts:
    """FP8 numbers as f16 has them, whose subnormals are normal numbers there."""
    top = np.frexp(a.significand.astype(np.float64))[1] - 1 - a.fraction  # where the leading one is
    up = np.minimum(np.where(a.significand == 0, 0, -top), a.exponent + 14)  # f16 has subnormals, too
    return a._replace(significand=a.significand << up, exponent=a.exponent - up)


def two_steps(a: Parts, b: Parts, c: Any, first: Any) -> Any:
    """FP8 of sm_90 and sm_100: products number `first` (bool [k]) are added to zero, then the others to that; C is
    added last, to nearest even."""
    a, b = as_f16(a), as_f16(b)
    total = np.zeros(np.broadcast_shapes(a.significand.shape[:-1], b.significand.shape[:-1]), np.uint32)
    for some in (first, ~first):
        total = fused(a.at((..., some)), b.at((..., some)), total, ("f32", "f32"), RULES["Hopper"]._replace(step=0), 1)
    with np.errstate(invalid="ignore", over="ignore"):
        found = np.ascontiguousarray(c).view(np.float32) + np.ascontiguousarray(total).view(np.float32)
    return np.where(np.isnan(found), np.uint32(NAN["f32"]), found.view(np.uint32))


def integers(a: Any, b: Any, c: Any, saturate: bool) -> Any:
    """Integers are exact, and wrap or saturate once: patterns of s32; a and b [..., k]."""
    total = (a * b).sum(axis=-1) + c
    if saturate:
        total = np.clip(total, -(1 << 31), (1 << 31) - 1)
    return (total & 0xFFFFFFFF).astype(np.uint32)
