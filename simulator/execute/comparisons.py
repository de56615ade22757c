"""Executes comparisons of floating-point numbers: setp and set. PTX ISA 9.0, 9.7.6.1, 9.7.6.2 and 9.7.7."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from isa.forms.record import Form
from isa.ptx.instruction import Instruction, Pair
from simulator.arithmetic.formats import Reals
from simulator.execute.cta_state import NOTHING, CtaState, Executor, Outcome
from simulator.execute.extremes import wide_element_of
from simulator.execute.floating import flushed, numbers
from simulator.execute.operands import predicate, reader, writer
from simulator.execute.registry import Array, prepares_operands
from simulator.state.registers import Lanes, Warps

_TYPES = ("f16", "bf16", "f16x2", "bf16x2", "f32", "f64")
_ORDERED: dict[str, Callable[[Reals, Reals], Array]] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip
_COMBINATIONS: dict[str, Callable[[Lanes, Lanes], Lanes]] = {
    "and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor,
}  # fmt: skip
_ONES = {"f16": 0x3C00, "bf16": 0x3F80, "f32": 0x3F800000}  # what true is in a floating-point type; in integers, all 1

Compare = Callable[[Array, Array], Array]


def comparison(form: Form) -> Compare:
    """The comparison that a form names, of registers: bool of the shape of the numbers in them. Unordered ones (equ,
    ltu, ...) are true for NaN; num and nan say whether both, or not both, are numbers."""
    order, element = form.qualifiers[0], wide_element_of(form.type_name)
    ordered = _ORDERED.get(order) or _ORDERED.get(order.removesuffix("u"))

    def compare(a: Array, b: Array) -> Array:
        sources = [numbers(operand, element) for operand in (a, b)]
        if "ftz" in form.qualifiers:
            sources = [flushed(source, element) for source in sources]
        x, y = (_values(source) if element.bits != 16 else _halves(source, element.name) for source in sources)
        unordered = np.isnan(x) | np.isnan(y)
        if ordered is None:
            return unordered if order == "nan" else ~unordered
        result = ordered(x, y)
        return result | unordered if order.endswith("u") else result & ~unordered

    return compare


def _values(patterns: Array) -> Reals:
    return patterns.view(f"f{patterns.dtype.itemsize}")


def _halves(patterns: Array, name: str) -> Reals:
    return (
        patterns.view(np.float16) if name == "f16" else (patterns.astype(np.uint32) << np.uint32(16)).view(np.float32)
    )


def _combined(instruction: Instruction) -> Callable[[Lanes, CtaState, Warps], Lanes]:
    """What a boolean operator of the form does with a result and the predicate c; nothing where there is none."""
    operator = next((q for q in instruction.form.qualifiers if q in _COMBINATIONS), None)
    if operator is None:
        return lambda lanes, machine, warps: lanes
    read, combine = predicate(instruction["c"]), _COMBINATIONS[operator]
    return lambda lanes, machine, warps: combine(lanes, read(machine, warps)[:, None])


@prepares_operands(*(f"setp*.{kind}" for kind in _TYPES))
def set_predicate(instruction: Instruction, form: Form) -> Executor:
    """setp: p = a CMP b, q its complement; of two numbers in a register p is that of the lower, q that of the upper.
    Each is combined with c. PTX ISA 9.0, 9.7.6.2 and 9.7.7.2."""
    compare, combine = comparison(form), _combined(instruction)
    reads = [reader(instruction[name], form.role(name).width) for name in "ab"]
    d = instruction["d"]
    writers = [writer(part, 1) for part in (d.elements if isinstance(d, Pair) else (d,))]
    packed = form.type_name.endswith("x2")

    def run(machine: CtaState, warps: Warps) -> Outcome:
        result = compare(*[read(machine, warps) for read in reads])
        results = (result[..., 0::2], result[..., 1::2]) if packed else (result, ~result)
        # Both are worked out before either is written: c may be one of them
        outcomes = [combine(lanes, machine, warps) for lanes in results]
        for write, lanes in zip(writers, outcomes, strict=False):
            write(machine, warps, lanes)
        return NOTHING

    return run


@prepares_operands(*(f"set*.{kind}" for kind in _TYPES))
def set_value(instruction: Instruction, form: Form) -> Executor:
    """set: a CMP b as a number: all bits 1, or 1.0, for true. PTX ISA 9.0, 9.7.6.1 and 9.7.7.1."""
    compare, combine = comparison(form), _combined(instruction)
    reads = [reader(instruction[name], form.role(name).width) for name in "ab"]
    width = form.role("d").width
    write = writer(instruction["d"], width)
    kind = form.qualifiers[-2]
    part = 16 if form.type_name.endswith("x2") else width
    true = np.dtype(f"u{part // 8}").type(_ONES.get(kind.removesuffix("x2"), (1 << part) - 1))

    def run(machine: CtaState, warps: Warps) -> Outcome:
        result = compare(*[read(machine, warps) for read in reads])
        if part < width:
            lanes = np.stack([combine(result[..., i::2], machine, warps) for i in (0, 1)], axis=-1)
            values = np.where(lanes, true, true.dtype.type(0)).view(f"u{width // 8}")[..., 0]
        else:
            values = np.where(combine(result, machine, warps), true, true.dtype.type(0))
        write(machine, warps, values)
        return NOTHING

    return run
