"""Skips repetitions: a loop whose state repeats is not simulated again, and its cycles are counted all the same."""

from __future__ import annotations

from dataclasses import dataclass

from simulator.execute.barrier import Barriers
from simulator.timing.asynchronous import Asynchronous
from simulator.timing.cores import SubCore
from simulator.timing.counters import REASONS
from simulator.timing.global_memory import GlobalMemory
from simulator.timing.machine import Machine
from simulator.timing.model import StallReason, TimedLoop
from simulator.timing.shared_memory import SharedMemory
from simulator.timing.warp import Warp


@dataclass(frozen=True)
class Parts:
    """The parts of an SM whose state decides what follows.

    Attributes:
        barriers: of each CTA, and when its barrier unit takes the next arrival.
        margin: cycles for which a result can matter after it is there.
    """

    machine: Machine
    cores: list[SubCore]
    shared: SharedMemory
    barriers: list[Barriers]
    barrier_free: list[int]
    queues: Asynchronous | None
    memory: GlobalMemory | None
    margin: int


class Skipper:
    """Skips the repetitions of a period: when the state at the end of a loop, relative to now, equals an earlier one,
    everything since then will happen again.

    Everything is compared that decides the future, but for the counts of one loop a warp, the one as deep as the
    reference's. The number of periods skipped is the largest after which no warp has left that loop; counters grow by
    as many periods.
    """

    LIMIT = 4096

    def __init__(self, parts: Parts) -> None:
        self.parts, self.machine = parts, parts.machine
        self.skipped = 0
        # For each depth of loops: when a state was met (skipped cycles counted), the runs of the loops then, and what
        # had been counted.
        self.seen: dict[int, dict[tuple[object, ...], tuple[int, list[int], tuple[list[int], ...]]]] = {}

    def look(self, reference: Warp, loop: TimedLoop) -> None:
        """Called when the reference warp is at the end of a loop: skips, if the state has been met before."""
        if loop.count - reference.counts[loop.loop] < 2:
            return
        sm, now = self.machine, int(self.machine.env.now)
        chosen = [self.loop_of(warp, loop.depth) for warp in sm.warps]
        counts = [0 if which is None else warp.counts[which.loop] for warp, which in zip(sm.warps, chosen, strict=True)]
        key, seen = self.state(chosen, now), self.seen.setdefault(loop.depth, {})
        before = seen.get(key)
        if before is not None:
            self.jump(chosen, counts, now + self.skipped, before)
            return
        if len(seen) >= self.LIMIT:
            seen.clear()
        seen[key] = (now + self.skipped, counts, sm.counters.snapshot())

    def jump(
        self,
        chosen: list[TimedLoop | None],
        counts: list[int],
        now: int,
        before: tuple[int, list[int], tuple[list[int], ...]],
    ) -> None:
        """Skips as many periods as fit: counts, clocks and counters go on as if they had been simulated."""
        then, old_counts, old_counted = before
        steps = [new - old for new, old in zip(counts, old_counts, strict=True)]
        limits = [
            (which.count - 1 - count) // step
            for which, count, step in zip(chosen, counts, steps, strict=True)
            if which is not None and step > 0
        ]
        periods = min(limits, default=0)
        if periods <= 0:
            return
        counters, waited = self.machine.counters, dict[Warp, int]()
        for warp, which, step in zip(self.machine.warps, chosen, steps, strict=True):
            if which is not None:
                warp.counts[which.loop] += periods * step
            if warp.blocked and not (warp.done and warp.blocked is StallReason.BARRIER):
                row = slice(warp.base, warp.base + REASONS)
                counted = sum(counters.stalls[row]) - sum(old_counted[0][row])
                waited[warp] = periods * (now - then - counted)  # its wait is counted when it ends, from `last` on
        counters.repeat(old_counted, periods)
        for warp, cycles in waited.items():
            assert warp.blocked is not None
            counters.stalls[warp.base + warp.blocked] += cycles
            if self.machine.observer is not None:
                self.machine.observer.wait(warp, warp.blocked, cycles)
        self.skipped += periods * (now - then)

    @staticmethod
    def loop_of(warp: Warp, depth: int) -> TimedLoop | None:
        """The loop at this depth that the warp is in; None if it is in none."""
        if warp.done:
            return None
        inside = warp.code.inside[warp.pc]
        return warp.code.ends[inside[depth]] if len(inside) > depth else None

    def state(self, chosen: list[TimedLoop | None], now: int) -> tuple[object, ...]:
        """All that decides what happens next, in cycles relative to `now`, but for the counts of the chosen loops."""
        sm, parts = self.machine, self.parts
        waiting = tuple(
            (cta, number, tuple(warps))
            for cta, b in enumerate(parts.barriers)
            for number, warps in sorted(b.arrived.items())
            if warps
        )
        minimum = sm.config.loop.minimum
        servers = tuple(max(cycle - now, 0) for cycle in parts.barrier_free)
        state: list[object] = [
            max(sm.end - now, 0),
            servers,
            parts.shared.state(now),
            waiting,
            *(core.state(now) for core in parts.cores),
        ]
        if sm.observer is not None:
            state.append(sm.observer.state())
        if parts.queues is not None:
            state.append(
                parts.queues.state(
                    now, min((warp.last for warp in sm.warps if not (warp.done or warp.blocked)), default=now)
                )
            )
        if parts.memory is not None:
            state.append(parts.memory.state(now))
        for warp, which in zip(sm.warps, chosen, strict=True):
            if warp.done:
                state.append(warp.blocked)
                continue
            ready = tuple(
                (cycle - now, warp.producers[r]) if cycle + parts.margin > now else 0
                for r, cycle in enumerate(warp.ready)
            )
            pinned = (
                max(warp.access - now, 0),
                max(warp.sent - now, 0),
                *(max(cycle - now, 0) for cycle in warp.pinned),
            )
            starts = tuple(max(cycle + minimum - now, 0) for cycle in warp.starts)
            counts = tuple(
                -1 if which is not None and i == which.loop else count for i, count in enumerate(warp.counts)
            )
            since = now if warp.blocked else warp.last  # what has passed before a release is counted as waiting for it
            compiled = None
            if warp.issue_not_before > since:
                reason, operands = warp.issue_not_before_reason, warp.operands_not_before
                compiled = (warp.issue_not_before - now, reason, operands - now)
            operands_ready = None
            if warp.operands_ready > since:
                operands_ready = (warp.operands_ready - now, warp.operands_reason)
            place = warp.pc, warp.blocked, since - now
            state.append((*place, compiled, operands_ready, counts, starts, ready, pinned))
            state.append(tuple(sorted(warp.turns.items())))
            if parts.queues is not None:
                moves = tuple(max(cycle - now, 0) for cycle in (warp.complete, *warp.moves))
                state.append((moves, warp.arrived))
        return tuple(state)
