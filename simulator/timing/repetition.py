"""Skips repetitions: a loop whose state repeats is not simulated again, and its cycles are counted all the same."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

from simulator.compiler.timed_code import StallReason, TimedCode, TimedLoop
from simulator.machine.reasons import BY_NUMBER
from simulator.machine.sm import Machine, Sm

Chosen = list[TimedLoop | None]  # for each warp, or item, one loop that it is in


class Met(NamedTuple):
    """A state that was met.

    Attributes:
        cycle: the cycle in which it was met, skipped cycles included.
        counts: how often each warp had run its chosen loop.
        counted: all counters of the machine.
    """

    cycle: int
    counts: list[int]
    counted: list[Sequence[int]]


class Skipper:
    """Skips the repetitions of a period: when the state at the end of a loop, relative to now, equals an earlier one,
    everything since then will happen again.

    Everything is compared that decides the future, but for the counts of one loop of each warp: once of the loop as
    deep as that at whose end the reference warp is, once of the innermost. The number of periods skipped is the largest
    after which no warp has left that loop; counters grow by as many periods.

    What is remembered of a state is small: a digest of 128 bits of most of it.
    """

    LIMIT = 4096  # states that are remembered
    # without a repetition in `CLOSE` ends of loops it looks half as often, but at every `FAR`th
    CLOSE, FAR = 8, 4
    CLOSE_OUTSIDE, FAR_OUTSIDE = 32, 8  # where copies or tcgen05 are under way, whose periods are longer

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        outside = any(sm.memory is not None or sm.unit is not None for sm in machine.sms)
        self.close, self.far = (self.CLOSE_OUTSIDE, self.FAR_OUTSIDE) if outside else (self.CLOSE, self.FAR)
        self.skipped = 0
        self.ends = 0  # of loops, since the last skip
        self.exhausted = -1  # warps that were unfinished when all was skipped that repeats, until one of them ends
        self.seen: dict[tuple[object, ...], Met] = {}
        self.known: dict[tuple[int, int], Chosen] = {}  # `loops` by program and depth
        self.single = all(len(code.ends) == 1 for code in machine.codes)

    def look(self, sm: Sm, reference: Any, end: Any) -> None:
        """Skips repetitions if the state has been met before; called when the reference warp is at a loop's end."""
        machine, loop = self.machine, end.timed_loop()
        if loop.count - reference.count_of(loop.loop) < 2 or self.exhausted == machine.unfinished:
            return
        if machine.observer is not None and sm.front.clock.now < machine.observer.steps_until:
            return
        self.ends += 1
        if self.ends % min(1 << self.ends // self.close, self.far):
            return
        now = sm.front.clock.now
        digest = blake2b(
            b"".join(each.front_code.state(each.front, now) for each in machine.sms), digest_size=16
        ).digest()
        state = (loop.depth, digest, *self.beside(now))
        if self.single:  # the state tells which warps are in their loop, and no other count differs
            self.met(now, state, [warp.count_of(0) for _, warp, _ in machine.places])
            return
        choices = [self.chosen(loop.depth)]
        innermost = self.chosen(-1)
        if innermost != choices[0]:
            choices.append(innermost)
        for chosen in choices:
            counts = [
                0 if which is None else warp.count_of(which.loop)
                for (_, warp, _), which in zip(machine.places, chosen, strict=True)
            ]
            others = tuple(
                warp.count_of(number)
                for (_, warp, code), which in zip(machine.places, chosen, strict=True)
                for number in code.ends
                if not warp.done and (which is None or number != which.loop)
            )
            if self.met(now, (*state, chosen is innermost, others), counts, chosen):
                return

    def met(self, cycle: int, key: tuple[object, ...], counts: list[int], chosen: Chosen | None = None) -> bool:
        """Skips what follows if this state has been met before, and returns whether it has; else remembers it.

        Args:
            counts: of the loop of each warp that is chosen.
            chosen: these loops; None: the outermost.
        """
        now, before = cycle + self.skipped, self.seen.get(key)
        if before is not None:
            return self.jump(chosen or self.chosen(0), counts, now, before)
        if len(self.seen) >= self.LIMIT:
            self.seen.clear()
        self.seen[key] = Met(now, counts, self.machine.counters())
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
        if self.single and self.ends < self.close:  # it has looked at every end: no shorter period is left
            self.exhausted = self.machine.unfinished
        if periods <= 0:
            return False
        machine = self.machine
        counted = machine.counters()
        passed = periods * (now - before.cycle)
        waits = machine.waits_since(before.counted, counted)
        for (_, warp, _), which, step in zip(machine.places, chosen, steps, strict=True):
            if which is not None:
                warp.repeat_loop(which.loop, periods * step)
        machine.count_again(before.counted, counted, periods)
        for (_, warp, _), since in zip(machine.places, waits, strict=True):
            reason = warp.blocked
            if reason and not (warp.done and reason == StallReason.BARRIER):
                cycles = passed - periods * since  # its wait is counted when it ends, from its last issue on
                warp.count_stall(reason, cycles)
                if machine.observer is not None:
                    machine.observer.wait(warp.id, BY_NUMBER[reason], cycles)
        self.skipped += passed
        self.ends = 0
        return True

    def chosen(self, depth: int) -> Chosen:
        """Returns for each warp the loop at this depth that it is in (-1: the innermost); None if it is in none."""
        return [None if warp.done else self.loops(code, depth)[warp.pc] for _, warp, code in self.machine.places]

    def loops(self, code: TimedCode, depth: int) -> Chosen:
        """The same for each item of a program."""
        key = id(code), depth
        if key not in self.known:
            self.known[key] = [
                code.ends[inside[depth]] if len(inside) > max(depth, 0) else None for inside in code.inside
            ]
        return self.known[key]

    def beside(self, now: int) -> list[object]:
        """Returns all that decides what happens next outside the fronts, in cycles relative to `now`."""
        machine = self.machine
        end = max(machine.end, *(sm.front.clock.end for sm in machine.sms))
        state: list[object] = [max(end - now, 0), machine.launcher.state(now)]
        state += [sm.state(now) for sm in machine.sms]
        if machine.cluster.units:
            state.append(machine.mbarriers.state(now))
            state.append(machine.cluster.state([warp for _, warp, _ in machine.places]))
        if machine.observer is not None:
            state.append(machine.observer.state())
        return state
