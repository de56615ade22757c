"""Executes comparisons (setp, set) and selections (selp, slct). PTX ISA 9.0, 9.7.6 and 9.7.7."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa.forms.integer import COMBINATIONS
from isa.forms.record import Form
from isa.ptx.instruction import Instruction, Pair, Sink
from simulator.execute.cta_state import NOTHING, CtaState, Executor, Outcome
from simulator.execute.floating import element_of, flushed
from simulator.execute.operands import predicate, reader, writer
from simulator.execute.registry import Array, computes, executes, prepares_operands
from simulator.state.registers import SORT_OF_BITS, Warps

_ORDERS: dict[str, Callable[[Array, Array], Array]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "lo": np.less,
    "ls": np.less_equal,
    "hi": np.greater,
    "hs": np.greater_equal,
}
_COMBINE: dict[str, Callable[[Array, Array], Array]] = {
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.logical_xor,
}
_TRUE = {"f32": 0x3F800000, "f16": 0x3C00, "bf16": 0x3F80, "f16x2": 0x3C003C00, "bf16x2": 0x3F803F80}
Compare = Callable[[Array, Array], Array]


def comparison(form: Form) -> Compare:
    """The comparison of a form, of arrays of patterns: bool, of two numbers in a register [..., 2 * lane]."""
    kind, order = form.type_name, form.qualifiers[0]
    if kind[0] in "sub" and not kind.startswith("bf"):
        compare = _ORDERS[order]
        if kind[0] != "s":
            return compare
        return lambda a, b: compare(a.view(f"i{a.dtype.itemsize}"), b.view(f"i{b.dtype.itemsize}"))
    element, flush = element_of(kind), "ftz" in form.qualifiers

    def numbers(patterns: Array) -> Array:
        patterns = np.ascontiguousarray(patterns).view(f"u{element.bits // 8}")
        return _real(flushed(patterns, element) if flush else patterns, kind)

    def run(a: Array, b: Array) -> Array:
        with np.errstate(invalid="ignore"):
            return _ordered(order, numbers(a), numbers(b))

    return run


def _real(patterns: Array, kind: str) -> Array:
    if kind.startswith("bf16"):
        return (patterns.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return patterns.view(f"f{patterns.dtype.itemsize}")


def _ordered(order: str, x: NDArray[Any], y: NDArray[Any]) -> NDArray[Any]:
    """A comparison of floating-point numbers: with NaN those that end in u hold, and the others do not. PTX ISA 9.0,
    9.3.1."""
    unordered = np.isnan(x) | np.isnan(y)
    if order in ("num", "nan"):
        holds = unordered if order == "nan" else ~unordered
    elif order.endswith("u"):
        holds = _ORDERS[order[:-1]](x, y) | unordered
    else:
        holds = _ORDERS[order](x, y) & ~unordered
    return np.asarray(holds)


def _combined(form: Form, instruction: Instruction) -> Callable[[CtaState, Warps, Array], Array]:
    """What is done with the result of a comparison: it is combined with a predicate where the form says so."""
    name = next((q for q in form.qualifiers if q in COMBINATIONS), None)
    if name is None:
        return lambda machine, warps, result: result
    combine, read = _COMBINE[name], predicate(instruction["c"])
    return lambda machine, warps, result: combine(result, read(machine, warps)[:, None])


@prepares_operands("setp")
def set_predicates(instruction: Instruction, form: Form) -> Executor:
    """setp: p = (a ? b) combined with c, q = !(a ? b) combined with c; of two numbers in a register p is for the low
    one and q for the high one. PTX ISA 9.0, 9.7.6.2."""
    width = form.role("a").width
    a, b = reader(instruction["a"], width), reader(instruction["b"], width)
    compare, finish, d = comparison(form), _combined(form, instruction), instruction["d"]
    both = form.type_name.endswith("x2")
    first, second = d.elements if isinstance(d, Pair) else (d, Sink())
    write, write_second = writer(first, 1), writer(second, 1)

    def run(machine: CtaState, warps: Warps) -> Outcome:
        result = compare(a(machine, warps), b(machine, warps))
        low, high = (result[..., 0::2], result[..., 1::2]) if both else (result, ~result)
        if not isinstance(second, Sink):
            write_second(machine, warps, finish(machine, warps, high))
        if not isinstance(first, Sink):
            write(machine, warps, finish(machine, warps, low))
        return NOTHING

    return run


@prepares_operands("set")
def set_value(instruction: Instruction, form: Form) -> Executor:
    """set: all ones, or 1.0 of a floating-point type, where the comparison holds; else zero. PTX ISA 9.0, 9.7.6.1."""
    width, kind = form.role("a").width, form.qualifiers[-2]
    a, b = reader(instruction["a"], width), reader(instruction["b"], width)
    compare, finish, write = (
        comparison(form),
        _combined(form, instruction),
        writer(instruction["d"], form.role("d").width),
    )
    true = _TRUE.get(kind, (1 << form.role("d").width) - 1)
    dtype, both = SORT_OF_BITS[form.role("d").width].dtype, form.type_name.endswith("x2")

    def run(machine: CtaState, warps: Warps) -> Outcome:
        result = compare(a(machine, warps), b(machine, warps))
        if both:
            low, high = (finish(machine, warps, part) for part in (result[..., 0::2], result[..., 1::2]))
            value = np.where(low, true & 0xFFFF, 0) | np.where(high, true & 0xFFFF0000, 0)
            write(machine, warps, value.astype(dtype))
        else:
            write(machine, warps, np.where(finish(machine, warps, result), true, 0).astype(dtype))
        return NOTHING

    return run


@executes("selp")
def select(a: Array, b: Array, c: Array) -> Array:
    """selp: a where the predicate c is true, else b. PTX ISA 9.0, 9.7.6.3."""
    return np.where(c, a, b)


@computes("slct")
def select_by_sign(form: Form) -> Callable[[Array, Array, Array], Array]:
    """slct: a where c is not negative, else b; of f32 -0.0 counts as not negative, and NaN takes b. PTX ISA 9.0,
    9.7.6.4."""
    is_float, flush = form.type_name == "f32", "ftz" in form.qualifiers

    def run(a: Array, b: Array, c: Array) -> Array:
        if not is_float:
            return np.where(c.view(np.int32) >= 0, a, b)
        with np.errstate(invalid="ignore"):
            number = c.view(np.float32)
            small = np.abs(number) < np.finfo(np.float32).tiny
            return np.where((number >= 0) | (small & flush), a, b)

    return run
