"""How long a loop takes with two numbers of runs. The shorter loop is the beginning of the longer one, up to where its
first warp has done its last run; that is simulated once.

Measurements of loops are differences of two such runs, so that validation asks for little else.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from ctypes import Structure

from simulator.timing import compiled
from simulator.timing.apart import Part, alone, parts, settled
from simulator.timing.config import Config
from simulator.timing.engine import Engine, Watch, simulate
from simulator.timing.model import TimedCode, TimedLoop
from simulator.timing.records import fields
from simulator.timing.sm import Sm


def lengths(
    config: Config,
    code: TimedCode,
    counts: tuple[int, int],
    warps: int,
    *,
    starts: Sequence[int] = (),
    programs: compiled.Programs,
) -> tuple[int, int]:
    """The cycles of a program that is one loop, with fewer runs of it and with more: what `simulate` says of each.

    Args:
        code: the program, with its sequences and the waits that a compiler writes.
        counts: the two numbers of runs, the smaller first.
        warps, starts, programs: as of `simulate`.
    """
    (end,) = code.ends.values()
    cut, chip = parts([code], config.sm.sub_cores, warps, starts), alone(config)
    if not cut and settled([code]):
        cut, chip = [Part([code], tuple(starts) or (0,) * warps, {})], config
    if cut:
        few, many = zip(*(_both(chip, part, end, counts, programs) for part in cut), strict=True)
        return max(few), max(many)
    cycles = []
    for end.count in counts:
        cycles.append(simulate(config, [code], warps, starts=starts, programs=programs).cycles)
    return cycles[0], cycles[1]


def _both(
    config: Config, part: Part, end: TimedLoop, counts: tuple[int, int], programs: compiled.Programs
) -> tuple[int, int]:
    """The cycles of a part for both numbers of runs."""
    few, many = counts
    end.count = few
    short = _engine(config, part, programs)
    warps = short.sm.warps
    shared = short.run_until(lambda: max(warp.counts[end.loop] for warp in warps) >= few - 1)
    shared = shared and not any(warp.done for warp in warps)
    end.count = many
    long = _engine(config, part, programs)
    if shared:
        take_over(long, short)
    longer = long.run().cycles
    end.count = few
    programs.find(part.codes[0])  # which has the other count now
    return short.run().cycles, longer


def _engine(config: Config, part: Part, programs: compiled.Programs) -> Engine:
    """The engine for a part, at its beginning."""
    ahead = compiled.available()
    sm = Sm(config, part.codes, len(part.starts), skip=True, compiled=ahead)
    return Engine(sm, ahead, Watch(None, part.codes), programs, part.starts)


def take_over(engine: Engine, other: Engine) -> None:
    """Brings a run to where another of the same warps is. Only for programs that are `settled`: what is under way in
    shared memory or beyond is not taken over."""
    sm, its = engine.sm, other.sm
    _copy(sm.record, its.record)
    for one, two in zip((*sm.cores, *sm.warps), (*its.cores, *its.warps), strict=True):
        _copy(one, two)
    for mine, theirs in zip(sm.counters.all(), its.counters.all(), strict=True):
        mine[:] = theirs  # type: ignore[assignment] # of one type, each
    engine.skipper.seen, engine.skipper.skipped = dict(other.skipper.seen), other.skipper.skipped


def _copy(record: Structure, other: Structure) -> None:
    """Copies the numbers of a record, and of the arrays that belong to it."""
    kind = next(base for base in type(record).__mro__ if "_fields_" in base.__dict__)
    for name, _ in fields(kind):
        if not name.endswith("_array"):
            setattr(record, name, getattr(other, name))
        elif isinstance(mine := getattr(record, name.removesuffix("_array"), None), array):
            mine[:] = getattr(other, name.removesuffix("_array"))
