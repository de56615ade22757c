"""Conversions, against tables of exact numbers, ml_dtypes, NVIDIA's host code, an H100 (if recorded), and ptxas."""

from __future__ import annotations

import gzip
import itertools
import json
import math
import shutil
from collections.abc import Iterator
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from isa import IsaError
from isa.targets import parse_target
from isa.types import ELEMENT_TYPES, PACKED_E2M1, SCALE_TYPES, ElementType
from simulator.arithmetic.conversions import CONVERSIONS, legal_conversions
from simulator.arithmetic.convert import (
    ROUNDINGS,
    convert,
    from_float64,
    largest,
    nan_pattern,
    to_float64,
)
from tests.golden.convert_device import inputs
from tests.golden.make_convert import TARGETS, candidates, judge, load
from tests.support.cases import PROGRAMS, examples, over
from tests.support.paths import ROOT

Reals = NDArray[np.float64]
GOLDEN = ROOT / "tests" / "golden"
TYPES: dict[str, ElementType] = {**ELEMENT_TYPES, **SCALE_TYPES, "packed e2m1": PACKED_E2M1}
FLOATS = [name for name, type_ in TYPES.items() if type_.is_float]
NARROW_SOURCES = [name for name, type_ in TYPES.items() if type_.bits <= 16]
NANS = {
    "f16": 0x7FFF,
    "bf16": 0x7FFF,
    "tf32": 0x7FFFE000,
    "f32": 0x7FFFFFFF,
    "e4m3": 0x7F,
    "e5m2": 0x7F,
    "ue8m0": 0xFF,
    "ue4m3": 0x7F,
}
LARGEST = {
    "f16": 65504.0, "bf16": 2.0**127 * (2 - 2.0**-7), "tf32": 2.0**127 * (2 - 2.0**-10),
    "f32": 2.0**127 * (2 - 2.0**-23), "e4m3": 448.0,
    "e5m2": 57344.0, "e3m2": 28.0, "e2m3": 7.5, "e2m1": 6.0, "packed e2m1": 6.0, "ue8m0": 2.0**127, "ue4m3": 448.0,
}  # fmt: skip  # published: PTX ISA 9.0, 5.2.3; OCP Microscaling Formats 1.0, 5.3


# A second way to round: the numbers of a type in order, and where between two of them a number lies. No exponents, no
# shifts.
@cache
def numbers(name: str) -> Reals:
    """All finite magnitudes of a type in ascending order, from its definition; the index is the pattern without sign
    and padding."""
    type_ = TYPES[name]
    if name == "ue8m0":
        return np.array([2.0 ** (code - 127) for code in range(255)])
    found = []
    for field in range(1 << type_.exponent):
        start, step = (
            (0, 2.0 ** (1 - type_.bias))
            if field == 0
            else (1, 2.0 ** (field - type_.bias))
            if field - type_.bias < 1024
            else (1, 0.0)
        )
        found += [(start + digit / (1 << type_.fraction)) * step for digit in range(1 << type_.fraction)]
    return np.array([x for x in found if x <= LARGEST[name]])


def reference(values: Reals, name: str, rounding: str, satfinite: bool, relu: bool) -> NDArray[np.uint32]:
    """Numbers to patterns of a float type (not f32) by looking them up."""
    type_, table = TYPES[name], numbers(name)
    top = len(table) - 1
    negative = np.signbit(values) & type_.signed & ~np.isnan(values)
    magnitude = np.abs(values)
    if relu:
        magnitude, negative = np.where(np.signbit(values) & ~np.isnan(values), 0.0, magnitude), np.zeros_like(negative)
    after = table[-1] * 2 if name == "ue8m0" else 2 * table[-1] - table[-2]  # what would come next
    ladder = np.append(table, after)
    below = np.clip(np.searchsorted(table, magnitude, side="right") - 1, 0, top)
    exact, least = ladder[below] == magnitude, magnitude <= ladder[0]
    middle = (ladder[below] + ladder[below + 1]) / 2
    if rounding in ("rn", "rna"):
        tie_up = (
            True if rounding == "rna" or name == "ue8m0" else below % 2 == 1
        )  # 1.5 of ue8m0: 2 is even as a digit, 1 is not
        up = (magnitude > middle) | ((magnitude == middle) & tie_up)
    else:
        away = np.zeros_like(negative) if rounding == "rz" else negative == (rounding == "rm")
        up = away & ~exact
    code = np.where(least, 0, below + up)
    has_nan, has_infinity = name in NANS, type_.infinity
    code = np.where(np.isinf(magnitude), top + 1, code)
    if satfinite or not (has_nan or has_infinity):
        code = np.minimum(code, top)
    pattern = (code << type_.padding) | (negative.astype(np.int64) << type_.sign_bit)
    return np.where(np.isnan(values), NANS.get(name, top << type_.padding), pattern).astype(np.uint32)


def reference_f32(values: Reals, rounding: str, satfinite: bool, relu: bool) -> NDArray[np.uint32]:
    """Numbers to f32 by numpy's cast (to nearest) and one step to a neighbour where another rounding asks for it."""
    if relu:
        values = np.where(values <= 0, 0.0, values)
    with np.errstate(over="ignore"):
        near = values.astype(np.float32)
        low = np.where(near > values, np.nextafter(near, np.float32(-np.inf)), near)
        high = np.where(low < values, np.nextafter(low, np.float32(np.inf)), low)
    toward = np.where(np.signbit(values), high, low)
    away = np.where(np.signbit(values), low, high)
    if rounding == "rna":
        middle = (low.astype(np.float64) + high.astype(np.float64)) / 2
        near = np.where(values == middle, away, near)
    found = {"rn": near, "rna": near, "rz": toward, "rp": high, "rm": low}[rounding].astype(np.float32)
    found = np.where(found == 0, np.copysign(0.0, values), found).astype(np.float32)
    if satfinite:
        found = np.clip(found, -np.finfo(np.float32).max, np.finfo(np.float32).max)
    return np.where(np.isnan(values), np.uint32(NANS["f32"]), found.view(np.uint32))


_WHOLE = {
    "rn": round,
    "rz": math.trunc,
    "rp": math.ceil,
    "rm": math.floor,
    "rna": lambda x: int(math.copysign(math.floor(abs(x) + 0.5), x)),
}


def reference_integer(values: Reals, type_: ElementType, rounding: str, relu: bool, nan: int = 0) -> NDArray[np.uint32]:
    """Numbers to integers by Python's own functions."""
    low, high = (
        (-(1 << (type_.bits - 1)), (1 << (type_.bits - 1)) - 1)
        if type_.kind.name == "SIGNED"
        else (0, (1 << type_.bits) - 1)
    )

    def one(x: float) -> int:
        if math.isnan(x):
            return nan
        whole = (high if x > 0 else low) if math.isinf(x) else _WHOLE[rounding](x)  # type: ignore[operator]
        return min(max(whole, 0 if relu else low), high) & type_.mask

    return np.array([one(x) for x in values.tolist()], np.uint32)


def plain_values(name: str) -> Reals:
    """The numbers of all patterns of a type of at most 16 bits, from its definition."""
    type_ = TYPES[name]
    codes = np.arange(1 << type_.bits)
    if not type_.is_float:
        return np.where(
            (codes >> (type_.bits - 1) & 1) & (type_.kind.name == "SIGNED"), codes - (1 << type_.bits), codes
        ).astype(np.float64)
    field = (codes >> type_.padding) & ((1 << (type_.exponent + type_.fraction)) - 1)
    table = numbers(name)
    with_rest = np.concatenate([table, np.full((1 << (type_.exponent + type_.fraction)) - len(table), np.nan)])
    if type_.infinity:
        with_rest[len(table)] = np.inf
    sign = np.where((codes >> type_.sign_bit) & 1 & type_.signed, -1.0, 1.0)
    return with_rest[field] * sign


def same(found: NDArray[np.uint32], expected: NDArray[np.uint32], given: Any, what: str) -> None:
    wrong = np.flatnonzero(found != expected)
    shown = [f"{given[i]!r}: {found[i]:#x}, not {expected[i]:#x}" for i in wrong[:3]]
    assert not len(wrong), f"{what}: {len(wrong)} of {len(found)} wrong: {'; '.join(shown)}"


def moved(source: str, target: str, rounding: str, relu: bool) -> bool:
    """Whether ptxas makes the conversion of integer instructions, which keep NaN."""
    return (source, target, relu) == ("bf16", "f32", False) or (source, target, rounding, relu) == (
        "f32",
        "tf32",
        "rna",
        False,
    )


@over("source", NARROW_SOURCES)
def test_values_of_all_patterns(source: str) -> None:
    np.testing.assert_array_equal(to_float64(np.arange(1 << TYPES[source].bits), TYPES[source]), plain_values(source))


@over("name", FLOATS)
def test_largest_and_nan(name: str) -> None:
    assert to_float64(largest(TYPES[name]), TYPES[name]) == LARGEST[name]
    assert nan_pattern(TYPES[name]) == NANS.get(name, largest(TYPES[name]))
    assert np.isnan(to_float64(nan_pattern(TYPES[name]), TYPES[name])) == (name in NANS)


@over("source", NARROW_SOURCES, distinct=lambda source: 16 if TYPES[source].bits > 8 else source)
def test_every_pattern_to_every_type(source: str) -> None:
    step = examples(1, 17) if TYPES[source].bits > 8 else 1  # by default a part of 65,536
    patterns = np.arange(0, 1 << TYPES[source].bits, step, dtype=np.uint32)
    values = plain_values(source)[patterns]
    for target, rounding, satfinite, relu in itertools.product(TYPES, ROUNDINGS, (False, True), (False, True)):
        if not TYPES[target].is_float and (not TYPES[source].is_float or satfinite):
            continue  # between integers: below; from floats satfinite changes nothing
        found = convert(patterns, TYPES[source], TYPES[target], rounding, satfinite=satfinite, relu=relu)
        if not TYPES[target].is_float:
            if len(patterns) > 256 and (target in ("s4", "u4") or relu):
                continue  # slow: every call in Python
            expected = reference_integer(values, TYPES[target], rounding, relu)
        elif target == "f32":
            expected = reference_f32(values, rounding, satfinite, relu)
        else:
            expected = reference(values, target, rounding, satfinite, relu)
        if moved(source, target, rounding, relu):
            expected = np.where(np.isnan(values), patterns << np.uint32(16), expected)
        same(found, expected, patterns, f"{source} to {target}, {rounding}, satfinite {satfinite}, relu {relu}")


@over("target", ["s4", "u4", "s8", "u8", "s32"])
@over("source", ["s4", "u4", "s8", "u8", "s32"])
def test_between_integers(source: str, target: str) -> None:
    of, to = TYPES[source], TYPES[target]
    patterns = np.arange(1 << of.bits, dtype=np.uint32) if of.bits < 32 else inputs("s32")
    numbers = np.where(
        (patterns >> np.uint32(of.bits - 1)) & (of.kind.name == "SIGNED"),
        patterns.astype(np.int64) - (1 << of.bits),
        patterns,
    )
    low, high = (
        (-(1 << (to.bits - 1)), (1 << (to.bits - 1)) - 1) if to.kind.name == "SIGNED" else (0, (1 << to.bits) - 1)
    )
    np.testing.assert_array_equal(convert(patterns, of, to), numbers & to.mask)
    np.testing.assert_array_equal(convert(patterns, of, to, satfinite=True), np.clip(numbers, low, high) & to.mask)
    np.testing.assert_array_equal(convert(patterns, of, to, satfinite=True, relu=True), np.clip(numbers, 0, high))


# float32 and float64 sources
@cache
def adversarial(name: str) -> Reals:
    """Numbers, ties and limits of a type, and the float64 next to each: single rounding from float64 shows here."""
    table = numbers(name)
    if len(table) > 1 << 12:
        table = np.concatenate([table[:600], table[-600:], table[600:-600:61]])
    places = np.concatenate(
        [
            table,
            (table[1:] + table[:-1]) / 2,
            table[-1] * np.array([1 + 2.0**-12, 1.03125, 1.0625, 1.125, 1.25, 1.5, 2, 4]),
        ]
    )
    wide = [2.0**-149, 2.0**-150, 2.0**-127, 2.0**-126, 2.0**127, 2.0**128, 5e-324, 1e-310, 1e300, np.inf]
    around = np.concatenate([places, wide])
    near = np.concatenate([around, np.nextafter(around, np.inf), np.nextafter(around, 0.0)])
    return np.concatenate([near, -near, [np.nan, -0.0]])


@over("target", FLOATS)
def test_float64_is_rounded_once(target: str) -> None:
    values = adversarial("f16" if target == "f32" else target)
    if target == "f32":
        base = to_float64(np.random.default_rng(5).integers(0, 1 << 32, 10000, np.uint32), "f32")
        ties = (base + np.nextafter(base.astype(np.float32), np.float32(0)).astype(np.float64)) / 2
        values = np.concatenate([values, ties, np.nextafter(ties, np.inf), np.nextafter(ties, -np.inf)])
    for rounding, satfinite, relu in itertools.product(ROUNDINGS, (False, True), (False, True)):
        found = from_float64(values, TYPES[target], rounding, satfinite=satfinite, relu=relu)
        expected = (
            reference_f32(values, rounding, satfinite, relu)
            if target == "f32"
            else reference(values, target, rounding, satfinite, relu)
        )
        same(found, expected, values, f"f64 to {target}, {rounding}, satfinite {satfinite}, relu {relu}")


def test_float64_to_integers() -> None:
    values = inputs("f64").view(np.float64)[::7]
    values = np.concatenate(
        [
            values,
            [np.nan, np.inf, -np.inf, 0.49999999999999994, 2.5, -2.5, 127.5, -128.5, 2.0**31 - 0.5, -(2.0**31) - 0.5],
        ]
    )
    for target, rounding in itertools.product(("s8", "u8", "s32"), ROUNDINGS):
        if rounding == "rna":
            continue  # the reference would round 0.49999999999999994 + 0.5 itself
        expected = reference_integer(values, TYPES[target], rounding, False, nan=1 << (TYPES[target].bits - 1))
        same(from_float64(values, target, rounding), expected, values, f"f64 to {target}, {rounding}")
    assert from_float64([0.49999999999999994, 0.5, -0.5, 2.5], "s8", "rna").tolist() == [0, 1, 0xFF, 3]


def f32_adversarial(name: str) -> NDArray[np.uint32]:
    """f32 patterns at and next to the numbers, ties and limits of a type, and NaN of many payloads."""
    with np.errstate(over="ignore"):
        centre = adversarial(name).astype(np.float32).view(np.uint32)
    payloads = np.array(
        [0x7F800001, 0x7FBFFFFF, 0x7FC00000, 0x7F801FFF, 0x7F802000, 0xFF800001, 0xFFFFFFFF, 0x7F80], np.uint32
    )
    return np.unique(np.concatenate([centre, centre + np.uint32(1), centre - np.uint32(1), payloads]))


@over("target", [name for name in FLOATS if name != "f32"])
def test_f32_next_to_every_tie(target: str) -> None:
    patterns = f32_adversarial(target)
    check_f32(patterns, target)


def check_f32(patterns: NDArray[np.uint32], target: str) -> None:
    with np.errstate(invalid="ignore"):
        values = patterns.view(np.float32).astype(np.float64)
    for rounding, satfinite, relu in itertools.product(ROUNDINGS, (False, True), (False, True)):
        found = convert(patterns, "f32", TYPES[target], rounding, satfinite=satfinite, relu=relu)
        expected = reference(values, target, rounding, satfinite, relu)
        if moved("f32", target, rounding, relu):
            expected = np.where(np.isnan(values), found, expected)  # test_tf32_ties_away
        same(found, expected, patterns, f"f32 to {target}, {rounding}, satfinite {satfinite}, relu {relu}")


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.integers(0, (1 << 32) - 1), min_size=1, max_size=64),
    st.sampled_from([name for name in FLOATS if name != "f32"]),
)
def test_any_f32(patterns: list[int], target: str) -> None:
    check_f32(np.array(patterns, np.uint32), target)


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.floats(width=64), min_size=1, max_size=64), st.sampled_from(FLOATS), st.sampled_from(list(ROUNDINGS))
)
def test_any_float64(values: list[float], target: str, rounding: str) -> None:
    given_values = np.array(values)
    expected = (
        reference_f32(given_values, rounding, False, False)
        if target == "f32"
        else reference(given_values, target, rounding, False, False)
    )
    same(from_float64(given_values, TYPES[target], rounding), expected, given_values, f"f64 to {target}, {rounding}")


@settings(max_examples=examples(60), deadline=None)
@given(
    st.integers(0, (1 << 32) - 1), st.integers(1, 1 << 20), st.sampled_from(FLOATS), st.sampled_from(list(ROUNDINGS))
)
def test_order_is_kept(pattern: int, step: int, target: str, rounding: str) -> None:
    """A larger number never gives a smaller one; recorded runs are therefore checked by their ends alone."""
    both = np.array([pattern, pattern + step if pattern >> 31 == (pattern + step) >> 31 else pattern], np.uint32)
    if np.isnan(to_float64(both, "f32")).any():
        return
    first, second = np.abs(to_float64(both, "f32")) if not TYPES[target].signed else to_float64(both, "f32")
    low, high = to_float64(convert(both, "f32", TYPES[target], rounding, satfinite=True), TYPES[target])
    assert (low <= high) if first <= second else (low >= high)


def test_tf32_ties_away() -> None:
    """As ptxas 13.0 writes it for every target (read from its code): what is not finite is cut; a NaN may become
    infinity."""
    patterns = np.array(
        [0x3F801000, 0x3F800FFF, 0xBF801000, 0x7F7FEFFF, 0x7F7FF000, 0x1000, 0xFFF, 0x7F800001, 0x7FC01234, 0xFFFFFFFF],
        np.uint32,
    )
    away = [0x3F802000, 0x3F800000, 0xBF802000, 0x7F7FE000, 0x7F800000, 0x2000, 0, 0x7F800000, 0x7FC00000, 0xFFFFE000]
    assert convert(patterns, "f32", "tf32", "rna").tolist() == away
    bounded = convert(patterns, "f32", "tf32", "rna", satfinite=True)
    assert bounded.tolist() == [*away[:4], 0x7F7FE000, *away[5:7], 0x7F7FE000, 0x7FBFE000, 0xFFFFC000]
    assert convert(np.array([0x3F801FFF]), "tf32", "f32").tolist() == [
        0x3F800000
    ]  # an operand is read without its padding


# ml_dtypes
ML = {
    "bf16": ml_dtypes.bfloat16,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "e3m2": ml_dtypes.float6_e3m2fn,
    "e2m3": ml_dtypes.float6_e2m3fn,
    "packed e2m1": ml_dtypes.float4_e2m1fn,
    "ue8m0": ml_dtypes.float8_e8m0fnu,
}


@pytest.mark.parametrize("name", ML)
def test_values_are_those_of_ml_dtypes(name: str) -> None:
    bits = {"e3m2": 6, "e2m3": 6, "packed e2m1": 4, "bf16": 16}.get(name, 8)
    codes = np.arange(1 << bits, dtype=np.uint16 if bits == 16 else np.uint8)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(to_float64(codes, TYPES[name]), codes.view(ML[name]).astype(np.float64))


# Ranges of f16 and bf16 patterns that ml_dtypes 0.6.0 converts otherwise, and what it gives; anything else is the same.
_SIGNED_NAN = {
    "bf16": (0x7FC0, 0xFFC0),
    "e5m2": (0x7E, 0xFE),
    "e3m2": (0x20, 0),
    "e2m3": (0x20, 0),
    "packed e2m1": (8, 0),
}  # of NaN, of -NaN


def ml_differences(name: str, source: str) -> list[tuple[int, int, int]]:
    """(first pattern, last pattern, their result), in ascending order."""
    infinity = 0x7C00 if source == "f16" else 0x7F80
    if name == "e4m3":  # NaN keeps its sign
        return [(infinity | 0x8001, 0xFFFF, 0xFF)]
    if name != "ue8m0":  # NaN keeps its sign; without NaN it becomes a zero of the other sign
        plus, minus = _SIGNED_NAN[name]
        return [(infinity + 1, 0x7FFF, plus), (infinity | 0x8001, 0xFFFF, minus)]
    zero = (0, 0, 0xFF)
    if source == "f16":  # zero and negative numbers become NaN
        return [zero, (0x8000, 0xFBFF, 0xFF)]
    # 2^-127 * (1 .. 1.5), without ends, rounds up there although nearer to 2^-127; what is below -1.5 * 2^127 overflows
    # to NaN here too
    return [zero, (0x41, 0x5F, 1), (0x8000, 0xFF3F, 0xFF)]


@over("source", ["f16", "bf16"])
@over("name", ML)
def test_differences_from_ml_dtypes_are_the_listed_ones(name: str, source: str) -> None:
    """Rounded from float32, to nearest and without satfinite, for all 65,536 numbers. (From float64 ml_dtypes rounds
    twice.)"""
    codes = np.arange(1 << 16, dtype=np.uint16)
    with np.errstate(invalid="ignore"):
        x = codes.view(np.float16 if source == "f16" else ml_dtypes.bfloat16).astype(np.float32)
        theirs = x.astype(ML[name]).view(np.uint16 if name == "bf16" else np.uint8).astype(np.uint32)
    expected = convert(x.view(np.uint32), "f32", TYPES[name])
    for first, last, result in ml_differences(name, source):
        assert not (expected[first : last + 1] == result).any()
        expected[first : last + 1] = result
    same(theirs, expected, codes, f"{source} to {name}")


# NVIDIA's host code, and a GPU
@cache
def recorded(file: str) -> dict[str, NDArray[np.uint32]]:
    return load(GOLDEN / file)


def _recordings() -> Iterator[tuple[str, str]]:
    for path in sorted(GOLDEN.glob("convert_*.npz")):
        with np.load(path) as file:
            yield from (
                (path.name, name.removesuffix("|starts"))
                for name in file.files
                if name != "about" and not name.endswith("|values")
            )


def _what(key: str) -> tuple[str, str, str, bool, bool]:
    """Source, target, rounding, satfinite and relu of `TARGET.SOURCE.ROUNDING[.satfinite]` or of an opcode."""
    conversion = key.split("|")[1]
    words = conversion.split(".")
    if words[0] != "cvt":
        target, source, rounding, *rest = words
        return source, target, rounding, "satfinite" in rest, False
    *_, target, source = words
    rounding = words[1].removesuffix("i") if words[1] in {*ROUNDINGS, "rni", "rzi", "rmi", "rpi"} else "rn"
    return source, target, rounding, "satfinite" in words, "relu" in words


def _named(name: str) -> ElementType | str:
    plain = name.removesuffix("x2")
    return PACKED_E2M1 if plain == "e2m1" else plain


def _computed(patterns: NDArray[Any], key: str, host: bool = False) -> NDArray[np.uint32]:
    source, target, rounding, satfinite, relu = _what(key)
    if source == "f64":
        if host:
            return from_float64(patterns.view(np.float64), _named(target), rounding, satfinite=satfinite, relu=relu)
        return convert(patterns, "f64", _named(target), rounding, satfinite=satfinite, relu=relu)
    pairs = source.endswith("x2")
    bits = TYPES[source.removesuffix("x2")].bits if pairs else 0
    parts = [patterns, patterns >> np.uint32(bits)] if pairs else [patterns]
    done = [convert(part, _named(source), _named(target), rounding, satfinite=satfinite, relu=relu) for part in parts]
    return done[0] | done[1] << np.uint32(TYPES[target.removesuffix("x2")].bits) if pairs else done[0]


KNOWN_DIFFERENCES = {
    # cuda_fp8.h, from double only: NaN keeps its sign, and e5m2 a bit of its payload. From float and on the device it
    # is canonical.
    ("convert_cuda_host.npz", "list|e4m3.f64.rn"): {0xFFF8000000000000: 0xFF},
    ("convert_cuda_host.npz", "list|e4m3.f64.rn.satfinite"): {0xFFF8000000000000: 0xFF},
    ("convert_cuda_host.npz", "list|e5m2.f64.rn"): {0x7FF8000000000000: 0x7E, 0xFFF8000000000000: 0xFE},
    ("convert_cuda_host.npz", "list|e5m2.f64.rn.satfinite"): {0x7FF8000000000000: 0x7E, 0xFFF8000000000000: 0xFE},
}


@over(("file", "key"), _recordings())
def test_recorded_results(file: str, key: str) -> None:
    """A run is checked at its first, last and middle pattern; a list whole."""
    arrays = recorded(file)
    source, target, *_ = _what(key)
    if key.startswith("runs"):
        starts, values = arrays[f"{key}|starts"], arrays[f"{key}|values"]
        assert starts[0] == 0
        ends = np.append(starts[1:], np.uint32(0)) - np.uint32(1)
        patterns = np.concatenate([starts, ends, starts + (ends - starts) // np.uint32(2)])
        expected = np.tile(values, 3)
    else:
        expected = arrays[key]
        patterns = (
            inputs(source)
            if source in ("f64", "s32", "f32") or file != "convert_cuda_host.npz"
            else np.arange(len(expected), dtype=np.uint32)
        )
    if target in ("s8", "u8"):
        expected = expected & np.uint32(0xFF)  # a register holds them extended
    found = _computed(patterns, key, host=file == "convert_cuda_host.npz")  # whose double has one NaN
    wrong = found != expected
    differing = {int(p): int(e) for p, e in zip(patterns[wrong], expected[wrong], strict=True)}
    assert differing == KNOWN_DIFFERENCES.get((file, key), {})


@pytest.mark.exhaustive
@pytest.mark.parametrize("key", ["runs|e4m3.f32.rn.satfinite", "runs|ue8m0.f32.rp"])
def test_all_f32_patterns(key: str) -> None:
    """A part of each exponent's patterns; all with TCSIM_PROGRAMS=1000."""
    arrays = recorded("convert_cuda_host.npz")
    starts, values = arrays[f"{key}|starts"].astype(np.int64), arrays[f"{key}|values"]
    size = 1 << 23 if PROGRAMS >= 1000 else 1 << 18
    for base in range(0, 1 << 32, 1 << 23):
        patterns = np.arange(base, base + size, dtype=np.int64)
        first = int(np.searchsorted(starts, base, side="right")) - 1
        inside = np.searchsorted(starts, base + size)
        edges = np.append(np.maximum(starts[first:inside], base), base + size)
        same(_computed(patterns.astype(np.uint32), key), np.repeat(values[first:inside], np.diff(edges)), patterns, key)


# what instructions there are
def _verdicts() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(gzip.decompress((GOLDEN / "convert_ptxas.json.gz").read_bytes()))
    return found


def test_the_table_has_what_ptxas_takes() -> None:
    verdicts = _verdicts()
    accepted = verdicts["accepted"]
    rows = {opcode: row for row in CONVERSIONS for opcode in row.opcodes}
    assert len(rows) == sum(len(row.opcodes) for row in CONVERSIONS)
    assert set(rows) == set(accepted)
    assert set(rows) <= set(candidates())
    for opcode, row in rows.items():
        assert {name for name in TARGETS if parse_target(f"sm_{name}") in row.targets} == set(accepted[opcode]), opcode
        assert min(tuple(int(n) for n in version.split(".")) for version in accepted[opcode].values()) == row.ptx, (
            opcode
        )


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="no ptxas on PATH")
@pytest.mark.parametrize("target", ["80", "90a", "100a", "120f"])
def test_the_table_against_ptxas_itself(target: str) -> None:
    opcodes = list(candidates())
    assert judge(opcodes, target, "9.0") == {
        opcode for row in legal_conversions(f"sm_{target}") for opcode in row.opcodes
    }


def test_rows_can_be_asked_for() -> None:
    assert legal_conversions() == CONVERSIONS
    e4m3 = [row for row in legal_conversions("sm_89") if row.target == "e4m3" and row.source == "f32"]
    assert [(row.satfinite, row.relu, row.roundings, row.elements) for row in e4m3] == [("required", True, ("rn",), 2)]
    assert e4m3[0].opcodes == ("cvt.rn.satfinite.e4m3x2.f32", "cvt.rn.satfinite.relu.e4m3x2.f32")
    assert not [row for row in legal_conversions("sm_90a") if "e2m1" in (row.source, row.target)]
    assert {row.satfinite for row in CONVERSIONS if row.target == "ue8m0"} == {"optional"}
    with pytest.raises(IsaError, match="sm_999"):
        legal_conversions("sm_999")


def test_every_row_computes() -> None:
    for row in CONVERSIONS:
        for rounding in row.roundings:
            if "f64" in (row.source, row.target):
                continue
            assert convert(np.arange(4), _named(row.source), _named(row.target), rounding or "rn").shape == (4,)


# use
def test_shapes_and_bits_above_the_element() -> None:
    words = np.array([[0x12383C00, 0xFFFF3C00], [0x7C00, 0xFC00]], np.uint32)
    assert convert(words, "f16", "e4m3", satfinite=True).tolist() == [[0x38, 0x38], [0x7E, 0xFE]]
    for one in (
        convert(np.uint32(0x3F800000), "f32", "bf16"),
        convert(0x3C00, "f16", "bf16"),
        convert(1, "s32", "bf16"),
        convert(1, "s8", "bf16"),
    ):
        assert isinstance(one, np.ndarray)
        assert (one.shape, int(one)) == ((), 0x3F80)
    assert to_float64(0x3F800000, "f32").shape == to_float64(0x3C00, "f16").shape == ()
    assert convert(np.zeros((0, 3), np.uint32), "f32", "e4m3").shape == (0, 3)
    assert convert(np.full((3, 2**15), 0x3F800000, np.uint32), "f32", "f16").tolist() == [[0x3C00] * 2**15] * 3
    assert to_float64([[0x38], [0xB8]], "e4m3").tolist() == [[1.0], [-1.0]]
    assert (
        convert(np.arange(0x100)[::-2], "e4m3", "f16").tolist()
        == convert(np.arange(0x100), "e4m3", "f16")[::-2].tolist()
    )


def test_f64_patterns() -> None:
    patterns = inputs("f64")[::97]
    expected = from_float64(patterns.view(np.float64), "bf16", "rp")
    np.testing.assert_array_equal(convert(patterns, "f64", "bf16", "rp"), expected)
    np.testing.assert_array_equal(
        convert(patterns, ElementType("f64", 64, exponent=11, fraction=52), "bf16", "rp"), expected
    )


def test_results_do_not_alias_the_tables() -> None:
    first = convert(np.arange(256), "e4m3", "f16")
    first[:] = 0
    assert convert(np.array([0x38]), "e4m3", "f16").tolist() == [0x3C00]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("f16", "e9m9", "rn"), "no type 'e9m9'.*e4m3"),
        (("f16", "f64", "rn"), "to_float64"),
        (("f16", "e4m3", "rs"), "unknown rounding 'rs'.*rn, rna, rz"),
    ],
)
def test_bad_names_are_one_clear_error(arguments: tuple[str, str, str], message: str) -> None:
    with pytest.raises(IsaError, match=message):
        convert(np.zeros(1, np.uint32), *arguments)


def test_numbers_are_no_patterns() -> None:
    with pytest.raises(
        IsaError, match=r"patterns of f16 are unsigned integers, not an array of float16; legal: .*from_float64"
    ):
        convert(np.zeros(3, np.float16), "f16", "e4m3")
    with pytest.raises(IsaError, match="from_float64"):
        to_float64([1.5], "e4m3")
    assert convert([], "f16", "e4m3").shape == (0,)
