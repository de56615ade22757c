"""Jumps, NOPs and reads of the clock, as tests/hardware/fetched.py writes and measures them, in the simulation."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

from isa.forms.record import Unit
from simulator.timing.model import TimedOperation
from tests.support.paths import TESTS
from tests.support.straight_code import CLOCK, H100, KNOWN

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
        elif kind != "C":
            cycles = H100.sequences.returns if kind == "R" else H100.sequences.call
            made = made.changed(unit=Unit.CONTROL, latency=cycles, stall=max(cycles, wait), returning=kind == "R")
        made.cache_line, made.line_place = divmod(place, H100.fetch.line)
        yield made


def whole(stream: Stream) -> list[TimedOperation]:
    """All that a warp does."""
    found = list[TimedOperation]()
    for address, text in stream:
        own = items(text)
        found += operations(own, range(address, address + len(own)))
    return found
