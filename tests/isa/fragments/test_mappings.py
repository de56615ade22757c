"""Where every element lives: bijections, formulas, and a second opinion written by hand from the PTX ISA and the H100
probes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import isa
from isa.fragments.registers import Fragment, matrix_rows_fragment
from isa.mapping import Mapping
from tests.support.cases import each, over
from tests.support.forms import by_layout, by_metadata, fragments_of

FORMS = list(isa.mma_forms().values())
SPARSE = [form for form in FORMS if form.sparse]
EVERY = over("form", FORMS, ids=lambda form: form.opcode, distinct=by_layout)
EVERY_SPARSE = over("form", SPARSE, ids=lambda form: form.opcode, distinct=by_metadata)
RNG = np.random.default_rng(1)

# The independent reference. w: bits of an element, g: group (lane / 4), t: thread in group.


def meta_src(w: int, k: int, f: int, row: int, chunk: int) -> tuple[int, int]:
    """(lane, lowest bit) of the code of a chunk."""
    g, h = row % 8, row // 8
    chunks = {32: k // 2, 16: k // 4, 8: k // 4, 4: k // 8}[w]
    if w >= 16:
        return (
            (4 * g + f, 16 * h + 4 * chunk) if chunks == 4 else (4 * g + 2 * f + chunk // 4, 16 * h + 4 * (chunk % 4))
        )
    return (4 * g + 2 * f + h, 4 * chunk) if chunks == 8 else (4 * g + 2 * (chunk // 8) + h, 4 * (chunk % 8))


def a_pos(w: int, rows: int, r: int, i: int, lane: int) -> tuple[int, int]:
    """(row, stored column) of element i of register r; with 8 rows every register goes on along the row."""
    per, g, t = 32 // w or 1, lane >> 2, lane & 3
    if rows == 8:
        return g, per * t + 4 * per * r + i
    return g + 8 * (r & 1), per * t + 4 * per * (r >> 1) + i


def b_pos(w: int, r: int, i: int, lane: int) -> tuple[int, int]:
    per, g, t = 32 // w or 1, lane >> 2, lane & 3
    return per * t + 4 * per * r + i, g


def c_pos(w: int, r: int, i: int, lane: int) -> tuple[int, int]:
    g, t = lane >> 2, lane & 3
    return (g + 8 * (r >> 1), 2 * t + (r & 1)) if w >= 32 else (g + 8 * r, 2 * t + i)


def quad_pair_pos(operand: str, w: int, layout: str, r: int, i: int, lane: int) -> tuple[int, int]:
    """PTX ISA 9.0, 9.7.14.5.1: the formulas of the text for one of the four products, and its place in the stack."""
    n, high, q = (32 // w) * r + i, 4 * (lane >= 16), lane % 16 // 4
    if operand == "a":
        return (lane % 4 + high + 8 * q, n) if layout == "row" else (n % 4 + high + 8 * q, lane % 4)
    if operand == "b":
        return (lane % 4, n + high + 8 * q) if layout == "row" else (n, lane % 4 + high + 8 * q)
    if w == 16:
        return lane % 4 + high + 8 * q, n
    return (lane & 1) + (n & 2) + high + 8 * q, (n & 4) + (lane & 2) + (n & 1)


def logical_col(w: int, p: int, code: int) -> int:
    """Logical column of stored column p, given the code of its chunk."""
    low, high = code & 3, code >> 2
    if w == 32:
        return 2 * p + (code == 0b1110)
    if w == 4:
        return 8 * (p >> 2) + 2 * (high if p & 2 else low) + (p & 1)
    return 4 * (p >> 1) + (high if p & 1 else low)


def expected(form: isa.MmaForm, operand: str) -> dict[tuple[int, int, int], tuple[int, int]]:
    """{(lane, register, element): (row, column)} of one operand by the reference."""
    w = {"a": form.a_type, "b": form.b_type, "c": form.c_type, "d": form.d_type}[operand].bits
    cells = {"a": form.m * form.k_stored, "b": form.k * form.n}.get(operand, form.m * form.n)
    per = 32 // w if w < 64 else 1
    registers = form.blocks * cells // (32 * per)

    def place(r: int, i: int, lane: int) -> tuple[int, int]:
        if form.blocks > 1:
            return quad_pair_pos(operand, w, form.a_layout if operand == "a" else form.b_layout, r, i, lane)
        if operand == "a":
            return a_pos(w, form.m, r, i, lane)
        return b_pos(w, r, i, lane) if operand == "b" else c_pos(w, r, i, lane)

    return {(lane, r, i): place(r, i, lane) for lane in range(32) for r in range(registers) for i in range(per)}


def check_bijection(mapping: Mapping) -> None:
    """Both directions undo each other, and every place and every coordinate is hit once."""
    places, cells = int(np.prod(mapping.place_shape)), int(np.prod(mapping.shape))
    assert places == cells
    index = np.indices(mapping.place_shape).reshape(len(mapping.places), -1)
    there = mapping.coordinates(**{name: index[i] for i, (name, _) in enumerate(mapping.places)})
    there = tuple(np.broadcast_to(axis, places) for axis in there)
    assert all(((axis >= 0) & (axis < size)).all() for axis, size in zip(there, mapping.shape, strict=True))
    assert len(np.unique(np.ravel_multi_index(there, mapping.shape))) == cells
    back = mapping.positions(**{name: there[i] for i, (name, _) in enumerate(mapping.axes)})
    for found, wanted in zip(back, index, strict=True):
        np.testing.assert_array_equal(np.broadcast_to(found, places), wanted)

    cell = np.indices(mapping.shape).reshape(len(mapping.axes), -1)
    here = tuple(
        np.broadcast_to(p, cells)
        for p in mapping.positions(**{name: cell[i] for i, (name, _) in enumerate(mapping.axes)})
    )
    assert len(np.unique(np.ravel_multi_index(here, mapping.place_shape))) == places
    again = mapping.coordinates(**{name: here[i] for i, (name, _) in enumerate(mapping.places)})
    for found, wanted in zip(again, cell, strict=True):
        np.testing.assert_array_equal(np.broadcast_to(found, cells), wanted)


def check_formulas(mapping: Mapping) -> None:
    """The printed lines, read as integer arithmetic by Python, say what the mapping does."""
    lines = {name: compile(line.replace("/", "//"), name, "eval") for name, line in mapping.formulas().items()}
    assert list(lines) == [name for name, _ in (*mapping.axes, *mapping.places)]
    index = np.indices(mapping.place_shape)
    scope = {name: index[i] for i, (name, _) in enumerate(mapping.places)}
    for (axis, _), wanted in zip(mapping.axes, mapping.coordinates(**scope), strict=True):
        np.testing.assert_array_equal(eval(lines[axis], {}, scope), wanted)
    cell = np.indices(mapping.shape)
    scope = {name: cell[i] for i, (name, _) in enumerate(mapping.axes)}
    for (place, _), wanted in zip(mapping.places, mapping.positions(**scope), strict=True):
        np.testing.assert_array_equal(eval(lines[place], {}, scope), wanted)


def test_the_mappings_of_all_forms_are_those_of_the_distinct_ones() -> None:
    """What the tests below look at by default is everything: other forms have the same mappings."""
    distinct, others = each(FORMS, by_layout)
    mappings = {mapping for form in distinct for mapping in fragments_of(form).values()}
    assert len(mappings) == 42
    assert {mapping for form in others for mapping in fragments_of(form).values()} <= mappings


@EVERY
def test_bijections(form: isa.MmaForm) -> None:
    for mapping in fragments_of(form).values():
        check_bijection(mapping)


@EVERY
def test_formulas(form: isa.MmaForm) -> None:
    for mapping in fragments_of(form).values():
        check_formulas(mapping)


@EVERY
def test_elements_against_reference(form: isa.MmaForm) -> None:
    for operand in "abcd":
        fragment: Fragment = getattr(form, operand)
        wanted = expected(form, operand)
        assert set(wanted.values()) == set(np.ndindex(fragment.shape))
        places, cells = np.array(list(wanted)), np.array(list(wanted.values()))
        lane, register, element = places.T
        found = fragment.mapping.coordinates(lane=lane, register=register, element=element)
        np.testing.assert_array_equal(np.stack(np.broadcast_arrays(*found), axis=1), cells)
        back = fragment.mapping.positions(row=cells[:, 0], column=cells[:, 1])
        np.testing.assert_array_equal(np.stack(np.broadcast_arrays(lane, *back)[1:], axis=1), places)


@EVERY_SPARSE
def test_metadata_against_reference(form: isa.MmaForm) -> None:
    metadata, w = form.metadata, form.a_type.bits
    rows, chunks = metadata.shape
    assert (rows, chunks) == (16, form.k // {32: 2, 16: 4, 8: 4, 4: 8}[w])
    for f in range(metadata.selectors):
        for row in range(rows):
            for chunk in range(chunks):
                lane, code = map(int, metadata.mapping.positions(row=row, chunk=chunk, selector=f))
                assert (lane, 4 * code) == meta_src(w, form.k, f, row, chunk)


@over("form", SPARSE, ids=lambda form: form.opcode)
def test_selectors(form: isa.MmaForm) -> None:
    """The range of the selector as PTX tabulates it."""
    wanted = {(16, 16): 4, (16, 32): 2, (32, 8): 4, (32, 16): 2, (8, 32): 2, (8, 64): 1, (4, 64): 2, (4, 128): 1}
    assert form.metadata.selectors == wanted[form.a_type.bits, form.k]


@EVERY_SPARSE
def test_logical_columns_against_reference(form: isa.MmaForm) -> None:
    sparsity, w = form.metadata.sparsity, form.a_type.bits
    codes = RNG.choice(form.metadata.codes, form.metadata.shape).astype(np.uint32)
    found = isa.stored_columns(codes, sparsity)
    assert found.shape == (16, form.k_stored)
    for row in range(16):
        for p in range(form.k_stored):
            assert found[row, p] == logical_col(w, p, int(codes[row, p // sparsity.stored]))


@EVERY
def test_gather_scatter(form: isa.MmaForm) -> None:
    for operand in "abcd":
        fragment: Fragment = getattr(form, operand)
        word = np.dtype(np.uint64 if fragment.type.bits == 64 else np.uint32)
        registers = RNG.integers(0, np.iinfo(word).max, (3, fragment.registers, 32), word, endpoint=True)  # type: ignore[arg-type, type-var]
        matrix = fragment.gather(registers)  # type: ignore[arg-type]
        assert matrix.dtype == word
        assert matrix.shape == (3, *fragment.shape)
        np.testing.assert_array_equal(fragment.scatter(matrix), registers)
        again = RNG.integers(0, fragment.type.mask, (2, 2, *fragment.shape), np.uint64, endpoint=True).astype(word)
        assert fragment.scatter(again).dtype == word
        np.testing.assert_array_equal(fragment.gather(fragment.scatter(again)), again)
        w = fragment.type.bits
        for (lane, register, element), cell in expected(form, operand).items():
            assert matrix[1][cell] == int(registers[1, register, lane]) >> (w * element) & ((1 << w) - 1)


@EVERY_SPARSE
def test_metadata_gather_scatter(form: isa.MmaForm) -> None:
    metadata, w = form.metadata, form.a_type.bits
    registers = RNG.integers(0, 2**32, (3, 32), np.uint32)
    used = np.zeros((metadata.selectors, 32), np.bool_)
    for f in range(metadata.selectors):
        codes = metadata.gather(registers, f)
        for row, chunk in np.ndindex(metadata.shape):
            lane, bit = meta_src(w, form.k, f, row, chunk)
            used[f, lane] = True
            assert codes[2, row, chunk] == int(registers[2, lane]) >> bit & 15
        np.testing.assert_array_equal(metadata.gather(metadata.scatter(codes, f), f), codes)
        np.testing.assert_array_equal(metadata.scatter(codes, f, registers), registers)
        np.testing.assert_array_equal(metadata.scatter(codes, f), np.where(used[f], registers, 0))
    assert (used.sum(axis=0) == 1).all(), "each lane serves exactly one selector"


def test_scatter_rejects_wrong_shapes_and_types() -> None:
    form = isa.mma_form("mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
    calls: tuple[Callable[[], object], ...] = (
        lambda: form.a.scatter(np.zeros((16, 16), np.uint32)),
        lambda: form.a.scatter(np.zeros((16, 8), np.int64)),
        lambda: form.b.gather(np.zeros((4, 32), np.uint32)),
        lambda: form.metadata.scatter(np.zeros((16, 8), np.uint32), 0),
        lambda: form.metadata.gather(np.zeros(32, np.uint32), 4),
        lambda: form.metadata.gather(np.zeros(32, np.uint32), -1),
    )
    for call in calls:
        with pytest.raises(isa.IsaError):
            call()


@pytest.mark.parametrize(
    ("shape", "counts"), [("m8n8k128", [2, 1, 1]), ("m16n8k128", [4, 2, 1]), ("m16n8k256", [4, 4, 2])]
)
def test_b1(shape: str, counts: list[int]) -> None:
    """PTX ISA 9.0, 9.7.14.5.5, .12 and .13: 32 neighbours along K in each register."""
    forms = [
        isa.mma_form(f"mma.sync.aligned.{shape}.row.col.s32.b1.b1.s32.{operation}.popc") for operation in ("xor", "and")
    ]
    assert [form.row.operation for form in forms] == ["xor.popc", "and.popc"]
    for form in forms:
        assert [getattr(form, name).registers for name in "dab"] == counts
        rng = np.random.default_rng(0)
        a, b = rng.integers(0, 2, form.a.shape).astype(np.uint32), rng.integers(0, 2, form.b.shape).astype(np.uint32)
        for name, bits in (("a", a), ("b", b.T)):
            registers = getattr(form, name).scatter(bits if name == "a" else bits.T)
            for lane in range(32):
                for r in range(len(registers)):
                    half = r % (form.m // 8) if name == "a" else 0
                    first = 32 * (lane % 4) + 128 * (r // (form.m // 8) if name == "a" else r)
                    wanted = bits[lane // 4 + 8 * half, first : first + 32]
                    assert int(registers[r, lane]) == int("".join(map(str, wanted[::-1])), 2)


def test_f64_is_in_64_bit_registers() -> None:
    form = isa.mma_form("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64")
    assert [getattr(form, name).registers for name in "dabc"] == [4, 4, 2, 4]
    with pytest.raises(isa.IsaError, match=r"type uint32 .*legal: uint64 \[\.\.\., 4, 32\]"):
        form.a.gather(np.zeros((4, 32), np.uint32))
    with pytest.raises(isa.IsaError, match="uint64"):
        form.d.scatter(np.zeros((16, 8), np.float64))


# CuTe's layouts of f64 (cute/atom/mma_traits_sm80.hpp, mma_traits_sm90.hpp): sizes and strides of lane and register;
# index = row + rows * column of A and C, and column + 8 * row of B.
CUTE_F64 = {
    "m8n8k4": {
        "a": (((4, 8), (1,)), ((8, 1), (0,))),
        "b": (((4, 8), (1,)), ((8, 1), (0,))),
        "c": (((4, 8), (2,)), ((16, 1), (8,))),
    },
    "m16n8k4": {
        "a": (((4, 8), (2,)), ((16, 1), (8,))),
        "b": (((4, 8), (1,)), ((8, 1), (0,))),
        "c": (((4, 8), (2, 2)), ((32, 1), (16, 8))),
    },
    "m16n8k8": {
        "a": (((4, 8), (2, 2)), ((16, 1), (8, 64))),
        "b": (((4, 8), (2,)), ((8, 1), (32,))),
        "c": (((4, 8), (2, 2)), ((32, 1), (16, 8))),
    },
    "m16n8k16": {
        "a": (((4, 8), (2, 4)), ((16, 1), (8, 64))),
        "b": (((4, 8), (4,)), ((8, 1), (32,))),
        "c": (((4, 8), (2, 2)), ((32, 1), (16, 8))),
    },
}


def cute_index(number: int, sizes: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """The digits of a number, lowest first, times their strides."""
    index = 0
    for size, stride in zip(sizes, strides, strict=True):
        index += number % size * stride
        number //= size
    return index


@over("shape", CUTE_F64)
@over("operand", ["a", "b", "c", "d"])
def test_f64_against_cute(shape: str, operand: str) -> None:
    fragment: Fragment = getattr(isa.mma_form(f"mma.sync.aligned.{shape}.row.col.f64.f64.f64.f64"), operand)
    sizes, strides = CUTE_F64[shape][operand.replace("d", "c")]  # type: ignore[index]
    assert np.prod(sizes[1]) == fragment.registers
    for lane in range(32):
        for register in range(fragment.registers):
            index = cute_index(lane, sizes[0], strides[0]) + cute_index(register, sizes[1], strides[1])
            row, column = map(int, fragment.mapping.coordinates(lane=lane, register=register, element=0))
            assert index == (column + 8 * row if operand == "b" else row + fragment.shape[0] * column)


def test_dense_has_no_metadata() -> None:
    with pytest.raises(isa.IsaError, match="dense"):
        _ = isa.mma_form("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32").metadata


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("matrices", [1, 2, 4])
def test_ldmatrix(matrices: int, transposed: bool) -> None:
    """PTX 9.7.14.5.15: lane i holds row i / 4, elements 2 * (i % 4) and the next, of matrix j in register j; .trans: of
    its transpose."""
    fragment = matrix_rows_fragment(matrices, transposed, isa.ELEMENT_TYPES["f16"])
    check_bijection(fragment.mapping)
    check_formulas(fragment.mapping)
    assert (fragment.registers, fragment.shape) == (matrices, (8 * matrices, 8))
    memory = RNG.permutation(2**16)[: 64 * matrices].astype(np.uint32).reshape(matrices, 8, 8)
    registers = fragment.scatter(memory.reshape(-1, 8))
    for j in range(matrices):
        matrix = memory[j].T if transposed else memory[j]
        for lane in range(32):
            row, column = lane // 4, 2 * (lane % 4)
            assert registers[j, lane] == int(matrix[row, column]) | int(matrix[row, column + 1]) << 16
    np.testing.assert_array_equal(fragment.gather(registers), memory.reshape(-1, 8))
