"""Jumps, NOPs and reads of the clock, as tests/hardware/fetched.py writes and measures them, in the simulation."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from isa.forms.record import Unit
from simulator.compiler.timed_code import TimedOperation
from simulator.studies.validation.slots import read_from
from tests.support.paths import TESTS
from tests.support.straight_code import CLOCK, H100, KNOWN, read_clocks

INTEGERS = {"S": Unit.ALU, "T": Unit.ALU, "M": Unit.FMA, "U": Unit.FMA}  # of three registers of one bank
READ, SEVERAL = 30, 24  # which these read in turn, as fetched.py has them
Stream = list[Any]  # of a warp: segments, [address, text]
Item = tuple[str, int, bool]  # kind, cycles until the next, yield hint


@cache
def codes() -> list[dict[str, Any]]:
    """The codes that were measured, with their clocks."""
    path = TESTS / "hardware" / "results" / "fetched.json.gz"
    found: list[dict[str, Any]] = json.loads(gzip.decompress(path.read_bytes()))["codes"]
    return found


def items(text: str) -> list[Item]:
    return [(kind, int(wait), bool(hint)) for kind, wait, hint in re.findall(r"([A-Z])(\d+)(h?)", text)]


class Segment(NamedTuple):
    """Straight code that ends with a jump, as it ran.

    Attributes:
        items, places: its instructions, and their addresses.
        clocks: which of them read the clock, and when.
    """

    items: list[Item]
    places: range
    clocks: dict[int, int]

    @property
    def jump(self) -> int:
        """When it jumps, if nothing holds that up behind the last clock."""
        last, clock = max(self.clocks.items())
        return clock + sum(wait for _, wait, _ in self.items[last:-1])


def segments(stream: Stream, read: Sequence[int]) -> list[Segment]:
    """Those of a warp, with the clocks that it has read."""
    found, clocks = [], iter(read)
    for address, text in stream:
        own = items(text)
        at = {place: next(clocks) for place, (kind, *_) in enumerate(own) if kind == "C"}
        found.append(Segment(own, range(address, address + len(own)), at))
    return found


def operations(own: Sequence[Item], places: Sequence[int]) -> Iterator[TimedOperation]:
    """Instructions in the simulation, at their addresses."""
    assert H100.fetch is not None
    assert H100.sequences is not None
    for (kind, wait, hint), place in zip(own, places, strict=True):
        made = KNOWN["nothing"].changed(line=CLOCK * (kind == "C"), unit=Unit.ALU, writer=kind == "C", yields=hint)
        made.stall, made.interval = max(wait, 1 + hint), 1 + (kind == "C")
        if kind == "N":
            made.unit = Unit.FMA
        elif kind in INTEGERS:
            made.unit, made.interval, made.writer = INTEGERS[kind], 2, True
            first = READ + (kind in "TU")
            read_from(made, [[slot, first + 2 * ((3 * place + slot) % SEVERAL), 0] for slot in range(3)])
            made.sources = ()
        elif kind != "C":
            cycles = H100.sequences.returns if kind == "R" else H100.sequences.call
            made = made.changed(unit=Unit.CONTROL, latency=cycles, stall=max(cycles, wait), returning=kind == "R")
        made.cache_line, made.line_place = divmod(place, H100.fetch.line)
        yield made


def over_jump(one: Segment, other: Segment) -> tuple[list[TimedOperation], list[int]]:
    """What a warp does from the first clock of a segment to behind the first of the next, and these clocks."""
    begin, end = min(one.clocks), min(other.clocks)
    found = [*operations(one.items[begin:], one.places[begin:])]
    found += operations(other.items[: end + 3], other.places[: end + 3])
    return found, [*one.clocks.values(), other.clocks[end]]


def later(codes: Mapping[int, tuple[Sequence[TimedOperation], Sequence[int]]]) -> list[list[int]]:
    """By how many cycles each clock of some warps comes later in the simulation than on the chip: of what each does
    from its first clock on, and its clocks there."""
    first = min(known[0] for _, known in codes.values())
    starts = [0] * (max(codes) + 1)
    for warp, (_, known) in codes.items():
        starts[warp] = known[0] - first
    read = read_clocks({warp: own for warp, (own, _) in codes.items()}, starts)
    return [
        [cycle + first - clock for cycle, clock in zip(found, known, strict=True)]
        for found, (_, known) in zip(read, codes.values(), strict=True)
    ]


def whole(stream: Stream) -> list[TimedOperation]:
    """All that a warp does."""
    found = list[TimedOperation]()
    for address, text in stream:
        own = items(text)
        found += operations(own, range(address, address + len(own)))
    return found
