"""Computes tcgen05.ld, st, cp and shift: moves between Tensor Memory, registers and shared memory.

This module moves values; when an asynchronous move takes place is for others to say. Maps of `isa.tensor_memory.moves`.
PTX ISA 9.0, 9.7.16.8 and 9.7.16.9.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np

from isa.mapping import Integers
from isa.shared_memory.descriptor import SharedMemoryDescriptor
from isa.shared_memory.tile import read_copy
from isa.tensor_memory.address import QUARTER, TMEM_LANES, TmemAddress
from isa.tensor_memory.copies import Copy
from isa.tensor_memory.moves import SHIFT_COLUMNS, Move, shift_down
from isa.types import ELEMENT_TYPES, Bits
from simulator.execute.extremes import of_two
from simulator.execute.tcgen05.fetch import Cta

_EVERY_LANE = np.arange(TMEM_LANES)[:, None]


def load(cta: Cta, warp: int, address: int, move: Move) -> Bits:
    """tcgen05.ld of one warp: registers uint32 [register, thread].

    Raises:
        IsaError: an illegal address, or lanes that this warp does not reach.
        UndefinedBehavior: columns that are not allocated.
    """
    lanes, columns = _window(warp, address, move)
    return move.gather(cta.tmem.read(lanes, columns, "tcgen05.ld: "))


def reduction(qualifiers: Sequence[str]) -> Callable[[Bits], Bits]:
    """The function of tcgen05.ld.red that makes redval of what each thread has loaded: uint32 [register, thread] ->
    uint32 [thread].

    The smallest or largest of the thread's registers, which are the columns of its lane: published (PTX ISA 9.0,
    9.7.16.8.3). That the two halves of .16x32bx2, which are in different threads, are reduced apart, and that zeros and
    NaN are as in min and max, are inferred.
    """
    operation, kind = next(q for q in qualifiers if q in ("min", "max")), qualifiers[-1]
    if kind != "f32":
        choose, signed = (np.minimum if operation == "min" else np.maximum), np.int32 if kind == "s32" else np.uint32
        return lambda values: choose.reduce(values.view(signed), axis=0).view(np.uint32)
    two = of_two(operation, ELEMENT_TYPES["f32"], keeps_nan="NaN" in qualifiers)
    mask = np.uint32(0x7FFFFFFF if "abs" in qualifiers else 0xFFFFFFFF)
    return lambda values: reduce(two, values & mask)


def store(cta: Cta, warp: int, address: int, move: Move, registers: Bits) -> None:
    """tcgen05.st of one warp: registers uint32 [register, thread] into cells; errors as for `load`."""
    lanes, columns = _window(warp, address, move)
    cta.tmem.check(lanes, columns, "tcgen05.st: ")
    touched = move.scatter(np.full_like(registers, 0xFFFFFFFF)) != 0
    if move.packed:
        touched[:] = True  # whole cells: the halves that no register has become zero (assumed)
    cells = move.scatter(registers)
    where = np.nonzero(touched)
    rows, places = (np.broadcast_to(grid, cells.shape)[where] for grid in (lanes, columns))
    cta.tmem.write(rows, places, cells[where], "tcgen05.st: ")


def _window(warp: int, address: int, move: Move) -> tuple[Integers, Integers]:
    base = TmemAddress.from_word(address)
    move.check_base(warp, base.lane, base.column)
    return base.lane + np.arange(move.lanes)[:, None], base.column + np.arange(move.columns)[None]


def copy_in(ctas: Sequence[Cta], address: int, word: int, how: Copy, source: str = "") -> None:
    """tcgen05.cp: each CTA of the group copies from its own shared memory to its own Tensor Memory.

    Args:
        ctas: one, or both of a pair.
        address: of the destination; its lane must be 0, but for .4x256b, which renews the lanes address + 0, 32, 64 and
            96 (inferred).
        word: shared memory descriptor of the source.
        how: shape and multicast.
        source: "", "b4x16_p64" or "b6x16_p32".
    """
    base = TmemAddress.from_word(address)
    how.check_base(base.lane, base.column)
    descriptor = SharedMemoryDescriptor.decode(word)
    descriptor.check()
    lanes = np.unique(how.mapping.grid[0])
    for cta in ctas:
        cells = how.scatter(read_copy(cta.shared, descriptor, how.shape, source=source))
        columns = np.arange(how.columns)
        cta.tmem.write(
            base.lane + lanes[:, None], base.column + columns[None], cells[lanes], f"tcgen05.cp.{how.shape}: "
        )


def shift(ctas: Sequence[Cta], address: int) -> None:
    """tcgen05.shift.down: rows of 32 bytes move by one lane; see `isa.tensor_memory.moves.shift_sources` for what is
    inferred."""
    base = TmemAddress.from_word(address)
    columns = base.column + np.arange(SHIFT_COLUMNS)[None]
    for cta in ctas:
        cells = shift_down(cta.tmem.read(_EVERY_LANE, columns, "tcgen05.shift: "), base.lane)
        moved = np.arange(base.lane, base.lane + QUARTER)[:, None]
        cta.tmem.write(moved, columns, cells[moved[:, 0]], "tcgen05.shift: ")
