"""The words of the unit that computes one element of D: how wide the products, terms and partial sums of a `Sum` are.

What each word holds follows from the sum rules. That a product of floats is held as significand, exponent and sign,
that terms are in two's complement, and that adders are a balanced binary tree is assumed: only the rounded sum can be
observed on a chip.

    multiplier   floats: significand from bit 0, exponent from bit 22, sign in bit 31; integers: two's complement
    term         two's complement, in units of the last bit that alignment keeps
    adder        node 0 adds terms 0 and 1, node 1 adds 2 and 3, and so on level by level; the last node adds C, or the
                 sum of the steps before
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from isa.types import ElementType
from simulator.arithmetic.sums import Sum

EXPONENT_BIT, SIGN_BIT = 22, 31
INTEGER_STEP_BYTES = 32  # of stored A that an integer step takes (assumed: as Hopper's steps of floats)
_GROUP_BITS = 11  # by how many bits a group of packed products can exceed its scale, see `fused.fused_step`
_S32_BITS = 32


class Anatomy:
    """The words of the unit for one `Sum`, which must be a tensor core's own: `sums_on_unit(how)`.

    Attributes:
        how: the sum.
        lengths: products of each step.
        inputs: products (of packed types: groups) that the adder takes in a step; the term of C has this number.
        leaves: inputs of the tree, a power of two; the tree has as many nodes, the last of which adds C.
    """

    def __init__(self, how: Sum) -> None:
        assert sums_on_unit(how)
        self.how = how
        self.lengths = tuple(map(len, how.steps))
        self.group = how.rule.group if how.rule is not None else 0
        if self.group:
            self.used = self.inputs = how.stored // self.group
        else:
            wide = how.rule.step_bytes if how.rule is not None else INTEGER_STEP_BYTES
            self.used = max(self.lengths)
            self.inputs = max(self.used, wide * 8 // (how.through or how.a_type).bits)
        self.leaves = 1 << (self.inputs - 1).bit_length()

    @cached_property
    def factors(self) -> tuple[ElementType, ElementType]:
        """The types that the multiplier sees."""
        return self.how.through or self.how.a_type, self.how.through or self.how.b_type

    # A product

    @property
    def places(self) -> int:
        """Fraction bits of a product of floats."""
        return sum(element.fraction for element in self.factors)

    @property
    def lowest(self) -> int:
        """The exponent of the product of two subnormal floats, whose exponent field is 0."""
        return sum(1 - element.bias for element in self.factors)

    @property
    def product_bits(self) -> int:
        """Bits of the significand of a product of floats, or of a product of integers (b1: one)."""
        if self.how.a_type.is_float:
            return self.places + 2
        return 1 if self.how.operation else sum(element.bits for element in self.factors)

    @property
    def exponent_bits(self) -> int:
        """Bits of the exponent field of a product of floats."""
        return (sum(map(_highest, self.factors)) - self.lowest).bit_length()

    @property
    def product_mask(self) -> int:
        """The bits of a product that there are."""
        significand = (1 << self.product_bits) - 1
        if not self.how.a_type.is_float:
            return significand
        return significand | (1 << self.exponent_bits) - 1 << EXPONENT_BIT | 1 << SIGN_BIT

    # Terms and sums

    @property
    def signed(self) -> bool:
        """Whether products and their sums can be negative."""
        return self.how.a_type.is_float or any(element.name.startswith("s") for element in self.factors)

    @property
    def term_bits(self) -> int:
        """Bits of a term of products, the sign included."""
        rule = self.how.rule
        if rule is None:
            return self.product_bits
        return rule.fraction + (_GROUP_BITS + 1 if self.group else 3)

    def term_widths(self) -> NDArray[np.int64]:
        """Bits of each term, that of C last: [inputs + 1]; 0 for inputs that no step uses."""
        widths = np.full(self.inputs + 1, self.term_bits, np.int64)
        widths[self.used :] = 0
        widths[-1] = _S32_BITS if self.how.rule is None else self.term_bits
        return widths

    @cached_property
    def spans(self) -> NDArray[np.int64]:
        """The terms that each node of the tree adds, from one to before another: [leaves, 2]."""
        rows = [(0, self.leaves)]
        size = self.leaves
        while size > 1:
            rows[:0] = [(first, first + size) for first in range(0, self.leaves, size)]
            size //= 2
        return np.array(rows, np.int64)

    def node_widths(self) -> NDArray[np.int64]:
        """Bits of the output of each node: [leaves]; 0 for nodes whose inputs no step uses."""
        levels = np.log2(self.spans[:, 1] - self.spans[:, 0]).astype(np.int64)
        widths = np.where(self.spans[:, 0] < self.used, self.term_bits + levels, 0)
        widths[-1] = max(widths[-1], _S32_BITS if self.how.rule is None else 0) + 1
        return widths

    # Codes

    @property
    def code_places(self) -> int:
        """Codes of metadata that a step takes; 0 of a dense sum."""
        sparsity = self.how.sparsity
        return 0 if sparsity is None else -(-max(self.lengths) // sparsity.stored)


def sums_on_unit(how: Sum) -> bool:
    """Whether a tensor core computes a sum by products, alignment and a tree of adders: neither a chain of ordinary
    multiply-adds nor the exact sum of floats."""
    return not how.a_type.is_float if how.rule is None else not how.rule.chained


def _highest(element: ElementType) -> int:
    """The exponent of the largest finite number of a type of floats."""
    top = (1 << element.exponent) - 1
    return (top if element.finite_top or not element.nan else top - 1) - element.bias
