"""The sums of tcgen05 against what others have published of a B200: words of D that github.com/sf-tensor/tcgen05 (MIT
licence, @8fce64d, tcgen05_model/validation.py) keeps as a B200 gave them, and the rule of summation that its MODEL.md
states, which its harness compares with a B200 in a million random cases of each type, dense and sparse.

The rule is written here a second time, from that text alone, on Python's integers. It is not ours: it takes the floor
of the window from the exponents of single products where ours takes those of scale factors, adds products of nvfp4 in
fours, and drops small groups of subnormal results.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
import pytest

from isa.types import PACKED_E2M1
from simulator.arithmetic.product import product
from tests.support.cases import exhaustive

Number = tuple[int, int, int]  # mantissa, exponent of its unit, exponent as stored
FLOATS = {"f16": (5, 10, 15), "bf16": (8, 7, 127), "tf32": (8, 10, 127), "f32": (8, 23, 127), "e4m3": (4, 3, 7),
          "e5m2": (5, 2, 15), "e2m3": (2, 3, 1), "e3m2": (3, 2, 3), "e2m1": (2, 1, 1)}  # fmt: skip
SELECTORS = (0x4, 0x8, 0xC, 0x9, 0xD, 0x6, 0xE)


def number(kind: str, word: int) -> Number:
    """A finite pattern; tf32 as the upper 19 of 32 bits."""
    exponent_bits, fraction, bias = FLOATS[kind]
    word = word >> 13 if kind == "tf32" else word
    sign = -1 if word >> (exponent_bits + fraction) & 1 else 1
    stored, low = word >> fraction & (1 << exponent_bits) - 1, word & (1 << fraction) - 1
    exponent = max(stored, 1) - bias
    return sign * (low | (stored > 0) << fraction), exponent - fraction, exponent


def factor(kind: str, word: int) -> Number:
    """A scale factor."""
    return (1, word - 127, word - 127) if kind == "ue8m0" else number("e4m3", word & 0x7F)


def cut(mantissa: int, exponent: int, quantum: int) -> int:
    """A number in units of 2^quantum, toward zero."""
    if exponent >= quantum:
        return mantissa << exponent - quantum
    return (abs(mantissa) >> quantum - exponent) * (1 if mantissa > 0 else -1)


def to_f32(mantissa: int, exponent: int) -> int:
    """The f32 pattern of a number, toward zero, without a negative zero."""
    if not mantissa:
        return 0
    highest = abs(mantissa).bit_length() - 1 + exponent
    quantum = max(highest, -126) - 23
    units = abs(cut(mantissa, exponent, quantum))
    sign = 0x80000000 if mantissa < 0 and units else 0
    return sign | (0x7F800000 if highest > 127 else units + (max(highest + 126, 0) << 23) if units else 0)


def exactly(terms: Sequence[Number]) -> tuple[int, int]:
    """The exact sum of numbers."""
    lowest = min((term[1] for term in terms if term[0]), default=0)
    return sum(term[0] << term[1] - lowest for term in terms if term[0]), lowest


def plain(products: Sequence[Number], c: Number) -> int:
    """Every term truncated 25 bits below the largest exponent."""
    live = [term[2] for term in (*products, c) if term[0]]
    if not live:
        return 0
    quantum = max(live) - 25
    return to_f32(sum(cut(*term[:2], quantum) for term in (*products, c)), quantum)


def packed(products: Sequence[Number], scales: Sequence[int], c: Number, nvfp4: bool) -> int:
    """Groups of products: of 16, and of 4 where nvfp4 is larger than C."""
    live = [(term[2], scale) for term, scale in zip(products, scales, strict=True) if term[0]]
    if not live:
        return to_f32(c[0], c[1])
    largest, scale_of_all = max(one for one, _ in live), max(scale for _, scale in live)
    small = c[0] != 0 and c[2] >= largest
    quantum = c[2] - 35 if small else max(largest - 39, scale_of_all - 35, c[2] - 39 if c[0] else -(10**6))
    size = 4 if nvfp4 and not small else 16
    start = cut(*c[:2], quantum)
    parts = []
    for first in range(0, len(products), size):
        group = [(term, scale) for term, scale in zip(products, scales, strict=True)][first : first + size]
        mine = [(term, scale) for term, scale in group if term[0]]
        own = quantum
        if not nvfp4 and c[0] and mine and c[2] >= max(term[2] for term, _ in mine):
            own = max(own, c[2] - 35)
        units = cut(*exactly([term for term, _ in group]), own) << own - quantum
        parts.append((units, max((scale for _, scale in mine), default=scale_of_all)))
    result = to_f32(start + sum(units for units, _ in parts), quantum)
    if nvfp4 or small or not 0 < result & 0x7FFFFFFF < 1 << 23:
        return result
    least = 1 << max(-174 - quantum, 0)
    return to_f32(start + sum(u for u, scale in parts if scale == scale_of_all or abs(u) >= least), quantum)


def published(
    kind: str, a: Sequence[int], b: Sequence[int], c: int, scales: Sequence[Sequence[int]], vector: str
) -> int:
    """D by the published rule: products of a row and a column, in the order in which A is stored."""
    products, exponents = [], []
    for index, (x, y) in enumerate(zip(a, b, strict=True)):
        parts = [number(kind, x), number(kind, y)]
        if scales:
            parts += [factor(vector, each[index * len(each) // len(a)]) for each in scales]
        mantissas, units, stored = zip(*parts, strict=True)
        products.append((prod(mantissas), sum(units), sum(stored)))
        exponents.append(sum(stored[2:]))
    accumulator = number("f32", c)
    if scales and kind == "e2m1" and len(a) > 32:
        return packed(products, exponents, accumulator, vector == "ue4m3")
    return plain(products, accumulator)


def ours(
    kind: str, a: Sequence[int], b: Sequence[int], c: int, scales: Sequence[Sequence[int]] = (), vector: str = "",
    *, packs: bool = False, other: str = "", result: str = "f32", codes: Sequence[int] = (),
) -> int:  # fmt: skip
    """D of one row and one column as sm_100a has it."""

    def patterns(words: Sequence[int], of: str) -> list[int]:
        return [word << 2 if of == "e2m1" and not packs else word for word in words]

    def array(words: Sequence[Any]) -> np.ndarray:
        return np.array(words, np.uint32)

    more: dict[str, Any] = {"codes": array([[codes]])} if codes else {}
    if scales:
        more |= {"scale_a": array([[scales[0]]]), "scale_b": array([scales[1]])[..., None], "scale_type": vector}
    types = (PACKED_E2M1, PACKED_E2M1) if packs else (kind, other or kind)
    rows, columns = array([[patterns(a, kind)]]), array([patterns(b, other or kind)])[..., None]
    return int(product(rows, columns, array([[[c]]]), family="tcgen05", target="sm_100a", a_type=types[0],
                       b_type=types[1], d_type=result, **more).item())  # fmt: skip


def finite_f32(rng: random.Random) -> int:
    bits = rng.getrandbits(32)
    return bits & 0x807FFFFF if bits & 0x7F800000 == 0x7F800000 else bits


def below(stop: int) -> Callable[[random.Random], int]:
    return lambda rng: rng.randrange(stop)


KEPT = (  # type, K, seed, elements, words of D that a B200 gave
    ("tf32", 8, 104, finite_f32, (0xFF800000, 0xFC347E7C)),
    ("bf16", 16, 104, finite_f32, (0x7F800000, 0x7F800000)),
    ("f16", 16, 103, lambda rng: rng.getrandbits(16), (0x7FFFFFFF, 0x49776BBA)),
    ("e4m3", 32, 104, below(0x7F), (0xEC63D12A, 0x452AF963)),
    ("e5m2", 32, 300, below(0x7C), (0x4D92B09A, 0x4C9C1102)),
    ("e2m3", 32, 301, below(0x40), (0xC29DD800, 0x449D14C1)),
    ("e3m2", 32, 302, below(0x40), (0x52C9EC63, 0xC33B7700)),
    ("e2m1", 32, 303, below(0x10), (0xC1FE0000, 0xDC3B62A3)),
)
Scaled = tuple[str, int, int, tuple[int, int], bool, tuple[int, ...]]
SCALED: tuple[Scaled, ...] = (  # type of the factors, seed, how many, their range, whether C is drawn, words
    ("ue4m3", 700, 4, (0, 0x77), True, (0x4429730B, 0xC30545D3)),
    ("ue8m0", 920, 2, (115, 140), False, (0x46BA8000,)),
    ("ue8m0", 921, 2, (115, 140), False, (0x40580000,)),
    ("ue8m0", 922, 4, (115, 140), False, (0xC6A88896,)),
)
EDGES = (  # type, K, 1.0, smallest subnormal, NaN, infinity (0: none), 1.0 times the subnormal
    ("tf32", 8, 0x3F800000, 0x2000, 0x7FC00000, 0x7F800000, 0x00002000),
    ("bf16", 16, 0x3F80, 1, 0x7FC0, 0x7F80, 0x00010000),
    ("f16", 16, 0x3C00, 1, 0x7E00, 0x7C00, 0x33800000),
    ("e4m3", 32, 0x38, 1, 0x7F, 0, 0x3B000000),
    ("e5m2", 32, 0x3C, 1, 0x7F, 0x7C, 0x37800000),
)
CARRY = (  # nvfp4 at the floor of the window: products truncated one by one would be one unit lower
    "eeb608f9ab39f7e02615a8647c6b1c6dbb86c8c5041f16f52465a7b701adbfe7",
    "6cb289b43d299c187263d29a59f5a8608dd2cc52834ff11aba5bf3bea571178a",
    0x094E5986, ((0x09, 0x7C, 0x6D, 0x44), (0x07, 0x78, 0x26, 0x79)), 0x49FCAFB7,
)  # fmt: skip


def test_words_that_a_b200_gave() -> None:
    for kind, k, seed, element, words in KEPT:
        rng = random.Random(seed)
        for word in words:
            a, b = [element(rng) for _ in range(k)], [element(rng) for _ in range(k)]
            shift = 16 if kind == "bf16" else 0
            assert ours(kind, [x >> shift for x in a], [x >> shift for x in b], finite_f32(rng)) == word, kind
    for vector, seed, count, limits, draws_c, kept in SCALED:
        rng = random.Random(seed)
        for word in kept:
            a, b = [rng.randrange(16) for _ in range(64)], [rng.randrange(16) for _ in range(64)]
            c = finite_f32(rng) if draws_c else 0
            scales = [[rng.randrange(*limits) for _ in range(count)] for _ in range(2)]
            assert ours("e2m1", a, b, c, scales, vector, packs=True) == word, seed
    rng = random.Random(910)
    a, b = [rng.randrange(16) for _ in range(32)], [rng.randrange(16) for _ in range(32)]
    assert ours("e2m1", a, b, 0, [[rng.randrange(115, 140)], [rng.randrange(115, 140)]], "ue8m0") == 0x3F094000
    a, b = ([int(digit, 16) for digit in text] for text in CARRY[:2])
    assert ours("e2m1", a, b, CARRY[2], CARRY[3], "ue4m3", packs=True) == CARRY[4]


def test_special_values_as_a_b200_gave_them() -> None:
    for kind, k, one, least, nan, infinity, product_of_least in EDGES:

        def first(a: int, b: int, c: int = 0, kind: str = kind, k: int = k) -> int:
            return ours(kind, [a] + [0] * (k - 1), [b] + [0] * (k - 1), c)

        assert first(0, 0, 0x80000000) == 0
        assert first(least, one) == product_of_least
        assert first(nan, one) == 0x7FFFFFFF
        if infinity:
            assert (first(infinity, one), first(infinity, 0)) == (0x7F800000, 0x7FFFFFFF)
    ones = [1] * 64
    assert ours("e2m1", ones, ones, 0, [[0x7F, 0x38, 0x38, 0x38], [0x38] * 4], "ue4m3", packs=True) == 0x7FFFFFFF
    assert ours("e2m1", ones[:32], ones[:32], 0, [[0xFF], [0x7F]], "ue8m0") == 0x7FFFFFFF
    assert ours("e2m1", ones[:32], [0x7F] + [0] * 31, 0, other="e4m3", result="f16") == 0x7FFF
    assert ours("e2m1", [0] * 32, [0] * 32, 0x7E00, other="e4m3", result="f16") == 0x7FFF


CASES = [(kind, k, 0, "") for kind, k in (("tf32", 8), ("bf16", 16), ("f16", 16))]
CASES += [
    (kind, 32, factors, "ue8m0" * factors) for kind in ("e4m3", "e5m2", "e2m3", "e3m2", "e2m1") for factors in (0, 1)
]
CASES += [("e2m1", 64, 2, "ue8m0"), ("e2m1", 64, 4, "ue8m0"), ("e2m1", 64, 4, "ue4m3")]


def finite(kind: str, rng: random.Random) -> int:
    """Any finite pattern."""
    exponent_bits, fraction, _ = FLOATS[kind]
    while True:
        word = rng.getrandbits(1 + exponent_bits + fraction) << (13 if kind == "tf32" else 0)
        stored = (word >> 13 if kind == "tf32" else word) >> fraction & (1 << exponent_bits) - 1
        if kind in ("e2m3", "e3m2", "e2m1") or (
            word & 0x7F != 0x7F if kind == "e4m3" else stored + 1 >> exponent_bits == 0
        ):
            return word


def drawn(middle: int, rng: random.Random) -> int:
    """An exponent of a scale factor, more or less near another."""
    return min(max(int(rng.gauss(middle, rng.choice((1, 9, 60)))), 0), 254)


@pytest.mark.parametrize("count", [40, pytest.param(3000, marks=exhaustive)])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize(("kind", "k", "factors", "vector"), CASES)
def test_the_published_rule(kind: str, k: int, factors: int, vector: str, sparse: bool, count: int) -> None:
    rng, packs = random.Random(count), k == 64
    chunk = 2 if kind == "tf32" else 8 if packs else 4
    for _ in range(count):
        stored = list(range(k))
        codes = []
        if sparse:
            codes = [rng.choice((0x4, 0xE) if kind == "tf32" else SELECTORS) for _ in range(2 * k // chunk)]
            pairs = [(chunk * i, (code & 3, code >> 2)) for i, code in enumerate(codes)]
            if kind == "tf32":
                stored = [base + (high == 3) for base, (_, high) in pairs]
            else:
                width = 2 if packs else 1
                stored = [base + width * at + i for base, both in pairs for at in both for i in range(width)]
        a, b = [finite(kind, rng) for _ in range(k)], [finite(kind, rng) for _ in range(2 * k if sparse else k)]
        middle = rng.randrange(20, 235)
        scales = [[drawn(middle, rng) for _ in range(factors)] for _ in "ab"]
        if vector == "ue4m3":
            scales = [[rng.randrange(0x7F) for _ in range(4)] for _ in "ab"]
        scales = scales if factors else []
        c = finite_f32(rng)
        if factors and rng.random() < 0.7:  # near the products
            near = sum(factor(vector, each[0])[2] for each in scales) + rng.randrange(-9, 12) + 127
            c = c & 0x807FFFFF | min(max(near, 0), 254) << 23
        expected = published(kind, a, [b[i] for i in stored], c, scales, vector)
        assert ours(kind, a, b, c, scales, vector, packs=packs, codes=codes) == expected
