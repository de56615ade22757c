"""How long a loop takes with two numbers of runs. The shorter loop is the beginning of the longer one, up to where its
first warp has done its last run; that is simulated once.

Measurements of loops are differences of two such runs, so that validation asks for little else. On other numbers of
warps it asks for some sub-cores' runs again: one with two warps is there on 5 to 8 warps alike.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from ctypes import Structure, addressof, memmove
from dataclasses import replace
from functools import cache

from simulator.chip.config import Config
from simulator.compiler.timed_code import TimedCode, TimedLoop
from simulator.timing import compiled
from simulator.timing.apart import Part, alone, parts, settled
from simulator.timing.engine import Engine, Watch, simulate
from simulator.timing.records import fields
from simulator.timing.sm import Sm

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
    programs: compiled.Programs,
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
    config: Config, part: Part, end: TimedLoop, counts: tuple[int, int], programs: compiled.Programs, known: Known
) -> tuple[int, int]:
    """`_both`, once for warps that begin as much later than the first: nothing happens before that does."""
    first = min(part.starts)
    starts = tuple(start - first for start in part.starts)
    key = config.sm.sub_cores, counts, starts
    if key not in known:
        known[key] = _both(config, replace(part, starts=starts), end, counts, programs)
    few, many = known[key]
    return first + few, first + many


def _both(
    config: Config, part: Part, end: TimedLoop, counts: tuple[int, int], programs: compiled.Programs
) -> tuple[int, int]:
    """The cycles of a part for both numbers of runs."""
    few, many = counts
    end.count = few
    engine = _engine(config, part, programs)
    runs = [warp.counts for warp in engine.sm.warps]
    shared = engine.run_until(lambda: max([counted[end.loop] for counted in runs]) >= few - 1)
    begun = Begun(engine) if shared and not any(warp.done for warp in engine.sm.warps) else None
    shorter = engine.run().cycles
    end.count = many
    if begun is None:
        return shorter, _engine(config, part, programs).run().cycles
    programs.find(part.codes[0])  # which has the other count now
    go_back(engine, begun)
    return shorter, engine.run().cycles


def _engine(config: Config, part: Part, programs: compiled.Programs) -> Engine:
    """The engine for a part, at its beginning."""
    ahead = compiled.available()
    sm = Sm(config, part.codes, len(part.starts), skip=True, compiled=ahead)
    return Engine(sm, ahead, Watch(None, part.codes), programs, part.starts)


class Begun:
    """How far a run has come: a copy of all that it has changed. Only for programs that are `settled`: what is under
    way in shared memory or beyond is not kept.

    Attributes:
        records, arrays: those of the run, each with what is in it.
        unfinished, seen, skipped: of its SM and of its `Skipper`.
    """

    def __init__(self, engine: Engine) -> None:
        sm, skipper = engine.sm, engine.skipper
        numbers = _fields if engine.ahead is None else bytes
        own = [*sm.cores, *sm.warps]
        self.records = [(record, numbers(record)) for record in (sm.record, *own)]
        self.arrays = [(values, values[:]) for values in sm.counters.all()]
        self.arrays += [(values, values[:]) for record in own for values in _arrays(record)]
        self.unfinished, self.seen, self.skipped = sm.unfinished, dict(skipper.seen), skipper.skipped


def go_back(engine: Engine, begun: Begun) -> None:
    """Brings a run that is over back to where it was."""
    for record, numbers in begun.records:
        if isinstance(numbers, bytes):
            memmove(addressof(record), numbers, len(numbers))
        else:
            for name, value in numbers.items():
                setattr(record, name, value)
    for values, before in begun.arrays:
        values[:] = before  # type: ignore[assignment] # of one type, each
    sm, skipper = engine.sm, engine.skipper
    sm.over, sm.unfinished = False, begun.unfinished
    skipper.seen, skipper.skipped = begun.seen, begun.skipped
    skipper.ends, skipper.exhausted = 0, -1
    engine.watch = Watch(None, sm.codes)


def _fields(record: Structure) -> dict[str, int]:
    """The numbers of a record that only Python works on, by name."""
    return {name: getattr(record, name) for name in _names(type(record))[0]}


def _arrays(record: Structure) -> list[array[int]]:
    """The arrays that belong to a record."""
    found = [getattr(record, name, None) for name in _names(type(record))[1]]
    return [values for values in found if isinstance(values, array)]


@cache
def _names(kind: type[Structure]) -> tuple[list[str], list[str]]:
    """The names of the numbers in a class of records, and of what its addresses point to."""
    names = [name for name, _ in fields(next(base for base in kind.__mro__ if "_fields_" in base.__dict__))]
    ends = [name.removesuffix("_array") for name in names if name.endswith("_array")]
    return [name for name in names if not name.endswith("_array")], ends
