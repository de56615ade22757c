"""Matrices in shared memory: addresses against the XOR of PTX's swizzles written out, reads against a count of banks,
pictures and tables against both."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from isa import IsaError
from isa.shared_memory.descriptor import SharedMemoryDescriptor
from isa.shared_memory.layout import read_operand
from isa.shared_memory.packing import packing
from isa.shared_memory.tile import Tile
from simulator.layout.shared import PlainRows, SharedLayout, Stored, shared_read
from simulator.views.drawing.shared import draw_shared
from tests.support.cases import over

Tcsim = Callable[..., tuple[int, str, str]]


def _address(tile: Stored, row: int, k: int, bits: int) -> int:
    """The byte of an element of a tile that is one atom wide along K (K-major), or one k atom high (MN-major), from the
    figures of PTX ISA 9.0, 9.7.16.3 and 9.7.16.4: rows of 16, 32, 64 or 128 bytes whose 16-byte units are exchanged."""
    line, inner = (row, k) if tile.major == "K" else (k, row)
    byte = inner * bits // 8
    if isinstance(tile, PlainRows):
        return tile.start + line * tile.pitch + byte
    if tile.swizzle == "none":
        rows_of_k = tile.rows // 8 if tile.major == "K" else tile.columns // 8
        return line % 8 * 16 + line // 8 * 128 + byte // 16 * 128 * (rows_of_k if tile.major == "K" else 1) + byte % 16
    if tile.swizzle == "128B, 32B atoms":
        linear = line * 128 + byte
        return linear ^ (linear >> 7 & 3) << 5
    width = int(tile.swizzle.removesuffix("B"))
    linear = line * width + byte
    return linear ^ (linear >> 7 & (width // 16 - 1)) << 4


_TILES: list[tuple[Stored, str]] = [
    (Tile(16, 64, "f16", swizzle="128B"), "ldmatrix.x4"),
    (Tile(16, 32, "f16", swizzle="64B"), "ldmatrix.x4"),
    (Tile(16, 16, "bf16", swizzle="32B"), "ldmatrix.x4"),
    (Tile(16, 64, "f16", swizzle="none"), "ldmatrix.x2"),
    (Tile(8, 32, "tf32", swizzle="128B"), "ldmatrix.x4"),
    (Tile(32, 128, "e4m3", swizzle="128B"), "tcgen05"),
    (Tile(32, 64, "f16", swizzle="128B"), "tcgen05.sp.b"),
    (Tile(16, 32, "f16", swizzle="64B"), "tcgen05.sp.b"),
    (Tile(64, 8, "f16", major="MN", swizzle="128B"), "ldmatrix.x2"),
    (Tile(32, 16, "f16", major="MN", swizzle="64B"), "ldmatrix.x4"),
    (Tile(32, 8, "tf32", major="MN", swizzle="128B, 32B atoms"), "tcgen05"),
    (PlainRows(16, 64, "f16", 128), "ldmatrix.x4"),
    (PlainRows(16, 64, "f16", 144, start=32), "ldmatrix.x4"),
    (PlainRows(16, 32, "f16", 64), "ldmatrix.x4"),
    (PlainRows(64, 16, "f16", 128, "MN"), "ldmatrix.x4"),
]


@over("case", _TILES, ids=lambda case: f"{case[0].major}-{case[0].swizzle}-{case[0].element}-{case[1]}")
def test_pictures_and_tables_are_the_addresses(case: tuple[Stored, str]) -> None:
    tile, by = case
    how = packing(tile.element)
    layout = SharedLayout(tile, shared_read(tile, by))
    address = {(row, k): _address(tile, row, k, how.bits) for row in range(tile.rows) for k in range(tile.columns)}
    rows = list(csv.DictReader(io.StringIO(layout.table().csv())))
    assert {(int(row["row"]), int(row["k"])): int(row["address"]) for row in rows} == address
    assert all(int(row["bank"]) == int(row["address"]) // 4 % 32 for row in rows)
    per, k_major = how.per_unit, tile.major == "K"
    units = {
        (line, unit): address[(line, unit * per) if k_major else (unit * per, line)]
        for line in range(tile.rows if k_major else tile.columns)
        for unit in range((tile.columns if k_major else tile.rows) // per)
    }
    svg = draw_shared(layout).svg
    cells = re.findall(r'data-line="(\d+)" data-unit="(\d+)" data-address="(\d+)" data-bank="(\d+)"', svg)
    assert {(int(line), int(unit)): int(place) for line, unit, place, _ in cells} == units
    assert len(cells) == len(units)
    assert all(int(place) // 4 % 32 == int(bank) for _, _, place, bank in cells)
    cells = re.findall(r'data-matrix="(\d+),(\d+)" data-place="(\d+)"', svg)
    assert {(int(line), int(unit)): int(place) for line, unit, place in cells} == units
    wanted = [set(text.split(",")) - {""} for text in re.findall(r'data-wanted="([\d,]*)"', svg)]
    assert layout.read is not None
    read = {str(place) for phase in layout.read.phases for place in phase.addresses}
    assert set().union(*wanted) == read
    for phase in layout.read.phases:
        assert phase.wavefronts == max(Counter(place // 16 % 8 for place in phase.addresses).values())


def test_swizzles_and_padding_avoid_conflicts_and_plain_rows_have_them() -> None:
    tiles: dict[str | int, Stored] = {
        name: Tile(16, 64, "f16", swizzle=name) for name in ("128B", "64B", "32B", "none")
    }
    tiles |= {pitch: PlainRows(16, 64, "f16", pitch) for pitch in (128, 144, 160, 192)}
    counted = {
        name: [phase.wavefronts for phase in shared_read(tile, "ldmatrix.x4").phases] for name, tile in tiles.items()
    }
    assert counted == {
        "128B": [1] * 4, "64B": [1] * 4, "32B": [1] * 4, "none": [1] * 4,
        128: [8] * 4, 144: [1] * 4, 160: [2] * 4, 192: [4] * 4,
    }  # fmt: skip


@pytest.mark.parametrize(("by", "k", "width"), [("tcgen05", 16, 16), ("tcgen05.sp.b", 32, 32)])
def test_a_descriptor_reads_what_the_layout_says(by: str, k: int, width: int) -> None:
    tile = Tile(32, 64, "f16", swizzle="128B", start=1024)
    read = shared_read(tile, by, 0, k)
    memory = np.zeros(8192, np.uint8)
    for number, phase in enumerate(read.phases):
        for (row, unit), place in zip(phase.units, phase.addresses, strict=True):
            memory[place : place + 16].view("<u2")[:] = np.arange(8) + unit * 8 + 64 * row
            assert number == row // 8 * (width // 8) + unit - k // 8
    descriptor = read.descriptor
    assert isinstance(descriptor, SharedMemoryDescriptor)
    seen = read_operand(memory, descriptor, major="K", rows=32, columns=width, element="f16")
    assert (seen == np.arange(32)[:, None] * 64 + k + np.arange(width)).all()


def test_the_command(tcsim: Tcsim) -> None:
    asked = ("layout", "shared", "--rows", "16", "--columns", "64", "--read", "ldmatrix.x4")
    code, out, _ = tcsim(*asked, "--pitch", "128")
    assert code == 0
    assert "32 wavefronts (8 + 8 + 8 + 8), conflicts of up to 8 ways" in out
    assert "4 wavefronts (1 + 1 + 1 + 1), no bank conflict" in tcsim(*asked)[1]
    content = json.loads(tcsim(*asked, "--at", "0,16", "--format", "json")[1])
    assert [phase["lanes"][0] for phase in content["read"]["phases"]] == [0, 8, 16, 24]
    assert len(content["elements"]) == 16 * 64
    assert tcsim("layout", "shared", "--rows", "8:16", "--format", "csv")[1].count("\n") == 1 + 8 * 64
    wrong = (
        ("ldmatrix.x4 from row 8, k 56 leaves the tile", 1, "--at", "8,56"),
        ("multiple of 16, 128 or more", 1, "--pitch", "120"),
        ("rows a pitch apart", 1, "--pitch", "128", "--read", "tcgen05"),
        ("one of them", 2, "--pitch", "128", "--swizzle", "64B"),
        ("--operand says nothing of shared", 2, "--operand", "a"),
        ("no read 'stmatrix'", 1, "--read", "stmatrix"),
    )
    for words, code, *options in wrong:
        got, out, err = tcsim(*asked, *options)
        assert (got, out) == (code, ""), options
        assert words in err
    with pytest.raises(IsaError, match="multiples of 8 and 8"):
        shared_read(Tile(16, 64, "f16"), "ldmatrix.x1", 4, 0)
