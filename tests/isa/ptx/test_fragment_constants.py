"""Constants beside registers in the operands of matrix instructions, sinks, and what they mean. Every verdict and every
pattern here is that of ptxas 13.0, read from the text it takes and from the constants in what it makes."""

from __future__ import annotations

import pytest

import isa
from isa.ptx.instruction import Immediate, Vector
from tests.support.cases import over

D, A, B, C = "{%f0, %f1, %f2, %f3}", "{%r0, %r1, %r2, %r3}", "{%r4, %r5}", "{%f0, %f1, %f2, %f3}"
F32 = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
F16 = "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16"
S32 = "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32"
SPARSE = "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32"
WORDS = "{%r0, %r1, %r2, %r3}"

TAKEN = [
    f"{F32} {{%f0, _, %f2, _}}, {A}, {B}, {{%f0, 0., %f2, 0.}};",
    f"{F32} {D}, {A}, {B}, {{1.0, %f1, -2.5, 0d3FF0000000000000}};",
    f"{F32} {D}, {A}, {B}, {{%f0, 1e40, .5, 0f3F800000}};",
    f"{F32} {D}, {A}, {B}, {{%r0, 7, %r2, -1}};",
    f"{F32} {D}, {A}, {B}, {{0f00000000, 0f00000000, 0f00000000, 0f00000000}};",
    f"{F32} {D}, {A}, {{%r4, 0x3c003c00}}, {C};",
    f"{F32} {D}, {{1, %r1, -1, 017}}, {{0x3c003c00, %r5}}, {C};",
    f"{F16} {{%r0, %r1}}, {A}, {{%r4, 0}}, {{%r0, 0x3c003c00}};",
    f"{S32} {WORDS}, {{%r0, 0b11, %r2, %r3}}, {{%r4, 0x01010101}}, {{%r0, 5, %r1, %r2}};",
    f"{SPARSE} {D}, {A}, {{%r4, %r5, 0x3c003c00, %r7}}, {{%f0, 0.5, %f2, %f3}}, %r9, 0;",
]
REFUSED = [
    f"{F32} {D}, {A}, {B}, {{1.0, 1.0, 1.0, 1.0}};",
    f"{F32} {D}, {A}, {B}, {{1, 1, 1, 1}};",
    f"{F32} {D}, {A}, {B}, {{%f0, 1, %f2, %f3}};",
    f"{F32} {D}, {A}, {B}, {{1, %f1, %f2, %f3}};",
    f"{F32} {D}, {A}, {B}, {{%f0, _, %f2, %f3}};",
    f"{F32} {D}, {A}, {{%r4, _}}, {C};",
    f"{F32} {D}, {A}, {{1, 2}}, {C};",
    f"{F32} {D}, {{1, 2, 3, 4}}, {B}, {C};",
    f"{F32} {{_, _, _, _}}, {A}, {B}, {C};",
]


@over("text", TAKEN)
def test_taken(text: str) -> None:
    decoded = isa.decode(text, "sm_90a")
    assert isa.decode(str(decoded), "sm_90a") == decoded


@over("text", REFUSED)
def test_refused(text: str) -> None:
    with pytest.raises(isa.IsaError):
        isa.decode(text, "sm_90a")


@over(("constant", "pattern"), [("0.", 0), ("1.0", 0), ("-2.5", 0), ("0.1", 0x9999999A), ("-0.1", 0x9999999A),
                                ("0d3FB999999999999A", 0x9999999A), ("0f40200000", 0x40200000)])  # fmt: skip
def test_a_decimal_constant_is_the_low_word_of_f64(constant: str, pattern: int) -> None:
    """What ptxas 13.0 writes into the machine code for sm_80, sm_90a and sm_120a; what differs from the f32 is said."""
    decoded = isa.decode(f"{F32} {D}, {A}, {B}, {{%f0, {constant}, %f2, %f3}};", "sm_90a")
    vector = decoded["c"]
    assert isinstance(vector, Vector)
    assert vector.elements[1] == Immediate(pattern, "float")
    assert bool(decoded.remarks) == (constant not in ("0.", "0f40200000"))
