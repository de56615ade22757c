"""Returns that wait for each other, and jumps of two warps of a sub-core that meet: against clocks of an H200
(measurements/measure_jumps.py)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from simulator.studies.validation.machine_code import loops, machine_loop
from simulator.timing.core_records import SmRecord
from simulator.timing.engine import simulate
from simulator.timing.operands import MEMBER, PROGRAM, Reads
from simulator.timing.records import NEVER, plain
from simulator.timing.returns import Returns
from tests.support.cases import examples
from tests.support.jumping import Segment, codes, later, operations, over_jump, segments, whole
from tests.support.stepping import BEGIN, readings, reads
from tests.support.stepping import late as off
from tests.support.stepping import loops as clocked
from tests.support.straight_code import CLOCK, H100, read_clocks

CROWDED = [code for code in codes() if code["kind"] == "crowded"]
FACING = [code for code in codes() if code["kind"] == "facing"]
TIES = [code for code in codes() if code["kind"] == "ties"]
READS = [code for code in codes() if code["kind"] == "reads"]
SUB_CORES, FAR = 4, 1000  # cycles behind other returns
CLOSE = 16  # cycles between two jumps that may meet


class Return(SimpleNamespace):
    """A warp that returns."""

    def __init__(self, at: int, back: int, core: int) -> None:
        super().__init__(
            at=at, back=back, core=core, cta=0, redirected=NEVER, issue_not_before=at + returns(), gone=NEVER
        )


def returns() -> int:
    assert H100.sequences is not None
    return H100.sequences.returns


def returned(code: dict[str, Any]) -> list[Any]:
    """The returns of a code, in order."""
    found = []
    for warp, (stream, read) in enumerate(zip(code["streams"], code["clocks"], strict=True)):
        own = segments(stream, read)
        found += [Return(one.jump, min(other.clocks.values()), warp % SUB_CORES) for one, other in pairwise(own)]
    return sorted(found, key=lambda each: each.at)


def order(code: dict[str, Any]) -> list[int]:
    """The sub-cores by when each has returned last in the round before, which was the same."""
    return sorted(range(SUB_CORES), key=lambda core: max(read[-1] for read in code["clocks"][core::SUB_CORES]))


def late(code: dict[str, Any]) -> Counter[int]:
    """How many returns are by how many cycles later than the SM's unit for itself says."""
    found, record = returned(code), plain(SmRecord)()
    record.sms = 1
    cores: Any = [SimpleNamespace(return_taken=0, return_until=0, settle=lambda now: None) for _ in range(SUB_CORES)]
    unit = Returns(H100.sequences, record, found, cores)
    for place, core in enumerate(order(code)):
        cores[core].return_taken = place - SUB_CORES - FAR
    for each in found:
        unit.ask(each, each.at)
    return Counter(each.back - each.issue_not_before for each in found)


def test_the_unit_alone() -> None:
    """Of 21,600 returns of four warps that are seldom together, and 12,800 that are, each is as late as the unit says;
    of 8,000 of eight warps, whose instructions wait for each other as well, 7,658 at least."""
    apart = [code for code in codes() if code["kind"] == "apart R"]
    four = [code for code in CROWDED if len(code["clocks"]) == SUB_CORES]
    eight = [code for code in CROWDED if len(code["clocks"]) == 2 * SUB_CORES]
    assert sum((late(code) for code in apart), Counter()) == {0: 21_600}
    assert sum((late(code) for code in four), Counter()) == {0: 12_800}
    found = sum((late(code) for code in eight), Counter[int]())
    assert found.total() == 8_000
    assert found[0] >= 7_658


def test_four_warps_that_return() -> None:
    """Every clock of 400 codes, or of the first hundred, from the first one on; before it each warp returns once, in
    the order of the round before."""
    four = [code for code in CROWDED if len(code["clocks"]) == SUB_CORES]
    assert len(four) == 400
    for code in four[: examples(400, 100)]:
        starts = [20 * order(code).index(warp) for warp in range(SUB_CORES)]
        own = {}
        for warp, stream in enumerate(code["streams"]):
            wait = FAR + code["clocks"][warp][0] - starts[warp] - returns()
            before = operations([("R", 6, False), ("N", wait, False)], [stream[0][0]] * 2)
            own[warp] = [*before, *whole(stream)]
        read = read_clocks(own, starts)
        assert [[clock - FAR for clock in each] for each in read] == code["clocks"]


def met(pair: Sequence[tuple[Segment, Segment]]) -> list[list[int]]:
    """By how many cycles the clocks of two warps of a sub-core are off in the simulation, from the first clock of a
    segment to the first of the next."""
    return later({warp: over_jump(*each) for warp, each in zip((0, SUB_CORES), pair, strict=True)})


def test_jumps_that_meet() -> None:
    """Of two jumps of a sub-core within 16 cycles of each other, whose own clocks are as measured, 859 of 1,076 have
    both targets as measured."""
    found = Counter[bool]()
    for code in FACING:
        one, other = (segments(*each) for each in zip(code["streams"], code["clocks"], strict=True))
        for number in range(len(one) - 1):
            pair = [(own[number], own[number + 1]) for own in (one, other)]
            if abs(pair[0][0].jump - pair[1][0].jump) > CLOSE:
                continue
            off = met(pair)
            if not any(cycles for each in off for cycles in each[:-1]):
                found[off[0][-1] == off[1][-1] == 0] += 1
    assert found.total() == 1_076
    assert found[True] >= 859


def comes(one: Segment) -> int:
    """When the target of a segment's jump issues, if nothing holds that up."""
    assert H100.sequences is not None
    return one.jump + (H100.sequences.returns if one.items[-1][0] == "R" else H100.sequences.call)


def test_a_return_and_a_branch_that_meet() -> None:
    """Of a return and a branch or call of two warps of a sub-core, whose own clocks are as measured, 1,409 of 1,547
    have both targets as measured, and 19 of 21 whose targets come in one cycle."""
    found, together = Counter[bool](), Counter[bool]()
    for code in TIES:
        one, other = (segments(*each) for each in zip(code["streams"], code["clocks"], strict=True))
        for number in range(len(one) - 1):
            off = met([(own[number], own[number + 1]) for own in (one, other)])
            if not any(cycles for each in off for cycles in each[:-1]):
                found[off[0][-1] == off[1][-1] == 0] += 1
                if comes(one[number]) == comes(other[number]):
                    together[off[0][-1] == off[1][-1] == 0] += 1
    assert (found.total(), together.total()) == (1_547, 21)
    assert found[True] >= 1_409
    assert together[True] >= 19


def to_end(streams: list[Any]) -> list[list[Any]]:
    """The streams with the jump behind each, to where all end."""
    end = max(address + len(text.split()) + 2 for stream in streams for address, text in stream)
    return [[*stream[:-1], [stream[-1][0], stream[-1][1] + " B5"], [end, "N15h N15h N15h"]] for stream in streams]


def left_at(monkeypatch: pytest.MonkeyPatch) -> dict[int, list[int]]:
    """When the clocks of each warp leave the stages, less the cycles that these take."""
    found: dict[int, list[int]] = defaultdict(list)
    leave = Reads.leave

    def left(self: Reads, at: int, cycle: int) -> None:
        if place := self.stages[at + PROGRAM]:
            warp = self.mine[self.stages[at + MEMBER]]
            if warp.operation_at(place - 1).line == CLOCK:
                found[warp.id].append(cycle + 1 - self.depth - BEGIN)
        leave(self, at, cycle)

    monkeypatch.setattr(Reads, "leave", left)
    return found


def ends(code: dict[str, Any], found: dict[int, list[int]]) -> int | None:
    """By how many cycles the last clock of the warp beside one that returns comes later in the simulation, if the clock
    before the return comes in the same cycle, for which its warp may begin sooner or later than it did; None if it does
    not."""
    returning, other = code["clocks"]
    begin = returning[0]
    for _ in range(5):
        found.clear()
        programs = {SUB_CORES * warp: whole(stream) for warp, stream in enumerate(to_end(code["streams"]))}
        read_clocks(programs, [BEGIN + begin, 0, 0, 0, BEGIN + other[0]])
        if found[0][1] == returning[1]:
            return found[SUB_CORES][-1] - other[-1]
        begin += returning[1] - found[0][1]
    return None


@pytest.mark.parametrize(("every", "exact"), [(9, 110), pytest.param(1, 979, marks=pytest.mark.exhaustive)])
def test_registers_of_returns(every: int, exact: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One to six instructions of three registers of one bank, in the cycles around a return of another warp: as late as
    measured in 979 of 1,080 codes, since the return reads an even and an odd register in cycles of its own. In others a
    warp issues in another order before."""
    clocks = left_at(monkeypatch)
    late = Counter(ends(code, clocks) for code in READS[::every])
    assert late.total() == {9: 120, 1: 1_080}[every]
    assert late[0] >= exact


@pytest.mark.parametrize(("warps", "iterations"), [(5, 1000), (8, 200)])
def test_repetitions_of_returns_are_skipped(warps: int, iterations: int) -> None:
    """What is left out of loops that return changes nothing."""
    forms, known = loops()
    body = next(entry["body"] for entry in known if entry["name"] == "mma_mma_m16n8k32_s32_u4_u4_c4_none")
    loop = machine_loop(H100, body, forms)
    code = replace(loop.code, warps=tuple(range(warps)))
    (end,) = code.ends.values()
    end.count = iterations
    starts = [3 * warp for warp in range(warps)]
    skipped, every = (simulate(H100, [code], warps, skip=skip, starts=starts) for skip in (True, False))
    assert skipped.cycles == every.cycles
    assert skipped.skipped > 0
    assert skipped.waits == every.waits


@pytest.mark.parametrize(("iteration", "exact"), [(1, 248), pytest.param(2, 201, marks=pytest.mark.exhaustive)])
def test_reads_that_matrix_instructions_wait_for(iteration: int, exact: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four sub-cores return in one cycle, and matrix instructions wait for what they read: clocks of eight warps in all
    four calls (measurements/measure_known_starts.py). Those that are not as measured in the first iteration stand in
    the place of its last copies."""
    (loop,) = (loop for loop in clocked("known_starts.json.gz") if loop["clocks"])
    found, every = reads(monkeypatch), list(readings(loop, iteration))
    late = [cycles for reading in every for _, cycles in off(loop, reading, found, range(2 * SUB_CORES))]
    assert len(late) == 256
    assert late.count(0) >= exact
