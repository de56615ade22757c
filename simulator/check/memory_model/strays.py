"""Accesses outside of all memory, misaligned ones, and those beyond what an array was declared to hold: all of a
run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.check.memory_model.following import Following
from simulator.check.memory_model.races import Party
from simulator.state.device_memory import Buffer
from simulator.state.registers import Warps
from simulator.state.windows import RANK_BIT

_WITHIN = (1 << RANK_BIT) - 1
Ints = NDArray[Any]


@dataclass
class Stray:
    """Accesses of one instruction that go astray in one way.

    Attributes:
        rule: "out-of-bounds", "shared-memory-bounds", "misaligned-address" or "declared-bounds".
        party: the first thread that does it.
        what: the first such access, in words.
        fix: what would be right there, in words.
        count: accesses.
    """

    rule: str
    party: Party
    what: str
    fix: str
    count: int = 0


@dataclass
class Strays:
    """What went astray, by rule and place.

    Attributes:
        shapes: by buffer, rows, columns, elements from row to row, and bytes of an element, where they are declared.
    """

    found: dict[tuple[str, int], Stray] = field(default_factory=dict)
    shapes: dict[str, tuple[int, int, int, int]] = field(default_factory=dict)

    def _add(
        self, rule: str, follower: Following, row: int, lane: int, what: str, count: int, access: str, fix: str
    ) -> None:
        place = follower.state.line
        if (rule, place) not in self.found:
            warps = follower.ledger.warps
            cta = int(follower.state.batch.ctas[row // warps])
            self.found[rule, place] = Stray(rule, Party(place, cta, row % warps, lane, access), what, fix)
        self.found[rule, place].count += count

    def shared(
        self, follower: Following, address: Ints, size: int, row: Warps, lane: Ints, bad: NDArray[np.bool_], access: str
    ) -> None:
        """Notes accesses outside of shared memory."""
        index = np.flatnonzero(bad)
        held: Any = follower.state.shared
        for misaligned in (False, True):
            mine = index[_misaligned(address[index], size, held.size) == misaligned]
            if mine.size:
                first = int(mine[0])
                offset = _signed(int(address[first]), held.cluster)
                what = f"{access} {size} bytes at shared[{offset}]"
                what += f", no multiple of {size}" if misaligned else f", outside of the {held.size} bytes of the CTA"
                rule = "misaligned-address" if misaligned else "shared-memory-bounds"
                fix = f"an address that is a multiple of {size}"
                if not misaligned:
                    fix = _guard(offset + size - held.size if offset >= 0 else offset, "shared memory")
                self._add(rule, follower, int(row[first]), int(lane[first]), what, len(mine), access, fix)

    def beyond(
        self, follower: Following, buffer: Buffer | None, address: Ints, size: int, row: Warps, lane: Ints, bad: Ints,
        access: str,
    ) -> None:  # fmt: skip
        """Notes accesses outside of all buffers, or misaligned ones."""
        misaligned = address[bad] % size != 0
        memory: Any = follower.state.memory
        for wrong, mine in ((False, bad[~misaligned]), (True, bad[misaligned])):
            if mine.size:
                first = int(mine[0])
                at = int(address[first])
                what = f"{access} {size} bytes at {at:#x}, "
                what += f"no multiple of {size}" if wrong else memory.whereabouts(at)
                rule = "misaligned-address" if wrong else "out-of-bounds"
                fix = f"an address that is a multiple of {size}"
                if not wrong:
                    past = at + size - buffer.end if buffer is not None else 0
                    fix = _guard(past, f"'{buffer.name}'" if buffer is not None else "the buffer")
                self._add(rule, follower, int(row[first]), int(lane[first]), what, len(mine), access, fix)

    def declared(
        self, follower: Following, buffer: Buffer, address: Ints, size: int, row: Warps, lane: Ints, chosen: Ints,
        access: str,
    ) -> None:  # fmt: skip
        """Notes accesses within a buffer and beyond the columns of its array."""
        shape = self.shapes.get(buffer.name)
        if shape is None or not chosen.size:
            return
        rows, columns, leading, element = shape
        last = (address[chosen] - buffer.address + size - 1) // element
        over = chosen[(last % leading >= columns) | (last // leading >= rows)]
        if over.size:
            first = int(over[0])
            number = (int(address[first]) - buffer.address + size - 1) // element
            what = (
                f"{access} {buffer.name}[{number // leading}][{number % leading}] of an array that was declared with "
                f"{rows} rows of {columns} elements"
            )
            fix = f"a guard: rows below {rows}, columns below {columns}"
            self._add("declared-bounds", follower, int(row[first]), int(lane[first]), what, len(over), access, fix)


def _guard(past: int, memory: str) -> str:
    """What to do about an access so many bytes behind the end of a memory; below 0: before its beginning."""
    side = f"{past} bytes behind the end" if past > 0 else f"{-past} bytes before the beginning" if past else "outside"
    return f"a guard on the index, or another index, offset or leading dimension: this access is {side} of {memory}"


def _signed(address: int, cluster: int) -> int:
    """An address in shared memory as an offset: of 32 bits, or within the window of a CTA of a cluster; large ones are
    negative."""
    bits = 32 if cluster == 1 else RANK_BIT
    offset = address & ((1 << bits) - 1)
    return offset - (1 << bits) if offset >> (bits - 1) else offset


def _misaligned(address: Ints, size: int, held: int) -> NDArray[np.bool_]:
    offset = address & _WITHIN
    inside: NDArray[np.bool_] = (address >= 0) & (offset + size <= held) & (offset % size != 0)
    return inside
