"""Atomic additions of special values against an H200: subnormal numbers, infinities, NaN, zeros of both signs."""

from __future__ import annotations

import numpy as np
import pytest

import simulator
from tests.support.paths import ROOT

with np.load(ROOT / "tests" / "golden" / "atoms_h200.npz") as _archive:
    CASES = {name: _archive[name] for name in _archive.files}
PTX = """.version 8.3
.target sm_90a
.address_size 64
.visible .entry add(.param .u64 a, .param .u64 b, .param .u64 d) {{
.reg .b32 %r<9>;
.reg .f32 %f<2>;
.reg .b64 %rd<9>;
.shared .align 4 .b8 own[4096];
ld.param.u64 %rd1, [a];
ld.param.u64 %rd2, [b];
ld.param.u64 %rd3, [d];
mov.u32 %r1, %tid.x;
mul.wide.u32 %rd4, %r1, 4;
add.s64 %rd1, %rd1, %rd4;
add.s64 %rd2, %rd2, %rd4;
add.s64 %rd3, %rd3, %rd4;
ld.global.u32 %r2, [%rd1];
ld.global.u32 %r3, [%rd2];
mov.b32 %f1, %r3;
{add}
ret;
}}
"""
SHARED = """mov.u32 %r4, own;
shl.b32 %r5, %r1, 2;
add.u32 %r4, %r4, %r5;
st.shared.u32 [%r4], %r2;
red.shared.add.f32 [%r4], %f1;
ld.shared.u32 %r6, [%r4];
st.global.u32 [%rd3], %r6;"""


@pytest.mark.parametrize(
    ("name", "add"),
    [
        ("f32", "st.global.u32 [%rd3], %r2;\nred.global.add.f32 [%rd3], %f1;"),
        ("f16x2", "st.global.u32 [%rd3], %r2;\nred.global.add.noftz.f16x2 [%rd3], %r3;"),
        ("bf16x2", "st.global.u32 [%rd3], %r2;\nred.global.add.noftz.bf16x2 [%rd3], %r3;"),
        ("shared_f32", SHARED),
    ],
)
def test_sums_of_special_values(name: str, add: str) -> None:
    expected, out = CASES[name], np.zeros(len(CASES["a"]), np.uint32)
    simulator.Module(PTX.format(add=add)).get_function()(1, len(out), (CASES["a"], CASES["b"], out))
    assert len(out) == 576
    assert (out == expected).all()
