"""Executes floating-point arithmetic of single threads: sums, products, quotients, roots. PTX ISA 9.0, 9.7.3 to 9.7.5.

Operands are arrays [warp, 1, lane] of patterns; of two 16-bit numbers in a register, and two f32 in one of 64 bits, the
numbers come apart as [warp, 1, 2 * lane]. What an operation computes stands once (`_EXACT`), for all types but f64,
whose own functions are in `simulator.arithmetic.rounded`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from isa.errors import IsaError
from isa.forms.record import Form
from isa.types import ELEMENT_TYPES, F64, ElementType
from simulator.arithmetic.convert import from_float64, to_float64
from simulator.arithmetic.formats import Reals, infinity
from simulator.arithmetic.rounded import fma64, quotient64, quotient_to_odd, root64, root_to_odd, sum_to_odd
from simulator.execute.registry import Array, computes

NAN = 0x7FFFFFFF  # what every operation of f32 gives for NaN; PTX ISA 9.0, 9.7.3
ROUNDINGS = ("rn", "rz", "rm", "rp")
F32 = ELEMENT_TYPES["f32"]
Operation = Callable[..., Array]

_NARROW = ("f16", "bf16", "f16x2", "bf16x2", "f32", "f32x2")  # computed by way of float64
_EXACT: dict[str, Callable[..., Reals]] = {
    "add": sum_to_odd,
    "sub": lambda a, b: sum_to_odd(a, -b),
    "mul": lambda a, b: a * b,
    "fma": lambda a, b, c: sum_to_odd(a * b, c),
    "mad": lambda a, b, c: sum_to_odd(a * b, c),
    "div": quotient_to_odd,
    "rcp": lambda a: quotient_to_odd(np.ones_like(a), a),
    "sqrt": root_to_odd,
}
_NATIVE: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "sqrt": np.sqrt,
}  # fmt: skip


def element_of(kind: str) -> ElementType:
    """The element type of a data type; of f16x2 f16."""
    return F64 if kind == "f64" else ELEMENT_TYPES[kind.removesuffix("x2")]


def rounding_of(form: Form) -> str:
    """The rounding of a form: its qualifier, or to nearest even."""
    return next((q for q in form.qualifiers if q in ROUNDINGS), "rn")


def numbers(patterns: Array, element: ElementType) -> Array:
    """The numbers of a register apart: a view as unsigned integers of the element's width."""
    kind = f"u{element.bits // 8}"
    return patterns if patterns.dtype == kind else np.ascontiguousarray(patterns).view(kind)


def nans(patterns: Array, element: ElementType) -> Array:
    """Which patterns are NaN."""
    kind = patterns.dtype.type
    return np.asarray((patterns & kind(element.mask >> 1)) > kind(infinity(element)))


def flushed(patterns: Array, element: ElementType) -> Array:
    """Patterns with subnormal numbers replaced by zeros of their sign (`.ftz`)."""
    kind = patterns.dtype.type
    sign = kind(1 << element.sign_bit)
    exponent = kind(((1 << element.exponent) - 1) << element.fraction)
    return np.where(patterns & exponent == 0, patterns & sign, patterns)


def saturated(patterns: Array, element: ElementType) -> Array:
    """Patterns clamped to +0 .. 1 (`.sat`); NaN gives +0."""
    kind = patterns.dtype.type
    one, sign = kind(element.bias << element.fraction), kind(1 << element.sign_bit)
    above = np.where(patterns > kind(((1 << element.exponent) - 1) << element.fraction), kind(0), one)
    return np.where(patterns & sign != 0, kind(0), np.where(patterns > one, above, patterns))


def encoded(values: Reals, element: ElementType, form: Form, rounding: str) -> Array:
    """Numbers as patterns of the element's width, with `.relu`, `.ftz` and `.sat` of the form.

    Of f16, and in quotients of f32, `.ftz` flushes by the exact result; of f32 by the rounded one. Measured on an H100,
    November 2026."""
    qualifiers = form.qualifiers
    early = "ftz" in qualifiers and (element is not F32 or "div" in form.opcode.split(".", 1))
    if early:  # what is below the smallest normal number before it is rounded
        values = np.where(np.abs(values) < 2.0 ** (1 - element.bias), np.copysign(0.0, values), values)
    if element is F32 and rounding == "rn":
        single = values.astype(np.float32)
        patterns = np.where(np.isnan(single), np.uint32(NAN), single.view(np.uint32))
    else:
        patterns = from_float64(values, element, rounding, relu="relu" in qualifiers).astype(f"u{element.bits // 8}")
    if "ftz" in qualifiers and not early:
        patterns = flushed(patterns, element)
    return saturated(patterns, element) if "sat" in qualifiers else patterns


@computes(*(f"{name}*.{kind}" for name in _EXACT for kind in _NARROW))
def rounded_arithmetic(form: Form) -> Operation:
    """add, sub, mul, fma, mad, div, rcp, sqrt of f16, bf16, f32 and pairs of them: the exact result, rounded once."""
    element, name, rounding = element_of(form.type_name), form.name, rounding_of(form)
    if element.bits == 16 and rounding != "rn":
        reason = f"'{form.opcode}' is decoded, but not executed: PTX has no such rounding, and ptxas 13.0 drops it"
        raise IsaError(form.opcode, 0, reason, form.opcode.replace(f".{rounding}", ".rn"))
    ftz = "ftz" in form.qualifiers
    native = rounding == "rn" and element is F32 and name in _NATIVE and not ftz

    def compute(*operands: Array) -> Array:
        dtype = operands[0].dtype
        sources = [numbers(operand, element) for operand in operands]
        if ftz:
            sources = [flushed(source, element) for source in sources]
        with np.errstate(all="ignore"):
            if native:
                single = _NATIVE[name](*[source.view(np.float32) for source in sources])
                patterns = np.where(np.isnan(single), np.uint32(NAN), single.view(np.uint32))
                result = saturated(patterns, element) if "sat" in form.qualifiers else patterns
            else:
                values = _EXACT[name](*[_values(source, element) for source in sources])
                result = encoded(_zeros(name, rounding, values, sources), element, form, rounding)
        if "oob" in form.qualifiers:
            result = _out_of_bounds(result, sources)
        return result.view(dtype)

    return compute


def _values(patterns: Array, element: ElementType) -> Reals:
    return patterns.view(np.float32).astype(np.float64) if element is F32 else to_float64(patterns, element)


def _zeros(name: str, rounding: str, values: Reals, sources: list[Array]) -> Reals:
    """With the rounding toward minus infinity a sum that cancels is -0. IEEE 754-2019, 6.3."""
    if rounding != "rm" or name not in ("add", "sub", "fma", "mad"):
        return values
    sign = sources[0].dtype.type(1 << (sources[0].dtype.itemsize * 8 - 1))
    first = sources[0] ^ sources[1] if name in ("fma", "mad") else sources[0]
    second = ~sources[-1] if name == "sub" else sources[-1]
    return np.where((values == 0) & ((first ^ second) & sign != 0), -0.0, values)


def _out_of_bounds(result: Array, sources: list[Array]) -> Array:
    """`.oob`: 0 where a factor is the NaN that stands for an element outside a tensor: 0x7FF7 or 0xFFF7 of f16 and of
    bf16, the only patterns that give 0 (all 65,536 tried on an H200, November 2026; PTX does not say which it is)."""
    outside = (sources[0] & 0x7FFF == 0x7FF7) | (sources[1] & 0x7FFF == 0x7FF7)
    return np.where(outside, result.dtype.type(0), result)


@computes(*(f"{name}*.f32.{kind}" for name in ("add", "sub", "fma") for kind in ("f16", "bf16")))
def mixed_arithmetic(form: Form) -> Operation:
    """add, sub and fma of f32 whose first source, of fma the first two, are f16 or bf16. PTX ISA 9.0, 9.7.5."""
    element, name, rounding = element_of(form.type_name), form.name, rounding_of(form)

    def compute(*operands: Array) -> Array:
        with np.errstate(all="ignore"):
            narrow = [to_float64(operand, element) for operand in operands[:-1]]
            wide = _values(operands[-1], F32)
            values = _EXACT[name](*narrow, wide)
            signs = [np.where(np.signbit(value), np.uint32(1 << 31), np.uint32(0)) for value in (*narrow, wide)]
            return encoded(_zeros(name, rounding, values, signs), F32, form, rounding)

    return compute


# f64


@computes(*(f"{name}*.f64" for name in ("add", "sub", "mul", "fma", "mad", "div", "rcp", "sqrt")))
def double_arithmetic(form: Form) -> Operation:
    """add, sub, mul, fma, mad, div, rcp and sqrt of f64, rounded once. PTX ISA 9.0, 9.7.3."""
    rounding = rounding_of(form)
    operation = _doubles()[form.name]
    return lambda *operands: operation(*operands, rounding)


@cache
def _doubles() -> dict[str, Callable[..., Array]]:
    one, sign = np.uint64(0x3FF0000000000000), np.uint64(1 << 63)
    return {
        "add": lambda a, b, rounding: fma64(a, np.full_like(a, one), b, rounding),
        "sub": lambda a, b, rounding: fma64(a, np.full_like(a, one), np.where(nans(b, F64), b, b ^ sign), rounding),
        "mul": lambda a, b, rounding: fma64(a, b, (a ^ b) & sign, rounding),
        "fma": fma64,
        "mad": fma64,
        "div": quotient64,
        "rcp": lambda a, rounding: quotient64(np.full_like(a, one), a, rounding),
        "sqrt": root64,
    }
