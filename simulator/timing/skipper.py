"""Loops whose state repeats are not simulated again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulator.timing.cores import Warp
from simulator.timing.model import StallReason, TimedLoop

if TYPE_CHECKING:
    from simulator.timing.engine import Sm


class Skipper:
    """Skips the repetitions of a period: when the state at a loop's end, relative to now, has been there before, all
    follows again.

    Compared is everything that decides the future but the counts of one loop a warp, the one as deep as the
    reference's. The number of periods skipped is the largest after which no warp has left that loop; counters grow by
    as many periods.
    """

    LIMIT = 4096

    def __init__(self, sm: Sm) -> None:
        self.sm = sm
        self.skipped = 0
        # For each depth of loops: when a state was met (skipped cycles counted), the runs of the loops then, and what
        # had been counted.
        self.seen: dict[int, dict[tuple[object, ...], tuple[int, list[int], list[int]]]] = {}

    def look(self, reference: Warp, loop: TimedLoop) -> None:
        if loop.count - reference.counts[loop.loop] < 2:
            return
        sm, now = self.sm, int(self.sm.env.now)
        chosen = [self.loop_of(warp, loop.depth) for warp in sm.warps]
        if any(which is not None and not which.constant for which in chosen):
            return
        counts = [0 if which is None else warp.counts[which.loop] for warp, which in zip(sm.warps, chosen, strict=True)]
        key, seen = self.state(chosen, now), self.seen.setdefault(loop.depth, {})
        before = seen.get(key)
        if before is not None:
            self.jump(chosen, counts, now + self.skipped, before)
            return
        if len(seen) >= self.LIMIT:
            seen.clear()
        seen[key] = (now + self.skipped, counts, list(sm.counted))

    def jump(
        self, chosen: list[TimedLoop | None], counts: list[int], now: int, before: tuple[int, list[int], list[int]]
    ) -> None:
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
        counted = [new + periods * (new - old) for new, old in zip(self.sm.counted, old_counted, strict=True)]
        for warp, which, step in zip(self.sm.warps, chosen, steps, strict=True):
            if which is not None:
                warp.counts[which.loop] += periods * step
            if warp.blocked and not (warp.done and warp.blocked is StallReason.BARRIER):
                row = slice(warp.base, warp.base + len(StallReason))
                known = sum(self.sm.counted[row]) - sum(old_counted[row])
                waited = periods * (now - then - known)  # its wait is counted when it ends, from `last` on
                counted[warp.base + warp.blocked] += waited
                if self.sm.recorder is not None:
                    self.sm.recorder.wait(warp, warp.blocked, waited, counted)
        self.sm.counted = counted
        self.skipped += periods * (now - then)

    @staticmethod
    def loop_of(warp: Warp, depth: int) -> TimedLoop | None:
        """The loop at this depth in which the warp is."""
        if warp.done:
            return None
        inside = warp.code.inside[warp.pc]
        return warp.code.ends[inside[depth]] if len(inside) > depth else None

    def state(self, chosen: list[TimedLoop | None], now: int) -> tuple[object, ...]:
        sm = self.sm
        waiting = tuple(
            (cta, number, tuple(warps))
            for cta, b in enumerate(sm.barriers)
            for number, warps in sorted(b.arrived.items())
            if warps
        )
        minimum = sm.config.loop.minimum
        servers = tuple(max(at - now, 0) for at in sm.barrier_free)
        parts: list[object] = [
            max(sm.end - now, 0),
            servers,
            sm.shared.state(now),
            waiting,
            *(core.state(now) for core in sm.cores),
        ]
        if sm.recorder is not None:
            parts.append(sm.recorder.state())
        if sm.queues is not None:
            parts.append(
                sm.queues.state(
                    now, min((warp.last for warp in sm.warps if not (warp.done or warp.blocked)), default=now)
                )
            )
        if sm.memory is not None:
            parts.append(sm.memory.state(now))
        for warp, which in zip(sm.warps, chosen, strict=True):
            if warp.done:
                parts.append(warp.blocked)
                continue
            ready = tuple(
                (at - now, warp.producers[r]) if at + sm.margin > now else 0 for r, at in enumerate(warp.ready)
            )
            pinned = (max(warp.access - now, 0), max(warp.sent - now, 0), *(max(at - now, 0) for at in warp.pinned))
            starts = tuple(max(at + minimum - now, 0) for at in warp.starts)
            counts = tuple(
                -1 if which is not None and i == which.loop else count for i, count in enumerate(warp.counts)
            )
            since = now if warp.blocked else warp.last  # what has passed before a release is counted as waiting for it
            gate = (warp.gate - now, warp.gate_cause, warp.held - now) if warp.gate > since else None
            wanted = (warp.wanted - now, warp.cause) if warp.wanted > since else None
            parts.append((warp.pc, warp.blocked, since - now, gate, wanted, counts, starts, ready, pinned))
            if sm.memory is not None and sm.queues is None:
                parts.append(tuple(sorted(warp.turns.items())))
            if sm.queues is not None:
                moves = tuple(max(at - now, 0) for at in (warp.complete, *warp.moves))
                parts.append((moves, warp.arrived, tuple(sorted(warp.turns.items()))))
        return tuple(parts)
