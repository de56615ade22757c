"""Operands for dense instructions: random patterns, and sums that are hard to get right. Needs numpy and `isa`
alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isa.types import ElementType
from tests.golden.mmasim_cases import Instruction

Words = NDArray[np.uint64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]


class Width(NamedTuple):
    """Where an instruction's sum can go wrong: hints for choosing operands, not a model."""

    fraction: int  # bits kept below the alignment exponent
    floor: int  # smallest alignment exponent
    step: int  # products in a step
    kept: int  # bits of a result's fraction


class Dots(NamedTuple):
    """Dot products: a, b [case, k], c [case], scales [case, k / block]."""

    a: Words
    b: Words
    c: Words
    scale_a: Words
    scale_b: Words


def lowest(element: ElementType) -> int:
    """Exponent of the smallest normal number."""
    return 1 - element.bias


def highest(element: ElementType) -> int:
    """Exponent of the largest finite numbers."""
    top = (1 << element.exponent) - 1 - element.bias
    return top if element.finite_top or not element.nan else top - 1


def number(element: ElementType, negative: Flags, exponent: Integers, fraction: Words) -> Words:
    """Patterns of (-1)^negative * 1.fraction * 2^exponent, clipped to the largest number; too small ones lose their
    lowest bits."""
    low, high = lowest(element), highest(element)
    exponent = np.minimum(exponent, high)
    short = np.clip(low - exponent, 0, element.fraction + 1).astype(np.uint64)
    hidden = np.uint64(1 << element.fraction)
    significand = (fraction | hidden) >> short
    field = np.where(short > 0, 0, exponent - low).astype(np.uint64)  # the hidden one adds the missing 1
    magnitude = (field << np.uint64(element.fraction)) + significand
    if element.finite_top:
        magnitude = np.minimum(magnitude, np.uint64((1 << (element.exponent + element.fraction)) - 2))
    pattern = magnitude | negative.astype(np.uint64) << np.uint64(element.exponent + element.fraction)
    return pattern << np.uint64(element.padding)


def specials(element: ElementType) -> Words:
    """Infinities, NaN, zeros, smallest and largest numbers of both signs."""
    ones = (1 << element.exponent) - 1 << element.fraction
    last = (1 << element.exponent + element.fraction) - 1
    found = {0, 1, (1 << element.fraction) - 1, 1 << element.fraction, last, last - 1, ones, ones - 1, ones + 1}
    sign = 1 << element.exponent + element.fraction
    signs = (0, sign) if element.signed else (0,)
    return np.array(sorted((pattern & last | s) << element.padding for pattern in found for s in signs), np.uint64)


def random_bits(rng: np.random.Generator, element: ElementType, shape: tuple[int, ...]) -> Words:
    """Every pattern of the container equally often, padding too."""
    high = (1 << element.bits) - 1
    return rng.integers(0, high, shape, np.uint64, endpoint=True)


class Plan:
    """Operands in the making: what each product's exponent, sign and digits shall be; kinds of cases change them,
    `build` makes patterns."""

    def __init__(self, instruction: Instruction, width: Width, rng: np.random.Generator, cases: int) -> None:
        self.instruction, self.width, self.rng, self.cases = instruction, width, rng, cases
        self.k = instruction.mnk[2]
        self.shape = (cases, self.k)
        a, b, d = instruction.a_type, instruction.b_type, instruction.d_type
        self.span = (lowest(a) + lowest(b) - a.fraction - b.fraction, highest(a) + highest(b))
        self.blocks = self.k // instruction.block if instruction.block else 0
        reach = (self.span[0], self.span[1])
        if instruction.scale_type:
            scale = instruction.scale_type
            reach = (reach[0] + 2 * lowest(scale), reach[1] + 2 * highest(scale))
        self.bottom = max(reach[0], width.floor - 4, lowest(d) - d.fraction - 4)
        self.top = min(reach[1], highest(d))
        self.base = rng.integers(self.bottom, self.top, cases, endpoint=True)  # exponent of a case's largest products
        self.depth = np.zeros(self.shape, np.int64)  # of a product below the base
        self.live = np.ones(self.shape, np.bool_)  # other products are zero
        self.plain = rng.random(self.shape) < 0.3  # powers of two
        self.negative = rng.random(self.shape) < 0.5
        self.c_depth = np.zeros(cases, np.int64)
        self.c_live = rng.random(cases) < 0.8
        self.c_plain = rng.random(cases) < 0.3
        self.c_negative = rng.random(cases) < 0.5
        self.pair: tuple[Integers, Integers] | None = None  # these two products cancel
        self.scale_depth = np.zeros((cases, self.blocks), np.int64)

    def near(self, shape: tuple[int, ...], *places: int) -> Integers:
        """Depths around the given ones, two to each side."""
        return self.rng.choice(np.array(places), shape) + self.rng.integers(-2, 2, shape, endpoint=True)

    def depths(self, shape: tuple[int, ...]) -> Integers:
        """A mixture: shallow, about where bits are cut off, anywhere."""
        which = self.rng.random(shape)
        anywhere = self.rng.integers(0, self.width.fraction + 12, shape)
        return np.where(
            which < 0.4,
            self.rng.integers(0, 5, shape),
            np.where(which < 0.8, self.near(shape, self.width.fraction), anywhere),
        )

    def build(self) -> Dots:
        ins, rng = self.instruction, self.rng
        scale_a, scale_b, total = self._scales()
        exponent = (
            self.base[:, None] - self.depth - np.repeat(total, ins.block or 1, axis=1)
            if self.blocks
            else self.base[:, None] - self.depth
        )
        sides = []
        low = (lowest(ins.a_type) - ins.a_type.fraction, lowest(ins.b_type) - ins.b_type.fraction)
        high = (highest(ins.a_type), highest(ins.b_type))
        spread = max(1, min(high[0] - low[0], 40) // 4)
        first = np.clip(exponent // 2 + rng.integers(-spread, spread, self.shape, endpoint=True), low[0], high[0])
        second = np.clip(exponent - first, low[1], high[1])
        first = np.clip(exponent - second, low[0], high[0])
        flip = rng.random(self.shape) < 0.5
        for element, place, negative in ((ins.a_type, first, flip ^ self.negative), (ins.b_type, second, flip)):
            fraction = np.where(self.plain, 0, rng.integers(0, 1 << element.fraction, self.shape, np.uint64)).astype(
                np.uint64
            )
            sides.append(number(element, negative, place, fraction))
        a, b = sides
        dead = ~self.live
        which = rng.random(self.shape) < 0.5
        a = np.where(dead & which, a & self._sign(ins.a_type), a)
        b = np.where(dead & ~which, b & self._sign(ins.b_type), b)
        c = self._c()
        if self.pair is not None:
            rows = np.arange(self.cases)
            one, two = self.pair
            a[rows, two], b[rows, two] = a[rows, one], b[rows, one] ^ self._sign(ins.b_type)
        if ins.a_type.padding == 13:  # tf32: whatever is below its digits
            a |= rng.integers(0, 1 << 13, self.shape, np.uint64)
            b |= np.where(rng.random(self.shape) < 0.5, 0, rng.integers(0, 1 << 13, self.shape)).astype(np.uint64)
        return Dots(a, b, c, scale_a, scale_b)

    @staticmethod
    def _sign(element: ElementType) -> np.uint64:
        return np.uint64(1 << element.sign_bit)

    def _c(self) -> Words:
        element, rng = self.instruction.c_type, self.rng
        fraction = np.where(self.c_plain, 0, rng.integers(0, 1 << element.fraction, self.cases, np.uint64)).astype(
            np.uint64
        )
        c = number(element, self.c_negative, self.base - self.c_depth, fraction)
        return np.where(self.c_live, c, c & self._sign(element))

    def _scales(self) -> tuple[Words, Words, Integers]:
        """Patterns of both scales, and the sum of their exponents."""
        scale, rng = self.instruction.scale_type, self.rng
        shape = (self.cases, self.blocks)
        if scale is None:
            return np.zeros(shape, np.uint64), np.zeros(shape, np.uint64), np.zeros(shape, np.int64)
        middle = rng.integers(
            self.span[0] // 2, self.span[1], (self.cases, 1), endpoint=True
        )  # of a product of elements
        wanted = self.base[:, None] - middle - self.scale_depth
        low, high = lowest(scale) - scale.fraction, highest(scale)
        if scale.name == "ue8m0":
            low, high = -127, 127
        first = np.clip(wanted // 2 + rng.integers(-3, 3, shape, endpoint=True), low, high)
        second = np.clip(wanted - first, low, high)
        patterns = []
        for place in (first, second):
            if scale.name == "ue8m0":
                patterns.append((place + 127).astype(np.uint64))
            else:
                digits = rng.integers(0, 1 << scale.fraction, shape, np.uint64)
                patterns.append(number(scale, np.zeros(shape, np.bool_), place, digits))
        return patterns[0], patterns[1], first + second


def _bits(plan: Plan) -> Dots:
    """Uniformly random patterns."""
    ins, rng = plan.instruction, plan.rng
    a, b = random_bits(rng, ins.a_type, plan.shape), random_bits(rng, ins.b_type, plan.shape)
    scale = ins.scale_type
    shape = (plan.cases, plan.blocks)
    scales = [random_bits(rng, scale, shape) if scale else np.zeros(shape, np.uint64) for _ in range(2)]
    return Dots(a, b, random_bits(rng, ins.c_type, (plan.cases,)), *scales)


def _normal(plan: Plan) -> Dots:
    """Numbers about 1."""
    plan.base[:] = 2
    plan.depth = plan.rng.integers(0, 6, plan.shape)
    plan.c_depth = plan.rng.integers(-2, 6, plan.cases)
    plan.plain[:] = False
    return plan.build()


def _aligned(plan: Plan) -> Dots:
    """Exponents as far apart as the sum is wide."""
    plan.depth = plan.depths(plan.shape)
    plan.c_depth = plan.depths((plan.cases,)) - 2
    plan.scale_depth = np.where(plan.rng.random((plan.cases, 1)) < 0.5, 0, plan.depths(plan.scale_depth.shape))
    return plan.build()


def _cancelling(plan: Plan) -> Dots:
    """The largest products cancel: what is left shows how far down the rest was kept."""
    rng, width = plan.rng, plan.width
    plan.depth = plan.near(plan.shape, width.fraction, width.fraction, 4)
    plan.live = rng.random(plan.shape) < rng.choice([0.2, 0.6], (plan.cases, 1))
    plan.c_depth = plan.near((plan.cases,), width.fraction)
    plan.c_live = rng.random(plan.cases) < 0.5
    _pair(plan, rng.integers(0, plan.k, plan.cases), rng.integers(1, plan.k, plan.cases))
    return plan.build()


def _pair(plan: Plan, one: Integers, offset: Integers) -> None:
    rows = np.arange(plan.cases)
    two = (one + offset) % plan.k
    plan.depth[rows, one] = plan.depth[rows, two] = 0
    plan.live[rows, one] = plan.live[rows, two] = True
    plan.pair = (one, two)


def _boundary(plan: Plan) -> Dots:
    """As `_cancelling`, but with one half of the pair in another step, and small products that the rounding in between
    drops."""
    rng, width = plan.rng, plan.width
    plan.depth = plan.near(plan.shape, width.kept + 1, width.fraction)
    plan.live = rng.random(plan.shape) < rng.choice([0.2, 0.6], (plan.cases, 1))
    plan.c_live = rng.random(plan.cases) < 0.3
    plan.c_depth = plan.near((plan.cases,), width.kept)
    half = min(width.step, plan.k // 2)
    _pair(plan, rng.integers(0, half, plan.cases), half * rng.integers(1, max(plan.k // half, 2), plan.cases))
    return plan.build()


def _ties(plan: Plan) -> Dots:
    """C or a product, half a last place of the result, and a trifle on either side of it."""
    rng, width = plan.rng, plan.width
    plan.live[:] = False
    places = rng.permuted(np.tile(np.arange(plan.k), (plan.cases, 1)), axis=1)
    rows = np.arange(plan.cases)
    big, half, small = places[:, 0], places[:, 1], places[:, 2 % plan.k]
    by_c = rng.random(plan.cases) < 0.7
    plan.c_live, plan.c_depth = by_c | (rng.random(plan.cases) < 0.2), np.where(by_c, 0, width.kept)
    plan.live[rows, big] = ~by_c
    plan.live[rows, half] = True
    plan.plain[rows, half] = True
    plan.depth[rows, half] = width.kept + rng.integers(0, 3, plan.cases)
    trifle = rng.random(plan.cases) < 0.6
    plan.live[rows, small] |= trifle
    below = plan.near((plan.cases,), width.fraction, width.fraction + 1, width.fraction * 2)
    plan.depth[rows, small] = np.where(trifle, below, plan.depth[rows, small])
    return plan.build()


def _floor(plan: Plan) -> Dots:
    """Sums below or about the smallest alignment exponent, with terms about the last place that it keeps."""
    rng, width = plan.rng, plan.width
    result = plan.instruction.d_type
    plan.base = np.clip(width.floor + rng.integers(-4, 3, plan.cases), plan.bottom, plan.top)
    plan.depth = np.where(
        rng.random(plan.shape) < 0.5,
        plan.near(plan.shape, width.fraction),
        rng.integers(0, width.fraction + 4, plan.shape),
    )
    plan.live = rng.random(plan.shape) < rng.choice([0.15, 0.5], (plan.cases, 1))
    plan.c_live = rng.random(plan.cases) < 0.15
    plan.c_depth = rng.integers(-6, 20, plan.cases)
    # In most cases: a multiple of half the smallest number, and a trifle or two about the last place kept.
    sharp = rng.random(plan.cases) < 0.7
    plan.live &= ~sharp[:, None]
    places = rng.permuted(np.tile(np.arange(plan.k), (plan.cases, 1)), axis=1)
    rows = np.flatnonzero(sharp)
    smallest = lowest(result) - result.fraction
    coarse = rng.integers(smallest - 1, max(width.floor, smallest) + 1, len(rows))
    for place, exponent in ((0, coarse), (1, _last_kept(plan, len(rows))), (2, _last_kept(plan, len(rows)))):
        column = places[rows, place]
        plan.live[rows, column] = rng.random(len(rows)) < (1.0, 1.0, 0.3)[place]
        plan.plain[rows, column] |= place == 0
        plan.depth[rows, column] = plan.base[rows] - exponent
    if plan.blocks > 1:
        _floor_in_blocks(plan, rows, coarse)
    return plan.build()


def _floor_in_blocks(plan: Plan, rows: Integers, coarse: Integers) -> None:
    """With several scales to a row: the coarse product in one block, the trifle in another, as elements of few bits are
    never that far apart."""
    rng, size = plan.rng, plan.k // plan.blocks
    one = rng.integers(0, plan.blocks, len(rows))
    two = (one + rng.integers(1, plan.blocks, len(rows))) % plan.blocks
    column_one, column_two = (block * size + rng.integers(0, size, len(rows)) for block in (one, two))
    plan.live[rows] = False
    plan.live[rows, column_one] = plan.live[rows, column_two] = plan.plain[rows, column_one] = True
    plan.base[rows] = coarse
    plan.depth[rows, column_one] = 0
    plan.scale_depth[rows, two] = plan.depth[rows, column_two] = coarse - _last_kept(plan, len(rows))


def _last_kept(plan: Plan, count: int) -> Integers:
    return plan.width.floor - plan.width.fraction + plan.rng.integers(-2, 3, count)


def _groups(plan: Plan) -> Dots:
    """With several scales to a row: one block cancels and leaves its exponent, the others lie where their sums are cut;
    else as `_cancelling`."""
    rng, width = plan.rng, plan.width
    if plan.blocks < 2:
        return _cancelling(plan)
    size = plan.k // plan.blocks
    large = rng.integers(0, plan.blocks, plan.cases)
    rows = np.arange(plan.cases)
    plan.depth = np.zeros(plan.shape, np.int64)
    plan.live = rng.random(plan.shape) < rng.choice([0.1, 0.8], (plan.cases, 1))
    plan.live &= np.arange(plan.k) // size != large[:, None]
    plan.scale_depth = rng.integers(width.fraction - 3, width.fraction + 11, (plan.cases, plan.blocks))
    plan.scale_depth[rows, large] = 0
    plan.c_live = rng.random(plan.cases) < 0.3
    plan.c_depth = plan.near((plan.cases,), width.fraction)
    one, offset = rng.integers(0, size, plan.cases), rng.integers(1, size, plan.cases)
    two = large * size + (one + offset) % size
    one += large * size
    plan.live[rows, one] = plan.live[rows, two] = True
    plan.pair = (one, two)
    return plan.build()


def _special(plan: Plan) -> Dots:
    """Infinities, NaN, zeros and extreme numbers among ordinary ones."""
    ins, rng = plan.instruction, plan.rng
    dots = _normal(plan)
    rate = rng.choice([0.5, 2.0], (plan.cases, 1)) / plan.k

    def strewn(patterns: Words, element: ElementType, chance: NDArray[np.float64] | float) -> Words:
        return np.where(rng.random(patterns.shape) < chance, rng.choice(specials(element), patterns.shape), patterns)

    a, b = strewn(dots.a, ins.a_type, rate), strewn(dots.b, ins.b_type, rate)
    scales = [strewn(scale, ins.scale_type, 0.2) if ins.scale_type else scale for scale in (dots.scale_a, dots.scale_b)]
    return Dots(a, b, strewn(dots.c, ins.c_type, 0.2), *scales)


def _overflow(plan: Plan) -> Dots:
    """Sums about the largest number of the result."""
    rng = plan.rng
    plan.base[:] = plan.top
    few = rng.random((plan.cases, 1)) < 0.5
    plan.depth = np.where(few, plan.depths(plan.shape), rng.integers(-1, 4, plan.shape))
    plan.live = rng.random(plan.shape) < np.where(few, 0.3, 0.9)
    plan.negative = rng.random(plan.shape) < rng.choice([0.0, 0.1, 0.9, 1.0], (plan.cases, 1))
    plan.c_negative = np.where(rng.random(plan.cases) < 0.8, plan.negative[:, 0], plan.c_negative)
    plan.c_depth = rng.integers(0, 3, plan.cases)
    dots = plan.build()
    ends = specials(plan.instruction.c_type)  # an infinity meets sums beyond the largest number: it decides
    return dots._replace(c=np.where(rng.random(plan.cases) < 0.15, rng.choice(ends, plan.cases), dots.c))


def _zeros(plan: Plan) -> Dots:
    """Zeros of both signs, and few numbers."""
    rng = plan.rng
    plan.live = rng.random(plan.shape) < rng.choice([0.0, 0.1], (plan.cases, 1))
    plan.negative = rng.random(plan.shape) < rng.choice([0.5, 1.0], (plan.cases, 1))
    plan.c_live = rng.random(plan.cases) < 0.4
    plan.c_depth = plan.depths((plan.cases,))
    plan.c_negative = rng.random(plan.cases) < 0.6
    return plan.build()


def _subnormal(plan: Plan) -> Dots:
    """Subnormal operands, subnormal C."""
    ins, rng = plan.instruction, plan.rng
    dots = _aligned(plan)

    def small(patterns: Words, element: ElementType, chance: float) -> Words:
        low = rng.integers(0, 2 << element.fraction, patterns.shape, np.uint64) << np.uint64(element.padding)
        sign = patterns & np.uint64(1 << element.sign_bit)
        return np.where(rng.random(patterns.shape) < chance, low | sign, patterns)

    return dots._replace(
        a=small(dots.a, ins.a_type, 0.7), b=small(dots.b, ins.b_type, 0.4), c=small(dots.c, ins.c_type, 0.5)
    )


KINDS: dict[str, Callable[[Plan], Dots]] = {
    "random bits": _bits,
    "about 1": _normal,
    "aligned": _aligned,
    "cancelling": _cancelling,
    "step boundary": _boundary,
    "ties": _ties,
    "floor": _floor,
    "groups": _groups,
    "special": _special,
    "overflow": _overflow,
    "zeros": _zeros,
    "subnormal": _subnormal,
}


def dot_products(instruction: Instruction, width: Width, kind: str, rng: np.random.Generator, cases: int) -> Dots:
    """Dot products of a kind."""
    return KINDS[kind](Plan(instruction, width, rng, cases))


def matrices(
    instruction: Instruction, width: Width, kind: str, rng: np.random.Generator, cases: int, m: int, n: int
) -> NDArray[np.void]:
    """Cases of a kind as records (d still zero): the results on the diagonal are those of `dot_products`, the others
    mixtures of two."""
    size = max(m, n)
    dots = dot_products(instruction, width, kind, rng, cases * size)
    found = np.zeros(cases, instruction.record(m, n))
    a, b = (operand.reshape(cases, size, -1) for operand in (dots.a, dots.b))
    found["a"], found["b"] = a[:, :m], b[:, :n].transpose(0, 2, 1)
    c = dots.c.reshape(cases, size)
    index = np.where(np.eye(m, n, dtype=np.bool_), np.arange(m)[:, None], rng.integers(0, size, (m, n)))
    found["c"] = c[:, index]
    if instruction.scale_type:
        scale_a, scale_b = (scale.reshape(cases, size, -1) for scale in (dots.scale_a, dots.scale_b))
        found["scale_a"], found["scale_b"] = scale_a[:, :m], scale_b[:, :n].transpose(0, 2, 1)
    return found
