"""Loads of one, two and four sub-cores that begin in the same cycle, clock by clock, against an H200, the same SM
(measurements/results/load_order.json.gz, written by measurements/measure_load_order.py)."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from isa.forms.record import Unit
from simulator.compiler.operation_parts import Arithmetic
from simulator.compiler.register_banks import odd_banks
from simulator.compiler.timed_code import Periodic, TimedOperation
from simulator.machine.sm import Machine
from simulator.studies.validation.slots import read_from, wait_for
from simulator.timing import run
from tests.support.paths import ROOT
from tests.support.straight_code import CLOCK, KNOWN, READ, read_clocks

LOADS = {"b32": "ld.b32", "v2": "ld.v2", "v4": "ld.v4"} | {f"x{n}": f"ldmatrix.x{n}" for n in (1, 2, 4)}
CONFLICTS = {"b32": 4, "v2": 4}  # wavefronts of 32 lanes 16 bytes apart
UNITS = {"fma": Unit.FMA, "alu": Unit.ALU}


@cache
def codes() -> list[dict[str, Any]]:
    """The codes of the table."""
    path = ROOT / "measurements" / "results" / "load_order.json.gz"
    found: list[dict[str, Any]] = json.loads(gzip.decompress(path.read_bytes()))["codes"]
    return found


def operation(row: list[Any], warp: int) -> TimedOperation:
    """A row of a code in the simulation."""
    name, stall, hint, operands, boards = row
    if name in LOADS:
        known = KNOWN[LOADS[name]]
        assert known.costs is not None
        costs = {warp: Periodic((CONFLICTS[name],)) if name in CONFLICTS else known.costs[0]}
        *values, address = operands
        assert known.access is not None
        access = replace(known.access, banks=odd_banks((address,)))
        made = known.changed(line=0, writes=tuple(values), costs=costs, access=access)
    elif name == "instruction":
        pipe, slots, written = operands
        known = KNOWN["full f32"] if pipe == "tensor" else KNOWN["add"].changed(unit=UNITS[pipe], arithmetic=READ)
        made = known.changed(line=0, writes=(written,))
        read_from(made, slots)
    else:
        clock = name == "clock"  # which does not wait for the pipe of products
        unit = Unit.ALU if clock else Unit.FMA
        made = KNOWN["nothing"].changed(line=CLOCK if clock else 0, unit=unit, arithmetic=Arithmetic(writes=clock))
    made.stall, made.yields = stall, bool(hint)
    wait_for(made, boards)
    return made


@pytest.fixture
def ages(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sub-cores, that whose last access to shared memory is the oldest first."""
    order = [*range(4)]

    class Aged(Machine):
        def __init__(self, *args: Any, **more: Any) -> None:
            super().__init__(*args, **more)
            self.sms[0].front_code.set_ages(self.sms[0].front, order)

    monkeypatch.setattr(run, "Machine", Aged)
    return order


def exact(order: str, ages: list[int]) -> int:
    """How many codes have every clock as measured, on the sub-cores `order`, that with the oldest last access first."""
    ages[:] = [*map(int, order), *(number for number in ages if str(number) not in order)]
    found = 0
    for code in codes():
        programs = {warp: [operation(row, warp) for row in code["rows"]] for warp in range(len(order))}
        clocks = read_clocks(programs, [0] * len(order))
        found += code["clocks"][order] == [[clock - own[0] for clock in own[1:]] for own in clocks]
    return found


@pytest.mark.parametrize("order", ["0", "01", "0123", "2031"])
def test_every_clock(order: str, ages: list[int]) -> None:
    """All 178 codes on one, two and four sub-cores have every clock as measured, alone and beside chains of integers:
    which loads begin, whose registers come next, and which wait for an integer result of their bank."""
    assert len(codes()) == 178
    assert exact(order, ages) == 178


@pytest.mark.exhaustive
def test_every_order(ages: list[int]) -> None:
    """The same in all orders of the sub-cores."""
    orders = list(codes()[0]["clocks"])
    assert len(orders) == 27
    assert [exact(order, ages) for order in orders] == [178] * 27
