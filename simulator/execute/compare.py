"""Executes comparisons of integers, and selections by a predicate. PTX ISA 9.0, 9.7.6."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from simulator.execute.registry import Array, executes

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


def _register(order: str, compare: Callable[[Array, Array], Array]) -> None:
    """Registers setp of one order, for unsigned and for signed integers. PTX ISA 9.0, 9.7.6.2."""

    @executes(f"setp.{order}")
    def unsigned(a: Array, b: Array) -> Array:
        return compare(a, b)

    @executes(f"setp.{order}.s32", f"setp.{order}.s64")
    def signed(a: Array, b: Array) -> Array:
        kind = f"i{a.dtype.itemsize}"
        return compare(a.view(kind), b.view(kind))


for _order, _compare in _ORDERS.items():
    _register(_order, _compare)


@executes("selp")
def select(a: Array, b: Array, c: Array) -> Array:
    """selp: a where the predicate c is true, else b. PTX ISA 9.0, 9.7.6.3."""
    return np.where(c, a, b)
