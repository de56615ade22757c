"""Which cells of Tensor Memory the instructions `tcgen05.ld`, `tcgen05.st` and `tcgen05.shift` move; `tcgen05.cp` is in
`copies`.

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
too is inferred; that unpacking clears the high halves is assumed. For the shift see `shift_sources`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from isa.errors import IsaError
from isa.forms.tcgen05_rows import REPEATS, SHAPE_REGISTERS
from isa.mapping import Digit, Integers, Mapping
from isa.tensor_memory.address import COLUMNS, QUARTER, TMEM_LANES, warp_lanes
from isa.types import Bits, typed

THREADS = 32
MOST_REGISTERS = 128
LOAD, STORE = "PTX ISA 9.0, 9.7.16.8.3 (tcgen05.ld)", "PTX ISA 9.0, 9.7.16.8.1 (shapes)"
SHIFT = "PTX ISA 9.0, 9.7.16.9.2 (tcgen05.shift)"
_SPLIT = "16x32bx2"
_LOW = np.uint32(0xFFFF)


# tcgen05.ld and tcgen05.st


@dataclass(frozen=True)
class Move:
    """One shape of `tcgen05.ld` or `st`: which cells of Tensor Memory correspond to the registers of a warp.

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
        """Raises IsaError if the warp cannot move this shape at that base address."""
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
        registers = words[..., lane, column]
        if not self.packed:
            return registers[..., 0]
        return (registers[..., 0] & _LOW) | (registers[..., 1] & _LOW) << np.uint32(16)

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
    result = Move(shape, repeats, packed, half_split or 0, mapping)
    if result.half_split < 0 or result.columns > COLUMNS:
        limit = COLUMNS - dict(mapping.axes)["column"]
        raise IsaError(
            str(half_split),
            -1,
            f".{shape}.x{repeats} moves {result.columns} columns",
            f"up to {COLUMNS} (split 0 to {limit})",
            section=LOAD,
        )
    return result


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
