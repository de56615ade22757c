"""README.md: every number of its table of evidence is what the command beside it prints, and it has no other numbers
that would have to be kept true by hand."""

from __future__ import annotations

import re
import tomllib

import pytest

from simulator.lessons.catalogue import lessons
from tests.golden import compare_programs, evidence
from tests.support.cases import exhaustive
from tests.support.paths import ROOT

TEXT = evidence.README.read_text(encoding="utf-8")
QUICK = ("compare.py", "compare_mmasim", "layout --check")  # commands of less than a second


def test_the_table_has_the_rows_of_the_evidence() -> None:
    head, rows = evidence.shown()[:2], evidence.shown()[2:]
    assert tuple(head) == evidence.HEAD
    assert [row.split(" | ")[0] for row in rows] == [f"| {row.claim}" for row in evidence.ROWS]


@pytest.mark.parametrize("quick", [True, pytest.param(False, marks=exhaustive)])
def test_its_numbers_are_those_that_the_commands_print(quick: bool) -> None:
    """Errors of the timing model are those of the record, to which CI holds `tcsim validate --short`. Of the other
    commands the quick ones run by default, the rest in CI."""
    checked = 0
    for row, shown in zip(evidence.ROWS, evidence.shown()[2:], strict=True):
        numbers = row.recorded() if quick else None
        if not row.group[0] and any(part in row.command for part in QUICK) == quick:
            numbers = row.printed()
        if numbers is not None:
            assert shown == row.line(numbers), row.command
            checked += 1
    assert checked == (len(evidence.ROWS) - 6 if quick else 6)


@exhaustive
def test_cycles_of_an_h100_stand_beside_simulated_ones(capsys: pytest.CaptureFixture[str]) -> None:
    compare_programs.main()
    shown = re.findall(r"^(?:trace|digits)\S* .*(?:%|error)$", TEXT, re.MULTILINE)
    assert len(shown) == 4
    assert set(shown) <= set(capsys.readouterr().out.splitlines())


def test_words_have_no_other_numbers() -> None:
    """What stands in code blocks is run by test_docs.py; what is left is no measurement."""
    words = re.sub(r"```.*?```|`[^`]*`|<!-- generated.*?<!-- end -->|\]\([^)]*\)", " ", TEXT, flags=re.DOTALL)
    found = set(re.findall(r"(?<![\w.])\d[\d,.:]*\d|(?<![\w.])\d", words))
    python = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"].removeprefix(">=")
    assert found <= {python, "2:4", "5", "13", "0", "1", "2", "3", "2.0"}, found
    assert "lists fourteen lessons" in words
    assert len(lessons()) == 14


def test_the_first_screen() -> None:
    """What it is, one picture, two commands, and Python, before anything else."""
    first = TEXT.partition("## ")[0]
    assert first.count("![") == 1 == TEXT.count("![")
    assert len(re.findall(r"^make ", first, re.MULTILINE)) == 2
    assert len(re.findall(r"^>>> ", first, re.MULTILINE)) == 5
    assert TEXT.partition("## ")[2].startswith("Evidence")
    assert len(TEXT) < 10_000
