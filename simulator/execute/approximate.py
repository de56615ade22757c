"""Executes the approximate functions of single threads. PTX ISA 9.0, 9.7.3 and 9.7.4.

Those of f32 that `simulator.arithmetic.functions` has tables of are the chip's, bit for bit; others are near.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from isa.forms.record import Form
from simulator.arithmetic import functions
from simulator.arithmetic.convert import to_float64
from simulator.arithmetic.formats import Reals
from simulator.execute.floating import F32, Operation, element_of, encoded, flushed, numbers
from simulator.execute.registry import Array, computes

_FUNCTIONS: dict[str, Callable[..., Reals]] = {
    "rcp": lambda a: 1 / a,  # of f64
    "rsqrt": lambda a: 1 / np.sqrt(a),  # of f64
    "sin": lambda a: np.sin(2 * np.pi * _turn(a)),
    "cos": lambda a: np.cos(2 * np.pi * _turn(a)),
    "lg2": np.log2,
    "ex2": np.exp2,
    "tanh": np.tanh,
}
_MEASURED: dict[str, Callable[..., functions.Words]] = {
    "rcp": functions.reciprocal,
    "rsqrt": functions.reciprocal_root,
    "sqrt": functions.root,
    "ex2": functions.power_of_two,
}


@computes(*(f"{name}.approx*.f32" for name in _MEASURED))
def measured(form: Form) -> Operation:
    """The functions of f32 whose tables were measured, bit for bit."""
    function, ftz = _MEASURED[form.name], "ftz" in form.qualifiers
    return lambda a: _flushed(function(_reals(a, ftz)), ftz)


@computes("div.approx*.f32", "div.full*.f32")
def division(form: Form) -> Operation:
    """div.approx and div.full: a product with the reciprocal."""
    ftz, full = "ftz" in form.qualifiers, "full" in form.qualifiers
    return lambda a, b: _flushed(functions.quotient(_reals(a, ftz), _reals(b, ftz), full), ftz)


@computes("ex2.approx*.bf16", "ex2.approx*.bf16x2")
def short_power(form: Form) -> Operation:
    """ex2.approx.ftz of bf16: what f32 gives, without its lower half."""

    def compute(a: Array) -> Array:
        halves = np.ascontiguousarray(a).view(np.uint16)
        words = _flushed(functions.power_of_two(_reals(halves.astype(np.uint32) << np.uint32(16), True)), True)
        return np.ascontiguousarray((words >> np.uint32(16)).astype(np.uint16)).view(a.dtype)

    return compute


def _reals(patterns: Array, ftz: bool) -> Reals:
    """The numbers of f32 patterns, subnormal ones as zeros of their sign with `.ftz`."""
    words = flushed(patterns, F32) if ftz else patterns
    with np.errstate(invalid="ignore"):  # signalling NaN
        return np.ascontiguousarray(words).view(np.float32).astype(np.float64)


def _flushed(words: Array, ftz: bool) -> Array:
    return flushed(words, F32) if ftz else words


_PER_TURN = float(np.uint32(0x3E22F983).view(np.float32))  # 1 / (2 pi) as f32


def _turn(angle: Reals) -> Reals:
    """The part of a turn that sin.approx and cos.approx of f32 take the function of: ptxas writes a product with
    1 / (2 pi), rounded toward zero, in front of the instruction, so that large angles lose their low bits as on the
    chip (compared with an H200, November 2026)."""
    exact = angle * _PER_TURN
    nearest = exact.astype(np.float32)
    beyond = np.abs(nearest.astype(np.float64)) > np.abs(exact)
    turns = np.where(beyond, np.nextafter(nearest, np.float32(0)), nearest).astype(np.float64)
    fraction: Reals = turns - np.rint(turns)
    return fraction


@computes(
    *(f"{name}.approx*.f32" for name in ("sin", "cos", "lg2", "tanh")),
    *(f"{name}.approx*.{kind}" for name, kind in (("ex2", "f16"), ("ex2", "f16x2"))),
    *(f"tanh.approx*.{kind}" for kind in ("f16", "bf16", "f16x2", "bf16x2")),
)
def approximation(form: Form) -> Operation:
    """The other approximate functions, as the nearest number to the exact result (of sin and cos, after the chip's way
    to bring the angle into one turn). The tables of the chip are not public: docs/kernels.md says how far its results
    are from these."""
    element, function = element_of(form.type_name), _FUNCTIONS[form.name]

    def compute(*operands: Array) -> Array:
        sources = [numbers(operand, element) for operand in operands]
        if "ftz" in form.qualifiers:
            sources = [flushed(source, element) for source in sources]
        with np.errstate(all="ignore"):
            values = function(*[to_float64(source, element) for source in sources])
            return encoded(values, element, form, "rn").view(operands[0].dtype)

    return compute


@computes("rcp.approx*.f64", "rsqrt.approx*.f64")
def double_approximation(form: Form) -> Operation:
    """rcp.approx.ftz.f64 and rsqrt.approx.f64."""
    function = _FUNCTIONS[form.name]

    def compute(a: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(function(a.view(np.float64))).view(np.uint64)

    return compute
