"""Skips repetitions: a loop whose state repeats is not simulated again, and its cycles are counted all the same."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import NamedTuple

from simulator.compiler.timed_code import StallReason, TimedCode, TimedLoop
from simulator.timing.counters import REASONS
from simulator.timing.reasons import BY_NUMBER
from simulator.timing.sm import Sm
from simulator.timing.warp import Warp

Chosen = list[TimedLoop | None]  # for each warp, or item, one loop that it is in


class Met(NamedTuple):
    """A state that was met.

    Attributes:
        cycle: when, skipped cycles counted.
        counts: of each warp's chosen loop then.
        counted: what had been counted.
    """

    cycle: int
    counts: list[int]
    counted: tuple[Sequence[int], ...]


class Skipper:
    """Skips the repetitions of a period: when the state at the end of a loop, relative to now, equals an earlier one,
    everything since then will happen again.

    Everything is compared that decides the future, but for the counts of one loop of each warp: once of the loop as
    deep as that at whose end the reference warp is, once of the innermost. The number of periods skipped is the largest
    after which no warp has left that loop; counters grow by as many periods.

    What is remembered of a state is small: a digest of 128 bits of most of it.

    Args:
        words: the state of shared memory, sub-cores and warps from the compiled engine; without it Python collects it.
    """

    LIMIT = 4096  # states that are remembered
    # without a repetition in `CLOSE` ends of loops it looks half as often, but at every `FAR`th
    CLOSE, FAR = 8, 4
    CLOSE_OUTSIDE, FAR_OUTSIDE = 32, 8  # where copies or tcgen05 are under way, whose periods are longer

    def __init__(self, sm: Sm, words: Callable[[], bytes] | None = None) -> None:
        self.sm, self.words = sm, words or self.collect
        outside = sm.memory is not None or sm.queues is not None
        self.close, self.far = (self.CLOSE_OUTSIDE, self.FAR_OUTSIDE) if outside else (self.CLOSE, self.FAR)
        self.skipped = 0
        self.ends = 0  # of loops, since the last skip
        self.exhausted = -1  # warps that were unfinished when all was skipped that repeats, until one of them ends
        self.seen: dict[tuple[object, ...], Met] = {}
        self.known: dict[tuple[int, int], Chosen] = {}  # `loops` by program and depth
        # by warp, the counts of the only loop of its program, if all have one
        single = all(len(code.ends) == 1 for code in sm.codes)
        self.only = [warp.counts for warp in sm.warps] if single else None

    def look(self, reference: Warp, loop: TimedLoop) -> None:
        """Called when the reference warp is at the end of a loop: skips, if the state has been met before."""
        if loop.count - reference.counts[loop.loop] < 2 or self.exhausted == self.sm.unfinished:
            return
        self.ends += 1
        if self.ends % min(1 << self.ends // self.close, self.far):
            return
        sm = self.sm
        state = (loop.depth, blake2b(self.words(), digest_size=16).digest(), *self.beside(sm.now))
        if self.only is not None:  # the state tells which warps are in their loop, and no other count differs
            self.met(state, [counts[0] for counts in self.only])
            return
        choices = [self.chosen(loop.depth)]
        innermost = self.chosen(-1)
        if innermost != choices[0]:
            choices.append(innermost)
        for chosen in choices:
            counts = [which and warp.counts[which.loop] for warp, which in zip(sm.warps, chosen, strict=True)]
            others = tuple(
                count
                for warp, which in zip(sm.warps, chosen, strict=True)
                for number, count in enumerate(warp.counts)
                if not warp.done and (which is None or number != which.loop)
            )
            key = (*state, chosen is innermost, others)
            if self.met(key, [count or 0 for count in counts], chosen):
                return

    def met(self, key: tuple[object, ...], counts: list[int], chosen: Chosen | None = None) -> bool:
        """Skips what follows if this state has been met before, and returns whether it has; else remembers it.

        Args:
            counts: of the loop of each warp that is chosen.
            chosen: these loops; None: the outermost.
        """
        now, before = self.sm.now + self.skipped, self.seen.get(key)
        if before is not None:
            return self.jump(chosen or self.chosen(0), counts, now, before)
        if len(self.seen) >= self.LIMIT:
            self.seen.clear()
        self.seen[key] = Met(now, counts, self.sm.counters.snapshot())
        return False

    def jump(self, chosen: Chosen, counts: list[int], now: int, before: Met) -> bool:
        """Skips as many periods as fit, if any: counts, clocks and counters go on as if they had been simulated."""
        steps = [new - old for new, old in zip(counts, before.counts, strict=True)]
        limits = [
            (which.count - 1 - count) // step
            for which, count, step in zip(chosen, counts, steps, strict=True)
            if which is not None and step > 0
        ]
        periods = min(limits, default=0)
        if self.only is not None and self.ends < self.close:  # it has looked at every end: no shorter period is left
            self.exhausted = self.sm.unfinished
        if periods <= 0:
            return False
        counters, waited = self.sm.counters, list[tuple[Warp, int]]()
        for warp, which, step in zip(self.sm.warps, chosen, steps, strict=True):
            if which is not None:
                warp.counts[which.loop] += periods * step
            if warp.blocked and not (warp.done and warp.blocked == StallReason.BARRIER):
                row = slice(warp.base, warp.base + REASONS)
                counted = sum(counters.stalls[row]) - sum(before.counted[0][row])
                # its wait is counted when it ends, from `last` on
                waited.append((warp, periods * (now - before.cycle - counted)))
        counters.repeat(before.counted, periods)
        for warp, cycles in waited:
            counters.stalls[warp.base + warp.blocked] += cycles
            if self.sm.observer is not None:
                self.sm.observer.wait(warp, BY_NUMBER[warp.blocked], cycles)
        self.skipped += periods * (now - before.cycle)
        self.ends = 0
        return True

    def chosen(self, depth: int) -> Chosen:
        """The loop at this depth that each warp is in, -1 for the innermost; None if it is in none."""
        loops = [self.loops(warp.code, depth) for warp in self.sm.warps]
        return [None if warp.done else at[warp.pc] for warp, at in zip(self.sm.warps, loops, strict=True)]

    def loops(self, code: TimedCode, depth: int) -> Chosen:
        """The same for each item of a program."""
        key = id(code), depth
        if key not in self.known:
            self.known[key] = [
                code.ends[inside[depth]] if len(inside) > max(depth, 0) else None for inside in code.inside
            ]
        return self.known[key]

    def collect(self) -> bytes:
        """The state of shared memory, sub-cores and warps, relative to now, as the compiled engine has it."""
        sm, now = self.sm, self.sm.now
        for core in sm.cores:
            core.settle(now)
        sm.shared.serve_all(now)
        words = sm.shared.state(now)
        for place in range(sm.ctas):
            words += sm.returns.state(place, now)
        for core in sm.cores:
            words += core.state(now)
        for warp in sm.warps:
            words += warp.state(now, sm.config.loop.minimum, sm.margin, sm.cores[warp.core].accesses_made)
        return array("q", words).tobytes()

    def beside(self, now: int) -> list[object]:
        """All else that decides what happens next, in cycles relative to `now`: barriers, what goes on after issue."""
        sm = self.sm
        state: list[object] = [max(sm.end - now, 0)]
        if any(sm.barrier_free) or any(barriers.arrived for barriers in sm.barriers):
            waiting = tuple(
                (cta, number, tuple(warps))
                for cta, barriers in enumerate(sm.barriers)
                for number, warps in sorted(barriers.arrived.items())
                if warps
            )
            state += (tuple(max(cycle - now, 0) for cycle in sm.barrier_free), waiting)
        if sm.observer is not None:
            state.append(sm.observer.state())
        if sm.queues is not None:
            oldest = min((warp.last for warp in sm.warps if not (warp.done or warp.blocked)), default=now)
            state.append(sm.queues.state(now, oldest))
            for warp in sm.warps:
                moves = tuple(max(cycle - now, 0) for cycle in (warp.complete, *warp.moves))
                state.append((moves, warp.arrived) if not warp.done else None)
        if sm.memory is not None:
            state.append(sm.memory.state(now))
        return state
