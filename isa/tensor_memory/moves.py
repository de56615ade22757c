"""Data movement of Tensor Memory: `tcgen05.ld` and `st` (registers), `tcgen05.cp` (shared memory), `tcgen05.shift`.

Registers <-> cells, relative to the base address, for thread t, register r, repeat .xN:

    .32x32b     lane t                          column r                         N registers
    .16x64b     lane t/4 + 8*(t%2)              column 2*r + (t/2)%2             N
    .16x128b    lane t/4 + 8*(r%2)              column 4*(r/2) + t%4             2N
    .16x256b    lane t/4 + 8*((r/2)%2)          column 8*(r/4) + 2*(t%4) + r%2   4N
    .16x32bx2   lane t%16                       column r + half_split*(t/16)     N

With .pack::16b (ld) and .unpack::16b (st) such a 32-bit column stands for two columns of Tensor Memory: the low halves
of cells 2c and 2c + 1 are the low and high half of the register.

Evidence. Maps of ld and st: published (CUTLASS copy_traits_sm100.hpp, TMEM_LOAD_*). Packing: published for .16x64b and
.16x32bx2 (the same file, *_16b), inferred for the other shapes; that half_split counts columns of Tensor Memory there
too is inferred; that unpacking clears the high halves is assumed. Shapes of cp: published (PTX ISA 9.0, 9.7.16.9.1;
CUTLASS); the lanes of .4x256b: inferred (CUTLASS alone). Decompression: that 16 elements and their padding become 16
bytes is published (9.7.16.9.1.1 and 9.7.16.9.1.2); which bits of the byte they take is inferred (see `decompress`).
Shift: see `shift_sources`.
"""

from __future__ import annotations

from collections.abc import Mapping as AbstractMapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from isa.errors import IsaError
from isa.forms.tcgen05_rows import REPEATS, SHAPE_REGISTERS
from isa.mapping import Digit, Fixed, Integers, Mapping
from isa.shared_memory.packing import DECOMPRESSIONS, UNIT, Bytes, packing
from isa.shared_memory.tile import COPY_SHAPES
from isa.tensor_memory.address import COLUMNS, QUARTER, TMEM_LANES, warp_lanes
from isa.types import Bits

T = TypeVar("T", bound=np.generic)
THREADS = 32
MOST_REGISTERS = 128
LOAD, STORE = "PTX ISA 9.0, 9.7.16.8.3 (tcgen05.ld)", "PTX ISA 9.0, 9.7.16.8.1 (shapes)"
COPY = "PTX ISA 9.0, 9.7.16.9.1 (tcgen05.cp)"
SHIFT = "PTX ISA 9.0, 9.7.16.9.2 (tcgen05.shift)"
_SPLIT = "16x32bx2"
_LOW = np.uint32(0xFFFF)


# tcgen05.ld and tcgen05.st


@dataclass(frozen=True)
class Move:
    """One shape of `tcgen05.ld` or `st`: which cells the registers of a warp are.

    Attributes:
        shape: "32x32b", "16x64b", "16x128b", "16x256b" or "16x32bx2".
        repeats: N of `.xN`.
        packed: `.pack::16b` or `.unpack::16b`.
        half_split: immHalfSplitoff of .16x32bx2: columns between what threads 0-15 and threads 16-31 move; 0 elsewhere.
        mapping: places (thread, register, part) <-> coordinates (lane, column, half). `part` is the half of a register,
            of one value without packing; `half` is 1 for the second half of .16x32bx2, whose column counts from
            half_split. See `cells`.
    """

    shape: str
    repeats: int
    packed: bool
    half_split: int
    mapping: Mapping

    @property
    def registers(self) -> int:
        """Registers of each thread."""
        return dict(self.mapping.places)["register"]

    @property
    def lanes(self) -> int:
        """Lanes from the base on: 16 or 32."""
        return dict(self.mapping.axes)["lane"]

    @property
    def columns(self) -> int:
        """Columns from the base to the last that is touched."""
        return dict(self.mapping.axes)["column"] + self.half_split

    @property
    def overlaps(self) -> bool:
        """Whether two threads touch one cell: .16x32bx2 with halves that are closer than they are wide."""
        return self.shape == _SPLIT and self.half_split < dict(self.mapping.axes)["column"]

    @cached_property
    def cells(self) -> tuple[Integers, Integers]:
        """Lane and column from the base of every [register, thread, part]."""
        lane, column, half = (np.swapaxes(c, 0, 1) for c in self.mapping.inverse_grid)
        return lane, column + self.half_split * half

    def base_lanes(self, warp: int) -> tuple[int, ...]:
        """Lanes where this warp may start: its quarter, or either half of it for shapes of 16 lanes (the second:
        published by CUTLASS's use)."""
        return tuple(warp_lanes(warp)[:: self.lanes])

    def check_base(self, warp: int, lane: int, column: int) -> None:
        """IsaError if a warp cannot move this shape at that base."""
        if lane not in self.base_lanes(warp):
            legal = " or ".join(map(str, self.base_lanes(warp)))
            raise IsaError(
                str(lane),
                -1,
                f".{self.shape} of warp {warp} at lane {lane}",
                f"lane {legal}",
                section=LOAD,
                rule="warp-quarter",
            )
        if not 0 <= column <= COLUMNS - self.columns:
            reason = f".{self.shape}.x{self.repeats} at column {column} moves {self.columns} columns"
            raise IsaError(str(column), -1, reason, f"column 0 to {COLUMNS - self.columns}", section=LOAD)

    def gather(self, words: Bits) -> Bits:
        """tcgen05.ld: cells uint32 [..., lane, column] from the base on -> registers uint32 [..., register, thread]."""
        words = self._checked(words, (self.lanes, self.columns), "cells")
        lane, column = self.cells
        found = words[..., lane, column]
        return found[..., 0] if not self.packed else (found[..., 0] & _LOW) | (found[..., 1] & _LOW) << np.uint32(16)

    def scatter(self, registers: Bits, rest: Bits | None = None) -> Bits:
        """tcgen05.st: registers uint32 [..., register, thread] -> cells uint32 [..., lane, column]; what it leaves
        alone keeps `rest` (default 0).

        Raises:
            IsaError: another type or shape, or two threads write one cell (`overlaps`).
        """
        registers = self._checked(registers, (self.registers, THREADS), "registers")
        if self.overlaps:
            legal = f"immHalfSplitoff of {dict(self.mapping.axes)['column']} or more"
            raise IsaError(
                str(self.half_split),
                -1,
                f".{self.shape}.x{self.repeats} stores two values in one cell",
                legal,
                section=STORE,
            )
        words = np.zeros((*registers.shape[:-2], self.lanes, self.columns), np.uint32)
        if rest is not None:
            words[...] = self._checked(rest, (self.lanes, self.columns), "cells")
        parts = (
            np.stack([registers & _LOW, registers >> np.uint32(16)], axis=-1) if self.packed else registers[..., None]
        )
        lane, column = self.cells
        words[..., lane, column] = parts
        return words

    def _checked(self, array: Bits, tail: tuple[int, int], what: str) -> Bits:
        return typed(array, np.uint32, tail, f".{self.shape}.x{self.repeats}: {what}")


@lru_cache(maxsize=1024)
def move(shape: str, repeats: int, packed: bool = False, half_split: int | None = None) -> Move:
    """The map of `tcgen05.ld` or `st` .shape.xN; maps published, see above.

    Args:
        shape: a key of `isa.forms.tcgen05_rows.SHAPE_REGISTERS`.
        repeats: N, with at most 128 registers.
        packed: `.pack::16b`, `.unpack::16b`.
        half_split: immHalfSplitoff, for .16x32bx2 and only there.

    Raises:
        IsaError: no such shape, too many registers, a split too wide or in the wrong place.
    """
    if shape not in SHAPE_REGISTERS:
        raise IsaError(shape, 0, f"unknown shape '{shape}'", ", ".join(SHAPE_REGISTERS), section=STORE)
    most = MOST_REGISTERS // SHAPE_REGISTERS[shape]
    if f"x{repeats}" not in REPEATS or repeats > most:
        raise IsaError(
            f"x{repeats}",
            0,
            f".{shape} has no .x{repeats}",
            ", ".join(r for r in REPEATS if int(r[1:]) <= most),
            section=STORE,
        )
    if (shape == _SPLIT) != (half_split is not None):
        reason, legal = ("needs", "a number of columns") if shape == _SPLIT else ("has no", "none")
        raise IsaError(shape, -1, f".{shape} {reason} immHalfSplitoff", legal, section=LOAD)
    mapping = Mapping(*_move_digits(shape, repeats, packed))
    found = Move(shape, repeats, packed, half_split or 0, mapping)
    if found.half_split < 0 or found.columns > COLUMNS:
        limit = COLUMNS - dict(mapping.axes)["column"]
        raise IsaError(
            str(half_split),
            -1,
            f".{shape}.x{repeats} moves {found.columns} columns",
            f"up to {COLUMNS} (split 0 to {limit})",
            section=LOAD,
        )
    return found


def _move_digits(
    shape: str, repeats: int, packed: bool
) -> tuple[tuple[tuple[str, int], ...], tuple[tuple[str, int], ...], tuple[Digit, ...]]:
    """Places, coordinates and digits of a move."""
    step = 2 if packed else 1
    lane: tuple[Digit, ...]
    column: tuple[Digit, ...]
    if shape == "32x32b":
        lane, width = (Digit("thread", 1, 32, "lane", 1),), 1
        column = (Digit("register", 1, repeats, "column", step),)
    elif shape == _SPLIT:
        lane, width = (Digit("thread", 1, 16, "lane", 1),), 1
        column = (Digit("register", 1, repeats, "column", step), Digit("thread", 16, 2, "half", 1))
    elif shape == "16x64b":
        lane, width = (Digit("thread", 4, 8, "lane", 1), Digit("thread", 1, 2, "lane", 8)), 2
        column = (Digit("thread", 2, 2, "column", step), Digit("register", 1, repeats, "column", 2 * step))
    elif shape == "16x128b":
        lane, width = (Digit("thread", 4, 8, "lane", 1), Digit("register", 1, 2, "lane", 8)), 4
        column = (Digit("thread", 1, 4, "column", step), Digit("register", 2, repeats, "column", 4 * step))
    else:
        lane, width = (Digit("thread", 4, 8, "lane", 1), Digit("register", 2, 2, "lane", 8)), 8
        column = (
            Digit("register", 1, 2, "column", step),
            Digit("thread", 1, 4, "column", 2 * step),
            Digit("register", 4, repeats, "column", 8 * step),
        )
    places = (("thread", THREADS), ("register", SHAPE_REGISTERS[shape] * repeats), ("part", step))
    lanes, halves = (32 if shape == "32x32b" else 16), (2 if shape == _SPLIT else 1)
    axes = (("lane", lanes), ("column", width * repeats * step), ("half", halves))
    return places, axes, tuple(d for d in (*lane, *column, Digit("part", 1, step, "column", 1)) if d.size > 1)


# tcgen05.cp


@dataclass(frozen=True)
class Copy:
    """One shape of `tcgen05.cp`: where the bytes of a matrix in shared memory go.

    Attributes:
        shape: "128x256b", "128x128b", "64x128b", "32x128b" or "4x256b".
        multicast: "", "warpx2::02_13", "warpx2::01_23" or "warpx4".
        mapping: places (lane, column, byte), from the base, <-> coordinates (row, source, copy): byte `source` of a row
            of the matrix.
        evidence: "published" or "inferred".
    """

    shape: str
    multicast: str
    mapping: Mapping
    evidence: str

    @property
    def source(self) -> tuple[int, int]:
        """Rows of the matrix, and bytes in each."""
        rows, width, _ = self.mapping.shape
        return rows, width

    @property
    def copies(self) -> int:
        """How often each byte is written."""
        return self.mapping.shape[2]

    @property
    def columns(self) -> int:
        """Columns that are written."""
        return dict(self.mapping.places)["column"]

    def check_base(self, lane: int, column: int) -> None:
        """IsaError if a copy to that base leaves Tensor Memory (inferred from its extent: every shape but .4x256b spans
        all lanes)."""
        lanes = range(QUARTER if self.mapping.fixed else 1)
        if lane not in lanes:
            legal = "0" if len(lanes) == 1 else f"0 to {lanes[-1]}"
            raise IsaError(
                str(lane),
                -1,
                f"tcgen05.cp.{self.shape} at lane {lane}",
                f"lane {legal}",
                section=COPY,
                rule="warp-quarter",
            )
        if not 0 <= column <= COLUMNS - self.columns:
            reason = f"tcgen05.cp.{self.shape} at column {column} writes {self.columns} columns"
            raise IsaError(str(column), -1, reason, f"column 0 to {COLUMNS - self.columns}", section=COPY)

    def scatter(self, matrix: Bytes, rest: Bits | None = None) -> Bits:
        """Matrix uint8 [..., row, byte] -> cells uint32 [..., 128 lanes, column]; what is not written keeps `rest`
        (default 0)."""
        matrix = typed(matrix, np.uint8, self.source, f"tcgen05.cp.{self.shape}: matrix")
        cells = np.zeros((*matrix.shape[:-2], TMEM_LANES, self.columns, 4), np.uint8)
        if rest is not None:
            rest = typed(rest, np.uint32, (TMEM_LANES, self.columns), f"tcgen05.cp.{self.shape}: cells")
            cells[...] = np.ascontiguousarray(rest, "<u4")[..., None].view(np.uint8)
        lane, column, byte = self.mapping.grid
        cells[..., lane, column, byte] = matrix[..., None]
        return np.ascontiguousarray(cells.view("<u4")[..., 0], np.uint32)

    def gather(self, words: Bits, copy: int = 0) -> Bytes:
        """Cells uint32 [..., 128 lanes, column] -> the matrix uint8 [..., row, byte] of which they hold this copy."""
        words = typed(words, np.uint32, (TMEM_LANES, self.columns), f"tcgen05.cp.{self.shape}: cells")
        if not 0 <= copy < self.copies:
            raise IsaError(
                str(copy), -1, f"copy {copy} of tcgen05.cp.{self.shape}", f"0 to {self.copies - 1}", section=COPY
            )
        cells = np.ascontiguousarray(words, "<u4")[..., None].view(np.uint8)
        lane, column, byte = (grid[..., copy] for grid in self.mapping.grid)
        matrix: Bytes = cells[..., lane, column, byte]
        return matrix


_COPIES: AbstractMapping[tuple[str, str], tuple[tuple[Digit, ...], tuple[Fixed, ...], int, str]] = {
    ("128x256b", ""): ((Digit("lane", 1, 128, "row", 1),), (), 1, "published"),
    ("128x128b", ""): ((Digit("lane", 1, 128, "row", 1),), (), 1, "published"),
    ("64x128b", "warpx2::02_13"): (
        (Digit("lane", 1, 64, "row", 1), Digit("lane", 64, 2, "copy", 1)),
        (),
        2,
        "published",
    ),
    ("64x128b", "warpx2::01_23"): (
        (Digit("lane", 1, 32, "row", 1), Digit("lane", 64, 2, "row", 32), Digit("lane", 32, 2, "copy", 1)),
        (),
        2,
        "published",
    ),
    ("32x128b", "warpx4"): ((Digit("lane", 1, 32, "row", 1), Digit("lane", 32, 4, "copy", 1)), (), 4, "published"),
    ("4x256b", ""): ((Digit("lane", 32, 4, "row", 1),), (Fixed("lane", 1, 32, 0),), 1, "inferred"),
}


@lru_cache(maxsize=16)
def copy(shape: str, multicast: str = "") -> Copy:
    """The map of `tcgen05.cp.shape.multicast`; IsaError if there is none. PTX ISA 9.0, 9.7.16.9.1.

    The lanes count from the base address. Only .4x256b starts elsewhere than at lane 0 (CUTLASS: it renews one lane of
    each 32).
    """
    if (shape, multicast) not in _COPIES:
        legal = ", ".join(".".join(name for name in key if name) for key in _COPIES)
        raise IsaError(shape, 0, f"tcgen05.cp has no .{shape}{'.' * bool(multicast)}{multicast}", legal, section=COPY)
    lanes, fixed, copies, evidence = _COPIES[shape, multicast]
    rows, width = COPY_SHAPES[shape]
    digits = (*lanes, Digit("byte", 1, 4, "source", 1), Digit("column", 1, width // 4, "source", 4))
    places = (("lane", TMEM_LANES), ("column", width // 4), ("byte", 4))
    return Copy(
        shape, multicast, Mapping(places, (("row", rows), ("source", width), ("copy", copies)), digits, fixed), evidence
    )


def decompress(packed: Bytes, source: str) -> Bytes:
    """What `.b8x16.source` makes of bytes, before they are laid out like any others: uint8 [..., 16 * n] -> the same
    shape.

    Args:
        packed: groups of 16 bytes: 16 elements of 4 bits and 8 bytes of padding, or of 6 bits and 4 bytes; lowest bits
            first.
        source: "b4x16_p64" or "b6x16_p32".

    4 bits come to lie in bits 5-2 of their byte, where kinds f8f6f4 and mxf8f6f4 look for an e2m1; 6 bits in bits 5-0;
    the rest is 0. Inferred from one reading of PTX's figures, as is the order of the packed elements. `ldmatrix` with
    .b8x16.b4x16_p64 differs: 4 bits in bits 3-0, which CUTLASS shifts by 2.
    """
    if source not in DECOMPRESSIONS:
        raise IsaError(source, 0, f"unknown source format '{source}'", ", ".join(DECOMPRESSIONS), section=COPY)
    packed = np.asarray(packed)
    if packed.dtype != np.uint8 or packed.ndim == 0 or packed.shape[-1] % UNIT:
        raise IsaError(
            source,
            -1,
            f"bytes of type {packed.dtype} and shape {packed.shape}",
            f"uint8 [..., a multiple of {UNIT}]",
            section=COPY,
        )
    units = packed.reshape(*packed.shape[:-1], -1, UNIT)
    return packing(DECOMPRESSIONS[source]).unpack(units).astype(np.uint8).reshape(packed.shape)


# tcgen05.shift

SHIFT_COLUMNS = 8  # 32 bytes a row: PTX ISA 9.0, 9.7.16.9.2: published


def shift_sources(lane: int, lanes: int = QUARTER) -> Integers:
    """Where each of the 128 lanes takes its 8 columns from in `tcgen05.shift.down`; its own number where nothing moves.

    Args:
        lane: lane of the address, a multiple of 32 (published).
        lanes: how many lanes from there on are shifted, in groups of 32; one group by default.

    Row r takes row r + 1, but for the last of each group, which stays. Published: "for a warp", "downwards", "across
    all the rows, except the last, by one row". That "down" is toward lower lanes, so that the last lane of each 32 is
    the one to renew, is inferred (CUTLASS describes .cp.4x256b as doing that); that one instruction moves one group of
    32 is inferred from "for a warp" and the alignment.
    """
    if not 0 <= lane < TMEM_LANES or lane % QUARTER:
        raise IsaError(
            str(lane), -1, f"tcgen05.shift at lane {lane}", "0, 32, 64 or 96", section=SHIFT, rule="warp-quarter"
        )
    if not 0 < lanes <= TMEM_LANES - lane or lanes % QUARTER:
        raise IsaError(
            str(lanes),
            -1,
            f"tcgen05.shift of {lanes} lanes from lane {lane}",
            f"32 to {TMEM_LANES - lane} in steps of 32",
            section=SHIFT,
        )
    every = np.arange(TMEM_LANES)
    sources: Integers = every + ((every >= lane) & (every < lane + lanes) & (every % QUARTER != QUARTER - 1))
    return sources


def shift_down(words: Bits, lane: int, lanes: int = QUARTER) -> Bits:
    """Cells uint32 [..., 128 lanes, 8 columns] after `tcgen05.shift.down` at that base lane; see `shift_sources`."""
    words = typed(words, np.uint32, (TMEM_LANES, SHIFT_COLUMNS), "tcgen05.shift: cells")
    return words[..., shift_sources(lane, lanes), :]


def typed(array: NDArray[T], kind: type[T], tail: tuple[int, ...], what: str) -> NDArray[T]:
    """The array, of that type and with these last sizes; IsaError otherwise."""
    array = np.asarray(array)
    if array.dtype != kind or array.shape[-len(tail) :] != tail:
        legal = f"{kind.__name__} [..., {', '.join(map(str, tail))}]"
        raise IsaError("", -1, f"{what} of type {array.dtype} and shape {array.shape}", legal)
    return array
