"""Executes the approximate functions of single threads. PTX ISA 9.0, 9.7.3 and 9.7.4.

All are those of `simulator.arithmetic.functions`, bit for bit; of 16 bits, what f32 gives, toward zero.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from isa.forms.record import Form
from isa.types import ElementType
from simulator.arithmetic import functions, functions64
from simulator.arithmetic.convert import to_float64
from simulator.arithmetic.formats import Reals
from simulator.execute.floating import F32, NAN, Operation, element_of, flushed, nans, numbers
from simulator.execute.registry import Array, computes

_FUNCTIONS: dict[str, Callable[[Reals], functions.Words]] = {
    "rcp": functions.reciprocal,
    "rsqrt": functions.reciprocal_root,
    "sqrt": functions.root,
    "sin": functions.sine,
    "cos": functions.cosine,
    "lg2": functions.logarithm,
    "ex2": functions.power_of_two,
    "tanh": functions.hyperbolic_tangent,
}


@computes(*(f"{name}.approx*.f32" for name in _FUNCTIONS))
def of_single(form: Form) -> Operation:
    """The functions of f32."""
    function, ftz = _FUNCTIONS[form.name], "ftz" in form.qualifiers
    return lambda a: _flushed(function(_reals(a, ftz)), ftz)


@computes("div.approx*.f32", "div.full*.f32")
def division(form: Form) -> Operation:
    """div.approx and div.full: a product with the reciprocal."""
    ftz, full = "ftz" in form.qualifiers, "full" in form.qualifiers
    return lambda a, b: _flushed(functions.quotient(_reals(a, ftz), _reals(b, ftz), full), ftz)


@computes(*(f"{name}.approx*.{kind}" for name in ("ex2", "tanh") for kind in ("f16", "bf16", "f16x2", "bf16x2")))
def of_half(form: Form) -> Operation:
    """The functions of f16 and bf16: what f32 gives, toward zero."""
    element, function, ftz = element_of(form.type_name), _FUNCTIONS[form.name], "ftz" in form.qualifiers

    def compute(a: Array) -> Array:
        halves = numbers(a, element)
        source = to_float64(flushed(halves, element) if ftz else halves, element)
        with np.errstate(all="ignore"):
            found = _shortened(_flushed(function(source), ftz), element)
        return np.where(nans(halves, element), np.uint16(NAN >> 16), found).view(a.dtype)

    return compute


def _shortened(words: Array, element: ElementType) -> Array:
    """f32 patterns as bf16 or f16, toward zero; what is too large for f16 is infinite."""
    if element.name == "bf16":
        return np.ascontiguousarray((words >> np.uint32(16)).astype(np.uint16))
    values = np.ascontiguousarray(words).view(np.float32).astype(np.float64)
    last = np.ldexp(1.0, np.maximum(np.frexp(values)[1], -13) - 11)  # one unit in the last place of f16
    found: Array = (np.trunc(values / last) * last).astype(np.float16).view(np.uint16)
    return found


def _reals(patterns: Array, ftz: bool) -> Reals:
    """The numbers of f32 patterns, subnormal ones as zeros of their sign with `.ftz`."""
    words = flushed(patterns, F32) if ftz else patterns
    with np.errstate(invalid="ignore"):  # signalling NaN
        return np.ascontiguousarray(words).view(np.float32).astype(np.float64)


def _flushed(words: Array, ftz: bool) -> Array:
    return flushed(words, F32) if ftz else words


@computes("rcp.approx*.f64")
def double_reciprocal(_: Form) -> Operation:
    """rcp.approx.ftz.f64."""
    return functions64.reciprocal


@computes("rsqrt.approx*.f64")
def double_reciprocal_root(form: Form) -> Operation:
    """rsqrt.approx.f64, with and without `.ftz`."""
    return functions64.reciprocal_root_ftz if "ftz" in form.qualifiers else functions64.reciprocal_root
