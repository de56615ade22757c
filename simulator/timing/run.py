"""Runs programs on the machine of a chip. `simulate` returns the cycles that they take."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from math import prod
from typing import Any

from simulator.chip.config import Config
from simulator.compiler.schedule import scheduled
from simulator.compiler.sequences.expand import expand
from simulator.compiler.timed_code import StallReason, TimedCode, TimedLoop
from simulator.machine.cluster import NOWHERE, Places
from simulator.machine.engine import Programs
from simulator.machine.observer import TimingObserver
from simulator.machine.sm import Machine
from simulator.progress import Pace, Progress
from simulator.timing.apart import alone, joined, parts
from simulator.timing.repetition import Skipper
from simulator.timing.result import Timing

PATIENCE = 5.0  # seconds after which a run says how long it will take, if that is longer than as long again
_LOG = logging.getLogger("tcsim")
_COUNTED = "timed"  # instructions


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
    programs: Programs | None = None,
    places: Places = NOWHERE,
) -> Timing:
    """Runs the programs of a CTA of `warps` warps on one SM of the config's chip, or of `ctas` CTAs of as many warps on
    an SM each.

    Args:
        skip: whether to skip repetitions (the result is the same, and tests compare).
        ctas: 2 for a pair of CTAs, as many as a cluster of a launch has; warp w of CTA c is c * warps + w in `codes`.
        sms: SMs of the chip that do the same at the same time and share L2.
        observer: is told about each issue and each unit.
        cold: whether lines that come for the first time come from device memory, and not from L2.
        starts: for each warp of the CTA (or the pair), by number, the cycle in which it begins; without them all begin
            in cycle 0.
        progress: is told now and then how many instructions have issued; without it, a run that takes long says so.
        programs: what several runs of the same programs share, so that it is worked out once.
        places: of a launch whose clusters are timed, where their CTAs are.

    Raises:
        DeadlockError: warps are unfinished and nothing is left to happen.
        ValueError: more or fewer starts than warps.
    """
    if len(starts) not in (0, ctas * warps):
        raise ValueError(f"{len(starts)} starts for {ctas * warps} warps: one for each, or none")
    programs = programs or Programs()
    codes = [scheduled(expand(code, config), config) for code in codes]
    cut = parts(codes, config.sm.sub_cores, warps, starts) if observer is None else []
    if not cut:
        machine = Machine(
            config, codes, warps, programs, skip=skip, ctas=ctas, sms=sms, observer=observer, cold=cold, starts=starts,
            places=places,
        )  # fmt: skip
        return run(machine, Watch(progress, codes))
    chip, found = alone(config), []
    watch = Watch(progress, [code for part in cut for code in part.codes])
    for part in cut:
        machine = Machine(chip, part.codes, len(part.starts), programs, skip=skip, starts=part.starts)
        found.append((part, run(machine, watch)))
    return joined(found, config.sm.sub_cores * ctas)


def run(machine: Machine, watch: Watch) -> Timing:
    """Runs a machine to the end; returns the cycles and counts of the run.

    Raises:
        DeadlockError: warps are unfinished and nothing is left to happen.
    """
    skipper = Skipper(machine)

    def pause() -> None:
        if watch.due:
            watch.tell(sum(machine.issued))

    def boundary(sm: Any, warp: Any, loop: Any) -> None:
        pause()
        skipper.look(sm, warp, loop)

    machine.boundary, machine.pause = boundary, pause
    if machine.observer is not None:
        machine.observer.attach(
            {number: code for code in machine.codes for number in code.warps},
            machine.codes,
            machine.config.sm.sub_cores,
            machine.sms[0].front.rules.margin,
        )
    cycles = machine.run() + skipper.skipped
    watch.before += sum(machine.issued)
    return result(machine, cycles, skipper.skipped)


def result(machine: Machine, cycles: int, skipped: int) -> Timing:
    """The cycles and counts of a run that is over."""
    waits = {}
    for _, warp, _ in machine.places:
        row = warp.stall_counts()
        row[StallReason.FINISHED] = cycles - sum(row)
        waits[warp.id] = row
    busy = [taken for sm in machine.sms for taken in sm.front_code.busy_pipes(sm.front)]
    shared = max(sm.front_code.busy_shared(sm.front) for sm in machine.sms)
    more: dict[str, Any] = {}
    if any(sm.memory is not None for sm in machine.sms):
        more["memory_busy"] = max(sm.memory.path.busy for sm in machine.sms if sm.memory is not None)
    if machine.cluster.units and machine.config.tcgen05 is not None:
        more["tcgen05_busy"] = tuple((unit.busy, unit.products) for unit in machine.cluster.units)
        more["tmem_busy"] = tuple(path for _, _, path in busy)
    if units := [sm.matrix_unit for sm in machine.sms if sm.matrix_unit is not None]:
        more["wgmma_busy"] = tuple((unit.busy, unit.products) for unit in units)
    return Timing(cycles, waits, machine.issued, [[tensor, alu] for tensor, alu, _ in busy], shared, skipped, **more)
