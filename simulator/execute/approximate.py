"""Executes the approximate functions of single threads. PTX ISA 9.0, 9.7.3 and 9.7.4."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from isa.forms.record import Form
from simulator.arithmetic.convert import to_float64
from simulator.arithmetic.formats import Reals
from simulator.execute.floating import Operation, element_of, encoded, flushed, numbers
from simulator.execute.registry import Array, computes

_SINGLE = ("f16", "bf16", "f16x2", "bf16x2", "f32")
_FUNCTIONS: dict[str, Callable[..., Reals]] = {
    "div": lambda a, b: a / b,
    "rcp": lambda a: 1 / a,
    "sqrt": np.sqrt,
    "rsqrt": lambda a: 1 / np.sqrt(a),
    "sin": lambda a: np.sin(2 * np.pi * _turn(a)),
    "cos": lambda a: np.cos(2 * np.pi * _turn(a)),
    "lg2": np.log2,
    "ex2": np.exp2,
    "tanh": np.tanh,
}


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


@computes(*(f"{name}.approx*.{kind}" for name in _FUNCTIONS for kind in _SINGLE), "div.full*.f32")
def approximation(form: Form) -> Operation:
    """The approximate functions of f16, bf16 and f32, as the nearest number to the exact result (of sin and cos, after
    the chip's way to bring the angle into one turn). The tables of the chip are not public: docs/kernels.md says how
    far its results are from these."""
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
