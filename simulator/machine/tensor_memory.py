"""The Tensor Memory of an SM: its paths to the sub-cores, and which of its columns are free.

`tcgen05.ld` and `st` take their sub-core's path, and `tcgen05.wait` waits for those of its warp. `tcgen05.alloc` waits
until as many columns are free, whatever CTAs of the SM have the others; warps that wait get them in the order in which
they came (assumed, as is that free columns need not lie together).
"""

from __future__ import annotations

from collections import deque

from isa.forms.record import Unit
from isa.tensor_memory.address import COLUMNS
from simulator.compiler.tcgen05 import Cost
from simulator.compiler.timed_code import StallReason, TimedOperation
from simulator.machine.interface import Core, SmOfUnits, Warp


class TensorMemory:
    """The Tensor Memory of one SM.

    Attributes:
        moved: by warp and whether they are stores, when all its tcgen05.ld or st are complete.
        left: columns that are free.
        waiting: the warps that wait for columns, and for how many; the first came first.
    """

    def __init__(self, sm: SmOfUnits) -> None:
        self.sm, self.left = sm, COLUMNS
        self.moved: dict[tuple[int, bool], int] = {}
        self.waiting: deque[tuple[Warp, int]] = deque()

    def move(self, core: Core, warp: Warp, operation: TimedOperation, cost: Cost, store: bool, now: int) -> int:
        """Issues a tcgen05.ld or st; returns the cycles until it is complete."""
        core.set_free(Unit.TMEM, now + cost.interval)
        for register in operation.writes:
            warp.set_ready(register, now + cost.latency, operation.unit)
        key = warp.id, store
        self.moved[key] = max(self.moved.get(key, 0), now + cost.latency)
        return cost.latency

    def wait(self, warp: Warp, store: bool) -> None:
        """Lets a warp wait for its loads, or its stores."""
        warp.wait_until(self.moved.get((warp.id, store), 0), StallReason.TMEM)

    def allocate(self, warp: Warp, columns: int) -> None:
        """Gives a warp columns, or lets it wait until they are free."""
        if self.waiting or columns > self.left:
            warp.blocked = StallReason.TMEM
            self.waiting.append((warp, columns))
        else:
            self.left -= columns

    def free(self, columns: int, now: int) -> None:
        """Takes columns back; warps that have waited for them go on in the next cycle."""
        self.left += columns
        while self.waiting and self.waiting[0][1] <= self.left:
            warp, wanted = self.waiting.popleft()
            self.left -= wanted
            self.sm.release(warp, now + 1, StallReason.TMEM)

    def describe(self) -> list[str]:
        """Which warps wait for columns, as lines of a deadlock's message."""
        return [f"warp {warp.id} waits for {columns} columns of Tensor Memory" for warp, columns in self.waiting]

    def state(self, now: int) -> tuple[object, ...]:
        """Returns all that decides what happens next, in cycles relative to `now`."""
        moved = tuple((key, cycle - now) for key, cycle in self.moved.items() if cycle > now)
        return moved, self.left, tuple((warp.id, columns) for warp, columns in self.waiting)
