"""Where things lie in Tensor Memory: bijections, formulas, and second opinions written by hand from PTX, and from
CUTLASS's layouts.

CUTLASS's atoms (include/cute/atom/mma_traits_sm100_frag.hpp and copy_traits_sm100.hpp) are written as CuTe shapes and
strides and evaluated by `cute`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from isa.descriptors.instruction import KINDS, legal_m, legal_n
from isa.errors import IsaError
from isa.forms.table import family_opcodes
from isa.fragments.metadata import stored_columns
from isa.mapping import Mapping
from isa.shared_memory.tile import COPY_SHAPES
from isa.tensor_memory.address import COLUMNS, TMEM_LANES, TmemAddress, warp_lanes
from isa.tensor_memory.copies import copy, decompress
from isa.tensor_memory.datapath import LAYOUTS, DatapathLayout, check_addresses, datapath, violations
from isa.tensor_memory.metadata import TmemMetadata, tmem_metadata
from isa.tensor_memory.moves import move, shift_down, shift_sources
from isa.tensor_memory.scales import k_per_factor, scale_factors, tmem_scales
from tests.support.cases import over

RNG = np.random.default_rng(3)
COMBINATIONS = [
    (kind, m, group, sparse, ws)
    for kind, group, sparse, ws in itertools.product(KINDS, (1, 2), (False, True), (False, True))
    for m in legal_m(kind, cta_group=group, sparse=sparse, ws=ws)
]
SPARSE = [(kind, m, group, ws) for kind, m, group, sparse, ws in COMBINATIONS if sparse]


def check_bijective(mapping: Mapping) -> None:
    """Every coordinate has a place of its own that leads back to it, and no other place is held; the printed formulas
    say the same."""
    index = np.indices(mapping.shape)
    axes, places = [name for name, _ in mapping.axes], [name for name, _ in mapping.places]
    there = dict(zip(places, mapping.grid, strict=True))
    for name, size in mapping.places:
        assert (there[name] >= 0).all()
        assert (there[name] < size).all()
    flat = np.ravel_multi_index(mapping.grid, mapping.place_shape)
    assert len(np.unique(flat)) == flat.size
    back = mapping.coordinates(**there)
    assert all((np.broadcast_to(b, mapping.shape) == i).all() for b, i in zip(back, index, strict=True))
    every = dict(zip(places, np.indices(mapping.place_shape), strict=True))
    held = np.broadcast_to(mapping.holds(**every), mapping.place_shape)
    assert held.ravel()[flat].all()
    assert held.sum() == flat.size
    here = dict(zip(axes, index, strict=True))
    formulas = mapping.formulas()
    for name, expected in [*there.items(), *zip(axes, index, strict=True)]:
        known: dict[str, Any] = here if name in places else there
        assert (eval(formulas[name].replace("/", "//"), {}, known) == expected).all(), (name, formulas[name])


def cute(shape: Any, stride: Any, index: int) -> int:
    """CuTe's layout function: the index is cut into digits of the shape, the first the fastest."""
    total = 0
    for size, step in zip(_flat(shape), _flat(stride), strict=True):
        total += index % size * step
        index //= size
    assert index == 0
    return total


def _flat(nested: Any) -> Iterator[int]:
    if isinstance(nested, int):
        yield nested
    else:
        for inner in nested:
            yield from _flat(inner)


# Addresses


def test_addresses_are_lane_and_column() -> None:
    for lane, column in itertools.product((0, 1, 16, 127), (0, 1, 511)):
        word = TmemAddress(lane, column).word
        assert (word >> 16, word & 0xFFFF) == (lane, column)
        assert TmemAddress.from_word(word) == TmemAddress(lane, column)
    assert TmemAddress(16, 4).moved(lanes=3, columns=8) == TmemAddress(19, 12)


@pytest.mark.parametrize("word", [TMEM_LANES << 16, COLUMNS, 1 << 32, -1])
def test_words_that_are_no_address(word: int) -> None:
    with pytest.raises(IsaError, match="Tensor Memory"):
        TmemAddress.from_word(word)


def test_a_warp_reaches_its_quarter() -> None:
    for warp in range(8):
        assert list(warp_lanes(warp)) == [lane for lane in range(128) if lane // 32 == warp % 4]


# tcgen05.ld and tcgen05.st

# One row of PTX's and CUTLASS's table for each shape: thread, register -> lane, column.
TABLE = {
    "32x32b": lambda t, r: (t, r),
    "16x64b": lambda t, r: (t // 4 + 8 * (t % 2), 2 * r + (t // 2) % 2),
    "16x128b": lambda t, r: (t // 4 + 8 * (r % 2), 4 * (r // 2) + t % 4),
    "16x256b": lambda t, r: (t // 4 + 8 * ((r // 2) % 2), 8 * (r // 4) + 2 * (t % 4) + r % 2),
    "16x32bx2": lambda t, r: (t % 16, r),
}
PER = {"32x32b": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4, "16x32bx2": 1}


def legal_moves() -> list[tuple[str, int]]:
    """Shapes and repeats of the opcodes in the table that ptxas 13.0 confirmed."""
    found = set()
    for opcode in family_opcodes():
        parts = opcode.split(".")
        if parts[:2] == ["tcgen05", "ld"] and "red" not in parts:
            found.add(
                (next(p for p in parts if p in PER), int(next(p for p in parts if p[0] == "x" and p[1:].isdigit())[1:]))
            )
    return sorted(found)


MOVES = legal_moves()


def test_every_move_of_the_table_exists_and_no_other() -> None:
    assert len(MOVES) == 8 * 3 + 7 + 6
    for shape, repeats in itertools.product(PER, (0, 1, 2, 3, 4, 8, 16, 32, 64, 128, 256)):
        split = 1 if shape == "16x32bx2" else None
        if (shape, repeats) in MOVES:
            assert move(shape, repeats, half_split=split).registers == PER[shape] * repeats <= 128
        else:
            with pytest.raises(IsaError, match=r"has no \.x"):
                move(shape, repeats, half_split=split)


@over("packed", [False, True])
@over(("shape", "repeats"), MOVES, ids=str)
def test_moves_are_the_table(shape: str, repeats: int, packed: bool) -> None:
    split = repeats * (2 if packed else 1) if shape == "16x32bx2" else None
    this = move(shape, repeats, packed, split)
    check_bijective(this.mapping)
    lanes, columns = this.cells
    seen = set()
    for register in range(PER[shape] * repeats):
        for thread in range(32):
            lane, column = TABLE[shape](thread, register)
            for part in range(2 if packed else 1):
                expected = 2 * column + part if packed else column
                expected += (thread // 16) * (split or 0)
                assert (lanes[register, thread, part], columns[register, thread, part]) == (lane, expected)
                seen.add((lane, expected))
    assert len(seen) == lanes.size == this.lanes * this.columns
    cells = RNG.integers(0, 1 << 32, (2, this.lanes, this.columns), dtype=np.uint32)
    registers = this.gather(cells)
    kept = cells & 0xFFFF if packed else cells
    assert (this.scatter(registers) == kept).all()
    assert (this.gather(this.scatter(registers)) == registers).all()
    if packed:
        lane, column = TABLE[shape](5, 0)
        assert (
            registers[1, 0, 5]
            == (int(cells[1, lane, 2 * column + 1]) & 0xFFFF) << 16 | int(cells[1, lane, 2 * column]) & 0xFFFF
        )


# CUTLASS's (thread, bit) -> bit of what is moved, lane after lane: shape and stride of the threads in DstLayout, whose
# bits have stride 1; then bits in a lane.
CUTLASS_LOADS = [
    ("16x64b", 1, None, (2, 2, 8), (512, 32, 64), 64),
    ("16x32bx2", 2, 2, (16, 2), (128, 64), 128),
    ("16x32bx2", 4, 4, (16, 2), (256, 128), 256),
]


@pytest.mark.parametrize(("shape", "repeats", "split", "threads", "strides", "width"), CUTLASS_LOADS)
def test_moves_are_cutlass_layouts(
    shape: str, repeats: int, split: int | None, threads: Any, strides: Any, width: int
) -> None:
    """Also with packing, whose ValID layout takes 16 bits of every 32: then a bit of a register counts 16-bit halves of
    the cells."""
    plain, packed = move(shape, repeats, False, split), move(shape, repeats, True, None if split is None else 2 * split)
    for thread, bit in itertools.product(range(32), range(0, 32 * repeats, 16)):
        place = cute(threads, strides, thread) + bit
        lane, register, part = place // width, bit // 32, bit % 32 // 16
        assert (plain.cells[0][register, thread, 0], plain.cells[1][register, thread, 0]) == (lane, place % width // 32)
        assert (packed.cells[0][register, thread, part], packed.cells[1][register, thread, part]) == (
            lane,
            place % width // 16,
        )


def test_the_split_of_a_move() -> None:
    wide = move("16x32bx2", 2, half_split=100)
    assert wide.columns == 102
    assert wide.cells[1][1, 20, 0] == 101
    registers = np.arange(64, dtype=np.uint32).reshape(2, 32) + 1
    rest = np.full((16, 102), 7, np.uint32)
    cells = wide.scatter(registers, rest)
    assert (cells[:, 2:100] == 7).all()
    assert (wide.gather(cells) == registers).all()
    narrow = move("16x32bx2", 4, half_split=1)
    assert narrow.overlaps
    cells = np.arange(16 * 5, dtype=np.uint32).reshape(16, 5)
    assert (narrow.gather(cells)[:, 16:] == cells.T[1:5]).all()
    with pytest.raises(IsaError, match="two values in one cell"):
        narrow.scatter(np.zeros((4, 32), np.uint32))
    for args in (
        ("16x32bx2", 1, False, None),
        ("32x32b", 1, False, 4),
        ("16x32bx2", 1, False, 512),
        ("16x32bx2", 1, False, -1),
    ):
        with pytest.raises(IsaError, match=r"immHalfSplitoff|moves"):
            move(*args)


def test_where_a_move_may_start() -> None:
    assert move("32x32b", 1).base_lanes(6) == (64,)
    assert move("16x64b", 1).base_lanes(6) == (64, 80)
    move("16x256b", 4).check_base(3, 112, 480)
    for warp, lane, column in ((3, 96, 481), (3, 104, 0), (2, 96, 0)):
        with pytest.raises(IsaError, match=r"16x256b"):
            move("16x256b", 4).check_base(warp, lane, column)


# tcgen05.cp and tcgen05.shift

COPIES = {  # row -> lanes
    ("128x256b", ""): lambda r: [r],
    ("128x128b", ""): lambda r: [r],
    ("64x128b", "warpx2::02_13"): lambda r: [r, r + 64],
    ("64x128b", "warpx2::01_23"): lambda r: [r, r + 32] if r < 32 else [r + 32, r + 64],
    ("32x128b", "warpx4"): lambda r: [r, r + 32, r + 64, r + 96],
    ("4x256b", ""): lambda r: [32 * r],
}


@pytest.mark.parametrize(("shape", "multicast"), list(COPIES))
def test_copies_are_the_table(shape: str, multicast: str) -> None:
    this = copy(shape, multicast)
    check_bijective(this.mapping)
    rows, width = COPY_SHAPES[shape]
    assert this.source == (rows, width)
    matrix = RNG.integers(1, 256, (rows, width), dtype=np.uint8)
    expected = np.zeros((128, width // 4), np.uint32)
    for row in range(rows):
        for lane in COPIES[shape, multicast](row):
            for byte in range(width):
                expected[lane, byte // 4] |= np.uint32(int(matrix[row, byte]) << 8 * (byte % 4))
    assert (this.scatter(matrix) == expected).all()
    untouched = expected == 0
    assert (this.scatter(matrix, np.full_like(expected, 9))[untouched] == 9).all()
    for which in range(this.copies):
        assert (this.gather(expected, which) == matrix).all()


def test_where_a_copy_may_start() -> None:
    copy("4x256b").check_base(31, 504)
    copy("32x128b", "warpx4").check_base(0, 508)
    for this, lane, column in (
        (copy("4x256b"), 32, 0),
        (copy("4x256b"), 0, 505),
        (copy("128x128b"), 16, 0),
        (copy("128x128b"), 0, 509),
    ):
        with pytest.raises(IsaError, match=r"tcgen05\.cp\..* at"):
            this.check_base(lane, column)


def test_copies_that_are_none() -> None:
    for args in (("64x128b", ""), ("32x128b", "warpx2::02_13"), ("128x128b", "warpx4"), ("16x128b", "")):
        with pytest.raises(IsaError, match=r"tcgen05\.cp has no"):
            copy(*args)
    with pytest.raises(IsaError, match="copy 2 of"):
        copy("64x128b", "warpx2::02_13").gather(np.zeros((128, 4), np.uint32), 2)
    with pytest.raises(IsaError, match=r"uint8 \[\.\.\., 128, 16\]"):
        copy("128x128b").scatter(np.zeros((128, 32), np.uint8))


@pytest.mark.parametrize(("source", "bits", "shift"), [("b4x16_p64", 4, 2), ("b6x16_p32", 6, 0)])
def test_decompression_spreads_bits(source: str, bits: int, shift: int) -> None:
    packed = RNG.integers(0, 256, (3, 5, 32), dtype=np.uint8)
    result = decompress(packed, source)
    assert result.shape == packed.shape
    for case, group in itertools.product(np.ndindex(3, 5), range(2)):
        number = int.from_bytes(packed[case][16 * group : 16 * group + 16].tobytes(), "little")
        for element in range(16):
            assert result[case][16 * group + element] == (number >> bits * element & (1 << bits) - 1) << shift


def test_decompression_refuses() -> None:
    with pytest.raises(IsaError, match="unknown source format"):
        decompress(np.zeros(16, np.uint8), "b8x16")
    for wrong in (np.zeros(15, np.uint8), np.zeros(16, np.uint32)):
        with pytest.raises(IsaError, match="a multiple of 16"):
            decompress(wrong, "b4x16_p64")  # type: ignore[arg-type]


def test_shift_moves_all_but_the_last() -> None:
    cells = RNG.integers(0, 1 << 32, (2, 128, 8), dtype=np.uint32)
    for start, lanes in ((32, 32), (0, 128), (64, 64), (96, 32)):
        after = shift_down(cells, start, lanes)
        for lane in range(128):
            source = lane + 1 if start <= lane < start + lanes and lane not in (31, 63, 95, 127) else lane
            assert shift_sources(start, lanes)[lane] == source
            assert (after[:, lane] == cells[:, source]).all()
    assert (shift_sources(64) == shift_sources(64, 32)).all()
    for lane, lanes in ((16, 32), (128, 32), (-32, 32), (0, 48), (96, 64), (0, 0)):
        with pytest.raises(IsaError, match=r"tcgen05\.shift"):
            shift_sources(lane, lanes)


# Data path layouts

CHOICE = {  # (m, cta_group, sparse, ws) -> layout: PTX's table, one entry for each line and way to come there
    "A": [(256, 2, False, False), (256, 2, True, False)],
    "B": [(128, 2, False, False)],
    "C": [(128, 2, True, False)],
    "D": [(128, 1, False, False), (128, 1, True, False), (128, 1, False, True), (128, 1, True, True)],
    "E": [(64, 1, False, True), (64, 1, True, True)],
    "F": [(64, 1, False, False), (64, 1, True, False)],
    "G": [(32, 1, False, True), (32, 1, True, True)],
}
PLACE = {  # row, column of N, N, base lane -> lane, column
    "A": lambda r, c, n, a: (r, c),
    "B": lambda r, c, n, a: (r + 64 * (c // (n // 2)), c % (n // 2)),
    "C": lambda r, c, n, a: (a + 32 * (r // 16) + r % 16, c),
    "D": lambda r, c, n, a: (r, c),
    "E": lambda r, c, n, a: (r + 64 * (c // (n // 2)), c % (n // 2)),
    "F": lambda r, c, n, a: (a + 32 * (r // 16) + r % 16, c),
    "G": lambda r, c, n, a: (r + 32 * (c // (n // 4)), c % (n // 4)),
}
ROWS = {"A": 128, "B": 64, "C": 64, "D": 128, "E": 64, "F": 64, "G": 32}
CUTLASS_D = {  # shape and stride of (row, n); an offset is lane + 128 * column
    "A": lambda n: ((128, n), (1, 128)),
    "B": lambda n: ((64, n // 2, 2), (1, 128, 64)),
    "D": lambda n: ((128, n), (1, 128)),
    "E": lambda n: ((64, n // 2, 2), (1, 128, 64)),
    "F": lambda n: ((16, 4, n), (1, 32, 128)),
    "G": lambda n: ((32, n // 4, 4), (1, 128, 32)),
}


def test_the_choice_of_a_layout() -> None:
    known = {key: name for name, keys in CHOICE.items() for key in keys}
    for key in itertools.product((16, 32, 64, 96, 128, 192, 256, 512), (0, 1, 2, 3), (False, True), (False, True)):
        if key in known:
            layout = datapath(*key)
            assert (layout.name, layout.rows) == (known[key], ROWS[known[key]])
            assert layout.base_lanes == ((0, 16) if layout.name in "CF" else (0,))
        else:
            with pytest.raises(IsaError, match="no data path layout"):
                datapath(*key)
    assert {key[1:] for key in COMBINATIONS} == set(known)


def all_d() -> list[tuple[DatapathLayout, int, int]]:
    """Every (layout, N, base lane) that some legal instruction has."""
    found = {
        (datapath(m, group, sparse, ws).name, n, base)
        for kind, m, group, sparse, ws in COMBINATIONS
        for n in legal_n(kind, cta_group=group, sparse=sparse, ws=ws)
        for base in datapath(m, group, sparse, ws).base_lanes
    }
    return [(LAYOUTS[name], n, base) for name, n, base in sorted(found)]


def test_d_is_a_bijection_for_every_legal_instruction() -> None:
    cases = all_d()
    assert len(cases) == 16 + 16 + 2 * 16 + 32 + 3 + 2 * 32 + 3
    for layout, n, base in cases:
        mapping = layout.d(n, base)
        check_bijective(mapping)
        row, column = np.indices((ROWS[layout.name], n))
        lane, place = PLACE[layout.name](row, column, n, base)
        assert (mapping.grid[0] == lane).all()
        assert (mapping.grid[1] == place).all()
        assert (np.unique(lane) == layout.lanes(base)).all()


@pytest.mark.parametrize("name", CUTLASS_D)
def test_d_is_cutlass_fragment(name: str) -> None:
    n = 64
    shape, stride = CUTLASS_D[name](n)
    lane, column = LAYOUTS[name].d(n).grid
    for r, c in itertools.product(range(ROWS[name]), range(n)):
        offset = cute(shape, stride, r + ROWS[name] * c)
        assert (lane[r, c], column[r, c]) == (offset % 128, offset // 128)


def test_half_layouts_fill_the_memory_together() -> None:
    for name in "CF":
        low, high = LAYOUTS[name].lanes(0), LAYOUTS[name].lanes(16)
        assert sorted([*low, *high]) == list(range(128))
        assert list(low[:17]) == [*range(16), 32]


@over("bits", [4, 8, 16, 32])
@over("name", LAYOUTS)
def test_a_in_tensor_memory(name: str, bits: int) -> None:
    layout = LAYOUTS[name]
    copies = {"B": [0, 64], "E": [0, 64], "G": [0, 32, 64, 96]}.get(name, [0])
    for base in layout.base_lanes:
        mapping = layout.a(bits, base)
        check_bijective(mapping)
        assert mapping.shape == (ROWS[name], 256 // bits, len(copies))
        for r, k, i in itertools.product(range(ROWS[name]), range(256 // bits), range(len(copies))):
            lane = base + 32 * (r // 16) + r % 16 if name in "CF" else r + copies[i]
            assert tuple(grid[r, k, i] for grid in mapping.grid) == (lane, bits * k // 32, bits * k % 32 // bits)


def test_a_layout_refuses() -> None:
    with pytest.raises(IsaError, match="base lane 16 in layout E"):
        LAYOUTS["E"].d(64, 16)
    with pytest.raises(IsaError, match="base lane 8 in layout F; legal: 0 or 16"):
        LAYOUTS["F"].a(16, 8)
    for name, n in (("B", 17), ("D", 0), ("D", 264), ("G", 66)):
        with pytest.raises(IsaError, match=f"N = {n} in layout {name}"):
            LAYOUTS[name].d(n)
    with pytest.raises(IsaError, match="elements of 6 bits"):
        LAYOUTS["D"].a(6)


def test_addresses_of_one_instruction_agree() -> None:
    """Part C, item 4: every combination of lanes 0, 8, 16 and 32, judged by the words of the rule."""
    lanes = (0, 8, 16, 32)
    for name, d, a, meta in itertools.product(LAYOUTS, lanes, (None, *lanes), (None, *lanes)):
        legal = (0, 16) if name in "CF" else (0,)
        expected = []
        for operand, lane in (("d", d), ("a", a), ("sp_meta", meta)):
            if lane is not None and lane not in legal:
                expected.append(("base-lane", operand))
            elif lane is not None and d in legal and lane != d:
                expected.append(("half-mismatch", operand))
        address = {key: None if lane is None else TmemAddress(lane, 4) for key, lane in (("a", a), ("sp_meta", meta))}
        found = violations(LAYOUTS[name], TmemAddress(d, 0), **address)
        assert [(v.name, v.operand) for v in found] == expected
        if expected:
            with pytest.raises(IsaError, match=f"{expected[0][0]}: {expected[0][1]}"):
                check_addresses(LAYOUTS[name], TmemAddress(d, 0), **address)
        else:
            check_addresses(LAYOUTS[name], TmemAddress(d, 0), **address)
    [odd] = violations(LAYOUTS["D"], TmemAddress(0, 0), sp_meta=TmemAddress(0, 5))
    assert str(odd).startswith("odd-metadata-column: sp_meta: column 5 is not the first of a pair; right: column 4")


# Sparsity metadata

CHUNK = {"f16": 4, "tf32": 2, "f8f6f4": 4, "i8": 4, "mxf8f6f4": 4, "mxf4": 8, "mxf4nvf4": 8}
LOGICAL_K = {"f16": 32, "tf32": 16, "f8f6f4": 64, "i8": 64, "mxf8f6f4": 64, "mxf4": 128, "mxf4nvf4": 128}


def cell(kind: str, name: str, r: int, k: int, selector: int, a: int) -> tuple[int, int, int]:
    """Lane, column of the pair and lowest bit of the code of row r and logical column k."""
    g = r // 16
    first = a + 32 * g if name in "CF" else 16 * g
    if kind in ("f16", "tf32"):
        w, wide = (16, 4) if kind == "f16" else (8, 2)
        j, nibble = k // w, (k % w) // wide
        return first + (r & 7) + 8 * (j & 1), selector, 16 * ((r >> 3) & 1) + 4 * nibble
    wide = 64 if kind in ("mxf4", "mxf4nvf4") else 32
    return first + (r & 15), k // wide, 4 * ((k % wide) // (wide // 8))


def variants(metadata: TmemMetadata) -> list[tuple[int, int]]:
    return list(itertools.product(metadata.selectors, metadata.layout.base_lanes))


@over(("kind", "m", "group", "ws"), SPARSE)
def test_metadata_is_the_formula(kind: str, m: int, group: int, ws: bool) -> None:
    metadata = tmem_metadata(kind, m, group, ws)
    name = datapath(m, group, True, ws).name
    offsets = {"E": [0, 64], "G": [0, 32, 64, 96]}.get(name, [0])
    assert metadata.k == LOGICAL_K[kind]
    assert metadata.shape == (ROWS[name], LOGICAL_K[kind] // CHUNK[kind])
    assert metadata.selectors == ((0, 1) if kind in ("f16", "tf32") else (0,))
    for selector, base in variants(metadata):
        mapping = metadata.mapping(selector, base)
        check_bijective(mapping)
        lane, column, code = mapping.grid
        for r, chunk in itertools.product(range(ROWS[name]), range(metadata.shape[1])):
            x, y, bit = cell(kind, name, r, chunk * CHUNK[kind], selector, base)
            assert (lane[r, chunk] == [x + offset for offset in offsets]).all()
            assert (column[r, chunk] == y).all()
            assert (4 * code[r, chunk] == bit).all()
        codes = RNG.integers(0, 16, (2, *metadata.shape), dtype=np.uint32)
        rest = RNG.integers(0, 1 << 32, (2, 128, 2), dtype=np.uint32)
        words = metadata.scatter(codes, selector, base, rest)
        for which in range(len(offsets)):
            assert (metadata.gather(words, selector, base, which) == codes).all()
        mask = metadata.scatter(np.full(metadata.shape, 15, np.uint32), selector, base)
        assert ((words ^ rest) & ~mask == 0).all()
        assert sum(int(w).bit_count() for w in mask.ravel()) == 4 * codes[0].size * len(offsets)


# CUTLASS: shape and stride of (row, k) and of the copies, in units of the given number of bits; an offset is lane + 128
# * unit.
CUTLASS_E = [
    ("tf32", 128, False, (8, 2, 8, 8, 2), (1, 1024, 16, 128, 8), 2.0),
    ("f16", 128, False, (8, 2, 8, 16, 2), (1, 2048, 16, 128, 8), 1.0),
    ("f8f6f4", 128, False, (128, 64), (1, 128), 1.0),
    ("i8", 128, False, (128, 64), (1, 128), 1.0),
    ("mxf8f6f4", 128, False, (128, 64), (1, 128), 1.0),
    ("mxf4", 128, False, (128, 128), (1, 128), 0.5),
    ("tf32", 64, True, (8, 2, 4, 8, 2, 2), (1, 1024, 16, 128, 8, 64), 2.0),
    ("f16", 64, True, (8, 2, 4, 16, 2, 2), (1, 2048, 16, 128, 8, 64), 1.0),
    ("i8", 64, True, (64, 64, 2), (1, 128, 64), 1.0),
    ("tf32", 32, True, (8, 2, 2, 8, 2, 4), (1, 1024, 16, 128, 8, 32), 2.0),
    ("f16", 32, True, (8, 2, 2, 16, 2, 4), (1, 2048, 16, 128, 8, 32), 1.0),
    ("f8f6f4", 32, True, (32, 64, 4), (1, 128, 32), 1.0),
]


@over(("kind", "m", "ws", "shape", "stride", "unit"), CUTLASS_E)
def test_metadata_is_cutlass_fragment(kind: str, m: int, ws: bool, shape: Any, stride: Any, unit: float) -> None:
    metadata = tmem_metadata(kind, m, 1, ws)
    lane, column, code = metadata.mapping().grid
    for r, chunk, which in itertools.product(range(m), range(metadata.shape[1]), range(metadata.copies)):
        offset = cute(shape, stride, r + m * (chunk * CHUNK[kind] + LOGICAL_K[kind] * which))
        bit = unit * (offset // 128)
        assert (lane[r, chunk, which], 32 * column[r, chunk, which] + 4 * code[r, chunk, which]) == (offset % 128, bit)


@over(("kind", "m", "group", "ws"), SPARSE)
def test_metadata_goes_to_shared_memory_and_back(kind: str, m: int, group: int, ws: bool) -> None:
    """Matrix -> bytes in shared memory -> tcgen05.cp.128x128b, by hand -> cells -> matrix; and what an instruction
    picks of it."""
    metadata = tmem_metadata(kind, m, group, ws)
    for base in metadata.layout.base_lanes:
        codes = RNG.integers(0, 16, (metadata.layout.rows, 32), dtype=np.uint32)
        image = metadata.tile_image(codes, base)
        assert image.shape == (128, 16)
        assert image.dtype == np.uint8
        words = np.zeros((128, 4), np.uint32)
        for lane, byte in itertools.product(range(128), range(16)):
            words[lane, byte // 4] |= np.uint32(int(image[lane, byte]) << 8 * (byte % 4))
        assert (copy("128x128b").scatter(image) == words).all()
        assert (metadata.tile_codes(words, base) == codes).all()
        assert (metadata.from_image(image, base) == codes).all()
        chunks = LOGICAL_K[kind] // CHUNK[kind]
        assert metadata.instructions_per_tile * chunks == 32
        for i in range(32 // chunks):
            pair, selector = (2 * (i // 2), i % 2) if kind in ("f16", "tf32") else (2 * i, 0)
            assert (
                metadata.gather(words[:, pair : pair + 2], selector, base) == codes[:, i * chunks : (i + 1) * chunks]
            ).all()


def test_which_codes_mean_something() -> None:
    seven = {0b0100, 0b1000, 0b1100, 0b1001, 0b1101, 0b0110, 0b1110}
    every, same = np.arange(16, dtype=np.uint32), {0b0000, 0b0101, 0b1010, 0b1111}
    for kind in KINDS:
        metadata = tmem_metadata(kind, 128 if not kind.startswith("mx") else 256, 1 if not kind.startswith("mx") else 2)
        legal = {0b0100, 0b1110} if kind == "tf32" else seven
        assert set(np.flatnonzero(metadata.legal(every))) == legal == set(metadata.codes)
        strict = metadata.findings(every)
        assert set(np.flatnonzero(strict["undefined-metadata"])) == set(range(16)) - legal
        assert set(np.flatnonzero(strict["unordered-metadata"])) == legal & {0b0110}
        assert not strict["zero-chunk"].any()
        lax = metadata.findings(every, np.ones(16, np.bool_))
        assert set(np.flatnonzero(lax["zero-chunk"])) == same
        assert set(np.flatnonzero(lax["undefined-metadata"])) == set(range(16)) - legal


def test_the_columns_that_a_code_picks() -> None:
    codes = np.array([[0b0100, 0b1110, 0b0110]], np.uint32)
    assert stored_columns(codes, tmem_metadata("i8", 128).sparsity).tolist() == [[0, 1, 6, 7, 10, 9]]
    assert stored_columns(codes, tmem_metadata("mxf4", 128).sparsity).tolist() == [
        [0, 1, 2, 3, 12, 13, 14, 15, 20, 21, 18, 19]
    ]
    assert stored_columns(codes[:, :2], tmem_metadata("tf32", 128).sparsity).tolist() == [[0, 3]]


def test_metadata_refuses() -> None:
    with pytest.raises(IsaError, match=r"sparsity selector 1 with \.kind::i8; legal: 0 "):
        tmem_metadata("i8", 128).mapping(1)
    for selector in (2, 3, -1):
        with pytest.raises(IsaError, match="legal: 0 or 1"):
            tmem_metadata("f16", 128).mapping(selector)
    with pytest.raises(IsaError, match="base lane 16 in layout D"):
        tmem_metadata("f16", 128).mapping(0, 16)
    for kind, m, group, ws in (
        ("mxf4", 64, 1, False),
        ("mxf4", 128, 2, False),
        ("f16", 64, 2, False),
        ("f16", 32, 1, False),
        ("mxf4", 128, 1, True),
    ):
        with pytest.raises(IsaError, match=f"M = {m} with .kind::{kind}"):
            tmem_metadata(kind, m, group, ws)
    with pytest.raises(IsaError, match="unknown kind 'f32'"):
        tmem_metadata("f32", 128)
    with pytest.raises(IsaError, match="a metadata code of 16"):
        tmem_metadata("f16", 64).scatter(np.full((64, 8), 16, np.uint32))
    with pytest.raises(IsaError, match=r"uint32 \[\.\.\., 128, 2\]"):
        tmem_metadata("f16", 64).gather(np.zeros((128, 4), np.uint32))
    with pytest.raises(IsaError, match="copy 1 of the metadata in layout F; legal: 0 to 0"):
        tmem_metadata("f16", 64).gather(np.zeros((128, 2), np.uint32), copy=1)


# Scale factors

VECTORS = [
    ("mxf8f6f4", "1X", 1),
    ("mxf4", "2X", 2),
    ("mxf4nvf4", "2X", 2),
    ("mxf4nvf4", "4X", 4),
    ("mxf4nvf4", "block16", 4),
]


@pytest.mark.parametrize(("kind", "vector", "factors"), VECTORS)
def test_scales_are_the_formula(kind: str, vector: str, factors: int) -> None:
    """Every M, N, cta_group, sparsity and id: lane, byte and column by hand, CUTLASS's image, and both round trips."""
    done = set()
    for group, sparse in itertools.product((1, 2), (False, True)):
        for m, n in itertools.product(
            legal_m(kind, cta_group=group, sparse=sparse), legal_n(kind, cta_group=group, sparse=sparse)
        ):
            split = (m, group) == (128, 2)
            if split and n % 64:
                with pytest.raises(IsaError, match="no source says"):
                    tmem_scales(kind, "b", m=m, n=n, vector=vector, cta_group=group, sparse=sparse)
                continue
            for operand, vectors in (("a", m // group), ("b", n)):
                scales = tmem_scales(kind, operand, m=m, n=n, vector=vector, cta_group=group, sparse=sparse)
                assert scales.shape == (vectors, factors)
                if (operand, vectors, split) not in done:
                    done.add((operand, vectors, split))
                    for id in range(0, 4, factors):
                        check_scales(scales, id, n // 2 if split and operand == "b" else 0)
    assert len(done) >= 34


def check_scales(scales: Any, id: int, half: int) -> None:
    vectors, factors = scales.shape
    mapping = scales.mapping(id)
    check_bijective(mapping)
    lane, column, byte = (grid[:vectors] for grid in mapping.grid)
    for v, j in itertools.product(range(vectors), range(factors)):
        if half:
            assert lane[v, j].tolist() == [v % half % 32 + 64 * (v // half) + 32 * q for q in range(2)]
            assert (column[v, j] == v % half // 32).all()
        else:
            assert lane[v, j].tolist() == [v % 32 + 32 * q for q in range(4)]
            assert (column[v, j] == v // 32).all()
        assert (byte[v, j] == id + j).all()
    patterns = RNG.integers(0, 256, (2, vectors, factors), dtype=np.uint32)
    rest = RNG.integers(0, 1 << 32, (2, 128, scales.columns), dtype=np.uint32)
    words = scales.scatter(patterns, id, rest)
    found = scales.gather(words, id)
    assert (found.patterns == patterns).all()
    assert not found.differs.any()
    words[1, lane[-1, 0, -1], column[-1, 0, 0]] ^= np.uint32(1 << 8 * id)
    assert np.argwhere(scales.gather(words, id).differs).tolist() == [[1, vectors - 1, 0]]
    if half:
        with pytest.raises(IsaError, match="repeats everything"):
            scales.image(patterns, id)
        return
    image = scales.image(patterns, id)
    assert image.shape == (2, -(-vectors // 128), 32, 16)
    flat = np.zeros((2, image.shape[1], 512), np.uint8)
    for v, j in itertools.product(range(vectors), range(factors)):
        flat[:, v // 128, 16 * (v % 32) + 4 * (v % 128 // 32) + id + j] = patterns[:, v, j]
    assert (image.reshape(flat.shape) == flat).all()
    assert (scales.from_image(image, id) == patterns).all()


def test_scales_are_cutlass_fragments() -> None:
    """tmem_sf_frg: an offset is lane + 128 * byte."""
    plain = tmem_scales("mxf4nvf4", "b", m=128, n=256, vector="4X")
    halves = tmem_scales("mxf4nvf4", "b", m=128, n=256, vector="4X", cta_group=2)
    cases = ((plain, ((32, 8), 4, 4), ((1, 512), 32, 128)), (halves, ((32, 4), 2, 2, 4), ((1, 512), 64, 32, 128)))
    for scales, shape, stride in cases:
        lane, column, byte = scales.mapping().grid
        for n, which, factor in itertools.product(range(256), range(scales.copies), range(4)):
            offset = cute(shape, stride, n + 256 * (which + scales.copies * factor))
            assert (lane[n, factor, which], 4 * column[n, factor, which] + byte[n, factor, which]) == (
                offset % 128,
                offset // 128,
            )


def test_how_much_of_k_a_factor_scales() -> None:
    table = [
        ("mxf8f6f4", "", 1, 32),
        ("mxf8f6f4", "block32", 1, 32),
        ("mxf4", "", 2, 32),
        ("mxf4", "block32", 2, 32),
        ("mxf4", "scale_vec::2X", 2, 32),
    ]
    table += [
        ("mxf4nvf4", "2X", 2, 32),
        ("mxf4nvf4", "block32", 2, 32),
        ("mxf4nvf4", "4X", 4, 16),
        ("mxf4nvf4", "block16", 4, 16),
    ]
    for kind, vector, factors, dense in table:
        assert scale_factors(kind, vector) == factors
        assert k_per_factor(kind, vector) == dense
        assert k_per_factor(kind, vector, sparse=True) == 2 * dense


def test_scales_refuse() -> None:
    for kind, vector in (("f16", ""), ("mxf4nvf4", ""), ("mxf8f6f4", "2X"), ("mxf4", "block16")):
        with pytest.raises(IsaError, match=r"has no"):
            scale_factors(kind, vector)
    with pytest.raises(IsaError, match="scale factor id 1 with 2 factors; legal: 0 or 2"):
        tmem_scales("mxf4", "a", m=128, n=64).mapping(1)
    with pytest.raises(IsaError, match="M = 64 with"):
        tmem_scales("mxf4", "a", m=64, n=64)
    with pytest.raises(IsaError, match="N = 12 with"):
        tmem_scales("mxf4", "b", m=128, n=12)
    with pytest.raises(IsaError, match="unknown operand 'd'"):
        tmem_scales("mxf4", "d", m=128, n=64)
    with pytest.raises(IsaError, match="a scale factor of 256"):
        tmem_scales("mxf4", "a", m=128, n=64).scatter(np.full((128, 2), 256, np.uint32))
