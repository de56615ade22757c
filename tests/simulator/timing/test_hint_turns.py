"""Which of two warps issues next that both want the pipe of integers: as measured (tests/hardware/contested.py), and as
simulated."""

from __future__ import annotations

from collections import Counter

from isa.forms.record import Unit
from simulator.studies.validation.machine_code import machine_loop
from simulator.studies.validation.streams import repeated
from simulator.tables import read_rows
from simulator.timing.config import load_config
from simulator.timing.engine import simulate
from simulator.timing.model import TimedOperation
from simulator.timing.observer import TimingObserver
from tests.support.paths import TESTS

H100 = load_config("h100_sxm")
LENGTH, TURNS = 54, 40  # instructions of a loop that take the pipe, and runs of it
CORES = H100.sm.sub_cores


class Issues(TimingObserver):
    """When the warps of the first sub-core issue to the pipe, and whether that had the hint."""

    steps_until = 1 << 40

    def __init__(self) -> None:
        self.all: list[tuple[int, int, bool]] = []

    def issue(self, core, warp, operation: TimedOperation, now, stalls) -> None:  # type: ignore[no-untyped-def]
        if warp.id % CORES == 0 and operation.unit is Unit.ALU and operation.writes == (40,):
            self.all.append((now, warp.id // CORES, operation.yields))


def simulated(every: int) -> Counter[tuple[bool, int, bool]]:
    """Loops in which every so manieth instruction has the hint (0: none): how often, by whether the last instruction
    had it and the cycles since the other warp's last, the same warp goes on (True)."""
    hints = [int(every > 0 and place % every == every - 1) for place in range(LENGTH)]
    body = [["alu", 1 + hint, [40], [], [hint], []] for hint in hints]
    body += [["imad", 6, [24], [24], [0], [[0, 24, 0]]], ["alu", 13, [256], [24], [1, 27], [[0, 24, 0]]]]
    loop, seen = machine_loop(H100, body, []), Issues()
    starts = [7 * (warp // CORES) for warp in range(2 * CORES)]
    code = repeated(loop.code, range(2 * CORES), TURNS)
    simulate(H100, [code], 2 * CORES, loop.registers, starts=starts, observer=seen)
    found: Counter[tuple[bool, int, bool]] = Counter()
    issued, before = [0, 0], (-9, 0, False)
    last = [-99, -99]
    for now, warp, hint in seen.all:
        other = 1 - before[1]
        within = all(count % LENGTH for count in issued)  # neither is at the end of its loop
        if now == before[0] + 2 and within:
            found[before[2], now - last[other], warp == before[1]] += 1
        issued[warp], last[warp], before = issued[warp] + 1, now, (now, warp, hint)
    return found


def measured() -> Counter[tuple[bool, int, bool]]:
    """The same of the H100: two warps that both had the hint when they issued last, or the last one had none."""
    found: Counter[tuple[bool, int, bool]] = Counter()
    for row in read_rows(TESTS / "hardware" / "results" / "contested.csv"):
        if row["warps"] == "2" and row["hinted"] == "1" == row["others"] and row["code"] != "hint-1":
            found[row["hint"] == "1", int(row["waited"]), row["what"] == "on"] += int(row["count"])
    return found


def goes_on(found: Counter[tuple[bool, int, bool]], hint: bool, least: int, most: int) -> float:
    """The part of the decisions in which the last warp goes on."""
    chosen = {key: count for key, count in found.items() if key[0] == hint and least <= key[1] <= most}
    assert sum(chosen.values()) >= 20
    return sum(count for key, count in chosen.items() if key[2]) / sum(chosen.values())


def test_the_last_goes_on_unless_the_other_has_rested() -> None:
    """Without a hint always; with it while the other's last instruction is up to 10 cycles old, then in about every
    second decision, and not from 24 cycles on."""
    ours: Counter[tuple[bool, int, bool]] = Counter()
    for every in (2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 16):
        ours.update(simulated(every))
    for found in (ours, measured()):
        assert goes_on(found, False, 0, 999) == 1
        assert goes_on(found, True, 0, 8) > 0.95
        assert 0.35 < goes_on(found, True, 12, 20) < 0.65
        assert goes_on(found, True, 24, 999) < 0.01


def test_one_without_the_hint_always_comes() -> None:
    """Measured: of all decisions between a warp that had the hint and others of which one had none, that one."""
    rows = read_rows(TESTS / "hardware" / "results" / "contested.csv")
    chosen = [row for row in rows if row["hint"] == "1" and int(row["others"]) > int(row["hinted"])]
    assert sum(int(row["count"]) for row in chosen) > 400
    assert {row["what"] for row in chosen} == {"eager"}
