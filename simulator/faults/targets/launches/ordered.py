"""Launches whose threads take turns strictly by their places, so that what a CTA does depends on itself alone, and
that can be stopped and resumed: the run without faults that is kept, and the copies that start from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from isa.errors import Error
from simulator.execute.launch_state import LaunchState
from simulator.program.kernel import Item
from simulator.simulation.launch.batches import rows_of
from simulator.simulation.launch.blame import blamed
from simulator.simulation.launch.errors import LaunchError
from simulator.simulation.launch.run import Code, Note, Run
from simulator.simulation.launch.threads import Group
from simulator.state.registers import WARP_SIZE

_THREADS = ("at", "back", "parked", "kind", "named")
_BARRIERS_OF_ROWS = ("waiting", "tally")
_BARRIERS_OF_CTAS = ("arrived", "wanted", "votes", "turns")


@dataclass(frozen=True)
class Moment:
    """The state of a batch of CTAs between two of its items.

    Attributes:
        event: how many events have been noted before it.
        counts: int64 [row]: dynamic instructions that each warp has executed.
        items: int64 [row]: items that it has executed, unconditional branches, too.
        columns: as `Columns.columns`; arrays that nobody writes to.
        shared, local: the bytes of shared and local memory, uint8 [CTA or row, byte].
        threads, barriers: arrays of `Threads` and `LaunchBarriers`, by name.
        data: uint8 [place]: global memory, see `memory.AddressMap`.
    """

    event: int
    counts: NDArray[np.int64]
    items: NDArray[np.int64]
    columns: tuple[list[NDArray[Any]], ...]
    shared: NDArray[np.uint8]
    local: NDArray[np.uint8]
    threads: dict[str, NDArray[Any]]
    barriers: dict[str, NDArray[Any]]
    data: NDArray[np.uint8]


class OrderedRun(Run):
    """A run of a batch whose threads of lowest rank always go on first.

    Attributes:
        items: int64 [row]: items that each warp has executed.
        steps: items that were executed one after the other.
        paused: looked at after every item; where it says so, the turn of the threads ends.
    """

    def __init__(self, code: Code, state: LaunchState, note: Note) -> None:
        super().__init__(code, state, note=note)
        self.threads.patient = True
        self.items = np.zeros(len(self.threads.exists), np.int64)
        self.steps = 0
        self.paused: Callable[[], bool] = lambda: False

    def _advance(self, group: Group) -> None:
        """As in `Run`, without a budget."""
        rank, steps, state = self.code.rank, self.code.steps, self.state
        place, limit, rows = self.code.place_of[group.rank], group.limit, group.rows
        whole = len(rows) == len(self.items)
        state.active = group.lanes
        try:
            while True:
                state.line = place
                self.steps += 1
                if whole:
                    self.items += 1
                else:
                    self.items[rows] += 1
                following = steps[place](self, group, place)
                if following < 0:
                    break
                place = following
                if rank[place] >= limit or self.paused():
                    self.threads.move(group.members, rank[place])
                    break
        except LaunchError:
            raise
        except Error as error:
            state.active = group.lanes
            raise self._failed(error, self.code.kernel.items[place], group) from error
        finally:
            state.active = None
        self.after_turn()

    def _failed(self, error: Error, item: Item, group: Group) -> Error:
        """The error of an instruction, as that of the run."""
        return blamed(error, self.code.kernel, item, self.state, group)

    def after_turn(self) -> None:
        """Called when the threads of a group have had their turn."""

    def moment(self, event: int, counts: NDArray[np.int64], data: NDArray[np.uint8]) -> Moment:
        """The state now, with what does not lie in it: `Moment.event`, counts and the bytes of global memory."""
        state, rows = self.state, len(self.items)
        registers, shared = cast(Any, state.registers), cast(Any, state.shared)
        return Moment(
            event, counts.copy(), self.items.copy(), tuple(list(columns) for columns in registers.columns),
            shared.data.reshape(rows // state.warps, -1).copy(), state.local.data.reshape(rows, -1).copy(),
            {name: getattr(self.threads, name).copy() for name in _THREADS},
            {name: getattr(self.barriers, name).copy() for name in (*_BARRIERS_OF_ROWS, *_BARRIERS_OF_CTAS)},
            data.copy(),
        )  # fmt: skip

    @property
    def resumable(self) -> bool:
        """Whether `moment` is the whole state: nobody waits for the result of a barrier, or in an instruction."""
        return not (self.pending or self.blocked or self.gathered or self.barriers.handed)

    def resume(self, moment: Moment, ctas: NDArray[np.intp]) -> None:
        """Begins at a moment of a batch, each CTA of this one as that of number `ctas` [CTA] there."""
        state, warps = self.state, self.state.warps
        rows = rows_of(ctas, warps)
        registers, shared = cast(Any, state.registers), cast(Any, state.shared)
        spread: dict[int, NDArray[Any]] = {}
        for columns, before in zip(registers.columns, moment.columns, strict=True):
            for column in before:
                if id(column) not in spread:
                    spread[id(column)] = column[rows]
            columns[:] = [spread[id(column)] for column in before]
        shared.data[:] = moment.shared[ctas].ravel()
        state.local.data[:] = moment.local[rows].ravel()
        for name in _THREADS:
            getattr(self.threads, name)[:] = moment.threads[name][rows]
        for name in _BARRIERS_OF_ROWS:
            getattr(self.barriers, name)[:] = moment.barriers[name][rows]
        for name in _BARRIERS_OF_CTAS:
            getattr(self.barriers, name)[:] = moment.barriers[name][ctas]
        self.items[:] = moment.items[rows]


def moment_bytes(rows: int, registers: int, shared: int, data: int) -> int:
    """About how many bytes a moment takes."""
    return rows * registers * WARP_SIZE * 4 + shared + data
