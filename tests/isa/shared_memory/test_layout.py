"""Operands of tcgen05.mma in shared memory: against CuTe's canonical layouts, evaluated here from their shapes, strides
and swizzles as published.

The oracle is `cute`: shape:stride and Swizzle<B,M,S>, written from CuTe's definitions, with no code of the project. The
layouts given to it are those that CUTLASS documents for make_umma_desc, and the atoms of mma_traits_sm90_gmma.hpp and
mma_traits_sm100.hpp.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isa.descriptors.instruction import KINDS, InstructionDescriptor, legal_m, legal_n
from isa.errors import IsaError
from isa.shared_memory.descriptor import SWIZZLES, SharedMemoryDescriptor
from isa.shared_memory.layout import (
    REFUSED,
    WINDOW,
    check_operand,
    intervals,
    operand_bits,
    read_operand,
    smem_operand,
    touched,
    unit_addresses,
    write_operand,
)
from isa.shared_memory.packing import operand_element, packing
from isa.shared_memory.tile import COPY_SHAPES, Tile, copy_addresses, read_copy
from isa.types import ELEMENT_TYPES, PACKED_E2M1
from tests.support.cases import examples, over

TREE = Any  # an int, or a tuple of trees
# name -> Swizzle<B,M,S> on byte addresses, and 16-byte units in a row
SWIZZLE = {
    "none": (0, 4, 3, 1),
    "32B": (1, 4, 3, 2),
    "64B": (2, 4, 3, 4),
    "128B": (3, 4, 3, 8),
    "128B, 32B atoms": (2, 5, 2, 8),
}
K_MAJOR = [name for name in SWIZZLE if name != "128B, 32B atoms"]
WIDTHS = {"e4m3": 8, "f16": 16, "tf32": 32}  # types that fill a unit
ELEMENTS = [*WIDTHS, "e2m1", "e2m3", "e3m2", PACKED_E2M1]


# The oracle


def offset(shape: TREE, stride: TREE, index: int) -> int:
    """CuTe's layout function: an index, first mode fastest, through nested shapes."""
    if isinstance(shape, int):
        return index * stride
    total = 0
    for inner, step in zip(shape, stride, strict=True):
        total += offset(inner, step, index % size(inner))
        index //= size(inner)
    return total


def size(shape: TREE) -> int:
    return shape if isinstance(shape, int) else int(np.prod([size(inner) for inner in shape]))


def swizzled(address: int, bits: int, base: int, distance: int) -> int:
    """CuTe's Swizzle<bits, base, distance> of a byte address."""
    mask = (1 << bits) - 1 << base + distance
    return address ^ (address & mask) >> distance


def cute(name: str, shape: TREE, stride: TREE, width: int, start: int) -> np.ndarray:
    """Byte addresses [mn, k] of a rank-2 layout, in elements of `width` bits, at a start that the pattern is aligned
    to."""
    rows, columns = (size(mode) for mode in shape)
    along_rows = [offset(shape[0], stride[0], i) for i in range(rows)]
    along_columns = [offset(shape[1], stride[1], i) for i in range(columns)]
    bits, base, distance, _ = SWIZZLE[name]
    return np.array(
        [[swizzled(start + (a + b) * width // 8, bits, base, distance) for b in along_columns] for a in along_rows]
    )


def elements(address: int, width: int) -> int:
    """Bytes as elements."""
    return address * 8 // width


# The descriptor against the canonical layouts of make_umma_desc


@over("element", WIDTHS)
@over("name", K_MAJOR)
def test_k_major_is_cutes_canonical_layout(name: str, element: str) -> None:
    """((8,m),(T,2k)):((uT,SBO),(1,T or LBO)), for strides that are not those of a compact tile either."""
    width, units = WIDTHS[element], SWIZZLE[name][3]
    t = 128 // width
    for m, k, leading, stride in (
        (1, 1, 128, 1024),
        (4, 2, 4096, 1024),
        (16, units, 16384, 1024 + 1024 * (units % 2)),
        (2, 4, 272, 8192),
    ):
        if units > 1 and k > units:
            continue
        inner = leading if units == 1 else 16
        shape = ((8, m), (t, k))
        strides = ((units * t, elements(stride, width)), (1, elements(inner, width)))
        descriptor = SharedMemoryDescriptor(
            start_address=7 * 1024, leading_offset=leading, stride_offset=stride, swizzle=name
        )
        expected = cute(name, shape, strides, width, 7 * 1024)
        got = operand_bits(descriptor, major="K", rows=8 * m, columns=t * k, element=element) >> 3
        assert got.dtype == np.int64
        assert np.array_equal(got, expected)


@over("element", WIDTHS)
@over("name", SWIZZLE)
def test_mn_major_is_cutes_canonical_layout(name: str, element: str) -> None:
    """((T,u,m),(8,k)):((1,T,LBO),(uT,SBO)); without swizzle SBO and LBO change places; with 32-byte atoms 4 k in place
    of 8."""
    width, units = WIDTHS[element], SWIZZLE[name][3]
    t, rows_of_k = 128 // width, 4 if name == "128B, 32B atoms" else 8
    for m, k, leading, stride in ((1, 1, 1024, 2048), (2, 2, 1024, 4096), (4, 1, 8192, 1024), (3, 4, 2048, 6144)):
        along_mn, along_k = (stride, leading) if units == 1 else (leading, stride)
        shape = ((t, units, m), (rows_of_k, k))
        strides = ((1, t, elements(along_mn, width)), (units * t, elements(along_k, width)))
        descriptor = SharedMemoryDescriptor(
            start_address=3072, leading_offset=leading, stride_offset=stride, swizzle=name
        )
        got = operand_bits(descriptor, major="MN", rows=t * units * m, columns=rows_of_k * k, element=element) >> 3
        assert np.array_equal(got, cute(name, shape, strides, width, 3072))


@pytest.mark.parametrize("name", SWIZZLE)
def test_equals_the_descriptors_own_byte_address(name: str) -> None:
    """`SharedMemoryDescriptor.byte_address`, which was written before."""
    for base in (0, 3) if name != "none" else (0,):
        descriptor = SharedMemoryDescriptor(
            start_address=4096 + 128 * base, leading_offset=2048, stride_offset=4096, base_offset=base, swizzle=name
        )
        if name in K_MAJOR:
            got = operand_bits(descriptor, major="K", rows=24, columns=32, element="u8") >> 3
            assert got.tolist() == [[descriptor.byte_address(row, byte) for byte in range(32)] for row in range(24)]
        got = operand_bits(descriptor, major="MN", rows=256, columns=16, element="u8") >> 3
        assert got.T.tolist() == [
            [descriptor.byte_address(k, byte, transposed=True) for byte in range(256)] for k in range(16)
        ]


# Tiles against CUTLASS's atoms, tiled


def atoms(name: str, major: str, width: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """CUTLASS's layout atoms for types of this width, upcast from bits: shape [mn, k] and stride."""
    row = SWIZZLE[name][3] * 128 // width
    if major == "K":
        return (8, row), (row, 1)
    return (row, 4 if name == "128B, 32B atoms" else 8), (1, row)


@over("k_first", [False, True])
@over(("name", "major"), [*((name, "K") for name in K_MAJOR), *((name, "MN") for name in SWIZZLE)])
def test_tiles_are_cutlass_atoms_tiled(name: str, major: str, k_first: bool) -> None:
    """tile_to_shape of the atoms of every mode, in both orders, swizzled by address."""
    for element, width in WIDTHS.items():
        shape, stride = atoms(name, major, width)
        across, deep = 3, 2
        whole = shape[0] * shape[1]
        steps = (whole * deep, whole) if k_first else (whole, whole * across)
        expected = cute(
            name, ((shape[0], across), (shape[1], deep)), ((stride[0], steps[0]), (stride[1], steps[1])), width, 2048
        )
        tile = Tile(shape[0] * across, shape[1] * deep, element, major, name, 2048, k_first)
        assert np.array_equal(tile.bits(), expected * 8)
        assert tile.size == expected.size * width // 8
        tile.descriptor.check()
        assert tile.descriptor.validate(pattern_start=2048) == []


def test_a_tile_of_cutlass_by_its_word() -> None:
    """128 x 64 f16 K-major in 128B swizzle at 0x400: start 64, leading offset 1, stride offset 64, version 1, swizzle
    2."""
    tile = Tile(128, 64, "f16", swizzle="128B", start=0x400)
    assert tile.descriptor.encode() == 64 | 1 << 16 | 64 << 32 | 1 << 46 | 2 << 61
    assert tile.at(k=16).encode() == tile.descriptor.encode() + 2  # 32 bytes of A, in units
    assert tile.at(k=32).encode() == tile.descriptor.encode() + 4  # 64 bytes of sparse B
    mn = Tile(128, 64, "f16", "MN", "64B", 512)
    assert (mn.descriptor.leading_offset, mn.descriptor.stride_offset) == (512, 2048)
    plain = Tile(128, 64, "f16", "MN", "none")
    assert (plain.descriptor.leading_offset, plain.descriptor.stride_offset) == (2048, 128)


@over("name", SWIZZLE)
@over("step_bytes", [32, 64])
def test_advancing_slices_the_matrix(name: str, step_bytes: int) -> None:
    """A descriptor at a K step, inside an atom and past its end, finds the columns that the whole tile has there; so do
    rows."""
    for element, width in WIDTHS.items():
        for major in ("K", "MN") if name in K_MAJOR else ("MN",):
            if major == "K" and step_bytes > 16 * SWIZZLE[name][3] and name != "none":
                continue
            step = step_bytes * 8 // width
            tile = Tile(128, 8 * step, element, major, name, 1024)
            whole = tile.bits()
            for k in range(0, 8 * step, step):
                part = operand_bits(tile.at(k=k), major=major, rows=128, columns=step, element=element)
                assert np.array_equal(part, whole[:, k : k + step])
            if major == "K":
                assert np.array_equal(
                    operand_bits(tile.at(row=64), major="K", rows=64, columns=step, element=element), whole[64:, :step]
                )


@pytest.mark.parametrize("name", [name for name in SWIZZLE if name != "none"])
def test_base_offsets_move_the_pattern(name: str) -> None:
    """A tile that starts off its pattern's alignment is the aligned tile, moved; its base offset is what PTX's formula
    says."""
    major = "K" if name in K_MAJOR else "MN"
    aligned = Tile(64, 8 if major == "MN" else 32, "tf32" if major == "MN" else "u8", major, name, 4096)
    for lines in range(1, 8):
        moved = Tile(aligned.rows, aligned.columns, aligned.element, major, name, 4096 + 128 * lines)
        pattern = {"32B": 256, "64B": 512}.get(name, 1024)
        assert moved.descriptor.base_offset == (0 if moved.start % pattern == 0 else moved.start >> 7 & 7)
        moved.descriptor.check(pattern_start=moved.start)
        assert np.array_equal(moved.bits(), aligned.bits() + 8 * 128 * lines)


# Elements of every width


def bits_of(memory: np.ndarray, place: int, count: int) -> int:
    """Bits of memory as one little-endian number, by hand."""
    number = int.from_bytes(memory[place // 8 : place // 8 + 8].tobytes(), "little")
    return number >> place % 8 & (1 << count) - 1


@pytest.mark.parametrize("element", ELEMENTS, ids=lambda e: e if isinstance(e, str) else "packed e2m1")
def test_packing_bit_by_bit(element: Any) -> None:
    """Element i of a 16-byte unit, out of the unit's bytes as a number: fp4 in 8 bytes + 8, fp6 in 12 + 4, packed fp4
    32 a unit, low nibble first."""
    places = {
        "e4m3": (8, 0, 16),
        "f16": (16, 0, 8),
        "tf32": (32, 0, 4),
        "e2m1": (4, 2, 16),
        "e2m3": (6, 0, 16),
        "e3m2": (6, 0, 16),
    }
    bits, shift, per_unit = places[element] if isinstance(element, str) else (4, 0, 32)
    memory = np.random.default_rng(5).integers(0, 256, 16 * 16 + 8, dtype=np.uint8)
    descriptor = SharedMemoryDescriptor(leading_offset=128, stride_offset=256)
    got = read_operand(memory, descriptor, major="K", rows=8, columns=2 * per_unit, element=element)
    assert got.dtype == np.uint32
    for row in range(8):
        starts = [8 * (16 * row + 128 * (k // per_unit)) + k % per_unit * bits for k in range(2 * per_unit)]
        assert got[row].tolist() == [bits_of(memory, start, bits) << shift for start in starts]


@given(
    seed=st.integers(0, 2**32 - 1), element=st.sampled_from(ELEMENTS), name=st.sampled_from(list(SWIZZLE)),
    major=st.sampled_from(["K", "MN"]),
    across=st.integers(1, 4), deep=st.integers(1, 4), start=st.integers(0, 7), k_first=st.booleans(),
)  # fmt: skip
@settings(max_examples=examples(150), deadline=None)
def test_round_trips(
    seed: int, element: Any, name: str, major: str, across: int, deep: int, start: int, k_first: bool
) -> None:
    """What is written is read; nothing else changes; the bytes that change are those that `touched` names."""
    if major == "K" and name not in K_MAJOR:
        return
    how, units = packing(element), SWIZZLE[name][3]
    row, column = (8, how.per_unit) if major == "K" else (units * how.per_unit, SWIZZLES[name].k_rows)
    tile = Tile(row * across, column * deep, element, major, name, 128 * start, k_first)
    rng = np.random.default_rng(seed)
    memory = rng.integers(0, 256, tile.start + tile.size + 64, dtype=np.uint8)
    patterns = (rng.integers(0, 2**32, (tile.rows, tile.columns), dtype=np.uint32)) & np.uint32(how.mask)
    before = memory.copy()
    tile.write(memory, patterns)
    assert np.array_equal(tile.read(memory), patterns)
    written = np.zeros(memory.size, bool)
    for k in range(0, tile.columns, column):
        at = tile.at(k=k)
        for first, stop in touched(at, major=major, rows=tile.rows, columns=column, element=element, padding=False):
            written[first:stop] = True
    assert np.array_equal(memory[~written], before[~written])
    inverse = before.copy()
    tile.write(inverse, patterns ^ np.uint32(how.mask))
    assert np.array_equal(memory ^ inverse, np.where(written, 255, 0))


def test_part_of_a_unit_keeps_the_rest() -> None:
    """N = 8 of a type with 16 elements a unit, MN-major: the other half of each unit stays, and is not read."""
    for element in ("u8", "e2m1", "e3m2"):
        mask = packing(element).mask
        descriptor = SharedMemoryDescriptor(start_address=64, leading_offset=1024, stride_offset=128)
        memory = np.full(4096, 255, np.uint8)
        patterns = np.random.default_rng(9).integers(0, 256, (8, 16), dtype=np.uint32) & np.uint32(mask)
        write_operand(memory, patterns, descriptor, major="MN", element=element)
        assert np.array_equal(
            read_operand(memory, descriptor, major="MN", rows=8, columns=16, element=element), patterns
        )
        both = read_operand(memory, descriptor, major="MN", rows=16, columns=16, element=element)
        assert (both[8:] == mask).all()


# Sizes


FORMS = [
    (kind, group, sparse, ws)
    for kind in KINDS
    for group in (1, 2)
    for sparse in (False, True)
    for ws in (False, True)
    if legal_m(kind, cta_group=group, sparse=sparse, ws=ws)
]
TYPES = {
    "f16": "f16",
    "tf32": "tf32",
    "f8f6f4": "e2m3",
    "i8": "s8",
    "mxf8f6f4": "e2m1",
    "mxf4": "e2m1",
    "mxf4nvf4": "e2m1",
}


def idesc_of(kind: str, m: int, n: int, sparse: bool, transposed: bool = False) -> InstructionDescriptor:
    d_type = {"i8": {"d_type": "s32"}}.get(kind, {})
    return InstructionDescriptor(
        kind,
        m=m,
        n=n,
        a_type=TYPES[kind],
        b_type=TYPES[kind],
        sparse=sparse,
        transpose_a=transposed,
        transpose_b=transposed,
        **d_type,  # type: ignore[arg-type]
    )


@over(("kind", "group", "sparse", "ws"), FORMS)
def test_every_legal_size_has_its_own_bits(kind: str, group: int, sparse: bool, ws: bool) -> None:
    """For every M and N: 32 bytes of A, 64 of a sparse B; no two elements share bits; all inside the tile."""
    ms, ns = (legal(kind, cta_group=group, sparse=sparse, ws=ws) for legal in (legal_m, legal_n))
    sizes = {("a", m, ns[0]) for m in ms} | {("b", ms[0], n) for n in ns}
    for i, (operand, m, n) in enumerate(sorted(sizes)):
        idesc = idesc_of(kind, m, n, sparse)
        spec = smem_operand(idesc, operand, cta_group=group)
        how = packing(spec.element)
        assert spec.rows == (m if operand == "a" else n) // group
        assert how.units(spec.columns) * 16 == (64 if sparse and operand == "b" else 32)
        fits = [name for name in K_MAJOR if name != "32B" or not (sparse and operand == "b")]
        tile = Tile(spec.rows, spec.columns, spec.element, swizzle=fits[i % len(fits)], start=1024)
        check_operand(tile.descriptor, idesc, operand, cta_group=group, memory_bytes=1024 + tile.size)
        places = operand_bits(tile.descriptor, major="K", rows=spec.rows, columns=spec.columns, element=spec.element)
        bits = (places[..., None] + np.arange(how.bits)).ravel()
        assert places.shape == (spec.rows, spec.columns)
        counts = np.bincount(bits, minlength=8 * (1024 + tile.size))
        assert counts.max() == 1
        assert counts.size == 8 * (1024 + tile.size)
        assert not counts[: 8 * 1024].any()


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("kind", ["f16", "tf32", "f8f6f4", "i8"])
def test_transposed_sizes(kind: str, sparse: bool) -> None:
    """MN-major, every N that a swizzle divides; A packed along K, which is the outer dimension here."""
    for n in legal_n(kind, sparse=sparse):
        for name in ("128B, 32B atoms",) if kind == "tf32" else K_MAJOR:
            idesc = InstructionDescriptor(
                kind,
                m=128,
                n=n,
                a_type={"f8f6f4": "e4m3"}.get(kind, TYPES[kind]),
                b_type={"f8f6f4": "e5m2"}.get(kind, TYPES[kind]),
                d_type="s32" if kind == "i8" else "f32",
                sparse=sparse,
                transpose_a=True,
                transpose_b=True,
            )
            for operand in ("a", "b"):
                spec = smem_operand(idesc, operand)
                if spec.rows % (SWIZZLE[name][3] * packing(spec.element).per_unit):
                    continue
                tile = Tile(spec.rows, spec.columns, spec.element, "MN", name)
                check_operand(tile.descriptor, idesc, operand)
                places = tile.bits()
                assert places.shape == (spec.rows, spec.columns)
                assert sorted(places.ravel().tolist()) == list(range(0, 8 * tile.size, packing(spec.element).bits))


def test_touched() -> None:
    """A compact tile is one interval; K steps of it are 32 of every 128 bytes; padding counts unless it is asked not
    to."""
    tile = Tile(64, 64, "f16", swizzle="128B", start=1024)
    assert touched(tile.descriptor, major="K", rows=64, columns=64, element="f16").tolist() == [
        [1024, 1024 + tile.size]
    ]
    step = touched(tile.at(k=16), major="K", rows=64, columns=16, element="f16")
    assert (step[:, 1] - step[:, 0]).sum() == 64 * 32
    assert (step[1:, 0] > step[:-1, 1]).all()
    padded = Tile(8, 16, "e2m1", swizzle="none")
    whole, data = (
        touched(padded.descriptor, major="K", rows=8, columns=16, element="e2m1", padding=padding)
        for padding in (True, False)
    )
    assert whole.tolist() == [[0, 128]]
    assert data.tolist() == [[16 * row, 16 * row + 8] for row in range(8)]
    assert intervals(np.array([[32, 0], [16, 64]])).tolist() == [[0, 48], [64, 80]]
    assert intervals(np.array([], np.int64)).shape == (0, 2)


# 48 bytes of K, in two chunks


def test_absolute_leading_address() -> None:
    """K = 96 of mxf4 (48 bytes), eight instructions over three buffers of 128-byte rows: each finds its 96 columns in
    the buffers side by side."""
    rng = np.random.default_rng(3)
    buffers = [Tile(128, 256, PACKED_E2M1, swizzle="128B", start=start) for start in (0, 3 * 16384, 16384)]
    memory = np.zeros(5 * 16384, np.uint8)
    patterns = rng.integers(0, 16, (128, 768), dtype=np.uint32)
    for i, buffer in enumerate(buffers):
        buffer.write(memory, patterns[:, 256 * i : 256 * i + 256])
    for step in range(8):
        here, inside = divmod(48 * step, 128)
        following = buffers[min(here + 1, 2)].start
        descriptor = SharedMemoryDescriptor(
            start_address=buffers[here].start + inside,
            leading_offset=following,
            stride_offset=1024,
            leading_absolute=True,
            swizzle="128B",
        )
        descriptor.check(target="sm_103a", kind="mxf4")
        got = read_operand(memory, descriptor, major="K", rows=128, columns=96, element=PACKED_E2M1)
        assert np.array_equal(got, patterns[:, 96 * step : 96 * step + 96])


# tcgen05.cp


@pytest.mark.parametrize("shape", COPY_SHAPES)
def test_copy_sources(shape: str) -> None:
    """Core matrices of 8 rows x 16 bytes at LBO and SBO, by loops; the same rows out of a swizzle."""
    rows, width = (int(part) for part in shape[:-1].split("x"))
    descriptor = SharedMemoryDescriptor(start_address=256, leading_offset=128, stride_offset=512)
    got = copy_addresses(descriptor, shape)
    assert got.tolist() == [
        [256 + row % 8 * 16 + row // 8 * 512 + unit * 128 for unit in range(width // 128)] for row in range(rows)
    ]
    memory = np.random.default_rng(1).integers(0, 256, WINDOW // 8, dtype=np.uint8)
    data = read_copy(memory, descriptor, shape)
    assert data.shape == (rows, width // 8)
    assert all(bytes(data[row, :16]) == bytes(memory[a : a + 16]) for row, a in enumerate(got[:, 0].tolist()))
    tile = Tile(128, 64, "u8", swizzle="64B", start=1024)
    source = np.random.default_rng(2).integers(0, 256, (128, 64), dtype=np.uint32)
    tile.write(memory, source)
    assert np.array_equal(read_copy(memory, tile.at(k=32), shape), source[:rows, 32 : 32 + width // 8])


def test_the_metadata_copy_of_cutlass() -> None:
    """128 rows x 16 bytes, contiguous; leading offset unused, stride offset 128 (tcgen05.cp.128x128b)."""
    memory = np.arange(4096, dtype=np.uint32).astype(np.uint8)
    for leading in (0, 4096):
        descriptor = SharedMemoryDescriptor(start_address=2048, leading_offset=leading, stride_offset=128)
        assert np.array_equal(read_copy(memory, descriptor, "128x128b"), memory[2048:].reshape(128, 16))


def test_copies_that_decompress() -> None:
    """16 elements of 4 or 6 bits become 16 bytes, as an MMA would see them."""
    memory = np.random.default_rng(4).integers(0, 256, 2048, dtype=np.uint8)
    descriptor = SharedMemoryDescriptor(stride_offset=128)
    four, six = (read_copy(memory, descriptor, "128x128b", source=source) for source in ("b4x16_p64", "b6x16_p32"))
    for row in range(128):
        number = int.from_bytes(memory[16 * row : 16 * row + 16].tobytes(), "little")
        assert four[row].tolist() == [(number >> 4 * i & 15) << 2 for i in range(16)]
        assert six[row].tolist() == [number >> 6 * i & 63 for i in range(16)]


# What is refused


PLAIN = SharedMemoryDescriptor(leading_offset=2048, stride_offset=128)
K128 = SharedMemoryDescriptor(stride_offset=1024, swizzle="128B")
ABSOLUTE = SharedMemoryDescriptor(
    start_address=96, leading_offset=1024 + 112, stride_offset=1024, leading_absolute=True, swizzle="128B"
)
F16, SPARSE = idesc_of("f16", 128, 64, False), idesc_of("f16", 128, 64, True)


def read(
    descriptor: SharedMemoryDescriptor,
    major: str = "K",
    rows: int = 8,
    columns: int = 32,
    element: Any = "u8",
    memory: int = 65536,
) -> Any:
    return read_operand(
        np.zeros(memory, np.uint8), descriptor, major=major, rows=rows, columns=columns, element=element
    )


@over(
    ("make", "name", "message"),
    [
        (lambda: read(SharedMemoryDescriptor(swizzle="128B, 32B atoms")), "smem-major", "no K-major layout"),
        (lambda: Tile(8, 8, "tf32", "K", "128B, 32B atoms"), "smem-major", "no K-major layout"),
        (lambda: read(K128, columns=144), "smem-row-crosses-swizzle", "144 bytes from byte 0 of a 128-byte row"),
        (
            lambda: read(SharedMemoryDescriptor(start_address=96, swizzle="128B"), columns=64),
            "smem-row-crosses-swizzle",
            "from byte 96",
        ),
        (
            lambda: read(SharedMemoryDescriptor(swizzle="32B"), columns=64),
            "smem-row-crosses-swizzle",
            "sparse K-major B",
        ),
        (
            lambda: read(SharedMemoryDescriptor(start_address=32, swizzle="64B"), "MN", 64),
            "smem-row-crosses-swizzle",
            "from byte 32",
        ),
        (lambda: read(ABSOLUTE, columns=64), "smem-absolute-leading", "leaves its 128-byte line"),
        (lambda: read(ABSOLUTE, "MN"), "smem-absolute-leading", "K-major, 128B swizzle, base offset 0"),
        (lambda: read(SharedMemoryDescriptor(leading_absolute=True)), "smem-absolute-leading", "swizzle none"),
        (lambda: read(SharedMemoryDescriptor(start_address=WINDOW - 16)), "smem-window", "reaches byte 262255"),
        (lambda: read(PLAIN, memory=2048), "smem-memory", "reaches byte 2175"),
        (lambda: check_operand(PLAIN, F16, "a", memory_bytes=4095), "smem-memory", "reaches byte 4095"),
        (lambda: Tile(8, 32, "u8", start=64), "smem-unaligned", "128B tile at byte 64"),
        (lambda: Tile(8, 16, "u8", swizzle="none", start=8), "smem-unaligned", "none tile at byte 8"),
        (lambda: Tile(12, 32, "u8"), "smem-size", "12 rows"),
        (lambda: Tile(8, 24, "u8"), "smem-size", "24 columns"),
        (lambda: Tile(32, 16, "f16", "MN", "128B"), "smem-size", "32 rows"),
        (lambda: Tile(256, 1024, "u8", start=1024), "smem-window", "262144 bytes at 1024"),
        (lambda: Tile(128, 64, "f16").at(k=12), "smem-size", "begins at k 12"),
        (lambda: Tile(128, 64, "f16").at(row=128), "smem-size", "begins at row 128"),
        (
            lambda: write_operand(
                np.zeros(512, np.uint8),
                np.zeros((16, 16), np.uint32),
                SharedMemoryDescriptor(),
                major="K",
                element="u8",
            ),
            "smem-overlap",
            "two units",
        ),
        (
            lambda: write_operand(
                np.zeros(512, np.uint8), np.full((8, 16), 64, np.uint32), PLAIN, major="K", element="e2m1"
            ),
            "smem-bits",
            "outside 0x3c",
        ),
    ],
)
def test_refusals_by_name(make: Callable[[], Any], name: str, message: str) -> None:
    with pytest.raises(IsaError, match=message) as caught:
        make()
    assert caught.value.text == name
    assert caught.value.legal
    assert caught.value.section == REFUSED[name]


@over(
    ("make", "message"),
    [
        (
            lambda: check_operand(SharedMemoryDescriptor(stride_offset=256, swizzle="32B"), SPARSE, "b"),
            "sparse K-major B needs 64 contiguous bytes",
        ),
        (lambda: check_operand(SharedMemoryDescriptor(version=0, stride_offset=128), F16, "a"), "bits 46-48"),
        (lambda: check_operand(K128, idesc_of("tf32", 128, 64, False, True), "b"), "transposed with .kind::tf32"),
        (lambda: check_operand(K128, idesc_of("mxf4", 128, 64, False, True), "a"), "transposed with .kind::mxf4"),
        (lambda: check_operand(SharedMemoryDescriptor(swizzle="128B, 32B atoms"), F16, "a"), "no such layout"),
        (lambda: check_operand(ABSOLUTE, F16, "a"), "no absolute leading address"),
        (
            lambda: check_operand(K128, F16, "a", pattern_start=128),
            "base offset 0 where the 128B pattern starts at 128",
        ),
        (lambda: check_operand(K128, F16, "c"), "unknown operand"),
        (lambda: smem_operand(InstructionDescriptor.decode(7 << 7, "f16"), "a"), "code 7 is no type"),
        (lambda: read(SharedMemoryDescriptor(swizzle=3)), "swizzle code 3 is invalid"),
        (lambda: read(PLAIN, "N"), "unknown major-ness"),
        (lambda: read(PLAIN, rows=0), "no matrix"),
        (lambda: read(PLAIN, element="s4"), "no operand of wgmma or tcgen05.mma in shared memory has type s4"),
        (lambda: read(PLAIN, element="x8"), "unknown element type"),
        (
            lambda: read_operand(np.zeros(64, np.int32), PLAIN, major="K", rows=8, columns=16, element="u8"),
            "not an array of bytes",
        ),
        (
            lambda: write_operand(np.zeros(8192, np.uint8)[::2], np.zeros((8, 16)), PLAIN, major="K", element="u8"),  # type: ignore[arg-type]
            "must be contiguous",
        ),
        (lambda: write_operand(np.zeros(64, np.uint8), np.zeros(8), PLAIN, major="K", element="u8"), "not a matrix"),  # type: ignore[arg-type]
        (
            lambda: Tile(8, 32, "u8").write(np.zeros(4096, np.uint8), np.zeros((8, 16), np.uint32)),
            "not of the tile's shape",
        ),
        (lambda: Tile(8, 32, "u8", swizzle="256B"), "unknown swizzle"),
        (lambda: Tile(8, 32, "u8", "row"), "unknown major-ness"),
        (lambda: copy_addresses(PLAIN, "16x64b"), "unknown shape"),
        (lambda: read_copy(np.zeros(64, np.uint8), PLAIN, "32x128b", source="b4x16"), "unknown source format"),
    ],
)
def test_bad_use(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(IsaError, match=message):
        make()


def test_types_of_operands() -> None:
    assert operand_element("e2m1", "mxf4") is PACKED_E2M1
    assert operand_element("e2m1", "mxf8f6f4") == ELEMENT_TYPES["e2m1"]
    assert packing(PACKED_E2M1).per_unit == 32
    assert unit_addresses(PLAIN, major="K", lines=2, units=2).tolist() == [[0, 2048], [16, 2064]]
