"""How warps that jump get their instructions: against clocks of an H200 (tests/hardware/fetched.py), and machine code
at other places of the memory (placed.py) on an H100."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from simulator.chip.config import load_config
from simulator.studies.validation.machine_code import ADDRESS, loops, machine_loop
from simulator.studies.validation.streams import Loop
from simulator.tables import read_rows
from tests.support.jumping import codes, items, segments
from tests.support.paths import TESTS

H100 = load_config("h100_sxm")
RESULTS = TESTS / "hardware" / "results"
CODES = codes()
PLACED = read_rows(RESULTS / "placed.csv")
LENGTHS = {"mma_mma_m8n8k32_s32_s4_s4_c1_none": 11, "mma_mma_m8n8k32_s32_s4_s4_c2_none": 27}  # of loops; others: 43
FIRST = 60  # where a loop of placed.py begins that is moved on by nothing


def clocks(stream: list[Any]) -> list[int]:
    """What one warp reads, by the plain rule: the target of a jump issues 10 cycles behind it, the next line 3 more."""
    assert H100.sequences is not None
    assert H100.fetch is not None
    behind = H100.fetch.request + 1  # from the fetch of the target, which is taken at once, to that of the next line
    now, free, read = 0, 0, list[int]()
    for address, text in stream:
        line, there = address // H100.fetch.line, now + behind
        for place, (kind, wait, hint) in enumerate(items(text), address):
            if place // H100.fetch.line == line + 1:
                now = max(now, there)
            if kind == "C":
                now = max(now, free)
                read.append(now)
                free = now + 2
            now += max(H100.sequences.call, wait) if kind in "BPL" else max(wait, 1 + hint)
    return read


@pytest.mark.parametrize("kind", ["places", "chains", "mixtures", "kinds", "runup", "pause"])
def test_every_clock_of_one_warp(kind: str) -> None:
    """Of code that the cache has, without returns."""
    found = [code for code in CODES if code["kind"] == kind and code["warps"] == 1]
    found = [code for code in found if not any("R" in text for _, text in code["streams"][0])]
    assert len(found) > 50
    for code in found:
        read, measured = clocks(code["streams"][0]), code["clocks"][0]
        late = [b - a for a, b in zip(read, measured, strict=True)]
        assert len(set(late)) == 1 or kind == "kinds", (code["streams"], late)
    if kind == "kinds":  # two of the first calls of a kernel miss the cache
        assert (
            sum(len({b - a for a, b in zip(clocks(c["streams"][0]), c["clocks"][0], strict=True)}) > 1 for c in found)
            < 8
        )


def test_calls_of_sub_cores_do_not_meet() -> None:
    assert H100.sequences is not None
    took = set[int]()
    for code in (code for code in CODES if code["kind"] == "apart L"):
        for stream, read in zip(code["streams"], code["clocks"], strict=True):
            took |= {there.clocks[0] - one.jump for one, there in pairwise(segments(stream, read))}
    assert took == {H100.sequences.call}


def moved(name: str, place: int) -> Loop:
    """A loop of placed.py: loop and routine so many instructions further on."""
    forms, known = loops()
    body = [list(row) for row in next(entry for entry in known if entry["name"] == name)["body"]]
    first = body[0][ADDRESS]
    routine = body[next(i for i, row in enumerate(body) if row[0] == "call") + 1][ADDRESS]
    inside = False
    for row in body:
        begin = FIRST + place + (LENGTHS.get(name, 43) + 4) * inside
        row[ADDRESS] += begin - (routine if inside else first)
        inside = row[0] == "call" or (inside and row[0] != "return")
    return machine_loop(H100, body, forms)


@pytest.mark.parametrize("name", sorted({row["program"] for row in PLACED}))
def test_the_place_of_code_in_memory(name: str) -> None:
    """One warp takes by its place as many cycles more as on the chip."""
    measured = {
        int(row["place"]): float(row["cycles_per_iteration"])
        for row in PLACED
        if row["program"] == name and row["warps"] == "1"
    }
    simulated = {place: moved(name, place).difference(1, (24, 88)) / 64 for place in measured}
    assert {place: cycles - simulated[0] for place, cycles in simulated.items()} == {
        place: cycles - measured[0] for place, cycles in measured.items()
    }
    assert abs(simulated[0] / measured[0] - 1) < 0.015


def test_both_engines_fetch_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = moved("mma_mma_m16n8k32_s32_u4_u4_c4_none", 3)
    found = [[loop.cycles(warps, 5, [7 * warp for warp in range(warps)]) for warps in (1, 5, 9, 13)]]
    monkeypatch.setattr("simulator.timing.compiled.available", lambda: False)
    found.append([loop.cycles(warps, 5, [7 * warp for warp in range(warps)]) for warps in (1, 5, 9, 13)])
    assert found[0] == found[1]


def test_without_addresses_nothing_is_fetched() -> None:
    """The table changes nothing where it is not known where instructions lie."""
    forms, known = loops()
    entry = next(entry for entry in known if entry["name"] == "mma_mma_m16n8k32_s32_u4_u4_c4_none")
    body = [row[:ADDRESS] for row in entry["body"]]
    without = replace(H100, fetch=None)
    assert machine_loop(H100, body, forms).cycles(8, 5) == machine_loop(without, entry["body"], forms).cycles(8, 5)
