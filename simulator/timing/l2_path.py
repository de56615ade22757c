"""The path from an SM to L2: when what an access to global memory asks for can come.

The access takes its sub-core's port and, for what it asks for, a few cycles of the pipe that shared memory is reached
by. Its lines come one after the other over the SM's path. With `sms` SMs that do the same at the same time each has its
share of what L2 reads and writes in a cycle; reads of a burst do not wait for it (`[l2] burst_bytes`).

The compiled engine issues copies (cp.async) by the same rules, on the numbers that are described here in the SM's
record; all other accesses are issued in Python (`simulator.timing.global_memory`).
"""

from __future__ import annotations

from array import array

from simulator.chip.memory import L2, Memory
from simulator.compiler.timed_code import TimedOperation
from simulator.execute.dynamic_info import Fact, FetchFacts
from simulator.state.global_memory import SECTOR_BYTES
from simulator.timing.machine import Machine
from simulator.timing.pipes import Pipes
from simulator.timing.records import BYTES_AT, CACHED_AT, link
from simulator.timing.shared_memory import SharedMemory
from simulator.timing.warp import Warp

COPIES = ("copy", "cached copy")  # kinds of `FetchFacts`


def fetched_word(fact: FetchFacts) -> int:
    """What a copy fetches in one number, for the compiled engine: its lines in the lowest bits, the bytes of its
    sectors from bit `BYTES_AT` on, and at `CACHED_AT` whether it is a cp.async.ca."""
    return fact.lines | fact.sectors * SECTOR_BYTES << BYTES_AT | (fact.kind == "cached copy") << CACHED_AT


def is_copy(fact: Fact) -> bool:
    """Whether this is a copy of which no more than these numbers matters."""
    return isinstance(fact, FetchFacts) and fact.kind in COPIES and not fact.where


class L2Path:
    """The path of each SM to L2, and its share of L2.

    Attributes:
        free, bulk_free: for each SM, when the path brings the next line, and the same for bulk copies, which another
            unit asks for and receives.
        turn: for each warp, when its next access to global memory may begin to pass the pipe.
        rates: bytes that L2 reads and writes in a cycle for all SMs together; None: it has no limit.
        l2_free: when L2 serves each SM next, reads, then writes; in cycles times the rate.
        burst, request_bytes: of `[l2]`, the first for all SMs.
    """

    def __init__(self, machine: Machine, shared: SharedMemory, memory: Memory, l2: L2 | None, sms: int) -> None:
        self.machine, self.shared, self.memory, self.sms = machine, shared, memory, sms
        self.observer = machine.observer
        self.rates = (l2.read_bytes, l2.write_bytes) if l2 is not None and sms > 1 else None
        self.request_bytes = l2.request_bytes if l2 is not None else 0
        self.burst = l2.burst_bytes * sms if l2 is not None else 0
        self.l2_free = array("q", [0] * (2 * machine.ctas))
        self.free, self.bulk_free = array("q", [0] * machine.ctas), [0] * machine.ctas
        self.turn = array("q", [0] * len(machine.warps))
        self._describe()

    def _describe(self) -> None:
        """Writes down what the compiled engine needs to issue copies."""
        record, rules, busy = self.machine.record, self.memory, self.machine.counters.path
        record.copy_latency, record.line_cycles = rules.copy_latency, rules.line_cycles
        record.cached_cycles, record.copy_port = rules.cached_cycles, rules.port_cycles
        record.pipe_cycles, record.warp_interval = rules.pipe_cycles, self.shared.rule.warp_interval
        record.l2_rate = self.rates[0] if self.rates is not None else 0
        record.l2_burst, record.l2_request, record.l2_sms = self.burst, self.request_bytes, self.sms
        link(record, path_free=self.free, path_busy=busy, outside_turn=self.turn, l2_free=self.l2_free)

    def send(self, core: Pipes, warp: Warp, operation: TimedOperation, cycles: int, now: int) -> int:
        """Takes the sub-core's port, for a while the pipe to shared memory, then the path; returns when the last line
        has been asked for."""
        rules, shared = self.memory, self.shared
        sent = self.shared.ports[core.number].take(now, rules.port_cycles)
        if self.observer is not None:
            self.observer.serve("shared", warp.cta, sent, core.port_until, core.number)
        warp.access = now + shared.rule.warp_interval
        warp.sent = core.port_until + shared.rule.operand_latency
        for register in operation.reads:
            warp.pinned[register] = warp.sent
        place = warp.place
        follows = not shared.between[place]  # an access to global memory, which has passed the pipe before its path
        soonest = max(sent, self.turn[place] if follows else shared.turn[place])
        last = shared.last_of(warp.cta, soonest, rules.pipe_cycles, now) if rules.pipe_cycles else soonest
        self.turn[place] = last + shared.rule.wavefront_interval
        self.machine.counters.shared[warp.cta] += rules.pipe_cycles * shared.rule.cycles
        out = self.bring(warp.cta, last, cycles)
        shared.behind[place], shared.between[place] = out, 0  # what it sends to shared memory next keeps behind it
        return out

    def bring(self, cta: int, soonest: int, cycles: int, *, bulk: bool = False) -> int:
        """Takes the path for lines that can arrive from `soonest` on; returns the cycle in which the last arrives."""
        free = self.bulk_free if bulk else self.free
        start = max(soonest, free[cta])
        free[cta] = start + cycles
        self.machine.counters.path[cta] += cycles
        if self.observer is not None:
            self.observer.serve("path from L2", cta, start, start + cycles)
        return start + cycles

    def share(self, cta: int, soonest: int, size: int, lines: int = 0, *, write: bool = False) -> int:
        """The cycle in which L2 has served `size` bytes, and requests for `lines` lines, that it can serve from
        `soonest` on. Reads of up to a burst beyond the SM's share are served at once."""
        if self.rates is None:
            return soonest
        rate, place = self.rates[write], cta + self.machine.ctas * write
        first = soonest * rate - (0 if write else self.burst)
        self.l2_free[place] = max(first, self.l2_free[place] + (size + lines * self.request_bytes) * self.sms)
        return max(soonest, -(-self.l2_free[place] // rate))

    def state(self, now: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """All that decides when something can come, in cycles relative to `now`."""
        times = tuple(max(cycle - now, 0) for cycle in (*self.free, *self.bulk_free, *self.turn))
        rates = self.rates or (1, 1)
        floors = [now * rates[0] - self.burst] * self.machine.ctas + [now * rates[1]] * self.machine.ctas
        l2 = tuple(max(cycle - floor, 0) for cycle, floor in zip(self.l2_free, floors, strict=True))
        return times, l2
