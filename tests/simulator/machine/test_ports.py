"""What accesses and integer instructions cost a stream of matrix instructions, against an H100
(measurements/results/shared_memory_port.csv, written by measurements/measure_shared_memory_port.py)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

import isa
from simulator.chip.config import load_config
from simulator.compiler.timed_code import TimedCode, TimedLoop, TimedOperation, nesting
from simulator.studies.validation import pieces
from simulator.tables import read_rows
from simulator.timing.run import simulate
from tests.support.cases import exhaustive
from tests.support.paths import ROOT

H100 = load_config("h100_sxm")
RUNS = (4, 8)  # of the loop; the difference is measured
MATRIX = {name: opcode for name, opcode in pieces.FORMS.items() if name != "small f16"}  # all that were measured


def rows(kind: str) -> Iterator[dict[str, str]]:
    return (
        row for row in read_rows(ROOT / "measurements" / "results" / "shared_memory_port.csv") if row["kind"] == kind
    )


def operation(name: str, stall: int) -> TimedOperation:
    """An access as machine code has it, which no register makes wait."""
    text, waves = pieces.ACCESSES[name]
    item = pieces.operation(H100, isa.decode(text, target="sm_90a"), waves)
    return replace(item, writes=tuple(range(100, 100 + len(item.writes))), stall=stall)


def cycles(name: str, body: list[tuple[str, int]]) -> int:
    """Cycles of an iteration of a loop of these instructions, with their stall counts; one warp."""
    matrix = pieces.operation(H100, pieces.matrix_instruction(MATRIX[name]))
    items: list[TimedOperation | TimedLoop] = []
    for what, stall in [*body[:-1], (body[-1][0], 40)]:  # at the loop's end everything is over
        if what == "add":
            items.append(replace(pieces.operations(H100)["add"], stall=stall))
        elif what == "matrix":
            items.append(replace(matrix, stall=stall))
        else:
            items.append(operation(what, stall))
    found = []
    for runs in RUNS:
        end = TimedLoop(0, runs, 0, 0)
        code = TimedCode((0,), [*items, end], nesting([*items, end]), {0: end}, scheduled=True)
        found.append(simulate(H100, [code], 1).cycles)
    return (found[1] - found[0]) // (RUNS[1] - RUNS[0])


def test_costs_of_single_instructions() -> None:
    """What an access or an addition costs three matrix instructions of nine, by its place behind them. Which registers
    that code has is not known; here they are others, in other banks, which moves a cost by a cycle or two: six in ten
    are exact. With the registers that ran, all are (test_pieces.py)."""
    streams = {row["matrix"]: float(row["cycles"]) for row in rows("stream") if row["warps"] == "1"}
    off = []
    for row in rows("third"):
        if row["warps"] != "1" or row["other"] == "ld.v4":
            continue
        name, at = row["matrix"], int(row["at"])
        every = 4 + 2 * ("full" in name) + 2 * name.startswith("sp")
        behind = [("matrix", at), (row["other"], every - at)]
        body = [
            item for place in range(10) for item in (behind if place % 3 == 1 and place < 9 else [("matrix", every)])
        ]
        found = cycles(name, body) - cycles(name, [("matrix", every)] * 10)
        off.append(abs(found - (float(row["cycles"]) - streams[name])))
    assert len(off) == 285
    assert sum(error < 0.5 for error in off) > 0.6 * len(off)
    assert sum(error < 2.5 for error in off) > 0.87 * len(off)


@pytest.mark.parametrize("name", MATRIX)
def test_port_that_is_never_free(name: str) -> None:
    """Stores of four registers and matrix instructions in turn: the port takes 10 cycles for the one, and for the other
    what the config says."""
    measured = {
        int(row["count"]): float(row["cycles"])
        for row in rows("free")
        if (row["matrix"], row["other"]) == (name, "st.v4")
    }
    found = {
        count: cycles(name, [item for _ in range(12) for item in (("matrix", 1), *[("st.v4", 1)] * count)])
        for count in (1, 2)
    }
    assert measured[2] - measured[1] == 12 * 10
    assert abs(found[2] - found[1] - 12 * 10) <= 1  # the loop's end
    form = H100.tensor_class(isa.mma_form(MATRIX[name]))
    assert form is not None
    assert measured[1] / 12 - 10 == form.port
    assert abs(found[1] - measured[1]) <= 16  # the loop's end


def among(stream: str, other: str, count: int, warps: int) -> float:
    """Cycles of 24 loads of each warp: after each `count` of `stream` comes one of `other`."""
    body = ([stream] * count + [other]) * (24 // (count + 1))
    items: list[TimedOperation | TimedLoop] = [operation(name, 2) for name in body]
    for item in items:
        assert isinstance(item, TimedOperation)
        assert item.costs
        item.costs = dict.fromkeys(range(warps), item.costs[0])
    found = []
    for runs in (20, 60):
        end = TimedLoop(0, runs, 0, 0)
        code = TimedCode(tuple(range(warps)), [*items, end], nesting([*items, end]), {0: end}, scheduled=True)
        found.append(simulate(H100, [code], warps).cycles)
    return (found[1] - found[0]) / 40


@exhaustive
def test_loads_of_two_kinds() -> None:
    """Loads whose registers come together among others whose registers come one by one, as many as there is room for
    (rules found with other codes, test_oldest.py): streams on all sub-cores, 2 to 4 warps on each, against an H100."""
    off: dict[tuple[str, str], list[float]] = {}
    for row in rows("loads"):
        if row["sub_cores"] == "0123" and row["warps"] != "4":
            found = among(row["matrix"], row["other"], int(row["count"]), int(row["warps"]))
            off.setdefault((row["matrix"], row["other"]), []).append(found / float(row["cycles"]) - 1)
    errors = [abs(error) for errors in off.values() for error in errors]
    assert len(errors) == 132
    assert max(errors) < 0.04
    assert sum(errors) / len(errors) < 0.011
    vectors = off["ldmatrix.x4", "ld.v4"]
    assert sum(map(abs, vectors)) / len(vectors) < 0.012  # 0.034 if there was always room
