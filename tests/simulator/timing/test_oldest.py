"""Loads of one, two and four sub-cores that begin in the same cycle, clock by clock, against an H200, the same SM
(tests/hardware/results/oldest.json.gz, written by tests/hardware/oldest.py)."""

from __future__ import annotations

import gzip
import json
from functools import cache
from typing import Any

from isa.forms.record import Unit
from simulator.studies.validation.slots import read_from, wait_for
from simulator.timing.compile import odd_banks
from simulator.timing.model import Periodic, TimedOperation
from tests.support.paths import TESTS
from tests.support.straight_code import CLOCK, KNOWN, read_clocks

LOADS = {"b32": "ld.b32", "v2": "ld.v2", "v4": "ld.v4"} | {f"x{n}": f"ldmatrix.x{n}" for n in (1, 2, 4)}
CONFLICTS = {"b32": 4, "v2": 4}  # wavefronts of 32 lanes 16 bytes apart
UNITS = {"fma": Unit.FMA, "alu": Unit.ALU}
INTEGERS = ("fma", "alu")


@cache
def codes() -> list[dict[str, Any]]:
    """The codes of the table."""
    path = TESTS / "hardware" / "results" / "oldest.json.gz"
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
        made = known.changed(line=0, writes=tuple(values), costs=costs, banks=odd_banks((address,)))
    elif name == "instruction":
        pipe, slots, written = operands
        known = KNOWN["full f32"] if pipe == "tensor" else KNOWN["add"].changed(unit=UNITS[pipe], writer=True)
        made = known.changed(line=0, writes=(written,))
        read_from(made, slots)
    else:
        clock = name == "clock"  # which does not wait for the pipe of products
        made = KNOWN["nothing"].changed(line=CLOCK if clock else 0, unit=Unit.ALU if clock else Unit.FMA, writer=clock)
    made.stall, made.yields = stall, bool(hint)
    wait_for(made, boards)
    return made


def simulated(rows: list[list[Any]], warps: int) -> list[list[int]]:
    """The clocks of each warp from its first one on. Of sub-cores that have not come to shared memory yet the first by
    number counts as the oldest."""
    codes = {warp: [operation(row, warp) for row in rows] for warp in range(warps)}
    return [[clock - own[0] for clock in own[1:]] for own in read_clocks(codes, [0] * warps)]


def off(order: str, chains: bool) -> list[int]:
    """Of each code with or without chains of integers, and warps in this order, by how many cycles the simulation's
    clocks are off at most."""
    found = []
    for code in codes():
        if chains == any(token.startswith(INTEGERS) for token in code["code"].split()):
            pairs = zip(code["clocks"][order], simulated(code["rows"], len(order)), strict=True)
            found.append(max(abs(a - b) for own, ours in pairs for a, b in zip(own, ours, strict=True)))
    return found


def test_one_sub_core() -> None:
    """All 178 codes have every clock as measured: a register that comes back waits a cycle for an integer result of its
    bank, and integers wait for the address of a load."""
    found = off("0", chains=False) + off("0", chains=True)
    assert found == [0] * 178


def test_two_sub_cores() -> None:
    """124 of 178. A second load that begins while `x4` of both are on their way comes 2 cycles earlier than on the
    chip."""
    found = off("01", chains=False) + off("01", chains=True)
    assert found.count(0) >= 124
    assert max(found) <= 3


def test_four_sub_cores() -> None:
    """Without integers beside the loads 71 of 106 codes, with chains of them 43 of 72: where registers have waited for
    these, it is not known which sub-core's come next."""
    loads, chains = off("0123", chains=False), off("0123", chains=True)
    assert (len(loads), len(chains)) == (106, 72)
    assert loads.count(0) >= 71
    assert chains.count(0) >= 43
    assert max(loads) <= 8
    assert max(chains) <= 6
