"""What one instruction of a tensor core computes: D = A * B + C on matrices of bit patterns, for many cases at once.

A `Sum` says how the instruction adds; `simulator.arithmetic.batch.add` computes it, with the compiled kernel where
there is one, and with this module's numpy code otherwise. Structured sparsity works as measured on an H100 (November
2026): for each stored element the codes of A choose the row of B that it multiplies, like a plain multiplexer in front
of the multipliers, whatever the codes say. Elements of B that no code picks have no effect, NaN and infinity included.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from isa.fragments.metadata import Sparsity, spliced, stored_columns
from isa.types import Bits, ElementType
from simulator.arithmetic.chain import chain_f16
from simulator.arithmetic.exact import exact_sum
from simulator.arithmetic.formats import Decoded, decode, integers
from simulator.arithmetic.fused import fused_sum, grouped_sum
from simulator.arithmetic.hooks import Hooks
from simulator.arithmetic.integer import integer_sum
from simulator.arithmetic.rows import SumRule

_BLOCK_PRODUCTS = (
    1 << 17
)  # products worked on at once: 1 MiB of float64, so that the arrays of a block stay in a core's own cache

Columns = NDArray[np.int64]
Number = TypeVar("Number", np.float64, np.int16, np.int32)


@dataclass(frozen=True)
class Sum:
    """All that determines how one instruction adds: its shape, its types and its rule.

    Attributes:
        m, n, k: shape; k logical.
        a_type, b_type, c_type, d_type: element types.
        rule: the chip's rule; None for integers, and for the exact sum of floats.
        sparsity: of A, whose stored columns are fewer than k; None: dense.
        saturate: integers saturate.
        operation: how two bits are joined, "xor.popc" or "and.popc" (b1); empty for products.
        scale_type: type of block scale factors; None without.
        factors: of a row of A or column of B; each covers an equal slice of K.
    """

    m: int
    n: int
    k: int
    a_type: ElementType
    b_type: ElementType
    c_type: ElementType
    d_type: ElementType
    rule: SumRule | None
    sparsity: Sparsity | None = None
    saturate: bool = False
    scale_type: ElementType | None = None
    factors: int = 0
    operation: str = ""

    @property
    def stored(self) -> int:
        """Columns of A that are stored."""
        return self.sparsity.columns(self.k) if self.sparsity else self.k

    @cached_property
    def steps(self) -> tuple[tuple[int, ...], ...]:
        """Stored columns of each step, in order."""
        return self.rule.steps(self.stored, self.a_type) if self.rule is not None else (tuple(range(self.stored)),)

    @cached_property
    def order(self) -> Columns:
        """Stored columns in the order in which they are summed."""
        return np.array([column for step in self.steps for column in step], np.int64)

    @property
    def through(self) -> ElementType | None:
        """The type that operands are converted to before they are multiplied, if any."""
        return self.rule.converted if self.rule is not None else None


@dataclass(frozen=True)
class Operands:
    """The operands of a number of cases, as matrices of patterns in uint32.

    Attributes:
        a: stored A [case, m, stored].
        b: [case, k, n].
        c: [case, m, n].
        codes: metadata [case, m, chunk]; None if dense.
        scale_a, scale_b: factors [case, m, factors] and [case, n, factors]; None without.
    """

    a: Bits
    b: Bits
    c: Bits
    codes: Bits | None = None
    scale_a: Bits | None = None
    scale_b: Bits | None = None

    def __getitem__(self, part: slice) -> Operands:
        codes, scale_a, scale_b = (None if x is None else x[part] for x in (self.codes, self.scale_a, self.scale_b))
        return Operands(self.a[part], self.b[part], self.c[part], codes, scale_a, scale_b)


def blocks(cases: int, size: int) -> Iterator[slice]:
    """Slices of at most `size` cases."""
    return (slice(start, min(start + size, cases)) for start in range(0, cases, size))


def add_in_numpy(how: Sum, operands: Operands) -> Bits:
    """Computes D patterns [case, m, n] in blocks of cases that fit into a core's cache."""
    d = np.empty(operands.c.shape, np.uint32)
    for part in blocks(len(operands.a), max(1, _BLOCK_PRODUCTS // (how.m * how.n * how.stored))):
        d[part] = add_block(how, operands[part])
    return d


def add_block(how: Sum, operands: Operands, hooks: Hooks | None = None) -> Bits:
    """Computes D for one block of cases; `hooks` may change what the sum does. Inside, arrays are [n, stored column in
    order of summation, case * row], so that operations run over long rows of independent outputs."""
    cases = len(operands.a)
    c = operands.c.transpose(2, 0, 1).reshape(how.n, cases * how.m)
    codes = operands.codes
    if not how.a_type.is_float:
        chosen = _select(integers(operands.b, how.b_type).astype(np.int32), _places(how, codes, cases))
        join = np.bitwise_xor if how.operation == "xor.popc" else np.multiply
        products = join(chosen, integers(_planes(how, operands.a), how.a_type).astype(np.int32))
        if hooks is not None:
            hooks.integer_products(products)
        d = integer_sum(products, c, saturate=how.saturate, hooks=hooks)
    else:
        d = _float_sum(how, products_of(how, operands, hooks), c, operands, hooks)
    return d.reshape(how.n, cases, how.m).transpose(1, 2, 0)


def _planes(how: Sum, a: Bits) -> Bits:
    """Stored A [case, row, column] -> [column in order of summation, case * row]."""
    return a[..., how.order].transpose(2, 0, 1).reshape(len(how.order), -1)


def products_of(how: Sum, operands: Operands, hooks: Hooks | None = None) -> Decoded:
    """The products of floats, [n, product, case * row], exact; block scales are in them unless the rule groups them."""
    a, b, codes = operands.a, operands.b, operands.codes
    left, fold = (
        decode(_planes(how, a), how.a_type, how.through),
        how.scale_type is not None and not (how.rule and how.rule.group),
    )
    if codes is not None and how.sparsity is not None and how.sparsity.splices and spliced(codes, how.sparsity).any():
        right = decode(_select_halves(how, b, codes), how.b_type, how.through)
    else:
        whole, places = decode(b, how.b_type, how.through), _places(how, codes, len(b))
        right = Decoded(_select(whole.value, places), _select(whole.exponent, places))
    factors = None if hooks is None else Decoded(right.value.copy(), right.exponent.copy())
    # From here on `right` holds the products: it is ours, never a table.
    with np.errstate(invalid="ignore"):  # infinity times zero: NaN, as it should be
        np.multiply(right.value, left.value, out=right.value)
        np.add(right.exponent, left.exponent, out=right.exponent)
        if hooks is not None and factors is not None:
            hooks.products(left, factors, right)
        if fold:
            scale = _scales(how, operands, how.order * how.factors // how.stored)
            np.multiply(right.value, scale.value, out=right.value)
            np.add(right.exponent, scale.exponent, out=right.exponent)
    return right


def _scales(how: Sum, operands: Operands, factor: Columns) -> Decoded:
    """Products of the scales of rows and columns [n, len(factor), case * row], for the given factors."""
    assert how.scale_type is not None
    assert operands.scale_a is not None
    assert operands.scale_b is not None
    a, b = decode(operands.scale_a, how.scale_type), decode(operands.scale_b, how.scale_type)

    def joined(x: NDArray[Number], y: NDArray[Number], operation: np.ufunc) -> NDArray[Number]:
        left = x[:, :, factor].transpose(2, 0, 1)[None]  # [1, factor, case, row]
        right = y[:, :, factor].transpose(1, 2, 0)[..., None]  # [n, factor, case, 1]
        result: NDArray[Number] = operation(left, right).reshape(how.n, len(factor), -1)
        return result

    return Decoded(joined(a.value, b.value, np.multiply), joined(a.exponent, b.exponent, np.add))


def _float_sum(how: Sum, products: Decoded, c: Bits, operands: Operands, hooks: Hooks | None) -> Bits:
    if how.rule is None:
        places = how.a_type.fraction + how.b_type.fraction + 2 * (how.scale_type.fraction if how.scale_type else 0)
        return exact_sum(products, places, decode(c, how.c_type), how.d_type)
    if how.rule.group:
        groups = how.stored // how.rule.group
        scale = _scales(how, operands, np.arange(groups) * how.factors // groups)
        return grouped_sum(products, scale, c, how.rule, how.d_type, hooks)
    if how.rule.chained:
        return chain_f16(products.value, decode(c, how.c_type).value, how.d_type)
    return fused_sum(products, c, how.rule, (how.c_type, how.d_type), tuple(map(len, how.steps)), hooks)


def _places(how: Sum, codes: Bits | None, cases: int) -> Columns:
    """For each element of stored A, the row of B [n, case * k] that it multiplies: [stored column, case * row]."""
    if codes is None or how.sparsity is None:
        columns = np.broadcast_to(how.order, (cases, how.m, len(how.order)))
    else:
        columns = stored_columns(codes, how.sparsity)[..., how.order]
    return (columns + how.k * np.arange(cases)[:, None, None]).transpose(2, 0, 1).reshape(len(how.order), cases * how.m)


def _select(b: NDArray[Number], places: Columns) -> NDArray[Number]:
    """The elements of B that stored A multiplies: B [case, k, n] -> [n, stored column, case * row]."""
    chosen: NDArray[Number] = b.transpose(2, 0, 1).reshape(b.shape[2], -1).take(places, axis=1, mode="clip")
    return chosen


def _select_halves(how: Sum, b: Bits, codes: Bits) -> Bits:
    """The same for 1:2 with any code: the operand joins 16-bit half `code & 3` (low) and half `code >> 2` (high) of the
    chunk's four."""
    cases, k, n = b.shape
    halves = (
        np.stack([b & np.uint32(0xFFFF), b >> np.uint32(16)], axis=2)
        .reshape(cases, 2 * k, n)
        .transpose(2, 0, 1)
        .reshape(n, 2 * k * cases)
    )
    base = 4 * np.arange(codes.shape[-1]) + 2 * k * np.arange(cases)[:, None, None]
    picked: list[Bits] = []
    for part in (codes & np.uint32(3), codes >> np.uint32(2)):
        index = (base + part.astype(np.int64))[..., how.order].transpose(2, 0, 1).reshape(len(how.order), -1)
        picked.append(halves.take(index, axis=1, mode="clip"))
    return picked[0] | picked[1] << np.uint32(16)
