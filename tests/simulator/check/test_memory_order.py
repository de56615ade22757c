"""The rules of order, each by an example that keeps it and by one that breaks it: those of docs/memory_order.md, whose
text is what the tool prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from simulator.check.memory_model.rules import ORDER
from tests.support.memory_order import FRAME, PAGE, Example, examples, sections
from tests.support.ptxas import PTXAS, assembles

EXAMPLES = examples()
RIGHT = [each for each in EXAMPLES if each.right]
WRONG = [each for each in EXAMPLES if not each.right]


def _name(example: Example) -> str:
    return f"{example.name}-{EXAMPLES.index(example)}"


def test_every_rule_has_its_section_and_both_examples() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert re.findall(r"^## (\d+)\. `([a-z0-9-]+)`$", text, re.MULTILINE) == [
        (str(number), name) for number, name in enumerate(ORDER, 1)
    ]
    for name, section in sections().items():
        rule = ORDER[name]
        assert f"{rule.rule[0].upper()}{rule.rule[1:]}.\n\nStated in: {rule.section}.\n" in section, name
        assert {each.right for each in EXAMPLES if each.name == name} == {True, False}, name
    assert text.count("\n```\n") - 2 * len(WRONG) == len(RIGHT) + len(WRONG) + len(RIGHT)  # each block is an example
    assert FRAME.count("\n") == 10


@pytest.mark.parametrize("example", RIGHT, ids=_name)
def test_what_keeps_a_rule_is_not_accused(tmp_path: Path, example: Example) -> None:
    report = example.check(tmp_path)
    assert report.clean, report.table()
    notes = {finding.rule for finding in report.findings}
    assert ("benign-race" in notes) == (example.name == "same-value")


@pytest.mark.parametrize("example", WRONG, ids=_name)
def test_what_breaks_a_rule_is_named_with_both_lines(tmp_path: Path, example: Example) -> None:
    report = example.check(tmp_path)
    (finding,) = (each for each in report.findings if each.serious)
    named = {finding.line, *(int(line) for line in re.findall(r"\bline (\d+)", finding.what))}
    assert (finding.rule, named) == (example.finding, set(example.lines))
    if finding.other is not None:
        assert {finding.line, finding.other.line} == named
    assert finding.states
    assert finding.section
    assert example.text(report) == example.printed


@pytest.mark.skipif(PTXAS is None, reason="needs ptxas")
@pytest.mark.parametrize("target", sorted({each.target for each in EXAMPLES}))
def test_ptxas_takes_the_examples(target: str) -> None:
    for example in EXAMPLES:
        if example.target == target:
            good, said = assembles(example.ptx, target)
            assert good, f"{example.name}: {said}"
