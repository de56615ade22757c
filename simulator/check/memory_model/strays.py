"""Accesses outside of all memory, misaligned ones, and those beyond what an array was declared to hold: all of a
run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.check.memory_model.following import Following
from simulator.check.memory_model.races import Party
from simulator.state.columns import LaunchShared
from simulator.state.device_memory import Buffer, DeviceMemory
from simulator.state.registers import Warps
from simulator.state.windows import RANK_BIT

_WITHIN = (1 << RANK_BIT) - 1
Ints = NDArray[Any]


class Attempt(NamedTuple):
    """One execution of an access, thread by thread, each [n].

    Attributes:
        address: of each thread's bytes.
        size: bytes of a thread.
        row, lane: of the thread.
        access: "reads", "writes" or "updates".
    """

    address: Ints
    size: int
    row: Warps
    lane: NDArray[np.intp]
    access: str


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

    def _add(self, rule: str, follower: Following, attempt: Attempt, chosen: Ints, what: str, fix: str) -> None:
        """Notes the chosen threads of an attempt, in the words of the first."""
        key, first = (rule, follower.state.line), int(chosen[0])
        if key not in self.found:
            row = int(attempt.row[first]) + follower.first_row
            party = follower.ledger.party(row, int(attempt.lane[first]), follower.state.line, attempt.access)
            self.found[key] = Stray(rule, party, f"{attempt.access} {what}", fix)
        self.found[key].count += len(chosen)

    def shared(self, follower: Following, attempt: Attempt, bad: NDArray[np.bool_]) -> None:
        """Notes accesses outside of shared memory."""
        index, held, size = np.flatnonzero(bad), _shared(follower), attempt.size
        misaligned = _misaligned(attempt.address[index], size, held.size)
        outside = index[~misaligned]
        if outside.size:
            offset = _signed(int(attempt.address[outside[0]]), held.cluster)
            what = f"{size} bytes at shared[{offset}], outside of the {held.size} bytes of the CTA"
            fix = _guard(offset + size - held.size if offset >= 0 else offset, "shared memory")
            self._add("shared-memory-bounds", follower, attempt, outside, what, fix)
        if misaligned.any():
            offset = _signed(int(attempt.address[index[misaligned][0]]), held.cluster)
            self._misaligned(follower, attempt, index[misaligned], f"shared[{offset}]")

    def beyond(self, follower: Following, attempt: Attempt, buffer: Buffer | None, bad: Ints) -> None:
        """Notes accesses outside of all buffers, or misaligned ones."""
        misaligned = attempt.address[bad] % attempt.size != 0
        outside, memory = bad[~misaligned], follower.state.memory
        if outside.size:
            assert isinstance(memory, DeviceMemory)
            at = int(attempt.address[outside[0]])
            what = f"{attempt.size} bytes at {at:#x}, {memory.whereabouts(at)}"
            past = at + attempt.size - buffer.end if buffer is not None else 0
            fix = _guard(past, f"'{buffer.name}'" if buffer is not None else "the buffer")
            self._add("out-of-bounds", follower, attempt, outside, what, fix)
        if misaligned.any():
            self._misaligned(follower, attempt, bad[misaligned], f"{int(attempt.address[bad[misaligned][0]]):#x}")

    def _misaligned(self, follower: Following, attempt: Attempt, chosen: Ints, place: str) -> None:
        what = f"{attempt.size} bytes at {place}, no multiple of {attempt.size}"
        fix = f"an address that is a multiple of {attempt.size}"
        self._add("misaligned-address", follower, attempt, chosen, what, fix)

    def declared(self, follower: Following, attempt: Attempt, buffer: Buffer, chosen: Ints) -> None:
        """Notes accesses within a buffer and beyond the columns of its array."""
        shape = self.shapes.get(buffer.name)
        if shape is None or not chosen.size:
            return
        rows, columns, leading, element = shape
        last = (attempt.address[chosen] - buffer.address + attempt.size - 1) // element
        over = (last % leading >= columns) | (last // leading >= rows)
        if over.any():
            number = int(last[over][0])
            what = (
                f"{buffer.name}[{number // leading}][{number % leading}] of an array that was declared with "
                f"{rows} rows of {columns} elements"
            )
            fix = f"a guard: rows below {rows}, columns below {columns}"
            self._add("declared-bounds", follower, attempt, chosen[over], what, fix)


def _shared(follower: Following) -> LaunchShared:
    shared = follower.state.shared
    assert isinstance(shared, LaunchShared)
    return shared


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
