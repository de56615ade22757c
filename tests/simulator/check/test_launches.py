"""`tcsim check` of launches: ten planted bugs, each named with its line; the kernel without them is clean."""

from __future__ import annotations

import json
from collections.abc import Callable

import simulator
from simulator.check.launches import check_launch
from tests.support.cases import exhaustive, over
from tests.support.paths import GOLDEN

Tcsim = Callable[..., tuple[int, str, str]]
PLANTED = GOLDEN / "planted"
BUGS = {  # bug of spmm.cu: rule, opcode at the line
    1: ("wrong-result", "mma.sp", "selector"),
    2: ("wrong-result", "mma.sp", "swap"),
    3: ("shared-memory-race", "", ""),
    4: ("async-pending", "", ""),
    5: ("out-of-bounds", "", ""),
    6: ("unordered-metadata", "mma.sp", ""),
    7: ("wrong-result", "mma.sp", "row"),
    8: ("bank-conflict", "ldmatrix", ""),
    9: ("read-before-write", "mma.sp", ""),
    10: ("misaligned", "ldmatrix", ""),
}


def test_the_kernel_without_bugs_is_clean_and_gives_the_bytes_of_the_chip(tcsim: Tcsim) -> None:
    code, out, _ = tcsim("check", str(PLANTED / "bug0.json"), "--format", "json")
    assert code == 0
    assert json.loads(out)["findings"] == []
    assert not simulator.launch(PLANTED / "bug0.json").differences


@exhaustive
@over("bug", sorted(BUGS), distinct=lambda bug: BUGS[bug][0])
def test_planted_bugs_are_named_with_their_line(bug: int) -> None:
    found = check_launch(PLANTED / f"bug{bug}.json")
    rule, opcode, words = BUGS[bug]
    matching = [each for each in found.findings if rule in each.rule]
    assert matching, found.table()
    finding = matching[0]
    assert finding.line > 0
    assert finding.source.endswith(tuple("0123456789"))
    assert opcode in finding.instruction
    assert words in f"{finding.what} {finding.fix}"
    assert found.clean == (bug == 8)


def test_on_the_command_line(tcsim: Tcsim) -> None:
    code, out, _ = tcsim("check", str(PLANTED / "bug4.json"))
    assert code == 1
    assert "async-pending" in out
