"""`mma.m8n8k4` of f16, four products by four quad pairs: CuTe's layouts, the lanes that ptxas' own routine reads, and
what ptxas takes."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import isa
from isa.fragments.registers import Fragment
from tests.golden.compare_ptxas import takes
from tests.isa.fragments.test_mappings import cute_index
from tests.isa.ptx.test_decoder import ptxas_takes
from tests.support.cases import over
from tests.support.ptxas import PTXAS

LAYOUTS = ("row.row", "row.col", "col.row", "col.col")
ACCUMULATORS = {("f16", "f16"), ("f32", "f16"), ("f32", "f32")}  # D, C
FORMS = [form for form in isa.mma_forms().values() if form.blocks > 1]
REGISTERS = {"f16": 4, "f32": 8, "bf16": 4, "f64": 8, "s32": 8}

# CuTe (cute/atom/mma_traits_sm70.hpp): sizes and strides of the thread of a quad pair and of the value; index = row + 8
# * column, of B the other way round.
THREADS = ((4, 2), (1, 16))  # thread of the quad pair -> lane of the first
ROW_8X4, COL_8X4 = (((8,), (4,)), ((1,), (8,))), (((4, 2), (4,)), ((8, 4), (1,)))
OF_16, OF_32 = (((8,), (8,)), ((1,), (8,))), (((2, 2, 2), (2, 2, 2)), ((1, 16, 4), (8, 2, 32)))


def form_of(layouts: str, d: str, c: str) -> isa.MmaForm:
    return isa.mma_form(f"mma.sync.aligned.m8n8k4.{layouts}.{d}.f16.f16.{c}")


def test_forms() -> None:
    """As PTX lists them, but that D cannot be narrower than C."""
    assert {(f"{form.a_layout}.{form.b_layout}", form.d_type.name, form.c_type.name) for form in FORMS} == {
        (layouts, *types) for layouts in LAYOUTS for types in ACCUMULATORS
    }
    for form in FORMS:
        assert form is form_of(f"{form.a_layout}.{form.b_layout}", form.d_type.name, form.c_type.name)
        assert (form.m, form.n, form.k, form.blocks, form.fma, form.performed_fma) == (8, 8, 4, 4, 1024, 1024)
        assert (form.a.shape, form.b.shape, form.c.shape, form.d.shape) == ((32, 4), (4, 32), (32, 8), (32, 8))
        assert [form.a.registers, form.b.registers] == [2, 2]
        assert [form.d.registers, form.c.registers] == [REGISTERS[form.d_type.name], REGISTERS[form.c_type.name]]
        natives = {
            target: form.native(isa.parse_target(target)) for target in ("sm_70", "sm_75", "sm_80", "sm_90a", "sm_120a")
        }
        assert natives == {"sm_70": True, "sm_75": True, "sm_80": False, "sm_90a": False, "sm_120a": False}
    others = [form for form in isa.mma_forms().values() if form not in FORMS]
    assert {(form.blocks, form.a_layout, form.b_layout) for form in others} == {(1, "row", "col")}


@over("form", FORMS, ids=lambda form: form.opcode)
@over("operand", ["a", "b", "c", "d"])
def test_against_cute(form: isa.MmaForm, operand: str) -> None:
    """Each product for itself. CuTe's B is N x K, so that its row layout is what PTX calls columns."""
    fragment: Fragment = getattr(form, operand)
    if operand in ("c", "d"):
        sizes, strides = OF_16 if fragment.type.bits == 16 else OF_32
    else:
        sizes, strides = ROW_8X4 if {"a": form.a_layout == "row", "b": form.b_layout == "col"}[operand] else COL_8X4  # type: ignore[assignment]
    per = fragment.type.per_register
    for pair, thread, value in product(range(4), range(8), range(fragment.registers * per)):
        lane = cute_index(thread, *THREADS) + 4 * pair
        cell = fragment.mapping.coordinates(lane=lane, register=value // per, element=value % per)
        outer, inner = map(int, cell[::-1] if operand == "b" else cell)
        assert outer // 8 == pair
        assert (
            cute_index(thread, sizes[0], strides[0]) + cute_index(value, sizes[1], strides[1]) == outer % 8 + 8 * inner
        )


def test_lanes_of_the_routine() -> None:
    """The SHFL.IDX of `__cuda_sm_8x_mma_row_col_*` in ptxas 13.0 (sm_80, sm_90): whose row of A and column of B each
    register of D is made of."""
    wide, narrow = form_of("row.col", "f32", "f32"), form_of("row.col", "f16", "f16")
    for lane in range(32):
        for register in range(8):
            row, column = map(int, wide.d.mapping.coordinates(lane=lane, register=register, element=0))
            of_a = (lane & ~3) + (lane & 1) + (register & 2)
            of_b = (lane & 14) + (register & 1) + 16 * (register >> 2)
            assert int(wide.a.mapping.coordinates(lane=of_a, register=0, element=0)[0]) == row
            assert int(wide.b.mapping.coordinates(lane=of_b, register=0, element=0)[1]) == 8 * (row // 8) + column
        for value in range(8):
            row, column = map(int, narrow.d.mapping.coordinates(lane=lane, register=value // 2, element=value % 2))
            of_b = (lane & 12) + value % 4 + 16 * (value // 4)
            assert int(narrow.a.mapping.coordinates(lane=lane, register=0, element=0)[0]) == row
            assert int(narrow.b.mapping.coordinates(lane=of_b, register=0, element=0)[1]) == 8 * (row // 8) + column


@pytest.mark.parametrize("layouts", LAYOUTS)
def test_layouts_hold_the_same_matrices(layouts: str) -> None:
    """Row or column decides which lane holds an element, and nothing else."""
    rng = np.random.default_rng(0)
    form, plain = form_of(layouts, "f32", "f32"), form_of("row.col", "f32", "f32")
    a, b = (rng.integers(0, 2**16, (3, *getattr(plain, name).shape)).astype(np.uint32) for name in "ab")
    np.testing.assert_array_equal(form.a.gather(form.a.scatter(a)), plain.a.gather(plain.a.scatter(a)))
    np.testing.assert_array_equal(form.b.gather(form.b.scatter(b)), plain.b.gather(plain.b.scatter(b)))
    for name, written in zip("ab", layouts.split("."), strict=True):
        same = np.array_equal(getattr(form, name).mapping.grid[0], getattr(plain, name).mapping.grid[0])
        assert same == (written == {"a": "row", "b": "col"}[name])


def vector(first: int, count: int) -> str:
    return "{" + ", ".join(f"%r{first + i}" for i in range(count)) + "}"


def grid() -> list[tuple[str, bool]]:
    """Every layout with every D, C and input type here, and whether ptxas 13.0 takes it (bf16 of f32: it does, and
    writes no instruction)."""
    found = []
    for layouts, inputs, d, c in product(
        (*LAYOUTS, "row", "col", ""), ("f16", "bf16", "s8"), ("f16", "f32", "s32"), ("f16", "f32", "s32")
    ):
        if (inputs, d, c) == ("bf16", "f32", "f32"):
            continue
        opcode = ".".join(part for part in ("mma.sync.aligned.m8n8k4", layouts, d, inputs, inputs, c) if part)
        text = f"{opcode} {vector(0, REGISTERS[d])}, {vector(10, 2)}, {vector(12, 2)}, {vector(20, REGISTERS[c])};"
        found.append((text, layouts in LAYOUTS and inputs == "f16" and (d, c) in ACCUMULATORS))
    return found


@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_90a", "sm_120a"])
def test_grid(target: str) -> None:
    verdicts = grid()
    assert sum(accepted for _, accepted in verdicts) == len(FORMS)
    assert [text for text, accepted in verdicts if takes(text, target) != accepted] == []


@pytest.mark.skipif(PTXAS is None, reason="no ptxas on PATH")
@pytest.mark.exhaustive
@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_90a", "sm_120a"])
def test_grid_is_what_ptxas_says(target: str) -> None:
    assert [text for text, accepted in grid() if ptxas_takes(text, target) != accepted] == []
