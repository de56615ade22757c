"""One element of D on a unit with a fault, by pure Python integers and fractions, one product after the other.

Written from the words of docs/faults_unit.md, apart from the simulator's arrays. Of the simulator it takes the numbers
of a rule (`SumRule`), no code. Operands must be finite; the result of a step need not be.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from isa.types import ElementType

Change = Callable[[int], int]
Number = tuple[int, int, int]  # sign, significand, exponent of the leading place


def same(word: int) -> int:
    return word


def read(pattern: int, element: ElementType) -> Number:
    """Sign, significand and exponent of a finite float."""
    pattern >>= element.padding
    fraction = pattern & (1 << element.fraction) - 1
    field = pattern >> element.fraction & (1 << element.exponent) - 1
    sign = pattern >> element.fraction + element.exponent & 1 if element.signed else 0
    if element.fraction == 0:  # a power of two
        return 0, 1, field - element.bias
    if field == 0:
        return sign, fraction, 1 - element.bias
    return sign, fraction | 1 << element.fraction, field - element.bias


def value(number: Number, places: int) -> Fraction:
    sign, significand, exponent = number
    return (-1) ** sign * significand * Fraction(2) ** (exponent - places)


def cut(number: Fraction) -> int:
    """Toward zero."""
    return int(abs(number)) * (1 if number >= 0 else -1)


def rounded(number: Fraction, element: ElementType, *, nearest: bool, kept: int) -> int:
    """The pattern of an f32 or f16: toward zero to `kept` fraction bits, or to nearest even."""
    if number == 0:
        return 0
    size = abs(number)
    exponent = (size.numerator.bit_length() - size.denominator.bit_length()) + 1
    while Fraction(2) ** exponent > size:
        exponent -= 1
    exponent = max(exponent, 1 - element.bias)
    scaled = size * Fraction(2) ** (kept - exponent)
    digits = int(scaled)
    rest = scaled - digits
    if nearest and (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and digits & 1)):
        digits += 1
    if digits == 0:
        return 0
    if digits >= 1 << kept + 1:
        digits, exponent = digits >> 1, exponent + 1
    full = element.fraction
    digits <<= full - kept
    if exponent > element.bias:
        pattern = ((1 << element.exponent) - 1) << full
    elif digits < 1 << full:
        pattern = digits
    else:
        pattern = exponent + element.bias << full | digits - (1 << full)
    return pattern | (number < 0) << element.bits - 1


def after_special(pattern: int, element: ElementType) -> int | None:
    """The sum of an infinity or a NaN and finite numbers; None for a finite pattern."""
    infinity = (1 << element.exponent) - 1 << element.fraction
    size = pattern & element.mask >> 1
    if size < infinity:
        return None
    return pattern if size == infinity else element.mask >> 1


def in_twos_complement(number: int, width: int, change: Change) -> int:
    word = change(number & (1 << width) - 1) & (1 << width) - 1
    return word - (1 << width) if word >> width - 1 else word


class Unit:
    """The unit of one element of D.

    Args:
        how: the sum (its rule, types and shape).
        site, place, step: the word that is struck; step -1: every one.
        change: what becomes of it.

    Attributes:
        tops: by step of floats: the exponent that its terms are aligned to.
    """

    def __init__(self, how: Any, site: str, place: int, step: int, change: Change) -> None:
        self.how, self.site, self.place, self.step, self.change = how, site, place, step, change
        self.tops: dict[int, int] = {}

    def struck(self, site: str, place: int, step: int) -> bool:
        return (site, place) == (self.site, self.place) and self.step in (-1, step)

    def product(self, a: int, b: int, slot: int, step: int) -> Number:
        types = [self.how.through or element for element in (self.how.a_type, self.how.b_type)]
        numbers = [read(widened(x, own, to), to) for x, own, to in zip((a, b), self.own, types, strict=True)]
        (sign_a, left, up), (sign_b, right, down) = numbers
        sign, significand, exponent = sign_a ^ sign_b, left * right, up + down
        if self.struck("multiplier", slot, step):
            lowest = sum(1 - element.bias for element in types)
            places = sum(element.fraction for element in types)
            highest = sum(top_exponent(element) for element in types)
            bits = (highest - lowest).bit_length()
            exist = (1 << places + 2) - 1 | (1 << bits) - 1 << 22 | 1 << 31
            before = significand | exponent - lowest << 22 | sign << 31
            word = self.change(before) & exist | before & ~exist
            sign, significand, exponent = word >> 31, word & (1 << 22) - 1, (word >> 22 & 511) + lowest
        return sign, significand, exponent

    @property
    def own(self) -> tuple[ElementType, ElementType]:
        return self.how.a_type, self.how.b_type

    def add(self, terms: list[int], total_of_c: int, inputs: int, step: int, width: int) -> int:
        """The tree: nodes numbered level by level, the last one adds C."""
        leaves = 1
        while leaves < inputs:
            leaves *= 2
        level = terms + [0] * (leaves - len(terms))
        used, node = len(terms), 0
        covers = 1
        while len(level) > 1:
            level = [x + y for x, y in zip(level[::2], level[1::2], strict=True)]
            covers, width = covers * 2, width + 1
            for i in range(len(level)):
                if self.struck("adder", node, step) and i * covers < used:
                    level[i] = in_twos_complement(level[i], width, self.change)
                node += 1
        total = level[0] + total_of_c
        if self.struck("adder", node, step):
            total = in_twos_complement(total, self.last_width(width), self.change)
        return total

    def last_width(self, width: int) -> int:
        return width + 1 if self.how.rule is not None else max(width, 32) + 1

    def floats(self, a: list[int], b: list[int], c: int, scales: list[Fraction], exponents: list[int]) -> int:
        """The pattern of D. `scales`, `exponents`: of block scales, for each product (packed: for each group)."""
        how, rule = self.how, self.how.rule
        places = sum((how.through or element).fraction for element in self.own)
        pattern = 0 if rule.add_last else c
        kind = how.d_type if rule.add_last else how.c_type
        nearest, kept = how.d_type.bits == 16, rule.kept if how.d_type.bits == 32 else how.d_type.fraction
        width = rule.fraction + (12 if rule.group else 3)
        inputs = how.stored // rule.group if rule.group else rule.step_bytes * 8 // (how.through or how.a_type).bits
        for step, columns in enumerate(how.steps):
            products = [self.product(a[k], b[k], slot, step) for slot, k in enumerate(columns)]
            values = [value(product, places) for product in products]
            tops: list[int | None] = [exponent if m else None for _, m, exponent in products]
            if rule.group:
                groups = [values[i : i + rule.group] for i in range(0, len(values), rule.group)]
                tops = [exponents[i] if any(group) else None for i, group in enumerate(groups)]
                values = [sum(group, Fraction(0)) * scales[i] for i, group in enumerate(groups)]
            elif scales:
                values = [x * scales[k] for x, k in zip(values, columns, strict=True)]
                tops = [None if x is None else x + exponents[k] for x, k in zip(tops, columns, strict=True)]
            before = read(pattern, kind)
            addend = value(before, kind.fraction)
            if before[1]:
                tops.append(before[2])
            floor = rule.lowest + (112 if how.d_type.bits == 16 else 0)
            top = self.tops[step] = max([floor, *(x for x in tops if x is not None)])
            scale = Fraction(2) ** (rule.fraction - top)
            terms, of_c = [cut(x * scale) for x in values], cut(addend * scale)
            for slot in range(len(terms)):
                if self.struck("term", slot, step):
                    terms[slot] = in_twos_complement(terms[slot], width, self.change)
            if self.struck("term", inputs, step):
                of_c = in_twos_complement(of_c, width, self.change)
            total = self.add(terms, of_c, inputs, step, width) / scale
            special = after_special(pattern, kind)
            pattern = rounded(total, how.d_type, nearest=nearest, kept=kept) if special is None else special
            kind = how.d_type
            if self.struck("accumulator", 0, step):
                pattern = self.change(pattern) & how.d_type.mask
        if rule.add_last:
            last = value(read(c, how.c_type), how.c_type.fraction) + value(read(pattern, kind), kind.fraction)
            special = after_special(pattern, kind)
            pattern = rounded(last, how.d_type, nearest=True, kept=kind.fraction) if special is None else special
        return self.change(pattern) & how.d_type.mask if self.site == "output" else pattern

    def integers(self, a: list[int], b: list[int], c: int) -> int:
        """The pattern of D of integers."""
        how = self.how
        bits = 1 if how.operation else how.a_type.bits + how.b_type.bits
        signed = any(element.name.startswith("s") for element in self.own)
        terms = []
        for slot, (x, y) in enumerate(zip(a, b, strict=True)):
            left, right = (whole(p, element) for p, element in zip((x, y), self.own, strict=True))
            product = left ^ right if how.operation == "xor.popc" else left * right
            for site in ("multiplier", "term"):
                if self.struck(site, slot, 0):
                    product = self.changed(product, bits, signed)
            terms.append(product)
        of_c = whole(c, how.c_type)
        inputs = max(len(terms), 32 * 8 // how.a_type.bits)
        if self.struck("term", inputs, 0):
            of_c = in_twos_complement(of_c, 32, self.change)
        unit = self if signed else Unsigned(how, self.site, self.place, self.step, self.change)
        total = unit.add(terms, of_c, inputs, 0, bits)
        if how.saturate:
            total = min(max(total, -(1 << 31)), (1 << 31) - 1)
        pattern = total & 0xFFFFFFFF
        return self.change(pattern) & 0xFFFFFFFF if self.site in ("output", "accumulator") else pattern

    def changed(self, number: int, bits: int, signed: bool) -> int:
        if signed:
            return in_twos_complement(number, bits, self.change)
        return self.change(number) & (1 << bits) - 1


class Unsigned(Unit):
    """A tree whose sums of products have no sign; that with C has one."""

    def add(self, terms: list[int], total_of_c: int, inputs: int, step: int, width: int) -> int:
        leaves = 1
        while leaves < inputs:
            leaves *= 2
        if self.site == "adder" and self.place < leaves - 1:
            first, size, node = 0, 2, self.place
            while node >= leaves // size:
                node, size = node - leaves // size, size * 2
            first = node * size
            inside = sum(terms[first : first + size])
            bits = width + size.bit_length() - 1
            after = self.change(inside) & (1 << bits) - 1 if first < len(terms) else inside
            return sum(terms) - inside + after + total_of_c
        return super().add(terms, total_of_c, inputs, step, width)


def whole(pattern: int, element: ElementType) -> int:
    pattern &= element.mask
    return pattern - (1 << element.bits) if element.name.startswith("s") and pattern >> element.bits - 1 else pattern


def top_exponent(element: ElementType) -> int:
    """The exponent of the largest finite number."""
    field = (1 << element.exponent) - 1
    return field - element.bias - (0 if element.finite_top or not element.nan else 1)


def widened(pattern: int, own: ElementType, to: ElementType) -> int:
    """A pattern as one of a wider type that holds the same number."""
    if own == to:
        return pattern
    number = value(read(pattern, own), own.fraction)
    sign = read(pattern, own)[0]
    return rounded(abs(number), to, nearest=True, kept=to.fraction) | sign << to.bits - 1
