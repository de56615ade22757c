"""Formats of metadata: bijections, round trips between all of them, and what other code and public headers say."""

from __future__ import annotations

import doctest
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import isa
import isa.metadata_formats
from isa.fragments.metadata import metadata_operand
from isa.metadata_formats import EMPTY, convert, format_names, metadata_format, metadata_type
from isa.metadata_formats.formats import TYPES
from isa.tensor_memory.metadata import tmem_metadata
from tests.support.cases import examples
from tests.support.paths import ROOT

EVERY = [(name, type) for type in TYPES for name in format_names(type)]


def random_codes(rows: int, chunks: int, type: str, seed: int = 0) -> NDArray[np.uint32]:
    generator = np.random.default_rng(seed)
    legal = metadata_format("codes", type).sparsity.ordered
    return generator.choice(np.array(legal, np.uint32), (rows, chunks))


@pytest.mark.parametrize(("name", "type"), EVERY)
def test_every_format_is_a_bijection(name: str, type: str) -> None:
    """Every code has one position, and every position one code; over one atom and over several."""
    layout = metadata_format(name, type)
    for down, along in ((1, 1), (3, 2)):
        rows, chunks = layout.step[0] * down, layout.step[1] * along
        positions = layout.positions(rows, chunks)
        assert sorted(positions.ravel().tolist()) == list(range(rows * chunks))
        codes = random_codes(rows, chunks, type)
        stored = layout.store(codes)
        assert stored.dtype == layout.dtype
        assert stored.shape == layout.shape(rows, chunks)
        assert (layout.load(stored, rows, chunks) == codes).all()
        for word in range(min(16, stored.size)):
            value = int(stored.reshape(-1)[word])
            for code in range(layout.codes_per_word):
                row, chunk = map(int, np.argwhere(positions == word * layout.codes_per_word + code)[0])
                assert value >> 4 * code & 15 == codes[row, chunk]


@pytest.mark.parametrize(("name", "type"), EVERY)
def test_formulas_say_what_the_mapping_does(name: str, type: str) -> None:
    layout = metadata_format(name, type)
    ((_, _, mapping),) = layout.mappings(*layout.step)
    lines = mapping.formulas()
    for row, chunk in product((0, 1, layout.step[0] - 1), (0, 1, layout.step[1] - 1)):
        if row < layout.step[0] and chunk < layout.step[1]:
            places = mapping.positions(row=row, chunk=chunk)
            for (place, _), value in zip(mapping.places, places, strict=True):
                assert eval(lines[place].replace("/", "//"), {}, {"row": row, "chunk": chunk}) == value
    assert set(layout.formulas()) <= set(lines)


@settings(max_examples=examples(60), deadline=None)
@given(st.data())
def test_round_trips_between_every_pair(data: st.DataObject) -> None:
    type = data.draw(st.sampled_from(TYPES))
    source, target = data.draw(st.tuples(*[st.sampled_from(format_names(type))] * 2))
    rows, chunks = 128 * data.draw(st.integers(1, 3)), 64 * data.draw(st.integers(1, 2))
    codes = random_codes(rows, chunks, type, data.draw(st.integers(0, 99)))
    stored = convert(codes.astype(np.uint8), "codes", source, type=type)
    there = convert(stored, source, target, type=type, rows=rows, chunks=chunks)
    assert (convert(there, target, source, type=type, rows=rows, chunks=chunks) == stored).all()
    assert (convert(there, target, "codes", type=type, rows=rows, chunks=chunks) == codes).all()


@settings(max_examples=examples(40), deadline=None)
@given(st.data())
def test_padding_holds_the_empty_code(data: st.DataObject) -> None:
    name, type = data.draw(st.sampled_from([(n, t) for n, t in EVERY if metadata_format(n, t).padded]))
    layout = metadata_format(name, type)
    rows, chunks = data.draw(st.integers(1, 300)), data.draw(st.integers(1, 40))
    codes = random_codes(rows, chunks, type)
    stored = layout.store(codes)
    assert (layout.load(stored, rows, chunks) == codes).all()
    whole = layout.load(stored, *layout.extent(rows, chunks))
    assert (whole[rows:] == EMPTY).all()
    assert (whole[:, chunks:] == EMPTY).all()


@pytest.mark.parametrize(
    ("type", "k"),
    [("f16", 16), ("f16", 32), ("tf32", 8), ("tf32", 16), ("s8", 32), ("s8", 64), ("s4", 64), ("e2m1", 128)],
)
def test_registers_are_those_of_the_forms(type: str, k: int) -> None:
    """One register holds the metadata of as many instructions as there are selectors."""
    operand = metadata_operand(16, k, metadata_type(type), True)
    chunks = operand.shape[1]
    codes = random_codes(32, 32, type)
    registers = metadata_format(f"registers.m16n8k{k}", type).store(codes)
    for tile, group in np.ndindex(*registers.shape[:2]):
        for selector in range(operand.selectors):
            first = 16 * group + chunks * selector
            wanted = codes[16 * tile : 16 * tile + 16, first : first + chunks]
            assert (operand.gather(registers[tile, group], selector) == wanted).all()


@pytest.mark.parametrize(
    ("type", "kind"), [("f16", "f16"), ("tf32", "tf32"), ("s8", "i8"), ("e4m3", "f8f6f4"), ("e2m1", "mxf4")]
)
def test_tensor_memory_and_its_image(type: str, kind: str) -> None:
    metadata = tmem_metadata(kind, 128)
    codes = random_codes(256, 64, type)
    words = metadata_format("tmem", type).store(codes)
    image = metadata_format("smem", type).store(codes)
    for tile, group in np.ndindex(2, 2):
        part = codes[128 * tile : 128 * tile + 128, 32 * group : 32 * group + 32]
        assert (metadata.tile_codes(words[tile, group]) == part).all()
        assert (metadata.tile_image(part) == image[tile, group]).all()


def test_public_reorder_of_cutlass() -> None:
    """CUTLASS's reorder_meta, written out: rows of 16- and 32-bit words are interleaved, 2 x 2 blocks transposed."""
    for type, bits in (("f16", 16), ("s8", 32)):
        layout = metadata_format("cutlass.sm80", type)
        rows, chunks = 64, 32
        codes = random_codes(rows, chunks, type)
        per, group, interleave = bits // 4, 2 * (256 // bits), 64 // bits
        natural = (codes.reshape(rows, -1, per).astype(np.uint64) << np.arange(0, bits, 4, dtype=np.uint64)).sum(
            axis=-1
        )
        wanted = np.zeros(natural.size, np.uint64)
        for row, column in np.ndindex(*natural.shape):
            to_row = row // group * group + row % 8 * interleave + row % group // 8
            to_column = column
            if to_row % 2 == 0 and column % 2 == 1:
                to_row, to_column = to_row + 1, column - 1
            elif to_row % 2 == 1 and column % 2 == 0:
                to_row, to_column = to_row - 1, column + 1
            wanted[to_column // 2 * 2 * rows + 2 * to_row + to_column % 2] = natural[row, column]
        assert (layout.store(codes) == wanted).all()


def test_public_atoms_of_cutlass() -> None:
    """Strides of CuTe's layouts, in logical elements: 2 bits an element (tf32: 4)."""
    atoms = {
        ("cutlass.sm90.k128", "f16"): (((8, 2, 4), (128, 16, 2048)), ((16, 2, 4), (1, 1024, 32))),
        ("cutlass.sm100", "f16"): (((8, 2, 8), (128, 16, 2048)), ((16, 2, 4), (1, 1024, 32))),
        ("cutlass.sm100", "tf32"): (((8, 2, 8), (64, 8, 1024)), ((8, 2, 4), (1, 512, 16))),
        ("cutlass.sm100", "s8"): (((128,), (128,)), ((128,), (1,))),
        ("cutlass.sm90.k128", "s8"): (((64,), (128,)), ((128,), (1,))),
        ("cutlass.sm100", "e2m1"): (((128,), (256,)), ((256,), (1,))),
    }
    for (name, type), modes in atoms.items():
        layout = metadata_format(name, type)
        chunk = layout.sparsity.chunk
        offsets = [_cute(np.arange(int(np.prod(shape))), shape, stride) for shape, stride in modes]
        elements = offsets[0][:, None] + offsets[1][::chunk]
        assert layout.tile == elements.shape
        assert (layout.positions(*layout.tile) == elements // chunk).all()


def _cute(index: NDArray[np.int64], shape: tuple[int, ...], stride: tuple[int, ...]) -> NDArray[np.int64]:
    found = np.zeros_like(index)
    for size, step in zip(shape, stride, strict=True):
        found += index % size * step
        index = index // size
    return found


def test_public_reorder_of_marlin() -> None:
    layout = metadata_format("marlin", "f16")
    rows, chunks = 128, 16
    codes = random_codes(rows, chunks, "f16")
    natural = (codes.reshape(rows, -1, 4) << np.arange(0, 16, 4, dtype=np.uint32)).sum(axis=-1)
    wanted = np.zeros(natural.size, np.uint64)
    for row, column in np.ndindex(*natural.shape):
        to_row = row // 64 * 64 + row % 2 * 2 + row % 8 // 4 + row % 4 // 2 * 32 + row % 64 // 8 * 4
        swap = (to_row + column) % 2 * (1 if column % 2 else -1)
        wanted[(column - swap) // 2 * 2 * rows + 2 * (to_row + swap) + (column - swap) % 2] = natural[row, column]
    assert (layout.store(codes) == wanted).all()


def test_relations() -> None:
    """Formats that are the same under two names."""
    assert metadata_format("tmem", "f16").atom == metadata_format("cutlass.sm100", "f16").atom
    assert metadata_format("registers.m16n8k16", "f16").atom == metadata_format("registers.m16n8k32", "f16").atom
    codes = random_codes(96, 48, "bf16")
    plain = metadata_format("cutlass.sm80", "bf16").store(codes)
    assert (metadata_format("torch", "bf16").store(codes).reshape(-1) == plain).all()


# Errors


def test_what_is_refused() -> None:
    layout = metadata_format("cutlass.sm80", "f16")
    with pytest.raises(isa.IsaError, match="no sparse operand has type 'f64'"):
        metadata_format("codes", "f64")
    with pytest.raises(isa.IsaError, match="there is no metadata format 'x'; legal: codes, rows"):
        metadata_format("x", "f16")
    with pytest.raises(isa.IsaError, match="format 'marlin' does not serve s8"):
        metadata_format("marlin", "s8")
    with pytest.raises(isa.IsaError, match="rows in a multiple of 32, columns in a multiple of 32"):
        layout.store(np.full((33, 8), 4, np.uint32))
    with pytest.raises(isa.IsaError, match=r"uint16 .64. for 32 rows of 8 codes"):
        layout.load(np.zeros(65, np.uint16), 32, 8)
    with pytest.raises(isa.IsaError, match="does not tell how many rows"):
        layout.load(np.zeros(64, np.uint16))
    with pytest.raises(isa.IsaError, match=r"unsigned .row, chunk., each 0 to 15"):
        layout.store(np.full((32, 8), 16, np.uint32))
    with pytest.raises(isa.IsaError, match="at least one row and one chunk"):
        layout.shape(0, 8)
    with pytest.raises(isa.IsaError, match=r"2 metadata codes are not defined for 2:4; row 1, chunk 0: 0b0000"):
        convert(np.array([[4, 4], [0, 5]], np.uint8), "codes", "rows", type="f16")
    with pytest.raises(isa.IsaError, match="a code of 16"):
        convert(np.array([[16, 4]], np.uint8), "codes", "rows", type="f16")
    assert convert(np.array([[0, 5]], np.uint8), "codes", "rows", type="f16", check=False).tolist() == [[0x50]]


def test_shapes_are_guessed_where_they_can_be() -> None:
    codes = random_codes(64, 32, "f16")
    for name in ("codes", "rows", "torch", "registers.m16n8k32"):
        layout = metadata_format(name, "f16")
        assert (layout.load(layout.store(codes)) == codes).all()
    signed = metadata_format("torch", "f16").store(codes).view(np.int16)
    assert (metadata_format("torch", "f16").load(signed) == codes).all()


def test_the_table_of_the_docs_is_that_of_the_code() -> None:
    """docs/formats.md names the digits, the words and the atom of every format and type."""
    rows: dict[str, list[list[str]]] = {}
    name = ""
    for line in (ROOT / "docs" / "formats.md").read_text().split("## All of them")[1].split("## Small")[0].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 7 and cells[0] not in ("format", "---"):
            name = cells[0] if "`" in cells[0] and "`.k64`" not in cells[0] else name
            rows.setdefault(name, []).append(cells)
    for format, type in EVERY:
        layout = metadata_format(format, type)
        if format.startswith("cutlass.sm90") and layout.tile[1] != 32:
            continue
        family = "registers.m16n8kK" if format.startswith("registers") else format
        family = "cutlass.sm90.k128" if format.startswith("cutlass.sm90") else family
        found = next(each for title, each in rows.items() if f"`{family}`" in title)
        if family in ("tmem", "smem"):
            found = next(each for title, each in rows.items() if "cutlass.sm100" in title)
        digits = [next((cell.strip("`") for cell in row[3:4] if cell), "") for row in found]
        digits = [digits[0] if "same" in digit else digit for digit in digits]
        assert layout.atom in digits, (format, type)
        assert f"{layout.tile[0]} x {layout.tile[1]}" in [row[4] for row in found]


def test_docstrings() -> None:
    for module in (isa.metadata_formats, isa.metadata_formats.formats):
        result = doctest.testmod(module)
        assert result.attempted > 0
        assert result.failed == 0


@pytest.mark.parametrize("type", ["f16", "tf32", "s8", "e4m3"])
def test_what_cutlass_leaves_for_chunks_of_zeros_is_read(type: str) -> None:
    """Its compressor for Hopper and Blackwell starts from 0b0000; other formats never have that code."""
    codes = np.full((128, 32), 0b1110, np.uint32)
    empty = np.random.default_rng(5).random(codes.shape) < 0.3
    for name in format_names(type):
        layout = metadata_format(name, type)
        words = layout.store(np.where(empty, 0, codes).astype(np.uint32))
        how: dict[str, Any] = {"type": type, "rows": 128, "chunks": 32}
        if name.startswith(("cutlass.sm90", "cutlass.sm100")):
            assert (convert(words, name, "codes", **how) == 0b1110).all()
            assert np.array_equal(convert(words, name, name, **how), layout.store(codes))
        else:
            with pytest.raises(isa.IsaError, match="not defined"):
                convert(words, name, "codes", **how)


def test_e2m1_too() -> None:
    words = metadata_format("cutlass.sm100", "e2m1").store(np.zeros((128, 32), np.uint32))
    assert (convert(words, "cutlass.sm100", "codes", type="e2m1", rows=128, chunks=32) == 0b1110).all()
