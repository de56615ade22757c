"""Products and sums that ptxas makes fused multiply-adds: what an H200 gave for random programs, and the rules one by
one."""

from __future__ import annotations

import numpy as np
import pytest

import simulator
from isa.ptx.module import parse_module
from measurements.contraction import HEAD, OUTPUTS, THREADS, Program, inputs, kind_of, programs
from simulator.program.kernel import Operation, link
from tests.support.cases import over
from tests.support.paths import GOLDEN

TELLING = ("k_f32_2", "k_ftz_f32_0", "k_f64_11", "k_f16_0", "k_f16x2_1", "k_bf16x2_3")
RECORDED = np.load(GOLDEN / "contraction_h200.npz")


def given(program: Program, *, fmad: bool = True) -> np.ndarray:
    data = inputs(program.bits, kind_of(program)).copy()
    out = np.zeros((THREADS, OUTPUTS), data.dtype)
    simulator.Module(HEAD + program.text, fmad=fmad).get_function()(1, THREADS, (data, out), workers=1)
    return out[:, : program.outputs]


@over("program", programs(), distinct=lambda program: (kind_of(program), len(program.text) > 1400))
def test_random_programs_as_on_an_h200(program: Program) -> None:
    assert (given(program) == RECORDED[program.name]).all()


def test_without_contraction_results_are_others() -> None:
    """The golden data tell whether something is contracted, in each type."""
    tell = [program for program in programs() if program.name in TELLING]
    assert len(tell) == len(TELLING) == 6
    for program in tell:
        assert (given(program, fmad=False) != RECORDED[program.name]).any()


def opcodes(body: str, **how: bool) -> list[str]:
    registers = ".reg .pred %p<3>; .reg .f32 %f<20>; .reg .f64 %fd<4>; .reg .b32 %r<4>;"
    kernel = link(parse_module(f"{HEAD}.entry k() {{ {registers}\n{body}\nret; }}"), "k", **how)
    return [item.instruction.form.opcode for item in kernel.items if isinstance(item, Operation)]


KEEP = "mov.b32 %r1, %f3;"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("mul.f32 %f2, %f0, %f1; add.f32 %f3, %f2, %f0;", ["fma.rn.f32"]),
        ("mul.f32 %f2, %f0, %f1; add.sat.f32 %f3, %f2, %f0;", ["fma.rn.sat.f32"]),
        ("mul.f32 %f2, %f0, %f1; sub.f32 %f3, %f0, %f2;", ["neg.f32", "fma.rn.f32"]),
        ("mul.f32 %f2, %f0, %f1; mov.f32 %f4, %f2; add.f32 %f3, %f4, %f0;", ["fma.rn.f32"]),
        ("mul.rn.f32 %f2, %f0, %f1; add.f32 %f3, %f2, %f0;", ["mul.rn.f32", "add.f32"]),
        ("mul.f32 %f2, %f0, %f1; add.rz.f32 %f3, %f2, %f0;", ["mul.f32", "add.rz.f32"]),
        ("mul.sat.f32 %f2, %f0, %f1; add.f32 %f3, %f2, %f0;", ["mul.sat.f32", "add.f32"]),
        ("mul.ftz.f32 %f2, %f0, %f1; add.f32 %f3, %f2, %f0;", ["mul.ftz.f32", "add.f32"]),
        ("mul.f32 %f2, %f0, %f1; @%p1 bra L; add.f32 %f3, %f2, %f0; L:", ["mul.f32", "add.f32"]),
        ("mul.f32 %f2, %f0, %f1; bra.uni L; L: add.f32 %f3, %f2, %f0;", ["fma.rn.f32"]),
        ("mul.f32 %f2, %f0, %f1; @%p1 add.f32 %f3, %f2, %f0;", ["fma.rn.f32"]),
        ("@%p1 mul.f32 %f2, %f0, %f1; add.f32 %f3, %f2, %f0;", ["mul.f32", "add.f32"]),
        ("mul.f32 %f2, %f0, %f1; mov.b32 %r0, %f2; add.f32 %f3, %f2, %r0;", ["mul.f32", "mov.b32", "add.f32"]),
    ],
)  # fmt: skip
def test_what_becomes_one(body: str, expected: list[str]) -> None:
    assert opcodes(body + KEEP) == [*expected, "mov.b32"]
    assert "fma.rn.f32" not in opcodes(body + KEEP, fmad=False)
