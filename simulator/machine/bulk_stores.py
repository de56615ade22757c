"""Bulk copies from shared memory to global memory, and the groups that wait for them."""

from __future__ import annotations

from collections import deque

from simulator.compiler.timed_code import StallReason
from simulator.machine.interface import SmOfUnits, Warp
from simulator.machine.l2 import L2, Path


class BulkStores:
    """The bulk copies of an SM from shared memory: one after the other, each warp's in groups.

    Attributes:
        bytes: that it stores in a cycle.
        latency: from the last byte until it has been read, and until it is there.
        free: when the next one begins.
        open: by warp, when the last copy of its open group has been read.
        committed: by warp, the same of its committed groups, the oldest first.
    """

    def __init__(self, sm: SmOfUnits, l2: L2, path: Path) -> None:
        self.sm, self.l2, self.path, self.free = sm, l2, path, 0
        self.bytes = l2.memory.bulk_store_bytes or 1  # where they are not known, `jobs.price` has refused all copies
        self.latency = l2.memory.bulk_store_latency or (0, 0)
        self.open: dict[int, int] = {}
        self.committed: dict[int, deque[int]] = {}

    def store(self, warp: Warp, size: int, now: int) -> None:
        """Issues a copy, which begins when those before it have been read."""
        begin = max(now, self.free)
        self.free = max(begin + -(-size // self.bytes), self.l2.write(self.path, begin, size))
        self.open[warp.id] = self.free
        self.sm.machine.lasts(self.free + self.latency[True])

    def group(self, warp: Warp, groups: int, reads: bool, now: int) -> None:
        """Commits the open group (`groups` -1), or lets the warp wait for all but the last so many."""
        committed = self.committed.setdefault(warp.id, deque())
        if groups < 0:
            committed.append(self.open.pop(warp.id, now))
            return
        last = 0
        while len(committed) > groups:
            last = committed.popleft()
        if last:
            done = last + self.latency[not reads]
            warp.wait_until(max(done, now + 1), StallReason.GLOBAL)

    def state(self, now: int) -> tuple[object, ...]:
        """Returns all that decides what happens next, in cycles relative to `now`."""
        longest = self.latency[True]
        groups = tuple(
            (number, tuple(max(cycle - now, -longest) for cycle in cycles)) for number, cycles in self.committed.items()
        )
        opened = tuple((number, max(cycle - now, -longest)) for number, cycle in self.open.items())
        return max(self.free - now, 0), groups, opened
