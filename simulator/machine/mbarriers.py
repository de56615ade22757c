"""The mbarriers of a CTA, or of a pair of CTAs: which phase each is in, and who waits.

Each phase has a SimPy event, which happens when the phase is complete. A warp that waits for it is released then.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import simpy

from simulator.compiler.timed_code import StallReason
from simulator.errors import DeadlockError
from simulator.execute.dynamic_info import CLUSTER, NEXT, STORES, Barrier
from simulator.machine.clock import call_at
from simulator.machine.interface import MachineOfUnits, SmOfUnits, Warp
from simulator.state.mbarrier import PhaseCounter


@dataclass
class Phase(PhaseCounter):
    """The current phase of an mbarrier.

    Attributes:
        complete: the event of its completion.
        waiting: the warps that wait for it, and the parity that each waits for.
    """

    complete: simpy.Event | None = None
    waiting: list[tuple[Any, int]] = field(default_factory=list)


class Mbarriers:
    """All mbarriers of a run.

    Attributes:
        flights: arrivals under way: the cycle, and the mbarriers.
    """

    def __init__(self, machine: MachineOfUnits) -> None:
        self.machine, self.env = machine, machine.env
        self.phases: dict[Barrier, Phase] = {}
        self.flights: dict[simpy.Event, tuple[int, tuple[Barrier, ...]]] = {}

    def init(self, barrier: Barrier, count: int) -> None:
        """Initialises an mbarrier whose phases are complete after `count` arrivals."""
        self.phases[barrier] = Phase(count, count)

    def add(self, barrier: Barrier, phase: Phase) -> None:
        """Adds an mbarrier that something else owns: the barrier of the cluster."""
        self.phases[barrier] = phase

    def phase(self, barrier: Barrier) -> Phase:
        """Returns the current phase of an mbarrier; raises DeadlockError if it has not been initialised."""
        if barrier[0] == STORES:
            return self.phases.setdefault(barrier, Phase(1, 1))
        phase = self.phases.get(barrier)
        if phase is None:
            raise DeadlockError((f"{name_of(barrier)} is used before mbarrier.init",))
        return phase

    def arrive_at(self, cycle: int, barriers: tuple[Barrier, ...]) -> None:
        """Plans one arrival on each of these mbarriers in a later cycle."""
        self.flights[call_at(self.env, cycle, self._landed)] = cycle, barriers
        self.machine.limit(cycle)

    def _landed(self, event: simpy.Event) -> None:
        now, barriers = self.flights.pop(event)
        for barrier in barriers:
            self.arrive(barrier, now)
        self.machine.lasts(now)

    def arrive(self, barrier: Barrier, now: int) -> None:
        """Counts one arrival."""
        phase = self.phase(barrier)
        phase.pending -= 1
        self._settle(barrier, phase, now)

    def transact(self, barrier: Barrier, count: int, now: int) -> None:
        """Counts bytes that are announced (`count` above 0) or have arrived (below 0). Waiting warps see them at `now`,
        which may be later than this cycle."""
        phase = self.phase(barrier)
        phase.transactions += count
        if count < 0:
            self._settle(barrier, phase, now + (self.machine.mbarrier_latency - 1 if phase.waiting else 0))

    def wait(self, sm: SmOfUnits, warp: Warp, barrier: Barrier, parity: int) -> bool:
        """Returns whether a warp must wait for the phase of this parity; if so, the end of the phase releases it."""
        phase = self.phase(barrier)
        if phase.parity != parity:
            return False
        if phase.complete is None:
            phase.complete = self.env.event()
        phase.waiting.append((warp.id, parity))
        reason = StallReason.GLOBAL if barrier[0] == STORES else StallReason.MBARRIER
        phase.complete.callbacks.append(partial(_release, sm, warp, reason))
        return True

    def _settle(self, barrier: Barrier, phase: Phase, now: int) -> None:
        """Completes the phase if no arrival and no byte is missing; warps that wait for it can issue at `now`."""
        if not phase.settle():
            return
        machine = self.machine
        if (
            machine.observer is not None
            and barrier[0] not in (STORES, NEXT)
            and (barrier != CLUSTER or machine.cluster.pair)
        ):
            machine.observer.flip(name_of(barrier), max(barrier[0], 0), phase.parity ^ 1, now)
        complete, phase.complete, phase.waiting = phase.complete, None, []
        if complete is not None:
            complete.succeed(now)

    def describe(self) -> list[str]:
        """Which warps wait for which mbarrier, as lines of a deadlock's message."""
        return [
            f"warps {', '.join(str(number) for number, _ in phase.waiting)} "
            f"wait for parity {phase.waiting[0][1]} of {name_of(barrier)}, "
            f"which lacks {phase.pending} of {phase.expected} arrivals"
            + (f" and {phase.transactions} bytes" if phase.transactions else "")
            for barrier, phase in sorted(self.phases.items())
            if phase.waiting
        ]

    def state(self, now: int) -> tuple[object, ...]:
        """Returns all that decides what happens next, in cycles relative to `now`."""
        flights = tuple((cycle - now, barriers) for cycle, barriers in self.flights.values())
        phases = tuple(
            (barrier, p.expected, p.pending, p.parity, p.transactions, tuple(p.waiting))
            for barrier, p in self.phases.items()
        )
        return flights, phases


def _release(sm: SmOfUnits, warp: Warp, reason: StallReason, event: Any) -> None:
    sm.release(warp, event.value, reason)


def name_of(barrier: Barrier) -> str:
    """An mbarrier in words."""
    if barrier[0] == NEXT:
        return "the end of the CTAs of a cluster"
    if barrier[0] == CLUSTER[0]:
        return "the barrier of the cluster"
    if barrier[0] == STORES:
        return "a write of another CTA"
    return f"the mbarrier at shared[{barrier[1]}] of CTA {barrier[0]}"
