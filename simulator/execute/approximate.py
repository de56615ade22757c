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
    "sin": np.sin,
    "cos": np.cos,
    "lg2": np.log2,
    "ex2": np.exp2,
    "tanh": np.tanh,
}


@computes(*(f"{name}.approx*.{kind}" for name in _FUNCTIONS for kind in _SINGLE), "div.full*.f32")
def approximation(form: Form) -> Operation:
    """The approximate functions of f16, bf16 and f32, as the nearest number to the exact result."""
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
