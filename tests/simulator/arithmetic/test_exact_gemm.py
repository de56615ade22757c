"""`exact_gemm` against Python fractions: every type, every result, every way that the sums take inside, and what is
hard to round."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise, permutations, product
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import isa
from isa.types import ELEMENT_TYPES, PACKED_E2M1, Bits, ElementType
from simulator.arithmetic import Decoded, canonical_nan, decode, exact_sum, infinity
from simulator.arithmetic import exact_gemm as matmul
from simulator.arithmetic.exact_gemm import exact_gemm
from simulator.arithmetic.exact_gemm.rounding import RESULTS, nearest, sum_exactly
from tests.golden import reference
from tests.support.cases import examples, over
from tests.support.dyadic import Dyadic

Array = NDArray[Any]
TYPES = ("f16", "bf16", "tf32", "f32", "e4m3", "e5m2", "e3m2", "e2m3", "e2m1")
F64 = ElementType("f64", 64, exponent=11, fraction=52)
TARGETS = {"f32": ELEMENT_TYPES["f32"], "f16": ELEMENT_TYPES["f16"], "bf16": ELEMENT_TYPES["bf16"], "f64": F64}
DTYPES = {"f32": np.uint32, "f16": np.uint16, "bf16": np.uint32, "f64": np.uint64}


def draw(rng: np.random.Generator, element: ElementType, shape: tuple[int, ...], kind: str) -> Bits:
    """Patterns: "bits" are any, "finite" any numbers, "near" numbers around 1, "few" near ones of few bits, so that
    sums cancel and tie."""
    patterns = rng.integers(0, 1 << element.bits, shape, np.uint64).astype(np.uint32)
    if kind == "bits":
        return patterns
    top = (1 << element.exponent) - 1
    fraction = rng.integers(0, 1 << element.fraction, shape)
    field = (
        rng.integers(0, top, shape)
        if kind == "finite"
        else np.clip(element.bias + rng.integers(-2, 3, shape), 0, top - 1)
    )
    if kind == "few":
        fraction &= 3 << max(element.fraction - 2, 0) & element.mask
    sign = rng.integers(0, 2, shape)
    return ((sign << element.exponent | field) << element.fraction | fraction).astype(np.uint32) << np.uint32(
        element.padding
    )


def exactly(a: list[float], b: list[float], c: float, result: str) -> int:
    """One sum in fractions, as the pattern of the type it is rounded to."""
    target = TARGETS[result]
    products = [(x, y) for x, y in zip(a, b, strict=True) if not (math.isfinite(x) and math.isfinite(y))]
    decided = sum((x * y for x, y in products), 0.0) + (0.0 if math.isfinite(c) else c)
    sign = 1 << (target.bits - 1)
    if math.isnan(decided):
        return canonical_nan(target)
    if math.isinf(decided):
        return infinity(target) | (sign if decided < 0 else 0)
    return rounded(sum((Dyadic.of(x) * Dyadic.of(y) for x, y in zip(a, b, strict=True)), Dyadic.of(c)), result)


def rounded(total: Fraction | Dyadic, result: str) -> int:
    """The pattern of a number, rounded once."""
    target = TARGETS[result]
    return reference.write(total, target, nearest=True) | (total.numerator < 0) << (target.bits - 1)


def expected(a: Array, b: Array, c: Array | None, result: str) -> Array:
    """Patterns of the whole product of float64 matrices; those of bf16 are moved up to where a float32 has them."""
    start = np.zeros((a.shape[0], b.shape[1])) if c is None else c
    found = [
        [exactly(row, column, float(start[i, j]), result) for j, column in enumerate(b.T.tolist())]
        for i, row in enumerate(a.tolist())
    ]
    patterns = np.array(found, DTYPES[result]).reshape(start.shape)
    return patterns << np.uint32(16) if result == "bf16" else patterns


def check(a: Array, b: Array, c: Array | None, result: str, found: Array) -> None:
    """Compares with the exact sums of float64 matrices, bit for bit."""
    wanted = expected(a, b, c, result)
    assert found.view(DTYPES[result]).shape == wanted.shape
    wrong = np.argwhere(found.view(DTYPES[result]) != wanted)
    assert not len(wrong), (
        f"{len(wrong)} of {wanted.size} wrong, first {wrong[0]}: {found[tuple(wrong[0])]!r}, pattern "
        f"{wanted[tuple(wrong[0])]:#x}"
    )


@pytest.fixture(params=["as it is", "tiles", "slices", "single elements"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Small matrices through what is meant for large ones."""
    if request.param != "as it is":
        for name in ("_TILE", "_CHUNK"):
            monkeypatch.setattr(matmul, name, 3)
    if request.param == "slices":
        monkeypatch.setattr(matmul, "_FEW", 0)
        monkeypatch.setattr(matmul, "_SHARE", 1 << 40)
    if request.param == "single elements":
        monkeypatch.setattr(matmul, "_UNIT", 1.0)  # an error bound that decides nothing
    return str(request.param)


@over("result", TARGETS)
@over("a_type", TYPES)
def test_types(a_type: str, result: str) -> None:
    for number, b_type in enumerate(TYPES):
        rng = np.random.default_rng([TYPES.index(a_type), number, list(TARGETS).index(result)])
        for kind, k in (("bits", 3), ("finite", 8), ("near", 17), ("few", 30)):
            a, b = draw(rng, ELEMENT_TYPES[a_type], (3, k), kind), draw(rng, ELEMENT_TYPES[b_type], (k, 2), kind)
            x, y = decode(a, ELEMENT_TYPES[a_type]).value, decode(b, ELEMENT_TYPES[b_type]).value
            check(x, y, None, result, exact_gemm(a, b, a_type=a_type, b_type=b_type, result=result))


@over("result", TARGETS)
@over("kind", ["bits", "finite", "near", "few", "cancel"])
def test_ways(way: str, kind: str, result: str) -> None:
    rng = np.random.default_rng(len(way + kind + result))
    for name in ("f16", "bf16", "tf32", "e5m2")[:: examples(1, 2)]:
        element = ELEMENT_TYPES[name]
        for k, addend in ((1, False), (7, True), (32, True), (33, False)):
            a, b = (draw(rng, element, shape, "finite" if kind == "cancel" else kind) for shape in ((5, k), (k, 4)))
            if kind == "cancel":
                a[:, k // 2 : k // 2 * 2] = a[:, : k // 2] ^ np.uint32(1 << element.sign_bit)
                b[k // 2 : k // 2 * 2] = b[: k // 2]
            x, y = decode(a, element).value, decode(b, element).value
            c = draw(rng, ELEMENT_TYPES["f32"], (5, 4), "near" if kind == "cancel" else kind) if addend else None
            start = decode(c, ELEMENT_TYPES["f32"]).value if c is not None else None
            found = exact_gemm(a, b, None if c is None else c.view(np.float32), a_type=name, b_type=name, result=result)
            check(x, y, start, result, found)


@settings(max_examples=examples(200), deadline=None)
@given(
    data=st.data(), a_type=st.sampled_from(TYPES), b_type=st.sampled_from(TYPES), result=st.sampled_from(list(TARGETS))
)
def test_any_patterns(data: st.DataObject, a_type: str, b_type: str, result: str) -> None:
    m, k, n = (data.draw(st.integers(0, high)) for high in (3, 6, 3))

    def patterns(element: ElementType, shape: tuple[int, int]) -> Bits:
        count = shape[0] * shape[1]
        return np.array(
            data.draw(st.lists(st.integers(0, element.mask), min_size=count, max_size=count)), np.uint32
        ).reshape(shape)

    a, b = patterns(ELEMENT_TYPES[a_type], (m, k)), patterns(ELEMENT_TYPES[b_type], (k, n))
    c = patterns(ELEMENT_TYPES["f32"], (m, n)).view(np.float32) if data.draw(st.booleans()) else None
    x, y = decode(a, ELEMENT_TYPES[a_type]).value, decode(b, ELEMENT_TYPES[b_type]).value
    with np.errstate(invalid="ignore"):
        start = None if c is None else c.astype(np.float64)
    check(x, y, start, result, exact_gemm(a, b, c, a_type=a_type, b_type=b_type, result=result))


def power(exponent: int, negative: bool = False) -> float:
    return -math.ldexp(1, exponent) if negative else math.ldexp(1, exponent)


HARD = [
    # powers of two that are added (each as a product of two bf16 numbers), the result, its type
    ([127 + 127, (127 + 127, 1), 0], 1.0, "f32"),  # 2^254 cancels and 1 remains
    ([254, (-266, 1)], math.inf, "f32"),
    (
        [128, (103, 1), (-266, 1)],
        float(np.finfo(np.float32).max),
        "f32",
    ),  # below the middle between the largest number and 2^128
    ([128, (103, 1)], math.inf, "f32"),  # that middle
    ([16, (4, 1), (-266, 1)], 65504.0, "f16"),
    ([16, (4, 1)], math.inf, "f16"),
    ([128, (119, 1), (-266, 1)], 255 * 2.0**120, "bf16"),
    ([128, (119, 1)], math.inf, "bf16"),
    ([(-266, 1)], -0.0, "f32"),
    ([-150], 0.0, "f32"),  # the middle between 0 and the smallest number goes to the even 0
    ([-150, -266], 2.0**-149, "f32"),
    ([-25], 0.0, "f16"),
    ([-25, -266], 2.0**-24, "f16"),
    ([(-25, 1), (-266, 1)], -(2.0**-24), "f16"),
    ([-134, -266], 2.0**-133, "bf16"),
    ([0, -24], 1.0, "f32"),  # tie, even below
    ([0, -24, -266], 1 + 2.0**-23, "f32"),
    ([0, -24, (-266, 1)], 1.0, "f32"),
    ([0, -23, -24], 1 + 2.0**-22, "f32"),  # tie, even above
    ([0, -23, -24, (-266, 1)], 1 + 2.0**-23, "f32"),
    ([0, -53], 1.0, "f64"),
    ([0, -53, -266], 1 + 2.0**-52, "f64"),
    ([0, -53, (-266, 1)], 1.0, "f64"),
    ([0, -52, -53], 1 + 2.0**-51, "f64"),
    ([0, (-54, 1)], 1.0, "f64"),  # tie below a power of two
    ([0, (-54, 1), (-266, 1)], 1 - 2.0**-53, "f64"),
    ([0, -53, -106, (-159, 1), (-266, 1)], 1 + 2.0**-52, "f64"),
    ([0, -53, (-106, 1), 53, (53, 1), -159], 1.0, "f64"),
    ([0, (0, 1)], 0.0, "f64"),
]


@over(("terms", "wanted", "result"), HARD)
def test_hard(way: str, terms: list[Any], wanted: float, result: str) -> None:
    signed = [t if isinstance(t, tuple) else (t, 0) for t in terms]
    left = [max(min(e, 127), e // 2) if e < 0 else min(e, 127) for e, _ in signed]
    a = np.array([[power(x, bool(negative)) for x, (_, negative) in zip(left, signed, strict=True)]])
    b = np.array([[power(e - x)] for x, (e, _) in zip(left, signed, strict=True)])
    many = np.repeat(a, 4, axis=0), np.repeat(b, 5, axis=1)
    found = exact_gemm(*many, a_type="bf16", b_type="bf16", result=result)
    assert set(found.ravel().tolist()) == {wanted}
    assert (np.signbit(found) == (math.copysign(1, wanted) < 0)).all()
    check(a, b, None, result, found[:1, :1])


def test_addend_decides(way: str) -> None:
    """C above, between and below all products, also where it cancels them."""
    a, b = np.array([[2.0**60, 2.0**-60, 2.0**-100]]), np.array([[2.0**60], [2.0**-60], [1.0]])
    for result, c in product(
        TARGETS, (2.0**127, -(2.0**120), 2.0**96, -(2.0**67), 1.0, -(2.0**-100), 2.0**-149, -(2.0**-149), 0.0, -0.0)
    ):
        start = np.array([[c]], np.float32)
        check(a, b, start, result, exact_gemm(a, b, start, a_type="bf16", b_type="bf16", result=result))


def test_addend_ties(way: str) -> None:
    """The middle between two results comes from the products or from C, and something far below from the other decides,
    or nothing does."""
    tiny = [2.0**-80, -(2.0**-80), 2.0**-130]
    for result, target in TARGETS.items():
        half = 2.0 ** -(target.fraction + 1)
        for sign in (-1, 0, 1):
            start = np.array([[sign * 2.0**-100]], np.float32)
            a, b = np.array([[1.0, half]]), np.ones((2, 1))
            check(a, b, start, result, exact_gemm(a, b, start, a_type="bf16", b_type="bf16", result=result))
            if result not in ("f16", "bf16"):
                continue
            start = np.array([[1 + half]], np.float32)
            for order in permutations(tiny):  # float64 loses the last, or finds it
                a, b = np.array([order]), np.array([[1.0 if abs(x) == tiny[0] else sign * 2.0**-70] for x in order])
                check(a, b, start, result, exact_gemm(a, b, start, a_type="tf32", b_type="tf32", result=result))


def test_against_exact_sum() -> None:
    rng = np.random.default_rng(3)
    for name, d in product(("f16", "bf16", "tf32", "e4m3"), ("f32", "f16")):
        element, target = ELEMENT_TYPES[name], ELEMENT_TYPES[d]
        a, b, c = (
            draw(rng, element, (9, 24), "bits"),
            draw(rng, element, (24, 11), "bits"),
            draw(rng, target, (9, 11), "finite"),
        )
        x, y = decode(a.T[None], element), decode(b.T[:, :, None], element)  # [n, k, m]
        with np.errstate(invalid="ignore"):
            products = Decoded(x.value * y.value, x.exponent + y.exponent)
        wanted = exact_sum(products, 2 * element.fraction, decode(c.T, target), target).T
        addend = c.astype(np.uint16) if d == "f16" else c
        found = exact_gemm(a, b, addend, a_type=name, b_type=name, result=d)
        assert np.array_equal(found.view(DTYPES[d]), wanted)


@pytest.mark.parametrize("result", TARGETS)
def test_many_samples(result: str) -> None:
    """2:4-sparse f16, normal numbers: sampled elements."""
    rng = np.random.default_rng(4)
    m, k, n = 200, 512, 180
    a, b = rng.standard_normal((m, k)).astype(np.float16), rng.standard_normal((k, n)).astype(np.float16)
    a *= isa.prune(a.astype(np.float64), isa.TWO_OF_FOUR).astype(np.float16)
    assert np.count_nonzero(a) <= m * k // 2
    c = rng.standard_normal((m, n)).astype(np.float32)
    found = exact_gemm(a, b, c, result=result)
    for i, j in zip(rng.integers(0, m, 150), rng.integers(0, n, 150), strict=True):
        check(
            a[i : i + 1].astype(float),
            b[:, j : j + 1].astype(float),
            c[i : i + 1, j : j + 1],
            result,
            found[i : i + 1, j : j + 1],
        )


@pytest.mark.parametrize(("name", "kind"), [("f16", "near"), ("bf16", "finite"), ("tf32", "finite")])
def test_long_sums(name: str, kind: str) -> None:
    element, k = ELEMENT_TYPES[name], 100_000
    rng = np.random.default_rng(5)
    a, b = draw(rng, element, (2, k), kind), draw(rng, element, (k, 2), kind)
    a[1, k // 2 :] = a[1, : k // 2] ^ np.uint32(1 << element.sign_bit)
    b[k // 2 :, 1], b[-1, 1] = b[: k // 2, 1], 0  # cancels but for one product
    x, y = decode(a, element).value, decode(b, element).value
    wanted = [[(int_sum(row, column)) for column in y.T] for row in x]
    for result in TARGETS:
        found = exact_gemm(a, b, a_type=name, b_type=name, result=result)
        for i, j in product(range(2), range(2)):
            pattern = rounded(wanted[i][j], result)
            assert int(found.view(DTYPES[result])[i, j]) == pattern << (16 if result == "bf16" else 0)


def int_sum(row: Array, column: Array) -> Fraction:
    """The exact sum by integers: multiples of 2^-600."""
    fractions, exponents = np.frexp(row * column)
    whole = (fractions * 2.0**53).astype(np.int64)
    return Fraction(sum(x << (e + 547) for x, e in zip(whole.tolist(), exponents.tolist(), strict=True) if x), 1 << 600)


def test_infinities_and_nan(way: str) -> None:
    inf, nan = np.inf, np.nan
    pool = np.array([0.0, -0.0, 1.0, -2.0, inf, -inf, nan])
    rng = np.random.default_rng(6)
    for result, weight in product(TARGETS, (0.0, 0.05, 0.5)):
        special = np.array([1, 1, 4, 4, weight, weight, weight / 4])
        a, b, c = (rng.choice(pool, shape, p=special / special.sum()) for shape in ((12, 4), (4, 13), (12, 13)))
        check(a, b, c, result, exact_gemm(a, b, c, a_type="f16", b_type="bf16", result=result))
        check(a, b, None, result, exact_gemm(a.astype(np.float16), b.astype(np.float32), result=result))


def test_empty() -> None:
    for m, k, n in ((0, 3, 2), (2, 3, 0), (0, 0, 0)):
        assert exact_gemm(np.ones((m, k), np.float16), np.ones((k, n), np.float16)).shape == (m, n)
    none = np.ones((2, 0), np.float16), np.ones((0, 2), np.float16)
    assert exact_gemm(*none).tolist() == [[0, 0], [0, 0]]
    c = np.array([[1 + 2.0**-11, -0.0], [65520, 2.0**-25]])
    found = exact_gemm(*none, c, result="f16")
    assert found.tolist() == [[1, 0], [math.inf, 0]]
    assert not np.signbit(found).any()


SCALED = [("ue8m0", "e4m3", 4), ("ue8m0", "e5m2", 2), ("ue8m0", "f32", 4), ("ue4m3", "e2m1", 4), ("ue4m3", "f16", 2)]


@pytest.mark.parametrize(("scale_type", "elements", "block"), SCALED)
def test_scales(scale_type: str, elements: str, block: int) -> None:
    element = ELEMENT_TYPES[elements]
    rng = np.random.default_rng(7)
    a, b = draw(rng, element, (5, 8), "finite"), draw(rng, element, (8, 6), "bits")
    for low, high in ((120, 135), (0, 256)) if scale_type == "ue8m0" else ((40, 60), (0, 256)):
        scale_a, scale_b = (
            rng.integers(low, high, shape).astype(np.uint8) for shape in ((5, 8 // block), (8 // block, 6))
        )
        factors = scale_values(scale_a, scale_type), scale_values(scale_b, scale_type)
        with np.errstate(invalid="ignore"):
            x = decode(a, element).value * np.repeat(factors[0], block, axis=1)
            y = decode(b, element).value * np.repeat(factors[1], block, axis=0)
        for result in TARGETS:
            types = {"a_type": elements, "b_type": elements, "result": result, "scale_type": scale_type, "block": block}
            check(x, y, None, result, exact_gemm(a, b, scale_a=scale_a, scale_b=scale_b, **types))
            check(x, decode(b, element).value, None, result, exact_gemm(a, b, scale_a=scale_a, **types))


def scale_values(patterns: Array, scale_type: str) -> Array:
    """By ml_dtypes."""
    if scale_type == "ue8m0":
        return patterns.view(ml_dtypes.float8_e8m0fnu).astype(np.float64)
    return (patterns & 0x7F).view(ml_dtypes.float8_e4m3fn).astype(np.float64)


def test_dtypes() -> None:
    """Arrays of ml_dtypes, of wider floats and of patterns hold the same numbers."""
    rng = np.random.default_rng(8)
    for name, dtype in (
        ("bf16", ml_dtypes.bfloat16),
        ("e4m3", ml_dtypes.float8_e4m3fn),
        ("e5m2", ml_dtypes.float8_e5m2),
        ("e3m2", ml_dtypes.float6_e3m2fn),
        ("e2m3", ml_dtypes.float6_e2m3fn),
        ("e2m1", ml_dtypes.float4_e2m1fn),
    ):
        a, b = (rng.standard_normal(shape).astype(dtype) for shape in ((4, 6), (6, 5)))
        wanted = expected(a.astype(np.float64), b.astype(np.float64), None, "f32").view(np.float32)
        assert np.array_equal(exact_gemm(a, b), wanted)
        assert np.array_equal(exact_gemm(a.astype(np.float64), b.astype(np.float32), a_type=name, b_type=name), wanted)
        element = PACKED_E2M1 if name == "e2m1" else ELEMENT_TYPES[name]
        patterns = [x.view(np.uint16 if x.itemsize == 2 else np.uint8) for x in (a, b)]
        assert np.array_equal(exact_gemm(*patterns, a_type=element, b_type=element), wanted)
    scaled = exact_gemm(
        np.ones((1, 2), np.float16),
        np.ones((2, 1), np.float16),
        scale_a=np.array([[4]]).astype(ml_dtypes.float8_e8m0fnu),
        scale_type="ue8m0",
        block=2,
    )
    assert scaled.tolist() == [[8.0]]


def test_strided_views_and_operands_untouched() -> None:
    rng = np.random.default_rng(9)
    a, b = rng.standard_normal((6, 8)).astype(np.float16), rng.standard_normal((5, 8)).astype(np.float16)
    before = a.copy(), b.copy()
    found = exact_gemm(a[::2, ::-1], b.T[::-1])
    check(a[::2, ::-1].astype(float), b.T[::-1].astype(float), None, "f32", found)
    assert np.array_equal(a, before[0])
    assert np.array_equal(b, before[1])


def test_sums_with_an_error_are_certain_only_where_they_are() -> None:
    """Rounding is certain exactly where no sum within the error rounds differently; checked at the ends of the
    interval."""
    rng = np.random.default_rng(10)
    for result in TARGETS:
        terms = rng.choice([1.0, -1.0, 1.25, 3.0], (3, 400)) * 2.0 ** rng.choice(
            [0, -1, -12, -25, -54, -60, -110], (3, 400)
        )
        error = 2.0 ** rng.choice([-9.0, -30, -58, -120], 400)
        values, certain = sum_exactly(terms.copy(), error, RESULTS[result])
        assert certain.any()
        assert not certain.all()
        for n in range(400):
            total = sum(Fraction(x) for x in terms[:, n])
            low, high = rounded(total - Fraction(error[n]), result), rounded(total + Fraction(error[n]), result)
            found = int(values[n : n + 1].view(DTYPES[result])[0]) >> (16 if result == "bf16" else 0)
            if certain[n]:
                assert low == high == found
            elif low == high:  # too careful only close to a change
                wide = [
                    total + s * Fraction(error[n]) * (1 + Fraction(1, 1000)) + s * abs(total) * Fraction(1, 1 << 49)  # type: ignore[operator]
                    for s in (-1, 1)
                ]
                assert len({rounded(x, result) for x in wide}) == 2


@pytest.mark.parametrize("result", ["f16", "bf16", "f32"])
def test_nearest(result: str) -> None:
    """All numbers of the type (for 16 bits), the middles between them, and their float64 neighbours."""
    element = TARGETS[result]
    patterns = np.arange(0, infinity(element) + 1, 1 if element.bits == 16 else 99_991, dtype=np.uint32)
    below = patterns[: -1 if element.bits == 16 else None]
    numbers, following = decode(below, element).value, decode(below + np.uint32(1), element).value
    following = np.where(np.isinf(following), 2.0 ** (element.bias + 1), following)
    middle = numbers + (following - numbers) / 2
    shift = np.uint32(16 if result == "bf16" else 0)
    target = RESULTS[result]

    def patterns_of(x: Array) -> Array:
        return nearest(x, target).view(target.bits).astype(np.uint32) >> shift

    assert np.array_equal(patterns_of(numbers), below)
    assert np.array_equal(patterns_of(np.nextafter(middle, 0)), below)
    assert np.array_equal(patterns_of(np.nextafter(middle, np.inf)), below + 1)
    assert np.array_equal(patterns_of(middle), below + (below & 1))
    assert np.array_equal(patterns_of(-middle), below + (below & 1) | np.uint32(1 << (element.bits - 1)))


ONES = np.ones((2, 4), np.float16)
F32_ONES = np.ones((2, 4), np.float32)
SCALE = np.full((2, 2), 127, np.uint8)


@over(
    ("a", "b", "options", "message"),
    [
        (ONES[0], ONES.T, {}, "a has shape"),
        (ONES, ONES.T[None], {}, "b has shape"),
        (ONES, ONES, {}, "a has 4 columns and b 2 rows"),
        (ONES, ONES.T, {"c": np.zeros((2, 3))}, "c has shape"),
        (ONES, ONES.T, {"c": np.full((2, 2), 1 + 2.0**-40)}, "c holds 1.0000000000009095, which is no value of f32"),
        (ONES, ONES.T, {"result": "tf32"}, "unknown type of result 'tf32'"),
        (ONES, ONES.T, {"a_type": "f17"}, "unknown element type 'f17'"),
        (ONES, ONES.T, {"a_type": "s8"}, "not a floating-point type"),
        (ONES.astype(np.int32), ONES.T, {}, "a has dtype int32"),
        (ONES.astype(np.int32), ONES.T, {"a_type": "f16"}, "a has dtype int32"),
        (ONES.astype(np.uint16), ONES.T, {}, "a_type does not say of what"),
        (np.full((2, 4), 0x100, np.uint16), ONES.T, {"a_type": "e4m3"}, "no pattern of e4m3"),
        (ONES, ONES.T + 449, {"b_type": "e4m3"}, "b holds 450.0, which is no value of e4m3"),
        (ONES, ONES.T + np.float16(2**-10), {"b_type": "e4m3"}, "no value of e4m3"),
        (ONES, ONES.T * np.inf, {"b_type": "e4m3"}, "no value of e4m3"),
        (ONES, ONES.T * np.nan, {"b_type": "e2m1"}, "no value of e2m1"),
        (ONES, np.full((4, 2), 0.1), {}, "no value of f32"),
        (ONES, ONES.T, {"scale_a": SCALE, "block": 2}, "needs a type of scale factors"),
        (
            ONES,
            ONES.T,
            {"scale_a": SCALE, "scale_type": "e4m3", "block": 2},
            "needs a type of scale factors, not 'e4m3'",
        ),
        (ONES, ONES.T, {"scale_a": SCALE, "scale_type": "ue8m0"}, "blocks of None elements"),
        (
            ONES,
            ONES.T,
            {"scale_a": SCALE, "scale_type": "ue8m0", "block": 3},
            "blocks of 3 elements do not divide K = 4",
        ),
        (ONES, ONES.T, {"scale_a": SCALE, "scale_type": "ue8m0", "block": 4}, "scale_a has shape (2, 2)"),
        (ONES, ONES.T, {"scale_b": SCALE[:, :1], "scale_type": "ue8m0", "block": 2}, "scale_b has shape (2, 1)"),
        (ONES, ONES.T, {"scale_b": SCALE.astype(float), "scale_type": "ue8m0", "block": 2}, "does not hold ue8m0"),
        (
            F32_ONES,
            F32_ONES.T,
            {"scale_a": SCALE, "scale_b": SCALE, "scale_type": "ue4m3", "block": 2},
            "56 significant bits",
        ),
    ],
)
def test_errors(a: Array, b: Array, options: dict[str, Any], message: str) -> None:
    with pytest.raises(isa.IsaError) as caught:
        exact_gemm(a, b, **options)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_rounding_is_monotonic_in_one_addend() -> None:
    """A property that needs no reference: a growing C never lowers the result."""
    rng = np.random.default_rng(11)
    a, b = draw(rng, ELEMENT_TYPES["bf16"], (3, 40), "near"), draw(rng, ELEMENT_TYPES["bf16"], (40, 3), "near")
    results = [
        exact_gemm(a, b, np.full((3, 3), c, np.float32), a_type="bf16", b_type="bf16", result="f16")
        for c in np.linspace(-9, 9, 60)
    ]
    assert all((x <= y).all() for x, y in pairwise(results))
