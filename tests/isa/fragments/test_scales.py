"""Block scales: bijections, round trips, and the layouts that CuTe publishes for the same operands as a second
opinion."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import isa
from isa.fragments.scales import ScaleOperand
from tests.isa.fragments.test_mappings import check_bijection, check_formulas
from tests.support.cases import examples, over

SCALED = [form for form in isa.mma_forms().values() if form.row.scale]
OPERANDS: dict[str, ScaleOperand] = {  # one for each vector, type and side
    f"{form.row.kind} {form.row.scale} {name} k{form.k}": getattr(form, name)
    for form in SCALED
    for name in ("scale_a", "scale_b")
}
EVERY = over("operand", OPERANDS.values(), ids=list(OPERANDS))

# CuTe's layouts (cute/atom/mma_traits_sm120.hpp): (thread, value) -> index in a column-major (row, factor) matrix.
SFA = ((2, 2, 8), (8, 0, 1), 16)
SFB = ((4, 8), (0, 1), 8)


def cute(layout: tuple[tuple[int, ...], tuple[int, ...], int], lane: int, factor: int) -> tuple[int, int]:
    """(row or column, factor) that a lane holds by a CuTe layout: digits of the lane, lowest first, times their
    strides."""
    sizes, strides, step = layout
    index = factor * step
    for size, stride in zip(sizes, strides, strict=True):
        index += lane % size * stride
        lane //= size
    return index % step, index // step


def ids(operand: ScaleOperand) -> list[tuple[int, int]]:
    return list(product(operand.byte_ids, operand.thread_ids))


def test_which_forms_have_scales() -> None:
    assert {(form.row.scale, form.scale_a.factors, form.scale_b.type.name) for form in SCALED} == {
        ("1X ue8m0", 1, "ue8m0"), ("2X ue8m0", 2, "ue8m0"), ("4X ue8m0", 4, "ue8m0"), ("4X ue4m3", 4, "ue4m3"),
    }  # fmt: skip
    for form in SCALED:
        assert (form.scale_a.shape, form.scale_b.shape) == ((16, form.scale_a.factors), (8, form.scale_a.factors))
        assert form.scale_a.k_per_factor * form.scale_a.factors == form.k
    plain = isa.mma_form("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
    for name in ("scale_a", "scale_b"):
        with pytest.raises(isa.IsaError, match=f"no operand {name}"):
            getattr(plain, name)


@EVERY
def test_ids(operand: ScaleOperand) -> None:
    """PTX ISA 9.0, 9.7.14.3: the table of legal byte-ids and thread-ids."""
    assert operand.byte_ids == {1: (0, 1, 2, 3), 2: (0, 2), 4: (0,)}[operand.factors]
    assert operand.thread_ids == {"scale_a": (0, 1), "scale_b": (0, 1, 2, 3)}[operand.name]
    registers = np.zeros(32, np.uint32)
    for byte_id, thread_id in product(range(-1, 6), range(-1, 6)):
        if (byte_id, thread_id) in ids(operand):
            assert operand.gather(registers, byte_id, thread_id).shape == operand.shape
            continue
        wrong = "byte-id" if byte_id not in operand.byte_ids else "thread-id"
        for call in (
            operand.mapping,
            lambda b, t: operand.gather(registers, b, t),
            lambda b, t: operand.scatter(np.zeros(operand.shape, np.uint32), b, t),
        ):
            with pytest.raises(isa.IsaError, match=f"{wrong} .* of {operand.name}"):
                call(byte_id, thread_id)


@EVERY
def test_bijections(operand: ScaleOperand) -> None:
    """All ids together use each byte of the warp's registers once; each pair of ids is a bijection with the bytes that
    it holds."""
    check_bijection(operand.every)
    check_formulas(operand.every)
    used = np.zeros((32, 4), np.int64)
    for byte_id, thread_id in ids(operand):
        mapping = operand.mapping(byte_id, thread_id)
        lane, byte = mapping.grid
        assert mapping.holds(lane=lane, byte=byte).all()
        np.add.at(used, (lane, byte), 1)
        held = mapping.holds(lane=np.arange(32)[:, None], byte=np.arange(4))
        assert held.sum() == np.prod(operand.shape)
        for axis, (found, wanted) in enumerate(
            zip(mapping.coordinates(lane=lane, byte=byte), np.indices(operand.shape), strict=True)
        ):
            np.testing.assert_array_equal(np.broadcast_to(found, operand.shape), wanted, str(axis))
    np.testing.assert_array_equal(used, 1)


@EVERY
def test_formulas(operand: ScaleOperand) -> None:
    """The printed lines, read as integer arithmetic by Python, say what the mapping does, constant parts included."""
    for byte_id, thread_id in ids(operand):
        mapping = operand.mapping(byte_id, thread_id)
        lines = mapping.formulas()
        axis = mapping.axes[0][0]
        assert list(lines) == [axis, "factor", "lane", "byte"]
        cell = dict(zip((axis, "factor"), np.indices(operand.shape), strict=True))
        place = {name: eval(lines[name].replace("/", "//"), {}, cell) for name in ("lane", "byte")}
        for name, wanted in zip(("lane", "byte"), mapping.grid, strict=True):
            np.testing.assert_array_equal(np.broadcast_to(place[name], operand.shape), wanted)
        for name in (axis, "factor"):
            back = eval(lines[name].replace("/", "//"), {}, dict(zip(("lane", "byte"), mapping.grid, strict=True)))
            np.testing.assert_array_equal(np.broadcast_to(back, operand.shape), cell[name])


@EVERY
def test_against_cute(operand: ScaleOperand) -> None:
    """CuTe lets every lane of a group hold a factor; the thread-id says whose register is read."""
    layout = SFA if operand.name == "scale_a" else SFB
    for byte_id, thread_id in ids(operand):
        mapping = operand.mapping(byte_id, thread_id)
        for vector, factor in np.ndindex(operand.shape):
            lane, byte = (int(place[vector, factor]) for place in mapping.grid)
            assert cute(layout, lane, byte - byte_id) == (vector, factor)
            assert lane % 4 // (2 if operand.name == "scale_a" else 1) == thread_id


@EVERY
@given(data=st.data())
@settings(max_examples=examples(30), deadline=None)
def test_round_trips(operand: ScaleOperand, data: st.DataObject) -> None:
    byte_id, thread_id = data.draw(st.sampled_from(ids(operand)))
    patterns = data.draw(arrays.arrays(np.uint32, (2, *operand.shape), elements=st.integers(0, 255)))
    registers = operand.scatter(patterns, byte_id, thread_id)
    assert (registers.dtype, registers.shape) == (np.uint32, (2, 32))
    np.testing.assert_array_equal(operand.gather(registers, byte_id, thread_id), patterns)
    noise = data.draw(arrays.arrays(np.uint32, (3, 32), elements=st.integers(0, 2**32 - 1)))
    found = operand.gather(noise, byte_id, thread_id)
    held = np.zeros((32, 4), np.bool_)
    held[operand.mapping(byte_id, thread_id).grid] = True
    kept = np.where(
        np.repeat(held, 8, axis=-1),
        np.unpackbits(noise.view(np.uint8).reshape(3, 32, 4), axis=-1, bitorder="little"),
        0,
    )
    words = np.packbits(kept, axis=-1, bitorder="little").view(np.uint32)[..., 0]
    np.testing.assert_array_equal(operand.scatter(found, byte_id, thread_id), words, "what is not held stays 0")


@EVERY
def test_wrong_arrays(operand: ScaleOperand) -> None:
    for registers in (np.zeros(32, np.int64), np.zeros((32, 1), np.uint32), np.zeros((), np.uint32)):
        with pytest.raises(isa.IsaError, match=rf"{operand.name}: registers .*legal: uint32 \[\.\.\., 32\]"):
            operand.gather(registers, 0, 0)  # type: ignore[arg-type]
    for patterns in (np.zeros(operand.shape, np.uint8), np.zeros(operand.shape[::-1], np.uint32)[:7]):
        with pytest.raises(isa.IsaError, match=f"{operand.name}: patterns"):
            operand.scatter(patterns, 0, 0)  # type: ignore[arg-type]
