"""The exact sum against Python fractions: random, adversarial and generated cases of every input and result type."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isa.types import ELEMENT_TYPES, Bits, ElementType
from simulator.arithmetic import Decoded, canonical_nan, decode, exact_sum, infinity
from tests.golden import reference
from tests.support.cases import examples, over

F16, F32, BF16, TF32, E4M3, E5M2 = (ELEMENT_TYPES[name] for name in ("f16", "f32", "bf16", "tf32", "e4m3", "e5m2"))
COMBINATIONS = [
    (F16, F16, F32), (F16, F16, F16), (BF16, BF16, F32), (TF32, TF32, F32),
    (E4M3, E5M2, F32), (E5M2, E4M3, F32), (E4M3, E4M3, F16), (E5M2, E5M2, F16),
]  # fmt: skip
KINDS = ("bits", "finite", "near one", "cancel", "subnormal", "large", "halfway", "special")
IDS = [f"{a}-{b}-{d}" for a, b, d in COMBINATIONS]


def draw(rng: np.random.Generator, kind: str, element: ElementType, shape: tuple[int, ...]) -> Bits:
    """Patterns of one kind of values."""
    sign = rng.integers(0, 2, shape) << (element.exponent + element.fraction)
    fraction = rng.integers(0, 1 << element.fraction, shape)
    top = (1 << element.exponent) - 1
    if kind == "bits":
        return rng.integers(0, 1 << element.bits, shape, np.uint64).astype(np.uint32)
    if kind == "subnormal":
        field = rng.integers(0, 2, shape)
    elif kind == "large":
        field = rng.integers(top - 2, top, shape)
    elif kind == "finite":
        field = rng.integers(0, top, shape)
    else:
        field = np.clip(element.bias + rng.integers(-2, 3, shape), 0, top - 1)
    if kind == "halfway":
        fraction = rng.choice(np.array([0, 1, (1 << element.fraction) - 1, 1 << (element.fraction - 1)]), shape)
        field = np.clip(
            element.bias + rng.choice(np.array([0, -1, -element.fraction - 1, -23, -24, -25, -12]), shape), 0, top - 1
        )
    patterns = sign | field << element.fraction | fraction
    if kind == "special":
        pool = np.array(
            [0, 1 << (element.exponent + element.fraction), top << element.fraction, top << element.fraction | 1]
        )
        patterns = np.where(rng.random(shape) < 0.1, rng.choice(pool, shape), patterns)
    return (patterns << element.padding).astype(np.uint32)


Types = tuple[ElementType, ElementType, ElementType]


def cases(rng: np.random.Generator, kind: str, types: Types, count: int, products: int) -> tuple[Bits, Bits, Bits]:
    """A, B [case, product] and C [case]; "cancel" repeats products with the other sign, in another place. `types`: of
    A, B and C."""
    a, b, d = types
    left, right, c = (
        draw(rng, kind, a, (count, products)),
        draw(rng, kind, b, (count, products)),
        draw(rng, kind, d, (count,)),
    )
    if kind == "cancel" and products > 1:
        half = products // 2
        left, right = draw(rng, "finite", a, (count, products)), draw(rng, "finite", b, (count, products))
        left[:, half : 2 * half] = left[:, :half] ^ np.uint32(1 << (a.bits - 1))
        right[:, half : 2 * half] = right[:, :half]
        c = np.where(rng.random(count) < 0.5, draw(rng, "subnormal", d, (count,)), c)
    return left, right, c


def simulate(left: Bits, right: Bits, c: Bits, types: Types) -> Bits:
    """The sum of each case; cases are outputs of one column of B."""
    a, b, d = types
    x, y = decode(left.T[None], a), decode(right.T[None], b)
    with np.errstate(invalid="ignore"):
        products = Decoded(x.value * y.value, x.exponent + y.exponent)
    return exact_sum(products, a.fraction + b.fraction, decode(c[None], d), d)[0]


@over("kind", KINDS)
@over(("a", "b", "d"), COMBINATIONS, ids=IDS)
def test_against_fractions(a: ElementType, b: ElementType, d: ElementType, kind: str) -> None:
    rng = np.random.default_rng([KINDS.index(kind), IDS.index(f"{a}-{b}-{d}")])
    part = examples(10, 5)
    for products, count in ((1, 15 * part), (2, 15 * part), (4, 10 * part), (16, 6 * part), (32, 2 * part)):
        left, right, c = cases(rng, kind, (a, b, d), count, products)
        expected = [
            reference.exact(x, y, z, reference.Types(a, b, d, d))
            for x, y, z in zip(left.tolist(), right.tolist(), c.tolist(), strict=True)
        ]
        found = simulate(left, right, c, (a, b, d))
        wrong = np.flatnonzero(found != np.array(expected, np.uint32))
        assert not len(wrong), (
            f"{len(wrong)} of {count} sums of {products} products, first: {left[wrong[0]]} * {right[wrong[0]]} + "
            f"{c[wrong[0]]:#x}"
        )


@settings(max_examples=examples(150), deadline=None)
@given(data=st.data(), choice=st.sampled_from(COMBINATIONS), products=st.integers(1, 8))
def test_any_patterns(data: st.DataObject, choice: tuple[ElementType, ElementType, ElementType], products: int) -> None:
    a, b, d = choice
    left, right = (data.draw(st.lists(st.integers(0, t.mask), min_size=products, max_size=products)) for t in (a, b))
    c = data.draw(st.integers(0, d.mask))
    found = simulate(np.array([left], np.uint32), np.array([right], np.uint32), np.array([c], np.uint32), choice)
    assert int(found[0]) == reference.exact(left, right, c, reference.Types(a, b, d, d))


def _bf16(exponent: int, negative: bool = False) -> int:
    return (negative << 15) | ((exponent + 127) << 7 if exponent >= -126 else 1 << (exponent + 133))


@over(
    ("terms", "c", "expected"),
    [
        ([(127, 127, False), (127, 127, True), (0, 0, False)], 0, 0x3F800000),  # 2^254 cancels and 1 remains
        ([(127, 127, False), (-133, -133, True)], 0, 0x7F800000),  # overflow
        (
            [(127, 1, False), (103, 0, True), (-133, -133, True)],
            0,
            0x7F7FFFFF,
        ),  # below the middle between the largest number and 2^128
        ([(127, 1, False), (103, 0, True)], 0, 0x7F800000),  # that middle itself
        ([(127, 1, True)], 0, 0xFF800000),
        ([(-133, -133, True)], 0, 0x80000000),  # rounds to zero and keeps its sign
        ([(-75, -75, False)], 0, 0x00000000),  # 2^-150: the middle between 0 and 2^-149 goes to the even 0
        ([(-75, -75, False), (-133, -133, False)], 0, 0x00000001),  # a little more than the middle
        ([(0, 0, False), (-24, 0, False)], 0, 0x3F800000),  # tie, even below
        ([(0, 0, False), (-24, 0, False), (-133, -133, False)], 0, 0x3F800001),  # sticky bit 266 places down
        ([(0, 0, False), (-24, 0, False), (-133, -133, True)], 0, 0x3F800000),
        ([(0, 0, False), (-23, 0, False), (-24, 0, False)], 0, 0x3F800002),  # tie, even above
        ([(0, 0, False), (0, 0, True)], 0x80000000, 0x00000000),  # exact zero is +0
        ([(0, 0, False)], 0xBF800000, 0x00000000),
    ],
)
def test_bf16_by_hand(terms: list[tuple[int, int, bool]], c: int, expected: int) -> None:
    left = np.array([[_bf16(x, negative) for x, _, negative in terms]], np.uint32)
    right = np.array([[_bf16(y) for _, y, _ in terms]], np.uint32)
    assert hex(simulate(left, right, np.array([c], np.uint32), (BF16, BF16, F32))[0]) == hex(expected)


@pytest.mark.parametrize("result", [F16, F32], ids=str)
def test_zeros_infinities_and_nan(result: ElementType) -> None:
    one, zero, minus, inf, nan = 0x3C00, 0x0000, 0x8000, 0x7C00, 0x7C01
    negative_infinity = infinity(result) | 1 << (result.bits - 1)
    table = [
        ((one, zero, minus, one), 1 << (result.bits - 1), 0),  # -0 and +0 terms and a -0 C: +0
        ((minus, one, minus, one), 1 << (result.bits - 1), 0),
        ((inf, one, one, one), 0, infinity(result)),
        ((inf, 0xBC00, one, one), 0, negative_infinity),
        ((inf, zero, one, one), 0, canonical_nan(result)),
        ((inf, one, inf, 0xBC00), 0, canonical_nan(result)),
        ((inf, one, one, one), negative_infinity, canonical_nan(result)),
        ((one, nan, one, one), 0, canonical_nan(result)),
        ((one, one, one, one), infinity(result) | 1, canonical_nan(result)),
        ((one, one, one, one), negative_infinity, negative_infinity),
    ]
    left = np.array([[t[0][0], t[0][2]] for t in table], np.uint32)
    right = np.array([[t[0][1], t[0][3]] for t in table], np.uint32)
    c = np.array([t[1] for t in table], np.uint32)
    assert simulate(left, right, c, (F16, F16, result)).tolist() == [t[2] for t in table]


def test_narrow_and_wide_sums_agree() -> None:
    """The int64 path and the superaccumulator must give the same bits: one far-away cancelling pair forces the
    latter."""
    rng = np.random.default_rng(3)
    left, right = draw(rng, "near one", BF16, (4000, 6)), draw(rng, "near one", BF16, (4000, 6))
    c = draw(rng, "near one", F32, (4000,))
    narrow = simulate(left, right, c, (BF16, BF16, F32))
    far = np.array([[_bf16(120), _bf16(120, True)]] * 4000, np.uint32)
    wide = simulate(
        np.hstack([left, far]), np.hstack([right, np.full((4000, 2), _bf16(120), np.uint32)]), c, (BF16, BF16, F32)
    )
    assert np.array_equal(narrow, wide)
