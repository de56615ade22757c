"""L2 and the device memory behind it: one unit that serves all SMs of the machine.

Each SM reaches L2 by a path of its own (`Path`), which brings one line after the other. L2 decides when a line can be
there: it has a rate of bytes that it reads and writes in a cycle, and a line that comes for the first time may come
from the half of L2 that is far from the SM, or from device memory.

Bulk copies are asked for in L2's store of requests, which the process `L2.run` serves. Loads, stores and cp.async call
`read` and `write` instead, as they issue: the answer is a cycle, and depends on nothing that could still happen before
it. The machine runs one SM, or a pair, of `sms` that do the same at the same time; each of them gets the same share of
the rate, so that what one SM asks for delays no other, and the calls come to the same cycles as requests would.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, NamedTuple

import simpy

from simulator.chip import memory as tables

_PAGE_LINES = 32  # lines of 4 KB, which lie in one half of L2
_BULK_LINES = 8  # lines of a bulk copy that are written to shared memory together


def _is_far(line: int) -> bool:
    """Whether a line's home is the far half of L2: half of the pages of 4 KB are. Which ones is not published; the sum
    of the bits of the page's number stands for it."""
    return bool(((line // _PAGE_LINES) >> 1).bit_count() & 1)


class Path:
    """The path from one SM to L2, and the SM's share of what L2 reads and writes.

    Attributes:
        free, bulk_free: when the path brings the next line, and the same for bulk copies, which another unit asks for
            and receives.
        l2_free: when L2 serves the SM's next reads, and writes; in cycles times the rate.
        busy: cycles for which the path has brought lines.
    """

    def __init__(self, cta: int, observer: Any) -> None:
        self.cta, self.observer = cta, observer
        self.l2_free = [0, 0]
        self.free = self.bulk_free = self.busy = 0

    def bring(self, soonest: int, cycles: int, *, bulk: bool = False) -> int:
        """Takes the path for lines that can arrive from `soonest` on; returns the cycle in which the last arrives."""
        if not cycles:  # what L1 has does not pass it
            return soonest
        start = max(soonest, self.bulk_free if bulk else self.free)
        if bulk:
            self.bulk_free = start + cycles
        else:
            self.free = start + cycles
        self.busy += cycles
        if self.observer is not None:
            self.observer.serve("path from L2", self.cta, start, start + cycles)
        return start + cycles


class Way(NamedTuple):
    """Where a bulk copy comes to: the path of an SM, and what is called with the lines, whether they are the last, and
    the cycle of arrival of each piece."""

    path: Path
    arrive: Callable[[int, bool, int], None]


class BulkRequest(NamedTuple):
    """A bulk copy that an SM asks for: its path, the lines, how many bytes of each, from when on the first can be
    there, and the ways to all SMs that get them; `issue` for an observer."""

    path: Path
    lines: int
    line_bytes: int
    soonest: int
    ways: tuple[Way, ...]
    issue: Any


class L2:
    """L2 and device memory, a process that serves the requests of all SMs.

    Args:
        table: its rates; None: they have no limit.
        memory: the way of an SM to it.
        sms: SMs of the chip that do the same at the same time and share the rates.
        device_latency: cycles that a line takes longer if it comes from device memory, the first time.

    Attributes:
        requests: a SimPy store of bulk copies.
        seen_lines: lines that have come before, to any SM.
        rates: bytes that L2 reads and writes in a cycle for all SMs together; None: it has no limit.
        burst: bytes of reads beyond their share that all SMs together get at once.
        multicast_reads: how many times its bytes a copy to several SMs takes of the share of the one that asks.
    """

    def __init__(
        self,
        env: simpy.Environment,
        table: tables.L2 | None,
        memory: tables.Memory,
        sms: int,
        device_latency: int,
        observer: Any,
        multicast_reads: float = 1.0,
    ) -> None:
        self.memory, self.sms, self.device_latency, self.observer = memory, sms, device_latency, observer
        self.rates = (table.read_bytes, table.write_bytes) if table is not None and sms > 1 else None
        own = table.request_bytes if table is not None else 0
        bulk = table.bulk_request_bytes if table is not None else None
        self.request_bytes = own, own if bulk is None else bulk
        self.burst = table.burst_bytes * sms if table is not None else 0
        self.multicast_reads = multicast_reads
        self.seen_lines: set[int] = set()
        self.requests = simpy.Store(env)
        env.process(self.run())

    def run(self) -> Generator[simpy.Event, Any, None]:
        """Serves one bulk copy after the other, piece by piece."""
        while True:
            request: BulkRequest = yield self.requests.get()
            if self.observer is not None:
                self.observer.resume(request.issue)
            path, lines, rate = request.path, max(request.lines, 1), self.memory.bulk_bytes
            for first in range(0, lines, _BULK_LINES):
                piece = min(_BULK_LINES, lines - first)
                size = piece * request.line_bytes
                cycles = max(-(-size // rate), piece * self.memory.line_cycles)
                there = [way.path.bring(request.soonest, cycles, bulk=True) for way in request.ways]
                times = self.multicast_reads if len(there) > 1 else 1.0
                read = self._serve(path, min(there), round(times * (size + piece * self.request_bytes[True])), False)
                for way, arrival in zip(request.ways, there, strict=True):
                    way.arrive(piece, first + piece == lines, max(arrival, read))

    def read(self, path: Path, soonest: int, size: int, lines: int, *, bulk: bool = False) -> int:
        """Returns the cycle in which L2 has read `size` bytes of `lines` lines for an SM, which it can from `soonest`
        on. Reads of up to a burst beyond the SM's share are served at once."""
        return self._serve(path, soonest, size + lines * self.request_bytes[bulk], False)

    def write(self, path: Path, soonest: int, size: int) -> int:
        """Returns the cycle in which L2 has written `size` bytes of an SM, which it can from `soonest` on."""
        return self._serve(path, soonest, size, True)

    def _serve(self, path: Path, soonest: int, size: int, write: bool) -> int:
        if self.rates is None:
            return soonest
        rate, free = self.rates[write], path.l2_free
        first = soonest * rate - (0 if write else self.burst)
        free[write] = max(first, free[write] + size * self.sms)
        return max(soonest, -(-free[write] // rate))

    def first_latency(self, lines: set[int]) -> int:
        """Notes that these lines have come; returns the cycles that they take beyond those of L2's near half. A line
        that comes for the first time may come from the far half, or from device memory."""
        new = lines - self.seen_lines
        self.seen_lines |= new
        return self.memory.far_latency * any(map(_is_far, new)) + (self.device_latency if new else 0)

    def state(self, path: Path, now: int) -> tuple[int, ...]:
        """Returns all that decides when lines can arrive at an SM, in cycles relative to `now`."""
        rates = self.rates or (1, 1)
        floors = now * rates[0] - self.burst, now * rates[1]
        shares = (max(cycle - floor, 0) for cycle, floor in zip(path.l2_free, floors, strict=True))
        return max(path.free - now, 0), max(path.bulk_free - now, 0), *shares, len(self.seen_lines)
