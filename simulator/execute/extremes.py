"""Executes signs, minima, maxima and tests of floating-point numbers of single threads. PTX ISA 9.0, 9.7.3 and 9.7.4.

Operands are arrays [warp, 1, lane] of patterns; pairs of numbers in one register come apart as in
`simulator.execute.floating`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from isa.forms.record import Form
from isa.types import F64, ElementType
from simulator.arithmetic.formats import canonical_nan, infinity
from simulator.execute.floating import Operation, element_of, flushed, nans, numbers
from simulator.execute.registry import Array, computes

_QUIET = np.uint64(1 << 51)  # the bit of an f64 that makes NaN quiet
_TYPES = ("f16", "bf16", "f16x2", "bf16x2", "f32", "f64")


def ranks(patterns: Array, element: ElementType) -> Array:
    """Signed integers in the order of the numbers, -0 below +0."""
    signed = np.dtype(f"i{patterns.dtype.itemsize}")
    values = patterns.view(signed)
    return np.where(values < 0, values ^ np.iinfo(signed).max, values)


_ORDERS: dict[str, Callable[[Array, Array], Array]] = {"min": np.less_equal, "max": np.greater_equal}


def of_two(operation: str, element: ElementType, *, keeps_nan: bool) -> Callable[[Array, Array], Array]:
    """The "min" or "max" of two numbers: of a number and NaN the number, or NaN if `keeps_nan`."""
    choose = _ORDERS[operation]

    def two(x: Array, y: Array) -> Array:
        kind = x.dtype.type
        chosen = np.where(choose(ranks(x, element), ranks(y, element)), x, y)
        absent = nans(x, element), nans(y, element)
        if keeps_nan:
            return np.where(absent[0] | absent[1], kind(canonical_nan(element)), chosen)
        result = np.where(absent[0], y, np.where(absent[1], x, chosen))
        both = y | _QUIET if element is F64 else kind(canonical_nan(element))
        return np.where(absent[0] & absent[1], both, result)

    return two


@computes(*(f"{name}*.{kind}" for name in _ORDERS for kind in _TYPES))
def extreme(form: Form) -> Operation:
    """min and max of two numbers, or of three: of a number and NaN the number, with `.NaN` NaN. With `.abs` of their
    magnitudes; with `.xorsign` with the product of their signs. PTX ISA 9.0, 9.7.3.11, 9.7.3.12, 9.7.4.7, 9.7.4.8."""
    element, qualifiers = element_of(form.type_name), form.qualifiers
    two = of_two(form.name, element, keeps_nan="NaN" in qualifiers)

    def compute(*operands: Array) -> Array:
        sources = [numbers(operand, element) for operand in operands]
        kind = sources[0].dtype.type
        sign = kind(1 << element.sign_bit)
        if "ftz" in qualifiers:
            sources = [flushed(source, element) for source in sources]
        sizes = [source & ~sign for source in sources] if "abs" in qualifiers else sources
        result = two(sizes[0], sizes[1])
        if len(sizes) == 3:
            result = two(result, sizes[2])
        if "xorsign" in qualifiers:
            result = np.where(nans(result, element), result, result | ((sources[0] ^ sources[1]) & sign))
        return result.view(operands[0].dtype)

    return compute


@computes(*(f"abs*.{kind}" for kind in _TYPES))
def absolute(form: Form) -> Operation:
    """abs: the sign bit cleared. PTX ISA 9.0, 9.7.3.9 and 9.7.4.6."""
    return _signs(form, lambda source, sign: source & ~sign)


@computes(*(f"neg*.{kind}" for kind in _TYPES))
def negated(form: Form) -> Operation:
    """neg: the sign bit inverted. PTX ISA 9.0, 9.7.3.10 and 9.7.4.5."""
    return _signs(form, lambda source, sign: source ^ sign)


def _signs(form: Form, change: Callable[[Array, Array], Array]) -> Operation:
    """An operation on signs. NaN becomes the canonical one; of f64 it keeps its sign and becomes quiet."""
    element = element_of(form.type_name)

    def compute(a: Array) -> Array:
        source = numbers(a, element)
        if "ftz" in form.qualifiers:
            source = flushed(source, element)
        kind = source.dtype.type
        result = change(source, kind(1 << element.sign_bit))
        absent = source | _QUIET if element is F64 else kind(canonical_nan(element))
        return np.where(nans(source, element), absent, result).view(a.dtype)

    return compute


@computes("copysign*.f32", "copysign*.f64")
def copysign(form: Form) -> Operation:
    """copysign: b with the sign of a. PTX ISA 9.0, 9.7.3.2."""
    sign = element_of(form.type_name).sign_bit

    def compute(a: Array, b: Array) -> Array:
        bit = a.dtype.type(1 << sign)
        return np.asarray((a & bit) | (b & ~bit))

    return compute


_TESTS: dict[str, Callable[[Array, int, int], Array]] = {
    "finite": lambda size, top, _: size < top,
    "infinite": lambda size, top, _: size == top,
    "number": lambda size, top, _: size <= top,
    "notanumber": lambda size, top, _: size > top,
    "normal": lambda size, top, least: ((size >= least) & (size < top)) | (size == 0),  # zero is normal, says PTX
    "subnormal": lambda size, _, least: (size > 0) & (size < least),
}


@computes("testp*.f32", "testp*.f64")
def property_test(form: Form) -> Operation:
    """testp: whether a number is finite, infinite, a number, NaN, normal or subnormal. PTX ISA 9.0, 9.7.3.1."""
    element, test = element_of(form.type_name), _TESTS[form.qualifiers[0]]

    def compute(a: Array) -> Array:
        kind = a.dtype.type
        return test(a & kind(element.mask >> 1), kind(infinity(element)), kind(1 << element.fraction))

    return compute
