"""What the parts of a machine see of each other.

A unit sees its SM (`SmOfUnits`), the machine around that (`MachineOfUnits`), and of the front what `SmFront`, `Core`,
`Warp` and the functions of `FrontModule` have. The front, which knows nothing of SimPy, calls `Outside` alone, and an
observer (`simulator.machine.observer`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import simpy

from isa.forms.record import Unit
from simulator.chip.config import Config
from simulator.compiler.timed_code import Job, StallReason, TimedOperation
from simulator.execute.dynamic_info import Barrier

# The front


class Warp(Protocol):
    """A warp on its SM."""

    @property
    def id(self) -> int:
        """Its number over all CTAs."""

    @property
    def done(self) -> bool:
        """Whether its program is over."""

    @property
    def pc(self) -> int:
        """The place in its program of what it issues next."""

    blocked: int  # why it waits for a `release`; 0: it does not

    def next_job(self) -> Job | None:
        """Returns what the present execution of its instruction does outside the front, and counts that execution."""

    def set_ready(self, register: int, cycle: int, unit: Unit) -> None:
        """Lets a register that this unit writes be ready in a cycle."""

    def wait_until(self, cycle: int, reason: StallReason) -> None:
        """Lets the warp issue nothing before this cycle."""

    def hold_accesses(self, cycle: int) -> None:
        """Lets the next access of the warp issue in this cycle at the earliest."""

    def went_outside(self, cycle: int) -> None:
        """Notes that an access to global memory is out by this cycle."""

    def stall_counts(self) -> list[int]:
        """Returns its stalls by reason."""

    def count_stall(self, reason: int, cycles: int) -> None:
        """Counts more stalls."""

    def count_of(self, loop: int) -> int:
        """Returns how often it has run a loop."""

    def repeat_loop(self, loop: int, runs: int) -> None:
        """Counts so many runs of a loop as done."""


class Core(Protocol):
    """A sub-core."""

    def set_free(self, unit: Unit, cycle: int) -> None:
        """Lets a pipe be free again in a cycle."""


class Clock(Protocol):
    """The time of a front: now, and the end of what it has issued."""

    @property
    def now(self) -> int:
        """The cycle of its last step."""

    @property
    def end(self) -> int:
        """The cycle of the last result."""


class SmFront(Protocol):
    """The front of an SM. `advance` returns one of `simulator.machine.outcomes`."""

    @property
    def clock(self) -> Clock:
        """Its time."""

    @property
    def rules(self) -> Any:
        """Its numbers, of the config."""

    @property
    def unfinished(self) -> int:
        """Warps whose programs are not over."""

    @property
    def barrier_free(self) -> int:
        """When its unit of barriers takes the next arrival."""

    def use(self, outside: Outside) -> None:
        """Lets this issue what the front cannot do alone."""

    def place(self, program: Any, number: int, registers: int, start: int) -> Warp:
        """Puts a warp of this program on its sub-core, where it issues from the cycle `start` on; returns it."""

    def limit(self, cycle: int) -> None:
        """Lets `advance` return before this cycle, in which something happens outside."""

    def next_step(self) -> int:
        """Returns the cycle in which it does something next."""

    def advance(self, until: int) -> int:
        """Runs all steps before a cycle; returns why it stopped."""

    def issue_chosen(self) -> None:
        """Issues the instruction that starts something outside."""

    def at_boundary(self) -> tuple[Any, Any]:
        """Returns the warp that is at the end of a loop and that end, once; (None, None) if none is."""

    def release(self, warp: Warp, now: int, cycle: int, reason: StallReason) -> None:
        """Ends the wait of a blocked warp, which can issue from this cycle on."""

    def drain(self) -> None:
        """Serves what is left when all warps are over."""


class FrontModule(Protocol):
    """The module of a front, compiled or not: what units and a run ask of a front."""

    __name__: str
    Front: Any
    Program: Any
    Rules: Any

    def fill_queue(self, front: SmFront, full: bool) -> None:
        """Notes whether the queue of the tcgen05 unit is full."""

    def make_room_in_queue(self, front: SmFront, now: int) -> None:
        """Lets the warps go on that have found that queue full."""

    def block_shared(self, front: SmFront, now: int, cycles: int) -> int:
        """Takes cycles of shared memory in one piece, behind all accesses that have issued; returns the first."""

    def send_outside(self, front: SmFront, core: Core, warp: Warp, now: int, port: int, pipe: int) -> int:
        """Sends an access to global memory through port and pipe, for so many cycles; returns when it leaves."""

    def set_ages(self, front: SmFront, order: Sequence[int]) -> None:
        """Lets the sub-cores have come to shared memory in this order, the first the longest ago."""

    def issued(self, front: SmFront) -> Sequence[int]:
        """Returns how many instructions each sub-core has issued."""

    def counters(self, front: SmFront) -> Sequence[int]:
        """Returns all that the front counts."""

    def count(self, front: SmFront, more: Sequence[int]) -> None:
        """Adds to these counts."""

    def state(self, front: SmFront, now: int) -> bytes:
        """Returns all that decides what the front does next, relative to `now`."""

    def busy_pipes(self, front: SmFront) -> Sequence[Any]:
        """Returns for each sub-core how long its pipes were taken."""

    def busy_shared(self, front: SmFront) -> int:
        """Returns how long shared memory was taken."""


class Outside(Protocol):
    """What a front calls: its SM."""

    def launch(self, core: Any, warp: Any, operation: TimedOperation, now: int) -> int:
        """Issues an operation in which more than the front takes part; returns the cycles until its registers are
        written."""

    def leave(self, warp: Any, now: int) -> None:
        """Notes that the program of a warp is over."""


# What stands around the fronts


class Arrivals(Protocol):
    """The mbarriers of all CTAs."""

    def add(self, barrier: Barrier, phase: Any) -> None:
        """Adds an mbarrier that something else owns."""

    def arrive(self, barrier: Barrier, now: int) -> None:
        """Counts one arrival."""

    def arrive_at(self, cycle: int, barriers: tuple[Barrier, ...]) -> None:
        """Plans one arrival on each of these mbarriers in a later cycle."""

    def transact(self, barrier: Barrier, count: int, now: int) -> None:
        """Counts bytes that are announced (`count` above 0) or have arrived (below 0)."""

    def phase(self, barrier: Barrier) -> Any:
        """Returns the current phase of an mbarrier."""


class ClusterOfUnits(Protocol):
    """The CTAs that run together, one or a pair."""

    @property
    def units(self) -> Sequence[Any]:
        """The tcgen05 units of all SMs."""

    def units_of_pair(self, cta: int) -> Sequence[Any]:
        """The tcgen05 units of the pair that a CTA belongs to."""

    @property
    def pair(self) -> bool:
        """Whether these are the CTAs of a pair."""


class MachineOfUnits(Protocol):
    """The SMs that run a CTA, or a pair of CTAs.

    Attributes:
        env: SimPy's environment.
        observer: is told of issues and units; None for nobody.
    """

    env: simpy.Environment
    config: Config
    observer: Any

    @property
    def mbarriers(self) -> Arrivals:
        """The mbarriers of all CTAs."""

    @property
    def mbarrier_latency(self) -> int:
        """Cycles from an arrival until a warp that waits can issue."""

    @property
    def cluster(self) -> ClusterOfUnits:
        """The CTAs of the machine."""

    def home(self, barrier: Barrier, asking: Any) -> Any:
        """The SM of the CTA that an mbarrier lies in; `asking`, where the run does not say."""

    def lasts(self, cycle: int) -> None:
        """Notes the cycle of a result; the run ends no sooner."""

    def limit(self, cycle: int) -> None:
        """Stops the fronts before this cycle, in which something happens outside them."""


class SmOfUnits(Protocol):
    """One SM.

    Attributes:
        cta: the number of its CTA.
        front, front_code: its front, and the module of functions that units call with it.
    """

    env: simpy.Environment
    cta: int
    observer: Any
    front: SmFront
    front_code: FrontModule

    @property
    def machine(self) -> MachineOfUnits:
        """The machine that it belongs to."""

    @property
    def copied(self) -> int:
        """Wavefronts of shared memory that copies have written."""

    def release(self, warp: Warp, cycle: int, reason: StallReason) -> None:
        """Ends the wait of a blocked warp, which can issue from this cycle on."""

    def wake(self) -> None:
        """Lets a front that sleeps go on in the cycle in which it does something next."""
