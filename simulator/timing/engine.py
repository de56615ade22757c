"""The engine itself: one SM (or two, for a pair of CTAs) runs a program; `simulate` tells the cycles that it takes.

Sub-cores issue instructions, units are busy with them, warps wait: `sm` has the rules. Cycles are integers, and the
engine goes from one cycle in which something can happen to the next. SimPy keeps the calendar of what goes on beside
the sub-cores (`events`). Up to the next entry there, sub-cores run ahead in one loop: always the one whose next step is
the earliest, of these the first by number; what shared memory serves is decided in between, when it is due. So a run
depends on nothing but its inputs.

That loop is compiled where there is a compiled kernel (`simulator.timing.compiled`) and nobody observes the run; what
is rare comes back to Python. A loop whose state repeats is skipped, exactly (`skipper`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from simulator.chip.config import Config
from simulator.compiler.schedule import scheduled
from simulator.compiler.sequences.expand import expand
from simulator.compiler.timed_code import StallReason, TimedCode, TimedLoop
from simulator.errors import DeadlockError
from simulator.progress import Pace, Progress
from simulator.timing import compiled
from simulator.timing.apart import alone, joined, parts
from simulator.timing.cores import SubCore
from simulator.timing.counters import REASONS
from simulator.timing.observer import TimingObserver
from simulator.timing.records import NEVER
from simulator.timing.result import Timing
from simulator.timing.skipper import Skipper
from simulator.timing.sm import Sm
from simulator.timing.warp import Warp

PATIENCE = 5.0  # seconds after which a run says how long it will take, if that is longer than as long again
_LOG = logging.getLogger("tcsim")
_COUNTED = "timed"  # instructions
_STEPS = 1024  # that Python takes at a time
# found sooner than members of their enum
_NOTHING_BEFORE, _FOR_PYTHON = compiled.Outcome.NOTHING_BEFORE, compiled.Outcome.FOR_PYTHON
_BOUNDARY, _OVER = compiled.Outcome.BOUNDARY, compiled.Outcome.OVER
_START, _SERVE = compiled.Outcome.START, compiled.Outcome.SERVE


class Watch:
    """Tells how far a run is: a `Progress`, if there is one; else, once, on the log, how long a long run will take.

    Args:
        codes: the programs that are to be timed.

    Attributes:
        before: instructions of the parts of the run that are over.
    """

    def __init__(self, progress: Progress | None, codes: list[TimedCode]) -> None:
        self.codes, self.before, self.begun = codes, 0, time.monotonic()
        self.pace = None if progress is None else Pace(progress, _COUNTED, self.total)
        self.told = False

    @property
    def total(self) -> int:
        """How many instructions all warps issue."""
        return sum(len(code.warps) * executions(code) for code in self.codes)

    @property
    def due(self) -> bool:
        """Whether it is time for a word."""
        if self.pace is not None:
            return self.pace.due
        return not self.told and time.monotonic() - self.begun > PATIENCE

    def tell(self, issued: int) -> None:
        """Tells how far the run is when its present part has issued so many instructions."""
        done = self.before + issued
        if self.pace is not None:
            self.pace.tell(done)
            return
        self.told = True
        total = self.total
        left = (time.monotonic() - self.begun) * (total - done) / max(done, 1)
        if left > PATIENCE:
            words = "tcsim: %s instructions are timed one by one, which takes about %s; Ctrl-C ends it"
            _LOG.warning(words, f"{total:,}", _duration(left))


class Engine:
    """One run, or a part of one.

    Args:
        ahead: whether the compiled engine is to do what it can; not where somebody observes the run.
        programs: the programs as the compiled engine has them.
        starts: for each warp, by number, the cycle in which it begins; without them all begin in cycle 0.

    Attributes:
        ahead: the compiled engine, if there is one and nobody observes the run.
    """

    def __init__(
        self, sm: Sm, ahead: bool, watch: Watch, programs: compiled.Programs, starts: Sequence[int] = ()
    ) -> None:
        self.sm, self.watch = sm, watch
        for warp in sm.warps if starts else ():
            warp.issue_not_before = starts[warp.id]
        self.ahead = compiled.CompiledEngine(sm, programs) if ahead else None
        self.skipper = Skipper(sm, self.ahead.state if self.ahead is not None else None)
        if self.ahead is not None:
            sm.settle, sm.shared.compiled = self.ahead.settle, self.ahead.place
        if sm.observer is not None:
            sm.observer.attach(sm.counters, sm.warps, sm.codes, sm.config.sm.sub_cores, sm.margin)

    def run(self) -> Timing:
        """Runs to the end.

        Raises:
            DeadlockError: warps are unfinished and nothing is left to happen.
        """
        self.run_until(lambda: False)
        if self.ahead is not None:
            self.ahead.drain()
        self.sm.shared.drain()
        self.watch.before += sum(self.sm.counters.issued)
        return self.result()

    def run_until(self, pause: Callable[[], bool]) -> bool:
        """Runs until `pause` says so, or to the end; returns whether it has paused. It is asked now and then, and where
        the compiled engine runs at every end of a loop at which repetitions are looked for.

        Raises:
            DeadlockError: as `run`.
        """
        sm, calendar = self.sm, self.sm.calendar
        run_ahead = self.in_python if self.ahead is None else self.compiled
        while not sm.over:
            if pause():
                return True
            if self.watch.due:
                self.watch.tell(sum(sm.counters.issued))
            due = calendar.next
            if run_ahead(NEVER if due > NEVER else int(due)):
                continue
            if due > NEVER:
                raise self.deadlock()
            sm.record.now = int(due)
            calendar.pass_cycle()
        return False

    def compiled(self, until: int) -> bool:
        """Lets sub-cores step for a while; returns False if none of them steps before cycle `until`."""
        assert self.ahead is not None
        sm, (outcome, core) = self.sm, self.ahead.run(until)
        if outcome is _NOTHING_BEFORE:
            return False
        if outcome is _START:
            now, warp = sm.record.now, core.mine[sm.record.started_warp]
            sm.lasts(now + sm.start(core, warp, warp.operation, now))
        elif outcome is _BOUNDARY:
            place, loop = self.ahead.boundary
            self.skipper.look(sm.warps[place], loop)
        elif outcome is _OVER:
            sm.finish(self.ahead.over, sm.now)
        elif outcome is _FOR_PYTHON:
            self.step(core)
        elif outcome is _SERVE:
            self.serve(min(sm.shared.tick))
        return True

    def in_python(self, until: int) -> bool:
        """The same without the compiled engine."""
        sm, calendar, cores = self.sm, self.sm.calendar, self.sm.cores
        planned, going = calendar.planned, False
        for _ in range(_STEPS):
            core = cores[0]
            for other in cores:
                if other.tick < core.tick:  # of equals the first
                    core = other
            served = min(sm.shared.tick)
            if min(core.tick, served) >= until:
                return going
            if served <= core.tick:
                self.serve(served)
            else:
                self.step(core)
            going = True
            if calendar.planned != planned or sm.over:
                break
        return going

    def step(self, core: SubCore) -> None:
        """Lets a sub-core step as Python has it, and looks at what has repeated."""
        sm = self.sm
        sm.record.now = core.tick
        sm.step(core)
        if sm.boundary is not None:
            boundary, sm.boundary = sm.boundary, None
            self.found(*boundary)

    def serve(self, due: int) -> None:
        """Lets the SMs whose decisions are due decide what their shared memory serves."""
        sm = self.sm
        sm.record.now = due
        for place, cycle in enumerate(sm.shared.tick):
            if cycle == due:
                sm.shared.serve(place, due)

    def found(self, warp: Warp, loop: TimedLoop) -> None:
        """Tries to skip repetitions at the end of a loop."""
        if self.sm.observer is None or self.sm.now >= self.sm.observer.steps_until:
            self.skipper.look(warp, loop)

    def deadlock(self) -> DeadlockError:
        """The error that says which warps wait for what never comes."""
        sm = self.sm
        waiting = [line for barriers in sm.barriers for line in barriers.describe()]
        waiting += sm.queues.describe() if sm.queues else []
        return DeadlockError((*waiting, f"{sm.unfinished} of {len(sm.warps)} warps are unfinished"))

    def result(self) -> Timing:
        """The cycles and counts of the run, once it is over."""
        sm, counters, cycles = self.sm, self.sm.counters, self.sm.end + self.skipper.skipped
        waits = {}
        for warp in sm.warps:
            row = list(counters.stalls[warp.base : warp.base + REASONS])
            row[StallReason.FINISHED] = cycles - sum(row)
            waits[warp.id] = row
        busy = [list(pair) for pair in zip(*counters.busy, strict=True)]
        more: dict[str, Any] = {}
        if sm.memory is not None:
            more["memory_busy"] = max(counters.path)
        if sm.queues is not None and sm.config.tcgen05 is not None:
            more["tcgen05_busy"] = tuple(zip(counters.tcgen05, counters.products, strict=True))
            more["tmem_busy"] = tuple(counters.tensor_memory)
        shared = -(-max(counters.shared) // sm.shared.slots)  # counted in slots
        return Timing(cycles, waits, list(counters.issued), busy, shared, self.skipper.skipped, **more)


def executions(code: TimedCode) -> int:
    """How many instructions each warp of a program issues."""
    counts = {number: end.count for number, end in code.ends.items()}
    return sum(
        prod(counts[loop] for loop in inside)
        for item, inside in zip(code.items, code.inside, strict=True)
        if not isinstance(item, TimedLoop)
    )


def _duration(seconds: float) -> str:
    for unit, name in ((86_400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds > 2 * unit:
            return f"{seconds / unit:,.0f} {name}"
    return f"{seconds:.0f} seconds"


def simulate(
    config: Config,
    codes: list[TimedCode],
    warps: int,
    *,
    skip: bool = True,
    ctas: int = 1,
    sms: int = 1,
    observer: TimingObserver | None = None,
    cold: bool = False,
    starts: Sequence[int] = (),
    progress: Progress | None = None,
    programs: compiled.Programs | None = None,
) -> Timing:
    """Runs the programs of a CTA of `warps` warps on one SM of the config's chip, or of `ctas` CTAs of as many warps on
    an SM each.

    Args:
        skip: whether to skip repetitions (the result is the same, and tests compare).
        ctas: 2 for a pair of CTAs; warp w of CTA c is c * warps + w in `codes`.
        sms: SMs of the chip that do the same at the same time and share L2.
        observer: is told about each issue and each unit.
        cold: whether lines that come for the first time come from device memory, and not from L2.
        starts: for each warp of the CTA (or the pair), by number, the cycle in which it begins; without them all begin
            in cycle 0.
        progress: is told now and then how many instructions have issued; without it, a run that takes long says so.
        programs: what several runs of the same programs share, so that it is worked out once.

    Raises:
        DeadlockError: warps are unfinished and nothing is left to happen.
        ValueError: more or fewer starts than warps.
    """
    if len(starts) not in (0, ctas * warps):
        raise ValueError(f"{len(starts)} starts for {ctas * warps} warps: one for each, or none")
    ahead = observer is None and compiled.available()
    programs = programs or compiled.Programs()
    codes = [scheduled(expand(code, config), config) for code in codes]
    cut = parts(codes, config.sm.sub_cores, warps, starts) if observer is None else []
    if not cut:
        sm = Sm(config, codes, warps, skip=skip, ctas=ctas, sms=sms, observer=observer, compiled=ahead)
        if cold and sm.memory is not None and config.hbm is not None:
            sm.memory.device_latency = config.hbm.latency
        return Engine(sm, ahead, Watch(progress, codes), programs, starts).run()
    chip, found = alone(config), []
    watch = Watch(progress, [code for part in cut for code in part.codes])
    for part in cut:
        sm = Sm(chip, part.codes, len(part.starts), skip=skip, compiled=ahead)
        found.append((part, Engine(sm, ahead, watch, programs, part.starts).run()))
    return joined(found, config.sm.sub_cores * ctas)
