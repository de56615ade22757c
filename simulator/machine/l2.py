"""The path from an SM to L2, and the SM's share of L2. They decide when the lines arrive that an access asks for.

The SM's path brings one line after the other. Where `sms` SMs do the same at the same time, each has its share
of what L2 reads and writes in a cycle; a burst of reads does not wait for that share (`[l2] burst_bytes`).
"""

from __future__ import annotations

from typing import Any

from simulator.chip.memory import L2


class L2Path:
    """The path of one SM.

    Attributes:
        free, bulk_free: when the path brings the next line, and the same for bulk copies, which another unit asks for
            and receives.
        rates: bytes that L2 reads and writes in a cycle for all SMs together; None: it has no limit.
        l2_free: when L2 serves the SM's next reads, and writes; in cycles times the rate.
        burst, request_bytes: of `[l2]`, the first for all SMs.
        busy: cycles for which the path has brought lines.
    """

    def __init__(self, l2: L2 | None, sms: int, cta: int, observer: Any) -> None:
        self.sms, self.cta, self.observer = sms, cta, observer
        self.rates = (l2.read_bytes, l2.write_bytes) if l2 is not None and sms > 1 else None
        self.request_bytes = l2.request_bytes if l2 is not None else 0
        self.burst = l2.burst_bytes * sms if l2 is not None else 0
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

    def share(self, soonest: int, size: int, lines: int = 0, *, write: bool = False) -> int:
        """The cycle in which L2 has served `size` bytes, and requests for `lines` lines, that it can serve from
        `soonest` on. Reads of up to a burst beyond the SM's share are served at once."""
        if self.rates is None:
            return soonest
        rate = self.rates[write]
        first = soonest * rate - (0 if write else self.burst)
        self.l2_free[write] = max(first, self.l2_free[write] + (size + lines * self.request_bytes) * self.sms)
        return max(soonest, -(-self.l2_free[write] // rate))

    def state(self, now: int) -> tuple[int, ...]:
        """Returns all that decides when lines can arrive, in cycles relative to `now`."""
        rates = self.rates or (1, 1)
        floors = now * rates[0] - self.burst, now * rates[1]
        shares = (max(cycle - floor, 0) for cycle, floor in zip(self.l2_free, floors, strict=True))
        return max(self.free - now, 0), max(self.bulk_free - now, 0), *shares
