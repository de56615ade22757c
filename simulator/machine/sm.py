"""The machine: the SMs that run a CTA, or a pair of CTAs, and what stands around them, as SimPy processes.

Each SM has a front (`simulator.machine.front`), which advances itself to the next event that anything else could cause,
and waits for it: that is the process `Sm.run`. On their own clocks work the copy engine (`memory.BulkCopies`) of each
SM and its unit of tcgen05 (`tensor_unit`) or of wgmma (`matrix_unit`). Copies and tcgen05 meet warps at mbarriers
(`mbarriers`), whose phases are events.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any

import simpy

from isa.forms.record import Unit
from simulator.chip.config import Config
from simulator.chip.memory import Mbarrier
from simulator.compiler.timed_code import Job, StallReason, TimedCode, TimedOperation, has_facts, has_jobs
from simulator.errors import DeadlockError
from simulator.execute.barrier import Barriers
from simulator.execute.dynamic_info import (
    CLUSTER,
    NEXT,
    STORES,
    AllocateFacts,
    ArriveFacts,
    Barrier,
    CommitProductsFacts,
    ExpectFacts,
    FenceFacts,
    FreeFacts,
    InitFacts,
    MoveFacts,
    MoveWaitFacts,
    PostFacts,
    ProductFacts,
    WaitFacts,
    WaitProductsFacts,
)
from simulator.machine.clock import Turn
from simulator.machine.cluster import NOWHERE, Cluster, Places
from simulator.machine.engine import front_module, rules_of
from simulator.machine.interface import Core, FrontModule, SmFront, Warp
from simulator.machine.l2 import L2
from simulator.machine.launcher import Launcher
from simulator.machine.matrix_unit import MatrixUnit
from simulator.machine.mbarriers import Mbarriers
from simulator.machine.memory import GlobalMemory
from simulator.machine.outcomes import BOUNDARY, NEVER, OUTSIDE, PAUSE
from simulator.machine.tensor_memory import TensorMemory
from simulator.machine.tensor_unit import TensorUnit

BEHIND_ISSUE = (Unit.TCGEN05, Unit.TMEM, Unit.SYNC)  # units whose instructions go on working, or wait


class Machine:
    """One CTA on one SM, or the CTAs of a pair on two.

    Args:
        codes: the programs, with sequences in the place of what the chip does not have, and compiled waits.
        programs: these as the front reads them, which several runs share.
        warps: of a CTA.
        skip: whether to stop at ends of loops, where `boundary` is called.
        cold: whether lines that come for the first time come from device memory, and not from L2.
        starts: for each warp, by number, the cycle in which it begins; without them all begin in cycle 0.
        places: of a launch, where the CTAs of its clusters are.

    Attributes:
        homes: by the number of a CTA as facts name it, its SM, where one CTA uses what is on the SM of another.
        env: SimPy's environment. Its time is the cycle.
        mbarriers: those of all CTAs.
        cluster: the CTAs, and their barrier.
        launcher: puts the CTAs on the SMs.
        l2: L2 with device memory; None where no program uses it.
        places: the warps that have begun, by number, each with its SM and its program.
        boundary: called when a warp is at the end of a loop, with its SM, the warp and that end.
        pause: called after many steps of a front (`front.STEPS`).
    """

    def __init__(
        self,
        config: Config,
        codes: Sequence[TimedCode],
        warps: int,
        programs: Any,
        *,
        skip: bool = False,
        ctas: int = 1,
        sms: int = 1,
        observer: Any = None,
        cold: bool = False,
        starts: Sequence[int] = (),
        places: Places = NOWHERE,
    ) -> None:
        self.env = simpy.Environment()
        self.config, self.codes, self.observer = config, [code for code in codes if code.items], observer
        self.cta_warps, self.end = warps, 0
        self.mbarriers = Mbarriers(self)
        self.l2: L2 | None = None
        self.boundary: Callable[[Sm, Any, Any], None] = lambda sm, warp, loop: None
        self.pause: Callable[[], None] = lambda: None
        self.homes = places.homes
        self.sms = [Sm(self, cta, skip) for cta in range(ctas)]
        self._add_outside(sms, cold)
        self.places: list[tuple[Sm, Warp, TimedCode]] = []
        self.launcher = Launcher(self, self.codes, programs, starts)
        self.cluster = Cluster(self, self.launcher.warps, self.sms, places)

    def _add_outside(self, sms: int, cold: bool) -> None:
        """Adds the units beside the fronts that the programs use."""
        config, codes = self.config, self.codes
        behind = has_jobs(codes, BEHIND_ISSUE) and (config.tcgen05 is not None or config.mbarrier is not None)
        memory = config.memory is not None and has_jobs(codes, (Unit.GLOBAL, Unit.SHARED))
        if memory:
            assert config.memory is not None
            device = config.hbm.latency if cold and config.hbm is not None else 0
            times = config.cluster.multicast_reads if config.cluster is not None else 1.0
            self.l2 = L2(self.env, config.l2, config.memory, sms, device, self.observer, times)
        products = config.wgmma if has_facts(codes, ProductFacts) else None
        for sm in self.sms:
            if products is not None:
                sm.matrix_unit = MatrixUnit(sm, products.queue, products.copied_lines)
            if behind:
                sm.unit = TensorUnit(sm, config.tcgen05.queue.queue if config.tcgen05 is not None else 1)
            if self.l2 is not None:
                sm.memory = GlobalMemory(sm, self.l2)
            if behind or memory or products:
                sm.front.use(sm)

    @property
    def mbarrier(self) -> Mbarrier:
        """Times of mbarriers."""
        times = self.config.mbarrier or (self.config.tcgen05.mbarrier if self.config.tcgen05 is not None else None)
        assert times is not None
        return times

    @property
    def mbarrier_latency(self) -> int:
        """Cycles from an arrival until a warp that waits can issue."""
        return self.mbarrier.latency

    def home(self, barrier: Barrier, asking: Sm) -> Sm:
        """The SM of the CTA that an mbarrier lies in; `asking`, where the run does not say."""
        number = self.homes.get(barrier[0])
        return asking if number is None else self.sms[number]

    @property
    def unfinished(self) -> int:
        """Warps that have begun and whose programs are not over."""
        return sum(sm.front.unfinished for sm in self.sms)

    # What has been counted

    @property
    def issued(self) -> list[int]:
        """Instructions that each sub-core has issued, over all SMs."""
        return [count for sm in self.sms for count in sm.front_code.issued(sm.front)]

    def counters(self) -> list[Sequence[int]]:
        """All counts: stalls of each warp, then those of each SM, then what an observer counts for itself."""
        counted: list[Sequence[int]] = [warp.stall_counts() for _, warp, _ in self.places]
        counted += [counts for sm in self.sms for counts in (sm.front_code.counters(sm.front), sm.counters())]
        return [*counted, list(self.observer.ledger) if self.observer is not None else []]

    def waits_since(self, before: list[Sequence[int]], counted: list[Sequence[int]]) -> list[int]:
        """For each warp, the cycles that it has counted since some time before."""
        return [sum(counted[place]) - sum(before[place]) for place in range(len(self.places))]

    def count_again(self, before: list[Sequence[int]], counted: list[Sequence[int]], times: int) -> None:
        """Counts so many times more what has been counted since some time before."""
        more = [
            [times * (new - old) for new, old in zip(counts, was, strict=True)]
            for counts, was in zip(counted, before, strict=True)
        ]
        for (_, warp, _), stalls in zip(self.places, more, strict=False):
            for reason, cycles in enumerate(stalls):
                warp.count_stall(reason, cycles)
        own = iter(more[len(self.places) :])
        for sm in self.sms:
            sm.front_code.count(sm.front, next(own))
            sm.count(next(own))
        if self.observer is not None:
            self.observer.ledger[:] = [a + b for a, b in zip(self.observer.ledger, next(own), strict=True)]

    def lasts(self, cycle: int) -> None:
        """Notes the cycle of a result; the run ends no sooner."""
        self.end = max(self.end, cycle)

    def limit(self, cycle: int) -> None:
        """Stops the fronts before this cycle, in which something happens outside them."""
        for sm in self.sms:
            sm.front.limit(cycle)

    def run(self) -> int:
        """Runs to the end; returns the cycle in which the last result is there.

        Raises:
            DeadlockError: warps are unfinished and nothing is left to happen.
        """
        self.env.run()
        if self.unfinished:
            raise self.deadlock()
        for sm in self.sms:
            sm.front.drain()
        return int(max(self.end, *(sm.front.clock.end for sm in self.sms)))

    def deadlock(self) -> DeadlockError:
        """The error that says which warps wait for what never comes."""
        waiting = [line for sm in self.sms for line in sm.barriers.describe()]
        waiting += self.mbarriers.describe()
        waiting += [line for sm in self.sms for line in sm.tensor_memory.describe()]
        return DeadlockError((*waiting, f"{self.unfinished} of {len(self.places)} warps are unfinished"))


class Sm:
    """One SM: its front, and its units that work behind issue.

    Attributes:
        cta: the number of its CTA.
        alarm: what the front waits for while it sleeps, until the cycle `wakes_at`.
        tensor_memory: its Tensor Memory.
        unit, matrix_unit, memory: None where no program uses them.
    """

    def __init__(self, machine: Machine, cta: int, skip: bool) -> None:
        self.front_code: FrontModule = front_module()
        self.machine, self.env, self.cta, self.observer = machine, machine.env, cta, machine.observer
        self.barriers, first_warp = Barriers(machine.cta_warps), cta * machine.cta_warps
        rules = rules_of(machine.config)
        self.front: SmFront = self.front_code.Front(rules, cta, first_warp, skip, self.observer, self.barriers)
        self.tensor_memory = TensorMemory(self)
        self.alarm, self.wakes_at = self.env.event(), 0
        self.unit: TensorUnit | None = None
        self.matrix_unit: MatrixUnit | None = None
        self.memory: GlobalMemory | None = None

    def run(self) -> Generator[simpy.Event, Any, None]:
        """Lets the front advance to the next event outside, again and again."""
        env, front, machine = self.env, self.front, self.machine
        while front.unfinished or front.next_step() < NEVER:  # what warps have sent is served when they are over, too
            due, now = env.peek(), int(env.now)
            # what else happens now is a step of another front
            outcome = front.advance(NEVER if due > NEVER else int(due) if due > now else now + 1)
            if outcome == OUTSIDE:  # everything else comes to this cycle first
                if front.clock.now > now:
                    yield Turn(env, front.clock.now - now)
                front.issue_chosen()
                yield Turn(env, 0)
                reached, loop = front.at_boundary()  # an instruction that waits for the others may end a loop, too
                if reached is not None:
                    machine.boundary(self, reached, loop)
            elif outcome == BOUNDARY:
                machine.boundary(self, *front.at_boundary())
            elif outcome == PAUSE:
                machine.pause()
            else:
                self.alarm, self.wakes_at = env.event(), NEVER
                self.wake()
                yield self.alarm

    def wake(self) -> None:
        """Wakes a sleeping front in the cycle of its next step; called when something outside may have made that
        earlier."""
        cycle = self.front.next_step()
        if cycle < self.wakes_at and not self.alarm.triggered:
            self.wakes_at, alarm = cycle, self.alarm
            Turn(self.env, max(cycle - self.env.now, 0)).callbacks.append(partial(_ring, alarm))

    @property
    def copied(self) -> int:
        """Wavefronts of shared memory that copies have written."""
        return self.memory.copied if self.memory is not None else 0

    # What the front cannot do alone

    def launch(self, core: Core, warp: Warp, operation: TimedOperation, now: int) -> int:
        """Issues an operation in which more than the front takes part; returns the cycles until its registers are
        written."""
        job = warp.next_job()
        if operation.unit not in BEHIND_ISSUE:
            fact = job.fact if job is not None else None
            return self.memory.launch(core, warp, operation, fact, now) if self.memory is not None else 1
        for register in operation.writes:  # of a load again, when it is launched
            warp.set_ready(register, now + 1, operation.unit)
        if job is not None and isinstance(job.fact, (ProductFacts, CommitProductsFacts, WaitProductsFacts)):
            if self.matrix_unit is not None:
                self.matrix_unit.launch(warp, job, self.observer.current if self.observer is not None else None, now)
            return 1
        return self.start(core, warp, operation, job, now) if job is not None and self.unit is not None else 1

    def start(self, core: Core, warp: Warp, operation: TimedOperation, job: Job, now: int) -> int:
        """Issues an operation of the tcgen05 unit or of mbarriers; returns the cycles until its registers are
        written."""
        mbarriers = self.machine.mbarriers
        match job.fact:
            case MoveFacts(store=store):
                assert job.cost is not None
                return self.tensor_memory.move(core, warp, operation, job.cost, store, now)
            case MoveWaitFacts(store=store):
                self.tensor_memory.wait(warp, store)
            case AllocateFacts(columns=columns):
                self.tensor_memory.allocate(warp, columns)
            case FreeFacts(columns=columns):
                self.tensor_memory.free(columns, now)
            case InitFacts(barrier=barrier, count=count):
                mbarriers.init(barrier, count)
            case ExpectFacts(barrier=barrier, count=count):
                self.expect(warp, barrier, count, now)
            case FenceFacts():
                assert self.machine.config.memory is not None
                warp.wait_until(now + self.machine.config.memory.latency, StallReason.GLOBAL)
            case ArriveFacts(barrier=barrier) if barrier[0] in (CLUSTER[0], NEXT) and barrier != CLUSTER:
                self.machine.cluster.meet(barrier, self.cta, now)
            case ArriveFacts(barrier=barrier, count=count, expect=expect, drops=drops, others=others):
                if barrier == CLUSTER:
                    self.machine.cluster.arrive(warp)
                if expect:
                    self.expect(warp, barrier, expect, now)
                if drops:
                    mbarriers.phase(barrier).expected -= count
                mbarriers.arrive_at(now + self.machine.mbarrier_latency, (barrier,) * count + others)
            case WaitFacts(barrier=barrier, parity=parity):
                for register in operation.writes:
                    warp.set_ready(register, now + self.machine.mbarrier.test_latency, operation.unit)
                if mbarriers.wait(self, warp, barrier, parity):
                    warp.blocked = StallReason.GLOBAL if barrier[0] == STORES else StallReason.MBARRIER
            case PostFacts(barrier=barrier):
                memory = self.machine.config.memory
                assert memory is not None
                mbarriers.arrive_at(now + memory.latency // 2, (barrier,))  # half of the way there and back
            case _ if operation.unit is Unit.TCGEN05:
                assert self.machine.config.tcgen05 is not None
                assert self.unit is not None
                core.set_free(Unit.TCGEN05, now + self.machine.config.tcgen05.queue.issue)
                self.unit.put(warp, job, self.observer.current if self.observer is not None else None)
        return 1

    def expect(self, warp: Warp, barrier: Barrier, count: int, now: int) -> None:
        """Counts bytes that a warp announces on an mbarrier; a bulk copy that it issues next goes out behind that."""
        self.machine.mbarriers.transact(barrier, count, now)
        if self.memory is not None:
            self.memory.expecting.add(warp.id)

    def leave(self, warp: Warp, now: int) -> None:
        """Notes that the program of a warp is over."""
        if self.unit is not None:
            self.machine.cluster.leave(warp, now)

    def release(self, warp: Warp, cycle: int, reason: StallReason) -> None:
        """Ends the wait of a blocked warp, which can issue from this cycle on."""
        self.front.release(warp, int(self.env.now), cycle, reason)
        self.wake()

    @property
    def working(self) -> TensorUnit | MatrixUnit | None:
        """The unit whose products are counted: that of wgmma, or else of tcgen05."""
        return self.unit if self.matrix_unit is None else self.matrix_unit

    def counters(self) -> list[int]:
        """Busy cycles of the unit, of its products and of the path to L2."""
        unit = [self.working.busy, self.working.products] if self.working is not None else [0, 0]
        return [*unit, self.memory.path.busy if self.memory is not None else 0]

    def count(self, more: Sequence[int]) -> None:
        """Adds to these counts."""
        if self.working is not None:
            self.working.busy += more[0]
            self.working.products += more[1]
        if self.memory is not None:
            self.memory.path.busy += more[2]

    def state(self, now: int) -> tuple[object, ...]:
        """Returns all that decides what the units behind the front do next, in cycles relative to `now`."""
        unit = self.unit.state(now) if self.unit is not None else None
        memory = self.memory.state(now) if self.memory is not None else None
        moved = self.tensor_memory.state(now)
        products = self.matrix_unit.state(now) if self.matrix_unit is not None else None
        return unit, products, memory, moved, self.barriers_state(now)

    def barriers_state(self, now: int) -> tuple[object, ...]:
        """Who waits at which barrier of the CTA."""
        waiting = tuple((number, tuple(warps)) for number, warps in sorted(self.barriers.arrived.items()) if warps)
        return max(self.front.barrier_free - now, 0), waiting


def _ring(alarm: simpy.Event, turn: simpy.Event) -> None:
    """Ends the sleep of a front, unless it has ended before."""
    if not alarm.triggered:
        alarm.succeed()
