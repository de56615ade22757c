"""Sub-cores that share nothing are timed apart from each other, so that each finds its own repetitions.

The sub-cores of an SM share shared memory, barriers, and all that works on after issue. Where no program uses any of
these, each sub-core can be run alone. All of them together would repeat only where each of them does at once, which is
often never; and sub-cores whose warps do the same take the same time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from isa.forms.record import Unit
from simulator.chip.config import Config
from simulator.compiler.timed_code import StallReason, TimedCode, operations_of
from simulator.timing.result import Timing

_OWN = (Unit.TENSOR, Unit.ALU, Unit.FMA, Unit.CONTROL)  # units that each sub-core has for itself


@dataclass(frozen=True)
class Part:
    """What one sub-core runs, and all others that do the same: a run of an SM that has one.

    Attributes:
        codes: its programs, whose warps are numbered from 0 on.
        starts: for each of these warps, when it begins.
        warps: by sub-core that does this, counted over all SMs, its warps in the same order.
    """

    codes: list[TimedCode]
    starts: tuple[int, ...]
    warps: dict[int, list[int]]


def alone(config: Config) -> Config:
    """A chip whose SMs have one sub-core: what a part runs on."""
    return replace(config, sm=replace(config.sm, sub_cores=1))


def parts(codes: Sequence[TimedCode], sub_cores: int, cta_warps: int, starts: Sequence[int]) -> list[Part]:
    """The parts into which a run can be cut; none if it must stay whole.

    Args:
        codes: the programs, sequences expanded.
        sub_cores: of an SM.
        cta_warps: warps of a CTA; each CTA has an SM of its own.
        starts: for each warp, by number, when it begins; none: all begin in cycle 0.
    """
    if not settled(codes):
        return []
    program = {warp: place for place, code in enumerate(codes) for warp in code.warps if code.items}
    by_core: dict[int, list[int]] = {}
    for warp in sorted(program):
        cta, local = divmod(warp, max(cta_warps, 1))
        by_core.setdefault(cta * sub_cores + local % sub_cores, []).append(warp)
    alike: dict[tuple[tuple[int, int], ...], dict[int, list[int]]] = {}
    for core, warps in by_core.items():
        does = tuple((program[warp], starts[warp] if starts else 0) for warp in warps)
        alike.setdefault(does, {})[core] = warps
    if len(by_core) < 2:
        return []
    return [
        Part(
            [
                replace(codes[place], warps=tuple(rank for rank, (its, _) in enumerate(does) if its == place))
                for place in dict.fromkeys(place for place, _ in does)
            ],
            tuple(start for _, start in does),
            cores,
        )
        for does, cores in alike.items()
    ]


def settled(codes: Sequence[TimedCode]) -> bool:
    """Whether the programs leave nothing under way but what warps, sub-cores and the SM know: no accesses, nothing that
    works on after issue, no barriers."""
    return all(item.unit in _OWN and item.jobs is None for code in codes for item in operations_of(code))


def joined(found: Sequence[tuple[Part, Timing]], cores: int) -> Timing:
    """The run of all sub-cores, so many over all SMs, from those of its parts."""
    cycles = max(timing.cycles for _, timing in found)
    waits, issued, busy = dict[int, list[int]](), [0] * cores, [[0] * len(found[0][1].busy[0]) for _ in range(cores)]
    for part, timing in found:
        for core, warps in part.warps.items():
            issued[core], busy[core] = timing.issued[0], list(timing.busy[0])
            for rank, warp in enumerate(warps):
                waits[warp] = list(timing.waits[rank])
                waits[warp][StallReason.FINISHED] += cycles - timing.cycles
    skipped = cycles - max(timing.cycles - timing.skipped for _, timing in found)
    return Timing(cycles, dict(sorted(waits.items())), issued, busy, 0, skipped)
