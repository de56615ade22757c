"""Reads the operands of `exact_gemm`: converts arrays of any supported type to float64 numbers, in rows along K."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa.errors import IsaError
from isa.types import ELEMENT_TYPES, SCALE_TYPES, ElementType, element_type
from simulator.arithmetic.exact_gemm.rounding import Result, powers_below
from simulator.arithmetic.formats import Integers, Reals, decode

FLOATS = {
    "float16": "f16",
    "float32": "f32",
    "float64": "f32",
    "bfloat16": "bf16",
    "float8_e4m3fn": "e4m3",
    "float8_e5m2": "e5m2",
    "float6_e3m2fn": "e3m2",
    "float6_e2m3fn": "e2m3",
    "float4_e2m1fn": "e2m1",
}
"""Element type of a dtype of numpy or ml_dtypes, by its name; float64 has to hold values of a narrower one."""

_SCALE_DTYPES = {"float8_e8m0fnu": "ue8m0", "float8_e4m3fn": "ue4m3"}
_BLOCK = 1 << 16  # elements worked on at once: 512 KiB of float64, in a core's own cache
_CENTRE = 1.5 * 2.0**52

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of A, or columns of B, laid along K.

    Attributes:
        values: float64 [row, K]; 0 in place of infinities and NaN.
        special: int8 [row, K]: 1 and -1 for infinities, 2 for NaN, 0 for numbers; None if there are only numbers.
        norm: float64 [row], at least the Euclidean norm.
        unit: float64 [row], the largest power of two of which all elements are multiples; infinity for a row of zeros.
        terms: int64 [row], non-zero elements.
    """

    values: Reals
    special: NDArray[np.int8] | None
    norm: Reals
    unit: Reals
    terms: Integers

    def __getitem__(self, part: slice | Integers) -> Rows:
        special = self.special[part] if self.special is not None else None
        return Rows(self.values[part], special, self.norm[part], self.unit[part], self.terms[part])


@dataclass(frozen=True, slots=True)
class Scale:
    """Block scale factors as numbers: float64 [row, K / block]."""

    values: Reals
    block: int
    type: ElementType


def read_type(array: Array, given: str | ElementType | None, name: str) -> ElementType:
    """The element type of an operand: the type that was given, or the one that its dtype implies."""
    if given is not None:
        element = element_type(given)
        if not element.is_float:
            floats = ", ".join(n for n, t in ELEMENT_TYPES.items() if t.is_float)
            raise IsaError(element.name, -1, f"{name}_type: '{element.name}' is not a floating-point type", floats)
        return element
    if array.dtype.name in FLOATS:
        return ELEMENT_TYPES[FLOATS[array.dtype.name]]
    if array.dtype.kind == "u":
        raise IsaError(
            name,
            -1,
            f"{name} holds patterns ({array.dtype}) and {name}_type does not say of what",
            ", ".join(ELEMENT_TYPES),
        )
    raise IsaError(
        name, -1, f"{name} has dtype {array.dtype}", f"{', '.join(FLOATS)}, or unsigned patterns with {name}_type"
    )


def read_rows(array: Array, element: ElementType, name: str, scale: Scale | None) -> Rows:
    """The rows of an operand [row, K] (B transposed), in blocks of rows that stay in cache."""
    rows, k = array.shape
    read = _reader(array, element, name)
    values, special = np.empty((rows, k)), None
    norm, unit, terms = np.empty(rows), np.empty(rows), np.empty(rows, np.int64)
    for part in blocks(rows, k):
        with np.errstate(invalid="ignore"):  # signalling NaN, infinity times a factor of zero
            block = read(array[part])
            if scale is not None:
                block = (block.reshape(len(block), -1, scale.block) * scale.values[part, :, None]).reshape(block.shape)
        finite = np.isfinite(block)
        if not finite.all():
            special = np.zeros((rows, k), np.int8) if special is None else special
            special[part] = np.where(finite, 0, np.where(np.isnan(block), 2, np.where(block > 0, 1, -1)))
            block = np.where(finite, block, 0.0)
        values[part] = block
        norm[part] = np.sqrt(np.einsum("ij,ij->i", block, block)) * (
            1 + 2.0**-20
        )  # far more than its rounding errors, for K < 2^30
        unit[part] = _units(block)
        terms[part] = np.count_nonzero(block, axis=1)
    return Rows(values, special, norm, unit, terms)


def blocks(rows: int, width: int) -> Iterator[slice]:
    """Slices of rows that together have about `_BLOCK` elements."""
    step = max(1, _BLOCK // max(1, width))
    return (slice(start, min(start + step, rows)) for start in range(0, rows, step))


def _units(block: Reals) -> Reals:
    """The place of the lowest set bit in each row [row, K]; no element is subnormal as a float64."""
    hidden = np.int64(1 << 52)
    significand = block.view(np.int64) & (hidden - 1) | hidden
    lowest = (significand & -significand).astype(np.float64)  # 1 .. 2^52
    lowest *= powers_below(block)
    lowest[block == 0] = np.inf
    units: Reals = lowest.min(axis=1, initial=np.inf) * 2.0**-52
    return units


def _reader(array: Array, element: ElementType, name: str) -> Callable[[Array], Reals]:
    """The function that converts blocks of this array to numbers."""
    if array.dtype.kind == "u":
        return lambda block: _decode(block, element, name)
    if array.dtype.name not in FLOATS:
        raise IsaError(
            name, -1, f"{name} has dtype {array.dtype}", f"{', '.join(FLOATS)}, or unsigned patterns with {name}_type"
        )
    own = ELEMENT_TYPES[FLOATS[array.dtype.name]]
    if array.dtype.name != "float64" and own == element:
        return lambda block: block.astype(np.float64)
    return lambda block: _values(block.astype(np.float64), element, name)


def _decode(block: Array, element: ElementType, name: str) -> Reals:
    if block.dtype.itemsize * 8 > element.bits and (block >> block.dtype.type(element.bits)).any():
        worst = int(block.max())
        raise IsaError(
            name, -1, f"{name} holds {worst:#x}, which is no pattern of {element.name}", f"at most {element.mask:#x}"
        )
    return decode(block.astype(np.uint32), element).value


def _values(block: Reals, element: ElementType, name: str) -> Reals:
    """Returns the numbers after checking that the type can hold each of them."""
    finite = np.isfinite(block)
    number = np.where(finite, block, 0.0)
    centre = np.maximum(powers_below(number), 2.0 ** (1 - element.bias)) * (_CENTRE * 2.0**-element.fraction)
    held = ((number + centre) - centre == number) & (np.abs(number) <= largest(element))
    held &= finite | (np.isnan(block) & element.nan) | (np.isinf(block) & (element.nan and element.infinity))
    if not held.all():
        raise IsaError(
            name,
            -1,
            f"{name} holds {float(block[~held][0])!r}, which is no value of {element.name}",
            f"values of {element.name}, unrounded",
        )
    return block


def largest(element: ElementType) -> float:
    """The largest finite value of a float type."""
    fraction, exponent = 2.0**-element.fraction, element.bias
    if element.finite_top or not element.nan:
        exponent += 1
    return (2 - (2 if element.finite_top else 1) * fraction) * 2.0**exponent


def read_scale(
    array: Array | None, name: str, scale_type: str | ElementType | None, block: int | None, shape: tuple[int, int]
) -> Scale | None:
    """Reads scale factors [row, K / block] for an operand of that shape (row, K)."""
    if array is None:
        return None
    array = np.asarray(array)
    factor_type = SCALE_TYPES.get(scale_type.name if isinstance(scale_type, ElementType) else str(scale_type))
    if factor_type is None:
        raise IsaError(
            str(scale_type or name),
            -1,
            f"{name} needs a type of scale factors, not {scale_type!r}",
            ", ".join(SCALE_TYPES),
        )
    if block is None or block < 1 or shape[1] % block:
        raise IsaError(
            name,
            -1,
            f"{name}: blocks of {block} elements do not divide K = {shape[1]}",
            "a positive divisor of K as `block`",
        )
    if _SCALE_DTYPES.get(array.dtype.name) == factor_type.name:
        array = array.view(np.uint8)
    if array.dtype.kind != "u" or (array > 0xFF).any():
        raise IsaError(
            name,
            -1,
            f"{name} of dtype {array.dtype} does not hold {factor_type.name}",
            "unsigned patterns of at most 0xff",
        )
    legal_shape = (shape[0], shape[1] // block)
    if array.shape != legal_shape:
        legal = (
            f"{legal_shape if name == 'scale_a' else legal_shape[::-1]}, one factor for each {block} elements along K"
        )
        raise IsaError(name, -1, f"{name} has shape {array.shape if name == 'scale_a' else array.shape[::-1]}", legal)
    patterns = array.astype(np.uint32)
    if factor_type.name == "ue8m0":
        values = np.where(patterns == 0xFF, np.nan, np.ldexp(1.0, patterns.astype(np.int32) - 127))
    else:
        values = decode(patterns & np.uint32(0x7F), ELEMENT_TYPES["e4m3"]).value  # the highest bit is ignored
    return Scale(values, block, factor_type)


def read_addend(array: Array | None, shape: tuple[int, int], result: Result) -> Reals | None:
    """Reads C [M, N] as numbers: values of f32, or patterns of the result's type (of f32 if that is f64)."""
    if array is None:
        return None
    array = np.asarray(array)
    if array.shape != shape:
        raise IsaError("c", -1, f"c has shape {array.shape}", f"{shape}, rows of a and columns of b")
    patterns = array.dtype.kind == "u"
    element = ELEMENT_TYPES["f32" if result.name == "f64" or not patterns else result.name]
    read = _reader(array, element, "c")
    numbers = np.empty(shape)
    for part in blocks(*shape):
        with np.errstate(invalid="ignore"):  # signalling NaN
            numbers[part] = read(array[part])
    return numbers
