"""How long a loop takes with two counts of its runs. Measurements of loops tell the difference of the two.

Validation asks for many numbers of warps, and some sub-cores do the same in several of them: with 5 to 8 warps, at
least one sub-core has two. Each such run is simulated once.
"""

from __future__ import annotations

from collections.abc import Sequence

from simulator.chip.config import Config
from simulator.compiler.timed_code import TimedCode, TimedLoop
from simulator.machine.engine import Programs
from simulator.machine.sm import Machine
from simulator.timing.apart import Part, alone, parts, settled
from simulator.timing.run import Watch, run, simulate

Known = dict[tuple[int, tuple[int, int], tuple[int, ...]], tuple[int, int]]
"""Runs of one program: by how many sub-cores an SM has, both numbers of runs and when each warp begins, the first in
cycle 0, the cycles of both."""


def lengths(
    config: Config,
    code: TimedCode,
    counts: tuple[int, int],
    warps: int,
    *,
    starts: Sequence[int] = (),
    programs: Programs,
    known: Known | None = None,
) -> tuple[int, int]:
    """The cycles of a program that is one loop, with fewer runs of it and with more: what `simulate` says of each.

    Args:
        code: the program, with its sequences and the waits that a compiler writes.
        counts: the two numbers of runs, the smaller first.
        warps, starts, programs: as of `simulate`.
        known: what has been found for the same config and code, for any number of warps; it grows.
    """
    (end,) = code.ends.values()
    cut, chip = parts([code], config.sm.sub_cores, warps, starts), alone(config)
    if not cut and settled([code]):
        cut, chip = [Part([code], tuple(starts) or (0,) * warps, {})], config
    if cut:
        known = {} if known is None else known
        found = [_remembered(chip, part, end, counts, programs, known) for part in cut]
        few, many = zip(*found, strict=True)
        return max(few), max(many)
    cycles = []
    for end.count in counts:
        cycles.append(simulate(config, [code], warps, starts=starts, programs=programs).cycles)
    return cycles[0], cycles[1]


def _remembered(
    config: Config, part: Part, end: TimedLoop, counts: tuple[int, int], programs: Programs, known: Known
) -> tuple[int, int]:
    """The cycles of a part for both numbers of runs, once for warps that begin as much later than the first: nothing
    happens before that does."""
    first = min(part.starts)
    starts = tuple(start - first for start in part.starts)
    key = config.sm.sub_cores, counts, starts
    if key not in known:
        cycles = []
        for end.count in counts:
            machine = Machine(config, part.codes, len(starts), programs, skip=True, starts=starts)
            cycles.append(run(machine, Watch(None, part.codes)).cycles)
        known[key] = cycles[0], cycles[1]
    few, many = known[key]
    return first + few, first + many
