"""Executes video instructions on two or four numbers in a register, and cvt.pack. PTX ISA 9.0, 9.7.18 and 9.7.9.22."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from isa.forms.record import Form
from simulator.execute.registry import Array, computes

Ternary = Callable[[Array, Array, Array], Array]
_OPERATIONS: dict[str, Callable[[Array, Array], Array]] = {
    "vadd": lambda a, b: a + b,
    "vsub": lambda a, b: a - b,
    "vmin": np.minimum,
    "vmax": np.maximum,
    "vabsdiff": lambda a, b: np.abs(a - b),
    "vavrg": lambda a, b: (a + b + ((a + b) >= 0)) >> 1,
}


@computes(*(f"{name}{count}" for name in _OPERATIONS for count in (2, 4)))
def simd(form: Form) -> Ternary:
    """Two or four numbers each: the sum, difference, extreme, distance or average, cut to the type or (sat) kept within
    it. The third operand would keep what a mask leaves out; without a mask all is written. With `.add` the results, not
    cut, are added to the third operand, which has the type of D (PTX ISA 9.0, 9.7.18.5)."""
    operation, count = _OPERATIONS[form.name[:-1]], int(form.name[-1])
    d, a_kind, b_kind = (kind[0] == "s" for kind in form.qualifiers[:3])
    bits = 32 // count
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if d else (0, (1 << bits) - 1)
    saturates, accumulates = "sat" in form.qualifiers, "add" in form.qualifiers

    def run(a: Array, b: Array, c: Array) -> Array:
        result = operation(_parts(a, count, a_kind), _parts(b, count, b_kind))
        if accumulates:
            total: Array = c + result.sum(axis=-1).astype(np.uint32)
            return total
        if saturates:
            result = np.clip(result, low, high)
        return _joined(result, bits)

    return run


def _parts(values: Array, count: int, is_signed: bool) -> Array:
    whole = np.ascontiguousarray(values).astype(np.uint32)
    kind: Any = f"{'i' if is_signed else 'u'}{4 // count}"
    answer: Array = whole[..., None].view(kind).astype(np.int64)
    return answer


def _joined(parts: Array, bits: int) -> Array:
    shifts = bits * np.arange(parts.shape[-1])
    whole = np.bitwise_or.reduce((parts & (1 << bits) - 1) << shifts, axis=-1)
    answer: Array = whole.astype(np.uint32)
    return answer


@computes("cvt.pack", "cvt.pack*.u16.s32", "cvt.pack*.s16.s32")
def pack(form: Form) -> Callable[..., Array]:
    """cvt.pack.sat: a and b cut to the narrow type, b lowest, and c (if it is there) moved up before them."""
    kind = next(q for q in form.qualifiers if q not in ("pack", "sat"))
    bits = int(kind[1:])
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if kind[0] == "s" else (0, (1 << bits) - 1)

    def pair(a: Array, b: Array) -> Array:
        narrow = [np.clip(x.view(np.int32), low, high).astype(np.int64) & (1 << bits) - 1 for x in (b, a)]
        return (narrow[0] | narrow[1] << bits).astype(np.uint32)

    def triple(a: Array, b: Array, c: Array) -> Array:
        answer: Array = pair(a, b) | c << np.uint32(2 * bits)
        return answer

    return triple if form.qualifiers[-1] == "b32" else pair
