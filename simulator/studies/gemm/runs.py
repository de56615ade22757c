"""Runs of the CTAs of an SM, over as much of K as the time of the rest follows from.

Where CTAs share an SM and copies come when L2 has them, many main loops fall into no period, so that the engine would
simulate every iteration. A loop of more than `LONG` iterations that has found no period in its first `MANY` goes on as
it did from a few iterations on: cycles, and for how long units are busy, grow by as much for each further iteration.
Loops with a period are simulated to their end, which takes no longer for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache

from isa import Target
from simulator.chip.config import Config
from simulator.program.program import Program
from simulator.simulation.interpreter import Executed
from simulator.simulation.session import Session
from simulator.studies.gemm.held import seen_by_sm
from simulator.studies.gemm.remembered import remembered
from simulator.studies.gemm.tile import Tile
from simulator.studies.gemm.trace import kernel_trace
from simulator.timing.result import Timing

LONG, MANY = 96, 64  # iterations; all kernels whose time was measured have up to 72


@remembered(keep=16_384)
def run(
    tile: Tile,
    k: int,
    chip: Config,
    ctas: int,
    sms: int,
    later: int,
    rounds: int = 1,
    stagger: int = 0,
    apart: bool = False,
) -> Timing:
    """Runs `rounds` CTAs in each of `ctas` places of one SM, their whole program, with the share of L2 that is left
    when `sms` such SMs run; copies come `later` by some cycles, and `apart` tells whether the SMs are out of step."""
    text = kernel_trace(tile, k, ctas=ctas, rounds=rounds, stagger=stagger, target=chip.target)
    program, executed = _executed(text, chip.target, chip.sm.warps)
    return Session(program, seen_by_sm(tile, chip, later, apart=apart), arithmetic="none").time(executed, sms=sms)


@lru_cache(maxsize=3)  # of a kernel: what its first and its later CTAs run, and a shorter one
def _executed(text: str, target: Target, slots: int) -> tuple[Program, Executed]:
    """The program of a kernel, and its run without results on a chip with room for so many warps: what does not depend
    on how many SMs run and when copies come, in which runs of one kernel differ."""
    session = Session(text, None, target=str(target), arithmetic="none")
    session.slots = slots
    return session.program, session.without_results()


def begun(tile: Tile) -> int:
    """After how many iterations a main loop has filled its stages and found its pace."""
    return 4 * tile.stages


def at_length(
    tile: Tile, k: int, first: Callable[[int], Timing], following: Callable[[int, int], int]
) -> tuple[Timing, int]:
    """The run of the first CTAs of an SM, and the cycles of a later one, for main loops over k; of long ones without a
    period by runs of a few and of `MANY` iterations, of which a later CTA takes each further one as the first do.

    Args:
        first: the run of the first CTAs for a k; `following`: the cycles of a later one, for k and the cycles of these.
    """
    iterations, few = k // tile.bk, begun(tile)
    if iterations <= LONG or few >= MANY or (many := first(MANY * tile.bk)).skipped:
        whole = first(k)
        return whole, following(k, whole.cycles)
    whole = longer(first(few * tile.bk), many, (iterations - MANY) / (MANY - few))
    later = following(MANY * tile.bk, many.cycles)
    return whole, later + (whole.cycles - many.cycles if later else 0)


def longer(few: Timing, many: Timing, times: float) -> Timing:
    """The run of a loop that is longer than that of `many` by so many times what it is longer than that of `few`."""

    def grown(one: int, other: int) -> int:
        return other + round((other - one) * times)

    def each(one: Iterable[int], other: Iterable[int]) -> list[int]:
        return [grown(*pair) for pair in zip(one, other, strict=True)]

    return Timing(
        cycles=grown(few.cycles, many.cycles),
        waits={warp: each(few.waits[warp], waits) for warp, waits in many.waits.items()},
        issued=each(few.issued, many.issued),
        busy=[each(*pair) for pair in zip(few.busy, many.busy, strict=True)],
        shared_busy=grown(few.shared_busy, many.shared_busy),
        skipped=grown(few.cycles, many.cycles) - many.cycles,
        tcgen05_busy=many.tcgen05_busy,
        tmem_busy=many.tmem_busy,
        memory_busy=grown(few.memory_busy, many.memory_busy),
    )
