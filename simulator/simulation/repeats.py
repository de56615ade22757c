"""Skips turns of loops in which nothing new happens, for runs that do not ask for the values.

At the end of a turn of a loop the state that matters is compared with that of earlier turns. Where it moves on evenly
with a period, one more period is executed and followed (`simulator.simulation.foresight`); what is certain to happen
again is then noted as often as it happens, and the state is moved on to the end of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.execute.affine import NotForetoldError, Steps, centred
from simulator.execute.cta_state import CtaState
from simulator.program.lowering import Code, LoopEnd, Operation
from simulator.simulation.executions import Executions
from simulator.simulation.foresight import Follower
from simulator.simulation.group import Group
from simulator.simulation.relevance import Relevance
from simulator.state.registers import Numbering, Sort

_VISITS = 130  # ends of turns that are remembered: two periods and a little more
_LONGEST = 64  # turns of a period
_EAGER = 12  # ends of turns that are all looked at; later ones now and then
_PATIENCE = 12  # attempts, after which a loop is executed turn by turn
_OVERHEAD = 200  # operations that could be executed in the time of finding out that a loop repeats
_TURNS = 6  # turns that it takes to find out


Place = tuple[int, str, int]  # the number of a group, what is noted, and of which operation


@dataclass(frozen=True)
class Moment:
    """The state that matters at the end of a turn.

    Attributes:
        flow: where all groups are and what they wait for, without the counts of their loops.
        counts: by number of each group, the turns of its loops.
        registers: by number of each group, for each sort its live registers, [warp, register, lane].
    """

    flow: tuple[object, ...]
    counts: dict[int, tuple[int, ...]]
    registers: dict[int, tuple[NDArray[np.generic], ...]]


@dataclass
class Trial:
    """A period that is being followed.

    Attributes:
        turns: ends of turns that are left until its end.
        start: the state at its beginning.
        steps: by group and register, the steps that were assumed.
        memory: what else decides what happens, at its beginning.
        marks: how many executions had been noted of each operation of each group.
        met: undefined cases so far.
        phases: of each CTA, the phases of its mbarriers.
    """

    turns: int
    start: Moment
    follower: Follower
    steps: dict[int, dict[int, Steps]]
    memory: tuple[object, ...]
    marks: Counter[Place]
    met: list[Counter[str]]
    phases: list[dict[int, int]]


class Repeats:
    """Watches the ends of loops.

    Args:
        flow: gives what groups wait for, and in which order they go on.
        lean: whether only time is asked for.
    """

    def __init__(
        self,
        numbering: Numbering,
        groups: Sequence[Group],
        machines: Sequence[CtaState],
        relevance: Mapping[int, Relevance],
        flow: Callable[[], tuple[object, ...]],
        *,
        lean: bool,
    ) -> None:
        self.numbering, self.groups, self.machines, self.flow, self.lean = numbering, groups, machines, flow, lean
        self.relevance = relevance
        self.shared = any(each.shared for each in relevance.values())
        self.outside = any(each.outside for each in relevance.values())
        self.chosen = {id(group.code): chosen_loops(group.code) for group in groups}
        self.places: dict[tuple[int, int], tuple[tuple[int, ...], ...]] = {}
        self.watched: tuple[int, int] | None = None
        self.others = 0  # ends of other loops since the last end of the watched one
        self.failures = 0
        self.rests: Counter[tuple[int, int]] = Counter()  # ends of a loop that are not looked at
        self.pauses: dict[tuple[int, int], int] = {}
        self.moments: list[Moment] = []
        self.refused: set[int] = set()
        self.period = 1  # the shortest that is still worth a trial
        self.trial: Trial | None = None

    # What is watched

    def look(self, number: int, end: LoopEnd) -> None:
        """Called when a group is at the end of a turn of a loop that is not its last."""
        key = number, end.loop
        if end.loop not in self.chosen[id(self.groups[number].code)]:
            return
        if self.rests[key]:
            self.rests[key] -= 1
            return
        count = self.groups[number].cursor.counts[end.loop]
        if key != self.watched:
            self.others += 1
            if self.watched is not None and self.watched[0] != number and self.others < _VISITS:
                return
            self.watch(key)
        elif self.moments and count <= self.moments[-1].counts[number][end.loop]:  # entered again
            self.watch(key)
        self.others = 0
        if end.count - count < 2:
            self.trial = None
            return
        moment = self.moment()
        self.moments.append(moment)
        if self.trial is not None:
            self.trial.turns -= 1
            if not self.trial.turns:
                self.judge(self.trial, moment)
        else:
            self.begin()
        if len(self.moments) > _VISITS or self.failures > _PATIENCE:
            self.rest(key, end)

    def rest(self, key: tuple[int, int], end: LoopEnd) -> None:
        """Gives up a loop for a while, and watches the loops in it instead."""
        code = self.groups[key[0]].code
        inner = chosen_loops(code, end)
        if inner:
            self.chosen[id(code)] = self.chosen[id(code)] - {end.loop} | inner
        self.pauses[key] = self.rests[key] = 2 * self.pauses.get(key, _VISITS)
        self.watched, self.trial, self.failures = None, None, 0

    def watch(self, key: tuple[int, int]) -> None:
        """Begins to watch a loop."""
        self.watched, self.moments, self.refused, self.period, self.trial = key, [], set(), 1, None
        self.failures = 0

    def follow(self, number: int, group: Group, item: Operation, machine: CtaState) -> None:
        """Called before an operation is executed: a period that is on trial is followed."""
        if self.trial is None:
            return
        use = self.relevance[id(group.code)].uses[item.index]
        assert use is not None
        try:
            self.trial.follower.follow(number, group, use, machine)
        except NotForetoldError as failure:
            self.fail(failure.factor)

    def fail(self, factor: int) -> None:
        """Gives up the period on trial; one that is longer by `factor` may be better."""
        longer = self.period * factor
        self.refused.add(self.period)
        self.period = longer if self.period < longer <= _LONGEST else self.period + 1
        self.failures += 1
        self.trial = None

    # States

    def moment(self) -> Moment:
        """The state now."""
        groups = list(enumerate(self.groups))
        return Moment(
            self.flow(),
            {number: tuple(group.cursor.counts) for number, group in groups},
            {number: self.values(group) for number, group in groups},
        )

    def numbers(self, group: Group) -> tuple[tuple[int, ...], ...]:
        """By sort, the indices of the registers that matter where a group is."""
        key = id(group.code), group.cursor.place
        if key not in self.places:
            registers = self.relevance[key[0]].registers(group.cursor.place)
            firsts = [self.numbering.first(sort) for sort in Sort] + [self.numbering.total]
            self.places[key] = tuple(
                tuple(r - firsts[sort] for r in registers if firsts[sort] <= r < firsts[sort + 1]) for sort in Sort
            )
        return self.places[key]

    def values(self, group: Group) -> tuple[NDArray[np.generic], ...]:
        """By sort, the registers of a group that matter where it is: [warp, register, lane]."""
        banks = self.machines[group.code.cta].registers.banks
        numbers = (np.array(indices, np.intp) for indices in self.numbers(group))
        return tuple(bank[group.warps[:, None], indices] for bank, indices in zip(banks, numbers, strict=True))

    def memory(self) -> tuple[object, ...]:
        """What decides what happens beside registers: memory that is read, and what counts races."""
        state: list[object] = []
        for machine in self.machines:
            if self.shared or not self.lean:  # writes of the same value do not race
                state.append(machine.shared.data.tobytes())
            barriers = machine.mbarriers if "mbarriers" in vars(machine) else None
            state += [barriers and barriers.state(), machine.tmem.state() if "tmem" in vars(machine) else None]
            if not self.lean:
                state.append(machine.shared.order(barriers.clocks() if barriers is not None else ()))
                state.append(machine.registers.written.tobytes())
                state.append(machine.copies.state() if "copies" in vars(machine) else None)
        state.append(tuple(len(group.unwritten) for group in self.groups))
        return tuple(state)

    # Trials

    def begin(self) -> None:
        """Puts a period on trial, if the last turns suggest one."""
        seen = len(self.moments)
        if seen > _EAGER and seen % _EAGER != 1:
            return
        last = self.moments[-1]
        for period in range(self.period, min(seen - 1, _LONGEST) + 1):
            if period in self.refused:
                continue
            steps = self.steps(self.moments[-1 - period], last)
            if steps is None:
                continue
            if period > 1 or self.refused:  # seen twice
                if seen <= 2 * period:
                    return
                if not _equal(self.steps(self.moments[-1 - 2 * period], self.moments[-1 - period]), steps):
                    continue
            self.period = period
            follower = Follower(self.numbering, steps, lean=self.lean, shared=self.shared, outside=self.outside)
            memory, marks = self.memory(), self.marks()
            self.trial = Trial(period, last, follower, steps, memory, marks, self.met(), self.phases())
            return

    def steps(self, before: Moment, after: Moment) -> dict[int, dict[int, Steps]] | None:
        """By group and register, the steps between two states; None where they differ otherwise."""
        if before.flow != after.flow:
            return None
        moving: dict[int, dict[int, Steps]] = {}
        for number, group in enumerate(self.groups):
            if sum(one != other for one, other in zip(before.counts[number], after.counts[number], strict=True)) > 1:
                return None
            found = moving[number] = {}
            sorts = zip(Sort, self.numbers(group), before.registers[number], after.registers[number], strict=True)
            for sort, indices, old, new in sorts:
                if old.shape != new.shape:
                    return None
                changed = (old != new).any(axis=(0, 2))
                if not changed.any():
                    continue
                if sort is Sort.PREDICATE:
                    return None
                for column in np.flatnonzero(changed).tolist():
                    difference = new[:, column].astype(np.uint64) - old[:, column].astype(np.uint64)
                    found[self.numbering.first(sort) + indices[column]] = centred(difference, sort.bits)
        return moving

    def judge(self, trial: Trial, now: Moment) -> None:
        """At the end of a period on trial: skips what will happen again, if that is certain."""
        steps = self.steps(trial.start, now)
        kept = {
            number: {register: after for register, after in moving.items() if self.live(number, register)}
            for number, moving in trial.follower.steps.items()
        }
        if steps is None or not _equal(steps, trial.steps) or not _equal(kept, steps) or self.memory() != trial.memory:
            self.fail(0)
            return
        turns = min(trial.follower.foresight.turns - 1, self.room(trial.start, now))
        if turns < 1 or not trial.follower.zeros_until(self.machines[0], turns + 1):
            self.fail(0)
            return
        self.skip(trial, now, turns)
        assert self.watched is not None
        self.watch(self.watched)

    def live(self, number: int, register: int) -> bool:
        """Whether a register matters where its group is."""
        group = self.groups[number]
        return bool(self.relevance[id(group.code)].live[group.cursor.place] >> register & 1)

    def room(self, start: Moment, now: Moment) -> int:
        """For how many more periods no group leaves a loop that turns."""
        rooms = []
        for number, group in enumerate(self.groups):
            for end in (item for item in group.code.items if isinstance(item, LoopEnd)):
                step = now.counts[number][end.loop] - start.counts[number][end.loop]
                if step:
                    rooms.append((end.count - 1 - now.counts[number][end.loop]) // step if step > 0 else 0)
        return min(rooms, default=0)

    def skip(self, trial: Trial, now: Moment, turns: int) -> None:
        """Notes so many more periods and moves all on to the end of them."""
        for number, group in enumerate(self.groups):
            for name, index, executions in _noted(group):
                executions.repeat(executions.last(executions.count - trial.marks[number, name, index]), turns)
            counts, old, new = group.cursor.counts, trial.start.counts[number], now.counts[number]
            counts[:] = [count + turns * (after - before) for count, before, after in zip(new, old, new, strict=True)]
            group.skipped += turns * sum(after - before for before, after in zip(old, new, strict=True))
            banks = self.machines[group.code.cta].registers.banks
            for register, steps in trial.steps[number].items():
                sort = max(sort for sort in Sort if self.numbering.first(sort) <= register and self.numbering[sort])
                bank, index = banks[sort], register - self.numbering.first(sort)
                moved = bank[group.warps, index].astype(np.uint64) + (steps * np.int64(turns)).view(np.uint64)
                bank[group.warps, index] = moved.astype(bank.dtype)
        for machine, phases in zip(self.machines, trial.phases, strict=True):
            for place, barrier in machine.mbarriers.live.items() if phases else ():
                barrier.left_out += turns * (barrier.phase - phases[place])
        for machine, before in zip(self.machines, trial.met, strict=True):
            for name, count in (machine.met - before).items():
                machine.met[name] += turns * count

    def marks(self) -> Counter[Place]:
        """How many executions have been noted of each operation of each group."""
        return Counter(
            {
                (number, name, index): executions.count
                for number, group in enumerate(self.groups)
                for name, index, executions in _noted(group)
            }
        )

    def met(self) -> list[Counter[str]]:
        """The undefined cases of each CTA so far."""
        return [Counter(machine.met) for machine in self.machines]

    def phases(self) -> list[dict[int, int]]:
        """The phases of the mbarriers of each CTA, by their places."""
        return [
            {place: barrier.phase for place, barrier in machine.mbarriers.live.items()}
            if "mbarriers" in vars(machine)
            else {}
            for machine in self.machines
        ]


def _noted(group: Group) -> Iterator[tuple[str, int, Executions[Any]]]:
    """All that is noted about a group's executions: what it is, of which operation, and the executions."""
    for name in ("wavefronts", "lanes", "facts"):
        for index, executions in getattr(group, name).items():
            yield name, index, executions


def _equal(some: Mapping[int, Mapping[int, Steps]] | None, others: Mapping[int, Mapping[int, Steps]]) -> bool:
    """Whether the same registers of all groups move on by the same steps."""
    return some is not None and all(
        some[number].keys() == moving.keys()
        and all(np.array_equal(some[number][register], steps) for register, steps in moving.items())
        for number, moving in others.items()
    )


def chosen_loops(code: Code, within: LoopEnd | None = None) -> frozenset[int]:
    """The loops of a code (or in the body of one of them) that are worth watching, none within another: those for which
    executing some turns of them, all that is in them included, takes the least time."""
    ends = [item for item in code.items if isinstance(item, LoopEnd)]
    return frozenset(chain.from_iterable(_choice(code, ends, end)[2] for end in ends if _around(ends, end) is within))


def _around(ends: Sequence[LoopEnd], inner: LoopEnd) -> LoopEnd | None:
    """The loop just around one; None for an outermost one."""
    around = [end for end in ends if end.start <= inner.start and inner.index < end.index]
    return min(around, key=lambda end: end.index, default=None)


def _choice(code: Code, ends: Sequence[LoopEnd], end: LoopEnd) -> tuple[int, int, frozenset[int]]:
    """How many operations a loop takes turn by turn, and with the best choice of loops to watch, and that choice."""
    inner = [_choice(code, ends, other) for other in ends if _around(ends, other) is end]
    own = sum(isinstance(item, Operation) for item in code.items[end.start : end.index])
    own -= sum(
        isinstance(item, Operation)
        for other in ends
        if _around(ends, other) is end
        for item in code.items[other.start : other.index]
    )
    turn = own + sum(whole for whole, _, _ in inner)
    watched = min(end.count, _TURNS) * turn + _OVERHEAD
    apart = end.count * (own + sum(best for _, best, _ in inner))
    if watched < apart:
        return end.count * turn, watched, frozenset((end.loop,))
    return end.count * turn, apart, frozenset(chain.from_iterable(chosen for _, _, chosen in inner))
