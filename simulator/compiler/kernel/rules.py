"""What becomes of each PTX instruction in machine code: a table.

Counts are those of the machine code of ptxas 13.0 for sm_90a (read with nvdisasm, November 2026).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Rule(NamedTuple):
    """What becomes of a PTX instruction.

    Attributes:
        instructions: how many machine instructions it becomes.
        slow: whether its result comes from a unit beside the pipes, such as that of the special functions.
        free: whether its result is another name for its sources, so that it becomes no instruction at all.
        into: beginnings of the opcodes that can absorb it, if nothing else needs its result.
        taking: how many machine instructions it becomes when it absorbs another one.
    """

    instructions: int = 1
    slow: bool = False
    free: bool = False
    into: tuple[str, ...] = ()
    taking: int = 1


_SUMS, _WIDE_SUMS = ("add.s32", "add.u32", "sub.s32", "sub.u32"), ("add.s64", "add.u64")
_FLOATS = ("f16", "f16x2", "bf16", "bf16x2", "f32", "f64")
_LOGIC = ("and.b32", "or.b32", "xor.b32")
_TWO, _SLOW, _FREE = Rule(2), Rule(slow=True), Rule(0, free=True)
RULES: Mapping[str, Rule] = {
    "add": Rule(), "add.s32": Rule(into=_SUMS), "add.u32": Rule(into=_SUMS), "add.s64": Rule(2), "add.u64": Rule(2),
    "sub.s64": _TWO, "sub.u64": _TWO, "neg.s64": _TWO,
    "mul.lo.s32": Rule(into=_SUMS), "mul.lo.u32": Rule(into=_SUMS), "mul.wide": Rule(into=_WIDE_SUMS),
    "mul.lo.s64": Rule(4), "mul.lo.u64": Rule(4), "mul.hi.s64": Rule(8), "mul.hi.u64": Rule(8),
    "mad.lo.s64": Rule(4), "mad.lo.u64": Rule(4), "mul.hi": Rule(),
    "shl.b32": Rule(into=(*_SUMS, "or.b32")), "shl.b64": Rule(2, into=_WIDE_SUMS), "shr.u64": _TWO, "shr.s64": _TWO,
    **{name: Rule(into=_LOGIC) for name in _LOGIC},
    "and.b64": _TWO, "or.b64": _TWO, "xor.b64": _TWO, "not.b64": _TWO, "selp.b64": _TWO,
    **{f"setp.{order}.{sign}64": _TWO for order in ("eq", "ne", "lt", "le", "gt", "ge") for sign in "bsu"},
    "min.s64": Rule(4), "min.u64": Rule(4), "max.s64": Rule(4), "max.u64": Rule(4), "abs.s64": Rule(4),
    "div.u32": Rule(17), "div.s32": Rule(22), "rem.u32": Rule(17), "rem.s32": Rule(22), "div.u16": Rule(10),
    "div.s16": Rule(12), "rem.u16": Rule(10), "rem.s16": Rule(12), "div.u64": Rule(75), "div.s64": Rule(85),
    "rem.u64": Rule(75), "rem.s64": Rule(85), "bfe": _TWO, "bfi": _TWO, "sad": _TWO, "bfind": _SLOW,
    "clz": Rule(2, slow=True), "popc": _SLOW, "brev": _SLOW, "fns": Rule(40),
    "mov": _FREE, "cvta": _FREE, "ld.param": _FREE, "cvt.u64.u32": _FREE, "cvt.u32.u64": _FREE, "cvt.u16.u32": _FREE,
    "cvt.u32.u16": _FREE, "cvt.u64.u16": _FREE, "cvt.s64.s32": Rule(into=_WIDE_SUMS), "cvt.u16.u64": _FREE,
    "cvt.rn.f32.s32": _SLOW, "cvt.rn.f32.u32": _SLOW, "cvt.rzi.s32.f32": _SLOW, "cvt.rzi.u32.f32": _SLOW,
    "cvt.f32.f16": Rule(), "cvt": Rule(),
    **{f"neg.{kind}": Rule(into=("fma", "add", "sub", "mul")) for kind in _FLOATS},
    "rcp.approx": _SLOW, "rsqrt.approx": _SLOW, "sqrt.approx": Rule(2, slow=True), "ex2.approx": Rule(2, slow=True),
    "lg2.approx": Rule(2, slow=True), "sin.approx": Rule(2, slow=True), "cos.approx": Rule(2, slow=True),
    "tanh.approx": _SLOW, "div.approx": Rule(2, slow=True), "div.full": Rule(4, slow=True),
    "div.rn": Rule(10, slow=True), "rcp.rn": Rule(8, slow=True), "sqrt.rn": Rule(9, slow=True),
}  # fmt: skip
