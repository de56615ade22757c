"""What the warps of a batch execute without faults, in order, and what their registers hold at any time."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa.forms.synchronisation import is_reduction
from simulator.execute.cta_state import Outcome
from simulator.execute.launch_state import LaunchState
from simulator.faults.targets.register_sites import Cell
from simulator.program.kernel import Kernel, Operation
from simulator.state.registers import WARP_SIZE, Lanes, Sort, Warps, register_place

KEPT_BYTES = 1 << 27  # the most that kept values of registers may take
Written = list[tuple[tuple[Sort, int], ...]]


def written_by(kernel: Kernel) -> Written | None:
    """By place, the registers that an item writes; None if some are written later than that, by a reduction of a
    barrier."""
    found: Written = [()] * len(kernel.items)
    for item in kernel.items:
        if isinstance(item, Operation):
            if is_reduction(item.instruction.form):
                return None
            places = [place for name in item.writes if (place := register_place(name)) is not None]
            found[item.index] = tuple((place.sort, place.number) for place in places)
    return found


class Noted:
    """The events of a batch: one for each item that some rows execute together.

    Attributes:
        counts: int64 [row]: dynamic instructions so far.
        places, rows, lanes: of each event the item, and which threads execute it (None: all of these rows).
    """

    def __init__(self, state: LaunchState, written: Written | None) -> None:
        self.counts = np.zeros(state.batch.rows, np.int64)
        self.places: list[int] = []
        self.rows: list[Warps] = []
        self.lanes: list[Lanes | None] = []
        self._registers: Any = state.registers
        self._written = written
        self._kept: dict[tuple[Sort, int], tuple[list[int], list[NDArray[Any]]]] = {}
        self._left = KEPT_BYTES // (4 * WARP_SIZE * state.batch.rows)  # columns that may still be kept

    def __call__(self, place: int, rows: Warps, lanes: Lanes | None, outcome: Outcome) -> None:
        self.counts[rows] += 1
        if self._written is not None:
            for sort, number in self._written[place]:
                events, columns = self._kept.setdefault((sort, number), ([], []))
                events.append(len(self.places))
                columns.append(self._registers.columns[sort][number])
                self._left -= 1
            if self._left < 0:
                self._written = None
                self._kept.clear()
        self.places.append(place)
        self.rows.append(rows)
        self.lanes.append(lanes)

    @property
    def has_values(self) -> bool:
        """Whether `values` can be asked for."""
        return self._written is not None

    def values(self, row: int, at: Cell, lane: int, first: int, last: int) -> list[int]:
        """What a 32-bit word of a register holds when the row has executed `first` instructions, and what is written to
        it from then on before it has executed `last` (at least first + 1)."""
        own = self._events_of[row]
        begin = int(own[first - 1]) if first > 0 else -1
        until = int(own[min(last - 1, len(own)) - 1]) if last > 1 and len(own) else -1
        events, columns = self._kept.get((at.sort, at.number), ([], []))
        now = int(np.searchsorted(events, begin, side="right"))
        later = int(np.searchsorted(events, max(until, begin), side="right"))
        held = [int(column[row, lane]) for column in columns[max(now - 1, 0) : later]]
        return [value >> at.low & 0xFFFFFFFF for value in ([0, *held] if now == 0 else held)]

    @cached_property
    def _executed(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """For each instruction of a row, in order, the row and the number of its event."""
        rows = np.concatenate([np.zeros(0, np.intp), *self.rows])
        return rows, np.repeat(np.arange(len(self.rows)), [len(part) for part in self.rows])

    @cached_property
    def executed(self) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
        """For each instruction of a row, in order: the row, the number of its event, and its own number in the row."""
        rows, events = self._executed
        order = np.argsort(rows, kind="stable")
        numbers = np.empty(len(rows), np.intp)
        numbers[order] = np.arange(len(rows)) - np.searchsorted(rows[order], rows[order])
        return rows, events, numbers

    @cached_property
    def _events_of(self) -> list[NDArray[np.intp]]:
        """By row, the numbers of its events."""
        rows, events = self._executed
        order = np.argsort(rows, kind="stable")
        return np.split(events[order], np.searchsorted(rows[order], np.arange(1, len(self.counts))))

    def event(self, row: int, count: int) -> int:
        """How many events there are until a row has executed `count` instructions, or all of its own if these are
        fewer."""
        own = self._events_of[row]
        return int(own[min(count, len(own)) - 1]) + 1 if count > 0 and len(own) else 0

    def abreast(self, row: int, count: int, first: int, rows: int) -> tuple[int, int]:
        """Which of some rows, from `first` on, was the last to execute something when `row` had executed `count` (at
        least 1) instructions, and how many it had executed then; (0, 0) if none of them had."""
        now = int(self._events_of[row][count - 1])
        done = [int(np.searchsorted(events, now, side="right")) for events in self._events_of[first : first + rows]]
        latest = max(range(rows), key=lambda number: self._last(first + number, done[number]))
        return (latest, done[latest]) if done[latest] else (0, 0)

    def _last(self, row: int, count: int) -> int:
        return int(self._events_of[row][count - 1]) if count else -1
