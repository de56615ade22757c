"""Disturbed sums: what an instruction computes while a word of the unit holds other bits than it should.

A `Disturbance` has an entry for each element of D that is disturbed, in any number of cases: which word of the unit,
and what becomes of its bits, in every step of the sum or in one. `disturbed` computes these elements alone, with the
same numpy code as every other sum (`sums.add_block`), so that thousands of them are one call.

Words whose value is infinite or NaN keep it, but the sign of an infinite product can change (assumed: a unit carries
them beside the numbers). `anatomy` says what each word holds.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa.types import Bits
from simulator.arithmetic.anatomy import EXPONENT_BIT, SIGN_BIT, Anatomy
from simulator.arithmetic.formats import NO_EXPONENT, Decoded
from simulator.arithmetic.sums import Operands, Sum, add_block, blocks

PARTS = ("multiplier", "term", "adder", "mux", "accumulator", "output")
"""The words of a unit: a product, a term at the adder's input, the output of a node of the tree of adders, the select
lines of the multiplexers of a code, the result of a step, and D."""
_BLOCK_PRODUCTS = 1 << 17
_ZERO = np.uint64(0)
Indices = NDArray[np.intp]
Words = NDArray[np.uint64]


@dataclass(frozen=True)
class Disturbance:
    """What is disturbed; every array has one entry for each disturbed element of D.

    Attributes:
        case, row, column: the element.
        part: what is struck, an index into `PARTS`.
        place: which of these words of a unit: the product or the code within a step, the term (of C: `Anatomy.inputs`),
            the node; 0 for results.
        step: the step in which it is struck; -1: every one.
        keep, invert: uint64: the word w becomes w & keep ^ invert. So bits are flipped, or stuck.
    """

    case: Indices
    row: Indices
    column: Indices
    part: NDArray[np.integer[Any]]
    place: NDArray[np.int64]
    step: NDArray[np.int64]
    keep: Words
    invert: Words

    def __len__(self) -> int:
        return len(self.case)

    def __getitem__(self, index: Any) -> Disturbance:
        return Disturbance(*(getattr(self, one.name)[index] for one in fields(self)))


def disturbed(how: Sum, operands: Operands, what: Disturbance) -> tuple[Bits, NDArray[np.bool_]]:
    """The disturbed elements of D, uint32 [entry], and whether any word of each entry became another one.

    Args:
        how: the sum, one that `anatomy.sums_on_unit` accepts.
        operands: matrices of all cases that `what` names.
        what: the disturbed elements.
    """
    one, anatomy = replace(how, m=1, n=1), Anatomy(how)
    d, changed = np.empty(len(what), np.uint32), np.zeros(len(what), np.bool_)
    for part in blocks(len(what), max(1, _BLOCK_PRODUCTS // how.stored)):
        struck = _Struck(anatomy, what[part])
        chosen = struck.codes(_at(operands, what[part]))
        d[part] = struck.output(add_block(one, chosen, struck).reshape(-1))
        changed[part] = struck.changed
    return d, changed


def _at(operands: Operands, what: Disturbance) -> Operands:
    """The operands of the named elements of D: one row of A, one column of B, one element of C for each."""
    case, row, column = what.case, what.row, what.column
    given = operands
    return Operands(
        given.a[case, row][:, None],
        given.b[case, :, column][:, :, None],
        given.c[case, row, column][:, None, None],
        None if given.codes is None else given.codes[case, row][:, None],
        None if given.scale_a is None else given.scale_a[case, row][:, None],
        None if given.scale_b is None else given.scale_b[case, column][:, None],
    )


class _Struck:
    """The disturbances of one block, as the hooks of its sum, in which every entry is an output."""

    def __init__(self, anatomy: Anatomy, what: Disturbance) -> None:
        self.anatomy, self.what, self.how = anatomy, what, anatomy.how
        self.changed = np.zeros(len(what), np.bool_)
        self._parts = {PARTS[number] for number in np.unique(what.part).tolist()}

    def _hit(self, part: str, step: int, places: int) -> Indices:
        """The entries whose word of this part is struck in a step that has so many of these words."""
        what = self.what
        if part not in self._parts:
            return np.zeros(0, np.intp)
        here = (what.part == PARTS.index(part)) & (what.place < places)
        return np.flatnonzero(here & ((what.step < 0) | (what.step == step)))

    def _become(self, hit: Indices, words: Words, mask: Any) -> Words:
        """The words after the disturbance; bits outside of the mask do not exist."""
        exist = np.asarray(mask, np.uint64)
        after: Words = (words & (self.what.keep[hit] | ~exist)) ^ (self.what.invert[hit] & exist)
        self.changed[hit] |= after != words
        return after

    # As hooks, and before and after the sum

    def codes(self, operands: Operands) -> Operands:
        """The operands with what the disturbed select lines make of the codes."""
        sparsity = self.how.sparsity
        if operands.codes is None or sparsity is None:
            return operands
        codes, mask = operands.codes.copy(), (1 << sparsity.code_bits) - 1
        for step, columns in enumerate(self.how.steps):
            chunks = np.array(columns[:: sparsity.stored], np.intp) // sparsity.stored
            hit = self._hit("mux", step, len(chunks))
            at = chunks[self.what.place[hit]]
            codes[hit, 0, at] = self._become(hit, codes[hit, 0, at].astype(np.uint64), mask)
        return replace(operands, codes=codes)

    def _products(self) -> list[tuple[Indices, Indices]]:
        """By step: the entries whose product is struck, and the number of that product in order of summation."""
        first, found = 0, []
        for step, length in enumerate(self.anatomy.lengths):
            hit = self._hit("multiplier", step, length)
            found.append((hit, first + self.what.place[hit]))
            first += length
        return found

    def products(self, left: Decoded, right: Decoded, products: Decoded) -> None:
        anatomy = self.anatomy
        for hit, at in self._products():
            if not len(hit):
                continue
            value, exponent = products.value[0, at, hit], np.zeros(len(hit), np.int64)
            factors = zip((left.exponent[at, hit], right.exponent[0, at, hit]), anatomy.factors, strict=True)
            for found, element in factors:
                exponent += np.where(found <= NO_EXPONENT // 2, 1 - element.bias, found)
            finite = np.isfinite(value)
            significand = np.abs(np.ldexp(np.where(finite, value, 0.0), anatomy.places - exponent)).astype(np.uint64)
            field = (exponent - anatomy.lowest).astype(np.uint64)
            sign = np.signbit(value).astype(np.uint64)
            word = significand | field << np.uint64(EXPONENT_BIT) | sign << np.uint64(SIGN_BIT)
            exist = np.where(finite, anatomy.product_mask, np.where(np.isnan(value), 0, 1 << SIGN_BIT))
            word = self._become(hit, word, exist.astype(np.uint64))
            significand = word & np.uint64((1 << EXPONENT_BIT) - 1)
            field = word >> np.uint64(EXPONENT_BIT) & np.uint64((1 << SIGN_BIT - EXPONENT_BIT) - 1)
            exponent = field.astype(np.int64) + anatomy.lowest
            size = np.where(finite, np.ldexp(significand.astype(np.float64), exponent - anatomy.places), np.abs(value))
            products.value[0, at, hit] = np.where(word >> np.uint64(SIGN_BIT) & np.uint64(1), -size, size)
            products.exponent[0, at, hit] = np.where(finite & (significand != 0), exponent, NO_EXPONENT)

    def integer_products(self, products: NDArray[np.int32]) -> None:
        for hit, at in self._products():
            width = np.full(len(hit), self.anatomy.product_bits)
            products[0, at, hit] = self._numbers(hit, products[0, at, hit].astype(np.int64), width)

    def _numbers(self, hit: Indices, numbers: NDArray[np.int64], width: NDArray[np.int64]) -> NDArray[np.int64]:
        """What becomes of whole numbers of so many bits, the sign among them where there are negative ones."""
        mask = (np.uint64(1) << width.astype(np.uint64)) - np.uint64(1)
        after = self._become(hit, numbers.view(np.uint64) & mask, mask).view(np.int64)
        top = np.int64(1) << (width - 1)
        signed: NDArray[np.int64] = (after ^ top) - top
        return signed if self.anatomy.signed else np.where(width > self._unsigned, signed, after)

    @property
    def _unsigned(self) -> int:
        """The widest word that has no sign where products have none: what C takes part in is wider, or s32."""
        return int(self.anatomy.node_widths()[:-1].max(initial=self.anatomy.term_bits))

    def shift(self, step: int, terms: NDArray[Any], addend: NDArray[Any]) -> NDArray[Any]:
        by = np.zeros(addend.shape, addend.dtype)
        for part, words in (("term", self._terms), ("adder", self._sums)):
            if part in self._parts:
                hit, values, width = words(step, terms, addend)
                by[0, hit] += self._change(hit, values, width)
        return by

    def _terms(
        self, step: int, terms: NDArray[Any], addend: NDArray[Any]
    ) -> tuple[Indices, NDArray[Any], NDArray[np.int64]]:
        """The entries whose term is struck, these terms, and how many bits they have."""
        anatomy, place = self.anatomy, self.what.place
        hit = self._hit("term", step, anatomy.inputs + 1)
        hit = hit[(place[hit] == anatomy.inputs) | (place[hit] < terms.shape[1])]
        of_c = place[hit] == anatomy.inputs
        product = terms[0, np.where(of_c, 0, place[hit]), hit]
        return hit, np.where(of_c, addend[0, hit], product), anatomy.term_widths()[place[hit]]

    def _sums(
        self, step: int, terms: NDArray[Any], addend: NDArray[Any]
    ) -> tuple[Indices, NDArray[Any], NDArray[np.int64]]:
        """The entries whose adder is struck, the sums that it gives, and how many bits they have."""
        anatomy, place = self.anatomy, self.what.place
        hit = self._hit("adder", step, anatomy.leaves)
        hit = hit[anatomy.spans[place[hit], 0] < terms.shape[1]]
        spans, numbers = anatomy.spans[place[hit]], np.arange(terms.shape[1])[:, None]
        added = (numbers >= spans[:, 0]) & (numbers < spans[:, 1])
        with np.errstate(invalid="ignore"):
            total = np.where(added, terms[0, :, hit].T, 0).sum(axis=0)
            total = total + np.where(place[hit] == anatomy.leaves - 1, addend[0, hit], 0)
        return hit, total, anatomy.node_widths()[place[hit]]

    def _change(self, hit: Indices, values: NDArray[Any], width: NDArray[np.int64]) -> NDArray[np.int64]:
        """By how much whole numbers change; infinities and NaN do not."""
        finite = np.isfinite(values)
        by = np.zeros(len(hit), np.int64)
        numbers = values[finite].astype(np.int64)
        by[finite] = self._numbers(hit[finite], numbers, width[finite]) - numbers
        return by

    def result(self, step: int, patterns: Bits) -> Bits:
        return self._pattern("accumulator", step, patterns.copy()) if "accumulator" in self._parts else patterns

    def output(self, patterns: Bits) -> Bits:
        """What becomes of D, patterns [entry]."""
        d: Bits = self._pattern("output", 0, patterns[None])[0]
        return d

    def _pattern(self, part: str, step: int, patterns: Bits) -> Bits:
        hit = self._hit(part, step, 1)
        mask = self.how.d_type.mask
        patterns[0, hit] = self._become(hit, patterns[0, hit].astype(np.uint64), mask).astype(np.uint32)
        return patterns
