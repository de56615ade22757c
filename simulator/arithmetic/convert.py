"""Conversions between element types, as PTX `cvt` does them: one rounding, then overflow, NaN and sign by the rules of
the target.

Every element of every type here is a float64 exactly, so that one core (`_round_floats`) rounds for all of them, from
float64, once. The rules:

* Overflow gives infinity, or the largest finite number where the rounding goes toward zero there. A type with NaN but
  no infinity (e4m3, ue8m0, ue4m3) gives NaN, with the sign, in place of infinity; a type with neither (e3m2, e2m3,
  e2m1) gives the largest number. With `satfinite` the result is always the largest number.
* NaN gives the canonical pattern; the largest positive number of a type without NaN; zero for integers (their lowest
  bit pattern 100...0 from f64).
* Zeros and numbers that round to zero keep their sign. `relu` turns negative numbers, -0 and -infinity into +0, and
  keeps NaN.
* For unsigned scale types the sign is dropped before anything else. ue8m0 has no zero: what is below 2^-127 becomes
  2^-127.
* Integers as targets saturate (PTX: by default). Between integers, low bits are kept unless `satfinite` (PTX calls it
  `.sat`).
* Two conversions are no instruction of the chip, and ptxas 13.0 writes integer code for them (read from its output for
  sm_80 to sm_120a): they do not make NaN canonical. bf16 to f32 is a shift; f32 to tf32 with rna adds half of the last
  place unless the exponent is all ones, and cuts.

Sources: PTX ISA 9.0, 9.7.9.21 (cvt); ue8m0 and NaN into 6- and 4-bit types: cuda_fp8.h, cuda_fp6.h, cuda_fp4.h of CUDA
13.0 (published). Inferred: the sign of ue4m3, which no instruction writes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isa.errors import IsaError
from isa.types import ELEMENT_TYPES, SCALE_TYPES, Bits, ElementType, Kind
from simulator.arithmetic.formats import Integers, Reals, canonical_nan, decode, infinity, integers, powers

SECTION = "PTX ISA 9.0, 9.7.9.21 (cvt)"
ROUNDINGS = {
    "rn": "to nearest, ties to even",
    "rna": "to nearest, ties away from zero",
    "rz": "toward zero",
    "rp": "toward plus infinity",
    "rm": "toward minus infinity",
}

F64 = ElementType("f64", 64, exponent=11, fraction=52)
F32, TF32, BF16 = ELEMENT_TYPES["f32"], ELEMENT_TYPES["tf32"], ELEMENT_TYPES["bf16"]

_TYPES = ELEMENT_TYPES | SCALE_TYPES
_TABLE_BITS = 16  # sources up to this width are converted by a table of all their patterns
_KEEPERS = (
    ELEMENT_TYPES["f32"],
    ELEMENT_TYPES["f16"],
    ELEMENT_TYPES["bf16"],
)  # of a NaN from f64; see `_with_nans_of_f64`
_BLOCK = 1 << 14  # elements at a time: the arrays between steps stay in cache


def convert(
    patterns: ArrayLike,
    source: str | ElementType,
    target: str | ElementType,
    rounding: str = "rn",
    *,
    satfinite: bool = False,
    relu: bool = False,
) -> Bits:
    """Converts patterns of one type to patterns of another, rounding once.

    Args:
        patterns: unsigned integers of any shape; bits above the width of the source are ignored, and so is its padding
            (tf32, e2m1 in a byte).
        source: a type of `isa.types` or its name ("e2m1" is the one in a byte; packed ones are
            `isa.types.PACKED_E2M1`); "f64": uint64 patterns.
        target: likewise, without f64, for which there is `to_float64`.
        rounding: one of `ROUNDINGS`. Integers as targets too: PTX's .rni, .rzi, .rpi, .rmi are "rn", "rz", "rp", "rm".
        satfinite: overflow and infinity give the largest finite number; between integers, clamp (`.sat`).
        relu: what is negative gives +0.

    Returns:
        uint32 of the same shape, zero above the width of the target and in its padding.

    Raises:
        IsaError: unknown type or rounding, or no integers. What no instruction does is computed all the same: see
            `legal_conversions`.
    """
    of, to = _resolve(source, wide=True), _resolve(target)
    _check(rounding)
    if of.bits > 32:
        words = _patterns(patterns, of)
        converted = from_float64(words.view(np.float64), to, rounding, satfinite=satfinite, relu=relu)
        return _with_nans_of_f64(words, converted, to) if to in _KEEPERS and not (satfinite or relu) else converted
    given = _patterns(patterns, of)
    if (of, to, rounding, relu) == (F32, TF32, "rna", False):
        return _tf32_away(given, satfinite)
    if of.bits <= _TABLE_BITS:
        index = (given & np.uint32(of.mask)).astype(np.intp)
        return np.asarray(_table(of, to, rounding, satfinite, relu).take(index, mode="clip"))
    if not of.is_float and not to.is_float:
        return _integer_to_integer(integers(given, of), to, satfinite, relu)
    return _in_blocks(given, lambda block: _encode(_values(block, of), to, rounding, satfinite, relu, 0))


def from_float64(
    values: ArrayLike, target: str | ElementType, rounding: str = "rn", *, satfinite: bool = False, relu: bool = False
) -> Bits:
    """float64 numbers of any shape to patterns of `target`, rounded once; otherwise as `convert`, but NaN is
    canonical."""
    to = _resolve(target)
    _check(rounding)
    nan = 0 if to.is_float else 1 << (to.bits - 1)
    return _in_blocks(np.asarray(values, np.float64), lambda block: _encode(block, to, rounding, satfinite, relu, nan))


def _with_nans_of_f64(word: NDArray[np.uint64], converted: Bits, to: ElementType) -> Bits:
    """NaN of f64 keeps its sign and, made quiet, the top of its payload (measured on an H100, November 2026, for
    payload 0; assumed for others)."""
    absent = np.isnan(word.view(np.float64))
    if not absent.any():
        return converted
    payload = (word >> np.uint64(52 - to.fraction)).astype(np.uint32) & np.uint32((1 << to.fraction) - 1) | np.uint32(
        1 << (to.fraction - 1)
    )
    sign = (word >> np.uint64(63)).astype(np.uint32) << np.uint32(to.sign_bit)
    return np.where(absent, sign | np.uint32(infinity(to)) | payload, converted)


def to_float64(patterns: ArrayLike, source: str | ElementType) -> Reals:
    """Patterns of any shape to the numbers that they stand for, exactly: float64 of the same shape."""
    of = _resolve(source)
    given = _patterns(patterns, of)
    if of.bits <= _TABLE_BITS:
        return np.asarray(_value_table(of).take((given & np.uint32(of.mask)).astype(np.intp), mode="clip"))
    return _values(given.reshape(-1), of).reshape(given.shape)


def largest(element: str | ElementType) -> int:
    """Pattern of the largest finite number of a float type (PTX: MAX_NORM)."""
    return _largest_field(_resolve(element)) << _resolve(element).padding


def nan_pattern(element: str | ElementType) -> int:
    """What NaN is converted to: the canonical NaN of a float type, or its largest number if it has no NaN; 0 for an
    integer type."""
    to = _resolve(element)
    if not to.is_float:
        return 0
    if not to.nan:
        return largest(to)
    return to.mask if to.fraction == 0 else canonical_nan(to) >> to.padding << to.padding


def _resolve(name: str | ElementType, *, wide: bool = False) -> ElementType:
    """The element type of that name; f64 is accepted only if `wide`."""
    if name in ("f64", F64):
        if wide:
            return F64
        raise IsaError("f64", 0, "no patterns of f64 here", "float64 numbers: from_float64, to_float64")
    if isinstance(name, ElementType):
        return name
    if name not in _TYPES:
        raise IsaError(name, 0, f"no type '{name}' to convert", ", ".join(_TYPES))
    return _TYPES[name]


def _check(rounding: str) -> None:
    if rounding not in ROUNDINGS:
        raise IsaError(rounding, 0, f"unknown rounding '{rounding}'", ", ".join(ROUNDINGS), section=SECTION)


def _patterns(given: ArrayLike, of: ElementType) -> NDArray[Any]:
    """Any integers to uint32, of f64 to uint64; raises IsaError for floating-point numbers, which are no patterns."""
    array = np.asarray(given)
    if array.size and array.dtype.kind not in "iub":
        reason = f"patterns of {of.name} are unsigned integers, not an array of {array.dtype}"
        raise IsaError("", -1, reason, "array.view(numpy.uint32) of float32 numbers, or from_float64(numbers, target)")
    return array.astype(np.uint64 if of.bits > 32 else np.uint32, copy=False)


def _values(patterns: Bits, of: ElementType) -> Reals:
    """Patterns of a type of 32 bits to numbers; a type of fewer bits goes through its table."""
    if not of.is_float:
        return integers(patterns, of).astype(np.float64)
    with np.errstate(invalid="ignore"):  # a signalling NaN
        return (
            np.ascontiguousarray(patterns & np.uint32(of.mask >> of.padding << of.padding))
            .view(np.float32)
            .astype(np.float64)
        )


@cache
def _value_table(of: ElementType) -> Reals:
    """The numbers of all patterns of a type of at most 16 bits."""
    patterns = np.arange(1 << of.bits, dtype=np.uint32)
    if not of.is_float:
        return integers(patterns, of).astype(np.float64)
    if of.fraction == 0:  # ue8m0: powers of two, no zero, one NaN
        return np.where(patterns == of.mask, np.nan, powers(patterns.astype(np.int64) - of.bias))
    return decode(
        patterns if of.signed else patterns & np.uint32(of.mask >> 1), of
    ).value  # ue4m3: bit 7 is not looked at


@cache
def _table(of: ElementType, to: ElementType, rounding: str, satfinite: bool, relu: bool) -> Bits:
    """The results for all patterns of a type of at most 16 bits; not to be written to."""
    patterns = np.arange(1 << of.bits, dtype=np.uint32)
    if of.is_float or to.is_float:
        table = _in_blocks(_value_table(of), lambda block: _encode(block, to, rounding, satfinite, relu, 0))
    else:
        table = _integer_to_integer(integers(patterns, of), to, satfinite, relu)
    if (of, to, relu) == (BF16, F32, False):
        table = np.where(np.isnan(_value_table(of)), patterns << np.uint32(16), table)
    table.flags.writeable = False
    return table


def _tf32_away(patterns: Bits, satfinite: bool) -> Bits:
    """f32 to tf32, ties away, in the steps of ptxas 13.0: a NaN whose upper bits are those of infinity becomes
    infinity."""
    exponent, last, kept = (
        np.uint32(0x7F800000),
        np.uint32(1 << TF32.padding),
        np.uint32(TF32.mask >> TF32.padding << TF32.padding),
    )
    result = np.where(patterns & exponent == exponent, patterns, patterns + (last >> np.uint32(1))) & kept
    return np.where(result & exponent == exponent, result - last, result) if satfinite else result


def _in_blocks(given: NDArray[Any], step: Callable[[NDArray[Any]], Bits]) -> Bits:
    """`step` on pieces of `_BLOCK` elements: uint32 of the shape of `given`."""
    flat = given.reshape(-1)
    result = np.empty(flat.shape, np.uint32)
    for start in range(0, len(flat), _BLOCK):
        result[start : start + _BLOCK] = step(flat[start : start + _BLOCK])
    return result.reshape(given.shape)


def _encode(values: Reals, to: ElementType, rounding: str, satfinite: bool, relu: bool, nan: int) -> Bits:
    """Numbers [n] to patterns; `nan` is what an integer type gives for NaN."""
    if relu:
        values = np.where(values <= 0, 0.0, values)  # -0 too; NaN compares false
    return _round_floats(values, to, rounding, satfinite) if to.is_float else _round_integers(values, to, rounding, nan)


def _rounded(magnitude: Reals, negative: NDArray[np.bool_], rounding: str) -> Reals:
    """Non-negative numbers below 2^53 to integers; `negative` is the sign of what they are the magnitudes of."""
    if rounding == "rn":
        return np.rint(magnitude)
    below = np.floor(magnitude)
    if rounding == "rna":
        return below + (
            magnitude - below >= 0.5
        )  # the difference is exact, where adding a half before cutting would not be
    if rounding == "rz":
        return below
    return np.where(negative == (rounding == "rm"), np.ceil(magnitude), below)


def _largest_field(to: ElementType) -> int:
    """The largest finite number of a float type, without sign and padding. The field above it is infinity, NaN, or does
    not exist."""
    if to.infinity:
        return infinity(to) - 1
    return (1 << (to.exponent + to.fraction)) - (2 if to.nan else 1)


def _round_floats(values: Reals, to: ElementType, rounding: str, satfinite: bool) -> Bits:
    """Numbers [n] to patterns of a float type.

    A number is scaled by a power of two so that the target's last place is 1 (exact: a subnormal float64 is scaled up),
    and rounded to an integer there; exponent field and digits are added as integers, so that a carry runs into the
    exponent by itself.
    """
    negative = np.signbit(values) if to.signed else np.zeros(values.shape, np.bool_)
    magnitude = np.abs(values)
    finite = np.isfinite(values)
    if not (all_finite := bool(finite.all())):
        magnitude = np.where(finite, magnitude, 0.0)
    powers_only = to.fraction == 0  # ue8m0: its lowest field is a power of two where others have zero and subnormals
    lowest = -to.bias if powers_only else 1 - to.bias
    exponent = np.clip(
        (magnitude.view(np.int64) >> 52) - 1023, lowest, 1022
    )  # 1022: `powers` has the inverse; far above every type
    digits = _rounded(magnitude * powers(to.fraction - exponent), negative, rounding).astype(np.int64)
    field = ((exponent - lowest) << to.fraction) + digits
    if powers_only:
        field = np.maximum(field - 1, 0)
    top = _largest_field(to)
    beyond = top if satfinite or not (to.infinity or to.nan) else top + 1
    over = field > top
    if over.any():
        field = np.where(over, _overflow(negative, rounding, top, beyond), field)
    if not all_finite:
        field = np.where(finite, field, beyond)
    pattern = ((field << to.padding) | (negative.astype(np.int64) << to.sign_bit)).astype(np.uint32)
    return pattern if all_finite else np.where(np.isnan(values), np.uint32(nan_pattern(to)), pattern)


def _overflow(negative: NDArray[np.bool_], rounding: str, top: int, beyond: int) -> Integers | int:
    """The field of a number that rounds above the largest number: `beyond`, or `top` where the rounding goes toward
    zero (IEEE 754-2019, 7.4)."""
    if rounding in ("rn", "rna"):
        return beyond
    if rounding == "rz":
        return top
    return np.where(negative == (rounding == "rm"), beyond, top)


def _round_integers(values: Reals, to: ElementType, rounding: str, nan: int) -> Bits:
    """Numbers [n] to patterns of an integer type, clamped to its range."""
    low, high = _range(to)
    near = np.clip(values, low, high)  # infinities too; NaN stays
    negative = near < 0
    magnitude = _rounded(np.abs(near), negative, rounding)
    is_nan = np.isnan(values)
    whole = np.where(is_nan, 0.0, np.where(negative, -magnitude, magnitude)).astype(np.int64)
    return np.where(is_nan, nan, whole & to.mask).astype(np.uint32)


def _integer_to_integer(numbers: Integers, to: ElementType, satfinite: bool, relu: bool) -> Bits:
    """Integers of any shape to patterns of an integer type: low bits, or clamped."""
    if relu:
        numbers = np.maximum(numbers, 0)
    if satfinite:
        numbers = np.clip(numbers, *_range(to))
    return (numbers & to.mask).astype(np.uint32)


def _range(to: ElementType) -> tuple[int, int]:
    """The smallest and the largest number of an integer type."""
    half = 1 << (to.bits - 1)
    return (-half, half - 1) if to.kind is Kind.SIGNED else (0, to.mask)
